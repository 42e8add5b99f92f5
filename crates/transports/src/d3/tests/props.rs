//! Under any faults every flow completes and each byte is delivered once, which the test driver
//! checks.

use super::super::{D3Port, Pacing};
use super::*;
use crate::paced::tests::*;
use proptest::prelude::*;
use punctual_core::{Controller, ExtBlock, Header};

#[test]
fn any_single_fault_is_survived() {
    assert_survives_any_single_fault(|| pair(testbed(1)), 1438, seconds(1));
}

/// After flows have ended, however badly, every port forgets them and falls silent.
fn assert_ports_forget(pair: &mut Pair<RcpdcConfig>) {
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
        (odds, seed) in faults(),
        switches in 0usize..5,
        by_flow: bool,
    ) {
        let pacing = if by_flow { Pacing::Flow } else { Pacing::Host };
        let config = RcpdcConfig(D3CommonConfig { pacing, ..D3CommonConfig::default() });
        let mut pair = Pair::new(config, testbed(switches));
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
        let port = D3Port::new(&D3CommonConfig::default(), Rate::from_gbps(1));
        let forged = ops.into_iter().map(|(words, (flags, payload), block, wait_us)| {
            // Small numbers make sense more often.
            let mut header: D3Header = zerocopy::transmute!(words);
            header.seq %= 1 << (header.seq % 64);
            header.ack = if header.ack.is_multiple_of(2) { header.ack % 20_001 } else { header.ack };
            header.request %= 4;
            let block = block.map(|mut words| {
                words[2] &= 0x0006_0306_0306_0307;
                words[21] &= 0x3ff;
                ExtBlock(words)
            });
            let (header, payload_bytes) = (Header::new(header), payload % 1439);
            let wait = Duration::from_micros(wait_us);
            Forged { header, flags, payload_bytes, block, wait }
        });
        assert_survives_forged_packets(RcpdcConfig::default(), port, forged);
    }
}
