//! The activity of every port over time, frame by frame.

use punctual_core::{Duration, Instant, PortId, Rate};

/// The activity of all ports over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkTrace {
    /// The length of a frame; the last may be shorter.
    pub frame: Duration,
    /// The end of the run.
    pub ended_at: Instant,
    /// By frame, then port. Cells without activity are left out, except the first port of the last
    /// frame.
    pub cells: Vec<PortFrame>,
}

impl NetworkTrace {
    /// The number of frames.
    pub fn frames(&self) -> u32 {
        let frames = self.ended_at.as_picos().div_ceil(self.frame.as_picos().max(1));
        u32::try_from(frames.max(1)).unwrap_or(u32::MAX)
    }

    /// The start and the end of a frame.
    pub fn span(&self, frame: u32) -> (Instant, Instant) {
        let from = Instant::from_picos(self.frame.as_picos() * u64::from(frame));
        (from, (from + self.frame).min(self.ended_at))
    }
}

/// The activity of a port in a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortFrame {
    /// The number of the frame, from 0.
    pub frame: u32,
    /// Which port.
    pub port: PortId,
    /// Its activity.
    pub did: Activity,
}

/// The activity of a port in an interval of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Bytes sent, framing and pause frames included. A packet sent in two frames is split.
    pub sent_bytes: u64,
    /// Time that it was sending.
    pub busy: Duration,
    /// The maximum number of waiting bytes, without the packet in service.
    pub queue_bytes: u64,
    /// The maximum number of waiting packets, without the one in service.
    pub queue_packets: u32,
    /// Packets dropped by its queue.
    pub drops: u32,
    /// Packets lost on its link.
    pub losses: u32,
    /// Packets trimmed.
    pub trims: u32,
    /// Headers returned to their sender.
    pub bounces: u32,
    /// Packets ECN-marked.
    pub marks: u32,
    /// How often a pause frame paused a class of it.
    pub pauses: u32,
    /// Time that at least one class was paused.
    pub paused: Duration,
    /// How often its controller granted more in total, or let one more flow send.
    pub grants: u32,
    /// The maximum that its controller had granted in total.
    pub granted: Rate,
}

impl Activity {
    /// Adds later activity: counts and times add up; queue lengths and rates are maxima.
    pub fn join(&mut self, later: &Activity) {
        self.sent_bytes += later.sent_bytes;
        self.busy += later.busy;
        self.queue_bytes = self.queue_bytes.max(later.queue_bytes);
        self.queue_packets = self.queue_packets.max(later.queue_packets);
        self.drops += later.drops;
        self.losses += later.losses;
        self.trims += later.trims;
        self.bounces += later.bounces;
        self.marks += later.marks;
        self.pauses += later.pauses;
        self.paused += later.paused;
        self.grants += later.grants;
        self.granted = self.granted.max(later.granted);
    }
}
