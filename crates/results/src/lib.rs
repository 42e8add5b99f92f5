//! Results on disk: run directories, and statistics of runs.
//!
//! A run directory holds
//!
//! * `flows.parquet`: one row per flow ([`FlowRow`]);
//! * `queues.parquet`: the time series of the sampled ports ([`punctual_record::PortSample`]);
//! * `gauges.parquet`: the time series of transports' own state ([`GaugeRow`]), where there is any;
//! * `pauses.parquet`: pauses by port and class ([`PauseRow`]), where there were any;
//! * `ports.parquet`: every port with its totals ([`PortRow`]);
//! * `network.parquet`: the activity of every port over time ([`punctual_record::NetworkTrace`]),
//!   if that was recorded;
//! * `summary.json`: the metrics of the run ([`Summary`]);
//! * `manifest.json`: what is needed to repeat the run ([`Manifest`]);
//! * `host.json`: the machine, the commit and the time it took ([`Host`]);
//! * `explain.json`: delay breakdowns of some flows ([`Explained`]), on request;
//! * on request `flows.csv`, and whatever else its writer adds, such as figures.
//!
//! For one scenario, seed and build, all files but `host.json` have the same bytes on any machine
//! and with any number of threads.
//!
//! A directory is written beside its final place, under a name ending in `.partial-<number>`, and
//! renamed when every file is on disk. So a directory under its own name is whole, and a partial
//! one is what an interrupted program left behind.
//!
//! ```
//! use punctual_results::{FlowRow, Manifest, Run, RunFacts, WriteOptions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! # let dir = place.path().join("ndp-1");
//! let outcome = punctual_record::Outcome::default(); // what `punctual_sim::run` returned
//! let flows = FlowRow::all(&outcome, &["ndp"], |_flow| None);
//! let facts = RunFacts { transport: "ndp", seed: 1, ..RunFacts::default() };
//! let summary = punctual_results::summarise(&outcome, &flows, &facts);
//! let manifest = Manifest::new("name = \"tiny\"", "ndp", 1);
//! let run = Run::new(&flows, &outcome.samples, &summary, &manifest);
//! punctual_results::write(&dir, &run, WriteOptions::default())?;
//! assert_eq!(punctual_results::read(&dir)?.summary, summary);
//! # Ok(())
//! # }
//! ```

mod capacity;
mod columns;
mod csv;
mod dir;
mod error;
mod explain;
mod files;
mod flows;
mod gauges;
mod latency;
mod link;
mod lock;
mod manifest;
mod metrics;
mod network;
mod parquet_io;
mod pauses;
mod plan;
mod ports;
mod queues;
mod read;
mod run_data;
mod share;
pub mod significance;
pub mod stats;
mod student;
mod summary;
mod tasks;
mod times;
mod write;

pub use capacity::{CAPACITY_FILE, Capacities, CapacityAnswer, CapacityEstimate, CapacityProbe};
pub use csv::write_csv;
pub use dir::{Leftover, is_complete, is_partial, leftovers};
pub use error::{CombineError, ReadError, WriteError};
pub use explain::{EXPLAIN_FILE, Explained, ExplainedFlow, ExplainedPart, TimeLine, short_time};
pub use files::{check_place, is_report, save};
pub use flows::{ByCause, FlowCounts, FlowRow, FlowStatus};
pub use gauges::GaugeRow;
pub use latency::LatencySummary;
pub use link::link_run;
pub use lock::{DirLock, LOCK_FILE, results_around};
pub use manifest::{AxisValue, FORMAT, FileInfo, Host, Manifest, TestbedFacts};
pub use metrics::{
    Better, Column, Definition, Figure, Interval, Metric, Metrics, Place, Scope, Unit, When,
    reference,
};
pub use pauses::PauseRow;
pub use plan::{PLAN_FILE, Plan, PlanPoint, PlanPort, PlanRun, titled};
pub use ports::PortRow;
pub use read::{
    RunFiles, read, read_flows, read_flows_and_ports, read_host, read_in_parallel, read_manifest,
    read_summary, summary_beside, verify,
};
pub use share::{ShareOf, share_interval};
pub use stats::{Repeated, RunFacts, combine, part_of, summarise};
pub use summary::{Group, RunKind, SIZE_BINS, Summary, title};
pub use tasks::{INPUTS_DIR, PARTS_DIR, TASKS_FILE, Task, TaskPlan, TaskQuestion, file_info};
pub use times::{Statistic, Time, Times};
pub use write::{Run, WriteOptions, write, write_unsynced};

/// Name of the file with one row per flow.
pub const FLOWS_FILE: &str = "flows.parquet";
/// Name of the file with the time series of the sampled ports.
pub const QUEUES_FILE: &str = "queues.parquet";
/// Name of the file with the gauges of transports, written if there are any.
pub const GAUGES_FILE: &str = "gauges.parquet";
/// Name of the file with the pauses of ports, written if there were any.
pub const PAUSES_FILE: &str = "pauses.parquet";
/// Name of the file with every port and its totals.
pub const PORTS_FILE: &str = "ports.parquet";
/// Name of the file with the activity of every port over time, written if that was recorded.
pub const NETWORK_FILE: &str = "network.parquet";
/// Name of the file with the summary.
pub const SUMMARY_FILE: &str = "summary.json";
/// Name of the file with what is needed to repeat the run.
pub const MANIFEST_FILE: &str = "manifest.json";
/// Name of the file with the machine that made the run, and the time it took.
pub const HOST_FILE: &str = "host.json";
/// Name of the page that shows a directory of results, or a single run.
pub const REPORT_FILE: &str = "report.html";
/// Name of the CSV file with one row per flow, written on request.
pub const CSV_FILE: &str = "flows.csv";

/// Names of all files that a run directory may have, besides those its writer adds.
pub(crate) const OWN_FILES: [&str; 12] = [
    FLOWS_FILE,
    QUEUES_FILE,
    GAUGES_FILE,
    PAUSES_FILE,
    PORTS_FILE,
    NETWORK_FILE,
    SUMMARY_FILE,
    MANIFEST_FILE,
    HOST_FILE,
    CSV_FILE,
    EXPLAIN_FILE,
    REPORT_FILE,
];
