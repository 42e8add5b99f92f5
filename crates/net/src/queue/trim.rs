//! NDP's two queues: one for data, one for control packets and trimmed headers.

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
    /// Position in the round when both queues are backlogged: ten headers, then one data packet.
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

    /// Queued bytes and packets.
    pub(super) fn waiting(&self) -> (u32, u32) {
        (self.data.bytes() + self.headers.bytes(), self.data.packets() + self.headers.packets())
    }

    /// Enqueues an arrival. Most find room and need neither a mark nor a trim.
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
        let fits_unmarked = self.data_cap.holds(&self.data, busy, bytes)
            && self.mark.holds(&self.data, busy, bytes);
        if fits_unmarked {
            self.data.push_back(packets, id);
        } else {
            self.enqueue_congested(id, in_service, packets, fates);
        }
    }

    /// Enqueues data that must be marked, trimmed or dropped, if it allows that.
    #[cold]
    #[inline(never)]
    fn enqueue_congested(
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

    /// Chooses the packet to trim with a coin toss: the arrival, or the last data packet, whose
    /// place the arrival then takes. The last data packet must be trimmable, and the arrival fit.
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

    /// Handles a full header queue: a trimmed header bounces back to its sender once; any other
    /// packet is dropped.
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
