//! One packet of every kind that each transport sends, as bytes.

use punctual_core::{Bytes, Class, Content, ExtBlock, FlowId, Header, HostId, Instant, Packet};
use punctual_core::{Duration, PacketFlags, Rate};
use punctual_transports::d3::{D3Header, Grant, Grants, RateBlock};
use punctual_transports::ndp::{NdpHeader, flags, kind};
use punctual_transports::pdq::{NOBODY, PdqHeader};
use punctual_wire::{AnyCodec, RecentNumbers, WireName, emit_any};

pub(crate) const MTU: Bytes = Bytes::new(1500);
pub(crate) const NAME: WireName = WireName { flow: 0x0102_0304, incarnation: 0xbeef };
/// A reader's recent values that are near those of the samples.
pub(crate) const NEAR: RecentNumbers =
    RecentNumbers { seq: 5_000, cumulative: 5_000, now: Instant::from_picos(1 << 40) };

pub(crate) struct Sample {
    pub(crate) transport: &'static str,
    pub(crate) packet: Packet,
    pub(crate) block: Option<ExtBlock>,
    pub(crate) datagram: Vec<u8>,
}

impl Sample {
    fn new(transport: &'static str, packet: Packet, block: Option<ExtBlock>) -> Sample {
        let codec = AnyCodec::of(transport, MTU);
        let mut datagram = Vec::new();
        let content = Content::Ack { below: 7_000, named: Some(8_000) };
        emit_any(codec.as_ref(), NAME, &packet, block.as_ref(), content, &mut datagram);
        Sample { transport, packet, block, datagram }
    }
}

fn packet(header: Header, path: u16, payload: u16, bits: PacketFlags) -> Packet {
    let mut packet = Packet::new(FlowId(3), HostId(1), header);
    packet.flags = bits;
    packet.path = u32::from(path);
    packet.payload_bytes = payload;
    packet.class = if payload > 0 { Class::DATA } else { Class::CONTROL };
    packet
}

pub(crate) fn ndp(of: u8) -> Packet {
    let is_data = of == kind::DATA;
    let header = NdpHeader {
        seq: 4_990,
        cumulative: if is_data { 3 << 32 } else { 4_980 },
        sent_at: (1 << 39) + (77 << 14),
        pull: if is_data { 0xbeef } else { 0xffff_fff0 },
        path: 0x0205,
        kind: of,
        flags: if is_data { flags::SYN | 5 << flags::CLASS_SHIFT } else { flags::PULL },
    };
    let (payload, bits) = match is_data {
        true => (1_436, PacketFlags::TRIMMABLE),
        false => (0, PacketFlags::TO_SENDER),
    };
    packet(Header::new(header), header.path, payload, bits)
}

pub(crate) fn grants(mbps: &[u64]) -> Grants {
    let mut grants = Grants::default();
    for &rate in mbps {
        grants.push(if rate == 0 { Grant::Base } else { Grant::Rate(Rate::from_mbps(rate)) });
    }
    grants
}

/// D3's rate request with data, at 10 Gb/s: one-byte rates are multiples of 40 Mb/s.
pub(crate) fn request() -> RateBlock {
    RateBlock {
        desired: Rate::from_mbps(400),
        desired_before: Rate::from_mbps(360),
        index: 2,
        scale: 5,
        important: true,
        granted: grants(&[1_200, 0]),
        granted_before: grants(&[10_200, 40, 0, 80]),
        ..RateBlock::default()
    }
}

pub(crate) fn d3(bits: u8, payload: u16) -> Packet {
    let header = D3Header {
        seq: 5_840,
        ack: 5_000,
        timestamp: (1 << 40) - (5 << 14),
        path: 9,
        request: 0x0708,
        flags: bits,
        reserved: 0,
    };
    let is_ack = bits & D3Header::ACK != 0;
    let to = if is_ack { PacketFlags::TO_SENDER } else { PacketFlags::empty() };
    packet(Header::new(header), 9, payload, to)
}

pub(crate) fn pdq(bits: u8, payload: u16) -> Packet {
    let is_ack = bits & PdqHeader::ACK != 0;
    let header = PdqHeader {
        seq: 71,
        time: 0xf000_0001,
        rate: 1_000_000,
        pauser: if is_ack { NOBODY } else { 17 },
        deadline: 2_000,
        expected: 90_001,
        rtt: 150_000,
        route: PdqHeader::route(3, 0),
        flags: bits,
        age: 4,
    };
    let to = if is_ack { PacketFlags::TO_SENDER } else { PacketFlags::empty() };
    packet(Header::new(header), 3, payload, to)
}

/// Every kind of packet of every transport that has a codec.
pub(crate) fn all() -> Vec<Sample> {
    let mut samples = Vec::new();
    for of in [kind::DATA, kind::ACK, kind::NACK, kind::PULL] {
        samples.push(Sample::new("ndp", ndp(of), None));
    }
    let answer = RateBlock { scale: 5, feedback: grants(&[1_200, 0, 40]), ..RateBlock::default() };
    for transport in ["d3", "rcpdc"] {
        for (bits, payload, block) in [
            (D3Header::SYN | D3Header::REQUEST, 0, Some(request())),
            (D3Header::REQUEST, 1_398, Some(request())),
            (0, 1_460, None),
            (D3Header::END, 20, None),
            (D3Header::ACK | D3Header::DATA, 0, None),
            (D3Header::ACK | D3Header::FEEDBACK, 0, Some(answer)),
            (
                D3Header::FIN | D3Header::REQUEST | D3Header::END,
                0,
                Some(RateBlock { granted: Grants::default(), ..request() }),
            ),
        ] {
            let block = block.map(|block| block.to_block());
            samples.push(Sample::new(transport, d3(bits, payload), block));
        }
    }
    for (bits, payload) in [
        (PdqHeader::SYN, 0),
        (PdqHeader::DATA, 1_440),
        (PdqHeader::DATA | PdqHeader::END | PdqHeader::AGAIN | PdqHeader::HELD, 333),
        (PdqHeader::TERM, 0),
        (PdqHeader::ACK | PdqHeader::DATA, 0),
    ] {
        samples.push(Sample::new("pdq", pdq(bits, payload), None));
    }
    samples
}

/// A packet of a transport without a codec.
pub(crate) fn generic() -> Sample {
    let mut packet = packet(Header::default(), 4, 0, PacketFlags::TO_SENDER);
    packet.wire_bytes = 40;
    Sample::new("tcp", packet, None)
}

/// The moment of a sample in a capture.
pub(crate) fn moment(number: usize) -> Duration {
    Duration::from_nanos(1_000_000_001 * (number as u64 + 1))
}
