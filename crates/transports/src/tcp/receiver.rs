//! The receiver: reassembles the flow, acknowledges packets and echoes marks.

use super::header::{TCP_IP_HEADER_BYTES, TcpFlags, TcpHeader};
use super::{TcpHost, WindowLaw};
use punctual_core::{
    ByteRange, Class, Ecn, Endpoint, FlowEvent, FlowId, FlowRoute, Header, HostCx, HostId, Packet,
    PacketFlags, RangeSet, Transport,
};

/// State of a TCP receiver.
#[derive(Clone, Debug)]
pub struct TcpReceiver {
    flow: FlowId,
    sender: HostId,
    path: u32,
    class: Class,
    received: RangeSet,
    /// Every byte below this has arrived.
    next: u64,
    /// End of the highest byte that has arrived.
    highest: u64,
    size: Option<u64>,
    /// Whether the newest packet was marked.
    marked: bool,
    /// Packets not acknowledged yet.
    pending: u32,
    /// Timestamp of the first unacknowledged packet.
    pending_timestamp_picos: u64,
}

impl TcpReceiver {
    pub(super) fn open(first: &Packet, route: &FlowRoute) -> Self {
        TcpReceiver {
            flow: first.flow,
            sender: route.peer,
            path: route.ecmp_path,
            class: first.class,
            received: RangeSet::default(),
            next: 0,
            highest: 0,
            size: None,
            marked: false,
            pending: 0,
            pending_timestamp_picos: 0,
        }
    }

    /// Bytes received without a gap.
    pub fn next_bytes(&self) -> u64 {
        self.next
    }

    fn is_complete(&self) -> bool {
        self.size == Some(self.next)
    }

    fn answer(&self, flags: u8, timestamp_picos: u64) -> Packet {
        let header = TcpHeader { ack: self.next, timestamp_picos, flags, ..TcpHeader::default() };
        let mut packet = Packet::new(self.flow, self.sender, Header::new(header));
        packet.wire_bytes = TCP_IP_HEADER_BYTES as u16;
        packet.flags = PacketFlags::TO_SENDER;
        packet.class = self.class;
        packet.path = self.path;
        packet
    }

    /// Acknowledges all bytes without a gap.
    fn acknowledge<T: Transport>(&mut self, cx: &mut HostCx<'_, T>) {
        let mut flags = TcpFlags::ACK;
        if self.marked {
            flags |= TcpFlags::MARKED;
        }
        if self.is_complete() {
            flags |= TcpFlags::COMPLETE;
        }
        cx.send(self.answer(flags, self.pending_timestamp_picos));
        self.pending = 0;
    }

    /// Adds a segment; returns whether it arrived in order with no gap left.
    fn take<T: Transport>(&mut self, seq: u64, end: u64, cx: &mut HostCx<'_, T>) -> bool {
        let expected = seq == self.next && self.highest == self.next;
        self.received.insert(seq, end, |start, end| {
            cx.emit(FlowEvent::Delivered(ByteRange { offset: start, len: end - start }));
        });
        self.next = self.received.prefix_end();
        self.highest = self.highest.max(end);
        expected
    }
}

impl<L: WindowLaw, T: Transport<Shared = TcpHost<L>>> Endpoint<T> for TcpReceiver {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, T>) {
        let header: TcpHeader = packet.header.get();
        let payload_bytes = u64::from(packet.payload_bytes);
        let Some(end) = header.seq.checked_add(payload_bytes) else {
            return;
        };
        if packet.is_trimmed() || header.has(TcpFlags::ACK) {
            return;
        }
        if header.has(TcpFlags::SYN) {
            let flags = TcpFlags::SYN | TcpFlags::ACK;
            return cx.send(self.answer(flags, header.timestamp_picos)); // TCP-R01
        }

        let marked = L::ECN_CAPABLE && packet.ecn() == Ecn::Marked;
        if self.pending > 0 && marked != self.marked {
            self.acknowledge(cx); // DCTCP-R02
        }
        self.marked = marked;

        let complete_before = self.is_complete();
        let in_order = self.take(header.seq, end, cx);
        if header.has(TcpFlags::LAST) {
            self.size = Some(end);
        }
        if self.is_complete() && !complete_before {
            cx.emit(FlowEvent::Completed);
        }

        if self.pending == 0 {
            self.pending_timestamp_picos = header.timestamp_picos;
        }
        self.pending += 1;
        // TCP-R11
        match cx.shared.settings.delayed_ack {
            Some(delay) if in_order && self.pending < 2 && !self.is_complete() => {
                cx.set_timer(cx.now + delay);
            }
            Some(_) => {
                self.acknowledge(cx);
                cx.clear_timer();
            }
            None => self.acknowledge(cx),
        }
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, T>) {
        if self.pending > 0 {
            self.acknowledge(cx);
        }
    }
}
