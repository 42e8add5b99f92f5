//! From flows to numbers.

use crate::share::{ShareOf, share_interval};
use crate::student::t_quantile;
use crate::times::Times;
use crate::{
    AtLeast, Ci95, CombineError, FlowCounts, FlowRow, FlowStatus, LatencySummary, RunKind, Summary,
};
use punctual_record::Outcome;

/// What a summary needs to know beside the outcome.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunFacts<'a> {
    /// Name of the transport, or of the mix of transports.
    pub transport: &'a str,
    /// What stands behind the numbers.
    pub kind: RunKind,
    /// The run's seed.
    pub seed: u64,
    /// Share of the capacity into receiving hosts that delivered packets took, 0 to 1.
    pub utilisation: Option<f64>,
    /// Circles of pauses, in words: deadlocks first.
    pub pause_cycles: &'a [String],
}

/// One repetition in one object.
pub fn summarise(outcome: &Outcome, flows: &[FlowRow], facts: &RunFacts<'_>) -> Summary {
    let totals = &outcome.totals;
    let measured = || flows.iter().filter(|flow| flow.measured);
    let with_status =
        |status| measured().filter(|flow: &&FlowRow| flow.status == status).count() as f64;
    let flows_measured = measured().count();
    let deadlines = Deadlines::of(measured());
    // A bound gives up flows to be beyond reach, not because they would never end.
    let timed = || measured().filter(|flow| facts.kind != RunKind::Bound || flow.fct.is_some());
    let fct = Times::of(timed(), FlowRow::time_us);
    let slowdown = Times::of(timed(), FlowRow::time_slowdown);
    let time = totals.measured_time();
    let bits = totals.delivered_bytes as f64 * 8.0;
    let is_long = |flow: &&FlowRow| flow.background || flow.size.is_none();
    let long: Vec<f64> =
        flows.iter().filter(is_long).map(|flow| flow.in_window.delivered.get() as f64).collect();

    let counted = |get: fn(&FlowCounts) -> u32| {
        flows.iter().map(|flow| u64::from(get(&flow.in_window))).sum::<u64>() as f64
    };

    Summary {
        transport: facts.transport.to_owned(),
        kind: facts.kind,
        repetitions: 1,
        seeds: vec![facts.seed],
        simulated_seconds: totals.ended_at.as_secs_f64(),
        measured_seconds: time.as_secs_f64(),
        flows: flows_measured as f64,
        flows_completed: with_status(FlowStatus::Completed),
        flows_abandoned: with_status(FlowStatus::Abandoned),
        flows_unfinished: with_status(FlowStatus::Unfinished),
        background_flows: (flows.len() - flows_measured) as f64,
        deadline_flows: deadlines.known as f64,
        deadline_flows_met: deadlines.met as f64,
        deadline_flows_late: (deadlines.known - deadlines.met - deadlines.abandoned) as f64,
        deadline_flows_abandoned: deadlines.abandoned as f64,
        deadline_flows_unknown: deadlines.unknown as f64,
        deadlines_met: (deadlines.known > 0).then(|| deadlines.met as f64 / deadlines.known as f64),
        fct_mean_us: fct.mean().exact(),
        fct_p50_us: fct.percentile(500).exact(),
        fct_p99_us: fct.percentile(990).exact(),
        fct_max_us: fct.percentile(1000).exact(),
        slowdown_mean: slowdown.mean().exact(),
        slowdown_p50: slowdown.percentile(500).exact(),
        slowdown_p99: slowdown.percentile(990).exact(),
        // A bound is no schedule, so nothing flows.
        goodput_gbps: (!time.is_zero() && facts.kind != RunKind::Bound)
            .then(|| bits / time.as_secs_f64() / 1e9),
        utilisation: facts.utilisation.filter(|share| share.is_finite()),
        drops: totals.drops as f64,
        trims: totals.trims as f64,
        bounces: totals.bounces as f64,
        marks: totals.marks as f64,
        pauses: totals.pauses as f64,
        paused_us: totals.paused.as_secs_f64() * 1e6,
        longest_pause_us: totals.longest_pause.as_secs_f64() * 1e6,
        most_buffered_bytes: totals.most_buffered.get() as f64,
        pause_cycles: facts.pause_cycles.to_vec(),
        losses: totals.losses as f64,
        retransmits: counted(|counts| counts.retransmits),
        retransmits_nack: counted(|counts| counts.retransmits_by.nack),
        retransmits_bounce: counted(|counts| counts.retransmits_by.bounce),
        retransmits_timeout: counted(|counts| counts.retransmits_by.timeout),
        retransmits_duplicate_ack: counted(|counts| counts.retransmits_by.duplicate_ack),
        timeouts: counted(|counts| counts.timeouts),
        events: totals.events as f64,
        packet_hops: totals.packet_hops as f64,
        deadline_requests: totals.deadline_requests as f64,
        priority_inversions: totals.priority_inversions as f64,
        fairness: if long.len() < 2 { None } else { jain(&long) },
        packet_latency: LatencySummary::all(outcome, flows),
        ci95: Ci95::default(),
        at_least: AtLeast {
            fct_mean_us: fct.mean().bound(),
            fct_p50_us: fct.percentile(500).bound(),
            fct_p99_us: fct.percentile(990).bound(),
            fct_max_us: fct.percentile(1000).bound(),
            slowdown_mean: slowdown.mean().bound(),
            slowdown_p50: slowdown.percentile(500).bound(),
            slowdown_p99: slowdown.percentile(990).bound(),
        },
    }
}

/// How flows with a deadline ended.
#[derive(Default)]
struct Deadlines {
    known: usize,
    met: usize,
    abandoned: usize,
    /// Those left out.
    unknown: usize,
}

impl Deadlines {
    /// Of measured flows. When some are unfinished, flows with a deadline after the end of the run
    /// are left out whatever became of them: to count the finished ones alone would count those
    /// that were fast.
    fn of<'a>(measured: impl Iterator<Item = &'a FlowRow> + Clone) -> Deadlines {
        let run_ended = measured.clone().find_map(|flow| Some(flow.start + flow.censored?));
        let mut deadlines = Deadlines::default();
        for flow in measured {
            let Some(deadline) = flow.deadline else { continue };
            if run_ended.is_some_and(|end| deadline > end) {
                deadlines.unknown += 1;
                continue;
            }
            deadlines.known += 1;
            deadlines.met += usize::from(flow.met == Some(true));
            deadlines.abandoned += usize::from(flow.status == FlowStatus::Abandoned);
        }
        deadlines
    }
}

/// One transport's part of a mixed run: what concerns flows is of its own, what concerns the network
/// is of all of them together. None of a transport that carried nothing.
pub fn part_of(whole: &Summary, flows: &[FlowRow], transport: &str) -> Option<Summary> {
    let own: Vec<FlowRow> = flows.iter().filter(|f| &*f.transport == transport).cloned().collect();
    let seed = whole.seeds.first().copied().unwrap_or(0);
    let facts = RunFacts { transport, seed, kind: whole.kind, ..RunFacts::default() };
    let of_flows = summarise(&Outcome::default(), &own, &facts);
    (!own.is_empty()).then_some(Summary {
        simulated_seconds: whole.simulated_seconds,
        measured_seconds: whole.measured_seconds,
        utilisation: whole.utilisation,
        drops: whole.drops,
        trims: whole.trims,
        bounces: whole.bounces,
        marks: whole.marks,
        pauses: whole.pauses,
        paused_us: whole.paused_us,
        longest_pause_us: whole.longest_pause_us,
        most_buffered_bytes: whole.most_buffered_bytes,
        pause_cycles: whole.pause_cycles.clone(),
        losses: whole.losses,
        packet_latency: whole
            .packet_latency
            .iter()
            .filter(|latency| latency.transport == transport)
            .cloned()
            .collect(),
        ..of_flows
    })
}

/// Repetitions in one object: means over them, with intervals. Percentiles are averaged, not
/// taken anew over all flows, so that the interval says how far a repetition may be from the next.
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
    let all = |get: fn(&Summary) -> f64| mean_of(repetitions, get);
    let mut combined = Summary {
        transport: first.transport.clone(),
        // One bound among optima makes the mean a bound.
        kind: repetitions
            .iter()
            .map(|s| s.kind)
            .find(|k| *k == RunKind::Bound)
            .unwrap_or(first.kind),
        repetitions: repetitions.len() as u32,
        seeds: repetitions.iter().flat_map(|one| one.seeds.iter().copied()).collect(),
        simulated_seconds: all(|s| s.simulated_seconds),
        measured_seconds: all(|s| s.measured_seconds),
        flows: all(|s| s.flows),
        flows_completed: all(|s| s.flows_completed),
        flows_abandoned: all(|s| s.flows_abandoned),
        flows_unfinished: all(|s| s.flows_unfinished),
        background_flows: all(|s| s.background_flows),
        deadline_flows: all(|s| s.deadline_flows),
        deadline_flows_met: all(|s| s.deadline_flows_met),
        deadline_flows_late: all(|s| s.deadline_flows_late),
        deadline_flows_abandoned: all(|s| s.deadline_flows_abandoned),
        deadline_flows_unknown: all(|s| s.deadline_flows_unknown),
        events: all(|s| s.events),
        packet_hops: all(|s| s.packet_hops),
        retransmits_nack: all(|s| s.retransmits_nack),
        retransmits_bounce: all(|s| s.retransmits_bounce),
        retransmits_timeout: all(|s| s.retransmits_timeout),
        retransmits_duplicate_ack: all(|s| s.retransmits_duplicate_ack),
        deadline_requests: all(|s| s.deadline_requests),
        priority_inversions: all(|s| s.priority_inversions),
        paused_us: all(|s| s.paused_us),
        longest_pause_us: all(|s| s.longest_pause_us),
        most_buffered_bytes: all(|s| s.most_buffered_bytes),
        packet_latency: LatencySummary::combine(
            &repetitions.iter().map(|s| &s.packet_latency[..]).collect::<Vec<_>>(),
        ),
        pause_cycles: repetitions.iter().flat_map(|s| s.pause_cycles.clone()).collect(),
        ..Summary::default()
    };
    macro_rules! with_interval {
        (bounded: $($bounded:ident)*; optional: $($optional:ident)*; counts: $($count:ident)*) => {
            $(
                // A mean over repetitions of which one is a lower bound is one, too.
                let known: Vec<f64> = repetitions.iter().filter_map(|s| s.$bounded).collect();
                let bound = |s: &Summary| s.$bounded.or(s.at_least.$bounded);
                let bounds: Vec<f64> = repetitions.iter().filter_map(bound).collect();
                if known.len() == bounds.len() {
                    combined.$bounded = mean(&known);
                    combined.ci95.$bounded = half_width_95(&known);
                } else {
                    combined.at_least.$bounded = mean(&bounds);
                }
            )*
            $(
                let values: Vec<f64> = repetitions.iter().filter_map(|s| s.$optional).collect();
                combined.$optional = mean(&values);
                combined.ci95.$optional = half_width_95(&values);
            )*
            $(
                let values: Vec<f64> = repetitions.iter().map(|s| s.$count).collect();
                combined.$count = mean(&values).unwrap_or_default();
                combined.ci95.$count = half_width_95(&values);
            )*
        };
    }
    with_interval!(
        bounded: fct_mean_us fct_p50_us fct_p99_us fct_max_us
            slowdown_mean slowdown_p50 slowdown_p99;
        optional: goodput_gbps utilisation fairness;
        counts: drops trims bounces marks pauses losses retransmits timeouts
    );
    let met = shares_met(repetitions);
    combined.deadlines_met = mean(&met.iter().map(|one| one.share).collect::<Vec<_>>());
    if let (Some(share), Some((low, high))) = (combined.deadlines_met, share_interval(&met, ALPHA))
    {
        combined.ci95.deadlines_met = Some((share - low).max(high - share));
    }
    Ok(combined)
}

/// The share of deadlines met in each repetition that has one.
pub fn shares_met(repetitions: &[Summary]) -> Vec<ShareOf> {
    let of = |s: &Summary| Some(ShareOf { share: s.deadlines_met?, flows: s.deadline_flows });
    repetitions.iter().filter_map(of).collect()
}

/// One less the confidence of the intervals in summaries.
pub const ALPHA: f64 = 0.05;

/// All repetitions of one transport and the mean over them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Repeated {
    /// The mean.
    pub summary: Summary,
    /// Each by itself.
    pub repetitions: Vec<Summary>,
}

impl Repeated {
    /// Combines repetitions.
    pub fn new(repetitions: Vec<Summary>) -> Result<Repeated, CombineError> {
        Ok(Repeated { summary: combine(&repetitions)?, repetitions })
    }
}

fn mean_of(repetitions: &[Summary], get: fn(&Summary) -> f64) -> f64 {
    repetitions.iter().map(get).sum::<f64>() / repetitions.len() as f64
}

/// Values in ascending order.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The arithmetic mean; none of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The nearest-rank percentile of values in ascending order: the smallest one that at least
/// `per_mille` thousandths of them do not exceed. 500 is the (lower) median, 990 the 99th
/// percentile, 0 the smallest. None of nothing.
///
/// # Panics
/// When `per_mille` is above 1000.
pub fn percentile(sorted: &[f64], per_mille: u32) -> Option<f64> {
    sorted.get(rank(sorted.len(), per_mille)).copied()
}

/// Where among so many values in ascending order a nearest-rank percentile is, counted from 0.
///
/// # Panics
/// When `per_mille` is above 1000.
pub(crate) fn rank(values: usize, per_mille: u32) -> usize {
    assert!(per_mille <= 1000, "a share of {per_mille}/1000 is more than all");
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

/// Jain's fairness index: 1 when all values are the same, 1/n when one has everything. None when
/// there is nothing to share.
pub fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
