//! PDQ on the simulator: what its paper shows, and what it must survive.

mod common;

use common::*;
use proptest::prelude::*;
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Duration, FlowSpec, Instant, PortId, Rate};
use punctual_net::{ClosLinks, ClosShape, Network};
use punctual_sim::{FlowStatus, LinkChange, LinkFault, Outcome, Sampling, Setup};
use punctual_transports::AnyTransport;
use punctual_transports::pdq::{Availability, Pdq, Variant};

const GBPS1: Rate = Rate::from_gbps(1);
const MS: Duration = Duration::from_millis(1);

/// The paper's links: 1 Gb/s, 0.1 µs of propagation and 25 µs of processing a hop.
fn links() -> ClosLinks {
    ClosLinks::uniform(GBPS1, Duration::from_nanos(25_100))
}

fn one_switch(hosts: u32) -> Network {
    ClosShape::star(hosts).build(&links(), Bytes::new(1500), Bytes::ZERO)
}

/// 17 nodes: a root, four racks of three servers.
fn tree() -> Network {
    ClosShape::leaf_spine(4, 3, 1).build(&links(), Bytes::new(1500), Bytes::ZERO)
}

fn pdq(config: Pdq) -> Vec<AnyTransport> {
    vec![AnyTransport::Pdq(config)]
}

fn ms(n: f64) -> Instant {
    Instant::ZERO + MS.mul_f64(n)
}

/// The port by which a switch reaches this host.
fn port_to(network: &Network, host: u32) -> PortId {
    let nic = network.nics[host as usize];
    PortId::from(network.links[nic.index()].twin.index())
}

fn all_ended(outcome: &Outcome) {
    for record in &outcome.flows {
        assert_ne!(record.status, FlowStatus::Unfinished, "{record:?}");
    }
}

// Figure 6.

/// Five flows of about 1 MB from five hosts to one, each 100 bytes larger than the one before and
/// a microsecond later: the first to send stays ahead, as what counts is what remains.
fn five_flows(config: Pdq) -> Outcome {
    let network = one_switch(6);
    let bottleneck = port_to(&network, 5);
    let flows = (0..5u32)
        .map(|n| FlowSpec {
            start: Instant::ZERO + Duration::from_micros(u64::from(n)),
            ..flow(n, 5, 1_000_000 + 100 * u64::from(n))
        })
        .collect();
    let mut setup = setup(network, pdq(config), flows);
    let every = Duration::from_micros(20);
    setup.sampling = Some(Sampling { every, ports: vec![bottleneck] });
    run(setup)
}

#[test]
fn five_flows_finish_one_after_another() {
    let outcome = five_flows(Pdq::default());
    let ends: Vec<f64> =
        outcome.flows.iter().map(|f| f.ended.expect("ended").as_secs_f64() * 1e3).collect();
    let waiting: Vec<u32> = outcome.samples.iter().map(|s| s.queue_packets).collect();
    let mean = f64::from(waiting.iter().sum::<u32>()) / waiting.len() as f64;
    let most = waiting.iter().max().expect("samples");
    println!("five flows end at {ends:.2?} ms, queue mean {mean:.2}, most {most} packets");
    assert!(ends.windows(2).all(|w| w[0] < w[1]), "{ends:?}");
    assert!((41.0..=43.0).contains(&ends[4]), "{ends:?}");
    assert_eq!(outcome.totals.drops, 0);
    assert!(mean <= 5.0 && *most <= 20, "{mean} {most}");
    // One after another, not side by side: each takes about as long as the first.
    for pair in ends.windows(2) {
        assert!((7.0..9.5).contains(&(pair[1] - pair[0])), "{ends:?}");
    }
}

// Figure 7.

/// A long flow, and 50 flows of 20 KB that start together at 10 ms.
fn burst(config: Pdq) -> (f64, f64, u32, Outcome) {
    let network = one_switch(52);
    let bottleneck = port_to(&network, 51);
    let mut flows = vec![flow(0, 51, 6_000_000)];
    for n in 1..=50u32 {
        flows.push(FlowSpec { start: ms(10.0), ..flow(n, 51, 20_000 + u64::from(n)) });
    }
    let mut setup = setup(network, pdq(config), flows);
    let every = Duration::from_micros(10);
    setup.sampling = Some(Sampling { every, ports: vec![bottleneck] });
    let outcome = run(setup);
    let last = outcome.flows[1..].iter().filter_map(|f| f.ended).max().expect("ended");
    let within: Vec<_> =
        outcome.samples.iter().filter(|s| s.at >= ms(10.0) && s.at <= last).collect();
    let (first, final_) = (within[0], within[within.len() - 1]);
    let seconds = final_.at.saturating_since(first.at).as_secs_f64();
    let utilisation = (final_.sent_bytes - first.sent_bytes) as f64 * 8.0 / seconds / 1e9;
    let queue =
        within.iter().map(|s| f64::from(s.queue_packets)).sum::<f64>() / within.len() as f64;
    let most = within.iter().map(|s| s.queue_packets).max().expect("samples");
    println!(
        "50 flows of 20 KB until {last}: utilisation {:.1} %, queue mean {queue:.1}, most {most}",
        utilisation * 100.0
    );
    (utilisation, queue, most, outcome)
}

#[test]
fn a_burst_preempts_a_long_flow_and_keeps_the_link_busy() {
    let (utilisation, queue, _, outcome) = burst(Pdq::default());
    assert!(utilisation >= 0.87, "{utilisation}");
    assert!(queue <= 15.0, "{queue}");
    let long = outcome.flows[0].ended.expect("ended");
    assert!(outcome.flows[1..].iter().all(|f| f.ended.expect("ended") < long));
    assert_eq!(outcome.totals.drops, 0);
    let printed = Pdq { availability: Availability::Printed, ..Pdq::default() };
    println!("as printed:");
    burst(printed);
}

// Query aggregation.

/// `count` flows of U[2, 198] KB to one aggregator in the tree, deadlines exponential with a mean
/// of 20 ms and at least 3 ms; all start together.
fn aggregation(count: u32, seed: u64) -> Vec<FlowSpec> {
    let mut stream = Stream::named(seed, "aggregation", u64::from(count));
    let offset = stream.below(11) as u32;
    (0..count)
        .map(|n| {
            let size = 2_000 + stream.below(196_001);
            let deadline = stream.exponential(0.020).max(0.003);
            let deadline = Some(Instant::ZERO + Duration::from_secs_f64(deadline));
            FlowSpec { deadline, ..flow(1 + (n + offset) % 11, 0, size) }
        })
        .collect()
}

/// Most flows that one link could finish on time: earliest deadline first, dropping the longest
/// whenever one is late (Moore and Hodgson).
fn optimal(flows: &[FlowSpec]) -> usize {
    let mut jobs: Vec<(Instant, Duration)> = flows
        .iter()
        .map(|f| {
            let wire = f.size.get() + f.size.div_ceil(Bytes::new(1440)) * 60;
            (f.deadline.expect("deadlines"), GBPS1.transmission_time(Bytes::new(wire)))
        })
        .collect();
    jobs.sort();
    let mut kept = std::collections::BinaryHeap::new();
    let mut busy = Duration::ZERO;
    for (deadline, time) in jobs {
        busy += time;
        kept.push(time);
        if Instant::ZERO + busy > deadline {
            busy = busy.saturating_sub(kept.pop().expect("just pushed"));
        }
    }
    kept.len()
}

const RUNS: u64 = 40;
const COUNTS: [u32; 6] = [3, 5, 10, 15, 20, 25];

/// Share of flows on time, over seeds, for each number of flows.
fn on_time(name: &str, network: &Network, transport: &AnyTransport) -> [f64; 6] {
    let shares = COUNTS.map(|count| {
        let mut met = 0;
        for seed in 0..RUNS {
            let flows = aggregation(count, seed);
            let mut setup = setup(network.clone(), vec![transport.clone()], flows);
            setup.seed = seed;
            let outcome = run(setup);
            all_ended(&outcome);
            met += outcome.flows.iter().filter(|f| f.met_deadline() == Some(true)).count();
        }
        met as f64 / (f64::from(count) * RUNS as f64)
    });
    row(name, &shares);
    shares
}

fn row(name: &str, shares: &[f64; 6]) {
    let cells: Vec<String> = shares.iter().map(|s| format!("{:6.1}", s * 100.0)).collect();
    println!("{name:<20}{}", cells.join(" "));
}

/// What each optimisation changes. Printed as it comes out.
#[test]
fn variants_on_query_aggregation() {
    println!("flows on time, in %: {COUNTS:?} flows, {RUNS} runs each");
    let best = COUNTS.map(|n| {
        let kept: usize = (0..RUNS).map(|seed| optimal(&aggregation(n, seed))).sum();
        kept as f64 / (f64::from(n) * RUNS as f64)
    });
    row("optimal", &best);
    let of = |config| AnyTransport::Pdq(config);
    let variant = |variant| of(Pdq { variant, ..Pdq::default() });
    let full = on_time("full", &tree(), &variant(Variant::Full));
    let es_et = on_time("es-et", &tree(), &variant(Variant::EsEt));
    let es = on_time("es", &tree(), &variant(Variant::Es));
    let basic = on_time("basic", &tree(), &variant(Variant::Basic));
    let printed = Pdq { availability: Availability::Printed, ..Pdq::default() };
    let printed = on_time("full, printed", &tree(), &of(printed));
    on_time("full, no SYN grants", &tree(), &of(Pdq { syn_grants: false, ..Pdq::default() }));
    on_time("full, K = 1", &tree(), &of(Pdq { early_start: 1.0, ..Pdq::default() }));
    let one_switch = on_time("full, one switch", &one_switch(12), &variant(Variant::Full));
    let far = ClosLinks::uniform(GBPS1, Duration::from_nanos(50_200));
    let far = ClosShape::star(12).build(&far, Bytes::new(1500), Bytes::ZERO);
    on_time("full, twice the RTT", &far, &variant(Variant::Full));
    for name in ["rcpdc", "tcp"] {
        let shares = on_time(name, &tree(), &transport(name));
        assert!((0..6).all(|n| shares[n] < full[n]), "{name}");
    }
    for n in 0..6 {
        let few = COUNTS[n] <= 10;
        assert!(full[n] <= best[n] && one_switch[n] <= best[n], "above optimal at {}", COUNTS[n]);
        // 4 points up to 10 flows and 8 beyond were expected, and come out on one switch; in the
        // tree, where two ports in a row must agree, less does (docs/transports/pdq.md).
        assert!(best[n] - one_switch[n] <= if few { 0.04 } else { 0.08 }, "{}", COUNTS[n]);
        assert!(best[n] - full[n] <= if few { 0.06 } else { 0.13 }, "{}", COUNTS[n]);
    }
    assert!(full[5] >= es_et[5] - 0.02 && es_et[5] > es[5] && es[5] > basic[5]);
    assert!(printed[5] < full[5]);
}

// Robustness.

fn lossy(setup: &mut Setup, share: f64) {
    setup.link_changes = (0..setup.network.links.len())
        .map(|port| LinkChange {
            at: Instant::ZERO,
            port: PortId::from(port),
            what: LinkFault::Loss(share),
        })
        .collect();
}

#[test]
fn three_percent_loss_both_ways() {
    for variant in [Variant::Basic, Variant::Es, Variant::EsEt, Variant::Full] {
        for seed in 0..5 {
            let config = Pdq { variant, ..Pdq::default() };
            let mut flows = aggregation(20, seed);
            flows.extend((0..10).map(|n| flow(1 + n, 0, 100_000)));
            let mut setup = setup(tree(), pdq(config), flows);
            setup.seed = seed;
            lossy(&mut setup, 0.03);
            let outcome = run(setup);
            all_ended(&outcome);
            assert!(outcome.totals.losses > 0);
            // Without deadline, nothing is given up.
            let free = outcome.flows.iter().filter(|f| f.spec.deadline.is_none());
            assert!(free.clone().count() == 10);
            assert!(free.clone().all(|f| f.status == FlowStatus::Completed));
        }
    }
}

/// Loss against none: how much the mean completion time of ten 100 KB flows grows.
#[test]
fn loss_costs_little() {
    let mean = |share: f64| {
        let mut total = 0.0;
        for seed in 0..20 {
            let flows = (1..=10).map(|n| flow(n, 0, 99_000 + 200 * u64::from(n))).collect();
            let mut setup = setup(one_switch(11), pdq(Pdq::default()), flows);
            setup.seed = seed;
            let bottleneck = port_to(&setup.network, 0);
            let back = setup.network.nics[0];
            setup.link_changes = [bottleneck, back]
                .map(|port| LinkChange { at: Instant::ZERO, port, what: LinkFault::Loss(share) })
                .to_vec();
            let outcome = run(setup);
            total +=
                outcome.flows.iter().map(|f| f.ended.expect("ended").as_secs_f64()).sum::<f64>();
        }
        total / 200.0
    };
    let (without, with) = (mean(0.0), mean(0.03));
    println!(
        "mean FCT {:.3} ms, with 3 % loss both ways {:.3} ms: +{:.1} %",
        without * 1e3,
        with * 1e3,
        (with / without - 1.0) * 100.0
    );
    assert!(with / without < 1.5);
}

#[test]
fn odd_deadlines_and_sizes_end() {
    for variant in [Variant::Basic, Variant::Es, Variant::EsEt, Variant::Full] {
        let config = Pdq { variant, ..Pdq::default() };
        let mut flows = Vec::new();
        for (n, deadline) in [0.0, 0.9, 1.001, 1.013, 1.2, 5.0].into_iter().enumerate() {
            for size in [1, 1440, 50_000] {
                let start = ms(1.0);
                let deadline = Some(ms(deadline));
                flows.push(FlowSpec { start, deadline, ..flow(1 + n as u32, 0, size) });
            }
        }
        flows.push(flow(7, 0, 1));
        let outcome = run(setup(one_switch(8), pdq(config), flows));
        all_ended(&outcome);
        let terminates = matches!(variant, Variant::EsEt | Variant::Full);
        for record in &outcome.flows {
            let past = record.spec.deadline.is_some_and(|d| d < record.spec.start);
            if past && terminates {
                assert_eq!(record.status, FlowStatus::Abandoned);
            }
            if !terminates || record.spec.deadline.is_none() {
                assert_eq!(record.status, FlowStatus::Completed, "{variant:?} {record:?}");
            }
        }
    }
}

#[test]
fn two_hundred_simultaneous_flows() {
    let cases = [
        (Variant::Full, 0.0),
        (Variant::EsEt, 0.0),
        (Variant::Es, 0.0),
        (Variant::Basic, 0.0),
        (Variant::Full, 0.03),
    ];
    for (variant, share) in cases {
        let flows = (0..200u32).map(|n| flow(1 + n % 11, 0, 20_000 + 10 * u64::from(n))).collect();
        let mut setup = setup(tree(), pdq(Pdq { variant, ..Pdq::default() }), flows);
        lossy(&mut setup, share);
        let outcome = run(setup);
        let last = outcome.flows.iter().filter_map(|f| f.ended).max().expect("ended");
        println!(
            "200 flows, {variant:?}, loss {share}: last at {last}, drops {}",
            outcome.totals.drops
        );
        assert!(outcome.flows.iter().all(|f| f.status == FlowStatus::Completed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// No deadlock: whatever is asked of the tree, every flow ends, and without deadlines every
    /// flow completes, within ten times what the busiest link needs.
    #[test]
    fn no_deadlock(
        flows in prop::collection::vec((0u32..12, 0u32..11, 1u64..400_000, 0u64..5_000, prop::option::of(1u64..40_000)), 1..60),
        variant in prop::sample::select(vec![Variant::Basic, Variant::Es, Variant::EsEt, Variant::Full]),
        printed: bool,
        list_min in prop::sample::select(vec![1u32, 4, 64]),
        seed: u64,
    ) {
        let availability = if printed { Availability::Printed } else { Availability::Corrected };
        let list_max = list_min.max(8);
        let config = Pdq { variant, availability, list_min, list_max, ..Pdq::default() };
        let flows: Vec<FlowSpec> = flows
            .into_iter()
            .map(|(src, dst, size, start_us, deadline_us)| {
                let start = Instant::ZERO + Duration::from_micros(start_us);
                let deadline = deadline_us.map(|us| start + Duration::from_micros(us));
                FlowSpec { start, deadline, ..flow(src, (src + 1 + dst) % 12, size) }
            })
            .collect();
        let bytes: u64 = flows.iter().map(|f| f.size.get()).sum();
        let mut setup = setup(tree(), pdq(config), flows);
        setup.seed = seed;
        let outcome = run(setup);
        for record in &outcome.flows {
            prop_assert!(record.status != FlowStatus::Unfinished, "{record:?}");
            if record.spec.deadline.is_none() {
                prop_assert_eq!(record.status, FlowStatus::Completed);
            }
        }
        let bound = GBPS1.transmission_time(Bytes::new(bytes)) * 2 + MS * 100;
        prop_assert!(outcome.totals.ended_at <= Instant::ZERO + bound, "{}", outcome.totals.ended_at);
    }
}

/// What a user gains by splitting a flow (§7): one host's 1 MB as n flows, against nine hosts with
/// 0.5 to 1.5 MB each.
#[test]
fn splitting_a_flow_pays() {
    let run = |pieces: u64| {
        let mut flows: Vec<FlowSpec> =
            (0..9u32).map(|n| flow(n + 1, 10, 500_000 + 125_000 * u64::from(n))).collect();
        flows.extend((0..pieces).map(|_| flow(0, 10, 1_000_000 / pieces)));
        let outcome = run(setup(one_switch(11), pdq(Pdq::default()), flows));
        let ended = |own: bool| {
            let of = outcome.flows.iter().filter(|f| (f.spec.src.0 == 0) == own);
            of.map(|f| f.ended.expect("ended").as_secs_f64() * 1e3).collect::<Vec<_>>()
        };
        let mine = ended(true).into_iter().fold(0.0, f64::max);
        let others = ended(false);
        (mine, others.iter().sum::<f64>() / others.len() as f64)
    };
    let (whole, others) = run(1);
    println!("1 MB whole: done at {whole:.1} ms, others {others:.1} ms on average");
    for pieces in [2, 4, 16] {
        let (split, others) = run(pieces);
        println!("in {pieces}: done at {split:.1} ms, others {others:.1} ms on average");
        assert!(split < whole);
    }
}

/// Beside other transports that never stop: PDQ yields, but not everything.
#[test]
fn beside_endless_flows_of_others() {
    for other in ["tcp", "dctcp"] {
        let mut flows = vec![flow(0, 3, u64::MAX), flow(1, 3, 2_000_000), flow(2, 3, 2_000_000)];
        for f in &mut flows[1..] {
            f.transport = punctual_core::TransportId(1);
            f.start = ms(20.0);
        }
        let transports = vec![transport(other), AnyTransport::Pdq(Pdq::default())];
        let mut setup = setup(one_switch(4), transports, flows);
        setup.stop.at = ms(5_000.0);
        let outcome = run(setup);
        let last = outcome.flows[1..].iter().filter_map(|f| f.ended).max().expect("ended");
        let took = last.saturating_since(ms(20.0)).as_secs_f64();
        let again: u32 = outcome.flows[1..].iter().map(|f| f.retransmits).sum();
        println!(
            "4 MB beside endless {other}: {:.1} ms, {:.0} Mb/s, {again} packets sent again",
            took * 1e3,
            4e6 * 8.0 / took / 1e6
        );
        assert!(outcome.flows[1..].iter().all(|f| f.status == FlowStatus::Completed));
    }
}
