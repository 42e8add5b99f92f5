//! Whole commands: the same bytes whatever the threads, interruptions, damage and full disks.

use crate::common::{Place, text};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SCENARIO: &str = r#"
name = "small"
transports = ["tcp", "dctcp", "rcpdc", "ndp", "ideal-edf", "optimal"]
[network]
topology = "leaf-spine"
racks = 2
hosts_per_rack = 4
spines = 2
rate = "10Gbps"
delay = "1us"
[[traffic]]
name = "queries"
pattern = "incast"
workers = 10
sizes = { uniform = ["2KB", "50KB"] }
deadlines = "1ms"
[[traffic]]
pattern = "random"
arrivals = { poisson-load = 0.3 }
sizes = "web-search"
background = true
[sweep]
traffic.workers = [5, 10]
[run]
duration = "5ms"
repetitions = 2
sample = "100us"
check = true
"#;

/// A scenario that takes long enough to be interrupted.
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
[sweep]
run.duration = ["1ms", "20s", "2ms"]
[run]
duration = "1ms"
stop = "duration"
"#;

/// Every file below a directory, by its path.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten() {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let name = path.strip_prefix(dir).expect("it is below").to_owned();
                found.insert(name, std::fs::read(&path).expect("it can be read"));
            }
        }
    }
    found
}

#[test]
fn results_are_the_same_bytes_with_one_and_two_threads() {
    let place = Place::new(SCENARIO);
    let run = |threads, out| {
        let args = ["compare", "s.toml", "--threads", threads, "--out", out, "-q", "--json"];
        let output = place.punctual(&args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        text(&output.stdout).replace(&format!("\"{out}/"), "\"")
    };
    assert_eq!(run("1", "one"), run("2", "two"));
    let (mut one, mut two) = (files(&place.path().join("one")), files(&place.path().join("two")));
    // Only host.json has facts about the machine.
    let is_of_host = |path: &PathBuf| path.ends_with("host.json");
    one.retain(|path, _| !is_of_host(path));
    two.retain(|path, _| !is_of_host(path));
    assert!(one.len() > 2 * 6 * 2 * 3, "{:?}", one.keys());
    assert_eq!(one.keys().collect::<Vec<_>>(), two.keys().collect::<Vec<_>>());
    for (path, bytes) in &one {
        assert!(two[path] == *bytes, "{} differs", path.display());
    }
}

/// "0/0 flows" would read like a failure.
#[test]
fn endless_flows_are_counted_as_such() {
    let overrides = [
        "--set",
        "network.k=4",
        "--set",
        "sweep.run.duration=[\"1ms\"]",
        "--set",
        "traffic.limit=8",
    ];
    let args = [&["run", "s.toml", "-q"][..], &overrides].concat();
    let output = Place::new(LONG).punctual(&args);
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(stdout.contains("seed 1: 8 endless or background flows, "), "{stdout}");
}

#[test]
fn check_says_where_paths_are_sampled() {
    let scenario = r#"
        transports = ["ndp"]
        [network]
        topology = "file"
        path = "many.topology"
        [[traffic]]
        pattern = "pairs"
        pairs = [[0, 1]]
        sizes = "1MB"
        [run]
        duration = "1ms"
    "#;
    let place = Place::new(scenario);
    let link = |a: &str, b: &str| {
        format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\n")
    };
    let paths_of = |parallel: usize| {
        let node = |kind: &str, name: &str| format!("[[{kind}]]\nname = \"{name}\"\n");
        let nodes = [("host", "a"), ("host", "b"), ("switch", "x"), ("switch", "y")];
        let nodes: String = nodes.iter().map(|(kind, name)| node(kind, name)).collect();
        let links = link("a", "x") + &link("y", "b") + &link("x", "y").repeat(parallel);
        std::fs::write(place.path().join("many.topology"), nodes + &links).expect("written");
        ["check", "run", "compare"].map(|command| {
            let mut args = vec![command, "s.toml"];
            args.extend((command != "check").then_some("--fresh"));
            let output = place.punctual(&args);
            assert!(output.status.success(), "{}", text(&output.stderr));
            let all = text(&output.stdout) + &text(&output.stderr);
            all.lines().find(|line| line.contains("shortest paths")).map(str::to_owned)
        })
    };
    assert_eq!(paths_of(64), [None, None, None]);
    let warning = "2 pairs of hosts have more than 64 shortest paths (up to 70): each uses 64 of \
                   them, drawn at random";
    let said = [format!("  warning     {warning}"), format!("warning: {warning}")];
    let expected = [&said[0], &said[1], &said[1]].map(|line| Some(line.clone()));
    assert_eq!(paths_of(70), expected);
}

/// Hosts by name and by number, in every key that takes hosts, are the same hosts.
#[test]
fn hosts_have_names() {
    let scenario = |a: &str, b: &str| {
        format!(
            r#"
        transports = ["ndp"]
        [network]
        topology = "file"
        path = "named.topology"
        [[traffic]]
        pattern = "pairs"
        pairs = [[{a}, {b}]]
        sizes = "1MB"
        [[traffic]]
        pattern = "incast"
        receiver = {b}
        exclude = [{a}]
        sizes = "10KB"
        [[traffic]]
        pattern = "all-to-all"
        from = [{a}]
        to = {b}
        sizes = "10KB"
        [[traffic]]
        pattern = "list"
        flows = [{{ src = {a}, dst = {b}, size = "2KB" }}]
        [[traffic]]
        pattern = "list"
        file = "flows.csv"
        [run]
        duration = "10ms"
    "#
        )
    };
    let run = |a: &str, b: &str, file: &str| {
        let place = Place::new(&scenario(a, b));
        let node = |kind: &str, name: &str| format!("[[{kind}]]\nname = \"{name}\"\n");
        let link = |name: &str| {
            format!("[[link]]\nbetween = [\"{name}\", \"x\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\n")
        };
        let hosts = ["web 1", "web-2", "db"];
        let nodes: String = hosts.iter().map(|host| node("host", host) + &link(host)).collect();
        let topology = nodes + &node("switch", "x");
        std::fs::write(place.path().join("named.topology"), topology).expect("written");
        std::fs::write(place.path().join("flows.csv"), file).expect("written");
        let output = place.punctual(&["run", "s.toml", "-q", "--csv"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let flows = place.path().join("results/s/ndp/seed-1/flows.csv");
        std::fs::read_to_string(flows).expect("flows.csv")
    };
    let header = "src,dst,size,start\n";
    let named = run("\"web-2\"", "\"db\"", &format!("{header}web 1,web-2,5KB,0s\n"));
    let numbered = run("1", "2", &format!("{header}0,1,5KB,0s\n"));
    assert_eq!(named, numbered);
    assert_eq!(named.lines().count(), 1 + 1 + 1 + 1 + 1 + 1, "{named}");
}

#[test]
fn json_has_one_object_a_transport_and_point() {
    let place = Place::new(SCENARIO);
    let output = place.punctual(&["compare", "s.toml", "--json", "-q"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    let lines: Vec<serde_json::Value> =
        stdout.lines().map(|l| serde_json::from_str(l).expect("an object a line")).collect();
    assert_eq!(lines.len(), 12);
    assert_eq!(lines[0]["transport"], "tcp");
    assert_eq!(lines[0]["point"]["traffic.workers"], "5");
    assert_eq!(lines[0]["seeds"], serde_json::json!([1, 2]));
    assert!(lines.iter().all(|l| l["deadlines_met"].is_number() && l["ci95"].is_object()));
    // Every transport was given the same flows.
    assert!(lines[..6].iter().all(|l| l["flows"] == lines[0]["flows"]));
    // Ideal runs say what they are; with two racks and random arrivals the best is a bound.
    let kinds: Vec<_> = lines[..6].iter().map(|l| l["kind"].as_str().unwrap_or("")).collect();
    assert_eq!(kinds, ["packets", "packets", "packets", "packets", "ideal", "bound"]);
    assert!(lines[5]["goodput_gbps"].is_null() && lines[4]["goodput_gbps"].is_number());
    assert!(place.path().join("results/small/traffic.workers=5/fct.svg").exists());
    // The report is there, and made again it is the same.
    let page = std::fs::read(place.path().join("results/small/report.html")).expect("a report");
    let again = place.punctual(&["report", "results/small", "--out", "pages/again.html"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(text(&again.stdout), "report: pages/again.html\n");
    assert!(std::fs::read(place.path().join("pages/again.html")).expect("written") == page);
    // The report of a single run does not prevent its repetition.
    let one = "results/small/traffic.workers=5/ndp/seed-1";
    assert!(place.punctual(&["report", one]).status.success());
    let fresh = ["run", "s.toml", "--fresh", "-q", "--set", "transports=[\"ndp\"]"];
    assert!(place.punctual(&fresh).status.success());
    assert!(!place.path().join(one).join("report.html").exists());
    // Sampled runs say what their transports were doing; ideal schedulers have nothing to say.
    let gauges = |transport: &str| {
        let dir = format!("results/small/traffic.workers=5/{transport}/seed-1");
        punctual_results::read(&place.path().join(dir)).expect("a whole run").gauges
    };
    assert!(gauges("dctcp").iter().any(|row| &*row.gauge == "alpha"));
    assert!(gauges("rcpdc").iter().any(|row| &*row.gauge == "capacity_bps"));
    assert!(gauges("ideal-edf").is_empty());
}

#[test]
fn a_capacity_is_the_same_with_one_and_two_threads_and_goes_on() {
    let place = Place::new(SCENARIO);
    let ask = |threads: &str, out: &str, more: &[&str]| {
        let args = ["capacity", "s.toml", "--vary", "traffic.workers", "--threads", threads];
        let rest = ["--out", out, "--json", "--until", "deadlines_met >= 90%"];
        let fewer = ["--set", "transports=[\"tcp\", \"ndp\"]"];
        place.punctual(&[&args[..], &rest, &fewer, more].concat())
    };
    let one = ask("1", "one", &["-q"]);
    assert_eq!(one.status.code(), Some(0), "{}", text(&one.stderr));
    assert!(one.stderr.is_empty(), "{}", text(&one.stderr));
    assert_eq!(text(&one.stdout), text(&ask("2", "two", &["-q"]).stdout));
    let lines: Vec<serde_json::Value> =
        text(&one.stdout).lines().map(|l| serde_json::from_str(l).expect("an object")).collect();
    assert_eq!((&lines[0]["transport"], &lines[1]["transport"]), (&"tcp".into(), &"ndp".into()));
    assert!(lines.iter().all(|l| l["outcome"] == "found" && l["until"] == "deadlines_met >= 90%"));
    assert!(lines.iter().all(|l| l["probes"].as_array().is_some_and(|p| p.len() > 2)));
    // A second time nothing is run, and the scenario's own sweep finds the runs too.
    let again = ask("2", "one", &[]);
    let runs: u64 = lines.iter().filter_map(|l| l["runs"].as_u64()).sum();
    let expected = format!("reused {runs} of {runs} runs");
    assert!(text(&again.stderr).contains(&expected), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("tcp, traffic.workers = 10: deadlines_met "));
    assert_eq!(again.stdout, one.stdout);
    assert!(place.path().join("one/traffic.workers=10/tcp/seed-1/summary.json").exists());
    let found = std::fs::read_to_string(place.path().join("one/capacity.json")).expect("answers");
    let found: serde_json::Value = serde_json::from_str(&found).expect("an object");
    assert_eq!(found["answers"][1]["capacity"], lines[1]["capacity"]);
    assert_eq!(found["answers"][1]["probes"], lines[1]["probes"]);
    assert_eq!((&found["until"], &found["threshold"]), (&lines[0]["until"], &0.9.into()));
    let page = std::fs::read_to_string(place.path().join("one/report.html")).expect("a report");
    assert!(page.contains("Capacity: largest traffic.workers"));
    // A capacity outside the bounds has its own exit code.
    let never = ask("2", "one", &["-q", "--from", "1000", "--to", "1000"]);
    assert_eq!(never.status.code(), Some(4));
    assert!(text(&never.stderr).contains("never holds for tcp; ndp"), "{}", text(&never.stderr));
    let always = ask("2", "one", &["-q", "--to", "2"]);
    assert_eq!(always.status.code(), Some(4));
    // Of two flows a run, all on time, it is not sure that 90 % are.
    let says = "holds in the mean, not surely, for tcp; ndp";
    assert!(text(&always.stderr).contains(says), "{}", text(&always.stderr));
    assert!(text(&always.stdout).contains("\"outcome\":\"always\""));
}

#[test]
fn ctrl_c_keeps_whole_runs_and_the_next_time_goes_on() {
    let place = Place::new(LONG);
    let args = ["run", "s.toml", "--threads", "1", "--out", "out"];
    let child = place.command(&args).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let child = child.expect("the program starts");
    let first = place.path().join("out/run.duration=1ms/ndp/seed-1");
    let begun = Instant::now();
    while !first.join("manifest.json").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the first run does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(200));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it is still running");
    let asked = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(asked.elapsed() < Duration::from_secs(10), "it took {:?}", asked.elapsed());
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("interrupted after 1 of 3 runs"), "{stderr}");
    assert!(stderr.contains("the same command continues"), "{stderr}");
    assert!(punctual_results::is_complete(&first));
    assert!(!place.path().join("out/run.duration=20s").exists(), "a half run looks whole");

    // The report says that it is incomplete.
    let report = place.punctual(&["report", "out"]);
    assert_eq!(report.status.code(), Some(6), "{}", text(&report.stderr));
    let page = std::fs::read_to_string(place.path().join("out/report.html")).expect("a report");
    assert!(page.contains("Incomplete: 2 of 3 runs are not there"));

    // Continuing does not repeat the first run.
    let before = std::fs::metadata(first.join("manifest.json")).unwrap().modified().unwrap();
    let shorter = ["--set", "sweep.run.duration=[\"1ms\", \"2ms\"]"];
    let output = place.punctual(&[&args[..], &shorter].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("reused 1 of 2 runs"));
    let after = std::fs::metadata(first.join("manifest.json")).unwrap().modified().unwrap();
    assert_eq!(before, after);
}

#[test]
fn damaged_results_are_run_again() {
    let place = Place::new(SCENARIO);
    let args = ["run", "s.toml", "--set", "transports=[\"ndp\"]", "--out", "out", "--json"];
    let whole = place.punctual(&args);
    assert!(whole.status.success(), "{}", text(&whole.stderr));
    let flows = place.path().join("out/traffic.workers=5/ndp/seed-1/flows.parquet");
    let bytes = std::fs::read(&flows).unwrap();
    std::fs::write(&flows, &bytes[..bytes.len() / 2]).unwrap();
    let again = place.punctual(&args);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("reused 3 of 4 runs"), "{}", text(&again.stderr));
    assert_eq!(again.stdout, whole.stdout);
    assert_eq!(std::fs::read(&flows).unwrap(), bytes);
    // Runs of another set-up are neither reused nor replaced without --fresh.
    let other = [&args[..], &["--set", "network.delay=2us"]].concat();
    assert_eq!(place.punctual(&other).status.code(), Some(2));
    let other = place.punctual(&[&other[..], &["--fresh"]].concat());
    assert!(other.status.success(), "{}", text(&other.stderr));
    assert!(!text(&other.stderr).contains("reused"), "{}", text(&other.stderr));
}

#[test]
fn foreign_files_are_not_overwritten() {
    let place = Place::new(SCENARIO);
    let dir = place.path().join("out/traffic.workers=5/tcp/seed-1");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("thesis.txt"), "years of work").unwrap();
    let output = place.punctual(&["run", "s.toml", "--out", "out", "-q"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("thesis.txt"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(dir.join("thesis.txt")).unwrap(), "years of work");
    // Files of others with our names are not replaced either.
    for name in ["report.html", "plan.json", "capacity.json"] {
        let own = place.path().join("mine").join(name);
        std::fs::create_dir_all(own.parent().unwrap()).unwrap();
        std::fs::write(&own, "{\"years\": \"of work\"}").unwrap();
        let output = place.punctual(&["run", "s.toml", "--out", "mine", "-q"]);
        assert_eq!(output.status.code(), Some(1));
        let says = format!("mine holds `{name}`, which no run wrote");
        assert!(text(&output.stderr).contains(&says), "{}", text(&output.stderr));
        assert_eq!(std::fs::read_to_string(&own).unwrap(), "{\"years\": \"of work\"}");
        std::fs::remove_file(&own).unwrap();
    }
}

#[test]
fn a_full_disk_leaves_nothing_that_looks_whole() {
    let place = Place::new(SCENARIO);
    let disk = place.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=12k", "none"]).arg(&disk).output();
    if !mounted.is_ok_and(|m| m.status.success()) {
        eprintln!("SKIPPED: a small tmpfs cannot be mounted here (root is needed)");
        assert!(std::env::var_os("PUNCTUAL_NO_SKIPS").is_none(), "skips are failures here");
        return;
    }
    let output = place.punctual(&["compare", "s.toml", "--out", "disk/out", "-q"]);
    let partial = files(&disk);
    let unmounted = Command::new("umount").arg(&disk).status().expect("umount starts");
    assert!(unmounted.success());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("the disk is full"), "{}", text(&output.stderr));
    let manifests = partial.keys().filter(|path| path.ends_with("manifest.json"));
    for manifest in manifests {
        // Runs finished before the disk was full have all their files.
        let dir = manifest.parent().expect("in a directory");
        for name in ["flows.parquet", "queues.parquet", "summary.json"] {
            assert!(partial.contains_key(&dir.join(name)), "{} is not whole", dir.display());
        }
    }
}

/// Recording the network in time adds its file to the first repetitions, and changes no other.
#[test]
fn recording_the_network_changes_no_result() {
    let place = Place::new(SCENARIO);
    for (out, asked) in [("on", "run.seed=1"), ("off", "run.network_trace=false")] {
        let args = ["compare", "s.toml", "-q", "--out", out, "--set", "run.sample=50us"];
        let output = place.punctual(&[&args[..], &["--set", asked]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let (on, mut off) = (files(&place.path().join("on")), files(&place.path().join("off")));
    let mut traces = 0;
    for (path, bytes) in on {
        match path.file_name().and_then(|name| name.to_str()).expect("a name") {
            "network.parquet" => {
                assert!(bytes.len() < 1_000_000, "{} bytes", bytes.len());
                assert!(path.to_string_lossy().contains("seed-1"), "{}", path.display());
                traces += 1;
            }
            // They say what was asked for, show it, or say how long it took.
            "manifest.json" | "plan.json" | "report.html" | "host.json" => {}
            name if name.ends_with(".svg") || name.ends_with(".png") => {}
            _ => assert!(off.get(&path) == Some(&bytes), "{} differs", path.display()),
        }
        off.remove(&path);
    }
    assert_eq!(off.keys().collect::<Vec<_>>(), Vec::<&PathBuf>::new());
    // Of four transports at two points; ideal schedulers have no ports to record.
    assert_eq!(traces, 8);
}

#[test]
fn a_report_of_nothing_or_of_another_version_is_refused() {
    let place = Place::new(SCENARIO);
    let refused = |args: &[&str], code, says: &str| {
        let output = place.punctual(args);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
    };
    refused(&["report", "nowhere"], 1, "nowhere does not exist; check the path");
    std::fs::create_dir(place.path().join("empty")).unwrap();
    refused(&["report", "empty"], 1, "empty holds no results; give a directory that");
    let one = ["run", "s.toml", "-q", "--set", "transports=[\"ndp\"]", "--out", "out"];
    assert!(place.punctual(&one).status.success());
    refused(&["report", "out", "--out", "empty"], 2, "give a file, not a directory");
    refused(&["report", "out", "--out", "s.toml"], 2, "s.toml exists already and is not a report");
    assert!(place.punctual(&["report", "out"]).status.success(), "a report may be written anew");
    let manifest = place.path().join("out/traffic.workers=5/ndp/seed-1/manifest.json");
    let format = format!("\"format\": {}", punctual_results::FORMAT);
    let older = std::fs::read_to_string(&manifest).unwrap().replace(&format, "\"format\": 1");
    std::fs::write(&manifest, older).unwrap();
    refused(&["report", "out"], 1, "has format 1 and this version reads format");
}

#[test]
fn shipped_scenarios_are_valid() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let place = Place::new(SCENARIO);
    for entry in std::fs::read_dir(dir).expect("scenarios are there") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_some_and(|e| e == "toml") {
            let output = place.punctual(&["check", path.to_str().expect("plain")]);
            assert!(output.status.success(), "{}: {}", path.display(), text(&output.stderr));
        }
    }
}

/// The summary has the time at which the pause cycle closed and its ports; pauses.parquet has how
/// long each port was paused.
#[test]
fn a_deadlock_is_reported_and_pauses_are_written() {
    let place = Place::new("");
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/pause-deadlock.toml");
    let run = place.punctual(&["run", scenario, "-q", "--out", "out"]);
    let said = text(&run.stdout);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let ring = "switch 0 -> switch 1 -> switch 2 -> switch 3 -> switch 4 -> switch 0";
    let deadlock = format!("PFC deadlock: since 116.1648us, class 1: {ring}");
    assert!(said.contains(&deadlock), "{said}");
    let dir = place.path().join("out/dctcp-lossless/seed-1");
    let files = punctual_results::read(&dir).unwrap();
    let stuck = files.pauses.iter().filter(|p| p.tier == "middle" && p.pauses.lasts);
    assert_eq!(stuck.count(), 5, "{:?}", files.pauses);
    let pauses: u64 = files.pauses.iter().map(|p| p.pauses.pauses).sum();
    assert_eq!(pauses as f64, files.summary.number(punctual_results::Metric::Pauses));
    assert_eq!(files.summary.pause_cycles, [deadlock]);
}

#[test]
fn a_file_gets_across_sockets() {
    use std::io::{BufRead as _, BufReader};
    let place = Place::new(SCENARIO);
    let bytes: Vec<u8> =
        (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(place.path().join("file"), &bytes).unwrap();
    let args = ["receive", "--listen", "127.0.0.1:0", "--out", "copy", "--wait", "30s", "--json"];
    let mut receiver = place.command(&args).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut stderr = BufReader::new(receiver.stderr.take().expect("piped"));
    stderr.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").expect("it says where").to_owned();
    let sent = place.punctual(&["send", "file", &address, "--deadline", "5s", "--json"]);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    assert!(text(&sent.stdout).contains("\"deadline_met\":true"), "{}", text(&sent.stdout));
    assert!(receiver.wait().unwrap().success());
    assert!(std::fs::read(place.path().join("copy")).unwrap() == bytes);
    assert_eq!(place.punctual(&["receive", "--listen", "127.0.0.1:0"]).status.code(), Some(2));
    assert_eq!(place.punctual(&["send", "file", "nowhere"]).status.code(), Some(2));
}
