//! The capacity law `C ← C + α(L − u/T) − β·q/T` and its variants (D3-R19 to D3-R21, D3-R42 to
//! D3-R44).

use super::config::{CapacityRule, D3CommonConfig};
use punctual_core::{Duration, Rate};

/// Share of its capacity that a port must have granted for the gated rule to raise it (D3-R44).
pub(super) const FULLY_GRANTED: f64 = 0.95;

/// A port's utilisation and queue in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortLoad {
    /// L, the line rate.
    pub line_rate: Rate,
    /// T, the length of the interval.
    pub interval: Duration,
    /// u, bytes sent.
    pub sent_bytes: u64,
    /// q, bytes queued, without the packet in service, as `queue_measure` selects.
    pub queue_bytes: u64,
    /// Whether A had reached 95 % of C when the interval began. Only [`CapacityRule::Gated`] uses
    /// it.
    pub was_fully_granted: bool,
    /// C two intervals earlier. Only [`CapacityRule::Predictive`] uses it: a grant takes effect one
    /// RTT after it was made, lasts another, and T exceeds an RTT, so that everything sent in the
    /// interval was granted from this C or a later one.
    pub capacity_before: Rate,
}

impl PortLoad {
    /// The capacity for the next interval, after one of `capacity`.
    pub(super) fn next_capacity(&self, params: &D3CommonConfig, capacity: Rate) -> Rate {
        let seconds = self.interval.as_secs_f64();
        let [capacity, before, line] =
            [capacity, self.capacity_before, self.line_rate].map(|rate| rate.as_bps() as f64);
        let used = self.sent_bytes as f64 * 8.0 / seconds;
        let drain = params.beta * self.queue_bytes as f64 * 8.0 / seconds;
        let rise = params.alpha * (line - used);
        let next = match params.capacity_rule {
            CapacityRule::Printed => capacity + params.alpha * (capacity - used) - drain,
            CapacityRule::LineRate => capacity + rise - drain,
            CapacityRule::Gated if self.was_fully_granted => capacity + rise - drain,
            CapacityRule::Gated => capacity + rise.min(0.0) - drain,
            CapacityRule::Predictive => {
                // A packet counts whole where it starts, so that a little more than L may be used.
                let rise = rise.max(0.0);
                // The capacity that would have filled the line.
                let filling = before + line - used;
                // D3-R42: rises under way count.
                let raised = (capacity + rise).min(filling.max(line));
                // D3-R43: and so do falls.
                (raised - drain).max(capacity.min(filling.min(line) - drain))
            }
        };
        let (low, high) = (params.capacity_min * line, params.capacity_max * line);
        Rate::from_bps(next.clamp(low, high) as u64)
    }
}
