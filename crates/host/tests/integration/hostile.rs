//! Malicious peers: every datagram is well formed with a valid checksum, but its contents are
//! arbitrary.

use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, Class, Duration, FlowEvent, FlowId, Header, HostId, Instant, Packet, PacketFlags,
    RangeSet, Rate,
};
use punctual_host::{Application, Driver, DriverOptions, Offer};
use punctual_transports::ndp::{NdpConfig, NdpHeader, flags, kind};
use punctual_wire::{Datagram, NDP_WIRE_BYTES, NdpCodec, WireName, emit};
use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, UdpSocket};

const FLOWS_MAX: usize = 8;

/// Checks the driver: writes are offered and new, reads are within the flow.
#[derive(Default)]
struct Watchful {
    offered: HashMap<FlowId, u64>,
    written: HashMap<FlowId, RangeSet>,
    /// Sizes of the flows that this host sends.
    sent: HashMap<FlowId, u64>,
    completed: Vec<FlowId>,
}

impl Application for Watchful {
    fn accept(&mut self, offer: &Offer) -> bool {
        self.offered.insert(offer.flow, offer.size.get());
        true
    }

    fn read(&mut self, flow: FlowId, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let end = offset + into.len() as u64;
        assert!(end <= self.sent[&flow], "{end} is beyond the {} bytes of flow", self.sent[&flow]);
        for (byte, at) in into.iter_mut().zip(offset..) {
            *byte = at as u8;
        }
        Ok(())
    }

    fn write(&mut self, flow: FlowId, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset + data.len() as u64;
        assert!(end <= self.offered[&flow], "{end} of {}", self.offered[&flow]);
        let mut fresh = 0;
        let written = self.written.entry(flow).or_default();
        written.insert(offset, end, |from, to| fresh += to - from);
        assert_eq!(fresh, data.len() as u64, "bytes from {offset} were written twice");
        Ok(())
    }

    fn handle_event(&mut self, flow: FlowId, _now: Instant, event: FlowEvent) {
        if event == FlowEvent::Completed || event == FlowEvent::Finished {
            self.completed.push(flow);
        }
    }
}

fn driver(seed: u64) -> (Driver<NdpConfig, NdpCodec>, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("its address");
    let options = DriverOptions {
        rate: Rate::from_gbps(10),
        mtu: Bytes::new(1_500),
        framing: Bytes::new(38),
        time_wait: Duration::from_millis(5),
        stall_max: Duration::from_secs(5),
        flows_max: FLOWS_MAX,
        seed,
    };
    (Driver::new(NdpConfig::default(), NdpCodec, socket, options).expect("a driver"), address)
}

fn peer() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_nonblocking(true).expect("non-blocking");
    socket
}

/// Small numbers are likely, so that datagrams hit the same flows and ranges. The largest numbers
/// are likely too, to find overflows.
fn number(stream: &mut Stream, most: u64) -> u64 {
    match stream.below(8) {
        0 => most - stream.below(3).min(most),
        1 => stream.bits() % most.max(1),
        2 => 0,
        _ => stream.below(12).min(most),
    }
}

/// A datagram that parses, with random contents.
fn anything(stream: &mut Stream, to_sender: bool) -> (u32, Packet) {
    let flow = stream.below(12);
    if !to_sender && stream.coin() {
        return (flow as u32, plausible(stream, 5_000 * (flow + 1), 999));
    }
    let sizes = [0, 1, 999, 1_436, 5_000, 1 << 40, u64::MAX - 1, u64::MAX];
    let size = sizes[stream.below(sizes.len() as u64) as usize];
    let kind = match to_sender {
        // A bounced header is a data packet on its way back.
        true => stream.below(4) as u8,
        false => kind::DATA,
    };
    let lens = [0, 1, 7, 999, 1_436];
    let len = lens[stream.below(lens.len() as u64) as usize];
    let header = NdpHeader {
        seq: number(stream, u64::from(u32::MAX)),
        cumulative: if kind == kind::DATA { size } else { number(stream, u64::MAX) },
        sent_at: stream.bits() >> 14 << 14,
        pull: number(stream, u64::from(u32::MAX)) as u32,
        path: stream.below(1 << 16) as u16,
        kind,
        flags: stream.below(256) as u8,
    };
    let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
    packet.class = Class(stream.below(8) as u8);
    packet.flags = PacketFlags::empty();
    if to_sender {
        packet.flags.set(PacketFlags::TO_SENDER);
    } else {
        packet.flags.set(PacketFlags::TRIMMABLE);
    }
    let is_data = kind == kind::DATA;
    if is_data && (to_sender || stream.chance(0.2)) {
        packet.flags.set(PacketFlags::TRIMMED);
    }
    if to_sender && is_data {
        packet.flags.set(PacketFlags::BOUNCED);
    }
    packet.payload_bytes = if is_data { len as u16 } else { 0 };
    packet.wire_bytes = NDP_WIRE_BYTES as u16 + packet.payload_bytes;
    (flow as u32, packet)
}

/// A random packet of an honest sender with `size` bytes; packets may repeat.
fn plausible(stream: &mut Stream, size: u64, segment: u64) -> Packet {
    let count = size.div_ceil(segment);
    let seq = stream.below(count);
    let is_last = seq + 1 == count;
    let header = NdpHeader {
        seq,
        cumulative: size,
        sent_at: 0,
        pull: 0,
        path: 0,
        kind: kind::DATA,
        flags: flags::SYN | if is_last { flags::LAST } else { 0 },
    };
    let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
    packet.payload_bytes = (size - seq * segment).min(segment) as u16;
    packet.wire_bytes = NDP_WIRE_BYTES as u16 + packet.payload_bytes;
    packet.flags = PacketFlags::TRIMMABLE;
    packet
}

fn bytes_of(flow: u32, packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    let fill = |into: &mut [u8]| {
        into.fill(0xa5);
        Ok::<(), Infallible>(())
    };
    let name = WireName { flow, incarnation: 1 };
    emit(&NdpCodec, name, packet, None, &mut bytes, fill).expect("nothing fails");
    bytes
}

fn turn(driver: &mut Driver<NdpConfig, NdpCodec>, app: &mut Watchful) {
    let until = driver.now() + Duration::from_micros(20);
    driver.turn(app, until).expect("a peer cannot stop the driver");
}

/// Inconsistent data from many flows at once: any sizes, lengths and offsets. Nothing panics, every
/// datagram is counted, flows stay bounded, and honest peers get through.
#[test]
fn a_receiver_survives_any_sender() {
    let mut understood = 0;
    for seed in 0..20 {
        let mut stream = Stream::named(seed, "hostile sender", 0);
        let (mut receiver, address) = driver(seed);
        let mut app = Watchful::default();
        let attacker = peer();
        let mut count = 0;
        for _ in 0..400 {
            let (flow, packet) = anything(&mut stream, false);
            let bytes = bytes_of(flow, &packet);
            count += u64::from(attacker.send_to(&bytes, address).is_ok());
            turn(&mut receiver, &mut app);
            while attacker.recv_from(&mut [0; 2_000]).is_ok() {}
        }
        for _ in 0..100 {
            turn(&mut receiver, &mut app);
        }
        let traffic = receiver.traffic();
        // Both count packets that were not sent.
        let not_sent = ["interface_full", "answer_limit"];
        let is_incoming = |(name, _): &(&&str, &u64)| !not_sent.contains(*name);
        let dropped: u64 = traffic.dropped.iter().filter(is_incoming).map(|(_, count)| count).sum();
        assert_eq!(traffic.received + dropped, count, "{traffic:?}");
        let open = app.offered.keys().filter(|flow| receiver.is_open(**flow)).count();
        assert!(open <= FLOWS_MAX, "{open} flows");
        // Each packet causes at most an acknowledgement and a pull.
        assert!(traffic.sent <= 2 * traffic.received, "{traffic:?}");
        understood += traffic.received;
    }
    assert!(understood > 400, "nearly nothing was sound: {understood}");
}

/// ACKs, NACKs, pulls and bounced headers for packets that were never sent, or were sent long
/// ago. Nothing panics, and the sender reads nothing beyond its file.
#[test]
fn a_sender_survives_any_receiver() {
    let mut understood = 0;
    for seed in 0..20 {
        let mut stream = Stream::named(seed, "hostile receiver", 0);
        let (mut sender, address) = driver(seed);
        let attacker = peer();
        let target = attacker.local_addr().expect("its address");
        let mut app = Watchful::default();
        let size = [1, 1_436, 100_000, 1 << 40][seed as usize % 4];
        // The id that the flow will have. The driver reads its bytes only after it is open.
        app.sent.insert(FlowId(0), size);
        let flow = sender.open(target, Bytes::new(size), None, &mut app).expect("a flow");
        assert_eq!(flow, FlowId(0));
        let mut name = None;
        for _ in 0..400 {
            turn(&mut sender, &mut app);
            let mut datagram = [0; 2_000];
            while let Ok((len, _)) = attacker.recv_from(&mut datagram) {
                name = Datagram::parse(&datagram[..len]).ok().map(|d| d.envelope.name.flow);
            }
            let Some(name) = name else { continue };
            let (_, packet) = anything(&mut stream, true);
            let _ = attacker.send_to(&bytes_of(name, &packet), address);
        }
        understood += sender.traffic().received;
    }
    assert!(understood > 400, "nearly nothing was sound: {understood}");
}

/// A file from an honest peer arrives while another peer floods the receiver with garbage.
#[test]
fn an_honest_peer_gets_through() {
    let mut stream = Stream::named(1, "nonsense", 0);
    let ((mut sender, _), (mut receiver, address)) = (driver(1), driver(2));
    let size = 200_000;
    let mut sending = Watchful::default();
    sending.sent.insert(FlowId(0), size);
    let mut receiving = Watchful::default();
    let flow = sender.open(address, Bytes::new(size), None, &mut sending).expect("a flow");
    // Its first packet arrives first, so that its flow is open before others.
    for _ in 0..50 {
        turn(&mut sender, &mut sending);
        turn(&mut receiver, &mut receiving);
    }
    let attacker = peer();
    for _ in 0..5_000 {
        if sending.completed.contains(&flow) {
            break;
        }
        let (name, packet) = anything(&mut stream, false);
        let _ = attacker.send_to(&bytes_of(name, &packet), address);
        turn(&mut sender, &mut sending);
        turn(&mut receiver, &mut receiving);
        while attacker.recv_from(&mut [0; 2_000]).is_ok() {}
    }
    assert_eq!(sending.completed, [flow]);
    let honest = receiving.offered.iter().find(|(_, offered)| **offered == size);
    let (honest, _) = honest.expect("the file was offered");
    assert_eq!(receiving.written[honest].total(), size);
}
