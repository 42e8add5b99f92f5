//! Several source ports and several NICs.

use crate::endpoint::contents;
use crate::support::namespaces::Namespaces;
use punctual_core::Rate;
use punctual_host::{Endpoint, EndpointOptions, HostNic, Outcome, SendOptions};
use punctual_testkit::OtherWork;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Sends a message to a listening endpoint and compares what arrives. Returns the time until its
/// outcome was known.
fn transfer(client: &Endpoint, server: &Endpoint, to: SocketAddr, bytes: usize) -> Duration {
    let listener = server.listen();
    let data = contents(bytes as u64, bytes);
    let start = Instant::now();
    let send = client.send(to, data.clone(), &SendOptions::default()).expect("accepted");
    let mut message = listener.accept_timeout(Duration::from_secs(20)).expect("a message").unwrap();
    let mut received = vec![0; bytes];
    std::io::Read::read_exact(&mut message, &mut received).expect("all of it");
    assert!(received == data, "{bytes} bytes arrive as they were sent");
    let outcome = send.wait_timeout(Duration::from_secs(20)).expect("an outcome");
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    start.elapsed()
}

#[test]
fn source_ports__vary_and_both_ends_agree() {
    for (source_ports, sources) in [(1, 0), (4, 3)] {
        let options = EndpointOptions { source_ports, ..EndpointOptions::default() };
        let server = Endpoint::bind(ANY_PORT, options.clone()).unwrap();
        let client = Endpoint::bind(ANY_PORT, options).unwrap();
        transfer(&client, &server, server.local_addr(), 1_000);
        assert_eq!(server.stats().sources, 0, "a short message needs one path");
        transfer(&client, &server, server.local_addr(), 8_000_000);
        assert_eq!(server.stats().sources, sources, "with {source_ports} ports");
        assert_eq!(server.stats().peers, 1, "the peer is known by its main address");
        transfer(&server, &client, client.local_addr(), 8_000_000);
        assert_eq!(client.stats().sources, sources, "with {source_ports} ports");
        assert_eq!(client.stats().peers, 1);
    }
}

/// Forwards between clients and a server as an address translator does: each source gets a port of
/// its own. A firewall lets only the first source pass.
struct Translator {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<HashMap<SocketAddr, u64>>>,
}

impl Translator {
    fn start(server: SocketAddr, is_firewall: bool) -> Translator {
        let front = UdpSocket::bind(ANY_PORT).unwrap();
        front.set_nonblocking(true).unwrap();
        let address = front.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut ports: Vec<(SocketAddr, UdpSocket)> = Vec::new();
            let mut counts = HashMap::new();
            let mut buffer = [0; 1 << 16];
            let end = Instant::now() + Duration::from_secs(30);
            while !stopped.load(Ordering::Relaxed) && Instant::now() < end {
                let mut is_idle = true;
                while let Ok((len, source)) = front.recv_from(&mut buffer) {
                    is_idle = false;
                    if is_firewall && ports.first().is_some_and(|(first, _)| *first != source) {
                        continue;
                    }
                    *counts.entry(source).or_insert(0u64) += 1;
                    if !ports.iter().any(|(known, _)| *known == source) {
                        let socket = UdpSocket::bind(ANY_PORT).unwrap();
                        socket.set_nonblocking(true).unwrap();
                        ports.push((source, socket));
                    }
                    let port = ports.iter().find(|(known, _)| *known == source);
                    let _ = port.unwrap().1.send_to(&buffer[..len], server);
                }
                for (source, port) in &ports {
                    while let Ok((len, _)) = port.recv_from(&mut buffer) {
                        is_idle = false;
                        let _ = front.send_to(&buffer[..len], *source);
                    }
                }
                if is_idle {
                    std::thread::sleep(Duration::from_micros(20));
                }
            }
            counts
        });
        Translator { address, stop, thread: Some(thread) }
    }

    /// Datagrams by source.
    fn finish(mut self) -> HashMap<SocketAddr, u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

#[test]
fn source_ports__through_address_translation_every_port_carries_data() {
    let options = EndpointOptions { rate: Rate::from_mbps(200), ..EndpointOptions::default() };
    let server = Endpoint::bind(ANY_PORT, options.clone()).unwrap();
    let client = Endpoint::bind(ANY_PORT, options.clone()).unwrap();
    let translator = Translator::start(server.local_addr(), false);
    transfer(&client, &server, translator.address, 4_000_000);
    let counts = translator.finish();
    let packets: u64 = counts.values().sum();
    assert_eq!(counts.len(), options.source_ports, "{counts:?}");
    // Permuted paths are used equally often. The first packets leave before other paths are known.
    let fair = packets / options.source_ports as u64;
    assert!(counts.values().all(|count| *count >= fair / 4), "{counts:?}");
    assert_eq!(server.stats().peers, 1);
}

#[test]
fn source_ports__a_firewall_costs_paths_and_no_message() {
    let options = EndpointOptions { rate: Rate::from_mbps(200), ..EndpointOptions::default() };
    let server = Endpoint::bind(ANY_PORT, options.clone()).unwrap();
    let client = Endpoint::bind(ANY_PORT, options).unwrap();
    let firewall = Translator::start(server.local_addr(), true);
    transfer(&client, &server, firewall.address, 2_000_000);
    assert_eq!(firewall.finish().len(), 1);
    assert_eq!(server.stats().sources, 0);
}

/// Bytes that have arrived at each link of the second namespace.
fn arrived(namespaces: &Namespaces, links: usize) -> Vec<u64> {
    let text = namespaces.within(1, || std::fs::read_to_string("/proc/thread-self/net/dev"));
    let text = text.expect("statistics");
    let bytes = |link| {
        let name = format!("nic{link}:");
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&*name)).expect("a link");
        line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).expect("bytes")
    };
    (0..links).map(bytes).collect()
}

/// Two equal paths, between which the kernel chooses by a hash of addresses and ports, as switches
/// with ECMP do. One message from one UDP port takes one of them. One from 16 ports takes both: all
/// ports have the same path once in 2^15.
#[test]
fn source_ports__spread_one_message_over_equal_paths() {
    let links = 2;
    for (source_ports, least) in [(1, 0.0), (16, 1.0 / 16.0)] {
        let Some(namespaces) = Namespaces::with_links(links) else { return };
        for (end, other) in [(0, 1), (1, 0)] {
            // Layer 4: with the ports.
            let policy = "/proc/sys/net/ipv4/fib_multipath_hash_policy";
            namespaces.within(end, || std::fs::write(policy, "1")).expect("equal paths");
            namespaces.ip(end, &format!("addr add 10.200.0.{}/32 dev lo", end + 1));
            let to = other + 1;
            let hops: String = (0..links).map(|n| format!(" nexthop via 10.{n}.0.{to}")).collect();
            let own = end + 1;
            namespaces.ip(end, &format!("route add 10.200.0.{to}/32 src 10.200.0.{own}{hops}"));
        }
        let [client, server] = [0, 1].map(|end| {
            let options = EndpointOptions { source_ports, ..EndpointOptions::default() };
            let address = SocketAddr::from(([10, 200, 0, end as u8 + 1], 7_000));
            namespaces.within(end, || Endpoint::bind(address, options).expect("an endpoint"))
        });
        // The first message sets up the paths.
        transfer(&client, &server, server.local_addr(), 1_000_000);
        let before = arrived(&namespaces, links);
        let bytes = 8_000_000;
        transfer(&client, &server, server.local_addr(), bytes);
        let after = arrived(&namespaces, links);
        let shares: Vec<f64> =
            before.iter().zip(&after).map(|(a, b)| (b - a) as f64 / bytes as f64).collect();
        println!(
            "{source_ports} source ports: bytes on each path, over the message's: {shares:.3?}"
        );
        assert!(shares.iter().sum::<f64>() >= 1.0, "{shares:?}");
        if source_ports == 1 {
            // Neighbour discovery and pulls of the other direction may take the other one.
            assert!(shares.iter().any(|share| *share < 0.01), "one flow, two paths: {shares:?}");
        }
        // A port has a sixteenth of the packets; half of that leaves room for paths that were slow.
        assert!(shares.iter().all(|share| *share >= least / 2.0), "{shares:?}");
    }
}

/// An endpoint in each namespace, with as many of the links as NICs.
fn endpoints(namespaces: &Namespaces, nics: u8, rate: Rate) -> [Endpoint; 2] {
    [0, 1].map(|end| {
        let address = |nic: u8| IpAddr::from([10, nic, 0, end as u8 + 1]);
        let nic = |nic| HostNic { address: address(nic), interface: Some(format!("nic{nic}")) };
        let nics = (1..nics).map(nic).collect();
        let options = EndpointOptions { rate, nics, ..EndpointOptions::default() };
        let address = SocketAddr::new(address(0), 7_000);
        namespaces.within(end, || Endpoint::bind(address, options).expect("an endpoint"))
    })
}

#[test]
fn nics__two_carry_nearly_twice_as_much_as_one() {
    let Some(namespaces) = Namespaces::with_links(2) else { return };
    let (rate, bytes) = (Rate::from_mbps(20), 2_000_000);
    let work = OtherWork::watch();
    let [one, two] = [1, 2].map(|nics| {
        let [client, server] = endpoints(&namespaces, nics, rate);
        let to = server.local_addr();
        transfer(&client, &server, to, 100_000);
        transfer(&client, &server, to, bytes)
    });
    let ratio = one.as_secs_f64() / two.as_secs_f64();
    let measured = format!("one NIC {one:?}, two NICs {two:?}: {ratio:.2} times as fast");
    println!("{measured}");
    work.check(ratio >= 1.7, measured);
}

#[test]
fn nics__one_goes_down_in_mid_transfer() {
    // Whichever NIC fails: the one by which both ends first met, or the other.
    for (end, nic) in [(0, "nic1"), (0, "nic0"), (1, "nic1")] {
        let Some(namespaces) = Namespaces::with_links(2) else { return };
        let [client, server] = endpoints(&namespaces, 2, Rate::from_mbps(40));
        let to = server.local_addr();
        let took = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(120));
                namespaces.ip(end, &format!("link set {nic} down"));
            });
            transfer(&client, &server, to, 3_000_000)
        });
        println!("{nic} of end {end} down: {took:?}");
        // 0.3 s at 80 Mb/s; with one NIC from 0.12 s on 0.48 s, and then the silence that shows it.
        assert!(took >= Duration::from_millis(300), "{took:?}: too early to say anything");
    }
}

#[test]
fn wildcard__answers_come_from_the_address_that_was_asked() {
    let Some(namespaces) = Namespaces::with_links(1) else { return };
    namespaces.ip(1, "addr add 10.0.0.77/24 dev nic0");
    let options = EndpointOptions::default();
    let server = namespaces.within(1, || Endpoint::bind("0.0.0.0:7000".parse().unwrap(), options));
    let server = server.unwrap();
    let listener = server.listen();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(request) = listener.accept_timeout(Duration::from_secs(2)) {
                let mut request = request.unwrap();
                let bytes = request.read_to_end().unwrap();
                request.respond(bytes).unwrap().wait();
            }
        });
        for last in [77, 2] {
            let any = "10.0.0.1:0".parse().unwrap();
            let client =
                namespaces.within(0, || Endpoint::bind(any, EndpointOptions::default()).unwrap());
            let to = SocketAddr::from(([10, 0, 0, last], 7_000));
            let options =
                SendOptions { patience: Some(Duration::from_secs(3)), ..SendOptions::default() };
            let request = client.request(to, vec![last; 300_000], &options).unwrap();
            let (outcome, response) = request.wait_response();
            assert_eq!(response.map(|r| r.len()), Some(300_000), "{last}: {outcome:?}");
        }
    });
}
