//! Runs at flow level: `run.level`, `--level flow` and `--level both`.

use crate::common::{Place, text};

const SCENARIO: &str = r#"
name = "small"
transports = ["pdq", "ndp"]
[network]
topology = "bcube"
n = 3
k = 1
rate = "1Gbps"
delay = "1us"
[[traffic]]
pattern = "permutation"
flows_each = 3
sizes = { uniform = ["2KB", "50KB"] }
deadlines = "5ms"
[run]
duration = "1s"
repetitions = 2
"#;

fn done(place: &Place, args: &[&str]) -> String {
    let output = place.punctual(args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn both_levels_are_compared() {
    let place = Place::new(SCENARIO);
    let shown = done(&place, &["compare", "s.toml", "-q", "--level", "both"]);
    assert!(shown.contains("flow level beside packet level"), "{shown}");
    for name in ["results/small", "results/small-flow"] {
        assert!(place.path().join(name).join("report.html").is_file(), "{name}");
    }
    let lines = done(&place, &["compare", "s.toml", "-q", "--json", "--level", "both"]);
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let is_difference = |line: &&serde_json::Value| line["metric"] == "fct_mean_us";
    let differences: Vec<f64> = lines
        .iter()
        .filter(is_difference)
        .map(|line| line["difference"].as_f64().expect("a number"))
        .collect();
    assert_eq!(differences.len(), 2, "{lines:?}");
    assert!(differences.iter().all(|difference| difference.abs() < 1.0), "{differences:?}");
    let kinds = lines.iter().filter(|line| line["kind"] == "flows").count();
    assert_eq!(kinds, 2, "one line for each transport at flow level: {lines:?}");
}

/// The level stands in the title of the table and in the head of the report, wherever it was set.
#[test]
fn the_level_is_visible() {
    let place = Place::new(&SCENARIO.replace("[run]", "[run]\nlevel = \"flow\""));
    let shown = done(&place, &["compare", "s.toml", "-q"]);
    assert!(shown.starts_with("small, flow level"), "{shown}");
    let page = std::fs::read_to_string(place.path().join("results/small/report.html"));
    let page = page.expect("a report");
    assert!(page.contains("whole flows, without packets, queues and losses"));
    for section in ["Network playback", "Utilisation by tier", "Drops", "Trims"] {
        assert!(!page.contains(&format!(">{section}<")), "{section}");
    }
    let manifest = place.path().join("results/small/pdq/seed-1/manifest.json");
    let manifest = std::fs::read_to_string(manifest).expect("a manifest");
    assert!(manifest.contains("level = \\\"flow\\\""), "{manifest}");
    let refused = place.punctual(&["explain", "results/small/pdq/seed-1", "--worst", "1"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--level packet"), "{}", text(&refused.stderr));
}

/// A capacity search and a sweep work at flow level.
#[test]
fn capacities_and_sweeps_are_found_at_flow_level() {
    let place = Place::new(SCENARIO);
    let args = ["capacity", "s.toml", "-q", "--level", "flow", "--vary", "traffic.0.flows_each"];
    let until = ["--until", "deadlines_met >= 99%", "--out", "capacity"];
    let shown = done(&place, &[&args[..], &until].concat());
    assert!(shown.contains("pdq") && shown.contains("ndp"), "{shown}");
    let sweep = format!("{SCENARIO}[sweep]\nnetwork.n = [2, 3]\n");
    let place = Place::new(&sweep);
    let lines = done(&place, &["compare", "s.toml", "-q", "--json", "--level", "flow"]);
    assert_eq!(lines.lines().count(), 4, "{lines}");
}
