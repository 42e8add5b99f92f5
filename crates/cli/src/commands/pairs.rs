//! `--level both` and `--on both`: a scenario run in two ways, and how far they part.

use super::Done;
use super::timing;
use crate::args::{Execution, LevelArg, OnArg, Printing};
use punctual_lab::{KernelTcp, Labels};
use punctual_report::plain_table;
use punctual_results::{Figure, Metric, Repeated, Unit, save};
use punctual_sim::Simulate;
use std::io::Write as _;

/// Two ways to run a scenario: the names of their columns, what is compared, and a heading.
struct Pair {
    names: [&'static str; 2],
    metrics: &'static [Metric],
    heading: &'static str,
}

const LEVELS: Pair = Pair {
    names: ["packet", "flow"],
    metrics: &[Metric::FctMean, Metric::FctP99, Metric::DeadlinesMet],
    heading: "flow level beside packet level",
};

const PLACES: Pair = Pair {
    names: ["simulator", "testbed"],
    metrics: &[
        Metric::FctP50,
        Metric::FctMean,
        Metric::FctP99,
        Metric::FctMax,
        Metric::DeadlinesMet,
        Metric::Goodput,
    ],
    heading: "testbed beside simulator (kernel-* beside the simulated tcp)",
};

/// The report of simulator and testbed, in the directory of the testbed's results.
const BOTH_FILE: &str = "both.html";

/// Runs a command as its execution says: in one way, or in two with a table of the differences.
pub(super) fn at_each<S: Simulate>(
    execution: &Execution,
    mut command: impl FnMut(Execution) -> anyhow::Result<Done<S>>,
) -> anyhow::Result<()> {
    let printing = &execution.printing;
    if let Some(OnArg::Testbed | OnArg::Both) = execution.on {
        #[cfg(target_os = "linux")]
        super::session::run_in_own_session()?;
    }
    if execution.level == Some(LevelArg::Both) {
        heading(LevelArg::Packet.name(), printing)?;
        let packet = command(execution.at(LevelArg::Packet))?;
        heading(LevelArg::Flow.name(), printing)?;
        let flow = command(execution.at(LevelArg::Flow))?;
        return print(&LEVELS, &packet, &flow, printing);
    }
    let done = if execution.on == Some(OnArg::Both) {
        heading("simulator", printing)?;
        let simulated = command(execution.on_place(OnArg::Simulator))?;
        heading("testbed", printing)?;
        let real = command(execution.on_place(OnArg::Testbed))?;
        print(&PLACES, &simulated, &real, printing)?;
        write_report(&simulated, &real, printing)?;
        real
    } else {
        command(execution.clone())?
    };
    timing::print(&done, printing)?;
    timing::check(&done)
}

/// Writes one report with the results of simulator and testbed.
fn write_report<S: Simulate>(
    simulated: &Done<S>,
    real: &Done<S>,
    printing: &Printing,
) -> anyhow::Result<()> {
    let [simulator, testbed] = PLACES.names;
    let palette = super::report::palette::<S>();
    let ways = [(testbed, &*real.out), (simulator, &*simulated.out)];
    let page = punctual_report::report_of_both(ways, &palette, real.threads)?.html;
    let file = save(&real.out, BOTH_FILE, page.as_bytes())?;
    if !printing.json {
        writeln!(std::io::stdout(), "report of both: {}\n", file.display())?;
    }
    Ok(())
}

/// Names a way before its results.
pub(super) fn heading(name: &str, printing: &Printing) -> anyhow::Result<()> {
    if !printing.json {
        writeln!(std::io::stdout(), "{name}\n")?;
    }
    Ok(())
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

/// What a transport of the second way is compared with: the kernel's TCP with the simulated one.
fn counterpart(label: &str) -> &str {
    if label.starts_with("kernel-") { KernelTcp::STANDS_FOR } else { label }
}

fn print<S: Simulate>(
    pair: &Pair,
    first: &Done<S>,
    second: &Done<S>,
    printing: &Printing,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let firsts = rows(first)?;
    let mut table = Vec::new();
    for (labels, transport, there) in rows(second)? {
        let other = counterpart(&transport);
        let Some((.., here)) = firsts.iter().find(|(l, t, _)| *l == labels && *t == other) else {
            continue;
        };
        for metric in pair.metrics.iter().copied() {
            let (a, b) = (here.summary[metric], there.summary[metric]);
            let difference = difference(metric, a, b);
            if printing.json {
                // (second − first) / first; for shares second − first.
                let line = serde_json::json!({
                    "scenario": first.study.name(),
                    "point": super::run::point(&labels),
                    "transport": transport,
                    "metric": metric.name(),
                    pair.names[0]: a.exact(),
                    pair.names[1]: b.exact(),
                    "difference": difference,
                });
                writeln!(out, "{line}")?;
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
        writeln!(out, "{}", pair.heading)?;
        let header = ["transport", "metric", pair.names[0], pair.names[1], "difference"];
        writeln!(out, "{}", plain_table(&header, &table, super::style()))?;
    }
    Ok(())
}

/// How far the second way is from the first: relative, for shares absolute.
fn difference(metric: Metric, first: Figure, second: Figure) -> Option<f64> {
    let (first, second) = (first.exact()?, second.exact()?);
    match metric.unit() {
        Unit::Share => Some(second - first),
        _ => (first != 0.0).then(|| second / first - 1.0),
    }
}

fn shown(metric: Metric, figure: Figure) -> String {
    let Some(value) = figure.value else { return "-".to_owned() };
    let bound = if figure.is_bound { "> " } else { "" };
    match metric.unit() {
        Unit::Share => format!("{bound}{:.1}", value * 100.0),
        Unit::Micros => format!("{bound}{value:.1}"),
        _ => format!("{bound}{value:.3}"),
    }
}
