//! The event loop: runs the flows of one transport over one UDP socket.

use crate::clock::Clock;
use crate::nic::{NextSend, Nic};
use crate::timers::{Alarm, Timers};
use punctual_core::rng::Stream;
use punctual_core::{
    ByteRange, Bytes, Call, Class, Duration, End, ExtArena, FlowEvent, FlowId, FlowRoute, FlowSpec,
    HostId, Instant, NicInfo, Outbox, Packet, Rate, Stack, TimerChange, Transport, TransportId,
};
use punctual_wire::{Codec, Data, Datagram, RecentNumbers, WireError, WireName, emit, parse};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};

/// Datagrams, timers or packets handled before the loop moves on.
const BATCH: usize = 32;

/// The only host of this stack.
const HERE: HostId = HostId(0);

/// The user of the flows. Data is read and written by range, as packets leave and arrive.
pub trait Application {
    /// Whether to accept a flow that a peer has started.
    fn accept(&mut self, offer: &Offer) -> bool;

    /// Fills `into` with bytes of a flow that this host sends.
    fn read(&mut self, flow: FlowId, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Stores bytes of a flow that this host receives: each byte once, in any order. The driver
    /// sends their acknowledgement afterwards, and only if this succeeds.
    fn write(&mut self, flow: FlowId, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Handles an event of a flow.
    fn handle_event(&mut self, flow: FlowId, now: Instant, event: FlowEvent);
}

/// A flow that a peer wants to send to this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The id that the flow will have.
    pub flow: FlowId,
    /// The sender.
    pub peer: SocketAddr,
    /// Its size; [`Bytes::ENDLESS`] if it has none.
    pub size: Bytes,
    /// When its first packet arrived.
    pub at: Instant,
}

/// Parameters of a [`Driver`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverOptions {
    /// Rate at which packets leave, including headers and framing.
    pub rate: Rate,
    /// Largest IP packet.
    pub mtu: Bytes,
    /// Bytes that the link adds to each packet: 38 on Ethernet.
    pub framing: Bytes,
    /// How long after its last packet a completed flow answers late packets.
    pub time_wait: Duration,
    /// How long an incoming flow may bring nothing new before it is abandoned.
    pub stall_max: Duration,
    /// Most flows open at once. Further flows from peers are refused.
    pub flows_max: usize,
    /// Seed of flow numbers and of the transport's random choices.
    pub seed: u64,
}

/// Why a [`Driver`] stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The socket failed.
    #[error("socket failed: {0}")]
    Socket(#[source] io::Error),
    /// [`Application::read`] failed.
    #[error("cannot read the data to send: {0}")]
    Read(#[source] io::Error),
    /// [`Application::write`] failed.
    #[error("cannot write the received data: {0}")]
    Write(#[source] io::Error),
}

/// Counts of datagrams.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received and accepted.
    pub received: u64,
    /// Datagrams dropped, by the name of the reason. `interface_full` counts packets that were
    /// not sent because the NIC's queue was full.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Errors that the socket reported, each for a datagram that was not sent or not received: the
    /// peer is unreachable, a firewall forbids it, the kernel has no buffer.
    pub socket_errors: u64,
}

/// Identifies a flow on the wire. Several peers may choose the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct WireFlow {
    peer: SocketAddr,
    number: u32,
    sent_from_here: bool,
}

impl WireFlow {
    /// The end of the flow that this host runs.
    fn end(&self) -> End {
        if self.sent_from_here { End::Sender } else { End::Receiver }
    }
}

#[derive(Debug)]
struct Flow {
    name: WireFlow,
    slot: u32,
    near: RecentNumbers,
    size: Bytes,
    /// Bytes in each packet but the last, once a packet has shown it.
    segment_bytes: Option<u64>,
    /// Whether it is in the NIC's queue of ready senders.
    is_ready: bool,
    heard_at: Instant,
    /// The incarnation of the peer's process, once a packet has shown it.
    peer_incarnation: Option<u16>,
    /// When new data last arrived, at a receiver.
    progress_at: Instant,
    /// Whether every byte has arrived, at a receiver.
    is_complete: bool,
}

/// Drives the [`Stack`] of one host, as the contract of [`punctual_core::Endpoint`] requires.
pub struct Driver<T: Transport, C: Codec> {
    stack: Stack<T>,
    codec: C,
    socket: UdpSocket,
    options: DriverOptions,
    clock: Clock,
    now: Instant,
    random: Stream,
    /// Differs from that of earlier drivers at this address, most probably.
    incarnation: u16,
    flows: HashMap<FlowId, Flow>,
    names: HashMap<WireFlow, FlowId>,
    /// Peers with open flows.
    peers: HashMap<SocketAddr, HostId>,
    last_peer: u32,
    next_flow: u32,
    timers: Timers,
    nic: Nic,
    ext: ExtArena,
    out: Outbox,
    traffic: Traffic,
    last_error: Option<io::Error>,
    /// The datagram being sent; kept while the socket blocks.
    outgoing: Vec<u8>,
    blocked: Option<SocketAddr>,
    incoming: Vec<u8>,
    /// Whether a flow was opened, completed or closed since the last wait.
    flows_changed: bool,
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
        let nic = NicInfo { host: HERE, rate, mtu, framing, nics: 1 };
        let mut random = Stream::named(options.seed, "host", 0);
        Ok(Driver {
            stack: Stack::new(transport, &[nic]),
            codec,
            socket,
            options,
            clock: Clock::start(),
            now: Instant::ZERO,
            incarnation: random.bits() as u16,
            random,
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
            last_error: None,
            outgoing: Vec::new(),
            blocked: None,
            incoming: vec![0; 1 << 16],
            flows_changed: false,
        })
    }

    /// The current time on the clock that transports and events see.
    pub fn now(&mut self) -> Instant {
        // Monotonic already; `max` keeps the contract whatever the platform does.
        self.now = self.now.max(self.clock.now());
        self.now
    }

    /// Counts of datagrams so far.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Takes the last error that the socket reported for a single datagram.
    pub fn take_last_error(&mut self) -> Option<io::Error> {
        self.last_error.take()
    }

    /// Whether all packets that are due have left.
    pub fn is_idle(&self) -> bool {
        self.blocked.is_none() && self.nic.next_at().is_none()
    }

    /// When the last packet of this flow arrived or, before the first, when the flow was opened.
    /// `None` if the flow is closed.
    pub fn heard_at(&self, flow: FlowId) -> Option<Instant> {
        self.flows.get(&flow).map(|f| f.heard_at)
    }

    /// Whether the flow is open or in its time-wait.
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
            let name = WireFlow { peer, number, sent_from_here: true };
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

    /// Runs one round of the event loop: receives datagrams, fires timers and sends packets. Then
    /// it waits for more work, at most until `until`. It does not wait if a flow was opened or
    /// ended.
    pub fn turn<A: Application>(&mut self, app: &mut A, until: Instant) -> Result<(), DriverError> {
        let more = self.receive(app)?;
        self.fire(app)?;
        self.transmit(app)?;
        if core::mem::take(&mut self.flows_changed) || more {
            return Ok(());
        }
        let mut wake = until;
        if let Some(at) = self.timers.next_at() {
            wake = wake.min(at);
        }
        let is_blocked = self.blocked.is_some();
        if let (false, Some(at)) = (is_blocked, self.nic.next_at()) {
            wake = wake.min(at);
        }
        self.clock.wait(&self.socket, is_blocked, wake).map_err(DriverError::Socket)
    }

    /// Receives a batch of datagrams. Returns whether there may be more.
    fn receive<A: Application>(&mut self, app: &mut A) -> Result<bool, DriverError> {
        let mut incoming = core::mem::take(&mut self.incoming);
        let mut count = 0;
        let mut result = Ok(());
        while count < BATCH && result.is_ok() {
            match self.socket.recv_from(&mut incoming) {
                Ok((len, peer)) => result = self.handle_datagram(&incoming[..len], peer, app),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if is_fatal(&e) => result = Err(DriverError::Socket(e)),
                Err(e) => self.note_error(e),
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

    /// Parses a datagram and finds or opens its flow. The error is the name of the reason to drop
    /// it.
    fn accept<'a, A: Application>(
        &mut self,
        bytes: &'a [u8],
        peer: SocketAddr,
        app: &mut A,
    ) -> Result<(Packet, &'a [u8]), &'static str> {
        let name_of = |error: WireError| error.name();
        let datagram = Datagram::parse(bytes).map_err(name_of)?;
        let to_sender = datagram.envelope.flags.has(punctual_core::PacketFlags::TO_SENDER);
        let name =
            WireFlow { peer, number: datagram.envelope.name.flow, sent_from_here: to_sender };
        let now = self.now();
        let known = self.names.get(&name).copied();
        let near = match known.and_then(|flow| self.flows.get(&flow)) {
            Some(flow) => RecentNumbers { now, ..flow.near },
            None if to_sender || !datagram.envelope.is_syn => return Err("no_such_flow"),
            None => RecentNumbers { now, ..RecentNumbers::default() },
        };
        let id = known.unwrap_or(FlowId(self.next_flow));
        let packet = parse(&self.codec, &datagram, &near, id, HERE).map_err(name_of)?;
        let data = self.codec.data(&packet);
        if known.is_none() {
            self.open_receiver(name, &packet, data, app)?;
        }
        if let (Some(flow), Some(data)) = (self.flows.get_mut(&id), data) {
            // A flow has one size. Another size means a corrupt or malicious sender.
            if data.flow_bytes.is_some_and(|size| size != flow.size.get()) {
                return Err("flow_size");
            }
            // Packets of a flow have one segment size; otherwise their bytes would overlap.
            if let Some(segment) = data.segment_bytes
                && *flow.segment_bytes.get_or_insert(segment) != segment
            {
                return Err("segment_size");
            }
        }
        if let Some(flow) = self.flows.get_mut(&id) {
            // A process that restarted at the peer's address does not know this flow.
            let incarnation = datagram.envelope.name.incarnation;
            if *flow.peer_incarnation.get_or_insert(incarnation) != incarnation {
                return Err("other_incarnation");
            }
            self.codec.observe(&packet, &mut flow.near);
            flow.heard_at = now;
        }
        Ok((packet, datagram.payload))
    }

    fn open_receiver<A: Application>(
        &mut self,
        name: WireFlow,
        first: &Packet,
        data: Option<Data>,
        app: &mut A,
    ) -> Result<(), &'static str> {
        let Some(data) = data else { return Err("no_such_flow") };
        if self.flows.len() >= self.options.flows_max {
            return Err("too_many_flows");
        }
        // The application has to know the size of what it accepts.
        let size = data.flow_bytes.map(Bytes::new).ok_or("no_flow_size")?;
        let offer = Offer { flow: first.flow, peer: name.peer, size, at: self.now };
        if !app.accept(&offer) {
            return Err("refused");
        }
        let (flow, route) = self.register(name, size);
        let call = Call { now: self.now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        let slot = self.stack.open_receiver(first, &route, call);
        self.set_slot(flow, slot);
        let at = self.now.saturating_add(self.options.stall_max);
        self.timers.apply(Alarm::Forget(flow), TimerChange::Set(at));
        Ok(())
    }

    /// Adds a flow to the tables.
    fn register(&mut self, name: WireFlow, size: Bytes) -> (FlowId, FlowRoute) {
        let flow = FlowId(self.next_flow);
        // Ids are not reused within 2³² flows.
        self.next_flow = self.next_flow.wrapping_add(1);
        self.flows_changed = true;
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
                near: RecentNumbers::default(),
                size,
                segment_bytes: None,
                is_ready: false,
                heard_at: now,
                peer_incarnation: None,
                progress_at: now,
                is_complete: false,
            },
        );
        let seed = self.random.bits();
        (flow, FlowRoute { local: HERE, peer, paths: 1, ecmp_path: 0, nics: 1, seed })
    }

    fn set_slot(&mut self, flow: FlowId, slot: u32) {
        if let Some(flow) = self.flows.get_mut(&flow) {
            flow.slot = slot;
        }
    }

    /// Passes a packet to its endpoint.
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
                    let at = match flow.is_complete {
                        true => flow.heard_at.saturating_add(self.options.time_wait),
                        // Packets that bring nothing new do not keep a flow open.
                        false => flow.progress_at.saturating_add(self.options.stall_max),
                    };
                    if at > now {
                        self.timers.apply(alarm, TimerChange::Set(at));
                        continue;
                    }
                    let is_complete = flow.is_complete;
                    self.close(id);
                    if !is_complete {
                        app.handle_event(id, now, FlowEvent::Abandoned);
                    }
                }
            }
        }
        Ok(())
    }

    /// Empties the outbox. `arrived` is the data of the packet just handled.
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
        self.out.ready_nics = 0; // There is one NIC.
        let mut events = core::mem::take(&mut self.out.events);
        let mut ended = false;
        let mut result = Ok(());
        if let Some(id) = flow {
            self.timers.apply(Alarm::Flow(id), timer);
            if let (Some(class), Some(flow)) = (ready, self.flows.get_mut(&id))
                && !core::mem::replace(&mut flow.is_ready, true)
            {
                self.nic.push_ready(id, class);
            }
            for event in events.drain(..) {
                match event {
                    FlowEvent::Delivered(range) => {
                        if let Some(flow) = self.flows.get_mut(&id) {
                            flow.progress_at = self.now;
                        }
                        result = write(id, range, arrived, app);
                    }
                    FlowEvent::Completed => self.start_time_wait(id),
                    FlowEvent::Finished | FlowEvent::Abandoned => ended = true,
                    _ => {}
                }
                if result.is_err() {
                    // Bytes that are not stored must not be acknowledged.
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
        self.flows_changed = true;
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.is_complete = true;
        }
        let at = self.now.saturating_add(self.options.time_wait);
        self.timers.apply(Alarm::Forget(id), TimerChange::Set(at));
    }

    /// Closes a flow and removes its state.
    pub fn close(&mut self, id: FlowId) {
        let Some(flow) = self.flows.remove(&id) else { return };
        self.flows_changed = true;
        self.names.remove(&flow.name);
        if !self.flows.values().any(|f| f.name.peer == flow.name.peer) {
            self.peers.remove(&flow.name.peer);
        }
        self.timers.apply(Alarm::Flow(id), TimerChange::Clear);
        self.timers.apply(Alarm::Forget(id), TimerChange::Clear);
        self.stack.close(flow.name.end(), flow.slot, HERE);
    }

    /// Sends packets as fast as the pacer allows.
    fn transmit<A: Application>(&mut self, app: &mut A) -> Result<(), DriverError> {
        let mut count = 0;
        if let Some(peer) = self.blocked.take() {
            self.put(peer)?;
        }
        while count < BATCH && self.blocked.is_none() {
            let now = self.now();
            let packet = match self.nic.pop(now) {
                None => break,
                Some(NextSend::Packet(packet)) => Some(packet),
                Some(NextSend::Poll(flow)) => self.poll(flow, app)?,
            };
            count += 1;
            if let Some(packet) = packet {
                self.send(&packet, app)?;
            }
        }
        Ok(())
    }

    fn poll<A: Application>(
        &mut self,
        id: FlowId,
        app: &mut A,
    ) -> Result<Option<Packet>, DriverError> {
        let Some(flow) = self.flows.get_mut(&id) else { return Ok(None) };
        flow.is_ready = false;
        let slot = flow.slot;
        let call = Call { now: self.now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        let packet = self.stack.poll_transmit(slot, 0, call);
        self.drain(Some(id), None, app)?;
        Ok(packet)
    }

    fn send<A: Application>(&mut self, packet: &Packet, app: &mut A) -> Result<(), DriverError> {
        if let Some(ext) = packet.ext {
            // No wire format carries extensions; transports that use them have no codec.
            self.ext.free(ext);
        }
        let Some(flow) = self.flows.get_mut(&packet.flow) else { return Ok(()) };
        let data = self.codec.data(packet);
        let name = WireName { flow: flow.name.number, incarnation: self.incarnation };
        emit(&self.codec, name, packet, None, &mut self.outgoing, |payload| {
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

    /// Writes the outgoing datagram to the socket.
    fn put(&mut self, peer: SocketAddr) -> Result<(), DriverError> {
        match self.socket.send_to(&self.outgoing, peer) {
            Ok(_) => self.traffic.sent += 1,
            Err(e) if e.kind() == ErrorKind::WouldBlock => self.blocked = Some(peer),
            Err(e) if is_fatal(&e) => return Err(DriverError::Socket(e)),
            Err(e) => self.note_error(e),
        }
        Ok(())
    }

    /// Counts an error of a single datagram. It concerns one peer; other peers go on.
    fn note_error(&mut self, error: io::Error) {
        self.traffic.socket_errors += 1;
        self.last_error = Some(error);
    }
}

/// Passes newly received bytes of a packet to the application.
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
    // A transport may deliver only bytes of the packet that it was given.
    let Some(part) = part else {
        debug_assert!(false, "delivered {range:?}, which is not in the packet");
        let error = "the transport delivered bytes that are not in the packet";
        return Err(DriverError::Write(io::Error::other(error)));
    };
    app.write(flow, range.offset, part).map_err(DriverError::Write)
}

/// Whether an error shows that the socket itself is unusable. All others concern one datagram.
fn is_fatal(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(Errno::BADF | Errno::NOTSOCK | Errno::FAULT | Errno::OPNOTSUPP) | None
    )
}
