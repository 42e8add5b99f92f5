//! Properties that hold for any flows.

use proptest::prelude::*;
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Duration, Instant, Rate};
use punctual_fluid::{
    FluidError, FluidFlow, FluidResult, Policy, is_exact, most_on_time, schedule,
};

fn met(results: &[FluidResult]) -> usize {
    results.iter().filter(|r| r.met == Some(true)).count()
}

/// The size of the largest subset of jobs that are all on time in order of deadlines.
fn brute_force(jobs: &[(u128, u128)]) -> usize {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&job| jobs[job].1);
    let feasible = |set: u32| {
        let mut total = 0;
        order.iter().filter(|&&job| set >> job & 1 == 1).all(|&job| {
            total += jobs[job].0;
            total <= jobs[job].1
        })
    };
    let sets = (0u32..1 << jobs.len()).filter(|set| feasible(*set));
    sets.map(|set| set.count_ones() as usize).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(400)))]

    #[test]
    fn moore_hodgson_is_brute_force(
        jobs in prop::collection::vec((1u128..30, 1u128..100), 0..=12),
    ) {
        let kept = most_on_time(&jobs);
        prop_assert_eq!(kept.iter().filter(|kept| **kept).count(), brute_force(&jobs));
        // The selected jobs are on time.
        let mut chosen: Vec<_> = jobs.iter().zip(&kept).filter(|(_, k)| **k).map(|(j, _)| *j).collect();
        chosen.sort_by_key(|job| job.1);
        let mut total = 0;
        for (needed, allowed) in chosen {
            total += needed;
            prop_assert!(total <= allowed);
        }
    }
}

/// Flows that all start at 0 on one link. Sizes and deadlines lie on a coarse grid, so that ties
/// and exact fits occur.
fn simultaneous(draw: &mut Stream, rate: Rate) -> Vec<FluidFlow> {
    let count = 1 + draw.below(12);
    let unit = [1u64, 1_000, 1_460][draw.below(3) as usize];
    let slack = 1 + draw.below(2 * count);
    (0..count)
        .map(|id| {
            let size = Bytes::new((1 + draw.below(20)) * unit);
            let by = rate.transmission_time(Bytes::new(unit)) * (1 + draw.below(20 * slack));
            let deadline = (draw.below(8) > 0).then_some(Instant::ZERO + by);
            FluidFlow { id, start: Instant::ZERO, size, deadline, path: vec![0] }
        })
        .collect()
}

#[test]
fn nothing_beats_the_optimum_in_ten_thousand_cases() {
    let mut draw = Stream::named(7, "cases", 0);
    let (mut below, mut equal) = ([0u32; 4], [0u32; 4]);
    for _ in 0..10_000 {
        let rate =
            Rate::from_bps([1_000_000_000, 10_000_000_000, 999_999_937][draw.below(3) as usize]);
        let flows = simultaneous(&mut draw, rate);
        assert!(is_exact(&flows, &[rate]));
        let best = schedule(Policy::Optimal, &flows, &[rate]).unwrap();
        for (n, policy) in Policy::ALL[..4].iter().enumerate() {
            let results = schedule(*policy, &flows, &[rate]).unwrap();
            assert!(met(&results) <= met(&best), "{policy:?} beats the optimum: {flows:?}");
            if met(&results) == met(&best) {
                equal[n] += 1
            } else {
                below[n] += 1
            }
            // Work is conserved: all policies finish the last flow at the same time, up to one
            // picosecond per event.
            let end =
                |r: &[FluidResult]| r.iter().filter_map(|r| r.finished).max().unwrap().as_picos();
            assert!(end(&results).abs_diff(end(&best)) <= 2 * flows.len() as u64, "{policy:?}");
        }
        // If all deadlines can be met, EDF meets them.
        if met(&best) == flows.iter().filter(|f| f.deadline.is_some()).count() {
            let edf = schedule(Policy::Edf, &flows, &[Rate::from_bps(rate.as_bps())]).unwrap();
            if rate.as_bps().is_multiple_of(1_000_000_000) {
                assert_eq!(met(&edf), met(&best));
            }
        }
    }
    println!(
        "fair, EDF, SJF, reservation: as good as optimal {equal:?}, worse {below:?} of 10,000"
    );
    assert!(below.iter().all(|n| *n > 500), "the cases are too easy: {below:?}");
}

/// No policy beats the bound on random networks with random starts.
#[test]
fn nothing_beats_the_bound_on_networks() {
    let mut draw = Stream::named(8, "networks", 0);
    let (mut bound, mut best_policy) = (0, 0);
    for _ in 0..3_000 {
        let links = 1 + draw.below(5) as usize;
        let capacities: Vec<Rate> =
            (0..links).map(|_| Rate::from_gbps(1 + draw.below(10))).collect();
        let flows: Vec<FluidFlow> = (0..1 + draw.below(15))
            .map(|id| {
                let start = Instant::ZERO + Duration::from_micros(draw.below(300));
                let mut path: Vec<usize> = (0..links).collect();
                draw.shuffle(&mut path);
                path.truncate(1 + draw.below(links as u64) as usize);
                FluidFlow {
                    id,
                    start,
                    size: Bytes::new(1 + draw.below(50_000)),
                    deadline: (draw.below(5) > 0)
                        .then(|| start + Duration::from_micros(1 + draw.below(600))),
                    path,
                }
            })
            .collect();
        let optimal = schedule(Policy::Optimal, &flows, &capacities).unwrap();
        let counts = Policy::ALL[..4].iter().map(|policy| {
            let results = schedule(*policy, &flows, &capacities).unwrap();
            check(&flows, &capacities, &results);
            met(&results)
        });
        let best = counts.max().unwrap();
        assert!(best <= met(&optimal), "{flows:?} on {capacities:?}");
        bound += met(&optimal);
        best_policy += best;
    }
    println!("deadlines met on networks: best policy {best_policy}, bound {bound}");
}

/// Every flow ends, none earlier than alone; no link carries its flows faster than its rate.
fn check(flows: &[FluidFlow], capacities: &[Rate], results: &[FluidResult]) {
    for (flow, result) in flows.iter().zip(results) {
        assert_eq!(flow.id, result.id);
        let slowest = flow.path.iter().map(|link| capacities[*link]).min().unwrap();
        let alone = flow.start + slowest.transmission_time(flow.size);
        assert!(result.finished.expect("every flow ends") >= alone);
    }
    for (link, rate) in capacities.iter().enumerate() {
        let here = || flows.iter().zip(results).filter(|(flow, _)| flow.path.contains(&link));
        let Some(first) = here().map(|(flow, _)| flow.start).min() else { continue };
        let total = here().map(|(flow, _)| flow.size).sum();
        let last = here().filter_map(|(_, result)| result.finished).max().unwrap();
        assert!(last >= first + rate.transmission_time(total));
    }
}

fn flow(id: u64, start_us: u64, bytes: u64, path: &[usize]) -> FluidFlow {
    FluidFlow {
        id,
        start: Instant::ZERO + Duration::from_micros(start_us),
        size: Bytes::new(bytes),
        deadline: None,
        path: path.to_vec(),
    }
}

fn ends_us(policy: Policy, flows: &[FluidFlow], capacities: &[Rate]) -> Vec<f64> {
    let results = schedule(policy, flows, capacities).unwrap();
    results.iter().map(|r| r.finished.unwrap().as_picos() as f64 / 1e6).collect()
}

/// The parking lot: a long flow over both links, a short one on each; links of 1 and 2 Gb/s.
#[test]
fn max_min_on_two_links() {
    let capacities = [Rate::from_gbps(1), Rate::from_gbps(2)];
    let flows =
        [flow(0, 0, 125_000, &[0, 1]), flow(1, 0, 125_000, &[0]), flow(2, 0, 375_000, &[1])];
    // 0.5, 0.5 and 1.5 Gb/s: all complete after 2 ms.
    assert_eq!(ends_us(Policy::FairShare, &flows, &capacities), [2000.0; 3]);
    // Shortest first: flow 0 takes all of link 0 and leaves 1 Gb/s to flow 2.
    assert_eq!(ends_us(Policy::Sjf, &flows, &capacities), [1000.0, 2000.0, 2000.0]);
}

#[test]
fn arrivals_preempt() {
    let capacities = [Rate::from_gbps(1)];
    let flows = [flow(0, 0, 125_000, &[0]), flow(1, 200, 12_500, &[0])];
    assert_eq!(ends_us(Policy::Sjf, &flows, &capacities), [1100.0, 300.0]);
    assert_eq!(ends_us(Policy::FairShare, &flows, &capacities), [1100.0, 400.0]);
    assert_eq!(ends_us(Policy::Optimal, &flows, &capacities), [1100.0, 300.0]);
}

#[test]
fn endless_empty_and_hopeless_flows() {
    let capacities = [Rate::from_gbps(1)];
    let past = Some(Instant::ZERO + Duration::from_micros(1));
    let flows = [
        flow(0, 0, u64::MAX, &[0]),
        flow(1, 5, 0, &[0]),
        FluidFlow { deadline: past, ..flow(2, 5, 1_000, &[0]) },
        FluidFlow { deadline: past, ..flow(3, 0, u64::MAX, &[0]) },
    ];
    for policy in Policy::ALL {
        let results = schedule(policy, &flows, &capacities).unwrap();
        assert_eq!(results[0].finished, None);
        assert_eq!(results[1].finished, Some(flows[1].start));
        assert_eq!((results[2].met, results[3].met), (Some(false), Some(false)), "{policy:?}");
        assert_eq!(schedule(policy, &[], &capacities), Ok(vec![]));
        assert_eq!(schedule(policy, &[], &[]), Ok(vec![]));
    }
}

#[test]
fn nonsense_is_refused() {
    let try_one = |flow, rate| schedule(Policy::FairShare, &[flow], &[rate]).unwrap_err();
    let rate = Rate::from_gbps(1);
    assert_eq!(try_one(flow(7, 0, 1, &[]), rate), FluidError::EmptyPath(7));
    let error = FluidError::NoSuchLink { flow: 7, link: 1, links: 1 };
    assert_eq!(try_one(flow(7, 0, 1, &[1]), rate), error);
    assert_eq!(try_one(flow(7, 0, 1, &[0, 0]), rate), FluidError::LinkTwice(7, 0));
    assert_eq!(try_one(flow(7, 0, 1, &[0]), Rate::ZERO), FluidError::NoCapacity(0));
    assert_eq!(
        try_one(flow(7, 0, 1, &[0]), Rate::from_gbps(20_000)),
        FluidError::TooFast(0, Rate::from_bps(1 << 44))
    );
    assert_eq!(try_one(flow(7, 0, 1 << 51, &[0]), rate), FluidError::TooLarge(7));
}

/// The bytes carried until a time add up to the link's capacity, and at the end to the sizes.
#[test]
fn what_moves_is_what_the_link_carries() {
    use punctual_fluid::moved_by;
    let rate = Rate::from_gbps(1);
    let flows =
        [flow(0, 0, 12_500, &[0, 1]), flow(1, 100, u64::MAX, &[0]), flow(2, 50, 12_500, &[0])];
    let rates = [rate, Rate::from_gbps(4)];
    for policy in Policy::ALL {
        for micros in [0, 40, 150, 400] {
            let until = Instant::ZERO + Duration::from_micros(micros);
            let moved = moved_by(policy, &flows, &rates, until).unwrap().expect("one link");
            let total: u64 = moved.iter().map(|bytes| bytes.get()).sum();
            let room = 125 * micros;
            assert!(room - total <= 3, "{policy:?} at {micros} µs: {moved:?}");
        }
    }
    let late = Instant::ZERO + Duration::from_secs(1);
    let two = [flow(0, 0, 12_500, &[0]), flow(1, 50, 7, &[0])];
    for policy in Policy::ALL {
        let moved = moved_by(policy, &two, &[rate], late).unwrap().unwrap();
        assert_eq!(moved, [Bytes::new(12_500), Bytes::new(7)], "{policy:?}");
    }
    // A bound has no schedule.
    let apart = [flow(0, 0, 1, &[0]), flow(1, 0, 1, &[1])];
    assert_eq!(moved_by(Policy::Optimal, &apart, &rates, late), Ok(None));
}
