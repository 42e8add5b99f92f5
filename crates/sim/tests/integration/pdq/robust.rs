//! What it must survive.

use super::aggregation::aggregation;
use super::*;
use proptest::prelude::*;
use punctual_core::FlowId;
use punctual_net::Link;
use punctual_sim::{GaugeSample, LinkChange, LinkFault, Setup};

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
    for variant in [PdqVariant::Basic, PdqVariant::Es, PdqVariant::EsEt, PdqVariant::Full] {
        for seed in 0..5 {
            let config = PdqConfig { variant, ..PdqConfig::default() };
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

/// Figure 9b: how much the mean completion time of ten 100 KB flows grows when the bottleneck loses
/// 3 % of the packets in each direction. TCP's least timeout is 10 ms.
#[test]
fn loss_costs_little() {
    let mut settings = punctual_transports::TransportSettings::default();
    settings.tcp.rto_min = MS * 10;
    let tcp = AnyTransport::by_name("tcp", &settings).expect("a transport");
    for (name, transport) in [("pdq", AnyTransport::Pdq(PdqConfig::default())), ("tcp", tcp)] {
        let (without, with) = (mean_fct(&transport, 0.0), mean_fct(&transport, 0.03));
        let growth = with / without - 1.0;
        println!(
            "{name}: mean FCT {:.3} ms, with 3 % loss both ways {:.3} ms: +{:.1} %",
            without * 1e3,
            with * 1e3,
            growth * 100.0
        );
        let accepted = claimed("pdq/fig9", &format!("{name}-fct"));
        assert_figure(&format!("pdq-fig-9b-{name}"), 100.0 * growth, accepted);
    }
}

/// The mean completion time in seconds of ten flows of 100 KB over a link that loses this share.
fn mean_fct(transport: &AnyTransport, share: f64) -> f64 {
    const RUNS: u64 = 20;
    let mut total = 0.0;
    for seed in 0..RUNS {
        let flows = (1..=10).map(|n| flow(n, 0, 99_000 + 200 * u64::from(n))).collect();
        let mut setup = setup(one_switch(11), vec![transport.clone()], flows);
        setup.seed = seed;
        let (bottleneck, back) =
            (port_to(&setup.network, 0), setup.network.nic(punctual_core::HostId(0)));
        setup.link_changes = [bottleneck, back]
            .map(|port| LinkChange { at: Instant::ZERO, port, what: LinkFault::Loss(share) })
            .to_vec();
        let outcome = run(setup);
        total += outcome.flows.iter().map(|f| f.ended.expect("ended").as_secs_f64()).sum::<f64>();
    }
    total / (10.0 * RUNS as f64)
}

/// Twelve flows cross two spines, and routing leads around one uplink while some wait there: they
/// go on over the other, and all end in the time that it takes to send them one after the other, each
/// after five round trips of at most 60 µs.
#[test]
fn pdq_r30_a_port_off_the_path_pauses_nobody() {
    let links = ClosLinks::uniform(GBPS1, Duration::from_nanos(700));
    let mut paused_there = 0;
    for seed in 0..10 {
        let network = ClosShape::leaf_spine(2, 6, 2).build(&links, Bytes::new(1500), Bytes::ZERO);
        let flows =
            (0..12).map(|n| flow(n % 6, 6 + (n * 5 + 1) % 6, 100_000 + u64::from(n))).collect();
        let mut setup = setup(network, pdq(PdqConfig::default()), flows);
        setup.seed = seed;
        let leaf = setup.network.link(setup.network.nic(punctual_core::HostId(0))).to;
        let is_uplink = |link: &Link| link.from == leaf && link.to.0 >= setup.network.hosts;
        let uplink = PortId::from(setup.network.links.iter().position(is_uplink).expect("one"));
        let at = ms(0.5);
        setup.link_changes =
            vec![LinkChange { at, port: uplink, what: LinkFault::Withdrawn(true) }];
        setup.sampling = Some(Sampling { every: US * 10, ports: Vec::new() });
        setup.sampled_flows = (0..12).map(FlowId).collect();
        let outcome = run(setup);
        let paused = |g: &&GaugeSample| g.name == "pausing_port" && g.value == f64::from(uplink.0);
        paused_there += outcome.gauges.iter().filter(|g| g.at <= at).filter(paused).count();
        assert!(outcome.flows.iter().all(|f| f.status == FlowStatus::Completed), "seed {seed}");
        let last = outcome.flows.iter().filter_map(|f| f.ended).max().expect("ended");
        let bound = GBPS1.transmission_time(Bytes::new(12 * 100_011 * 1500 / 1440)) + US * 300 * 12;
        assert!(last < Instant::ZERO + bound, "seed {seed}: {last}");
    }
    assert!(paused_there > 0, "nobody waited at the uplink");
}

#[test]
fn odd_deadlines_and_sizes_end() {
    for variant in [PdqVariant::Basic, PdqVariant::Es, PdqVariant::EsEt, PdqVariant::Full] {
        let config = PdqConfig { variant, ..PdqConfig::default() };
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
        let terminates = matches!(variant, PdqVariant::EsEt | PdqVariant::Full);
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
        (PdqVariant::Full, 0.0),
        (PdqVariant::EsEt, 0.0),
        (PdqVariant::Es, 0.0),
        (PdqVariant::Basic, 0.0),
        (PdqVariant::Full, 0.03),
    ];
    for (variant, share) in cases {
        let flows = (0..200u32).map(|n| flow(1 + n % 11, 0, 20_000 + 10 * u64::from(n))).collect();
        let mut setup = setup(tree(), pdq(PdqConfig { variant, ..PdqConfig::default() }), flows);
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
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(60)))]

    /// No deadlock: whatever is asked of the tree, every flow ends, and without deadlines every
    /// flow completes. All end no later than if they were sent one after the other over one link,
    /// 1500 bytes for each 1440 of data, each after five round trips of up to 0.3 ms across the
    /// tree: three to open, ask and be accepted, two until a paused flow probes.
    #[test]
    fn no_deadlock(
        flows in prop::collection::vec((0u32..12, 0u32..11, 1u64..400_000, 0u64..5_000, prop::option::of(1u64..40_000)), 1..60),
        variant in prop::sample::select(vec![PdqVariant::Basic, PdqVariant::Es, PdqVariant::EsEt, PdqVariant::Full]),
        printed: bool,
        list_min in prop::sample::select(vec![1u32, 4, 64]),
        seed: u64,
    ) {
        let availability = if printed { Availability::Printed } else { Availability::Corrected };
        let list_max = list_min.max(8);
        let config = PdqConfig { variant, availability, list_min, list_max, ..PdqConfig::default() };
        let flows: Vec<FlowSpec> = flows
            .into_iter()
            .map(|(src, dst, size, start_us, deadline_us)| {
                let start = Instant::ZERO + Duration::from_micros(start_us);
                let deadline = deadline_us.map(|us| start + Duration::from_micros(us));
                FlowSpec { start, deadline, ..flow(src, (src + 1 + dst) % 12, size) }
            })
            .collect();
        let bytes: u64 = flows.iter().map(|f| f.size.get()).sum();
        let count = flows.len() as u64;
        let mut setup = setup(tree(), pdq(config), flows);
        setup.seed = seed;
        let outcome = run(setup);
        for record in &outcome.flows {
            prop_assert!(record.status != FlowStatus::Unfinished, "{record:?}");
            if record.spec.deadline.is_none() {
                prop_assert_eq!(record.status, FlowStatus::Completed);
            }
        }
        let line = GBPS1.transmission_time(Bytes::new(bytes * 1500 / 1440));
        let bound = MS * 5 + line + Duration::from_micros(1500) * count;
        prop_assert!(outcome.totals.ended_at <= Instant::ZERO + bound, "{}", outcome.totals.ended_at);
    }
}
