//! The result of a capacity search.

use crate::files::{read_json, save_json};
use crate::{ReadError, WriteError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Name of the file, in the directory of all runs.
pub const CAPACITY_FILE: &str = "capacity.json";

/// The format of `capacity.json` that this version writes and reads.
const FORMAT: u32 = 2;

/// A capacity search and its answers: `capacity.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacities {
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
    /// The key that varies.
    pub vary: String,
    /// The condition in words, such as `deadlines_met >= 99%`.
    pub until: String,
    /// The column of the summary that it is about.
    pub column: String,
    /// The value that the column is compared with.
    pub threshold: f64,
    /// Whether the search was for the smallest value, not the largest.
    pub smallest: bool,
    /// The smallest value of the search range.
    pub from: String,
    /// The largest value of the search range.
    pub to: String,
    /// The distance between values.
    pub step: String,
    /// Whether the search was completed.
    #[serde(default)]
    pub complete: bool,
    /// One answer per transport and point of the rest of the sweep.
    pub answers: Vec<CapacityAnswer>,
}

/// The capacity of one transport.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CapacityAnswer {
    /// The values of the rest of the sweep.
    #[serde(default)]
    pub point: BTreeMap<String, String>,
    /// The transport.
    pub transport: String,
    /// `found`, `never` or `always`.
    pub outcome: String,
    /// The last value whose mean passes.
    pub capacity: Option<String>,
    /// The last value whose whole interval passes.
    pub holds_to: Option<String>,
    /// The first value whose whole interval fails.
    pub fails_from: Option<String>,
    /// The column at the capacity.
    pub estimate: Option<CapacityEstimate>,
    /// Runs used for it, new or existing.
    pub runs: u64,
    /// Every value tried, in order.
    pub probes: Vec<CapacityProbe>,
}

/// A column's mean over the repetitions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CapacityEstimate {
    /// The number of repetitions.
    pub repetitions: u32,
    /// The mean; none when unfinished flows leave it open, and when no flow has the column.
    pub mean: Option<f64>,
    /// A lower bound of the mean, when unfinished flows leave it open.
    pub at_least: Option<f64>,
    /// The lower end of its interval; none without bounds.
    pub low: Option<f64>,
    /// The upper end of its interval; none without bounds.
    pub high: Option<f64>,
    /// Measured flows, the mean over the repetitions.
    pub flows: f64,
    /// Those of them that were unfinished when their run ended.
    pub unfinished: f64,
    /// `holds`, `leans-to-hold`, `leans-to-fail` or `fails`.
    pub verdict: String,
    /// Why it is not sure, where more repetitions would not help: `unfinished`,
    /// `deadlines-not-due` or `few-flows`.
    pub reason: Option<String>,
    /// Whether it is not sure because the repetitions reached their maximum.
    #[serde(default)]
    pub capped: bool,
}

/// A value that was tried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CapacityProbe {
    /// The value as written in a scenario.
    pub value: String,
    /// The result at this value.
    #[serde(flatten)]
    pub estimate: CapacityEstimate,
    /// The offered load there, in words; empty in files of earlier versions.
    #[serde(default)]
    pub offered_load: String,
    /// Why the result at this value is not certain.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// Warnings: what makes the result easy to misread.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The directory of each of its runs, below the directory of all results.
    #[serde(default)]
    pub directories: Vec<String>,
}

impl Capacities {
    /// An empty search with the format and version of this program.
    pub fn new() -> Capacities {
        let punctual = env!("CARGO_PKG_VERSION").to_owned();
        Capacities { format: FORMAT, punctual, ..Capacities::default() }
    }

    /// Writes the search into a directory of results.
    pub fn write(&self, dir: &Path) -> Result<(), WriteError> {
        save_json(dir, CAPACITY_FILE, self)
    }

    /// Whether both searches have the same key, condition, values and scenario.
    pub fn is_same_question(&self, other: &Capacities) -> bool {
        let question = |c: &Capacities| {
            let texts = [&c.scenario, &c.vary, &c.until, &c.from, &c.to, &c.step];
            (texts.map(String::clone), c.overrides.clone(), c.smallest)
        };
        question(self) == question(other)
    }

    /// Renames the file of another search in a directory, so that this one does not replace it.
    ///
    /// Returns the new name.
    pub fn keep_other(&self, dir: &Path) -> Result<Option<String>, WriteError> {
        let other = Capacities::read(dir).ok().flatten();
        if other.is_none_or(|other| !other.complete || self.is_same_question(&other)) {
            return Ok(None);
        }
        let free = (1u32..).map(|n| format!("capacity-{n}.json")).find(|n| !dir.join(n).exists());
        let name = free.expect("some number is free");
        let (from, to) = (dir.join(CAPACITY_FILE), dir.join(&name));
        let failed = |source| WriteError::Io { action: "rename", path: from.clone(), source };
        std::fs::rename(&from, &to).map_err(failed)?;
        Ok(Some(name))
    }

    /// Reads the search of a directory; none if there is no such file.
    pub fn read(dir: &Path) -> Result<Option<Capacities>, ReadError> {
        read_json(&dir.join(CAPACITY_FILE), FORMAT)
    }
}
