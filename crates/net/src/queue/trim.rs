//! NDP's two queues: data, and headers of data that did not fit.

use super::{Cap, Ecn, Fate, Fates, Fifo, InService, Limit, TRIMMED_BYTES, cut_to};
use punctual_core::rng::Stream;
use punctual_core::{Class, PacketArena, PacketFlags, PacketId};

#[derive(Debug)]
pub(super) struct Trim {
    pub(super) data: Fifo,
    pub(super) headers: Fifo,
    pub(super) data_cap: Cap,
    pub(super) header_cap: Cap,
    pub(super) mark: Cap,
    /// Whose turn it is when both queues wait: of every eleven, ten are headers.
    turn: u8,
    coin: Stream,
}

impl Trim {
    pub(super) fn new(data: Limit, headers: Limit, mark_above: Option<Limit>, seed: u64) -> Self {
        Trim {
            data: Fifo::default(),
            headers: Fifo::default(),
            data_cap: Cap::new(data),
            header_cap: Cap::new(headers),
            mark: mark_above.map_or(Cap::NONE, Cap::new),
            turn: 0,
            coin: Stream::from_seed(seed),
        }
    }

    /// Bytes and packets waiting.
    pub(super) fn waiting(&self) -> (u32, u32) {
        (self.data.bytes() + self.headers.bytes(), self.data.packets() + self.headers.packets())
    }

    /// Most arrivals find room and stay as they are.
    #[inline(always)]
    pub(super) fn enqueue(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
        fates: &mut Fates,
    ) {
        let (class, bytes) = (packets[id].class, packets[id].wire_bytes);
        if class == Class::CONTROL {
            self.enqueue_header(id, in_service, packets, fates);
            return;
        }
        let busy = if in_service.is_control { 0 } else { in_service.bytes };
        let is_calm = self.data_cap.holds(&self.data, busy, bytes)
            && self.mark.holds(&self.data, busy, bytes);
        if is_calm {
            self.data.push_back(packets, id);
        } else {
            self.enqueue_crowding(id, in_service, packets, fates);
        }
    }

    /// Data that may have to be marked or trimmed.
    #[cold]
    #[inline(never)]
    fn enqueue_crowding(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
        fates: &mut Fates,
    ) {
        let packet = &mut packets[id];
        let busy = if in_service.is_control { 0 } else { in_service.bytes };
        if self.data_cap.holds(&self.data, busy, packet.wire_bytes) {
            let over = !self.mark.holds(&self.data, busy, packet.wire_bytes);
            if over && packet.ecn() == Ecn::Capable {
                packet.flags.set(PacketFlags::ECN_MARKED);
                fates.push((id, Fate::Marked));
            }
            self.data.push_back(packets, id);
            return;
        }
        if !packet.flags.has(PacketFlags::TRIMMABLE) {
            fates.push((id, Fate::Dropped));
            return;
        }
        let trimmed = self.choose_victim(id, busy, packets);
        cut_to(&mut packets[trimmed], TRIMMED_BYTES);
        fates.push((trimmed, Fate::Trimmed));
        self.enqueue_header(trimmed, in_service, packets, fates);
    }

    /// Heads: the arrival loses its payload. Tails: the last data packet does, and the arrival
    /// takes its place, if it fits there.
    pub(super) fn choose_victim(
        &mut self,
        arrival: PacketId,
        busy: u32,
        packets: &mut PacketArena,
    ) -> PacketId {
        let Some(tail) = self.data.back() else {
            return arrival;
        };
        let (tail_bytes, bytes) = (packets[tail].wire_bytes, packets[arrival].wire_bytes);
        let room = self.data.bytes() + busy - u32::from(tail_bytes) + u32::from(bytes);
        let fits = self.data_cap.0 & Cap::IN_PACKETS != 0 || room <= self.data_cap.0;
        let tail_may_go = packets[tail].flags.has(PacketFlags::TRIMMABLE) && fits;
        if self.coin.coin() || !tail_may_go {
            return arrival;
        }
        self.data.replace_back(packets, arrival).unwrap_or(arrival)
    }

    #[inline(always)]
    pub(super) fn enqueue_header(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
        fates: &mut Fates,
    ) {
        let busy = if in_service.is_control { in_service.bytes } else { 0 };
        if self.header_cap.holds(&self.headers, busy, packets[id].wire_bytes) {
            self.headers.push_back(packets, id);
        } else {
            self.refuse_header(id, packets, fates);
        }
    }

    /// A header without room goes back to its sender; what was no data, or came back before, is
    /// lost.
    #[cold]
    #[inline(never)]
    fn refuse_header(&mut self, id: PacketId, packets: &PacketArena, fates: &mut Fates) {
        let packet = &packets[id];
        let may_return = packet.is_trimmed() && !packet.is_bounced();
        fates.push((id, if may_return { Fate::Bounced } else { Fate::Dropped }));
    }

    #[inline(always)]
    pub(super) fn dequeue(&mut self, packets: &PacketArena) -> Option<PacketId> {
        if self.data.is_empty() {
            return self.headers.pop_front(packets);
        }
        if !self.headers.is_empty() {
            self.turn = if self.turn >= 10 { 0 } else { self.turn + 1 };
            if self.turn < 10 {
                return self.headers.pop_front(packets);
            }
        }
        self.data.pop_front(packets)
    }
}
