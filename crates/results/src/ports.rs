//! Every output port of a run: where it is and what it sent, one row per port.

use crate::columns::{Column, Table, column};
use punctual_core::{Duration, PortId, Rate};

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
    /// Bytes sent in the measured window.
    pub sent_bytes: u64,
    /// Packets sent in the measured window.
    pub sent_packets: u64,
    /// The share of its rate that `sent_bytes` took; none when no time was measured.
    pub utilisation: Option<f64>,
    /// Packets dropped.
    pub drops: u64,
    /// Packets trimmed.
    pub trims: u64,
    /// Headers returned to their sender.
    pub bounces: u64,
    /// Packets ECN-marked.
    pub marks: u64,
    /// Time that it was paused.
    pub paused: Duration,
}

#[rustfmt::skip]
impl Table for PortRow {
    const COLUMNS: &'static [Column<PortRow>] = &[
        column!(port, "port", "", "number of the output port, as in the other files"),
        column!(from, "from", "", "name of the node that the port belongs to"),
        column!(to, "to", "", "name of the node that its link leads to"),
        column!(tier, "tier", "", "`host-up`, `rack-up`, `pod-up`, `core-down`, `pod-down`, `host-down` or `middle`"),
        column!(rate, "rate_bps", "bit/s", "link rate at the start of the run"),
        column!(delay, "delay_ps", "ps", "from the last bit sent to the packet ready in the next node"),
        column!(sent_bytes, "sent_bytes", "bytes", "bytes sent in the measured window, framing included"),
        column!(sent_packets, "sent_packets", "packets", "packets sent in the measured window; a trimmed packet counts, a pause frame does not"),
        column!(utilisation, "utilisation", "", "share of the link rate that `sent_bytes` took; null when no time was measured"),
        column!(drops, "drops", "packets", "packets dropped by its queue in the measured window"),
        column!(trims, "trims", "packets", "packets trimmed by its queue in the measured window"),
        column!(bounces, "bounces", "packets", "headers that it returned to their sender in the measured window"),
        column!(marks, "marks", "packets", "packets ECN-marked by its queue in the measured window"),
        column!(paused, "paused_ps", "ps", "time that it was paused in the measured window"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet_io::{read_table, write_table};

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
            sent_packets: 7,
            utilisation,
            drops: 1,
            trims: 2,
            bounces: 4,
            marks: 5,
            paused: Duration::from_picos(3),
        };
        let rows = [row(0, Some(0.1 + 0.2)), row(u32::MAX, None)];
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("ports.parquet");
        write_table(std::fs::File::create(&path).unwrap(), &[], &rows).unwrap();
        assert_eq!(read_table::<PortRow>(&path).unwrap(), rows);
    }
}
