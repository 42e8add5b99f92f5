//! The switch and the simulator, packet by packet: the same arrivals have the same departures, drops
//! and trims, to the picosecond.

use crate::common::*;
use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, Class, Duration, FlowId, FlowSpec, HostId, Instant, Limit, QueueSpec, Rate, TransportId,
};
use punctual_net::{ClosLinks, ClosShape, Network};
use punctual_sim::{EngineOptions, FlowStatus, Measure, Setup, Stop};
use punctual_switch::{Fabric, Received, SwitchConfig};
use punctual_transports::{AnyTransport, TransportSettings};
use punctual_wire::{Frame, TrimMark};
use punctual_workload::Workload;
use std::ops::ControlFlow;

const HOSTS: u8 = 6;
const PACKETS: u32 = 3000;

/// A flow of one datagram for every packet. The load of host 0's port is about 130 %.
fn flows(seed: u64) -> Vec<FlowSpec> {
    let mut rng = Stream::from_seed(seed);
    let mut at = 0;
    let flow = |n| {
        at += rng.below(50_000_000);
        let src = 1 + rng.below(u64::from(HOSTS) - 1) as u32;
        let elsewhere = 1 + (src - 1 + 1 + rng.below(u64::from(HOSTS) - 2) as u32) % 5;
        FlowSpec {
            id: FlowId(n),
            src: HostId(src),
            dst: HostId(if rng.coin() { 0 } else { elsewhere }),
            size: Bytes::new(100 + rng.below(1372)),
            start: Instant::from_picos(at),
            deadline: None,
            transport: TransportId(0),
            class: Class(1 + rng.below(3) as u8),
            background: false,
            pattern: 0,
        }
    };
    (0..PACKETS).map(flow).collect()
}

fn network() -> Network {
    let links = ClosLinks::uniform(Rate::from_mbps(100), Duration::from_micros(3));
    ClosShape::star(HOSTS.into()).build(&links, Bytes::new(1500), Bytes::new(38))
}

/// When each packet arrived whole, if it did, and whether its header arrived trimmed.
type Fates = Vec<(Option<Instant>, bool)>;

fn simulated(flows: &[FlowSpec], queue: QueueSpec, is_trimmable: bool) -> (Fates, u64) {
    let mut settings = TransportSettings::default();
    settings.udp.trimmable = is_trimmable;
    let udp = AnyTransport::by_name("udp", &settings).expect("udp");
    let setup = Setup {
        switch_queue: queue,
        port_queues: Vec::new(),
        network: network(),
        transports: vec![udp],
        workload: Workload { flows: flows.to_vec(), ..Workload::default() },
        seed: 1,
        stop: Stop { at: Instant::from_picos(2_000_000_000_000), when_done: true },
        link_changes: Vec::new(),
        switch_resets: Vec::new(),
        legacy_switches: Vec::new(),
        sampling: None,
        sampled_flows: Vec::new(),
        check: true,
        network_trace: false,
        packet_latency: false,
        capture_max: 0,
        measure: Measure::default(),
        engine: EngineOptions::default(),
    };
    let outcome = punctual_sim::run(setup, &mut |_| ControlFlow::Continue(()));
    assert_eq!(outcome.violations, Vec::<String>::new());
    let fate = |flow: &punctual_sim::FlowRecord| {
        let ended = (flow.status == FlowStatus::Completed).then_some(flow.ended).flatten();
        (ended, flow.trims > 0)
    };
    (outcome.flows.iter().map(fate).collect(), outcome.totals.drops)
}

fn switched(flows: &[FlowSpec], queue: QueueSpec, is_ours: bool) -> (Fates, u64) {
    let base = star_config(HOSTS, DROP_TAIL_8, "transports = [\"ndp\"]");
    let network = network();
    let uplink = QueueSpec::Priority { limit: Limit::Packets(10_000) };
    let is_uplink = |link: &punctual_net::Link| link.from.0 < network.hosts;
    let queues = network.links.iter().map(|l| if is_uplink(l) { uplink } else { queue }).collect();
    let mut fabric = Fabric::new(&SwitchConfig { queues, network: network.clone(), ..base }, 0);
    let mut fates: Fates = vec![(None, false); flows.len()];
    let mut deliver = |_: HostId, frame: &[u8], at: Instant| {
        let whole = Frame::parse(frame, frame.len(), TrimMark::default());
        let (flow, is_trimmed) = match whole {
            Ok(frame) => (frame.datagram.envelope.name.flow, frame.datagram.payload.is_empty()),
            Err(_) => (u32::from_be_bytes(*frame[42..].first_chunk().expect("a number")), false),
        };
        fates[flow as usize] = if is_trimmed { (None, true) } else { (Some(at), false) };
    };
    for flow in flows {
        let outer = outer(flow.src.0 as u8, flow.dst.0 as u8, flow.class, 0);
        // The simulated datagram has 28 bytes of headers.
        let ip_bytes = flow.size.get() as usize + 28;
        let frame = if is_ours {
            ndp(&outer, flow.id.0, 0, 0, ip_bytes)
        } else {
            let mut frame = plain(&outer, ip_bytes);
            frame[42..46].copy_from_slice(&flow.id.0.to_be_bytes());
            frame
        };
        let received =
            Received { frame: &frame, at: flow.start, is_cut: false, checksum_missing: false };
        fabric.receive(flow.src, received);
        fabric.advance(flow.start, &mut deliver);
    }
    fabric.advance(Instant::from_picos(2_000_000_000_000), &mut deliver);
    assert_eq!(fabric.packets(), 0);
    let ports = (0..network.links.len()).map(punctual_core::PortId::from);
    let drops = ports.map(|port| fabric.port_counters(port).0.drops).sum();
    (fates, drops)
}

fn compare(queue: QueueSpec, is_trimmable: bool) {
    let queue = queue.sized_for(Bytes::new(1500));
    for seed in 1..=3 {
        let flows = flows(seed);
        let (expected, drops) = simulated(&flows, queue, is_trimmable);
        let (found, dropped) = switched(&flows, queue, is_trimmable);
        let lost = expected.iter().filter(|(at, _)| at.is_none()).count();
        assert!((100..PACKETS as usize / 2).contains(&lost), "{lost} lost: not a useful test");
        for (n, (expected, found)) in expected.iter().zip(&found).enumerate() {
            assert_eq!(expected, found, "packet {n} of seed {seed}: {:?}", flows[n]);
        }
        assert_eq!(drops, dropped);
    }
}

#[test]
fn simulator__drop_tail_in_packets() {
    compare(QueueSpec::DropTail { limit: Limit::Packets(8) }, false);
}

#[test]
fn simulator__drop_tail_in_bytes() {
    compare(QueueSpec::DropTail { limit: Limit::Bytes(Bytes::new(6000)) }, false);
}

#[test]
fn simulator__priorities() {
    compare(QueueSpec::Priority { limit: Limit::Packets(4) }, false);
}

/// The coin that decides which packet is trimmed falls alike, because it depends on seed and port.
#[test]
fn simulator__ndp_trimming() {
    let (data, headers) = (Limit::Packets(8), Limit::Packets(8));
    compare(QueueSpec::Trim { data, headers, mark_above: None }, true);
}
