//! The kernel's own protocols through the switch.

use crate::bed::{Bed, is_possible, skip, too_late};
use crate::reload::reload;
use punctual_switch::{Testbed, in_namespace};
use punctual_testkit::OtherWork;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const QUEUE: &str = "{ kind = \"drop-tail\", limit = \"100packets\" }";
const BYTES: usize = 30_000_000;

/// Sends an ICMP echo request and waits for the answer. Returns the round-trip time.
pub(crate) fn ping(to: Ipv4Addr) -> io::Result<Duration> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    // Type 8, code 0, checksum, number, sequence.
    let request = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
    let begin = Instant::now();
    socket.send_to(&request, &SocketAddr::from((to, 0)).into())?;
    while begin.elapsed() < Duration::from_secs(5) {
        let mut buffer = [MaybeUninit::uninit(); 256];
        let (_, from) = socket.recv_from(&mut buffer)?;
        if from.as_socket_ipv4().is_some_and(|from| *from.ip() == to) {
            return Ok(begin.elapsed());
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Sends bytes over one TCP connection from host 1 to host 0. Returns the goodput in Mb/s, from the
/// first byte received to the last.
fn tcp(prefix: &str, address: &str) -> io::Result<f64> {
    let address: SocketAddr = address.parse().expect("an address");
    let receiver = format!("{prefix}-h0");
    let listener = in_namespace(&receiver, || TcpListener::bind(address))?;
    std::thread::scope(|scope| {
        let received = scope.spawn(move || -> io::Result<f64> {
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(Duration::from_secs(20)))?;
            let mut buffer = vec![0; 1 << 16];
            let mut total = stream.read(&mut buffer)?;
            let begin = Instant::now();
            loop {
                match stream.read(&mut buffer)? {
                    0 => break,
                    n => total += n,
                }
            }
            assert_eq!(total, BYTES);
            Ok(total as f64 * 8.0 / begin.elapsed().as_secs_f64() / 1e6)
        });
        let sender = format!("{prefix}-h1");
        in_namespace(&sender, || {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            socket.set_tcp_congestion(b"cubic")?;
            socket.connect_timeout(&address.into(), Duration::from_secs(5))?;
            socket.set_write_timeout(Some(Duration::from_secs(20)))?;
            let mut stream = std::net::TcpStream::from(socket);
            let chunk = vec![0x5a; 1 << 16];
            let mut left = BYTES;
            while left > 0 {
                left -= stream.write(&chunk[..left.min(chunk.len())])?;
            }
            Ok(())
        })?;
        received.join().expect("no panic")
    })
}

/// Kernel TCP with cubic gets 90 % of the link, framing included: 1,448 of 1,538 bytes are data.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn kernel__ping_and_tcp_over_ipv4_and_ipv6() {
    if !is_possible() {
        return;
    }
    let bed = Bed::star(2, "tcp", QUEUE);
    bed.must("up", &[]);
    let prefix = bed.prefix();
    let rtt = in_namespace(&format!("{prefix}-h1"), || ping(Ipv4Addr::new(10, 0, 0, 1)));
    // Four links of 66 bytes and 5 us each: no round trip can be shorter than 41 us.
    let rtt = rtt.expect("an answer");
    println!("ping: {} us", rtt.as_micros());
    assert!(rtt >= Duration::from_micros(41), "{rtt:?}");
    let work = OtherWork::watch();
    let over_ipv4 = tcp(&prefix, "10.0.0.1:7001").expect("TCP over IPv4");
    // The IPv6 header has 20 bytes more.
    let over_ipv6 = tcp(&prefix, "[fd00::1]:7002").expect("TCP over IPv6");
    let report = bed.report();
    let shares = [over_ipv4 * 1538.0 / 1448.0, over_ipv6 * 1538.0 / 1428.0];
    println!(
        "cubic: {over_ipv4:.1} Mb/s over IPv4, {over_ipv6:.1} Mb/s over IPv6; {:.1} and {:.1} % of \
         the link; lateness p50 {} us, p99 {} us",
        shares[0], shares[1], report["lateness_p50_us"], report["lateness_p99_us"]
    );
    if report["valid"] != true {
        too_late(&work, &format!("the timing of the run was invalid: {}", report["problems"]));
        return;
    }
    // Faster than the link would mean that the switch does not limit the rate.
    assert!(shares.iter().all(|share| *share < 101.0), "{shares:?}");
    for (share, version) in shares.into_iter().zip(["IPv4", "IPv6"]) {
        work.check(share >= 90.0, format!("cubic over {version} has {share:.1} % of the link"));
    }
}

/// A UDP datagram from host 1 to host 0 over IPv6 and its echo.
fn echo_over_ipv6(prefix: &str) -> io::Result<()> {
    let bind = |host: u32, address: &str| {
        let socket = in_namespace(&format!("{prefix}-h{host}"), || UdpSocket::bind(address))?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok::<_, io::Error>(socket)
    };
    let (here, there) = (bind(1, "[fd00::2]:7005")?, bind(0, "[fd00::1]:7005")?);
    let mut buffer = [0; 16];
    here.send_to(b"request", there.local_addr()?)?;
    let (bytes, from) = there.recv_from(&mut buffer)?;
    there.send_to(&buffer[..bytes], from)?;
    let (bytes, _) = here.recv_from(&mut buffer)?;
    assert_eq!(&buffer[..bytes], b"request");
    Ok(())
}

/// Without static entries in hosts and switch, hosts find each other by ARP and IPv6 neighbour
/// discovery, and the switch learns which host has which address.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn kernel__finds_hosts_by_arp_and_neighbour_discovery() {
    if !is_possible() {
        return;
    }
    let bed = Bed::star(3, "tcp", QUEUE);
    bed.must("up", &[]);
    let prefix = bed.prefix();
    let testbed = Testbed::new(&prefix);
    let config = std::fs::read_to_string(testbed.config_file()).expect("a configuration");
    let learned: Vec<&str> = config.lines().filter(|line| !line.starts_with("mac = ")).collect();
    assert_eq!(config.lines().count(), learned.len() + 3, "{config}");
    assert_eq!(reload(&bed, &testbed, &learned.join("\n"))["reloads"], 1);
    for host in 0..3 {
        let own = format!("{prefix}-h{host}");
        for family in ["-4", "-6"] {
            let flush = ["-n", &own, family, "neigh", "flush", "dev", "eth0", "nud", "permanent"];
            assert!(Command::new("ip").args(flush).status().expect("ip starts").success());
        }
    }
    const PINGS: u64 = 50;
    for _ in 0..PINGS {
        in_namespace(&format!("{prefix}-h1"), || ping(Ipv4Addr::new(10, 0, 0, 1))).expect("ARP");
    }
    echo_over_ipv6(&prefix).expect("neighbour discovery");
    let known = bed.must("exec", &["1", "ip", "neigh", "show", "dev", "eth0"]);
    for address in ["10.0.0.1 ", "fd00::1 "] {
        let entry = known.lines().find(|line| line.starts_with(address));
        let entry = entry.unwrap_or_else(|| panic!("{address}is not known: {known}"));
        assert!(entry.contains("02:70:00:00:00:01") && !entry.contains("PERMANENT"), "{entry}");
    }
    let report = bed.report();
    let count = |host: usize, name: &str| report["hosts"][host][name].as_u64().expect("a number");
    // A switch that had not learned would copy every ping to host 2. Each host sends a few frames to
    // groups on its own.
    assert!((1..PINGS).contains(&count(1, "flooded")), "{report}");
    assert!(count(2, "delivered") <= count(0, "flooded") + count(1, "flooded"), "{report}");
}

/// A process that is killed at the end.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `iperf3 -C cubic` between two hosts reaches 90 % of 100 Mb/s with queues of 100 packets.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn iperf3__with_cubic_reaches_90_percent_of_the_rate() {
    if !is_possible() {
        return;
    }
    if Command::new("iperf3").arg("--version").output().is_err() {
        skip("`iperf3` is not installed; run `cargo xtask setup`");
        return;
    }
    let bed = Bed::star(2, "tcp", QUEUE);
    bed.must("up", &[]);
    let mut server = Command::new("iperf3");
    server.args(["-s", "-1"]).stdout(Stdio::null()).stderr(Stdio::null());
    let at_host = format!("{}-h0", bed.prefix());
    let server = punctual_switch::spawn_in_namespace(&at_host, &mut server);
    let mut server = Killed(server.expect("iperf3 starts"));
    // It gives up when nobody listens yet.
    let client = ["1", "iperf3", "-c", "10.0.0.1", "-C", "cubic", "-t", "3", "-J"];
    let mut work = OtherWork::watch();
    let mut output = bed.run("exec", &client);
    for _ in 0..50 {
        if output.status.success() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        work = OtherWork::watch();
        output = bed.run("exec", &client);
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    server.0.wait().expect("it ends after one test");
    let result: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let bits = result["end"]["sum_received"]["bits_per_second"].as_f64().expect("a number");
    let report = bed.report();
    println!("iperf3 -C cubic: {:.1} Mb/s of 100 through queues of 100 packets", bits / 1e6);
    assert_eq!(result["end"]["sender_tcp_congestion"], "cubic");
    assert!(bits < 100e6, "faster than its link");
    if report["valid"] != true {
        too_late(&work, &format!("the timing was invalid: {}", report["problems"]));
        return;
    }
    work.check(bits >= 90e6, format!("iperf3: {:.1} Mb/s", bits / 1e6));
}
