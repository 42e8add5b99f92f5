//! What the simulator does with packets that ports send: an event at the end of the link, and a
//! call of the observer.

use crate::events::{EventClass, EventQueue};
use crate::tap::Tap;
use punctual_core::{Instant, Packet, PacketArena, PacketId, PortId};
use punctual_net::{PortContext, Sent, Wire};

/// Simulation context shared by all ports: clock, packet arena, event queue, observer.
#[derive(Debug)]
pub(crate) struct SimContext<T> {
    pub(crate) now: Instant,
    pub(crate) packets: PacketArena,
    pub(crate) events: EventQueue,
    pub(crate) tap: T,
}

/// The parts of a [`SimContext`] that a transmission needs while its packet is borrowed.
pub(crate) struct Transmission<'a, T> {
    tap: &'a mut T,
    events: &'a mut EventQueue,
}

impl<T: Tap> PortContext for SimContext<T> {
    type Wire<'a>
        = Transmission<'a, T>
    where
        T: 'a;

    const WATCHES_QUEUES: bool = T::WATCHES_QUEUES;

    #[inline(always)]
    fn now(&self) -> Instant {
        self.now
    }

    #[inline(always)]
    fn packets(&mut self) -> &mut PacketArena {
        &mut self.packets
    }

    #[inline(always)]
    fn split(&mut self) -> (&mut PacketArena, Transmission<'_, T>) {
        (&mut self.packets, Transmission { tap: &mut self.tap, events: &mut self.events })
    }

    #[inline(always)]
    fn queued(&mut self, port: PortId, id: PacketId) {
        self.tap.queued(port, id, &self.packets[id]);
    }

    #[inline(always)]
    fn holds(&mut self, port: PortId, bytes: u64, packets: u32) {
        self.tap.holds(port, bytes, packets);
    }
}

impl<T: Tap> Wire for Transmission<'_, T> {
    #[inline(always)]
    fn sends(&mut self, packet: &Packet, sent: Sent) {
        let Sent { port, id, from, until, arrives_at, waited } = sent;
        self.tap.sends(port, id, packet, from, until, waited);
        self.events.push(arrives_at, EventClass::Arrival, port.0, id.0);
    }
}
