//! Completion times, some of them censored.

use crate::stats::{mean, sorted};
use crate::{FlowRow, FlowStatus};
use punctual_core::Duration;

/// What is known of a flow's completion time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Time {
    /// Exactly this.
    Completed(f64),
    /// At least this: it was unfinished when the run ended.
    Censored(f64),
    /// It never completes: its sender abandoned it after this time.
    Never(f64),
}

/// A statistic of times: a number, or a lower bound where censored flows leave it open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// There are no flows.
    Nothing,
    /// The number.
    Exactly(f64),
    /// A lower bound.
    AtLeast(f64),
}

impl Statistic {
    /// The number where it is known.
    pub fn exact(self) -> Option<f64> {
        if let Statistic::Exactly(value) = self { Some(value) } else { None }
    }

    /// The lower bound where there is only that.
    pub fn bound(self) -> Option<f64> {
        if let Statistic::AtLeast(value) = self { Some(value) } else { None }
    }
}

/// The times of some flows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times {
    /// Times of completed flows, in ascending order.
    completed: Vec<f64>,
    /// Lower bounds of the others, in ascending order; infinite for flows that never complete.
    open: Vec<f64>,
    /// How long the flows that never complete lasted, in the order given.
    given_up: Vec<f64>,
    /// The longest time that any flow is known to have lasted.
    longest: f64,
}

impl Times {
    /// The times of some flows, in any order.
    pub fn new(times: impl IntoIterator<Item = Time>) -> Times {
        let (mut completed, mut open, mut longest) = (Vec::new(), Vec::new(), 0.0f64);
        let mut given_up = Vec::new();
        for time in times {
            let known = match time {
                Time::Completed(time) => {
                    completed.push(time);
                    time
                }
                Time::Censored(bound) => {
                    open.push(bound);
                    bound
                }
                Time::Never(until) => {
                    open.push(f64::INFINITY);
                    given_up.push(until);
                    until
                }
            };
            longest = longest.max(known);
        }
        Times { completed: sorted(completed), open: sorted(open), given_up, longest }
    }

    /// The times of those flows for which `time` has a value.
    pub fn of<'a>(
        flows: impl Iterator<Item = &'a FlowRow>,
        time: impl Fn(&FlowRow) -> Option<Time>,
    ) -> Times {
        Times::new(flows.filter_map(time))
    }

    /// Times of completed flows, in ascending order.
    pub fn completed(&self) -> &[f64] {
        &self.completed
    }

    /// Lower bounds of the times of the other flows, in ascending order.
    pub fn open(&self) -> &[f64] {
        &self.open
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.completed.len() + self.open.len()
    }

    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The mean over all flows; a lower bound where some are unfinished or abandoned.
    ///
    /// These count with the time that they lasted.
    pub fn mean(&self) -> Statistic {
        let unfinished = self.open.iter().filter(|bound| bound.is_finite());
        let all = self.completed.iter().chain(unfinished).chain(&self.given_up);
        let all: Vec<f64> = all.copied().collect();
        match mean(&all) {
            None => Statistic::Nothing,
            Some(mean) if self.open.is_empty() => Statistic::Exactly(mean),
            Some(mean) => Statistic::AtLeast(mean),
        }
    }

    /// The nearest-rank percentile over all flows, 500 being the median.
    ///
    /// It is exact if it does not depend on what unfinished flows would have taken: the flows up to
    /// its rank have completed, and no unfinished flow had lasted for less. Otherwise it is a lower
    /// bound: the value of its rank if every unfinished flow ended when the run did. Flows that
    /// never complete rank after all others; a percentile among them exceeds every known time.
    pub fn percentile(&self, per_mille: u32) -> Statistic {
        let rank = crate::stats::rank(self.len(), per_mille);
        if self.is_empty() {
            return Statistic::Nothing;
        }
        let shortest_open = self.open.first().copied().unwrap_or(f64::INFINITY);
        if let Some(value) = self.completed.get(rank).filter(|value| **value <= shortest_open) {
            return Statistic::Exactly(*value);
        }
        let all = sorted(self.completed.iter().chain(&self.open).copied());
        Statistic::AtLeast(if all[rank].is_finite() { all[rank] } else { self.longest })
    }
}

impl FlowRow {
    /// What is known of its completion time, in microseconds.
    pub fn time_us(&self) -> Option<Time> {
        self.time(|time| time.as_micros_f64())
    }

    /// What is known of its slowdown; none where its FCT on an empty network is not known.
    pub fn time_slowdown(&self) -> Option<Time> {
        let ideal = self.ideal.filter(|ideal| !ideal.is_zero())?;
        self.time(|time| time.as_picos() as f64 / ideal.as_picos() as f64)
    }

    fn time(&self, unit: impl Fn(Duration) -> f64) -> Option<Time> {
        match self.status {
            FlowStatus::Completed => Some(Time::Completed(unit(self.fct?))),
            FlowStatus::Unfinished => Some(Time::Censored(unit(self.censored?))),
            FlowStatus::Abandoned => {
                let until = self.ended.map_or(Duration::ZERO, |at| at.saturating_since(self.start));
                Some(Time::Never(unit(until)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times(completed: &[f64], censored: &[f64]) -> Times {
        let known = completed.iter().map(|time| Time::Completed(*time));
        Times::new(known.chain(censored.iter().map(|bound| Time::Censored(*bound))))
    }

    #[test]
    fn a_percentile_inside_the_censored_share_is_a_bound() {
        let half = times(&[1.0, 2.0, 3.0, 4.0, 5.0], &[9.0, 9.0, 9.0, 9.0, 9.0]);
        assert_eq!(half.percentile(500), Statistic::Exactly(5.0));
        assert_eq!(half.percentile(990), Statistic::AtLeast(9.0));
        assert_eq!(half.mean(), Statistic::AtLeast(6.0));
        assert_eq!(times(&[1.0, 2.0, 6.0], &[]).mean(), Statistic::Exactly(3.0));
    }

    #[test]
    fn a_flow_that_was_cut_off_early_leaves_longer_times_open() {
        // The median is 1 if the flow cut off after 0.5 ends before 1, and 2 if it does not.
        let early = times(&[1.0, 2.0, 3.0], &[0.5]);
        assert_eq!(early.percentile(500), Statistic::AtLeast(1.0));
        let late = times(&[1.0, 2.0, 3.0], &[2.0]);
        assert_eq!(late.percentile(500), Statistic::Exactly(2.0));
        assert_eq!(late.percentile(750), Statistic::AtLeast(2.0));
    }

    #[test]
    fn what_is_given_up_is_beyond_all_others_and_leaves_the_mean_open() {
        let some = Times::new([Time::Completed(1.0), Time::Completed(3.0), Time::Never(2.0)]);
        assert_eq!(some.percentile(500), Statistic::Exactly(3.0));
        assert_eq!(some.percentile(990), Statistic::AtLeast(3.0));
        assert_eq!(some.mean(), Statistic::AtLeast(2.0));
        let none = Times::new([Time::Never(2.0)]);
        assert_eq!(
            (none.percentile(500), none.mean()),
            (Statistic::AtLeast(2.0), Statistic::AtLeast(2.0))
        );
    }

    #[test]
    fn nothing_has_no_statistics() {
        let none = Times::default();
        assert_eq!((none.percentile(990), none.mean()), (Statistic::Nothing, Statistic::Nothing));
    }

    proptest! {
        /// Whatever unfinished flows would have taken, an exact value stays and a bound holds.
        #[test]
        fn percentiles_hold_whatever_happens_after_the_run(
            completed in prop::collection::vec(0.0f64..10.0, 0..30),
            censored in prop::collection::vec((0.0f64..10.0, 0.0f64..10.0), 0..30),
            per_mille in 0u32..=1000,
        ) {
            let bounds: Vec<f64> = censored.iter().map(|(bound, _)| *bound).collect();
            let ends = censored.iter().map(|(bound, more)| bound + more);
            let truth = sorted(completed.iter().copied().chain(ends));
            let truth = crate::stats::percentile(&truth, per_mille);
            match (times(&completed, &bounds).percentile(per_mille), truth) {
                (Statistic::Nothing, None) => {}
                (Statistic::Exactly(value), Some(truth)) => prop_assert_eq!(value, truth),
                (Statistic::AtLeast(bound), Some(truth)) => prop_assert!(bound <= truth),
                (found, truth) => prop_assert!(false, "{found:?} {truth:?}"),
            }
        }
    }
}
