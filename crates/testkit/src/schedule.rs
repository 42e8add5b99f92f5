//! The event queue.

use punctual_core::{End, Instant, Packet};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A scheduled event.
pub(crate) enum Event {
    Start {
        flow: usize,
    },
    PortFree {
        port: usize,
    },
    /// A packet reaches the far end of the link of `port`.
    Arrival {
        port: usize,
        packet: Packet,
    },
    Timer {
        flow: usize,
        end: End,
    },
    HostTimer {
        host: usize,
    },
    ControllerTimer {
        port: usize,
    },
}

struct Scheduled {
    at: Instant,
    order: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// The event queue, ordered by time. Events at equal times keep the order of their insertion.
#[derive(Default)]
pub(crate) struct Schedule {
    events: BinaryHeap<Reverse<Scheduled>>,
    added: u64,
}

impl Schedule {
    pub(crate) fn add(&mut self, at: Instant, event: Event) {
        let order = self.added;
        self.added += 1;
        self.events.push(Reverse(Scheduled { at, order, event }));
    }

    /// Removes the next event, unless it is after `limit`.
    pub(crate) fn next_until(&mut self, limit: Instant) -> Option<(Instant, Event)> {
        if self.events.peek()?.0.at > limit {
            return None;
        }
        let Reverse(Scheduled { at, event, .. }) = self.events.pop()?;
        Some((at, event))
    }
}
