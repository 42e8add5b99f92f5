//! What transports told of themselves, one row a gauge and instant.

use crate::ReadError;
use crate::parquet_io::{About, Column, floats, ints, read_batches, texts, write_batches};
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Float64Array, PrimitiveArray, StringArray};
use arrow_schema::DataType;
use punctual_core::{FlowId, Instant, PortId};
use punctual_record::{GaugeOf, Outcome};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// One gauge at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct GaugeRow {
    /// When.
    pub at: Instant,
    /// Name of the transport.
    pub transport: Arc<str>,
    /// Whose gauge it is.
    pub of: GaugeOf,
    /// What it is called; ends in its unit.
    pub gauge: Arc<str>,
    /// What it showed.
    pub value: f64,
}

impl GaugeRow {
    /// All gauges of a run, in the order of the outcome. `transports` are the names by
    /// [`TransportId`](punctual_core::TransportId).
    ///
    /// # Panics
    /// When a transport has no name.
    pub fn all(outcome: &Outcome, transports: &[&str]) -> Vec<GaugeRow> {
        let mut names = Names::default();
        let mut row = |sample: &punctual_record::GaugeSample| GaugeRow {
            at: sample.at,
            transport: names.get(transports[sample.transport.index()]),
            of: sample.of,
            gauge: names.get(sample.name),
            value: sample.value,
        };
        outcome.gauges.iter().map(&mut row).collect()
    }
}

/// One text for all rows that hold it.
#[derive(Default)]
struct Names(BTreeSet<Arc<str>>);

impl Names {
    fn get(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        let new: Arc<str> = name.into();
        self.0.insert(new.clone());
        new
    }
}

#[rustfmt::skip]
pub(crate) const GAUGE_COLUMNS: [Column; 6] = [
    ("at_ps", DataType::UInt64, "ps", false, "when, since the start of the run"),
    ("transport", DataType::Utf8, "", false, "transport that told it"),
    ("of", DataType::Utf8, "", false, "sender, receiver or port"),
    ("number", DataType::UInt32, "", false, "the flow, or the output port"),
    ("gauge", DataType::Utf8, "", false, "what it is called, its unit last"),
    ("value", DataType::Float64, "", false, "what it showed"),
];

/// Name and number of whom a gauge is of.
fn of(of: GaugeOf) -> (&'static str, u32) {
    match of {
        GaugeOf::Sender(flow) => ("sender", flow.0),
        GaugeOf::Receiver(flow) => ("receiver", flow.0),
        GaugeOf::Port(port) => ("port", port.0),
    }
}

/// Writes `gauges.parquet`.
pub(crate) fn write_gauges(
    out: impl Write + Send,
    about: &About,
    rows: &[GaugeRow],
) -> parquet::errors::Result<()> {
    write_batches(out, about, &GAUGE_COLUMNS, rows, |rows| {
        vec![
            ints::<_, UInt64Type>(rows, |row| row.at.as_picos()),
            texts(rows, |row| &row.transport),
            texts(rows, |row| of(row.of).0),
            ints::<_, UInt32Type>(rows, |row| of(row.of).1),
            texts(rows, |row| &row.gauge),
            floats(rows, |row| Some(row.value)),
        ]
    })
}

/// Reads `gauges.parquet`.
pub(crate) fn read_gauges(path: &Path) -> Result<Vec<GaugeRow>, ReadError> {
    let mut names = Names::default();
    read_batches(path, |columns, all| {
        let c = &GAUGE_COLUMNS;
        let at = columns.get::<PrimitiveArray<UInt64Type>>(c, 0)?;
        let transport = columns.get::<StringArray>(c, 1)?;
        let of = columns.get::<StringArray>(c, 2)?;
        let number = columns.get::<PrimitiveArray<UInt32Type>>(c, 3)?;
        let gauge = columns.get::<StringArray>(c, 4)?;
        let value = columns.get::<Float64Array>(c, 5)?;
        for i in 0..columns.rows() {
            let number = number.value(i);
            let of = match of.value(i) {
                "sender" => GaugeOf::Sender(FlowId(number)),
                "receiver" => GaugeOf::Receiver(FlowId(number)),
                "port" => GaugeOf::Port(PortId(number)),
                other => {
                    return Err(columns.problem("of", format!("holds the unknown `{other}`")));
                }
            };
            all.push(GaugeRow {
                at: Instant::from_picos(at.value(i)),
                transport: names.get(transport.value(i)),
                of,
                gauge: names.get(gauge.value(i)),
                value: value.value(i),
            });
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_are_read_as_written() {
        let row = |picos, of, gauge: &str, value| GaugeRow {
            at: Instant::from_picos(picos),
            transport: "d3".into(),
            of,
            gauge: gauge.into(),
            value,
        };
        let rows = [
            row(1, GaugeOf::Port(PortId(7)), "capacity_bps", 1e9),
            row(1, GaugeOf::Sender(FlowId(2)), "granted_bps", 0.1 + 0.2),
            row(u64::MAX, GaugeOf::Receiver(FlowId(u32::MAX)), "x", f64::MIN_POSITIVE),
        ];
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("gauges.parquet");
        write_gauges(std::fs::File::create(&path).unwrap(), &[], &rows).unwrap();
        assert_eq!(read_gauges(&path).unwrap(), rows);
    }

    #[test]
    fn every_column_is_documented() {
        let docs = include_str!("../../../docs/results.md");
        let section = docs.split("## gauges.parquet").nth(1).expect("a section");
        for (name, ..) in GAUGE_COLUMNS {
            assert!(section.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}
