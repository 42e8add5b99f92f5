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

impl PortTotals {
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
