//! Frames: IPv4 and IPv6, ECN and DSCP, trims of our switch and of hardware.

use crate::samples::{self, MTU, NEAR, Sample};
use proptest::prelude::*;
use punctual_core::{Class, Ecn, ExtBlock, FlowId, HostId, Packet, PacketFlags};
use punctual_transports::ndp::kind;
use punctual_wire::{
    AnyCodec, DEFAULT_PORT, Datagram, Frame, Outer, TrimMark, WireError, class_of, dscp_of,
    ecn_bits, entropy_port, trim_frame, with_ecn, write_frame,
};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Frame sizes to which hardware trims: the default of SAI, Broadcom, Spectrum (DESIGN §6).
const HARDWARE_TRIMS: [usize; 3] = [128, 206, 256];

fn outer(is_ipv6: bool) -> Outer {
    let address = |last: u8| -> IpAddr {
        match is_ipv6 {
            true => format!("fd00::{last}").parse().unwrap(),
            false => format!("10.0.0.{last}").parse().unwrap(),
        }
    };
    Outer {
        mac: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
        source: address(1),
        destination: address(2),
        source_port: entropy_port(7, 3),
        destination_port: DEFAULT_PORT,
        dscp: dscp_of(Class::DATA),
        ecn: ecn_bits(Ecn::Capable),
    }
}

fn framed(outer: &Outer, datagram: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    write_frame(outer, datagram, &mut frame);
    frame
}

fn data_sample() -> Sample {
    samples::all().into_iter().find(|s| s.packet.payload_bytes > 1_000).unwrap()
}

fn parsed(frame: &[u8], mark: TrimMark) -> Result<(Packet, Option<ExtBlock>), WireError> {
    let frame = Frame::parse(frame, frame.len(), mark)?;
    let codec = AnyCodec::numbered(frame.datagram.envelope.transport, MTU).unwrap();
    codec.parse(&frame.datagram, &NEAR, FlowId(3), HostId(1))
}

fn facts(packet: &Packet) -> (punctual_core::Header, u8, u8, u16, u16, u32) {
    let Packet { header, flags, class, wire_bytes, payload_bytes, path, .. } = *packet;
    (header, flags.bits(), class.0, wire_bytes, payload_bytes, path)
}

#[test]
fn frames__of_every_sample_come_back() {
    for is_ipv6 in [false, true] {
        for sample in samples::all() {
            let frame = framed(&outer(is_ipv6), &sample.datagram);
            let back = Frame::parse(&frame, frame.len(), TrimMark::default()).unwrap();
            assert_eq!(back.outer, outer(is_ipv6));
            assert_eq!(back.datagram.payload.len(), usize::from(sample.packet.payload_bytes));
            let (packet, block) = parsed(&frame, TrimMark::default()).unwrap();
            assert_eq!(packet.header, sample.packet.header);
            assert_eq!(block, sample.block);
        }
    }
}

/// The checksums that hosts verify: RFC 791's, and RFC 8200's for UDP over IPv6. Over IPv4, 0.
#[test]
fn write_frame__checksums_are_right() {
    let sum = |bytes: &[u8]| {
        let pairs =
            bytes.chunks(2).map(|p| u32::from(p[0]) << 8 | p.get(1).map_or(0, |b| u32::from(*b)));
        pairs.fold(0u32, |sum, pair| (sum + pair) % 0xffff)
    };
    let mut ipv4 = framed(&outer(false), &data_sample().datagram);
    assert_eq!(sum(&ipv4[14..34]), 0);
    assert_eq!(ipv4[34 + 6..34 + 8], [0, 0]);
    let end = trim_frame(&mut ipv4).unwrap();
    assert_eq!((sum(&ipv4[14..34]), ipv4[34 + 6..34 + 8].to_vec()), (0, vec![0, 0]));
    assert_eq!(end, 14 + 20 + 8 + 36);
    let mut ipv6 = framed(&outer(true), &data_sample().datagram);
    let udp_sum = |frame: &[u8]| {
        let len = (frame.len() - 54) as u16;
        let pseudo = [&frame[22..54], &len.to_be_bytes(), &[0, 17], &frame[54..]].concat();
        sum(&pseudo)
    };
    assert_eq!(udp_sum(&ipv6), 0);
    let end = trim_frame(&mut ipv6).unwrap();
    assert_eq!(udp_sum(&ipv6[..end]), 0);
}

/// A known IPv4 header: version 4, 20 bytes, DSCP CS4, ECT(0), no fragments, TTL 64, UDP.
#[test]
fn write_frame__known_bytes() {
    let frame = framed(&outer(false), &[0; 4]);
    let expected = [0x45, 0x82, 0, 32, 0, 0, 0x40, 0, 64, 17];
    assert_eq!(frame[14..24], expected);
    assert_eq!(frame[26..34], [10, 0, 0, 1, 10, 0, 0, 2]);
    assert_eq!(frame[36..42], [0xbd, 0xf6, 0, 12, 0, 0]);
    let frame = framed(&outer(true), &[0; 4]);
    assert_eq!(frame[14..22], [0x68, 0x20, 0, 0, 0, 12, 17, 64]);
}

#[test]
fn trims__of_hardware_and_of_our_switch_give_one_packet() {
    for is_ipv6 in [false, true] {
        for sample in samples::all().iter().filter(|s| s.packet.payload_bytes > 300) {
            let whole = framed(&outer(is_ipv6), &sample.datagram);
            let mut ours = whole.clone();
            let kept = trim_frame(&mut ours).unwrap();
            let (packet, block) = parsed(&ours[..kept], TrimMark::default()).unwrap();
            assert!(packet.is_trimmed());
            assert_eq!(block, sample.block);
            for size in HARDWARE_TRIMS {
                for cut in hardware_trims(&whole, size, is_ipv6) {
                    let frame = Frame::parse(&cut, cut.len(), TrimMark::default()).unwrap();
                    assert!(frame.datagram.payload.is_empty(), "a trimmed tail was delivered");
                    let (theirs, their_block) = parsed(&cut, TrimMark::default()).unwrap();
                    assert_eq!(facts(&theirs), facts(&packet));
                    assert_eq!(their_block, block);
                }
            }
        }
    }
}

/// A frame cut to `size`: as it is; with a new DSCP and no new checksum; with the IP length corrected
/// and its checksum not; with both lengths corrected.
fn hardware_trims(whole: &[u8], size: usize, is_ipv6: bool) -> Vec<Vec<u8>> {
    let plain = whole[..size].to_vec();
    let mut marked = plain.clone();
    let mut ip_fixed = plain.clone();
    let udp;
    if is_ipv6 {
        udp = 54;
        marked[15] ^= 0x40;
        ip_fixed[18..20].copy_from_slice(&((size - 54) as u16).to_be_bytes());
    } else {
        udp = 34;
        marked[15] = 46 << 2;
        ip_fixed[16..18].copy_from_slice(&((size - 14) as u16).to_be_bytes());
    }
    let mut fixed = ip_fixed.clone();
    fixed[udp + 4..udp + 6].copy_from_slice(&((size - udp) as u16).to_be_bytes());
    vec![plain, marked, ip_fixed, fixed]
}

#[test]
fn trims__are_recognised_by_dscp_alone() {
    // A packet shorter than the trimmed size is marked, but loses nothing.
    let sample = &samples::all()[9];
    let frame = framed(&Outer { dscp: 46, ..outer(false) }, &sample.datagram);
    let is_trimmed = |dscp| {
        let frame = Frame::parse(&frame, frame.len(), TrimMark { dscp }).unwrap();
        (frame.datagram.envelope.flags.has(PacketFlags::TRIMMED), frame.datagram.payload.len())
    };
    assert_eq!(is_trimmed(Some(46)), (true, 0));
    assert_eq!(is_trimmed(Some(45)), (false, usize::from(sample.packet.payload_bytes)));
    assert_eq!(is_trimmed(None), (false, usize::from(sample.packet.payload_bytes)));
}

#[test]
fn trims__of_the_capture_are_none_of_the_switch() {
    let frame = framed(&outer(false), &data_sample().datagram);
    let error = Frame::parse(&frame[..128], frame.len(), TrimMark::default()).unwrap_err();
    assert_eq!(error, WireError::CaptureCut { captured: 128, sent: frame.len() });
}

#[test]
fn frames__padding_is_no_payload() {
    let pull = samples::all().into_iter().nth(usize::from(kind::PULL)).unwrap();
    let mut frame = framed(&outer(false), &pull.datagram);
    frame.extend_from_slice(&[0xee; 20]);
    let (packet, _) = parsed(&frame, TrimMark::default()).unwrap();
    assert_eq!(packet.header, pull.packet.header);
}

#[test]
fn frames__behind_vlan_tags() {
    let sample = data_sample();
    let frame = framed(&outer(true), &sample.datagram);
    let tagged = [&frame[..12], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], &frame[12..]].concat();
    assert_eq!(parsed(&tagged, TrimMark::default()).unwrap().0.header, sample.packet.header);
}

#[test]
fn frames__errors_have_names() {
    let good = framed(&outer(false), &data_sample().datagram);
    let ipv6 = framed(&outer(true), &data_sample().datagram);
    let name =
        |frame: &[u8]| Frame::parse(frame, frame.len(), TrimMark::default()).unwrap_err().name();
    let with = |frame: &[u8], at: usize, value: u8| {
        let mut bytes = frame.to_vec();
        bytes[at] = value;
        name(&bytes)
    };
    assert_eq!(name(&good[..13]), "frame_short");
    assert_eq!(name(&good[..33]), "frame_short");
    assert_eq!(name(&good[..41]), "frame_short");
    assert_eq!(name(&good[..60]), "short");
    assert_eq!(with(&good, 12, 9), "ether_type");
    assert_eq!(with(&good, 14, 0x44), "ip_header");
    assert_eq!(with(&good, 14, 0x65), "ip_header");
    assert_eq!(with(&good, 20, 0x20), "fragment");
    assert_eq!(with(&good, 23, 6), "protocol");
    assert_eq!(with(&good, 29, 9), "ip_checksum");
    assert_eq!(with(&good, 50, 9), "header_check");
    assert_eq!(with(&good, 300, 9), "payload_check");
    assert_eq!(with(&ipv6, 20, 44), "protocol");
    assert_eq!(with(&ipv6, 14, 0x45), "ip_header");
    let mut udp = good.clone();
    udp[38..40].copy_from_slice(&7u16.to_be_bytes());
    assert_eq!(name(&udp), "udp_header");
}

#[test]
fn classes_and_ecn__survive_the_ip_header() {
    for class in 0..Class::COUNT as u8 {
        assert_eq!(class_of(dscp_of(Class(class))), Class(class));
    }
    assert_eq!(class_of(63), Class::DATA);
    for ecn in [Ecn::NotCapable, Ecn::Capable, Ecn::Marked] {
        let mut packet = samples::ndp(kind::DATA);
        packet.flags = with_ecn(packet.flags, ecn_bits(ecn));
        assert_eq!(packet.ecn(), ecn);
    }
}

#[test]
fn entropy_ports__differ_by_path_and_stay_dynamic() {
    let ports: BTreeSet<u16> = (0..256).map(|path| entropy_port(0x1234_5678, path)).collect();
    assert!(ports.iter().all(|port| *port >= 49_152));
    // 256 of 16,384 ports at random collide about twice (256² / 2 / 16,384).
    assert!(ports.len() > 245, "{} ports", ports.len());
    assert_eq!(entropy_port(5, 6), entropy_port(5, 6));
}

#[test]
fn corpus__does_no_harm() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/frame");
    let mut count = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let outcome = match parsed(&std::fs::read(&path).unwrap(), TrimMark::default()) {
            Ok((packet, _)) if packet.is_trimmed() => "trimmed",
            Ok(_) => "sound",
            Err(error) => error.name(),
        };
        assert_eq!(name.trim_end_matches(|c: char| c == '-' || c.is_ascii_digit()), outcome);
        count += 1;
    }
    assert!(count >= 15, "{count} files");
}

/// Rewrites the corpus: `cargo test -p punctual-wire --test integration frames:: -- --ignored`.
#[test]
#[ignore = "writes files"]
fn corpus__write() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/frame");
    let put = |name: &str, bytes: &[u8]| {
        std::fs::write(format!("{corpus}/{name}.bin"), bytes).unwrap();
    };
    let good = framed(&outer(false), &data_sample().datagram);
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    put("sound-1", &good);
    put("sound-2", &framed(&outer(true), &samples::all()[6].datagram));
    for (number, cut) in hardware_trims(&good, 128, false).iter().enumerate() {
        put(&format!("trimmed-{number}"), cut);
    }
    let mut ours = framed(&outer(true), &data_sample().datagram);
    let kept = trim_frame(&mut ours).unwrap();
    put("trimmed-9", &ours[..kept]);
    put("frame_short-1", &good[..13]);
    put("frame_short-2", &good[..38]);
    put("short", &good[..60]);
    put("ether_type", &with(12, 9));
    put("ip_header", &with(14, 0x44));
    put("fragment", &with(20, 0x20));
    put("protocol", &with(23, 6));
    put("ip_checksum", &with(29, 9));
    put("header_check", &with(50, 9));
}

proptest! {
    #[test]
    fn parse__never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), dscp: Option<u8>) {
        let _ = Frame::parse(&bytes, bytes.len(), TrimMark { dscp });
        let mut bytes = bytes;
        let _ = trim_frame(&mut bytes);
    }

    /// Wherever a switch cuts, the payload is whole or gone.
    #[test]
    fn parse__any_cut_is_an_error_or_a_trim(cut: prop::sample::Index, is_ipv6: bool) {
        let sample = data_sample();
        let frame = framed(&outer(is_ipv6), &sample.datagram);
        let kept = cut.index(frame.len());
        if let Ok(back) = Frame::parse(&frame[..kept], kept, TrimMark::default()) {
            prop_assert!(back.datagram.payload.is_empty());
            prop_assert!(back.datagram.envelope.flags.has(PacketFlags::TRIMMED));
            let whole = Datagram::parse(&sample.datagram).unwrap();
            prop_assert_eq!(back.datagram.fields, whole.fields);
        }
    }
}
