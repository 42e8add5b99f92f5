#![allow(non_snake_case)] // Tests are named function__case.
use super::*;
use crate::Metric::{self, *};
use crate::flows::tests::{micros, record};
use crate::share::{ShareOf, share_interval};
use crate::{Figure, FlowCounts, FlowStatus, Group, LatencySummary};
use proptest::prelude::*;
use punctual_core::{Bytes, Duration, Instant};
use punctual_record::{ByCause, FlowRecord, Measure};

/// The values of some metrics.
fn values<const N: usize>(summary: &Summary, metrics: [Metric; N]) -> [Option<f64>; N] {
    metrics.map(|metric| summary[metric].exact())
}

/// The lower bounds of some metrics.
fn bounds<const N: usize>(summary: &Summary, metrics: [Metric; N]) -> [Option<f64>; N] {
    metrics.map(|metric| summary[metric].bound())
}

fn summary_of(flows: Vec<FlowRecord>, ended_at: Instant) -> Summary {
    let delivered_bytes = flows.iter().map(|flow| flow.in_window.delivered.get()).sum();
    let totals = Totals { ended_at, delivered_bytes, drops: 3, ..Totals::default() };
    let outcome = Outcome { flows, totals, ..Outcome::default() };
    let rows = FlowRow::all(&outcome, &["ndp"], |_| Some(Duration::from_micros(3)));
    let facts =
        RunFacts { transport: "ndp", seed: 7, utilisation: Some(0.5), ..RunFacts::default() };
    summarise(&outcome, &rows, &facts)
}

fn background(id: u32, delivered: u64) -> FlowRecord {
    let mut flow = record(id);
    flow.spec.background = true;
    flow.spec.size = Bytes::ENDLESS;
    flow.spec.deadline = None;
    flow.status = FlowStatus::Unfinished;
    flow.ended = None;
    flow.delivered = Bytes::new(delivered + 500);
    flow.in_window = FlowCounts {
        delivered: Bytes::new(delivered),
        retransmits: 10,
        retransmits_by: ByCause { nack: 1, bounce: 2, timeout: 3, duplicate_ack: 4 },
        ..FlowCounts::default()
    };
    flow
}

#[test]
fn summarise__counts_and_times() {
    let late = FlowRecord { ended: Some(micros(21)), ..record(1) };
    let abandoned = FlowRecord { status: FlowStatus::Abandoned, ..record(2) };
    let summary = summary_of(vec![record(0), late, abandoned], micros(100));
    let counts = values(&summary, [Flows, FlowsCompleted, FlowsAbandoned]);
    assert_eq!(counts, [Some(3.0), Some(2.0), Some(1.0)]);
    let deadlines = values(&summary, [DeadlineFlows, DeadlinesMet]);
    assert_eq!(deadlines, [Some(3.0), Some(1.0 / 3.0)]);
    // The second longest of the three flows took 20 µs; the one given up never completes.
    assert_eq!(values(&summary, [FctP50, FctP99]), [Some(20.0), None]);
    assert_eq!(bounds(&summary, [FctP50, FctP99]), [None, Some(20.0)]);
    // 9 µs, 20 µs and, given up after 9 µs, at least that.
    assert_eq!(values(&summary, [FctMean, FctMax]), [None, None]);
    assert_eq!(bounds(&summary, [FctMean]), [Some((9.0 + 20.0 + 9.0) / 3.0)]);
    assert_eq!(values(&summary, [SlowdownP50]), [Some(20.0 / 3.0)]);
    assert_eq!(values(&summary, [Drops, Utilisation]), [Some(3.0), Some(0.5)]);
    assert_eq!((summary.seeds, summary.repetitions), (vec![7], 1));
}

#[test]
fn summarise__background_counts_for_goodput_and_fairness_only() {
    let flows = vec![record(0), background(1, 3_000), background(2, 1_000)];
    let summary = summary_of(flows, micros(10));
    assert_eq!(values(&summary, [Flows, BackgroundFlows]), [Some(1.0), Some(2.0)]);
    assert_eq!(values(&summary, [FlowsUnfinished, FctMax]), [Some(0.0), Some(9.0)]);
    // 5000 bytes in 10 µs.
    assert!((summary.number(Goodput) - 4.0).abs() < 1e-9);
    assert_eq!(summary.number(Fairness), 4.0 * 4.0 / (2.0 * 10.0));
    assert_eq!(summary.number(Retransmits), 20.0);
    let both = combine(&[summary.clone(), summary]).unwrap();
    let causes = [RetransmitsNack, RetransmitsBounce, RetransmitsTimeout, RetransmitsDuplicateAck];
    assert_eq!(values(&both, causes), [2.0, 4.0, 6.0, 8.0].map(Some));
}

#[test]
fn summarise__unfinished_flow_is_censored() {
    let mut long = FlowRecord { status: FlowStatus::Unfinished, ended: None, ..record(1) };
    long.spec.deadline = None;
    let summary = summary_of(vec![record(0), long], micros(31));
    assert_eq!(values(&summary, [FlowsCompleted, FlowsUnfinished]), [Some(1.0), Some(1.0)]);
    assert_eq!(values(&summary, [FctP50]), [Some(9.0)]);
    // It started after 1 µs, so it had been under way for 30 of them.
    assert_eq!(values(&summary, [FctP99, FctMax, FctMean, SlowdownP99]), [None; 4]);
    assert_eq!(bounds(&summary, [FctP99, FctMean]), [Some(30.0), Some(19.5)]);
    assert_eq!(bounds(&summary, [SlowdownP99, FctP50]), [Some(10.0), None]);
    let json = serde_json::to_value(&summary).unwrap();
    assert!(json["fct_p99_us"].is_null() && json["at_least"]["fct_p99_us"] == 30.0, "{json}");
}

#[test]
fn summarise__deadlines_after_the_end_count_alike() {
    // Due after 11 µs.
    let unfinished = |id| FlowRecord { status: FlowStatus::Unfinished, ended: None, ..record(id) };
    let up = summary_of(vec![record(0), unfinished(1)], micros(11));
    let counted = |summary: &Summary| values(summary, [DeadlineFlows, DeadlinesMet]);
    assert_eq!(counted(&up), [Some(2.0), Some(0.5)]);
    // Neither the flow that was early nor the one that may be late.
    let not_up = summary_of(vec![record(0), unfinished(1)], micros(10));
    assert_eq!(counted(&not_up), [Some(0.0), None]);
    assert_eq!(not_up.number(DeadlineFlowsUnknown), 2.0);
    assert_eq!((up.number(FlowsUnfinished), not_up.number(FlowsUnfinished)), (1.0, 1.0));
    let abandoned = FlowRecord { status: FlowStatus::Abandoned, ..record(2) };
    let all = summary_of(vec![record(0), unfinished(1), abandoned], micros(10));
    assert_eq!((all.number(DeadlineFlows), all.number(DeadlineFlowsUnknown)), (0.0, 3.0));
    // A run that ended because every flow had leaves nothing open.
    let done = summary_of(vec![record(0), abandoned], micros(10));
    assert_eq!(counted(&done), [Some(2.0), Some(0.5)]);
}

#[test]
fn summarise__only_flows_that_start_in_the_window_are_measured() {
    let mut flows = vec![record(0), record(1), record(2)];
    for (flow, start) in flows.iter_mut().zip([1, 5, 8]) {
        flow.spec.start = micros(start);
        flow.ended = Some(micros(start + 2));
    }
    let measure = Measure { from: micros(5), until: Some(micros(8)) };
    let totals = Totals { ended_at: micros(20), measure, ..Totals::default() };
    let outcome = Outcome { flows, totals, ..Outcome::default() };
    let rows = FlowRow::all(&outcome, &["ndp"], |_| None);
    assert_eq!(rows.iter().map(|row| row.measured).collect::<Vec<_>>(), [false, true, false]);
    let summary = summarise(&outcome, &rows, &RunFacts::default());
    assert_eq!(values(&summary, [Flows, BackgroundFlows]), [Some(1.0), Some(2.0)]);
    assert_eq!(values(&summary, [DeadlineFlows, FctMax]), [Some(1.0), Some(2.0)]);
    assert!((summary.number(Measured) - 3e-6).abs() < 1e-15);
    assert_eq!(summary[Fairness].value, None, "flows outside the window are not endless");
}

#[test]
fn summarise__nothing_gives_null_and_not_nan() {
    let summary = summary_of(Vec::new(), Instant::ZERO);
    assert_eq!(values(&summary, [DeadlinesMet, FctMean, Goodput]), [None; 3]);
    let json = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
}

#[test]
fn combine__means_and_intervals() {
    let one = |seed, met: Option<f64>, drops| {
        let mut one = Summary { repetitions: 1, seeds: vec![seed], ..Summary::default() };
        one[DeadlinesMet].value = met;
        one.with(DeadlineFlows, if met.is_some() { 50.0 } else { 0.0 }).with(Drops, drops)
    };
    let all = combine(&[one(1, Some(0.9), 1.0), one(2, Some(0.7), 2.0), one(3, None, 6.0)]);
    let all = all.unwrap();
    assert_eq!((all.repetitions, &*all.seeds), (3, &[1, 2, 3][..]));
    assert!((all.number(DeadlinesMet) - 0.8).abs() < 1e-12);
    let two = [ShareOf { share: 0.9, flows: 50.0 }, ShareOf { share: 0.7, flows: 50.0 }];
    let (low, _) = share_interval(&two, 0.05).unwrap();
    assert!((all[DeadlinesMet].half_width.unwrap() - (0.8 - low)).abs() < 1e-12);
    assert_eq!(all.number(Drops), 3.0);
    // Standard deviation √7 over √3, times 4.303.
    let half_width = all[Drops].half_width.unwrap();
    assert!((half_width - 4.303 * (7.0f64 / 3.0).sqrt()).abs() < 1e-3);
    assert_eq!(all[FctMean].half_width, None);
    assert_eq!(all[DeadlineFlows].half_width, None, "a metric without an interval");
}

#[test]
fn combine__all_met_in_every_repetition_is_no_certainty() {
    let one = Summary { repetitions: 1, ..Summary::default() };
    let one = one.with(DeadlinesMet, 1.0).with(DeadlineFlows, 20.0);
    let all = combine(&[one.clone(), one.clone(), one]).unwrap();
    assert_eq!(all[DeadlinesMet].value, Some(1.0));
    assert!(all[DeadlinesMet].half_width.unwrap() > 0.1, "{:?}", all[DeadlinesMet]);
}

#[test]
fn combine__a_mean_over_bounds_is_a_bound() {
    let one = |value, is_bound| {
        let mut one = Summary { repetitions: 1, ..Summary::default() };
        one[FctP99] = Figure { value: Some(value), is_bound, ..Figure::default() };
        one
    };
    let all = combine(&[one(10.0, false), one(30.0, true)]).unwrap();
    assert_eq!(all[FctP99], Figure::at_least(20.0));
    let known = combine(&[one(10.0, false), one(30.0, false)]).unwrap();
    assert_eq!(known[FctP99].exact(), Some(20.0));
}

#[test]
fn groups__by_traffic_and_size() {
    let flow = |id, pattern, size, ended| {
        let mut flow = FlowRecord { ended: Some(micros(ended)), ..record(id) };
        (flow.spec.pattern, flow.spec.size) = (pattern, Bytes::new(size));
        flow
    };
    let mut unmeasured = flow(5, 2, 5_000, 9);
    unmeasured.spec.background = true;
    let flows = vec![
        flow(0, 0, 9_999, 3),
        flow(1, 0, 10_000, 5),
        flow(2, 1, 99_999, 7),
        flow(3, 1, 1_000_000, 21),
        flow(4, 1, 5_000_000, 31),
        unmeasured,
    ];
    let outcome = Outcome { flows, ..Outcome::default() };
    let rows = FlowRow::all(&outcome, &["ndp"], |_| None);
    let traffic = ["queries", "updates", "storage"].map(str::to_owned);
    let facts = RunFacts { traffic: &traffic, ..RunFacts::default() };
    let summary = summarise(&outcome, &rows, &facts);
    let shown = |groups: &[Group]| -> Vec<(String, f64, Option<f64>, Option<f64>)> {
        let of = |group: &Group| {
            let figure = |metric| group.metrics[metric].exact();
            let flows = group.metrics.number(Flows);
            (group.name.clone(), flows, figure(FctP99), figure(DeadlinesMet))
        };
        groups.iter().map(of).collect()
    };
    // Started after 1 µs, due after 11.
    let expected = [
        ("queries".to_owned(), 2.0, Some(4.0), Some(1.0)),
        ("updates".to_owned(), 3.0, Some(30.0), Some(1.0 / 3.0)),
    ];
    assert_eq!(shown(&summary.by_traffic), expected);
    let expected = [
        ("<10KB".to_owned(), 1.0, Some(2.0), Some(1.0)),
        ("10KB-100KB".to_owned(), 2.0, Some(6.0), Some(1.0)),
        (">=1MB".to_owned(), 2.0, Some(30.0), Some(0.0)),
    ];
    assert_eq!(shown(&summary.by_size), expected);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["by_traffic"][1]["fct_p99_us"], 30.0);
    assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), summary);

    // A group that a repetition does not have is the mean over the others.
    let other = summarise(&outcome, &rows[..2], &facts);
    let all = combine(&[summary, other]).unwrap();
    assert_eq!(shown(&all.by_traffic)[1].1, 3.0);
    assert_eq!(all.by_traffic[0].metrics[FctP99].half_width, Some(0.0));
    // Classes with one name are distinguished by their number.
    let same = ["incast".to_owned(), "incast".to_owned()];
    let facts = RunFacts { traffic: &same, ..RunFacts::default() };
    let names = summarise(&outcome, &rows, &facts).by_traffic;
    assert_eq!(names[1].name, "incast (traffic.1)");
}

#[test]
fn part_of__takes_the_network_from_the_whole() {
    let whole = Summary {
        kind: RunKind::Testbed,
        pause_cycles: vec!["a deadlock".into()],
        timing_problems: vec!["late".into()],
        packet_latency: ["ndp", "d3"].map(latency).into(),
        ..summary_of(vec![record(0), record(1)], micros(100))
    };
    let outcome = Outcome { flows: vec![record(0)], ..Outcome::default() };
    let rows = FlowRow::all(&outcome, &["d3"], |_| None);
    let part = part_of(&whole, &rows, "d3").unwrap();
    assert_eq!((part.kind, &part.pause_cycles), (whole.kind, &whole.pause_cycles));
    assert_eq!(part.timing_problems, whole.timing_problems);
    assert_eq!(part.packet_latency, [latency("d3")], "its own packets");
    assert_eq!((&*part.transport, &part.seeds), ("d3", &whole.seeds));
    assert_eq!(values(&part, [Flows, Drops, Utilisation]), [Some(1.0), Some(3.0), Some(0.5)]);
    assert_eq!(values(&part, [SlowdownP50, Goodput]), [None; 2]);
    assert_eq!(part_of(&whole, &rows, "tcp"), None);
}

fn latency(transport: &str) -> LatencySummary {
    let packets = transport.len() as f64;
    LatencySummary { transport: transport.into(), packets, ..LatencySummary::default() }
}

/// Ranges of sizes are in ascending order, whichever a repetition has first.
#[test]
fn combine__ranges_of_sizes_are_in_order() {
    let run = |bins: &[usize]| {
        let group = |i: &usize| Group { name: SIZE_BINS[*i].0.into(), ..Group::default() };
        Summary { repetitions: 1, by_size: bins.iter().map(group).collect(), ..Summary::default() }
    };
    let combined = combine(&[run(&[3]), run(&[2]), run(&[0, 1])]).unwrap();
    let names: Vec<&str> = combined.by_size.iter().map(|group| &*group.name).collect();
    assert_eq!(names, SIZE_BINS.map(|(name, _)| name));
}

#[test]
fn combine__one_repetition_has_no_interval() {
    let one = summary_of(vec![record(0)], micros(100));
    assert_eq!(combine(std::slice::from_ref(&one)).unwrap(), one);
}

#[test]
fn combine__refuses_what_does_not_belong_together() {
    let named = |transport: &str, repetitions| Summary {
        transport: transport.into(),
        repetitions,
        ..Summary::default()
    };
    assert_eq!(combine(&[]), Err(CombineError::Nothing));
    let mixed = combine(&[named("d3", 1), named("ndp", 1)]);
    assert_eq!(mixed, Err(CombineError::Mixed("d3".into(), "ndp".into())));
    let again = combine(&[named("d3", 1), named("d3", 5)]);
    assert_eq!(again, Err(CombineError::Combined("d3".into(), 5)));
}

#[test]
fn percentile__nearest_rank() {
    // The worked example of the nearest-rank method.
    let values = [15.0, 20.0, 35.0, 40.0, 50.0];
    let at = |per_mille| percentile(&values, per_mille).unwrap();
    assert_eq!(
        [at(0), at(50), at(300), at(400), at(500), at(1000)],
        [15.0, 15.0, 20.0, 20.0, 35.0, 50.0]
    );
    let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
    assert_eq!(percentile(&hundred, 990), Some(99.0));
    assert_eq!(percentile(&hundred, 70), Some(7.0));
    assert_eq!(percentile(&[], 500), None);
}

#[test]
fn jain__bounds() {
    assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
    assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
    assert_eq!(jain(&[0.0, 0.0]), None);
}

proptest! {
    #[test]
    fn percentile__is_a_value_that_enough_do_not_exceed(
        values in prop::collection::vec(0.0f64..1e9, 1..200),
        per_mille in 0u32..=1000,
    ) {
        let values = sorted(values);
        let value = percentile(&values, per_mille).unwrap();
        let not_above = values.iter().filter(|v| **v <= value).count();
        prop_assert!(not_above * 1000 >= values.len() * per_mille as usize);
        let below = values.iter().filter(|v| **v < value).count();
        prop_assert!(below == 0 || below * 1000 < values.len() * per_mille as usize);
    }
}
