//! Keyed mode: packets that somebody recorded and sends again, from any address.

use punctual_host::{
    Endpoint, EndpointOptions, HostTransport, Key, Listener, Outcome, SendOptions,
};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The time after its start from which an endpoint without a key takes messages of strangers.
const WINDOW: Duration = Duration::from_millis(1_200);

/// A keyed endpoint that is older than its window.
fn keyed() -> Endpoint {
    let options = EndpointOptions {
        key: Key::new(b"a secret of the service").ok(),
        silence: Duration::from_secs(1),
        window: WINDOW,
        ..EndpointOptions::default()
    };
    let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
    std::thread::sleep(WINDOW + Duration::from_millis(50));
    endpoint
}

/// Relays between a client and a server, and records what the client sends.
struct Recorder {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Vec<u8>>>,
}

impl Recorder {
    fn start(server: SocketAddr) -> Recorder {
        let [front, back] = [(); 2].map(|()| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            socket
        });
        let address = front.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut recorded, mut client, mut buffer) = (vec![], None, [0; 2_000]);
            while !stopped.load(Ordering::Relaxed) {
                while let Ok((len, from)) = front.recv_from(&mut buffer) {
                    client = Some(from);
                    recorded.push(buffer[..len].to_vec());
                    back.send_to(&buffer[..len], server).unwrap();
                }
                while let (Ok(len), Some(client)) = (back.recv(&mut buffer), client) {
                    front.send_to(&buffer[..len], client).unwrap();
                }
            }
            recorded
        });
        Recorder { address, stop, thread }
    }

    fn finish(self) -> Vec<Vec<u8>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// The datagrams of a client that sends these messages to a server, each delivered once.
fn recorded(
    transport: HostTransport,
    server: &Endpoint,
    listener: &Listener,
    lens: &[usize],
) -> Vec<Vec<u8>> {
    let options = SendOptions { transport, ..SendOptions::default() };
    let client = keyed();
    let recorder = Recorder::start(server.local_addr());
    for len in lens {
        let send = client.send(recorder.address, vec![7; *len], &options).unwrap();
        let mut message = listener.accept_timeout(Duration::from_secs(10)).unwrap().unwrap();
        assert_eq!(message.read_to_end().unwrap(), vec![7; *len]);
        assert!(matches!(send.wait(), Outcome::Done(_)));
    }
    recorder.finish()
}

/// Sends datagrams from a new address.
fn send_again(datagrams: &[Vec<u8>], to: SocketAddr) {
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for datagram in datagrams {
        stranger.send_to(datagram, to).unwrap();
    }
}

fn delivers_nothing(listener: &Listener) {
    let delivered = listener.accept_timeout(Duration::from_millis(500));
    assert!(delivered.is_none(), "delivered again: {delivered:?}");
}

/// Runs a test with each transport, all at once: an endpoint has to be older than its window.
fn over_each_transport(test: fn(HostTransport)) {
    std::thread::scope(|scope| {
        for transport in HostTransport::ALL {
            scope.spawn(move || test(transport));
        }
    });
}

#[test]
fn replay__from_another_address_delivers_nothing() {
    over_each_transport(replay_from_another_address);
}

/// The server has seen the packets, from the address of the client.
fn replay_from_another_address(transport: HostTransport) {
    let server = keyed();
    let listener = server.listen();
    let datagrams = recorded(transport, &server, &listener, &[100, 20_000, 1_000]);
    // Longer than a completed flow answers late packets.
    std::thread::sleep(Duration::from_millis(100));
    let before = server.stats().traffic;
    send_again(&datagrams, server.local_addr());
    delivers_nothing(&listener);
    let after = server.stats().traffic;
    let refused = |traffic: &punctual_host::Traffic| {
        traffic.dropped.get("replayed").copied().unwrap_or_default()
    };
    assert_eq!(refused(&after) - refused(&before), datagrams.len() as u64, "{after:?}");
    assert_eq!(after.sent, before.sent, "an answer to a replay");
}

#[test]
fn replay__at_another_server_delivers_nothing() {
    over_each_transport(replay_at_another_server);
}

/// The other server has the key and has not seen the packets: it asks for the proof that the
/// sender is at its address, which a stranger cannot seal.
fn replay_at_another_server(transport: HostTransport) {
    let [server, other] = [keyed(), keyed()];
    let (listener, other_listener) = (server.listen(), other.listen());
    let datagrams = recorded(transport, &server, &listener, &[100, 20_000, 1_000]);
    send_again(&datagrams, other.local_addr());
    delivers_nothing(&other_listener);
    assert!(other.stats().traffic.received > 0, "packets are authentic");
}

/// The first message of a client and its retransmissions are sent back to it. It listens, too.
#[test]
fn reflection__a_sender_does_not_receive_its_own_message() {
    let endpoint = keyed();
    let listener = endpoint.listen();
    let mirror = UdpSocket::bind("127.0.0.1:0").unwrap();
    mirror.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let to = mirror.local_addr().unwrap();
    let send = endpoint.send(to, vec![7; 100], &SendOptions::default()).unwrap();
    let (mut buffer, mut reflected) = ([0; 2_000], 0);
    for _ in 0..20 {
        if let Ok((len, from)) = mirror.recv_from(&mut buffer) {
            mirror.send_to(&buffer[..len], from).unwrap();
            reflected += 1;
        }
    }
    assert!(reflected > 0);
    delivers_nothing(&listener);
    let dropped = endpoint.stats().traffic.dropped;
    assert!(dropped.get("reflected").is_some_and(|count| *count > 0), "{dropped:?}");
    drop(send);
}

/// What an endpoint sends to itself is no reflection. Clients of one daemon do so.
#[test]
fn itself__an_endpoint_receives_what_it_sends_there() {
    for address in ["127.0.0.1:0", "0.0.0.0:0"] {
        let key = Key::new(b"a secret of the service").ok();
        let options = EndpointOptions { key, ..EndpointOptions::default() };
        let endpoint = Endpoint::bind(address.parse().unwrap(), options).unwrap();
        let listener = endpoint.listen();
        let to = SocketAddr::from(([127, 0, 0, 1], endpoint.local_addr().port()));
        let send = endpoint.send(to, vec![7; 5_000], &SendOptions::default()).unwrap();
        let mut message = listener.accept_timeout(Duration::from_secs(10)).unwrap().unwrap();
        assert_eq!(message.read_to_end().unwrap(), vec![7; 5_000]);
        assert!(matches!(send.wait(), Outcome::Done(_)), "{address}");
    }
}
