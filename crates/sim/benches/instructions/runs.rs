//! Whole runs: an operation is a packet leaving an output port.

use crate::Done;
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Class, Duration, FlowId, FlowSpec, HostId, Instant, Rate, TransportId};
use punctual_net::{ClosLinks, ClosShape};
use punctual_sim::{Setup, Stop};
use punctual_transports::{AnyTransport, TransportSettings};
use punctual_workload::Workload;
use std::ops::ControlFlow;

/// Everybody sends to somebody else, without end, on a fat tree of 10 Gb/s and 1 µs links.
pub(crate) fn permutation(transport: &str, k: u32, micros: u64) -> Done {
    let rate = Rate::from_gbps(10);
    let mtu = Bytes::new(if transport == "ndp" { 9064 } else { 1500 });
    let links = ClosLinks::uniform(rate, Duration::from_micros(1));
    let network = ClosShape::fat_tree(k, 1).build(&links, mtu, Bytes::ZERO);
    let transport = AnyTransport::by_name(transport, &TransportSettings::default())
        .expect("a transport of that name");
    let setup = Setup {
        switch_queue: transport.default_queue(rate, mtu),
        workload: Workload { flows: flows(network.hosts), ..Workload::default() },
        network,
        transports: vec![transport],
        seed: 1,
        stop: Stop { at: Instant::ZERO + Duration::from_micros(micros), when_done: false },
        link_changes: Vec::new(),
        switch_resets: Vec::new(),
        legacy_switches: Vec::new(),
        sampling: None,
        check: false,
        measure_from: Instant::ZERO,
    };
    let totals = punctual_sim::run(setup, &mut |_| ControlFlow::Continue(())).totals;
    let digest = totals.events ^ totals.delivered_wire_bytes.rotate_left(32);
    Done { operations: totals.packet_hops, digest }
}

fn flows(hosts: u32) -> Vec<FlowSpec> {
    let mut to: Vec<u32> = (0..hosts).collect();
    Stream::named(1, "permutation", 0).shuffle(&mut to);
    for i in 0..hosts as usize {
        if to[i] == i as u32 {
            to.swap(i, (i + 1) % hosts as usize);
        }
    }
    (0..hosts)
        .map(|host| FlowSpec {
            id: FlowId(host),
            src: HostId(host),
            dst: HostId(to[host as usize]),
            size: Bytes::ENDLESS,
            start: Instant::ZERO,
            deadline: None,
            transport: TransportId(0),
            class: Class::DATA,
            background: false,
            pattern: 0,
        })
        .collect()
}
