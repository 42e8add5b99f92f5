//! Parts of the commands that print nothing, for other front ends such as the Python package.

use crate::args::Threads;
use crate::commands::{capacity, compare, explain as explaining, report as reporting};
use anyhow::Context as _;
use punctual_lab::{Answer, CapacitySearch, Pick, PlannedRun, RunReport, Study};
use punctual_results::{Capacities, Explained};
use punctual_sim::Simulate;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Draws the figures of a comparison into its directory of results. Several threads read the runs.
pub fn write_figures<S: Simulate>(
    study: &Study<S>,
    runs: &[PlannedRun<S>],
    reports: &[RunReport],
    out: &Path,
    threads: usize,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for rows in compare::points(runs, reports)? {
        files.extend(compare::draw(study, out, &rows, threads)?);
    }
    Ok(files)
}

/// Removes the report of earlier results, which does not match the new ones.
pub fn remove_report(out: &Path) -> anyhow::Result<()> {
    reporting::begin(out)
}

/// Writes the report of a directory of results. Several threads read the runs.
pub fn write_report<S: Simulate>(out: &Path, threads: usize) -> anyhow::Result<PathBuf> {
    reporting::write::<S>(out, threads)
}

/// The report of a directory of results, as HTML.
pub fn report<S: Simulate>(dir: &Path) -> anyhow::Result<String> {
    Ok(punctual_report::html(dir, &reporting::palette::<S>(), Threads::default().get())?)
}

/// The question of a capacity search and its answers, as `capacity.json` has them.
pub fn capacities<S: Simulate>(
    search: &CapacitySearch<S>,
    answers: &[Answer],
    smallest: bool,
) -> anyhow::Result<Capacities> {
    capacity::capacities(search, answers, smallest)
}

/// Which flows to explain: one, the worst, the late ones, or a sample.
pub fn pick(flow: Option<u32>, worst: Option<usize>, missed: bool, sample: Option<usize>) -> Pick {
    explaining::which(flow, worst, missed, sample)
}

/// Repeats a run and stores where the time of its flows went.
pub fn explain<S: Simulate>(
    run: &Path,
    which: Pick,
    folder: &Path,
    stop: &AtomicBool,
) -> anyhow::Result<Explained> {
    let explained = explaining::one::<S>(run, which, (folder, stop), &|_| {}, false)?;
    explained.context("the run has no packets")
}
