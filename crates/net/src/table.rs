//! Route table for small networks of any shape: every shortest path between every two hosts.
//!
//! A route is the sequence of output ports from the source's NIC to the last switch. All routes of
//! a pair have the same number of hops and are numbered in lexicographic order of their ports.
//! Hosts never forward. A pair with more than [`MAX_PATHS`] routes keeps a uniform sample of them,
//! drawn for the pair. The first ones in order would share their first links and leave others idle.
//!
//! Memory is proportional to pairs × routes × hops. Regular networks of thousands of hosts compute
//! their routes instead.

use crate::Link;
use punctual_core::rng::Stream;
use punctual_core::{HostId, NodeId, Packet, PacketFlags, PortId};
use std::collections::BTreeSet;

/// Most routes kept per pair of hosts. A pair with more keeps a uniform sample.
pub const MAX_PATHS: u32 = 64;

/// Most ordered pairs of hosts in a table: those of 512 hosts.
pub const MAX_PAIRS: u64 = 1 << 18;

/// Most ports of all routes of a table together: 256 MB.
pub const MAX_PORTS: usize = 1 << 26;

/// All shortest routes between all pairs of hosts.
#[derive(Debug, Clone)]
pub struct RouteTable {
    hosts: u32,
    /// Indexed by source, then destination.
    pairs: Vec<Pair>,
    /// The ports of all routes, concatenated.
    ports: Vec<PortId>,
    /// The opposite direction of each port.
    twins: Vec<PortId>,
    sampled: SampledPaths,
}

/// Statistics of host pairs that have more than [`MAX_PATHS`] shortest paths and keep a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampledPaths {
    /// Number of such ordered pairs.
    pub pairs: u64,
    /// The most routes that such a pair has in the network.
    pub most: u64,
    /// Routes that each such pair keeps: [`MAX_PATHS`].
    pub kept: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    /// Index in `ports` of its first route.
    first: u32,
    paths: u16,
    hops: u16,
}

/// Why a route table cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// There are more hosts than nodes.
    #[error("{hosts} hosts but only {nodes} nodes; count hosts as nodes too")]
    Hosts {
        /// Hosts.
        hosts: u32,
        /// Nodes.
        nodes: u32,
    },
    /// A link names a node that does not exist.
    #[error("link {port} leads from node {from} to node {to}, but there are {nodes} nodes")]
    Node {
        /// The link.
        port: PortId,
        /// The node it leaves.
        from: NodeId,
        /// The node it leads to.
        to: NodeId,
        /// Nodes.
        nodes: u32,
    },
    /// Two links are not each other's opposite direction.
    #[error("link {port} names link {twin} as its opposite direction, but it is not")]
    Twin {
        /// The link.
        port: PortId,
        /// The link it names as its opposite.
        twin: PortId,
    },
    /// A host has several links.
    #[error("host {host} has {links} links; hosts of such a network have one")]
    HostLinks {
        /// The host.
        host: HostId,
        /// How many it has.
        links: u32,
    },
    /// There is no path between two hosts.
    #[error(
        "there is no path from host {src} to host {dst}; add links between switches, as hosts do \
         not forward packets"
    )]
    Unreachable {
        /// The source.
        src: HostId,
        /// The destination.
        dst: HostId,
    },
    /// The table would be too large.
    #[error(
        "the network of {hosts} hosts has too many routes for a table; use a regular topology (a \
         star, tree, leaf-spine or fat tree)"
    )]
    TooLarge {
        /// Hosts.
        hosts: u32,
    },
}

impl RouteTable {
    /// Finds all routes. Hosts are nodes 0 to `hosts`−1; links are indexed by port id.
    pub fn build(hosts: u32, nodes: u32, links: &[Link]) -> Result<Self, RouteError> {
        check(hosts, nodes, links)?;
        let too_large = || RouteError::TooLarge { hosts };
        let pairs = u64::from(hosts) * u64::from(hosts);
        if pairs > MAX_PAIRS {
            return Err(too_large());
        }
        let graph = Graph::new(hosts, nodes, links);
        let mut table = RouteTable {
            hosts,
            pairs: vec![Pair::default(); pairs as usize],
            ports: Vec::new(),
            twins: links.iter().map(|link| link.twin).collect(),
            sampled: SampledPaths { kept: MAX_PATHS, ..SampledPaths::default() },
        };
        for dst in (0..hosts).map(HostId) {
            let paths = graph.shortest_paths_to(dst);
            for src in (0..hosts).map(HostId).filter(|src| *src != dst) {
                let hops =
                    paths.distances[src.index()].ok_or(RouteError::Unreachable { src, dst })?;
                let first = table.ports.len();
                let pair = table.pair_index(src, dst);
                let count = paths.counts[src.index()];
                if count > u64::from(MAX_PATHS) {
                    table.sampled.pairs += 1;
                    table.sampled.most = table.sampled.most.max(count);
                }
                for rank in kept_ranks(count, pair) {
                    graph.append_route(src, rank, &paths, &mut table.ports);
                }
                if table.ports.len() > MAX_PORTS {
                    return Err(too_large());
                }
                table.pairs[pair] = Pair {
                    first: first as u32,
                    paths: ((table.ports.len() - first) / hops as usize) as u16,
                    hops: hops as u16,
                };
            }
        }
        Ok(table)
    }

    /// Statistics of pairs that keep a sample of their routes; `None` if every pair keeps all.
    pub fn sampled_paths(&self) -> Option<SampledPaths> {
        (self.sampled.pairs > 0).then_some(self.sampled)
    }

    fn pair_index(&self, src: HostId, dst: HostId) -> usize {
        src.index() * self.hosts as usize + dst.index()
    }

    fn pair(&self, src: HostId, dst: HostId) -> Pair {
        self.pairs[self.pair_index(src, dst)]
    }

    /// Number of routes from `src` to `dst`: 1 to [`MAX_PATHS`], or 0 from a host to itself.
    #[inline]
    pub fn paths(&self, src: HostId, dst: HostId) -> u32 {
        u32::from(self.pair(src, dst).paths)
    }

    /// Number of ports on each route from `src` to `dst`, and in the opposite direction.
    #[inline]
    pub fn hops(&self, src: HostId, dst: HostId) -> u32 {
        u32::from(self.pair(src, dst).hops)
    }

    /// The ports of route `n` from `src` to `dst`, the source's NIC first. `n` is below
    /// [`paths`](Self::paths).
    #[inline]
    pub fn route(&self, src: HostId, dst: HostId, n: u32) -> &[PortId] {
        let pair = self.pair(src, dst);
        debug_assert!(n < u32::from(pair.paths), "route {n} of {src} to {dst}");
        let first = pair.first as usize + n as usize * usize::from(pair.hops);
        &self.ports[first..first + usize::from(pair.hops)]
    }

    /// Writes the position of its route into a packet: the index of the first port. For a packet
    /// on the reverse path it is the index after the last port of the forward route.
    pub(crate) fn enter(&self, src: HostId, packet: &mut Packet, random: impl FnOnce(u32) -> u32) {
        let is_reverse = packet.flags.has(PacketFlags::REVERSE_PATH);
        let pair = if is_reverse { self.pair(packet.dst, src) } else { self.pair(src, packet.dst) };
        if packet.flags.has(PacketFlags::SWITCH_PATH) {
            packet.path = random(u32::from(pair.paths));
        }
        debug_assert!(packet.path < u32::from(pair.paths), "no such path");
        packet.path = pair.first + packet.path * u32::from(pair.hops);
        if is_reverse {
            packet.path += u32::from(pair.hops);
        }
    }

    /// The next port of a packet that has passed `packet.hop` ports.
    #[inline]
    pub(crate) fn next_port(&self, packet: &Packet) -> PortId {
        let (path, hop) = (packet.path as usize, usize::from(packet.hop));
        if packet.flags.has(PacketFlags::REVERSE_PATH) {
            self.twins[self.ports[path - 1 - hop].index()]
        } else {
            self.ports[path + hop]
        }
    }

    /// Sends a packet that has passed `packet.hop` ports back by those ports.
    pub(crate) fn turn_back(&self, packet: &mut Packet) {
        let passed = u32::from(packet.hop);
        if packet.flags.has(PacketFlags::REVERSE_PATH) {
            packet.path -= passed;
        } else {
            packet.path += passed;
        }
        packet.hop = 0;
    }
}

/// Ports as packets see them, for tests.
#[cfg(test)]
impl RouteTable {
    pub(crate) fn port(&self, src: HostId, dst: HostId, n: u32, hop: u32) -> PortId {
        self.port_of(src, dst, n, hop, PacketFlags::empty())
    }

    pub(crate) fn reverse_port(&self, src: HostId, dst: HostId, n: u32, hop: u32) -> PortId {
        self.port_of(src, dst, n, hop, PacketFlags::REVERSE_PATH)
    }

    fn port_of(&self, src: HostId, dst: HostId, n: u32, hop: u32, flags: PacketFlags) -> PortId {
        use punctual_core::{FlowId, Header};
        let mut packet = Packet::new(FlowId(0), dst, Header::default());
        (packet.path, packet.flags) = (n, flags);
        self.enter(src, &mut packet, |_| 0);
        packet.hop = hop as u8;
        self.next_port(&packet)
    }

    /// The first port of the way back of a packet that turns after `hop` ports.
    pub(crate) fn port_after_turning(&self, src: HostId, dst: HostId, n: u32, hop: u8) -> PortId {
        use punctual_core::{FlowId, Header};
        let mut packet = Packet::new(FlowId(0), dst, Header::default());
        packet.path = n;
        self.enter(src, &mut packet, |_| 0);
        packet.hop = hop;
        self.turn_back(&mut packet);
        packet.flags.set(PacketFlags::REVERSE_PATH);
        self.next_port(&packet)
    }
}

fn check(hosts: u32, nodes: u32, links: &[Link]) -> Result<(), RouteError> {
    if hosts > nodes {
        return Err(RouteError::Hosts { hosts, nodes });
    }
    for (i, link) in links.iter().enumerate() {
        let (port, Link { from, to, twin, .. }) = (PortId::from(i), *link);
        if from.0 >= nodes || to.0 >= nodes {
            return Err(RouteError::Node { port, from, to, nodes });
        }
        let opposite = |back: &Link| back.from == to && back.to == from && back.twin == port;
        if twin == port || !links.get(twin.index()).is_some_and(opposite) {
            return Err(RouteError::Twin { port, twin });
        }
    }
    Ok(())
}

struct Graph<'a> {
    hosts: u32,
    links: &'a [Link],
    /// Ports of each node, in order.
    ports: Vec<Vec<PortId>>,
}

impl<'a> Graph<'a> {
    fn new(hosts: u32, nodes: u32, links: &'a [Link]) -> Self {
        let mut ports = vec![Vec::new(); nodes as usize];
        for (i, link) in links.iter().enumerate() {
            ports[link.from.index()].push(PortId::from(i));
        }
        Graph { hosts, links, ports }
    }

    /// Shortest paths from all nodes to `dst`, by breadth-first search from `dst`.
    fn shortest_paths_to(&self, dst: HostId) -> ShortestPaths {
        let nodes = self.ports.len();
        let mut paths = ShortestPaths { distances: vec![None; nodes], counts: vec![0; nodes] };
        paths.distances[dst.index()] = Some(0);
        paths.counts[dst.index()] = 1;
        let mut level = vec![NodeId::from(dst)];
        let mut distance = 0;
        while !level.is_empty() {
            distance += 1;
            let mut next = Vec::new();
            for node in level {
                for port in &self.ports[node.index()] {
                    // Every link has its opposite, so neighbours out are neighbours in.
                    let neighbour = self.links[port.index()].to;
                    let known = &mut paths.distances[neighbour.index()];
                    if known.is_none() {
                        *known = Some(distance);
                        if neighbour.0 >= self.hosts {
                            next.push(neighbour);
                        }
                    }
                    if *known == Some(distance) {
                        let more = paths.counts[node.index()];
                        let count = &mut paths.counts[neighbour.index()];
                        *count = count.saturating_add(more);
                    }
                }
            }
            level = next;
        }
        paths
    }

    /// Appends the route of this rank from `src`, in lexicographic order from 0.
    fn append_route(
        &self,
        src: HostId,
        mut rank: u64,
        paths: &ShortestPaths,
        out: &mut Vec<PortId>,
    ) {
        let mut node = NodeId::from(src);
        while let Some(wanted) = paths.distances[node.index()].and_then(|d| d.checked_sub(1)) {
            let chosen = self.ports[node.index()].iter().copied().find(|port| {
                let to = self.links[port.index()].to;
                // Another host may be as near as a switch, but it does not forward.
                let leads = to.0 >= self.hosts || wanted == 0;
                if !leads || paths.distances[to.index()] != Some(wanted) {
                    return false;
                }
                let behind = paths.counts[to.index()];
                let is_here = rank < behind;
                if !is_here {
                    rank -= behind;
                }
                is_here
            });
            let port = chosen.expect("ranks are below the number of routes");
            out.push(port);
            node = self.links[port.index()].to;
        }
    }
}

/// The shortest paths from every node to one host.
struct ShortestPaths {
    /// Hops to the host; `None` for nodes that cannot reach it.
    distances: Vec<Option<u32>>,
    /// Number of shortest paths.
    counts: Vec<u64>,
}

/// The ranks of the routes that a pair keeps, in order: all of them, or a uniform sample that
/// depends on the pair alone.
fn kept_ranks(count: u64, pair: usize) -> BTreeSet<u64> {
    let most = u64::from(MAX_PATHS);
    if count <= most {
        return (0..count).collect();
    }
    let mut stream = Stream::named(0, "net.routes", pair as u64);
    let mut ranks = BTreeSet::new();
    while (ranks.len() as u64) < most {
        ranks.insert(stream.below(count));
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;
    use proptest::prelude::*;
    use punctual_core::{Duration, Rate};

    /// Links in both directions between nodes.
    fn both_ways(edges: &[(u32, u32)], hosts: u32) -> Vec<Link> {
        let mut topology = Topology { hosts, names: Vec::new(), links: Vec::new() };
        for &(a, b) in edges {
            topology.connect(NodeId(a), NodeId(b), Rate::from_gbps(10), Duration::ZERO);
        }
        topology.links
    }

    #[test]
    fn two_leaves_and_two_spines_have_two_ways() {
        // Hosts 0 to 3, leaves 4 and 5, spines 6 and 7.
        let edges = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 6), (4, 7), (5, 6), (5, 7)];
        let table = RouteTable::build(4, 8, &both_ways(&edges, 4)).unwrap();
        assert_eq!(table.paths(HostId(0), HostId(1)), 1);
        assert_eq!(table.hops(HostId(0), HostId(1)), 2);
        assert_eq!(table.paths(HostId(0), HostId(2)), 2);
        assert_eq!(table.paths(HostId(2), HostId(2)), 0);
        let ports = |list: [u32; 4]| list.map(PortId);
        assert_eq!(table.route(HostId(0), HostId(2), 0), ports([0, 8, 13, 5]));
        assert_eq!(table.route(HostId(0), HostId(2), 1), ports([0, 10, 15, 5]));
        let back: Vec<_> =
            (0..4).map(|hop| table.reverse_port(HostId(2), HostId(0), 1, hop)).collect();
        assert_eq!(back, ports([4, 14, 11, 1]));
        assert_eq!(table.port(HostId(0), HostId(2), 1, 2), PortId(15));
    }

    #[test]
    fn hosts_do_not_forward() {
        // 0 - 1 - 2 in a row, all hosts.
        let error = RouteTable::build(3, 3, &both_ways(&[(0, 1), (1, 2)], 3)).unwrap_err();
        let (src, dst) = (HostId(2), HostId(0));
        assert_eq!(error, RouteError::Unreachable { src, dst });
        // A host with two links is no short cut between switches 3 and 4.
        let edges = [(0, 3), (1, 3), (1, 4), (2, 4), (3, 5), (5, 4)];
        let table = RouteTable::build(3, 6, &both_ways(&edges, 3)).unwrap();
        assert_eq!(table.hops(HostId(0), HostId(2)), 4);
    }

    /// Two switches with 100 links between them: 100 routes, of which each pair keeps 64.
    #[test]
    fn of_many_routes_each_pair_keeps_a_sample_of_its_own() {
        let hosts = 12;
        let (left, right) = (hosts, hosts + 1);
        let attached = (0..hosts).map(|h| (h, if h < 6 { left } else { right }));
        let edges: Vec<_> = attached.chain([(left, right); 100]).collect();
        let table = RouteTable::build(hosts, hosts + 2, &both_ways(&edges, hosts)).unwrap();
        let middle = |src, dst| -> BTreeSet<PortId> {
            let (src, dst) = (HostId(src), HostId(dst));
            (0..table.paths(src, dst)).map(|n| table.route(src, dst, n)[1]).collect()
        };
        assert_eq!(middle(0, 6).len(), MAX_PATHS as usize, "all different");
        assert_ne!(middle(0, 6), middle(1, 6));
        // 36 pairs that leave out 36 of 100 links at random leave out none of them together; the
        // first 64 in order would never use the last 36.
        let used: BTreeSet<PortId> = (0..6)
            .flat_map(|a| (6..12).map(move |b| (a, b)))
            .flat_map(|(a, b)| middle(a, b))
            .collect();
        assert_eq!(used.len(), 100);
        let sampled = table.sampled_paths().unwrap();
        assert_eq!(sampled, SampledPaths { pairs: 72, most: 100, kept: MAX_PATHS });
    }

    #[test]
    fn of_64_routes_all_are_kept_in_order() {
        let edges: Vec<_> = [(0, 2), (1, 3)].into_iter().chain([(2, 3); 64]).collect();
        let table = RouteTable::build(2, 4, &both_ways(&edges, 2)).unwrap();
        assert_eq!(table.paths(HostId(0), HostId(1)), MAX_PATHS);
        for n in 0..MAX_PATHS {
            assert_eq!(table.route(HostId(0), HostId(1), n)[1], PortId(4 + 2 * n));
        }
        assert_eq!(table.sampled_paths(), None);
    }

    #[test]
    fn bad_links_are_refused() {
        let mut links = both_ways(&[(0, 1)], 2);
        assert!(matches!(RouteTable::build(2, 1, &links), Err(RouteError::Hosts { .. })));
        assert!(matches!(RouteTable::build(1, 1, &links), Err(RouteError::Node { .. })));
        links[1].twin = PortId(1);
        assert!(matches!(RouteTable::build(2, 2, &links), Err(RouteError::Twin { .. })));
        assert!(matches!(
            RouteTable::build(513, 600, &[]),
            Err(RouteError::TooLarge { hosts: 513 })
        ));
    }

    proptest! {
        #[test]
        fn routes_lead_there_and_back(
            hosts in 2u32..8,
            switches in 1u32..6,
            attach in prop::collection::vec(0u32..100, 8),
            extra in prop::collection::vec((0u32..100, 0u32..100), 0..12),
        ) {
            // A chain of switches keeps the network connected; extra links add equal-cost paths.
            let switch = |n: u32| hosts + n % switches;
            let mut edges: Vec<(u32, u32)> =
                (0..hosts).map(|h| (h, switch(attach[h as usize]))).collect();
            edges.extend((1..switches).map(|s| (switch(s - 1), switch(s))));
            let more = extra.iter().map(|&(a, b)| (switch(a), switch(b)));
            edges.extend(more.filter(|(a, b)| a != b));
            let links = both_ways(&edges, hosts);
            let table = RouteTable::build(hosts, hosts + switches, &links).unwrap();
            for (src, dst) in (0..hosts).flat_map(|a| (0..hosts).map(move |b| (a, b))) {
                if src == dst { continue }
                let (src, dst) = (HostId(src), HostId(dst));
                prop_assert!((1..=MAX_PATHS).contains(&table.paths(src, dst)));
                prop_assert_eq!(table.hops(src, dst), table.hops(dst, src));
                let mut last: Option<&[PortId]> = None;
                for n in 0..table.paths(src, dst) {
                    let route = table.route(src, dst, n);
                    prop_assert!(last < Some(route), "in order and all different");
                    last = Some(route);
                    let walk = |ports: &[PortId], from: HostId| {
                        ports.iter().try_fold(NodeId::from(from), |node, port| {
                            let link = links[port.index()];
                            (link.from == node).then_some(link.to)
                        })
                    };
                    prop_assert_eq!(walk(route, src), Some(dst.into()));
                    let between = &route[1..];
                    prop_assert!(between.iter().all(|p| links[p.index()].from.0 >= hosts));
                    let back: Vec<_> = (0..route.len() as u32)
                        .map(|hop| table.reverse_port(dst, src, n, hop))
                        .collect();
                    prop_assert_eq!(walk(&back, dst), Some(src.into()));
                    // Turned back after some ports, a packet returns the way it came.
                    for hop in 1..route.len() {
                        let at = table.port_after_turning(src, dst, n, hop as u8);
                        prop_assert_eq!(at, links[route[hop - 1].index()].twin);
                    }
                }
            }
        }
    }
}
