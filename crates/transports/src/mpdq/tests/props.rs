//! Whatever happens on any subset of the paths, every byte arrives once and every flow ends.

use super::*;
use crate::paced::tests::{
    Forged, assert_survives_any_single_fault, assert_survives_forged_packets, faults,
};
use crate::pdq::{Availability, Criticality, PdqPort, PdqVariant};
use proptest::prelude::*;
use punctual_core::{Controller, Header};
use punctual_testkit::{Fault, FaultOdds};

#[test]
fn any_single_fault_is_survived() {
    // 60 segments take 0.9 ms without a fault; two timeouts in a row take 3 ms.
    assert_survives_any_single_fault(|| pair_of(3, 3), SEGMENT, at_us(12_000));
}

/// After flows have ended, however badly, every port forgets their subflows and falls silent.
fn assert_ports_forget(pair: &mut Pair<MpdqConfig>) {
    pair.run_until(pair.now() + Duration::from_secs(2));
    for port in pair.forward_controllers() {
        let port = port.unwrap();
        assert!(port.list().is_empty(), "{:?}", port.list());
        assert_eq!(port.next_timeout(), None);
    }
}

/// What a path does: nothing ever arrives, or some of it and late.
#[derive(Clone, Copy, Debug)]
struct PathFaults {
    dead: bool,
    /// It dies after so many packets.
    dies_after: Option<u64>,
    odds: FaultOdds,
}

fn path_faults() -> impl Strategy<Value = PathFaults> {
    let dies = prop::option::of(0u64..40);
    (prop::bool::weighted(0.2), dies, faults())
        .prop_map(|(dead, dies_after, (odds, _))| PathFaults { dead, dies_after, odds })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(128)))]

    /// The last path loses packets, but lives.
    #[test]
    fn mpdq_r08_one_stream_whatever_paths_do(
        sizes in prop::collection::vec(0u64..150_000, 1..4),
        faults in prop::collection::vec(path_faults(), 1..6),
        subflows in 1u32..9,
        seed: u64,
        switches in 0usize..3,
    ) {
        let paths = faults.len() as u32;
        // All paths, so that the one that lives is among them.
        let config = MpdqConfig {
            subflows: subflows.max(paths),
            rto_max: Duration::from_millis(100),
            ..MpdqConfig::default()
        };
        let mut pair = Pair::new(config, PairPath { seed, ..testbed(switches, paths) });
        pair.set_events_max(300_000);
        let mut rules: Vec<_> =
            faults.iter().zip(seed..).map(|(f, seed)| f.odds.rule(seed)).collect();
        let mut passed = vec![0u64; faults.len()];
        let lives = faults.len() - 1;
        pair.set_faults(move |packet, index| {
            let path = packet.header.get::<PdqHeader>().path() as usize;
            passed[path] += 1;
            let PathFaults { dead, dies_after, .. } = faults[path];
            if path != lives && (dead || dies_after.is_some_and(|n| passed[path] > n)) {
                return Fault::Drop;
            }
            rules[path](packet, index)
        });
        let flows: Vec<_> = sizes.iter().map(|s| start(&mut pair, *s)).collect();
        prop_assert!(pair.run_until_done(seconds(100)), "unfinished");
        for (flow, size) in flows.iter().zip(&sizes) {
            // The pair has checked that no byte was delivered twice or past the end.
            prop_assert_eq!(pair.result(*flow).delivered.total(), *size);
        }
        assert_ports_forget(&mut pair);
    }

    #[test]
    fn flows_end_whatever_happens_to_packets(
        sizes in prop::collection::vec((0u64..120_000, 0u64..3_000, prop::option::of(0u64..20_000)), 1..6),
        (odds, seed) in faults(),
        (switches, subflows, paths) in (0usize..4, 1u32..6, 1u32..5),
        variant in prop::sample::select(vec![PdqVariant::Basic, PdqVariant::Es, PdqVariant::EsEt, PdqVariant::Full]),
        criticality in prop::sample::select(vec![Criticality::Deadline, Criticality::Random, Criticality::Estimated]),
        (printed, syn_grants) in any::<(bool, bool)>(),
        list in 1u32..4,
        aging in prop::sample::select(vec![0.0, 5.0]),
    ) {
        let config = MpdqConfig {
            subflows, variant, criticality, syn_grants, aging,
            availability: if printed { Availability::Printed } else { Availability::Corrected },
            list_min: list, list_max: list,
            ..MpdqConfig::default()
        };
        let mut pair = Pair::new(config, testbed(switches, paths));
        pair.set_events_max(300_000);
        pair.set_faults(odds.rule(seed));
        let mut flows = Vec::new();
        for (size, start_us, deadline_us) in sizes {
            let mut spec = pair.spec(Bytes::new(size));
            spec.start = at_us(start_us);
            spec.deadline = deadline_us.map(at_us);
            flows.push(pair.start(spec));
        }
        prop_assert!(pair.run_until_done(seconds(120)));
        for flow in flows {
            let result = pair.result(flow);
            let may_give_up = result.spec.deadline.is_some()
                && matches!(variant, PdqVariant::EsEt | PdqVariant::Full);
            prop_assert!(may_give_up || result.completed_at.is_some(), "{result:?}");
        }
        assert_ports_forget(&mut pair);
    }

    /// Whatever arrives, nothing panics; what makes no sense is counted.
    #[test]
    fn mpdq_r10_nonsense_is_survived(
        ops in prop::collection::vec((any::<[u64; 4]>(), any::<(u8, u16)>(), 0u64..300), 1..80),
    ) {
        let forged = ops.into_iter().map(|(words, (flags, payload), wait_us)| {
            // Small numbers make sense more often.
            let mut header: PdqHeader = zerocopy::transmute!(words);
            header.seq %= 1 << (header.seq % 32);
            header.expected %= 1 << (header.expected % 32);
            header.route %= 1 << (header.route % 16);
            let payload_bytes = if payload % 2 == 0 { payload % 1500 } else { 1440 };
            let (header, wait) = (Header::new(header), Duration::from_micros(wait_us));
            Forged { header, flags, payload_bytes, block: None, wait }
        });
        let config = MpdqConfig::default();
        assert_survives_forged_packets(config.clone(), PdqPort::new(&config.pdq()), forged);
    }
}
