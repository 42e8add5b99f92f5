//! Scenario values that are either a string or a table.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// Deserializes a string with `word`, or a table as a `T` that `table` converts.
pub(crate) fn word_or_table<'de, D, T, V>(
    d: D,
    expecting: &'static str,
    word: impl FnOnce(&str) -> Result<V, String>,
    table: impl FnOnce(T) -> V,
) -> Result<V, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct WordOrTable<W, F, T> {
        expecting: &'static str,
        word: W,
        table: F,
        marker: PhantomData<T>,
    }

    impl<'de, W, F, T, V> Visitor<'de> for WordOrTable<W, F, T>
    where
        W: FnOnce(&str) -> Result<V, String>,
        F: FnOnce(T) -> V,
        T: Deserialize<'de>,
    {
        type Value = V;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.expecting)
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<V, E> {
            (self.word)(text).map_err(E::custom)
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(self.table)
        }
    }

    d.deserialize_any(WordOrTable { expecting, word, table, marker: PhantomData })
}
