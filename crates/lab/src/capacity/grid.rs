//! The values of a varied key: multiples of a step, in the key's unit in the scenario.
//!
//! Arithmetic is decimal, so that values have no binary fractions.

use crate::document::{Kind, Node};

/// A decimal number: `digits` / 10^`scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: u128,
    scale: u32,
}

impl Decimal {
    fn parse(text: &str) -> Option<Decimal> {
        let text = text.replace('_', "");
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        if whole.is_empty() || fraction.len() > 12 {
            return None;
        }
        let all = format!("{whole}{fraction}");
        let plain = all.len() <= 18 && all.bytes().all(|b| b.is_ascii_digit());
        let digits = plain.then(|| all.parse().ok()).flatten()?;
        Some(Decimal { digits, scale: fraction.len() as u32 })
    }

    /// The digits of both numbers at the greater of their scales.
    fn aligned(self, other: Decimal) -> (u128, u128) {
        let scale = self.scale.max(other.scale);
        let at = |d: Decimal| d.digits * 10u128.pow(scale - d.scale);
        (at(self), at(other))
    }
}

/// A positive fraction in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ratio {
    over: u128,
    under: u128,
}

impl Ratio {
    /// None if a part is zero, or if it overflowed.
    fn new(over: Option<u128>, under: Option<u128>) -> Option<Ratio> {
        let (over, under) = (over.filter(|n| *n > 0)?, under.filter(|n| *n > 0)?);
        let (mut a, mut b) = (over, under);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Some(Ratio { over: over / a, under: under / a })
    }

    /// The product with a decimal number.
    fn times(self, number: Decimal) -> Option<Ratio> {
        let under = 10u128.pow(number.scale).checked_mul(self.under);
        Ratio::new(number.digits.checked_mul(self.over), under)
    }
}

/// Decimals of a value that is scaled with another.
const SCALED_DECIMALS: u32 = 6;

/// The possible values of a key: points 1, 2, … are multiples of the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grid {
    /// The value in the scenario.
    base: Decimal,
    step: Decimal,
    /// Empty for plain numbers.
    unit: String,
    /// Whether the scenario has the value in quotes.
    is_quoted: bool,
}

/// Units that allow no decimals.
const WHOLE_UNITS: [&str; 5] = ["B", "bps", "ps", "packets", "packet"];

impl Grid {
    /// The grid of a key with this value; none if the value is not a number.
    pub(super) fn of(node: &Node) -> Option<Grid> {
        let text = match &node.kind {
            Kind::Integer(_) | Kind::Float(_) | Kind::Text(_) => node.to_string(),
            _ => return None,
        };
        let (base, unit) = split(&text)?;
        let is_quoted = matches!(node.kind, Kind::Text(_));
        if is_quoted && unit.is_empty() || !unit.chars().all(|c| c.is_alphabetic() || c == '%') {
            return None;
        }
        let mut step = Decimal { digits: 1, scale: 0 };
        if !matches!(node.kind, Kind::Integer(_)) && base.digits > 0 {
            // A tenth of the greatest power of ten that is not above the value.
            let exponent = base.digits.ilog10() as i32 - base.scale as i32 - 1;
            step = match exponent {
                0.. => Decimal { digits: 10u128.pow(exponent as u32), scale: 0 },
                _ if WHOLE_UNITS.contains(&unit) => step,
                _ => Decimal { digits: 1, scale: exponent.unsigned_abs() },
            };
        }
        Some(Grid { base, step, unit: unit.to_owned(), is_quoted })
    }

    /// Parses a bound or a step: a number, with the key's unit or without a unit.
    fn read(&self, text: &str) -> Result<Decimal, String> {
        let example = || format!("write a number such as {}{}", self.value_text(1), self.unit);
        let (number, unit) = split(text.trim())
            .ok_or_else(|| format!("`{text}` is not a number of 0 or more; {}", example()))?;
        if unit.is_empty() || unit == self.unit {
            return Ok(number);
        }
        Err(match &*self.unit {
            "" => format!("`{text}`: the key has no unit; {}", example()),
            own => format!("`{text}`: the key is in {own} in the scenario; {}", example()),
        })
    }

    /// The unit; empty for plain numbers.
    pub(super) fn unit(&self) -> &str {
        &self.unit
    }

    /// The ratio of this key's value to that of another; none if either is zero.
    pub(super) fn ratio_to(&self, other: &Grid) -> Option<Ratio> {
        let (own, other) = self.base.aligned(other.base);
        Ratio::new(Some(own), Some(other))
    }

    /// Widens the step to its smallest multiple at which a key with this ratio is a whole number.
    pub(super) fn widen_step(&mut self, ratio: Ratio) {
        if let Some(own) = ratio.times(self.step) {
            self.step.digits = self.step.digits.saturating_mul(own.under);
        }
    }

    /// Whether a key with this ratio is a whole number at each point.
    pub(super) fn is_whole_step(&self, ratio: Ratio) -> bool {
        ratio.times(self.step).is_some_and(|own| own.under == 1)
    }

    /// This key's value when `quantity` is at `point`: the quantity's value times `ratio`, rounded.
    pub(super) fn scaled(&self, quantity: &Grid, point: u64, ratio: Ratio) -> Kind {
        let step = quantity.step;
        let at = Decimal { digits: step.digits.saturating_mul(point.into()), scale: step.scale };
        let whole = WHOLE_UNITS.contains(&&*self.unit);
        let scale = if whole { 0 } else { SCALED_DECIMALS };
        let digits = ratio.times(at).and_then(|value| {
            let over = value.over.checked_mul(10u128.pow(scale))?;
            Some(over.checked_add(value.under / 2)? / value.under)
        });
        // A value that overflows is above every limit of a scenario.
        let one =
            Grid { step: Decimal { digits: digits.unwrap_or(u128::MAX), scale }, ..self.clone() };
        one.value(1)
    }

    /// Sets the step.
    pub(super) fn set_step(&mut self, text: &str) -> Result<(), String> {
        let step = self.read(text)?;
        if step.digits == 0 {
            return Err("the step must be above 0".into());
        }
        self.step = step;
        Ok(())
    }

    /// The last point that is not above a bound.
    pub(super) fn last_within(&self, text: &str) -> Result<u64, String> {
        let (bound, step) = self.read(text)?.aligned(self.step);
        u64::try_from(bound / step).map_err(|_| format!("`{text}` is too large"))
    }

    /// The first point that is not below a bound.
    pub(super) fn first_from(&self, text: &str) -> Result<u64, String> {
        let (bound, step) = self.read(text)?.aligned(self.step);
        u64::try_from(bound.div_ceil(step)).map_err(|_| format!("`{text}` is too large"))
    }

    /// The point nearest to the key's value in the scenario, at least 1.
    pub(super) fn nearest(&self) -> u64 {
        let (base, step) = self.base.aligned(self.step);
        u64::try_from((base + step / 2) / step).unwrap_or(u64::MAX).max(1)
    }

    fn value_text(&self, point: u64) -> String {
        let digits = self.step.digits.saturating_mul(point.into());
        let scale = 10u128.pow(self.step.scale);
        let (whole, rest) = (digits / scale, digits % scale);
        if rest == 0 {
            return whole.to_string();
        }
        let fraction = format!("{rest:0width$}", width = self.step.scale as usize);
        format!("{whole}.{}", fraction.trim_end_matches('0'))
    }

    /// The value at a point with its unit.
    pub(super) fn text(&self, point: u64) -> String {
        format!("{}{}", self.value_text(point), self.unit)
    }

    /// The step with its unit.
    pub(super) fn step_text(&self) -> String {
        self.text(1)
    }

    /// The value at a point as a value of the scenario.
    pub(super) fn value(&self, point: u64) -> Kind {
        if self.is_quoted {
            return Kind::Text(self.text(point));
        }
        let text = self.value_text(point);
        match text.parse::<i64>() {
            Ok(whole) => Kind::Integer(whole),
            Err(_) => Kind::Float(text.parse().unwrap_or(f64::MAX)),
        }
    }
}

/// A number and its unit.
fn split(text: &str) -> Option<(Decimal, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    Some((Decimal::parse(number)?, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(kind: Kind) -> Option<Grid> {
        Grid::of(&Node { span: 0..0, kind })
    }

    fn text(text: &str) -> Kind {
        Kind::Text(text.to_owned())
    }

    #[test]
    fn values_keep_their_unit_and_are_decimal() {
        for (kind, step, at_three, nearest) in [
            (Kind::Integer(20), "1", "3", 20),
            (Kind::Float(0.5), "0.01", "0.03", 50),
            (Kind::Float(1.25), "0.1", "0.3", 13),
            (text("20ms"), "1ms", "3ms", 20),
            (text("1.5MB"), "0.1MB", "0.3MB", 15),
            (text("100 packets"), "10packets", "30packets", 10),
            (text("8B"), "1B", "3B", 8),
            (text("250us"), "10us", "30us", 25),
            (Kind::Float(0.0), "1", "3", 1),
        ] {
            let grid = grid(kind.clone()).unwrap();
            assert_eq!(grid.step_text(), step, "{kind:?}");
            assert_eq!((&*grid.text(3), grid.nearest()), (at_three, nearest), "{kind:?}");
        }
        assert_eq!(grid(Kind::Float(0.5)).unwrap().value(30), Kind::Float(0.3));
        assert_eq!(grid(Kind::Float(0.5)).unwrap().value(100), Kind::Integer(1));
        assert_eq!(grid(text("20ms")).unwrap().value(7), text("7ms"));
    }

    #[test]
    fn what_is_no_number_has_no_grid() {
        for kind in [text("incast"), text("12"), text("5 of 6"), Kind::Boolean(true)] {
            assert_eq!(grid(kind.clone()), None, "{kind:?}");
        }
        assert_eq!(grid(Kind::Integer(-3)), None);
    }

    #[test]
    fn bounds_are_rounded_inwards() {
        let mut grid = grid(text("20ms")).unwrap();
        grid.set_step("0.5").unwrap();
        assert_eq!(grid.last_within("3.7ms").unwrap(), 7);
        assert_eq!(grid.first_from("3.7").unwrap(), 8);
        assert!(grid.last_within("3us").unwrap_err().contains("in ms"));
        assert!(grid.last_within("-3ms").unwrap_err().contains("not a number"));
        assert!(grid.set_step("0ms").is_err());
        assert!(grid.set_step("99999999999999999999999999").is_err());
    }
}
