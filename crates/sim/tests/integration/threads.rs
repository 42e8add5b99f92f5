//! One run on several threads: results of whole fat trees, and when a run keeps to one thread.

use crate::common::*;
use punctual_core::rng::Stream;
use punctual_core::{Duration, FlowSpec, Instant};
use punctual_net::ClosShape;
use punctual_sim::{EngineOptions, Outcome, Setup};

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

fn with_threads(setup: &Setup, threads: usize) -> Outcome {
    let engine = EngineOptions { windows: None, threads };
    run(Setup { engine, ..setup.clone() })
}

/// Every transport that can share a run out, on 128 hosts.
#[test]
fn results_are_those_of_one_thread() {
    for name in ["ndp", "tcp", "dctcp", "dctcp-lossless", "d3", "pdq", "dcqcn", "mptcp", "m-pdq"] {
        let network = fat_tree(8, 1500);
        let flows = random_flows(network.hosts);
        let mut setup = Setup { check: false, ..setup(network, vec![transport(name)], flows) };
        let one = with_threads(&setup, 1);
        assert_eq!(one.flows.len(), 1280, "{name}");
        for threads in [2, 3, 8] {
            setup.engine.threads = threads;
            assert!(punctual_sim::threads(&setup) > 1, "{name} would run on one thread");
            let several = with_threads(&setup, threads);
            assert_eq!(several.totals, one.totals, "{name} on {threads} threads");
            assert!(several.flows == one.flows, "{name}: flows on {threads} threads");
            assert!(several.ports == one.ports, "{name}: ports on {threads} threads");
            assert!(several.pauses == one.pauses, "{name}: pauses on {threads} threads");
        }
    }
}

fn allowed_eight(setup: Setup) -> usize {
    let engine = EngineOptions { windows: None, threads: 8 };
    punctual_sim::threads(&Setup { engine, check: false, ..setup })
}

/// A thread is used where it has 64 events a window at least.
#[test]
fn little_work_stays_on_one_thread() {
    // 10 Gb/s and 1 µs are less than one packet of 1,500 bytes a window and host, with its answer
    // about eight events.
    let senders = |senders: u32| {
        let network = fat_tree(8, 1500);
        let flows = permutation(network.hosts, 1).into_iter().take(senders as usize).collect();
        allowed_eight(setup(network, vec![transport("ndp")], flows))
    };
    assert_eq!(senders(1), 1);
    assert_eq!(senders(12), 1);
    assert!((2..8).contains(&senders(40)), "{}", senders(40));
    assert_eq!(senders(128), 8);
    // The same flows one after the other.
    let network = fat_tree(8, 1500);
    let mut flows = random_flows(network.hosts);
    let together = allowed_eight(setup(network.clone(), vec![transport("ndp")], flows.clone()));
    assert!(together > 1, "{together}");
    for (n, flow) in flows.iter_mut().enumerate() {
        flow.start = Instant::ZERO + Duration::from_micros(100 * n as u64);
    }
    assert_eq!(allowed_eight(setup(network, vec![transport("ndp")], flows)), 1);
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
    assert_eq!(threads(plain()), 8);
    assert_eq!(threads(endless("ndp")), 1, "checkers");
    assert_eq!(threads(Setup { network_trace: true, ..plain() }), 1);
    assert_eq!(threads(Setup { packet_latency: true, ..plain() }), 1);
    assert_eq!(threads(Setup { capture_max: 1, ..plain() }), 1);
    assert_eq!(threads(Setup { check: false, ..endless("phost") }), 1, "switches choose paths");
    let mut immediate = plain();
    let links = punctual_net::ClosLinks::uniform(GBPS10, Duration::ZERO);
    let size = |bytes| punctual_core::Bytes::new(bytes);
    immediate.network = ClosShape::fat_tree(8, 1).build(&links, size(1500), size(0));
    assert_eq!(threads(immediate), 1, "links without delay");
}
