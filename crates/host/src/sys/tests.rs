use super::*;

fn pairs() -> Vec<(UdpSocket, UdpSocket)> {
    let mut pairs = vec![];
    for any in ["127.0.0.1:0", "[::1]:0"] {
        match (UdpSocket::bind(any), UdpSocket::bind(any)) {
            (Ok(from), Ok(to)) => pairs.push((from, to)),
            _ => eprintln!("SKIPPED {any}: no such address here"),
        }
    }
    pairs
}

#[test]
fn batches__go_both_ways() {
    for (from, to) in pairs() {
        let peer = to.local_addr().unwrap();
        let batch: Vec<_> =
            (0..40).map(|n| Outgoing { bytes: vec![n; usize::from(n) + 1], peer }).collect();
        assert_eq!(send_batch(&from, &batch).unwrap(), BATCH);
        assert_eq!(send_batch(&from, &batch[BATCH..]).unwrap(), 8);
        let mut received = Received::new();
        assert_eq!(received.fill(&to).unwrap(), BATCH);
        let source = from.local_addr().unwrap();
        for (n, sent) in batch.iter().enumerate().take(BATCH) {
            assert_eq!(received.get(n), Some((&sent.bytes[..], source)));
        }
        assert_eq!(received.fill(&to).unwrap(), 8);
        assert_eq!(received.fill(&to).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}

#[test]
fn segments__arrive_as_the_datagrams_that_were_sent() {
    for (from, to) in pairs() {
        for joins in [false, true] {
            if joins && join_segments(&to).is_err() {
                eprintln!("SKIPPED: no UDP_GRO in this kernel");
                continue;
            }
            let peer = to.local_addr().unwrap();
            let sizes = [900, 900, 900, 400, 1_200, 1_200, 7, 36, 36, 36, 900];
            let batch: Vec<_> = sizes
                .iter()
                .enumerate()
                .map(|(n, size)| Departure {
                    bytes: vec![n as u8; *size],
                    peer,
                    local: None,
                    traffic_class: 0,
                })
                .collect();
            assert_eq!(segments_of(&batch), 4);
            assert_eq!(segments_of(&batch[4..]), 3);
            assert_eq!(segments_of(&batch[7..]), 3);
            let mut rest = &batch[..];
            while !rest.is_empty() {
                let sent = send_departures(&from, rest, true).unwrap();
                rest = &rest[sent..];
            }
            let mut received = Received::new();
            let mut arrived = vec![];
            while let Ok(count) = received.fill(&to) {
                arrived.extend((0..count).filter_map(|n| received.get(n)).map(|(b, p)| {
                    assert_eq!(p, from.local_addr().unwrap());
                    b.to_vec()
                }));
            }
            assert!(arrived.iter().eq(batch.iter().map(|d| &d.bytes)), "joins: {joins}");
        }
    }
}

#[test]
fn traffic_classes__arrive_and_split_segments() {
    for (from, to) in pairs() {
        let peer = to.local_addr().unwrap();
        report_traffic_class(&to, peer.is_ipv6()).unwrap();
        join_segments(&to).unwrap();
        // EF, ECT(0), CE, and none. One alone leaves by another system call.
        for classes in [&[0xb8, 0xb8, 0x02, 0x03, 0, 0, 0xa0][..], &[0xb8], &[0]] {
            let batch: Vec<_> = classes
                .iter()
                .map(|class| Departure {
                    bytes: vec![*class; 500],
                    peer,
                    local: None,
                    traffic_class: *class,
                })
                .collect();
            assert_eq!(segments_of(&batch), classes.len().min(2));
            let mut rest = &batch[..];
            while !rest.is_empty() {
                rest = &rest[send_departures(&from, rest, true).unwrap()..];
            }
            let mut received = Received::new();
            let mut arrived = vec![];
            while let Ok(count) = received.fill(&to) {
                for n in 0..count {
                    assert_eq!(received.get(n).unwrap().0, [received.traffic_class(n); 500]);
                    arrived.push(received.traffic_class(n));
                }
            }
            assert_eq!(arrived, classes);
        }
    }
}

#[test]
fn local_address__answers_come_from_the_address_that_was_asked() {
    let server = UdpSocket::bind("0.0.0.0:0").unwrap();
    report_local_address(&server, false).unwrap();
    let port = server.local_addr().unwrap().port();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    for asked in ["127.0.0.7", "127.3.2.1"] {
        let asked: IpAddr = asked.parse().unwrap();
        client.send_to(b"who", (asked, port)).unwrap();
        let mut received = Received::new();
        let (_, peer, local) = loop {
            if received.fill(&server).is_ok() {
                break received.get_with_local(0).unwrap();
            }
        };
        assert_eq!(local, Some(asked));
        let answer = [Departure { bytes: b"me".to_vec(), peer, local, traffic_class: 0 }];
        assert_eq!(send_departures(&server, &answer, true).unwrap(), 1);
        let (_, source) = client.recv_from(&mut [0; 8]).unwrap();
        assert_eq!(source, SocketAddr::new(asked, port));
    }
}

#[test]
fn errors__name_the_peer_and_repeat_the_datagram() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    queue_errors(&socket, false).unwrap();
    // A port that is free, since its socket is dropped at once.
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    socket.send_to(b"anybody", gone).unwrap();
    let error = take_error(&socket).expect("ICMP arrives at once on loopback");
    assert_eq!((error.peer, &error.bytes[..]), (gone, &b"anybody"[..]));
    assert_eq!(error.error.kind(), io::ErrorKind::ConnectionRefused);
    assert!(take_error(&socket).is_none());
}
