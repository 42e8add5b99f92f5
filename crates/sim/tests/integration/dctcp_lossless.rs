//! DCTCP over lossless Ethernet, and what NDP's comparison measured of it under the name of DCQCN.

use crate::common::*;
use punctual_core::{Bytes, Duration, FlowSpec, Instant, QueueSpec};
use punctual_sim::{FlowRecord, FlowStatus, Outcome};
use punctual_testkit::{assert_figure, claimed, markdown_table, print_figure, published};
use punctual_transports::{AnyTransport, tcp::DctcpLosslessConfig};

fn plain() -> DctcpLosslessConfig {
    DctcpLosslessConfig::default()
}

/// As NDP's simulator has it: no cut at first, slow start up to 15 packets, cuts in every window.
fn as_in_ndp() -> DctcpLosslessConfig {
    DctcpLosslessConfig {
        initial_alpha: 0.0,
        initial_ssthresh: Some(Bytes::new(15 * 9024)),
        cut_every_window: true,
        window_min: 1,
        ..plain()
    }
}

fn on(k: u32, config: DctcpLosslessConfig, flows: Vec<FlowSpec>) -> punctual_sim::Setup {
    let mut setup = setup(fat_tree(k, 9064), vec![AnyTransport::DctcpLossless(config)], flows);
    setup.check = false;
    setup
}

/// Gb/s of data of each host of a permutation, sorted.
fn permutation_rates(config: DctcpLosslessConfig, k: u32, ms: u64) -> (Vec<f64>, Outcome) {
    let hosts = k * k * k / 4;
    let mut setup = on(k, config, permutation(hosts, 1));
    setup.stop = until_ms(ms);
    let outcome = run(setup);
    let gbps = |bytes: Bytes| bytes.get() as f64 * 8.0 / (ms as f64 * 1e6);
    let mut rates: Vec<f64> = outcome.flows.iter().map(|f| gbps(f.delivered)).collect();
    rates.sort_by(f64::total_cmp);
    (rates, outcome)
}

/// The mean rate, rank 5 and the median in Gb/s, and their row of the table.
fn permutation_row(
    name: &str,
    config: DctcpLosslessConfig,
    k: u32,
    ms: u64,
) -> ([f64; 3], Vec<String>) {
    let (rates, outcome) = permutation_rates(config, k, ms);
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let shown = [mean, rates[4], rates[rates.len() / 2]];
    let cells = shown.map(|rate| format!("{rate:.2}"));
    println!(
        "{name}: mean {mean:.2}, least {:.2}, rank 5 {:.2}, median {:.2} Gb/s; {} pauses, {} \
         marks, at most {} in a switch",
        rates[0],
        rates[4],
        rates[rates.len() / 2],
        outcome.totals.pauses,
        outcome.totals.marks,
        outcome.totals.most_buffered,
    );
    assert_eq!(outcome.totals.drops, 0);
    (shown, [vec![name.to_owned()], cells.to_vec()].concat())
}

/// Points of a curve of NDP's Figure 14 that the catalogue has.
const CURVE: [&str; 3] = ["mean", "rank-5", "rank-216"];

/// NDP's Figure 14, the curve that the paper calls DCQCN.
#[test]
#[ignore = "study: cargo xtask figures"]
fn permutation_of_432() {
    let points = CURVE.map(|what| published("ndp/fig14", &format!("dctcp-lossless-{what}")));
    let paper = [vec!["the paper's \"DCQCN\"".to_owned()], points.to_vec()].concat();
    let (of_rfc, rfc) = permutation_row("with RFC 8257's law, the default", plain(), 12, 200);
    let (of_ndp, ndp) =
        permutation_row("with the law of the paper's simulator", as_in_ndp(), 12, 200);
    let head = ["", "mean", "rank 5", "median"];
    print_figure("dctcp-lossless-figure-14", &markdown_table(&head, &[paper, rfc, ndp]));
    for (law, rates) in [("rfc", of_rfc), ("program", of_ndp)] {
        for (what, gbps) in CURVE.into_iter().zip(rates) {
            let id = format!("ndp-fig-14-dctcp-lossless-{law}-{what}");
            let accepted = claimed("ndp/fig14", &format!("dctcp-lossless-{what}"));
            assert_figure(&id, gbps, accepted);
        }
    }
}

/// 450 KB from each of these hosts to the first: who was done when, in ms, in that order.
fn incast(
    config: DctcpLosslessConfig,
    pause_above: u64,
    senders: std::ops::Range<u32>,
) -> (Vec<(f64, u32)>, Outcome) {
    let flows: Vec<FlowSpec> = senders.map(|s| flow(s, 0, 450_000)).collect();
    let mut setup = on(12, config, flows);
    if let QueueSpec::Lossless { pause_above: above, resume_below, .. } = &mut setup.switch_queue {
        (*above, *resume_below) =
            (Bytes::new(pause_above * 9064), Bytes::new(pause_above * 4 / 5 * 9064));
    }
    let outcome = run(setup);
    assert_eq!(outcome.totals.drops, 0);
    let ms = |at: Instant| at.saturating_since(Instant::ZERO).as_secs_f64() * 1e3;
    let end = |f: &FlowRecord| (ms(f.ended.expect("it ended")), f.spec.src.0);
    let mut ends: Vec<(f64, u32)> = outcome.flows.iter().map(end).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    (ends, outcome)
}

/// The last so many of 432 hosts, as NDP's programs for lossless networks choose senders: those in
/// the receiver's pod come last, and those in its rack after all others.
fn far(senders: u32) -> std::ops::Range<u32> {
    432 - senders..432
}

/// NDP's Figure 16 has last (first) at 36.7 (33.9), 72.9 (67.6) and 156.3 (4.8) ms.
#[test]
#[ignore = "study: cargo xtask figures"]
fn incast_of_450_kb() {
    let known = [
        ["what the line needs for packets of 9,000 B of data", "36.6", "72.9", "143.2", "156.3"],
        ["the paper", "36.7 (33.9)", "72.9 (67.6)", "", "156.3 (4.8)"],
    ];
    let mut rows: Vec<Vec<String>> = known.map(|row| row.map(String::from).to_vec()).to_vec();
    for (name, config, pause_above) in [
        ("default", plain(), 15),
        (
            "default, windows of 1 packet at least",
            DctcpLosslessConfig { window_min: 1, ..plain() },
            15,
        ),
        ("with the law of the paper's simulator", as_in_ndp(), 15),
        ("with that law, first windows of 1 packet", first_window_of_1(), 15),
        ("with that law, pausing above 200 packets", as_in_ndp(), 200),
    ] {
        let mut row = vec![name.to_owned()];
        for senders in [101, 201, 395, 431] {
            let (ends, outcome) = incast(config.clone(), pause_above, far(senders));
            let ideal = f64::from(senders) * 50.0 * 9064.0 * 8.0 / 1e7;
            let (first, last) = (ends[0].0, ends[ends.len() - 1].0);
            // Hosts 1 to 5 are in the receiver's rack.
            let remote = ends.iter().find(|(_, src)| *src > 5).expect("one from afar").0;
            println!(
                "{name}, {senders} senders: last {last:.1} ({:+.1} %), first {first:.1}, first of \
                 another rack {remote:.1}, median {:.1}, {} pauses; ideal {ideal:.1}",
                (last / ideal - 1.0) * 100.0,
                ends[ends.len() / 2].0,
                outcome.totals.pauses,
            );
            assert!(last / ideal < 1.01, "the line is never idle: {last} against {ideal}");
            row.push(format!("{last:.1} ({first:.1})"));
        }
        rows.push(row);
    }
    let table = markdown_table(&["", "101", "201", "395", "431"], &rows);
    print_figure("dctcp-lossless-figure-16", &table);
}

fn first_window_of_1() -> DctcpLosslessConfig {
    DctcpLosslessConfig { initial_window: 1, ..as_in_ndp() }
}

/// Pausing shares a port among links, not among flows, so that who sends from the receiver's own
/// rack is done first by far. Without such senders flows keep together: near ideal at 101 of the
/// hosts farthest away, and skewed at 431, which are all there are.
#[test]
fn neighbours_of_the_receiver_skew_an_incast() {
    let spread = |senders: std::ops::Range<u32>| {
        let count = senders.end - senders.start;
        let (ends, outcome) = incast(as_in_ndp(), 15, senders);
        let ideal = f64::from(count) * 50.0 * 9064.0 * 8.0 / 1e7;
        let (first, last) = (ends[0], ends[ends.len() - 1].0);
        assert!(last / ideal < 1.01, "{last} against {ideal}");
        assert!(outcome.totals.pauses > 0);
        (first.1, last / first.0)
    };
    let ((_, far_apart), (near, near_apart)) = (spread(far(101)), spread(1..102));
    let (first, all_apart) = spread(far(431));
    println!("last over first: {far_apart:.1}, {near_apart:.1}, {all_apart:.1}");
    assert!(far_apart < 3.0, "{far_apart}");
    assert!((1..6).contains(&near) && near_apart > 2.0 * far_apart, "{near}: {near_apart}");
    assert!((1..6).contains(&first) && all_apart > 20.0, "{first}: {all_apart}");
}

/// Nothing is lost or waited for, so the last is done when the line has carried everything.
#[test]
fn a_small_incast_is_near_the_ideal() {
    let flows: Vec<FlowSpec> = (1..=15).map(|s| flow(s, 0, 450_000)).collect();
    let mut setup = on(4, plain(), flows);
    setup.check = true;
    let outcome = run(setup);
    let last = outcome.flows.iter().map(|f| f.ended.expect("it ended")).max().expect("some");
    let ideal = Duration::from_nanos(15 * 50 * 9064 * 8 / 10);
    let took = last.saturating_since(Instant::ZERO);
    assert!(outcome.flows.iter().all(|f| f.status == FlowStatus::Completed && f.timeouts == 0));
    assert_eq!((outcome.totals.drops, outcome.totals.losses), (0, 0));
    assert!(outcome.totals.pauses > 0 && outcome.totals.marks > 0);
    assert!(took.as_secs_f64() < 1.02 * ideal.as_secs_f64(), "{took}, {ideal}");
}
