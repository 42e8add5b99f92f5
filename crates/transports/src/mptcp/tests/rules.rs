//! One test for each rule of MPTCP in `rules.md`, and closed forms.

use super::*;
use crate::tcp::{Fraction, TcpConfig, TcpConfigError};
use punctual_core::{Call, Class, End, ExtArena, FlowEvent, Header, HostId, Limit, Outbox, Stack};
use punctual_testkit::Fault;
use serde::Deserialize;
use serde::de::value::{Error, MapDeserializer};
use std::collections::BTreeSet;

#[test]
fn mptcp_r01_subflows_take_different_paths() {
    for (subflows, paths, expected) in [(8, 36, 8), (8, 4, 4), (8, 1, 1), (1, 36, 1), (64, 64, 64)]
    {
        let (mut pair, flow) = pair(MptcpConfig { subflows, ..plain() }, paths, packets(1000));
        assert!(pair.run_until_done(late()));
        let sender = pair.sender(flow).unwrap();
        assert_eq!(sender.subflows(), expected);
        let used: BTreeSet<_> = (0..expected).map(|subflow| sender.path(subflow)).collect();
        assert_eq!(used.len(), expected);
        // Each keeps to its path, both ways, and all are used.
        let mut seen = [BTreeSet::new(), BTreeSet::new()];
        for traced in pair.trace() {
            let packet = &traced.packet;
            let subflow = header(packet).subflow;
            seen[usize::from(packet.is_to_sender())].insert((subflow, packet.path));
            if is_data(packet) {
                assert_eq!(packet.path, sender.path(usize::from(subflow)));
            }
        }
        assert_eq!(seen.map(|pairs| pairs.len()), [expected; 2]);
    }
}

#[test]
fn mptcp_r01_paths_are_random() {
    let route = |seed| FlowRoute {
        local: HostId(0),
        peer: HostId(1),
        paths: 36,
        ecmp_path: 0,
        nics: 1,
        seed,
    };
    let mut counts = [0u32; 36];
    for seed in 0..3600 {
        for path in choose_paths(8, &route(seed)) {
            counts[path as usize] += 1;
        }
    }
    // 800 each, six standard deviations either way.
    assert!(counts.iter().all(|count| (650..950).contains(count)), "{counts:?}");
}

#[test]
fn mptcp_r02_all_subflows_may_connect_at_once() {
    let config = MptcpConfig { join: SubflowJoin::AtOnce, ..MptcpConfig::default() };
    let (mut pair, _) = pair(config, 4, packets(1));
    assert!(pair.run_until_done(late()));
    let syns: Vec<_> = pair
        .trace()
        .iter()
        .filter(|t| header(&t.packet).flags == TcpFlags::SYN)
        .map(|t| (t.at, header(&t.packet).subflow, t.packet.wire_bytes))
        .collect();
    let at = |n: u64| Instant::ZERO + BARE * n;
    assert_eq!(syns, [(at(0), 0, 40), (at(1), 1, 40), (at(2), 2, 40), (at(3), 3, 40)]);
    // The first that is open carries the data.
    let data = pair.trace().iter().find(|t| is_data(&t.packet)).unwrap();
    assert_eq!((data.at, header(&data.packet).subflow), (at(2) + DELAY * 2, 0));
}

#[test]
fn mptcp_r02_a_subflow_that_cannot_connect_holds_nothing_up() {
    let config = MptcpConfig { join: SubflowJoin::AtOnce, ..MptcpConfig::default() };
    let (mut pair, flow) = pair(config, 4, packets(200));
    pair.set_faults(|packet, _| match header(packet).subflow {
        0 => Fault::Drop,
        _ => Fault::Deliver,
    });
    assert!(pair.run_until_done(late()));
    let result = pair.result(flow);
    assert!(result.completed_at.unwrap() < Instant::ZERO + Duration::from_millis(1));
    assert_eq!((result.timed_out, result.retransmitted), (0, 0));
    assert!(sent(&pair).iter().all(|data| data.subflow != 0));
}

/// Times and subflows of the SYNs, and of the data.
fn syns_and_data(pair: &Pair<MptcpConfig>) -> [Vec<(Instant, u8)>; 2] {
    let of = |wanted: fn(&Packet) -> bool| {
        let sent = pair.trace().iter().filter(|t| wanted(&t.packet));
        sent.map(|t| (t.at, header(&t.packet).subflow)).collect()
    };
    [of(|packet| header(packet).flags == TcpFlags::SYN), of(is_data)]
}

#[test]
fn mptcp_r02_others_join_after_the_first() {
    let (mut pair, _) = pair(MptcpConfig::default(), 3, packets(12));
    assert!(pair.run_until_done(late()));
    let [syns, data] = syns_and_data(&pair);
    let open = Instant::ZERO + BARE * 2 + DELAY * 2;
    assert_eq!(syns, [(Instant::ZERO, 0), (open, 1), (open + BARE, 2)]);
    // The first window goes by the first alone, what is left by those that have joined by then.
    assert!(data[..10].iter().all(|(at, subflow)| *at < open + DELAY && *subflow == 0));
    assert!(data[10..].iter().all(|(at, subflow)| *at > open + DELAY * 2 && *subflow > 0));
}

#[test]
fn mptcp_r02_a_first_that_cannot_connect_costs_a_timeout() {
    let (mut pair, flow) = pair(MptcpConfig::default(), 4, packets(200));
    pair.set_faults(|packet, _| match header(packet).subflow {
        0 => Fault::Drop,
        _ => Fault::Deliver,
    });
    assert!(pair.run_until_done(late()));
    let result = pair.result(flow);
    assert_eq!((result.timed_out, result.retransmitted), (1, 0));
    let took = result.completed_at.unwrap().saturating_since(Instant::ZERO);
    assert!(took > Duration::from_millis(10) && took < Duration::from_millis(11), "{took}");
}

#[test]
fn mptcp_r03_new_data_goes_to_subflows_in_turn() {
    let (mut pair, _) = pair(MptcpConfig { initial_window: 2, ..plain() }, 3, packets(6));
    assert!(pair.run_until_done(late()));
    let mapping: Vec<_> =
        sent(&pair).iter().map(|h| (h.subflow, h.segment, h.data / MSS)).collect();
    assert_eq!(
        mapping,
        [(0, 0, 0), (1, 0, 1), (2, 0, 2), (0, 1, 3), (1, 1, 4), (2, 1, 5)],
        "subflow, its segment, the connection's"
    );
}

#[test]
fn mptcp_r03_the_last_segment_holds_the_rest() {
    let (mut pair, flow) = pair(plain(), 4, Bytes::new(2 * MSS + 7));
    assert!(pair.run_until_done(late()));
    let data = pair.trace().iter().filter(|t| is_data(&t.packet));
    let sizes: Vec<_> = data
        .map(|t| (t.packet.payload_bytes, t.packet.wire_bytes, header(&t.packet).flags))
        .collect();
    assert_eq!(sizes, [(1460, 1500, 0), (1460, 1500, 0), (7, 47, TcpFlags::LAST)]);
    assert_eq!(pair.receiver(flow).unwrap().next_bytes(), 2 * MSS + 7);
}

#[test]
fn mptcp_r04_acks_tell_of_the_subflow_and_of_the_connection() {
    let (mut pair, flow) = pair(plain(), 2, packets(4));
    // The connection's first segment arrives last.
    pair.set_faults(|packet, index| match (packet.is_to_sender(), index) {
        (false, 0) => Fault::Delay(Duration::from_micros(20)),
        _ => Fault::Deliver,
    });
    assert!(pair.run_until_done(late()));
    let told: Vec<_> = acks(&pair)
        .iter()
        .map(|h| (h.subflow, h.segment, h.data / MSS, h.has(TcpFlags::COMPLETE)))
        .collect();
    assert_eq!(
        told,
        [(1, 1, 0, false), (0, 0, 0, false), (1, 2, 0, false), (0, 2, 4, true)],
        "subflow, its segments, the connection's"
    );
    let result = pair.result(flow);
    assert_eq!(result.finished_at, result.completed_at.map(|at| at + BARE + DELAY));
}

#[test]
fn mptcp_r04_empty_flow_completes() {
    for config in [plain(), MptcpConfig::default()] {
        let (mut pair, flow) = pair(config, 4, Bytes::ZERO);
        pair.set_faults(|packet, index| match (is_data(packet), index) {
            (true, 0 | 4) => Fault::Drop,
            _ => Fault::Deliver,
        });
        assert!(pair.run_until_done(late()));
        assert_eq!(pair.result(flow).timed_out, 1);
    }
}

/// Path 0 of two dies after a while: what was in flight there goes again by the other one.
#[test]
fn mptcp_r05_what_is_stuck_goes_by_another_subflow() {
    let (mut pair, flow) = pair(plain(), 2, packets(60));
    pair.set_faults(|packet, index| match header(packet).subflow {
        0 if index >= 10 => Fault::Drop,
        _ => Fault::Deliver,
    });
    assert!(pair.run_until_done(late()));
    let lost: BTreeSet<_> = pair
        .trace()
        .iter()
        .filter(|t| is_data(&t.packet) && t.fault == Fault::Drop)
        .map(|t| header(&t.packet).data)
        .collect();
    assert!(lost.len() >= 5);
    let by_other: Vec<_> = sent(&pair).iter().filter(|h| h.subflow == 1).map(|h| h.data).collect();
    for data in &lost {
        assert_eq!(by_other.iter().filter(|d| *d == data).count(), 1, "{data}");
    }
    // One timeout of 10 ms and at most three rounds: repair is not one segment a round trip.
    let timeout = Instant::ZERO + Duration::from_millis(10);
    let completed = pair.result(flow).completed_at.unwrap();
    assert!(completed > timeout && completed < timeout + Duration::from_millis(1), "{completed:?}");
}

#[test]
fn mptcp_r05_what_has_arrived_is_not_sent_again_by_others() {
    let (mut pair, flow) = pair(plain(), 2, packets(40));
    // All ACKs of subflow 0 are lost, but its data arrives and the others' ACKs say so.
    pair.set_faults(|packet, _| match (packet.is_to_sender(), header(packet).subflow) {
        (true, 0) => Fault::Drop,
        _ => Fault::Deliver,
    });
    assert!(pair.run_until_done(late()));
    assert_eq!(pair.result(flow).retransmitted, 0);
}

#[test]
fn mptcp_r05_a_dead_subflow_gets_no_new_data() {
    let (mut pair, _) = pair(plain(), 2, packets(20_000));
    pair.set_faults(|packet, _| match header(packet).subflow {
        0 => Fault::Drop,
        _ => Fault::Deliver,
    });
    assert!(pair.run_until_done(late()));
    let dead: BTreeSet<_> = sent(&pair).iter().filter(|h| h.subflow == 0).map(|h| h.data).collect();
    assert_eq!(dead.len(), 10, "the initial window and nothing more");
}

/// RFC 6356 §3: the closed form, against real numbers.
#[test]
fn mptcp_r06_growth_is_that_of_the_closed_form() {
    let micros = Duration::from_micros;
    for subflows in [
        vec![(14_600, micros(100))],
        vec![(14_600, micros(100)), (14_600, micros(100))],
        vec![(14_600, micros(100)), (146_000, micros(250)), (2_920, micros(80))],
        vec![(1_460, micros(200_000)), (1_460_000, micros(50))],
        vec![(u64::from(u32::MAX), micros(1)), (1460, micros(1_000_000))],
    ] {
        let lia = Lia::new(subflows.iter().copied());
        let real = |(w, rtt): (u64, Duration)| (w as f64, rtt.as_secs_f64());
        let total: f64 = subflows.iter().map(|s| real(*s).0).sum();
        let best = subflows.iter().map(|s| real(*s)).map(|(w, t)| w / (t * t)).fold(0.0, f64::max);
        let sum: f64 = subflows.iter().map(|s| real(*s)).map(|(w, t)| w / t).sum();
        let alpha = total * best / (sum * sum);
        for (w, _) in &subflows {
            // Bytes that one acknowledged byte adds, times mss.
            let expected = (alpha / total).min(1.0 / *w as f64);
            let found = lia.share(*w).as_f64() / *w as f64;
            assert!(
                (found - expected).abs() <= 2e-6 / *w as f64,
                "{subflows:?}: {found} {expected}"
            );
        }
    }
}

/// With n equal subflows a = 1/n, so that each grows by 1/n² of what TCP's window would: as only
/// one of n windows is halved by a loss, that balances at the throughput of one TCP.
#[test]
fn mptcp_r06_equal_subflows_grow_by_the_inverse_square() {
    for n in 1..=8u64 {
        let lia = Lia::new((0..n).map(|_| (100_000, Duration::from_micros(100))));
        let share = lia.share(100_000).as_f64();
        assert!((share - 1.0 / (n * n) as f64).abs() < 2e-6, "{n}: {share}");
    }
    assert_eq!(Lia::default().share(1460), Fraction::ONE, "nothing measured yet");
}

/// Packets that each of 4 windows gains on average, out of slow start from the beginning, and the
/// round trips it had for that.
fn growth(coupling: Coupling, time: Duration) -> (f64, f64) {
    let config =
        MptcpConfig { coupling, initial_ssthresh: Some(packets(10)), subflows: 4, ..plain() };
    let (mut pair, flow) = pair(config, 4, Bytes::ENDLESS);
    pair.run_until(Instant::ZERO + time);
    let sender = pair.sender(flow).unwrap();
    let gained = (0..4).map(|n| sender.window(n).cwnd_bytes() as f64 / MSS as f64 - 10.0);
    let round_trip = DATA + DELAY + BARE + DELAY;
    (gained.sum::<f64>() / 4.0, time.as_secs_f64() / round_trip.as_secs_f64())
}

#[test]
fn mptcp_r06_windows_are_coupled() {
    let (gained, rounds) = growth(Coupling::Lia, Duration::from_millis(10));
    assert!((gained - rounds / 16.0).abs() <= 1.0, "{gained} in {rounds}");
}

#[test]
fn mptcp_r07_uncoupled_subflows_are_tcps() {
    let (gained, rounds) = growth(Coupling::None, Duration::from_millis(1));
    assert!((gained - rounds).abs() <= 1.0, "{gained} in {rounds}");
}

/// A lone flow on one path is TCP, at the picosecond, whatever is lost on the way.
#[test]
fn mptcp_r08_one_subflow_is_tcp() {
    for coupling in [Coupling::Lia, Coupling::None] {
        for handshake in [false, true] {
            for size in [1, MSS, 10 * MSS + 1, 30 * MSS, 219_001, 3_000_000] {
                for lost in [None, Some(3), Some(40)] {
                    let fault = move |to_sender: bool, index| match (to_sender, lost) {
                        (false, Some(n)) if n == index => Fault::Drop,
                        _ => Fault::Deliver,
                    };
                    let config = MptcpConfig { handshake, coupling, ..MptcpConfig::default() };
                    let (mut multi, flow) = pair(config, 1, Bytes::new(size));
                    multi.set_faults(move |p, index| fault(p.is_to_sender(), index));
                    assert!(multi.run_until_done(late()));
                    let mut single =
                        Pair::new(TcpConfig { handshake, ..TcpConfig::default() }, path(1));
                    let same = single.start(single.spec(Bytes::new(size)));
                    single.set_faults(move |p, index| fault(p.is_to_sender(), index));
                    assert!(single.run_until_done(late()));
                    let (found, expected) = (multi.result(flow), single.result(same));
                    let case = format!("{coupling:?} {handshake} {size} {lost:?}");
                    assert_eq!(found.completed_at, expected.completed_at, "{case}");
                    assert_eq!(found.finished_at, expected.finished_at, "{case}");
                    assert_eq!(found.retransmitted, expected.retransmitted, "{case}");
                }
            }
        }
    }
}

#[test]
fn mptcp_r09_each_subflow_has_its_timeout() {
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    for rto in [10, 200] {
        let timeout = Duration::from_millis(rto);
        let config = MptcpConfig { rto_min: timeout, rto_initial: timeout, ..plain() };
        let (mut pair, flow) = pair(config, 2, packets(40));
        // Subflow 0 loses all at first, subflow 1 all from its fifth packet on.
        pair.set_faults(|packet, _| match (packet.is_to_sender(), header(packet)) {
            (false, MptcpHeader { subflow: 0, .. }) => Fault::Drop,
            (false, MptcpHeader { subflow: 1, segment: 4.., .. }) => Fault::Drop,
            _ => Fault::Deliver,
        });
        pair.run_until(at(rto * 9 / 2));
        let mut timeouts: Vec<Instant> = Vec::new();
        for (time, event) in &pair.result(flow).events {
            if *event == FlowEvent::TimedOut {
                timeouts.push(*time);
            }
        }
        // Subflow 1 has had an ACK of its fourth packet when its timer last started.
        let fourth_ack = Instant::ZERO + DATA * 8 + DELAY + BARE + DELAY;
        let expected = [at(rto), fourth_ack + timeout, at(3 * rto), fourth_ack + timeout * 3];
        assert_eq!(timeouts, expected);
    }
}

#[test]
fn mptcp_r10_malformed_packets_change_nothing() {
    let host = HostId(1);
    let nic = |host| NicInfo {
        host: HostId(host),
        rate: Rate::from_gbps(10),
        mtu: Bytes::new(1500),
        framing: Bytes::ZERO,
        nics: 1,
    };
    let mut stack = Stack::new(plain(), &[nic(0), nic(1)]);
    let (mut ext, mut out) = (ExtArena::default(), Outbox::default());
    let data = |subflow, segment, data| {
        let header = MptcpHeader { segment, data, subflow, ..MptcpHeader::default() };
        let mut packet = Packet::new(FlowId(0), host, Header::new(header));
        (packet.payload_bytes, packet.wire_bytes) = (1460, 1500);
        packet
    };
    let route =
        FlowRoute { local: host, peer: HostId(0), paths: 4, ecmp_path: 0, nics: 1, seed: 1 };
    let call = Call { now: Instant::ZERO, host, ext: &mut ext, out: &mut out };
    let slot = stack.open_receiver(&data(0, 0, 0), &route, call);
    for (packet, answers) in [
        (data(8, 0, 0), 0),
        (data(255, 0, 0), 0),
        (data(0, u64::MAX, 0), 0),
        (data(0, 1 << 40, 0), 0),
        (data(0, 0, u64::MAX), 0),
        (data(0, 0, 0), 1),
    ] {
        let call = Call { now: Instant::ZERO, host, ext: &mut ext, out: &mut out };
        stack.handle_packet(End::Receiver, slot, &packet, call);
        assert_eq!(out.packets.len(), answers, "{packet:?}");
    }
    let answer = header(&out.packets[0]);
    assert_eq!((answer.segment, answer.data), (1, 1460));
}

/// An ACK of a subflow that does not exist, or of segments never sent, ends nothing.
#[test]
fn mptcp_r10_strange_acks_change_nothing() {
    let host = HostId(0);
    let nic = NicInfo {
        host,
        rate: Rate::from_gbps(10),
        mtu: Bytes::new(1500),
        framing: Bytes::ZERO,
        nics: 1,
    };
    let mut stack = Stack::new(plain(), &[nic]);
    let (mut ext, mut out) = (ExtArena::default(), Outbox::default());
    let spec = Pair::new(plain(), path(4)).spec(packets(40));
    let route =
        FlowRoute { local: host, peer: HostId(1), paths: 4, ecmp_path: 0, nics: 1, seed: 1 };
    let call = Call { now: Instant::ZERO, host, ext: &mut ext, out: &mut out };
    let slot = stack.open_sender(&spec, &route, call);
    let complete = TcpFlags::ACK | TcpFlags::COMPLETE;
    for (subflow, segment, data, flags) in [
        (4, 0, 0, TcpFlags::ACK),
        (255, 1, 1460, TcpFlags::ACK),
        (0, 1, 1460, TcpFlags::ACK),
        (0, u64::MAX, u64::MAX, TcpFlags::ACK),
        (0, 0, 40 * MSS, complete),
        (0, 0, u64::MAX, complete),
    ] {
        let header = MptcpHeader { segment, data, subflow, flags, ..MptcpHeader::default() };
        let packet = Packet::new(FlowId(0), host, Header::new(header));
        let call = Call { now: Instant::ZERO, host, ext: &mut ext, out: &mut out };
        stack.handle_packet(End::Sender, slot, &packet, call);
        assert!(out.events.is_empty() && out.packets.is_empty(), "{header:?}");
    }
    let call = Call { now: Instant::ZERO, host, ext: &mut ext, out: &mut out };
    let first = stack.poll_transmit(slot, 0, call).unwrap();
    assert_eq!((header(&first).segment, header(&first).data), (0, 0));
}

#[test]
fn mptcp_r11_default_queue_is_that_of_tcp() {
    for gbps in [1, 10, 40] {
        let rate = Rate::from_gbps(gbps);
        let queue = MptcpConfig::default().default_queue(rate, Bytes::new(9000));
        assert_eq!(queue, TcpConfig::default().default_queue(rate, Bytes::new(9000)));
    }
    let queue = MptcpConfig::default().default_queue(Rate::from_gbps(10), Bytes::new(9000));
    assert_eq!(queue, QueueSpec::DropTail { limit: Limit::Packets(200) });
}

#[test]
fn mptcp_r12_packets_have_the_flows_class() {
    let mut pair = Pair::new(MptcpConfig::default(), path(4));
    let spec = FlowSpec { class: Class(3), ..pair.spec(packets(20)) };
    pair.start(spec);
    assert!(pair.run_until_done(late()));
    assert!(pair.trace().iter().all(|t| t.packet.class == Class(3)));
}

#[test]
fn bad_parameters_are_refused() {
    for subflows in [0, 65] {
        let config = MptcpConfig { subflows, ..MptcpConfig::default() };
        assert_eq!(config.validate(), Err(TcpConfigError::Subflows(subflows)));
    }
    let error = |key, value: &'static str| read(key, value).unwrap_err().to_string();
    assert_eq!(read("coupling", "none").unwrap().coupling, Coupling::None);
    assert!(error("coupling", "olia").contains("`lia` or `none`"));
    assert!(error("paths", "3").contains("unknown field"));
    assert!(error("rto_min", "0s").contains("must be longer"));
}

fn read(key: &'static str, value: &'static str) -> Result<MptcpConfig, Error> {
    <MptcpConfig as Deserialize>::deserialize(MapDeserializer::new([(key, value)].into_iter()))
}
