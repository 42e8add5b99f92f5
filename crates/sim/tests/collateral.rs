//! What an incast does to others, as in NDP's Figure 19.

mod common;

use common::*;
use punctual_core::{Bytes, Duration, FlowId, FlowSpec, HostId, Instant};
use punctual_sim::{Outcome, Sampling};
use punctual_transports::AnyTransport;
use punctual_transports::tcp::{Dctcp, DctcpLossless};

/// A long flow to host 1 and, from `at_ms` on, `senders` of 450 KB to host 0 beside it. Gb/s on
/// the link to host 1, each millisecond; and when the last of the incast was done, in ms.
fn long_flow(
    k: u32,
    transport: AnyTransport,
    senders: u32,
    at_ms: u64,
    ms: u64,
    seed: u64,
) -> (Vec<f64>, f64, Outcome) {
    let network = fat_tree(k, 9064);
    let hosts = network.hosts;
    let to_long = network.link(network.nic(HostId(1))).twin;
    let at = Instant::ZERO + Duration::from_millis(at_ms);
    let incast = (0..senders).map(|n| FlowSpec { start: at, ..flow(2 + n, 0, 450_000) });
    let flows = std::iter::once(flow(hosts - 1, 1, u64::MAX)).chain(incast).collect();
    let mut setup = setup(network, vec![transport], flows);
    setup.stop = until_ms(ms);
    setup.check = false;
    setup.seed = seed;
    setup.sampled_flows = vec![FlowId(0)];
    setup.sampling = Some(Sampling { every: Duration::from_millis(1), ports: vec![to_long] });
    let outcome = run(setup);
    let sent: Vec<u64> = outcome.samples.iter().map(|s| s.sent_bytes).collect();
    let rates = sent.windows(2).map(|w| (w[1] - w[0]) as f64 * 8.0 / 1e6).collect();
    let ends = outcome.flows[1..].iter().filter_map(|f| f.ended);
    let last = ends.max().map_or(f64::NAN, |at| at.as_secs_f64() * 1e3);
    (rates, last, outcome)
}

/// Beside a small incast the lossless long flow nearly stops, and NDP's dips for a millisecond.
#[test]
fn lossless_switches_make_the_innocent_wait() {
    let least = |transport: AnyTransport| {
        let (rates, last, outcome) = long_flow(4, transport, 12, 5, 15, 1);
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

/// Hosts as in NDP's simulator: what the window allows waits at the NIC, 1,000 packets of it.
fn deep_nic() -> Dctcp {
    let window_max = Some(Bytes::new(1000 * 9024));
    Dctcp { small_queues: false, window_max, ..Dctcp::default() }
}

/// The same, over lossless Ethernet.
fn deep_nic_lossless() -> DctcpLossless {
    let window_max = Some(Bytes::new(1000 * 9024));
    DctcpLossless { small_queues: false, window_max, ..DctcpLossless::default() }
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
    let recovery = |config: Dctcp, seed| {
        let transport = AnyTransport::Dctcp(config);
        let (_, _, outcome) = long_flow(12, transport, 64, AT_MS as u64, 200, seed);
        let rates = in_order(&outcome);
        let slow = rates[AT_MS - 1..].iter().filter(|r| **r < 5.0).count();
        let back = rates.iter().rposition(|r| *r < 9.0).map_or(0, |n| n + 2);
        let most = rates.iter().fold(0.0f64, |a, b| a.max(*b));
        (slow, back.saturating_sub(AT_MS), most, outcome.flows[0].retransmits)
    };
    for (name, config, deep) in
        [("default", Dctcp::default(), false), ("deep NIC", deep_nic(), true)]
    {
        for seed in 1..=5 {
            let (slow, back, most, again) = recovery(config.clone(), seed);
            println!(
                "{name}, seed {seed}: {slow} ms below 5 Gb/s in order, back after {back} ms, \
                 {most:.1} Gb/s at most, {again} sent again"
            );
            if deep {
                assert!((18..60).contains(&back) && most > 20.0 && again > 30, "{back}, {most}");
            } else {
                assert!(back < 15 && most < 10.1 && again == 0, "{back}, {most}, {again}");
            }
        }
    }
}

/// NDP's Figure 19: 64 senders of 450 KB.
#[test]
#[ignore = "a table for the docs"]
fn beside_64_to_1() {
    for (name, transport) in [
        ("ndp", ndp_9k(30)),
        ("dctcp-lossless", transport("dctcp-lossless")),
        ("dcqcn", transport("dcqcn")),
        ("dctcp", transport("dctcp")),
        ("dctcp, deep NICs", AnyTransport::Dctcp(deep_nic())),
        ("dctcp-lossless, deep NICs", AnyTransport::DctcpLossless(deep_nic_lossless())),
    ] {
        let (rates, last, _) = long_flow(12, transport, 64, AT_MS as u64, 300, 1);
        let during = &rates[AT_MS - 1..AT_MS + 23];
        let mean = during.iter().sum::<f64>() / during.len() as f64;
        let least = rates[AT_MS - 1..].iter().fold(f64::MAX, |a, b| a.min(*b));
        let back = rates.iter().rposition(|r| *r < 9.0).map_or(0, |n| n + 2);
        println!(
            "{name}: long flow {:.2} Gb/s before, {mean:.2} in the 24 ms from {AT_MS} ms, least \
             {least:.2}, below 9 for the last time at {back} ms; incast done at {last:.1} ms",
            rates[AT_MS - 3]
        );
    }
}
