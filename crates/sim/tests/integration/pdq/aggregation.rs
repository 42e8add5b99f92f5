//! Query aggregation: many hosts answer one, each before its deadline (the paper's Figure 3a).

use super::*;
use punctual_core::rng::Stream;
use punctual_core::{Limit, QueueSpec};
use punctual_testkit::{Accepted, bounded, claimed, print_figure};
use punctual_transports::d3::D3Config;
use punctual_transports::pdq::RoundTrip;
use std::collections::BinaryHeap;

/// `count` flows of U[2, 198] KB to one aggregator in the tree, deadlines exponential with a mean
/// of 20 ms and at least 3 ms; all start together.
pub(super) fn aggregation(count: u32, seed: u64) -> Vec<FlowSpec> {
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

/// Most flows that one link could finish on time with 40 bytes of headers a packet: earliest
/// deadline first, dropping the longest whenever one is late (Moore and Hodgson). `lost` is what
/// a flow's deadline comes earlier for it.
fn most_on_time(flows: &[FlowSpec], lost: impl Fn(&FlowSpec) -> Duration) -> usize {
    let mut jobs: Vec<(Duration, Duration)> = flows
        .iter()
        .map(|f| {
            let wire = f.size.get() + f.size.div_ceil(Bytes::new(1460)) * 40;
            let until = f.deadline.expect("deadlines").saturating_since(Instant::ZERO);
            (until.saturating_sub(lost(f)), GBPS1.transmission_time(Bytes::new(wire)))
        })
        .collect();
    jobs.sort();
    let mut kept = BinaryHeap::new();
    let mut busy = Duration::ZERO;
    for (deadline, time) in jobs {
        busy += time;
        kept.push(time);
        if busy > deadline {
            busy = busy.saturating_sub(kept.pop().expect("just pushed"));
        }
    }
    kept.len()
}

/// What no transport that asks first can avoid in the tree: a round trip of headers, and the way
/// of the last packet beyond its own time on one link.
fn start_up(flow: &FlowSpec) -> Duration {
    let hops = if flow.src.0 < 3 { 2 } else { 4 };
    let time = |bytes| GBPS1.transmission_time(Bytes::new(bytes));
    let delay = Duration::from_nanos(25_100);
    (delay + time(60)) * (2 * hops) + delay * hops + time(1500) * (hops - 1)
}

const COUNTS: [u32; 6] = [3, 5, 10, 15, 20, 25];

/// Shares on time for each number of flows, of whom.
struct Row([f64; 6], String, [Vec<f64>; 6]);

/// A table for the docs, in %.
fn table(rows: &[&Row]) -> String {
    let heads = COUNTS.map(|count| format!(" {count} |")).concat();
    let rows = rows.iter().map(|Row(shares, name, _)| {
        let cells = shares.map(|share| format!(" {:.1} |", share * 100.0)).concat();
        format!("| {name} |{cells}\n")
    });
    format!("| flows |{heads}\n|---|{}\n{}", "---|".repeat(COUNTS.len()), rows.collect::<String>())
}

/// Mean over runs of what each gives for a number of flows, printed with half of its 95 %
/// interval.
fn row(name: &str, runs: u64, on_time: impl Fn(u32, u64) -> usize) -> Row {
    let mut cells = String::new();
    let of_runs = COUNTS.map(|count| {
        let share = |seed| on_time(count, seed) as f64 / f64::from(count);
        (0..runs).map(share).collect::<Vec<f64>>()
    });
    let means = of_runs.each_ref().map(|shares| {
        let mean = shares.iter().sum::<f64>() / runs as f64;
        let squares: f64 = shares.iter().map(|s| (s - mean).powi(2)).sum();
        let half = 1.96 * (squares / (runs - 1) as f64 / runs as f64).sqrt();
        cells += &format!(" {:6.1} ±{:3.1}", mean * 100.0, half * 100.0);
        mean
    });
    println!("{name:<26}{cells}");
    Row(means, name.to_owned(), of_runs)
}

fn ends(network: &Network, transport: &AnyTransport, count: u32, seed: u64) -> Outcome {
    let mut setup = setup(network.clone(), vec![transport.clone()], aggregation(count, seed));
    (setup.seed, setup.check) = (seed, false);
    if let QueueSpec::DropTail { .. } = setup.switch_queue {
        // The same for all but those that want marks.
        setup.switch_queue = QueueSpec::DropTail { limit: Limit::Bytes(Bytes::new(4_000_000)) };
    }
    let outcome = run(setup);
    all_ended(&outcome);
    outcome
}

fn row_of(name: &str, runs: u64, network: &Network, transport: &AnyTransport) -> Row {
    row(name, runs, |count, seed| {
        let outcome = ends(network, transport, count, seed);
        outcome.flows.iter().filter(|f| f.met_deadline() == Some(true)).count()
    })
}

/// The share of `count` flows that are on time, over all runs.
pub(super) fn on_time_share(
    network: &Network,
    transport: &AnyTransport,
    count: u32,
    runs: u64,
) -> f64 {
    let met = (0..runs).map(|seed| {
        let outcome = ends(network, transport, count, seed);
        outcome.flows.iter().filter(|f| f.met_deadline() == Some(true)).count()
    });
    met.sum::<usize>() as f64 / (f64::from(count) * runs as f64)
}

/// The share of `count` flows that an optimal schedule has on time, over all runs.
pub(super) fn optimal_share(count: u32, runs: u64) -> f64 {
    let met = |seed| most_on_time(&aggregation(count, seed), |_| Duration::ZERO);
    (0..runs).map(met).sum::<usize>() as f64 / (f64::from(count) * runs as f64)
}

fn optimal(runs: u64) -> Row {
    row("optimal", runs, |n, seed| most_on_time(&aggregation(n, seed), |_| Duration::ZERO))
}

fn heading(runs: u64) {
    let counts = COUNTS.map(|n| format!("{n:11}")).concat();
    println!("on time, in % ({runs} runs){counts} flows");
}

/// Points below the optimum that the catalogue accepts: above ten flows as with 25.
pub(super) fn near_optimal(count: u32) -> Accepted {
    let of = if count <= 10 { count } else { 25 };
    claimed("pdq/fig3a", &format!("below-optimal-{of}"))
}

/// What each optimisation changes, and what others reach.
#[test]
fn query_aggregation() {
    const RUNS: u64 = 250;
    heading(RUNS);
    let best = optimal(RUNS);
    let started = "optimal, a round trip and the last packet's way later";
    let after = row(started, RUNS, |n, seed| most_on_time(&aggregation(n, seed), start_up));
    let pdq = |name, variant| {
        row_of(
            name,
            RUNS,
            &tree(),
            &AnyTransport::Pdq(PdqConfig { variant, ..PdqConfig::default() }),
        )
    };
    let full = pdq("PDQ Full", PdqVariant::Full);
    let es_et = pdq("PDQ ES+ET", PdqVariant::EsEt);
    let es = pdq("PDQ ES", PdqVariant::Es);
    let basic = pdq("PDQ Basic", PdqVariant::Basic);
    let d3 = D3Config { quenching: true, ..D3Config::default() };
    let d3 = row_of("D3, quenching", RUNS, &tree(), &AnyTransport::D3(d3));
    let rcp = row_of("RCP (RCPdc)", RUNS, &tree(), &transport("rcpdc"));
    let d2tcp = row_of("D2TCP", RUNS, &tree(), &transport("d2tcp"));
    let tcp = row_of("TCP", RUNS, &tree(), &transport("tcp"));
    let rows = [&best, &after, &full, &es_et, &es, &basic, &d3, &rcp, &d2tcp, &tcp];
    print_figure("pdq-figure-3a", &table(&rows));
    for (n, count) in COUNTS.into_iter().enumerate() {
        let below: Vec<f64> =
            best.2[n].iter().zip(&full.2[n]).map(|(best, full)| 100.0 * (best - full)).collect();
        let id = format!("pdq-fig-3a-below-optimal-{count}");
        assert_mean(&id, &below, near_optimal(count));
        for other in [&d3, &rcp, &d2tcp, &tcp] {
            // Of 750 flows, two more late ones are chance: 0.005 are two standard errors.
            assert!(other.0[n] <= full.0[n] + 0.005, "{count} flows");
            assert!(count < 10 || other.0[n] < full.0[n], "{count} flows");
        }
        if count >= 10 {
            assert!(es_et.0[n] > es.0[n] && es.0[n] > basic.0[n], "{count} flows");
            assert!(full.0[n] > es_et.0[n] - 0.01, "{count} flows");
            assert!(d3.0[n] > rcp.0[n], "{count} flows");
            // RCP is about equal to TCP, or above.
            let above = 100.0 * (rcp.0[n] - tcp.0[n]);
            let accepted = claimed("pdq/fig3a", "rcp-tcp-25");
            assert_figure(&format!("pdq-fig-3a-rcp-over-tcp-{count}"), above, accepted);
        }
    }
    // Both fall steeply: ideal fair sharing meets 89.8 % with five flows and 52.8 with 25, an optimal
    // schedule 99.7 and 94.6. Steep is more than half of fair sharing's fall.
    let (five, most) = (1, COUNTS.len() - 1);
    assert_eq!((COUNTS[five], COUNTS[most]), (5, 25));
    for (name, row) in [("rcp", &rcp), ("tcp", &tcp)] {
        let fall = row.0[five] - row.0[most];
        let steep = bounded((0.898 - 0.528) / 2.0.., "half of the fall of ideal fair sharing");
        assert_figure(&format!("pdq-fig-3a-fall-{name}"), fall, steep);
    }
}

/// What our corrections and the network change. Printed as it comes out.
#[test]
fn query_aggregation_otherwise() {
    const RUNS: u64 = 100;
    heading(RUNS);
    let best = optimal(RUNS);
    let config = |name: &str, config| row_of(name, RUNS, &tree(), &AnyTransport::Pdq(config));
    let full = config("PDQ Full", PdqConfig::default());
    let (availability, round_trip) = (Availability::Printed, RoundTrip::Smoothed);
    let printed = config(
        "algorithms as printed, smoothed round trips",
        PdqConfig { availability, round_trip, ..PdqConfig::default() },
    );
    let smoothed =
        config("smoothed round trips alone", PdqConfig { round_trip, ..PdqConfig::default() });
    let no_grant =
        config("no grant on the SYN", PdqConfig { syn_grants: false, ..PdqConfig::default() });
    let early = [1.0, 1.5].map(|early_start| {
        config(&format!("K = {early_start}"), PdqConfig { early_start, ..PdqConfig::default() })
    });
    let on = |name, network| row_of(name, RUNS, &network, &AnyTransport::Pdq(PdqConfig::default()));
    let star = on("one switch instead of the tree", one_switch(12));
    let far = ClosLinks::uniform(GBPS1, Duration::from_nanos(50_200));
    let far = ClosShape::star(12).build(&far, Bytes::new(1500), Bytes::ZERO);
    let far = on("one switch, twice the round trip", far);
    let rows = [&best, &full, &printed, &smoothed, &no_grant, &early[0], &early[1], &star, &far];
    print_figure("pdq-figure-3a-otherwise", &table(&rows));
    assert!(printed.0[5] < full.0[5] - 0.05);
    for (n, count) in COUNTS.into_iter().enumerate() {
        let below = 100.0 * (best.0[n] - star.0[n]);
        assert!(near_optimal(count).contains(below), "{count} flows: {below}");
    }
}

/// Where the aggregator's link spends its time, and how flows miss.
#[test]
fn query_aggregation_accounts_for_what_is_missed() {
    const RUNS: u64 = 100;
    for (name, network) in [("tree", tree()), ("one switch", one_switch(12))] {
        for count in [10, 25] {
            let pdq = AnyTransport::Pdq(PdqConfig::default());
            let (mut span, mut useful, mut wasted, mut given_up, mut late) = (0.0, 0.0, 0.0, 0, 0);
            for seed in 0..RUNS {
                let outcome = ends(&network, &pdq, count, seed);
                let completed = outcome.flows.iter().filter(|f| f.status == FlowStatus::Completed);
                let last = completed.filter_map(|f| f.ended).max().expect("some completed");
                span += last.as_secs_f64() * 1e3;
                for f in &outcome.flows {
                    let ms = f.delivered.get() as f64 * 1500.0 / 1440.0 * 8e-6;
                    match (f.met_deadline(), f.status) {
                        (Some(true), _) => useful += ms,
                        (_, FlowStatus::Completed) => (late, wasted) = (late + 1, wasted + ms),
                        _ => (given_up, wasted) = (given_up + 1, wasted + ms),
                    }
                }
            }
            let runs = RUNS as f64;
            let share = |n: u32| 100.0 * f64::from(n) / (f64::from(count) * runs);
            let idle = span - useful - wasted;
            println!(
                "{name}, {count} flows: {:.1} % given up, {:.1} % late; of {:.2} ms the link is \
                 busy {:.2} ms for flows on time, {:.2} ms for others, {:.2} ms neither",
                share(given_up),
                share(late),
                span / runs,
                useful / runs,
                wasted / runs,
                idle / runs,
            );
            // Two round trips of 0.15 ms before the first flow sends. Without Early Start a round
            // trip passes between one flow and the next; with it, less.
            let most = f64::from(2 + count) * 0.15 * runs;
            assert!((0.0..=most).contains(&idle), "{idle} ms idle, of {most} at most");
        }
    }
}
