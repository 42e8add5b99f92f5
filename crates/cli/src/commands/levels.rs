//! `--level both`: the packet level, the flow level, and how far they part.

use super::Done;
use crate::args::{Execution, LevelArg, Printing};
use punctual_lab::Labels;
use punctual_report::plain_table;
use punctual_results::{Figure, Metric, Repeated, Unit};
use punctual_sim::Simulate;
use serde::Serialize;
use std::io::Write as _;

/// The metrics that are compared.
const METRICS: [Metric; 3] = [Metric::FctMean, Metric::FctP99, Metric::DeadlinesMet];

/// Runs a command at the level of its execution, or at both with a table of the differences.
pub(super) fn at_each<S: Simulate>(
    execution: &Execution,
    mut command: impl FnMut(Execution) -> anyhow::Result<Done<S>>,
) -> anyhow::Result<()> {
    if execution.level != Some(LevelArg::Both) {
        command(execution.clone())?;
        return Ok(());
    }
    let printing = &execution.printing;
    heading(LevelArg::Packet, printing)?;
    let packet = command(execution.at(LevelArg::Packet))?;
    heading(LevelArg::Flow, printing)?;
    let flow = command(execution.at(LevelArg::Flow))?;
    print(&packet, &flow, printing)
}

/// Names a level before its results.
pub(super) fn heading(level: LevelArg, printing: &Printing) -> anyhow::Result<()> {
    let name = if level == LevelArg::Flow { "flow" } else { "packet" };
    if !printing.json {
        writeln!(std::io::stdout(), "{name} level\n")?;
    }
    Ok(())
}

/// One line of `--json`: a metric at both levels.
#[derive(Serialize)]
struct Line<'a> {
    scenario: &'a str,
    point: serde_json::Map<String, serde_json::Value>,
    transport: &'a str,
    metric: &'static str,
    packet: Option<f64>,
    flow: Option<f64>,
    /// (flow − packet) / packet; for shares flow − packet.
    difference: Option<f64>,
}

/// The repetitions of each transport at each point.
fn rows<S: Simulate>(done: &Done<S>) -> anyhow::Result<Vec<(Labels, String, Repeated)>> {
    let mut rows: Vec<(Labels, String, Vec<_>)> = Vec::new();
    for (run, report) in done.runs.iter().zip(&done.reports) {
        let (labels, label) = (&run.labels, &run.subject.label);
        match rows.last_mut().filter(|row| row.0 == *labels && row.1 == *label) {
            Some(row) => row.2.push(report.summary.clone()),
            None => rows.push((labels.clone(), label.clone(), vec![report.summary.clone()])),
        }
    }
    let row = |(labels, label, all)| Ok((labels, label, Repeated::new(all)?));
    rows.into_iter().map(row).collect()
}

fn print<S: Simulate>(packet: &Done<S>, flow: &Done<S>, printing: &Printing) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let flows = rows(flow)?;
    let mut table = Vec::new();
    for (labels, transport, at_packet) in rows(packet)? {
        let own = flows.iter().find(|(l, t, _)| *l == labels && *t == transport);
        let Some((.., at_flow)) = own else { continue };
        for metric in METRICS {
            let (a, b) = (at_packet.summary[metric], at_flow.summary[metric]);
            let difference = difference(metric, a, b);
            if printing.json {
                let point = super::run::point(&labels);
                let scenario = packet.study.name();
                let (packet, flow) = (a.exact(), b.exact());
                let metric = metric.name();
                let transport = &transport;
                let line = Line { scenario, point, transport, metric, packet, flow, difference };
                writeln!(out, "{}", serde_json::to_string(&line)?)?;
            } else if a.value.or(b.value).is_some() {
                let mut name: Vec<String> =
                    labels.iter().map(|(key, value)| format!("{key} = {value}")).collect();
                name.insert(0, transport.clone());
                let difference = match (difference, metric.unit()) {
                    (None, _) => "-".to_owned(),
                    (Some(points), Unit::Share) => format!("{:+.1} points", points * 100.0),
                    (Some(share), _) => format!("{:+.1} %", share * 100.0),
                };
                let title = metric.title_with_unit();
                table.push(vec![
                    name.join(", "),
                    title,
                    shown(metric, a),
                    shown(metric, b),
                    difference,
                ]);
            }
        }
    }
    if !printing.json {
        writeln!(out, "flow level beside packet level")?;
        let header = ["transport", "metric", "packet", "flow", "difference"];
        writeln!(out, "{}", plain_table(&header, &table, super::style()))?;
    }
    Ok(())
}

/// How far the flow level is from the packet level: relative, for shares absolute.
fn difference(metric: Metric, packet: Figure, flow: Figure) -> Option<f64> {
    let (packet, flow) = (packet.exact()?, flow.exact()?);
    match metric.unit() {
        Unit::Share => Some(flow - packet),
        _ => (packet != 0.0).then(|| flow / packet - 1.0),
    }
}

fn shown(metric: Metric, figure: Figure) -> String {
    let Some(value) = figure.value else { return "-".to_owned() };
    let bound = if figure.is_bound { "> " } else { "" };
    match metric.unit() {
        Unit::Share => format!("{bound}{:.1}", value * 100.0),
        _ => format!("{bound}{value:.1}"),
    }
}
