//! Strict priority by class. Each class may be paused.

use super::{Cap, Ecn, Fate, Fates, Fifo, InService, PacketArena, PacketFlags, PacketId};
use punctual_core::Class;

#[derive(Debug)]
pub(super) struct Priority {
    fifos: [Fifo; Class::COUNT],
    cap: Cap,
    mark: Cap,
    /// One bit for each class with queued packets.
    backlogged: u8,
    /// One bit for each paused class.
    paused: u8,
}

const _: () = assert!(Class::COUNT == u8::BITS as usize);

impl Priority {
    pub(super) fn new(cap: Cap, mark: Cap) -> Self {
        Priority { fifos: [Fifo::default(); Class::COUNT], cap, mark, backlogged: 0, paused: 0 }
    }

    pub(super) fn caps(&self) -> [Cap; 2] {
        [self.cap, self.mark]
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused != 0
    }

    pub(super) fn set_paused(&mut self, class: Class, is_paused: bool) {
        let bit = 1 << (usize::from(class.0) % Class::COUNT);
        self.paused = if is_paused { self.paused | bit } else { self.paused & !bit };
    }

    #[inline(always)]
    pub(super) fn enqueue(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
        fates: &mut Fates,
    ) {
        let packet = &mut packets[id];
        let class = usize::from(packet.class.0) % Class::COUNT;
        let fifo = &mut self.fifos[class];
        if !self.cap.holds(fifo, in_service.bytes, packet.wire_bytes) {
            fates.push((id, Fate::Dropped));
            return;
        }
        if !self.mark.holds(fifo, in_service.bytes, packet.wire_bytes)
            && packet.ecn() == Ecn::Capable
        {
            packet.flags.set(PacketFlags::ECN_MARKED);
            fates.push((id, Fate::Marked));
        }
        fifo.push_back(packets, id);
        self.backlogged |= 1 << class;
    }

    /// The queue of a class.
    pub(super) fn class(&self, class: Class) -> &Fifo {
        &self.fifos[usize::from(class.0) % Class::COUNT]
    }

    /// Queued bytes of a class.
    pub(super) fn class_bytes(&self, class: Class) -> u32 {
        self.class(class).bytes()
    }

    /// The first class that is backlogged and not paused; `Class::COUNT` if there is none.
    #[inline]
    fn next(&self) -> usize {
        (self.backlogged & !self.paused).trailing_zeros() as usize
    }

    #[inline(always)]
    pub(super) fn dequeue(&mut self, packets: &PacketArena) -> Option<PacketId> {
        let class = self.next();
        let fifo = self.fifos.get_mut(class)?;
        let id = fifo.pop_front(packets);
        if fifo.is_empty() {
            self.backlogged &= !(1 << class);
        }
        id
    }

    /// The packet to send next.
    #[inline]
    pub(super) fn front(&self) -> Option<PacketId> {
        self.fifos.get(self.next()).and_then(Fifo::front)
    }

    /// Whether no packet may be sent: none is queued, or every queued class is paused.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.backlogged & !self.paused == 0
    }

    pub(super) fn waiting(&self) -> (u32, u32) {
        self.fifos.iter().fold((0, 0), |(b, p), fifo| (b + fifo.bytes(), p + fifo.packets()))
    }
}
