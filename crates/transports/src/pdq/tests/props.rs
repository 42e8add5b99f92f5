//! Under any faults every flow ends and each byte is delivered once, which the test driver checks.

use super::super::{Availability, Criticality, NOBODY, PdqPort, PdqVariant};
use super::*;
use crate::paced::tests::*;
use proptest::prelude::*;
use punctual_core::{Controller, Header};
use punctual_testkit::Fault;

#[test]
fn any_single_fault_is_survived() {
    assert_survives_any_single_fault(|| pair(1), SEGMENT, at_us(12_000));
}

/// Loses each packet in turn where one flow waits for another, so that probes, pauses and what
/// lifts them are among those lost: every kind must have been, both ways.
#[test]
fn any_single_loss_is_survived_where_flows_wait() {
    for back in [false, true] {
        let (mut lost, mut kinds) = (0, std::collections::BTreeSet::new());
        loop {
            let mut pair = pair(2);
            // Every end waits for the answer to a TERM; the second flow ends last.
            let flows = [60, 80].map(|segments| start(&mut pair, segments * SEGMENT - 5));
            pair.set_faults(move |packet, index| {
                let hit = packet.is_to_sender() == back && index == lost;
                if hit { Fault::Drop } else { Fault::Deliver }
            });
            assert!(pair.run_until_done(seconds(1)), "{lost}, back: {back}");
            for flow in flows {
                assert!(pair.result(flow).finished_at.is_some(), "{lost}, back: {back}");
            }
            // 2 ms without loss; a timeout of a millisecond, and for the TERM a second one.
            assert!(pair.now() < at_us(5_000), "{} {lost}, back: {back}", pair.now());
            let sent = if back { backward(&pair) } else { forward(&pair) };
            let Some(gone) = sent.get(lost as usize) else { break };
            let kind = header(gone).flags & (PdqHeader::SYN | PdqHeader::TERM | PdqHeader::DATA);
            kinds.insert((kind, header(gone).pauser == NOBODY));
            assert_ports_forget(&mut pair);
            lost += 1;
        }
        for kind in [
            (PdqHeader::SYN, true),
            (PdqHeader::DATA, true),
            (PdqHeader::TERM, true),
            (0, false), // a probe of a paused flow, or the answer that it is to wait on
        ] {
            assert!(kinds.contains(&kind), "{kind:?} was not among those lost: {kinds:?}");
        }
        println!("back: {back}, {lost} losses of {kinds:?}");
    }
}

/// After flows have ended, however badly, every port forgets them and falls silent.
fn assert_ports_forget(pair: &mut Pair<PdqConfig>) {
    pair.run_until(pair.now() + Duration::from_secs(2));
    for port in pair.forward_controllers() {
        let port = port.unwrap();
        assert!(port.list().is_empty(), "{:?}", port.list());
        assert_eq!(port.next_timeout(), None);
    }
    assert_eq!(pair.extensions(), 0);
}

fn variants() -> impl Strategy<Value = PdqVariant> {
    prop::sample::select(vec![
        PdqVariant::Basic,
        PdqVariant::Es,
        PdqVariant::EsEt,
        PdqVariant::Full,
    ])
}

fn criticalities() -> impl Strategy<Value = Criticality> {
    use Criticality::{Deadline, Estimated, Random};
    prop::sample::select(vec![Deadline, Deadline, Random, Estimated])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(128)))]

    #[test]
    fn flows_end_whatever_happens_to_packets(
        sizes in prop::collection::vec((0u64..120_000, 0u64..3_000, prop::option::of(0u64..20_000)), 1..6),
        (odds, seed) in faults(),
        switches in 0usize..5,
        (variant, criticality) in (variants(), criticalities()),
        (printed, syn_grants) in any::<(bool, bool)>(),
        list in 1u32..4,
        aging in prop::sample::select(vec![0.0, 5.0]),
    ) {
        let config = PdqConfig {
            variant, criticality, syn_grants, aging,
            availability: if printed { Availability::Printed } else { Availability::Corrected },
            list_min: list, list_max: list,
            ..PdqConfig::default()
        };
        let mut pair = Pair::new(config, testbed(switches));
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

    /// Under the assumptions of §4 (nothing early, no dampening, no loss, a stable workload) the
    /// most critical flow has the line, and all others wait, within Pmax + 1 round trips; Pmax,
    /// the flows that go before the last, is all but one here. Sizes are 50 packets apart: flows
    /// that are nearly equal can overtake each other with every packet (rules.md).
    #[test]
    fn converges_within_pmax_and_one_round_trips(
        sizes in prop::collection::btree_set(60u64..180, 1..9),
        switches in 0usize..4,
        starts in prop::collection::vec(0u64..60, 9),
    ) {
        let config = PdqConfig { variant: PdqVariant::Basic, dampening: 0.0, ..PdqConfig::default() };
        let mut pair = Pair::new(config, testbed(switches));
        let mut flows: Vec<(u64, FlowId)> = Vec::new();
        for (size, start_us) in sizes.into_iter().zip(starts) {
            let mut spec = pair.spec(Bytes::new(size * 50 * SEGMENT));
            spec.start = at_us(start_us);
            flows.push((size, pair.start(spec)));
        }
        flows.sort();
        let line = *pair.path();
        let hops = switches as u64 + 1;
        let round_trip =
            (line.transmission_time(1500) + line.transmission_time(60) + line.delay * 2) * hops;
        let bound = at_us(60) + round_trip * flows.len() as u64;
        let rates = |pair: &Pair<PdqConfig>| -> Vec<Rate> {
            flows.iter().map(|(_, flow)| pair.sender(*flow).unwrap().rate()).collect()
        };
        pair.run_until(bound);
        for _ in 0..20 {
            let rates = rates(&pair);
            // The capacity gives way to a few probes that queue, and what it leaves when it
            // returns goes to the next flow: the proof's capacity does not move.
            let others = rates[1..].iter().map(|r| r.as_bps()).sum::<u64>();
            prop_assert!(rates[0] >= Rate::from_mbps(950), "{rates:?}");
            prop_assert!(others <= 50_000_000, "{rates:?} at {}", pair.now());
            pair.run_until(pair.now() + round_trip);
        }
    }

    /// Whatever arrives, nothing panics; what makes no sense is counted.
    #[test]
    fn nonsense_is_survived(
        ops in prop::collection::vec((any::<[u64; 4]>(), any::<(u8, u16)>(), 0u64..300), 1..80),
    ) {
        let forged = ops.into_iter().map(|(words, (flags, payload), wait_us)| {
            // Small numbers make sense more often.
            let mut header: PdqHeader = zerocopy::transmute!(words);
            header.seq %= 1 << (header.seq % 32);
            header.expected %= 1 << (header.expected % 32);
            let payload_bytes = if payload % 2 == 0 { payload % 1500 } else { 1440 };
            let (header, wait) = (Header::new(header), Duration::from_micros(wait_us));
            Forged { header, flags, payload_bytes, block: None, wait }
        });
        assert_survives_forged_packets(PdqConfig::default(), PdqPort::new(&PdqConfig::default()), forged);
    }
}
