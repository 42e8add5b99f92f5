//! What `punctual kernel` does.

use super::{KernelCommand, Load, Place};
use crate::exit::UsageError;
use punctual_kernel::{
    ControlState, ListedSocket, LoadError, LoadOptions, OBJECT, Paths, Status, doctor, load,
    status, unload,
};
use std::io::Write as _;

/// Bytes of a full Ethernet frame without its checksum, by which queues count.
const FRAME_BYTES: u32 = 1514;

impl Place {
    fn paths(&self) -> Paths {
        let default = Paths::default();
        Paths {
            pins: self.pins.clone().unwrap_or(default.pins),
            state: self.state.clone().unwrap_or(default.state),
        }
    }
}

impl Load {
    fn options(&self) -> LoadOptions {
        LoadOptions {
            paths: self.place.paths(),
            d2tcp: self.d2tcp.clone(),
            dctcp: self.dctcp.clone(),
            cgroup: self.cgroup.clone(),
            adopt: self.adopt,
            netns: self.netns.clone(),
            default: self.default,
            routes: self.routes.clone(),
            mark_devices: self.mark_devices.clone(),
            mark_bytes: self.mark_packets * FRAME_BYTES,
            marker_only: self.mark_only,
        }
    }
}

pub(crate) fn kernel(command: &KernelCommand) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match command {
        KernelCommand::Load(args) => {
            load(OBJECT, &args.options()).map_err(classify)?;
            if args.json.json {
                writeln!(out, "{}", serde_json::json!({ "loaded": true }))?;
            } else if args.mark_only {
                writeln!(out, "loaded the marker")?;
            } else {
                writeln!(out, "loaded {} and {}", args.d2tcp, args.dctcp)?;
            }
        }
        KernelCommand::Status { place, json } => {
            print_status(&mut out, status(&place.paths()).map_err(classify)?, json.json)?;
        }
        KernelCommand::Unload { place, json } => {
            let found = unload(&place.paths()).map_err(classify)?;
            if json.json {
                writeln!(out, "{}", serde_json::json!({ "unloaded": found }))?;
            } else {
                writeln!(out, "{}", if found { "unloaded" } else { "nothing was loaded" })?;
            }
        }
        KernelCommand::Doctor { place, json } => {
            print_findings(&mut out, &place.paths(), json.json)?
        }
    }
    Ok(())
}

/// Errors about options are errors of usage.
fn classify(error: LoadError) -> anyhow::Error {
    match error {
        LoadError::Option(message) => UsageError(message).into(),
        error => error.into(),
    }
}

fn print_findings(out: &mut impl std::io::Write, paths: &Paths, json: bool) -> anyhow::Result<()> {
    let findings = doctor(paths);
    for finding in &findings {
        if json {
            let object = serde_json::json!({
                "name": finding.name,
                "required": finding.is_required,
                "present": finding.is_present,
                "detail": finding.detail,
                "remedy": finding.remedy,
            });
            writeln!(out, "{object}")?;
            continue;
        }
        let word = match (finding.is_present, finding.is_required) {
            (true, _) => "ok",
            (false, true) => "MISSING",
            (false, false) => "note",
        };
        writeln!(out, "{word:<8} {}: {}", finding.name, finding.detail)?;
        if !finding.is_present {
            writeln!(out, "         {}", finding.remedy)?;
        }
    }
    let missing = findings.iter().filter(|f| f.is_required && !f.is_present).count();
    anyhow::ensure!(missing == 0, "{missing} of what D2TCP needs is missing");
    Ok(())
}

fn print_status(
    out: &mut impl std::io::Write,
    status: Option<Status>,
    json: bool,
) -> anyhow::Result<()> {
    let Some(status) = status else {
        let nothing = serde_json::json!({ "loaded": false });
        writeln!(out, "{}", if json { nothing.to_string() } else { "nothing is loaded".into() })?;
        return Ok(());
    };
    if json {
        writeln!(out, "{}", status_object(&status))?;
    } else {
        print_loaded(out, &status)?;
    }
    for socket in &status.sockets {
        if json {
            writeln!(out, "{}", socket_object(socket))?;
        } else {
            writeln!(out, "{}", socket_line(socket))?;
        }
    }
    Ok(())
}

fn print_loaded(out: &mut impl std::io::Write, status: &Status) -> anyhow::Result<()> {
    let [d2tcp, dctcp] = &status.names;
    if status.marker_only {
        writeln!(out, "loaded: the marker")?;
    } else {
        let adopts = if status.adopts { ", which get D2TCP" } else { "" };
        writeln!(out, "loaded: {d2tcp}, {dctcp}")?;
        writeln!(out, "deadlines: sockets of {}{adopts}", status.cgroup.display())?;
    }
    if let Some(netns) = &status.netns {
        writeln!(out, "network namespace: {}", netns.display())?;
    }
    if status.is_default {
        writeln!(out, "default of the network namespace: {d2tcp}")?;
    }
    for route in &status.routes {
        writeln!(out, "route: {route}")?;
    }
    if let Some((devices, bytes)) = &status.marker {
        let marks = status.marks;
        writeln!(
            out,
            "marker: {} above {bytes} B; {} of {} packets marked, longest queue {} B",
            devices.join(", "),
            marks.marked,
            marks.packets,
            marks.backlog_max
        )?;
    }
    if !status.marker_only {
        writeln!(out, "sockets: {}", status.sockets.len())?;
    }
    Ok(())
}

fn socket_line(socket: &ListedSocket) -> String {
    let info = &socket.info;
    let deadline = if info.messages == 0 {
        "no deadline".to_owned()
    } else {
        let more = if info.messages > 1 {
            format!(" (first of {})", info.messages)
        } else {
            String::new()
        };
        format!("{} B in {:.1} ms{more}", info.bytes_left, info.left_us as f64 / 1e3)
    };
    format!(
        "  {} -> {}  {}  {deadline}  cwnd {}  rtt {:.2} ms  alpha {:.3}  d {:.2}  cuts {}  netns {}",
        socket.local,
        socket.remote,
        socket.control,
        info.cwnd,
        f64::from(socket.rtt_us) / 1e3,
        info.alpha,
        info.d,
        info.cuts,
        socket.netns
    )
}

fn status_object(status: &Status) -> serde_json::Value {
    serde_json::json!({
        "loaded": true,
        "d2tcp": status.names[0],
        "dctcp": status.names[1],
        "cgroup": status.cgroup,
        "adopts": status.adopts,
        "marker_only": status.marker_only,
        "netns": status.netns,
        "default": status.is_default,
        "routes": status.routes,
        "mark_devices": status.marker.as_ref().map(|(devices, _)| devices),
        "mark_bytes": status.marker.as_ref().map(|(_, bytes)| bytes),
        "marked_packets": status.marks.marked,
        "seen_packets": status.marks.packets,
    })
}

fn socket_object(socket: &ListedSocket) -> serde_json::Value {
    let info = &socket.info;
    serde_json::json!({
        "local": socket.local.to_string(),
        "remote": socket.remote.to_string(),
        "netns": socket.netns,
        "control": socket.control,
        "is_active": info.state != ControlState::Inactive,
        "messages": info.messages,
        "bytes_left": info.bytes_left,
        "left_us": info.left_us,
        "cwnd": info.cwnd,
        "rtt_us": socket.rtt_us,
        "alpha": info.alpha,
        "d": info.d,
        "d_mean": info.d_mean,
        "cuts": info.cuts,
        "losses": info.losses,
    })
}
