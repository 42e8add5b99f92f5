//! The command line.

mod scenario;
mod switch;
mod transfer;

pub(crate) use scenario::{
    Capture, Changes, Compare, Execution, Explain, LevelArg, OnArg, Question, Replay, Reproduce,
    Study,
};
pub(crate) use switch::{Switch, TestbedCommand, TestbedUp};
pub(crate) use transfer::{Daemon, Link, Placement, Receive, Secret, Send};

use crate::help::{
    BENCH_HELP, CAPACITY_HELP, CAPTURE_HELP, CHECK_HELP, COMPARE_HELP, COMPLETIONS_HELP,
    CONVERT_HELP, EXAMPLES, EXPLAIN_HELP, INIT_HELP, LIST_HELP, MAN_HELP, PERF_HELP, REPLAY_HELP,
    REPORT_HELP, REPRODUCE_HELP, RUN_HELP, SEND_HELP, SWEEP_HELP, SWITCH_HELP, TESTBED_HELP,
};
use clap::{Args, Parser, Subcommand};
use punctual_core::{Bytes, Duration};
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

/// The number of threads.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Threads {
    /// Number of threads: as many runs at a time, or several threads for each run if there are
    /// fewer runs [default: one per processor]
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
        /// Threads that each run may use
        #[arg(
            long,
            value_name = "N",
            default_value = "1",
            value_parser = clap::value_parser!(u16).range(1..)
        )]
        threads: u16,
        #[command(flatten)]
        printing: Printing,
    },
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
            "check a.toml --threads 2",
        ] {
            let line = format!("punctual {line}");
            let error = Cli::try_parse_from(line.split(' ')).expect_err(&line);
            assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument, "{line}");
        }
    }
}
