//! The activity of every port over time, one row per port and frame.

use crate::ReadError;
use crate::columns::{Column, Table, column};
use crate::parquet_io::{About, read_table, write_table};
use punctual_core::{Duration, Instant};
use punctual_record::{NetworkTrace, PortFrame};
use std::io::Write;
use std::path::Path;

/// The activity of a port in a frame, and when the frame begins and ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrameRow {
    from: Instant,
    until: Instant,
    cell: PortFrame,
}

#[rustfmt::skip]
impl Table for FrameRow {
    const COLUMNS: &'static [Column<FrameRow>] = &[
        column!(cell.frame, "frame", "", "number of the frame, from 0"),
        column!(from, "from_ps", "ps", "when the frame begins"),
        column!(until, "until_ps", "ps", "when the frame ends"),
        column!(cell.port, "port", "", "number of the output port, as in `ports.parquet`"),
        column!(cell.did.sent_bytes, "sent_bytes", "bytes", "bytes sent in the frame, framing and pause frames included, each packet split where frames end"),
        column!(cell.did.busy, "busy_ps", "ps", "time that it was sending"),
        column!(cell.did.queue_bytes, "queue_bytes", "bytes", "most bytes that waited at any time, without the packet being sent"),
        column!(cell.did.queue_packets, "queue_packets", "packets", "most packets that waited at any time, without the one being sent"),
        column!(cell.did.drops, "drops", "packets", "packets dropped by its queue"),
        column!(cell.did.losses, "losses", "packets", "packets lost on its link"),
        column!(cell.did.trims, "trims", "packets", "packets trimmed by its queue"),
        column!(cell.did.bounces, "bounces", "packets", "headers returned to their sender"),
        column!(cell.did.marks, "marks", "packets", "packets ECN-marked by its queue"),
        column!(cell.did.pauses, "pauses", "", "pause frames that stopped a class of it"),
        column!(cell.did.paused, "paused_ps", "ps", "time that at least one class was paused"),
        column!(cell.did.grants, "grants", "", "times that its controller granted more in total (D3, RCPdc) or let one more flow send (PDQ)"),
        column!(cell.did.granted, "granted_bps", "bit/s", "most that its controller had granted in total (D3, RCPdc)"),
    ];
}

/// Writes `network.parquet`.
pub(crate) fn write_network(
    out: impl Write + Send,
    about: &About,
    trace: &NetworkTrace,
) -> parquet::errors::Result<()> {
    let row = |cell: &PortFrame| {
        let (from, until) = trace.span(cell.frame);
        FrameRow { from, until, cell: *cell }
    };
    write_table(out, about, &trace.cells.iter().map(row).collect::<Vec<_>>())
}

/// Reads `network.parquet`.
pub(crate) fn read_network(path: &Path) -> Result<NetworkTrace, ReadError> {
    let rows: Vec<FrameRow> = read_table(path)?;
    // Every frame is as long as the first, and the file always has the last.
    let frame = rows.last().map_or(Duration::ZERO, |row| match row.cell.frame {
        0 => row.until - Instant::ZERO,
        n => (row.from - Instant::ZERO) / u64::from(n),
    });
    let ended_at = rows.iter().map(|row| row.until).max().unwrap_or_default();
    Ok(NetworkTrace { frame, ended_at, cells: rows.into_iter().map(|row| row.cell).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::{PortId, Rate};
    use punctual_record::Activity;

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
        // A run shorter than a frame has one frame.
        let ended_at = Instant::from_picos(1_500);
        let cells = vec![cell(0, 0, did)];
        let short = NetworkTrace { frame: Duration::from_micros(2), ended_at, cells };
        write_network(std::fs::File::create(&path).unwrap(), &[], &short).unwrap();
        let read = read_network(&path).unwrap();
        assert_eq!((read.frames(), read.span(0)), (1, (Instant::ZERO, ended_at)));
    }
}
