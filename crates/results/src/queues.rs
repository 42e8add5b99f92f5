//! Sampled ports, one row per port and instant.

use crate::columns::{Column, Table, column};
use punctual_record::PortSample;

#[rustfmt::skip]
impl Table for PortSample {
    const COLUMNS: &'static [Column<PortSample>] = &[
        column!(at, "at_ps", "ps", "sampling instant"),
        column!(port, "port", "", "number of the output port"),
        column!(queue_bytes, "queue_bytes", "bytes", "bytes that wait or are being sent"),
        column!(queue_packets, "queue_packets", "packets", "packets that wait or are being sent"),
        column!(sent_bytes, "sent_bytes", "bytes", "bytes sent since the start of the run"),
        column!(paused, "paused_ps", "ps", "time that a lossless switch had it paused since the start of the run"),
    ];
}
