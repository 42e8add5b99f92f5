//! Models of the trimming switches of the NDP paper: the simulated one, NetFPGA and P4.

use super::{Fate, Fates, InService, PacketArena, PacketId, Trim, cut_to};
use punctual_core::{Bytes, Class, Limit, PacketFlags, TrimModel};

#[derive(Debug)]
pub(super) struct ModelQueue {
    trim: Trim,
    model: TrimModel,
    trim_to: u16,
}

impl ModelQueue {
    pub(super) fn trimming_tail(&self) -> Option<PacketId> {
        self.trim.data().back()
    }

    pub(super) fn new(
        model: TrimModel,
        data: Limit,
        headers: Limit,
        trim_to: Bytes,
        seed: u64,
    ) -> Self {
        let trim_to = u16::try_from(trim_to.get()).unwrap_or(u16::MAX);
        ModelQueue { trim: Trim::new(data, headers, None, seed), model, trim_to }
    }

    pub(super) fn enqueue(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
        fates: &mut Fates,
    ) {
        if packets[id].class == Class::CONTROL {
            self.enqueue_header(id, in_service, packets, fates);
            return;
        }
        // The P4 switch counts only queued packets, not the one in service.
        let busy = match self.model {
            TrimModel::P4 => 0,
            _ if in_service.is_control => 0,
            _ => in_service.bytes,
        };
        let packet = &packets[id];
        if self.trim.data_cap().holds(self.trim.data(), busy, packet.wire_bytes) {
            self.trim.data_mut().push_back(packets, id);
        } else if !packet.flags.has(PacketFlags::TRIMMABLE) {
            fates.push((id, Fate::Dropped));
        } else {
            let victim = match self.model {
                TrimModel::Paper => self.trim.choose_victim(id, busy, packets),
                _ => id,
            };
            cut_to(&mut packets[victim], self.trim_to);
            fates.push((victim, Fate::Trimmed));
            self.enqueue_header(victim, in_service, packets, fates);
        }
    }

    fn enqueue_header(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
        fates: &mut Fates,
    ) {
        if self.model == TrimModel::Paper {
            self.trim.enqueue_header(id, in_service, packets, fates);
            return;
        }
        if !self.trim.admit_header(id, in_service, packets) {
            fates.push((id, Fate::Dropped));
        }
    }

    pub(super) fn dequeue(&mut self, packets: &PacketArena) -> Option<PacketId> {
        if self.model == TrimModel::Paper {
            return self.trim.dequeue(packets);
        }
        self.trim.pop_header_first(packets)
    }

    pub(super) fn waiting(&self) -> (u32, u32) {
        self.trim.waiting()
    }
}
