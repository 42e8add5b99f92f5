//! The window of a single flow in the kernel beside the simulator's.

use crate::Test;
use crate::experiments::{network, send};
use crate::support::{Flow, Plan, Sandbox, ensure, receive};
use libtest_mimic::Failed;
use punctual_core::{
    Bytes, Class, Duration, FlowId, FlowSpec, HostId, Instant, Limit, QueueSpec, Rate, TransportId,
};
use punctual_net::{ClosLinks, ClosShape, Network};
use punctual_sim::{Measure, Sampling, Setup, Stop};
use punctual_transports::{AnyTransport, TransportSettings};
use punctual_workload::Workload;
use std::ops::ControlFlow;

pub(crate) const TESTS: &[Test] = &[("window__is_the_simulators", window__is_the_simulators)];

const BYTES: u64 = 12_000_000;
const DEADLINE_MS: u64 = 2_500;

/// Two hosts at a switch; the link to the second one is the bottleneck.
fn topology() -> Network {
    let links = ClosLinks::uniform(Rate::from_gbps(10), Duration::from_micros(10));
    let mut network = ClosShape::star(2).build(&links, Bytes::new(1500), Bytes::new(14));
    for link in &mut network.links {
        if link.to.0 == 1 {
            link.rate = Rate::from_mbps(50);
        }
    }
    network
}

/// Windows of the simulated flow in packets, one every 5 ms.
fn simulated() -> Vec<(f64, f64)> {
    let transport = AnyTransport::by_name("d2tcp", &TransportSettings::default()).expect("d2tcp");
    let flow = FlowSpec {
        id: FlowId(0),
        src: HostId(0),
        dst: HostId(1),
        size: Bytes::new(BYTES),
        start: Instant::ZERO,
        deadline: Some(Instant::ZERO + Duration::from_millis(DEADLINE_MS)),
        transport: TransportId(0),
        class: Class::DATA,
        background: false,
        pattern: 0,
    };
    let setup = Setup {
        network: topology(),
        switch_queue: QueueSpec::Ecn { limit: Limit::Packets(400), mark_above: Limit::Packets(30) },
        port_queues: Vec::new(),
        transports: vec![transport],
        workload: Workload { flows: vec![flow], ..Workload::default() },
        seed: 1,
        stop: Stop { at: Instant::ZERO + Duration::from_millis(10_000), when_done: true },
        link_changes: Vec::new(),
        switch_resets: Vec::new(),
        legacy_switches: Vec::new(),
        sampling: Some(Sampling { every: Duration::from_millis(5), ports: Vec::new() }),
        sampled_flows: vec![FlowId(0)],
        check: true,
        network_trace: false,
        packet_latency: false,
        capture_max: 0,
        measure: Measure::default(),
    };
    let outcome = punctual_sim::run(setup, &mut |_| ControlFlow::Continue(()));
    let windows = outcome.gauges.iter().filter(|gauge| gauge.name == "cwnd_bytes");
    let seconds = |at: Instant| at.saturating_since(Instant::ZERO).as_secs_f64();
    windows.map(|gauge| (seconds(gauge.at), gauge.value / 1460.0)).collect()
}

/// Mean and standard deviation after slow start.
fn moments(windows: &[(f64, f64)]) -> (f64, f64) {
    let steady: Vec<f64> = windows
        .iter()
        .filter(|(at, _)| (0.3..1.8).contains(at))
        .map(|(_, window)| *window)
        .collect();
    let mean = steady.iter().sum::<f64>() / steady.len() as f64;
    let variance = steady.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / steady.len() as f64;
    (mean, variance.sqrt())
}

fn window__is_the_simulators(sandbox: &Sandbox) -> Result<(), Failed> {
    let network = network(sandbox, 1);
    let to = receive(&network.receiver, network.address(), &sandbox.d2tcp);
    let flow = Flow {
        deadline: Some(std::time::Duration::from_millis(DEADLINE_MS)),
        sample: Some(std::time::Duration::from_millis(5)),
        ..Flow::new(&sandbox.d2tcp, to, Plan::Bytes(BYTES))
    };
    let sent = &send(&network, &[flow])[0];
    let measured: Vec<(f64, f64)> =
        sent.windows.iter().map(|&(at, window)| (at, f64::from(window))).collect();
    let simulated = simulated();
    ensure!(measured.len() > 100 && simulated.len() > 100, "too few samples");
    let (kernel, simulator) = (moments(&measured), moments(&simulated));
    println!("kernel: window {:.1} ± {:.1} packets, {:.2} s", kernel.0, kernel.1, sent.seconds);
    println!("simulator: window {:.1} ± {:.1} packets", simulator.0, simulator.1);
    let ratio = kernel.0 / simulator.0;
    ensure!((ratio - 1.0).abs() <= 0.15, "mean windows differ by the factor {ratio:.2}");
    // A sawtooth: both move, and neither by more than its own half.
    for (mean, deviation) in [kernel, simulator] {
        ensure!(deviation > 0.3 && deviation < mean / 4.0, "{mean:.1} ± {deviation:.1}");
    }
    Ok(())
}
