//! PDQ on the simulator: what its paper shows, and what it must survive.

mod aggregation;
mod criticality;
mod dampening;
mod figure_5a;
mod robust;
mod sharing;

use crate::common::*;
use punctual_core::{Bytes, Duration, FlowSpec, Instant, PortId, Rate};
use punctual_net::{ClosLinks, ClosShape, Network};
use punctual_sim::{FlowStatus, Outcome, Sampling};
use punctual_testkit::{assert_figure, assert_mean, claimed};
use punctual_transports::AnyTransport;
use punctual_transports::pdq::{Availability, PdqConfig, PdqVariant};

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

fn pdq(config: PdqConfig) -> Vec<AnyTransport> {
    vec![AnyTransport::Pdq(config)]
}

fn ms(n: f64) -> Instant {
    Instant::ZERO + MS.mul_f64(n)
}

/// The port by which a switch reaches this host.
fn port_to(network: &Network, host: u32) -> PortId {
    let nic = network.nic(punctual_core::HostId(host));
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
fn five_flows(config: PdqConfig) -> Outcome {
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

/// When each of the five flows ends in ms, the mean and the most packets that wait, and the run.
fn five_flows_measured(config: PdqConfig) -> (Vec<f64>, f64, u32, Outcome) {
    let outcome = five_flows(config);
    let ends: Vec<f64> =
        outcome.flows.iter().map(|f| f.ended.expect("ended").as_secs_f64() * 1e3).collect();
    let waiting: Vec<u32> = outcome.samples.iter().map(|s| s.queue_packets).collect();
    let mean = f64::from(waiting.iter().sum::<u32>()) / waiting.len() as f64;
    let most = *waiting.iter().max().expect("samples");
    println!("five flows end at {ends:.2?} ms, queue mean {mean:.2}, most {most} packets");
    (ends, mean, most, outcome)
}

#[test]
fn five_flows_finish_one_after_another() {
    let (ends, mean, _, outcome) = five_flows_measured(PdqConfig::default());
    assert!(ends.windows(2).all(|w| w[0] < w[1]), "{ends:?}");
    assert_figure("pdq-fig-6-last-finish-ms", ends[4], claimed("pdq/fig6", "last"));
    assert!(claimed("pdq/fig6", "drops").contains(outcome.totals.drops as f64));
    assert_figure("pdq-fig-6-mean-queue", mean, claimed("pdq/fig6", "queue"));
    // One after another, not side by side: each takes about as long as the first.
    for pair in ends.windows(2) {
        assert!((7.0..9.5).contains(&(pair[1] - pair[0])), "{ends:?}");
    }
}

// Figure 7.

/// A long flow, and 50 flows of 20 KB that start together at 10 ms.
fn burst(config: PdqConfig) -> (f64, f64, u32, Outcome) {
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
    let (utilisation, queue, _, outcome) = burst(PdqConfig::default());
    let accepted = claimed("pdq/fig7", "utilisation");
    assert_figure("pdq-fig-7-utilisation", 100.0 * utilisation, accepted);
    assert_figure("pdq-fig-7-mean-queue", queue, claimed("pdq/fig7", "queue"));
    let long = outcome.flows[0].ended.expect("ended");
    assert!(outcome.flows[1..].iter().all(|f| f.ended.expect("ended") < long));
    assert_eq!(outcome.totals.drops, 0);
    let printed = PdqConfig { availability: Availability::Printed, ..PdqConfig::default() };
    println!("as printed:");
    burst(printed);
}
