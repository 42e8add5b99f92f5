//! The rules of `rules.md` between two hosts.

use super::super::{
    Criticality, HEADER_BYTES, NO_DEADLINE, NOBODY, PdqConfig, PdqHeader, PdqVariant, RoundTrip,
};
use super::*;
use punctual_core::{FlowEvent, PacketFlags};
use punctual_testkit::Fault;

fn data_of(pair: &Pair<PdqConfig>, flow: FlowId) -> Vec<Traced> {
    of_flow(forward(pair), flow).into_iter().filter(|t| t.packet.payload_bytes > 0).collect()
}

#[test]
fn pdq_r01_data_follow_the_syn_by_a_round_trip() {
    let mut pair = pair(1);
    let flow = start(&mut pair, 3 * SEGMENT);
    assert!(pair.run_until_done(seconds(1)));
    let sent = forward(&pair);
    let flags: Vec<u8> = sent.iter().map(|t| header(t).flags).collect();
    let (syn, data) = (PdqHeader::SYN, PdqHeader::DATA);
    let last = PdqHeader::DATA | PdqHeader::END;
    assert_eq!(flags, [syn, data, data, last, PdqHeader::TERM | PdqHeader::END]);
    let line = *pair.path();
    let round_trip = (line.transmission_time(60) + line.delay) * 4;
    assert_eq!(sent[1].at, Instant::ZERO + round_trip);
    assert_eq!(pair.result(flow).retransmitted, 0);
}

#[test]
fn pdq_r01_without_grants_on_the_syn_a_probe_comes_first() {
    let config = PdqConfig { syn_grants: false, ..PdqConfig::default() };
    let mut pair = Pair::new(config, testbed(1));
    start(&mut pair, SEGMENT);
    assert!(pair.run_until_done(seconds(1)));
    let sent = forward(&pair);
    assert!(is_probe(&sent[1]), "{:?}", header(&sent[1]));
    let line = *pair.path();
    let round_trip = (line.transmission_time(60) + line.delay) * 4;
    let data = sent.iter().find(|t| header(t).has(PdqHeader::DATA)).unwrap();
    // The next probe is due when the first one's answer comes, and may be just ahead of it.
    let late = data.at.saturating_since(Instant::ZERO + round_trip * 2);
    assert!(data.at >= Instant::ZERO + round_trip * 2 && late <= line.transmission_time(60));
}

#[test]
fn pdq_r02_every_packet_says_what_the_flow_is() {
    let mut pair = pair(0);
    let flow = start_by(&mut pair, 10 * SEGMENT, at_us(5_000));
    assert!(pair.run_until_done(seconds(1)));
    let sent = of_flow(forward(&pair), flow);
    let full = pair.path().transmission_time(1500);
    for (n, traced) in sent.iter().enumerate() {
        let h = header(traced);
        assert_eq!((h.rate, h.deadline), (1_000_000, 500));
        assert_eq!(traced.packet.wire_bytes, HEADER_BYTES + traced.packet.payload_bytes);
        let left = 10 - (n as u64).min(10);
        assert_eq!(u64::from(h.expected), (full * left).as_nanos() / 10, "of packet {n}");
        assert_eq!(h.rtt > 0, n > 0);
    }
    let free = start(&mut pair, 1);
    assert!(pair.run_until_done(seconds(1)));
    assert!(of_flow(forward(&pair), free).iter().all(|t| header(t).deadline == NO_DEADLINE));
}

#[test]
fn pdq_r03_packets_are_paced_at_the_rate_granted() {
    let receiver_rate = Some(Rate::from_mbps(250));
    let mut pair = Pair::new(PdqConfig { receiver_rate, ..PdqConfig::default() }, testbed(1));
    let flow = start(&mut pair, 20 * SEGMENT);
    assert!(pair.run_until_done(seconds(1)));
    let data = data_of(&pair, flow);
    for two in data.windows(2) {
        assert_eq!(two[1].at.saturating_since(two[0].at), Duration::from_micros(48));
    }
}

#[test]
fn pdq_r04_a_paused_flow_probes_once_per_round_trip() {
    let mut pair =
        Pair::new(PdqConfig { variant: PdqVariant::Es, ..PdqConfig::default() }, testbed(1));
    start(&mut pair, 100 * SEGMENT);
    let second = start(&mut pair, 200 * SEGMENT);
    pair.run_until(at_us(900));
    assert_eq!(pair.sender(second).unwrap().rate(), Rate::ZERO);
    assert!(pair.sender(second).unwrap().pauser().is_some());
    let sent = of_flow(forward(&pair), second);
    let probes: Vec<_> = sent.iter().filter(|t| is_probe(t)).collect();
    assert!((5..=9).contains(&probes.len()), "{}", probes.len());
    assert!(probes.iter().all(|t| t.packet.wire_bytes == 60));
    assert!(probes.iter().all(|t| header(t).pauser != NOBODY));
    assert!(data_of(&pair, second).is_empty());
}

#[test]
fn pdq_r04_the_interval_grows_with_the_place_in_the_list() {
    let probes = |variant| {
        let mut pair = Pair::new(PdqConfig { variant, ..PdqConfig::default() }, testbed(1));
        let flows: Vec<_> = (0..30).map(|n| start(&mut pair, (100 + n) * SEGMENT)).collect();
        pair.run_until(at_us(1_200));
        let last = flows[29];
        of_flow(forward(&pair), last).iter().filter(|t| is_probe(t)).count()
    };
    let (each, suppressed) = (probes(PdqVariant::EsEt), probes(PdqVariant::Full));
    assert!(each >= 7 && suppressed <= 3, "{each} {suppressed}");
}

#[test]
fn pdq_r04_a_slow_flow_probes_between_its_packets() {
    let receiver_rate = Some(Rate::from_mbps(10));
    let mut pair = Pair::new(PdqConfig { receiver_rate, ..PdqConfig::default() }, testbed(1));
    let flow = start(&mut pair, 5 * SEGMENT);
    assert!(pair.run_until_done(seconds(1)));
    // Four gaps of 1.2 ms, and a probe each round trip as measured: four links of 25.1 µs, and 2 µs
    // for headers or 25 µs for data on them. 102 to 125 µs fit 9 to 11 times into a gap.
    let probes = of_flow(forward(&pair), flow).iter().filter(|t| is_probe(t)).count();
    assert!((36..=44).contains(&probes), "{probes}");
}

#[test]
fn pdq_r05_three_later_packets_reveal_a_loss() {
    let mut pair = pair(1);
    pair.set_faults(|packet, index| {
        if !packet.is_to_sender() && index == 4 { Fault::Drop } else { Fault::Deliver }
    });
    let flow = start(&mut pair, 60 * SEGMENT);
    assert!(pair.run_until_done(seconds(1)));
    let result = pair.result(flow);
    assert_eq!((result.retransmitted, result.timed_out), (1, 0));
}

#[test]
fn pdq_r05_a_lost_last_packet_goes_again_after_a_millisecond() {
    let mut pair = pair(1);
    pair.set_faults(|packet, index| {
        if !packet.is_to_sender() && index == 3 { Fault::Drop } else { Fault::Deliver }
    });
    let flow = start(&mut pair, 3 * SEGMENT);
    assert!(pair.run_until_done(seconds(1)));
    let result = pair.result(flow);
    assert_eq!((result.retransmitted, result.timed_out), (1, 1));
    let last: Vec<_> = data_of(&pair, flow).iter().map(|t| t.at).collect();
    let wait = last[3].saturating_since(last[2]);
    assert!(wait >= Duration::from_millis(1) && wait < Duration::from_micros(1300), "{wait}");
}

#[test]
fn pdq_r05_a_lost_syn_goes_again_and_timeouts_double() {
    let mut pair = pair(1);
    pair.set_faults(|_, index| if index < 3 { Fault::Drop } else { Fault::Deliver });
    let flow = start(&mut pair, 1);
    assert!(pair.run_until_done(seconds(1)));
    let syns: Vec<_> =
        forward(&pair).iter().filter(|t| header(t).has(PdqHeader::SYN)).map(|t| t.at).collect();
    assert_eq!(syns[..4], [0, 1_000, 3_000, 7_000].map(at_us));
    assert!(pair.result(flow).timed_out >= 3);
}

#[test]
fn pdq_r06_hopeless_flows_are_given_up() {
    // In the past, too short for the size, and what a paused flow cannot reach any more.
    let mut pair = pair(1);
    pair.run_until(at_us(100));
    let past = start_by(&mut pair, 1, at_us(50));
    let short = start_by(&mut pair, 100 * SEGMENT, at_us(100 + 1_100));
    pair.run_until(at_us(101));
    for flow in [past, short] {
        assert_eq!(pair.result(flow).abandoned_at, Some(at_us(100)));
        assert!(of_flow(forward(&pair), flow).is_empty(), "not even a SYN");
    }
    // The first takes 2.64 ms; the second would take 0.48 ms after it.
    let urgent = start_by(&mut pair, 220 * SEGMENT, at_us(3_000));
    let later = start_by(&mut pair, 40 * SEGMENT, at_us(3_010));
    assert!(pair.run_until_done(seconds(1)));
    assert!(pair.result(urgent).completed_at.is_some_and(|at| at <= at_us(3_000)));
    let end = pair.result(later).abandoned_at.expect("given up");
    // At 2.53 ms, or 12 µs later for each packet that a rest of the capacity let go.
    assert!(end > at_us(2_530) && end < at_us(2_560), "{end}");
    let last = *of_flow(forward(&pair), later).last().unwrap();
    assert_eq!(header(&last).flags, PdqHeader::TERM, "ports are told");
}

#[test]
fn pdq_r06_only_with_early_termination_and_a_deadline() {
    for variant in [PdqVariant::Basic, PdqVariant::Es] {
        let mut pair = Pair::new(PdqConfig { variant, ..PdqConfig::default() }, testbed(1));
        pair.run_until(at_us(100));
        let flow = start_by(&mut pair, 100 * SEGMENT, at_us(50));
        assert!(pair.run_until_done(seconds(1)));
        assert!(pair.result(flow).completed_at.is_some());
    }
}

#[test]
fn pdq_r07_the_receiver_returns_the_header_and_lowers_the_rate() {
    let receiver_rate = Some(Rate::from_mbps(300));
    let mut pair = Pair::new(PdqConfig { receiver_rate, ..PdqConfig::default() }, testbed(1));
    start(&mut pair, 2 * SEGMENT);
    assert!(pair.run_until_done(seconds(1)));
    let (there, back) = (forward(&pair), backward(&pair));
    assert_eq!(there.len(), back.len(), "each packet is answered");
    for (packet, answer) in there.iter().zip(&back) {
        let (h, a) = (header(packet), header(answer));
        assert_eq!(a.rate, 300_000);
        assert_eq!((a.seq, a.time, a.pauser, a.rtt), (h.seq, h.time, h.pauser, h.rtt));
        assert_eq!(a.flags, h.flags | PdqHeader::ACK);
        assert_eq!(answer.packet.wire_bytes, 60);
    }
}

#[test]
fn pdq_r16_term_follows_the_last_data_and_empties_the_ports() {
    let mut pair = pair(2);
    let flow = start(&mut pair, 30 * SEGMENT);
    let until = data_of_last(&mut pair, flow);
    let sent = of_flow(forward(&pair), flow);
    let [.., last, term] = &sent[..] else { panic!("packets") };
    assert!(header(last).has(PdqHeader::END | PdqHeader::DATA));
    assert!(header(term).has(PdqHeader::TERM));
    assert_eq!(term.at, last.at + pair.path().transmission_time(1500));
    assert!(pair.now() >= until);
    for port in pair.forward_controllers() {
        assert!(port.unwrap().list().is_empty());
    }
}

fn data_of_last(pair: &mut Pair<PdqConfig>, flow: FlowId) -> Instant {
    assert!(pair.run_until_done(seconds(1)));
    pair.result(flow).completed_at.unwrap()
}

#[test]
fn pdq_r23_criticality_may_be_drawn_or_guessed() {
    let random = PdqConfig { criticality: Criticality::Random, ..PdqConfig::default() };
    let mut pair = Pair::new(random, testbed(1));
    let flows = [start_by(&mut pair, 40_000, seconds(1)), start(&mut pair, 40_000)];
    assert!(pair.run_until_done(seconds(1)));
    let mut drawn = Vec::new();
    for flow in flows {
        let sent = of_flow(forward(&pair), flow);
        let first = header(&sent[0]).expected;
        assert!(sent.iter().all(|t| header(t).expected == first), "drawn once");
        assert!(sent.iter().all(|t| header(t).deadline == NO_DEADLINE), "and nothing else");
        drawn.push(first);
    }
    assert_ne!(drawn[0], drawn[1]);

    let estimated = PdqConfig { criticality: Criticality::Estimated, ..PdqConfig::default() };
    let mut pair = Pair::new(estimated, testbed(1));
    let flow = start(&mut pair, 120_000);
    assert!(pair.run_until_done(seconds(1)));
    let said: Vec<u32> = data_of(&pair, flow).iter().map(|t| header(t).expected).collect();
    let mut steps = said.clone();
    steps.dedup();
    // 50 KB take 400 µs, in units of 10 ns.
    assert_eq!(steps, [0, 40_000, 80_000]);
}

#[test]
fn pdq_r23_without_sizes_nothing_starts_early() {
    for criticality in [Criticality::Random, Criticality::Estimated] {
        assert_eq!(PdqConfig { criticality, ..PdqConfig::default() }.early_start_rtts(), 0.0);
    }
}

#[test]
fn pdq_r24_waiting_ages_a_flow_until_it_may_go() {
    // A long flow against a stream of short ones that leave no gap.
    let run = |aging| {
        let mut pair = Pair::new(PdqConfig { aging, ..PdqConfig::default() }, testbed(1));
        let long = start(&mut pair, 200 * SEGMENT);
        for n in 0..60 {
            let mut spec = pair.spec(Bytes::new(100 * SEGMENT));
            spec.start = at_us(900 * n);
            pair.start(spec);
        }
        assert!(pair.run_until_done(seconds(10)));
        let ages: Vec<u8> = of_flow(forward(&pair), long).iter().map(|t| header(t).age).collect();
        (pair.result(long).completed_at.unwrap(), *ages.iter().max().unwrap())
    };
    let (without, none) = run(0.0);
    let (with, some) = run(10.0);
    assert_eq!(none, 0);
    assert!(some > 0 && with < without, "{with} {without} {some}");
}

#[test]
fn pdq_r25_answers_go_back_the_way_packets_came() {
    let mut pair = pair(1);
    start(&mut pair, 3 * SEGMENT);
    assert!(pair.run_until_done(seconds(1)));
    let path = pair.trace()[0].packet.path;
    for answer in backward(&pair) {
        assert!(answer.packet.flags.has(PacketFlags::REVERSE_PATH));
        assert!(answer.packet.is_to_sender());
        assert_eq!(answer.packet.path, path);
    }
}

#[test]
fn pdq_r26_completed_then_finished_when_the_term_is_known_to_have_arrived() {
    let mut pair = pair(1);
    let flow = start(&mut pair, 3 * SEGMENT);
    assert!(pair.run_until_done(seconds(1)));
    let events: Vec<FlowEvent> = pair.result(flow).events.iter().map(|e| e.1).collect();
    assert_eq!(events, [FlowEvent::Completed, FlowEvent::Finished]);
}

/// SYN and its answer, then packets back to back: to the picosecond.
#[test]
fn pdq_r27_lone_flow_finishes_at_closed_form_time() {
    for switches in [0usize, 1, 3] {
        for packets in [1u64, 2, 50] {
            let mut pair = pair(switches);
            let flow = start(&mut pair, packets * SEGMENT);
            assert!(pair.run_until_done(seconds(1)));
            let line = *pair.path();
            let hops = switches as u64 + 1;
            let round_trip = (line.transmission_time(60) + line.delay) * (2 * hops);
            let way = (line.transmission_time(1500) + line.delay) * hops;
            let rest = line.transmission_time(1500) * (packets - 1);
            let expected = Instant::ZERO + round_trip + rest + way;
            assert_eq!(pair.result(flow).completed_at, Some(expected), "{switches} {packets}");
        }
    }
}

#[test]
fn empty_and_tiny_flows_end() {
    for size in [0, 1, SEGMENT, SEGMENT + 1] {
        let mut pair = pair(1);
        let flow = start(&mut pair, size);
        assert!(pair.run_until_done(seconds(1)), "{size}");
        assert_eq!(pair.result(flow).delivered.total(), size);
    }
}

#[test]
fn pdq_r29_the_shortest_round_trip_is_the_one_that_counts() {
    for round_trip in [RoundTrip::Least, RoundTrip::Smoothed] {
        let mut pair = Pair::new(PdqConfig { round_trip, ..PdqConfig::default() }, testbed(1));
        // Every fifth answer is late.
        pair.set_faults(|packet, index| {
            let late = packet.is_to_sender() && index % 5 == 4;
            if late { Fault::Delay(Duration::from_micros(400)) } else { Fault::Deliver }
        });
        let flow = start(&mut pair, 100 * SEGMENT);
        assert!(pair.run_until_done(seconds(1)));
        let line = *pair.path();
        let of_headers = (line.transmission_time(60) + line.delay) * 4;
        let said: Vec<u32> =
            data_of(&pair, flow).iter().map(|t| header(t).rtt).filter(|rtt| *rtt > 0).collect();
        let least = of_headers.as_nanos().abs_diff(u64::from(*said.iter().max().unwrap())) <= 1;
        assert_eq!(least, round_trip == RoundTrip::Least, "{said:?}");
    }
}

#[test]
fn pdq_r31_an_abandoned_flow_leaves_its_ports() {
    for cancelled_at in [0, 50, 5_000] {
        let mut pair = pair(2);
        // The more critical one.
        let abandoned = start_by(&mut pair, 2_000_000, at_us(50_000));
        let other = start(&mut pair, 2_000_000);
        pair.run_until(at_us(cancelled_at));
        pair.cancel(abandoned);
        // The other one hears of it with its next probe.
        pair.run_until(at_us(cancelled_at + 1_000));
        assert_eq!(pair.sender(other).unwrap().rate(), GBPS, "at {cancelled_at} us");
        for port in pair.forward_controllers() {
            let list = port.unwrap().list();
            let flows: Vec<u32> = list.entries().iter().map(|entry| entry.rank.flow()).collect();
            assert_eq!(flows, [other.0], "at {cancelled_at} us");
        }
    }
}
