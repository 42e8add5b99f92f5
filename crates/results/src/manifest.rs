//! Manifests: what is needed to repeat a run; and beside them, where it was made.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The format of run directories that this version writes and reads.
///
/// It increases with every change that a reader of the old format would misunderstand.
pub const FORMAT: u32 = 7;

/// The manifest of a run: what is needed to repeat it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format of the directory, see [`FORMAT`].
    pub format: u32,
    /// Version of punctual.
    pub punctual: String,
    /// Build id of the program: a hash of all sources that can change a result.
    #[serde(default)]
    pub build: String,
    /// Hash of the run's set-up: everything that its outcome depends on besides the build.
    #[serde(default)]
    pub setup: String,
    /// Name of the scenario.
    #[serde(default)]
    pub name: String,
    /// Names of the scenario's traffic, in its order; what `pattern` counts.
    #[serde(default)]
    pub traffic: Vec<String>,
    /// Text of the scenario file.
    pub scenario: String,
    /// What the command line changed in it, each as `key=value`, in order.
    #[serde(default)]
    pub overrides: Vec<String>,
    /// The point of the sweep, an entry for each axis; empty without a sweep.
    #[serde(default)]
    pub point: Vec<AxisValue>,
    /// Name of the transport, or of the mix of transports.
    pub transport: String,
    /// The transports that carry flows of the run, by their number in it.
    #[serde(default)]
    pub transports: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// The directory of the run, below the directory of all results that it was written to.
    #[serde(default)]
    pub directory: String,
    /// The queues of the switches in words, with their limits; empty for an ideal scheduler, and in
    /// manifests of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub queue: String,
    /// For a run on a testbed: how it went, and whether its timing can be trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub testbed: Option<TestbedFacts>,
    /// Whether the run was interrupted before its end.
    #[serde(default)]
    pub interrupted: bool,
    /// Every other file, filled in when the directory is written.
    #[serde(default)]
    pub files: BTreeMap<String, FileInfo>,
    /// Hash of this manifest without this field, filled in when it is written.
    #[serde(default)]
    pub digest: String,
}

/// A run on a testbed, beyond its results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestbedFacts {
    /// Whether the timing of the run can be trusted.
    pub valid: bool,
    /// Why not.
    pub problems: Vec<String>,
    /// How many times slower than the machine's the clock of the run was. All times of the results
    /// are on the clock of the run.
    pub time_scale: u32,
    /// Lateness of frames that left the switch: median, 99th percentile and maximum, in µs.
    pub switch_lateness_us: [f64; 3],
    /// Lateness of the hosts' timers: median, 99th percentile and maximum, in µs.
    pub host_lateness_us: [f64; 3],
    /// How long the threads of switch and hosts stood still, in per cent of the run.
    pub stalled_percent: [f64; 2],
    /// 5th, 50th and 95th percentile of the time between two pulls of a receiving host, in µs, for
    /// transports that pull.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_spacing_us: Option<[f64; 3]>,
    /// Frames that the switch delivered.
    pub frames: u64,
    /// Frames that hosts dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// The processors of hosts and switch.
    pub processors: Vec<u32>,
    /// The version of the kernel.
    pub kernel: String,
}

/// A file as it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Its length.
    pub bytes: u64,
    /// The BLAKE3 hash of its contents, in hexadecimal.
    pub blake3: String,
}

impl Manifest {
    /// The manifest of a run by this version.
    pub fn new(scenario: &str, transport: &str, seed: u64) -> Manifest {
        Manifest {
            format: FORMAT,
            punctual: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: scenario.to_owned(),
            transport: transport.to_owned(),
            transports: vec![transport.to_owned()],
            seed,
            ..Manifest::default()
        }
    }

    /// The manifest with its digest.
    pub(crate) fn sealed(self) -> Manifest {
        Manifest { digest: self.computed_digest(), ..self }
    }

    /// Whether it is as it was written.
    pub(crate) fn is_intact(&self) -> bool {
        self.digest == self.computed_digest()
    }

    fn computed_digest(&self) -> String {
        let unsealed = Manifest { digest: String::new(), ..self.clone() };
        // A manifest that cannot be encoded has no digest; writing it fails too.
        let text = serde_json::to_vec(&unsealed).unwrap_or_default();
        blake3::hash(&text).to_hex().to_string()
    }

    /// The metadata of every Parquet file of the run.
    pub(crate) fn about(&self) -> Vec<(String, String)> {
        let point: Vec<String> =
            self.point.iter().map(|value| format!("{}={}", value.axis, value.label)).collect();
        let pairs = [
            ("scenario", self.name.clone()),
            ("transport", self.transport.clone()),
            ("seed", self.seed.to_string()),
            ("point", point.join(", ")),
            ("traffic", self.traffic.join(", ")),
            ("time_origin", "start of the run".to_owned()),
        ];
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
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

/// Where and when a run was made: `host.json`.
///
/// It is apart from the manifest, so that every other file of a run has the same bytes wherever the
/// run was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Git commit that the program was built from, where known.
    pub commit: Option<String>,
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
    /// CPU time of the thread that ran it, where the system reports it; none if several did.
    pub cpu_seconds: Option<f64>,
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
