//! Small messages of the host stack through our switch: NDP's Figure 8, a request and its response of
//! 1 KB, and the paths that they take.

use crate::bed::{Bed, PROGRAM, is_possible, too_late};
use crate::runs::median;
use punctual_testkit::OtherWork;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// The network of `scenarios/testbed-rpc.toml`.
const NETWORK: &str = "topology = \"star\"\nhosts = 2\nrate = \"1Gbps\"\ndelay = \"1us\"";
const QUEUE: &str = "{ kind = \"drop-tail\", limit = \"100packets\" }";
/// What `punctual perf` measures, in the order of the tests below.
const NAMES: [&str; 4] = ["UDP, bare", "NDP", "TCP, Fast Open", "TCP, new connections"];
/// Testbeds, each with a verdict on its timing.
const ROUNDS: usize = 3;

/// Microseconds that the links need for a payload each way: two links of 1 Gb/s and 1 us, and 66 bytes
/// of UDP and IP headers and framing.
fn links_us(payload: f64) -> f64 {
    2.0 * 2.0 * ((payload + 66.0) * 8.0 / 1_000.0 + 1.0)
}

/// A server at a host, killed when dropped.
pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts `punctual perf` at host 0, and waits until it listens.
    fn start(bed: &Bed) -> Server {
        let mut perf = Command::new(PROGRAM);
        perf.args(["perf", "--listen", "10.0.0.1:7000"]);
        Server::start_command(bed, perf)
    }

    /// Starts a command at host 0, and waits until it says that it listens.
    pub(crate) fn start_command(bed: &Bed, mut command: Command) -> Server {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let at_host = format!("{}-h0", bed.prefix());
        let server = punctual_switch::spawn_in_namespace(&at_host, &mut command);
        let mut server = Server(server.expect("it starts"));
        let mut line = String::new();
        let stderr = server.0.stderr.take().expect("a pipe");
        BufReader::new(stderr).read_line(&mut line).expect("a line");
        assert!(line.contains("listening"), "{line}");
        server
    }
}

/// The medians of [`NAMES`] in microseconds on a new testbed, and why their timing is invalid, if it is.
fn measure() -> ([f64; 4], Option<String>) {
    let bed = Bed::with_network(NETWORK, "ndp", QUEUE);
    bed.must("up", &[]);
    for host in ["0", "1"] {
        bed.must("exec", &[host, "sysctl", "-qw", "net.ipv4.tcp_fastopen=3"]);
    }
    let server = Server::start(&bed);
    let flags = ["--count", "1000", "--bulk", "1MB", "--rate", "1Gbps", "--json"];
    let printed =
        bed.must("exec", &[&["1", PROGRAM, "perf", "10.0.0.1:7000"][..], &flags].concat());
    drop(server);
    let latency = &serde_json::from_str::<serde_json::Value>(&printed).expect("JSON")["latency"];
    let median =
        |name| latency[name]["p50_us"].as_f64().unwrap_or_else(|| panic!("{name}: {printed}"));
    let report = bed.report();
    (NAMES.map(median), (report["valid"] != true).then(|| report["problems"].to_string()))
}

/// A request and its response of 1 KB take longest on a new TCP connection, less with TCP Fast Open,
/// and least with NDP. The paper has medians of 155, 103 and 62 us.
///
/// Both processes share the processors that the switch leaves them, and sleep while they wait.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn ndp__a_request_and_its_response_are_faster_than_tcp_and_fast_open() {
    if !is_possible() {
        return;
    }
    let work = OtherWork::watch();
    let mut valid: Vec<[f64; 4]> = Vec::new();
    for round in 1..=ROUNDS {
        let (medians, invalid) = measure();
        println!("1 KB each way through the switch, medians in us: {NAMES:?} {medians:.1?}");
        // The switch delays frames as its links do, whatever else runs here. An NDP packet has
        // 36 bytes of headers more.
        let [udp, ndp, ..] = medians;
        assert!(udp >= links_us(1_000.0), "faster than the links: UDP {udp:.1} us");
        assert!(ndp >= links_us(1_036.0), "faster than the links: NDP {ndp:.1} us");
        match invalid {
            None => valid.push(medians),
            Some(problems) => println!("round {round}: invalid timing: {problems}"),
        }
    }
    let of = |at: usize| median(&mut valid.iter().map(|medians| medians[at]).collect::<Vec<_>>());
    let [_, Some(ndp), Some(fast_open), Some(tcp)] = [0, 1, 2, 3].map(of) else {
        return too_late(&work, "a request through the switch: no round with valid timing");
    };
    println!(
        "{} valid rounds: NDP {ndp:.1}, TCP Fast Open {fast_open:.1}, TCP {tcp:.1} us",
        valid.len()
    );
    let failure = format!("NDP {ndp:.1}, Fast Open {fast_open:.1}, TCP {tcp:.1} us");
    work.check(ndp < fast_open && fast_open < tcp, failure);
}

/// Small messages of the host stack take every path of a network with four spines, both ways.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn paths__small_messages_take_every_spine() {
    if !is_possible() {
        return;
    }
    let network = "topology = \"leaf-spine\"\nracks = 2\nhosts_per_rack = 1\nspines = 4\n\
                   rate = \"100Mbps\"\ndelay = \"5us\"";
    let bed = Bed::with_network(network, "ndp", QUEUE);
    bed.must("up", &[]);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::create_dir(path("inbox")).expect("a directory");
    let files: Vec<String> = (0..FILES).map(|n| path(&n.to_string())).collect();
    files.iter().for_each(|file| std::fs::write(file, [7; 1_000]).expect("a file"));
    let count = FILES.to_string();
    let mut receive = Command::new(PROGRAM);
    receive.args(["receive", "--listen", "10.0.0.1:7000", "--into", &path("inbox")]);
    receive.args(["--count", &count]);
    let server = Server::start_command(&bed, receive);
    let send: Vec<&str> = [PROGRAM, "send"]
        .into_iter()
        .chain(files.iter().map(|file| &**file))
        .chain(["10.0.0.1:7000"])
        .collect();
    bed.must("exec", &[&["1"][..], &send].concat());
    drop(server);
    let report = bed.report();
    // Each file needs two requests. 80 random paths miss one of four with 4 * 0.75^80, 4 in 10^10.
    for (spine, rack) in (0..4).flat_map(|spine| [(spine, 0), (spine, 1)]) {
        let name = format!("spine {spine} \u{2192} rack {rack}");
        let ports = report["ports"].as_array().expect("ports");
        let port = ports.iter().find(|port| port["port"] == name).expect("a port");
        println!("{name}: {} packets", port["sent_packets"]);
        assert!(port["sent_packets"].as_u64() > Some(0), "{name}");
    }
}

const FILES: usize = 40;
