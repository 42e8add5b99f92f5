//! NDP while the network fails: links cut, lossy, switches that stop, routing that learns late.
//! The same as scenarios are in `scenarios/`.

use crate::common::*;
use punctual_core::{Bytes, Duration, FlowSpec, Instant, NodeId, PortId};
use punctual_net::{ClosLinks, ClosShape, Network, Tier};
use punctual_sim::{FlowStatus, LinkChange, LinkFault, Outcome};
use punctual_transports::AnyTransport;
use punctual_transports::ndp::{NdpConfig, PathPolicy};
use punctual_transports::udp::UdpConfig;

fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn ndp(scoreboard: bool, paths: PathPolicy) -> AnyTransport {
    let AnyTransport::Ndp(config) = ndp_9k(23) else { unreachable!("ndp") };
    AnyTransport::Ndp(NdpConfig { scoreboard, paths, ..config })
}

/// Runs a permutation without end on 16 hosts for so many ms.
fn permuted(transport: AnyTransport, changes: &[LinkChange], run_ms: u64) -> Outcome {
    let mut setup = setup(fat_tree(4, 9064), vec![transport], permutation(16, 3));
    setup.stop = until_ms(run_ms);
    setup.link_changes = changes.to_vec();
    setup.link_changes.sort_by_key(|c| c.at);
    run(setup)
}

/// One change of a link in both directions.
fn both_ways(network: &Network, port: usize, at: Instant, what: LinkFault) -> [LinkChange; 2] {
    let twin = network.links[port].twin;
    [PortId::from(port), twin].map(|port| LinkChange { at, port, what })
}

fn core_link(network: &Network) -> usize {
    network.links.iter().position(|l| l.tier == Tier::CoreDown).expect("a core")
}

/// Gb/s of data that the slowest flow got between two runs of the same beginning.
fn slowest(early: &Outcome, late: &Outcome, ms: u64) -> f64 {
    let pairs = early.flows.iter().zip(&late.flows);
    let gained = pairs.map(|(a, b)| b.delivered.get() - a.delivered.get());
    gained.min().expect("flows") as f64 * 8.0 / (ms as f64 * 1e6)
}

#[test]
fn a_cut_link_is_kept_away_from_until_routing_knows() {
    let network = fat_tree(4, 9064);
    let cut = core_link(&network);
    let mut changes = both_ways(&network, cut, at_ms(5), LinkFault::Down).to_vec();
    changes.extend(both_ways(&network, cut, at_ms(15), LinkFault::Withdrawn(true)));
    let mut lost_without = u64::MAX;
    for (paths, scoreboard) in [
        (PathPolicy::Permuted, false),
        (PathPolicy::Permuted, true),
        (PathPolicy::SwitchRandom, false),
    ] {
        let run = |ms| permuted(ndp(scoreboard, paths), &changes, ms);
        let [at_5, at_15, at_16, at_25] = [5, 15, 16, 25].map(run);
        println!(
            "a core link cut at 5 ms, routing told at 15 ms, {paths:?}, scoreboard {scoreboard}: \
             slowest flow {:.2} Gb/s until then, {:.2} after; {} packets lost until then, {} after",
            slowest(&at_5, &at_15, 10),
            slowest(&at_16, &at_25, 9),
            at_15.totals.losses,
            at_25.totals.losses - at_16.totals.losses
        );
        assert_eq!(at_25.totals.losses, at_16.totals.losses, "nothing is sent there any more");
        // A quarter of the paths into a pod is gone: 7.5 Gb/s are left for each of its hosts.
        assert!(slowest(&at_16, &at_25, 9) > 0.9 * 7.5);
        if scoreboard {
            assert!(slowest(&at_5, &at_15, 10) > 0.8 * 7.5, "and nearly so before routing knows");
            let lost = at_15.totals.losses;
            assert!(2 * lost < lost_without, "{lost} of {lost_without} without scoreboard");
        } else if paths == PathPolicy::Permuted {
            lost_without = at_15.totals.losses;
        }
    }
}

/// Flows of 1 MB while something happens to the network: all must end. Returns the longest
/// completion time in ms, and packets lost.
fn all_end(scoreboard: bool, changes: Vec<LinkChange>) -> (f64, u64) {
    let flows: Vec<FlowSpec> = (0..10u64)
        .flat_map(|burst| {
            permutation(16, burst).into_iter().map(move |f| FlowSpec {
                size: Bytes::new(1_000_000),
                start: at_ms(2 * burst),
                ..f
            })
        })
        .collect();
    let transport = ndp(scoreboard, PathPolicy::Permuted);
    let mut setup = setup(fat_tree(4, 9064), vec![transport], flows);
    setup.link_changes = changes;
    setup.link_changes.sort_by_key(|c| c.at);
    let outcome = run(setup);
    assert!(outcome.flows.iter().all(|f| f.status == FlowStatus::Completed));
    let took = |f: &punctual_sim::FlowRecord| {
        f.ended.expect("done").saturating_since(f.spec.start).as_secs_f64() * 1e3
    };
    (outcome.flows.iter().map(took).fold(0.0, f64::max), outcome.totals.losses)
}

#[test]
fn a_lossy_path_delays_but_stops_nobody() {
    let network = fat_tree(4, 9064);
    let port = core_link(&network);
    let (sound, _) = all_end(true, Vec::new());
    for loss in [0.001, 0.02, 0.2] {
        for scoreboard in [true, false] {
            let changes = both_ways(&network, port, Instant::ZERO, LinkFault::Loss(loss)).to_vec();
            let (longest, lost) = all_end(scoreboard, changes);
            println!(
                "a core link that loses {:.1} %, scoreboard {scoreboard}: slowest of 160 flows of \
                 1 MB {longest:.2} ms ({sound:.2} without), {lost} packets lost",
                loss * 100.0
            );
            assert!(longest < sound + 6.0, "{longest}");
        }
    }
}

#[test]
fn a_switch_that_stops_delays_but_stops_nobody() {
    let network = fat_tree(4, 9064);
    let core = network.names.iter().position(|n| n == "core 0").expect("a core");
    let (sound, _) = all_end(true, Vec::new());
    let stops = |what: fn(bool) -> LinkFault, at: Instant, way: bool| -> Vec<LinkChange> {
        let from = |l: &punctual_net::Link| l.from == NodeId::from(core);
        let ports = (0..network.links.len()).filter(|p| from(&network.links[*p]));
        ports.flat_map(|p| both_ways(&network, p, at, what(way))).collect()
    };
    let power = |on: bool| if on { LinkFault::Up } else { LinkFault::Down };
    for told in [Some(10), None] {
        let mut changes = stops(power, at_ms(5), false);
        if let Some(ms) = told {
            changes.extend(stops(LinkFault::Withdrawn, at_ms(ms), true));
        }
        let (longest, lost) = all_end(true, changes);
        println!(
            "a core switch stops at 5 ms, routing told at {told:?} ms: slowest of 160 flows of 1 MB \
             {longest:.2} ms ({sound:.2} without), {lost} packets lost"
        );
        assert!(longest < sound + 10.0, "{longest}");
    }
}

/// Share of hosts' links that NDP's permutation fills on four racks of three hosts between 2 and
/// 10 ms, with so many spines, of which so many are withdrawn before anything is sent.
fn share_of_racks(paths: PathPolicy, spines: u32, withdrawn: u32) -> f64 {
    let links = ClosLinks::uniform(GBPS10, US);
    let shape = ClosShape::leaf_spine(4, 3, spines);
    let network = shape.build(&links, Bytes::new(9064), Bytes::ZERO);
    let spine = |link: &punctual_net::Link| &network.names[link.from.index()];
    let gone =
        |link: &punctual_net::Link| (0..withdrawn).any(|n| *spine(link) == format!("spine {n}"));
    let ports = (0..network.links.len()).filter(|port| gone(&network.links[*port]));
    let what = LinkFault::Withdrawn(true);
    let changes: Vec<LinkChange> =
        ports.flat_map(|port| both_ways(&network, port, Instant::ZERO, what)).collect();
    assert_eq!(changes.len() as u32, withdrawn * 8, "a spine has a link each way to each rack");
    // Host h of a rack sends to host h of the next rack: three flows leave each rack.
    let flows = (0..12).map(|h| flow(h, (h + 3) % 12, u64::MAX)).collect();
    let mut setup = setup(network, vec![ndp(true, paths)], flows);
    setup.link_changes = changes;
    setup.stop = until_ms(10);
    setup.measure.from = at_ms(2);
    let outcome = run(setup);
    outcome.totals.delivered_wire_bytes as f64 * 8.0 / (12.0 * 0.008 * GBPS10.as_bps() as f64)
}

/// Three spines are just enough for racks of three hosts, whether there were ever four or not:
/// packets of the withdrawn one are spread over all three.
#[test]
fn packets_of_a_withdrawn_path_are_spread_over_all_others() {
    for paths in [PathPolicy::Permuted, PathPolicy::SwitchRandom] {
        let (three, one_gone) = (share_of_racks(paths, 3, 0), share_of_racks(paths, 4, 1));
        println!(
            "{paths:?}: {:.1} % with three spines, {:.1} % with four of which one is withdrawn",
            three * 100.0,
            one_gone * 100.0
        );
        assert!(one_gone > three - 0.01, "{one_gone} against {three}");
    }
}

/// A flow of a transport that keeps to one path keeps to one other path, so that nothing overtakes.
#[test]
fn a_flow_on_one_path_is_moved_to_one_other() {
    let links = ClosLinks::uniform(GBPS10, US);
    let network = ClosShape::leaf_spine(2, 16, 4).build(&links, Bytes::new(1500), Bytes::ZERO);
    let spine = network.names.iter().position(|n| n == "spine 0").expect("a spine");
    let ports = (0..network.links.len()).filter(|p| network.links[*p].from.index() == spine);
    let what = LinkFault::Withdrawn(true);
    let changes: Vec<LinkChange> =
        ports.flat_map(|port| both_ways(&network, port, Instant::ZERO, what)).collect();
    let up = |n: &usize| network.links[*n].tier == Tier::RackUp && network.links[*n].from.0 == 32;
    let uplinks: Vec<usize> = (0..network.links.len()).filter(up).collect();
    let mut used = [0u64; 4];
    for seed in 0..240 {
        let udp = UdpConfig { rate: punctual_core::Rate::from_gbps(1), ..UdpConfig::default() };
        // A moment after routing knows.
        let moved = FlowSpec { start: Instant::ZERO + US, ..flow(0, 16, 30_000) };
        let mut setup = setup(network.clone(), vec![AnyTransport::Udp(udp)], vec![moved]);
        setup.link_changes = changes.clone();
        setup.seed = seed;
        let outcome = run(setup);
        let sent = uplinks.iter().map(|port| outcome.ports[*port].sent_bytes);
        let taken: Vec<bool> = sent.map(|bytes| bytes > 0).collect();
        assert_eq!(taken.iter().filter(|t| **t).count(), 1, "one path: {taken:?}");
        used.iter_mut().zip(&taken).for_each(|(sum, taken)| *sum += u64::from(*taken));
    }
    // A quarter of 240 flows moves, a third of these to each of three spines: each has 80 in all,
    // give or take three and a half standard deviations.
    assert_eq!(used[0], 0, "{used:?}");
    assert!(used[1..].iter().all(|n| (54..=106).contains(n)), "{used:?}");
}
