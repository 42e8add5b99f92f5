//! Verdicts on claims.

use super::estimate::{Estimate, Evaluator};
use super::file::{Claim, Test};
use super::measure::MeasureError;
use serde::{Deserialize, Serialize};

/// What the results say about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// The measured value is within the tolerance, or the order is as claimed.
    Holds,
    /// It is not.
    Differs,
    /// There is no expectation to compare with.
    Blind,
    /// It could not be measured.
    CannotRun,
}

impl ClaimVerdict {
    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ClaimVerdict::Holds => "holds",
            ClaimVerdict::Differs => "differs",
            ClaimVerdict::Blind => "blind",
            ClaimVerdict::CannotRun => "cannot-run",
        }
    }
}

/// A measured value: a number, or the values of an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Measured {
    /// A number; none where there is no value.
    One(Option<f64>),
    /// The values of an order, as claimed from the greatest.
    Several(Vec<Option<f64>>),
}

/// A claim with its measured value and verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The measured value.
    pub measured: Measured,
    /// Its 95 % interval over seeds; for an order that of the least difference. An end without
    /// limit is `null`.
    pub interval: Option<[Option<f64>; 2]>,
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// Whether the whole interval supports the verdict. Never with a single seed.
    pub sure: bool,
    /// Number of seeds.
    pub seeds: usize,
    /// Why there is no verdict or value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Judgement {
    /// A claim that cannot run.
    pub(crate) fn cannot_run(why: &str) -> Judgement {
        Judgement {
            measured: Measured::One(None),
            interval: None,
            verdict: ClaimVerdict::CannotRun,
            sure: false,
            seeds: 0,
            note: why.to_owned(),
        }
    }
}

fn ends(interval: Option<(f64, f64)>) -> Option<[Option<f64>; 2]> {
    let finite = |x: f64| Some(x).filter(|x| x.is_finite());
    interval.map(|(low, high)| [finite(low), finite(high)])
}

/// Judges a claim by results.
pub(crate) fn judge(claim: &Claim, evaluator: &Evaluator<'_>) -> Result<Judgement, MeasureError> {
    if let Some(why) = &claim.cannot_run {
        return Ok(Judgement::cannot_run(why));
    }
    match &claim.test {
        Test::Nothing => Ok(Judgement::cannot_run("nothing to measure")),
        Test::Blind { value } => {
            let found = evaluator.estimate(&value.expr)?;
            Ok(Judgement {
                measured: Measured::One(finite(found.value)),
                interval: ends(found.interval),
                verdict: ClaimVerdict::Blind,
                sure: false,
                seeds: found.seeds,
                note: note(&found),
            })
        }
        Test::Number { value, at_least, at_most } => {
            let found = evaluator.estimate(&value.expr)?;
            Ok(judge_number(&found, *at_least, *at_most))
        }
        Test::Order { values, slack, .. } => {
            let mut shown = Vec::new();
            for value in values {
                shown.push(evaluator.estimate(&value.expr)?);
            }
            let mut least: Option<Estimate> = None;
            for pair in values.windows(2) {
                let difference = pair[0].expr.clone().minus(pair[1].expr.clone());
                let found = evaluator.estimate(&difference)?;
                let is_less = |than: &Estimate| match (found.value, than.value) {
                    (Some(a), Some(b)) => a < b,
                    (None, _) => true,
                    (_, None) => false,
                };
                if least.as_ref().is_none_or(is_less) {
                    least = Some(found);
                }
            }
            let least = least.unwrap_or_default();
            let mut judged = judge_number(&least, None, None);
            let holds =
                least.value.is_some_and(|d| if *slack > 0.0 { d >= -slack } else { d > 0.0 });
            judged.verdict = if holds { ClaimVerdict::Holds } else { ClaimVerdict::Differs };
            let spread = least.interval.filter(|(low, high)| low < high);
            judged.sure = spread.is_some_and(|(low, high)| match (holds, *slack > 0.0) {
                (true, true) => low >= -slack,
                (true, false) => low > 0.0,
                (false, true) => high < -slack,
                (false, false) => high <= 0.0,
            });
            judged.measured = Measured::Several(shown.iter().map(|e| finite(e.value)).collect());
            Ok(judged)
        }
    }
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

fn note(found: &Estimate) -> String {
    match found.value {
        None => "no run has a value".to_owned(),
        Some(x) if !x.is_finite() => "the value is unbounded".to_owned(),
        Some(_) => String::new(),
    }
}

fn judge_number(found: &Estimate, at_least: Option<f64>, at_most: Option<f64>) -> Judgement {
    let (low_bound, high_bound) =
        (at_least.unwrap_or(f64::NEG_INFINITY), at_most.unwrap_or(f64::INFINITY));
    let is_within = |x: f64| (low_bound..=high_bound).contains(&x);
    let holds = found.value.is_some_and(is_within);
    // Equal values of all seeds are no certainty.
    let sure =
        found.interval.filter(|(low, high)| low < high).is_some_and(|(low, high)| match holds {
            true => is_within(low) && is_within(high),
            false => high < low_bound || low > high_bound,
        });
    Judgement {
        measured: Measured::One(finite(found.value)),
        interval: ends(found.interval),
        verdict: if holds { ClaimVerdict::Holds } else { ClaimVerdict::Differs },
        sure,
        seeds: found.seeds,
        note: note(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(value: f64, interval: Option<(f64, f64)>) -> Estimate {
        Estimate { value: Some(value), interval, seeds: 5 }
    }

    #[test]
    fn the_value_decides_and_the_interval_says_how_surely() {
        let judged = |v, interval| judge_number(&found(v, interval), Some(1.0), Some(2.0));
        let of = |j: Judgement| (j.verdict, j.sure);
        assert_eq!(of(judged(1.5, Some((1.2, 1.8)))), (ClaimVerdict::Holds, true));
        assert_eq!(of(judged(1.5, Some((0.9, 2.1)))), (ClaimVerdict::Holds, false));
        assert_eq!(of(judged(2.5, Some((2.1, 2.9)))), (ClaimVerdict::Differs, true));
        assert_eq!(of(judged(2.5, Some((1.9, 3.1)))), (ClaimVerdict::Differs, false));
        assert_eq!(of(judged(1.5, None)), (ClaimVerdict::Holds, false), "one seed is no evidence");
        assert_eq!(of(judged(1.5, Some((1.5, 1.5)))), (ClaimVerdict::Holds, false), "no width");
    }

    #[test]
    fn no_value_differs_and_says_so() {
        let judged = judge_number(&Estimate::default(), None, Some(1.0));
        assert_eq!(judged.verdict, ClaimVerdict::Differs);
        assert_eq!(judged.note, "no run has a value");
        let judged = judge_number(&found(f64::INFINITY, None), Some(1.0), None);
        assert_eq!((judged.measured, judged.interval), (Measured::One(None), None));
    }
}
