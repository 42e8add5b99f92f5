//! Figure 23 of NDP's paper: Facebook's web traffic over a core that is oversubscribed four times.
//!
//! `cargo test --release -p punctual-sim --test ndp_overload -- --ignored --nocapture` prints the
//! table, in a minute or two.

mod common;

use common::*;
use punctual_core::{Bytes, Duration, HostId, Instant};
use punctual_net::{ClosLinks, ClosShape, Network, Tier};
use punctual_sim::Outcome;
use punctual_transports::AnyTransport;
use punctual_transports::ndp::Ndp;
use punctual_workload::{
    Arrivals, BuiltIn, Gap, HostsView, LoopSpec, Pattern, Sizes, TrafficSpec, build,
};

const RUN_MS: u64 = 20;
/// Flows that start before this are not counted.
const SETTLED_MS: u64 = 4;

fn oversubscribed() -> Network {
    let links = ClosLinks::uniform(GBPS10, US);
    ClosShape::fat_tree(8, 4).build(&links, Bytes::new(1500), Bytes::ZERO)
}

fn web(transport: AnyTransport, connections: u32) -> Outcome {
    let network = oversubscribed();
    let hosts = HostsView {
        count: network.hosts,
        nic_rate: network.nic_info(HostId(0)).rate,
        rack_size: network.rack_size(),
    };
    let mut traffic = TrafficSpec::new(Pattern::Random, Sizes::Named(BuiltIn::FacebookWeb));
    let gap = Gap::ExponentialMedian(Duration::from_millis(1));
    traffic.arrivals = Arrivals::ClosedLoop(LoopSpec { connections, gap });
    traffic.jitter = Duration::from_millis(2);
    let mut setup = setup(network, vec![transport], Vec::new());
    setup.workload =
        build(&[traffic], &hosts, Duration::from_millis(RUN_MS), 1).expect("a workload");
    setup.check = false;
    setup.stop = until_ms(RUN_MS);
    run(setup)
}

/// Completion times in ms, from the shortest. Those of the last flows are cut off, for all alike.
fn completion_times(outcome: &Outcome) -> Vec<f64> {
    let settled = Instant::ZERO + Duration::from_millis(SETTLED_MS);
    let flows = outcome.flows.iter().filter(|f| f.spec.start >= settled);
    let took = flows.filter_map(|f| Some(f.ended?.saturating_since(f.spec.start)));
    let mut times: Vec<f64> = took.map(|t| t.as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Shares of packets trimmed: at the sender's rack of all, later of those that passed there.
fn trim_shares(outcome: &Outcome) -> [f64; 2] {
    let network = oversubscribed();
    let trims = |first: bool| -> u64 {
        let ports = outcome.ports.iter().zip(&network.links);
        ports.filter(|(_, l)| (l.tier == Tier::RackUp) == first).map(|(p, _)| p.trims).sum()
    };
    let (first, later) = (trims(true), trims(false));
    let sent = outcome.totals.delivered_packets + first + later;
    [first as f64 / sent as f64, later as f64 / (sent - first) as f64]
}

/// Share of the uplinks of racks that is used.
fn core_use(outcome: &Outcome) -> f64 {
    let network = oversubscribed();
    let ports = outcome.ports.iter().zip(&network.links).filter(|(_, l)| l.tier == Tier::RackUp);
    let (bytes, links) = ports.fold((0, 0), |(b, n), (p, _)| (b + p.sent_bytes, n + 1));
    bytes as f64 * 8.0 / (f64::from(links) * RUN_MS as f64 * 1e-3 * GBPS10.as_bps() as f64)
}

#[test]
#[ignore = "takes a minute or two"]
fn figure_23_web_traffic_over_an_oversubscribed_core() {
    for connections in [5, 10] {
        let mut p99 = Vec::new();
        let patient = Ndp { rto: Duration::from_millis(10), ..Ndp::default() };
        for (name, transport) in [
            ("ndp", transport("ndp")),
            ("ndp with a timer of 10 ms", AnyTransport::Ndp(patient)),
            ("dctcp", transport("dctcp")),
        ] {
            let outcome = web(transport, connections);
            let times = completion_times(&outcome);
            let at = |share: f64| times[(times.len() as f64 * share) as usize];
            let trims = trim_shares(&outcome);
            println!(
                "{connections} connections a host, {name}: FCT p50 {:.3}, p90 {:.3}, p99 {:.3} ms of \
                 {} flows; {:.2} Gb/s of data a host; core {:.0} % used; trimmed at the first \
                 switch {:.1} %, later {:.1} %; {} timeouts",
                at(0.5),
                at(0.9),
                at(0.99),
                times.len(),
                outcome.totals.delivered_bytes as f64 * 8.0 / (512.0 * RUN_MS as f64 * 1e6),
                core_use(&outcome) * 100.0,
                trims[0] * 100.0,
                trims[1] * 100.0,
                outcome.flows.iter().map(|f| u64::from(f.timeouts)).sum::<u64>()
            );
            p99.push(at(0.99));
        }
        assert!(p99[0] < p99[2] * 1.5, "NDP's tail against DCTCP's: {p99:?}");
    }
}

/// Closed loops beside flows that are still to start: each start is one event, not twice as many
/// as the start before.
#[test]
fn closed_loops_that_start_one_by_one_do_not_multiply_events() {
    let network = star(4, 1500);
    let hosts = HostsView { count: 4, nic_rate: GBPS10, rack_size: None };
    let mut traffic = TrafficSpec::new(Pattern::Random, Sizes::Fixed(Bytes::new(1000)));
    let gap = Gap::ExponentialMedian(Duration::from_micros(20));
    traffic.arrivals = Arrivals::ClosedLoop(LoopSpec { connections: 10, gap });
    traffic.jitter = Duration::from_millis(1);
    let mut setup = setup(network, vec![transport("ndp")], Vec::new());
    setup.workload = build(&[traffic], &hosts, Duration::from_millis(2), 1).expect("a workload");
    setup.stop = until_ms(2);
    let outcome = run(setup);
    assert!(outcome.flows.len() > 500, "{}", outcome.flows.len());
    assert!(outcome.totals.events < 40 * outcome.flows.len() as u64, "{:?}", outcome.totals);
}
