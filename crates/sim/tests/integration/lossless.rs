//! Lossless switches: nothing is dropped, links are paused in time, and only they.

use crate::common::*;
use proptest::prelude::*;
use punctual_core::{
    Bytes, Class, Duration, FlowSpec, HostId, Instant, Limit, PortId, QueueSpec, Rate, TransportId,
};
use punctual_net::{ClosLinks, ClosShape, Dumbbell, LosslessLimits, Network, Topology};
use punctual_sim::{FlowStatus, LinkChange, LinkFault, Outcome, Sampling, Setup};

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

/// The name of the node that each port of a network belongs to.
fn node_names<'a>(network: &'a Network) -> impl Fn(PortId) -> &'a str {
    |port| &*network.names[network.link(port).from.index()]
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

/// One sender, one slow link behind the switch: the buffered bytes can be computed to the packet.
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

/// One sender, one slow link: only the sender's NIC is paused, and the pause counters add up.
#[test]
fn ports_tell_how_long_they_were_paused() {
    let network = star(2, MTU);
    let (nic, back) = (network.nic(HostId(0)), network.link(network.nic(HostId(0))).twin);
    let change = slow(&network, 1, Rate::from_gbps(1));
    let mut setup = tcp(network, lossless(200_000, 30_000), vec![flow(0, 1, 400_000)]);
    setup.link_changes = vec![change];
    setup.sampling = Some(Sampling { every: Duration::from_micros(100), ports: vec![nic] });
    let outcome = run(setup);
    let pauses = outcome.ports[nic.index()].pauses;
    assert!(pauses.received > 1);
    assert_eq!(pauses.received, outcome.totals.pauses);
    assert_eq!((pauses.sent, outcome.ports[back.index()].pauses.sent), (0, pauses.received));
    assert_eq!(
        (pauses.time, pauses.longest),
        (outcome.totals.paused, outcome.totals.longest_pause)
    );
    // The line behind runs at a tenth, so that the NIC is paused nine tenths of its time, but for
    // the first 200 packets, which go as they come.
    let took = outcome.flows[0].ended.expect("it ended").saturating_since(Instant::ZERO);
    let share = pauses.time.as_secs_f64() / took.as_secs_f64();
    assert!((0.7..0.9).contains(&share), "{share}");
    assert!(pauses.longest < pauses.time && pauses.longest > pauses.time / pauses.received);
    // By class: all of it was of one.
    let one = outcome.pauses[0];
    assert_eq!((outcome.pauses.len(), one.port, one.class), (1, nic, Class::DATA));
    assert_eq!((one.pauses, one.time, one.longest), (pauses.received, pauses.time, pauses.longest));
    assert!(!one.lasts);
    let series: Vec<Duration> = outcome.samples.iter().map(|s| s.paused).collect();
    assert!(series.len() > 10 && series.is_sorted() && *series.last().unwrap() <= pauses.time);
    assert!(outcome.pause_cycles.is_empty());
}

/// Switches in a ring with a host each.
fn ring(switches: u32) -> Network {
    let mut text = String::new();
    for n in 0..switches {
        text += &format!("[[host]]\nname = \"h{n}\"\n[[switch]]\nname = \"s{n}\"\n");
    }
    for n in 0..switches {
        let next = (n + 1) % switches;
        for (a, b) in [(format!("h{n}"), format!("s{n}")), (format!("s{n}"), format!("s{next}"))] {
            text += &link(&a, &b, "10Gbps", 1000);
        }
    }
    network(&text)
}

fn link(a: &str, b: &str, rate: &str, delay_ns: u64) -> String {
    format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"{rate}\"\ndelay = \"{delay_ns}ns\"\n")
}

fn network(text: &str) -> Network {
    let topology = Topology::parse(text).expect("a topology");
    Network::from_topology(topology, Bytes::new(MTU), Bytes::ZERO).expect("routes")
}

fn pausing(pause_above: u64, resume_below: u64) -> QueueSpec {
    QueueSpec::Lossless {
        buffer: Bytes::new(1_000_000),
        pause_above: Bytes::new(pause_above),
        resume_below: Bytes::new(resume_below),
        mark_above: None,
        red: None,
    }
}

/// Every host sends to the next but one, so that every link of the ring carries what comes from
/// the one before.
fn around(queue: QueueSpec, hosts: u32) -> (Network, Outcome) {
    let network = ring(5);
    let flows = (0..hosts).map(|h| flow(h, (h + 2) % 5, u64::MAX)).collect();
    let mut setup = tcp(network.clone(), queue, flows);
    setup.stop = until_ms(20);
    (network, run(setup))
}

#[test]
fn a_pause_cycle_is_found_and_named() {
    let (network, outcome) = around(pausing(30_000, 3_000), 5);
    assert_eq!(outcome.totals.drops, 0);
    let deadlocks: Vec<_> = outcome.pause_cycles.iter().filter(|c| c.is_deadlock).collect();
    assert_eq!(deadlocks.len(), 1, "{:?}", outcome.pause_cycles);
    let cycle = deadlocks[0];
    assert_eq!((cycle.class, cycle.ports.len(), cycle.ended), (Class::DATA, 5, None));
    // Each leads to the switch of the next.
    let ends = cycle.ports.iter().map(|p| network.link(*p).to);
    let starts = cycle.ports.iter().cycle().skip(1).map(|p| network.link(*p).from);
    assert!(ends.zip(starts).all(|(end, start)| end == start), "{cycle:?}");
    let said = cycle.describe(node_names(&network));
    println!("{said}");
    assert!(said.starts_with(&format!("PFC deadlock: since {}, class 1", cycle.since)), "{said}");
    assert_eq!(said.matches(" -> ").count(), 5, "{said}");
    // No packet moves after that: all ports are paused for the rest of the run, and the port that
    // completed the cycle was paused at that instant.
    let rest = outcome.totals.ended_at - cycle.since;
    let longest = |p: &PortId| outcome.ports[p.index()].pauses.longest;
    assert!(cycle.ports.iter().all(|p| longest(p) >= rest));
    assert!(cycle.ports.iter().any(|p| longest(p) == rest));
    assert_eq!(cycle.longest, rest);
    assert!(rest > Duration::from_millis(10), "{rest}");
}

/// Where most of what a link has in the switch behind waits for a slow host there, and the link
/// goes on when a little of it is gone, cycles close and end again. With little to send that is
/// all; with more, one of them is the last.
#[test]
fn pause_cycles_that_end_are_distinguished_from_deadlocks() {
    let around = |size| {
        let network = ring(5);
        let flows = (0..5).map(|h| flow(h, (h + 2) % 5, size)).collect();
        let mut setup = tcp(network.clone(), pausing(30_000, 27_000), flows);
        setup.stop = until_ms(20);
        setup.link_changes = (0..5).map(|h| slow(&network, h, Rate::from_gbps(2))).collect();
        let outcome = run(setup);
        assert_eq!(outcome.pause_cycles.len(), 1);
        (network, outcome)
    };
    let (network, outcome) = around(60_000);
    all_completed(&outcome);
    let cycle = &outcome.pause_cycles[0];
    assert_eq!((cycle.ports.len(), cycle.times, cycle.is_deadlock), (5, 3, false));
    let ended = cycle.ended.expect("it ended");
    assert!(cycle.first < cycle.since && cycle.since < ended, "{cycle:?}");
    assert!(cycle.longest >= ended - cycle.since);
    assert!(cycle.longest < Duration::from_micros(50), "{cycle:?}");
    let (since, said) = (cycle.since, cycle.describe(node_names(&network)));
    assert!(said.starts_with(&format!("pause cycle, ended: from {since} to {ended}")));
    assert!(said.contains("(2 times before, from "), "{said}");

    let (_, outcome) = around(100_000);
    let again = &outcome.pause_cycles[0];
    assert_eq!((again.first, again.ended, again.times), (cycle.first, None, 5));
    assert!(again.is_deadlock && again.since > ended);
    assert!(outcome.flows.iter().any(|f| f.status == FlowStatus::Unfinished));
}

/// Two pause cycles that share a switch, each with its own flows: both are reported.
#[test]
fn all_pause_cycles_are_reported() {
    let mut text = String::from("[[switch]]\nname = \"m\"\n");
    for side in ["a", "b"] {
        for n in 0..4 {
            text += &format!("[[host]]\nname = \"h{side}{n}\"\n");
            text += &format!("[[switch]]\nname = \"s{side}{n}\"\n");
            text += &link(&format!("h{side}{n}"), &format!("s{side}{n}"), "10Gbps", 1000);
        }
        for n in 0..3 {
            text += &link(&format!("s{side}{n}"), &format!("s{side}{}", n + 1), "10Gbps", 1000);
        }
        text += &link(&format!("s{side}3"), "m", "10Gbps", 1000);
        text += &link("m", &format!("s{side}0"), "10Gbps", 1000);
    }
    text += "[[host]]\nname = \"hm\"\n";
    text += &link("hm", "m", "10Gbps", 1000);
    let network = network(&text);
    let host = |name: &str| network.names.iter().position(|n| n == name).expect("a host") as u32;
    let mut flows = Vec::new();
    for side in ["a", "b"] {
        let round = [&format!("h{side}0"), &format!("h{side}1"), &format!("h{side}2")];
        let round = round.map(|n| host(n)).into_iter();
        let round: Vec<u32> = round.chain([host(&format!("h{side}3")), host("hm")]).collect();
        flows.extend((0..5).map(|n| flow(round[n], round[(n + 2) % 5], u64::MAX)));
    }
    let mut setup = tcp(network, pausing(30_000, 3_000), flows);
    setup.stop = until_ms(20);
    let outcome = run(setup);
    let deadlocks: Vec<_> = outcome.pause_cycles.iter().filter(|c| c.is_deadlock).collect();
    assert_eq!(deadlocks.len(), 2, "{:?}", outcome.pause_cycles);
    assert!(deadlocks.iter().all(|c| c.ports.len() == 5));
    assert!(deadlocks[0].ports.iter().all(|p| !deadlocks[1].ports.contains(p)));
}

/// Without one of the five there is no cycle, however often links are paused; nor where switches
/// drop.
#[test]
fn an_open_chain_of_pauses_is_no_cycle() {
    let (_, outcome) = around(lossless(1_000_000, 30_000), 4);
    assert!(outcome.totals.pauses > 0);
    assert_eq!(outcome.pause_cycles, vec![]);
    let (_, outcome) = around(drop_tail(100), 5);
    assert_eq!((outcome.totals.pauses, outcome.pause_cycles), (0, vec![]));
    assert_eq!(outcome.pauses, vec![]);
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
        0u8..4,
        prop::collection::vec((any::<u32>(), any::<u32>(), 1u64..150_000, 0u64..200), 1..14),
        prop::collection::vec((any::<u32>(), 1u64..10), 0..3),
        0usize..8,
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
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(96)))]

    /// With headroom for every link and class, no switch ever drops or holds more than it has
    /// room for; all flows end, and all checkers are content. Trees have no cycle of waiting.
    #[test]
    fn never_drops_and_never_overruns(case in case()) {
        const NAMES: [&str; 8] =
            ["tcp", "dctcp", "d2tcp", "tcppr", "rcpdc", "dctcp-lossless", "dcqcn", "phost"];
        let delay = Duration::from_nanos(700);
        let links = ClosLinks::uniform(GBPS10, delay);
        let clos = |shape: ClosShape| shape.build(&links, Bytes::new(MTU), Bytes::ZERO);
        let network = match case.shape {
            0 => clos(ClosShape::star(5)),
            1 => clos(ClosShape::leaf_spine(3, 2, 2)),
            2 => clos(ClosShape::fat_tree(4, 1)),
            _ => {
                let dumbbell = Dumbbell {
                    senders: 3,
                    receivers: 3,
                    edge_rate: GBPS10,
                    bottleneck_rate: GBPS10,
                    delay,
                };
                let topology = Topology::dumbbell(dumbbell);
                Network::from_topology(topology, Bytes::new(MTU), Bytes::ZERO).expect("routes")
            }
        };
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
        prop_assert_eq!(&outcome.pause_cycles, &vec![]);
        let sent: u64 = outcome.ports.iter().map(|p| p.pauses.sent).sum();
        prop_assert_eq!(sent, outcome.totals.pauses);
        let most = outcome.totals.ended_at.saturating_since(Instant::ZERO);
        prop_assert!(outcome.ports.iter().all(|p| p.pauses.time <= most && p.pauses.longest <= p.pauses.time));
        for flow in &outcome.flows {
            prop_assert_eq!(flow.status, FlowStatus::Completed);
            prop_assert_eq!(flow.delivered, flow.spec.size);
        }
    }
}

/// A network of switches in a tree with further links across, some slow, some long.
#[derive(Debug, Clone)]
struct Graph {
    parents: Vec<u32>,
    across: Vec<(u32, u32)>,
    rates: Vec<u8>,
    delays: Vec<u64>,
    flows: Vec<(u32, u32, u64, u64, u8, u8)>,
    limits: (u64, u64),
    seed: u64,
}

fn graph() -> impl Strategy<Value = Graph> {
    let flow = (any::<u32>(), any::<u32>(), 1u64..200_000, 0u64..200, 1u8..4, 0u8..4);
    (
        prop::collection::vec(any::<u32>(), 1..5),
        prop::collection::vec((any::<u32>(), any::<u32>()), 0..4),
        prop::collection::vec(0u8..3, 12),
        prop::collection::vec(50u64..4_000, 12),
        prop::collection::vec(flow, 1..24),
        (3_000u64..20_000, 1_500u64..3_000),
        any::<u64>(),
    )
        .prop_map(|(parents, across, rates, delays, flows, limits, seed)| Graph {
            parents,
            across,
            rates,
            delays,
            flows,
            limits,
            seed,
        })
}

impl Graph {
    fn network(&self) -> Network {
        let switches = self.parents.len() as u32 + 1;
        let mut text = String::new();
        let mut rates = self.rates.iter().cycle();
        let mut delays = self.delays.iter().cycle();
        let mut add = |text: &mut String, a: String, b: String| {
            let rate = ["2Gbps", "10Gbps", "25Gbps"][usize::from(*rates.next().expect("endless"))];
            *text += &link(&a, &b, rate, *delays.next().expect("endless"));
        };
        for n in 0..switches {
            text += &format!("[[switch]]\nname = \"s{n}\"\n");
            for side in ["a", "b"] {
                text += &format!("[[host]]\nname = \"h{side}{n}\"\n");
                add(&mut text, format!("h{side}{n}"), format!("s{n}"));
            }
        }
        let mut pairs = Vec::new();
        let tree = self.parents.iter().enumerate().map(|(n, p)| (n as u32 + 1, p % (n as u32 + 1)));
        for (a, b) in tree.chain(self.across.iter().map(|(a, b)| (a % switches, b % switches))) {
            let pair = (a.min(b), a.max(b));
            if a != b && !pairs.contains(&pair) {
                pairs.push(pair);
                add(&mut text, format!("s{a}"), format!("s{b}"));
            }
        }
        network(&text)
    }

    /// What the largest switch needs: the threshold and what may be on its way then, for every
    /// link that leads to it and every class in use.
    fn buffer(&self, network: &Network) -> u64 {
        // Control and those of the flows, which pHost may put one lower.
        const CLASSES: u64 = 5;
        let need = |node: usize| -> u64 {
            let into = network.links.iter().filter(|l| l.to.index() == node);
            let need = |l: &punctual_net::Link| self.limits.0 + headroom(l.rate, l.delay);
            CLASSES * into.map(need).sum::<u64>()
        };
        (network.hosts as usize..network.names.len()).map(need).max().unwrap_or(0)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(64)))]

    /// The same on networks of any shape, with links of several rates and lengths, several
    /// transports and classes in one run. Routes may form cycles here, and where they end in a
    /// deadlock some flows do not; where there is none all flows end.
    #[test]
    fn graphs_never_drop_and_flows_end_unless_there_is_a_deadlock(graph in graph()) {
        let network = graph.network();
        let (hosts, buffer) = (network.hosts, graph.buffer(&network));
        let flows = graph.flows.iter().map(|&(src, dst, size, start, class, transport)| {
            let (src, dst) = (src % hosts, dst % hosts);
            let dst = if src == dst { (dst + 1) % hosts } else { dst };
            let mut flow = flow(src, dst, size);
            flow.start = Instant::ZERO + Duration::from_micros(start);
            flow.class = Class(class);
            flow.transport = TransportId(transport);
            flow
        });
        let names = ["tcp", "dctcp-lossless", "dcqcn", "phost"];
        let mut setup = setup(network, names.map(transport).to_vec(), flows.collect());
        setup.switch_queue = QueueSpec::Lossless {
            buffer: Bytes::new(buffer),
            pause_above: Bytes::new(graph.limits.0),
            resume_below: Bytes::new(graph.limits.1),
            mark_above: None,
            red: None,
        };
        setup.seed = graph.seed;
        let outcome = run(setup);
        prop_assert_eq!(outcome.totals.drops, 0);
        prop_assert!(outcome.totals.most_buffered.get() <= buffer);
        if !outcome.pause_cycles.iter().any(|c| c.is_deadlock) {
            for flow in &outcome.flows {
                prop_assert_eq!(flow.status, FlowStatus::Completed);
            }
            prop_assert!(outcome.pause_cycles.iter().all(|c| c.ended.is_some()));
        }
        for (port, totals) in outcome.ports.iter().enumerate() {
            let classes = || outcome.pauses.iter().filter(|p| p.port.index() == port);
            prop_assert_eq!(classes().map(|p| p.pauses).sum::<u64>(), totals.pauses.received);
            let times = || classes().map(|p| p.time);
            prop_assert!(times().max().unwrap_or(Duration::ZERO) <= totals.pauses.time);
            let sum = times().fold(Duration::ZERO, |sum, time| sum + time);
            prop_assert!(totals.pauses.time <= sum);
        }
    }

    /// A deadlock stands whenever one looks again, and no packet leaves its ports; a cycle that
    /// ended is reported with the same times later.
    #[test]
    fn deadlocks_persist_and_other_pause_cycles_end(
        switches in 5u32..8,
        sizes in prop::collection::vec(30_000u64..400_000, 7),
        others in prop::collection::vec((any::<u32>(), 1u32..5, 10_000u64..200_000), 0..6),
        host_gbps in 1u64..11,
        limits in (9_000u64..40_000, 2u64..10),
        seed in any::<u64>(),
    ) {
        let until = |ms| {
            let network = ring(switches);
            let round = (0..switches).map(|h| flow(h, (h + 2) % switches, sizes[h as usize]));
            let others = others.iter().map(|(src, stride, size)| {
                let src = src % switches;
                flow(src, (src + 1 + stride % (switches - 1)) % switches, *size)
            });
            let queue = pausing(limits.0, limits.0 * limits.1 / 10);
            let mut setup = tcp(network.clone(), queue, round.chain(others).collect());
            let rate = Rate::from_gbps(host_gbps);
            setup.link_changes = (0..switches).map(|h| slow(&network, h, rate)).collect();
            setup.stop = until_ms(ms);
            setup.seed = seed;
            run(setup)
        };
        let (early, late) = (until(3), until(6));
        for cycle in &early.pause_cycles {
            let again = late.pause_cycles.iter().find(|c| c.ports == cycle.ports && c.class == cycle.class);
            let again = again.expect("what was told is told later too");
            prop_assert_eq!(again.first, cycle.first);
            prop_assert!(again.times >= cycle.times && again.longest >= cycle.longest);
            if cycle.is_deadlock {
                prop_assert!(again.is_deadlock && again.since == cycle.since);
                for port in &cycle.ports {
                    // Pause frames pass a paused port, and are no packets.
                    let sent = |o: &Outcome| o.ports[port.index()].sent_packets;
                    prop_assert_eq!(sent(&early), sent(&late));
                }
            } else if cycle.ended.is_some() && again.times == cycle.times {
                prop_assert_eq!(again.ended, cycle.ended);
            }
        }
        // Whoever says that a cycle will never end must be right about all others as well.
        let stands = |c: &&punctual_sim::PauseCycle| c.ended.is_none() && !c.is_deadlock;
        for cycle in early.pause_cycles.iter().filter(stands) {
            let again = late.pause_cycles.iter().find(|c| c.ports == cycle.ports && c.class == cycle.class);
            let again = again.expect("what was told is told later too");
            prop_assert!(
                again.times > cycle.times || again.ended.is_some() || again.is_deadlock,
                "it neither ended nor became one that cannot: {cycle:?} {again:?}"
            );
        }
    }
}

fn at_us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(us)
}

fn change(us: u64, port: PortId, what: LinkFault) -> LinkChange {
    LinkChange { at: at_us(us), port, what }
}

/// The sender's NIC is paused when its link is cut, both ways. Nothing can tell it to go on, so the
/// pause ends there; and no frame of the switch, which drains meanwhile, reaches it.
#[test]
fn a_pause_ends_when_its_link_is_cut() {
    let network = star(2, MTU);
    let nic = network.nic(HostId(0));
    let back = network.link(nic).twin;
    let slow = slow(&network, 1, Rate::from_mbps(100));
    let mut setup = tcp(network, lossless(200_000, 30_000), vec![flow(0, 1, 400_000)]);
    // 33 KB fill the buffer within 40 µs, and take 1.4 ms to drain to where it would go on.
    let cut_us = 300;
    setup.link_changes =
        vec![slow, change(cut_us, nic, LinkFault::Down), change(cut_us, back, LinkFault::Down)];
    setup.sampling = Some(Sampling { every: Duration::from_micros(10), ports: vec![nic] });
    setup.stop = until_ms(10);
    let outcome = run(setup);
    let paused_at = |us: u64| outcome.samples.iter().find(|s| s.at == at_us(us)).unwrap().paused;
    assert!(paused_at(cut_us) > paused_at(cut_us - 10), "it was paused when the link was cut");
    let pauses = outcome.ports[nic.index()].pauses;
    assert_eq!((pauses.received, pauses.time), (1, paused_at(cut_us)));
    assert!(!outcome.pauses[0].lasts);
}

/// Only the way back is cut, so that frames are lost and data is not: nothing stops the sender, and
/// the buffer overruns. Once the way back works, the sender is paused again.
#[test]
fn frames_do_not_cross_a_cut_link() {
    let outcome = |cut: bool| {
        let network = star(2, MTU);
        let nic = network.nic(HostId(0));
        let back = network.link(nic).twin;
        let slow = slow(&network, 1, Rate::from_gbps(1));
        let mut setup = tcp(network, lossless(60_000, 30_000), vec![flow(0, 1, 400_000)]);
        setup.link_changes = vec![slow];
        if cut {
            // After the handshake, before the 200 packets of the first window have been sent.
            let (down, up) = (LinkFault::Down, LinkFault::Up);
            setup.link_changes.extend([change(20, back, down), change(5_000, back, up)]);
        }
        (nic, run(setup))
    };
    let (nic, sound) = outcome(false);
    assert_eq!(sound.totals.drops, 0);
    let (_, cut) = outcome(true);
    assert!(cut.totals.drops > 50, "{}", cut.totals.drops);
    all_completed(&cut);
    let pauses = cut.ports[nic.index()].pauses;
    assert_eq!(pauses.received, cut.totals.pauses, "every frame sent on a sound link arrives");
}
