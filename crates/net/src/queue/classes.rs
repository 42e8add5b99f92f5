//! `FairClasses`: deficit round robin between a trimming class and a class for all other
//! transports, so that NDP can share a link with transports that fill long queues.

use super::{Cap, Ecn, Fate, Fates, Fifo, InService, Limit, Packet, PacketArena, PacketId, Trim};
use punctual_core::PacketFlags;

/// Sum of both quanta: the bytes that the classes may send per round.
const ROUND_BYTES: i64 = 30_000;

#[derive(Debug)]
pub(super) struct FairClasses {
    trim: Trim,
    rest: Fifo,
    rest_cap: Cap,
    rest_mark: Cap,
    /// Transports of the trimming class, one bit each.
    trimming: u64,
    /// Bytes that each class may send per round: the trimming class, then the other.
    quantum: [i64; 2],
    /// Bytes that each class may still send. The last packet of a turn may overdraw it.
    credit: [i64; 2],
    /// The class being served.
    turn: usize,
    /// The class of the packet sent last, which occupies buffer space of its class while in
    /// service.
    in_service: usize,
}

impl FairClasses {
    pub(super) fn trimming_tail(&self) -> Option<PacketId> {
        self.trim.data().back()
    }

    pub(super) fn new(
        trim: Trim,
        rest: Limit,
        rest_mark_above: Option<Limit>,
        trim_percent: u8,
    ) -> Self {
        let share = ROUND_BYTES * i64::from(trim_percent.clamp(1, 99)) / 100;
        FairClasses {
            trim,
            rest: Fifo::default(),
            rest_cap: Cap::new(rest),
            rest_mark: rest_mark_above.map_or(Cap::NONE, Cap::new),
            trimming: 0,
            quantum: [share, ROUND_BYTES - share],
            credit: [0; 2],
            turn: 0,
            in_service: 0,
        }
    }

    pub(super) fn set_trimming(&mut self, transports: u64) {
        self.trimming = transports;
    }

    pub(super) fn enqueue(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
        fates: &mut Fates,
    ) {
        let packet = &mut packets[id];
        let of = |class| if self.in_service == class { in_service } else { InService::default() };
        if self.trimming >> (packet.transport.0 & 63) & 1 == 1 {
            self.trim.enqueue(id, of(0), packets, fates);
            return;
        }
        let busy = of(1).bytes;
        if !self.rest_cap.holds(&self.rest, busy, packet.wire_bytes) {
            fates.push((id, Fate::Dropped));
            return;
        }
        let over = !self.rest_mark.holds(&self.rest, busy, packet.wire_bytes);
        if over && packet.ecn() == Ecn::Capable {
            packet.flags.set(PacketFlags::ECN_MARKED);
            fates.push((id, Fate::Marked));
        }
        self.rest.push_back(packets, id);
    }

    /// The port sends a packet that has not been in this queue.
    pub(super) fn note_bypass(&mut self, packet: &Packet) {
        let is_trimming = self.trimming >> (packet.transport.0 & 63) & 1 == 1;
        self.in_service = usize::from(!is_trimming);
    }

    /// Serves a class until its credit is spent, then the other. A class that has overdrawn its
    /// credit gets that much less in the next round.
    pub(super) fn dequeue(&mut self, packets: &PacketArena) -> Option<PacketId> {
        if self.waiting().1 == 0 {
            return None;
        }
        loop {
            let class = self.turn;
            if self.credit[class] > 0 {
                let next = match class {
                    0 => self.trim.dequeue(packets),
                    _ => self.rest.pop_front(packets),
                };
                if let Some(id) = next {
                    self.credit[class] -= i64::from(packets[id].wire_bytes);
                    self.in_service = class;
                    return Some(id);
                }
                // An idle class does not save up credit.
                self.credit[class] = 0;
            }
            self.turn = 1 - class;
            self.credit[self.turn] += self.quantum[self.turn];
        }
    }

    pub(super) fn waiting(&self) -> (u32, u32) {
        let (bytes, packets) = self.trim.waiting();
        (bytes + self.rest.bytes(), packets + self.rest.packets())
    }
}
