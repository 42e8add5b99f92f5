//! Flow size distributions.

use crate::cdf::{BuiltIn, Cdf};
use crate::text;
use punctual_core::Bytes;
use punctual_core::rng::Stream;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A flow size distribution. In scenarios: `"64KB"`, `"web-search"` or another
/// [built-in](BuiltIn) name, `"endless"`, `{ fixed = "64KB" }`, `{ uniform = ["2KB", "50KB"] }`,
/// `{ pareto = { mean = "100KB", shape = 1.1, cap = "10MB" } }`,
/// `{ cdf = [["1KB", 0.5], ["10KB", 1]] }` or `{ file = "sizes.txt" }`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Sizes {
    /// Every flow has this size.
    Fixed(Bytes),
    /// Any whole number of bytes from the first to the second, both included.
    Uniform(Bytes, Bytes),
    /// A Pareto distribution.
    Pareto(Pareto),
    /// A built-in distribution.
    Named(BuiltIn),
    /// A distribution given by the points of its CDF.
    Cdf(Cdf),
    /// A file with a CDF that is not loaded yet; see
    /// [`TrafficSpec::load_files`](crate::TrafficSpec::load_files).
    File(String),
    /// Flows that never end.
    Endless,
    /// The sizes in a list of flows.
    Listed,
}

/// A Pareto distribution, optionally capped.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pareto {
    /// The mean of the draws, with the cap applied.
    pub mean: Bytes,
    /// The tail index, above 1. The closer to 1, the heavier the tail.
    pub shape: f64,
    /// Larger draws are reduced to this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Bytes>,
}

/// Why a size distribution is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SizesError {
    /// A size is zero.
    #[error("sizes: a flow carries at least one byte; give a size above zero")]
    Zero,
    /// The ends of the range are reversed.
    #[error("sizes: uniform from {0} to {1}: the first must not be larger; swap them")]
    Reversed(Bytes, Bytes),
    /// The Pareto distribution has no finite mean.
    #[error("sizes: pareto shape = {0}: must be finite and above 1, so that there is a mean")]
    Shape(f64),
    /// The cap is not larger than the mean.
    #[error("sizes: pareto cap = {cap} must be larger than mean = {mean}")]
    Cap {
        /// The cap.
        cap: Bytes,
        /// The mean.
        mean: Bytes,
    },
    /// The file was not loaded.
    #[error("sizes: file `{0}` was not loaded; call `TrafficSpec::load_files` before `build`")]
    NotLoaded(String),
    /// `Sizes::Listed` is used without a list of flows.
    #[error("sizes are missing; give for example sizes = \"64KB\" or sizes = \"web-search\"")]
    Missing,
}

impl Sizes {
    /// The mean of the distribution in bytes; `None` for endless flows, lists and unloaded files.
    pub fn mean(&self) -> Option<f64> {
        self.distribution().ok().and_then(|distribution| distribution.mean())
    }

    /// Checks the parameters and returns a distribution to draw from.
    pub(crate) fn distribution(&self) -> Result<SizeDistribution, SizesError> {
        match *self {
            Sizes::Fixed(Bytes::ZERO) | Sizes::Uniform(Bytes::ZERO, _) => Err(SizesError::Zero),
            Sizes::Fixed(size) => Ok(SizeDistribution::Fixed(size)),
            Sizes::Uniform(a, b) if a > b => Err(SizesError::Reversed(a, b)),
            Sizes::Uniform(a, b) => Ok(SizeDistribution::Uniform(a.get(), b.get())),
            Sizes::Pareto(pareto) => pareto.distribution(),
            Sizes::Named(name) => Ok(SizeDistribution::Cdf(name.cdf())),
            Sizes::Cdf(ref cdf) => Ok(SizeDistribution::Cdf(cdf.clone())),
            Sizes::File(ref file) => Err(SizesError::NotLoaded(file.clone())),
            Sizes::Endless => Ok(SizeDistribution::Fixed(Bytes::ENDLESS)),
            Sizes::Listed => Err(SizesError::Missing),
        }
    }
}

impl Pareto {
    fn distribution(self) -> Result<SizeDistribution, SizesError> {
        let Pareto { mean, shape, cap } = self;
        if mean == Bytes::ZERO {
            return Err(SizesError::Zero);
        }
        if !(shape > 1.0 && shape.is_finite()) {
            return Err(SizesError::Shape(shape));
        }
        if let Some(cap) = cap.filter(|cap| *cap <= mean) {
            return Err(SizesError::Cap { cap, mean });
        }
        // The largest size is a cap as well: beyond it are 3 % of the mean for a shape of 1.1.
        let cap = cap.map_or(SIZE_MAX, |cap| cap.get() as f64);
        let target = mean.get() as f64;
        let (mut low, mut high) = (0.0, target);
        // Bisection: the capped mean grows with the least size.
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if capped_mean(middle, shape, cap) < target {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(SizeDistribution::Pareto { least: high, shape, cap })
    }
}

/// The largest size that is drawn: 2⁶³ bytes.
const SIZE_MAX: f64 = u64::MAX as f64 / 2.0;

/// Mean of min(X, cap) for a Pareto variable X ≥ `least`.
fn capped_mean(least: f64, shape: f64, cap: f64) -> f64 {
    least * (1.0 + (1.0 - libm::pow(least / cap, shape - 1.0)) / (shape - 1.0))
}

/// A checked size distribution, ready to draw from.
#[derive(Debug, Clone)]
pub(crate) enum SizeDistribution {
    Fixed(Bytes),
    Uniform(u64, u64),
    Pareto { least: f64, shape: f64, cap: f64 },
    Cdf(Cdf),
}

impl SizeDistribution {
    /// Draws a size, rounded to the nearest byte and at least 1.
    pub(crate) fn draw(&self, stream: &mut Stream) -> Bytes {
        let real = match *self {
            SizeDistribution::Fixed(size) => return size,
            SizeDistribution::Uniform(a, b) => return Bytes::new(a + stream.below(b - a + 1)),
            SizeDistribution::Pareto { least, shape, cap } => {
                let x = least / libm::pow(1.0 - stream.unit(), 1.0 / shape);
                if x < cap { x } else { cap }
            }
            SizeDistribution::Cdf(ref cdf) => cdf.quantile(stream.unit()),
        };
        Bytes::new((libm::round(real) as u64).max(1))
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        match *self {
            SizeDistribution::Fixed(Bytes::ENDLESS) => None,
            SizeDistribution::Fixed(size) => Some(size.get() as f64),
            SizeDistribution::Uniform(a, b) => Some((a as f64 + b as f64) / 2.0),
            SizeDistribution::Pareto { least, shape, cap } => Some(capped_mean(least, shape, cap)),
            SizeDistribution::Cdf(ref cdf) => Some(cdf.mean()),
        }
    }

    pub(crate) fn is_endless(&self) -> bool {
        matches!(self, SizeDistribution::Fixed(Bytes::ENDLESS))
    }
}

/// The forms of [`Sizes`] that are tables in scenarios.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SizesTable {
    Fixed(Bytes),
    Uniform(Bytes, Bytes),
    Pareto(Pareto),
    Cdf(Cdf),
    File(String),
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let sizes = text::word_or_table(
            d,
            "sizes such as \"64KB\", \"web-search\" or { uniform = [\"2KB\", \"50KB\"] }",
            |word| match BuiltIn::by_name(word) {
                Some(name) => Ok(Sizes::Named(name)),
                None if word == "endless" => Ok(Sizes::Endless),
                None if word.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                    let names: Vec<_> = BuiltIn::ALL.iter().map(|b| b.name()).collect();
                    Err(format!(
                        "unknown sizes `{word}`; use one of {}, endless, a size such as \"64KB\", \
                         or {{ file = \"...\" }}",
                        names.join(", ")
                    ))
                }
                None => word.parse().map(Sizes::Fixed).map_err(|e| e.to_string()),
            },
            |table| match table {
                SizesTable::Fixed(size) => Sizes::Fixed(size),
                SizesTable::Uniform(a, b) => Sizes::Uniform(a, b),
                SizesTable::Pareto(pareto) => Sizes::Pareto(pareto),
                SizesTable::Cdf(cdf) => Sizes::Cdf(cdf),
                SizesTable::File(file) => Sizes::File(file),
            },
        )?;
        // A file is checked when it is loaded.
        match sizes.distribution() {
            Err(error) if !matches!(error, SizesError::NotLoaded(_)) => {
                Err(serde::de::Error::custom(error))
            }
            _ => Ok(sizes),
        }
    }
}

impl Serialize for Sizes {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.clone() {
            Sizes::Fixed(size) => s.collect_str(&size),
            Sizes::Uniform(a, b) => SizesTable::Uniform(a, b).serialize(s),
            Sizes::Pareto(pareto) => SizesTable::Pareto(pareto).serialize(s),
            Sizes::Named(name) => s.serialize_str(name.name()),
            Sizes::Cdf(cdf) => SizesTable::Cdf(cdf).serialize(s),
            Sizes::File(file) => SizesTable::File(file).serialize(s),
            Sizes::Endless => s.serialize_str("endless"),
            Sizes::Listed => s.serialize_str("listed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_mean(distribution: &SizeDistribution, n: u32) -> f64 {
        let mut stream = Stream::named(3, "test", 0);
        let sum: f64 = (0..n).map(|_| distribution.draw(&mut stream).get() as f64).sum();
        sum / f64::from(n)
    }

    #[test]
    fn capped_pareto_has_the_mean_it_states() {
        let pareto = |cap: Option<u64>, shape| Pareto {
            mean: Bytes::new(100_000),
            shape,
            cap: cap.map(Bytes::new),
        };
        for distribution in [
            pareto(Some(10_000_000), 1.1).distribution(),
            pareto(None, 3.0).distribution(),
            pareto(Some(101_000), 1.5).distribution(),
        ] {
            let distribution = distribution.unwrap();
            assert!((distribution.mean().unwrap() / 1e5 - 1.0).abs() < 1e-9);
            let got = sample_mean(&distribution, 400_000);
            assert!((got / 1e5 - 1.0).abs() < 0.02, "{got}");
        }
    }

    #[test]
    fn heavy_pareto_without_cap_has_the_mean_it_states() {
        for (mean, shape) in [(100_000, 1.1), (100_000, 1.01), (1, 1.1), (1 << 50, 1.1)] {
            let pareto = Pareto { mean: Bytes::new(mean), shape, cap: None };
            let stated = pareto.distribution().unwrap().mean().unwrap();
            assert!((stated / mean as f64 - 1.0).abs() < 1e-9, "{pareto:?}: {stated}");
        }
    }

    #[test]
    fn uniform_covers_both_ends() {
        let distribution = Sizes::Uniform(Bytes::new(2), Bytes::new(4)).distribution().unwrap();
        let mut stream = Stream::named(1, "test", 0);
        let mut seen = [0; 5];
        for _ in 0..3_000 {
            seen[distribution.draw(&mut stream).get() as usize] += 1;
        }
        assert!(seen[2..].iter().all(|n| *n > 850), "{seen:?}");
        assert_eq!(distribution.mean(), Some(3.0));
    }

    #[test]
    fn bad_numbers_are_refused() {
        let sizes = |a, b| Sizes::Uniform(Bytes::new(a), Bytes::new(b)).distribution();
        assert!(matches!(sizes(0, 5), Err(SizesError::Zero)));
        assert!(matches!(sizes(6, 5), Err(SizesError::Reversed(..))));
        let pareto = |shape, cap| {
            Pareto { mean: Bytes::new(10), shape, cap: Some(Bytes::new(cap)) }.distribution()
        };
        assert!(matches!(pareto(1.0, 20), Err(SizesError::Shape(_))));
        assert!(matches!(pareto(f64::NAN, 20), Err(SizesError::Shape(_))));
        assert!(matches!(pareto(1.1, 10), Err(SizesError::Cap { .. })));
    }
}
