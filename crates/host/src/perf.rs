//! Measurements: throughput and the latency of a request and its response.
//!
//! [`PerfServer`] answers at one address: messages over NDP on the UDP port, bare datagrams on the
//! next UDP port, and TCP connections on the TCP port of the same number. The functions measure
//! against it. Threads sleep while they wait, or [spin](Waiting::Spin).

use crate::sys::{BATCH, Outgoing, Received, send_batch};
use crate::{
    Endpoint, EndpointOptions, HostError, Listener, Outcome, SendOptions, bind, fast_open,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How threads wait for packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Waiting {
    /// In the kernel, which wakes them up.
    #[default]
    Sleep,
    /// In a loop that looks for packets, on a core of their own.
    Spin,
}

impl Waiting {
    /// Calls `receive` until a packet is there, on a socket that does not block if this spins.
    fn until<R>(self, mut receive: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        let start = Instant::now();
        loop {
            match receive() {
                Err(error)
                    if self == Waiting::Spin
                        && error.kind() == io::ErrorKind::WouldBlock
                        && start.elapsed() < SPIN_MAX =>
                {
                    std::hint::spin_loop();
                }
                result => return result,
            }
        }
    }
}

/// How long a thread spins for one packet, at most.
const SPIN_MAX: Duration = Duration::from_secs(2);

/// The connections of TCP requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// One for all requests.
    One,
    /// A new one for each.
    Each,
    /// A new one for each, with the request in the SYN: TCP Fast Open.
    FastOpen,
}

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

/// Requests over QUIC, each echoed: on streams of one connection, or each on a new connection. The
/// server needs the feature `quic`, too, and takes the UDP port after that of bare datagrams.
#[cfg(feature = "quic")]
pub fn quic_latency(
    server: SocketAddr,
    bytes: usize,
    count: usize,
    is_new_each: bool,
) -> io::Result<Latencies> {
    crate::quic::latency(next_port(next_port(server)), bytes, count, is_new_each)
}

impl PerfServer {
    /// Starts the threads of a server. With port 0 it looks for two free UDP ports and a TCP port.
    pub fn start(
        address: SocketAddr,
        options: EndpointOptions,
        waiting: Waiting,
    ) -> Result<Self, HostError> {
        let tries = if address.port() == 0 { 20 } else { 1 };
        let mut result = Self::start_once(address, options.clone(), waiting);
        for _ in 1..tries {
            if result.is_ok() {
                break;
            }
            result = Self::start_once(address, options.clone(), waiting);
        }
        result
    }

    fn start_once(
        address: SocketAddr,
        options: EndpointOptions,
        waiting: Waiting,
    ) -> Result<Self, HostError> {
        let options = EndpointOptions { spin: waiting == Waiting::Spin, ..options };
        let endpoint = Endpoint::bind(address, options)?;
        let address = endpoint.local_addr();
        // Before anybody knows the address: messages that nobody listens for are refused.
        let listener = endpoint.listen();
        let socket_error = |e| HostError::socket(address, e);
        let udp = bind(next_port(address))?;
        udp.set_read_timeout(Some(LOOK)).map_err(socket_error)?;
        let tcp = TcpListener::bind(address).map_err(socket_error)?;
        tcp.set_nonblocking(true).map_err(socket_error)?;
        // Without it, clients measure ordinary connections and say so.
        let _ = fast_open::listen(&tcp);
        let stop = Arc::new(AtomicBool::new(false));
        let [ndp_stop, udp_stop, tcp_stop] = [stop.clone(), stop.clone(), stop.clone()];
        #[allow(unused_mut, reason = "QUIC adds a thread")]
        let mut threads = vec![
            std::thread::spawn(move || serve_messages(&listener, &ndp_stop)),
            std::thread::spawn(move || serve_datagrams(&udp, waiting, &udp_stop)),
            std::thread::spawn(move || serve_streams(&tcp, waiting, &tcp_stop)),
        ];
        #[cfg(feature = "quic")]
        {
            let (at, quic_stop) = (next_port(next_port(address)), stop.clone());
            threads.push(std::thread::spawn(move || {
                // Without it, clients report that nobody answers.
                let _ = crate::quic::serve(at, &quic_stop);
            }));
        }
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

/// Whether a server that spins has anything to do: it sleeps while nobody measures with its
/// protocol, so that one core is enough for all of them.
#[derive(Default)]
struct Attention(Option<Instant>);

impl Attention {
    fn pay(&mut self) {
        self.0 = Some(Instant::now());
    }

    fn spins(&self, waiting: Waiting) -> bool {
        waiting == Waiting::Spin && self.0.is_some_and(|at| at.elapsed() < ATTENTION)
    }
}

/// How long a server spins after the last packet.
const ATTENTION: Duration = Duration::from_millis(20);

/// Answers requests and reads messages until `stop` becomes true.
///
/// It spins if the options of the listener's endpoint say so ([`EndpointOptions::spin`]).
pub fn serve_messages(listener: &Listener, stop: &AtomicBool) {
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

/// Echoes, counts and reports datagrams until `stop` becomes true. The socket needs a read timeout.
pub fn serve_datagrams(socket: &UdpSocket, waiting: Waiting, stop: &AtomicBool) {
    let mut attention = Attention::default();
    let mut received = Received::new();
    let mut first = [0; 1 << 16];
    let (mut bytes, mut started_at, mut last_at) = (0u64, None, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        // A blocking call for the first datagram, then what else is there.
        let spins = attention.spins(waiting);
        if waiting == Waiting::Spin && socket.set_nonblocking(spins).is_err() {
            return;
        }
        let mut next = socket.recv_from(&mut first);
        while next.is_err() && spins && attention.spins(waiting) {
            next = socket.recv_from(&mut first);
        }
        let Ok((len, peer)) = next else { continue };
        attention.pay();
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

fn serve_streams(listener: &TcpListener, waiting: Waiting, stop: &Arc<AtomicBool>) {
    let mut attention = Attention::default();
    while !stop.load(Ordering::Relaxed) {
        if !attention.spins(waiting) {
            // Sleeps until there is a connection, or it is time to look at `stop`.
            let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as _ };
            let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout));
        }
        let Ok((stream, _)) = listener.accept() else { continue };
        attention.pay();
        // The first request is answered here: a new thread would cost more than the connection.
        let Some(stream) = serve_request(stream, waiting) else { continue };
        let stop = stop.clone();
        std::thread::spawn(move || serve_stream(stream, waiting, &stop));
    }
}

/// Requests on a stream: the length in 8 bytes, then the bytes. A short request is echoed; of a long
/// one a single byte is answered.
fn serve_stream(mut stream: TcpStream, waiting: Waiting, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match serve_request(stream, waiting) {
            Some(next) => stream = next,
            None => return,
        }
    }
}

/// Serves one request. `None` if the stream has ended.
fn serve_request(mut stream: TcpStream, waiting: Waiting) -> Option<TcpStream> {
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let mut length = [0; 8];
    read_exact(&mut stream, &mut length, waiting).ok()?;
    let mut left = u64::from_be_bytes(length);
    let mut buffer = vec![0; left.min(1 << 18) as usize];
    if left == buffer.len() as u64 {
        read_exact(&mut stream, &mut buffer, waiting).ok()?;
        stream.write_all(&buffer).ok()?;
        return Some(stream);
    }
    while left > 0 {
        let most = left.min(buffer.len() as u64) as usize;
        left -= stream.read(&mut buffer[..most]).ok().filter(|count| *count > 0)? as u64;
    }
    stream.write_all(&[0]).ok()?;
    Some(stream)
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
        Ok(Latencies::of(times))
    }

    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Latencies(times)
    }

    /// Adds the times of another series.
    pub fn add(&mut self, other: Latencies) {
        self.0.extend(other.0);
        self.0.sort_unstable();
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

/// Requests over NDP, each echoed. The client spins if the options of the endpoint say so
/// ([`EndpointOptions::spin`]).
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
pub fn udp_latency(
    server: SocketAddr,
    bytes: usize,
    count: usize,
    waiting: Waiting,
) -> io::Result<Latencies> {
    let any = if server.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(next_port(server))?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    socket.set_nonblocking(waiting == Waiting::Spin)?;
    let data = vec![ECHO; bytes.max(1)];
    let mut answer = vec![0; 1 << 16];
    Latencies::measure(count, || {
        socket.send(&data)?;
        waiting.until(|| socket.recv(&mut answer)).map(drop)
    })
}

/// Requests over TCP, each echoed. Fast Open is an error if the data in the SYN are not used.
pub fn tcp_latency(
    server: SocketAddr,
    bytes: usize,
    count: usize,
    connections: Connections,
    waiting: Waiting,
) -> io::Result<Latencies> {
    let obstacle = (connections == Connections::FastOpen).then(fast_open::obstacle).flatten();
    if let Some(obstacle) = obstacle {
        return Err(io::Error::new(io::ErrorKind::Unsupported, obstacle));
    }
    let connect = || -> io::Result<TcpStream> {
        let stream = match connections {
            Connections::FastOpen => fast_open::connect(server)?,
            _ => TcpStream::connect(server)?,
        };
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let mut kept = None;
    let mut data = (bytes as u64).to_be_bytes().to_vec();
    data.resize(8 + bytes, 7);
    let mut answer = vec![0; bytes];
    let (mut opened, mut fast) = (0, 0);
    let latencies = Latencies::measure(count, || {
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => connect()?,
        };
        stream.write_all(&data)?;
        read_exact(&mut stream, &mut answer, waiting)?;
        if connections == Connections::FastOpen {
            (opened, fast) = (opened + 1, fast + usize::from(fast_open::is_used(&stream)));
        }
        kept = (connections == Connections::One).then_some(stream);
        Ok(())
    })?;
    // The first connection gets the cookie.
    if connections == Connections::FastOpen && fast + 1 < opened {
        let message = format!("the data in the SYN were used by {fast} of {opened} connections");
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    Ok(latencies)
}

fn read_exact(stream: &mut TcpStream, into: &mut [u8], waiting: Waiting) -> io::Result<()> {
    if waiting == Waiting::Sleep {
        return stream.read_exact(into);
    }
    stream.set_nonblocking(true)?;
    let mut done = 0;
    while done < into.len() {
        match waiting.until(|| stream.read(&mut into[done..]))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => done += count,
        }
    }
    stream.set_nonblocking(false)
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
