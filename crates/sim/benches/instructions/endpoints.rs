//! Senders, receivers and controllers alone. An endless flow is run between two hosts once, and
//! everything that its ends were asked to do is recorded; what is measured is one of them being
//! asked the same again. The recording is as long whatever the length, so that it falls out.

use crate::Done;
use punctual_core::{
    Bytes, Call, Class, Controller, Duration, End, ExtArena, ExtBlock, ExtId, FlowId, FlowRoute,
    FlowSpec, FlowStack, HostId, Instant, NicInfo, Outbox, Packet, PacketFlags, PortId, PortView,
    Rate, TimerChange, TransportId, TransportSet,
};
use punctual_transports::{AnyController, AnyStack, AnyTransport, TransportSettings};
use std::collections::BTreeMap;
use std::rc::Rc;

const SENDER: HostId = HostId(0);
const RECEIVER: HostId = HostId(1);
const RATE: Rate = Rate::from_gbps(10);
/// One way. A round trip of 20 µs keeps some tens of packets in flight.
const DELAY: Duration = Duration::from_micros(10);
const PATHS: u32 = 16;
/// The line marks one ECN-capable packet in so many.
const MARK_EVERY: u64 = 100;
/// Data packets in a recording: what twice the greatest length asks for.
const RECORDED_PACKETS: u64 = 20_000;

/// Data packets sent: what made the sender send them (acknowledgements, pulls, timers) included.
pub(crate) fn sender(transport: &str, packets: u64) -> Done {
    let transport = by_name(transport);
    let recording = record(&transport, packets);
    replay(BenchEnd::new(&transport, SENDER), &recording.sender, packets)
}

/// Data packets received: the timers of the host's shared state included.
pub(crate) fn receiver(transport: &str, packets: u64) -> Done {
    let transport = by_name(transport);
    let recording = record(&transport, packets);
    replay(BenchEnd::new(&transport, RECEIVER), &recording.receiver, packets)
}

/// Packets with a header extension handled by the controller of a port.
pub(crate) fn port(transport: &str, packets: u64) -> Done {
    let transport = by_name(transport);
    let recording = record(&transport, RECORDED_PACKETS);
    let requests: Vec<_> = recording
        .forward
        .iter()
        .filter_map(|(view, p)| Some((view, p.0, p.1.as_deref()?)))
        .collect();
    assert!(!requests.is_empty(), "no packet asks the port for anything");
    let mut controller = transport.controller(&view(Instant::ZERO, 0)).expect("a controller");
    let mut ext = ExtArena::default();
    let mut digest = 0;
    for n in 0..packets as usize {
        let (view, mut packet, block) = requests[n % requests.len()];
        let id = ext.alloc(*block);
        packet.ext = Some(id);
        controller.handle_forward(&mut packet, view, &mut ext);
        digest = ext.get(id).0.iter().fold(digest, |d: u64, word| d.rotate_left(7) ^ word);
        ext.free(id);
    }
    Done { operations: packets, digest }
}

fn by_name(name: &str) -> AnyTransport {
    AnyTransport::by_name(name, &TransportSettings::default()).expect("a transport of that name")
}

fn nic(host: HostId, transport: &AnyTransport) -> NicInfo {
    let mtu = if transport.name() == "ndp" { 9064 } else { 1500 };
    NicInfo { host, rate: RATE, mtu: Bytes::new(mtu), framing: Bytes::ZERO, nics: 1 }
}

fn view(now: Instant, sent_bytes: u64) -> PortView {
    let framing = Bytes::ZERO;
    PortView {
        port: PortId(0),
        now,
        rate: RATE,
        framing,
        queue_bytes: 0,
        queue_packets: 0,
        sent_bytes,
    }
}

/// A packet outside any arena. Few have a block, which must not weigh on those that have none.
type Loose = (Packet, Option<Rc<ExtBlock>>);

/// What an end is asked to do.
#[derive(Clone)]
enum Ask {
    Take(Loose),
    Poll,
    Timeout,
    HostTimeout,
}

/// One host with the one end of the flow that it has.
struct BenchEnd {
    stack: AnyStack,
    host: HostId,
    slot: Option<u32>,
    ext: ExtArena,
    out: Outbox,
}

impl BenchEnd {
    fn new(transport: &AnyTransport, host: HostId) -> Self {
        let stack = transport.stack(&[nic(SENDER, transport), nic(RECEIVER, transport)]);
        let mut end =
            BenchEnd { stack, host, slot: None, ext: ExtArena::default(), out: Outbox::default() };
        if host == SENDER {
            end.open_sender();
        }
        end
    }

    fn route(&self) -> FlowRoute {
        let peer = if self.host == SENDER { RECEIVER } else { SENDER };
        FlowRoute { local: self.host, peer, paths: PATHS, ecmp_path: 3, nics: 1, seed: 1 }
    }

    fn open_sender(&mut self) {
        let flow = FlowSpec {
            id: FlowId(0),
            src: SENDER,
            dst: RECEIVER,
            size: Bytes::ENDLESS,
            start: Instant::ZERO,
            deadline: None,
            transport: TransportId(0),
            class: Class::DATA,
            background: false,
            pattern: 0,
        };
        let route = self.route();
        let call =
            Call { now: Instant::ZERO, host: self.host, ext: &mut self.ext, out: &mut self.out };
        self.slot = Some(self.stack.open_sender(&flow, &route, call));
    }

    /// Does what is asked; answers are left in the outbox, a packet polled for is returned.
    #[inline]
    fn ask(&mut self, now: Instant, ask: &Ask) -> Option<Packet> {
        let route = self.route();
        let BenchEnd { stack, host, slot, ext, out } = self;
        macro_rules! call {
            () => {
                Call { now, host: *host, ext: &mut *ext, out: &mut *out }
            };
        }
        match (ask, *host) {
            (Ask::Take((packet, block)), host) => {
                let mut packet = *packet;
                packet.ext = block.as_ref().map(|block| ext.alloc(**block));
                if host == SENDER {
                    stack.handle_packet(End::Sender, slot.expect("open"), &packet, call!());
                } else {
                    let slot =
                        *slot.get_or_insert_with(|| stack.open_receiver(&packet, &route, call!()));
                    stack.handle_packet(End::Receiver, slot, &packet, call!());
                }
                free(ext, packet.ext);
                None
            }
            (Ask::Poll, _) => stack.poll_transmit(slot.expect("open"), 0, call!()),
            (Ask::Timeout, SENDER) => {
                stack.handle_timeout(End::Sender, slot.expect("open"), call!());
                None
            }
            (Ask::Timeout, _) => {
                stack.handle_timeout(End::Receiver, slot.expect("open"), call!());
                None
            }
            (Ask::HostTimeout, _) => {
                stack.host_timeout(call!());
                None
            }
        }
    }

    /// Takes a packet made here out of the arena.
    fn loosen(&mut self, mut packet: Packet) -> Loose {
        let block = packet.ext.take().map(|id| {
            let block = Rc::new(*self.ext.get(id));
            self.ext.free(id);
            block
        });
        (packet, block)
    }
}

#[inline]
fn free(ext: &mut ExtArena, id: Option<ExtId>) {
    if let Some(id) = id {
        ext.free(id);
    }
}

/// Asks an end all it was asked before, up to so many data packets, and throws its answers away.
fn replay(mut end: BenchEnd, asks: &[(Instant, Ask)], packets: u64) -> Done {
    let (mut operations, mut digest) = (0, 0u64);
    for (now, ask) in asks {
        if operations == packets {
            break;
        }
        if let Ask::Take((packet, _)) = ask {
            operations += u64::from(end.host == RECEIVER && packet.payload_bytes > 0);
        }
        if let Some(packet) = end.ask(*now, ask) {
            operations += 1;
            digest = digest.rotate_left(5) ^ u64::from(packet.path);
            free(&mut end.ext, packet.ext);
        }
        for packet in end.out.packets.drain(..) {
            // Senders push what they have paced themselves, and are polled for the rest.
            operations += u64::from(end.host == SENDER && packet.payload_bytes > 0);
            digest = digest.rotate_left(5) ^ u64::from(packet.wire_bytes);
            free(&mut end.ext, packet.ext);
        }
        end.out.events.clear();
        end.out.ready = None;
        end.out.timer = TimerChange::Keep;
        end.out.host_timer = TimerChange::Keep;
    }
    assert_eq!(operations, packets, "the recording is too short");
    Done { operations, digest }
}

/// What a flow's ends were asked, and what passed the sender's port.
#[derive(Default)]
struct Recording {
    sender: Vec<(Instant, Ask)>,
    receiver: Vec<(Instant, Ask)>,
    forward: Vec<(PortView, Loose)>,
}

/// A line between two hosts, without loss, while a recording is made.
struct Line {
    now: Instant,
    ends: [BenchEnd; 2],
    controller: Option<AnyController>,
    agenda: BTreeMap<(Instant, u64), (HostId, Ask)>,
    added: u64,
    /// When each end's timer and its host's are due.
    timers: [[Option<Instant>; 2]; 2],
    nic_free_at: Instant,
    polled: bool,
    data_packets: u64,
    sent_bytes: u64,
    recording: Recording,
}

/// The same recording whatever part of it is asked for, when lengths are those of the catalogue.
fn record(transport: &AnyTransport, packets: u64) -> Recording {
    let packets = if packets * 2 >= RECORDED_PACKETS { RECORDED_PACKETS } else { packets };
    let mut line = Line {
        now: Instant::ZERO,
        ends: [BenchEnd::new(transport, SENDER), BenchEnd::new(transport, RECEIVER)],
        controller: transport.controller(&view(Instant::ZERO, 0)),
        agenda: BTreeMap::new(),
        added: 0,
        timers: [[None; 2]; 2],
        nic_free_at: Instant::ZERO,
        polled: false,
        data_packets: 0,
        sent_bytes: 0,
        recording: Recording::default(),
    };
    line.drain(SENDER);
    // The sender's last packets are still to arrive when it has sent enough.
    while line.data_packets < packets + 200 {
        let ((now, _), (host, ask)) = line.agenda.pop_first().expect("a flow without end");
        line.now = now;
        line.handle(host, ask);
    }
    line.recording
}

impl Line {
    fn add(&mut self, at: Instant, host: HostId, ask: Ask) {
        self.agenda.insert((at.max(self.now), self.added), (host, ask));
        self.added += 1;
    }

    fn handle(&mut self, host: HostId, mut ask: Ask) {
        let timers = &mut self.timers[host.index()];
        match &mut ask {
            Ask::Timeout if timers[0] != Some(self.now) => return, // set anew since
            Ask::HostTimeout if timers[1] != Some(self.now) => return,
            Ask::Timeout => timers[0] = None,
            Ask::HostTimeout => timers[1] = None,
            Ask::Poll => self.polled = false,
            Ask::Take((packet, block)) if host == SENDER => {
                let view = view(self.now, self.sent_bytes);
                control(&mut self.controller, &view, packet, block);
            }
            Ask::Take(_) => {}
        }
        let log =
            if host == SENDER { &mut self.recording.sender } else { &mut self.recording.receiver };
        let answer = self.ends[host.index()].ask(self.now, &ask);
        log.push((self.now, ask));
        if let Some(packet) = answer {
            self.send(host, packet);
        }
        self.drain(host);
    }

    /// Acts on an end's answers.
    fn drain(&mut self, host: HostId) {
        let out = &mut self.ends[host.index()].out;
        let packets = std::mem::take(&mut out.packets);
        let ready = out.ready.take();
        let changes = [std::mem::take(&mut out.timer), std::mem::take(&mut out.host_timer)];
        out.events.clear();
        for packet in packets {
            self.send(host, packet);
        }
        for (which, change) in changes.into_iter().enumerate() {
            let timer = &mut self.timers[host.index()][which];
            match change {
                TimerChange::Keep => {}
                TimerChange::Clear => *timer = None,
                TimerChange::Set(at) | TimerChange::Depart(at) => {
                    let at = at.max(self.now);
                    if timer.replace(at) != Some(at) {
                        let ask = if which == 0 { Ask::Timeout } else { Ask::HostTimeout };
                        self.add(at, host, ask);
                    }
                }
            }
        }
        if ready.is_some() && !self.polled {
            self.polled = true;
            self.add(self.nic_free_at, host, Ask::Poll);
        }
    }

    fn send(&mut self, from: HostId, packet: Packet) {
        let (mut packet, mut block) = self.ends[from.index()].loosen(packet);
        let mut leaves_at = self.now;
        if from == SENDER {
            let view = view(self.now, self.sent_bytes);
            self.recording.forward.push((view, (packet, block.clone())));
            control(&mut self.controller, &view, &mut packet, &mut block);
            self.sent_bytes += u64::from(packet.wire_bytes);
            let time = RATE.transmission_time(Bytes::new(u64::from(packet.wire_bytes)));
            leaves_at = self.now.max(self.nic_free_at) + time;
            self.nic_free_at = leaves_at;
            self.data_packets += u64::from(packet.payload_bytes > 0);
            if packet.flags.has(PacketFlags::ECN_CAPABLE)
                && self.data_packets.is_multiple_of(MARK_EVERY)
            {
                packet.flags.set(PacketFlags::ECN_MARKED);
            }
        }
        let to = if from == SENDER { RECEIVER } else { SENDER };
        self.add(leaves_at + DELAY, to, Ask::Take((packet, block)));
    }
}

/// Lets the sender's port see a packet of either direction.
fn control(
    controller: &mut Option<AnyController>,
    view: &PortView,
    packet: &mut Packet,
    block: &mut Option<Rc<ExtBlock>>,
) {
    let Some(controller) = controller else { return };
    while controller.next_timeout().is_some_and(|at| at <= view.now) {
        controller.handle_timeout(view);
    }
    let mut ext = ExtArena::default();
    packet.ext = block.as_ref().map(|block| ext.alloc(**block));
    if packet.is_to_sender() {
        controller.handle_reverse(packet, view.port);
    } else {
        controller.handle_forward(packet, view, &mut ext);
    }
    *block = packet.ext.take().map(|id| Rc::new(*ext.get(id)));
}
