//! Headers of D3, RCPdc and PDQ: what the wire keeps, what it loses, wraps and contradictions.

use crate::samples::{self, MTU, NAME, NEAR, grants};
use proptest::prelude::*;
use punctual_core::{
    Bytes, Duration, ExtBlock, FlowId, HostId, Instant, Packet, PacketFlags, Rate,
};
use punctual_transports::d3::{D3Header, Grant, Grants, HOPS_MAX, RATE_UNIT, RateBlock};
use punctual_transports::pdq::PdqHeader;
use punctual_wire::{
    AnyCodec, CODECS, Codec, D3Codec, Datagram, ENVELOPE_BYTES, HEADER_BYTES_MAX, PdqCodec,
    RecentNumbers, WireError,
};

fn parsed(
    codec: &AnyCodec,
    bytes: &[u8],
    near: &RecentNumbers,
) -> Result<(Packet, Option<ExtBlock>), WireError> {
    codec.parse(&Datagram::parse(bytes)?, near, FlowId(3), HostId(1))
}

fn emitted(codec: &AnyCodec, packet: &Packet, block: Option<&ExtBlock>) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec.emit_zeros(NAME, packet, block, &mut bytes);
    bytes
}

fn d3() -> AnyCodec {
    AnyCodec::of("d3", MTU).unwrap()
}

#[test]
fn samples__come_back_as_they_were() {
    for sample in samples::all() {
        let codec = AnyCodec::of(sample.transport, MTU).unwrap();
        let (packet, block) = parsed(&codec, &sample.datagram, &NEAR).unwrap();
        assert_eq!(packet.header, sample.packet.header, "{}", sample.transport);
        assert_eq!(block, sample.block, "{}", sample.transport);
        assert_eq!((packet.flags, packet.class), (sample.packet.flags, sample.packet.class));
        assert_eq!(packet.payload_bytes, sample.packet.payload_bytes);
        assert_eq!(packet.path, sample.packet.path);
        // The header leaves room for a header tag, and trimming at 64 bytes keeps it.
        let header = Datagram::parse(&sample.datagram).unwrap().header_bytes();
        assert!(header <= HEADER_BYTES_MAX, "{}: {header} bytes", sample.transport);
        let (cut, _) = parsed(&codec, &sample.datagram[..header], &NEAR).unwrap();
        assert_eq!(cut.header, packet.header);
        assert_eq!(cut.is_trimmed(), sample.packet.payload_bytes > 0);
    }
}

#[test]
fn codecs__are_found_by_name_and_by_number() {
    for (name, number, _) in CODECS.iter().filter(|codec| codec.0 != "generic") {
        let codec = AnyCodec::of(name, MTU).unwrap();
        assert_eq!(AnyCodec::numbered(*number, MTU), Some(codec));
    }
    assert_eq!(AnyCodec::of("tcp", MTU), None);
    assert_eq!(AnyCodec::numbered(30, MTU), None);
    let mut numbers: Vec<u8> = CODECS.iter().map(|codec| codec.1).collect();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), CODECS.len(), "each has its own number");
    // Every codec is of a registered transport.
    let known = punctual_transports::AnyTransport::catalogue();
    for (name, ..) in CODECS.iter().filter(|codec| codec.0 != "generic") {
        assert!(known.iter().any(|info| info.name == *name), "{name}");
    }
}

/// SPEC §1.1: the congestion header has 22 bytes, one for each rate in units of 8 Mb/s.
#[test]
fn d3__the_congestion_header_is_the_papers() {
    let request = samples::d3(D3Header::REQUEST, 0);
    let plain = samples::d3(0, 1);
    let block = samples::request().to_block();
    let with = emitted(&d3(), &request, Some(&block));
    let without = emitted(&d3(), &plain, None);
    // One payload byte in the second; two bytes of padding in the first.
    assert_eq!(with.len() - (without.len() - 1), 22 + 2);
    let congestion = &with[ENVELOPE_BYTES + 16..][..22];
    // Scale 5: 40 Mb/s a step. 400 = 10 steps; two ports passed, four grants held, important.
    assert_eq!(congestion[..3], [5, 10, 2 | 4 << 3 | 1 << 6]);
    assert_eq!(congestion[3..9], [30, 0, 0, 0, 0, 0]);
    assert_eq!(congestion[9..16], [9, 255, 1, 0, 2, 0, 0]);
    assert_eq!(congestion[16..], [0; 6]);
    // 1 Gb/s is 125 (SPEC), and needs no factor.
    let gigabit = RateBlock { desired: Rate::from_gbps(1), ..RateBlock::default() };
    let bytes = emitted(&d3(), &request, Some(&gigabit.to_block()));
    assert_eq!(bytes[ENVELOPE_BYTES + 16..][..2], [1, 125]);
}

#[test]
fn d3__offsets_wrap() {
    let codec = D3Codec::default();
    for wrap in [1u64 << 32, 1 << 33, 9 << 40] {
        for seq in [wrap - 1_460, wrap - 1, wrap, wrap + 1_460] {
            let mut packet = samples::d3(0, 1_460);
            packet.header.get_mut::<D3Header>().seq = seq;
            let bytes = emitted(&d3(), &packet, None);
            for near in [wrap - (1 << 30), wrap, wrap + (1 << 30)] {
                let near = RecentNumbers { seq: near, ..NEAR };
                let (back, _) = parsed(&d3(), &bytes, &near).unwrap();
                assert_eq!(codec.data(&back).unwrap().range.offset, seq);
            }
            let mut ack = samples::d3(D3Header::ACK, 0);
            ack.header.get_mut::<D3Header>().ack = seq;
            let near = RecentNumbers { cumulative: wrap - 77, ..NEAR };
            let (back, _) = parsed(&d3(), &emitted(&d3(), &ack, None), &near).unwrap();
            assert_eq!(back.header.get::<D3Header>().ack, seq);
        }
    }
}

#[test]
fn d3__timestamps_wrap_and_are_rounded_down() {
    let wrap = 1u64 << (32 + 14);
    for at in [wrap - 1, wrap, wrap + 40_000, 3 * wrap + 123_456_789] {
        let mut packet = samples::d3(0, 1);
        packet.header.get_mut::<D3Header>().timestamp = at;
        let bytes = emitted(&d3(), &packet, None);
        let near = RecentNumbers { now: Instant::from_picos(at + 10_000_000_000), ..NEAR };
        let (back, _) = parsed(&d3(), &bytes, &near).unwrap();
        let lost = at - back.header.get::<D3Header>().timestamp;
        assert!(lost < 1 << 14, "{lost} ps");
    }
}

#[test]
fn pdq__segments_and_offsets() {
    let codec = PdqCodec { segment_bytes: 1_440, epoch: 0 };
    assert_eq!(AnyCodec::of("pdq", Bytes::new(1_500)), Some(AnyCodec::Pdq(codec)));
    let mut last = samples::pdq(PdqHeader::DATA | PdqHeader::END, 333);
    for seq in [0, 71, u32::MAX] {
        last.header.get_mut::<PdqHeader>().seq = seq;
        let data = codec.data(&last).unwrap();
        assert_eq!(data.range.offset, u64::from(seq) * 1_440);
        assert_eq!(data.flow_bytes, Some(u64::from(seq) * 1_440 + 333));
    }
    assert!(codec.data(&samples::pdq(PdqHeader::DATA, 333)).is_none(), "a short segment inside");
    assert!(codec.data(&samples::pdq(PdqHeader::DATA | PdqHeader::END, 1_441)).is_none());
}

#[test]
fn contradictions__are_refused() {
    let pdq = AnyCodec::of("pdq", MTU).unwrap();
    let refused = |codec: &AnyCodec, packet: &Packet| {
        let block = samples::request().to_block();
        let bytes = emitted(codec, packet, Some(&block));
        parsed(codec, &bytes, &NEAR).unwrap_err().name()
    };
    // An answer on its way to the receiver, a request to the sender, both at once.
    let mut packet = samples::d3(D3Header::ACK, 0);
    packet.flags = PacketFlags::empty();
    assert_eq!(refused(&d3(), &packet), "contradiction");
    let mut packet = samples::d3(D3Header::REQUEST, 0);
    packet.flags = PacketFlags::TO_SENDER;
    assert_eq!(refused(&d3(), &packet), "contradiction");
    let both = samples::d3(D3Header::REQUEST | D3Header::FEEDBACK, 0);
    assert_eq!(refused(&d3(), &both), "contradiction");
    // PDQ: data without the flag, the flag without data, a bounced packet.
    assert_eq!(refused(&pdq, &samples::pdq(PdqHeader::DATA, 0)), "contradiction");
    assert_eq!(refused(&pdq, &samples::pdq(0, 5)), "contradiction");
    let mut packet = samples::pdq(PdqHeader::SYN, 0);
    packet.flags = PacketFlags::BOUNCED;
    assert_eq!(refused(&pdq, &packet), "contradiction");
    // A congestion header without scale, and one with seven hops.
    for (at, value) in [(16, 0), (18, 7)] {
        let request = samples::d3(D3Header::REQUEST, 0);
        let block = samples::request().to_block();
        let mut bytes = emitted(&d3(), &request, Some(&block));
        let envelope = Datagram::parse(&bytes).unwrap().envelope;
        bytes[ENVELOPE_BYTES + at] = value;
        envelope.seal(&mut bytes, 40);
        assert_eq!(parsed(&d3(), &bytes, &NEAR).unwrap_err().name(), "contradiction");
    }
}

fn any_grants(steps: impl Strategy<Value = u64>) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(steps, 0..=HOPS_MAX)
}

fn vector(rates: &[u64]) -> Grants {
    let mut grants = Grants::default();
    for &bps in rates {
        grants.push(if bps == 0 { Grant::Base } else { Grant::Rate(Rate::from_bps(bps)) });
    }
    grants
}

/// The block of a request, back from the wire.
fn through_the_wire(block: &RateBlock) -> RateBlock {
    let bytes = emitted(&d3(), &samples::d3(D3Header::REQUEST, 0), Some(&block.to_block()));
    let (_, back) = parsed(&d3(), &bytes, &NEAR).unwrap();
    RateBlock::from_block(&back.unwrap()).unwrap()
}

proptest! {
    /// With `integer_rates` all rates are whole steps, and the wire loses nothing.
    #[test]
    fn d3__whole_steps_are_exact(
        scale in 1u8.., (desired, before) in (0u64..=255, 0u64..=255),
        granted in any_grants(0u64..=255), held in any_grants(0u64..=255),
        important: bool, overflow: bool,
    ) {
        let step = RATE_UNIT.as_bps() * u64::from(scale);
        let rates = |steps: &[u64]| vector(&steps.iter().map(|n| n * step).collect::<Vec<_>>());
        let block = RateBlock {
            desired: Rate::from_bps(desired * step),
            desired_before: Rate::from_bps(before * step),
            index: granted.len() as u8,
            scale,
            important,
            overflow,
            granted: rates(&granted),
            granted_before: rates(&held),
            ..RateBlock::default()
        };
        prop_assert_eq!(through_the_wire(&block), block);
    }

    /// Exact rates lose less than one step, which is at most 1/254 of the largest of them or
    /// 8 Mb/s: desired rates are rounded up, grants down.
    #[test]
    fn d3__exact_rates_lose_less_than_a_step(
        (desired, before) in (0u64..400_000_000_000, 0u64..400_000_000_000),
        granted in any_grants(0u64..400_000_000_000),
        held in any_grants(0u64..400_000_000_000),
    ) {
        let block = RateBlock {
            desired: Rate::from_bps(desired),
            desired_before: Rate::from_bps(before),
            index: granted.len() as u8,
            granted: vector(&granted),
            granted_before: vector(&held),
            deadline: Some(Instant::from_picos(5)),
            rtt: Duration::from_micros(7),
            ..RateBlock::default()
        };
        let back = through_the_wire(&block);
        let step = RATE_UNIT.as_bps() * u64::from(back.scale);
        let largest = granted.iter().chain(&held).copied().chain([desired, before]).max().unwrap();
        prop_assert!(step <= (largest / 254).max(8_000_000) + 8_000_000);
        for (sent, got) in [(desired, back.desired), (before, back.desired_before)] {
            prop_assert!(got.as_bps() >= sent && got.as_bps() - sent < step);
        }
        for (sent, got) in [(&granted, &back.granted), (&held, &back.granted_before)] {
            prop_assert_eq!(sent.len(), got.len());
            for (sent, got) in sent.iter().zip(got.iter()) {
                let got = got.counted().as_bps();
                prop_assert!(got <= *sent && sent - got < step);
            }
        }
        prop_assert_eq!((back.deadline, back.rtt), (None, Duration::ZERO), "not sent");
    }

    /// PDQ's header has the wire's units already.
    #[test]
    fn pdq__nothing_is_lost(
        words: [u32; 7], route: u16, age: u8, bits in 0u8..128, end in 1u16..1_440,
    ) {
        let [seq, time, rate, pauser, deadline, expected, rtt] = words;
        let is_data = bits & (PdqHeader::ACK | PdqHeader::DATA) == PdqHeader::DATA;
        let payload = match (is_data, bits & PdqHeader::END != 0) {
            (true, true) => end,
            (true, false) => 1_440,
            _ => 0,
        };
        let mut packet = samples::pdq(bits, payload);
        let header =
            PdqHeader { seq, time, rate, pauser, deadline, expected, rtt, route, flags: bits, age };
        packet.header = punctual_core::Header::new(header);
        let codec = AnyCodec::of("pdq", MTU).unwrap();
        let (back, _) = parsed(&codec, &emitted(&codec, &packet, None), &NEAR).unwrap();
        prop_assert_eq!(back.header.get::<PdqHeader>(), header);
    }
}

#[test]
fn d3__a_grant_below_a_step_is_the_base_rate() {
    let block = RateBlock { index: 2, granted: grants(&[100, 0]), ..RateBlock::default() };
    assert_eq!(through_the_wire(&block).granted, grants(&[96, 0]));
    let mut small = block;
    small.granted = vector(&[7_999_999, 100_000_000]);
    assert_eq!(through_the_wire(&small).granted, grants(&[0, 96]));
}
