//! Lossless switches: nothing is dropped, links are paused in time, and only they.

mod common;

use common::*;
use proptest::prelude::*;
use punctual_core::{Bytes, Duration, FlowSpec, Instant, Limit, PortId, QueueSpec, Rate};
use punctual_net::{ClosLinks, ClosShape, LosslessLimits, Network};
use punctual_sim::{FlowStatus, LinkChange, LinkFault, Outcome, Setup};

const MTU: u64 = 1500;

fn lossless(buffer: u64, pause_above: u64) -> QueueSpec {
    QueueSpec::Lossless {
        buffer: Bytes::new(buffer),
        pause_above: Bytes::new(pause_above),
        resume_below: Bytes::new(pause_above / 2),
        mark_above: None,
        red: None,
    }
}

fn headroom(rate: Rate, delay: Duration) -> u64 {
    LosslessLimits::headroom(rate, delay, Bytes::new(MTU), Bytes::ZERO).get()
}

/// The link from the switch of a star to a host.
fn down(network: &Network, host: u32) -> PortId {
    network.link(network.nic(punctual_core::HostId(host))).twin
}

fn slow(network: &Network, host: u32, rate: Rate) -> LinkChange {
    LinkChange { at: Instant::ZERO, port: down(network, host), what: LinkFault::Rate(rate) }
}

fn tcp(network: Network, queue: QueueSpec, flows: Vec<FlowSpec>) -> Setup {
    let mut settings = punctual_transports::TransportSettings::default();
    settings.tcp.initial_window = 200;
    let tcp = punctual_transports::AnyTransport::by_name("tcp", &settings).expect("tcp");
    let mut setup = setup(network, vec![tcp], flows);
    setup.switch_queue = queue;
    setup
}

fn all_completed(outcome: &Outcome) {
    for flow in &outcome.flows {
        assert_eq!(flow.status, FlowStatus::Completed, "{flow:?}");
    }
}

#[test]
fn an_incast_without_a_drop() {
    let flows: Vec<FlowSpec> = (1..9).map(|h| flow(h, 0, 300_000)).collect();
    let room = headroom(GBPS10, US);
    let queue = lossless(9 * (15_000 + room), 15_000);
    let outcome = run(tcp(star(9, MTU), queue, flows.clone()));
    all_completed(&outcome);
    assert_eq!((outcome.totals.drops, outcome.totals.losses), (0, 0));
    assert!(outcome.flows.iter().all(|f| f.retransmits == 0 && f.timeouts == 0));
    assert!(outcome.totals.pauses > 8, "every sender is paused: {}", outcome.totals.pauses);

    // The same burst overruns a queue of as many bytes that only drops.
    let drops = QueueSpec::DropTail { limit: Limit::Bytes(Bytes::new(15_000 + room)) };
    let outcome = run(tcp(star(9, MTU), drops, flows));
    assert!(outcome.totals.drops > 100, "{}", outcome.totals.drops);
}

/// One sender, one slow link behind the switch: what is buffered can be told to the packet.
#[test]
fn the_buffer_holds_the_threshold_and_what_was_on_its_way() {
    let network = star(2, MTU);
    let change = slow(&network, 1, Rate::from_gbps(1));
    let pause_above = 30_000;
    let mut setup = tcp(network, lossless(200_000, pause_above), vec![flow(0, 1, 400_000)]);
    setup.link_changes = vec![change];
    let outcome = run(setup);
    all_completed(&outcome);
    assert_eq!(outcome.totals.drops, 0);
    let most = outcome.totals.most_buffered.get();
    assert!(most > pause_above, "{most}");
    assert!(most <= pause_above + headroom(GBPS10, US), "{most}");

    // The way back to the sender is free, so the frame is on its way at once: 51.2 ns for 64
    // bytes, 1 µs to travel. A packet of 1,500 takes 1.2 µs, and the sender is never idle. So
    // after the one that went over the threshold come what is on the 1 µs of link and what is
    // begun in the 1.0512 µs until the frame is there: two packets.
    let over = (pause_above / MTU + 1) * MTU;
    assert_eq!(most, over + 2 * MTU);

    // It never runs dry either: the slow link sends without a gap until all is through. The
    // handshake takes the times of two packets of 40 bytes on each link, and four ways.
    let wire = outcome.flows[0].delivered.get().div_ceil(1460) * 40 + 400_000;
    let slowest = Rate::from_gbps(1).transmission_time(Bytes::new(wire)).as_picos();
    let took = outcome.flows[0].ended.expect("it ended").as_picos();
    assert!(took > slowest && took < slowest + 10_000_000, "{took} against {slowest}");
}

#[test]
fn a_buffer_without_headroom_drops_and_says_so() {
    let network = star(2, MTU);
    let change = slow(&network, 1, Rate::from_gbps(1));
    let mut setup = tcp(network, lossless(31_500, 30_000), vec![flow(0, 1, 400_000)]);
    setup.link_changes = vec![change];
    let outcome = run(setup);
    all_completed(&outcome);
    assert!(outcome.totals.drops > 0);
    assert!(outcome.totals.most_buffered.get() <= 31_500);
}

/// The price of it: a flow to an idle host waits because its sender's link is paused for
/// another. Where a queue drops, it does not.
#[test]
fn a_paused_link_holds_up_the_innocent() {
    let innocent = |queue: QueueSpec| {
        let network = star(4, MTU);
        let change = slow(&network, 3, Rate::from_mbps(100));
        let mut blocker = flow(0, 3, 300_000);
        blocker.background = true;
        let mut late = flow(0, 1, 30_000);
        late.start = Instant::ZERO + Duration::from_micros(400);
        let mut setup = tcp(network, queue, vec![blocker, late]);
        setup.link_changes = vec![change];
        let outcome = run(setup);
        outcome.flows[1].ended.expect("it ended") - late.start
    };
    let held_up = innocent(lossless(200_000, 15_000));
    let free = innocent(QueueSpec::DropTail { limit: Limit::Bytes(Bytes::new(15_000)) });
    assert!(free < Duration::from_micros(100), "{free}");
    assert!(held_up > Duration::from_millis(1), "{held_up}");
}

/// A class that is not paused goes on: TCPpr sends flows with deadlines in a class of their own.
#[test]
fn pauses_are_by_class() {
    let took = |has_deadline: bool| {
        let network = star(4, MTU);
        let change = slow(&network, 3, Rate::from_mbps(100));
        let mut blocker = flow(0, 3, 300_000);
        blocker.background = true;
        let mut late = flow(0, 1, 30_000);
        late.start = Instant::ZERO + Duration::from_micros(400);
        late.deadline = has_deadline.then_some(late.start + Duration::from_millis(1));
        let mut setup = setup(network, vec![transport("tcppr")], vec![blocker, late]);
        setup.switch_queue = lossless(200_000, 3_000);
        setup.link_changes = vec![change];
        run(setup).flows[1].ended.expect("it ended") - late.start
    };
    let (apart, together) = (took(true), took(false));
    assert!(apart < Duration::from_micros(200), "{apart}");
    assert!(together > Duration::from_millis(1), "{together}");
}

#[derive(Debug, Clone)]
struct Case {
    shape: u8,
    flows: Vec<(u32, u32, u64, u64)>,
    slow: Vec<(u32, u64)>,
    transport: usize,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    (
        0u8..3,
        prop::collection::vec((any::<u32>(), any::<u32>(), 1u64..150_000, 0u64..200), 1..14),
        prop::collection::vec((any::<u32>(), 1u64..10), 0..3),
        0usize..5,
        any::<u64>(),
    )
        .prop_map(|(shape, flows, slow, transport, seed)| Case {
            shape,
            flows,
            slow,
            transport,
            seed,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// With headroom for every link and class, no switch ever drops or holds more than it has
    /// room for; all flows end, and all checkers are content. Trees have no cycle of waiting.
    #[test]
    fn never_drops_and_never_overruns(case in case()) {
        const NAMES: [&str; 5] = ["tcp", "dctcp", "d2tcp", "tcppr", "rcpdc"];
        let delay = Duration::from_nanos(700);
        let links = ClosLinks::uniform(GBPS10, delay);
        let shape = match case.shape {
            0 => ClosShape::star(5),
            1 => ClosShape::leaf_spine(3, 2, 2),
            _ => ClosShape::fat_tree(4, 1),
        };
        let network = shape.build(&links, Bytes::new(MTU), Bytes::ZERO);
        let hosts = network.hosts;
        let flows = case.flows.iter().map(|&(src, dst, size, start)| {
            let (src, dst) = (src % hosts, dst % hosts);
            let dst = if src == dst { (dst + 1) % hosts } else { dst };
            let mut flow = flow(src, dst, size);
            flow.start = Instant::ZERO + Duration::from_micros(start);
            flow
        });
        let changes = case.slow.iter().map(|&(port, tenths)| LinkChange {
            at: Instant::ZERO,
            port: PortId(port % network.links.len() as u32),
            what: LinkFault::Rate(Rate::from_mbps(1000 * tenths)),
        });
        let changes: Vec<LinkChange> = changes.collect();
        let pause_above = 6_000;
        // No switch here has more than five links; four classes are in use at most.
        let buffer = 5 * 4 * (pause_above + headroom(GBPS10, delay));
        let mut setup = setup(network, vec![transport(NAMES[case.transport])], flows.collect());
        setup.switch_queue = lossless(buffer, pause_above);
        setup.link_changes = changes;
        setup.seed = case.seed;
        let outcome = run(setup);
        prop_assert_eq!(outcome.totals.drops, 0);
        prop_assert!(outcome.totals.most_buffered.get() <= buffer);
        for flow in &outcome.flows {
            prop_assert_eq!(flow.status, FlowStatus::Completed);
            prop_assert_eq!(flow.delivered, flow.spec.size);
        }
    }
}
