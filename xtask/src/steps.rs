//! Runs steps in order and reports the outcome and time of each.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::sync::Mutex;
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

#[derive(Clone, Debug, PartialEq)]
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
    started: Option<Instant>,
}

impl Steps {
    /// Reads the environment: `PUNCTUAL_NO_SKIPS`, unless empty or 0, makes skipped steps fail.
    pub(crate) fn from_env() -> Self {
        let no_skips = std::env::var("PUNCTUAL_NO_SKIPS").is_ok_and(|v| !v.is_empty() && v != "0");
        Steps { no_skips, reports: Vec::new(), started: Some(Instant::now()) }
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

    /// Runs lanes of steps beside each other: in each lane one step after the other, each in a process
    /// of its own, which `command` starts by the name of the step. The output of a step is shown when
    /// it has ended.
    pub(crate) fn run_beside(
        &mut self,
        lanes: &[Vec<&'static str>],
        command: impl Fn(&str) -> Command + Sync,
    ) {
        let reports = Mutex::new(&mut self.reports);
        std::thread::scope(|scope| {
            for lane in lanes {
                let (command, reports) = (&command, &reports);
                scope.spawn(move || {
                    for name in lane.iter().copied() {
                        let (text, report) = run_apart(name, &mut command(name));
                        let mut reports = reports.lock().expect("no lane panics");
                        println!("{text}<== {}\n", line(&report));
                        reports.push(report);
                    }
                });
            }
        });
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
        let total = self.started.map_or(Duration::ZERO, |started| started.elapsed());
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

/// Runs the process of one step. Returns its output up to the line of its outcome, and the outcome.
fn run_apart(name: &'static str, command: &mut Command) -> (String, StepReport) {
    let started = Instant::now();
    let failed = |what: String| StepReport {
        name,
        outcome: Outcome::Failed(what),
        elapsed: started.elapsed(),
    };
    // One pipe for both, so that messages keep their order.
    let output = match output_of(command) {
        Ok(output) => output,
        Err(error) => return (String::new(), failed(format!("cannot run it: {error}"))),
    };
    let end = output.rfind("\n<== ").map(|at| at + 1);
    let report = end.and_then(|at| outcome_in(output[at..].lines().next()?));
    match (end, report) {
        (Some(end), Some((outcome, elapsed))) => {
            (output[..end].to_owned(), StepReport { name, outcome, elapsed })
        }
        _ => (output, failed("it ended without an outcome".into())),
    }
}

/// What a process prints on standard output and standard error, in order.
fn output_of(command: &mut Command) -> std::io::Result<String> {
    let (mut reader, writer) = std::io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds writing ends, too: without this, reading does not end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut bytes)?;
    child.wait()?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The outcome and time in the line that [`Steps::run`] prints at the end of a step.
fn outcome_in(end: &str) -> Option<(Outcome, Duration)> {
    let words = end.strip_prefix("<== ")?;
    let (_name, rest) = words.split_once(' ')?;
    let (word, rest) = rest.trim_start().split_once(' ')?;
    let (seconds, why) = rest.trim_start().split_once(" s")?;
    let why = why.trim_start().to_owned();
    let outcome = match word {
        "passed" if why.is_empty() => Outcome::Passed,
        "passed" => Outcome::PassedExcept(why),
        "FAILED" => Outcome::Failed(why),
        "SKIPPED" => Outcome::Skipped(why),
        _ => return None,
    };
    Some((outcome, Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?))
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
