//! One test for each rule of D2TCP in `rules.md`.

use super::*;
use punctual_testkit::Fault;

fn plain_d2tcp() -> D2tcpConfig {
    D2tcpConfig { handshake: false, ..D2tcpConfig::default() }
}

fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Marks one packet in `every`, after the first hundred, and loses one in 997 if asked to.
fn marks_and_losses(every: u64, lose: bool) -> impl FnMut(&Packet, u64) -> Fault {
    move |packet, index| match index {
        n if lose && n % 997 == 300 => Fault::Drop,
        n if is_data(packet) && n > 100 && n % every < 3 => Fault::Mark,
        _ => Fault::Deliver,
    }
}

/// A run of one flow: the time of each packet, and its bytes.
fn packets_of<T: Transport>(
    config: T,
    deadline: Option<Instant>,
    every: u64,
    lose: bool,
) -> Vec<(Instant, String)> {
    let mut pair = Pair::new(config, path());
    let spec = FlowSpec { deadline, ..pair.spec(packets(3000)) };
    pair.start(spec);
    pair.set_faults(marks_and_losses(every, lose));
    assert!(pair.run_until_done(late()));
    pair.trace().iter().map(|t| (t.at, format!("{:?}", t.packet))).collect()
}

#[test]
fn d2tcp_r01_d_of_one_is_dctcp_packet_for_packet() {
    let one = D2tcpConfig { d_min: 1.0, d_max: 1.0, ..D2tcpConfig::default() };
    for (every, lose) in [(50, false), (300, false), (70, true)] {
        let dctcp = packets_of(DctcpConfig::default(), None, every, lose);
        assert!(dctcp.len() > 6000);
        assert_eq!(packets_of(one.clone(), Some(at_ms(9)), every, lose), dctcp);
        assert_eq!(packets_of(one.clone(), Some(at_ms(1)), every, lose), dctcp, "missed");
        // And the comparison can tell: with other d it is another run.
        let other = D2tcpConfig { d_min: 2.0, ..D2tcpConfig::default() };
        assert_ne!(packets_of(other, Some(at_ms(9000)), every, lose), dctcp);
    }
}

/// Largest |p − α^d| over these α.
fn worst(alphas: impl Iterator<Item = u32>, d: Imminence) -> f64 {
    let error = |bits| {
        let alpha = Fraction::from_bits(bits);
        (power(alpha, d).as_f64() - alpha.as_f64().powf(d.as_f64())).abs()
    };
    alphas.map(error).fold(0.0, f64::max)
}

#[test]
fn d2tcp_r02_penalty_is_alpha_to_the_d() {
    let one = Fraction::ONE.bits();
    let mut most: f64 = 0.0;
    // Every α with seventeen d, then every α in 1009 with every d in 61.
    for d in
        [0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 0.99, 1.0, 1.01, 1.2, 1.5, 2.0, 2.5, 3.0, 3.7, 4.0]
    {
        most = most.max(worst(0..=one, Imminence::from_f64(d)));
    }
    for bits in (Imminence::LEAST.bits()..=Imminence::MOST.bits()).step_by(61) {
        let d = Imminence::from_f64(f64::from(bits) / 65536.0);
        assert_eq!(d.bits(), bits);
        most = most.max(worst((0..=one).step_by(1009), d));
    }
    println!("integer penalty: largest error {most:.3e}");
    assert!(most < 1e-5, "{most}");
}

#[test]
fn d2tcp_r02_penalty_is_rounded_to_the_nearest_multiple() {
    let power_of_two = |exponent: u32| Fraction::from_bits(Fraction::ONE.bits() >> exponent);
    // α = 2^−a, so that p = 2^−(a·d) in multiples of 2⁻²⁰.
    let table = [(10, 2.0, 1), (7, 3.0, 1), (11, 2.0, 0), (5, 4.0, 1), (18, 0.25, 46_341)];
    for (a, d, bits) in table {
        assert_eq!(power(power_of_two(a), Imminence::from_f64(d)).bits(), bits, "2^-{a} ^ {d}");
    }
}

#[test]
fn d2tcp_r02_tables_are_rounded_to_the_nearest_multiple() {
    let [log2, exp2] = power_tables();
    let unit = f64::from(1 << 30);
    for i in 0..=256 {
        let x = i as f64 / 256.0;
        let errors =
            [f64::from(log2[i]) - (1.0 + x).log2() * unit, f64::from(exp2[i]) - x.exp2() * unit];
        // Half a unit, and 2⁻²² for the rounding of `f64`.
        assert!(errors.iter().all(|error| error.abs() < 0.5 + 1e-6), "{i}: {errors:?}");
    }
}

#[test]
fn d2tcp_r02_ends_are_exact_and_order_is_kept() {
    let ends = [Imminence::LEAST, Imminence::ONE, Imminence::MOST].map(Imminence::as_f64);
    assert_eq!(ends, [0.25, 1.0, 4.0]);
    for bits in (Imminence::LEAST.bits()..=Imminence::MOST.bits()).step_by(997) {
        let d = Imminence::from_f64(f64::from(bits) / 65536.0);
        assert_eq!(power(Fraction::ZERO, d), Fraction::ZERO);
        assert_eq!(power(Fraction::ONE, d), Fraction::ONE);
        let mut before = Fraction::ZERO;
        for alpha in (0..=Fraction::ONE.bits()).step_by(331).map(Fraction::from_bits) {
            let p = power(alpha, d);
            assert!(p >= before, "α {alpha:?}, d {d:?}");
            before = p;
        }
    }
    for alpha in (0..=Fraction::ONE.bits()).map(Fraction::from_bits) {
        assert_eq!(power(alpha, Imminence::ONE), alpha);
    }
}

fn feedback(una: u64, next: u64, marked: bool) -> Feedback {
    Feedback {
        now: at_ms(10),
        newly_acked_bytes: 10,
        marked,
        una,
        next,
        cwnd_bytes: 12_000,
        slow_start: false,
        remaining_bytes: 90_000,
        smoothed_rtt: Some(Duration::from_millis(1)),
    }
}

fn law(config: &D2tcpConfig, deadline: Option<Instant>) -> (D2tcpLaw, D2tcpParams) {
    let pair = Pair::new(config.clone(), path());
    let spec = FlowSpec { deadline, ..pair.spec(Bytes::ZERO) };
    (D2tcpLaw::new(&config.params(), &spec), config.params())
}

fn d(config: &D2tcpConfig, deadline_ms: Option<u64>, ack: &Feedback) -> f64 {
    imminence(deadline_ms.map(at_ms), ack, &config.params()).as_f64()
}

#[test]
fn d2tcp_r02_alpha_is_not_touched() {
    let config = D2tcpConfig { initial_alpha: 0.5, ..plain_d2tcp() };
    let (mut near, params) = law(&config, Some(at_ms(15)));
    let (mut none, _) = law(&config, None);
    for n in 1..50 {
        let ack = feedback(n * 10, n * 10 + 100, n % 3 == 0);
        near.handle_ack(&ack, &params);
        none.handle_ack(&ack, &params);
        assert_eq!(near.alpha(), none.alpha());
    }
}

#[test]
fn d2tcp_r03_d_is_time_needed_over_time_left() {
    // 90 KB at three quarters of 12 KB a round trip of 1 ms: 10 ms.
    let (config, ack) =
        (D2tcpConfig { d_min: 0.25, d_max: 4.0, ..D2tcpConfig::default() }, feedback(1, 2, true));
    assert_eq!(d(&config, Some(20), &ack), 1.0);
    assert_eq!(d(&config, Some(15), &ack), 2.0);
    assert_eq!(d(&config, Some(30), &ack), 0.5);
    assert_eq!(d(&config, Some(18), &ack), 1.25);
    let twice_the_window = Feedback { cwnd_bytes: 24_000, ..ack };
    assert_eq!(d(&config, Some(20), &twice_the_window), 0.5);
    let twice_the_round_trip = Feedback { smoothed_rtt: Some(Duration::from_millis(2)), ..ack };
    assert_eq!(d(&config, Some(20), &twice_the_round_trip), 2.0);
    let a_third_left = Feedback { remaining_bytes: 30_000, ..ack };
    assert!((d(&config, Some(20), &a_third_left) - 1.0 / 3.0).abs() < 1.0 / 65536.0);
}

#[test]
fn d2tcp_r04_d_is_clipped() {
    let (config, ack) = (D2tcpConfig::default(), feedback(1, 2, true));
    assert_eq!(d(&config, Some(11), &ack), 2.0);
    assert_eq!(d(&config, Some(1000), &ack), 0.5);
    let wide = D2tcpConfig { d_min: 0.25, d_max: 4.0, ..D2tcpConfig::default() };
    assert_eq!(d(&wide, Some(11), &ack), 4.0);
    assert_eq!(d(&wide, Some(1000), &ack), 0.25);
    // Numbers at the ends of their types.
    let endless = Feedback { remaining_bytes: u64::MAX, cwnd_bytes: 1, ..ack };
    assert_eq!(d(&wide, Some(1000), &endless), 4.0);
    let idle = Feedback { remaining_bytes: 0, cwnd_bytes: u64::MAX, ..ack };
    assert_eq!(imminence(Some(Instant::NEVER), &idle, &wide.params()).as_f64(), 0.25);
    let slow = Feedback { smoothed_rtt: Some(Duration::MAX), ..endless };
    assert_eq!(d(&wide, Some(1000), &slow), 4.0);
}

#[test]
fn d2tcp_r05_without_deadline_d_is_one() {
    assert_eq!(d(&D2tcpConfig::default(), None, &feedback(1, 2, true)), 1.0);
    let unknown = Feedback { smoothed_rtt: None, ..feedback(1, 2, true) };
    assert_eq!(d(&D2tcpConfig::default(), Some(20), &unknown), 1.0);
    for (every, lose) in [(50, false), (70, true)] {
        let dctcp = packets_of(DctcpConfig::default(), None, every, lose);
        assert_eq!(packets_of(D2tcpConfig::default(), None, every, lose), dctcp);
    }
}

#[test]
fn d2tcp_r06_after_a_miss_d_is_one_or_as_told() {
    let ack = feedback(1, 2, true);
    for deadline in [0, 9, 10] {
        assert_eq!(d(&D2tcpConfig::default(), Some(deadline), &ack), 1.0);
        let eager = D2tcpConfig { d_after_miss: 2.0, ..D2tcpConfig::default() };
        assert_eq!(d(&eager, Some(deadline), &ack), 2.0);
    }
}

#[test]
fn d2tcp_r07_d_is_computed_at_each_cut() {
    let config = D2tcpConfig { initial_alpha: 0.5, ..D2tcpConfig::default() };
    let (mut law, params) = law(&config, Some(at_ms(20)));
    assert_eq!(law.imminence(), Imminence::ONE);
    law.handle_ack(&feedback(10, 110, true), &params);
    assert_eq!(law.imminence().as_f64(), 1.0);
    let later = |una, marked| Feedback { now: at_ms(15), ..feedback(una, 210, marked) };
    law.handle_ack(&later(20, true), &params);
    assert_eq!(law.imminence().as_f64(), 1.0, "this window has been cut");
    law.handle_ack(&later(120, false), &params);
    assert_eq!(law.imminence().as_f64(), 1.0, "nothing to cut");
    let reaction = law.handle_ack(&later(130, true), &params);
    assert_eq!(law.imminence().as_f64(), 2.0);
    let penalty = power(law.alpha(), law.imminence());
    assert_eq!(reaction, Reaction::Cut { penalty, floor_packets: 2 });
}

#[test]
fn d2tcp_r07_d_follows_the_flow() {
    let (mut pair, _) = pair(plain_d2tcp(), Bytes::ZERO);
    // 100 MB by 200 ms on 10 Gb/s: easy at first, then half of its packets are marked.
    let spec = FlowSpec { deadline: Some(at_ms(200)), ..pair.spec(Bytes::new(100_000_000)) };
    let flow = pair.start(spec);
    pair.set_faults(|packet, index| match index {
        n if is_data(packet) && n > 1000 && n % 2 == 0 => Fault::Mark,
        _ => Fault::Deliver,
    });
    let mut seen = Vec::new();
    for ms in [1, 5, 150, 250] {
        pair.run_until(at_ms(ms));
        seen.push(pair.sender(flow).unwrap().law().imminence().as_f64());
    }
    assert_eq!(seen, [1.0, 2.0, 2.0, 1.0], "no cut, hopeless, hopeless, missed");
}

#[test]
fn d2tcp_r08_near_deadlines_cut_less_and_all_halve_at_full_congestion() {
    let window_after = |deadline_ms, alpha| {
        let config = D2tcpConfig { initial_alpha: alpha, ..plain_d2tcp() };
        let (mut law, params) = law(&config, Some(at_ms(deadline_ms)));
        let marked = Feedback { newly_acked_bytes: 0, ..feedback(10, 110, true) };
        let Reaction::Cut { penalty, floor_packets } = law.handle_ack(&marked, &params) else {
            panic!("a mark cuts");
        };
        let mut window = Window::new(MSS, 100, None, None);
        window.cut(penalty, floor_packets);
        (law.alpha().as_f64(), window.cwnd_bytes() as f64 / (100 * MSS) as f64)
    };
    for (deadline_ms, d) in [(15, 2.0), (20, 1.0), (30, 0.5)] {
        let (alpha, left) = window_after(deadline_ms, 0.25);
        assert!((left - (1.0 - alpha.powf(d) / 2.0)).abs() < 1e-5);
    }
    let config = plain_d2tcp();
    for deadline_ms in [15, 20, 30] {
        let (mut law, params) = law(&config, Some(at_ms(deadline_ms)));
        let reaction = law.handle_ack(&feedback(10, 110, true), &params);
        assert_eq!(reaction, Reaction::Cut { penalty: Fraction::ONE, floor_packets: 2 });
    }
}

#[test]
fn d2tcp_r09_marks_as_dctcp_does() {
    for (gbps, mtu) in [(1, 1500), (10, 1500), (10, 9000)] {
        let (rate, mtu) = (Rate::from_gbps(gbps), Bytes::new(mtu));
        assert_eq!(
            D2tcpConfig::default().default_queue(rate, mtu),
            DctcpConfig::default().default_queue(rate, mtu)
        );
    }
}
