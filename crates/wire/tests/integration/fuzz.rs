//! Fuzz targets, one for each parser: random, truncated, extended and bit-flipped packets. No input
//! panics, and every error has a name.
//!
//! They run for a moment as tests, for 30 s each in `cargo xtask fuzz`, and under a fuzzing engine
//! with `cargo bolero test fuzz::datagram` (`cargo install cargo-bolero`). The input is a program: a
//! packet to start from, and changes to it. A change that leaves the checks wrong stops most
//! packets at the first check, so the last change may be to correct them.
//!
//! Each target replays the inputs in its folder below `__fuzz__` first. `tests/corpus` has packets to
//! start from.

use crate::samples::{self, MTU};
use pcap_file::pcapng::{Block, PcapNgReader};
use punctual_core::{FlowId, HostId, Instant, PacketFlags};
use punctual_wire::{
    AnyCodec, DEFAULT_PORT, Datagram, ENVELOPE_BYTES, Envelope, Frame, Kind, Outer, PcapWriter,
    RecentNumbers, TrimMark, VersionAnswer, WireError, set_flags, trim_frame, write_frame,
};

use std::time::Duration;

/// The bytes of a fuzzing engine, read from the front. Zeros follow.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl Input<'_> {
    pub(crate) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    pub(crate) fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % end.max(1)
    }

    fn near(&mut self) -> RecentNumbers {
        let now = Instant::from_picos(self.number());
        RecentNumbers { seq: self.number(), cumulative: self.number(), now }
    }
}

/// Files of a corpus, or the input itself, changed as the input says.
fn packet(input: &mut Input<'_>, corpus: &[Vec<u8>]) -> Vec<u8> {
    if input.byte() < 16 {
        return input.0.to_vec();
    }
    let mut bytes = corpus[input.below(corpus.len())].clone();
    for _ in 0..input.byte() % 8 {
        match input.byte() % 5 {
            0 => bytes.truncate(input.below(bytes.len() + 1)),
            1 => bytes.extend((0..input.byte()).map(|_| 0xa5)),
            2 if !bytes.is_empty() => {
                let at = input.below(bytes.len());
                bytes[at] = input.byte();
            }
            3 if !bytes.is_empty() => {
                let at = input.below(bytes.len().min(100));
                bytes[at] ^= 1 << (input.byte() % 8);
            }
            _ if !bytes.is_empty() => {
                let at = input.below(bytes.len());
                bytes.remove(at);
            }
            _ => {}
        }
    }
    bytes
}

pub(crate) fn corpus(of: &str) -> Vec<Vec<u8>> {
    let dir = format!("{}/tests/corpus/{of}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn named<T>(result: &Result<T, WireError>) {
    if let Err(error) = result {
        assert!(!error.name().is_empty() && !error.to_string().is_empty());
    }
}

/// What holds of any datagram that is accepted.
fn check_datagram(bytes: &[u8], near: &RecentNumbers) {
    let result = Datagram::parse(bytes);
    named(&result);
    let Ok(datagram) = result else { return };
    let envelope = datagram.envelope;
    let is_trimmed = envelope.flags.has(PacketFlags::TRIMMED);
    let carried = datagram.payload.len();
    assert!(is_trimmed && carried == 0 || carried == usize::from(envelope.payload_bytes));
    assert!(datagram.header_bytes() <= bytes.len());
    let (_, len) = datagram.authenticated_header(usize::MAX);
    assert_eq!(len, ENVELOPE_BYTES + datagram.fields.len());
    let Some(codec) = AnyCodec::numbered(envelope.transport, MTU) else { return };
    check_fields(&codec, &datagram, near);
}

/// What holds of any packet that a codec accepts.
fn check_fields(codec: &AnyCodec, datagram: &Datagram<'_>, near: &RecentNumbers) {
    let result = codec.parse(datagram, near, FlowId(1), HostId(2));
    named(&result);
    let Ok((packet, block)) = result else { return };
    if let Some(data) = codec.data(&packet) {
        let end = data.range.offset.checked_add(data.range.len).expect("ends before 2⁶⁴");
        assert!(data.flow_bytes.is_none_or(|size| end <= size));
    }
    let mut near = *near;
    codec.observe(&packet, &mut near);
    // Emitted again it is the same packet.
    let mut bytes = Vec::new();
    codec.emit_zeros(datagram.envelope.name, &packet, block.as_ref(), &mut bytes);
    let again = Datagram::parse(&bytes).expect("our own datagram");
    let (twin, twin_block) =
        codec.parse(&again, &near, FlowId(1), HostId(2)).expect("our own packet");
    assert_eq!(
        (twin.flags, twin.payload_bytes, twin_block),
        (packet.flags, packet.payload_bytes, block)
    );
}

/// An answer has none itself, and says what it was made of.
fn check_version_answer(datagram: &[u8]) {
    if let Some(answer) = VersionAnswer::to(datagram) {
        assert!(Datagram::parse(datagram).is_err());
        assert_eq!(VersionAnswer::parse(&answer.to_bytes()), Some(answer));
        assert_eq!(VersionAnswer::to(&answer.to_bytes()), None);
    }
    if let Some(answer) = VersionAnswer::parse(datagram) {
        assert_eq!(answer.to_bytes()[..], *datagram);
    }
}

#[test]
fn datagram() {
    let corpus = corpus("datagram");
    bolero::check!().with_max_len(4096).for_each(|bytes| {
        let mut input = Input(bytes);
        let near = input.near();
        let mut datagram = packet(&mut input, &corpus);
        check_datagram(&datagram, &near);
        check_version_answer(&datagram);
        check_version_answer(bytes);
        let _ = set_flags(&mut datagram, PacketFlags::from_bits(input.byte()));
        check_datagram(&datagram, &near);
    });
}

/// Fields behind an envelope with right checks: what a codec parses.
fn fields_of(transport: &'static str) {
    let samples: Vec<Vec<u8>> = samples::all()
        .into_iter()
        .filter(|sample| sample.transport == transport)
        .map(|sample| sample.datagram)
        .collect();
    let codec = AnyCodec::of(transport, MTU).unwrap();
    let name = format!("fuzz__fields_{transport}");
    bolero::check!(name = name).with_max_len(4096).for_each(|bytes| {
        let mut input = Input(bytes);
        let near = input.near();
        let original = Datagram::parse(&samples[input.below(samples.len())]).unwrap();
        let flags = match input.byte() {
            0..128 => original.envelope.flags,
            random => PacketFlags::from_bits(random.rotate_left(3)),
        };
        let kind = match input.byte() {
            0..128 => original.envelope.kind,
            random => Kind::new(random),
        };
        let envelope = Envelope { flags, kind, ..original.envelope };
        let mut datagram = vec![0; ENVELOPE_BYTES];
        let mut fields = packet(&mut input, &[original.fields.to_vec()]);
        fields.truncate(44);
        fields.truncate(fields.len() / 4 * 4);
        datagram.extend_from_slice(&fields);
        if !flags.has(PacketFlags::TRIMMED) {
            datagram.extend_from_slice(original.payload);
            datagram.resize(ENVELOPE_BYTES + fields.len() + usize::from(envelope.payload_bytes), 0);
        }
        envelope.seal(&mut datagram, fields.len());
        let datagram = Datagram::parse(&datagram).expect("its checks are right");
        check_fields(&codec, &datagram, &near);
    });
}

#[test]
fn fields_ndp() {
    fields_of("ndp");
}

#[test]
fn fields_d3() {
    fields_of("d3");
}

#[test]
fn fields_pdq() {
    fields_of("pdq");
}

#[test]
fn fields_rcpdc() {
    fields_of("rcpdc");
}

/// Captures: whatever frames are written, a reader of pcapng finds them again.
#[test]
fn pcap() {
    bolero::check!().with_max_len(2048).for_each(|bytes| {
        let mut input = Input(bytes);
        let snap = (input.byte() & 1 == 1).then(|| u32::from(input.byte()) + 1);
        let mut file = Vec::new();
        let mut writer = PcapWriter::new(&mut file, snap, "fuzz").unwrap();
        let interface = writer.add_interface("port").unwrap();
        let mut frames = Vec::new();
        while !input.0.is_empty() && frames.len() < 16 {
            let at = Duration::from_nanos(input.number() >> 8);
            let len = usize::from(input.byte());
            let frame: Vec<u8> = (0..len).map(|_| input.byte()).collect();
            writer.write(interface, at, &frame).unwrap();
            frames.push((at, frame));
        }
        writer.flush().unwrap();
        drop(writer);
        let mut reader = PcapNgReader::new(&file[..]).unwrap();
        let mut found = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.unwrap() {
                found.push((packet.timestamp, packet.original_len as usize, packet.data.to_vec()));
            }
        }
        assert_eq!(found.len(), frames.len());
        for ((at, len, data), (sent_at, frame)) in found.iter().zip(&frames) {
            let kept = snap.map_or(frame.len(), |snap| frame.len().min(snap as usize));
            assert_eq!((at, *len, &data[..]), (sent_at, frame.len(), &frame[..kept]));
        }
    });
}

#[test]
fn frame() {
    let mut corpus = corpus("frame");
    for (number, sample) in samples::all().iter().enumerate() {
        let address = |last: u8| match number % 2 {
            0 => format!("10.0.0.{last}").parse().unwrap(),
            _ => format!("fd00::{last}").parse().unwrap(),
        };
        let outer = Outer {
            mac: [[2; 6], [4; 6]],
            source: address(1),
            destination: address(2),
            source_port: 50_000,
            destination_port: DEFAULT_PORT,
            dscp: 0,
            ecn: 0,
        };
        let mut frame = Vec::new();
        write_frame(&outer, &sample.datagram, &mut frame);
        corpus.push(frame);
    }
    bolero::check!().with_max_len(4096).for_each(|bytes| {
        let mut input = Input(bytes);
        let near = input.near();
        let mark = TrimMark { dscp: (input.byte() < 128).then(|| input.byte() & 63) };
        let mut frame = packet(&mut input, &corpus);
        let sent = frame.len() + usize::from(input.byte() & 1);
        let result = Frame::parse(&frame, sent, mark);
        named(&result);
        if let Ok(found) = result {
            let is_trimmed = found.datagram.envelope.flags.has(PacketFlags::TRIMMED);
            assert!(!is_trimmed || found.datagram.payload.is_empty());
            if let Some(codec) = AnyCodec::numbered(found.datagram.envelope.transport, MTU) {
                check_fields(&codec, &found.datagram, &near);
            }
        }
        // What our switch trims is a trimmed packet, whatever it was before.
        if let Ok(kept) = trim_frame(&mut frame) {
            let found = Frame::parse(&frame[..kept], kept, mark).expect("our own trim");
            assert!(found.datagram.envelope.flags.has(PacketFlags::TRIMMED));
        }
    });
}

/// Rewrites the kept inputs: `cargo test -p punctual-wire --test integration fuzz::corpus__write -- --ignored`.
#[test]
#[ignore = "writes files"]
fn corpus__write() {
    let put = |target: &str, name: &str, bytes: &[u8]| {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/__fuzz__");
        let dir = format!("{here}/{target}/corpus");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(format!("{dir}/{name}.bin"), bytes).unwrap();
    };
    // Times and numbers, then a packet as it is.
    for (number, mut sample) in samples::all().into_iter().enumerate() {
        sample.datagram.truncate(100);
        let input = [&[0; 25][..], &sample.datagram].concat();
        put("fuzz__datagram", &format!("{}-{number}", sample.transport), &input);
    }
    for transport in ["ndp", "d3", "rcpdc", "pdq"] {
        for sample in 0..4u8 {
            // Numbers, a sample, its own flags or others, its own kind or another, one changed byte.
            let how = [[0, 0], [200, 0], [0, 200], [200, 200]][usize::from(sample)];
            let change = [99, 0, 0, 1, 2, 0, 9, 0xff];
            let input = [&[0; 24][..], &[0, sample], &how, &change].concat();
            put(&format!("fuzz__fields_{transport}"), &format!("sample-{sample}"), &input);
        }
    }
    let frame = |len: u8| [&[0, 0, 0, 1, 0, 0, 0, 0, len][..], &vec![7; usize::from(len)]].concat();
    put("fuzz__pcap", "whole", &[&[0][..], &frame(60), &frame(0)].concat());
    put("fuzz__pcap", "cut", &[&[1, 40][..], &frame(60), &frame(200)].concat());
    for (number, frame) in corpus("frame").into_iter().enumerate().take(8) {
        let cut = &frame[..frame.len().min(200)];
        put("fuzz__frame", &format!("frame-{number}"), &[&[0; 25][..], cut].concat());
    }
    let mut stream = punctual_core::rng::Stream::named(1, "fuzz seeds", 0);
    for transport in ["ndp", "d3", "pdq"] {
        let target = format!("fuzz_endpoints__endpoint_{transport}");
        for (number, input) in corpus("endpoint").into_iter().enumerate().take(4) {
            put(&target, &format!("exchange-{number}"), &input);
        }
        let random: Vec<u8> = (0..256).map(|_| stream.bits() as u8).collect();
        put(&target, "random", &random);
    }
}
