//! The command line.

use crate::help::{
    BENCH_HELP, CAPACITY_HELP, CAPTURE_HELP, CHECK_HELP, COMPARE_HELP, COMPLETIONS_HELP,
    CONVERT_HELP, EXAMPLES, EXPLAIN_HELP, INIT_HELP, LIST_HELP, MAN_HELP, PERF_HELP, REPLAY_HELP,
    REPORT_HELP, REPRODUCE_HELP, RUN_HELP, SEND_HELP, SWEEP_HELP, SWITCH_HELP, TESTBED_HELP,
};
use clap::{Args, Parser, Subcommand};
use punctual_core::{Bytes, Duration, Rate};
use std::path::PathBuf;

/// Datacenter transports that finish on time: compare NDP, D3, PDQ, D2TCP, DCTCP, TCP and others
/// in a deterministic simulation, or move files with the same code.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How results are printed.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Printing {
    /// Print results as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress, only results and errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// How results are printed by commands without progress.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Json {
    /// Print results as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
}

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

/// The number of parallel runs.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Threads {
    /// Number of parallel runs [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

impl Threads {
    pub(crate) fn get(self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, |n| n.get());
        self.threads.map_or_else(all, usize::from)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run every transport of a scenario and print one line per run
    #[command(after_help = RUN_HELP)]
    Run(Study),
    /// Compare the transports of a scenario on the same workload in one table, or test whether two
    /// directories of results differ by more than chance
    #[command(after_help = COMPARE_HELP)]
    Compare(Compare),
    /// Find the largest value of a key for which a condition holds, for every transport
    #[command(after_help = CAPACITY_HELP)]
    Capacity {
        #[command(flatten)]
        study: Study,
        #[command(flatten)]
        question: Question,
    },
    /// Write results as one HTML page with tables and plots, which works offline
    #[command(after_help = REPORT_HELP)]
    Report {
        /// A directory of `run`, `compare` or `capacity`, or of a single run within it
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Open the page in a browser
        #[arg(long)]
        open: bool,
        /// File of the page [default: DIR/report.html]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        json: Json,
    },
    /// Repeat a run and explain where a flow's time went and why it missed its deadline
    #[command(after_help = EXPLAIN_HELP)]
    Explain(Explain),
    /// Run the papers' experiments and compare the results with the papers
    #[command(after_help = REPRODUCE_HELP)]
    Reproduce(Reproduce),
    /// Write a commented scenario to start from
    #[command(after_help = INIT_HELP)]
    Init {
        /// The file; an existing file is not replaced
        #[arg(value_name = "FILE", default_value = "scenario.toml")]
        file: PathBuf,
        #[command(flatten)]
        json: Json,
    },
    /// Distribute the runs of a scenario or of a capacity search over machines, and merge them
    #[command(after_help = SWEEP_HELP)]
    Sweep {
        #[command(subcommand)]
        command: crate::commands::sweep::SweepCommand,
    },
    /// Repeat the run of a manifest and compare the results byte by byte
    #[command(after_help = REPLAY_HELP)]
    Replay(Replay),
    /// Run a scenario's first point and write the packets of its links as a capture for Wireshark
    #[command(after_help = CAPTURE_HELP)]
    Capture(Capture),
    /// Convert lists of flows between formats, list the flows of a scenario, read HPCC topologies
    #[command(after_help = CONVERT_HELP)]
    Convert(crate::commands::convert::Convert),
    /// Print a shell script that completes commands and options
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages
    #[command(after_help = MAN_HELP)]
    Man {
        /// The directory of the pages
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Check a scenario and show what it would run
    #[command(after_help = CHECK_HELP)]
    Check {
        /// The scenario, a TOML file
        file: PathBuf,
        #[command(flatten)]
        changes: Changes,
        #[command(flatten)]
        json: Json,
    },
    /// List transports, topologies, traffic patterns, size distributions, queues and scenarios
    #[command(after_help = LIST_HELP)]
    List {
        #[command(flatten)]
        json: Json,
    },
    /// Send files over NDP on UDP and wait until the receiver has checked and stored them
    #[command(after_help = SEND_HELP)]
    Send(Send),
    /// Wait for files over NDP on UDP, verify them and store them
    #[command(after_help = SEND_HELP)]
    Receive(Receive),
    /// Measure latency and throughput of NDP, bare UDP and TCP between two hosts
    #[command(after_help = PERF_HELP)]
    Perf {
        /// The server, HOST:PORT; without it a server is started on this machine
        #[arg(value_name = "ADDR", conflicts_with = "listen")]
        address: Option<String>,
        /// Serve measurements at ADDRESS:PORT until interrupted
        #[arg(long, value_name = "ADDR")]
        listen: Option<String>,
        /// Bytes of a request and of its response
        #[arg(long, default_value = "1KB")]
        size: Bytes,
        /// Number of requests
        #[arg(long, default_value_t = 5_000)]
        count: usize,
        /// Bytes of the throughput measurement
        #[arg(long, default_value = "200MB")]
        bulk: Bytes,
        /// Where client and server run on this machine; with ADDR or --listen, only this end
        #[arg(long, value_enum, default_value = "any")]
        placement: Placement,
        /// Wait for packets in a loop instead of sleeping in the kernel
        #[arg(long)]
        spin: bool,
        #[command(flatten)]
        secret: Secret,
        #[command(flatten)]
        link: Link,
        #[command(flatten)]
        printing: Printing,
    },
    /// Measure round trips to an endpoint, such as a server of `perf`
    #[command(after_help = PERF_HELP)]
    Ping {
        /// The endpoint, HOST:PORT
        #[arg(value_name = "ADDR")]
        address: String,
        /// Number of packets
        #[arg(long, default_value_t = 4)]
        count: usize,
        /// Time between packets [default: 1s]
        #[arg(long, value_name = "TIME")]
        interval: Option<Duration>,
        #[command(flatten)]
        printing: Printing,
    },
    /// Send and receive for all processes of this host that attach, until Ctrl-C or SIGTERM
    #[cfg(target_os = "linux")]
    #[command(after_help = crate::commands::hostd::HELP)]
    Hostd(crate::commands::hostd::HostdArgs),
    /// Forward packets between network interfaces with the simulator's ports, until Ctrl-C
    #[cfg(target_os = "linux")]
    #[command(after_help = SWITCH_HELP)]
    Switch(Switch),
    /// Build a scenario's network from network namespaces and a software switch
    #[cfg(target_os = "linux")]
    #[command(after_help = TESTBED_HELP)]
    Testbed {
        #[command(subcommand)]
        command: TestbedCommand,
    },
    /// Load D2TCP into this machine's kernel, list the sockets that use it, and remove it
    #[command(after_help = crate::commands::kernel::HELP)]
    Kernel {
        #[command(subcommand)]
        command: crate::commands::kernel::KernelCommand,
    },
    /// Measure the simulator's speed on fixed scenarios
    #[command(after_help = BENCH_HELP)]
    Bench {
        /// The benchmarks; all if none is named
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Measure in this process instead of one process per benchmark
        #[arg(long, hide = true)]
        here: bool,
        #[command(flatten)]
        printing: Printing,
    },
}

/// Files to send.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The files
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The receiver, HOST:PORT
    #[arg(required = true, value_name = "ADDR")]
    pub(crate) address: String,
    /// The deadline of every file, from now until it is stored, such as 50ms; a late transfer still
    /// completes, with exit code 7
    #[arg(long, value_name = "TIME")]
    pub(crate) deadline: Option<Duration>,
    #[command(flatten)]
    pub(crate) secret: Secret,
    #[command(flatten)]
    pub(crate) link: Link,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// Files to receive.
#[derive(Debug, Args)]
pub(crate) struct Receive {
    /// The address to listen on, ADDRESS:PORT; port 0 takes any free port
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: String,
    /// Receive one file and store it under this name
    #[arg(long, value_name = "FILE", required_unless_present = "into", conflicts_with = "into")]
    pub(crate) out: Option<PathBuf>,
    /// Receive files into this directory, under the names that their senders give, until Ctrl-C
    #[arg(long, value_name = "DIR")]
    pub(crate) into: Option<PathBuf>,
    /// With --into: stop when N files are stored
    #[arg(long, value_name = "N", requires = "into")]
    pub(crate) count: Option<usize>,
    /// Replace existing files
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Neither continue an interrupted transfer nor keep what arrived of one
    #[arg(long)]
    pub(crate) no_resume: bool,
    /// How long to wait for a sender, such as 30s [default: 300s; without limit with --into alone]
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) secret: Secret,
    #[command(flatten)]
    pub(crate) link: Link,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// The processors of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Placement {
    /// Wherever the scheduler puts them
    Any,
    /// Client and server share the first core
    SameCore,
    /// The client has the first core, the server the second
    TwoCores,
}

/// The key of keyed mode.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Secret {
    /// A file with a secret that both ends share: packets are authenticated
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

/// A switch.
#[derive(Debug, Args)]
pub(crate) struct Switch {
    /// The configuration, a TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Write the report to this file every second, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Serve counters to Prometheus at this address, such as 127.0.0.1:9100
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    /// Run in a session of its own with a high priority
    #[arg(long)]
    pub(crate) priority: bool,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// What to do with a testbed.
#[derive(Debug, Subcommand)]
pub(crate) enum TestbedCommand {
    /// Build the network
    Up(TestbedUp),
    /// Show what is there and whether its timing is valid
    Status {
        /// The scenario, a TOML file
        scenario: PathBuf,
        #[command(flatten)]
        json: Json,
    },
    /// Run a command at a host
    Exec {
        /// The scenario, a TOML file
        scenario: PathBuf,
        /// The number of the host
        host: String,
        /// The command and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Start the switch again, also after a crash; hosts and their sockets stay
    Restart {
        /// The scenario, a TOML file
        scenario: PathBuf,
    },
    /// Remove everything that `up` made
    Down {
        /// The scenario, a TOML file
        scenario: PathBuf,
    },
}

/// A testbed to build.
#[derive(Debug, Args)]
pub(crate) struct TestbedUp {
    /// The scenario, a TOML file
    pub(crate) scenario: PathBuf,
    /// The transport whose queues and controllers the ports have [default: the scenario's first]
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: Option<String>,
    /// Let the switch sleep while nothing happens: it needs no core, and is late by 30 us or more
    #[arg(long)]
    pub(crate) sleep: bool,
    #[command(flatten)]
    pub(crate) changes: Changes,
}

/// The link that a transfer uses.
#[derive(Debug, Args)]
pub(crate) struct Link {
    /// Rate at which packets are sent and pulled, such as 10Gbps [default: 1Gbps]
    #[arg(long)]
    pub(crate) rate: Option<Rate>,
    /// Largest IP packet, such as 9000B [default: 1500B]
    #[arg(long)]
    pub(crate) mtu: Option<Bytes>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn arguments_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let example = format!("  punctual {}", command.get_name());
            assert!(help.contains(&example), "{}", command.get_name());
        }
    }

    #[test]
    fn changes_are_in_order() {
        let line = "punctual run a.toml --set a=1 --seed 3 --set b=2";
        let Command::Run(study) = Cli::parse_from(line.split(' ')).command else { panic!("run") };
        assert_eq!(study.execution.changes.overrides(), ["a=1", "b=2", "run.seed=3"]);
    }

    /// A flag that would be ignored is refused.
    #[test]
    fn commands_have_only_what_they_use() {
        for line in [
            "list --set a=1",
            "list --threads 2",
            "report dir --seed 3",
            "explain dir --set a=1",
            "replay dir --seed 3",
            "check a.toml --out dir",
            "send file addr --out dir",
            "bench --threads 2",
        ] {
            let line = format!("punctual {line}");
            let error = Cli::try_parse_from(line.split(' ')).expect_err(&line);
            assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument, "{line}");
        }
    }
}
