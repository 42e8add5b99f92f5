//! What ports of the switch share: the virtual clock, the packets, and the events to come.

use punctual_core::{Instant, Packet, PacketArena, PacketId, PortId};
use punctual_net::{PortContext, Sent, Wire};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens at an instant. Of simultaneous events, arrivals come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// A frame that a host has sent enters the queue of its link.
    Enters(PacketId),
    /// A packet is at the end of its link.
    Arrives(PacketId),
    /// The timer of a controller: its index in the list of controllers.
    Timer(u32),
}

/// An event. Order is by time, then kind, then insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    at: Instant,
    number: u64,
    what: What,
}

impl Event {
    fn key(&self) -> (Instant, u8, u64) {
        let class = match self.what {
            What::Enters(_) => 0,
            What::Arrives(_) => 1,
            What::Timer(_) => 2,
        };
        (self.at, class, self.number)
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Events in order of time.
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<Event>>,
    pushed: u64,
}

impl Events {
    pub(crate) fn push(&mut self, at: Instant, what: What) {
        self.pushed += 1;
        self.heap.push(Reverse(Event { at, number: self.pushed, what }));
    }

    /// Removes the next event, if it is not after `until`.
    pub(crate) fn pop_until(&mut self, until: Instant) -> Option<(Instant, What)> {
        if self.heap.peek()?.0.at > until {
            return None;
        }
        self.heap.pop().map(|Reverse(event)| (event.at, event.what))
    }

    /// All events, in order.
    pub(crate) fn into_ordered(self) -> Vec<(Instant, What)> {
        let mut events = self.heap.into_vec();
        events.sort_by_key(|event| event.0.key());
        events.into_iter().map(|Reverse(event)| (event.at, event.what)).collect()
    }

    /// When the next event happens.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|event| event.0.at)
    }
}

/// The context of all ports of a switch.
#[derive(Debug)]
pub(crate) struct SwitchContext {
    /// The virtual clock.
    pub(crate) now: Instant,
    pub(crate) packets: PacketArena,
    pub(crate) events: Events,
}

impl PortContext for SwitchContext {
    type Wire<'a> = &'a mut Events;

    #[inline]
    fn now(&self) -> Instant {
        self.now
    }

    #[inline]
    fn packets(&mut self) -> &mut PacketArena {
        &mut self.packets
    }

    #[inline]
    fn split(&mut self) -> (&mut PacketArena, &mut Events) {
        (&mut self.packets, &mut self.events)
    }
}

impl Wire for &mut Events {
    #[inline]
    fn sends(&mut self, _packet: &mut Packet, sent: Sent) {
        self.push(sent.arrives_at, What::Arrives(sent.id));
    }
}

/// The port of a packet that is on a link.
pub(crate) fn link_of(packets: &PacketArena, id: PacketId) -> PortId {
    packets[id].port
}
