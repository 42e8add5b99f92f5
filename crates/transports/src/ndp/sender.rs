//! NDP's sending end: pushes a window, then sends what it is pulled.

use super::header::{HEADER_BYTES, flags, kind, stamp};
use super::paths::Paths;
use super::{NdpConfig, NdpHeader, NdpTimer, PathPolicy, PullQueue};
use crate::rtt::{Rounding, RtoBounds, RttEstimator};
use punctual_core::{
    Class, Duration, Endpoint, FlowEvent, FlowId, FlowRoute, FlowSpec, Header, HostCx, HostId,
    Instant, Packet, PacketFlags,
};
use std::collections::VecDeque;

/// What a sender knows of a packet it has sent and that is not acknowledged.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Instant,
    path: u16,
    state: State,
    /// Pushed with the first window and not yet heard of.
    unaccounted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the network, for all we know.
    InFlight,
    /// Trimmed, bounced or lost: in `resend`, waiting for a pull.
    ToResend,
    /// Arrived.
    Acked,
}

/// The sending end of a flow.
#[derive(Debug)]
pub struct NdpSender {
    flow: FlowId,
    peer: HostId,
    class: Class,
    size: u64,
    payload: u64,
    packets: u64,
    /// First packet never sent.
    next_new: u64,
    /// Lowest packet not acknowledged: what `window` begins with.
    base: u64,
    window: VecDeque<Sent>,
    /// Packets to send again, before new ones.
    resend: VecDeque<u64>,
    /// The receiver is short of room: of those to send again, the lowest goes first.
    lowest_first: bool,
    /// Packets that may be sent now.
    credits: u32,
    /// Pulls to let pass, for packets that were sent once more without need.
    debt: u32,
    last_pull: u32,
    first_window: u64,
    /// Packets of the first window not heard of.
    unaccounted: u32,
    /// ACKs and NACKs received less pulls received: pulls still to come.
    pull_window: i64,
    /// The last twelve kinds of feedback, newest in bit 0: set for an ACK.
    recent: u16,
    recent_len: u8,
    paths: Paths,
    timer_running: bool,
    /// Doublings of the timeout since anything was heard.
    backoff: u32,
    /// The longest that word took of a packet trimmed, returned or given up too soon, fading.
    slowest_word: Duration,
    /// Over all feedback, where the timer follows it.
    rtt: RttEstimator,
    heard_at: Instant,
    /// When the first window may go, should a connection of the same name have just ended.
    not_before: Option<Instant>,
}

/// How many timeouts a sender waits for a pull when nothing of its own is under way: longer than
/// an incast of thousands takes to come round.
const PATIENCE: u64 = 64;
/// The longest wait that an echoed time makes a sender believe in, in timeouts.
const SLOWEST: u64 = 16;
/// The timeout before the first feedback where the timer follows the round-trip time, in timeouts:
/// 20 ms in the authors' program.
const UNMEASURED: u64 = 20;
/// How many kinds of feedback [`NdpSender::is_bad_path`] looks back on.
const RECENT: u8 = 12;

impl NdpSender {
    pub(super) fn open(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, NdpConfig>) -> Self {
        let payload = cx.shared.payload();
        let size = flow.size.get();
        let packets = if size == u64::MAX { u64::MAX } else { size.div_ceil(payload).max(1) };
        // NDP-R01
        let first_window = packets.min(u64::from(cx.config.initial_window));
        // NDP-R22: what is left of an ended connection could be taken for this one's.
        let not_before = cx.shared.time_wait.until(route.peer, flow.id, cx.now);
        match not_before {
            None => cx.ready(flow.class),
            Some(at) => cx.set_timer(at),
        }
        NdpSender {
            flow: flow.id,
            peer: route.peer,
            class: flow.class,
            size,
            payload,
            packets,
            next_new: 0,
            base: 0,
            window: VecDeque::with_capacity(first_window as usize + 2),
            resend: VecDeque::new(),
            lowest_first: false,
            credits: if not_before.is_none() { first_window as u32 } else { 0 },
            debt: 0,
            last_pull: 0,
            first_window,
            unaccounted: 0,
            pull_window: 0,
            recent: 0,
            recent_len: 0,
            paths: Paths::new(cx.config.paths, cx.config.scoreboard, route),
            timer_running: false,
            backoff: 0,
            slowest_word: Duration::ZERO,
            rtt: RttEstimator::default(),
            heard_at: cx.now,
            not_before,
        }
    }

    /// Packets sent and not acknowledged.
    pub fn in_flight(&self) -> usize {
        self.window.iter().filter(|s| s.state == State::InFlight).count()
    }

    fn has_data(&self) -> bool {
        !self.resend.is_empty() || self.next_new < self.packets
    }

    fn sent_mut(&mut self, seq: u64) -> Option<&mut Sent> {
        let index = seq.checked_sub(self.base)?;
        self.window.get_mut(usize::try_from(index).ok()?)
    }

    /// Notes feedback on a packet: it is no longer unaccounted for.
    fn account(&mut self, seq: u64) {
        if let Some(sent) = self.sent_mut(seq)
            && sent.unaccounted
        {
            sent.unaccounted = false;
            self.unaccounted -= 1;
        }
    }

    fn note_feedback(&mut self, is_ack: bool, header: &NdpHeader, cx: &HostCx<'_, NdpConfig>) {
        if cx.config.timer() == NdpTimer::Rtt {
            let took = cx.now.saturating_since(Instant::from_picos(header.sent_at));
            self.rtt.sample(took.min(cx.config.rto.saturating_mul(SLOWEST)), Rounding::Terms);
        }
        self.recent = (self.recent << 1 | u16::from(is_ack)) & ((1 << RECENT) - 1);
        self.recent_len = (self.recent_len + 1).min(RECENT);
        self.backoff = 0;
        self.heard_at = cx.now;
    }

    /// How long a packet may be in flight without feedback.
    // NDP-R07, NDP-R26
    fn rto(&self, config: &NdpConfig) -> Duration {
        let wait = match config.timer() {
            NdpTimer::Fixed => config.rto,
            NdpTimer::Slowest => config.rto.max(self.slowest_word.saturating_mul(2)),
            NdpTimer::Rtt => self.rtt.rto(&RtoBounds {
                initial: config.rto.saturating_mul(UNMEASURED),
                min: config.rto,
                max: config.rto.saturating_mul(SLOWEST * 2),
            }),
        };
        wait.saturating_mul(1 << self.backoff)
    }

    /// More than a quarter of recent feedback were ACKs: a bounce then speaks of a bad path
    /// rather than of an incast.
    fn is_bad_path(&self) -> bool {
        self.recent.count_ones() * 4 > u32::from(self.recent_len)
    }

    /// Puts a packet in line to be sent again. False when there is no need.
    ///
    /// Feedback tells which sending of the packet it means; on an older one it says nothing of
    /// the newest.
    fn queue_again(&mut self, header: &NdpHeader, first: bool, now: Instant) -> bool {
        let seq = header.seq;
        let sent_at = match self.sent_mut(seq) {
            Some(sent) if sent.state == State::InFlight && stamp(sent.at) == header.sent_at => {
                sent.state = State::ToResend;
                sent.at
            }
            _ => return false,
        };
        self.slowest_word = self.slowest_word.max(now.saturating_since(sent_at));
        if first {
            self.resend.push_front(seq);
        } else {
            self.resend.push_back(seq);
        }
        true
    }

    // NDP-R02
    fn handle_ack(&mut self, header: &NdpHeader, cx: &mut HostCx<'_, NdpConfig>) {
        let mut sent_needlessly = false;
        if let Some(sent) = self.sent_mut(header.seq) {
            // NDP-R18: an earlier sending arrived after all, so the latest was one too many.
            sent_needlessly = sent.state == State::InFlight && stamp(sent.at) != header.sent_at;
            sent.state = State::Acked;
        }
        if sent_needlessly {
            self.debt += u32::from(cx.config.repays_duplicates());
            let took = cx.now.saturating_since(Instant::from_picos(header.sent_at));
            let believed = took.min(cx.config.rto.saturating_mul(SLOWEST));
            self.slowest_word = self.slowest_word.max(believed);
        }
        self.release(header.cumulative, cx);
    }

    /// Forgets what is in: acknowledged by name, or below `cumulative`, should its own ACK have
    /// been lost.
    #[inline]
    fn release(&mut self, cumulative: u64, cx: &mut HostCx<'_, NdpConfig>) {
        let cumulative = cumulative.min(self.next_new);
        while let Some(front) = self.window.front()
            && (front.state == State::Acked || self.base < cumulative)
        {
            if front.unaccounted {
                self.unaccounted -= 1;
            }
            self.window.pop_front();
            self.base += 1;
        }
        if self.base >= self.packets {
            self.finish(cx);
        }
    }

    #[cold]
    fn finish(&mut self, cx: &mut HostCx<'_, NdpConfig>) {
        cx.clear_timer();
        cx.shared.time_wait.add(self.peer, self.flow, cx.now);
        cx.emit(FlowEvent::Finished);
    }

    // NDP-R03: the difference of pull numbers is what may be sent; older ones say nothing.
    fn handle_pull(&mut self, number: u32) {
        let more = number.wrapping_sub(self.last_pull) as i32;
        if more == 0 && self.in_flight() == 0 {
            // NDP-R16: the receiver has sent all its pulls and hears nothing.
            self.pull_window = 0;
            self.credits = self.credits.max(1);
        } else if more > 0 {
            self.last_pull = number;
            self.pull_window -= i64::from(more);
            let more = more as u32;
            let repaid = self.debt.min(more);
            self.debt -= repaid;
            self.credits = self.credits.saturating_add(more - repaid);
        }
    }

    // NDP-R06
    fn handle_bounce(&mut self, header: &NdpHeader, cx: &mut HostCx<'_, NdpConfig>) {
        cx.emit(FlowEvent::Bounced);
        self.account(header.seq);
        self.note_feedback(false, header, cx);
        self.paths.board.bounce(header.path);
        // NDP-R26: a queue of headers is full, and others of this flow may stand in it.
        self.slowest_word = self.slowest_word.max(cx.config.rto);
        if !self.queue_again(header, true, cx.now) {
            return;
        }
        let nothing_coming = self.pull_window <= 0 && self.unaccounted <= 1;
        if nothing_coming || self.is_bad_path() {
            self.credits += 1;
        }
    }

    /// What the receiver can deliver makes room for the rest.
    // NDP-R23
    #[cold]
    fn put_lowest_first(&mut self) {
        let lowest = (0..self.resend.len()).min_by_key(|i| self.resend[*i]);
        if let Some(lowest) = lowest {
            self.resend.swap(0, lowest);
        }
    }

    /// Takes the next packet number to send: first what must be sent again.
    fn next_seq(&mut self) -> Option<(u64, bool)> {
        if self.lowest_first {
            self.put_lowest_first();
        }
        while let Some(seq) = self.resend.pop_front() {
            // An ACK may have come after all, from the original.
            if self.sent_mut(seq).is_some_and(|s| s.state == State::ToResend) {
                return Some((seq, true));
            }
        }
        if self.next_new >= self.packets {
            return None;
        }
        self.next_new += 1;
        Some((self.next_new - 1, false))
    }

    fn data_packet(&mut self, seq: u64, path: u32, now: Instant) -> Packet {
        let is_last = seq + 1 == self.packets;
        let payload = if is_last { self.size - seq * self.payload } else { self.payload };
        let header = NdpHeader {
            seq,
            cumulative: self.size,
            sent_at: stamp(now),
            pull: 0,
            path: path as u16,
            kind: kind::DATA,
            flags: if seq < self.first_window { flags::SYN } else { 0 }
                | if is_last { flags::LAST } else { 0 }
                | self.class.0 << flags::CLASS_SHIFT,
        };
        let mut packet = Packet::new(self.flow, self.peer, Header::new(header));
        packet.payload_bytes = payload as u16;
        packet.wire_bytes = payload as u16 + HEADER_BYTES;
        packet.class = self.class;
        packet.path = path;
        packet.flags = PacketFlags::TRIMMABLE;
        if self.paths.policy == PathPolicy::SwitchRandom {
            packet.flags.set(PacketFlags::SWITCH_PATH);
        }
        packet
    }

    fn say_ready(&mut self, cx: &mut HostCx<'_, NdpConfig>) {
        if !self.has_data() {
            // A pull that finds nothing to send is spent.
            self.credits = 0;
        } else if self.credits > 0 {
            cx.ready(self.class);
        }
    }
}

impl Endpoint<NdpConfig> for NdpSender {
    fn gauges(&self, _shared: &PullQueue, tell: &mut dyn FnMut(&'static str, f64)) {
        let in_flight = self.window.iter().filter(|sent| sent.state == State::InFlight).count();
        tell("outstanding_packets", in_flight as f64);
        tell("resend_packets", self.resend.len() as f64);
    }

    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, NdpConfig>) {
        let header = NdpHeader::of(packet);
        if header.kind == kind::DATA {
            if packet.is_bounced() {
                self.handle_bounce(&header, cx);
                self.say_ready(cx);
            }
            return;
        }
        if header.kind != kind::PULL {
            if header.seq >= self.next_new {
                return; // never sent: not from our receiver
            }
            self.account(header.seq);
            self.note_feedback(header.kind == kind::ACK, &header, cx);
            self.pull_window += 1;
            if header.kind == kind::ACK {
                self.paths.board.ack(header.path);
                self.handle_ack(&header, cx);
            } else if header.kind == kind::NACK {
                if header.has(flags::NO_ROOM) {
                    self.lowest_first = true;
                } else {
                    self.paths.board.nack(header.path);
                }
                self.queue_again(&header, false, cx.now);
            }
        } else if header.cumulative > self.base {
            self.release(header.cumulative, cx);
        }
        if header.kind == kind::PULL || header.has(flags::PULL) {
            self.heard_at = cx.now;
            self.handle_pull(header.pull);
        }
        if self.base < self.packets {
            self.say_ready(cx);
        }
    }

    fn poll_transmit(&mut self, cx: &mut HostCx<'_, NdpConfig>) -> Option<Packet> {
        if self.credits == 0 {
            return None;
        }
        let (seq, again) = self.next_seq()?;
        self.credits -= 1;
        let avoid = if again { self.sent_mut(seq).map(|s| s.path) } else { None };
        let path = self.paths.next(avoid);
        let pushed = !again && seq < self.first_window;
        let sent =
            Sent { at: cx.now, path: path as u16, state: State::InFlight, unaccounted: pushed };
        if again {
            cx.emit(FlowEvent::Retransmitted);
            if let Some(old) = self.sent_mut(seq) {
                *old = Sent { unaccounted: old.unaccounted, ..sent };
            }
        } else {
            self.unaccounted += u32::from(pushed);
            self.window.push_back(sent);
        }
        if !self.timer_running {
            self.timer_running = true;
            cx.set_timer(cx.now + cx.config.rto);
        }
        self.say_ready(cx);
        Some(self.data_packet(seq, path, cx.now))
    }

    // NDP-R07, NDP-R26
    fn handle_timeout(&mut self, cx: &mut HostCx<'_, NdpConfig>) {
        self.timer_running = false;
        if self.not_before.take().is_some() {
            self.credits = self.first_window as u32;
            self.say_ready(cx);
            return;
        }
        let rto = self.rto(cx.config);
        self.slowest_word = self.slowest_word.mul_f64(0.875);
        let mut earliest: Option<Instant> = None;
        let mut lost = 0;
        for index in 0..self.window.len() {
            let sent = &mut self.window[index];
            if sent.state != State::InFlight {
                continue;
            }
            let due = sent.at.saturating_add(rto);
            if due > cx.now {
                earliest = Some(earliest.map_or(due, |e| e.min(due)));
                continue;
            }
            sent.state = State::ToResend;
            if sent.unaccounted {
                sent.unaccounted = false;
                self.unaccounted -= 1;
            }
            self.paths.board.loss(sent.path);
            self.resend.push_front(self.base + index as u64);
            lost += 1;
            cx.emit(FlowEvent::TimedOut);
        }
        if lost == 0 && earliest.is_none() && self.has_data() {
            // NDP-R09: nothing is under way, so nothing but a pull can come.
            let due = self.heard_at.saturating_add(rto.saturating_mul(PATIENCE));
            if due > cx.now {
                earliest = Some(due);
            } else {
                lost = 1;
                cx.emit(FlowEvent::TimedOut);
            }
        }
        if lost > 0 {
            self.backoff = (self.backoff + 1).min(10);
            self.credits += lost;
            self.say_ready(cx);
        }
        if let Some(at) = earliest {
            self.timer_running = true;
            cx.set_timer(at);
        }
    }
}
