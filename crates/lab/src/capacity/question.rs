//! The question of a capacity search, as given on the command line.

use super::bracket::SearchRange;
use super::condition::Condition;
use super::varied::Varied;
use super::{CapacitySearch, REPETITIONS_FACTOR, REPETITIONS_MIN, Series, VALUE_FACTOR};
use crate::diagnostic::{Diagnostic, ScenarioError};
use crate::plan::Study;
use punctual_results::RunKind;
use punctual_sim::Simulate;
use std::collections::BTreeMap;
use std::ops::Range;

/// The options of a capacity search, as texts of the command line.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// The key that varies, dotted as for `--set`; several keys separated by commas, which keep
    /// their proportions; or the name of a linked axis of the sweep.
    pub vary: String,
    /// The condition, such as `deadlines_met >= 99%`.
    pub until: String,
    /// The least value to try.
    pub from: Option<String>,
    /// The greatest value to try.
    pub to: Option<String>,
    /// The step between values.
    pub step: Option<String>,
    /// Whether to find the smallest value for which the condition holds, not the largest.
    pub smallest: bool,
    /// Maximum repetitions of a probe; at least the initial repetitions apply.
    pub repetitions_max: Option<u32>,
}

impl<S: Simulate> CapacitySearch<S> {
    /// Prepares a search. Fails if an option is wrong.
    pub fn new(study: &Study<S>, question: &Question) -> Result<CapacitySearch<S>, ScenarioError> {
        let mut sources = study.sources().clone();
        let mut add = |name: &str, text: &str| {
            let start = sources.add(name, text);
            start..start + text.len()
        };
        let key_span = add("--vary", &question.vary);
        let until_span = add("--until", &question.until);
        let mut option = |name: &str, text: &Option<String>| {
            text.as_ref().map(|text| (text.clone(), add(name, text)))
        };
        let step = option("--step", &question.step);
        let from = option("--from", &question.from);
        let to = option("--to", &question.to);
        let study = study.with_sources(sources);

        let mut varied =
            Varied::new(&study, &question.vary, &key_span).map_err(|d| study.error(d))?;
        let condition = Condition::parse(&question.until, until_span.start)
            .map_err(|diagnostic| study.error(diagnostic))?;
        let wrong =
            |span: &Range<usize>, message| study.error(Diagnostic::new(message).at(span.clone()));
        if let Some((text, span)) = &step {
            varied.set_step(text).map_err(|message| wrong(span, message))?;
        }
        let grid = &varied.grid;
        let least = match &from {
            Some((text, span)) => grid.first_from(text).map_err(|m| wrong(span, m))?,
            None => 1,
        };
        let greatest = match &to {
            Some((text, span)) => grid.last_within(text).map_err(|m| wrong(span, m))?,
            None => grid.nearest().max(least).saturating_mul(VALUE_FACTOR),
        };
        if least > greatest {
            let span = to.as_ref().or(from.as_ref()).map_or(&key_span, |(_, span)| span);
            let message = format!(
                "no value to try: no multiple of the step {} is within the bounds",
                grid.step_text()
            );
            return Err(wrong(span, message));
        }
        let (range, easy, hard) = match question.smallest {
            false => (SearchRange { easy: least, hard: greatest }, &from, &to),
            true => (SearchRange { easy: greatest, hard: least }, &to, &from),
        };
        let mut search = CapacitySearch {
            condition,
            range,
            start: grid.nearest().clamp(least, greatest),
            varied,
            easy_is_given: easy.is_some(),
            hard_is_given: hard.is_some(),
            repetitions_first: 0,
            repetitions_max: 0,
            studies: BTreeMap::new(),
            series: Vec::new(),
            asked: Vec::new(),
            study,
        };
        // The scenario must accept the values that the user gave.
        search.load(search.start)?;
        for (point, _) in [(least, &from), (greatest, &to)].iter().filter(|(_, o)| o.is_some()) {
            search.load(*point)?;
        }
        search.prepare(question.repetitions_max);
        Ok(search)
    }

    fn prepare(&mut self, repetitions_max: Option<u32>) {
        let points = self.studies[&self.start].points();
        let own = points[0].scenario.run.repetitions;
        self.repetitions_first = own.max(REPETITIONS_MIN);
        self.repetitions_max = repetitions_max
            .unwrap_or(self.repetitions_first.saturating_mul(REPETITIONS_FACTOR))
            .max(self.repetitions_first);
        for (point, p) in points.iter().enumerate() {
            let others = p.labels.iter().filter(|(key, _)| *key != self.varied.name);
            let labels: Vec<_> = others.cloned().collect();
            let subjects = p.scenario.subjects().into_iter();
            self.series.extend(subjects.map(|subject| Series {
                point,
                labels: labels.clone(),
                subject,
                kind: RunKind::Packets,
                known: BTreeMap::new(),
                loads: BTreeMap::new(),
                doubts: BTreeMap::new(),
                directories: BTreeMap::new(),
                order: Vec::new(),
                open: None,
                runs: 0,
                found: None,
            }));
        }
    }
}
