//! Two classes that share a link fairly, so that transports which trim and transports which fill
//! long queues can live side by side.

use super::{Cap, Ecn, Fate, Fates, Fifo, InService, Limit, PacketArena, PacketId, Trim};
use punctual_core::PacketFlags;

/// Bytes that both classes together may send in a round: a few packets.
const ROUND_BYTES: i64 = 30_000;

#[derive(Debug)]
pub(super) struct FairClasses {
    trim: Trim,
    rest: Fifo,
    rest_cap: Cap,
    rest_mark: Cap,
    /// Transports whose packets are of the trimming class, a bit each.
    trimming: u64,
    /// Bytes that each class gets in a round: the trimming one, then the other.
    quantum: [i64; 2],
    /// Bytes that each class may still send; a packet may overdraw it.
    credit: [i64; 2],
    /// The class being served.
    turn: usize,
    /// The class of the packet sent last, which takes up room of its class while it is sent.
    in_service: usize,
}

impl FairClasses {
    pub(super) fn trimming_tail(&self) -> Option<PacketId> {
        self.trim.data.back()
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

    /// Serves a class until its credit is spent, then the other: which of them has bytes to spare
    /// or has overdrawn makes up for it in the next round.
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
                // Nothing waits: what it might have sent is lost to it.
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
