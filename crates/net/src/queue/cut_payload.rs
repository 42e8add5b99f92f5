//! Cut Payload (Cheng et al., NSDI 2014): trimmed headers share one FIFO with whole packets.

use super::{Cap, Fate, Fates, Fifo, InService, PacketArena, PacketId, cut_to};
use punctual_core::{Bytes, Class, Limit, PacketFlags};

#[derive(Debug)]
pub(super) struct CutPayload {
    fifo: Fifo,
    cap: Cap,
    trim_above: Cap,
    trim_to: u16,
}

impl CutPayload {
    pub(super) fn new(limit: Limit, trim_above: Option<Limit>, trim_to: Bytes) -> Self {
        let half = match limit {
            Limit::Bytes(bytes) => Limit::Bytes(Bytes::new(bytes.get() / 2)),
            Limit::Packets(packets) => Limit::Packets(packets / 2),
        };
        CutPayload {
            fifo: Fifo::default(),
            cap: Cap::new(limit),
            trim_above: Cap::new(trim_above.unwrap_or(half)),
            trim_to: u16::try_from(trim_to.get()).unwrap_or(u16::MAX),
        }
    }

    pub(super) fn enqueue(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
        fates: &mut Fates,
    ) {
        let packet = &mut packets[id];
        let busy = in_service.bytes;
        let is_data = packet.class != Class::CONTROL && packet.flags.has(PacketFlags::TRIMMABLE);
        if is_data && !self.trim_above.holds(&self.fifo, busy, packet.wire_bytes) {
            cut_to(packet, self.trim_to);
            fates.push((id, Fate::Trimmed));
        }
        if self.cap.holds(&self.fifo, busy, packets[id].wire_bytes) {
            self.fifo.push_back(packets, id);
        } else {
            fates.push((id, Fate::Dropped));
        }
    }

    pub(super) fn dequeue(&mut self, packets: &PacketArena) -> Option<PacketId> {
        self.fifo.pop_front(packets)
    }

    pub(super) fn waiting(&self) -> (u32, u32) {
        (self.fifo.bytes(), self.fifo.packets())
    }
}
