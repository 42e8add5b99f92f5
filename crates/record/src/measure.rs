//! The measured window.

use punctual_core::Instant;

/// The measured window: flows that start in it are measured, and network counters cover it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measure {
    /// When it begins.
    pub from: Instant,
    /// When it ends; with the run when absent. A run that stops when done then waits only for the
    /// flows that start in the window.
    pub until: Option<Instant>,
}

impl Measure {
    /// Whether an instant is in the window.
    pub fn contains(&self, at: Instant) -> bool {
        at >= self.from && self.until.is_none_or(|until| at < until)
    }

    /// Whether a run that stops when done waits for a flow that starts then.
    pub fn awaits(&self, start: Instant) -> bool {
        self.until.is_none() || self.contains(start)
    }
}
