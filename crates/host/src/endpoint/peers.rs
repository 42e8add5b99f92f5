//! What an endpoint remembers about its peers.

use crate::seal::ReplayWindow;
use ahash::HashMap;
use punctual_core::{Duration, Instant};
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

/// A peer.
#[derive(Debug)]
pub(super) struct Peer {
    /// The incarnation of its process, as far as known.
    pub(super) incarnation: Option<u16>,
    /// Whether it has proven that it receives packets at its address.
    pub(super) is_proven: bool,
    /// Whether it has just proven that, so that its next number may be far ahead.
    pub(super) may_jump: bool,
    /// Numbers of its flows that were opened here, and of those that were completed.
    pub(super) opened: Option<ReplayWindow>,
    pub(super) done: Option<ReplayWindow>,
    /// The number of the next flow to it. Numbers are consecutive, so that its window covers them.
    next_number: u32,
    /// Numbers of open flows to it, counted without wrapping.
    active: BTreeSet<u64>,
    next_count: u64,
    /// Messages that wait for their turn.
    pub(super) queue: VecDeque<u64>,
    /// Memory of messages from it.
    pub(super) memory: usize,
    /// Open flows from it.
    pub(super) inbound: u32,
    /// Requests to it without a response.
    pub(super) requests: u32,
    pub(super) used_at: Instant,
}

/// What is known about a flow from a peer that is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing: it may be opened.
    New,
    /// It was opened, or is too old to know.
    Opened,
    /// It was completed.
    Done,
}

impl Peer {
    fn new(first_number: u32, now: Instant) -> Self {
        Peer {
            incarnation: None,
            is_proven: false,
            may_jump: false,
            opened: None,
            done: None,
            next_number: first_number,
            active: BTreeSet::new(),
            next_count: 0,
            queue: VecDeque::new(),
            memory: 0,
            inbound: 0,
            requests: 0,
            used_at: now,
        }
    }

    /// What is known about its flow of this number.
    pub(super) fn known(&self, number: u32) -> Known {
        if self.done.as_ref().is_some_and(|done| done.contains(number)) {
            Known::Done
        } else if self.opened.as_ref().is_some_and(|o| !o.covers(number) || o.contains(number)) {
            Known::Opened
        } else {
            Known::New
        }
    }

    /// Whether this number is further ahead than those of an honest peer, whose numbers are
    /// consecutive. A forged number would move the window away from the honest ones.
    pub(super) fn is_far_ahead(&self, number: u32) -> bool {
        self.opened.as_ref().is_some_and(|opened| opened.is_far_ahead(number))
    }

    /// Notes that its flow of this number was opened.
    pub(super) fn note_opened(&mut self, number: u32) {
        self.opened.get_or_insert_with(|| ReplayWindow::starting(number)).insert(number);
    }

    /// Notes that its flow of this number was completed.
    pub(super) fn note_done(&mut self, number: u32) {
        self.done.get_or_insert_with(|| ReplayWindow::starting(number)).insert(number);
    }

    /// Learns the incarnation of its process. A new process counts its flows anew.
    pub(super) fn learn(&mut self, incarnation: u16) {
        if self.incarnation.is_some_and(|known| known != incarnation) {
            (self.opened, self.done) = (None, None);
        }
        self.incarnation = Some(incarnation);
    }

    /// Takes the number of a new flow to it, if fewer than `flows_max` are open and the peer's
    /// window covers the oldest of them.
    pub(super) fn take_number(&mut self, flows_max: usize) -> Option<(u64, u32)> {
        let span = self.active.first().map_or(0, |oldest| self.next_count - oldest);
        if self.active.len() >= flows_max || span >= u64::from(ReplayWindow::SPAN) / 2 {
            return None;
        }
        let taken = (self.next_count, self.next_number);
        self.active.insert(self.next_count);
        self.next_count += 1;
        self.next_number = self.next_number.wrapping_add(1);
        Some(taken)
    }

    /// Notes that the flow of this count has ended.
    pub(super) fn release(&mut self, count: u64) {
        self.active.remove(&count);
    }

    fn is_idle(&self) -> bool {
        self.active.is_empty() && self.queue.is_empty() && self.inbound == 0 && self.requests == 0
    }
}

/// All peers, at most a fixed number.
#[derive(Debug)]
pub(super) struct Peers {
    peers: HashMap<SocketAddr, Peer>,
    max: usize,
    /// How long an idle peer is remembered, at least.
    window: Duration,
    next_sweep: Instant,
    numbers: punctual_core::rng::Stream,
}

impl Peers {
    pub(super) fn new(max: usize, window: Duration, seed: u64) -> Self {
        Peers {
            peers: HashMap::default(),
            max,
            window,
            next_sweep: Instant::ZERO,
            numbers: punctual_core::rng::Stream::named(seed, "flow numbers", 0),
        }
    }

    pub(super) fn get(&self, peer: &SocketAddr) -> Option<&Peer> {
        self.peers.get(peer)
    }

    pub(super) fn get_mut(&mut self, peer: &SocketAddr) -> Option<&mut Peer> {
        self.peers.get_mut(peer)
    }

    /// Whether more than half of the table is used.
    pub(super) fn is_crowded(&self) -> bool {
        self.peers.len() > self.max / 2
    }

    /// The peer at this address, new if need be. `None` if the table is full of peers that must not
    /// be forgotten. This host's own sends (`is_own`) always find room.
    pub(super) fn entry(
        &mut self,
        address: SocketAddr,
        now: Instant,
        is_own: bool,
    ) -> Option<&mut Peer> {
        if !self.peers.contains_key(&address) {
            if self.peers.len() >= self.max && now >= self.next_sweep {
                self.next_sweep = now.saturating_add(Duration::from_millis(100));
                let window = self.window;
                self.peers
                    .retain(|_, peer| !peer.is_idle() || now < peer.used_at.saturating_add(window));
            }
            if self.peers.len() >= self.max && !is_own {
                return None;
            }
            let first_number = self.numbers.bits() as u32;
            self.peers.insert(address, Peer::new(first_number, now));
        }
        let peer = self.peers.get_mut(&address)?;
        peer.used_at = now;
        Some(peer)
    }

    /// Peers remembered.
    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    #[test]
    fn peers__are_bounded_and_remembered_for_the_window() {
        let mut peers = Peers::new(4, Duration::from_secs(30), 1);
        let address = |port| SocketAddr::from(([10, 0, 0, 1], port));
        for port in 1..=4 {
            assert!(peers.entry(address(port), at(u64::from(port)), false).is_some());
        }
        assert!(peers.entry(address(5), at(10), false).is_none(), "all were heard lately");
        assert!(peers.entry(address(6), at(10), true).is_some(), "own sends find room");
        assert!(peers.entry(address(5), at(33), false).is_some(), "three are old by now");
        assert_eq!(peers.len(), 3);
    }

    #[test]
    fn numbers__stay_within_the_window_of_the_peer() {
        let mut peer = Peer::new(u32::MAX - 3, at(0));
        let taken: Vec<_> = std::iter::from_fn(|| peer.take_number(8)).collect();
        assert_eq!(taken.len(), 8);
        assert_eq!(taken[4].1, 0, "numbers wrap");
        // The oldest flow stays open: the others may run only as far as the window goes.
        let mut last = taken[7].0;
        for (count, _) in &taken[1..] {
            peer.release(*count);
        }
        while let Some((count, _)) = peer.take_number(8) {
            peer.release(count);
            last = count;
        }
        assert_eq!(last, u64::from(ReplayWindow::SPAN) / 2 - 1);
    }

    #[test]
    fn known__new_opened_done() {
        let mut peer = Peer::new(0, at(0));
        peer.learn(1);
        peer.note_opened(50);
        assert_eq!(peer.known(50), Known::Opened);
        assert_eq!(peer.known(49), Known::New, "an older flow may arrive later");
        peer.note_done(50);
        assert_eq!(peer.known(50), Known::Done);
        peer.note_opened(5_000);
        assert_eq!(peer.known(49), Known::Opened, "too old to know");
        assert!(!peer.is_far_ahead(5_000 + ReplayWindow::SPAN) && !peer.is_far_ahead(4_000));
        assert!(peer.is_far_ahead(5_001 + ReplayWindow::SPAN) && peer.is_far_ahead(1 << 30));
        peer.learn(2);
        assert_eq!(peer.known(50), Known::New, "another process counts anew");
        assert!(!peer.is_far_ahead(1 << 30));
    }
}
