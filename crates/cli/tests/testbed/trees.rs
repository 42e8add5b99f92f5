//! Networks of several switches, whose links to each other are in the memory of one process.

use crate::bed::{Bed, is_possible, leftovers};
use crate::traffic::ping;
use punctual_core::{Class, FlowId, Header, HostId, Packet, PacketFlags};
use punctual_switch::in_namespace;
use punctual_transports::ndp::{NdpHeader, kind};
use punctual_wire::{NdpCodec, WireName, dscp_of, emit};
use socket2::{Domain, Socket, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const QUEUE: &str = "{ kind = \"drop-tail\", limit = \"100packets\" }";
const RATES: &str = "rate = \"100Mbps\"\ndelay = \"5us\"";

/// Every network that a testbed can have: all of it comes up, both ends reach each other over as
/// many links as the network has between them, and nothing is left.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn trees__of_every_kind_come_up_and_go() {
    if !is_possible() {
        return;
    }
    let cases = [
        // Keys, hosts, directed links, links between the first host and the last.
        ("topology = \"tree\"", 12, 32, 4),
        ("topology = \"leaf-spine\"\nracks = 2\nhosts_per_rack = 2\nspines = 2", 4, 16, 4),
        ("topology = \"fat-tree\"\nk = 4", 16, 96, 6),
        ("topology = \"bottleneck\"\nsenders = 3", 4, 10, 3),
        ("topology = \"pair\"", 2, 2, 1),
    ];
    for (keys, hosts, links, hops) in cases {
        let bed = Bed::with_network(&format!("{keys}\n{RATES}"), "tcp", QUEUE);
        bed.must("up", &[]);
        let prefix = bed.prefix();
        assert_eq!(leftovers(&prefix).len(), hosts + 2, "{keys}: hosts, switch, directory");
        let last = Ipv4Addr::new(10, 0, 0, hosts as u8);
        let rtt = in_namespace(&format!("{prefix}-h0"), || ping(last)).expect(keys);
        // A packet of 28 bytes with its framing takes 5.28 us, and each link adds 5 us.
        assert!(rtt >= Duration::from_nanos(10_280) * 2 * hops, "{keys}: {rtt:?}");
        println!(
            "{}: ping over {hops} links: {} us",
            keys.lines().next().unwrap_or(keys),
            rtt.as_micros()
        );
        let report = bed.report();
        assert_eq!(report["ports"].as_array().map(Vec::len), Some(links), "{keys}");
        bed.must("down", &[]);
        assert_eq!(leftovers(&prefix), Vec::<String>::new(), "{keys}");
    }
}

/// Two racks and four spines, whose links delay by 1, 26, 51 and 76 ms: the time that a packet takes
/// says which way it took.
fn four_ways() -> String {
    let mut text = String::new();
    for host in ["a", "b"] {
        text += &format!("[[host]]\nname = \"{host}\"\n");
    }
    for switch in ["left", "right", "s0", "s1", "s2", "s3"] {
        text += &format!("[[switch]]\nname = \"{switch}\"\n");
    }
    let mut link = |a: &str, b: &str, delay: String| {
        text += &format!(
            "[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"100Mbps\"\ndelay = \"{delay}\"\n"
        );
    };
    link("a", "left", "5us".into());
    link("b", "right", "5us".into());
    for spine in 0..4 {
        link("left", &format!("s{spine}"), format!("{}ms", 1 + 25 * spine));
        link("right", &format!("s{spine}"), "5us".into());
    }
    text
}

/// A datagram of NDP that asks for a path.
fn datagram(path: u16) -> Vec<u8> {
    let header =
        NdpHeader { seq: 1, cumulative: 0, sent_at: 0, pull: 0, path, kind: kind::DATA, flags: 0 };
    let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
    packet.payload_bytes = 1000;
    packet.class = Class::DATA;
    packet.flags = PacketFlags::TRIMMABLE;
    let name = WireName { flow: 7, incarnation: 1 };
    let mut bytes = Vec::new();
    let fill = |payload: &mut [u8]| {
        payload.fill(0);
        Ok::<(), ()>(())
    };
    emit(&NdpCodec, name, &packet, None, &mut bytes, fill).expect("it fits");
    bytes
}

/// Sends three times from a port of host `a` and returns in units of 25 ms how long it takes to host
/// `b`. A busy machine delays packets, but makes none faster: the least of the times counts.
fn way(from: &UdpSocket, to: &UdpSocket, bytes: &[u8]) -> io::Result<u128> {
    let mut least = u128::MAX;
    for _ in 0..3 {
        let begin = Instant::now();
        from.send_to(bytes, to.local_addr()?)?;
        to.recv(&mut [0; 2048])?;
        least = least.min(begin.elapsed().as_millis() / 25);
    }
    Ok(least)
}

fn socket(namespace: &str, address: Ipv4Addr) -> io::Result<UdpSocket> {
    in_namespace(namespace, || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        socket.set_tos_v4(u32::from(dscp_of(Class::DATA)) << 2)?;
        socket.bind(&SocketAddr::from((address, 0)).into())?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(UdpSocket::from(socket))
    })
}

#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn paths__are_obeyed_and_other_flows_spread() {
    if !is_possible() {
        return;
    }
    let bed = Bed::with_network("topology = \"file\"\npath = \"n.topology\"", "ndp", QUEUE);
    bed.write("n.topology", &four_ways());
    bed.must("up", &[]);
    let (a, b) = (format!("{}-h0", bed.prefix()), format!("{}-h1", bed.prefix()));
    let receiver = socket(&b, Ipv4Addr::new(10, 0, 0, 2)).expect("a socket");
    // One source port for all: only the header says the path. Paths count modulo four.
    let sender = socket(&a, Ipv4Addr::new(10, 0, 0, 1)).expect("a socket");
    let mut taken = BTreeMap::new();
    for n in 0..12u16 {
        let way = way(&sender, &receiver, &datagram(n)).expect("it arrives");
        assert_eq!(*taken.entry(n % 4).or_insert(way), way, "path {n}");
    }
    assert_eq!(taken.values().collect::<BTreeSet<_>>().len(), 4, "four paths: {taken:?}");
    // Other packets: a flow keeps to its way, and 32 flows find all four.
    let mut found = BTreeSet::new();
    for _ in 0..32 {
        let sender = socket(&a, Ipv4Addr::new(10, 0, 0, 1)).expect("a socket");
        let first = way(&sender, &receiver, b"a packet of another protocol").expect("it arrives");
        let second = way(&sender, &receiver, b"another packet of it").expect("it arrives");
        assert_eq!(first, second);
        found.insert(first);
    }
    // That 32 flows miss one of four ways has a probability below 4 * 0.75^32 = 0.04 %.
    assert_eq!(found.len(), 4, "{found:?}");
}
