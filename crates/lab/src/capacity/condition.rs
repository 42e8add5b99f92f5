//! `--until`: a metric, a comparison and a number.

use crate::diagnostic::Diagnostic;
use crate::document::unknown;
use crate::load::Limited;
use punctual_core::Duration;
use punctual_results::{Figure, Interval, Metric, ShareOf, Summary, Unit, share_interval, stats};
use serde::Serialize;

/// A condition on a metric, such as `deadlines_met >= 99%`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    metric: Metric,
    comparison: Comparison,
    threshold: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    AtLeast,
    AtMost,
    Above,
    Below,
}

const COMPARISONS: [(&str, Comparison); 4] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    (">", Comparison::Above),
    ("<", Comparison::Below),
];

/// A metric's mean over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Number of repetitions.
    pub repetitions: u32,
    /// The mean; none if unfinished flows leave it open, or if no flow completed.
    pub mean: Option<f64>,
    /// A lower bound of the mean, if unfinished flows leave it open.
    pub at_least: Option<f64>,
    /// The lower end of its interval; none if there is no interval.
    pub low: Option<f64>,
    /// The upper end of its interval; none if there is no interval.
    pub high: Option<f64>,
    /// Measured flows per run, on average.
    pub flows: f64,
    /// Measured flows per run that were unfinished at its end, on average.
    pub unfinished: f64,
    /// Whether the condition holds.
    pub verdict: Verdict,
    /// Why the verdict is not sure, if more repetitions would not help.
    pub reason: Option<Reason>,
    /// Whether the verdict is not sure because repetitions reached their maximum. The interval
    /// still contains the threshold; more repetitions may decide.
    pub capped: bool,
}

/// Why a verdict is not sure, whatever the number of repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The metric depends on flows that were unfinished when their run ended.
    Unfinished,
    /// Unfinished flows whose deadlines were after the end of their run could decide it.
    DeadlinesNotDue,
    /// The metric is a tail percentile of too few flows per run: it is their maximum, which may be
    /// below the true percentile.
    FewFlows,
}

impl Estimate {
    /// Whether more repetitions may make the verdict sure.
    pub fn is_open(&self) -> bool {
        !self.verdict.is_sure() && self.reason.is_none()
    }
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval passes.
    Holds,
    /// The mean passes; part of the interval does not.
    LeansToHold,
    /// The mean fails or is unknown; part of the interval passes or may pass.
    LeansToFail,
    /// The whole interval fails.
    Fails,
}

impl Verdict {
    /// Whether the mean passes.
    pub fn passes(self) -> bool {
        matches!(self, Verdict::Holds | Verdict::LeansToHold)
    }

    /// Whether the whole interval passes or the whole interval fails.
    pub fn is_sure(self) -> bool {
        matches!(self, Verdict::Holds | Verdict::Fails)
    }

    /// The verdict of the mean alone, which is not sure.
    fn doubted(self) -> Verdict {
        if self.passes() { Verdict::LeansToHold } else { Verdict::LeansToFail }
    }
}

impl Condition {
    /// Parses a condition. Spans count from `start`.
    pub(super) fn parse(text: &str, start: usize) -> Result<Condition, Diagnostic> {
        let part = |part: &str| {
            let at = start + (part.as_ptr() as usize - text.as_ptr() as usize);
            at..at + part.len()
        };
        let help = "write a metric, >=, <=, > or <, and a number, \
                    such as \"deadlines_met >= 99%\" or \"fct_p99_us <= 500\"";
        let fail = |message: &str, at: &str| Diagnostic::new(message).at(part(at)).help(help);
        let Some(at) = text.find(['<', '>', '=', '!']) else {
            return Err(fail("there is no comparison in this condition", text));
        };
        let (name, rest) = (text[..at].trim(), &text[at..]);
        let sign_end = rest.find(|c| !"<>=!".contains(c)).unwrap_or(rest.len());
        let (sign, number) = (&rest[..sign_end], rest[sign_end..].trim());
        let Some((_, comparison)) = COMPARISONS.iter().find(|(text, _)| *text == sign) else {
            return Err(fail(&format!("`{sign}` is none of >=, <=, > and <"), sign));
        };
        if name.is_empty() {
            return Err(fail("a metric is missing before the comparison", sign));
        }
        let Some(metric) = Metric::named(name) else {
            let names = Metric::ALL.iter().map(|metric| metric.name());
            return Err(unknown("metric", name, names).at(part(name)));
        };
        if number.is_empty() {
            return Err(fail("a number is missing after the comparison", sign));
        }
        let threshold = threshold(metric, number).map_err(|(message, help)| {
            let diagnostic = Diagnostic::new(message).at(part(number));
            if help.is_empty() { diagnostic } else { diagnostic.help(help) }
        })?;
        Ok(Condition { metric, comparison: *comparison, threshold })
    }

    /// The name of its metric.
    pub fn column(&self) -> &str {
        self.metric.name()
    }

    /// The threshold.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// What it limits that grows with queues; none if longer queues cannot make it fail.
    pub(super) fn limited(&self) -> Option<Limited> {
        let is_upper = matches!(self.comparison, Comparison::AtMost | Comparison::Below);
        let is_completion_time = self.metric.is_left_open() && self.metric.unit() == Unit::Micros;
        match (self.is_share_of_flows(), is_upper) {
            (true, false) => Some(Limited::Deadlines),
            (false, true) if is_completion_time => {
                let threshold = Duration::from_secs_f64(self.threshold.max(0.0) / 1e6);
                Some(Limited::Times(threshold))
            }
            (false, true) => Some(Limited::Other),
            (true, true) | (false, false) => None,
        }
    }

    /// Whether the metric is a share, shown in per cent.
    pub fn is_share(&self) -> bool {
        self.metric.unit() == Unit::Share
    }

    /// Whether the metric is a share of flows, with the interval of a share.
    fn is_share_of_flows(&self) -> bool {
        matches!(self.metric.definition().interval, Interval::Share { .. })
    }

    fn passes(&self, value: f64) -> bool {
        match self.comparison {
            Comparison::AtLeast => value >= self.threshold,
            Comparison::AtMost => value <= self.threshold,
            Comparison::Above => value > self.threshold,
            Comparison::Below => value < self.threshold,
        }
    }

    /// Whether a verdict can be [`Verdict::Holds`]: no number of runs proves that a share of flows
    /// is 1.
    pub(super) fn can_surely_hold(&self) -> bool {
        let all = self.is_share_of_flows() && self.threshold >= 1.0;
        !(all && matches!(self.comparison, Comparison::AtLeast | Comparison::Above))
    }

    /// Judges some repetitions with confidence 1 − `alpha`.
    ///
    /// A condition on completion times fails if no flow completed, and does not pass if unfinished
    /// flows leave the metric open. None if the metric has no value for another reason.
    pub(super) fn judge(&self, repetitions: &[Summary], alpha: f64) -> Option<Estimate> {
        let figures: Vec<Figure> = repetitions.iter().map(|s| s[self.metric]).collect();
        let values: Vec<f64> = figures.iter().filter_map(|figure| figure.value).collect();
        let average = |metric| {
            let numbers: Vec<f64> = repetitions.iter().map(|s| s.number(metric)).collect();
            stats::mean(&numbers).unwrap_or_default()
        };
        let nothing = Estimate {
            repetitions: repetitions.len() as u32,
            mean: None,
            at_least: None,
            low: None,
            high: None,
            flows: average(Metric::Flows),
            unfinished: average(Metric::FlowsUnfinished),
            verdict: Verdict::Fails,
            reason: None,
            capped: false,
        };
        if let Interval::Share { met, of, unknown } = self.metric.definition().interval {
            return self.judge_share(repetitions, alpha, nothing, [met, of, unknown]);
        }
        let Some(mean) = stats::mean(&values) else {
            let none_completed = |s: &Summary| {
                s.number(Metric::Flows) > 0.0 && s.number(Metric::FlowsCompleted) == 0.0
            };
            let fails = self.metric.is_left_open() && repetitions.iter().all(none_completed);
            return fails.then_some(nothing);
        };
        // A single value has no interval.
        let half = stats::half_width(&values, alpha);
        let (low, high) = (half.map(|half| mean - half), half.map(|half| mean + half));
        if figures.iter().any(|figure| figure.is_bound) {
            // The value is at least the bound: if the bound exceeds an upper limit, so does the
            // value.
            let is_upper = matches!(self.comparison, Comparison::AtMost | Comparison::Below);
            let beyond = is_upper && low.is_some_and(|low| !self.passes(low));
            let (verdict, reason) = match beyond {
                true => (Verdict::Fails, None),
                false => (Verdict::LeansToFail, Some(Reason::Unfinished)),
            };
            return Some(Estimate { at_least: Some(mean), verdict, reason, ..nothing });
        }
        let verdict = self.verdict(mean, low.zip(high));
        let is_few = repetitions.iter().any(|s| s[self.metric].is_maximum);
        let (verdict, reason) = match verdict {
            Verdict::Holds if is_few => (Verdict::LeansToHold, Some(Reason::FewFlows)),
            other => (other, None),
        };
        Some(Estimate { mean: Some(mean), low, high, verdict, reason, ..nothing })
    }

    /// Judges a share of flows, such as that of deadlines met.
    fn judge_share(
        &self,
        repetitions: &[Summary],
        alpha: f64,
        nothing: Estimate,
        [met, of, unknown]: [Metric; 3],
    ) -> Option<Estimate> {
        let judged = |shares: &[ShareOf]| {
            let mean = stats::mean(&shares.iter().map(|one| one.share).collect::<Vec<_>>())?;
            let interval = share_interval(shares, alpha);
            Some((mean, interval, self.verdict(mean, interval)))
        };
        // Assumes that every flow whose deadline was not due is late (0) or on time (1).
        let with_unknown = |on_time: f64| -> Vec<ShareOf> {
            let share = |s: &Summary| {
                let flows = s.number(of) + s.number(unknown);
                ShareOf { share: (s.number(met) + on_time * s.number(unknown)) / flows, flows }
            };
            repetitions.iter().map(share).filter(|one| one.flows > 0.0).collect()
        };
        let is_open = repetitions.iter().any(|s| s.number(unknown) > 0.0);
        let shares = self.metric.shares(repetitions.iter().map(|s| &s.metrics));
        let Some((mean, interval, verdict)) = judged(&shares) else {
            let (verdict, reason) = (Verdict::LeansToFail, Some(Reason::DeadlinesNotDue));
            return is_open.then_some(Estimate { verdict, reason, ..nothing });
        };
        let same = |on_time| judged(&with_unknown(on_time)).is_some_and(|(_, _, v)| v == verdict);
        let is_doubtful = is_open && verdict.is_sure() && !(same(0.0) && same(1.0));
        Some(Estimate {
            mean: Some(mean),
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            verdict: if is_doubtful { verdict.doubted() } else { verdict },
            reason: is_doubtful.then_some(Reason::DeadlinesNotDue),
            ..nothing
        })
    }

    fn verdict(&self, mean: f64, interval: Option<(f64, f64)>) -> Verdict {
        let passes = self.passes(mean);
        let agrees = |(low, high)| self.passes(low) == passes && self.passes(high) == passes;
        match (passes, interval.is_some_and(agrees)) {
            (true, true) => Verdict::Holds,
            (true, false) => Verdict::LeansToHold,
            (false, false) => Verdict::LeansToFail,
            (false, true) => Verdict::Fails,
        }
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = COMPARISONS.iter().find(|(_, c)| *c == self.comparison).map_or("", |(s, _)| s);
        // Rounded, to hide binary fractions.
        let percent = (self.threshold * 1e11).round() / 1e9;
        match self.is_share() {
            true => write!(f, "{} {sign} {percent}%", self.metric.name()),
            false => write!(f, "{} {sign} {}", self.metric.name(), self.threshold),
        }
    }
}

/// Parses the threshold of a condition. The error is a message and advice, which may be empty.
fn threshold(metric: Metric, text: &str) -> Result<f64, (String, String)> {
    let finite = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let (name, share) = (metric.name(), metric.unit() == Unit::Share);
    if let Some(number) = text.strip_suffix('%') {
        let Some(percent) = finite(number.trim()) else {
            return Err((format!("`{text}` is not a number"), String::new()));
        };
        if !share {
            let shares = Metric::ALL.iter().filter(|metric| metric.unit() == Unit::Share);
            let shares = crate::suggest::list(shares.map(|metric| metric.name()));
            return Err((
                format!("`{name}` is not a share, so it cannot be compared with per cent"),
                format!("per cent go with {shares}"),
            ));
        }
        if !(0.0..=100.0).contains(&percent) {
            return Err(("a share is between 0% and 100%".into(), String::new()));
        }
        return Ok(percent / 100.0);
    }
    // A time may have a unit.
    if metric.unit() == Unit::Micros
        && let Ok(time) = text.parse::<Duration>()
    {
        return Ok(time.as_micros_f64());
    }
    match finite(text) {
        Some(number) if share && !(0.0..=1.0).contains(&number) => Err((
            format!("`{name}` is a share, from 0 to 1"),
            format!("write {text}% for per cent"),
        )),
        Some(number) => Ok(number),
        None => Err((format!("`{text}` is not a number"), String::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Condition, String> {
        Condition::parse(text, 100).map_err(|d| {
            let span = d.span.clone().unwrap();
            format!("{}: {} {}", &text[span.start - 100..span.end - 100], d.message, d.label)
        })
    }

    #[test]
    fn conditions_are_read_and_written() {
        for (text, shown) in [
            ("deadlines_met >= 99%", "deadlines_met >= 99%"),
            ("deadlines_met>=0.995", "deadlines_met >= 99.5%"),
            (" utilisation  < 70 % ", "utilisation < 70%"),
            ("fct_p99_us <= 1.5ms", "fct_p99_us <= 1500"),
            ("drops > 0", "drops > 0"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn mistakes_are_pointed_at() {
        for (text, place, words) in [
            ("deadlines_meet >= 99%", "deadlines_meet", "did you mean `deadlines_met`"),
            ("deadlines_met", "deadlines_met", "no comparison"),
            ("deadlines_met == 99%", "==", "none of"),
            ("deadlines_met >= 99", "99", "is a share"),
            ("deadlines_met >= 101%", "101%", "between 0% and 100%"),
            ("drops <= 5%", "5%", "not a share"),
            ("drops <=", "<=", "number is missing"),
            ("drops <= few", "few", "not a number"),
            ("drops <= 5 %%", "5 %%", "not a number"),
            ("drops <= inf", "inf", "not a number"),
            ("<= 5", "<=", "metric is missing"),
            ("seeds <= 5", "seeds", "unknown metric"),
            ("", "", "no comparison"),
        ] {
            let message = parse(text).unwrap_err();
            let expected = format!("{place}: ");
            assert!(message.starts_with(&expected) && message.contains(words), "{message}");
        }
    }

    fn met(shares: &[f64]) -> Vec<Summary> {
        let one = |share: &f64| {
            Summary::default()
                .with(Metric::DeadlinesMet, *share)
                .with(Metric::DeadlineFlows, 1000.0)
                .with(Metric::DeadlineFlowsMet, share * 1000.0)
                .with(Metric::Flows, 1000.0)
                .with(Metric::FlowsCompleted, 1000.0)
        };
        shares.iter().map(one).collect()
    }

    #[test]
    fn the_interval_decides() {
        let verdict = |shares: &[f64]| {
            parse("deadlines_met >= 90%").unwrap().judge(&met(shares), 0.05).unwrap().verdict
        };
        assert_eq!(verdict(&[0.95, 0.96, 0.97]), Verdict::Holds);
        assert_eq!(verdict(&[0.9, 0.9]), Verdict::LeansToHold);
        assert_eq!(verdict(&[0.8, 0.95, 0.99]), Verdict::LeansToHold);
        assert_eq!(verdict(&[0.8, 0.9, 0.95]), Verdict::LeansToFail);
        assert_eq!(verdict(&[0.5, 0.51, 0.5]), Verdict::Fails);
        assert_eq!(verdict(&[1.0]), Verdict::LeansToHold);
    }

    #[test]
    fn all_met_of_few_flows_is_not_sure() {
        let mut few = met(&[1.0, 1.0, 1.0, 1.0, 1.0]);
        for summary in &mut few {
            summary[Metric::DeadlineFlows].value = Some(8.0);
            summary[Metric::DeadlineFlowsMet].value = Some(8.0);
        }
        let judge = |text: &str| parse(text).unwrap().judge(&few, 0.05).unwrap();
        let estimate = judge("deadlines_met >= 99%");
        assert_eq!(estimate.verdict, Verdict::LeansToHold);
        assert!(estimate.low.unwrap() < 0.9 && estimate.high == Some(1.0), "{estimate:?}");
        assert_eq!(judge("deadlines_met >= 75%").verdict, Verdict::Holds);
    }

    #[test]
    fn an_unfinished_flow_fails_a_condition_on_what_it_leaves_open() {
        let one = |bound| {
            let one = met(&[1.0]).remove(0);
            let mut one = one.with(Metric::Flows, 100.0).with(Metric::FlowsUnfinished, 50.0);
            one[Metric::FctP99] = Figure::at_least(bound);
            one
        };
        let condition = parse("fct_p99_us <= 20ms").unwrap();
        let judge = |bounds: [f64; 3]| condition.judge(&bounds.map(one), 0.05).unwrap();
        let open = judge([19_000.0, 19_500.0, 19_200.0]);
        assert_eq!((open.verdict, open.reason), (Verdict::LeansToFail, Some(Reason::Unfinished)));
        assert!(open.mean.is_none() && open.at_least.is_some() && open.unfinished == 50.0);
        // A single repetition with unfinished flows is enough.
        let mut mixed = [19_000.0, 19_500.0, 19_200.0].map(one);
        for summary in &mut mixed[..2] {
            summary[Metric::FctP99] = Figure::known(Some(100.0), None);
        }
        assert_eq!(condition.judge(&mixed, 0.05).unwrap().verdict, Verdict::LeansToFail);
        // A bound above the threshold is sure.
        let beyond = judge([40_000.0, 40_100.0, 40_200.0]);
        assert_eq!((beyond.verdict, beyond.reason), (Verdict::Fails, None));
    }

    #[test]
    fn the_maximum_of_few_flows_is_not_surely_the_99th_percentile() {
        let judge = |flows| {
            let one = Summary::default().with(Metric::Flows, flows).with(Metric::FctP99, 5.0);
            parse("fct_p99_us <= 10").unwrap().judge(&vec![one; 5], 0.05).unwrap()
        };
        assert_eq!(judge(100.0).verdict, Verdict::Holds);
        let few = judge(40.0);
        assert_eq!((few.verdict, few.reason), (Verdict::LeansToHold, Some(Reason::FewFlows)));
    }

    #[test]
    fn deadlines_that_were_not_due_keep_it_from_being_sure() {
        let condition = parse("deadlines_met >= 99%").unwrap();
        let all = met(&[1.0; 5]);
        assert_eq!(condition.judge(&all, 0.05).unwrap().verdict, Verdict::Holds);
        let mut open = all.clone();
        let unknown = Metric::DeadlineFlowsUnknown;
        open.iter_mut().for_each(|s| s[unknown].value = Some(500.0));
        let estimate = condition.judge(&open, 0.05).unwrap();
        assert_eq!(estimate.verdict, Verdict::LeansToHold);
        assert_eq!(estimate.reason, Some(Reason::DeadlinesNotDue));
        // Nothing was due: nothing holds.
        let mut none = open.clone();
        for summary in &mut none {
            summary[Metric::DeadlinesMet].value = None;
            summary[Metric::DeadlineFlows].value = Some(0.0);
        }
        assert!(!condition.judge(&none, 0.05).unwrap().verdict.passes());
        // Two of a thousand that were not due do not matter at 90 %.
        open.iter_mut().for_each(|s| s[unknown].value = Some(2.0));
        let lax = parse("deadlines_met >= 90%").unwrap();
        assert_eq!(lax.judge(&open, 0.05).unwrap().verdict, Verdict::Holds);
    }

    #[test]
    fn a_metric_without_a_value_is_distinguished_from_failure() {
        let nothing = Summary::default().with(Metric::Flows, 2.0);
        let judge =
            |text: &str| parse(text).unwrap().judge(&[nothing.clone(), nothing.clone()], 0.05);
        assert_eq!(judge("deadlines_met >= 90%"), None);
        assert_eq!(judge("fct_p99_us <= 10").unwrap().verdict, Verdict::Fails);
    }
}
