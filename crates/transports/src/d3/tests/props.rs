//! Whatever happens to packets, every flow completes and each byte is delivered once; the test
//! driver checks the latter.

use super::super::{Pacing, Port};
use super::*;
use proptest::prelude::*;
use punctual_core::{
    Call, Class, Controller, End, ExtArena, ExtBlock, FlowEvent, FlowRoute, FlowSpec, Header,
    HostId, NicInfo, Outbox, Packet, PacketFlags, PortId, PortView, Stack, TransportId,
};
use punctual_testkit::{Fault, FaultOdds};

/// Loses one packet, or delivers it twice, or late, for each packet of a flow in turn.
#[test]
fn any_single_fault_is_survived() {
    let faults = [Fault::Drop, Fault::Duplicate, Fault::Delay(Duration::from_millis(3))];
    for segments in [1, 12, 60] {
        for fault in faults {
            for back in [false, true] {
                let mut hit = 0;
                loop {
                    let mut pair = pair(testbed(1));
                    let flow = start(&mut pair, segments * 1438 - 5);
                    pair.set_faults(move |packet, index| {
                        let hit = packet.is_to_sender() == back && index == hit;
                        if hit { fault } else { Fault::Deliver }
                    });
                    assert!(pair.run_until_done(seconds(1)), "{fault:?} of {hit}, back: {back}");
                    assert!(pair.result(flow).finished_at.is_some());
                    let sent = if back { backward(&pair) } else { forward(&pair) };
                    if sent.len() as u64 <= hit {
                        break;
                    }
                    hit += 1;
                }
                assert!(hit > segments);
            }
        }
    }
}

/// After flows have ended, however badly, every port forgets them and falls silent.
fn assert_ports_forget(pair: &mut Pair<Rcpdc>) {
    pair.run_until(pair.now() + Duration::from_millis(10));
    for port in pair.forward_controllers() {
        let port = port.unwrap();
        let sums = port.allocator();
        assert_eq!((sums.flows, sums.demand, sums.allocated), (0, Rate::ZERO, Rate::ZERO));
        assert_eq!(sums.capacity, Rate::from_gbps(1));
        assert_eq!(port.next_timeout(), None);
    }
    assert_eq!(pair.extensions(), 0);
}

#[test]
fn d3_r22_ports_fall_silent_after_flows() {
    let mut pair = pair(testbed(2));
    for _ in 0..5 {
        start(&mut pair, 40_000);
    }
    assert!(pair.run_until_done(seconds(1)));
    assert_ports_forget(&mut pair);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(128)))]

    #[test]
    fn flows_complete_whatever_happens_to_packets(
        sizes in prop::collection::vec((0u64..120_000, 0u64..3_000), 1..5),
        (drop, duplicate, delay) in (0.0..0.3, 0.0..0.2, 0.0..0.3),
        delay_us in 1u64..5_000,
        switches in 0usize..5,
        by_flow: bool,
        seed: u64,
    ) {
        let pacing = if by_flow { Pacing::Flow } else { Pacing::Host };
        let config = Rcpdc(Params { pacing, ..Params::default() });
        let mut pair = Pair::new(config, testbed(switches));
        let odds = FaultOdds {
            drop, duplicate, delay,
            delay_below: Duration::from_micros(delay_us),
            ..FaultOdds::default()
        };
        pair.set_faults(odds.rule(seed));
        for (size, start_us) in sizes {
            let mut spec = pair.spec(Bytes::new(size));
            spec.start = Instant::ZERO + Duration::from_micros(start_us);
            pair.start(spec);
        }
        prop_assert!(pair.run_until_done(seconds(120)));
        assert_ports_forget(&mut pair);
    }

    /// Whatever arrives, nothing panics; what makes no sense is counted.
    #[test]
    fn nonsense_is_survived(
        ops in prop::collection::vec(
            (any::<[u64; 4]>(), any::<(u8, u16)>(), any::<Option<[u64; 24]>>(), 0u64..300),
            1..60,
        ),
    ) {
        let nic = |host| NicInfo {
            host: HostId(host),
            rate: Rate::from_gbps(1),
            mtu: Bytes::new(1500),
            framing: Bytes::ZERO,
        };
        let mut stack = Stack::new(Rcpdc::default(), &[nic(0), nic(1)]);
        let (mut ext, mut out, mut now) = (ExtArena::default(), Outbox::default(), Instant::ZERO);
        let mut port = Port::new(&Params::default(), Rate::from_gbps(1));
        let flow = FlowSpec {
            id: FlowId(0),
            src: HostId(0),
            dst: HostId(1),
            size: Bytes::new(20_000),
            start: now,
            deadline: None,
            transport: TransportId(0),
            class: Class::DATA,
            background: false,
            pattern: 0,
        };
        let route = |local, peer| FlowRoute { local, peer, paths: 1, ecmp_path: 0, seed: 0 };
        let (there, back) = (route(flow.src, flow.dst), route(flow.dst, flow.src));
        macro_rules! call {
            ($host:expr) => {
                Call { now, host: $host, ext: &mut ext, out: &mut out }
            };
        }
        let sender = stack.open_sender(&flow, &there, call!(flow.src));
        let first = out.packets[0];
        let receiver = stack.open_receiver(&first, &back, call!(flow.dst));
        for (words, (flags, payload), block, wait_us) in ops {
            now += Duration::from_micros(wait_us);
            // Small numbers make sense more often.
            let mut header: D3Header = zerocopy::transmute!(words);
            header.seq %= 1 << (header.seq % 64);
            header.ack = if header.ack.is_multiple_of(2) { header.ack % 20_001 } else { header.ack };
            header.request %= 4;
            let mut packet = Packet::new(flow.id, flow.dst, Header::new(header));
            packet.flags = PacketFlags::from_bits(flags);
            packet.payload_bytes = payload % 1439;
            let block = block.map(|mut words| {
                words[2] &= 0x0006_0306_0306_0307;
                words[21] &= 0x3ff;
                ExtBlock(words)
            });
            packet.ext = block.map(|block| ext.alloc(block));
            let view = PortView {
                port: PortId(0), now, rate: Rate::from_gbps(1), framing: Bytes::ZERO,
                queue_bytes: 0, queue_packets: 0, sent_bytes: 0,
            };
            port.handle_forward(&mut packet, &view, &mut ext);
            port.handle_timeout(&view);
            stack.handle_packet(End::Receiver, receiver, &packet, call!(flow.dst));
            stack.handle_packet(End::Sender, sender, &packet, call!(flow.src));
            let over = |e: &FlowEvent| matches!(e, FlowEvent::Finished | FlowEvent::Abandoned);
            if out.events.iter().any(over) {
                break;
            }
            stack.poll_transmit(sender, call!(flow.src));
            stack.handle_timeout(End::Sender, sender, call!(flow.src));
        }
    }
}
