//! A testbed for one test, which is removed at its end, passed or failed.

use punctual_switch::{Testbed, missing_capability};
use punctual_testkit::OtherWork;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_punctual");

/// Prints what the machine lacks for a test. Fails if skips are not allowed: `PUNCTUAL_NO_SKIPS` is
/// set, and neither empty nor 0.
pub(crate) fn skip(why: &str) {
    println!("SKIPPED: {why}");
    let no_skips = std::env::var("PUNCTUAL_NO_SKIPS").is_ok_and(|v| !v.is_empty() && v != "0");
    assert!(!no_skips, "skips count as failures: {why}");
}

/// Prints why a check of times was left out that this machine can do: the switch or the hosts were too
/// late, by their own account. Adds what other processes used meanwhile. Never fails.
pub(crate) fn too_late(work: &OtherWork, why: &str) {
    println!("SKIPPED: {why} (other processes used {:.1} %)", 100.0 * work.share());
}

/// Waits until a condition holds. Fails after 20 seconds.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "not after 20 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The processes that have this entry in their environment. Children inherit it.
pub(crate) fn processes_with(name: &str, value: &str) -> Vec<u32> {
    let wanted = format!("{name}={value}");
    let entries = Path::new("/proc").read_dir().into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_entry = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    pids.filter(has_entry).collect()
}

/// Whether testbeds can be built here; says why not.
pub(crate) fn is_possible() -> bool {
    if let Some(missing) = missing_capability(&["CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_NET_RAW"]) {
        skip(&missing);
        return false;
    }
    if Command::new("ip").arg("-V").output().is_err() {
        skip("`ip` is not installed; run `cargo xtask setup`");
        return false;
    }
    true
}

/// A directory with a scenario; its testbed is taken down when it is dropped, and when this process
/// ends in any other way.
pub(crate) struct Bed {
    dir: tempfile::TempDir,
    guard: Child,
}

/// Takes the testbed of a scenario down and removes its directory, once its standard input ends:
/// that is our end of a pipe.
fn guard(dir: &Path) -> Child {
    let script = "cat > /dev/null; [ -d \"$2\" ] || exit 0; \"$1\" testbed down \"$2/s.toml\"; \
                  rm -r \"$2\"";
    Command::new("setsid")
        .args(["sh", "-c", script, "sh", PROGRAM])
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("setsid starts")
}

impl Bed {
    /// A star of hosts at 100 Mb/s with this queue, not up yet.
    pub(crate) fn star(hosts: u32, transport: &str, queue: &str) -> Bed {
        let network =
            format!("topology = \"star\"\nhosts = {hosts}\nrate = \"100Mbps\"\ndelay = \"5us\"");
        Bed::with_network(&network, transport, queue)
    }

    /// A network of these keys, not up yet.
    pub(crate) fn with_network(network: &str, transport: &str, queue: &str) -> Bed {
        let text = format!(
            "name = \"t\"\ntransports = [\"{transport}\"]\nqueue = {queue}\n[network]\n{network}\n\
             [[traffic]]\npattern = \"incast\"\nreceiver = 0\n\
             senders = 1\nsizes = \"90KB\"\n[run]\nduration = \"1s\"\n"
        );
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("s.toml"), text).expect("it can be written");
        let guard = guard(dir.path());
        Bed { dir, guard }
    }

    /// Writes a file beside the scenario.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).expect("it can be written");
    }

    pub(crate) fn scenario(&self) -> PathBuf {
        self.dir.path().join("s.toml")
    }

    pub(crate) fn run(&self, command: &str, more: &[&str]) -> Output {
        let mut program = Command::new(PROGRAM);
        program.arg("testbed").arg(command).arg(self.scenario()).args(more);
        program.output().expect("the program starts")
    }

    /// Runs a command that must succeed. Returns what it printed.
    pub(crate) fn must(&self, command: &str, more: &[&str]) -> String {
        let output = self.run(command, more);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The prefix of its namespaces, once it is up.
    pub(crate) fn prefix(&self) -> String {
        let status = self.must("status", &["--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        let host = status["hosts"][0].as_str().expect("a host");
        host.strip_suffix("-h0").expect("a prefix").to_owned()
    }

    /// The process of the switch.
    pub(crate) fn switch_pid(&self) -> u32 {
        let status: serde_json::Value =
            serde_json::from_str(&self.must("status", &["--json"])).expect("JSON");
        status["switch"].as_u64().expect("a process") as u32
    }

    /// Stops the switch and returns its report.
    pub(crate) fn report(&self) -> serde_json::Value {
        let report = Testbed::new(&self.prefix()).stop_switch().expect("a report");
        serde_json::from_str(&report).expect("JSON")
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = self.run("down", &[]);
        // The guard finds no directory, and ends.
        let _ = std::fs::remove_dir_all(self.dir.path());
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// What a testbed with this prefix has left behind.
pub(crate) fn leftovers(prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for place in ["/run/netns", "/run/punctual"] {
        let entries = Path::new(place).read_dir().into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        found.extend(names.filter(|name| name.starts_with(prefix)));
    }
    found
}
