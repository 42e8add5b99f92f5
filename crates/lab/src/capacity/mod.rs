//! How far a key of a scenario can go while a condition holds: the capacity of each transport.
//!
//! [`CapacitySearch`] says which runs it needs next, for all transports at once, and learns from
//! their summaries. What it asks for depends on summaries alone, never on the time a run took, so
//! the answer is the same with any number of threads; and as runs are kept like those of a sweep,
//! a search that was interrupted finds its runs again and goes on.

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
use bracket::{Edge, Line};
use punctual_results::{RunKind, Summary, stats};
use punctual_sim::Simulate;
use punctual_transports::AnyTransport;
use std::collections::BTreeMap;
use varied::Varied;

/// Repetitions of a probe at least: fewer have no interval worth the name.
pub const REPETITIONS_MIN: u32 = 5;
/// Unless said otherwise, repetitions are added up to so many times those it began with.
pub const REPETITIONS_FACTOR: u32 = 4;
/// Unless bounds are given, values go up to so many times the scenario's own.
pub const VALUE_FACTOR: u64 = 64;

/// A search for the capacity of every transport of a scenario, at every point of what else its
/// sweep varies.
#[derive(Debug)]
pub struct CapacitySearch<S: Simulate = AnyTransport> {
    study: Study<S>,
    varied: Varied,
    condition: Condition,
    line: Line,
    start: u64,
    /// Whether the bounds were given, so that values within must be right.
    easy_is_given: bool,
    hard_is_given: bool,
    repetitions_first: u32,
    repetitions_max: u32,
    /// The study at each value tried.
    studies: BTreeMap<u64, Study<S>>,
    series: Vec<Series>,
    /// Which runs of the plan last made belong to which series.
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
    /// Probes that are over, by point of the grid, and in the order they were made.
    known: BTreeMap<u64, Estimate>,
    /// The offered load of each.
    loads: BTreeMap<u64, OfferedLoad>,
    /// The directories of the runs at each value, below the directory of all results.
    directories: BTreeMap<u64, Vec<String>>,
    order: Vec<u64>,
    /// The probe under way.
    open: Option<(u64, Vec<Summary>)>,
    runs: usize,
    found: Option<Found>,
}

/// The end of a search.
#[derive(Debug, Clone, Copy)]
struct Found {
    capacity: Edge,
    /// The last point that surely holds and the first that surely fails.
    holds_to: Option<u64>,
    fails_from: Option<u64>,
}

impl<S: Simulate> CapacitySearch<S> {
    /// The study that the runs are of.
    pub fn study(&self) -> &Study<S> {
        &self.study
    }

    /// The condition.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// The key that varies, several with commas between them, or the name of a linked axis.
    pub fn key(&self) -> &str {
        &self.varied.name
    }

    /// The distance of values, as one would write it.
    pub fn step(&self) -> String {
        self.varied.grid.step_text()
    }

    /// The least and the greatest value, as one would write them.
    pub fn bounds(&self) -> (String, String) {
        let Line { easy, hard } = self.line;
        (self.varied.grid.text(easy.min(hard)), self.varied.grid.text(easy.max(hard)))
    }

    /// Repetitions of a probe at first, and at most.
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

    /// The runs to make next, as a plan; none when every answer is there. Their reports go to
    /// [`learn`](Self::learn).
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

    /// The value a series must try next; none when its search is over, which is noted.
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

    /// The value to try next, or the end of the search.
    fn search(&self, series: &Series) -> Result<u64, Found> {
        let edge =
            |is_true: fn(&Estimate) -> bool| self.line.edge(self.start, &series.known, is_true);
        let capacity = edge(|e| e.verdict.passes());
        let holds = self.line.edge(self.start, &self.holding(series), |holds| *holds);
        let fails = edge(|e| e.verdict != Verdict::Fails);
        // The edges of what is sure are worth probes only around a capacity.
        let is_within = capacity.edge.last.is_some() && capacity.edge.first_not.is_some();
        let holds_next = holds.next.filter(|_| self.condition.can_surely_hold());
        // Where unfinished flows leave a failure open, harder values do not make it sure.
        let is_open = |point: u64| series.known[&point].reason.is_some();
        let fails_next = fails.next.filter(|_| !capacity.edge.first_not.is_some_and(is_open));
        let next = capacity.next.or(holds_next.or(fails_next).filter(|_| is_within));
        let (holds_to, fails_from) = (holds.edge.last, fails.edge.first_not);
        next.ok_or(Found { capacity: capacity.edge, holds_to, fails_from })
    }

    /// Which values surely hold. What is easier than one that does holds as well, even where it has
    /// too few flows of its own to be sure.
    fn holding(&self, series: &Series) -> BTreeMap<u64, bool> {
        let known = || series.known.iter().map(|(point, e)| (*point, e.verdict));
        let harder = |a: &u64, b: &u64| self.line.is_harder(*a, *b);
        let is_easier = |point: u64| {
            known().any(|(other, verdict)| verdict == Verdict::Holds && harder(&other, &point))
        };
        let holds = |(point, verdict): (u64, Verdict)| {
            (point, verdict == Verdict::Holds || verdict.passes() && is_easier(point))
        };
        known().map(holds).collect()
    }

    /// Makes the study at a value. Without bounds given, values that the scenario refuses bound
    /// the search instead: then the line was shortened and there is another value to try.
    fn admit(&mut self, value: u64) -> Result<bool, ScenarioError> {
        let Err(error) = self.load(value) else { return Ok(true) };
        let line = self.line;
        let harder = line.is_harder(value, self.start);
        let given = if harder { self.hard_is_given } else { self.easy_is_given };
        let beyond = |known: &u64| {
            if harder { line.is_harder(value, *known) } else { line.is_harder(*known, value) }
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
            self.line.hard = right
        } else {
            self.line.easy = right
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

    /// Takes in the reports of the runs asked for last, in their order, and returns the probes
    /// that are over.
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
                let mut load = scenario.offered_load(scenario.run.seed).unwrap_or_default();
                self.condition.time().into_iter().for_each(|time| load.judge_against(time));
                load
            });
            series.loads.insert(value, load.clone());
            if estimate.verdict == Verdict::Holds && load.too_short.is_some() {
                // No number of repetitions would make it sure.
                estimate.verdict = Verdict::LeansToHold;
            } else if estimate.is_open() && (summaries.len() as u32) < self.repetitions_max {
                series.open = Some((value, summaries));
                continue;
            } else {
                let can_be_sure = !estimate.verdict.passes() || self.condition.can_surely_hold();
                estimate.capped = estimate.is_open() && can_be_sure;
            }
            series.known.insert(value, estimate);
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
        let help = "no run has what it is taken of: for deadlines_met, measured flows with a \
                    deadline whose outcome is known (docs/results.md)";
        self.study.error(Diagnostic::new(message).help(help))
    }

    /// What was found, in the order of the sweep and the scenario's transports; searches that are
    /// not over are left out.
    pub fn answers(&self) -> Vec<Answer> {
        self.series.iter().filter_map(|series| answer::answer(series, &self.varied.grid)).collect()
    }
}
