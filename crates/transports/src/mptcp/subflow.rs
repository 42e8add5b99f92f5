//! One subflow: a TCP stream of segments on one path, and which bytes each of them holds.

use crate::tcp::{Advance, Flight, TcpSettings};
use punctual_core::Duration;
use std::collections::VecDeque;

/// State of a subflow's sending end.
///
/// The stream counts full segments: one that holds less than a full one takes as much of it.
#[derive(Clone, Debug)]
pub(super) struct Subflow {
    pub(super) flight: Flight,
    pub(super) path: u32,
    mss_bytes: u64,
    /// Which segment of the connection each segment from the first unacknowledged one holds.
    /// Grows with the window, by doubling.
    mapping: VecDeque<u64>,
    /// Segments below this were given to other subflows too, or need not be.
    reinjected: u64,
    /// Segments below this were in flight when the timeout last passed.
    stuck: u64,
}

impl Subflow {
    pub(super) fn new(settings: &TcpSettings, mss_bytes: u64, path: u32) -> Self {
        let room = settings.initial_window.next_power_of_two().clamp(16, 1024);
        Subflow {
            flight: Flight::new(settings, mss_bytes),
            path,
            mss_bytes,
            mapping: VecDeque::with_capacity(room as usize),
            reinjected: 0,
            stuck: 0,
        }
    }

    fn first(&self) -> u64 {
        self.flight.una() / self.mss_bytes
    }

    /// Whether a segment may go: one that went before, or `fresh` one of the connection's.
    #[inline]
    pub(super) fn may_send(&self, fresh: bool) -> Option<u64> {
        let end = self.flight.highest() + if fresh { self.mss_bytes } else { 0 };
        self.flight.next_segment(end).map(|(seq, _)| seq / self.mss_bytes)
    }

    /// Which segment of the connection a segment holds, once it has one.
    #[inline]
    pub(super) fn mapped(&self, segment: u64) -> Option<u64> {
        self.mapping.get((segment - self.first()) as usize).copied()
    }

    /// The next segment never sent holds this one of the connection.
    #[inline]
    pub(super) fn map(&mut self, data_segment: u64) {
        self.mapping.push_back(data_segment);
    }

    /// The receiver has every segment below `ack`: see [`Flight::advance`].
    #[inline]
    pub(super) fn advance(&mut self, ack: u64, rtt: Duration) -> Option<Advance> {
        let advance = self.flight.advance(ack.checked_mul(self.mss_bytes)?, rtt)?;
        self.mapping.drain(..(advance.newly_acked_bytes / self.mss_bytes) as usize);
        Some(advance)
    }

    /// The timeout passed: all that is in flight may be given to others. MPTCP-R05.
    pub(super) fn offer_all(&mut self) {
        self.stuck = self.flight.highest() / self.mss_bytes;
    }

    /// The first segment of the connection that is stuck here and that no other subflow has.
    pub(super) fn offered(&self) -> Option<u64> {
        let segment = self.reinjected.max(self.first());
        if segment < self.stuck { self.mapped(segment) } else { None }
    }

    /// What [`Subflow::offered`] gave was taken, or is not needed.
    pub(super) fn take_offered(&mut self) {
        self.reinjected = self.reinjected.max(self.first()) + 1;
    }
}
