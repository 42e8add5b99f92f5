//! M-PDQ across networks: closed forms, dead links, and other transports beside it.

use crate::common::*;
use punctual_core::{
    Bytes, Duration, FlowSpec, HostId, Instant, Limit, PortId, QueueSpec, Rate, TransportId,
};
use punctual_net::{ClosLinks, ClosShape, Network};
use punctual_sim::{FlowStatus, LinkChange, LinkFault, Outcome};
use punctual_transports::AnyTransport;
use punctual_transports::mpdq::MpdqConfig;

const GBPS1: Rate = Rate::from_gbps(1);
/// Propagation and processing of a hop, as in PDQ's paper.
const DELAY: Duration = Duration::from_nanos(25_100);
const SEGMENT: u64 = 1440;

fn mpdq(subflows: u32) -> AnyTransport {
    AnyTransport::MPdq(MpdqConfig { subflows, ..MpdqConfig::default() })
}

/// Racks with as many uplinks of 1 Gb/s as there are spines, and hosts that can fill them all.
fn thin_leaf_spine(racks: u32, hosts_per_rack: u32, spines: u32) -> Network {
    let host_rate = Rate::from_gbps(u64::from(spines));
    let links = ClosLinks { host_rate, ..ClosLinks::uniform(GBPS1, DELAY) };
    let shape = ClosShape::leaf_spine(racks, hosts_per_rack, spines);
    shape.build(&links, Bytes::new(1500), Bytes::ZERO)
}

/// Time of `segments` full packets on n links of 1 Gb/s.
fn on_links(segments: u64, n: u64) -> Duration {
    GBPS1.transmission_time(Bytes::new(1500 * segments)) / n
}

/// An RTT between racks of a full packet and its acknowledgement, without queues.
fn round_trip(spines: u32) -> Duration {
    let host = Rate::from_gbps(u64::from(spines));
    let one_way = |bytes| {
        let bytes = Bytes::new(bytes);
        (host.transmission_time(bytes) + GBPS1.transmission_time(bytes) + DELAY * 2) * 2
    };
    one_way(1500) + one_way(60)
}

fn fct(outcome: &Outcome, index: usize) -> Duration {
    let record = &outcome.flows[index];
    assert_eq!(record.status, FlowStatus::Completed, "{record:?}");
    record.ended.unwrap().saturating_since(record.spec.start)
}

/// The NIC grants one more subflow per RTT, as it learns the rate that the last one got only from
/// its ACK; meanwhile the others send. Two RTTs more: the trip of the last packet, and dampening.
#[test]
fn mpdq_r13_a_lone_flow_uses_all_paths() {
    let segments = 3_000;
    for n in [2, 3, 4] {
        let flows = vec![flow(0, 1, segments * SEGMENT)];
        let network = thin_leaf_spine(2, 1, n);
        let outcome = run(setup(network.clone(), vec![mpdq(n)], flows.clone()));
        let took = fct(&outcome, 0);
        let least = on_links(segments, u64::from(n));
        let start_up = round_trip(n) * u64::from(n + 2);
        println!("{n} paths: {took}, at least {least}, start-up {start_up}");
        assert!(took >= least && took <= least + start_up, "{n} paths: {took}");
        let single = fct(&run(setup(network, vec![transport("pdq")], flows)), 0);
        assert!(single >= on_links(segments, 1), "{single}");
    }
}

/// Two flows between the same racks, the second larger: the first takes what it would alone, and
/// the second the rest. Without Early Start a change of turns costs each path at most an RTT until
/// the next probe and one until the data come. With it flows overlap by K · RTT at the hosts' rate.
#[test]
fn mpdq_r13_flows_on_shared_paths_are_served_one_after_another() {
    let (small, large, n) = (3_000, 9_000, 3);
    for early_start in [0.0, 2.0] {
        let config = MpdqConfig { early_start, subflows: n, ..MpdqConfig::default() };
        let flows = vec![flow(0, 2, small * SEGMENT), flow(1, 3, large * SEGMENT)];
        let network = thin_leaf_spine(2, 2, n);
        let outcome = run(setup(network, vec![AnyTransport::MPdq(config)], flows));
        let rtt = round_trip(n);
        let ends = [fct(&outcome, 0), fct(&outcome, 1)];
        let ideal = [on_links(small, u64::from(n)), on_links(small + large, u64::from(n))];
        println!("K = {early_start}: {ends:?}, ideally {ideal:?}, RTT {rtt}");
        let start_up = rtt * u64::from(n + 2);
        let overlap = rtt.mul_f64(early_start * f64::from(n));
        assert!(ends[0] >= ideal[0] && ends[0] <= ideal[0] + start_up + overlap, "{ends:?}");
        assert!(ends[1] <= ideal[1] + start_up + rtt * 2 + overlap, "{ends:?}");
    }
}

fn ports_up(network: &Network, host: u32) -> Vec<PortId> {
    let rack = network.link(network.nic(HostId(host))).to;
    let is_up = |port: &PortId| {
        let link = network.link(*port);
        link.from == rack && link.to.index() >= network.hosts as usize
    };
    (0..network.links.len()).map(PortId::from).filter(is_up).collect()
}

/// One of three paths is cut for good, from the start or on the way. What was under way there
/// goes by the others after a timeout of 1 ms, or two in a row.
#[test]
fn mpdq_r13_a_cut_path_costs_a_timeout() {
    let segments = 3_000;
    for at_us in [0, 40, 2_000, 11_000] {
        let network = thin_leaf_spine(2, 1, 3);
        let up = ports_up(&network, 0)[1];
        let mut setup = setup(network, vec![mpdq(3)], vec![flow(0, 1, segments * SEGMENT)]);
        let at = Instant::ZERO + Duration::from_micros(at_us);
        setup.link_changes = vec![LinkChange { at, port: up, what: LinkFault::Down }];
        let outcome = run(setup);
        assert!(outcome.totals.losses > 0, "the link cut was not used");
        let took = fct(&outcome, 0);
        let most = on_links(segments, 2) + Duration::from_millis(2) + round_trip(3) * 5;
        println!("cut at {at_us} us: {took} of at most {most}");
        assert!(took <= most, "cut at {at_us} us: {took}");
        assert!(outcome.flows[0].retransmits <= 300, "{}", outcome.flows[0].retransmits);
    }
}

/// Losses on many links, and an uplink of a rack cut for good: of four paths between pods two
/// live, and every byte arrives once, as the checkers assert.
#[test]
fn mpdq_r13_each_byte_arrives_once_under_loss_and_cuts() {
    for seed in 0..6 {
        let links = ClosLinks::uniform(GBPS1, DELAY);
        let network = ClosShape::fat_tree(4, 1).build(&links, Bytes::new(1500), Bytes::ZERO);
        let flows: Vec<FlowSpec> = (0..32u64)
            .map(|n| FlowSpec {
                start: Instant::ZERO + Duration::from_micros(50 * n),
                ..flow(n as u32 % 16, (n as u32 * 5 + 3 + n as u32 / 16) % 16, 1 + 7_001 * n)
            })
            .filter(|flow| flow.src != flow.dst)
            .collect();
        let up = ports_up(&network, 0)[0];
        let mut setup = setup(network, vec![mpdq(3)], flows);
        let ports = setup.network.links.len();
        setup.link_changes = (0..ports)
            .step_by(3)
            .map(|port| LinkChange {
                at: Instant::ZERO,
                port: PortId::from(port),
                what: LinkFault::Loss(0.02),
            })
            .collect();
        let at = Instant::ZERO + Duration::from_micros(600);
        setup.link_changes.push(LinkChange { at, port: up, what: LinkFault::Down });
        setup.seed = seed;
        let outcome = run(setup);
        for record in &outcome.flows {
            assert_eq!(record.status, FlowStatus::Completed, "{record:?}");
            assert_eq!(record.delivered, record.spec.size);
        }
        assert!(outcome.totals.losses > 50, "{}", outcome.totals.losses);
    }
}

/// One port, one flow of PDQ and one of M-PDQ: the one with the smaller T goes first, whichever it
/// is, and the other follows, because one controller serves both. T of M-PDQ's flow is that of a
/// subflow, a third.
#[test]
fn mpdq_r12_pdq_and_mpdq_share_ports() {
    let links = ClosLinks::uniform(GBPS1, DELAY);
    let rtt = (GBPS1.transmission_time(Bytes::new(1560)) + DELAY * 2) * 2;
    for (pdq, multi) in [(1_000, 6_000), (3_000, 3_000), (6_000, 3_000)] {
        for pdq_is_listed_first in [false, true] {
            let network = ClosShape::star(3).build(&links, Bytes::new(1500), Bytes::ZERO);
            let mut transports = vec![transport("pdq"), mpdq(3)];
            if !pdq_is_listed_first {
                transports.reverse();
            }
            let of = |is_pdq: bool| TransportId(u8::from(is_pdq != pdq_is_listed_first));
            let flows = vec![
                FlowSpec { transport: of(true), ..flow(0, 2, pdq * SEGMENT) },
                FlowSpec { transport: of(false), ..flow(1, 2, multi * SEGMENT) },
            ];
            let outcome = run(setup(network, transports, flows));
            let ends = [fct(&outcome, 0), fct(&outcome, 1)];
            println!("PDQ {pdq}, M-PDQ {multi} segments: {ends:?}, RTT {rtt}");
            assert_eq!(ends[0] < ends[1], pdq < multi / 3, "{ends:?}");
            let first = if pdq < multi / 3 { pdq } else { multi };
            // The SYN, Early Start's overlap of 2 RTTs, and the trip of the last packet. Flows that
            // wait probe, and probes take capacity: 91.7 % are left in PDQ's Figure 7.
            let most = |segments| on_links(segments, 1).mul_f64(1.0 / 0.917) + rtt * 4;
            assert!(ends[0].min(ends[1]) <= most(first), "{ends:?}");
            assert!(ends[0].max(ends[1]) <= most(pdq + multi), "{ends:?}");
        }
    }
}

/// Flows of four transports share a network whose queues trim, mark or drop.
#[test]
fn mpdq_lives_beside_pdq_tcp_and_ndp() {
    for seed in 0..3 {
        let network = thin_leaf_spine(4, 2, 3);
        let transports = vec![mpdq(3), transport("pdq"), transport("tcp"), transport("ndp")];
        let flows = (0..40u32)
            .map(|n| FlowSpec {
                start: Instant::ZERO + Duration::from_micros(u64::from(n) * 30),
                transport: TransportId((n % 4) as u8),
                ..flow(n % 8, (n * 3 + 2 + n / 8) % 8, 30_000 + 5_003 * u64::from(n))
            })
            .filter(|flow| flow.src != flow.dst)
            .collect();
        let mut setup = setup(network, transports, flows);
        setup.switch_queue = QueueSpec::Trim {
            data: Limit::Packets(30),
            headers: Limit::Packets(60),
            mark_above: Some(Limit::Packets(10)),
        };
        setup.seed = seed;
        let outcome = run(setup);
        for record in &outcome.flows {
            assert_eq!(record.status, FlowStatus::Completed, "{record:?}");
        }
    }
}

/// A permutation of 16 hosts of which 4 send: M-PDQ's flows have three paths each, PDQ's one.
#[test]
fn at_light_load_mpdq_takes_half_the_time_of_pdq() {
    let mean = |transport: AnyTransport| {
        let all = (0..5).flat_map(|seed| {
            let flows = permutation(16, seed).into_iter().take(4);
            let flows = flows.map(|flow| FlowSpec { size: Bytes::new(1_000_000), ..flow });
            let network = thin_leaf_spine(16, 1, 4);
            let mut setup = setup(network, vec![transport.clone()], flows.collect());
            setup.seed = seed;
            let outcome = run(setup);
            (0..4).map(move |n| fct(&outcome, n).as_secs_f64() * 1e3).collect::<Vec<_>>()
        });
        all.collect::<Vec<f64>>().iter().sum::<f64>() / 20.0
    };
    let (multi, single) = (mean(mpdq(3)), mean(transport("pdq")));
    println!("mean FCT: M-PDQ {multi:.2} ms, PDQ {single:.2} ms");
    // The paper: about half. Three idle paths would give a third.
    assert!(multi <= 0.55 * single, "{multi} of {single}");
}
