//! What a search for capacities found.

use crate::files::{read_json, save_json};
use crate::{ReadError, WriteError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Name of the file, in the directory of all runs.
pub const CAPACITY_FILE: &str = "capacity.json";

/// The format of `capacity.json` that this version writes and reads.
const FORMAT: u32 = 2;

/// The question and its answers: `capacity.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacities {
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
    /// The key that varies.
    pub vary: String,
    /// The condition in words, such as `deadlines_met >= 99%`.
    pub until: String,
    /// The column of the summary that it is about.
    pub column: String,
    /// What the column is compared with.
    pub threshold: f64,
    /// Whether the smallest value was looked for, not the largest.
    pub smallest: bool,
    /// The values looked between, and their distance.
    pub from: String,
    /// The greatest value.
    pub to: String,
    /// The distance of values.
    pub step: String,
    /// Whether the search came to its end.
    #[serde(default)]
    pub complete: bool,
    /// One answer a transport and point of the rest of the sweep.
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
    /// The first value of whose interval nothing passes.
    pub fails_from: Option<String>,
    /// The column at the capacity.
    pub estimate: Option<CapacityEstimate>,
    /// Runs made or found for it.
    pub runs: u64,
    /// Every value tried, in order.
    pub probes: Vec<CapacityProbe>,
}

/// A column's mean over the repetitions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CapacityEstimate {
    /// Repetitions it is over.
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
    /// As one would write it.
    pub value: String,
    /// What came of it.
    #[serde(flatten)]
    pub estimate: CapacityEstimate,
    /// The offered load there, in words; empty in files of earlier versions.
    #[serde(default)]
    pub offered_load: String,
    /// Why nothing can be said to hold surely there.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// What makes it easy to misread.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The directory of each of its runs, below the directory of all results.
    #[serde(default)]
    pub directories: Vec<String>,
}

impl Capacities {
    /// A question by this version, all else empty.
    pub fn new() -> Capacities {
        let punctual = env!("CARGO_PKG_VERSION").to_owned();
        Capacities { format: FORMAT, punctual, ..Capacities::default() }
    }

    /// Writes it into a directory of results.
    pub fn write(&self, dir: &Path) -> Result<(), WriteError> {
        save_json(dir, CAPACITY_FILE, self)
    }

    /// Whether both ask for the same key, condition and values of the same scenario.
    pub fn is_same_question(&self, other: &Capacities) -> bool {
        let question = |c: &Capacities| {
            let texts = [&c.scenario, &c.vary, &c.until, &c.from, &c.to, &c.step];
            (texts.map(String::clone), c.overrides.clone(), c.smallest)
        };
        question(self) == question(other)
    }

    /// Renames the answers of another question that a directory holds, so that these answers do
    /// not replace them. Returns the new name.
    pub fn keep_other(&self, dir: &Path) -> Result<Option<String>, WriteError> {
        let other = Capacities::read(dir).ok().flatten();
        if other.is_none_or(|other| !other.complete || self.is_same_question(&other)) {
            return Ok(None);
        }
        let free = (1u32..).map(|n| format!("capacity-{n}.json")).find(|n| !dir.join(n).exists());
        let name = free.expect("numbers do not end");
        let (from, to) = (dir.join(CAPACITY_FILE), dir.join(&name));
        let failed = |source| WriteError::Io { action: "rename", path: from.clone(), source };
        std::fs::rename(&from, &to).map_err(failed)?;
        Ok(Some(name))
    }

    /// Reads that of a directory; none when there is none.
    pub fn read(dir: &Path) -> Result<Option<Capacities>, ReadError> {
        read_json(&dir.join(CAPACITY_FILE), FORMAT)
    }
}
