//! What every port did in time, one row a port and frame.

use crate::ReadError;
use crate::parquet_io::{About, Column, ints, read_batches, write_batches};
use arrow_array::PrimitiveArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_schema::DataType;
use punctual_core::{Duration, Instant, PortId, Rate};
use punctual_record::{Activity, NetworkTrace, PortFrame};
use std::io::Write;
use std::path::Path;

#[rustfmt::skip]
const NETWORK_COLUMNS: [Column; 17] = [
    ("frame", DataType::UInt32, "", false, "which stretch of time, from 0"),
    ("from_ps", DataType::UInt64, "ps", false, "when it begins, since the start of the run"),
    ("until_ps", DataType::UInt64, "ps", false, "when it ends"),
    ("port", DataType::UInt32, "", false, "output port"),
    ("sent_bytes", DataType::UInt64, "bytes", false, "sent in it, framing included"),
    ("busy_ps", DataType::UInt64, "ps", false, "time that it was sending"),
    ("queue_bytes", DataType::UInt64, "bytes", false, "the most that waited"),
    ("queue_packets", DataType::UInt32, "packets", false, "the most that waited"),
    ("drops", DataType::UInt32, "packets", false, "packets dropped"),
    ("losses", DataType::UInt32, "packets", false, "packets lost on its link"),
    ("trims", DataType::UInt32, "packets", false, "packets trimmed"),
    ("bounces", DataType::UInt32, "packets", false, "headers returned to their sender"),
    ("marks", DataType::UInt32, "packets", false, "packets ECN-marked"),
    ("pauses", DataType::UInt32, "", false, "times that it was told to pause a class"),
    ("paused_ps", DataType::UInt64, "ps", false, "time that some class was paused"),
    ("grants", DataType::UInt32, "", false, "times that more was granted, or one more flow let send"),
    ("granted_bps", DataType::UInt64, "bit/s", false, "the most that was granted in all"),
];

/// Writes `network.parquet`.
pub(crate) fn write_network(
    out: impl Write + Send,
    about: &About,
    trace: &NetworkTrace,
) -> parquet::errors::Result<()> {
    let rows: Vec<(Instant, Instant, PortFrame)> = trace
        .cells
        .iter()
        .map(|cell| {
            let (from, until) = trace.span(cell.frame);
            (from, until, *cell)
        })
        .collect();
    write_batches(out, about, &NETWORK_COLUMNS, &rows, |rows| {
        let u32s = |get: fn(&Activity) -> u32| ints::<_, UInt32Type>(rows, |row| get(&row.2.did));
        let u64s = |get: fn(&Activity) -> u64| ints::<_, UInt64Type>(rows, |row| get(&row.2.did));
        vec![
            ints::<_, UInt32Type>(rows, |row| row.2.frame),
            ints::<_, UInt64Type>(rows, |row| row.0.as_picos()),
            ints::<_, UInt64Type>(rows, |row| row.1.as_picos()),
            ints::<_, UInt32Type>(rows, |row| row.2.port.0),
            u64s(|did| did.sent_bytes),
            u64s(|did| did.busy.as_picos()),
            u64s(|did| did.queue_bytes),
            u32s(|did| did.queue_packets),
            u32s(|did| did.drops),
            u32s(|did| did.losses),
            u32s(|did| did.trims),
            u32s(|did| did.bounces),
            u32s(|did| did.marks),
            u32s(|did| did.pauses),
            u64s(|did| did.paused.as_picos()),
            u32s(|did| did.grants),
            u64s(|did| did.granted.as_bps()),
        ]
    })
}

/// Reads `network.parquet`.
pub(crate) fn read_network(path: &Path) -> Result<NetworkTrace, ReadError> {
    type U32 = PrimitiveArray<UInt32Type>;
    type U64 = PrimitiveArray<UInt64Type>;
    let mut trace = NetworkTrace::default();
    let cells = read_batches(path, |columns, all| {
        let c = &NETWORK_COLUMNS;
        let u32s = |place| columns.get::<U32>(c, place);
        let u64s = |place| columns.get::<U64>(c, place);
        let (frame, from, until, port) = (u32s(0)?, u64s(1)?, u64s(2)?, u32s(3)?);
        let (sent, busy, queue_bytes, queue_packets) = (u64s(4)?, u64s(5)?, u64s(6)?, u32s(7)?);
        let (drops, losses, trims, bounces) = (u32s(8)?, u32s(9)?, u32s(10)?, u32s(11)?);
        let (marks, pauses, paused) = (u32s(12)?, u32s(13)?, u64s(14)?);
        let (grants, granted) = (u32s(15)?, u64s(16)?);
        for i in 0..columns.rows() {
            // Every frame is as long as the first, and the last is always there.
            trace.frame = match frame.value(i) {
                0 => Duration::from_picos(until.value(i)),
                n => Duration::from_picos(from.value(i) / u64::from(n)),
            };
            trace.ended_at = trace.ended_at.max(Instant::from_picos(until.value(i)));
            let did = Activity {
                sent_bytes: sent.value(i),
                busy: Duration::from_picos(busy.value(i)),
                queue_bytes: queue_bytes.value(i),
                queue_packets: queue_packets.value(i),
                drops: drops.value(i),
                losses: losses.value(i),
                trims: trims.value(i),
                bounces: bounces.value(i),
                marks: marks.value(i),
                pauses: pauses.value(i),
                paused: Duration::from_picos(paused.value(i)),
                grants: grants.value(i),
                granted: Rate::from_bps(granted.value(i)),
            };
            all.push(PortFrame { frame: frame.value(i), port: PortId(port.value(i)), did });
        }
        Ok(())
    })?;
    Ok(NetworkTrace { cells, ..trace })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_as_written() {
        let did = Activity {
            sent_bytes: 1,
            busy: Duration::from_picos(2),
            queue_bytes: 3,
            queue_packets: 4,
            drops: 5,
            losses: 6,
            trims: 7,
            bounces: 8,
            marks: 9,
            pauses: 10,
            paused: Duration::from_picos(11),
            grants: 12,
            granted: Rate::from_bps(13),
        };
        let cell = |frame, port, did| PortFrame { frame, port: PortId(port), did };
        let traces = [
            // The last frame is short, and may be the only one.
            vec![cell(0, 3, did), cell(7, 0, Activity::default())],
            vec![cell(7, 0, did)],
        ];
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("network.parquet");
        for cells in traces {
            let (frame, ended_at) = (Duration::from_micros(2), Instant::from_picos(14_500_000));
            let trace = NetworkTrace { frame, ended_at, cells };
            assert_eq!(trace.frames(), 8);
            write_network(std::fs::File::create(&path).unwrap(), &[], &trace).unwrap();
            assert_eq!(read_network(&path).unwrap(), trace);
        }
        // A run shorter than a frame is one.
        let ended_at = Instant::from_picos(1_500);
        let cells = vec![cell(0, 0, did)];
        let short = NetworkTrace { frame: Duration::from_micros(2), ended_at, cells };
        write_network(std::fs::File::create(&path).unwrap(), &[], &short).unwrap();
        let read = read_network(&path).unwrap();
        assert_eq!((read.frames(), read.span(0)), (1, (Instant::ZERO, ended_at)));
    }

    #[test]
    fn every_column_is_documented() {
        let docs = include_str!("../../../docs/results.md");
        let section = docs.split("## network.parquet").nth(1).expect("a section");
        let section = section.split("\n## ").next().expect("its text");
        for (name, ..) in NETWORK_COLUMNS {
            assert!(section.contains(&format!("`{name}`")), "{name}");
        }
    }
}
