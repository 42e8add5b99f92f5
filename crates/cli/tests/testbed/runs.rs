//! `run --on testbed`: a small incast on real packets, and what is left of a run that is killed.

use crate::bed::{PROGRAM, is_possible, processes_with, too_late, wait_until};
use punctual_testkit::OtherWork;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const SENDERS: u32 = 3;
const FLOW_BYTES: u32 = 300_000;
const REPETITIONS: usize = 3;

/// A directory with a scenario.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// A directory with this scenario.
    fn with_scenario(text: &str) -> Place {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("t.toml"), text).expect("it can be written");
        Place { dir }
    }

    /// An incast at 100 Mb/s over these transports, with further lines for `[run]`.
    fn incast(transports: &str, size: &str, run: &str) -> Place {
        let text = format!(
            "name = \"t\"\ntransports = {transports}\n[network]\ntopology = \"star\"\nhosts = {}\n\
             rate = \"100Mbps\"\ndelay = \"5us\"\nmtu = \"1500B\"\nframing = \"38B\"\n\
             [transport.ndp]\nrto = \"10ms\"\n[[traffic]]\npattern = \"incast\"\nreceiver = 0\n\
             senders = {SENDERS}\nsizes = \"{size}\"\n[run]\n{run}\n",
            SENDERS + 1
        );
        Place::with_scenario(&text)
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(["run", "--on", "testbed", "--quiet"]).args(more).arg("t.toml");
        command.current_dir(self.dir.path());
        command
    }

    fn results(&self) -> PathBuf {
        self.dir.path().join("results/t-testbed")
    }
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn json(file: &Path) -> Value {
    let text = fs::read_to_string(file).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

/// The median, the lower one of two; none of no values.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

/// What a testbed of the command line leaves in the file system.
fn named_namespaces() -> Vec<String> {
    let entries = Path::new("/run/netns").read_dir().into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Processes that run in the session of a run that `parent` started.
fn children(parent: u32) -> Vec<u32> {
    processes_with("PUNCTUAL_TESTBED_PARENT", &parent.to_string())
}

/// A run that lasts, once its child runs its flows.
fn lasting_run(place: &Place) -> Child {
    let mut command = place.command(&[]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    // The child has a thread for the switch and one for the hosts.
    let threads = |pid: &u32| {
        fs::read_dir(format!("/proc/{pid}/task")).map_or(0, |tasks| tasks.flatten().count())
    };
    wait_until("the run begins", || children(child.id()).iter().any(|pid| threads(pid) >= 4));
    child
}

/// NDP's last flow ends within 10 % of the optimum, in the median of the valid runs, and no flow ends
/// before it could; the kernel's TCP runs beside it. A run with invalid timing says so, and asserts
/// nothing about time; without a valid run of NDP the bound counts as skipped.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn run__incast_with_real_packets() {
    if !is_possible() {
        return;
    }
    let before = named_namespaces();
    let size = format!("{FLOW_BYTES}B");
    let run = format!("duration = \"5s\"\nrepetitions = {REPETITIONS}");
    let place = Place::incast("[\"ndp\", \"tcp\"]", &size, &run);
    let work = OtherWork::watch();
    let output = place.command(&["--json"]).output().expect("the program starts");
    let printed = text(&output);
    let is_valid = output.status.success();
    assert!(is_valid || output.status.code() == Some(9), "{printed}");
    let runs: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let labels: Vec<&str> = runs.iter().filter_map(|run| run["transport"].as_str()).collect();
    let expected = ["ndp", "kernel-reno", "kernel-cubic"].map(|label| [label; REPETITIONS]);
    assert_eq!(labels, expected.as_flattened(), "{printed}");
    // Data and headers of all flows at the rate of the receiver's link: 1,436 of 1,538 bytes are
    // data with NDP, and no TCP segment has less overhead than 78 bytes.
    let packets = f64::from(SENDERS * FLOW_BYTES) / 1436.0;
    let optimum_us = packets * 1538.0 * 8.0 / 100.0;
    let bound_us = f64::from(SENDERS * FLOW_BYTES) * (1538.0 / 1460.0) * 8.0 / 100.0;
    let (mut is_trusted, mut last_of_ndp) = (true, Vec::new());
    for run in &runs {
        let label = run["transport"].as_str().expect("a name");
        assert_eq!(run["kind"], "testbed");
        assert_eq!(run["flows_completed"], f64::from(SENDERS), "{label}: {printed}");
        let last_us = run["fct_max_us"].as_f64().expect("a time");
        println!("{label}: last flow after {last_us:.0} us, the optimum is {optimum_us:.0} us");
        let dir = Path::new(run["directory"].as_str().expect("a directory"));
        let manifest = json(&place.dir.path().join(dir).join("manifest.json"));
        let testbed = &manifest["testbed"];
        assert_eq!(testbed["time_scale"], 1);
        let problems = run["timing_problems"].as_array().map_or(0, Vec::len);
        assert_eq!(testbed["valid"] == true, problems == 0, "{testbed}");
        is_trusted &= problems == 0;
        for file in ["flows.parquet", "ports.parquet", "summary.json"] {
            assert!(place.dir.path().join(dir).join(file).exists(), "{file}");
        }
        if problems == 0 {
            assert!(last_us > bound_us, "{label}: faster than its link: {testbed}");
            last_of_ndp.extend((label == "ndp").then_some(last_us));
        }
    }
    assert_eq!(is_trusted, is_valid, "{printed}");
    assert!(place.results().join("report.html").exists());
    assert_eq!(named_namespaces(), before);
    match median(&mut last_of_ndp) {
        Some(last_us) => {
            let failure = format!("{last_us:.0} of {optimum_us:.0} us");
            work.check(last_us < 1.10 * optimum_us, failure);
        }
        None => {
            let why = String::from_utf8_lossy(&output.stderr);
            too_late(&work, &format!("invalid timing: {why}"));
        }
    }
    if !is_trusted {
        return;
    }
    // Valid runs are reused, and not mixed with simulated ones.
    let again = place.command(&["--json"]).output().expect("the program starts");
    assert!(again.status.success(), "{}", text(&again));
    assert_eq!(again.stdout, output.stdout);
    let mut mixed = Command::new(PROGRAM);
    mixed.args(["run", "t.toml", "--out", "results/t-testbed"]).current_dir(place.dir.path());
    let mixed = mixed.output().expect("the program starts");
    assert_eq!(mixed.status.code(), Some(2), "{}", text(&mixed));
}

/// An incast through the host stack on UDP sockets: all bytes arrive, no flow is faster than its link,
/// and in the median of the valid runs the last one ends within 10 % of the optimum.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn run__through_the_host_stack() {
    if !is_possible() {
        return;
    }
    let size = format!("{FLOW_BYTES}B");
    let run = format!("duration = \"5s\"\nrepetitions = {REPETITIONS}\nsockets = \"udp\"");
    let place = Place::incast("[\"ndp\", \"tcp\"]", &size, &run);
    let changes = ["--json", "--set", "run.kernel_tcp=[\"cubic\"]"];
    let work = OtherWork::watch();
    let output = place.command(&changes).output().expect("the program starts");
    // A wrong byte would have exit code 3.
    assert!(matches!(output.status.code(), Some(0 | 9)), "{}", text(&output));
    let packets = f64::from(SENDERS * FLOW_BYTES) / 1436.0;
    let optimum_us = packets * 1538.0 * 8.0 / 100.0;
    let mut last_of_ndp = Vec::new();
    let mut labels = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let run: Value = serde_json::from_str(line).expect("JSON");
        let label = run["transport"].as_str().expect("a name").to_owned();
        assert_eq!(run["flows_completed"], f64::from(SENDERS), "{run}");
        let last_us = run["fct_max_us"].as_f64().expect("a time");
        let problems = &run["timing_problems"];
        println!("{label}: last flow after {last_us:.0} us of {optimum_us:.0}, {problems}");
        let is_valid = problems.as_array().is_none_or(Vec::is_empty);
        if label == "ndp" && is_valid {
            assert!(last_us >= optimum_us, "faster than its link");
            last_of_ndp.push(last_us);
        }
        labels.push(label);
    }
    let expected = ["ndp", "kernel-cubic"].map(|label| [label; REPETITIONS]);
    assert_eq!(labels, expected.as_flattened());
    match median(&mut last_of_ndp) {
        Some(last_us) => {
            let failure = format!("{last_us:.0} of {optimum_us:.0} us");
            work.check(last_us < 1.10 * optimum_us, failure);
        }
        None => too_late(&work, "the host stack: no valid run"),
    }
}

/// Networks of several switches: flows of every transport cross two of them, and all bytes arrive. NDP
/// sprays its packets: spines, or core switches, carry equal shares.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn run__across_several_switches() {
    if !is_possible() {
        return;
    }
    let networks = [
        // Keys, pairs of hosts in different parts, switches that share the packets, and how many of
        // their ports carry data.
        (
            "topology = \"leaf-spine\"\nracks = 2\nhosts_per_rack = 2\nspines = 2",
            "[[0, 2], [1, 3]]",
            ("spine", 2),
        ),
        ("topology = \"fat-tree\"\nk = 4", "[[0, 15], [5, 10]]", ("core", 8)),
        ("topology = \"tree\"", "[[0, 11], [3, 6]]", ("", 0)),
    ];
    for (network, pairs, (sharing, data_ports)) in networks {
        let place = Place::with_scenario(&format!(
            "name = \"t\"\ntransports = [\"ndp\", \"d3\", \"pdq\", \"tcp\"]\n[network]\n{network}\n\
             rate = \"100Mbps\"\ndelay = \"5us\"\nmtu = \"1500B\"\nframing = \"38B\"\n\
             [transport.ndp]\nrto = \"10ms\"\n[[traffic]]\npattern = \"pairs\"\npairs = {pairs}\n\
             sizes = \"300KB\"\n[run]\nduration = \"5s\"\nkernel_tcp = [\"cubic\"]\n"
        ));
        let output = place.command(&["--json"]).output().expect("the program starts");
        // A wrong byte would have exit code 3; 9: the timing of some runs was invalid.
        assert!(matches!(output.status.code(), Some(0 | 9)), "{}", text(&output));
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let runs: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(runs.len(), 4, "{lines}");
        for run in &runs {
            let label = run["transport"].as_str().expect("a name");
            assert_eq!(run["flows_completed"], 2.0, "{network}: {run}");
            println!(
                "{}, {label}: last flow after {} us, {}",
                network.lines().next().unwrap_or_default(),
                run["fct_max_us"],
                run["timing_problems"]
            );
            // 300 KB at 100 Mb/s; no TCP segment has less overhead than 78 bytes.
            let least_us = 300_000.0 * (1538.0 / 1460.0) * 8.0 / 100.0;
            assert!(run["fct_p50_us"].as_f64().expect("a time") > least_us, "{run}");
            if label != "ndp" || data_ports == 0 {
                continue;
            }
            let dir = place.dir.path().join(run["directory"].as_str().expect("a directory"));
            let ports = punctual_results::read(&dir).expect("a run").ports;
            // Ports in the other direction carry acknowledgements and pulls alone.
            let has_data = |port: &&punctual_results::PortRow| {
                port.from.starts_with(sharing) && port.sent_bytes > 1_000 * port.sent_packets
            };
            let sent: Vec<u64> = ports.iter().filter(has_data).map(|p| p.sent_packets).collect();
            // Each path is used once before any is used again; retransmissions come on top.
            let (least, most) = (sent.iter().min(), sent.iter().max());
            let (least, most) = (*least.expect("packets"), *most.expect("packets"));
            assert_eq!(sent.len(), data_ports, "{network}: {sent:?}");
            assert!(10 * least >= 8 * most, "{network}: {sent:?}");
        }
    }
}

/// After `kill -9` of the command its child dies, and the kernel removes the namespaces, which have
/// no names. Ctrl-C ends a run as it ends a simulation.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn run__leaves_nothing_when_it_is_killed() {
    if !is_possible() {
        return;
    }
    let before = named_namespaces();
    let run = "duration = \"60s\"\nstop = \"duration\"";
    let place = Place::incast("[\"ndp\"]", "30KB", run);
    let mut killed = lasting_run(&place);
    let id = killed.id();
    killed.kill().expect("it runs"); // SIGKILL
    killed.wait().expect("it was killed");
    wait_until("the child dies", || children(id).is_empty());
    // A dying process gives up its locks after its memory.
    let lock = fs::File::open(place.results().join(".lock")).expect("a lock");
    wait_until("the results are free", || lock.try_lock().is_ok());
    drop(lock);
    let mut interrupted = lasting_run(&place);
    let mut signal = Command::new("sh");
    signal.arg("-c").arg(format!("kill -INT {}", interrupted.id()));
    assert!(signal.status().expect("sh starts").success());
    let begin = Instant::now();
    let status = interrupted.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert!(begin.elapsed() < Duration::from_secs(10));
    wait_until("the child ends", || children(interrupted.id()).is_empty());
    assert_eq!(named_namespaces(), before);
}

/// What a testbed cannot do is an error that points at the scenario.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn run__says_what_a_testbed_cannot_do() {
    let cases = [
        ("[\"dctcp\"]", "duration = \"1s\"", "`dctcp` has no wire format"),
        ("[\"ndp\"]", "duration = \"1s\"\nlevel = \"flow\"", "not whole flows"),
        ("[\"ndp\"]", "duration = \"1s\"\ntime_scale = 0", "stand still"),
        ("[\"ndp\"]", "duration = \"1s\"\nsockets = \"udp\"\ntime_scale = 10", "scale of 10"),
    ];
    for (transports, run, message) in cases {
        let output = Place::incast(transports, "30KB", run).command(&[]).output();
        let output = output.expect("the program starts");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(message), "{}", text(&output));
    }
}
