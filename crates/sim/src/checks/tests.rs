//! The checker observes runs with one error each, and must report it.
#![allow(non_snake_case)]

use super::*;
use punctual_core::{Duration, Header, Limit, PacketFlags, RetransmitCause, TrimModel};
use punctual_net::{ClosLinks, ClosShape};
use punctual_record::{ByCause, FlowCounts, FlowRecord, FlowStatus};

const US: Duration = Duration::from_micros(1);
const RATE: Rate = Rate::from_gbps(10);
/// 1500 B at 10 Gb/s.
const PACKET_TIME: Duration = Duration::from_nanos(1200);
const BUFFER: u64 = 6_000;
/// A packet that was never created.
const UNKNOWN: PacketId = PacketId(7);

/// A star of three hosts under the checker, and a flow from host 0 to host 1.
struct Watched {
    checks: Checks,
    network: Network,
    packets: Vec<Packet>,
}

impl Watched {
    fn new(queue: QueueSpec) -> Self {
        Watched::with(queue, &[], 0)
    }

    /// With queues of single ports, and a bit for each transport that is trimmed.
    fn with(queue: QueueSpec, port_queues: &[QueueSpec], trimming: u64) -> Self {
        let links = ClosLinks::uniform(RATE, US);
        let network = ClosShape::star(3).build(&links, Bytes::new(1500), Bytes::ZERO);
        let mut checks = Checks::of(&network, queue, port_queues, trimming);
        checks.started(&flow());
        Watched { checks, network, packets: Vec::new() }
    }

    fn drop_tail() -> Self {
        Watched::new(QueueSpec::DropTail { limit: Limit::Packets(2) })
    }

    fn lossless() -> Self {
        Watched::new(QueueSpec::Lossless {
            buffer: Bytes::new(BUFFER),
            pause_above: Bytes::new(3_000),
            resume_below: Bytes::new(1_500),
            mark_above: None,
            red: None,
        })
    }

    fn nic(&self, host: u32) -> PortId {
        self.network.nic(HostId(host))
    }

    /// The switch's port to a host.
    fn port_to(&self, host: u32) -> PortId {
        self.network.link(self.nic(host)).twin
    }

    fn at(&mut self, us: u64) -> Instant {
        let at = Instant::ZERO + Duration::from_micros(us);
        self.checks.event(at);
        at
    }

    fn make(&mut self) -> PacketId {
        self.make_of(Class::DATA, 1500)
    }

    fn make_of(&mut self, class: Class, wire_bytes: u16) -> PacketId {
        let mut packet = Packet::new(FlowId(0), HostId(1), Header::default());
        (packet.wire_bytes, packet.payload_bytes) = (wire_bytes, wire_bytes - 40);
        packet.class = class;
        self.packets.push(packet);
        let id = PacketId::from(self.packets.len() - 1);
        self.checks.made(id, &packet);
        id
    }

    /// Packets that wait at the switch's port to host 1, an event each.
    fn fill(&mut self, count: u32, class: Class, wire_bytes: u16) {
        let port = self.port_to(1);
        for _ in 0..count {
            let id = self.make_of(class, wire_bytes);
            let node = self.network.link(port).from;
            self.checks.packets[id.index()].as_mut().expect("made").place = Place::At(node);
            self.queue(port, id);
            self.checks.event(self.checks.now);
        }
    }

    fn queue(&mut self, port: PortId, id: PacketId) {
        self.checks.queued(port, id, &self.packets[id.index()]);
    }

    fn send(&mut self, port: PortId, id: PacketId, from: Instant, waited: bool) -> Instant {
        let until = from + PACKET_TIME;
        self.checks.sends(port, id, &self.packets[id.index()], from, until, waited);
        until + US
    }

    fn trim(&mut self, port: PortId, id: PacketId) {
        let packet = &mut self.packets[id.index()];
        packet.flags.set(PacketFlags::TRIMMED);
        (packet.class, packet.wire_bytes) = (Class::CONTROL, 64);
        self.checks.trimmed(port, id, packet);
    }

    fn arrive(&mut self, id: PacketId, at: Instant) {
        self.checks.event(at);
        self.checks.arrived(id, &self.packets[id.index()], at);
    }

    /// A packet that its NIC sent and that is due at the switch now.
    fn at_switch(&mut self) -> PacketId {
        let id = self.make();
        let from = self.checks.ports[self.nic(0).index()].busy_until.max(self.checks.now);
        let at = self.send(self.nic(0), id, from, false);
        self.checks.event(at);
        id
    }

    fn pause(&mut self, is_pause: bool) -> Instant {
        let (port, from) = (self.port_to(0), self.checks.now);
        let until = from + RATE.transmission_time(Bytes::new(64));
        self.checks.sends_pause(port, from, until, Class::DATA, is_pause);
        until + US
    }

    /// The checker's report at the end. The flow need not be complete.
    fn found(mut self) -> Vec<String> {
        self.checks.flow(FlowId(0)).ended = true;
        self.conclude()
    }

    fn conclude(mut self) -> Vec<String> {
        let waiting = self.checks.ports.iter().map(|p| p.waiting() as u32).collect();
        let alive = self.checks.packets.iter().flatten().count();
        let end = Ending { at: self.checks.now, waiting, alive, flows: &[] };
        let mut findings = Findings::default();
        self.checks.conclude(&end, &mut findings);
        findings.violations
    }
}

fn flow() -> FlowSpec {
    FlowSpec {
        id: FlowId(0),
        src: HostId(0),
        dst: HostId(1),
        size: Bytes::new(1_000_000),
        start: Instant::ZERO,
        deadline: None,
        transport: TransportId(0),
        class: Class::DATA,
        background: false,
        pattern: 0,
    }
}

/// Asserts that there is one violation, and that it contains `part`.
#[track_caller]
fn assert_one(found: &[String], part: &str) {
    assert_all(found, &[part]);
}

/// Asserts that there is one violation for each of `parts`, in this order.
#[track_caller]
fn assert_all(found: &[String], parts: &[&str]) {
    let is_each = found.len() == parts.len() && found.iter().zip(parts).all(|(f, p)| f.contains(p));
    assert!(is_each, "{parts:?} are not all of {found:?}");
}

fn bytes(offset: u64, len: u64) -> ByteRange {
    ByteRange { offset, len }
}

#[test]
fn nothing_wrong__nothing_found() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let port = run.port_to(1);
    run.queue(port, id);
    let now = run.checks.now;
    let at = run.send(port, id, now, true);
    run.arrive(id, at);
    run.checks.delivered(FlowId(0), bytes(0, 1460));
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
    run.checks.delivered(FlowId(0), bytes(0, 1460));
    assert_one(&run.found(), "delivered 1460 bytes, but 0 arrived");
}

#[test]
fn delivery__no_more_than_arrived() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let now = run.checks.now;
    let at = run.send(run.port_to(1), id, now, false);
    run.arrive(id, at);
    run.checks.delivered(FlowId(0), bytes(0, 1000));
    run.checks.delivered(FlowId(0), bytes(1000, 1000));
    assert_one(&run.found(), "delivered 1000 bytes, but 460 arrived");
}

#[test]
fn propagation__neither_early_nor_late() {
    for picos in [-1i64, 1] {
        let mut run = Watched::drop_tail();
        let id = run.at_switch();
        let now = run.checks.now;
        let at = run.send(run.port_to(1), id, now, false);
        let at = Instant::from_picos(at.as_picos().saturating_add_signed(picos));
        run.arrive(id, at);
        assert_one(&run.found(), "delivered a packet that was due at");
    }
}

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
        run.checks.event(now);
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
    run.checks.lost(port, last, &run.packets[last.index()], Loss::Dropped);
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
        run.checks.event(Instant::ZERO);
    }
    assert_one(&run.found(), "holds 7500 B in a buffer of 6000 B");
}

#[test]
fn routing__each_port_is_at_the_node_where_the_packet_is() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let now = run.checks.now;
    run.send(run.nic(2), id, now, false);
    assert_one(&run.found(), "arrived at another node");

    let mut run = Watched::drop_tail();
    let id = run.make();
    run.send(run.port_to(1), id, Instant::ZERO, false);
    assert_one(&run.found(), "is at another node");
}

#[test]
fn routing__packets_end_at_their_hosts() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let now = run.checks.now;
    let at = run.send(run.port_to(2), id, now, false);
    run.arrive(id, at);
    let away = "→ host 2 is off the shortest path: a packet of flow 0 went from 1 to 2 hops from";
    assert_all(&run.found(), &["arrived at another node", away]);
}

#[test]
fn flows__only_transports_that_declare_it_give_up() {
    let mut run = Watched::drop_tail();
    run.checks.flow_event(FlowId(0), &FlowEvent::Abandoned);
    assert_eq!(run.found(), Vec::<String>::new());
    let mut run = Watched::drop_tail();
    run.checks.may_abandon = 0;
    run.checks.flow_event(FlowId(0), &FlowEvent::Finished);
    run.checks.flow_event(FlowId(0), &FlowEvent::Abandoned);
    assert_one(&run.found(), "declares that it never abandons");
}

#[test]
fn routing__no_packet_goes_back() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let now = run.checks.now;
    let at = run.send(run.port_to(0), id, now, false);
    run.checks.event(at);
    run.send(run.nic(0), id, at, false);
    assert_one(&run.found(), "a packet of flow 0 went from 1 to 2 hops from host 1");
}

/// In a leaf-spine, hosts of one rack are two hops apart, and hosts of two racks are four.
#[test]
fn routing__distances_are_those_of_the_shortest_paths() {
    let links = ClosLinks::uniform(RATE, US);
    let network = ClosShape::leaf_spine(3, 2, 2).build(&links, Bytes::new(1500), Bytes::ZERO);
    let mut distances = Distances::new(&network);
    let rack = |host: u32| network.link(network.nic(HostId(host))).to;
    let rack_size = network.rack_size().expect("racks");
    let (near, far) = (1, rack_size);
    assert_eq!(rack(0), rack(near));
    let mut to_0 = |node| distances.to(HostId(0), node);
    assert_eq!((to_0(NodeId(0)), to_0(rack(0)), to_0(NodeId(near))), (0, 1, 2));
    assert_eq!((to_0(rack(far)), to_0(NodeId(far))), (3, 4));
}

#[test]
fn routing__no_packet_arrives_by_a_link_that_is_cut() {
    for is_mended in [false, true] {
        let mut run = Watched::drop_tail();
        let id = run.at_switch();
        let (port, now) = (run.port_to(1), run.checks.now);
        // It is on the link when that is cut, and arrives only if the link works again by then.
        let at = run.send(port, id, now, false);
        run.checks.cut(port, true);
        if is_mended {
            run.checks.cut(port, false);
        }
        run.arrive(id, at);
        match is_mended {
            true => assert_eq!(run.found(), [""; 0]),
            false => assert_one(&run.found(), "delivered a packet although it is cut"),
        }
    }
}

#[test]
fn routing__a_bounced_packet_goes_to_its_sender() {
    for is_turned in [false, true] {
        let mut run = Watched::drop_tail();
        let id = run.at_switch();
        let port = run.port_to(1);
        run.queue(port, id);
        run.checks.bounced(port, id, &run.packets[id.index()]);
        if is_turned {
            run.packets[id.index()].dst = HostId(0);
        }
        let now = run.checks.now;
        let back = run.port_to(0);
        let at = run.send(back, id, now, false);
        run.packets[id.index()].dst = HostId(0);
        run.arrive(id, at);
        match is_turned {
            true => assert_eq!(run.found(), [""; 0]),
            false => assert_one(&run.found(), "changed its flow, destination or size"),
        }
    }
}

#[test]
fn routing__packets_stay_as_they_are() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    run.packets[id.index()].wire_bytes = 1400;
    let port = run.port_to(1);
    run.queue(port, id);
    assert_one(&run.found(), "changed its flow, destination or size");
}

#[test]
fn pauses__what_is_paused_waits() {
    let mut run = Watched::lossless();
    run.at(1);
    let arrives = run.pause(true);
    run.checks.event(arrives);
    run.checks.paused(run.nic(0), Class::DATA, true);
    let (first, second) = (run.make(), run.make());
    let done = run.send(run.nic(0), first, arrives, false);
    let from = Instant::from_picos(done.as_picos() - US.as_picos());
    run.checks.event(from);
    run.send(run.nic(0), second, from, false);
    assert_one(&run.found(), "sent class 1 while paused");
}

#[test]
fn pauses__frames_are_sent_before_they_act() {
    let mut run = Watched::lossless();
    run.at(1);
    run.checks.paused(run.nic(0), Class::DATA, true);
    assert_one(&run.found(), "no such frame was due now");

    let mut run = Watched::lossless();
    run.at(1);
    let arrives = run.pause(true);
    run.checks.event(arrives + US);
    run.checks.paused(run.nic(0), Class::DATA, true);
    assert_one(&run.found(), "no such frame was due now");
}

#[test]
fn pauses__are_not_repeated() {
    let mut run = Watched::lossless();
    run.at(1);
    let arrives = run.pause(false);
    run.checks.event(arrives);
    run.checks.paused(run.nic(0), Class::DATA, false);
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
fn stuck__a_flow_that_waits_for_nothing() {
    assert_one(&Watched::drop_tail().conclude(), "flow 0 is stuck");
    type Prepare = fn(&mut Watched);
    let waits: [Prepare; 5] = [
        |run| run.checks.timer_set(FlowId(0), End::Sender, TimerChange::Set(Instant::ZERO)),
        |run| run.checks.timer_set(FlowId(0), End::Receiver, TimerChange::Set(Instant::ZERO)),
        |run| run.checks.ready(FlowId(0), run.nic(0)),
        |run| run.checks.host_timer(TransportId(0), HostId(1), true),
        |run| _ = run.make(),
    ];
    for prepare in waits {
        let mut run = Watched::drop_tail();
        prepare(&mut run);
        assert_eq!(run.conclude(), [""; 0]);
    }
    // A timer that has fired is no longer set, and a sender that was polled no longer ready.
    let mut run = Watched::drop_tail();
    run.checks.timer_set(FlowId(0), End::Sender, TimerChange::Set(Instant::ZERO));
    run.checks.called(Why::Timer(FlowId(0), End::Sender));
    run.checks.ready(FlowId(0), run.nic(0));
    run.checks.called(Why::Polled(FlowId(0), run.nic(0)));
    run.checks.host_timer(TransportId(0), HostId(0), true);
    run.checks.host_timer(TransportId(0), HostId(0), false);
    assert_one(&run.conclude(), "flow 0 is stuck");
}

#[test]
fn stuck__a_flow_whose_timers_fire_for_nothing() {
    let fire = |run: &mut Watched, times: u32| {
        for _ in 0..times {
            run.checks.timer_set(FlowId(0), End::Receiver, TimerChange::Set(Instant::ZERO));
            run.checks.called(Why::Timer(FlowId(0), End::Receiver));
        }
        run.checks.timer_set(FlowId(0), End::Receiver, TimerChange::Set(Instant::ZERO));
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
    run.checks.ready(FlowId(0), run.nic(0));
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
        run.checks.ready(FlowId(0), run.nic(0));
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
    run.checks.started(&flow());
    probe(&mut run);
    run.checks.vain_packets = VAIN_PACKETS_MAX - 1;
    run.checks.delivered(FlowId(0), ByteRange { offset: 0, len: 1 });
    probe(&mut run);
    assert_eq!(run.conclude(), [""; 0]);
}

/// Host 1's host timer keeps firing for another flow, and is set at the end.
#[test]
fn stuck__a_flow_beside_another_flow_s_host_timer() {
    for (firings, is_stuck) in [(SHARED_FIRINGS_MAX, false), (SHARED_FIRINGS_MAX + 1, true)] {
        let mut run = Watched::drop_tail();
        run.checks.started(&FlowSpec { id: FlowId(1), src: HostId(2), ..flow() });
        // Flow 0 is touched last before the first firing.
        run.checks.ready(FlowId(0), run.nic(0));
        run.checks.called(Why::Polled(FlowId(0), run.nic(0)));
        for _ in 0..firings {
            run.checks.host_timer(TransportId(0), HostId(1), true);
            run.checks.host_timer(TransportId(0), HostId(1), false);
            // The firing is for flow 1, which gets a packet out of it.
            run.checks.ready(FlowId(1), run.nic(0));
            run.checks.called(Why::Polled(FlowId(1), run.nic(0)));
        }
        run.checks.host_timer(TransportId(0), HostId(1), true);
        match is_stuck {
            false => assert_eq!(run.conclude(), [""; 0]),
            true => assert_one(&run.conclude(), "flow 0 is stuck: it has no packet in the network"),
        }
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
        run.checks.controlled(run.port_to(1), &before, &after);
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
fn made__for_its_flow_s_hosts() {
    let mut run = Watched::drop_tail();
    let mut packet = Packet::new(FlowId(0), HostId(2), Header::default());
    run.checks.made(PacketId(0), &packet);
    assert_one(&run.found(), "a packet of flow 0 is addressed to a wrong host");

    let mut run = Watched::drop_tail();
    packet.dst = HostId(1);
    packet.flags.set(PacketFlags::TO_SENDER);
    run.checks.made(PacketId(0), &packet);
    assert_one(&run.found(), "a packet of flow 0 is addressed to a wrong host");
}

#[test]
fn made__not_in_a_slot_that_is_taken() {
    let mut run = Watched::drop_tail();
    let id = run.make();
    run.checks.made(id, &run.packets[id.index()]);
    let in_all = "1 packets are in the network, but 2 were created and neither";
    assert_all(&run.found(), &["packet slot 0 was reused while its packet was alive", in_all]);
}

#[test]
fn made__before_anything_else() {
    let mut run = Watched::drop_tail();
    let packet = Packet::new(FlowId(0), HostId(1), Header::default());
    run.checks.queued(run.nic(0), UNKNOWN, &packet);
    assert_one(&run.found(), "packet 7 was observed, but it was never created");
}

#[test]
fn lost__only_on_the_link_that_it_is_on() {
    let lose = |on: fn(&Watched) -> PortId, late: Duration| {
        let mut run = Watched::drop_tail();
        let id = run.at_switch();
        let now = run.checks.now;
        let at = run.send(run.port_to(1), id, now, false);
        run.checks.event(at + late);
        let port = on(&run);
        run.checks.lost(port, id, &run.packets[id.index()], Loss::OnLink);
        run.found()
    };
    assert_eq!(lose(|run| run.port_to(1), Duration::ZERO), [""; 0]);
    assert_one(
        &lose(|run| run.port_to(2), Duration::ZERO),
        "lost a packet that was not due at its end now",
    );
    assert_one(&lose(|run| run.port_to(1), US), "lost a packet that was not due at its end now");
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
    run.checks.trimmed(port, id, &run.packets[id.index()]);
    assert_one(&run.found(), "a packet of flow 0 was reported trimmed, but has no TRIMMED flag");
}

#[test]
fn arrivals__by_a_link_and_for_the_flow_that_sent() {
    let mut run = Watched::drop_tail();
    let id = run.make();
    run.arrive(id, Instant::ZERO);
    assert_one(&run.found(), "a packet of flow 0 reached its host, but was not on a link");

    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let now = run.checks.now;
    let at = run.send(run.port_to(1), id, now, false);
    run.packets[id.index()].flow = FlowId(1);
    run.arrive(id, at);
    let became = "a packet of flow 0 arrived as one of flow 1";
    assert_all(&run.found(), &[became, "flow 1: more packets arrived or were lost than created"]);
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
    run.checks.delivered(FlowId(0), bytes(0, 700));
    run.checks.delivered(FlowId(0), bytes(600, 700));
    assert_one(&run.found(), "flow 0 delivered bytes from 600 twice");

    let mut run = arrived();
    run.checks.delivered(FlowId(0), bytes(1_000_000 - 1459, 1460));
    assert_one(&run.found(), "flow 0 delivered bytes beyond its end");

    let mut run = arrived();
    run.checks.delivered(FlowId(0), bytes(1_000_000 - 1460, 1460));
    assert_eq!(run.found(), [""; 0]);
}

#[test]
fn completion__once_and_with_every_byte() {
    let completed = |size: u64, times: u32| {
        let mut run = Watched::drop_tail();
        run.checks.started(&FlowSpec { size: Bytes::new(size), ..flow() });
        let id = run.at_switch();
        let now = run.checks.now;
        let at = run.send(run.port_to(1), id, now, false);
        run.arrive(id, at);
        run.checks.delivered(FlowId(0), bytes(0, 1460));
        (0..times).for_each(|_| run.checks.completed(FlowId(0)));
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
        run.checks.flow_event(FlowId(0), &FlowEvent::Retransmitted(*cause));
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
        run.checks.paused(run.nic(0), Class::DATA, true);
    }
    let found = run.found();
    assert_eq!(
        (found.len(), found.last().expect("many").as_str()),
        (VIOLATIONS_KEPT + 1, "and 3 more")
    );
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
