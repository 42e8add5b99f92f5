//! The receiver: reports marks by CNPs at a limited rate and accepts packets in order only.

use super::DcqcnConfig;
use super::header::{ACK_BYTES, CNP_BYTES, DcqcnFlags, DcqcnHeader};
use punctual_core::{
    ByteRange, Class, Ecn, Endpoint, FlowEvent, FlowId, FlowRoute, Header, HostCx, HostId, Instant,
    Packet, PacketFlags,
};

/// State of a DCQCN receiver.
#[derive(Clone, Debug)]
pub struct DcqcnReceiver {
    flow: FlowId,
    sender: HostId,
    path: u32,
    /// Every byte below this has arrived.
    expected: u64,
    is_complete: bool,
    /// Whether a NAK has been sent for the missing packet.
    has_sent_nak: bool,
    /// Packets in order since the last acknowledgement.
    unanswered: u32,
    last_cnp: Option<Instant>,
}

impl DcqcnReceiver {
    pub(super) fn open(first: &Packet, route: &FlowRoute) -> Self {
        DcqcnReceiver {
            flow: first.flow,
            sender: route.peer,
            path: route.ecmp_path,
            expected: 0,
            is_complete: false,
            has_sent_nak: false,
            unanswered: 0,
            last_cnp: None,
        }
    }

    /// A packet to the sender, in the control class. DCQCN-R10.
    fn answer(&self, flags: u8, wire_bytes: u16) -> Packet {
        let header = DcqcnHeader { offset: self.expected, flags, ..DcqcnHeader::default() };
        let mut packet = Packet::new(self.flow, self.sender, Header::new(header));
        packet.wire_bytes = wire_bytes;
        packet.class = Class::CONTROL;
        packet.path = self.path;
        packet.flags = PacketFlags::TO_SENDER;
        packet
    }

    fn acknowledge(&mut self, flags: u8, cx: &mut HostCx<'_, DcqcnConfig>) {
        let complete = if self.is_complete { DcqcnFlags::COMPLETE } else { 0 };
        self.unanswered = 0;
        cx.send(self.answer(DcqcnFlags::ACK | complete | flags, ACK_BYTES));
    }

    /// The notification point. DCQCN-R03.
    fn notice(&mut self, packet: &Packet, cx: &mut HostCx<'_, DcqcnConfig>) {
        if packet.ecn() != Ecn::Marked {
            return;
        }
        let is_due = self.last_cnp.is_none_or(|last| cx.now >= last + cx.config.cnp_interval);
        if is_due {
            self.last_cnp = Some(cx.now);
            cx.send(self.answer(DcqcnFlags::CNP, CNP_BYTES));
        }
    }
}

impl Endpoint<DcqcnConfig> for DcqcnReceiver {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, DcqcnConfig>) {
        let header: DcqcnHeader = packet.header.get();
        let is_data = !packet.is_trimmed() && header.flags & !DcqcnFlags::LAST == 0;
        let Some(end) = header.offset.checked_add(u64::from(packet.payload_bytes)) else {
            return;
        };
        if !is_data {
            return;
        }
        self.notice(packet, cx);
        if header.offset > self.expected {
            // DCQCN-R11
            if !self.has_sent_nak {
                self.has_sent_nak = true;
                self.acknowledge(DcqcnFlags::NAK, cx);
            }
            return;
        }
        if end <= self.expected && (end > 0 || self.is_complete) {
            // A duplicate: the sender has missed the acknowledgement.
            return self.acknowledge(0, cx);
        }
        if end > self.expected {
            let fresh = ByteRange { offset: self.expected, len: end - self.expected };
            cx.emit(FlowEvent::Delivered(fresh));
            self.expected = end;
        }
        self.has_sent_nak = false;
        self.unanswered += 1;
        if header.has(DcqcnFlags::LAST) {
            self.is_complete = true;
            cx.emit(FlowEvent::Completed);
        }
        if self.is_complete || self.unanswered >= cx.config.ack_every {
            self.acknowledge(0, cx);
        }
    }

    fn handle_timeout(&mut self, _: &mut HostCx<'_, DcqcnConfig>) {}
}
