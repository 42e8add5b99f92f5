//! A flood of hostile packets in a pair of network namespaces: honest requests go on, and memory
//! stays within its configuration.
//!
//! The server and the honest client are two processes, each in a namespace without a name, joined by
//! a veth pair. The kernel removes the namespaces with their last process, and each process is killed
//! when the one that started it ends: nothing is left behind, however the test ends. The attacker
//! runs beside the client. It writes IP packets on a raw socket, so that it can use any address.

use punctual_core::rng::Stream;
use punctual_core::{Class, FlowId, Header, HostId, Packet, PacketFlags};
use punctual_host::{Endpoint, EndpointOptions, Outcome, SendOptions};
use punctual_testkit::OtherWork;
use punctual_transports::ndp::{NdpHeader, flags, kind};
use punctual_wire::{
    ENVELOPE_BYTES, Envelope, Kind, NDP_WIRE_BYTES, NdpCodec, Outer, WireName, emit, write_frame,
};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PORT: u16 = 48_630;
/// Bytes of the Ethernet header that `write_frame` writes.
const ETHERNET_BYTES: usize = 14;

/// The server's memory: 8 MiB of messages and 4,096 peers of about 500 bytes.
fn server_options() -> EndpointOptions {
    EndpointOptions {
        stream_buffer: 1 << 17,
        peer_memory: 1 << 20,
        receive_memory: 8 << 20,
        peers_max: 4_096,
        ..EndpointOptions::default()
    }
}

fn run(command: &str) -> Result<(), String> {
    let words: Vec<&str> = command.split(' ').collect();
    let output = Command::new(words[0]).args(&words[1..]).output().map_err(|e| e.to_string())?;
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{command}: {complaint}")) }
}

/// This program again, in a new network namespace, killed when this process ends.
fn in_new_namespace(test: &str, flood: Flood) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "unshare", "--net"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("PUNCTUAL_FLOOD", flood.text());
    command
}

/// How much is sent.
#[derive(Clone, Copy)]
struct Flood {
    /// Different addresses that hostile packets come from.
    addresses: u64,
    /// Hostile packets at once, and the time between two bursts; a sleep takes 60 us longer.
    burst: u64,
    every_us: u64,
    /// Whether all are first packets of messages, rather than packets of every kind.
    is_of_first_packets: bool,
}

impl Flood {
    fn text(&self) -> String {
        let Flood { addresses, burst, every_us, is_of_first_packets } = self;
        format!("{addresses} {burst} {every_us} {}", u64::from(*is_of_first_packets))
    }

    fn of_the_test() -> Flood {
        let text = std::env::var("PUNCTUAL_FLOOD").expect("the test sets it");
        let numbers: Vec<u64> = text.split(' ').map(|word| word.parse().unwrap()).collect();
        let [addresses, burst, every_us, first] = numbers[..] else { panic!("{text}") };
        Flood { addresses, burst, every_us, is_of_first_packets: first == 1 }
    }
}

fn flood(flood: Flood) {
    let allowed = run("setpriv --pdeathsig KILL unshare --net ip link set lo up");
    if let Err(error) = allowed {
        let forbidden = std::env::var_os("PUNCTUAL_NO_SKIPS").is_some();
        assert!(!forbidden, "CAP_NET_ADMIN is needed: {error}");
        println!("SKIPPED: network namespaces need CAP_NET_ADMIN, `unshare`, `setpriv`: {error}");
        return;
    }
    let output = in_new_namespace("flood::serve", flood).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    print!("{shown}");
    assert!(output.status.success(), "{shown}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(shown.contains("honest requests"), "{shown}");
}

#[test]
fn flood__honest_requests_go_on() {
    flood(Flood { addresses: 30_000, burst: 4, every_us: 400, is_of_first_packets: false });
}

/// `cargo test -p punctual-host --test integration flood__a_million -- --ignored --nocapture`
#[test]
#[ignore = "takes half a minute, and needs a quiet machine: cargo xtask test testbed"]
fn flood__a_million_addresses() {
    flood(Flood { addresses: 1_000_000, burst: 8, every_us: 50, is_of_first_packets: true });
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

/// The server, in the first namespace.
#[test]
#[ignore = "flood__honest_requests_go_on runs it in a namespace"]
fn serve() {
    run("ip link set lo up").unwrap();
    let mut command = in_new_namespace("flood::attack_and_ask", Flood::of_the_test());
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut peer = Killed(child);
    let mut lines = BufReader::new(peer.0.stdout.take().unwrap()).lines();
    // setpriv and unshare become the program, so that its process is the child's.
    let mut line = |word: &str| loop {
        let line = lines.next().expect("the client goes on").unwrap();
        if let Some(rest) = line.split_once(word) {
            break rest.1.trim().to_owned();
        }
    };
    line("ready");
    let pid = peer.0.id();
    run(&format!("ip link add near type veth peer name far netns {pid}")).unwrap();
    run(&format!("ip addr add {SERVER}/24 dev near")).unwrap();
    run("ip link set near up").unwrap();
    let mut stdin = peer.0.stdin.take().unwrap();
    stdin.write_all(b"\n").unwrap();
    line("linked");
    // Answers to forged addresses leave, and are lost beyond the link.
    run(&format!("ip route add default via {CLIENT}")).unwrap();

    let work = OtherWork::watch();
    let options = server_options();
    let server = Endpoint::bind(SocketAddr::new(SERVER.into(), PORT), options.clone()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (most_memory, most_peers) = (AtomicU64::new(0), AtomicU64::new(0));
    let before = resident();
    let text = std::thread::scope(|scope| {
        let (stop_here, memory, peers) = (stop.clone(), &most_memory, &most_peers);
        let server = &server;
        scope.spawn(move || {
            let listener = server.listen();
            while !stop_here.load(Ordering::Relaxed) {
                let message = listener.accept_timeout(Duration::from_millis(50));
                if let Some(Ok(mut message)) = message
                    && message.is_request()
                    && let Ok(bytes) = message.read_to_end()
                {
                    let _ = message.respond(bytes);
                }
            }
        });
        let stop_looking = stop.clone();
        scope.spawn(move || {
            while !stop_looking.load(Ordering::Relaxed) {
                let stats = server.stats();
                memory.fetch_max(stats.receive_memory as u64, Ordering::Relaxed);
                peers.fetch_max(stats.peers as u64, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        stdin.write_all(b"\n").unwrap();
        let text = line("result");
        stop.store(true, Ordering::Relaxed);
        text
    });
    let grown = resident().saturating_sub(before);
    let numbers: Vec<f64> = text.split(' ').map(|word| word.parse().unwrap()).collect();
    let [idle, flooded, requests, failed, sent, addresses] = numbers[..] else { panic!("{text}") };
    let traffic = server.stats().traffic;
    let dropped: u64 = traffic.dropped.values().sum();
    println!(
        "{requests} honest requests, {failed} failed; median p99 idle {idle:.0} µs, flooded {flooded:.0} \
         µs, ratio {:.2}; {sent} hostile packets from {addresses} addresses, {dropped} dropped; grown by {grown} B",
        flooded / idle
    );
    assert_eq!(failed, 0.0, "{text}");
    assert!(dropped > 0 && traffic.received as f64 > 0.2 * sent, "the flood arrived: {traffic:?}");
    assert!(most_memory.into_inner() <= options.receive_memory as u64);
    assert!(most_peers.into_inner() <= options.peers_max as u64);
    // What the options allow, and as much again for the allocator and the socket's buffers.
    let allowed = (options.receive_memory + options.peers_max * 500) as u64;
    assert!(grown <= 2 * allowed, "grown by {grown} B of {allowed}");
    let failure = format!("{flooded:.0} µs with the flood, {idle:.0} without");
    work.check(flooded <= 2.0 * idle, failure);
}

/// The honest client and the attacker, in the second namespace.
#[test]
#[ignore = "flood__honest_requests_go_on runs it in a namespace"]
fn attack_and_ask() {
    println!("ready");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).unwrap();
    run("ip link set lo up").unwrap();
    run(&format!("ip addr add {CLIENT}/24 dev far")).unwrap();
    run("ip link set far up").unwrap();
    println!("linked");
    std::io::stdin().read_line(&mut answer).unwrap();
    let flood = Flood::of_the_test();
    let server = SocketAddr::new(SERVER.into(), PORT);
    let client = SocketAddr::new(CLIENT.into(), 40_000);
    let endpoint = Endpoint::bind(client, EndpointOptions::default()).unwrap();
    let (is_flooding, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let (sent, addresses) = (AtomicU64::new(0), AtomicU64::new(0));
    // The p99 of each turn. A turn that another process of the machine disturbed does not move their
    // median, and a flood that delays requests does.
    let (mut idle, mut flooded) = (Vec::new(), Vec::new());
    let (mut failed, mut requests) = (0, 0);
    let percentile = |times: &mut Vec<Duration>, percent: usize| {
        times.sort_unstable();
        times[times.len() * percent / 100]
    };
    let ask = |times: &mut Vec<Duration>| {
        let data = vec![7; 1_000];
        let start = Instant::now();
        let request = endpoint.request(server, data.clone(), &SendOptions::default()).unwrap();
        let (outcome, response) = request.wait_response();
        times.push(start.elapsed());
        matches!(outcome, Outcome::Done(_)) && response == Some(data)
    };
    for _ in 0..50 {
        ask(&mut Vec::new());
    }
    std::thread::scope(|scope| {
        scope.spawn(|| attack(flood, &is_flooding, &is_over, [&sent, &addresses]));
        // Both kinds of phases meet the same disturbances by other processes of the machine.
        while addresses.load(Ordering::Relaxed) < flood.addresses {
            for (is_flooded, time) in [(false, IDLE), (true, FLOODED)] {
                is_flooding.store(is_flooded, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
                let (mut times, start) = (Vec::new(), Instant::now());
                while start.elapsed() < time {
                    failed += u32::from(!ask(&mut times));
                }
                requests += times.len();
                let p99s = if is_flooded { &mut flooded } else { &mut idle };
                p99s.push(percentile(&mut times, 99));
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let [idle, flooded] =
        [&mut idle, &mut flooded].map(|p99s| percentile(p99s, 50).as_secs_f64() * 1e6);
    let [sent, addresses] = [sent, addresses].map(AtomicU64::into_inner);
    println!("result {idle} {flooded} {requests} {failed} {sent} {addresses}");
}

/// The length of a phase without hostile packets, and of one with them.
const IDLE: Duration = Duration::from_millis(50);
const FLOODED: Duration = Duration::from_millis(150);

fn attack(
    flood: Flood,
    is_flooding: &AtomicBool,
    is_over: &AtomicBool,
    [sent, addresses]: [&AtomicU64; 2],
) {
    use socket2::{Domain, Protocol, SockAddr, Socket, Type};
    // Protocol 255 is "raw": packets have their own IP header.
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).unwrap();
    let mut stream = Stream::named(1, "flood", 0);
    let mut last: Vec<Vec<u8>> = Vec::new();
    let mut seen = vec![false; 1 << 24];
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_micros(flood.every_us));
        for _ in 0..flood.burst * u64::from(is_flooding.load(Ordering::Relaxed)) {
            let kind = if flood.is_of_first_packets { 0 } else { stream.below(16) };
            let (packet, to) = hostile(&mut stream, kind, &mut last);
            let address = SockAddr::from(SocketAddr::new(to.into(), 0));
            // Packets that the kernel does not want to send are no attack.
            if socket.send_to(&packet, &address).is_ok() {
                sent.fetch_add(1, Ordering::Relaxed);
                // The source is at byte 12 of an IPv4 header.
                if let Some([20, a, b, c]) = packet.get(12..16) {
                    let number = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                    let is_new = !std::mem::replace(&mut seen[number], true);
                    addresses.fetch_add(u64::from(is_new), Ordering::Relaxed);
                }
            }
        }
    }
}

/// One hostile IP packet of one of 16 kinds, and where it goes.
fn hostile(stream: &mut Stream, kind: u64, last: &mut Vec<Vec<u8>>) -> (Vec<u8>, Ipv4Addr) {
    let anybody = Ipv4Addr::from_bits((20 << 24) + stream.below(1 << 24) as u32);
    let number = stream.bits() as u32;
    let answer = 1 + stream.below(3) as u8;
    let (from, to, port, datagram) = match kind {
        // Half of all: the first packet of a message, from one of 16 million addresses.
        0..8 => (anybody, SERVER, PORT, ndp(stream, number, kind::DATA)),
        // The honest client's address: data, ACKs, NACKs and pulls of flows that may exist.
        8 => (CLIENT, SERVER, PORT, ndp(stream, number, kind::DATA)),
        9 => (CLIENT, SERVER, PORT, ndp(stream, number, answer)),
        // The server's address, to the client: answers, and how a message ended.
        10 => (SERVER, CLIENT, 40_000, ndp(stream, number, answer)),
        11 => (SERVER, CLIENT, 40_000, control(stream, number)),
        12 => {
            let from = if stream.coin() { CLIENT } else { anybody };
            (from, SERVER, PORT, control(stream, number))
        }
        // Random bytes, and our own packets cut short.
        13 => {
            let len = stream.below(1_400) as usize;
            (anybody, SERVER, PORT, (0..len).map(|_| stream.bits() as u8).collect())
        }
        14 => {
            let mut datagram = ndp(stream, number, kind::DATA);
            datagram.truncate(stream.below(60) as usize);
            (anybody, SERVER, PORT, datagram)
        }
        // A packet that was sent before.
        _ if !last.is_empty() => {
            let at = stream.below(last.len() as u64) as usize;
            return (last[at].clone(), SERVER);
        }
        _ => (anybody, SERVER, PORT, Vec::new()),
    };
    let outer = Outer {
        mac: [[0; 6]; 2],
        source: IpAddr::from(from),
        destination: IpAddr::from(to),
        source_port: match from {
            CLIENT => 40_000,
            SERVER => PORT,
            _ => 1_024 + stream.below(60_000) as u16,
        },
        destination_port: port,
        dscp: 0,
        ecn: 0,
    };
    let mut frame = Vec::new();
    write_frame(&outer, &datagram, &mut frame);
    let packet = frame.split_off(ETHERNET_BYTES);
    if to == SERVER && last.len() < 64 {
        last.push(packet.clone());
    }
    (packet, to)
}

/// A well-formed packet of NDP.
fn ndp(stream: &mut Stream, flow: u32, kind: u8) -> Vec<u8> {
    let is_data = kind == kind::DATA;
    let size = [100, 1_000, 1 << 20, 1 << 40][stream.below(4) as usize];
    let header = NdpHeader {
        seq: 0,
        cumulative: if is_data { size } else { stream.bits() },
        sent_at: 0,
        pull: stream.bits() as u32,
        path: 0,
        kind,
        flags: if is_data { flags::SYN } else { stream.below(256) as u8 },
    };
    let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
    packet.class = Class::DATA;
    packet.flags = if is_data { PacketFlags::TRIMMABLE } else { PacketFlags::TO_SENDER };
    packet.payload_bytes = if is_data { size.min(1_000) as u16 } else { 0 };
    packet.wire_bytes = NDP_WIRE_BYTES as u16 + packet.payload_bytes;
    let mut bytes = Vec::new();
    let name = WireName { flow, incarnation: stream.bits() as u16 };
    emit(&NdpCodec, name, &packet, None, &mut bytes, |into| {
        into.fill(0xa5);
        Ok::<(), ()>(())
    })
    .unwrap();
    bytes
}

/// A well-formed packet of the host stack, with random contents.
fn control(stream: &mut Stream, flow: u32) -> Vec<u8> {
    let mut bytes = vec![0; ENVELOPE_BYTES];
    bytes.extend((0..24).map(|_| stream.bits() as u8));
    let kind = 8 + stream.below(8) as u8;
    let to_sender = ![9, 11, 12].contains(&kind);
    let envelope = Envelope {
        transport: <NdpCodec as punctual_wire::Codec>::TRANSPORT,
        kind: Kind::new(kind),
        class: Class::CONTROL,
        flags: if to_sender { PacketFlags::TO_SENDER } else { PacketFlags::empty() },
        is_syn: false,
        keyed: None,
        name: WireName { flow, incarnation: stream.bits() as u16 },
        path: 0,
        payload_bytes: 24,
    };
    envelope.seal(&mut bytes, 0);
    bytes
}
