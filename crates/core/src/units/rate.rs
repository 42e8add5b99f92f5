//! Rates in bits per second.

use super::parse::{Kind, text_with_unit};
use super::{Bytes, Duration};
use core::ops::{Add, Sub};

/// A rate, in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

const KIND: Kind = Kind {
    what: "a rate",
    base: "bits per second",
    example: "10Gbps",
    unit_names: "bps, Kbps, Mbps, Gbps, Tbps",
    units: &[
        ("bps", 1),
        ("Kbps", 1_000),
        ("kbps", 1_000),
        ("Mbps", 1_000_000),
        ("Gbps", 1_000_000_000),
        ("Tbps", 1_000_000_000_000),
    ],
};

text_with_unit!(
    Rate,
    KIND,
    &[
        ("Tbps", 1_000_000_000_000),
        ("Gbps", 1_000_000_000),
        ("Mbps", 1_000_000),
        ("Kbps", 1_000),
        ("bps", 1)
    ]
);

const PICOS_PER_SEC: u128 = 1_000_000_000_000;

impl Rate {
    /// Zero.
    pub const ZERO: Rate = Rate(0);

    /// From bits per second.
    #[inline]
    pub const fn from_bps(bps: u64) -> Self {
        Rate(bps)
    }
    /// From megabits per second.
    #[inline]
    pub const fn from_mbps(mbps: u64) -> Self {
        Rate(mbps * 1_000_000)
    }
    /// From gigabits per second.
    #[inline]
    pub const fn from_gbps(gbps: u64) -> Self {
        Rate(gbps * 1_000_000_000)
    }
    /// In bits per second.
    #[inline]
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Time that `bytes` occupy a link of this rate, rounded up to a picosecond; a link of rate
    /// zero never finishes.
    #[inline]
    pub fn transmission_time(self, bytes: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        // Up to 2.3 MB a 64-bit division suffices, which is several times as fast.
        if let Some(scaled) = bytes.get().checked_mul(8 * PICOS_PER_SEC as u64) {
            return Duration::from_picos(scaled.div_ceil(self.0));
        }
        let picos = (u128::from(bytes.get()) * 8 * PICOS_PER_SEC).div_ceil(u128::from(self.0));
        Duration::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }

    /// Whether `bytes` occupy a link of this rate for longer than `time`, without a division.
    #[inline]
    pub fn takes_longer(self, bytes: Bytes, time: Duration) -> bool {
        let bit_picos = u128::from(bytes.get()) * 8 * PICOS_PER_SEC;
        self.0 == 0 || bit_picos > u128::from(self.0) * u128::from(time.as_picos())
    }

    /// Bytes that a link of this rate sends in `time`, rounded down.
    #[inline]
    pub fn bytes_in(self, time: Duration) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(time.as_picos()) / (8 * PICOS_PER_SEC);
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// The rate that sends `bytes` in `time`, rounded down; the highest rate when `time` is zero.
    pub fn of(bytes: Bytes, time: Duration) -> Rate {
        if time.is_zero() {
            return Rate(u64::MAX);
        }
        let bps = u128::from(bytes.get()) * 8 * PICOS_PER_SEC / u128::from(time.as_picos());
        Rate(u64::try_from(bps).unwrap_or(u64::MAX))
    }

    /// Scaled by a real factor, rounded to the nearest bit per second; never below zero.
    pub fn mul_f64(self, factor: f64) -> Rate {
        Rate(libm::round(self.0 as f64 * factor) as u64)
    }

    /// The difference, or zero when `other` is higher.
    #[inline]
    pub const fn saturating_sub(self, other: Rate) -> Rate {
        Rate(self.0.saturating_sub(other.0))
    }

    /// The sum, or the highest rate when it does not fit.
    #[inline]
    pub const fn saturating_add(self, other: Rate) -> Rate {
        Rate(self.0.saturating_add(other.0))
    }
}

impl Add for Rate {
    type Output = Rate;
    #[inline]
    fn add(self, other: Rate) -> Rate {
        Rate(self.0 + other.0)
    }
}
impl Sub for Rate {
    type Output = Rate;
    #[inline]
    fn sub(self, other: Rate) -> Rate {
        Rate(self.0 - other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_byte_at_100_gbps_takes_80_ps() {
        let time = Rate::from_gbps(100).transmission_time(Bytes::new(1));
        assert_eq!(time, Duration::from_picos(80));
    }

    #[test]
    fn short_and_long_divisions_agree() {
        let limit = u64::MAX / 8_000_000_000_000;
        for bps in [1, 3, 1_000_000_007, u64::MAX] {
            for bytes in [0, 1, 1500, limit - 1, limit, limit + 1, limit + 2, u64::MAX] {
                let exact = (u128::from(bytes) * 8 * PICOS_PER_SEC).div_ceil(u128::from(bps));
                let time = Rate::from_bps(bps).transmission_time(Bytes::new(bytes));
                assert_eq!(u128::from(time.as_picos()), exact.min(u128::from(u64::MAX)));
            }
        }
    }

    proptest! {
        #[test]
        fn transmission_rounds_up_and_inverts(bps in 1u64..1_000_000_000_000, bytes in 0u64..1 << 32) {
            let (rate, bytes) = (Rate::from_bps(bps), Bytes::new(bytes));
            let time = rate.transmission_time(bytes);
            prop_assert!(rate.bytes_in(time) >= bytes);
            prop_assert!(!rate.takes_longer(bytes, time));
            if !time.is_zero() {
                prop_assert!(rate.bytes_in(time - Duration::from_picos(1)) <= bytes);
                prop_assert!(rate.takes_longer(bytes, time - Duration::from_picos(1)));
            }
        }

        #[test]
        fn text_goes_both_ways(bps: u64) {
            let rate = Rate::from_bps(bps);
            prop_assert_eq!(rate.to_string().parse::<Rate>().unwrap(), rate);
        }
    }
}
