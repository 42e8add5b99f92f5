//! Pauses by lossless switches, one row per port and class that was paused.

use crate::columns::{Column, Table, column};
use punctual_core::PortId;
use punctual_record::{Outcome, PortPauses};

/// The pauses of one class at one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PauseRow {
    /// The nodes at both ends of the port's link, such as `tor 0 → host 3`.
    pub name: String,
    /// Where in the network it is, such as `host-down`.
    pub tier: String,
    /// How often and how long.
    pub pauses: PortPauses,
}

impl PauseRow {
    /// The pauses of a run, by port then class. `describe` gives a port's name and tier.
    pub fn all(outcome: &Outcome, describe: impl Fn(PortId) -> (String, String)) -> Vec<PauseRow> {
        let row = |pauses: &PortPauses| {
            let (name, tier) = describe(pauses.port);
            PauseRow { name, tier, pauses: *pauses }
        };
        outcome.pauses.iter().map(row).collect()
    }
}

#[rustfmt::skip]
impl Table for PauseRow {
    const COLUMNS: &'static [Column<PauseRow>] = &[
        column!(pauses.port, "port", "", "number of the output port that was paused, NICs included"),
        column!(name, "name", "", "nodes at the two ends of its link"),
        column!(tier, "tier", "", "tier of the port, as in `ports.parquet`"),
        column!(pauses.class, "class", "", "service class that was paused"),
        column!(pauses.pauses, "pauses", "", "how often it was paused"),
        column!(pauses.time, "paused_ps", "ps", "time that it was paused in total"),
        column!(pauses.longest, "longest_ps", "ps", "longest single pause"),
        column!(pauses.lasts, "lasts", "", "whether it was paused when the run ended; that pause is counted"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet_io::{read_table, write_table};
    use punctual_core::{Class, Duration};

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
        write_table(std::fs::File::create(&path).unwrap(), &[], &rows).unwrap();
        assert_eq!(read_table::<PauseRow>(&path).unwrap(), rows);
    }
}
