//! `punctual kernel`: D2TCP in this machine's kernel.

#[cfg(feature = "kernel")]
mod work;

use crate::args::Json;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[cfg(feature = "kernel")]
pub(crate) use work::kernel;

pub(crate) const HELP: &str = "\
Loading needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; applications need no privilege.

Examples:
  punctual kernel doctor
  punctual kernel load --default
  punctual kernel load --cgroup /sys/fs/cgroup/search --adopt
  punctual kernel load --route 10.0.0.0/24
  punctual kernel load --mark eth0 --mark-packets 20 --mark-only
  punctual kernel status
  punctual kernel unload";

#[derive(Debug, Subcommand)]
pub(crate) enum KernelCommand {
    /// Load the congestion controls d2tcp and pn_dctcp, and the socket options for deadlines
    Load(Load),
    /// Show what is loaded and the sockets that use it, in all network namespaces
    Status {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        json: Json,
    },
    /// Restore what `load` changed and remove the programs; connections that use them keep them
    Unload {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        json: Json,
    },
    /// Show what this machine lacks, and how to get it
    Doctor {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        json: Json,
    },
}

/// Where pins and state are kept.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Directory of the pinned programs, on a BPF file system [default: /sys/fs/bpf/punctual]
    #[arg(long, value_name = "DIR")]
    pins: Option<PathBuf>,
    /// File that says what to restore [default: /run/punctual/kernel.json]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
}

/// What to load, and who uses it.
#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Sockets of this control group and those below take deadlines [default: all]
    #[arg(long, value_name = "DIR")]
    cgroup: Option<PathBuf>,
    /// Connections and listeners of the control group get D2TCP, whatever the application asks
    #[arg(long)]
    adopt: bool,
    /// Make D2TCP the default of the network namespace
    #[arg(long)]
    default: bool,
    /// Give the route to exactly this prefix D2TCP; may be repeated
    #[arg(long = "route", value_name = "PREFIX")]
    routes: Vec<String>,
    /// The network namespace of --default, --route and --mark: a path, or a name of `ip netns`
    #[arg(long, value_name = "NAME")]
    netns: Option<PathBuf>,
    /// Mark packets that leave by this device above a backlog; may be repeated
    #[arg(long = "mark", value_name = "DEVICE")]
    mark_devices: Vec<String>,
    /// The backlog above which packets are marked, in packets of 1514 B
    #[arg(long, value_name = "K", default_value_t = 30, requires = "mark_devices")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    mark_packets: u32,
    /// Load nothing but the marker, on a machine that forwards
    #[arg(long, requires = "mark_devices", conflicts_with_all = ["adopt", "default", "routes"])]
    mark_only: bool,
    /// The name of D2TCP
    #[arg(long, value_name = "NAME", default_value = "d2tcp")]
    d2tcp: String,
    /// The name of DCTCP, which is D2TCP's code with d = 1
    #[arg(long, value_name = "NAME", default_value = "pn_dctcp")]
    dctcp: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    json: Json,
}

/// Refuses: this build cannot load BPF programs.
#[cfg(not(feature = "kernel"))]
pub(crate) fn kernel(_: &KernelCommand) -> anyhow::Result<()> {
    let message = "this `punctual` was built without the feature `kernel`; install libelf-dev, \
                   zlib1g-dev and pkg-config, and build it with `--features kernel`";
    Err(crate::exit::UsageError(message.into()).into())
}
