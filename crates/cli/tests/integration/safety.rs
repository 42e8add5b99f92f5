//! Results are never lost or mistaken for others: other settings, other builds, damage, two
//! writers at once, plans too large to run.

use crate::common::{Place, text};
use punctual_results::{LOCK_FILE, Run, WriteOptions};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

const SCENARIO: &str = r#"
name = "small"
transports = ["tcp", "ndp"]
[network]
topology = "star"
hosts = 6
rate = "10Gbps"
delay = "1us"
[[traffic]]
name = "queries"
pattern = "incast"
workers = 10
sizes = { uniform = ["2KB", "50KB"] }
[[traffic]]
pattern = "pairs"
pairs = [[1, 2]]
sizes = "10KB"
[run]
duration = "5ms"
repetitions = 2
"#;

fn said(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// Runs a command that must succeed and returns what it says on standard error.
fn fine(place: &Place, args: &[&str]) -> String {
    let output = place.punctual(args);
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    text(&output.stderr).to_string()
}

/// Runs a command that must end with a code and say something.
fn refused(place: &Place, args: &[&str], code: i32, says: &[&str]) {
    let output = place.punctual(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
    for words in says {
        assert!(text(&output.stderr).contains(words), "{words}: {}", text(&output.stderr));
    }
}

fn modified(path: &Path) -> std::time::SystemTime {
    std::fs::metadata(path).unwrap().modified().unwrap()
}

#[test]
fn results_of_other_settings_are_not_replaced() {
    let place = Place::new(SCENARIO);
    let compare = ["compare", "s.toml"];
    fine(&place, &compare);
    let kept = place.path().join("results/small/tcp/seed-1/manifest.json");
    let before = modified(&kept);
    let other = [&compare[..], &["--set", "traffic.workers=40"]].concat();
    let says = ["`traffic.0.workers` is 10 there and 40 here", "--out DIR", "--fresh"];
    refused(&place, &other, 2, &says);
    assert_eq!(modified(&kept), before);
    assert!(place.path().join("results/small/report.html").exists(), "the report is kept too");
    // The same after an edit of the file, and by transports that the directory does not have yet.
    let edited = SCENARIO.replace("hosts = 6", "hosts = 7");
    std::fs::write(place.path().join("s.toml"), &edited).unwrap();
    refused(&place, &compare, 2, &["`network.hosts` is 6 there and 7 here"]);
    let edited = edited.replace("[\"tcp\", \"ndp\"]", "[\"dctcp\"]");
    std::fs::write(place.path().join("s.toml"), edited).unwrap();
    refused(&place, &compare, 2, &["results/small holds results of other settings"]);
    // Both remedies of the message work.
    std::fs::write(place.path().join("s.toml"), SCENARIO).unwrap();
    fine(&place, &[&other[..], &["--out", "forty"]].concat());
    assert_eq!(modified(&kept), before);
    fine(&place, &[&other[..], &["--fresh"]].concat());
    assert!(std::fs::read_to_string(&kept).unwrap().contains("traffic.workers=40"));
}

#[test]
fn more_of_the_same_extends_a_directory() {
    let place = Place::new(SCENARIO);
    fine(&place, &["run", "s.toml", "--set", "transports=[\"tcp\"]"]);
    let told = fine(&place, &["run", "s.toml"]);
    assert!(told.contains("reused 2 of 4 runs (--fresh runs them again); 2 new\n"), "{told}");
    let told = fine(&place, &["run", "s.toml", "--set", "run.repetitions=3"]);
    assert!(told.contains("reused 4 of 6 runs"), "{told}");
    // Neither comments nor the way a value is written are settings.
    let edited = SCENARIO.replace("[run]", "# fast\n[run]").replace("\"10Gbps\"", "\"10000Mbps\"");
    std::fs::write(place.path().join("s.toml"), edited).unwrap();
    let told = fine(&place, &["run", "s.toml"]);
    assert!(told.contains("reused 4 of 4 runs"), "{told}");
}

#[test]
fn a_file_that_the_scenario_names_is_a_setting() {
    let text = SCENARIO.replace("{ uniform = [\"2KB\", \"50KB\"] }", "{ file = \"sizes.txt\" }");
    let place = Place::new(&text);
    std::fs::write(place.path().join("sizes.txt"), "1000 0\n20000 0.5\n90000 1\n").unwrap();
    fine(&place, &["run", "s.toml"]);
    std::fs::write(place.path().join("sizes.txt"), "1000 0\n30000 0.5\n90000 1\n").unwrap();
    refused(&place, &["run", "s.toml"], 2, &["a file that the scenario names has changed"]);
}

#[test]
fn runs_of_another_build_are_made_again() {
    let place = Place::new(SCENARIO);
    let args = ["run", "s.toml", "--out", "out"];
    fine(&place, &args);
    let dir = place.path().join("out/ndp/seed-2");
    let mut files = punctual_results::read(&dir).unwrap();
    assert_eq!((files.manifest.build.len(), files.manifest.setup.len()), (16, 64));
    assert_eq!((&*files.manifest.name, files.manifest.traffic.len()), ("small", 2));
    files.manifest.build = "0123456789abcdef".into();
    let run = Run {
        ports: &files.ports,
        network: files.network.as_ref(),
        ..Run::new(&files.flows, &files.queues, &files.summary, &files.manifest)
    };
    let overwrite = WriteOptions { overwrite: true, csv: false };
    punctual_results::write(&dir, &run, overwrite).unwrap();
    let told = fine(&place, &args);
    let line = "reused 3 of 4 runs (--fresh runs them again); \
                1 runs again: made by another build (0123456)";
    assert!(told.contains(line), "{told}");
    assert_ne!(punctual_results::read_manifest(&dir).unwrap().build, "0123456789abcdef");
    // With other settings as well it is still refused.
    punctual_results::write(&dir, &run, overwrite).unwrap();
    let other = [&args[..], &["--set", "network.delay=2us"]].concat();
    refused(&place, &other, 2, &["`network.delay` is \"1us\" there and \"2us\" here"]);
}

#[test]
fn damage_is_named_once_and_run_again() {
    let place = Place::new(SCENARIO);
    let args = ["run", "s.toml", "--out", "out"];
    fine(&place, &args);
    let flows = place.path().join("out/ndp/seed-1/flows.parquet");
    let bytes = std::fs::read(&flows).unwrap();
    // A single bit: length and footer stay as they were.
    let mut damaged = bytes.clone();
    damaged[40] ^= 1;
    std::fs::write(&flows, damaged).unwrap();
    refused(&place, &["report", "out"], 6, &["Incomplete: 1 runs cannot be read"]);
    let told = fine(&place, &args);
    assert!(told.contains("1 runs again: out/ndp/seed-1/flows.parquet is damaged"), "{told}");
    assert_eq!(told.matches("flows.parquet").count(), 1, "{told}");
    assert_eq!(std::fs::read(&flows).unwrap(), bytes);
    let manifest = place.path().join("out/tcp/seed-2/manifest.json");
    let whole = std::fs::read_to_string(&manifest).unwrap();
    for damaged in [&whole[..whole.len() / 2], &whole.replace("workers = 10", "workers = 11")] {
        std::fs::write(&manifest, damaged).unwrap();
        let told = fine(&place, &args);
        assert!(told.contains("reused 3 of 4 runs"), "{told}");
        assert!(told.contains("out/tcp/seed-2/manifest.json is damaged"), "{told}");
    }
    fine(&place, &["report", "out"]);
}

#[test]
fn a_report_of_an_incomplete_directory_says_so_and_fails() {
    let place = Place::new(SCENARIO);
    fine(&place, &["compare", "s.toml", "--out", "out"]);
    std::fs::remove_dir_all(place.path().join("out/tcp/seed-2")).unwrap();
    refused(&place, &["report", "out"], 6, &["Incomplete: 1 of 4 runs are not there"]);
    let page = std::fs::read_to_string(place.path().join("out/report.html")).unwrap();
    assert!(page.contains("Incomplete: 1 of 4 runs are not there"), "it is written all the same");
}

/// A scenario that does not end by itself in the time that a test has.
const LONG: &str = r#"
name = "long"
transports = ["ndp"]
[network]
topology = "fat-tree"
k = 8
rate = "10Gbps"
delay = "1us"
[[traffic]]
pattern = "permutation"
sizes = "endless"
[run]
duration = "20s"
stop = "duration"
"#;

#[test]
fn a_second_writer_is_refused() {
    let place = Place::new(LONG);
    let args = ["run", "s.toml", "--threads", "1", "--out", "out", "-q"];
    let first = place.command(&args).stderr(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut first = first.expect("the program starts");
    let begun = Instant::now();
    // The plan is written under the lock.
    while !place.path().join("out/plan.json").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the first command does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    let short = [&args[..], &["--set", "run.duration=1us"]].concat();
    let elsewhere = ["--out", "elsewhere"];
    refused(&place, &short, 1, &["another punctual is writing to out", "--out DIR"]);
    fine(&place, &["run", "s.toml", "-q", "--set", "run.duration=1us", elsewhere[0], elsewhere[1]]);
    // A lock does not outlive its process, however that ends.
    first.kill().expect("it is still running");
    first.wait().expect("it ends");
    assert!(place.path().join("out").join(LOCK_FILE).exists());
    fine(&place, &[&short[..], &["--fresh"]].concat());
}

#[test]
fn huge_plans_are_refused_at_once() {
    let place = Place::new(SCENARIO);
    let begun = Instant::now();
    let many = ["check", "s.toml", "--set", "run.repetitions=1000000000"];
    refused(&place, &many, 2, &["2000000000 runs; the limit is 1000000", "run.repetitions"]);
    let list = format!("{:?}", (1..=1000).collect::<Vec<_>>());
    let sweep = ["traffic.queries.workers", "network.hosts", "run.seed"];
    let set = sweep.map(|key| format!("sweep.{key}={list}"));
    let mut args = vec!["check", "s.toml"];
    set.iter().for_each(|set| args.extend(["--set", set.as_str()]));
    refused(&place, &args, 2, &["1000 × 1000 × 1000 points; the limit is 10000"]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn overrides_are_in_every_heading() {
    let place = Place::new(SCENARIO);
    let output = place.punctual(&["compare", "s.toml", "--set", "traffic.queries.workers=7", "-q"]);
    let heading = "small (--set traffic.queries.workers=7), means over 2 repetitions";
    assert!(text(&output.stdout).contains(heading), "{}", said(&output));
    let page = std::fs::read_to_string(place.path().join("results/small/report.html")).unwrap();
    assert!(page.contains("<title>small (--set traffic.queries.workers=7)"), "no such title");
}

#[test]
fn flows_have_the_names_of_their_traffic() {
    let place = Place::new(SCENARIO);
    fine(&place, &["run", "s.toml", "--csv", "--out", "out"]);
    let csv = std::fs::read_to_string(place.path().join("out/tcp/seed-1/flows.csv")).unwrap();
    assert!(csv.lines().next().unwrap().ends_with(",traffic,scenario,seed,point"), "{csv}");
    assert_eq!(csv.lines().filter(|line| line.ends_with(",queries,small,1,")).count(), 10);
    assert_eq!(csv.lines().filter(|line| line.ends_with(",pairs,small,1,")).count(), 1);
}

/// Messages name a path that cannot hold results, or a missing file, once.
#[test]
fn paths_that_cannot_be_are_named_once() {
    let place = Place::new(SCENARIO);
    std::fs::write(place.path().join("file"), "mine").expect("written");
    let said = |args: &[&str]| {
        let output = place.punctual(args);
        assert!(!output.status.success());
        text(&output.stderr)
    };
    assert_eq!(said(&["run", "s.toml", "--out", "file"]), "error: --out file: file is a file\n");
    let below = said(&["run", "s.toml", "--out", "file/below"]);
    assert_eq!(below, "error: --out file/below: file is a file\n");
    assert_eq!(std::fs::read_to_string(place.path().join("file")).expect("there"), "mine");
    let missing = "error: cannot read no.toml: No such file or directory (os error 2)\n";
    for command in ["run", "compare", "check"] {
        assert_eq!(said(&[command, "no.toml"]), missing);
    }
}

#[test]
fn names_may_be_in_any_script() {
    let place = Place::new(SCENARIO);
    std::fs::copy(place.path().join("s.toml"), place.path().join("bär 雪.toml")).expect("copied");
    let output = place.punctual(&["run", "bär 雪.toml", "-q", "--out", "résultats/雪"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = place.punctual(&["report", "résultats/雪"]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    assert!(text(&report.stdout).contains("résultats/雪/report.html"));
}
