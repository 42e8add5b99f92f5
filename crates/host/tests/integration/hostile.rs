//! Malicious peers: every datagram is well formed with a valid checksum, but its contents are
//! arbitrary.

use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, Class, Duration, FlowEvent, FlowId, Header, HostId, Instant, Packet, PacketFlags,
    RangeSet, Rate,
};
use punctual_host::{Application, Driver, DriverOptions, Offer};
use punctual_transports::AnyTransport;
use punctual_transports::d3::{D3Config, D3Header};
use punctual_transports::ndp::{NdpConfig, NdpHeader, flags, kind};
use punctual_transports::pdq::PdqConfig;
use punctual_wire::{
    Codec as _, D3Codec, Datagram, ENVELOPE_BYTES, Envelope, FlowOpening, Kind, NDP_WIRE_BYTES,
    NdpCodec, PdqCodec, WireName, emit, emit_opening,
};
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

fn driver(seed: u64) -> (Driver<AnyTransport>, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("its address");
    let options = DriverOptions {
        rate: Rate::from_gbps(10),
        mtu: Bytes::new(1_500),
        has_headroom: false,
        framing: Bytes::new(38),
        time_wait: Duration::from_millis(5),
        stall_max: Duration::from_secs(5),
        flows_max: FLOWS_MAX,
        seed,
    };
    (Driver::new(&transports(), socket, options).expect("a driver"), address)
}

/// NDP, and the transports that ports grant their rates.
fn transports() -> [AnyTransport; 3] {
    [
        AnyTransport::Ndp(NdpConfig::default()),
        AnyTransport::D3(D3Config::for_sockets()),
        AnyTransport::Pdq(PdqConfig::for_sockets()),
    ]
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

/// A datagram of D3 or PDQ with valid checks: any fields, small numbers likely.
fn granted(stream: &mut Stream, to_sender: bool) -> (u32, Vec<u8>) {
    let flow = stream.below(12) as u32;
    let (transport, sizes) = match stream.coin() {
        true => (D3Codec::TRANSPORT, [16, 40]),
        false => (PdqCodec::TRANSPORT, [32, 32]),
    };
    let mut fields = vec![0; sizes[stream.below(2) as usize]];
    for word in fields.chunks_mut(4) {
        let value = number(stream, u64::from(u32::MAX)) as u32;
        word.copy_from_slice(&value.to_be_bytes());
    }
    // Bytes that are several fields: any of their bits.
    let bytes = if transport == D3Codec::TRANSPORT { [14, 16, 18] } else { [16, 18, 17] };
    for at in bytes {
        if let (true, Some(byte)) = (stream.coin(), fields.get_mut(at)) {
            *byte = stream.bits() as u8;
        }
    }
    let is_syn = !to_sender && stream.coin();
    let (kind, payload) = match (to_sender, is_syn) {
        (true, _) => (Kind::ACK, Vec::new()),
        (false, true) => {
            let flow_bytes = 5_000 * u64::from(flow + 1);
            let segment_bytes = (transport == PdqCodec::TRANSPORT).then_some(1_500 - 80);
            let opening = FlowOpening { flow_bytes, segment_bytes };
            (Kind::PROBE, opening.to_bytes().to_vec())
        }
        (false, false) => {
            let sizes = [0, 1, 127, 200, 1_420];
            let len = sizes[stream.below(sizes.len() as u64) as usize];
            (if len > 0 { Kind::DATA } else { Kind::PROBE }, vec![0xa5; len])
        }
    };
    if transport == PdqCodec::TRANSPORT {
        // Most packets say whether they carry data as their kind does.
        let data = 1 << 4;
        fields[16] = fields[16] & !data | if kind == Kind::DATA { data } else { 0 };
        fields[19] = 0;
    }
    let envelope = Envelope {
        transport,
        kind,
        class: Class::DATA,
        flags: if to_sender { PacketFlags::TO_SENDER } else { PacketFlags::empty() },
        is_syn,
        keyed: None,
        name: WireName { flow, incarnation: 1 },
        path: stream.below(20) as u16,
        payload_bytes: payload.len() as u16,
    };
    let mut bytes = vec![0; ENVELOPE_BYTES];
    bytes.extend_from_slice(&fields);
    bytes.extend_from_slice(&payload);
    envelope.seal(&mut bytes, fields.len());
    (flow, bytes)
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

/// The datagram with another flow number and the check for it.
fn renamed(bytes: Vec<u8>, flow: u32) -> Vec<u8> {
    let datagram = Datagram::parse(&bytes).expect("our own");
    let (mut envelope, fields) = (datagram.envelope, datagram.fields.len());
    envelope.name.flow = flow;
    let mut bytes = bytes.clone();
    envelope.seal(&mut bytes, fields);
    bytes
}

fn turn(driver: &mut Driver<AnyTransport>, app: &mut Watchful) {
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
            let bytes = match seed % 2 {
                0 => {
                    let (flow, packet) = anything(&mut stream, false);
                    bytes_of(flow, &packet)
                }
                _ => granted(&mut stream, false).1,
            };
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
        let transport = (seed / 4 % 3) as u8;
        let deadline = Some(Instant::ZERO + Duration::from_millis(500)).filter(|_| seed % 2 == 1);
        let flow = sender
            .open_over(transport, target, Bytes::new(size), deadline, &mut app)
            .expect("a flow");
        assert_eq!(flow, FlowId(0));
        let mut name = None;
        for _ in 0..400 {
            turn(&mut sender, &mut app);
            let mut datagram = [0; 2_000];
            while let Ok((len, _)) = attacker.recv_from(&mut datagram) {
                name = Datagram::parse(&datagram[..len]).ok().map(|d| d.envelope.name.flow);
            }
            let Some(name) = name else { continue };
            let bytes = match transport {
                0 => bytes_of(name, &anything(&mut stream, true).1),
                _ => renamed(granted(&mut stream, true).1, name),
            };
            let _ = attacker.send_to(&bytes, address);
        }
        understood += sender.traffic().received;
    }
    assert!(understood > 400, "nearly nothing was sound: {understood}");
}

/// A file from an honest peer arrives, over each transport, while another peer floods the receiver
/// with garbage of all of them.
#[test]
fn an_honest_peer_gets_through() {
    for transport in 0..transports().len() as u8 {
        get_through(transport);
    }
}

fn get_through(transport: u8) {
    let mut stream = Stream::named(u64::from(transport) + 1, "nonsense", 0);
    let ((mut sender, _), (mut receiver, address)) = (driver(1), driver(2));
    let size = 200_000;
    let mut sending = Watchful::default();
    sending.sent.insert(FlowId(0), size);
    let mut receiving = Watchful::default();
    let flow =
        sender.open_over(transport, address, Bytes::new(size), None, &mut sending).expect("a flow");
    // Its first packet arrives first, so that its flow is open before others.
    for _ in 0..50 {
        turn(&mut sender, &mut sending);
        turn(&mut receiver, &mut receiving);
    }
    let attacker = peer();
    // D3's first grants, and timeouts after loss, take milliseconds.
    let begin = std::time::Instant::now();
    while !sending.completed.contains(&flow) && begin.elapsed().as_secs() < 20 {
        let bytes = match stream.coin() {
            true => {
                let (name, packet) = anything(&mut stream, false);
                bytes_of(name, &packet)
            }
            false => granted(&mut stream, false).1,
        };
        let _ = attacker.send_to(&bytes, address);
        turn(&mut sender, &mut sending);
        turn(&mut receiver, &mut receiving);
        while attacker.recv_from(&mut [0; 2_000]).is_ok() {}
    }
    assert_eq!(sending.completed, [flow], "transport {transport}: {:?}", receiver.traffic());
    let honest = receiving.offered.iter().find(|(_, offered)| **offered == size);
    let (honest, _) = honest.expect("the file was offered");
    assert_eq!(receiving.written[honest].total(), size);
}

/// A flow in tiny packets: the record of which have arrived would take more memory than their data.
/// Honest segments have 128 bytes or more, but for the last.
#[test]
fn tiny_packets_are_refused() {
    let (mut receiver, address) = driver(1);
    let mut app = Watchful::default();
    let attacker = peer();
    let mut sent = 0;
    let mut send = |bytes: &[u8]| {
        sent += 1;
        attacker.send_to(bytes, address).expect("a datagram");
    };
    let name = |flow| WireName { flow, incarnation: 1 };
    let fill = |into: &mut [u8]| {
        into.fill(1);
        Ok::<(), Infallible>(())
    };
    // NDP: every second packet of flows with segments of 1 and 127 bytes.
    for (flow, segment) in [(1, 1), (2, 127)] {
        for seq in (0..20).step_by(2) {
            let header = NdpHeader {
                seq,
                cumulative: 100_000,
                sent_at: 0,
                pull: 0,
                path: 0,
                kind: kind::DATA,
                flags: flags::SYN,
            };
            let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
            packet.payload_bytes = segment;
            send(&bytes_of(flow, &packet));
        }
    }
    let mut bytes = Vec::new();
    // D3 has segments of any offset.
    let header = D3Header { flags: D3Header::SYN, ..D3Header::default() };
    let packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
    let opening = FlowOpening { flow_bytes: 100_000, segment_bytes: None };
    emit_opening(&D3Codec::default(), name(3), &packet, None, &opening, &mut bytes);
    send(&bytes);
    let opened = 1;
    for seq in (0..20).step_by(2) {
        let header = D3Header { seq, ..D3Header::default() };
        let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
        packet.payload_bytes = 1;
        emit(&D3Codec::default(), name(3), &packet, None, &mut bytes, fill).expect("nothing fails");
        send(&bytes);
    }
    for _ in 0..50 {
        turn(&mut receiver, &mut app);
    }
    let traffic = receiver.traffic();
    assert_eq!(traffic.dropped.get("segment_small"), Some(&(sent - opened)), "{traffic:?}");
    assert_eq!(app.offered.len() as u64, opened, "only the flow without data was offered");
    assert!(app.written.is_empty());
}
