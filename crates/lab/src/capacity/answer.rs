//! What a search found.

use super::Series;
use super::condition::Estimate;
use super::grid::Grid;
use crate::sweep::Labels;
use serde::Serialize;

/// The capacity of one transport.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The transport; a bound says so.
    pub transport: String,
    /// Where in the rest of the sweep; empty without one.
    #[serde(skip)]
    pub labels: Labels,
    /// Whether there is a capacity within the bounds.
    pub outcome: Outcome,
    /// The last value whose mean passes; the bound when it always does, none when it never does.
    pub capacity: Option<String>,
    /// The last value whose whole interval passes; none when no value's does.
    pub holds_to: Option<String>,
    /// The first value of whose interval nothing passes; none when there is none such.
    pub fails_from: Option<String>,
    /// The column at the capacity, or where it never holds at the value nearest to holding.
    pub estimate: Option<Estimate>,
    /// The value that `estimate` is at.
    pub estimate_at: Option<String>,
    /// Runs made or found for it.
    pub runs: usize,
    /// Every value tried, in order.
    pub probes: Vec<Probe>,
}

/// Whether a condition ceases to hold within the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It holds up to the capacity and not beyond.
    Found,
    /// It does not hold even at the bound where it is easiest.
    Never,
    /// It holds even at the bound where it is hardest.
    Always,
}

/// A value that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Probe {
    /// Of which transport.
    #[serde(skip)]
    pub transport: String,
    /// Where in the rest of the sweep.
    #[serde(skip)]
    pub labels: Labels,
    /// As one would write it.
    pub value: String,
    /// What came of it.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// The offered load there, in words.
    pub offered_load: String,
    /// Why nothing can be said to hold surely there.
    pub reasons: Vec<String>,
    /// What makes it easy to misread.
    pub warnings: Vec<String>,
    /// The directory of each of its runs, below the directory of all results.
    pub directories: Vec<String>,
}

/// A probe of a series that is over.
pub(super) fn probe(series: &Series, grid: &Grid, point: u64) -> Probe {
    let load = series.loads.get(&point).cloned().unwrap_or_default();
    Probe {
        transport: punctual_results::title(&series.subject.label, series.kind),
        labels: series.labels.clone(),
        value: grid.text(point),
        estimate: series.known[&point],
        offered_load: load.to_string(),
        reasons: load.too_short.into_iter().collect(),
        warnings: load.warnings,
        directories: series.directories.get(&point).cloned().unwrap_or_default(),
    }
}

/// The answer of a series whose search is over.
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
