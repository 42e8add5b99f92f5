//! The driver keeps its side of the contract, tested with a stop-and-wait transport.
// A set of transports is public, and so is what it consists of.
#![allow(unreachable_pub)]

use crate::support::{Faults, Lossy};
use punctual_core::{
    ByteRange, Bytes, Class, Duration, Endpoint, ExtBlock, FlowEvent, FlowId, FlowRoute, FlowSpec,
    Header, HostCx, HostId, Instant, Limit, NicInfo, NoController, Packet, PacketFlags, QueueSpec,
    Rate, RetransmitCause, Transport, TransportInfo,
};
use punctual_host::{Application, Driver, DriverOptions, Offer, WireSet};
use punctual_wire::{Codec, Data, Envelope, RecentNumbers, Summary, WireError};
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Stop and wait: one packet, its acknowledgement, the next. Its endpoints assert the driver's side
/// of the contract.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Toy;

/// The set of transports that has only it.
mod set {
    punctual_transports::register! {
        Toy(super::Toy), toy;
    }
}
use set::AnyTransport;

impl WireSet for AnyTransport {
    type Codec = ToyCodec;

    fn codec(&self, _mtu: Bytes, _epoch: u32) -> Option<ToyCodec> {
        Some(ToyCodec)
    }
}

const SEGMENT: u64 = 1_000;
const RTO: Duration = Duration::from_millis(5);

/// Words of a header: offset, flow's size.
fn header(offset: u64, size: u64) -> Header {
    Header::new([offset, size, 0, 0])
}

fn words(packet: &Packet) -> [u64; 4] {
    packet.header.get()
}

pub struct ToySender {
    flow: FlowId,
    peer: HostId,
    size: u64,
    acked: u64,
    sent: u64,
    ready: bool,
    finished: bool,
    timer_at: Option<Instant>,
    now: Instant,
}

impl ToySender {
    fn look(&mut self, now: Instant) {
        assert!(!self.finished, "called after its end");
        assert!(now >= self.now, "time went back");
        self.now = now;
    }

    fn ready(&mut self, cx: &mut HostCx<'_, Toy>) {
        self.ready = true;
        cx.ready(Class::DATA);
    }
}

impl Endpoint<Toy> for ToySender {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, Toy>) {
        self.look(cx.now);
        assert!(packet.is_to_sender() && packet.flow == self.flow);
        let [acked, ..] = words(packet);
        if acked != self.acked + (self.size - self.acked).min(SEGMENT) {
            return;
        }
        self.acked = acked;
        self.timer_at = None;
        cx.clear_timer();
        if acked == self.size {
            self.finished = true;
            cx.emit(FlowEvent::Finished);
        } else {
            self.ready(cx);
        }
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, Toy>) {
        self.look(cx.now);
        let at = self.timer_at.take().expect("a timer fires once, and not when cleared");
        assert!(cx.now >= at, "too early");
        cx.emit(FlowEvent::TimedOut);
        self.ready(cx);
    }

    fn poll_transmit(&mut self, cx: &mut HostCx<'_, Toy>) -> Option<Packet> {
        self.look(cx.now);
        assert!(std::mem::take(&mut self.ready), "asked without being ready");
        if self.sent > self.acked {
            cx.emit(FlowEvent::Retransmitted(RetransmitCause::Timeout));
        }
        let len = (self.size - self.acked).min(SEGMENT);
        self.sent = self.acked + len;
        self.timer_at = Some(cx.now + RTO);
        cx.set_timer(cx.now + RTO);
        let mut packet = Packet::new(self.flow, self.peer, header(self.acked, self.size));
        packet.payload_bytes = len as u16;
        packet.wire_bytes = len as u16 + 64;
        Some(packet)
    }
}

pub struct ToyReceiver {
    flow: FlowId,
    peer: HostId,
    next: u64,
}

impl Endpoint<Toy> for ToyReceiver {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, Toy>) {
        assert!(!packet.is_to_sender() && packet.flow == self.flow);
        let [offset, size, ..] = words(packet);
        if packet.is_trimmed() {
            cx.emit(FlowEvent::Trimmed);
            return;
        }
        let len = u64::from(packet.payload_bytes);
        if offset == self.next {
            self.next += len;
            cx.emit(FlowEvent::Delivered(ByteRange { offset, len }));
            if self.next == size {
                cx.emit(FlowEvent::Completed);
            }
        }
        let mut ack = Packet::new(self.flow, self.peer, header(self.next, 0));
        ack.flags = PacketFlags::TO_SENDER;
        ack.class = Class::CONTROL;
        ack.wire_bytes = 64;
        cx.send(ack);
    }

    fn handle_timeout(&mut self, _cx: &mut HostCx<'_, Toy>) {
        panic!("no timer was set");
    }
}

impl Transport for Toy {
    type Sender = ToySender;
    type Receiver = ToyReceiver;
    type Shared = ();
    type Controller = NoController;

    const INFO: TransportInfo = TransportInfo::new("toy", "a transport for tests");

    fn open_host(&self, _nic: &NicInfo) {}

    fn open_sender(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, Toy>) -> ToySender {
        let mut sender = ToySender {
            flow: flow.id,
            peer: route.peer,
            size: flow.size.get(),
            acked: 0,
            sent: 0,
            ready: false,
            finished: false,
            timer_at: None,
            now: cx.now,
        };
        sender.ready(cx);
        sender
    }

    fn open_receiver(first: &Packet, route: &FlowRoute, _: &mut HostCx<'_, Toy>) -> ToyReceiver {
        ToyReceiver { flow: first.flow, peer: route.peer, next: 0 }
    }

    fn default_queue(&self, _rate: Rate, _mtu: Bytes) -> QueueSpec {
        QueueSpec::DropTail { limit: Limit::Packets(100) }
    }
}

pub struct ToyCodec;

impl Codec for ToyCodec {
    const TRANSPORT: u8 = 30;
    const NAME: &'static str = "toy";
    // The relay can trim only headers of NDP's length.
    const FIELDS_BYTES: (usize, usize) = (16, 16);

    fn summary(&self, _packet: &Packet) -> Summary {
        Summary { is_syn: true, ..Summary::default() }
    }

    fn emit_fields(&self, packet: &Packet, _block: Option<&ExtBlock>, fields: &mut [u8]) {
        let [offset, size, ..] = words(packet);
        fields[..8].copy_from_slice(&offset.to_be_bytes());
        fields[8..].copy_from_slice(&size.to_be_bytes());
    }

    fn parse_fields(
        &self,
        _: &Envelope,
        fields: &[u8],
        _: &RecentNumbers,
        packet: &mut Packet,
    ) -> Result<(), WireError> {
        let number =
            |at: usize| fields[at..at + 8].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        packet.header = header(number(0), number(8));
        Ok(())
    }

    fn data(&self, packet: &Packet) -> Option<Data> {
        let [offset, flow_bytes, ..] = words(packet);
        let len = u64::from(packet.payload_bytes);
        let flow_bytes = Some(flow_bytes);
        let range = ByteRange { offset, len };
        (!packet.is_to_sender()).then_some(Data { range, flow_bytes, segment_bytes: None })
    }

    fn observe(&self, _packet: &Packet, _near: &mut RecentNumbers) {}
}

/// Sends bytes and keeps what it receives.
#[derive(Default)]
struct Memory {
    sending: Vec<u8>,
    received: Vec<(FlowId, SocketAddr, Vec<u8>)>,
    completed: usize,
    finished: usize,
}

impl Application for Memory {
    fn accept(&mut self, offer: &Offer) -> bool {
        self.received.push((offer.flow, offer.peer, vec![0; offer.size.get() as usize]));
        true
    }

    fn read(&mut self, _flow: FlowId, offset: u64, into: &mut [u8]) -> io::Result<()> {
        into.copy_from_slice(&self.sending[offset as usize..][..into.len()]);
        Ok(())
    }

    fn write(&mut self, flow: FlowId, offset: u64, data: &[u8]) -> io::Result<()> {
        let (.., bytes) = self.received.iter_mut().find(|r| r.0 == flow).unwrap();
        bytes[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    fn handle_event(&mut self, _flow: FlowId, _now: Instant, event: FlowEvent) {
        self.completed += usize::from(event == FlowEvent::Completed);
        self.finished += usize::from(event == FlowEvent::Finished);
    }
}

fn driver(seed: u64, rate: Rate) -> (Driver<AnyTransport>, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let options = DriverOptions {
        rate,
        mtu: Bytes::new(1_500),
        has_headroom: false,
        framing: Bytes::new(38),
        time_wait: Duration::from_millis(200),
        stall_max: Duration::from_secs(5),
        flows_max: 3,
        seed,
    };
    (Driver::new(&[AnyTransport::Toy(Toy)], socket, options).unwrap(), address)
}

fn contents(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|i| (i / 7) as u8 ^ i as u8 ^ salt).collect()
}

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn peers_may_choose_the_same_flow_number() {
    let (mut receiver, address) = driver(1, Rate::from_gbps(1));
    let senders: Vec<_> = (0..2u8)
        .map(|salt| {
            std::thread::spawn(move || {
                // Equal seeds draw equal flow numbers.
                let (mut driver, local) = driver(7, Rate::from_gbps(1));
                let sending = contents(20_500, salt);
                let mut app = Memory { sending, ..Memory::default() };
                let size = Bytes::new(20_500);
                driver.open(address, size, None, &mut app).unwrap();
                let end = driver.now() + PATIENCE;
                while app.finished == 0 && driver.now() < end {
                    driver.turn(&mut app, end).unwrap();
                }
                (local, app.sending)
            })
        })
        .collect();
    let mut app = Memory::default();
    let end = receiver.now() + PATIENCE;
    while app.completed < 2 && receiver.now() < end {
        receiver.turn(&mut app, end).unwrap();
    }
    let flow = app.received[0].0;
    assert!(receiver.is_open(flow), "in its time-wait");
    let quiet = receiver.now() + PATIENCE;
    while receiver.is_open(flow) && receiver.now() < quiet {
        receiver.turn(&mut app, quiet).unwrap();
    }
    assert!(!receiver.is_open(flow), "forgotten after its time-wait");
    for sender in senders {
        let (local, sent) = sender.join().unwrap();
        let (.., bytes) = app.received.iter().find(|r| r.1 == local).unwrap();
        assert!(*bytes == sent);
    }
    assert_eq!(app.received.len(), 2);
}

#[test]
fn too_many_flows_are_refused() {
    let (mut receiver, address) = driver(1, Rate::from_gbps(1));
    let (mut sender, _) = driver(2, Rate::from_gbps(1));
    let mut from = Memory { sending: contents(100, 0), ..Memory::default() };
    let mut to = Memory::default();
    for _ in 0..5 {
        sender.open(address, Bytes::new(100), None, &mut from).unwrap();
    }
    let end = sender.now() + PATIENCE;
    let refused = |driver: &Driver<AnyTransport>| {
        driver.traffic().dropped.get("too_many_flows").copied().unwrap_or(0)
    };
    while from.finished < 3 || refused(&receiver) < 2 {
        let now = sender.now();
        assert!(now < end, "{:?}", receiver.traffic());
        sender.turn(&mut from, now).unwrap();
        let now = receiver.now();
        receiver.turn(&mut to, now).unwrap();
    }
    assert_eq!((from.finished, to.completed), (3, 3));
}

#[test]
fn the_interface_keeps_its_rate() {
    let (mut receiver, address) = driver(1, Rate::from_gbps(1));
    // 1064 bytes at 10 Mb/s take 851 µs.
    let (mut sender, _) = driver(2, Rate::from_mbps(10));
    let mut from = Memory { sending: contents(20_000, 0), ..Memory::default() };
    let mut to = Memory::default();
    let start = sender.now();
    sender.open(address, Bytes::new(20_000), None, &mut from).unwrap();
    while from.finished == 0 {
        let now = sender.now();
        assert!(now < start + PATIENCE);
        sender.turn(&mut from, now).unwrap();
        let now = receiver.now();
        receiver.turn(&mut to, now).unwrap();
    }
    let took = sender.now() - start;
    // The first packet leaves at once; each of the other nineteen waits for the previous one.
    assert!(took >= Duration::from_micros(19 * 851), "{took}");
}

/// A transport that is not NDP, through every fault.
#[test]
fn bytes_go_over_any_transport() {
    let (mut receiver, address) = driver(1, Rate::from_gbps(1));
    let faults = Faults {
        drop: 0.05,
        duplicate: 0.05,
        reorder: 0.05,
        corrupt: 0.05,
        trim: 0.05,
        drop_varies: false,
    };
    let relay = Lossy::start(address, faults, 9);
    let to_relay = relay.address();
    let sending = std::thread::spawn(move || {
        let (mut driver, _) = driver(2, Rate::from_gbps(1));
        let mut app = Memory { sending: contents(50_000, 3), ..Memory::default() };
        driver.open(to_relay, Bytes::new(50_000), None, &mut app).unwrap();
        let end = driver.now() + PATIENCE;
        while app.finished == 0 && driver.now() < end {
            driver.turn(&mut app, end).unwrap();
        }
        app.finished
    });
    let mut app = Memory::default();
    let end = receiver.now() + PATIENCE;
    while !sending.is_finished() && receiver.now() < end {
        let until = receiver.now() + Duration::from_millis(20);
        receiver.turn(&mut app, until).unwrap();
    }
    assert_eq!((sending.join().unwrap(), app.completed), (1, 1));
    assert!(app.received[0].2 == contents(50_000, 3));
    let done = relay.finish();
    assert!(done.dropped > 0 && done.corrupted > 0, "{done:?}");
}
