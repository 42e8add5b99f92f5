//! Routes on the k shortest paths between switches.
//!
//! A path has no node twice. Paths are numbered by length. Of those of one length, some are chosen
//! if there are too many, and all are put in order, by a seeded hash of their links: the first ones
//! in the order of links would share their first links and leave others idle.
//!
//! Routes are found on first use, between switches rather than hosts, and shared by all clones of a
//! network. So a network of thousands of hosts takes memory for the pairs of switches in use only.

use crate::jellyfish::switches_of_hosts;
use crate::network::Link;
use punctual_core::rng::{derive, mix};
use punctual_core::{HostId, Packet, PacketFlags, PortId};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Routes between all pairs of hosts, found when they are first used.
#[derive(Clone)]
pub(crate) struct KShortest {
    graph: Arc<SwitchGraph>,
}

/// The switches, and the routes between them that are known.
struct SwitchGraph {
    /// Routes per pair of switches, at most.
    k: usize,
    seed: u64,
    switches: u32,
    /// By host, its switch.
    switch_of: Vec<u32>,
    /// By host, its NIC port.
    nics: Vec<PortId>,
    /// By port, the opposite direction.
    twins: Vec<PortId>,
    /// By switch, its ports to other switches and where they lead.
    neighbours: Vec<Vec<(PortId, u32)>>,
    /// By switch that a route leads to: the distance of every switch.
    distances: Vec<OnceLock<Vec<u16>>>,
    /// By switch that a route begins at, then by switch that it leads to.
    routes: Vec<OnceLock<Vec<OnceLock<Routes>>>>,
}

/// The routes of a pair of switches: the ports between them.
#[derive(Debug)]
struct Routes {
    /// Where each route begins in `ports`, and where the last one ends.
    starts: Vec<u32>,
    ports: Vec<PortId>,
}

impl Routes {
    #[inline]
    fn len(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    #[inline]
    fn route(&self, n: u32) -> &[PortId] {
        let (from, to) = (self.starts[n as usize], self.starts[n as usize + 1]);
        &self.ports[from as usize..to as usize]
    }
}

const UNREACHABLE: u16 = u16::MAX;

/// Bits of `Packet::path` for the number of the path; the pair of switches is above them.
const NUMBER_BITS: u32 = 6;

impl fmt::Debug for KShortest {
    /// Which routes are known depends on what other runs needed, so it is not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SwitchGraph { k, seed, .. } = *self.graph;
        f.debug_struct("KShortest").field("k", &k).field("seed", &seed).finish_non_exhaustive()
    }
}

impl KShortest {
    /// `links` have their twins. There are at most 2^13 switches and 2^6 paths.
    pub(crate) fn new(hosts: u32, switches: u32, links: &[Link], k: u32, seed: u64) -> Self {
        let mut nics = vec![PortId(u32::MAX); hosts as usize];
        let mut neighbours = vec![Vec::new(); switches as usize];
        for (port, link) in links.iter().enumerate() {
            let port = PortId::from(port);
            if link.from.0 < hosts {
                nics[link.from.index()] = port;
            } else if link.to.0 >= hosts {
                neighbours[(link.from.0 - hosts) as usize].push((port, link.to.0 - hosts));
            }
        }
        let graph = SwitchGraph {
            k: k as usize,
            seed,
            switches,
            switch_of: switches_of_hosts(hosts, links),
            nics,
            twins: links.iter().map(|link| link.twin).collect(),
            neighbours,
            distances: (0..switches).map(|_| OnceLock::new()).collect(),
            routes: (0..switches).map(|_| OnceLock::new()).collect(),
        };
        KShortest { graph: Arc::new(graph) }
    }

    /// Number of paths between two hosts; 0 from a host to itself.
    pub(crate) fn paths(&self, src: HostId, dst: HostId) -> u32 {
        let [from, to] = [src, dst].map(|host| self.graph.switch_of[host.index()]);
        if src == dst { 0 } else { self.graph.routes(from, to).len() }
    }

    /// Writes its pair of switches and path number into a packet.
    #[inline]
    pub(crate) fn enter(&self, src: HostId, packet: &mut Packet, random: impl FnOnce(u32) -> u32) {
        let is_reverse = packet.flags.has(PacketFlags::REVERSE_PATH);
        let ends = if is_reverse { [packet.dst, src] } else { [src, packet.dst] };
        let [from, to] = ends.map(|host| self.graph.switch_of[host.index()]);
        if packet.flags.has(PacketFlags::SWITCH_PATH) {
            packet.path = random(self.graph.routes(from, to).len());
        }
        packet.path |= (from * self.graph.switches + to) << NUMBER_BITS;
    }

    #[inline]
    fn route(&self, packet: &Packet) -> &[PortId] {
        let (pair, number) = (packet.path >> NUMBER_BITS, packet.path & ((1 << NUMBER_BITS) - 1));
        let (from, to) = (pair / self.graph.switches, pair % self.graph.switches);
        self.graph.routes(from, to).route(number)
    }

    /// The port by which a packet leaves a switch, after `packet.hop` ports.
    #[inline]
    pub(crate) fn next_port(&self, packet: &Packet) -> PortId {
        let route = self.route(packet);
        // Index 0 of a route is the sender's NIC, then come the ports between switches.
        let hop = usize::from(packet.hop);
        let between = if packet.flags.has(PacketFlags::REVERSE_PATH) {
            let index = (route.len() + 1).checked_sub(hop);
            let port = index.and_then(|index| route.get(index.checked_sub(1)?));
            port.map(|port| self.graph.twins[port.index()])
        } else {
            route.get(hop.wrapping_sub(1)).copied()
        };
        between.unwrap_or_else(|| {
            let nic = self.graph.nics[packet.dst.index()];
            self.graph.twins[nic.index()]
        })
    }

    /// Sends a packet that has passed `packet.hop` ports back by those ports: as if it had come the
    /// whole way back from the other end to here.
    pub(crate) fn turn_back(&self, packet: &mut Packet) {
        let all = self.route(packet).len() + 2;
        packet.hop = (all - usize::from(packet.hop)) as u8;
    }
}

impl SwitchGraph {
    #[inline]
    fn routes(&self, from: u32, to: u32) -> &Routes {
        let row = self.routes[from as usize]
            .get_or_init(|| (0..self.switches).map(|_| OnceLock::new()).collect());
        row[to as usize].get_or_init(|| self.find(from, to))
    }

    fn distances_to(&self, to: u32) -> &[u16] {
        self.distances[to as usize].get_or_init(|| {
            let mut distances = vec![UNREACHABLE; self.switches as usize];
            distances[to as usize] = 0;
            let mut level = vec![to];
            for distance in 1.. {
                let mut next = Vec::new();
                for node in level {
                    // Every link has its opposite, so neighbours out are neighbours in.
                    for &(_, other) in &self.neighbours[node as usize] {
                        if distances[other as usize] == UNREACHABLE {
                            distances[other as usize] = distance;
                            next.push(other);
                        }
                    }
                }
                if next.is_empty() {
                    break;
                }
                level = next;
            }
            distances
        })
    }

    /// Finds the shortest paths: all of the least length, then all of the next, until there are k.
    #[cold]
    fn find(&self, from: u32, to: u32) -> Routes {
        let distances = self.distances_to(to);
        let mut found: Vec<Vec<PortId>> = Vec::new();
        let mut walk = Walk {
            graph: self,
            distances,
            to,
            is_visited: vec![false; self.switches as usize],
            path: Vec::new(),
            found: Vec::new(),
        };
        walk.is_visited[from as usize] = true;
        let shortest = distances[from as usize];
        for length in shortest..self.switches.max(1) as u16 {
            if found.len() >= self.k || shortest == UNREACHABLE {
                break;
            }
            walk.extend(from, length);
            walk.found.sort_by_cached_key(|path| self.hash(from, to, path));
            found.append(&mut walk.found);
            if from == to {
                break; // Any other path would have this switch twice.
            }
        }
        found.truncate(self.k);
        let mut routes = Routes { starts: vec![0], ports: Vec::new() };
        for path in found {
            routes.ports.extend(path);
            routes.starts.push(routes.ports.len() as u32);
        }
        routes
    }

    /// The place of a path among those of its length.
    fn hash(&self, from: u32, to: u32, path: &[PortId]) -> u64 {
        let pair = u64::from(from) << 32 | u64::from(to);
        let begin = derive(self.seed, "jellyfish.paths", pair);
        path.iter().fold(begin, |hash, port| mix(hash ^ u64::from(port.0)))
    }
}

/// A depth-first search for all paths of one length.
struct Walk<'a> {
    graph: &'a SwitchGraph,
    distances: &'a [u16],
    to: u32,
    is_visited: Vec<bool>,
    path: Vec<PortId>,
    found: Vec<Vec<PortId>>,
}

impl Walk<'_> {
    /// Finds all paths from `node` with exactly `left` more links.
    fn extend(&mut self, node: u32, left: u16) {
        if node == self.to {
            if left == 0 {
                self.found.push(self.path.clone());
            }
            return;
        }
        let graph = self.graph;
        for &(port, next) in &graph.neighbours[node as usize] {
            if left == 0 || self.distances[next as usize] >= left || self.is_visited[next as usize]
            {
                continue;
            }
            self.is_visited[next as usize] = true;
            self.path.push(port);
            self.extend(next, left - 1);
            self.path.pop();
            self.is_visited[next as usize] = false;
        }
    }
}
