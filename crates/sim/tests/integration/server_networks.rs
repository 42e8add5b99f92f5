//! A permutation of endless flows on a fat tree, a BCube and a Jellyfish: what spraying over paths of
//! unequal lengths costs NDP.

use crate::common::*;
use punctual_core::{Bytes, Duration, Instant, Rate};
use punctual_net::{BcubeShape, ClosLinks, ClosShape, JellyfishLinks, JellyfishShape, Network};
use punctual_sim::{Measure, Setup};
use punctual_transports::ndp::PathPolicy;
use punctual_transports::{AnyTransport, TransportSettings};
use std::fmt::Write as _;

const RATE: Rate = Rate::from_gbps(1);
const MTU: Bytes = Bytes::new(1500);

fn bcube(n: u32, k: u32) -> Network {
    BcubeShape { n, k }.build(RATE, US, Duration::ZERO, MTU, Bytes::ZERO).expect("a BCube")
}

/// 64 hosts on 16 switches with 8 links each to others.
fn jellyfish(paths: u32) -> Network {
    let shape = JellyfishShape { switches: 16, ports: 12, hosts_per_switch: 4, paths, seed: 1 };
    let processing = Duration::ZERO;
    let links = JellyfishLinks { host_rate: RATE, switch_rate: RATE, delay: US, processing };
    shape.build(&links, MTU, Bytes::ZERO).expect("a Jellyfish")
}

fn fat_tree_of_54() -> Network {
    ClosShape::fat_tree(6, 1).build(&ClosLinks::uniform(RATE, US), MTU, Bytes::ZERO)
}

fn by_name(name: &str, paths: PathPolicy, window: u32) -> AnyTransport {
    let mut settings = TransportSettings::default();
    settings.ndp.paths = paths;
    settings.ndp.initial_window = window;
    AnyTransport::by_name(name, &settings).expect("a transport")
}

/// What a run shows.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// Delivered bits of data packets / (rate of one NIC × hosts × time).
    goodput: f64,
    /// Bytes that all links carried, headers and answers included, per full packet delivered.
    links: f64,
    /// Trims or drops per packet delivered.
    cut: f64,
}

fn measure(network: Network, transport: AnyTransport) -> Row {
    let hosts = network.hosts;
    let mut total = Row { goodput: 0.0, links: 0.0, cut: 0.0 };
    const SEEDS: u64 = 3;
    for seed in 1..=SEEDS {
        let flows = permutation(hosts, seed);
        let from = Instant::ZERO + Duration::from_millis(10);
        let setup = Setup {
            seed,
            stop: until_ms(30),
            check: false,
            measure: Measure { from, until: None },
            ..setup(network.clone(), vec![transport.clone()], flows)
        };
        let outcome = run(setup);
        let totals = &outcome.totals;
        let time = 0.02;
        let bits = totals.delivered_wire_bytes as f64 * 8.0;
        let delivered = totals.delivered_packets as f64;
        let bytes: u64 = outcome.ports.iter().map(|port| port.sent_bytes).sum();
        total.goodput += bits / (RATE.as_bps() as f64 * f64::from(hosts) * time);
        total.links += bytes as f64 / 1500.0 / delivered;
        total.cut += (totals.trims + totals.drops) as f64 / delivered;
    }
    let mean = |sum: f64| sum / SEEDS as f64;
    Row { goodput: mean(total.goodput), links: mean(total.links), cut: mean(total.cut) }
}

#[test]
#[ignore = "study: cargo xtask figures"]
fn ndp_on_paths_of_unequal_lengths() {
    let spray = PathPolicy::Permuted;
    let networks = [
        ("fat tree, 54 hosts", fat_tree_of_54()),
        ("BCube(8, 1), 64 hosts", bcube(8, 1)),
        ("BCube(2, 3), 16 hosts", bcube(2, 3)),
        ("Jellyfish, 64 hosts, 8 paths", jellyfish(8)),
        ("Jellyfish, 64 hosts, 64 paths", jellyfish(64)),
    ];
    let mut table = String::from(
        "| network | transport | goodput | links per packet | trimmed or dropped per packet |\n\
         |---|---|---|---|---|\n",
    );
    for (name, network) in networks {
        for (shown, transport) in [
            ("NDP, sprayed, window 12", by_name("ndp", spray, 12)),
            ("NDP, sprayed, window 30", by_name("ndp", spray, 30)),
            ("NDP, one path per flow, window 12", by_name("ndp", PathPolicy::Single, 12)),
            ("MPTCP, 8 subflows", by_name("mptcp", spray, 12)),
            ("DCTCP", by_name("dctcp", spray, 12)),
        ] {
            let row = measure(network.clone(), transport);
            if name.starts_with("BCube(8, 1)") && shown.starts_with("NDP, sprayed") {
                // The two paths of a pair have four links each, or two and six.
                assert!(row.links >= 4.0, "{row:?}");
            }
            writeln!(
                table,
                "| {name} | {shown} | {:.2} | {:.1} | {:.2} |",
                row.goodput, row.links, row.cut
            )
            .expect("text");
        }
    }
    punctual_testkit::print_figure("server-networks-permutation", &table);
}
