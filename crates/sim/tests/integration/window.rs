//! The measured window: what the network does in it counts, and the flows that start in it.

use crate::common::{flow, run, setup, star, transport};
use punctual_core::{Duration, FlowSpec, Instant};
use punctual_sim::{FlowStatus, Measure, Outcome, PortTotals, Totals};

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

/// Seven senders to one host at 0 ms and at 6 ms, and a flow alone at 3 ms.
fn bursts_around_a_lone_flow(size: u64) -> Vec<FlowSpec> {
    let at = |src: u32, start| FlowSpec { start: ms(start), ..flow(src, 7, size) };
    let burst = |start| (0..7).map(move |src| at(src, start));
    burst(0).chain([at(0, 3)]).chain(burst(6)).collect()
}

/// The network's count of something in the window that begins and ends so, and the sum of what the
/// ports counted.
fn counted(
    name: &str,
    size: u64,
    (from, until): (u64, Option<u64>),
    totals: fn(&Totals) -> u64,
    port: fn(&PortTotals) -> u64,
) -> u64 {
    let mut setup = setup(star(8, 1500), vec![transport(name)], bursts_around_a_lone_flow(size));
    setup.measure = Measure { from: ms(from), until: until.map(ms) };
    setup.stop = punctual_sim::Stop { at: ms(12), when_done: false };
    let outcome = run(setup);
    assert!(outcome.flows.iter().all(|flow| flow.status == FlowStatus::Completed), "{name}");
    let lone = outcome.flows.iter().find(|flow| flow.spec.start == ms(3)).expect("the lone flow");
    let is_measured = from <= 3 && until.is_none_or(|until| until > 5);
    assert_eq!(lone.in_window.delivered.get(), if is_measured { size } else { 0 });
    let by_port: u64 = outcome.ports.iter().map(port).sum();
    assert_eq!(totals(&outcome.totals), by_port, "{name}");
    by_port
}

/// What bursts before and after the window cause is not counted in it.
fn is_counted_in_its_window(
    name: &str,
    size: u64,
    totals: fn(&Totals) -> u64,
    port: fn(&PortTotals) -> u64,
) {
    let in_window = |from, until| counted(name, size, (from, until), totals, port);
    let (before, within, after) =
        (in_window(0, Some(3)), in_window(3, Some(6)), in_window(6, None));
    assert!(before > 0 && after > 0, "{name}: {before}, {after}");
    assert_eq!(within, 0, "{name}");
    assert_eq!(before + after, in_window(0, None), "{name}");
}

#[test]
fn trims_outside_the_window_do_not_count() {
    is_counted_in_its_window("ndp", 50_000, |totals| totals.trims, |port| port.trims);
}

#[test]
fn marks_outside_the_window_do_not_count() {
    is_counted_in_its_window("dctcp", 300_000, |totals| totals.marks, |port| port.marks);
}
