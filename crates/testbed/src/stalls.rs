//! How long a spinning thread stood still: the scheduler, the hypervisor or too much work kept it from
//! its next turn.

use punctual_core::{Duration, Instant};

/// Gaps between the turns of a thread that are longer than a packet time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stalls {
    longest_allowed: Duration,
    last: Option<Instant>,
    begun: Instant,
    total: Duration,
}

impl Stalls {
    /// A thread that stands still if it has no turn for longer than `packet_time`.
    pub(crate) fn new(packet_time: Duration) -> Stalls {
        Stalls {
            longest_allowed: packet_time,
            last: None,
            begun: Instant::ZERO,
            total: Duration::ZERO,
        }
    }

    /// A turn begins.
    #[inline]
    pub(crate) fn turn(&mut self, now: Instant) {
        match self.last.replace(now) {
            None => self.begun = now,
            Some(last) => {
                let gap = now.saturating_since(last);
                if gap > self.longest_allowed {
                    self.total += gap;
                }
            }
        }
    }

    /// The share of the time that the thread stood still, in per cent.
    pub(crate) fn percent(&self) -> f64 {
        let whole = self.last.map_or(Duration::ZERO, |last| last.saturating_since(self.begun));
        100.0 * self.total.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent__counts_gaps_longer_than_a_packet() {
        let mut stalls = Stalls::new(Duration::from_micros(100));
        for us in [50, 100, 200, 250, 450, 550, 1050] {
            stalls.turn(Instant::ZERO + Duration::from_micros(us));
        }
        // 200 us and 500 us of 1,000 us.
        assert!((stalls.percent() - 70.0).abs() < 1e-9, "{}", stalls.percent());
    }
}
