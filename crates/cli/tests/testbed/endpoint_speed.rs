//! How fast the endpoint is beside bare UDP and TCP, like for like: `punctual perf` measures all of
//! them with the same two processes, placement and way to wait, between two hosts that share a veth
//! pair.

use crate::bed::{Bed, PROGRAM, is_possible, too_late};
use crate::requests::Server;
use punctual_testkit::{OtherWork, TestNamespaces, ip};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// Two namespaces with a veth pair, and the server in one of them. Nothing of it outlives the test.
struct Pair {
    namespaces: TestNamespaces,
    server: Option<Child>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    ip(&words).unwrap_or_else(|error| panic!("ip {line}: {error}"));
}

impl Pair {
    fn new() -> Pair {
        let namespaces = TestNamespaces::create(2).expect("namespaces");
        let [a, b] = namespaces.names() else { panic!("two names") };
        run(&format!("-n {a} link add eth0 mtu 9000 type veth peer name eth0 netns {b}"));
        for (end, name) in [(1, a), (2, b)] {
            run(&format!("-n {name} addr add 10.77.0.{end}/24 dev eth0"));
            run(&format!("-n {name} link set eth0 mtu 9000 up"));
            run(&format!("netns exec {name} sysctl -qw net.ipv4.tcp_fastopen=3"));
        }
        Pair { namespaces, server: None }
    }

    fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    fn command(&self, end: usize, flags: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespaces.names()[end], PROGRAM, "perf"]).args(flags);
        command
    }

    /// What `perf` prints with these flags at both ends.
    fn perf(&mut self, flags: &[&str], client_flags: &[&str]) -> serde_json::Value {
        self.stop();
        let mut server = self.command(0, &["--listen", "10.77.0.1:7000"]);
        let mut server = server.args(flags).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let stderr = server.stderr.take().expect("a pipe");
        BufReader::new(stderr).read_line(&mut line).expect("a line");
        self.server = Some(server);
        assert!(line.contains("listening"), "{line}");
        let mut client = self.command(1, &["10.77.0.1:7000", "--json"]);
        let output = client.args(flags).args(client_flags).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.stop();
        println!("{text}");
        serde_json::from_str(&text).expect("JSON")
    }
}

fn p50(report: &serde_json::Value, name: &str) -> f64 {
    report["latency"][name]["p50_us"].as_f64().unwrap_or_else(|| panic!("{name}: not measured"))
}

fn gbps(report: &serde_json::Value, name: &str) -> f64 {
    report["bulk_gbps"][name].as_f64().unwrap_or_else(|| panic!("{name}: not measured"))
}

/// What a measured value should be.
#[derive(Clone, Copy)]
enum Aim {
    AtMost(f64),
    AtLeast(f64),
}

/// Medians of one measurement, repeated on a quiet machine, differ by up to a tenth.
const NOISE: f64 = 1.1;

impl Aim {
    fn is_met(self, measured: f64) -> bool {
        match self {
            Aim::AtMost(most) => measured <= most,
            Aim::AtLeast(least) => measured >= least,
        }
    }

    /// Whether it is met however the noise falls.
    fn is_met_surely(self, measured: f64) -> bool {
        match self {
            Aim::AtMost(_) => self.is_met(measured * NOISE),
            Aim::AtLeast(_) => self.is_met(measured / NOISE),
        }
    }
}

/// Whether docs/endpoint.md lists this aim among those that are missed: the first cell of a row.
fn is_listed(id: &str) -> bool {
    let page = include_str!("../../../../docs/endpoint.md");
    page.lines().any(|line| line.starts_with(&format!("| `{id}` |")))
}

/// Holds a value to its aim. A missed aim must be listed in docs/endpoint.md, and an aim that is met
/// surely must not.
fn check_aim(work: &OtherWork, id: &str, measured: f64, aim: Aim) {
    let listed = if is_listed(id) { ", listed as missed" } else { "" };
    let met = if aim.is_met(measured) { "met" } else { "missed" };
    println!("{id}: {measured:.2}, {met}{listed}");
    let table = "docs/endpoint.md, \"Aims that are missed\"";
    if is_listed(id) {
        let failure = format!("{id}: {measured:.2} meets its aim: remove its row in {table}");
        work.check(!aim.is_met_surely(measured), failure);
    } else {
        let failure = format!("{id}: {measured:.2} misses its aim and has no row in {table}");
        work.check(aim.is_met(measured), failure);
    }
}

/// A request and its response of 1 KB take at most 1.4 times a bare UDP exchange, and less than with a
/// new TCP connection or Fast Open. Bulk reaches half of plain sendmmsg and recvmmsg. Both hold at
/// 1,500 and at 9,000 B, wherever the two processes run and however they wait. Medians of three
/// measurements.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn speed__of_requests_and_bulk_beside_udp_and_tcp() {
    if !is_possible() {
        return;
    }
    let places: [(&str, &[&str]); 3] = [
        ("two-cores", &["--placement", "two-cores"]),
        ("same-core", &["--placement", "same-core"]),
        ("spin", &["--placement", "two-cores", "--spin"]),
    ];
    for ((place, flags), mtu) in places.into_iter().flat_map(|place| [(place, 1500), (place, 9000)])
    {
        let bytes = format!("{mtu}B");
        let flags = [flags, &["--mtu", &bytes][..]].concat();
        // Each measurement leaves 6,000 TCP ports in TIME-WAIT, of the 28,000 that a namespace has.
        let mut pair = Pair::new();
        let work = OtherWork::watch();
        let reports = [(); 3].map(|()| pair.perf(&flags, &["--count", "3000"]));
        let median_of = |ratio: &dyn Fn(&serde_json::Value) -> f64| {
            let mut ratios = reports.each_ref().map(ratio);
            ratios.sort_by(f64::total_cmp);
            ratios[1]
        };
        for (id, other, aim) in [
            ("over-udp", "UDP, bare", Aim::AtMost(1.4)),
            ("over-new-tcp", "TCP, new connections", Aim::AtMost(1.0)),
            ("over-fast-open", "TCP, Fast Open", Aim::AtMost(1.0)),
        ] {
            let ratio = median_of(&|report| p50(report, "NDP") / p50(report, other));
            check_aim(&work, &format!("request-{id}-{place}-{mtu}"), ratio, aim);
        }
        let share = median_of(&|report| gbps(report, "NDP") / gbps(report, "UDP, sendmmsg"));
        check_aim(&work, &format!("bulk-{place}-{mtu}"), share, Aim::AtLeast(0.5));
    }
}

/// Bulk fills 80 % of a path of 200 Mb/s with a round trip of 20 ms, through our switch.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn speed__fills_a_long_path() {
    if !is_possible() {
        return;
    }
    // Two links each way. The path holds 333 packets.
    let network = "topology = \"star\"\nhosts = 2\nrate = \"200Mbps\"\ndelay = \"5ms\"";
    let queue = "{ kind = \"drop-tail\", limit = \"400packets\" }";
    let bed = Bed::with_network(network, "ndp", queue);
    bed.must("up", &[]);
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(path("file"), vec![7; 100_000_000]).expect("a file");
    let rate = ["--rate", "200Mbps"];
    let mut receive = Command::new(PROGRAM);
    receive.args(["receive", "--listen", "10.0.0.1:7000", "--out", &path("copy")]).args(rate);
    let server = Server::start_command(&bed, receive);
    let rtt = bed.must("exec", &["1", PROGRAM, "ping", "10.0.0.1:7000", "--count", "1", "--json"]);
    let rtt: serde_json::Value = serde_json::from_str(&rtt).expect("JSON");
    let rtt_us = rtt["microseconds"][0].as_f64().expect("an answer");
    assert!(rtt_us >= 20_000.0, "a round trip of {rtt_us} us");
    let send = ["1", PROGRAM, "send", &path("file"), "10.0.0.1:7000", "--json"];
    let work = OtherWork::watch();
    let printed = bed.must("exec", &[&send[..], &rate].concat());
    drop(server);
    let report: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let goodput = report["goodput_gbps"].as_f64().expect("a rate");
    // A packet of 1,500 B takes 1,538 B of a link and carries 1,436 B.
    let share = goodput * 1e3 / 200.0 * 1_538.0 / 1_436.0;
    let switch = bed.report();
    if switch["valid"] != true {
        too_late(&work, &format!("the timing of the run was invalid: {}", switch["problems"]));
        return;
    }
    assert!(share <= 1.01, "{share:.3}: faster than its links");
    check_aim(&work, "bulk-20ms-200mbps", share, Aim::AtLeast(0.8));
}

/// `--rate` is kept within 5 %.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn speed__keeps_the_rate_asked_for() {
    if !is_possible() {
        return;
    }
    let mut pair = Pair::new();
    for mbps in [100.0, 500.0] {
        let rate = format!("{mbps}Mbps");
        let flags = ["--placement", "two-cores", "--rate", &rate];
        let bulk = format!("{}MB", mbps as u64 / 8);
        let client = ["--count", "10", "--bulk", &bulk];
        let work = OtherWork::watch();
        let report = pair.perf(&flags, &client);
        // A packet of 1,500 B takes 1,538 B of a link and carries 1,436 B after the headers of IP
        // and UDP (28 B) and NDP (36 B).
        let most = mbps / 1e3 * 1_436.0 / 1_538.0;
        let share = gbps(&report, "NDP") / most;
        println!("{rate}: {share:.3} of what fits");
        let is_kept = (0.95..=1.05).contains(&share);
        work.check(is_kept, format!("{rate}: {share:.3} of what fits"));
    }
}
