//! The layout of a network: nodes in layers above the hosts, or on a circle if there are no layers.

use punctual_results::PortRow;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// A network to be drawn.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Graph {
    /// Whether nodes are on a circle; else in layers.
    pub(crate) circle: bool,
    pub(crate) nodes: Vec<Node>,
    /// By port.
    pub(crate) links: Vec<Line>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) host: bool,
    /// In layers from 0 to 1, on a circle from -1 to 1.
    pub(crate) x: f64,
    /// In layers their number from below, on a circle from -1 to 1, downwards.
    pub(crate) y: f64,
}

/// One direction of a link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The other direction.
    pub(crate) twin: usize,
    /// In bits per second.
    pub(crate) rate: u64,
}

/// The gap between the hosts of different switches, in widths of a host.
const GAP: f64 = 0.7;

/// The network of which these are all ports, in order.
pub(crate) fn graph(ports: &[PortRow]) -> Graph {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut nodes: Vec<Node> = Vec::new();
    for port in ports {
        numbers.entry(&port.from).or_insert_with(|| {
            let host = port.tier == "host-up";
            nodes.push(Node { name: port.from.clone(), host, ..Node::default() });
            nodes.len() - 1
        });
    }
    let number = |name: &str| numbers.get(name).copied().unwrap_or(0);
    let mut links: Vec<Line> = ports
        .iter()
        .map(|port| Line {
            from: number(&port.from),
            to: number(&port.to),
            twin: 0,
            rate: port.rate.as_bps(),
        })
        .collect();
    // Of several links between two nodes, the first of one direction is the twin of the first of
    // the other.
    let mut by_ends: BTreeMap<(usize, usize), VecDeque<usize>> = BTreeMap::new();
    for (port, line) in links.iter().enumerate() {
        by_ends.entry((line.from, line.to)).or_default().push_back(port);
    }
    for (port, line) in links.iter_mut().enumerate() {
        let twin = by_ends.get_mut(&(line.to, line.from)).and_then(VecDeque::pop_front);
        line.twin = twin.unwrap_or(port);
    }
    let mut graph = Graph { circle: false, nodes, links };
    let levels = [Some(graph.levels(ports)), graph.peeled()];
    match levels.into_iter().flatten().find(|levels| graph.has_layers(levels)) {
        Some(levels) => graph.place_in_layers(&levels),
        None => graph.place_on_circle(),
    }
    // A screen cannot show more digits.
    let short = |place: f64| (place * 1e4).round() / 1e4;
    for node in &mut graph.nodes {
        (node.x, node.y) = (short(node.x), short(node.y));
    }
    graph
}

impl Graph {
    /// The layer of each node: by the tiers of its links, or by its distance from the leaves.
    fn levels(&self, ports: &[PortRow]) -> Vec<usize> {
        let mut levels = vec![usize::MAX; self.nodes.len()];
        let mut next: VecDeque<usize> = VecDeque::new();
        for (i, _) in self.nodes.iter().enumerate().filter(|(_, node)| node.host) {
            levels[i] = 0;
            next.push_back(i);
        }
        while let Some(i) = next.pop_front() {
            for line in self.links.iter().filter(|line| line.from == i) {
                if levels[line.to] == usize::MAX {
                    levels[line.to] = levels[i] + 1;
                    next.push_back(line.to);
                }
            }
        }
        let top = if ports.iter().any(|port| port.tier == "pod-up") { 3 } else { 2 };
        for (line, port) in self.links.iter().zip(ports) {
            levels[line.from] = match &*port.tier {
                "rack-up" => 1,
                "pod-up" | "pod-down" => 2,
                "core-down" => top,
                _ => levels[line.from].min(self.nodes.len()),
            };
        }
        self.raise_by_nic(&mut levels);
        levels
    }

    /// In a BCube, the n-th NIC of each host leads to a switch of level n: puts that level in a layer
    /// of its own.
    fn raise_by_nic(&self, levels: &mut [usize]) {
        let mut nics = vec![0; self.nodes.len()];
        for line in self.links.iter().filter(|line| self.nodes[line.from].host) {
            nics[line.from] += 1;
            if !self.nodes[line.to].host {
                levels[line.to] = levels[line.to].max(nics[line.from]);
            }
        }
    }

    /// The layers of a tree's nodes, found by removing leaves repeatedly. None if it is no tree.
    fn peeled(&self) -> Option<Vec<usize>> {
        let mut levels: Vec<Option<usize>> =
            self.nodes.iter().map(|node| node.host.then_some(0)).collect();
        let mut level = 0;
        while levels.contains(&None) {
            level += 1;
            let left = |i: usize| {
                let mut neighbours: Vec<usize> = self
                    .links
                    .iter()
                    .filter(|line| line.from == i && levels[line.to].is_none())
                    .map(|line| line.to)
                    .collect();
                neighbours.sort_unstable();
                neighbours.dedup();
                neighbours.len()
            };
            let outer: Vec<usize> =
                (0..levels.len()).filter(|i| levels[*i].is_none() && left(*i) <= 1).collect();
            if outer.is_empty() {
                return None;
            }
            outer.into_iter().for_each(|i| levels[i] = Some(level));
        }
        levels.into_iter().collect()
    }

    /// Whether all links are between layers, except at most one between a pair.
    fn has_layers(&self, levels: &[usize]) -> bool {
        let in_level = |level| levels.iter().filter(|own| **own == level).count();
        self.links.iter().all(|line| {
            let (from, to) = (levels[line.from], levels[line.to]);
            from != to || in_level(from) <= 2
        })
    }

    /// The node that a host is joined to.
    fn switch_of(&self, host: usize) -> usize {
        self.links.iter().find(|line| line.from == host).map_or(host, |line| line.to)
    }

    /// Hosts by their switch, then by number.
    fn hosts(&self) -> Vec<usize> {
        let mut hosts: Vec<usize> = (0..self.nodes.len()).filter(|i| self.nodes[*i].host).collect();
        hosts.sort_by_key(|host| (self.switch_of(*host), *host));
        hosts
    }

    fn place_in_layers(&mut self, levels: &[usize]) {
        let hosts = self.hosts();
        let mut at = 0.0;
        let mut places: Vec<(usize, f64)> = Vec::new();
        for (i, host) in hosts.iter().enumerate() {
            let apart = i > 0 && self.switch_of(hosts[i - 1]) != self.switch_of(*host);
            let apart = apart && !self.nodes[self.switch_of(*host)].host;
            at += if apart { GAP } else { 0.0 };
            places.push((*host, at + 0.5));
            at += 1.0;
        }
        for (host, x) in places {
            self.nodes[host].x = x / at.max(1.0);
        }
        for level in 1..=levels.iter().copied().max().unwrap_or(0) {
            let own: Vec<usize> = (0..levels.len()).filter(|i| levels[*i] == level).collect();
            // Above the middle of what is below.
            let middle = |i: usize| {
                let below = self.links.iter().filter(|line| line.from == i);
                let below: Vec<f64> = below
                    .filter(|line| levels[line.to] < level)
                    .map(|line| self.nodes[line.to].x)
                    .collect();
                let mean = below.iter().sum::<f64>() / below.len() as f64;
                if mean.is_finite() { mean } else { 0.5 }
            };
            let mut placed: Vec<(f64, usize)> = own.into_iter().map(|i| (middle(i), i)).collect();
            placed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let count = placed.len() as f64;
            let apart = |pair: &[(f64, usize)]| pair[1].0 - pair[0].0 > 0.4 / count;
            let fits = placed.windows(2).all(apart);
            for (place, (middle, i)) in placed.into_iter().enumerate() {
                self.nodes[i].x = if fits { middle } else { (place as f64 + 0.5) / count };
            }
        }
        for (node, level) in self.nodes.iter_mut().zip(levels) {
            node.y = *level as f64;
        }
    }

    fn place_on_circle(&mut self) {
        self.circle = true;
        let switches: Vec<usize> = (0..self.nodes.len()).filter(|i| !self.nodes[*i].host).collect();
        let turn = std::f64::consts::TAU / switches.len().max(1) as f64;
        let angle = |place: f64| place * turn - std::f64::consts::FRAC_PI_2;
        for (place, i) in switches.iter().enumerate() {
            let at = angle(place as f64);
            (self.nodes[*i].x, self.nodes[*i].y) = (0.55 * at.cos(), 0.55 * at.sin());
            let own: Vec<usize> =
                self.hosts().into_iter().filter(|host| self.switch_of(*host) == *i).collect();
            for (j, host) in own.iter().enumerate() {
                let beside = (j as f64 + 0.5) / own.len() as f64 - 0.5;
                let at = angle(place as f64 + 0.85 * beside);
                (self.nodes[*host].x, self.nodes[*host].y) = (at.cos(), at.sin());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::Rate;

    /// Both directions of links given by their ends and the tier of the first.
    fn ports(links: &[(&str, &str, &str, &str)]) -> Vec<PortRow> {
        let port = |from: &str, to: &str, tier: &str| PortRow {
            from: from.into(),
            to: to.into(),
            tier: tier.into(),
            rate: Rate::from_gbps(10),
            ..PortRow::default()
        };
        let both = |(a, b, up, down): &(&str, &str, &str, &str)| [port(a, b, up), port(b, a, down)];
        links.iter().flat_map(both).collect()
    }

    fn place(graph: &Graph, name: &str) -> (f64, f64) {
        let node = graph.nodes.iter().find(|node| node.name == name).unwrap();
        (node.x, node.y)
    }

    #[test]
    fn racks_are_above_their_hosts_and_spines_above_racks() {
        let (host, rack) = (("host-up", "host-down"), ("rack-up", "core-down"));
        let graph = graph(&ports(&[
            ("h0", "r0", host.0, host.1),
            ("h1", "r0", host.0, host.1),
            ("h2", "r1", host.0, host.1),
            ("h3", "r1", host.0, host.1),
            ("r0", "s", rack.0, rack.1),
            ("r1", "s", rack.0, rack.1),
        ]));
        assert!(!graph.circle);
        assert_eq!(place(&graph, "s"), (0.5, 2.0));
        let (r0, h0, h1) = (place(&graph, "r0"), place(&graph, "h0"), place(&graph, "h1"));
        assert_eq!((r0.1, h0.1), (1.0, 0.0));
        assert!((r0.0 - (h0.0 + h1.0) / 2.0).abs() < 1e-3);
        // A gap between racks.
        assert!(place(&graph, "h2").0 - h1.0 > 1.5 * (h1.0 - h0.0));
        assert!(graph.nodes.iter().all(|node| (0.0..=1.0).contains(&node.x)));
        for (port, line) in graph.links.iter().enumerate() {
            let twin = &graph.links[line.twin];
            assert_eq!((twin.from, twin.to, twin.twin), (line.to, line.from, port));
        }
    }

    #[test]
    fn several_links_between_two_nodes_are_told_apart() {
        let graph = graph(&ports(&[
            ("a", "s", "host-up", "host-down"),
            ("b", "t", "host-up", "host-down"),
            ("s", "t", "middle", "middle"),
            ("s", "t", "middle", "middle"),
        ]));
        // A bottleneck: two switches side by side are layers still.
        assert!(!graph.circle);
        assert_eq!(place(&graph, "s").1, place(&graph, "t").1);
        let twins: Vec<usize> = graph.links.iter().map(|line| line.twin).collect();
        assert_eq!(twins, [1, 0, 3, 2, 5, 4, 7, 6]);
    }

    #[test]
    fn a_root_with_hosts_of_its_own_is_above_the_racks() {
        let (host, rack) = (("host-up", "host-down"), ("middle", "middle"));
        let graph = graph(&ports(&[
            ("h0", "r0", host.0, host.1),
            ("h1", "r1", host.0, host.1),
            ("h2", "r2", host.0, host.1),
            ("h3", "root", host.0, host.1),
            ("r0", "root", rack.0, rack.1),
            ("r1", "root", rack.0, rack.1),
            ("r2", "root", rack.0, rack.1),
        ]));
        assert!(!graph.circle);
        assert_eq!((place(&graph, "root").1, place(&graph, "r2").1), (2.0, 1.0));
    }

    #[test]
    fn levels_of_a_bcube_are_layers() {
        let (up, down) = ("host-up", "host-down");
        let graph = graph(&ports(&[
            ("h0", "l0 s0", up, down),
            ("h0", "l1 s0", up, down),
            ("h1", "l0 s0", up, down),
            ("h1", "l1 s1", up, down),
            ("h2", "l0 s1", up, down),
            ("h2", "l1 s0", up, down),
            ("h3", "l0 s1", up, down),
            ("h3", "l1 s1", up, down),
        ]));
        assert!(!graph.circle);
        let layer = |name| place(&graph, name).1;
        assert_eq!(
            ["h3", "l0 s0", "l0 s1", "l1 s0", "l1 s1"].map(layer),
            [0.0, 1.0, 1.0, 2.0, 2.0]
        );
        // Hosts are below their switch of level 0.
        let middle = (place(&graph, "h0").0 + place(&graph, "h1").0) / 2.0;
        assert!((place(&graph, "l0 s0").0 - middle).abs() < 1e-3);
    }

    #[test]
    fn a_ring_is_a_circle() {
        let mut links = Vec::new();
        let names = ["s0", "s1", "s2", "s3", "s4"];
        let hosts = ["h0", "h1", "h2", "h3", "h4"];
        for i in 0..5 {
            links.push((hosts[i], names[i], "host-up", "host-down"));
            links.push((names[i], names[(i + 1) % 5], "middle", "middle"));
        }
        let graph = graph(&ports(&links));
        assert!(graph.circle);
        let radius = |name| {
            let (x, y) = place(&graph, name);
            (x * x + y * y).sqrt()
        };
        for i in 0..5 {
            assert!((radius(hosts[i]) - 1.0).abs() < 1e-3 && radius(names[i]) < 0.6);
        }
    }
}
