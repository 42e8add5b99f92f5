//! `punctual send` and `punctual receive`: files over real sockets.

use super::{STOP, stop_on_ctrl_c};
use crate::args::{Daemon, Link, Receive, Secret, Send};
use crate::exit::{Late, UsageError};
use anyhow::Context as _;
use punctual_core::Duration;
use punctual_host::{
    FileSender, HOSTD_VARIABLE, HostError, Key, LinkOptions, ReceiveOptions, ReceiveReport,
    ReceiveTarget, ReceivedFile, Receiver, SendFileOptions, SendReport, Service, Traffic,
};
use serde_json::json;
use std::io::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

pub(crate) fn send(args: &Send) -> anyhow::Result<()> {
    let submitted_at = std::time::Instant::now();
    stop_on_ctrl_c()?;
    let options = || -> anyhow::Result<_> {
        let link = link_options(&args.link, &args.secret, &args.daemon, true)?;
        let link = LinkOptions { transport: args.transport, ..link };
        Ok((resolve(&args.address)?, SendFileOptions { deadline: args.deadline, link }))
    };
    let opened = options().and_then(|(peer, options)| Ok(FileSender::new(peer, &options)?));
    let is_json = args.json.json;
    let sender = opened.inspect_err(|error| {
        for file in args.files.iter().filter(|_| is_json) {
            print_failure(file_field(file), error, None);
        }
    })?;
    let mut worst: Option<anyhow::Error> = None;
    let mut is_over = false;
    for file in &args.files {
        let sent = match &worst {
            // The other files would fail for the same reason.
            Some(error) if is_over => Err(anyhow::anyhow!("not sent: {error}")),
            _ => sender.send(file, submitted_at).map_err(anyhow::Error::from),
        };
        let result = match sent {
            Ok(report) => {
                print_sent(file, &report, is_json)?;
                on_time(report.deadline_met, report.duration, args.deadline)
            }
            Err(error) => {
                is_over |= is_fatal(&error);
                if is_json {
                    print_failure(file_field(file), &error, Some(&sender.traffic()));
                }
                Err(error)
            }
        };
        keep_worst(&mut worst, result, args.files.len() > 1 && !is_over);
    }
    if let (Some(_), false) = (&worst, is_json) {
        write_drops(&mut io::stderr(), &sender.traffic())?;
    }
    worst.map_or(Ok(()), Err)
}

/// Whether all further files would fail, too.
fn is_fatal(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(
            HostError::PeerSilent { .. }
                | HostError::Unreachable { .. }
                | HostError::Unconfirmed { .. }
                | HostError::Interrupted
                | HostError::NotOurs(_)
                | HostError::DaemonGone
                | HostError::Send(_)
        )
    )
}

/// Keeps the error that decides the exit code: a failure before an unknown outcome before a late
/// file. The others are printed at once.
fn keep_worst(worst: &mut Option<anyhow::Error>, result: anyhow::Result<()>, prints: bool) {
    let rank = |error: &anyhow::Error| match error.downcast_ref::<HostError>() {
        _ if error.is::<Late>() => 0,
        Some(HostError::Unconfirmed { .. }) => 1,
        _ => 2,
    };
    let Err(error) = result else { return };
    if prints {
        let _ = writeln!(io::stderr(), "{error}");
    }
    if worst.as_ref().is_none_or(|worst| rank(worst) < rank(&error)) {
        *worst = Some(error);
    }
}

fn file_field(file: &Path) -> serde_json::Map<String, serde_json::Value> {
    let mut fields = serde_json::Map::new();
    fields.insert("file".into(), json!(file));
    fields
}

fn print_sent(file: &Path, report: &SendReport, is_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if is_json {
        let object = json!({
            "file": file,
            "outcome": outcome(report.deadline_met),
            "bytes": report.bytes,
            "resumed_bytes": report.resumed,
            "hash": report.hash.to_string(),
            "seconds": report.duration.as_secs_f64(),
            "transfer_seconds": report.transfer.as_secs_f64(),
            "goodput_gbps": report.goodput().as_bps() as f64 / 1e9,
            "deadline_met": report.deadline_met,
            "retransmits": report.retransmits,
            "traffic": traffic(&report.traffic),
        });
        return writeln!(out, "{object}");
    }
    let speed = speed(report.bytes - report.resumed, report.transfer);
    let resumed = resumed(report.resumed);
    let again = report.retransmits;
    writeln!(out, "{}: sent {speed}{resumed}, {again} packets retransmitted", file.display())?;
    writeln!(
        out,
        "hash {}, stored by the receiver {} after the start{}",
        report.hash,
        milliseconds(report.duration),
        verdict(report.deadline_met)
    )?;
    write_drops(&mut out, &report.traffic)
}

pub(crate) fn receive(args: &Receive) -> anyhow::Result<()> {
    stop_on_ctrl_c()?;
    let printing = &args.printing;
    let bind = || -> anyhow::Result<Receiver> {
        let defaults = ReceiveOptions::default();
        let is_endless = args.into.is_some() && args.count.is_none();
        let options = ReceiveOptions {
            wait: args.wait.or(defaults.wait.filter(|_| !is_endless)),
            overwrite: args.overwrite,
            resume: !args.no_resume,
            // An address on the command line counts more than a variable of the environment.
            link: link_options(&args.link, &args.secret, &args.daemon, args.listen.is_none())?,
            ..defaults
        };
        let listen = match (&args.listen, &options.link.hostd) {
            (Some(listen), _) => resolve(listen)?,
            (None, Some(_)) => SocketAddr::from(([0, 0, 0, 0], 0)),
            (None, None) => {
                let message = "give --listen ADDRESS:PORT, or --via SOCKET of a host daemon";
                return Err(UsageError(message.into()).into());
            }
        };
        Ok(Receiver::bind(listen, &options)?)
    };
    let fields = serde_json::Map::new;
    let receiver = bind().inspect_err(|error| {
        if printing.json {
            print_failure(fields(), error, None);
        }
    })?;
    if !printing.quiet {
        // With port 0, the user needs to know the port.
        let _ = writeln!(io::stderr(), "listening on {}", receiver.local_addr());
    }
    let target = match (&args.out, &args.into) {
        (Some(out), _) => ReceiveTarget::File(out),
        (None, into) => ReceiveTarget::Directory(into.as_deref().unwrap_or(Path::new("."))),
    };
    let (mut worst, mut count) = (None, 0);
    let is_one = args.out.is_some();
    let ended = receiver.receive_each(target, args.count, &mut |file| {
        count += 1;
        let result = print_received(file, &receiver, printing.json);
        keep_worst(&mut worst, result, !is_one);
    });
    if let Err(error) = ended {
        let error = anyhow::Error::from(error);
        if printing.json && (count == 0 || !is_one) {
            print_failure(fields(), &error, Some(&receiver.traffic()));
        }
        return Err(error);
    }
    worst.map_or(Ok(()), Err)
}

fn print_received(file: ReceivedFile, receiver: &Receiver, is_json: bool) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let report: ReceiveReport = match file.result {
        Ok(report) => report,
        Err(error) => {
            let error = anyhow::Error::from(error);
            if let Some(kept) = &file.kept {
                let _ = writeln!(
                    io::stderr(),
                    "what arrived is kept as {}; the same transfer continues there",
                    kept.display()
                );
            }
            if is_json {
                let mut fields = serde_json::Map::new();
                fields.insert("peer".into(), json!(file.peer.to_string()));
                fields.insert("name".into(), json!(file.name));
                fields.insert("kept".into(), json!(file.kept));
                drop(out);
                print_failure(fields, &error, Some(&receiver.traffic()));
            } else {
                write_drops(&mut io::stderr(), &receiver.traffic())?;
            }
            return Err(error);
        }
    };
    if is_json {
        let object = json!({
            "file": report.stored_as,
            "name": file.name,
            "outcome": outcome(report.deadline_met),
            "peer": report.peer.to_string(),
            "bytes": report.bytes,
            "resumed_bytes": report.resumed,
            "hash": report.hash.to_string(),
            "seconds": report.duration.as_secs_f64(),
            "goodput_gbps": report.goodput().as_bps() as f64 / 1e9,
            "deadline_met": report.deadline_met,
            "traffic": traffic(&report.traffic),
        });
        writeln!(out, "{object}")?;
    } else {
        let speed = speed(report.bytes - report.resumed, report.duration);
        let (late, resumed) = (verdict(report.deadline_met), resumed(report.resumed));
        writeln!(out, "received {speed}{resumed} from {}{late}", report.peer)?;
        let stored_as = report.stored_as.display();
        writeln!(out, "hash {}, verified; stored as {stored_as}", report.hash)?;
        write_drops(&mut out, &report.traffic)?;
    }
    on_time(report.deadline_met, report.duration, report.deadline)
}

/// Prints a failure as a JSON object with these fields.
fn print_failure(
    mut fields: serde_json::Map<String, serde_json::Value>,
    error: &anyhow::Error,
    counts: Option<&Traffic>,
) {
    let outcome = match error.downcast_ref::<HostError>() {
        Some(HostError::Unconfirmed { .. }) => "unknown",
        _ => "failed",
    };
    fields.insert("outcome".into(), json!(outcome));
    fields.insert("error".into(), json!(format!("{error:#}")));
    if let Some(counts) = counts {
        fields.insert("traffic".into(), traffic(counts));
    }
    let _ = writeln!(io::stdout(), "{}", serde_json::Value::Object(fields));
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
    json!({
        "sent": traffic.sent,
        "received": traffic.received,
        "dropped": traffic.dropped,
        "socket_errors": traffic.socket_errors,
    })
}

/// Prints the datagrams that were dropped, if any.
fn write_drops(out: &mut impl io::Write, traffic: &Traffic) -> io::Result<()> {
    let mut drops: Vec<String> =
        traffic.dropped.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    if traffic.socket_errors > 0 {
        drops.push(format!("socket errors {}", traffic.socket_errors));
    }
    if drops.is_empty() { Ok(()) } else { writeln!(out, "datagrams dropped: {}", drops.join(", ")) }
}

/// The key in a file, if there is one.
pub(super) fn read_key(path: Option<&Path>) -> anyhow::Result<Option<Key>> {
    path.map(|path| Key::from_file(path).with_context(|| format!("{}", path.display()))).transpose()
}

/// The options of a transfer. Without `--via`, `$PUNCTUAL_HOSTD` names a host daemon if
/// `reads_variable`.
fn link_options(
    link: &Link,
    secret: &Secret,
    daemon: &Daemon,
    reads_variable: bool,
) -> anyhow::Result<LinkOptions> {
    let variable = std::env::var_os(HOSTD_VARIABLE).filter(|path| !path.is_empty());
    let variable = variable.filter(|_| reads_variable).map(PathBuf::from);
    let hostd = daemon.via.clone().or(variable);
    let has_options = link.rate.is_some() || link.mtu.is_some() || secret.key.is_some();
    if let (Some(path), true) = (&hostd, has_options) {
        return Err(UsageError(format!(
            "--rate, --mtu and --key belong to the host daemon at {}: start it with them, or send \
             without it",
            path.display()
        ))
        .into());
    }
    let defaults = LinkOptions::default();
    Ok(LinkOptions {
        rate: link.rate.unwrap_or(defaults.rate),
        mtu: link.mtu.unwrap_or(defaults.mtu),
        key: read_key(secret.key.as_deref())?,
        trims: link.hardware_trims(),
        stop: Some(&STOP),
        hostd,
        service: daemon.service.as_deref().map_or(Service::default(), Service::named),
        ..defaults
    })
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

fn resumed(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        bytes => format!(" after {bytes} bytes of an earlier transfer"),
    }
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
