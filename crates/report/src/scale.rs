//! Axes of time, on a logarithmic scale, and numbers in words that people use.

use punctual_core::Duration;

/// A logarithmic axis between two round times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TimeAxis {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

const DECADES: [u64; 20] = {
    let mut all = [1; 20];
    let mut i = 1;
    while i < 20 {
        all[i] = all[i - 1] * 10;
        i += 1;
    }
    all
};

/// 1, 2, 5, 10, 20, 50 … picoseconds.
fn round_times() -> impl DoubleEndedIterator<Item = u64> + Clone {
    let steps = |decade: &u64| [1, 2, 5].map(|step| decade.saturating_mul(step));
    DECADES.iter().flat_map(steps)
}

impl TimeAxis {
    /// The shortest axis with round ends on which all times fit; an axis of some length even for
    /// one time or none.
    pub(crate) fn around(times: impl Iterator<Item = Duration> + Clone) -> TimeAxis {
        let shortest = times.clone().min().unwrap_or(Duration::from_micros(1)).as_picos().max(1);
        let longest = times.max().unwrap_or(Duration::from_millis(1)).as_picos().max(1);
        let from = round_times().rev().find(|at| *at <= shortest).unwrap_or(1);
        let to = round_times().find(|at| *at >= longest && *at > from).unwrap_or(u64::MAX);
        TimeAxis { from: Duration::from_picos(from), to: Duration::from_picos(to) }
    }

    /// Where a time is on the axis, 0 to 1; beyond it for times that are not.
    pub(crate) fn place(&self, time: Duration) -> f64 {
        let log = |time: Duration| libm::log10(time.as_picos().max(1) as f64);
        (log(time) - log(self.from)) / (log(self.to) - log(self.from))
    }

    /// Times to label: as many of 1 to 9 times powers of ten as there is room for.
    pub(crate) fn labels(&self) -> Vec<Duration> {
        /// Room for a label, as a share of the axis.
        const ROOM: f64 = 0.085;
        let steps: [&[u64]; 3] = [&[1, 2, 3, 4, 5, 6, 7, 8, 9], &[1, 2, 5], &[1]];
        let all = steps.map(|steps| self.multiples(steps));
        let apart = |pair: &[Duration]| self.place(pair[1]) - self.place(pair[0]) >= ROOM;
        let [.., fewest] = &all;
        let chosen = all.iter().find(|labels| labels.windows(2).all(apart));
        chosen.unwrap_or(fewest).clone()
    }

    /// Those multiples of powers of ten that are on the axis.
    fn multiples(&self, steps: &[u64]) -> Vec<Duration> {
        DECADES
            .iter()
            .flat_map(|decade| steps.iter().filter_map(|step| decade.checked_mul(*step)))
            .filter(|picos| (self.from.as_picos()..=self.to.as_picos()).contains(picos))
            .map(Duration::from_picos)
            .collect()
    }

    /// Times of fine grid lines: 1 to 9 times powers of ten, the labelled ones left out.
    pub(crate) fn fine(&self) -> Vec<Duration> {
        let labels = self.labels();
        let mut fine = self.multiples(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        fine.retain(|at| !labels.contains(at));
        fine
    }
}

/// A time with three significant digits, in the unit that gives at least 1: `20 µs`, `1.25 ms`.
pub(crate) fn time_text(time: Duration) -> String {
    const UNITS: [(&str, f64); 5] =
        [("s", 1e12), ("ms", 1e9), ("µs", 1e6), ("ns", 1e3), ("ps", 1.0)];
    let picos = time.as_picos() as f64;
    // 999.6 µs would be written as 1000 µs.
    let fits = |scale: f64| picos / scale >= 0.9995;
    let (name, scale) = UNITS.into_iter().find(|unit| fits(unit.1)).unwrap_or(("ps", 1.0));
    format!("{} {name}", three_digits(picos / scale))
}

/// Three significant digits, without trailing zeros.
pub(crate) fn three_digits(value: f64) -> String {
    let decimals = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(shortest: u64, longest: u64) -> TimeAxis {
        TimeAxis::around([shortest, longest].into_iter().map(Duration::from_picos))
    }

    fn texts(times: Vec<Duration>) -> Vec<String> {
        times.into_iter().map(time_text).collect()
    }

    #[test]
    fn axis_has_round_ends() {
        let axis = axis(7_300_000, 91_000_000_000);
        assert_eq!(texts(vec![axis.from, axis.to]), ["5 µs", "100 ms"]);
        assert_eq!(texts(axis.labels()), ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]);
        assert_eq!((axis.place(axis.from), axis.place(axis.to)), (0.0, 1.0));
    }

    #[test]
    fn short_axis_has_more_labels() {
        let axis = axis(110_000_000, 700_000_000);
        assert_eq!(texts(axis.labels()), ["100 µs", "200 µs", "500 µs", "1 ms"]);
        assert_eq!(
            texts(axis.fine()),
            ["300 µs", "400 µs", "600 µs", "700 µs", "800 µs", "900 µs"]
        );
    }

    #[test]
    fn very_short_axis_has_every_label() {
        let axis = axis(5_100_000, 9_000_000);
        assert_eq!(texts(axis.labels()), ["5 µs", "6 µs", "7 µs", "8 µs", "9 µs", "10 µs"]);
        assert_eq!(axis.fine(), []);
    }

    #[test]
    fn one_time_none_and_extremes_still_make_an_axis() {
        for axis in [axis(1_000_000, 1_000_000), axis(0, 0), axis(1, u64::MAX)] {
            assert!(axis.from < axis.to, "{axis:?}");
        }
        let none = TimeAxis::around(std::iter::empty());
        assert!(none.from < none.to);
    }

    #[test]
    fn times_have_three_digits() {
        let text = |picos| time_text(Duration::from_picos(picos));
        assert_eq!(text(0), "0 ps");
        assert_eq!(text(80), "80 ps");
        assert_eq!(text(7_204_000), "7.2 µs");
        assert_eq!(text(1_254_000_000), "1.25 ms");
        assert_eq!(text(999_600_000), "1 ms");
        assert_eq!(text(123_456_000_000_000), "123 s");
    }
}
