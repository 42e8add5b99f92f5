//! Whether two sets of runs differ by more than chance.
//!
//! The unit is the run: flows of one run share queues and are not independent, so what is tested is
//! one number a run. Where both sides have the same seeds, their runs carry the same flows and
//! belong together in pairs: the differences within pairs are tested (paired t), and what the flows
//! of a seed have in common cancels. Otherwise the means are (Welch's t, which does not ask for
//! equal variances).

use crate::stats::{mean, t_95};

/// A difference of means and half its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Mean of the second less mean of the first.
    pub mean: f64,
    /// Half the width of its 95 % interval; none below two runs a side.
    pub half_width: Option<f64>,
}

impl Difference {
    /// Whether its interval leaves out 0; never without an interval.
    pub fn is_significant(&self) -> bool {
        self.half_width.is_some_and(|half| self.mean.abs() > half)
    }
}

/// By the differences within pairs: `a[i]` and `b[i]` are of the same flows. None of nothing.
///
/// # Panics
/// When one side has more values.
pub fn paired(a: &[f64], b: &[f64]) -> Option<Difference> {
    assert_eq!(a.len(), b.len(), "pairs");
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let half_width = crate::stats::half_width_95(&differences);
    Some(Difference { mean: mean(&differences)?, half_width })
}

/// By Welch's t, for runs that have nothing in common. None where a side has nothing.
pub fn welch(a: &[f64], b: &[f64]) -> Option<Difference> {
    let difference = mean(b)? - mean(a)?;
    let (Some(a), Some(b)) = (squared_error(a), squared_error(b)) else {
        return Some(Difference { mean: difference, half_width: None });
    };
    let both = a.0 + b.0;
    // Welch and Satterthwaite's degrees of freedom, rounded down: the interval is a little wide.
    let freedom = both * both / (a.0 * a.0 / a.1 + b.0 * b.0 / b.1);
    let freedom = if freedom.is_finite() { freedom as usize } else { (a.1 + b.1) as usize };
    Some(Difference { mean: difference, half_width: Some(t_95(freedom.max(1) + 1) * both.sqrt()) })
}

/// The squared standard error of the mean, and its degrees of freedom.
fn squared_error(values: &[f64]) -> Option<(f64, f64)> {
    let (n, mean) = (values.len() as f64, mean(values)?);
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (values.len() > 1).then(|| (squares / (n - 1.0) / n, n - 1.0))
}

/// The chance that a value of `b` is below one of `a`, ties counting half: Mann and Whitney's U over
/// the number of pairs. Both are in ascending order. None where a side has nothing.
pub fn chance_below(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (mut below, mut not_above) = (0, 0);
    let mut wins = 0.0;
    for value in a {
        while b.get(below).is_some_and(|other| other < value) {
            below += 1;
        }
        while b.get(not_above).is_some_and(|other| other <= value) {
            not_above += 1;
        }
        wins += below as f64 + (not_above - below) as f64 / 2.0;
    }
    Some(wins / (a.len() as f64 * b.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn welch_as_worked_by_hand() {
        // Means 3 and 6, squared errors 0.5 and 2: t = 3 / sqrt(2.5) = 1.897, 5.88 degrees of
        // freedom, so 5 here: 2.571 × 1.5811 = 4.065.
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 4.0, 6.0, 8.0, 10.0]);
        let difference = welch(&a, &b).unwrap();
        assert_eq!(difference.mean, 3.0);
        assert!((difference.half_width.unwrap() - 4.065).abs() < 1e-3, "{difference:?}");
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
        // The same difference every time is no chance.
        assert!(welch(&[1.0, 1.0], &[2.0, 2.0]).unwrap().is_significant());
    }

    #[test]
    fn chances_of_known_ranks() {
        assert_eq!(chance_below(&[3.0, 4.0], &[1.0, 2.0]), Some(1.0));
        assert_eq!(chance_below(&[1.0, 2.0], &[3.0, 4.0]), Some(0.0));
        assert_eq!(chance_below(&[1.0, 2.0], &[1.0, 2.0]), Some(0.5));
        assert_eq!(chance_below(&[2.0], &[1.0, 2.0, 3.0]), Some(0.5));
        assert_eq!(chance_below(&[], &[1.0]), None);
    }

    /// Runs that differ by chance alone are called different about as often as said.
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
            let mut wins = 0.0;
            for x in &a {
                for y in &b {
                    wins += if y < x { 1.0 } else if y == x { 0.5 } else { 0.0 };
                }
            }
            let expected = wins / (a.len() * b.len()) as f64;
            prop_assert!((chance_below(&a, &b).unwrap() - expected).abs() < 1e-12);
        }
    }
}
