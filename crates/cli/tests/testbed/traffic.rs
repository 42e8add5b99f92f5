//! The kernel's own protocols through the switch.

use crate::bed::{Bed, is_possible, not_quiet};
use punctual_switch::in_namespace;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
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
        not_quiet(&format!("the timing of the run was invalid: {}", report["problems"]));
        return;
    }
    // Faster than the link would mean that the switch does not limit the rate.
    assert!(shares.iter().all(|share| *share < 101.0), "{shares:?}");
    assert!(shares.iter().all(|share| *share >= 90.0), "{shares:?}");
}
