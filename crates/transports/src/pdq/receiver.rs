//! The receiving end: answers every packet at once, with the scheduling header it came with.

use super::Pdq;
use super::header::{HEADER_BYTES, PdqHeader, kbps};
use punctual_core::{
    ByteRange, Class, Endpoint, FlowEvent, FlowId, FlowRoute, Header, HostCx, HostId, Packet,
    PacketFlags, RangeSet,
};

/// State of a flow's receiving end.
#[derive(Clone, Debug)]
pub struct Receiver {
    flow: FlowId,
    peer: HostId,
    arrived: RangeSet,
    size: Option<u64>,
    completed: bool,
}

impl Receiver {
    /// A receiver that has got nothing.
    pub fn new(flow: FlowId, route: &FlowRoute) -> Self {
        let arrived = RangeSet::default();
        Receiver { flow, peer: route.peer, arrived, size: None, completed: false }
    }

    /// The bytes a packet says it carries, unless it contradicts itself or an earlier one.
    fn range(&self, packet: &Packet, header: &PdqHeader, segment: u64) -> Option<(u64, u64)> {
        let (len, is_end) = (u64::from(packet.payload_bytes), header.has(PdqHeader::END));
        let start = u64::from(header.seq) * segment;
        let end = start + len;
        let sized = len == segment || len == 0 || is_end && len < segment;
        let ends = is_end && len > 0;
        let sound = !packet.is_to_sender()
            && !header.has(PdqHeader::ACK)
            && header.has(PdqHeader::DATA) == (len > 0)
            && sized
            && (len == 0 || self.size.is_none_or(|size| end <= size))
            && (!ends
                || self.size.is_none_or(|size| end == size)
                    && self.arrived.iter().last().is_none_or(|(_, highest)| highest <= end));
        sound.then_some((start, end))
    }

    /// Answers a packet whose data, if any, end at `end`.
    fn answer(&mut self, header: &PdqHeader, end: u64, cx: &mut HostCx<'_, Pdq>) {
        let complete = self.arrived.prefix_end();
        let arrived = if complete == end && header.has(PdqHeader::DATA) {
            header.seq.saturating_add(1) // In order, as most are: nothing to divide.
        } else {
            // The last segment may be shorter.
            let segments = complete.div_ceil(cx.shared.segment_bytes());
            u32::try_from(segments).unwrap_or(u32::MAX)
        };
        let limit = cx.config.receiver_rate.map_or(cx.shared.line_kbps, kbps);
        let answer = PdqHeader {
            flags: header.flags | PdqHeader::ACK,
            // PDQ-R07
            rate: header.rate.min(limit),
            // I on the way back: ports raise it.
            deadline: 0,
            expected: arrived,
            age: 0,
            ..*header
        };
        let mut ack = Packet::new(self.flow, self.peer, Header::new(answer));
        ack.path = u32::from(header.path);
        ack.flags = PacketFlags::TO_SENDER.with(PacketFlags::REVERSE_PATH);
        ack.class = Class::CONTROL;
        ack.wire_bytes = HEADER_BYTES;
        cx.send(ack);
    }
}

impl Endpoint<Pdq> for Receiver {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, Pdq>) {
        let header: PdqHeader = packet.header.get();
        let segment = cx.shared.segment_bytes();
        let Some((start, end)) = self.range(packet, &header, segment) else {
            cx.shared.counters.malformed += 1;
            return;
        };
        if packet.is_trimmed() {
            return; // PDQ asks for no trimming, and a header without its data says nothing.
        }
        self.arrived.insert(start, end, |from, to| {
            let range = ByteRange { offset: from, len: to - from };
            cx.out.events.push(FlowEvent::Delivered(range));
        });
        if header.has(PdqHeader::END) && end > start {
            self.size = Some(end);
        } else if header.has(PdqHeader::TERM | PdqHeader::END)
            && header.seq == 0
            && self.arrived.iter().next().is_none()
        {
            self.size = Some(0); // A flow without data ends with its first TERM.
        }
        if !self.completed && self.size == Some(self.arrived.prefix_end()) {
            self.completed = true;
            cx.emit(FlowEvent::Completed);
        }
        self.answer(&header, end, cx);
    }

    fn handle_timeout(&mut self, _cx: &mut HostCx<'_, Pdq>) {}
}
