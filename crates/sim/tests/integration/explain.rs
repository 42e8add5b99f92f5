//! Where flows' time went: sums to the picosecond, and known parts of simple runs.

use crate::common::*;
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Duration, FlowId, FlowSpec, HostId, Instant, PortId, Rate};
use punctual_net::{ClosLinks, ClosShape, Network};
use punctual_sim::{Explanation, FlowStatus, LinkChange, LinkFault, Outcome, Setup, What};
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

/// The parts of one flow, by kind and port, in time.
fn parts_of(outcome: &Outcome, flow: u32) -> Vec<(What, Option<PortId>, u64)> {
    let explained = outcome.explained.iter().find(|e| e.flow == FlowId(flow)).expect("explained");
    assert_adds_up(explained, outcome);
    explained.parts.iter().map(|part| (part.what, part.port, part.time().as_picos())).collect()
}

fn time_in(outcome: &Outcome, flow: u32, what: What) -> u64 {
    parts_of(outcome, flow).iter().filter(|part| part.0 == what).map(|part| part.2).sum()
}

/// The port from a switch to a host of a star.
fn down(network: &Network, host: u32) -> PortId {
    network.link(network.nic(HostId(host))).twin
}

const PROPAGATION: u64 = 1_000_000;
/// 1500 bytes at 10 Gb/s.
const FULL: u64 = 1_200_000;

#[test]
fn a_lone_packet_is_put_on_each_link_and_travels() {
    let network = star(3, 1500);
    let (nic, down) = (network.nic(HostId(1)), down(&network, 0));
    let setup = setup(network, vec![transport("udp")], vec![flow(1, 0, 1472)]);
    let outcome = explain(setup, &[FlowId(0)]);
    let expected = [
        (What::Serialisation, Some(nic), FULL),
        (What::Propagation, Some(nic), PROPAGATION),
        (What::Serialisation, Some(down), FULL),
        (What::Propagation, Some(down), PROPAGATION),
    ];
    assert_eq!(parts_of(&outcome, 0), expected);
    assert_eq!(outcome.explained[0].trips, 1);
}

#[test]
fn the_last_of_an_incast_waits_behind_all_others() {
    let network = star(6, 1500);
    let down = down(&network, 0);
    let flows = (1..6).map(|src| flow(src, 0, 1472)).collect();
    let setup = setup(network, vec![transport("udp")], flows);
    let all: Vec<FlowId> = (0..5).map(FlowId).collect();
    let outcome = explain(setup, &all);
    let last = outcome.explained.iter().max_by_key(|e| e.to).expect("five");
    let parts = parts_of(&outcome, last.flow.0);
    assert_eq!(parts[2], (What::Queue, Some(down), 4 * FULL), "{parts:?}");
    let mut behind: Vec<FlowId> = last.parts[2].behind.flows.iter().map(|f| f.0).collect();
    behind.sort();
    let others: Vec<FlowId> = all.into_iter().filter(|f| *f != last.flow).collect();
    assert_eq!(behind, others);
    assert!(last.parts[2].behind.flows.iter().all(|(_, bytes)| *bytes == 1500));
}

#[test]
fn packets_of_one_flow_wait_for_its_own_at_the_nic() {
    let network = star(3, 1500);
    let nic = network.nic(HostId(1));
    let mut settings = punctual_transports::TransportSettings::default();
    settings.ndp.initial_window = 10;
    let ndp = AnyTransport::by_name("ndp", &settings).expect("ndp");
    let payload = 10 * (1500 - 64);
    let setup = setup(network, vec![ndp], vec![flow(1, 0, payload)]);
    let outcome = explain(setup, &[FlowId(0)]);
    let parts = parts_of(&outcome, 0);
    assert_eq!(parts[0], (What::Own, Some(nic), 9 * FULL), "{parts:?}");
    assert_eq!(time_in(&outcome, 0, What::Serialisation), 2 * FULL);
    assert_eq!(time_in(&outcome, 0, What::Propagation), 2 * PROPAGATION);
    assert_eq!(parts.len(), 5);
}

#[test]
fn two_senders_of_a_host_share_its_nic() {
    let network = star(4, 1500);
    let nic = network.nic(HostId(1));
    let mut settings = punctual_transports::TransportSettings::default();
    settings.ndp.initial_window = 10;
    let ndp = AnyTransport::by_name("ndp", &settings).expect("ndp");
    let payload = 10 * (1500 - 64);
    let flows = vec![flow(1, 0, payload), flow(1, 2, payload)];
    let setup = setup(network, vec![ndp], flows);
    let outcome = explain(setup, &[FlowId(0), FlowId(1)]);
    // They take turns: of the 19 packet times before the last packet, 9 are its own.
    let last = if outcome.explained[0].to > outcome.explained[1].to { 0 } else { 1 };
    assert_eq!(time_in(&outcome, last, What::Own), 9 * FULL);
    assert_eq!(time_in(&outcome, last, What::Nic), 10 * FULL);
    let nic_parts = &outcome.explained[last as usize].parts;
    let nic_parts: Vec<_> = nic_parts.iter().filter(|part| part.what == What::Nic).collect();
    assert!(nic_parts.iter().all(|part| part.port == Some(nic)));
    assert!(nic_parts.iter().all(|part| part.behind.flows[0].0 == FlowId(1 - last)));
}

#[test]
fn a_d3_flow_asks_for_a_rate_first() {
    let network = star(3, 1500);
    let setup = setup(network, vec![transport("d3")], vec![flow(1, 0, 100_000)]);
    let outcome = explain(setup, &[FlowId(0)]);
    let parts = parts_of(&outcome, 0);
    let (what, port, time) = parts[0];
    assert_eq!((what, port), (What::Grant, None));
    // The request's way there and back: four links, and short packets on them.
    assert!(time > 4 * PROPAGATION && time < 4 * PROPAGATION + FULL, "{time}");
    let asking = parts.iter().take_while(|part| part.0 == What::Grant).count();
    assert!(parts[asking..].iter().all(|part| part.0 != What::Grant), "{parts:?}");
}

#[test]
fn a_less_critical_pdq_flow_is_paused_behind_the_more_critical() {
    let network = star(4, 1500);
    let down = down(&network, 0);
    // A microsecond later, so that no tie decides which of them the port grants first.
    let later = FlowSpec { start: Instant::ZERO + US, ..flow(2, 0, 600_000) };
    let flows = vec![flow(1, 0, 200_000), later];
    let setup = setup(network, vec![transport("pdq")], flows);
    let outcome = explain(setup, &[FlowId(0), FlowId(1)]);
    let whole = (outcome.explained[1].to - outcome.explained[1].from).as_picos();
    assert_eq!(time_in(&outcome, 0, What::Paused), 0);
    let paused: Vec<_> =
        outcome.explained[1].parts.iter().filter(|part| part.what == What::Paused).collect();
    let time = time_in(&outcome, 1, What::Paused);
    // About as long as the shorter flow takes.
    assert!(time * 5 > whole && time * 3 < whole, "{time} of {whole}");
    assert!(paused.iter().all(|part| part.port == Some(down)), "{paused:?}");
    assert!(paused.iter().any(|part| part.behind.flows == [(FlowId(0), 0)]), "{paused:?}");
}

#[test]
fn a_packet_lost_without_notice_costs_its_timeout() {
    let network = star(3, 1500);
    let down = down(&network, 0);
    let mut setup = setup(network, vec![transport("tcp")], vec![flow(1, 0, 1000)]);
    let cut = LinkChange { at: Instant::ZERO, port: down, what: LinkFault::Down };
    let up = Instant::ZERO + Duration::from_micros(50);
    setup.link_changes = vec![cut, LinkChange { at: up, port: down, what: LinkFault::Up }];
    let outcome = explain(setup, &[FlowId(0)]);
    assert_eq!(outcome.flows[0].timeouts, 1);
    let parts = parts_of(&outcome, 0);
    let (what, port, time) = parts[0];
    assert_eq!((what, port), (What::Timeout, Some(down)), "{parts:?}");
    let whole = (outcome.explained[0].to - outcome.explained[0].from).as_picos();
    assert!(whole - time < 20 * PROPAGATION, "all but the way is the timeout: {parts:?}");
}

#[test]
fn a_packet_lost_among_others_costs_until_it_is_sent_again() {
    let network = star(3, 1500);
    let nic = network.nic(HostId(1));
    let mut seen = 0;
    // Cut long enough for one packet of many to be lost, at different times.
    for cut_us in 10..90 {
        let mut setup = setup(network.clone(), vec![transport("tcp")], vec![flow(1, 0, 60_000)]);
        let cut = Instant::ZERO + Duration::from_micros(cut_us);
        let change = |at, what| LinkChange { at, port: nic, what };
        setup.link_changes = vec![change(cut, LinkFault::Down), change(cut + US, LinkFault::Up)];
        let outcome = explain(setup, &[FlowId(0)]);
        let parts = parts_of(&outcome, 0);
        let mut lost = parts.iter().filter(|part| part.0 == What::Retransmission).peekable();
        if (outcome.totals.losses, outcome.flows[0].timeouts) == (1, 0) && lost.peek().is_some() {
            assert!(outcome.flows[0].retransmits >= 1);
            assert!(lost.all(|part| part.1 == Some(nic)), "{parts:?}");
            assert_eq!(time_in(&outcome, 0, What::Timeout), 0);
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
}

#[test]
fn ndp_flows_of_an_incast_wait_for_pulls_and_after_trims() {
    let network = star(12, 1500);
    let down = down(&network, 0);
    let flows = (1..12).map(|src| flow(src, 0, 30_000)).collect();
    let setup = setup(network, vec![transport("ndp")], flows);
    let all: Vec<FlowId> = (0..11).map(FlowId).collect();
    let outcome = explain(setup, &all);
    assert!(outcome.totals.trims > 0);
    let last = outcome.explained.iter().max_by_key(|e| e.to).expect("eleven");
    let time = |what| time_in(&outcome, last.flow.0, what);
    let whole = (last.to - last.from).as_picos();
    assert!(time(What::Pull) * 2 > whole, "{last:?}");
    // Whose packets are trimmed last is chance.
    let trimmed = all.iter().filter(|flow| time_in(&outcome, flow.0, What::Trimmed) > 0);
    assert!(trimmed.count() > 0);
    let parts = outcome.explained.iter().flat_map(|e| &e.parts);
    let mut at_trims = parts.filter(|part| part.what == What::Trimmed);
    assert!(at_trims.all(|part| part.port == Some(down)), "{:?}", outcome.explained);
    let at = |what| last.parts.iter().filter(move |part| part.what == what);
    assert!(at(What::Pull).all(|part| part.port == Some(down)));
    assert!(at(What::Pull).any(|part| part.behind.count() > 5));
}
