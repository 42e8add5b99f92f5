//! DCQCN across networks: shares, queues, and NDP's permutation and incast.

use crate::common::*;
use punctual_core::{Bytes, Duration, FlowId, FlowSpec, Instant, Rate};
use punctual_net::{ClosLinks, ClosShape};
use punctual_sim::{FlowStatus, GaugeOf, Sampling};
use punctual_testkit::{markdown_table, print_figure};
use punctual_transports::{AnyTransport, dcqcn::DcqcnConfig};

fn dcqcn() -> AnyTransport {
    AnyTransport::Dcqcn(DcqcnConfig::default())
}

/// What two flows into one port use of it, and the mean rate of each, between 20 and 60 ms.
fn two_flows(config: DcqcnConfig, gbps: u64) -> (f64, [f64; 2]) {
    let links = ClosLinks::uniform(Rate::from_gbps(gbps), US);
    let network = ClosShape::star(3).build(&links, Bytes::new(1500), Bytes::ZERO);
    let flows = vec![flow(0, 2, u64::MAX), flow(1, 2, u64::MAX)];
    let mut setup = setup(network, vec![AnyTransport::Dcqcn(config)], flows);
    setup.stop = until_ms(60);
    setup.measure.from = Instant::ZERO + Duration::from_millis(20);
    setup.sampling = Some(Sampling { every: Duration::from_micros(100), ports: Vec::new() });
    setup.sampled_flows = vec![FlowId(0), FlowId(1)];
    let outcome = run(setup);
    assert_eq!(outcome.totals.drops, 0);
    let used = outcome.totals.delivered_wire_bytes as f64 * 8.0 / 0.04 / (gbps as f64 * 1e9);
    let mean = |name: &str, flow: u32| {
        let of = GaugeOf::Sender(FlowId(flow));
        let late = |at: Instant| at > Instant::ZERO + Duration::from_millis(20);
        let values: Vec<f64> = outcome
            .gauges
            .iter()
            .filter(|g| g.name == name && g.of == of && late(g.at))
            .map(|g| g.value)
            .collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let rates = [mean("rate_bps", 0), mean("rate_bps", 1)];
    println!(
        "{gbps} Gb/s: used {used:.4}, {:.2} and {:.2} Gb/s, alpha {:.3}; {} pauses",
        rates[0] / 1e9,
        rates[1] / 1e9,
        mean("alpha", 0),
        outcome.totals.pauses
    );
    assert!(mean("alpha", 0) < 0.5 && mean("target_bps", 0) >= rates[0]);
    (used, rates)
}

/// Two flows into one port settle at a fair share and lose nothing. With the paper's parameters,
/// which are for 40 Gb/s, the line is full; at 10 Gb/s they cut too often for that.
#[test]
fn two_flows_share_a_port() {
    let (used, rates) = two_flows(DcqcnConfig::default(), 40);
    assert!(used > 0.95, "{used}");
    assert!((rates[0] / rates[1] - 1.0).abs() < 0.2, "{rates:?}");
    let (used, rates) = two_flows(DcqcnConfig::default(), 10);
    assert!(used > 0.85, "{used}");
    assert!((rates[0] / rates[1] - 1.0).abs() < 0.2, "{rates:?}");
}

/// Everybody sends to somebody else: Gb/s of data each, sorted.
#[test]
#[ignore = "study: cargo xtask figures"]
fn permutation_of_432() {
    let mut setup = setup(fat_tree(12, 9064), vec![dcqcn()], permutation(432, 1));
    setup.stop = until_ms(200);
    setup.check = false;
    let outcome = run(setup);
    let gbps = |bytes: Bytes| bytes.get() as f64 * 8.0 / 200e6;
    let mut rates: Vec<f64> = outcome.flows.iter().map(|f| gbps(f.delivered)).collect();
    rates.sort_by(f64::total_cmp);
    let mean = rates.iter().sum::<f64>() / 432.0;
    let mut row: Vec<String> =
        [mean, rates[0], rates[4], rates[216]].map(|rate| format!("{rate:.2}")).to_vec();
    row.extend([outcome.totals.pauses, outcome.totals.marks].map(|count| count.to_string()));
    let head = ["mean (Gb/s)", "least", "rank 5", "median", "pauses", "marks"];
    print_figure("dcqcn-figure-14", &markdown_table(&head, &[row]));
    assert_eq!(outcome.totals.drops, 0);
}

/// 450 KB from each of n hosts to one.
#[test]
#[ignore = "study: cargo xtask figures"]
fn incast_of_450_kb() {
    let mut rows = Vec::new();
    for senders in [101u32, 201, 431] {
        let flows: Vec<FlowSpec> = (1..=senders).map(|s| flow(s, 0, 450_000)).collect();
        let mut setup = setup(fat_tree(12, 9064), vec![dcqcn()], flows);
        setup.check = false;
        let outcome = run(setup);
        assert_eq!(outcome.totals.drops, 0);
        let ms = |at: Instant| at.saturating_since(Instant::ZERO).as_secs_f64() * 1e3;
        let mut ends: Vec<f64> =
            outcome.flows.iter().map(|f| ms(f.ended.expect("it ended"))).collect();
        ends.sort_by(f64::total_cmp);
        let ideal = f64::from(senders) * 50.0 * 9064.0 * 8.0 / 1e7;
        let last = ends[ends.len() - 1];
        let mut row = vec![senders.to_string()];
        row.extend([ideal, last, ends[0], ends[ends.len() / 2]].map(|ms| format!("{ms:.1}")));
        row.push(outcome.totals.pauses.to_string());
        rows.push(row);
    }
    let head = ["senders", "the line needs (ms)", "last (ms)", "first", "median", "pauses"];
    print_figure("dcqcn-figure-16", &markdown_table(&head, &rows));
}

/// A small incast is through when the line has carried it, and nothing is sent twice.
#[test]
fn a_small_incast_loses_nothing() {
    let flows: Vec<FlowSpec> = (1..=15).map(|s| flow(s, 0, 450_000)).collect();
    let outcome = run(setup(fat_tree(4, 9064), vec![dcqcn()], flows));
    assert!(outcome.flows.iter().all(|f| f.status == FlowStatus::Completed));
    assert!(outcome.flows.iter().all(|f| f.retransmits == 0 && f.timeouts == 0));
    assert_eq!(outcome.totals.drops, 0);
    assert!(outcome.totals.pauses > 0 && outcome.totals.marks > 0);
}
