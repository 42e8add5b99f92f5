//! The event loop: one host's flows of one transport over one UDP socket.

use crate::clock::Clock;
use crate::nic::{Nic, Turn};
use crate::timers::{Alarm, Timers};
use punctual_core::rng::Stream;
use punctual_core::{
    ByteRange, Bytes, Call, Class, Duration, End, ExtArena, FlowEvent, FlowId, FlowRoute, FlowSpec,
    HostId, Instant, NicInfo, Outbox, Packet, Rate, Stack, TimerChange, Transport, TransportId,
};
use punctual_wire::{Codec, Data, Datagram, Near, WireError, emit, parse};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};

/// Datagrams read before timers and sending have their turn.
const BATCH: usize = 32;

/// The one host of this stack.
const HERE: HostId = HostId(0);

/// What uses the flows. Data is read and written by range, as packets leave and arrive.
pub trait Application {
    /// Whether to open a flow that someone else has started.
    fn accept(&mut self, offer: &Offer) -> bool;

    /// Fills `into` with the bytes of a flow sent from here.
    fn read(&mut self, flow: FlowId, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Takes bytes of a flow received here: each once, in any order. Called before their
    /// acknowledgement leaves, which it does not when this fails.
    fn write(&mut self, flow: FlowId, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Something happened to a flow.
    fn handle_event(&mut self, flow: FlowId, now: Instant, event: FlowEvent);
}

/// A flow that someone wants to send here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// What it will be called here.
    pub flow: FlowId,
    /// Who sends it.
    pub peer: SocketAddr,
    /// Its size, [`Bytes::ENDLESS`] when it has none.
    pub size: Bytes,
    /// When its first packet arrived.
    pub at: Instant,
}

/// Parameters of a [`Driver`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverOptions {
    /// Rate at which packets leave, headers and framing included.
    pub rate: Rate,
    /// Largest IP packet.
    pub mtu: Bytes,
    /// Bytes that the link adds to each packet: 38 on Ethernet.
    pub framing: Bytes,
    /// How long a completed flow answers late packets after the last of them.
    pub time_wait: Duration,
    /// Flows open at once, beyond which new ones are refused.
    pub flows_max: usize,
    /// Where flow names and transports' random choices come from.
    pub seed: u64,
}

/// Why a [`Driver`] cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The socket failed.
    #[error("socket failed: {0}")]
    Socket(#[source] io::Error),
    /// The network takes no datagrams of this size.
    #[error("a datagram of {0} bytes is too big for the network; choose a smaller MTU")]
    TooBig(usize),
    /// [`Application::read`] failed.
    #[error("reading what to send failed: {0}")]
    Read(#[source] io::Error),
    /// [`Application::write`] failed.
    #[error("writing what arrived failed: {0}")]
    Write(#[source] io::Error),
}

/// Datagrams by what became of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Sent.
    pub sent: u64,
    /// Received and understood.
    pub received: u64,
    /// Received and dropped, by the reason's name. One is about what was to be sent:
    /// `interface_full`, when packets come in faster than answers may go out.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Not sent because the peer's host said that nobody listens there.
    pub unreachable: u64,
}

/// What tells flows apart: several peers may choose the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Name {
    peer: SocketAddr,
    number: u32,
    sent_from_here: bool,
}

impl Name {
    /// Which end of the flow is here.
    fn end(&self) -> End {
        if self.sent_from_here { End::Sender } else { End::Receiver }
    }
}

#[derive(Debug)]
struct Flow {
    name: Name,
    slot: u32,
    near: Near,
    size: Bytes,
    /// Bytes in each packet but the last, once one has told.
    segment_bytes: Option<u64>,
    /// In the interface's line of ready senders.
    ready: bool,
    heard_at: Instant,
}

/// Drives a [`Stack`] of one host as the contract of [`punctual_core::Endpoint`] demands.
pub struct Driver<T: Transport, C: Codec> {
    stack: Stack<T>,
    codec: C,
    socket: UdpSocket,
    options: DriverOptions,
    clock: Clock,
    now: Instant,
    random: Stream,
    flows: HashMap<FlowId, Flow>,
    names: HashMap<Name, FlowId>,
    /// Peers with flows open.
    peers: HashMap<SocketAddr, HostId>,
    last_peer: u32,
    next_flow: u32,
    timers: Timers,
    nic: Nic,
    ext: ExtArena,
    out: Outbox,
    traffic: Traffic,
    /// The datagram being sent; kept when the socket has no room.
    outgoing: Vec<u8>,
    blocked: Option<SocketAddr>,
    incoming: Vec<u8>,
    /// A flow was opened or has ended since the last wait.
    news: bool,
}

impl<T: Transport, C: Codec> Driver<T, C> {
    /// Drives `transport` over `socket`, which is made non-blocking.
    pub fn new(
        transport: T,
        codec: C,
        socket: UdpSocket,
        options: DriverOptions,
    ) -> Result<Self, DriverError> {
        socket.set_nonblocking(true).map_err(DriverError::Socket)?;
        let DriverOptions { rate, mtu, framing, .. } = options;
        let nic = NicInfo { host: HERE, rate, mtu, framing };
        Ok(Driver {
            stack: Stack::new(transport, &[nic]),
            codec,
            socket,
            options,
            clock: Clock::start(),
            now: Instant::ZERO,
            random: Stream::named(options.seed, "host", 0),
            flows: HashMap::new(),
            names: HashMap::new(),
            peers: HashMap::new(),
            last_peer: 0,
            next_flow: 0,
            timers: Timers::default(),
            nic: Nic::new(rate, framing),
            ext: ExtArena::default(),
            out: Outbox::default(),
            traffic: Traffic::default(),
            outgoing: Vec::new(),
            blocked: None,
            incoming: vec![0; 1 << 16],
            news: false,
        })
    }

    /// The time on the clock that transports and events see.
    pub fn now(&mut self) -> Instant {
        // Monotonic already; `max` keeps the contract whatever the platform does.
        self.now = self.now.max(self.clock.now());
        self.now
    }

    /// What became of datagrams so far.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// When a packet of this flow last arrived or, before that, when it was opened. Nothing for
    /// a flow that has ended.
    pub fn heard_at(&self, flow: FlowId) -> Option<Instant> {
        self.flows.get(&flow).map(|f| f.heard_at)
    }

    /// Whether the flow is still known: open, or in its time-wait.
    pub fn is_open(&self, flow: FlowId) -> bool {
        self.flows.contains_key(&flow)
    }

    /// Starts sending a flow.
    pub fn open<A: Application>(
        &mut self,
        peer: SocketAddr,
        size: Bytes,
        deadline: Option<Instant>,
        app: &mut A,
    ) -> Result<FlowId, DriverError> {
        let name = loop {
            let number = self.random.bits() as u32;
            let name = Name { peer, number, sent_from_here: true };
            if !self.names.contains_key(&name) {
                break name;
            }
        };
        let (flow, route) = self.register(name, size);
        let spec = FlowSpec {
            id: flow,
            src: HERE,
            dst: route.peer,
            size,
            start: self.now(),
            deadline,
            transport: TransportId(0),
            class: Class::DATA,
            background: false,
            pattern: 0,
        };
        let call = Call { now: self.now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        let slot = self.stack.open_sender(&spec, &route, call);
        self.set_slot(flow, slot);
        self.drain(Some(flow), None, app)?;
        Ok(flow)
    }

    /// One round: takes what has arrived, fires what is due, sends what may leave; then waits for
    /// more to do, at most until `until`. It does not wait after a flow was opened or ended.
    pub fn turn<A: Application>(&mut self, app: &mut A, until: Instant) -> Result<(), DriverError> {
        let more = self.receive(app)?;
        self.fire(app)?;
        self.transmit(app)?;
        if core::mem::take(&mut self.news) || more {
            return Ok(());
        }
        let mut wake = until;
        if let Some(at) = self.timers.next_at() {
            wake = wake.min(at);
        }
        let blocked = self.blocked.is_some();
        if let (false, Some(at)) = (blocked, self.nic.next_at()) {
            wake = wake.min(at);
        }
        self.clock.wait(&self.socket, blocked, wake).map_err(DriverError::Socket)
    }

    /// Takes in a batch of datagrams. True when there may be more.
    fn receive<A: Application>(&mut self, app: &mut A) -> Result<bool, DriverError> {
        let mut incoming = core::mem::take(&mut self.incoming);
        let mut count = 0;
        let mut result = Ok(());
        while count < BATCH && result.is_ok() {
            match self.socket.recv_from(&mut incoming) {
                Ok((len, peer)) => result = self.handle_datagram(&incoming[..len], peer, app),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if is_passing(&e) => self.traffic.unreachable += 1,
                Err(e) => result = Err(DriverError::Socket(e)),
            }
            count += 1;
        }
        self.incoming = incoming;
        result.map(|()| count == BATCH)
    }

    fn handle_datagram<A: Application>(
        &mut self,
        bytes: &[u8],
        peer: SocketAddr,
        app: &mut A,
    ) -> Result<(), DriverError> {
        match self.accept(bytes, peer, app) {
            Ok((packet, payload)) => {
                self.traffic.received += 1;
                self.deliver(&packet, payload, app)
            }
            Err(reason) => {
                *self.traffic.dropped.entry(reason).or_default() += 1;
                Ok(())
            }
        }
    }

    /// Makes a packet of a datagram and finds or opens its flow; the name of what is wrong
    /// otherwise.
    fn accept<'a, A: Application>(
        &mut self,
        bytes: &'a [u8],
        peer: SocketAddr,
        app: &mut A,
    ) -> Result<(Packet, &'a [u8]), &'static str> {
        let name_of = |error: WireError| error.name();
        let datagram = Datagram::parse(bytes).map_err(name_of)?;
        let to_sender = datagram.envelope.flags.has(punctual_core::PacketFlags::TO_SENDER);
        let name = Name { peer, number: datagram.envelope.flow, sent_from_here: to_sender };
        let now = self.now();
        let known = self.names.get(&name).copied();
        let near = match known.and_then(|flow| self.flows.get(&flow)) {
            Some(flow) => Near { now, ..flow.near },
            None if to_sender => return Err("no_such_flow"),
            None => Near { now, ..Near::default() },
        };
        let id = known.unwrap_or(FlowId(self.next_flow));
        let packet = parse(&self.codec, &datagram, &near, id, HERE).map_err(name_of)?;
        let data = self.codec.data(&packet);
        if known.is_none() {
            self.open_receiver(name, &packet, data, app)?;
        }
        if let (Some(flow), Some(data)) = (self.flows.get_mut(&id), data) {
            // One flow has one size; whoever says otherwise did not send its first packet.
            if data.flow_bytes != flow.size.get() {
                return Err("flow_size");
            }
            // Packets of one flow are of one size, or their bytes would overlap.
            if let Some(segment) = data.segment_bytes
                && *flow.segment_bytes.get_or_insert(segment) != segment
            {
                return Err("segment_size");
            }
        }
        if let Some(flow) = self.flows.get_mut(&id) {
            self.codec.observe(&packet, &mut flow.near);
            flow.heard_at = now;
        }
        Ok((packet, datagram.payload))
    }

    fn open_receiver<A: Application>(
        &mut self,
        name: Name,
        first: &Packet,
        data: Option<Data>,
        app: &mut A,
    ) -> Result<(), &'static str> {
        let Some(data) = data else { return Err("no_such_flow") };
        if self.flows.len() >= self.options.flows_max {
            return Err("too_many_flows");
        }
        let size = Bytes::new(data.flow_bytes);
        let offer = Offer { flow: first.flow, peer: name.peer, size, at: self.now };
        if !app.accept(&offer) {
            return Err("refused");
        }
        let (flow, route) = self.register(name, size);
        let call = Call { now: self.now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        let slot = self.stack.open_receiver(first, &route, call);
        self.set_slot(flow, slot);
        Ok(())
    }

    /// Enters a flow into the tables.
    fn register(&mut self, name: Name, size: Bytes) -> (FlowId, FlowRoute) {
        let flow = FlowId(self.next_flow);
        // Names of ended flows are not used again within 2³² flows.
        self.next_flow = self.next_flow.wrapping_add(1);
        self.news = true;
        let peer = *self.peers.entry(name.peer).or_insert_with(|| {
            self.last_peer = self.last_peer.wrapping_add(1).max(1);
            HostId(self.last_peer)
        });
        let now = self.now();
        self.names.insert(name, flow);
        self.flows.insert(
            flow,
            Flow {
                name,
                slot: u32::MAX,
                near: Near::default(),
                size,
                segment_bytes: None,
                ready: false,
                heard_at: now,
            },
        );
        let seed = self.random.bits();
        (flow, FlowRoute { local: HERE, peer, paths: 1, ecmp_path: 0, seed })
    }

    fn set_slot(&mut self, flow: FlowId, slot: u32) {
        if let Some(flow) = self.flows.get_mut(&flow) {
            flow.slot = slot;
        }
    }

    /// Hands a packet to the end it is for.
    fn deliver<A: Application>(
        &mut self,
        packet: &Packet,
        payload: &[u8],
        app: &mut A,
    ) -> Result<(), DriverError> {
        let Some(flow) = self.flows.get(&packet.flow) else { return Ok(()) };
        let (slot, end) = (flow.slot, flow.name.end());
        let call = Call { now: self.now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        self.stack.handle_packet(end, slot, packet, call);
        let arrived = self.codec.data(packet).map(|data| (data.range, payload));
        self.drain(Some(packet.flow), arrived, app)
    }

    fn fire<A: Application>(&mut self, app: &mut A) -> Result<(), DriverError> {
        let now = self.now();
        let mut count = 0;
        while count < BATCH
            && let Some(alarm) = self.timers.pop_due(now)
        {
            count += 1;
            let call = Call { now: self.now, host: HERE, ext: &mut self.ext, out: &mut self.out };
            match alarm {
                Alarm::Host => {
                    self.stack.host_timeout(call);
                    self.drain(None, None, app)?;
                }
                Alarm::Flow(id) => {
                    let Some(flow) = self.flows.get(&id) else { continue };
                    self.stack.handle_timeout(flow.name.end(), flow.slot, call);
                    self.drain(Some(id), None, app)?;
                }
                Alarm::Forget(id) => {
                    let Some(flow) = self.flows.get(&id) else { continue };
                    let at = flow.heard_at.saturating_add(self.options.time_wait);
                    if at > now {
                        self.timers.apply(alarm, TimerChange::Set(at));
                    } else {
                        self.close(id);
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes everything out of the outbox. `arrived` is the data in the packet just handled.
    fn drain<A: Application>(
        &mut self,
        flow: Option<FlowId>,
        arrived: Option<(ByteRange, &[u8])>,
        app: &mut A,
    ) -> Result<(), DriverError> {
        let host_timer = core::mem::take(&mut self.out.host_timer);
        self.timers.apply(Alarm::Host, host_timer);
        let timer = core::mem::take(&mut self.out.timer);
        let ready = self.out.ready.take();
        let mut events = core::mem::take(&mut self.out.events);
        let mut ended = false;
        let mut result = Ok(());
        if let Some(id) = flow {
            self.timers.apply(Alarm::Flow(id), timer);
            if let (Some(class), Some(flow)) = (ready, self.flows.get_mut(&id))
                && !core::mem::replace(&mut flow.ready, true)
            {
                self.nic.push_ready(id, class);
            }
            for event in events.drain(..) {
                match event {
                    FlowEvent::Delivered(range) => result = write(id, range, arrived, app),
                    FlowEvent::Completed => self.start_time_wait(id),
                    FlowEvent::Finished | FlowEvent::Abandoned => ended = true,
                    _ => {}
                }
                if result.is_err() {
                    // What could not be stored must not be acknowledged.
                    self.out.packets.clear();
                    break;
                }
                app.handle_event(id, self.now, event);
            }
        }
        events.clear();
        self.out.events = events;
        for packet in self.out.packets.drain(..) {
            if !self.nic.push(packet) {
                *self.traffic.dropped.entry("interface_full").or_default() += 1;
            }
        }
        if let (true, Some(id)) = (ended, flow) {
            self.close(id);
        }
        result
    }

    fn start_time_wait(&mut self, id: FlowId) {
        self.news = true;
        let at = self.now.saturating_add(self.options.time_wait);
        self.timers.apply(Alarm::Forget(id), TimerChange::Set(at));
    }

    /// Forgets a flow.
    pub fn close(&mut self, id: FlowId) {
        let Some(flow) = self.flows.remove(&id) else { return };
        self.news = true;
        self.names.remove(&flow.name);
        if !self.flows.values().any(|f| f.name.peer == flow.name.peer) {
            self.peers.remove(&flow.name.peer);
        }
        self.timers.apply(Alarm::Flow(id), TimerChange::Clear);
        self.timers.apply(Alarm::Forget(id), TimerChange::Clear);
        self.stack.close(flow.name.end(), flow.slot, HERE);
    }

    /// Sends what the interface has time for.
    fn transmit<A: Application>(&mut self, app: &mut A) -> Result<(), DriverError> {
        let mut count = 0;
        if let Some(peer) = self.blocked.take() {
            self.put(peer)?;
        }
        while count < BATCH && self.blocked.is_none() {
            let now = self.now();
            let packet = match self.nic.pop(now) {
                None => break,
                Some(Turn::Packet(packet)) => Some(packet),
                Some(Turn::Ask(flow)) => self.ask(flow, app)?,
            };
            count += 1;
            if let Some(packet) = packet {
                self.send(&packet, app)?;
            }
        }
        Ok(())
    }

    fn ask<A: Application>(
        &mut self,
        id: FlowId,
        app: &mut A,
    ) -> Result<Option<Packet>, DriverError> {
        let Some(flow) = self.flows.get_mut(&id) else { return Ok(None) };
        flow.ready = false;
        let slot = flow.slot;
        let call = Call { now: self.now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        let packet = self.stack.poll_transmit(slot, call);
        self.drain(Some(id), None, app)?;
        Ok(packet)
    }

    fn send<A: Application>(&mut self, packet: &Packet, app: &mut A) -> Result<(), DriverError> {
        if let Some(ext) = packet.ext {
            // No wire format has room for extensions: such transports have no codec.
            self.ext.free(ext);
        }
        let Some(flow) = self.flows.get_mut(&packet.flow) else { return Ok(()) };
        let data = self.codec.data(packet);
        emit(&self.codec, flow.name.number, packet, &mut self.outgoing, |payload| {
            app.read(packet.flow, data.map_or(0, |d| d.range.offset), payload)
        })
        .map_err(DriverError::Read)?;
        if data.is_some() {
            self.codec.observe(packet, &mut flow.near);
        }
        let peer = flow.name.peer;
        self.nic.sent(self.now, packet.wire_bytes);
        self.put(peer)
    }

    /// Gives the outgoing datagram to the socket.
    fn put(&mut self, peer: SocketAddr) -> Result<(), DriverError> {
        match self.socket.send_to(&self.outgoing, peer) {
            Ok(_) => self.traffic.sent += 1,
            Err(e) if e.kind() == ErrorKind::WouldBlock => self.blocked = Some(peer),
            Err(e) if is_passing(&e) => self.traffic.unreachable += 1,
            Err(e) if is_too_big(&e) => return Err(DriverError::TooBig(self.outgoing.len())),
            Err(e) => return Err(DriverError::Socket(e)),
        }
        Ok(())
    }
}

/// Hands the application the part of a packet's data that its flow has for the first time.
fn write<A: Application>(
    flow: FlowId,
    range: ByteRange,
    arrived: Option<(ByteRange, &[u8])>,
    app: &mut A,
) -> Result<(), DriverError> {
    let part = arrived.and_then(|(whole, payload)| {
        let start = usize::try_from(range.offset.checked_sub(whole.offset)?).ok()?;
        let len = usize::try_from(range.len).ok()?;
        payload.get(start..start.checked_add(len)?)
    });
    // A transport that delivers what is not in the packet it was given has no place on a wire.
    let Some(part) = part else {
        debug_assert!(false, "delivered {range:?}, which has just not arrived");
        return Err(DriverError::Write(io::Error::other("bytes delivered that did not arrive")));
    };
    app.write(flow, range.offset, part).map_err(DriverError::Write)
}

/// An error that speaks of a datagram sent earlier, or of a moment, rather than of the socket.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::Interrupted
    ) || rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::NOBUFS)
}

fn is_too_big(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::MSGSIZE)
}
