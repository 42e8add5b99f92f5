//! NDP's Figure 15 (`scenarios/among-long-flows.toml`).

use crate::common::{Ran, shipped};
use punctual_testkit::{assert_mean, claimed, markdown_table, print_figure};

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

/// Medians of the four transports, mean over the seeds as `punctual compare` prints it, and by
/// seed.
fn compare(changes: &[&str]) -> [(f64, Vec<f64>); 4] {
    let mut changes = changes.to_vec();
    changes.push("transports=['ndp', 'dctcp', 'dctcp-lossless', 'mptcp']");
    let runs = shipped("among-long-flows", &changes);
    ["ndp", "dctcp", "dctcp-lossless", "mptcp"].map(|name| {
        let own = medians(&runs, name);
        let mean = own.iter().sum::<f64>() / own.len() as f64;
        println!("{name}: {mean:.0} µs, by seed {own:.0?}");
        (mean, own)
    })
}

/// Holds the medians to the claims of the catalogue, and MPTCP behind all others.
fn assert_medians(of: &str, [ndp, dctcp, lossless, mptcp]: [(f64, Vec<f64>); 4]) {
    let hold = |name: &str, own: &[f64], others: &[f64], claim| {
        let ratios: Vec<f64> = own.iter().zip(others).map(|(own, other)| own / other).collect();
        assert_mean(&format!("ndp-fig-15-{of}-{name}"), &ratios, claimed("ndp/fig15", claim));
    };
    hold("dctcp-p50", &dctcp.1, &ndp.1, "dctcp-p50");
    hold("dctcp-lossless-p50", &lossless.1, &dctcp.1, "lossless-p50");
    hold("mptcp-p50", &mptcp.1, &ndp.1, "mptcp-p50");
    assert!(mptcp.0 > lossless.0.max(dctcp.0), "{mptcp:?}, {lossless:?}, {dctcp:?}");
}

/// On 128 hosts, where racks of four leave MPTCP more room.
#[test]
fn the_scenario_has_the_order_of_the_figure_on_128_hosts() {
    let all = compare(&[
        "network.k=8",
        "traffic.transfers.pairs=[[0, 127], [127, 0]]",
        "traffic.long.exclude=[0, 127]",
        "run.duration=20ms",
    ]);
    assert_medians("128-hosts", all);
}

#[test]
#[ignore = "study: cargo xtask figures"]
fn the_scenario_has_the_order_of_the_figure() {
    let all = compare(&[]);
    let rows: Vec<Vec<String>> = ["NDP", "DCTCP", "DCTCP over PFC", "MPTCP"]
        .iter()
        .zip(&all)
        .map(|(name, (mean, own))| {
            let of_seeds: Vec<String> = own.iter().map(|own| format!("{own:.0}")).collect();
            vec![(*name).to_owned(), format!("{mean:.0}"), of_seeds.join(", ")]
        })
        .collect();
    let head = ["", "p50, mean over seeds, µs", "by seed"];
    print_figure("ndp-figure-15-scenario", &markdown_table(&head, &rows));
    assert_medians("scenario", all);
}
