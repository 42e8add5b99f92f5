//! How large flows are.

use crate::cdf::{BuiltIn, Cdf};
use crate::text;
use punctual_core::Bytes;
use punctual_core::rng::Stream;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How large flows are. In scenarios: `"64KB"`, `"web-search"` or another
/// [built-in](BuiltIn) name, `"endless"`, `{ fixed = "64KB" }`, `{ uniform = ["2KB", "50KB"] }`,
/// `{ pareto = { mean = "100KB", shape = 1.1, cap = "10MB" } }`,
/// `{ cdf = [["1KB", 0.5], ["10KB", 1]] }` or `{ file = "sizes.txt" }`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Sizes {
    /// All the same.
    Fixed(Bytes),
    /// Any whole number of bytes from the first to the second, both included.
    Uniform(Bytes, Bytes),
    /// Heavy-tailed.
    Pareto(Pareto),
    /// A distribution with a name.
    Named(BuiltIn),
    /// A distribution by its points.
    Cdf(Cdf),
    /// A distribution in a file that is not read yet; see
    /// [`TrafficSpec::load_files`](crate::TrafficSpec::load_files).
    File(String),
    /// Flows that never end.
    Endless,
    /// Each flow's own, in a list of flows.
    Listed,
}

/// A Pareto distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pareto {
    /// The mean of what is drawn, the cap included.
    pub mean: Bytes,
    /// The tail index; above 1, and the closer to 1 the heavier the tail.
    pub shape: f64,
    /// Larger draws become this large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Bytes>,
}

/// Why sizes cannot be drawn.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SizesError {
    /// A size of zero.
    #[error("sizes: a flow carries at least one byte; give a size above zero")]
    Zero,
    /// The ends of the range are the wrong way round.
    #[error("sizes: uniform from {0} to {1}: the first must not be larger; swap them")]
    Reversed(Bytes, Bytes),
    /// A Pareto distribution without a mean.
    #[error("sizes: pareto shape = {0}: must be above 1, else there is no mean")]
    Shape(f64),
    /// A cap that the mean cannot be below.
    #[error("sizes: pareto cap = {cap} must be larger than mean = {mean}")]
    Cap {
        /// The cap.
        cap: Bytes,
        /// The mean.
        mean: Bytes,
    },
    /// A file that nobody read.
    #[error("sizes: file `{0}` was not loaded; load the files of the traffic before building it")]
    NotLoaded(String),
    /// `Sizes::Listed` without a list.
    #[error("sizes are missing; give for example sizes = \"64KB\" or sizes = \"web-search\"")]
    Missing,
}

impl Sizes {
    /// The exact mean, in bytes; none for endless flows, lists, and files not loaded.
    pub fn mean(&self) -> Option<f64> {
        self.law().ok().and_then(|law| law.mean())
    }

    /// Checks the numbers and prepares for drawing.
    pub(crate) fn law(&self) -> Result<SizeLaw, SizesError> {
        match *self {
            Sizes::Fixed(Bytes::ZERO) | Sizes::Uniform(Bytes::ZERO, _) => Err(SizesError::Zero),
            Sizes::Fixed(size) => Ok(SizeLaw::Fixed(size)),
            Sizes::Uniform(a, b) if a > b => Err(SizesError::Reversed(a, b)),
            Sizes::Uniform(a, b) => Ok(SizeLaw::Uniform(a.get(), b.get())),
            Sizes::Pareto(pareto) => pareto.law(),
            Sizes::Named(name) => Ok(SizeLaw::Cdf(name.cdf())),
            Sizes::Cdf(ref cdf) => Ok(SizeLaw::Cdf(cdf.clone())),
            Sizes::File(ref file) => Err(SizesError::NotLoaded(file.clone())),
            Sizes::Endless => Ok(SizeLaw::Fixed(Bytes::ENDLESS)),
            Sizes::Listed => Err(SizesError::Missing),
        }
    }
}

impl Pareto {
    fn law(self) -> Result<SizeLaw, SizesError> {
        let Pareto { mean, shape, cap } = self;
        if mean == Bytes::ZERO {
            return Err(SizesError::Zero);
        }
        if !(shape > 1.0 && shape.is_finite()) {
            return Err(SizesError::Shape(shape));
        }
        let target = mean.get() as f64;
        let (mut low, mut high) = (0.0, target);
        let Some(cap) = cap else {
            return Ok(SizeLaw::Pareto {
                least: target * (shape - 1.0) / shape,
                shape,
                cap: u64::MAX as f64 / 2.0,
            });
        };
        if cap <= mean {
            return Err(SizesError::Cap { cap, mean });
        }
        // The capped mean grows with the least size: halve the interval until it is found.
        let cap = cap.get() as f64;
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if capped_mean(middle, shape, cap) < target {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(SizeLaw::Pareto { least: high, shape, cap })
    }
}

/// Mean of min(X, cap) for X Pareto from `least` on.
fn capped_mean(least: f64, shape: f64, cap: f64) -> f64 {
    least * (1.0 + (1.0 - libm::pow(least / cap, shape - 1.0)) / (shape - 1.0))
}

/// A distribution ready to draw from.
#[derive(Debug, Clone)]
pub(crate) enum SizeLaw {
    Fixed(Bytes),
    Uniform(u64, u64),
    Pareto { least: f64, shape: f64, cap: f64 },
    Cdf(Cdf),
}

impl SizeLaw {
    /// Draws a size: real ones rounded to the nearest byte, and at least one.
    pub(crate) fn draw(&self, stream: &mut Stream) -> Bytes {
        let real = match *self {
            SizeLaw::Fixed(size) => return size,
            SizeLaw::Uniform(a, b) => return Bytes::new(a + stream.below(b - a + 1)),
            SizeLaw::Pareto { least, shape, cap } => {
                let x = least / libm::pow(1.0 - stream.unit(), 1.0 / shape);
                if x < cap { x } else { cap }
            }
            SizeLaw::Cdf(ref cdf) => cdf.quantile(stream.unit()),
        };
        Bytes::new((libm::round(real) as u64).max(1))
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        match *self {
            SizeLaw::Fixed(Bytes::ENDLESS) => None,
            SizeLaw::Fixed(size) => Some(size.get() as f64),
            SizeLaw::Uniform(a, b) => Some((a as f64 + b as f64) / 2.0),
            SizeLaw::Pareto { least, shape, cap } => Some(capped_mean(least, shape, cap)),
            SizeLaw::Cdf(ref cdf) => Some(cdf.mean()),
        }
    }

    pub(crate) fn is_endless(&self) -> bool {
        matches!(self, SizeLaw::Fixed(Bytes::ENDLESS))
    }
}

/// The forms of [`Sizes`] that are tables in scenarios.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Table {
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
                Table::Fixed(size) => Sizes::Fixed(size),
                Table::Uniform(a, b) => Sizes::Uniform(a, b),
                Table::Pareto(pareto) => Sizes::Pareto(pareto),
                Table::Cdf(cdf) => Sizes::Cdf(cdf),
                Table::File(file) => Sizes::File(file),
            },
        )?;
        // Files and lists are checked when they are there.
        match sizes.law() {
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
            Sizes::Uniform(a, b) => Table::Uniform(a, b).serialize(s),
            Sizes::Pareto(pareto) => Table::Pareto(pareto).serialize(s),
            Sizes::Named(name) => s.serialize_str(name.name()),
            Sizes::Cdf(cdf) => Table::Cdf(cdf).serialize(s),
            Sizes::File(file) => Table::File(file).serialize(s),
            Sizes::Endless => s.serialize_str("endless"),
            Sizes::Listed => s.serialize_str("listed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_mean(law: &SizeLaw, n: u32) -> f64 {
        let mut stream = Stream::named(3, "test", 0);
        let sum: f64 = (0..n).map(|_| law.draw(&mut stream).get() as f64).sum();
        sum / f64::from(n)
    }

    #[test]
    fn capped_pareto_has_the_mean_it_states() {
        let pareto = |cap: Option<u64>, shape| Pareto {
            mean: Bytes::new(100_000),
            shape,
            cap: cap.map(Bytes::new),
        };
        for law in [
            pareto(Some(10_000_000), 1.1).law(),
            pareto(None, 3.0).law(),
            pareto(Some(101_000), 1.5).law(),
        ] {
            let law = law.unwrap();
            assert!((law.mean().unwrap() / 1e5 - 1.0).abs() < 1e-9);
            let got = sample_mean(&law, 400_000);
            assert!((got / 1e5 - 1.0).abs() < 0.02, "{got}");
        }
    }

    #[test]
    fn uniform_covers_both_ends() {
        let law = Sizes::Uniform(Bytes::new(2), Bytes::new(4)).law().unwrap();
        let mut stream = Stream::named(1, "test", 0);
        let mut seen = [0; 5];
        for _ in 0..3_000 {
            seen[law.draw(&mut stream).get() as usize] += 1;
        }
        assert!(seen[2..].iter().all(|n| *n > 850), "{seen:?}");
        assert_eq!(law.mean(), Some(3.0));
    }

    #[test]
    fn bad_numbers_are_refused() {
        let sizes = |a, b| Sizes::Uniform(Bytes::new(a), Bytes::new(b)).law();
        assert!(matches!(sizes(0, 5), Err(SizesError::Zero)));
        assert!(matches!(sizes(6, 5), Err(SizesError::Reversed(..))));
        let pareto =
            |shape, cap| Pareto { mean: Bytes::new(10), shape, cap: Some(Bytes::new(cap)) }.law();
        assert!(matches!(pareto(1.0, 20), Err(SizesError::Shape(_))));
        assert!(matches!(pareto(f64::NAN, 20), Err(SizesError::Shape(_))));
        assert!(matches!(pareto(1.1, 10), Err(SizesError::Cap { .. })));
    }
}
