//! The pull queue: one per host, shared by all flows that the host receives, and paced at the rate
//! of the host's link. A host with several interfaces has one queue for all, paced at the sum of
//! their rates: the paths of a flow end at different interfaces.

use super::header::kind;
use super::timewait::TimeWait;
use super::window::{Arrival, PathWindow};
use super::{NdpConfig, NdpHeader};
use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, Class, Duration, FlowId, FlowRoute, HostCx, HostId, Instant, LineRate, NicInfo, Packet,
    PacketFlags, Slab,
};
use std::collections::VecDeque;

/// Queued pulls: by strict priority of classes, round-robin within a class.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct PullQueue {
    // What every packet needs is first, see `Stack::prefetch_host`.
    /// The next pull may leave from here on.
    next_at: Instant,
    spacing: Duration,
    /// How late a pull may be and still keep its slot.
    lateness_max: Duration,
    jitter: Option<Box<Jitter>>,
    lines: Slab<PairPath>,
    /// By class, the last line with pulls waiting. From it [`PairPath::next`] leads to the first.
    last: [u32; Class::COUNT],
    /// A bit for each class with pulls waiting.
    classes: u8,
    /// Whether answers go back on the path their data took, rather than on each in turn.
    echoes_paths: bool,
    /// Whether trimmed headers delay pulls.
    charges_headers: bool,
    payload: u64,
    /// The initial and the largest window, in packets, if windows follow their paths.
    window: Option<(u32, u32)>,
    /// Lines with spare pulls, which are sent when no other pull waits, in order of service.
    spare: VecDeque<u32>,
    /// Connections of this host that have just ended, as sender or receiver.
    pub(super) time_wait: TimeWait,
    rate: LineRate,
    framing: Bytes,
}

/// Random times between pulls, as measured on hosts.
#[derive(Debug)]
struct Jitter {
    table: Vec<(f64, Duration)>,
    stream: Stream,
}

/// One receiving flow's place in the queue.
#[derive(Debug)]
struct PairPath {
    /// The line that is served after this one, while pulls wait.
    next: u32,
    flow: FlowId,
    peer: HostId,
    paths: u32,
    next_path: u32,
    /// The number that the last pull sent carried.
    sent: u32,
    /// Pulls waiting.
    pending: u32,
    /// Spare pulls waiting.
    spare: u32,
    /// The window, if it follows the path.
    window: Option<Box<PathWindow>>,
    /// How urgent: lower goes first.
    class: u8,
    /// The path by which a packet came last.
    path: u16,
    /// Every packet numbered below this has arrived.
    cumulative: u64,
}

impl PullQueue {
    pub(super) fn new(config: &NdpConfig, nic: &NicInfo) -> Self {
        PullQueue {
            spacing: config.spacing_for(nic),
            lateness_max: config.spacing_for(nic).saturating_mul(config.pull_burst.into()),
            rate: LineRate::new(nic.total_rate()),
            framing: nic.framing,
            charges_headers: config.charges_headers(),
            payload: config.payload_for(nic.mtu),
            lines: Slab::default(),
            last: [0; Class::COUNT],
            classes: 0,
            spare: VecDeque::new(),
            window: config.path_window.map(|most| (config.initial_window, most)),
            next_at: Instant::ZERO,
            jitter: (!config.pull_jitter.is_empty()).then(|| {
                // A stream for each host; the first flow makes it one for each run too.
                let stream = Stream::named(u64::from(nic.host.0), "pull spacing", 0);
                Box::new(Jitter { table: config.pull_jitter.clone(), stream })
            }),
            echoes_paths: config.echoes_paths(),
            time_wait: TimeWait::new(config.time_wait),
        }
    }

    /// Data bytes in a full packet on this interface.
    pub(super) fn payload(&self) -> u64 {
        self.payload
    }

    /// Pulls waiting, of all flows.
    pub fn pending(&self) -> u32 {
        let classes = (0..Class::COUNT).filter(|class| self.classes >> class & 1 == 1);
        classes.flat_map(|class| self.waiting(class)).map(|line| self.line(line).pending).sum()
    }

    /// The lines of a class with pulls waiting, in order of service. The class has some.
    fn waiting(&self, class: usize) -> impl Iterator<Item = u32> + '_ {
        let last = self.last[class];
        let first = self.line(last).next;
        std::iter::successors(Some(first), move |line| {
            (*line != last).then(|| self.line(*line).next)
        })
    }

    /// A line that waits, hence is open.
    fn line(&self, line: u32) -> &PairPath {
        self.lines.get(line).expect("a waiting line is open")
    }

    fn line_mut(&mut self, line: u32) -> &mut PairPath {
        self.lines.get_mut(line).expect("a waiting line is open")
    }

    pub(super) fn open(&mut self, flow: FlowId, class: u8, route: &FlowRoute, now: Instant) -> u32 {
        let window = self.window;
        if let Some(jitter) = &mut self.jitter {
            jitter.stream = Stream::from_seed(jitter.stream.bits() ^ route.seed);
        }
        self.lines.insert(PairPath {
            next: 0,
            flow,
            peer: route.peer,
            paths: route.paths,
            next_path: route.ecmp_path,
            sent: 0,
            pending: 0,
            spare: 0,
            window: window.map(|(initial, most)| Box::new(PathWindow::new(initial, most, now))),
            class: class % Class::COUNT as u8,
            path: 0,
            cumulative: 0,
        })
    }

    /// Adds a pull for a flow whose packets below `cumulative` have arrived, and one just now on
    /// `path`. Returns its number if it may leave immediately, with the ACK or NACK being sent.
    /// Otherwise it waits, and the host's timer must fire at [`PullQueue::next_at`].
    // NDP-R11, NDP-R12
    #[inline]
    pub(super) fn add(
        &mut self,
        line: u32,
        cumulative: u64,
        path: u16,
        now: Instant,
    ) -> Option<u32> {
        let entry = self.lines.get_mut(line)?;
        (entry.cumulative, entry.path) = (cumulative, path);
        if self.classes == 0 && now >= self.next_at {
            entry.sent = entry.sent.wrapping_add(1);
            let sent = entry.sent;
            self.take_slot(now);
            return Some(sent);
        }
        entry.pending += 1;
        if entry.pending == 1 {
            let class = entry.class;
            self.wait(class, line);
        }
        None
    }

    /// Adds the pulls for an arrival that the flow's window allows; otherwise as
    /// [`PullQueue::add`].
    // NDP-R28
    #[cold]
    pub(super) fn add_within_window(
        &mut self,
        line: u32,
        cumulative: u64,
        path: u16,
        arrival: &Arrival,
        now: Instant,
    ) -> Option<u32> {
        let entry = self.lines.get_mut(line)?;
        (entry.cumulative, entry.path) = (cumulative, path);
        let due = entry.window.as_mut()?.arrived(arrival, now);
        if due.spare {
            entry.spare += 1;
            if entry.spare == 1 {
                self.spare.push_back(line);
            }
        }
        let sent = if due.pull { self.add(line, cumulative, path, now) } else { None };
        if let Some(number) = sent
            && let Some(window) = self.lines.get_mut(line).and_then(|l| l.window.as_mut())
        {
            window.pull_sent(number, now);
        }
        sent
    }

    /// Prefetches the line of a flow.
    #[inline]
    pub(super) fn prefetch(&self, line: u32) {
        self.lines.prefetch(line);
    }

    /// Prefetches the order in which lines are served.
    #[inline]
    pub(super) fn prefetch_next(&self) {
        if let Some(last) = self.last.get(self.classes.trailing_zeros() as usize) {
            self.lines.prefetch(*last);
        }
        // Hosts with few flows have few lines.
        self.lines.prefetch(0);
    }

    /// Whether windows follow their paths.
    #[inline]
    pub(super) fn follows_paths(&self) -> bool {
        self.window.is_some()
    }

    /// A packet of a flow arrived and was refused.
    pub(super) fn note_refused(&mut self, line: u32) {
        if let Some(window) = self.lines.get_mut(line).and_then(|l| l.window.as_mut()) {
            window.refused();
        }
    }

    /// Adds pulls for a flow that are sent on their own.
    pub(super) fn add_waiting(&mut self, line: u32, pulls: u32) {
        let Some(entry) = self.lines.get_mut(line) else { return };
        if let Some(window) = &mut entry.window {
            window.add_pulls(pulls);
        }
        entry.pending += pulls;
        if pulls > 0 && entry.pending == pulls {
            let class = entry.class;
            self.wait(class, line);
        }
    }

    /// Puts a line behind those of its class with pulls waiting.
    #[inline]
    fn wait(&mut self, class: u8, line: u32) {
        let last = std::mem::replace(&mut self.last[usize::from(class)], line);
        let first = if self.classes >> class & 1 == 0 {
            self.classes |= 1 << class;
            line
        } else {
            std::mem::replace(&mut self.line_mut(last).next, line)
        };
        self.line_mut(line).next = first;
    }

    /// Takes a pull of the line whose turn it is: the first of the most urgent class.
    // NDP-R13, NDP-R20
    #[inline]
    fn take_turn(&mut self) -> Option<u32> {
        if self.classes == 0 {
            return None;
        }
        let class = self.classes.trailing_zeros() as usize;
        let last = self.last[class];
        let line = self.line(last).next;
        let entry = self.line_mut(line);
        entry.pending -= 1;
        if entry.pending > 0 {
            self.last[class] = line;
        } else {
            self.remove_after(last, class);
        }
        Some(line)
    }

    /// Removes the line after this one from the lines of a class with pulls waiting.
    #[inline]
    fn remove_after(&mut self, before: u32, class: usize) {
        let line = self.line(before).next;
        if line == before {
            self.classes &= !(1 << class);
            return;
        }
        self.line_mut(before).next = self.line(line).next;
        if self.last[class] == line {
            self.last[class] = before;
        }
    }

    /// Takes a spare pull of the line whose turn it is, when no other pull waits.
    // NDP-R28
    fn take_spare(&mut self) -> Option<u32> {
        let line = self.spare.pop_front()?;
        if let Some(entry) = self.lines.get_mut(line) {
            entry.spare -= 1;
            if entry.spare > 0 {
                self.spare.push_back(line);
            }
        }
        Some(line)
    }

    /// Whether any pull waits, spare ones included.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        self.classes != 0 || !self.spare.is_empty()
    }

    /// A pull leaves now: the next slot is one spacing after its own.
    // NDP-R31
    #[inline]
    fn take_slot(&mut self, now: Instant) {
        let earliest = now.as_picos().saturating_sub(self.lateness_max.as_picos());
        self.next_at = self.next_at.max(Instant::from_picos(earliest)) + self.draw_spacing();
    }

    /// Time from this pull to the next.
    #[inline]
    fn draw_spacing(&mut self) -> Duration {
        match &mut self.jitter {
            None => self.spacing,
            Some(jitter) => jitter.draw(),
        }
    }

    /// Delays the next pull by the transmission time of a trimmed header.
    // NDP-R27
    #[cold]
    pub(super) fn charge_header(&mut self, wire_bytes: u16) {
        if self.charges_headers {
            let on_link = Bytes::new(u64::from(wire_bytes)) + self.framing;
            self.next_at += self.rate.transmission_time(on_link);
        }
    }

    /// When the next waiting pull may leave.
    pub(super) fn next_at(&self) -> Instant {
        self.next_at
    }

    /// The number of the last pull sent for a flow that has none waiting.
    pub(super) fn last_sent(&self, line: u32) -> Option<u32> {
        self.lines.get(line).filter(|l| l.pending == 0).map(|l| l.sent)
    }

    /// Sets the path of an answer: that of its data in reverse or, if switches choose paths or it
    /// answers no data, every path in turn.
    // NDP-R25
    #[inline]
    pub(super) fn lead_back(&mut self, line: u32, answered: Option<u16>, packet: &mut Packet) {
        let Some(entry) = self.lines.get_mut(line) else { return };
        entry.lead_back(answered.filter(|_| self.echoes_paths), packet);
    }

    /// Drops the queued pulls of a completed flow.
    // NDP-R14
    pub(super) fn flush(&mut self, line: u32) {
        let Some(entry) = self.lines.get_mut(line) else { return };
        if entry.spare > 0 {
            entry.spare = 0;
            self.spare.retain(|l| *l != line);
        }
        if entry.pending > 0 {
            entry.pending = 0;
            let class = usize::from(entry.class);
            let before = self.waiting(class).find(|before| self.line(*before).next == line);
            if let Some(before) = before {
                self.remove_after(before, class);
            }
        }
    }

    /// Removes a flow.
    pub(super) fn close(&mut self, line: u32) {
        self.flush(line);
        self.lines.remove(line);
    }
}

impl Jitter {
    // NDP-R21
    #[cold]
    fn draw(&mut self) -> Duration {
        let share = self.stream.unit();
        let above = self.table.partition_point(|(s, _)| *s < share);
        match (above.checked_sub(1).map(|i| self.table[i]), self.table.get(above).copied()) {
            (Some((low, from)), Some((high, to))) => {
                from + (to - from).mul_f64((share - low) / (high - low))
            }
            (Some((_, only)), None) | (None, Some((_, only))) => only,
            (None, None) => Duration::ZERO,
        }
    }
}

impl PairPath {
    #[inline]
    fn lead_back(&mut self, path: Option<u16>, packet: &mut Packet) {
        packet.flags.set(PacketFlags::TO_SENDER);
        match path.map(u32::from).filter(|path| *path < self.paths) {
            Some(path) => {
                packet.path = path;
                packet.flags.set(PacketFlags::REVERSE_PATH);
            }
            None => packet.path = self.take_path(),
        }
    }

    fn take_path(&mut self) -> u32 {
        let path = self.next_path;
        self.next_path = if path + 1 >= self.paths { 0 } else { path + 1 };
        path
    }
}

/// The pull pacer: sends the next pull and sets the timer for the one after.
// NDP-R12, NDP-R13
pub(super) fn send_next_pull(cx: &mut HostCx<'_, NdpConfig>) {
    if cx.now < cx.shared.next_at {
        cx.set_host_timer(cx.shared.next_at);
        return;
    }
    let Some(line) = cx.shared.take_turn().or_else(|| cx.shared.take_spare()) else {
        return;
    };
    let Some(entry) = cx.shared.lines.get_mut(line) else {
        return;
    };
    entry.sent = entry.sent.wrapping_add(1);
    if let Some(window) = &mut entry.window {
        window.pull_sent(entry.sent, cx.now);
    }
    let header = NdpHeader {
        seq: 0,
        cumulative: entry.cumulative,
        sent_at: 0,
        pull: entry.sent,
        path: 0,
        kind: kind::PULL,
        flags: 0,
    };
    let mut packet = header.control(entry.flow, entry.peer);
    let path = Some(entry.path).filter(|_| cx.shared.echoes_paths);
    entry.lead_back(path, &mut packet);
    cx.send(packet);
    cx.shared.take_slot(cx.now);
    if cx.shared.has_waiting() {
        cx.set_host_timer(cx.shared.next_at);
    }
}

#[cfg(test)]
mod tests;
