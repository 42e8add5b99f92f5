//! Configurations that are checked when they are read.

/// Makes types with `#[serde(remote = "Self")]` and a `validate` refuse, when read, what `validate`
/// refuses. Serde's derive then only gives functions of their own, which these impls call.
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
