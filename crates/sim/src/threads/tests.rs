//! Runs on several threads, with what tests of the whole simulator cannot reach.
#![allow(non_snake_case)]

use super::*;
use crate::setup::{EngineOptions, LinkChange, LinkFault, Sampling, Stop};
use crate::tap::NoTap;
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Class, HostId, PortId, Rate, TransportId};
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
        stop: Stop { at: Instant::from_picos(10_000_000_000), when_done: true },
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
        engine: EngineOptions { windows: Some(true), threads: 1 },
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

fn plan(rule: PaceRule) -> SharingPlan {
    SharingPlan { window: WINDOW, threads: 4, rule }
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
        let plan = plan(PaceRule::Fixed);
        match run_on(setup.clone(), plan, &|_| NoTap, &new_thread, go_on) {
            Ok(several) => assert_same(&several, &one),
            Err(back) => {
                assert_eq!(started, 0, "the set-up comes back");
                assert_eq!(back.workload.flows, setup.workload.flows);
            }
        }
        assert_eq!(builders.get(), started + 1, "none is tried after one that cannot start");
    }
}

/// Runs on four threads, compares with one, and returns how the windows were handled.
#[track_caller]
fn shared_out_by(rule: PaceRule, setup: &Setup) -> SharingReport {
    let one = on_one_thread(setup);
    let go_on = &mut |_| ControlFlow::Continue(());
    let several = run(setup.clone(), plan(rule), &|_| NoTap, go_on);
    assert_same(&several.expect("threads"), &one);
    let report = SharingReport::last();
    assert_eq!(report.threads, 4);
    report
}

#[track_caller]
fn shared_out(setup: &Setup) -> SharingReport {
    shared_out_by(PaceRule::Fixed, setup)
}

/// Each host sends to the one eight further on.
fn across(hosts: u32, size: u64) -> impl Iterator<Item = FlowSpec> {
    (0..hosts).map(move |host| flow(host, (host + 8) % hosts, size))
}

/// Flows for which the run does not wait do not end it, however many of them get packets.
#[test]
fn most_ends__background_flows_do_not_count() {
    let long = |flow| FlowSpec { background: true, ..flow };
    let mut flows: Vec<_> = across(16, u64::MAX).map(long).collect();
    flows.push(flow(1, 14, 100_000));
    let report = shared_out(&setup(fat_tree(4), "ndp", flows));
    // The window in which it starts, and that of its last packet: 80 µs apart at 10 Gb/s.
    assert!(report.windows >= 80 && report.windows_alone <= 2, "{report:?}");
}

/// A flow cannot be complete in a window that brings less than what its receiver still lacks.
#[test]
fn most_ends__unfinished_flows_do_not_count() {
    let report = shared_out(&setup(fat_tree(4), "ndp", across(16, 100_000).collect()));
    // 100 KB take 80 windows. Less than two full packets fit into a window of 1 µs, so that all
    // flows can end in one only if all lack no more.
    assert!(report.windows >= 80 && report.windows_alone * 4 < report.windows, "{report:?}");
}

/// Of the flows with deadlines at a host only those may be abandoned whose senders are called.
#[test]
fn most_ends__waiting_flows_do_not_count() {
    let later = Instant::ZERO + Duration::from_millis(5);
    let flows = (0..8).flat_map(|_| across(16, 20_000));
    let flows = flows.map(|flow| FlowSpec { deadline: Some(later), ..flow });
    let report = shared_out(&setup(fat_tree(4), "pdq", flows.collect()));
    // Eight flows of 20 KB follow each other on each link; the last ones are an eighth of them.
    assert!(report.windows >= 128 && report.windows_alone * 2 < report.windows, "{report:?}");
}

/// A link that is cut ends the pauses of its NIC, which then calls the senders that wait for it.
#[test]
fn most_ends__links_that_are_cut_may_end_flows() {
    let most_ends = |is_cut: bool| {
        let deadline = Some(Instant::ZERO + Duration::from_millis(1));
        let flow = FlowSpec { deadline, ..flow(0, 5, 100_000) };
        let mut setup = setup(fat_tree(4), "pdq", vec![flow]);
        let nic = setup.network.nic(HostId(0));
        let at = |picos| Instant::from_picos(picos);
        // The SYN is on its way in the second window, so that no host has an event.
        let back = setup.network.link(nic).twin;
        for port in [back].into_iter().filter(|_| is_cut) {
            let what = LinkFault::Down;
            setup.link_changes.push(LinkChange { at: at(1_500_000), port, what });
        }
        let owners = Arc::new(vec![0; setup.network.names.len()]);
        let board = Arc::new(Board::new(1));
        let shard = Shard::new(0, &setup, &owners, &board);
        let flows = Arc::new(std::mem::take(&mut setup.workload.flows));
        let mut engine =
            Engine::for_share(&setup, WINDOW, flows, Sharded { shard, observers: NoTap });
        engine.schedule_scenario();
        let (_, ends_at) = engine.open_window(0);
        while engine.step(Instant::NEVER) {}
        engine.serve_ports(ends_at);
        engine.hosts.ready[0].push(&mut engine.hosts.flows[..], 0, Class::DATA);
        engine.hosts.ready[0].set_paused(Class::DATA, true);
        engine.open_window(1);
        engine.most_ends()
    };
    assert_eq!(most_ends(false), 0);
    assert_eq!(most_ends(true), 1);
}

/// A run that changes from several threads to one and back every few windows.
#[track_caller]
fn changes_nothing(setup: &Setup) {
    for windows in [1, 3, 40] {
        let report = shared_out_by(PaceRule::ByTurns(windows), setup);
        let (several, on_one) = (report.windows - report.windows_on_one, report.windows_on_one);
        // As many windows by turns, up to the last turn.
        assert!(on_one > windows && on_one.abs_diff(several) <= windows + 1, "{report:?}");
    }
}

/// Results are the same wherever a run goes on on one thread: with abandoned flows, time series,
/// failing links and pauses.
#[test]
fn pace__a_change_in_the_middle_changes_nothing() {
    let at = |us| Instant::ZERO + Duration::from_micros(us);
    for name in ["ndp", "pdq", "d3", "dctcp", "dcqcn", "mptcp", "m-pdq", "phost"] {
        let deadline = |(n, flow): (usize, FlowSpec)| FlowSpec {
            deadline: (n % 2 == 0).then_some(flow.start + Duration::from_micros(n as u64)),
            ..flow
        };
        let flows = random_flows(16, 200).into_iter().enumerate().map(deadline).collect();
        let mut setup = setup(fat_tree(4), name, flows);
        changes_nothing(&setup);
        let ports = (0..setup.network.links.len()).step_by(3).map(PortId::from).collect();
        setup.sampling = Some(Sampling { every: Duration::from_micros(7), ports });
        setup.sampled_flows = (0..200).step_by(2).map(FlowId::from).collect();
        setup.measure = Measure { from: at(20), until: Some(at(120)) };
        for (us, what) in [(30, LinkFault::Down), (90, LinkFault::Up), (100, LinkFault::Loss(0.1))]
        {
            setup.link_changes.push(LinkChange { at: at(us), port: PortId(3), what });
        }
        changes_nothing(&setup);
        setup.stop = Stop { at: at(150), when_done: false };
        changes_nothing(&setup);
    }
}

/// Flows of closed loops are numbered alike when one thread goes on alone.
#[test]
fn pace__closed_loops_go_on_alike() {
    use punctual_workload::*;
    for (name, limit) in [("ndp", None), ("pdq", Some(300))] {
        let gap = Gap::Fixed(WINDOW * 2);
        let spec = TrafficSpec {
            arrivals: Arrivals::ClosedLoop(LoopSpec { connections: 2, gap }),
            deadlines: Deadlines::Uniform(WINDOW, WINDOW * 400),
            limit,
            ..TrafficSpec::new(Pattern::Random, Sizes::Uniform(Bytes::new(1), Bytes::new(60_000)))
        };
        let view = HostsView::uniform(16, Rate::from_gbps(10), None);
        let mut setup = setup(fat_tree(4), name, Vec::new());
        setup.workload = build(&[spec], &view, WINDOW * 700, 1).expect("a workload");
        changes_nothing(&setup);
        setup.stop.when_done = limit.is_none();
        changes_nothing(&setup);
    }
}

/// Several threads are left where one shard has most of the work, and stay where all have enough.
#[test]
fn pace__one_thread_goes_on_where_several_do_not_pay() {
    let run = |flows| {
        let mut setup = setup(fat_tree(8), "ndp", flows);
        setup.stop = Stop { at: Instant::ZERO + WINDOW * 300, when_done: false };
        shared_out_by(PaceRule::Measured, &setup)
    };
    // 1 µs of a 10 Gb/s link is less than one packet, so that the receiver's shard has a few events
    // a window once the first packets have arrived, and the others fewer.
    let incast = run((1..128).map(|host| flow(host, 0, u64::MAX)).collect());
    assert!(incast.windows_on_one > 150, "{incast:?}");
    // 128 hosts with four hops a packet and its answer: 4 · 150 events a window at least.
    let all = run(across(128, u64::MAX)
        .map(|f| FlowSpec { dst: HostId((f.src.0 + 40) % 128), ..f })
        .collect());
    assert_eq!(all.windows_on_one, 0, "{all:?}");
}

/// Windows that one thread handles because the run might end in them are no gain of several threads.
#[test]
fn pace__one_thread_goes_on_where_each_window_may_be_the_last() {
    let deadline = Some(Instant::ZERO + Duration::from_millis(5));
    let background = |f: FlowSpec| FlowSpec {
        dst: HostId((f.src.0 + 40) % 128),
        deadline: (f.src.0 == 0).then_some(deadline).flatten(),
        size: if f.src.0 == 0 { Bytes::new(300_000) } else { f.size },
        background: f.src.0 != 0,
        ..f
    };
    // The run waits for one flow, which PDQ may abandon when an answer arrives: each 1.2 µs.
    let flows = across(128, u64::MAX).map(background).collect();
    let setup = setup(fat_tree(8), "pdq", flows);
    let fixed = shared_out_by(PaceRule::Fixed, &setup);
    assert!(fixed.windows_alone * 2 > fixed.windows, "{fixed:?}");
    let measured = shared_out_by(PaceRule::Measured, &setup);
    assert!(measured.windows_alone * 2 < fixed.windows, "{measured:?} instead of {fixed:?}");
}
