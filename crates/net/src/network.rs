//! Nodes and links. A port and the one-directional link that leaves from it share one id.

use crate::bcube::Bcube;
use crate::clos::Clos;
use crate::k_shortest::KShortest;
use crate::{RouteError, RouteTable, SampledPaths, Topology};
use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, Duration, FlowId, Header, HostId, NicInfo, NodeId, Packet, PacketFlags, PortId, Rate,
    Tolerance,
};

/// The tier of a link, for defaults and statistics.
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
    /// The node that sends on it.
    pub from: NodeId,
    /// The node it leads to.
    pub to: NodeId,
    /// The port of the opposite direction; `Network::new` sets it.
    pub twin: PortId,
    /// Line rate.
    pub rate: Rate,
    /// Time from the last bit sent until the next node has the packet ready: propagation plus
    /// the next node's processing.
    pub delay: Duration,
    /// The tier it belongs to.
    pub tier: Tier,
}

/// The static description of a network: links, routes and names, but no queues.
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
    /// The NIC ports of each host, host by host; every host has as many.
    nics: Vec<PortId>,
    nics_per_host: u32,
    routing: Routing,
}

/// How routes are found: computed for regular trees and BCubes, looked up for any other shape.
#[derive(Clone, Debug)]
pub(crate) enum Routing {
    Clos(Clos),
    Table(RouteTable),
    Bcube(Bcube),
    KShortest(KShortest),
}

/// A path with more links than this is a loop.
const LINKS_MAX: usize = 255;

impl Network {
    /// A network of any shape, with a precomputed route table.
    pub fn from_topology(
        topology: Topology,
        mtu: Bytes,
        framing: Bytes,
    ) -> Result<Self, RouteError> {
        let Topology { hosts, names, links } = topology;
        one_link_each(hosts, &links)?;
        let table = RouteTable::build(hosts, names.len() as u32, &links)?;
        Ok(Network::new(hosts, names, links, mtu, framing, Routing::Table(table)))
    }

    /// Assembles a network. Links come in pairs of opposite directions. Among parallel links, the
    /// n-th of one direction is the twin of the n-th of the other.
    pub(crate) fn new(
        hosts: u32,
        names: Vec<String>,
        mut links: Vec<Link>,
        mtu: Bytes,
        framing: Bytes,
        routing: Routing,
    ) -> Self {
        pair_up(&mut links);
        let mut nics: Vec<(NodeId, PortId)> = Vec::with_capacity(hosts as usize);
        for (port, link) in links.iter().enumerate() {
            if link.from.0 < hosts {
                nics.push((link.from, PortId::from(port)));
            }
        }
        nics.sort();
        let nics_per_host = (nics.len() as u32 / hosts.max(1)).max(1);
        let is_even = nics.iter().enumerate().all(|(n, nic)| n as u32 / nics_per_host == nic.0.0);
        assert!(is_even, "every host has the same number of NICs");
        let nics = nics.into_iter().map(|(_, port)| port).collect();
        Network { hosts, links, mtu, framing, names, nics, nics_per_host, routing }
    }

    /// A copy of the network with clock skew: the rate of each port is drawn within `tolerance`
    /// of its nominal rate. The draw depends only on the seed and the port.
    pub fn with_clocks(&self, tolerance: Tolerance, seed: u64) -> Network {
        let mut network = self.clone();
        for (port, link) in network.links.iter_mut().enumerate() {
            link.rate = clocked(link.rate, tolerance, seed, PortId::from(port));
        }
        network
    }

    /// The NIC ports of a host, in the order in which paths are numbered: path p leaves by NIC p
    /// modulo their number.
    #[inline]
    pub fn nics(&self, host: HostId) -> &[PortId] {
        let count = self.nics_per_host as usize;
        &self.nics[host.index() * count..][..count]
    }

    /// The NIC ports of all hosts, host by host.
    #[inline]
    pub fn all_nics(&self) -> &[PortId] {
        &self.nics
    }

    /// Number of NICs of each host.
    #[inline]
    pub fn nics_per_host(&self) -> u32 {
        self.nics_per_host
    }

    /// The first NIC port of a host: the only one, except in a BCube.
    #[inline]
    pub fn nic(&self, host: HostId) -> PortId {
        self.nics[host.index() * self.nics_per_host as usize]
    }

    /// Whether hosts forward packets that are not for them.
    pub fn hosts_forward(&self) -> bool {
        self.nics_per_host > 1
    }

    /// Whether all paths between two hosts are shortest paths.
    pub fn has_equal_paths(&self) -> bool {
        matches!(self.routing, Routing::Clos(_) | Routing::Table(_))
    }

    /// The link of a port.
    #[inline]
    pub fn link(&self, port: PortId) -> &Link {
        &self.links[port.index()]
    }

    /// What transports know about a host's NICs.
    pub fn nic_info(&self, host: HostId) -> NicInfo {
        let rate = self.link(self.nic(host)).rate;
        NicInfo { host, rate, mtu: self.mtu, framing: self.framing, nics: self.nics_per_host }
    }

    /// The number of paths from one host to another. All have the same length, unless
    /// [`has_equal_paths`](Self::has_equal_paths) is false.
    pub fn paths(&self, src: HostId, dst: HostId) -> u32 {
        match &self.routing {
            Routing::Clos(clos) => clos.paths(src, dst),
            Routing::Table(table) => table.paths(src, dst),
            Routing::Bcube(bcube) => bcube.paths(src, dst),
            Routing::KShortest(routes) => routes.paths(src, dst),
        }
    }

    /// The links of path number `path` from `src` to `dst`, the NIC of `src` first.
    ///
    /// `path` is below [`paths`](Self::paths), and `dst` is not `src`.
    pub fn path_links(&self, src: HostId, dst: HostId, path: u32) -> Vec<PortId> {
        let mut packet = Packet::new(FlowId(0), dst, Header::default());
        packet.path = path;
        self.enter(src, &mut packet, |_| 0);
        let mut port = self.first_port(src, &packet);
        let mut ports = vec![port];
        while self.link(port).to != NodeId::from(dst) && ports.len() < LINKS_MAX {
            packet.hop += 1;
            port = self.next_port(self.link(port).to, &mut packet, |_| 0);
            ports.push(port);
        }
        ports
    }

    /// Statistics of host pairs that have more than [`MAX_PATHS`](crate::MAX_PATHS) paths and
    /// use a sample of them. `None` in regular networks, which use all paths.
    pub fn sampled_paths(&self) -> Option<SampledPaths> {
        match &self.routing {
            Routing::Table(table) => table.sampled_paths(),
            Routing::Clos(_) | Routing::Bcube(_) | Routing::KShortest(_) => None,
        }
    }

    /// Encodes the path number of a packet that `src` has just sent in the form that switches
    /// read. `random` draws a number below its argument when the network chooses the path.
    #[inline]
    pub fn enter(&self, src: HostId, packet: &mut Packet, random: impl FnOnce(u32) -> u32) {
        match &self.routing {
            Routing::Clos(clos) => packet.path = clos.encode(packet.path),
            Routing::Table(table) => table.enter(src, packet, random),
            Routing::Bcube(bcube) => bcube.enter(src, packet, random),
            Routing::KShortest(routes) => routes.enter(src, packet, random),
        }
    }

    /// The NIC port by which a packet that has entered the network leaves `src`.
    #[inline]
    pub fn first_port(&self, src: HostId, packet: &Packet) -> PortId {
        match &self.routing {
            Routing::Bcube(bcube) => bcube.next_port(src.into(), packet),
            _ => self.nic(src),
        }
    }

    /// The port by which `packet` leaves `node`, a switch or a host that forwards. `random` draws a
    /// number below its argument when the switch chooses the path.
    #[inline]
    pub fn next_port(
        &self,
        node: NodeId,
        packet: &mut Packet,
        random: impl FnOnce(u32) -> u32,
    ) -> PortId {
        match &self.routing {
            Routing::Clos(clos) => clos.next_port(node, packet, random),
            Routing::Table(table) => table.next_port(packet),
            Routing::Bcube(bcube) => bcube.next_port(node, packet),
            Routing::KShortest(routes) => routes.next_port(packet),
        }
    }

    /// The port by which `packet` will probably leave switch `node`, as a prefetch hint. It may
    /// be wrong when the switch chooses the path, and is `None` except in regular trees.
    #[inline]
    pub fn expected_port(&self, node: NodeId, packet: &Packet) -> Option<PortId> {
        match &self.routing {
            Routing::Clos(clos) => Some(clos.expected_port(node, packet)),
            _ => None,
        }
    }

    /// Sends a packet that was about to leave a switch back along its path. It toggles
    /// [`REVERSE_PATH`](punctual_core::PacketFlags::REVERSE_PATH); the caller has set the
    /// destination.
    pub fn turn_back(&self, packet: &mut Packet) {
        match &self.routing {
            // The reverse path uses the same uplink choices.
            Routing::Clos(_) => {}
            // Digits that the packet has not changed agree with those of its new destination.
            Routing::Bcube(_) => {}
            Routing::Table(table) => table.turn_back(packet),
            Routing::KShortest(routes) => routes.turn_back(packet),
        }
        packet.flags = packet.flags.toggled(PacketFlags::REVERSE_PATH);
    }

    /// Hosts per rack; `None` if the network has no racks.
    pub fn rack_size(&self) -> Option<u32> {
        match &self.routing {
            Routing::Clos(clos) => Some(clos.hosts_per_rack()),
            _ => None,
        }
    }

    /// The names of a port's two ends, for messages.
    pub fn port_name(&self, port: PortId) -> String {
        let link = self.link(port);
        format!("{} → {}", self.names[link.from.index()], self.names[link.to.index()])
    }
}

/// The rate of a port whose clock is drawn within `tolerance` of the `nominal` rate. The relative
/// error of a port's clock does not depend on its nominal rate.
pub fn clocked(nominal: Rate, tolerance: Tolerance, seed: u64, port: PortId) -> Rate {
    if tolerance.is_zero() {
        return nominal;
    }
    tolerance.draw(nominal, &mut Stream::named(seed, "clock", u64::from(port.0)))
}

/// Refuses hosts with several links: the routes of a table would not tell them apart.
fn one_link_each(hosts: u32, links: &[Link]) -> Result<(), RouteError> {
    let mut counts = vec![0; hosts as usize];
    for link in links.iter().filter(|link| link.from.0 < hosts) {
        counts[link.from.index()] += 1;
    }
    match (0..hosts).find(|host| counts[*host as usize] > 1) {
        None => Ok(()),
        Some(host) => {
            Err(RouteError::HostLinks { host: HostId(host), links: counts[host as usize] })
        }
    }
}

fn pair_up(links: &mut [Link]) {
    let mut by_ends: Vec<(NodeId, NodeId, usize)> =
        links.iter().enumerate().map(|(port, l)| (l.from, l.to, port)).collect();
    by_ends.sort();
    let mut by_reverse = by_ends.clone();
    by_reverse.sort_by_key(|&(from, to, port)| (to, from, port));
    for (&(from, to, port), &(rfrom, rto, twin)) in by_ends.iter().zip(&by_reverse) {
        assert!((from, to) == (rto, rfrom), "every link needs one in the opposite direction");
        links[port].twin = PortId::from(twin);
    }
}
