//! How long a spinning thread stood still: the scheduler, the hypervisor or too much work kept it from
//! its next turn.

use nix::sys::resource::{UsageWho, getrusage};
use punctual_core::{Duration, Instant};

/// Gaps between the turns of a thread that are longer than a packet time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stalls {
    longest_allowed: Duration,
    last: Option<Instant>,
    begun: Instant,
    total: Duration,
    before: Schedule,
}

/// What the kernel has counted for a thread.
#[derive(Debug, Clone, Copy, Default)]
struct Schedule {
    /// How long it waited for a processor.
    waited: std::time::Duration,
    page_faults: i64,
}

impl Schedule {
    /// That of this thread, so far.
    fn now() -> Schedule {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let waited = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        let usage = getrusage(UsageWho::RUSAGE_THREAD);
        let faults = usage.map_or(0, |u| u.minor_page_faults() + u.major_page_faults());
        let waited = std::time::Duration::from_nanos(waited.unwrap_or(0));
        Schedule { waited, page_faults: faults }
    }
}

/// How long a thread stood still, and what the kernel says about it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StallReport {
    /// The share of the time that it stood still, in per cent.
    pub(crate) percent: f64,
    /// How long it waited for a processor that others had, in time of the machine.
    pub(crate) waited: std::time::Duration,
    /// How often it waited for memory.
    pub(crate) page_faults: i64,
}

impl Stalls {
    /// A thread that stands still if it has no turn for longer than `packet_time`.
    pub(crate) fn new(packet_time: Duration) -> Stalls {
        Stalls {
            longest_allowed: packet_time,
            last: None,
            begun: Instant::ZERO,
            total: Duration::ZERO,
            before: Schedule::now(),
        }
    }

    /// Reports on the thread since its first turn. Call it on that thread.
    pub(crate) fn report(&self) -> StallReport {
        let now = Schedule::now();
        StallReport {
            percent: self.percent(),
            waited: now.waited.saturating_sub(self.before.waited),
            page_faults: now.page_faults - self.before.page_faults,
        }
    }

    /// A turn begins.
    #[inline]
    pub(crate) fn turn(&mut self, now: Instant) {
        match self.last.replace(now) {
            None => (self.begun, self.before) = (now, Schedule::now()),
            Some(last) => {
                let gap = now.saturating_since(last);
                if gap > self.longest_allowed {
                    self.total += gap;
                }
            }
        }
    }

    /// The share of the time that the thread stood still, in per cent.
    fn percent(&self) -> f64 {
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
