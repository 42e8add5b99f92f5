//! Clock tolerances: how far clocks may be from their nominal rate.

use super::Rate;
use super::parse::{Kind, text_with_unit};
use crate::rng::Stream;

/// A relative deviation, in parts per billion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tolerance(u64);

const BILLION: u64 = 1_000_000_000;

const KIND: Kind = Kind {
    what: "a tolerance",
    base: "parts per billion",
    example: "100ppm",
    unit_names: "ppm, ppb",
    units: &[("ppm", 1_000), ("ppb", 1)],
};

text_with_unit!(Tolerance, KIND, &[("ppm", 1_000), ("ppb", 1)]);

impl Tolerance {
    /// Every clock is exact.
    pub const ZERO: Tolerance = Tolerance(0);

    /// From parts per million.
    pub const fn from_ppm(ppm: u64) -> Self {
        Tolerance(ppm * 1_000)
    }

    /// Whether every clock is exact.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// A rate drawn uniformly from those within this tolerance of `nominal`, rounded down to a bit
    /// per second and at least one.
    pub fn draw(self, nominal: Rate, stream: &mut Stream) -> Rate {
        let widest = self.0.min(BILLION);
        let share = BILLION - widest + stream.below(2 * widest + 1);
        let bps = u128::from(nominal.as_bps()) * u128::from(share) / u128::from(BILLION);
        Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_goes_both_ways() {
        for text in ["100ppm", "0.5ppm", "20ppb"] {
            let tolerance: Tolerance = text.parse().unwrap();
            assert_eq!(tolerance.to_string().parse::<Tolerance>().unwrap(), tolerance, "{text}");
        }
        assert_eq!("100ppm".parse(), Ok(Tolerance::from_ppm(100)));
        assert!("100".parse::<Tolerance>().is_err() && "1%".parse::<Tolerance>().is_err());
    }

    #[test]
    fn draws_cover_the_tolerance_and_do_not_exceed_it() {
        let nominal = Rate::from_gbps(1);
        let rates = |tolerance: Tolerance| {
            let draw = move |port| tolerance.draw(nominal, &mut Stream::named(1, "clock", port));
            let rates: Vec<u64> = (0..1_000).map(|port| draw(port).as_bps()).collect();
            (*rates.iter().min().unwrap(), *rates.iter().max().unwrap())
        };
        let (least, greatest) = rates(Tolerance::from_ppm(100));
        assert!((999_900_000..999_901_000).contains(&least), "{least}");
        assert!((1_000_099_000..=1_000_100_000).contains(&greatest), "{greatest}");
        assert_eq!(rates(Tolerance::ZERO), (1_000_000_000, 1_000_000_000));
    }
}
