//! Delay breakdowns of flows on disk.

use crate::files::{read_json, save};
use crate::{ReadError, WriteError};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name of the file, in the directory of a run.
pub const EXPLAIN_FILE: &str = "explain.json";

/// The format of `explain.json` that this version writes and reads.
const FORMAT: u32 = 2;

/// Delay breakdowns of some flows of a run: `explain.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// Format of this file.
    pub format: u32,
    /// Version of punctual.
    pub punctual: String,
    /// The transport, or the mix of transports.
    pub transport: String,
    /// The seed.
    pub seed: u64,
    /// How the flows were chosen, in words.
    pub chosen: String,
    /// The flows.
    pub flows: Vec<ExplainedFlow>,
}

/// The delay breakdown of one flow. Instants are picoseconds since the start of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainedFlow {
    /// The flow.
    pub flow: u32,
    /// Name of the transport that carried it.
    pub transport: String,
    /// Name of the sending host.
    pub src: String,
    /// Name of the receiving host.
    pub dst: String,
    /// Its size; none for an endless flow.
    pub size_bytes: Option<u64>,
    /// `completed`, `abandoned` or `unfinished`.
    pub status: String,
    /// When it started.
    pub start_ps: u64,
    /// From its start until it completed or was abandoned; else until the run ended.
    ///
    /// The parts add up to this.
    pub time_ps: u64,
    /// Its deadline.
    pub deadline_ps: Option<u64>,
    /// Whether it met its deadline; none if it has none or the outcome is unknown.
    pub met: Option<bool>,
    /// When it last fell behind an even pace to its deadline, without catching up again.
    pub behind_since_ps: Option<u64>,
    /// The number of packets on the chain of causes, in both directions.
    pub trips: u32,
    /// Its parts, in the order in which each first occurred.
    pub parts: Vec<ExplainedPart>,
    /// The shares of its parts over time.
    pub time_line: TimeLine,
    /// The breakdown in one sentence.
    pub sentence: String,
}

/// The time that a flow spent on one kind of delay at one port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainedPart {
    /// The kind of delay, such as `queue`.
    pub what: String,
    /// The kind of delay in the transport's words.
    #[serde(default)]
    pub title: String,
    /// The port at which it was spent or which caused it.
    pub port: Option<String>,
    /// Its total time.
    pub time_ps: u64,
    /// How often it occurred.
    pub times: u32,
    /// Flows that it waited behind, those with the most bytes first.
    pub behind: Vec<u32>,
    /// The number of such flows, including those not named.
    pub behind_count: u32,
}

/// A flow's time divided into slices of equal length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeLine {
    /// The kinds of delay, one per row.
    pub what: Vec<String>,
    /// By kind, its share of each slice, in percent.
    pub percent: Vec<Vec<u8>>,
    /// How much of the flow was delivered at the end of each slice, in percent.
    pub delivered_percent: Vec<u8>,
}

impl Explained {
    /// An empty list with the format and version of this program.
    pub fn new(transport: &str, seed: u64, chosen: &str) -> Explained {
        Explained {
            format: FORMAT,
            punctual: env!("CARGO_PKG_VERSION").to_owned(),
            transport: transport.to_owned(),
            seed,
            chosen: chosen.to_owned(),
            flows: Vec::new(),
        }
    }

    /// Writes the file into the directory of a run.
    pub fn write(&self, dir: &Path) -> Result<(), WriteError> {
        let json = |source| WriteError::Json { path: dir.join(EXPLAIN_FILE), source };
        // On one line, because there are many small numbers.
        let mut text = serde_json::to_vec(self).map_err(json)?;
        text.push(b'\n');
        save(dir, EXPLAIN_FILE, &text).map(|_| ())
    }

    /// Reads the file of a run's directory; none if there is no such file.
    pub fn read(dir: &Path) -> Result<Option<Explained>, ReadError> {
        read_json(&dir.join(EXPLAIN_FILE), FORMAT)
    }
}

/// A time with three digits.
pub fn short_time(picos: u64) -> String {
    let (value, unit) = match picos {
        0 => return "0 s".into(),
        1..1_000 => return format!("{picos} ps"),
        1_000..1_000_000 => (picos as f64 / 1e3, "ns"),
        1_000_000..1_000_000_000 => (picos as f64 / 1e6, "µs"),
        1_000_000_000..1_000_000_000_000 => (picos as f64 / 1e9, "ms"),
        _ => (picos as f64 / 1e12, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}
