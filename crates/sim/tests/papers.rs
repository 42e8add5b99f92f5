//! What the papers measured, on runs short enough for every test run.

mod common;

use common::*;
use punctual_core::{Duration, Instant};

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
    setup.measure_from = Instant::ZERO + Duration::from_millis(from_ms);
    setup.check = false;
    let outcome = run(setup);
    let seconds = (to_ms - from_ms) as f64 / 1e3;
    let share = outcome.totals.delivered_wire_bytes as f64 * 8.0
        / (f64::from(hosts) * seconds * GBPS10.as_bps() as f64);
    println!("{name} permutation on {hosts} hosts, {from_ms}–{to_ms} ms: {share:.4}");
    share
}

#[test]
fn ndp_permutation_fills_the_network() {
    let share = permutation_utilisation("ndp", 12, 10, 50);
    assert!(share >= 0.91, "{share}");
}

#[test]
fn dctcp_permutation_collides_on_hashed_paths() {
    let share = permutation_utilisation("dctcp", 12, 10, 50);
    assert!((0.38..=0.50).contains(&share), "{share}");
}

#[test]
fn rcpdc_and_tcp_permutations_move_data() {
    for name in ["rcpdc", "tcp"] {
        let share = permutation_utilisation(name, 4, 5, 20);
        assert!((0.2..=1.0).contains(&share), "{name} {share}");
    }
}
