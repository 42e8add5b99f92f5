//! Observers of a run: what the engine reports ([`Observation`]), and who receives it ([`Tap`]).
//!
//! The engine makes one call for each thing that happens: [`Tap::observe`]. An observer that does
//! nothing costs nothing. The observers are the checker of invariants (`checks.rs`), the recorder
//! of the network playback (`recorder.rs`), the meter of packet latency (`latency.rs`), the packet
//! capture (`capture.rs`) and the tracer of critical paths (`explain/explainer.rs`).

use crate::shard::Shard;
use punctual_core::{
    Class, ControllerState, End, ExtBlock, FlowEvent, FlowId, FlowSpec, HostId, Instant, Packet,
    PacketId, PortId, Rate, TimerChange, TransportId, Wait,
};
use punctual_record::{CapturedPacket, Explanation, FlowRecord, NetworkTrace, PacketLatency};

/// An observer of a run.
pub(crate) trait Tap {
    /// Whether it wants [`Observation::PacketControlled`], which costs time.
    const WATCHES_CONTROLLERS: bool = false;
    /// Whether it wants [`Observation::QueueLength`], which costs time.
    const WATCHES_QUEUES: bool = false;
    /// Whether it wants [`Observation::HeaderExtended`], which costs time.
    const WATCHES_HEADERS: bool = false;
    /// Whether it wants [`Observation::EndWaits`] and the `tail` of [`PacketFate::Trimmed`], which
    /// cost time. The engine then asks [`Tap::follows`].
    const FOLLOWS: bool = false;

    /// The engine reports something.
    ///
    /// Implementations match the observations that they use. They are always inlined: each call of
    /// the engine names one observation, so that only the code for that one is left of the match.
    fn observe(&mut self, what: Observation<'_>);

    /// Whether it follows this flow: the engine then asks the flow's ends what they wait for.
    fn follows(&self, _flow: FlowId) -> bool {
        false
    }
    /// The engine's share of the network, if it simulates only a share (`shard.rs`).
    #[inline(always)]
    fn shard(&self) -> Option<&Shard> {
        None
    }
    /// See [`Tap::shard`].
    #[inline(always)]
    fn shard_mut(&mut self) -> Option<&mut Shard> {
        None
    }
    /// Whether no flow makes progress any more, so that the run can end.
    fn is_stuck(&self) -> bool {
        false
    }
    /// Takes over what the observer of another shard of the network has recorded. `is_theirs`: which
    /// ports are of that shard.
    fn adopt(&mut self, _other: Self, _is_theirs: &dyn Fn(PortId) -> bool)
    where
        Self: Sized,
    {
    }
    /// The run is over: the observer adds its results to `findings`.
    fn conclude(&mut self, _end: &Ending<'_>, _findings: &mut Findings) {}
}

/// What the engine reports to an observer.
///
/// The engine reports everything when it happens, except for packets that a port sends from its
/// queue: these it reports when the port is next touched, which may be after they were sent.
///
/// `id` is a packet's slot in the arena. It names the packet until it has arrived or was lost; then
/// the slot is free for another. Two packets exchange slots only when one is trimmed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Observation<'a> {
    /// The engine begins to handle an event of this instant.
    EventBegins { at: Instant },

    // Flows and their two ends
    /// A flow starts.
    FlowStarted { spec: &'a FlowSpec },
    /// A transport is about to be called. What hosts do until the next call belongs to this one.
    TransportCalled(CallReason),
    /// A call changed the timer of an end.
    TimerChanged { flow: FlowId, end: End, change: TimerChange },
    /// A call for this flow changed the timer of the host's shared state.
    HostTimerChangedFor { flow: FlowId },
    /// The timer of a host's shared state was set (`is_set`), was cleared or fires.
    HostTimerChanged { transport: TransportId, host: HostId, is_set: bool },
    /// A call made a sender wait for this NIC.
    SenderReady { flow: FlowId, nic: PortId },
    /// A call emitted an event of its flow.
    FlowEvent { flow: FlowId, event: FlowEvent },
    /// An end waits for `wait` after a call; `ahead` are the flows that a pausing port prefers.
    ///
    /// Reported of the flows that an observer follows ([`Tap::follows`]).
    EndWaits { flow: FlowId, end: End, wait: Wait, ahead: &'a [FlowId] },

    // Packets
    /// A host created a packet.
    PacketCreated { id: PacketId, packet: &'a Packet },
    /// A host created a packet with this header extension, or a port's controller changed it.
    ///
    /// Reported if an observer asks for it ([`Tap::WATCHES_HEADERS`]).
    HeaderExtended { id: PacketId, block: &'a ExtBlock },
    /// A port's controller handled a packet about to be queued there.
    ///
    /// Reported if an observer asks for it ([`Tap::WATCHES_CONTROLLERS`]).
    PacketControlled { port: PortId, before: &'a ControllerState, after: &'a ControllerState },
    /// A packet joined the queue of a port.
    PacketQueued { port: PortId, id: PacketId, packet: &'a Packet },
    /// The length of a port's queue after a packet joined it and the discipline has acted.
    ///
    /// Reported if an observer asks for it ([`Tap::WATCHES_QUEUES`]).
    QueueLength { port: PortId, bytes: u64, packets: u32 },
    /// A port sends a packet from `from` to `until`. `waited`: the packet came from the queue.
    PacketSent {
        port: PortId,
        id: PacketId,
        packet: &'a Packet,
        from: Instant,
        until: Instant,
        waited: bool,
    },
    /// Something other than queueing and sending happened to a packet at a port or on its link.
    PacketFate { port: PortId, id: PacketId, packet: &'a Packet, fate: PacketFate },
    /// A packet reached its host.
    PacketArrived { id: PacketId, packet: &'a Packet, at: Instant },

    // Pauses and links
    /// A port sends a frame that pauses or resumes a class at the far end.
    PauseSent { port: PortId, from: Instant, until: Instant, class: Class, is_pause: bool },
    /// A port pauses or resumes a class.
    ClassPaused { port: PortId, class: Class, is_pause: bool },
    /// A link changes its rate.
    RateChanged { port: PortId, rate: Rate },
    /// A link is cut or works again. When it is cut, the pauses at both of its ends end.
    LinkCut { port: PortId, is_cut: bool },
}

/// What happened to a packet at a port, besides queueing and sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketFate {
    /// The port ECN-marked it.
    Marked,
    /// The port trimmed it. Two packets may have exchanged slots: unless the packet is the one that
    /// was queued last under its `id`, that one is now in slot `tail`.
    ///
    /// `tail` is known if an observer follows flows ([`Tap::FOLLOWS`]).
    Trimmed { tail: Option<PacketId> },
    /// It leaves the port's queue to return to its sender.
    Bounced,
    /// It was lost. The port is where it waited, or whose link it was on.
    Lost(Loss),
}

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

/// Why a transport is called. Calls for a flow's start and for a packet that arrived are not among
/// these: [`Observation::FlowStarted`] and [`Observation::PacketArrived`] report them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallReason {
    /// The timer of one end of a flow fired.
    Timer(FlowId, End),
    /// This NIC asks the flow's sender for a packet.
    Polled(FlowId, PortId),
    /// A flow's deadline was changed.
    Deadline(FlowId),
    /// The timer of a host's shared state fired.
    HostTimer(HostId),
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

impl Tap for NoTap {
    #[inline(always)]
    fn observe(&mut self, _what: Observation<'_>) {}
}

// Any choice of observers is one type of optional observers and pairs. So the engine is compiled
// only four times: without an observer, with all of them optional, and for a share of a network
// without an observer and with those that shards may have, optional.

/// An optional observer.
impl<A: Tap> Tap for Option<A> {
    const WATCHES_CONTROLLERS: bool = A::WATCHES_CONTROLLERS;
    const WATCHES_QUEUES: bool = A::WATCHES_QUEUES;
    const WATCHES_HEADERS: bool = A::WATCHES_HEADERS;
    const FOLLOWS: bool = A::FOLLOWS;

    #[inline(always)]
    fn observe(&mut self, what: Observation<'_>) {
        if let Some(observer) = self {
            observer.observe(what);
        }
    }

    fn follows(&self, flow: FlowId) -> bool {
        self.as_ref().is_some_and(|observer| observer.follows(flow))
    }

    fn is_stuck(&self) -> bool {
        self.as_ref().is_some_and(Tap::is_stuck)
    }

    fn adopt(&mut self, other: Self, is_theirs: &dyn Fn(PortId) -> bool) {
        if let (Some(own), Some(other)) = (self, other) {
            own.adopt(other, is_theirs);
        }
    }

    fn conclude(&mut self, end: &Ending<'_>, findings: &mut Findings) {
        if let Some(observer) = self {
            observer.conclude(end, findings);
        }
    }
}

/// Two observers.
impl<A: Tap, B: Tap> Tap for (A, B) {
    const WATCHES_CONTROLLERS: bool = A::WATCHES_CONTROLLERS || B::WATCHES_CONTROLLERS;
    const WATCHES_QUEUES: bool = A::WATCHES_QUEUES || B::WATCHES_QUEUES;
    const WATCHES_HEADERS: bool = A::WATCHES_HEADERS || B::WATCHES_HEADERS;
    const FOLLOWS: bool = A::FOLLOWS || B::FOLLOWS;

    #[inline(always)]
    fn observe(&mut self, what: Observation<'_>) {
        self.0.observe(what);
        self.1.observe(what);
    }

    fn follows(&self, flow: FlowId) -> bool {
        self.0.follows(flow) || self.1.follows(flow)
    }

    fn is_stuck(&self) -> bool {
        self.0.is_stuck() || self.1.is_stuck()
    }

    fn adopt(&mut self, other: Self, is_theirs: &dyn Fn(PortId) -> bool) {
        self.0.adopt(other.0, is_theirs);
        self.1.adopt(other.1, is_theirs);
    }

    fn conclude(&mut self, end: &Ending<'_>, findings: &mut Findings) {
        self.0.conclude(end, findings);
        self.1.conclude(end, findings);
    }
}
