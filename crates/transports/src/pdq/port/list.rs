//! The flows that a port knows, in order of criticality.

use super::super::header::{NO_DEADLINE, PdqHeader};
use punctual_core::Instant;

#[cfg(test)]
thread_local! {
    /// Entries looked at, so that tests can tell what a packet costs.
    pub(crate) static VISITED: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}

#[inline]
pub(super) fn visited(_entries: usize) {
    #[cfg(test)]
    VISITED.set(VISITED.get() + _entries);
}

/// What decides between two flows: the earlier deadline, then the shorter time, then the id
/// (PDQ-R08). One number, so that comparing takes no guess of which of the three decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRank(u128);

impl FlowRank {
    /// The rank of a flow by the header of one of its packets: D, where none is later than any,
    /// and T less what waiting takes off.
    #[inline]
    pub fn of(header: &PdqHeader, flow: u32) -> Self {
        let mut time = f64::from(header.expected);
        if header.age > 0 {
            time /= libm::exp2(f64::from(header.age) / 8.0);
        }
        // Bits of numbers that are not negative are in the numbers' order.
        let time = u128::from(time.to_bits());
        FlowRank(u128::from(header.deadline) << 96 | time << 32 | u128::from(flow))
    }

    /// The flow's id.
    #[inline]
    pub fn flow(&self) -> u32 {
        self.0 as u32
    }

    /// Whether it goes before another.
    #[inline]
    pub fn precedes(&self, other: &FlowRank) -> bool {
        self.0 < other.0
    }

    /// Whether there is a deadline at all.
    pub fn has_deadline(&self) -> bool {
        (self.0 >> 96) as u32 != NO_DEADLINE
    }
}

/// A flow as a port knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowEntry {
    /// Where it stands.
    pub rank: FlowRank,
    /// R_i: the rate it holds, in kb/s; 0 while it is paused or unanswered.
    pub rate: u32,
    /// Q_i: the rate that its last packet asked for here, in kb/s.
    pub asked: u32,
    /// P_i: who pauses it.
    pub pauser: u32,
    /// There was something for it, but another paused flow had just been accepted.
    pub dampened: bool,
    /// T_i in units of 10 ns.
    pub expected: u32,
    /// RTT_i in nanoseconds, or 0.
    pub rtt: u32,
    /// When its last packet came.
    pub seen: Instant,
}

/// Flows in order of criticality, the most critical first. Ids are kept apart, so that finding
/// one reads little memory.
#[derive(Clone, Debug, Default)]
pub struct FlowList {
    ids: Vec<u32>,
    entries: Vec<FlowEntry>,
    sending: usize,
}

impl FlowList {
    /// Flows in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether it holds no flow.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// κ: flows in it that hold a rate.
    #[inline]
    pub fn sending(&self) -> usize {
        self.sending
    }

    /// Where a flow stands, if it is in the list.
    #[inline]
    pub fn find(&self, flow: u32) -> Option<usize> {
        let place = self.ids.iter().position(|id| *id == flow);
        visited(place.map_or(self.len(), |place| place + 1));
        place
    }

    /// The flows in order.
    #[inline]
    pub fn entries(&self) -> &[FlowEntry] {
        &self.entries
    }

    /// Whether a flow of this rank would go before the last.
    pub fn precedes_last(&self, rank: &FlowRank) -> bool {
        self.entries.last().is_some_and(|last| rank.precedes(&last.rank))
    }

    /// Where a flow of this rank would stand that is not there.
    pub fn place_of(&self, rank: &FlowRank) -> usize {
        self.entries.partition_point(|other| {
            visited(1);
            other.rank.precedes(rank)
        })
    }

    /// Adds a flow that is not there; returns its place.
    pub fn insert(&mut self, entry: FlowEntry) -> usize {
        let place = self.place_of(&entry.rank);
        visited(self.len() - place); // as they move
        self.sending += usize::from(entry.rate > 0);
        self.ids.insert(place, entry.rank.flow());
        self.entries.insert(place, entry);
        place
    }

    /// Takes out the flow at a place.
    pub fn remove(&mut self, place: usize) {
        visited(self.len() - place);
        self.ids.remove(place);
        let entry = self.entries.remove(place);
        self.sending -= usize::from(entry.rate > 0);
    }

    /// Keeps the first `len` flows.
    pub fn truncate(&mut self, len: usize) {
        while self.len() > len {
            self.remove(self.len() - 1);
        }
    }

    /// Takes from a packet of the flow at a place what does not change who sends.
    #[inline]
    pub fn note(&mut self, place: usize, header: &PdqHeader, now: Instant) {
        let entry = &mut self.entries[place];
        entry.asked = header.rate;
        entry.expected = header.expected;
        entry.rtt = header.rtt;
        entry.seen = now;
    }

    /// Changes what is known of the flow at a place, but for its rank.
    #[inline]
    pub fn update(&mut self, place: usize, change: impl FnOnce(&mut FlowEntry)) {
        let entry = &mut self.entries[place];
        let before = usize::from(entry.rate > 0);
        change(entry);
        self.sending += usize::from(entry.rate > 0);
        self.sending -= before;
    }

    /// Gives the flow at a place another rank; returns its place then.
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
        self.ids.swap(a, b);
        self.entries.swap(a, b);
    }

    /// Forgets every flow.
    pub fn clear(&mut self) {
        self.ids.clear();
        self.entries.clear();
        self.sending = 0;
    }
}
