//! The receiver: acknowledges every packet immediately and returns the ports' grants.

use super::header::{D3Header, PLAIN_HEADER_BYTES, RATE_BLOCK_BYTES, RateBlock};
use super::{D3Host, RequestPolicy};
use crate::paced::PacedReceiver;
use punctual_core::{Endpoint, FlowId, FlowRoute, Header, HostCx, Packet};

/// State of a D3, RCPdc or RCP receiver.
#[derive(Clone, Debug)]
pub struct D3Receiver {
    flow: PacedReceiver,
    fin_arrived: bool,
}

impl D3Receiver {
    /// A receiver that has received nothing.
    pub fn new(flow: FlowId, route: &FlowRoute) -> Self {
        D3Receiver { flow: PacedReceiver::new(flow, route), fin_arrived: false }
    }

    /// The bytes that a packet carries; nothing if it contradicts itself or an earlier packet.
    fn range(&self, packet: &Packet, header: &D3Header) -> Option<(u64, u64)> {
        let end = header.seq.checked_add(u64::from(packet.payload_bytes))?;
        let is_sound = !packet.is_to_sender()
            && !header.has(D3Header::ACK)
            && self.flow.is_consistent(end, header.has(D3Header::END));
        is_sound.then_some((header.seq, end))
    }

    fn answer<T: RequestPolicy<Shared = D3Host>>(
        &mut self,
        packet: &Packet,
        header: &D3Header,
        cx: &mut HostCx<'_, T>,
    ) {
        let mut flags = D3Header::ACK;
        if self.fin_arrived {
            flags |= D3Header::FIN;
        }
        if packet.payload_bytes > 0 {
            flags |= D3Header::DATA;
        }
        // D3-R02: the allocation vector returns to the sender.
        let mut request = 0;
        let mut ext = None;
        if header.has(D3Header::REQUEST) {
            match packet.ext.and_then(|id| RateBlock::answer(cx.ext.get(id))) {
                Some(answer) => {
                    flags |= D3Header::FEEDBACK;
                    request = header.request;
                    ext = Some(cx.ext.alloc(answer));
                }
                None => cx.shared.counters.malformed += 1,
            }
        }
        let answer = D3Header {
            seq: header.seq,
            ack: self.flow.prefix_end(),
            timestamp: header.timestamp,
            path: header.path,
            request,
            flags,
            reserved: 0,
        };
        let wire_bytes = PLAIN_HEADER_BYTES + if ext.is_some() { RATE_BLOCK_BYTES } else { 0 };
        // D3-R08: along the path of the packet.
        let mut ack = self.flow.ack_packet(Header::new(answer), header.path, wire_bytes);
        ack.ext = ext;
        cx.send(ack);
    }
}

impl<T: RequestPolicy> Endpoint<T> for D3Receiver {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, T>) {
        let header: D3Header = packet.header.get();
        let Some((start, end)) = self.range(packet, &header) else {
            cx.shared.counters.malformed += 1;
            return;
        };
        if packet.is_trimmed() {
            return; // D3 packets are not trimmable; a header without its data is useless.
        }
        self.fin_arrived |= header.has(D3Header::FIN | D3Header::REQUEST);
        let size = header.has(D3Header::END).then_some(end);
        self.flow.deliver((start, end), size, cx);
        self.answer(packet, &header, cx);
    }

    fn handle_timeout(&mut self, _cx: &mut HostCx<'_, T>) {}
}
