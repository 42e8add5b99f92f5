//! `run`, `compare`, `capacity`, `explain` and reports.

use crate::call::{Work, call};
use crate::scenario::Scenario;
use punctual_cli::library;
use punctual_lab::{
    CapacitySearch, Options, PlannedRun, Question, RunReport, RunState, Study, execute_surveyed,
    survey,
};
use punctual_results::{DirLock, check_place};
use punctual_transports::AnyTransport;
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// How runs are executed.
#[derive(FromPyObject)]
pub(crate) struct Execution {
    /// The directory of results; `results/NAME` without.
    pub(crate) out: Option<PathBuf>,
    /// Runs at a time; one for each processor without.
    pub(crate) threads: Option<usize>,
    pub(crate) fresh: bool,
    pub(crate) csv: bool,
}

impl Execution {
    pub(crate) fn options(&self, name: &str) -> Options {
        let all = || std::thread::available_parallelism().map_or(1, |n| n.get());
        Options {
            out: self.out.clone().unwrap_or_else(|| Path::new("results").join(name)),
            threads: self.threads.unwrap_or_else(all).max(1),
            fresh: self.fresh,
            csv: self.csv,
            sync: true,
        }
    }
}

/// Runs a scenario into a directory of results, with figures if it is a comparison. Returns JSON.
#[pyfunction]
pub(crate) fn study(
    py: Python<'_>,
    scenario: Scenario,
    execution: Execution,
    is_comparison: bool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    call(py, progress.as_ref(), |work| {
        let study = scenario.load()?;
        let options = execution.options(study.name());
        check_place(&options.out)?;
        let _lock = DirLock::take(&options.out)?;
        let runs = study.runs();
        let states = survey(&study, &runs, &options, &work.stop)?;
        Ok(complete(&study, &runs, &states, &options, is_comparison, work)?.to_string())
    })
}

/// Executes all runs of a study, whose directory is locked and has them in these states, and writes
/// plan, figures and report.
pub(crate) fn complete(
    study: &Study,
    runs: &[PlannedRun],
    states: &[RunState],
    options: &Options,
    is_comparison: bool,
    work: &Work,
) -> anyhow::Result<Value> {
    work.expect(runs.len());
    let mut plan = study.plan_file(runs);
    library::remove_report(&options.out)?;
    plan.write(&options.out)?;
    let reports = execute_surveyed(study, runs, states, options, work, &work.stop)?;
    plan.complete = true;
    plan.write(&options.out)?;
    if is_comparison {
        library::write_figures(study, runs, &reports, &options.out, options.threads)?;
    }
    library::write_report::<AnyTransport>(&options.out, options.threads)?;
    Ok(json!({ "directory": options.out, "runs": described(runs, &reports) }))
}

fn described(runs: &[PlannedRun], reports: &[RunReport]) -> Vec<Value> {
    let one = |(run, report): (&PlannedRun, &RunReport)| {
        json!({
            "transport": run.subject.label, "seed": run.seed, "point": run.labels,
            "directory": report.dir, "reused": report.reused,
        })
    };
    runs.iter().zip(reports).map(one).collect()
}

/// The question of a capacity search.
#[derive(FromPyObject)]
pub(crate) struct Asked {
    vary: String,
    until: String,
    from_: Option<String>,
    to: Option<String>,
    step: Option<String>,
    smallest: bool,
    max_repetitions: Option<u32>,
}

impl Asked {
    pub(crate) fn question(self) -> Question {
        Question {
            vary: self.vary,
            until: self.until,
            from: self.from_,
            to: self.to,
            step: self.step,
            smallest: self.smallest,
            repetitions_max: self.max_repetitions,
        }
    }
}

/// Makes a capacity search. Returns JSON: the directory of results, whose `capacity.json` has the
/// answers.
#[pyfunction]
pub(crate) fn capacity(
    py: Python<'_>,
    scenario: Scenario,
    question: Asked,
    execution: Execution,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let question = question.question();
    call(py, progress.as_ref(), |work| {
        let study = scenario.load()?;
        let options = execution.options(study.name());
        searched(&study, &question, &options, work)?;
        Ok(json!({ "directory": options.out }).to_string())
    })
}

/// Makes a capacity search and writes its answers and its report.
pub(crate) fn searched(
    study: &Study,
    question: &Question,
    options: &Options,
    work: &Work,
) -> anyhow::Result<()> {
    let mut search = CapacitySearch::new(study, question)?;
    check_place(&options.out)?;
    let _lock = DirLock::take(&options.out)?;
    let mut has_begun = false;
    loop {
        let runs = search.next_runs()?;
        if runs.is_empty() {
            break;
        }
        work.expect(runs.len());
        let states = survey(search.study(), &runs, options, &work.stop)?;
        if !has_begun {
            has_begun = true;
            library::remove_report(&options.out)?;
            let begun = library::capacities(&search, &[], question.smallest)?;
            begun.keep_other(&options.out)?;
            begun.write(&options.out)?;
        }
        let reports = execute_surveyed(search.study(), &runs, &states, options, work, &work.stop)?;
        search.learn(&reports)?;
    }
    let mut found = library::capacities(&search, &search.answers(), question.smallest)?;
    found.complete = true;
    found.write(&options.out)?;
    library::write_report::<AnyTransport>(&options.out, options.threads)?;
    Ok(())
}

/// Explains flows of a run. Returns the JSON of its explain.json.
#[pyfunction]
#[pyo3(signature = (run, flow, worst, missed, sample, folder))]
pub(crate) fn explain(
    py: Python<'_>,
    run: PathBuf,
    flow: Option<u32>,
    worst: Option<usize>,
    missed: bool,
    sample: Option<usize>,
    folder: PathBuf,
) -> PyResult<String> {
    let which = library::pick(flow, worst, missed, sample);
    call(py, None, |work| {
        let explained = library::explain::<AnyTransport>(&run, which, &folder, &work.stop)?;
        Ok(serde_json::to_string(&explained)?)
    })
}

/// The report of a directory of results, as HTML.
#[pyfunction]
pub(crate) fn report(py: Python<'_>, dir: PathBuf) -> PyResult<String> {
    call(py, None, |_| library::report::<AnyTransport>(&dir))
}
