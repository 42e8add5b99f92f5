//! The answers and probes of a capacity search.

use super::Series;
use super::condition::Estimate;
use super::grid::Grid;
use crate::sweep::Labels;
use serde::Serialize;

/// The capacity of one transport.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The transport, with a note if the numbers are a bound.
    pub transport: String,
    /// The point of the rest of the sweep; empty without one.
    #[serde(skip)]
    pub labels: Labels,
    /// Whether the capacity lies within the bounds.
    pub outcome: Outcome,
    /// The last value whose mean passes. If all pass it is the bound; none if none passes.
    pub capacity: Option<String>,
    /// The last value whose whole interval passes; none if there is no such value.
    pub holds_to: Option<String>,
    /// The first value whose whole interval fails; none if there is no such value.
    pub fails_from: Option<String>,
    /// The metric at the capacity; if no value passes, at the easiest value tried.
    pub estimate: Option<Estimate>,
    /// The value of the key to which `estimate` belongs.
    pub estimate_at: Option<String>,
    /// Number of runs, made or reused.
    pub runs: usize,
    /// Every value tried, in order.
    pub probes: Vec<Probe>,
}

/// Whether a condition stops holding within the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It holds up to the capacity and not beyond.
    Found,
    /// It does not hold at the easiest value.
    Never,
    /// It holds at the hardest value.
    Always,
}

/// A value of the key that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Probe {
    /// The transport.
    #[serde(skip)]
    pub transport: String,
    /// The point of the rest of the sweep.
    #[serde(skip)]
    pub labels: Labels,
    /// The value, as in a scenario.
    pub value: String,
    /// The metric there.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// The offered load there, in words.
    pub offered_load: String,
    /// Why the condition cannot surely hold there.
    pub reasons: Vec<String>,
    /// Reasons why the result is easy to misread.
    pub warnings: Vec<String>,
    /// The directories of its runs, relative to the directory of all results.
    pub directories: Vec<String>,
}

/// A finished probe of a series.
pub(super) fn probe(series: &Series, grid: &Grid, point: u64) -> Probe {
    let load = series.loads.get(&point).cloned().unwrap_or_default();
    Probe {
        transport: punctual_results::title(&series.subject.label, series.kind),
        labels: series.labels.clone(),
        value: grid.text(point),
        estimate: series.known[&point],
        offered_load: load.to_string(),
        reasons: series.doubts.get(&point).cloned().into_iter().collect(),
        warnings: load.warnings,
        directories: series.directories.get(&point).cloned().unwrap_or_default(),
    }
}

/// The answer of a series; none while its search goes on.
pub(super) fn answer(series: &Series, grid: &Grid) -> Option<Answer> {
    let found = series.found?;
    let text = |point: Option<u64>| point.map(|point| grid.text(point));
    let capacity = found.capacity;
    let outcome = match (capacity.last, capacity.first_not) {
        (None, _) => Outcome::Never,
        (_, None) => Outcome::Always,
        _ => Outcome::Found,
    };
    let at = capacity.last.or(capacity.first_not);
    Some(Answer {
        transport: punctual_results::title(&series.subject.label, series.kind),
        labels: series.labels.clone(),
        outcome,
        capacity: text(capacity.last),
        holds_to: text(found.holds_to),
        fails_from: text(found.fails_from),
        estimate: at.map(|point| series.known[&point]),
        estimate_at: text(at),
        runs: series.runs,
        probes: series.order.iter().map(|point| probe(series, grid, *point)).collect(),
    })
}
