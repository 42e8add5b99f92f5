//! Records the network in time, in memory that does not grow with the run.
//!
//! Time is cut into frames of one length. When a run outlasts as many as there may be, the length
//! doubles and each two frames become one, so that nobody has to know beforehand how long a run
//! takes.

use crate::tap::{Ending, Findings, Loss, Tap};
use punctual_core::{Class, ControllerState, Duration, Instant, Packet, PacketId, PortId, Rate};
use punctual_net::{Network, PAUSE_FRAME_BYTES};
use punctual_record::{Activity, NetworkTrace, PortFrame};

/// The length of a frame at first.
const FIRST_FRAME: Duration = Duration::from_nanos(250);
/// Frames at most: what a person can step through, and tell apart on a screen.
const MOST_FRAMES: usize = 200;
/// Frames of all ports together, at most, as far as that leaves [`FEWEST_FRAMES`].
const MOST_CELLS: usize = 32_000;
const FEWEST_FRAMES: usize = 32;

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
#[repr(align(64))]
struct PortNow {
    /// What it sent last: the run may end before that has.
    sent: Transmission,
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

impl Transmission {
    /// Bytes that are sent by an instant while it lasts.
    fn bytes_by(&self, at: Instant) -> u64 {
        if at >= self.until {
            return self.bytes;
        }
        let whole = u128::from((self.until - self.from).as_picos());
        let gone = u128::from(at.saturating_since(self.from).as_picos());
        (u128::from(self.bytes) * gone / whole) as u64
    }
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
        // Mostly it is the next: a packet goes on into it, or has come from the one before.
        let ports = self.ports.len();
        if at >= self.end
            && at < self.end + self.frame
            && self.first + 2 * ports <= self.cells.len()
        {
            (self.begin, self.end) = (self.end, self.end + self.frame);
            self.first += ports;
            return;
        }
        if at < self.begin && at + self.frame >= self.begin {
            (self.begin, self.end) =
                (Instant::from_picos(self.begin.as_picos() - self.frame.as_picos()), self.begin);
            self.first -= ports;
            return;
        }
        let frame = loop {
            let frame = (at.as_picos() / self.frame.as_picos()) as usize;
            if frame < self.most_frames {
                break frame;
            }
            self.halve();
        };
        self.first = frame * ports;
        self.begin = Instant::from_picos(frame as u64 * self.frame.as_picos());
        self.end = self.begin + self.frame;
        let used = self.first + ports;
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

    #[inline]
    fn begins(&mut self, port: PortId, sent: Transmission) {
        self.ports[port.index()].sent = sent;
        if sent.from >= self.begin && sent.until <= self.end {
            let cell = &mut self.cells[self.first + port.index()];
            cell.sent_bytes += sent.bytes;
            cell.busy += sent.until - sent.from;
        } else {
            self.record(port, sent);
        }
    }

    /// Records a transmission that may be in several frames.
    #[inline(never)]
    fn record(&mut self, port: PortId, sent: Transmission) {
        let (mut at, mut done) = (sent.from, 0);
        while at < sent.until {
            let (cell, frame_end) = self.cell_and_end(at, port);
            let stop = sent.until.min(frame_end);
            let by_then = sent.bytes_by(stop);
            cell.sent_bytes += by_then - done;
            cell.busy += stop - at;
            (at, done) = (stop, by_then);
        }
    }

    /// Takes back what a port was still to send when the run ended. Frames after the last do not
    /// count anyway.
    fn take_back(&mut self, port: PortId, end: Instant) {
        let sent = self.ports[port.index()].sent;
        let from = end.max(sent.from);
        if from < sent.until {
            let (cell, frame_end) = self.cell_and_end(from, port);
            let until = sent.until.min(frame_end);
            cell.sent_bytes -= sent.bytes_by(until) - sent.bytes_by(from);
            cell.busy = cell.busy.saturating_sub(until - from);
        }
    }

    /// A queue has stayed as it is until now: it was as long in every frame since.
    #[inline]
    fn stood(&mut self, port: PortId, until: Instant) {
        let state = &mut self.ports[port.index()];
        let PortNow { queue_bytes, queue_packets, queue_since, .. } = *state;
        state.queue_since = until;
        // A queue that began to be so within this frame is in it already, or a longer one.
        let is_known = queue_since > self.begin && until <= self.end;
        if queue_packets > 0 && !is_known {
            self.stood_over(port, (queue_bytes, queue_packets), queue_since, until);
        }
    }

    #[inline(never)]
    fn stood_over(
        &mut self,
        port: PortId,
        (queue_bytes, queue_packets): (u64, u32),
        since: Instant,
        until: Instant,
    ) {
        let mut at = since;
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
    fn holds(&mut self, port: PortId, bytes: u64, packets: u32) {
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
        _id: PacketId,
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

    fn sends_pause(
        &mut self,
        port: PortId,
        from: Instant,
        until: Instant,
        _class: Class,
        _is_pause: bool,
    ) {
        let bytes = u64::from(PAUSE_FRAME_BYTES) + self.framing;
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

    fn trimmed(&mut self, port: PortId, _id: PacketId, _packet: &Packet) {
        self.cell(self.now, port).trims += 1;
    }

    fn marked(&mut self, port: PortId, _packet: &Packet) {
        self.cell(self.now, port).marks += 1;
    }

    fn bounced(&mut self, port: PortId, _id: PacketId, _packet: &Packet) {
        self.cell(self.now, port).bounces += 1;
    }

    fn lost(&mut self, port: PortId, _id: PacketId, _packet: &Packet, why: Loss) {
        match why {
            Loss::Dropped => self.cell(self.now, port).drops += 1,
            Loss::OnLink => self.cell(self.now, port).losses += 1,
            Loss::Stray => {}
        }
    }

    fn conclude(&mut self, end: &Ending<'_>, findings: &mut Findings) {
        for p in 0..self.ports.len() {
            let port = PortId::from(p);
            self.take_back(port, end.at);
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
#[path = "recorder_tests.rs"]
mod tests;
