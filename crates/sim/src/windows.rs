//! Events in windows of time that are no longer than the shortest link.
//!
//! An arrival is announced when its transmission starts, hence at least one window ahead. So all
//! arrivals of a window are known when it begins: they are sorted once, and what they will touch
//! can be prefetched. Only timers and NICs may add an event to the open window.
//!
//! A port has no event for the moment at which it becomes free. One with waiting packets is served
//! at the end of the window in which that moment lies, if it has not been touched before: a packet
//! that starts in this window arrives in a later one.

use crate::calendar::Calendar;
use crate::events::{Event, EventClass, is_hop, target_of};
use crate::sorter::Sorter;
use punctual_core::{Duration, Instant, PortId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The number of windows kept, the open one included. Later events are in the calendar.
const KEPT: usize = 16;

/// How many events can be looked at before they are taken out.
pub(crate) const IN_SIGHT: usize = 20;

/// The longest window: the time of an event within it has 32 bits.
const LONGEST: Duration = Duration::from_millis(4);

/// An event of the open window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Upcoming {
    /// Time since the window began in 32 bits, class in 2, tie in 30.
    pub(crate) order: u64,
    pub(crate) target: u32,
}

impl Upcoming {
    /// An event that is none, behind the last event of a window.
    pub(crate) const NONE: Upcoming = Upcoming { order: u64::MAX, target: u32::MAX };

    #[inline(always)]
    fn of(event: Event, begins_at: u64) -> Self {
        Upcoming {
            order: (event.time - begins_at) << 32 | event.key >> 32,
            target: event.key as u32,
        }
    }

    #[inline]
    fn event(self, begins_at: u64) -> Event {
        Event {
            time: begins_at + (self.order >> 32),
            key: self.order << 32 | u64::from(self.target),
        }
    }

    #[inline]
    pub(crate) fn class(self) -> EventClass {
        EventClass::of(self.order << 32)
    }

    /// Whether it is an arrival at a node that forwards the packet.
    #[inline(always)]
    pub(crate) fn is_hop(self) -> bool {
        is_hop(self.target)
    }

    #[inline]
    pub(crate) fn target(self) -> u32 {
        target_of(self.target)
    }
}

/// The open window, those after it, and the ports to serve at the end of each.
#[derive(Debug)]
pub(crate) struct Windows {
    /// 2^64 divided by the length of a window in picoseconds, rounded up.
    per_pico: u64,
    /// The number of the open window; −1 before the first.
    open: u64,
    /// The first instant after the open window.
    ends_at: Instant,
    /// No event of the calendar is before this.
    far_from: u64,
    /// When the open window began.
    begins_at: u64,
    /// Events of the open window that were known when it began, in order, then [`IN_SIGHT`] times
    /// [`Upcoming::NONE`]. What follows is left from earlier windows.
    events: Vec<Upcoming>,
    /// How many of `events` are those of the open window.
    known: usize,
    /// The next of `events`.
    next: usize,
    /// Events of the open window that were added since it began, by their order, then target.
    added: BinaryHeap<Reverse<(u64, u32)>>,
    /// The order of the first of `added`; [`u64::MAX`] if there is none.
    first_added: u64,
    /// When the windows begin that are kept, by number modulo [`KEPT`].
    begins: [u64; KEPT],
    /// Events of later windows, by number modulo [`KEPT`].
    later: [Vec<Upcoming>; KEPT],
    /// Ports to serve at the end of a window, by number modulo [`KEPT`].
    served: [Vec<PortId>; KEPT],
    sorter: Sorter,
}

impl Windows {
    /// Windows of at most this length.
    pub(crate) fn new(length: Duration) -> Self {
        let picos = u128::from(length.min(LONGEST).as_picos().max(2));
        let per_pico = (1u128 << 64).div_ceil(picos) as u64;
        Windows {
            per_pico,
            open: u64::MAX,
            ends_at: Instant::ZERO,
            far_from: u64::MAX,
            begins_at: 0,
            events: vec![Upcoming::NONE; IN_SIGHT],
            known: 0,
            next: 0,
            added: BinaryHeap::new(),
            first_added: u64::MAX,
            begins: std::array::from_fn(|number| begin_of(number as u64, per_pico)),
            later: Default::default(),
            served: Default::default(),
            sorter: Sorter::default(),
        }
    }

    /// The number of the window of an instant. A window is no longer than asked for, because
    /// `per_pico` is rounded up.
    #[inline]
    fn number(&self, picos: u64) -> u64 {
        ((u128::from(picos) * u128::from(self.per_pico)) >> 64) as u64
    }

    /// The number of the window of an instant; [`u64::MAX`] for [`Instant::NEVER`].
    pub(crate) fn number_of(&self, at: Instant) -> u64 {
        if at == Instant::NEVER { u64::MAX } else { self.number(at.as_picos()) }
    }

    /// When the open window began.
    pub(crate) fn begins_at(&self) -> Instant {
        Instant::from_picos(self.begins_at)
    }

    /// The first instant after the open window.
    pub(crate) fn ends_at(&self) -> Instant {
        self.ends_at
    }

    /// Adds an event. Those beyond the windows that are kept go into the calendar.
    #[inline(always)]
    pub(crate) fn insert(&mut self, event: Event, calendar: &mut Calendar) {
        let number = self.number(event.time);
        if number.wrapping_sub(self.open).wrapping_sub(1) < KEPT as u64 - 1 {
            let place = number as usize % KEPT;
            self.later[place].push(Upcoming::of(event, self.begins[place]));
        } else {
            self.insert_elsewhere(event, number, calendar);
        }
    }

    /// Adds an event to the open window or to the calendar.
    #[inline(never)]
    fn insert_elsewhere(&mut self, event: Event, number: u64, calendar: &mut Calendar) {
        if number == self.open {
            let Upcoming { order, target } = Upcoming::of(event, self.begins_at);
            self.first_added = self.first_added.min(order);
            self.added.push(Reverse((order, target)));
        } else {
            self.far_from = self.far_from.min(event.time);
            calendar.insert(event);
        }
    }

    /// Takes out the next event of the open window.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let next = self.events[self.next];
        if next.order < self.first_added {
            self.next += 1;
            return Some(next.event(self.begins_at));
        }
        self.pop_added(next)
    }

    /// Takes out the next event of the open window if it is not surely the `next` of those that
    /// were known when the window began.
    #[inline(never)]
    fn pop_added(&mut self, next: Upcoming) -> Option<Event> {
        let &Reverse((order, target)) = self.added.peek()?;
        if (order, target) > (next.order, next.target) {
            self.next += 1;
            return Some(next.event(self.begins_at));
        }
        self.added.pop();
        self.first_added = self.added.peek().map_or(u64::MAX, |&Reverse((order, _))| order);
        Some(Upcoming { order, target }.event(self.begins_at))
    }

    /// The events after the last one taken out that were known when the window began, then some
    /// that are none.
    #[inline(always)]
    pub(crate) fn upcoming(&self) -> &[Upcoming; IN_SIGHT] {
        self.events[self.next..].first_chunk().unwrap_or(&[Upcoming::NONE; IN_SIGHT])
    }

    /// Opens the next window that has events or ports to serve, if there is one. The open one has
    /// no events left.
    pub(crate) fn open_next(&mut self, calendar: &mut Calendar) -> bool {
        let Some(number) = self.next_number() else { return false };
        self.open(number, calendar);
        true
    }

    /// The number of the next window that has events or ports to serve.
    pub(crate) fn next_number(&self) -> Option<u64> {
        let first = self.open.wrapping_add(1);
        let has_work = |number: &u64| {
            let place = *number as usize % KEPT;
            !self.later[place].is_empty() || !self.served[place].is_empty()
        };
        let kept = (first..).take(KEPT - 1).find(has_work);
        let far = (self.far_from != u64::MAX).then(|| self.number(self.far_from).max(first));
        kept.into_iter().chain(far).min()
    }

    /// Opens a window, not later than the next one that has events or ports to serve. The open one
    /// has no events left.
    pub(crate) fn open(&mut self, number: u64, calendar: &mut Calendar) {
        debug_assert!(
            self.events[self.next] == Upcoming::NONE && self.added.is_empty(),
            "events are left"
        );
        self.set_open(number);
        let known = &mut self.later[number as usize % KEPT];
        if self.far_from < self.ends_at.as_picos() {
            while let Some(event) = calendar.pop_before(self.ends_at) {
                known.push(Upcoming::of(event, self.begins_at));
            }
            self.far_from = calendar.no_event_before().unwrap_or(u64::MAX);
        }
        self.known = known.len();
        let behind = self.known + IN_SIGHT;
        if self.events.len() < behind {
            self.events.resize(behind, Upcoming::NONE);
        }
        let length = self.ends_at.as_picos() - self.begins_at;
        self.sorter.sort(known, &mut self.events[..self.known], length);
        self.events[self.known..behind].fill(Upcoming::NONE);
        known.clear();
        self.next = 0;
    }

    /// The order of an event within the open window: time, class and tie.
    #[inline]
    pub(crate) fn order(&self, event: &Event) -> u64 {
        Upcoming::of(*event, self.begins_at).order
    }

    /// The order of the next event of the open window, see [`Windows::order`].
    pub(crate) fn next_order(&self) -> Option<u64> {
        let order = self.events[self.next].order.min(self.first_added);
        (order != u64::MAX).then_some(order)
    }

    /// The events of the open window that were known when it began.
    pub(crate) fn known(&self) -> &[Upcoming] {
        &self.events[..self.known]
    }

    /// Makes a window the open one, and computes when the windows begin that are kept from now on.
    fn set_open(&mut self, number: u64) {
        let kept_before = self.open.wrapping_add(KEPT as u64).max(number);
        for kept in kept_before..number + KEPT as u64 {
            self.begins[kept as usize % KEPT] = begin_of(kept, self.per_pico);
        }
        self.open = number;
        self.begins_at = self.begins[number as usize % KEPT];
        self.ends_at = Instant::from_picos(self.begins[(number as usize + 1) % KEPT]);
    }

    /// Schedules that a port is served at the end of the window of `free_at`.
    #[inline]
    pub(crate) fn serve_after(&mut self, port: PortId, free_at: Instant) {
        let number = self.number(free_at.as_picos());
        // A port that is busy for longer is looked at before.
        let number = number.min(self.open.wrapping_add(KEPT as u64 - 1));
        self.served[number as usize % KEPT].push(port);
    }

    /// Takes out the ports to serve at the end of the open window.
    pub(crate) fn take_served(&mut self) -> Vec<PortId> {
        std::mem::take(&mut self.served[self.open as usize % KEPT])
    }

    /// Gives the memory of [`Windows::take_served`] back.
    pub(crate) fn put_served(&mut self, mut served: Vec<PortId>) {
        served.clear();
        self.served[self.open as usize % KEPT] = served;
    }
}

/// The first instant of a window in picoseconds.
fn begin_of(number: u64, per_pico: u64) -> u64 {
    let picos = (u128::from(number) << 64).div_ceil(u128::from(per_pico));
    u64::try_from(picos).unwrap_or(u64::MAX)
}
