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

/// Transports as sentences name them, by their names in scenarios.
const TRANSPORTS: [(&str, &str); 17] = [
    ("d2tcp", "D2TCP"),
    ("d3", "D3"),
    ("dcqcn", "DCQCN"),
    ("dctcp", "DCTCP"),
    ("dctcp-lossless", "DCTCP over PFC"),
    ("kernel-cubic", "the kernel's CUBIC"),
    ("kernel-reno", "the kernel's Reno"),
    ("m-pdq", "M-PDQ"),
    ("mptcp", "MPTCP"),
    ("ndp", "NDP"),
    ("pdq", "PDQ"),
    ("phost", "pHost"),
    ("rcp", "RCP"),
    ("rcpdc", "RCPdc"),
    ("tcp", "TCP"),
    ("tcppr", "TCPpr"),
    ("udp", "UDP"),
];

/// A sentence whose transports have the names of the field: `d3 carries` becomes `D3 carries`.
fn with_names(text: &str) -> String {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '-';
    let mut named = String::new();
    for part in text.split_inclusive(|c: char| !is_of_word(c)) {
        let word = part.trim_end_matches(|c: char| !is_of_word(c));
        let name = TRANSPORTS.iter().find(|(id, _)| *id == word);
        named += name.map_or(word, |(_, name)| name);
        named += &part[word.len()..];
    }
    named
}

/// How one value of an order compares with the next: `>`, `<` or `=`.
fn sign(first: Option<f64>, second: Option<f64>) -> &'static str {
    match first.partial_cmp(&second) {
        _ if first.is_none() || second.is_none() => "?",
        Some(std::cmp::Ordering::Less) => "<",
        Some(std::cmp::Ordering::Equal) => "=",
        _ => ">",
    }
}

impl Judgement {
    /// The measured value with its interval: `44 (41 to 47)`. The values of an order have the signs
    /// between them that they have, not those that are claimed: `11 < 15`.
    pub fn measured_text(&self) -> String {
        match (&self.measured, self.interval) {
            (Measured::Several(values), _) => {
                let mut text = values.first().map(or_none).unwrap_or_default();
                for pair in values.windows(2) {
                    text += &format!(" {} {}", sign(pair[0], pair[1]), or_none(&pair[1]));
                }
                text
            }
            (Measured::One(value), Some([Some(low), Some(high)]))
                if low == high && *value == Some(low) =>
            {
                number(low)
            }
            (Measured::One(value), Some([low, high])) => {
                let end = |end: Option<f64>| end.map_or_else(|| "∞".into(), number);
                format!("{} ({} to {})", or_none(value), end(low), end(high))
            }
            (Measured::One(value), None) => or_none(value),
        }
    }

    /// The verdict, with ` ~` where it is not sure. An order that comes out the other way round is
    /// called `reversed`.
    pub fn verdict_text(&self) -> String {
        let is_open = matches!(self.verdict, ClaimVerdict::Holds | ClaimVerdict::Differs);
        let mark = if is_open && !self.sure { " ~" } else { "" };
        let reversed = if self.is_reversed() { ", reversed" } else { "" };
        format!("{}{reversed}{mark}", self.verdict.name())
    }

    /// Whether the values of an order that does not hold rise where they should fall, all of them.
    pub fn is_reversed(&self) -> bool {
        let Measured::Several(values) = &self.measured else { return false };
        let rises = |pair: &[Option<f64>]| sign(pair[0], pair[1]) == "<";
        self.verdict == ClaimVerdict::Differs && values.windows(2).all(rises)
    }
}

impl ClaimLine {
    /// The claim in a sentence, with the transports' names.
    pub fn sentence(&self) -> String {
        with_names(&self.text)
    }

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

    fn judged(measured: Measured, interval: Option<[Option<f64>; 2]>, holds: bool) -> Judgement {
        let verdict = if holds { ClaimVerdict::Holds } else { ClaimVerdict::Differs };
        Judgement { measured, interval, verdict, sure: true, seeds: 3, note: String::new() }
    }

    /// An order that does not hold must not read as if it did.
    #[test]
    fn orders_show_the_signs_that_they_have() {
        let text = |values: &[f64], holds| {
            let values = values.iter().copied().map(Some).collect();
            let judged = judged(Measured::Several(values), None, holds);
            (judged.measured_text(), judged.verdict_text())
        };
        let words = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(text(&[3.0, 2.0, 1.0], true), words("3 > 2 > 1", "holds"));
        assert_eq!(text(&[11.0, 15.0], false), words("11 < 15", "differs, reversed"));
        assert_eq!(text(&[3.0, 4.0, 1.0], false), words("3 < 4 > 1", "differs"));
        assert_eq!(text(&[0.0, 0.0], false), words("0 = 0", "differs"));
        let unknown = judged(Measured::Several(vec![Some(1.0), None]), None, false);
        assert_eq!(unknown.measured_text(), "1 ? –");
        assert!(!unknown.is_reversed());
    }

    #[test]
    fn intervals_without_width_are_not_shown() {
        let text = |low, high| {
            let interval = Some([Some(low), Some(high)]);
            judged(Measured::One(Some(2.0)), interval, true).measured_text()
        };
        assert_eq!((text(2.0, 2.0), text(1.0, 3.0)), ("2".into(), "2 (1 to 3)".into()));
    }

    #[test]
    fn sentences_have_names_of_the_field() {
        assert_eq!(with_names("d3 over dctcp-lossless's, tcp"), "D3 over DCTCP over PFC's, TCP");
        assert_eq!(with_names("D3 on the m-pdq-like tcpx"), "D3 on the m-pdq-like tcpx");
        assert_eq!(with_names("rcpdc (d3)"), "RCPdc (D3)");
    }

    #[test]
    fn numbers_are_short() {
        let shown = [44.0, 2.3456, 0.01234, 123.456, 12345.6, 0.0, -1.5, 0.00001].map(number);
        assert_eq!(shown, ["44", "2.35", "0.0123", "123.5", "12346", "0", "-1.50", "1.00e-5"]);
    }
}
