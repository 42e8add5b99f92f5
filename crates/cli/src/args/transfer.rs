//! Arguments of commands that send and receive through sockets.

use super::{Json, Printing};
use clap::Args;
use punctual_core::{Bytes, Duration, Rate};
use punctual_host::HostTransport;
use std::path::PathBuf;

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
    /// The transport: ndp, or d3, rcpdc or pdq, which use the deadline and ports that grant rates
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) transport: HostTransport,
    #[command(flatten)]
    pub(crate) daemon: Daemon,
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
    #[arg(long, value_name = "ADDR", conflicts_with = "via")]
    pub(crate) listen: Option<String>,
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
    pub(crate) daemon: Daemon,
    #[command(flatten)]
    pub(crate) secret: Secret,
    #[command(flatten)]
    pub(crate) link: Link,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// The host daemon of a transfer.
#[derive(Debug, Args)]
pub(crate) struct Daemon {
    /// Attach to the host daemon at this Unix socket, whose address, rate, MTU and key count
    /// [default: $PUNCTUAL_HOSTD; without both, this process has a UDP socket of its own]
    #[arg(long, value_name = "SOCKET")]
    pub(crate) via: Option<PathBuf>,
    /// The service that the receiver has: receivers that share a host daemon need different ones
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
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

/// The link that a transfer uses.
#[derive(Debug, Args)]
pub(crate) struct Link {
    /// Rate at which packets are sent and pulled, such as 10Gbps [default: 1Gbps]
    #[arg(long)]
    pub(crate) rate: Option<Rate>,
    /// Largest IP packet, such as 9000B [default: 1500B]
    #[arg(long)]
    pub(crate) mtu: Option<Bytes>,
    /// Receive packets that switches trimmed in hardware at these interfaces (needs CAP_NET_RAW)
    #[arg(long, value_name = "INTERFACE", value_delimiter = ',')]
    pub(crate) trims: Vec<String>,
}

impl Link {
    /// Where packets arrive that switches trimmed in hardware, if the user says so.
    pub(crate) fn hardware_trims(&self) -> Option<punctual_host::HardwareTrims> {
        let interfaces = self.trims.clone();
        (!interfaces.is_empty()).then_some(punctual_host::HardwareTrims { interfaces, dscp: None })
    }
}
