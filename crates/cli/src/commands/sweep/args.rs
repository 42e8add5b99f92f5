//! The command line of `punctual sweep`.

use crate::args::{Changes, Json, Printing, Threads};
use clap::{Args, Subcommand};
use punctual_lab::Question;
use std::path::PathBuf;

/// What to do with a distributed sweep.
#[derive(Debug, Subcommand)]
pub(crate) enum SweepCommand {
    /// Write a numbered plan: one task for each run
    Plan(SweepPlan),
    /// Run some tasks of a plan; finished ones are kept
    Run(SweepRun),
    /// Show how many tasks are finished, and which are not
    Status {
        /// The directory of the plan
        dir: PathBuf,
        /// Compare every file with its hash, as `merge` does
        #[arg(long)]
        verify: bool,
        #[command(flatten)]
        json: Json,
    },
    /// Check all parts and write one directory of results, or plan the next round of a capacity
    /// search (exit code 10)
    Merge(SweepMerge),
    /// Print a script that runs the tasks with an engine
    Emit(SweepEmit),
}

/// A sweep to plan.
#[derive(Debug, Args)]
pub(crate) struct SweepPlan {
    /// The scenario, a TOML file
    pub(crate) file: PathBuf,
    /// The directory of the plan and its parts, on storage that all machines share, or copied to
    /// each
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// What is simulated: short for --set run.level=LEVEL
    #[arg(long, value_parser = ["packet", "flow"], value_name = "LEVEL")]
    pub(crate) level: Option<String>,
    /// Runs also have a flows.csv
    #[arg(long)]
    pub(crate) csv: bool,
    #[command(flatten)]
    pub(crate) question: PlanQuestion,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// A capacity search to plan, in rounds. The options are those of `capacity`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Capacity search, in rounds")]
pub(crate) struct PlanQuestion {
    /// The key to vary
    #[arg(long, value_name = "KEY", requires = "until")]
    pub(crate) vary: Option<String>,
    /// The condition
    #[arg(long, value_name = "CONDITION", requires = "vary")]
    pub(crate) until: Option<String>,
    /// The least value to try
    #[arg(long, value_name = "VALUE", requires = "vary")]
    pub(crate) from: Option<String>,
    /// The greatest value to try
    #[arg(long, value_name = "VALUE", requires = "vary")]
    pub(crate) to: Option<String>,
    /// The step between values
    #[arg(long, value_name = "VALUE", requires = "vary")]
    pub(crate) step: Option<String>,
    /// Find the smallest value for which the condition holds
    #[arg(long, requires = "vary")]
    pub(crate) smallest: bool,
    /// Maximum repetitions of a value
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(requires = "vary")]
    pub(crate) max_repetitions: Option<u32>,
}

/// Tasks to run.
#[derive(Debug, Args)]
pub(crate) struct SweepRun {
    /// The directory of the plan
    pub(crate) dir: PathBuf,
    /// Run shard I of N, counted from 0: every task is in exactly one shard
    #[arg(long, value_name = "I/N", conflicts_with = "task")]
    pub(crate) shard: Option<String>,
    /// Run the tasks with these numbers, such as 7 or 0-9,12
    #[arg(long, value_name = "K")]
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) threads: Threads,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// A sweep to merge.
#[derive(Debug, Args)]
pub(crate) struct SweepMerge {
    /// The directory of the plan
    pub(crate) dir: PathBuf,
    /// Copies of that directory with parts that other machines made; may be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Vec<PathBuf>,
    /// Directory of the results [default: results/NAME with the scenario's name]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) threads: Threads,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// A script to print.
#[derive(Debug, Args)]
pub(crate) struct SweepEmit {
    /// The engine
    #[arg(value_enum)]
    pub(crate) engine: Engine,
    /// The directory of the plan
    pub(crate) dir: PathBuf,
    /// Number of shards [default: 4 for each of --jobs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) shards: Option<u32>,
    /// Shards that run at a time
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) jobs: u32,
}

/// An engine that runs shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Engine {
    /// A job array
    Slurm,
    /// A task array
    Hyperqueue,
    /// An indexed job
    Kubernetes,
    /// GNU parallel, on this machine or over ssh
    Parallel,
}

impl SweepPlan {
    /// The changes to the scenario as `KEY=VALUE`, in order.
    pub(super) fn overrides(&self) -> Vec<String> {
        let level = self.level.as_ref().map(|level| format!("run.level={level}"));
        self.changes.overrides().into_iter().chain(level).collect()
    }
}

impl PlanQuestion {
    /// The question, if there is one.
    pub(super) fn question(&self) -> Option<Question> {
        Some(Question {
            vary: self.vary.clone()?,
            until: self.until.clone()?,
            from: self.from.clone(),
            to: self.to.clone(),
            step: self.step.clone(),
            smallest: self.smallest,
            repetitions_max: self.max_repetitions,
        })
    }
}
