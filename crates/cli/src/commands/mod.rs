//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod capacity;
pub(crate) mod capture;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod difference;
pub(crate) mod explain;
#[cfg(target_os = "linux")]
pub(crate) mod hostd;
pub(crate) mod init;
pub(crate) mod kernel;
pub(crate) mod list;
#[cfg(target_os = "linux")]
mod metrics;
pub(crate) mod pairs;
pub(crate) mod perf;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod run;
#[cfg(target_os = "linux")]
pub(crate) mod session;
pub(crate) mod shell;
pub(crate) mod sweep;
#[cfg(target_os = "linux")]
pub(crate) mod switch;
#[cfg(target_os = "linux")]
pub(crate) mod testbed;
pub(crate) mod timing;
pub(crate) mod transfer;

use crate::args::{Execution, LevelArg, OnArg, Study as StudyArgs};
use crate::exit::UsageError;
use crate::progress::Board;
use anyhow::Context as _;
use punctual_lab::{
    ExecuteError, Options, PlannedRun, RunReport, RunState, Study, describe, execute_surveyed,
    load_study, survey,
};
use punctual_report::Style;
use punctual_results::{DirLock, Plan, PlanPoint, check_place, results_around};
use punctual_sim::Simulate;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

/// A study with all its runs finished.
pub(crate) struct Done<S: Simulate> {
    pub(crate) study: Study<S>,
    pub(crate) runs: Vec<PlannedRun<S>>,
    pub(crate) reports: Vec<RunReport>,
    pub(crate) out: PathBuf,
    /// The number of threads that made the runs, and that read them for figures and the report.
    pub(crate) threads: usize,
    plan: Plan,
    /// Held until everything is written, including figures and report.
    _lock: DirLock,
}

impl<S: Simulate> Done<S> {
    /// Warnings about results of a run that are easy to misread.
    pub(crate) fn warnings(&self, run: &PlannedRun<S>) -> &[String] {
        let dir = run.dir.display().to_string();
        let own = |point: &&PlanPoint| point.runs.iter().any(|planned| planned.directory == dir);
        self.plan.points.iter().find(own).map_or(&[], |point| &point.warnings)
    }
}

/// Reads a scenario and executes its plan.
pub(crate) fn execute_study<S: Simulate>(args: &StudyArgs) -> anyhow::Result<Done<S>> {
    let study = load_study::<S>(&args.file, &args.execution.overrides())?;
    execute_loaded(study, &args.execution)
}

/// Executes the plan of a study.
pub(crate) fn execute_loaded<S: Simulate>(
    study: Study<S>,
    execution: &Execution,
) -> anyhow::Result<Done<S>> {
    let options = options(&study, execution);
    let runs = study.runs();
    let lock = lock(&options.out)?;
    let states = look_at(&study, &runs, &options)?;
    say_reused(&states, execution.printing.quiet);
    execute_plan(study, runs, &states, options, execution.printing.quiet, lock)
}

/// Executes the plan of a study in a directory that was locked and whose runs have these states.
fn execute_plan<S: Simulate>(
    study: Study<S>,
    runs: Vec<PlannedRun<S>>,
    states: &[RunState],
    options: Options,
    quiet: bool,
    lock: DirLock,
) -> anyhow::Result<Done<S>> {
    // The plan is written first, so that a directory without all its runs is known to be
    // incomplete.
    let mut plan = study.plan_file(&runs);
    report::begin(&options.out)?;
    plan.write(&options.out)?;
    warn(&plan, quiet);
    let reports = execute_runs(&study, &runs, states, &options, quiet)?;
    plan.complete = true;
    plan.write(&options.out)?;
    let Options { out, threads, .. } = options;
    Ok(Done { study, runs, reports, out, threads, plan, _lock: lock })
}

/// Prints the warnings of a plan.
fn warn(plan: &Plan, quiet: bool) {
    let points = plan.points.iter().filter(|_| !quiet);
    for (point, warning) in points.flat_map(|p| p.warnings.iter().map(move |w| (p, w))) {
        let place: String = point.values.iter().map(|(k, v)| format!("{k} = {v}: ")).collect();
        let _ = writeln!(std::io::stderr(), "warning: {place}{warning}");
    }
}

/// The options of an execution, from the command line.
fn options<S: Simulate>(study: &Study<S>, args: &Execution) -> Options {
    let name = match (args.level, args.on) {
        (Some(LevelArg::Flow), _) => format!("{}-flow", study.name()),
        (_, Some(OnArg::Testbed)) => format!("{}-testbed", study.name()),
        _ => study.name().to_owned(),
    };
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("results").join(name));
    Options { out, threads: args.threads.get(), fresh: args.fresh, csv: args.csv, sync: true }
}

/// Locks a directory of results, so that no other command writes into it.
fn lock(out: &Path) -> anyhow::Result<DirLock> {
    if let Some(file) = out.ancestors().find(|path| path.is_file()) {
        let message = format!("--out {}: {} is a file", out.display(), file.display());
        return Err(UsageError(message).into());
    }
    check_place(out)?;
    if let Some(around) = out.parent().and_then(results_around) {
        let message = format!(
            "--out {} is inside {}, which holds results already; choose another directory",
            out.display(),
            around.display()
        );
        return Err(UsageError(message).into());
    }
    Ok(DirLock::take(out)?)
}

/// Locks the directory of results that contains `dir`, if there is one.
fn lock_around(dir: &Path) -> anyhow::Result<Option<DirLock>> {
    Ok(results_around(dir).map(|around| DirLock::take(&around)).transpose()?)
}

/// Finds out which runs can be reused. Fails if the directory holds runs of other settings.
fn look_at<S: Simulate>(
    study: &Study<S>,
    runs: &[PlannedRun<S>],
    options: &Options,
) -> anyhow::Result<Vec<RunState>> {
    stop_on_ctrl_c()?;
    Ok(survey(study, runs, options, &STOP)?)
}

/// Executes a plan with a progress display, until it is finished or Ctrl-C.
fn execute_runs<S: Simulate>(
    study: &Study<S>,
    runs: &[PlannedRun<S>],
    states: &[RunState],
    options: &Options,
    quiet: bool,
) -> anyhow::Result<Vec<RunReport>> {
    stop_on_ctrl_c()?;
    let board = Board::new(runs, quiet);
    let result = execute_surveyed(study, runs, states, options, &board, &STOP);
    board.close();
    match result {
        Ok(reports) => Ok(reports),
        Err(error @ ExecuteError::Interrupted { .. }) => Err(error).with_context(|| {
            let out = options.out.display();
            format!("finished runs are in {out}; the same command continues from there")
        }),
        Err(error) => Err(error.into()),
    }
}

/// Prints which runs are reused, and why others are not.
fn say_reused(states: &[RunState], quiet: bool) {
    if let Some(line) = describe(states).filter(|_| !quiet) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// The style of tables on standard output.
fn style() -> Style {
    if crate::exit::is_coloured(&std::io::stdout()) { Style::Colour } else { Style::Plain }
}

/// The width of the terminal of standard output; none for a file. `COLUMNS` takes precedence.
fn terminal_width() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.filter(|columns| *columns > 0).or_else(|| {
        let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
        Some(usize::from(width.0))
    })
}

/// Installs the Ctrl-C handler: the first Ctrl-C stops the runs, the second exits at once.
fn stop_on_ctrl_c() -> anyhow::Result<()> {
    static ONCE: OnceLock<()> = OnceLock::new();
    if ONCE.set(()).is_ok() {
        ctrlc::set_handler(|| {
            if STOP.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        })
        .context("cannot listen for Ctrl-C")?;
    }
    Ok(())
}
