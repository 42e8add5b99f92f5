//! How runs on a testbed kept their time.

use super::Done;
use crate::args::Printing;
use crate::exit::InvalidTiming;
use punctual_lab::{RunOn, RunReport};
use punctual_report::plain_table;
use punctual_results::{TestbedFacts, read_manifest};
use punctual_sim::Simulate;
use std::io::Write as _;

/// Prints the time scale and the lateness of runs on a testbed, a line for each.
pub(super) fn print<S: Simulate>(done: &Done<S>, printing: &Printing) -> anyhow::Result<()> {
    let is_real = done.runs.iter().any(|run| run.scenario.run.on == RunOn::Testbed);
    if printing.json || !is_real {
        return Ok(());
    }
    let mut table = Vec::new();
    for (run, report) in done.runs.iter().zip(&done.reports) {
        let Some(facts) = read_manifest(&report.dir)?.testbed else { continue };
        let TestbedFacts { switch_lateness_us, host_lateness_us, time_scale, .. } = facts;
        let three = |values: [f64; 3]| values.map(|us| format!("{us:.0}")).join(" / ");
        table.push(vec![
            run.title(),
            time_scale.to_string(),
            facts.frames.to_string(),
            three(switch_lateness_us),
            three(host_lateness_us),
            facts.stalled_percent.map(|percent| format!("{percent:.1}")).join(" / "),
            facts
                .pull_spacing_us
                .map_or("-".to_owned(), |us| us.map(|us| format!("{us:.1}")).join(" / ")),
            if facts.valid { "valid" } else { "INVALID" }.to_owned(),
        ]);
    }
    let header = [
        "run",
        "time scale",
        "frames",
        "switch late by (us)",
        "hosts late by (us)",
        "stalled (%)",
        "pull spacing (us)",
        "timing",
    ];
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "timing: late by p50 / p99 / max; switch and hosts stalled; pull spacing p5 / p50 / p95"
    )?;
    writeln!(out, "{}", plain_table(&header, &table, super::style()))?;
    Ok(())
}

/// An error if the timing of a run cannot be trusted.
pub(super) fn check<S: Simulate>(done: &Done<S>) -> anyhow::Result<()> {
    check_reports(&done.reports)
}

/// An error if the timing of one of these runs cannot be trusted.
pub(super) fn check_reports(reports: &[RunReport]) -> anyhow::Result<()> {
    let invalid = reports.iter().filter(|report| !report.summary.timing_problems.is_empty());
    let invalid: Vec<_> = invalid.collect();
    let Some(first) = invalid.first() else { return Ok(()) };
    let message = format!(
        "the timing of {} of {} runs is invalid; the first: {}\nthe same command repeats them",
        invalid.len(),
        reports.len(),
        first.summary.timing_problems.join("; ")
    );
    Err(InvalidTiming(message).into())
}
