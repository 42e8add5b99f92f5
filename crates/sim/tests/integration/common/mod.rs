//! Runs put together by hand, for tests.
#![allow(dead_code, unreachable_pub)]

use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, Class, Duration, FlowId, FlowSpec, HostId, Instant, QueueSpec, Rate, TransportId,
};
use punctual_net::{ClosLinks, ClosShape, Network, Topology};
use punctual_sim::{EngineOptions, Measure, Outcome, Setup, Stop};
use punctual_transports::{AnyTransport, TransportSettings};
use punctual_workload::Workload;
use std::ops::ControlFlow;

pub mod d3;

pub const GBPS10: Rate = Rate::from_gbps(10);
pub const US: Duration = Duration::from_micros(1);

pub fn transport(name: &str) -> AnyTransport {
    AnyTransport::by_name(name, &TransportSettings::default()).expect("a transport")
}

/// NDP with 9000 bytes of data in packets of 9064, as in its paper.
pub fn ndp_9k(initial_window: u32) -> AnyTransport {
    let mut settings = TransportSettings::default();
    settings.ndp.payload = Some(Bytes::new(9000));
    settings.ndp.initial_window = initial_window;
    AnyTransport::by_name("ndp", &settings).expect("ndp")
}

pub fn fat_tree(k: u32, mtu: u64) -> Network {
    let links = ClosLinks::uniform(GBPS10, US);
    ClosShape::fat_tree(k, 1).build(&links, Bytes::new(mtu), Bytes::ZERO)
}

pub fn star(hosts: u32, mtu: u64) -> Network {
    let links = ClosLinks::uniform(GBPS10, US);
    ClosShape::star(hosts).build(&links, Bytes::new(mtu), Bytes::ZERO)
}

pub fn back_to_back(mtu: u64) -> Network {
    Network::from_topology(Topology::pair(GBPS10, US), Bytes::new(mtu), Bytes::ZERO).expect("a way")
}

pub fn flow(src: u32, dst: u32, size: u64) -> FlowSpec {
    FlowSpec {
        id: FlowId(0),
        src: HostId(src),
        dst: HostId(dst),
        size: Bytes::new(size),
        start: Instant::ZERO,
        deadline: None,
        transport: TransportId(0),
        class: Class::DATA,
        background: false,
        pattern: 0,
    }
}

/// Everybody sends to somebody else, for ever.
pub fn permutation(hosts: u32, seed: u64) -> Vec<FlowSpec> {
    let mut to: Vec<u32> = (0..hosts).collect();
    Stream::named(seed, "permutation", 0).shuffle(&mut to);
    for i in 0..hosts as usize {
        if to[i] == i as u32 {
            to.swap(i, (i + 1) % hosts as usize);
        }
    }
    (0..hosts).map(|h| flow(h, to[h as usize], u64::MAX)).collect()
}

pub fn setup(network: Network, transports: Vec<AnyTransport>, mut flows: Vec<FlowSpec>) -> Setup {
    flows.sort_by_key(|f| f.start);
    let rate = network.links[0].rate;
    Setup {
        switch_queue: transports[0].default_queue(rate, network.mtu),
        port_queues: Vec::new(),
        network,
        transports,
        workload: Workload { flows, ..Workload::default() },
        seed: 1,
        stop: Stop { at: Instant::from_picos(10_000_000_000_000), when_done: true },
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
    }
}

pub fn run(setup: Setup) -> Outcome {
    let outcome = punctual_sim::run(setup, &mut |_| ControlFlow::Continue(()));
    assert_eq!(outcome.violations, Vec::<String>::new());
    outcome
}

pub fn drop_tail(packets: u32) -> QueueSpec {
    QueueSpec::DropTail { limit: punctual_core::Limit::Packets(packets) }
}

pub fn until_ms(ms: u64) -> Stop {
    Stop { at: Instant::ZERO + Duration::from_millis(ms), when_done: false }
}
