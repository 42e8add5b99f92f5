//! Nodes and links. A port and the one-directional link that leaves from it share one id.

use punctual_core::{Bytes, Duration, HostId, NodeId, PortId, Rate};

/// Where in a network a link is, for defaults and statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// From a host's NIC into the network.
    HostUp,
    /// From a top-of-rack switch towards the core.
    RackUp,
    /// From an aggregation switch to the core.
    PodUp,
    /// From the core down.
    CoreDown,
    /// From an aggregation switch to a rack.
    PodDown,
    /// From a switch to a host.
    HostDown,
    /// Between switches of a network without tiers.
    Middle,
}

/// A one-directional link and the output port that feeds it.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The node whose port it is.
    pub from: NodeId,
    /// The node it leads to.
    pub to: NodeId,
    /// The link in the opposite direction.
    pub twin: PortId,
    /// Line rate.
    pub rate: Rate,
    /// From the last bit sent to the packet ready in the next node: propagation and the next
    /// node's processing.
    pub delay: Duration,
    /// Where it is.
    pub tier: Tier,
}

/// A network, without any state that changes while it runs.
#[derive(Clone, Debug)]
pub struct Network {
    /// Number of hosts; they are nodes 0 to `hosts`−1.
    pub hosts: u32,
    /// Links by port id.
    pub links: Vec<Link>,
    /// Largest IP packet.
    pub mtu: Bytes,
    /// Bytes each link adds to each packet.
    pub framing: Bytes,
    /// Name of each node, for messages.
    pub names: Vec<String>,
    /// Each host's NIC port.
    pub nics: Vec<PortId>,
}

impl Network {
    /// The port by which a host sends.
    pub fn nic(&self, host: HostId) -> PortId {
        self.nics[host.index()]
    }
}
