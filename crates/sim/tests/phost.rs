//! pHost across networks: NDP's permutation and incast on queues of eight packets.

mod common;

use common::*;
use punctual_core::{Bytes, Duration, FlowSpec, Instant};
use punctual_sim::FlowStatus;
use punctual_transports::AnyTransport;
use punctual_transports::phost::{FreeFor, Phost, Policy};

/// As NDP's comparison ran it: every flow starts with a round trip's worth at line rate.
fn as_in_ndp() -> Phost {
    Phost { free_for: FreeFor::All, ..Phost::default() }
}

/// Share of the hosts' links that data fills between 5 and `ms`.
fn permutation_share(config: Phost, k: u32, ms: u64) -> f64 {
    let network = fat_tree(k, 9064);
    let hosts = network.hosts;
    let mut setup = setup(network, vec![AnyTransport::Phost(config)], permutation(hosts, 1));
    setup.switch_queue = drop_tail(8);
    setup.stop = until_ms(ms);
    setup.measure_from = Instant::ZERO + Duration::from_millis(5);
    setup.check = false;
    let outcome = run(setup);
    let seconds = (ms - 5) as f64 / 1e3;
    outcome.totals.delivered_wire_bytes as f64 * 8.0 / (f64::from(hosts) * seconds * 1e10)
}

/// NDP's text has 70 %.
#[test]
#[ignore = "a table for the docs"]
fn permutation_of_432() {
    for (name, config) in [
        ("as in NDP", as_in_ndp()),
        ("without a burst", Phost::default()),
        ("window of 16", Phost { window: 16, ..as_in_ndp() }),
        ("window of 32", Phost { window: 32, ..as_in_ndp() }),
    ] {
        println!("{name}: {:.1} %", permutation_share(config, 12, 50) * 100.0);
    }
}

#[test]
fn a_small_permutation_moves_data() {
    let share = permutation_share(as_in_ndp(), 4, 15);
    println!("16 hosts: {share:.3}");
    assert!((0.4..0.99).contains(&share), "{share}");
}

/// 450 KB from each of n hosts to one: first and last, in ms.
fn incast(transport: AnyTransport, senders: u32, queue: Option<u32>) -> (f64, f64) {
    let flows: Vec<FlowSpec> = (1..=senders).map(|s| flow(s, 0, 450_000)).collect();
    let mut setup = setup(fat_tree(12, 9064), vec![transport], flows);
    if let Some(packets) = queue {
        setup.switch_queue = drop_tail(packets);
    }
    setup.check = false;
    let outcome = run(setup);
    let ms = |at: Instant| at.saturating_since(Instant::ZERO).as_secs_f64() * 1e3;
    let ends = outcome.flows.iter().map(|f| ms(f.ended.expect("it ended")));
    ends.fold((f64::MAX, 0.0), |(first, last), end| (first.min(end), last.max(end)))
}

/// NDP's text has 1 to 1.5 s for pHost at 432 to 1, and 140 ms for NDP.
#[test]
#[ignore = "a table for the docs"]
fn incast_of_450_kb() {
    let phost = AnyTransport::Phost;
    for senders in [101, 431] {
        for (name, transport, queue) in [
            ("NDP", ndp_9k(23), None),
            ("pHost as in NDP", phost(as_in_ndp()), Some(8)),
            (
                "pHost as in NDP, fair",
                phost(Phost { policy: Policy::Fair, ..as_in_ndp() }),
                Some(8),
            ),
            ("pHost without a burst", phost(Phost::default()), Some(8)),
            ("pHost, its own queues", phost(Phost::default()), None),
        ] {
            let (first, last) = incast(transport, senders, queue);
            println!("{name}, {senders} senders: last {last:.1} ms, first {first:.1}");
        }
    }
}

/// Where nothing is lost the line is full once tokens flow, and the short flow goes first.
#[test]
fn tokens_fill_the_line_and_prefer_the_short() {
    let flows = vec![flow(1, 0, 1_460_000), flow(2, 0, 146_000), flow(3, 0, 730_000)];
    let outcome = run(setup(star(4, 1500), vec![transport("phost")], flows));
    assert!(outcome.flows.iter().all(|f| f.status == FlowStatus::Completed));
    assert_eq!(outcome.totals.drops, 0);
    let end = |n: usize| outcome.flows[n].ended.expect("it ended").saturating_since(Instant::ZERO);
    assert!(end(1) < end(2) && end(2) < end(0));
    let line = GBPS10.transmission_time(Bytes::new(1_600 * 1500));
    assert!(end(0) > line && end(0) < line + Duration::from_micros(20), "{} {line}", end(0));
}
