//! Rules for when things are not as they should be: bad paths, stragglers, full memories, names
//! used again.

use super::lone::*;
use super::*;
use punctual_core::{
    Call, Class, End, ExtArena, FlowEvent, FlowSpec, Header, HostId, Outbox, Stack,
};
use punctual_core::{PacketFlags, TransportId};

/// Plays a network of four paths on which a fault befalls all packets of path 1. Returns how many
/// of the last hundred packets took it.
fn share_of_bad_path(config: NdpConfig, kind: u8) -> usize {
    let mut lone = lone_sender(config, 10_000);
    let mut pulls = 0;
    let mut paths = Vec::new();
    for _ in 0..1000 {
        for header in poll_headers(&mut lone, 10) {
            paths.push(header.path);
            let bad = header.path == 1 && kind != kind::ACK;
            let answer = NdpHeader {
                kind: if bad { kind } else { kind::ACK },
                cumulative: 0,
                flags: 0,
                ..header
            };
            lone.hand(&answer.control(FlowId(0), HostId(0)));
            pulls += 1;
            pull(&mut lone, pulls);
        }
    }
    paths[paths.len() - 100..].iter().filter(|p| **p == 1).count()
}

#[test]
fn ndp_r19_a_path_with_far_more_nacks_is_left_out_for_a_while() {
    // A path that trims everything has no ACKs to compare with, so half its packets get through.
    let trims_half = |config: NdpConfig| {
        let mut lone = lone_sender(config, 10_000);
        let (mut pulls, mut flip, mut paths) = (0, false, Vec::new());
        for _ in 0..2000 {
            for header in poll_headers(&mut lone, 10) {
                paths.push(header.path);
                flip ^= header.path == 1;
                let kind = if header.path == 1 && flip { kind::NACK } else { kind::ACK };
                let answer = NdpHeader { kind, cumulative: 0, flags: 0, ..header };
                lone.hand(&answer.control(FlowId(0), HostId(0)));
                pulls += 1;
                pull(&mut lone, pulls);
            }
        }
        paths[paths.len() - 1000..].iter().filter(|p| **p == 1).count()
    };
    let kept = trims_half(NdpConfig { scoreboard: false, ..window(4) });
    assert!((230..=270).contains(&kept), "without a scoreboard each path in turn: {kept}");
    let left = trims_half(window(4));
    // Every verdict on it is bad and leaves it out for 16 rounds of the three other paths: one in
    // 16 · 3 + 1 packets is its.
    assert!((18..=22).contains(&left), "tried now and then: {left}");
}

#[test]
fn ndp_r19_paths_alike_are_all_used() {
    assert!((20..=30).contains(&share_of_bad_path(window(4), kind::ACK)));
}

#[test]
fn ndp_r19_a_path_that_loses_is_left_out_longer_each_time() {
    let mut lone = lone_sender(window(8), 100_000);
    let (mut pulls, mut lost_at, mut sent) = (0, Vec::new(), 0u64);
    for round in 0..4000u64 {
        for header in poll_headers(&mut lone, 10) {
            sent += 1;
            if header.path == 1 {
                lost_at.push(sent);
                continue;
            }
            let answer = NdpHeader { kind: kind::ACK, cumulative: 0, flags: 0, ..header };
            lone.hand(&answer.control(FlowId(0), HostId(0)));
            pulls += 1;
            pull(&mut lone, pulls);
        }
        lone.now = Instant::ZERO + Duration::from_micros(10 * (round + 1));
        if round % 100 == 99 {
            lone.timeout();
        }
    }
    let gaps: Vec<u64> = lost_at.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(lost_at.len() < 25, "{} of {sent} packets on a dead path", lost_at.len());
    assert!(gaps.last() > gaps.first(), "{gaps:?}");
}

#[test]
fn ndp_r19_the_least_bad_path_is_used_when_all_are_bad() {
    let mut lone = lone_sender(window(8), 1000);
    for ms in 0..200 {
        // Nothing ever comes back.
        poll_headers(&mut lone, 10);
        lone.now = Instant::ZERO + Duration::from_millis(2 * ms);
        lone.timeout();
    }
    lone.now = Instant::ZERO + Duration::from_secs(100);
    lone.timeout();
    assert!(!poll_headers(&mut lone, 1).is_empty(), "still trying");
}

#[test]
fn ndp_r20_urgent_flows_are_pulled_first() {
    // Pulls slower than arrivals, so that they queue.
    let config = NdpConfig { pull_spacing: Some(Duration::from_micros(3)), ..window(10) };
    let mut pair = pair(config);
    let start_class = |pair: &mut Pair<NdpConfig>, class| {
        let spec = FlowSpec { class: Class(class), ..pair.spec(Bytes::new(100 * PAYLOAD)) };
        pair.start(spec)
    };
    let slow: Vec<FlowId> = (0..3).map(|_| start_class(&mut pair, 2)).collect();
    let urgent = start_class(&mut pair, 1);
    assert!(pair.run_until_done(LIMIT));
    let ended = |flow| pair.result(flow).completed_at.unwrap();
    // Alone it takes 100 pulls; in turns it would take 400.
    assert!(ended(urgent) < Instant::ZERO + Duration::from_micros(3 * 115), "{}", ended(urgent));
    assert!(slow.iter().all(|flow| ended(*flow) > ended(urgent) + Duration::from_micros(300)));
}

#[test]
fn ndp_r20_a_trimmed_packet_still_tells_its_class() {
    let mut pair = pair(window(4));
    pair.set_faults(|packet, index| match NdpHeader::of(packet).kind {
        kind::DATA if index < 4 => Fault::Trim,
        _ => Fault::Deliver,
    });
    let spec = FlowSpec { class: Class(3), ..pair.spec(Bytes::new(4 * PAYLOAD)) };
    pair.start(spec);
    assert!(pair.run_until_done(LIMIT));
    assert!(data(&pair).iter().all(|(_, h, _)| h.class() == 3));
}

#[test]
fn ndp_r21_pulls_vary_as_the_table_says() {
    let us = |nanos| Duration::from_nanos(nanos);
    // The paper's distances for packets of 1500 bytes.
    let table = vec![(0.05, us(1100)), (0.5, us(1210)), (0.95, us(1380))];
    // Pulls queue up behind a window that was trimmed.
    let mut pair = pair(NdpConfig { pull_jitter: table, ..window(2000) });
    pair.set_faults(|packet, _| match NdpHeader::of(packet).kind {
        kind::DATA if NdpHeader::of(packet).sent_at < 2_400_000_000 => Fault::Trim,
        _ => Fault::Deliver,
    });
    start(&mut pair, 2000);
    assert!(pair.run_until_done(LIMIT));
    let pulls = control(&pair, kind::PULL);
    assert!(pulls.len() > 1500, "{}", pulls.len());
    let mut gaps: Vec<Duration> = pulls.windows(2).map(|w| w[1].0 - w[0].0).collect();
    gaps.sort_unstable();
    let quantile = |share: f64| gaps[(gaps.len() as f64 * share) as usize].as_picos();
    // Control packets of 51 ns may be in each other's way.
    for (share, nanos) in [(0.02, 1100), (0.5, 1210), (0.98, 1380)] {
        assert!(quantile(share).abs_diff(nanos * 1000) < 60_000, "{share}: {}", quantile(share));
    }
}

/// One host that receives and forgets a flow's two ends as soon as it can, so that nothing but
/// the transport remembers it.
struct Forgetful {
    stack: Stack<NdpConfig>,
    receiver: Option<u32>,
    now: Instant,
    delivered: u64,
    completed: u64,
}

impl Forgetful {
    fn hand(&mut self, packet: &Packet) {
        let (mut ext, mut out) = (ExtArena::default(), Outbox::default());
        let now = self.now;
        fn call<'a>(now: Instant, ext: &'a mut ExtArena, out: &'a mut Outbox) -> Call<'a> {
            Call { now, host: HostId(0), ext, out }
        }
        let slot = match self.receiver {
            Some(slot) => slot,
            None => self.stack.open_receiver(packet, &route(), call(now, &mut ext, &mut out)),
        };
        self.receiver = Some(slot);
        self.stack.handle_packet(End::Receiver, slot, packet, call(now, &mut ext, &mut out));
        for event in &out.events {
            match event {
                FlowEvent::Delivered(_) => self.delivered += 1,
                FlowEvent::Completed => self.completed += 1,
                _ => {}
            }
        }
        if out.events.contains(&FlowEvent::Completed) {
            self.stack.close(End::Receiver, slot, HostId(0));
            self.receiver = None;
        }
    }
}

fn first_window(packets: u64) -> Vec<Packet> {
    (0..packets)
        .map(|seq| {
            let last = if seq + 1 == packets { flags::LAST } else { 0 };
            let header = NdpHeader {
                seq,
                cumulative: packets * PAYLOAD,
                sent_at: 0,
                pull: 0,
                path: 0,
                kind: kind::DATA,
                flags: flags::SYN | last,
            };
            let mut packet = Packet::new(FlowId(7), HostId(0), Header::new(header));
            packet.payload_bytes = PAYLOAD as u16;
            packet.wire_bytes = 1500;
            packet.flags = PacketFlags::TRIMMABLE;
            packet
        })
        .collect()
}

fn forgetful() -> Forgetful {
    let stack = Stack::new(NdpConfig::default(), &[nic(0), nic(1)]);
    Forgetful { stack, receiver: None, now: Instant::ZERO, delivered: 0, completed: 0 }
}

#[test]
fn ndp_r22_late_copies_of_a_first_window_deliver_nothing() {
    // Two connections of one name, back to back, 1 ms apart: every order of up to three packets
    // each, with copies of the first one's strewn in between, before and after.
    let window = first_window(3);
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let mut cases = 0;
    for first in orders {
        for second in orders {
            for copies in 0u32..64 {
                let mut host = forgetful();
                for (place, packet) in first.iter().enumerate() {
                    host.now = Instant::ZERO + Duration::from_micros(place as u64);
                    host.hand(&window[*packet]);
                    if copies & 1 << place != 0 {
                        host.hand(&window[first[0]]);
                    }
                }
                // Late copies, until a lifetime after the last.
                for (place, packet) in second.iter().enumerate() {
                    host.now = Instant::ZERO + Duration::from_micros(300 * (place as u64 + 1));
                    if copies & 8 << place != 0 {
                        host.hand(&window[*packet]);
                    }
                }
                assert_eq!((host.delivered, host.completed), (3, 1), "{first:?} {second:?}");
                host.now = Instant::ZERO + Duration::from_micros(1100);
                for packet in second {
                    host.hand(&window[packet]);
                }
                assert_eq!((host.delivered, host.completed), (6, 2), "the new one is taken");
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 36 * 64);
}

#[test]
fn ndp_r22_only_the_first_window_opens_a_connection() {
    let mut host = forgetful();
    let mut packet = first_window(3)[1];
    let header = NdpHeader { flags: 0, ..NdpHeader::of(&packet) };
    packet.header = Header::new(header);
    host.hand(&packet);
    assert_eq!(host.delivered, 0, "a late copy of a packet that was pulled");
    for packet in first_window(3) {
        host.hand(&packet);
    }
    assert_eq!((host.delivered, host.completed), (3, 1));
}

#[test]
fn ndp_r22_a_sender_waits_before_it_uses_a_name_again() {
    let mut lone = lone_sender(window(2), 2);
    assert_eq!(poll_all(&mut lone), [0, 1]);
    answer(&mut lone, kind::ACK, 0, None);
    answer(&mut lone, kind::ACK, 1, None);
    lone.stack.close(End::Sender, lone.slot, HostId(0));
    lone.open_again(2);
    assert_eq!(poll_all(&mut lone), Vec::<u64>::new(), "the old one's packets may be about");
    lone.now = Instant::ZERO + Duration::from_millis(1);
    lone.timeout();
    assert_eq!(poll_all(&mut lone), [0, 1]);
}

#[test]
fn ndp_r23_a_receiver_takes_no_more_than_it_has_room_for() {
    // Room for four packets, and the first of ten is lost.
    let config = NdpConfig { receive_memory: Some(Bytes::new(4 * PAYLOAD)), ..window(10) };
    let mut pair = pair(config);
    pair.set_faults(nth(kind::DATA, 0, Fault::Drop));
    let flow = start(&mut pair, 40);
    assert!(pair.run_until_done(LIMIT));
    let refused: Vec<u64> = control(&pair, kind::NACK).iter().map(|(_, h, _)| h.seq).collect();
    assert!(control(&pair, kind::NACK).iter().all(|(_, h, _)| h.has(flags::NO_ROOM)));
    assert_eq!(
        refused.len(),
        9,
        "the window less the one lost and four that fit, and four that those pulled"
    );
    assert!(refused.iter().all(|seq| *seq >= 5));
    let result = pair.result(flow);
    assert_eq!((result.timed_out, result.retransmitted), (1, 10), "no more once it is known");
}

#[test]
fn ndp_r23_memory_counts_what_is_held_and_not_what_is_missing() {
    // Six of ten are lost, and there is memory for the other four, however far ahead they are.
    let config = NdpConfig { receive_memory: Some(Bytes::new(4 * PAYLOAD)), ..window(10) };
    let mut pair = pair(config);
    pair.set_faults(|packet, index| match NdpHeader::of(packet).kind {
        kind::DATA if index < 6 => Fault::Drop,
        _ => Fault::Deliver,
    });
    start(&mut pair, 10);
    assert!(pair.run_until_done(LIMIT));
    let refused: Vec<u64> = control(&pair, kind::NACK).iter().map(|(_, h, _)| h.seq).collect();
    assert!(refused.iter().all(|seq| *seq < 6), "6 to 9 are held: {refused:?}");
}

#[test]
fn ndp_r23_without_memory_packets_are_taken_in_order_only() {
    let config = NdpConfig { receive_memory: Some(Bytes::ZERO), ..window(10) };
    let mut pair = pair(config);
    pair.set_faults(nth(kind::DATA, 3, Fault::Drop));
    start(&mut pair, 40);
    assert!(pair.run_until_done(LIMIT));
    assert!(control(&pair, kind::NACK).iter().all(|(_, h, _)| h.has(flags::NO_ROOM)));
    assert!(control(&pair, kind::NACK).len() >= 6, "those after the one lost");
}

#[test]
fn ndp_r23_a_full_receiver_is_sent_the_lowest_first() {
    let mut lone = lone_sender(window(4), 8);
    assert_eq!(poll_all(&mut lone), [0, 1, 2, 3]);
    let refuse = |lone: &mut Lone, seq| {
        let header = NdpHeader {
            seq,
            cumulative: 0,
            sent_at: 0,
            pull: 0,
            path: 0,
            kind: kind::NACK,
            flags: flags::NO_ROOM,
        };
        lone.hand(&header.control(FlowId(0), HostId(0)));
    };
    refuse(&mut lone, 3);
    refuse(&mut lone, 2);
    answer(&mut lone, kind::NACK, 1, None);
    pull(&mut lone, 2);
    assert_eq!(poll_all(&mut lone), [1, 2]);
}

#[test]
fn ndp_r24_later_data_is_pushed_again() {
    let mut pair = pair(window(8));
    let first = start(&mut pair, 20);
    assert!(pair.run_until_done(LIMIT));
    let before = data(&pair).len();
    let spec = FlowSpec { transport: TransportId(0), ..pair.spec(Bytes::new(20 * PAYLOAD)) };
    let later = pair.start(spec);
    assert!(pair.run_until_done(LIMIT));
    assert_ne!(first, later);
    let tx = pair.path().transmission_time(1500);
    for (n, (at, header, _)) in data(&pair)[before..].iter().take(8).enumerate() {
        assert_eq!((*at, header.has(flags::SYN)), (spec.start + tx * n as u64, true));
    }
}

#[test]
fn ndp_r02_a_pull_s_cumulative_number_releases_too() {
    let mut lone = lone_sender(window(4), 8);
    poll_all(&mut lone);
    let header = NdpHeader {
        seq: 0,
        cumulative: 4,
        sent_at: 0,
        pull: 1,
        path: 0,
        kind: kind::PULL,
        flags: 0,
    };
    lone.hand(&header.control(FlowId(0), HostId(0)));
    assert_eq!(poll_all(&mut lone), [4]);
    lone.now = Instant::ZERO + Duration::from_micros(900);
    lone.timeout();
    assert_eq!(poll_all(&mut lone), Vec::<u64>::new(), "the four whose ACKs were lost are in");
    let sender = lone.stack.sender(lone.slot).expect("open");
    assert_eq!(sender.in_flight(), 1);
}

#[test]
fn ndp_r25_answers_go_back_on_the_path_of_their_data() {
    let run = |paths| {
        let config = NdpConfig { paths, ..window(10) };
        let mut pair = Pair::new(config, PairPath { paths: 8, ..PairPath::default() });
        pair.set_faults(nth(kind::DATA, 3, Fault::Trim));
        start(&mut pair, 60);
        assert!(pair.run_until_done(LIMIT));
        pair
    };
    let pair = run(PathPolicy::Permuted);
    for (_, header, packet) in sent(&pair, Direction::Backward) {
        assert!(packet.flags.has(PacketFlags::REVERSE_PATH));
        assert!(header.kind == kind::PULL || packet.path == u32::from(header.path));
    }
    let pair = run(PathPolicy::SwitchRandom);
    let paths: Vec<u32> = sent(&pair, Direction::Backward).iter().map(|(_, _, p)| p.path).collect();
    assert!(paths.windows(2).all(|w| (w[0] + 1) % 8 == w[1]), "each in turn: {paths:?}");
}

#[test]
fn ndp_r26_the_timer_learns_how_long_headers_wait() {
    let micros = |us| Instant::ZERO + Duration::from_micros(us);
    let nothing = Vec::<u64>::new();
    // One header came out of its queue after 0.9 ms: the next may take a little longer.
    let mut stack = lone_sender(window(2), 2);
    assert_eq!(poll_all(&mut stack), [0, 1]);
    stack.now = micros(900);
    answer(&mut stack, kind::NACK, 0, None);
    stack.now = micros(1000);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), nothing);
    stack.now = micros(1800);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), [1]);
    // A header that returns tells of a queue that is full.
    let mut stack = lone_sender(window(3), 3);
    assert_eq!(poll_all(&mut stack), [0, 1, 2]);
    stack.now = micros(100);
    bounce(&mut stack, 0);
    stack.now = micros(1000);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), nothing);
    stack.now = micros(2000);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), [2, 1]);
    // A packet given up too soon: the timer was too short.
    let mut stack = lone_sender(window(1), 9);
    assert_eq!(poll_all(&mut stack), [0]);
    stack.now = micros(1000);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), [0]);
    stack.now = micros(1500);
    answer(&mut stack, kind::ACK, 0, Some(2));
    assert_eq!(poll_all(&mut stack), [1]);
    stack.now = micros(2600);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), nothing);
    stack.now = micros(4500);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), [1]);
}

#[test]
fn ndp_r26_an_echoed_time_is_not_believed_without_bounds() {
    let mut stack = lone_sender(window(1), 9);
    poll_all(&mut stack);
    stack.now = Instant::ZERO + Duration::from_secs(1);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), [0]);
    // Of the sending at time 0, a second ago.
    answer(&mut stack, kind::ACK, 0, Some(2));
    assert_eq!(poll_all(&mut stack), [1]);
    stack.now += Duration::from_millis(32);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), [1], "twice sixteen timeouts, not two seconds");
}

#[test]
fn ndp_r26_the_timer_can_follow_round_trips() {
    let nothing = Vec::<u64>::new();
    let micros = |us| Instant::ZERO + Duration::from_micros(us);
    let config = NdpConfig { timer: Some(NdpTimer::Rtt), ..window(2) };
    // Nothing measured yet: 20 times `rto`.
    let mut stack = lone_sender(config.clone(), 2);
    assert_eq!(poll_all(&mut stack), [0, 1]);
    stack.now = micros(19_900);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), nothing);
    stack.now = micros(20_000);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), [1, 0]);
    // One round trip of 900 µs, with a deviation of half of it: 2.7 ms.
    let mut stack = lone_sender(config, 2);
    assert_eq!(poll_all(&mut stack), [0, 1]);
    stack.now = micros(900);
    answer(&mut stack, kind::NACK, 0, None);
    stack.now = micros(2_600);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), nothing);
    stack.now = micros(2_700);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), [1]);
}

#[test]
fn the_paper_s_variant_has_none_of_our_rules() {
    let paper = |initial_window| NdpConfig { variant: NdpVariant::Paper, ..window(initial_window) };
    // R28, R29 and R31 are off until their keys are set.
    assert!(!paper(2).follows_path() && paper(2).pull_burst == 0);
    // R18: a needless retransmission costs nothing. R26: the timer is `rto`, whatever came late.
    let mut stack = lone_sender(paper(2), 9);
    assert_eq!(poll_all(&mut stack), [0, 1]);
    stack.now = Instant::ZERO + Duration::from_micros(900);
    answer(&mut stack, kind::NACK, 0, None);
    stack.now = Instant::ZERO + Duration::from_millis(1);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), [1]);
    answer(&mut stack, kind::ACK, 1, Some(1));
    assert_eq!(poll_all(&mut stack), [0]);
    // R25: answers take each path in turn.
    let mut pair = Pair::new(paper(10), PairPath { paths: 8, ..PairPath::default() });
    start(&mut pair, 60);
    assert!(pair.run_until_done(LIMIT));
    let paths: Vec<u32> = sent(&pair, Direction::Backward).iter().map(|(_, _, p)| p.path).collect();
    assert!(paths.windows(2).all(|w| (w[0] + 1) % 8 == w[1]), "each in turn: {paths:?}");
}

#[test]
fn each_rule_of_ours_has_a_switch() {
    let ours = NdpConfig::default();
    let paper = NdpConfig { variant: NdpVariant::Paper, ..NdpConfig::default() };
    let rules =
        |c: &NdpConfig| (c.repays_duplicates(), c.echoes_paths(), c.timer(), c.charges_headers());
    assert_eq!(rules(&ours), (true, true, NdpTimer::Slowest, true));
    assert_eq!(rules(&paper), (false, false, NdpTimer::Fixed, false));
    let all = |base: &NdpConfig, ours: bool, paths, timer| NdpConfig {
        repay_duplicates: Some(ours),
        answer_paths: Some(paths),
        timer: Some(timer),
        charge_headers: Some(ours),
        ..base.clone()
    };
    let off = all(&ours, false, AnswerPaths::Spray, NdpTimer::Fixed);
    let on = all(&paper, true, AnswerPaths::DataPath, NdpTimer::Slowest);
    assert_eq!((rules(&off), rules(&on)), (rules(&paper), rules(&ours)));
}
