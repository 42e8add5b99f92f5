//! `punctual run`.

use super::{Done, execute_study};
use crate::args::Study;
use punctual_results::{Metric, RunKind, Summary};
use punctual_sim::Simulate;
use serde::Serialize;
use std::io::Write as _;
use std::path::Path;

/// One line of `--json`.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    pub(super) scenario: &'a str,
    /// The values of the sweep at the run's point.
    pub(super) point: serde_json::Map<String, serde_json::Value>,
    pub(super) directory: &'a Path,
    /// Warnings about results that are easy to misread.
    pub(super) warnings: &'a [String],
    #[serde(flatten)]
    pub(super) summary: &'a Summary,
}

/// The values of a sweep as a JSON object.
pub(super) fn point(labels: &punctual_lab::Labels) -> serde_json::Map<String, serde_json::Value> {
    labels.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect()
}

/// The completed flows and all flows. If all flows are endless or background, only their number.
fn flow_counts(summary: &Summary) -> String {
    let [flows, completed, background] =
        [Metric::Flows, Metric::FlowsCompleted, Metric::BackgroundFlows].map(|m| summary.number(m));
    match flows > 0.0 {
        true => format!("{completed:.0}/{flows:.0} flows"),
        false => format!("{background:.0} endless or background flows"),
    }
}

pub(crate) fn run<S: Simulate>(args: &Study) -> anyhow::Result<()> {
    super::pairs::at_each(&args.execution, |execution| {
        run_study::<S>(&Study { file: args.file.clone(), execution })
    })
}

fn run_study<S: Simulate>(args: &Study) -> anyhow::Result<Done<S>> {
    let done = execute_study::<S>(args)?;
    let mut out = std::io::stdout().lock();
    for (run, report) in done.runs.iter().zip(&done.reports) {
        if args.execution.printing.json {
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
        let counted = |metric: Metric, words: &str| {
            let count = s.number(metric);
            (count > 0.0).then(|| format!("{count:.0} {words}"))
        };
        let per_cent = |metric: Metric| s[metric].value.map(|share| share * 100.0);
        facts.extend(counted(Metric::FlowsUnfinished, "unfinished"));
        facts.extend(per_cent(Metric::DeadlinesMet).map(|share| format!("{share:.1} % on time")));
        facts.extend(counted(Metric::DeadlineFlowsLate, "late"));
        facts.extend(counted(Metric::DeadlineFlowsAbandoned, "given up"));
        for metric in [Metric::FctP50, Metric::FctP99] {
            let figure = s[metric];
            let mark = match figure.is_bound {
                true => "> ",
                false if figure.is_maximum => "(max) ",
                false => "",
            };
            let title = metric.title();
            facts.extend(figure.value.map(|us| format!("{title} {mark}{us:.1} us")));
        }
        facts
            .extend(per_cent(Metric::Utilisation).map(|share| format!("utilisation {share:.1} %")));
        if s.kind != RunKind::Packets {
            facts.push(s.kind.about().to_owned());
        }
        if matches!(s.kind, RunKind::Packets | RunKind::Testbed) {
            facts.push(format!("{:.0} drops", s.number(Metric::Drops)));
        }
        facts.extend(counted(Metric::Trims, "trims"));
        facts.extend(counted(Metric::Pauses, "pauses"));
        writeln!(out, "{}: {}", run.title(), facts.join(", "))?;
        for cycle in &s.pause_cycles {
            writeln!(out, "  {cycle}")?;
        }
        for problem in &s.timing_problems {
            writeln!(out, "  TIMING INVALID: {problem}")?;
        }
    }
    let report = super::report::write::<S>(&done.out, done.threads)?;
    if !args.execution.printing.json {
        writeln!(out, "results in {}", done.out.display())?;
        writeln!(out, "report: {}", report.display())?;
    }
    drop(out);
    Ok(done)
}
