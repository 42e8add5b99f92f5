//! Jellyfish: a random regular graph of switches, each with the same number of hosts (Singla et
//! al., NSDI'12).
//!
//! The graph is drawn in two steps. It starts as a circulant, a regular graph that exists for every
//! possible degree. Then pairs of links exchange their ends at random, many times per link, which
//! keeps the degrees. A graph that is not connected is mixed further.

use crate::k_shortest::KShortest;
use crate::network::{Link, Network, Routing};
use crate::table::MAX_PATHS;
use crate::{Tier, Topology};
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Duration, NodeId, Rate};
use std::collections::BTreeSet;

/// The shape of a Jellyfish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JellyfishShape {
    /// Number of switches.
    pub switches: u32,
    /// Ports of each switch, those to hosts included.
    pub ports: u32,
    /// Hosts of each switch.
    pub hosts_per_switch: u32,
    /// Paths between the switches of two hosts: the shortest ones, at most [`MAX_PATHS`].
    pub paths: u32,
    /// Seed of the graph and of the choice among paths of one length.
    pub seed: u64,
}

/// Rates and delays of a Jellyfish.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JellyfishLinks {
    /// Between hosts and switches.
    pub host_rate: Rate,
    /// Between switches.
    pub switch_rate: Rate,
    /// Delay of every link.
    pub delay: Duration,
    /// Processing delay of a switch per packet.
    pub processing: Duration,
}

/// Why there is no such Jellyfish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JellyfishError {
    /// There are no switches, or too many.
    #[error("switches = {0}: a Jellyfish has 1 to {SWITCHES_MAX} switches")]
    Switches(u32),
    /// Switches have no hosts, or more hosts than ports.
    #[error(
        "hosts_per_switch = {hosts_per_switch}: a switch of {ports} ports has 1 to {ports} hosts"
    )]
    Hosts {
        /// Hosts of each switch.
        hosts_per_switch: u32,
        /// Ports of each switch.
        ports: u32,
    },
    /// A switch would need two links to another, or one to itself.
    #[error(
        "{ports} ports less {hosts_per_switch} hosts leave {degree} links to other switches, but \
         there are only {} others",
        .switches - 1
    )]
    Degree {
        /// Number of switches.
        switches: u32,
        /// Ports of each switch.
        ports: u32,
        /// Hosts of each switch.
        hosts_per_switch: u32,
        /// Links of each switch to others.
        degree: u32,
    },
    /// The number of ends of links is odd.
    #[error(
        "{switches} switches with {degree} links each to others have {} ends of links, and every \
         link has two: no regular graph has an odd degree and an odd number of switches",
        .switches * .degree
    )]
    Odd {
        /// Number of switches.
        switches: u32,
        /// Links of each switch to others.
        degree: u32,
    },
    /// The number of paths is zero or too large.
    #[error("paths = {0}: a pair of switches has 1 to {MAX_PATHS} paths")]
    Paths(u32),
    /// The switches form a ring with paths that are too long.
    #[error(
        "{0} switches with 2 links each to others form a ring, which may have at most {RING_MAX}"
    )]
    Ring(u32),
    /// No connected graph was found.
    #[error("{switches} switches with {degree} links each to others are not connected")]
    Disconnected {
        /// Number of switches.
        switches: u32,
        /// Links of each switch to others.
        degree: u32,
    },
}

/// Most switches of a Jellyfish.
const SWITCHES_MAX: u32 = 1 << 13;

/// Most switches with two links each to others. With more links, paths are short.
const RING_MAX: u32 = 32;

/// How often each link exchanges its ends with another before the graph counts as random.
const EXCHANGES_PER_LINK: u64 = 20;

/// How often a graph that is not connected is mixed further.
const TRIES: u32 = 1000;

impl JellyfishShape {
    /// Links of each switch to others.
    pub fn degree(&self) -> u32 {
        self.ports.saturating_sub(self.hosts_per_switch)
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u64 {
        u64::from(self.switches) * u64::from(self.hosts_per_switch)
    }

    /// Says why there is no such Jellyfish, if there is none.
    pub fn check(&self) -> Result<(), JellyfishError> {
        let JellyfishShape { switches, ports, hosts_per_switch, paths, .. } = *self;
        let degree = self.degree();
        if !(1..=SWITCHES_MAX).contains(&switches) {
            return Err(JellyfishError::Switches(switches));
        }
        if hosts_per_switch == 0 || hosts_per_switch > ports {
            return Err(JellyfishError::Hosts { hosts_per_switch, ports });
        }
        if degree >= switches {
            return Err(JellyfishError::Degree { switches, ports, hosts_per_switch, degree });
        }
        if switches % 2 == 1 && degree % 2 == 1 {
            return Err(JellyfishError::Odd { switches, degree });
        }
        if degree == 2 && switches > RING_MAX {
            return Err(JellyfishError::Ring(switches));
        }
        if !(1..=MAX_PATHS).contains(&paths) {
            return Err(JellyfishError::Paths(paths));
        }
        Ok(())
    }

    /// Builds the network: switch s has the hosts from s × `hosts_per_switch` on.
    pub fn build(
        &self,
        links: &JellyfishLinks,
        mtu: Bytes,
        framing: Bytes,
    ) -> Result<Network, JellyfishError> {
        self.check()?;
        let edges = self.draw()?;
        let hosts = self.hosts() as u32;
        let names = (0..hosts)
            .map(|host| format!("host {host}"))
            .chain((0..self.switches).map(|switch| format!("switch {switch}")));
        let mut shape = Topology { hosts, names: names.collect(), links: Vec::new() };
        for host in 0..hosts {
            let switch = NodeId(hosts + host / self.hosts_per_switch);
            shape.connect(NodeId(host), switch, links.host_rate, links.delay);
        }
        for (a, b) in edges {
            let (a, b) = (NodeId(hosts + a), NodeId(hosts + b));
            shape.connect(a, b, links.switch_rate, links.delay);
        }
        for link in shape.links.iter_mut().filter(|link| link.tier != Tier::HostDown) {
            link.delay += links.processing;
        }
        let routes = KShortest::new(hosts, self.switches, &shape.links, self.paths, self.seed);
        let Topology { names, links, .. } = shape;
        Ok(Network::new(hosts, names, links, mtu, framing, Routing::KShortest(routes)))
    }

    /// Draws the links between switches, each with its lower end first, in order.
    fn draw(&self) -> Result<Vec<(u32, u32)>, JellyfishError> {
        let (switches, degree) = (self.switches, self.degree());
        let mut edges = circulant(switches, degree);
        let mut known: BTreeSet<(u32, u32)> = edges.iter().copied().collect();
        let mut stream = Stream::named(self.seed, "jellyfish", 0);
        for _ in 0..TRIES {
            for _ in 0..EXCHANGES_PER_LINK * edges.len() as u64 {
                exchange(&mut edges, &mut known, &mut stream);
            }
            if is_connected(switches, &edges) {
                return Ok(known.into_iter().collect());
            }
        }
        Err(JellyfishError::Disconnected { switches, degree })
    }
}

/// A regular graph: each node has links to those at most degree / 2 places away and, if the degree
/// is odd, to the one opposite. The degree is below the number of nodes, and not both are odd.
fn circulant(nodes: u32, degree: u32) -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    for node in 0..nodes {
        for apart in 1..=degree / 2 {
            let other = (node + apart) % nodes;
            edges.push((node.min(other), node.max(other)));
        }
        if degree % 2 == 1 && node < nodes / 2 {
            edges.push((node, node + nodes / 2));
        }
    }
    edges
}

/// Exchanges ends of two random links, unless that joins a node to itself or joins two nodes twice.
fn exchange(edges: &mut [(u32, u32)], known: &mut BTreeSet<(u32, u32)>, stream: &mut Stream) {
    let count = edges.len() as u64;
    let (i, j) = (stream.below(count) as usize, stream.below(count) as usize);
    let ((a, b), (mut c, mut d)) = (edges[i], edges[j]);
    if stream.coin() {
        (c, d) = (d, c);
    }
    let edge = |a: u32, b: u32| (a.min(b), a.max(b));
    let (first, second) = (edge(a, c), edge(b, d));
    let joins_itself = first.0 == first.1 || second.0 == second.1;
    if i == j || joins_itself || known.contains(&first) || known.contains(&second) {
        return;
    }
    for (place, new) in [(i, first), (j, second)] {
        known.remove(&edges[place]);
        edges[place] = new;
    }
    known.extend([first, second]);
}

fn is_connected(nodes: u32, edges: &[(u32, u32)]) -> bool {
    let mut neighbours = vec![Vec::new(); nodes as usize];
    for &(a, b) in edges {
        neighbours[a as usize].push(b);
        neighbours[b as usize].push(a);
    }
    let mut is_reached = vec![false; nodes as usize];
    is_reached[0] = true;
    let mut next = vec![0];
    let mut count = 1;
    while let Some(node) = next.pop() {
        for &other in &neighbours[node as usize] {
            if !std::mem::replace(&mut is_reached[other as usize], true) {
                count += 1;
                next.push(other);
            }
        }
    }
    count == nodes
}

/// The switch that each host's link leads to, counted from 0.
pub(crate) fn switches_of_hosts(hosts: u32, links: &[Link]) -> Vec<u32> {
    let mut switches = vec![0; hosts as usize];
    for link in links.iter().filter(|link| link.from.0 < hosts) {
        switches[link.from.index()] = link.to.0.saturating_sub(hosts);
    }
    switches
}
