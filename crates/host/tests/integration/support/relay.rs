//! A path of a given delay, rate and loss: a UDP relay between one client and a server.

use punctual_core::Rate;
use punctual_core::rng::Stream;
use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A path in both directions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    /// One-way delay.
    pub(crate) delay: Duration,
    /// Rate of the link, with the framing of Ethernet and the headers of IPv4 and UDP.
    pub(crate) rate: Rate,
    /// Probability that a datagram is lost.
    pub(crate) loss: f64,
    /// Bytes that wait for the link at most.
    pub(crate) queue: usize,
}

/// Relays until it is dropped, or for a minute.
pub(crate) struct Relay {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Bytes beside a UDP payload on Ethernet.
const FRAMING: usize = 28 + 38;

/// One direction: datagrams under way, with the time at which they arrive.
struct Direction {
    under_way: VecDeque<(Instant, Option<SocketAddr>, Vec<u8>)>,
    free_at: Instant,
}

impl Relay {
    pub(crate) fn start(server: SocketAddr, path: Path, seed: u64) -> Relay {
        let front = socket();
        let address = front.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || run(&front, server, path, seed, &stopped));
        Relay { address, stop, thread: Some(thread) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A socket whose buffer holds what arrives while the relay is not scheduled.
fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20);
    socket
}

fn run(front: &UdpSocket, server: SocketAddr, path: Path, seed: u64, stop: &AtomicBool) {
    let mut stream = Stream::named(seed, "relay", 0);
    let start = Instant::now();
    let mut directions =
        [0, 1].map(|_| Direction { under_way: VecDeque::new(), free_at: Instant::now() });
    // Each client address has a socket of its own towards the server.
    let mut ports: Vec<(SocketAddr, UdpSocket)> = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    let queue_time = Duration::from_secs_f64(path.queue as f64 * 8.0 / path.rate.as_bps() as f64);
    while !stop.load(Ordering::Relaxed) && start.elapsed() < Duration::from_secs(60) {
        let mut is_idle = true;
        let mut enter = |direction: &mut Direction, to: Option<SocketAddr>, bytes: &[u8]| {
            let now = Instant::now();
            let bits = (bytes.len() + FRAMING) as f64 * 8.0;
            let time = Duration::from_secs_f64(bits / path.rate.as_bps() as f64);
            let waiting = direction.free_at.saturating_duration_since(now);
            let is_full = waiting > queue_time;
            if is_full || stream.chance(path.loss) {
                return;
            }
            direction.free_at = direction.free_at.max(now) + time;
            direction.under_way.push_back((direction.free_at + path.delay, to, bytes.to_vec()));
        };
        for _ in 0..64 {
            let Ok((len, source)) = front.recv_from(&mut buffer) else { break };
            is_idle = false;
            if !ports.iter().any(|(known, _)| *known == source) {
                ports.push((source, socket()));
            }
            enter(&mut directions[0], Some(source), &buffer[..len]);
        }
        for (source, port) in &ports {
            for _ in 0..64 {
                let Ok((len, _)) = port.recv_from(&mut buffer) else { break };
                is_idle = false;
                enter(&mut directions[1], Some(*source), &buffer[..len]);
            }
        }
        let now = Instant::now();
        for (at, direction) in directions.iter_mut().enumerate() {
            while direction.under_way.front().is_some_and(|(due, ..)| *due <= now) {
                let Some((_, to, bytes)) = direction.under_way.pop_front() else { break };
                let port = ports.iter().find(|(known, _)| Some(*known) == to);
                let _ = match (at, to, port) {
                    (0, _, Some((_, port))) => port.send_to(&bytes, server),
                    (1, Some(client), _) => front.send_to(&bytes, client),
                    _ => Ok(0),
                };
                is_idle = false;
            }
        }
        if is_idle {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
}
