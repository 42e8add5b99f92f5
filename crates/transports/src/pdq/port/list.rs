//! A port's list of flows, in order of criticality.

use super::super::header::{
    DEADLINE_ORDER_BITS, NO_DEADLINE, PdqHeader, SUBFLOWS_MAX, deadline_order,
};
use punctual_core::Instant;

#[cfg(test)]
thread_local! {
    /// Entries visited, by which tests measure the cost of a packet.
    pub(crate) static VISITED: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}

#[inline]
pub(super) fn visited(_entries: usize) {
    #[cfg(test)]
    VISITED.set(VISITED.get() + _entries);
}

const SUBFLOW_BITS: u32 = SUBFLOWS_MAX.trailing_zeros();
/// The exponent of 2⁻³³ in the bits of an `f64`.
const EXPONENT_MIN: u64 = (1023 - 33) << 52;
/// Bits of a T's mantissa that ranks leave out: 44 are more than the 32 of its field.
const MANTISSA_CUT: u32 = 8;
const TIME_BITS: u32 = 7 + 52 - MANTISSA_CUT;
const TIME_AT: u32 = u32::BITS + SUBFLOW_BITS;
const DEADLINE_AT: u32 = TIME_AT + TIME_BITS;
const _: () = assert!(DEADLINE_AT + DEADLINE_ORDER_BITS == u128::BITS);

/// What a port tells flows apart by: the id, and the number of the subflow, which is 0 for PDQ.
/// Each subflow of M-PDQ is a flow to ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKey(u64);

impl FlowKey {
    /// The key of a flow's subflow.
    #[inline]
    pub fn new(flow: u32, subflow: u32) -> Self {
        FlowKey(u64::from(subflow) << 32 | u64::from(flow))
    }

    /// A number that no other key has: the id itself for subflow 0.
    #[inline]
    pub fn bits(self) -> u64 {
        self.0
    }
}

/// A flow's criticality: the earlier deadline, then the smaller T, then the lower id goes first
/// (PDQ-R08), then the lower number of the subflow. One number, so that a comparison has no
/// unpredictable branch: 41 bits of deadline, 51 of time, 32 of id and 4 of subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRank(u128);

impl FlowRank {
    /// The rank of a flow by the header of a packet that is at a port now: D, where none is later than
    /// any, and T less what waiting takes off. Ranks can be compared however far apart their packets
    /// were at the port.
    #[inline]
    pub fn of(header: &PdqHeader, key: FlowKey, now: Instant) -> Self {
        let mut time = f64::from(header.expected);
        if header.age > 0 {
            time /= libm::exp2(f64::from(header.age) / 8.0);
        }
        // Bits of numbers that are not negative are in the numbers' order. T is 0, or at least 2⁻³² as
        // aging divides it by less than 2³², and below 2³². So 7 bits of exponent suffice if it counts
        // from there; 0 stays 0.
        let time = u128::from(time.to_bits().saturating_sub(EXPONENT_MIN) >> MANTISSA_CUT);
        let deadline = u128::from(deadline_order(header.deadline, now));
        let (flow, subflow) = (key.0 as u32, key.0 >> 32);
        let id = u128::from(flow) << SUBFLOW_BITS | u128::from(subflow);
        FlowRank(deadline << DEADLINE_AT | time << TIME_AT | id)
    }

    /// The flow's id.
    #[inline]
    pub fn flow(&self) -> u32 {
        (self.0 >> SUBFLOW_BITS) as u32
    }

    /// What a port tells the flow apart by.
    #[inline]
    pub fn key(&self) -> FlowKey {
        FlowKey::new(self.flow(), self.0 as u32 % SUBFLOWS_MAX)
    }

    /// Whether it is more critical than `other`.
    #[inline]
    pub fn precedes(&self, other: &FlowRank) -> bool {
        self.0 < other.0
    }

    /// Whether the flow has a deadline.
    pub fn has_deadline(&self) -> bool {
        self.0 >> DEADLINE_AT != u128::from(deadline_order(NO_DEADLINE, Instant::ZERO))
    }
}

/// A flow in a port's list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowEntry {
    /// Its criticality.
    pub rank: FlowRank,
    /// R_i: the granted rate, in kb/s; 0 while paused or unanswered.
    pub rate: u32,
    /// Q_i: the desired rate of its last packet, in kb/s.
    pub asked: u32,
    /// P_i: the port that pauses it.
    pub pauser: u32,
    /// Whether only dampening holds it back.
    pub dampened: bool,
    /// T_i in units of 10 ns.
    pub expected: u32,
    /// RTT_i in nanoseconds, or 0.
    pub rtt: u32,
    /// When its last packet arrived.
    pub seen: Instant,
}

/// Flows in order of criticality, the most critical first. Keys are in an array of their own, so
/// that a search reads little memory.
#[derive(Clone, Debug, Default)]
pub struct FlowList {
    keys: Vec<FlowKey>,
    entries: Vec<FlowEntry>,
    sending: usize,
}

impl FlowList {
    /// Number of flows.
    #[inline]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether it holds no flow.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// κ: flows with a granted rate.
    #[inline]
    pub fn sending(&self) -> usize {
        self.sending
    }

    /// The place of a flow, if it is in the list.
    #[inline]
    pub fn find(&self, key: FlowKey) -> Option<usize> {
        let place = self.keys.iter().position(|other| *other == key);
        visited(place.map_or(self.len(), |place| place + 1));
        place
    }

    /// The flows in order.
    #[inline]
    pub fn entries(&self) -> &[FlowEntry] {
        &self.entries
    }

    /// Whether a flow of this rank is more critical than the last.
    pub fn precedes_last(&self, rank: &FlowRank) -> bool {
        self.entries.last().is_some_and(|last| rank.precedes(&last.rank))
    }

    /// The place at which a flow of this rank would be inserted.
    pub fn place_of(&self, rank: &FlowRank) -> usize {
        self.entries.partition_point(|other| {
            visited(1);
            other.rank.precedes(rank)
        })
    }

    /// Inserts a flow that is not in the list; returns its place.
    pub fn insert(&mut self, entry: FlowEntry) -> usize {
        let place = self.place_of(&entry.rank);
        visited(self.len() - place); // as they move
        self.sending += usize::from(entry.rate > 0);
        self.keys.insert(place, entry.rank.key());
        self.entries.insert(place, entry);
        place
    }

    /// Removes the flow at a place.
    pub fn remove(&mut self, place: usize) {
        visited(self.len() - place);
        self.keys.remove(place);
        let entry = self.entries.remove(place);
        self.sending -= usize::from(entry.rate > 0);
    }

    /// Keeps the first `len` flows.
    pub fn truncate(&mut self, len: usize) {
        while self.len() > len {
            self.remove(self.len() - 1);
        }
    }

    /// Records the header fields of a packet that do not change which flows send.
    #[inline]
    pub fn note(&mut self, place: usize, header: &PdqHeader, now: Instant) {
        let entry = &mut self.entries[place];
        entry.asked = header.rate;
        entry.expected = header.expected;
        entry.rtt = header.rtt;
        entry.seen = now;
    }

    /// Changes the flow at a place, except its rank.
    #[inline]
    pub fn update(&mut self, place: usize, change: impl FnOnce(&mut FlowEntry)) {
        let entry = &mut self.entries[place];
        let before = usize::from(entry.rate > 0);
        change(entry);
        self.sending += usize::from(entry.rate > 0);
        self.sending -= before;
    }

    /// Changes the rank of the flow at a place; returns its new place.
    #[inline]
    pub fn rerank(&mut self, mut place: usize, rank: FlowRank) -> usize {
        self.entries[place].rank = rank;
        while place > 0 && rank.precedes(&self.entries[place - 1].rank) {
            self.swap(place, place - 1);
            place -= 1;
        }
        while place + 1 < self.len() && self.entries[place + 1].rank.precedes(&rank) {
            self.swap(place, place + 1);
            place += 1;
        }
        place
    }

    fn swap(&mut self, a: usize, b: usize) {
        visited(1);
        self.keys.swap(a, b);
        self.entries.swap(a, b);
    }

    /// Removes every flow.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.entries.clear();
        self.sending = 0;
    }
}
