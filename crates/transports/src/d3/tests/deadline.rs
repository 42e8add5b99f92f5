//! What deadlines bring into play.

use super::super::{
    AfterDeadline, Allocator, D3Config, FlowDemand, Grant, Grants, RequestKind, RequestPlan,
};
use super::*;
use proptest::prelude::*;
use punctual_core::{Class, FlowEvent, HostId, NicInfo, Transport};
use punctual_testkit::{Fault, FaultOdds};

const LINE: Rate = Rate::from_gbps(1);
const BASE: Rate = Rate::from_bps(992_000);
const SEGMENT: u64 = 1500 - 62;

const NIC: NicInfo =
    NicInfo { host: HostId(0), rate: LINE, mtu: Bytes::new(1500), framing: Bytes::ZERO, nics: 1 };

fn us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(us)
}

/// Capacities stay where they start.
fn fixed() -> D3Config {
    D3Config {
        params: D3CommonConfig { alpha: 0.0, beta: 0.0, ..D3CommonConfig::default() },
        ..D3Config::default()
    }
}

fn quenching() -> D3Config {
    D3Config { quenching: true, ..fixed() }
}

/// Rates are one byte.
fn one_byte(config: D3Config) -> D3Config {
    D3Config { params: D3CommonConfig { integer_rates: true, ..config.params }, ..config }
}

fn need(remaining: u64, left_us: u64, rate_mbps: u64, rtt_us: u64) -> FlowDemand {
    FlowDemand {
        now: us(1_000),
        deadline: Some(us(1_000 + left_us)),
        allowance: Duration::from_micros(10_000),
        remaining: Bytes::new(remaining),
        rate: Rate::from_mbps(rate_mbps),
        rtt: Duration::from_micros(rtt_us),
    }
}

fn assert_ports_empty(pair: &Pair<D3Config>) {
    for port in pair.forward_controllers() {
        let sums = port.unwrap().allocator();
        assert_eq!((sums.flows, sums.demand, sums.allocated), (0, Rate::ZERO, Rate::ZERO));
        assert_eq!((sums.demand_important, sums.allocated_important), (Rate::ZERO, Rate::ZERO));
    }
}

#[test]
fn d3_r27_the_first_request_is_for_size_over_deadline() {
    let mut pair = Pair::new(fixed(), PairPath { framing: Bytes::new(38), ..testbed(1) });
    let timed = start_timed(&mut pair, 100 * SEGMENT, 0, 20_000);
    let plain = start(&mut pair, 100 * SEGMENT);
    let endless = start_timed(&mut pair, u64::MAX, 0, 20_000);
    pair.run_until(us(2_000));
    let first = |flow| {
        let sent = requests(&pair);
        block(sent.iter().find(|t| t.packet.flow == flow).unwrap())
    };
    // With headers and framing: what the line must carry.
    let wire = Bytes::new(100 * (SEGMENT + 40 + 38));
    assert_eq!(first(timed).desired, Rate::of(wire, Duration::from_micros(20_000)));
    assert_eq!(first(timed).desired_before, Rate::ZERO);
    assert_eq!((first(plain).desired, first(endless).desired), (Rate::ZERO, Rate::ZERO));
    // What it asks for it gets with the first answer: it does not pause.
    assert!(pair.sender(timed).unwrap().rate() >= first(timed).desired);
}

#[test]
fn d3_r28_later_requests_count_what_is_sent_and_two_round_trips() {
    let ask = |need: &FlowDemand| D3Config::default().plan(need, &NIC);
    let mbps = |m| RequestPlan::Ask(Rate::from_mbps(m));
    // 50 000 B less 80 Mb/s for 500 µs (5000 B), in 4 ms less 1 ms.
    assert_eq!(ask(&need(50_000, 4_000, 80, 500)), mbps(120));
    assert_eq!(ask(&need(50_000, 4_000, 0, 0)), mbps(100), "as the first request");
    assert_eq!(ask(&need(5_000, 4_000, 80, 500)), mbps(0), "what flows already is enough");
    assert_eq!(ask(&need(4_000, 4_000, 80, 500)), mbps(0));
    assert_eq!(ask(&FlowDemand { deadline: None, ..need(50_000, 0, 0, 500) }), mbps(0));
}

#[test]
fn d3_r28_a_flow_served_as_asked_ends_just_in_time() {
    // Nine long flows want all there is; the tenth gets what it needs, and a share.
    for deadline_us in [6_000, 10_000, 20_000] {
        let mut pair = Pair::new(fixed(), testbed(1));
        for _ in 0..9 {
            start(&mut pair, u64::MAX);
        }
        let flow = start_timed(&mut pair, 200 * SEGMENT, 5_000, deadline_us);
        pair.run_until(us(60_000));
        let took = pair.result(flow).completed_at.unwrap() - us(5_000);
        let ratio = took.as_secs_f64() * 1e6 / deadline_us as f64;
        println!(
            "200 packets among 9 long flows, deadline {deadline_us} us: done at {ratio:.3} of it"
        );
        // It gets what is left to send over the time left, R / u, and a tenth of the rest of the
        // line C. So R' = -(0.9·R/u + 0.1·C), which is zero when u = T·(1 − S/CT)^10 is left of T.
        // T ends two round trips of 0.5 ms before the deadline (D3-R28). The rates follow a round
        // trip late, so that it ends no sooner than this.
        let (size_ms, time_ms) = (200.0 * 1516.0 * 8.0 / 1e6, deadline_us as f64 / 1e3 - 1.0);
        let left = (1.0 - size_ms / time_ms).powi(10);
        let soonest = (1.0 - left) * time_ms / (time_ms + 1.0);
        println!("  {soonest:.3} by the fluid model");
        assert!((soonest..1.0).contains(&ratio), "{ratio}, {soonest} at the soonest");
    }
}

#[test]
fn d3_r29_no_flow_asks_for_more_than_its_line() {
    let late = need(1_000_000, 100, 0, 0);
    assert_eq!(D3Config::default().plan(&late, &NIC), RequestPlan::Ask(LINE));
}

#[test]
fn d3_r30_a_late_flow_asks_for_nothing_and_goes_on() {
    let ask = |need: &FlowDemand| D3Config::default().plan(need, &NIC);
    assert_eq!(
        ask(&need(50_000, 1_000, 0, 500)),
        RequestPlan::Ask(Rate::ZERO),
        "two round trips left"
    );
    assert_eq!(ask(&need(50_000, 0, 0, 100)), RequestPlan::Ask(Rate::ZERO));
    for deadline_us in [0, 1, 11, 300, 1_500] {
        let mut pair = Pair::new(fixed(), testbed(1));
        let flow = start_timed(&mut pair, 300 * SEGMENT, 0, deadline_us);
        assert!(pair.run_until_done(seconds(1)), "{deadline_us}");
        assert!(pair.result(flow).finished_at.is_some());
        let late: Vec<_> =
            requests(&pair).into_iter().filter(|t| t.at >= us(deadline_us)).collect();
        assert!(late.len() > 2 && late.iter().all(|t| block(t).desired == Rate::ZERO));
        assert_ports_empty(&pair);
    }
}

#[test]
fn d3_r30_a_deadline_before_the_start_is_late() {
    for config in [D3Config::default(), quenching()] {
        let mut pair = Pair::new(config.clone(), testbed(1));
        let spec = pair.spec(Bytes::new(10_000));
        let flow = pair.start(FlowSpec { start: us(50), deadline: Some(us(20)), ..spec });
        assert!(pair.run_until_done(seconds(1)));
        let result = pair.result(flow);
        assert_eq!(result.abandoned_at.is_some(), config.quenching);
        assert_eq!(result.finished_at.is_some(), !config.quenching);
    }
}

#[test]
fn d3_r31_a_flow_beyond_its_uplink_is_quenched_unseen() {
    // 300 packets take 3.5 ms; nobody hears of a flow that has 3 ms.
    let mut pair = Pair::new(quenching(), testbed(1));
    let flow = start_timed(&mut pair, 300 * SEGMENT, 7, 3_000);
    assert!(pair.run_until_done(seconds(1)));
    assert_eq!(pair.result(flow).abandoned_at, Some(us(7)));
    assert!(pair.trace().is_empty());
}

#[test]
fn d3_r31_a_quenched_flow_returns_what_it_holds_then_is_given_up() {
    // A flow that needs 80 % of the line holds it when another comes that needs 92 %.
    let mut pair = Pair::new(quenching(), testbed(1));
    start_timed(&mut pair, 400 * SEGMENT, 0, 6_000);
    let second = start_timed(&mut pair, 700 * SEGMENT, 300, 9_000);
    assert!(pair.run_until_done(seconds(1)));
    let gone = pair.result(second).abandoned_at.unwrap();
    assert!(gone > us(1_000) && gone < us(9_300), "{gone}");
    let sent = requests(&pair);
    let mine: Vec<_> = sent.iter().filter(|t| t.packet.flow == second).collect();
    let last = mine.last().unwrap();
    assert!(header(last).has(D3Header::FIN) && last.packet.payload_bytes == 0);
    assert_eq!(block(last).granted_before, *pair.sender(second).unwrap().grants());
    assert!(gone > last.at, "it waits until its last request is known to have arrived");
    let data = forward(&pair).into_iter().filter(|t| t.packet.flow == second);
    assert!(data.filter(|t| t.at > last.at).count() == 0);
    assert_ports_empty(&pair);
}

#[test]
fn d3_r31_a_lost_last_request_of_a_quenched_flow_goes_again() {
    let mut pair = Pair::new(quenching(), testbed(1));
    start_timed(&mut pair, 400 * SEGMENT, 0, 6_000);
    let second = start_timed(&mut pair, 700 * SEGMENT, 300, 9_000);
    let mut fins = 0;
    pair.set_faults(move |packet, _| {
        let fin = packet.flow == second && packet.header.get::<D3Header>().has(D3Header::FIN);
        fins += u32::from(fin);
        if fin && fins == 1 { Fault::Drop } else { Fault::Deliver }
    });
    assert!(pair.run_until_done(seconds(1)));
    let result = pair.result(second);
    assert!(result.abandoned_at.is_some() && result.timed_out == 1);
    pair.run_until(pair.now() + Duration::from_millis(10));
    assert_ports_empty(&pair);
}

#[test]
fn d3_r31_late_flows_end_at_their_deadline() {
    // Paused or sending, whoever has data left by then ends within a round trip.
    let mut pair = Pair::new(D3Config { quenching: true, ..D3Config::default() }, testbed(1));
    let flows: Vec<FlowId> =
        (0..6).map(|_| start_timed(&mut pair, 560 * SEGMENT, 0, 40_000)).collect();
    assert!(pair.run_until_done(seconds(1)));
    let results = flows.iter().map(|flow| pair.result(*flow));
    let met = results.clone().filter(|r| r.completed_at.is_some_and(|at| at <= us(40_000))).count();
    let gone = results.clone().filter(|r| r.abandoned_at.is_some()).count();
    println!("six flows of 560 packets within 40 ms, room for five: {met} met, {gone} quenched");
    assert!(gone >= 1);
    for result in results {
        let end = result.abandoned_at.or(result.completed_at).unwrap();
        assert!(end < us(41_300), "{end}");
    }
    assert_ports_empty(&pair);
}

#[test]
fn d3_r32_rates_of_one_byte() {
    let config = one_byte(fixed());
    let nic = |gbps| NicInfo { rate: Rate::from_gbps(gbps), ..NIC };
    let scales = [1, 2, 3, 10, 40, 400, 1_000].map(|gbps| config.scale(&nic(gbps)));
    assert_eq!(scales, [1, 1, 2, 5, 20, 197, 255]);
    assert_eq!(D3Config::default().scale(&NIC), 0);
    // Up to the next step, so that the deadline holds: 100.1 Mb/s are 13 steps.
    assert_eq!(
        config.plan(&need(50_050, 4_000, 0, 0), &NIC),
        RequestPlan::Ask(Rate::from_mbps(104))
    );
    let mut pair = Pair::new(config, testbed(1));
    let timed = start_timed(&mut pair, 300 * SEGMENT, 0, 20_000);
    for _ in 0..6 {
        start(&mut pair, 300 * SEGMENT);
    }
    assert!(pair.run_until_done(seconds(1)));
    assert!(pair.result(timed).completed_at.unwrap() < us(20_000));
    for traced in pair.trace().iter().filter(|t| t.ext.is_some()) {
        let block = block(traced);
        let rates = block.granted_before.iter().chain(block.feedback.iter()).map(Grant::counted);
        for rate in rates.chain([block.desired, block.desired_before]) {
            assert_eq!(rate.as_bps() % 8_000_000, 0);
            assert!(rate.as_bps() / 8_000_000 <= 255);
        }
    }
    assert_ports_empty(&pair);
}

#[test]
fn d3_r32_more_flows_than_steps_do_not_stand_still() {
    let mut pair = Pair::new(one_byte(fixed()), testbed(0));
    for _ in 0..200 {
        start(&mut pair, 3 * SEGMENT);
    }
    assert!(pair.run_until_done(seconds(2)));
    assert_ports_empty(&pair);
}

#[derive(Clone, Copy, Default)]
struct Flow {
    held: Grants,
    desired: Rate,
    important: bool,
}

impl Flow {
    fn ask(&mut self, port: &mut Allocator, kind: RequestKind, mbps: u64) -> u64 {
        let desired = Rate::from_mbps(mbps);
        let mut block = RateBlock {
            desired,
            desired_before: self.desired,
            granted_before: self.held,
            important: self.important,
            ..RateBlock::default()
        };
        assert!(port.handle_request(&mut block, kind, BASE));
        (self.held, self.desired) = (block.granted, desired);
        block.granted.lowest().counted().as_bps() / 1_000_000
    }
}

#[test]
fn d3_r33_inversions_are_cuts_while_a_later_deadline_holds_a_grant() {
    use punctual_core::{Controller, ExtArena, Header, Packet, PortId, PortView};
    let view = PortView {
        port: PortId(0),
        now: us(1),
        rate: LINE,
        framing: Bytes::ZERO,
        queue_bytes: 0,
        queue_packets: 0,
        sent_bytes: 0,
    };
    let mut port = D3Config { count_inversions: true, ..fixed() }.controller(&view).unwrap();
    let mut ext = ExtArena::default();
    let mut ask = |flow, flags, deadline_us, mbps, before: Grants, desired_before| {
        let flags = flags | D3Header::REQUEST;
        let header = D3Header { flags, ..D3Header::default() };
        let mut packet = Packet::new(FlowId(flow), HostId(1), Header::new(header));
        let request = RateBlock {
            desired: Rate::from_mbps(mbps),
            desired_before: Rate::from_mbps(desired_before),
            granted_before: before,
            deadline: Some(us(deadline_us)),
            ..RateBlock::default()
        };
        let id = ext.alloc(request.to_block());
        packet.ext = Some(id);
        port.handle_forward(&mut packet, &view, &mut ext);
        let granted = RateBlock::from_block(ext.get(id)).unwrap().granted;
        let count = port.inversions().unwrap();
        (granted, count.requests(), count.inverted())
    };
    let none = Grants::default();
    let (a, ..) = ask(0, D3Header::SYN, 9_000, 700, none, 0);
    let (b, requests, inverted) = ask(1, D3Header::SYN, 5_000, 600, none, 0);
    assert_eq!((requests, inverted), (2, 1), "cut to 299 while a later deadline holds 701");
    assert_eq!(ask(2, D3Header::SYN, 20_000, 300, none, 0).2, 1, "cut by earlier ones: in order");
    ask(0, D3Header::FIN, 9_000, 0, a, 700);
    assert_eq!(ask(1, 0, 5_000, 600, b, 600).2, 1, "all it asked for");
    assert!(D3Config::default().controller(&view).unwrap().inversions().is_none());
}

#[test]
fn d3_r34_soft_deadlines_can_be_extended() {
    let config = D3Config { after_deadline: AfterDeadline::Extend, extension: 0.5, ..fixed() };
    assert_eq!(config.plan(&need(50_000, 0, 0, 100), &NIC), RequestPlan::Extend(us(6_000)));
    assert_eq!(
        config.plan(&need(50_000, 4_000, 0, 0), &NIC),
        RequestPlan::Ask(Rate::from_mbps(100))
    );
    for extend in [false, true] {
        let config = if extend { config.clone() } else { fixed() };
        let mut pair = Pair::new(config, testbed(1));
        for _ in 0..19 {
            start(&mut pair, u64::MAX);
        }
        // Twice what the line carries in that time.
        let flow = start_timed(&mut pair, 1_600 * SEGMENT, 5_000, 10_000);
        pair.run_until(us(400_000));
        let asks = requests(&pair);
        let late = asks.iter().filter(|t| t.packet.flow == flow && t.at > us(15_000));
        assert_eq!(late.filter(|t| block(t).desired > Rate::ZERO).count() > 0, extend);
        let took = pair.result(flow).completed_at.unwrap() - us(5_000);
        println!("1600 packets due in 10 ms among 19 long flows, extend = {extend}: {took}");
        assert_eq!(took < Duration::from_millis(40), extend);
    }
    // Even a deadline at the start itself.
    let mut pair = Pair::new(config, testbed(1));
    start_timed(&mut pair, 10 * SEGMENT, 0, 0);
    assert!(pair.run_until_done(seconds(1)));
}

#[test]
fn d3_r35_a_rate_that_keeps_rising_can_end_a_flow() {
    let outcome = |speculative_quenching| {
        let mut pair = Pair::new(D3Config { speculative_quenching, ..quenching() }, testbed(1));
        start_timed(&mut pair, 1_100 * SEGMENT, 0, 15_000);
        let second = start_timed(&mut pair, 900 * SEGMENT, 300, 15_000);
        assert!(pair.run_until_done(seconds(1)));
        assert_ports_empty(&pair);
        pair.result(second).abandoned_at.expect("no room for it")
    };
    let (never, soon) = (outcome(0), outcome(4));
    println!("a flow without room ends at {never}, after four rises at {soon}");
    assert!(soon < us(4_000) && soon < never);
}

#[test]
fn d3_r36_important_demands_are_met_first() {
    let mut port = Allocator::new(LINE);
    let (mut low, mut high) = (Flow::default(), Flow { important: true, ..Flow::default() });
    assert_eq!(low.ask(&mut port, RequestKind::New, 700), 700);
    assert_eq!(high.ask(&mut port, RequestKind::New, 600), 299, "what is left");
    assert_eq!(low.ask(&mut port, RequestKind::Running, 700), 400, "it leaves what is desired");
    assert_eq!(high.ask(&mut port, RequestKind::Running, 600), 600);
    assert_eq!(low.ask(&mut port, RequestKind::Running, 700), 400);
    high.ask(&mut port, RequestKind::Last, 0);
    assert_eq!(low.ask(&mut port, RequestKind::Running, 700), 1_000);
    low.ask(&mut port, RequestKind::Last, 0);
    assert_eq!(port, Allocator::new(LINE));
}

#[test]
fn d3_r36_importance_is_a_class_better_than_data() {
    for two_stage in [false, true] {
        let mut pair = Pair::new(D3Config { two_stage, ..fixed() }, testbed(1));
        // Two thirds of the line each.
        let common = start_timed(&mut pair, 560 * SEGMENT, 0, 10_000);
        let spec = pair.spec(Bytes::new(560 * SEGMENT));
        let class = Class(0);
        let spec = FlowSpec { start: us(600), deadline: Some(us(10_600)), class, ..spec };
        let important = pair.start(spec);
        assert!(pair.run_until_done(seconds(1)));
        let took =
            |flow, start| (pair.result(flow).completed_at.unwrap() - us(start)).as_secs_f64() * 1e3;
        let (first, second) = (took(common, 0), took(important, 600));
        println!("two_stage = {two_stage}: ordinary {first:.2} ms, important {second:.2} ms of 10");
        assert_eq!(second < 10.0 && second < first, two_stage);
        assert_ports_empty(&pair);
    }
}

#[test]
fn d3_r46_an_abandoned_flow_leaves_its_ports() {
    // At once, when its first request is unanswered, and when it has sent for a while.
    for cancelled_at in [0, 100, 5_000, 5_137] {
        let mut pair = Pair::new(fixed(), testbed(2));
        let abandoned = start_timed(&mut pair, 10_000_000, 0, 100_000);
        let other = start(&mut pair, 10_000_000);
        pair.run_until(us(cancelled_at));
        pair.cancel(abandoned);
        pair.run_until(us(cancelled_at + 10_000));
        let is_end = |(_, event): &(Instant, FlowEvent)| *event == FlowEvent::Abandoned;
        assert_eq!(pair.result(abandoned).events.iter().filter(|e| is_end(e)).count(), 1);
        for port in pair.forward_controllers() {
            let sums = port.unwrap().allocator();
            assert_eq!((sums.flows, sums.demand), (1, Rate::ZERO), "at {cancelled_at} us");
            // Nobody has seen what the ports granted to an unanswered first request.
            let is_exact = cancelled_at >= 5_000;
            let held = pair.sender(other).unwrap().rate();
            assert!(!is_exact || sums.allocated == held, "{sums:?}, {held:?}");
        }
    }
}

#[test]
fn parameters_stand_beside_those_of_rcpdc() {
    use serde::de::value::{Error as ValueError, MapDeserializer};
    let read = |pairs: &[(&'static str, &'static str)]| {
        let map = MapDeserializer::<_, ValueError>::new(pairs.iter().copied());
        D3Config::deserialize(map).map_err(|error| error.to_string())
    };
    assert_eq!(read(&[]), Ok(D3Config::default()));
    let config = read(&[("rto_min", "5ms"), ("after_deadline", "extend")]).unwrap();
    assert_eq!(config.after_deadline, AfterDeadline::Extend);
    assert_eq!(config.params.rto_min, Duration::from_millis(5));
    assert!(read(&[("base_rate", "0bps")]).unwrap_err().contains("must be above 0"));
    assert!(read(&[("quench", "true")]).unwrap_err().contains("unknown field"));
    let both = D3Config { after_deadline: AfterDeadline::Extend, ..quenching() };
    assert_eq!(both.validate().unwrap_err().name, "after_deadline");
    assert_eq!(D3Config { extension: 0.0, ..fixed() }.validate().unwrap_err().name, "extension");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(128)))]

    /// Whatever happens to packets and whatever the deadlines, every flow ends, once, and ports
    /// forget it.
    #[test]
    fn timed_flows_end_whatever_happens_to_packets(
        flows in prop::collection::vec((0u64..120_000, 0u64..3_000, 0u64..20_000), 1..6),
        (drop, duplicate, delay) in (0.0..0.3, 0.0..0.2, 0.0..0.3),
        switches in 0usize..5,
        (quenching, integer_rates, two_stage, extend) in any::<(bool, bool, bool, bool)>(),
        speculative_quenching in 0u32..4,
        seed: u64,
    ) {
        let after_deadline =
            if extend && !quenching { AfterDeadline::Extend } else { AfterDeadline::FairShare };
        let config = D3Config {
            params: D3CommonConfig { integer_rates, ..D3CommonConfig::default() },
            quenching, two_stage, after_deadline, speculative_quenching,
            count_inversions: true,
            ..D3Config::default()
        };
        prop_assert_eq!(config.validate(), Ok(()));
        let mut pair = Pair::new(config, testbed(switches));
        let delay_below = Duration::from_micros(2_000);
        let odds = FaultOdds { drop, duplicate, delay, delay_below, ..FaultOdds::default() };
        pair.set_faults(odds.rule(seed));
        let ids: Vec<FlowId> = flows
            .into_iter()
            .map(|(size, start, deadline)| start_timed(&mut pair, size, start, deadline))
            .collect();
        prop_assert!(pair.run_until_done(seconds(120)));
        for id in ids {
            let over = |e: &FlowEvent| matches!(e, FlowEvent::Finished | FlowEvent::Abandoned);
            prop_assert_eq!(pair.result(id).events.iter().filter(|(_, e)| over(e)).count(), 1);
        }
        pair.run_until(pair.now() + Duration::from_millis(10));
        assert_ports_empty(&pair);
        prop_assert_eq!(pair.extensions(), 0);
    }
}
