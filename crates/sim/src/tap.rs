//! Where observers look in. A tap that does nothing costs nothing.

pub(crate) use punctual_core::End;
use punctual_core::{
    ByteRange, Class, ControllerState, FlowEvent, FlowId, FlowSpec, HostId, Instant, Packet,
    PacketId, PortId, Rate, TimerChange, TransportId, Wait,
};
use punctual_record::{Explanation, FlowRecord, NetworkTrace, PacketLatency};

/// Why a packet ended before it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// No room in a queue.
    Dropped,
    /// Lost on a link that was cut or lossy.
    OnLink,
    /// For a flow that has ended.
    Stray,
}

/// Why a transport is called, other than for a flow's start or for a packet that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    /// The timer of one end fired.
    Timer(FlowId, End),
    /// The NIC has time for a sender.
    Polled(FlowId),
    /// A flow's deadline was changed.
    Deadline(FlowId),
    /// The timer of what a host's flows share fired.
    HostTimer(HostId),
}

/// Told of everything that happens to packets. A packet's slot may be known by another number
/// after [`Tap::may_have_swapped`], and is free after [`Tap::lost`] and [`Tap::arrived`].
pub(crate) trait Tap {
    /// Whether it looks at controllers, which costs something.
    const WATCHES_CONTROLLERS: bool = false;
    /// Whether it follows what hosts do, which costs something.
    const FOLLOWS: bool = false;

    /// Whether it wants to know how long queues are, which costs something.
    const WATCHES_QUEUES: bool = false;

    /// Whether it follows this flow, so that its ends are to be asked what they wait for.
    fn follows(&self, _flow: FlowId) -> bool {
        false
    }
    /// Whether it is certain that no flow will make progress, so that the run can end.
    fn is_stuck(&self) -> bool {
        false
    }
    /// A transport is about to be called. What hosts do until the next call, they do in this one.
    fn called(&mut self, _why: Why) {}
    /// A call changed the timer of an end.
    fn timer_set(&mut self, _flow: FlowId, _end: End, _change: TimerChange) {}
    /// A call for this flow set the timer of what the host's flows share.
    fn host_timer_set(&mut self, _flow: FlowId) {}
    /// The timer of what a host's flows share was set or cleared, or fires.
    fn host_timer(&mut self, _transport: TransportId, _host: HostId, _is_set: bool) {}
    /// A call made a sender wait for its NIC.
    fn ready(&mut self, _flow: FlowId) {}
    /// A call told this of its flow.
    fn told(&mut self, _flow: FlowId, _event: &FlowEvent) {}
    /// What an end waits for after a call, and which flows the port that pauses it puts first.
    fn waits(&mut self, _flow: FlowId, _end: End, _wait: Wait, _ahead: &mut Vec<FlowId>) {}
    /// A packet is about to be told trimmed. If it is not the one that was queued under this number
    /// just now, that one has its slot, `tail`: the two exchanged theirs.
    fn may_have_swapped(&mut self, _id: PacketId, _packet: &Packet, _tail: PacketId) {}
    /// A port's controller has handled a packet about to be queued there.
    fn controlled(&mut self, _port: PortId, _before: &ControllerState, _after: &ControllerState) {}
    /// A flow starts.
    fn started(&mut self, _spec: &FlowSpec) {}
    /// A link runs at another rate from now on.
    fn rate_changed(&mut self, _port: PortId, _rate: Rate) {}
    /// A link is cut from now on, or works again. Pauses of its two ports end when it is cut.
    fn cut(&mut self, _port: PortId, _is_cut: bool) {}
    /// A host made a packet.
    fn made(&mut self, _id: PacketId, _packet: &Packet) {}
    /// A packet joined the queue of a port.
    fn queued(&mut self, _port: PortId, _id: PacketId, _packet: &Packet) {}
    /// So much waits at a port, now that a packet joined its queue and the discipline has done
    /// what it does.
    fn holds(&mut self, _port: PortId, _bytes: u64, _packets: u32) {}
    /// A port sends a packet until `until`. `waited` tells whether it came from the queue.
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
    /// A port sends a frame that pauses a class at the far end, or lets it go on.
    fn sends_pause(
        &mut self,
        _port: PortId,
        _from: Instant,
        _until: Instant,
        _class: Class,
        _is_pause: bool,
    ) {
    }
    /// A port is told to hold a class back, or to go on.
    fn paused(&mut self, _port: PortId, _class: Class, _is_pause: bool) {}
    /// A packet was ECN-marked at a port.
    fn marked(&mut self, _port: PortId, _packet: &Packet) {}
    /// A packet lost its payload at a port.
    fn trimmed(&mut self, _port: PortId, _id: PacketId, _packet: &Packet) {}
    /// A packet leaves a port's queue to go back to its sender.
    fn bounced(&mut self, _port: PortId, _id: PacketId, _packet: &Packet) {}
    /// A packet ended: at `port` when it was dropped, else anywhere.
    fn lost(&mut self, _port: PortId, _id: PacketId, _packet: &Packet, _why: Loss) {}
    /// A packet reached its host.
    fn arrived(&mut self, _id: PacketId, _packet: &Packet, _now: Instant) {}
    /// A receiver has new bytes.
    fn delivered(&mut self, _flow: FlowId, _range: ByteRange) {}
    /// A receiver says it has everything.
    fn completed(&mut self, _flow: FlowId) {}
    /// An event is handled.
    fn event(&mut self, _at: Instant) {}
    /// The run is over: adds what was found.
    fn conclude(&mut self, _end: &Ending<'_>, _findings: &mut Findings) {}
}

/// How things stand at the end of a run.
pub(crate) struct Ending<'a> {
    /// When it is over.
    pub(crate) at: Instant,
    /// Packets in each port's queue.
    pub(crate) waiting: Vec<u32>,
    /// Packets anywhere.
    pub(crate) alive: usize,
    /// Records of the flows that have started, by number.
    pub(crate) flows: &'a [FlowRecord],
}

/// What the observers of a run bring back.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Invariants that did not hold.
    pub(crate) violations: Vec<String>,
    /// What every port did in time.
    pub(crate) network: Option<NetworkTrace>,
    /// Latency of data packets, by transport.
    pub(crate) packet_latency: Vec<PacketLatency>,
    /// Where the time of followed flows went.
    pub(crate) explained: Vec<Explanation>,
}

/// Looks away.
#[derive(Debug, Default)]
pub(crate) struct NoTap;

impl Tap for NoTap {}

/// Tells an observer that may be absent, or two, so that any choice of them is one type and the
/// engine is compiled twice only: unwatched, and watched by whoever is wanted.
macro_rules! tell {
    ($($method:ident($($arg:ident: $type:ty),*);)*) => {
        impl<A: Tap> Tap for Option<A> {
            const WATCHES_CONTROLLERS: bool = A::WATCHES_CONTROLLERS;
            const WATCHES_QUEUES: bool = A::WATCHES_QUEUES;
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

tell! {
    called(why: Why);
    timer_set(flow: FlowId, end: End, change: TimerChange);
    host_timer_set(flow: FlowId);
    host_timer(transport: TransportId, host: HostId, is_set: bool);
    ready(flow: FlowId);
    told(flow: FlowId, event: &FlowEvent);
    waits(flow: FlowId, end: End, wait: Wait, ahead: &mut Vec<FlowId>);
    may_have_swapped(id: PacketId, packet: &Packet, tail: PacketId);
    controlled(port: PortId, before: &ControllerState, after: &ControllerState);
    started(spec: &FlowSpec);
    rate_changed(port: PortId, rate: Rate);
    cut(port: PortId, is_cut: bool);
    made(id: PacketId, packet: &Packet);
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
