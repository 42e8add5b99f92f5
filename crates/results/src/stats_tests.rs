#![allow(non_snake_case)] // Tests are named function__case.
use super::*;
use crate::flows::tests::{micros, record};
use proptest::prelude::*;
use punctual_core::{Bytes, Duration, Instant};
use punctual_record::{ByCause, FlowRecord, Measure, Totals};

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
    assert_eq!((summary.flows, summary.flows_completed, summary.flows_abandoned), (3.0, 2.0, 1.0));
    assert_eq!((summary.deadline_flows, summary.deadlines_met), (3.0, Some(1.0 / 3.0)));
    // Of three flows the second longest took 20 µs; the one given up never ends.
    assert_eq!((summary.fct_p50_us, summary.fct_p99_us), (Some(20.0), None));
    assert_eq!((summary.at_least.fct_p50_us, summary.at_least.fct_p99_us), (None, Some(20.0)));
    // 9 µs, 20 µs and, given up after 9 µs, at least that.
    assert_eq!((summary.fct_mean_us, summary.fct_max_us), (None, None));
    assert_eq!(summary.at_least.fct_mean_us, Some((9.0 + 20.0 + 9.0) / 3.0));
    assert_eq!(summary.slowdown_p50, Some(20.0 / 3.0));
    assert_eq!((summary.drops, summary.utilisation), (3.0, Some(0.5)));
    assert_eq!((summary.seeds, summary.repetitions), (vec![7], 1));
}

#[test]
fn summarise__background_counts_for_goodput_and_fairness_only() {
    let flows = vec![record(0), background(1, 3_000), background(2, 1_000)];
    let summary = summary_of(flows, micros(10));
    assert_eq!((summary.flows, summary.background_flows), (1.0, 2.0));
    assert_eq!((summary.flows_unfinished, summary.fct_max_us), (0.0, Some(9.0)));
    // 5000 bytes in 10 µs.
    assert!((summary.goodput_gbps.unwrap() - 4.0).abs() < 1e-9);
    assert_eq!(summary.fairness, Some(4.0 * 4.0 / (2.0 * 10.0)));
    assert_eq!(summary.retransmits, 20.0);
    let both = combine(&[summary.clone(), summary]).unwrap();
    assert_eq!((both.retransmits_nack, both.retransmits_bounce), (2.0, 4.0));
    assert_eq!((both.retransmits_timeout, both.retransmits_duplicate_ack), (6.0, 8.0));
}

#[test]
fn summarise__unfinished_flow_is_censored() {
    let mut long = FlowRecord { status: FlowStatus::Unfinished, ended: None, ..record(1) };
    long.spec.deadline = None;
    let summary = summary_of(vec![record(0), long], micros(31));
    assert_eq!((summary.flows_completed, summary.flows_unfinished), (1.0, 1.0));
    assert_eq!(summary.fct_p50_us, Some(9.0));
    // It started after 1 µs, so it had been under way for 30 of them.
    let none = [summary.fct_p99_us, summary.fct_max_us, summary.fct_mean_us, summary.slowdown_p99];
    assert_eq!(none, [None; 4]);
    let bounds = summary.at_least;
    assert_eq!((bounds.fct_p99_us, bounds.fct_mean_us), (Some(30.0), Some(19.5)));
    assert_eq!((bounds.slowdown_p99, bounds.fct_p50_us), (Some(10.0), None));
    let json = serde_json::to_value(&summary).unwrap();
    assert!(json["fct_p99_us"].is_null() && json["at_least"]["fct_p99_us"] == 30.0, "{json}");
}

#[test]
fn summarise__deadlines_after_the_end_count_alike() {
    // Due after 11 µs.
    let unfinished = |id| FlowRecord { status: FlowStatus::Unfinished, ended: None, ..record(id) };
    let up = summary_of(vec![record(0), unfinished(1)], micros(11));
    assert_eq!((up.deadline_flows, up.deadlines_met), (2.0, Some(0.5)));
    // Neither the flow that was early nor the one that may be late.
    let not_up = summary_of(vec![record(0), unfinished(1)], micros(10));
    assert_eq!((not_up.deadline_flows, not_up.deadlines_met), (0.0, None));
    assert_eq!(not_up.deadline_flows_unknown, 2.0);
    assert_eq!((up.flows_unfinished, not_up.flows_unfinished), (1.0, 1.0));
    let abandoned = FlowRecord { status: FlowStatus::Abandoned, ..record(2) };
    let all = summary_of(vec![record(0), unfinished(1), abandoned], micros(10));
    assert_eq!((all.deadline_flows, all.deadline_flows_unknown), (0.0, 3.0));
    // A run that ended because every flow had leaves nothing open.
    let done = summary_of(vec![record(0), abandoned], micros(10));
    assert_eq!((done.deadline_flows, done.deadlines_met), (2.0, Some(0.5)));
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
    assert_eq!((summary.flows, summary.background_flows), (1.0, 2.0));
    assert_eq!((summary.deadline_flows, summary.fct_max_us), (1.0, Some(2.0)));
    assert!((summary.measured_seconds - 3e-6).abs() < 1e-15);
    assert_eq!(summary.fairness, None, "flows outside the window are no long ones");
}

#[test]
fn summarise__nothing_gives_null_and_not_nan() {
    let summary = summary_of(Vec::new(), Instant::ZERO);
    assert_eq!(summary.deadlines_met, None);
    assert_eq!((summary.fct_mean_us, summary.goodput_gbps), (None, None));
    let json = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
}

#[test]
fn combine__means_and_intervals() {
    let one = |seed, met: Option<f64>, drops| Summary {
        transport: "d3".into(),
        repetitions: 1,
        seeds: vec![seed],
        deadlines_met: met,
        deadline_flows: if met.is_some() { 50.0 } else { 0.0 },
        drops,
        ..Summary::default()
    };
    let all = combine(&[one(1, Some(0.9), 1.0), one(2, Some(0.7), 2.0), one(3, None, 6.0)]);
    let all = all.unwrap();
    assert_eq!((all.repetitions, all.seeds), (3, vec![1, 2, 3]));
    assert!((all.deadlines_met.unwrap() - 0.8).abs() < 1e-12);
    let two = [ShareOf { share: 0.9, flows: 50.0 }, ShareOf { share: 0.7, flows: 50.0 }];
    let (low, _) = share_interval(&two, 0.05).unwrap();
    assert!((all.ci95.deadlines_met.unwrap() - (0.8 - low)).abs() < 1e-12);
    assert_eq!(all.drops, 3.0);
    // Standard deviation √7 over √3, times 4.303.
    assert!((all.ci95.drops.unwrap() - 4.303 * (7.0f64 / 3.0).sqrt()).abs() < 1e-3);
    assert_eq!(all.ci95.fct_mean_us, None);
}

#[test]
fn combine__all_met_in_every_repetition_is_no_certainty() {
    let one = Summary {
        repetitions: 1,
        deadlines_met: Some(1.0),
        deadline_flows: 20.0,
        ..Summary::default()
    };
    let all = combine(&[one.clone(), one.clone(), one]).unwrap();
    assert_eq!(all.deadlines_met, Some(1.0));
    assert!(all.ci95.deadlines_met.unwrap() > 0.1, "{:?}", all.ci95);
}

#[test]
fn combine__a_mean_over_bounds_is_a_bound() {
    let one = |known: Option<f64>, bound: Option<f64>| Summary {
        repetitions: 1,
        fct_p99_us: known,
        at_least: AtLeast { fct_p99_us: bound, ..AtLeast::default() },
        ..Summary::default()
    };
    let all = combine(&[one(Some(10.0), None), one(None, Some(30.0))]).unwrap();
    assert_eq!((all.fct_p99_us, all.at_least.fct_p99_us), (None, Some(20.0)));
    assert_eq!(all.ci95.fct_p99_us, None);
    let known = combine(&[one(Some(10.0), None), one(Some(30.0), None)]).unwrap();
    assert_eq!((known.fct_p99_us, known.at_least.fct_p99_us), (Some(20.0), None));
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
