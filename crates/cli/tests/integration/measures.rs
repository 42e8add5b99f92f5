//! `punctual perf` and `punctual ping` as processes.

use crate::common::{Place, text};
use punctual_wire::VersionAnswer;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};

/// A few requests and little data: whether it measures, not how fast.
const SMALL: [&str; 7] = ["--count", "20", "--size", "1KB", "--bulk", "1MB", "--json"];

/// A server of measurements, killed when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(place: &Place, args: &[&str]) -> Server {
        let mut command = place.command(&[&["perf", "--listen", "127.0.0.1:0"], args].concat());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        stderr.read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ").expect("it says where").to_owned();
        Server { child, address }
    }
}

/// Checks the object that `perf --json` prints: every protocol has latencies in order or the reason
/// why it was not measured, which only Fast Open and QUIC may have.
fn check_measurement(printed: &[u8], is_fast_open: bool) {
    let object: Value = serde_json::from_slice(printed).expect("an object");
    assert_eq!((object["bytes"].as_u64(), object["requests"].as_u64()), (Some(1_000), Some(20)));
    let mut names = vec![
        ("UDP, bare", true),
        ("NDP", true),
        ("TCP, one connection", true),
        ("TCP, new connections", true),
        ("TCP, Fast Open", is_fast_open),
    ];
    if cfg!(feature = "quic") {
        names.extend([("QUIC, one connection", true), ("QUIC, new connections", true)]);
    }
    let latency = object["latency"].as_object().expect("latencies");
    assert_eq!(latency.len(), names.len(), "{object}");
    for (name, is_measured) in names {
        let of = |key: &str| latency[name][key].as_f64();
        match is_measured {
            true => {
                let times = [of("p50_us"), of("p90_us"), of("p99_us")];
                let [p50, p90, p99] = times.map(|time| time.expect("a time"));
                assert!(0.0 < p50 && p50 <= p90 && p90 <= p99, "{name}: {object}");
            }
            false => {
                let why = latency[name]["not_measured"].as_str().expect("a reason");
                assert!(why.contains("tcp_fastopen"), "{why}");
            }
        }
    }
    let bulk = object["bulk_gbps"].as_object().expect("rates");
    assert_eq!(bulk.len(), 3, "{object}");
    for (name, rate) in bulk {
        assert!(rate.as_f64().expect("a rate") > 0.0, "{name}: {object}");
    }
}

/// Whether the kernel serves TCP Fast Open at both ends.
fn has_fast_open() -> bool {
    let set = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_fastopen").unwrap_or_default();
    set.trim().parse::<u32>().is_ok_and(|bits| bits & 3 == 3)
}

#[test]
fn perf__measures_every_protocol() {
    let place = Place::new("");
    // With a server that it starts itself.
    let alone = place.punctual(&[&["perf"], &SMALL[..]].concat());
    assert!(alone.status.success(), "{}", text(&alone.stderr));
    check_measurement(&alone.stdout, has_fast_open());
    let object: Value = serde_json::from_slice(&alone.stdout).expect("an object");
    let placement = object["placement"].as_str().expect("text");
    assert!(placement.contains("two processes on this machine"), "{placement}");
    // With a server elsewhere.
    let server = Server::start(&place, &[]);
    let other = place.punctual(&[&["perf", &server.address], &SMALL[..]].concat());
    assert!(other.status.success(), "{}", text(&other.stderr));
    check_measurement(&other.stdout, has_fast_open());
}

#[test]
fn perf__prints_a_table() {
    let place = Place::new("");
    let output = place.punctual(&["perf", "--count", "5", "--bulk", "100KB"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for words in ["MTU 1500", "p99 µs", "UDP, bare", "NDP", "TCP, Fast Open", "Gb/s", "sendmmsg"] {
        assert!(table.contains(words), "{words}: {table}");
    }
}

/// Fast Open in a network namespace where the kernel serves it, and where it does not.
#[test]
fn perf__fast_open_follows_the_kernel_s_setting() {
    let place = Place::new("");
    for (setting, is_measured) in [("3", true), ("0", false)] {
        let script = format!(
            "ip link set lo up && echo {setting} > /proc/sys/net/ipv4/tcp_fastopen && exec \"$@\""
        );
        let mut command = Command::new("unshare");
        command.current_dir(place.path()).args(["--net", "sh", "-c", &script, "sh"]);
        command.arg(env!("CARGO_BIN_EXE_punctual")).arg("perf").args(SMALL);
        let output = command.output();
        let is_allowed = Command::new("unshare").args(["--net", "true"]).output();
        if !is_allowed.is_ok_and(|allowed| allowed.status.success()) {
            assert!(std::env::var_os("PUNCTUAL_NO_SKIPS").is_none(), "CAP_SYS_ADMIN is needed");
            eprintln!("SKIPPED: a network namespace needs `unshare` and CAP_SYS_ADMIN");
            return;
        }
        let output = output.expect("unshare runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        check_measurement(&output.stdout, is_measured);
    }
}

/// A peer of version 9, which answers one ping.
#[test]
fn ping__names_another_version() {
    let place = Place::new("");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address").to_string();
    let ping = || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = [0; 2_048];
                let (_, from) = socket.recv_from(&mut buffer).expect("a ping");
                let flow = u32::from_be_bytes(*buffer[4..8].first_chunk().expect("a number"));
                let answer = VersionAnswer { version: 9, flow };
                socket.send_to(&answer.to_bytes(), from).expect("it leaves");
            });
            place.punctual(&["ping", &address, "--count", "3", "--json"])
        })
    };
    let output = ping();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    let wanted = format!("{address}: reads version 9 of the packet format, this end version 2");
    assert!(said.contains(&wanted), "{said}");
    let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!((object["sent"].as_u64(), object["answered"].as_u64()), (Some(1), Some(0)));
    assert!(object["error"].as_str().expect("text").contains("version 9"), "{object}");
}

#[test]
fn ping__counts_answers() {
    let place = Place::new("");
    let server = Server::start(&place, &[]);
    let ping = ["ping", &server.address, "--count", "3", "--interval", "1ms"];
    let output = place.punctual(&[&ping[..], &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!((object["sent"].as_u64(), object["answered"].as_u64()), (Some(3), Some(3)));
    let times = object["microseconds"].as_array().expect("times");
    assert!(times.len() == 3 && times.iter().all(|time| time.as_f64().is_some_and(|t| t > 0.0)));
    let printed = text(&place.punctual(&ping).stdout);
    assert_eq!(printed.lines().filter(|line| line.ends_with("µs")).count(), 3, "{printed}");
    // Nobody is there any more.
    let address = server.address.clone();
    drop(server);
    let output = place.punctual(&["ping", &address, "--count", "1", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no answer"), "{}", text(&output.stderr));
    let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!((object["answered"].as_u64(), &object["microseconds"][0]), (Some(0), &Value::Null));
}
