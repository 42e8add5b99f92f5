//! D3's capacity rules beside each other, on every experiment of its paper that can be run and on
//! Poisson arrivals, with seeds that no other test uses.
//!
//! All rules run on the same seeds, so that they are compared by their differences batch by batch.

use crate::common::d3::{
    Arrivals, BURST, Burst, Timed, long_flows, mean, most, multi_hop, quantile,
};
use crate::common::d3::{ms, table_1, testbed, timed};
use crate::common::{run, setup};
use punctual_core::rng::Stream;
use punctual_core::{Duration, FlowSpec};
use punctual_testkit::{Accepted, claimed};
use punctual_transports::AnyTransport;
use punctual_transports::d3::{CapacityRule, D3CommonConfig, D3Config, QueueMeasure, RcpdcConfig};
use std::ops::Range;

/// Other tests count their seeds from 0 or 1.
const FIRST_SEED: u64 = 1_000_000;

fn seeds(batch: u64, count: u64) -> Range<u64> {
    let first = FIRST_SEED + batch * 10_000;
    first..first + count
}

/// A column of the table: a rule with the queue that it subtracts.
struct Column {
    name: &'static str,
    params: D3CommonConfig,
}

fn columns() -> Vec<Column> {
    let with = |name, capacity_rule, queue| Column {
        name,
        params: D3CommonConfig {
            capacity_rule,
            queue_measure: Some(queue),
            ..D3CommonConfig::default()
        },
    };
    use CapacityRule::*;
    use QueueMeasure::*;
    let constant = D3CommonConfig { alpha: 0.0, beta: 0.0, ..D3CommonConfig::default() };
    vec![
        with("`printed`", Printed, Instant),
        with("`line-rate`, `instant`", LineRate, Instant),
        with("`line-rate`, `least`", LineRate, Least),
        with("`gated`, `instant`", Gated, Instant),
        with("`gated`, `least`", Gated, Least),
        with("`predictive`, `least`", Predictive, Least),
        Column { name: "α = β = 0", params: constant },
    ]
}

fn d3(params: &D3CommonConfig) -> AnyTransport {
    AnyTransport::D3(D3Config { params: params.clone(), ..D3Config::default() })
}

fn quenching(params: &D3CommonConfig) -> AnyTransport {
    AnyTransport::D3(D3Config { params: params.clone(), quenching: true, ..D3Config::default() })
}

fn rcpdc(params: &D3CommonConfig) -> AnyTransport {
    AnyTransport::Rcpdc(RcpdcConfig(params.clone()))
}

/// What makes one value of a row better than another, and which difference matters.
#[derive(Clone, Debug)]
enum Better {
    /// Less is better.
    Less { matters: f64 },
    /// More is better.
    More { matters: f64 },
    /// What the catalogue accepts: what matters is to be within it.
    Within(Accepted),
    /// The paper gives no value: reported, not judged.
    Unknown,
}

/// Misses in per cent. What matters is half of what 99 % on time allows.
const MISSES: Better = Better::Less { matters: 0.5 };

impl Better {
    /// Whether a column with the mean `own` is worse than one with the mean `other`, by an amount
    /// that matters.
    fn is_worse(&self, own: f64, other: f64) -> bool {
        match self {
            Better::Less { matters } => own >= other + matters,
            Better::More { matters } => own <= other - matters,
            Better::Within(range) => !range.contains(own) && range.contains(other),
            Better::Unknown => false,
        }
    }
}

struct Row {
    name: String,
    better: Better,
    decimals: usize,
}

fn row(name: &str, better: Better, decimals: usize) -> Row {
    Row { name: name.to_owned(), better, decimals }
}

/// A row that is held to a claim of the catalogue. Its name ends in what the claim accepts.
fn claimed_row(name: &str, experiment: &str, claim: &str, decimals: usize) -> Row {
    let accepted = claimed(experiment, claim);
    let name = format!("{name} ({})", accepted.range());
    Row { name, better: Better::Within(accepted), decimals }
}

/// One experiment, which gives a value for each of its rows in each batch of seeds.
struct Experiment {
    rows: Vec<Row>,
    batches: u64,
    measure: fn(&D3CommonConfig, u64) -> Vec<f64>,
}

/// Deadlines met by flows of these sizes and deadlines (bytes, µs), from a host each. Starts are
/// drawn within half a millisecond.
fn met_of(transport: &AnyTransport, flows: &[(u64, u64)], batch: u64) -> f64 {
    let mut stream = Stream::named(seeds(batch, 1).start, "starts", 0);
    let flow = |(n, &(size, deadline_us)): (usize, &(u64, u64))| {
        let start = ms(0) + Duration::from_nanos(stream.below(500_000));
        timed(1 + n as u32, size, start, deadline_us)
    };
    let specs: Vec<FlowSpec> = flows.iter().enumerate().map(flow).collect();
    let mut setup = setup(testbed(flows.len() as u32 + 1), vec![transport.clone()], specs);
    setup.seed = batch;
    setup.check = false;
    let outcome = run(setup);
    outcome.flows.iter().filter(|f| f.met_deadline() == Some(true)).count() as f64
}

/// Two flows that fit together, and six of one deadline where five fit.
fn figures_1_and_2() -> Experiment {
    let met = Better::More { matters: 0.5 };
    let mut rows = Vec::new();
    for (mb, near, far) in [(1, 12, 40), (2, 24, 80), (4, 48, 160)] {
        let name = format!("Figure 1, {mb} MB by {near} and {far} ms: met of 2 by D3");
        rows.push(row(&name, met.clone(), 2));
    }
    for (kb, deadline) in [(160, 8), (800, 40)] {
        let name = format!("Figure 2, 6 of {kb} KB by {deadline} ms: met with quenching");
        rows.push(row(&name, met.clone(), 2));
        rows.push(row("… without", met.clone(), 2));
    }
    Experiment {
        rows,
        batches: 30,
        measure: |params, batch| {
            let pair = |mb: u64| [(mb * 1_000_000, mb * 12_000), (mb * 1_000_000, mb * 40_000)];
            let mut found: Vec<f64> =
                [1, 2, 4].map(|mb| met_of(&d3(params), &pair(mb), batch)).to_vec();
            for six in [[(160_000, 8_000); 6], [(800_000, 40_000); 6]] {
                found.push(met_of(&quenching(params), &six, batch));
                found.push(met_of(&d3(params), &six, batch));
            }
            found
        },
    }
}

fn figure_9() -> Experiment {
    let means = [20, 30, 40];
    let mut rows = Vec::new();
    for ms in means {
        let name = format!("Figure 9, mean {ms} ms: senders of D3 at 99 %");
        rows.push(row(&name, Better::Unknown, 1));
        let claim = format!("d3-over-rcpdc-{ms}ms");
        rows.push(claimed_row("… over those of RCPdc", "d3/fig9", &claim, 2));
    }
    Experiment {
        rows,
        batches: 5,
        measure: |params, batch| {
            let of = |mean_ms: u32| {
                let burst = Burst { mean_deadline_us: f64::from(mean_ms) * 1e3, ..BURST };
                let seeds = seeds(batch, 40);
                let workers = |t: AnyTransport| f64::from(burst.most_workers(&t, 0.99, &seeds));
                let (own, fair) = (workers(d3(params)), workers(rcpdc(params)));
                [own, own / fair]
            };
            [20, 30, 40].into_iter().flat_map(of).collect()
        },
    }
}

fn figure_10() -> Experiment {
    Experiment {
        rows: vec![
            claimed_row("Figure 10: senders of D3 at 95 %", "d3/fig10", "senders-d3", 1),
            claimed_row("… of RCPdc", "d3/fig10", "senders-rcpdc", 1),
        ],
        batches: 5,
        measure: |params, batch| {
            let seeds = seeds(batch, 40);
            [d3(params), rcpdc(params)]
                .map(|t| f64::from(BURST.most_workers(&t, 0.95, &seeds)))
                .to_vec()
        },
    }
}

fn figure_11() -> Experiment {
    let of = |name: &str, claim: &str, decimals| claimed_row(name, "d3/fig11", claim, decimals);
    Experiment {
        rows: vec![
            of("Figure 11: misses of D3, %", "misses-d3", 2),
            of("… overrun of its late flows, mean %", "overrun-mean-d3", 1),
            of("… 95th percentile", "overrun-p95-d3", 1),
            of("… misses of RCPdc, %", "misses-rcpdc", 2),
            of("… overrun of its late flows, mean %", "overrun-mean-rcpdc", 1),
            of("… 95th percentile", "overrun-p95-rcpdc", 1),
        ],
        batches: 5,
        measure: |params, batch| {
            [d3(params), rcpdc(params)].iter().flat_map(|t| figure_11_of(t, batch)).collect()
        },
    }
}

fn figure_11_of(transport: &AnyTransport, batch: u64) -> [f64; 3] {
    let mut all = Timed::default();
    for workers in (14..=30).step_by(4) {
        let part = BURST.run(transport, workers, seeds(batch, 40));
        all.met += part.met;
        all.total += part.total;
        all.overruns.extend(part.overruns);
    }
    let late = if all.overruns.is_empty() { vec![0.0] } else { all.overruns.clone() };
    [all.missed_percent(), mean(&late) * 100.0, quantile(&late, 0.95) * 100.0]
}

/// The long flow of Figure 12 starts 50 ms before. D3's and RCPdc's is at its rate after a few.
const BESIDE: Burst = Burst { long_flow_ms: Some(50), ..BURST };

/// The misses beside the long flow of Figure 12, for numbers of senders around D3's limit.
fn figure_12_misses() -> Experiment {
    let name = |n: u32| format!("Figure 12, {n} senders beside a long flow: misses of D3, %");
    Experiment {
        rows: [20, 28, 36].map(|n| row(&name(n), MISSES, 2)).into(),
        batches: 30,
        measure: |params, batch| {
            let misses = |n| BESIDE.run(&d3(params), n, seeds(batch, 20)).missed_percent();
            [20, 28, 36].map(misses).to_vec()
        },
    }
}

fn figure_12_and_13() -> Experiment {
    let small = "Figure 13: met of 40 small responses beside a long flow, D3, %";
    Experiment {
        rows: vec![
            row("Figure 12, beside a long flow: senders of D3 at 99 %", Better::Unknown, 1),
            row("… of RCPdc", Better::Unknown, 1),
            claimed_row(
                "… share of the senders without it, D3's over RCPdc's",
                "d3/fig12",
                "d3-keeps-most",
                2,
            ),
            claimed_row(small, "d3/fig13", "d3-40", 1),
            claimed_row("… RCPdc", "d3/fig13", "rcpdc-40", 1),
        ],
        batches: 5,
        measure: |params, batch| {
            let transports = [d3(params), rcpdc(params)];
            let large = BESIDE;
            let small = Burst { sizes: (2_900, 2_900), ..large };
            let seeds = seeds(batch, 20);
            let most = |burst: &Burst| {
                transports.each_ref().map(|t| f64::from(burst.most_workers(t, 0.99, &seeds)))
            };
            let (beside, alone) = (most(&large), most(&BURST));
            let kept = (beside[0] / alone[0]) / (beside[1] / alone[1]);
            let met =
                transports.each_ref().map(|t| small.run(t, 40, seeds.clone()).met_share() * 100.0);
            vec![beside[0], beside[1], kept, met[0], met[1]]
        },
    }
}

fn table_1_rates() -> Experiment {
    Experiment {
        rows: vec![
            claimed_row("Table 1: responses a second and sender at 99 %, D3", "d3/tab1", "d3", 0),
            claimed_row("… RCPdc", "d3/tab1", "rcpdc", 0),
        ],
        batches: 5,
        measure: |params, batch| {
            [d3(params), rcpdc(params)]
                .map(|t| {
                    let seed = seeds(batch, 1).start;
                    let met = |rate: u32| table_1(f64::from(rate)).run(&t, seed).0.met_share();
                    f64::from(most(50, 50, |rate| met(rate) >= 0.99))
                })
                .to_vec()
        },
    }
}

fn figure_14() -> Experiment {
    let mut rows = Vec::new();
    for rate in [100, 1300, 2000] {
        rows.push(row(&format!("Figure 14, {rate}/s: FCT p50 of D3, ms"), Better::Unknown, 2));
        rows.push(row("… FCT p99 of D3, ms", Better::Unknown, 2));
        rows.push(row("… misses of D3, %", MISSES, 2));
        rows.push(row("… misses of RCPdc, %", MISSES, 2));
        rows.push(row("… long flows of D3, Mb/s each", Better::Unknown, 0));
        let claim = format!("long-over-rcpdc-{rate}");
        rows.push(claimed_row("… their share of RCPdc's", "d3/fig14", &claim, 3));
    }
    Experiment {
        rows,
        batches: 5,
        measure: |params, batch| {
            let seed = seeds(batch, 1).start;
            let of = |rate: f64| {
                let (own, fair) = (d3(params), rcpdc(params));
                let (timed, long) = table_1(rate).run(&own, seed);
                let (timed_fair, long_fair) = table_1(rate).run(&fair, seed);
                [
                    quantile(&timed.fct_ms, 0.5),
                    quantile(&timed.fct_ms, 0.99),
                    timed.missed_percent(),
                    timed_fair.missed_percent(),
                    long,
                    long / long_fair,
                ]
            };
            [100.0, 1_300.0, 2_000.0].into_iter().flat_map(of).collect()
        },
    }
}

fn figure_15() -> Experiment {
    Experiment {
        rows: vec![
            row("Figure 15, 2500/s: met without quenching, %", Better::Unknown, 1),
            row("… with quenching", Better::Unknown, 1),
            row("… 3000/s: met without quenching, %", Better::Unknown, 1),
            row("… with quenching", Better::Unknown, 1),
        ],
        batches: 5,
        measure: |params, batch| {
            let seed = seeds(batch, 1).start;
            let of = |rate: f64| {
                [d3(params), quenching(params)]
                    .map(|t| table_1(rate).run(&t, seed).0.met_share() * 100.0)
            };
            [2_500.0, 3_000.0].into_iter().flat_map(of).collect()
        },
    }
}

fn figure_16() -> Experiment {
    let mut rows = Vec::new();
    for senders in [2, 5, 10, 20] {
        let name = format!("Figure 16, {senders} long flows: Gb/s");
        let mut of = |name: &str, claim: &str, decimals| {
            rows.push(claimed_row(name, "d3/fig16", &format!("{claim}-{senders}"), decimals));
        };
        of(&name, "gbps", 3);
        of("… mean queue, KB", "queue-mean", 1);
        of("… 99th percentile, KB", "queue-p99", 1);
    }
    Experiment {
        rows,
        batches: 6,
        measure: |params, batch| {
            let of = |senders| {
                let seed = seeds(batch, 1).start;
                let mut stream = Stream::named(seed, "starts", u64::from(senders));
                let found = long_flows(&d3(params), senders, |_| stream.below(2_000));
                [found.gbps, found.queue_mean / 1e3, found.queue_p99 / 1e3]
            };
            [2, 5, 10, 20].into_iter().flat_map(of).collect()
        },
    }
}

fn multi_hop_rates() -> Experiment {
    let of = |name: &str, claim: &str| claimed_row(name, "d3/multihop", claim, 0);
    Experiment {
        rows: vec![
            of("Multi-hop: 1→3, Mb/s", "rate-1-3"),
            of("… 2→3", "rate-2-3"),
            of("… 4→3", "rate-4-3"),
            of("… 4→5", "rate-4-5"),
        ],
        batches: 6,
        measure: |params, batch| {
            let mut stream = Stream::named(seeds(batch, 1).start, "multi-hop", 0);
            multi_hop(&d3(params), [(); 4].map(|()| stream.below(2_000))).to_vec()
        },
    }
}

/// Loads without long flows. A response has 26 KB on average, 27.4 on the wire.
fn poisson() -> Experiment {
    let mut rows = Vec::new();
    for load in ["0.6", "0.8"] {
        rows.push(row(&format!("Poisson load {load}: misses of D3, %"), MISSES, 2));
        rows.push(row("… of RCPdc, %", MISSES, 2));
        // A tenth of the mean deadline.
        rows.push(row("… FCT p99 of D3, ms", Better::Less { matters: 3.0 }, 2));
    }
    Experiment {
        rows,
        batches: 30,
        measure: |params, batch| {
            let seed = seeds(batch, 1).start;
            let of = |load: f64| {
                let per_second = load * 1e9 / 8.0 / 26_000.0 / 11.0;
                let arrivals =
                    Arrivals { senders: 11, per_second, beside_long_flows: false, queue: None };
                let (own, _) = arrivals.run(&d3(params), seed);
                let (fair, _) = arrivals.run(&rcpdc(params), seed);
                [own.missed_percent(), fair.missed_percent(), quantile(&own.fct_ms, 0.99)]
            };
            [0.6, 0.8].into_iter().flat_map(of).collect()
        },
    }
}

/// A mean over batches and half its 95 % interval (Student's t).
#[derive(Clone, Copy, Debug)]
struct Estimate {
    mean: f64,
    half: f64,
}

impl Estimate {
    fn of(values: &[f64]) -> Self {
        let t = match values.len() {
            5 => 2.776,
            6 => 2.571,
            30 => 2.045,
            n => panic!("no quantile of Student's t for {n} batches"),
        };
        let mean = mean(values);
        let n = values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Estimate { mean, half: t * (variance / n).sqrt() }
    }
}

/// Whether one column is clearly worse than another, from their values batch by batch: the 95 %
/// interval of the difference excludes 0, and the difference matters.
fn is_clearly_worse(own: &[f64], other: &[f64], better: &Better) -> bool {
    let differences: Vec<f64> = own.iter().zip(other).map(|(a, b)| a - b).collect();
    let difference = Estimate::of(&differences);
    difference.mean.abs() > difference.half && better.is_worse(mean(own), mean(other))
}

/// The column of the default rule, to which the others are compared.
const DEFAULT: usize = 5;

/// The columns of the simpler rules, and of rules that subtract the instantaneous queue.
const SIMPLER: std::ops::Range<usize> = 0..DEFAULT;

/// In how many rows a column is clearly worse than another.
type Verdicts = Vec<Vec<u32>>;

/// A row of the table, from the values of each column by batch. A cell that is clearly worse than
/// the default's is marked ▼, one that is clearly better ▲.
fn line_of(row: &Row, columns: &[Vec<f64>], verdicts: &mut Verdicts) -> String {
    let mut line = format!("| {} |", row.name);
    for (c, own) in columns.iter().enumerate() {
        let cell = Estimate::of(own);
        for (o, other) in columns.iter().enumerate() {
            verdicts[c][o] += u32::from(is_clearly_worse(own, other, &row.better));
        }
        let mark = match () {
            () if is_clearly_worse(own, &columns[DEFAULT], &row.better) => " ▼",
            () if is_clearly_worse(&columns[DEFAULT], own, &row.better) => " ▲",
            () => "",
        };
        line +=
            &format!(" {:.*} ± {:.*}{mark} |", row.decimals, cell.mean, row.decimals, cell.half);
    }
    line
}

/// Compares D3's capacity rules; prints the table of `docs/transports/d3.md`.
///
/// The default is the simplest rule that is not clearly worse than another: each simpler rule is
/// clearly worse than it in more rows than better. The default was developed on the paper's
/// figures, so that these cannot speak for it alone: the same must hold of the Poisson loads, on
/// which nothing was tried before it was fixed.
#[test]
#[ignore = "study: cargo xtask figures"]
fn capacity_rules() {
    let columns = columns();
    assert_eq!(columns[DEFAULT].params.capacity_rule, D3CommonConfig::default().capacity_rule);
    let mut table = "| |".to_owned();
    table.extend(columns.iter().map(|c| format!(" {} |", c.name)));
    table += &format!("\n|---|{}\n", "---|".repeat(columns.len()));
    let mut verdicts = vec![vec![0; columns.len()]; columns.len()];
    let mut unseen = verdicts.clone();
    let experiments = [
        figures_1_and_2(),
        figure_9(),
        figure_10(),
        figure_11(),
        figure_12_misses(),
        figure_12_and_13(),
        table_1_rates(),
        figure_14(),
        figure_15(),
        figure_16(),
        multi_hop_rates(),
        poisson(),
    ];
    let measure = &|experiment: &Experiment| -> Vec<Vec<Vec<f64>>> {
        let of = |c: &Column| {
            (0..experiment.batches).map(|b| (experiment.measure)(&c.params, b)).collect()
        };
        let measured = columns.iter().map(of).collect();
        println!("done: {}", experiment.rows[0].name);
        measured
    };
    let measured: Vec<_> = std::thread::scope(|scope| {
        let start = |experiment| scope.spawn(move || measure(experiment));
        let threads: Vec<_> = experiments.iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("an experiment")).collect()
    });
    for (experiment, measured) in experiments.iter().zip(&measured) {
        for (n, row) in experiment.rows.iter().enumerate() {
            let values = |batches: &Vec<Vec<f64>>| batches.iter().map(|b| b[n]).collect();
            let cells: Vec<Vec<f64>> = measured.iter().map(values).collect();
            let line = line_of(row, &cells, &mut verdicts);
            if row.name.starts_with("Poisson") || experiment.rows[0].name.starts_with("Poisson") {
                line_of(row, &cells, &mut unseen);
            }
            println!("{line}");
            table += &line;
            table.push('\n');
        }
    }
    let worse = |c: usize, other: usize| verdicts[c][other];
    for (name, count) in [
        ("rows clearly worse than the default (▼)", [0, 1]),
        ("rows clearly better than the default (▲)", [1, 0]),
    ] {
        table += &format!("| {name} |");
        let of = |c: usize| if count[0] == 0 { worse(c, DEFAULT) } else { worse(DEFAULT, c) };
        table.extend((0..columns.len()).map(|c| format!(" {} |", of(c))));
        table.push('\n');
    }
    punctual_testkit::print_figure("d3-capacity-rules", &table);
    for simpler in SIMPLER {
        for (which, verdicts) in [("all rows", &verdicts), ("Poisson loads", &unseen)] {
            let (worse, better) = (verdicts[simpler][DEFAULT], verdicts[DEFAULT][simpler]);
            let name = columns[simpler].name;
            println!("{name} beside the default, {which}: {worse} worse, {better} better");
            assert!(worse > better, "{name} could be the default: {which}");
        }
    }
}
