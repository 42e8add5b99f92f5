use super::lone::*;
use super::*;
use punctual_core::{Call, End, ExtArena, HostId, Outbox, Stack};

#[test]
fn ndp_r01_pushes_a_window_at_line_rate_then_waits_for_pulls() {
    let mut pair = pair(window(8));
    start(&mut pair, 100);
    // Before anything can come back, exactly the window has left, back to back.
    pair.run_until(Instant::ZERO + Duration::from_micros(100));
    let data = data(&pair);
    let tx = pair.path().transmission_time(1500);
    for (n, (at, header, packet)) in data.iter().take(8).enumerate() {
        assert_eq!(header.seq, n as u64);
        assert!(header.has(flags::SYN), "of the first window");
        assert_eq!(packet.wire_bytes, 1500);
        assert_eq!(*at, Instant::ZERO + tx * n as u64);
    }
    assert!(!data[8].1.has(flags::SYN));
    let first_answer = control(&pair, kind::ACK)[0].0;
    assert!(data[8].0 > first_answer, "the ninth was pulled");
}

#[test]
fn ndp_r01_a_short_flow_pushes_only_what_it_has() {
    let mut pair = pair(window(30));
    let spec = pair.spec(Bytes::new(PAYLOAD + 1));
    let flow = pair.start(spec);
    assert!(pair.run_until_done(LIMIT));
    let data = data(&pair);
    assert_eq!(numbers(&pair), [0, 1]);
    assert!(!data[0].1.has(flags::LAST) && data[1].1.has(flags::LAST));
    assert_eq!(data[1].2.wire_bytes, 65);
    assert_eq!(pair.result(flow).retransmitted, 0);
}

#[test]
fn ndp_r02_a_nack_alone_sends_nothing() {
    let mut stack = lone_sender(window(2), 10);
    assert_eq!(poll_all(&mut stack), [0, 1]);
    answer(&mut stack, kind::NACK, 0, None);
    assert_eq!(poll_all(&mut stack), Vec::<u64>::new());
    answer(&mut stack, kind::ACK, 1, None);
    assert_eq!(poll_all(&mut stack), Vec::<u64>::new());
    pull(&mut stack, 1);
    assert_eq!(poll_all(&mut stack), [0], "what was trimmed goes first");
}

#[test]
fn ndp_r03_pull_numbers_are_cumulative_and_late_ones_do_nothing() {
    let mut stack = lone_sender(window(1), 20);
    assert_eq!(poll_all(&mut stack), [0]);
    pull(&mut stack, 3);
    assert_eq!(poll_all(&mut stack), [1, 2, 3], "two pulls were lost, the third makes up");
    pull(&mut stack, 2);
    assert_eq!(poll_all(&mut stack), Vec::<u64>::new());
    pull(&mut stack, 4);
    assert_eq!(poll_all(&mut stack), [4]);
}

#[test]
fn ndp_r03_pull_numbers_wrap() {
    let mut stack = lone_sender(window(1), 20);
    assert_eq!(poll_all(&mut stack), [0]);
    // Half the numbers ahead is as far as can be told from behind.
    for number in [(1 << 31) - 1, u32::MAX - 1] {
        pull(&mut stack, number);
        poll_all(&mut stack);
    }
    let mut stack = lone_sender(window(1), u64::MAX / PAYLOAD);
    poll_all(&mut stack);
    pull(&mut stack, u32::MAX);
    assert_eq!(poll_all(&mut stack), Vec::<u64>::new(), "behind the start: nothing");
}

#[test]
fn ndp_r04_each_path_once_in_an_order_drawn_anew() {
    let mut pair = Pair::new(window(64), PairPath { paths: 16, ..PairPath::default() });
    start(&mut pair, 64);
    assert!(pair.run_until_done(LIMIT));
    let paths: Vec<u16> = data(&pair).iter().map(|(_, h, _)| h.path).collect();
    let rounds: Vec<&[u16]> = paths.chunks(16).collect();
    for round in &rounds {
        let mut sorted = round.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..16).collect::<Vec<u16>>());
    }
    assert_ne!(rounds[0], rounds[1]);
}

#[test]
fn ndp_r05_a_packet_sent_again_takes_another_path() {
    for seed in 0..50 {
        let mut pair = Pair::new(window(4), PairPath { paths: 2, seed, ..PairPath::default() });
        pair.set_faults(nth(kind::DATA, 1, Fault::Trim));
        start(&mut pair, 4);
        assert!(pair.run_until_done(LIMIT));
        let second: Vec<u16> =
            data(&pair).iter().filter(|(_, h, _)| h.seq == 1).map(|(_, h, _)| h.path).collect();
        assert_eq!(second.len(), 2);
        assert_ne!(second[0], second[1]);
    }
}

#[test]
fn ndp_r06_a_bounce_waits_for_a_pull_while_others_are_unaccounted_for() {
    let mut stack = lone_sender(window(4), 4);
    assert_eq!(poll_all(&mut stack), [0, 1, 2, 3]);
    bounce(&mut stack, 2);
    assert_eq!(poll_all(&mut stack), Vec::<u64>::new(), "an incast: wait");
    bounce(&mut stack, 1);
    bounce(&mut stack, 3);
    // With three of four accounted for and no pull to come, the last word decides.
    assert_eq!(poll_all(&mut stack), [3], "the front of the line");
    bounce(&mut stack, 0);
    assert_eq!(poll_all(&mut stack), [0]);
}

#[test]
fn ndp_r06_a_bounce_among_acks_is_a_bad_path_and_sent_at_once() {
    let mut stack = lone_sender(window(6), 12);
    poll_all(&mut stack);
    answer(&mut stack, kind::ACK, 0, None);
    bounce(&mut stack, 1);
    assert_eq!(poll_all(&mut stack), [1], "half of the feedback are ACKs");
}

#[test]
fn ndp_r06_a_bounce_while_pulls_are_due_waits() {
    let mut stack = lone_sender(window(4), 12);
    poll_all(&mut stack);
    for seq in 0..3 {
        answer(&mut stack, kind::NACK, seq, None);
    }
    bounce(&mut stack, 3);
    assert_eq!(poll_all(&mut stack), Vec::<u64>::new(), "three pulls are on their way");
    pull(&mut stack, 1);
    assert_eq!(poll_all(&mut stack), [3], "at the front");
}

#[test]
fn ndp_r07_a_packet_unheard_of_goes_again_on_another_path_after_the_timeout() {
    let mut pair = pair(window(4));
    pair.set_faults(nth(kind::DATA, 2, Fault::Drop));
    let flow = start(&mut pair, 4);
    assert!(pair.run_until_done(LIMIT));
    let third: Vec<(Instant, u16)> =
        data(&pair).iter().filter(|(_, h, _)| h.seq == 2).map(|(at, h, _)| (*at, h.path)).collect();
    assert_eq!(third.len(), 2);
    assert_eq!(third[1].0 - third[0].0, Duration::from_millis(1));
    assert_ne!(third[0].1, third[1].1);
    assert_eq!((pair.result(flow).timed_out, pair.result(flow).retransmitted), (1, 1));
}

#[test]
fn ndp_r08_what_waits_for_a_pull_does_not_time_out() {
    let mut stack = lone_sender(window(2), 2);
    poll_all(&mut stack);
    answer(&mut stack, kind::NACK, 0, None);
    answer(&mut stack, kind::NACK, 1, None);
    stack.now = Instant::ZERO + Duration::from_millis(50);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), Vec::<u64>::new(), "the receiver has heard; it will pull");
}

#[test]
fn ndp_r09_a_sender_forgotten_asks_for_itself() {
    let mut stack = lone_sender(window(2), 2);
    poll_all(&mut stack);
    answer(&mut stack, kind::NACK, 0, None);
    answer(&mut stack, kind::NACK, 1, None);
    stack.now = Instant::ZERO + Duration::from_millis(63);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), Vec::<u64>::new());
    stack.now = Instant::ZERO + Duration::from_millis(64);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), [0]);
}

#[test]
fn ndp_r09_a_packet_sent_meanwhile_has_its_own_timeout() {
    let mut stack = lone_sender(window(2), 2);
    poll_all(&mut stack);
    answer(&mut stack, kind::NACK, 0, None);
    answer(&mut stack, kind::NACK, 1, None);
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    stack.now = at(1);
    stack.timeout();
    // Nothing is in flight, and the timer is set to 64 ms. Then a pull arrives, and its packet is
    // lost.
    stack.now = at(5);
    pull(&mut stack, 1);
    assert_eq!(poll_all(&mut stack), [0]);
    assert_eq!(stack.timer(), Some(at(6)));
    stack.now = at(6);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), [0], "after one timeout");
}

#[test]
fn ndp_r10_stale_feedback_is_ignored() {
    let mut stack = lone_sender(window(1), 1);
    poll_all(&mut stack);
    answer(&mut stack, kind::NACK, 0, Some(1));
    stack.now = Instant::ZERO + Duration::from_micros(10);
    assert_eq!(poll_all(&mut stack), [0]);
    // The same NACK once more, of the first sending: the second is still under way.
    answer(&mut stack, kind::NACK, 0, None);
    pull(&mut stack, 2);
    assert_eq!(poll_all(&mut stack), Vec::<u64>::new());
}

#[test]
fn ndp_r10_every_arrival_is_answered_at_once() {
    let mut pair = pair(window(10));
    pair.set_faults(nth(kind::DATA, 4, Fault::Trim));
    start(&mut pair, 10);
    assert!(pair.run_until_done(LIMIT));
    let nacks = control(&pair, kind::NACK);
    assert_eq!(nacks.len(), 1);
    assert_eq!(nacks[0].1.seq, 4);
    let mut acks: Vec<u64> = control(&pair, kind::ACK).iter().map(|(_, h, _)| h.seq).collect();
    acks.sort_unstable();
    assert_eq!(acks, (0..10).collect::<Vec<u64>>());
    // Echoes tell the sender which sending of the packet was meant.
    let first = &data(&pair)[4];
    assert_eq!((nacks[0].1.path, nacks[0].1.sent_at), (first.1.path, stamp(first.0)));
}

#[test]
fn ndp_r11_one_pull_for_each_arrival_whole_trimmed_or_again() {
    let mut pair = pair(window(10));
    pair.set_faults(|packet, index| match (NdpHeader::of(packet).kind, index) {
        (kind::DATA, 1) => Fault::Trim,
        (kind::DATA, 3) => Fault::Duplicate,
        _ => Fault::Deliver,
    });
    start(&mut pair, 1000);
    pair.run_until(Instant::ZERO + Duration::from_micros(100));
    let pulled = sent(&pair, Direction::Backward)
        .iter()
        .filter(|(_, h, _)| h.kind == kind::PULL || h.has(flags::PULL))
        .count();
    let last = sent(&pair, Direction::Backward)
        .iter()
        .filter(|(_, h, _)| h.kind == kind::PULL || h.has(flags::PULL))
        .map(|(_, h, _)| h.pull)
        .max();
    assert_eq!(last, Some(pulled as u32), "numbers count pulls");
}

/// When the pull of this number left.
fn pulled(pair: &Pair<NdpConfig>, number: u32) -> Instant {
    let has_pull = |h: &NdpHeader| h.kind == kind::PULL || h.has(flags::PULL);
    let packets = sent(pair, Direction::Backward);
    let found = packets.iter().find(|(_, h, _)| has_pull(h) && h.pull == number);
    found.expect("it left").0
}

/// A first window of 20, all trimmed, on Ethernet: headers come faster than pulls may leave.
fn twenty_trimmed(config: NdpConfig) -> Pair<NdpConfig> {
    let line = PairPath { framing: Bytes::new(38), ..PairPath::default() };
    let mut pair = Pair::new(NdpConfig { initial_window: 20, ..config }, line);
    let mut to_trim = 20u32;
    pair.set_faults(move |packet, _| {
        let is_data = NdpHeader::of(packet).kind == kind::DATA && to_trim > 0;
        to_trim -= u32::from(is_data);
        if is_data { Fault::Trim } else { Fault::Deliver }
    });
    start(&mut pair, 40);
    assert!(pair.run_until_done(LIMIT));
    pair
}

#[test]
fn ndp_r12_pulls_are_spaced_by_a_packet_on_the_wire() {
    let nic = NicInfo { framing: Bytes::new(38), ..super::lone::nic(0) };
    let spacing = |config: &NdpConfig| {
        let mut queue = PullQueue::new(config, &nic);
        let line = queue.open(FlowId(0), 0, &super::lone::route(), Instant::ZERO);
        assert_eq!(queue.add(line, 0, 0, Instant::ZERO), Some(1), "at once");
        queue.next_at() - Instant::ZERO
    };
    let on_link = |bytes| nic.rate.transmission_time(Bytes::new(bytes));
    // 1,436 bytes of data, 64 of headers and 38 of framing.
    assert_eq!(spacing(&NdpConfig::default()), on_link(1538));
    let smaller = NdpConfig { payload: Some(Bytes::new(1000)), ..NdpConfig::default() };
    assert_eq!(spacing(&smaller), on_link(1102));
}

/// The first window arrives long before the packets of its first pulls do, so that only the pacer
/// itself makes pulls leave.
#[test]
fn ndp_r12_pulls_that_wait_leave_without_further_arrivals() {
    let spacing = Duration::from_micros(3);
    let far = PairPath { delay: Duration::from_micros(500), ..PairPath::default() };
    let mut pair = Pair::new(NdpConfig { pull_spacing: Some(spacing), ..window(20) }, far);
    start(&mut pair, 40);
    assert!(pair.run_until_done(LIMIT));
    // A pull may have to wait for an ACK that is being sent.
    let ack = pair.path().rate.transmission_time(Bytes::new(64));
    let first = pulled(&pair, 1);
    for number in 2..=20 {
        let (slot, at) = (first + spacing * u64::from(number - 1), pulled(&pair, number));
        assert!((slot..=slot + ack).contains(&at), "{number}: {at:?}, its slot is {slot:?}");
    }
}

#[test]
fn ndp_r27_a_header_takes_its_time_on_the_link_too() {
    let spacing = Duration::from_micros(3);
    let pair = twenty_trimmed(NdpConfig { pull_spacing: Some(spacing), ..NdpConfig::default() });
    // Nineteen headers came between the first pull and the twentieth, each with framing.
    let header = pair.path().rate.transmission_time(Bytes::new(64 + 38));
    assert_eq!(pulled(&pair, 20) - pulled(&pair, 1), (spacing + header) * 19);
}

#[test]
fn ndp_r27_a_header_is_charged_its_own_size() {
    let nic = NicInfo { framing: Bytes::new(38), ..super::lone::nic(0) };
    let charged = |config: &NdpConfig, wire_bytes| {
        let mut queue = PullQueue::new(config, &nic);
        queue.charge_header(wire_bytes);
        queue.next_at() - Instant::ZERO
    };
    for wire_bytes in [64, 128, 256] {
        let time = nic.rate.transmission_time(Bytes::new(u64::from(wire_bytes) + 38));
        assert_eq!(charged(&NdpConfig::default(), wire_bytes), time);
        let paper = NdpConfig { variant: NdpVariant::Paper, ..NdpConfig::default() };
        assert_eq!(charged(&paper, wire_bytes), Duration::ZERO);
    }
}

#[test]
fn ndp_r12_a_pull_rides_on_the_answer_when_none_waits() {
    let mut pair = pair(window(1));
    start(&mut pair, 3);
    assert!(pair.run_until_done(LIMIT));
    let acks = control(&pair, kind::ACK);
    assert!(acks[0].1.has(flags::PULL) && acks[0].1.pull == 1);
    assert!(control(&pair, kind::PULL).is_empty());
}

#[test]
fn ndp_r13_flows_take_turns_at_the_pull_queue() {
    // Pulls slower than arrivals, so that they queue.
    let config = NdpConfig { pull_spacing: Some(Duration::from_micros(3)), ..window(10) };
    let mut pair = pair(config);
    let flows: Vec<FlowId> = (0..4).map(|_| start(&mut pair, 200)).collect();
    pair.run_until(Instant::ZERO + Duration::from_micros(200));
    let order: Vec<FlowId> = control(&pair, kind::PULL).iter().map(|(_, _, p)| p.flow).collect();
    let counts: Vec<usize> =
        flows.iter().map(|f| order.iter().filter(|o| *o == f).count()).collect();
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(order.len() > 50, "{order:?}");
    assert!(most - least <= 3, "{counts:?}");
}

#[test]
fn ndp_r14_completion_flushes_the_pulls_that_wait() {
    let mut pair = pair(window(30));
    let flow = start(&mut pair, 30);
    assert!(pair.run_until_done(LIMIT));
    let completed = pair.result(flow).completed_at.unwrap();
    assert!(control(&pair, kind::PULL).iter().all(|(at, _, _)| *at <= completed));
    assert_eq!(pair.stack().shared(HostId(1)).pending(), 0);
}

#[test]
fn ndp_r15_any_packet_of_the_first_window_opens_the_connection() {
    for lost in 0..3 {
        let mut pair = pair(window(5));
        pair.set_faults(move |packet, _| {
            let header = NdpHeader::of(packet);
            if header.kind == kind::DATA && header.seq <= lost && header.sent_at < 900_000_000 {
                Fault::Drop
            } else {
                Fault::Deliver
            }
        });
        let flow = start(&mut pair, 5);
        assert!(pair.run_until_done(LIMIT));
        assert_eq!(pair.result(flow).timed_out, lost + 1);
    }
}

#[test]
fn ndp_r16_a_lost_pull_is_made_up_for_by_the_receiver() {
    // The window is one packet, so that nothing else moves when the pull is lost.
    let mut pair = pair(window(1));
    pair.set_faults(nth(kind::ACK, 1, Fault::Drop));
    let flow = start(&mut pair, 6);
    assert!(pair.run_until_done(LIMIT));
    assert!(pair.result(flow).completed_at.is_some());
}

/// Three packets arrive, then the one for the first pull; the other three pulls are lost. All data
/// is acknowledged, so that only the receiver's timer can go on.
#[test]
fn ndp_r16_the_last_pull_is_repeated_after_a_timeout() {
    let spacing = Some(Duration::from_micros(100));
    let mut pair = pair(NdpConfig { pull_spacing: spacing, ..window(3) });
    let mut to_lose = 3;
    pair.set_faults(move |packet, _| {
        let is_lost = NdpHeader::of(packet).kind == kind::PULL && to_lose > 0;
        to_lose -= u32::from(is_lost);
        if is_lost { Fault::Drop } else { Fault::Deliver }
    });
    let flow = start(&mut pair, 7);
    assert!(pair.run_until_done(LIMIT));
    assert_eq!(pair.result(flow).retransmitted, 0);
    let pulls: Vec<(Instant, u32)> =
        control(&pair, kind::PULL).iter().map(|(at, h, _)| (*at, h.pull)).collect();
    assert_eq!(pulls.iter().map(|(_, number)| *number).take(4).collect::<Vec<_>>(), [2, 3, 4, 4]);
    let heard_last = control(&pair, kind::ACK)[3].0;
    assert_eq!(pulls[3].0 - heard_last, NdpConfig::default().rto);
}

#[test]
fn ndp_r16_a_repeated_pull_restarts_a_sender_that_has_nothing_under_way() {
    let mut stack = lone_sender(window(2), 6);
    assert_eq!(poll_all(&mut stack), [0, 1]);
    answer(&mut stack, kind::ACK, 0, Some(1));
    assert_eq!(poll_all(&mut stack), [2]);
    pull(&mut stack, 1);
    assert_eq!(poll_all(&mut stack), Vec::<u64>::new(), "two are under way: a mere duplicate");
    for seq in 1..3 {
        answer(&mut stack, kind::ACK, seq, None);
    }
    // The pulls for those two were lost for good.
    pull(&mut stack, 1);
    assert_eq!(poll_all(&mut stack), [3]);
}

#[test]
fn ndp_r17_absurd_packet_numbers_are_refused() {
    let mut pair = pair(window(2));
    let spec = pair.spec(Bytes::ENDLESS);
    let flow = pair.start(spec);
    pair.run_until(Instant::ZERO + Duration::from_micros(50));
    let before = pair.receiver(flow).expect("open").is_complete();
    assert!(!before);
    let mut stack: Stack<NdpConfig> = Stack::new(NdpConfig::default(), &[nic(0)]);
    let (mut ext, mut out) = (ExtArena::default(), Outbox::default());
    let mut packet = data_header(u64::MAX - 1, u64::MAX);
    packet.payload_bytes = 1436;
    fn call<'a>(ext: &'a mut ExtArena, out: &'a mut Outbox) -> Call<'a> {
        Call { now: Instant::ZERO, host: HostId(0), ext, out }
    }
    let slot = stack.open_receiver(&packet, &route(), call(&mut ext, &mut out));
    stack.handle_packet(End::Receiver, slot, &packet, call(&mut ext, &mut out));
    assert!(out.packets.is_empty() && out.events.is_empty(), "not answered, not counted");
}

#[test]
fn ndp_r18_a_needless_retransmission_is_paid_back() {
    let mut stack = lone_sender(window(1), 9);
    assert_eq!(poll_all(&mut stack), [0]);
    stack.now = Instant::ZERO + Duration::from_millis(1);
    stack.timeout();
    assert_eq!(poll_all(&mut stack), [0]);
    // The first sending was only late: its ACK echoes the time 0.
    answer(&mut stack, kind::ACK, 0, Some(1));
    assert_eq!(poll_all(&mut stack), Vec::<u64>::new());
    // The duplicate is answered and pulled for too: one packet in flight, as before.
    answer(&mut stack, kind::ACK, 0, Some(2));
    assert_eq!(poll_all(&mut stack), [1]);
}

#[test]
fn parameters_are_checked() {
    assert!(NdpConfig::default().validate().is_ok());
    let bad = [
        NdpConfig { initial_window: 0, ..NdpConfig::default() },
        NdpConfig { rto: Duration::ZERO, ..NdpConfig::default() },
        NdpConfig { payload: Some(Bytes::ZERO), ..NdpConfig::default() },
        NdpConfig { payload: Some(Bytes::new(70_000)), ..NdpConfig::default() },
        NdpConfig { pull_jitter: vec![(1.5, Duration::from_micros(1))], ..NdpConfig::default() },
        NdpConfig {
            pull_jitter: vec![(0.5, Duration::from_micros(2)), (0.9, Duration::from_micros(1))],
            ..NdpConfig::default()
        },
    ];
    assert!(bad.iter().all(|config| config.validate().is_err()));
    let fits = |payload: u64, mtu| {
        let config = NdpConfig { payload: Some(Bytes::new(payload)), ..NdpConfig::default() };
        let nic = NicInfo { mtu: Bytes::new(mtu), ..super::lone::nic(0) };
        config.check_nic(&nic).is_ok()
    };
    assert!(fits(1436, 1500) && fits(9000, 9064), "64 bytes of headers");
    assert!(!fits(1437, 1500) && !fits(9000, 9000), "more than the MTU");
}

/// A pull queue with one flow and a slot every 10 µs, and the flow's line.
fn pull_queue(pull_burst: u32) -> (PullQueue, u32) {
    let config = NdpConfig {
        pull_burst,
        pull_spacing: Some(Duration::from_micros(10)),
        ..NdpConfig::default()
    };
    let mut queue = PullQueue::new(&config, &super::lone::nic(0));
    let route = FlowRoute::of(1, FlowId(1), HostId(0), HostId(1), 1, 1);
    let line = queue.open(FlowId(1), 0, &route, Instant::ZERO);
    (queue, line)
}

/// The pulls that leave with their ACKs, of packets that arrive at these times in µs.
fn pulls_at(pull_burst: u32, times: &[u64]) -> usize {
    let (mut queue, line) = pull_queue(pull_burst);
    let at = |micros| Instant::ZERO + Duration::from_micros(micros);
    times.iter().filter(|time| queue.add(line, 0, 0, at(**time)).is_some()).count()
}

/// Slots are at 100, 110, 120 … µs. Packets come 3 µs late, but every other one on time.
#[test]
fn ndp_r31_a_late_pull_keeps_its_slot() {
    let times = [100, 113, 120, 133, 140, 153, 160];
    assert_eq!(pulls_at(1, &times), times.len());
    // 120 is before 123, the slot after a pull at 113. The pull then waits, and so do all others.
    assert_eq!(pulls_at(0, &times), 2);
}

#[test]
fn ndp_r31_a_pause_brings_a_burst_at_most() {
    let after_a_pause = [1_000; 20];
    for burst in [0, 1, 8] {
        assert_eq!(pulls_at(burst, &after_a_pause), burst as usize + 1, "{burst}");
    }
}
