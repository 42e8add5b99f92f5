//! Events and their order.
//!
//! Events are in total order: by time, then by class, then by the tie of their source. The order
//! does not depend on the order of insertion, nor on the numbers that packets and timers get. Ties
//! depend on the seed and on the time, so that no source wins every one, and sources that differ
//! have ties that differ. Events of one source, class and instant are in order of their targets.
//!
//! Small networks keep all events in a [`Calendar`]. Large ones advance in [`Windows`], which know
//! all arrivals of a window when it begins, and keep only events that are far away in the calendar.

use crate::calendar::Calendar;
use crate::windows::Windows;
use punctual_core::rng::mix;
use punctual_core::{Duration, Instant, PacketId, PortId};

/// Kinds of events, in the order in which those of one instant are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventClass {
    /// A NIC has sent a packet and may send the next. Target: its port.
    PortFree = 0,
    /// A packet has reached the end of its link. Target: the packet.
    Arrival = 1,
    /// A timer may have expired. Target: the timer.
    Timer = 2,
    /// Flows start, links change, samples are taken. Target: which of these.
    Scenario = 3,
}

impl EventClass {
    /// The class in the first two bits of a key.
    #[inline]
    pub(crate) fn of(key: u64) -> Self {
        match key >> 62 {
            0 => EventClass::PortFree,
            1 => EventClass::Arrival,
            2 => EventClass::Timer,
            _ => EventClass::Scenario,
        }
    }
}

/// Set in the key of every event but arrivals at nodes that forward the packet: most events are such
/// arrivals.
const AT_HOST: u32 = 1 << 31;

/// Whether an event with this in the last 32 bits of its key is an arrival at a node that forwards
/// the packet.
#[inline(always)]
pub(crate) fn is_hop(target: u32) -> bool {
    target & AT_HOST == 0
}

/// What an event with this in the last 32 bits of its key is about.
#[inline(always)]
pub(crate) fn target_of(target: u32) -> u32 {
    target & !AT_HOST
}

/// An event: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) time: u64,
    /// Class in 2 bits, tie in 30, [`AT_HOST`] in 1, target in 31.
    pub(crate) key: u64,
}

impl Event {
    #[inline]
    pub(crate) fn at(&self) -> Instant {
        Instant::from_picos(self.time)
    }

    #[inline]
    pub(crate) fn class(&self) -> EventClass {
        EventClass::of(self.key)
    }

    #[inline]
    pub(crate) fn target(&self) -> u32 {
        target_of(self.key as u32)
    }

    /// Whether it is an arrival at a node that forwards the packet.
    #[inline]
    pub(crate) fn is_hop(&self) -> bool {
        is_hop(self.key as u32)
    }

    /// What sorts events into their order.
    #[inline]
    pub(crate) fn order(&self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.key)
    }

    /// The event with this [`Event::order`].
    #[inline]
    pub(crate) fn of(order: u128) -> Event {
        Event { time: (order >> 64) as u64, key: order as u64 }
    }
}

/// All events to come.
#[derive(Debug)]
pub(crate) struct EventQueue {
    tie_seed: u64,
    calendar: Calendar,
    windows: Option<Windows>,
}

impl EventQueue {
    /// An empty queue. Without `window`, all events are in the calendar.
    pub(crate) fn new(seed: u64, window: Option<Duration>) -> Self {
        let windows = window.map(Windows::new);
        EventQueue { tie_seed: mix(seed), calendar: Calendar::default(), windows }
    }

    /// Adds an event. `source`, such as its port or timer, breaks ties. It is below 2^30.
    #[inline(never)]
    pub(crate) fn push(&mut self, at: Instant, class: EventClass, source: u32, target: u32) {
        debug_assert!(target < AT_HOST, "more than 2^31 packets, ports or timers");
        self.add(at, class, source, target | AT_HOST);
    }

    /// Adds the arrival of a packet from a port: at its own host, or at a node that forwards it.
    #[inline(always)]
    pub(crate) fn push_arrival(&mut self, at: Instant, from: PortId, id: PacketId, is_hop: bool) {
        debug_assert!(id.0 < AT_HOST, "more than 2^31 packets");
        let target = if is_hop { id.0 } else { id.0 | AT_HOST };
        self.add(at, EventClass::Arrival, from.0, target);
    }

    #[inline(always)]
    fn add(&mut self, at: Instant, class: EventClass, source: u32, target: u32) {
        let time = at.as_picos();
        let tie = tie(self.tie_seed, time, source);
        let key = (class as u64) << 62 | u64::from(tie) << 32 | u64::from(target);
        let event = Event { time, key };
        match &mut self.windows {
            Some(windows) => windows.insert(event, &mut self.calendar),
            None => self.calendar.insert(event),
        }
    }

    /// Takes the next event out. In windows: the next event of the open window.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        match &mut self.windows {
            None => self.calendar.pop(),
            Some(windows) => windows.pop(),
        }
    }

    /// Opens the next window that has events or ports to serve. False if no window is left, and
    /// without windows.
    pub(crate) fn open_window(&mut self) -> bool {
        self.windows.as_mut().is_some_and(|windows| windows.open_next(&mut self.calendar))
    }

    /// The number of the next window that has events or ports to serve.
    pub(crate) fn next_window(&self) -> Option<u64> {
        self.windows.as_ref().and_then(Windows::next_number)
    }

    /// Opens this window, see [`Windows::open`].
    pub(crate) fn open_window_number(&mut self, number: u64) {
        if let Some(windows) = &mut self.windows {
            windows.open(number, &mut self.calendar);
        }
    }

    /// Whether the network advances in windows.
    #[inline(always)]
    pub(crate) fn has_windows(&self) -> bool {
        self.windows.is_some()
    }

    /// The windows, in networks that advance in windows.
    #[inline]
    pub(crate) fn windows(&self) -> Option<&Windows> {
        self.windows.as_ref()
    }

    /// Schedules that a port sends its waiting packets by the end of the window of `free_at`.
    /// False without windows: there a port sends them when the packet in service arrives.
    #[inline]
    pub(crate) fn serve_after(&mut self, port: PortId, free_at: Instant) -> bool {
        match &mut self.windows {
            None => false,
            Some(windows) => {
                windows.serve_after(port, free_at);
                true
            }
        }
    }

    /// Takes out the ports to serve at the end of the open window.
    pub(crate) fn take_served(&mut self) -> Vec<PortId> {
        self.windows.as_mut().map(Windows::take_served).unwrap_or_default()
    }

    /// Gives the memory of [`EventQueue::take_served`] back.
    pub(crate) fn put_served(&mut self, served: Vec<PortId>) {
        if let Some(windows) = &mut self.windows {
            windows.put_served(served);
        }
    }
}

/// The bits of a source and of its tie.
const TIE_BITS: u32 = 30;

/// What orders the events of one instant and class: the source with the smallest goes first.
///
/// It is a permutation of the sources, which the time chooses. The first step mixes all 64 bits of
/// the time. Packets of one size on links of one rate collide at multiples of one time, and a weaker
/// mix of such times favours some sources over others.
#[inline]
fn tie(seed: u64, time: u64, source: u32) -> u32 {
    /// The second constant of wyhash: odd, with about as many ones as zeros.
    const SPREAD: u64 = 0xe703_7ed1_a0b4_28db;
    const BITS: u32 = (1 << TIE_BITS) - 1;
    debug_assert!(source <= BITS, "more than 2^30 sources");
    let key = folded_product(time ^ seed, SPREAD);
    // Each step can be undone.
    let mut tie = (source ^ key as u32) & BITS;
    tie = tie.wrapping_mul((key >> 32) as u32 | 1) & BITS;
    tie ^= tie >> (TIE_BITS / 2);
    tie = tie.wrapping_mul(SPREAD as u32) & BITS;
    tie ^ tie >> (TIE_BITS / 2)
}

/// The exclusive or of the two halves of a 128-bit product.
#[inline]
fn folded_product(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests;
