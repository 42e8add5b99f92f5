//! The network in time: what every port did, frame by frame.

use punctual_core::{Duration, Instant, PortId, Rate};

/// What all ports did in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkTrace {
    /// The length of a frame; the last may be shorter.
    pub frame: Duration,
    /// The end of the run.
    pub ended_at: Instant,
    /// By frame, then port; those in which nothing happened are left out, but for the first port
    /// of the last frame.
    pub cells: Vec<PortFrame>,
}

impl NetworkTrace {
    /// How many frames the run has.
    pub fn frames(&self) -> u32 {
        let frames = self.ended_at.as_picos().div_ceil(self.frame.as_picos().max(1));
        u32::try_from(frames.max(1)).unwrap_or(u32::MAX)
    }

    /// From when to when a frame is.
    pub fn span(&self, frame: u32) -> (Instant, Instant) {
        let from = Instant::from_picos(self.frame.as_picos() * u64::from(frame));
        (from, (from + self.frame).min(self.ended_at))
    }
}

/// What a port did in a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortFrame {
    /// Which frame, from 0.
    pub frame: u32,
    /// Which port.
    pub port: PortId,
    /// What it did.
    pub did: Activity,
}

/// What a port did in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Bytes sent, framing and pause frames included. Of a packet that is sent in two frames each
    /// has its part.
    pub sent_bytes: u64,
    /// Time that it was sending.
    pub busy: Duration,
    /// The most bytes that waited, the packet in service not included.
    pub queue_bytes: u64,
    /// The most packets that waited.
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
    /// Times that it was told to pause a class.
    pub pauses: u32,
    /// Time that some class of it was paused.
    pub paused: Duration,
    /// Times that its controller granted more than before, or let one more flow send.
    pub grants: u32,
    /// The most that its controller had granted in all.
    pub granted: Rate,
}

impl Activity {
    /// Adds what happened later: counts and times add up, of lengths and rates the greater stays.
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
