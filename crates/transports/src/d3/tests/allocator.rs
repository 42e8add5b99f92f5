//! The allocator driven directly: exact grants, no network.

use super::super::{
    Allocator, CapacityRule, D3CommonConfig, D3Header, D3Port, Grant, Grants, HOPS_MAX, PortLoad,
    RateBlock, RequestKind,
};
use proptest::prelude::*;
use punctual_core::{
    Bytes, Controller, Duration, ExtArena, FlowId, Header, HostId, Instant, Packet, PacketFlags,
    PortId, PortView, Rate,
};

const LINE: Rate = Rate::from_gbps(1);
const BASE: Rate = Rate::from_bps(992_000);

/// A flow as the ports of one port's path see it.
#[derive(Clone, Copy, Default)]
struct Flow {
    held: Grants,
    desired: Rate,
}

impl Flow {
    fn ask(&mut self, port: &mut Allocator, kind: RequestKind, desired: Rate) -> Grant {
        let mut block = RateBlock {
            desired,
            desired_before: self.desired,
            granted_before: self.held,
            ..RateBlock::default()
        };
        assert!(port.handle_request(&mut block, kind, BASE));
        (self.held, self.desired) = (block.granted, desired);
        block.granted.get(0).unwrap_or(Grant::Base)
    }
    fn open(&mut self, port: &mut Allocator) -> Grant {
        self.ask(port, RequestKind::New, Rate::ZERO)
    }
    fn next(&mut self, port: &mut Allocator) -> Grant {
        self.ask(port, RequestKind::Running, Rate::ZERO)
    }
    fn close(&mut self, port: &mut Allocator) {
        self.ask(port, RequestKind::Last, Rate::ZERO);
    }
}

fn mbps(mbps: u64) -> Grant {
    Grant::Rate(Rate::from_mbps(mbps))
}

#[test]
fn d3_r13_one_flow_pauses_once_then_has_the_line() {
    let (mut port, mut flow) = (Allocator::new(LINE), Flow::default());
    assert_eq!(flow.open(&mut port), Grant::Base);
    assert_eq!((port.flows, port.allocated), (1, Rate::ZERO));
    for _ in 0..3 {
        assert_eq!(flow.next(&mut port), mbps(1000));
        assert_eq!(port.allocated, LINE);
    }
    flow.close(&mut port);
    assert_eq!(port, Allocator::new(LINE));
}

#[test]
fn d3_r15_a_second_flow_waits_until_the_first_has_made_room() {
    let (mut port, mut a, mut b) = (Allocator::new(LINE), Flow::default(), Flow::default());
    a.open(&mut port);
    assert_eq!(a.next(&mut port), mbps(1000));
    assert_eq!(b.open(&mut port), Grant::Base);
    assert_eq!(b.next(&mut port), Grant::Base, "nothing is left yet");
    assert_eq!(a.next(&mut port), mbps(500), "there are two flows now");
    assert_eq!(b.next(&mut port), mbps(500));
    assert_eq!(port.allocated, LINE);
    a.close(&mut port);
    assert_eq!(b.next(&mut port), mbps(1000));
    b.close(&mut port);
    assert_eq!(port, Allocator::new(LINE));
}

#[test]
fn d3_r11_n_flows_share_evenly_and_return_everything() {
    for n in [1u64, 2, 3, 7, 40] {
        let mut port = Allocator::new(LINE);
        let mut flows = vec![Flow::default(); n as usize];
        assert!(flows.iter_mut().all(|flow| flow.open(&mut port) == Grant::Base));
        let share = Rate::from_bps(LINE.as_bps() / n);
        for _ in 0..4 {
            for flow in &mut flows {
                assert_eq!(flow.next(&mut port), Grant::Rate(share));
                assert!(port.allocated <= LINE);
            }
            assert_eq!(port.allocated.as_bps(), share.as_bps() * n);
        }
        flows.iter_mut().for_each(|flow| flow.close(&mut port));
        assert_eq!(port, Allocator::new(LINE));
    }
}

#[test]
fn d3_r11_desired_rates_are_met_and_the_rest_is_shared() {
    let (mut port, mut a, mut b) = (Allocator::new(LINE), Flow::default(), Flow::default());
    let ask = |flow: &mut Flow, port: &mut _, kind, desired| {
        flow.ask(port, kind, Rate::from_mbps(desired))
    };
    let base_plus = |m: u64| Grant::Rate(Rate::from_mbps(m) + BASE);
    assert_eq!(ask(&mut a, &mut port, RequestKind::New, 200), base_plus(200));
    assert_eq!(port.demand, Rate::from_mbps(200));
    assert_eq!(ask(&mut b, &mut port, RequestKind::New, 400), base_plus(400));
    assert_eq!(port.demand, Rate::from_mbps(600));
    // (1000 − 600) / 2 for each on top of what it desires.
    assert_eq!(ask(&mut a, &mut port, RequestKind::Running, 200), mbps(400));
    assert_eq!(ask(&mut b, &mut port, RequestKind::Running, 400), mbps(600));
    // A lower desire counts from its own request on: (1000 − 500) / 2.
    assert_eq!(ask(&mut a, &mut port, RequestKind::Running, 100), mbps(350));
    a.close(&mut port);
    b.close(&mut port);
    assert_eq!(port, Allocator::new(LINE));
}

#[test]
fn d3_r12_the_last_request_returns_all_and_is_granted_nothing() {
    let (mut port, mut flow) = (Allocator::new(LINE), Flow::default());
    flow.ask(&mut port, RequestKind::New, Rate::from_mbps(100));
    let mut block = RateBlock {
        desired_before: flow.desired,
        granted_before: flow.held,
        ..RateBlock::default()
    };
    assert!(port.handle_request(&mut block, RequestKind::Last, BASE));
    assert_eq!(port, Allocator::new(LINE));
    assert!(block.granted.is_empty());
    assert_eq!(block.index, 1, "the next port must find its own entry");
}

#[test]
fn d3_r14_the_fair_share_is_never_negative() {
    let mut port = Allocator::new(LINE);
    let (mut a, mut b) = (Flow::default(), Flow::default());
    a.ask(&mut port, RequestKind::New, Rate::from_mbps(600));
    b.ask(&mut port, RequestKind::New, Rate::from_mbps(900));
    assert_eq!(port.fair_share(), Rate::ZERO);
    // 600 desired, 600 granted: the excess demand takes nothing away.
    assert_eq!(a.ask(&mut port, RequestKind::Running, Rate::from_mbps(600)), mbps(600));
    // What is left, though it is less than desired.
    assert_eq!(b.ask(&mut port, RequestKind::Running, Rate::from_mbps(900)), mbps(400));
    // Without a flow there is no division by zero.
    assert_eq!(Allocator::new(LINE).fair_share(), LINE);
}

/// A new flow's share is the base rate even where the fair share is less, so that the sum of
/// grants may exceed the capacity by the base rate.
#[test]
fn d3_r41_a_new_flow_may_bring_grants_to_a_base_rate_above_the_capacity() {
    let mut port = Allocator::new(LINE);
    let (mut a, mut b) = (Flow::default(), Flow::default());
    a.ask(&mut port, RequestKind::New, Rate::from_mbps(600));
    assert_eq!(port.allocated, Rate::from_mbps(600) + BASE);
    // 399.008 Mb/s are left.
    b.ask(&mut port, RequestKind::New, Rate::from_mbps(399));
    assert_eq!(port.fair_share(), Rate::from_bps(500_000));
    assert_eq!(port.allocated, Rate::from_mbps(999) + BASE + BASE);
    assert!(port.allocated > LINE && port.allocated <= LINE + BASE);
}

#[test]
fn d3_r16_base_rate_grants_are_marked_and_not_counted() {
    let mut port = Allocator { allocated: LINE, flows: 1, ..Allocator::new(LINE) };
    let mut flow = Flow::default();
    assert_eq!(flow.open(&mut port), Grant::Base);
    assert_eq!(port.allocated, LINE);
    assert_eq!(flow.next(&mut port), Grant::Base);
    assert_eq!(port.allocated, LINE, "and returning one returns nothing");
    // A share no larger than the base rate is the base rate.
    let mut port = Allocator { flows: 2000, ..Allocator::new(LINE) };
    assert_eq!(flow.next(&mut port), Grant::Base);
}

#[test]
fn d3_r17_no_port_grants_more_than_the_one_before() {
    let mut narrow = Allocator::new(Rate::from_mbps(100));
    let mut wide = Allocator::new(LINE);
    (narrow.flows, wide.flows) = (1, 1);
    let mut block = RateBlock::default();
    narrow.handle_request(&mut block, RequestKind::Running, BASE);
    wide.handle_request(&mut block, RequestKind::Running, BASE);
    assert_eq!(block.granted.iter().collect::<Vec<_>>(), [mbps(100), mbps(100)]);
    assert_eq!(wide.allocated, Rate::from_mbps(100));

    let mut full = Allocator { allocated: LINE, flows: 2, ..Allocator::new(LINE) };
    let mut wide = Allocator { flows: 1, ..Allocator::new(LINE) };
    let mut block = RateBlock::default();
    full.handle_request(&mut block, RequestKind::Running, BASE);
    wide.handle_request(&mut block, RequestKind::Running, BASE);
    assert_eq!(block.granted.get(1), Some(Grant::Base), "a base mark stands for the base rate");
    assert_eq!(wide.allocated, Rate::ZERO);
}

#[test]
fn d3_r18_sums_stop_at_zero() {
    let mut port = Allocator::new(LINE);
    let mut flow = Flow::default();
    flow.open(&mut port);
    flow.next(&mut port);
    let before = flow;
    flow.close(&mut port);
    let mut repeated = before;
    repeated.desired = Rate::from_mbps(5);
    repeated.close(&mut port);
    assert_eq!(port, Allocator::new(LINE));
}

#[test]
fn d3_r09_a_seventh_port_counts_nothing_and_says_so() {
    let mut ports = [Allocator::new(LINE); HOPS_MAX + 1];
    let mut block = RateBlock::default();
    let heard = ports.each_mut().map(|p| p.handle_request(&mut block, RequestKind::New, BASE));
    assert_eq!(heard, [true, true, true, true, true, true, false]);
    assert!(block.overflow);
    assert_eq!(block.granted.len(), HOPS_MAX);
    assert_eq!(ports[HOPS_MAX], Allocator::new(LINE));
}

fn with_rule(capacity_rule: CapacityRule) -> D3CommonConfig {
    D3CommonConfig { capacity_rule, ..D3CommonConfig::default() }
}

/// What a port saw in an interval that began with all of its capacity granted, after two of one
/// capacity.
fn load(capacity_before: Rate, sent_bytes: u64, queue_bytes: u64) -> PortLoad {
    let interval = Duration::from_micros(800);
    let was_fully_granted = true;
    PortLoad {
        line_rate: LINE,
        interval,
        sent_bytes,
        queue_bytes,
        was_fully_granted,
        capacity_before,
    }
}

#[test]
fn d3_r19_capacity_follows_unused_line_and_queue() {
    // 100 000 B in 800 µs are 1 Gb/s.
    let params = with_rule(CapacityRule::LineRate);
    let step = |capacity, sent, queue| {
        let mut port = Allocator { capacity: Rate::from_mbps(capacity), ..Allocator::default() };
        port.adapt(&params, &load(port.capacity, sent, queue));
        port.capacity.as_bps()
    };
    assert_eq!(step(1000, 100_000, 0), 1_000_000_000, "full line, no queue: stay");
    assert_eq!(step(1000, 50_000, 0), 1_050_000_000, "half a line unused: a tenth of it");
    assert_eq!(step(800, 80_000, 0), 820_000_000, "all grants used, yet it recovers");
    assert_eq!(step(1000, 100_000, 10_000), 900_000_000, "the queue is taken off whole");
    assert_eq!(step(900, 100_000, 1_000), 890_000_000);
}

#[test]
fn d3_r44_capacity_rises_only_where_all_of_it_was_granted() {
    let params = with_rule(CapacityRule::Gated);
    let step = |capacity, sent, queue, was_fully_granted| {
        let mut port = Allocator { capacity: Rate::from_mbps(capacity), ..Allocator::default() };
        let load = PortLoad { was_fully_granted, ..load(port.capacity, sent, queue) };
        port.adapt(&params, &load);
        port.capacity.as_bps()
    };
    assert_eq!(step(800, 80_000, 0, true), 820_000_000, "as the law with the line's rate");
    assert_eq!(step(800, 80_000, 0, false), 800_000_000, "no flow is bottlenecked here");
    for granted in [true, false] {
        assert_eq!(step(900, 100_000, 1_000, granted), 890_000_000, "a queue lowers it anyway");
        assert_eq!(step(900, 110_000, 0, granted), 890_000_000, "and so does an overused line");
    }
    assert_eq!(step(800, 80_000, 1_000, true), 810_000_000);
    assert_eq!(step(800, 80_000, 1_000, false), 790_000_000);
}

/// The condition is that of the interval's beginning, and 95 % of the capacity suffice.
#[test]
fn d3_r44_a_port_remembers_whether_it_had_granted_all() {
    for (desired_mbps, raised) in [(940, [1_000, 1_000]), (950, [1_000, 1_100])] {
        let mut ext = ExtArena::default();
        let mut port = D3Port::new(&with_rule(CapacityRule::Gated), LINE);
        let mut packet = request(D3Header::SYN, &mut ext);
        let desired = Rate::from_mbps(desired_mbps);
        let block = RateBlock { desired, ..RateBlock::default() };
        packet.ext = Some(ext.alloc(block.to_block()));
        port.handle_forward(&mut packet, &view(0, 0), &mut ext);
        // Granted in the first interval, so that only the second began with it.
        let capacities = [800, 1_600].map(|at| {
            port.handle_timeout(&view(at, 0));
            port.allocator().capacity.as_bps() / 1_000_000
        });
        assert_eq!(capacities, raised, "{desired_mbps} Mb/s granted");
    }
}

/// The capacity in Mb/s after an interval, given it and what it was two intervals before.
fn after(capacity: u64, before: u64, sent_bytes: u64, queue_bytes: u64) -> u64 {
    let mut port = Allocator { capacity: Rate::from_mbps(capacity), ..Allocator::default() };
    let params = with_rule(CapacityRule::Predictive);
    port.adapt(&params, &load(Rate::from_mbps(before), sent_bytes, queue_bytes));
    port.capacity.as_bps() / 1_000_000
}

#[test]
fn d3_r42_rises_still_to_show_count() {
    // 1.2 Gb/s on offer left 4 % idle: no more than 1.24 would have filled the line.
    assert_eq!(after(1_210, 1_200, 96_000, 0), 1_214, "a tenth of what was idle");
    assert_eq!(after(1_239, 1_200, 96_000, 0), 1_240, "as much as fills the line");
    assert_eq!(after(1_260, 1_200, 96_000, 0), 1_240, "two rises were more than that");
    assert_eq!(after(1_210, 1_200, 100_000, 0), 1_200, "a full line takes rises back");
    assert_eq!(after(1_210, 1_200, 100_000, 5_000), 1_150, "before its queue is taken off");
    // Below the line's rate others may have taken what is missing, and stop.
    assert_eq!(after(910, 800, 100_000, 0), 910);
    assert_eq!(after(990, 500, 50_000, 0), 1_000);
}

#[test]
fn d3_r43_falls_still_to_show_count() {
    // 10 KB are gone in T if 900 Mb/s come.
    assert_eq!(after(1_000, 1_000, 100_000, 10_000), 900);
    assert_eq!(after(1_100, 1_100, 100_000, 10_000), 1_000, "a step of the law from above");
    assert_eq!(after(920, 1_000, 100_000, 10_000), 900, "no lower");
    assert_eq!(after(850, 1_000, 100_000, 10_000), 850, "not raised either");
    // 800 Mb/s filled the line, as others sent too: their part is taken off as well.
    assert_eq!(after(800, 800, 100_000, 10_000), 700);
    assert_eq!(after(750, 800, 100_000, 10_000), 700);
}

#[test]
fn d3_r20_printed_form_never_recovers() {
    let params = with_rule(CapacityRule::Printed);
    let step = |capacity, sent, queue| {
        let mut port = Allocator { capacity: Rate::from_mbps(capacity), ..Allocator::default() };
        port.adapt(&params, &load(port.capacity, sent, queue));
        port.capacity.as_bps()
    };
    assert_eq!(step(800, 80_000, 0), 800_000_000, "all grants used: nothing raises it");
    assert_eq!(step(800, 60_000, 0), 820_000_000, "200 Mb/s of grants unused");
    assert_eq!(step(800, 80_000, 10_000), 700_000_000);
}

#[test]
fn d3_r21_capacity_stays_within_bounds() {
    let params = D3CommonConfig::default();
    let mut port = Allocator::new(LINE);
    for _ in 0..100 {
        port.adapt(&params, &load(port.capacity, 0, 0));
    }
    assert_eq!(port.capacity, Rate::from_gbps(2));
    port.adapt(&params, &load(port.capacity, 100_000, 10_000_000));
    assert_eq!(port.capacity, Rate::from_mbps(100));
}

// The controller around the allocator.

fn view(now_us: u64, sent_bytes: u64) -> PortView {
    let now = Instant::ZERO + Duration::from_micros(now_us);
    PortView {
        port: PortId(0),
        now,
        rate: LINE,
        framing: Bytes::ZERO,
        queue_bytes: 0,
        queue_packets: 0,
        sent_bytes,
    }
}

fn request(flags: u8, ext: &mut ExtArena) -> Packet {
    let header = D3Header { flags: flags | D3Header::REQUEST, ..D3Header::default() };
    let mut packet = Packet::new(FlowId(0), HostId(1), Header::new(header));
    packet.ext = Some(ext.alloc(RateBlock::default().to_block()));
    packet
}

#[test]
fn d3_r10_only_requests_are_looked_at() {
    let mut ext = ExtArena::default();
    let mut port = D3Port::new(&D3CommonConfig::default(), LINE);
    let plain = D3Header { flags: D3Header::SYN, ..D3Header::default() };
    let mut plain = Packet::new(FlowId(0), HostId(1), Header::new(plain));
    let mut answer = request(D3Header::SYN, &mut ext);
    answer.flags = PacketFlags::TO_SENDER;
    let mut without_block = request(D3Header::SYN, &mut ext);
    without_block.ext = None;
    for packet in [&mut plain, &mut answer, &mut without_block] {
        let before = packet.ext.map(|id| *ext.get(id));
        port.handle_forward(packet, &view(0, 0), &mut ext);
        assert_eq!(packet.ext.map(|id| *ext.get(id)), before);
    }
    assert_eq!((port.allocator().flows, port.next_timeout()), (0, None));
}

#[test]
fn d3_r22_counters_are_forgotten_after_four_silent_intervals() {
    let mut ext = ExtArena::default();
    let mut port = D3Port::new(&with_rule(CapacityRule::LineRate), LINE);
    assert_eq!(port.next_timeout(), None, "quiet before the first request");
    for _ in 0..3 {
        port.handle_forward(&mut request(D3Header::SYN, &mut ext), &view(100, 0), &mut ext);
    }
    port.handle_forward(&mut request(0, &mut ext), &view(200, 0), &mut ext);
    assert_eq!(port.allocator().flows, 3);
    for (tick, at) in [(1, 900), (2, 1700), (3, 2500), (4, 3300)] {
        assert_eq!(port.next_timeout(), Some(view(at, 0).now));
        port.handle_timeout(&view(at, 0));
        assert_eq!(port.allocator().flows, 3);
        assert_eq!(port.allocator().capacity, Rate::from_mbps(1000 + tick * 100));
    }
    // The last request came at 200 µs; 4 T later is 3400 µs.
    port.handle_timeout(&view(4100, 0));
    assert_eq!(*port.allocator(), Allocator::new(LINE));
    assert_eq!(port.next_timeout(), None);
}

#[test]
fn d3_r45_requests_without_data_do_not_keep_stale_sums() {
    // Flows ask once per T; in one of the two cases a packet of data passes half-way.
    for has_data in [false, true] {
        let mut ext = ExtArena::default();
        let mut port = D3Port::new(&D3CommonConfig::default(), LINE);
        port.handle_forward(&mut request(D3Header::SYN, &mut ext), &view(0, 0), &mut ext);
        // Four timeouts of 10 ms are 50 T.
        for tick in 1..=50 {
            assert_eq!(port.allocator().flows, 1, "after {tick} intervals");
            let mut packet = request(0, &mut ext);
            packet.payload_bytes = if has_data && tick == 25 { 1000 } else { 0 };
            port.handle_forward(&mut packet, &view(800 * tick - 1, 0), &mut ext);
            port.handle_timeout(&view(800 * tick, 0));
        }
        assert_eq!(port.allocator().flows, if has_data { 1 } else { 0 });
        assert_eq!(port.next_timeout().is_none(), !has_data);
    }
}

#[test]
fn d3_r21_capacity_rests_while_no_flow_is_counted() {
    let mut ext = ExtArena::default();
    let mut port = D3Port::new(&D3CommonConfig::default(), LINE);
    port.handle_forward(&mut request(D3Header::SYN, &mut ext), &view(0, 0), &mut ext);
    port.handle_forward(&mut request(D3Header::FIN, &mut ext), &view(1, 0), &mut ext);
    port.handle_timeout(&view(800, 0));
    assert_eq!(*port.allocator(), Allocator::new(LINE));
}

#[test]
fn d3_r37_the_least_queue_is_what_stays() {
    use super::super::QueueMeasure;
    // What packets find at 0, 300 and 600 µs, and what waits at the end of an interval of 800 µs on
    // a full line; the capacity after it by each measure.
    let cases = [
        ([20_000, 0, 15_000], 10_000, [1_000, 900]), // met by chance
        ([20_000, 2_000, 15_000], 10_000, [980, 900]), // 2 KB stand
        ([9_000, 8_000, 7_000], 6_000, [940, 940]),  // most go by themselves
    ];
    for (found, waiting, expected) in cases {
        for (queue_measure, expected) in
            [QueueMeasure::Least, QueueMeasure::Instant].into_iter().zip(expected)
        {
            let params =
                D3CommonConfig { queue_measure: Some(queue_measure), ..D3CommonConfig::default() };
            let mut ext = ExtArena::default();
            let mut port = D3Port::new(&params, LINE);
            for (at, queue_bytes) in [0, 300, 600].into_iter().zip(found) {
                let view = PortView { queue_bytes, ..view(at, 0) };
                port.handle_forward(&mut request(D3Header::SYN, &mut ext), &view, &mut ext);
            }
            port.handle_timeout(&PortView { queue_bytes: waiting, ..view(800, 100_000) });
            let capacity = port.allocator().capacity;
            assert_eq!(capacity, Rate::from_mbps(expected), "{queue_measure:?} of {found:?}");
        }
    }
}

/// Two intervals with one flow that sends nothing, then a full one: the port remembers from which
/// capacity the line was filled.
#[test]
fn d3_r42_a_port_remembers_its_capacity_for_two_intervals() {
    let mut ext = ExtArena::default();
    let mut port = D3Port::new(&with_rule(CapacityRule::Predictive), LINE);
    let mut sent_bytes = 0;
    let mut capacities = Vec::new();
    for (n, sent) in [0, 0, 0, 100_000, 100_000, 100_000, 100_000].into_iter().enumerate() {
        let at = 800 * n as u64;
        let flags = if n == 0 { D3Header::SYN } else { 0 };
        port.handle_forward(&mut request(flags, &mut ext), &view(at, sent_bytes), &mut ext);
        sent_bytes += sent;
        port.handle_timeout(&view(at + 800, sent_bytes));
        capacities.push(port.allocator().capacity.as_bps() / 1_000_000);
    }
    assert_eq!(capacities, [1_100, 1_200, 1_300, 1_100, 1_100, 1_100, 1_100]);
}

#[test]
fn d3_r22_a_restarted_switch_starts_over() {
    let mut ext = ExtArena::default();
    let mut port = D3Port::new(&D3CommonConfig::default(), LINE);
    port.handle_forward(&mut request(D3Header::SYN, &mut ext), &view(0, 0), &mut ext);
    port.reset();
    assert_eq!(port.next_timeout(), None);
    port.handle_forward(&mut request(0, &mut ext), &view(5, 0), &mut ext);
    assert_eq!(port.allocator().allocated, LINE);
}

proptest! {
    /// Flows come, ask in any order and go. Once every flow has asked since the last came or
    /// went, what is granted fits the capacity; when all have gone nothing is left counted.
    #[test]
    fn grants_fit_and_sums_return_to_zero(
        turns in prop::collection::vec((0usize..12, 0u8..10, 0u64..300), 1..200),
    ) {
        let mut port = Allocator::new(LINE);
        let mut flows = [const { None::<Flow> }; 12];
        for (slot, what, desired) in turns {
            let desired = Rate::from_mbps(desired);
            let before = port.allocated;
            match (&mut flows[slot], what) {
                (None, _) => {
                    let mut flow = Flow::default();
                    flow.ask(&mut port, RequestKind::New, desired);
                    flows[slot] = Some(flow);
                }
                (Some(flow), 0..=7) => { flow.ask(&mut port, RequestKind::Running, desired); }
                (Some(flow), _) => {
                    flow.close(&mut port);
                    flows[slot] = None;
                }
            }
            let held = flows.iter().flatten().map(|f| f.held.get(0).unwrap().counted().as_bps());
            prop_assert_eq!(port.allocated.as_bps(), held.sum::<u64>());
            let desired = flows.iter().flatten().map(|f| f.desired.as_bps());
            prop_assert_eq!(port.demand.as_bps(), desired.sum::<u64>());
            prop_assert_eq!(port.flows, flows.iter().flatten().count() as u64);
            // D3-R41
            let share = port.fair_share().max(BASE);
            prop_assert!(port.allocated <= before.max(port.capacity + share), "{:?}", port);
        }
        // The transient: one round in which all ask for a fair share.
        for _ in 0..2 {
            for flow in flows.iter_mut().flatten() {
                flow.next(&mut port);
            }
        }
        prop_assert!(port.allocated <= port.capacity, "{:?}", port);
        for flow in flows.iter_mut().flatten() {
            flow.close(&mut port);
        }
        prop_assert_eq!(port, Allocator::new(LINE));
    }
}
