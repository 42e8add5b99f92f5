//! `clock_tolerance`: ports whose rates are nearly equal.

use crate::common::{all, shipped};
use punctual_core::PortId;
use punctual_lab::Study;
use punctual_testkit::{Accepted, assert_figure, bounded, claimed, print_figure};
use std::ops::Bound;
use std::path::Path;

/// A long flow over a switch, for 400 ms.
fn text(tolerance: &str) -> String {
    format!(
        r#"
transports = ["tcp", "dctcp"]
[network]
topology = "star"
hosts = 2
rate = "1Gbps"
delay = "10us"
{tolerance}
[queue]
kind = "drop-tail"
limit = "1MB"
[[traffic]]
pattern = "pairs"
pairs = [[1, 0]]
sizes = "endless"
[run]
duration = "400ms"
stop = "duration"
sample = "1ms"
repetitions = 6
"#
    )
}

fn study(tolerance: &str) -> Study {
    Study::from_text("test", &text(tolerance), Path::new("."), &[])
        .unwrap_or_else(|e| panic!("{e}"))
}

/// A sender that is faster than the receiver's port by d parts per million builds a queue there
/// that grows by d millionths of what passes; one that is slower, or exactly as fast, builds none.
#[test]
fn a_long_flow_builds_the_queue_that_clocks_give_it() {
    // From 20 ms on, when slow start is over.
    let longest = |ran: &crate::common::Ran| {
        let samples = ran.outcome.samples.iter().filter(|s| s.at.as_secs_f64() > 0.02);
        samples.map(|s| s.queue_bytes).max().expect("samples") as f64
    };
    for ran in all(&study("")) {
        assert!(longest(&ran) <= 4_500.0, "{}: {}", ran.name(), longest(&ran));
    }
    let (mut faster, mut slower) = (0, 0);
    for ran in all(&study("clock_tolerance = \"1000ppm\"")) {
        let network = ran.run.scenario.network_with_clocks(ran.run.seed);
        let nic = network.nic(punctual_core::HostId(1));
        let down = network.link(network.nic(punctual_core::HostId(0))).twin;
        let bps = |port: PortId| network.link(port).rate.as_bps() as f64;
        assert!((bps(nic) / 1e9 - 1.0).abs() <= 1e-3);
        let grown = (bps(nic) - bps(down)) / 8.0 * 0.4;
        let longest = longest(&ran);
        if grown > 6_000.0 {
            faster += 1;
            // Framing is on the link and not in the queue: 1500 of 1538 bytes.
            assert!((longest / (grown * 1500.0 / 1538.0) - 1.0).abs() < 0.2, "{longest}, {grown}");
        } else if grown < 0.0 {
            slower += 1;
            assert!(longest <= 4_500.0, "{longest}, {grown}");
        }
    }
    assert!(faster >= 2 && slower >= 2, "{faster}, {slower}");
}

#[test]
fn clocks_are_those_of_the_seed_and_not_of_the_transport() {
    let study = study("clock_tolerance = \"100ppm\"");
    let rates = |run: &punctual_lab::PlannedRun| {
        let setup = study.setup(&run.scenario, &run.subject, run.seed).unwrap();
        let links = setup.packets().expect("packets").network.links;
        links.iter().map(|link| link.rate.as_bps()).collect::<Vec<_>>()
    };
    let runs = study.runs();
    let of = |transport: &str, seed| {
        let own =
            |run: &&punctual_lab::PlannedRun| run.subject.label == transport && run.seed == seed;
        rates(runs.iter().find(own).unwrap())
    };
    assert_eq!(of("tcp", 1), of("dctcp", 1));
    assert_ne!(of("tcp", 1), of("tcp", 2));
    assert!(of("tcp", 1).iter().all(|bps| bps.abs_diff(1_000_000_000) <= 100_000));
}

#[test]
fn a_tolerance_that_no_clock_has_is_refused() {
    let refused = |line: &str, said: &str| {
        let error = Study::from_text("test", &text(line), Path::new("."), &[]).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    };
    refused("clock_tolerance = \"5\"", "has no unit");
    refused("clock_tolerance = \"20000ppm\"", "more than 10000ppm");
}

/// Less than what the claim `tcp-8` of D3's Figure 13 accepts as all deadlines, in %.
fn loses_some() -> Accepted {
    let Bound::Included(all) = claimed("d3/fig13", "tcp-8").ends().0 else { unreachable!() };
    bounded(..all, "TCP loses deadlines from 12 senders on: d3/fig13, tcp-8 reversed")
}

/// D3's Figure 13 has TCP lose deadlines from 12 senders on. Between exactly equal clocks it loses
/// none there, because the long flow has no queue at the receiver's port.
#[test]
fn tcp_loses_deadlines_beside_a_long_flow_where_clocks_differ() {
    let met = |tolerance: &str| {
        let tolerance = format!("network.clock_tolerance={tolerance}");
        let changes = [
            "transports=[\"tcp\"]",
            "sweep.traffic.responses.workers=[12]",
            "run.repetitions=8",
            &tolerance,
        ];
        let runs = shipped("d3-figure-13", &changes);
        runs.iter().map(crate::common::Ran::met).sum::<usize>() as f64 / (12 * runs.len()) as f64
    };
    assert_eq!(met("0ppm"), 1.0);
    assert_figure("d3-figure-13-tcp-12", 100.0 * met("100ppm"), loses_some());
}

/// D3's Figure 13: TCP loses deadlines from 12 senders on, the others meet all of them up to 40.
#[test]
#[ignore = "study: cargo xtask figures"]
fn d3_figure_13() {
    let runs = shipped("d3-figure-13", &[]);
    let mut points: Vec<&str> = runs.iter().map(|ran| ran.point()).collect();
    points.sort_by_key(|point| point.parse::<u32>().unwrap_or(0));
    points.dedup();
    let met = |name: &str, point: &str| {
        let own = runs.iter().filter(|ran| ran.name() == name && ran.point() == point);
        let shares = own.map(|ran| ran.met() as f64 / point.parse::<f64>().unwrap_or(1.0));
        let shares: Vec<f64> = shares.collect();
        100.0 * shares.iter().sum::<f64>() / shares.len() as f64
    };
    let mut table =
        format!("| senders | {} |\n|---|{}", points.join(" | "), "---|".repeat(points.len()));
    for name in ["d3", "rcpdc", "tcppr", "tcp"] {
        let cells: Vec<String> = points.iter().map(|p| format!("{:.1}", met(name, p))).collect();
        table += &format!("\n| {name} | {} |", cells.join(" | "));
    }
    print_figure("d3-figure-13", &table);
    for name in ["d3", "rcpdc", "tcppr"] {
        let accepted = claimed("d3/fig13", &format!("{name}-40"));
        assert_figure(&format!("d3-figure-13-{name}"), met(name, "40"), accepted);
    }
    assert_figure("d3-figure-13-tcp-8", met("tcp", "8"), claimed("d3/fig13", "tcp-8"));
    assert_figure("d3-figure-13-tcp-12", met("tcp", "12"), loses_some());
}
