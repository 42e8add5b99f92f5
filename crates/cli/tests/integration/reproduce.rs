//! `punctual reproduce`: verdicts, resuming, and errors that lose nothing.

use crate::common::{Place, text};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

const ROWS: &str = "row = [{ paper = 'mine', row = '1', what = 'an incast' }]\n";

const EXPERIMENT: &str = r#"
name = "small"
transports = ["tcp", "ndp"]
[network]
topology = "star"
hosts = 6
rate = "10Gbps"
delay = "1us"
[[traffic]]
pattern = "incast"
receiver = 0
workers = 10
sizes = { uniform = ["40KB", "50KB"] }
[sweep]
traffic.workers = [5, 10]
[run]
duration = "50ms"
repetitions = 3

[experiment]
title = "a small incast"
rows = ["1"]
quick = ["run.repetitions=1"]

[[experiment.claim]]
id = "more-takes-longer"
text = "Ten workers take longer than five"
order = ["fct_max_us[ndp, workers=10]", "fct_max_us[ndp, workers=5]"]
paper = "longer"
source = "text"

[[experiment.claim]]
id = "impossible"
text = "NDP needs no time"
value = "fct_max_us[ndp, workers=5]"
paper = 0
tolerance = 0
unit = "us"
source = "text"
tolerance_from = "ours"

[[experiment.claim]]
id = "mean"
text = "Mean FCT of TCP"
value = "fct_mean_us[tcp, workers=10]"
blind = true

[[experiment.claim]]
id = "trace"
text = "A private trace"
paper = "7 %"
source = "text"
cannot_run = "the trace is not public"

[[experiment.reading]]
name = "slower"
about = "a link of 1 Gb/s"
set = ["network.rate=1Gbps"]

[[experiment.chart]]
title = "Last flow"
x = "workers"
y = "fct_max_us"
unit = "us"
paper = { ndp = [[10, 300]] }
"#;

fn place() -> Place {
    let place = Place::new("");
    let folder = place.path().join("experiments/mine");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(place.path().join("experiments/rows.toml"), ROWS).unwrap();
    std::fs::write(folder.join("fig1.toml"), EXPERIMENT).unwrap();
    place
}

fn said(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

fn fine(place: &Place, args: &[&str]) -> String {
    let output = place.punctual(args);
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    text(&output.stdout)
}

fn claims(dir: &Path) -> (Vec<u8>, Vec<u8>) {
    let read = |name: &str| std::fs::read(dir.join(name)).unwrap();
    (read("claims.jsonl"), read("mine/fig1/claims.json"))
}

#[test]
fn every_claim_has_a_verdict() {
    let place = place();
    let lines = fine(&place, &["reproduce", "--json", "--quiet"]);
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let verdicts: Vec<&str> = lines.iter().map(|l| l["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["holds", "differs", "blind", "cannot-run"]);
    assert_eq!(lines[0]["sure"], true, "{}", lines[0]);
    assert_eq!(lines[0]["rows"][0], "mine 1");
    assert_eq!(lines[1]["tolerance"], serde_json::json!([0.0, 0.0]));
    assert!(lines[1]["interval"][0].is_number() && lines[2]["paper"] == "");
    assert_eq!(lines[3]["note"], "the trace is not public");
    assert_eq!(lines[0]["readings"][0]["reading"], "slower");
    let table = fine(&place, &["reproduce", "mine/fig1", "--quiet"]);
    assert!(table.contains("1 of 2 claims hold (1 surely), 1 differ"), "{table}");
    assert!(table.contains("trace cannot run: the trace is not public"), "{table}");
    let page = std::fs::read_to_string(place.path().join("results/reproduce/report.html")).unwrap();
    assert!(page.contains("ndp, paper") && page.contains("Ten workers take longer"));
    let list = fine(&place, &["reproduce", "--list", "--json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&list).unwrap()["claims"], 4);
}

/// `--list` says of each experiment whether its committed results are of its file as it is.
#[test]
fn the_list_names_stale_results() {
    let place = place();
    let results = place.path().join("experiments/results");
    std::fs::create_dir_all(&results).unwrap();
    fine(&place, &["reproduce", "--quick", "--no-readings"]);
    let made = place.path().join("results/reproduce-quick/reproduced.json");
    std::fs::copy(made, results.join("quick.json")).unwrap();
    let state = || -> serde_json::Value {
        let list = fine(&place, &["reproduce", "--list", "--json"]);
        serde_json::from_str(&list).unwrap()
    };
    assert_eq!(
        (&state()["quick_results"], &state()["full_results"]),
        (&"current".into(), &"missing".into())
    );
    let file = place.path().join("experiments/mine/fig1.toml");
    let changed = EXPERIMENT.replace("tolerance = 0", "tolerance = 1");
    std::fs::write(file, changed).unwrap();
    assert_eq!(state()["quick_results"], "stale");
    let list = fine(&place, &["reproduce", "--list"]);
    assert!(list.contains("quick mine/fig1") && !list.contains("full mine/fig1"), "{list}");
}

#[test]
fn one_seed_is_never_sure() {
    let place = place();
    let lines = fine(&place, &["reproduce", "--quick", "--json", "--quiet"]);
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["sure"], &line["interval"]), (&false.into(), &serde_json::Value::Null));
    }
}

/// What was lost or damaged runs again, and nothing else; the bytes are those of one go, with any
/// number of threads.
#[test]
fn resuming_gives_the_same_bytes() {
    let place = place();
    fine(&place, &["reproduce", "--quiet", "--threads", "1", "--out", "whole"]);
    let whole = claims(&place.path().join("whole"));
    fine(&place, &["reproduce", "--quiet", "--threads", "2", "--out", "parts"]);
    let dir = place.path().join("parts");
    assert_eq!(claims(&dir), whole, "two threads");
    let part = dir.join("mine/fig1/main/traffic.workers=10/ndp");
    std::fs::remove_dir_all(part.join("seed-1")).unwrap();
    std::fs::write(part.join("seed-2/flows.parquet"), "damaged").unwrap();
    std::fs::write(dir.join("mine/fig1/claims.json"), "{").unwrap();
    let output = place.punctual(&["reproduce", "--out", "parts"]);
    assert!(output.status.success(), "{}", said(&output));
    let told = text(&output.stderr);
    assert!(told.contains("reused 22 of 24 runs") && told.contains("is damaged"), "{told}");
    assert_eq!(claims(&dir), whole, "resumed");
}

/// The time of an experiment is known too if its runs were there already.
#[cfg(target_os = "linux")]
#[test]
fn the_time_of_an_experiment_is_known_without_running_it_again() {
    let place = place();
    let times = || -> [f64; 2] {
        fine(&place, &["reproduce", "--quiet"]);
        let text = std::fs::read_to_string(place.path().join("results/reproduce/times.json"));
        let times: serde_json::Value = serde_json::from_str(&text.unwrap()).unwrap();
        ["cpu", "wall"].map(|key| times["mine/fig1"][key].as_f64().unwrap())
    };
    for what in ["all runs executed", "all runs reused"] {
        let [cpu, wall] = times();
        assert!(cpu > 0.0, "{what}");
        assert!(wall <= cpu, "{what}: two processors are not slower than one: {cpu} {wall}");
    }
    let list = fine(&place, &["reproduce", "--list"]);
    assert!(list.contains("on two idle processors"), "{list}");
}

/// Ctrl-C keeps whole runs; the same command goes on and gives the bytes of one go.
#[test]
fn an_interrupted_experiment_goes_on() {
    let place = place();
    // The second sweep point takes far longer than the wait for the first.
    let file = place.path().join("experiments/mine/fig1.toml");
    let longer = EXPERIMENT
        .replace("[\"40KB\", \"50KB\"]", "[\"4MB\", \"5MB\"]")
        .replace("50ms", "400ms")
        .replace("repetitions = 3", "repetitions = 12");
    std::fs::write(&file, longer).unwrap();
    fine(&place, &["reproduce", "--quiet", "--no-readings", "--out", "whole"]);
    let whole = claims(&place.path().join("whole"));
    let args = ["reproduce", "--no-readings", "--threads", "1", "--out", "parts"];
    let child = place.command(&args).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let first = place.path().join("parts/mine/fig1/main/traffic.workers=5/tcp/seed-1");
    let begun = Instant::now();
    while !first.join("manifest.json").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the first run does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it is still running");
    let output = child.wait_with_output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(told.contains("the same command continues"), "{told}");
    assert!(!place.path().join("parts/claims.jsonl").exists(), "a half result looks whole");
    let output = place.punctual(&args);
    assert!(output.status.success(), "{}", said(&output));
    assert!(text(&output.stderr).contains("reused "), "{}", said(&output));
    assert_eq!(claims(&place.path().join("parts")), whole, "resumed");
}

#[test]
fn errors_name_the_nearest_and_lose_nothing() {
    let place = place();
    let refused = |args: &[&str], code: i32, says: &str| {
        let output = place.punctual(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", said(&output));
    };
    refused(&["reproduce", "mine/fgi1"], 2, "did you mean `mine/fig1`?");
    refused(&["reproduce", "mnie"], 2, "did you mean `mine`?");
    refused(&["reproduce", "--catalogue", "nowhere"], 2, "has no experiments");
    std::fs::write(place.path().join("taken"), "mine").unwrap();
    refused(&["reproduce", "--out", "taken"], 2, "taken is a file");
    refused(&["reproduce", "--out", "taken/deeper"], 2, "taken is a file");
    assert_eq!(std::fs::read_to_string(place.path().join("taken")).unwrap(), "mine");
    refused(&["reproduce", "--on", "testbed"], 2, "has no part with real packets");
    let file = place.path().join("experiments/mine/fig1.toml");
    let wrong =
        EXPERIMENT.replace("fct_max_us[ndp, workers=5]\"\npaper", "fct_mox_us[ndp]\"\npaper");
    std::fs::write(&file, wrong).unwrap();
    refused(&["reproduce"], 2, "did you mean `fct_max_us`?");
    std::fs::write(&file, EXPERIMENT.replace("10Gbps", "10Gpbs")).unwrap();
    refused(&["reproduce"], 2, "rate = \"10Gpbs\"");
    std::fs::write(&file, EXPERIMENT.replace("rows = [\"1\"]", "rows = [\"2\"]")).unwrap();
    refused(&["reproduce"], 2, "has no row `2` of mine");
}

/// A file of the catalogue is a scenario too.
#[test]
fn other_commands_take_files_of_the_catalogue() {
    let place = place();
    fine(&place, &["check", "experiments/mine/fig1.toml"]);
    fine(&place, &["compare", "experiments/mine/fig1.toml", "--quiet", "--out", "compared"]);
    let run = "compared/traffic.workers=5/ndp/seed-1";
    fine(&place, &["replay", run, "--quiet", "--out", "again"]);
}
