//! The VL2 mix (the paper's Figure 5a): most flows are a packet or two and have deadlines, most
//! bytes belong to long flows without. `scenarios/pdq-figure-5a.toml` is the same run by the CLI.

use super::*;
use punctual_core::{Limit, QueueSpec};
use punctual_testkit::{bounded, print_figure};
use punctual_transports::d3::D3Config;
use punctual_workload::{
    Arrivals, BuiltIn, Cdf, Deadlines, HostsView, Pattern, Sizes, TrafficSpec, build,
};
use std::fmt::Write;

/// Where the distribution of sizes ends. With the whole of it, up to 1 GB, 118 flows/s fill the
/// tree.
pub(super) const VL2_400KB: f64 = 400e3;

/// Flows a second of all hosts together.
const RATES: [f64; 6] = [16e3, 32e3, 64e3, 128e3, 160e3, 192e3];

/// VL2's sizes up to `largest`, one of its points.
fn sizes(largest: f64) -> Cdf {
    let whole = BuiltIn::DataMining.cdf();
    let kept: Vec<_> = whole.points().iter().copied().filter(|point| point.0 <= largest).collect();
    let share = kept.last().expect("a point").1;
    Cdf::new(kept.into_iter().map(|(size, p)| (size, p / share)).collect()).expect("a distribution")
}

/// Flows between the hosts of a random permutation for 50 ms, a new permutation for each seed.
/// Flows below 40 KB have deadlines as in Figure 3a.
fn mix(transport: &AnyTransport, largest: f64, per_second: f64, seed: u64) -> Outcome {
    let until = MS * 50;
    let traffic = TrafficSpec {
        arrivals: Arrivals::PoissonPerSecond(per_second),
        deadlines: Deadlines::Exponential { mean: MS * 20, floor: MS * 3 },
        deadlines_below: Some(Bytes::new(40_000)),
        ..TrafficSpec::new(Pattern::Permutation, Sizes::Cdf(sizes(largest)))
    };
    let hosts = HostsView::uniform(12, GBPS1, Some(3));
    let mut setup = setup(tree(), vec![transport.clone()], Vec::new());
    setup.workload = build(&[traffic], &hosts, until, seed).expect("a workload");
    (setup.seed, setup.check) = (seed, false);
    if let QueueSpec::DropTail { .. } = setup.switch_queue {
        setup.switch_queue = QueueSpec::DropTail { limit: Limit::Bytes(Bytes::new(4_000_000)) };
    }
    // Long flows may be under way then; a flow with a deadline that is counts as late.
    setup.stop.at = Instant::ZERO + until + MS * 150;
    run(setup)
}

/// The share of flows with deadlines that were on time.
pub(super) fn on_time(transport: &AnyTransport, largest: f64, per_second: f64, runs: u64) -> f64 {
    let (mut met, mut due) = (0.0, 0.0);
    for seed in 1..=runs {
        for flow in &mix(transport, largest, per_second, seed).flows {
            if let Some(is_on_time) = flow.met_deadline() {
                due += 1.0;
                met += f64::from(u8::from(is_on_time));
            }
        }
    }
    met / due
}

fn d3() -> AnyTransport {
    AnyTransport::D3(D3Config { quenching: true, ..D3Config::default() })
}

/// Flows offer 52 % of what the NICs can send, those with deadlines 4 %: nobody need be late.
/// Dampening of half a round trip for flows of any size gave up 21 % of them here.
#[test]
fn figure_5a_at_32000_flows_a_second() {
    let pdq = on_time(&AnyTransport::Pdq(PdqConfig::default()), VL2_400KB, 32e3, 3);
    let d3 = on_time(&d3(), VL2_400KB, 32e3, 3);
    println!("Figure 5a at 32,000 flows/s, on time: PDQ {pdq:.4}, D3 {d3:.4}");
    let on_time = bounded(0.99..=1.0, "the share by which the figure judges a rate");
    assert_figure("pdq-fig-5a-at-32000", pdq, on_time);
    assert!(pdq >= d3, "PDQ {pdq}, D3 {d3}");
}

/// Who keeps 99 % on time up to which rate.
#[test]
#[ignore = "study: cargo xtask figures"]
fn figure_5a_study() {
    let pdq = |variant| AnyTransport::Pdq(PdqConfig { variant, ..PdqConfig::default() });
    let rows = [
        ("PDQ Full", pdq(PdqVariant::Full)),
        ("PDQ ES+ET", pdq(PdqVariant::EsEt)),
        ("D3, quenching", d3()),
        ("RCP (RCPdc)", transport("rcpdc")),
        ("D2TCP", transport("d2tcp")),
        ("TCP", transport("tcp")),
    ];
    let heads = RATES.map(|rate| format!(" {}k |", rate / 1e3)).concat();
    let mut table = format!("| flows/s |{heads}\n|---|{}\n", "---|".repeat(RATES.len()));
    let mut shares = Vec::new();
    for (name, transport) in rows {
        let row = RATES.map(|rate| on_time(&transport, VL2_400KB, rate, 5));
        let cells = row.map(|share| format!(" {:.2} |", share * 100.0)).concat();
        writeln!(table, "| {name} |{cells}").expect("a string takes all");
        shares.push(row);
    }
    print_figure("pdq-figure-5a", &table);
    let [full, es_et, d3, rcp, d2tcp, tcp] = shares[..] else { unreachable!("six rows") };
    for (n, rate) in RATES.into_iter().enumerate() {
        for (name, other) in [("D3", d3), ("RCP", rcp), ("D2TCP", d2tcp), ("TCP", tcp)] {
            assert!(full[n] >= other[n], "{name} at {rate} flows/s: {} {}", full[n], other[n]);
        }
    }
    let [full, es_et, d3] = [full, es_et, d3].map(rate_at_99_percent);
    println!("99 % on time up to: PDQ Full {full:.0} flows/s, ES+ET {es_et:.0}, D3 {d3:.0}");
    for (name, ratio) in [("d3", full / d3), ("es-et", full / es_et)] {
        assert_figure(&format!("pdq-fig-5a-over-{name}"), ratio, claimed("pdq/fig5ab", "order"));
    }
}

/// Where the share falls below 99 %, on a line between the two rates around it.
fn rate_at_99_percent(shares: [f64; 6]) -> f64 {
    let below = shares.iter().position(|share| *share < 0.99).expect("too many at last");
    let (from, to) = (shares[below - 1], shares[below]);
    RATES[below - 1] + (RATES[below] - RATES[below - 1]) * (from - 0.99) / (from - to)
}
