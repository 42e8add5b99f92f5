//! The receiver: acknowledges every packet, reassembles the flow and pulls the next packet.

use super::config::AHEAD_MAX;
use super::header::{flags, kind};
use super::window::Arrival;
use super::{NdpConfig, NdpHeader, PullQueue};
use punctual_core::{
    BitRing, ByteRange, Endpoint, FlowEvent, FlowId, FlowRoute, HostCx, HostId, Instant, Packet,
    Wait,
};

/// State of an NDP receiver, in as few cache lines as it can be.
#[derive(Debug)]
#[repr(align(64))]
pub struct NdpReceiver {
    flow: FlowId,
    peer: HostId,
    /// Its place in the host's pull queue.
    line: u32,
    received: BitRing,
    /// Size of the reordering buffer, in packets.
    room: u64,
    /// Packets in the reordering buffer: those above the first missing one.
    held: u64,
    /// Pulls withheld until the buffer has room.
    held_back: u32,
    /// Packets before this time are late duplicates of an ended connection of the same name.
    not_before: Instant,
    /// Whether a packet of the initial window has arrived.
    is_open: bool,
    /// Packets in the flow, once known.
    packets: Option<u64>,
    completed: bool,
    /// When a packet last arrived; if nothing arrives after the last pull, that pull was lost.
    heard_at: Instant,
    timer_running: bool,
    /// Doublings of the time to wait.
    backoff: u32,
}

impl NdpReceiver {
    // NDP-R15
    pub(super) fn open(first: &Packet, route: &FlowRoute, cx: &mut HostCx<'_, NdpConfig>) -> Self {
        let header = NdpHeader::of(first);
        let ended = cx.shared.time_wait.until(route.peer, first.flow, cx.now);
        NdpReceiver {
            flow: first.flow,
            peer: route.peer,
            line: cx.shared.open(first.flow, header.class(), route, cx.now),
            received: BitRing::default(),
            room: cx.config.room_for(cx.shared.payload()),
            held: 0,
            held_back: 0,
            not_before: ended.unwrap_or(Instant::ZERO),
            is_open: false,
            packets: None,
            completed: false,
            heard_at: cx.now,
            timer_running: false,
            backoff: 0,
        }
    }

    /// Whether every byte has arrived.
    pub fn is_complete(&self) -> bool {
        self.completed
    }

    /// Packets of the flow that have not arrived.
    fn missing(&self) -> u64 {
        let arrived = self.received.base() + self.held;
        self.packets.map_or(u64::MAX, |packets| packets.saturating_sub(arrived))
    }

    #[inline]
    fn control(&mut self, header: NdpHeader, cx: &mut HostCx<'_, NdpConfig>) {
        let mut packet = header.control(self.flow, self.peer);
        let answered = (header.kind != kind::PULL).then_some(header.path);
        cx.shared.lead_back(self.line, answered, &mut packet);
        cx.send(packet);
    }

    /// Computes the number of packets of the flow from a data packet.
    fn learn_size(&mut self, header: &NdpHeader, packet: &Packet) {
        if self.packets.is_some() || header.cumulative == u64::MAX {
            return;
        }
        self.packets = Some(if header.has(flags::LAST) {
            header.seq + 1
        } else {
            header.cumulative.div_ceil(u64::from(packet.payload_bytes).max(1))
        });
    }

    fn deliver(&mut self, header: &NdpHeader, packet: &Packet, cx: &mut HostCx<'_, NdpConfig>) {
        if !self.received.insert(header.seq) {
            return;
        }
        self.held += 1;
        let len = u64::from(packet.payload_bytes);
        let offset = if header.has(flags::LAST) {
            header.cumulative.saturating_sub(len)
        } else {
            header.seq * len
        };
        if len > 0 {
            cx.emit(FlowEvent::Delivered(ByteRange { offset, len }));
        }
        if !self.completed && self.packets.is_some_and(|n| self.received.base() >= n) {
            self.completed = true;
            cx.shared.flush(self.line);
            cx.clear_timer();
            self.timer_running = false;
            cx.emit(FlowEvent::Completed);
        }
    }
}

impl NdpReceiver {
    /// Decides whether to accept a packet that is not simply the next of an open connection.
    #[cold]
    fn admit(&mut self, header: &NdpHeader, cx: &mut HostCx<'_, NdpConfig>) -> bool {
        if !self.is_open {
            // NDP-R15, NDP-R22: only the initial window of a new connection opens it.
            if cx.now < self.not_before || !header.has(flags::SYN) {
                return false;
            }
            self.is_open = true;
        }
        let ahead = header.seq.saturating_sub(self.received.base());
        // The first missing packet needs no buffer: it is delivered immediately.
        let fits = self.held < self.room || ahead == 0 || self.received.contains(header.seq);
        if ahead < AHEAD_MAX && fits {
            return true;
        }
        // NDP-R17: no sender that obeys pulls is that far ahead.
        if ahead < AHEAD_MAX {
            self.refuse(header, cx);
        }
        false
    }

    /// Refuses a packet because the buffer is full. Its pull is withheld.
    // NDP-R23
    fn refuse(&mut self, header: &NdpHeader, cx: &mut HostCx<'_, NdpConfig>) {
        self.heard_at = cx.now;
        self.held_back += 1;
        cx.shared.note_refused(self.line);
        let answer = NdpHeader {
            cumulative: self.received.base(),
            pull: 0,
            kind: kind::NACK,
            flags: flags::NO_ROOM,
            ..*header
        };
        self.control(answer, cx);
        self.start_timer(cx);
    }

    /// Releases withheld pulls, as the buffer has room for `room` more packets.
    #[cold]
    fn release_pulls(&mut self, room: u64, cx: &mut HostCx<'_, NdpConfig>) {
        let pulls = u64::from(self.held_back).min(room) as u32;
        self.held_back -= pulls;
        cx.shared.add_waiting(self.line, pulls);
    }

    #[inline]
    fn start_timer(&mut self, cx: &mut HostCx<'_, NdpConfig>) {
        if !self.timer_running {
            self.timer_running = true;
            cx.set_timer(cx.now + cx.config.rto);
        }
    }
}

impl Endpoint<NdpConfig> for NdpReceiver {
    fn gauges(&self, shared: &PullQueue, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("host_pulls_waiting", f64::from(shared.pending()));
    }

    fn waits_for(&self) -> Wait {
        Wait::Pull
    }

    #[inline]
    fn prefetch(&self, _packet: Option<&Packet>, shared: &PullQueue) {
        self.received.prefetch();
        shared.prefetch(self.line);
        shared.prefetch_next();
    }

    // NDP-R10: every packet is acknowledged immediately.
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, NdpConfig>) {
        let header = NdpHeader::of(packet);
        let beyond = self.packets.is_some_and(|n| header.seq >= n);
        if header.kind != kind::DATA || beyond {
            return;
        }
        let base = self.received.base();
        let is_plain = self.is_open && header.seq < base + AHEAD_MAX && self.held < self.room;
        if !is_plain && !self.admit(&header, cx) {
            return;
        }
        self.heard_at = cx.now;
        self.backoff = 0;
        self.learn_size(&header, packet);
        // A trimmed packet whose data has arrived is acknowledged.
        let trimmed = packet.is_trimmed() && !self.received.contains(header.seq);
        if packet.is_trimmed() {
            cx.emit(FlowEvent::Trimmed);
            cx.shared.charge_header(packet.wire_bytes);
        } else {
            self.deliver(&header, packet, cx);
        }
        let cumulative = self.received.base();
        self.held -= cumulative - base;
        if self.held_back > 0 && !self.completed {
            self.release_pulls(cumulative - base, cx);
        }
        // NDP-R11: one pull per arrival, whether complete, trimmed or duplicate.
        let pull = if self.completed {
            None
        } else if cx.shared.follows_paths() {
            let arrival = Arrival {
                seq: header.seq,
                sent_at: header.sent_at,
                echo: header.pull,
                is_trimmed: packet.is_trimmed(),
                missing: self.missing(),
            };
            cx.shared.add_within_window(self.line, cumulative, header.path, &arrival, cx.now)
        } else {
            cx.shared.add(self.line, cumulative, header.path, cx.now)
        };
        let answer = NdpHeader {
            seq: header.seq,
            cumulative,
            sent_at: header.sent_at,
            pull: pull.unwrap_or(0),
            path: header.path,
            kind: if trimmed { kind::NACK } else { kind::ACK },
            flags: if pull.is_some() { flags::PULL } else { 0 },
        };
        self.control(answer, cx);
        if self.completed {
            return;
        }
        if pull.is_none() || cx.shared.has_waiting() {
            cx.set_host_timer(cx.shared.next_at());
        }
        self.start_timer(cx);
    }

    // NDP-R16: if nothing arrives after the last pull, it was lost and is sent again under the same
    // number, which is harmless if it was not lost.
    fn handle_timeout(&mut self, cx: &mut HostCx<'_, NdpConfig>) {
        if self.completed {
            self.timer_running = false;
            return;
        }
        let patience = cx.config.rto.saturating_mul(1 << self.backoff);
        let due = self.heard_at.saturating_add(patience);
        if cx.now < due {
            cx.set_timer(due);
            return;
        }
        if let Some(number) = cx.shared.last_sent(self.line) {
            self.backoff = (self.backoff + 1).min(cx.config.backoff_max());
            let header = NdpHeader {
                seq: 0,
                cumulative: self.received.base(),
                sent_at: 0,
                pull: number,
                path: 0,
                kind: kind::PULL,
                flags: 0,
            };
            self.control(header, cx);
        }
        self.heard_at = cx.now;
        cx.set_timer(cx.now + cx.config.rto.saturating_mul(1 << self.backoff));
    }

    // NDP-R22
    fn close(&mut self, shared: &mut PullQueue) {
        shared.close(self.line);
        if self.is_open {
            shared.time_wait.add(self.peer, self.flow, self.heard_at);
        }
    }
}
