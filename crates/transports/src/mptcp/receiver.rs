//! The receiver: acknowledges each subflow and reassembles the connection's bytes.

use super::header::MptcpHeader;
use super::{MptcpConfig, choose_paths};
use crate::tcp::{TCP_IP_HEADER_BYTES, TcpFlags};
use punctual_core::{
    BitRing, ByteRange, Class, Endpoint, FlowEvent, FlowId, FlowRoute, Header, HostCx, HostId,
    Packet, PacketFlags, RangeSet,
};

/// The farthest a segment may be ahead of the first missing one; larger than any window.
const AHEAD_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, Default)]
struct Incoming {
    received: BitRing,
    /// One past the highest segment that has arrived.
    highest: u64,
    /// Packets not acknowledged yet.
    pending: u32,
    /// Timestamp of the first unacknowledged packet.
    pending_timestamp_picos: u64,
}

/// State of an MPTCP receiver.
#[derive(Clone, Debug)]
pub struct MptcpReceiver {
    flow: FlowId,
    sender: HostId,
    class: Class,
    /// The paths of the subflows' ACKs; subflows share one if there are too few.
    paths: Vec<u32>,
    subflows: Vec<Incoming>,
    received: RangeSet,
    /// Every byte below this has arrived.
    next: u64,
    size: Option<u64>,
    /// Whether the timer runs.
    waiting: bool,
}

impl MptcpReceiver {
    pub(super) fn open(
        first: &Packet,
        route: &FlowRoute,
        cx: &mut HostCx<'_, MptcpConfig>,
    ) -> Self {
        MptcpReceiver {
            flow: first.flow,
            sender: route.peer,
            class: first.class,
            paths: choose_paths(cx.config.subflows, route),
            subflows: vec![Incoming::default(); cx.config.subflows as usize],
            received: RangeSet::default(),
            next: 0,
            size: None,
            waiting: false,
        }
    }

    /// Bytes received without a gap.
    pub fn next_bytes(&self) -> u64 {
        self.next
    }

    fn is_complete(&self) -> bool {
        self.size == Some(self.next)
    }

    fn answer(&self, subflow: usize, flags: u8, timestamp_picos: u64) -> Packet {
        let header = MptcpHeader {
            segment: self.subflows[subflow].received.base(),
            data: self.next,
            timestamp_picos,
            flags,
            subflow: subflow as u8,
            reserved: [0; 6],
        };
        let mut packet = Packet::new(self.flow, self.sender, Header::new(header));
        packet.wire_bytes = TCP_IP_HEADER_BYTES as u16;
        packet.flags = PacketFlags::TO_SENDER;
        packet.class = self.class;
        packet.path = self.paths[subflow % self.paths.len()];
        packet
    }

    /// Acknowledges all that has arrived, on one subflow. MPTCP-R04.
    fn acknowledge(&mut self, subflow: usize, cx: &mut HostCx<'_, MptcpConfig>) {
        let complete = if self.is_complete() { TcpFlags::COMPLETE } else { 0 };
        let incoming = &mut self.subflows[subflow];
        incoming.pending = 0;
        let timestamp_picos = incoming.pending_timestamp_picos;
        cx.send(self.answer(subflow, TcpFlags::ACK | complete, timestamp_picos));
    }

    /// Adds the bytes of a segment. MPTCP-R03.
    fn take(&mut self, start: u64, end: u64, last: bool, cx: &mut HostCx<'_, MptcpConfig>) {
        let complete_before = self.is_complete();
        self.received.insert(start, end, |start, end| {
            cx.emit(FlowEvent::Delivered(ByteRange { offset: start, len: end - start }));
        });
        self.next = self.received.prefix_end();
        if last {
            self.size = Some(end);
        }
        if self.is_complete() && !complete_before {
            cx.emit(FlowEvent::Completed);
        }
    }
}

impl Endpoint<MptcpConfig> for MptcpReceiver {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, MptcpConfig>) {
        let header: MptcpHeader = packet.header.get();
        let subflow = usize::from(header.subflow);
        let Some(incoming) = self.subflows.get_mut(subflow) else {
            return;
        };
        if packet.is_trimmed() || header.has(TcpFlags::ACK) {
            return;
        }
        if header.has(TcpFlags::SYN) {
            let flags = TcpFlags::SYN | TcpFlags::ACK;
            return cx.send(self.answer(subflow, flags, header.timestamp_picos));
        }
        let Some(end) = header.data.checked_add(u64::from(packet.payload_bytes)) else {
            return;
        };
        let base = incoming.received.base();
        if header.segment > base.saturating_add(AHEAD_MAX) {
            return;
        }
        let in_order = header.segment == base && incoming.highest == base;
        incoming.received.insert(header.segment);
        incoming.highest = incoming.highest.max(header.segment + 1);
        if incoming.pending == 0 {
            incoming.pending_timestamp_picos = header.timestamp_picos;
        }
        incoming.pending += 1;
        let pending = incoming.pending;
        self.take(header.data, end, header.has(TcpFlags::LAST), cx);

        // TCP-R11, with one timer for all subflows.
        match cx.shared.settings.delayed_ack {
            Some(delay) if in_order && pending < 2 && !self.is_complete() => {
                if !self.waiting {
                    self.waiting = true;
                    cx.set_timer(cx.now + delay);
                }
            }
            _ => self.acknowledge(subflow, cx),
        }
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, MptcpConfig>) {
        self.waiting = false;
        for subflow in 0..self.subflows.len() {
            if self.subflows[subflow].pending > 0 {
                self.acknowledge(subflow, cx);
            }
        }
    }
}
