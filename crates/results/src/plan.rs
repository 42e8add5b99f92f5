//! What a directory of results is to hold: the runs of a plan, written before the first of them.

use crate::files::{read_json, save_json};
use crate::{ReadError, WriteError};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name of the file, in the directory of all runs.
pub const PLAN_FILE: &str = "plan.json";

/// The format of `plan.json` that this version writes and reads.
const FORMAT: u32 = 1;

/// The runs of one command, in its order. Written when it begins, and again when all of them are
/// there: whoever reads the directory knows what is missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Format of this file.
    pub format: u32,
    /// Version of punctual.
    pub punctual: String,
    /// Name of the scenario.
    pub name: String,
    /// What it is about.
    pub description: String,
    /// Text of the scenario file.
    pub scenario: String,
    /// What the command line changed in it, each as `key=value`, in order.
    pub overrides: Vec<String>,
    /// Whether every run was there at the end.
    pub complete: bool,
    /// The points of the sweep; one without a sweep.
    pub points: Vec<PlanPoint>,
}

/// A point of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanPoint {
    /// The values that make it, by key; none without a sweep.
    pub values: Vec<(String, String)>,
    /// The ports of which there are time series.
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
    /// From where to where, such as `tor 0 → host 3`.
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
    /// A plan by this version, without points yet.
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

    /// Writes it into a directory of results, which is made where it is missing.
    pub fn write(&self, dir: &Path) -> Result<(), WriteError> {
        save_json(dir, PLAN_FILE, self)
    }

    /// Reads that of a directory; none when there is none.
    pub fn read(dir: &Path) -> Result<Option<Plan>, ReadError> {
        read_json(&dir.join(PLAN_FILE), FORMAT)
    }
}
