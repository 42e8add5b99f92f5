//! PDQ's Figure 11: M-PDQ against PDQ on a random permutation, by load and by number of subflows.
//!
//! Load is the share of the hosts that send, each one flow, all from the start. Sizes are uniform
//! with a mean of 1 MB, as in the paper's other experiments without deadlines.

use crate::common::*;
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Duration, FlowSpec, Rate};
use punctual_net::{BcubeShape, ClosLinks, ClosShape, Network};
use punctual_sim::FlowStatus;
use punctual_testkit::{assert_figure, claimed, markdown_table, print_figure};
use punctual_transports::AnyTransport;
use punctual_transports::mpdq::MpdqConfig;

const GBPS1: Rate = Rate::from_gbps(1);
const SEEDS: u64 = 20;

/// The networks of the study; all have 16 hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// BCube(2, 3), the paper's: hosts have four NICs and forward for others.
    Bcube,
    /// Hosts of one NIC of 4 Gb/s, each with four uplinks of 1 Gb/s from its switch.
    LeafSpine,
}

impl Shape {
    /// 1 Gb/s, 0.1 µs of propagation, 25 µs of processing a hop, as in the paper.
    fn network(self) -> Network {
        let (propagation, processing) = (Duration::from_nanos(100), Duration::from_micros(25));
        let mtu = Bytes::new(1500);
        match self {
            Shape::Bcube => {
                let shape = BcubeShape { n: 2, k: 3 };
                shape.build(GBPS1, propagation, processing, mtu, Bytes::ZERO).expect("a BCube")
            }
            Shape::LeafSpine => {
                let host_rate = Rate::from_gbps(4);
                let uniform = ClosLinks::uniform(GBPS1, propagation);
                let links = ClosLinks { host_rate, processing, ..uniform };
                ClosShape::leaf_spine(16, 1, 4).build(&links, mtu, Bytes::ZERO)
            }
        }
    }
}

/// The mean FCT in ms of `senders` flows, over the seeds.
fn mean_fct_ms(shape: Shape, transport: &AnyTransport, senders: usize, seeds: u64) -> f64 {
    let mut sum = 0.0;
    for seed in 0..seeds {
        let network = shape.network();
        let mut stream = Stream::named(seed, "figure 11", 0);
        let mut flows = permutation(network.hosts, seed);
        stream.shuffle(&mut flows);
        flows.truncate(senders);
        let sized = |flow| FlowSpec { size: Bytes::new(2_000 + stream.below(1_996_000)), ..flow };
        let flows: Vec<FlowSpec> = flows.into_iter().map(sized).collect();
        let mut setup = setup(network, vec![transport.clone()], flows);
        setup.seed = seed;
        let outcome = run(setup);
        for record in &outcome.flows {
            assert_eq!(record.status, FlowStatus::Completed, "{record:?}");
            sum += (record.ended.unwrap() - record.spec.start).as_secs_f64() * 1e3;
        }
    }
    sum / (seeds as f64 * senders as f64)
}

fn mpdq(subflows: u32) -> AnyTransport {
    AnyTransport::MPdq(MpdqConfig { subflows, ..MpdqConfig::default() })
}

/// Figure 11a: mean FCT of M-PDQ with three subflows over that of PDQ, by load.
fn by_load(shape: Shape, senders: &[usize], seeds: u64) -> Vec<(usize, f64, f64)> {
    let both = |n: usize| {
        let pdq = mean_fct_ms(shape, &transport("pdq"), n, seeds);
        let multi = mean_fct_ms(shape, &mpdq(3), n, seeds);
        println!("{shape:?}, {n} senders: PDQ {pdq:.2} ms, M-PDQ {multi:.2} ms");
        (n, pdq, multi)
    };
    senders.iter().map(|n| both(*n)).collect()
}

#[test]
#[ignore = "study: cargo xtask figures"]
fn figure_11a_by_load() {
    let mut rows = Vec::new();
    for shape in [Shape::Bcube, Shape::LeafSpine] {
        let measured = by_load(shape, &[1, 2, 4, 8, 12, 16], SEEDS);
        if shape == Shape::Bcube {
            let ratio = |index: usize| measured[index].2 / measured[index].1;
            let accepted = claimed("pdq/fig11", "light-load");
            assert_figure("pdq-fig-11a-light-load", ratio(0), accepted);
            let accepted = claimed("pdq/fig11", "gain-shrinks");
            assert_figure("pdq-fig-11a-full-load", ratio(5) / ratio(0), accepted);
            assert!(ratio(5) <= 1.0, "some gain is left: {}", ratio(5));
        }
        rows.extend(measured.into_iter().map(|(n, pdq, multi)| {
            let load = format!("{:.0} %", n as f64 / 16.0 * 100.0);
            let name = if shape == Shape::Bcube { "BCube(2,3)" } else { "leaf-spine" };
            let cells = [format!("{pdq:.2}"), format!("{multi:.2}"), format!("{:.2}", multi / pdq)];
            [vec![name.to_owned(), load], cells.to_vec()].concat()
        }));
    }
    let head = ["network", "load", "PDQ (ms)", "M-PDQ (ms)", "ratio"];
    print_figure("pdq-figure-11a", &markdown_table(&head, &rows));
}

/// Figure 11b: mean FCT at full load, by number of subflows.
#[test]
#[ignore = "study: cargo xtask figures"]
fn figure_11b_by_subflows() {
    let mut rows = Vec::new();
    for shape in [Shape::Bcube, Shape::LeafSpine] {
        let pdq = mean_fct_ms(shape, &transport("pdq"), 16, SEEDS);
        let multi: Vec<f64> = (1..=8).map(|n| mean_fct_ms(shape, &mpdq(n), 16, SEEDS)).collect();
        let best = multi.iter().fold(f64::MAX, |a, b| a.min(*b));
        let gain = |fct: f64| (pdq - fct) / (pdq - best) * 100.0;
        if shape == Shape::Bcube {
            let accepted = claimed("pdq/fig11", "four-subflows");
            assert_figure("pdq-fig-11b-gain-of-4", gain(multi[3]), accepted);
        }
        let name = if shape == Shape::Bcube { "BCube(2,3)" } else { "leaf-spine" };
        let pdq_row = vec![name.to_owned(), "PDQ".to_owned(), format!("{pdq:.2}"), "0 %".into()];
        rows.push(pdq_row);
        rows.extend(multi.iter().enumerate().map(|(index, fct)| {
            let cells = [format!("{fct:.2}"), format!("{:.0} %", gain(*fct))];
            [vec![name.to_owned(), (index + 1).to_string()], cells.to_vec()].concat()
        }));
    }
    let head = ["network", "subflows", "mean FCT (ms)", "share of the greatest gain"];
    print_figure("pdq-figure-11b", &markdown_table(&head, &rows));
}

/// The share of deadlines met at full load: `each` flows per host, of 2 to 198 KB, with deadlines
/// that are exponential with a mean of 20 ms and at least 3 ms, as in the paper's Figure 3.
fn deadlines_met(shape: Shape, transport: &AnyTransport, each: u32, seeds: u64) -> f64 {
    let (mut met, mut all) = (0, 0);
    for seed in 0..seeds {
        let network = shape.network();
        let mut stream = Stream::named(seed, "figure 11c", 0);
        let pairs = permutation(network.hosts, seed);
        let mut flows = Vec::new();
        for flow in (0..each).flat_map(|_| pairs.clone()) {
            let size = Bytes::new(2_000 + stream.below(196_000));
            let uniform = (stream.below(1 << 30) + 1) as f64 / (1u64 << 30) as f64;
            let allowed = Duration::from_millis(20).mul_f64(-uniform.ln());
            let deadline = flow.start + allowed.max(Duration::from_millis(3));
            flows.push(FlowSpec { size, deadline: Some(deadline), ..flow });
        }
        let mut setup = setup(network, vec![transport.clone()], flows);
        setup.seed = seed;
        let outcome = run(setup);
        let is_met = |ended, deadline| Some(ended) <= deadline;
        met += outcome
            .flows
            .iter()
            .filter(|f| f.status == FlowStatus::Completed)
            .filter(|f| is_met(f.ended.unwrap(), f.spec.deadline))
            .count();
        all += outcome.flows.len();
    }
    met as f64 / all as f64 * 100.0
}

/// Figure 11c: deadlines met at full load, by number of subflows.
#[test]
#[ignore = "study: cargo xtask figures"]
fn figure_11c_by_subflows() {
    let loads = [10, 20, 40];
    let row = |name: String, transport: AnyTransport| {
        let met = loads.map(|each| deadlines_met(Shape::Bcube, &transport, each, 5));
        (met, [vec![name], met.map(|met| format!("{met:.1}")).to_vec()].concat())
    };
    let mut rows = vec![row("PDQ".to_owned(), transport("pdq"))];
    rows.extend((1..=8).map(|n| row(n.to_string(), mpdq(n))));
    // Several paths let a critical flow send faster: more deadlines are met.
    let accepted = claimed("pdq/fig11", "deadlines");
    assert_figure("pdq-fig-11c-gain", rows[4].0[1] / rows[0].0[1], accepted);
    let head = ["subflows", "10 flows per host (%)", "20", "40"];
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(_, row)| row).collect();
    print_figure("pdq-figure-11c", &markdown_table(&head, &rows));
}

/// With less to average, what the study asserts at light load.
#[test]
fn light_load_halves_the_completion_time() {
    let (_, pdq, multi) = by_load(Shape::Bcube, &[1], 10)[0];
    let accepted = claimed("pdq/fig11", "light-load");
    assert!(accepted.contains(multi / pdq), "{multi} of {pdq} ms: {accepted}");
}
