//! Counters by port and by host.

use serde::Serialize;

/// What happened at an output port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PortCounters {
    /// Packets for which the queue had no room.
    pub drops: u64,
    /// Packets trimmed to their header.
    pub trims: u64,
    /// Packets marked with ECN.
    pub marks: u64,
    /// Headers returned to their sender.
    pub bounces: u64,
    /// Packets that its link lost, because the configuration says so.
    pub losses: u64,
    /// Packets that had no way on after the configuration changed.
    pub unroutable: u64,
}

/// What happened to the frames of a host before they reached a queue, or after they left the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostCounters {
    /// Frames that the host sent.
    pub received: u64,
    /// Frames delivered to the host.
    pub delivered: u64,
    /// Frames that were copied to every other host: groups and unknown destinations.
    pub flooded: u64,
    /// Frames without a complete Ethernet header, dropped.
    pub short: u64,
    /// Frames longer than the MTU allows, dropped. The sender's segmentation offload is on.
    pub oversize: u64,
    /// Frames whose checksum the sender's kernel left to its device, dropped. The sender's transmit
    /// checksum offload is on.
    pub checksum_missing: u64,
    /// Frames to a destination at the host that sent them, dropped.
    pub returned: u64,
    /// Frames dropped because the switch holds too many.
    pub overload: u64,
    /// Packets of a transport with controllers that do not parse: forwarded unchanged.
    pub malformed: u64,
    /// Frames that could not be trimmed when they left, dropped.
    pub untrimmable: u64,
    /// Frames whose arrival time lay before the virtual clock, and counts as now.
    pub arrived_late: u64,
}

impl PortCounters {
    /// Every counter by its name, for tables and metrics.
    pub fn named(&self) -> [(&'static str, u64); 6] {
        let PortCounters { drops, trims, marks, bounces, losses, unroutable } = *self;
        [
            ("drops", drops),
            ("trims", trims),
            ("marks", marks),
            ("bounces", bounces),
            ("losses", losses),
            ("unroutable", unroutable),
        ]
    }
}

impl HostCounters {
    /// Every counter by its name, for tables and metrics.
    pub fn named(&self) -> [(&'static str, u64); 11] {
        let c = self;
        [
            ("received", c.received),
            ("delivered", c.delivered),
            ("flooded", c.flooded),
            ("short", c.short),
            ("oversize", c.oversize),
            ("checksum_missing", c.checksum_missing),
            ("returned", c.returned),
            ("overload", c.overload),
            ("malformed", c.malformed),
            ("untrimmable", c.untrimmable),
            ("arrived_late", c.arrived_late),
        ]
    }
}
