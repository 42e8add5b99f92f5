//! Ports driven by hand.

use super::super::header::expected_field;
use super::super::port::VISITED;
use super::super::{
    Availability, FlowEntry, FlowKey, FlowList, FlowRank, NO_DEADLINE, NOBODY, PdqConfig,
    PdqHeader, PdqVariant,
};
use super::bench::*;
use super::*;
use proptest::prelude::*;
use punctual_core::Controller;

#[test]
fn pdq_r08_deadline_then_time_then_id() {
    let rank = |deadline, expected, flow| {
        FlowRank::of(
            &PdqHeader { deadline, expected, ..PdqHeader::default() },
            FlowKey::new(flow, 0),
            Instant::ZERO,
        )
    };
    let order = [
        rank(10, 500, 9),
        rank(20, 100, 8),
        rank(20, 100, 9),
        rank(20, 200, 1),
        rank(NO_DEADLINE, 1, 0),
        rank(NO_DEADLINE, 2, 0),
    ];
    for (i, a) in order.iter().enumerate() {
        for (j, b) in order.iter().enumerate() {
            assert_eq!(a.precedes(b), i < j, "{a:?} {b:?}");
        }
    }
    assert!(order[0].has_deadline() && !order[5].has_deadline());
}

/// D has 32 bits in units of 10 µs, which are 11.9 hours. A port that runs for longer orders flows by
/// the deadline nearest to its clock.
#[test]
fn pdq_r08_the_order_holds_however_long_a_port_runs() {
    const UNITS_PER_SECOND: u64 = 100_000;
    const WRAP: u64 = 1 << 32;
    let wraps = [WRAP / UNITS_PER_SECOND, 174 * WRAP / UNITS_PER_SECOND];
    let hours = [0, 10, 12, 24, 100 * 24].map(|hours| hours * 3_600);
    for started in hours.into_iter().chain(wraps) {
        let mut bench = Bench::new(brisk());
        bench.now = seconds(started);
        let base = started * UNITS_PER_SECOND;
        // Around the end of the range, the last flow with a deadline is behind it and others are not.
        let field = |units: i64| base.wrapping_add_signed(units) as u32;
        bench.exchange(1, probe(1.0));
        for (flow, ahead) in [(2, 400_000_000), (3, 300_000), (4, 2_000), (5, 1_000)] {
            bench.exchange(flow, due(10.0, field(ahead)));
        }
        assert_eq!(bench.ids(), [5, 4, 3, 2, 1], "{started} s");
        if started > 0 {
            // 10 s and an hour late.
            bench.exchange(6, due(10.0, field(-1_000_000)));
            bench.exchange(7, due(10.0, field(-360_000_000)));
            assert_eq!(bench.ids(), [7, 6, 5, 4, 3, 2, 1], "{started} s");
        }
        // The flows go on for an hour, and so does the clock.
        bench.now += Duration::from_secs(3_600);
        bench.exchange(3, due(10.0, field(300_000)));
        bench.exchange(8, due(10.0, field(200_000)));
        let order: Vec<u32> = bench.ids().into_iter().filter(|id| [2, 3, 8].contains(id)).collect();
        assert_eq!(order, [8, 3, 2], "{started} s");
    }
}

#[test]
fn pdq_r09_a_flow_paused_elsewhere_is_forgotten_and_left_alone() {
    let mut bench = Bench::new(brisk());
    bench.exchange(1, probe(10.0));
    assert_eq!(bench.ids(), [1]);
    let header = PdqHeader { pauser: OTHER, ..probe(10.0) };
    assert_eq!(bench.send(1, header), header, "untouched");
    assert!(bench.ids().is_empty());
    // The same for answers, whose rate becomes 0.
    bench.exchange(1, probe(10.0));
    let answer = bench.answer(1, header);
    assert_eq!((answer.rate, answer.pauser), (0, OTHER));
    assert!(bench.ids().is_empty());
}

#[test]
fn pdq_r09_a_flow_paused_elsewhere_hears_what_there_would_be() {
    for availability in [Availability::Corrected, Availability::Printed] {
        let mut bench = Bench::new(PdqConfig { availability, list_min: 2, list_max: 2, ..brisk() });
        bench.exchange(1, PdqHeader { rate: LINE / 4 * 3, ..probe(10.0) });
        let corrected = availability == Availability::Corrected;
        let told = |rate| if corrected { rate } else { LINE };
        let elsewhere = |round_trips| PdqHeader { pauser: OTHER, ..probe(round_trips) };
        for (round_trips, rate) in [(5.0, LINE), (20.0, LINE / 4)] {
            let header = bench.send(9, elsewhere(round_trips));
            assert_eq!((header.pauser, header.rate), (OTHER, told(rate)), "{round_trips}");
            assert_eq!(bench.ids(), [1], "it is not listed for that");
        }
        // What it asked for before it came here may be less, and is not raised.
        let modest = PdqHeader { rate: 7, ..elsewhere(5.0) };
        assert_eq!(bench.send(9, modest), modest);
        // Beyond a full list it would get RCP's share, of which there is none yet.
        bench.exchange(2, probe(11.0));
        assert_eq!(bench.send(9, elsewhere(20.0)).rate, told(0));
        assert_eq!(bench.port.share_beyond(), Rate::ZERO);
    }
}

#[test]
fn pdq_r30_a_port_says_that_it_still_pauses() {
    let mut bench = Bench::new(PdqConfig { list_min: 2, list_max: 2, ..brisk() });
    let is_held = |header: PdqHeader| (header.pauser, header.has(PdqHeader::HELD));
    assert_eq!(is_held(bench.exchange(1, probe(10.0))), (NOBODY, false));
    assert_eq!(is_held(bench.exchange(2, probe(20.0))), (ME, true), "in the list");
    let asked = PdqHeader { pauser: ME, ..probe(30.0) };
    assert_eq!(is_held(bench.exchange(3, asked)), (ME, true), "beyond the list");
    let elsewhere = PdqHeader { pauser: OTHER, ..probe(20.0) };
    assert_eq!(is_held(bench.exchange(2, elsewhere)), (OTHER, false), "not by this port");
}

#[test]
fn pdq_r10_the_list_holds_twice_the_sending_flows_within_its_bounds() {
    let config = PdqConfig { list_min: 4, list_max: 6, ..brisk() };
    let mut bench = Bench::new(config);
    for flow in 0..10 {
        bench.exchange(flow, probe(100.0 + f64::from(flow)));
    }
    assert_eq!(bench.ids(), [0, 1, 2, 3], "the least critical are beyond");
    bench.exchange(20, probe(50.0));
    assert_eq!(bench.ids(), [20, 0, 1, 2], "a more critical one gets in");
    // Slow flows: many send at once, so that the list may be longer, but no longer than M.
    let mut bench = Bench::new(PdqConfig { list_min: 2, list_max: 6, ..brisk() });
    for flow in 0..10 {
        let slow = PdqHeader { rate: LINE / 20, ..probe(100.0 + f64::from(flow)) };
        bench.exchange(flow, slow);
        assert!(bench.port.list().len() <= (2 * bench.port.list().sending()).clamp(2, 6));
    }
    assert_eq!(bench.ids().len(), 6);
}

#[test]
fn pdq_r10_a_new_flow_counts_as_paused() {
    let mut bench = Bench::new(PdqConfig::default());
    assert_eq!(bench.send(1, probe(10.0)).pauser, NOBODY);
    let entry = bench.port.list().entries()[0];
    assert_eq!((entry.rate, entry.pauser, entry.asked), (0, ME, LINE));
    bench.wait_us(1);
    assert_eq!(bench.send(2, probe(5.0)).pauser, ME, "dampened, although more critical");
}

#[test]
fn pdq_r10_a_flow_that_comes_with_data_counts_as_sending() {
    let mut bench = Bench::new(PdqConfig::default());
    bench.send(1, probe(10.0));
    bench.wait_us(1);
    let granted = bench.send(2, data(5.0));
    assert_eq!((granted.pauser, granted.rate), (NOBODY, LINE), "others have accepted it");
    assert_eq!(bench.port.list().entries()[0].rate, LINE);
}

#[test]
fn pdq_r11_the_most_critical_flow_gets_all_and_others_are_paused() {
    let mut bench = Bench::new(brisk());
    let first = bench.exchange(1, probe(10.0));
    assert_eq!((first.rate, first.pauser), (LINE, NOBODY));
    let second = bench.exchange(2, probe(20.0));
    assert_eq!((second.rate, second.pauser), (0, ME));
    // A more critical one preempts the first, which learns it with its next packet.
    let third = bench.exchange(3, probe(5.0));
    assert_eq!((third.rate, third.pauser), (LINE, NOBODY));
    let first = bench.exchange(1, data(9.0));
    assert_eq!((first.rate, first.pauser), (0, ME));
    // A deadline goes before any size.
    let fourth = bench.exchange(4, due(50.0, 1000));
    assert_eq!((fourth.rate, fourth.pauser), (LINE, NOBODY));
    assert_eq!(bench.ids(), [4, 3, 1, 2]);
}

#[test]
fn pdq_r11_no_more_than_was_asked_for() {
    let mut bench = Bench::new(brisk());
    let slow = PdqHeader { rate: 300_000, ..probe(10.0) };
    assert_eq!(bench.exchange(1, slow).rate, 300_000);
    assert_eq!(bench.exchange(2, probe(20.0)).rate, 700_000, "the rest goes to the next");
    assert_eq!(bench.exchange(3, probe(30.0)).pauser, ME);
}

#[test]
fn pdq_r12_flows_that_wait_here_count_with_what_they_ask() {
    // Flow 1 is accepted, its answer still out; flow 2 paused. The printed form sees no rate held.
    for (availability, third) in [(Availability::Corrected, ME), (Availability::Printed, NOBODY)] {
        let mut bench = Bench::new(PdqConfig { availability, ..brisk() });
        bench.send(1, probe(10.0));
        assert_eq!(bench.send(3, probe(30.0)).pauser, third, "{availability:?}");
    }
}

#[test]
fn pdq_r13_early_start_overlooks_flows_that_are_nearly_done() {
    let mut bench = Bench::new(brisk());
    bench.exchange(1, probe(10.0));
    bench.exchange(1, data(2.1));
    assert_eq!(bench.exchange(2, probe(20.0)).pauser, ME);
    bench.exchange(1, data(1.9));
    assert_eq!(bench.exchange(2, probe(20.0)).rate, LINE);
    // Its rest of 1.9 leaves room for one more below K = 2, then X = 3.4 stops it.
    bench.exchange(2, data(1.5));
    assert_eq!(bench.exchange(3, probe(30.0)).rate, LINE);
    bench.exchange(3, data(1.9));
    assert_eq!(bench.exchange(4, probe(40.0)).pauser, ME);
}

#[test]
fn pdq_r13_only_sending_flows_can_be_nearly_done() {
    for (availability, second) in [(Availability::Corrected, ME), (Availability::Printed, NOBODY)] {
        let mut bench = Bench::new(PdqConfig { availability, ..brisk() });
        bench.send(1, probe(1.5)); // accepted, but does not send yet
        assert_eq!(bench.send(2, probe(20.0)).pauser, second, "{availability:?}");
    }
}

/// One flow ends within half a long round trip; another's is short.
#[test]
fn pdq_r13_round_trips_are_those_of_the_flow_that_waits() {
    let accepted = |availability, ends, waits| {
        let mut bench = Bench::new(PdqConfig { availability, ..brisk() });
        bench.exchange(1, PdqHeader { rtt: ends, ..probe(10.0) });
        bench.exchange(1, PdqHeader { rtt: ends, ..data(1.5) });
        bench.exchange(2, PdqHeader { rtt: waits, ..probe(20.0) }).pauser == NOBODY
    };
    let (short, long) = (RTT / 2, RTT);
    for (ends, waits) in [(short, short), (short, long), (long, short), (long, long)] {
        assert_eq!(accepted(Availability::Corrected, ends, waits), waits == long);
        assert_eq!(accepted(Availability::Printed, ends, waits), ends == long);
    }
}

#[test]
fn pdq_r14_after_a_paused_flow_no_other_for_half_a_round_trip() {
    let mut bench = Bench::new(PdqConfig::default());
    bench.exchange(1, probe(10.0));
    bench.wait_us(74);
    assert_eq!(bench.exchange(2, probe(5.0)).pauser, ME, "too soon");
    bench.wait_us(1);
    assert_eq!(bench.exchange(2, probe(5.0)).rate, LINE);
    assert_eq!(bench.send(2, data(5.0)).rate, LINE, "never blocks itself");
}

#[test]
fn pdq_r14_a_dampened_flow_leaves_the_link_to_the_one_it_waits_for() {
    let mut bench = Bench::new(PdqConfig::default());
    bench.exchange(1, probe(10.0));
    bench.wait_us(10);
    assert_eq!(bench.exchange(2, probe(5.0)).pauser, ME, "too soon");
    assert_eq!(bench.exchange(1, data(9.9)).rate, LINE, "somebody must send meanwhile");
    bench.wait_us(100);
    assert_eq!(bench.exchange(3, probe(20.0)).pauser, ME, "others wait for both");
    assert_eq!(bench.exchange(2, probe(5.0)).rate, LINE);
    assert_eq!(bench.exchange(1, data(9.0)).pauser, ME, "its time is over");
}

/// Once accepted, it no longer gives way, even while its answer is out.
#[test]
fn pdq_r14_a_flow_accepted_after_dampening_keeps_the_link() {
    let mut bench = Bench::new(PdqConfig::default());
    bench.exchange(1, probe(10.0));
    bench.wait_us(10);
    assert_eq!(bench.exchange(2, probe(5.0)).pauser, ME, "too soon");
    bench.wait_us(100);
    assert_eq!(bench.send(2, probe(5.0)).rate, LINE);
    assert_eq!(bench.send(1, data(9.0)).pauser, ME, "it was told to send");
}

/// Flows of one packet, each less critical than the one before: their time on the line bounds how
/// many are accepted, not how many there are.
#[test]
fn pdq_r14_short_flows_are_accepted_back_to_back() {
    let packet = 12.0 / 150.0; // round trips
    let accepted = |config: PdqConfig| {
        let mut bench = Bench::new(config);
        bench.exchange(0, probe(1000.0));
        let mut accepted = 0;
        for flow in 1..=100u32 {
            bench.wait_us(1);
            accepted += u32::from(bench.send(flow, due(packet, flow)).pauser == NOBODY);
        }
        accepted
    };
    // Twelve flows of 12 µs are less than a round trip of 150 µs, and with the 13th there is
    // nothing left.
    assert_eq!(accepted(PdqConfig::default()), 13);
    // Without Early Start one at a time.
    assert_eq!(accepted(PdqConfig { variant: PdqVariant::Basic, ..brisk() }), 1);
}

/// A flow of a round trip or more is dampened as ever: it can be paused and resumed.
#[test]
fn pdq_r14_flows_of_a_round_trip_are_dampened() {
    let next = |round_trips: f64| {
        let mut bench = Bench::new(PdqConfig::default());
        bench.exchange(1, probe(10.0));
        bench.wait_us(1);
        bench.send(2, probe(round_trips)).pauser
    };
    assert_eq!((next(0.99), next(1.01)), (NOBODY, ME));
}

/// What waits takes of the line what it needs of the next round trip, at most what it asks for.
#[test]
fn pdq_r12_short_flows_that_wait_count_with_what_they_need() {
    for (waits, left) in [(0.1, 900_000), (0.4, 600_000), (1.0, 0), (5.0, 0)] {
        let mut bench = Bench::new(brisk());
        bench.send(1, due(waits, 1)); // accepted, its answer out
        let second = bench.send(2, probe(20.0));
        let granted = if second.pauser == NOBODY { second.rate } else { 0 };
        assert!(granted.abs_diff(left) <= 1, "{waits} round trips: {granted}");
    }
}

#[test]
fn pdq_r15_answers_tell_rates_and_when_to_probe() {
    let mut bench = Bench::new(brisk());
    for flow in 0..12u32 {
        let answer = bench.exchange(flow, probe(10.0 + f64::from(flow)));
        // X = 0.2 round trips for each flow before it, in thousandths; ports only raise it.
        assert_eq!(answer.deadline, 200 * flow);
        let entry = bench.port.list().entries()[flow as usize];
        assert_eq!((entry.rate, entry.pauser), if flow == 0 { (LINE, NOBODY) } else { (0, ME) });
    }
    let mut bench = Bench::new(PdqConfig { variant: PdqVariant::EsEt, ..brisk() });
    bench.exchange(1, probe(10.0));
    assert_eq!(bench.exchange(2, probe(20.0)).deadline, 0, "not suppressed");
    // A flow beyond the list waits as if it were behind all of it.
    let mut bench = Bench::new(PdqConfig { list_min: 5, list_max: 5, ..brisk() });
    for flow in 0..5u32 {
        bench.exchange(flow, probe(10.0 + f64::from(flow)));
    }
    let beyond = bench.exchange(9, probe(99.0));
    assert_eq!((beyond.pauser, beyond.rate, beyond.deadline), (ME, 0, 1000));
}

#[test]
fn pdq_r16_term_forgets_the_flow() {
    let mut bench = Bench::new(brisk());
    bench.exchange(1, probe(10.0));
    bench.exchange(2, probe(20.0));
    let term = PdqHeader { flags: PdqHeader::TERM | PdqHeader::END, ..probe(0.0) };
    assert_eq!(bench.send(1, term), term, "untouched");
    assert_eq!(bench.ids(), [2]);
    assert_eq!(bench.exchange(2, probe(20.0)).rate, LINE);
}

#[test]
fn pdq_r17_flows_not_heard_of_are_forgotten() {
    let mut bench = Bench::new(brisk());
    bench.exchange(1, probe(10.0));
    bench.exchange(2, probe(20.0));
    while bench.now < at_us(580) {
        bench.update();
        bench.exchange(2, probe(20.0));
        assert_eq!(bench.ids(), [1, 2], "{}", bench.now);
    }
    while bench.now < at_us(1000) {
        bench.update();
        bench.exchange(2, probe(20.0));
    }
    assert_eq!(bench.ids(), [2], "nothing came for four round trips");
    assert_eq!(bench.exchange(2, probe(20.0)).rate, LINE);
    // Without any flow the port falls silent.
    for _ in 0..8 {
        if bench.port.next_timeout().is_some() {
            bench.update();
        }
    }
    assert!(bench.ids().is_empty());
    assert_eq!(bench.port.next_timeout(), None);
}

#[test]
fn pdq_r19_the_queue_lowers_the_capacity_every_two_round_trips() {
    let mut bench = Bench::new(brisk());
    bench.exchange(1, probe(10.0));
    assert_eq!(bench.port.capacity(), GBPS);
    assert_eq!(bench.port.next_timeout(), Some(at_us(300)));
    // 15,000 bytes wait: 120,000 bits in two round trips of 150 µs are 400 Mb/s. They are ours,
    // as is what was sent.
    for _ in 0..10 {
        bench.send(1, data(9.0));
    }
    (bench.queue_bytes, bench.sent_bytes) = (15_000, 60);
    bench.update();
    assert_eq!(bench.port.capacity(), Rate::from_mbps(600));
    bench.exchange(1, data(8.0));
    (bench.queue_bytes, bench.sent_bytes) = (0, 15_060 + 1500);
    bench.update();
    assert_eq!(bench.port.capacity(), GBPS);
    // Never below 0.
    for _ in 0..40 {
        bench.send(1, data(7.0));
    }
    bench.queue_bytes = 60_000;
    bench.update();
    assert_eq!(bench.port.capacity(), Rate::ZERO);
    assert_eq!(bench.exchange(1, data(6.0)).pauser, ME);
}

#[test]
fn pdq_r19_the_round_trip_is_the_mean_of_the_flows() {
    let mut bench = Bench::new(brisk());
    bench.exchange(1, PdqHeader { rtt: 100_000, ..probe(10.0) });
    bench.exchange(2, PdqHeader { rtt: 300_000, ..probe(20.0) });
    bench.exchange(3, PdqHeader { rtt: 0, ..probe(20.0) });
    assert_eq!(bench.port.rtt(), Duration::from_micros(150), "the first one is given");
    bench.update();
    assert_eq!(bench.port.rtt(), Duration::from_micros(200));
}

#[test]
fn pdq_r20_other_transports_take_their_part() {
    let mut bench = Bench::new(brisk());
    bench.exchange(1, probe(1000.0));
    bench.sent_bytes = 60;
    for _ in 0..60 {
        // 300 µs carry 37,500 bytes: 10 packets of ours, and 15,000 bytes of others.
        for _ in 0..10 {
            bench.exchange(1, data(900.0));
        }
        bench.sent_bytes += 10 * 1500 + 15_000;
        bench.update();
    }
    let left = bench.port.capacity().as_bps() as f64 / 1e9;
    assert!((left - 0.6).abs() < 0.01, "{left}");
    // They cannot take all.
    for _ in 0..60 {
        bench.exchange(1, data(800.0));
        bench.sent_bytes += 1500 + 36_000;
        bench.queue_bytes = 100_000;
        bench.update();
    }
    assert_eq!(bench.port.capacity(), Rate::from_mbps(100));
}

/// A full queue drops all of ours and we send them again: that is no room for us.
#[test]
fn pdq_r20_what_was_dropped_here_is_not_taken_for_ours() {
    let mut bench = Bench::new(brisk());
    bench.exchange(1, probe(1000.0));
    bench.sent_bytes = 60;
    for _ in 0..60 {
        let again = PdqHeader { flags: PdqHeader::DATA | PdqHeader::AGAIN, ..data(900.0) };
        for _ in 0..20 {
            bench.exchange(1, again);
        }
        bench.sent_bytes += 37_500; // others'
        bench.update();
    }
    assert_eq!(bench.port.capacity(), Rate::from_mbps(100));
}

#[test]
fn pdq_r20_framing_is_not_taken_for_other_transports() {
    for framing in [0, 38, 200] {
        let mut bench = Bench::new(brisk());
        bench.framing = Bytes::new(framing);
        bench.exchange(1, probe(1000.0));
        bench.sent_bytes += 60 + framing;
        for _ in 0..40 {
            for _ in 0..20 {
                bench.exchange(1, data(900.0));
                bench.sent_bytes += 1500 + framing;
            }
            bench.update();
        }
        assert_eq!(bench.port.capacity(), GBPS, "framing {framing}");
    }
}

/// Packets that wait take framing with them: they must not seem to grow when they are sent.
#[test]
fn pdq_r20_framing_of_what_waits_is_not_taken_for_other_transports() {
    let mut bench = Bench::new(brisk());
    bench.framing = Bytes::new(38);
    bench.exchange(1, probe(1000.0));
    bench.sent_bytes += 60 + 38;
    for _ in 0..20 {
        for waits in [20, 0] {
            for _ in 0..20 {
                bench.exchange(1, data(900.0));
            }
            (bench.queue_bytes, bench.queue_packets) = (waits * 1500, waits);
            bench.sent_bytes += (40 - 2 * waits) * 1538;
            bench.update();
        }
        assert_eq!(bench.port.capacity(), GBPS);
    }
}

#[test]
fn pdq_r21_flows_beyond_the_list_share_what_is_left() {
    let mut bench = Bench::new(PdqConfig { list_min: 1, list_max: 1, ..brisk() });
    let slow = PdqHeader { rate: 200_000, ..probe(10.0) };
    bench.exchange(1, slow);
    for flow in [2, 3, 4, 5] {
        assert_eq!(bench.exchange(flow, probe(20.0)).pauser, ME, "no share yet");
    }
    bench.sent_bytes += 5 * 60;
    let mut shares = Vec::new();
    for _ in 0..200 {
        bench.update();
        bench.exchange(1, slow);
        bench.sent_bytes += 60;
        for flow in [2, 3, 4, 5] {
            let answer = bench.exchange(flow, probe(20.0));
            bench.sent_bytes += 60;
            shares.push(answer.rate);
        }
    }
    // They ask and do not send, so that the share rises to all that is left.
    assert_eq!(shares.last(), Some(&800_000));
    assert_eq!(bench.port.share_beyond(), Rate::from_mbps(800));
    // At first α of it twice, as the interval is two round trips, a fourth for each; less what the
    // four probes took, 240 bytes in 300 µs.
    let first = 0.2 * (800_000.0 - 6_400.0) / 4.0;
    assert!((f64::from(shares[0]) - first).abs() < 0.01 * first, "{}", shares[0]);
    assert_eq!(bench.ids(), [1]);
    // Nothing is left while a listed flow takes the line.
    bench.exchange(1, data(10.0));
    bench.update();
    assert_eq!(bench.port.share_beyond(), Rate::ZERO);
    assert_eq!(bench.exchange(2, probe(20.0)).pauser, ME);
}

/// 640 flows beyond a list of 64, which probe every 12.8 round trips while they are paused and ask
/// every round trip once they may send: what they hold together comes up to what is left and
/// never beyond. Were only those counted that ask in one interval, it would be 2.4 times as much.
#[test]
fn pdq_r21_paused_flows_count_by_how_seldom_they_ask() {
    const LEFT: f64 = 800_000.0;
    let mut bench = Bench::new(PdqConfig { list_min: 64, list_max: 64, ..brisk() });
    let listed = PdqHeader { rate: 3_125, ..probe(10.0) }; // 200 Mb/s in all
    let mut flows: Vec<(f64, u32)> = (0..640).map(|n| (f64::from(n % 13), 0)).collect();
    let mut most: f64 = 0.0;
    for round_trip in 0..400u64 {
        bench.now = at_us(150 * round_trip);
        if bench.port.next_timeout().is_some_and(|at| at <= bench.now) {
            bench.update();
        }
        for flow in 0..64 {
            bench.exchange(flow, listed);
            bench.sent_bytes += 60;
        }
        for (n, (next, held)) in flows.iter_mut().enumerate() {
            if *next > round_trip as f64 {
                continue;
            }
            let (flow, pauser) = (1000 + n as u32, if *held == 0 { ME } else { NOBODY });
            // What it sent in the last round trip.
            let bytes = (f64::from(*held) * 0.15 / 8.0) as u16;
            let there = bench.send_bytes(flow, PdqHeader { pauser, ..probe(30.0) }, bytes);
            bench.sent_bytes += u64::from(bytes);
            let answer = bench.answer(flow, there);
            *held = answer.rate;
            *next += (f64::from(answer.deadline) / 1000.0).max(1.0);
        }
        most = most.max(flows.iter().map(|(_, held)| f64::from(*held)).sum());
    }
    let last: f64 = flows.iter().map(|(_, held)| f64::from(*held)).sum();
    assert!(most <= 1.05 * LEFT, "{most}");
    assert!(last >= 0.95 * LEFT, "{last}");
}

#[test]
fn pdq_r22_variants_switch_the_parts_on() {
    let of = |variant| PdqConfig { variant, ..PdqConfig::default() };
    let parts = |variant| {
        let config = of(variant);
        (config.early_start_rtts(), config.terminates_early(), config.probe_spread_rtts())
    };
    assert_eq!(parts(PdqVariant::Basic), (0.0, false, 0.0));
    assert_eq!(parts(PdqVariant::Es), (2.0, false, 0.0));
    assert_eq!(parts(PdqVariant::EsEt), (2.0, true, 0.0));
    assert_eq!(parts(PdqVariant::Full), (2.0, true, 0.2));
    // Basic starts nobody early.
    let mut bench = Bench::new(PdqConfig { dampening: 0.0, ..of(PdqVariant::Basic) });
    bench.exchange(1, data(0.1));
    assert_eq!(bench.exchange(2, probe(20.0)).pauser, ME);
}

#[test]
fn pdq_r24_age_makes_up_for_size() {
    let young =
        FlowRank::of(&PdqHeader { age: 0, ..probe(10.0) }, FlowKey::new(1, 0), Instant::ZERO);
    let old =
        FlowRank::of(&PdqHeader { age: 32, ..probe(100.0) }, FlowKey::new(2, 0), Instant::ZERO);
    assert!(old.precedes(&young), "100 / 2^4 is below 10");
    let less =
        FlowRank::of(&PdqHeader { age: 24, ..probe(100.0) }, FlowKey::new(2, 0), Instant::ZERO);
    assert!(young.precedes(&less), "100 / 2^3 is not");
}

#[test]
fn pdq_r28_a_restarted_switch_starts_over() {
    let mut bench = Bench::new(brisk());
    bench.exchange(1, probe(10.0));
    bench.port.reset();
    assert!(bench.ids().is_empty());
    assert_eq!(bench.port.next_timeout(), None);
    assert_eq!(bench.exchange(2, probe(20.0)).rate, LINE);
    assert_eq!(expected_field(Duration::from_nanos(10)), 1);
}

/// Entries looked at by one packet and its answer, of whichever flow, listed or not.
#[test]
fn pdq_r10_a_packet_costs_a_walk_along_the_list_at_most() {
    for (list_min, flows) in [(4u32, 1_000u32), (64, 1_000), (64, 20_000)] {
        let mut bench = Bench::new(PdqConfig { list_min, ..PdqConfig::default() });
        let mut most = 0;
        for flow in 0..flows {
            bench.wait_us(1);
            // In an order without order, so that newcomers land everywhere.
            let length = 10.0 + f64::from(flow.wrapping_mul(2_654_435_761) % 10_000);
            let sending = bench.port.list().sending();
            let bound = list_min.max(2 * sending as u32) as usize + 1;
            VISITED.set(0);
            let header = if flow % 3 == 0 { data(length) } else { probe(length) };
            bench.exchange(flow, header);
            assert!(bench.port.list().len() <= bound);
            // Finding it, there and back; placing it; trimming; adding up what others take.
            assert!(VISITED.get() <= 5 * bound, "{} of {bound}", VISITED.get());
            most = most.max(VISITED.get());
        }
        println!("list of {list_min}, {flows} flows: {most} entries visited at most by a packet");
        assert!(most >= list_min as usize, "to find that a flow is not in a full list takes all");
    }
}

proptest! {
    /// The list is sorted, counts its senders and keeps ids and entries together.
    #[test]
    fn list_stays_sorted(ops in prop::collection::vec((0u32..12, 0u32..50, 0u32..3, 0u8..4), 1..200)) {
        let mut list = FlowList::default();
        for (flow, expected, rate, op) in ops {
            let header = PdqHeader { expected, deadline: NO_DEADLINE, ..PdqHeader::default() };
            let rank = FlowRank::of(&header, FlowKey::new(flow, 0), Instant::ZERO);
            match (list.find(FlowKey::new(flow, 0)), op) {
                (Some(place), 0) => list.remove(place),
                (Some(place), 1) => list.update(place, |e| e.rate = rate),
                (Some(place), _) => {
                    let place = list.rerank(place, rank);
                    prop_assert_eq!(list.entries()[place].rank.flow(), flow);
                }
                (None, 0) => list.truncate(8),
                (None, _) => {
                    let entry = FlowEntry {
                        rank, rate, asked: 1, pauser: NOBODY, dampened: false, expected, rtt: 1,
                        seen: Instant::ZERO,
                    };
                    let place = list.insert(entry);
                    prop_assert_eq!(list.find(FlowKey::new(flow, 0)), Some(place));
                }
            }
            let entries = list.entries();
            prop_assert!(entries.windows(2).all(|w| w[0].rank.precedes(&w[1].rank)));
            prop_assert_eq!(entries.iter().filter(|e| e.rate > 0).count(), list.sending());
            for (place, entry) in entries.iter().enumerate() {
                prop_assert_eq!(list.find(entry.rank.key()), Some(place));
            }
        }
    }

    /// Whatever order packets come in, what flows hold fits, but for those overlooked by Early
    /// Start: none here.
    #[test]
    fn rates_held_fit(ops in prop::collection::vec((0u32..8, 1u32..100, 1u32..1_000_001), 1..150)) {
        let mut bench = Bench::new(PdqConfig { variant: PdqVariant::Basic, ..brisk() });
        for (flow, expected, rate) in ops {
            bench.wait_us(1);
            let header = PdqHeader { rate, ..probe(f64::from(expected)) };
            let there = bench.send(flow, header);
            // The most critical flow may preempt others, who learn it with their next packet.
            let place = bench.port.list().find(FlowKey::new(flow, 0)).expect("listed");
            let before: u64 = bench.port.list().entries()[..place]
                .iter()
                .map(|e| u64::from(if e.pauser == ME { e.asked } else { e.rate }))
                .sum();
            if there.pauser == NOBODY {
                prop_assert!(there.rate > 0 && u64::from(there.rate) + before <= u64::from(LINE));
            } else {
                prop_assert!(before >= u64::from(LINE));
            }
            bench.answer(flow, there);
        }
    }
}
