//! `punctual run`.

use super::execute_study;
use crate::args::{Global, Study};
use punctual_results::Summary;
use punctual_sim::Simulate;
use serde::Serialize;
use std::io::Write as _;
use std::path::Path;

/// One line of `--json`.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    pub(super) scenario: &'a str,
    /// The values of the sweep at which it was run.
    pub(super) point: serde_json::Map<String, serde_json::Value>,
    pub(super) directory: &'a Path,
    /// What makes its results easy to misread.
    pub(super) warnings: &'a [String],
    #[serde(flatten)]
    pub(super) summary: &'a Summary,
}

/// The values of a sweep as a JSON object.
pub(super) fn point(labels: &punctual_lab::Labels) -> serde_json::Map<String, serde_json::Value> {
    labels.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect()
}

/// How many flows completed of how many. A run whose flows are all endless or background has none
/// to complete, so only their number is given.
fn flow_counts(summary: &Summary) -> String {
    match summary.flows > 0.0 {
        true => format!("{:.0}/{:.0} flows", summary.flows_completed, summary.flows),
        false => format!("{:.0} endless or background flows", summary.background_flows),
    }
}

pub(crate) fn run<S: Simulate>(args: &Study, global: &Global) -> anyhow::Result<()> {
    let done = execute_study::<S>(args, global)?;
    let mut out = std::io::stdout().lock();
    for (run, report) in done.runs.iter().zip(&done.reports) {
        if global.json {
            let line = Line {
                scenario: done.study.name(),
                point: point(&run.labels),
                directory: &report.dir,
                warnings: done.warnings(run),
                summary: &report.summary,
            };
            writeln!(out, "{}", serde_json::to_string(&line)?)?;
            continue;
        }
        let s = &report.summary;
        let mut facts = vec![flow_counts(s)];
        if s.flows_unfinished > 0.0 {
            facts.push(format!("{:.0} unfinished", s.flows_unfinished));
        }
        facts.extend(s.deadlines_met.map(|share| format!("{:.1} % on time", share * 100.0)));
        if s.deadline_flows_late > 0.0 {
            facts.push(format!("{:.0} late", s.deadline_flows_late));
        }
        if s.deadline_flows_abandoned > 0.0 {
            facts.push(format!("{:.0} given up", s.deadline_flows_abandoned));
        }
        for (name, column) in [("fct p50", "fct_p50_us"), ("p99", "fct_p99_us")] {
            let figure = s.figure(column);
            let mark = match figure.is_bound {
                true => "> ",
                false if s.is_maximum(column) => "(max) ",
                false => "",
            };
            facts.extend(figure.value.map(|us| format!("{name} {mark}{us:.1} us")));
        }
        facts.extend(s.utilisation.map(|share| format!("utilisation {:.1} %", share * 100.0)));
        match s.is_ideal() {
            true => facts.push(s.kind.about().to_owned()),
            false => facts.push(format!("{:.0} drops", s.drops)),
        }
        if s.trims > 0.0 {
            facts.push(format!("{:.0} trims", s.trims));
        }
        if s.pauses > 0.0 {
            facts.push(format!("{:.0} pauses", s.pauses));
        }
        writeln!(out, "{}: {}", run.title(), facts.join(", "))?;
        for cycle in &s.pause_cycles {
            writeln!(out, "  {cycle}")?;
        }
    }
    let report = super::report::write::<S>(&done.out)?;
    if !global.json {
        writeln!(out, "results in {}", done.out.display())?;
        writeln!(out, "report: {}", report.display())?;
    }
    Ok(())
}
