//! Differences between two readings of one set of counters.

use crate::{FlowCounts, PauseTotals, PortTotals, Totals};

impl Totals {
    /// The counts since `before`.
    pub fn since(&self, before: &Totals) -> Totals {
        Totals {
            delivered_packets: self.delivered_packets - before.delivered_packets,
            delivered_wire_bytes: self.delivered_wire_bytes - before.delivered_wire_bytes,
            delivered_bytes: self.delivered_bytes - before.delivered_bytes,
            drops: self.drops - before.drops,
            losses: self.losses - before.losses,
            trims: self.trims - before.trims,
            bounces: self.bounces - before.bounces,
            marks: self.marks - before.marks,
            pauses: self.pauses - before.pauses,
            paused: self.paused.saturating_sub(before.paused),
            retransmits: self.retransmits - before.retransmits,
            retransmits_by: self.retransmits_by.zip(before.retransmits_by, |now, then| now - then),
            timeouts: self.timeouts - before.timeouts,
            // A controller starts again from zero when its switch restarts.
            deadline_requests: self.deadline_requests.saturating_sub(before.deadline_requests),
            priority_inversions: self
                .priority_inversions
                .saturating_sub(before.priority_inversions),
            ..self.clone()
        }
    }
}

impl Totals {
    /// The counts of two shares of a run together. Neither share has counted what the other has.
    pub fn plus(&self, other: &Totals) -> Totals {
        Totals {
            measure: self.measure,
            ended_at: self.ended_at.max(other.ended_at),
            events: self.events + other.events,
            packet_hops: self.packet_hops + other.packet_hops,
            delivered_packets: self.delivered_packets + other.delivered_packets,
            delivered_wire_bytes: self.delivered_wire_bytes + other.delivered_wire_bytes,
            delivered_bytes: self.delivered_bytes + other.delivered_bytes,
            drops: self.drops + other.drops,
            losses: self.losses + other.losses,
            trims: self.trims + other.trims,
            bounces: self.bounces + other.bounces,
            marks: self.marks + other.marks,
            pauses: self.pauses + other.pauses,
            paused: self.paused + other.paused,
            longest_pause: self.longest_pause.max(other.longest_pause),
            most_buffered: self.most_buffered.max(other.most_buffered),
            retransmits: self.retransmits + other.retransmits,
            retransmits_by: self.retransmits_by.zip(other.retransmits_by, |a, b| a + b),
            timeouts: self.timeouts + other.timeouts,
            deadline_requests: self.deadline_requests + other.deadline_requests,
            priority_inversions: self.priority_inversions + other.priority_inversions,
        }
    }
}

impl PortTotals {
    /// The counts of two shares of a run together.
    pub fn plus(&self, other: &PortTotals) -> PortTotals {
        PortTotals {
            sent_bytes: self.sent_bytes + other.sent_bytes,
            sent_packets: self.sent_packets + other.sent_packets,
            drops: self.drops + other.drops,
            trims: self.trims + other.trims,
            bounces: self.bounces + other.bounces,
            marks: self.marks + other.marks,
            pauses: PauseTotals {
                sent: self.pauses.sent + other.pauses.sent,
                received: self.pauses.received + other.pauses.received,
                time: self.pauses.time + other.pauses.time,
                longest: self.pauses.longest.max(other.pauses.longest),
            },
        }
    }

    /// The counts of the port since `before`; the longest pause is of the whole run.
    pub fn since(&self, before: &PortTotals) -> PortTotals {
        PortTotals {
            sent_bytes: self.sent_bytes - before.sent_bytes,
            sent_packets: self.sent_packets - before.sent_packets,
            drops: self.drops - before.drops,
            trims: self.trims - before.trims,
            bounces: self.bounces - before.bounces,
            marks: self.marks - before.marks,
            pauses: PauseTotals {
                sent: self.pauses.sent - before.pauses.sent,
                received: self.pauses.received - before.pauses.received,
                time: self.pauses.time.saturating_sub(before.pauses.time),
                longest: self.pauses.longest,
            },
        }
    }
}

impl FlowCounts {
    /// The counts of two shares of a run together.
    pub fn plus(&self, other: &FlowCounts) -> FlowCounts {
        FlowCounts {
            delivered: self.delivered + other.delivered,
            retransmits: self.retransmits + other.retransmits,
            retransmits_by: self.retransmits_by.zip(other.retransmits_by, |a, b| a + b),
            timeouts: self.timeouts + other.timeouts,
        }
    }

    /// The counts of the flow since `before`.
    pub fn since(&self, before: &FlowCounts) -> FlowCounts {
        FlowCounts {
            delivered: self.delivered - before.delivered,
            retransmits: self.retransmits - before.retransmits,
            retransmits_by: self.retransmits_by.zip(before.retransmits_by, |now, then| now - then),
            timeouts: self.timeouts - before.timeouts,
        }
    }
}
