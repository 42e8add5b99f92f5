//! Tables in Parquet files, written and read column by column.

use crate::ReadError;
use crate::columns::{Cell, Column, Kind, Table};
use bytes::Bytes;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnDescriptor, Type, TypePtr};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// The maximum number of rows of a row group.
const GROUP_ROWS: usize = 1 << 20;
/// The number of values encoded or decoded at a time.
const BATCH_ROWS: usize = 1 << 16;

/// Metadata of a file: keys and values.
pub(crate) type About = [(String, String)];

impl Kind {
    fn physical(self) -> Physical {
        match self {
            Kind::U8 | Kind::U16 | Kind::U32 => Physical::INT32,
            Kind::U64 => Physical::INT64,
            Kind::F64 => Physical::DOUBLE,
            Kind::Bool => Physical::BOOLEAN,
            Kind::Text => Physical::BYTE_ARRAY,
        }
    }

    fn logical(self) -> Option<LogicalType> {
        match self {
            Kind::U8 => Some(LogicalType::integer(8, false)),
            Kind::U16 => Some(LogicalType::integer(16, false)),
            Kind::U32 => Some(LogicalType::integer(32, false)),
            Kind::U64 => Some(LogicalType::integer(64, false)),
            Kind::Text => Some(LogicalType::String),
            Kind::F64 | Kind::Bool => None,
        }
    }
}

fn schema<R: Table>() -> Result<TypePtr> {
    let field = |column: &Column<R>| {
        let nullable = [Repetition::REQUIRED, Repetition::OPTIONAL];
        Type::primitive_type_builder(column.name, column.kind.physical())
            .with_repetition(nullable[usize::from(column.is_nullable)])
            .with_logical_type(column.kind.logical())
            .build()
            .map(Arc::new)
    };
    let fields = R::COLUMNS.iter().map(field).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Type::group_type_builder("rows").with_fields(fields).build()?))
}

/// Properties of a file, fixed so that equal rows give equal bytes.
///
/// The metadata are those of the run, then for each column `about.NAME` and, where it has one,
/// `unit.NAME`.
fn properties<R: Table>(about: &About) -> WriterProperties {
    let mut pairs: Vec<KeyValue> =
        about.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
    for column in R::COLUMNS {
        pairs.push(KeyValue::new(format!("about.{}", column.name), column.about.to_owned()));
        if !column.unit.is_empty() {
            pairs.push(KeyValue::new(format!("unit.{}", column.name), column.unit.to_owned()));
        }
    }
    WriterProperties::builder()
        .set_created_by("punctual".to_owned())
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(pairs))
        .build()
}

/// Writes a table.
pub(crate) fn write_table<R: Table>(
    out: impl Write + Send,
    about: &About,
    rows: &[R],
) -> Result<()> {
    let properties = Arc::new(properties::<R>(about));
    let mut writer = SerializedFileWriter::new(out, schema::<R>()?, properties)?;
    for rows in rows.chunks(GROUP_ROWS) {
        let mut group = writer.next_row_group()?;
        for column in R::COLUMNS {
            let Some(mut out) = group.next_column()? else { break };
            write_column(&mut out, column, rows)?;
            out.close()?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

fn write_column<R>(
    out: &mut SerializedColumnWriter<'_>,
    column: &Column<R>,
    rows: &[R],
) -> Result<()> {
    match column.kind {
        Kind::U8 | Kind::U16 | Kind::U32 => {
            // Unsigned numbers are stored as signed numbers with the same bits.
            write_values::<Int32Type, R>(out, column, rows, |cell| match cell {
                Cell::Int(value) => Some(value as u32 as i32),
                _ => None,
            })
        }
        Kind::U64 => write_values::<Int64Type, R>(out, column, rows, |cell| match cell {
            Cell::Int(value) => Some(value as i64),
            _ => None,
        }),
        Kind::F64 => write_values::<DoubleType, R>(out, column, rows, |cell| match cell {
            Cell::Float(value) => Some(value),
            _ => None,
        }),
        Kind::Bool => write_values::<BoolType, R>(out, column, rows, |cell| match cell {
            Cell::Bool(value) => Some(value),
            _ => None,
        }),
        Kind::Text => {
            // Adjacent rows mostly have the same text: one copy for all of them.
            let mut last = ByteArray::from("");
            write_values::<ByteArrayType, R>(out, column, rows, |cell| {
                let text = match cell {
                    Cell::Text(text) => text,
                    Cell::Shared(text) => text,
                    _ => return None,
                };
                if last.data() != text.as_bytes() {
                    last = ByteArray::from(text);
                }
                Some(last.clone())
            })
        }
    }
}

fn write_values<T: DataType, R>(
    out: &mut SerializedColumnWriter<'_>,
    column: &Column<R>,
    rows: &[R],
    mut value: impl FnMut(Cell<'_>) -> Option<T::T>,
) -> Result<()> {
    for rows in rows.chunks(BATCH_ROWS) {
        let (mut values, mut levels) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            let value = value((column.get)(row));
            if column.is_nullable {
                levels.push(i16::from(value.is_some()));
            }
            values.extend(value);
        }
        let levels = column.is_nullable.then_some(&levels[..]);
        out.typed::<T>().write_batch(&values, levels, None)?;
    }
    Ok(())
}

/// Reads all rows of a table. Columns are found by name; others are ignored.
pub(crate) fn read_table<R: Table>(path: &Path) -> std::result::Result<Vec<R>, ReadError> {
    table_in(path, read_bytes(path)?)
}

/// Reads a file.
pub(crate) fn read_bytes(path: &Path) -> std::result::Result<Vec<u8>, ReadError> {
    std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ReadError::Missing(path.to_owned()),
        _ => ReadError::Io { path: path.to_owned(), source: error },
    })
}

/// Reads all rows of a table from the bytes of its file.
///
/// From memory, because the library would read each page of each column with five system calls.
pub(crate) fn table_in<R: Table>(
    path: &Path,
    bytes: Vec<u8>,
) -> std::result::Result<Vec<R>, ReadError> {
    let damaged = |source: ParquetError| ReadError::Parquet { path: path.to_owned(), source };
    let reader = SerializedFileReader::new(Bytes::from(bytes)).map_err(damaged)?;
    let mut rows: Vec<R> = Vec::new();
    let mut names = Names::default();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(damaged)?;
        let first = rows.len();
        for (i, column) in R::COLUMNS.iter().enumerate() {
            let wrong = |problem: String| {
                let (path, column) = (path.to_owned(), column.name);
                ReadError::Column { path, column, problem }
            };
            let schema = group.metadata().schema_descr().columns();
            let Some(at) = schema.iter().position(|known| known.name() == column.name) else {
                return Err(wrong("is missing".into()));
            };
            check_type(&schema[at], column.kind).map_err(wrong)?;
            let values = group.get_column_reader(at).map_err(damaged)?;
            let mut next = first;
            read_column(values, column.kind, &mut names, |cell| {
                if next == rows.len() && i == 0 {
                    rows.push(R::default());
                }
                let row = rows.get_mut(next).ok_or("has too many values")?;
                next += 1;
                (column.set)(row, cell)
            })
            .map_err(|fault| match fault {
                Fault::Value(problem) => wrong(problem),
                Fault::Parquet(source) => damaged(source),
            })?;
            if next < rows.len() {
                return Err(wrong("has too few values".into()));
            }
        }
    }
    Ok(rows)
}

fn check_type(found: &ColumnDescriptor, kind: Kind) -> std::result::Result<(), String> {
    let expected = kind.physical();
    if found.physical_type() != expected {
        return Err(format!("has type {}, expected {expected}", found.physical_type()));
    }
    match found.max_rep_level() == 0 && found.max_def_level() <= 1 {
        true => Ok(()),
        false => Err("is nested".into()),
    }
}

/// Why a column could not be read.
enum Fault {
    Value(String),
    Parquet(ParquetError),
}

/// Interned texts: one copy for all rows with the same text.
#[derive(Default)]
struct Names(BTreeSet<Arc<str>>);

impl Names {
    fn get(&mut self, name: &str) -> &Arc<str> {
        if !self.0.contains(name) {
            self.0.insert(name.into());
        }
        self.0.get(name).expect("inserted above")
    }
}

fn read_column(
    values: ColumnReader,
    kind: Kind,
    names: &mut Names,
    mut each: impl FnMut(Cell<'_>) -> std::result::Result<(), String>,
) -> std::result::Result<(), Fault> {
    match values {
        ColumnReader::Int32ColumnReader(values) => read_values(values, |value| {
            each(value.map_or(Cell::Null, |value| Cell::Int(u64::from(*value as u32))))
        }),
        ColumnReader::Int64ColumnReader(values) => read_values(values, |value| {
            each(value.map_or(Cell::Null, |value| Cell::Int(*value as u64)))
        }),
        ColumnReader::DoubleColumnReader(values) => {
            read_values(values, |value| each(value.map_or(Cell::Null, |value| Cell::Float(*value))))
        }
        ColumnReader::BoolColumnReader(values) => {
            read_values(values, |value| each(value.map_or(Cell::Null, |value| Cell::Bool(*value))))
        }
        ColumnReader::ByteArrayColumnReader(values) => read_values(values, |value| {
            let Some(value) = value else { return each(Cell::Null) };
            let text =
                std::str::from_utf8(value.data()).map_err(|e| format!("is not UTF-8 text: {e}"))?;
            each(Cell::Shared(names.get(text)))
        }),
        _ => Err(Fault::Value(format!("holds no {kind:?}"))),
    }
}

fn read_values<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    mut each: impl FnMut(Option<&T::T>) -> std::result::Result<(), String>,
) -> std::result::Result<(), Fault> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    loop {
        levels.clear();
        values.clear();
        let (records, ..) = reader
            .read_records(BATCH_ROWS, Some(&mut levels), None, &mut values)
            .map_err(Fault::Parquet)?;
        if records == 0 {
            return Ok(());
        }
        // Only nullable columns have levels; nulls are not among the values.
        let mut values = values.iter();
        for record in 0..records {
            let is_null = levels.get(record) == Some(&0);
            each(if is_null { None } else { values.next() }).map_err(Fault::Value)?;
        }
    }
}
