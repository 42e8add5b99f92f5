//! Dampening against what the paper shows: Figures 3a, 5a, 6 and 7 together choose its default.

use super::aggregation::{near_optimal, on_time_share, optimal_share};
use super::figure_5a::{VL2_400KB, on_time};
use super::*;
use punctual_testkit::bounded;
use std::fmt::Write;

/// Runs of each cell of Figure 3a: as many as its own test has.
const RUNS: u64 = 250;

/// Flows on time of Figure 3a with 10 and 25 flows, deadline flows on time of Figure 5a's mix at
/// 32,000 flows/s, Figure 6's last finish and mean queue, Figure 7's utilisation and mean queue.
#[test]
#[ignore = "study: cargo xtask figures"]
fn dampening_study() {
    let mut table = String::from(
        "| dampening, RTT | 3a: 10 flows | 3a: 25 flows | 5a: 32,000/s | 5a: 128,000/s | 6: last finish | \
         6: mean queue | 7: utilisation | 7: mean queue |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut held = 0;
    for dampening in [0.0, 0.1, 0.25, 0.5, 1.0] {
        let config = PdqConfig { dampening, ..PdqConfig::default() };
        let transport = AnyTransport::Pdq(config.clone());
        let few = on_time_share(&tree(), &transport, 10, RUNS);
        let many = on_time_share(&tree(), &transport, 25, RUNS);
        let mix = |per_second| on_time(&transport, VL2_400KB, per_second, 5);
        let (ends, waiting, _, _) = five_flows_measured(config.clone());
        let (utilisation, queue, _, _) = burst(config);
        if dampening == PdqConfig::default().dampening {
            held += 1;
            let [best_few, best_many] = [10, 25].map(|count| optimal_share(count, RUNS));
            let below = [(10, best_few - few), (25, best_many - many)];
            for (count, share) in below {
                let id = format!("pdq-dampening-3a-{count}");
                assert_figure(&id, 100.0 * share, near_optimal(count));
            }
            let on_time = bounded(0.99.., "the share by which Figure 5a judges a rate");
            assert_figure("pdq-dampening-5a-32000", mix(32_000.0), on_time);
            assert_figure("pdq-dampening-6-last", ends[4], claimed("pdq/fig6", "last"));
            let accepted = claimed("pdq/fig7", "utilisation");
            assert_figure("pdq-dampening-7-utilisation", 100.0 * utilisation, accepted);
            assert_figure("pdq-dampening-7-queue", queue, claimed("pdq/fig7", "queue"));
        }
        writeln!(
            table,
            "| {dampening} | {:.1} % | {:.1} % | {:.2} % | {:.2} % | {:.1} ms | {waiting:.1} | {:.1} % | \
             {queue:.1} |",
            few * 100.0,
            many * 100.0,
            mix(32_000.0) * 100.0,
            mix(128_000.0) * 100.0,
            ends[4],
            utilisation * 100.0,
        )
        .expect("a string takes all");
    }
    assert_eq!(held, 1, "the default is in the table");
    punctual_testkit::print_figure("pdq-dampening", &table);
}
