//! The interface between the engine and observers. An observer that does nothing costs nothing.

pub(crate) use punctual_core::End;
use punctual_core::{
    ByteRange, Class, ControllerState, ExtBlock, FlowEvent, FlowId, FlowSpec, HostId, Instant,
    Packet, PacketId, PortId, Rate, TimerChange, TransportId, Wait,
};
use punctual_record::{CapturedPacket, Explanation, FlowRecord, NetworkTrace, PacketLatency};

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// A queue had no room for it.
    Dropped,
    /// A link that was cut or lossy lost it.
    OnLink,
    /// Its flow has ended.
    Stray,
}

/// Why a transport is called, other than for a flow's start or for a packet that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    /// The timer of one end of a flow fired.
    Timer(FlowId, End),
    /// This NIC asks the flow's sender for a packet.
    Polled(FlowId, PortId),
    /// A flow's deadline was changed.
    Deadline(FlowId),
    /// The timer of a host's shared state fired.
    HostTimer(HostId),
}

/// An observer of a run: the engine calls it for every event of packets, flows and ports.
///
/// A packet may have another slot after [`Tap::may_have_swapped`]. Its slot is free after
/// [`Tap::lost`] and [`Tap::arrived`].
pub(crate) trait Tap {
    /// Whether it wants [`Tap::controlled`], which costs time.
    const WATCHES_CONTROLLERS: bool = false;
    /// Whether it wants [`Tap::waits`] and [`Tap::may_have_swapped`], which cost time.
    const FOLLOWS: bool = false;

    /// Whether it wants [`Tap::holds`], which costs time.
    const WATCHES_QUEUES: bool = false;
    /// Whether it wants [`Tap::extended`], which costs time.
    const WATCHES_HEADERS: bool = false;

    /// Whether it follows this flow: the engine then asks the flow's ends what they wait for.
    fn follows(&self, _flow: FlowId) -> bool {
        false
    }
    /// Whether no flow makes progress any more, so that the run can end.
    fn is_stuck(&self) -> bool {
        false
    }
    /// A transport is about to be called. What hosts do until the next call belongs to this one.
    fn called(&mut self, _why: Why) {}
    /// A call changed the timer of an end.
    fn timer_set(&mut self, _flow: FlowId, _end: End, _change: TimerChange) {}
    /// A call for this flow set the timer of the host's shared state.
    fn host_timer_set(&mut self, _flow: FlowId) {}
    /// The timer of a host's shared state was set (`is_set`), was cleared or fires.
    fn host_timer(&mut self, _transport: TransportId, _host: HostId, _is_set: bool) {}
    /// A call made a sender wait for this NIC.
    fn ready(&mut self, _flow: FlowId, _nic: PortId) {}
    /// A call emitted an event of its flow.
    fn flow_event(&mut self, _flow: FlowId, _event: &FlowEvent) {}
    /// An end waits for `wait` after a call; `ahead` are the flows that a pausing port prefers.
    fn waits(&mut self, _flow: FlowId, _end: End, _wait: Wait, _ahead: &mut Vec<FlowId>) {}
    /// Called before [`Tap::trimmed`]: two packets may have exchanged slots.
    ///
    /// If `packet` is not the one that was queued last as `id`, that one is now in slot `tail`.
    fn may_have_swapped(&mut self, _id: PacketId, _packet: &Packet, _tail: PacketId) {}
    /// A port's controller has handled a packet about to be queued there.
    fn controlled(&mut self, _port: PortId, _before: &ControllerState, _after: &ControllerState) {}
    /// A flow starts.
    fn started(&mut self, _spec: &FlowSpec) {}
    /// A link changes its rate.
    fn rate_changed(&mut self, _port: PortId, _rate: Rate) {}
    /// A link is cut or works again. When it is cut, the pauses at both of its ends end.
    fn cut(&mut self, _port: PortId, _is_cut: bool) {}
    /// A host created a packet.
    fn made(&mut self, _id: PacketId, _packet: &Packet) {}
    /// A host created a packet with this header extension, or a port's controller changed it.
    fn extended(&mut self, _id: PacketId, _block: &ExtBlock) {}
    /// A packet joined the queue of a port.
    fn queued(&mut self, _port: PortId, _id: PacketId, _packet: &Packet) {}
    /// The length of a port's queue after a packet joined it and the discipline has acted.
    fn holds(&mut self, _port: PortId, _bytes: u64, _packets: u32) {}
    /// A port sends a packet from `from` to `until`. `waited`: the packet came from the queue.
    fn sends(
        &mut self,
        _port: PortId,
        _id: PacketId,
        _packet: &Packet,
        _from: Instant,
        _until: Instant,
        _waited: bool,
    ) {
    }
    /// A port sends a frame that pauses or resumes a class at the far end.
    fn sends_pause(
        &mut self,
        _port: PortId,
        _from: Instant,
        _until: Instant,
        _class: Class,
        _is_pause: bool,
    ) {
    }
    /// A port pauses or resumes a class.
    fn paused(&mut self, _port: PortId, _class: Class, _is_pause: bool) {}
    /// A packet was ECN-marked at a port.
    fn marked(&mut self, _port: PortId, _packet: &Packet) {}
    /// A port trimmed a packet.
    fn trimmed(&mut self, _port: PortId, _id: PacketId, _packet: &Packet) {}
    /// A packet leaves a port's queue to return to its sender.
    fn bounced(&mut self, _port: PortId, _id: PacketId, _packet: &Packet) {}
    /// A packet was lost. `port` is where it waited, or whose link it was on.
    fn lost(&mut self, _port: PortId, _id: PacketId, _packet: &Packet, _why: Loss) {}
    /// A packet reached its host.
    fn arrived(&mut self, _id: PacketId, _packet: &Packet, _now: Instant) {}
    /// A receiver has new bytes.
    fn delivered(&mut self, _flow: FlowId, _range: ByteRange) {}
    /// A receiver has every byte of its flow.
    fn completed(&mut self, _flow: FlowId) {}
    /// The engine begins to handle an event.
    fn event(&mut self, _at: Instant) {}
    /// The run is over: the observer adds its results to `findings`.
    fn conclude(&mut self, _end: &Ending<'_>, _findings: &mut Findings) {}
}

/// The state of a run at its end.
pub(crate) struct Ending<'a> {
    /// When the run ended.
    pub(crate) at: Instant,
    /// Packets in each port's queue.
    pub(crate) waiting: Vec<u32>,
    /// Packets in the network.
    pub(crate) alive: usize,
    /// Records of the flows that have started, by number.
    pub(crate) flows: &'a [FlowRecord],
}

/// The results of a run's observers.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Violated invariants.
    pub(crate) violations: Vec<String>,
    /// The activity of every port over time.
    pub(crate) network: Option<NetworkTrace>,
    /// Latency of data packets, by transport.
    pub(crate) packet_latency: Vec<PacketLatency>,
    /// The first packets that links carried, by time.
    pub(crate) captured: Vec<CapturedPacket>,
    /// Where the time of followed flows went.
    pub(crate) explained: Vec<Explanation>,
}

/// An observer that does nothing.
#[derive(Debug, Default)]
pub(crate) struct NoTap;

impl Tap for NoTap {}

/// Implements [`Tap`] for optional observers and for pairs of observers.
///
/// Any choice of observers is then one type, and the engine is compiled only twice: without an
/// observer, and with all of them optional.
macro_rules! forward_to_observers {
    ($($method:ident($($arg:ident: $type:ty),*);)*) => {
        impl<A: Tap> Tap for Option<A> {
            const WATCHES_CONTROLLERS: bool = A::WATCHES_CONTROLLERS;
            const WATCHES_QUEUES: bool = A::WATCHES_QUEUES;
            const WATCHES_HEADERS: bool = A::WATCHES_HEADERS;
            const FOLLOWS: bool = A::FOLLOWS;
            fn follows(&self, flow: FlowId) -> bool {
                self.as_ref().is_some_and(|tap| tap.follows(flow))
            }
            fn is_stuck(&self) -> bool {
                self.as_ref().is_some_and(Tap::is_stuck)
            }
            $(fn $method(&mut self, $($arg: $type),*) {
                if let Some(tap) = self {
                    tap.$method($($arg),*);
                }
            })*
        }

        impl<A: Tap, B: Tap> Tap for (A, B) {
            const WATCHES_CONTROLLERS: bool = A::WATCHES_CONTROLLERS || B::WATCHES_CONTROLLERS;
            const WATCHES_QUEUES: bool = A::WATCHES_QUEUES || B::WATCHES_QUEUES;
            const WATCHES_HEADERS: bool = A::WATCHES_HEADERS || B::WATCHES_HEADERS;
            const FOLLOWS: bool = A::FOLLOWS || B::FOLLOWS;
            fn follows(&self, flow: FlowId) -> bool {
                self.0.follows(flow) || self.1.follows(flow)
            }
            fn is_stuck(&self) -> bool {
                self.0.is_stuck() || self.1.is_stuck()
            }
            $(fn $method(&mut self, $($arg: $type),*) {
                self.0.$method($($arg),*);
                self.1.$method($($arg),*);
            })*
        }
    };
}

forward_to_observers! {
    called(why: Why);
    timer_set(flow: FlowId, end: End, change: TimerChange);
    host_timer_set(flow: FlowId);
    host_timer(transport: TransportId, host: HostId, is_set: bool);
    ready(flow: FlowId, nic: PortId);
    flow_event(flow: FlowId, event: &FlowEvent);
    waits(flow: FlowId, end: End, wait: Wait, ahead: &mut Vec<FlowId>);
    may_have_swapped(id: PacketId, packet: &Packet, tail: PacketId);
    controlled(port: PortId, before: &ControllerState, after: &ControllerState);
    started(spec: &FlowSpec);
    rate_changed(port: PortId, rate: Rate);
    cut(port: PortId, is_cut: bool);
    made(id: PacketId, packet: &Packet);
    extended(id: PacketId, block: &ExtBlock);
    queued(port: PortId, id: PacketId, packet: &Packet);
    holds(port: PortId, bytes: u64, packets: u32);
    sends(
        port: PortId,
        id: PacketId,
        packet: &Packet,
        from: Instant,
        until: Instant,
        waited: bool
    );
    sends_pause(port: PortId, from: Instant, until: Instant, class: Class, is_pause: bool);
    paused(port: PortId, class: Class, is_pause: bool);
    marked(port: PortId, packet: &Packet);
    trimmed(port: PortId, id: PacketId, packet: &Packet);
    bounced(port: PortId, id: PacketId, packet: &Packet);
    lost(port: PortId, id: PacketId, packet: &Packet, why: Loss);
    arrived(id: PacketId, packet: &Packet, now: Instant);
    delivered(flow: FlowId, range: ByteRange);
    completed(flow: FlowId);
    event(at: Instant);
    conclude(end: &Ending<'_>, findings: &mut Findings);
}
