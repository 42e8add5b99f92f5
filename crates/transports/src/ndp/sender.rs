//! The sender: pushes the initial window, then sends one packet per pull.

mod recovery;

use super::header::{HEADER_BYTES, flags, kind, stamp};
use super::paths::Paths;
use super::window::echo;
use super::{NdpConfig, NdpHeader, NdpTimer, PathPolicy, PullQueue};
use crate::rtt::{Rounding, RtoBounds, RttEstimator};
use punctual_core::{
    Class, Duration, Endpoint, FlowEvent, FlowId, FlowRoute, FlowSpec, Header, HostCx, HostId,
    Instant, Packet, PacketFlags, RetransmitCause, prefetch,
};
use recovery::Recovery;
use std::collections::VecDeque;

/// A packet sent and not acknowledged.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Instant,
    path: u16,
    state: State,
    /// Whether it is of the initial window and without feedback.
    unaccounted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In flight.
    InFlight,
    /// Trimmed, bounced or lost: in `resend`, waiting for a pull.
    ToResend(RetransmitCause),
    /// Arrived.
    Acked,
}

/// What the running timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SenderTimer {
    Idle,
    /// Feedback on a packet in flight.
    Feedback,
    /// A pull, with nothing in flight: much longer.
    Pull,
}

/// State of an NDP sender, in as few cache lines as it can be.
#[derive(Debug)]
#[repr(align(64))]
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
    /// Whether the receiver's buffer is full, so that the lowest packet is retransmitted first.
    lowest_first: bool,
    /// Packets that may be sent now.
    credits: u32,
    /// Packets in flight: those in `window` with [`State::InFlight`].
    flying: u32,
    /// The order of transmissions, if losses are noticed by later ACKs.
    recovery: Option<Box<Recovery>>,
    /// Pulls to ignore, one for each spurious retransmission.
    debt: u32,
    last_pull: u32,
    first_window: u64,
    /// Packets of the initial window without feedback.
    unaccounted: u32,
    /// ACKs and NACKs received less pulls received: pulls still to come.
    pull_window: i64,
    /// The last twelve kinds of feedback, newest in bit 0: set for an ACK.
    recent: u16,
    recent_len: u8,
    paths: Paths,
    /// NICs of this host: path p leaves by NIC p modulo `nics`.
    nics: u32,
    timer: SenderTimer,
    /// Doublings of the timeout since the last feedback.
    backoff: u32,
    /// The longest delay of feedback on a packet that was trimmed, returned or spuriously
    /// retransmitted; it decays.
    slowest_word: Duration,
    /// The RTT estimate over all feedback, with [`NdpTimer::Rtt`].
    rtt: RttEstimator,
    heard_at: Instant,
    /// When the initial window may be sent, if a connection of the same name has just ended.
    not_before: Option<Instant>,
}

/// How many timeouts a sender waits for a pull when nothing is in flight: longer than a round of
/// pulls in an incast of thousands.
const PATIENCE: u64 = 64;
/// [`PATIENCE`] on long paths, where receivers repeat their last pull more often than that.
const PATH_PATIENCE: u64 = 8;
/// The longest accepted RTT sample, in timeouts: a bound on forged timestamps.
const SLOWEST: u64 = 16;
/// The timeout before the first RTT sample, in timeouts: 20 ms in the authors' simulator.
const UNMEASURED: u64 = 20;
/// [`UNMEASURED`] on long paths, whose `rto` is not made for a datacenter's round trips.
const PATH_UNMEASURED: u64 = 4;
/// The number of feedbacks that [`NdpSender::is_bad_path`] considers.
const RECENT: u8 = 12;

impl NdpSender {
    pub(super) fn open(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, NdpConfig>) -> Self {
        let payload = cx.shared.payload();
        let size = flow.size.get();
        let packets = if size == u64::MAX { u64::MAX } else { size.div_ceil(payload).max(1) };
        // NDP-R01
        let first_window = packets.min(u64::from(cx.config.initial_window));
        // NDP-R22: late packets of an ended connection could be mistaken for this one's.
        let not_before = cx.shared.time_wait.until(route.peer, flow.id, cx.now);
        let mut sender = NdpSender {
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
            flying: 0,
            recovery: cx.config.follows_path().then(Box::default),
            debt: 0,
            last_pull: 0,
            first_window,
            unaccounted: 0,
            pull_window: 0,
            recent: 0,
            recent_len: 0,
            paths: Paths::new(cx.config.paths, cx.config.scoreboard, route),
            nics: route.nics,
            timer: SenderTimer::Idle,
            backoff: 0,
            slowest_word: Duration::ZERO,
            rtt: RttEstimator::default(),
            heard_at: cx.now,
            not_before,
        };
        match not_before {
            None => sender.ask_for_nic(cx),
            Some(at) => cx.set_timer(at),
        }
        sender
    }

    /// Packets sent and not acknowledged.
    pub fn in_flight(&self) -> usize {
        self.flying as usize
    }

    fn has_data(&self) -> bool {
        !self.resend.is_empty() || self.next_new < self.packets
    }

    fn sent_mut(&mut self, seq: u64) -> Option<&mut Sent> {
        let index = seq.checked_sub(self.base)?;
        self.window.get_mut(usize::try_from(index).ok()?)
    }

    /// Records feedback on a packet of the initial window.
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
        if let Some(recovery) = &mut self.recovery {
            recovery.heard();
        }
    }

    /// The retransmission timeout.
    // NDP-R07, NDP-R26
    fn rto(&self, config: &NdpConfig) -> Duration {
        let wait = match config.timer() {
            NdpTimer::Fixed => config.rto,
            NdpTimer::Slowest => config.rto.max(self.slowest_word.saturating_mul(2)),
            NdpTimer::Rtt => self.rtt.rto(&RtoBounds {
                initial: config.rto.saturating_mul(if config.follows_path() {
                    PATH_UNMEASURED
                } else {
                    UNMEASURED
                }),
                min: config.rto,
                max: config.rto.saturating_mul(SLOWEST * 2),
            }),
        };
        wait.saturating_mul(1 << self.backoff)
    }

    /// Whether more than a quarter of the recent feedback was ACKs: a returned header then indicates
    /// a bad path, not an incast.
    fn is_bad_path(&self) -> bool {
        self.recent.count_ones() * 4 > u32::from(self.recent_len)
    }

    /// Queues a packet for retransmission. Returns false if there is no need.
    ///
    /// A packet whose header was returned goes first. Feedback names a transmission of the packet by its timestamp; feedback on an older one is
    /// ignored.
    fn queue_again(&mut self, header: &NdpHeader, cause: RetransmitCause, now: Instant) -> bool {
        let seq = header.seq;
        let sent_at = match self.sent_mut(seq) {
            Some(sent) if sent.state == State::InFlight && stamp(sent.at) == header.sent_at => {
                sent.state = State::ToResend(cause);
                sent.at
            }
            _ => return false,
        };
        self.flying -= 1;
        self.slowest_word = self.slowest_word.max(now.saturating_since(sent_at));
        if cause == RetransmitCause::Bounce {
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
            let (was_flying, at) = (sent.state == State::InFlight, sent.at);
            // NDP-R18: an earlier transmission arrived, so the latest was spurious.
            sent_needlessly = was_flying && stamp(at) != header.sent_at;
            sent.state = State::Acked;
            self.flying -= u32::from(was_flying);
            if let Some(recovery) = &mut self.recovery
                && was_flying
                && !sent_needlessly
            {
                recovery.acked(at, cx.now);
            }
        }
        if sent_needlessly {
            if let Some(recovery) = &mut self.recovery {
                recovery.was_spurious();
            }
            self.debt += u32::from(cx.config.repays_duplicates());
            let took = cx.now.saturating_since(Instant::from_picos(header.sent_at));
            let believed = took.min(cx.config.rto.saturating_mul(SLOWEST));
            self.slowest_word = self.slowest_word.max(believed);
        }
        self.release(header.cumulative, cx);
    }

    /// Releases packets that have arrived: acknowledged by name, or below `cumulative` if their own
    /// ACK was lost.
    #[inline]
    fn release(&mut self, cumulative: u64, cx: &mut HostCx<'_, NdpConfig>) {
        let cumulative = cumulative.min(self.next_new);
        while let Some(front) = self.window.front()
            && (front.state == State::Acked || self.base < cumulative)
        {
            if front.unaccounted {
                self.unaccounted -= 1;
            }
            self.flying -= u32::from(front.state == State::InFlight);
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

    // NDP-R03: the difference of pull numbers is the number of packets to send.
    fn handle_pull(&mut self, number: u32, config: &NdpConfig) {
        let more = number.wrapping_sub(self.last_pull) as i32;
        // NDP-R30: a receiver never has more pulls under way than packets.
        let most = config.in_flight_max();
        if more > 0 && more as u32 > most {
            return;
        }
        let is_behind = more < 0 && self.recovery.is_some();
        if self.flying == 0 && (more == 0 || is_behind) {
            // A number was forged if the receiver's is behind.
            self.last_pull = number;
            // NDP-R16: a repeated pull; the receiver has sent all its pulls and received nothing.
            self.pull_window = 0;
            self.credits = self.credits.max(1);
        } else if more > 0 {
            self.last_pull = number;
            self.pull_window -= i64::from(more);
            let more = more as u32;
            let repaid = self.debt.min(more);
            self.debt -= repaid;
            self.credits = (self.credits + (more - repaid)).min(most);
        }
    }

    // NDP-R06
    fn handle_bounce(&mut self, header: &NdpHeader, cx: &mut HostCx<'_, NdpConfig>) {
        cx.emit(FlowEvent::Bounced);
        self.account(header.seq);
        self.note_feedback(false, header, cx);
        self.paths.board.bounce(header.path);
        // NDP-R26: a header queue is full, and may hold other headers of this flow.
        self.slowest_word = self.slowest_word.max(cx.config.rto);
        if !self.queue_again(header, RetransmitCause::Bounce, cx.now) {
            return;
        }
        let nothing_coming = self.pull_window <= 0 && self.unaccounted <= 1;
        if nothing_coming || self.is_bad_path() {
            self.credits += 1;
        }
    }

    /// Moves the lowest packet to the front: its delivery frees the receiver's buffer.
    // NDP-R23
    #[cold]
    fn put_lowest_first(&mut self) {
        let lowest = (0..self.resend.len()).min_by_key(|i| self.resend[*i]);
        if let Some(lowest) = lowest {
            self.resend.swap(0, lowest);
        }
    }

    /// The next packet number to send, retransmissions first, and why it is sent again.
    fn next_seq(&mut self) -> Option<(u64, Option<RetransmitCause>)> {
        if self.lowest_first {
            self.put_lowest_first();
        }
        while let Some(seq) = self.resend.pop_front() {
            // The ACK of an earlier transmission may have arrived.
            if let Some(State::ToResend(cause)) = self.sent_mut(seq).map(|s| s.state) {
                return Some((seq, Some(cause)));
            }
        }
        if self.next_new >= self.packets {
            return None;
        }
        self.next_new += 1;
        Some((self.next_new - 1, None))
    }

    fn data_packet(&mut self, seq: u64, path: u32, now: Instant) -> Packet {
        let is_last = seq + 1 == self.packets;
        let payload = if is_last { self.size - seq * self.payload } else { self.payload };
        let header = NdpHeader {
            seq,
            cumulative: self.size,
            sent_at: stamp(now),
            pull: echo(self.last_pull),
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
            // Pulls without data to send are lost.
            self.credits = 0;
        } else if self.credits > 0 {
            self.ask_for_nic(cx);
        }
    }

    /// Waits for the NIC by which its next packet leaves.
    #[inline]
    fn ask_for_nic(&mut self, cx: &mut HostCx<'_, NdpConfig>) {
        if self.nics == 1 {
            cx.ready(self.class);
        } else {
            cx.ready_on(self.class, self.paths.plan() % self.nics);
        }
    }
}

impl Endpoint<NdpConfig> for NdpSender {
    fn gauges(&self, _shared: &PullQueue, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("outstanding_packets", f64::from(self.flying));
        tell("resend_packets", self.resend.len() as f64);
    }

    #[inline]
    fn prefetch(&self, packet: Option<&Packet>, _shared: &PullQueue) {
        self.paths.prefetch();
        match packet.map(NdpHeader::of) {
            Some(header) if header.kind != kind::PULL => {
                let index = header.seq.wrapping_sub(self.base) as usize;
                if let Some(sent) = self.window.get(index) {
                    prefetch(sent);
                }
                self.paths.board.prefetch(header.path);
            }
            Some(_) => {}
            None => {
                if let Some(sent) = self.window.back() {
                    prefetch(sent);
                }
            }
        }
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
                self.queue_again(&header, RetransmitCause::Nack, cx.now);
            }
        } else if header.cumulative > self.base {
            self.release(header.cumulative, cx);
        }
        if header.kind == kind::PULL || header.has(flags::PULL) {
            self.heard_at = cx.now;
            self.handle_pull(header.pull, cx.config);
        }
        if self.recovery.is_some() {
            self.detect_losses(cx);
            self.wake_in_time(cx);
        }
        if self.base < self.packets {
            self.say_ready(cx);
        }
    }

    fn poll_transmit(&mut self, cx: &mut HostCx<'_, NdpConfig>) -> Option<Packet> {
        // NDP-R30
        if self.credits == 0 || self.flying >= cx.config.in_flight_max() {
            return None;
        }
        let (seq, again) = self.next_seq()?;
        self.credits -= 1;
        self.flying += 1;
        let avoid = if again.is_some() { self.sent_mut(seq).map(|s| s.path) } else { None };
        let path = self.paths.next(avoid);
        let pushed = again.is_none() && seq < self.first_window;
        let sent =
            Sent { at: cx.now, path: path as u16, state: State::InFlight, unaccounted: pushed };
        if let Some(cause) = again {
            cx.emit(FlowEvent::Retransmitted(cause));
            if let Some(old) = self.sent_mut(seq) {
                *old = Sent { unaccounted: old.unaccounted, ..sent };
            }
        } else {
            self.unaccounted += u32::from(pushed);
            self.window.push_back(sent);
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.sent(seq, cx.now);
        }
        // A packet in flight must not wait for the long timer of NDP-R09.
        if self.timer != SenderTimer::Feedback {
            self.timer = SenderTimer::Feedback;
            cx.set_timer(cx.now + cx.config.rto);
            if let Some(recovery) = &mut self.recovery {
                recovery.timer_at = Some(cx.now + cx.config.rto);
                self.wake_in_time(cx);
            }
        }
        self.say_ready(cx);
        Some(self.data_packet(seq, path, cx.now))
    }

    // NDP-R07, NDP-R26
    fn handle_timeout(&mut self, cx: &mut HostCx<'_, NdpConfig>) {
        self.timer = SenderTimer::Idle;
        if self.not_before.take().is_some() {
            self.credits = self.first_window as u32;
            self.say_ready(cx);
            return;
        }
        let rto = self.rto(cx.config);
        self.slowest_word = self.slowest_word.mul_f64(0.875);
        if self.recovery.is_some() {
            self.detect_losses(cx);
            self.say_ready(cx);
        }
        let mut earliest = self.probe(cx);
        let mut waits_for = SenderTimer::Feedback;
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
            sent.state = State::ToResend(RetransmitCause::Timeout);
            if sent.unaccounted {
                sent.unaccounted = false;
                self.unaccounted -= 1;
            }
            self.paths.board.loss(sent.path);
            self.flying -= 1;
            self.resend.push_front(self.base + index as u64);
            lost += 1;
            cx.emit(FlowEvent::TimedOut);
        }
        if lost == 0 && earliest.is_none() && self.has_data() {
            // NDP-R09: nothing is in flight, so only a pull can arrive.
            let patience = if cx.config.follows_path() { PATH_PATIENCE } else { PATIENCE };
            let due = self.heard_at.saturating_add(rto.saturating_mul(patience));
            if due > cx.now {
                earliest = Some(due);
                waits_for = SenderTimer::Pull;
            } else {
                lost = 1;
                cx.emit(FlowEvent::TimedOut);
            }
        }
        if lost > 0 {
            self.backoff = (self.backoff + 1).min(cx.config.backoff_max());
            self.credits += lost;
            self.say_ready(cx);
        }
        if let Some(at) = earliest {
            self.timer = waits_for;
            cx.set_timer(at);
            if let Some(recovery) = &mut self.recovery {
                recovery.timer_at = Some(at);
            }
        }
        self.wake_in_time(cx);
    }
}
