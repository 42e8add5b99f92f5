//! `punctual send` and `punctual receive`: the simulated transports on real sockets.

use super::{STOP, stop_on_ctrl_c};
use crate::args::{Link, Printing};
use crate::exit::{Late, UsageError};
use anyhow::Context as _;
use punctual_core::Duration;
use punctual_host::{
    HostError, LinkOptions, ReceiveOptions, ReceiveReport, Receiver, SendFileOptions, Traffic,
    send_file,
};
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
    stop_on_ctrl_c()?;
    let options = SendFileOptions { deadline, link: link_options(link) };
    let report = resolve(address).and_then(|peer| Ok(send_file(file, peer, &options)?));
    let report = report.or_else(|error| failed(error, json))?;
    let mut out = std::io::stdout().lock();
    if json {
        let object = serde_json::json!({
            "outcome": outcome(report.deadline_met),
            "bytes": report.bytes,
            "hash": report.hash.to_string(),
            "seconds": report.duration.as_secs_f64(),
            "transfer_seconds": report.transfer.as_secs_f64(),
            "goodput_gbps": report.goodput().as_bps() as f64 / 1e9,
            "deadline_met": report.deadline_met,
            "retransmits": report.retransmits,
            "timeouts": report.timeouts,
            "bounces": report.bounces,
            "traffic": traffic(&report.traffic),
        });
        writeln!(out, "{object}")?;
    } else {
        let speed = speed(report.bytes, report.transfer);
        writeln!(out, "sent {speed}, {} packets retransmitted", report.retransmits)?;
        writeln!(
            out,
            "hash {}, stored by the receiver {} after the start{}",
            report.hash,
            milliseconds(report.duration),
            verdict(report.deadline_met)
        )?;
        write_drops(&mut out, &report.traffic)?;
    }
    on_time(report.deadline_met, report.duration, deadline)
}

pub(crate) fn receive(
    listen: &str,
    file: &Path,
    overwrite: bool,
    wait: Option<Duration>,
    link: &Link,
    printing: &Printing,
) -> anyhow::Result<()> {
    stop_on_ctrl_c()?;
    let link = link_options(link);
    let defaults = ReceiveOptions::default();
    let options = ReceiveOptions { wait: wait.or(defaults.wait), overwrite, link, ..defaults };
    let receive = || -> anyhow::Result<ReceiveReport> {
        let receiver = Receiver::bind(resolve(listen)?)?;
        if !printing.quiet {
            // With port 0, the user needs to know the port.
            let _ = writeln!(std::io::stderr(), "listening on {}", receiver.local_addr());
        }
        Ok(receiver.receive(file, &options)?)
    };
    let report = receive().or_else(|error| failed(error, printing.json))?;
    let mut out = std::io::stdout().lock();
    if printing.json {
        let object = serde_json::json!({
            "outcome": outcome(report.deadline_met),
            "peer": report.peer.to_string(),
            "bytes": report.bytes,
            "hash": report.hash.to_string(),
            "seconds": report.duration.as_secs_f64(),
            "goodput_gbps": report.goodput().as_bps() as f64 / 1e9,
            "deadline_met": report.deadline_met,
            "trims": report.trims,
            "traffic": traffic(&report.traffic),
        });
        writeln!(out, "{object}")?;
    } else {
        let speed = speed(report.bytes, report.duration);
        let late = verdict(report.deadline_met);
        writeln!(out, "received {speed} from {}{late}", report.peer)?;
        writeln!(out, "hash {}, verified; stored as {}", report.hash, file.display())?;
        write_drops(&mut out, &report.traffic)?;
    }
    on_time(report.deadline_met, report.duration, report.deadline)
}

/// Prints a failure as JSON, if asked, and returns it.
fn failed<R>(error: anyhow::Error, json: bool) -> anyhow::Result<R> {
    if json {
        let outcome = match error.downcast_ref::<HostError>() {
            Some(HostError::Unconfirmed { .. }) => "unknown",
            _ => "failed",
        };
        let object = serde_json::json!({ "outcome": outcome, "error": error.to_string() });
        writeln!(std::io::stdout(), "{object}")?;
    }
    Err(error)
}

/// The outcome of a transfer that completed, as a word.
fn outcome(deadline_met: Option<bool>) -> &'static str {
    match deadline_met {
        None => "done",
        Some(true) => "met",
        Some(false) => "missed",
    }
}

/// An error if the deadline was missed.
fn on_time(
    met: Option<bool>,
    duration: Duration,
    deadline: Option<Duration>,
) -> anyhow::Result<()> {
    match (met, deadline) {
        (Some(false), Some(deadline)) => {
            let late = milliseconds(duration.saturating_sub(deadline));
            Err(Late(format!("late: stored {late} after the deadline")).into())
        }
        _ => Ok(()),
    }
}

fn traffic(traffic: &Traffic) -> serde_json::Value {
    serde_json::json!({
        "sent": traffic.sent,
        "received": traffic.received,
        "dropped": traffic.dropped,
        "socket_errors": traffic.socket_errors,
    })
}

/// Prints the datagrams that were dropped, if any.
fn write_drops(out: &mut impl std::io::Write, traffic: &Traffic) -> std::io::Result<()> {
    let mut drops: Vec<String> =
        traffic.dropped.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    if traffic.socket_errors > 0 {
        drops.push(format!("socket errors {}", traffic.socket_errors));
    }
    if drops.is_empty() { Ok(()) } else { writeln!(out, "datagrams dropped: {}", drops.join(", ")) }
}

fn link_options(link: &Link) -> LinkOptions {
    let defaults = LinkOptions::default();
    LinkOptions {
        rate: link.rate.unwrap_or(defaults.rate),
        mtu: link.mtu.unwrap_or(defaults.mtu),
        seed: link.seed,
        stop: Some(&STOP),
        ..defaults
    }
}

pub(super) fn resolve(address: &str) -> anyhow::Result<SocketAddr> {
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
    format!("{bytes} bytes in {} ({gbps:.3} Gbps)", milliseconds(duration))
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.3} ms", duration.as_secs_f64() * 1e3)
}

fn verdict(met: Option<bool>) -> &'static str {
    match met {
        None => "",
        Some(true) => ", on time",
        Some(false) => ", late",
    }
}
