//! The network: hosts, switches, links, routes, and the queues of output ports.

mod bcube;
mod clos;
mod hpcc;
mod jellyfish;
mod k_shortest;
mod lossless;
mod network;
mod port;
mod queue;
mod table;
mod topology;

pub use bcube::{BcubeError, BcubeShape};
pub use clos::{ClosLinks, ClosShape};
pub use hpcc::HpccError;
pub use jellyfish::{JellyfishError, JellyfishLinks, JellyfishShape};
pub use lossless::{
    Admission, IngressAccount, LosslessLimits, PAUSE_FRAME_BYTES, SharedBuffer, lossless_mistake,
};
pub use network::{Link, Network, Tier, clocked};
pub use port::{Port, PortContext, Scheduled, Sent, Wire};
pub use queue::{Fate, Fates, InService, Queue, TRIMMED_BYTES};
pub use table::{MAX_PAIRS, MAX_PATHS, MAX_PORTS, RouteError, RouteTable, SampledPaths};
pub use topology::{Dumbbell, LinkEntry, NodeEntry, Topology, TopologyError, TopologyFile};
