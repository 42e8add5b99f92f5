//! Strict priorities by class, any of which may be paused.

use super::{Cap, Ecn, Fate, Fates, Fifo, InService, PacketArena, PacketFlags, PacketId};
use punctual_core::Class;

#[derive(Debug)]
pub(super) struct Priority {
    fifos: [Fifo; Class::COUNT],
    cap: Cap,
    mark: Cap,
    /// A bit for each class that waits.
    waiting: u8,
    /// A bit for each class that may not be sent now.
    paused: u8,
}

const _: () = assert!(Class::COUNT == u8::BITS as usize);

impl Priority {
    pub(super) fn new(cap: Cap, mark: Cap) -> Self {
        Priority { fifos: [Fifo::default(); Class::COUNT], cap, mark, waiting: 0, paused: 0 }
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
        self.waiting |= 1 << class;
    }

    /// What waits in a class.
    pub(super) fn class(&self, class: Class) -> &Fifo {
        &self.fifos[usize::from(class.0) % Class::COUNT]
    }

    /// Bytes that wait in a class.
    pub(super) fn class_bytes(&self, class: Class) -> u32 {
        self.class(class).bytes()
    }

    /// The first class that has something to send and may; none is beyond all classes.
    #[inline]
    fn next(&self) -> usize {
        (self.waiting & !self.paused).trailing_zeros() as usize
    }

    #[inline(always)]
    pub(super) fn dequeue(&mut self, packets: &PacketArena) -> Option<PacketId> {
        let class = self.next();
        let fifo = self.fifos.get_mut(class)?;
        let id = fifo.pop_front(packets);
        if fifo.is_empty() {
            self.waiting &= !(1 << class);
        }
        id
    }

    /// The packet to send next.
    #[inline]
    pub(super) fn front(&self) -> Option<PacketId> {
        self.fifos.get(self.next()).and_then(Fifo::front)
    }

    /// Whether nothing waits that may be sent.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting & !self.paused == 0
    }

    pub(super) fn waiting(&self) -> (u32, u32) {
        self.fifos.iter().fold((0, 0), |(b, p), fifo| (b + fifo.bytes(), p + fifo.packets()))
    }
}
