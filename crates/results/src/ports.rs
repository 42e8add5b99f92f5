//! Every port of a run and what it did in all, one row a port: the network, and its use.

use crate::ReadError;
use crate::parquet_io::{About, Column, floats, ints, read_batches, texts, write_batches};
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, Float64Array, PrimitiveArray, StringArray};
use arrow_schema::DataType;
use punctual_core::{Duration, PortId, Rate};
use std::io::Write;
use std::path::Path;

/// An output port and the link that leaves from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortRow {
    /// Its number.
    pub port: PortId,
    /// Name of the node whose port it is.
    pub from: String,
    /// Name of the node that its link leads to.
    pub to: String,
    /// Where in the network it is, such as `host-down`.
    pub tier: String,
    /// Its rate at the start.
    pub rate: Rate,
    /// From the last bit sent to the packet ready in the next node.
    pub delay: Duration,
    /// Bytes sent since measuring began.
    pub sent_bytes: u64,
    /// The share of its rate that they took; none when no time was measured.
    pub utilisation: Option<f64>,
    /// Packets dropped.
    pub drops: u64,
    /// Packets trimmed.
    pub trims: u64,
    /// Time that it was paused.
    pub paused: Duration,
}

#[rustfmt::skip]
const PORT_COLUMNS: [Column; 11] = [
    ("port", DataType::UInt32, "", false, "output port"),
    ("from", DataType::Utf8, "", false, "name of the node whose port it is"),
    ("to", DataType::Utf8, "", false, "name of the node that its link leads to"),
    ("tier", DataType::Utf8, "", false, "where in the network it is"),
    ("rate_bps", DataType::UInt64, "bit/s", false, "its rate at the start"),
    ("delay_ps", DataType::UInt64, "ps", false, "from the last bit sent to the packet ready"),
    ("sent_bytes", DataType::UInt64, "bytes", false, "sent since measuring began, framing included"),
    ("utilisation", DataType::Float64, "", true, "share of its rate that they took"),
    ("drops", DataType::UInt64, "packets", false, "packets dropped"),
    ("trims", DataType::UInt64, "packets", false, "packets trimmed"),
    ("paused_ps", DataType::UInt64, "ps", false, "time that it was paused"),
];

/// Writes `ports.parquet`.
pub(crate) fn write_ports(
    out: impl Write + Send,
    about: &About,
    rows: &[PortRow],
) -> parquet::errors::Result<()> {
    write_batches(out, about, &PORT_COLUMNS, rows, |rows| {
        vec![
            ints::<_, UInt32Type>(rows, |row| row.port.0),
            texts(rows, |row| &row.from),
            texts(rows, |row| &row.to),
            texts(rows, |row| &row.tier),
            ints::<_, UInt64Type>(rows, |row| row.rate.as_bps()),
            ints::<_, UInt64Type>(rows, |row| row.delay.as_picos()),
            ints::<_, UInt64Type>(rows, |row| row.sent_bytes),
            floats(rows, |row| row.utilisation),
            ints::<_, UInt64Type>(rows, |row| row.drops),
            ints::<_, UInt64Type>(rows, |row| row.trims),
            ints::<_, UInt64Type>(rows, |row| row.paused.as_picos()),
        ]
    })
}

/// Reads `ports.parquet`.
pub(crate) fn read_ports(path: &Path) -> Result<Vec<PortRow>, ReadError> {
    type U64 = PrimitiveArray<UInt64Type>;
    read_batches(path, |columns, all| {
        let c = &PORT_COLUMNS;
        let port = columns.get::<PrimitiveArray<UInt32Type>>(c, 0)?;
        let from = columns.get::<StringArray>(c, 1)?;
        let to = columns.get::<StringArray>(c, 2)?;
        let tier = columns.get::<StringArray>(c, 3)?;
        let rate = columns.get::<U64>(c, 4)?;
        let delay = columns.get::<U64>(c, 5)?;
        let sent_bytes = columns.get::<U64>(c, 6)?;
        let utilisation = columns.get::<Float64Array>(c, 7)?;
        let drops = columns.get::<U64>(c, 8)?;
        let trims = columns.get::<U64>(c, 9)?;
        let paused = columns.get::<U64>(c, 10)?;
        all.extend((0..columns.rows()).map(|i| PortRow {
            port: PortId(port.value(i)),
            from: from.value(i).to_owned(),
            to: to.value(i).to_owned(),
            tier: tier.value(i).to_owned(),
            rate: Rate::from_bps(rate.value(i)),
            delay: Duration::from_picos(delay.value(i)),
            sent_bytes: sent_bytes.value(i),
            utilisation: utilisation.is_valid(i).then(|| utilisation.value(i)),
            drops: drops.value(i),
            trims: trims.value(i),
            paused: Duration::from_picos(paused.value(i)),
        }));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_written() {
        let row = |port, utilisation| PortRow {
            port: PortId(port),
            from: "rack 0".into(),
            to: "host ü".into(),
            tier: "host-down".into(),
            rate: Rate::from_gbps(10),
            delay: Duration::from_micros(1),
            sent_bytes: u64::MAX,
            utilisation,
            drops: 1,
            trims: 2,
            paused: Duration::from_picos(3),
        };
        let rows = [row(0, Some(0.1 + 0.2)), row(u32::MAX, None)];
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("ports.parquet");
        write_ports(std::fs::File::create(&path).unwrap(), &[], &rows).unwrap();
        assert_eq!(read_ports(&path).unwrap(), rows);
    }

    #[test]
    fn every_column_is_documented() {
        let docs = include_str!("../../../docs/results.md");
        let section = docs.split("## ports.parquet").nth(1).expect("a section");
        let section = section.split("\n## ").next().expect("its text");
        for (name, ..) in PORT_COLUMNS {
            assert!(section.contains(&format!("`{name}`")), "{name}");
        }
    }
}
