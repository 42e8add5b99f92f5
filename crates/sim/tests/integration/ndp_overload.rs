//! Figure 23 of NDP's paper: Facebook's web traffic over a core that is oversubscribed four times.
//!
//! `cargo test -p punctual-sim --test integration ndp_overload:: -- --ignored --nocapture` prints
//! the tables, in two or three minutes.

use crate::common::*;
use punctual_core::{Bytes, Duration, Instant};
use punctual_net::{ClosLinks, ClosShape, Network, Tier};
use punctual_sim::{FlowRecord, Outcome};
use punctual_testkit::{assert_figure, claimed, print_figure};
use punctual_transports::AnyTransport;
use punctual_transports::ndp::{NdpConfig, NdpTimer};
use punctual_workload::{
    Arrivals, BuiltIn, Gap, HostsView, LoopSpec, Pattern, Sizes, TrafficSpec, build,
};

/// Flows that start before this are not counted.
const SETTLED_MS: u64 = 4;

/// How large packets are, and how long the network is watched.
#[derive(Clone, Copy)]
struct Run {
    mtu: u64,
    ms: u64,
}

/// What a run came to.
struct Figure {
    p50: f64,
    p99: f64,
    /// Share of packets trimmed at the sender's rack, and later of those that passed there.
    trimmed: [f64; 2],
    timeouts: u64,
    /// Its row of the table.
    row: String,
}

const HEAD: &str = "| connections a host | | FCT p50 ms | p90 | p99 | Gb/s of data a host | trimmed \
     at the first switch | later | headers dropped | timeouts | flows | unfinished |\n\
     |--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";

fn oversubscribed(mtu: u64) -> Network {
    let links = ClosLinks::uniform(GBPS10, US);
    ClosShape::fat_tree(8, 4).build(&links, Bytes::new(mtu), Bytes::ZERO)
}

fn web(transport: AnyTransport, connections: u32, of: Run) -> Outcome {
    let network = oversubscribed(of.mtu);
    let hosts = HostsView::uniform(network.hosts, GBPS10, network.rack_size());
    let mut traffic = TrafficSpec::new(Pattern::Random, Sizes::Named(BuiltIn::FacebookWeb));
    let gap = Gap::ExponentialMedian(Duration::from_millis(1));
    traffic.arrivals = Arrivals::ClosedLoop(LoopSpec { connections, gap });
    traffic.jitter = Duration::from_millis(2);
    let mut setup = setup(network, vec![transport], Vec::new());
    setup.workload =
        build(&[traffic], &hosts, Duration::from_millis(of.ms), 1).expect("a workload");
    setup.check = false;
    setup.stop = until_ms(of.ms);
    run(setup)
}

/// Completion times in ms, with flows that are under way when the run ends censored at their age.
struct Times {
    /// Times or ages from the shortest, and whether the flow was done.
    sorted: Vec<(f64, bool)>,
}

impl Times {
    fn of(outcome: &Outcome) -> Times {
        let settled = Instant::ZERO + Duration::from_millis(SETTLED_MS);
        let flows = outcome.flows.iter().filter(|f| f.spec.start >= settled);
        let took = |end: Instant, f: &FlowRecord| end.saturating_since(f.spec.start).as_secs_f64();
        let time = |f: &FlowRecord| match f.ended {
            Some(end) => (took(end, f) * 1e3, true),
            None => (took(outcome.totals.ended_at, f) * 1e3, false),
        };
        let mut sorted: Vec<(f64, bool)> = flows.map(time).collect();
        // Of equal times a completion comes before a censored flow, which was still under way.
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        Times { sorted }
    }

    fn unfinished(&self) -> usize {
        self.sorted.iter().filter(|(_, done)| !done).count()
    }

    /// The time in which `share` of the flows are done, by the estimate of Kaplan and Meier; none
    /// where too many are censored.
    fn at(&self, share: f64) -> Option<f64> {
        let mut under_way = 1.0;
        for (n, (time, done)) in self.sorted.iter().enumerate() {
            if *done {
                under_way *= 1.0 - 1.0 / (self.sorted.len() - n) as f64;
            }
            if under_way <= 1.0 - share {
                return Some(*time);
            }
        }
        None
    }

    /// The time in which `share` of the flows are done; the longest time seen where it is longer.
    fn shown(&self, share: f64) -> String {
        match (self.at(share), self.sorted.last()) {
            (Some(ms), _) => format!("{ms:.3}"),
            (None, longest) => format!("> {:.2}", longest.map_or(0.0, |l| l.0)),
        }
    }
}

#[test]
fn times_of_unfinished_flows_are_censored() {
    let times = |sorted: &[(f64, bool)]| Times { sorted: sorted.to_vec() };
    let all = times(&[(1.0, true), (2.0, true), (3.0, true), (4.0, true)]);
    assert_eq!((all.at(0.5), all.at(0.99)), (Some(2.0), Some(4.0)));
    // Of three that outlast the one censored at 1.5 a third are done at 2, two thirds at 3.
    let some = times(&[(1.0, true), (1.5, false), (2.0, true), (3.0, true), (9.0, false)]);
    assert_eq!(some.unfinished(), 2);
    assert_eq!((some.at(0.2), some.at(0.4), some.at(0.7)), (Some(1.0), Some(2.0), Some(3.0)));
    assert_eq!((some.at(0.99), some.shown(0.99)), (None, "> 9.00".to_owned()));
}

/// Shares of packets trimmed: at the sender's rack of all, later of those that passed there.
fn trim_shares(outcome: &Outcome, of: Run) -> [f64; 2] {
    let network = oversubscribed(of.mtu);
    let trims = |first: bool| -> u64 {
        let ports = outcome.ports.iter().zip(&network.links);
        ports.filter(|(_, l)| (l.tier == Tier::RackUp) == first).map(|(p, _)| p.trims).sum()
    };
    let (first, later) = (trims(true), trims(false));
    let sent = outcome.totals.delivered_packets + first + later;
    [first as f64 / sent as f64, later as f64 / (sent - first) as f64]
}

/// Share of the uplinks of racks that is used.
fn core_use(outcome: &Outcome, of: Run) -> f64 {
    let network = oversubscribed(of.mtu);
    let ports = outcome.ports.iter().zip(&network.links).filter(|(_, l)| l.tier == Tier::RackUp);
    let (bytes, links) = ports.fold((0, 0), |(b, n), (p, _)| (b + p.sent_bytes, n + 1));
    bytes as f64 * 8.0 / (f64::from(links) * of.ms as f64 * 1e-3 * GBPS10.as_bps() as f64)
}

fn figure_23(name: &str, transport: AnyTransport, connections: u32, of: Run) -> Figure {
    let outcome = web(transport, connections, of);
    let times = Times::of(&outcome);
    let at = |share: f64| times.at(share).unwrap_or(f64::INFINITY);
    let trims = trim_shares(&outcome, of);
    let timeouts = outcome.flows.iter().map(|f| u64::from(f.timeouts)).sum();
    let row = format!(
        "| {connections} | {name} | {} | {} | {} | {:.2} | {:.1} % | {:.1} % | {} | {timeouts} | {} | {} |\n",
        times.shown(0.5),
        times.shown(0.9),
        times.shown(0.99),
        outcome.totals.delivered_bytes as f64 * 8.0 / (512.0 * of.ms as f64 * 1e6),
        trims[0] * 100.0,
        trims[1] * 100.0,
        outcome.totals.drops,
        times.sorted.len(),
        times.unfinished(),
    );
    println!("core {:.0} % used: {row}", core_use(&outcome, of) * 100.0);
    Figure { p50: at(0.5), p99: at(0.99), trimmed: trims, timeouts, row }
}

/// Connections of each host, and what the claims of the catalogue call the load.
const LOADS: [(u32, &str); 2] = [(5, "medium"), (10, "high")];

/// Holds NDP's FCT p50 and p99 over DCTCP's, and the shares of packets trimmed at the first switch
/// and later, to the claims of the catalogue.
fn assert_claims(id: &str, (connections, load): (u32, &str), ndp: &Figure, dctcp: &Figure) {
    for (what, claim, measured) in [
        ("p50", format!("{load}-p50"), ndp.p50 / dctcp.p50),
        ("p99", format!("{load}-p99"), ndp.p99 / dctcp.p99),
        ("trimmed", format!("trimmed-{connections}"), 100.0 * ndp.trimmed[0]),
        ("trimmed-later", format!("trimmed-later-{connections}"), 100.0 * ndp.trimmed[1]),
    ] {
        let accepted = claimed("ndp/fig23", &claim);
        assert_figure(&format!("ndp-fig-23{id}-{what}-{connections}"), measured, accepted);
    }
}

/// With packets of 9,000 bytes, as the authors' program has them.
#[test]
#[ignore = "study: cargo xtask figures"]
fn figure_23_web_traffic_over_an_oversubscribed_core() {
    let of = Run { mtu: 9064, ms: 60 };
    let mut table = HEAD.to_owned();
    for load in LOADS {
        let ndp = figure_23("NDP", transport("ndp"), load.0, of);
        let dctcp = figure_23("DCTCP", transport("dctcp"), load.0, of);
        assert_claims("", load, &ndp, &dctcp);
        assert_eq!(ndp.timeouts, 0);
        table += &(ndp.row + &dctcp.row);
    }
    print_figure("ndp-figure-23", &table);
}

/// NDP with this timer and nothing else changed.
fn with_timer(timer: NdpTimer) -> AnyTransport {
    AnyTransport::Ndp(NdpConfig { timer: Some(timer), ..NdpConfig::default() })
}

/// With packets of 1,500 bytes. Each packet that comes through its rack's uplink does so among
/// t / (1 − t) headers, if t is the share trimmed there, and each of these 1 / (1 − t) is answered
/// and pulled for over the uplinks of the receivers' racks: (2 + t) / (1 − t) headers in all, of
/// which a port sends ten. Past t = 8/11 their queues overflow, and answers are lost for good.
#[test]
#[ignore = "study: cargo xtask figures"]
fn figure_23_with_small_packets() {
    let of = Run { mtu: 1500, ms: 20 };
    let patient = NdpConfig { rto: Duration::from_millis(10), ..NdpConfig::default() };
    let mut table = HEAD.to_owned();
    for load in LOADS {
        let mut figures = Vec::new();
        for (name, transport) in [
            ("NDP, `timer = \"slowest\"`", with_timer(NdpTimer::Slowest)),
            ("NDP, `timer = \"rtt\"`", with_timer(NdpTimer::Rtt)),
            ("NDP, `timer = \"fixed\"`", with_timer(NdpTimer::Fixed)),
            ("NDP, `rto = \"10ms\"`", AnyTransport::Ndp(patient.clone())),
            ("DCTCP", transport("dctcp")),
        ] {
            figures.push(figure_23(name, transport, load.0, of));
            table += &figures[figures.len() - 1].row;
        }
        let [ndp, rtt, _, _, dctcp] = &figures[..] else { unreachable!("five rows") };
        assert_claims("-small", load, ndp, dctcp);
        assert!(ndp.timeouts <= rtt.timeouts, "{} with the default timer", ndp.timeouts);
    }
    print_figure("ndp-figure-23-small-packets", &table);
}

/// Closed loops beside flows that are still to start: each start is one event, not twice as many
/// as the start before.
#[test]
fn closed_loops_that_start_one_by_one_do_not_multiply_events() {
    let network = star(4, 1500);
    let hosts = HostsView::uniform(4, GBPS10, None);
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
