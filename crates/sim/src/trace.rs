//! What every port did, frame by frame: the network in time, in memory that does not grow with
//! the run.
//!
//! Time is cut into frames of one length. When a run outlasts as many as there may be, the length
//! doubles and each two frames become one, so that nobody has to know beforehand how long a run
//! takes.

use crate::tap::{Ending, Findings, Loss, Tap};
use punctual_core::{Class, ControllerState, Duration, Instant, Packet, PortId, Rate};
use punctual_net::Network;

/// The length of a frame at first.
const FIRST_FRAME: Duration = Duration::from_nanos(250);
/// Frames at most: what a person can step through, and tell apart on a screen.
const MOST_FRAMES: usize = 200;
/// Frames of all ports together, at most, as far as that leaves [`FEWEST_FRAMES`].
const MOST_CELLS: usize = 32_000;
const FEWEST_FRAMES: usize = 32;

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

/// Records what every port does.
#[derive(Debug)]
pub(crate) struct Recorder {
    now: Instant,
    framing: u64,
    most_frames: usize,
    frame: Duration,
    /// By frame, then port.
    cells: Vec<Activity>,
    /// The frame used last: when it begins and ends, and its first cell. Most of what is recorded
    /// is in the same frame as what was recorded before.
    begin: Instant,
    end: Instant,
    first: usize,
    ports: Vec<PortNow>,
}

/// How a port stands.
#[derive(Debug, Clone, Copy, Default)]
struct PortNow {
    /// Recorded when the next begins: the run may end before it does.
    sending: Transmission,
    queue_bytes: u64,
    queue_packets: u32,
    /// A bit for each class that is paused.
    paused: u8,
    /// Since when it has that queue.
    queue_since: Instant,
    paused_since: Instant,
    sending_flows: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Transmission {
    from: Instant,
    until: Instant,
    bytes: u64,
}

impl Recorder {
    pub(crate) fn new(network: &Network) -> Recorder {
        let frames = MOST_CELLS / network.links.len().max(1);
        Recorder::with_frames(network, frames.clamp(FEWEST_FRAMES, MOST_FRAMES))
    }

    fn with_frames(network: &Network, most_frames: usize) -> Recorder {
        let ports = network.links.len();
        Recorder {
            now: Instant::ZERO,
            framing: network.framing.get(),
            most_frames,
            frame: FIRST_FRAME,
            cells: vec![Activity::default(); ports],
            begin: Instant::ZERO,
            end: Instant::ZERO + FIRST_FRAME,
            first: 0,
            ports: vec![PortNow::default(); ports],
        }
    }

    /// What a port does in the frame of an instant, and when that frame ends.
    #[inline]
    fn cell_and_end(&mut self, at: Instant, port: PortId) -> (&mut Activity, Instant) {
        if at < self.begin || at >= self.end {
            self.turn_to(at);
        }
        (&mut self.cells[self.first + port.index()], self.end)
    }

    #[inline]
    fn cell(&mut self, at: Instant, port: PortId) -> &mut Activity {
        self.cell_and_end(at, port).0
    }

    /// Makes the frame of an instant the one in use.
    #[inline(never)]
    fn turn_to(&mut self, at: Instant) {
        let frame = loop {
            let frame = (at.as_picos() / self.frame.as_picos()) as usize;
            if frame < self.most_frames {
                break frame;
            }
            self.halve();
        };
        self.first = frame * self.ports.len();
        self.begin = Instant::from_picos(frame as u64 * self.frame.as_picos());
        self.end = self.begin + self.frame;
        let used = self.first + self.ports.len();
        if self.cells.len() < used {
            self.cells.resize(used, Activity::default());
        }
    }

    /// Makes one frame of each two.
    fn halve(&mut self) {
        let ports = self.ports.len();
        let frames = self.cells.len() / ports.max(1);
        for frame in 0..frames {
            for port in 0..ports {
                let own = self.cells[frame * ports + port];
                let to = &mut self.cells[frame / 2 * ports + port];
                if frame % 2 == 0 { *to = own } else { to.join(&own) }
            }
        }
        self.cells.truncate(frames.div_ceil(2) * ports);
        self.frame = self.frame + self.frame;
    }

    /// Records the part of a transmission that is before `end`.
    fn record(&mut self, port: PortId, sent: Transmission, end: Instant) {
        let until = sent.until.min(end);
        let whole = u128::from(sent.until.saturating_since(sent.from).as_picos());
        let (mut at, mut done) = (sent.from, 0);
        while at < until {
            let (cell, frame_end) = self.cell_and_end(at, port);
            let stop = until.min(frame_end);
            let by_then = if stop == sent.until {
                sent.bytes
            } else {
                let gone = u128::from((stop - sent.from).as_picos());
                (u128::from(sent.bytes) * gone / whole) as u64
            };
            cell.sent_bytes += by_then - done;
            cell.busy += stop - at;
            (at, done) = (stop, by_then);
        }
    }

    fn begins(&mut self, port: PortId, next: Transmission) {
        let before = std::mem::replace(&mut self.ports[port.index()].sending, next);
        self.record(port, before, Instant::NEVER);
    }

    /// A queue has stayed as it is until now: it was as long in every frame since.
    #[inline]
    fn stood(&mut self, port: PortId, until: Instant) {
        let PortNow { queue_bytes, queue_packets, queue_since, .. } = self.ports[port.index()];
        self.ports[port.index()].queue_since = until;
        if queue_packets == 0 {
            return;
        }
        let mut at = queue_since;
        while at < until {
            let (cell, frame_end) = self.cell_and_end(at, port);
            cell.queue_bytes = cell.queue_bytes.max(queue_bytes);
            cell.queue_packets = cell.queue_packets.max(queue_packets);
            at = frame_end;
        }
    }

    /// A pause has lasted until now.
    fn paused_until(&mut self, port: PortId, until: Instant) {
        let state = &mut self.ports[port.index()];
        let mut at = std::mem::replace(&mut state.paused_since, until);
        if state.paused == 0 {
            return;
        }
        while at < until {
            let (cell, frame_end) = self.cell_and_end(at, port);
            let stop = until.min(frame_end);
            cell.paused += stop - at;
            at = stop;
        }
    }
}

impl Tap for Recorder {
    const WATCHES_CONTROLLERS: bool = true;
    const WATCHES_QUEUES: bool = true;

    fn event(&mut self, at: Instant) {
        self.now = at;
    }

    #[inline]
    fn waits(&mut self, port: PortId, bytes: u64, packets: u32) {
        self.stood(port, self.now);
        let state = &mut self.ports[port.index()];
        (state.queue_bytes, state.queue_packets) = (bytes, packets);
        let cell = self.cell(self.now, port);
        cell.queue_bytes = cell.queue_bytes.max(bytes);
        cell.queue_packets = cell.queue_packets.max(packets);
    }

    #[inline]
    fn sends(
        &mut self,
        port: PortId,
        packet: &Packet,
        from: Instant,
        until: Instant,
        waited: bool,
    ) {
        if waited {
            self.stood(port, from);
            let state = &mut self.ports[port.index()];
            state.queue_bytes = state.queue_bytes.saturating_sub(u64::from(packet.wire_bytes));
            state.queue_packets = state.queue_packets.saturating_sub(1);
        }
        let bytes = u64::from(packet.wire_bytes) + self.framing;
        self.begins(port, Transmission { from, until, bytes });
    }

    fn sends_pause(&mut self, port: PortId, from: Instant, until: Instant, bytes: u64) {
        self.begins(port, Transmission { from, until, bytes });
    }

    fn paused(&mut self, port: PortId, class: Class, is_pause: bool) {
        let at = self.now;
        self.paused_until(port, at);
        let state = &mut self.ports[port.index()];
        let bit = 1 << (usize::from(class.0) % Class::COUNT);
        if is_pause {
            state.paused |= bit;
            self.cell(at, port).pauses += 1;
        } else {
            state.paused &= !bit;
        }
    }

    fn controlled(&mut self, port: PortId, before: &ControllerState, after: &ControllerState) {
        let mut grants = u32::from(after.allocated > before.allocated);
        if let Some(sending) = after.sending {
            // A list may change between two packets: on the way back, or in time.
            let known = std::mem::replace(&mut self.ports[port.index()].sending_flows, sending);
            grants += u32::from(sending > known);
        }
        if grants > 0 || after.allocated > Rate::default() {
            let cell = self.cell(self.now, port);
            cell.grants += grants;
            cell.granted = cell.granted.max(after.allocated);
        }
    }

    fn trimmed(&mut self, port: PortId, _packet: &Packet) {
        self.cell(self.now, port).trims += 1;
    }

    fn marked(&mut self, port: PortId, _packet: &Packet) {
        self.cell(self.now, port).marks += 1;
    }

    fn bounced(&mut self, port: PortId, _packet: &Packet) {
        self.cell(self.now, port).bounces += 1;
    }

    fn lost(&mut self, port: PortId, _packet: &Packet, why: Loss) {
        match why {
            Loss::Dropped => self.cell(self.now, port).drops += 1,
            Loss::OnLink => self.cell(self.now, port).losses += 1,
            Loss::Stray => {}
        }
    }

    fn conclude(&mut self, end: &Ending, findings: &mut Findings) {
        for p in 0..self.ports.len() {
            let port = PortId::from(p);
            let last = std::mem::take(&mut self.ports[p].sending);
            self.record(port, last, end.at);
            self.stood(port, end.at);
            self.paused_until(port, end.at);
        }
        // The last frame, whatever happened in it, so that there are no more than there may be.
        self.turn_to(Instant::from_picos(end.at.as_picos().saturating_sub(1)));
        let mut trace = NetworkTrace { frame: self.frame, ended_at: end.at, cells: Vec::new() };
        let last = trace.frames() - 1;
        for (place, did) in self.cells.iter().enumerate() {
            let (frame, p) = ((place / self.ports.len()) as u32, place % self.ports.len());
            let is_shown = *did != Activity::default() || (frame, p) == (last, 0);
            if frame <= last && is_shown {
                trace.cells.push(PortFrame { frame, port: PortId::from(p), did: *did });
            }
        }
        findings.network = Some(trace);
    }
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
