//! MPTCP across networks: closed forms, dead links, and what NDP's comparison measured.

use crate::common::*;
use punctual_core::{Bytes, Duration, FlowId, FlowSpec, HostId, Instant, Rate};
use punctual_net::{ClosLinks, ClosShape, Network};
use punctual_sim::{FlowStatus, LinkChange, LinkFault, Outcome, Sampling};
use punctual_testkit::{assert_figure, claimed, markdown_table, print_figure, published};
use punctual_transports::mptcp::{Coupling, MptcpConfig, SubflowJoin};
use punctual_transports::{AnyTransport, tcp::TcpConfig};

/// Each subflow a TCP of its own.
fn uncoupled() -> MptcpConfig {
    MptcpConfig { coupling: Coupling::None, ..MptcpConfig::default() }
}

/// Uncoupled subflows that all connect at once, as in NDP's comparison.
fn at_once() -> MptcpConfig {
    MptcpConfig { join: SubflowJoin::AtOnce, ..uncoupled() }
}

/// 16 hosts whose links are twice as fast as those between switches: a rack has two ways up, which
/// together carry what one host can send.
fn thin_fat_tree() -> Network {
    let half = Rate::from_gbps(5);
    let links = ClosLinks { rack_rate: half, pod_rate: half, ..ClosLinks::uniform(GBPS10, US) };
    ClosShape::fat_tree(4, 1).build(&links, Bytes::new(1500), Bytes::ZERO)
}

/// What a lone flow across pods gets, in Gb/s of data.
fn lone_rate(transport: AnyTransport, size: u64) -> f64 {
    let outcome = run(setup(thin_fat_tree(), vec![transport], vec![flow(0, 15, size)]));
    let record = &outcome.flows[0];
    assert_eq!(record.status, FlowStatus::Completed);
    let time = record.ended.unwrap().saturating_since(Instant::ZERO);
    size as f64 * 8.0 / time.as_secs_f64() / 1e9
}

/// 10 Gb/s carry 9.733 Gb/s of data in packets of 1500 B. 40 MB need 32.9 ms of that.
#[test]
fn four_paths_fill_a_nic_that_one_cannot() {
    let line = 10.0 * 1460.0 / 1500.0;
    let tcp = lone_rate(AnyTransport::Tcp(TcpConfig::default()), 40_000_000);
    assert!(tcp < line / 2.0, "{tcp}");
    for coupling in [Coupling::Lia, Coupling::None] {
        let config = MptcpConfig { coupling, ..MptcpConfig::default() };
        let multi = lone_rate(AnyTransport::Mptcp(config), 40_000_000);
        println!("{coupling:?}: {multi:.3} of {line:.3} Gb/s; TCP {tcp:.3}");
        assert!(multi > 0.93 * line && multi < line, "{coupling:?}: {multi}");
    }
}

/// Across an idle fat tree nothing is lost, and one subflow is TCP at the picosecond.
#[test]
fn one_subflow_takes_as_long_as_tcp() {
    let ends = |transport, size| {
        let outcome = run(setup(star(3, 1500), vec![transport], vec![flow(0, 1, size)]));
        outcome.flows[0].ended.unwrap()
    };
    for size in [1, 1460, 100_000, 5_000_001] {
        let tcp = ends(AnyTransport::Tcp(TcpConfig::default()), size);
        // There is one path only, so there is one subflow.
        assert_eq!(ends(AnyTransport::Mptcp(MptcpConfig::default()), size), tcp, "{size}");
    }
}

/// One of a rack's two ways up is cut for good, at first or on the way, and everything arrives.
#[test]
fn a_path_that_dies_holds_nothing_up() {
    for at_us in [0, 2_000] {
        let mut setup = setup(
            fat_tree(4, 1500),
            vec![AnyTransport::Mptcp(uncoupled())],
            vec![flow(0, 15, 20_000_000)],
        );
        let nic = setup.network.links[setup.network.nic(punctual_core::HostId(0)).index()];
        let rack = nic.to;
        let mut ups = (0..setup.network.links.len()).filter(|p| {
            let link = &setup.network.links[*p];
            link.from == rack
                && setup.network.links[link.twin.index()].to == rack
                && link.to.index() >= setup.network.hosts as usize
        });
        let up = punctual_core::PortId::from(ups.next_back().unwrap());
        let at = Instant::ZERO + Duration::from_micros(at_us);
        setup.link_changes = vec![LinkChange { at, port: up, what: LinkFault::Down }];
        let outcome = run(setup);
        let record = &outcome.flows[0];
        assert_eq!(record.status, FlowStatus::Completed);
        assert!(outcome.totals.losses > 0, "the link cut was not used");
        // 16.4 ms at line rate, one timeout of 10 ms, and slow start.
        let ended = record.ended.unwrap().saturating_since(Instant::ZERO);
        println!("cut at {at_us} us: {ended}, {} timeouts", record.timeouts);
        assert!(ended < Duration::from_millis(30), "{ended}");
    }
}

/// Everybody sends to somebody else: Gb/s of data each, sorted.
fn permutation_rates(config: MptcpConfig, queue: u32, k: u32, ms: u64) -> (Vec<f64>, Outcome) {
    let network = fat_tree(k, 9064);
    let hosts = network.hosts;
    let mut setup = setup(network, vec![AnyTransport::Mptcp(config)], permutation(hosts, 1));
    setup.switch_queue = drop_tail(queue);
    setup.stop = until_ms(ms);
    setup.check = false;
    let outcome = run(setup);
    let gbps = |bytes: Bytes| bytes.get() as f64 * 8.0 / (ms as f64 * 1e6);
    let mut rates: Vec<f64> = outcome.flows.iter().map(|f| gbps(f.delivered)).collect();
    rates.sort_by(f64::total_cmp);
    (rates, outcome)
}

/// The mean rate, the least, rank 5 and the median in Gb/s, and their row of the table.
fn permutation_row(
    name: &str,
    config: MptcpConfig,
    queue: u32,
    k: u32,
    ms: u64,
) -> ([f64; 4], Vec<String>) {
    let (rates, outcome) = permutation_rates(config, queue, k, ms);
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let timeouts: u32 = outcome.flows.iter().map(|f| f.timeouts).sum();
    let again: u32 = outcome.flows.iter().map(|f| f.retransmits).sum();
    println!(
        "{name}: mean {mean:.2}, least {:.2}, rank 5 {:.2}, median {:.2} Gb/s; \
         {timeouts} timeouts, {again} sent again",
        rates[0],
        rates[4],
        rates[rates.len() / 2]
    );
    let shown = [mean, rates[0], rates[4], rates[rates.len() / 2]];
    let cells = shown.map(|r| format!("{r:.2}"));
    (shown, [vec![name.to_owned()], cells.to_vec(), vec![timeouts.to_string()]].concat())
}

/// The queue is shared by many paths' worth of subflows, and the capacity is used: all but headers
/// of 40 B at least in 9064 B, and a start of ten round trips, of 0.1 ms each, in 20 ms.
#[test]
fn a_small_permutation_uses_the_network() {
    let ([mean, ..], _) = permutation_row("16 hosts, 20 ms", uncoupled(), 200, 4, 20);
    let most = 10.0 * (9064.0 - 40.0) / 9064.0;
    assert!((0.95 * most..=most).contains(&mean), "{mean}");
}

/// As NDP's program for its Figure 14 has it: slow start ends at 15 packets.
fn as_in_ndp() -> MptcpConfig {
    MptcpConfig { initial_ssthresh: Some(Bytes::new(15 * 9024)), ..at_once() }
}

/// MPTCP's curve of NDP's Figure 14.
#[test]
#[ignore = "study: cargo xtask figures"]
fn permutation_of_432() {
    let rto = Duration::from_millis(200);
    let slow = MptcpConfig { rto_min: rto, rto_initial: rto, ..as_in_ndp() };
    let lia = MptcpConfig { coupling: Coupling::Lia, ..as_in_ndp() };
    let measured = [
        ("as there, queues of 200 packets", as_in_ndp(), 200),
        ("as there, queues of 100 packets", as_in_ndp(), 100),
        ("as there, `rto_min` 200 ms", slow, 200),
        ("as there, LIA", lia, 200),
        ("as there, slow start without bound", at_once(), 200),
        ("uncoupled, otherwise default", uncoupled(), 200),
    ]
    .map(|(name, config, queue)| permutation_row(name, config, queue, 12, 200));
    let [mean, _, rank_5, median] = measured[0].0;
    let paper = |what: &str| published("ndp/fig14", &format!("mptcp-{what}"));
    let (of_mean, of_rank_5, of_median) = (paper("mean"), paper("rank-5"), paper("rank-216"));
    let known = ["the paper", &of_mean, "", &of_rank_5, &of_median, ""];
    let mut rows = vec![known.map(String::from).to_vec()];
    rows.extend(measured.map(|(_, row)| row));
    let head = ["", "mean", "least", "rank 5", "median", "timeouts"];
    print_figure("mptcp-figure-14", &markdown_table(&head, &rows));
    for (what, gbps) in [("mean", mean), ("rank-5", rank_5), ("rank-216", median)] {
        let accepted = claimed("ndp/fig14", &format!("mptcp-{what}"));
        assert_figure(&format!("ndp-fig-14-mptcp-{what}"), gbps, accepted);
    }
}

/// 450 KB from each of n hosts to one: first and last arrival, over what the line needs.
#[test]
#[ignore = "study: cargo xtask figures"]
fn incast_of_450_kb() {
    let rto_max = Duration::from_millis(20);
    let bound = Some(Bytes::new(15 * 9024));
    let ideal = |senders: u32| f64::from(senders) * 50.0 * 9064.0 * 8.0 / 1e7;
    let needed = [101, 201, 431].map(|senders| format!("{:.1}", ideal(senders)));
    let mut rows = vec![[vec!["what the line needs".to_owned()], needed.to_vec()].concat()];
    for (name, rto_ms, config) in [
        ("uncoupled, otherwise default (`rto_min` 10 ms)", 10, uncoupled()),
        ("slow start up to 15 packets", 10, MptcpConfig { initial_ssthresh: bound, ..uncoupled() }),
        ("connected at once", 10, at_once()),
        ("connected at once, slow start up to 15 packets", 10, as_in_ndp()),
        ("connected at once, `rto_max` 20 ms", 10, MptcpConfig { rto_max, ..at_once() }),
        ("connected at once, `rto_min` 200 ms", 200, at_once()),
    ] {
        let mut row = vec![name.to_owned()];
        let mut row_over = vec!["over what the line needs, seeds 1 to 5".to_owned()];
        let rto = Duration::from_millis(rto_ms);
        let config = MptcpConfig { rto_min: rto, rto_initial: rto, ..config };
        for senders in [101, 201, 431] {
            let ideal = ideal(senders);
            // One seed says little: it is luck who loses how often.
            let over: Vec<f64> = (1..=5)
                .map(|seed| {
                    let (ends, unheard) = incast(config.clone(), senders, seed);
                    let last = ends[ends.len() - 1];
                    if seed == 1 {
                        println!(
                            "{senders} senders, {name}: last {last:.1}, first {:.1}, median \
                             {:.1} ms; ideal {ideal:.1}; {unheard} lost more than one round of \
                             SYNs and nothing else",
                            ends[0],
                            ends[ends.len() / 2],
                        );
                        row.push(format!("{last:.1} ({:.1})", ends[0]));
                    }
                    (last / ideal - 1.0) * 100.0
                })
                .collect();
            println!("  over the ideal with seeds 1 to 5, in %: {over:.0?}");
            if name == "connected at once, slow start up to 15 packets" {
                let mean = over.iter().sum::<f64>() / over.len() as f64;
                let accepted = claimed("ndp/fig16", &format!("mptcp-last-{senders}"));
                let id = format!("ndp-fig-16-mptcp-over-{senders}");
                assert_figure(&id, 1.0 + mean / 100.0, accepted);
            }
            let least = over.iter().fold(f64::MAX, |a, b| a.min(*b));
            let most = over.iter().fold(0.0f64, |a, b| a.max(*b));
            row_over.push(format!("{least:.0} to {most:.0} %"));
        }
        rows.extend([row, row_over]);
    }
    print_figure("mptcp-figure-16", &markdown_table(&["", "101", "201", "431"], &rows));
}

/// When each of so many senders was done, in ms, sorted; and how many never got to send again what
/// they sent, as all their timeouts were those of SYNs.
fn incast(config: MptcpConfig, senders: u32, seed: u64) -> (Vec<f64>, usize) {
    let flows: Vec<FlowSpec> = (1..=senders).map(|s| flow(s, 0, 450_000)).collect();
    let mut setup = setup(fat_tree(12, 9064), vec![AnyTransport::Mptcp(config)], flows);
    setup.check = false;
    setup.seed = seed;
    let outcome = run(setup);
    let ms = |at: Instant| at.saturating_since(Instant::ZERO).as_secs_f64() * 1e3;
    let mut ends: Vec<f64> = outcome.flows.iter().map(|f| ms(f.ended.unwrap())).collect();
    ends.sort_by(f64::total_cmp);
    let unheard = outcome.flows.iter().filter(|f| f.timeouts > 8 && f.retransmits == 0).count();
    (ends, unheard)
}

/// Subflows that are repairing a loss or waiting after a timeout, of all, at each of so many ms;
/// and Gb/s on the links to hosts, on average, in the interval that ends there.
fn repairs(config: MptcpConfig, k: u32, every_ms: u64, ms: u64) -> Vec<(u64, f64, f64, f64)> {
    let network = fat_tree(k, 9064);
    let hosts = network.hosts;
    let subflows = config.subflows.min(k * k / 4);
    let ports = (0..hosts).map(|h| network.link(network.nic(HostId(h))).twin).collect();
    let mut setup = setup(network, vec![AnyTransport::Mptcp(config)], permutation(hosts, 1));
    setup.switch_queue = drop_tail(200);
    setup.stop = until_ms(ms);
    setup.check = false;
    setup.sampled_flows = (0..hosts as usize).map(FlowId::from).collect();
    setup.sampling = Some(Sampling { every: Duration::from_millis(every_ms), ports });
    let outcome = run(setup);
    let of_all = |name: &str, at: Instant| {
        let gauges = outcome.gauges.iter().filter(|g| g.name == name && g.at == at);
        gauges.map(|g| g.value).sum::<f64>() / f64::from(hosts * subflows)
    };
    let sent = |at: Instant| {
        let samples = outcome.samples.iter().filter(|s| s.at == at);
        samples.map(|s| s.sent_bytes).sum::<u64>() as f64
    };
    (1..=ms / every_ms)
        .map(|n| {
            let at = Instant::ZERO + Duration::from_millis(n * every_ms);
            let before = Instant::ZERO + Duration::from_millis((n - 1) * every_ms);
            let bits = (sent(at) - sent(before)) * 8.0;
            let gbps = bits / f64::from(hosts) / (every_ms as f64 * 1e6);
            (n * every_ms, of_all("recovering_subflows", at), of_all("stuck_subflows", at), gbps)
        })
        .collect()
}

/// Slow start without a bound overruns the queues, and NewReno repairs one hole a round trip: for
/// tens of milliseconds most subflows do little else.
#[test]
fn slow_start_without_bound_costs_a_long_repair() {
    let recovering = |config| {
        let all = repairs(config, 8, 5, 15);
        all.iter().map(|r| r.1).fold(0.0, f64::max)
    };
    let (unbounded, bounded) = (recovering(at_once()), recovering(as_in_ndp()));
    println!("recovering subflows at most: {unbounded:.2} unbounded, {bounded:.2} from 15 packets");
    assert!(unbounded > 0.3, "{unbounded}");
    assert!(bounded < 0.1, "{bounded}");
}

#[test]
#[ignore = "study: cargo xtask figures"]
fn repairs_of_a_permutation() {
    let cells = |config| {
        let cell = |(_, recovering, stuck, gbps): (u64, f64, f64, f64)| {
            [100.0 * recovering, 100.0 * stuck, gbps].map(|value| format!("{value:.1}")).to_vec()
        };
        repairs(config, 8, 5, 100).into_iter().map(cell)
    };
    let rows = cells(at_once()).zip(cells(as_in_ndp())).enumerate();
    let rows = rows.map(|(n, (unbounded, bounded))| {
        [vec![format!("{}", 5 * (n + 1))], unbounded, bounded].concat()
    });
    // Every 5 ms up to 20 ms, then every 10 ms.
    let rows: Vec<Vec<String>> = rows.filter(|row| row[0].parse().is_ok_and(is_shown)).collect();
    let head = [
        "ms",
        "unbounded: recovering (%)",
        "waiting (%)",
        "Gb/s",
        "to 15 packets: recovering (%)",
        "waiting (%)",
        "Gb/s",
    ];
    print_figure("mptcp-repairs", &markdown_table(&head, &rows));
}

fn is_shown(ms: u32) -> bool {
    ms <= 20 || ms.is_multiple_of(10)
}
