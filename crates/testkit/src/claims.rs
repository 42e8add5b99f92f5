//! What the papers claim, read from the catalogue `experiments/`, so that no test repeats it.

use std::collections::HashMap;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::{LazyLock, Mutex};
use toml::{Table, Value};

/// The values that a figure in a test may have, and where they come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    low: Bound<f64>,
    high: Bound<f64>,
    from: String,
}

/// What a claim of the catalogue accepts: `claimed("d3/fig10", "senders-d3")`.
///
/// For a number these are its tolerances, in the unit of the catalogue. For an order it is how many
/// times the first value is the second: more than 1.
///
/// # Panics
/// If the catalogue has no such claim, or the claim expects nothing.
pub fn claimed(experiment: &str, id: &str) -> Accepted {
    let claim = claim(experiment, id);
    let from = format!("{experiment}, {id}");
    if claim.contains_key("order") || claim.contains_key("falling") {
        let (low, high) = (Bound::Excluded(1.0), Bound::Unbounded);
        return Accepted { low, high, from };
    }
    let paper = claim.get("paper").and_then(number);
    let around = match (float(&claim, "tolerance"), float(&claim, "tolerance_percent")) {
        (Some(tolerance), _) => Some(tolerance),
        (None, Some(percent)) => paper.map(|paper| paper.abs() * percent / 100.0),
        (None, None) => None,
    };
    let end = |own: Option<f64>, around: Option<f64>| {
        own.or(around).map_or(Bound::Unbounded, Bound::Included)
    };
    let (below, above) = paper
        .zip(around)
        .map_or((None, None), |(paper, around)| (Some(paper - around), Some(paper + around)));
    let (low, high) = (end(float(&claim, "at_least"), below), end(float(&claim, "at_most"), above));
    assert!(
        (low, high) != (Bound::Unbounded, Bound::Unbounded),
        "{from}: the claim expects nothing"
    );
    Accepted { low, high, from }
}

/// A bound that is not a claim of the catalogue, with the reason for its values.
pub fn bounded(range: impl RangeBounds<f64>, reason: &str) -> Accepted {
    let (low, high) = (range.start_bound().cloned(), range.end_bound().cloned());
    Accepted { low, high, from: reason.to_owned() }
}

/// What the paper has for a claim of the catalogue, as it is written there.
///
/// # Panics
/// If the catalogue has no such claim.
pub fn published(experiment: &str, id: &str) -> String {
    match claim(experiment, id).get("paper") {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

impl Accepted {
    /// Whether it has this value.
    pub fn contains(&self, value: f64) -> bool {
        (self.low, self.high).contains(&value)
    }

    /// The ends.
    pub fn ends(&self) -> (Bound<f64>, Bound<f64>) {
        (self.low, self.high)
    }

    /// The accepted values in words: `33 to 39`, `at most 6`, `above 1`.
    pub fn range(&self) -> String {
        use Bound::{Excluded, Included, Unbounded};
        match (self.low, self.high) {
            (Included(low), Included(high)) if low == high => short(low),
            (Included(low) | Excluded(low), Included(high) | Excluded(high)) => {
                format!("{} to {}", short(low), short(high))
            }
            (Included(low), Unbounded) => format!("at least {}", short(low)),
            (Excluded(low), Unbounded) => format!("above {}", short(low)),
            (Unbounded, Included(high)) => format!("at most {}", short(high)),
            (Unbounded, Excluded(high)) => format!("below {}", short(high)),
            (Unbounded, Unbounded) => "any".to_owned(),
        }
    }

    /// This claim for values in another unit, `factor` times as large.
    #[must_use]
    pub fn times(self, factor: f64) -> Accepted {
        let scaled = |end: Bound<f64>| end.map(|end| end * factor);
        Accepted { low: scaled(self.low), high: scaled(self.high), from: self.from }
    }
}

impl fmt::Display for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |end: Bound<f64>, included: &str, excluded: &str| match end {
            Bound::Included(end) => format!("{included} {}", short(end)),
            Bound::Excluded(end) => format!("{excluded} {}", short(end)),
            Bound::Unbounded => String::new(),
        };
        let (low, high) = (words(self.low, "≥", ">"), words(self.high, "≤", "<"));
        let and = if low.is_empty() || high.is_empty() { "" } else { " and " };
        write!(f, "{low}{and}{high} ({})", self.from)
    }
}

/// The files that were read, by experiment.
static FILES: LazyLock<Mutex<HashMap<String, Table>>> = LazyLock::new(Mutex::default);

/// The table of a claim, with the values of its `each`.
fn claim(experiment: &str, id: &str) -> Table {
    let mut files = FILES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let file = files.entry(experiment.to_owned()).or_insert_with(|| read(experiment));
    let claims = file["experiment"]["claim"].as_array().into_iter().flatten();
    let mut found = claims.filter_map(Value::as_table).filter_map(|claim| one_of(claim, id));
    found.next().unwrap_or_else(|| panic!("the catalogue has no claim `{id}` of {experiment}"))
}

fn read(experiment: &str) -> Table {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let path = folder.join(format!("{experiment}.toml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The claim with this id among those that a table stands for (`each`).
fn one_of(claim: &Table, id: &str) -> Option<Table> {
    let of_id = |claim: &Table| claim.get("id").and_then(Value::as_str) == Some(id);
    let Some(each) = claim.get("each").and_then(Value::as_table) else {
        return of_id(claim).then(|| claim.clone());
    };
    let lists: Vec<(String, &Vec<Value>)> = each
        .iter()
        .filter_map(|(key, list)| Some((format!("{{{key}}}"), list.as_array()?)))
        .collect();
    let count = lists.iter().map(|(_, list)| list.len()).min()?;
    let place = |i: usize| -> Table {
        let replaced = |value: &Value| {
            let Some(text) = value.as_str() else { return value.clone() };
            if let Some((_, list)) = lists.iter().find(|(name, _)| name == text) {
                return list[i].clone();
            }
            let plain = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
            let text = lists
                .iter()
                .fold(text.to_owned(), |text, (name, list)| text.replace(name, &plain(&list[i])));
            Value::String(text)
        };
        claim.iter().map(|(key, value)| (key.clone(), replaced(value))).collect()
    };
    (0..count).map(place).find(of_id)
}

/// A number with four decimals at most.
fn short(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

fn float(claim: &Table, key: &str) -> Option<f64> {
    claim.get(key).and_then(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(experiment: &str, id: &str) -> (Bound<f64>, Bound<f64>) {
        claimed(experiment, id).ends()
    }

    #[test]
    fn claimed__tolerances_orders_and_lists() {
        use Bound::{Excluded, Included, Unbounded};
        assert_eq!(ends("d3/fig10", "senders-d3"), (Included(33.0), Included(39.0)));
        assert_eq!(ends("pdq/fig12", "longest"), (Included(-60.0), Included(-30.0)));
        assert_eq!(ends("pdq/fig3c", "pdq-over-d3-40ms"), (Included(2.5), Unbounded));
        assert_eq!(ends("d3/fig12", "order-d3-rcpdc"), (Excluded(1.0), Unbounded));
        let (low, high) = ends("d3/tab1", "rcpdc");
        assert_eq!((low, high), (Included(1040.0), Included(1560.0)));
        assert_eq!(published("d3/fig10", "senders-rcpdc"), "22");
    }

    #[test]
    fn accepted__unit_and_words() {
        let share = claimed("pdq/fig12", "mean").times(0.01);
        assert!(share.contains(0.05) && !share.contains(0.051));
        assert_eq!(share.to_string(), "≤ 0.05 (pdq/fig12, mean)");
        let own = bounded(0.5..1.0, "half at least");
        assert!(own.contains(0.5) && !own.contains(1.0) && !own.contains(f64::NAN));
        assert_eq!(own.to_string(), "≥ 0.5 and < 1 (half at least)");
        let ranges = ["reservation-meets-both", "quenching-loses-none"];
        let ranges = ranges.map(|id| claimed("d3/fig1-2", id).range());
        assert_eq!(ranges, ["2", "at least 0"]);
        assert_eq!(claimed("d3/fig16", "queue-mean-2").range(), "at most 6");
        assert_eq!(claimed("d3/fig16", "gbps-2").range(), "0.92 to 0.98");
    }

    #[test]
    #[should_panic(expected = "has no claim `senders-udp`")]
    fn claimed__no_such_claim() {
        claimed("d3/fig10", "senders-udp");
    }

    #[test]
    #[should_panic(expected = "expects nothing")]
    fn claimed__a_blind_measurement() {
        claimed("d3/fig4", "stand-in-tcp-20ms");
    }
}
