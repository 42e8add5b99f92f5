//! Whether two sets of runs differ by more than chance.
//!
//! Flows of one run share queues and are not independent, so the tests use one number per run. Where
//! both sides have the same seeds, their runs carry the same flows: the test is a paired t of the
//! differences between runs of one seed. Otherwise it is Welch's t of the means, which does not
//! assume equal variances.

use crate::share::share_interval;
use crate::stats::{ALPHA, mean, variance};
use crate::student::t_quantile;
use crate::times::Times;
use crate::{Figure, Interval, Metric, Summary};

/// A difference of means and half its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Mean of the second minus mean of the first.
    pub mean: f64,
    /// Half the width of its 95 % interval; none if a side has fewer than two runs.
    pub half_width: Option<f64>,
}

impl Difference {
    /// Whether its interval excludes 0; false without an interval.
    pub fn is_significant(&self) -> bool {
        self.half_width.is_some_and(|half| self.mean.abs() > half)
    }
}

/// A comparison of a metric between two sets of runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The mean over the first runs, which may be a lower bound.
    pub a: Figure,
    /// The mean over the second runs, which may be a lower bound.
    pub b: Figure,
    /// The second minus the first, with lower bounds taken as values.
    pub difference: Difference,
    /// Whether the runs were compared in pairs of one seed.
    pub is_paired: bool,
    /// Whether both runs of every pair have the same value.
    pub is_same: bool,
}

impl Comparison {
    /// Whether the second is significantly more than the first. If the second is a lower bound, the
    /// difference can only be larger; if the first is, it is open.
    pub fn is_more(&self) -> bool {
        self.difference.is_significant() && self.difference.mean > 0.0 && !self.a.is_bound
    }

    /// Whether the second is significantly less than the first.
    pub fn is_less(&self) -> bool {
        self.difference.is_significant() && self.difference.mean < 0.0 && !self.b.is_bound
    }
}

/// Compares a metric over repetitions: in pairs where both sides have the same seeds, otherwise by
/// Welch's t. None where a side has no value.
pub fn compare(a: &[Summary], b: &[Summary], metric: Metric) -> Option<Comparison> {
    let figures = |side: &[Summary]| side.iter().map(|s| s[metric]).collect::<Vec<_>>();
    let (of_a, of_b) = (figures(a), figures(b));
    let values = |side: &[Figure]| side.iter().filter_map(|f| f.value).collect::<Vec<f64>>();
    let (first, second) = (values(&of_a), values(&of_b));
    let seeds = |side: &[Summary]| side.iter().map(|s| s.seeds.clone()).collect::<Vec<_>>();
    // Pairs need a value in every run.
    let is_whole = first.len() == a.len() && second.len() == b.len();
    let is_paired = is_whole && seeds(a) == seeds(b);
    let mut difference = if is_paired { paired(&first, &second) } else { welch(&first, &second) }?;
    let is_share_of_flows = matches!(metric.definition().interval, Interval::Share { .. });
    if is_share_of_flows && !has_spread(&first, &second, is_paired) {
        difference.half_width = newcombe(a, b, metric);
    }
    let whole = |side: &[Figure], values: &[f64]| {
        let is_bound = side.iter().any(|figure| figure.is_bound);
        Figure {
            value: mean(values),
            is_bound,
            half_width: crate::stats::half_width_95(values),
            is_maximum: !is_bound && side.iter().any(|figure| figure.is_maximum),
        }
    };
    Some(Comparison {
        a: whole(&of_a, &first),
        b: whole(&of_b, &second),
        difference,
        is_paired,
        is_same: is_paired && of_a == of_b,
    })
}

/// Half the width of the interval of a difference of two shares, each with its own interval
/// (Newcombe's hybrid score): with the intervals [l, u] of the shares p, it is the longer of
/// √((p₁ − l₁)² + (u₂ − p₂)²) and √((u₁ − p₁)² + (p₂ − l₂)²). It has a width even where runs do
/// not differ among themselves. None below two runs a side.
fn newcombe(a: &[Summary], b: &[Summary], metric: Metric) -> Option<f64> {
    let interval = |side: &[Summary]| {
        let shares = metric.shares(side.iter().map(|one| &one.metrics));
        let mean = mean(&shares.iter().map(|one| one.share).collect::<Vec<_>>())?;
        let (low, high) = share_interval(&shares, ALPHA)?;
        Some((mean - low, high - mean))
    };
    let ((below_a, above_a), (below_b, above_b)) = (interval(a)?, interval(b)?);
    Some(f64::max(below_a.hypot(above_b), above_a.hypot(below_b)))
}

/// Whether the runs of a side, or the differences of pairs, differ among themselves.
fn has_spread(a: &[f64], b: &[f64], is_paired: bool) -> bool {
    let spreads = |values: &[f64]| values.windows(2).any(|two| two[0] != two[1]);
    match is_paired {
        true => spreads(&a.iter().zip(b).map(|(a, b)| b - a).collect::<Vec<_>>()),
        false => spreads(a) || spreads(b),
    }
}

/// Half the width of an interval where the runs of each side do not differ among themselves.
///
/// Student's t has no width there. The width is zero if chance gives the order of the two sides in
/// fewer than one of twenty cases; else the interval reaches zero.
fn without_spread(difference: f64, chance: f64) -> f64 {
    if chance < ALPHA { 0.0 } else { difference.abs() }
}

/// Student's t of the differences within pairs: `a[i]` and `b[i]` are runs of the same flows.
///
/// None without values. If all differences are equal, only their signs count: six pairs are needed.
///
/// # Panics
/// When the sides differ in length.
pub fn paired(a: &[f64], b: &[f64]) -> Option<Difference> {
    assert_eq!(a.len(), b.len(), "pairs");
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let mean = mean(&differences)?;
    let signs = 0.5f64.powi(differences.len() as i32 - 1);
    let half_width = crate::stats::half_width_95(&differences)
        .map(|half| if half > 0.0 { half } else { without_spread(mean, signs) });
    Some(Difference { mean, half_width })
}

/// Welch's t of independent runs. None where a side has no value.
pub fn welch(a: &[f64], b: &[f64]) -> Option<Difference> {
    let difference = mean(b)? - mean(a)?;
    let (runs_a, runs_b) = (a.len(), b.len());
    let (Some(a), Some(b)) = (squared_error(a), squared_error(b)) else {
        return Some(Difference { mean: difference, half_width: None });
    };
    let both = a.0 + b.0;
    // Welch and Satterthwaite's degrees of freedom: NaN, which `max` ignores, without any spread.
    let freedom = (both * both / (a.0 * a.0 / a.1 + b.0 * b.0 / b.1)).max(1.0);
    let half_width = t_quantile(ALPHA, freedom) * both.sqrt();
    let half_width = if half_width > 0.0 {
        half_width
    } else {
        // Of all ways to divide the runs among the two sides, two have this order.
        let orders = (1..=runs_a).map(|i| (runs_b + i) as f64 / i as f64).product::<f64>();
        without_spread(difference, 2.0 / orders)
    };
    Some(Difference { mean: difference, half_width: Some(half_width) })
}

/// The squared standard error of the mean, and its degrees of freedom.
fn squared_error(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    Some((variance(values)? / n, n - 1.0))
}

/// The probability that a time of `b` is shorter than one of `a`: U / (|a| |b|), with Mann and
/// Whitney's U. Equal pairs, and pairs that an unfinished flow leaves open, count half (Gehan). None
/// where a side has no time.
pub fn chance_below(a: &Times, b: &Times) -> Option<f64> {
    let pairs = a.len() as f64 * b.len() as f64;
    let more = wins(b, a) - wins(a, b);
    (pairs > 0.0).then(|| 0.5 + more / pairs / 2.0)
}

/// Pairs in which the time of `fast` is known to be shorter than that of `slow`.
fn wins(fast: &Times, slow: &Times) -> f64 {
    // A completed flow beats completed ones that took longer, and censored ones that had taken as
    // long already.
    let (mut shorter, mut not_longer) = (0, 0);
    let mut wins = 0;
    for time in fast.completed() {
        while slow.completed().get(shorter).is_some_and(|other| other <= time) {
            shorter += 1;
        }
        while slow.open().get(not_longer).is_some_and(|other| other < time) {
            not_longer += 1;
        }
        wins += slow.completed().len() - shorter + slow.open().len() - not_longer;
    }
    wins as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::Time;
    use proptest::prelude::*;

    #[test]
    fn welch_as_worked_by_hand() {
        // Means 3 and 6, squared errors 0.5 and 2: t = 3 / sqrt(2.5) = 1.897, 5.882 degrees of
        // freedom: 2.459 × 1.5811 = 3.888.
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 4.0, 6.0, 8.0, 10.0]);
        let difference = welch(&a, &b).unwrap();
        assert_eq!(difference.mean, 3.0);
        assert!((difference.half_width.unwrap() - 3.888).abs() < 2e-3, "{difference:?}");
        assert!(!difference.is_significant());
        // As pairs they differ by 1, 2, 3, 4 and 5: 2.776 × sqrt(0.5) = 1.963.
        let difference = paired(&a, &b).unwrap();
        assert!((difference.half_width.unwrap() - 1.963).abs() < 1e-3, "{difference:?}");
        assert!(difference.is_significant());
    }

    #[test]
    fn nothing_is_significant_of_one_run_or_of_equal_ones() {
        assert_eq!(welch(&[], &[1.0]), None);
        assert!(!welch(&[1.0], &[9.0, 9.0]).unwrap().is_significant());
        assert!(!paired(&[1.0], &[9.0]).unwrap().is_significant());
        assert!(!paired(&[1.0, 2.0], &[1.0, 2.0]).unwrap().is_significant());
        assert!(!welch(&[1.0, 1.0], &[1.0, 1.0]).unwrap().is_significant());
        // Runs that are all alike have no spread to judge by, so their order alone counts: of two
        // runs a side it is chance in 2 of 6 cases, of four in 2 of 70; of five pairs all have
        // one sign in 1 of 16 cases, of six in 1 of 32.
        let (ones, twos) = ([1.0; 6], [2.0; 6]);
        assert!(!welch(&ones[..2], &twos[..2]).unwrap().is_significant());
        assert!(welch(&ones[..4], &twos[..4]).unwrap().is_significant());
        assert!(!paired(&ones[..5], &twos[..5]).unwrap().is_significant());
        assert!(paired(&ones, &twos).unwrap().is_significant());
        // Of three runs and four: 2 of the 35 ways to divide seven runs, more than one in twenty.
        // Of three and five: 2 of 56.
        for (a, b) in [(3, 4), (4, 3)] {
            assert!(!welch(&ones[..a], &twos[..b]).unwrap().is_significant(), "{a} and {b}");
        }
        for (a, b) in [(3, 5), (5, 3)] {
            assert!(welch(&ones[..a], &twos[..b]).unwrap().is_significant(), "{a} and {b}");
        }
    }

    /// 5 of 20 deadlines met beside 0 of 20, in each of two runs: differences of pairs are equal,
    /// and still it may be chance.
    #[test]
    fn shares_that_differ_alike_in_every_run_have_a_width() {
        let run = |seed, met: f64, of: f64| {
            Summary { seeds: vec![seed], ..Summary::default() }
                .with(Metric::DeadlinesMet, met / of)
                .with(Metric::DeadlineFlows, of)
        };
        let of = |met, of, runs: u64| (1..=runs).map(|s| run(s, met, of)).collect::<Vec<_>>();
        let compare = |a: &[Summary], b: &[Summary]| compare(a, b, Metric::DeadlinesMet).unwrap();
        let few = compare(&of(0.0, 20.0, 2), &of(5.0, 20.0, 2));
        assert!(few.is_paired && !few.is_more(), "{few:?}");
        let many = compare(&of(0.0, 2000.0, 5), &of(500.0, 2000.0, 5));
        assert!(many.is_more() && many.difference.half_width.unwrap() > 0.0, "{many:?}");
    }

    #[test]
    fn a_bound_can_only_be_more() {
        let run = |seed, value, is_bound| {
            let mut summary = Summary { seeds: vec![seed], ..Summary::default() };
            summary[Metric::FctP99] = Figure { value: Some(value), is_bound, ..Figure::default() };
            summary
        };
        let known = [run(1, 10.0, false), run(2, 11.0, false), run(3, 10.0, false)];
        let short = [run(1, 5.0, true), run(2, 6.2, true), run(3, 5.1, false)];
        let long = [run(1, 50.0, true), run(2, 60.0, true), run(3, 50.0, true)];
        let than = |b: &[Summary]| compare(&known, b, Metric::FctP99).unwrap();
        assert!(than(&long).is_more() && than(&long).is_paired && than(&long).b.is_bound);
        // Its bounds are below, but its value is open.
        assert!(than(&short).difference.is_significant() && !than(&short).is_less());
        assert!(compare(&long, &known, Metric::FctP99).unwrap().is_less());
        assert!(than(&known).is_same && compare(&known, &known, Metric::FctP50).is_none());
        // Pairs that differ are not the same, and nor are equal values of other seeds.
        assert!(!than(&short).is_same);
        let others = known.clone().map(|run| Summary { seeds: vec![run.seeds[0] + 10], ..run });
        assert!(!than(&others).is_paired && !than(&others).is_same);
        // Less, but by chance.
        let near = [run(1, 9.0, false), run(2, 12.0, false), run(3, 9.5, false)];
        assert!(than(&near).difference.mean < 0.0 && !than(&near).is_less());
    }

    #[test]
    fn a_run_without_a_value_leaves_no_pairs() {
        let run = |seed, value| {
            let mut summary = Summary { seeds: vec![seed], ..Summary::default() };
            summary[Metric::FctP99].value = value;
            summary
        };
        let whole = [run(1, Some(1.0)), run(2, Some(2.0))];
        let partial = [run(1, Some(3.0)), run(2, None)];
        for (a, b) in [(&whole, &partial), (&partial, &whole)] {
            let found = compare(a, b, Metric::FctP99).unwrap();
            assert!(!found.is_paired && found.difference.half_width.is_none(), "{found:?}");
        }
    }

    /// Only shares of flows have an interval without spread. A share with spread has Student's.
    #[test]
    fn only_shares_without_spread_have_the_interval_of_shares() {
        let run = |seed: u64, fct: f64, met: f64| {
            Summary { seeds: vec![seed], ..Summary::default() }
                .with(Metric::FctP99, fct)
                .with(Metric::DeadlinesMet, met)
                .with(Metric::DeadlineFlows, 100.0)
        };
        let a: Vec<Summary> = (1..=6).map(|s| run(s, 1.0, 0.5 + s as f64 / 100.0)).collect();
        let b: Vec<Summary> = (1..=6).map(|s| run(s, 2.0, 0.6 - s as f64 / 100.0)).collect();
        let times = compare(&a, &b, Metric::FctP99).unwrap();
        assert!(times.is_more() && times.difference.half_width == Some(0.0), "{times:?}");
        let shares = compare(&a, &b, Metric::DeadlinesMet).unwrap().difference;
        let of = |side: &[Summary]| side.iter().map(|s| s.number(Metric::DeadlinesMet)).collect();
        let (a, b): (Vec<f64>, Vec<f64>) = (of(&a), of(&b));
        assert_eq!(Some(shares), paired(&a, &b));
    }

    #[test]
    fn runs_of_either_side_may_differ_among_themselves() {
        let (same, differ) = ([3.0, 3.0], [1.0, 2.0]);
        assert!(has_spread(&same, &differ, false) && has_spread(&differ, &same, false));
        assert!(!has_spread(&same, &same, false));
        assert!(!has_spread(&differ, &[11.0, 12.0], true), "each pair differs by 10");
        assert!(has_spread(&same, &differ, true));
    }

    #[test]
    fn chances_of_known_ranks() {
        let chance = |a: &[f64], b: &[f64]| chance_below(&completed(a), &completed(b));
        assert_eq!(chance(&[3.0, 4.0], &[1.0, 2.0]), Some(1.0));
        assert_eq!(chance(&[1.0, 2.0], &[3.0, 4.0]), Some(0.0));
        assert_eq!(chance(&[1.0, 2.0], &[1.0, 2.0]), Some(0.5));
        assert_eq!(chance(&[2.0], &[1.0, 2.0, 3.0]), Some(0.5));
        assert_eq!(chance(&[], &[1.0]), None);
    }

    #[test]
    fn what_is_unfinished_loses_only_to_what_was_faster_for_sure() {
        let unfinished = |bound| Times::new([Time::Censored(bound)]);
        assert_eq!(chance_below(&unfinished(5.0), &completed(&[4.0])), Some(1.0));
        assert_eq!(chance_below(&unfinished(5.0), &completed(&[6.0])), Some(0.5));
        // It takes longer than it had lasted.
        assert_eq!(chance_below(&unfinished(5.0), &completed(&[5.0])), Some(1.0));
        assert_eq!(chance_below(&unfinished(5.0), &unfinished(9.0)), Some(0.5));
        let never = Times::new([Time::Never(1.0)]);
        assert_eq!(chance_below(&never, &completed(&[6.0])), Some(1.0));
    }

    fn completed(times: &[f64]) -> Times {
        Times::new(times.iter().map(|time| Time::Completed(*time)))
    }

    /// Runs that differ only by chance are called different about as often as the level says.
    #[test]
    fn chance_alone_is_seldom_called_significant() {
        let mut stream = punctual_core::rng::Stream::from_seed(7);
        let mut normal = || (0..12).map(|_| stream.unit()).sum::<f64>() - 6.0;
        let (mut by_welch, mut by_pairs, trials) = (0, 0, 4000);
        for _ in 0..trials {
            let a: Vec<f64> = (0..5).map(|_| normal()).collect();
            let b: Vec<f64> = (0..5).map(|_| 3.0 * normal()).collect();
            by_welch += usize::from(welch(&a, &b).unwrap().is_significant());
            by_pairs += usize::from(paired(&a, &b).unwrap().is_significant());
        }
        for found in [by_welch, by_pairs] {
            let share = found as f64 / f64::from(trials);
            assert!((0.03..0.07).contains(&share), "{share}");
        }
    }

    proptest! {
        #[test]
        fn chance_below_is_as_counted(a in proptest::collection::vec(0u8..9, 1..20), b in proptest::collection::vec(0u8..9, 1..20)) {
            let sorted = |values: &[u8]| crate::stats::sorted(values.iter().map(|v| f64::from(*v)));
            let (a, b) = (sorted(&a), sorted(&b));
            let (of_a, of_b) = (completed(&a), completed(&b));
            let mut wins = 0.0;
            for x in &a {
                for y in &b {
                    wins += if y < x { 1.0 } else if y == x { 0.5 } else { 0.0 };
                }
            }
            let expected = wins / (a.len() * b.len()) as f64;
            prop_assert!((chance_below(&of_a, &of_b).unwrap() - expected).abs() < 1e-12);
        }
    }
}
