//! Figure 2 of NDP's paper: n unresponsive senders of 10 Gb/s into one port of 10 Gb/s. How much of
//! the fair goodput is left, with Cut Payload (CP) and with NDP's switch?

use crate::common::*;
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Duration, FlowSpec, Instant, Limit, QueueSpec};
use punctual_testkit::{assert_figure, claimed, print_figure};
use punctual_transports::AnyTransport;
use punctual_transports::udp::{UDP_IP_HEADER_BYTES, UdpConfig};

/// A full datagram.
const PACKET: u64 = 9064;
/// What NDP's switch leaves for whole packets in percent: ten headers go with each.
const NDP_LEVEL: f64 = 100.0 * 9064.0 / (9064.0 + 10.0 * 64.0);

/// Percent of the fair goodput: the mean of all flows, and of the worst tenth.
struct Goodput {
    mean: f64,
    worst_tenth: f64,
}

/// What `senders` get of the port when each fair share is `packets` packets. Senders start within
/// one packet time, in phases drawn at random, and never slow down.
fn goodput(queue: QueueSpec, senders: u32, packets: u64) -> Goodput {
    let period = GBPS10.transmission_time(Bytes::new(PACKET));
    let mut stream = Stream::named(1, "phases", u64::from(senders));
    let flows: Vec<FlowSpec> = (1..=senders)
        .map(|sender| {
            let phase = Duration::from_picos(stream.below(period.as_picos()));
            FlowSpec { start: Instant::ZERO + phase, ..flow(sender, 0, u64::MAX) }
        })
        .collect();
    let udp = UdpConfig { rate: GBPS10, trimmable: true, ..UdpConfig::default() };
    let mut setup = setup(star(senders + 1, PACKET), vec![AnyTransport::Udp(udp)], flows);
    setup.switch_queue = queue;
    let run_time = period * (packets * u64::from(senders));
    setup.stop.at = Instant::ZERO + run_time;
    setup.stop.when_done = false;
    setup.check = false;
    let outcome = run(setup);
    let payload = PACKET - u64::from(UDP_IP_HEADER_BYTES);
    let fair = (packets * payload) as f64;
    let mut shares: Vec<f64> =
        outcome.flows.iter().map(|f| f.delivered.get() as f64 / fair * 100.0).collect();
    shares.sort_by(f64::total_cmp);
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let tenth = (shares.len() / 10).max(1);
    Goodput { mean: mean(&shares), worst_tenth: mean(&shares[..tenth]) }
}

/// CP and NDP's switch, each with 144,000 bytes in all, of which 72,000 before they trim.
fn switches() -> [QueueSpec; 2] {
    let bytes = |n| Limit::Bytes(Bytes::new(n));
    let trim_to = Bytes::new(64);
    [
        QueueSpec::CutPayload { limit: bytes(144_000), trim_above: None, trim_to },
        QueueSpec::Trim { data: bytes(72_000), headers: bytes(72_000), mark_above: None },
    ]
}

/// Holds both switches to arithmetic. Returns a row of the table, and NDP's worst tenth over its
/// mean.
fn figure_2(senders: u32, packets: u64) -> (String, f64) {
    let [cp, ndp] = switches().map(|queue| goodput(queue, senders, packets));
    // With CP n − 1 headers go with each whole packet, until no room is left for any.
    let left = (100.0 * (1.0 - 64.0 * f64::from(senders - 1) / 9064.0)).max(0.0);
    assert!((cp.mean - left).abs() < 1.5, "CP {} against {left}", cp.mean);
    assert!((ndp.mean - NDP_LEVEL).abs() < 1.5, "NDP {} against {NDP_LEVEL}", ndp.mean);
    assert!(ndp.worst_tenth > cp.worst_tenth + 10.0, "phase effects starve CP's flows");
    let row = format!(
        "| {senders} | {:.1} | {:.1} | {:.1} | {:.1} |\n",
        cp.mean, cp.worst_tenth, ndp.mean, ndp.worst_tenth
    );
    (row, ndp.worst_tenth / ndp.mean)
}

#[test]
fn cut_payload_starves_flows_that_ndp_s_switch_does_not() {
    figure_2(10, 100);
    let (_, worst_over_mean) = figure_2(40, 100);
    let close = claimed("ndp/fig2", "ndp-close-40");
    assert_figure("ndp-fig-2-worst-tenth-of-40", worst_over_mean, close);
}

#[test]
#[ignore = "study: cargo xtask figures"]
fn figure_2_unresponsive_senders() {
    let rows: String = [10, 40, 100, 140, 188].map(|n| figure_2(n, 200).0).concat();
    print_figure(
        "ndp-figure-2",
        &format!(
            "| senders | CP, mean | CP, worst tenth | NDP, mean | NDP, worst tenth |\n\
             |--:|--:|--:|--:|--:|\n{rows}"
        ),
    );
}
