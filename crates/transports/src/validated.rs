//! Validation of transports' parameters, also when they are read from a file.

use core::fmt::Display;

/// A parameter outside its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} = {value}: must be {expected}")]
pub struct ConfigError {
    /// Key of the parameter.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// The range of valid values.
    pub expected: &'static str,
}

/// An error unless the parameter is valid.
pub(crate) fn check(
    is_valid: bool,
    name: &'static str,
    value: &dyn Display,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if is_valid { Ok(()) } else { Err(ConfigError { name, value: value.to_string(), expected }) }
}

/// Implements serde's traits for types with `#[serde(remote = "Self")]` so that reading one calls
/// its `validate`. With `remote`, serde's derive only gives inherent functions, which these
/// implementations call.
macro_rules! validated_when_read {
    ($($Type:ident),*) => {$(
        impl serde::Serialize for $Type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $Type::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $Type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let config = $Type::deserialize(deserializer)?;
                config.validate().map_err(serde::de::Error::custom)?;
                Ok(config)
            }
        }
    )*};
}

pub(crate) use validated_when_read;
