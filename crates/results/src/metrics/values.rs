//! The values of all metrics, and how `summary.json` has them.

use super::{Interval, Metric, Scope, Unit};
use crate::Summary;
use crate::run_data::RunData;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

/// The value of a metric.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figure {
    /// The value, or a lower bound of it; none when there is nothing to compute it from.
    pub value: Option<f64>,
    /// Whether `value` is only a lower bound.
    pub is_bound: bool,
    /// Half the width of its 95 % interval.
    pub half_width: Option<f64>,
    /// Whether it is a percentile beyond the median of so few flows that it is their maximum, or a
    /// mean over repetitions with such a one.
    pub is_maximum: bool,
}

impl Figure {
    /// A value that is known.
    pub fn known(value: Option<f64>, half_width: Option<f64>) -> Figure {
        Figure { value, half_width, ..Figure::default() }
    }

    /// A lower bound.
    pub fn at_least(bound: f64) -> Figure {
        Figure { value: Some(bound), is_bound: true, ..Figure::default() }
    }

    /// The value, where it is known.
    pub fn exact(&self) -> Option<f64> {
        self.value.filter(|_| !self.is_bound)
    }

    /// The lower bound, where only that is known.
    pub fn bound(&self) -> Option<f64> {
        self.value.filter(|_| self.is_bound)
    }
}

/// The values of all metrics: of one run, of some of its flows, or means over repetitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Metrics(Box<[Figure; Metric::ALL.len()]>);

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics(Box::new([Figure::default(); Metric::ALL.len()]))
    }
}

impl Index<Metric> for Metrics {
    type Output = Figure;

    fn index(&self, metric: Metric) -> &Figure {
        &self.0[metric as usize]
    }
}

impl IndexMut<Metric> for Metrics {
    fn index_mut(&mut self, metric: Metric) -> &mut Figure {
        &mut self.0[metric as usize]
    }
}

impl Metrics {
    /// Of one run, or of some of its flows.
    pub(crate) fn of(run: &RunData<'_>) -> Metrics {
        Metrics::made_of(|metric| metric.compute(run)).with_maxima_marked()
    }

    /// Of some of a run's flows: those that results by traffic class and by flow size record.
    pub(crate) fn of_group(run: &RunData<'_>) -> Metrics {
        let figure = |metric: Metric| metric.is_in_groups().then(|| metric.compute(run));
        Metrics::made_of(|metric| figure(metric).unwrap_or_default()).with_maxima_marked()
    }

    /// Marks the percentiles of so few flows that they are the maximum.
    pub(crate) fn with_maxima_marked(mut self) -> Metrics {
        let flows = self.number(Metric::Flows);
        for metric in Metric::ALL.iter().copied() {
            let figure = &mut self[metric];
            figure.is_maximum |= figure.exact().is_some() && metric.is_maximum_of(flows);
        }
        self
    }

    /// Means over repetitions, with intervals.
    pub(crate) fn combine<'a>(repetitions: impl Iterator<Item = &'a Metrics> + Clone) -> Metrics {
        Metrics::made_of(|metric| metric.combine(repetitions.clone()))
    }

    /// Those of the network from `whole`, those of flows from `self`.
    pub(crate) fn within(self, whole: &Metrics) -> Metrics {
        Metrics::made_of(|metric| match metric.definition().scope {
            Scope::Network => whole[metric],
            Scope::Flows => self[metric],
        })
    }

    fn made_of(figure: impl Fn(Metric) -> Figure) -> Metrics {
        Metrics(Box::new(std::array::from_fn(|i| figure(Metric::ALL[i]))))
    }

    /// A value as a number: 0 where there is none.
    pub fn number(&self, metric: Metric) -> f64 {
        self[metric].value.unwrap_or(0.0)
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_some(self, Metric::ALL.iter().copied(), serializer)
    }
}

/// Serialises the metrics that results by traffic class and by flow size record.
pub(crate) fn serialize_group<S: Serializer>(
    metrics: &Metrics,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let grouped = Metric::ALL.iter().copied().filter(|metric| metric.is_in_groups());
    serialize_some(metrics, grouped, serializer)
}

fn serialize_some<S: Serializer>(
    metrics: &Metrics,
    some: impl Iterator<Item = Metric> + Clone,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for metric in some.clone() {
        let value = metrics[metric].exact();
        match metric.unit() {
            Unit::Count | Unit::Bytes => map.serialize_entry(metric.name(), &value.map(Whole))?,
            _ => map.serialize_entry(metric.name(), &value)?,
        }
    }
    let has_interval = |metric: &Metric| metric.definition().interval != Interval::None;
    let half_widths = some.clone().filter(has_interval);
    let half_widths = half_widths.map(|metric| (metric.name(), metrics[metric].half_width));
    map.serialize_entry(CI95, &half_widths.collect::<BTreeMap<_, _>>())?;
    let is_maximum = |metric: &Metric| metrics[*metric].is_maximum;
    let maxima: Vec<&str> = some.clone().filter(is_maximum).map(Metric::name).collect();
    let bounds = some.filter(|metric| metric.is_left_open());
    let bounds = bounds.map(|metric| (metric.name(), metrics[metric].bound()));
    map.serialize_entry(AT_LEAST, &bounds.collect::<BTreeMap<_, _>>())?;
    map.serialize_entry(MAXIMA, &maxima)?;
    map.end()
}

/// Field with the half widths of intervals.
const CI95: &str = "ci95";
/// Field with the lower bounds of values that unfinished flows leave open.
const AT_LEAST: &str = "at_least";

/// Field with the names of percentiles that are the maximum, because there are too few flows.
const MAXIMA: &str = "maxima";

/// A number that is written without fraction where it has none: a mean over repetitions may have.
struct Whole(f64);

impl Serialize for Whole {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const EXACT: f64 = (1u64 << 53) as f64;
        if (0.0..=EXACT).contains(&self.0) && self.0.fract() == 0.0 {
            serializer.serialize_u64(self.0 as u64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

/// Writes a count without fraction where it has none.
pub(crate) fn count<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Whole(*value).serialize(serializer)
}

impl<'de> Deserialize<'de> for Metrics {
    /// Metrics that the file does not have, because an earlier version wrote it, have no value.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metrics, D::Error> {
        deserializer.deserialize_map(MetricsVisitor)
    }
}

struct MetricsVisitor;

impl<'de> Visitor<'de> for MetricsVisitor {
    type Value = Metrics;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object with metrics")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metrics, A::Error> {
        type Fields = BTreeMap<String, Option<f64>>;
        let (mut metrics, mut half_widths, mut bounds) =
            (Metrics::default(), Fields::new(), Fields::new());
        let mut maxima: Vec<String> = Vec::new();
        while let Some(field) = map.next_key::<String>()? {
            match (&*field, Metric::named(&field)) {
                (_, Some(metric)) => metrics[metric].value = map.next_value()?,
                (CI95, _) => half_widths = map.next_value()?,
                (AT_LEAST, _) => bounds = map.next_value()?,
                (MAXIMA, _) => maxima = map.next_value()?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        let known = |(name, value): (String, Option<f64>)| Metric::named(&name).zip(value);
        for (metric, half_width) in half_widths.into_iter().filter_map(known) {
            metrics[metric].half_width = Some(half_width);
        }
        for (metric, bound) in bounds.into_iter().filter_map(known) {
            metrics[metric] = Figure::at_least(bound);
        }
        for metric in maxima.iter().filter_map(|name| Metric::named(name)) {
            metrics[metric].is_maximum = true;
        }
        Ok(metrics)
    }
}

impl Index<Metric> for Summary {
    type Output = Figure;

    fn index(&self, metric: Metric) -> &Figure {
        &self.metrics[metric]
    }
}

impl IndexMut<Metric> for Summary {
    fn index_mut(&mut self, metric: Metric) -> &mut Figure {
        &mut self.metrics[metric]
    }
}
