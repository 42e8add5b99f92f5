//! Parsing inverts emitting, and no input makes the parser panic.

use proptest::prelude::*;
use punctual_core::{Bytes, Class, FlowId, Header, HostId, Instant, Packet, PacketFlags};
use punctual_transports::ndp::{NdpHeader, flags, kind};
use punctual_wire::{
    AnyCodec, Codec, Datagram, Envelope, Kind, NDP_HEADER_BYTES, NDP_WIRE_BYTES, NdpCodec,
    RecentNumbers, WireError, WireName,
};
use punctual_wire::{emit, parse, set_flags};
use std::convert::Infallible;

fn emitted(flow: u32, packet: &Packet, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let fill = |into: &mut [u8]| {
        into.copy_from_slice(data);
        Ok::<(), Infallible>(())
    };
    let name = WireName { flow, incarnation: 0x5eed };
    emit(&NdpCodec, name, packet, None, &mut bytes, fill).unwrap();
    bytes
}

fn parsed(bytes: &[u8], near: &RecentNumbers) -> Result<(u32, Packet, Vec<u8>), WireError> {
    let datagram = Datagram::parse(bytes)?;
    let packet = parse(&NdpCodec, &datagram, near, FlowId(0), HostId(0))?;
    assert_eq!(datagram.envelope.name.incarnation, 0x5eed);
    Ok((datagram.envelope.name.flow, packet, datagram.payload.to_vec()))
}

/// The outcome of parsing a datagram of any transport.
fn any_parsed(bytes: &[u8]) -> &'static str {
    let outcome = Datagram::parse(bytes).and_then(|datagram| {
        let number = datagram.envelope.transport;
        let codec = AnyCodec::numbered(number, Bytes::new(1500));
        let codec = codec.ok_or(WireError::Transport(number))?;
        codec.parse(&datagram, &RecentNumbers::default(), FlowId(0), HostId(0))
    });
    match outcome {
        Ok((packet, _)) if packet.is_trimmed() => "trimmed",
        Ok(_) => "sound",
        Err(error) => error.name(),
    }
}

fn data_packet(seq: u64, len: u16, size: u64) -> Packet {
    let last = seq * u64::from(len) + u64::from(len) == size;
    let header = NdpHeader {
        seq,
        cumulative: size,
        sent_at: 0,
        pull: 0xfe,
        path: 5,
        kind: kind::DATA,
        flags: if last { flags::LAST } else { 0 },
    };
    let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
    packet.payload_bytes = len;
    packet.wire_bytes = len + NDP_WIRE_BYTES as u16;
    packet.path = 5;
    packet.flags = PacketFlags::TRIMMABLE;
    packet
}

/// Any NDP packet that a correct endpoint can send, with its data and its reader's recent values.
fn any_packet() -> impl Strategy<Value = (Packet, Vec<u8>, RecentNumbers)> {
    let near = |value: u64, distance: i64| value.saturating_add_signed(distance);
    let distance = -(1i64 << 31) + 1..1i64 << 31;
    (
        (0u8..4, any::<u64>(), 1u64..1 << 50, any::<u32>(), any::<u16>(), any::<u8>()),
        (prop::collection::vec(any::<u8>(), 1..2_000), any::<bool>(), 0u8..8, 0u64..1 << 36),
        (-(1i64 << 23) + 1..1i64 << 23, distance.clone(), distance),
    )
        .prop_map(move |(numbers, (data, last, class, seq), distances)| {
            let (kind, cumulative, time, pull, path, bits) = numbers;
            let len = data.len() as u64;
            let is_data = kind == kind::DATA;
            let mut header = NdpHeader {
                seq,
                cumulative,
                sent_at: time >> 14 << 14,
                pull: if is_data { pull % (1 << 16) } else { pull },
                path,
                kind,
                flags: bits & !flags::LAST,
            };
            if is_data && last {
                header.flags |= flags::LAST;
                header.cumulative = seq * (len + cumulative % 1_000) + len;
            } else if is_data {
                // Sizes have 48 bits on the wire; all set is an endless flow.
                let size = if bits == 0 { u64::MAX } else { cumulative % ((1 << 48) - 1) };
                header.cumulative = size.max(seq * len + len + 1);
            }
            let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
            packet.class = Class(class);
            packet.path = u32::from(path);
            packet.payload_bytes = if is_data { len as u16 } else { 0 };
            packet.wire_bytes = NDP_WIRE_BYTES as u16 + packet.payload_bytes;
            packet.flags = if is_data { PacketFlags::TRIMMABLE } else { PacketFlags::TO_SENDER };
            let expected = RecentNumbers {
                seq: near(seq, distances.0),
                cumulative: near(cumulative, distances.1),
                now: Instant::from_picos(near(header.sent_at, distances.2 << 13)),
            };
            (packet, if is_data { data } else { Vec::new() }, expected)
        })
}

fn facts(packet: &Packet) -> (NdpHeader, u8, Class, u32, u16, u16) {
    let header = NdpHeader::of(packet);
    let bits = packet.flags.bits();
    (header, bits, packet.class, packet.path, packet.wire_bytes, packet.payload_bytes)
}

#[test]
fn sizes__are_those_of_the_simulator() {
    assert_eq!(NDP_HEADER_BYTES, 36);
    let mut control = data_packet(0, 0, 0);
    control.header = Header::new(NdpHeader { kind: kind::PULL, ..NdpHeader::of(&control) });
    control.flags = PacketFlags::TO_SENDER;
    assert_eq!(emitted(1, &control, b"").len() + 28, 64);
    assert_eq!(emitted(1, &data_packet(0, 1436, 1436), &[0; 1436]).len() + 28, 1500);
}

#[test]
fn parse__sequence_numbers_wrap() {
    // NDP numbers packets in 24 bits, and what arrived in 32 bits.
    for wrap in [1 << 24, 1 << 25, 1 << 32, 77 << 32] {
        for seq in [wrap - 2, wrap - 1, wrap, wrap + 1, wrap + 3] {
            let bytes = emitted(7, &data_packet(seq, 1000, u64::MAX), &[9; 1000]);
            let seq_near = |seq| {
                let near = RecentNumbers { seq, ..RecentNumbers::default() };
                NdpHeader::of(&parsed(&bytes, &near).unwrap().1).seq
            };
            assert_eq!([seq_near(wrap - 10), seq_near(wrap + 10)], [seq, seq]);
            assert_eq!(seq_near(0), seq & 0xff_ffff, "the first of a flow that is unknown");
        }
    }
    for wrap in [1u64 << 32, 77 << 32] {
        for cumulative in [wrap - 1, wrap, wrap + 1] {
            let mut ack = data_packet(5, 0, 0);
            let header = NdpHeader { kind: kind::ACK, cumulative, ..NdpHeader::of(&ack) };
            ack.header = Header::new(header);
            ack.flags = PacketFlags::TO_SENDER;
            let bytes = emitted(7, &ack, b"");
            for near in [wrap - 1000, wrap + 1000] {
                let near = RecentNumbers { cumulative: near, ..RecentNumbers::default() };
                assert_eq!(NdpHeader::of(&parsed(&bytes, &near).unwrap().1).cumulative, cumulative);
            }
        }
    }
}

#[test]
fn parse__time_comes_back_whatever_the_clock_of_the_echo() {
    let sent_at = 123_456_789_012_345u64 >> 14 << 14;
    let mut packet = data_packet(0, 10, 100);
    packet.header = Header::new(NdpHeader { sent_at, ..NdpHeader::of(&packet) });
    let elsewhere = RecentNumbers { now: Instant::from_picos(1), ..RecentNumbers::default() };
    let (_, there, _) = parsed(&emitted(7, &packet, &[0; 10]), &elsewhere).unwrap();
    let mut echo = there;
    echo.header = Header::new(NdpHeader { kind: kind::ACK, ..NdpHeader::of(&there) });
    echo.payload_bytes = 0;
    echo.flags = PacketFlags::TO_SENDER;
    let here = RecentNumbers {
        now: Instant::from_picos(sent_at + 50_000_000),
        ..RecentNumbers::default()
    };
    let (_, back, _) = parsed(&emitted(7, &echo, b""), &here).unwrap();
    assert_eq!(NdpHeader::of(&back).sent_at, sent_at);
}

#[test]
fn parse__refuses_contradictions() {
    let refused = |packet: &Packet, data: &[u8]| {
        parsed(&emitted(7, packet, data), &RecentNumbers::default()).unwrap_err().name()
    };
    // Beyond the flow's end.
    assert_eq!(refused(&data_packet(9, 10, 50), &[0; 10]), "contradiction");
    // A last packet that leaves no common size for the others, or is larger than they are.
    for size in [3 * 10 + 1 + 10, 3 * 9 + 10] {
        let mut packet = data_packet(3, 10, size);
        packet.header = Header::new(NdpHeader { flags: flags::LAST, ..NdpHeader::of(&packet) });
        assert_eq!(refused(&packet, &[0; 10]), "contradiction");
    }
    // Data towards the sender that no switch has bounced.
    let mut packet = data_packet(0, 10, 50);
    packet.flags = PacketFlags::TO_SENDER;
    assert_eq!(refused(&packet, &[0; 10]), "contradiction");
    // An acknowledgement with data.
    packet.header = Header::new(NdpHeader { kind: kind::ACK, ..NdpHeader::of(&packet) });
    assert_eq!(refused(&packet, &[0; 10]), "contradiction");
    packet.header = Header::new(NdpHeader { kind: 9, ..NdpHeader::of(&packet) });
    assert_eq!(refused(&packet, &[0; 10]), "kind");
}

#[test]
fn data__counts_the_last_packet_from_the_end() {
    let mut packet = data_packet(3, 7, 3 * 100 + 7);
    packet.header = Header::new(NdpHeader { flags: flags::LAST, ..NdpHeader::of(&packet) });
    assert_eq!(NdpCodec.data(&packet).unwrap().range.offset, 300);
    assert_eq!(NdpCodec.data(&data_packet(2, 100, 307)).unwrap().range.offset, 200);
    // An empty flow is one empty packet.
    assert_eq!(NdpCodec.data(&data_packet(0, 0, 0)).unwrap().range.len, 0);
}

#[test]
fn corpus__does_no_harm() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/datagram");
    let mut outcomes = Vec::new();
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let outcome = any_parsed(&std::fs::read(&path).unwrap());
        outcomes.push((name, outcome));
    }
    outcomes.sort();
    // A file is named after the expected outcome of parsing it, with a number if there are several.
    for (name, outcome) in &outcomes {
        assert_eq!(name.trim_end_matches(|c: char| c == '-' || c.is_ascii_digit()), *outcome);
    }
    assert!(outcomes.len() >= 12, "{outcomes:?}");
}

proptest! {
    #[test]
    fn parse__inverts_emit((packet, data, near) in any_packet(), flow: u32) {
        let (flow_back, back, payload) = parsed(&emitted(flow, &packet, &data), &near).unwrap();
        prop_assert_eq!(flow_back, flow);
        prop_assert_eq!(facts(&back), facts(&packet));
        prop_assert_eq!(payload, data);
    }

    #[test]
    fn parse__a_cut_packet_is_a_trimmed_one((packet, data, near) in any_packet(), cut: prop::sample::Index) {
        prop_assume!(!data.is_empty());
        let bytes = emitted(1, &packet, &data);
        let kept = NDP_HEADER_BYTES + cut.index(data.len());
        let (_, back, payload) = parsed(&bytes[..kept], &near).unwrap();
        prop_assert!(back.is_trimmed() && payload.is_empty());
        prop_assert_eq!(back.wire_bytes, 64);
        prop_assert_eq!(NdpHeader::of(&back), NdpHeader::of(&packet));
        prop_assert_eq!(back.payload_bytes, packet.payload_bytes);
        // A switch that sets the flag gives the same packet.
        let mut switched = bytes.clone();
        let kept = set_flags(&mut switched, packet.flags.with(PacketFlags::TRIMMED)).unwrap();
        let (_, ours, _) = parsed(&switched[..kept], &near).unwrap();
        prop_assert_eq!(facts(&ours), facts(&back));
        // Emitting the trimmed packet gives the same bytes.
        prop_assert_eq!(&emitted(1, &ours, b"")[16..], &switched[16..kept]);
    }

    #[test]
    fn parse__finds_up_to_three_wrong_bits(
        (packet, data, near) in any_packet(),
        flips in prop::collection::vec(any::<prop::sample::Index>(), 1..=3),
    ) {
        let mut bytes = emitted(1, &packet, &data);
        let good = bytes.clone();
        for flip in flips {
            let bit = flip.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        if bytes != good {
            prop_assert!(parsed(&bytes, &near).is_err());
        }
    }

    #[test]
    fn parse__never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), now: u64) {
        let _ = parsed(&bytes, &RecentNumbers { now: Instant::from_picos(now), ..RecentNumbers::default() });
    }

    /// Random fields after a valid envelope reach the codec.
    #[test]
    fn parse_fields__never_panics(
        fields: [u8; 16], bits: u8, kind: u8, len in 0u16..100,
        seq: u64, cumulative: u64, now: u64,
    ) {
        let near = RecentNumbers { seq, cumulative, now: Instant::from_picos(now) };
        let mut packet = data_packet(0, len, u64::from(len));
        packet.flags = PacketFlags::from_bits(bits);
        let envelope = Envelope {
            transport: 1,
            kind: Kind::new(kind),
            class: packet.class,
            flags: packet.flags,
            is_syn: kind & 16 != 0,
            keyed: None,
            name: WireName::default(),
            path: 0,
            payload_bytes: len,
        };
        if NdpCodec.parse_fields(&envelope, &fields, &near, &mut packet).is_ok() {
            if let Some(data) = NdpCodec.data(&packet) {
                prop_assert!(data.range.offset + data.range.len <= data.flow_bytes.unwrap());
            }
            let mut near = near;
            NdpCodec.observe(&packet, &mut near);
        }
    }
}

/// Rewrites the corpus: `cargo test -p punctual-wire --test integration bytes:: -- --ignored`.
#[test]
#[ignore = "writes files"]
fn corpus__write() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/datagram");
    let put = |name: &str, bytes: &[u8]| {
        std::fs::write(format!("{corpus}/{name}.bin"), bytes).unwrap();
    };
    let good = emitted(0x0102_0304, &data_packet(2, 20, 100), b"twenty bytes of data");
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    put("sound-1", &good);
    let mut ack = data_packet(2, 0, 0);
    ack.header = Header::new(NdpHeader { kind: kind::ACK, ..NdpHeader::of(&ack) });
    ack.flags = PacketFlags::TO_SENDER;
    put("sound-2", &emitted(1, &ack, b""));
    for (number, sample) in crate::samples::all().iter().enumerate() {
        put(&format!("sound-{}", number + 3), &sample.datagram);
    }
    put("trimmed-1", &good[..36]);
    put("trimmed-2", &good[..50]);
    put("short-1", b"");
    put("short-2", &good[..35]);
    put("magic", b"GET / HTTP/1.1\r\nHost: example\r\n\r\n");
    put("version", &with(0, 0xd1));
    put("fields_size", &with(1, 0x30));
    put("header_check", &with(17, 0xff));
    put("payload_check", &with(40, 0xff));
    put("long", &[&good[..], b"!"].concat());
    put("contradiction", &emitted(1, &data_packet(9, 10, 50), &[0; 10]));
    let mut odd = data_packet(0, 10, 50);
    odd.header = Header::new(NdpHeader { kind: 9, ..NdpHeader::of(&odd) });
    put("kind", &emitted(1, &odd, &[0; 10]));
    let mut transport = good.clone();
    let envelope = Envelope { transport: 29, ..Datagram::parse(&good).unwrap().envelope };
    envelope.seal(&mut transport, 16);
    put("transport", &transport);
}
