//! `punctual compare`.

use super::run::{Line, point};
use super::{Done, execute_study, style};
use crate::args::{Compare, Study};
use crate::exit::UsageError;
use punctual_lab::{Labels, PlannedRun, RunReport};
use punctual_report::{Curve, GroupedBy, SweepPoint, Width, figures};
use punctual_report::{baseline_of, fewer_misses, group_table, sweep_tables, table};
use punctual_results::{
    FlowRow, Repeated, RunKind, Summary, part_of, read_flows, read_in_parallel, save, title,
};
use punctual_sim::Simulate;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// All repetitions of one transport at one point of a sweep.
pub(crate) struct Row<'a, S: Simulate> {
    runs: Vec<(&'a PlannedRun<S>, &'a RunReport)>,
    repeated: Repeated,
}

pub(crate) fn compare<S: Simulate>(args: &Compare) -> anyhow::Result<()> {
    match &args.paths[..] {
        [a, b] if a.is_dir() && b.is_dir() => super::difference::difference(a, b, &args.execution),
        [dir] if dir.is_dir() => {
            let dir = dir.display();
            let message = format!("{dir} is a directory: give a scenario file, or two directories");
            Err(UsageError(message).into())
        }
        [file] => {
            let study = |execution| Study { file: file.clone(), execution };
            super::pairs::at_each(&args.execution, |execution| {
                let done = execute_study::<S>(&study(execution))?;
                show(&done, args.execution.printing.json, args.wide, args.baseline.as_deref())?;
                Ok(done)
            })
        }
        paths => {
            let not = paths.iter().find(|path| !path.is_dir()).unwrap_or(&paths[0]).display();
            let message =
                format!("{not} is not a directory: give one scenario file, or two directories");
            Err(UsageError(message).into())
        }
    }
}

/// Prints the comparison of finished runs, and writes its figures and its report.
pub(super) fn show<S: Simulate>(
    done: &Done<S>,
    json: bool,
    is_wide: bool,
    baseline: Option<&str>,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let width = match super::terminal_width() {
        _ if is_wide => Width::Wide,
        Some(columns) => Width::Within(columns),
        None => Width::Usual,
    };
    let mut figures = Vec::new();
    let mut sweep: Vec<SweepPoint> = Vec::new();
    for rows in points(&done.runs, &done.reports)? {
        let labels = &rows[0].runs[0].0.labels;
        let values: Vec<&str> = labels.iter().map(|(_, value)| value.as_str()).collect();
        sweep.push((
            values.join(", "),
            rows.iter().map(|row| row.repeated.summary.clone()).collect(),
        ));
        if json {
            print_json(&mut out, done, &rows)?;
        } else {
            print_tables(&mut out, done, labels, &rows, width)?;
            for row in &rows {
                for cycle in &row.repeated.summary.pause_cycles {
                    writeln!(out, "{}: {cycle}", row.repeated.summary.transport)?;
                }
                for problem in &row.repeated.summary.timing_problems {
                    let transport = &row.repeated.summary.transport;
                    writeln!(out, "{transport}: TIMING INVALID: {problem}")?;
                }
            }
        }
        figures.extend(draw(&done.study, &done.out, &rows, done.threads)?);
    }
    let report = super::report::write::<S>(&done.out, done.threads)?;
    if !json {
        print_sweep(&mut out, done, &sweep)?;
        print_fewer_misses(&mut out, done, &sweep, baseline)?;
        writeln!(out, "results in {}", done.out.display())?;
        let name = |figure: &PathBuf| Some(figure.file_name()?.to_str()?.to_owned());
        let names: BTreeSet<String> = figures.iter().filter_map(name).collect();
        if !names.is_empty() {
            let names: Vec<String> = names.into_iter().collect();
            let each = if sweep.len() > 1 { ", for each point" } else { "" };
            writeln!(out, "figures: {}{each}", names.join(", "))?;
        }
        writeln!(out, "report: {}", report.display())?;
    }
    Ok(())
}

/// Runs by point of the sweep, then by transport, in the plan's order.
pub(crate) fn points<'a, S: Simulate>(
    runs: &'a [PlannedRun<S>],
    reports: &'a [RunReport],
) -> anyhow::Result<Vec<Vec<Row<'a, S>>>> {
    let mut points: Vec<(&Labels, Vec<Row<'a, S>>)> = Vec::new();
    for pair in runs.iter().zip(reports) {
        let run = pair.0;
        let same = |rows: &[Row<'_, S>]| rows[0].runs[0].0.point_dir == run.point_dir;
        if !points.last().is_some_and(|(_, rows)| same(rows)) {
            points.push((&run.labels, Vec::new()));
        }
        let rows = &mut points.last_mut().expect("just pushed").1;
        match rows.last_mut().filter(|row| row.runs[0].0.subject == run.subject) {
            Some(row) => row.runs.push(pair),
            None => rows.push(Row { runs: vec![pair], repeated: Repeated::default() }),
        }
    }
    for row in points.iter_mut().flat_map(|(_, rows)| rows) {
        let repetitions: Vec<Summary> = row.runs.iter().map(|(_, r)| r.summary.clone()).collect();
        row.repeated = Repeated::new(repetitions)?;
    }
    Ok(points.into_iter().map(|(_, rows)| rows).collect())
}

fn print_json<S: Simulate>(
    out: &mut impl Write,
    done: &Done<S>,
    rows: &[Row<'_, S>],
) -> anyhow::Result<()> {
    for row in rows {
        let run = row.runs[0].0;
        let directory = done.out.join(run.dir.parent().unwrap_or(Path::new("")));
        let line = Line {
            scenario: done.study.name(),
            point: point(&run.labels),
            directory: &directory,
            warnings: done.warnings(run),
            summary: &row.repeated.summary,
        };
        writeln!(out, "{}", serde_json::to_string(&line)?)?;
    }
    Ok(())
}

/// Prints all points of a sweep in one table per metric.
fn print_sweep<S: Simulate>(
    out: &mut impl Write,
    done: &Done<S>,
    sweep: &[SweepPoint],
) -> anyhow::Result<()> {
    if sweep.len() < 2 {
        return Ok(());
    }
    let labels = &done.runs[0].labels;
    let keys: Vec<&str> = labels.iter().map(|(key, _)| key.as_str()).collect();
    for (heading, table) in sweep_tables(sweep, &keys, style()) {
        writeln!(out, "{}: {heading}", done.study.title())?;
        writeln!(out, "{table}\n")?;
    }
    Ok(())
}

/// Prints how many fewer deadlines each transport misses than the baseline, for a sweep or with
/// `--baseline`.
fn print_fewer_misses<S: Simulate>(
    out: &mut impl Write,
    done: &Done<S>,
    sweep: &[SweepPoint],
    named: Option<&str>,
) -> anyhow::Result<()> {
    if sweep.len() < 2 && named.is_none() {
        return Ok(());
    }
    let baseline = baseline_of(sweep, named);
    if let (Some(named), None) = (named, baseline) {
        let message =
            format!("--baseline {named}: no transport with this name has flows with deadlines");
        return Err(UsageError(message).into());
    }
    let Some(baseline) = baseline else { return Ok(()) };
    if let Some(table) = fewer_misses(sweep, baseline, style()) {
        writeln!(out, "{}: fewer deadlines missed than by {baseline} (%)", done.study.title())?;
        writeln!(out, "{table}\n")?;
    } else if named.is_some() {
        writeln!(out, "{baseline} missed no deadline\n")?;
    }
    Ok(())
}

fn print_tables<S: Simulate>(
    out: &mut impl Write,
    done: &Done<S>,
    labels: &Labels,
    rows: &[Row<'_, S>],
    width: Width,
) -> anyhow::Result<()> {
    let style = style();
    let repeated: Vec<Repeated> = rows.iter().map(|row| row.repeated.clone()).collect();
    writeln!(out, "{}", heading(done, labels, rows))?;
    let (table, left_out) = table(&repeated, style, width);
    writeln!(out, "{table}")?;
    if !left_out.is_empty() {
        writeln!(out, "{}", not_shown(&left_out, width))?;
    }
    // Without a terminal there is no bold text.
    let is_bold = style == punctual_report::Style::Colour;
    let marks = punctual_report::notes(&repeated).into_iter();
    for note in marks.filter(|note| is_bold || !note.starts_with("bold")) {
        writeln!(out, " {note}")?;
    }
    for note in notes(&repeated) {
        writeln!(out, " {note}")?;
    }
    writeln!(out)?;
    if let Some(table) = group_table(&repeated, GroupedBy::Traffic, style) {
        writeln!(out, "by traffic\n{table}\n")?;
    }
    for row in rows.iter().filter(|row| carriers(row).len() > 1) {
        let parts = by_transport(row, done.threads)?;
        writeln!(out, "by transport (drops, trims and utilisation are those of the whole run)")?;
        writeln!(out, "{}\n", punctual_report::table(&parts, style, width).0)?;
    }
    Ok(())
}

/// The columns that a table omits, in lines that fit its width.
fn not_shown(left_out: &[&str], width: Width) -> String {
    let columns = if let Width::Within(columns) = width { columns } else { usize::MAX };
    let (mut text, mut line) = (String::new(), " not shown:".to_owned());
    for (i, title) in left_out.iter().enumerate() {
        let end = if i + 1 < left_out.len() { "," } else { " (--wide)" };
        if line.chars().count() + 1 + title.chars().count() + end.len() > columns {
            text += &format!("{line}\n");
            line = "  ".to_owned();
        }
        line += &format!(" {title}{end}");
    }
    text + &line
}

/// Notes on rows without packets.
fn notes(rows: &[Repeated]) -> Vec<&'static str> {
    let has = |kind| rows.iter().any(|row| row.summary.kind == kind);
    let mut notes = Vec::new();
    if has(RunKind::Flows) {
        notes.push(
            "flow level: whole flows by the transports' models, without queues, losses and \
             timeouts (docs/flow-level.md)",
        );
    }
    if has(RunKind::Testbed) {
        notes.push(
            "real packets on a testbed; kernel-* is this machine's own TCP in the place of tcp \
             (docs/testbed.md)",
        );
    }
    if rows.iter().any(|row| row.summary.is_ideal()) {
        notes.push(
            "ideal-* and optimal are ideal schedulers of whole flows: headers count, delays and \
             start-up do not (docs/ideal.md)",
        );
    }
    if has(RunKind::Bound) {
        notes.push(
            "optimal (bound): no transport can meet more deadlines or be faster; its times are \
             those of flows alone in the network, without flows given up",
        );
    }
    notes
}

fn heading<S: Simulate>(done: &Done<S>, labels: &Labels, rows: &[Row<'_, S>]) -> String {
    let mut heading = done.study.title();
    for (key, value) in labels {
        heading.push_str(&format!(", {key} = {value}"));
    }
    match rows[0].runs.len() {
        1 => heading,
        n => format!("{heading}, means over {n} repetitions (± half of the 95 % interval)"),
    }
}

/// The transports that carry a row's flows.
fn carriers<'a, S: Simulate>(row: &Row<'a, S>) -> Vec<&'a str> {
    let run = row.runs[0].0;
    run.scenario.carriers_of(&run.subject)
}

/// The flows of all repetitions.
fn flows<S: Simulate>(row: &Row<'_, S>, threads: usize) -> anyhow::Result<Vec<Vec<FlowRow>>> {
    let dirs: Vec<&Path> = row.runs.iter().map(|(_, report)| &*report.dir).collect();
    Ok(read_in_parallel(dirs.len(), threads, |run| read_flows(dirs[run]))?)
}

/// The results of a mixed run, one for each transport that carried flows.
fn by_transport<S: Simulate>(row: &Row<'_, S>, threads: usize) -> anyhow::Result<Vec<Repeated>> {
    let repetitions = flows(row, threads)?;
    let mut parts = Vec::new();
    for name in carriers(row) {
        let mut summaries = Vec::new();
        for ((_, report), flows) in row.runs.iter().zip(&repetitions) {
            summaries.extend(part_of(&report.summary, flows, name));
        }
        if summaries.is_empty() {
            continue;
        }
        parts.push(Repeated::new(summaries)?);
    }
    Ok(parts)
}

/// Draws a point's figures and returns their files.
pub(crate) fn draw<S: Simulate>(
    study: &punctual_lab::Study<S>,
    out: &Path,
    rows: &[Row<'_, S>],
    threads: usize,
) -> anyhow::Result<Vec<PathBuf>> {
    let dir = out.join(&rows[0].runs[0].0.point_dir);
    let labels = &rows[0].runs[0].0.labels;
    let mut subtitle: Vec<String> = labels.iter().map(|(k, v)| format!("{k} = {v}")).collect();
    subtitle.push(study.points()[0].scenario.description.clone());
    let subtitle = subtitle.join(", ");
    let mut curves = Vec::new();
    for row in rows {
        let flows: Vec<FlowRow> = flows(row, threads)?.into_iter().flatten().collect();
        let names = carriers(row);
        for name in &names {
            let own = flows.iter().filter(|f| names.len() == 1 || *f.transport == **name);
            let (name, flows) = (title(name, row.repeated.summary.kind), own.cloned().collect());
            curves.push(Curve { name, flows });
        }
    }
    let repeated: Vec<Repeated> = rows.iter().map(|row| row.repeated.clone()).collect();
    let palette = super::report::palette::<S>();
    let mut files = Vec::new();
    for (name, svg) in figures(&palette, &study.title(), &subtitle, curves, &repeated) {
        files.push(save(&dir, name, svg.as_bytes())?);
    }
    Ok(files)
}
