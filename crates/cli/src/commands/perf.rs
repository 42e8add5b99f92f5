//! `punctual perf` and `punctual ping`: what the host stack achieves on this machine and network.

use super::transfer::resolve;
use super::{STOP, stop_on_ctrl_c};
use crate::args::{Link, Printing};
use anyhow::Context as _;
use punctual_core::Duration;
use punctual_host::perf::{self, Latencies, PerfServer};
use punctual_host::{Endpoint, EndpointOptions, Key};
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
    pub(crate) key: Option<&'a Path>,
}

fn options(link: &Link, key: Option<&Path>) -> anyhow::Result<EndpointOptions> {
    let defaults = EndpointOptions::default();
    let key = key
        .map(|path| Key::from_file(path).with_context(|| format!("{}", path.display())))
        .transpose()?;
    Ok(EndpointOptions {
        rate: link.rate.unwrap_or(defaults.rate),
        mtu: link.mtu.unwrap_or(defaults.mtu),
        key,
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

fn start_server(link: &Link, key: Option<&Path>) -> anyhow::Result<(LocalServer, SocketAddr)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["perf", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
    if let Some(rate) = link.rate {
        command.arg("--rate").arg(format!("{}bps", rate.as_bps()));
    }
    if let Some(mtu) = link.mtu {
        command.arg("--mtu").arg(format!("{}B", mtu.get()));
    }
    if let Some(key) = key {
        command.arg("--key").arg(key);
    }
    let mut server = LocalServer(command.spawn()?);
    let stderr = server.0.stderr.take().context("no pipe to the server")?;
    let mut line = String::new();
    std::io::BufReader::new(stderr).read_line(&mut line)?;
    let address = line.trim().rsplit(' ').next().unwrap_or_default();
    let address = address.parse().with_context(|| format!("the server says: {}", line.trim()))?;
    Ok((server, address))
}

pub(crate) fn perf(perf: &Perf<'_>, link: &Link, printing: &Printing) -> anyhow::Result<()> {
    stop_on_ctrl_c()?;
    let options = options(link, perf.key)?;
    if let Some(listen) = perf.listen {
        let server = PerfServer::start(resolve(listen)?, options)?;
        let _ = writeln!(std::io::stderr(), "listening on {}", server.local_addr());
        server.run(&STOP);
        return Ok(());
    }
    let local = match perf.address {
        None => Some(start_server(link, perf.key)?),
        Some(_) => None,
    };
    let server = match (&local, perf.address) {
        (Some((_, address)), _) => *address,
        (None, address) => resolve(address.unwrap_or_default())?,
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let placement = match local {
        Some(_) => format!("two processes on this machine ({cores} cores), loopback, not pinned"),
        None => format!("client on this machine ({cores} cores), server at {server}, not pinned"),
    };
    measure(perf, options, server, &placement, printing)
}

fn measure(
    perf: &Perf<'_>,
    options: EndpointOptions,
    server: SocketAddr,
    placement: &str,
    printing: &Printing,
) -> anyhow::Result<()> {
    let mtu = options.mtu.get();
    let any = if server.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let client = Endpoint::bind(any.parse()?, options)?;
    let (size, count) = (perf.size, perf.count);
    let mut latencies: Vec<(&str, Latencies)> = vec![
        ("UDP, bare", perf::udp_latency(server, size, count)?),
        ("NDP", perf::ndp_latency(&client, server, size, count)?),
    ];
    latencies.push(("TCP, one connection", perf::tcp_latency(server, size, count, false)?));
    let new_each = perf::tcp_latency(server, size, count.min(2_000), true)?;
    latencies.push(("TCP, new connections", new_each));
    let second = std::time::Duration::from_secs(1);
    let bulk = [
        ("UDP, sendmmsg", perf::udp_bulk(server, mtu as usize, second)?),
        ("NDP", perf::ndp_bulk(&client, server, perf.bulk)?),
        ("TCP", perf::tcp_bulk(server, perf.bulk)?),
    ];
    let mut out = std::io::stdout().lock();
    let micros = |l: &Latencies, p| l.percentile(p).as_secs_f64() * 1e6;
    if printing.json {
        let latency: serde_json::Map<String, serde_json::Value> = latencies
            .iter()
            .map(|(name, l)| {
                let value = serde_json::json!({
                    "p50_us": micros(l, 50.0), "p90_us": micros(l, 90.0), "p99_us": micros(l, 99.0),
                });
                (name.to_string(), value)
            })
            .collect();
        let bulk: serde_json::Map<String, serde_json::Value> = bulk
            .iter()
            .map(|(name, rate)| (name.to_string(), serde_json::json!(rate * 8.0 / 1e9)))
            .collect();
        let object = serde_json::json!({
            "placement": placement, "bytes": size, "requests": count, "mtu": mtu,
            "latency": latency, "bulk_bytes": perf.bulk, "bulk_gbps": bulk,
        });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(out, "{placement}, blocking sockets, MTU {mtu}")?;
    writeln!(out, "request and response of {size} B, {count} times:")?;
    for (name, l) in &latencies {
        let [p50, p90, p99] = [50.0, 90.0, 99.0].map(|p| micros(l, p));
        writeln!(out, "  {name:22} p50 {p50:7.1}  p90 {p90:7.1}  p99 {p99:7.1} µs")?;
    }
    writeln!(out, "throughput, {} bytes:", perf.bulk)?;
    for (name, rate) in bulk {
        writeln!(out, "  {name:22} {:7.3} Gb/s", rate * 8.0 / 1e9)?;
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
    let endpoint = Endpoint::bind(any.parse()?, EndpointOptions::default())?;
    let interval = interval.map_or(std::time::Duration::from_secs(1), |interval| {
        std::time::Duration::from_nanos(interval.as_nanos())
    });
    let mut times = Vec::new();
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
            match time {
                Some(time) => writeln!(out, "{peer}: {:.1} µs", time.as_secs_f64() * 1e6)?,
                None => writeln!(out, "{peer}: no answer within 1 s")?,
            }
        }
        times.push(time.map(|time| time.as_secs_f64() * 1e6));
    }
    let answered = times.iter().flatten().count();
    if printing.json {
        let object = serde_json::json!({
            "peer": peer.to_string(), "sent": times.len(), "answered": answered,
            "microseconds": times,
        });
        writeln!(out, "{object}")?;
    }
    if answered == 0 {
        anyhow::bail!("{peer}: no answer; is an endpoint running there, and is it not keyed?");
    }
    Ok(())
}
