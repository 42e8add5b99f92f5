//! Decodes the tree into typed values, with errors that point at the wrong key.

use super::node::{Entry, Kind, Node, Table};
use crate::diagnostic::Diagnostic;
use crate::suggest;
use serde::de::{self, DeserializeOwned, IntoDeserializer, Visitor};
use std::fmt;
use std::ops::Range;

/// Decodes a node.
pub(crate) fn decode<T: DeserializeOwned>(node: &Node) -> Result<T, Diagnostic> {
    let error = match T::deserialize(node) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let span = match error.span.clone() {
        // Serde buffers enums with a tag, which loses the span.
        None => blame::<T>(node, &error.message),
        Some(span) if span == node.span && node.table().is_some() => {
            blame::<T>(node, &error.message).or(Some(span))
        }
        span => span,
    };
    Err(explain(&error.message, span.unwrap_or_else(|| node.span.clone())))
}

/// Finds the entry that causes the error: without it, the error is a different one.
fn blame<T: DeserializeOwned>(node: &Node, message: &str) -> Option<Range<usize>> {
    let table = node.table()?;
    if let Some(key) = quoted_after(message, "unknown field ") {
        return find_key(table, key).map(|e| e.key_span.clone());
    }
    if message.starts_with("missing field") {
        return None;
    }
    let error_of = |table: Table| {
        let node = Node { span: node.span.clone(), kind: Kind::Table(table) };
        T::deserialize(&node).err().map(|e| e.message)
    };
    // Removing the tag of an enum always changes the error, so the tag is blamed last.
    let tag_missing = error_of(Table::default());
    let mut tag = None;
    for entry in &table.entries {
        let mut without = table.clone();
        without.remove(&entry.key);
        let error = error_of(without);
        if error.is_some() && error == tag_missing {
            tag = Some(entry.value.span.clone());
        } else if error.as_deref() != Some(message) {
            return Some(entry.value.span.clone());
        }
    }
    tag
}

fn find_key<'a>(table: &'a Table, key: &str) -> Option<&'a Entry> {
    table.entry(key).or_else(|| {
        table.entries.iter().find_map(|e| e.value.table().and_then(|t| find_key(t, key)))
    })
}

/// Translates a message of serde into the user's words.
fn explain(message: &str, span: Range<usize>) -> Diagnostic {
    let names = |from: &str| -> Vec<String> {
        let list = message.split_once(from).map_or("", |(_, list)| list);
        list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    for (start, what) in [("unknown field ", "key"), ("unknown variant ", "value")] {
        if let Some(wrong) = quoted_after(message, start) {
            let valid = names("expected");
            return unknown(what, wrong, valid.iter().map(String::as_str)).at(span);
        }
    }
    if let Some(key) = quoted_after(message, "missing field ") {
        return Diagnostic::new(format!("`{key}` is missing here")).at(span);
    }
    let plain = message.strip_prefix("invalid type: ").or(message.strip_prefix("invalid value: "));
    match plain.and_then(|m| m.rsplit_once(", expected ")) {
        Some((found, expected)) => {
            let expected = match expected {
                "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not negative",
                "i32" | "i64" => "a whole number",
                "f64" => "a number",
                "a sequence" => "a list",
                "a map" => "a table",
                "a string" => "a text in quotes",
                other if other.starts_with("struct ") => "a table",
                other => other,
            };
            let label = format!("expected {expected}");
            Diagnostic::new(format!("{label}, found {found}")).at(span).label(label)
        }
        None => Diagnostic::new(message).at(span),
    }
}

/// The message for an unknown name, with the nearest valid one.
pub(crate) fn unknown<'a>(
    what: &str,
    wrong: &str,
    valid: impl IntoIterator<Item = &'a str> + Clone,
) -> Diagnostic {
    let mut diagnostic = Diagnostic::new(format!("unknown {what} `{wrong}`"));
    if let Some(near) = suggest::nearest(wrong, valid.clone()) {
        diagnostic = diagnostic.label(format!("did you mean `{near}`?"));
    }
    diagnostic.help(format!("known here: {}", suggest::list(valid)))
}

fn quoted_after<'a>(message: &'a str, start: &str) -> Option<&'a str> {
    message.strip_prefix(start)?.strip_prefix('`')?.split('`').next()
}

/// An error of serde and where it occurred, if known.
#[derive(Debug)]
pub(crate) struct DecodeError {
    message: String,
    span: Option<Range<usize>>,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for DecodeError {}
impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        DecodeError { message: message.to_string(), span: None }
    }
}

impl DecodeError {
    fn within(mut self, span: &Range<usize>) -> Self {
        self.span.get_or_insert_with(|| span.clone());
        self
    }
}

impl<'de> de::Deserializer<'de> for &'de Node {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.kind {
            Kind::Text(text) => visitor.visit_borrowed_str(text),
            Kind::Integer(i) => visitor.visit_i64(*i),
            Kind::Float(x) => visitor.visit_f64(*x),
            Kind::Boolean(b) => visitor.visit_bool(*b),
            Kind::List(items) => visitor.visit_seq(de::value::SeqDeserializer::new(items.iter())),
            Kind::Table(table) => {
                visitor.visit_map(Entries { entries: table.entries.iter(), value: None })
            }
        }
        .map_err(|e| e.within(&self.span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let result = match &self.kind {
            Kind::Text(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            Kind::Table(table) => {
                let entries = Entries { entries: table.entries.iter(), value: None };
                visitor.visit_enum(de::value::MapAccessDeserializer::new(entries))
            }
            _ => {
                let _ = (name, variants);
                return self.deserialize_any(visitor);
            }
        };
        result.map_err(|e: DecodeError| e.within(&self.span))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, DecodeError> for &'de Node {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

struct Entries<'de> {
    entries: std::slice::Iter<'de, Entry>,
    value: Option<&'de Node>,
}

impl<'de> de::MapAccess<'de> for Entries<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: de::DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, DecodeError> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        self.value = Some(&entry.value);
        let key = de::value::BorrowedStrDeserializer::new(&entry.key);
        seed.deserialize(key).map(Some).map_err(|e: DecodeError| e.within(&entry.key_span))
    }

    fn next_value_seed<S: de::DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, DecodeError> {
        let value = self.value.take().expect("a key comes before its value");
        seed.deserialize(value).map_err(|e| e.within(&value.span))
    }
}

/// The keys of a struct, as its `Deserialize` names them; empty for other types.
pub(crate) fn fields_of<T: DeserializeOwned>() -> &'static [&'static str] {
    struct Probe<'a>(&'a mut &'static [&'static str]);

    impl<'de> de::Deserializer<'de> for Probe<'_> {
        type Error = de::value::Error;
        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(de::Error::custom("only structs are looked into"))
        }
        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            *self.0 = fields;
            self.deserialize_any(visitor)
        }
        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
            option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
            ignored_any
        }
    }

    let mut fields: &'static [&'static str] = &[];
    let _ = T::deserialize(Probe(&mut fields));
    fields
}
