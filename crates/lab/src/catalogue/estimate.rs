//! Values of expressions with their intervals over seeds.
//!
//! The value is the expression of the measurements' means over seeds. Its 95 % interval is the
//! jackknife's: the expression is computed without each seed in turn, which treats ratios of means
//! right and keeps what runs of one seed have in common. Capacities have the interval that their
//! search found, and shares that do not vary between seeds have Wilson's.

use super::expression::{Expr, Leaf, Selector};
use super::file::MAIN;
use super::measure::{self, FILTERS, Files, MeasureError, Ran, Value};
use crate::capacity::{Answer, Outcome};
use crate::sweep::Labels;
use punctual_results::share_interval;
use punctual_results::stats::{ALPHA, half_width_95, mean, percentile, sorted};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The results of one part of an experiment.
#[derive(Debug, Clone, Default)]
pub(crate) struct PartResult {
    pub(crate) runs: Vec<Ran>,
    /// The answers of its capacity search.
    pub(crate) answers: Vec<Answer>,
    /// The axes of its sweep and their labels, in order.
    pub(crate) axes: Vec<(String, Vec<String>)>,
    /// How many of the runs were there already.
    pub(crate) reused: usize,
}

/// The value of an expression and how sure it is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// The value; none where a measurement has none.
    pub value: Option<f64>,
    /// The 95 % interval; none with a single seed.
    pub interval: Option<(f64, f64)>,
    /// Number of seeds behind it.
    pub seeds: usize,
}

/// Computes expressions over the results of an experiment's parts.
pub(crate) struct Evaluator<'a> {
    parts: BTreeMap<&'a str, &'a PartResult>,
    files: Files,
    leaves: RefCell<BTreeMap<Leaf, Rc<LeafData>>>,
}

/// A measurement: its value with each seed, or the answer of a search.
#[derive(Debug, Default)]
struct LeafData {
    by_seed: Vec<(u64, Value)>,
    statistic: Statistic,
    /// The value of a search.
    found: Option<f64>,
    /// Ends of an interval that does not come from the spread between seeds.
    ends: Option<(f64, f64)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Statistic {
    #[default]
    Mean,
    /// A percentile of pooled values, in tenths of a per cent.
    Percentile(u32),
}

/// Which values a computation uses.
#[derive(Clone, Copy)]
enum Use {
    All,
    WithoutSeed(u64),
    /// The lower or the upper end of each measurement that has ends, by bit.
    Ends(u32),
}

impl LeafData {
    fn value(&self, which: Use, bit: u32) -> Option<f64> {
        if let (Use::Ends(bits), Some((low, high))) = (which, self.ends) {
            return Some(if bits >> bit & 1 == 0 { low } else { high });
        }
        if self.found.is_some() {
            return self.found;
        }
        let kept = self
            .by_seed
            .iter()
            .filter(|(seed, _)| !matches!(which, Use::WithoutSeed(without) if without == *seed));
        let (mut numbers, mut pool) = (Vec::new(), Vec::new());
        for (_, value) in kept {
            match value {
                Value::One(x) => numbers.push(*x),
                Value::Share(share) => numbers.push(share.share),
                Value::Pool(values) => pool.extend(values.iter().copied()),
            }
        }
        match (numbers.is_empty(), self.statistic) {
            (false, _) => mean(&numbers),
            (true, Statistic::Mean) => mean(&pool),
            (true, Statistic::Percentile(per_mille)) => percentile(&sorted(pool), per_mille),
        }
    }
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(parts: impl IntoIterator<Item = (&'a str, &'a PartResult)>) -> Self {
        let parts = parts.into_iter().collect();
        Evaluator { parts, files: Files::default(), leaves: RefCell::default() }
    }

    /// The value of an expression with its interval.
    pub(crate) fn estimate(&self, expr: &Expr) -> Result<Estimate, MeasureError> {
        let (value, leaves) = self.compute(expr, Use::All)?;
        let mut seeds = BTreeSet::new();
        leaves.iter().for_each(|leaf| seeds.extend(leaf.by_seed.iter().map(|(seed, _)| *seed)));
        let ended = leaves.iter().filter(|leaf| leaf.ends.is_some()).count() as u32;
        let Some(value) = value else {
            return Ok(Estimate { value: None, interval: None, seeds: seeds.len() });
        };
        let half = self.jackknife(expr, value, &seeds)?;
        let searched = leaves.iter().any(|leaf| leaf.found.is_some());
        let mut interval = half.map(|half| (value - half, value + half));
        // Ends count where a search found them, or where equal shares of all seeds leave no spread.
        if searched || half == Some(0.0) {
            interval = self.corners(expr, value, ended)?.or(interval);
        }
        Ok(Estimate { value: Some(value), interval, seeds: seeds.len() })
    }

    fn jackknife(
        &self,
        expr: &Expr,
        value: f64,
        seeds: &BTreeSet<u64>,
    ) -> Result<Option<f64>, MeasureError> {
        let n = seeds.len() as f64;
        if seeds.len() < 2 {
            return Ok(None);
        }
        let mut pseudo = Vec::new();
        for seed in seeds {
            let Some(without) = self.compute(expr, Use::WithoutSeed(*seed))?.0 else {
                return Ok(None);
            };
            pseudo.push(n * value - (n - 1.0) * without);
        }
        let half = half_width_95(&pseudo).filter(|half| half.is_finite());
        // Rounding is no spread.
        Ok(half.map(|half| if half < value.abs() * 1e-12 { 0.0 } else { half }))
    }

    /// The least and the greatest value over the ends of all measurements that have them.
    fn corners(
        &self,
        expr: &Expr,
        value: f64,
        ended: u32,
    ) -> Result<Option<(f64, f64)>, MeasureError> {
        if ended == 0 || ended > 10 {
            return Ok(None);
        }
        let (mut low, mut high) = (value, value);
        for bits in 0..1u32 << ended {
            if let Some(corner) = self.compute(expr, Use::Ends(bits))?.0.filter(|x| !x.is_nan()) {
                (low, high) = (low.min(corner), high.max(corner));
            }
        }
        Ok(Some((low, high)))
    }

    fn compute(
        &self,
        expr: &Expr,
        which: Use,
    ) -> Result<(Option<f64>, Vec<Rc<LeafData>>), MeasureError> {
        let mut leaves = Vec::new();
        let value = self.value(expr, which, &mut leaves, &mut 0)?;
        Ok((value, leaves))
    }

    fn value(
        &self,
        expr: &Expr,
        which: Use,
        leaves: &mut Vec<Rc<LeafData>>,
        bit: &mut u32,
    ) -> Result<Option<f64>, MeasureError> {
        Ok(match expr {
            Expr::Number(x) => Some(*x),
            Expr::Leaf(leaf) => {
                let data = self.leaf(leaf)?;
                let value = data.value(which, *bit);
                *bit += u32::from(data.ends.is_some());
                leaves.push(data);
                value
            }
            Expr::Negative(inner) => self.value(inner, which, leaves, bit)?.map(|x| -x),
            Expr::Binary(op, a, b) => {
                let a = self.value(a, which, leaves, bit)?;
                let b = self.value(b, which, leaves, bit)?;
                a.zip(b).map(|(a, b)| op.apply(a, b)).filter(|x| !x.is_nan())
            }
            Expr::Call(function, arguments) => {
                let mut values = Vec::new();
                for argument in arguments {
                    values.push(self.value(argument, which, leaves, bit)?);
                }
                let all: Option<Vec<f64>> = values.into_iter().collect();
                all.map(|all| function.apply(&all))
            }
            Expr::Crossing { of, axis, level } => {
                let mut points = Vec::new();
                for (selector, x) in self.axis_points(of, axis)? {
                    let at = of.selecting(&[selector]);
                    points.push((x, self.value(&at, which, leaves, bit)?));
                }
                crossing(&points, *level)
            }
        })
    }

    /// The points of an axis, as selectors with their values as numbers.
    fn axis_points(&self, of: &Expr, axis: &str) -> Result<Vec<(Selector, f64)>, MeasureError> {
        let mut part = MAIN;
        of.leaves(&mut |leaf| part = leaf.selector("part").unwrap_or(part));
        let result = self.part(part)?;
        let wrong = |what: String| MeasureError::Wrong(what);
        let own = result.axes.iter().find(|(name, _)| is_axis(name, axis));
        let (_, labels) = own.ok_or_else(|| wrong(format!("there is no axis `{axis}`")))?;
        let point = |label: &String| {
            let x = leading_number(label);
            let x = x.ok_or_else(|| wrong(format!("`{label}` of `{axis}` is not a number")))?;
            Ok((Selector { key: axis.to_owned(), value: label.clone() }, x))
        };
        labels.iter().map(point).collect()
    }

    fn part(&self, name: &str) -> Result<&'a PartResult, MeasureError> {
        let part = self.parts.get(name).copied();
        part.ok_or_else(|| MeasureError::Wrong(format!("there is no part `{name}`")))
    }

    fn leaf(&self, leaf: &Leaf) -> Result<Rc<LeafData>, MeasureError> {
        if let Some(known) = self.leaves.borrow().get(leaf) {
            return Ok(known.clone());
        }
        let part = self.part(leaf.selector("part").unwrap_or(MAIN))?;
        let data = match &*leaf.name {
            "capacity" => capacity(leaf, part)?,
            _ => self.measured(leaf, part)?,
        };
        let data = Rc::new(data);
        self.leaves.borrow_mut().insert(leaf.clone(), data.clone());
        Ok(data)
    }

    fn measured(&self, leaf: &Leaf, part: &'a PartResult) -> Result<LeafData, MeasureError> {
        let own: Vec<&'a Ran> = part
            .runs
            .iter()
            .filter(|run| selects(leaf, None, &run.transport, &run.labels))
            .collect();
        let over = leaf.selector("over");
        let others: Vec<&'a Ran> = part
            .runs
            .iter()
            .filter(|run| over.is_some_and(|o| selects(leaf, Some(o), &run.transport, &run.labels)))
            .collect();
        if own.is_empty() {
            return Err(MeasureError::Wrong(format!("no run is selected by `{leaf}`")));
        }
        let seeds: BTreeSet<u64> = own.iter().map(|run| run.seed).collect();
        let statistic = match &*leaf.name {
            "overrun_p95" => Statistic::Percentile(950),
            "last_percentile_us" => Statistic::Percentile(measure::per_mille(leaf)?),
            _ => Statistic::Mean,
        };
        let mut data = LeafData { statistic, ..LeafData::default() };
        for seed in seeds {
            let with = |runs: &[&'a Ran]| -> Vec<&'a Ran> {
                runs.iter().copied().filter(|run| run.seed == seed).collect()
            };
            let (own, others) = (with(&own), with(&others));
            if let Some(value) = measure::measure(leaf, &own, &others, &self.files)? {
                data.by_seed.push((seed, value));
            }
        }
        data.ends = share_ends(&data, leaf.name == "missed");
        Ok(data)
    }
}

/// Wilson's interval of a share over seeds.
fn share_ends(data: &LeafData, in_percent: bool) -> Option<(f64, f64)> {
    let factor = if in_percent { 100.0 } else { 1.0 };
    let mut shares = Vec::new();
    for (_, value) in &data.by_seed {
        let Value::Share(mut share) = value.clone() else { return None };
        share.share /= factor;
        shares.push(share);
    }
    let (low, high) = share_interval(&shares, ALPHA)?;
    Some((low * factor, high * factor))
}

fn capacity(leaf: &Leaf, part: &PartResult) -> Result<LeafData, MeasureError> {
    let wrong = |what: String| MeasureError::Wrong(what);
    let is_own = |answer: &&Answer| {
        let transport = answer.transport.split(" (").next().unwrap_or_default();
        selects(leaf, None, transport, &answer.labels)
    };
    let mut own = part.answers.iter().filter(is_own);
    let answer = own.next().ok_or_else(|| wrong(format!("no search is selected by `{leaf}`")))?;
    if own.next().is_some() {
        return Err(wrong(format!("several searches are selected by `{leaf}`")));
    }
    let number = |text: &Option<String>| text.as_deref().and_then(leading_number);
    let found = number(&answer.capacity).unwrap_or(0.0);
    let low = number(&answer.holds_to).unwrap_or(0.0).min(found);
    let high = match answer.outcome {
        Outcome::Always => f64::INFINITY,
        Outcome::Never => number(&answer.fails_from).or(number(&answer.estimate_at)).unwrap_or(0.0),
        Outcome::Found => number(&answer.fails_from).unwrap_or(f64::INFINITY).max(found),
    };
    Ok(LeafData { found: Some(found), ends: Some((low, high)), ..LeafData::default() })
}

/// Whether a leaf selects a run. `instead` replaces its transport.
fn selects(leaf: &Leaf, instead: Option<&str>, transport: &str, labels: &Labels) -> bool {
    let own = instead.or(leaf.selector("transport"));
    own.is_none_or(|name| name == transport)
        && leaf
            .selectors
            .iter()
            .filter(|s| !FILTERS.contains(&&*s.key))
            .all(|s| labels.iter().any(|(axis, label)| is_axis(axis, &s.key) && *label == s.value))
}

/// Whether a key names an axis: its whole name, or its last parts.
pub(crate) fn is_axis(axis: &str, key: &str) -> bool {
    axis == key || axis.strip_suffix(key).is_some_and(|rest| rest.ends_with('.'))
}

/// The number at the beginning of a text, such as 30 of `30ms`.
pub(crate) fn leading_number(text: &str) -> Option<f64> {
    let end =
        text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Where a curve first crosses a level, between its points.
///
/// A curve that never does stays on the side on which it begins. If its trend leads away from that
/// side, it has kept to it up to the last point; otherwise it was never on the other side, and the
/// first point is the answer.
fn crossing(points: &[(f64, Option<f64>)], level: f64) -> Option<f64> {
    let known: Vec<(f64, f64)> =
        points.iter().filter_map(|(x, y)| y.map(|y| (*x, y - level))).collect();
    for pair in known.windows(2) {
        let [(x1, y1), (x2, y2)] = pair else { continue };
        if (*y1 >= 0.0) != (*y2 >= 0.0) {
            return Some(x1 + (x2 - x1) * y1 / (y1 - y2));
        }
    }
    let ((first_x, first_y), (last_x, last_y)) = (*known.first()?, *known.last()?);
    let is_never = if first_y >= 0.0 { last_y > first_y } else { last_y < first_y };
    Some(if is_never { first_x } else { last_x })
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_results::Metric;

    fn part(values: &[(&str, &str, u64, f64)]) -> PartResult {
        let runs = values.iter().map(|(transport, workers, seed, met)| {
            let summary = punctual_results::Summary::default();
            Ran {
                transport: (*transport).to_owned(),
                labels: vec![("traffic.workers".to_owned(), (*workers).to_owned())],
                seed: *seed,
                dir: Default::default(),
                summary: summary.with(Metric::FctMean, *met).with(Metric::DeadlinesMet, *met),
            }
        });
        let mut labels: Vec<String> = Vec::new();
        for (_, workers, ..) in values {
            if !labels.contains(&(*workers).to_owned()) {
                labels.push((*workers).to_owned());
            }
        }
        PartResult {
            runs: runs.collect(),
            axes: vec![("traffic.workers".to_owned(), labels)],
            ..PartResult::default()
        }
    }

    fn estimate(part: &PartResult, text: &str) -> Estimate {
        let evaluator = Evaluator::new([(MAIN, part)]);
        evaluator.estimate(&Expr::parse(text).unwrap()).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn a_mean_has_students_interval() {
        let part = part(&[("a", "8", 1, 1.0), ("a", "8", 2, 2.0), ("a", "8", 3, 3.0)]);
        let found = estimate(&part, "fct_mean_us[a, workers=8]");
        let half = half_width_95(&[1.0, 2.0, 3.0]).unwrap();
        let (low, high) = found.interval.unwrap();
        assert_eq!((found.value, found.seeds), (Some(2.0), 3));
        assert!((low - (2.0 - half)).abs() < 1e-9 && (high - (2.0 + half)).abs() < 1e-9);
    }

    /// Both transports rise and fall together with the seed, so that their ratio is sure.
    #[test]
    fn a_ratio_keeps_what_seeds_have_in_common() {
        let rows: Vec<(&str, &str, u64, f64)> = (1..=5)
            .flat_map(|seed| [("a", "8", seed, seed as f64), ("b", "8", seed, 2.0 * seed as f64)])
            .collect();
        let found = estimate(&part(&rows), "fct_mean_us[b] / fct_mean_us[a]");
        assert_eq!((found.value, found.interval), (Some(2.0), Some((2.0, 2.0))));
    }

    #[test]
    fn one_seed_has_no_interval_and_equal_shares_do() {
        let one = part(&[("a", "8", 1, 1.0)]);
        assert_eq!(estimate(&one, "fct_mean_us[a]").interval, None);
        let two = part(&[("a", "8", 1, 1.0), ("a", "8", 2, 1.0)]);
        let (low, high) = estimate(&two, "100 * deadlines_met[a]").interval.unwrap();
        assert!(low < 100.0 && high == 100.0, "{low} {high}");
    }

    #[test]
    fn curves_cross_between_points() {
        let rows =
            [("a", "10", 1, 1.0), ("a", "20", 1, 0.9), ("b", "10", 1, 1.0), ("b", "20", 1, 0.99)];
        let part = part(&rows);
        let at = |name: &str| {
            estimate(&part, &format!("crossing(deadlines_met[{name}], workers, 0.95)")).value
        };
        assert!((at("a").unwrap() - 15.0).abs() < 1e-9);
        assert_eq!(at("b"), Some(20.0), "it holds up to the last point");
        let points = [(10.0, Some(0.9)), (20.0, Some(0.5))];
        assert_eq!(crossing(&points, 0.95), Some(10.0), "it never holds");
    }

    #[test]
    fn open_axes_are_averaged_and_unknown_ones_refused() {
        let part = part(&[("a", "10", 1, 1.0), ("a", "20", 1, 3.0)]);
        assert_eq!(estimate(&part, "fct_mean_us[a]").value, Some(2.0));
        let evaluator = Evaluator::new([(MAIN, &part)]);
        let error = evaluator.estimate(&Expr::parse("fct_mean_us[a, hosts=1]").unwrap());
        assert!(error.unwrap_err().to_string().contains("no run is selected"));
    }
}
