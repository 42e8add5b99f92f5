//! NDP's Figure 15: 90 KB between two hosts that are otherwise idle, while each of the others has
//! four long flows to random hosts. `scenarios/among-long-flows.toml` is the same, in a closed loop.

use crate::common::*;
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Duration, FlowSpec, Instant, Limit, QueueSpec, TransportId};
use punctual_testkit::{assert_figure, claimed, markdown_table, print_figure};
use punctual_transports::AnyTransport;
use punctual_transports::mptcp::{Coupling, MptcpConfig, SubflowJoin};

/// What a run shows: times of the transfers in µs, sorted, and the share of hosts' links in use.
struct Transfers {
    times: Vec<f64>,
    utilisation: f64,
    pauses: u64,
}

impl Transfers {
    fn percentile(&self, percent: usize) -> f64 {
        self.times[(self.times.len() - 1) * percent / 100]
    }

    fn print(&self, name: &str) {
        println!(
            "{name}: p50 {:.0}, p90 {:.0}, p99 {:.0}, most {:.0} µs of {}; utilisation {:.3}, {} \
             pauses",
            self.percentile(50),
            self.percentile(90),
            self.percentile(99),
            self.percentile(100),
            self.times.len(),
            self.utilisation,
            self.pauses
        );
    }

    /// Median, 99th percentile and use of the hosts' links, for a table.
    fn row(&self, name: &str) -> Vec<String> {
        let (p50, p99) = (self.percentile(50), self.percentile(99));
        let used = format!("{:.1} %", 100.0 * self.utilisation);
        vec![name.to_owned(), format!("{p50:.0}"), format!("{p99:.0}"), used]
    }
}

/// What else the two hosts of the transfers do.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    /// Nothing, as the paper's text has it; transfers go both ways.
    Idle,
    /// As in the released program, which keeps long flows from starting at the one and from ending
    /// at the other, and not the other way round: long flows come to the host that sends the
    /// transfers, and its SYN-ACKs wait behind them. Transfers go one way.
    BusyTheOtherWay,
}

/// A fat tree of `k`, transfers each way every millisecond from 10 ms to `ms`. The first transport
/// has the transfers, the last the long flows.
fn transfers(
    k: u32,
    ms: u64,
    transports: Vec<AnyTransport>,
    queue: Option<QueueSpec>,
) -> Transfers {
    transfers_with(1, Ends::Idle, k, ms, transports, queue)
}

/// Transfers with a seed for the ends of the long flows and for all paths.
fn transfers_with(
    seed: u64,
    ends: Ends,
    k: u32,
    ms: u64,
    transports: Vec<AnyTransport>,
    queue: Option<QueueSpec>,
) -> Transfers {
    let network = fat_tree(k, 9064);
    let hosts = network.hosts;
    let long_transport = TransportId(transports.len() as u8 - 1);
    let mut flows = Vec::new();
    let mut stream = Stream::named(seed, "long flows", 0);
    let last = hosts - 1;
    let (sources, destinations) = match ends {
        Ends::Idle => (1..last, 1..last),
        Ends::BusyTheOtherWay => (1..hosts, 0..last),
    };
    for src in sources {
        for _ in 0..4 {
            let dst = loop {
                let (first, count) = (destinations.start, destinations.len() as u64);
                let dst = first + stream.below(count) as u32;
                if dst != src {
                    break dst;
                }
            };
            let long = flow(src, dst, u64::MAX);
            flows.push(FlowSpec { transport: long_transport, background: true, ..long });
        }
    }
    for at_ms in 10..ms - 2 {
        let start = Instant::ZERO + Duration::from_millis(at_ms);
        flows.push(FlowSpec { start, ..flow(0, last, 90_000) });
        if ends == Ends::Idle {
            flows.push(FlowSpec { start, ..flow(last, 0, 90_000) });
        }
    }
    let mut setup = setup(network, transports, flows);
    if let Some(queue) = queue {
        setup.switch_queue = queue;
    } else if long_transport.0 > 0 {
        let rate = setup.network.links[0].rate;
        setup.switch_queue = setup.transports[1].default_queue(rate, setup.network.mtu);
    }
    setup.stop = until_ms(ms);
    setup.seed = seed;
    setup.measure.from = Instant::ZERO + Duration::from_millis(10);
    setup.check = false;
    let outcome = run(setup);
    let mut times: Vec<f64> = outcome
        .flows
        .iter()
        .filter(|f| !f.spec.background)
        .map(|f| {
            // One that is not done has taken as long as there was.
            let end = f.ended.unwrap_or(Instant::ZERO + Duration::from_millis(ms));
            end.saturating_since(f.spec.start).as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let seconds = (ms - 10) as f64 / 1e3;
    let capacity = f64::from(hosts) * seconds * GBPS10.as_bps() as f64;
    let utilisation = outcome.totals.delivered_wire_bytes as f64 * 8.0 / capacity;
    Transfers { times, utilisation, pauses: outcome.totals.pauses }
}

/// As NDP's program has it: each subflow for itself, slow start up to 15 packets.
fn mptcp(join: SubflowJoin) -> AnyTransport {
    AnyTransport::Mptcp(MptcpConfig {
        coupling: Coupling::None,
        initial_ssthresh: Some(Bytes::new(15 * 9024)),
        join,
        ..MptcpConfig::default()
    })
}

/// The same, joined after the first, at hosts as in NDP's simulator: a NIC holds 1,000 packets,
/// so that each of 32 subflows has about 32.
fn deep_nics() -> AnyTransport {
    let AnyTransport::Mptcp(config) = mptcp(SubflowJoin::AfterFirst) else { unreachable!() };
    let window_max = Some(Bytes::new(32 * 9024));
    AnyTransport::Mptcp(MptcpConfig { small_queues: false, window_max, ..config })
}

fn marking_above(transport: &AnyTransport, packets: u32) -> QueueSpec {
    let mut queue = transport.default_queue(GBPS10, Bytes::new(9064));
    match &mut queue {
        QueueSpec::Ecn { mark_above, .. } => *mark_above = Limit::Packets(packets),
        QueueSpec::Lossless { mark_above, .. } => *mark_above = Some(Limit::Packets(packets)),
        _ => unreachable!("it marks"),
    }
    queue
}

/// The median, with marks above so many packets.
fn marked(k: u32, ms: u64, name: &str, packets: u32) -> Transfers {
    let transport = transport(name);
    let queue = marking_above(&transport, packets);
    let transfers = transfers(k, ms, vec![transport], Some(queue));
    transfers.print(&format!("{name}, marking above {packets}"));
    transfers
}

/// NDP's is the fastest, and DCTCP over PFC takes slightly longer than DCTCP, with marks as in the
/// released program, above 15 packets and 16. (The text has 30 and 20, and the order is then the
/// other way round: what waits for marks waits less.) Racks of four leave MPTCP more room than
/// those of six in the paper's network; there see the test below.
#[test]
fn others_wait_longer_than_ndp() {
    let (k, ms) = (8, 30);
    let ndp = transfers(k, ms, vec![ndp_9k(30)], None);
    ndp.print("ndp");
    let dctcp = marked(k, ms, "dctcp", 15).percentile(50);
    let lossless = marked(k, ms, "dctcp-lossless", 16).percentile(50);
    let mptcp = transfers(k, ms, vec![mptcp(SubflowJoin::AfterFirst)], None);
    mptcp.print("mptcp");
    let (ndp, mptcp) = (ndp.percentile(50), mptcp.percentile(50));
    assert!(1.5 * ndp < dctcp && 1.5 * ndp < mptcp, "{ndp}, {dctcp}, {mptcp}");
    // Times spread by about 100 µs around 340, so that the standard error of each median of 36 is
    // about 20 µs, and two of the ratio's are 0.17: the order itself shows in `figure_15`.
    assert!((0.83..1.3).contains(&(lossless / dctcp)), "{lossless}, {dctcp}");
}

#[test]
#[ignore = "study: cargo xtask figures"]
fn figure_15() {
    let (k, ms) = (12, 40);
    let ndp = transfers(k, ms, vec![ndp_9k(30)], None);
    ndp.print("ndp");
    let of_text = [("dctcp", 30), ("dctcp-lossless", 20)];
    let [dctcp, lossless] = of_text.map(|(name, packets)| marked(k, ms, name, packets));
    let of_program = [("dctcp", 15), ("dctcp-lossless", 16)];
    let of_program = of_program.map(|(name, packets)| marked(k, ms, name, packets));
    let medians = [0, 1].map(|n| of_program[n].percentile(50));
    let multi = transfers(k, ms, vec![mptcp(SubflowJoin::AfterFirst)], None);
    let at_once = transfers(k, ms, vec![mptcp(SubflowJoin::AtOnce)], None);
    let by_tcp = transfers(k, ms, vec![transport("tcp"), mptcp(SubflowJoin::AtOnce)], None);
    let deep = transfers(k, ms, vec![deep_nics()], None);
    let rows = [
        ndp.row("NDP"),
        dctcp.row("DCTCP, marks above 30 packets (text)"),
        lossless.row("DCTCP over PFC, marks above 20 (text)"),
        of_program[0].row("DCTCP, marks above 15 (program)"),
        of_program[1].row("DCTCP over PFC, marks above 16 (program)"),
        multi.row("MPTCP"),
        at_once.row("MPTCP, connected at once"),
        by_tcp.row("transfers by TCP among MPTCP's long flows"),
        deep.row("MPTCP, deep NICs"),
    ];
    let head = ["", "p50 (µs)", "p99 (µs)", "links to hosts in use"];
    print_figure("ndp-figure-15", &markdown_table(&head, &rows));

    let to_ndp = |of: &Transfers, percent| of.percentile(percent) / ndp.percentile(percent);
    for (id, claim, measured) in [
        ("worst-over-idle", "ndp-worst", ndp.percentile(100) / idle_us()),
        ("dctcp-p50", "dctcp-p50", to_ndp(&dctcp, 50)),
        ("dctcp-p99", "dctcp-p99", to_ndp(&dctcp, 99)),
        ("dctcp-lossless-p50", "lossless-p50", medians[1] / medians[0]),
        ("mptcp-p50", "mptcp-p50", to_ndp(&multi, 50)),
        ("mptcp-p99", "mptcp-p99", to_ndp(&multi, 99)),
    ] {
        assert_figure(&format!("ndp-fig-15-{id}"), measured, claimed("ndp/fig15", claim));
    }
    for (name, transfers) in
        [("ndp", &ndp), ("dctcp", &dctcp), ("dctcp-lossless", &lossless), ("mptcp", &multi)]
    {
        let accepted = claimed("ndp/fig15", &format!("utilisation-{name}"));
        let id = format!("ndp-fig-15-utilisation-{name}");
        assert_figure(&id, 100.0 * transfers.utilisation, accepted);
    }
}

/// What 90 KB take between two hosts of an idle fat tree: ten packets on the first link, then the
/// last of them across five more.
fn idle_us() -> f64 {
    let packet = GBPS10.transmission_time(Bytes::new(9064));
    (packet * 15 + US * 6).as_secs_f64() * 1e6
}

/// With long flows as in the released program (and its queue of 100 packets in the last row), MPTCP
/// is at ten times NDP's median, as in the paper's text: its SYN-ACKs wait in a full queue that is
/// not in the text, where NDP's headers go first.
#[test]
#[ignore = "study: cargo xtask figures"]
fn figure_15_with_ends_as_in_the_program() {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut of_ndp = None;
    let mut run = |name: &str, transports: Vec<AnyTransport>, queue: Option<QueueSpec>| {
        let of_seed = |seed| {
            let (transports, ends) = (transports.clone(), Ends::BusyTheOtherWay);
            let transfers = transfers_with(seed, ends, 12, 70, transports, queue);
            transfers.print(&format!("seed {seed}, {name}"));
            (transfers.percentile(50), transfers.percentile(99))
        };
        let seeds = [1, 2, 3].map(of_seed);
        let mean = |of: fn(&(f64, f64)) -> f64| seeds.iter().map(of).sum::<f64>() / 3.0;
        let (p50, p99) = (mean(|s| s.0), mean(|s| s.1));
        let ratio = format!("{:.1}", p50 / *of_ndp.get_or_insert(p50));
        rows.push(vec![name.to_owned(), format!("{p50:.0}"), format!("{p99:.0}"), ratio]);
        p50
    };
    let ndp = run("NDP", vec![ndp_9k(30)], None);
    let [dctcp, lossless] = [("dctcp", "DCTCP", 15), ("dctcp-lossless", "DCTCP over PFC", 16)].map(
        |(key, name, packets)| {
            let transport = transport(key);
            let queue = marking_above(&transport, packets);
            run(&format!("{name}, marks above {packets} packets"), vec![transport], Some(queue))
        },
    );
    let multi = run("MPTCP", vec![mptcp(SubflowJoin::AfterFirst)], None);
    let AnyTransport::Mptcp(config) = mptcp(SubflowJoin::AfterFirst) else { unreachable!() };
    let at_once = AnyTransport::Mptcp(MptcpConfig { handshake: false, ..config });
    let without = run("MPTCP without handshake", vec![at_once], None);
    let short = QueueSpec::DropTail { limit: Limit::Packets(100) };
    let transports = vec![transport("tcp"), mptcp(SubflowJoin::AtOnce)];
    let name = "TCP's transfers among MPTCP's long flows, queues of 100 packets";
    run(name, transports, Some(short));
    let head = ["", "p50 (µs)", "p99 (µs)", "p50 / NDP's"];
    print_figure("ndp-figure-15-busy-ends", &markdown_table(&head, &rows));
    for (id, claim, ratio) in [
        ("dctcp-p50", "dctcp-p50", dctcp / ndp),
        ("dctcp-lossless-p50", "lossless-p50", lossless / dctcp),
        ("mptcp-p50", "mptcp-p50", multi / ndp),
    ] {
        assert_figure(&format!("ndp-fig-15-program-{id}"), ratio, claimed("ndp/fig15", claim));
    }
    assert!(2.0 * without < multi, "{without}, {multi}");
}

/// Which links of the two racks are full is luck, and MPTCP's transfers depend on it more than
/// others' do.
#[test]
#[ignore = "study: cargo xtask figures"]
fn figure_15_with_other_seeds() {
    let row = |(name, transport): (&str, AnyTransport)| {
        let median = |seed| {
            let transports = vec![transport.clone()];
            transfers_with(seed, Ends::Idle, 12, 40, transports, None).percentile(50)
        };
        let medians = (1..=4).map(|seed| format!("{:.0}", median(seed)));
        std::iter::once(name.to_owned()).chain(medians).collect()
    };
    let rows = [("DCTCP", transport("dctcp")), ("MPTCP", mptcp(SubflowJoin::AfterFirst))].map(row);
    let head = ["p50 (µs)", "seed 1", "seed 2", "seed 3", "seed 4"];
    print_figure("ndp-figure-15-seeds", &markdown_table(&head, &rows));
}
