//! Flows: delivery, completion, retransmissions, stuck flows, and the balance at the end.

use super::*;
use crate::checks::flows::SHARED_FIRINGS_MAX;

#[test]
fn nothing_wrong__nothing_found() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let port = run.port_to(1);
    run.queue(port, id);
    let now = run.checks.now;
    let at = run.send(port, id, now, true);
    run.arrive(id, at);
    run.checks.flow_event(FlowId(0), FlowEvent::Delivered(bytes(0, 1460)));
    assert_eq!(run.found(), [""; 0]);
}

#[test]
fn delivery__a_trimmed_packet_brings_nothing() {
    let mut run = Watched::new(QueueSpec::Trim {
        data: Limit::Packets(8),
        headers: Limit::Packets(8),
        mark_above: None,
    });
    let id = run.at_switch();
    let port = run.port_to(1);
    run.queue(port, id);
    run.trim(port, id);
    let now = run.checks.now;
    let at = run.send(port, id, now, true);
    run.arrive(id, at);
    run.checks.flow_event(FlowId(0), FlowEvent::Delivered(bytes(0, 1460)));
    assert_one(&run.found(), "delivered 1460 bytes, but 0 arrived");
}

#[test]
fn delivery__no_more_than_arrived() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let now = run.checks.now;
    let at = run.send(run.port_to(1), id, now, false);
    run.arrive(id, at);
    run.checks.flow_event(FlowId(0), FlowEvent::Delivered(bytes(0, 1000)));
    run.checks.flow_event(FlowId(0), FlowEvent::Delivered(bytes(1000, 1000)));
    assert_one(&run.found(), "delivered 1000 bytes, but 460 arrived");
}

#[test]
fn flows__only_transports_that_declare_it_give_up() {
    let mut run = Watched::drop_tail();
    run.checks.flow_event(FlowId(0), FlowEvent::Abandoned);
    assert_eq!(run.found(), Vec::<String>::new());
    let mut run = Watched::drop_tail();
    run.checks.may_abandon = 0;
    run.checks.flow_event(FlowId(0), FlowEvent::Finished);
    run.checks.flow_event(FlowId(0), FlowEvent::Abandoned);
    assert_one(&run.found(), "declares that it never abandons");
    // Each transport has a bit of its own.
    for (transport, may_abandon, violations) in
        [(0, 0b01, 0), (0, 0b10, 1), (2, 0b100, 0), (2, 0b001, 1), (63, 1 << 63, 0)]
    {
        let mut run = Watched::drop_tail();
        run.checks.may_abandon = may_abandon;
        run.checks.flow_started(&FlowSpec { transport: TransportId(transport), ..flow() });
        run.checks.flow_event(FlowId(0), FlowEvent::Abandoned);
        assert_eq!(run.found().len(), violations, "{transport}, {may_abandon:b}");
    }
}

#[test]
fn stuck__a_flow_that_waits_for_nothing() {
    assert_one(&Watched::drop_tail().conclude(), "flow 0 is stuck");
    type Prepare = fn(&mut Watched);
    let waits: [Prepare; 5] = [
        |run| run.checks.timer_changed(FlowId(0), End::Sender, TimerChange::Set(Instant::ZERO)),
        |run| run.checks.timer_changed(FlowId(0), End::Receiver, TimerChange::Set(Instant::ZERO)),
        |run| run.checks.sender_ready(FlowId(0), run.nic(0)),
        |run| run.checks.host_timer_changed(TransportId(0), HostId(1), true),
        |run| _ = run.make(),
    ];
    for prepare in waits {
        let mut run = Watched::drop_tail();
        prepare(&mut run);
        assert_eq!(run.conclude(), [""; 0]);
    }
    // A timer that has fired is no longer set, and a sender that was polled no longer ready.
    let mut run = Watched::drop_tail();
    run.checks.timer_changed(FlowId(0), End::Sender, TimerChange::Set(Instant::ZERO));
    run.checks.transport_called(CallReason::Timer(FlowId(0), End::Sender));
    run.checks.sender_ready(FlowId(0), run.nic(0));
    run.checks.transport_called(CallReason::Polled(FlowId(0), run.nic(0)));
    run.checks.host_timer_changed(TransportId(0), HostId(0), true);
    run.checks.host_timer_changed(TransportId(0), HostId(0), false);
    assert_one(&run.conclude(), "flow 0 is stuck");
}

#[test]
fn stuck__a_flow_whose_timers_fire_for_nothing() {
    let fire = |run: &mut Watched, times: u32| {
        for _ in 0..times {
            run.checks.timer_changed(FlowId(0), End::Receiver, TimerChange::Set(Instant::ZERO));
            run.checks.transport_called(CallReason::Timer(FlowId(0), End::Receiver));
        }
        run.checks.timer_changed(FlowId(0), End::Receiver, TimerChange::Set(Instant::ZERO));
    };
    let mut run = Watched::drop_tail();
    fire(&mut run, SILENT_FIRINGS_MAX - 1);
    assert_eq!(run.conclude(), [""; 0]);

    let mut run = Watched::drop_tail();
    fire(&mut run, 2 * SILENT_FIRINGS_MAX);
    assert_one(&run.conclude(), "its timers fired 32768 times, and it sent nothing");

    // The count restarts when it sends, and stops while its sender is ready.
    let mut run = Watched::drop_tail();
    fire(&mut run, SILENT_FIRINGS_MAX - 1);
    let id = run.at_switch();
    fire(&mut run, SILENT_FIRINGS_MAX);
    let now = run.checks.now;
    let at = run.send(run.port_to(1), id, now, false);
    run.arrive(id, at);
    fire(&mut run, SILENT_FIRINGS_MAX - 1);
    run.checks.sender_ready(FlowId(0), run.nic(0));
    fire(&mut run, SILENT_FIRINGS_MAX);
    assert_eq!(run.conclude(), [""; 0]);
}

/// A flow that probes forever: its packets arrive and deliver no byte.
#[test]
fn stuck__flows_whose_packets_deliver_nothing() {
    let probe = |run: &mut Watched| {
        let id = run.at_switch();
        let now = run.checks.now;
        let at = run.send(run.port_to(1), id, now, false);
        run.arrive(id, at);
        run.checks.sender_ready(FlowId(0), run.nic(0));
    };
    let after = |vain_packets| {
        let mut run = Watched::drop_tail();
        run.checks.vain_packets = vain_packets;
        run
    };
    let mut run = after(VAIN_PACKETS_MAX - 2);
    probe(&mut run);
    assert!(!run.checks.is_stuck());
    assert_eq!(run.conclude(), [""; 0]);

    let mut run = after(VAIN_PACKETS_MAX - 2);
    (0..3).for_each(|_| probe(&mut run));
    assert!(run.checks.is_stuck());
    assert_one(&run.conclude(), "1048576 packets delivered no byte");

    // A byte delivered or a flow started restarts the count.
    let mut run = after(VAIN_PACKETS_MAX - 1);
    run.checks.flow_started(&flow());
    probe(&mut run);
    run.checks.vain_packets = VAIN_PACKETS_MAX - 1;
    run.checks.flow_event(FlowId(0), FlowEvent::Delivered(ByteRange { offset: 0, len: 1 }));
    probe(&mut run);
    assert_eq!(run.conclude(), [""; 0]);
}

/// Host 1's host timer keeps firing for another flow, and is set at the end.
#[test]
fn stuck__a_flow_beside_another_flow_s_host_timer() {
    assert_eq!(SHARED_FIRINGS_MAX, 1_048_576, "packets of shorter flows that pHost sends first");
    for (firings, is_stuck) in [(SHARED_FIRINGS_MAX, false), (SHARED_FIRINGS_MAX + 1, true)] {
        let mut run = Watched::drop_tail();
        run.checks.flow_started(&FlowSpec { id: FlowId(1), src: HostId(2), ..flow() });
        // Flow 0 is touched last before the first firing.
        run.checks.sender_ready(FlowId(0), run.nic(0));
        run.checks.transport_called(CallReason::Polled(FlowId(0), run.nic(0)));
        for _ in 0..firings {
            run.checks.host_timer_changed(TransportId(0), HostId(1), true);
            run.checks.host_timer_changed(TransportId(0), HostId(1), false);
            // The firing is for flow 1, which gets a packet out of it.
            run.checks.sender_ready(FlowId(1), run.nic(0));
            run.checks.transport_called(CallReason::Polled(FlowId(1), run.nic(0)));
        }
        run.checks.host_timer_changed(TransportId(0), HostId(1), true);
        match is_stuck {
            false => assert_eq!(run.conclude(), [""; 0]),
            true => assert_one(&run.conclude(), "flow 0 is stuck: it has no packet in the network"),
        }
    }
}

/// Reports beyond those kept are counted, and only if there are any.
#[test]
fn reports__those_beyond_the_kept_are_counted() {
    for (reports, more) in [(VIOLATIONS_KEPT, None), (VIOLATIONS_KEPT + 2, Some("and 2 more"))] {
        let mut run = Watched::drop_tail();
        (0..reports).for_each(|i| run.checks.report(format!("report {i}")));
        let found = run.found();
        assert_eq!(found.get(VIOLATIONS_KEPT).map(String::as_str), more);
    }
}

#[test]
fn time__does_not_go_back() {
    let mut run = Watched::drop_tail();
    run.at(2);
    run.at(1);
    assert_one(&run.found(), "time went back");
}

#[test]
fn delivery__once_and_within_the_flow() {
    let arrived = || {
        let mut run = Watched::drop_tail();
        let id = run.at_switch();
        let now = run.checks.now;
        let at = run.send(run.port_to(1), id, now, false);
        run.arrive(id, at);
        run
    };
    let mut run = arrived();
    run.checks.flow_event(FlowId(0), FlowEvent::Delivered(bytes(0, 700)));
    run.checks.flow_event(FlowId(0), FlowEvent::Delivered(bytes(600, 700)));
    assert_one(&run.found(), "flow 0 delivered bytes from 600 twice");

    let mut run = arrived();
    run.checks.flow_event(FlowId(0), FlowEvent::Delivered(bytes(1_000_000 - 1459, 1460)));
    assert_one(&run.found(), "flow 0 delivered bytes beyond its end");

    let mut run = arrived();
    run.checks.flow_event(FlowId(0), FlowEvent::Delivered(bytes(1_000_000 - 1460, 1460)));
    assert_eq!(run.found(), [""; 0]);
}

#[test]
fn completion__once_and_with_every_byte() {
    let completed = |size: u64, times: u32| {
        let mut run = Watched::drop_tail();
        run.checks.flow_started(&FlowSpec { size: Bytes::new(size), ..flow() });
        let id = run.at_switch();
        let now = run.checks.now;
        let at = run.send(run.port_to(1), id, now, false);
        run.arrive(id, at);
        run.checks.flow_event(FlowId(0), FlowEvent::Delivered(bytes(0, 1460)));
        (0..times).for_each(|_| run.checks.flow_event(FlowId(0), FlowEvent::Completed));
        run.conclude()
    };
    assert_eq!(completed(1460, 1), [""; 0]);
    assert_one(&completed(1460, 2), "flow 0 completed twice");
    assert_one(&completed(1461, 1), "flow 0 completed with 1460 bytes of Some(1461)");
    let endless = Bytes::ENDLESS.get();
    assert_one(&completed(endless, 1), "flow 0 completed with 1460 bytes of None");
}

#[test]
fn conclusion__books_balance() {
    let conclude = |waits: bool, extra: (u32, usize)| {
        let mut run = Watched::drop_tail();
        run.checks.flow(FlowId(0)).ended = true;
        let id = run.at_switch();
        let port = run.port_to(1);
        if waits {
            run.queue(port, id);
        }
        let mut waiting = vec![0; run.network.links.len()];
        waiting[port.index()] = u32::from(waits) + extra.0;
        let end = Ending { at: run.checks.now, waiting, alive: 1 + extra.1, flows: &[] };
        let mut findings = Findings::default();
        run.checks.conclude(&end, &mut findings);
        findings.violations
    };
    assert_eq!(conclude(true, (0, 0)), [""; 0]);
    assert_one(&conclude(true, (1, 0)), "holds 2 packets, but 1 were queued and not dequeued");
    assert_one(&conclude(false, (1, 0)), "holds 1 packets, but 0 were queued and not dequeued");
    let found = conclude(true, (0, 1));
    assert_one(&found, "2 packets are in the network, but 1 were created and neither");
}

/// The checker's report on a flow with these retransmissions, whose record `change` modifies.
fn found_with(causes: &[RetransmitCause], change: impl FnOnce(&mut FlowRecord)) -> Vec<String> {
    let mut run = Watched::drop_tail();
    run.checks.flow(FlowId(0)).ended = true;
    let mut record = FlowRecord {
        spec: flow(),
        status: FlowStatus::Unfinished,
        ended: None,
        delivered: Bytes::ZERO,
        retransmits: causes.len() as u32,
        retransmits_by: ByCause::default(),
        timeouts: 0,
        trims: 0,
        bounces: 0,
        in_window: FlowCounts::default(),
    };
    for cause in causes {
        run.checks.flow_event(FlowId(0), FlowEvent::Retransmitted(*cause));
        *record.retransmits_by.of(*cause) += 1;
    }
    change(&mut record);
    let waiting = vec![0; run.network.links.len()];
    let end = Ending { at: run.checks.now, waiting, alive: 0, flows: &[record] };
    let mut findings = Findings::default();
    run.checks.conclude(&end, &mut findings);
    findings.violations
}

#[test]
fn retransmissions__are_recorded_once_and_by_cause() {
    use RetransmitCause::{DuplicateAck, Nack, Timeout};
    let causes = [Nack, Timeout, Timeout, DuplicateAck];
    assert_eq!(found_with(&causes, |_| {}), [""; 0]);
    let found = found_with(&causes, |record| record.retransmits_by.nack = 0);
    assert_one(&found, "flow 0 retransmitted 4 packets, but its record has causes for 3");
    let found = found_with(&causes, |record| {
        record.retransmits += 1;
        record.retransmits_by.timeout += 1;
    });
    assert_one(&found, "flow 0 retransmitted 4 packets, but its record counts 5");
}

#[test]
fn retransmissions__for_a_bounce_need_a_returned_header() {
    let found = found_with(&[RetransmitCause::Bounce], |_| {});
    assert_one(&found, "flow 0 retransmitted 1 packets for 0 returned headers");
}

/// Violations beyond [`VIOLATIONS_KEPT`] are counted.
#[test]
fn conclusion__counts_what_it_does_not_keep() {
    let mut run = Watched::drop_tail();
    for _ in 0..VIOLATIONS_KEPT + 3 {
        run.checks.class_paused(run.nic(0), Class::DATA, true);
    }
    let found = run.found();
    assert_eq!(
        (found.len(), found.last().expect("many").as_str()),
        (VIOLATIONS_KEPT + 1, "and 3 more")
    );
}
