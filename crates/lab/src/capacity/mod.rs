//! Capacity search: the largest value of a key for which a condition holds, for each transport.
//!
//! [`CapacitySearch`] plans the next runs of all transports and learns from their summaries. The
//! plan depends on summaries alone, not on how long runs took, so the answer does not depend on the
//! number of threads. Runs are stored like those of a sweep, so an interrupted search reuses them.

mod answer;
mod bracket;
mod condition;
mod grid;
mod question;
mod varied;

pub use answer::{Answer, Outcome, Probe};
pub use condition::{Condition, Estimate, Reason, Verdict};
pub use question::Question;

use crate::diagnostic::{Diagnostic, ScenarioError};
use crate::execute::RunReport;
use crate::load::OfferedLoad;
use crate::plan::{PlannedRun, Study};
use crate::scenario::Subject;
use crate::sweep::Labels;
use bracket::{Edge, SearchRange};
use punctual_results::{RunKind, Summary, stats};
use punctual_sim::Simulate;
use punctual_transports::AnyTransport;
use std::collections::BTreeMap;
use varied::Varied;

/// Minimum repetitions of a probe: with fewer the interval is too wide.
pub const REPETITIONS_MIN: u32 = 5;
/// Default maximum of repetitions, as a multiple of the initial repetitions.
pub const REPETITIONS_FACTOR: u32 = 4;
/// Default upper bound of values, as a multiple of the scenario's value.
pub const VALUE_FACTOR: u64 = 64;

/// A search for the capacity of every transport, at every point of the rest of the sweep.
#[derive(Debug)]
pub struct CapacitySearch<S: Simulate = AnyTransport> {
    study: Study<S>,
    varied: Varied,
    condition: Condition,
    range: SearchRange,
    start: u64,
    /// Whether the user gave the bounds: then the scenario must accept all values within.
    easy_is_given: bool,
    hard_is_given: bool,
    repetitions_first: u32,
    repetitions_max: u32,
    /// The study at each value tried.
    studies: BTreeMap<u64, Study<S>>,
    series: Vec<Series>,
    /// The series of the last plan, each with its number of runs.
    asked: Vec<(usize, usize)>,
}

/// One transport at one point of the rest of the sweep.
#[derive(Debug)]
struct Series {
    /// Index of the point in every study.
    point: usize,
    labels: Labels,
    subject: Subject,
    kind: RunKind,
    /// Finished probes, by point of the grid.
    known: BTreeMap<u64, Estimate>,
    /// The offered load at each point.
    loads: BTreeMap<u64, OfferedLoad>,
    /// Why the condition may fail at points where it holds, if flows arrive for longer.
    doubts: BTreeMap<u64, String>,
    /// The directories of the runs at each point, relative to the directory of all results.
    directories: BTreeMap<u64, Vec<String>>,
    /// Finished probes in the order in which they were made.
    order: Vec<u64>,
    /// The probe in progress: its point and the summaries so far.
    open: Option<(u64, Vec<Summary>)>,
    runs: usize,
    found: Option<Found>,
}

/// The result of a finished search.
#[derive(Debug, Clone, Copy)]
struct Found {
    capacity: Edge,
    /// The last point that surely holds.
    holds_to: Option<u64>,
    /// The first point that surely fails.
    fails_from: Option<u64>,
}

impl<S: Simulate> CapacitySearch<S> {
    /// The study whose runs it plans.
    pub fn study(&self) -> &Study<S> {
        &self.study
    }

    /// The condition.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// The key that varies, several keys separated by commas, or the name of a linked axis.
    pub fn key(&self) -> &str {
        &self.varied.name
    }

    /// The step between values, with its unit.
    pub fn step(&self) -> String {
        self.varied.grid.step_text()
    }

    /// The least and the greatest value, with their unit.
    pub fn bounds(&self) -> (String, String) {
        let SearchRange { easy, hard } = self.range;
        (self.varied.grid.text(easy.min(hard)), self.varied.grid.text(easy.max(hard)))
    }

    /// The initial and the maximum repetitions of a probe.
    pub fn repetitions(&self) -> (u32, u32) {
        (self.repetitions_first, self.repetitions_max)
    }

    /// One minus the confidence of a single look at a probe: 0.05 / k for k looks (Bonferroni).
    /// Repetitions are doubled until a verdict is sure, so a probe is looked at several times, and
    /// each look may be wrong. All looks together are wrong in at most 5 % of probes.
    fn alpha(&self) -> f64 {
        let (mut repetitions, mut looks) = (self.repetitions_first, 1);
        while repetitions < self.repetitions_max {
            repetitions = repetitions.saturating_mul(2);
            looks += 1;
        }
        stats::ALPHA / f64::from(looks)
    }

    /// The plan of the next runs; empty when the search is finished.
    ///
    /// Pass their reports to [`learn`](Self::learn).
    pub fn next_runs(&mut self) -> Result<Vec<PlannedRun<S>>, ScenarioError> {
        let mut runs: Vec<PlannedRun<S>> = Vec::new();
        self.asked.clear();
        for s in 0..self.series.len() {
            if self.series[s].found.is_some() {
                continue;
            }
            let (value, repetitions) = match &self.series[s].open {
                Some((value, summaries)) => {
                    let done = summaries.len() as u32;
                    (*value, done..done.saturating_mul(2).min(self.repetitions_max))
                }
                None => {
                    let Some(value) = self.next_value(s)? else { continue };
                    self.series[s].open = Some((value, Vec::new()));
                    (value, 0..self.repetitions_first)
                }
            };
            let series = &self.series[s];
            let first = runs.len();
            let more = self.studies[&value].runs_of(series.point, &series.subject, repetitions);
            runs.extend(more.map(|run| PlannedRun { index: first + run.index, ..run }));
            let directories = runs[first..].iter().map(|run| run.dir.display().to_string());
            self.series[s].directories.entry(value).or_default().extend(directories);
            self.asked.push((s, runs.len() - first));
        }
        Ok(runs)
    }

    /// The next value of a series. When its search is finished, stores the result and returns none.
    fn next_value(&mut self, s: usize) -> Result<Option<u64>, ScenarioError> {
        loop {
            let value = match self.search(&self.series[s]) {
                Ok(value) => value,
                Err(found) => {
                    self.series[s].found = Some(found);
                    return Ok(None);
                }
            };
            if self.admit(value)? {
                return Ok(Some(value));
            }
        }
    }

    /// The next value to try, or the result as the error.
    fn search(&self, series: &Series) -> Result<u64, Found> {
        let edge =
            |is_true: fn(&Estimate) -> bool| self.range.edge(self.start, &series.known, is_true);
        let capacity = edge(|e| e.verdict.passes());
        let holds = self.range.edge(self.start, &self.holding(series), |holds| *holds);
        let fails = edge(|e| e.verdict != Verdict::Fails);
        // The sure edges are searched only if there is a capacity within the bounds.
        let is_within = capacity.edge.last.is_some() && capacity.edge.first_not.is_some();
        let holds_next = holds.next.filter(|_| self.condition.can_surely_hold());
        // If a failure has a reason that repetitions do not remove, harder values do not either.
        let is_open = |point: u64| series.known[&point].reason.is_some();
        let fails_next = fails.next.filter(|_| !capacity.edge.first_not.is_some_and(is_open));
        let next = capacity.next.or(holds_next.or(fails_next).filter(|_| is_within));
        let (holds_to, fails_from) = (holds.edge.last, fails.edge.first_not);
        next.ok_or(Found { capacity: capacity.edge, holds_to, fails_from })
    }

    /// Whether each known value surely holds.
    ///
    /// A value that passes also holds surely if a harder one does.
    fn holding(&self, series: &Series) -> BTreeMap<u64, bool> {
        let known = || series.known.iter().map(|(point, e)| (*point, e.verdict));
        let harder = |a: &u64, b: &u64| self.range.is_harder(*a, *b);
        let is_easier = |point: u64| {
            known().any(|(other, verdict)| verdict == Verdict::Holds && harder(&other, &point))
        };
        let holds = |(point, verdict): (u64, Verdict)| {
            (point, verdict == Verdict::Holds || verdict.passes() && is_easier(point))
        };
        known().map(holds).collect()
    }

    /// Builds the study at a value; false if the scenario refuses the value.
    ///
    /// If the user gave no bound, a refused value shortens the range, and the caller must ask for
    /// another value. Otherwise it is an error.
    fn admit(&mut self, value: u64) -> Result<bool, ScenarioError> {
        let Err(error) = self.load(value) else { return Ok(true) };
        let range = self.range;
        let harder = range.is_harder(value, self.start);
        let given = if harder { self.hard_is_given } else { self.easy_is_given };
        let beyond = |known: &u64| {
            if harder { range.is_harder(value, *known) } else { range.is_harder(*known, value) }
        };
        if given || !self.studies.keys().all(beyond) {
            return Err(error);
        }
        let (mut right, mut wrong) = (self.start, value);
        for known in self.studies.keys() {
            if known.abs_diff(wrong) < right.abs_diff(wrong) {
                right = *known;
            }
        }
        while right.abs_diff(wrong) > 1 {
            let middle = right.min(wrong) + right.abs_diff(wrong) / 2;
            match self.load(middle) {
                Ok(()) => right = middle,
                Err(_) => wrong = middle,
            }
        }
        if harder {
            self.range.hard = right
        } else {
            self.range.easy = right
        }
        Ok(false)
    }

    fn load(&mut self, value: u64) -> Result<(), ScenarioError> {
        if !self.studies.contains_key(&value) {
            let study = self.study.with_axis(self.varied.axis(value))?;
            self.studies.insert(value, study);
        }
        Ok(())
    }

    /// Takes the reports of the last plan, in its order, and returns the finished probes.
    ///
    /// # Panics
    /// When there are not as many reports as runs.
    pub fn learn(&mut self, reports: &[RunReport]) -> Result<Vec<Probe>, ScenarioError> {
        let alpha = self.alpha();
        let mut probes = Vec::new();
        let mut loads: BTreeMap<(u64, usize), OfferedLoad> = BTreeMap::new();
        let mut rest = reports;
        for (s, count) in std::mem::take(&mut self.asked) {
            let (own, after) = rest.split_at(count);
            rest = after;
            let series = &mut self.series[s];
            series.runs += count;
            let (value, mut summaries) = series.open.take().expect("its runs were asked for");
            summaries.extend(own.iter().map(|report| report.summary.clone()));
            if let Some(bound) = summaries.iter().find(|s| s.kind == RunKind::Bound) {
                series.kind = bound.kind;
            } else if series.kind == RunKind::Packets {
                series.kind = summaries[0].kind;
            }
            let Some(mut estimate) = self.condition.judge(&summaries, alpha) else {
                return Err(self.no_value(s, value));
            };
            let load = loads.entry((value, series.point)).or_insert_with(|| {
                let scenario = &self.studies[&value].points()[series.point].scenario;
                scenario.offered_load(scenario.run.seed).unwrap_or_default()
            });
            series.loads.insert(value, load.clone());
            let doubt = self.condition.limited().and_then(|limited| load.doubt(limited));
            let doubt = doubt.filter(|_| estimate.verdict.passes());
            if estimate.verdict == Verdict::Holds && doubt.is_some() {
                // More repetitions would not make it sure.
                estimate.verdict = Verdict::LeansToHold;
            } else if estimate.is_open() && (summaries.len() as u32) < self.repetitions_max {
                series.open = Some((value, summaries));
                continue;
            } else {
                let can_be_sure = !estimate.verdict.passes() || self.condition.can_surely_hold();
                estimate.capped = estimate.is_open() && can_be_sure;
            }
            series.known.insert(value, estimate);
            series.doubts.extend(doubt.map(|doubt| (value, doubt)));
            series.order.push(value);
            probes.push(answer::probe(series, &self.varied.grid, value));
        }
        assert!(rest.is_empty(), "more reports than runs");
        Ok(probes)
    }

    fn no_value(&self, s: usize, value: u64) -> ScenarioError {
        let column = self.condition.column();
        let message = format!(
            "`{column}` has no value for {} at {} = {}",
            self.series[s].subject.label,
            self.varied.name,
            self.varied.grid.text(value),
        );
        let help = "no run has flows that define this metric; deadlines_met needs measured flows \
                    with a deadline whose outcome is known (docs/results.md)";
        self.study.error(Diagnostic::new(message).help(help))
    }

    /// The answers of finished searches, in the order of the sweep and of `transports`.
    pub fn answers(&self) -> Vec<Answer> {
        self.series.iter().filter_map(|series| answer::answer(series, &self.varied.grid)).collect()
    }
}
