//! Errors that the network reports concern one peer, and only as long as that peer is silent.

use crate::endpoint::contents;
use crate::support::namespaces::Namespaces;
use punctual_core::Bytes;
use punctual_host::{Endpoint, EndpointOptions, Outcome, SendError, SendOptions};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Sends a message to a listening endpoint and reads it there.
fn transfer(client: &Endpoint, server: &Endpoint, to: SocketAddr, bytes: usize) -> Outcome {
    let listener = server.listen();
    let data = contents(bytes as u64, bytes);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let message = listener.accept_timeout(Duration::from_secs(20)).expect("a message");
            message.unwrap().read_to_end().expect("all of it")
        });
        let send = client.send(to, data.clone(), &SendOptions::default()).expect("accepted");
        let outcome = send.wait_timeout(Duration::from_secs(20)).expect("an outcome");
        assert!(reader.join().unwrap() == data, "{bytes} bytes arrive as they were sent");
        outcome
    })
}

fn is_unreachable(outcome: &Outcome, peer: SocketAddr) -> bool {
    match outcome {
        Outcome::Failed(SendError::PeerUnreachable { peer: named, .. }, _)
        | Outcome::Unknown(SendError::PeerUnreachable { peer: named, .. }, _) => *named == peer,
        _ => false,
    }
}

#[test]
fn unreachable__a_closed_port_is_named_before_the_silence_ends() {
    let silence = Duration::from_secs(20);
    let options = EndpointOptions { silence, window: 2 * silence, ..EndpointOptions::default() };
    let client = Endpoint::bind(ANY_PORT, options.clone()).unwrap();
    let server = Endpoint::bind(ANY_PORT, options).unwrap();
    let gone = UdpSocket::bind(ANY_PORT).unwrap().local_addr().unwrap();
    let start = Instant::now();
    let doomed: Vec<_> = [10, 200_000]
        .map(|bytes| client.send(gone, vec![1; bytes], &SendOptions::default()).unwrap())
        .into();
    // Others are not concerned.
    for bytes in [100, 400_000, 100] {
        let outcome = transfer(&client, &server, server.local_addr(), bytes);
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    }
    for send in doomed {
        let outcome = send.wait();
        assert!(is_unreachable(&outcome, gone), "{outcome:?}");
    }
    assert!(start.elapsed() < silence / 2, "{:?}", start.elapsed());
}

#[test]
fn unreachable__errors_do_not_end_a_flow_that_goes_on() {
    let options = EndpointOptions { source_ports: 1, ..EndpointOptions::default() };
    let server = Endpoint::bind(ANY_PORT, options.clone()).unwrap();
    let client = Endpoint::bind(ANY_PORT, options).unwrap();
    // A relay whose port is closed for a while, so that the client gets ICMP errors with the right
    // flow number, as somebody who forges them would like to send.
    let front = UdpSocket::bind(ANY_PORT).unwrap();
    let address = front.local_addr().unwrap();
    let to = server.local_addr();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let relay = std::thread::spawn(move || {
        let back = UdpSocket::bind(ANY_PORT).unwrap();
        back.set_nonblocking(true).unwrap();
        let mut front = Some(front);
        let (mut client, mut buffer) = (None, [0; 1 << 16]);
        let (start, mut seen) = (Instant::now(), 0);
        let mut closed_until = None;
        while start.elapsed() < Duration::from_secs(20) && !stopped.load(Ordering::Relaxed) {
            if front.is_none() && closed_until.is_some_and(|until| Instant::now() >= until) {
                front = Some(UdpSocket::bind(address).expect("the same port"));
            }
            let mut is_idle = true;
            if let Some(socket) = &front {
                socket.set_nonblocking(true).unwrap();
                if let Ok((len, source)) = socket.recv_from(&mut buffer) {
                    (client, seen, is_idle) = (Some(source), seen + 1, false);
                    let _ = back.send_to(&buffer[..len], to);
                }
                if let (Ok((len, _)), Some(client)) = (back.recv_from(&mut buffer), client) {
                    is_idle = false;
                    let _ = socket.send_to(&buffer[..len], client);
                }
            }
            if seen == 300 && closed_until.is_none() {
                front = None;
                closed_until = Some(Instant::now() + Duration::from_millis(300));
            }
            if is_idle {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    });
    let outcome = transfer(&client, &server, address, 2_000_000);
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    assert!(client.stats().traffic.socket_errors > 0, "the client got errors");
    stop.store(true, Ordering::Relaxed);
    relay.join().unwrap();
}

#[test]
fn forbidden__a_route_without_permission_ends_sends_to_it_only() {
    let Some(namespaces) = Namespaces::with_links(1) else { return };
    namespaces.ip(0, "route add prohibit 10.0.0.9");
    let bind = |end: usize, address: &str| {
        let address = address.parse().unwrap();
        namespaces.within(end, move || Endpoint::bind(address, EndpointOptions::default()).unwrap())
    };
    let client = bind(0, "10.0.0.1:7000");
    let server = bind(1, "10.0.0.2:7000");
    let forbidden = SocketAddr::from(([10, 0, 0, 9], 7_000));
    let doomed = client.send(forbidden, vec![1; 50_000], &SendOptions::default()).unwrap();
    let outcome = transfer(&client, &server, server.local_addr(), 300_000);
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    let outcome = doomed.wait();
    assert!(is_unreachable(&outcome, forbidden), "{outcome:?}");
}

/// The kernel refuses to send to port 0: EINVAL.
#[test]
fn invalid__ends_sends_to_that_address_only() {
    let [client, server] =
        [(); 2].map(|()| Endpoint::bind(ANY_PORT, EndpointOptions::default()).unwrap());
    let invalid = SocketAddr::from(([127, 0, 0, 1], 0));
    let doomed: Vec<_> = [10, 200_000]
        .map(|bytes| client.send(invalid, vec![1; bytes], &SendOptions::default()).unwrap())
        .into();
    for bytes in [100, 400_000, 100] {
        let outcome = transfer(&client, &server, server.local_addr(), bytes);
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    }
    for send in doomed {
        let outcome = send.wait();
        assert!(is_unreachable(&outcome, invalid), "{outcome:?}");
    }
    assert!(client.stats().traffic.socket_errors > 0, "the kernel sent to port 0");
}

#[test]
fn path_mtu__smaller_than_the_mtu_works() {
    let Some(namespaces) = Namespaces::with_links(1) else { return };
    for end in [0, 1] {
        namespaces.ip(end, "link set nic0 mtu 1280");
    }
    for mtu in [1_500, 9_000] {
        let [client, server] = [0, 1].map(|end| {
            let address = SocketAddr::from(([10, 0, 0, end as u8 + 1], 7_000));
            let options = EndpointOptions { mtu: Bytes::new(mtu), ..EndpointOptions::default() };
            namespaces.within(end, || Endpoint::bind(address, options).unwrap())
        });
        let outcome = transfer(&client, &server, server.local_addr(), 500_000);
        assert!(matches!(outcome, Outcome::Done(_)), "mtu {mtu}: {outcome:?}");
    }
}
