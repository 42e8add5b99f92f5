//! One file a command.

pub(crate) mod bench;
pub(crate) mod capacity;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod difference;
pub(crate) mod explain;
pub(crate) mod init;
pub(crate) mod list;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod transfer;

use crate::args::{Global, Study as StudyArgs};
use crate::progress::Board;
use anyhow::Context as _;
use punctual_lab::{ExecuteError, Options, PlannedRun, RunReport, Study, execute};
use punctual_report::Style;
use punctual_results::{Plan, PlanPoint};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

/// A study with all its runs done.
pub(crate) struct Done {
    pub(crate) study: Study,
    pub(crate) runs: Vec<PlannedRun>,
    pub(crate) reports: Vec<RunReport>,
    pub(crate) out: PathBuf,
    plan: Plan,
}

impl Done {
    /// What makes the results of a run easy to misread.
    pub(crate) fn warnings(&self, run: &PlannedRun) -> &[String] {
        let dir = run.dir.display().to_string();
        let own = |point: &&PlanPoint| point.runs.iter().any(|planned| planned.directory == dir);
        self.plan.points.iter().find(own).map_or(&[], |point| &point.warnings)
    }
}

/// Reads a scenario and executes its plan.
pub(crate) fn execute_study(args: &StudyArgs, global: &Global) -> anyhow::Result<Done> {
    let study = Study::load(&args.file, &global.overrides())?;
    let options = options(&study, args, global);
    let runs = study.runs();
    // What is to come, so that a directory of which only some is there can be told as such.
    let mut plan = study.plan_file(&runs);
    report::begin(&options.out)?;
    plan.write(&options.out)?;
    warn(&plan, global.quiet);
    let reports = execute_runs(&study, &runs, &options, global.quiet)?;
    plan.complete = true;
    plan.write(&options.out)?;
    let reused = reports.iter().filter(|r| r.reused).count();
    say_reused(reused, runs.len(), global.quiet);
    Ok(Done { study, runs, reports, out: options.out, plan })
}

/// Says what makes results easy to misread, before they are made.
fn warn(plan: &Plan, quiet: bool) {
    let points = plan.points.iter().filter(|_| !quiet);
    for (point, warning) in points.flat_map(|p| p.warnings.iter().map(move |w| (p, w))) {
        let place: String = point.values.iter().map(|(k, v)| format!("{k} = {v}: ")).collect();
        let _ = writeln!(std::io::stderr(), "warning: {place}{warning}");
    }
}

/// How to execute what the command line asks for.
fn options(study: &Study, args: &StudyArgs, global: &Global) -> Options {
    let out = global.out.clone().unwrap_or_else(|| PathBuf::from("results").join(study.name()));
    Options { out, threads: global.threads(), fresh: args.fresh, csv: args.csv }
}

/// Executes a plan, showing how it gets on, until its end or Ctrl-C.
fn execute_runs(
    study: &Study,
    runs: &[PlannedRun],
    options: &Options,
    quiet: bool,
) -> anyhow::Result<Vec<RunReport>> {
    stop_on_ctrl_c()?;
    let board = Board::new(runs, quiet);
    let result = execute(study, runs, options, &board, &STOP);
    board.close();
    match result {
        Ok(reports) => Ok(reports),
        Err(error @ ExecuteError::Interrupted { .. }) => Err(error).with_context(|| {
            let out = options.out.display();
            format!("finished runs are in {out}; the same command goes on from there")
        }),
        Err(error) => Err(error.into()),
    }
}

/// Says how many runs were there already.
fn say_reused(reused: usize, all: usize, quiet: bool) {
    if reused > 0 && !quiet {
        let text = format!("{reused} of {all} runs were there already (--fresh runs them again)");
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}

/// How tables look where standard output goes.
fn style() -> Style {
    if crate::exit::colour(&std::io::stdout()) { Style::Colour } else { Style::Plain }
}

/// How wide the terminal is that standard output goes to; files have no width. `COLUMNS` is
/// believed first.
fn terminal_width() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.filter(|columns| *columns > 0).or_else(|| {
        let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
        Some(usize::from(width.0))
    })
}

/// The first Ctrl-C asks the runs to stop, the second does not wait for them. What is being
/// written then keeps a name that says so.
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
