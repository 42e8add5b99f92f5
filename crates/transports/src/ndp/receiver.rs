//! NDP's receiving end: answers every arrival, counts what is in, asks for the next.

use super::header::{flags, kind};
use super::{Ndp, NdpHeader, PullQueue};
use punctual_core::{
    BitRing, ByteRange, Endpoint, FlowEvent, FlowId, FlowRoute, HostCx, HostId, Instant, Packet,
    PacketFlags,
};

/// A receiver refuses packet numbers this far beyond the first one missing: no sender that keeps
/// to its pulls gets there, and memory stays bounded whatever arrives.
const AHEAD_MAX: u64 = 1 << 16;

/// The receiving end of a flow.
#[derive(Debug)]
pub struct NdpReceiver {
    flow: FlowId,
    peer: HostId,
    /// Its place in the host's pull queue.
    line: u32,
    received: BitRing,
    /// Packets in the flow, once known.
    packets: Option<u64>,
    completed: bool,
    /// When something last arrived: with every pull sent and silence since, one was lost.
    heard_at: Instant,
    timer_running: bool,
    /// Doublings of the silence waited for.
    backoff: u32,
}

impl NdpReceiver {
    // NDP-R15
    pub(super) fn open(first: &Packet, route: &FlowRoute, cx: &mut HostCx<'_, Ndp>) -> Self {
        NdpReceiver {
            flow: first.flow,
            peer: route.peer,
            line: cx.shared.open(first.flow, route),
            received: BitRing::default(),
            packets: None,
            completed: false,
            heard_at: cx.now,
            timer_running: false,
            backoff: 0,
        }
    }

    /// Whether every byte is in.
    pub fn is_complete(&self) -> bool {
        self.completed
    }

    fn control(&mut self, header: NdpHeader, cx: &mut HostCx<'_, Ndp>) {
        let mut packet = header.control(self.flow, self.peer);
        packet.flags.set(PacketFlags::TO_SENDER);
        packet.path = cx.shared.next_path(self.line);
        cx.send(packet);
    }

    /// Learns how many packets the flow has, from any packet that tells.
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

    fn deliver(&mut self, header: &NdpHeader, packet: &Packet, cx: &mut HostCx<'_, Ndp>) {
        if !self.received.insert(header.seq) {
            return;
        }
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

impl Endpoint<Ndp> for NdpReceiver {
    fn gauges(&self, shared: &PullQueue, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("host_pulls_waiting", f64::from(shared.pending()));
    }

    // NDP-R10: every arrival is answered at once.
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, Ndp>) {
        let header = NdpHeader::of(packet);
        let beyond = self.packets.is_some_and(|n| header.seq >= n);
        if header.kind != kind::DATA || beyond || header.seq > self.received.base() + AHEAD_MAX {
            return;
        }
        self.heard_at = cx.now;
        self.backoff = 0;
        self.learn_size(&header, packet);
        // A header whose data came before needs no second copy.
        let trimmed = packet.is_trimmed() && !self.received.contains(header.seq);
        if packet.is_trimmed() {
            cx.emit(FlowEvent::Trimmed);
        } else {
            self.deliver(&header, packet, cx);
        }
        // NDP-R11: one more pull for what arrived, whole, trimmed or again.
        let pull = if self.completed { None } else { cx.shared.add(self.line, cx.now) };
        let answer = NdpHeader {
            seq: header.seq,
            cumulative: self.received.base(),
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
        if pull.is_none() {
            cx.set_host_timer(cx.shared.next_at());
        }
        if !self.timer_running {
            self.timer_running = true;
            cx.set_timer(cx.now + cx.config.rto);
        }
    }

    // NDP-R16: all pulls sent, then silence: the last one was lost, so it is sent again. Its
    // number is the same, so it does no harm when it was not.
    fn handle_timeout(&mut self, cx: &mut HostCx<'_, Ndp>) {
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
            self.backoff = (self.backoff + 1).min(10);
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

    fn close(&mut self, shared: &mut PullQueue) {
        shared.close(self.line);
    }
}
