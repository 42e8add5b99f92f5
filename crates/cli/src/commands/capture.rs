//! `punctual capture`.

use super::{STOP, stop_on_ctrl_c};
use crate::args::Capture;
use crate::exit::UsageError;
use anyhow::Context as _;
use punctual_core::{Ecn, HostId, PacketFlags};
use punctual_host::packet_socket::PacketSocket;
use punctual_lab::{RunSetup, load_study};
use punctual_sim::{CapturedPacket, FlowRecord, Setup, Simulate};
use punctual_wire::{
    AnyCodec, DEFAULT_PORT, Outer, PcapWriter, WireName, dscp_of, ecn_bits, emit_any, entropy_port,
    write_frame,
};
use std::fs::OpenOptions;
use std::io::{BufWriter, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The largest network that is captured: each link is an interface of the file.
const HOSTS_MAX: u32 = 256;
/// Bytes kept of each frame: all headers.
const SNAP_BYTES: u32 = 256;

pub(crate) fn capture<S: Simulate>(args: &Capture) -> anyhow::Result<()> {
    match (&args.file, &args.interface) {
        (_, Some(interface)) => live(args, interface),
        (Some(file), None) => simulated::<S>(args, file),
        (None, None) => Err(UsageError("name a scenario, or --interface".into()).into()),
    }
}

/// Captures the packets of an interface.
fn live(args: &Capture, interface: &str) -> anyhow::Result<()> {
    let mut socket = PacketSocket::tap(interface, args.port)?;
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    let wrong = || format!("cannot write {}", args.out.display());
    let file =
        OpenOptions::new().write(true).create_new(true).open(&args.out).with_context(wrong)?;
    let comment = format!("interface {interface}, UDP port {}", args.port);
    let mut pcap = PcapWriter::new(BufWriter::new(file), None, &comment).with_context(wrong)?;
    let number = pcap.add_interface(interface).with_context(wrong)?;
    stop_on_ctrl_c()?;
    // Whoever starts transfers after this line finds all of them in the file.
    let _ = writeln!(std::io::stderr(), "capturing on {interface}, UDP port {}", args.port);
    let until =
        args.duration.map(|time| std::time::Instant::now() + Duration::from_nanos(time.as_nanos()));
    let mut packets = 0;
    while packets < args.packets as usize
        && !STOP.load(Ordering::Relaxed)
        && until.is_none_or(|until| std::time::Instant::now() < until)
    {
        let received = socket.receive_raw();
        let received = received.with_context(|| format!("cannot capture on {interface}"))?;
        match received {
            Some((frame, at)) => {
                pcap.write(number, at, frame).with_context(wrong)?;
                packets += 1;
            }
            // A reader of the file sees what there is.
            None => pcap.flush().with_context(wrong)?,
        }
    }
    pcap.flush().with_context(wrong)?;
    let lost = socket.lost().with_context(|| format!("cannot capture on {interface}"))?;
    let is_full = packets >= args.packets as usize;
    let mut out = std::io::stdout().lock();
    if args.json.json {
        let object = serde_json::json!({
            "file": args.out, "packets": packets, "lost": lost, "interfaces": 1, "is_full": is_full,
        });
        writeln!(out, "{object}")?;
    } else {
        let end = if is_full { "; --packets N allows more" } else { "" };
        writeln!(out, "{}: {packets} packets{end}", args.out.display())?;
        if lost > 0 {
            writeln!(
                out,
                "{lost} packets are missing: they came faster than this machine could write"
            )?;
        }
    }
    Ok(())
}

fn simulated<S: Simulate>(args: &Capture, scenario: &Path) -> anyhow::Result<()> {
    let mut setup = setup_of::<S>(args, scenario)?;
    if setup.network.hosts > HOSTS_MAX {
        let message = format!(
            "a network of {} hosts is too large to capture, at most {HOSTS_MAX}; make it smaller \
             with --set",
            setup.network.hosts
        );
        return Err(UsageError(message).into());
    }
    let wrong = || format!("cannot write {}", args.out.display());
    let file =
        OpenOptions::new().write(true).create_new(true).open(&args.out).with_context(wrong)?;
    setup.capture_max = args.packets;
    (setup.check, setup.network_trace, setup.packet_latency) = (false, false, false);
    stop_on_ctrl_c()?;
    let outcome = punctual_sim::run(setup.clone(), &mut |_| match STOP.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    let comment = format!("{}, seed {}", scenario.display(), setup.seed);
    let mut pcap =
        PcapWriter::new(BufWriter::new(file), Some(SNAP_BYTES), &comment).with_context(wrong)?;
    for port in 0..setup.network.links.len() {
        pcap.add_interface(&setup.network.port_name(port.into())).with_context(wrong)?;
    }
    let codecs: Vec<Option<AnyCodec>> =
        setup.transports.iter().map(|t| AnyCodec::of(t.name(), setup.network.mtu)).collect();
    let (mut datagram, mut frame) = (Vec::new(), Vec::new());
    for captured in &outcome.captured {
        let CapturedPacket { packet, block, .. } = captured;
        let transport = packet.transport.index();
        let name = WireName { flow: packet.flow.0, incarnation: 0 };
        let content = setup.transports[transport].content(packet);
        let block = block.as_deref();
        emit_any(codecs[transport].as_ref(), name, packet, block, content, &mut datagram);
        write_frame(&outer(captured, &outcome.flows), &datagram, &mut frame);
        let at = Duration::from_nanos(captured.at.as_picos() / 1000);
        pcap.write(captured.port.0, at, &frame).with_context(wrong)?;
    }
    pcap.flush().with_context(wrong)?;
    print_result(args, &setup, outcome.captured.len())
}

/// The first run of the transport that is asked for.
fn setup_of<S: Simulate>(args: &Capture, scenario: &Path) -> anyhow::Result<Setup<S>> {
    let study = load_study::<S>(scenario, &args.changes.overrides())?;
    let scenario = &study.points()[0].scenario;
    let subjects = scenario.subjects();
    let names = || {
        let labels: Vec<&str> = subjects.iter().map(|subject| subject.label.as_str()).collect();
        labels.join(", ")
    };
    let subject = match &args.transport {
        Some(name) => subjects.iter().find(|s| s.label == *name).ok_or_else(|| {
            UsageError(format!("--transport {name}: the scenario has {}", names()))
        })?,
        None if subjects.len() == 1 => &subjects[0],
        None => {
            let message = format!("name a transport with --transport: one of {}", names());
            return Err(UsageError(message).into());
        }
    };
    match study.setup(scenario, subject, scenario.run.seed)? {
        RunSetup::Packets(setup) => Ok(*setup),
        _ => {
            Err(UsageError("only packets can be captured; use --set run.level=packet".into())
                .into())
        }
    }
}

/// The headers around a packet: host n has the address 10.0.0.0 + n + 1.
fn outer(captured: &CapturedPacket, flows: &[FlowRecord]) -> Outer {
    let packet = &captured.packet;
    let spec = flows.get(packet.flow.index()).map(|flow| flow.spec);
    let from = match packet.is_to_sender() {
        // A bounced packet keeps its source.
        true if !packet.is_bounced() => spec.map(|spec| spec.dst),
        _ => spec.map(|spec| spec.src),
    };
    let (source, destination) = (from.unwrap_or(HostId(0)), packet.dst);
    let path = packet.path as u16;
    let ecn = match packet.flags {
        flags if flags.has(PacketFlags::ECN_MARKED) => Ecn::Marked,
        flags if flags.has(PacketFlags::ECN_CAPABLE) => Ecn::Capable,
        _ => Ecn::NotCapable,
    };
    Outer {
        mac: [mac(source), mac(destination)],
        source: address(source),
        destination: address(destination),
        source_port: entropy_port(packet.flow.0, path),
        destination_port: DEFAULT_PORT,
        dscp: dscp_of(packet.class),
        ecn: ecn_bits(ecn),
    }
}

fn address(host: HostId) -> IpAddr {
    Ipv4Addr::from_bits(u32::from_be_bytes([10, 0, 0, 1]) + host.0 % (1 << 24)).into()
}

fn mac(host: HostId) -> [u8; 6] {
    let [a, b, c, d] = host.0.to_be_bytes();
    [2, 0, a, b, c, d]
}

fn print_result<S: Simulate>(
    args: &Capture,
    setup: &Setup<S>,
    packets: usize,
) -> anyhow::Result<()> {
    let is_full = packets >= args.packets as usize;
    let mut out = std::io::stdout().lock();
    if args.json.json {
        let object = serde_json::json!({
            "file": args.out,
            "packets": packets,
            "interfaces": setup.network.links.len(),
            "is_full": is_full,
        });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    let end = match is_full {
        true => ", where the run was ended; --packets N allows more",
        false => ", all of the run",
    };
    writeln!(out, "{}: {packets} packets{end}", args.out.display())?;
    Ok(())
}
