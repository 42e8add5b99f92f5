//! A permutation of endless NDP flows on a fat tree, for profiling: `permutation K MS THREADS`.

use punctual_core::rng::Stream;
use punctual_core::{Bytes, Class, Duration, FlowId, FlowSpec, HostId, Instant, Rate, TransportId};
use punctual_net::{ClosLinks, ClosShape};
use punctual_sim::{EngineOptions, Measure, Outcome, Setup, Stop};
use punctual_transports::{AnyTransport, ndp::NdpConfig};
use punctual_workload::Workload;
use std::hash::{Hash as _, Hasher as _};
use std::ops::ControlFlow;

fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<u32>().expect("a number"));
    let (k, ms) = (args.next().unwrap_or(12), args.next().unwrap_or(10));
    let threads = args.next().unwrap_or(1) as usize;
    let links = ClosLinks::uniform(Rate::from_gbps(10), Duration::from_micros(1));
    let network = ClosShape::fat_tree(k, 1).build(&links, Bytes::new(9064), Bytes::ZERO);
    let hosts = network.hosts;
    let mut to: Vec<u32> = (0..hosts).collect();
    Stream::named(1, "permutation", 0).shuffle(&mut to);
    for i in 0..hosts as usize {
        if to[i] == i as u32 {
            to.swap(i, (i + 1) % hosts as usize);
        }
    }
    let flows = (0..hosts)
        .map(|h| FlowSpec {
            id: FlowId(h),
            src: HostId(h),
            dst: HostId(to[h as usize]),
            size: Bytes::ENDLESS,
            start: Instant::ZERO,
            deadline: None,
            transport: TransportId(0),
            class: Class::DATA,
            background: false,
            pattern: 0,
        })
        .collect();
    let ndp =
        AnyTransport::Ndp(NdpConfig { payload: Some(Bytes::new(9000)), ..NdpConfig::default() });
    let started = std::time::Instant::now();
    let outcome = punctual_sim::run(
        Setup {
            switch_queue: ndp.default_queue(Rate::from_gbps(10), network.mtu),
            port_queues: Vec::new(),
            network,
            transports: vec![ndp],
            workload: Workload { flows, ..Workload::default() },
            seed: 1,
            stop: Stop { at: Instant::ZERO + Duration::from_millis(ms.into()), when_done: false },
            link_changes: Vec::new(),
            switch_resets: Vec::new(),
            legacy_switches: Vec::new(),
            sampling: None,
            sampled_flows: Vec::new(),
            check: false,
            network_trace: false,
            packet_latency: false,
            capture_max: 0,
            measure: Measure::default(),
            engine: EngineOptions { threads, ..EngineOptions::default() },
        },
        &mut |_| ControlFlow::Continue(()),
    );
    let wall = started.elapsed().as_secs_f64();
    let t = &outcome.totals;
    println!(
        "events {} hops {} delivered {} trims {} bounces {} drops {} util {:.3} wall {wall:.3} \
         Mhops/s {:.2} digest {:016x}",
        t.events,
        t.packet_hops,
        t.delivered_packets,
        t.trims,
        t.bounces,
        t.drops,
        t.delivered_wire_bytes as f64 * 8.0 / (f64::from(hosts) * f64::from(ms) * 1e-3 * 1e10),
        t.packet_hops as f64 / wall / 1e6,
        digest(&outcome)
    );
}

/// A number that changes with any count of any flow or port.
fn digest(outcome: &Outcome) -> u64 {
    let Outcome { flows, ports, totals, .. } = outcome;
    let mut hash = std::hash::DefaultHasher::new();
    format!("{flows:?} {ports:?} {totals:?}").hash(&mut hash);
    hash.finish()
}
