//! Reading and writing values with units, without a detour through floating point.

/// Why a text is not a value with a unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// No digits where the number should be.
    #[error("`{0}` is not a number with a unit; write for example `{1}`")]
    NotANumber(String, &'static str),
    /// A number below zero.
    #[error("`{0}` is negative; {1} cannot be negative")]
    Negative(String, &'static str),
    /// A bare number.
    #[error("`{0}` has no unit; add one of {1}")]
    MissingUnit(String, &'static str),
    /// A unit of another kind, or none that is known.
    #[error("`{0}`: unknown unit `{1}`; use one of {2}")]
    UnknownUnit(String, String, &'static str),
    /// A fraction of the base unit.
    #[error("`{0}` is not a whole number of {1}")]
    Fraction(String, &'static str),
    /// A number that does not fit.
    #[error("`{0}` is too large")]
    TooLarge(String),
}

pub(super) struct Kind {
    pub(super) what: &'static str,
    pub(super) base: &'static str,
    pub(super) example: &'static str,
    pub(super) unit_names: &'static str,
    /// Name and number of base units.
    pub(super) units: &'static [(&'static str, u64)],
}

/// Parses `12.5us` into base units, exactly.
pub(super) fn parse(text: &str, kind: &Kind) -> Result<u64, UnitError> {
    let s = text.trim();
    if s.starts_with('-') {
        return Err(UnitError::Negative(text.into(), kind.what));
    }
    let end = s.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(s.len());
    let (number, unit) = (&s[..end], s[end..].trim());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: String = whole.chars().chain(fraction.chars()).filter(|c| *c != '_').collect();
    let decimals = fraction.chars().filter(|c| *c != '_').count() as u32;
    if digits.is_empty() || fraction.contains('.') {
        return Err(UnitError::NotANumber(text.into(), kind.example));
    }
    let too_large = || UnitError::TooLarge(text.into());
    let mantissa: u128 = digits.parse().map_err(|_| too_large())?;
    if unit.is_empty() {
        return Err(UnitError::MissingUnit(text.into(), kind.unit_names));
    }
    let &(_, scale) = kind
        .units
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| UnitError::UnknownUnit(text.into(), unit.into(), kind.unit_names))?;
    let scaled = mantissa.checked_mul(u128::from(scale)).ok_or_else(too_large)?;
    let divisor = 10u128.checked_pow(decimals).ok_or_else(too_large)?;
    if scaled % divisor != 0 {
        return Err(UnitError::Fraction(text.into(), kind.base));
    }
    u64::try_from(scaled / divisor).map_err(|_| too_large())
}

/// Writes base units in the largest unit (of `units`, largest first) that gives at least one,
/// exactly and without trailing zeros.
pub(super) fn format(
    value: u64,
    units: &[(&str, u64)],
    f: &mut core::fmt::Formatter<'_>,
) -> core::fmt::Result {
    let &(name, scale) =
        units.iter().find(|(_, scale)| value >= *scale).unwrap_or(&units[units.len() - 1]);
    let (whole, rest) = (value / scale, value % scale);
    let text = if rest == 0 {
        format!("{whole}{name}")
    } else {
        let width = scale.ilog10() as usize;
        let fraction = format!("{rest:0width$}");
        format!("{whole}.{}{name}", fraction.trim_end_matches('0'))
    };
    f.pad(&text)
}

/// `FromStr`, `Display`, `Serialize` and `Deserialize` by text with a unit.
macro_rules! text_with_unit {
    ($type:ident, $kind:expr, $shown:expr) => {
        impl core::str::FromStr for $type {
            type Err = crate::units::UnitError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                crate::units::parse::parse(text, &$kind).map($type)
            }
        }

        impl core::fmt::Display for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                crate::units::parse::format(self.0, $shown, f)
            }
        }

        impl core::fmt::Debug for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $type;
                    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                        write!(
                            f,
                            "{} in quotes with a unit, such as \"{}\"",
                            $kind.what, $kind.example
                        )
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<$type, E> {
                        Err(E::custom(format_args!(
                            "{v} has no unit; write {} in quotes with one of {}, such as \"{}\"",
                            $kind.what, $kind.unit_names, $kind.example
                        )))
                    }
                    fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<$type, E> {
                        Err(E::custom(format_args!(
                            "{v} has no unit; write {} in quotes with one of {}, such as \"{}\"",
                            $kind.what, $kind.unit_names, $kind.example
                        )))
                    }
                    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<$type, E> {
                        Err(E::custom(format_args!(
                            "{v} has no unit; write {} in quotes with one of {}, such as \"{}\"",
                            $kind.what, $kind.unit_names, $kind.example
                        )))
                    }
                }
                d.deserialize_any(Visitor)
            }
        }
    };
}
pub(super) use text_with_unit;
