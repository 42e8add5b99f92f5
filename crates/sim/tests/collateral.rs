//! What an incast does to others, as in NDP's Figure 19.

mod common;

use common::*;
use punctual_core::{Duration, FlowSpec, HostId, Instant};
use punctual_sim::{Outcome, Sampling};
use punctual_transports::AnyTransport;

/// A long flow to host 1 and, from `at_ms` on, `senders` of 450 KB to host 0 beside it. Gb/s on
/// the link to host 1, each millisecond; and when the last of the incast was done, in ms.
fn long_flow(
    k: u32,
    transport: AnyTransport,
    senders: u32,
    at_ms: u64,
    ms: u64,
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
        let (rates, last, outcome) = long_flow(4, transport, 12, 5, 15);
        assert!(last < 15.0, "the incast is over: {last}");
        assert_eq!(outcome.totals.losses, 0);
        rates[3..10].iter().fold(f64::MAX, |a, b| a.min(*b))
    };
    let (lossless, ndp) = (least(transport("dctcp-lossless")), least(ndp_9k(30)));
    println!("least Gb/s in a millisecond: lossless {lossless:.2}, NDP {ndp:.2}");
    assert!(lossless < 3.0, "{lossless}");
    assert!(ndp > 6.5, "{ndp}");
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
    ] {
        let (rates, last, _) = long_flow(12, transport, 64, 20, 250);
        // The samples are at 1 ms, 2 ms …: the first rate is that of the second millisecond.
        let during = &rates[19..43];
        let mean = during.iter().sum::<f64>() / during.len() as f64;
        let least = rates[19..].iter().fold(f64::MAX, |a, b| a.min(*b));
        let back = rates.iter().rposition(|r| *r < 9.0).map_or(0, |n| n + 2);
        println!(
            "{name}: long flow {:.2} Gb/s before, {mean:.2} in the 24 ms from 20 ms, least \
             {least:.2}, below 9 for the last time at {back} ms; incast done at {last:.1} ms",
            rates[17]
        );
    }
}
