//! Whatever happens to packets, every flow completes and each byte is delivered once; the test
//! driver checks the latter.

use super::*;
use proptest::prelude::*;
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
        assert_eq!(punctual_core::Controller::next_timeout(port), None);
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
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn flows_complete_whatever_happens_to_packets(
        sizes in prop::collection::vec((0u64..120_000, 0u64..3_000), 1..5),
        (drop, duplicate, delay) in (0.0..0.3, 0.0..0.2, 0.0..0.3),
        delay_us in 1u64..5_000,
        switches in 0usize..5,
        seed: u64,
    ) {
        let mut pair = pair(testbed(switches));
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
}
