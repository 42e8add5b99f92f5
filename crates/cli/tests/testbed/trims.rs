//! Endpoints behind a switch that trims as hardware does: it leaves lengths and checksums as they
//! were, and the kernel's UDP layer drops what it trimmed.

use crate::bed::{Bed, is_possible};
use crate::reload::reload;
use punctual_core::Rate;
use punctual_core::rng::Stream;
use punctual_host::{Endpoint, EndpointOptions, HardwareTrims, SendOptions};
use punctual_switch::{Testbed, in_namespace};
use std::net::{Ipv4Addr, SocketAddr};

const QUEUE: &str = "{ kind = \"trim\", data = \"8packets\", headers = \"64packets\" }";
const SENDERS: u32 = 3;
const BYTES: usize = 300_000;

fn message(sender: u32) -> Vec<u8> {
    let mut stream = Stream::named(u64::from(sender), "trims", 0);
    (0..BYTES).map(|_| stream.bits() as u8).collect()
}

/// Packets that the kernel of a host dropped because they were shorter than their IP header says.
fn truncated(namespace: &str) -> u64 {
    // The file of a thread shows the namespace of the thread.
    let read = || std::fs::read_to_string("/proc/thread-self/net/netstat");
    let text = in_namespace(namespace, read).expect("statistics");
    let mut lines = text.lines().filter(|line| line.starts_with("IpExt:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut pairs = names.split(' ').zip(values.split(' '));
    let value = pairs.find(|(name, _)| *name == "InTruncatedPkts").expect("a counter").1;
    value.parse().expect("a number")
}

/// Three hosts send to one at once through queues of 8 packets, so that much of their first windows
/// is trimmed. Returns how many trimmed packets the receiving endpoint got, and how many the kernel
/// dropped.
fn incast(prefix: &str, port: u16, trims: Option<HardwareTrims>) -> (u64, u64) {
    let receiver = format!("{prefix}-h0");
    let before = truncated(&receiver);
    let options = EndpointOptions { rate: Rate::from_mbps(100), ..EndpointOptions::default() };
    let address = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), port));
    let server = in_namespace(&receiver, || {
        Endpoint::bind(address, EndpointOptions { trims, ..options.clone() })
            .map_err(std::io::Error::other)
    });
    let server = server.expect("an endpoint");
    let listener = server.listen();
    std::thread::scope(|scope| {
        for sender in 1..=SENDERS {
            let options = options.clone();
            scope.spawn(move || {
                let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
                let bound = in_namespace(&format!("{prefix}-h{sender}"), || {
                    Endpoint::bind(any, options).map_err(std::io::Error::other)
                });
                let send = bound.expect("an endpoint");
                let send = send.send(address, message(sender), &SendOptions::default());
                let outcome = send.expect("it can be sent").wait();
                assert!(outcome.is_delivered(), "{outcome:?}");
            });
        }
        for _ in 0..SENDERS {
            let mut message_in = listener.accept().expect("a message");
            let std::net::IpAddr::V4(ip) = message_in.peer().ip() else { panic!("not IPv4") };
            let sender = u32::from(ip.octets()[3]) - 1;
            let bytes = message_in.read_to_end().expect("its bytes");
            assert!(bytes == message(sender), "other bytes than host {sender} sent");
        }
    });
    (server.stats().traffic.trimmed_frames, truncated(&receiver) - before)
}

/// With [`EndpointOptions::trims`] an endpoint gets the headers of packets that hardware trimmed, and
/// no byte of what was left of their payload. Without it the kernel drops those packets, and the
/// messages are completed by retransmission timeouts.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn trims__of_hardware_reach_an_endpoint() {
    if !is_possible() {
        return;
    }
    let bed = Bed::star(SENDERS + 1, "ndp", QUEUE);
    bed.must("up", &[]);
    let prefix = bed.prefix();
    let testbed = Testbed::new(&prefix);
    let plain = std::fs::read_to_string(testbed.config_file()).expect("a configuration");
    for (port, profile) in [(7001, "sai"), (7002, "broadcom"), (7003, "spectrum")] {
        let rule = format!("trim = {{ profile = \"{profile}\" }}\n{plain}");
        let report = reload(&bed, &testbed, &rule);
        assert!(report["reload_error"].is_null(), "{}", report["reload_error"]);
        let trims = HardwareTrims { interfaces: vec!["eth0".into()], dscp: None };
        let (received, _) = incast(&prefix, port, Some(trims));
        let (none, lost) = incast(&prefix, port + 100, None);
        println!("{profile}: {received} trims received; without the option {lost} lost");
        assert!(received > 0, "{profile}: no trimmed packet was received");
        assert_eq!(none, 0);
        assert!(lost > 0, "{profile}: the kernel dropped no trimmed packet");
    }
}
