//! Differences between two readings of the same counters.

use crate::{FlowCounts, PauseTotals, PortTotals, Totals};

impl Totals {
    /// What was counted between `before` and now.
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
            // A controller whose switch restarts counts anew.
            deadline_requests: self.deadline_requests.saturating_sub(before.deadline_requests),
            priority_inversions: self
                .priority_inversions
                .saturating_sub(before.priority_inversions),
            ..self.clone()
        }
    }
}

impl PortTotals {
    /// What was counted at the port between `before` and now; the longest pause stays.
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
    /// What was counted for the flow between `before` and now.
    pub fn since(&self, before: &FlowCounts) -> FlowCounts {
        FlowCounts {
            delivered: self.delivered - before.delivered,
            retransmits: self.retransmits - before.retransmits,
            retransmits_by: self.retransmits_by.zip(before.retransmits_by, |now, then| now - then),
            timeouts: self.timeouts - before.timeouts,
        }
    }
}
