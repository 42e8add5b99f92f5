//! Round-trip time as a sender estimates it, and the timeout that follows from it.

use punctual_core::Duration;

/// Bounds of a retransmission timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RtoBounds {
    /// Before the first measurement.
    pub(crate) initial: Duration,
    /// Never shorter, once measured.
    pub(crate) min: Duration,
    /// Never longer, backing off included.
    pub(crate) max: Duration,
}

/// Smoothed round-trip time with its deviation: weights 1/8 and 1/4 as in TCP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RttEstimate {
    smoothed: Option<Duration>,
    least: Option<Duration>,
    deviation: Duration,
    timeouts: u32,
}

impl RttEstimate {
    /// Takes a measurement, rounding down to picoseconds.
    pub(crate) fn sample(&mut self, rtt: Duration) {
        self.timeouts = 0;
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(rtt);
            self.deviation = rtt / 2;
            return;
        };
        let error = rtt.saturating_sub(smoothed) + smoothed.saturating_sub(rtt);
        self.deviation = self.deviation - self.deviation / 4 + error / 4;
        self.smoothed = Some(smoothed - smoothed / 8 + rtt / 8);
    }

    /// The estimate, or zero before the first measurement.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or_default()
    }

    /// The shortest measured, or zero before the first.
    pub(crate) fn least(&self) -> Duration {
        self.least.unwrap_or_default()
    }

    /// A timeout passed: the next is twice as long.
    pub(crate) fn count_timeout(&mut self) {
        self.timeouts += 1;
    }

    /// Something arrived: timeouts are as long as at first.
    pub(crate) fn forget_timeouts(&mut self) {
        self.timeouts = 0;
    }

    /// How long to wait for an answer.
    pub(crate) fn rto(&self, bounds: RtoBounds) -> Duration {
        let first = match self.smoothed {
            None => bounds.initial,
            Some(smoothed) => (smoothed + self.deviation * 4).max(bounds.min),
        };
        first.saturating_mul(1 << self.timeouts.min(32)).min(bounds.max)
    }
}
