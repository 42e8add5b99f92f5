//! Pauses of lossless switches, one row a port and class that was paused.

use crate::ReadError;
use crate::parquet_io::{About, Column, flags, ints, read_batches, texts, write_batches};
use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{BooleanArray, PrimitiveArray, StringArray};
use arrow_schema::DataType;
use punctual_core::{Class, Duration, PortId};
use punctual_record::{Outcome, PortPauses};
use std::io::Write;
use std::path::Path;

/// The pauses of one class at one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseRow {
    /// From where to where the port sends, such as `tor 0 → host 3`.
    pub name: String,
    /// Where in the network it is, such as `host-down`.
    pub tier: String,
    /// How often and how long.
    pub pauses: PortPauses,
}

impl PauseRow {
    /// Of a run, by port then class. `describe` gives a port's name and tier.
    pub fn all(outcome: &Outcome, describe: impl Fn(PortId) -> (String, String)) -> Vec<PauseRow> {
        let row = |pauses: &PortPauses| {
            let (name, tier) = describe(pauses.port);
            PauseRow { name, tier, pauses: *pauses }
        };
        outcome.pauses.iter().map(row).collect()
    }
}

#[rustfmt::skip]
pub(crate) const PAUSE_COLUMNS: [Column; 8] = [
    ("port", DataType::UInt32, "", false, "output port that was paused"),
    ("name", DataType::Utf8, "", false, "from where to where it sends"),
    ("tier", DataType::Utf8, "", false, "where in the network it is"),
    ("class", DataType::UInt8, "", false, "service class that was paused"),
    ("pauses", DataType::UInt64, "", false, "how often it was paused"),
    ("paused_ps", DataType::UInt64, "ps", false, "how long in all"),
    ("longest_ps", DataType::UInt64, "ps", false, "the longest at a stretch"),
    ("lasts", DataType::Boolean, "", false, "it was paused when the run ended"),
];

/// Writes `pauses.parquet`.
pub(crate) fn write_pauses(
    out: impl Write + Send,
    about: &About,
    rows: &[PauseRow],
) -> parquet::errors::Result<()> {
    write_batches(out, about, &PAUSE_COLUMNS, rows, |rows| {
        vec![
            ints::<_, UInt32Type>(rows, |row| row.pauses.port.0),
            texts(rows, |row| &row.name),
            texts(rows, |row| &row.tier),
            ints::<_, UInt8Type>(rows, |row| row.pauses.class.0),
            ints::<_, UInt64Type>(rows, |row| row.pauses.pauses),
            ints::<_, UInt64Type>(rows, |row| row.pauses.time.as_picos()),
            ints::<_, UInt64Type>(rows, |row| row.pauses.longest.as_picos()),
            flags(rows, |row| row.pauses.lasts),
        ]
    })
}

/// Reads `pauses.parquet`.
pub(crate) fn read_pauses(path: &Path) -> Result<Vec<PauseRow>, ReadError> {
    read_batches(path, |columns, all| {
        let c = &PAUSE_COLUMNS;
        let port = columns.get::<PrimitiveArray<UInt32Type>>(c, 0)?;
        let name = columns.get::<StringArray>(c, 1)?;
        let tier = columns.get::<StringArray>(c, 2)?;
        let class = columns.get::<PrimitiveArray<UInt8Type>>(c, 3)?;
        let pauses = columns.get::<PrimitiveArray<UInt64Type>>(c, 4)?;
        let time = columns.get::<PrimitiveArray<UInt64Type>>(c, 5)?;
        let longest = columns.get::<PrimitiveArray<UInt64Type>>(c, 6)?;
        let lasts = columns.get::<BooleanArray>(c, 7)?;
        all.extend((0..columns.rows()).map(|i| PauseRow {
            name: name.value(i).to_owned(),
            tier: tier.value(i).to_owned(),
            pauses: PortPauses {
                port: PortId(port.value(i)),
                class: Class(class.value(i)),
                pauses: pauses.value(i),
                time: Duration::from_picos(time.value(i)),
                longest: Duration::from_picos(longest.value(i)),
                lasts: lasts.value(i),
            },
        }));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_read_as_written() {
        let pauses = |port, class, pauses, lasts| PortPauses {
            port: PortId(port),
            class: Class(class),
            pauses,
            time: Duration::from_picos(u64::MAX),
            longest: Duration::from_picos(pauses + 1),
            lasts,
        };
        let outcome = Outcome {
            pauses: vec![pauses(3, 0, 7, false), pauses(3, 7, 1, true), pauses(9, 1, 0, false)],
            ..Outcome::default()
        };
        let describe = |port: PortId| (format!("tor 0 → host {}", port.0), "host-down".to_owned());
        let rows = PauseRow::all(&outcome, describe);
        assert_eq!((rows.len(), &*rows[2].name), (3, "tor 0 → host 9"));
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pauses.parquet");
        write_pauses(std::fs::File::create(&path).unwrap(), &[], &rows).unwrap();
        assert_eq!(read_pauses(&path).unwrap(), rows);
    }

    #[test]
    fn every_column_is_documented() {
        let docs = include_str!("../../../docs/results.md");
        let section = docs.split("## pauses.parquet").nth(1).expect("a section");
        let section = section.split("\n## ").next().expect("its text");
        for (name, ..) in PAUSE_COLUMNS {
            assert!(section.contains(&format!("`{name}`")), "{name}");
        }
    }
}
