//! The receiver: counts packets and acknowledges the complete flow.

use super::config::FREE_MAX;
use super::header::{HEADER_BYTES, PhostHeader, kind};
use super::tokens::Arrival;
use super::{PhostConfig, PhostHost};
use punctual_core::{
    ByteRange, Class, Endpoint, FlowEvent, FlowId, FlowRoute, Header, HostCx, HostId, Packet,
    PacketFlags, Wait,
};

/// State of a pHost receiver. The host's [`TokenQueue`](super::TokenQueue) tracks missing packets.
#[derive(Clone, Debug)]
pub struct PhostReceiver {
    flow: FlowId,
    sender: HostId,
    size_bytes: u64,
    /// Its slot in the token queue, until it is complete.
    line: Option<u32>,
    is_complete: bool,
}

/// A packet from receiver to sender, without data: tokens and acknowledgements.
pub(super) fn answer(flow: FlowId, to: HostId, header: PhostHeader) -> Packet {
    let mut packet = Packet::new(flow, to, Header::new(header));
    packet.wire_bytes = HEADER_BYTES;
    packet.class = Class::CONTROL; // PHOST-R09
    packet.flags = PacketFlags::TO_SENDER.with(PacketFlags::SWITCH_PATH);
    packet
}

impl PhostReceiver {
    pub(super) fn open(first: &Packet, route: &FlowRoute) -> Self {
        let header: PhostHeader = first.header.get();
        PhostReceiver {
            flow: first.flow,
            sender: route.peer,
            size_bytes: header.size,
            line: None,
            is_complete: false,
        }
    }

    /// Its slot in the host's token queue.
    pub fn line(&self) -> Option<u32> {
        self.line
    }

    fn acknowledge(&self, cx: &mut HostCx<'_, PhostConfig>) {
        let header = PhostHeader { kind: kind::ACK, ..PhostHeader::default() };
        cx.send(answer(self.flow, self.sender, header));
    }

    fn complete(&mut self, cx: &mut HostCx<'_, PhostConfig>) {
        self.is_complete = true;
        if let Some(line) = self.line.take() {
            cx.shared.tokens.close(line);
        }
        cx.emit(FlowEvent::Completed);
        self.acknowledge(cx); // PHOST-R10
    }

    fn take(&mut self, packet: &Packet, header: &PhostHeader, cx: &mut HostCx<'_, PhostConfig>) {
        let Some(line) = self.line else { return };
        let arrival = cx.shared.tokens.arrive(line, header.packet, header.token, cx.now);
        if arrival == Arrival::Duplicate {
            return;
        }
        let range = ByteRange {
            offset: header.packet * cx.shared.payload_bytes,
            len: u64::from(packet.payload_bytes),
        };
        cx.emit(FlowEvent::Delivered(range));
        if arrival == Arrival::Last {
            self.complete(cx);
        }
    }
}

impl Endpoint<PhostConfig> for PhostReceiver {
    fn gauges(&self, host: &PhostHost, tell: &mut dyn FnMut(&'static str, f64)) {
        if let Some((outstanding, missing)) = self.line.and_then(|line| host.tokens.state_of(line))
        {
            tell("tokens_outstanding", f64::from(outstanding));
            tell("missing_packets", missing as f64);
        }
        if let Some(trip) = self.line.and_then(|line| host.tokens.round_trip_of(line)) {
            tell("round_trip_us", trip.as_secs_f64() * 1e6);
        }
    }

    fn waits_for(&self) -> Wait {
        Wait::Token
    }

    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, PhostConfig>) {
        let header: PhostHeader = packet.header.get();
        let is_ours = matches!(header.kind, kind::REQUEST | kind::DATA);
        if !is_ours || packet.is_trimmed() || header.size != self.size_bytes {
            return; // PHOST-R12
        }
        if self.is_complete {
            if header.kind == kind::REQUEST {
                self.acknowledge(cx);
            }
            return;
        }
        let packets = cx.shared.packets_of(self.size_bytes);
        if header.kind == kind::DATA {
            let expected = cx.shared.bytes_in(header.packet, self.size_bytes);
            if expected != Some(u64::from(packet.payload_bytes)) {
                return; // PHOST-R12
            }
        }
        if self.line.is_none() {
            if packets == 0 {
                return self.complete(cx);
            }
            // PHOST-R01: any packet opens the flow. The sender decides how many packets go without
            // tokens, because its line rate may differ.
            let free = header.missing.min(packets).min(u64::from(FREE_MAX));
            let (flow, sender, now) = (self.flow, self.sender, cx.now);
            self.line = Some(cx.shared.tokens.open(flow, sender, packets, free, now));
        }
        if header.kind == kind::DATA {
            self.take(packet, &header, cx);
        }
        if let Some(at) = cx.shared.tokens.arm(cx.now) {
            cx.set_host_timer(at);
        }
    }

    fn handle_timeout(&mut self, _: &mut HostCx<'_, PhostConfig>) {}

    fn close(&mut self, host: &mut PhostHost) {
        if let Some(line) = self.line.take() {
            host.tokens.close(line);
        }
    }
}
