//! The hosts' engine and the switch on a clock that is never late, beside the simulator.

use super::*;
use crate::HostSockets;
use crate::run::config;
use punctual_core::{Limit, QueueSpec};
use punctual_net::{ClosLinks, ClosShape};
use punctual_sim::{EngineOptions, FlowStatus, Measure, Outcome, Setup, Stop};
use punctual_switch::{MemoryIo, Switch};
use punctual_transports::TransportSettings;
use punctual_workload::Workload;
use std::ops::ControlFlow;

const HOSTS: u32 = 5;

/// Hosts 1 to 4 send 50 to 80 KB each to host 0, all at once.
fn incast(transport: &str) -> Setup {
    let links = ClosLinks::uniform(Rate::from_mbps(100), Duration::from_micros(5));
    let network = ClosShape::star(HOSTS).build(&links, Bytes::new(1500), Bytes::new(38));
    let mut settings = TransportSettings::default();
    settings.ndp.rto = Duration::from_millis(10);
    let transport = AnyTransport::by_name(transport, &settings).expect("a transport");
    let flow = |n: u32| FlowSpec {
        id: FlowId(n),
        src: HostId(n + 1),
        dst: HostId(0),
        size: Bytes::new(50_000 + u64::from(n) * 10_000),
        start: Instant::ZERO + Duration::from_micros(10),
        deadline: None,
        transport: TransportId(0),
        class: Class::DATA,
        background: false,
        pattern: 0,
    };
    let flows: Vec<FlowSpec> = (0..HOSTS - 1).map(flow).collect();
    Setup {
        switch_queue: match transport.is_trimmable() {
            true => QueueSpec::Trim {
                data: Limit::Packets(8),
                headers: Limit::Packets(8),
                mark_above: None,
            },
            false => QueueSpec::DropTail { limit: Limit::Packets(100) },
        },
        port_queues: Vec::new(),
        network,
        transports: vec![transport],
        workload: Workload { flows, ..Workload::default() },
        seed: 1,
        stop: Stop { at: Instant::ZERO + Duration::from_millis(500), when_done: true },
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
        engine: EngineOptions::default(),
    }
}

/// Runs hosts and switch in steps of a microsecond. `stall` says for which steps the hosts stand
/// still.
fn run(setup: &Setup, stall: impl Fn(u64) -> bool) -> (Outcome, Engine) {
    let table = FlowTable::new(setup.workload.clone(), setup.stop, setup.measure);
    let all = |_: &AnyTransport| true;
    let mut engine = Engine::new(&setup.network, &setup.transports, all, table, setup.seed, 7, 10);
    let mut switch = Switch::new(config(setup, HostSockets::Packet), MemoryIo::new(HOSTS as usize));
    for host in 0..HOSTS {
        let hello = crate::frames::hello(host, (host + 1) % HOSTS);
        switch.io().arrive(HostId(host), Instant::ZERO, hello);
    }
    let mut waiting = Vec::new();
    let mut us = 0;
    loop {
        let now = Instant::ZERO + Duration::from_micros(us);
        switch.io().clock = now;
        switch.turn();
        waiting.append(&mut switch.io().departed);
        if engine.table.is_over(now) {
            let table = FlowTable::new(Workload::default(), setup.stop, setup.measure);
            let table = std::mem::replace(&mut engine.table, table);
            return (table.finish(now, false), engine);
        }
        us += 1;
        if stall(us) {
            continue;
        }
        engine.start_flows(now);
        for frame in waiting.drain(..) {
            let received = Received {
                frame: &frame.frame,
                at: frame.at,
                is_cut: false,
                checksum_missing: false,
            };
            engine.receive(frame.host, received, now);
        }
        for host in (0..HOSTS).map(HostId) {
            engine.turn(host, now);
        }
        for (host, frame) in engine.outgoing.drain(..) {
            switch.io().arrive(host, now, frame);
        }
    }
}

fn completion_times(outcome: &Outcome) -> Vec<f64> {
    let time = |flow: &punctual_sim::FlowRecord| {
        assert_eq!(flow.status, FlowStatus::Completed);
        flow.ended.map_or(0.0, |at| (at - flow.spec.start).as_micros_f64())
    };
    outcome.flows.iter().map(time).collect()
}

/// When the last flow ended, in µs.
fn last(outcome: &Outcome) -> f64 {
    completion_times(outcome).into_iter().fold(0.0, f64::max)
}

/// Without lateness, hosts and switch keep the link as busy as the simulator does: NDP's last flow
/// ends with the simulator's. Which flow is served first depends on ties, and differs.
///
/// Steps of a microsecond delay each turn of a packet by up to two of them, which are 1 % of a round
/// trip of 280 us. NDP's header is as long on the wire as in the simulator. Those of D3 and PDQ are
/// longer, and D3's rates have steps of 8 Mb/s there: they only have to deliver every byte once.
#[test]
fn engine__ends_with_the_simulator() {
    for name in ["ndp", "d3", "rcpdc", "pdq"] {
        let setup = incast(name);
        let simulated = punctual_sim::run(setup.clone(), &mut |_| ControlFlow::Continue(()));
        let (real, engine) = run(&setup, |_| false);
        assert_eq!(real.violations, Vec::<String>::new(), "{name}");
        let ratio = last(&real) / last(&simulated);
        println!(
            "{name}: simulated {:.0?} us, engine {:.0?} us, ratio of the last {ratio:.3}, dropped {:?}",
            completion_times(&simulated),
            completion_times(&real),
            engine.dropped()
        );
        if name == "ndp" {
            assert!((ratio - 1.0).abs() < 0.03, "{name}: {ratio}");
        }
    }
}

/// Hosts that stand still for 50 us of every 100 us lose less than a packet time each time, so that
/// pulls and packets keep their rate; hosts that stand still for 3 ms of every 6 ms lose that time.
#[test]
fn engine__keeps_its_rate_when_it_is_a_little_late() {
    let setup = incast("ndp");
    let (on_time, _) = run(&setup, |_| false);
    let (a_little, engine) = run(&setup, |us| us % 100 < 50);
    let (much, _) = run(&setup, |us| us % 6000 < 3000);
    let [on_time, a_little, much] = [on_time, a_little, much].map(|o| last(&o));
    println!(
        "last flow: {on_time:.0} us on time, {a_little:.0} us a little late, {much:.0} us late"
    );
    assert!(a_little < 1.05 * on_time, "{a_little} {on_time}");
    assert!(much > 1.3 * on_time, "{much} {on_time}");
    let (lateness, _) = engine.lateness();
    assert!(lateness.worst_us() >= 49.0, "{}", lateness.worst_us());
}
