//! The capacity law: how much a port hands out, given what it saw (D3-R19 to D3-R21, D3-R42,
//! D3-R43).

use super::config::{CapacityRule, Params};
use punctual_core::{Duration, Rate};

/// What a port saw in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// L, the line rate.
    pub line_rate: Rate,
    /// T, how long.
    pub interval: Duration,
    /// u, bytes sent.
    pub sent_bytes: u64,
    /// q, bytes waiting, without the packet in service, as the measure has it.
    pub queue_bytes: u64,
    /// The capacity two intervals earlier. A grant shows a round trip after it was made and is in
    /// use for another, and T exceeds a round trip: nothing that was sent was granted before.
    pub capacity_before: Rate,
}

impl Load {
    /// The capacity for the next interval, after one of `capacity`.
    pub(super) fn next_capacity(&self, params: &Params, capacity: Rate) -> Rate {
        let seconds = self.interval.as_secs_f64();
        let [capacity, before, line] =
            [capacity, self.capacity_before, self.line_rate].map(|rate| rate.as_bps() as f64);
        let used = self.sent_bytes as f64 * 8.0 / seconds;
        let drain = params.beta * self.queue_bytes as f64 * 8.0 / seconds;
        let next = match params.capacity_rule {
            CapacityRule::LineRate => {
                // A packet counts whole where it starts, so that a little more than L may be used.
                let rise = params.alpha * (line - used).max(0.0);
                // What would have filled the line, had it been on offer.
                let filling = before + line - used;
                // D3-R42: rises under way count.
                let raised = (capacity + rise).min(filling.max(line));
                // D3-R43: and so do falls.
                (raised - drain).max(capacity.min(filling.min(line) - drain))
            }
            CapacityRule::Printed => capacity + params.alpha * (capacity - used) - drain,
        };
        let (low, high) = (params.capacity_min * line, params.capacity_max * line);
        Rate::from_bps(next.clamp(low, high) as u64)
    }
}
