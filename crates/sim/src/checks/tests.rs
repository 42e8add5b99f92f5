//! The checker is told of runs that are wrong in one thing, and must find it.
#![allow(non_snake_case)]

use super::*;
use punctual_core::{Duration, Header, Limit, PacketFlags};
use punctual_net::{ClosLinks, ClosShape};

const US: Duration = Duration::from_micros(1);
const RATE: Rate = Rate::from_gbps(10);
/// 1500 B at 10 Gb/s.
const PACKET_TIME: Duration = Duration::from_nanos(1200);
const BUFFER: u64 = 6_000;

/// A star of three hosts under the checker, and a flow from host 0 to host 1.
struct Watched {
    checks: Checks,
    network: Network,
    packets: Vec<Packet>,
}

impl Watched {
    fn new(queue: QueueSpec) -> Self {
        let links = ClosLinks::uniform(RATE, US);
        let network = ClosShape::star(3).build(&links, Bytes::new(1500), Bytes::ZERO);
        let mut checks = Checks::of(&network, queue, &[], 0);
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
        self.network.nics[host as usize]
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
        let mut packet = Packet::new(FlowId(0), HostId(1), Header::default());
        (packet.wire_bytes, packet.payload_bytes) = (1500, 1460);
        self.packets.push(packet);
        let id = PacketId::from(self.packets.len() - 1);
        self.checks.made(id, &packet);
        id
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

    /// What the checker says at last. Flows may be as they are.
    fn found(mut self) -> Vec<String> {
        self.checks.flow(FlowId(0)).ended = true;
        self.conclude()
    }

    fn conclude(mut self) -> Vec<String> {
        let waiting = self.checks.ports.iter().map(|p| p.waiting() as u32).collect();
        let alive = self.checks.packets.iter().flatten().count();
        let end = Ending { at: self.checks.now, waiting, alive };
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

/// One violation, which says this.
#[track_caller]
fn assert_one(found: &[String], part: &str) {
    assert!(found.len() == 1 && found[0].contains(part), "{part:?} is not all of {found:?}");
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
    assert_one(&run.found(), "delivered 1460 bytes where 0 arrived");
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
    assert_one(&run.found(), "delivered 1000 bytes where 460 arrived");
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
    // They came one after the other, and the second is sent first.
    let port = run.port_to(1);
    run.checks.packets[a.index()] = run.checks.packets[b.index()];
    run.queue(port, a);
    run.queue(port, b);
    let now = run.checks.now;
    run.send(port, b, now, true);
    assert_one(&run.found(), "before those that came earlier");
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
    assert_one(&run.found(), "holds 3 where 2packets fit");
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
    assert_one(&run.found(), "from another node's");
}

#[test]
fn routing__packets_end_at_their_hosts() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let now = run.checks.now;
    let at = run.send(run.port_to(2), id, now, false);
    run.arrive(id, at);
    assert_one(&run.found(), "arrived at another node");
}

#[test]
fn flows__only_transports_that_declare_it_give_up() {
    let mut run = Watched::drop_tail();
    run.checks.told(FlowId(0), &FlowEvent::Abandoned);
    assert_eq!(run.found(), Vec::<String>::new());
    let mut run = Watched::drop_tail();
    run.checks.may_abandon = 0;
    run.checks.told(FlowId(0), &FlowEvent::Finished);
    run.checks.told(FlowId(0), &FlowEvent::Abandoned);
    assert_one(&run.found(), "declares it never does");
}

#[test]
fn routing__no_packet_goes_in_circles() {
    let mut run = Watched::drop_tail();
    let id = run.make();
    // To and fro between host 0 and the switch; there are four nodes.
    let mut at = Instant::ZERO;
    for hop in 0..6 {
        run.checks.event(at);
        let port = if hop % 2 == 0 { run.nic(0) } else { run.port_to(0) };
        at = run.send(port, id, at, false);
    }
    assert_one(&run.found(), "goes in circles");
}

#[test]
fn routing__packets_stay_as_they_are() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    run.packets[id.index()].wire_bytes = 1400;
    let port = run.port_to(1);
    run.queue(port, id);
    assert_one(&run.found(), "changed on its way");
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
    assert_one(&run.found(), "was not sent to it");

    let mut run = Watched::lossless();
    run.at(1);
    let arrives = run.pause(true);
    run.checks.event(arrives + US);
    run.checks.paused(run.nic(0), Class::DATA, true);
    assert_one(&run.found(), "not for now");
}

#[test]
fn pauses__are_not_repeated() {
    let mut run = Watched::lossless();
    run.at(1);
    let arrives = run.pause(false);
    run.checks.event(arrives);
    run.checks.paused(run.nic(0), Class::DATA, false);
    assert_one(&run.found(), "does already");
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
    assert_one(&fill(false), "fills a switch with class 1 unpaused");
}

#[test]
fn stuck__a_flow_that_waits_for_nothing() {
    assert_one(&Watched::drop_tail().conclude(), "flow 0 is stuck");
    type Prepare = fn(&mut Watched);
    let waits: [Prepare; 5] = [
        |run| run.checks.timer_set(FlowId(0), End::Sender, TimerChange::Set(Instant::ZERO)),
        |run| run.checks.timer_set(FlowId(0), End::Receiver, TimerChange::Set(Instant::ZERO)),
        |run| run.checks.ready(FlowId(0)),
        |run| run.checks.host_timer(TransportId(0), HostId(1), true),
        |run| _ = run.make(),
    ];
    for prepare in waits {
        let mut run = Watched::drop_tail();
        prepare(&mut run);
        assert_eq!(run.conclude(), [""; 0]);
    }
    // A timer that has fired, a sender that was asked: neither is under way any more.
    let mut run = Watched::drop_tail();
    run.checks.timer_set(FlowId(0), End::Sender, TimerChange::Set(Instant::ZERO));
    run.checks.called(Why::Timer(FlowId(0), End::Sender));
    run.checks.ready(FlowId(0));
    run.checks.called(Why::Polled(FlowId(0)));
    run.checks.host_timer(TransportId(0), HostId(0), true);
    run.checks.host_timer(TransportId(0), HostId(0), false);
    assert_one(&run.conclude(), "flow 0 is stuck");
}

#[test]
fn time__does_not_go_back() {
    let mut run = Watched::drop_tail();
    run.at(2);
    run.at(1);
    assert_one(&run.found(), "time went back");
}
