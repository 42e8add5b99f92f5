//! Runs steps in order and reports the outcome and time of each.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// It passed, but some of its checks could not run on this machine: how many, and why the first.
    PassedExcept(String),
    /// It failed, for this reason.
    Failed(String),
    /// It could not run, for this reason.
    Skipped(String),
}

#[derive(Clone, Debug)]
struct StepReport {
    name: &'static str,
    outcome: Outcome,
    elapsed: Duration,
}

/// Runs steps and records their outcomes. A failure does not stop later steps.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// Whether a skipped step counts as failed.
    pub(crate) no_skips: bool,
    reports: Vec<StepReport>,
}

impl Steps {
    /// Reads the environment: `PUNCTUAL_NO_SKIPS`, unless empty or 0, makes skipped steps fail.
    pub(crate) fn from_env() -> Self {
        let no_skips = std::env::var("PUNCTUAL_NO_SKIPS").is_ok_and(|v| !v.is_empty() && v != "0");
        Steps { no_skips, reports: Vec::new() }
    }

    /// Runs a step. An error counts as a failure.
    pub(crate) fn run(
        &mut self,
        name: &'static str,
        step: impl FnOnce() -> anyhow::Result<Outcome>,
    ) {
        println!("==> {name}");
        let started = Instant::now();
        let mut outcome = step().unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        if let (true, Outcome::Skipped(why)) = (self.no_skips, &outcome) {
            outcome = Outcome::Failed(format!("skipped, which PUNCTUAL_NO_SKIPS forbids: {why}"));
        }
        let report = StepReport { name, outcome, elapsed: started.elapsed() };
        println!("<== {}\n", line(&report));
        self.reports.push(report);
    }

    /// Whether any step failed.
    pub(crate) fn failed(&self) -> bool {
        self.count(|outcome| matches!(outcome, Outcome::Failed(_))) > 0
    }

    /// The table of all steps; its last line counts the outcomes.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::new();
        for report in &self.reports {
            let _ = writeln!(text, "{}", line(report));
        }
        let total = self.reports.iter().map(|r| r.elapsed).sum::<Duration>();
        let _ = writeln!(text, "{:<14} {:<8} {:>7.1} s", "total", "", total.as_secs_f64());
        let _ = writeln!(
            text,
            "{} passed, {} failed, {} skipped",
            self.count(|outcome| matches!(outcome, Outcome::Passed | Outcome::PassedExcept(_))),
            self.count(|outcome| matches!(outcome, Outcome::Failed(_))),
            self.count(|outcome| matches!(outcome, Outcome::Skipped(_))),
        );
        text
    }

    fn count(&self, is: impl Fn(&Outcome) -> bool) -> usize {
        self.reports.iter().filter(|r| is(&r.outcome)).count()
    }
}

fn line(report: &StepReport) -> String {
    let (word, why) = match &report.outcome {
        Outcome::Passed => ("passed", ""),
        Outcome::PassedExcept(what) => ("passed", what.as_str()),
        Outcome::Failed(what) => ("FAILED", what.as_str()),
        Outcome::Skipped(why) => ("SKIPPED", why.as_str()),
    };
    let seconds = report.elapsed.as_secs_f64();
    format!("{:<14} {word:<8} {seconds:>7.1} s  {why}", report.name).trim_end().to_owned()
}
