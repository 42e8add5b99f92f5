//! What is asked, and how a question becomes a search.

use super::bracket::Line;
use super::condition::Condition;
use super::grid::Grid;
use super::{CapacitySearch, REPETITIONS_FACTOR, REPETITIONS_MIN, Series, VALUE_FACTOR};
use crate::diagnostic::{Diagnostic, ScenarioError};
use crate::document::{Kind, leaves, resolve};
use crate::keys::keys;
use crate::plan::Study;
use crate::suggest;
use punctual_results::RunKind;
use std::collections::BTreeMap;
use std::ops::Range;

/// What is asked, as texts of the command line.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// The key that varies, dotted as for `--set`.
    pub vary: String,
    /// What must hold, such as `deadlines_met >= 99%`.
    pub until: String,
    /// The least value to try.
    pub from: Option<String>,
    /// The greatest value to try.
    pub to: Option<String>,
    /// The distance of values.
    pub step: Option<String>,
    /// The smallest value for which the condition holds is looked for, not the largest.
    pub smallest: bool,
    /// Repetitions of a probe at most; never fewer than it begins with.
    pub repetitions_max: Option<u32>,
}

/// Keys that a search sets itself.
const OWN_KEYS: [&str; 2] = ["run.repetitions", "run.seed"];

impl CapacitySearch {
    /// Prepares a search, or says what is wrong with the question.
    pub fn new(study: &Study, question: &Question) -> Result<CapacitySearch, ScenarioError> {
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

        let mut grid = grid(&study, &question.vary, &key_span).map_err(|d| study.error(d))?;
        let condition = Condition::parse(&question.until, until_span.start)
            .map_err(|diagnostic| study.error(diagnostic))?;
        let wrong =
            |span: &Range<usize>, message| study.error(Diagnostic::new(message).at(span.clone()));
        if let Some((text, span)) = &step {
            grid.set_step(text).map_err(|message| wrong(span, message))?;
        }
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
                "nothing to try: no multiple of the step, {}, is between the bounds",
                grid.step_text()
            );
            return Err(wrong(span, message));
        }
        let (line, easy, hard) = match question.smallest {
            false => (Line { easy: least, hard: greatest }, &from, &to),
            true => (Line { easy: greatest, hard: least }, &to, &from),
        };
        let mut search = CapacitySearch {
            key: question.vary.trim().to_owned(),
            key_span,
            condition,
            line,
            start: grid.nearest().clamp(least, greatest),
            grid,
            easy_is_given: easy.is_some(),
            hard_is_given: hard.is_some(),
            repetitions_first: 0,
            repetitions_max: 0,
            studies: BTreeMap::new(),
            series: Vec::new(),
            asked: Vec::new(),
            study,
        };
        // Values given must be right.
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
            let others = p.labels.iter().filter(|(key, _)| *key != self.key);
            let labels: Vec<_> = others.cloned().collect();
            let subjects = p.scenario.subjects().into_iter();
            self.series.extend(subjects.map(|subject| Series {
                point,
                labels: labels.clone(),
                subject,
                kind: RunKind::Packets,
                known: BTreeMap::new(),
                order: Vec::new(),
                open: None,
                runs: 0,
                found: None,
            }));
        }
    }
}

/// The values a key can have, or why it cannot vary.
fn grid(study: &Study, key: &str, span: &Range<usize>) -> Result<Grid, Diagnostic> {
    let tree = study.tree();
    let leaves = leaves(tree);
    let numbers = || leaves.iter().filter(|(_, node)| Grid::of(node).is_some());
    let is_own = |path: &str| OWN_KEYS.contains(&path);
    let numeric: Vec<&str> =
        numbers().map(|(path, _)| path.as_str()).filter(|path| !is_own(path)).collect();
    let help = format!("numbers of this scenario: {}", suggest::list(numeric.iter().copied()));
    if is_own(key.trim()) {
        let message = format!("`{key}` is what a search repeats itself with, and cannot vary");
        return Err(Diagnostic::new(message).at(span.clone()).help(help));
    }
    let Some((place, node)) = resolve(tree, key.trim()) else {
        return Err(missing(key.trim(), &leaves.iter().map(|(p, _)| &**p).collect::<Vec<_>>())
            .at(span.clone())
            .help(help));
    };
    Grid::of(node).ok_or_else(|| {
        let within: Vec<&str> = numbers()
            .filter(|(path, _)| {
                resolve(tree, path).is_some_and(|(p, _)| p.starts_with(&format!("{place}.")))
            })
            .map(|(path, _)| path.as_str())
            .collect();
        let what = match &node.kind {
            Kind::Table(_) => "a table".to_owned(),
            Kind::List(_) => "a list".to_owned(),
            Kind::Integer(_) | Kind::Float(_) => format!("below zero, {node}"),
            _ => format!("`{node}`"),
        };
        let help = match &within[..] {
            [] => help,
            _ => format!("vary {}", suggest::list(within.iter().copied())),
        };
        let message = format!("`{key}` is {what}, not a number that can vary");
        Diagnostic::new(message).at(span.clone()).help(help)
    })
}

/// What to say of a key that the scenario does not have.
fn missing(key: &str, present: &[&str]) -> Diagnostic {
    let sections = keys();
    let known: Vec<String> = sections
        .iter()
        .flat_map(|(section, keys)| {
            let section = section.split('.').next().unwrap_or(section);
            keys.iter().map(move |key| format!("{section}.{key}"))
        })
        .collect();
    // `traffic.0.senders` and `traffic.queries.senders` are `traffic.senders` to the list of keys.
    let parts: Vec<&str> = key.split('.').collect();
    let plain = match parts[..] {
        [section, _, name] => format!("{section}.{name}"),
        _ => key.to_owned(),
    };
    if known.iter().any(|k| *k == key || *k == plain) {
        return Diagnostic::new(format!("`{key}` has no value in this scenario, or not one alone"))
            .label(format!("give it one to start from: --set {key}=VALUE"));
    }
    let unknown = Diagnostic::new(format!("unknown key `{key}`"));
    // What the scenario has is more likely meant than what it could have, and of dotted keys it is
    // the last part that says most.
    let last = |key: &'_ str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let lasts: Vec<String> = present.iter().map(|path| last(path)).collect();
    let by_last = suggest::nearest(&last(key), lasts.iter().map(String::as_str));
    let by_last = by_last.and_then(|near| lasts.iter().position(|last| last == near));
    let near = by_last
        .map(|i| present[i])
        .or_else(|| suggest::nearest(key, present.iter().copied()))
        .or_else(|| suggest::nearest(key, known.iter().map(String::as_str)));
    match near {
        Some(near) => unknown.label(format!("did you mean `{near}`?")),
        None => unknown,
    }
}
