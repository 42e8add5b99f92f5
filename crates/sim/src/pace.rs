//! Whether several threads pay, by the events of the windows so far.
//!
//! The time that threads save is that of the events which others handle beside the busiest one.
//! They pay for it at the barrier of each window. Where one shard has most of the events, or all
//! have few, one thread goes on alone and handles all shards; the results are the same.

/// The number of windows after which it is decided anew.
const PERIOD: u64 = 64;

/// One thread goes on alone if others save it fewer events a window than this: half of what a thread
/// is used for, as `sharing.rs` estimates it before the run.
const SAVED_MIN: u64 = 128;

/// Several threads go on if they save as many.
const SAVED_AGAIN: u64 = 2 * SAVED_MIN;

/// The events of one window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WindowEvents {
    /// In all shards.
    all: u64,
    /// In the shard with the most.
    busiest: u64,
}

impl WindowEvents {
    /// Adds the events of a shard.
    pub(crate) fn add(&mut self, events: u64) {
        self.all += events;
        self.busiest = self.busiest.max(events);
    }
}

impl WindowEvents {
    /// The same run on one thread.
    pub(crate) fn by_one(self) -> Self {
        WindowEvents { busiest: self.all, ..self }
    }
}

/// The sums of the windows since the last decision.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pace {
    windows: u64,
    all: u64,
    busiest: u64,
}

impl Pace {
    /// Adds a window. At the end of a period: whether several threads pay, so that they save at
    /// least `saved_min` events a window and a fifth of all.
    fn judge(&mut self, window: WindowEvents, saved_min: u64) -> Option<bool> {
        self.windows += 1;
        self.all += window.all;
        self.busiest += window.busiest;
        if self.windows < PERIOD {
            return None;
        }
        let Pace { windows, all, busiest } = std::mem::take(self);
        let saved = all - busiest;
        Some(saved >= saved_min * windows && saved * 5 >= all)
    }
}

/// When one thread goes on alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PaceRule {
    /// Never.
    Fixed,
    /// While several do not pay.
    Measured,
    /// After this many windows, and for as many. For tests.
    #[cfg(test)]
    ByTurns(u64),
}

impl PaceRule {
    /// Whether one of several threads goes on alone after this window.
    pub(crate) fn leaves_threads(self, pace: &mut Pace, window: WindowEvents) -> bool {
        match self {
            PaceRule::Fixed => false,
            PaceRule::Measured => pace.judge(window, SAVED_MIN) == Some(false),
            #[cfg(test)]
            PaceRule::ByTurns(windows) => pace.is_turn(windows),
        }
    }

    /// Whether several threads go on after this window, which one thread has handled.
    pub(crate) fn returns_to_threads(self, pace: &mut Pace, window: WindowEvents) -> bool {
        match self {
            PaceRule::Fixed => true,
            PaceRule::Measured => pace.judge(window, SAVED_AGAIN) == Some(true),
            #[cfg(test)]
            PaceRule::ByTurns(windows) => pace.is_turn(windows),
        }
    }
}

#[cfg(test)]
impl Pace {
    fn is_turn(&mut self, windows: u64) -> bool {
        self.windows += 1;
        self.windows.is_multiple_of(windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_a_period(rule: PaceRule, shards: &[u64]) -> (bool, bool) {
        let mut window = WindowEvents::default();
        shards.iter().for_each(|events| window.add(*events));
        let (mut leaving, mut returning) = (Pace::default(), Pace::default());
        let mut answer = (false, false);
        for _ in 0..PERIOD {
            assert_eq!(answer, (false, false), "a decision within a period");
            answer = (
                rule.leaves_threads(&mut leaving, window),
                rule.returns_to_threads(&mut returning, window),
            );
        }
        answer
    }

    /// The thresholds lie apart, so that a run does not change to and fro.
    #[test]
    fn threads_pay_where_they_share_enough_events() {
        let after = |shards| after_a_period(PaceRule::Measured, shards);
        assert_eq!(after(&[256, 256]), (false, true));
        assert_eq!(after(&[200, 200]), (false, false));
        assert_eq!(after(&[120, 120]), (true, false), "few events");
        assert_eq!(after(&[5000, 10]), (true, false), "one busy shard");
        assert_eq!(after(&[5000, 1000]), (true, false), "less than a fifth is saved");
        assert_eq!(after(&[5000, 1300]), (false, true));
        assert_eq!(after(&[100, 100, 100, 100]), (false, true));
    }
}
