//! What a port notes of the packets that come to it between two steps of the capacity law.

use super::config::QueueMeasure;
use punctual_core::{Instant, Packet, PortView};

/// The least queues that packets of one interval found (D3-R37), and the largest packet (D3-R42).
#[derive(Clone, Copy, Debug)]
pub(super) struct Backlog {
    half_at: Instant,
    /// Of each half of the interval; none came in one that has the highest value.
    least_bytes: [u64; 2],
    largest_packet_bytes: u64,
}

impl Backlog {
    /// An interval that begins, half of which is over at `half_at`.
    pub(super) fn new(half_at: Instant) -> Self {
        Backlog { half_at, least_bytes: [u64::MAX; 2], largest_packet_bytes: 0 }
    }

    /// A packet comes to a port.
    #[inline]
    pub(super) fn note(&mut self, packet: &Packet, port: &PortView) {
        let least = &mut self.least_bytes[usize::from(port.now >= self.half_at)];
        *least = port.queue_bytes.min(*least);
        self.largest_packet_bytes = self.largest_packet_bytes.max(u64::from(packet.wire_bytes));
    }

    /// The q of the law, where `queue_bytes` wait at the end of the interval.
    pub(super) fn measured(&self, measure: QueueMeasure, queue_bytes: u64) -> u64 {
        let [before, after] = self.least_bytes;
        let after = after.min(queue_bytes);
        match measure {
            QueueMeasure::Instant => queue_bytes,
            QueueMeasure::Least => before.min(after),
            QueueMeasure::Standing => (after + after.saturating_sub(before)).min(queue_bytes),
        }
    }

    /// The largest packet that came, without what a link adds to it.
    pub(super) fn largest_packet_bytes(&self) -> u64 {
        self.largest_packet_bytes
    }
}
