//! Columns in Parquet files.

use crate::ReadError;
use crate::flows::{FlowCounts, FlowRow, status_name, status_named};
use arrow_array::builder::{BooleanBuilder, Float64Builder};
use arrow_array::types::{ArrowPrimitiveType, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, PrimitiveArray, RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use punctual_core::{Bytes, Duration, FlowId, HostId, Instant, PortId};
use punctual_record::PortSample;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Rows turned into columns at a time.
const BATCH_ROWS: usize = 1 << 16;

/// A column: name, type, unit or "", whether it may be null, and what it is.
pub(crate) type Column = (&'static str, DataType, &'static str, bool, &'static str);

#[rustfmt::skip]
const FLOW_COLUMNS: [Column; 26] = [
    ("flow", DataType::UInt32, "", false, "the flow, unique in the run"),
    ("src", DataType::UInt32, "", false, "sending host"),
    ("dst", DataType::UInt32, "", false, "receiving host"),
    ("transport", DataType::Utf8, "", false, "transport that carried it"),
    ("pattern", DataType::UInt16, "", false, "traffic pattern of the scenario, from 0"),
    ("background", DataType::Boolean, "", false, "not measured itself"),
    ("size_bytes", DataType::UInt64, "bytes", true, "bytes asked for; null when endless"),
    ("start_ps", DataType::UInt64, "ps", false, "handed over, since the start of the run"),
    ("deadline_ps", DataType::UInt64, "ps", true, "due, since the start of the run"),
    ("ended_ps", DataType::UInt64, "ps", true, "completed or given up, since the start of the run"),
    ("status", DataType::Utf8, "", false, "completed, abandoned or unfinished"),
    ("met", DataType::Boolean, "", true, "on time; null without deadline or when not known"),
    ("fct_ps", DataType::UInt64, "ps", true, "completion time of a completed flow"),
    ("delivered_bytes", DataType::UInt64, "bytes", false, "received, each byte counted once"),
    ("retransmits", DataType::UInt32, "packets", false, "data packets sent again"),
    ("timeouts", DataType::UInt32, "", false, "retransmission timers fired"),
    ("trims", DataType::UInt32, "packets", false, "trimmed headers received"),
    ("bounces", DataType::UInt32, "packets", false, "headers returned to the sender"),
    ("slowdown", DataType::Float64, "", true, "completion time over that on an empty network"),
    ("censored_ps", DataType::UInt64, "ps", true, "of an unfinished flow: from its start to the end of the run"),
    ("ideal_ps", DataType::UInt64, "ps", true, "completion time on an empty network"),
    ("measured", DataType::Boolean, "", false, "in the statistics of flows"),
    ("window_bytes", DataType::UInt64, "bytes", false, "received in the measured window"),
    ("window_retransmits", DataType::UInt32, "packets", false, "data packets sent again in the measured window"),
    ("window_timeouts", DataType::UInt32, "", false, "retransmission timers fired in the measured window"),
    ("traffic", DataType::Utf8, "", false, "name of the scenario's traffic that it came from"),
];

#[rustfmt::skip]
const QUEUE_COLUMNS: [Column; 6] = [
    ("at_ps", DataType::UInt64, "ps", false, "when, since the start of the run"),
    ("port", DataType::UInt32, "", false, "output port"),
    ("queue_bytes", DataType::UInt64, "bytes", false, "waiting or in service"),
    ("queue_packets", DataType::UInt32, "packets", false, "waiting or in service"),
    ("sent_bytes", DataType::UInt64, "bytes", false, "sent since the start of the run"),
    ("paused_ps", DataType::UInt64, "ps", false, "time paused since the start of the run"),
];

/// Names of the columns of `flows.parquet` and `flows.csv`, in order.
pub(crate) fn flow_column_names() -> impl Iterator<Item = &'static str> {
    FLOW_COLUMNS.iter().map(|column| column.0)
}

fn schema(columns: &[Column]) -> SchemaRef {
    let field = |(name, kind, unit, nullable, about): &Column| {
        let mut metadata = vec![("about", *about)];
        if !unit.is_empty() {
            metadata.push(("unit", *unit));
        }
        let metadata = arrow_schema::Metadata::from_iter(metadata);
        Field::new(*name, kind.clone(), *nullable).with_metadata(metadata)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Metadata of a file: keys and values.
pub(crate) type About = [(String, String)];

/// Everything that could differ between two writings of the same rows is fixed here.
fn properties(about: &About) -> WriterProperties {
    let pair = |(key, value): &(String, String)| KeyValue::new(key.clone(), value.clone());
    WriterProperties::builder()
        .set_created_by("punctual".to_owned())
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(about.iter().map(pair).collect()))
        .set_max_row_group_row_count(Some(1 << 20))
        .build()
}

pub(crate) fn write_batches<T>(
    out: impl Write + Send,
    about: &About,
    columns: &[Column],
    rows: &[T],
    arrays: impl Fn(&[T]) -> Vec<ArrayRef>,
) -> Result<()> {
    let schema = schema(columns);
    let mut writer = ArrowWriter::try_new(out, schema.clone(), Some(properties(about)))?;
    for chunk in rows.chunks(BATCH_ROWS) {
        writer.write(&RecordBatch::try_new(schema.clone(), arrays(chunk))?)?;
    }
    writer.close()?;
    Ok(())
}

/// A column of whole numbers that are always there.
pub(crate) fn ints<T, P: ArrowPrimitiveType>(
    rows: &[T],
    get: impl Fn(&T) -> P::Native,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<P>::from_iter_values(rows.iter().map(get)))
}

/// A column of truths that are always there.
pub(crate) fn flags<T>(rows: &[T], get: impl Fn(&T) -> bool) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(get(row))).collect::<BooleanArray>())
}

/// A column of picoseconds or bytes that may be missing.
fn maybe<T>(rows: &[T], get: impl Fn(&T) -> Option<u64>) -> ArrayRef {
    Arc::new(rows.iter().map(get).collect::<PrimitiveArray<UInt64Type>>())
}

pub(crate) fn texts<'a, T>(rows: &'a [T], get: impl Fn(&'a T) -> &'a str) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.iter().map(get)))
}

fn bools(rows: &[FlowRow], get: impl Fn(&FlowRow) -> Option<bool>) -> ArrayRef {
    let mut column = BooleanBuilder::with_capacity(rows.len());
    rows.iter().for_each(|row| column.append_option(get(row)));
    Arc::new(column.finish())
}

pub(crate) fn floats<T>(rows: &[T], get: impl Fn(&T) -> Option<f64>) -> ArrayRef {
    let mut column = Float64Builder::with_capacity(rows.len());
    rows.iter().for_each(|row| column.append_option(get(row)));
    Arc::new(column.finish())
}

/// The name of a flow's traffic; empty where it has none.
pub(crate) fn traffic_name<'a>(traffic: &'a [String], row: &FlowRow) -> &'a str {
    traffic.get(usize::from(row.pattern)).map_or("", String::as_str)
}

/// Writes one row a flow; `traffic` has the names of what `pattern` counts.
pub(crate) fn write_flows(
    out: impl Write + Send,
    about: &About,
    rows: &[FlowRow],
    traffic: &[String],
) -> Result<()> {
    write_batches(out, about, &FLOW_COLUMNS, rows, |rows| {
        vec![
            ints::<_, UInt32Type>(rows, |row| row.flow.0),
            ints::<_, UInt32Type>(rows, |row| row.src.0),
            ints::<_, UInt32Type>(rows, |row| row.dst.0),
            texts(rows, |row| &row.transport),
            ints::<_, UInt16Type>(rows, |row| row.pattern),
            bools(rows, |row| Some(row.background)),
            maybe(rows, |row| row.size.map(Bytes::get)),
            ints::<_, UInt64Type>(rows, |row| row.start.as_picos()),
            maybe(rows, |row| row.deadline.map(Instant::as_picos)),
            maybe(rows, |row| row.ended.map(Instant::as_picos)),
            texts(rows, |row| status_name(row.status)),
            bools(rows, |row| row.met),
            maybe(rows, |row| row.fct.map(Duration::as_picos)),
            ints::<_, UInt64Type>(rows, |row| row.delivered.get()),
            ints::<_, UInt32Type>(rows, |row| row.retransmits),
            ints::<_, UInt32Type>(rows, |row| row.timeouts),
            ints::<_, UInt32Type>(rows, |row| row.trims),
            ints::<_, UInt32Type>(rows, |row| row.bounces),
            floats(rows, |row| row.slowdown),
            maybe(rows, |row| row.censored.map(Duration::as_picos)),
            maybe(rows, |row| row.ideal.map(Duration::as_picos)),
            bools(rows, |row| Some(row.measured)),
            ints::<_, UInt64Type>(rows, |row| row.in_window.delivered.get()),
            ints::<_, UInt32Type>(rows, |row| row.in_window.retransmits),
            ints::<_, UInt32Type>(rows, |row| row.in_window.timeouts),
            Arc::new(StringArray::from_iter_values(
                rows.iter().map(|row| traffic_name(traffic, row)),
            )),
        ]
    })
}

/// Writes one row a sample.
pub(crate) fn write_queues(
    out: impl Write + Send,
    about: &About,
    rows: &[PortSample],
) -> Result<()> {
    write_batches(out, about, &QUEUE_COLUMNS, rows, |rows| {
        vec![
            ints::<_, UInt64Type>(rows, |row| row.at.as_picos()),
            ints::<_, UInt32Type>(rows, |row| row.port.0),
            ints::<_, UInt64Type>(rows, |row| row.queue_bytes),
            ints::<_, UInt32Type>(rows, |row| row.queue_packets),
            ints::<_, UInt64Type>(rows, |row| row.sent_bytes),
            ints::<_, UInt64Type>(rows, |row| row.paused.as_picos()),
        ]
    })
}

/// The columns of one batch, checked once.
pub(crate) struct Columns<'a> {
    path: &'a Path,
    batch: RecordBatch,
}

impl Columns<'_> {
    pub(crate) fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    pub(crate) fn problem(&self, column: &'static str, problem: String) -> ReadError {
        ReadError::Column { path: self.path.to_owned(), column, problem }
    }

    /// The column of that place in `known`, by name, wherever the file has it.
    pub(crate) fn get<A: Array + 'static>(
        &self,
        known: &[Column],
        place: usize,
    ) -> std::result::Result<&A, ReadError> {
        let (name, kind, _, nullable, _) = &known[place];
        let Some(column) = self.batch.column_by_name(name) else {
            return Err(self.problem(name, "is missing".into()));
        };
        if !nullable && column.null_count() > 0 {
            return Err(self.problem(name, "has empty places".into()));
        }
        column.as_any().downcast_ref().ok_or_else(|| {
            let found = column.data_type();
            self.problem(name, format!("holds {found} where {kind} belongs"))
        })
    }
}

/// Reads all rows of a file, a batch at a time.
pub(crate) fn read_batches<T>(
    path: &Path,
    mut rows: impl FnMut(&Columns<'_>, &mut Vec<T>) -> std::result::Result<(), ReadError>,
) -> std::result::Result<Vec<T>, ReadError> {
    let damaged = |source: ParquetError| ReadError::Parquet { path: path.to_owned(), source };
    let file = File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ReadError::Missing(path.to_owned()),
        _ => ReadError::Io { path: path.to_owned(), source: error },
    })?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(damaged)?;
    let reader = reader.with_batch_size(BATCH_ROWS).build().map_err(damaged)?;
    let mut all = Vec::new();
    for batch in reader {
        let batch = batch.map_err(|error| damaged(error.into()))?;
        rows(&Columns { path, batch }, &mut all)?;
    }
    Ok(all)
}

fn value<P: ArrowPrimitiveType>(column: &PrimitiveArray<P>, row: usize) -> Option<P::Native> {
    column.is_valid(row).then(|| column.value(row))
}

/// Reads `flows.parquet`.
pub(crate) fn read_flows(path: &Path) -> std::result::Result<Vec<FlowRow>, ReadError> {
    type U16 = PrimitiveArray<UInt16Type>;
    type U32 = PrimitiveArray<UInt32Type>;
    type U64 = PrimitiveArray<UInt64Type>;
    // Most runs have one transport: one text for all its rows.
    let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
    read_batches(path, |columns, all| {
        let c = &FLOW_COLUMNS;
        let (flow, src, dst) =
            (columns.get::<U32>(c, 0)?, columns.get::<U32>(c, 1)?, columns.get::<U32>(c, 2)?);
        let transport = columns.get::<StringArray>(c, 3)?;
        let pattern = columns.get::<U16>(c, 4)?;
        let background = columns.get::<BooleanArray>(c, 5)?;
        let size = columns.get::<U64>(c, 6)?;
        let start = columns.get::<U64>(c, 7)?;
        let deadline = columns.get::<U64>(c, 8)?;
        let ended = columns.get::<U64>(c, 9)?;
        let status = columns.get::<StringArray>(c, 10)?;
        let met = columns.get::<BooleanArray>(c, 11)?;
        let fct = columns.get::<U64>(c, 12)?;
        let delivered = columns.get::<U64>(c, 13)?;
        let retransmits = columns.get::<U32>(c, 14)?;
        let timeouts = columns.get::<U32>(c, 15)?;
        let trims = columns.get::<U32>(c, 16)?;
        let bounces = columns.get::<U32>(c, 17)?;
        let slowdown = columns.get::<Float64Array>(c, 18)?;
        let (censored, ideal) = (columns.get::<U64>(c, 19)?, columns.get::<U64>(c, 20)?);
        let measured = columns.get::<BooleanArray>(c, 21)?;
        let window_bytes = columns.get::<U64>(c, 22)?;
        let window_retransmits = columns.get::<U32>(c, 23)?;
        let window_timeouts = columns.get::<U32>(c, 24)?;
        for i in 0..columns.rows() {
            let name = transport.value(i);
            if !names.contains(name) {
                names.insert(name.into());
            }
            let status = status.value(i);
            all.push(FlowRow {
                flow: FlowId(flow.value(i)),
                src: HostId(src.value(i)),
                dst: HostId(dst.value(i)),
                transport: names.get(name).expect("inserted above").clone(),
                pattern: pattern.value(i),
                background: background.value(i),
                size: value(size, i).map(Bytes::new),
                start: Instant::from_picos(start.value(i)),
                deadline: value(deadline, i).map(Instant::from_picos),
                ended: value(ended, i).map(Instant::from_picos),
                status: status_named(status).ok_or_else(|| {
                    columns.problem("status", format!("holds the unknown status `{status}`"))
                })?,
                met: met.is_valid(i).then(|| met.value(i)),
                fct: value(fct, i).map(Duration::from_picos),
                delivered: Bytes::new(delivered.value(i)),
                retransmits: retransmits.value(i),
                timeouts: timeouts.value(i),
                trims: trims.value(i),
                bounces: bounces.value(i),
                slowdown: value(slowdown, i),
                censored: value(censored, i).map(Duration::from_picos),
                ideal: value(ideal, i).map(Duration::from_picos),
                measured: measured.value(i),
                in_window: FlowCounts {
                    delivered: Bytes::new(window_bytes.value(i)),
                    retransmits: window_retransmits.value(i),
                    timeouts: window_timeouts.value(i),
                },
            });
        }
        Ok(())
    })
}

/// Reads `queues.parquet`.
pub(crate) fn read_queues(path: &Path) -> std::result::Result<Vec<PortSample>, ReadError> {
    type U32 = PrimitiveArray<UInt32Type>;
    type U64 = PrimitiveArray<UInt64Type>;
    read_batches(path, |columns, all| {
        let c = &QUEUE_COLUMNS;
        let at = columns.get::<U64>(c, 0)?;
        let port = columns.get::<U32>(c, 1)?;
        let queue_bytes = columns.get::<U64>(c, 2)?;
        let queue_packets = columns.get::<U32>(c, 3)?;
        let sent_bytes = columns.get::<U64>(c, 4)?;
        let paused = columns.get::<U64>(c, 5)?;
        all.extend((0..columns.rows()).map(|i| PortSample {
            at: Instant::from_picos(at.value(i)),
            port: PortId(port.value(i)),
            queue_bytes: queue_bytes.value(i),
            queue_packets: queue_packets.value(i),
            sent_bytes: sent_bytes.value(i),
            paused: Duration::from_picos(paused.value(i)),
        }));
        Ok(())
    })
}
