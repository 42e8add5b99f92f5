//! The network in time: what is recorded of a run adds up to what the run says of itself, and
//! recording changes nothing.

use crate::common::*;
use punctual_core::{Duration, Instant, PortId, QueueSpec, Rate};
use punctual_sim::{Activity, LinkChange, LinkFault, NetworkTrace, Outcome, Setup};
use punctual_transports::{AnyTransport, TransportSettings};

/// Runs it with and without being recorded, and returns the former after comparing.
fn recorded(setup: Setup) -> (Outcome, NetworkTrace) {
    let plain = run(Setup { check: false, network_trace: false, ..setup.clone() });
    let mut outcome = run(Setup { network_trace: true, ..setup });
    assert!(plain.network.is_none());
    assert_eq!((&plain.flows, &plain.totals), (&outcome.flows, &outcome.totals));
    assert_eq!((&plain.ports, &plain.samples), (&outcome.ports, &outcome.samples));
    let trace = outcome.network.take().expect("it was asked for");
    (outcome, trace)
}

/// All frames of a port as one.
fn whole(trace: &NetworkTrace, port: usize) -> Activity {
    let mut all = Activity::default();
    let own = trace.cells.iter().filter(|cell| cell.port == PortId::from(port));
    own.for_each(|cell| all.join(&cell.did));
    all
}

fn sum(trace: &NetworkTrace, get: fn(&Activity) -> u32) -> u64 {
    trace.cells.iter().map(|cell| u64::from(get(&cell.did))).sum()
}

/// Frames add up to the run's own sums.
fn adds_up(outcome: &Outcome, trace: &NetworkTrace) {
    let totals = &outcome.totals;
    assert_eq!(sum(trace, |did| did.drops), totals.drops);
    assert_eq!(sum(trace, |did| did.losses), totals.losses);
    assert_eq!(sum(trace, |did| did.trims), totals.trims);
    assert_eq!(sum(trace, |did| did.bounces), totals.bounces);
    assert_eq!(sum(trace, |did| did.marks), totals.marks);
    assert_eq!(trace.ended_at, totals.ended_at);
    for (port, of_run) in outcome.ports.iter().enumerate() {
        let all = whole(trace, port);
        assert_eq!(u64::from(all.drops), of_run.drops);
        assert_eq!(u64::from(all.trims), of_run.trims);
        assert_eq!(u64::from(all.pauses), of_run.pauses.received);
        assert_eq!(all.paused, of_run.pauses.time);
    }
    for cell in &trace.cells {
        let (from, until) = trace.span(cell.frame);
        assert!(cell.did.busy <= until - from, "{cell:?}");
        assert!(cell.did.paused <= until - from, "{cell:?}");
    }
}

/// UDP back to back at the link's rate: the bytes of each frame are arithmetic.
#[test]
fn a_lone_flow_fills_its_frames_exactly() {
    let network = back_to_back(1500);
    let flows = vec![flow(0, 1, 1_000_000)];
    let mut settings = TransportSettings::default();
    settings.udp.rate = GBPS10;
    let udp = AnyTransport::by_name("udp", &settings).expect("udp");
    let setup = Setup { stop: until_ms(2), ..setup(network, vec![udp], flows) };
    let (outcome, trace) = recorded(setup);
    adds_up(&outcome, &trace);
    // 2 ms in at most 200 frames of 0.25 µs times a power of two.
    assert_eq!((trace.frame, trace.frames()), (Duration::from_micros(16), 125));
    let sent = outcome.ports[0].sent_bytes;
    assert_eq!(whole(&trace, 0).sent_bytes, sent);
    // It sends without a gap from the start, at 1.25 bytes a nanosecond.
    let in_frame = 20_000;
    for cell in trace.cells.iter().filter(|cell| cell.port == PortId(0)) {
        let so_far = u64::from(cell.frame) * in_frame;
        let expected = sent.saturating_sub(so_far).min(in_frame);
        let split = cell.did.sent_bytes.abs_diff(expected);
        assert!(split <= 1, "frame {}: {} of {expected}", cell.frame, cell.did.sent_bytes);
        let busy = Duration::from_picos(800 * expected);
        assert_eq!(cell.did.busy, busy, "frame {}", cell.frame);
    }
}

#[test]
fn trims_of_an_incast_are_all_there() {
    let flows = (1..16).map(|h| flow(h, 0, 90_000)).collect();
    let (outcome, trace) = recorded(setup(fat_tree(4, 9064), vec![ndp_9k(30)], flows));
    assert!(outcome.totals.trims > 0);
    adds_up(&outcome, &trace);
    // NDP's queues are eight packets long, and a header has as much room as a packet.
    let longest = trace.cells.iter().map(|cell| cell.did.queue_bytes).max();
    assert!(longest > Some(7 * 9064) && longest <= Some(16 * 9064), "{longest:?}");
}

#[test]
fn drops_losses_and_marks_are_all_there() {
    let flows: Vec<_> = (1..16).map(|h| flow(h, 0, 300_000)).collect();
    for (name, queue) in [
        ("tcp", drop_tail(20)),
        ("dctcp", transport("dctcp").default_queue(GBPS10, punctual_core::Bytes::new(1500))),
    ] {
        let mut setup = setup(fat_tree(4, 1500), vec![transport(name)], flows.clone());
        setup.switch_queue = queue;
        let lossy = |port| LinkChange { at: Instant::ZERO, port, what: LinkFault::Loss(0.01) };
        setup.link_changes = (0..16).map(|port| lossy(PortId(port))).collect();
        let (outcome, trace) = recorded(setup);
        assert!(outcome.totals.losses > 0);
        assert!(outcome.totals.drops + outcome.totals.marks > 0, "{name}");
        adds_up(&outcome, &trace);
    }
}

#[test]
fn pauses_of_lossless_switches_are_all_there() {
    let flows = (1..16).map(|h| flow(h, 0, 500_000)).collect();
    let mut setup = setup(fat_tree(4, 1500), vec![transport("dctcp-lossless")], flows);
    assert!(matches!(setup.switch_queue, QueueSpec::Lossless { .. }));
    setup.stop = until_ms(20);
    let (outcome, trace) = recorded(setup);
    assert!(outcome.totals.pauses > 0);
    adds_up(&outcome, &trace);
    // Pause frames are sent too.
    for (port, of_run) in outcome.ports.iter().enumerate() {
        assert_eq!(whole(&trace, port).sent_bytes, of_run.sent_bytes, "port {port}");
    }
}

#[test]
fn grants_are_seen_where_they_are_given() {
    let flows = |n: u32| (1..=n).map(|h| flow(h, 0, 200_000)).collect::<Vec<_>>();
    for name in ["d3", "rcpdc", "pdq"] {
        let (outcome, trace) = recorded(setup(star(5, 1500), vec![transport(name)], flows(4)));
        adds_up(&outcome, &trace);
        assert!(sum(&trace, |did| did.grants) >= 4, "{name}");
        // PDQ does not tell rates.
        let most = trace.cells.iter().map(|cell| cell.did.granted).max();
        assert_eq!(most > Some(Rate::default()), name != "pdq", "{name}: {most:?}");
    }
    let (_, trace) = recorded(setup(star(5, 1500), vec![transport("tcp")], flows(4)));
    assert_eq!(sum(&trace, |did| did.grants), 0);
}
