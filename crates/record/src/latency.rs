//! Latency of data packets, in a histogram of fixed size.

use punctual_core::{Duration, TransportId};

/// Buckets for each doubling of the value: 2⁷, so that a bucket is at most 1/128 of its values wide.
const STEPS_LOG2: u32 = 7;
const STEPS: usize = 1 << STEPS_LOG2;
/// One linear row of buckets below 2⁷ ps, then a row for each doubling.
const BUCKETS: usize = STEPS * (64 - STEPS_LOG2 as usize + 1);

/// A histogram of durations. Percentiles are exact to 0.4 %, the maximum is exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BUCKETS], total: 0, max: Duration::ZERO }
    }
}

/// The bucket of a value.
fn bucket(picos: u64) -> usize {
    let shift = (64 - STEPS_LOG2).saturating_sub(picos.leading_zeros() + 1);
    let row = usize::try_from(shift).unwrap_or(0);
    // Above the first row, the highest bit of the shifted value is always set.
    row * STEPS + (picos >> shift) as usize
}

/// The least value of a bucket, and how many it has.
fn bounds(bucket: usize) -> (u64, u64) {
    let row = (bucket / STEPS).saturating_sub(1);
    let value = (bucket - row * STEPS) as u64;
    (value << row, 1 << row)
}

impl Histogram {
    /// Counts a value.
    pub fn add(&mut self, value: Duration) {
        self.counts[bucket(value.as_picos())] += 1;
        self.total += 1;
        self.max = self.max.max(value);
    }

    /// Adds the values of another histogram.
    pub fn join(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// The number of values.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The largest value; none without values.
    pub fn max(&self) -> Option<Duration> {
        (self.total > 0).then_some(self.max)
    }

    /// The nearest-rank percentile: the middle of the bucket of the smallest value that at least
    /// `per_mille` of all values do not exceed. None without values.
    pub fn percentile(&self, per_mille: u64) -> Option<Duration> {
        let rank = (u128::from(self.total) * u128::from(per_mille)).div_ceil(1000).max(1);
        let mut below = 0u128;
        for (n, count) in self.counts.iter().enumerate() {
            below += u128::from(*count);
            if below >= rank {
                let (least, width) = bounds(n);
                return Some(Duration::from_picos(least + width / 2).min(self.max));
            }
        }
        None
    }
}

/// The latency of one transport's data packets: from first transmission to acknowledgement.
///
/// It covers packets that were first sent in the measured window. Background flows are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketLatency {
    /// The transport.
    pub transport: TransportId,
    /// Times of the packets whose data were acknowledged.
    pub times: Histogram,
    /// Packets whose data were not acknowledged by the end of the run, or of their flow.
    pub unacked: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_at_most_a_128th_wide() {
        let mut expected = 0u64;
        for n in 0..BUCKETS {
            let (least, width) = bounds(n);
            assert_eq!(least, expected, "bucket {n}");
            assert!(width == 1 || width * 128 <= least, "bucket {n}");
            assert_eq!((bucket(least), bucket(least + (width - 1))), (n, n));
            expected = least.wrapping_add(width);
        }
        assert_eq!(expected, 0, "the last bucket ends at 2^64");
    }

    #[test]
    fn percentiles_are_nearest_ranks_to_half_a_percent() {
        let mut times = Histogram::default();
        assert_eq!((times.percentile(500), times.max()), (None, None));
        for micros in (1..=1000).rev() {
            times.add(Duration::from_micros(micros));
        }
        for (per_mille, exact) in [(1, 1), (500, 500), (900, 900), (990, 990)] {
            let found = times.percentile(per_mille).unwrap().as_picos() as f64;
            assert!((found / (exact as f64 * 1e6) - 1.0).abs() <= 0.004, "{per_mille}: {found}");
        }
        assert_eq!(
            times.percentile(1000),
            Some(Duration::from_micros(1000)),
            "not above the maximum"
        );
        assert_eq!(times.max(), Some(Duration::from_micros(1000)));
        assert_eq!(times.len(), 1000);
    }
}
