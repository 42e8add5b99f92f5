//! The network: hosts, switches, links, the ways between them, and the queues at output ports.

mod clos;
mod network;
mod queue;

pub use clos::{ClosLinks, ClosShape};
pub use network::{Link, Network, Tier};
pub use queue::{Fate, Fates, InService, Queue, TRIMMED_BYTES};
