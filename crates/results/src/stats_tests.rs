#![allow(non_snake_case)] // Tests are named function__case.
use super::*;
use crate::flows::tests::{micros, record};
use proptest::prelude::*;
use punctual_core::{Bytes, Duration};
use punctual_sim::{FlowRecord, Totals};

fn summary_of(flows: Vec<FlowRecord>, ended_at: Instant) -> Summary {
    let delivered_bytes = flows.iter().map(|flow| flow.delivered.get()).sum();
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
    flow.delivered = Bytes::new(delivered);
    flow.retransmits = 2;
    flow
}

#[test]
fn summarise__counts_and_times() {
    let late = FlowRecord { ended: Some(micros(21)), ..record(1) };
    let abandoned = FlowRecord { status: FlowStatus::Abandoned, ..record(2) };
    let summary = summary_of(vec![record(0), late, abandoned], micros(100));
    assert_eq!((summary.flows, summary.flows_completed, summary.flows_abandoned), (3.0, 2.0, 1.0));
    assert_eq!((summary.deadline_flows, summary.deadlines_met), (3.0, Some(1.0 / 3.0)));
    assert_eq!((summary.fct_p50_us, summary.fct_p99_us), (Some(9.0), Some(20.0)));
    assert_eq!((summary.fct_mean_us, summary.fct_max_us), (Some(14.5), Some(20.0)));
    assert_eq!(summary.slowdown_p50, Some(3.0));
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
    assert_eq!(summary.retransmits, 4.0);
}

#[test]
fn summarise__unfinished_flow_misses_its_deadline_only_if_that_was_up() {
    // Due after 11 µs.
    let unfinished = |id| FlowRecord { status: FlowStatus::Unfinished, ended: None, ..record(id) };
    let up = summary_of(vec![record(0), unfinished(1)], micros(11));
    assert_eq!((up.deadline_flows, up.deadlines_met), (2.0, Some(0.5)));
    let not_up = summary_of(vec![record(0), unfinished(1)], micros(10));
    assert_eq!((not_up.deadline_flows, not_up.deadlines_met), (1.0, Some(1.0)));
    assert_eq!((up.flows_unfinished, not_up.flows_unfinished), (1.0, 1.0));
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
    let one = |seed, met, drops| Summary {
        transport: "d3".into(),
        repetitions: 1,
        seeds: vec![seed],
        deadlines_met: met,
        drops,
        ..Summary::default()
    };
    let all = combine(&[one(1, Some(0.9), 1.0), one(2, Some(0.7), 2.0), one(3, None, 6.0)]);
    let all = all.unwrap();
    assert_eq!((all.repetitions, all.seeds), (3, vec![1, 2, 3]));
    assert!((all.deadlines_met.unwrap() - 0.8).abs() < 1e-12);
    // Two values 0.2 apart: standard error 0.1, one degree of freedom.
    assert!((all.ci95.deadlines_met.unwrap() - 1.2706).abs() < 1e-9);
    assert_eq!(all.drops, 3.0);
    // Standard deviation √7 over √3, times 4.303.
    assert!((all.ci95.drops.unwrap() - 4.303 * (7.0f64 / 3.0).sqrt()).abs() < 1e-9);
    assert_eq!(all.ci95.fct_mean_us, None);
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
fn t_95__narrows_to_the_normal_distribution() {
    assert_eq!((t_95(2), t_95(5), t_95(30), t_95(31)), (12.706, 2.776, 2.045, 1.96));
    assert!((2..100).all(|n| t_95(n) >= t_95(n + 1)));
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
