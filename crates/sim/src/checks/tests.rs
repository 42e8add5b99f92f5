//! The checker observes runs with one error each, and must report it.
#![allow(non_snake_case)]

mod flows;
mod paths;
mod queues;
mod routes;

use super::*;
use punctual_core::{
    ByteRange, Bytes, Duration, Header, Limit, PacketFlags, RetransmitCause, TrimModel,
};
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
        checks.flow_started(&flow());
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
        self.checks.event_begins(at);
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
        self.checks.packet_created(id, &packet);
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
            self.checks.event_begins(self.checks.now);
        }
    }

    fn queue(&mut self, port: PortId, id: PacketId) {
        self.checks.packet_queued(port, id, &self.packets[id.index()]);
    }

    fn send(&mut self, port: PortId, id: PacketId, from: Instant, waited: bool) -> Instant {
        let until = from + PACKET_TIME;
        self.checks.packet_sent(port, id, &self.packets[id.index()], from, until, waited);
        until + US
    }

    fn trim(&mut self, port: PortId, id: PacketId) {
        let packet = &mut self.packets[id.index()];
        packet.flags.set(PacketFlags::TRIMMED);
        (packet.class, packet.wire_bytes) = (Class::CONTROL, 64);
        self.checks.packet_trimmed(port, id, packet, None);
    }

    fn arrive(&mut self, id: PacketId, at: Instant) {
        self.checks.event_begins(at);
        self.checks.packet_arrived(id, &self.packets[id.index()]);
    }

    /// A packet that its NIC sent and that is due at the switch now.
    fn at_switch(&mut self) -> PacketId {
        let id = self.make();
        let from = self.checks.ports[self.nic(0).index()].busy_until.max(self.checks.now);
        let at = self.send(self.nic(0), id, from, false);
        self.checks.event_begins(at);
        id
    }

    fn pause(&mut self, is_pause: bool) -> Instant {
        let (port, from) = (self.port_to(0), self.checks.now);
        let until = from + RATE.transmission_time(Bytes::new(64));
        self.checks.pause_sent(port, from, until, Class::DATA, is_pause);
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
