//! Jellyfish: a regular, connected, seeded graph, and its k shortest paths.

use proptest::prelude::*;
use punctual_core::{Bytes, Duration, FlowId, Header, HostId, NodeId, Packet, PacketFlags};
use punctual_core::{PortId, Rate};
use punctual_net::{JellyfishError, JellyfishLinks, JellyfishShape, Network};
use std::collections::{BTreeMap, BTreeSet};

fn shape(switches: u32, ports: u32, hosts_per_switch: u32) -> JellyfishShape {
    JellyfishShape { switches, ports, hosts_per_switch, paths: 8, seed: 1 }
}

fn build(shape: JellyfishShape) -> Result<Network, JellyfishError> {
    let rate = Rate::from_gbps(10);
    let links = JellyfishLinks {
        host_rate: rate,
        switch_rate: rate,
        delay: Duration::from_micros(1),
        processing: Duration::ZERO,
    };
    shape.build(&links, Bytes::new(1500), Bytes::ZERO)
}

/// The links between switches.
fn edges(network: &Network) -> Vec<(u32, u32)> {
    let hosts = network.hosts;
    let between = network.links.iter().filter(|l| l.from.0 >= hosts && l.to.0 >= hosts);
    between.map(|l| (l.from.0 - hosts, l.to.0 - hosts)).collect()
}

/// The lengths of all paths without a node twice, found by trying every step.
fn all_lengths(edges: &[(u32, u32)], at: u32, to: u32, met: &mut Vec<u32>) -> Vec<usize> {
    if at == to {
        return vec![met.len()];
    }
    met.push(at);
    let next = edges.iter().filter(|(a, b)| *a == at && !met.contains(b)).map(|(_, b)| *b);
    let mut found = Vec::new();
    for b in next.collect::<Vec<_>>() {
        found.extend(all_lengths(edges, b, to, met));
    }
    met.pop();
    found
}

#[test]
fn impossible_shapes_are_refused() {
    let error = |shape: JellyfishShape| build(shape).unwrap_err();
    assert!(matches!(error(shape(5, 7, 2)), JellyfishError::Degree { degree: 5, .. }));
    assert!(matches!(error(shape(5, 5, 2)), JellyfishError::Odd { switches: 5, degree: 3 }));
    assert!(matches!(error(shape(0, 4, 2)), JellyfishError::Switches(0)));
    assert!(matches!(error(shape(4, 4, 0)), JellyfishError::Hosts { .. }));
    assert!(matches!(error(shape(4, 4, 5)), JellyfishError::Hosts { .. }));
    assert!(matches!(error(shape(4, 2, 2)), JellyfishError::Disconnected { degree: 0, .. }));
    assert!(matches!(error(shape(4, 2, 1)), JellyfishError::Disconnected { degree: 1, .. }));
    assert!(matches!(error(shape(40, 4, 2)), JellyfishError::Ring(40)));
    let paths = |paths| JellyfishShape { paths, ..shape(4, 4, 1) };
    assert!(matches!(error(paths(0)), JellyfishError::Paths(0)));
    assert!(matches!(error(paths(65)), JellyfishError::Paths(65)));
    // Two switches, a full mesh and a single switch are regular graphs.
    for fits in [shape(2, 3, 2), shape(6, 6, 1), shape(1, 4, 4), shape(20, 4, 2)] {
        build(fits).unwrap();
    }
}

#[test]
fn the_seed_decides_the_graph() {
    let drawn = |seed| edges(&build(JellyfishShape { seed, ..shape(20, 8, 3) }).unwrap());
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn hosts_of_one_switch_have_one_path() {
    let network = build(shape(8, 6, 2)).unwrap();
    assert_eq!(network.paths(HostId(0), HostId(1)), 1);
    assert_eq!(network.path_links(HostId(0), HostId(1), 0).len(), 2);
    assert_eq!(network.paths(HostId(3), HostId(3)), 0);
}

/// Of the links that begin at a switch, more than one is the first of some path to another switch:
/// paths of one length are not chosen in the order of their links.
#[test]
fn paths_of_one_length_are_spread_over_links() {
    // In a full mesh of 40 switches, a pair has one path of one link and 38 of two.
    let network = build(shape(40, 40, 1)).unwrap();
    let mut used: BTreeMap<PortId, u32> = BTreeMap::new();
    for dst in 1..40 {
        for path in 0..network.paths(HostId(0), HostId(dst)) {
            *used.entry(network.path_links(HostId(0), HostId(dst), path)[1]).or_default() += 1;
        }
    }
    // 39 × 8 paths over 39 links: 8 each on average. By links in order, seven would have 39.
    assert_eq!(used.len(), 39);
    assert!(used.values().all(|times| *times < 24), "{used:?}");
}

#[test]
fn four_thousand_hosts_take_routes_of_pairs_in_use_only() {
    // The 24-port switches of the PDQ paper, with twice as many network ports as hosts.
    let network = build(shape(512, 24, 8)).unwrap();
    assert_eq!(network.hosts, 4096);
    for dst in [1, 9, 2048, 4095] {
        let (src, dst) = (HostId(0), HostId(dst));
        for path in 0..network.paths(src, dst) {
            let links = network.path_links(src, dst, path);
            assert_eq!(network.link(links[links.len() - 1]).to, NodeId::from(dst));
        }
    }
}

proptest! {
    #[test]
    fn graphs_are_regular_and_connected(
        switches in 2u32..40,
        degree in 3u32..12,
        hosts in 1u32..4,
        seed in any::<u64>(),
    ) {
        prop_assume!(degree < switches && switches * degree % 2 == 0);
        let shape = JellyfishShape { seed, ..shape(switches, degree + hosts, hosts) };
        let network = build(shape).unwrap();
        let edges = edges(&network);
        let distinct: BTreeSet<_> = edges.iter().copied().collect();
        prop_assert_eq!(distinct.len(), edges.len(), "no two switches are joined twice");
        for switch in 0..switches {
            prop_assert_eq!(edges.iter().filter(|e| e.0 == switch).count() as u32, degree);
            prop_assert!(!distinct.contains(&(switch, switch)));
        }
        for dst in 1..network.hosts {
            prop_assert!(network.paths(HostId(0), HostId(dst)) > 0);
        }
    }

    #[test]
    fn paths_are_the_shortest_by_an_exhaustive_search(
        (switches, degree) in prop::sample::select(vec![
            (2, 1), (3, 2), (4, 2), (4, 3), (6, 2), (6, 3), (7, 4), (8, 3), (8, 5), (9, 2),
        ]),
        k in 1u32..20,
        seed in any::<u64>(),
        ends in (any::<u32>(), any::<u32>()),
    ) {
        let shape = JellyfishShape { seed, paths: k, ..shape(switches, degree + 1, 1) };
        let network = build(shape).unwrap();
        let (src, dst) = (HostId(ends.0 % switches), HostId(ends.1 % switches));
        prop_assume!(src != dst);
        let mut expected = all_lengths(&edges(&network), src.0, dst.0, &mut Vec::new());
        expected.sort_unstable();
        expected.truncate(k as usize);
        let mut seen = BTreeSet::new();
        let mut lengths = Vec::new();
        for number in 0..network.paths(src, dst) {
            let path = network.path_links(src, dst, number);
            let mut met = BTreeSet::from([NodeId::from(src)]);
            let mut at = NodeId::from(src);
            for port in &path {
                let link = network.link(*port);
                prop_assert_eq!(link.from, at);
                prop_assert!(met.insert(link.to), "a node twice");
                at = link.to;
            }
            prop_assert_eq!(at, NodeId::from(dst));
            lengths.push(path.len() - 2);
            // Back by the same links, from the end and from anywhere between.
            for passed in 1..=path.len() {
                let mut packet = Packet::new(FlowId(0), dst, Header::default());
                packet.path = number;
                if passed == path.len() {
                    (packet.dst, packet.flags) = (src, PacketFlags::REVERSE_PATH);
                    network.enter(dst, &mut packet, |_| 0);
                    prop_assert_eq!(network.first_port(dst, &packet), network.nic(dst));
                    packet.hop = 1;
                } else {
                    network.enter(src, &mut packet, |_| 0);
                    packet.hop = passed as u8;
                    packet.dst = src;
                    network.turn_back(&mut packet);
                }
                let first = if passed == path.len() { passed - 1 } else { passed };
                for port in path[..first].iter().rev() {
                    let out = network.next_port(network.link(*port).to, &mut packet, |_| 0);
                    packet.hop += 1;
                    prop_assert_eq!(out, network.link(*port).twin);
                }
            }
            prop_assert!(seen.insert(path), "a path twice");
        }
        // In order of their length.
        prop_assert_eq!(lengths, expected);
    }
}
