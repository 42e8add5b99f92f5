//! One subflow: a TCP stream of segments on one path, and the data sequence mapping.

use crate::tcp::{Advance, Flight, TcpSettings};
use punctual_core::Duration;
use std::collections::VecDeque;

/// State of a subflow's sender.
///
/// The stream counts full segments: a shorter one also counts as full.
#[derive(Clone, Debug)]
pub(super) struct Subflow {
    pub(super) flight: Flight,
    pub(super) path: u32,
    mss_bytes: u64,
    /// The connection's segment in each segment from the first unacknowledged one on. Its memory
    /// grows with the window, by doubling.
    mapping: VecDeque<u64>,
    /// Segments below this have been reinjected or need not be.
    reinjected: u64,
    /// Segments below this were in flight at the last timeout.
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

    /// The segment that may be sent now: a retransmission, or with `fresh` a new one.
    #[inline]
    pub(super) fn may_send(&self, fresh: bool) -> Option<u64> {
        let end = self.flight.highest() + if fresh { self.mss_bytes } else { 0 };
        self.flight.next_segment(end).map(|(seq, _)| seq / self.mss_bytes)
    }

    /// The connection's segment that a segment carries, if it has been assigned.
    #[inline]
    pub(super) fn mapped(&self, segment: u64) -> Option<u64> {
        self.mapping.get((segment - self.first()) as usize).copied()
    }

    /// Assigns a segment of the connection to the next unsent segment.
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

    /// Offers all segments in flight for reinjection, after a timeout. MPTCP-R05.
    pub(super) fn offer_all(&mut self) {
        self.stuck = self.flight.highest() / self.mss_bytes;
    }

    /// The first segment of the connection to reinject.
    pub(super) fn offered(&self) -> Option<u64> {
        let segment = self.reinjected.max(self.first());
        if segment < self.stuck { self.mapped(segment) } else { None }
    }

    /// The segment that [`Subflow::offered`] returned was reinjected, or need not be.
    pub(super) fn take_offered(&mut self) {
        self.reinjected = self.reinjected.max(self.first()) + 1;
    }
}
