//! The clock that drives transports, and waiting on the socket.

use crate::driver::WaitSet;
use punctual_core::{Duration, Instant};

/// A monotonic clock that reads 0 when it is created.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: std::time::Instant,
}

/// Typical lateness of a kernel wake-up. The clock spins for the last part of a wait.
pub(crate) const WAKE_LATENESS: Duration = Duration::from_micros(60);

impl Clock {
    /// A clock that reads zero now.
    pub fn start() -> Self {
        Clock { start: std::time::Instant::now() }
    }

    /// The current time.
    #[inline]
    pub fn now(&self) -> Instant {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // 64 bits of picoseconds overflow after 213 days; then the clock stops.
        Instant::from_picos(nanos.saturating_mul(1_000))
    }

    /// Moves the clock forward, as if the process had not run for this time.
    #[cfg(test)]
    pub(crate) fn skip(&mut self, time: std::time::Duration) {
        self.start -= time;
    }

    /// Waits until a socket is readable, at most until `wake`. Returns early if the wait is too short
    /// for a sleep: call again.
    pub(crate) fn wait(&self, sockets: &WaitSet, wake: Instant) -> std::io::Result<()> {
        let left = wake.saturating_since(self.now());
        if left <= WAKE_LATENESS {
            std::hint::spin_loop();
            return Ok(());
        }
        let time = std::time::Duration::from_nanos((left - WAKE_LATENESS).as_nanos());
        sockets.wait(None, time).map(drop)
    }
}
