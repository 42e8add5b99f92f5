//! The event loop: runs the flows of one transport over one UDP socket.

mod events;
mod receive;
mod transmit;

use crate::clock::{Clock, WAKE_LATENESS};
use crate::nic::Nic;
use crate::seal::Seal;
use crate::sys::{BATCH, Outgoing, Received};
use crate::timers::{Alarm, Timers};
use punctual_core::rng::Stream;
use punctual_core::{
    ByteRange, Bytes, Call, Class, Duration, End, ExtArena, FlowEvent, FlowId, FlowRoute, FlowSpec,
    HostId, Instant, NicInfo, Outbox, Packet, Rate, Stack, TimerChange, Transport, TransportId,
};
use punctual_wire::{Codec, Datagram, RecentNumbers, WireName};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// The only host of this stack.
const HERE: HostId = HostId(0);

/// The user of the flows. Data is read and written by range, as packets leave and arrive.
pub trait Application {
    /// Whether to accept a flow that a peer has started.
    fn accept(&mut self, offer: &Offer) -> bool;

    /// Fills `into` with bytes of a flow that this host sends.
    fn read(&mut self, flow: FlowId, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Stores bytes of a flow that this host receives: each byte once, in any order. The driver
    /// sends their acknowledgement afterwards, and only if this succeeds. The error
    /// [`ConnectionAborted`](io::ErrorKind::ConnectionAborted) closes the flow, all others stop the
    /// driver.
    fn write(&mut self, flow: FlowId, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Handles an event of a flow.
    fn handle_event(&mut self, flow: FlowId, now: Instant, event: FlowEvent);

    /// Whether there is memory for these bytes of a flow that this host receives. If not, the driver
    /// keeps the packet unanswered, so that its sender waits, until the flow is resumed.
    fn has_room(&mut self, _flow: FlowId, _range: ByteRange) -> bool {
        true
    }

    /// Whether the answer to the last packet of this flow, which has just been completed, may wait:
    /// something else will tell the peer soon, and makes it unnecessary.
    fn delays_answer(&mut self, _flow: FlowId) -> bool {
        false
    }

    /// Handles a packet of the host stack (kinds 8 to 15).
    fn handle_control(&mut self, _peer: SocketAddr, _now: Instant, _datagram: &Datagram<'_>) {}

    /// Handles a packet of an unknown flow that cannot open one.
    fn handle_stray(&mut self, _peer: SocketAddr, _to_sender: bool, _name: WireName) {}

    /// Handles a packet of an open flow from another process than the earlier packets: the peer has
    /// restarted.
    fn handle_restart(&mut self, _flow: FlowId, _incarnation: u16) {}
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
    /// The number of the flow on the wire and the incarnation of the peer's process.
    pub name: WireName,
}

/// A flow to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowRequest {
    pub(crate) peer: SocketAddr,
    pub(crate) size: Bytes,
    pub(crate) deadline: Option<Instant>,
    pub(crate) class: Class,
    /// Its number on the wire; random when absent.
    pub(crate) number: Option<u32>,
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
    /// Bytes of datagrams that arrived and left.
    bytes_in: u64,
    bytes_out: u64,
    /// Packets for which the application has no room yet.
    parked: Vec<(Packet, Vec<u8>)>,
    /// The answer to its last packet, while it is delayed.
    delayed: Option<Packet>,
}

/// How long the answer to the last packet of a flow may be delayed.
const ANSWER_DELAY: Duration = Duration::from_micros(500);

/// A peer with open flows.
#[derive(Debug)]
struct PeerFlows {
    host: HostId,
    flows: u32,
}

/// Drives the [`Stack`] of one host, as the contract of [`punctual_core::Endpoint`] requires.
pub struct Driver<T: Transport, C: Codec> {
    stack: Stack<T>,
    codec: C,
    /// Absent once it is released.
    socket: Option<Arc<UdpSocket>>,
    options: DriverOptions,
    clock: Clock,
    now: Instant,
    random: Stream,
    /// Adds and verifies tags, in keyed mode.
    seal: Option<Seal>,
    /// Differs from that of earlier drivers at this address, most probably.
    incarnation: u16,
    flows: HashMap<FlowId, Flow>,
    names: HashMap<WireFlow, FlowId>,
    /// Peers with open flows.
    peers: HashMap<SocketAddr, PeerFlows>,
    last_peer: u32,
    next_flow: u32,
    timers: Timers,
    nic: Nic,
    ext: ExtArena,
    out: Outbox,
    traffic: Traffic,
    last_error: Option<io::Error>,
    /// Datagrams for the next system call, and buffers to use again.
    outgoing: Vec<Outgoing>,
    spare: Vec<Vec<u8>>,
    /// Whether the socket has no room.
    is_blocked: bool,
    incoming: Option<Received>,
    /// Whether a flow was opened, completed or closed since the last wait.
    flows_changed: bool,
    /// Flows whose last answer is delayed, or was when the timer for all of them was set.
    delayed: Vec<FlowId>,
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
            socket: Some(Arc::new(socket)),
            options,
            clock: Clock::start(),
            now: Instant::ZERO,
            incarnation: random.bits() as u16,
            random,
            seal: None,
            flows: HashMap::new(),
            names: HashMap::new(),
            peers: HashMap::new(),
            last_peer: 0,
            next_flow: 0,
            timers: Timers::default(),
            nic: Nic::new(rate, mtu, framing),
            ext: ExtArena::default(),
            out: Outbox::default(),
            traffic: Traffic::default(),
            last_error: None,
            outgoing: Vec::new(),
            spare: Vec::new(),
            is_blocked: false,
            incoming: Some(Received::new()),
            flows_changed: false,
            delayed: Vec::new(),
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
        self.outgoing.is_empty() && self.nic.next_at().is_none() && self.delayed.is_empty()
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
        let class = Class::DATA;
        self.open_flow(&FlowRequest { peer, size, deadline, class, number: None }, app)
    }

    /// Starts sending a flow.
    pub(crate) fn open_flow<A: Application>(
        &mut self,
        request: &FlowRequest,
        app: &mut A,
    ) -> Result<FlowId, DriverError> {
        let FlowRequest { peer, size, deadline, class, mut number } = *request;
        let name = loop {
            let number = number.take().unwrap_or_else(|| self.random.bits() as u32);
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
            class,
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
        let wake = self.step(app)?;
        let (false, Some(wake)) = (core::mem::take(&mut self.flows_changed), wake) else {
            return Ok(());
        };
        let wake = wake.min(until);
        match &self.socket {
            Some(socket) => {
                self.clock.wait(socket, self.is_blocked, wake).map_err(DriverError::Socket)
            }
            None => Ok(()),
        }
    }

    /// Runs one round of the event loop without waiting. Returns when the next one is due; `None` if
    /// at once.
    pub(crate) fn step<A: Application>(
        &mut self,
        app: &mut A,
    ) -> Result<Option<Instant>, DriverError> {
        // Timers first: those that are due by now come before the datagrams.
        self.fire(app)?;
        let more = self.receive(app)?;
        self.transmit(app)?;
        self.next_wake(more)
    }

    /// Sends what is due, without looking for datagrams. Returns when the next round is due.
    pub(crate) fn push<A: Application>(
        &mut self,
        app: &mut A,
    ) -> Result<Option<Instant>, DriverError> {
        self.transmit(app)?;
        self.next_wake(false)
    }

    fn next_wake(&mut self, more: bool) -> Result<Option<Instant>, DriverError> {
        if more {
            return Ok(None);
        }
        let mut wake = self.timers.next_wake(WAKE_LATENESS).unwrap_or(Instant::NEVER);
        if let (false, Some(at)) = (self.is_blocked, self.nic.next_at()) {
            wake = wake.min(at);
        }
        Ok(Some(wake))
    }

    /// The socket, and whether packets wait for room in it.
    pub(crate) fn socket(&self) -> (Option<Arc<UdpSocket>>, bool) {
        (self.socket.clone(), self.is_blocked)
    }

    /// Gives up the socket, so that its port is free.
    pub(crate) fn release_socket(&mut self) {
        self.socket = None;
    }

    /// The clock.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Sets the incarnation of this process and the key, before the first packet.
    pub(crate) fn identify(&mut self, incarnation: u16, key: Option<crate::Key>) {
        self.incarnation = incarnation;
        self.seal = key.map(Seal::new);
    }

    /// Notes that the peer of a flow is alive.
    pub(crate) fn note_heard(&mut self, flow: FlowId) {
        let now = self.now();
        if let Some(flow) = self.flows.get_mut(&flow) {
            flow.heard_at = now;
        }
    }

    /// Gives a sender a new deadline.
    pub(crate) fn set_deadline<A: Application>(
        &mut self,
        id: FlowId,
        deadline: Option<Instant>,
        app: &mut A,
    ) -> Result<(), DriverError> {
        let Some(flow) = self.flows.get(&id).filter(|f| f.name.sent_from_here) else {
            return Ok(());
        };
        let slot = flow.slot;
        let now = self.now();
        let call = Call { now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        self.stack.handle_deadline(slot, deadline, call);
        self.drain(Some(id), None, app)
    }

    /// Adds a flow to the tables.
    fn register(&mut self, name: WireFlow, size: Bytes) -> (FlowId, FlowRoute) {
        let flow = FlowId(self.next_flow);
        // Ids are not reused within 2³² flows.
        self.next_flow = self.next_flow.wrapping_add(1);
        self.flows_changed = true;
        let peer = self.peers.entry(name.peer).or_insert_with(|| {
            self.last_peer = self.last_peer.wrapping_add(1).max(1);
            PeerFlows { host: HostId(self.last_peer), flows: 0 }
        });
        peer.flows += 1;
        let peer = peer.host;
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
                bytes_in: 0,
                bytes_out: 0,
                parked: Vec::new(),
                delayed: None,
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

    fn fire<A: Application>(&mut self, app: &mut A) -> Result<(), DriverError> {
        let now = self.clock.now();
        let mut count = 0;
        while count < BATCH
            && let Some((at, alarm)) = self.timers.pop_due(now)
        {
            count += 1;
            // A wake-up is late by tens of microseconds. Timers see the time for which they were set,
            // so that pulls keep their rate, but not an older time than a short burst allows.
            self.now = self.now.max(at).max(self.nic.earliest(now));
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
                Alarm::Answers => {
                    for id in self.delayed.drain(..) {
                        if let Some(packet) = self.flows.get_mut(&id).and_then(|f| f.delayed.take())
                        {
                            self.nic.push(packet);
                        }
                    }
                }
                Alarm::Forget(id) => {
                    let Some(flow) = self.flows.get(&id) else { continue };
                    let at = match flow.is_complete {
                        true => flow.heard_at.saturating_add(self.options.time_wait),
                        // Packets that bring nothing new do not keep a flow open.
                        false if !flow.parked.is_empty() => {
                            now.saturating_add(self.options.stall_max)
                        }
                        false => flow.progress_at.saturating_add(self.options.stall_max),
                    };
                    if at > now {
                        self.timers.apply(alarm, TimerChange::Set(coarse(at)));
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
        self.now();
        Ok(())
    }

    /// Closes a flow and removes its state.
    pub fn close(&mut self, id: FlowId) {
        let Some(flow) = self.flows.remove(&id) else { return };
        self.flows_changed = true;
        self.names.remove(&flow.name);
        if let Some(peer) = self.peers.get_mut(&flow.name.peer) {
            peer.flows -= 1;
            if peer.flows == 0 {
                self.peers.remove(&flow.name.peer);
            }
        }
        self.timers.apply(Alarm::Flow(id), TimerChange::Clear);
        self.timers.apply(Alarm::Forget(id), TimerChange::Clear);
        self.stack.close(flow.name.end(), flow.slot, HERE);
    }
}

/// A time up to 4.3 ms later, such that many timers that need no precision fire together: a wake-up
/// for each ended flow would cost more than the flow.
fn coarse(at: Instant) -> Instant {
    Instant::from_picos(at.as_picos() | 0xffff_ffff)
}

/// Whether an error shows that the socket itself is unusable. All others concern one datagram.
fn is_fatal(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(Errno::BADF | Errno::NOTSOCK | Errno::FAULT | Errno::OPNOTSUPP) | None
    )
}
