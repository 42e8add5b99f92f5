//! D3 routers and PDQ switches on real packets: what they write is on the wire.

use crate::common::*;
use punctual_core::{Class, FlowId, Header, HostId, Packet, PacketFlags, PortId, Rate};
use punctual_switch::{MemoryIo, Switch};
use punctual_transports::d3::{D3Header, Grant, RateBlock};
use punctual_transports::pdq::{NO_DEADLINE, PdqHeader};
use punctual_wire::{AnyCodec, Frame, Outer, RecentNumbers, TrimMark, WireName, write_frame};

fn d3_request(outer: &Outer, flow: u32, desired: Rate) -> Vec<u8> {
    let header = D3Header { flags: D3Header::SYN | D3Header::REQUEST, ..D3Header::default() };
    let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
    packet.flags = PacketFlags::empty();
    packet.class = Class::DATA;
    let block = RateBlock { desired, scale: 1, ..RateBlock::default() }.to_block();
    let codec = AnyCodec::of("d3", punctual_core::Bytes::new(1500)).expect("d3");
    let mut datagram = Vec::new();
    codec.emit_zeros(WireName { flow, incarnation: 1 }, &packet, Some(&block), &mut datagram);
    let mut frame = Vec::new();
    write_frame(outer, &datagram, &mut frame);
    frame
}

/// The first request of a D3 flow, for 8 to 64 Mb/s.
pub(crate) fn any_d3_request(outer: &Outer, flow: u32) -> Vec<u8> {
    d3_request(outer, flow, Rate::from_mbps(8 * (1 + u64::from(flow % 8))))
}

/// The first packet of a PDQ flow that takes 5 to 12 ms.
pub(crate) fn any_pdq(outer: &Outer, flow: u32) -> Vec<u8> {
    let header = PdqHeader { rate: 100_000, pauser: u32::MAX, ..PdqHeader::default() };
    pdq(outer, flow, false, 500_000 + 100_000 * (flow % 8), header)
}

fn parse(frame: &[u8], transport: &str) -> (Packet, Option<RateBlock>) {
    let codec = AnyCodec::of(transport, punctual_core::Bytes::new(1500)).expect("a codec");
    let parsed = Frame::parse(frame, frame.len(), TrimMark::default()).expect("sound");
    let near = RecentNumbers::default();
    let (packet, block) =
        codec.parse(&parsed.datagram, &near, FlowId(0), HostId(0)).expect("sound");
    (packet, block.and_then(|block| RateBlock::from_block(&block)))
}

/// Both ports of the path grant, the hosts' link first. Rates are whole steps of 8 Mb/s.
#[test]
fn d3__every_port_of_the_path_grants() {
    for is_ipv6 in [false, true] {
        let mut switch = star(4, DROP_TAIL_8, "transports = [\"d3\"]");
        let desired = Rate::from_mbps(40);
        for from in 1..4u8 {
            let outer = outer(from, 0, Class::DATA, 0);
            let outer = if is_ipv6 { in_ipv6(outer) } else { outer };
            let frame = d3_request(&outer, 7, desired);
            switch.io().arrive(HostId(from.into()), at_us(u64::from(from) * 100), frame);
        }
        let departed = run_until(&mut switch, 1000);
        let granted: Vec<Vec<Grant>> = departed
            .iter()
            .map(|d| parse(&d.frame, "d3").1.expect("rates").granted.iter().collect())
            .collect();
        // 40 Mb/s are five steps. The third flow finds 100 - 2 x 40 = 20 Mb/s at the second port,
        // two steps. Flow number 7 of three senders is three flows.
        let rate = |mbps| Grant::Rate(Rate::from_mbps(mbps));
        assert_eq!(granted.len(), 3);
        for (of_flow, second) in granted.iter().zip([40, 40, 16]) {
            assert_eq!(of_flow.len(), 2, "{granted:?}");
            assert_eq!(of_flow[1], rate(second), "{granted:?}");
        }
        let network = switch.fabric().network();
        let down = network.link(network.nic(HostId(0))).twin;
        let (_, state) = switch.fabric().controller_states().find(|s| s.0 == down).expect("d3");
        assert_eq!((state.flows, state.demand), (3, Rate::from_mbps(120)));
        // UDP over IPv6 has a checksum, which a receiver verifies.
        if is_ipv6 {
            for d in &departed {
                assert_eq!(ipv6_udp_sum(&d.frame), 0xffff);
            }
        }
    }
}

/// The ones' complement sum of a UDP datagram with its checksum and pseudo header: all ones.
fn ipv6_udp_sum(frame: &[u8]) -> u16 {
    let udp = &frame[54..];
    let words = |bytes: &[u8]| -> u32 {
        bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0))).sum()
    };
    let mut sum = words(&frame[22..54]) + 17 + udp.len() as u32 + words(udp);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn pdq(outer: &Outer, flow: u32, is_answer: bool, expected: u32, before: PdqHeader) -> Vec<u8> {
    let codec = AnyCodec::of("pdq", punctual_core::Bytes::new(1500)).expect("pdq");
    let flags = PdqHeader::SYN | if is_answer { PdqHeader::ACK } else { 0 };
    let header = PdqHeader { flags: before.flags | flags, expected, ..before };
    let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
    packet.class = Class::DATA;
    if is_answer {
        packet.flags = PacketFlags::TO_SENDER.with(PacketFlags::REVERSE_PATH);
    }
    let mut datagram = Vec::new();
    codec.emit_zeros(WireName { flow, incarnation: 1 }, &packet, None, &mut datagram);
    let mut frame = Vec::new();
    write_frame(outer, &datagram, &mut frame);
    frame
}

/// Sends a SYN from a host to host 0 and its answer back. Returns the header that the sender gets.
fn pdq_round(switch: &mut Switch<MemoryIo>, from: u8, us: u64, expected_10ns: u32) -> PdqHeader {
    pdq_round_due(switch, from, us, expected_10ns, NO_DEADLINE)
}

/// Sends a SYN with this deadline on the wire from a host to host 0, and its answer back. Returns the
/// header that the sender gets.
fn pdq_round_due(
    switch: &mut Switch<MemoryIo>,
    from: u8,
    us: u64,
    expected_10ns: u32,
    deadline: u32,
) -> PdqHeader {
    let first = PdqHeader {
        rate: 100_000,
        pauser: u32::MAX,
        deadline,
        rtt: 200_000,
        ..PdqHeader::default()
    };
    let there = pdq(&outer(from, 0, Class::DATA, 0), from.into(), false, expected_10ns, first);
    switch.io().arrive(HostId(from.into()), at_us(us), there);
    let departed = run_until(switch, us + 150);
    let at_receiver: PdqHeader = parse(&departed[0].frame, "pdq").0.header.get();
    assert_eq!(at_receiver.deadline, deadline, "as its sender wrote it");
    let back = PdqHeader { deadline: 0, flags: at_receiver.flags, ..at_receiver };
    let back = pdq(&outer(0, from, Class::DATA, 0), from.into(), true, 0, back);
    switch.io().arrive(HostId(0), at_us(us + 150), back);
    let departed = run_until(switch, us + 300);
    parse(&departed[0].frame, "pdq").0.header.get()
}

/// The more critical flow, which has less to send, gets the link; the other is paused by the port.
#[test]
fn pdq__the_shorter_flow_sends_and_the_longer_is_paused() {
    let mut switch = star(4, DROP_TAIL_8, "transports = [\"pdq\"]");
    let short = pdq_round(&mut switch, 1, 100, 500_000); // 5 ms
    assert!(short.rate > 80_000 && short.pauser == u32::MAX, "{short:?}");
    let long = pdq_round(&mut switch, 2, 500, 5_000_000); // 50 ms
    assert!(long.rate == 0 && long.pauser != u32::MAX, "{long:?}");
    // The port that pauses it is the one to host 0.
    let network = switch.fabric().network();
    let down = network.link(network.nic(HostId(0))).twin;
    assert_eq!(PortId(long.pauser), down);
}

/// Deadlines on the wire wrap around after 11.9 hours, and the switch's clock starts anywhere in
/// between. A long flow that is due in 20 ms goes before a short one that is due in 60 ms.
#[test]
fn pdq__deadlines_are_ordered_around_the_clock_of_the_switch() {
    const HOUR_US: u64 = 3_600_000_000;
    for hours in [0, 10, 12, 24, 100 * 24] {
        // Units of 10 us from the present to the moment at which the wire's deadlines begin anew.
        for until_wrap in [4_000u32, 1_000, 0] {
            let config = star_config(4, DROP_TAIL_8, "transports = [\"pdq\"]");
            let start_us = hours * HOUR_US;
            let start = 0u32.wrapping_sub(until_wrap);
            let epoch = start.wrapping_sub((start_us / 10) as u32);
            let io = MemoryIo { epoch, clock: at_us(start_us), ..MemoryIo::new(4) };
            let mut switch = Switch::new(config, io);
            let due = |ms: u32| start.wrapping_add(ms * 100);
            let early = pdq_round_due(&mut switch, 1, start_us + 100, 1_000_000, due(20));
            assert!(early.rate > 80_000, "{hours} h, {until_wrap}: {early:?}");
            let late = pdq_round_due(&mut switch, 2, start_us + 500, 500_000, due(60));
            assert_eq!(late.rate, 0, "{hours} h, {until_wrap}: {late:?}");
            // One that is due 20 ms ago goes before both.
            let over = start.wrapping_sub(2_000);
            let over = pdq_round_due(&mut switch, 3, start_us + 900, 500_000, over);
            assert!(over.rate > 80_000, "{hours} h, {until_wrap}: {over:?}");
        }
    }
}

#[test]
fn malformed__a_broken_payload_is_forwarded_unchanged_and_counted() {
    let mut switch = star(4, DROP_TAIL_8, "transports = [\"d3\"]");
    let mut frame = d3_request(&outer(1, 0, Class::DATA, 0), 7, Rate::from_mbps(8));
    let last = frame.len() - 1;
    frame[last] ^= 1; // its header check is wrong now: it counts as a packet of another protocol
    switch.io().arrive(HostId(1), at_us(1), frame.clone());
    assert_eq!(run_until(&mut switch, 500)[0].frame, frame);
    // With a good header check but an unknown kind it is ours, and malformed.
    let mut other = Vec::new();
    let packet = Packet::new(FlowId(0), HostId(0), Header::new(D3Header::default()));
    let codec = AnyCodec::of("d3", punctual_core::Bytes::new(1500)).expect("d3");
    let mut bounced = packet;
    bounced.flags = PacketFlags::BOUNCED;
    codec.emit_zeros(WireName { flow: 1, incarnation: 1 }, &bounced, None, &mut other);
    let mut frame = Vec::new();
    write_frame(&outer(1, 0, Class::DATA, 0), &other, &mut frame);
    switch.io().arrive(HostId(1), at_us(1000), frame.clone());
    assert_eq!(run_until(&mut switch, 1500)[0].frame, frame);
    assert_eq!(switch.fabric().host_counters(HostId(1)).malformed, 1);
}

#[test]
fn transports__named_by_the_configuration() {
    let config = star_config(2, DROP_TAIL_8, "transports = [\"d3\", \"pdq\", \"ndp\"]");
    let names: Vec<_> = config.transports.iter().map(|t| t.name()).collect();
    assert_eq!(names, ["d3", "pdq", "ndp"]);
}
