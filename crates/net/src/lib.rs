//! The network: hosts, switches, links, the ways between them, and the queues at output ports.

mod network;
mod table;
mod topology;

pub use network::{Link, Network, Tier};
pub use table::{MAX_PAIRS, MAX_PATHS, MAX_PORTS, RouteError, RouteTable};
pub use topology::{Dumbbell, LinkEntry, NodeEntry, Topology, TopologyError, TopologyFile};
