//! Picosecond instants and durations: one byte at 100 Gb/s takes 80 ps. 2⁶⁴ ps are 213 days.

use super::parse::{Kind, text_with_unit};
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// A span of time, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

/// A point in time: picoseconds since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

const UNITS: &[(&str, u64)] =
    &[("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1)];

const KIND: Kind = Kind {
    what: "a time",
    base: "picoseconds",
    example: "10us",
    unit_names: "ps, ns, us, ms, s",
    units: &[
        ("ps", 1),
        ("ns", 1_000),
        ("us", 1_000_000),
        ("µs", 1_000_000),
        ("ms", 1_000_000_000),
        ("s", 1_000_000_000_000),
    ],
};

text_with_unit!(Duration, KIND, UNITS);
text_with_unit!(Instant, KIND, UNITS);

impl Duration {
    /// Zero.
    pub const ZERO: Duration = Duration(0);
    /// The longest duration.
    pub const MAX: Duration = Duration(u64::MAX);

    /// From picoseconds.
    #[inline]
    pub const fn from_picos(picos: u64) -> Self {
        Duration(picos)
    }
    /// From nanoseconds.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Duration(nanos * 1_000)
    }
    /// From microseconds.
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Duration(micros * 1_000_000)
    }
    /// From milliseconds.
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Duration(millis * 1_000_000_000)
    }
    /// From seconds.
    #[inline]
    pub const fn from_secs(secs: u64) -> Self {
        Duration(secs * 1_000_000_000_000)
    }
    /// From seconds, rounded to the nearest picosecond; negative and NaN become zero.
    pub fn from_secs_f64(secs: f64) -> Self {
        Duration(libm::round(secs * 1e12) as u64)
    }

    /// In picoseconds.
    #[inline]
    pub const fn as_picos(self) -> u64 {
        self.0
    }
    /// In whole nanoseconds, rounded down.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1_000
    }
    /// In seconds, for display and statistics.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
    /// In microseconds, for display and statistics.
    #[inline]
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The difference, or zero when `other` is longer.
    #[inline]
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
    /// The product, or the longest duration when it does not fit.
    #[inline]
    pub const fn saturating_mul(self, factor: u64) -> Duration {
        Duration(self.0.saturating_mul(factor))
    }
    /// Scaled by a real factor, rounded to the nearest picosecond.
    pub fn mul_f64(self, factor: f64) -> Duration {
        Duration(libm::round(self.0 as f64 * factor) as u64)
    }
    /// Whether this is zero.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Instant {
    /// The start of the run.
    pub const ZERO: Instant = Instant(0);
    /// Later than anything that happens.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// From picoseconds since the start.
    #[inline]
    pub const fn from_picos(picos: u64) -> Self {
        Instant(picos)
    }
    /// Picoseconds since the start.
    #[inline]
    pub const fn as_picos(self) -> u64 {
        self.0
    }
    /// Time since the start.
    #[inline]
    pub const fn since_start(self) -> Duration {
        Duration(self.0)
    }
    /// Seconds since the start, for display and statistics.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
    /// Time since `earlier`, or zero when `earlier` is later.
    #[inline]
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
    /// This instant moved later, at most to [`Instant::NEVER`].
    #[inline]
    pub const fn saturating_add(self, d: Duration) -> Instant {
        Instant(self.0.saturating_add(d.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    #[inline]
    fn add(self, d: Duration) -> Instant {
        Instant(self.0 + d.0)
    }
}
impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, d: Duration) {
        self.0 += d.0;
    }
}
impl Sub<Duration> for Instant {
    type Output = Instant;
    #[inline]
    fn sub(self, d: Duration) -> Instant {
        Instant(self.0 - d.0)
    }
}
impl Sub for Instant {
    type Output = Duration;
    #[inline]
    fn sub(self, earlier: Instant) -> Duration {
        Duration(self.0 - earlier.0)
    }
}
impl Add for Duration {
    type Output = Duration;
    #[inline]
    fn add(self, d: Duration) -> Duration {
        Duration(self.0 + d.0)
    }
}
impl AddAssign for Duration {
    #[inline]
    fn add_assign(&mut self, d: Duration) {
        self.0 += d.0;
    }
}
impl Sub for Duration {
    type Output = Duration;
    #[inline]
    fn sub(self, d: Duration) -> Duration {
        Duration(self.0 - d.0)
    }
}
impl SubAssign for Duration {
    #[inline]
    fn sub_assign(&mut self, d: Duration) {
        self.0 -= d.0;
    }
}
impl Mul<u64> for Duration {
    type Output = Duration;
    #[inline]
    fn mul(self, factor: u64) -> Duration {
        Duration(self.0 * factor)
    }
}
/// Rounds down.
impl Div<u64> for Duration {
    type Output = Duration;
    #[inline]
    fn div(self, divisor: u64) -> Duration {
        Duration(self.0 / divisor)
    }
}
impl core::iter::Sum for Duration {
    fn sum<I: Iterator<Item = Duration>>(iter: I) -> Duration {
        iter.fold(Duration::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::UnitError;

    #[test]
    fn text_goes_both_ways() {
        for text in ["0ps", "80ps", "7.2us", "1.000001ms", "12s"] {
            assert_eq!(text.parse::<Duration>().unwrap().to_string(), text);
        }
        assert_eq!("1_000 ns".parse::<Duration>().unwrap(), Duration::from_micros(1));
    }

    #[test]
    fn bad_text_is_explained() {
        let error = |t: &str| t.parse::<Duration>().unwrap_err();
        assert!(matches!(error("10"), UnitError::MissingUnit(..)));
        assert!(matches!(error("10Gbps"), UnitError::UnknownUnit(..)));
        assert!(matches!(error("-1us"), UnitError::Negative(..)));
        assert!(matches!(error("0.5ps"), UnitError::Fraction(..)));
        assert!(matches!(error("us"), UnitError::NotANumber(..)));
        assert!(matches!(error("99999999999s"), UnitError::TooLarge(..)));
    }
}
