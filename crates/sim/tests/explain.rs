//! Where flows' time went: sums to the picosecond, and known parts of simple runs.

mod common;

use common::*;
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Duration, FlowId, FlowSpec, Instant, PortId, Rate};
use punctual_net::{ClosLinks, ClosShape};
use punctual_sim::{Explanation, FlowStatus, LinkChange, LinkFault, Outcome, Setup};
use punctual_transports::AnyTransport;
use std::ops::ControlFlow;

fn explain(setup: Setup, flows: &[FlowId]) -> Outcome {
    let outcome = punctual_sim::explain(setup, flows, &mut |_| ControlFlow::Continue(()));
    assert_eq!(outcome.violations, Vec::<String>::new());
    outcome
}

/// Asserts that a flow's parts follow each other without gaps from its start to its end.
fn assert_adds_up(explained: &Explanation, outcome: &Outcome) {
    let record = &outcome.flows[explained.flow.index()];
    let end = record.ended.unwrap_or(outcome.totals.ended_at);
    assert_eq!((explained.from, explained.to), (record.spec.start, end), "{record:?}");
    assert_eq!(explained.status, record.status);
    let mut at = explained.from;
    for part in &explained.parts {
        assert_eq!(part.from, at, "a gap in {explained:?}");
        assert!(part.to > part.from, "an empty part in {explained:?}");
        at = part.to;
    }
    assert_eq!(at, explained.to, "{explained:?}");
    let sum: u64 = explained.parts.iter().map(|part| part.time().as_picos()).sum();
    assert_eq!(sum, (end - record.spec.start).as_picos());
}

fn random_setup(name: &str, seed: u64) -> Setup {
    let mut random = Stream::named(seed, name, 0);
    let links = ClosLinks::uniform(
        Rate::from_gbps([1, 10, 25][random.below(3) as usize]),
        Duration::from_nanos(700),
    );
    let shape = match random.below(3) {
        0 => ClosShape::star(6),
        1 => ClosShape::leaf_spine(3, 2, 2),
        _ => ClosShape::fat_tree(4, 1),
    };
    let network = shape.build(&links, Bytes::new(1500), Bytes::new(38));
    let (hosts, ports) = (u64::from(network.hosts), network.links.len() as u64);
    let flows: Vec<FlowSpec> = (0..25)
        .map(|_| {
            let dst = random.below(hosts.min(4));
            let src = (dst + 1 + random.below(hosts - 1)) % hosts;
            let start = Instant::ZERO + Duration::from_nanos(random.below(200_000));
            let deadline = Duration::from_micros(100 + random.below(2_000));
            FlowSpec {
                start,
                deadline: random.coin().then(|| start + deadline),
                ..flow(src as u32, dst as u32, 1 + random.below(80_000))
            }
        })
        .collect();
    let losses = random.below(3);
    let link_changes = (0..losses).map(|_| LinkChange {
        at: Instant::ZERO,
        port: PortId(random.below(ports) as u32),
        what: LinkFault::Loss(0.03 * random.unit()),
    });
    let link_changes = link_changes.collect();
    let mut setup = setup(network, vec![transport(name)], flows);
    setup.link_changes = link_changes;
    setup.seed = seed;
    setup.stop.at = Instant::from_picos(4_000_000_000_000);
    setup
}

#[test]
fn parts_of_a_thousand_random_flows_of_every_transport_add_up() {
    for info in AnyTransport::catalogue() {
        let mut explained = 0;
        let mut completed = 0;
        for seed in 0..40 {
            let setup = random_setup(info.name, seed);
            let flows: Vec<FlowId> = (0..setup.workload.flows.len()).map(FlowId::from).collect();
            let plain = run(setup.clone());
            let outcome = explain(setup, &flows);
            assert_eq!(plain.flows, outcome.flows, "{}: being watched changes nothing", info.name);
            assert_eq!(plain.totals, outcome.totals);
            assert_eq!(outcome.explained.len(), flows.len());
            for explanation in &outcome.explained {
                assert_adds_up(explanation, &outcome);
            }
            explained += outcome.explained.len();
            let is_complete = |e: &&Explanation| e.status == FlowStatus::Completed;
            completed += outcome.explained.iter().filter(is_complete).count();
        }
        assert!(explained >= 1_000, "{}: {explained}", info.name);
        assert!(completed >= 500, "{}: {completed}", info.name);
    }
}
