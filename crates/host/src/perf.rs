//! Measurements: throughput and the latency of a request and its response.
//!
//! [`PerfServer`] answers at one address: messages over NDP on the UDP port, bare datagrams on the
//! next UDP port, and TCP connections on the TCP port of the same number. The functions measure
//! against it, all with blocking sockets.

use crate::sys::{BATCH, Outgoing, Received, send_batch};
use crate::{Endpoint, EndpointOptions, HostError, Outcome, SendOptions, bind};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Answers measurements until it is dropped.
#[derive(Debug)]
pub struct PerfServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// How often a server thread looks whether it should stop.
const LOOK: Duration = Duration::from_millis(100);

/// The address of the bare UDP service beside the one of NDP.
fn next_port(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port().wrapping_add(1))
}

impl PerfServer {
    /// Starts the threads of a server. With port 0 it looks for two free UDP ports and a TCP port.
    pub fn start(address: SocketAddr, options: EndpointOptions) -> Result<Self, HostError> {
        let tries = if address.port() == 0 { 20 } else { 1 };
        let mut result = Self::start_once(address, options.clone());
        for _ in 1..tries {
            if result.is_ok() {
                break;
            }
            result = Self::start_once(address, options.clone());
        }
        result
    }

    fn start_once(address: SocketAddr, options: EndpointOptions) -> Result<Self, HostError> {
        let endpoint = Endpoint::bind(address, options)?;
        let address = endpoint.local_addr();
        let socket_error = |e| HostError::socket(address, e);
        let udp = bind(next_port(address))?;
        udp.set_read_timeout(Some(LOOK)).map_err(socket_error)?;
        let tcp = TcpListener::bind(address).map_err(socket_error)?;
        tcp.set_nonblocking(true).map_err(socket_error)?;
        let stop = Arc::new(AtomicBool::new(false));
        let [ndp_stop, udp_stop, tcp_stop] = [stop.clone(), stop.clone(), stop.clone()];
        let threads = vec![
            std::thread::spawn(move || serve_messages(&endpoint, &ndp_stop)),
            std::thread::spawn(move || serve_datagrams(&udp, &udp_stop)),
            std::thread::spawn(move || serve_streams(&tcp, &tcp_stop)),
        ];
        Ok(PerfServer { address, stop, threads })
    }

    /// The address to measure against.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` becomes true.
    pub fn run(self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for PerfServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve_messages(endpoint: &Endpoint, stop: &AtomicBool) {
    let listener = endpoint.listen();
    let mut part = vec![0; 1 << 18];
    while !stop.load(Ordering::Relaxed) {
        let Some(Ok(mut message)) = listener.accept_timeout(LOOK) else { continue };
        if message.is_request() {
            if let Ok(bytes) = message.read_to_end() {
                let _ = message.respond(bytes);
            }
        } else {
            while message.read_some(&mut part).is_ok_and(|count| count > 0) {}
        }
    }
}

/// The first byte of a datagram: to be echoed, to be counted, or to be answered with the count.
const ECHO: u8 = 1;
const COUNT: u8 = 2;
const REPORT: u8 = 3;

fn serve_datagrams(socket: &UdpSocket, stop: &AtomicBool) {
    let mut received = Received::new();
    let mut first = [0; 1 << 16];
    let (mut bytes, mut started_at, mut last_at) = (0u64, None, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        // A blocking call for the first datagram, then what else is there.
        let Ok((len, peer)) = socket.recv_from(&mut first) else { continue };
        let mut count = |datagram: &[u8], peer: SocketAddr| match datagram.first() {
            Some(&ECHO) => drop(socket.send_to(datagram, peer)),
            Some(&COUNT) => {
                last_at = Instant::now();
                started_at.get_or_insert(last_at);
                bytes += datagram.len() as u64;
            }
            Some(&REPORT) => {
                let time = started_at.map_or(Duration::ZERO, |at| last_at - at);
                let mut report = bytes.to_be_bytes().to_vec();
                report.extend((time.as_nanos() as u64).to_be_bytes());
                let _ = socket.send_to(&report, peer);
                (bytes, started_at) = (0, None);
            }
            _ => {}
        };
        count(&first[..len], peer);
        let more = if first[0] == COUNT { received.fill(socket).unwrap_or(0) } else { 0 };
        for at in 0..more {
            if let Some((datagram, peer)) = received.get(at) {
                count(datagram, peer);
            }
        }
    }
}

fn serve_streams(listener: &TcpListener, stop: &Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_micros(50));
            continue;
        };
        let stop = stop.clone();
        std::thread::spawn(move || serve_stream(stream, &stop));
    }
}

/// Requests on a stream: the length in 8 bytes, then the bytes. A short request is echoed; of a long
/// one a single byte is answered.
fn serve_stream(mut stream: TcpStream, stop: &AtomicBool) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_nodelay(true);
    let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
    let mut buffer = vec![0; 1 << 18];
    let mut length = [0; 8];
    while !stop.load(Ordering::Relaxed) && stream.read_exact(&mut length).is_ok() {
        let mut left = u64::from_be_bytes(length);
        let is_short = left <= buffer.len() as u64;
        if is_short {
            let bytes = &mut buffer[..left as usize];
            if stream.read_exact(bytes).is_err() || stream.write_all(bytes).is_err() {
                return;
            }
            continue;
        }
        while left > 0 {
            let most = left.min(buffer.len() as u64) as usize;
            match stream.read(&mut buffer[..most]) {
                Ok(0) | Err(_) => return,
                Ok(count) => left -= count as u64,
            }
        }
        if stream.write_all(&[0]).is_err() {
            return;
        }
    }
}

/// Times of a series of requests, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    fn measure(count: usize, mut exchange: impl FnMut() -> io::Result<()>) -> io::Result<Self> {
        let warm_up = count / 10;
        let mut times = Vec::with_capacity(count);
        for round in 0..count + warm_up {
            let start = Instant::now();
            exchange()?;
            if round >= warm_up {
                times.push(start.elapsed());
            }
        }
        times.sort_unstable();
        Ok(Latencies(times))
    }

    /// The percentile, from 0 to 100.
    pub fn percentile(&self, percent: f64) -> Duration {
        let last = self.0.len().saturating_sub(1);
        let at = (last as f64 * percent / 100.0).round() as usize;
        self.0.get(at).copied().unwrap_or_default()
    }
}

fn failed(outcome: &Outcome) -> io::Error {
    io::Error::other(format!("{outcome:?}"))
}

/// Requests over NDP, each echoed.
pub fn ndp_latency(
    endpoint: &Endpoint,
    server: SocketAddr,
    bytes: usize,
    count: usize,
) -> io::Result<Latencies> {
    let data = vec![7; bytes];
    Latencies::measure(count, || {
        let send = endpoint.request(server, data.clone(), &SendOptions::default());
        let (outcome, response) = send.map_err(io::Error::other)?.wait_response();
        if response.is_some_and(|response| response == data) {
            Ok(())
        } else {
            Err(failed(&outcome))
        }
    })
}

/// Bare datagrams, each echoed.
pub fn udp_latency(server: SocketAddr, bytes: usize, count: usize) -> io::Result<Latencies> {
    let any = if server.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(next_port(server))?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let data = vec![ECHO; bytes.max(1)];
    let mut answer = vec![0; 1 << 16];
    Latencies::measure(count, || {
        socket.send(&data)?;
        socket.recv(&mut answer).map(drop)
    })
}

/// Requests over TCP, each echoed: on one connection, or each on a new one.
pub fn tcp_latency(
    server: SocketAddr,
    bytes: usize,
    count: usize,
    is_new_each: bool,
) -> io::Result<Latencies> {
    let connect = || -> io::Result<TcpStream> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let mut stream = connect()?;
    let mut data = (bytes as u64).to_be_bytes().to_vec();
    data.resize(8 + bytes, 7);
    let mut answer = vec![0; bytes];
    Latencies::measure(count, || {
        if is_new_each {
            stream = connect()?;
        }
        stream.write_all(&data)?;
        stream.read_exact(&mut answer)
    })
}

/// Bytes per second of one message over NDP.
pub fn ndp_bulk(endpoint: &Endpoint, server: SocketAddr, bytes: usize) -> io::Result<f64> {
    let data = vec![7; bytes];
    let start = Instant::now();
    let send = endpoint.send(server, data, &SendOptions::default()).map_err(io::Error::other)?;
    let outcome = send.wait();
    if !outcome.is_delivered() {
        return Err(failed(&outcome));
    }
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}

/// Bytes per second of one TCP connection.
pub fn tcp_bulk(server: SocketAddr, bytes: usize) -> io::Result<f64> {
    let mut stream = TcpStream::connect(server)?;
    let data = vec![7; 1 << 18];
    let start = Instant::now();
    stream.write_all(&(bytes as u64).to_be_bytes())?;
    let mut left = bytes;
    while left > 0 {
        let part = left.min(data.len());
        stream.write_all(&data[..part])?;
        left -= part;
    }
    stream.read_exact(&mut [0])?;
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}

/// Bytes per second that arrive of bare datagrams, sent for `time` with sendmmsg and received with
/// recvmmsg.
pub fn udp_bulk(server: SocketAddr, mtu: usize, time: Duration) -> io::Result<f64> {
    let any: SocketAddr =
        if server.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" }.parse().map_err(io::Error::other)?;
    let socket = bind(any).map_err(io::Error::other)?;
    let peer = next_port(server);
    let payload = mtu.saturating_sub(if server.is_ipv6() { 48 } else { 28 }).max(1);
    let batch: Vec<Outgoing> =
        (0..BATCH).map(|_| Outgoing { bytes: vec![COUNT; payload], peer }).collect();
    let start = Instant::now();
    while start.elapsed() < time {
        match send_batch(&socket, &batch) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(e) => return Err(e),
        }
    }
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let mut report = [0; 16];
    for _ in 0..20 {
        socket.send_to(&[REPORT], peer)?;
        if let Ok(16) = socket.recv(&mut report) {
            let number = |at: usize| {
                report[at..at + 8].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
            };
            return Ok(number(0) as f64 / (number(8).max(1) as f64 / 1e9));
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not report what it received"))
}
