//! Claims in words, as tables show them.

use super::judge::{ClaimVerdict, Judgement, Measured};
use super::reproduce::{ClaimLine, Tolerance};

/// A number with three significant digits or more.
fn number(value: f64) -> String {
    let size = value.abs();
    match () {
        () if size >= 1000.0 || value == value.trunc() && size < 1e6 => format!("{value:.0}"),
        () if size >= 100.0 => format!("{value:.1}"),
        () if size >= 1.0 => format!("{value:.2}"),
        () if size >= 0.001 => format!("{value:.4}"),
        () => format!("{value:.2e}"),
    }
}

fn or_none(value: &Option<f64>) -> String {
    value.map_or_else(|| "–".into(), number)
}

impl Judgement {
    /// The measured value with its interval: `44 (41 to 47)`.
    pub fn measured_text(&self) -> String {
        match (&self.measured, self.interval) {
            (Measured::Several(values), _) => {
                values.iter().map(or_none).collect::<Vec<_>>().join(" > ")
            }
            (Measured::One(value), Some([low, high])) => {
                let end = |end: Option<f64>| end.map_or_else(|| "∞".into(), number);
                format!("{} ({} to {})", or_none(value), end(low), end(high))
            }
            (Measured::One(value), None) => or_none(value),
        }
    }

    /// The verdict, with ` ~` where it is not sure.
    pub fn verdict_text(&self) -> String {
        let is_open = matches!(self.verdict, ClaimVerdict::Holds | ClaimVerdict::Differs);
        let mark = if is_open && !self.sure { " ~" } else { "" };
        format!("{}{mark}", self.verdict.name())
    }
}

impl ClaimLine {
    /// What the paper has, or a dash.
    pub fn paper_text(&self) -> &str {
        if self.paper.is_empty() { "–" } else { &self.paper }
    }

    /// The accepted values: `33 to 39`.
    pub fn accepted_text(&self) -> String {
        match &self.tolerance {
            Tolerance::Range([Some(low), Some(high)]) if low == high => number(*low),
            Tolerance::Range([Some(low), Some(high)]) => {
                format!("{} to {}", number(*low), number(*high))
            }
            Tolerance::Range([Some(low), None]) => format!("≥ {}", number(*low)),
            Tolerance::Range([None, Some(high)]) => format!("≤ {}", number(*high)),
            Tolerance::Range([None, None]) | Tolerance::None => "–".into(),
            Tolerance::Words(words) => words.clone(),
        }
    }

    /// The measured value with its unit.
    pub fn here_text(&self) -> String {
        if self.judgement.verdict == ClaimVerdict::CannotRun {
            return "–".into();
        }
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        format!("{}{unit}", self.judgement.measured_text())
    }

    /// The results under other readings: `floor-6ms: 24 (20 to 26), holds`.
    pub fn readings_text(&self) -> String {
        let text = |reading: &super::ReadingLine| {
            let judged = &reading.judgement;
            let (here, verdict) = (judged.measured_text(), judged.verdict_text());
            format!("{}: {here}, {verdict}", reading.reading)
        };
        self.readings.iter().map(text).collect::<Vec<_>>().join("; ")
    }
}

/// `71 of 120 claims hold (50 surely), 49 differ (40 surely); 30 measurements are blind …`
pub fn sums<'a>(claims: impl IntoIterator<Item = &'a ClaimLine>) -> String {
    let all: Vec<&ClaimLine> = claims.into_iter().collect();
    let count = |verdict: ClaimVerdict, sure: bool| {
        let own = all.iter().filter(|l| l.judgement.verdict == verdict);
        own.filter(|l| !sure || l.judgement.sure).count()
    };
    let (holds, differs) = (count(ClaimVerdict::Holds, false), count(ClaimVerdict::Differs, false));
    format!(
        "{holds} of {} claims hold ({} surely), {differs} differ ({} surely); {} measurements are \
         blind, {} claims cannot run.",
        holds + differs,
        count(ClaimVerdict::Holds, true),
        count(ClaimVerdict::Differs, true),
        count(ClaimVerdict::Blind, false),
        count(ClaimVerdict::CannotRun, false),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [44.0, 2.3456, 0.01234, 123.456, 12345.6, 0.0, -1.5, 0.00001].map(number);
        assert_eq!(shown, ["44", "2.35", "0.0123", "123.5", "12346", "0", "-1.50", "1.00e-5"]);
    }
}
