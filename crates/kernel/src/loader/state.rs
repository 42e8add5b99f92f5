//! What a load changed outside of its pins, on disk before it is changed, and how it is restored.

use super::LoadError;
use nix::sched::{CloneFlags, setns};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a load keeps its pins and its state.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The directory of pins, on a BPF file system.
    pub pins: PathBuf,
    /// The file that says what to restore.
    pub state: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Paths { pins: "/sys/fs/bpf/punctual".into(), state: "/run/punctual/kernel.json".into() }
    }
}

/// A route that got a congestion control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChangedRoute {
    pub(super) prefix: String,
    /// The arguments of `ip route replace` that restore it.
    pub(super) previous: Vec<String>,
}

/// The contents of the state file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) d2tcp: String,
    pub(super) dctcp: String,
    pub(super) cgroup: PathBuf,
    pub(super) adopts: bool,
    pub(super) marker_only: bool,
    pub(super) netns: Option<PathBuf>,
    /// The default congestion control of the namespace before the load.
    pub(super) previous_default: Option<String>,
    pub(super) routes: Vec<ChangedRoute>,
    pub(super) mark_bytes: Option<u32>,
    pub(super) mark_devices: Vec<String>,
}

const DEFAULT_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// The default congestion control of the present network namespace.
pub(super) fn default_control() -> Result<String, LoadError> {
    let text = std::fs::read_to_string(DEFAULT_CONTROL);
    Ok(text.map_err(LoadError::system(DEFAULT_CONTROL))?.trim().to_owned())
}

/// Sets the default congestion control of the present network namespace.
pub(super) fn set_default_control(name: &str) -> Result<(), LoadError> {
    let what = format!("cannot write {name} to {DEFAULT_CONTROL}");
    std::fs::write(DEFAULT_CONTROL, name).map_err(LoadError::system(what))
}

/// Runs `ip` with these arguments in the present network namespace.
fn ip(args: &[String]) -> Result<String, LoadError> {
    let what = format!("ip {}", args.join(" "));
    let output = Command::new("ip").args(args).output().map_err(LoadError::system(&*what))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(LoadError::System { what, error: std::io::Error::other(message) })
}

fn family(prefix: &str) -> String {
    if prefix.contains(':') { "-6".into() } else { "-4".into() }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The present route to a prefix.
pub(super) fn route(prefix: &str) -> Result<ChangedRoute, LoadError> {
    let args = [&family(prefix), "-o", "route", "show", "exact", prefix];
    let text = ip(&args.map(str::to_owned))?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let [line] = lines[..] else {
        return Err(LoadError::Option(format!(
            "--route {prefix}: {} routes have exactly this prefix; name one that `ip route` lists",
            lines.len()
        )));
    };
    // States of the link, which `ip route replace` does not take.
    let is_setting = |word: &String| !["linkdown", "dead", "\\"].contains(&word.as_str());
    let previous = words(line).into_iter().filter(is_setting).collect();
    Ok(ChangedRoute { prefix: prefix.to_owned(), previous })
}

impl ChangedRoute {
    fn replace(&self, more: &[&str]) -> Result<(), LoadError> {
        let mut args = vec![family(&self.prefix), "route".into(), "replace".into()];
        args.extend(self.previous.iter().cloned());
        args.extend(more.iter().map(|&word| word.to_owned()));
        ip(&args).map(|_| ())
    }

    /// Gives the route a congestion control.
    pub(super) fn set_control(&self, name: &str) -> Result<(), LoadError> {
        self.replace(&["congctl", name])
    }

    /// Restores the route, if it still has this congestion control.
    fn restore(&self, name: &str) -> Result<(), LoadError> {
        let Ok(present) = route(&self.prefix) else { return Ok(()) };
        let has = present.previous.windows(2).any(|pair| pair[0] == "congctl" && pair[1] == name);
        if has { self.replace(&[]) } else { Ok(()) }
    }
}

impl State {
    /// Writes the state file, all of it or nothing.
    pub(super) fn write(&self, path: &Path) -> Result<(), LoadError> {
        let system = || LoadError::system(format!("cannot write {}", path.display()));
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(system())?;
        }
        let text = serde_json::to_vec_pretty(self).map_err(|e| system()(e.into()))?;
        let new = path.with_extension("new");
        std::fs::write(&new, text).map_err(system())?;
        std::fs::rename(&new, path).map_err(system())
    }

    /// Reads the state file; none if there is none.
    pub(super) fn read(path: &Path) -> Result<Option<State>, LoadError> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LoadError::system(path.display().to_string())(error)),
        };
        let parsed = serde_json::from_slice(&text);
        parsed.map(Some).map_err(|e| LoadError::system(path.display().to_string())(e.into()))
    }

    /// Restores default and routes. A namespace that is gone has nothing to restore.
    pub(super) fn restore(&self) -> Result<(), LoadError> {
        if self.netns.as_ref().is_some_and(|path| !path.exists()) {
            return Ok(());
        }
        in_netns(self.netns.as_deref(), || {
            if let Some(previous) = &self.previous_default
                && default_control()? == self.d2tcp
            {
                set_default_control(previous)?;
            }
            self.routes.iter().try_for_each(|route| route.restore(&self.d2tcp))
        })
    }
}

/// The path of a network namespace: a path, or a name of `ip netns`.
pub(super) fn netns_path(name: &Path) -> PathBuf {
    if name.components().count() > 1 { name.to_owned() } else { Path::new("/run/netns").join(name) }
}

/// Runs a function in a network namespace, on a thread of its own; none is the present one.
pub(super) fn in_netns<T: Send>(
    netns: Option<&Path>,
    work: impl FnOnce() -> Result<T, LoadError> + Send,
) -> Result<T, LoadError> {
    let Some(path) = netns else { return work() };
    let system = || LoadError::system(format!("cannot enter namespace {}", path.display()));
    let file = File::open(path).map_err(system())?;
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            setns(&file, CloneFlags::CLONE_NEWNET).map_err(|e| system()(e.into()))?;
            work()
        });
        let lost = || LoadError::Option("the thread in the namespace panicked".into());
        worker.join().unwrap_or_else(|_| Err(lost()))
    })
}
