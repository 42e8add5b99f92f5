//! The host stack over real sockets.
#![allow(non_snake_case)]

mod attacks;
mod driver;
mod endpoint;
mod files;
mod findings;
mod flood;
mod granted;
mod hostd;
mod hostd_faults;
mod hostd_files;
mod hostile;
mod many_files;
mod packet_socket;
mod paths;
mod peer_errors;
mod processes;
mod rates;
mod replays;
mod requests;
mod support;
mod tokio_face;
mod versions;
