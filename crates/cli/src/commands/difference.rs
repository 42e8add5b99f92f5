//! `punctual compare A B`: whether two directories of results differ by more than chance.

use super::style;
use crate::args::Global;
use crate::exit::UsageError;
use punctual_report::{PointRuns, Results, Row, plain_table};
use punctual_results::significance::{Difference, chance_below, paired, welch};
use punctual_results::stats::{half_width_95, mean, sorted};
use punctual_results::{FlowRow, Summary};
use serde::Serialize;
use std::io::Write as _;
use std::path::Path;

/// Which way a figure is better.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    Less,
    More,
    /// That depends.
    Neither,
}

/// A figure of a run: its name, the name for people, the factor for them, which way is better.
type Figure = (&'static str, &'static str, f64, Better, fn(&Summary) -> Option<f64>);

#[rustfmt::skip]
const FIGURES: [Figure; 11] = [
    ("deadlines_met", "Deadlines met (%)", 100.0, Better::More, |s| s.deadlines_met),
    ("fct_mean_us", "FCT mean (µs)", 1.0, Better::Less, |s| s.fct_mean_us),
    ("fct_p50_us", "FCT p50 (µs)", 1.0, Better::Less, |s| s.fct_p50_us),
    ("fct_p99_us", "FCT p99 (µs)", 1.0, Better::Less, |s| s.fct_p99_us),
    ("fct_max_us", "FCT max (µs)", 1.0, Better::Less, |s| s.fct_max_us),
    ("slowdown_p99", "Slowdown p99 (×)", 1.0, Better::Less, |s| s.slowdown_p99),
    ("goodput_gbps", "Goodput (Gb/s)", 1.0, Better::More, |s| s.goodput_gbps),
    ("flows_completed", "Flows completed", 1.0, Better::More, |s| Some(s.flows_completed)),
    ("drops", "Drops", 1.0, Better::Less, |s| Some(s.drops)),
    ("trims", "Trims", 1.0, Better::Neither, |s| Some(s.trims)),
    ("timeouts", "Timeouts", 1.0, Better::Less, |s| Some(s.timeouts)),
];

/// One line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    point: &'a str,
    transport: &'a str,
    figure: &'static str,
    a: Option<f64>,
    b: Option<f64>,
    difference: f64,
    half_width: Option<f64>,
    significant: bool,
    verdict: &'static str,
    test: &'static str,
    #[serde(skip)]
    name: &'static str,
    #[serde(skip)]
    factor: f64,
}

pub(crate) fn difference(a: &Path, b: &Path, global: &Global) -> anyhow::Result<()> {
    if !global.set.is_empty() || global.seed.is_some() {
        let message = "two directories are compared as they are: without --set and --seed";
        return Err(UsageError(message.into()).into());
    }
    let (first, second) = (Results::of(a)?, Results::of(b)?);
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
        let message = format!("{a} and {b} have no transport at the same point in common");
        return Err(UsageError(message).into());
    }
    if global.json {
        for line in &lines {
            writeln!(out, "{}", serde_json::to_string(line)?)?;
        }
        return Ok(());
    }
    for (name, dir, results) in [("A", a, &first), ("B", b, &second)] {
        writeln!(out, "{name}: {}", described(dir, results))?;
        for warning in &results.warnings {
            writeln!(out, "   {warning}")?;
        }
    }
    print(&mut out, &lines, &alone)
}

/// Points that are in both, by their values; where each has one, that one.
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

/// Every figure of a transport at a point, and how its completion times rank.
fn compared<'a>(point: &'a str, a: &'a Row, b: &Row) -> anyhow::Result<Vec<Line<'a>>> {
    let seeds = |row: &Row| row.repetitions.iter().map(|s| s.seeds.clone()).collect::<Vec<_>>();
    let in_pairs = seeds(a) == seeds(b);
    let transport = a.summary.transport.as_str();
    let mut lines = Vec::new();
    for (figure, name, factor, better, get) in FIGURES {
        let values = |row: &Row| row.repetitions.iter().filter_map(get).collect::<Vec<f64>>();
        let (first, second) = (values(a), values(b));
        // A pair of which one has no value is none.
        let whole = first.len() == a.repetitions.len() && second.len() == b.repetitions.len();
        let (difference, test) = match in_pairs && whole {
            true => (paired(&first, &second), "paired t"),
            false => (welch(&first, &second), "Welch's t"),
        };
        let Some(difference) = difference else { continue };
        if first.iter().chain(&second).all(|value| *value == 0.0) {
            continue;
        }
        let same = in_pairs && first == second;
        lines.push(Line {
            point,
            transport,
            figure,
            a: mean(&first),
            b: mean(&second),
            difference: difference.mean,
            half_width: difference.half_width,
            significant: difference.is_significant(),
            verdict: verdict(&difference, better, same),
            test,
            name,
            factor,
        });
    }
    lines.extend(ranked(point, a, b)?);
    Ok(lines)
}

/// The chance that a flow of B is faster than one of A, run by run.
fn ranked<'a>(point: &'a str, a: &'a Row, b: &Row) -> anyhow::Result<Option<Line<'a>>> {
    let mut chances = Vec::new();
    for i in 0..a.repetitions.len().min(b.repetitions.len()) {
        let (first, second) = (times(&a.read(i)?.flows), times(&b.read(i)?.flows));
        chances.extend(chance_below(&first, &second));
    }
    let Some(chance) = mean(&chances) else { return Ok(None) };
    let difference = Difference { mean: chance - 0.5, half_width: half_width_95(&chances) };
    let same = chances.iter().all(|chance| *chance == 0.5);
    Ok(Some(Line {
        point,
        transport: &a.summary.transport,
        figure: "chance_that_b_is_faster",
        a: None,
        b: Some(chance),
        difference: difference.mean,
        half_width: difference.half_width,
        significant: difference.is_significant(),
        verdict: verdict(&difference, Better::More, same),
        test: "t of Mann-Whitney chances",
        name: "B's flow is faster (%)",
        factor: 100.0,
    }))
}

/// Completion times in ascending order; what did not complete took for ever.
fn times(flows: &[FlowRow]) -> Vec<f64> {
    let measured = flows.iter().filter(|flow| flow.measured());
    sorted(measured.map(|flow| flow.fct.map_or(f64::INFINITY, |fct| fct.as_micros_f64())))
}

fn verdict(difference: &Difference, better: Better, same: bool) -> &'static str {
    let more = difference.mean > 0.0;
    match (difference.half_width, better) {
        _ if same => "the same in every run",
        (None, _) => "one run: cannot be tested",
        _ if !difference.is_significant() => "not significant",
        (_, Better::Neither) if more => "B more",
        (_, Better::Neither) => "B less",
        (_, better) if more == (better == Better::More) => "B better",
        _ => "B worse",
    }
}

fn print(
    out: &mut impl std::io::Write,
    lines: &[Line<'_>],
    alone: &[String],
) -> anyhow::Result<()> {
    let header = ["Transport", "Figure", "A", "B", "B − A", "At 95 %"];
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
    writeln!(out, "\n{significant} of {} figures differ significantly at 95 %.", lines.len())?;
    let pairs = lines.iter().any(|line| line.test == "paired t");
    let test = match pairs {
        true => {
            "Both have the same seeds, so each run of A has one of B with the same flows: tested \
             are\nthe differences within those pairs (Student's t), in which what a seed's flows \
             have in\ncommon cancels."
        }
        false => {
            "Their seeds differ, so tested are the means over the runs (Welch's t, which does not \
             ask for\nequal variances)."
        }
    };
    writeln!(
        out,
        "{test} What is counted is runs: flows of one run share queues, so they are\nno independent \
         witnesses. The last line of a transport ranks the flows of each run (Mann and\nWhitney), \
         50 % when neither side is faster. Of 20 figures that do not differ, one is called\n\
         significant by chance."
    )?;
    Ok(())
}

fn row(transport: &str, line: &Line<'_>) -> Vec<String> {
    let values = [line.a, line.b, Some(line.difference), line.half_width];
    let scaled = values.map(|value| value.map(|value| value * line.factor));
    let largest = scaled.iter().flatten().map(|value| value.abs()).fold(0.0, f64::max);
    let decimals = if largest >= 1000.0 { 0 } else { 1 + usize::from(largest < 10.0) };
    // A difference that is called significant is not shown as none.
    let nothing = |decimals: &usize| {
        scaled[2].is_some_and(|d| format!("{:.decimals$}", d.abs()).parse() == Ok(0.0))
    };
    let decimals = (decimals..6).find(|d| !line.significant || !nothing(d)).unwrap_or(6);
    let number =
        |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.decimals$}"));
    let [a, b, difference, half] = scaled;
    let difference = difference.map_or("–".into(), |value| format!("{value:+.decimals$}"));
    let half = half.map_or(String::new(), |half| format!(" ± {half:.decimals$}"));
    vec![
        transport.to_owned(),
        line.name.to_owned(),
        number(a),
        number(b),
        format!("{difference}{half}"),
        line.verdict.to_owned(),
    ]
}
