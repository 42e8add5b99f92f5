//! Whatever the line does, every byte arrives once and both ends get to know.

use super::*;
use proptest::prelude::*;
use punctual_testkit::FaultOdds;

fn odds() -> impl Strategy<Value = FaultOdds> {
    (0.0..0.3, 0.0..0.2, 0.0..0.3, 0.0..0.5, 1u64..400).prop_map(
        |(drop, duplicate, delay, mark, micros)| FaultOdds {
            drop,
            duplicate,
            delay,
            delay_below: Duration::from_micros(micros),
            mark,
            ..FaultOdds::default()
        },
    )
}

fn run<T: Transport>(config: T, sizes: &[u64], odds: FaultOdds, seed: u64) {
    let flows: Vec<_> = sizes.iter().map(|size| (*size, None)).collect();
    run_with_deadlines(config, &flows, odds, seed);
}

/// Flows of a size and a deadline each.
fn run_with_deadlines<T: Transport>(
    config: T,
    sizes: &[(u64, Option<Instant>)],
    odds: FaultOdds,
    seed: u64,
) {
    let line = PairPath { delay: Duration::from_micros(5), seed, ..PairPath::default() };
    let mut pair = Pair::new(config, line);
    pair.set_faults(odds.rule(seed));
    let flows: Vec<_> = sizes
        .iter()
        .map(|&(size, deadline)| pair.start(FlowSpec { deadline, ..pair.spec(Bytes::new(size)) }))
        .collect();
    assert!(pair.run_until_done(late()), "unfinished");
    // Late packets find both ends in order.
    pair.run_until(pair.now() + Duration::from_secs(1));
    for (flow, (size, _)) in flows.into_iter().zip(sizes) {
        assert_eq!(pair.result(flow).delivered.total(), *size);
    }
}

/// Deadlines in microseconds as instants; all flows start at 0.
fn with_deadlines(flows: Vec<(u64, Option<u64>)>) -> Vec<(u64, Option<Instant>)> {
    let at = |us| Instant::ZERO + Duration::from_micros(us);
    flows.into_iter().map(|(size, deadline)| (size, deadline.map(at))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(96)))]

    #[test]
    fn tcp_delivers_each_byte_once(
        sizes in prop::collection::vec(0u64..120_000, 1..4),
        odds in odds(),
        seed: u64,
        handshake: bool,
        delayed: bool,
        initial_window in 1u32..20,
        tick_us in prop::option::of(1u64..20_000),
    ) {
        let config = TcpConfig {
            handshake,
            initial_window,
            rto_tick: tick_us.map(Duration::from_micros),
            delayed_ack: delayed.then_some(Duration::from_micros(200)),
            rto_max: Duration::from_millis(100),
            ..TcpConfig::default()
        };
        run(config, &sizes, odds, seed);
    }

    #[test]
    fn dctcp_delivers_each_byte_once(
        sizes in prop::collection::vec(0u64..120_000, 1..4),
        odds in odds(),
        seed: u64,
        cut_every_window: bool,
        delayed: bool,
        initial_alpha in 0.0..=1.0,
    ) {
        let config = DctcpConfig {
            cut_every_window,
            initial_alpha,
            delayed_ack: delayed.then_some(Duration::from_micros(200)),
            rto_max: Duration::from_millis(100),
            ..DctcpConfig::default()
        };
        run(config, &sizes, odds, seed);
    }

    #[test]
    fn d2tcp_delivers_each_byte_once(
        flows in prop::collection::vec((0u64..120_000, prop::option::of(0u64..20_000)), 1..4),
        odds in odds(),
        seed: u64,
        cut_every_window: bool,
        initial_alpha in 0.0..=1.0,
        d_min in 0.25..=1.0,
        d_max in 1.0..=4.0,
        d_after_miss in 0.25..=4.0,
    ) {
        let config = D2tcpConfig {
            cut_every_window,
            initial_alpha,
            d_min,
            d_max,
            d_after_miss,
            rto_max: Duration::from_millis(100),
            ..D2tcpConfig::default()
        };
        run_with_deadlines(config, &with_deadlines(flows), odds, seed);
    }

    #[test]
    fn tcppr_delivers_each_byte_once(
        flows in prop::collection::vec((0u64..120_000, prop::option::of(0u64..20_000)), 1..4),
        odds in odds(),
        seed: u64,
        levels in 2u8..=4,
    ) {
        let config = TcpprConfig {
            levels,
            mean_deadline: Duration::from_millis(5),
            rto_max: Duration::from_millis(100),
            ..TcpprConfig::default()
        };
        run_with_deadlines(config, &with_deadlines(flows), odds, seed);
    }

    #[test]
    fn alpha_stays_a_fraction(
        gain in 0.0001..=1.0,
        windows in prop::collection::vec((0u64..1 << 40, 1u64..1 << 40), 0..100),
    ) {
        let gain = Fraction::from_f64(gain);
        let mut alpha = Fraction::ONE;
        for (marked, acked) in windows {
            let next = next_alpha(alpha, gain, marked, acked);
            prop_assert!(next <= Fraction::ONE);
            if marked == 0 && alpha > Fraction::ZERO {
                prop_assert!(next < alpha);
            }
            alpha = next;
        }
    }

    #[test]
    fn header_goes_both_ways(seq: u64, ack: u64, timestamp_picos: u64, flags: u8) {
        let header = TcpHeader { seq, ack, timestamp_picos, flags, reserved: [0; 7] };
        prop_assert_eq!(punctual_core::Header::new(header).get::<TcpHeader>(), header);
    }
}
