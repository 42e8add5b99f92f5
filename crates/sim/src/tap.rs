//! Where observers look in. A tap that does nothing costs nothing.

use crate::trace::NetworkTrace;
use punctual_core::{
    ByteRange, Class, ControllerState, FlowId, FlowSpec, Instant, Packet, PortId, Rate,
};

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

/// Told of everything that happens to packets.
pub(crate) trait Tap {
    /// Whether it looks at controllers, which costs something.
    const WATCHES_CONTROLLERS: bool = false;

    /// Whether it wants to know how long queues are, which costs something.
    const WATCHES_QUEUES: bool = false;

    /// A port's controller has handled a packet about to be queued there.
    fn controlled(&mut self, _port: PortId, _before: &ControllerState, _after: &ControllerState) {}
    /// A flow starts.
    fn started(&mut self, _spec: &FlowSpec) {}
    /// A link runs at another rate from now on.
    fn rate_changed(&mut self, _port: PortId, _rate: Rate) {}
    /// A host made a packet.
    fn made(&mut self, _packet: &Packet) {}
    /// A packet joined the queue of a port.
    fn queued(&mut self, _port: PortId, _packet: &Packet) {}
    /// So much waits at a port, now that a packet joined its queue and the discipline has done
    /// what it does.
    fn waits(&mut self, _port: PortId, _bytes: u64, _packets: u32) {}
    /// A port sends a packet until `until`. `waited` tells whether it came from the queue.
    fn sends(
        &mut self,
        _port: PortId,
        _packet: &Packet,
        _from: Instant,
        _until: Instant,
        _waited: bool,
    ) {
    }
    /// A port sends a pause frame, of so many bytes on the link.
    fn sends_pause(&mut self, _port: PortId, _from: Instant, _until: Instant, _bytes: u64) {}
    /// A port is told to hold a class back, or to go on.
    fn paused(&mut self, _port: PortId, _class: Class, _is_pause: bool) {}
    /// A packet was ECN-marked at a port.
    fn marked(&mut self, _port: PortId, _packet: &Packet) {}
    /// A packet lost its payload at a port.
    fn trimmed(&mut self, _port: PortId, _packet: &Packet) {}
    /// A packet leaves a port's queue to go back to its sender.
    fn bounced(&mut self, _port: PortId, _packet: &Packet) {}
    /// A packet ended: at `port` when it was dropped, else anywhere.
    fn lost(&mut self, _port: PortId, _packet: &Packet, _why: Loss) {}
    /// A packet reached its host.
    fn arrived(&mut self, _packet: &Packet, _now: Instant) {}
    /// A receiver has new bytes.
    fn delivered(&mut self, _flow: FlowId, _range: ByteRange) {}
    /// A receiver says it has everything.
    fn completed(&mut self, _flow: FlowId) {}
    /// An event is handled.
    fn event(&mut self, _at: Instant) {}
    /// The run is over: adds what was found.
    fn conclude(&mut self, _end: &Ending, _findings: &mut Findings) {}
}

/// How things stand at the end of a run.
pub(crate) struct Ending {
    /// When it is.
    pub(crate) at: Instant,
    /// Packets in each port's queue.
    pub(crate) waiting: Vec<u32>,
    /// Packets anywhere.
    pub(crate) alive: usize,
}

/// What the observers of a run bring back.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Invariants that did not hold.
    pub(crate) violations: Vec<String>,
    /// What every port did in time.
    pub(crate) network: Option<NetworkTrace>,
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
            $(fn $method(&mut self, $($arg: $type),*) {
                if let Some(tap) = self {
                    tap.$method($($arg),*);
                }
            })*
        }

        impl<A: Tap, B: Tap> Tap for (A, B) {
            const WATCHES_CONTROLLERS: bool = A::WATCHES_CONTROLLERS || B::WATCHES_CONTROLLERS;
            const WATCHES_QUEUES: bool = A::WATCHES_QUEUES || B::WATCHES_QUEUES;
            $(fn $method(&mut self, $($arg: $type),*) {
                self.0.$method($($arg),*);
                self.1.$method($($arg),*);
            })*
        }
    };
}

tell! {
    controlled(port: PortId, before: &ControllerState, after: &ControllerState);
    started(spec: &FlowSpec);
    rate_changed(port: PortId, rate: Rate);
    made(packet: &Packet);
    queued(port: PortId, packet: &Packet);
    sends(port: PortId, packet: &Packet, from: Instant, until: Instant, waited: bool);
    waits(port: PortId, bytes: u64, packets: u32);
    sends_pause(port: PortId, from: Instant, until: Instant, bytes: u64);
    paused(port: PortId, class: Class, is_pause: bool);
    marked(port: PortId, packet: &Packet);
    trimmed(port: PortId, packet: &Packet);
    bounced(port: PortId, packet: &Packet);
    lost(port: PortId, packet: &Packet, why: Loss);
    arrived(packet: &Packet, now: Instant);
    delivered(flow: FlowId, range: ByteRange);
    completed(flow: FlowId);
    event(at: Instant);
    conclude(end: &Ending, findings: &mut Findings);
}
