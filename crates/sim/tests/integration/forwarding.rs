//! Hosts with several NICs that forward for others, and networks whose paths differ in length.

use crate::common::*;
use punctual_core::TransportId;
use punctual_core::rng::derive;
use punctual_core::{Bytes, Duration, FlowSpec, HostId, Instant, Limit, PortId, QueueSpec, Rate};
use punctual_net::{BcubeShape, JellyfishLinks, JellyfishShape, Network};
use punctual_sim::{FlowStatus, LinkChange, LinkFault, Outcome, Setup};
use punctual_transports::{AnyTransport, TransportSettings};

const RATE: Rate = Rate::from_gbps(1);

fn bcube(n: u32, k: u32) -> Network {
    let shape = BcubeShape { n, k };
    shape.build(RATE, US, Duration::ZERO, Bytes::new(1500), Bytes::ZERO).expect("a BCube")
}

fn jellyfish() -> Network {
    let shape = JellyfishShape { switches: 8, ports: 6, hosts_per_switch: 2, paths: 8, seed: 7 };
    let processing = Duration::ZERO;
    let links = JellyfishLinks { host_rate: RATE, switch_rate: RATE, delay: US, processing };
    shape.build(&links, Bytes::new(1500), Bytes::ZERO).expect("a Jellyfish")
}

/// The path that the hash of a flow gives, as in `crates/sim/src/hosts.rs`.
fn hashed_path(seed: u64, flow: u32, src: u32, paths: u32) -> u32 {
    let ecmp = derive(seed, "ecmp", u64::from(flow) << 32 | u64::from(src));
    ((u128::from(ecmp) * u128::from(paths)) >> 64) as u32
}

/// Two flows through the NIC of level 1 of host 1 in BCube(2, 1): flow 0 from host 0, which host 1
/// forwards, and flow 1 of host 1 itself. Both go to host 3.
fn at_one_nic(transports: Vec<AnyTransport>, sizes: [u64; 2]) -> (Setup, PortId) {
    let network = bcube(2, 1);
    let seed =
        (1..).find(|seed| hashed_path(*seed, 0, 0, 2) == 0 && hashed_path(*seed, 1, 1, 2) == 1);
    let relay = network.nics(HostId(1))[1];
    assert_eq!(network.path_links(HostId(0), HostId(3), 0)[2], relay);
    assert_eq!(network.path_links(HostId(1), HostId(3), 1)[0], relay);
    let own = transports.len() as u8 - 1;
    let flows = vec![
        flow(0, 3, sizes[0]),
        FlowSpec { transport: TransportId(own), ..flow(1, 3, sizes[1]) },
    ];
    let mut setup = setup(network, transports, flows);
    setup.seed = seed.expect("some seed");
    (setup, relay)
}

fn delivered(outcome: &Outcome, flow: usize) -> u64 {
    outcome.flows[flow].delivered.get()
}

fn fct_us(outcome: &Outcome, flow: usize) -> f64 {
    let record = &outcome.flows[flow];
    assert_eq!(record.status, FlowStatus::Completed);
    (record.ended.unwrap() - record.spec.start).as_secs_f64() * 1e6
}

#[test]
fn a_host_forwards_every_byte_of_others() {
    for name in ["tcp", "dctcp", "d3", "pdq", "rcp", "dcqcn"] {
        let (mut setup, relay) = at_one_nic(vec![transport(name)], [1_000_000, 100]);
        setup.workload.flows.truncate(1);
        let outcome = run(setup);
        assert_eq!(delivered(&outcome, 0), 1_000_000, "{name}");
        // The relay sent the data once, and nothing else: answers go back another way.
        let sent = &outcome.ports[relay.index()];
        assert!(sent.sent_bytes >= 1_000_000, "{name} {sent:?}");
        assert!(sent.sent_bytes < 1_100_000, "{name} {sent:?}");
    }
}

/// A NIC that has both sends as many bytes of its host's packets as of those that it forwards.
#[test]
fn own_and_forwarded_packets_take_turns() {
    let mut settings = TransportSettings::default();
    settings.udp.rate = RATE;
    let udp = AnyTransport::by_name("udp", &settings).expect("udp");
    // Host 0 fills the link to host 1. Host 1 has a TCP flow of its own for the same NIC.
    let (mut setup, relay) = at_one_nic(vec![udp, transport("tcp")], [u64::MAX, u64::MAX]);
    setup.switch_queue = drop_tail(100);
    setup.stop = until_ms(200);
    let outcome = run(setup);
    // 1 Gb/s for 200 ms, less 40 of 1500 bytes per TCP packet: each gets half.
    let half = 1e9 / 8.0 * 0.2 / 2.0 * (1460.0 / 1500.0);
    let own = delivered(&outcome, 1) as f64;
    let forwarded = delivered(&outcome, 0) as f64;
    assert!((0.95..1.01).contains(&(own / half)), "own {}", own / half);
    assert!((0.95..1.05).contains(&(forwarded / half)), "forwarded {}", forwarded / half);
    // The surplus is dropped at that NIC, by the discipline of switches.
    assert!(outcome.ports[relay.index()].drops > 0);
}

/// A host's own packets do not take what it forwards below a fair half.
#[test]
fn forwarded_packets_below_their_half_are_not_dropped() {
    let mut settings = TransportSettings::default();
    settings.udp.rate = Rate::from_mbps(300);
    let udp = AnyTransport::by_name("udp", &settings).expect("udp");
    let (mut setup, relay) = at_one_nic(vec![udp, transport("tcp")], [u64::MAX, u64::MAX]);
    setup.switch_queue = drop_tail(100);
    setup.stop = until_ms(100);
    let outcome = run(setup);
    assert_eq!(outcome.ports[relay.index()].drops, 0);
}

/// PDQ's controller at the NIC of a host that forwards: the shorter flow goes first, whoever's, and
/// neither takes longer than two flows that share a link of a switch.
#[test]
fn pdq_schedules_forwarded_flows_with_the_host_s_own() {
    let switched = |sizes: [u64; 2]| {
        let mut network = star(3, 1500);
        network.links.iter_mut().for_each(|link| link.rate = RATE);
        let flows = vec![flow(0, 2, sizes[0]), flow(1, 2, sizes[1])];
        run(setup(network, vec![transport("pdq")], flows))
    };
    for sizes in [[400_000, 1_000_000], [1_000_000, 400_000]] {
        let outcome = run(at_one_nic(vec![transport("pdq")], sizes).0);
        let short = usize::from(sizes[0] > sizes[1]);
        assert!(fct_us(&outcome, short) < 0.5 * fct_us(&outcome, 1 - short));
        for flow in [0, 1] {
            let ratio = fct_us(&outcome, flow) / fct_us(&switched(sizes), flow);
            assert!(ratio < 1.1, "flow {flow}: {ratio}");
        }
    }
}

#[test]
fn d3_grants_no_more_than_the_relay_has() {
    // The checker compares grants with capacity at every port, NICs included.
    let (setup, _) = at_one_nic(vec![transport("d3")], [1_000_000, 1_000_000]);
    let outcome = run(setup);
    let times = [fct_us(&outcome, 0), fct_us(&outcome, 1)];
    // 2 MB on one link take 16.7 ms with 62 bytes of 1500 for headers.
    assert!(times.iter().all(|time| *time > 15_000.0), "{times:?}");
}

/// Sprayed flows and those of several subflows use all NICs of their hosts.
#[test]
fn a_lone_flow_uses_all_nics() {
    let size = 10_000_000;
    let one_nic = size as f64 * 8.0 / 1e3;
    for (name, most) in [("ndp", 0.6), ("mptcp", 0.75), ("tcp", 1.2)] {
        for dst in [1, 3] {
            let mut setup = setup(bcube(2, 1), vec![transport(name)], vec![flow(0, dst, size)]);
            setup.seed = 3;
            let share = fct_us(&run(setup), 0) / one_nic;
            assert!(share < most, "{name} to {dst}: {share}");
            assert!(share > 0.5, "{name} to {dst}: {share}");
        }
    }
}

const NAMES: [&str; 13] = [
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
];

#[test]
fn every_transport_completes_flows() {
    for name in NAMES {
        for network in [bcube(2, 0), bcube(2, 1), bcube(4, 1), bcube(2, 3), jellyfish()] {
            let hosts = network.hosts;
            let is_long = network.nics_per_host() == 4;
            if is_long && ["d3", "rcpdc"].contains(&name) {
                continue; // paths of ten ports; see the next test
            }
            let flows = (0..hosts).map(|src| flow(src, (src + hosts / 2 + 1) % hosts, 150_000));
            let flows = flows.filter(|flow| flow.src != flow.dst).collect();
            let outcome = run(setup(network, vec![transport(name)], flows));
            for record in &outcome.flows {
                assert_eq!(record.status, FlowStatus::Completed, "{name} {hosts} {record:?}");
                assert_eq!(record.delivered.get(), 150_000);
            }
        }
    }
}

#[test]
fn d3_abandons_flows_on_paths_of_more_than_six_ports() {
    // Hosts 0 and 15 differ in all four digits: every path has eight ports.
    let outcome = run(setup(bcube(2, 3), vec![transport("d3")], vec![flow(0, 15, 10_000)]));
    assert_eq!(outcome.flows[0].status, FlowStatus::Abandoned);
}

/// NDP and MPTCP go on over the other paths when one is dead from the start, and a single-path
/// transport when routing learns of it.
#[test]
fn a_dead_path_is_avoided() {
    let at = Instant::ZERO;
    for (name, is_known) in [("ndp", false), ("mptcp", false), ("tcp", true), ("pdq", true)] {
        for network in [bcube(2, 1), jellyfish()] {
            let (src, dst) = (HostId(0), HostId(3));
            // A link in the middle of the first path, both ways.
            let path = network.path_links(src, dst, 0);
            let middle = path[path.len() / 2];
            let ports = [middle, network.link(middle).twin];
            let down = ports.map(|port| LinkChange { at, port, what: LinkFault::Down });
            let withdrawn = ports.map(|port| LinkChange {
                at: at + Duration::from_micros(500),
                port,
                what: LinkFault::Withdrawn(true),
            });
            let mut setup = setup(network, vec![transport(name)], vec![flow(0, 3, 300_000)]);
            setup.link_changes = down.to_vec();
            if is_known {
                setup.link_changes.extend(withdrawn);
            }
            let outcome = run(setup);
            assert_eq!(outcome.flows[0].status, FlowStatus::Completed, "{name}");
            assert_eq!(outcome.flows[0].delivered.get(), 300_000);
        }
    }
}

/// A header that a full queue returns goes back by the links it came by, over hosts that forward.
#[test]
fn headers_return_over_hosts_that_forward() {
    let mut bounces = 0;
    for network in [bcube(2, 3), bcube(4, 1), jellyfish()] {
        let hosts = network.hosts;
        let flows = (1..hosts).map(|src| flow(src, 0, 60_000)).collect();
        let mut setup = setup(network, vec![transport("ndp")], flows);
        setup.switch_queue = QueueSpec::Trim {
            data: Limit::Packets(2),
            headers: Limit::Packets(2),
            mark_above: None,
        };
        let outcome = run(setup);
        bounces += outcome.totals.bounces;
        assert!(outcome.flows.iter().all(|flow| flow.status == FlowStatus::Completed));
    }
    assert!(bounces > 0);
}
