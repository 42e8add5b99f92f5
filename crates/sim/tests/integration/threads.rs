//! One run on several threads: results of whole fat trees, and when a run keeps to one thread.

use crate::common::*;
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Duration, FlowSpec, Instant};
use punctual_net::ClosShape;
use punctual_sim::bench::SharingReport;
use punctual_sim::{EngineOptions, LinkChange, LinkFault, Outcome, Setup, Stop};
use punctual_workload::{
    Arrivals, DeadlineChange, Deadlines, Gap, HostsView, LoopSpec, Pattern, Sizes, TrafficSpec,
    build,
};
use std::ops::ControlFlow;

/// Flows of up to 100 KB between random hosts, ten from each, in the first 200 µs. Half of them have
/// deadlines, of which some cannot be met.
fn random_flows(hosts: u32) -> Vec<FlowSpec> {
    let mut stream = Stream::named(1, "random flows", 0);
    let mut draw = |below: u32| stream.below(u64::from(below)) as u32;
    let flow = |_| {
        let (src, by) = (draw(hosts), 1 + draw(hosts - 1));
        let start = Instant::ZERO + Duration::from_nanos(draw(200_000).into());
        let deadline = start + Duration::from_micros(draw(800).into());
        FlowSpec {
            start,
            deadline: (by % 2 == 0).then_some(deadline),
            ..flow(src, (src + by) % hosts, 1 + u64::from(draw(100_000)))
        }
    };
    (0..10 * hosts).map(flow).collect()
}

/// Runs on exactly this many threads.
#[track_caller]
fn with_threads(setup: &Setup, threads: usize) -> Outcome {
    let engine = EngineOptions { windows: (threads > 1).then_some(true), threads };
    let outcome = run(Setup { engine, ..setup.clone() });
    assert_eq!(SharingReport::last().threads, threads);
    outcome
}

/// Transports of every kind, on 128 hosts. Switches choose the paths of pHost's packets.
#[test]
fn results_are_those_of_one_thread() {
    for name in
        ["ndp", "phost", "tcp", "dctcp", "dctcp-lossless", "d3", "pdq", "dcqcn", "mptcp", "m-pdq"]
    {
        let network = fat_tree(8, 1500);
        let flows = random_flows(network.hosts);
        let setup = Setup { check: false, ..setup(network, vec![transport(name)], flows) };
        let one = with_threads(&setup, 1);
        assert_eq!(one.flows.len(), 1280, "{name}");
        for threads in [2, 3, 8] {
            let several = with_threads(&setup, threads);
            assert_eq!(several.totals, one.totals, "{name} on {threads} threads");
            assert!(several.flows == one.flows, "{name}: flows on {threads} threads");
            assert!(several.ports == one.ports, "{name}: ports on {threads} threads");
            assert!(several.pauses == one.pauses, "{name}: pauses on {threads} threads");
        }
    }
}

/// Packet latency and the network playback are put together from what each thread recorded.
#[test]
fn observers_record_alike() {
    for name in ["ndp", "dctcp", "d3", "dcqcn"] {
        let network = fat_tree(8, 1500);
        let flows = random_flows(network.hosts);
        let recorded = Setup {
            check: false,
            network_trace: true,
            packet_latency: true,
            ..setup(network, vec![transport(name)], flows)
        };
        for cut_us in [u64::MAX, 333] {
            let mut setup = recorded.clone();
            if cut_us < u64::MAX {
                setup.stop = Stop { at: Instant::ZERO + US * cut_us, when_done: false };
                let link = setup.network.links.len() - 1;
                let port = punctual_core::PortId::from(link);
                for (us, what) in [(50, LinkFault::Loss(0.2)), (150, LinkFault::Down)] {
                    setup.link_changes.push(LinkChange { at: Instant::ZERO + US * us, port, what });
                }
            }
            let one = with_threads(&setup, 1);
            for threads in [2, 3, 8] {
                let several = with_threads(&setup, threads);
                assert_eq!(several.totals, one.totals, "{name} on {threads} threads");
                assert!(several.network.is_some() && several.network == one.network, "{name}");
                assert!(several.packet_latency == one.packet_latency, "{name}");
            }
        }
    }
}

/// Flows get, change and lose their deadlines while they run, and some of them are abandoned.
#[test]
fn deadlines_change_alike() {
    for name in ["pdq", "d3", "d2tcp", "m-pdq"] {
        let network = fat_tree(8, 1500);
        let to = |deadline: Option<u64>| {
            Some(DeadlineChange { after: US * 40, deadline: deadline.map(|us| US * us) })
        };
        let changes = vec![None, to(None), to(Some(60)), to(Some(300))];
        let pattern = |(n, flow): (usize, FlowSpec)| FlowSpec { pattern: (n % 4) as u16, ..flow };
        let flows = random_flows(network.hosts).into_iter().enumerate().map(pattern).collect();
        let mut setup = Setup { check: false, ..setup(network, vec![transport(name)], flows) };
        setup.workload.deadline_changes = changes;
        let one = with_threads(&setup, 1);
        let changed = one.flows.iter().filter(|flow| flow.spec.pattern == 1);
        assert!(changed.clone().any(|flow| flow.spec.deadline.is_none()), "{name}: none lost");
        for threads in [2, 3, 8] {
            let several = with_threads(&setup, threads);
            assert_eq!(several.totals, one.totals, "{name} on {threads} threads");
            assert!(several.flows == one.flows, "{name}: flows on {threads} threads");
            assert!(several.ports == one.ports, "{name}: ports on {threads} threads");
        }
    }
}

/// Two connections from each host, on which flows follow each other after `gap`; at most `limit` flows.
fn closed_loops(name: &str, gap: Duration, limit: Option<u64>) -> Setup {
    let spec = TrafficSpec {
        arrivals: Arrivals::ClosedLoop(LoopSpec { connections: 2, gap: Gap::Fixed(gap) }),
        deadlines: Deadlines::Uniform(Duration::from_micros(1), Duration::from_micros(400)),
        limit,
        ..TrafficSpec::new(Pattern::Random, Sizes::Uniform(Bytes::new(1), Bytes::new(60_000)))
    };
    let network = fat_tree(8, 1500);
    let view = HostsView::uniform(network.hosts, GBPS10, None);
    let end = Duration::from_micros(700);
    let mut setup = setup(network, vec![transport(name)], Vec::new());
    setup.workload = build(&[spec], &view, end, 1).expect("a workload");
    // The limit ends the run before its time does.
    setup.stop.at = Instant::ZERO + if limit.is_some() { end * 100 } else { end };
    Setup { check: false, ..setup }
}

/// Flows of closed loops get their numbers, and so their paths, in the order in which the flows
/// before them end anywhere in the network.
#[test]
fn closed_loops_go_on_alike() {
    for (name, limit) in
        [("ndp", None), ("ndp", Some(600)), ("dctcp", Some(500)), ("pdq", Some(900))]
    {
        let setup = closed_loops(name, Duration::from_micros(2), limit);
        let one = with_threads(&setup, 1);
        assert!(one.flows.len() > 400, "{name}: {}", one.flows.len());
        for threads in [2, 3, 8] {
            let several = with_threads(&setup, threads);
            assert_eq!(several.totals, one.totals, "{name} on {threads} threads");
            assert!(several.flows == one.flows, "{name}: flows on {threads} threads");
            assert!(several.ports == one.ports, "{name}: ports on {threads} threads");
        }
    }
    let mut at_once = closed_loops("ndp", Duration::from_nanos(999), None);
    at_once.engine.threads = 8;
    assert_eq!(punctual_sim::threads(&at_once), 1, "the next flow may start in the same window");
}

/// A run that waits for no flow is over before it begins; one without events lasts as long as asked.
#[test]
fn nothing_to_do_is_the_same() {
    for when_done in [true, false] {
        let outcome = |threads| {
            let setup = setup(fat_tree(4, 1500), vec![transport("ndp")], Vec::new());
            let engine = EngineOptions { windows: Some(threads > 1), threads };
            let stop = Stop { when_done, ..setup.stop };
            let outcome = run(Setup { engine, stop, check: false, ..setup });
            assert_eq!(SharingReport::last().threads, threads);
            outcome
        };
        assert_eq!(outcome(2).totals, outcome(1).totals);
    }
}

/// All threads of a run end when its user asks for it.
#[test]
fn interruptions_reach_all_threads() {
    let network = fat_tree(8, 1500);
    let flows = permutation(network.hosts, 1);
    let mut setup = Setup { check: false, ..setup(network, vec![transport("ndp")], flows) };
    setup.engine.threads = 3;
    setup.stop = until_ms(1_000);
    let mut calls = 0;
    let outcome = punctual_sim::run(setup, &mut |progress| {
        calls += 1;
        assert!(progress.events >= calls * (1 << 17) && progress.now > Instant::ZERO);
        if calls == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(outcome.interrupted);
    assert_eq!(calls, 2);
}

fn allowed_eight(setup: Setup) -> usize {
    let engine = EngineOptions { windows: None, threads: 8 };
    punctual_sim::threads(&Setup { engine, check: false, ..setup })
}

/// A thread is used where it has 256 events a window at least.
#[test]
fn little_work_stays_on_one_thread() {
    // 10 Gb/s and 1 µs are less than one packet of 1,500 bytes a window and host, with its answer
    // less than seven events.
    let senders = |senders: u32, size, every_ms: u64| {
        let network = fat_tree(8, 1500);
        let all = permutation(network.hosts, 1).into_iter().take(senders as usize).enumerate();
        let at = |n: usize| Instant::ZERO + Duration::from_millis(every_ms * n as u64);
        let flow = |(n, flow)| FlowSpec { size: Bytes::new(size), start: at(n), ..flow };
        allowed_eight(setup(network, vec![transport("ndp")], all.map(flow).collect()))
    };
    assert_eq!(senders(1, u64::MAX, 0), 1);
    assert_eq!(senders(38, u64::MAX, 0), 1);
    assert_eq!(senders(128, u64::MAX, 0), 3);
    assert_eq!(senders(128, 1_000_000, 0), 3);
    assert_eq!(senders(128, 1_000_000, 2), 1, "one flow after the other");
}

/// Hosts receive no faster than their links: an incast has the work of one.
#[test]
fn an_incast_stays_on_one_thread() {
    for size in [1_000_000, u64::MAX] {
        let flows = (1..128).map(|host| flow(host, 0, size)).collect();
        let incast = setup(fat_tree(8, 1500), vec![transport("ndp")], flows);
        assert_eq!(allowed_eight(incast), 1);
    }
}

/// What crosses the network at once, or is observed in the order of all events.
#[test]
fn some_runs_stay_on_one_thread() {
    let endless = |name: &str| {
        let network = fat_tree(8, 1500);
        let flows = permutation(network.hosts, 1);
        setup(network, vec![transport(name)], flows)
    };
    let threads = |setup: Setup| {
        let engine = EngineOptions { windows: None, threads: 8 };
        punctual_sim::threads(&Setup { engine, ..setup })
    };
    let plain = || Setup { check: false, ..endless("ndp") };
    assert_eq!(threads(plain()), 3);
    assert_eq!(threads(endless("ndp")), 1, "checkers");
    assert_eq!(threads(Setup { network_trace: true, packet_latency: true, ..plain() }), 3);
    assert_eq!(threads(Setup { capture_max: 1, ..plain() }), 1);
    let mut immediate = plain();
    let links = punctual_net::ClosLinks::uniform(GBPS10, Duration::ZERO);
    immediate.network = ClosShape::fat_tree(8, 1).build(&links, Bytes::new(1500), Bytes::ZERO);
    assert_eq!(threads(immediate), 1, "links without delay");
}
