//! Columns of tables, each declared once.
//!
//! A row type lists its columns in [`Table::COLUMNS`]: name, unit, meaning and the field that holds
//! the value. Type and nullability follow from the field's type. Parquet files, their reader, CSV
//! and the tables of `docs/results.md` are made from that list.

use punctual_core::{Bytes, Class, Duration, FlowId, HostId, Instant, PortId, Rate};
use std::fmt;
use std::sync::Arc;

/// Rows of one file.
pub(crate) trait Table: Default + 'static {
    /// The columns of the file, in order.
    const COLUMNS: &'static [Column<Self>];
}

/// A column of a table with rows of type `R`.
pub(crate) struct Column<R> {
    pub(crate) name: &'static str,
    /// The unit of its values, or "".
    pub(crate) unit: &'static str,
    /// What it is, in one sentence.
    pub(crate) about: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_nullable: bool,
    /// Reads the value of a row.
    pub(crate) get: fn(&R) -> Cell<'_>,
    /// Stores a value in a row, or says what is wrong with the value.
    pub(crate) set: fn(&mut R, Cell<'_>) -> Result<(), String>,
}

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    U8,
    U16,
    U32,
    U64,
    F64,
    Bool,
    Text,
}

/// One value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    Null,
    Int(u64),
    Float(f64),
    Bool(bool),
    Text(&'a str),
    /// A text that many rows hold; readers give this one.
    Shared(&'a Arc<str>),
}

/// As in CSV: null is empty.
impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Null => Ok(()),
            Cell::Int(value) => value.fmt(f),
            Cell::Float(value) => value.fmt(f),
            Cell::Bool(value) => value.fmt(f),
            Cell::Text(text) => text.fmt(f),
            Cell::Shared(text) => text.fmt(f),
        }
    }
}

/// A type that a column can hold.
pub(crate) trait Field: Sized {
    const KIND: Kind;
    const IS_NULLABLE: bool = false;

    /// The value as it is written.
    fn to_cell(&self) -> Cell<'_>;

    /// The value that was written so, or what is wrong with it.
    fn from_cell(cell: Cell<'_>) -> Result<Self, String>;
}

/// The type of a field's column, and whether it may be null. The closure only names the field.
pub(crate) const fn kind_of<R, V: Field>(_field: fn(&R) -> &V) -> (Kind, bool) {
    (V::KIND, V::IS_NULLABLE)
}

/// Declares a column: `column!(field, "name", "unit", "what it is")`.
///
/// A column whose value is not a field of its own gives its type and how to read and store it
/// instead: `column!(fn Kind get, set; "name", "unit", "what it is")`.
macro_rules! column {
    (fn $kind:ident $get:expr, $set:expr; $name:literal, $unit:literal, $about:expr) => {
        crate::columns::Column {
            name: $name,
            unit: $unit,
            about: $about,
            kind: crate::columns::Kind::$kind,
            is_nullable: false,
            get: $get,
            set: $set,
        }
    };
    ($($field:ident).+, $name:literal, $unit:literal, $about:expr) => {
        crate::columns::Column {
            name: $name,
            unit: $unit,
            about: $about,
            kind: crate::columns::kind_of(|row: &Self| &row.$($field).+).0,
            is_nullable: crate::columns::kind_of(|row: &Self| &row.$($field).+).1,
            get: |row| crate::columns::Field::to_cell(&row.$($field).+),
            set: |row, cell| {
                row.$($field).+ = crate::columns::Field::from_cell(cell)?;
                Ok(())
            },
        }
    };
}
pub(crate) use column;

/// What is wrong with a value of another type than the column's.
pub(crate) fn misplaced(cell: Cell<'_>, kind: Kind) -> String {
    match cell {
        Cell::Null => "has empty places".into(),
        other => format!("holds `{other}` where {kind:?} belongs"),
    }
}

/// Implements [`Field`] for types that are whole numbers in files.
macro_rules! whole_numbers {
    ($($type:ty: $kind:ident $number:ty, $get:expr, $make:expr;)*) => {$(
        impl Field for $type {
            const KIND: Kind = Kind::$kind;

            fn to_cell(&self) -> Cell<'_> {
                let get: fn(&$type) -> $number = $get;
                Cell::Int(u64::from(get(self)))
            }

            fn from_cell(cell: Cell<'_>) -> Result<Self, String> {
                let make: fn($number) -> $type = $make;
                match cell {
                    Cell::Int(value) => <$number>::try_from(value)
                        .map(make)
                        .map_err(|_| format!("holds {value}, which is too large")),
                    other => Err(misplaced(other, Self::KIND)),
                }
            }
        }
    )*};
}

whole_numbers! {
    u16: U16 u16, |value| *value, |value| value;
    u32: U32 u32, |value| *value, |value| value;
    u64: U64 u64, |value| *value, |value| value;
    Class: U8 u8, |class| class.0, Class;
    FlowId: U32 u32, |flow| flow.0, FlowId;
    HostId: U32 u32, |host| host.0, HostId;
    PortId: U32 u32, |port| port.0, PortId;
    Bytes: U64 u64, |bytes| bytes.get(), Bytes::new;
    Duration: U64 u64, |time| time.as_picos(), Duration::from_picos;
    Instant: U64 u64, |at| at.as_picos(), Instant::from_picos;
    Rate: U64 u64, |rate| rate.as_bps(), Rate::from_bps;
}

impl Field for f64 {
    const KIND: Kind = Kind::F64;

    fn to_cell(&self) -> Cell<'_> {
        Cell::Float(*self)
    }

    fn from_cell(cell: Cell<'_>) -> Result<f64, String> {
        match cell {
            Cell::Float(value) => Ok(value),
            other => Err(misplaced(other, Kind::F64)),
        }
    }
}

impl Field for bool {
    const KIND: Kind = Kind::Bool;

    fn to_cell(&self) -> Cell<'_> {
        Cell::Bool(*self)
    }

    fn from_cell(cell: Cell<'_>) -> Result<bool, String> {
        match cell {
            Cell::Bool(value) => Ok(value),
            other => Err(misplaced(other, Kind::Bool)),
        }
    }
}

impl Field for String {
    const KIND: Kind = Kind::Text;

    fn to_cell(&self) -> Cell<'_> {
        Cell::Text(self)
    }

    fn from_cell(cell: Cell<'_>) -> Result<String, String> {
        match cell {
            Cell::Text(_) | Cell::Shared(_) => Ok(cell.to_string()),
            other => Err(misplaced(other, Kind::Text)),
        }
    }
}

impl Field for Arc<str> {
    const KIND: Kind = Kind::Text;

    fn to_cell(&self) -> Cell<'_> {
        Cell::Text(self)
    }

    fn from_cell(cell: Cell<'_>) -> Result<Arc<str>, String> {
        match cell {
            Cell::Shared(text) => Ok(text.clone()),
            Cell::Text(text) => Ok(text.into()),
            other => Err(misplaced(other, Kind::Text)),
        }
    }
}

impl<V: Field> Field for Option<V> {
    const KIND: Kind = V::KIND;
    const IS_NULLABLE: bool = true;

    fn to_cell(&self) -> Cell<'_> {
        self.as_ref().map_or(Cell::Null, V::to_cell)
    }

    fn from_cell(cell: Cell<'_>) -> Result<Option<V>, String> {
        match cell {
            Cell::Null => Ok(None),
            cell => V::from_cell(cell).map(Some),
        }
    }
}

#[cfg(test)]
mod tests;
