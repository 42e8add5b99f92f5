//! One test for each rule of `rules.md`.

use super::super::load;
use super::*;
use crate::pdq::{FlowKey, NOBODY, PdqConfig, PdqPort};
use punctual_core::{Controller, ExtArena, Header, HostId, Limit, Packet, PortId, PortView};
use punctual_core::{QueueSpec, Transport};
use punctual_testkit::Fault;

fn syns(pair: &Pair<MpdqConfig>) -> Vec<Traced> {
    forward(pair).into_iter().filter(|t| header(t).has(PdqHeader::SYN)).collect()
}

fn data(sent: Vec<Traced>) -> Vec<Traced> {
    sent.into_iter().filter(|t| header(t).has(PdqHeader::DATA)).collect()
}

#[test]
fn mpdq_r01_each_subflow_with_load_sends_a_syn() {
    for (segments, subflows) in [(0, 1), (1, 1), (2, 2), (3, 3), (100, 3)] {
        let mut pair = pair_of(3, 8);
        start(&mut pair, segments * SEGMENT);
        assert!(pair.run_until_done(seconds(1)));
        let syns = syns(&pair);
        let numbers: Vec<u32> = syns.iter().map(|t| header(t).subflow()).collect();
        assert_eq!(numbers, (0..subflows).collect::<Vec<_>>(), "{segments} segments");
        assert!(syns.iter().all(|t| t.at < at_us(2)), "at once");
    }
}

#[test]
fn mpdq_r02_subflows_take_different_paths() {
    let mut all = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let line = PairPath { seed, ..testbed(1, 5) };
        let mut pair = Pair::new(MpdqConfig::default(), line);
        let flow = start(&mut pair, 100 * SEGMENT);
        pair.run_until(at_us(5));
        let sender = pair.sender(flow).unwrap();
        let paths: Vec<u32> = (0..3).map(|n| sender.path(n)).collect();
        assert!(paths[0] != paths[1] && paths[1] != paths[2] && paths[0] != paths[2], "{paths:?}");
        // PDQ's own choice comes first.
        let mut single = Pair::new(PdqConfig::default(), line);
        start(&mut single, 100 * SEGMENT);
        single.run_until(at_us(5));
        assert_eq!(single.trace()[0].packet.path, paths[0]);
        all.extend(paths);
    }
    assert_eq!(all.len(), 5, "every path is taken by some flow: {all:?}");
}

#[test]
fn mpdq_r02_too_few_paths_are_shared_evenly() {
    let mut pair = pair_of(8, 3);
    let flow = start(&mut pair, 100 * SEGMENT);
    assert!(pair.run_until_done(seconds(1)));
    let sender = pair.sender(flow).unwrap();
    let mut times = [0; 3];
    (0..8).for_each(|n| times[sender.path(n) as usize] += 1);
    times.sort_unstable();
    assert_eq!(times, [2, 3, 3]);
    // A subflow keeps its path, and its answers take it in reverse.
    for traced in pair.trace() {
        let header = header(traced);
        assert_eq!(traced.packet.path, sender.path(header.subflow() as usize));
        assert_eq!(header.path(), traced.packet.path);
    }
}

#[test]
fn mpdq_r03_the_load_is_split_equally() {
    for (segments, shares) in
        [(9, [3, 3, 3]), (10, [4, 3, 3]), (11, [4, 4, 3]), (2, [1, 1, 0]), (0, [0; 3])]
    {
        assert_eq!(load::split(segments, 3).collect::<Vec<_>>(), shares);
    }
    // T of each SYN is that of its subflow's segments at line rate, in units of 10 ns.
    let mut pair = pair_of(3, 3);
    start(&mut pair, 10 * SEGMENT);
    pair.run_until(at_us(5));
    let expected: Vec<u32> = syns(&pair).iter().map(|t| header(t).expected).collect();
    assert_eq!(expected, [4 * 1200, 3 * 1200, 3 * 1200]);
}

#[test]
fn mpdq_r03_segments_leave_in_the_flows_order() {
    let mut pair = pair_of(3, 3);
    start(&mut pair, 100 * SEGMENT - 7);
    assert!(pair.run_until_done(seconds(1)));
    let sent: Vec<u32> = data(forward(&pair)).iter().map(|t| header(t).seq).collect();
    assert_eq!(sent, (0..100).collect::<Vec<_>>());
    let by: std::collections::BTreeSet<u32> =
        data(forward(&pair)).iter().map(|t| header(t).subflow()).collect();
    assert!(by.len() > 1, "several subflows sent");
}

#[test]
fn mpdq_r04_a_move_leaves_the_taker_the_more_critical() {
    for load in 0..50 {
        for least in 0..50 {
            let moved = load::amount(load, least);
            assert!(moved <= load);
            if least > 0 {
                let (giver, taker) = (load - moved, least + moved);
                assert!(moved == 0 || taker < giver, "{load} and {least}");
                assert!(giver <= taker + 2 || moved == 0 && load <= least + 2);
            } else {
                assert!(moved > 0 || load == 0, "nothing is left behind");
            }
        }
    }
}

/// All subflows share one line. The first sends and stays ahead of the others, whose load it gets:
/// they do not preempt each other, and the line does not idle.
#[test]
fn mpdq_r04_load_moves_once_per_round_trip_to_the_one_that_sends() {
    let mut pair = pair_of(3, 3);
    let flow = start(&mut pair, 300 * SEGMENT);
    let (mut moves, mut moved) = (Vec::new(), 0);
    while pair.now() < at_us(2_000) {
        pair.run_until(pair.now() + Duration::from_nanos(100));
        let sender = pair.sender(flow).unwrap();
        if sender.moved() > moved {
            moved = sender.moved();
            moves.push(pair.now());
        }
    }
    // An RTT without queues: two links of 25.1 µs each way, and four headers of 60 bytes.
    let rtt = Duration::from_nanos(4 * 25_100 + 4 * 480);
    assert!(moves.len() > 5, "{moves:?}");
    for two in moves.windows(2) {
        assert!(two[1].saturating_since(two[0]) >= rtt - Duration::from_nanos(100), "{moves:?}");
    }
    // 2 ms less the start hold 157 packets of 12 µs, a probe now and then in between.
    let sent = data(forward(&pair));
    let first = sent.iter().filter(|t| header(t).subflow() == 0).count();
    assert!(first as f64 > 0.9 * sent.len() as f64, "{first} of {}", sent.len());
    assert!(sent.len() >= 150, "{}", sent.len());
}

/// Drops the packets of one subflow, both ways, once `lives` of them have passed.
fn cut(pair: &mut Pair<MpdqConfig>, subflow: u32, lives: usize) {
    let mut passed = 0;
    pair.set_faults(move |packet, _| {
        let is_cut = packet.header.get::<PdqHeader>().subflow() == subflow;
        passed += usize::from(is_cut);
        if is_cut && passed > lives { Fault::Drop } else { Fault::Deliver }
    });
}

/// A line on which all subflows send at once: Early Start overlooks all, as if each had a path.
fn wide() -> MpdqConfig {
    MpdqConfig { early_start: 100.0, ..MpdqConfig::default() }
}

#[test]
fn mpdq_r05_a_dead_path_strands_nothing() {
    for subflow in 0..3 {
        // Dead from the start, after the SYN, and while data are in flight.
        for lives in [0, 2, 40] {
            let mut pair = Pair::new(wide(), testbed(1, 3));
            let flow = start(&mut pair, 100 * SEGMENT);
            cut(&mut pair, subflow, lives);
            assert!(pair.run_until_done(seconds(1)));
            let result = pair.result(flow);
            let done = result.completed_at.unwrap();
            // 1.4 ms without a fault. The RTO is 1 ms, as 4 deviations of the RTT are less; it may
            // pass twice, first for data, then for probes.
            assert!(done < at_us(5_000), "subflow {subflow} after {lives}: {done}");
            assert!(result.finished_at.unwrap() < at_us(8_000), "{:?}", result.finished_at);
            // The dead subflow ends with TERMs and gets no more data.
            let last = of_subflow(&pair, subflow).pop().unwrap();
            let is_syn = header(&last).has(PdqHeader::SYN);
            assert!(header(&last).has(PdqHeader::TERM) || is_syn && lives == 0);
        }
    }
}

#[test]
fn mpdq_r05_only_what_is_unacknowledged_is_sent_twice() {
    let mut pair = Pair::new(wide(), testbed(1, 3));
    let flow = start(&mut pair, 100 * SEGMENT);
    cut(&mut pair, 1, 40);
    assert!(pair.run_until_done(seconds(1)));
    let mut copies = vec![0; 100];
    data(forward(&pair)).iter().for_each(|t| copies[header(t).seq as usize] += 1);
    let twice = copies.iter().filter(|n| **n == 2).count();
    assert!(twice > 0 && copies.iter().all(|n| *n <= 2), "{copies:?}");
    // Each was dropped, or its acknowledgement was: all of subflow 1.
    let sent_by_1: Vec<u32> = data(of_subflow(&pair, 1)).iter().map(|t| header(t).seq).collect();
    for (seq, _) in copies.iter().enumerate().filter(|(_, n)| **n == 2) {
        assert!(sent_by_1.contains(&(seq as u32)), "{seq}");
    }
    assert_eq!(pair.result(flow).retransmitted, twice as u64);
    assert_eq!(pair.result(flow).delivered.total(), 100 * SEGMENT);
}

/// Paths 1 and 2 lose everything for 4 ms, so that all load goes to subflow 0. Then they work, and
/// a flow with a deadline pauses subflow 0.
#[test]
fn mpdq_r06_an_idle_subflow_is_woken_when_none_sends() {
    let mut pair = pair_of(3, 3);
    let flow = start(&mut pair, 3_000 * SEGMENT);
    pair.set_faults(|packet, _| {
        let header: PdqHeader = packet.header.get();
        // Its clock is that of the sender, in nanoseconds.
        let is_hit = packet.flow.0 == 0 && header.subflow() > 0 && header.time < 4_000_000;
        if is_hit { Fault::Drop } else { Fault::Deliver }
    });
    pair.run_until(at_us(8_000));
    let loads = |pair: &Pair<MpdqConfig>| [0, 1, 2].map(|n| pair.sender(flow).unwrap().load(n));
    let before = loads(&pair);
    assert!(before[0] > 0 && before[1] + before[2] == 0, "{before:?}");
    let mut urgent = pair.spec(Bytes::new(1_000 * SEGMENT));
    urgent.deadline = Some(pair.now() + Duration::from_secs(1));
    pair.start(urgent);
    pair.run_until(at_us(10_000));
    let after = loads(&pair);
    assert!(after.iter().all(|load| *load > 0), "{after:?}");
    assert!(after[0] < before[0], "{after:?}");
    assert!(pair.run_until_done(seconds(1)));
}

#[test]
fn mpdq_r07_a_flow_is_given_up_by_what_all_subflows_have_left() {
    // 100 segments take 1.2 ms at line rate, a third of them 0.4 ms.
    for (deadline_us, is_given_up) in [(1_100, true), (1_199, true), (1_201, false), (2_000, false)]
    {
        let mut pair = pair_of(3, 3);
        let mut spec = pair.spec(Bytes::new(100 * SEGMENT));
        spec.deadline = Some(at_us(deadline_us));
        let flow = pair.start(spec);
        pair.run_until(at_us(1));
        let at_once = pair.result(flow).abandoned_at == Some(Instant::ZERO);
        assert_eq!(at_once, is_given_up, "{deadline_us}");
        assert_eq!(at_once, pair.trace().is_empty(), "nothing is sent in vain");
        assert!(pair.run_until_done(seconds(1)));
        // 0.1 ms of start-up, a trip of 0.1 ms at the end.
        assert_eq!(pair.result(flow).completed_at.is_some(), deadline_us == 2_000);
    }
}

/// A flow of 48 ms with a deadline at 50 ms keeps the line. Another, of 4.8 ms, must be done 1 ms
/// later and waits until that is impossible.
#[test]
fn mpdq_r07_a_paused_flow_is_given_up_and_leaves_the_ports() {
    let mut pair = pair_of(3, 3);
    let spec = pair.spec(Bytes::new(4_000 * SEGMENT));
    let first = pair.start(FlowSpec { deadline: Some(at_us(50_000)), ..spec });
    let size = Bytes::new(400 * SEGMENT);
    let second = pair.start(FlowSpec { size, deadline: Some(at_us(51_000)), ..spec });
    assert!(pair.run_until_done(seconds(1)));
    assert!(pair.result(first).completed_at < Some(at_us(50_000)));
    let at = pair.result(second).abandoned_at.unwrap();
    let sent = data(forward(&pair)).iter().filter(|t| t.packet.flow == second).count() as u64;
    let last = at_us(51_000 - 12 * (400 - sent));
    assert!(sent < 20, "{sent}");
    assert!(at > last && at <= last + Duration::from_picos(1), "{at}");
    let terms = forward(&pair)
        .into_iter()
        .filter(|t| t.packet.flow == second && header(t).has(PdqHeader::TERM));
    let of: Vec<u32> = terms.map(|t| header(&t).subflow()).collect();
    assert_eq!(of, [0, 1, 2]);
}

#[test]
fn mpdq_r08_the_receiver_acknowledges_the_flow_on_the_subflow() {
    let mut pair = pair_of(3, 3);
    start(&mut pair, 50 * SEGMENT);
    assert!(pair.run_until_done(seconds(1)));
    let (mut arrived, mut by) = (0, std::collections::BTreeSet::new());
    for traced in pair.trace().iter().filter(|t| t.packet.is_to_sender()) {
        // Nothing was lost or overtaken: each segment adds one to what has arrived without a gap.
        arrived += u32::from(header(traced).has(PdqHeader::DATA));
        assert_eq!(header(traced).expected, arrived);
        by.insert(header(traced).subflow());
    }
    assert_eq!((arrived, by.len()), (50, 3));
}

#[test]
fn mpdq_r09_a_subflow_without_load_leaves_with_a_term() {
    let mut pair = pair_of(3, 3);
    let flow = start(&mut pair, 100 * SEGMENT);
    assert!(pair.run_until_done(seconds(1)));
    for subflow in 0..3 {
        let sent = of_subflow(&pair, subflow);
        let terms = sent.iter().filter(|t| header(t).has(PdqHeader::TERM)).count();
        assert_eq!(terms, 1, "subflow {subflow}");
        assert!(header(sent.last().unwrap()).has(PdqHeader::TERM));
    }
    let result = pair.result(flow);
    let answered = |t: &&Traced| t.packet.is_to_sender() && header(t).has(PdqHeader::TERM);
    let last_answer = pair.trace().iter().rfind(answered).unwrap().at;
    assert!(result.finished_at > Some(last_answer), "it waits for the answers to all");
    assert!(result.completed_at < result.finished_at);
    assert!(pair.forward_controllers().all(|port| port.unwrap().list().is_empty()));
}

/// At the same instants, with losses too.
#[test]
fn mpdq_r11_one_subflow_is_pdq() {
    for (drop_every, size) in [(u64::MAX, 100_001), (17, 100_001), (5, 300_000), (u64::MAX, 0)] {
        let faults = move |_: &Packet, index: u64| {
            if index % drop_every == drop_every - 1 { Fault::Drop } else { Fault::Deliver }
        };
        let mut multi = pair_of(1, 4);
        let mut single = Pair::new(PdqConfig::default(), testbed(1, 4));
        multi.set_faults(faults);
        single.set_faults(faults);
        let both = [start(&mut multi, size), start(&mut multi, size / 2)];
        both.iter().zip([size, size / 2]).for_each(|(flow, size)| {
            assert_eq!(start(&mut single, size), *flow);
        });
        assert!(multi.run_until_done(seconds(10)) && single.run_until_done(seconds(10)));
        let sent = |t: &Traced| (t.at, header(t), t.packet.path, t.packet.wire_bytes);
        let (multi, single): (Vec<_>, Vec<_>) =
            (multi.trace().iter().map(sent).collect(), single.trace().iter().map(sent).collect());
        assert!(multi == single, "drop every {drop_every}, {size} bytes");
    }
}

fn ask(port: &mut PdqPort, flow: u32, subflow: u32, expected: u32) -> PdqHeader {
    let header = PdqHeader {
        rate: 1_000_000,
        pauser: NOBODY,
        deadline: u32::MAX,
        expected,
        rtt: 150_000,
        route: PdqHeader::route(3, subflow),
        ..PdqHeader::default()
    };
    let mut packet = Packet::new(FlowId(flow), HostId(1), Header::new(header));
    packet.wire_bytes = 60;
    let view = PortView {
        port: PortId(7),
        now: at_us(1_000 * u64::from(flow + subflow)),
        rate: GBPS,
        framing: Bytes::ZERO,
        queue_bytes: 0,
        queue_packets: 0,
        sent_bytes: 0,
    };
    port.handle_forward(&mut packet, &view, &mut ExtArena::default());
    packet.header.get()
}

#[test]
fn mpdq_r12_a_subflow_is_a_flow_to_ports() {
    let mut port = PdqPort::new(&PdqConfig::default());
    let long = 100_000; // 1 ms
    assert_eq!(ask(&mut port, 4, 0, long).pauser, NOBODY);
    assert_eq!(ask(&mut port, 4, 2, long).pauser, 7, "behind its sibling");
    assert_eq!(ask(&mut port, 4, 1, long).pauser, 7);
    assert_eq!(ask(&mut port, 3, 0, long + 1).pauser, 7, "a flow of PDQ behind all");
    let keys: Vec<FlowKey> = port.list().entries().iter().map(|e| e.rank.key()).collect();
    let order = [(4, 0), (4, 1), (4, 2), (3, 0)].map(|(flow, sub)| FlowKey::new(flow, sub));
    assert_eq!(keys, order, "by T, then id, then subflow");
    assert_eq!(ask(&mut port, 4, 15, long - 1).subflow(), 15);
    assert_eq!(port.list().entries()[0].rank.key(), FlowKey::new(4, 15));
}

#[test]
fn mpdq_r13_parameters_are_those_of_pdq_and_the_number_of_subflows() {
    let config = MpdqConfig::default();
    assert_eq!((config.pdq(), config.subflows), (PdqConfig::default(), 3));
    let queue = config.default_queue(GBPS, Bytes::new(1500));
    assert_eq!(queue, QueueSpec::DropTail { limit: Limit::Bytes(Bytes::new(4_000_000)) });
    for subflows in [0, 17] {
        let error = MpdqConfig { subflows, ..MpdqConfig::default() }.validate().unwrap_err();
        assert_eq!((error.name, error.expected), ("subflows", "between 1 and 16"));
    }
    let error = MpdqConfig { aging: -1.0, ..MpdqConfig::default() }.validate().unwrap_err();
    assert_eq!(error.name, "aging");
    assert!(config.may_abandon());
}
