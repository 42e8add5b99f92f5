//! Where flows' time went.

use crate::files::{read_json, save};
use crate::{ReadError, WriteError};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name of the file, in the directory of a run.
pub const EXPLAIN_FILE: &str = "explain.json";

/// The format of `explain.json` that this version writes and reads.
const FORMAT: u32 = 2;

/// Where the time of some flows of a run went: `explain.json`.
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

/// Where one flow's time went. Instants are picoseconds since the start of the run, as in all files.
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
    /// Bytes asked for; none for an endless flow.
    pub size_bytes: Option<u64>,
    /// `completed`, `abandoned` or `unfinished`.
    pub status: String,
    /// When it started.
    pub start_ps: u64,
    /// From its start until it was complete or given up; else until the run ended. The parts sum
    /// to this.
    pub time_ps: u64,
    /// Its deadline.
    pub deadline_ps: Option<u64>,
    /// Whether it was on time; none where nobody knows.
    pub met: Option<bool>,
    /// When it fell behind what an even pace to the deadline asks for, and did not catch up again.
    pub behind_since_ps: Option<u64>,
    /// Packets that the chain of causes passed along, both ways.
    pub trips: u32,
    /// What the time went into, by the order in which each came first.
    pub parts: Vec<ExplainedPart>,
    /// The same in time.
    pub time_line: TimeLine,
    /// It in one sentence.
    pub sentence: String,
}

/// What time went into at one place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainedPart {
    /// What it was, such as `queue`.
    pub what: String,
    /// What it was in a few words, as the transport calls it.
    #[serde(default)]
    pub title: String,
    /// The port at which it was spent or which is to blame.
    pub port: Option<String>,
    /// How long it was in all.
    pub time_ps: u64,
    /// How often there was such a stretch.
    pub times: u32,
    /// Flows that it was spent behind, those with the most bytes first.
    pub behind: Vec<u32>,
    /// How many such flows there were, also those not named.
    pub behind_count: u32,
}

/// A flow's time cut into slices of equal length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeLine {
    /// What the rows are of, as in the parts.
    pub what: Vec<String>,
    /// For each of them, its share of each slice, in percent.
    pub percent: Vec<Vec<u8>>,
    /// How much of the flow was delivered at the end of each slice, in percent.
    pub delivered_percent: Vec<u8>,
}

impl Explained {
    /// An empty list, by this version.
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
        // On one line: there are many small numbers.
        let mut text = serde_json::to_vec(self).map_err(json)?;
        text.push(b'\n');
        save(dir, EXPLAIN_FILE, &text).map(|_| ())
    }

    /// The file of a run's directory; none where there is none.
    pub fn read(dir: &Path) -> Result<Option<Explained>, ReadError> {
        read_json(&dir.join(EXPLAIN_FILE), FORMAT)
    }
}

/// A time with three digits.
pub fn short_time(picos: u64) -> String {
    let (value, unit) = match picos {
        0..1_000 => return format!("{picos} ps"),
        1_000..1_000_000 => (picos as f64 / 1e3, "ns"),
        1_000_000..1_000_000_000 => (picos as f64 / 1e6, "µs"),
        1_000_000_000..1_000_000_000_000 => (picos as f64 / 1e9, "ms"),
        _ => (picos as f64 / 1e12, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}
