//! Messages between endpoints.

use crate::support::{Faults, Lossy};
use punctual_core::Bytes;
use punctual_core::rng::Stream;
use punctual_host::{
    Endpoint, EndpointOptions, HostError, HostTransport, Key, Outcome, PingError, ReceiveError,
    SendError, SendHandle, SendOptions,
};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

pub(crate) fn localhost() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(crate) fn endpoint() -> Endpoint {
    bind(EndpointOptions::default())
}

/// An endpoint that has run for some time: messages that reach a process within a round trip of its
/// start may have an unknown outcome, which a busy machine makes likely.
pub(crate) fn bind(options: EndpointOptions) -> Endpoint {
    let endpoint = Endpoint::bind(localhost(), options).expect("an endpoint");
    std::thread::sleep(Duration::from_millis(50));
    endpoint
}

/// A message with its number in front, so that the receiver knows which one it is.
pub(crate) fn contents(number: u64, len: usize) -> Vec<u8> {
    let mut stream = Stream::named(number, "contents", len as u64);
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend((8..len.max(8)).map(|_| stream.bits() as u8));
    bytes
}

/// A size from 8 B to `max`, log-uniform.
pub(crate) fn size(stream: &mut Stream, max: f64) -> usize {
    (8.0 * (max / 8.0).powf(stream.unit())) as usize
}

fn by(deadline: Duration) -> SendOptions {
    SendOptions { deadline: Some(deadline), ..SendOptions::default() }
}

pub(crate) const PLAIN: SendOptions = SendOptions {
    deadline: None,
    give_up_late: false,
    priority: None,
    patience: None,
    transport: HostTransport::Ndp,
    service: punctual_host::Service::number(0),
};

#[test]
fn send__every_size_arrives() {
    let (server, client) = (endpoint(), endpoint());
    let listener = server.listen();
    for len in [0, 1, 100, 1_412, 1_413, 1_436, 50_000, 3_000_000] {
        let data: Vec<u8> = (0..len).map(|i: u32| (i * 7) as u8).collect();
        let send = client.send(server.local_addr(), data.clone(), &PLAIN).unwrap();
        let mut message = listener.accept_timeout(Duration::from_secs(5)).unwrap().unwrap();
        assert_eq!((message.len(), message.peer()), (u64::from(len), client.local_addr()));
        assert!(message.read_to_end().unwrap() == data, "{len} bytes");
        assert!(matches!(send.wait(), Outcome::Done(_)), "{len} bytes");
    }
    assert_eq!(server.stats().receive_memory, 0);
    assert_eq!((client.stats().send_memory, client.stats().messages_out), (0, 0));
}

/// Sends messages of all sizes through a faulty network. Returns the retransmissions.
fn through_faults(count: u64, max: f64, faults: Faults, key: Option<Key>) -> u64 {
    through_faults_over(HostTransport::Ndp, count, max, faults, key)
}

pub(crate) fn through_faults_over(
    transport: HostTransport,
    count: u64,
    max: f64,
    faults: Faults,
    key: Option<Key>,
) -> u64 {
    let plain = SendOptions { transport, ..PLAIN };
    let options = EndpointOptions { key, ..EndpointOptions::default() };
    let server = bind(options.clone());
    let client = bind(options);
    let listener = server.listen();
    let relay = Lossy::start(server.local_addr(), faults, count);
    let mut stream = Stream::named(count, "sizes", 0);
    let sizes: Vec<usize> = (0..count).map(|_| size(&mut stream, max)).collect();
    let expected = sizes.clone();
    let reader = std::thread::spawn(move || {
        let mut seen = HashMap::new();
        while (seen.len() as u64) < count {
            let Some(message) = listener.accept_timeout(Duration::from_secs(20)) else { break };
            let Ok(bytes) = message.unwrap().read_to_end() else { continue };
            let number = u64::from_be_bytes(*bytes.first_chunk().unwrap());
            assert!(bytes == contents(number, expected[number as usize]), "message {number}");
            *seen.entry(number).or_insert(0) += 1;
        }
        // Late copies would show up now.
        while let Some(Ok(_)) = listener.accept_timeout(Duration::from_millis(200)) {
            *seen.entry(u64::MAX).or_insert(0) += 1;
        }
        seen
    });
    let mut sends = std::collections::VecDeque::new();
    let mut retransmits = 0;
    let mut settle = |(len, send): (usize, SendHandle)| {
        let outcome = send.wait();
        let is_done = matches!(outcome, Outcome::Done(_));
        let traffic = [client.stats().traffic, server.stats().traffic];
        assert!(is_done, "{transport:?}, {len} B: {outcome:?}; {traffic:?}");
        retransmits += outcome.times().retransmits;
    };
    for (number, len) in sizes.iter().enumerate() {
        let data = contents(number as u64, *len);
        sends.push_back((*len, client.send(relay.address(), data, &plain).unwrap()));
        if sends.len() >= 32 {
            settle(sends.pop_front().unwrap());
        }
    }
    sends.into_iter().for_each(settle);
    let seen = reader.join().unwrap();
    assert_eq!(seen.len() as u64, count);
    assert!(seen.values().all(|times| *times == 1), "delivered twice");
    retransmits
}

pub(crate) const BAD: Faults = Faults {
    drop: 0.02,
    duplicate: 0.02,
    reorder: 0.05,
    corrupt: 0.01,
    trim: 0.02,
    drop_varies: false,
};

#[test]
fn send__through_a_bad_network_each_once() {
    assert!(through_faults(150, 1e5, BAD, None) > 0, "nothing was lost");
}

#[test]
fn keyed__through_a_bad_network_each_once() {
    let key = Key::new(b"a secret of the service").unwrap();
    assert!(through_faults(100, 3e4, BAD, Some(key)) > 0, "nothing was lost");
}

#[test]
fn keyed__another_key_hears_nothing() {
    let keyed = |secret: &[u8]| EndpointOptions {
        key: Some(Key::new(secret).unwrap()),
        silence: Duration::from_millis(300),
        ..EndpointOptions::default()
    };
    let server = bind(keyed(b"a secret of the service"));
    let listener = server.listen();
    let others = [
        keyed(b"a secret of another one"),
        EndpointOptions { key: None, ..keyed(b"a secret of another one") },
    ];
    for options in others {
        let client = bind(options);
        let outcome = client.send(server.local_addr(), "hello", &PLAIN).unwrap().wait();
        assert!(
            matches!(outcome, Outcome::Unknown(SendError::PeerSilent { .. }, _)),
            "{outcome:?}"
        );
    }
    assert!(listener.accept_timeout(Duration::ZERO).is_none());
    let dropped = server.stats().traffic.dropped;
    assert!(dropped["header_tag"] > 0 && dropped["not_keyed"] > 0, "{dropped:?}");
}

/// Datagrams that arrive a second time are refused, and change nothing.
#[test]
fn keyed__replays_are_refused() {
    let key = Key::new(b"a secret of the service").ok();
    let options = EndpointOptions { key, ..EndpointOptions::default() };
    let server = bind(options.clone());
    let client = bind(options);
    let listener = server.listen();
    let twice = Faults { duplicate: 1.0, ..Faults::default() };
    let relay = Lossy::start(server.local_addr(), twice, 1);
    for _ in 0..5 {
        let outcome = client.send(relay.address(), vec![7; 5_000], &PLAIN).unwrap().wait();
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        assert_eq!(listener.accept().unwrap().read_to_end().unwrap(), vec![7; 5_000]);
    }
    assert!(listener.accept_timeout(Duration::from_millis(50)).is_none());
    assert!(server.stats().traffic.dropped["replayed"] >= 20);
}

#[test]
fn request__has_one_deadline_for_the_pair() {
    let (server, client) = (endpoint(), endpoint());
    let listener = server.listen();
    let address = server.local_addr();
    let serving = std::thread::spawn(move || {
        for pause in [0, 60, 0] {
            let mut request = listener.accept().unwrap();
            assert!(request.is_request());
            let left = request.deadline_left().unwrap();
            assert!(left > Duration::from_millis(20) && left <= Duration::from_millis(50));
            let bytes = request.read_to_end().unwrap();
            std::thread::sleep(Duration::from_millis(pause));
            // A response larger than a forged address may get, and than a stream's buffer.
            let outcome = request.respond(bytes.repeat(1_000)).unwrap().wait();
            assert!(outcome.is_delivered(), "{outcome:?}");
        }
    });
    for (late, len) in [(false, 10), (true, 10), (false, 2_000)] {
        let send = client.request(address, vec![5; len], &by(Duration::from_millis(50))).unwrap();
        let (outcome, response) = send.wait_response();
        let is_right = match late {
            true => matches!(outcome, Outcome::Missed(_)),
            false => outcome.is_delivered(),
        };
        assert!(is_right, "{outcome:?}");
        assert_eq!(response, Some(vec![5; len * 1_000]));
    }
    serving.join().unwrap();
    assert_eq!(client.stats().receive_memory, 0);
}

/// The response waits until an unproven address is proven.
#[test]
fn request__a_large_response_needs_a_proof_of_the_address() {
    let window = Duration::from_millis(1_000);
    let silence = Duration::from_millis(900);
    let options = EndpointOptions { window, silence, ..EndpointOptions::default() };
    let server = bind(options);
    let listener = server.listen();
    let client = endpoint();
    // An endpoint that has run for longer than its window accepts messages without a proof.
    std::thread::sleep(window);
    let send = client.request(server.local_addr(), "small", &PLAIN).unwrap();
    let mut request = listener.accept().unwrap();
    request.read_to_end().unwrap();
    let respond = request.respond(vec![1; 100_000]).unwrap();
    let (outcome, response) = send.wait_response();
    assert_eq!(response.map(|r| r.len()), Some(100_000), "{outcome:?}");
    assert!(respond.wait().is_delivered());
}

#[test]
fn cancel__the_peer_confirms() {
    let (server, client) = (endpoint(), endpoint());
    let listener = server.listen();
    // Nobody reads, so that the message cannot be complete.
    let send = client.send(server.local_addr(), vec![1; 20_000_000], &PLAIN).unwrap();
    let mut message = listener.accept().unwrap();
    send.cancel();
    assert!(matches!(send.wait(), Outcome::GivenUp(_)));
    let error = loop {
        match message.read_some(&mut [0; 1 << 16]) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error, ReceiveError::Cancelled);
    drop(message);
    assert_eq!(server.stats().receive_memory, 0);
}

#[test]
fn deadline__late_messages_are_given_up_or_missed() {
    let (server, client) = (endpoint(), endpoint());
    let listener = server.listen();
    let give_up = SendOptions { give_up_late: true, ..by(Duration::from_millis(30)) };
    let send = client.send(server.local_addr(), vec![1; 20_000_000], &give_up).unwrap();
    assert!(matches!(send.wait(), Outcome::GivenUp(_)));
    drop(listener.accept().unwrap());
    // The deadline is changed in flight: from one that is missed to one that is met.
    for (deadline, met) in [(Duration::from_secs(20), true), (Duration::from_nanos(1), false)] {
        let send = client.send(server.local_addr(), vec![1; 3_000_000], &by(deadline)).unwrap();
        if met {
            send.set_deadline(Some(Duration::from_secs(30)));
        } else {
            send.set_deadline(Some(Duration::from_nanos(2)));
        }
        listener.accept().unwrap().read_to_end().unwrap();
        let outcome = send.wait();
        let expected = if met { Duration::from_secs(30) } else { Duration::from_nanos(2) };
        assert_eq!(outcome.times().deadline, Some(expected));
        assert_eq!(matches!(outcome, Outcome::Met(_)), met, "{outcome:?}");
    }
}

/// A message that is larger than all memory passes at the speed of its reader.
#[test]
fn stream__a_slow_reader_takes_its_time() {
    let options = EndpointOptions {
        stream_buffer: 1 << 16,
        peer_memory: 1 << 16,
        receive_memory: 1 << 17,
        silence: Duration::from_millis(600),
        ..EndpointOptions::default()
    };
    let server = bind(options.clone());
    let client = bind(options);
    let listener = server.listen();
    let data = contents(3, 600_000);
    let send = client.send(server.local_addr(), data.clone(), &PLAIN).unwrap();
    let mut message = listener.accept().unwrap();
    // Longer than the silence after which a send fails.
    std::thread::sleep(Duration::from_millis(900));
    let mut read = Vec::new();
    let mut part = vec![0; 20_000];
    loop {
        let count = message.read_some(&mut part).unwrap();
        if count == 0 {
            break;
        }
        read.extend_from_slice(&part[..count]);
        assert!(server.stats().receive_memory <= 1 << 17);
    }
    assert!(read == data);
    assert!(matches!(send.wait(), Outcome::Done(_)));
}

#[test]
fn peers__do_not_harm_each_other() {
    let server = endpoint();
    let listener = server.listen();
    let nobody = UdpSocket::bind("127.77.1.1:0").unwrap().local_addr().unwrap();
    let forbidden = SocketAddr::from(([255, 255, 255, 255], 9));
    let client = Endpoint::bind(
        localhost(),
        EndpointOptions { silence: Duration::from_millis(300), ..EndpointOptions::default() },
    )
    .unwrap();
    let to_nobody = client.send(nobody, "x", &PLAIN).unwrap();
    let to_all = client.send(forbidden, "x", &PLAIN).unwrap();
    for number in 0..20 {
        let send = client.send(server.local_addr(), contents(number, 5_000), &PLAIN).unwrap();
        assert_eq!(listener.accept().unwrap().read_to_end().unwrap(), contents(number, 5_000));
        assert!(matches!(send.wait(), Outcome::Done(_)));
    }
    assert!(matches!(to_nobody.wait(), Outcome::Unknown(SendError::PeerSilent { .. }, _)));
    assert!(!to_all.wait().is_delivered());
    assert!(client.stats().traffic.socket_errors > 0, "the broadcast was refused");
}

#[test]
fn errors__are_typed() {
    let (server, client) = (endpoint(), endpoint());
    let again = Endpoint::bind(server.local_addr(), EndpointOptions::default());
    assert!(matches!(again, Err(HostError::AddressInUse(_))));
    let past = client.send(server.local_addr(), "x", &by(Duration::ZERO));
    assert!(matches!(past, Err(SendError::DeadlinePast)));
    let outcome = client.send(server.local_addr(), "x", &PLAIN).unwrap().wait();
    assert!(matches!(outcome, Outcome::Failed(SendError::NotListening(_), _)), "{outcome:?}");

    let small = EndpointOptions { message_max: 1_000, ..EndpointOptions::default() };
    let small = bind(small);
    let listener = small.listen();
    let outcome = client.send(small.local_addr(), vec![0; 1_001], &PLAIN).unwrap().wait();
    assert!(matches!(outcome, Outcome::Failed(SendError::TooLarge(_), _)), "{outcome:?}");
    let send = client.send(small.local_addr(), vec![0; 1_000], &PLAIN).unwrap();
    assert!(listener.accept().unwrap().respond("x").is_err(), "no request");
    assert!(send.wait().is_delivered());

    let full = EndpointOptions { send_memory: 1_000, ..EndpointOptions::default() };
    let full = bind(full);
    let nobody = UdpSocket::bind("127.77.1.2:0").unwrap().local_addr().unwrap();
    let _first = full.send(nobody, vec![0; 900], &PLAIN).unwrap();
    let second = full.send(nobody, vec![0; 900], &PLAIN);
    assert!(matches!(second, Err(SendError::SendMemoryFull { waiting: 900 })), "{second:?}");

    let wrong = EndpointOptions { window: Duration::ZERO, ..EndpointOptions::default() };
    assert!(Endpoint::bind(localhost(), wrong).unwrap_err().to_string().contains("window"));
    let listener = endpoint().listen();
    drop(listener.accept_timeout(Duration::from_millis(1)));
}

#[test]
fn futures__work_with_any_runtime() {
    let (server, client) = (endpoint(), endpoint());
    let listener = server.listen();
    let data = contents(1, 300_000);
    let sent = block_on(async {
        let send = client.send(server.local_addr(), data.clone(), &PLAIN).unwrap();
        let mut message = listener.accept_async().await.unwrap();
        assert!(message.read_to_end_async().await.unwrap() == data);
        send.await.0
    });
    assert!(matches!(sent, Outcome::Done(_)), "{sent:?}");
}

/// A runtime that parks its thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let mut cx = std::task::Context::from_waker(&waker);
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        assert!(Instant::now() < until, "no wake-up");
        std::thread::park_timeout(Duration::from_secs(5));
    }
}

/// The answer to a message is lost and its receiver restarts: the new process must not deliver the
/// message again, and its sender must not claim to know.
#[test]
fn restart__a_delivered_message_is_not_delivered_again() {
    let first = endpoint();
    let address = first.local_addr();
    let relay = Lossy::start(address, Faults::default(), 1);
    let client = endpoint();
    // The first contact, so that the client is known.
    let listener = first.listen();
    let send = client.send(relay.address(), "known", &PLAIN).unwrap();
    assert_eq!(listener.accept().unwrap().read_to_end().unwrap(), b"known");
    assert!(send.wait().is_delivered());
    relay.set_mute(true);
    let send = client.send(relay.address(), "once", &PLAIN).unwrap();
    assert_eq!(listener.accept().unwrap().read_to_end().unwrap(), b"once");
    drop(listener);
    drop(first);
    std::thread::sleep(Duration::from_millis(30));
    let second = Endpoint::bind(address, EndpointOptions::default()).unwrap();
    let listener = second.listen();
    relay.set_mute(false);
    let outcome = send.wait();
    assert!(matches!(outcome, Outcome::Unknown(SendError::Restarted(_), _)), "{outcome:?}");
    assert!(listener.accept_timeout(Duration::from_millis(200)).is_none(), "delivered twice");
    // Later messages pass.
    let send = client.send(relay.address(), "next", &PLAIN).unwrap();
    assert_eq!(listener.accept().unwrap().read_to_end().unwrap(), b"next");
    assert!(send.wait().is_delivered());
}

/// First packets from many addresses: memory stays within the options, and honest messages pass.
#[test]
fn flood__of_first_packets_from_forged_addresses() {
    let options = EndpointOptions {
        window: Duration::from_millis(300),
        silence: Duration::from_millis(200),
        unproven_max: 32,
        ..EndpointOptions::default()
    };
    let server = bind(options);
    let address = server.local_addr();
    let listener = server.listen();
    std::thread::sleep(Duration::from_millis(350));
    let first = first_packet(address);
    let client = endpoint();
    let mut sent = 0;
    for round in 0..20u32 {
        for host in 0..150u32 {
            let from = std::net::Ipv4Addr::from(0x7f01_0000 + round * 256 + host);
            let Ok(forged) = UdpSocket::bind((from, 0)) else { continue };
            sent += u32::from(forged.send_to(&first, address).is_ok());
        }
        let stats = server.stats();
        // At most 32 flows of 50 kB are open, and some messages that have just ended.
        assert!(stats.messages_in <= 64 && stats.receive_memory <= 64 * 50_000, "{stats:?}");
        let send = client.send(address, contents(u64::from(round), 20_000), &PLAIN).unwrap();
        // Forged messages that begin are accepted too, but never end.
        let honest = loop {
            let message = listener.accept_timeout(Duration::from_secs(5));
            let mut message = message.expect("an honest message").unwrap();
            if message.peer() == client.local_addr() {
                break message.read_to_end().unwrap();
            }
        };
        assert_eq!(honest, contents(u64::from(round), 20_000));
        assert!(send.wait().is_delivered());
    }
    assert!(sent > 2_000, "{sent} forged packets");
}

/// The first packet of a message of 50 kB.
fn first_packet(_address: SocketAddr) -> Vec<u8> {
    let trap = UdpSocket::bind("127.0.0.1:0").unwrap();
    trap.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let sender = endpoint();
    let send = sender.send(trap.local_addr().unwrap(), vec![9; 50_000], &PLAIN).unwrap();
    let mut bytes = vec![0; 2_000];
    let (len, _) = trap.recv_from(&mut bytes).unwrap();
    bytes.truncate(len);
    drop(send);
    bytes
}

/// No answer to a single datagram is more than three times its size.
#[test]
fn answers__do_not_amplify() {
    let silence = Duration::from_millis(900);
    let window = Duration::from_millis(950);
    let server = bind(EndpointOptions { window, silence, ..EndpointOptions::default() });
    let _listener = server.listen();
    let mut first = first_packet(server.local_addr());
    // Trimmed: the smallest packet that opens a flow. Its receiver asks for the data until it gives
    // up.
    first.truncate(punctual_wire::NDP_HEADER_BYTES);
    for pause in [0, 950] {
        // First while the endpoint asks for proofs, then when it accepts without.
        std::thread::sleep(Duration::from_millis(pause));
        let victim = UdpSocket::bind("127.0.0.1:0").unwrap();
        victim.set_read_timeout(Some(Duration::from_millis(600))).unwrap();
        victim.send_to(&first, server.local_addr()).unwrap();
        let mut answered = 0;
        while let Ok((len, _)) = victim.recv_from(&mut [0; 2_000]) {
            answered += len;
        }
        assert!(answered > 0 && answered <= 3 * first.len(), "{answered} of {}", first.len());
    }
    assert!(server.stats().traffic.dropped["answer_limit"] > 0, "nothing was held back");
}

#[test]
fn ping__is_answered_by_the_engine() {
    let (server, client) = (endpoint(), endpoint());
    let round_trip = client.ping(server.local_addr(), Duration::from_secs(2));
    assert!(round_trip.is_ok_and(|time| time < Duration::from_millis(500)));
    let nobody = UdpSocket::bind("127.77.1.3:0").unwrap().local_addr().unwrap();
    let waited = Duration::from_millis(50);
    let error = client.ping(nobody, waited).unwrap_err();
    assert_eq!(error, PingError::NoAnswer { peer: nobody, waited });
}

#[test]
fn mtu__jumbo_packets_and_ipv6() {
    let options = EndpointOptions { mtu: Bytes::new(9_000), ..EndpointOptions::default() };
    for any in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(server) = Endpoint::bind(any.parse().unwrap(), options.clone()) else {
            eprintln!("SKIPPED {any}: no such address here");
            continue;
        };
        let client = Endpoint::bind(any.parse().unwrap(), options.clone()).unwrap();
        let listener = server.listen();
        let send = client.send(server.local_addr(), contents(2, 400_000), &PLAIN).unwrap();
        assert!(listener.accept().unwrap().read_to_end().unwrap() == contents(2, 400_000));
        assert!(send.wait().is_delivered());
    }
}

/// Nine messages share a link: one of high priority overtakes eight of low priority that began
/// before it.
#[test]
fn priority__an_urgent_message_overtakes_bulk() {
    let options =
        || EndpointOptions { rate: punctual_core::Rate::from_mbps(200), ..Default::default() };
    let (server, client) = (bind(options()), bind(options()));
    let listener = server.listen();
    let reading = std::thread::spawn(move || {
        let mut readers = vec![];
        for _ in 0..9 {
            let mut message = listener.accept_timeout(Duration::from_secs(20)).unwrap().unwrap();
            readers.push(std::thread::spawn(move || message.read_to_end().unwrap().len()));
        }
        readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
    });
    let priority = |priority| SendOptions { priority: Some(priority), ..PLAIN };
    let to = server.local_addr();
    let bulk: Vec<_> =
        (0..8).map(|_| client.send(to, vec![1; 2_000_000], &priority(6)).unwrap()).collect();
    while client.stats().traffic.sent < 500 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = client.stats().traffic.sent;
    let urgent = client.send(to, vec![2; 500_000], &priority(0)).unwrap().wait();
    let sent = client.stats().traffic.sent - before;
    assert!(matches!(urgent, Outcome::Done(_)), "{urgent:?}");
    for send in bulk {
        let outcome = send.wait();
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    }
    assert_eq!(reading.join().unwrap().iter().sum::<usize>(), 8 * 2_000_000 + 500_000);
    // The urgent message has 349 packets. In turns with eight others, 9 times as many would leave
    // until its end.
    assert!(sent < 349 * 9 / 2, "{sent} packets until the end of the urgent message");
}

/// Datagrams that are longer than their header says, up to the most that UDP carries, are dropped
/// and counted.
#[test]
fn oversized__datagrams_are_counted_drops() {
    let (server, client) = (endpoint(), endpoint());
    let listener = server.listen();
    // A real packet, as a peer would receive it.
    let peer = UdpSocket::bind(localhost()).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let send = client.send(peer.local_addr().unwrap(), vec![7; 100], &PLAIN).unwrap();
    let mut bytes = vec![0; 65_507];
    let len = peer.recv(&mut bytes).unwrap();
    drop(send);
    let sizes = [len + 1, 1_501, 9_001, 65_507];
    for size in sizes {
        peer.send_to(&bytes[..size], server.local_addr()).unwrap();
    }
    let outcome = client.send(server.local_addr(), "hello", &PLAIN).unwrap().wait();
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    assert_eq!(listener.accept().unwrap().read_to_end().unwrap(), b"hello");
    assert!(listener.accept_timeout(Duration::ZERO).is_none());
    let dropped = server.stats().traffic.dropped;
    assert_eq!(dropped.get("long").copied(), Some(sizes.len() as u64), "{dropped:?}");
}

/// A request names the response before it that has arrived, which takes the place of that response's
/// acknowledgement: requests in a row need one packet each way.
#[test]
fn requests__confirm_the_response_before_them() {
    const REQUESTS: u64 = 500;
    let (server, client) = (endpoint(), endpoint());
    let (listener, to) = (server.listen(), server.local_addr());
    let serving = std::thread::spawn(move || {
        let mut sends = Vec::new();
        for _ in 0..REQUESTS {
            let mut request = listener.accept().unwrap();
            let bytes = request.read_to_end().unwrap();
            sends.push(request.respond(bytes).unwrap());
        }
        sends.into_iter().map(|send| send.wait()).collect::<Vec<_>>()
    });
    for number in 0..REQUESTS {
        let bytes = number.to_be_bytes();
        let (outcome, response) = client.request(to, bytes, &PLAIN).unwrap().wait_response();
        assert_eq!(response.as_deref(), Some(&bytes[..]), "{outcome:?}");
    }
    let sent = client.stats().traffic.sent;
    for outcome in serving.join().unwrap() {
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    }
    // With a packet for each acknowledgement there would be two for each request. An acknowledgement
    // leaves alone only if the next request comes more than 1 ms later.
    assert!(sent < 2 * REQUESTS, "{sent} packets for {REQUESTS} requests");
}
