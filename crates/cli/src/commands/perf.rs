//! `punctual perf` and `punctual ping`: what the host stack achieves on this machine and network.

use super::transfer::{read_key, resolve};
use super::{STOP, stop_on_ctrl_c};
use crate::args::{Link, Placement, Printing};
use anyhow::Context as _;
use punctual_core::Duration;
use punctual_host::perf::{self, Connections, Latencies, PerfServer, Waiting};
use punctual_host::{Endpoint, EndpointOptions, PingError};
use serde_json::json;
use std::io::{BufRead as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What `perf` measures.
pub(crate) struct Perf<'a> {
    pub(crate) address: Option<&'a str>,
    pub(crate) listen: Option<&'a str>,
    pub(crate) size: usize,
    pub(crate) count: usize,
    pub(crate) bulk: usize,
    pub(crate) placement: Placement,
    pub(crate) spins: bool,
    pub(crate) key: Option<&'a Path>,
}

fn options(link: &Link, key: Option<&Path>) -> anyhow::Result<EndpointOptions> {
    let defaults = EndpointOptions::default();
    Ok(EndpointOptions {
        rate: link.rate.unwrap_or(defaults.rate),
        mtu: link.mtu.unwrap_or(defaults.mtu),
        key: read_key(key)?,
        trims: link.hardware_trims(),
        ..defaults
    })
}

/// A server in another process of this machine, killed when dropped.
struct LocalServer(Child);

impl Drop for LocalServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_server(perf: &Perf<'_>, link: &Link) -> anyhow::Result<(LocalServer, SocketAddr)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["perf", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
    if let Some(rate) = link.rate {
        command.arg("--rate").arg(format!("{}bps", rate.as_bps()));
    }
    if let Some(mtu) = link.mtu {
        command.arg("--mtu").arg(format!("{}B", mtu.get()));
    }
    if let Some(key) = perf.key {
        command.arg("--key").arg(key);
    }
    match perf.placement {
        Placement::Any => {}
        Placement::SameCore => drop(command.args(["--placement", "same-core"])),
        Placement::TwoCores => drop(command.args(["--placement", "two-cores"])),
    }
    if perf.spins {
        command.arg("--spin");
    }
    let mut server = LocalServer(command.spawn()?);
    let stderr = server.0.stderr.take().context("no pipe to the server")?;
    let mut line = String::new();
    std::io::BufReader::new(stderr).read_line(&mut line)?;
    let address = line.trim().rsplit(' ').next().unwrap_or_default();
    let address = address.parse().with_context(|| format!("the server says: {}", line.trim()))?;
    Ok((server, address))
}

/// Keeps this process on the core of its role: the client's is the first, the server's the first or
/// the second.
fn pin(placement: Placement, is_server: bool) -> anyhow::Result<()> {
    let core = match (placement, is_server) {
        (Placement::Any, _) => return Ok(()),
        (Placement::TwoCores, true) => 1,
        _ => 0,
    };
    let mut cores = nix::sched::CpuSet::new();
    cores.set(core).context("no such core")?;
    let pinned = nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cores);
    pinned.with_context(|| format!("cannot run on core {core}; try --placement any"))
}

pub(crate) fn perf(perf: &Perf<'_>, link: &Link, printing: &Printing) -> anyhow::Result<()> {
    stop_on_ctrl_c()?;
    let options = options(link, perf.key)?;
    let waiting = if perf.spins { Waiting::Spin } else { Waiting::Sleep };
    pin(perf.placement, perf.listen.is_some())?;
    if let Some(listen) = perf.listen {
        let server = PerfServer::start(resolve(listen)?, options, waiting)?;
        let _ = writeln!(std::io::stderr(), "listening on {}", server.local_addr());
        server.run(&STOP);
        return Ok(());
    }
    let local = match perf.address {
        None => Some(start_server(perf, link)?),
        Some(_) => None,
    };
    let server = match (&local, perf.address) {
        (Some((_, address)), _) => *address,
        (None, address) => resolve(address.unwrap_or_default())?,
    };
    let place = placement_text(perf, local.is_some(), server);
    measure(perf, options, server, &place, waiting, printing)
}

/// Where and how both ends wait, in words.
fn placement_text(perf: &Perf<'_>, is_local: bool, server: SocketAddr) -> String {
    let ends = match is_local {
        true => "two processes on this machine, loopback".into(),
        false => format!("client on this machine, server at {server}"),
    };
    let cores = match (perf.placement, is_local) {
        (Placement::Any, _) => "not pinned",
        (Placement::SameCore, true) => "both on core 0",
        (Placement::TwoCores, true) => "client on core 0, server on core 1",
        (_, false) => "client on core 0",
    };
    let waiting = if perf.spins { "spinning" } else { "sleeping" };
    format!("{ends}, {cores}, {waiting}")
}

type Latency = (&'static str, Result<Latencies, String>);

/// Measures the protocols in turns, so that all meet the same disturbances of the machine.
fn latencies(
    perf: &Perf<'_>,
    client: &Endpoint,
    server: SocketAddr,
    waiting: Waiting,
) -> anyhow::Result<Vec<Latency>> {
    let size = perf.size;
    let turns = (perf.count / 100).clamp(1, TURNS);
    let count = perf.count / turns;
    // Ports of closed connections are not free for a minute.
    let few = count.min(2_000 / turns);
    let tcp = |count, connections| perf::tcp_latency(server, size, count, connections, waiting);
    let mut latencies: Vec<Latency> = Vec::new();
    for _ in 0..turns {
        let fast = match tcp(few, Connections::FastOpen) {
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => Err(error.to_string()),
            measured => Ok(measured?),
        };
        #[allow(unused_mut, reason = "QUIC adds two")]
        let mut turn: Vec<Latency> = vec![
            ("UDP, bare", Ok(perf::udp_latency(server, size, count, waiting)?)),
            ("NDP", Ok(perf::ndp_latency(client, server, size, count)?)),
            ("TCP, one connection", Ok(tcp(count, Connections::One)?)),
            ("TCP, new connections", Ok(tcp(few, Connections::Each)?)),
            ("TCP, Fast Open", fast),
        ];
        #[cfg(feature = "quic")]
        for (name, count, is_new_each) in
            [("QUIC, one connection", count, false), ("QUIC, new connections", few, true)]
        {
            let measured = perf::quic_latency(server, size, count, is_new_each);
            turn.push((name, measured.map_err(|error| error.to_string())));
        }
        if latencies.is_empty() {
            latencies = turn;
        } else {
            for ((_, all), (_, new)) in latencies.iter_mut().zip(turn) {
                match (all, new) {
                    (Ok(all), Ok(new)) => all.add(new),
                    // One turn without a measurement is none.
                    (all, Err(why)) => *all = Err(why),
                    (Err(_), Ok(_)) => {}
                }
            }
        }
    }
    Ok(latencies)
}

/// Most turns in which the protocols are measured.
const TURNS: usize = 10;

fn measure(
    perf: &Perf<'_>,
    options: EndpointOptions,
    server: SocketAddr,
    placement: &str,
    waiting: Waiting,
    printing: &Printing,
) -> anyhow::Result<()> {
    let mtu = options.mtu.get();
    let any = if server.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let options = EndpointOptions { spin: perf.spins, ..options };
    let client = Endpoint::open(any.parse()?, options)?;
    let (size, count) = (perf.size, perf.count);
    let latencies = latencies(perf, &client, server, waiting)?;
    let second = std::time::Duration::from_secs(1);
    let bulk = [
        ("UDP, sendmmsg", perf::udp_bulk(server, mtu as usize, second)?),
        ("NDP", perf::ndp_bulk(&client, server, perf.bulk)?),
        ("TCP", perf::tcp_bulk(server, perf.bulk)?),
    ];
    let mut out = std::io::stdout().lock();
    let micros = |l: &Latencies, p| l.percentile(p).as_secs_f64() * 1e6;
    if printing.json {
        let value = |latency: &Result<Latencies, String>| match latency {
            Ok(l) => json!({
                "p50_us": micros(l, 50.0), "p90_us": micros(l, 90.0), "p99_us": micros(l, 99.0),
            }),
            Err(why) => json!({ "not_measured": why }),
        };
        let latency: serde_json::Map<String, serde_json::Value> =
            latencies.iter().map(|(name, l)| (name.to_string(), value(l))).collect();
        let bulk: serde_json::Map<String, serde_json::Value> =
            bulk.iter().map(|(name, rate)| (name.to_string(), json!(rate * 8.0 / 1e9))).collect();
        let object = json!({
            "placement": placement, "bytes": size, "requests": count, "mtu": mtu,
            "latency": latency, "bulk_bytes": perf.bulk, "bulk_gbps": bulk,
        });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(out, "{placement}, MTU {mtu}")?;
    let title = format!("request and response of {size} B");
    writeln!(out, "\n{title:32} {:>9} {:>9} {:>9}", "p50 µs", "p90 µs", "p99 µs")?;
    for (name, latency) in &latencies {
        match latency {
            Ok(l) => {
                let [p50, p90, p99] = [50.0, 90.0, 99.0].map(|p| micros(l, p));
                writeln!(out, "  {name:30} {p50:9.1} {p90:9.1} {p99:9.1}")?;
            }
            Err(why) => writeln!(out, "  {name:30} not measured: {why}")?,
        }
    }
    let title = format!("throughput of {} B", perf.bulk);
    writeln!(out, "\n{title:32} {:>9}", "Gb/s")?;
    for (name, rate) in bulk {
        writeln!(out, "  {name:30} {:9.3}", rate * 8.0 / 1e9)?;
    }
    Ok(())
}

pub(crate) fn ping(
    address: &str,
    count: usize,
    interval: Option<Duration>,
    printing: &Printing,
) -> anyhow::Result<()> {
    stop_on_ctrl_c()?;
    let peer = resolve(address)?;
    let any = if peer.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let endpoint = Endpoint::open(any.parse()?, EndpointOptions::default())?;
    let interval = interval.map_or(std::time::Duration::from_secs(1), |interval| {
        std::time::Duration::from_nanos(interval.as_nanos())
    });
    let mut times = Vec::new();
    // More pings would have the same answer.
    let mut other_version = None;
    let mut out = std::io::stdout().lock();
    for number in 0..count {
        if STOP.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
        if number > 0 {
            std::thread::sleep(interval);
        }
        let time = endpoint.ping(peer, std::time::Duration::from_secs(1));
        if !printing.json {
            match &time {
                Ok(time) => writeln!(out, "{peer}: {:.1} µs", time.as_secs_f64() * 1e6)?,
                Err(error) => writeln!(out, "{error}")?,
            }
        }
        times.push(time.as_ref().ok().map(|time| time.as_secs_f64() * 1e6));
        if let Err(error @ PingError::OtherVersion { .. }) = time {
            other_version = Some(error);
            break;
        }
    }
    let answered = times.iter().flatten().count();
    if printing.json {
        let object = serde_json::json!({
            "peer": peer.to_string(), "sent": times.len(), "answered": answered,
            "microseconds": times,
            "error": other_version.as_ref().map(ToString::to_string),
        });
        writeln!(out, "{object}")?;
    }
    if let Some(error) = other_version {
        return Err(error.into());
    }
    if answered == 0 {
        anyhow::bail!("{peer}: no answer; is an endpoint running there, and is it not keyed?");
    }
    Ok(())
}
