//! Runs on several threads, with what tests of the whole simulator cannot reach.
#![allow(non_snake_case)]

use super::*;
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Class, HostId, Rate, TransportId};
use punctual_net::{ClosLinks, ClosShape, Network};
use punctual_record::Measure;
use punctual_transports::{AnyTransport, TransportSettings};
use punctual_workload::Workload;

const WINDOW: Duration = Duration::from_micros(1);

fn transport(name: &str) -> AnyTransport {
    AnyTransport::by_name(name, &TransportSettings::default()).expect("a transport")
}

fn fat_tree(k: u32) -> Network {
    let links = ClosLinks::uniform(Rate::from_gbps(10), WINDOW);
    ClosShape::fat_tree(k, 1).build(&links, Bytes::new(1500), Bytes::ZERO)
}

fn flow(src: u32, dst: u32, size: u64) -> FlowSpec {
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

fn setup(network: Network, name: &str, mut flows: Vec<FlowSpec>) -> Setup {
    flows.sort_by_key(|flow| flow.start);
    let transport = transport(name);
    Setup {
        switch_queue: transport.default_queue(network.links[0].rate, network.mtu),
        port_queues: Vec::new(),
        network,
        transports: vec![transport],
        workload: Workload { flows, ..Workload::default() },
        seed: 1,
        stop: crate::setup::Stop { at: Instant::from_picos(10_000_000_000), when_done: true },
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
        engine: crate::setup::EngineOptions { windows: Some(true), threads: 1 },
    }
}

/// Flows of up to 50 KB between random hosts, in the first 50 µs.
fn random_flows(hosts: u32, count: u32) -> Vec<FlowSpec> {
    let mut stream = Stream::named(1, "random flows", 0);
    let mut draw = |below: u32| stream.below(u64::from(below)) as u32;
    let flow = |_| {
        let (src, by) = (draw(hosts), 1 + draw(hosts - 1));
        let start = Instant::ZERO + Duration::from_nanos(draw(50_000).into());
        FlowSpec { start, ..flow(src, (src + by) % hosts, 1 + u64::from(draw(50_000))) }
    };
    (0..count).map(flow).collect()
}

fn on_one_thread(setup: &Setup) -> Outcome {
    Engine::new(setup.clone(), NoTap).run(&mut |_| ControlFlow::Continue(()))
}

#[track_caller]
fn assert_same(several: &Outcome, one: &Outcome) {
    assert_eq!(several.totals, one.totals);
    assert!(several.flows == one.flows, "flows");
    assert!(several.ports == one.ports, "ports");
    assert!(several.controllers == one.controllers, "controllers");
    assert!(several.pauses == one.pauses, "pauses");
    assert!(several.samples == one.samples, "samples");
    assert!(several.gauges == one.gauges, "gauges");
}

/// No system has memory for a stack of this size, so that it starts no such thread.
const TOO_LARGE: usize = 1 << 60;

/// A run goes on with the threads that the system starts, or on the caller's alone.
#[test]
fn threads__that_cannot_start_are_done_without() {
    let network = fat_tree(4);
    let setup = setup(network, "ndp", random_flows(16, 60));
    let one = on_one_thread(&setup);
    for started in [0, 1, 2] {
        let builders = std::cell::Cell::new(0);
        let new_thread = || {
            builders.set(builders.get() + 1);
            match builders.get() > started {
                true => Builder::new().stack_size(TOO_LARGE),
                false => Builder::new(),
            }
        };
        let go_on = &mut |_| ControlFlow::Continue(());
        let several = run_on(setup.clone(), WINDOW, 4, &new_thread, go_on);
        assert_same(&several, &one);
        assert_eq!(builders.get(), started + 1, "none is tried after one that cannot start");
    }
}
