//! A queue of packets linked through the packets themselves: no allocation, 16 bytes per queue.

use crate::{PacketArena, PacketId};
use core::hint::select_unpredictable;

/// A FIFO queue of packets. A packet is in at most one queue at a time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fifo {
    /// The first and last packet, unless the queue is empty.
    head: PacketId,
    tail: PacketId,
    packets: u32,
    bytes: u32,
}

impl Fifo {
    /// Appends a packet.
    ///
    /// A branch on whether the queue is empty would be mispredicted often, so the first packet is
    /// linked to itself.
    #[inline]
    pub fn push_back(&mut self, arena: &mut PacketArena, id: PacketId) {
        self.bytes += u32::from(arena[id].wire_bytes);
        let is_empty = self.packets == 0;
        self.head = select_unpredictable(is_empty, id, self.head);
        let before = select_unpredictable(is_empty, id, self.tail);
        arena[before].next = id.0;
        self.packets += 1;
        self.tail = id;
    }

    /// Takes the first packet out.
    #[inline]
    pub fn pop_front(&mut self, arena: &PacketArena) -> Option<PacketId> {
        if self.packets == 0 {
            return None;
        }
        let id = self.head;
        let packet = &arena[id];
        self.head = PacketId(packet.next);
        self.packets -= 1;
        self.bytes -= u32::from(packet.wire_bytes);
        Some(id)
    }

    /// The first packet.
    #[inline]
    pub fn front(&self) -> Option<PacketId> {
        (self.packets > 0).then_some(self.head)
    }

    /// Replaces the last packet by `arrival` and returns the new id of the replaced packet.
    ///
    /// The two packets exchange slots, so that a singly linked queue can give up its tail. None
    /// when the queue is empty.
    pub fn replace_back(&mut self, arena: &mut PacketArena, arrival: PacketId) -> Option<PacketId> {
        let tail = self.back()?;
        self.bytes -= u32::from(arena[tail].wire_bytes);
        self.bytes += u32::from(arena[arrival].wire_bytes);
        arena.swap_contents(tail, arrival);
        Some(arrival)
    }

    /// All packets, in order.
    pub fn iter<'a>(&self, arena: &'a PacketArena) -> impl Iterator<Item = PacketId> + 'a {
        let first = self.front();
        let step = |id: &PacketId| Some(PacketId(arena[*id].next));
        std::iter::successors(first, step).take(self.packets as usize)
    }

    /// The last packet.
    #[inline]
    pub fn back(&self) -> Option<PacketId> {
        (self.packets > 0).then_some(self.tail)
    }

    /// The first and the last packet, as prefetch hints: any packets if the queue is empty.
    #[inline]
    pub fn ends(&self) -> [PacketId; 2] {
        [self.head, self.tail]
    }

    /// Packets queued.
    #[inline]
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Bytes queued.
    #[inline]
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Whether nothing is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowId, Header, HostId, Packet};
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn packet(flow: u32, bytes: u16) -> Packet {
        let mut p = Packet::new(FlowId(flow), HostId(0), Header::default());
        p.wire_bytes = bytes;
        p
    }

    proptest! {
        /// Behaves like a `VecDeque` over random operations.
        #[test]
        fn behaves_like_a_deque(ops in prop::collection::vec((0u8..3, 1u16..2000), 1..200)) {
            let mut arena = PacketArena::default();
            let mut fifo = Fifo::default();
            let mut model: VecDeque<(u32, u16)> = VecDeque::new();
            for (n, (op, bytes)) in ops.into_iter().enumerate() {
                let n = n as u32;
                match op {
                    0 => {
                        let id = arena.alloc(packet(n, bytes));
                        fifo.push_back(&mut arena, id);
                        model.push_back((n, bytes));
                    }
                    1 => {
                        let out = fifo.pop_front(&arena).map(|id| {
                            let p = arena[id];
                            arena.free(id);
                            (p.flow.0, p.wire_bytes)
                        });
                        prop_assert_eq!(out, model.pop_front());
                    }
                    _ => {
                        let id = arena.alloc(packet(n, bytes));
                        let out = fifo.replace_back(&mut arena, id);
                        let displaced = out.map(|id| (arena[id].flow.0, arena[id].wire_bytes));
                        prop_assert_eq!(displaced, model.pop_back());
                        if displaced.is_some() {
                            model.push_back((n, bytes));
                        }
                        arena.free(id);
                    }
                }
                prop_assert_eq!(fifo.packets() as usize, model.len());
                prop_assert_eq!(fifo.bytes(), model.iter().map(|(_, b)| u32::from(*b)).sum::<u32>());
                prop_assert_eq!(arena.len(), model.len());
            }
        }
    }
}
