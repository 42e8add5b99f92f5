//! Round-trip time and retransmission timeout, RFC 6298 in integers.

use super::config::Settings;
use punctual_core::{Duration, Instant};

/// Smoothed round-trip time, its variation, and the timeout that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttEstimator {
    smoothed: Option<Duration>,
    variation: Duration,
    timeout: Duration,
    timeout_max: Duration,
    timeout_min: Duration,
    /// How often timers are looked at; zero for always.
    tick: Duration,
    /// Timeouts since data was last acknowledged.
    timeouts: u32,
}

impl RttEstimator {
    pub(super) fn new(settings: &Settings) -> Self {
        RttEstimator {
            smoothed: None,
            variation: Duration::ZERO,
            timeout: settings.rto_initial,
            timeout_min: settings.rto_min,
            timeout_max: settings.rto_max,
            tick: settings.rto_tick.unwrap_or(Duration::ZERO),
            timeouts: 0,
        }
    }

    /// The smoothed round-trip time, once one has been measured.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The timeout now, doubled for each one that has passed in vain. TCP-R10.
    pub fn timeout(&self) -> Duration {
        let factor = 1u64.checked_shl(self.timeouts).unwrap_or(u64::MAX);
        self.timeout.saturating_mul(factor).min(self.timeout_max)
    }

    /// When a timeout that starts now is noticed, should nothing come. TCP-R17.
    #[inline]
    pub(super) fn expires(&self, now: Instant) -> Instant {
        let at = now + self.timeout();
        if self.tick.is_zero() { at } else { next_tick(at, self.tick) }
    }

    /// Takes one measurement. TCP-R09.
    pub(super) fn sample(&mut self, rtt: Duration) {
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
            }
            Some(smoothed) => {
                let error = smoothed.max(rtt) - smoothed.min(rtt);
                self.variation = (self.variation * 3 + error) / 4;
                self.smoothed = Some((smoothed * 7 + rtt) / 8);
            }
        }
        let smoothed = self.smoothed.unwrap_or(rtt);
        let timeout = smoothed + self.variation * 4;
        self.timeout = timeout.max(self.timeout_min).min(self.timeout_max);
    }

    /// A timeout passed in vain; tells whether it was the first since data was acknowledged.
    pub(super) fn back_off(&mut self) -> bool {
        self.timeouts = self.timeouts.saturating_add(1);
        self.timeouts == 1
    }

    /// Whether a timeout has passed since data was last acknowledged.
    pub(crate) fn is_backed_off(&self) -> bool {
        self.timeouts > 0
    }

    /// New data was acknowledged.
    pub(super) fn end_backoff(&mut self) {
        self.timeouts = 0;
    }
}

/// The first multiple of `tick` after `at`.
fn next_tick(at: Instant, tick: Duration) -> Instant {
    let since = Duration::from_picos(at.as_picos() % tick.as_picos());
    at.saturating_add(tick - since)
}
