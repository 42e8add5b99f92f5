//! Intervals of a share, such as that of deadlines met.

use crate::stats::{mean, variance};
use crate::student::t_quantile;

/// The share in one repetition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShareOf {
    /// The share, 0 to 1.
    pub share: f64,
    /// Number of flows in its denominator.
    pub flows: f64,
}

/// The interval of the mean share with confidence 1 − `alpha`; none below two repetitions.
///
/// It is Wilson's interval, which has a width even where every flow of every repetition met its
/// deadline, with two corrections:
///
/// * Flows of one repetition share queues and are not independent. Their effective number is
///   p (1 − p) R / s², with the variance s² of the share between the R repetitions, and at most the
///   number of flows.
/// * s² is itself estimated from R values, so Student's t with R − 1 degrees of freedom takes the
///   place of the normal quantile.
pub fn share_interval(repetitions: &[ShareOf], alpha: f64) -> Option<(f64, f64)> {
    let shares: Vec<f64> = repetitions.iter().map(|one| one.share).collect();
    let (share, spread) = (mean(&shares)?, variance(&shares)?);
    let runs = shares.len() as f64;
    let flows: f64 = repetitions.iter().map(|one| one.flows).sum();
    // A repetition without flows counts as one observation.
    let flows = flows.max(runs);
    let product = share * (1.0 - share);
    // Without any spread the quotient is infinite, or NaN, which `min` ignores: every flow counts.
    let effective = (product * runs / spread).min(flows);
    let t = t_quantile(alpha, runs - 1.0);
    let weight = t * t / effective;
    let centre = (share + weight / 2.0) / (1.0 + weight);
    let half = (t / (1.0 + weight)) * (product / effective + weight / (4.0 * effective)).sqrt();
    Some(((centre - half).clamp(0.0, share), (centre + half).clamp(share, 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(shares: &[f64], flows: f64) -> Vec<ShareOf> {
        shares.iter().map(|share| ShareOf { share: *share, flows }).collect()
    }

    #[test]
    fn all_met_is_not_certainty() {
        let (low, high) = share_interval(&of(&[1.0; 5], 40.0), 0.05).unwrap();
        // Wilson's lower end at a share of 1 is n / (n + t²), with t = 2.776 and 200 flows.
        assert!((low - 200.0 / (200.0 + 2.776 * 2.776)).abs() < 1e-4, "{low}");
        assert_eq!(high, 1.0);
        // A hundred times the flows narrow it.
        let (more, _) = share_interval(&of(&[1.0; 5], 4000.0), 0.05).unwrap();
        assert!(more > low && more < 1.0);
    }

    #[test]
    fn as_published_for_independent_flows() {
        // Wilson's interval of 15 of 150 at 95 %: 0.0615 to 0.1583 (1.96 standard errors). With many
        // repetitions that differ by chance alone, Student's t is the normal quantile and every flow
        // counts.
        let shares: Vec<f64> = (0..150).map(|i| f64::from(u8::from(i % 10 == 0))).collect();
        let (low, high) = share_interval(&of(&shares, 1.0), 0.05).unwrap();
        assert!((low - 0.0615).abs() < 1e-3 && (high - 0.1583).abs() < 1e-3, "{low} {high}");
    }

    #[test]
    fn repetitions_that_differ_widen_it() {
        let alike = share_interval(&of(&[0.9, 0.9, 0.9, 0.9], 1000.0), 0.05).unwrap();
        let apart = share_interval(&of(&[1.0, 0.8, 1.0, 0.8], 1000.0), 0.05).unwrap();
        assert!(apart.0 < alike.0 && apart.1 > alike.1, "{alike:?} {apart:?}");
        assert_eq!(share_interval(&of(&[0.9], 1000.0), 0.05), None);
    }

    /// A 95 % interval contains the true share 95 times of 100, with flows of a repetition that are
    /// on time or late together.
    #[test]
    fn it_covers_the_truth_as_often_as_said() {
        let mut stream = punctual_core::rng::Stream::from_seed(11);
        let (trials, truth) = (2000, 0.9);
        let mut covered = 0;
        for _ in 0..trials {
            let mut repetition = || {
                // 20 groups of 5 flows that are on time together or not.
                let met = (0..20).filter(|_| stream.chance(truth)).count();
                ShareOf { share: met as f64 / 20.0, flows: 100.0 }
            };
            let all: Vec<ShareOf> = (0..8).map(|_| repetition()).collect();
            let (low, high) = share_interval(&all, 0.05).unwrap();
            covered += usize::from((low..=high).contains(&truth));
        }
        let rate = covered as f64 / f64::from(trials);
        assert!(rate > 0.93, "{rate}");
    }

    proptest! {
        #[test]
        fn it_has_a_width_and_holds_the_share(
            shares in prop::collection::vec(0.0f64..=1.0, 2..20),
            flows in 1.0f64..1e4,
        ) {
            let all = of(&shares, flows);
            let (low, high) = share_interval(&all, 0.05).unwrap();
            let mean = mean(&shares).unwrap();
            prop_assert!(low <= mean && mean <= high && (0.0..=1.0).contains(&low) && high <= 1.0);
            prop_assert!(high - low > 1e-9, "{low} {high}");
        }
    }
}
