//! One test for each rule of DCTCP in `rules.md`.

use super::*;
use punctual_core::Ecn;
use punctual_testkit::Fault;

fn plain_dctcp() -> DctcpConfig {
    DctcpConfig { handshake: false, ..DctcpConfig::default() }
}

/// Marks these data packets, counted as they leave.
fn mark(numbers: &'static [u64]) -> impl FnMut(&Packet, u64) -> Fault {
    move |packet, index| {
        if is_data(packet) && numbers.contains(&index) { Fault::Mark } else { Fault::Deliver }
    }
}

#[test]
fn dctcp_r01_data_may_be_marked_and_nothing_else() {
    let (mut pair, _) = pair(DctcpConfig::default(), packets(20));
    assert!(pair.run_until_done(late()));
    for t in pair.trace() {
        let ecn = if is_data(&t.packet) { Ecn::Capable } else { Ecn::NotCapable };
        assert_eq!(t.packet.ecn(), ecn);
    }
    let (mut pair, _) = super::pair(TcpConfig::default(), packets(20));
    assert!(pair.run_until_done(late()));
    assert!(pair.trace().iter().all(|t| t.packet.ecn() == Ecn::NotCapable));
}

#[test]
fn dctcp_r02_each_ack_echoes_its_packet() {
    let (mut pair, _) = pair(plain_dctcp(), packets(8));
    pair.set_faults(mark(&[2, 3, 6]));
    assert!(pair.run_until_done(late()));
    let echoes: Vec<_> = acks(&pair).iter().map(|h| h.has(TcpFlags::MARKED)).collect();
    assert_eq!(echoes, [false, false, true, true, false, false, true, false]);
}

#[test]
fn dctcp_r02_delayed_acks_change_state_at_once() {
    let config = DctcpConfig { delayed_ack: Some(Duration::from_millis(1)), ..plain_dctcp() };
    let (mut pair, _) = pair(config, packets(8));
    pair.set_faults(mark(&[2, 3, 4]));
    assert!(pair.run_until_done(late()));
    let echoes: Vec<_> =
        acks(&pair).iter().map(|h| (h.ack / MSS, h.has(TcpFlags::MARKED))).collect();
    // 5 is acknowledged alone because the next packet is not marked.
    assert_eq!(echoes, [(2, false), (4, true), (5, true), (7, false), (8, false)]);
}

#[test]
fn dctcp_r03_alpha_is_a_running_average() {
    let gain = Fraction::from_f64(1.0 / 16.0);
    // marked, acked, α as a multiple of 2⁻²⁰
    let table = [
        (10, 10, 1_048_576),
        (0, 10, 983_040),
        (0, 10, 921_600),
        (5, 10, 896_768),
        (1, 3, 862_565),
        (0, 1, 808_655),
        (7, 7, 823_651),
    ];
    let (mut alpha, mut real) = (Fraction::ONE, 1.0);
    for (marked, acked, expected) in table {
        alpha = next_alpha(alpha, gain, marked, acked);
        real = real * 15.0 / 16.0 + marked as f64 / acked as f64 / 16.0;
        assert_eq!(alpha.bits(), expected);
        assert!((alpha.as_f64() - real).abs() < 1e-5);
    }
    // Without marks it reaches 0.
    let windows = (0..).take_while(|_| {
        alpha = next_alpha(alpha, gain, 0, 1);
        alpha > Fraction::ZERO
    });
    assert!((150..250).contains(&windows.count()));
}

#[test]
fn dctcp_r03_alpha_moves_once_per_window() {
    let (mut pair, flow) = pair(plain_dctcp(), packets(1000));
    let mut alphas = Vec::new();
    for n in 1..=3 {
        pair.run_until(Instant::ZERO + round_trip() * n);
        alphas.push(pair.sender(flow).unwrap().law().alpha().bits());
    }
    // The first acknowledgement of each round ends a window without marks.
    assert_eq!(alphas, [983_040, 921_600, 864_000]);
}

fn feedback(una: u64, next: u64, marked: bool) -> Feedback {
    Feedback {
        now: Instant::ZERO,
        newly_acked_bytes: 10,
        marked,
        una,
        next,
        cwnd_bytes: 100,
        slow_start: false,
        remaining_bytes: 1000,
        smoothed_rtt: None,
    }
}

fn law(config: &DctcpConfig) -> (DctcpLaw, DctcpParams) {
    let pair = Pair::new(config.clone(), path());
    (DctcpLaw::new(&config.params(), &pair.spec(Bytes::ZERO)), config.params())
}

#[test]
fn dctcp_r04_cuts_once_per_window() {
    let (mut law, params) = law(&DctcpConfig::default());
    let mut react = |una, next, marked| {
        let reaction = law.handle_ack(&feedback(una, next, marked), &params);
        match reaction {
            Reaction::Cut { .. } => 'c',
            Reaction::Hold => 'h',
            _ => 'g',
        }
    };
    // The cut at 20 covers what was sent by then, up to 120.
    let reactions = [
        react(10, 110, false),
        react(20, 120, true),
        react(30, 120, true),
        react(110, 150, false),
        react(120, 160, true),
        react(130, 170, true),
        react(170, 260, false),
        react(180, 270, false),
    ];
    assert_eq!(reactions, ['g', 'c', 'h', 'h', 'h', 'c', 'h', 'g']);
}

#[test]
fn dctcp_r04_cut_is_half_of_alpha() {
    let window = |packets, penalty, floor| {
        let mut window = Window::new(MSS, packets, None, None);
        window.cut(Fraction::from_f64(penalty), floor);
        assert!(!window.in_slow_start() || packets < floor);
        window.cwnd_bytes()
    };
    assert_eq!(window(100, 1.0, 2), 50 * MSS);
    assert_eq!(window(100, 0.5, 2), 75 * MSS);
    assert_eq!(window(100, 0.0, 2), 100 * MSS);
    // Not below the floor, but not up to it either.
    assert_eq!(window(3, 1.0, 2), 2 * MSS);
    assert_eq!(window(1, 1.0, 2), MSS);
}

#[test]
fn dctcp_r05_first_mark_ends_slow_start() {
    let (mut pair, flow) = pair(plain_dctcp(), packets(1000));
    pair.set_faults(mark(&[0]));
    pair.run_until(ack_back(0));
    let window = *pair.sender(flow).unwrap().window();
    // α stays 1, since all of the first window, one packet, was marked.
    assert_eq!(window.cwnd_bytes(), 5 * MSS);
    assert!(!window.in_slow_start());
    pair.run_until(ack_back(9));
    let held = pair.sender(flow).unwrap().window().cwnd_bytes();
    assert_eq!(held, 5 * MSS, "no growth in the window of the cut");
}

#[test]
fn dctcp_r06_loss_halves_as_in_tcp() {
    let config =
        DctcpConfig { initial_alpha: 0.0, initial_ssthresh: Some(packets(10)), ..plain_dctcp() };
    let (mut pair, flow) = pair(config, packets(100));
    pair.set_faults(|packet, index| match index {
        2 if is_data(packet) => Fault::Drop,
        _ => Fault::Deliver,
    });
    pair.run_until(ack_back(5));
    let sender = pair.sender(flow).unwrap();
    assert!(sender.in_recovery());
    assert_eq!(sender.window().ssthresh_bytes(), 6 * MSS);
    assert!(pair.run_until_done(late()));
    assert_eq!(pair.result(flow).timed_out, 0);
}

#[test]
fn dctcp_r06_marks_of_a_lossy_window_do_not_cut_again() {
    let (mut law, params) = law(&DctcpConfig::default());
    law.handle_loss(200);
    assert_eq!(law.handle_ack(&feedback(200, 300, true), &params), Reaction::Hold);
    let later = law.handle_ack(&feedback(210, 300, true), &params);
    assert!(matches!(later, Reaction::Cut { .. }));
}

#[test]
fn dctcp_r07_may_cut_in_every_window() {
    let config =
        DctcpConfig { cut_every_window: true, initial_alpha: 0.0, ..DctcpConfig::default() };
    let (mut law, params) = law(&config);
    let mut react = |una, next, marked| law.handle_ack(&feedback(una, next, marked), &params);
    assert_eq!(react(10, 110, false), Reaction::GROW);
    assert_eq!(react(110, 200, true), Reaction::GROW, "the window has not ended");
    assert!(matches!(react(120, 210, false), Reaction::GrowAndCut { .. }));
    assert_eq!(react(130, 220, false), Reaction::GROW);
    // No mark in the next window either, but α is still above 0.
    assert!(matches!(react(220, 300, false), Reaction::GrowAndCut { .. }));
    let slow_start = Feedback { slow_start: true, ..feedback(230, 310, true) };
    assert_eq!(law.handle_ack(&slow_start, &params), Reaction::EndSlowStart);
}

#[test]
fn dctcp_r07_a_mark_ends_slow_start_at_the_present_window() {
    let mut window = Window::new(MSS, 10, None, None);
    assert!(window.in_slow_start());
    window.end_slow_start();
    assert_eq!((window.cwnd_bytes(), window.ssthresh_bytes()), (10 * MSS, 10 * MSS));
    assert!(!window.in_slow_start());

    // Ten packets, the third marked, and α of the first window, which had no mark, is 0.
    let config = DctcpConfig { cut_every_window: true, initial_alpha: 0.0, ..plain_dctcp() };
    let (mut pair, flow) = pair(config, packets(1000));
    pair.set_faults(mark(&[2]));
    pair.run_until(ack_back(2));
    let window = *pair.sender(flow).unwrap().window();
    assert!(!window.in_slow_start(), "{window:?}");
}

#[test]
fn dctcp_r03_alpha_is_shown_in_time_series() {
    let (law, _) = law(&DctcpConfig { initial_alpha: 0.25, ..DctcpConfig::default() });
    let mut gauges = Vec::new();
    law.gauges(&mut |name, value| gauges.push((name, value)));
    assert_eq!(gauges, [("alpha", 0.25)]);
}

/// A packet more in each window and α/2 less balance at 2/α − 1 packets: 19 with one in ten marked.
#[test]
fn dctcp_r07_windows_grow_that_are_cut() {
    let config = DctcpConfig {
        cut_every_window: true,
        initial_alpha: 0.0,
        initial_ssthresh: Some(packets(10)),
        ..plain_dctcp()
    };
    let (mut pair, flow) = pair(config, packets(5000));
    pair.set_faults(|packet, index| match index % 10 {
        0 if is_data(packet) => Fault::Mark,
        _ => Fault::Deliver,
    });
    let mut windows = Vec::new();
    for acked in (2000..4000).step_by(10) {
        pair.run_until(ack_back(acked));
        windows.push(pair.sender(flow).unwrap().window().cwnd_bytes() as f64 / MSS as f64);
    }
    let mean = windows.iter().sum::<f64>() / windows.len() as f64;
    assert!((18.0..20.0).contains(&mean), "{mean}");
}

#[test]
fn dctcp_r08_default_queue_marks_above_k() {
    let k = |gbps, mtu| match DctcpConfig::default()
        .default_queue(Rate::from_gbps(gbps), Bytes::new(mtu))
    {
        QueueSpec::Ecn { limit: Limit::Packets(limit), mark_above: Limit::Packets(k) } => {
            (limit, k)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(k(1, 1500), (100, 20));
    assert_eq!(k(4, 1500), (100, 35));
    assert_eq!(k(10, 1500), (200, 65));
    assert_eq!(k(40, 1500), (200, 100));
    assert_eq!(k(10, 9000), (200, 30));
}

/// Every packet marked: the window stays at its floor, and data still flows.
#[test]
fn permanent_marks_leave_the_floor() {
    let (mut pair, flow) = pair(plain_dctcp(), packets(200));
    pair.set_faults(|_, _| Fault::Mark);
    assert!(pair.run_until_done(late()));
    assert_eq!(pair.sender(flow).unwrap().window().cwnd_bytes(), 2 * MSS);
    assert_eq!(pair.sender(flow).unwrap().law().alpha(), Fraction::ONE);
}

#[test]
fn without_marks_a_lone_flow_is_tcp() {
    for size in [1, 100_000, 3_000_000] {
        let (mut dctcp, flow) = pair(DctcpConfig::default(), Bytes::new(size));
        let (mut tcp, _) = pair(TcpConfig::default(), Bytes::new(size));
        assert!(dctcp.run_until_done(late()) && tcp.run_until_done(late()));
        assert_eq!(dctcp.result(flow).finished_at, tcp.result(flow).finished_at);
    }
}
