//! One file a command.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod list;
pub(crate) mod run;
pub(crate) mod transfer;

use crate::args::{Global, Study as StudyArgs};
use crate::progress::Board;
use anyhow::Context as _;
use punctual_lab::{ExecuteError, Options, PlannedRun, RunReport, Study, execute};
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
}

/// Reads a scenario and executes its plan.
pub(crate) fn execute_study(args: &StudyArgs, global: &Global) -> anyhow::Result<Done> {
    let study = Study::load(&args.file, &global.overrides())?;
    let out = global.out.clone().unwrap_or_else(|| PathBuf::from("results").join(study.name()));
    let runs = study.runs();
    let options =
        Options { out: out.clone(), threads: global.threads(), fresh: args.fresh, csv: args.csv };
    stop_on_ctrl_c()?;
    let board = Board::new(&runs, global.quiet);
    let result = execute(&study, &runs, &options, &board, &STOP);
    board.close();
    match result {
        Ok(reports) => {
            let reused = reports.iter().filter(|r| r.reused).count();
            if reused > 0 && !global.quiet {
                let mut stderr = std::io::stderr();
                let _ = writeln!(
                    stderr,
                    "{reused} of {} runs were there already (--fresh runs them again)",
                    runs.len()
                );
            }
            Ok(Done { study, runs, reports, out })
        }
        Err(error @ ExecuteError::Interrupted { .. }) => Err(error).with_context(|| {
            format!("finished runs are in {}; the same command goes on from there", out.display())
        }),
        Err(error) => Err(error.into()),
    }
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
