//! Messages over the transports that ports grant their rates: D3, RCPdc and PDQ. Between two
//! endpoints the sender's NIC is the only such port.

use crate::endpoint::{BAD, PLAIN, bind, contents, endpoint, through_faults_over};
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Class, PacketFlags, Rate};
use punctual_host::{
    Endpoint, EndpointOptions, HostTransport, Key, Listener, Outcome, SendError, SendHandle,
    SendOptions,
};
use punctual_testkit::OtherWork;
use punctual_wire::{Codec as _, Datagram, ENVELOPE_BYTES, Envelope, Kind, PdqCodec, WireName};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

const GRANTED: [HostTransport; 3] = [HostTransport::D3, HostTransport::Rcpdc, HostTransport::Pdq];
const MBPS: Rate = Rate::from_mbps(100);

fn over(transport: HostTransport) -> SendOptions {
    SendOptions { transport, ..PLAIN }
}

/// A client and a server whose NICs have 100 Mb/s.
fn slow_pair() -> (Endpoint, Endpoint, Listener) {
    let options = || EndpointOptions { rate: MBPS, ..EndpointOptions::default() };
    let (server, client) = (bind(options()), bind(options()));
    let listener = server.listen();
    (client, server, listener)
}

/// Reads these many messages at once. Returns when all are read or have failed.
fn read_all(listener: &Listener, count: usize) {
    let read = |_| {
        let mut message = listener.accept().unwrap();
        std::thread::spawn(move || drop(message.read_to_end()))
    };
    let readers: Vec<_> = (0..count).map(read).collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

#[test]
fn granted__every_size_arrives() {
    let (server, client) = (endpoint(), endpoint());
    let listener = server.listen();
    for transport in GRANTED {
        for len in [0, 1, 100, 1_412, 1_413, 1_436, 50_000, 3_000_000] {
            let data: Vec<u8> = (0..len).map(|i: u32| (i * 7) as u8).collect();
            let send = client.send(server.local_addr(), data.clone(), &over(transport)).unwrap();
            let mut message = listener.accept_timeout(Duration::from_secs(5)).unwrap().unwrap();
            assert!(message.read_to_end().unwrap() == data, "{transport:?}: {len} bytes");
            let outcome = send.wait();
            assert!(matches!(outcome, Outcome::Done(_)), "{transport:?}, {len} B: {outcome:?}");
        }
    }
    assert_eq!(server.stats().receive_memory, 0);
    assert_eq!((client.stats().send_memory, client.stats().messages_out), (0, 0));
}

#[test]
fn granted__a_request_and_its_response() {
    let (server, client) = (endpoint(), endpoint());
    let listener = server.listen();
    let address = server.local_addr();
    let serving = std::thread::spawn(move || {
        for _ in GRANTED {
            let mut request = listener.accept().unwrap();
            let bytes = request.read_to_end().unwrap();
            assert!(request.respond(bytes.repeat(20)).unwrap().wait().is_delivered());
        }
    });
    for transport in GRANTED {
        let deadline = Some(Duration::from_secs(5));
        let options = SendOptions { deadline, ..over(transport) };
        let send = client.request(address, vec![7; 2_000], &options).unwrap();
        let (outcome, response) = send.wait_response();
        assert!(matches!(outcome, Outcome::Met(_)), "{transport:?}: {outcome:?}");
        assert_eq!(response, Some(vec![7; 40_000]));
    }
    serving.join().unwrap();
}

/// Time of the packets of a message on a link at this rate, with all headers.
fn line_time(bytes: u64, rate: Rate) -> Duration {
    // 88 bytes of headers, as D3 has them with a request; 38 of framing.
    let packets = (bytes + 28).div_ceil(1_500 - 88);
    let time = rate.transmission_time(Bytes::new(bytes + packets * (88 + 38)));
    Duration::from_nanos(time.as_nanos())
}

/// A busy machine slows single messages down: the best of five counts.
#[test]
fn granted__a_message_alone_takes_its_time_on_the_line() {
    let (client, server, listener) = slow_pair();
    let bytes = 1_000_000;
    for transport in GRANTED {
        // D3's rates on the wire are multiples of 8 Mb/s.
        let rate = if transport == HostTransport::Pdq { MBPS } else { Rate::from_mbps(96) };
        let mut best = Duration::MAX;
        let work = OtherWork::watch();
        for _ in 0..5 {
            let data = vec![1; bytes as usize];
            let send = client.send(server.local_addr(), data, &over(transport)).unwrap();
            read_all(&listener, 1);
            best = best.min(send.wait().times().elapsed);
        }
        // Two round trips to begin with, and one at the end: 80 % of the rate leaves 7 ms for each.
        let most = line_time(bytes, rate).mul_f64(1.25);
        work.check(best <= most, format!("{transport:?} took {best:?}, at most {most:?}"));
    }
}

fn send_by(client: &Endpoint, to: &Endpoint, deadline: Duration) -> SendHandle {
    let options = SendOptions { deadline: Some(deadline), ..over(HostTransport::Pdq) };
    client.send(to.local_addr(), vec![1; 1_000_000], &options).unwrap()
}

/// The one that was sent second has the earlier deadline: it preempts the other.
#[test]
fn granted__pdq_ends_the_earlier_deadline_first() {
    let (client, server, listener) = slow_pair();
    let late = send_by(&client, &server, Duration::from_secs(20));
    let early = send_by(&client, &server, Duration::from_secs(10));
    read_all(&listener, 2);
    let (early, late) = (early.wait(), late.wait());
    assert!(matches!((&early, &late), (Outcome::Met(_), Outcome::Met(_))), "{early:?}, {late:?}");
    // The other one sends at most during the two round trips in which the earlier one begins, and
    // then takes the rest of its time on the line.
    let apart = late.times().elapsed.saturating_sub(early.times().elapsed);
    assert!(apart >= line_time(1_000_000, MBPS) / 2, "{early:?}, {late:?}");
}

/// The deadline of the first message becomes the earlier one while both are under way.
#[test]
fn granted__pdq_obeys_a_new_deadline() {
    let (client, server, listener) = slow_pair();
    let first = send_by(&client, &server, Duration::from_secs(20));
    let second = send_by(&client, &server, Duration::from_secs(10));
    first.set_deadline(Some(Duration::from_secs(5)));
    read_all(&listener, 2);
    let (first, second) = (first.wait(), second.wait());
    assert_eq!(first.times().deadline, Some(Duration::from_secs(5)));
    assert!(first.times().elapsed < second.times().elapsed, "{first:?}, {second:?}");
}

#[test]
fn granted__cancelled_messages_leave_the_rate_to_others() {
    let (client, server, listener) = slow_pair();
    for transport in GRANTED {
        let abandoned =
            client.send(server.local_addr(), vec![1; 20_000_000], &over(transport)).unwrap();
        let mut message = listener.accept().unwrap();
        message.read_some(&mut [0; 1_000]).unwrap();
        abandoned.cancel();
        assert!(matches!(abandoned.wait(), Outcome::GivenUp(_)));
        drop(message);
        let mut best = Duration::MAX;
        let work = OtherWork::watch();
        for _ in 0..5 {
            let data = vec![1; 500_000];
            let send = client.send(server.local_addr(), data, &over(transport)).unwrap();
            read_all(&listener, 1);
            best = best.min(send.wait().times().elapsed);
        }
        // Half of the rate would take twice as long.
        let is_fast = best < line_time(500_000, MBPS).mul_f64(1.5);
        work.check(is_fast, format!("{transport:?}: {best:?}"));
    }
}

#[test]
fn granted__late_messages_are_given_up_or_missed() {
    let (client, server, listener) = slow_pair();
    for transport in GRANTED {
        let deadline = Some(Duration::from_millis(30));
        let late = SendOptions { deadline, ..over(transport) };
        let give_up = SendOptions { give_up_late: true, ..late };
        let send = client.send(server.local_addr(), vec![1; 5_000_000], &give_up).unwrap();
        assert!(matches!(send.wait(), Outcome::GivenUp(_)));
        drop(listener.accept().unwrap());
        let send = client.send(server.local_addr(), vec![1; 1_000_000], &late).unwrap();
        read_all(&listener, 1);
        let outcome = send.wait();
        assert!(matches!(outcome, Outcome::Missed(_)), "{outcome:?}");
    }
}

/// PDQ numbers segments, so both ends need the same size of them.
#[test]
fn granted__another_mtu_is_refused_by_pdq_alone() {
    let small = EndpointOptions { mtu: Bytes::new(1_400), ..EndpointOptions::default() };
    let (server, client) = (bind(small), endpoint());
    let listener = server.listen();
    let send =
        |transport| client.send(server.local_addr(), vec![3; 10_000], &over(transport)).unwrap();
    let outcome = send(HostTransport::Pdq).wait();
    let expected = server.local_addr();
    let is_refused =
        matches!(&outcome, Outcome::Failed(SendError::OtherMtu(peer), _) if *peer == expected);
    assert!(is_refused, "{outcome:?}");
    let sent = send(HostTransport::D3);
    assert_eq!(listener.accept().unwrap().read_to_end().unwrap(), vec![3; 10_000]);
    assert!(matches!(sent.wait(), Outcome::Done(_)));
}

#[test]
fn granted__through_a_bad_network_each_once() {
    for transport in GRANTED {
        assert!(through_faults_over(transport, 50, 1e6, BAD, None) > 0, "nothing was lost");
    }
}

#[test]
fn granted__keyed_through_a_bad_network_each_once() {
    for transport in GRANTED {
        let key = Key::new(b"a secret of the service").ok();
        assert!(through_faults_over(transport, 60, 3e4, BAD, key) > 0, "nothing was lost");
    }
}

/// The first datagram that arrives at a socket, and who sent it.
fn first_datagram(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut buffer = [0; 2_000];
    let (len, from) = socket.recv_from(&mut buffer).expect("a datagram");
    (buffer[..len].to_vec(), from)
}

/// An acknowledgement of a whole flow over this transport, with a grant of 1 Gb/s or more.
fn forged_answer(transport: HostTransport, flow: u32, bytes: u64) -> Vec<u8> {
    let (number, fields) = match transport {
        HostTransport::Pdq => {
            let mut fields = vec![0; 32];
            // Segments that arrived, an acknowledgement of data that ends the flow, and the rate.
            fields[12..16].copy_from_slice(&(bytes.div_ceil(1_400) as u32).to_be_bytes());
            fields[16] = 1 << 4 | 1 << 2;
            fields[20..24].copy_from_slice(&1_000_000u32.to_be_bytes());
            fields[24..28].fill(0xff);
            (PdqCodec::TRANSPORT, fields)
        }
        _ => {
            let mut fields = vec![0; 40];
            // Bytes that arrived; an acknowledgement of data with the answer to a request; a grant
            // of 250 times 8 Mb/s.
            fields[4..8].copy_from_slice(&(bytes as u32).to_be_bytes());
            fields[14] = 1 << 6 | 1 << 4;
            (fields[16], fields[18], fields[32]) = (1, 1 << 3, 250);
            (if transport == HostTransport::D3 { 2 } else { 3 }, fields)
        }
    };
    let envelope = Envelope {
        transport: number,
        kind: Kind::ACK,
        class: Class::CONTROL,
        flags: PacketFlags::TO_SENDER,
        is_syn: false,
        keyed: None,
        name: WireName { flow, incarnation: 1 },
        path: 0,
        payload_bytes: 0,
    };
    let mut bytes = vec![0; ENVELOPE_BYTES];
    bytes.extend_from_slice(&fields);
    envelope.seal(&mut bytes, fields.len());
    bytes
}

/// Somebody who does not see the packets forges acknowledgements and grants: from the peer's address
/// for flow numbers that it guesses, and from another address for the right one. The sender neither
/// believes that its message arrived nor ends.
#[test]
fn granted__forged_answers_convince_nobody() {
    for transport in GRANTED {
        let silence = Duration::from_millis(500);
        let client = bind(EndpointOptions { silence, ..EndpointOptions::default() });
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let send = client.send(peer.local_addr().unwrap(), vec![1; 10_000], &over(transport));
        let (opening, from) = first_datagram(&peer);
        let flow = Datagram::parse(&opening).unwrap().envelope.name.flow;
        let bytes = 10_000 + 28;
        for guess in 0..500u32 {
            let wrong = flow.wrapping_add(1 + guess * 7_919);
            peer.send_to(&forged_answer(transport, wrong, bytes), from).unwrap();
            stranger.send_to(&forged_answer(transport, flow, bytes), from).unwrap();
        }
        let outcome = send.unwrap().wait();
        let is_silent = matches!(
            &outcome,
            Outcome::Failed(SendError::PeerSilent { .. }, _)
                | Outcome::Unknown(SendError::PeerSilent { .. }, _)
        );
        assert!(is_silent, "{transport:?}: {outcome:?}");
    }
}

/// Random bytes, and honest packets that are cut short, repeated and corrupt, reach a server together
/// with honest messages: each message arrives once, and what was dropped is counted.
#[test]
fn granted__garbage_and_copies_change_nothing() {
    for transport in GRANTED {
        let (server, client) = (endpoint(), endpoint());
        let (listener, address) = (server.listen(), server.local_addr());
        // The packets of a sender at a third address: those of a message that nobody answers.
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other = endpoint();
        let unanswered = other.send(peer.local_addr().unwrap(), vec![1; 10_000], &over(transport));
        let (opening, _) = first_datagram(&peer);
        let mut stream = Stream::named(transport.name().len() as u64, "garbage", 0);
        let attacker = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sent = 0;
        for number in 0..20u64 {
            let data = contents(number, 20_000);
            let send = client.send(address, data.clone(), &over(transport)).unwrap();
            for _ in 0..50 {
                let mut bytes = opening.clone();
                match stream.below(4) {
                    0 => bytes.truncate(stream.below(opening.len() as u64) as usize),
                    1 => bytes.iter_mut().for_each(|byte| *byte = stream.bits() as u8),
                    2 => bytes[stream.below(opening.len() as u64) as usize] ^= 1 << stream.below(8),
                    // A copy: it opens a flow once, of which no data follow.
                    _ => {}
                }
                attacker.send_to(&bytes, address).unwrap();
                sent += 1;
            }
            let mut message = listener.accept_timeout(Duration::from_secs(20)).unwrap().unwrap();
            assert!(message.read_to_end().unwrap() == data, "{transport:?}: message {number}");
            assert!(matches!(send.wait(), Outcome::Done(_)), "{transport:?}");
        }
        assert!(listener.accept_timeout(Duration::from_millis(100)).is_none(), "delivered twice");
        let dropped: u64 = server.stats().traffic.dropped.values().sum();
        // Half of them are random or corrupt, and another quarter is cut.
        assert!(dropped > sent / 2, "{transport:?}: {dropped} of {sent}");
        drop(unanswered);
    }
}
