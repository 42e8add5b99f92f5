//! What an explicit-rate protocol runs at output ports, beside the queue discipline.

use crate::{Bytes, ExtArena, FlowId, Instant, Packet, PortId, Rate};

/// An output port as a controller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortView {
    /// Which port.
    pub port: PortId,
    /// The time.
    pub now: Instant,
    /// Line rate.
    pub rate: Rate,
    /// What the link adds to each packet.
    pub framing: Bytes,
    /// Bytes waiting, without the packet in service and without framing.
    pub queue_bytes: u64,
    /// Packets waiting, without the one in service.
    pub queue_packets: u64,
    /// Bytes sent since the start, the packet in service and framing included.
    pub sent_bytes: u64,
}

impl PortView {
    /// Bytes that the waiting packets will take on the link, framing included.
    #[inline]
    pub fn queue_link_bytes(&self) -> u64 {
        self.queue_bytes + self.queue_packets * self.framing.get()
    }

    /// Bytes that have arrived since the start, whether sent or waiting, framing included.
    #[inline]
    pub fn arrived_bytes(&self) -> u64 {
        self.sent_bytes + self.queue_link_bytes()
    }
}

/// A controller's state and counters, for checks and reports. What it does not have is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ControllerState {
    /// Flows it counts or remembers.
    pub flows: u64,
    /// The total rate that it can grant.
    pub capacity: Rate,
    /// The sum of the flows' desired rates.
    pub demand: Rate,
    /// The sum of the granted rates.
    pub allocated: Rate,
    /// What it grants a new flow besides its desired rate, even where the fair share is less.
    pub share_min: Rate,
    /// Flows that it lets send, where it keeps a list of them.
    pub sending: Option<u64>,
    /// Requests of flows with a deadline that desired a rate, if it counts inversions.
    pub deadline_requests: u64,
    /// Those of them that were cut while a flow with a later deadline held a grant.
    pub inversions: u64,
}

/// Reads and rewrites headers of its own transport's packets at one output port.
///
/// The driver calls it for packets of that transport only, before they are queued. It shows packets
/// of the opposite direction to the port by which the flow's data leaves, so their path must be the
/// exact reverse. After every call but [`Controller::handle_reverse`] it reads
/// [`Controller::next_timeout`] again.
pub trait Controller {
    /// A packet is about to be queued here.
    fn handle_forward(&mut self, packet: &mut Packet, port: &PortView, ext: &mut ExtArena);

    /// Calls [`Controller::handle_forward`] and returns [`Controller::next_timeout`], or
    /// [`Instant::NEVER`]. Controllers that are an enum override it to dispatch once.
    #[inline(always)]
    fn forward(&mut self, packet: &mut Packet, port: &PortView, ext: &mut ExtArena) -> Instant {
        self.handle_forward(packet, port, ext);
        self.next_timeout().unwrap_or(Instant::NEVER)
    }

    /// Whether it reads packets of the opposite direction.
    fn reads_answers(&self) -> bool {
        false
    }

    /// A packet of the opposite direction passes the node of this port.
    ///
    /// Called only where [`Controller::reads_answers`]. It cannot change the timeout, which keeps
    /// answers cheap.
    fn handle_reverse(&mut self, _packet: &mut Packet, _port: PortId) {}

    /// The instant returned by [`Controller::next_timeout`] has come.
    fn handle_timeout(&mut self, _port: &PortView) {}

    /// When it wants to be called again.
    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// Reports its gauges for time series: calls `tell` with the name and value of each.
    ///
    /// A name ends in its unit. Called at sampling instants only.
    fn gauges(&self, _tell: &mut dyn FnMut(&'static str, f64)) {}

    /// Reports the flows that hold the rate that a flow paused here waits for. For observers only.
    fn flows_ahead(&self, _of: FlowId, _tell: &mut dyn FnMut(FlowId)) {}

    /// The switch restarted: all state is gone.
    fn reset(&mut self) {}

    /// Its current state.
    fn state(&self) -> ControllerState {
        ControllerState::default()
    }
}

/// The controller of transports that have none: it has no value.
#[derive(Debug, Clone, Copy)]
pub enum NoController {}

impl Controller for NoController {
    fn handle_forward(&mut self, _: &mut Packet, _: &PortView, _: &mut ExtArena) {
        match *self {}
    }
}
