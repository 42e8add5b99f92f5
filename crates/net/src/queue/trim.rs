//! NDP's two queues: one for data, one for control packets and trimmed headers.

use super::{Cap, Ecn, Fate, Fates, Fifo, InService, Limit, TRIMMED_BYTES, cut_to};
use punctual_core::rng::Stream;
use punctual_core::{Class, PacketArena, PacketFlags, PacketId};
use std::hint::select_unpredictable;

/// The places of the two queues in [`Trim`]. Which of them a packet joins or leaves is chosen by
/// index, because branches would be mispredicted often.
const HEADERS: usize = 0;
const DATA: usize = 1;

#[derive(Debug)]
pub(super) struct Trim {
    queues: [Fifo; 2],
    caps: [Cap; 2],
    /// Above this an arrival of data is marked.
    mark: Cap,
    /// Position in the round when both queues are backlogged: ten headers, then one data packet.
    turn: u8,
    coin: Stream,
}

impl Trim {
    pub(super) fn new(data: Limit, headers: Limit, mark_above: Option<Limit>, seed: u64) -> Self {
        Trim {
            queues: [Fifo::default(); 2],
            caps: [Cap::new(headers), Cap::new(data)],
            mark: mark_above.map_or(Cap::NONE, Cap::new),
            turn: 0,
            coin: Stream::from_seed(seed),
        }
    }

    /// The queue of control packets and trimmed headers.
    #[inline]
    pub(super) fn headers(&self) -> &Fifo {
        &self.queues[HEADERS]
    }

    /// The queue of data.
    #[inline]
    pub(super) fn data(&self) -> &Fifo {
        &self.queues[DATA]
    }

    pub(super) fn data_mut(&mut self) -> &mut Fifo {
        &mut self.queues[DATA]
    }

    pub(super) fn data_cap(&self) -> Cap {
        self.caps[DATA]
    }

    /// The queue that packets of a class join.
    #[inline]
    pub(super) fn queue_of(&self, class: Class) -> &Fifo {
        &self.queues[usize::from(class != Class::CONTROL)]
    }

    pub(super) fn all_caps(&self) -> [Cap; 3] {
        [self.caps[DATA], self.caps[HEADERS], self.mark]
    }

    /// Queued bytes and packets.
    pub(super) fn waiting(&self) -> (u32, u32) {
        let [headers, data] = &self.queues;
        (data.bytes() + headers.bytes(), data.packets() + headers.packets())
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queues[HEADERS].packets() + self.queues[DATA].packets() == 0
    }

    /// Takes the first header or, if there is none, the first data packet.
    pub(super) fn pop_header_first(&mut self, packets: &PacketArena) -> Option<PacketId> {
        let [headers, data] = &mut self.queues;
        headers.pop_front(packets).or_else(|| data.pop_front(packets))
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
        let is_data = class != Class::CONTROL;
        let which = usize::from(is_data);
        let is_other = in_service.is_control == is_data;
        let busy = select_unpredictable(is_other, 0, in_service.bytes);
        let mark = select_unpredictable(is_data, self.mark, Cap::NONE);
        let queue = &mut self.queues[which];
        let fits_unmarked =
            self.caps[which].holds(queue, busy, bytes) && mark.holds(queue, busy, bytes);
        if fits_unmarked {
            queue.push_back(packets, id);
        } else if is_data {
            self.enqueue_congested(id, in_service, packets, fates);
        } else {
            self.refuse_header(id, packets, fates);
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
        if self.caps[DATA].holds(&self.queues[DATA], busy, packet.wire_bytes) {
            let over = !self.mark.holds(&self.queues[DATA], busy, packet.wire_bytes);
            if over && packet.ecn() == Ecn::Capable {
                packet.flags.set(PacketFlags::ECN_MARKED);
                fates.push((id, Fate::Marked));
            }
            self.queues[DATA].push_back(packets, id);
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
        let Some(tail) = self.data().back() else {
            return arrival;
        };
        let (tail_bytes, bytes) = (packets[tail].wire_bytes, packets[arrival].wire_bytes);
        let room = self.data().bytes() + busy - u32::from(tail_bytes) + u32::from(bytes);
        let cap = self.data_cap().0;
        let fits = cap & Cap::IN_PACKETS != 0 || room <= cap;
        let tail_may_go = packets[tail].flags.has(PacketFlags::TRIMMABLE) && fits;
        if self.coin.coin() || !tail_may_go {
            return arrival;
        }
        self.queues[DATA].replace_back(packets, arrival).unwrap_or(arrival)
    }

    pub(super) fn enqueue_header(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
        fates: &mut Fates,
    ) {
        if !self.admit_header(id, in_service, packets) {
            self.refuse_header(id, packets, fates);
        }
    }

    /// Queues a control packet or trimmed header if there is room for it.
    pub(super) fn admit_header(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
    ) -> bool {
        let busy = if in_service.is_control { in_service.bytes } else { 0 };
        let headers = &mut self.queues[HEADERS];
        let fits = self.caps[HEADERS].holds(headers, busy, packets[id].wire_bytes);
        if fits {
            headers.push_back(packets, id);
        }
        fits
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
        let [has_headers, has_data] = [!self.headers().is_empty(), !self.data().is_empty()];
        let next_turn = if self.turn >= 10 { 0 } else { self.turn + 1 };
        self.turn = select_unpredictable(has_headers & has_data, next_turn, self.turn);
        let is_data = has_data & (!has_headers | (self.turn >= 10));
        self.queues[usize::from(is_data)].pop_front(packets)
    }
}
