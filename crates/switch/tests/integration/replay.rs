//! The switch and the simulator, packet by packet, under real transports: what the simulator's hosts
//! sent enters the switch at the same times, and leaves it at the same times with the same headers,
//! grants and marks.

use crate::common::*;
use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, Class, Duration, FlowId, FlowSpec, HostId, Instant, Limit, Packet, PacketFlags,
    QueueSpec, Rate, TransportId,
};
use punctual_net::{ClosLinks, ClosShape, Link, Network};
use punctual_sim::{CapturedPacket, EngineOptions, Measure, Outcome, Setup, Stop};
use punctual_switch::{Fabric, Received, SwitchConfig};
use punctual_transports::{AnyTransport, TransportSettings};
use punctual_wire::{
    AnyCodec, Datagram, Frame, PacketCodec as _, TrimMark, WireName, ecn_bits, write_frame,
};
use punctual_workload::Workload;
use std::collections::HashMap;
use std::ops::ControlFlow;

const HOSTS: u8 = 6;
const ETHERNET: usize = 14;
/// The framing of the switch's links.
const FRAMING: u16 = 38;

/// A packet that reaches a host: when, and what its receiver sees of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Arrival {
    at: Instant,
    what: Seen,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// Envelope and fields of a datagram of ours, and how much of its payload is left.
    Ours(String, Vec<u8>, usize),
    /// The number of a packet of another protocol, and its ECN codepoint.
    Other(u32, u8),
}

/// Flows to host 0, all within a few milliseconds. No two have the same size.
fn flows(seed: u64, transports: usize, deadlines: bool) -> Vec<FlowSpec> {
    let mut rng = Stream::from_seed(seed);
    let mut start = 0;
    let flow = |n: u32| {
        start += rng.below(400_000_000);
        let deadline = deadlines.then(|| Duration::from_picos(20_000_000_000 + rng.below(1 << 36)));
        let start = Instant::from_picos(start);
        FlowSpec {
            id: FlowId(n),
            src: HostId(1 + n % (u32::from(HOSTS) - 1)),
            dst: HostId(0),
            size: Bytes::new(20_000 + rng.below(80_000)),
            start,
            deadline: deadline.filter(|_| !n.is_multiple_of(3)).map(|after| start + after),
            transport: TransportId((n as usize % transports) as u8),
            class: Class::DATA,
            background: false,
            pattern: 0,
        }
    };
    (0..12).map(flow).collect()
}

/// A star at 100 Mb/s. Headers on the wire are longer by `longer` bytes than the simulator's, which
/// counts them as framing. Hosts have links of different lengths, so that packets of two hosts never
/// arrive at one instant.
fn network(longer: u16) -> Network {
    let links = ClosLinks::uniform(Rate::from_mbps(100), Duration::from_micros(103));
    let framing = Bytes::new(u64::from(FRAMING + longer));
    let mut network = ClosShape::star(HOSTS.into()).build(&links, Bytes::new(1500), framing);
    for link in &mut network.links {
        let host = u64::from(link.from.0.min(link.to.0));
        link.delay += Duration::from_picos(1_000_003 * host * host);
    }
    network
}

/// The transports' parameters: rates of D3 and RCPdc as the wire has them. Their ports leave out the
/// bytes of the queue, which are more on the wire; times of departure depend on them still.
fn settings() -> TransportSettings {
    let mut settings = TransportSettings::default();
    for params in [&mut settings.d3.params, &mut settings.rcpdc.0] {
        (params.integer_rates, params.beta) = (true, 0.0);
    }
    settings
}

fn simulated(names: &[&str], queue: QueueSpec, flows: Vec<FlowSpec>, longer: u16) -> Outcome {
    let settings = settings();
    let transport = |name: &&str| AnyTransport::by_name(name, &settings).expect("a transport");
    let setup = Setup {
        switch_queue: queue,
        port_queues: Vec::new(),
        network: network(longer),
        transports: names.iter().map(transport).collect(),
        workload: Workload { flows, ..Workload::default() },
        seed: 1,
        stop: Stop { at: Instant::from_picos(500_000_000_000), when_done: true },
        link_changes: Vec::new(),
        switch_resets: Vec::new(),
        legacy_switches: Vec::new(),
        sampling: None,
        sampled_flows: Vec::new(),
        check: true,
        network_trace: false,
        packet_latency: false,
        capture_max: 200_000,
        measure: Measure::default(),
        engine: EngineOptions::default(),
    };
    let outcome = punctual_sim::run(setup, &mut |_| ControlFlow::Continue(()));
    assert_eq!(outcome.violations, Vec::<String>::new());
    outcome
}

/// Numbers of packets without codec: the same for a packet before and after the switch.
#[derive(Default)]
struct Numbers(HashMap<String, u32>);

impl Numbers {
    fn of(&mut self, packet: &Packet) -> u32 {
        let direction = packet.is_to_sender();
        let name = format!("{:?} {direction} {:?}", packet.flow, packet.header);
        let next = self.0.len() as u32;
        *self.0.entry(name).or_insert(next)
    }
}

fn seen(datagram: &Datagram<'_>) -> Seen {
    let (mut envelope, fields) = (datagram.envelope, datagram.fields.to_vec());
    if envelope.flags.has(PacketFlags::TRIMMED) {
        // Trimmed packets are control packets. The simulator writes that into their header.
        envelope.class = Class::CONTROL;
    }
    Seen::Ours(format!("{envelope:?}"), fields, datagram.payload.len())
}

/// A packet of the simulator as a datagram.
fn datagram(codec: &AnyCodec, captured: &CapturedPacket) -> Vec<u8> {
    let name = WireName { flow: captured.packet.flow.0, incarnation: 1 };
    let mut bytes = Vec::new();
    codec.emit_zeros(name, &captured.packet, captured.block.as_deref(), &mut bytes);
    bytes
}

/// A packet of the simulator as a frame whose IP packet is longer by `longer` bytes: bytes beyond the
/// datagram are the padding of Ethernet.
fn frame(
    codec: Option<&AnyCodec>,
    captured: &CapturedPacket,
    from: HostId,
    longer: u16,
    numbers: &mut Numbers,
) -> Vec<u8> {
    let packet = &captured.packet;
    let outer = outer(from.0 as u8, packet.dst.0 as u8, packet.class, ecn_bits(packet.ecn()));
    let bytes = usize::from(packet.wire_bytes + longer);
    let mut frame = Vec::new();
    match codec {
        Some(codec) => write_frame(&outer, &datagram(codec, captured), &mut frame),
        None => {
            frame = plain(&outer, bytes);
            frame[42..46].copy_from_slice(&numbers.of(packet).to_be_bytes());
        }
    }
    assert!(frame.len() <= bytes + ETHERNET, "{packet:?} has {} bytes on the wire", frame.len());
    frame.resize(bytes + ETHERNET, 0);
    frame
}

/// Replays what hosts sent into a switch, and compares what reaches them. Returns how many packets
/// were compared, and how many of them were marked.
fn compare(names: &[&str], queue: QueueSpec, deadlines: bool, seed: u64) -> (usize, usize) {
    let codec_of = |name: &&str| AnyCodec::of(name, Bytes::new(1500));
    let codecs: Vec<Option<AnyCodec>> = names.iter().map(codec_of).collect();
    let longer = codecs.iter().flatten().map(|codec| codec.longer_by()).max().unwrap_or(0);
    let queue = queue.sized_for(Bytes::new(1500));
    let outcome = simulated(names, queue, flows(seed, names.len(), deadlines), longer);
    let network = network(longer);
    let is_host = |node: punctual_core::NodeId| node.0 < network.hosts;
    let codec_of = |packet: &Packet| codecs[packet.transport.index()].as_ref();
    let mut numbers = Numbers::default();

    let mut expected = vec![Vec::new(); HOSTS.into()];
    for captured in &outcome.captured {
        let Link { to, rate, delay, .. } = network.links[captured.port.index()];
        if is_host(to) {
            let packet = &captured.packet;
            let bytes = Bytes::new(packet.wire_bytes.into()) + network.framing;
            let at = captured.at + rate.transmission_time(bytes) + delay;
            let what = match codec_of(packet) {
                Some(codec) => seen(&Datagram::parse(&datagram(codec, captured)).expect("sound")),
                None => Seen::Other(numbers.of(packet), ecn_bits(packet.ecn())),
            };
            expected[to.index()].push(Arrival { at, what });
        }
    }

    let base = star_config(HOSTS, DROP_TAIL_8, "");
    let uplink = QueueSpec::Priority { limit: Limit::Packets(10_000) };
    let queues = network.links.iter().map(|link| if is_host(link.from) { uplink } else { queue });
    let settings = settings();
    let with_codec = names.iter().filter(|name| AnyCodec::of(name, Bytes::new(1500)).is_some());
    let transports =
        with_codec.map(|name| AnyTransport::by_name(name, &settings).expect("a transport"));
    let mut on_wire = network.clone();
    on_wire.framing = Bytes::new(FRAMING.into());
    let config = SwitchConfig {
        queues: queues.collect(),
        // The simulator's hosts have passed the controllers of their links.
        uplink_controllers: false,
        transports: transports.collect(),
        network: on_wire,
        ..base
    };
    let mut fabric = Fabric::new(&config, 0);
    let mut found = vec![Vec::new(); HOSTS.into()];
    let mut deliver = |host: HostId, frame: &[u8], at: Instant| {
        let what = match Frame::parse(frame, frame.len(), TrimMark::default()) {
            Ok(frame) => seen(&frame.datagram),
            Err(_) => {
                let number = frame[42..].first_chunk().expect("a number");
                Seen::Other(u32::from_be_bytes(*number), frame[15] & 3)
            }
        };
        found[host.index()].push(Arrival { at, what });
    };
    for captured in &outcome.captured {
        let from = network.links[captured.port.index()].from;
        if is_host(from) {
            let from = HostId(from.0);
            let codec = codec_of(&captured.packet);
            let frame = frame(codec, captured, from, longer, &mut numbers);
            let (at, is_cut) = (captured.at, false);
            fabric.receive(from, Received { frame: &frame, at, is_cut, checksum_missing: false });
            fabric.advance(captured.at, &mut deliver);
        }
    }
    fabric.advance(Instant::from_picos(1_000_000_000_000), &mut deliver);

    let mut compared = 0;
    for (host, (expected, found)) in expected.iter().zip(&found).enumerate() {
        for (n, (expected, found)) in expected.iter().zip(found).enumerate() {
            assert_eq!(expected, found, "{names:?}: arrival {n} at host {host}, seed {seed}");
        }
        // The simulator ended while the last packets were on their way.
        let rest = found.len().checked_sub(expected.len());
        assert!(rest.is_some_and(|rest| rest < 200), "{names:?}: {rest:?} more at host {host}");
        compared += expected.len();
    }
    let is_marked = |captured: &&CapturedPacket| captured.packet.flags.has(PacketFlags::ECN_MARKED);
    let to_hosts = outcome.captured.iter().filter(|c| is_host(network.links[c.port.index()].to));
    (compared, to_hosts.filter(is_marked).count())
}

/// Twelve flows of 20 to 100 KB have at least 12 · 14 packets with data, and their answers.
const PACKETS_MIN: usize = 2 * 12 * 14;

#[test]
fn replay__ecn() {
    let (limit, mark_above) = (Limit::Packets(30), Limit::Packets(5));
    for seed in 1..=3 {
        let queue = QueueSpec::Ecn { limit, mark_above };
        let (compared, marked) = compare(&["dctcp"], queue, false, seed);
        println!("ECN: {compared} packets, {marked} marked");
        assert!(compared >= PACKETS_MIN && marked > 100, "{compared} {marked}");
    }
}

#[test]
fn replay__fair_classes() {
    let queue = QueueSpec::FairClasses {
        trim_data: Limit::Packets(8),
        trim_headers: Limit::Packets(8),
        rest: Limit::Packets(30),
        rest_mark_above: Some(Limit::Packets(5)),
        trim_percent: 50,
    };
    for seed in 1..=3 {
        let (compared, marked) = compare(&["ndp", "dctcp"], queue, false, seed);
        println!("fair classes: {compared} packets, {marked} marked");
        assert!(compared >= PACKETS_MIN && marked > 50, "{compared} {marked}");
    }
}

#[test]
fn replay__d3_and_rcpdc() {
    let queue = QueueSpec::DropTail { limit: Limit::Packets(100) };
    for seed in 1..=3 {
        for name in ["d3", "rcpdc"] {
            let (compared, _) = compare(&[name], queue, true, seed);
            println!("{name}: {compared} packets");
            assert!(compared >= PACKETS_MIN, "{name}: {compared}");
        }
    }
}

#[test]
fn replay__pdq() {
    let queue = QueueSpec::DropTail { limit: Limit::Packets(100) };
    for seed in 1..=3 {
        let (compared, _) = compare(&["pdq"], queue, true, seed);
        println!("pdq: {compared} packets");
        assert!(compared >= PACKETS_MIN, "{compared}");
    }
}
