use super::*;
use proptest::prelude::*;
use punctual_testkit::FaultOdds;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(300)))]

    /// Whatever is lost, doubled, delayed, trimmed or bounced, every byte arrives once and both
    /// ends know. (That no byte arrives twice is checked as it happens.)
    #[test]
    fn flows_survive_random_faults(
        size in 1u64..60_000,
        initial_window in 1u32..40,
        drop in 0.0f64..0.3,
        duplicate in 0.0f64..0.2,
        delay in 0.0f64..0.2,
        trim in 0.0f64..0.4,
        bounce in 0.0f64..0.3,
        seed: u64,
    ) {
        let mut pair = Pair::new(window(initial_window), PairPath { seed, ..PairPath::default() });
        let odds = FaultOdds { drop, duplicate, delay, trim, bounce, ..FaultOdds::default() };
        pair.set_faults(odds.rule(seed));
        let spec = pair.spec(Bytes::new(size));
        let flow = pair.start(spec);
        prop_assert!(pair.run_until_done(LIMIT), "unfinished: {:?}", pair.result(flow));
    }
}

/// A short flow survives the loss, doubling, trimming or bouncing of any one packet.
#[test]
fn any_single_fault_is_survived() {
    for fault in [
        Fault::Drop,
        Fault::Duplicate,
        Fault::Trim,
        Fault::Bounce,
        Fault::Delay(Duration::from_micros(300)),
    ] {
        for target in [kind::DATA, kind::ACK, kind::NACK, kind::PULL] {
            for n in 0..30 {
                if target != kind::DATA && matches!(fault, Fault::Trim | Fault::Bounce) {
                    continue;
                }
                let mut pair = pair(window(4));
                pair.set_faults(nth(target, n, fault));
                let flow = start(&mut pair, 12);
                assert!(
                    pair.run_until_done(LIMIT),
                    "{fault:?} of packet {n} of kind {target}: {:?}",
                    pair.result(flow)
                );
            }
        }
    }
}
