//! The event loop: runs the flows of some transports over UDP sockets.

mod closing;
mod errors;
mod events;
mod flow;
mod frames;
mod lanes;
mod path_messages;
mod paths;
mod pauses;
mod receive;
mod sockets;
mod timeouts;
mod transmit;

pub(crate) use errors::{Cause, PeerError};
pub(crate) use flow::FlowRequest;
pub use flow::Offer;
pub use lanes::WireSet;
pub use sockets::HostNic;
pub(crate) use sockets::{RECEIVE_WAIT_MAX, Receive, WaitSet};

use crate::clock::{Clock, WAKE_LATENESS};
use crate::nic::Nic;
use crate::packet_socket::PacketSocket;
use crate::seal::Seal;
use crate::sys::Received;
use crate::timers::{Alarm, Timers};
use ahash::HashMap;
use flow::{Flow, Life, PeerFlows, WireFlow};
use lanes::Lanes;
use paths::Paths;
use pauses::Pauses;
use punctual_core::rng::Stream;
use punctual_core::{
    ByteRange, Bytes, Call, Class, Duration, ExtArena, FlowEvent, FlowId, FlowRoute, FlowSpec,
    FlowStack as _, HostId, Instant, Outbox, Rate, TimerChange, TransportId,
};
use punctual_wire::{Datagram, RecentNumbers, VersionAnswer, WireName};
use sockets::{SendFailure, Sockets, Via};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};

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

    /// Whether the driver may keep a packet that finds no room and takes `bytes` of memory. The
    /// application counts them until [`unpark`](Application::unpark) or the end of the flow. If not,
    /// the packet is dropped, and its sender sends it again.
    fn park(&mut self, _flow: FlowId, _bytes: usize) -> bool {
        true
    }

    /// The driver keeps a packet of this size no longer.
    fn unpark(&mut self, _flow: FlowId, _bytes: usize) {}

    /// Whether packets of this flow wait because the application has not taken what has arrived. If
    /// not, they wait for the peer, and the flow expires when the peer sends nothing new.
    fn holds_up(&mut self, _flow: FlowId) -> bool {
        true
    }

    /// Whether the answer to the last packet of this flow, which has just been completed, may wait:
    /// something else will tell the peer soon, and makes it unnecessary.
    fn delays_answer(&mut self, _flow: FlowId) -> bool {
        false
    }

    /// Notes how late a timer of a transport fired, or a packet left that waited for its NIC.
    fn note_lateness(&mut self, _late: Duration) {}

    /// Handles a packet of the host stack (kinds 8 to 15).
    fn handle_control(&mut self, _peer: SocketAddr, _now: Instant, _datagram: &Datagram<'_>) {}

    /// Handles a packet of an unknown flow that cannot open one. `was_open`: it has data of a flow that
    /// was open here, according to its sender, because its transport opens flows without data.
    fn handle_stray(
        &mut self,
        _peer: SocketAddr,
        _to_sender: bool,
        _was_open: bool,
        _name: WireName,
    ) {
    }

    /// Handles the opening of a flow whose packets have other sizes than this host could receive: the
    /// peer has another MTU.
    fn handle_other_segments(&mut self, _peer: SocketAddr, _name: WireName) {}

    /// Handles a packet of an open flow from another process than the earlier packets: the peer has
    /// restarted.
    fn handle_restart(&mut self, _flow: FlowId, _incarnation: u16) {}
}

/// Parameters of a [`Driver`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverOptions {
    /// Rate at which packets leave, including headers and framing.
    pub rate: Rate,
    /// Largest IP packet.
    pub mtu: Bytes,
    /// Whether `mtu` is that of the transports' own headers, and links have room for the longer ones of
    /// the wire.
    pub has_headroom: bool,
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
    /// The MTU leaves a packet of this transport less room for data than peers accept.
    #[error("the MTU is {missing} too small for the headers of `{transport}`")]
    SmallMtu {
        /// The transport.
        transport: &'static str,
        /// What the MTU lacks.
        missing: Bytes,
    },
    /// A transport has no wire format.
    #[error("`{0}` has no wire format and runs only in simulations")]
    NoWireFormat(&'static str),
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
    /// Datagrams among `received` that came as frames which a switch had trimmed in hardware: see
    /// [`EndpointOptions::trims`](crate::EndpointOptions::trims).
    pub trimmed_frames: u64,
}

/// Flows of at least as many packets are spread over several paths: the first window of a shorter
/// one has left before they could be confirmed.
const SPREAD_PACKETS: u64 = 32;

/// How late the state of an ended flow may be removed.
const FORGET_SLACK: Duration = Duration::from_millis(50);

/// After more datagrams at once a thread does not wait for the next one alone.
const BURST_MIN: usize = 3;

/// How long the answer to the last packet of a flow may be delayed.
const ANSWER_DELAY: Duration = Duration::from_millis(1);
/// As many delayed answers leave before that time.
const ANSWERS_MAX: usize = 24;

/// Data packets that do not end their flow carry at least this much. The record of what has arrived
/// then takes less memory than the data, whatever a peer sends.
pub(crate) const SEGMENT_MIN: u64 = 128;

/// Drives the stacks of one host, as the contract of [`punctual_core::Endpoint`] requires.
pub struct Driver<S: WireSet> {
    lanes: Lanes<S>,
    sockets: Sockets,
    /// Sources and paths of peers.
    paths: Paths,
    options: DriverOptions,
    clock: Clock,
    now: Instant,
    /// What the clock read last. `now` may be behind it.
    read_at: Instant,
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
    /// Ends of flows, which no sleep is shortened for.
    forgets: Timers,
    /// The pacer and queues of each NIC.
    nics: Vec<Nic>,
    ext: ExtArena,
    out: Outbox,
    traffic: Traffic,
    last_error: Option<io::Error>,
    failures: Vec<SendFailure>,
    peer_errors: Vec<PeerError>,
    version_answers: errors::VersionAnswers,
    /// What peers of other versions answered to packets of no flow.
    versions_heard: Vec<(SocketAddr, VersionAnswer)>,
    /// When this process did not run although it was due.
    pauses: Pauses,
    /// Whether this process owns its core, and spins rather than sleep.
    spins: bool,
    incoming: Option<Received>,
    /// What a thread has received with [`Driver::take_receive`], until the next round handles it.
    arrived: Option<io::Result<usize>>,
    /// Datagrams since a thread last waited.
    burst: usize,
    /// Sockets for frames that switches trimmed in hardware.
    frames: Vec<PacketSocket>,
    /// Most messages to receive with the next system call: more when the last one was full. The
    /// kernel charges for each look at an empty queue.
    batch: usize,
    /// Looks at empty sockets, while it spins.
    empty_looks: u32,
    /// Whether a flow was opened, completed or closed since the last wait.
    flows_changed: bool,
    /// Open flows of transports that ports grant their rates.
    paced: usize,
    /// Flows whose last answer is delayed, or was when the timer for all of them was set.
    delayed: Vec<FlowId>,
}

impl<S: WireSet> Driver<S> {
    /// Drives `transports` over `socket`, which is made non-blocking.
    pub fn new(
        transports: &[S],
        socket: UdpSocket,
        options: DriverOptions,
    ) -> Result<Self, DriverError> {
        Driver::with_nics(transports, vec![(socket, None)], 1, options)
    }

    /// Drives `transports` over several NICs: one socket for each, with the name of the interface to
    /// which further sockets are bound, if any. Large flows are spread over `source_ports` ports of
    /// each NIC.
    pub fn with_nics(
        transports: &[S],
        sockets: Vec<(UdpSocket, Option<String>)>,
        source_ports: usize,
        options: DriverOptions,
    ) -> Result<Self, DriverError> {
        let sockets = Sockets::new(sockets, source_ports).map_err(DriverError::Socket)?;
        let DriverOptions { rate, mtu, framing, .. } = options;
        let count = sockets.nics();
        let nics: Vec<Nic> = (0..count).map(|_| Nic::new(rate, mtu, framing, count > 1)).collect();
        let mut random = Stream::named(options.seed, "host", 0);
        let port_ids = Stream::named(options.seed, "port ids", 0).bits();
        let lanes = Lanes::new(transports, &nics, &options, sockets.is_ipv4(), port_ids)?;
        Ok(Driver {
            paths: Paths::new(lanes.number()),
            lanes,
            sockets,
            options,
            clock: Clock::start(),
            now: Instant::ZERO,
            read_at: Instant::ZERO,
            incarnation: random.bits() as u16,
            random,
            seal: None,
            flows: HashMap::default(),
            names: HashMap::default(),
            peers: HashMap::default(),
            last_peer: 0,
            next_flow: 0,
            timers: Timers::default(),
            forgets: Timers::default(),
            nics,
            ext: ExtArena::default(),
            out: Outbox::default(),
            traffic: Traffic::default(),
            last_error: None,
            failures: Vec::new(),
            peer_errors: Vec::new(),
            version_answers: errors::VersionAnswers::default(),
            versions_heard: Vec::new(),
            pauses: Pauses::default(),
            spins: false,
            incoming: Some(Received::new()),
            arrived: None,
            burst: 0,
            frames: Vec::new(),
            batch: 1,
            empty_looks: 0,
            flows_changed: false,
            paced: 0,
            delayed: Vec::new(),
        })
    }

    /// The current time on the clock that transports and events see.
    pub fn now(&mut self) -> Instant {
        let mut now = self.clock.now();
        self.read_at = now;
        if self.paced > 0
            && let Some(due) = self.timers.next_at()
        {
            // Time does not pass a timer that is due: what it sends keeps its rate, although this
            // process was late.
            now = now.min(due.max(self.nics[0].earliest(now)));
        }
        self.now = self.now.max(now);
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
        !self.has_packets() && self.delayed.is_empty()
    }

    /// Whether packets wait for a NIC or a socket.
    pub(crate) fn has_packets(&self) -> bool {
        !self.sockets.is_empty() || self.nics.iter().any(|nic| nic.next_at().is_some())
    }

    /// The stacks of its transports.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = &S::Stack> {
        self.lanes.iter().map(|lane| &lane.stack)
    }

    /// Header extensions in use.
    #[cfg(test)]
    pub(crate) fn extensions(&self) -> usize {
        self.ext.len()
    }

    /// The codec of the transport at this place.
    #[cfg(test)]
    pub(crate) fn codec(&self, place: u8) -> &S::Codec {
        &self.lanes[place].codec
    }

    /// Memory of packets that wait for room.
    #[cfg(test)]
    pub(crate) fn parked_memory(&self) -> usize {
        let parked = self.flows.values().flat_map(|flow| &flow.parked);
        parked.map(|parked| flow::Parked::memory(&parked.payload)).sum()
    }

    /// Flows that are open or in their time-wait.
    pub(crate) fn open_flows(&self) -> usize {
        self.flows.len()
    }

    /// When the last packet of this flow arrived or, before the first, when the flow was opened.
    /// `None` if the flow is closed.
    pub fn heard_at(&self, flow: FlowId) -> Option<Instant> {
        self.flows.get(&flow).map(|f| f.heard_at)
    }

    /// Notes that this process was due at `from`, but ran only at `to`: it was stopped or had no
    /// processor.
    pub(crate) fn note_pause(&mut self, from: Instant, to: Instant) {
        self.pauses.note(from, to);
    }

    /// When a peer that was last heard at this time has been silent for `silence`. Pauses of this
    /// process do not count.
    pub(crate) fn silent_at(&self, heard_at: Instant, silence: Duration) -> Instant {
        self.pauses.silent_at(heard_at, silence)
    }

    /// Whether the flow is open or in its time-wait.
    pub fn is_open(&self, flow: FlowId) -> bool {
        self.flows.get(&flow).is_some_and(|flow| flow.life == Life::Open)
    }

    /// Starts sending a flow, over the first transport.
    pub fn open<A: Application>(
        &mut self,
        peer: SocketAddr,
        size: Bytes,
        deadline: Option<Instant>,
        app: &mut A,
    ) -> Result<FlowId, DriverError> {
        self.open_over(0, peer, size, deadline, app)
    }

    /// Starts sending a flow, over the transport at this place among those of the driver.
    pub fn open_over<A: Application>(
        &mut self,
        transport: u8,
        peer: SocketAddr,
        size: Bytes,
        deadline: Option<Instant>,
        app: &mut A,
    ) -> Result<FlowId, DriverError> {
        let class = Class::DATA;
        let request = FlowRequest { peer, size, deadline, class, number: None, transport };
        self.open_flow(&request, app)
    }

    /// Starts sending a flow.
    pub(crate) fn open_flow<A: Application>(
        &mut self,
        request: &FlowRequest,
        app: &mut A,
    ) -> Result<FlowId, DriverError> {
        let FlowRequest { peer, size, deadline, class, mut number, transport } = *request;
        debug_assert!(usize::from(transport) < self.lanes.len());
        let name = loop {
            let number = number.take().unwrap_or_else(|| self.random.bits() as u32);
            let name = WireFlow { peer, number, sent_from_here: true };
            if !self.names.contains_key(&name) {
                break name;
            }
        };
        let is_large = size.get() >= SPREAD_PACKETS.saturating_mul(self.options.mtu.get());
        let sprays = self.lanes[transport].sprays;
        let is_spread = is_large && sprays && self.sockets.paths() > 1;
        if is_spread {
            let now = self.now();
            self.paths.open(peer, &mut self.sockets, now);
            self.timers.apply(Alarm::Paths, TimerChange::Set(now));
        }
        let via = self.paths.single(peer, &self.sockets);
        let (flow, route) = self.register(name, transport, size, via, is_spread);
        let spec = FlowSpec {
            id: flow,
            src: HERE,
            dst: route.peer,
            size,
            start: self.now(),
            deadline,
            transport: TransportId(transport),
            class,
            background: false,
            pattern: 0,
        };
        let call = Call { now: self.now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        let slot = self.lanes[transport].stack.open_sender(&spec, &route, call);
        self.set_slot(flow, slot);
        self.drain(transport, Some(flow), None, app)?;
        if !self.delayed.is_empty() {
            // They leave together with the flow's first packet, which needs a system call anyway.
            self.queue_answers();
            self.timers.apply(Alarm::Answers, TimerChange::Clear);
        }
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
        if self.sockets.is_closed() {
            return Ok(());
        }
        self.clock.wait(&self.sockets.wait_set(), wake).map_err(DriverError::Socket)
    }

    /// Runs one round of the event loop without waiting. Returns when the next one is due; `None` if
    /// at once.
    pub(crate) fn step<A: Application>(
        &mut self,
        app: &mut A,
    ) -> Result<Option<Instant>, DriverError> {
        // Timers first: those that are due by now come before the datagrams.
        self.fire(app)?;
        let mut more = self.receive(app)?;
        if !self.frames.is_empty() {
            more |= self.receive_frames(app)?;
        }
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
        let mut precise = self.timers.next_at().unwrap_or(Instant::NEVER);
        for (at, nic) in self.nics.iter().enumerate() {
            if let Some(next_at) = nic.next_at()
                && !self.sockets.is_blocked(at)
            {
                wake = wake.min(next_at);
                precise = precise.min(next_at);
            }
        }
        if !self.spins && self.nics[0].allows_for(WAKE_LATENESS) {
            // What a late wake-up misses is made up for, so that there is no need to spin.
            wake = precise.saturating_add(WAKE_LATENESS);
        }
        // A sleep that ends after the kernel's next tick is cheaper: it sets no timer of the
        // processor, which costs microseconds on a virtual machine.
        let forget_at = self.forgets.next_at().map(|at| at.saturating_add(FORGET_SLACK));
        Ok(Some(wake.min(forget_at.unwrap_or(Instant::NEVER))))
    }

    /// The sockets to wait for.
    pub(crate) fn wait_set(&self) -> WaitSet {
        self.sockets.wait_set()
    }

    /// The socket and the buffers, for a thread that waits for a message and receives it without the
    /// driver. Until they are back, rounds receive nothing. `None` if it has to wait in another way.
    pub(crate) fn take_receive(&mut self) -> Option<Receive> {
        if core::mem::take(&mut self.burst) >= BURST_MIN {
            return None;
        }
        match self.sockets.receive_with(self.incoming.take()?) {
            Ok(receive) => Some(receive),
            Err(incoming) => {
                self.incoming = Some(incoming);
                None
            }
        }
    }

    /// Takes back what [`Driver::take_receive`] lent. The next round handles what has arrived.
    pub(crate) fn return_receive(&mut self, receive: Receive) {
        self.incoming = Some(receive.incoming);
        self.arrived = Some(receive.result);
    }

    /// Closes the sockets, so that their ports are free.
    pub(crate) fn close_sockets(&mut self) {
        self.sockets.close();
    }

    /// Addresses of peers beside their main ones.
    pub fn sources(&self) -> usize {
        self.paths.sources()
    }

    /// Paths to a peer that work now: 1 unless large flows to it are open.
    pub fn working_paths(&self, peer: SocketAddr) -> usize {
        self.paths.working(peer)
    }

    /// The clock.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Moves the clock forward, as if the process had not run for this time.
    #[cfg(test)]
    pub(crate) fn skip(&mut self, time: std::time::Duration) {
        self.clock.skip(time);
    }

    /// Whether to spin rather than sleep while it waits.
    pub(crate) fn set_spins(&mut self, spins: bool) {
        self.spins = spins;
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
    pub fn set_deadline<A: Application>(
        &mut self,
        id: FlowId,
        deadline: Option<Instant>,
        app: &mut A,
    ) -> Result<(), DriverError> {
        let Some(flow) = self.flows.get(&id).filter(|f| f.name.sent_from_here) else {
            return Ok(());
        };
        let (lane, slot) = (flow.lane, flow.slot);
        if flow.life != Life::Open {
            return Ok(());
        }
        let now = self.now();
        let call = Call { now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        self.lanes[lane].stack.handle_deadline(slot, deadline, call);
        self.drain(lane, Some(id), None, app)
    }

    /// Adds a flow to the tables.
    fn register(
        &mut self,
        name: WireFlow,
        lane: u8,
        size: Bytes,
        via: Via,
        is_spread: bool,
    ) -> (FlowId, FlowRoute) {
        let flow = FlowId(self.next_flow);
        // Ids are not reused within 2³² flows.
        self.next_flow = self.next_flow.wrapping_add(1);
        self.flows_changed = true;
        self.paced += usize::from(self.lanes[lane].has_ports());
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
                lane,
                slot: u32::MAX,
                near: RecentNumbers::default(),
                size,
                segment_bytes: None,
                ready_nics: 0,
                is_spread,
                returns: Vec::new(),
                via,
                heard_at: now,
                peer_incarnation: None,
                progress_at: now,
                is_complete: false,
                bytes_in: 0,
                bytes_out: 0,
                parked: Vec::new(),
                delayed: None,
                life: Life::Open,
            },
        );
        let seed = self.random.bits();
        let (paths, ecmp_path, nics) = match (name.sent_from_here, is_spread) {
            (true, true) => (self.sockets.paths() as u32, 0, self.sockets.nics() as u32),
            // Switches that obey path ids take a path of their network by it.
            (true, false) => (1, u32::from(seed as u16), 1),
            // Answers go back by the path of their data, whichever its sender chose.
            (false, _) => (1 << 16, 0, 1),
        };
        (flow, FlowRoute { local: HERE, peer, paths, ecmp_path, nics, seed })
    }

    fn set_slot(&mut self, flow: FlowId, slot: u32) {
        if let Some(flow) = self.flows.get_mut(&flow) {
            flow.slot = slot;
        }
    }
}
