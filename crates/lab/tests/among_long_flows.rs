//! NDP's Figure 15 as `scenarios/among-long-flows.toml` has it.

mod common;

use common::{Ran, shipped};

/// The median of a transport's transfers with each seed, in µs.
fn medians(runs: &[Ran], name: &str) -> Vec<f64> {
    let median = |ran: &Ran| -> f64 {
        let transfers = ran.outcome.flows.iter().filter(|f| !f.spec.background);
        let time = transfers.filter_map(|f| Some(f.ended?.saturating_since(f.spec.start)));
        let mut times: Vec<f64> = time.map(|time| time.as_secs_f64() * 1e6).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    runs.iter().filter(|r| r.name() == name).map(median).collect()
}

/// Holds the order of the figure, by the means of the medians, as `punctual compare` prints them.
fn order(changes: &[&str]) {
    let mut changes = changes.to_vec();
    changes.push("transports=['ndp', 'dctcp', 'dctcp-lossless', 'mptcp']");
    let runs = shipped("among-long-flows", &changes);
    let [ndp, dctcp, lossless, mptcp] = ["ndp", "dctcp", "dctcp-lossless", "mptcp"].map(|name| {
        let own = medians(&runs, name);
        let mean = own.iter().sum::<f64>() / own.len() as f64;
        println!("{name}: {mean:.0} µs, by seed {own:.0?}");
        mean
    });
    assert!((1.8..3.2).contains(&(dctcp / ndp)), "{dctcp}, {ndp}");
    assert!((0.98..1.2).contains(&(lossless / dctcp)), "{lossless}, {dctcp}");
    assert!(mptcp > 1.1 * lossless.max(dctcp), "{mptcp}, {lossless}");
}

/// On 128 hosts, where racks of four leave MPTCP more room.
#[test]
fn the_scenario_has_the_order_of_the_figure_on_128_hosts() {
    order(&[
        "network.k=8",
        "traffic.transfers.pairs=[[0, 127], [127, 0]]",
        "traffic.long.exclude=[0, 127]",
        "run.duration=20ms",
    ]);
}

#[test]
#[ignore = "takes a minute or two"]
fn the_scenario_has_the_order_of_the_figure() {
    order(&[]);
}
