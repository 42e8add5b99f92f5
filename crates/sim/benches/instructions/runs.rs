//! Whole runs: an operation is a packet leaving an output port.

use crate::Done;
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Class, Duration, FlowId, FlowSpec, HostId, Instant, Rate, TransportId};
use punctual_net::{ClosLinks, ClosShape, Network};
use punctual_sim::{EngineOptions, Measure, Setup, Stop};
use punctual_transports::{AnyTransport, TransportSettings};
use punctual_workload::Workload;
use std::ops::ControlFlow;

/// Everybody sends to somebody else, without end, on a fat tree of 10 Gb/s and 1 µs links.
pub(crate) fn permutation(transport: &str, k: u32, micros: u64) -> Done {
    let mtu = if transport == "ndp" { 9064 } else { 1500 };
    let links = ClosLinks::uniform(Rate::from_gbps(10), Duration::from_micros(1));
    let network = ClosShape::fat_tree(k, 1).build(&links, Bytes::new(mtu), Bytes::ZERO);
    let flows = flows(network.hosts);
    run(transport, network, flows, micros)
}

/// Ten flows a host of 2 to 198 KB with deadlines, to hosts drawn at random, on the same tree.
pub(crate) fn ten_each(transport: &str, micros: u64) -> Done {
    let links = ClosLinks::uniform(Rate::from_gbps(10), Duration::from_micros(1));
    let network = ClosShape::fat_tree(8, 1).build(&links, Bytes::new(1500), Bytes::ZERO);
    let hosts = network.hosts;
    let mut stream = Stream::named(1, "ten each", 0);
    let flows = (0..10 * hosts)
        .map(|n| {
            let to = (n + 1 + stream.below(u64::from(hosts - 1)) as u32) % hosts;
            deadline_flow(n, n % hosts, to, 0.002, &mut stream)
        })
        .collect();
    run(transport, network, flows, micros)
}

/// PDQ's query aggregation: 25 flows of 2 to 198 KB with deadlines to one of 12 hosts.
pub(crate) fn aggregation(transport: &str, micros: u64) -> Done {
    let links = ClosLinks::uniform(Rate::from_gbps(1), Duration::from_nanos(25_100));
    let network = ClosShape::leaf_spine(4, 3, 1).build(&links, Bytes::new(1500), Bytes::ZERO);
    let mut stream = Stream::named(1, "aggregation", 0);
    let flows = (0..25).map(|n| deadline_flow(n, 1 + n % 11, 0, 0.020, &mut stream)).collect();
    run(transport, network, flows, micros)
}

fn deadline_flow(id: u32, src: u32, dst: u32, mean: f64, stream: &mut Stream) -> FlowSpec {
    let size = Bytes::new(2_000 + stream.below(196_001));
    let deadline = Duration::from_secs_f64(stream.exponential(mean).max(mean * 0.15));
    FlowSpec { size, deadline: Some(Instant::ZERO + deadline), ..endless(id, src, dst) }
}

fn run(transport: &str, network: Network, flows: Vec<FlowSpec>, micros: u64) -> Done {
    let transport = AnyTransport::by_name(transport, &TransportSettings::default())
        .expect("a transport of that name");
    let setup = Setup {
        switch_queue: transport.default_queue(network.links[0].rate, network.mtu),
        port_queues: Vec::new(),
        workload: Workload { flows, ..Workload::default() },
        network,
        transports: vec![transport],
        seed: 1,
        stop: Stop { at: Instant::ZERO + Duration::from_micros(micros), when_done: false },
        link_changes: Vec::new(),
        switch_resets: Vec::new(),
        legacy_switches: Vec::new(),
        sampling: None,
        sampled_flows: Vec::new(),
        check: false,
        network_trace: false,
        packet_latency: false,
        capture_max: 0,
        measure: Measure::default(),
        engine: EngineOptions::default(),
    };
    let totals = punctual_sim::run(setup, &mut |_| ControlFlow::Continue(())).totals;
    let digest = totals.events ^ totals.delivered_wire_bytes.rotate_left(32);
    Done { operations: totals.packet_hops, digest }
}

fn endless(id: u32, src: u32, dst: u32) -> FlowSpec {
    FlowSpec {
        id: FlowId(id),
        src: HostId(src),
        dst: HostId(dst),
        size: Bytes::ENDLESS,
        start: Instant::ZERO,
        deadline: None,
        transport: TransportId(0),
        class: Class::DATA,
        background: false,
        pattern: 0,
    }
}

fn flows(hosts: u32) -> Vec<FlowSpec> {
    let mut to: Vec<u32> = (0..hosts).collect();
    Stream::named(1, "permutation", 0).shuffle(&mut to);
    for i in 0..hosts as usize {
        if to[i] == i as u32 {
            to.swap(i, (i + 1) % hosts as usize);
        }
    }
    (0..hosts).map(|host| endless(host, host, to[host as usize])).collect()
}
