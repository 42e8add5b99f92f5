//! Network namespaces of a test, which no end of the test leaves behind.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the names of all namespaces of tests begin with. The test's process follows.
const PREFIX: &str = "punctual-test-";

/// Named network namespaces, and the processes that were started in them.
///
/// They are removed when this is dropped. If the process ends in any other way, `SIGKILL` included, a
/// guard removes them: a process in a session of its own, which waits for the end of a pipe. If the
/// guard was killed, too, the next [`TestNamespaces::create`] of any test removes them, by the number
/// of the dead process in their names.
#[derive(Debug)]
pub struct TestNamespaces {
    names: Vec<String>,
    guard: Child,
}

/// Kills the processes of a namespace, and removes it. `$@` are namespaces.
const REMOVE: &str = "for name in \"$@\"; do ip netns pids \"$name\" 2>/dev/null | xargs -r kill -9; \
                      ip netns delete \"$name\" 2>/dev/null; done";

impl TestNamespaces {
    /// Creates so many namespaces, with their loopback interfaces up.
    ///
    /// # Errors
    ///
    /// What `ip` says, where it is not installed or CAP_NET_ADMIN is missing.
    pub fn create(count: usize) -> Result<TestNamespaces, String> {
        static CREATED: AtomicUsize = AtomicUsize::new(0);
        remove(&stale());
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let own = std::process::id();
        let names: Vec<String> =
            (0..count).map(|end| format!("{PREFIX}{own}-{number}-{end}")).collect();
        // The guard comes first, so that no moment is without one.
        let guard = Command::new("setsid")
            .args(["sh", "-c", &format!("cat >/dev/null; {REMOVE}"), "sh"])
            .args(&names)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot run `setsid`: {error}"))?;
        let namespaces = TestNamespaces { names, guard };
        for name in &namespaces.names {
            ip(&["netns", "add", name])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(namespaces)
    }

    /// The names of the namespaces.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The process of the guard.
    pub fn guard_id(&self) -> u32 {
        self.guard.id()
    }
}

impl Drop for TestNamespaces {
    fn drop(&mut self) {
        // The guard removes them, and ends.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        let left = |name: &&String| Path::new("/run/netns").join(name).exists();
        remove(&self.names.iter().filter(left).cloned().collect::<Vec<_>>());
    }
}

/// Runs `ip`.
///
/// # Errors
///
/// What it says if it fails.
pub fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).output();
    let output = output.map_err(|error| format!("cannot run `ip`: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Namespaces of tests whose process has ended.
fn stale() -> Vec<String> {
    let entries = Path::new("/run/netns").read_dir().into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_stale(name)).collect()
}

/// Whether a name is that of a namespace of a test whose process has ended.
fn is_stale(name: &str) -> bool {
    let own = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
    let pid = own.and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

fn remove(names: &[String]) {
    if !names.is_empty() {
        let _ = Command::new("sh").args(["-c", REMOVE, "sh"]).args(names).status();
    }
}
