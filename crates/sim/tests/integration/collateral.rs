//! What an incast does to others, as in NDP's Figure 19.

use crate::common::*;
use punctual_core::{Bytes, Duration, FlowId, FlowSpec, HostId, Instant, Limit, QueueSpec};
use punctual_sim::{Outcome, Sampling};
use punctual_testkit::{assert_figure, claimed, markdown_table, print_figure};
use punctual_transports::AnyTransport;
use punctual_transports::tcp::{DctcpConfig, DctcpLosslessConfig};
use std::ops::Range;

/// A long flow to host 1 and beside it, from `at_ms` on, 450 KB from each of some hosts to host 0.
struct Beside {
    transport: AnyTransport,
    /// The transport's default unless set.
    queue: Option<QueueSpec>,
    k: u32,
    from: u32,
    incast_from: Range<u32>,
    at_ms: u64,
    until_ms: u64,
    seed: u64,
}

/// What became of it.
struct Seen {
    /// Gb/s on the link to host 1, each millisecond.
    rates: Vec<f64>,
    /// When the last of the incast was done, in ms.
    last: f64,
    outcome: Outcome,
}

impl Beside {
    fn run(self) -> Seen {
        let network = fat_tree(self.k, 9064);
        let to_long = network.link(network.nic(HostId(1))).twin;
        let start = Instant::ZERO + Duration::from_millis(self.at_ms);
        let incast = self.incast_from.map(|from| FlowSpec { start, ..flow(from, 0, 450_000) });
        let flows = std::iter::once(flow(self.from, 1, u64::MAX)).chain(incast).collect();
        let mut setup = setup(network, vec![self.transport], flows);
        setup.switch_queue = self.queue.unwrap_or(setup.switch_queue);
        setup.stop = until_ms(self.until_ms);
        setup.check = false;
        setup.seed = self.seed;
        setup.sampled_flows = vec![FlowId(0)];
        setup.sampling = Some(Sampling { every: Duration::from_millis(1), ports: vec![to_long] });
        let outcome = run(setup);
        let sent: Vec<u64> = outcome.samples.iter().map(|s| s.sent_bytes).collect();
        let rates = sent.windows(2).map(|w| (w[1] - w[0]) as f64 * 8.0 / 1e6).collect();
        let ends = outcome.flows[1..].iter().filter_map(|f| f.ended);
        let last = ends.max().map_or(f64::NAN, |at| at.as_secs_f64() * 1e3);
        Seen { rates, last, outcome }
    }
}

/// Beside a small incast the lossless long flow nearly stops, and NDP's dips for a millisecond.
#[test]
fn lossless_switches_make_the_innocent_wait() {
    let least = |transport: AnyTransport| {
        let beside = Beside {
            transport,
            queue: None,
            k: 4,
            from: 15,
            incast_from: 2..14,
            at_ms: 5,
            until_ms: 15,
            seed: 1,
        };
        let Seen { rates, last, outcome } = beside.run();
        assert!(last < 15.0, "the incast is over: {last}");
        assert_eq!(outcome.totals.losses, 0);
        rates[3..10].iter().fold(f64::MAX, |a, b| a.min(*b))
    };
    let (lossless, ndp) = (least(transport("dctcp-lossless")), least(ndp_9k(30)));
    println!("least Gb/s in a millisecond: lossless {lossless:.2}, NDP {ndp:.2}");
    assert!(lossless < 3.0, "{lossless}");
    assert!(ndp > 6.5, "{ndp}");
}

/// When the incast starts in NDP's Figure 19, in ms. Rates are of the second millisecond and on:
/// samples are at 1 ms, 2 ms …
const AT_MS: usize = 80;

/// NDP's Figure 19: 64 senders of 450 KB on 432 hosts.
fn figure_19(transport: AnyTransport, until_ms: u64, seed: u64) -> Beside {
    let at_ms = AT_MS as u64;
    Beside { transport, queue: None, k: 12, from: 431, incast_from: 2..66, at_ms, until_ms, seed }
}

/// Hosts where what the window allows waits at the NIC, up to 1,000 packets: what NDP's program
/// names as the limit of that queue, but does not hold it to.
fn deep_nic() -> DctcpConfig {
    let window_max = Some(Bytes::new(1000 * 9024));
    DctcpConfig { small_queues: false, window_max, ..DctcpConfig::default() }
}

/// The same, over lossless Ethernet.
fn deep_nic_lossless() -> DctcpLosslessConfig {
    let window_max = Some(Bytes::new(1000 * 9024));
    DctcpLosslessConfig { small_queues: false, window_max, ..DctcpLosslessConfig::default() }
}

/// Gb/s of the long flow's data that arrived without a gap, each millisecond.
fn in_order(outcome: &Outcome) -> Vec<f64> {
    let acked = outcome.gauges.iter().filter(|g| g.name == "acked_bytes");
    let acked: Vec<f64> = acked.map(|g| g.value).collect();
    acked.windows(2).map(|w| (w[1] - w[0]) * 8.0 / 1e6).collect()
}

/// NDP's Figure 19, DCTCP: its long flow takes tens of ms to recover, and what had arrived is then
/// released at once, above 10 Gb/s. That needs a host whose NIC has a deep queue: for the 7 ms
/// that it holds marks go unheard, and each hole takes as long to repair. Otherwise marks are
/// heard in time, and the long flow loses nothing.
#[test]
fn dctcp_takes_tens_of_ms_to_recover_from_behind_a_deep_nic() {
    let recovery = |config: DctcpConfig, seed| {
        let transport = AnyTransport::Dctcp(config);
        let outcome = figure_19(transport, 200, seed).run().outcome;
        let rates = in_order(&outcome);
        let slow = rates[AT_MS - 1..].iter().filter(|r| **r < 5.0).count();
        let back = rates.iter().rposition(|r| *r < 9.0).map_or(0, |n| n + 2);
        let most = rates.iter().fold(0.0f64, |a, b| a.max(*b));
        (slow, back.saturating_sub(AT_MS), most, outcome.flows[0].retransmits)
    };
    for (name, config, deep) in
        [("default", DctcpConfig::default(), false), ("deep NIC", deep_nic(), true)]
    {
        let mut backs = Vec::new();
        for seed in 1..=5 {
            let (slow, back, most, again) = recovery(config.clone(), seed);
            backs.push(back);
            println!(
                "{name}, seed {seed}: {slow} ms below 5 Gb/s in order, back after {back} ms, \
                 {most:.1} Gb/s at most, {again} sent again"
            );
            if deep {
                // More than the line carries in a millisecond had waited for a hole to be filled.
                assert!(most > 10.1 && again > 30, "{back}, {most}, {again}");
            } else {
                assert!(back < 15 && most < 10.1 && again == 0, "{back}, {most}, {again}");
            }
        }
        backs.sort_unstable();
        assert_eq!((20..60).contains(&backs[2]), deep, "the median is tens of ms: {backs:?}");
    }
}

/// NDP's program: a queue at the NIC without bound, its law and timers; the switches' queues too.
fn as_in_ndp(packets: u32) -> Beside {
    let transport = AnyTransport::Dctcp(DctcpConfig {
        small_queues: false,
        initial_alpha: 0.0,
        cut_every_window: true,
        window_min: 1,
        rto_min: Duration::from_millis(1),
        rto_tick: Some(Duration::from_millis(10)),
        ..DctcpConfig::default()
    });
    let mark_above = Limit::Packets(15);
    let queue = Some(QueueSpec::Ecn { limit: Limit::Packets(packets), mark_above });
    Beside { queue, from: 7, incast_from: 367..431, ..figure_19(transport, 220, 1) }
}

/// Where NDP's Figure 19 has its 85 ms from. Alone in the network, where nothing marks, the long
/// flow adds a packet to its window with each acknowledgement: 11,000 at 80 ms, all but a few of
/// them in the queue of its own NIC. What is lost then is sent again behind them and arrives 80 ms
/// later. Until it does, what comes is not in order, of which NDP's program counts 1,000 B a packet
/// of 9,000: 1.1 Gb/s are plotted of a line that is in use throughout.
#[test]
fn a_nic_without_bound_takes_as_long_to_repair_as_the_flow_had_been_alone() {
    for packets in [100, 194] {
        for seed in 1..=3 {
            let Seen { rates, outcome, .. } = Beside { seed, ..as_in_ndp(packets) }.run();
            let window = outcome.gauges.iter().filter(|g| g.name == "cwnd_bytes");
            let window: Vec<f64> = window.map(|g| g.value / 9024.0).collect();
            let plotted = in_order(&outcome);
            let plotted =
                plotted.iter().zip(&rates).map(|(order, all)| order + (all - order) / 9.0);
            let plotted: Vec<f64> = plotted.collect();
            let low = |n: &usize| plotted[*n] < 2.0;
            let low: Vec<usize> = (AT_MS - 1..plotted.len()).filter(low).collect();
            let level = low.iter().map(|n| plotted[*n]).sum::<f64>() / low.len() as f64;
            let most = plotted.iter().fold(0.0f64, |a, b| a.max(*b));
            let after = &rates[AT_MS - 1..AT_MS + 119];
            let on_line = after.iter().sum::<f64>() / after.len() as f64;
            println!(
                "queues of {packets}, seed {seed}: window {:.0} packets at {AT_MS} ms; plotted \
                 {level:.2} Gb/s for {} ms from {} ms on, then {most:.0}; on the line {on_line:.2} \
                 in these 120 ms; {} sent again",
                window[AT_MS - 1],
                low.len(),
                low[0] + 2,
                outcome.flows[0].retransmits,
            );
            assert!((10_900.0..11_100.0).contains(&window[AT_MS - 1]), "{}", window[AT_MS - 1]);
            assert!((80..100).contains(&low.len()) && (0.9..1.2).contains(&level), "{level}");
            assert!(most > 100.0 && on_line > 9.0, "{most}, {on_line}");
        }
    }
}

/// NDP's Figure 19: 64 senders of 450 KB.
#[test]
fn beside_64_to_1() {
    let mut rows = Vec::new();
    for (name, transport) in [
        ("ndp", ndp_9k(30)),
        ("dctcp-lossless", transport("dctcp-lossless")),
        ("dcqcn", transport("dcqcn")),
        ("dctcp", transport("dctcp")),
        ("dctcp, deep NICs", AnyTransport::Dctcp(deep_nic())),
        ("dctcp-lossless, deep NICs", AnyTransport::DctcpLossless(deep_nic_lossless())),
        (
            "dctcp, NICs without bound",
            AnyTransport::Dctcp(DctcpConfig { window_max: None, ..deep_nic() }),
        ),
        (
            "dctcp-lossless, NICs without bound",
            AnyTransport::DctcpLossless(DctcpLosslessConfig {
                window_max: None,
                ..deep_nic_lossless()
            }),
        ),
    ] {
        let Seen { rates, last, .. } = figure_19(transport, 300, 1).run();
        let during = &rates[AT_MS - 1..AT_MS + 23];
        let mean = during.iter().sum::<f64>() / during.len() as f64;
        let least = rates[AT_MS - 1..].iter().fold(f64::MAX, |a, b| a.min(*b));
        let back = rates.iter().rposition(|r| *r < 9.0).map_or(0, |n| n + 2);
        match name {
            "ndp" => {
                let accepted = claimed("ndp/fig19", "ndp-dip");
                assert_figure("ndp-fig-19-dip-window-30", least, accepted);
            }
            "dctcp-lossless" => {
                let accepted = claimed("ndp/fig19", "lossless-long");
                assert_figure("ndp-fig-19-dctcp-lossless", mean, accepted);
            }
            _ => {}
        }
        let mut row = vec![name.to_owned()];
        row.extend([rates[AT_MS - 3], mean, least].map(|rate| format!("{rate:.2}")));
        row.extend([back.to_string(), format!("{last:.1}")]);
        rows.push(row);
    }
    let head = [
        "",
        "long flow before (Gb/s)",
        "in the 24 ms of the incast",
        "least in 1 ms",
        "last below 9 Gb/s at (ms)",
        "incast done at (ms)",
    ];
    print_figure("ndp-figure-19", &markdown_table(&head, &rows));
}
