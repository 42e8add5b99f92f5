//! The network: hosts, switches, links, the ways between them, and the queues at output ports.

mod network;

pub use network::{Link, Network, Tier};
