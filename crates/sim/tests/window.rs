//! The measured window: what the network does in it counts, and the flows that start in it.

mod common;

use common::{flow, run, setup, star, transport};
use punctual_core::{Duration, FlowSpec, Instant};
use punctual_sim::{FlowStatus, Measure, Outcome};

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// A flow of 10 KB every 100 µs for 10 ms, from one host to another, beside two endless ones that
/// share their link.
fn flows() -> Vec<FlowSpec> {
    let small = |i: u64| FlowSpec {
        start: Instant::ZERO + Duration::from_micros(100 * i),
        ..flow(0, 3, 10_000)
    };
    let endless = |src| FlowSpec { background: true, ..flow(src, 3, u64::MAX) };
    (0..100).map(small).chain([endless(1), endless(2)]).collect()
}

fn ran(measure: Measure, stop_ms: u64) -> Outcome {
    let mut setup = setup(star(4, 1500), vec![transport("tcp")], flows());
    setup.measure = measure;
    setup.stop.at = ms(stop_ms);
    run(setup)
}

#[test]
fn a_run_goes_on_until_the_flows_of_its_window_have_ended() {
    let until = Measure { from: ms(2), until: Some(ms(5)) };
    let outcome = ran(until, 1000);
    let ended_at = outcome.totals.ended_at;
    assert!(ended_at >= ms(5), "the window is over: {ended_at}");
    let cohort = || outcome.flows.iter().filter(|f| until.contains(f.spec.start));
    assert_eq!(cohort().count(), 30);
    assert!(cohort().all(|flow| flow.status == FlowStatus::Completed));
    let last = cohort().filter_map(|flow| flow.ended).max();
    assert_eq!(ended_at, last.unwrap().max(ms(5)), "and so are its flows");
    assert_eq!(outcome.totals.measured_time(), Duration::from_millis(3));
    // Not longer than it may.
    assert_eq!(ran(Measure { from: ms(2), until: Some(ms(5)) }, 5).totals.ended_at, ms(5));
}

#[test]
fn what_is_counted_in_parts_adds_up() {
    let window = |from, until: Option<u64>| {
        let mut setup = setup(star(4, 1500), vec![transport("tcp")], flows());
        setup.measure = Measure { from: ms(from), until: until.map(ms) };
        setup.stop = punctual_sim::Stop { at: ms(9), when_done: false };
        run(setup)
    };
    let parts = [window(0, Some(3)), window(3, Some(6)), window(6, None)];
    let whole = window(0, None);
    let counts = |o: &Outcome| {
        let t = &o.totals;
        let ports: u64 = o.ports.iter().map(|port| port.sent_bytes + port.drops).sum();
        let flow = |i: usize| o.flows[i].in_window.delivered.get();
        let own: u64 = o.flows.iter().map(|flow| u64::from(flow.in_window.retransmits)).sum();
        let by = t.retransmits_by;
        [t.delivered_bytes, t.delivered_packets, t.drops, t.retransmits, t.timeouts, ports]
            .into_iter()
            .chain([flow(0), flow(1), own])
            .chain([by.nack, by.bounce, by.timeout, by.duplicate_ack])
            .chain(o.ports.iter().map(|port| port.sent_packets))
            .collect::<Vec<u64>>()
    };
    let sums =
        parts.iter().map(counts).reduce(|a, b| a.iter().zip(b).map(|(a, b)| a + b).collect());
    assert_eq!(sums.unwrap(), counts(&whole));
    // Each of them has a part, and drops are among it: the two endless flows fill the queue.
    assert!(parts.iter().all(|part| part.totals.delivered_bytes > 1_000_000));
    assert!(whole.totals.drops > 0 && parts[2].totals.drops < whole.totals.drops);
    assert_eq!(whole.totals.retransmits, counts(&whole)[8]);
    for part in parts.iter().chain([&whole]) {
        assert_eq!(part.totals.retransmits_by.total(), part.totals.retransmits);
    }
    let packets: u64 = whole.ports.iter().map(|port| port.sent_packets).sum();
    assert_eq!(packets, whole.totals.packet_hops, "each hop is a packet of one port");
    // What is not counted is of the whole run.
    assert!(parts.iter().all(|part| part.totals.packet_hops == whole.totals.packet_hops));
}

#[test]
fn a_window_that_the_run_does_not_reach_measures_nothing() {
    let mut setup = setup(star(4, 1500), vec![transport("tcp")], vec![flow(0, 3, 10_000)]);
    setup.measure = Measure { from: ms(50), until: None };
    let outcome = run(setup);
    assert!(outcome.totals.ended_at < ms(50));
    assert_eq!(outcome.totals.delivered_bytes, 0);
    assert_eq!(outcome.totals.measured_time(), Duration::ZERO);
}
