//! Captures, as Wireshark's command line reads them: every field of every codec has its name and its
//! value.

use crate::samples::{self, Sample};
use punctual_core::{Class, PacketFlags};
use punctual_wire::{
    CODECS, DEFAULT_PORT, Datagram, ENVELOPE_BYTES, ENVELOPE_LAYOUT, Envelope, FieldLayout, Kind,
    Outer, PcapWriter, TAG_BYTES, VersionAnswer, dscp_of, entropy_port, trim_frame, write_frame,
};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn dissector() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/wireshark/punctual.lua")
}

/// What tshark prints. Fails if tshark complains about the dissector.
fn tshark(capture: &Path, args: &[&str]) -> String {
    let script = format!("lua_script:{}", dissector().display());
    let output = Command::new("tshark")
        .arg("-r")
        .arg(capture)
        .args(["-X", &script, "-o", "udp.try_heuristic_first:TRUE"])
        .args(args)
        .output()
        .expect("tshark is installed; `cargo xtask setup` installs it");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{complaints}");
    assert!(!complaints.to_lowercase().contains("lua"), "{complaints}");
    String::from_utf8(output.stdout).unwrap()
}

/// The value of a field as tshark prints it: decimal, hexadecimal, a truth or bytes.
fn number(text: &str, field: &FieldLayout) -> Option<u64> {
    match text {
        "True" => Some(1),
        "False" => Some(0),
        _ if text.starts_with("0x") => u64::from_str_radix(&text[2..], 16).ok(),
        _ if field.bytes == 6 => u64::from_str_radix(&text.replace([' ', ':'], ""), 16).ok(),
        _ => text.parse().ok(),
    }
}

fn outer(number: usize) -> Outer {
    let v6 = number % 3 == 2;
    let address = |last: u8| match v6 {
        true => format!("fd00::{last}").parse().unwrap(),
        false => format!("10.0.0.{last}").parse().unwrap(),
    };
    Outer {
        mac: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
        source: address(1),
        destination: address(2),
        source_port: entropy_port(7, number as u16),
        // Also on ports that nobody registered.
        destination_port: DEFAULT_PORT + number as u16,
        dscp: dscp_of(Class::DATA),
        ecn: 0,
    }
}

/// A capture of all samples, one frame a sample, and of the same data packets trimmed.
fn write_capture(path: &Path, samples: &[Sample]) -> usize {
    let file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let mut pcap = PcapWriter::new(file, Some(200), "samples of the tests").unwrap();
    let interface = pcap.add_interface("samples").unwrap();
    let mut frame = Vec::new();
    let at = |number: usize| Duration::from_nanos(samples::moment(number).as_picos() / 1000);
    for (number, sample) in samples.iter().enumerate() {
        write_frame(&outer(number), &sample.datagram, &mut frame);
        pcap.write(interface, at(number), &frame).unwrap();
    }
    let mut trimmed = 0;
    for sample in samples.iter().filter(|sample| sample.packet.payload_bytes > 100) {
        write_frame(&outer(trimmed), &sample.datagram, &mut frame);
        let kept = trim_frame(&mut frame).unwrap();
        pcap.write(interface, at(samples.len() + trimmed), &frame[..kept]).unwrap();
        trimmed += 1;
    }
    pcap.flush().unwrap();
    trimmed
}

fn all_samples() -> Vec<Sample> {
    let mut samples = samples::all();
    samples.push(samples::generic());
    samples
}

/// The fields of a sample: the name in the dissector, the layout and the value.
fn fields(sample: &Sample) -> Vec<(String, FieldLayout, u64)> {
    let mut fields = Vec::new();
    for field in ENVELOPE_LAYOUT {
        fields.push((format!("punctual.{}", field.name), *field, field.value(&sample.datagram)));
    }
    let datagram = Datagram::parse(&sample.datagram).unwrap();
    let number = datagram.envelope.transport;
    let (name, _, layout) = CODECS.iter().find(|codec| codec.1 == number).unwrap();
    let group = if *name == "rcpdc" { "d3" } else { name };
    for field in layout.iter().filter(|f| f.at + f.bytes <= datagram.fields.len()) {
        let value = field.value(&sample.datagram[ENVELOPE_BYTES..]);
        fields.push((format!("punctual.{group}.{}", field.name), *field, value));
    }
    fields
}

#[test]
#[ignore = "needs tshark: cargo xtask test tshark"]
fn tshark__names_every_field_with_its_value() {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("samples.pcapng");
    let samples = all_samples();
    write_capture(&capture, &samples);
    let mut compared = 0;
    for (number, sample) in samples.iter().enumerate() {
        let fields = fields(sample);
        let frame = format!("frame.number == {}", number + 1);
        let mut args = vec!["-Y", &frame, "-T", "fields", "-E", "occurrence=f"];
        for (name, ..) in &fields {
            args.extend(["-e", name]);
        }
        let line = tshark(&capture, &args);
        let values: Vec<&str> = line.trim_end_matches('\n').split('\t').collect();
        assert_eq!(values.len(), fields.len(), "frame {}: {line}", number + 1);
        for ((name, field, value), text) in fields.iter().zip(values) {
            let printed = super::captures::number(text, field);
            assert_eq!(printed, Some(*value), "{name} of frame {}: `{text}`", number + 1);
            compared += 1;
        }
    }
    assert!(compared > 500, "{compared} fields");
}

#[test]
#[ignore = "needs tshark: cargo xtask test tshark"]
fn tshark__finds_nothing_malformed_and_every_trim() {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("samples.pcapng");
    let samples = all_samples();
    let trimmed = write_capture(&capture, &samples);
    let whole = tshark(&capture, &["-V"]);
    for wrong in ["Malformed", "Lua Error", "does not match"] {
        assert!(!whole.contains(wrong), "{wrong}");
    }
    let count = |filter: &str| tshark(&capture, &["-Y", filter]).lines().count();
    assert_eq!(count("punctual"), samples.len() + trimmed);
    assert_eq!(count("punctual.trimmed"), trimmed);
    assert_eq!(count("punctual.flags.trimmed == 1"), trimmed);
    assert_eq!(count("_ws.malformed"), 0);
    // Times are exact to the nanosecond.
    let times = tshark(&capture, &["-T", "fields", "-e", "frame.time_epoch"]);
    assert_eq!(times.lines().next(), Some("1.000000001"));
    // Lengths are those of the link, though the capture has less.
    let lengths = tshark(&capture, &["-T", "fields", "-e", "frame.len", "-e", "frame.cap_len"]);
    assert_eq!(lengths.lines().next(), Some("1514\t200"));
}

#[test]
#[ignore = "needs tshark: cargo xtask test tshark"]
fn tshark__shows_tags_and_wrong_checks() {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("keyed.pcapng");
    let good = &samples::all()[0];
    let keyed = with_tags(&good.datagram);
    let mut corrupt = good.datagram.clone();
    corrupt[5] ^= 1;
    let mut pcap = PcapWriter::new(std::fs::File::create(&capture).unwrap(), None, "").unwrap();
    let interface = pcap.add_interface("keyed").unwrap();
    let mut frame = Vec::new();
    for (number, datagram) in [&keyed, &corrupt].into_iter().enumerate() {
        write_frame(&outer(number), datagram, &mut frame);
        pcap.write(interface, Duration::ZERO, &frame).unwrap();
    }
    let shown =
        tshark(&capture, &["-Y", "frame.number == 1", "-T", "fields", "-e", "punctual.header_tag"]);
    assert_eq!(shown.trim().replace([' ', ':'], ""), "77".repeat(TAG_BYTES));
    let shown = tshark(
        &capture,
        &["-Y", "frame.number == 1", "-T", "fields", "-e", "punctual.payload_tag"],
    );
    assert_eq!(shown.trim().replace([' ', ':'], ""), "88".repeat(TAG_BYTES));
    // A corrupt datagram is not recognised by itself, but shown on request.
    assert_eq!(tshark(&capture, &["-Y", "punctual"]).lines().count(), 1);
    let decoded = ["-d", "udp.port==48631,punctual", "-Y", "punctual.header_check.bad"];
    assert_eq!(tshark(&capture, &decoded).lines().count(), 1);
}

#[test]
#[ignore = "needs tshark: cargo xtask test tshark"]
fn tshark__names_the_fields_of_a_version_answer() {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("versions.pcapng");
    let answer = VersionAnswer { version: 7, flow: 0x1234_5678 }.to_bytes();
    let mut corrupt = answer;
    corrupt[5] ^= 1;
    let mut pcap = PcapWriter::new(std::fs::File::create(&capture).unwrap(), None, "").unwrap();
    let interface = pcap.add_interface("versions").unwrap();
    let mut frame = Vec::new();
    // On a port that nobody registered, on that of the protocol, and with a wrong check.
    for (number, datagram) in [(1, answer), (0, answer), (0, corrupt), (1, corrupt)] {
        write_frame(&outer(number), &datagram, &mut frame);
        pcap.write(interface, Duration::ZERO, &frame).unwrap();
    }
    let names = ["magic", "version", "version_answer.reads", "version_answer.reserved"];
    let more = ["version_answer.flow", "version_answer.check", "version_answer.padding"];
    let names = names.into_iter().chain(more).map(|name| format!("punctual.{name}"));
    let names: Vec<String> = names.collect();
    let mut args = vec!["-Y", "punctual && !punctual.header_check.bad", "-T", "fields"];
    names.iter().for_each(|name| args.extend(["-e", name]));
    let check = u16::from_be_bytes([answer[8], answer[9]]);
    let line = format!("0xd\t0\t7\t0x0000\t0x12345678\t{check:#06x}\t0x0000");
    let printed = tshark(&capture, &args).to_lowercase();
    let lines: Vec<&str> = printed.lines().map(|line| line.trim_end()).collect();
    assert_eq!(lines.len(), 2, "{printed}");
    assert!(lines.iter().all(|printed| printed.replace("0x0d", "0xd") == line), "{printed}");
    // Somebody else's datagram on another port is not ours.
    assert_eq!(tshark(&capture, &["-Y", "punctual.header_check.bad"]).lines().count(), 1);
    let words = tshark(&capture, &["-Y", "frame.number == 1"]);
    assert!(words.contains("reads version 7, not that of flow=12345678"), "{words}");
}

/// A packet of the host stack or a packet that opens a flow, with this payload.
fn stack_packet(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; ENVELOPE_BYTES];
    datagram.extend_from_slice(payload);
    let envelope = Envelope {
        transport: 1,
        kind: Kind::new(kind),
        class: Class::CONTROL,
        flags: PacketFlags::empty(),
        is_syn: false,
        keyed: None,
        name: samples::NAME,
        path: 0,
        payload_bytes: payload.len() as u16,
    };
    envelope.seal(&mut datagram, 0);
    datagram
}

/// A datagram of a flow's beginning: with this payload, and these bytes of the header zero.
fn at_the_beginning(datagram: &[u8], zeros: Range<usize>, payload: &[u8]) -> Vec<u8> {
    let parsed = Datagram::parse(datagram).unwrap();
    let mut envelope = parsed.envelope;
    envelope.payload_bytes = payload.len() as u16;
    envelope.is_syn = true;
    let mut bytes = [&datagram[..parsed.header_bytes()], payload].concat();
    bytes[zeros].fill(0);
    envelope.seal(&mut bytes, parsed.fields.len());
    bytes
}

/// A datagram with two tags: that of the header, and that of the payload.
fn with_tags(datagram: &[u8]) -> Vec<u8> {
    let parsed = Datagram::parse(datagram).unwrap();
    let mut envelope = parsed.envelope;
    envelope.keyed = Some(0x0a0b_0c0d);
    let header = &datagram[..parsed.header_bytes()];
    let payload_tag: &[u8] = if parsed.payload.is_empty() { &[] } else { &[0x88; TAG_BYTES] };
    let mut bytes = [header, &[0x77; TAG_BYTES], parsed.payload, payload_tag].concat();
    envelope.seal(&mut bytes, parsed.fields.len());
    bytes
}

/// An address as packets about paths have it.
fn path_address(family: u8) -> Vec<u8> {
    let mut bytes = vec![family];
    bytes.extend(1..=16u8);
    bytes.extend(7_000u16.to_be_bytes());
    bytes
}

/// The first bytes of a flow between endpoints.
fn prologue() -> Vec<u8> {
    let mut bytes = vec![0xa2, 0x82, 0, 7];
    bytes.extend(9u32.to_be_bytes());
    bytes.extend(20_000u64.to_be_bytes());
    bytes.extend(1u64.to_be_bytes());
    bytes.extend(0xdead_beefu32.to_be_bytes());
    bytes
}

/// Every kind of datagram of which no byte is data of a flow, and the fields that name its payload.
fn datagrams_of_the_stack() -> Vec<(Vec<u8>, Vec<&'static str>)> {
    let (number, token) = (5u64.to_be_bytes(), [0xa5; 16]);
    let (v4, v6) = (path_address(4), path_address(6));
    let mut ask = number.to_vec();
    ask.push(1);
    ask.resize(100, 0);
    let offer = [&number[..], &[1], &token, &v4, &v6, &v4].concat();
    let join = [&number[..], &[2], &token, &token, &v6].concat();
    let joined = [&number[..], &[2], &token, &[1]].concat();
    let opening = [&300_000u64.to_be_bytes()[..], &1_412u16.to_be_bytes(), &[0, 0]].concat();
    let address = ["paths.family", "paths.port"];
    let mut all = vec![
        (stack_packet(8, &[&token[..], &number].concat()), vec!["stack.token", "stack.uptime"]),
        (stack_packet(9, &token), vec!["stack.token"]),
        (stack_packet(10, &[3]), vec!["stack.ended"]),
        (stack_packet(11, &[]), vec![]),
        (stack_packet(12, &number), vec!["stack.ping"]),
        (stack_packet(13, &number), vec!["stack.ping"]),
        (stack_packet(14, &token), vec!["stack.token"]),
        (stack_packet(15, &[]), vec![]),
        (stack_packet(12, &ask), vec!["stack.ping", "paths.message", "paths.padding"]),
        (
            stack_packet(13, &offer),
            [&["paths.token", "paths.ipv4", "paths.ipv6"][..], &address].concat(),
        ),
        (
            stack_packet(12, &join),
            [&["paths.token", "paths.own_token", "paths.ipv6"][..], &address].concat(),
        ),
        (stack_packet(13, &joined), vec!["stack.ping", "paths.own_token", "paths.answer"]),
    ];
    for sample in samples::all() {
        let kind = Datagram::parse(&sample.datagram).unwrap().envelope.kind;
        if kind == Kind::PROBE && sample.packet.payload_bytes == 0 {
            let names = ["opening.size", "opening.segment", "opening.reserved"];
            let datagram = at_the_beginning(&sample.datagram, 0..0, &opening);
            all.push((datagram, names.to_vec()));
        }
        if kind == Kind::DATA {
            // The number of the first data is 0.
            let first = if sample.transport == "ndp" { 1 } else { 0 };
            let seq = ENVELOPE_BYTES + first..ENVELOPE_BYTES + 4;
            let datagram = at_the_beginning(&sample.datagram, seq, &prologue());
            let names = ["version", "has_confirms", "purpose", "incarnation", "service"];
            let more = ["time_left", "id", "confirms"];
            let names = names.iter().chain(&more).map(|name| &*format!("prologue.{name}").leak());
            all.push((datagram, names.collect()));
        }
    }
    let keyed = all.iter().map(|(datagram, names)| (with_tags(datagram), names.clone()));
    let keyed: Vec<_> = keyed.collect();
    all.extend(keyed);
    all
}

/// The attribute of an element of XML.
fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    element.split_once(&format!(" {name}=\""))?.1.split_once('"').map(|(value, _)| value)
}

/// The bits of a byte that each of our fields has: those of one byte that shares it with others.
fn masks() -> HashMap<String, u8> {
    let script = format!("lua_script:{}", dissector().display());
    let output = Command::new("tshark").args(["-G", "fields", "-X", &script]).output();
    let output = output.expect("tshark is installed; `cargo xtask setup` installs it");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let fields = lines.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let ours = fields.filter(|field| field.len() > 6 && field[2].starts_with("punctual."));
    ours.filter_map(|field| {
        let mask = u64::from_str_radix(field[6].trim_start_matches("0x"), 16).ok()?;
        Some((field[2].to_owned(), if mask == 0 { 0xff } else { mask as u8 }))
    })
    .collect()
}

/// The names of the fields in each frame, and the bits of its UDP payloads that no field has: as
/// (byte, bits).
type Named = (Vec<String>, Vec<(usize, u8)>);

/// What the dissector names in each frame of a capture.
fn named(capture: &Path) -> Vec<Named> {
    let masks = masks();
    assert!(masks.values().any(|mask| *mask != 0xff), "fields that share a byte");
    let pdml = tshark(capture, &["-T", "pdml"]);
    let packets = pdml.split("<packet>").skip(1);
    packets
        .map(|packet| {
            let (mut names, mut payload, mut bits) = (Vec::new(), 0..0, Vec::new());
            for element in packet.split('<') {
                let number =
                    |name: &str| attribute(element, name).and_then(|n| n.parse::<usize>().ok());
                let (Some(name), Some(at), Some(size)) =
                    (attribute(element, "name"), number("pos"), number("size"))
                else {
                    continue;
                };
                if name == "udp.length" {
                    let length = number("show").expect("a length");
                    // The length is the third of four numbers of two bytes each.
                    payload = at + 4..at - 4 + length;
                    bits = vec![0u8; length];
                } else if let Some(ours) = name.strip_prefix("punctual.") {
                    names.push(ours.to_owned());
                    let mask = masks.get(name).copied().unwrap_or(0xff);
                    let is_in = at >= payload.start && at + size <= payload.end;
                    assert!(is_in, "{name} at {at} is not in {payload:?}");
                    for byte in &mut bits[at - payload.start..][..size] {
                        *byte |= mask;
                    }
                }
            }
            let missing = bits[..payload.len()].iter().enumerate();
            let missing = missing.filter(|(_, bits)| **bits != 0xff).map(|(at, bits)| (at, !bits));
            (names, missing.collect())
        })
        .collect()
}

/// Every bit of every packet has a field, and only data of flows are a `payload` without names.
#[test]
#[ignore = "needs tshark: cargo xtask test tshark"]
fn tshark__names_every_bit_of_every_kind() {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("stack.pcapng");
    let stack = datagrams_of_the_stack();
    let answer = VersionAnswer { version: 7, flow: 0x1234_5678 }.to_bytes();
    let mut datagrams: Vec<(Vec<u8>, bool)> =
        stack.iter().map(|(datagram, _)| (datagram.clone(), false)).collect();
    datagrams.push((answer.to_vec(), false));
    for sample in all_samples() {
        let has_payload = sample.packet.payload_bytes > 0;
        datagrams.push((with_tags(&sample.datagram), has_payload));
        datagrams.push((sample.datagram, has_payload));
    }
    let mut pcap = PcapWriter::new(std::fs::File::create(&capture).unwrap(), None, "").unwrap();
    let interface = pcap.add_interface("stack").unwrap();
    let mut frame = Vec::new();
    for (number, (datagram, _)) in datagrams.iter().enumerate() {
        write_frame(&outer(3 * number), datagram, &mut frame);
        pcap.write(interface, Duration::ZERO, &frame).unwrap();
    }
    pcap.flush().unwrap();
    let named = named(&capture);
    assert_eq!(named.len(), datagrams.len());
    let mut kinds = BTreeSet::new();
    for (number, ((names, missing), (datagram, has_payload))) in
        named.iter().zip(&datagrams).enumerate()
    {
        let frame = number + 1;
        assert!(missing.is_empty(), "frame {frame}: bytes without a field {missing:?}, {names:?}");
        let is_payload = names.iter().any(|name| name == "payload");
        assert_eq!(is_payload, *has_payload, "frame {frame} of {} B: {names:?}", datagram.len());
        kinds.insert(datagram[1] & 15);
        for name in stack.get(number).into_iter().flat_map(|(_, names)| names) {
            assert!(names.iter().any(|found| found == name), "frame {frame}: no {name}: {names:?}");
        }
    }
    assert_eq!(kinds.into_iter().filter(|kind| *kind >= 8).count(), 8);
    let shown = tshark(&capture, &["-V"]);
    for wrong in ["Malformed", "Lua Error", "does not match"] {
        assert!(!shown.contains(wrong), "{wrong}");
    }
}

/// The file without tshark: its blocks, lengths and times.
#[test]
fn pcap__keeps_times_lengths_and_the_beginning() {
    use pcap_file::pcapng::{Block, PcapNgReader};
    let mut pcap = PcapWriter::new(Vec::new(), Some(60), "a comment").unwrap();
    let (first, second) = (pcap.add_interface("one").unwrap(), pcap.add_interface("two").unwrap());
    let at = Duration::new(4_000_000_000, 999_999_999);
    pcap.write(first, at, &[1; 100]).unwrap();
    pcap.write(second, Duration::ZERO, &[2; 50]).unwrap();
    assert_eq!(pcap.frames(), 2);
    let bytes = pcap.into_inner();
    let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
    let mut seen = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            let first = packet.data[0];
            let (kept, sent) = (packet.data.len(), packet.original_len);
            seen.push((packet.interface_id, packet.timestamp, first, kept, sent));
        }
    }
    assert_eq!(seen, [(0, at, 1, 60, 100), (1, Duration::ZERO, 2, 50, 50)]);
    assert_eq!(reader.interfaces().len(), 2);
}
