//! `punctual compare A B`: tests whether two directories of results differ by more than chance.

use super::style;
use crate::args::Execution;
use crate::exit::UsageError;
use punctual_report::{PointRuns, Results, Row, plain_table};
use punctual_results::significance::{Comparison, Difference, chance_below, compare};
use punctual_results::stats::{half_width_95, mean};
use punctual_results::{Better, Figure, FlowRow, Metric, Place, Times};
use serde::Serialize;
use std::io::Write as _;
use std::path::Path;

/// One line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    point: &'a str,
    transport: &'a str,
    figure: &'static str,
    a: Option<f64>,
    b: Option<f64>,
    /// Lower bounds of `a` and `b`, if unfinished flows leave the value open.
    a_at_least: Option<f64>,
    b_at_least: Option<f64>,
    /// Whether `a` and `b` are maxima: a run has too few flows for the percentile.
    a_is_maximum: bool,
    b_is_maximum: bool,
    difference: f64,
    half_width: Option<f64>,
    significant: bool,
    verdict: &'static str,
    test: &'static str,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    factor: f64,
}

pub(crate) fn difference(a: &Path, b: &Path, execution: &Execution) -> anyhow::Result<()> {
    if !execution.changes.is_empty() || execution.level.is_some() {
        let message = "--set and --seed do not apply to the comparison of two directories";
        return Err(UsageError(message.into()).into());
    }
    let threads = execution.threads.get();
    let (first, second) = (Results::of(a, threads)?, Results::of(b, threads)?);
    let mut out = std::io::stdout().lock();
    let mut lines = Vec::new();
    let mut alone = Vec::new();
    for (a, b) in points(&first, &second, &mut alone) {
        for row in &a.rows {
            let same = |other: &&Row| other.summary.transport == row.summary.transport;
            match b.rows.iter().find(same) {
                Some(other) => lines.extend(compared(&a.label, row, other)?),
                None => alone.push(format!("{} is in A only", row.summary.title())),
            }
        }
        let in_a = |row: &&Row| a.rows.iter().any(|o| o.summary.transport == row.summary.transport);
        let only = b.rows.iter().filter(|row| !in_a(row));
        alone.extend(only.map(|row| format!("{} is in B only", row.summary.title())));
    }
    if lines.is_empty() {
        let (a, b) = (a.display(), b.display());
        let message = format!("{a} and {b} have no transport and point in common");
        return Err(UsageError(message).into());
    }
    if execution.printing.json {
        for line in &lines {
            writeln!(out, "{}", serde_json::to_string(line)?)?;
        }
        return Ok(());
    }
    for (name, dir, results) in [("A", a, &first), ("B", b, &second)] {
        writeln!(out, "{name}: {}", described(dir, results))?;
        for warning in results.incomplete.iter().chain(&results.warnings) {
            writeln!(out, "   {warning}")?;
        }
    }
    print(&mut out, &lines, &alone)
}

/// Points of both sides, matched by label. If each side has a single point, these two match.
fn points<'a>(
    a: &'a Results,
    b: &'a Results,
    alone: &mut Vec<String>,
) -> Vec<(&'a PointRuns, &'a PointRuns)> {
    if let ([a], [b]) = (&a.points[..], &b.points[..]) {
        return vec![(a, b)];
    }
    let mut both = Vec::new();
    for point in &a.points {
        match b.points.iter().find(|other| other.label == point.label) {
            Some(other) => both.push((point, other)),
            None => alone.push(format!("{} is in A only", point.label)),
        }
    }
    let only = b.points.iter().filter(|p| a.points.iter().all(|other| other.label != p.label));
    alone.extend(only.map(|point| format!("{} is in B only", point.label)));
    both
}

fn described(dir: &Path, results: &Results) -> String {
    let mut text = dir.display().to_string();
    if let Some(plan) = &results.plan {
        text += &format!(" ({}", plan.name);
        plan.overrides.iter().for_each(|change| text += &format!(", {change}"));
        text.push(')');
    }
    text
}

/// Compares all metrics of a transport at a point, and the ranks of its completion times.
fn compared<'a>(point: &'a str, a: &'a Row, b: &Row) -> anyhow::Result<Vec<Line<'a>>> {
    let transport = a.summary.transport.as_str();
    let mut lines = Vec::new();
    // Metrics that can be better or worse come first.
    let mut metrics: Vec<Metric> = Metric::shown_in(Place::Difference).collect();
    metrics.sort_by_key(|metric| metric.better() == Better::Neither);
    for metric in metrics {
        let found = compare(&a.repetitions, &b.repetitions, metric);
        let Some(found) = found.filter(|f| f.a.value != Some(0.0) || f.b.value != Some(0.0)) else {
            continue;
        };
        lines.push(Line {
            point,
            transport,
            figure: metric.name(),
            a: found.a.exact(),
            b: found.b.exact(),
            a_at_least: found.a.bound(),
            b_at_least: found.b.bound(),
            a_is_maximum: found.a.is_maximum,
            b_is_maximum: found.b.is_maximum,
            difference: found.difference.mean,
            half_width: found.difference.half_width,
            significant: found.is_more() || found.is_less(),
            verdict: verdict(&found, metric.better()),
            test: if found.is_paired { "paired t" } else { "Welch's t" },
            title: metric.title_with_unit(),
            factor: metric.unit().factor(),
        });
    }
    lines.extend(ranked(point, a, b)?);
    Ok(lines)
}

/// The probability that a flow of B is faster than a flow of A, as the mean over runs.
fn ranked<'a>(point: &'a str, a: &'a Row, b: &Row) -> anyhow::Result<Option<Line<'a>>> {
    let times = |row: &Row, i: usize| -> anyhow::Result<Times> {
        let flows = row.read_flows(i)?;
        Ok(Times::of(flows.iter().filter(|flow| flow.measured), FlowRow::time_us))
    };
    let mut chances = Vec::new();
    for i in 0..a.repetitions.len().min(b.repetitions.len()) {
        chances.extend(chance_below(&times(a, i)?, &times(b, i)?));
    }
    let Some(chance) = mean(&chances) else { return Ok(None) };
    let difference = Difference { mean: chance - 0.5, half_width: half_width_95(&chances) };
    let known = |value| Figure::known(Some(value), None);
    let found = Comparison {
        a: known(0.5),
        b: known(chance),
        difference,
        is_paired: true,
        is_same: chances.iter().all(|chance| *chance == 0.5),
    };
    Ok(Some(Line {
        point,
        transport: &a.summary.transport,
        figure: "chance_that_b_is_faster",
        a: None,
        b: Some(chance),
        a_at_least: None,
        b_at_least: None,
        a_is_maximum: false,
        b_is_maximum: false,
        difference: difference.mean,
        half_width: difference.half_width,
        significant: difference.is_significant(),
        verdict: verdict(&found, Better::Higher),
        test: "t of Mann-Whitney chances",
        title: "B is faster (%)".to_owned(),
        factor: 100.0,
    }))
}

/// The result of the test in words.
fn verdict(found: &Comparison, better: Better) -> &'static str {
    let is_known = !found.a.is_bound && !found.b.is_bound;
    match (found.is_more(), found.is_less(), better) {
        _ if found.is_same && is_known => "the same in every run",
        _ if found.difference.half_width.is_none() => "one run: cannot be tested",
        (true, _, Better::Neither) => "B more",
        (_, true, Better::Neither) => "B less",
        (true, _, Better::Higher) | (_, true, Better::Lower) => "B better",
        (true, _, Better::Lower) | (_, true, Better::Higher) => "B worse",
        _ if !is_known => "open: flows unfinished",
        _ => "not significant",
    }
}

fn print(
    out: &mut impl std::io::Write,
    lines: &[Line<'_>],
    alone: &[String],
) -> anyhow::Result<()> {
    let header = ["Transport", "Metric", "A", "B", "B − A", "At 95 %"];
    let mut rest = lines;
    while let Some(first) = rest.first() {
        let end = rest.iter().position(|line| line.point != first.point).unwrap_or(rest.len());
        let (own, after) = rest.split_at(end);
        rest = after;
        writeln!(out)?;
        if !first.point.is_empty() {
            writeln!(out, "{}", first.point)?;
        }
        let mut last = "";
        let rows = own.iter().map(|line| {
            let transport = if line.transport == last { "" } else { line.transport };
            last = line.transport;
            row(transport, line)
        });
        writeln!(out, "{}", plain_table(&header, &rows.collect::<Vec<_>>(), style()))?;
    }
    for text in alone {
        writeln!(out, "{text}")?;
    }
    let significant = lines.iter().filter(|line| line.significant).count();
    writeln!(out, "\n{significant} of {} metrics differ significantly at 95 %.", lines.len())?;
    let pairs = lines.iter().any(|line| line.test == "paired t");
    let test = match pairs {
        true => {
            "A and B have the same seeds, so each run of A is paired with the run of B that has the \
             same\nflows: the test is Student's t of the differences within pairs."
        }
        false => {
            "A and B have different seeds: the test is Welch's t of the means over runs, which does \
             not\nassume equal variances."
        }
    };
    writeln!(
        out,
        "{test}\nFlows of one run share queues and are not independent, so each run counts once. \
         The last line\nof a transport is the probability that a flow of B is faster than a flow of \
         A (Mann-Whitney);\n50 % means no difference. Of 20 metrics that do not differ, one is \
         called significant by chance."
    )?;
    if lines.iter().any(|line| line.a_at_least.or(line.b_at_least).is_some()) {
        writeln!(
            out,
            "> x: at least x, because flows were unfinished when their run ended, or given up."
        )?;
    }
    if lines.iter().any(|line| line.a_is_maximum || line.b_is_maximum) {
        writeln!(out, "max x: the maximum: too few flows per run (p99: fewer than 100).")?;
    }
    writeln!(out, "Values are means over runs.")?;
    Ok(())
}

fn row(transport: &str, line: &Line<'_>) -> Vec<String> {
    let (a, b) = (line.a.or(line.a_at_least), line.b.or(line.b_at_least));
    let values = [a, b, Some(line.difference), line.half_width];
    let scaled = values.map(|value| value.map(|value| value * line.factor));
    let largest = scaled.iter().flatten().map(|value| value.abs()).fold(0.0, f64::max);
    let decimals = if largest >= 1000.0 { 0 } else { 1 + usize::from(largest < 10.0) };
    // A significant difference is never rounded to 0.
    let nothing = |decimals: &usize| {
        scaled[2].is_some_and(|d| format!("{:.decimals$}", d.abs()).parse() == Ok(0.0))
    };
    let decimals = (decimals..6).find(|d| !line.significant || !nothing(d)).unwrap_or(6);
    let number = |value: Option<f64>, bound: Option<f64>, is_maximum: bool| {
        let mark = match is_maximum {
            _ if bound.is_some() => "> ",
            true => "max ",
            false => "",
        };
        value.map_or("–".into(), |value| format!("{mark}{value:.decimals$}"))
    };
    let [a, b, difference, half] = scaled;
    let difference = difference.map_or("–".into(), |value| format!("{value:+.decimals$}"));
    let half = half.map_or(String::new(), |half| format!(" ± {half:.decimals$}"));
    vec![
        transport.to_owned(),
        line.title.clone(),
        number(a, line.a_at_least, line.a_is_maximum),
        number(b, line.b_at_least, line.b_is_maximum),
        format!("{difference}{half}"),
        line.verdict.to_owned(),
    ]
}
