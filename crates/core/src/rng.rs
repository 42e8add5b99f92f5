//! Named random streams.
//!
//! Equal (seed, purpose, id) give equal numbers, whatever else a run draws, so that every transport
//! of a comparison sees identical arrivals.

use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;

/// A random stream with 64 bits of state.
#[derive(Clone, Debug)]
pub struct Stream(SplitMix64);

/// Mixes 64 bits so that each input bit changes about half of the output bits.
#[inline]
pub fn mix(mut x: u64) -> u64 {
    // Stafford's variant 13 of the finaliser, which SplitMix64 uses.
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The seed of a named stream.
pub fn derive(seed: u64, purpose: &str, id: u64) -> u64 {
    let name = purpose
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    mix(mix(seed ^ mix(name)).wrapping_add(mix(id.wrapping_add(0x9e37_79b9_7f4a_7c15))))
}

impl Stream {
    /// The named stream.
    pub fn named(seed: u64, purpose: &str, id: u64) -> Self {
        Stream::from_seed(derive(seed, purpose, id))
    }

    /// The stream that starts from a derived seed.
    pub fn from_seed(seed: u64) -> Self {
        Stream(SplitMix64::seed_from_u64(seed))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A fair coin.
    #[inline]
    pub fn coin(&mut self) -> bool {
        self.bits() >> 63 == 1
    }

    /// Uniform below `n`, which must not be 0. The bias, below n/2⁶⁴, is accepted.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        debug_assert!(n > 0);
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in [0, 1), a multiple of 2⁻⁵³.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `p`.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }

    /// Shuffles a slice.
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        for i in (1..slice.len()).rev() {
            slice.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_separate_streams() {
        let first = |purpose, id| Stream::named(7, purpose, id).bits();
        assert_eq!(first("arrivals", 1), first("arrivals", 1));
        assert_ne!(first("arrivals", 1), first("arrivals", 2));
        assert_ne!(first("arrivals", 1), first("sizes", 1));
    }

    #[test]
    fn below_is_even() {
        let mut stream = Stream::named(1, "test", 0);
        let mut counts = [0u32; 5];
        for _ in 0..50_000 {
            counts[stream.below(5) as usize] += 1;
        }
        assert!(counts.iter().all(|c| (9_600..10_400).contains(c)), "{counts:?}");
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut stream = Stream::named(1, "test", 0);
        let mean = (0..100_000).map(|_| stream.exponential(3.0)).sum::<f64>() / 100_000.0;
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
    }
}
