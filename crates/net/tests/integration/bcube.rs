//! BCube: its size, and its parallel paths.

use proptest::prelude::*;
use punctual_core::{Bytes, Duration, FlowId, Header, HostId, NodeId, Packet, PacketFlags};
use punctual_core::{PortId, Rate};
use punctual_net::{BcubeError, BcubeShape, Network, Tier};
use std::collections::BTreeSet;

fn bcube(n: u32, k: u32) -> Network {
    let (rate, delay) = (Rate::from_gbps(1), Duration::from_micros(1));
    let shape = BcubeShape { n, k };
    shape.build(rate, delay, Duration::ZERO, Bytes::new(1500), Bytes::ZERO).expect("a BCube")
}

/// The digits of a host's address, by division rather than by the network's tables.
fn digits(mut host: u32, n: u32, k: u32) -> Vec<u32> {
    let mut digits = Vec::new();
    for _ in 0..=k {
        digits.push(host % n);
        host /= n;
    }
    digits
}

fn nodes(network: &Network, src: u32, path: &[PortId]) -> Vec<u32> {
    let ends = path.iter().map(|port| network.link(*port).to.0);
    std::iter::once(src).chain(ends).collect()
}

#[test]
fn it_has_the_nodes_and_links_of_the_definition() {
    for (n, k) in [(2, 0), (2, 1), (2, 3), (3, 2), (4, 1), (8, 1)] {
        let network = bcube(n, k);
        let (hosts, per_level) = (n.pow(k + 1), n.pow(k));
        assert_eq!(network.hosts, hosts);
        assert_eq!(network.names.len() as u32, hosts + (k + 1) * per_level);
        assert_eq!(network.links.len() as u32, 2 * hosts * (k + 1));
        assert_eq!(network.nics_per_host(), k + 1);
        assert_eq!(network.hosts_forward(), k > 0);
        // A host and a switch share at most one link, and a switch has n of them.
        let joined: BTreeSet<_> = network.links.iter().map(|l| (l.from, l.to)).collect();
        assert_eq!(joined.len(), network.links.len());
        for switch in hosts..network.names.len() as u32 {
            assert_eq!(network.links.iter().filter(|l| l.from.0 == switch).count() as u32, n);
        }
        for host in (0..hosts).map(HostId) {
            assert_eq!(network.nics(host).len() as u32, k + 1);
            for (level, nic) in network.nics(host).iter().enumerate() {
                let link = network.link(*nic);
                assert_eq!((link.from, link.tier), (NodeId::from(host), Tier::HostUp));
                // The hosts of a switch of this level differ in this digit only.
                let mut own = digits(host.0, n, k);
                own[level] = 0;
                for port in network.links.iter().filter(|l| l.from == link.to) {
                    let mut other = digits(port.to.0, n, k);
                    other[level] = 0;
                    assert_eq!(other, own);
                }
            }
        }
    }
}

#[test]
fn the_paths_of_the_paper_by_hand() {
    // BCube(4, 1): host 0 is 00, host 5 is 11, host 1 is 01. Switches: 16 to 19 of level 0, 20 to
    // 23 of level 1.
    let network = bcube(4, 1);
    let path = |dst, n| nodes(&network, 0, &network.path_links(HostId(0), HostId(dst), n));
    assert_eq!(path(5, 0), [0, 16, 1, 21, 5]);
    assert_eq!(path(5, 1), [0, 20, 4, 17, 5]);
    assert_eq!(path(1, 0), [0, 16, 1]);
    // Digit 1 agrees: by the next host of level 1, then digit 0, then back.
    assert_eq!(path(1, 1), [0, 20, 4, 17, 5, 21, 1]);
}

#[test]
fn impossible_shapes_are_refused() {
    let hosts = |n, k| BcubeShape { n, k }.hosts();
    assert_eq!(hosts(1, 3), Err(BcubeError::Ports(1)));
    assert_eq!(hosts(0, 0), Err(BcubeError::Ports(0)));
    assert_eq!(hosts(2, 3), Ok(16));
    assert_eq!(hosts(2, 20), Err(BcubeError::Hosts { n: 2, k: 20 }));
    assert_eq!(hosts(70_000, 1), Err(BcubeError::Hosts { n: 70_000, k: 1 }));
    assert_eq!(hosts(2, u32::MAX), Err(BcubeError::Hosts { n: 2, k: u32::MAX }));
}

#[test]
fn four_thousand_hosts_need_no_table() {
    let network = bcube(64, 1);
    assert_eq!(network.hosts, 4096);
    assert_eq!(network.paths(HostId(0), HostId(4095)), 2);
    assert_eq!(network.path_links(HostId(0), HostId(4095), 1).len(), 4);
}

/// Follows a packet on a reverse path, hop by hop.
fn walk_back(network: &Network, src: HostId, dst: HostId, path: u32) -> Vec<PortId> {
    let mut packet = Packet::new(FlowId(0), dst, Header::default());
    (packet.path, packet.flags) = (path, PacketFlags::REVERSE_PATH);
    network.enter(src, &mut packet, |_| 0);
    let mut ports = vec![network.first_port(src, &packet)];
    loop {
        let node = network.link(ports[ports.len() - 1]).to;
        if node == NodeId::from(dst) || ports.len() > 64 {
            return ports;
        }
        packet.hop += 1;
        ports.push(network.next_port(node, &mut packet, |_| 0));
    }
}

proptest! {
    #[test]
    fn paths_are_disjoint_valid_and_reversible(
        (n, k) in prop::sample::select(vec![(2, 1), (2, 3), (2, 5), (3, 2), (4, 1), (4, 2), (5, 1)]),
        ends in (any::<u32>(), any::<u32>()),
        turns in any::<u32>(),
    ) {
        let network = bcube(n, k);
        let (src, dst) = (HostId(ends.0 % network.hosts), HostId(ends.1 % network.hosts));
        prop_assume!(src != dst);
        let differing = digits(src.0, n, k)
            .into_iter()
            .zip(digits(dst.0, n, k))
            .filter(|(a, b)| a != b)
            .count();
        prop_assert_eq!(network.paths(src, dst), k + 1);
        let mut inner = BTreeSet::new();
        for number in 0..=k {
            let path = network.path_links(src, dst, number);
            // It leaves by its NIC, and is a chain of links to the destination.
            prop_assert_eq!(path[0], network.nics(src)[number as usize]);
            for pair in path.windows(2) {
                prop_assert_eq!(network.link(pair[0]).to, network.link(pair[1]).from);
            }
            let nodes = nodes(&network, src.0, &path);
            prop_assert_eq!(nodes.last(), Some(&dst.0));
            let agrees = digits(src.0, n, k)[number as usize] == digits(dst.0, n, k)[number as usize];
            prop_assert_eq!(path.len(), 2 * (differing + if agrees { 2 } else { 0 }));
            // Hosts and switches alternate.
            for (i, node) in nodes.iter().enumerate() {
                prop_assert_eq!(*node < network.hosts, i % 2 == 0);
            }
            for node in &nodes[1..nodes.len() - 1] {
                prop_assert!(inner.insert(*node), "two paths share node {}", node);
            }
            let back: Vec<_> = path.iter().rev().map(|port| network.link(*port).twin).collect();
            prop_assert_eq!(walk_back(&network, dst, src, number), back);
            // A packet that turns back anywhere returns by the links it came by.
            let passed = 1 + turns as usize % path.len().max(2).saturating_sub(1);
            let mut packet = Packet::new(FlowId(0), dst, Header::default());
            packet.path = number;
            network.enter(src, &mut packet, |_| 0);
            for port in &path[..passed] {
                packet.hop += 1;
                network.next_port(network.link(*port).to, &mut packet, |_| 0);
            }
            packet.dst = src;
            network.turn_back(&mut packet);
            for port in path[..passed].iter().rev() {
                let out = network.next_port(network.link(*port).to, &mut packet, |_| 0);
                packet.hop += 1;
                prop_assert_eq!(out, network.link(*port).twin);
            }
        }
    }
}
