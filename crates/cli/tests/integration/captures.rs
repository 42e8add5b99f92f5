//! `punctual capture`: what it writes, what it refuses, and what Wireshark's command line reads.

use crate::common::{Place, text};
use punctual_transports::AnyTransport;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const SCENARIO: &str = r#"
name = "captured"
transports = ["ndp", "d3"]
[network]
topology = "star"
hosts = 5
rate = "10Gbps"
delay = "1us"
[[traffic]]
pattern = "incast"
senders = 4
sizes = "60KB"
deadlines = "2ms"
[run]
duration = "20ms"
"#;

/// A scenario with every transport that can be in one, by name.
fn transports() -> impl Iterator<Item = &'static str> {
    AnyTransport::catalogue().iter().map(|info| info.name)
}

#[test]
fn capture__as_many_packets_as_asked_for() {
    let place = Place::new(SCENARIO);
    let args = ["capture", "s.toml", "--transport", "ndp", "--out", "a.pcapng", "--json"];
    let all = place.punctual(&args);
    assert!(all.status.success(), "{}", text(&all.stderr));
    let all: serde_json::Value = serde_json::from_slice(&all.stdout).expect("an object");
    // 4 flows of 60,000 bytes in packets of 1,436: 42 each, on two links, and as many answers.
    assert!(all["packets"].as_u64().expect("packets") >= 4 * 42 * 2 * 2, "{all}");
    assert_eq!((&all["interfaces"], &all["is_full"]), (&10.into(), &false.into()));
    let few = ["capture", "s.toml", "--transport", "ndp", "--out", "b.pcapng", "--packets", "10"];
    let shown = text(&place.punctual(&few).stdout);
    assert!(shown.contains("10 packets, where the run was ended"), "{shown}");
}

#[test]
fn capture__refuses_what_it_cannot_do() {
    let place = Place::new(SCENARIO);
    std::fs::write(place.path().join("mine.pcapng"), "mine").expect("a file");
    let large = ["--set", "network.hosts=300"];
    for (args, message) in [
        (&["--out", "x.pcapng"][..], "one of ndp, d3"),
        (&["--out", "x.pcapng", "--transport", "tcp"], "the scenario has ndp, d3"),
        (&["--out", "mine.pcapng", "--transport", "ndp"], "cannot write mine.pcapng"),
        (&[&["--out", "x.pcapng", "--transport", "ndp"], &large[..]].concat(), "at most 256"),
    ] {
        let output = place.punctual(&[&["capture", "s.toml"], args].concat());
        let complaint = text(&output.stderr);
        assert!(!output.status.success() && complaint.contains(message), "{args:?}: {complaint}");
    }
    assert_eq!(std::fs::read(place.path().join("mine.pcapng")).expect("kept"), b"mine");
    assert!(!place.path().join("x.pcapng").exists());
}

/// What tshark prints of a capture. Fails if tshark complains about the dissector.
fn tshark(dir: &Path, capture: &str, args: &[&str]) -> String {
    let lua = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/wireshark/punctual.lua");
    let output = Command::new("tshark")
        .current_dir(dir)
        .args(["-r", capture, "-X", &format!("lua_script:{lua}")])
        .args(args)
        .output()
        .expect("tshark is installed; `cargo xtask setup` installs it");
    let complaints = text(&output.stderr);
    assert!(output.status.success() && !complaints.contains("Lua"), "{complaints}");
    text(&output.stdout)
}

#[test]
#[ignore = "needs tshark: cargo xtask test tshark"]
fn tshark__reads_the_packets_of_every_transport() {
    let with_codec: BTreeSet<&str> = ["ndp", "d3", "rcpdc", "pdq"].into();
    for name in transports() {
        let place = Place::new(&SCENARIO.replace(r#"["ndp", "d3"]"#, &format!(r#"["{name}"]"#)));
        let file = format!("{name}.pcapng");
        let args = ["capture", "s.toml", "--out", &file, "--packets", "2000", "--json"];
        let output = place.punctual(&args);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        let made: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
        let packets = made["packets"].as_u64().expect("packets");
        assert!(packets > 100, "{name}: {made}");
        let fields = ["-T", "fields", "-e", "punctual.transport", "-e", "punctual.kind"];
        let lines = tshark(place.path(), &file, &fields);
        let kinds: BTreeSet<&str> = lines.lines().collect();
        assert_eq!(lines.lines().count() as u64, packets, "{name}");
        let number = match name {
            "ndp" => "1",
            "d3" => "2",
            "rcpdc" => "3",
            "pdq" => "4",
            _ => "31",
        };
        assert!(kinds.iter().all(|kind| kind.starts_with(&format!("{number}\t"))), "{kinds:?}");
        let shown = tshark(place.path(), &file, &["-V"]);
        for wrong in ["Malformed", "Lua Error", "does not match", "unknown transport"] {
            assert!(!shown.contains(wrong), "{name}: {wrong}");
        }
        if with_codec.contains(name) {
            assert!(!shown.contains("generic.number"), "{name}");
        }
    }
}

/// Captures transfers over each transport on loopback and looks at every packet with tshark: data,
/// answers and the packets of the host stack, all with named fields.
#[test]
#[ignore = "needs tshark: cargo xtask test tshark"]
fn tshark__reads_live_captures() {
    let place = Place::new(SCENARIO);
    std::fs::write(place.path().join("file"), vec![7; 300_000]).expect("a file");
    // A port of its own, which the dissector recognises by the packets.
    let socket = std::net::UdpSocket::bind("127.77.2.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    drop(socket);
    let (address, port) = (address.to_string(), address.port().to_string());
    let start = |args: &[&str]| {
        let mut command = place.command(args);
        command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let mut line = String::new();
        let stderr = child.stderr.take().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line).expect("text");
        (child, line)
    };
    let args = ["capture", "--interface", "lo", "--port", &port, "--for", "8s", "--out"];
    let (capture, line) = start(&[&args[..], &["live.pcapng", "--json"]].concat());
    if line.contains("CAP_NET_RAW") {
        assert!(std::env::var_os("PUNCTUAL_NO_SKIPS").is_none(), "{line}");
        eprintln!("SKIPPED: {line}");
        return;
    }
    assert!(line.contains("capturing on lo"), "{line}");
    for transport in ["ndp", "d3", "pdq"] {
        let rate = ["--rate", "200Mbps"];
        let receive = ["receive", "--listen", &address, "--out", transport];
        let (receive, _) = start(&[&receive[..], &rate].concat());
        let send = ["send", "file", &address, "--transport", transport];
        let sent = place.punctual(&[&send[..], &rate].concat());
        assert!(sent.status.success(), "{transport}: {}", text(&sent.stderr));
        let received = receive.wait_with_output().expect("it ends");
        assert!(received.status.success(), "{transport}: {}", text(&received.stderr));
    }
    let captured = capture.wait_with_output().expect("it ends");
    let made: serde_json::Value = serde_json::from_slice(&captured.stdout).expect("an object");
    // 300 KB are 209 packets of 1,436 B, and each is acknowledged. Segmentation offload makes one
    // frame of up to 64 packets that leave together.
    let packets = made["packets"].as_u64().expect("packets");
    assert!(packets > 2 * 209 / 64, "{made}");
    assert_eq!(made["lost"], 0, "{made}");
    let lengths = tshark(place.path(), "live.pcapng", &["-T", "fields", "-e", "udp.length"]);
    let bytes: u64 = lengths.lines().filter_map(|length| length.parse::<u64>().ok()).sum();
    assert!(bytes > 300_000, "{bytes} B captured of a file of 300 KB");
    let fields = ["-T", "fields", "-e", "punctual.kind", "-e", "punctual.flow", "-e", "udp.port"];
    let lines = tshark(place.path(), "live.pcapng", &fields);
    assert_eq!(lines.lines().count() as u64, packets);
    for line in lines.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        assert!(fields.len() == 3 && fields.iter().all(|field| !field.is_empty()), "{line}");
        assert!(fields[2].split(',').any(|found| found == port), "{line}");
    }
    // A frame may have several packets, and so several kinds.
    let kinds = lines.lines().filter_map(|line| line.split('\t').next());
    let kinds: BTreeSet<&str> = kinds.flat_map(|kinds| kinds.split(',')).collect();
    // Data and ACKs of NDP; the proof of the address.
    for kind in ["0", "1", "8", "9"] {
        assert!(kinds.contains(kind), "{kinds:?}");
    }
    let count = |filter: &str| tshark(place.path(), "live.pcapng", &["-Y", filter]).lines().count();
    for (filter, least) in [
        ("punctual.transport == 1 && punctual.prologue.version == 0xa2", 1),
        ("punctual.transport == 2 && punctual.prologue.version == 0xa2", 1),
        ("punctual.transport == 4 && punctual.prologue.version == 0xa2", 1),
        // A request to offer the file and one to store it, or more.
        ("punctual.transport == 2 && punctual.opening.size > 28", 2),
        ("punctual.transport == 4 && punctual.opening.segment > 1000", 2),
        ("punctual.stack.token", 2),
    ] {
        assert!(count(filter) >= least, "{filter}: {} packets", count(filter));
    }
    assert_eq!(count("punctual.kind >= 8 && punctual.payload"), 0, "a payload without names");
    let shown = tshark(place.path(), "live.pcapng", &["-V"]);
    for wrong in ["Malformed", "Lua Error", "does not match", "unknown transport"] {
        assert!(!shown.contains(wrong), "{wrong}");
    }
}
