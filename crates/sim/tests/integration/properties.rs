//! Random small networks, every transport and any mix of them, with all checkers on.

use crate::common::*;
use proptest::prelude::*;
use punctual_core::{
    Bytes, Duration, FlowId, FlowSpec, Instant, Limit, NodeId, PortId, QueueSpec, Rate, Tolerance,
    TransportId, TrimModel,
};
use punctual_net::{
    BcubeShape, ClosLinks, ClosShape, Dumbbell, JellyfishLinks, JellyfishShape, Network, Topology,
};
use punctual_sim::{
    EngineOptions, FlowStatus, GaugeOf, LinkChange, LinkFault, Measure, Outcome, PortTotals,
    Sampling, Setup, Stop, SwitchReset,
};
use punctual_transports::AnyTransport;
use punctual_transports::d3::{CapacityRule, D3CommonConfig, D3Config, QueueMeasure};
use punctual_workload::{
    Arrivals, DeadlineChange, Deadlines, Gap, HostsView, LoopSpec, Pattern, Sizes, TrafficSpec,
    build,
};

const NAMES: [&str; 14] = [
    "tcp",
    "tcppr",
    "dctcp",
    "dctcp-lossless",
    "d2tcp",
    "mptcp",
    "d3",
    "pdq",
    "rcpdc",
    "rcp",
    "ndp",
    "dcqcn",
    "phost",
    "m-pdq",
];

/// Carries flows too, but not to their end where something is lost.
const UNRELIABLE: &str = "udp";

fn name(which: usize) -> &'static str {
    NAMES.get(which).copied().unwrap_or(UNRELIABLE)
}

/// Transports that give up flows whose deadlines cannot be met.
const GIVE_UP: [&str; 2] = ["pdq", "m-pdq"];

/// A queue in which all transports can live: it trims what may be trimmed, marks what may be
/// marked and drops the rest.
const COMMON_QUEUE: QueueSpec = QueueSpec::Trim {
    data: Limit::Packets(30),
    headers: Limit::Packets(60),
    mark_above: Some(Limit::Packets(10)),
};

/// What switches may have instead of a transport's own queue, or of [`COMMON_QUEUE`] for several.
fn other_queue(which: usize) -> Option<QueueSpec> {
    let model = |model, trim_to| QueueSpec::TrimModel {
        model,
        data: Limit::Packets(12),
        headers: Limit::Packets(20),
        trim_to: Bytes::new(trim_to),
    };
    let limit = Limit::Packets(25);
    [
        QueueSpec::FairClasses {
            trim_data: Limit::Packets(8),
            trim_headers: Limit::Packets(8),
            rest: Limit::Bytes(Bytes::new(40_000)),
            rest_mark_above: Some(Limit::Packets(10)),
            trim_percent: 30,
        },
        model(TrimModel::Paper, 64),
        model(TrimModel::Netfpga, 128),
        model(TrimModel::P4, 64),
        QueueSpec::CutPayload { limit, trim_above: None, trim_to: Bytes::new(64) },
        QueueSpec::DropTail { limit: Limit::Bytes(Bytes::new(30_000)) },
        QueueSpec::Ecn { limit, mark_above: Limit::Bytes(Bytes::new(9_000)) },
        QueueSpec::Priority { limit },
    ]
    .get(which)
    .copied()
}

/// From this shape on, paths have more ports than D3's header has room for: up to ten in BCube(2, 3)
/// and seven in a Jellyfish of six switches.
const LONG_PATHS: u8 = 6;

/// Transports that abandon flows on paths of more than six ports.
const SHORT_PATHS: [&str; 2] = ["d3", "rcpdc"];

/// Hosts with several NICs, which forward for each other.
fn bcube(n: u32, k: u32, rate: Rate) -> Network {
    let (delay, processing) = (Duration::from_nanos(700), Duration::ZERO);
    let shape = BcubeShape { n, k };
    shape.build(rate, delay, processing, Bytes::new(1500), Bytes::new(38)).expect("a BCube")
}

/// Paths of unequal lengths.
fn jellyfish(rate: Rate) -> Network {
    let shape = JellyfishShape { switches: 6, ports: 5, hosts_per_switch: 2, paths: 8, seed: 1 };
    let delay = Duration::from_nanos(700);
    let links =
        JellyfishLinks { host_rate: rate, switch_rate: rate, delay, processing: Duration::ZERO };
    shape.build(&links, Bytes::new(1500), Bytes::new(38)).expect("a Jellyfish")
}

fn network(shape: u8, rate: Rate) -> Network {
    let links = ClosLinks::uniform(rate, Duration::from_nanos(700));
    let clos = |shape: ClosShape| shape.build(&links, Bytes::new(1500), Bytes::new(38));
    match shape {
        0 => clos(ClosShape::star(5)),
        1 => clos(ClosShape::leaf_spine(3, 2, 2)),
        2 => clos(ClosShape::fat_tree(4, 1)),
        4 => bcube(2, 1, rate),
        5 => bcube(3, 1, rate),
        LONG_PATHS => bcube(2, 3, rate),
        7 => jellyfish(rate),
        _ => {
            let dumbbell = Dumbbell {
                senders: 3,
                receivers: 3,
                edge_rate: rate,
                bottleneck_rate: rate,
                delay: Duration::from_nanos(900),
            };
            let topology = Topology::dumbbell(dumbbell);
            Network::from_topology(topology, Bytes::new(1500), Bytes::ZERO).expect("routes")
        }
    }
}

#[derive(Debug, Clone)]
struct Case {
    shape: u8,
    gbps: u64,
    transports: Vec<usize>,
    flows: Vec<(u32, u32, u64, u64, usize)>,
    losses: Vec<(u32, f64)>,
    /// See [`other_queue`].
    queue: usize,
    /// Every so many ports have a queue of their own, see [`other_queue`]; none if 0.
    own_queues: (u32, usize),
    clocks_ppm: u64,
    /// Which port, from when, for how long in µs, and what befalls it.
    changes: Vec<(u32, u64, u64, Change)>,
    /// Which switch restarts, and when in µs.
    resets: Vec<(u32, u64)>,
    seed: u64,
}

/// What befalls a link for a while.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// It is cut, one way.
    Cut,
    /// It is cut both ways, and routing learns of it later, and of its return.
    Withdrawn,
    /// Routing leads around it without need.
    Avoided,
    /// It runs at a tenth of its rate.
    Slow,
}

fn case() -> impl Strategy<Value = Case> {
    let change =
        prop::sample::select(vec![Change::Cut, Change::Withdrawn, Change::Avoided, Change::Slow]);
    let network = (
        0usize..20,
        (prop::sample::select(vec![0u32, 0, 1, 2, 3]), 0usize..8),
        prop::sample::select(vec![0u64, 0, 50, 200]),
        prop::collection::vec((any::<u32>(), 0u64..400, 1u64..500, change), 0..4),
        prop::collection::vec((any::<u32>(), 0u64..500), 0..3),
    );
    (
        0u8..8,
        prop::sample::select(vec![1u64, 10, 25]),
        prop::collection::vec(0usize..NAMES.len() + 1, 1..4),
        prop::collection::vec(
            (any::<u32>(), any::<u32>(), 1u64..120_000, 0u64..300, 0usize..4),
            1..12,
        ),
        prop::collection::vec((any::<u32>(), 0.0f64..0.05), 0..4),
        network,
        any::<u64>(),
    )
        .prop_map(|(shape, gbps, transports, flows, losses, network, seed)| {
            let (queue, own_queues, clocks_ppm, changes, resets) = network;
            Case {
                shape,
                gbps,
                transports,
                flows,
                losses,
                queue,
                own_queues,
                clocks_ppm,
                changes,
                resets,
                seed,
            }
        })
}

/// What concerns several threads besides.
#[derive(Debug, Clone, Copy)]
struct Others {
    /// Whether switches are lossless, with little room before they pause links.
    is_lossless: bool,
    /// The gap between flows of closed loops instead of the case's flows, in µs; none if 0.
    loop_gap_us: u64,
    /// Every so many flows are background; none if 0.
    background: usize,
    /// When deadlines change, in µs after a flow's start, and to what; 0 is to none.
    deadline_change_us: Option<(u64, u64)>,
}

fn others() -> impl Strategy<Value = Others> {
    let gap = prop::sample::select(vec![0u64, 0, 1, 3, 20]);
    let change = prop::option::of((0u64..200, 0u64..400));
    (prop::bool::weighted(0.3), gap, 0usize..4, change).prop_map(
        |(is_lossless, loop_gap_us, background, deadline_change_us)| Others {
            is_lossless,
            loop_gap_us,
            background,
            deadline_change_us,
        },
    )
}

impl Others {
    fn apply_to(&self, setup: &mut Setup) {
        // Elsewhere ports may pause each other for ever.
        if self.is_lossless && setup.network.rack_size().is_some() {
            setup.port_queues = Vec::new();
            setup.switch_queue = QueueSpec::Lossless {
                buffer: Bytes::new(60_000),
                pause_above: Bytes::new(6_000),
                resume_below: Bytes::new(3_000),
                mark_above: None,
                red: None,
            };
        }
        if self.loop_gap_us > 0 {
            let gap = Gap::Fixed(Duration::from_micros(self.loop_gap_us));
            let spec = TrafficSpec {
                arrivals: Arrivals::ClosedLoop(LoopSpec { connections: 1, gap }),
                deadlines: Deadlines::Uniform(US, US * 400),
                limit: Some(40),
                ..TrafficSpec::new(
                    Pattern::Random,
                    Sizes::Uniform(Bytes::new(1), Bytes::new(40_000)),
                )
            };
            let view = HostsView::uniform(setup.network.hosts, GBPS10, None);
            let end = Duration::from_millis(100);
            setup.workload = build(&[spec], &view, end, setup.seed).expect("a workload");
        } else if self.background > 0 {
            let flows = setup.workload.flows.iter_mut().step_by(self.background);
            flows.for_each(|flow| flow.background = true);
        }
        if let Some((after, to)) = self.deadline_change_us {
            let deadline = (to > 0).then(|| Duration::from_micros(to));
            let change = DeadlineChange { after: Duration::from_micros(after), deadline };
            setup.workload.deadline_changes = vec![Some(change)];
        }
    }
}

/// Everything that happens to links, in order of time.
fn link_changes(case: &Case, network: &Network) -> Vec<LinkChange> {
    let ports = network.links.len() as u32;
    let at = |us| Instant::ZERO + Duration::from_micros(us);
    let losses = case.losses.iter().map(|&(port, p)| LinkChange {
        at: Instant::ZERO,
        port: PortId(port % ports),
        what: LinkFault::Loss(p),
    });
    let mut all: Vec<LinkChange> = losses.collect();
    for &(port, from, lasts, change) in &case.changes {
        let port = PortId(port % ports);
        let twin = network.link(port).twin;
        let rate = network.link(port).rate;
        let mut during = |port, first, last| {
            all.push(LinkChange { at: at(from), port, what: first });
            all.push(LinkChange { at: at(from + lasts), port, what: last });
        };
        match change {
            Change::Cut => during(port, LinkFault::Down, LinkFault::Up),
            Change::Slow => {
                let slow = Rate::from_bps(rate.as_bps() / 10);
                during(port, LinkFault::Rate(slow), LinkFault::Rate(rate));
            }
            Change::Avoided => {
                during(port, LinkFault::Withdrawn(true), LinkFault::Withdrawn(false));
            }
            Change::Withdrawn => {
                for port in [port, twin] {
                    during(port, LinkFault::Down, LinkFault::Up);
                }
                for port in [port, twin] {
                    let withdrawn =
                        |us, is| LinkChange { at: at(us), port, what: LinkFault::Withdrawn(is) };
                    all.push(withdrawn(from + lasts / 3, true));
                    all.push(withdrawn(from + 2 * lasts, false));
                }
            }
        }
    }
    all.sort_by_key(|change| change.at);
    all
}

fn setup_of(case: &Case) -> Setup {
    let network = network(case.shape, Rate::from_gbps(case.gbps))
        .with_clocks(Tolerance::from_ppm(case.clocks_ppm), case.seed);
    let transports: Vec<AnyTransport> =
        case.transports.iter().map(|t| transport(name(*t))).collect();
    let hosts = network.hosts;
    let flows: Vec<FlowSpec> = case
        .flows
        .iter()
        .map(|&(src, dst, size, start_us, which)| {
            let src = src % hosts;
            // Two in three have a deadline, of all kinds: at the start itself, or far off.
            let start = Instant::ZERO + Duration::from_micros(start_us);
            let deadline_us = (dst % 3 > 0).then_some(u64::from(dst) / 3 % 3_000);
            let dst = (src + 1 + dst % (hosts - 1)) % hosts;
            FlowSpec {
                start,
                deadline: deadline_us.map(|us| start + Duration::from_micros(us)),
                transport: TransportId((which % transports.len()) as u8),
                ..flow(src, dst, size)
            }
        })
        .collect();
    let link_changes = link_changes(case, &network);
    let (hosts, nodes) = (network.hosts, network.names.len() as u32);
    let ports = network.links.len();
    let mut setup = setup(network, transports, flows);
    if case.transports.len() > 1 {
        setup.switch_queue = COMMON_QUEUE;
    }
    if let Some(queue) = other_queue(case.queue) {
        setup.switch_queue = queue;
    }
    let is_lossless = matches!(setup.switch_queue, QueueSpec::Lossless { .. });
    if let ((every @ 1.., which), false) = (case.own_queues, is_lossless) {
        let own = other_queue(which).expect("one of the queues");
        let queue = |port| if port % every as usize == 0 { own } else { setup.switch_queue };
        setup.port_queues = (0..ports).map(queue).collect();
    }
    setup.link_changes = link_changes;
    let mut resets: Vec<SwitchReset> = case
        .resets
        .iter()
        .map(|&(switch, us)| SwitchReset {
            at: Instant::ZERO + Duration::from_micros(us),
            switch: NodeId(hosts + switch % (nodes - hosts)),
        })
        .collect();
    resets.sort_by_key(|reset| reset.at);
    setup.switch_resets = resets;
    setup.seed = case.seed;
    // Transports for lossless networks wait a second for what these lose, then two, four …
    setup.stop.at = Instant::from_picos(1_000_000_000_000_000);
    setup
}

fn all_complete(outcome: &Outcome, case: &Case) -> Result<(), TestCaseError> {
    for record in &outcome.flows {
        let name = name(case.transports[record.spec.transport.index()]);
        if record.status == FlowStatus::Abandoned {
            let may = name == UNRELIABLE
                || GIVE_UP.contains(&name) && record.spec.deadline.is_some()
                || SHORT_PATHS.contains(&name) && case.shape >= LONG_PATHS;
            prop_assert!(may, "{name} gave up {:?} in {:?}", record, case);
            continue;
        }
        prop_assert_eq!(record.status, FlowStatus::Completed, "{:?} in {:?}", record, case);
        prop_assert_eq!(record.delivered, record.spec.size);
    }
    prop_assert_eq!(outcome.flows.len(), case.flows.len());
    Ok(())
}

/// What ports counted adds up to what the network counted.
fn ports_add_up(outcome: &Outcome) -> Result<(), TestCaseError> {
    let sum = |count: fn(&PortTotals) -> u64| outcome.ports.iter().map(count).sum::<u64>();
    let totals = &outcome.totals;
    prop_assert_eq!(sum(|port| port.drops), totals.drops);
    prop_assert_eq!(sum(|port| port.trims), totals.trims);
    prop_assert_eq!(sum(|port| port.bounces), totals.bounces);
    prop_assert_eq!(sum(|port| port.marks), totals.marks);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(200)))]

    #[test]
    fn every_flow_completes_and_every_byte_arrives_once(case in case()) {
        let outcome = run(setup_of(&case));
        all_complete(&outcome, &case)?;
        ports_add_up(&outcome)?;
    }

    #[test]
    fn the_same_run_twice_is_the_same(case in case()) {
        let (a, b) = (run(setup_of(&case)), run(setup_of(&case)));
        prop_assert_eq!(a.flows, b.flows);
        prop_assert_eq!(a.totals, b.totals);
    }

    /// Windows of time affect the speed alone, also where a run is cut off.
    #[test]
    fn windows_change_nothing(case in case(), cut_us in 1u64..3_000, watched: bool) {
        let outcome = |windows, stop: Option<Stop>| {
            let setup = setup_of(&case);
            let stop = stop.unwrap_or(setup.stop);
            let engine = EngineOptions { windows: Some(windows), ..EngineOptions::default() };
            run(Setup { engine, stop, check: watched, network_trace: watched, ..setup })
        };
        let cut = Stop { at: Instant::ZERO + Duration::from_micros(cut_us), when_done: false };
        for stop in [None, Some(cut)] {
            let (calendar, windows) = (outcome(false, stop), outcome(true, stop));
            prop_assert_eq!(&windows.flows, &calendar.flows);
            prop_assert_eq!(&windows.totals, &calendar.totals);
            prop_assert_eq!(&windows.ports, &calendar.ports);
            prop_assert_eq!(&windows.pauses, &calendar.pauses);
            prop_assert_eq!(&windows.samples, &calendar.samples);
            prop_assert_eq!(&windows.gauges, &calendar.gauges);
            let cells = |outcome: Outcome| outcome.network.map(|trace| format!("{trace:?}"));
            prop_assert_eq!(cells(windows), cells(calendar));
        }
    }

    #[test]
    fn checking_changes_nothing(case in case()) {
        let checked = run(setup_of(&case));
        let unchecked = run(Setup { check: false, ..setup_of(&case) });
        prop_assert_eq!(&checked.flows, &unchecked.flows);
        prop_assert_eq!(&checked.totals, &unchecked.totals);
        let recorded = run(Setup { check: false, network_trace: true, ..setup_of(&case) });
        prop_assert_eq!(&recorded.flows, &unchecked.flows);
        prop_assert_eq!(&recorded.totals, &unchecked.totals);
        let trace = recorded.network.expect("it was asked for");
        let sent: u64 = trace.cells.iter().map(|cell| cell.did.sent_bytes).sum();
        let in_all: u64 = unchecked.ports.iter().map(|port| port.sent_bytes).sum();
        // What is being sent at the end counts in part.
        let unsent = 1600 * unchecked.ports.len() as u64;
        prop_assert!(sent <= in_all && sent + unsent >= in_all, "{sent} of {in_all}");
        let trims: u64 = trace.cells.iter().map(|cell| u64::from(cell.did.trims)).sum();
        prop_assert_eq!(trims, unchecked.totals.trims);
    }
}

proptest! {
    // Fewer, because eight threads take turns on the processors of most machines.
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(50)))]

    /// Several threads affect the speed alone: mixes of transports, faults, pauses, closed loops,
    /// changed deadlines, a run that is cut off or ends when its flows have ended.
    #[test]
    fn threads_change_nothing(
        case in case(),
        cut_us in 1u64..3_000,
        measured_us in 0u64..200,
        when_done: bool,
        others in others(),
    ) {
        let at = |us| Instant::ZERO + Duration::from_micros(us);
        let outcome = |windows, threads, cut: bool| {
            let mut setup = setup_of(&case);
            others.apply_to(&mut setup);
            setup.engine = EngineOptions { windows: Some(windows), threads };
            setup.check = false;
            if cut {
                setup.stop = Stop { at: at(cut_us), when_done };
                let ports = (0..setup.network.links.len()).step_by(3).map(PortId::from).collect();
                setup.sampling = Some(Sampling { every: Duration::from_micros(7), ports });
                setup.sampled_flows = (0..case.flows.len()).step_by(2).map(FlowId::from).collect();
                let until = Some(at(measured_us + cut_us / 2));
                setup.measure = Measure { from: at(measured_us), until };
                setup.packet_latency = when_done;
                setup.network_trace = !when_done;
            }
            let threads = punctual_sim::threads(&setup);
            let outcome = run(setup);
            assert_eq!(punctual_sim::bench::SharingReport::last().threads, threads);
            outcome
        };
        for cut in [false, true] {
            let one = outcome(false, 1, cut);
            for threads in [2, 3, 8] {
                let several = outcome(true, threads, cut);
                prop_assert_eq!(&several.flows, &one.flows);
                prop_assert_eq!(&several.totals, &one.totals);
                prop_assert_eq!(&several.ports, &one.ports);
                prop_assert_eq!(&several.controllers, &one.controllers);
                prop_assert_eq!(&several.samples, &one.samples);
                prop_assert_eq!(&several.gauges, &one.gauges);
                prop_assert_eq!(&several.pauses, &one.pauses);
                prop_assert_eq!(&several.packet_latency, &one.packet_latency);
                prop_assert_eq!(&several.network, &one.network);
            }
        }
    }
}

/// Desired rates leave a fair share smaller than the base rate, which a new flow gets all the
/// same: the NIC of host 2 granted 1.000770345 Gb/s of 1, by the law that was D3's default when
/// this was found.
#[test]
fn a_new_d3_flow_s_base_rate_may_exceed_the_capacity() {
    let case = Case {
        shape: 0,
        gbps: 1,
        transports: vec![0, 6],
        flows: vec![
            (3_246_357_922, 242_383_589, 2_832, 32, 2),
            (1_130_470_667, 404_618_165, 1_356, 81, 2),
            (2_049_008_342, 1_885_579_153, 2_814, 154, 1),
            (1_441_483_187, 509_895_727, 24_781, 87, 1),
            (3_273_092_942, 1_424_545_580, 42_212, 38, 1),
        ],
        losses: Vec::new(),
        queue: usize::MAX,
        own_queues: (0, 0),
        clocks_ppm: 0,
        changes: Vec::new(),
        resets: Vec::new(),
        seed: 0,
    };
    let mut setup = setup_of(&case);
    let params = D3CommonConfig {
        capacity_rule: CapacityRule::Predictive,
        queue_measure: Some(QueueMeasure::Least),
        ..D3CommonConfig::default()
    };
    setup.transports[1] = AnyTransport::D3(D3Config { params, ..D3Config::default() });
    let nic = setup.network.nic(punctual_core::HostId(2));
    setup.sampling = Some(Sampling { every: US, ports: vec![nic] });
    let outcome = run(setup);
    all_complete(&outcome, &case).unwrap();
    // Grants above the capacity and one fair share, in bit/s: what a base rate alone explains.
    let series = |name| {
        let of_nic = outcome.gauges.iter().filter(|g| g.of == GaugeOf::Port(nic));
        of_nic.filter(|g| g.name == name).map(|g| g.value).collect::<Vec<f64>>()
    };
    let (granted, capacity) = (series("allocated_bps"), series("capacity_bps"));
    let (demand, flows) = (series("demand_bps"), series("flows"));
    let beyond = (0..granted.len()).map(|n| {
        let fair_share = (capacity[n] - demand[n]).max(0.0) / flows[n].max(1.0);
        granted[n] - capacity[n] - fair_share
    });
    let most = beyond.fold(f64::MIN, f64::max);
    println!("host 2's NIC grants {most} bit/s above its capacity and a fair share");
    assert!(most > 0.0, "{most}: nothing shown");
    assert!(
        most <= D3CommonConfig::default().base_rate.as_bps() as f64,
        "{most}: more than a base rate"
    );
}

/// Every transport beside every other, on one bottleneck.
#[test]
fn all_transports_at_once() {
    let transports: Vec<AnyTransport> = (0..=NAMES.len()).map(|n| transport(name(n))).collect();
    let count = transports.len() as u32;
    let flows = (0..4 * count)
        .map(|n| FlowSpec {
            transport: TransportId((n % count) as u8),
            ..flow(1 + n % 8, 0, 200_000)
        })
        .collect();
    let mut setup = setup(star(9, 1500), transports, flows);
    setup.switch_queue = COMMON_QUEUE;
    let outcome = run(setup);
    for record in &outcome.flows {
        if record.spec.transport.index() < NAMES.len() {
            assert_eq!(record.status, FlowStatus::Completed, "{record:?}");
        }
        assert_ne!(record.status, FlowStatus::Unfinished, "{record:?}");
    }
}

/// Symmetric senders into one port lose alike: over seeds, no host is favoured by its number.
#[test]
fn symmetric_senders_share_losses() {
    for (name, queue) in
        [("tcp", drop_tail(20)), ("ndp", transport("ndp").default_queue(GBPS10, Bytes::new(1500)))]
    {
        let senders = 8u32;
        let mut losses = vec![0u64; senders as usize];
        for seed in 0..60 {
            let flows = (1..=senders).map(|s| flow(s, 0, 100_000)).collect();
            let mut setup = setup(star(senders + 1, 1500), vec![transport(name)], flows);
            setup.switch_queue = queue;
            setup.seed = seed;
            for record in &run(setup).flows {
                losses[record.spec.src.index() - 1] += u64::from(record.retransmits);
            }
        }
        let mean = losses.iter().sum::<u64>() as f64 / f64::from(senders);
        let worst = losses.iter().map(|l| (*l as f64 - mean).abs() / mean).fold(0.0, f64::max);
        println!("{name}: retransmissions by sender {losses:?}, worst deviation {worst:.3}");
        assert!(mean > 100.0, "{name}: nothing lost, nothing shown");
        assert!(worst < 0.15, "{name}: {losses:?}");
    }
}

/// A link that is cut stops everything across it; when it is back, flows go on.
#[test]
fn a_cut_link_comes_back() {
    for name in NAMES {
        let mut setup = setup(star(3, 1500), vec![transport(name)], vec![flow(0, 1, 3_000_000)]);
        let nic = setup.network.nic(punctual_core::HostId(0));
        let at = |us| Instant::ZERO + Duration::from_micros(us);
        setup.link_changes = vec![
            LinkChange { at: at(300), port: nic, what: LinkFault::Down },
            LinkChange { at: at(900), port: nic, what: LinkFault::Up },
            LinkChange { at: at(1500), port: nic, what: LinkFault::Rate(Rate::from_gbps(1)) },
        ];
        let outcome = run(setup);
        let record = &outcome.flows[0];
        assert_eq!(record.status, FlowStatus::Completed, "{name}");
        assert!(record.ended > Some(at(2_400 + 600)), "{name}: {:?}", record.ended);
        assert!(outcome.totals.losses > 0, "{name}");
    }
}
