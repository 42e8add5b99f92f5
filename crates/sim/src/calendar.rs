//! A calendar queue of events, with a heap for far ones.

use crate::events::Event;
use punctual_core::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Buckets in the calendar at first, and at most: powers of two.
const FEWEST_BUCKETS: usize = 1 << 12;
const MOST_BUCKETS: usize = 1 << 17;
/// The bucket width is retuned after this many buckets were opened, at first.
const RETUNE_AFTER: u32 = 1 << 11;
/// The bucket width is retuned when this many buckets held more than [`FEW`] events of several
/// instants.
const CROWDED: u32 = 1 << 6;
/// Up to this many events of one instant are sorted without branches.
const FEW: usize = 8;
/// No node.
const NIL: u32 = u32::MAX;

/// An event in a bucket's linked list.
///
/// Nodes come from one pool, last in first out. So memory depends on the number of pending events,
/// not of buckets, and stays in the cache.
#[derive(Debug, Clone, Copy)]
struct Node {
    event: Event,
    next: u32,
}

/// A calendar queue of events.
///
/// Buckets are so narrow that most hold events of one instant, since equal links and packet sizes
/// make equal times frequent. Such a bucket has one event, or only its keys need sorting. A bitmap
/// finds the next bucket that is not empty.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// Log2 of the bucket width in picoseconds.
    width_log2: u32,
    /// Number of the first bucket that has not been opened.
    next: u64,
    /// Events of the opened buckets, latest first.
    open: Vec<Event>,
    /// Scratch memory for moving events into buckets of another width.
    moved: Vec<Event>,
    /// Scratch memory for sorting keys.
    keys: Vec<u64>,
    nodes: Vec<Node>,
    /// Head of the list of free nodes.
    free: u32,
    /// The first node of each bucket of the calendar. Their number is a power of two.
    heads: Vec<u32>,
    /// A bit for each bucket that is not empty.
    occupied: Vec<u64>,
    /// Events beyond the calendar.
    beyond: BinaryHeap<Reverse<u128>>,
    /// The bucket of the first event in `beyond`.
    beyond_from: u64,
    /// Buckets opened since the last retuning, as all counters below.
    opened: u32,
    /// Events in opened buckets besides the first of each.
    opened_besides: u32,
    /// Opened buckets with events of several instants.
    opened_mixed: u32,
    /// Mixed buckets with more than [`FEW`] events.
    opened_crowded: u32,
    /// Instants of the events in crowded buckets, summed.
    crowded_instants: u32,
    /// Events pushed beyond the calendar.
    pushed_beyond: u32,
    /// The value of `next` at the last retuning.
    tuned_at: u64,
    /// Buckets to open before the next retuning. It doubles each time that the direction of
    /// retuning changes, so that the width does not oscillate.
    retune_after: u32,
    has_narrowed: bool,
}

impl Default for Calendar {
    fn default() -> Self {
        Calendar {
            width_log2: 14,
            next: 0,
            open: Vec::new(),
            moved: Vec::new(),
            keys: Vec::new(),
            nodes: Vec::new(),
            free: NIL,
            heads: vec![NIL; FEWEST_BUCKETS],
            occupied: vec![0; FEWEST_BUCKETS / 64],
            beyond: BinaryHeap::new(),
            beyond_from: u64::MAX,
            opened: 0,
            opened_besides: 0,
            opened_mixed: 0,
            opened_crowded: 0,
            crowded_instants: 0,
            pushed_beyond: 0,
            tuned_at: 0,
            retune_after: RETUNE_AFTER,
            has_narrowed: false,
        }
    }
}

impl Calendar {
    /// Adds an event.
    #[inline(always)]
    pub(crate) fn insert(&mut self, event: Event) {
        let bucket = event.time >> self.width_log2;
        let ahead = bucket.wrapping_sub(self.next);
        if ahead < self.heads.len() as u64
            && let Some(node) = self.nodes.get_mut(self.free as usize)
        {
            let slot = bucket as usize & (self.heads.len() - 1);
            let id = std::mem::replace(&mut self.free, node.next);
            let next = std::mem::replace(&mut self.heads[slot], id);
            *node = Node { event, next };
            self.occupied[slot / 64] |= 1 << (slot % 64);
        } else {
            self.insert_elsewhere(event, bucket);
        }
    }

    /// The index of a bucket in the calendar.
    #[inline]
    fn slot(&self, bucket: u64) -> usize {
        bucket as usize & (self.heads.len() - 1)
    }

    /// Inserts an event among the open ones or beyond the calendar, or allocates a node for it.
    #[inline(never)]
    fn insert_elsewhere(&mut self, event: Event, bucket: u64) {
        if bucket < self.next {
            let later = self.open.iter().rev().take_while(|e| e.order() < event.order()).count();
            self.open.insert(self.open.len() - later, event);
        } else if bucket - self.next >= self.heads.len() as u64 {
            self.pushed_beyond += 1;
            self.beyond_from = self.beyond_from.min(bucket);
            self.beyond.push(Reverse(event.order()));
        } else {
            self.free = self.nodes.len() as u32;
            self.nodes.push(Node { event, next: NIL });
            self.insert(event);
        }
    }

    /// Takes the next event out.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        match self.open.pop() {
            None => self.pop_closed(),
            event => event,
        }
    }

    /// Takes the next event out if it is before `end`.
    pub(crate) fn pop_before(&mut self, end: Instant) -> Option<Event> {
        while self.no_event_before()? < end.as_picos() {
            if let Some(event) = self.open.pop_if(|event| event.at() < end) {
                return Some(event);
            }
            self.open_next();
        }
        None
    }

    /// An instant before which there is no event. `None` if there is no event at all.
    ///
    /// It is that of the next event if its bucket is open, else the beginning of its bucket.
    pub(crate) fn no_event_before(&self) -> Option<u64> {
        if let Some(event) = self.open.last() {
            return Some(event.time);
        }
        let bucket = self.next_occupied().unwrap_or(u64::MAX).min(self.beyond_from);
        (bucket != u64::MAX).then(|| bucket << self.width_log2)
    }

    /// Takes the next event out when none is open.
    #[inline(always)]
    fn pop_closed(&mut self) -> Option<Event> {
        let first = self.slot(self.next);
        let bits = self.occupied[first / 64] >> (first % 64);
        let bucket = self.next + u64::from(bits.trailing_zeros());
        if bits != 0 && bucket < self.beyond_from {
            let slot = self.slot(bucket);
            let id = self.heads[slot];
            if let Some(node) = self.nodes.get_mut(id as usize)
                && node.next == NIL
            {
                // A single event: nothing to sort.
                node.next = std::mem::replace(&mut self.free, id);
                self.heads[slot] = NIL;
                self.occupied[slot / 64] &= !(1 << (slot % 64));
                self.next = bucket + 1;
                self.opened += 1;
                return Some(node.event);
            }
        }
        self.open_next();
        self.open.pop()
    }

    /// Opens the next bucket that is not empty, when none is open.
    #[inline(never)]
    fn open_next(&mut self) {
        if self.opened >= self.retune_after || self.opened_crowded >= CROWDED {
            self.retune();
            if !self.open.is_empty() {
                return;
            }
        }
        let in_ring = self.next_occupied();
        let bucket = in_ring.unwrap_or(u64::MAX).min(self.beyond_from);
        if bucket == u64::MAX {
            return;
        }
        self.next = bucket + 1;
        self.opened += 1;
        if in_ring == Some(bucket) {
            self.take_bucket(self.slot(bucket));
        }
        if self.beyond_from == bucket {
            self.take_beyond(bucket);
        }
        self.opened_besides += self.open.len() as u32 - 1;
    }

    /// Moves a bucket's events to `open`, which is empty, in order.
    #[inline]
    fn take_bucket(&mut self, slot: usize) {
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        let head = std::mem::replace(&mut self.heads[slot], NIL);
        let time = self.nodes[head as usize].event.time;
        let mut keys = [u64::MAX; FEW];
        let (mut next, mut last, mut len, mut differ) = (head, head, 0, 0);
        while let Some(node) = self.nodes.get(next as usize)
            && let Some(key) = keys.get_mut(len)
        {
            *key = node.event.key;
            differ |= node.event.time ^ time;
            len += 1;
            last = std::mem::replace(&mut next, node.next);
        }
        if next != NIL {
            self.take_many(head);
            return;
        }
        if differ != 0 {
            self.take_mixed(head);
            return;
        }
        self.nodes[last as usize].next = std::mem::replace(&mut self.free, head);
        sort_few(&mut keys, len);
        self.open.extend(keys.iter().take(len).rev().map(|&key| Event { time, key }));
    }

    /// [`Calendar::take_bucket`] for at most [`FEW`] events of several instants.
    fn take_mixed(&mut self, head: u32) {
        self.opened_mixed += 1;
        self.empty(head);
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

    /// [`Calendar::take_bucket`] for more than [`FEW`] events.
    #[inline(never)]
    fn take_many(&mut self, head: u32) {
        let time = self.nodes[head as usize].event.time;
        let (mut next, mut last, mut differ) = (head, head, 0);
        self.keys.clear();
        while let Some(node) = self.nodes.get(next as usize) {
            self.keys.push(node.event.key);
            differ |= node.event.time ^ time;
            last = std::mem::replace(&mut next, node.next);
        }
        if differ != 0 {
            self.opened_mixed += 1;
            self.opened_crowded += 1;
            self.empty(head);
            self.open.sort_unstable_by_key(|e| Reverse(e.order()));
            let changes = self.open.windows(2).filter(|pair| pair[0].time != pair[1].time);
            self.crowded_instants += 1 + changes.count() as u32;
            return;
        }
        self.nodes[last as usize].next = std::mem::replace(&mut self.free, head);
        self.keys.sort_unstable();
        self.open.extend(self.keys.iter().rev().map(|&key| Event { time, key }));
    }

    /// Moves the events of a list to the end of `open`, unsorted, and frees its nodes.
    fn empty(&mut self, head: u32) {
        let mut id = head;
        while let Some(node) = self.nodes.get_mut(id as usize) {
            self.open.push(node.event);
            let next = std::mem::replace(&mut node.next, self.free);
            self.free = std::mem::replace(&mut id, next);
        }
    }

    /// Moves the events of `beyond` up to a bucket to `open`, and sorts it.
    fn take_beyond(&mut self, bucket: u64) {
        let bucket_of = |order: u128| Event::of(order).time >> self.width_log2;
        while let Some(&Reverse(order)) = self.beyond.peek()
            && bucket_of(order) <= bucket
        {
            self.open.push(Event::of(order));
            self.beyond.pop();
        }
        self.beyond_from = self.beyond.peek().map_or(u64::MAX, |Reverse(o)| bucket_of(*o));
        self.open.sort_unstable_by_key(|e| Reverse(e.order()));
    }

    /// The number of the first occupied bucket that has not been opened.
    #[inline]
    fn next_occupied(&self) -> Option<u64> {
        let buckets = self.heads.len();
        let start = self.slot(self.next);
        let words = self.occupied.len();
        let mut word = start / 64;
        let mut bits = self.occupied[word] & (u64::MAX << (start % 64));
        for _ in 0..=words {
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                let distance = slot.wrapping_sub(start) & (buckets - 1);
                return Some(self.next + distance as u64);
            }
            word = (word + 1) & (words - 1);
            bits = self.occupied[word];
        }
        None
    }

    /// Retunes the bucket width. The order of events does not depend on it.
    ///
    /// Buckets become narrower when many hold several instants, and wider when most are empty or
    /// many events fall beyond the calendar. The calendar grows if narrowing would make it too
    /// short.
    #[cold]
    fn retune(&mut self) {
        let passed = self.next - self.tuned_at;
        let is_sparse = u64::from(self.opened) < passed / 32;
        let events = self.opened + self.opened_besides;
        if self.pushed_beyond > events / 25 || is_sparse {
            self.change_width((self.width_log2 + 1).min(40), self.heads.len());
        } else if self.opened_mixed > self.opened / 8 {
            let crowd = self.crowded_instants.checked_div(self.opened_crowded).unwrap_or(0);
            let bits = crowd.checked_ilog2().unwrap_or(0).max(1).min(self.width_log2);
            let reach = self.reach();
            let bits = (0..=bits).rev().find(|bits| reach << bits <= MOST_BUCKETS).unwrap_or(0);
            let buckets = (reach << bits).next_power_of_two().max(self.heads.len());
            self.change_width(self.width_log2 - bits, buckets);
        }
        (self.opened, self.opened_besides, self.opened_mixed) = (0, 0, 0);
        (self.opened_crowded, self.crowded_instants) = (0, 0);
        (self.pushed_beyond, self.tuned_at) = (0, self.next);
    }

    fn change_width(&mut self, width: u32, buckets: usize) {
        if width == self.width_log2 {
            return;
        }
        let narrows = width < self.width_log2;
        if std::mem::replace(&mut self.has_narrowed, narrows) != narrows {
            self.retune_after = self.retune_after.saturating_mul(2);
        }
        self.rebuild(width, buckets);
    }

    /// The number of buckets ahead that hold all but a few of the occupied ones.
    fn reach(&self) -> usize {
        let held: u32 = self.occupied.iter().map(|word| word.count_ones()).sum();
        let mut beyond = 0;
        let mut reach = self.heads.len();
        while reach > 64 && beyond <= held / 50 {
            reach -= 64;
            beyond += self.occupied[self.slot(self.next + reach as u64) / 64].count_ones();
        }
        reach + 64
    }

    /// Moves all events into buckets of another width.
    fn rebuild(&mut self, width: u32, buckets: usize) {
        std::mem::swap(&mut self.open, &mut self.moved);
        for slot in 0..self.heads.len() {
            let head = std::mem::replace(&mut self.heads[slot], NIL);
            self.empty(head);
        }
        let beyond = self.beyond.drain().map(|Reverse(order)| Event::of(order));
        self.open.extend(beyond);
        std::mem::swap(&mut self.open, &mut self.moved);
        // The first closed bucket begins no earlier than before. Events before it join `open`.
        self.next = (self.next << self.width_log2).div_ceil(1 << width);
        self.width_log2 = width;
        self.heads.resize(buckets, NIL);
        self.occupied.clear();
        self.occupied.resize(buckets / 64, 0);
        self.beyond_from = u64::MAX;
        let mut events = std::mem::take(&mut self.moved);
        for event in events.drain(..) {
            self.insert(event);
        }
        self.moved = events;
    }
}

/// Sorts the first `len` keys without branches that depend on them. The others are `u64::MAX`.
#[inline]
fn sort_few(keys: &mut [u64; FEW], len: usize) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *keys;
    let order = |x: &mut u64, y: &mut u64| (*x, *y) = ((*x).min(*y), (*x).max(*y));
    order(&mut a, &mut b);
    order(&mut c, &mut d);
    order(&mut a, &mut c);
    order(&mut b, &mut d);
    order(&mut b, &mut c);
    if len > 4 {
        order(&mut e, &mut f);
        order(&mut g, &mut h);
        order(&mut e, &mut g);
        order(&mut f, &mut h);
        order(&mut f, &mut g);
        // Batcher's merge of four and four.
        order(&mut a, &mut e);
        order(&mut b, &mut f);
        order(&mut c, &mut g);
        order(&mut d, &mut h);
        order(&mut c, &mut e);
        order(&mut d, &mut f);
        order(&mut b, &mut c);
        order(&mut d, &mut e);
        order(&mut f, &mut g);
    }
    *keys = [a, b, c, d, e, f, g, h];
}

#[cfg(test)]
mod tests;
