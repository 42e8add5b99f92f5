//! Arguments of commands that run scenarios or read their results.

use super::{Json, Printing, Threads};
use clap::Args;
use punctual_core::Duration;
use std::path::PathBuf;

/// Changes to a scenario.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Changes {
    /// Change a value of the scenario; may be repeated
    ///
    /// KEY is dotted. Entries of a list are named by number (traffic.0.senders), by name
    /// (traffic.queries.senders) or, if only one entry has the key, by neither. VALUE is TOML;
    /// texts need no quotes.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Seed of the first repetition; short for --set run.seed=SEED
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
}

impl Changes {
    /// The changes as `KEY=VALUE`, in order.
    pub(crate) fn overrides(&self) -> Vec<String> {
        let seed = self.seed.map(|seed| format!("run.seed={seed}"));
        self.set.iter().cloned().chain(seed).collect()
    }

    /// Whether there are no changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.seed.is_none()
    }
}

/// How runs are executed.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Execution {
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// What is simulated: packets, whole flows by the transports' models, or both, with a table of
    /// how far they part; `packet` and `flow` are short for --set run.level=LEVEL
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub(crate) level: Option<LevelArg>,
    /// Where it runs: in the simulator, with real packets on a testbed of this machine (Linux, as
    /// root), or both, with a table of how far they part; short for --set run.on=PLACE
    #[arg(long, value_enum, value_name = "PLACE", conflicts_with = "level")]
    pub(crate) on: Option<OnArg>,
    /// On a testbed, let the clock of the run be N times slower than the machine's; 1 forbids that
    /// [default: chosen by the rates]; short for --set run.time_scale=N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) time_scale: Option<u32>,
    /// Directory of the results [default: results/NAME with the scenario's name, with --level flow
    /// results/NAME-flow, with --on testbed results/NAME-testbed]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Repeat finished runs, and replace results of other settings
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Also write flows.csv
    #[arg(long)]
    pub(crate) csv: bool,
    #[command(flatten)]
    pub(crate) threads: Threads,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// The level of a simulation, on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LevelArg {
    /// Packets, queues and the transports' own code
    Packet,
    /// Whole flows, by the transports' models
    Flow,
    /// One after the other
    Both,
}

impl LevelArg {
    /// Its name in headings.
    pub(crate) fn name(self) -> &'static str {
        if self == LevelArg::Flow { "flow level" } else { "packet level" }
    }
}

/// Where a scenario runs, on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnArg {
    /// In the simulator
    Simulator,
    /// With real packets, on this machine
    Testbed,
    /// One after the other
    Both,
}

impl Execution {
    /// The changes to the scenario as `KEY=VALUE`, in order.
    pub(crate) fn overrides(&self) -> Vec<String> {
        let level = match self.level {
            Some(LevelArg::Packet) => Some("packet"),
            Some(LevelArg::Flow) => Some("flow"),
            Some(LevelArg::Both) | None => None,
        };
        let level = level.map(|level| format!("run.level={level}"));
        let on = match self.on {
            Some(OnArg::Simulator) => Some("simulator"),
            Some(OnArg::Testbed) => Some("testbed"),
            Some(OnArg::Both) | None => None,
        };
        let on = on.map(|on| format!("run.on={on}"));
        let time_scale = self.time_scale.filter(|_| self.on != Some(OnArg::Simulator));
        let time_scale = time_scale.map(|scale| format!("run.time_scale={scale}"));
        self.changes.overrides().into_iter().chain(level).chain(on).chain(time_scale).collect()
    }

    /// The execution of one of both places. Results of a testbed have a directory of their own.
    pub(crate) fn on_place(&self, on: OnArg) -> Execution {
        let out = self.out.as_ref().map(|out| match on {
            OnArg::Testbed => with_suffix(out, "-testbed"),
            _ => out.clone(),
        });
        Execution { on: Some(on), out, ..self.clone() }
    }

    /// The execution of one of both levels. Results at flow level have a directory of their own.
    pub(crate) fn at(&self, level: LevelArg) -> Execution {
        let out = self.out.as_ref().map(|out| match level {
            LevelArg::Flow => with_suffix(out, "-flow"),
            _ => out.clone(),
        });
        Execution { level: Some(level), out, ..self.clone() }
    }
}

/// A path whose last part ends in `suffix`.
fn with_suffix(path: &std::path::Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// A scenario to run.
#[derive(Debug, Args)]
pub(crate) struct Study {
    /// The scenario, a TOML file
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) execution: Execution,
}

/// What to compare.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// A scenario, a TOML file; or two directories of results, A and B
    #[arg(value_name = "SCENARIO | A B", required = true, num_args = 1..=2)]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Show every column, however wide the table
    #[arg(long)]
    pub(crate) wide: bool,
    /// Show how many fewer deadlines the others miss than this transport [default for sweeps: dctcp
    /// or tcp]
    #[arg(long, value_name = "TRANSPORT")]
    pub(crate) baseline: Option<String>,
}

/// Experiments to reproduce.
#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// Experiments such as ndp/fig14, or papers such as ndp; all if none is named
    #[arg(value_name = "PAPER[/FIGURE]")]
    pub(crate) names: Vec<String>,
    /// Smaller sizes and fewer repetitions, with the same shapes
    #[arg(long)]
    pub(crate) quick: bool,
    /// List the experiments with their claims and the time that each takes, and run nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Where experiments run: in the simulator, with real packets on a testbed of this machine
    /// (Linux, as root; only experiments that have such a part), or both
    #[arg(long, value_enum, value_name = "PLACE", default_value = "simulator")]
    pub(crate) on: OnArg,
    /// Leave out other readings of the papers
    #[arg(long)]
    pub(crate) no_readings: bool,
    /// Folder of the experiments
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    pub(crate) catalogue: PathBuf,
    /// Directory of the results [default: results/reproduce, with --quick results/reproduce-quick]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Repeat finished runs
    #[arg(long)]
    pub(crate) fresh: bool,
    #[command(flatten)]
    pub(crate) threads: Threads,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// A run to repeat.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The manifest.json of a run, or the directory of a run
    #[arg(value_name = "MANIFEST")]
    pub(crate) manifest: PathBuf,
    /// Directory of the files that the scenario names (topologies, sizes, lists of flows)
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Directory of the new run [default: results/NAME-replay, with the scenario's name]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// A run or an interface to capture.
#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// The scenario, a TOML file
    #[arg(required_unless_present = "interface", conflicts_with = "interface")]
    pub(crate) file: Option<PathBuf>,
    /// Capture what passes this network interface instead; needs CAP_NET_RAW
    #[arg(long, value_name = "NAME", conflicts_with = "transport")]
    pub(crate) interface: Option<String>,
    /// With --interface: the UDP port, as source or destination
    #[arg(long, value_name = "PORT", default_value_t = punctual_wire::DEFAULT_PORT)]
    pub(crate) port: u16,
    /// With --interface: how long, such as 10s; otherwise until Ctrl-C
    #[arg(long = "for", value_name = "TIME", requires = "interface")]
    pub(crate) duration: Option<Duration>,
    /// The capture, a pcapng file; an existing file is not replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// The transport; may be omitted if the scenario has one
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: Option<String>,
    /// The capture ends after this many packets; those of a run are counted on each link
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) packets: u32,
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// Flows to explain.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The directory of a run, or a directory that contains runs
    #[arg(value_name = "DIR")]
    pub(crate) run: PathBuf,
    /// The flow, by its number in flows.parquet
    #[arg(value_name = "FLOW", conflicts_with_all = ["worst", "missed", "sample"])]
    pub(crate) flow: Option<u32>,
    /// Explain the N worst flows: by lateness, then by slowdown [default N: 10]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["missed", "sample"])]
    pub(crate) worst: Option<u32>,
    /// Explain the flows that missed their deadline, at most the worst 100
    #[arg(long, conflicts_with = "sample")]
    pub(crate) missed: bool,
    /// Explain N completed flows of each run, and show where their time went by transport; this is
    /// the default, with N = 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sample: Option<u32>,
    /// Only runs of this transport
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: Option<String>,
    /// Directory of the files that the scenario names (topologies, sizes, lists of flows)
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// The options of a capacity search.
#[derive(Debug, Args)]
pub(crate) struct Question {
    /// The key to vary, as for --set: any number of the scenario, with or without a unit
    ///
    /// Several keys separated by commas (KEY,KEY), or the keys of a linked axis of the sweep, are
    /// scaled by one factor.
    #[arg(long, value_name = "KEY")]
    pub(crate) vary: String,
    /// The condition: a metric, >=, <=, > or <, and a number; shares may be in %
    #[arg(long, value_name = "CONDITION")]
    pub(crate) until: String,
    /// The least value to try [default: one step]
    #[arg(long, value_name = "VALUE")]
    pub(crate) from: Option<String>,
    /// The greatest value to try [default: 64 times the scenario's, if the scenario allows it]
    #[arg(long, value_name = "VALUE")]
    pub(crate) to: Option<String>,
    /// The step between values [default: 1; for a number with a unit or decimals a tenth of its
    /// power of ten: 1ms for 30ms]
    #[arg(long, value_name = "VALUE")]
    pub(crate) step: Option<String>,
    /// Find the smallest value for which the condition holds; for deadlines, rates and other keys
    /// whose larger values make it easier
    #[arg(long)]
    pub(crate) smallest: bool,
    /// Maximum repetitions of a value, added while its interval contains the threshold. At the
    /// maximum the mean decides, and the output says that it is not sure [default: 4 times the
    /// initial repetitions, which are the scenario's and at least 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_repetitions: Option<u32>,
}
