//! Arguments of the switch and of testbeds.

use super::{Changes, Json, Printing};
use clap::{Args, Subcommand};
use std::path::PathBuf;

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
