//! What the papers measured, on runs short enough for every test run.

use crate::common::*;
use punctual_core::{Bytes, Duration, Instant, Limit, QueueSpec};
use punctual_net::Tier;
use punctual_testkit::{assert_figure, claimed};
use punctual_transports::AnyTransport;
use punctual_transports::ndp::{NdpConfig, PathPolicy};

/// Share of the hosts' links that delivered data fills between `from_ms` and `to_ms`.
fn permutation_utilisation(name: &str, k: u32, from_ms: u64, to_ms: u64) -> f64 {
    let transport = match name {
        "ndp" => ndp_9k(30),
        name => transport(name),
    };
    let network = fat_tree(k, if name == "ndp" { 9064 } else { 9000 });
    let hosts = network.hosts;
    let mut setup = setup(network, vec![transport], permutation(hosts, 1));
    setup.stop = until_ms(to_ms);
    setup.measure.from = Instant::ZERO + Duration::from_millis(from_ms);
    setup.check = false;
    let outcome = run(setup);
    let seconds = (to_ms - from_ms) as f64 / 1e3;
    let share = outcome.totals.delivered_wire_bytes as f64 * 8.0
        / (f64::from(hosts) * seconds * GBPS10.as_bps() as f64);
    println!("{name} permutation on {hosts} hosts, {from_ms}–{to_ms} ms: {share:.4}");
    share
}

/// The mean of NDP's Figure 14 is of data, 9,000 B in packets of 9,064 B.
#[test]
fn ndp_permutation_fills_the_network() {
    let gbps = permutation_utilisation("ndp", 12, 10, 50) * 10.0 * 9000.0 / 9064.0;
    assert_figure("ndp-fig-14-mean-after-10-ms", gbps, claimed("ndp/fig14", "ndp-mean"));
}

/// The mean of DCTCP in NDP's Figure 14 is of data.
#[test]
fn dctcp_permutation_collides_on_hashed_paths() {
    let gbps = permutation_utilisation("dctcp", 12, 10, 50) * 10.0 * 8960.0 / 9000.0;
    assert_figure("ndp-fig-14-dctcp-mean-after-10-ms", gbps, claimed("ndp/fig14", "dctcp-mean"));
}

/// Below one switch no two flows of a permutation meet, so that each has a link to itself. What is
/// left of it: RCPdc's switches hand out 95 % (its `alpha` and `beta` drain what waits), TCP fills
/// it once its window has grown.
#[test]
fn rcpdc_and_tcp_permutations_fill_one_switch() {
    for name in ["rcpdc", "tcp"] {
        let network = star(16, 9000);
        let mut setup = setup(network, vec![transport(name)], permutation(16, 1));
        setup.stop = until_ms(20);
        setup.measure.from = Instant::ZERO + Duration::from_millis(5);
        let outcome = run(setup);
        let share = outcome.totals.delivered_wire_bytes as f64 * 8.0
            / (16.0 * 0.015 * GBPS10.as_bps() as f64);
        println!("{name} permutation below one switch: {share:.4}");
        assert!((0.95..=1.001).contains(&share), "{name} {share}");
    }
}

/// On a fat tree of 16 hosts at most four flows of a permutation share a link: those of a pod, on
/// its way to one core switch. RCPdc shares alike, so that none has less than a quarter.
#[test]
fn rcpdc_gives_each_flow_of_a_permutation_a_quarter_at_least() {
    let mut setup = setup(fat_tree(4, 9000), vec![transport("rcpdc")], permutation(16, 1));
    setup.stop = until_ms(20);
    let outcome = run(setup);
    let quarter = 0.25 * GBPS10.as_bps() as f64 * 0.02 / 8.0;
    let least = outcome.flows.iter().map(|f| f.delivered.get()).min().expect("flows") as f64;
    println!("least: {:.3} of a quarter of a link", least / quarter);
    // 40 B in 9,000 are headers; rates are found within a few round trips of 30 µs.
    assert!(least > 0.95 * quarter, "{least} of {quarter}");
}

/// Share of data packets that are trimmed on their way up, where paths can still be chosen, and
/// on their way down, where they cannot, once the first windows are through.
fn trims_up_and_down(paths: PathPolicy, initial_window: u32, queue_bytes: u64) -> (f64, f64) {
    let AnyTransport::Ndp(ndp) = ndp_9k(initial_window) else { unreachable!("ndp") };
    let transport = AnyTransport::Ndp(NdpConfig { paths, ..ndp });
    let count = |until: u64| {
        let network = fat_tree(8, 9064);
        let tiers: Vec<Tier> = network.links.iter().map(|l| l.tier).collect();
        let mut setup = setup(network, vec![transport.clone()], permutation(128, 1));
        setup.stop = until_ms(until);
        setup.check = false;
        let room = Limit::Bytes(Bytes::new(queue_bytes));
        setup.switch_queue = QueueSpec::Trim { data: room, headers: room, mark_above: None };
        let outcome = run(setup);
        let is_up = |tier: &Tier| matches!(tier, Tier::RackUp | Tier::PodUp);
        let trims = |up: bool| -> u64 {
            let of_tier = outcome.ports.iter().zip(&tiers).filter(|(_, t)| is_up(t) == up);
            of_tier.map(|(p, _)| p.trims).sum()
        };
        (trims(true), trims(false), outcome.totals.delivered_packets)
    };
    let (early, late) = (count(10), count(30));
    let packets = (late.2 - early.2) as f64;
    ((late.0 - early.0) as f64 / packets, (late.1 - early.1) as f64 / packets)
}

#[test]
fn ndp_senders_spread_packets_better_than_switches() {
    // 72,000 bytes are the paper's eight packets, of which seven fit; 72,512 hold eight, 81,576
    // eight besides the one being sent.
    for (window, bytes) in [(30, 72_000), (23, 72_000), (15, 72_512), (21, 81_576)] {
        let permuted = trims_up_and_down(PathPolicy::Permuted, window, bytes);
        let random = trims_up_and_down(PathPolicy::SwitchRandom, window, bytes);
        println!(
            "trims on 128 hosts, window {window}, queue {bytes} B: permuted {:.3} % up {:.3} % \
             down, switch-random {:.3} % up {:.3} % down",
            permuted.0 * 100.0,
            permuted.1 * 100.0,
            random.0 * 100.0,
            random.1 * 100.0,
        );
        assert!(random.0 > 4.0 * permuted.0, "{random:?} {permuted:?}");
        if bytes == 81_576 {
            for (paths, share) in [("permuted", permuted.0), ("random", random.0)] {
                let accepted = claimed("ndp/text-other", &format!("trims-{paths}"));
                let id = format!("ndp-text-uplink-trims-{paths}");
                assert_figure(&id, share * 100.0, accepted);
            }
        }
    }
}
