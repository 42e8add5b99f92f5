//! Estimation of the round-trip time (RTT) and the retransmission timeout (RTO) that follows:
//! RFC 6298 in integers.

use punctual_core::{Duration, Instant};

/// Bounds of the retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoBounds {
    /// The timeout before the first RTT sample.
    pub initial: Duration,
    /// The shortest timeout after the first RTT sample.
    pub min: Duration,
    /// The longest timeout, exponential backoff included.
    pub max: Duration,
}

/// Where the weighted means of an [`RttEstimator`] round down to picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Once, after the addition: `(7 · SRTT + R) / 8`.
    Sum,
    /// Each term: `SRTT − SRTT / 8 + R / 8`.
    Terms,
}

impl Rounding {
    /// `(1 − 1/weight) · mean + sample / weight`.
    #[inline(always)]
    fn mean(self, mean: Duration, sample: Duration, weight: u64) -> Duration {
        match self {
            Rounding::Sum => (mean * (weight - 1) + sample) / weight,
            Rounding::Terms => mean - mean / weight + sample / weight,
        }
    }
}

/// Smoothed RTT, its mean deviation, and the number of timeouts since the last progress.
///
/// For each sample R, after the first, which sets `SRTT = R` and `RTTVAR = R / 2`:
///
/// ```text
/// RTTVAR ← ¾ · RTTVAR + ¼ · |SRTT − R|
/// SRTT   ← ⅞ · SRTT + ⅛ · R
/// RTO    = min(max(SRTT + 4 · RTTVAR, RTO_min) · 2^timeouts, RTO_max)
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RttEstimator {
    smoothed: Option<Duration>,
    deviation: Duration,
    timeouts: u32,
}

impl RttEstimator {
    /// SRTT, or nothing before the first sample.
    #[inline]
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// SRTT, or zero before the first sample.
    #[inline]
    pub(crate) fn smoothed_or_zero(&self) -> Duration {
        self.smoothed.unwrap_or_default()
    }

    /// Adds an RTT sample. It does not end the backoff.
    #[inline]
    pub(crate) fn sample(&mut self, rtt: Duration, rounding: Rounding) {
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(rtt);
            self.deviation = rtt / 2;
            return;
        };
        let error = smoothed.max(rtt) - smoothed.min(rtt);
        self.deviation = rounding.mean(self.deviation, error, 4);
        self.smoothed = Some(rounding.mean(smoothed, rtt, 8));
    }

    /// Counts a timeout, which doubles the RTO. Returns whether it was the first since the last
    /// progress.
    #[inline]
    pub(crate) fn back_off(&mut self) -> bool {
        self.timeouts = self.timeouts.saturating_add(1);
        self.timeouts == 1
    }

    /// Whether a timeout has passed since the last progress.
    pub(crate) fn is_backed_off(&self) -> bool {
        self.timeouts > 0
    }

    /// Ends the exponential backoff, because new data was acknowledged.
    #[inline]
    pub(crate) fn end_backoff(&mut self) {
        self.timeouts = 0;
    }

    /// The retransmission timeout, backoff included.
    #[inline]
    pub fn rto(&self, bounds: &RtoBounds) -> Duration {
        let base = match self.smoothed {
            None => bounds.initial,
            Some(smoothed) => (smoothed + self.deviation * 4).max(bounds.min),
        };
        base.saturating_mul(1 << self.timeouts.min(63)).min(bounds.max)
    }
}

/// The first multiple of `tick` after `at`: when a host that polls its timers each `tick` notices
/// a timeout.
pub(crate) fn next_tick(at: Instant, tick: Duration) -> Instant {
    let since = Duration::from_picos(at.as_picos() % tick.as_picos());
    at.saturating_add(tick - since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_of_terms_and_of_the_sum_differ_by_picoseconds() {
        let picos = Duration::from_picos;
        for (rounding, smoothed) in [(Rounding::Sum, 806), (Rounding::Terms, 807)] {
            let mut estimate = RttEstimator::default();
            estimate.sample(picos(807), rounding);
            estimate.sample(picos(801), rounding);
            // 807 − 807/8 + 801/8 = 806.25
            assert_eq!(estimate.smoothed(), Some(picos(smoothed)));
        }
    }
}
