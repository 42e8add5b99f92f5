//! What makes a flow critical: sizes known, guessed or ignored (Figure 10), and age (Figure 12).

use super::*;
use punctual_core::rng::Stream;
use punctual_transports::pdq::Criticality;

/// A size with a mean of 100 KB: uniform, or Pareto with a tail index of 1.1 cut at 10 MB.
fn size(stream: &mut Stream, heavy: bool) -> u64 {
    if !heavy {
        return 2_000 + stream.below(196_001);
    }
    // With m the least, the mean is m (11 − 10 (m / 10 MB)^0.1).
    (17_600.0 * (1.0 - stream.unit()).powf(-1.0 / 1.1)).min(1e7) as u64
}

fn mean_and_max(outcome: &Outcome) -> (f64, f64) {
    let took = |f: &punctual_sim::FlowRecord| {
        f.ended.expect("ended").saturating_since(f.spec.start).as_secs_f64() * 1e3
    };
    let times: Vec<f64> = outcome.flows.iter().map(took).collect();
    (times.iter().sum::<f64>() / times.len() as f64, times.iter().copied().fold(0.0, f64::max))
}

#[test]
fn sizes_known_guessed_and_ignored() {
    const RUNS: u64 = 60;
    for heavy in [false, true] {
        let mean = |transport: &AnyTransport| {
            let mut sum = 0.0;
            for seed in 0..RUNS {
                let mut stream = Stream::named(seed, "sizes", 0);
                let flows = (1..=10).map(|n| flow(n, 0, size(&mut stream, heavy))).collect();
                let mut setup = setup(one_switch(11), vec![transport.clone()], flows);
                (setup.seed, setup.check) = (seed, false);
                sum += mean_and_max(&run(setup)).0;
            }
            sum / RUNS as f64
        };
        let of = |criticality| {
            mean(&AnyTransport::Pdq(PdqConfig { criticality, ..PdqConfig::default() }))
        };
        let known = of(Criticality::Deadline);
        let guessed = of(Criticality::Estimated);
        let random = of(Criticality::Random);
        let rcp = mean(&transport("rcpdc"));
        println!(
            "mean FCT of 10 flows, {}: sizes known {known:.2} ms, guessed {guessed:.2}, random \
             {random:.2}, RCP {rcp:.2}",
            if heavy { "heavy-tailed" } else { "uniform" },
        );
        assert!(known < guessed && known < random && known < rcp);
        let sizes = if heavy { "heavy-tailed" } else { "uniform" };
        let faster = || claimed("pdq/fig10", "uniform-estimated");
        assert_figure(&format!("pdq-fig-10-guessed-over-rcp-{sizes}"), rcp / guessed, faster());
        if heavy {
            let faster = claimed("pdq/fig10", "heavy-order");
            assert_figure("pdq-fig-10-rcp-over-random-heavy-tailed", random / rcp, faster);
        }
    }
}

/// Means over runs of the mean and the longest completion time in ms, of 800 flows that come at
/// random, at 0.92 of the line.
fn aged(aging: f64) -> (f64, f64) {
    const RUNS: u64 = 12;
    let (mut mean, mut longest) = (0.0, 0.0);
    for seed in 0..RUNS {
        let mut stream = Stream::named(seed, "arrivals", 0);
        let mut at = 0.0;
        let flows = (0..800u32)
            .map(|n| {
                at += stream.exponential(0.00092);
                let start = Instant::ZERO + Duration::from_secs_f64(at);
                FlowSpec { start, ..flow(1 + n % 11, 0, size(&mut stream, true)) }
            })
            .collect();
        let mut setup =
            setup(one_switch(12), pdq(PdqConfig { aging, ..PdqConfig::default() }), flows);
        (setup.seed, setup.check) = (seed, false);
        let outcome = run(setup);
        all_ended(&outcome);
        let of_run = mean_and_max(&outcome);
        mean += of_run.0 / RUNS as f64;
        longest += of_run.1 / RUNS as f64;
    }
    (mean, longest)
}

#[test]
fn age_shortens_the_longest_wait() {
    let (mean, longest) = aged(0.0);
    println!("no aging: mean {mean:.2} ms, longest {longest:.0} ms");
    let changes = [1.0, 3.0, 10.0].map(|aging| {
        let (aged_mean, aged_longest) = aged(aging);
        let changes = (aged_mean / mean - 1.0, aged_longest / longest - 1.0);
        println!(
            "aging {aging}: mean {aged_mean:.2} ms ({:+.1} %), longest {aged_longest:.0} ms \
             ({:+.1} %)",
            changes.0 * 100.0,
            changes.1 * 100.0
        );
        changes
    });
    // A little age costs little and helps; with much, long flows go before short ones.
    let [little, .., much] = changes;
    assert!(little.1 < 0.0 && much.1 < little.1 && much.0 > little.0, "{changes:?}");
    for (what, change) in [("mean", little.0), ("longest", little.1)] {
        let accepted = claimed("pdq/fig12", what);
        assert_figure(&format!("pdq-fig-12-{what}"), 100.0 * change, accepted);
    }
}
