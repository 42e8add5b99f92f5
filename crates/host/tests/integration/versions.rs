//! A peer that reads another version of the envelope is named, and nobody can use that to end flows
//! or to send more than arrived.

use crate::endpoint::{contents, localhost};
use punctual_host::{Endpoint, EndpointOptions, Outcome, PingError, SendError, SendOptions};
use punctual_wire::{ENVELOPE_BYTES, VERSION, VersionAnswer};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Long, so that only an answer can end a send before the test does.
const SILENCE: Duration = Duration::from_secs(60);

fn endpoint() -> Endpoint {
    let options =
        EndpointOptions { silence: SILENCE, window: 2 * SILENCE, ..EndpointOptions::default() };
    Endpoint::bind(localhost(), options).unwrap()
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(localhost()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    socket
}

/// A relay that makes a peer of another version out of an endpoint: the version of every datagram
/// of version 2 becomes 3, in both directions.
struct OtherVersion {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl OtherVersion {
    fn start(server: SocketAddr) -> Self {
        let (front, back) = (socket(), socket());
        front.set_nonblocking(true).unwrap();
        back.set_nonblocking(true).unwrap();
        let address = front.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (start, mut client, mut buffer) = (Instant::now(), None, vec![0; 1 << 16]);
            while !stopped.load(Ordering::Relaxed) && start.elapsed() < SILENCE {
                let mut is_idle = true;
                let translate = |bytes: &mut [u8]| {
                    if bytes.first() == Some(&0xd2) {
                        bytes[0] = 0xd3;
                    }
                };
                if let Ok((len, from)) = front.recv_from(&mut buffer) {
                    (is_idle, client) = (false, Some(from));
                    translate(&mut buffer[..len]);
                    let _ = back.send_to(&buffer[..len], server);
                }
                if let (Ok((len, _)), Some(client)) = (back.recv_from(&mut buffer), client) {
                    is_idle = false;
                    translate(&mut buffer[..len]);
                    let _ = front.send_to(&buffer[..len], client);
                }
                if is_idle {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        OtherVersion { address, stop, thread: Some(thread) }
    }
}

impl Drop for OtherVersion {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(|thread| thread.join());
    }
}

#[test]
fn version__a_peer_of_another_one_is_named() {
    let (client, server) = (endpoint(), endpoint());
    let _listener = server.listen();
    let relay = OtherVersion::start(server.local_addr());
    // One packet, and more than a first window.
    for bytes in [10, 300_000] {
        let send = client.send(relay.address, vec![1; bytes], &SendOptions::default()).unwrap();
        let outcome = send.wait_timeout(SILENCE / 2).expect("an answer, not silence");
        assert!(
            matches!(outcome, Outcome::Failed(SendError::OtherVersion(peer), _) if peer == relay.address),
            "{outcome:?}"
        );
    }
}

#[test]
fn version__a_ping_names_it() {
    let (client, server) = (endpoint(), endpoint());
    let relay = OtherVersion::start(server.local_addr());
    let error = client.ping(relay.address, SILENCE / 2).expect_err("another version");
    let named = PingError::OtherVersion { peer: relay.address, theirs: VERSION, ours: VERSION };
    // The server says what it reads; only the relay has another version.
    assert_eq!(error, named);
}

/// An answer counts if it has the number of a ping to its source.
#[test]
fn version__a_ping_ignores_answers_of_strangers() {
    let client = endpoint();
    let (peer, stranger) = (socket(), socket());
    peer.set_read_timeout(Some(SILENCE)).unwrap();
    let address = peer.local_addr().unwrap();
    let answers = std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        let (_, from) = peer.recv_from(&mut buffer).expect("the ping");
        let flow = u32::from_be_bytes(*buffer[4..8].first_chunk().unwrap());
        let answer = |flow, version| VersionAnswer { version, flow }.to_bytes();
        stranger.send_to(&answer(flow, 4), from).unwrap();
        for guess in 1..100 {
            peer.send_to(&answer(flow ^ guess, 5), from).unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
        peer.send_to(&answer(flow, 3), from).unwrap();
    });
    let error = client.ping(address, SILENCE / 2).expect_err("another version");
    assert_eq!(error, PingError::OtherVersion { peer: address, theirs: 3, ours: VERSION });
    answers.join().unwrap();
}

/// Whoever sends the answers must be the peer by address, know the flow's number, and the peer must
/// be silent as well.
#[test]
fn version__answers_do_not_end_a_flow_that_goes_on() {
    let (client, server) = (endpoint(), endpoint());
    let listener = server.listen();
    // A relay that adds an answer with the right flow number to every datagram to the client.
    let (front, back) = (socket(), socket());
    front.set_nonblocking(true).unwrap();
    back.set_nonblocking(true).unwrap();
    let (address, to) = (front.local_addr().unwrap(), server.local_addr());
    let stop = Arc::new(AtomicBool::new(false));
    let forged = Arc::new(AtomicU64::new(0));
    let (stopped, count) = (stop.clone(), forged.clone());
    let relay = std::thread::spawn(move || {
        let (start, mut from_client, mut buffer) = (Instant::now(), None, vec![0; 1 << 16]);
        while !stopped.load(Ordering::Relaxed) && start.elapsed() < SILENCE {
            if let Ok((len, from)) = front.recv_from(&mut buffer) {
                from_client = Some(from);
                let flow = buffer[4..8].first_chunk().copied().unwrap_or_default();
                let answer = VersionAnswer { version: 3, flow: u32::from_be_bytes(flow) };
                let _ = front.send_to(&answer.to_bytes(), from);
                count.fetch_add(1, Ordering::Relaxed);
                let _ = back.send_to(&buffer[..len], to);
            } else if let (Ok((len, _)), Some(from)) = (back.recv_from(&mut buffer), from_client) {
                let _ = front.send_to(&buffer[..len], from);
            } else {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    });
    // Longer than the time after which a silent peer is taken to be of another version.
    let (start, mut number) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(1_500) {
        number += 1;
        let data = contents(number, 100_000);
        let send = client.send(address, data.clone(), &SendOptions::default()).unwrap();
        let mut message = listener.accept_timeout(SILENCE / 2).expect("a message").unwrap();
        assert!(message.read_to_end().unwrap() == data);
        let outcome = send.wait_timeout(SILENCE / 2).expect("an outcome");
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    }
    assert!(forged.load(Ordering::Relaxed) > number, "each message brought forged answers");
    stop.store(true, Ordering::Relaxed);
    relay.join().unwrap();
}

/// A guess of the flow's number, or the right one from another address, changes nothing.
#[test]
fn version__answers_of_strangers_are_ignored() {
    let client = endpoint();
    let (peer, stranger) = (socket(), socket());
    let send = client.send(peer.local_addr().unwrap(), vec![1; 10], &SendOptions::default());
    let send = send.unwrap();
    let mut buffer = [0; 2_048];
    let (_, from) = peer.recv_from(&mut buffer).expect("the first packet");
    let flow = u32::from_be_bytes(*buffer[4..8].first_chunk().unwrap());
    let answer = |flow| VersionAnswer { version: 3, flow }.to_bytes();
    stranger.send_to(&answer(flow), from).unwrap();
    for guess in 1..1_000 {
        peer.send_to(&answer(flow ^ guess), from).unwrap();
    }
    // Twice the time after which a report counts.
    let waiting = send.wait_timeout(Duration::from_secs(2)).expect_err("it still waits");
    peer.send_to(&answer(flow), from).unwrap();
    let outcome = waiting.wait_timeout(SILENCE / 2).expect("an outcome");
    assert!(matches!(outcome, Outcome::Failed(SendError::OtherVersion(_), _)), "{outcome:?}");
}

/// Fewer bytes leave than arrived, few answers in a second, and an answer has no answer.
#[test]
fn version__answers_are_small_and_few() {
    let server = endpoint();
    let socket = socket();
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(1 << 20);
    let start = Instant::now();
    let mut datagram = [0x33; ENVELOPE_BYTES];
    let (mut sent, mut answers) = (0, 0);
    let mut buffer = [0; 2_048];
    let mut drain = |answers: &mut u64| {
        while let Ok((len, _)) = socket.recv_from(&mut buffer) {
            let answer = VersionAnswer::parse(&buffer[..len]).expect("an answer");
            assert_eq!((answer.version, answer.flow), (2, 0x3333_3333));
            *answers += 1;
        }
    };
    for version in (0..16).filter(|version| *version != 2).cycle().take(3_000) {
        datagram[0] = 0xd0 | version;
        socket.send_to(&datagram, server.local_addr()).unwrap();
        // An answer, as if the server had asked.
        let echo = VersionAnswer { version, flow: 0x3333_3333 }.to_bytes();
        socket.send_to(&echo, server.local_addr()).unwrap();
        sent += 1;
        if sent % 100 == 0 {
            drain(&mut answers);
        }
    }
    drain(&mut answers);
    let seconds = start.elapsed().as_secs() + 2;
    assert!(answers > 0, "somebody who asks once gets an answer");
    assert!(answers <= 100 * seconds, "{answers} answers in {seconds} s");
    assert!(answers * (VersionAnswer::BYTES as u64) < sent * ENVELOPE_BYTES as u64);
    // Honest traffic is not disturbed.
    let (client, listener) = (endpoint(), server.listen());
    let send = client.send(server.local_addr(), "hello", &SendOptions::default()).unwrap();
    let mut message = listener.accept_timeout(SILENCE / 2).expect("a message").unwrap();
    assert_eq!(message.read_to_end().unwrap(), b"hello");
    assert!(send.wait().is_delivered());
}
