//! The papers' experiments on real packets: the scenarios that this repository ships, and what the
//! papers found. A run with invalid timing asserts nothing.

use crate::bed::{PROGRAM, is_possible, not_quiet};
use crate::runs::median;
use punctual_results::RunFiles;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory of this repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The runs of a shipped scenario.
struct Experiment {
    dir: tempfile::TempDir,
    runs: Vec<Value>,
}

impl Experiment {
    /// Runs a scenario with changed values on the testbed or on `both`.
    fn run(scenario: &str, on: &str, changes: &[&str]) -> Experiment {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new(PROGRAM);
        command.args(["run", "--quiet", "--json", "--on", on]);
        command.args(changes.iter().flat_map(|change| ["--set", change]));
        command.arg(repository("scenarios").join(scenario)).current_dir(dir.path());
        let output = command.output().expect("the program starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        // 9: the timing of some runs was invalid.
        assert!(matches!(output.status.code(), Some(0 | 9)), "{errors}");
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = lines.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        // Lines with a metric compare simulator and testbed.
        let runs: Vec<Value> = lines.filter(|line: &Value| line["metric"].is_null()).collect();
        assert!(!runs.is_empty(), "{errors}");
        let experiment = Experiment { dir, runs };
        for run in experiment.runs.iter().filter(|run| !is_valid(run)) {
            println!("{scenario}: {}: invalid: {}", run["directory"], run["timing_problems"]);
        }
        experiment
    }

    /// The runs of a kind ("testbed" or "packets") of a transport, valid or not.
    fn of<'a>(&'a self, kind: &'a str, transport: &'a str) -> impl Iterator<Item = &'a Value> {
        self.runs.iter().filter(move |run| run["kind"] == kind && run["transport"] == transport)
    }

    /// The valid runs of a transport on the testbed.
    fn valid<'a>(&'a self, transport: &'a str) -> impl Iterator<Item = &'a Value> {
        self.of("testbed", transport).filter(|run| is_valid(run))
    }

    /// The transports on the testbed, in order.
    fn transports(&self) -> Vec<&str> {
        let real = self.runs.iter().filter(|run| run["kind"] == "testbed");
        let mut names: Vec<&str> = real.filter_map(|run| run["transport"].as_str()).collect();
        names.dedup();
        names
    }

    /// Flow completion times in microseconds and sizes in bytes of a run, in the order of the ends.
    fn flows(&self, run: &Value) -> Vec<(f64, u64)> {
        let dir = self.dir.path().join(run["directory"].as_str().expect("a directory"));
        let RunFiles { flows, .. } = punctual_results::read(&dir).expect("a run");
        let mut ends: Vec<(f64, u64)> = flows
            .iter()
            .map(|flow| {
                let fct = flow.fct.expect("a completed flow").as_picos() as f64 / 1e6;
                (fct, flow.size.expect("a size").get())
            })
            .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends
    }
}

fn is_valid(run: &Value) -> bool {
    run["timing_problems"].as_array().is_none_or(Vec::is_empty)
}

fn number(run: &Value, key: &str) -> f64 {
    run[key].as_f64().unwrap_or_else(|| panic!("no {key} in {run}"))
}

/// The median of a value over runs.
fn median_of<'a>(runs: impl Iterator<Item = &'a Value>, key: &str) -> Option<f64> {
    median(&mut runs.map(|run| number(run, key)).collect::<Vec<_>>())
}

/// NDP, Figure 9: in the median of the valid runs the last flow of a 7:1 incast ends within 10 % of
/// the optimum. The kernel's TCP runs beside it.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn ndp__incast_of_seven_is_within_a_tenth_of_the_optimum() {
    if !is_possible() {
        return;
    }
    let experiment = Experiment::run("testbed.toml", "testbed", &[]);
    // Data and headers of all flows at the rate of the receiver's link, 100 Mb/s: 1,436 of 1,538
    // bytes are data.
    let optimum_us = 7.0 * 450_000.0 / 1436.0 * 1538.0 * 8.0 / 100.0;
    for transport in ["ndp", "kernel-reno", "kernel-cubic"] {
        let runs = experiment.of("testbed", transport).count();
        assert_eq!(runs, 5, "{transport}");
        for run in experiment.of("testbed", transport) {
            assert_eq!(run["flows_completed"], 7, "{run}");
        }
        let valid = experiment.valid(transport).count();
        let Some(last_us) = median_of(experiment.valid(transport), "fct_max_us") else {
            not_quiet(&format!("7:1 incast: no valid run of {transport}"));
            continue;
        };
        let ratio = last_us / optimum_us;
        println!(
            "{transport}: last flow after {last_us:.0} us, median of {valid} valid runs of {runs}: \
             {ratio:.3} of the optimum of {optimum_us:.0} us"
        );
        // No TCP segment has less overhead than 78 bytes.
        assert!(ratio > 1436.0 / 1460.0, "{transport}: faster than its link");
        if transport == "ndp" {
            assert!(ratio < 1.10, "{ratio:.3} of the optimum");
        }
    }
}

/// NDP, Figure 10: a flow of 200 KB among six long ones. The paper has 158 us alone, 195 us with
/// priority (1.2 times) and 655 us without (4.1 times). By arithmetic a seventh of the link takes 7
/// times as long.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn ndp__a_prioritised_flow_costs_little_more_than_alone() {
    if !is_possible() {
        return;
    }
    let experiment = Experiment::run("testbed-priority.toml", "testbed", &["run.repetitions=3"]);
    let fct = |label: &str| {
        let at =
            |run: &&Value| run["point"].as_object().is_some_and(|p| p.values().any(|v| v == label));
        assert_eq!(experiment.of("testbed", "ndp").filter(at).count(), 3, "{label}");
        median_of(experiment.valid("ndp").filter(at), "fct_max_us")
    };
    let times = ["alone", "prioritised", "unprioritised"].map(fct);
    let [Some(alone), Some(first), Some(among)] = times else {
        not_quiet(&format!("200 KB among long flows: a case without valid run: {times:?}"));
        return;
    };
    println!(
        "200 KB: alone {alone:.0} us, prioritised {first:.0} us ({:.2} times), unprioritised \
         {among:.0} us ({:.2} times)",
        first / alone,
        among / alone
    );
    // 139.3 packets of 1,538 bytes at 100 Mb/s.
    assert!(alone >= 200_000.0 / 1436.0 * 1538.0 * 8.0 / 100.0, "faster than its link: {alone}");
    assert!(first <= 1.5 * alone, "{first} us, alone {alone} us");
    assert!(among >= 3.0 * alone, "{among} us, alone {alone} us");
}

/// D3, Figure 10: of the same flows, D3 meets more deadlines than RCPdc and than the kernel's TCP. In
/// the simulator 22 workers separate them.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn d3__meets_more_deadlines_than_rcpdc_and_tcp() {
    if !is_possible() {
        return;
    }
    const REPETITIONS: usize = 3;
    let changes = ["sweep.traffic.workers=[22]", "run.repetitions=3"];
    let experiment = Experiment::run("testbed-d3.toml", "testbed", &changes);
    for other in ["rcpdc", "kernel-reno", "kernel-cubic"] {
        assert_eq!(experiment.of("testbed", other).count(), REPETITIONS, "{other}");
        // Runs with one seed have the same flows and deadlines.
        let pairs: Vec<(f64, f64)> = experiment
            .valid("d3")
            .filter_map(|ours| {
                let theirs = experiment.valid(other).find(|run| run["seeds"] == ours["seeds"])?;
                assert_eq!(ours["deadline_flows"], theirs["deadline_flows"]);
                Some((number(ours, "deadline_flows_met"), number(theirs, "deadline_flows_met")))
            })
            .collect();
        let ours: f64 = pairs.iter().map(|pair| pair.0).sum();
        let theirs: f64 = pairs.iter().map(|pair| pair.1).sum();
        println!(
            "D3 meets {ours} deadlines of {}, {other} {theirs}, in {} pairs of valid runs",
            22 * pairs.len(),
            pairs.len()
        );
        if pairs.len() * 2 < REPETITIONS {
            not_quiet(&format!("D3's burst beside {other}: fewer than half the runs are valid"));
            continue;
        }
        assert!(ours > theirs, "{other}: {pairs:?}");
    }
}

/// PDQ, Figure 6: five flows of about 1 MB end one after the other, the shortest first. Flows that
/// share the link end together: they differ by 5 KB, which takes 0.2 ms among five.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn pdq__finishes_flows_one_by_one() {
    if !is_possible() {
        return;
    }
    let experiment = Experiment::run("testbed-pdq.toml", "testbed", &["run.repetitions=3"]);
    for transport in ["kernel-reno", "kernel-cubic"] {
        for run in experiment.of("testbed", transport) {
            println!("{transport}: flows end at {:.0?} us", experiment.flows(run));
        }
    }
    // Time of a flow on the link of 1 Gb/s: of 1,538 bytes on the link at most 1,460 are data.
    let time_us = |bytes: u64| bytes as f64 * (1538.0 / 1460.0) * 8.0 / 1000.0;
    // The median over runs of each gap between two ends, as a share of the later flow's time.
    let mut gaps = vec![Vec::new(); 4];
    for run in experiment.valid("pdq") {
        let flows = experiment.flows(run);
        println!("pdq: flows end at {flows:.0?} us");
        for (gap, ends) in gaps.iter_mut().zip(flows.windows(2)) {
            assert!(ends[0].1 < ends[1].1, "the shortest first: {flows:?}");
            gap.push((ends[1].0 - ends[0].0) / time_us(ends[1].1));
        }
    }
    assert_eq!(experiment.of("testbed", "pdq").count(), 3);
    for gap in &mut gaps {
        let Some(share) = median(gap) else {
            not_quiet("PDQ's flows one by one: no valid run");
            return;
        };
        assert!((0.75..1.25).contains(&share), "a gap of {share:.2} times a flow's time");
    }
}

/// The testbed's scenarios that are compared with the simulator, with the changes that keep them short.
const COMPARED: [(&str, &[&str]); 3] = [
    ("testbed.toml", &["run.repetitions=3"]),
    ("testbed-permutation.toml", &["run.repetitions=3"]),
    ("testbed-d3.toml", &["sweep.traffic.workers=[22]", "run.repetitions=3"]),
];

/// Whether a page gives a reason why a transport differs between simulator and testbed: a row of a
/// table that begins with the scenario and the transport.
fn gives_reason(page: &str, scenario: &str, transport: &str) -> bool {
    let begin = format!("| `{scenario}` | ");
    let rows = page.lines().filter_map(|line| line.strip_prefix(&begin));
    rows.filter_map(|row| row.split_once(" | "))
        .any(|(names, _)| names.split(", ").any(|name| name.trim_matches('`') == transport))
}

/// Simulator and testbed on the same flows: the median FCT differs by at most 10 %, or the docs give
/// the reason.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn both__median_fct_of_simulator_and_testbed() {
    if !is_possible() {
        return;
    }
    let page = std::fs::read_to_string(repository("docs/testbed.md")).expect("a page");
    for (scenario, changes) in COMPARED {
        let experiment = Experiment::run(scenario, "both", changes);
        for transport in experiment.transports() {
            let other = if transport.starts_with("kernel-") { "tcp" } else { transport };
            // Runs with one seed have the same flows.
            let pairs: Vec<(&Value, &Value)> = experiment
                .valid(transport)
                .map(|real| {
                    let mut simulated = experiment.of("packets", other);
                    let simulated = simulated.find(|run| run["seeds"] == real["seeds"]);
                    (simulated.expect("a simulated run with that seed"), real)
                })
                .collect();
            let simulated = median_of(pairs.iter().map(|pair| pair.0), "fct_p50_us");
            let real = median_of(pairs.iter().map(|pair| pair.1), "fct_p50_us");
            let (Some(simulated), Some(real)) = (simulated, real) else {
                not_quiet(&format!("{scenario}: no valid run of {transport}"));
                continue;
            };
            let difference = 100.0 * (real / simulated - 1.0);
            println!(
                "{scenario}: {transport}: FCT p50 {simulated:.0} us in the simulator, {real:.0} us \
                 on the testbed, {difference:+.1} %, {} valid runs",
                pairs.len()
            );
            assert!(
                difference.abs() <= 10.0 || gives_reason(&page, scenario, transport),
                "{scenario}: {transport}: {difference:+.1} %, and docs/testbed.md has no reason"
            );
        }
    }
}
