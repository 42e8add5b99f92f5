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
    time: Time,
}

/// The time that a step took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Time {
    elapsed: Duration,
    /// CPU time of the processes it ran, on all processors. A step whose CPU time is below the time
    /// elapsed times the number of processors leaves processors idle.
    cpu: Duration,
}

/// Measures the time of a step.
#[derive(Clone, Copy, Debug)]
struct Stopwatch {
    started: Instant,
    cpu_before: Duration,
}

impl Stopwatch {
    fn start() -> Self {
        Stopwatch { started: Instant::now(), cpu_before: cpu_time_of_children() }
    }

    fn read(&self) -> Time {
        let cpu = cpu_time_of_children().saturating_sub(self.cpu_before);
        Time { elapsed: self.started.elapsed(), cpu }
    }
}

/// CPU time of all processes that this one started and that have ended. 0 where the system does not
/// say it as Linux does.
fn cpu_time_of_children() -> Duration {
    // Linux reports ticks of a hundredth of a second to programs, whatever its clock.
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field, the name in parentheses, may contain anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = |field: usize| fields.split_whitespace().nth(field - 3)?.parse::<u32>().ok();
    let (user, system) = (ticks(16).unwrap_or(0), ticks(17).unwrap_or(0));
    TICK * user.saturating_add(system)
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
        let stopwatch = Stopwatch::start();
        let mut outcome = step().unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        if let (true, Outcome::Skipped(why)) = (self.no_skips, &outcome) {
            outcome = Outcome::Failed(format!("skipped, which PUNCTUAL_NO_SKIPS forbids: {why}"));
        }
        let report = StepReport { name, outcome, time: stopwatch.read() };
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
        let elapsed = self.started.map_or(Duration::ZERO, |started| started.elapsed());
        let total = Time { elapsed, cpu: self.reports.iter().map(|report| report.time.cpu).sum() };
        let _ = writeln!(text, "{:<14} {:<8} {}", "total", "", seconds(total));
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
    let stopwatch = Stopwatch::start();
    let failed =
        |what: String| StepReport { name, outcome: Outcome::Failed(what), time: stopwatch.read() };
    // One pipe for both, so that messages keep their order.
    let output = match output_of(command) {
        Ok(output) => output,
        Err(error) => return (String::new(), failed(format!("cannot run it: {error}"))),
    };
    let end = output.rfind("\n<== ").map(|at| at + 1);
    let report = end.and_then(|at| outcome_in(output[at..].lines().next()?));
    match (end, report) {
        (Some(end), Some((outcome, time))) => {
            (output[..end].to_owned(), StepReport { name, outcome, time })
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
fn outcome_in(end: &str) -> Option<(Outcome, Time)> {
    let words = end.strip_prefix("<== ")?;
    let (_name, rest) = words.split_once(' ')?;
    let (word, rest) = rest.trim_start().split_once(' ')?;
    let (elapsed, rest) = rest.trim_start().split_once(" s")?;
    let (cpu, why) = rest.trim_start().split_once(" s CPU")?;
    let why = why.trim_start().to_owned();
    let outcome = match word {
        "passed" if why.is_empty() => Outcome::Passed,
        "passed" => Outcome::PassedExcept(why),
        "FAILED" => Outcome::Failed(why),
        "SKIPPED" => Outcome::Skipped(why),
        _ => return None,
    };
    let duration = |text: &str| Duration::try_from_secs_f64(text.trim().parse().ok()?).ok();
    Some((outcome, Time { elapsed: duration(elapsed)?, cpu: duration(cpu)? }))
}

fn line(report: &StepReport) -> String {
    let (word, why) = match &report.outcome {
        Outcome::Passed => ("passed", ""),
        Outcome::PassedExcept(what) => ("passed", what.as_str()),
        Outcome::Failed(what) => ("FAILED", what.as_str()),
        Outcome::Skipped(why) => ("SKIPPED", why.as_str()),
    };
    let seconds = seconds(report.time);
    format!("{:<14} {word:<8} {seconds}  {why}", report.name).trim_end().to_owned()
}

/// Time elapsed and CPU time, in columns.
fn seconds(time: Time) -> String {
    format!("{:>7.1} s {:>7.1} s CPU", time.elapsed.as_secs_f64(), time.cpu.as_secs_f64())
}
