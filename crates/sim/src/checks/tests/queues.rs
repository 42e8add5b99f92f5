//! Links, queues, pauses and grants.

use super::super::ports::{Discipline, InService, PortCheck};
use super::*;

#[test]
fn rate__no_link_sends_two_at_once() {
    let mut run = Watched::drop_tail();
    let (a, b) = (run.make(), run.make());
    let from = run.at(10);
    run.send(run.nic(0), a, from, false);
    run.send(run.nic(0), b, from + Duration::from_nanos(1199), false);
    assert_one(&run.found(), "sent faster than its rate");
}

#[test]
fn order__first_come_first_served_in_a_lane() {
    let mut run = Watched::drop_tail();
    let (a, b) = (run.at_switch(), run.at_switch());
    // They are queued one after the other, and the second is sent first.
    let port = run.port_to(1);
    run.checks.packets[a.index()] = run.checks.packets[b.index()];
    run.queue(port, a);
    run.queue(port, b);
    let now = run.checks.now;
    run.send(port, b, now, true);
    assert_one(&run.found(), "before those queued earlier");
}

#[test]
fn order__classes_of_a_nic_pass_each_other() {
    let mut run = Watched::drop_tail();
    let (data, control) = (run.make(), run.make());
    run.packets[control.index()].class = Class::CONTROL;
    let now = run.at(1);
    run.queue(run.nic(0), data);
    run.queue(run.nic(0), control);
    run.send(run.nic(0), control, now, true);
    assert_eq!(run.found(), [""; 0]);
}

#[test]
fn limits__the_packet_in_service_counts() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let (port, now) = (run.port_to(1), run.checks.now);
    run.send(port, id, now, false);
    for _ in 0..2 {
        let id = run.make();
        run.checks.packets[id.index()].as_mut().expect("made").place =
            Place::At(run.network.link(port).from);
        run.queue(port, id);
        run.checks.event_begins(now);
    }
    assert_one(&run.found(), "holds 3, more than its limit of 2packets");
}

#[test]
fn limits__what_is_dropped_in_the_same_event_does_not_count() {
    let mut run = Watched::drop_tail();
    let port = run.port_to(1);
    let mut last = None;
    for _ in 0..3 {
        let id = run.make();
        run.checks.packets[id.index()].as_mut().expect("made").place =
            Place::At(run.network.link(port).from);
        run.queue(port, id);
        last = Some(id);
    }
    let last = last.expect("three");
    run.checks.packet_lost(port, last, &run.packets[last.index()], Loss::Dropped);
    run.at(1);
    assert_eq!(run.found(), [""; 0]);
}

#[test]
fn limits__the_buffer_of_a_lossless_switch() {
    let mut run = Watched::lossless();
    let port = run.port_to(1);
    for _ in 0..BUFFER / 1500 + 1 {
        let id = run.make();
        run.checks.packets[id.index()].as_mut().expect("made").place =
            Place::At(run.network.link(port).from);
        run.queue(port, id);
        run.checks.event_begins(Instant::ZERO);
    }
    assert_one(&run.found(), "holds 7500 B in a buffer of 6000 B");
}

#[test]
fn pauses__what_is_paused_waits() {
    let mut run = Watched::lossless();
    run.at(1);
    let arrives = run.pause(true);
    run.checks.event_begins(arrives);
    run.checks.class_paused(run.nic(0), Class::DATA, true);
    let (first, second) = (run.make(), run.make());
    let done = run.send(run.nic(0), first, arrives, false);
    let from = Instant::from_picos(done.as_picos() - US.as_picos());
    run.checks.event_begins(from);
    run.send(run.nic(0), second, from, false);
    assert_one(&run.found(), "sent class 1 while paused");
}

#[test]
fn pauses__frames_are_sent_before_they_act() {
    let mut run = Watched::lossless();
    run.at(1);
    run.checks.class_paused(run.nic(0), Class::DATA, true);
    assert_one(&run.found(), "no such frame was due now");

    let mut run = Watched::lossless();
    run.at(1);
    let arrives = run.pause(true);
    run.checks.event_begins(arrives + US);
    run.checks.class_paused(run.nic(0), Class::DATA, true);
    assert_one(&run.found(), "no such frame was due now");
}

#[test]
fn pauses__are_not_repeated() {
    let mut run = Watched::lossless();
    run.at(1);
    let arrives = run.pause(false);
    run.checks.event_begins(arrives);
    run.checks.class_paused(run.nic(0), Class::DATA, false);
    assert_one(&run.found(), "a resume while not paused");
}

#[test]
fn pauses__frames_take_their_time_on_the_link() {
    let mut run = Watched::lossless();
    let id = run.at_switch();
    let now = run.checks.now;
    run.send(run.port_to(0), id, now, false);
    run.pause(true);
    assert_one(&run.found(), "sent faster than its rate");
}

#[test]
fn pauses__a_link_that_fills_the_switch_is_paused() {
    let fill = |is_paused: bool| {
        let mut run = Watched::lossless();
        for n in 0..3 {
            let id = run.at_switch();
            let port = run.port_to(1);
            run.queue(port, id);
            if n == 2 && is_paused {
                run.pause(true);
            }
        }
        run.found()
    };
    assert_eq!(fill(true), [""; 0]);
    assert_one(&fill(false), "exceeds the pause threshold of class 1 and is not paused");
}

#[test]
fn grants__capacity_and_one_share() {
    let gbps = Rate::from_gbps;
    let of = |before: u64, allocated: u64, share_min: u64| {
        let mut run = Watched::drop_tail();
        let state = ControllerState {
            flows: 4,
            capacity: gbps(10),
            demand: gbps(2),
            share_min: gbps(share_min),
            ..ControllerState::default()
        };
        let before = ControllerState { allocated: gbps(before), ..state };
        let after = ControllerState { allocated: gbps(allocated), ..state };
        run.checks.packet_controlled(run.port_to(1), &before, &after);
        run.found()
    };
    // The fair share is a quarter of the 8 Gb/s that no flow demands.
    assert_eq!(of(0, 12, 0), [""; 0]);
    assert_one(&of(0, 13, 0), "has granted 13Gbps, more than 12Gbps");
    // A new flow's base rate may be more than the fair share, and earlier grants remain.
    assert_eq!(of(0, 13, 3), [""; 0]);
    assert_eq!(of(13, 13, 0), [""; 0]);
    assert_one(&of(13, 14, 0), "has granted 14Gbps, more than 13Gbps");
}

#[test]
fn queues__only_what_waits_leaves() {
    // It was not queued.
    let mut run = Watched::drop_tail();
    let id = run.make();
    run.send(run.nic(0), id, Instant::ZERO, true);
    assert_one(&run.found(), "dequeued a packet that was not queued");

    // It waits at another port.
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let now = run.checks.now;
    let (port, other) = (run.port_to(1), run.port_to(2));
    run.queue(port, id);
    run.send(other, id, now, true);
    assert_one(&run.found(), "dequeued a packet of another port's queue");

    // Its port no longer holds it.
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let now = run.checks.now;
    run.queue(port, id);
    run.checks.ports[port.index()].leave(id, 0, 1500);
    run.send(port, id, now, true);
    assert_one(&run.found(), "dequeued a packet that its queue does not hold");
}

#[test]
fn trimmed__a_header_is_left() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let port = run.port_to(1);
    run.queue(port, id);
    run.checks.packet_trimmed(port, id, &run.packets[id.index()], None);
    assert_one(&run.found(), "a packet of flow 0 was reported trimmed, but has no TRIMMED flag");
}

/// Each lane of each discipline holds up to its limit, and not one packet more.
#[test]
fn limits__of_every_discipline_and_lane() {
    let packets = Limit::Packets;
    let trim = QueueSpec::Trim {
        data: packets(3),
        headers: Limit::Bytes(Bytes::new(200)),
        mark_above: None,
    };
    let model = |model| QueueSpec::TrimModel {
        model,
        data: packets(3),
        headers: Limit::Bytes(Bytes::new(200)),
        trim_to: Bytes::new(64),
    };
    let fair = QueueSpec::FairClasses {
        trim_data: packets(3),
        trim_headers: Limit::Bytes(Bytes::new(200)),
        rest: packets(4),
        rest_mark_above: None,
        trim_percent: 50,
    };
    let ecn = QueueSpec::Ecn { limit: packets(3), mark_above: packets(1) };
    let cut =
        QueueSpec::CutPayload { limit: packets(3), trim_above: None, trim_to: Bytes::new(64) };
    let in_bytes = QueueSpec::DropTail { limit: Limit::Bytes(Bytes::new(4500)) };
    // The queue, whether the transport is trimmed, class and size of packets, how many fit.
    let cases = [
        (QueueSpec::DropTail { limit: packets(3) }, false, Class::DATA, 1500, 3),
        (in_bytes, false, Class::DATA, 1500, 3),
        (in_bytes, false, Class::DATA, 1501, 2),
        (ecn, false, Class::DATA, 1500, 3),
        (cut, false, Class::DATA, 64, 3),
        (cut, false, Class::CONTROL, 64, 3),
        (QueueSpec::Priority { limit: packets(3) }, false, Class::DATA, 1500, 3),
        (QueueSpec::Priority { limit: packets(3) }, false, Class::CONTROL, 64, 3),
        (trim, false, Class::DATA, 1500, 3),
        (trim, false, Class::CONTROL, 64, 3),
        (model(TrimModel::Paper), false, Class::DATA, 1500, 3),
        (model(TrimModel::Netfpga), false, Class::CONTROL, 64, 3),
        (model(TrimModel::P4), false, Class::DATA, 1500, 3),
        (fair, true, Class::DATA, 1500, 3),
        (fair, true, Class::CONTROL, 64, 3),
        (fair, false, Class::DATA, 1500, 4),
    ];
    for (queue, is_trimmed, class, wire_bytes, fit) in cases {
        let held = |count: u32| {
            let mut run = Watched::with(queue, &[], u64::from(is_trimmed));
            run.fill(count, class, wire_bytes);
            run.found()
        };
        assert_eq!(held(fit), [""; 0], "{queue:?}");
        assert_one(&held(fit + 1), ", more than its limit of ");
    }
}

/// A trimming queue has a lane for headers and one for data, whatever their class. Fair classes trim
/// the transports that have their bit set.
#[test]
fn lanes__of_trimming_queues() {
    let limit = Limit::Packets(3);
    let trim = QueueSpec::Trim { data: limit, headers: limit, mark_above: None };
    let mut run = Watched::new(trim);
    run.fill(2, Class::DATA, 1500);
    run.fill(2, Class(5), 1500);
    assert_one(&run.found(), "holds 4, more than its limit of 3packets");

    let fair = QueueSpec::FairClasses {
        trim_data: limit,
        trim_headers: limit,
        rest: limit,
        rest_mark_above: None,
        trim_percent: 50,
    };
    let lane = |transport: u8, trimming: u64, class| {
        let mut packet = Packet::new(FlowId(0), HostId(1), Header::default());
        (packet.transport, packet.class) = (TransportId(transport), class);
        Discipline::switch(fair, trimming).lane(&packet)
    };
    let lanes = |transport, trimming| {
        [Class::CONTROL, Class::DATA].map(|class| lane(transport, trimming, class))
    };
    for transport in [0, 1, 2, 63] {
        let [headers, data] = lanes(transport, 1 << transport);
        let rest = lanes(transport, !(1 << transport));
        assert!(headers != data && rest[0] == rest[1], "transport {transport}");
        assert!(!rest.contains(&headers) && !rest.contains(&data), "transport {transport}");
    }
}

/// A packet is in service until its last bit has left. A pause frame is no packet of a queue.
#[test]
fn limits__what_has_left_and_pause_frames_do_not_count() {
    let limit = Limit::Packets(3);
    let mut port = PortCheck::new(RATE, Discipline::switch(QueueSpec::DropTail { limit }, 0));
    port.busy_until = Instant::ZERO + US;
    let now = Instant::ZERO;
    assert_eq!(port.in_service(0, now), InService::default(), "a pause frame");
    let mut packet = Packet::new(FlowId(0), HostId(1), Header::default());
    packet.wire_bytes = 1500;
    port.sends(&packet);
    assert_eq!(port.in_service(0, now), InService { packets: 1, bytes: 1500 });
    assert_eq!(port.in_service(0, port.busy_until), InService::default(), "it has left");
}

/// What leaves a lossless switch makes room in its buffer, and no more than its size.
#[test]
fn limits__the_buffer_has_the_room_that_packets_leave() {
    for (again, found) in [(2, None), (3, Some("holds 7500 B in a buffer of 6000 B"))] {
        let mut run = Watched::lossless();
        let port = run.port_to(1);
        run.fill(4, Class::DATA, 1500);
        let mut from = Instant::ZERO;
        for id in [PacketId(0), PacketId(1)] {
            run.checks.event_begins(from);
            run.send(port, id, from, true);
            from += PACKET_TIME;
        }
        run.fill(again, Class::DATA, 1500);
        match found {
            None => assert_eq!(run.found(), [""; 0]),
            Some(part) => assert_one(&run.found(), part),
        }
    }
}

/// The packet being sent counts in its own lane, in every lane of `Priority`, and never in the data
/// queue of the P4 switch.
#[test]
fn limits__the_packet_in_service_counts_where_it_does() {
    let with_one_in_service = |queue: QueueSpec, sent: Class, count: u32, class: Class| {
        let mut run = Watched::new(queue);
        let port = run.port_to(1);
        let id = run.make_of(sent, 1500);
        let node = run.network.link(port).from;
        run.checks.packets[id.index()].as_mut().expect("made").place = Place::At(node);
        run.send(port, id, Instant::ZERO, false);
        run.fill(count, class, 1500);
        run.found()
    };
    let limit = Limit::Packets(3);
    let trim = QueueSpec::Trim { data: limit, headers: limit, mark_above: None };
    let p4 = QueueSpec::TrimModel {
        model: TrimModel::P4,
        data: limit,
        headers: limit,
        trim_to: Bytes::new(64),
    };
    let (data, control) = (Class::DATA, Class::CONTROL);
    for (queue, sent, class, fit) in [
        (trim, data, data, 2),
        (trim, control, data, 3),
        (trim, data, control, 3),
        (p4, data, data, 3),
        (p4, control, control, 2),
        (QueueSpec::Priority { limit }, control, data, 2),
    ] {
        let at_limit = with_one_in_service(queue, sent, fit, class);
        assert_eq!(at_limit, [""; 0], "{queue:?} sending {sent:?}");
        let above = with_one_in_service(queue, sent, fit + 1, class);
        assert_one(&above, "more than its limit of 3packets");
    }
}

/// A lane's limit is checked when the lane grows, not when a larger packet is sent later.
#[test]
fn limits__of_the_lane_that_grows() {
    let limit = Limit::Bytes(Bytes::new(4_000));
    let grow = |class: Class| {
        let mut run = Watched::new(QueueSpec::Priority { limit });
        run.fill(2, Class::DATA, 1500);
        let (port, id) = (run.port_to(1), run.make_of(Class::CONTROL, 1500));
        let node = run.network.link(port).from;
        run.checks.packets[id.index()].as_mut().expect("made").place = Place::At(node);
        run.send(port, id, Instant::ZERO, false);
        run.fill(1, class, 1500);
        run.found()
    };
    assert_eq!(grow(Class::CONTROL), [""; 0]);
    assert_one(&grow(Class::DATA), "holds 6000, more than its limit of 4KB");
}

/// A port with its own queue is checked against that one, all others against the switch queue.
#[test]
fn limits__of_single_ports() {
    let queue = |packets| QueueSpec::DropTail { limit: Limit::Packets(packets) };
    let port = Watched::drop_tail().port_to(1);
    for (own_port, most) in [(port, 5), (PortId(port.0 + 1), 2)] {
        let held = |count: u32| {
            let mut own = vec![queue(2); 6];
            own[own_port.index()] = queue(5);
            let mut run = Watched::with(queue(2), &own, 0);
            run.fill(count, Class::DATA, 1500);
            run.found()
        };
        assert_eq!(held(most), [""; 0]);
        assert_one(
            &held(most + 1),
            &format!("holds {}, more than its limit of {most}packets", most + 1),
        );
    }
}
