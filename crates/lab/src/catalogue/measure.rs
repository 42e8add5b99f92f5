//! Measurements of runs: what the names in claims stand for.
//!
//! A name is a metric of `summary.json` (`docs/results.md`), or one of [`OTHERS`], which are
//! computed from the tables of a run. Selectors choose the runs (transport, part, values of the
//! sweep's axes) and, for the others, flows, ports and times.

use super::expression::Leaf;
use crate::sweep::Labels;
use punctual_core::{Bytes, Duration, Instant};
use punctual_results::stats::{mean, percentile, sorted};
use punctual_results::{FlowRow, FlowStatus, Metric, ReadError, RunFiles, ShareOf, Summary};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A finished run of a part.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub(crate) transport: String,
    pub(crate) labels: Labels,
    pub(crate) seed: u64,
    pub(crate) dir: PathBuf,
    pub(crate) summary: Summary,
}

/// Measurements that are no metric of `summary.json`, and what each is.
pub const OTHERS: &[(&str, &str)] = &[
    ("missed", "deadline flows that missed their deadline, in %"),
    ("overrun_mean", "mean overrun of late flows, in % of their time allowed, over all seeds"),
    ("overrun_p95", "95th percentile of that overrun, over all seeds"),
    ("fct_min_us", "shortest flow completion time"),
    ("fct_percentile_us", "percentile `p` of the flow completion time"),
    (
        "last_percentile_us",
        "percentile `p` over seeds of the longest flow completion time of a run",
    ),
    (
        "fct_ratio_share",
        "share of flows whose FCT over that `over` another transport is `at_most` or `above` a factor",
    ),
    ("fct_ratio_max", "largest FCT over that `over` another transport"),
    ("rate_gbps", "bytes delivered to the flows in the measured window per time"),
    ("rate_mean_gbps", "mean of that over flows"),
    ("rate_rank_gbps", "that of the flow with `rank` from the slowest"),
    ("rate_worst_tenth_gbps", "mean of that over the slowest tenth of the flows"),
    ("rates_below", "number of flows with less than `below` Gb/s"),
    ("delivered_bytes", "bytes delivered in the measured window"),
    ("port_utilisation", "mean utilisation of ports"),
    ("trims_at", "packets trimmed at ports"),
    ("latency_p50_us", "median latency of data packets, first transmission to ACK"),
    ("latency_p90_us", "90th percentile of that latency"),
    ("latency_p99_us", "99th percentile of that latency"),
    ("latency_max_us", "longest latency of a data packet"),
    ("queue_mean_bytes", "mean sampled queue"),
    ("queue_percentile_bytes", "percentile `p` of the sampled queue"),
    ("queue_mean_packets", "mean sampled queue in packets"),
    ("sent_gbps", "rate that ports sent at"),
    ("bin_min_gbps", "least rate between two samples"),
    ("bin_percentile_gbps", "percentile `p` of the rates between samples"),
    ("bins_below", "number of intervals between samples with less than `below` Gb/s"),
    ("bins_above", "number of intervals between samples with more than `above` Gb/s"),
    ("capacity", "the capacity found by the search of a part"),
];

/// Selector keys that are not axes of the sweep.
pub(crate) const FILTERS: [&str; 18] = [
    "transport",
    "part",
    "traffic",
    "src",
    "dst",
    "flow",
    "size_from",
    "size_below",
    "tier",
    "to",
    "from",
    "until",
    "p",
    "rank",
    "below",
    "above",
    "at_most",
    "over",
];

/// The value of a measurement with one seed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// A number, averaged over seeds.
    One(f64),
    /// A share with its count of flows, averaged over seeds.
    Share(ShareOf),
    /// Values that are pooled over seeds before the statistic is taken.
    Pool(Vec<f64>),
}

/// Files of runs, each read once.
#[derive(Debug, Default)]
pub(crate) struct Files(RefCell<BTreeMap<PathBuf, Rc<RunFiles>>>);

impl Files {
    fn get(&self, dir: &Path) -> Result<Rc<RunFiles>, ReadError> {
        if let Some(known) = self.0.borrow().get(dir) {
            return Ok(known.clone());
        }
        let files = Rc::new(punctual_results::read(dir)?);
        self.0.borrow_mut().insert(dir.to_owned(), files.clone());
        Ok(files)
    }
}

/// Whether a name can be measured.
pub(crate) fn is_known(name: &str) -> bool {
    Metric::named(name).is_some() || OTHERS.iter().any(|(other, _)| *other == name)
}

/// All names that can be measured.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    Metric::ALL.iter().map(|m| m.name()).chain(OTHERS.iter().map(|(name, _)| *name))
}

/// Why a measurement could not be taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MeasureError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{0}")]
    Wrong(String),
}

/// The value of a measurement over the selected runs of one seed: several where the leaf leaves an
/// axis of the sweep open. `others` are the runs of the transport that `over` names.
pub(crate) fn measure(
    leaf: &Leaf,
    runs: &[&Ran],
    others: &[&Ran],
    files: &Files,
) -> Result<Option<Value>, MeasureError> {
    let taker = Taker { leaf, runs, files };
    let is_plain = !["src", "dst", "flow", "size_from", "size_below", "traffic", "tier"]
        .iter()
        .any(|key| leaf.selector(key).is_some());
    if let Some(metric) = Metric::named(&leaf.name).filter(|_| is_plain) {
        return Ok(summary_metric(metric, runs));
    }
    taker.take(others)
}

fn summary_metric(metric: Metric, runs: &[&Ran]) -> Option<Value> {
    let values: Vec<f64> = runs.iter().filter_map(|run| run.summary[metric].value).collect();
    let value = mean(&values)?;
    if metric == Metric::DeadlinesMet {
        let flows = runs.iter().map(|run| run.summary.number(Metric::DeadlineFlows)).sum();
        return Some(Value::Share(ShareOf { share: value, flows }));
    }
    Some(Value::One(value))
}

fn wrong(leaf: &Leaf, what: &str) -> MeasureError {
    MeasureError::Wrong(format!("`{leaf}`: {what}"))
}

fn number<T: std::str::FromStr>(leaf: &Leaf, key: &str) -> Result<T, MeasureError> {
    let parsed = leaf.selector(key).and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| wrong(leaf, &format!("needs a number as `{key}`")))
}

/// The percentile that a measurement asks for by `p`, in tenths of a per cent.
pub(crate) fn per_mille(leaf: &Leaf) -> Result<u32, MeasureError> {
    let p: f64 = number(leaf, "p")?;
    let per_mille = (p * 10.0).round();
    if (0.0..=1000.0).contains(&per_mille) {
        Ok(per_mille as u32)
    } else {
        Err(wrong(leaf, "a percentile is from 0 to 100"))
    }
}

struct Taker<'a> {
    leaf: &'a Leaf,
    runs: &'a [&'a Ran],
    files: &'a Files,
}

impl Taker<'_> {
    fn take(&self, others: &[&Ran]) -> Result<Option<Value>, MeasureError> {
        let one = |value: Option<f64>| value.map(Value::One);
        Ok(match &*self.leaf.name {
            "missed" => self.missed()?,
            "deadlines_met" => match self.missed()? {
                Some(Value::Share(s)) => {
                    Some(Value::Share(ShareOf { share: 1.0 - s.share / 100.0, ..s }))
                }
                other => other,
            },
            "overrun_mean" | "overrun_p95" => Some(Value::Pool(self.overruns()?)),
            "fct_mean_us" => one(mean(&self.fcts()?)),
            "fct_min_us" => one(self.fcts()?.first().copied()),
            "fct_max_us" => one(self.fcts()?.last().copied()),
            "fct_p50_us" => one(percentile(&self.fcts()?, 500)),
            "fct_p90_us" => one(percentile(&self.fcts()?, 900)),
            "fct_p95_us" => one(percentile(&self.fcts()?, 950)),
            "fct_p99_us" => one(percentile(&self.fcts()?, 990)),
            "fct_percentile_us" => one(percentile(&self.fcts()?, self.per_mille()?)),
            "last_percentile_us" => {
                Some(Value::Pool(self.fcts()?.last().copied().into_iter().collect()))
            }
            "fct_ratio_share" => one(self.ratio_share(others)?),
            "fct_ratio_max" => one(self.ratios(others)?.into_iter().reduce(f64::max)),
            "rate_gbps" => one(Some(self.rates()?.iter().sum())),
            "rate_mean_gbps" => one(mean(&self.rates()?)),
            "rate_rank_gbps" => {
                let rank: usize = self.number("rank")?;
                one(self.rates()?.get(rank.saturating_sub(1)).copied())
            }
            "rate_worst_tenth_gbps" => {
                let rates = self.rates()?;
                one(mean(&rates[..(rates.len() / 10).max(1).min(rates.len())]))
            }
            "rates_below" => {
                let below: f64 = self.number("below")?;
                one(Some(self.rates()?.iter().filter(|rate| **rate < below).count() as f64))
            }
            "delivered_bytes" => {
                let flows = self.flows(true)?;
                one(Some(flows.iter().map(|f| f.in_window.delivered.get() as f64).sum()))
            }
            "port_utilisation" => one(self.port_utilisation()?),
            "trims_at" => one(Some(self.ports(|port| port.trims as f64)?.iter().sum())),
            "latency_p50_us" => self.latency(|l| l.p50_us),
            "latency_p90_us" => self.latency(|l| l.p90_us),
            "latency_p99_us" => self.latency(|l| l.p99_us),
            "latency_max_us" => self.latency(|l| l.max_us),
            "queue_mean_bytes" => one(mean(&self.queues(|s| s.queue_bytes as f64)?)),
            "queue_percentile_bytes" => {
                one(percentile(&sorted(self.queues(|s| s.queue_bytes as f64)?), self.per_mille()?))
            }
            "queue_mean_packets" => one(mean(&self.queues(|s| f64::from(s.queue_packets))?)),
            "sent_gbps" => one(self.sent()?),
            "bin_min_gbps" => one(self.bins()?.into_iter().reduce(f64::min)),
            "bin_percentile_gbps" => one(percentile(&sorted(self.bins()?), self.per_mille()?)),
            "bins_below" => {
                let below: f64 = self.number("below")?;
                one(Some(self.bins()?.iter().filter(|rate| **rate < below).count() as f64))
            }
            "bins_above" => {
                let above: f64 = self.number("above")?;
                one(Some(self.bins()?.iter().filter(|rate| **rate > above).count() as f64))
            }
            _ => return Err(self.wrong("these selectors do not apply to this measurement")),
        })
    }

    fn wrong(&self, what: &str) -> MeasureError {
        wrong(self.leaf, what)
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<T, MeasureError> {
        number(self.leaf, key)
    }

    fn per_mille(&self) -> Result<u32, MeasureError> {
        per_mille(self.leaf)
    }

    fn time(&self, key: &str, otherwise: Instant) -> Result<Instant, MeasureError> {
        let Some(text) = self.leaf.selector(key) else { return Ok(otherwise) };
        let time: Duration = text.parse().map_err(|_| self.wrong("a time has a unit"))?;
        Ok(Instant::ZERO + time)
    }

    fn size(&self, key: &str, otherwise: u64) -> Result<u64, MeasureError> {
        let Some(text) = self.leaf.selector(key) else { return Ok(otherwise) };
        let size: Bytes = text.parse().map_err(|_| self.wrong("a size has a unit"))?;
        Ok(size.get())
    }

    /// The selected flows; with `all` also those that are not measured.
    fn flows(&self, all: bool) -> Result<Vec<FlowRow>, MeasureError> {
        let (from, below) = (self.size("size_from", 0)?, self.size("size_below", u64::MAX)?);
        let number = |key: &str| -> Result<Option<u32>, MeasureError> {
            self.leaf.selector(key).map(|_| self.number(key)).transpose()
        };
        let (src, dst, flow) = (number("src")?, number("dst")?, number("flow")?);
        let traffic = self.leaf.selector("traffic");
        let is_selected = |row: &FlowRow| {
            let size = row.size.map_or(u64::MAX, |size| size.get());
            (all || row.measured)
                && (from == 0 || size >= from)
                && (below == u64::MAX || size < below)
                && src.is_none_or(|src| row.src.0 == src)
                && dst.is_none_or(|dst| row.dst.0 == dst)
                && flow.is_none_or(|flow| row.flow.0 == flow)
                && traffic.is_none_or(|traffic| *row.traffic == *traffic)
        };
        let mut rows = Vec::new();
        for run in self.runs {
            let files = self.files.get(&run.dir)?;
            rows.extend(files.flows.iter().filter(|row| is_selected(row)).cloned());
        }
        Ok(rows)
    }

    fn missed(&self) -> Result<Option<Value>, MeasureError> {
        let known: Vec<bool> = self.flows(false)?.iter().filter_map(|flow| flow.met).collect();
        let missed = known.iter().filter(|met| !**met).count() as f64;
        let flows = known.len() as f64;
        let share = ShareOf { share: 100.0 * missed / flows, flows };
        Ok((!known.is_empty()).then_some(Value::Share(share)))
    }

    fn overruns(&self) -> Result<Vec<f64>, MeasureError> {
        let overrun = |flow: &FlowRow| {
            let allowed = flow.deadline?.saturating_since(flow.start).as_secs_f64();
            let took = flow.fct?.as_secs_f64();
            (took > allowed).then_some(100.0 * (took / allowed - 1.0))
        };
        Ok(self.flows(false)?.iter().filter_map(overrun).collect())
    }

    /// Completion times in µs, ascending. Unfinished flows count as infinitely long.
    fn fcts(&self) -> Result<Vec<f64>, MeasureError> {
        let micros = |flow: &FlowRow| match (flow.fct, flow.status) {
            (Some(fct), _) => Some(fct.as_picos() as f64 / 1e6),
            (None, FlowStatus::Unfinished) => Some(f64::INFINITY),
            (None, _) => None,
        };
        Ok(sorted(self.flows(false)?.iter().filter_map(micros)))
    }

    /// The FCT of each flow over that of the same flow with the other transport.
    fn ratios(&self, others: &[&Ran]) -> Result<Vec<f64>, MeasureError> {
        let mut ratios = Vec::new();
        for (own, other) in self.runs.iter().zip(others) {
            let (own, other) = (self.files.get(&own.dir)?, self.files.get(&other.dir)?);
            for (a, b) in own.flows.iter().zip(&other.flows).filter(|(a, _)| a.measured) {
                if let (Some(a), Some(b)) = (a.fct, b.fct) {
                    ratios.push(a.as_picos() as f64 / b.as_picos() as f64);
                }
            }
        }
        Ok(ratios)
    }

    fn ratio_share(&self, others: &[&Ran]) -> Result<Option<f64>, MeasureError> {
        let ratios = self.ratios(others)?;
        let is_in: Box<dyn Fn(f64) -> bool> = match self.leaf.selector("at_most") {
            Some(_) => {
                let most: f64 = self.number("at_most")?;
                Box::new(move |ratio| ratio <= most)
            }
            None => {
                let least: f64 = self.number("above")?;
                Box::new(move |ratio| ratio > least)
            }
        };
        let count = ratios.iter().filter(|ratio| is_in(**ratio)).count() as f64;
        Ok((!ratios.is_empty()).then(|| count / ratios.len() as f64))
    }

    /// Rates of flows in Gb/s, ascending: bytes delivered in the measured window per time.
    fn rates(&self) -> Result<Vec<f64>, MeasureError> {
        let seconds: Vec<f64> =
            self.runs.iter().map(|run| run.summary.number(Metric::Measured)).collect();
        let Some(seconds) = mean(&seconds) else { return Ok(Vec::new()) };
        let rate = |flow: &FlowRow| flow.in_window.delivered.get() as f64 * 8.0 / seconds / 1e9;
        Ok(sorted(self.flows(true)?.iter().map(rate)))
    }

    /// A value of each selected port.
    fn ports(
        &self,
        of: impl Fn(&punctual_results::PortRow) -> f64,
    ) -> Result<Vec<f64>, MeasureError> {
        let (tier, to) = (self.leaf.selector("tier"), self.leaf.selector("to"));
        let mut values = Vec::new();
        for run in self.runs {
            let files = self.files.get(&run.dir)?;
            let is_selected = |port: &&punctual_results::PortRow| {
                // Several tiers are separated by `|`.
                tier.is_none_or(|tier| tier.split('|').any(|one| one == port.tier))
                    && to.is_none_or(|to| port.to == to)
            };
            values.extend(files.ports.iter().filter(is_selected).map(&of));
        }
        Ok(values)
    }

    fn port_utilisation(&self) -> Result<Option<f64>, MeasureError> {
        Ok(mean(&self.ports(|port| port.utilisation.unwrap_or(0.0))?))
    }

    fn latency(&self, of: fn(&punctual_results::LatencySummary) -> Option<f64>) -> Option<Value> {
        let all = self.runs.iter().flat_map(|run| run.summary.packet_latency.iter().filter_map(of));
        mean(&all.collect::<Vec<_>>()).map(Value::One)
    }

    /// The samples of each selected port in the selected time.
    fn samples(&self) -> Result<Vec<Vec<punctual_sim::PortSample>>, MeasureError> {
        let (from, until) =
            (self.time("from", Instant::ZERO)?, self.time("until", Instant::from_picos(u64::MAX))?);
        let (tier, to) = (self.leaf.selector("tier"), self.leaf.selector("to"));
        let mut all: Vec<Vec<punctual_sim::PortSample>> = Vec::new();
        for run in self.runs {
            let files = self.files.get(&run.dir)?;
            let selected = files.ports.iter().filter(|port| {
                tier.is_none_or(|tier| port.tier == tier) && to.is_none_or(|to| port.to == to)
            });
            let selected: BTreeSet<u32> = selected.map(|port| port.port.0).collect();
            let mut by_port = BTreeMap::new();
            for sample in files.queues.iter().filter(|s| s.at >= from && s.at <= until) {
                if selected.contains(&sample.port.0) {
                    by_port.entry(sample.port.0).or_insert_with(Vec::new).push(*sample);
                }
            }
            all.extend(by_port.into_values());
        }
        Ok(all)
    }

    fn queues(
        &self,
        of: impl Fn(&punctual_sim::PortSample) -> f64,
    ) -> Result<Vec<f64>, MeasureError> {
        Ok(self.samples()?.iter().flatten().map(of).collect())
    }

    /// Rates between neighbouring samples in Gb/s.
    fn bins(&self) -> Result<Vec<f64>, MeasureError> {
        let gbps = |pair: &[punctual_sim::PortSample]| {
            let seconds = pair[1].at.saturating_since(pair[0].at).as_secs_f64();
            (pair[1].sent_bytes - pair[0].sent_bytes) as f64 * 8.0 / seconds / 1e9
        };
        Ok(self.samples()?.iter().flat_map(|port| port.windows(2).map(gbps)).collect())
    }

    /// The rate from the first to the last sample, summed over ports and averaged over runs.
    fn sent(&self) -> Result<Option<f64>, MeasureError> {
        let samples = self.samples()?;
        let rate = |port: &Vec<punctual_sim::PortSample>| {
            let (first, last) = (port.first()?, port.last()?);
            let seconds = last.at.saturating_since(first.at).as_secs_f64();
            let gbps = (last.sent_bytes - first.sent_bytes) as f64 * 8.0 / seconds / 1e9;
            (seconds > 0.0).then_some(gbps)
        };
        let rates: Vec<f64> = samples.iter().filter_map(rate).collect();
        Ok((!rates.is_empty()).then(|| rates.iter().sum::<f64>() / self.runs.len() as f64))
    }
}
