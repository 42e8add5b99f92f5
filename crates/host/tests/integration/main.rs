//! The host stack over real sockets.

mod driver;
mod files;
mod hostile;
mod support;
