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

/// The mean and the longest completion time in ms, of 800 flows that come at random, at 0.92 of the
/// line; for each of twelve runs.
fn aged(aging: f64) -> Vec<[f64; 2]> {
    let of_run = |seed| {
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
        mean_and_max(&outcome).into()
    };
    (0..12).map(of_run).collect()
}

#[test]
fn age_shortens_the_longest_wait() {
    let mean_of = |runs: &[[f64; 2]], n: usize| {
        runs.iter().map(|run| run[n]).sum::<f64>() / runs.len() as f64
    };
    let plain = aged(0.0);
    let whole = [0, 1].map(|n| mean_of(&plain, n));
    println!("no aging: mean {:.2} ms, longest {:.0} ms", whole[0], whole[1]);
    // The changes of each run, as parts of the mean over runs without aging.
    let changes = [1.0, 3.0, 10.0].map(|aging| {
        let aged = aged(aging);
        let changes: Vec<[f64; 2]> = (aged.iter().zip(&plain))
            .map(|(aged, plain)| [0, 1].map(|n| (aged[n] - plain[n]) / whole[n]))
            .collect();
        println!(
            "aging {aging}: mean {:.2} ms ({:+.1} %), longest {:.0} ms ({:+.1} %)",
            mean_of(&aged, 0),
            mean_of(&changes, 0) * 100.0,
            mean_of(&aged, 1),
            mean_of(&changes, 1) * 100.0
        );
        changes
    });
    // A little age costs little and helps; with much, long flows go before short ones.
    let [little, .., much] = changes.each_ref().map(|c| [0, 1].map(|n| mean_of(c, n)));
    assert!(little[1] < 0.0 && much[1] < little[1] && much[0] > little[0], "{changes:?}");
    for (n, what) in ["mean", "longest"].into_iter().enumerate() {
        let accepted = claimed("pdq/fig12", what);
        let samples: Vec<f64> = changes[0].iter().map(|run| 100.0 * run[n]).collect();
        assert_mean(&format!("pdq-fig-12-{what}"), &samples, accepted);
    }
}
