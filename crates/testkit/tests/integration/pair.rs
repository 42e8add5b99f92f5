//! Tests of the driver with a toy transport: every packet is acknowledged, and the lowest missing
//! packet is retransmitted after a fixed time.

use punctual_core::{
    ByteRange, Bytes, Class, Controller, Duration, Endpoint, ExtArena, ExtBlock, FlowEvent,
    FlowRoute, FlowSpec, Header, HostCx, HostId, Instant, Limit, NicInfo, Packet, PacketFlags,
    PortId, PortView, QueueSpec, RangeSet, Rate, RetransmitCause, Transport, TransportInfo,
};
use punctual_testkit::{Direction, Fault, FaultOdds, Pair, PairPath};

const PAYLOAD: u64 = 1000;
const TIMEOUT: Duration = Duration::from_micros(50);

#[derive(Clone, Default)]
struct Toy {
    bad_path: bool,
    deliver_twice: bool,
}

struct Sender {
    flow: FlowSpec,
    next: u64,
    acked: RangeSet,
}

struct Receiver {
    src: HostId,
    got: RangeSet,
}

/// Counts packets per direction and, in the header, ports passed.
#[derive(Default)]
struct Counter {
    forward: u64,
    reverse: u64,
    ticks: u64,
    next: Option<Instant>,
}

impl Controller for Counter {
    fn handle_forward(&mut self, packet: &mut Packet, port: &PortView, ext: &mut ExtArena) {
        self.forward += 1;
        self.next = self.next.or(Some(port.now + Duration::from_micros(3)));
        if let Some(id) = packet.ext {
            ext.get_mut(id).0[0] += 1;
        }
    }
    fn reads_answers(&self) -> bool {
        true
    }
    fn handle_reverse(&mut self, _: &mut Packet, _: PortId) {
        self.reverse += 1;
    }
    fn handle_timeout(&mut self, _: &PortView) {
        self.ticks += 1;
        self.next = None;
    }
    fn next_timeout(&self) -> Option<Instant> {
        self.next
    }
}

impl Sender {
    fn packet(&self, offset: u64, cx: &mut HostCx<'_, Toy>) -> Packet {
        let header = Header::new([offset, self.flow.size.get(), 0, 0u64]);
        let mut packet = Packet::new(self.flow.id, self.flow.dst, header);
        packet.payload_bytes = PAYLOAD.min(self.flow.size.get() - offset) as u16;
        packet.wire_bytes = packet.payload_bytes;
        packet.flags.set(PacketFlags::TRIMMABLE);
        packet.ext = Some(cx.ext.alloc(ExtBlock::default()));
        packet.path = if cx.config.bad_path { 4 } else { 3 };
        packet
    }
}

impl Endpoint<Toy> for Sender {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, Toy>) {
        if packet.is_bounced() {
            return cx.emit(FlowEvent::Bounced);
        }
        let [offset, end, ..] = packet.header.get::<[u64; 4]>();
        self.acked.insert(offset, end, |_, _| {});
        if self.acked.prefix_end() == self.flow.size.get() {
            cx.clear_timer();
            cx.emit(FlowEvent::Finished);
        } else {
            cx.set_timer(cx.now + TIMEOUT);
        }
    }
    fn handle_timeout(&mut self, cx: &mut HostCx<'_, Toy>) {
        cx.emit(FlowEvent::TimedOut);
        cx.emit(FlowEvent::Retransmitted(RetransmitCause::Timeout));
        let packet = self.packet(self.acked.prefix_end() / PAYLOAD * PAYLOAD, cx);
        cx.send(packet);
        cx.set_timer(cx.now + TIMEOUT);
    }
    fn poll_transmit(&mut self, cx: &mut HostCx<'_, Toy>) -> Option<Packet> {
        let packet = self.packet(self.next, cx);
        self.next += u64::from(packet.payload_bytes);
        if self.next < self.flow.size.get() {
            cx.ready(self.flow.class);
        }
        Some(packet)
    }
}

impl Endpoint<Toy> for Receiver {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, Toy>) {
        if packet.is_trimmed() {
            return cx.emit(FlowEvent::Trimmed);
        }
        let [offset, size, ..] = packet.header.get::<[u64; 4]>();
        let end = offset + u64::from(packet.payload_bytes);
        let before = self.got.total();
        let mut fresh = Vec::new();
        self.got.insert(offset, end, |s, e| fresh.push((s, e)));
        if cx.config.deliver_twice {
            fresh = vec![(offset, end)];
        }
        for (offset, end) in fresh {
            cx.emit(FlowEvent::Delivered(ByteRange { offset, len: end - offset }));
        }
        if self.got.total() == size && before < size {
            cx.emit(FlowEvent::Completed);
        }
        let mut ack = Packet::new(packet.flow, self.src, Header::new([offset, end, 0, 0u64]));
        ack.wire_bytes = 40;
        ack.class = Class::CONTROL;
        ack.flags = PacketFlags::TO_SENDER;
        cx.send(ack);
    }
    fn handle_timeout(&mut self, _: &mut HostCx<'_, Toy>) {}
}

impl Transport for Toy {
    type Sender = Sender;
    type Receiver = Receiver;
    type Shared = ();
    type Controller = Counter;

    const INFO: TransportInfo = TransportInfo::new("toy", "a transport for tests");

    fn open_host(&self, _: &NicInfo) {}
    fn open_sender(flow: &FlowSpec, _: &FlowRoute, cx: &mut HostCx<'_, Self>) -> Sender {
        cx.ready(flow.class);
        cx.set_timer(cx.now + TIMEOUT);
        Sender { flow: *flow, next: 0, acked: RangeSet::default() }
    }
    fn open_receiver(_: &Packet, route: &FlowRoute, _: &mut HostCx<'_, Self>) -> Receiver {
        Receiver { src: route.peer, got: RangeSet::default() }
    }
    fn controller(&self, _: &PortView) -> Option<Counter> {
        Some(Counter::default())
    }
    fn default_queue(&self, _: Rate, _: Bytes) -> QueueSpec {
        QueueSpec::DropTail { limit: Limit::Packets(100) }
    }
}

fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn at(n: u64) -> Instant {
    Instant::ZERO + micros(n)
}

/// 1000 B take 1 µs, an ACK 40 ns.
fn path() -> PairPath {
    PairPath { rate: Rate::from_gbps(8), ..PairPath::default() }
}

#[test]
fn lone_flow_takes_its_time() {
    let mut pair = Pair::new(Toy::default(), path());
    let flow = pair.start(pair.spec(Bytes::new(10_000)));
    assert!(pair.run_until_done(at(1000)));
    let result = pair.result(flow);
    assert_eq!(result.completed_at, Some(at(10 + 1)));
    assert_eq!(result.finished_at, Some(at(12) + Duration::from_nanos(40)));
    assert_eq!(result.delivered.iter().collect::<Vec<_>>(), [(0, 10_000)]);
    assert_eq!((result.retransmitted, result.timed_out), (0, 0));
    assert_eq!(pair.extensions(), 0);
    let starts: Vec<_> =
        pair.trace().iter().filter(|t| t.direction == Direction::Forward).collect();
    assert!(starts.iter().enumerate().all(|(i, t)| t.at == at(i as u64)));
}

#[test]
fn switches_store_and_forward_and_controllers_see_both_ways() {
    let mut pair = Pair::new(Toy::default(), PairPath { switches: 2, ..path() });
    let flow = pair.start(pair.spec(Bytes::new(10_000)));
    pair.run_until(at(1000));
    assert_eq!(pair.now(), at(1000));
    // Three links of 1 µs, and the last packet is stored twice.
    assert_eq!(pair.result(flow).completed_at, Some(at(10 + 2 + 3)));
    let seen: Vec<_> = pair
        .forward_controllers()
        .map(|c| c.map(|c| (c.forward, c.reverse, c.ticks > 0)).unwrap())
        .collect();
    assert_eq!(seen, [(10, 10, true); 3]);
    // The controller of the NIC port has counted each packet once.
    let sent = &pair.trace()[0];
    assert_eq!(sent.ext.unwrap().0[0], 1);
}

#[test]
fn flows_take_turns_and_go_both_ways() {
    let mut pair = Pair::new(Toy::default(), path());
    let first = pair.start(pair.spec(Bytes::new(3_000)));
    let second = pair.start(pair.spec(Bytes::new(3_000)));
    let back = pair.start(FlowSpec {
        src: HostId(1),
        dst: HostId(0),
        start: at(2),
        ..pair.spec(Bytes::new(2_000))
    });
    assert!(pair.run_until_done(at(1000)));
    let sent: Vec<u32> = pair
        .trace()
        .iter()
        .filter(|t| t.direction == Direction::Forward && !t.packet.is_to_sender())
        .map(|t| t.packet.flow.0)
        .collect();
    // The first flow is polled, and queued again, before the second flow starts.
    assert_eq!(sent, [0, 0, 1, 0, 1, 1]);
    for flow in [first, second, back] {
        assert!(pair.result(flow).is_done());
    }
}

#[test]
fn every_fault_does_what_it_says() {
    let mut pair = Pair::new(Toy::default(), path());
    pair.set_faults(|packet, index| match (packet.is_to_sender(), index) {
        (false, 0) => Fault::Drop,
        (false, 1) => Fault::Duplicate,
        (false, 2) => Fault::Delay(micros(7)),
        (false, 3) => Fault::Trim,
        (false, 4) => Fault::Bounce,
        (false, 5) => Fault::Mark,
        _ => Fault::Deliver,
    });
    let flow = pair.start(pair.spec(Bytes::new(6_000)));
    pair.run_until(at(20));
    let result = pair.result(flow);
    // The second, the delayed third and the last have arrived; a mark needs an ECN-capable packet.
    assert_eq!(result.delivered.iter().collect::<Vec<_>>(), [(1000, 3000), (5000, 6000)]);
    assert_eq!((result.trimmed, result.bounced), (1, 1));
    assert!(pair.run_until_done(at(1000)));
    assert_eq!(pair.result(flow).retransmitted, 3);
    assert_eq!(pair.extensions(), 0);
}

#[test]
fn random_faults_repeat_with_their_seed() {
    let run = |seed| {
        let mut pair = Pair::new(Toy::default(), path());
        let odds = FaultOdds { drop: 0.1, duplicate: 0.1, delay: 0.2, ..FaultOdds::default() };
        pair.set_faults(odds.rule(seed));
        let flow = pair.start(pair.spec(Bytes::new(50_000)));
        assert!(pair.run_until_done(at(100_000)));
        pair.result(flow).finished_at
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn an_unfinished_run_stops_at_its_limit() {
    let mut pair = Pair::new(Toy::default(), path());
    pair.set_faults(|_, _| Fault::Drop);
    pair.start(pair.spec(Bytes::new(1_000)));
    assert!(!pair.run_until_done(at(5000)));
    assert_eq!(pair.now(), at(5000));
}

#[test]
#[should_panic(expected = "a livelock?")]
fn events_are_bounded() {
    let mut pair = Pair::new(Toy::default(), path());
    pair.set_events_max(1000);
    pair.set_faults(|_, _| Fault::Drop);
    pair.start(pair.spec(Bytes::new(1_000)));
    pair.run_until_done(Instant::NEVER);
}

#[test]
#[should_panic(expected = "takes path 4 of 4")]
fn a_path_that_does_not_exist_is_a_panic() {
    let toy = Toy { bad_path: true, ..Toy::default() };
    let mut pair = Pair::new(toy, path());
    pair.start(pair.spec(Bytes::new(1_000)));
    pair.run_until(at(10));
}

#[test]
#[should_panic(expected = "twice")]
fn delivering_twice_is_a_panic() {
    let toy = Toy { deliver_twice: true, ..Toy::default() };
    let mut pair = Pair::new(toy, path());
    pair.set_faults(|_, _| Fault::Duplicate);
    pair.start(pair.spec(Bytes::new(2_000)));
    pair.run_until(at(10));
}
