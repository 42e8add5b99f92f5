//! Where observers look in. A tap that does nothing costs nothing.

use punctual_core::{ByteRange, ControllerState, FlowId, FlowSpec, Instant, Packet, PortId, Rate};

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
    /// The run is over. Returns what was found wrong.
    fn conclude(&mut self, _end: &Ending) -> Vec<String> {
        Vec::new()
    }
}

/// How things stand at the end of a run.
pub(crate) struct Ending {
    /// Packets in each port's queue.
    pub(crate) waiting: Vec<u32>,
    /// Packets anywhere.
    pub(crate) alive: usize,
}

/// Looks away.
#[derive(Debug, Default)]
pub(crate) struct NoTap;

impl Tap for NoTap {}
