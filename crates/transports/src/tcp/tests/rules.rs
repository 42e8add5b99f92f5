//! One test for each rule of TCP in `rules.md`, and closed forms.

use super::*;
use crate::rtt::{Rounding, RttEstimator};
use punctual_core::{Class, FlowEvent, HostId};
use punctual_testkit::Fault;

/// Drops the first transmission of these segments.
fn lose(segments: &'static [u64]) -> impl FnMut(&Packet, u64) -> Fault {
    let mut left = segments.to_vec();
    move |packet, _| {
        let lost = left.iter().position(|n| is_data(packet) && *n == number(packet));
        match lost {
            Some(at) => {
                left.remove(at);
                Fault::Drop
            }
            None => Fault::Deliver,
        }
    }
}

#[test]
fn tcp_r01_handshake_goes_before_data() {
    let (mut pair, flow) = pair(TcpConfig::default(), packets(1));
    assert!(pair.run_until_done(late()));
    let opened = Instant::ZERO + (BARE + DELAY) * 2;
    let trace: Vec<_> = pair.trace().iter().map(|t| (t.at, header(&t.packet).flags)).collect();
    assert_eq!(
        trace,
        [
            (Instant::ZERO, TcpFlags::SYN),
            (Instant::ZERO + BARE + DELAY, TcpFlags::SYN | TcpFlags::ACK),
            (opened, TcpFlags::LAST),
            (opened + DATA + DELAY, TcpFlags::ACK | TcpFlags::COMPLETE),
        ]
    );
    assert_eq!(pair.result(flow).completed_at, Some(opened + DATA + DELAY));
    assert_eq!(pair.sender(flow).unwrap().rtt().smoothed(), Some((BARE + DELAY) * 2));
}

#[test]
fn tcp_r01_lost_syn_is_sent_again_and_the_window_starts_at_one() {
    let (mut pair, flow) = pair(TcpConfig::default(), packets(4));
    pair.set_faults(|packet, index| match (packet.is_to_sender(), index) {
        (false, 0) | (true, 0) => Fault::Drop, // a SYN and a SYN-ACK
        _ => Fault::Deliver,
    });
    assert!(pair.run_until_done(late()));
    let syns: Vec<_> = pair
        .trace()
        .iter()
        .filter(|t| header(&t.packet).flags == TcpFlags::SYN)
        .map(|t| t.at)
        .collect();
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    assert_eq!(syns, [at(0), at(10), at(30)]);
    assert_eq!(pair.result(flow).timed_out, 2);
    let opened = at(30) + (BARE + DELAY) * 2;
    let second_round = opened + round_trip();
    assert_eq!(
        sent(&pair),
        [
            (opened, 0),
            (second_round, 1),
            (second_round + DATA, 2),
            (second_round + round_trip(), 3)
        ]
    );
}

#[test]
fn tcp_r02_segments_fill_the_mtu_unless_told_otherwise() {
    let sizes = |mss, size| {
        let tcp = TcpConfig { mss, ..plain() };
        let (mut pair, _) = pair(tcp, Bytes::new(size));
        assert!(pair.run_until_done(late()));
        let data = pair.trace().iter().filter(|t| is_data(&t.packet));
        data.map(|t| (t.packet.payload_bytes, t.packet.wire_bytes, header(&t.packet).flags))
            .collect::<Vec<_>>()
    };
    let last = TcpFlags::LAST;
    assert_eq!(sizes(None, 1461), [(1460, 1500, 0), (1, 41, last)]);
    assert_eq!(sizes(Some(Bytes::new(1000)), 1000), [(1000, 1040, last)]);
    assert_eq!(sizes(Some(Bytes::new(9000)), 1460), [(1460, 1500, last)]);
}

#[test]
fn tcp_r03_sender_finishes_when_all_is_acknowledged() {
    let (mut pair, flow) = pair(plain(), packets(3));
    // The last ACK is lost: the receiver is done at once, the sender after a timeout.
    pair.set_faults(|packet, index| match (packet.is_to_sender(), index) {
        (true, 2) => Fault::Drop,
        _ => Fault::Deliver,
    });
    assert!(pair.run_until_done(late()));
    let result = pair.result(flow);
    assert_eq!(result.completed_at, Some(Instant::ZERO + DATA * 3 + DELAY));
    let second_ack = ack_back(1);
    let timeout = Duration::from_millis(10);
    assert_eq!(result.finished_at, Some(second_ack + timeout + round_trip()));
    assert_eq!((result.timed_out, result.retransmitted), (1, 1));
}

#[test]
fn tcp_r03_empty_flow_completes() {
    for config in [plain(), TcpConfig::default()] {
        let (mut pair, flow) = pair(config, Bytes::ZERO);
        let mut dropped = false;
        pair.set_faults(move |packet, _| {
            if is_data(packet) && !std::mem::replace(&mut dropped, true) {
                return Fault::Drop;
            }
            Fault::Deliver
        });
        assert!(pair.run_until_done(late()));
        assert_eq!(pair.result(flow).timed_out, 1);
    }
}

/// A lone flow: each round trip sends twice as much, back to back, until packets fill the line.
#[test]
fn tcp_r04_lone_flow_finishes_at_the_picosecond() {
    for handshake in [false, true] {
        for size in [1, MSS, 10 * MSS, 10 * MSS + 1, 30 * MSS, 100_000, 219_000, 219_001, 3_000_000]
        {
            let config = TcpConfig { handshake, ..TcpConfig::default() };
            let (mut pair, flow) = pair(config, Bytes::new(size));
            assert!(pair.run_until_done(late()));

            // Packets before the last, and the round that sends the last. Round 4 and those after
            // are longer than a round trip, so nothing stops any more.
            let before = (size - 1) / MSS;
            let (mut round, mut first) = (0, 0);
            while round < 4 && before >= first + (10 << round) {
                first += 10 << round;
                round += 1;
            }
            let open = if handshake { (BARE + DELAY) * 2 } else { Duration::ZERO };
            let last = path().transmission_time(40 + size - before * MSS);
            let sent_at = open + round_trip() * round + DATA * (before - first) + last;
            let completed_at = Instant::ZERO + sent_at + DELAY;
            let result = pair.result(flow);
            assert_eq!(result.completed_at, Some(completed_at), "{size}, {handshake}");
            assert_eq!(result.finished_at, Some(completed_at + BARE + DELAY));
            assert_eq!((result.retransmitted, result.timed_out), (0, 0));
        }
    }
}

#[test]
fn tcp_r04_slow_start_counts_bytes_not_acks() {
    // Every second packet is acknowledged, yet windows double: 2, 4, 8.
    let config =
        TcpConfig { initial_window: 2, delayed_ack: Some(Duration::from_millis(1)), ..plain() };
    let (mut pair, flow) = pair(config, packets(100));
    pair.run_until(Instant::ZERO + round_trip() * 2 + DATA * 10);
    assert_eq!(pair.sender(flow).unwrap().window().cwnd_bytes(), 8 * MSS);
}

#[test]
fn tcp_r05_avoidance_adds_a_packet_per_window() {
    let config = TcpConfig { initial_ssthresh: Some(packets(1)), ..plain() };
    let (mut pair, flow) = pair(config, packets(1000));
    let mut round = Vec::new();
    for n in 0..5 {
        pair.run_until(Instant::ZERO + round_trip() * n + Duration::from_micros(90));
        round.push(pair.sender(flow).unwrap().window().cwnd_bytes() / MSS);
    }
    assert_eq!(round, [10, 11, 12, 13, 14]);
}

#[test]
fn tcp_r05_no_byte_counts_twice_or_never() {
    let mut window = Window::new(MSS, 9, Some(packets(10)), None);
    let mut grow = |acked: u64| {
        window.grow(acked * MSS, 2, Fraction::ONE);
        window.cwnd_bytes() / MSS
    };
    // The first packet ends slow start, the second is one of the ten that the next step takes.
    assert_eq!([grow(2), grow(8), grow(1)], [10, 10, 11]);
    // Of twelve, one is over and counts for the step after.
    assert_eq!([grow(10), grow(2), grow(10), grow(1)], [11, 12, 12, 13]);
}

#[test]
fn tcp_r05_unused_window_does_not_grow() {
    // The line holds 84 packets; a window of more than twice that is not used.
    let (mut pair, flow) = pair(plain(), packets(20_000));
    assert!(pair.run_until_done(late()));
    let cwnd_bytes = pair.sender(flow).unwrap().window().cwnd_bytes();
    assert!((160 * MSS..172 * MSS).contains(&cwnd_bytes), "{}", cwnd_bytes / MSS);
}

/// Starts with ten packets in congestion avoidance, so that each acknowledgement releases one.
fn ten() -> TcpConfig {
    TcpConfig { initial_ssthresh: Some(packets(10)), ..plain() }
}

#[test]
fn tcp_r06_fast_retransmit_on_third_duplicate() {
    let (mut pair, flow) = pair(ten(), packets(100));
    pair.set_faults(lose(&[2]));
    // Packets 0 and 1 are acknowledged, 3, 4 and 5 give duplicates.
    let third = ack_back(5);
    pair.run_until(third - Duration::from_picos(1));
    assert_eq!(pair.result(flow).retransmitted, 0);
    pair.run_until(third);
    assert_eq!(sent(&pair).last(), Some(&(third, 2)));
    let sender = pair.sender(flow).unwrap();
    // Packets 2 to 13 were in flight: ten, and two for the duplicates before.
    assert_eq!(sender.window().ssthresh_bytes(), 6 * MSS);
    assert_eq!(sender.window().cwnd_bytes(), 9 * MSS);
    assert!(pair.run_until_done(late()));
    let result = pair.result(flow);
    assert_eq!((result.retransmitted, result.timed_out), (1, 0));
    assert!(!pair.sender(flow).unwrap().in_recovery());
}

#[test]
fn tcp_r06_threshold_is_half_of_the_flight_and_two_packets_at_least() {
    let mut window = Window::new(MSS, 10, None, None);
    for (flight, threshold) in [(10, 5), (5, 2), (4, 2), (3, 2), (0, 2)] {
        window.halve_threshold(flight * MSS);
        let half = (flight * MSS / 2).max(threshold * MSS);
        assert_eq!(window.ssthresh_bytes(), half, "{flight} packets in flight");
    }
}

#[test]
fn tcp_r05_nothing_acknowledged_is_no_growth() {
    let mut window = Window::new(MSS, 10, Some(packets(10)), None);
    window.grow(9 * MSS, 2, Fraction::ONE);
    // A cut that keeps the nine packets counted towards growth, now more than the window.
    window.shrink(Fraction::ONE, 1);
    assert_eq!(window.cwnd_bytes(), 5 * MSS);
    window.grow(0, 2, Fraction::ONE);
    assert_eq!(window.cwnd_bytes(), 5 * MSS);
}

#[test]
fn tcp_r06_two_duplicates_are_reordering() {
    let (mut pair, flow) = pair(ten(), packets(100));
    pair.set_faults(|packet, index| match (packet.is_to_sender(), index) {
        (false, 2) => Fault::Delay(DATA * 2 + DATA / 2),
        _ => Fault::Deliver,
    });
    assert!(pair.run_until_done(late()));
    assert_eq!(pair.result(flow).retransmitted, 0);
}

#[test]
fn tcp_r07_partial_ack_repairs_the_next_hole() {
    let (mut pair, flow) = pair(ten(), packets(100));
    pair.set_faults(lose(&[2, 4]));
    let entered = ack_back(6); // 3, 5 and 6 give duplicates
    pair.run_until(entered + round_trip() * 2 - Duration::from_picos(1));
    let (mut highest, mut again) = (0, Vec::new());
    for (at, n) in sent(&pair) {
        if n < highest {
            again.push((at, n));
        }
        highest = highest.max(n);
    }
    assert_eq!(again, [(entered, 2), (entered + round_trip(), 4)]);
    assert!(pair.sender(flow).unwrap().in_recovery());
    pair.run_until(entered + round_trip() * 2);
    let sender = pair.sender(flow).unwrap();
    assert!(!sender.in_recovery());
    assert_eq!(sender.window().cwnd_bytes(), sender.window().ssthresh_bytes());
    assert!(pair.run_until_done(late()));
    assert_eq!(pair.result(flow).timed_out, 0);
}

#[test]
fn tcp_r07_only_the_first_partial_ack_restarts_the_timer() {
    // Four holes take four round trips, which is longer than the timeout.
    let timeout = Duration::from_micros(250);
    let (mut pair, flow) = pair(TcpConfig { rto_min: timeout, ..ten() }, packets(100));
    pair.set_faults(lose(&[2, 4, 6, 8]));
    assert!(pair.run_until_done(late()));
    let first_partial = ack_back(7) + round_trip(); // 3, 5 and 7 gave duplicates
    let timed_out = |e: &&(Instant, FlowEvent)| e.1 == FlowEvent::TimedOut;
    let event = pair.result(flow).events.iter().find(timed_out);
    assert_eq!(event.map(|e| e.0), Some(first_partial + timeout));
}

#[test]
fn tcp_r08_first_two_duplicates_release_new_data() {
    let (mut pair, _) = pair(ten(), packets(100));
    pair.set_faults(lose(&[0]));
    pair.run_until(ack_back(2));
    let sent = sent(&pair);
    assert_eq!(sent[10..], [(ack_back(1), 10), (ack_back(2), 11)]);
}

#[test]
fn tcp_r09_timeout_follows_the_round_trip_time() {
    let micros = Duration::from_micros;
    let config = TcpConfig { rto_min: micros(1), rto_max: micros(2500), ..plain() };
    let (mut rtt, rto) = (RttEstimator::default(), config.settings().rto());
    assert_eq!(rtt.rto(&rto), config.rto_initial.min(config.rto_max));
    // sample, smoothed, timeout
    for (sample, smoothed, timeout) in [
        (800, 800, 800 + 4 * 400),
        (800, 800, 800 + 4 * 300),
        (1600, 900, 2500), // 900 + 4 × 425, above the bound
        (100, 800, 2500),
    ] {
        rtt.sample(micros(sample), Rounding::Sum);
        assert_eq!(rtt.smoothed(), Some(micros(smoothed)));
        assert_eq!(rtt.rto(&rto), micros(timeout));
    }
    let mut floor = RttEstimator::default();
    floor.sample(micros(100), Rounding::Sum);
    assert_eq!(floor.rto(&plain().settings().rto()), Duration::from_millis(10));
}

#[test]
fn tcp_r10_timeouts_double_and_go_back() {
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let config = TcpConfig { initial_window: 8, ..plain() };
    let (mut pair, flow) = pair(config, packets(16));
    pair.set_faults(lose(&[0, 1, 2, 3, 4, 5, 6, 7, 0, 0]));
    pair.run_until(at(70));
    let burst = [0, 1, 2, 3, 4, 5, 6, 7].map(|n| (Instant::ZERO + DATA * n, n));
    assert_eq!(sent(&pair)[..8], burst);
    assert_eq!(sent(&pair)[8..], [(at(10), 0), (at(30), 0), (at(70), 0)]);
    // Later timeouts of the same segment leave the threshold alone.
    let window = pair.sender(flow).unwrap().window();
    assert_eq!((window.cwnd_bytes(), window.ssthresh_bytes()), (MSS, 4 * MSS));
    assert!(pair.run_until_done(late()));
    let (back, trip) = (at(70) + round_trip(), round_trip());
    assert_eq!(sent(&pair)[11..14], [(back, 1), (back + DATA, 2), (back + trip, 3)]);
    let result = pair.result(flow);
    assert_eq!((result.timed_out, result.retransmitted), (3, 10));
    let backed_off = pair.sender(flow).unwrap().rto();
    assert_eq!(backed_off, Duration::from_millis(10), "acknowledged data ends the backoff");
}

#[test]
fn tcp_r10_echoes_of_a_timeout_are_no_loss() {
    // Four holes, and every ACK that would show them lost. Going back sends some packets that are
    // there already: 11, 12 and 13 give three duplicates, which must not start a fast retransmit.
    let config = TcpConfig { initial_window: 20, ..plain() };
    let (mut pair, flow) = pair(config, packets(60));
    let mut holes = lose(&[0, 2, 5, 10]);
    pair.set_faults(move |packet, index| match (packet.is_to_sender(), index) {
        (true, 0..16) => Fault::Drop,
        _ => holes(packet, index),
    });
    assert!(pair.run_until_done(late()));
    let again: Vec<_> = sent(&pair)[20..30].iter().map(|s| s.1).collect();
    assert_eq!(again, [0, 2, 3, 5, 6, 7, 10, 11, 12, 13]);
    let result = pair.result(flow);
    assert_eq!((result.timed_out, result.retransmitted), (1, 10));
}

#[test]
fn tcp_r11_delayed_ack_every_second_or_in_time() {
    let delay = Duration::from_micros(500);
    let config = TcpConfig { delayed_ack: Some(delay), ..plain() };
    let (mut first, _) = pair(config.clone(), packets(9));
    assert!(first.run_until_done(late()));
    let counts: Vec<_> = acks(&first).iter().map(|h| h.ack / MSS).collect();
    assert_eq!(counts, [2, 4, 6, 8, 9]);
    // Its timestamp is that of the first packet it is for.
    let sent_at: Vec<_> = acks(&first).iter().map(|h| h.timestamp_picos).collect();
    assert_eq!(sent_at, [0, 2, 4, 6, 8].map(|n| (DATA * n).as_picos()));

    let (mut lone, flow) = pair(TcpConfig { initial_window: 1, ..config }, packets(2));
    assert!(lone.run_until_done(late()));
    let second = Instant::ZERO + round_trip() + delay;
    assert_eq!(sent(&lone)[1], (second, 1));
    assert_eq!(lone.sender(flow).unwrap().rtt().smoothed(), Some(round_trip() + delay));
}

#[test]
fn tcp_r11_gaps_are_acknowledged_at_once() {
    let config = TcpConfig { delayed_ack: Some(Duration::from_millis(5)), ..plain() };
    let (mut pair, flow) = pair(config, packets(10));
    pair.set_faults(lose(&[2]));
    assert!(pair.run_until_done(late()));
    let counts: Vec<_> = acks(&pair).iter().map(|h| h.ack / MSS).collect();
    assert_eq!(counts, [2, 2, 2, 2, 2, 2, 2, 2, 10]);
    assert_eq!(pair.result(flow).timed_out, 0);
}

#[test]
fn tcp_r12_a_flow_keeps_its_path_and_class() {
    let mut pair = Pair::new(TcpConfig::default(), PairPath { paths: 16, ..path() });
    for class in [1, 1, 1, 5] {
        let spec = pair.spec(packets(30));
        pair.start(FlowSpec { class: Class(class), ..spec });
    }
    assert!(pair.run_until_done(late()));
    let mut used = Vec::new();
    for flow in 0..4 {
        for back in [false, true] {
            let mut paths: Vec<u32> = pair
                .trace()
                .iter()
                .filter(|t| t.packet.flow == FlowId(flow) && t.packet.is_to_sender() == back)
                .inspect(|t| assert_eq!(t.packet.class, Class(if flow == 3 { 5 } else { 1 })))
                .map(|t| t.packet.path)
                .collect();
            paths.dedup();
            assert_eq!(paths.len(), 1, "flow {flow}");
            used.push(paths[0]);
        }
    }
    used.sort_unstable();
    used.dedup();
    assert!(used.len() > 2, "{used:?}");
}

#[test]
fn tcp_r13_window_is_bounded() {
    let config = TcpConfig { window_max: Some(packets(10)), ..plain() };
    let (mut pair, flow) = pair(config, packets(100));
    assert!(pair.run_until_done(late()));
    // Ten round trips of ten packets.
    let completed_at = Instant::ZERO + round_trip() * 9 + DATA * 10 + DELAY;
    assert_eq!(pair.result(flow).completed_at, Some(completed_at));
}

#[test]
fn tcp_r14_flows_share_their_nic() {
    let mut pair = Pair::new(plain(), path());
    let flows = [0, 1].map(|_| pair.start(pair.spec(packets(3000))));
    let back = pair.start(FlowSpec { src: HostId(1), dst: HostId(0), ..pair.spec(packets(3000)) });
    assert!(pair.run_until_done(late()));
    let end = |flow| pair.result(flow).completed_at.unwrap().as_secs_f64();
    let ideal = 2.0 * 3000.0 * DATA.as_secs_f64();
    for flow in flows {
        assert!((1.0..1.2).contains(&(end(flow) / ideal)), "{}", end(flow) / ideal);
    }
    assert!(end(back) < 0.75 * ideal);
    assert!(pair.trace().iter().all(|t| t.packet.wire_bytes <= 1500));
}

#[test]
fn tcp_r14_may_fill_the_queue_of_the_nic() {
    // Which of two flows sends, in order, until the first acknowledgement is back.
    let order = |small_queues| {
        let mut pair = Pair::new(TcpConfig { small_queues, ..plain() }, path());
        let flows = [0, 1].map(|_| pair.start(pair.spec(packets(10))));
        assert!(pair.run_until_done(late()));
        assert!(flows.iter().all(|flow| pair.result(*flow).timed_out == 0));
        let sent = pair.trace().iter().filter(|t| !t.packet.is_to_sender());
        sent.map(|t| usize::from(t.packet.flow == flows[1])).collect::<Vec<_>>()
    };
    // The first flow has the line to itself until the second starts, which is at once.
    assert_eq!(order(true)[..10], [0, 0, 1, 0, 1, 0, 1, 0, 1, 0], "in turn");
    assert_eq!(order(false), [[0; 10], [1; 10]].concat(), "as they came");
}

#[test]
fn tcp_r14_what_waits_at_the_nic_is_in_flight() {
    // 84 packets fill the round trip; a window of 200 leaves 116 in the queue of the NIC.
    let window = TcpConfig { window_max: Some(packets(200)), ..plain() };
    let rtt = |small_queues| {
        let (mut pair, flow) = pair(TcpConfig { small_queues, ..window.clone() }, packets(5000));
        pair.run_until(Instant::ZERO + DATA * 4000);
        let smoothed = pair.sender(flow).unwrap().rtt().smoothed().unwrap();
        smoothed.as_secs_f64() / DATA.as_secs_f64()
    };
    assert!((rtt(true) - 84.4).abs() < 1.0, "{}", rtt(true));
    assert!((rtt(false) - 200.0).abs() < 2.0, "{}", rtt(false));
}

#[test]
fn tcp_r15_duplicates_and_strangers_are_harmless() {
    let (mut pair, flow) = pair(TcpConfig::default(), packets(200));
    pair.set_faults(|_, _| Fault::Duplicate);
    assert!(pair.run_until_done(late()));
    assert_eq!(pair.result(flow).timed_out, 0);

    // Trimmed or returned packets are as good as lost.
    let (mut pair, flow) = super::pair(TcpConfig::default(), packets(200));
    pair.set_faults(|_, index| match index {
        20 => Fault::Trim,
        40 => Fault::Bounce,
        _ => Fault::Deliver,
    });
    assert!(pair.run_until_done(late()));
    assert!(pair.result(flow).retransmitted > 0);
}

#[test]
fn tcp_r15_acknowledgement_of_unsent_bytes_is_ignored() {
    use punctual_core::{Endpoint, ExtArena, Header, Outbox};
    let (mut pair, flow) = pair(plain(), packets(20));
    pair.run_until(Instant::ZERO + DATA * 10);
    let mut sender = pair.sender(flow).unwrap().clone();
    let nic = NicInfo {
        host: HostId(0),
        rate: path().rate,
        mtu: path().mtu,
        framing: Bytes::ZERO,
        nics: 1,
    };
    let config = plain();
    let (mut ext, mut out) = (ExtArena::default(), Outbox::default());
    let mut cx = HostCx {
        now: pair.now(),
        config: &config,
        shared: &mut config.open_host(&nic),
        ext: &mut ext,
        out: &mut out,
        nic: 0,
    };
    let ack = |ack| TcpHeader { ack, flags: TcpFlags::ACK, ..TcpHeader::default() };
    sender.handle_packet(&Packet::new(flow, HostId(0), Header::new(ack(11 * MSS))), &mut cx);
    assert_eq!(sender.acked_bytes(), 0);
    sender.handle_packet(&Packet::new(flow, HostId(0), Header::new(ack(10 * MSS))), &mut cx);
    assert_eq!(sender.acked_bytes(), 10 * MSS);
}

#[test]
fn tcp_r16_default_queue_is_drop_tail() {
    let limit = |gbps| TcpConfig::default().default_queue(Rate::from_gbps(gbps), Bytes::new(1500));
    assert_eq!(limit(1), QueueSpec::DropTail { limit: Limit::Packets(100) });
    assert_eq!(limit(10), QueueSpec::DropTail { limit: Limit::Packets(200) });
}

#[test]
fn endless_flow_keeps_the_line_busy() {
    let (mut pair, flow) = pair(plain(), Bytes::ENDLESS);
    pair.run_until(Instant::ZERO + Duration::from_millis(10));
    let delivered = pair.result(flow).delivered.total();
    assert!(delivered > path().rate.bytes_in(Duration::from_millis(9)).get() * 1460 / 1500);
}

#[test]
fn tcp_r17_timeouts_are_noticed_at_ticks() {
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let rto = Duration::from_millis(10);
    let again = |rto_tick| {
        let config =
            TcpConfig { initial_window: 1, rto_initial: rto, rto_min: rto, rto_tick, ..plain() };
        let (mut pair, _) = pair(config, packets(2));
        pair.set_faults(lose(&[0, 0, 0]));
        assert!(pair.run_until_done(late()));
        let sent = sent(&pair);
        assert_eq!(sent[4].0, sent[3].0 + round_trip(), "the next one goes without a timeout");
        [1, 2, 3].map(|n| sent[n])
    };
    assert_eq!(again(None), [(at(10), 0), (at(30), 0), (at(70), 0)]);
    // 10, then 20 and 40 ms after that.
    let ticks = again(Some(Duration::from_millis(8)));
    assert_eq!(ticks, [(at(16), 0), (at(40), 0), (at(88), 0)]);
    // What passes at a tick is noticed at the next.
    let ticks = again(Some(Duration::from_millis(1)));
    assert_eq!(ticks, [(at(11), 0), (at(32), 0), (at(73), 0)]);
}
