//! The plan of a directory of results: its runs, written before the first of them.

use crate::files::{read_json, save_json};
use crate::{ReadError, WriteError};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name of the file, in the directory of all runs.
pub const PLAN_FILE: &str = "plan.json";

/// The format of `plan.json` that this version writes and reads.
const FORMAT: u32 = 1;

/// The runs of one command, in its order.
///
/// It is written when the command begins, and again when all runs are done, so that readers know
/// which runs are missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Format of this file.
    pub format: u32,
    /// Version of punctual.
    pub punctual: String,
    /// Name of the scenario.
    pub name: String,
    /// Description of the scenario.
    pub description: String,
    /// Text of the scenario file.
    pub scenario: String,
    /// What the command line changed in it, each as `key=value`, in order.
    pub overrides: Vec<String>,
    /// Whether all runs are done.
    pub complete: bool,
    /// The points of the sweep; one without a sweep.
    pub points: Vec<PlanPoint>,
}

/// A point of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanPoint {
    /// The values that make it, by key; none without a sweep.
    pub values: Vec<(String, String)>,
    /// The ports with time series.
    pub ports: Vec<PlanPort>,
    /// The offered load of its first run, in words; empty in plans of earlier versions.
    #[serde(default)]
    pub offered_load: String,
    /// What makes its results easy to misread.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Its runs: by transport, then by repetition.
    pub runs: Vec<PlanRun>,
}

/// An output port with time series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanPort {
    /// Its number in `queues.parquet` and `gauges.parquet`.
    pub port: u32,
    /// The nodes at both ends of its link, such as `tor 0 → host 3`.
    pub name: String,
    /// Where in the network it is, such as `host-down`.
    pub tier: String,
    /// Its rate.
    pub rate_bps: u64,
}

/// A run of a plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanRun {
    /// Its directory, below that of the plan.
    pub directory: String,
    /// The transport, or the mix of transports.
    pub transport: String,
    /// The seed.
    pub seed: u64,
}

/// The name of a scenario and what the command line changed in it, as headings show them:
/// `search (--set traffic.workers=40)`.
pub fn titled(name: &str, overrides: &[String]) -> String {
    let set: Vec<String> = overrides.iter().map(|change| format!("--set {change}")).collect();
    if set.is_empty() { name.to_owned() } else { format!("{name} ({})", set.join(" ")) }
}

impl Plan {
    /// A plan with the format and version of this program, without points.
    pub fn new(name: &str, description: &str, scenario: &str, overrides: &[String]) -> Plan {
        Plan {
            format: FORMAT,
            punctual: env!("CARGO_PKG_VERSION").to_owned(),
            name: name.to_owned(),
            description: description.to_owned(),
            scenario: scenario.to_owned(),
            overrides: overrides.to_vec(),
            ..Plan::default()
        }
    }

    /// Writes the plan into a directory of results, which is created if missing.
    pub fn write(&self, dir: &Path) -> Result<(), WriteError> {
        save_json(dir, PLAN_FILE, self)
    }

    /// Reads the plan of a directory; none if there is no such file.
    pub fn read(dir: &Path) -> Result<Option<Plan>, ReadError> {
        read_json(&dir.join(PLAN_FILE), FORMAT)
    }
}
