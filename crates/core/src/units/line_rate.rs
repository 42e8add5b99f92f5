//! Link rates with precomputed transmission times.

use super::{Bytes, Duration, Rate};

/// A link rate with precomputed picoseconds per byte, so that transmission times need no division.
///
/// It divides only where a byte does not take a whole number of picoseconds, which is the case at
/// no usual link rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRate {
    rate: Rate,
    /// Time of one byte in picoseconds, when that is a whole number; else 0.
    picos_per_byte: u32,
}

impl LineRate {
    /// Precomputes the time of a byte.
    #[inline]
    pub fn new(rate: Rate) -> Self {
        const PICO_BITS: u64 = 8_000_000_000_000;
        let bps = rate.as_bps().max(1);
        let exact = PICO_BITS.is_multiple_of(bps).then_some(PICO_BITS / bps);
        let picos_per_byte = exact.and_then(|picos| u32::try_from(picos).ok()).unwrap_or(0);
        LineRate { rate, picos_per_byte }
    }

    /// The rate.
    #[inline]
    pub const fn rate(self) -> Rate {
        self.rate
    }

    /// The time that `bytes` take on the link, equal to [`Rate::transmission_time`].
    #[inline]
    pub fn transmission_time(self, bytes: Bytes) -> Duration {
        if self.picos_per_byte != 0
            && let Some(picos) = bytes.get().checked_mul(u64::from(self.picos_per_byte))
        {
            return Duration::from_picos(picos);
        }
        self.rate.transmission_time(bytes)
    }

    /// The time that a packet takes on the link. It is too small to overflow, so this has no check.
    #[inline]
    pub fn packet_time(self, bytes: u32) -> Duration {
        if self.picos_per_byte != 0 {
            Duration::from_picos(u64::from(bytes) * u64::from(self.picos_per_byte))
        } else {
            self.rate.transmission_time(Bytes::new(u64::from(bytes)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_the_times_of_its_rate() {
        let rates = [0, 1, 3, 8, 1_000_000_000, 2_500_000_000, 999_999_937, 1 << 40, u64::MAX];
        for rate in rates.map(Rate::from_bps) {
            for bytes in [0, 1, 1538, 123_456_789, 1 << 40, u64::MAX].map(Bytes::new) {
                let time = LineRate::new(rate).transmission_time(bytes);
                assert_eq!(time, rate.transmission_time(bytes), "{bytes} at {rate}");
                if let Ok(bytes) = u32::try_from(bytes.get()) {
                    assert_eq!(LineRate::new(rate).packet_time(bytes), time);
                }
            }
        }
    }
}
