//! The host stack over real sockets.
#![allow(non_snake_case)]

mod attacks;
mod driver;
mod endpoint;
mod files;
mod hostile;
mod packet_socket;
mod processes;
mod support;
