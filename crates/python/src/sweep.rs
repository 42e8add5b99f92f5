//! Distributed sweeps: plan, run some tasks, merge.

use crate::call::call;
use crate::scenario::Scenario;
use crate::study::{Asked, Execution, complete, searched};
use punctual_lab::{Question, Round, RunState, SweepDir, TaskError};
use punctual_results::{DirLock, check_place};
use pyo3::prelude::*;
use serde_json::json;
use std::num::NonZero;
use std::path::{Path, PathBuf};

/// Plans a sweep, or the first round of a capacity search, in `out` or `sweeps/NAME`. Returns JSON.
#[pyfunction]
pub(crate) fn sweep_plan(
    py: Python<'_>,
    scenario: Scenario,
    out: Option<PathBuf>,
    csv: bool,
    question: Option<Asked>,
) -> PyResult<String> {
    let question = question.map(Asked::question);
    call(py, None, |_| {
        let study = scenario.load()?;
        let out = out.unwrap_or_else(|| Path::new("sweeps").join(study.name()));
        let sweep = SweepDir::plan(&study, &out, csv, question.as_ref())?;
        let tasks = sweep.tasks();
        let (count, name, build) = (tasks.tasks.len(), &tasks.name, &tasks.build);
        Ok(json!({ "directory": out, "tasks": count, "name": name, "build": build }).to_string())
    })
}

/// Runs some tasks. Returns JSON: for each its number, its directory, its time, and whether it was
/// there already.
#[pyfunction]
pub(crate) fn sweep_run(
    py: Python<'_>,
    dir: PathBuf,
    tasks: Vec<usize>,
    threads: usize,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    call(py, progress.as_ref(), |work| {
        let sweep: SweepDir = SweepDir::open(&dir)?;
        work.expect(tasks.len());
        let reports = sweep.run(&tasks, threads.max(1), work, &work.stop)?;
        let one = |(task, report): (&usize, &punctual_lab::RunReport)| {
            json!({
                "task": task, "directory": report.dir, "reused": report.reused,
                "wall_seconds": report.wall.as_secs_f64(),
            })
        };
        let lines: Vec<_> = tasks.iter().zip(&reports).map(one).collect();
        Ok(serde_json::to_string(&lines)?)
    })
}

/// Which tasks are finished; with `verify`, those whose part is whole by its hashes. Returns JSON.
#[pyfunction]
pub(crate) fn sweep_status(py: Python<'_>, dir: PathBuf, verify: bool) -> PyResult<String> {
    call(py, None, |work| {
        let sweep: SweepDir = SweepDir::open(&dir)?;
        let plan = sweep.tasks();
        let mut has_part: Vec<bool> =
            (0..plan.tasks.len()).map(|task| sweep.is_finished(task)).collect();
        if verify {
            let there: Vec<usize> = (0..has_part.len()).filter(|task| has_part[*task]).collect();
            let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
            let parts = sweep.check(&there, &[], threads, &work.stop)?;
            has_part.fill(false);
            for (task, _) in &parts.found {
                has_part[*task] = true;
            }
        }
        let (finished, missing): (Vec<usize>, Vec<usize>) =
            (0..has_part.len()).partition(|task| has_part[*task]);
        let directories: Vec<&str> = plan.tasks.iter().map(|t| t.directory.as_str()).collect();
        let round = plan.tasks.last().map_or(0, |task| task.round);
        Ok(json!({
            "name": plan.name, "build": plan.build, "tasks": plan.tasks.len(),
            "finished": finished, "missing": missing, "round": round,
            "directories": directories, "is_search": plan.question.is_some(),
        })
        .to_string())
    })
}

/// Checks all parts and writes the directory of results, or plans the next round of a capacity
/// search. Returns JSON: the directory, or the tasks of the next round.
#[pyfunction]
pub(crate) fn sweep_merge(
    py: Python<'_>,
    dir: PathBuf,
    others: Vec<PathBuf>,
    out: Option<PathBuf>,
    threads: Option<usize>,
) -> PyResult<String> {
    call(py, None, |work| {
        let mut sweep: SweepDir = SweepDir::open(&dir)?;
        let execution = Execution { out, threads, fresh: false, csv: sweep.tasks().csv };
        let options = execution.options(&sweep.tasks().name);
        let strangers = sweep.strangers(&others);
        if !strangers.is_empty() {
            return Err(TaskError::Parts(strangers).into());
        }
        let question = sweep.tasks().question.as_ref().map(Question::from);
        let parts = match &question {
            None => {
                let all: Vec<usize> = (0..sweep.tasks().tasks.len()).collect();
                let parts = sweep.check(&all, &others, options.threads, &work.stop)?;
                if !parts.problems.is_empty() {
                    return Err(TaskError::Parts(parts.problems).into());
                }
                parts
            }
            Some(question) => {
                match sweep.next_round(question, &others, options.threads, &work.stop)? {
                    Round::Finished(parts) => parts,
                    Round::Next { round, tasks } => {
                        return Ok(json!({ "round": round, "tasks": tasks }).to_string());
                    }
                }
            }
        };
        check_place(&options.out)?;
        let lock = DirLock::take(&options.out)?;
        sweep.place(&parts, &options.out, options.threads, &work.stop)?;
        let study = sweep.study()?;
        match question {
            // The files of all runs were just checked, so that nothing looks at them again.
            None => {
                let runs = study.runs();
                let states = vec![RunState::Reusable; runs.len()];
                complete(&study, &runs, &states, &options, true, work)?;
            }
            Some(question) => {
                drop(lock);
                searched(&study, &question, &options, work)?;
            }
        }
        Ok(json!({ "directory": options.out }).to_string())
    })
}
