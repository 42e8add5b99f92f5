//! Properties of the flows that traffic specifications produce.
use proptest::prelude::*;
use punctual_core::{Bytes, Duration, FlowSpec, HostId, Instant, Rate, TransportId};
use punctual_workload::{
    Arrivals, BuiltIn, DeadlineChange, Deadlines, Gap, HostSet, HostsView, ListedFlow, LoopSpec,
    Pareto, Pattern, Problem, Senders, Sizes, TrafficSpec, Workload, build,
};
use std::collections::BTreeMap;

const MS: Duration = Duration::from_millis(1);

fn view(count: u32) -> HostsView {
    HostsView::uniform(count, Rate::from_gbps(10), Some(4))
}

fn kilobyte(pattern: Pattern) -> TrafficSpec {
    TrafficSpec::new(pattern, Sizes::Fixed(Bytes::new(1_000)))
}

fn flows(spec: TrafficSpec, hosts: u32, seed: u64) -> Vec<FlowSpec> {
    build(&[spec], &view(hosts), MS * 100, seed).unwrap().flows
}

fn problem(spec: TrafficSpec, hosts: u32) -> Problem {
    build(&[spec], &view(hosts), MS * 100, 1).unwrap_err().problem
}

fn incast(senders: Senders, receiver: Option<u32>) -> Pattern {
    Pattern::Incast { senders, receiver: receiver.map(HostId) }
}

/// Counts how often each host appears.
fn tally(hosts: impl Iterator<Item = HostId>) -> BTreeMap<HostId, u32> {
    let mut counts = BTreeMap::new();
    for host in hosts {
        *counts.entry(host).or_default() += 1;
    }
    counts
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        (1u32..60, prop::option::of(0u32..8)).prop_map(|(n, r)| incast(Senders::Workers(n), r)),
        Just(incast(Senders::All, None)),
        Just(incast(Senders::Hosts(5), None)),
        Just(Pattern::Permutation),
        Just(Pattern::Random),
        (1u32..8).prop_map(Pattern::Stride),
        (0.0..=1.0f64).prop_map(|local| Pattern::Staggered { local }),
        Just(Pattern::AllToAll),
        Just(Pattern::Pairs(vec![(HostId(3), HostId(1)), (HostId(0), HostId(7))])),
    ]
}

fn any_gap() -> impl Strategy<Value = Gap> {
    prop_oneof![
        Just(Gap::Fixed(Duration::ZERO)),
        Just(Gap::Exponential(MS)),
        Just(Gap::ExponentialMedian(MS)),
    ]
}

fn any_arrivals() -> impl Strategy<Value = Arrivals> {
    prop_oneof![
        Just(Arrivals::Together),
        Just(Arrivals::Periodic(MS * 10)),
        Just(Arrivals::PoissonBursts(MS * 10)),
        (0.001..0.01f64).prop_map(Arrivals::PoissonLoad),
        (1.0..10_000.0f64).prop_map(Arrivals::PoissonPerSecond),
        (1.0..1_000.0f64).prop_map(Arrivals::PoissonPerSecondPerSender),
        (1u32..5, any_gap())
            .prop_map(|(connections, gap)| Arrivals::ClosedLoop(LoopSpec { connections, gap })),
    ]
}

fn any_sizes() -> impl Strategy<Value = Sizes> {
    prop_oneof![
        Just(Sizes::Fixed(Bytes::new(1))),
        Just(Sizes::Uniform(Bytes::new(1), Bytes::new(2_000))),
        Just(Sizes::Pareto(Pareto { mean: Bytes::new(10_000), shape: 1.1, cap: None })),
        prop::sample::select(&BuiltIn::ALL[..]).prop_map(Sizes::Named),
    ]
}

fn any_spec() -> impl Strategy<Value = TrafficSpec> {
    (any_pattern(), any_arrivals(), any_sizes()).prop_map(|(pattern, arrivals, sizes)| {
        TrafficSpec {
            arrivals,
            deadlines: Deadlines::Exponential { mean: MS * 20, floor: MS * 3 },
            limit: Some(5_000),
            ..TrafficSpec::new(pattern, sizes)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(128)))]

    #[test]
    fn flows_are_sound_and_the_same_again(
        specs in prop::collection::vec(any_spec(), 1..4),
        seed: u64,
    ) {
        let make = || build(&specs, &view(8), MS * 50, seed).unwrap();
        let Workload { flows, .. } = make();
        prop_assert_eq!(&flows, &make().flows);
        for (i, flow) in flows.iter().enumerate() {
            prop_assert_eq!(flow.id.index(), i);
            prop_assert_ne!(flow.src, flow.dst);
            prop_assert!(flow.src.0 < 8 && flow.dst.0 < 8);
            prop_assert!(flow.size >= Bytes::new(1));
            prop_assert!(flow.start < Instant::ZERO + MS * 50);
            prop_assert!(flow.deadline.unwrap() >= flow.start + MS * 3);
        }
        let order = |f: &FlowSpec| (f.start, f.pattern);
        prop_assert!(flows.windows(2).all(|w| order(&w[0]) <= order(&w[1])));
    }

    #[test]
    fn a_loop_goes_on_until_the_end(
        spec in any_spec(),
        gap in any_gap(),
        seed: u64,
        service in 1u64..5_000,
    ) {
        let closed_loop = LoopSpec { connections: 3, gap };
        let spec = TrafficSpec { limit: None, arrivals: Arrivals::ClosedLoop(closed_loop), ..spec };
        let mut workload = build(&[spec], &view(8), MS * 20, seed).unwrap();
        for first in workload.flows.clone() {
            let mut flow = first;
            for _ in 0..200 {
                let now = flow.start + Duration::from_micros(service);
                let Some(next) = workload.next_after(&flow, now) else { break };
                prop_assert!(next.start >= now && next.start < Instant::ZERO + MS * 20);
                prop_assert_eq!(next.src, flow.src);
                prop_assert_ne!(next.src, next.dst);
                flow = next;
            }
        }
    }

    #[test]
    fn a_permutation_is_a_derangement(hosts in 2u32..200, seed: u64) {
        let flows = flows(kilobyte(Pattern::Permutation), hosts, seed);
        prop_assert_eq!(flows.len(), hosts as usize);
        prop_assert!(flows.iter().all(|f| f.src != f.dst));
        prop_assert_eq!(tally(flows.iter().map(|f| f.src)).len(), hosts as usize);
        prop_assert_eq!(tally(flows.iter().map(|f| f.dst)).len(), hosts as usize);
    }

    #[test]
    fn workers_are_spread_evenly(hosts in 2u32..50, workers in 1u32..200, seed: u64) {
        let pattern = incast(Senders::Workers(workers), Some(0));
        let flows = flows(kilobyte(pattern), hosts, seed);
        prop_assert_eq!(flows.len(), workers as usize);
        prop_assert!(flows.iter().all(|f| f.dst == HostId(0)));
        let counts = tally(flows.iter().map(|f| f.src));
        let fair = workers / (hosts - 1);
        prop_assert!(counts.values().all(|c| *c == fair || *c == fair + 1), "{:?}", counts);
    }

    #[test]
    fn changing_one_part_leaves_the_others(spec in any_spec(), seed: u64) {
        // With `poisson-load` the arrivals depend on the mean size.
        prop_assume!(!matches!(spec.arrivals, Arrivals::PoissonLoad(_)));
        let base = flows(spec.clone(), 8, seed);
        let sizes = flows(TrafficSpec { sizes: Sizes::Fixed(Bytes::new(7)), ..spec.clone() }, 8, seed);
        let deadlines = flows(
            TrafficSpec { deadlines: Deadlines::Fixed(MS), ..spec.clone() }, 8, seed);
        let transport = flows(TrafficSpec { transport: TransportId(3), ..spec }, 8, seed);
        prop_assert_eq!(base.len(), sizes.len());
        prop_assert_eq!(base.len(), deadlines.len());
        for (i, flow) in base.iter().enumerate() {
            prop_assert_eq!(*flow, FlowSpec { size: flow.size, ..sizes[i] });
            prop_assert_eq!(*flow, FlowSpec { deadline: flow.deadline, ..deadlines[i] });
            prop_assert_eq!(*flow, FlowSpec { transport: flow.transport, ..transport[i] });
        }
    }
}

#[test]
fn incast_senders_are_distinct() {
    let flows = flows(kilobyte(incast(Senders::Hosts(5), None)), 8, 3);
    let receiver = flows[0].dst;
    assert!(flows.iter().all(|f| f.dst == receiver));
    assert_eq!(tally(flows.iter().map(|f| f.src)).len(), 5);
    let receivers = (0..64).map(|seed| {
        let spec = kilobyte(incast(Senders::All, None));
        self::flows(spec, 8, seed)[0].dst
    });
    assert_eq!(tally(receivers).len(), 8);
}

#[test]
fn stride_and_all_to_all_go_where_they_say() {
    let stride = flows(kilobyte(Pattern::Stride(3)), 8, 1);
    assert!(stride.iter().all(|f| f.dst.0 == (f.src.0 + 3) % 8));
    let all = flows(kilobyte(Pattern::AllToAll), 8, 1);
    assert_eq!(all.len(), 56);
    let subset = TrafficSpec {
        hosts: Some("2-6".parse().unwrap()),
        exclude: [3].into_iter().collect(),
        ..kilobyte(Pattern::Stride(1))
    };
    let pairs: Vec<_> = flows(subset, 8, 1).iter().map(|f| (f.src.0, f.dst.0)).collect();
    assert_eq!(pairs, [(2, 4), (4, 5), (5, 6), (6, 2)]);
}

#[test]
fn staggered_stays_in_the_rack_as_often_as_asked() {
    let spec = TrafficSpec { flows_each: 500, ..kilobyte(Pattern::Staggered { local: 0.7 }) };
    let flows = flows(spec, 16, 1);
    let local = flows.iter().filter(|f| f.src.0 / 4 == f.dst.0 / 4).count();
    let share = local as f64 / flows.len() as f64;
    // 8000 draws: three standard deviations are 0.0154.
    assert!((share - 0.7).abs() < 0.0154, "{share}");
    let reached = tally(flows.iter().filter(|f| f.src.0 == 5).map(|f| f.dst));
    assert_eq!(reached.len(), 15);
}

#[test]
fn random_destinations_are_even_and_can_be_kept() {
    let random = TrafficSpec { flows_each: 1000, ..kilobyte(Pattern::Random) };
    let counts = tally(flows(random.clone(), 8, 1).iter().map(|f| f.dst));
    // 8000 flows over 8 hosts: three standard deviations are 89.
    assert!(counts.values().all(|c| c.abs_diff(1000) < 89), "{counts:?}");
    let kept = TrafficSpec { redraw: Some(false), ..random };
    let kept = flows(kept, 8, 1);
    let pairs: std::collections::BTreeSet<_> = kept.iter().map(|f| (f.src, f.dst)).collect();
    assert_eq!(pairs.len(), 8);
}

#[test]
fn poisson_has_its_rate() {
    let count = |arrivals, sizes: Sizes| {
        let spec = TrafficSpec { arrivals, ..TrafficSpec::new(Pattern::Random, sizes) };
        let flows = build(&[spec], &view(16), Duration::from_secs(1), 5).unwrap().flows;
        let bytes: u64 = flows.iter().map(|f| f.size.get()).sum();
        (flows.len() as f64, bytes as f64)
    };
    let fixed = Sizes::Fixed(Bytes::new(100_000));
    let within = |got: f64, mean: f64| {
        assert!((got - mean).abs() < 3.0 * mean.sqrt(), "{got} {mean}");
    };
    within(count(Arrivals::PoissonPerSecond(20_000.0), fixed.clone()).0, 20_000.0);
    let per_sender = Arrivals::PoissonPerSecondPerSender(2_000.0);
    within(count(per_sender, fixed.clone()).0, 32_000.0);
    // 0.6 of 16 hosts at 10 Gb/s are 12 GB/s: 120 000 flows of 100 KB.
    within(count(Arrivals::PoissonLoad(0.6), fixed).0, 120_000.0);
    let (flows, bytes) = count(Arrivals::PoissonLoad(0.6), Sizes::Named(BuiltIn::FacebookCache));
    within(flows, 12e9 / 729_509.425);
    assert!((bytes / 12e9 - 1.0).abs() < 0.05, "{bytes}");
}

#[test]
fn poisson_gaps_are_exponential_and_senders_even() {
    let spec =
        TrafficSpec { arrivals: Arrivals::PoissonPerSecond(1e5), ..kilobyte(Pattern::Stride(1)) };
    let flows = build(&[spec], &view(10), Duration::from_secs(1), 2).unwrap().flows;
    let gaps: Vec<f64> =
        flows.windows(2).map(|w| (w[1].start - w[0].start).as_micros_f64()).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|g| (g - mean) * (g - mean)).sum::<f64>() / gaps.len() as f64;
    assert!((mean - 10.0).abs() < 0.1, "{mean}");
    assert!((variance - 100.0).abs() < 3.0, "{variance}");
    let counts = tally(flows.iter().map(|f| f.src));
    // 10 000 each: three standard deviations are 285.
    assert!(counts.values().all(|c| c.abs_diff(10_000) < 300), "{counts:?}");
}

#[test]
fn bursts_come_when_they_should() {
    let spec = TrafficSpec {
        arrivals: Arrivals::Periodic(MS * 2),
        start: Instant::ZERO + MS,
        stop: Some(Instant::ZERO + MS * 7),
        ..kilobyte(incast(Senders::Hosts(3), None))
    };
    let starts = |spec: &TrafficSpec| -> Vec<u64> {
        let flows = flows(spec.clone(), 8, 1);
        flows.iter().map(|f| f.start.since_start().as_nanos() / 1_000_000).collect()
    };
    assert_eq!(starts(&spec), [1, 1, 1, 3, 3, 3, 5, 5, 5]);
    let limited = TrafficSpec { limit: Some(4), ..spec.clone() };
    assert_eq!(starts(&limited), [1, 1, 1, 3]);
    let redrawn = TrafficSpec { redraw: Some(true), stop: None, ..spec.clone() };
    let receivers = tally(flows(redrawn, 8, 1).iter().map(|f| f.dst));
    assert_eq!(receivers.len(), 8);
    let jittered =
        TrafficSpec { jitter: MS, arrivals: Arrivals::Together, flows_each: 100, ..spec };
    let flows = flows(jittered, 8, 1);
    let late = |f: &FlowSpec| f.start - (Instant::ZERO + MS);
    assert!(flows.iter().all(|f| late(f) < MS));
    let mean = flows.iter().map(late).sum::<Duration>().as_micros_f64() / 300.0;
    assert!((mean - 500.0).abs() < 51.0, "{mean}");
}

#[test]
fn deadlines_follow_their_law() {
    let spec = TrafficSpec {
        flows_each: 20_000,
        deadlines: Deadlines::Exponential { mean: MS * 20, floor: MS * 3 },
        deadlines_below: Some(Bytes::new(40_000)),
        ..TrafficSpec::new(
            Pattern::Pairs(vec![(HostId(0), HostId(1))]),
            Sizes::Uniform(Bytes::new(1), Bytes::new(50_000)),
        )
    };
    let flows = flows(spec, 2, 1);
    assert!(flows.iter().all(|f| f.deadline.is_some() == (f.size < Bytes::new(40_000))));
    let after: Vec<f64> =
        flows.iter().filter_map(|f| Some((f.deadline? - f.start).as_secs_f64() * 1e3)).collect();
    let mean = after.iter().sum::<f64>() / after.len() as f64;
    // max(3, exp(20)) has mean 3 + 20·exp(−3/20).
    let expected = 3.0 + 20.0 * (-3.0f64 / 20.0).exp();
    assert!((mean - expected).abs() < 0.5, "{mean} {expected}");
    assert!(after.iter().all(|d| *d >= 3.0));
}

/// Runs closed loops with service times that grow with `slowness`. Returns flows by end time.
fn run_loops(mut workload: Workload, slowness: u64) -> Vec<FlowSpec> {
    let mut running = workload.flows.clone();
    let mut done = Vec::new();
    let end = |f: &FlowSpec| f.start + Duration::from_nanos(f.size.get() * slowness);
    while let Some(i) = (0..running.len()).min_by_key(|i| end(&running[*i])) {
        let flow = running.swap_remove(i);
        running.extend(workload.next_after(&flow, end(&flow)));
        done.push(flow);
    }
    done
}

#[test]
fn a_loop_draws_the_same_whatever_carries_it() {
    let spec = TrafficSpec {
        arrivals: Arrivals::ClosedLoop(LoopSpec { connections: 3, gap: Gap::Exponential(MS) }),
        ..TrafficSpec::new(Pattern::Random, Sizes::Uniform(Bytes::new(1), Bytes::new(100_000)))
    };
    let workload = build(&[spec], &view(4), MS * 100, 9).unwrap();
    assert_eq!(workload.flows.len(), 12);
    let [fast, slow] = [1, 40].map(|slowness| {
        let mut sizes: BTreeMap<HostId, Vec<(Bytes, HostId)>> = BTreeMap::new();
        for flow in run_loops(workload.clone(), slowness) {
            sizes.entry(flow.src).or_default().push((flow.size, flow.dst));
        }
        sizes
    });
    let count = |s: &BTreeMap<_, Vec<_>>| s.values().map(Vec::len).sum::<usize>();
    assert!(count(&fast) > 800, "{}", count(&fast));
    assert!(count(&slow) * 2 < count(&fast));
    // On each connection the flows of the slow run are a prefix of those of the fast run.
    for (host, flows) in &slow {
        assert!(flows.iter().all(|flow| fast[host].contains(flow)));
    }
}

#[test]
fn a_loop_respects_limit_and_median() {
    let spec = TrafficSpec {
        arrivals: Arrivals::ClosedLoop(LoopSpec {
            connections: 1,
            gap: Gap::ExponentialMedian(MS),
        }),
        limit: Some(2_000),
        ..kilobyte(Pattern::Pairs(vec![(HostId(0), HostId(1))]))
    };
    let mut workload = build(&[spec], &view(2), Duration::from_secs(100), 1).unwrap();
    let (mut flow, mut short, mut count) = (workload.flows[0], 0, 1);
    while let Some(next) = workload.next_after(&flow, flow.start) {
        short += u32::from(next.start - flow.start < MS);
        count += 1;
        let again = workload.next_after(&flow, flow.start);
        assert!(again.is_none(), "an end counts once");
        flow = next;
    }
    assert_eq!(count, 2_000);
    assert!(short.abs_diff(1_000) < 68, "{short}");
}

#[test]
fn lists_are_taken_as_they_are() {
    let flow = |src, dst, size, start, deadline| ListedFlow {
        src: HostId(src),
        dst: HostId(dst),
        size,
        start,
        deadline,
        transport: (src == 0).then_some(TransportId(2)),
    };
    let listed = vec![
        flow(3, 1, Bytes::new(10), MS * 2, None),
        flow(0, 1, Bytes::new(20), MS, Some(MS * 5)),
        flow(0, 1, Bytes::new(20), MS * 500, None),
    ];
    let spec = TrafficSpec { start: Instant::ZERO + MS, ..TrafficSpec::listed(listed) };
    let flows = flows(spec, 4, 1);
    assert_eq!(flows.len(), 2, "the last starts after the end");
    assert_eq!(flows[0].start, Instant::ZERO + MS * 2);
    assert_eq!(flows[0].deadline, Some(Instant::ZERO + MS * 7));
    assert_eq!(flows[0].transport, TransportId(2));
    assert_eq!((flows[1].src, flows[1].transport), (HostId(3), TransportId(0)));
    let to_itself = TrafficSpec::listed(vec![flow(1, 1, Bytes::new(1), MS, None)]);
    let text = problem(to_itself, 4).to_string();
    assert_eq!(text, "flow 1 of the list: host 1 sends to itself; give it another destination");
}

#[test]
fn mistakes_are_explained() {
    let spec = |pattern| kilobyte(pattern);
    let with = |change: &dyn Fn(&mut TrafficSpec)| {
        let mut spec = kilobyte(Pattern::Random);
        change(&mut spec);
        problem(spec, 8)
    };
    let pair = |a, b| spec(Pattern::Pairs(vec![(HostId(a), HostId(b))]));
    assert!(matches!(problem(pair(1, 1), 8), Problem::ToItself(_)));
    assert!(matches!(problem(pair(1, 8), 8), Problem::UnknownHost { .. }));
    let many = problem(spec(incast(Senders::Hosts(8), None)), 8);
    assert!(many.to_string().contains("workers = 8"), "{many}");
    assert!(matches!(problem(spec(Pattern::Stride(16)), 8), Problem::WholeStride { .. }));
    assert!(matches!(problem(spec(Pattern::Random), 1), Problem::TooFewHosts(1)));
    assert!(matches!(problem(spec(Pattern::Pairs(vec![])), 8), Problem::Empty("pairs")));
    let staggered = |local| spec(Pattern::Staggered { local });
    assert!(matches!(problem(staggered(1.5), 8), Problem::Local(_)));
    assert!(matches!(problem(staggered(0.5), 4), Problem::NoNeighbour { .. }));
    assert!(matches!(problem(staggered(0.5), 9), Problem::NoNeighbour { .. }));
    for load in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let problem = with(&|s| s.arrivals = Arrivals::PoissonLoad(load));
        assert!(matches!(problem, Problem::NotPositive { .. }), "{problem}");
    }
    assert!(matches!(
        with(&|s| s.arrivals = Arrivals::PoissonPerSecond(1e15)),
        Problem::TooManyFlows(_)
    ));
    assert!(matches!(
        with(&|s| s.arrivals = Arrivals::Periodic(Duration::ZERO)),
        Problem::Zero("periodic")
    ));
    assert!(matches!(
        with(&|s| {
            s.arrivals = Arrivals::PoissonLoad(0.5);
            s.sizes = Sizes::Endless;
        }),
        Problem::EndlessLoad
    ));
    assert!(matches!(
        with(&|s| {
            s.deadlines = Deadlines::Fixed(MS);
            s.sizes = Sizes::Endless;
        }),
        Problem::EndlessDeadline
    ));
    assert!(matches!(with(&|s| s.start = Instant::ZERO + MS * 100), Problem::StartsTooLate { .. }));
    assert!(matches!(with(&|s| s.sizes = Sizes::Fixed(Bytes::ZERO)), Problem::Sizes(_)));
    assert!(matches!(with(&|s| s.deadlines_below = Some(Bytes::new(9))), Problem::NoEffect { .. }));
    let mut named = kilobyte(Pattern::Stride(8));
    named.name = Some("shuffle".into());
    let error = build(&[kilobyte(Pattern::Random), named], &view(8), MS, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "traffic 2 (`shuffle`): stride = 8 is a multiple of the 8 hosts: each would send to itself; \
         choose another stride"
    );
}

#[test]
fn deadlines_change_by_traffic() {
    let plain = kilobyte(Pattern::Pairs(vec![(HostId(0), HostId(1))]));
    let change = DeadlineChange { after: MS * 2, deadline: Some(MS * 7) };
    let late = TrafficSpec { start: Instant::ZERO + MS, ..plain.clone() };
    let changed = TrafficSpec { deadline_change: Some(change), ..late.clone() };
    let workload = build(&[plain.clone(), changed], &view(2), MS * 100, 1).unwrap();
    let at = |ms: u64| Instant::ZERO + MS * ms;
    assert_eq!(workload.deadline_change(&workload.flows[0]), None);
    assert_eq!(workload.deadline_change(&workload.flows[1]), Some((at(3), Some(at(8)))));
    // Impossible changes and changes without effect are errors.
    let endless = TrafficSpec {
        deadline_change: Some(change),
        ..TrafficSpec::new(plain.pattern, Sizes::Endless)
    };
    assert_eq!(problem(endless, 2), Problem::EndlessDeadline);
    let dropped = DeadlineChange { deadline: None, ..change };
    let nothing = TrafficSpec { deadline_change: Some(dropped), ..late };
    assert!(matches!(problem(nothing, 2), Problem::NoEffect { key: "deadline_change", .. }));
}

/// Half of each host's NIC rate in flows of 10 KB: 62,500 per second at 10 Gb/s, 6,250 at 1 Gb/s.
#[test]
fn poisson_load_follows_the_rate_of_each_host() {
    let gbps = |rates: [u64; 4]| HostsView {
        nic_rates: rates.into_iter().map(Rate::from_gbps).collect(),
        rack_size: None,
    };
    let spec = TrafficSpec {
        arrivals: Arrivals::PoissonLoad(0.5),
        ..TrafficSpec::new(Pattern::Stride(1), Sizes::Fixed(Bytes::new(10_000)))
    };
    // In any order of hosts: the rate of host 0 must not count for all.
    for rates in [[10, 1, 1, 10], [1, 10, 10, 1]] {
        let flows = build(std::slice::from_ref(&spec), &gbps(rates), Duration::from_secs(1), 3)
            .unwrap()
            .flows;
        let counts = tally(flows.iter().map(|flow| flow.src));
        for (host, rate) in rates.into_iter().enumerate() {
            let (got, mean) = (counts[&HostId(host as u32)] as f64, 6_250.0 * rate as f64);
            assert!((got - mean).abs() < 5.0 * mean.sqrt(), "host {host}: {got}, {mean} expected");
        }
    }
}

fn group(text: &str) -> Option<HostSet> {
    Some(text.parse().unwrap())
}

/// A traffic from hosts 0 to 3 to hosts 8 to 15.
fn across(pattern: Pattern) -> TrafficSpec {
    TrafficSpec { from: group("0-3"), to: group("8-15"), ..kilobyte(pattern) }
}

#[test]
fn groups__senders_and_receivers() {
    let ends = |spec: TrafficSpec| {
        let flows = flows(spec, 16, 5);
        assert!(flows.iter().all(|f| f.src.0 < 4 && f.dst.0 >= 8), "{flows:?}");
        let (from, to) = (tally(flows.iter().map(|f| f.src)), tally(flows.iter().map(|f| f.dst)));
        (flows.len(), from.len(), to.values().copied().max())
    };
    assert_eq!(ends(across(Pattern::AllToAll)), (32, 4, Some(4)));
    assert_eq!(ends(across(Pattern::Permutation)), (4, 4, Some(1)));
    assert_eq!(ends(across(incast(Senders::All, None))), (4, 4, Some(4)));
    assert_eq!(ends(across(incast(Senders::Workers(9), Some(12)))), (9, 4, Some(9)));
    let random = TrafficSpec { flows_each: 1_000, ..across(Pattern::Random) };
    let to = tally(flows(random.clone(), 16, 5).iter().map(|f| f.dst));
    assert_eq!(to.len(), 8);
    // 4,000 draws among eight: 500 each, with a standard deviation of 21.
    assert!(to.values().all(|n| (400..600).contains(n)), "{to:?}");
    let (_, senders, _) = ends(random);
    assert_eq!(senders, 4);
}

#[test]
fn groups__one_alone_and_overlapping() {
    let all = |spec: TrafficSpec| flows(TrafficSpec { flows_each: 200, ..spec }, 8, 5);
    let from = all(TrafficSpec { from: group("0-1"), ..kilobyte(Pattern::Random) });
    assert!(from.iter().all(|f| f.src.0 < 2 && f.src != f.dst));
    assert_eq!(tally(from.iter().map(|f| f.dst)).len(), 8, "to anyone");
    let to = all(TrafficSpec { to: group("6-7"), ..kilobyte(Pattern::Random) });
    assert!(to.iter().all(|f| f.dst.0 >= 6 && f.src != f.dst));
    assert_eq!(tally(to.iter().map(|f| f.src)).len(), 8, "from anyone");
    let spec = TrafficSpec { from: group("0-2"), to: group("1-2"), ..kilobyte(Pattern::AllToAll) };
    assert_eq!(flows(spec, 8, 5).len(), 4);
}

#[test]
fn groups__what_cannot_be() {
    let with = |from: &str, to: &str, pattern| TrafficSpec {
        from: group(from),
        to: group(to),
        ..kilobyte(pattern)
    };
    let excluded = TrafficSpec { exclude: "0-3".parse().unwrap(), ..across(Pattern::Random) };
    assert_eq!(problem(excluded, 16), Problem::EmptyGroup("from"));
    let both = with("0-3", "3-8", Pattern::Permutation);
    assert_eq!(problem(both, 16), Problem::InBothGroups(HostId(3)));
    let few = with("0-3", "8-9", Pattern::Permutation);
    assert_eq!(problem(few, 16), Problem::TooFewReceivers { from: 4, to: 2 });
    for pattern in [Pattern::Random, Pattern::AllToAll, incast(Senders::All, None)] {
        let problem = problem(with("3", "3", pattern), 16);
        assert_eq!(problem, Problem::ToItself(HostId(3)));
    }
    let left_out = across(incast(Senders::All, Some(0)));
    assert_eq!(problem(left_out, 16), Problem::ReceiverLeftOut(HostId(0)));
    let unknown = with("0", "8-16", Pattern::Random);
    assert!(matches!(problem(unknown, 16), Problem::UnknownHost { .. }));
}
