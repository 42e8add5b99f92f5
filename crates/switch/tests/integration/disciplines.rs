//! What ports do to frames: drop, mark, trim, bounce.

use crate::common::*;
use punctual_core::{Class, HostId, PacketFlags, PortId};
use punctual_switch::{MemoryIo, Switch};
use punctual_wire::{Frame, TrimMark, WireError};

/// Seven hosts send `each` frames to host 0 at once. Returns the frames that it received.
fn incast(
    switch: &mut Switch<MemoryIo>,
    each: u64,
    frame: impl Fn(u8, u64) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    for from in 1..8u8 {
        for n in 0..each {
            switch.io().arrive(HostId(from.into()), at_us(1), frame(from, n));
        }
    }
    let departed = run_until(switch, 20_000);
    departed.into_iter().filter(|d| d.host == HostId(0)).map(|d| d.frame).collect()
}

/// The switch port to host 0.
fn to_host_0(switch: &Switch<MemoryIo>) -> PortId {
    let network = switch.fabric().network();
    network.link(network.nic(HostId(0))).twin
}

#[test]
fn drop_tail__holds_what_the_limit_says() {
    let mut switch = star(8, DROP_TAIL_8, "");
    let got = incast(&mut switch, 2, |from, _| plain(&outer(from, 0, Class::DATA, 0), 1500));
    // Seven arrive at once and fit in 8. When the next seven arrive, one packet time later, one has
    // left and six are there: two find room.
    assert_eq!(got.len(), 9);
    let (counters, ..) = switch.fabric().port_counters(to_host_0(&switch));
    assert_eq!(counters.drops, 5);
    assert_eq!(switch.fabric().packets(), 0);
}

#[test]
fn ecn__marks_capable_packets_above_the_threshold_and_fixes_the_checksum() {
    let queue = "{ kind = \"ecn\", limit = \"100packets\", mark_above = \"3packets\" }";
    for is_ipv6 in [false, true] {
        let mut switch = star(8, queue, "transports = [\"ndp\"]");
        let of = |from: u8, _| {
            let outer = outer(from, 0, Class::DATA, if from < 7 { 2 } else { 0 });
            ndp(&if is_ipv6 { in_ipv6(outer) } else { outer }, from.into(), 0, 0, 1400)
        };
        let got = incast(&mut switch, 1, of);
        assert_eq!(got.len(), 7);
        // A wrong IPv4 checksum would be an error here.
        let frames = got.iter().map(|f| Frame::parse(f, f.len(), TrimMark::default()).expect("ok"));
        let ecn: Vec<u8> = frames.map(|frame| frame.outer.ecn).collect();
        assert_eq!(ecn.iter().filter(|ecn| **ecn == 3).count(), 3, "{ecn:?}");
        assert_eq!(ecn.iter().filter(|ecn| **ecn == 0).count(), 1, "not capable, never marked");
        assert_eq!(switch.fabric().port_counters(to_host_0(&switch)).0.marks, 3);
    }
}

#[test]
fn priority__a_dscp_goes_first() {
    let mut switch = star(8, "{ kind = \"priority\", limit = \"100packets\" }", "");
    let of = |from: u8, _| {
        let class = if from == 7 { Class(0) } else { Class(from % 3 + 1) };
        plain(&outer(from, 0, class, 0), 1500)
    };
    let got = incast(&mut switch, 1, of);
    let tos: Vec<u8> = got[1..].iter().map(|frame| frame[15] >> 2).collect();
    let mut classes: Vec<Class> = tos.iter().map(|dscp| punctual_wire::class_of(*dscp)).collect();
    let order = classes.clone();
    classes.sort();
    assert_eq!(order, classes, "after the first, which found the port idle");
}

const TRIM: &str = "{ kind = \"trim\", data = \"2packets\", headers = \"2packets\" }";

#[test]
fn trim__headers_arrive_with_right_lengths_and_checksums() {
    for is_ipv6 in [false, true] {
        let mut switch = star(8, TRIM, "transports = [\"ndp\"]");
        let of = |from: u8, n: u64| {
            let outer = outer(from, 0, Class::DATA, 0);
            ndp(&if is_ipv6 { in_ipv6(outer) } else { outer }, from.into(), n, 0, 1400)
        };
        let got = incast(&mut switch, 1, of);
        assert_eq!(got.len(), 7);
        let mut trimmed = 0;
        for frame in &got {
            let parsed = Frame::parse(frame, frame.len(), TrimMark::default()).expect("ok");
            let ip_length = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
            let udp_at = if is_ipv6 { 54 } else { 34 };
            assert_eq!(ip_length(udp_at + 4), frame.len() - udp_at);
            match is_ipv6 {
                true => assert_eq!(ip_length(18) + 40, frame.len() - 14),
                false => assert_eq!(ip_length(16), frame.len() - 14),
            }
            if parsed.datagram.envelope.flags.has(PacketFlags::TRIMMED) {
                trimmed += 1;
                assert_eq!(parsed.datagram.payload, b"");
                assert!(is_ipv6 || frame.len() == 14 + 64);
            } else {
                assert_eq!(parsed.datagram.payload.len(), 1400 - 64);
            }
        }
        // One in service, one waiting; the other five lose their payload.
        assert_eq!(trimmed, 5);
    }
}

#[test]
fn trim__unfixed_lengths_at_the_sizes_of_hardware() {
    for bytes in [128usize, 206, 256] {
        let queue = format!(
            "{{ kind = \"trim-model\", model = \"netfpga\", data = \"2packets\", \
             headers = \"8packets\", trim_to = \"{bytes}B\" }}"
        );
        let more = "transports = [\"ndp\"]\ntrim = { lengths = \"unfixed\", dscp = 10 }";
        let mut switch = star(8, &queue, more);
        let got = incast(&mut switch, 1, |from, n| {
            ndp(&outer(from, 0, Class::DATA, 0), from.into(), n, 0, 1400)
        });
        let cut: Vec<_> = got.iter().filter(|frame| frame.len() < 1400).collect();
        assert_eq!((got.len(), cut.len()), (7, 5), "{bytes}");
        for frame in cut {
            assert_eq!(frame.len(), 14 + bytes);
            // The IP header still says 1,400 bytes, and its checksum is right.
            assert_eq!(u16::from_be_bytes([frame[16], frame[17]]), 1400);
            let parsed = Frame::parse(frame, frame.len(), TrimMark { dscp: Some(10) }).expect("ok");
            assert!(parsed.datagram.envelope.flags.has(PacketFlags::TRIMMED));
            assert_eq!(parsed.outer.dscp, 10);
        }
    }
}

#[test]
fn trim__profiles_of_hardware_by_name() {
    for (profile, bytes) in [("sai", 128usize), ("broadcom", 206), ("spectrum", 256)] {
        for (lengths, is_ipv6) in
            [("", false), ("lengths = \"fixed\", ", false), ("lengths = \"fixed\", ", true)]
        {
            let more = format!(
                "transports = [\"ndp\"]\ntrim = {{ {lengths}profile = \"{profile}\", dscp = 10 }}"
            );
            let mut switch = star(8, TRIM, &more);
            let got = incast(&mut switch, 1, |from, n| {
                let outer = outer(from, 0, Class::DATA, 0);
                ndp(&if is_ipv6 { in_ipv6(outer) } else { outer }, from.into(), n, 0, 1400)
            });
            let cut: Vec<_> = got.iter().filter(|frame| frame.len() < 1400).collect();
            assert_eq!((got.len(), cut.len()), (7, 5), "{more}");
            for frame in cut {
                assert_eq!(frame.len(), 14 + bytes);
                let said = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
                match (lengths.is_empty(), is_ipv6) {
                    (true, _) => assert_eq!(said(16), 1400),
                    (false, false) => assert_eq!((said(16), said(38)), (bytes, bytes - 20)),
                    (false, true) => assert_eq!((said(18), said(58)), (bytes - 40, bytes - 40)),
                }
                // Wrong checksums would be errors here; what is left of the payload does not count.
                let mark = TrimMark { dscp: Some(10) };
                let parsed = Frame::parse(frame, frame.len(), mark).expect("sound");
                assert!(parsed.datagram.envelope.flags.has(PacketFlags::TRIMMED));
                assert_eq!(parsed.outer.dscp, 10);
            }
        }
    }
}

#[test]
fn trim__other_protocols_are_dropped() {
    let mut switch = star(8, TRIM, "transports = [\"ndp\"]");
    let got = incast(&mut switch, 1, |from, _| plain(&outer(from, 0, Class::DATA, 0), 1400));
    assert_eq!(got.len(), 2);
    assert_eq!(switch.fabric().port_counters(to_host_0(&switch)).0.drops, 5);
}

#[test]
fn bounce__a_header_without_room_returns_to_its_sender() {
    // The header queue holds one header of 64 bytes.
    let queue = "{ kind = \"trim\", data = \"1packets\", headers = \"64B\" }";
    let mut switch = star(8, queue, "transports = [\"ndp\"]");
    for from in 1..8u8 {
        let frame = ndp(&outer(from, 0, Class::DATA, 0), from.into(), 0, 0, 1400);
        switch.io().arrive(HostId(from.into()), at_us(1), frame);
    }
    let departed = run_until(&mut switch, 5000);
    let (counters, ..) = switch.fabric().port_counters(to_host_0(&switch));
    assert_eq!((counters.trims, counters.bounces, counters.drops), (6, 5, 0));
    let returned: Vec<_> = departed.iter().filter(|d| d.host != HostId(0)).collect();
    assert_eq!(returned.len(), 5);
    for bounced in returned {
        let frame = Frame::parse(&bounced.frame, bounced.frame.len(), TrimMark::default());
        let Frame { outer: back, datagram } = frame.expect("sound");
        let host = bounced.host.0 as u8;
        assert_eq!(back.mac, [mac(0), mac(host)]);
        assert_eq!(back.destination, outer(host, 0, Class::DATA, 0).source);
        assert_eq!((back.source_port, back.destination_port), (6000, 5000));
        assert_eq!(datagram.envelope.name.flow, u32::from(host));
        let flags = datagram.envelope.flags;
        for flag in [PacketFlags::BOUNCED, PacketFlags::TO_SENDER, PacketFlags::TRIMMED] {
            assert!(flags.has(flag));
        }
    }
}

#[test]
fn fair_classes__a_long_queue_of_others_leaves_half_of_the_link() {
    let queue = "{ kind = \"fair-classes\", trim_data = \"8packets\", trim_headers = \"8packets\", \
                 rest = \"1000packets\" }";
    let mut switch = star(8, queue, "transports = [\"ndp\"]");
    for n in 0..100 {
        for from in 1..4u8 {
            let frame = plain(&outer(from, 0, Class::DATA, 0), 1500);
            switch.io().arrive(HostId(from.into()), at_us(1), frame);
        }
        // Half of the link: a packet every 246 us.
        let frame = ndp(&outer(4, 0, Class::DATA, 0), 4, n, 0, 1500);
        switch.io().arrive(HostId(4), at_us(1 + n * 247), frame);
    }
    let departed = run_until(&mut switch, 25_500);
    let is_ours = |frame: &[u8]| {
        !matches!(
            Frame::parse(frame, frame.len(), TrimMark::default()),
            Err(WireError::Magic(_)) | Err(WireError::Short(_))
        )
    };
    let ours = departed.iter().filter(|d| is_ours(&d.frame) && d.frame.len() > 1000).count();
    // All hundred were sent by 24.5 ms, at half of the rate: nothing of them waits or was trimmed.
    assert!(ours >= 99, "{ours}");
}
