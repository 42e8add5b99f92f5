//! What an experiment costs: its CPU time, and how long that takes on two processors.
//!
//! Times on a busy machine say little, CPU times do. From the CPU time of each run follows how long
//! an experiment takes on idle processors: its runs are handed to threads in order, and one thread
//! plans, reads and judges.

use punctual_lab::RunReport;
use punctual_lab::catalogue::Cost;

/// The number of processors that times are given for.
const PROCESSORS: usize = 2;

/// Adds up what the runs of an experiment cost.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// CPU seconds of all runs.
    runs: f64,
    /// CPU seconds of the runs that this process executed.
    executed: f64,
    /// Seconds that the runs take on two processors.
    wall: f64,
    /// Whether the CPU time of a run is not known.
    has_unknown: bool,
}

impl Meter {
    /// Adds runs that were executed together.
    pub(super) fn add(&mut self, reports: &[RunReport]) {
        self.has_unknown |= reports.iter().any(|report| report.cpu_seconds.is_none());
        let seconds = |report: &RunReport| report.cpu_seconds.unwrap_or(0.0);
        let all: Vec<f64> = reports.iter().map(seconds).collect();
        self.runs += all.iter().sum::<f64>();
        self.executed += reports.iter().filter(|r| !r.reused).map(seconds).sum::<f64>();
        self.wall += makespan(&all, PROCESSORS);
    }

    /// The cost, from the CPU seconds that this process took meanwhile; none if that of a run is
    /// not known.
    pub(super) fn cost(&self, process: f64) -> Option<Cost> {
        let alone = (process - self.executed).max(0.0);
        let round = |seconds: f64| (seconds * 100.0).round() / 100.0;
        let cost = Cost { cpu: round(self.runs + alone), wall: round(self.wall + alone) };
        (!self.has_unknown).then_some(cost)
    }
}

/// When the last of some tasks ends, if they start in order, each on the processor that is free
/// first.
fn makespan(tasks: &[f64], processors: usize) -> f64 {
    let mut free = vec![0.0; processors];
    for task in tasks {
        let first = free.iter_mut().min_by(|a: &&mut f64, b| a.total_cmp(b));
        *first.expect("a processor") += task;
    }
    free.into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_lab::RunState;
    use punctual_results::Summary;

    fn report(cpu_seconds: Option<f64>, reused: bool) -> RunReport {
        let state = if reused { RunState::Reusable } else { RunState::New };
        let wall = std::time::Duration::ZERO;
        RunReport {
            summary: Summary::default(),
            dir: "nowhere".into(),
            reused,
            state,
            wall,
            cpu_seconds,
        }
    }

    #[test]
    fn tasks_start_in_order_on_the_first_free_processor() {
        assert_eq!(makespan(&[3.0, 1.0, 1.0, 2.0], 2), 4.0);
        assert_eq!(makespan(&[1.0, 1.0, 4.0], 2), 5.0, "a long last task keeps one waiting");
        assert_eq!(makespan(&[2.0], 2), 2.0);
        assert_eq!(makespan(&[], 2), 0.0);
    }

    /// Runs share processors, batch after batch; the rest of the process's time does not.
    #[test]
    fn a_cost_counts_reused_runs_and_judging() {
        let mut meter = Meter::default();
        meter.add(&[report(Some(4.0), false), report(Some(2.0), true)]);
        meter.add(&[report(Some(3.0), false)]);
        assert_eq!(meter.cost(8.5), Some(Cost { cpu: 10.5, wall: 8.5 }));
        meter.add(&[report(None, false)]);
        assert_eq!(meter.cost(8.5), None, "an unknown time is no zero");
    }
}
