//! `punctual send` and `punctual receive`: the simulated transports on real sockets.

use crate::args::{Link, Printing};
use crate::exit::UsageError;
use anyhow::Context as _;
use punctual_core::Duration;
use punctual_host::{LinkOptions, ReceiveOptions, Receiver, SendOptions, send_file};
use std::io::Write as _;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;

pub(crate) fn send(
    file: &Path,
    address: &str,
    deadline: Option<Duration>,
    link: &Link,
    json: bool,
) -> anyhow::Result<()> {
    let options = SendOptions { deadline, link: link_options(link) };
    let report = send_file(file, resolve(address)?, &options)?;
    let mut out = std::io::stdout().lock();
    if json {
        let object = serde_json::json!({
            "bytes": report.bytes,
            "hash": report.hash.to_string(),
            "seconds": report.duration.as_secs_f64(),
            "goodput_gbps": report.goodput().as_bps() as f64 / 1e9,
            "deadline_met": report.deadline_met,
            "retransmits": report.retransmits,
            "timeouts": report.timeouts,
            "bounces": report.bounces,
        });
        writeln!(out, "{object}")?;
    } else {
        let speed = speed(report.bytes, report.duration);
        let late = verdict(report.deadline_met);
        writeln!(out, "sent {speed}{late}, {} packets retransmitted", report.retransmits)?;
        writeln!(out, "hash {}, confirmed by the receiver", report.hash)?;
    }
    Ok(())
}

pub(crate) fn receive(
    listen: &str,
    file: &Path,
    overwrite: bool,
    wait: Option<Duration>,
    link: &Link,
    printing: &Printing,
) -> anyhow::Result<()> {
    let link = link_options(link);
    let defaults = ReceiveOptions::default();
    let options = ReceiveOptions { wait: wait.or(defaults.wait), overwrite, link, ..defaults };
    let receiver = Receiver::bind(resolve(listen)?)?;
    if !printing.quiet {
        // With port 0, the user needs to know the port.
        let _ = writeln!(std::io::stderr(), "listening on {}", receiver.local_addr());
    }
    let report = receiver.receive(file, &options)?;
    let mut out = std::io::stdout().lock();
    if printing.json {
        let object = serde_json::json!({
            "peer": report.peer.to_string(),
            "bytes": report.bytes,
            "hash": report.hash.to_string(),
            "seconds": report.duration.as_secs_f64(),
            "goodput_gbps": report.goodput().as_bps() as f64 / 1e9,
            "deadline_met": report.deadline_met,
            "trims": report.trims,
        });
        writeln!(out, "{object}")?;
    } else {
        let speed = speed(report.bytes, report.duration);
        let late = verdict(report.deadline_met);
        writeln!(out, "received {speed} from {}{late}", report.peer)?;
        writeln!(out, "hash {}, verified; stored as {}", report.hash, file.display())?;
    }
    Ok(())
}

fn link_options(link: &Link) -> LinkOptions {
    let defaults = LinkOptions::default();
    LinkOptions {
        rate: link.rate.unwrap_or(defaults.rate),
        mtu: link.mtu.unwrap_or(defaults.mtu),
        seed: link.seed,
        ..defaults
    }
}

fn resolve(address: &str) -> anyhow::Result<SocketAddr> {
    let usage = || UsageError(format!("`{address}` is not an address; write HOST:PORT"));
    if !address.contains(':') {
        return Err(usage().into());
    }
    let mut found =
        address.to_socket_addrs().with_context(|| format!("cannot look up {address}"))?;
    Ok(found.next().ok_or_else(usage)?)
}

fn speed(bytes: u64, duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let gbps = bytes as f64 * 8.0 / seconds.max(1e-12) / 1e9;
    format!("{bytes} bytes in {:.3} ms ({gbps:.3} Gbps)", seconds * 1e3)
}

fn verdict(met: Option<bool>) -> &'static str {
    match met {
        None => "",
        Some(true) => ", on time",
        Some(false) => ", late",
    }
}
