//! Frames that switches trimmed in hardware, on a veth pair in a network namespace of its own.

use punctual_core::{Class, FlowId, Header, HostId, Packet, PacketFlags};
use punctual_host::packet_socket::{PacketSocket, PacketSocketError, Received};
use punctual_transports::ndp::{NdpHeader, flags, kind};
use punctual_wire::{DEFAULT_PORT, NdpCodec, Outer, TrimMark, WireName, emit, write_frame};
use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

/// Sizes that hardware switches trim to.
const HARDWARE_TRIMS: [usize; 3] = [128, 206, 256];
const PAYLOAD: u16 = 1000;
const SOURCE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// A network namespace that is removed at the end, also after a failure.
struct Namespace(String);

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "delete", &self.0]);
    }
}

fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).output();
    let output = output.map_err(|error| format!("cannot run `ip`: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// A namespace with a veth pair: frames sent by `far` arrive at `near`, which has addresses.
fn namespace() -> Result<Namespace, String> {
    let name = format!("punctual-frames-{}", std::process::id());
    ip(&["netns", "add", &name])?;
    let namespace = Namespace(name);
    let within = |args: &str| {
        let args: Vec<&str> = args.split(' ').collect();
        ip(&[&["-n", &namespace.0], &args[..]].concat())
    };
    within("link add near type veth peer name far")?;
    within("link set near address 02:00:00:00:00:01")?;
    within("addr add 10.9.0.1/24 dev near")?;
    within("addr add fd00:9::1/64 dev near nodad")?;
    within("link set far up")?;
    within("link set near up")?;
    Ok(namespace)
}

/// Runs `inside` in the namespace, as this program again.
#[test]
fn packet_socket__receives_what_hardware_trims() {
    let namespace = match namespace() {
        Ok(namespace) => namespace,
        Err(error) => {
            let forbidden = std::env::var_os("PUNCTUAL_NO_SKIPS").is_some();
            assert!(!forbidden, "CAP_NET_ADMIN is needed: {error}");
            eprintln!("SKIPPED: a network namespace needs CAP_NET_ADMIN and `ip`: {error}");
            return;
        }
    };
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("ip")
        .args(["netns", "exec", &namespace.0])
        .arg(program)
        .args(["packet_socket::inside", "--exact", "--ignored", "--nocapture"])
        .output()
        .expect("ip runs");
    let shown = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}\n{complaints}");
    if complaints.contains("SKIPPED") {
        eprint!("{complaints}");
    } else {
        assert!(shown.contains("6 trims received"), "{shown}");
    }
}

/// A capture that nobody reads keeps a burst of 300 KB, and counts what does not fit into a small
/// buffer: each datagram of 1,400 B arrives or is lost.
#[test]
fn tap__counts_lost_frames() {
    let to = UdpSocket::bind("127.77.3.1:0").expect("a port");
    let from = UdpSocket::bind("127.77.3.1:0").expect("a port");
    let port = to.local_addr().expect("an address").port();
    for (buffer, may_lose) in [(None, false), (Some(4096), true)] {
        let mut tap = match PacketSocket::tap("lo", port) {
            Err(PacketSocketError::Capability) => {
                assert!(std::env::var_os("PUNCTUAL_NO_SKIPS").is_none(), "no CAP_NET_RAW");
                eprintln!("SKIPPED: a capture needs CAP_NET_RAW");
                return;
            }
            tap => tap.expect("a capture"),
        };
        if let Some(bytes) = buffer {
            tap.set_receive_buffer(bytes).expect("a small buffer");
        }
        tap.set_nonblocking(true).expect("an option");
        for _ in 0..215 {
            from.send_to(&[7; 1400], to.local_addr().expect("an address")).expect("sent");
        }
        let mut found = 0;
        while tap.receive_raw().expect("readable").is_some() {
            found += 1;
        }
        let lost = tap.lost().expect("counted");
        assert_eq!(found + lost, 215);
        assert_eq!(lost > 0, may_lose, "{lost} lost");
        assert_eq!(tap.lost().expect("counted"), lost, "counted once");
    }
}

#[test]
fn packet_socket__names_what_is_missing() {
    let error = PacketSocket::open("no-such-link", 1, TrimMark::default()).expect_err("no link");
    let message = error.to_string();
    match error {
        PacketSocketError::Interface(_) => assert!(message.contains("`no-such-link`")),
        PacketSocketError::Capability => assert!(message.contains("CAP_NET_RAW")),
        other => panic!("{other}"),
    }
}

fn outer(is_ipv6: bool, port: u16) -> Outer {
    let address = |last: u8| -> IpAddr {
        match is_ipv6 {
            true => format!("fd00:9::{last}").parse().expect("an address"),
            false => format!("10.9.0.{last}").parse().expect("an address"),
        }
    };
    Outer {
        mac: [SOURCE_MAC, OWN_MAC],
        source: address(2),
        destination: address(1),
        source_port: 50_000,
        destination_port: port,
        dscp: 0,
        ecn: 0,
    }
}

/// The datagram of a data packet, whose payload is sevens.
fn datagram() -> Vec<u8> {
    let header = NdpHeader {
        seq: 3,
        cumulative: 10 * u64::from(PAYLOAD),
        sent_at: 0,
        pull: 0,
        path: 2,
        kind: kind::DATA,
        flags: flags::SYN,
    };
    let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
    packet.payload_bytes = PAYLOAD;
    packet.class = Class::DATA;
    packet.flags = PacketFlags::TRIMMABLE;
    let mut datagram = Vec::new();
    let name = WireName { flow: 9, incarnation: 1 };
    emit(&NdpCodec, name, &packet, None, &mut datagram, |payload| {
        payload.fill(7);
        Ok::<(), ()>(())
    })
    .expect("a datagram");
    datagram
}

fn frame(is_ipv6: bool, port: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    write_frame(&outer(is_ipv6, port), &datagram(), &mut frame);
    frame
}

/// The payload that arrived, and whether the packet was trimmed; `None` if nothing arrived.
fn arrived(socket: &mut PacketSocket) -> Option<(usize, bool)> {
    match socket.receive().expect("the socket works") {
        Received::Frame(frame) => {
            let datagram = frame.datagram;
            assert_eq!((datagram.envelope.name.flow, datagram.envelope.path), (9, 2));
            assert_eq!(datagram.envelope.payload_bytes, PAYLOAD);
            let is_trimmed = datagram.envelope.flags.has(PacketFlags::TRIMMED);
            Some((datagram.payload.len(), is_trimmed))
        }
        Received::Dropped(error) => panic!("dropped: {error}"),
        Received::Nothing => None,
    }
}

/// What an ordinary socket receives within its timeout.
fn received_by(socket: &UdpSocket) -> Option<usize> {
    socket.recv(&mut [0; 2048]).ok()
}

#[test]
#[ignore = "packet_socket__receives_what_hardware_trims runs it in a namespace"]
fn inside() {
    let open = |link| PacketSocket::open(link, DEFAULT_PORT, TrimMark::default());
    let mut socket = match open("near") {
        Err(PacketSocketError::Capability) => {
            eprintln!("SKIPPED: {}", PacketSocketError::Capability);
            return;
        }
        opened => opened.expect("a socket"),
    };
    let far = open("far").expect("a socket");
    let wait = Some(Duration::from_millis(200));
    socket.set_read_timeout(wait).expect("a timeout");
    let mut trims = 0;
    for is_ipv6 in [false, true] {
        let ordinary = UdpSocket::bind((outer(is_ipv6, 0).destination, DEFAULT_PORT));
        let ordinary = ordinary.expect("a UDP socket");
        ordinary.set_read_timeout(wait).expect("a timeout");
        // A whole frame arrives at both.
        let whole = frame(is_ipv6, DEFAULT_PORT);
        far.send(&whole).expect("a frame");
        assert_eq!(arrived(&mut socket), Some((usize::from(PAYLOAD), false)));
        assert_eq!(received_by(&ordinary), Some(datagram().len()));
        // A frame trimmed in hardware arrives here only, and without what is left of its payload.
        for size in HARDWARE_TRIMS {
            far.send(&whole[..size]).expect("a frame");
            assert_eq!(arrived(&mut socket), Some((0, true)), "{size} bytes");
            assert_eq!(received_by(&ordinary), None, "{size} bytes");
            trims += 1;
        }
        // Other ports are not ours.
        far.send(&frame(is_ipv6, DEFAULT_PORT + 1)).expect("a frame");
        assert_eq!(arrived(&mut socket), None);
        // A corrupt header is counted.
        let mut corrupt = whole.clone();
        let at = corrupt.len() - usize::from(PAYLOAD) - 3;
        corrupt[at] ^= 1;
        far.send(&corrupt).expect("a frame");
        assert!(matches!(socket.receive(), Ok(Received::Dropped(_))));
    }
    assert_eq!(socket.dropped().get("header_check"), Some(&2));
    println!("{trims} trims received");
}
