//! Records the activity of every port over time, in memory that does not grow with the run.
//!
//! Time is divided into frames of equal length. When a run exceeds the maximum number of frames,
//! the length doubles and pairs of frames are merged. So the length of a run need not be known in
//! advance.

use crate::tap::{Ending, Findings, Loss, Observation, PacketFate, Tap};
use punctual_core::{Class, ControllerState, Duration, Instant, Packet, PortId, Rate};
use punctual_net::{Network, PAUSE_FRAME_BYTES};
use punctual_record::{Activity, NetworkTrace, PortFrame};

/// The initial length of a frame.
const FIRST_FRAME: Duration = Duration::from_nanos(250);
/// The maximum number of frames: what a person can step through and distinguish on a screen.
const MOST_FRAMES: usize = 200;
/// The maximum number of frames times ports, unless that leaves fewer than [`FEWEST_FRAMES`].
const MOST_CELLS: usize = 32_000;
const FEWEST_FRAMES: usize = 32;

/// The observer that records the activity of every port.
#[derive(Debug)]
pub(crate) struct Recorder {
    now: Instant,
    framing: u64,
    most_frames: usize,
    frame: Duration,
    /// By frame, then port.
    cells: Vec<Activity>,
    /// The frame used last: when it begins and ends, and its first cell.
    ///
    /// Most records are in the frame of the record before.
    begin: Instant,
    end: Instant,
    first: usize,
    ports: Vec<PortNow>,
}

/// The current state of a port.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct PortNow {
    /// Its last transmission, which may last longer than the run.
    sent: Transmission,
    queue_bytes: u64,
    queue_packets: u32,
    /// A bit for each class that is paused.
    paused: u8,
    /// Since when the queue has had its current length.
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
    /// Bytes sent by an instant during the transmission.
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

    /// The activity of a port in the frame of an instant, and when that frame ends.
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

    /// Moves to the frame of an instant.
    #[inline(never)]
    fn turn_to(&mut self, at: Instant) {
        // Usually it is the next frame or the one before, because transmissions cross frames.
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

    /// Merges pairs of frames.
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

    /// Records a transmission that may cross frames.
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

    /// Subtracts what a port had not yet sent when the run ended.
    ///
    /// Frames after the last are dropped anyway.
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

    /// Records that a queue kept its length until now, in every frame since it got that length.
    #[inline]
    fn stood(&mut self, port: PortId, until: Instant) {
        let state = &mut self.ports[port.index()];
        let PortNow { queue_bytes, queue_packets, queue_since, .. } = *state;
        state.queue_since = until;
        // The frame has it already if the queue got this length within the frame.
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

    /// Records that a pause lasted until now.
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

    #[inline(always)]
    fn observe(&mut self, what: Observation<'_>) {
        match what {
            Observation::EventBegins { at } => self.event_begins(at),
            Observation::QueueLength { port, bytes, packets } => {
                self.queue_length(port, bytes, packets);
            }
            Observation::PacketSent { port, packet, from, until, waited, .. } => {
                self.packet_sent(port, packet, from, until, waited);
            }
            Observation::PacketFate { port, fate, .. } => self.packet_fate(port, fate),
            Observation::PacketControlled { port, before, after } => {
                self.packet_controlled(port, before, after);
            }
            Observation::PauseSent { port, from, until, .. } => self.pause_sent(port, from, until),
            Observation::ClassPaused { port, class, is_pause } => {
                self.class_paused(port, class, is_pause);
            }
            _ => {}
        }
    }

    fn adopt(&mut self, mut other: Self, is_theirs: &dyn Fn(PortId) -> bool) {
        while self.frame < other.frame {
            self.halve();
        }
        while other.frame < self.frame {
            other.halve();
        }
        if self.cells.len() < other.cells.len() {
            self.cells.resize(other.cells.len(), Activity::default());
        }
        // A packet that a link loses is recorded where the link ends.
        for (own, their) in self.cells.iter_mut().zip(&other.cells) {
            own.join(their);
        }
        for (port, state) in other.ports.into_iter().enumerate() {
            if is_theirs(PortId::from(port)) {
                self.ports[port] = state;
            }
        }
        (self.begin, self.end, self.first) = (Instant::ZERO, Instant::ZERO + self.frame, 0);
    }

    fn conclude(&mut self, end: &Ending<'_>, findings: &mut Findings) {
        for p in 0..self.ports.len() {
            let port = PortId::from(p);
            self.take_back(port, end.at);
            self.stood(port, end.at);
            self.paused_until(port, end.at);
        }
        // Move to the last frame, even if empty: frames are merged if there are too many.
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

impl Recorder {
    #[inline]
    fn event_begins(&mut self, at: Instant) {
        self.now = at;
    }

    #[inline]
    fn queue_length(&mut self, port: PortId, bytes: u64, packets: u32) {
        self.stood(port, self.now);
        let state = &mut self.ports[port.index()];
        (state.queue_bytes, state.queue_packets) = (bytes, packets);
        let cell = self.cell(self.now, port);
        cell.queue_bytes = cell.queue_bytes.max(bytes);
        cell.queue_packets = cell.queue_packets.max(packets);
    }

    #[inline]
    fn packet_sent(
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

    fn pause_sent(&mut self, port: PortId, from: Instant, until: Instant) {
        let bytes = u64::from(PAUSE_FRAME_BYTES) + self.framing;
        self.begins(port, Transmission { from, until, bytes });
    }

    fn class_paused(&mut self, port: PortId, class: Class, is_pause: bool) {
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

    fn packet_controlled(
        &mut self,
        port: PortId,
        before: &ControllerState,
        after: &ControllerState,
    ) {
        let mut grants = u32::from(after.allocated > before.allocated);
        if let Some(sending) = after.sending {
            // The list of sending flows may also change between packets: by answers or timeouts.
            let known = std::mem::replace(&mut self.ports[port.index()].sending_flows, sending);
            grants += u32::from(sending > known);
        }
        if grants > 0 || after.allocated > Rate::default() {
            let cell = self.cell(self.now, port);
            cell.grants += grants;
            cell.granted = cell.granted.max(after.allocated);
        }
    }

    fn packet_fate(&mut self, port: PortId, fate: PacketFate) {
        let at = self.now;
        match fate {
            PacketFate::Marked => self.cell(at, port).marks += 1,
            PacketFate::Trimmed { .. } => self.cell(at, port).trims += 1,
            PacketFate::Bounced => self.cell(at, port).bounces += 1,
            PacketFate::Lost(Loss::Dropped) => self.cell(at, port).drops += 1,
            PacketFate::Lost(Loss::OnLink) => self.cell(at, port).losses += 1,
            PacketFate::Lost(Loss::Stray) => {}
        }
    }
}

#[cfg(test)]
mod tests;
