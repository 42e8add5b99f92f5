//! Steps, one after the other, each with its outcome and time, and their sum at the end.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// How a step went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// What failed.
    Failed(String),
    /// Why it could not be tried.
    Skipped(String),
}

#[derive(Clone, Debug)]
struct Report {
    name: &'static str,
    outcome: Outcome,
    elapsed: Duration,
}

/// Runs steps and remembers how they went. A failure does not stop those that follow.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// Whether a skipped step counts as failed.
    pub(crate) no_skips: bool,
    reports: Vec<Report>,
}

impl Steps {
    /// As the environment says: `PUNCTUAL_NO_SKIPS`, unless empty or 0, forbids skipping.
    pub(crate) fn from_env() -> Self {
        let no_skips = std::env::var("PUNCTUAL_NO_SKIPS").is_ok_and(|v| !v.is_empty() && v != "0");
        Steps { no_skips, reports: Vec::new() }
    }

    /// Runs a step. An error is a failure.
    pub(crate) fn run(
        &mut self,
        name: &'static str,
        step: impl FnOnce() -> anyhow::Result<Outcome>,
    ) {
        println!("==> {name}");
        let started = Instant::now();
        let mut outcome = step().unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        if let (true, Outcome::Skipped(why)) = (self.no_skips, &outcome) {
            outcome = Outcome::Failed(format!("skips are forbidden, and this was one: {why}"));
        }
        let report = Report { name, outcome, elapsed: started.elapsed() };
        println!("<== {}\n", line(&report));
        self.reports.push(report);
    }

    /// Whether any step failed.
    pub(crate) fn failed(&self) -> bool {
        self.count(|outcome| matches!(outcome, Outcome::Failed(_))) > 0
    }

    /// The table of all steps; its last line is their sum.
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
            self.count(|outcome| *outcome == Outcome::Passed),
            self.count(|outcome| matches!(outcome, Outcome::Failed(_))),
            self.count(|outcome| matches!(outcome, Outcome::Skipped(_))),
        );
        text
    }

    fn count(&self, is: impl Fn(&Outcome) -> bool) -> usize {
        self.reports.iter().filter(|r| is(&r.outcome)).count()
    }
}

fn line(report: &Report) -> String {
    let (word, why) = match &report.outcome {
        Outcome::Passed => ("passed", ""),
        Outcome::Failed(what) => ("FAILED", what.as_str()),
        Outcome::Skipped(why) => ("SKIPPED", why.as_str()),
    };
    let seconds = report.elapsed.as_secs_f64();
    format!("{:<14} {word:<8} {seconds:>7.1} s  {why}", report.name).trim_end().to_owned()
}
