//! `punctual hostd`: the host daemon.

use super::transfer::resolve;
use super::{STOP, metrics, stop_on_ctrl_c};
use crate::exit::UsageError;
use anyhow::Context as _;
use clap::Args;
use punctual_core::{Bytes, Duration, Rate};
use punctual_host::{
    EndpointOptions, HostNic, Hostd, HostdOptions, HostdStats, Key, default_hostd_socket,
};
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Processes attach with `Endpoint::attach` of the crate punctual-host. The daemon owns the UDP socket,
NDP's pull queue and the pacing for all of them. It needs no capability for ports from 1024 on. With
NOTIFY_SOCKET set, it tells systemd when it is ready (docs/hostd.md).

SIGTERM and Ctrl-C: no more clients and messages; those under way have --grace to end. Exit code 0.

Examples:
  punctual hostd --listen 0.0.0.0:7000 --rate 10Gbps --metrics 127.0.0.1:9101
  punctual hostd --socket /tmp/hostd.sock --mode 600
  PUNCTUAL_HOSTD=/tmp/hostd.sock punctual ping 10.0.0.2:7000";

/// A host daemon.
#[derive(Debug, Args)]
pub(crate) struct HostdArgs {
    /// The UDP address of the host, ADDRESS:PORT; port 0 takes any free port
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:7000")]
    listen: String,
    /// The Unix socket at which processes attach [default: $PUNCTUAL_HOSTD, or
    /// /run/punctual/hostd.sock, or $XDG_RUNTIME_DIR/punctual/hostd.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Permissions of the socket, in octal: who may attach
    #[arg(long, value_name = "MODE", default_value = "660", value_parser = parse_mode)]
    mode: u32,
    /// The group of the socket, by name or number [default: that of the daemon]
    #[arg(long)]
    group: Option<String>,
    /// Most processes attached at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    clients: usize,
    /// Memory for the messages that one process sends
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    send_memory: Bytes,
    /// Memory for the messages that one process receives and has not released
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    receive_memory: Bytes,
    /// A further network interface, by an address of it; may be repeated. With %NAME, packets are
    /// bound to the interface of that name
    #[arg(long, value_name = "ADDRESS[%NAME]", value_parser = parse_nic)]
    nic: Vec<HostNic>,
    /// Rate at which packets are sent and pulled: the rate of each network interface
    #[arg(long, default_value = "10Gbps")]
    rate: Rate,
    /// Largest IP packet
    #[arg(long, default_value = "1500B")]
    mtu: Bytes,
    /// A file with a secret that all hosts share: packets are authenticated
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Serve counters to Prometheus at this address, such as 127.0.0.1:9101
    #[arg(long, value_name = "ADDR")]
    metrics: Option<std::net::SocketAddr>,
    /// How long messages under way may take to end when the daemon is stopped
    #[arg(long, value_name = "TIME", default_value = "5s")]
    grace: Duration,
    /// Never sleep: for a daemon that has a core of its own
    #[arg(long)]
    spin: bool,
    /// Show only errors
    #[arg(long, short)]
    quiet: bool,
}

fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "write an octal number such as 660".into())
}

fn parse_nic(text: &str) -> Result<HostNic, String> {
    let (address, interface) = match text.split_once('%') {
        Some((address, name)) => (address, Some(name.to_owned())),
        None => (text, None),
    };
    let address = address.parse().map_err(|_| "write an IP address, such as 10.0.1.2%eth1")?;
    Ok(HostNic { address, interface })
}

/// The number of a group.
fn group_of(name: &str) -> anyhow::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let group = nix::unistd::Group::from_name(name).context("cannot read the list of groups")?;
    let group = group.ok_or_else(|| UsageError(format!("--group {name}: no such group")))?;
    Ok(group.gid.as_raw())
}

fn memory(bytes: Bytes) -> usize {
    usize::try_from(bytes.get()).unwrap_or(usize::MAX)
}

/// Runs a host daemon until it is interrupted.
pub(crate) fn hostd(args: &HostdArgs) -> anyhow::Result<()> {
    let defaults = EndpointOptions::default();
    let key = args
        .key
        .as_ref()
        .map(|path| Key::from_file(path).with_context(|| format!("{}", path.display())))
        .transpose()?;
    let [send, receive] = [args.send_memory, args.receive_memory].map(memory);
    let endpoint = EndpointOptions {
        rate: args.rate,
        mtu: args.mtu,
        key,
        nics: args.nic.clone(),
        spin: args.spin,
        // One client at its limit leaves room for others.
        send_memory: defaults.send_memory.max(send.saturating_mul(4)),
        receive_memory: defaults.receive_memory.max(receive.saturating_mul(4)),
        ..defaults
    };
    let options = HostdOptions {
        socket: args.socket.clone().unwrap_or_else(default_hostd_socket),
        mode: args.mode,
        group: args.group.as_deref().map(group_of).transpose()?,
        endpoint,
        clients_max: args.clients,
        client_send_memory: send,
        client_receive_memory: receive,
        grace: std::time::Duration::from_nanos(args.grace.as_nanos()),
        ..HostdOptions::default()
    };
    stop_on_ctrl_c()?;
    let socket = options.socket.clone();
    let mut hostd = Hostd::bind(resolve(&args.listen)?, options)?;
    let text = args.metrics.map(metrics::serve).transpose()?;
    let mut publish = |stats: &HostdStats| {
        if let Some(text) = &text {
            *text.lock().expect("no thread panics") = stats.prometheus();
        }
    };
    publish(&hostd.stats());
    if !args.quiet {
        let local = hostd.local_addr();
        let _ =
            writeln!(std::io::stderr(), "listening on {local}, clients at {}", socket.display());
    }
    notify_systemd("READY=1");
    let result = hostd.run(&STOP, &mut publish);
    notify_systemd("STOPPING=1");
    Ok(result?)
}

/// Reports the state of a service to systemd, if it runs this process.
fn notify_systemd(state: &str) {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::net::SocketAddr;
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&name),
    };
    if let (Ok(socket), Ok(address)) = (UnixDatagram::unbound(), address) {
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}
