//! Statistics of flows, and summaries of runs.

use crate::run_data::RunData;
use crate::student::t_quantile;
use crate::summary::SIZE_BINS;
use crate::{CombineError, FlowRow, Group, LatencySummary, Metrics, RunKind, Summary};
use punctual_record::{Outcome, Totals};

/// What a summary needs besides the outcome.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunFacts<'a> {
    /// Name of the transport, or of the mix of transports.
    pub transport: &'a str,
    /// How the numbers were obtained.
    pub kind: RunKind,
    /// The run's seed.
    pub seed: u64,
    /// Share of the capacity into receiving hosts that delivered packets took, 0 to 1.
    pub utilisation: Option<f64>,
    /// PFC pause cycles, in words: deadlocks first.
    pub pause_cycles: &'a [String],
    /// Why the timing of a run on a testbed cannot be trusted.
    pub timing_problems: &'a [String],
    /// Names of the `[[traffic]]`, in order.
    pub traffic: &'a [String],
}

/// The summary of one repetition.
pub fn summarise(outcome: &Outcome, flows: &[FlowRow], facts: &RunFacts<'_>) -> Summary {
    let flows: Vec<&FlowRow> = flows.iter().collect();
    Summary {
        transport: facts.transport.to_owned(),
        kind: facts.kind,
        repetitions: 1,
        seeds: vec![facts.seed],
        metrics: Metrics::of(&RunData::new(&outcome.totals, &flows, facts)),
        pause_cycles: facts.pause_cycles.to_vec(),
        timing_problems: facts.timing_problems.to_vec(),
        by_traffic: by_traffic(&flows, facts),
        by_size: by_size(&flows, facts),
        packet_latency: LatencySummary::all(outcome, &flows),
    }
}

/// The measured flows of each `[[traffic]]` that has any.
fn by_traffic(flows: &[&FlowRow], facts: &RunFacts<'_>) -> Vec<Group> {
    let group = |(i, name): (usize, &String)| {
        let is_shared = facts.traffic.iter().filter(|other| *other == name).count() > 1;
        let name = if is_shared { format!("{name} (traffic.{i})") } else { name.clone() };
        group(name, flows, facts, |flow| usize::from(flow.pattern) == i)
    };
    facts.traffic.iter().enumerate().filter_map(group).collect()
}

/// The measured flows of each range of sizes that has any.
fn by_size(flows: &[&FlowRow], facts: &RunFacts<'_>) -> Vec<Group> {
    let bin = |flow: &FlowRow| {
        let size = flow.size?.get();
        SIZE_BINS.iter().rposition(|(_, from)| size >= *from)
    };
    let group = |(i, (name, _)): (usize, &(&str, u64))| {
        group((*name).to_owned(), flows, facts, |flow| bin(flow) == Some(i))
    };
    SIZE_BINS.iter().enumerate().filter_map(group).collect()
}

/// A group of the measured flows that satisfy a condition; none without flows.
fn group(
    name: String,
    flows: &[&FlowRow],
    facts: &RunFacts<'_>,
    is_in: impl Fn(&FlowRow) -> bool,
) -> Option<Group> {
    let own: Vec<&FlowRow> =
        flows.iter().copied().filter(|flow| flow.measured && is_in(flow)).collect();
    let metrics = || Metrics::of_group(&RunData::new(&Totals::default(), &own, facts));
    (!own.is_empty()).then(|| Group { name, metrics: metrics() })
}

/// The summary of one transport's flows in a mixed run. Metrics of flows are those of its own flows,
/// metrics of the network those of the whole run. None if the transport carried no flow.
pub fn part_of(whole: &Summary, flows: &[FlowRow], transport: &str) -> Option<Summary> {
    let own: Vec<FlowRow> = flows.iter().filter(|f| &*f.transport == transport).cloned().collect();
    let seed = whole.seeds.first().copied().unwrap_or(0);
    let facts = RunFacts { transport, seed, kind: whole.kind, ..RunFacts::default() };
    let part = summarise(&Outcome::default(), &own, &facts);
    (!own.is_empty()).then(|| Summary {
        metrics: part.metrics.within(&whole.metrics),
        pause_cycles: whole.pause_cycles.clone(),
        timing_problems: whole.timing_problems.clone(),
        packet_latency: whole
            .packet_latency
            .iter()
            .filter(|latency| latency.transport == transport)
            .cloned()
            .collect(),
        ..part
    })
}

/// The mean over repetitions of a transport, with intervals.
pub fn combine(repetitions: &[Summary]) -> Result<Summary, CombineError> {
    let first = repetitions.first().ok_or(CombineError::Nothing)?;
    for one in repetitions {
        if one.transport != first.transport {
            return Err(CombineError::Mixed(first.transport.clone(), one.transport.clone()));
        }
        if one.repetitions != 1 {
            return Err(CombineError::Combined(one.transport.clone(), one.repetitions));
        }
    }
    // The mean over bounds and optima is a bound.
    let is_bound = repetitions.iter().any(|one| one.kind == RunKind::Bound);
    let mut by_size = combine_groups(repetitions, |one| &one.by_size);
    by_size.sort_by_key(|group| SIZE_BINS.iter().position(|(name, _)| *name == group.name));
    Ok(Summary {
        transport: first.transport.clone(),
        kind: if is_bound { RunKind::Bound } else { first.kind },
        repetitions: repetitions.len() as u32,
        seeds: repetitions.iter().flat_map(|one| one.seeds.iter().copied()).collect(),
        metrics: Metrics::combine(repetitions.iter().map(|one| &one.metrics)),
        pause_cycles: repetitions.iter().flat_map(|one| one.pause_cycles.clone()).collect(),
        timing_problems: repetitions.iter().flat_map(|one| one.timing_problems.clone()).collect(),
        by_traffic: combine_groups(repetitions, |one| &one.by_traffic),
        by_size,
        packet_latency: LatencySummary::combine(
            &repetitions.iter().map(|one| &one.packet_latency[..]).collect::<Vec<_>>(),
        ),
    })
}

/// The mean of each group over the repetitions that have it.
fn combine_groups(repetitions: &[Summary], groups: fn(&Summary) -> &[Group]) -> Vec<Group> {
    let all = || repetitions.iter().flat_map(groups);
    let mut names: Vec<&str> = Vec::new();
    for group in all() {
        if !names.contains(&&*group.name) {
            names.push(&group.name);
        }
    }
    let combined = |name: &str| {
        let own = all().filter(|group| group.name == name);
        let metrics = Metrics::combine(own.map(|group| &group.metrics));
        Group { name: name.to_owned(), metrics }
    };
    names.into_iter().map(combined).collect()
}

/// One minus the confidence of the intervals in summaries.
pub const ALPHA: f64 = 0.05;

/// All repetitions of one transport and the mean over them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Repeated {
    /// The mean over them.
    pub summary: Summary,
    /// Each repetition.
    pub repetitions: Vec<Summary>,
}

impl Repeated {
    /// Combines repetitions.
    pub fn new(repetitions: Vec<Summary>) -> Result<Repeated, CombineError> {
        Ok(Repeated { summary: combine(&repetitions)?, repetitions })
    }
}

/// Values in ascending order.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The arithmetic mean; none without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The nearest-rank percentile of values in ascending order; none without values.
///
/// It is the smallest value that at least `per_mille` thousandths of them do not exceed. 500 is the
/// (lower) median, 990 the 99th percentile, 0 the smallest.
///
/// # Panics
/// When `per_mille` is above 1000.
pub fn percentile(sorted: &[f64], per_mille: u32) -> Option<f64> {
    sorted.get(rank(sorted.len(), per_mille)).copied()
}

/// The index of a nearest-rank percentile among `values` values in ascending order.
///
/// # Panics
/// When `per_mille` is above 1000.
pub(crate) fn rank(values: usize, per_mille: u32) -> usize {
    assert!(per_mille <= 1000, "a percentile of {per_mille}/1000 is above 100 %");
    let rank = (values as u128 * u128::from(per_mille)).div_ceil(1000) as usize;
    rank.saturating_sub(1)
}

/// The sample variance; none below two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (values.len() > 1).then(|| squares / (values.len() - 1) as f64)
}

/// Half the width of the 95 % interval of the mean, by Student's t; none below two values.
pub fn half_width_95(values: &[f64]) -> Option<f64> {
    half_width(values, ALPHA)
}

/// Half the width of the interval of the mean with confidence 1 − `alpha`, by Student's t; none
/// below two values.
pub fn half_width(values: &[f64], alpha: f64) -> Option<f64> {
    let n = values.len() as f64;
    Some(t_quantile(alpha, n - 1.0) * (variance(values)? / n).sqrt())
}

/// Jain's fairness index: 1 when all values are equal, 1/n when one has everything.
///
/// None when there is nothing to share.
pub fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

#[cfg(test)]
mod tests;
