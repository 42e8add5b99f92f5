//! The flow-level simulator on examples of the papers, against the ideal schedulers, and on inputs
//! at the edge.

use proptest::prelude::*;
use punctual_core::{
    Bytes, CriticalOrder, Duration, FlowModel, FlowWindow, Instant, PathUse, Rate, Sharing,
};
use punctual_fluid::{
    FluidError, FluidFlow, LevelEnd, LevelFlow, LevelOutcome, LevelSpan, LevelStatus, PathTable,
    Policy, schedule, simulate,
};

const GBPS: Rate = Rate::from_gbps(1);
/// Bytes that 1 Gb/s carries per second.
const UNIT: u64 = 125_000_000;
const CRITICAL: Sharing =
    Sharing::Critical { order: CriticalOrder::Deadline, aging: 0.0, early_termination: false };
const RESERVED: Sharing = Sharing::Reserved { quenching: false };
const SPAN: LevelSpan = LevelSpan {
    until: Instant::from_picos(u64::MAX / 2),
    when_done_after: Some(Instant::ZERO),
    window: (Instant::ZERO, Instant::from_picos(u64::MAX / 2)),
};

/// A model whose set-up and packets cost nothing.
fn model(sharing: Sharing) -> FlowModel {
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

fn secs(n: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(n)
}

fn flow(size: u64, deadline: Option<Instant>) -> LevelFlow {
    LevelFlow {
        start: Instant::ZERO,
        size: Bytes::new(size),
        deadline,
        rtt: Duration::ZERO,
        data_rtt: Duration::ZERO,
        tail: Duration::ZERO,
        rate_max: GBPS,
        draw: 0,
        awaited: true,
    }
}

/// All flows on one link of 1 Gb/s.
fn on_one_link(model: &FlowModel, flows: &[LevelFlow]) -> LevelOutcome {
    let mut paths = PathTable::default();
    flows.iter().for_each(|_| paths.push([&[0][..]]));
    simulate(model, flows, &paths, &[GBPS], SPAN, &mut |_| true).unwrap()
}

fn ended(outcome: &LevelOutcome) -> Vec<Instant> {
    outcome.flows.iter().map(|flow| flow.ended.expect("it ended")).collect()
}

fn met(flows: &[LevelFlow], outcome: &LevelOutcome) -> usize {
    let is_met = |(flow, end): (&LevelFlow, &LevelEnd)| {
        end.status == LevelStatus::Completed && end.ended <= flow.deadline
    };
    flows.iter().zip(&outcome.flows).filter(|pair| is_met(*pair)).count()
}

/// PDQ's flows A, B and C: sizes 1, 2 and 3, deadlines 1, 4 and 6.
fn pdq_figure_1() -> [LevelFlow; 3] {
    [(1, 1), (2, 4), (3, 6)].map(|(size, deadline)| flow(size * UNIT, Some(secs(deadline))))
}

#[test]
fn pdq_figure_1_is_exact() {
    let flows = pdq_figure_1();
    let fair = on_one_link(&model(Sharing::Fair), &flows);
    assert_eq!(ended(&fair), [3, 5, 6].map(secs));
    assert_eq!(met(&flows, &fair), 1);
    let critical = on_one_link(&model(CRITICAL), &flows);
    assert_eq!(ended(&critical), [1, 3, 6].map(secs));
    assert_eq!(met(&flows, &critical), 3);
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let good = orders.map(|order| {
        let flows = order.map(|i: usize| flows[i]);
        met(&flows, &on_one_link(&model(RESERVED), &flows)) == 3
    });
    assert_eq!(good, [true, false, false, false, false, false]);
}

/// Figure 1: two flows of unlike deadlines. Figure 2: six flows, capacity for five.
#[test]
fn d3_figures_1_and_2_are_exact() {
    let two = [flow(2 * UNIT, Some(secs(3))), flow(2 * UNIT, Some(secs(6)))];
    assert_eq!(met(&two, &on_one_link(&model(RESERVED), &two)), 2);
    assert_eq!(met(&two, &on_one_link(&model(Sharing::Fair), &two)), 1);
    let six = [flow(UNIT, Some(secs(5))); 6];
    assert_eq!(met(&six, &on_one_link(&model(Sharing::Fair), &six)), 0);
    for quenching in [false, true] {
        let reserved = on_one_link(&model(Sharing::Reserved { quenching }), &six);
        assert_eq!(met(&six, &reserved), 5);
        let given_up = reserved.flows.iter().filter(|f| f.status == LevelStatus::Abandoned);
        assert_eq!(given_up.count(), usize::from(quenching));
    }
}

/// Set-up, resumption and tail of one flow after another, by arithmetic.
#[test]
fn rtt_terms_are_those_of_the_table() {
    let rtt = Duration::from_micros(100);
    let mut one = flow(125_000, None); // 1 ms
    (one.rtt, one.tail) = (rtt, Duration::from_micros(30));
    let terms = FlowModel {
        setup_rtts: 7.0,
        setup_rtts_without_deadline: 2.0,
        resume_rtts: 1.5,
        ..model(CRITICAL)
    };
    let at = |micros| Instant::ZERO + Duration::from_micros(micros);
    let outcome = on_one_link(&terms, &[one, one]);
    // The second waits for the first, resumes 1.5 RTTs after it, and is not the first to start.
    assert_eq!(outcome.flows[0].ended, Some(at(200 + 1000 + 30)));
    assert_eq!(outcome.flows[1].ended, Some(at(200 + 2000 + 30)));
    let mut larger = flow(250_000, None);
    larger.rtt = rtt;
    let mut second = one;
    second.start = at(500);
    // It preempts the larger flow from 700 to 1700 µs, which resumes at 1850 µs.
    let outcome = on_one_link(&terms, &[larger, second]);
    assert_eq!(outcome.flows[1].ended, Some(at(1730)));
    assert_eq!(outcome.flows[0].ended, Some(at(1850 + 1500)));
}

/// A window of 12,500 bytes per 100 µs is 1 Gb/s; a quarter of that takes two RTTs to grow.
#[test]
fn slow_start_doubles_each_rtt() {
    let mut one = flow(125_000, None);
    one.data_rtt = Duration::from_micros(100);
    let window =
        FlowModel { window: FlowWindow::Doubling(Bytes::new(3125)), ..model(Sharing::Fair) };
    let outcome = on_one_link(&window, &[one]);
    // 3125 + 6250 bytes in the first 200 µs, the other 115,625 at 1 Gb/s.
    assert_eq!(outcome.flows[0].ended, Some(Instant::ZERO + Duration::from_micros(200 + 925)));
    // A fixed window of half that halves the rate.
    let window = FlowModel { window: FlowWindow::Fixed(Bytes::new(6250)), ..window };
    let outcome = on_one_link(&window, &[one]);
    assert_eq!(outcome.flows[0].ended, Some(Instant::ZERO + Duration::from_millis(2)));
}

/// Near deadlines get more than far ones, and no deadline is in between.
#[test]
fn weights_favour_near_deadlines() {
    let sharing = Sharing::Weighted { d_min: 0.5, d_max: 2.0, d_after_miss: 1.0, mark_above: 65.0 };
    let mut flows = [
        flow(UNIT / 10, Some(Instant::ZERO + Duration::from_millis(250))),
        flow(UNIT / 10, None),
        flow(UNIT / 10, Some(secs(100))),
    ];
    for flow in &mut flows {
        (flow.rtt, flow.data_rtt) = (Duration::from_micros(100), Duration::from_micros(100));
    }
    let ends = ended(&on_one_link(&model(sharing), &flows));
    assert!(ends[0] < ends[1] && ends[1] < ends[2], "{ends:?}");
    // α = √(2/W), W = (8.3 + 65) / 3 packets: weights α⁻² : α⁻¹ : α⁻⁰·⁵ = 12.2 : 3.5 : 1.87.
    let window = (1e9 * 100e-6 / 12_000.0 + 65.0) / 3.0;
    let alpha: f64 = (2.0f64 / window).sqrt();
    let all = alpha.powi(-2) + alpha.powi(-1) + alpha.powf(-0.5);
    let at_once = 0.1 * all / alpha.powi(-2);
    // d falls as the near flow gets ahead, so that it ends later than with its first weight, but
    // sooner than with a third of the link.
    let first = ends[0].as_secs_f64();
    assert!((at_once..0.3).contains(&first), "{first} with {at_once}");
}

#[test]
fn flows_that_cannot_meet_their_deadline_are_given_up() {
    let early =
        Sharing::Critical { order: CriticalOrder::Deadline, aging: 0.0, early_termination: true };
    let six = [flow(UNIT, Some(secs(5))); 6];
    let outcome = on_one_link(&model(early), &six);
    assert_eq!(met(&six, &outcome), 5);
    // The sixth is given up a picosecond after the last instant at which it could start.
    assert_eq!(outcome.flows[5].status, LevelStatus::Abandoned);
    assert_eq!(outcome.flows[5].ended, Some(secs(4) + Duration::from_picos(1)));
    assert_eq!(outcome.flows[5].sent, 0.0);
}

/// Two flows on two paths each: the more critical one takes both.
#[test]
fn subflows_share_one_load() {
    let mut one = flow(250_000, None);
    one.rate_max = Rate::from_gbps(2);
    let mut other = one;
    other.size = Bytes::new(500_000);
    let mut paths = PathTable::default();
    paths.push([&[0][..], &[1][..]]);
    paths.push([&[0][..], &[1][..]]);
    let run = |flows: &[LevelFlow]| {
        simulate(&model(CRITICAL), flows, &paths, &[GBPS, GBPS], SPAN, &mut |_| true).unwrap()
    };
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    assert_eq!(ended(&run(&[one, other])), [at(1), at(3)]);
    // With one NIC of 1 Gb/s each, both send at once, each on a path of its own.
    (one.rate_max, other.rate_max) = (GBPS, GBPS);
    assert_eq!(ended(&run(&[one, other])), [at(2), at(4)]);
}

#[test]
fn the_run_ends_when_it_should() {
    let mut endless = flow(0, None);
    (endless.size, endless.awaited) = (Bytes::ENDLESS, false);
    let second = LevelSpan { until: secs(1), when_done_after: None, window: (secs(0), secs(1)) };
    let mut paths = PathTable::default();
    paths.push([&[0][..]]);
    paths.push([&[0][..]]);
    for sharing in [Sharing::Fair, CRITICAL, RESERVED] {
        let flows = [endless, flow(UNIT / 4, None)];
        let run =
            |span| simulate(&model(sharing), &flows, &paths, &[GBPS], span, &mut |_| true).unwrap();
        let all = run(second);
        assert_eq!(all.ended_at, secs(1));
        assert_eq!(all.flows[0].status, LevelStatus::Unfinished);
        let sent = all.flows[0].sent + all.flows[1].sent;
        assert!((sent - UNIT as f64).abs() < 1e-3, "{sent}");
        let done = run(LevelSpan { when_done_after: Some(secs(0)), ..second });
        assert_eq!(Some(done.ended_at), done.flows[1].ended);
        // The window from 0.25 to 0.75 s.
        let part = |percent: u64| Instant::ZERO + Duration::from_millis(percent * 10);
        let within = run(LevelSpan { window: (part(25), part(75)), ..second });
        let sent = within.flows[0].sent_in_window + within.flows[1].sent_in_window;
        assert!((sent - UNIT as f64 / 2.0).abs() < 1e-3, "{sent}");
    }
    let flows = [endless, endless];
    let span = LevelSpan { when_done_after: Some(secs(0)), ..second };
    let done = simulate(&model(CRITICAL), &flows, &paths, &[GBPS], span, &mut |_| true).unwrap();
    assert_eq!(done.ended_at, secs(0), "nothing is awaited");
}

#[test]
fn wrong_input_is_an_error() {
    let run = |flow: LevelFlow, path: &[u32], rate: Rate| {
        let mut paths = PathTable::default();
        paths.push([path]);
        simulate(&model(Sharing::Fair), &[flow], &paths, &[rate], SPAN, &mut |_| true)
    };
    let one = flow(1, None);
    assert_eq!(run(one, &[], GBPS).unwrap_err(), FluidError::EmptyPath(0), "a host to itself");
    let missing = FluidError::NoSuchLink { flow: 0, link: 3, links: 1 };
    assert_eq!(run(one, &[3], GBPS).unwrap_err(), missing);
    assert_eq!(run(one, &[0, 0], GBPS).unwrap_err(), FluidError::LinkTwice(0, 0));
    assert_eq!(run(one, &[0], Rate::ZERO).unwrap_err(), FluidError::NoCapacity(0));
    let still = LevelFlow { rate_max: Rate::ZERO, ..one };
    assert_eq!(run(still, &[0], GBPS).unwrap_err(), FluidError::NoRate(0));
    // A flow without bytes completes when it starts.
    let empty = run(LevelFlow { start: secs(1), ..flow(0, None) }, &[0], GBPS).unwrap();
    assert_eq!(empty.flows[0].ended, Some(secs(1)));
}

/// A random network with distinct deadlines, as both simulators read it.
fn cases() -> impl Strategy<Value = (Vec<Rate>, Vec<FluidFlow>)> {
    let path = prop::collection::btree_set(0usize..6, 1..4);
    let flow = (0u64..10, 1u64..100_000, any::<bool>(), path);
    let links = prop::collection::vec((1u64..=10).prop_map(|r| Rate::from_mbps(r * 100)), 6);
    (links, prop::collection::vec(flow, 1..16)).prop_map(|(links, drawn)| {
        let flow = |(i, (start, size, has, path)): (usize, (u64, u64, bool, _))| FluidFlow {
            id: i as u64,
            start: Instant::ZERO + Duration::from_micros(start * 100),
            size: Bytes::new(size),
            deadline: has.then(|| Instant::ZERO + Duration::from_micros(1000 + 37 * i as u64)),
            path: Vec::from_iter::<std::collections::BTreeSet<usize>>(path),
        };
        let mut flows: Vec<FluidFlow> = drawn.into_iter().enumerate().map(flow).collect();
        flows.sort_by_key(|flow| flow.start);
        (0..).zip(&mut flows).for_each(|(id, flow)| flow.id = id);
        (links, flows)
    })
}

fn of_ideal(sharing: Sharing, links: &[Rate], flows: &[FluidFlow]) -> LevelOutcome {
    let mut paths = PathTable::default();
    for flow in flows {
        let path: Vec<u32> = flow.path.iter().map(|link| *link as u32).collect();
        paths.push([&path[..]]);
    }
    let flow = |f: &FluidFlow| LevelFlow {
        start: f.start,
        deadline: f.deadline,
        rate_max: Rate::from_gbps(1000),
        ..flow(f.size.get(), None)
    };
    let flows: Vec<LevelFlow> = flows.iter().map(flow).collect();
    simulate(&model(sharing), &flows, &paths, links, SPAN, &mut |_| true).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(64)))]

    /// Without set-up, headers and delays the models are the ideal schedulers, which compute in
    /// whole numbers.
    #[test]
    fn models_without_costs_are_the_ideal_schedulers((links, flows) in cases()) {
        for (sharing, policy) in [
            (Sharing::Fair, Policy::FairShare),
            (RESERVED, Policy::Reservation),
            (CRITICAL, Policy::Edf),
        ] {
            // Of flows without deadline one may overtake another, which `Edf` does not follow.
            if policy == Policy::Edf && flows.iter().any(|flow| flow.deadline.is_none()) {
                continue;
            }
            // Requests are computed again where an event has an effect: here everywhere, because
            // all flows share a link.
            let mut flows = flows.clone();
            for flow in flows.iter_mut().filter(|_| policy == Policy::Reservation) {
                flow.path.retain(|link| *link != 0);
                flow.path.push(0);
            }
            let ideal = schedule(policy, &flows, &links).unwrap();
            let level = of_ideal(sharing, &links, &flows);
            for (ideal, level) in ideal.iter().zip(&level.flows) {
                let ideal = ideal.finished.unwrap().as_secs_f64();
                let ended = level.ended.unwrap().as_secs_f64();
                prop_assert!((ideal - ended).abs() <= 3e-9, "{policy:?}: {ended} not {ideal}");
            }
        }
    }

    #[test]
    fn equal_inputs_give_equal_results((links, flows) in cases()) {
        for sharing in [Sharing::Fair, RESERVED, CRITICAL] {
            let first = of_ideal(sharing, &links, &flows);
            prop_assert_eq!(first, of_ideal(sharing, &links, &flows));
        }
    }
}
