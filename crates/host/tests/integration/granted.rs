//! Messages over the transports that ports grant their rates: D3, RCPdc and PDQ. Between two
//! endpoints the sender's NIC is the only such port.

use crate::endpoint::{BAD, PLAIN, bind, endpoint, through_faults_over};
use punctual_core::{Bytes, Rate};
use punctual_host::{
    Endpoint, EndpointOptions, HostTransport, Key, Listener, Outcome, SendError, SendHandle,
    SendOptions,
};
use punctual_testkit::OtherWork;
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
