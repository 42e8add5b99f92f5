//! PDQ's rules at their bounds, and for flows that have not measured an RTT.

use super::super::{NOBODY, PdqConfig, PdqHeader};
use super::bench::*;
use super::*;
use punctual_core::Controller;

#[test]
fn pdq_r10_three_sending_flows_make_room_for_six() {
    let mut bench = Bench::new(PdqConfig { list_min: 2, list_max: 20, ..brisk() });
    for (flow, rate) in [(0, LINE / 4), (1, LINE / 4), (2, LINE / 2)] {
        bench.exchange(flow, PdqHeader { rate, ..probe(10.0) });
    }
    for flow in 3..10 {
        bench.exchange(flow, probe(100.0 + f64::from(flow)));
    }
    assert_eq!(bench.port.list().sending(), 3);
    assert_eq!(bench.ids(), [0, 1, 2, 3, 4, 5]);
}

/// K is 2 round trips: a flow with just as many left is not nearly done, and those overlooked
/// together do not reach K without the next one counting.
#[test]
fn pdq_r13_flows_of_k_round_trips_are_not_overlooked() {
    let mut bench = Bench::new(brisk());
    bench.exchange(1, probe(10.0));
    bench.exchange(1, data(2.0));
    assert_eq!(bench.exchange(2, probe(20.0)).pauser, ME);

    let mut bench = Bench::new(brisk());
    for flow in 1..=3 {
        bench.exchange(flow, PdqHeader { rate: LINE / 4, ..probe(10.0) });
    }
    for flow in 1..=3 {
        bench.exchange(flow, PdqHeader { rate: LINE / 4, ..data(1.0) });
    }
    assert_eq!(bench.exchange(4, probe(20.0)).rate, LINE / 4 * 3, "two of three are overlooked");
}

/// The port has the mean RTT of 150 µs for a flow that knows none.
#[test]
fn pdq_r13_a_flow_without_rtt_overlooks_by_the_mean() {
    let mut bench = Bench::new(brisk());
    bench.exchange(1, probe(10.0));
    bench.exchange(1, data(1.9));
    assert_eq!(bench.exchange(2, PdqHeader { rtt: 0, ..probe(20.0) }).rate, LINE);
}

/// What a short flow that waits needs is a share of the asker's RTT, or else of the mean.
#[test]
fn pdq_r12_what_waits_counts_by_the_rtt_of_the_asker() {
    for (rtt, left) in [(RTT, LINE / 2), (2 * RTT, LINE / 4 * 3), (0, LINE / 2)] {
        let mut bench = Bench::new(brisk());
        bench.send(1, due(0.5, 1)); // accepted, its answer out
        let second = bench.send(2, PdqHeader { rtt, ..probe(20.0) });
        assert!(second.rate.abs_diff(left) <= 1, "an RTT of {rtt} ns: {}", second.rate);
    }
}

#[test]
fn pdq_r14_short_is_less_than_an_rtt_of_its_own_or_the_mean() {
    let next = |header: PdqHeader| {
        let mut bench = Bench::new(PdqConfig::default());
        bench.exchange(1, probe(10.0));
        bench.wait_us(1);
        bench.send(2, header).pauser
    };
    assert_eq!(next(probe(1.0)), ME, "as long as an RTT");
    assert_eq!(next(PdqHeader { rtt: 2 * RTT, ..probe(1.5) }), NOBODY);
    assert_eq!(next(PdqHeader { rtt: RTT / 2, ..probe(0.75) }), ME);
    assert_eq!(next(PdqHeader { rtt: 0, ..probe(0.99) }), NOBODY);
    assert_eq!(next(PdqHeader { rtt: 0, ..probe(1.0) }), ME);
}

/// A flow for which nothing is left waits for that and not because of dampening.
#[test]
fn pdq_r14_a_flow_without_a_rate_is_not_dampened() {
    let mut bench = Bench::new(PdqConfig::default());
    bench.exchange(1, probe(10.0));
    bench.wait_us(10);
    assert_eq!(bench.exchange(2, probe(20.0)).pauser, ME, "flow 1 has the line");
    let dampened = bench.port.list().entries().iter().map(|entry| entry.dampened);
    assert_eq!(dampened.collect::<Vec<_>>(), [false, false]);
}

/// RCP's share is what a flow beyond the list would get, also if another port pauses it.
#[test]
fn pdq_r09_a_flow_paused_elsewhere_hears_the_share_beyond_the_list() {
    let mut bench = Bench::new(PdqConfig { list_min: 1, list_max: 1, ..brisk() });
    let slow = PdqHeader { rate: LINE / 4, ..probe(10.0) };
    for _ in 0..3 {
        bench.exchange(1, slow);
        bench.exchange(2, probe(20.0));
        bench.sent_bytes += 120;
        bench.update();
    }
    let share = (bench.port.share_beyond().as_bps() / 1000) as u32;
    assert!(0 < share && share < LINE / 4 * 3, "{share}");
    let elsewhere = PdqHeader { pauser: OTHER, ..probe(20.0) };
    assert_eq!(bench.send(9, elsewhere).rate, share);
    // Not beyond the list: it would take the place of the flow there.
    let critical = PdqHeader { pauser: OTHER, ..probe(5.0) };
    assert_eq!(bench.send(9, critical).rate, LINE);
}

/// The 21st flow probes every X · 20 = 4 RTTs, and is forgotten after four times that.
#[test]
fn pdq_r17_patience_grows_with_the_place_in_the_list() {
    let listed = |round_trips: u64| {
        let mut bench = Bench::new(PdqConfig { list_min: 32, ..brisk() });
        bench.exchange(0, probe(10.0));
        for flow in 1..=20u32 {
            bench.exchange(flow, probe(20.0 + f64::from(flow)));
        }
        // All others are heard of in every RTT.
        for round_trip in 1..=round_trips {
            bench.now = at_us(150 * round_trip);
            for flow in 0..20u32 {
                bench.exchange(flow, probe(if flow == 0 { 10.0 } else { 20.0 + f64::from(flow) }));
            }
            if bench.port.next_timeout().is_some_and(|at| at <= bench.now) {
                bench.update();
            }
        }
        bench.ids().contains(&20)
    };
    assert!(listed(16), "not longer than 16 RTTs");
    assert!(!listed(18));
}

/// Others' mean rate moves a quarter of the way to what an interval measures.
#[test]
fn pdq_r20_a_quarter_of_each_interval_counts() {
    let mut bench = Bench::new(brisk());
    bench.exchange(1, probe(1000.0));
    bench.sent_bytes = 60;
    // 15,000 bytes in 300 µs are 400 Mb/s: means of 100 and 175.
    for capacity in [900_000, 825_000] {
        bench.exchange(1, data(900.0));
        bench.sent_bytes += 1500 + 15_000;
        bench.update();
        let kbps = bench.port.capacity().as_bps() / 1000;
        assert!(kbps.abs_diff(capacity) <= 1, "{kbps}");
    }
}

/// A mean below a thousandth of the line is none.
#[test]
fn pdq_r20_hardly_any_traffic_of_others_takes_nothing() {
    let mut bench = Bench::new(brisk());
    bench.exchange(1, probe(1000.0));
    bench.sent_bytes = 60 + 100; // 2.7 Mb/s, of which a quarter counts
    bench.update();
    assert_eq!(bench.port.capacity(), GBPS);
}

/// `R ← R + (T/d) · (α(C' − y) − β·q/d) / n`, with T/d = 2.
fn next_share(config: &PdqConfig, share: f64, left: f64, queue_bits: f64, flows: f64) -> f64 {
    let used = 240.0 * 8.0 / 300e-6; // four probes of 60 bytes
    let queue = config.rcp_beta * queue_bits / 150e-6;
    share + 2.0 * (config.rcp_alpha * (left - used) - queue) / flows
}

#[test]
fn pdq_r21_the_share_follows_rcps_law_with_its_queue() {
    let config = PdqConfig { list_min: 1, list_max: 1, ..brisk() };
    let mut bench = Bench::new(config.clone());
    // Four flows set four bits of the sketch: linear counting.
    let flows = 4096.0 * (4096.0f64 / 4092.0).ln();
    let mut share = 0.0;
    for queue_bytes in [0, 300] {
        bench.exchange(1, PdqHeader { rate: LINE / 5, ..probe(10.0) });
        (2..=5).for_each(|flow| _ = bench.exchange(flow, probe(20.0)));
        // The five probes were sent, or still wait.
        (bench.sent_bytes, bench.queue_bytes) = (bench.sent_bytes + 300 - queue_bytes, queue_bytes);
        bench.update();
        share = next_share(&config, share, 0.8e9, queue_bytes as f64 * 8.0, flows);
        let found = bench.port.share_beyond().as_bps() as f64;
        assert!((found - share).abs() <= 1e3, "{found}, the law has {share}");
    }
}

/// Each probe in an interval of 2 RTTs stands for a flow if flows probe every 2 RTTs, as they do
/// behind a list of ten.
#[test]
fn pdq_r21_paused_flows_count_by_the_length_of_the_list() {
    let config = PdqConfig { list_min: 10, list_max: 10, ..brisk() };
    let mut bench = Bench::new(config.clone());
    for flow in 0..10 {
        bench.exchange(flow, PdqHeader { rate: LINE / 100, ..probe(10.0) });
    }
    for flow in 10..14 {
        bench.exchange(flow, PdqHeader { pauser: ME, ..probe(20.0) });
    }
    bench.sent_bytes = 14 * 60;
    bench.update();
    let share = next_share(&config, 0.0, 0.9e9, 0.0, 4.0);
    let found = bench.port.share_beyond().as_bps() as f64;
    assert!((found - share).abs() <= 1e3, "{found}, the law has {share}");
}
