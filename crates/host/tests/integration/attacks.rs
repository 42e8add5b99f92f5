//! Strays, forgeries and rivals at a file transfer: the outcome at both ends stays true.

use crate::support::{Faults, Lossy};
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Class, Duration, FlowId, Header, HostId, Packet, PacketFlags, Rate};
use punctual_host::{
    Endpoint, EndpointOptions, HostError, LinkOptions, ReceiveOptions, ReceiveReport, Receiver,
    SendFileOptions, SendReport, send_file,
};
use punctual_transports::ndp::{NdpHeader, flags, kind};
use punctual_wire::{NdpCodec, WireName, emit};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration as Time, Instant};

fn packet(kind: u8, cumulative: u64, flags: u8) -> Packet {
    let header = NdpHeader { seq: 0, cumulative, sent_at: 0, pull: 0, path: 0, kind, flags };
    Packet::new(FlowId(0), HostId(1), Header::new(header))
}

/// A data packet of NDP as a datagram: `payload` at the beginning of a flow of `size` bytes.
fn data(flow: u32, size: u64, payload: &[u8], is_syn: bool) -> Vec<u8> {
    let is_last = payload.len() as u64 == size;
    let flags = if is_syn { flags::SYN } else { 0 } | if is_last { flags::LAST } else { 0 };
    let mut packet = packet(kind::DATA, size, flags);
    packet.class = Class::DATA;
    packet.flags = PacketFlags::TRIMMABLE;
    packet.payload_bytes = payload.len() as u16;
    let mut bytes = Vec::new();
    let name = WireName { flow, incarnation: 1 };
    emit(&NdpCodec, name, &packet, None, &mut bytes, |into| {
        into.copy_from_slice(payload);
        Ok::<(), ()>(())
    })
    .unwrap();
    bytes
}

fn quick() -> LinkOptions {
    let mut link = LinkOptions { silence: Duration::from_secs(2), ..LinkOptions::default() };
    link.ndp.rto = Duration::from_millis(10);
    link
}

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str, len: usize) -> PathBuf {
        let mut stream = Stream::named(len as u64, name, 0);
        let bytes: Vec<u8> = (0..len).map(|_| stream.bits() as u8).collect();
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    fn receive(
        &self,
        out: &str,
        link: LinkOptions,
    ) -> (SocketAddr, JoinHandle<Result<ReceiveReport, HostError>>) {
        let wait = Some(Duration::from_secs(4));
        let options = ReceiveOptions { wait, link, ..ReceiveOptions::default() };
        let receiver = Receiver::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let address = receiver.local_addr();
        let out = self.path(out);
        (address, std::thread::spawn(move || receiver.receive(&out)))
    }
}

fn send(path: &Path, to: SocketAddr, link: LinkOptions) -> Result<SendReport, HostError> {
    send_file(path, to, &SendFileOptions { link, deadline: None })
}

#[test]
fn strays__do_not_claim_a_waiting_receiver() {
    let place = Place::new();
    let path = place.file("in", 200_000);
    let (address, receiving) = place.receive("out", quick());
    let stray = UdpSocket::bind("127.0.0.1:0").unwrap();
    for flow in 0..40 {
        // Some are too short for a file, some have other first bytes, some repeat.
        let (size, is_syn) = ([50, 1_000, 1 << 40][flow as usize % 3], flow % 2 == 0);
        let bytes = data(flow / 2, size, &[7; 50], is_syn);
        stray.send_to(&bytes, address).unwrap();
    }
    let sent = send(&path, address, quick()).unwrap();
    let received = receiving.join().unwrap().unwrap();
    assert_eq!((sent.bytes, received.bytes), (200_000, 200_000));
    assert_eq!(std::fs::read(place.path("out")).unwrap(), std::fs::read(&path).unwrap());
}

#[test]
fn strays__do_not_prolong_the_wait() {
    let place = Place::new();
    let (address, receiving) = place.receive("out", quick());
    let stray = UdpSocket::bind("127.0.0.1:0").unwrap();
    let start = Instant::now();
    while !receiving.is_finished() && start.elapsed() < Time::from_secs(9) {
        stray.send_to(&data(1, 1 << 30, &[7; 50], true), address).unwrap();
        std::thread::sleep(Time::from_millis(200));
    }
    assert!(start.elapsed() < Time::from_secs(8), "it waits for 4 s and a stall of 2 s at most");
    assert!(matches!(receiving.join().unwrap(), Err(HostError::NoSender { .. })));
}

/// Forged answers, as a spoofer sends them that has guessed both ports: it does not know the
/// random number of the transfer.
#[test]
fn forged_answers__convince_nobody() {
    let place = Place::new();
    let path = place.file("in", 10_000);
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = receiver.local_addr().unwrap();
    let forging = std::thread::spawn(move || {
        let mut buffer = [0; 2_000];
        let (_, sender) = receiver.recv_from(&mut buffer).unwrap();
        for flow in 0..200u32 {
            // A response whose request's id is guessed: "stored".
            let mut answer = [0; 28 + 72];
            (answer[0], answer[1]) = (0xa2, 2);
            answer[20..24].copy_from_slice(&flow.to_be_bytes());
            answer[28..36].copy_from_slice(b"pnctlV3\0");
            receiver.send_to(&data(flow, 100, &answer, true), sender).unwrap();
            // The former formats, too.
            answer[..8].copy_from_slice(b"pnctlV2\0");
            receiver.send_to(&data(500 + flow, 56, &answer[..56], true), sender).unwrap();
            receiver.send_to(&data(1_000 + flow, 8, b"pnctlV1\0", true), sender).unwrap();
        }
        receiver
    });
    let link = LinkOptions { silence: Duration::from_millis(500), ..quick() };
    let sent = send(&path, address, link);
    assert!(matches!(sent, Err(HostError::PeerSilent { .. })), "{sent:?}");
    drop(forging.join().unwrap());
}

/// Two receivers with one file name: the first stores its file and the second says that it cannot.
#[test]
fn rivals__each_sender_learns_its_own_outcome() {
    let place = Place::new();
    let (a, b) = (place.file("a", 3_000_000), place.file("b", 3_000_001));
    let slow = || LinkOptions { rate: Rate::from_mbps(200), ..quick() };
    let (to_a, receiving_a) = place.receive("out", slow());
    let (to_b, receiving_b) = place.receive("out", slow());
    let sending_b = std::thread::spawn(move || send(&b, to_b, slow()));
    let sent_a = send(&a, to_a, slow());
    let sent_b = sending_b.join().unwrap();
    let received = [receiving_a.join().unwrap(), receiving_b.join().unwrap()];
    let stored = std::fs::metadata(place.path("out")).unwrap().len();
    for (sent, received, len) in
        [(sent_a, &received[0], 3_000_000), (sent_b, &received[1], 3_000_001)]
    {
        assert_eq!(sent.is_ok(), stored == len, "{sent:?}");
        assert_eq!(received.is_ok(), stored == len, "{received:?}");
        if let Err(error) = sent {
            assert!(error.to_string().contains("did not store the file"), "{error}");
        }
    }
    let name = if stored == 3_000_000 { "a" } else { "b" };
    assert!(std::fs::read(place.path("out")).unwrap() == std::fs::read(place.path(name)).unwrap());
    assert_eq!(place.dir.path().read_dir().unwrap().count(), 3, "a, b and out");
}

/// Two senders at one receiver: one file is stored, and the other sender learns why its own is not.
#[test]
fn two_senders__one_is_stored() {
    let place = Place::new();
    let (a, b) = (place.file("a", 2_000_000), place.file("b", 2_000_000));
    let slow = || LinkOptions { rate: Rate::from_mbps(200), ..quick() };
    let (address, receiving) = place.receive("out", slow());
    let sending = std::thread::spawn(move || send(&b, address, slow()));
    let sent = [send(&a, address, slow()), sending.join().unwrap()];
    let received = receiving.join().unwrap().unwrap();
    let stored = std::fs::read(place.path("out")).unwrap();
    assert_eq!(blake3::hash(&stored).to_hex().to_string(), received.hash.to_string());
    let confirmed: Vec<_> = sent.iter().flatten().collect();
    assert!(confirmed.len() == 1 && confirmed[0].hash == received.hash, "{sent:?}");
}

/// An outage of 1.2 s at the end, longer than any single timeout: both ends agree in the end.
#[test]
fn outage__at_the_end_both_ends_agree() {
    let place = Place::new();
    let path = place.file("in", 1_000_000);
    let link = || LinkOptions { rate: Rate::from_mbps(100), ..quick() };
    let (address, receiving) = place.receive("out", link());
    let relay = Lossy::start(address, Faults::default(), 3);
    let to = relay.address();
    let sending = std::thread::spawn(move || send(&path, to, link()));
    // 700 data packets and their answers take 80 ms; the outage begins before the last ones.
    while relay.forwarded() < 1_300 && !sending.is_finished() {
        std::thread::sleep(Time::from_micros(200));
    }
    relay.set_outage(true);
    std::thread::sleep(Time::from_millis(1_200));
    relay.set_outage(false);
    let (sent, received) = (sending.join().unwrap(), receiving.join().unwrap());
    assert!(sent.is_ok() && received.is_ok(), "{sent:?} {received:?}");
}

/// A receiver that is gone after the last byte: the sender does not claim to know the outcome.
#[test]
fn outage__without_an_answer_the_outcome_is_unknown() {
    let place = Place::new();
    let path = place.file("in", 100);
    let receiver = Endpoint::bind("127.0.0.1:0".parse().unwrap(), EndpointOptions::default());
    let receiver = receiver.unwrap();
    let address = receiver.local_addr();
    let listener = receiver.listen();
    // Accepts the offer and takes the file, then says nothing.
    let dying = std::thread::spawn(move || {
        let mut offer = listener.accept().unwrap();
        let bytes = offer.read_to_end().unwrap();
        let mut accepted = [0; 72];
        accepted[..8].copy_from_slice(b"pnctlV3\x01");
        accepted[8..24].copy_from_slice(&bytes[16..32]);
        offer.respond(accepted).unwrap().wait();
        listener.accept().unwrap().read_to_end().unwrap();
        drop(receiver);
    });
    let link = LinkOptions { silence: Duration::from_millis(400), ..quick() };
    let sent = send(&path, address, link);
    assert!(matches!(sent, Err(HostError::Unconfirmed { .. })), "{sent:?}");
    dying.join().unwrap();
}

#[test]
fn errors__of_one_datagram_end_nothing() {
    let place = Place::new();
    let path = place.file("in", 1_000);
    // The kernel refuses to send to a broadcast address: EACCES.
    let link = LinkOptions { silence: Duration::from_millis(300), ..quick() };
    let sent = send(&path, "255.255.255.255:9".parse().unwrap(), link);
    let message = sent.unwrap_err().to_string();
    assert!(message.contains("ermission denied"), "{message}");
}

#[test]
fn mtu__larger_than_the_path_s_is_fragmented() {
    let place = Place::new();
    let path = place.file("in", 500_000);
    let jumbo = || LinkOptions { mtu: Bytes::new(65_000), ..quick() };
    let (address, receiving) = place.receive("out", jumbo());
    let sent = send(&path, address, jumbo());
    let received = receiving.join().unwrap();
    assert!(sent.is_ok() && received.is_ok(), "{sent:?} {received:?}");
}

#[test]
fn small_file__needs_no_time_wait() {
    let place = Place::new();
    let path = place.file("in", 1_000);
    let mut times: Vec<Time> = (0..5)
        .map(|n| {
            let (address, receiving) = place.receive(&format!("out-{n}"), quick());
            let start = Instant::now();
            send(&path, address, quick()).unwrap();
            let time = start.elapsed();
            receiving.join().unwrap().unwrap();
            time
        })
        .collect();
    times.sort();
    // A foreground time-wait would add 50 ms to each.
    assert!(times[2] < Time::from_millis(50), "{times:?}");
}
