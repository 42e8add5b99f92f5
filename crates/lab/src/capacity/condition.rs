//! `--until`: a column of the summary, a comparison and a number.

use crate::diagnostic::Diagnostic;
use crate::document::unknown;
use punctual_core::Duration;
use punctual_results::{Summary, stats};
use serde::Serialize;

/// What must hold, such as `deadlines_met >= 99%`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    column: String,
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

/// Columns from 0 to 1, for which per cent may be written.
const SHARES: [&str; 3] = ["deadlines_met", "fairness", "utilisation"];

/// Fields of a summary that say what it is of, and are no outcome.
const NO_OUTCOME: [&str; 5] = ["transport", "kind", "repetitions", "seeds", "ci95"];

/// A column's mean over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Repetitions it is over.
    pub repetitions: u32,
    /// The mean; none when no flow completed to take it of.
    pub mean: Option<f64>,
    /// Half the width of its 95 % interval.
    pub half_width: f64,
    /// What it says.
    pub verdict: Verdict,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All of the interval passes.
    Holds,
    /// The mean passes; part of the interval does not.
    LeansToHold,
    /// The mean does not pass; part of the interval does.
    LeansToFail,
    /// Nothing of the interval passes.
    Fails,
}

impl Verdict {
    /// Whether the mean passes.
    pub fn passes(self) -> bool {
        matches!(self, Verdict::Holds | Verdict::LeansToHold)
    }

    /// Whether the whole interval says the same.
    pub fn is_sure(self) -> bool {
        matches!(self, Verdict::Holds | Verdict::Fails)
    }
}

impl Condition {
    /// Reads a condition. Spans count from `start`.
    pub(super) fn parse(text: &str, start: usize) -> Result<Condition, Diagnostic> {
        let part = |part: &str| {
            let at = start + (part.as_ptr() as usize - text.as_ptr() as usize);
            at..at + part.len()
        };
        let help = "write a column, >=, <=, > or <, and a number, \
                    such as \"deadlines_met >= 99%\" or \"fct_p99_us <= 500\"";
        let fail = |message: &str, at: &str| Diagnostic::new(message).at(part(at)).help(help);
        let Some(at) = text.find(['<', '>', '=', '!']) else {
            return Err(fail("there is no comparison in this condition", text));
        };
        let (column, rest) = (text[..at].trim(), &text[at..]);
        let sign_end = rest.find(|c| !"<>=!".contains(c)).unwrap_or(rest.len());
        let (sign, number) = (&rest[..sign_end], rest[sign_end..].trim());
        let Some((_, comparison)) = COMPARISONS.iter().find(|(text, _)| *text == sign) else {
            return Err(fail(&format!("`{sign}` is none of >=, <=, > and <"), sign));
        };
        if column.is_empty() {
            return Err(fail("which column must it be?", sign));
        }
        if !columns().iter().any(|known| known == column) {
            let columns = columns();
            let names = columns.iter().map(String::as_str).collect::<Vec<_>>();
            return Err(unknown("column", column, names).at(part(column)));
        }
        if number.is_empty() {
            return Err(fail("a number is missing after the comparison", sign));
        }
        let threshold = threshold(column, number).map_err(|(message, help)| {
            let diagnostic = Diagnostic::new(message).at(part(number));
            if help.is_empty() { diagnostic } else { diagnostic.help(help) }
        })?;
        Ok(Condition { column: column.to_owned(), comparison: *comparison, threshold })
    }

    /// The column it is about.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// What the column is compared with.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Whether the column is a share, shown in per cent.
    pub fn is_share(&self) -> bool {
        SHARES.contains(&&*self.column)
    }

    fn passes(&self, value: f64) -> bool {
        match self.comparison {
            Comparison::AtLeast => value >= self.threshold,
            Comparison::AtMost => value <= self.threshold,
            Comparison::Above => value > self.threshold,
            Comparison::Below => value < self.threshold,
        }
    }

    /// What some repetitions say; none when the column has no value in any of them although flows
    /// completed. Completion times of which there are none, because no flow completed, fail.
    pub(super) fn judge(&self, repetitions: &[Summary]) -> Option<Estimate> {
        let values: Vec<f64> = repetitions.iter().filter_map(|s| value(s, &self.column)).collect();
        let count = repetitions.len() as u32;
        let Some(mean) = stats::mean(&values) else {
            let of_completed = ["fct_", "slowdown_"].iter().any(|p| self.column.starts_with(p));
            let none = repetitions.iter().all(|s| s.flows > 0.0 && s.flows_completed == 0.0);
            return (of_completed && none).then_some(Estimate {
                repetitions: count,
                mean: None,
                half_width: 0.0,
                verdict: Verdict::Fails,
            });
        };
        // A single value has no interval: it may be anything.
        let half_width = stats::half_width_95(&values).unwrap_or(f64::INFINITY);
        let ends = [mean - half_width, mean + half_width].map(|end| self.passes(end));
        let verdict = match (self.passes(mean), ends) {
            (true, [true, true]) => Verdict::Holds,
            (true, _) => Verdict::LeansToHold,
            (false, [false, false]) => Verdict::Fails,
            (false, _) => Verdict::LeansToFail,
        };
        Some(Estimate { repetitions: count, mean: Some(mean), half_width, verdict })
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = COMPARISONS.iter().find(|(_, c)| *c == self.comparison).map_or("", |(s, _)| s);
        // As many digits as it takes, and none that only binary fractions have.
        let percent = (self.threshold * 1e11).round() / 1e9;
        match self.is_share() {
            true => write!(f, "{} {sign} {percent}%", self.column),
            false => write!(f, "{} {sign} {}", self.column, self.threshold),
        }
    }
}

/// The number of a condition, or what is wrong with it and what to do.
fn threshold(column: &str, text: &str) -> Result<f64, (String, String)> {
    let finite = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let share = SHARES.contains(&column);
    if let Some(number) = text.strip_suffix('%') {
        let Some(percent) = finite(number.trim()) else {
            return Err((format!("`{text}` is not a number"), String::new()));
        };
        if !share {
            let shares = crate::suggest::list(SHARES);
            return Err((
                format!("`{column}` is not a share, so per cent of what?"),
                format!("per cent go with {shares}"),
            ));
        }
        if !(0.0..=100.0).contains(&percent) {
            return Err(("a share is between 0% and 100%".into(), String::new()));
        }
        return Ok(percent / 100.0);
    }
    // A time may have a unit where the column has one.
    if column.ends_with("_us")
        && let Ok(time) = text.parse::<Duration>()
    {
        return Ok(time.as_micros_f64());
    }
    match finite(text) {
        Some(number) if share && !(0.0..=1.0).contains(&number) => Err((
            format!("`{column}` is a share, from 0 to 1"),
            format!("write {text}% for per cent"),
        )),
        Some(number) => Ok(number),
        None => Err((format!("`{text}` is not a number"), String::new())),
    }
}

/// The columns a condition can be about.
fn columns() -> Vec<String> {
    let summary = serde_json::to_value(Summary::default()).expect("a summary can be written");
    let names = summary.as_object().expect("it is an object").keys();
    names.filter(|name| !NO_OUTCOME.contains(&&***name)).cloned().collect()
}

/// A column of a summary.
fn value(summary: &Summary, column: &str) -> Option<f64> {
    serde_json::to_value(summary).expect("a summary can be written").get(column)?.as_f64()
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
            ("<= 5", "<=", "which column"),
            ("seeds <= 5", "seeds", "unknown column"),
            ("", "", "no comparison"),
        ] {
            let message = parse(text).unwrap_err();
            let expected = format!("{place}: ");
            assert!(message.starts_with(&expected) && message.contains(words), "{message}");
        }
    }

    #[test]
    fn the_interval_decides() {
        let with = |met: f64| Summary { deadlines_met: Some(met), ..Summary::default() };
        let verdict = |values: &[f64]| {
            let condition = parse("deadlines_met >= 90%").unwrap();
            let summaries: Vec<Summary> = values.iter().map(|v| with(*v)).collect();
            condition.judge(&summaries).unwrap().verdict
        };
        assert_eq!(verdict(&[0.95, 0.96, 0.97]), Verdict::Holds);
        assert_eq!(verdict(&[0.9, 0.9]), Verdict::Holds);
        assert_eq!(verdict(&[0.8, 0.95, 0.99]), Verdict::LeansToHold);
        assert_eq!(verdict(&[0.8, 0.9, 0.95]), Verdict::LeansToFail);
        assert_eq!(verdict(&[0.5, 0.51]), Verdict::Fails);
        assert_eq!(verdict(&[1.0]), Verdict::LeansToHold);
    }

    #[test]
    fn what_has_no_value_is_told_from_what_fails() {
        let nothing = Summary { flows: 2.0, ..Summary::default() };
        let judge = |text: &str| parse(text).unwrap().judge(&[nothing.clone(), nothing.clone()]);
        assert_eq!(judge("deadlines_met >= 90%"), None);
        assert_eq!(judge("fct_p99_us <= 10").unwrap().verdict, Verdict::Fails);
    }
}
