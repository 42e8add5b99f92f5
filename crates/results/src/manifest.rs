//! What a run was made of.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The format of run directories that this version writes and reads. A change that a reader of
/// the old format would misunderstand makes a new one.
pub const FORMAT: u32 = 4;

/// What a run was made of: enough to run it again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format of the directory, see [`FORMAT`].
    pub format: u32,
    /// Version of punctual.
    pub punctual: String,
    /// Text of the scenario file.
    pub scenario: String,
    /// What the command line changed in it, each as `key=value`, in order.
    #[serde(default)]
    pub overrides: Vec<String>,
    /// The point of the sweep, an entry for each axis; empty without a sweep.
    #[serde(default)]
    pub point: Vec<AxisValue>,
    /// The transport, or the mix of transports.
    pub transport: String,
    /// The seed.
    pub seed: u64,
    /// The run was stopped from outside before its end.
    #[serde(default)]
    pub interrupted: bool,
    /// Length in bytes of every other file, filled in when the directory is written.
    #[serde(default)]
    pub files: BTreeMap<String, u64>,
    /// The machine and the time the run took on it; nothing else in the directory depends on them.
    #[serde(default)]
    pub host: Host,
}

impl Manifest {
    /// The manifest of a run by this version on this machine.
    pub fn new(scenario: &str, transport: &str, seed: u64) -> Manifest {
        Manifest {
            format: FORMAT,
            punctual: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: scenario.to_owned(),
            transport: transport.to_owned(),
            seed,
            host: Host::here(),
            ..Manifest::default()
        }
    }
}

/// The value of one axis of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AxisValue {
    /// The axis: the dotted key that it sets, or the name of a linked axis.
    pub axis: String,
    /// The value as tables and directories show it.
    pub label: String,
    /// What it sets in the scenario, each as `key=value`, the value in TOML.
    pub set: Vec<String>,
}

/// A machine, and the time a run took on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Operating system.
    pub os: String,
    /// Kind of processor, as in `x86_64`.
    pub arch: String,
    /// Model of processor, where known.
    pub cpu: Option<String>,
    /// Logical processors that this program may use.
    pub cores: Option<u32>,
    /// Threads that the run was given.
    pub threads: Option<u32>,
    /// When the run began, in seconds since 1970.
    pub started_unix_seconds: Option<u64>,
    /// How long the run took.
    pub wall_seconds: Option<f64>,
}

impl Host {
    /// This machine; threads and times are for the caller to fill in.
    pub fn here() -> Host {
        Host {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cpu: cpu_model(),
            cores: std::thread::available_parallelism().ok().map(|n| n.get() as u32),
            ..Host::default()
        }
    }
}

fn cpu_model() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
