//! Rates after every event against rates computed from scratch by other code.

use super::core::{Core, Model, Timer};
use super::critical::Critical;
use super::shares::Shares;
use super::*;
use proptest::prelude::*;
use punctual_core::{CriticalOrder, FlowWindow, PathUse};

/// A model with set-up and packets that cost nothing.
pub(super) fn model(sharing: Sharing) -> FlowModel {
    FlowModel {
        sharing,
        paths: PathUse::Hashed,
        setup_rtts: 0.0,
        setup_rtts_without_deadline: 0.0,
        resume_rtts: 0.0,
        payload: Bytes::new(1500),
        header: Bytes::ZERO,
        answers: 0.0,
        window: FlowWindow::Unlimited,
        receiver_rate: None,
    }
}

fn critical(order: CriticalOrder, aging: f64, early_termination: bool) -> FlowModel {
    model(Sharing::Critical { order, aging, early_termination })
}

const SPAN: LevelSpan = LevelSpan {
    until: Instant::from_picos(u64::MAX - 1),
    when_done_after: Some(Instant::ZERO),
    window: (Instant::ZERO, Instant::from_picos(u64::MAX - 1)),
};

/// A model whose rates are compared with those of `expected` after every event.
struct Checked<M, E> {
    model: M,
    expected: E,
    /// How far rates may be from the expected ones, relative to the fastest link.
    tolerance: f64,
    solves: u32,
}

/// Whether the rates of a model are those that its rule gives.
trait IsExact {
    fn is_exact(&self) -> bool {
        true
    }
}

impl IsExact for Shares {}

/// A flow that has overtaken too often waits for its next turn; rates are those of an earlier order
/// until then.
impl IsExact for Critical {
    fn is_exact(&self) -> bool {
        self.delayed() == 0
    }
}

impl<M: Model + IsExact, E: FnMut(&Core<'_>, &M) -> Vec<f64>> Model for Checked<M, E> {
    fn start(&mut self, flow: u32, core: &mut Core<'_>) {
        self.model.start(flow, core);
    }
    fn end(&mut self, flow: u32, core: &mut Core<'_>) {
        self.model.end(flow, core);
    }
    fn fire(&mut self, timer: Timer, core: &mut Core<'_>) {
        self.model.fire(timer, core);
    }
    fn solve(&mut self, core: &mut Core<'_>) {
        self.model.solve(core);
        self.solves += 1;
        assert!(self.solves < 100_000, "it goes on and on");
        let fastest = core.capacities.iter().copied().fold(0.0, f64::max);
        let mut loads = vec![0.0; core.capacities.len()];
        let rate = |flow: usize| {
            let state = &core.flows[flow];
            if state.is_active { state.rate } else { 0.0 }
        };
        let expected = match self.model.is_exact() {
            true => (self.expected)(core, &self.model),
            false => Vec::new(),
        };
        for (flow, expected) in expected.iter().enumerate() {
            assert!(
                (rate(flow) - expected).abs() <= self.tolerance * fastest,
                "flow {flow} at {}: {} instead of {expected}",
                core.now,
                rate(flow)
            );
        }
        for flow in 0..core.flows.len() {
            let rate = rate(flow);
            if core.paths.of(flow as u32).len() == 1 {
                let path = core.paths.of(flow as u32).start;
                let own = core.paths.links_and_parts(path);
                own.for_each(|(link, part)| loads[link as usize] += rate * part);
            }
        }
        for (load, capacity) in loads.iter().zip(&core.capacities) {
            assert!(*load <= capacity * (1.0 + 1e-9), "{load} on a link of {capacity}");
        }
    }
}

fn active(core: &Core<'_>) -> Vec<u32> {
    (0..core.flows.len() as u32).filter(|flow| core.flows[*flow as usize].is_active).collect()
}

/// Every active flow in order of `key`; each takes what its paths have left.
fn greedy<K: Ord>(core: &Core<'_>, key: impl Fn(u32) -> K) -> Vec<f64> {
    let mut order = active(core);
    order.sort_by_key(|flow| key(*flow));
    let mut residual = core.capacities.clone();
    let mut rates = vec![0.0; core.flows.len()];
    for flow in order {
        for path in core.paths.of(flow) {
            let links = core.paths.links(path);
            let spare = links.iter().map(|l| residual[*l as usize]).fold(f64::INFINITY, f64::min);
            let rate = spare.min(core.flows[flow as usize].rate_max - rates[flow as usize]);
            links.iter().for_each(|link| residual[*link as usize] -= rate);
            rates[flow as usize] += rate;
        }
    }
    rates
}

fn by_deadline(core: &Core<'_>, _: &Critical) -> Vec<f64> {
    greedy(core, |flow| {
        let state = &core.flows[flow as usize];
        let expected = (state.size - state.sent_by(core.now)) / state.rate_max * 1e12;
        (state.deadline, expected.to_bits(), flow)
    })
}

/// Progressive filling, link by link: the tightest link or maximum rate is searched among all.
fn max_min(core: &Core<'_>, shares: &Shares) -> Vec<f64> {
    let most = |flow: u32| {
        let ramp = shares.ramp_of(core.paths.of(flow).start);
        core.flows[flow as usize].rate_max.min(ramp)
    };
    let mut rates = vec![0.0; core.flows.len()];
    let mut open = active(core);
    let mut residual = core.capacities.clone();
    while !open.is_empty() {
        let links = |flow: u32| core.paths.links(core.paths.of(flow).start);
        let part = |flow: u32, link: usize| {
            let path = core.paths.of(flow).start;
            let is_on = core.paths.links(path).contains(&(link as u32));
            if is_on { core.paths.part(path, link as u32) } else { 0.0 }
        };
        let on = |link: usize| open.iter().map(|flow| part(*flow, link)).sum::<f64>();
        let levels = (0..residual.len()).filter(|l| on(*l) > 0.0).map(|l| residual[l] / on(l));
        let share = levels.fold(f64::INFINITY, f64::min);
        let least = open.iter().map(|flow| most(*flow)).fold(share, f64::min);
        let tight: Vec<usize> = (0..residual.len())
            .filter(|l| on(*l) > 0.0 && residual[*l] / on(*l) <= least * (1.0 + 1e-12))
            .collect();
        let (done, rest): (Vec<u32>, Vec<u32>) = open.iter().partition(|flow| {
            most(**flow) <= least
                || links(**flow).iter().any(|link| tight.contains(&(*link as usize)))
        });
        for flow in done {
            rates[flow as usize] = least;
            for &link in links(flow) {
                residual[link as usize] -= least * part(flow, link as usize);
            }
        }
        open = rest;
    }
    rates
}

/// A random network: capacities, flows and their paths.
#[derive(Debug, Clone)]
struct Case {
    capacities: Vec<Rate>,
    flows: Vec<LevelFlow>,
    paths: PathTable,
}

fn cases(paths_each: usize) -> impl Strategy<Value = Case> {
    let link = 1u64..=5;
    let path = prop::collection::vec(0usize..8, 1..5);
    let flow = (
        0u64..20,
        1u64..200_000,
        prop::option::weighted(0.5, 1u64..30),
        1u64..=4,
        prop::collection::vec(path, 1..=paths_each),
    );
    (prop::collection::vec(link, 8), prop::collection::vec(flow, 1..25)).prop_map(
        |(links, drawn)| {
            let mut paths = PathTable::default();
            let mut flows = Vec::new();
            for (start, size, deadline, rate_max, own) in drawn {
                let mut lists: Vec<Vec<u32>> = Vec::new();
                for path in own {
                    let mut list: Vec<u32> = path.iter().map(|link| *link as u32).collect();
                    list.sort_unstable();
                    list.dedup();
                    lists.push(list);
                }
                paths.push(lists.iter().map(Vec::as_slice));
                let start = Instant::from_picos(start * 100_000_000);
                flows.push(LevelFlow {
                    start,
                    size: Bytes::new(size),
                    deadline: deadline.map(|d| start + Duration::from_micros(d * 100)),
                    rtt: Duration::ZERO,
                    data_rtt: Duration::ZERO,
                    tail: Duration::ZERO,
                    rate_max: Rate::from_mbps(rate_max * 500),
                    draw: (size % 7) as u32,
                    awaited: true,
                });
            }
            let capacities = links.iter().map(|rate| Rate::from_mbps(rate * 300)).collect();
            Case { capacities, flows, paths }
        },
    )
}

/// Runs a case and compares all rates; bytes are conserved.
fn check<M: Model + IsExact>(
    case: &Case,
    model: &FlowModel,
    make: impl FnOnce(&FlowModel, &Core<'_>) -> M,
    expected: impl FnMut(&Core<'_>, &M) -> Vec<f64>,
    tolerance: f64,
) -> LevelOutcome {
    let mut core = Core::new(model, &case.flows, &case.paths, &case.capacities, SPAN);
    let inner = make(model, &core);
    let mut checked = Checked { model: inner, expected, tolerance, solves: 0 };
    core.run(&mut checked, &mut |_| true);
    let has_several = case.paths.path_count() > case.paths.flow_count();
    assert!(has_several || checked.model.is_exact(), "a single path never sends slower when ahead");
    let outcome = core.outcome();
    for (flow, end) in case.flows.iter().zip(&outcome.flows) {
        let size = flow.size.get() as f64;
        match end.status {
            LevelStatus::Completed => assert_eq!(end.sent, size),
            LevelStatus::Abandoned => assert!(end.sent <= size),
            LevelStatus::Unfinished => panic!("unfinished: {flow:?}"),
        }
        assert!((end.sent_in_window - end.sent).abs() <= 1e-6);
    }
    outcome
}

fn flow_without_deadline(start_us: u64, kilobytes: u64, mbps: u64) -> LevelFlow {
    LevelFlow {
        start: Instant::from_picos(start_us * 1_000_000),
        size: Bytes::new(kilobytes * 1000),
        deadline: None,
        rtt: Duration::ZERO,
        data_rtt: Duration::ZERO,
        tail: Duration::ZERO,
        rate_max: Rate::from_mbps(mbps),
        draw: 0,
        awaited: true,
    }
}

/// Two flows become equally critical at the instant at which a third starts elsewhere. The flow
/// with the lower id is the more critical one from this instant on.
#[test]
fn an_order_changes_at_the_instant_of_the_tie() {
    let mut paths = PathTable::default();
    paths.push([&[0u32, 1][..], &[2][..]]);
    paths.push([&[1u32][..]]);
    paths.push([&[3u32][..]]);
    let mut flows = vec![
        flow_without_deadline(900, 1, 2000),
        flow_without_deadline(1100, 1, 2000),
        flow_without_deadline(1400, 31, 500),
    ];
    // 900 µs: 1.2 Gb/s. 1,100 µs: flow 1 is ahead; 900 and 600 Mb/s until the rest is equal, 300 µs
    // later: 125,821 B − 30,000 B − 33,750 B = 84,571 B − 22,500 B.
    flows[0].size = Bytes::new(125_821);
    flows[1].size = Bytes::new(84_571);
    let capacities = [300, 600, 900, 500].map(Rate::from_mbps).to_vec();
    let case = Case { capacities, flows, paths };
    check(&case, &critical(CriticalOrder::Deadline, 0.0, true), Critical::new, by_deadline, 0.0);
}

/// A flow whose first path takes from both of its others sends 1.2 Gb/s behind and 0.6 Gb/s ahead
/// of another flow, which is between the two in pace. They overtake each other without end, in
/// turns of a packet's time, and both end.
#[test]
fn flows_that_are_slower_ahead_take_turns() {
    let mut paths = PathTable::default();
    paths.push([&[0u32, 1][..], &[1][..]]);
    paths.push([&[0u32, 2, 3][..], &[2][..], &[3][..]]);
    let flows = vec![flow_without_deadline(0, 500, 1000), flow_without_deadline(0, 800, 1500)];
    let case = Case { capacities: vec![Rate::from_mbps(600); 4], flows, paths };
    let model = critical(CriticalOrder::Deadline, 0.0, false);
    let outcome = check(&case, &model, Critical::new, by_deadline, 0.0);
    // 500 KB at 600 Mb/s take 6.7 ms, and a turn of 1,500 B 8 to 12 µs: at most 9 events of either.
    assert!(outcome.events <= 2 * 9 * 6_700 / 8 + 10, "{}", outcome.events);
    assert!(outcome.events > 100, "{}: they do not take turns", outcome.events);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(96)))]

    /// The incremental greedy allocation is the one that all flows in order give, at every event.
    #[test]
    fn greedy_rates_equal_those_from_scratch(case in cases(1), terminates in any::<bool>()) {
        let model = critical(CriticalOrder::Deadline, 0.0, terminates);
        check(&case, &model, Critical::new, by_deadline, 0.0);
    }

    #[test]
    fn greedy_rates_of_several_paths_equal_those_from_scratch(case in cases(3)) {
        let model = critical(CriticalOrder::Deadline, 0.0, true);
        check(&case, &model, Critical::new, by_deadline, 0.0);
    }

    #[test]
    fn greedy_rates_by_a_draw_equal_those_from_scratch(case in cases(1)) {
        let model = critical(CriticalOrder::Random, 0.0, false);
        let draws = |core: &Core<'_>, _: &Critical| greedy(core, |f| (core.given[f as usize].draw, f));
        check(&case, &model, Critical::new, draws, 0.0);
    }

    #[test]
    fn greedy_rates_by_estimated_size_equal_those_from_scratch(case in cases(1)) {
        let model = critical(CriticalOrder::Estimated(Bytes::new(10_000)), 0.0, false);
        let by_sent = |core: &Core<'_>, model: &Critical| greedy(core, |flow| {
            let state = &core.flows[flow as usize];
            let (steps, counted) = (state.sent_by(core.now) / 80_000.0, model.estimate_of(flow));
            // A picosecond at 2 Gb/s is 2.5e-8 of a step.
            let is_right = counted as f64 - 1e-9 <= steps && steps <= counted as f64 + 1.0 + 1e-7;
            assert!(is_right, "{steps} steps counted as {counted}");
            (state.deadline, counted, flow)
        });
        check(&case, &model, Critical::new, by_sent, 0.0);
    }

    /// With aging all flows end, and no link exceeds its capacity.
    #[test]
    fn aging_ends(case in cases(1), aging in 0.1f64..200.0) {
        let model = critical(CriticalOrder::Deadline, aging, false);
        let mine = |core: &Core<'_>, _: &Critical| core.flows.iter().map(|f| f.rate).collect();
        check(&case, &model, Critical::new, mine, 0.0);
    }

    /// Max-min shares equal those of a slow solver to 1e-9, at every event.
    #[test]
    fn fair_rates_equal_those_of_a_slow_solver(case in cases(1)) {
        check(&case, &model(Sharing::Fair), Shares::new, max_min, 1e-9);
    }

    /// With windows that double each RTT, max-min shares equal those of a slow solver.
    #[test]
    fn fair_rates_in_slow_start_equal_those_of_a_slow_solver(
        case in cases(1),
        rtt in 1u64..500,
        window in 1u64..10_000,
    ) {
        let mut case = case;
        case.flows.iter_mut().for_each(|flow| flow.data_rtt = Duration::from_micros(rtt));
        let window = FlowWindow::Doubling(Bytes::new(window));
        let model = FlowModel { window, ..model(Sharing::Fair) };
        check(&case, &model, Shares::new, max_min, 1e-9);
    }

    /// Max-min shares of flows that spread over paths in parts equal those of a slow solver.
    #[test]
    fn fair_rates_of_parts_equal_those_of_a_slow_solver(case in cases(1), seed in any::<u64>()) {
        let mut case = case;
        let mut stream = punctual_core::rng::Stream::from_seed(seed);
        let mut paths = PathTable::default();
        for flow in 0..case.flows.len() as u32 {
            let links = case.paths.links(case.paths.of(flow).start);
            let part = |link: &u32| (*link, (1 + stream.below(8)) as f64 / 8.0);
            paths.push_spread(&links.iter().map(part).collect::<Vec<_>>());
        }
        case.paths = paths;
        check(&case, &model(Sharing::Fair), Shares::new, max_min, 1e-9);
    }

    /// Equal weights are equal shares.
    #[test]
    fn weights_without_deadlines_are_fair(case in cases(1)) {
        let mut case = case;
        case.flows.iter_mut().for_each(|flow| flow.deadline = None);
        // One window for all: a single link of all flows.
        case.paths = PathTable::default();
        case.flows.iter().for_each(|_| case.paths.push([&[0u32][..]]));
        let weighted =
            Sharing::Weighted { d_min: 0.5, d_max: 2.0, d_after_miss: 1.0, mark_above: 20.0 };
        check(&case, &model(weighted), Shares::new, max_min, 1e-9);
    }

    /// With reservations and weights no link exceeds its capacity and all flows end.
    #[test]
    fn reservations_and_weights_end(case in cases(1), quenching in any::<bool>()) {
        let mine = |core: &Core<'_>, _: &Shares| {
            core.flows.iter().map(|f| if f.is_active { f.rate } else { 0.0 }).collect()
        };
        check(&case, &model(Sharing::Reserved { quenching }), Shares::new, mine, 0.0);
        let weighted =
            Sharing::Weighted { d_min: 0.5, d_max: 2.0, d_after_miss: 1.0, mark_above: 20.0 };
        check(&case, &model(weighted), Shares::new, mine, 0.0);
    }
}
