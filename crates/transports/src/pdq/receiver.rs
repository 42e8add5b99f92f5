//! The receiver: acknowledges every packet immediately and returns its scheduling header.

use super::PdqConfig;
use super::header::{HEADER_BYTES, PdqHeader, kbps};
use crate::paced::PacedReceiver;
use punctual_core::{Endpoint, FlowId, FlowRoute, Header, HostCx, Packet};

/// State of a PDQ receiver.
#[derive(Clone, Debug)]
pub struct PdqReceiver {
    flow: PacedReceiver,
}

impl PdqReceiver {
    /// A receiver that has received nothing.
    pub fn new(flow: FlowId, route: &FlowRoute) -> Self {
        PdqReceiver { flow: PacedReceiver::new(flow, route) }
    }

    /// The bytes that a packet carries; nothing if it contradicts itself or an earlier packet.
    fn range(&self, packet: &Packet, header: &PdqHeader, segment: u64) -> Option<(u64, u64)> {
        let (len, is_end) = (u64::from(packet.payload_bytes), header.has(PdqHeader::END));
        let start = u64::from(header.seq) * segment;
        let end = start + len;
        let is_sized = len == segment || len == 0 || is_end && len < segment;
        let is_sound = !packet.is_to_sender()
            && !header.has(PdqHeader::ACK)
            && header.has(PdqHeader::DATA) == (len > 0)
            && is_sized
            && (len == 0 || self.flow.is_consistent(end, is_end));
        is_sound.then_some((start, end))
    }

    /// Acknowledges a packet whose data, if any, end at `end`.
    fn answer(&mut self, header: &PdqHeader, end: u64, cx: &mut HostCx<'_, PdqConfig>) {
        let complete = self.flow.prefix_end();
        let arrived = if complete == end && header.has(PdqHeader::DATA) {
            header.seq.saturating_add(1) // In order, as most are: no division.
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
        cx.send(self.flow.ack_packet(Header::new(answer), header.path(), HEADER_BYTES));
    }
}

impl Endpoint<PdqConfig> for PdqReceiver {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, PdqConfig>) {
        let header: PdqHeader = packet.header.get();
        let segment = cx.shared.segment_bytes();
        let Some((start, end)) = self.range(packet, &header, segment) else {
            cx.shared.counters.malformed += 1;
            return;
        };
        if packet.is_trimmed() {
            return; // PDQ packets are not trimmable; a header without its data is useless.
        }
        let size = if header.has(PdqHeader::END) && end > start {
            Some(end)
        } else if header.has(PdqHeader::TERM | PdqHeader::END)
            && header.seq == 0
            && self.flow.is_empty()
        {
            Some(0) // A flow without data ends with its first TERM.
        } else {
            None
        };
        self.flow.deliver((start, end), size, cx);
        self.answer(&header, end, cx);
    }

    fn handle_timeout(&mut self, _cx: &mut HostCx<'_, PdqConfig>) {}
}
