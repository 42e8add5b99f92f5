//! The event queue: a calendar of time buckets with a small sorted current bucket and a heap for
//! what lies beyond the calendar.
//!
//! Events are in total order: by time, then by class, then by a seeded hash of their source and
//! the time, then by target. No order of insertion enters, so the same events come out in the
//! same order whatever the width of the buckets; and the hash depends on the time, so that of
//! symmetric sources none wins every tie.

use punctual_core::{Instant, prefetch};
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

/// An event: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    time: u64,
    /// Class in 2 bits, hash in 30, target in 32.
    key: u64,
}

impl Event {
    const NONE: Event = Event { time: 0, key: 0 };

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

    #[inline]
    fn of(order: u128) -> Event {
        Event { time: (order >> 64) as u64, key: order as u64 }
    }
}

/// Buckets in the calendar: a power of two.
const BUCKETS: usize = 1 << 12;
/// The bucket width is looked at again after this many buckets opened.
const RETUNE_AFTER: u32 = 1 << 11;
/// Buckets are narrowed when they hold more than this on average.
const CROWDED: u32 = 4;
/// Up to so many events are put in order one by one.
const FEW: usize = 8;
/// So many events are in order ahead of time for those who look ahead.
const IN_SIGHT: usize = 4;
/// A bucket is opened ahead of time only if it is this near: what is pushed later and falls
/// among the open events takes long to put in its place.
const NEAR: u64 = 8;
/// No chunk.
const NIL: u32 = u32::MAX;

/// A piece of a bucket. Pieces are taken from and given back to one pool, last in first out: so
/// however many buckets there are, the memory in use is that of the events pending, and warm.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(128))]
struct Chunk {
    events: [Event; Chunk::EVENTS],
    len: u32,
    next: u32,
}

impl Chunk {
    const EVENTS: usize = 7;
}

#[derive(Debug)]
pub(crate) struct EventQueue {
    seed: u32,
    /// The next bucket is opened when fewer events than this are in order.
    in_sight: usize,
    /// Log2 of the bucket width in picoseconds.
    width_log2: u32,
    /// Number of the bucket being emptied.
    current: u64,
    /// Its events, latest first.
    open: Vec<Event>,
    /// Those left of an earlier bucket, while another is being opened.
    soonest: Vec<Event>,
    chunks: Vec<Chunk>,
    /// The first chunk that nobody uses.
    free: u32,
    /// The chunk of each bucket that is being filled.
    heads: Box<[u32; BUCKETS]>,
    /// A bit for each bucket that holds something.
    occupied: [u64; BUCKETS / 64],
    /// What lies beyond the calendar.
    beyond: BinaryHeap<Reverse<u128>>,
    opened_buckets: u32,
    opened_events: u32,
    /// Chunks begun, and those of them in the far half of the calendar, which narrower buckets
    /// would not reach.
    begun: u32,
    begun_far: u32,
    pushed_beyond: u32,
}

impl EventQueue {
    pub(crate) fn new(seed: u64) -> Self {
        EventQueue {
            seed: (seed ^ seed >> 32) as u32 | 1,
            in_sight: 1,
            width_log2: 14,
            current: 0,
            open: Vec::new(),
            soonest: Vec::new(),
            chunks: Vec::new(),
            free: NIL,
            heads: Box::new([NIL; BUCKETS]),
            occupied: [0; BUCKETS / 64],
            beyond: BinaryHeap::new(),
            opened_buckets: 0,
            opened_events: 0,
            begun: 0,
            begun_far: 0,
            pushed_beyond: 0,
        }
    }

    /// Has a few events in order ahead of time, for [`EventQueue::upcoming`].
    pub(crate) fn keep_in_sight(&mut self) {
        self.in_sight = IN_SIGHT;
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
        if bucket <= self.current || bucket - self.current >= BUCKETS as u64 {
            self.insert_elsewhere(event, bucket);
            return;
        }
        let slot = bucket as usize % BUCKETS;
        if let Some(chunk) = self.chunks.get_mut(self.heads[slot] as usize)
            && let Some(place) = chunk.events.get_mut(chunk.len as usize)
        {
            *place = event;
            chunk.len += 1;
            return;
        }
        self.begin_chunk(event, bucket);
    }

    /// Puts an event in a new chunk of its bucket.
    #[inline(never)]
    fn begin_chunk(&mut self, event: Event, bucket: u64) {
        self.begun += 1;
        self.begun_far += u32::from(bucket - self.current >= BUCKETS as u64 / 2);
        let slot = bucket as usize % BUCKETS;
        let next = self.heads[slot];
        let id = match self.chunks.get_mut(self.free as usize) {
            Some(chunk) => {
                let id = std::mem::replace(&mut self.free, chunk.next);
                chunk.events[0] = event;
                (chunk.len, chunk.next) = (1, next);
                id
            }
            None => {
                let mut events = [Event::NONE; Chunk::EVENTS];
                events[0] = event;
                self.chunks.push(Chunk { events, len: 1, next });
                self.chunks.len() as u32 - 1
            }
        };
        self.heads[slot] = id;
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Puts an event among those of the current bucket, or beyond the calendar.
    #[inline(never)]
    fn insert_elsewhere(&mut self, event: Event, bucket: u64) {
        if bucket > self.current {
            self.pushed_beyond += 1;
            self.beyond.push(Reverse(event.order()));
            return;
        }
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
        if self.open.len() < self.in_sight {
            self.open_next();
        }
        self.open.pop()
    }

    /// Opens the next bucket that holds something, behind what is open still.
    #[inline(never)]
    fn open_next(&mut self) {
        if self.opened_buckets >= RETUNE_AFTER {
            self.retune();
        }
        let in_ring = self.next_occupied();
        let in_heap = self.beyond.peek().map(|Reverse(o)| Event::of(*o).time >> self.width_log2);
        let Some(next) = in_ring.into_iter().chain(in_heap).min() else {
            return;
        };
        if !self.open.is_empty() {
            if next - self.current > NEAR {
                return;
            }
            std::mem::swap(&mut self.open, &mut self.soonest);
        }
        self.current = next;
        if in_ring == Some(next) {
            self.take_bucket(next as usize % BUCKETS);
        }
        while let Some(&Reverse(order)) = self.beyond.peek()
            && Event::of(order).time >> self.width_log2 <= next
        {
            self.open.push(Event::of(order));
            self.beyond.pop();
        }
        self.opened_buckets += 1;
        self.opened_events += self.open.len() as u32;
        self.sort_open();
        if self.in_sight > 1 {
            self.open.append(&mut self.soonest);
            // The bucket after it will probably be next.
            let after = self.heads[(next as usize + 1) % BUCKETS];
            if let Some(chunk) = self.chunks.get(after as usize) {
                prefetch(chunk);
            }
        }
    }

    /// Moves a bucket's events to those that are open.
    #[inline]
    fn take_bucket(&mut self, slot: usize) {
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        let mut id = std::mem::replace(&mut self.heads[slot], NIL);
        while let Some(chunk) = self.chunks.get_mut(id as usize) {
            let events = chunk.events.get(..chunk.len as usize).unwrap_or_default();
            self.open.extend_from_slice(events);
            let next = std::mem::replace(&mut chunk.next, self.free);
            self.free = std::mem::replace(&mut id, next);
        }
    }

    /// Latest first. What was pushed last came out first, so that few events need moving.
    #[inline]
    fn sort_open(&mut self) {
        if self.open.len() > FEW {
            self.open.sort_unstable_by_key(|e| Reverse(e.order()));
            return;
        }
        let open = self.open.as_mut_slice();
        for sorted in 1..open.len() {
            let event = open[sorted];
            let mut place = sorted;
            while place > 0 && open[place - 1].order() < event.order() {
                open[place] = open[place - 1];
                place -= 1;
            }
            open[place] = event;
        }
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

    /// Narrows buckets that hold many events, widens them when they hold hardly any or when much
    /// falls beyond the calendar.
    /// The order of events does not depend on it.
    fn retune(&mut self) {
        let is_sparse = self.opened_events < self.opened_buckets + self.opened_buckets / 2;
        let width = if self.pushed_beyond > self.opened_events / 50 || is_sparse {
            (self.width_log2 + 1).min(40)
        } else if self.opened_events > CROWDED * self.opened_buckets
            && self.begun_far < self.begun / 50
        {
            self.width_log2.saturating_sub(1)
        } else {
            self.width_log2
        };
        (self.opened_buckets, self.opened_events) = (0, 0);
        (self.begun, self.begun_far, self.pushed_beyond) = (0, 0, 0);
        if width == self.width_log2 {
            return;
        }
        let still_open = std::mem::take(&mut self.open);
        for slot in 0..BUCKETS {
            self.take_bucket(slot);
        }
        let beyond = self.beyond.drain().map(|Reverse(order)| Event::of(order));
        self.open.extend(beyond);
        let events = std::mem::replace(&mut self.open, still_open);
        // What is open ends with the current bucket, and there the new ones begin.
        self.current = ((self.current + 1) << self.width_log2 >> width).saturating_sub(1);
        self.width_log2 = width;
        for event in events {
            self.insert(event);
        }
        (self.begun, self.begun_far, self.pushed_beyond) = (0, 0, 0);
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
            if ops.len() % 2 == 0 {
                queue.keep_in_sight();
            }
            let mut model: Vec<Event> = Vec::new();
            let mut now = 0u64;
            for (op, source, scale) in ops {
                if op > 0 {
                    let at = now + (1u64 << scale).wrapping_mul(u64::from(source)) / 7;
                    queue.push(Instant::from_picos(at), EventClass::Timer, source, source);
                    let mut other = EventQueue::new(9);
                    other.push(Instant::from_picos(at), EventClass::Timer, source, source);
                    model.push(other.pop().unwrap());
                    model.sort_by_key(Event::order);
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
