//! Latency of data packets: from the first transmission to the acknowledgement.

use crate::common::*;
use punctual_core::{Bytes, Duration, Instant, TransportId};
use punctual_sim::{Measure, Outcome, Setup};

/// Transports that acknowledge data packet by packet.
const ACKNOWLEDGED: [&str; 11] = [
    "tcp",
    "tcppr",
    "dctcp",
    "dctcp-lossless",
    "d2tcp",
    "mptcp",
    "d3",
    "rcpdc",
    "rcp",
    "pdq",
    "ndp",
];

/// Runs it with and without the meter, and returns the former after comparing.
fn measured(setup: Setup) -> Outcome {
    let plain = run(Setup { check: false, ..setup.clone() });
    let outcome = run(Setup { packet_latency: true, ..setup });
    assert!(plain.packet_latency.is_empty());
    assert_eq!((&plain.flows, &plain.totals), (&outcome.flows, &outcome.totals));
    assert_eq!(plain.ports, outcome.ports);
    outcome
}

#[test]
fn a_lone_ndp_packet_takes_its_way_and_that_of_its_ack() {
    let mut setup = setup(star(2, 9064), vec![ndp_9k(23)], vec![flow(0, 1, 9000)]);
    setup.stop = until_ms(1);
    let outcome = measured(setup);
    let [latency] = &outcome.packet_latency[..] else { panic!("one transport") };
    let tx = |bytes| GBPS10.transmission_time(Bytes::new(bytes));
    assert_eq!(latency.times.max(), Some((tx(9064) + US + tx(64) + US) * 2));
    assert_eq!((latency.times.len(), latency.unacked), (1, 0));
}

#[test]
fn every_packet_counts_once_whatever_is_sent_again() {
    for name in ACKNOWLEDGED.iter().chain(&["dcqcn"]) {
        let transports = vec![transport(name)];
        let flows = (1..9).map(|src| flow(src, 0, 150_000)).collect();
        let mut setup = setup(star(9, 1500), transports, flows);
        if !["dcqcn", "dctcp-lossless", "ndp"].contains(name) {
            setup.switch_queue = drop_tail(12);
        }
        setup.stop = until_ms(3000);
        let outcome = measured(setup);
        let latency = &outcome.packet_latency[0];
        // 103 packets of 1460 bytes; headers differ a little.
        let packets = latency.times.len();
        assert!((8 * 100..8 * 110).contains(&packets), "{name}: {packets}");
        assert_eq!(latency.unacked, 0, "{name}");
        let [p50, p99] = [500, 990].map(|p| latency.times.percentile(p).unwrap());
        let round_trip = GBPS10.transmission_time(Bytes::new(1500)) * 2 + US * 4;
        assert!(round_trip < p50 && p50 <= p99 && Some(p99) <= latency.times.max(), "{name}");
        if *name == "tcp" {
            let timeouts = outcome.flows.iter().any(|flow| flow.retransmits_by.timeout > 0);
            assert!(timeouts && latency.times.max() > Some(Duration::from_millis(1)));
        }
    }
}

#[test]
fn transports_without_acknowledgements_and_background_flows_have_none() {
    for name in ["phost", "udp"] {
        let outcome =
            measured(setup(star(3, 1500), vec![transport(name)], vec![flow(0, 1, 50_000)]));
        assert!(outcome.packet_latency[0].times.is_empty(), "{name}");
    }
    let mut background = flow(0, 1, 50_000);
    background.background = true;
    let mut other = flow(2, 1, 50_000);
    other.transport = TransportId(1);
    let transports = vec![transport("ndp"), transport("tcp")];
    let mut setup = setup(star(3, 1500), transports, vec![background, other]);
    setup.stop = until_ms(20);
    let outcome = measured(setup);
    let packets: Vec<u64> = outcome.packet_latency.iter().map(|one| one.times.len()).collect();
    assert_eq!(packets, [0, 35]);
}

#[test]
fn packets_count_in_the_window_in_which_they_are_first_sent() {
    let at = |us| Instant::ZERO + Duration::from_micros(us);
    let count = |from, until| {
        let mut setup = setup(star(3, 1500), vec![transport("ndp")], vec![flow(0, 1, 400_000)]);
        setup.measure = Measure { from: at(from), until };
        setup.stop = until_ms(2);
        let outcome = measured(setup);
        outcome.packet_latency[0].times.len() + outcome.packet_latency[0].unacked
    };
    let (first, rest, all) = (count(0, Some(at(100))), count(100, None), count(0, None));
    assert!(first > 0 && rest > 0);
    assert_eq!(first + rest, all);
}
