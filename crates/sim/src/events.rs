//! The event queue: a calendar of time buckets with a small sorted current bucket and a heap for
//! what lies beyond the calendar.
//!
//! Events are in total order: by time, then by class, then by a seeded hash of their source and
//! the time, then by target. No order of insertion enters, so the same events come out in the
//! same order whatever the width of the buckets; and the hash depends on the time, so that of
//! symmetric sources none wins every tie.

use punctual_core::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
    World = 3,
}

/// An event: 16 bytes, ordered as a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    time: u64,
    /// Class in 2 bits, hash in 30, target in 32.
    key: u64,
}

impl Event {
    #[inline]
    pub(crate) fn at(&self) -> Instant {
        Instant::from_picos(self.time)
    }

    #[inline]
    pub(crate) fn class(&self) -> EventClass {
        match self.key >> 62 {
            0 => EventClass::PortFree,
            1 => EventClass::Arrival,
            2 => EventClass::Timer,
            _ => EventClass::World,
        }
    }

    #[inline]
    pub(crate) fn target(&self) -> u32 {
        self.key as u32
    }

    #[inline]
    fn order(&self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.key)
    }
}

/// Buckets in the calendar: a power of two.
const BUCKETS: usize = 1 << 12;
/// The bucket width is looked at again after this many buckets opened.
const RETUNE_AFTER: u32 = 1 << 13;

#[derive(Debug)]
pub(crate) struct EventQueue {
    seed: u32,
    /// Log2 of the bucket width in picoseconds.
    width_log2: u32,
    buckets: Box<[Vec<Event>; BUCKETS]>,
    /// A bit for each bucket that holds something.
    occupied: [u64; BUCKETS / 64],
    /// Number of the bucket being emptied.
    current: u64,
    /// Its events, latest first.
    open: Vec<Event>,
    beyond: BinaryHeap<Reverse<Event>>,
    opened_buckets: u32,
    opened_events: u32,
    /// Pushed into the far half of the calendar, which narrower buckets would not reach.
    pushed_far: u32,
    pushed_beyond: u32,
}

impl EventQueue {
    pub(crate) fn new(seed: u64) -> Self {
        EventQueue {
            seed: (seed ^ seed >> 32) as u32 | 1,
            width_log2: 14,
            buckets: Box::new([const { Vec::new() }; BUCKETS]),
            occupied: [0; BUCKETS / 64],
            current: 0,
            open: Vec::new(),
            beyond: BinaryHeap::new(),
            opened_buckets: 0,
            opened_events: 0,
            pushed_far: 0,
            pushed_beyond: 0,
        }
    }

    /// Adds an event. `source` is what breaks ties: the port, timer or the like it comes from.
    #[inline]
    pub(crate) fn push(&mut self, at: Instant, class: EventClass, source: u32, target: u32) {
        let time = at.as_picos();
        let mixed = (source.wrapping_mul(0x9e37_79b1) ^ time as u32)
            .wrapping_mul(self.seed)
            .rotate_left(15)
            .wrapping_mul(0x85eb_ca6b);
        let key = (class as u64) << 62 | u64::from(mixed >> 2) << 32 | u64::from(target);
        self.insert(Event { time, key });
    }

    #[inline]
    fn insert(&mut self, event: Event) {
        let bucket = event.time >> self.width_log2;
        if bucket <= self.current {
            self.insert_open(event);
        } else if bucket - self.current < BUCKETS as u64 {
            self.pushed_far += u32::from(bucket - self.current >= BUCKETS as u64 / 2);
            let slot = bucket as usize % BUCKETS;
            self.buckets[slot].push(event);
            self.occupied[slot / 64] |= 1 << (slot % 64);
        } else {
            self.pushed_beyond += 1;
            self.beyond.push(Reverse(event));
        }
    }

    /// Puts an event in its place among those of the current bucket.
    fn insert_open(&mut self, event: Event) {
        let later = self.open.iter().rev().take_while(|e| e.order() < event.order()).count();
        self.open.insert(self.open.len() - later, event);
    }

    /// The event after the next, when it is already in order.
    #[inline]
    pub(crate) fn upcoming(&self, n: usize) -> Option<Event> {
        self.open.len().checked_sub(n).and_then(|i| self.open.get(i)).copied()
    }

    /// Takes the next event out.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        if self.open.is_empty() && !self.open_next() {
            return None;
        }
        self.open.pop()
    }

    /// Opens the next bucket that holds something.
    #[inline(never)]
    fn open_next(&mut self) -> bool {
        if self.opened_buckets >= RETUNE_AFTER {
            self.retune();
        }
        let in_ring = self.next_occupied();
        let in_heap = self.beyond.peek().map(|Reverse(e)| e.time >> self.width_log2);
        let Some(next) = in_ring.into_iter().chain(in_heap).min() else {
            return false;
        };
        self.current = next;
        let slot = next as usize % BUCKETS;
        if in_ring == Some(next) {
            std::mem::swap(&mut self.open, &mut self.buckets[slot]);
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
        while let Some(Reverse(event)) = self.beyond.peek()
            && event.time >> self.width_log2 <= next
        {
            self.open.push(*event);
            self.beyond.pop();
        }
        self.opened_buckets += 1;
        self.opened_events += self.open.len() as u32;
        if self.open.len() > 1 {
            self.open.sort_unstable_by_key(|e| Reverse(e.order()));
        }
        true
    }

    /// The number of the first occupied bucket after the current one.
    #[inline]
    fn next_occupied(&self) -> Option<u64> {
        let start = (self.current as usize + 1) % BUCKETS;
        let words = self.occupied.len();
        let mut word = start / 64;
        let mut bits = self.occupied[word] & (u64::MAX << (start % 64));
        for _ in 0..=words {
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                let distance = (slot + BUCKETS - start) % BUCKETS;
                return Some(self.current + 1 + distance as u64);
            }
            word = (word + 1) % words;
            bits = self.occupied[word];
        }
        None
    }

    /// Narrows buckets that hold many events, widens the calendar when much falls beyond it.
    /// The order of events does not depend on it.
    fn retune(&mut self) {
        let rare = self.opened_events / 50;
        let width = if self.pushed_beyond > rare {
            (self.width_log2 + 1).min(40)
        } else if self.opened_events > 16 * self.opened_buckets && self.pushed_far < rare {
            self.width_log2.saturating_sub(1)
        } else {
            self.width_log2
        };
        (self.opened_buckets, self.opened_events) = (0, 0);
        (self.pushed_far, self.pushed_beyond) = (0, 0);
        if width == self.width_log2 {
            return;
        }
        let mut events: Vec<Event> = self.beyond.drain().map(|Reverse(e)| e).collect();
        for bucket in self.buckets.iter_mut() {
            events.append(bucket);
        }
        self.occupied = [0; BUCKETS / 64];
        // Nothing is left in the current bucket, so its end is where the new one begins.
        self.current = ((self.current + 1) << self.width_log2 >> width).saturating_sub(1);
        self.width_log2 = width;
        for event in events {
            self.insert(event);
        }
        (self.pushed_far, self.pushed_beyond) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted list, with pushes between pops, over all scales of time.
        #[test]
        fn comes_out_in_order(
            ops in prop::collection::vec((0u8..4, 0u32..50, 0u32..45), 1..2000),
        ) {
            let mut queue = EventQueue::new(9);
            let mut model: Vec<Event> = Vec::new();
            let mut now = 0u64;
            for (op, source, scale) in ops {
                if op > 0 {
                    let at = now + (1u64 << scale).wrapping_mul(u64::from(source)) / 7;
                    queue.push(Instant::from_picos(at), EventClass::Timer, source, source);
                    let mut other = EventQueue::new(9);
                    other.push(Instant::from_picos(at), EventClass::Timer, source, source);
                    model.push(other.pop().unwrap());
                    model.sort();
                } else {
                    let event = queue.pop();
                    let expected = (!model.is_empty()).then(|| model.remove(0));
                    prop_assert_eq!(event, expected);
                    now = event.map_or(now, |e| e.time);
                }
            }
            while let Some(event) = queue.pop() {
                prop_assert_eq!(event, model.remove(0));
            }
            prop_assert!(model.is_empty());
        }
    }

    #[test]
    fn retuning_keeps_the_order() {
        let mut queue = EventQueue::new(1);
        for n in 0..200u32 {
            queue.push(Instant::from_picos(u64::from(n)), EventClass::Timer, n, n);
        }
        let (mut last, mut count) = (Instant::ZERO, 0u64);
        while let Some(event) = queue.pop() {
            assert!(event.at() >= last);
            last = event.at();
            count += 1;
            if count < 2_000_000 {
                // Dense at first, then sparse: both ways of retuning are taken.
                let step = if count < 1_000_000 { 3_000 } else { 900_000_000 };
                let at = Instant::from_picos(last.as_picos() + step + u64::from(event.target()));
                queue.push(at, EventClass::Timer, event.target(), event.target());
            }
        }
        assert_eq!(count, 2_000_000 + 199);
    }
}
