//! The tree of values.

use crate::diagnostic::Diagnostic;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) kind: Kind,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    List(Vec<Node>),
    Table(Table),
}

/// Keys and values in the order of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) value: Node,
}

impl Table {
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.key == key)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|e| &e.value)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.entries.iter_mut().find(|e| e.key == key).map(|e| &mut e.value)
    }

    /// Replaces the value of a key, or adds the key at the end.
    pub(crate) fn put(&mut self, entry: Entry) {
        match self.entries.iter_mut().find(|e| e.key == entry.key) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Entry> {
        let at = self.entries.iter().position(|e| e.key == key)?;
        Some(self.entries.remove(at))
    }
}

impl Node {
    pub(crate) fn table(&self) -> Option<&Table> {
        match &self.kind {
            Kind::Table(table) => Some(table),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> Option<&[Node]> {
        match &self.kind {
            Kind::List(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value as TOML on one line, which [`parse_value`] reads back.
    pub(crate) fn toml(&self) -> String {
        // A JSON string is a TOML string too.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match &self.kind {
            Kind::Text(text) => quoted(text),
            Kind::Integer(i) => i.to_string(),
            Kind::Float(x) => format!("{x:?}"),
            Kind::Boolean(b) => b.to_string(),
            Kind::List(items) => {
                let items: Vec<String> = items.iter().map(Node::toml).collect();
                format!("[{}]", items.join(", "))
            }
            Kind::Table(table) => {
                let entry = |e: &Entry| format!("{} = {}", quoted(&e.key), e.value.toml());
                let entries: Vec<String> = table.entries.iter().map(entry).collect();
                format!("{{{}}}", entries.join(", "))
            }
        }
    }
}

/// The value as a user writes it, for labels of sweep points.
impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            Kind::Text(text) => f.write_str(text),
            Kind::Integer(i) => write!(f, "{i}"),
            Kind::Float(x) => write!(f, "{x}"),
            Kind::Boolean(b) => write!(f, "{b}"),
            Kind::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Kind::Table(table) => {
                f.write_str("{")?;
                for (i, e) in table.entries.iter().enumerate() {
                    write!(f, "{}{}={}", if i > 0 { "," } else { "" }, e.key, e.value)?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Reads a document. Spans count from `start`.
pub(crate) fn parse(text: &str, start: usize) -> Result<Table, Diagnostic> {
    let table = DeTable::parse(text).map_err(|e| syntax_error(&e, start))?;
    table_from(table.get_ref(), start)
}

/// Reads a single value. Spans count from `start`.
pub(crate) fn parse_value(text: &str, start: usize) -> Result<Node, Diagnostic> {
    let value = DeValue::parse(text).map_err(|e| syntax_error(&e, start))?;
    node_from(&value, start)
}

fn table_from(table: &DeTable<'_>, start: usize) -> Result<Table, Diagnostic> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        entries.push(Entry {
            key: key.get_ref().clone().into_owned(),
            key_span: shift(key.span(), start),
            value: node_from(value, start)?,
        });
    }
    entries.sort_by_key(|e| e.key_span.start);
    Ok(Table { entries })
}

fn node_from(value: &Spanned<DeValue<'_>>, start: usize) -> Result<Node, Diagnostic> {
    let span = shift(value.span(), start);
    let fail = |message: &str| Diagnostic::new(message).at(span.clone());
    let kind = match value.get_ref() {
        DeValue::String(s) => Kind::Text(s.clone().into_owned()),
        DeValue::Boolean(b) => Kind::Boolean(*b),
        DeValue::Integer(i) => Kind::Integer(
            i64::from_str_radix(i.as_str(), i.radix())
                .map_err(|_| fail("this number is too large"))?,
        ),
        DeValue::Float(x) => {
            let x: f64 = x.as_str().parse().map_err(|_| fail("not a number"))?;
            if !x.is_finite() {
                return Err(fail("only finite numbers mean something here"));
            }
            Kind::Float(x)
        }
        DeValue::Datetime(_) => return Err(fail("a date means nothing in a scenario")),
        DeValue::Array(items) => {
            let items: Result<_, _> = items.iter().map(|v| node_from(v, start)).collect();
            Kind::List(items?)
        }
        DeValue::Table(table) => Kind::Table(table_from(table, start)?),
    };
    Ok(Node { span, kind })
}

fn shift(span: Range<usize>, by: usize) -> Range<usize> {
    span.start + by..span.end + by
}

fn syntax_error(e: &toml::de::Error, start: usize) -> Diagnostic {
    let mut diagnostic = Diagnostic::new(e.message().trim()).at(e.span().map(|s| shift(s, start)));
    if diagnostic.message.starts_with("string values must be quoted") {
        diagnostic.message = "this value needs quotes".into();
        diagnostic = diagnostic.help("names and values with a unit go in quotes, such as \"10us\"");
    }
    diagnostic
}
