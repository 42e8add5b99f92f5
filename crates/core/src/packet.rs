//! Packets: one cache line each, in an arena, with room for a protocol's own header.

use crate::{FlowId, HostId, PacketId, PortId, TransportId};
use core::num::NonZeroU32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Room for a protocol's header inside a [`Packet`].
pub const HEADER_BYTES: usize = 32;

/// A protocol's header as plain data.
///
/// Each protocol stores a struct of exactly [`HEADER_BYTES`] bytes here, which only it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header([u64; HEADER_BYTES / 8]);

impl Header {
    /// Holds `value`.
    #[inline]
    pub fn new<T: IntoBytes + Immutable>(value: T) -> Self {
        const { assert!(size_of::<T>() == HEADER_BYTES, "a header must have HEADER_BYTES bytes") };
        let mut header = Header::default();
        header.0.as_mut_bytes().copy_from_slice(value.as_bytes());
        header
    }

    /// The value held. The caller knows its type from the packet's transport.
    #[inline]
    pub fn get<T: FromBytes>(&self) -> T {
        const { assert!(size_of::<T>() == HEADER_BYTES, "a header must have HEADER_BYTES bytes") };
        T::read_from_bytes(self.0.as_bytes()).expect("sizes are equal")
    }

    /// The value held, to be changed in place: ports do so for every packet.
    #[inline]
    pub fn get_mut<T: FromBytes + IntoBytes + KnownLayout>(&mut self) -> &mut T {
        const { assert!(size_of::<T>() == HEADER_BYTES, "a header must have HEADER_BYTES bytes") };
        const { assert!(align_of::<T>() <= align_of::<u64>(), "headers are aligned to 8 bytes") };
        T::mut_from_bytes(self.0.as_mut_bytes()).expect("size and alignment fit")
    }
}

/// The part of a header that does not fit in a packet, such as a vector of rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtBlock(pub [u64; 24]);

/// Name of an [`ExtBlock`] in an [`ExtArena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtId(NonZeroU32);

/// Header extensions. The driver frees a packet's block with the packet.
#[derive(Debug, Clone, Default)]
pub struct ExtArena {
    blocks: Vec<ExtBlock>,
    free: Vec<ExtId>,
}

impl ExtArena {
    /// Stores a block.
    pub fn alloc(&mut self, block: ExtBlock) -> ExtId {
        match self.free.pop() {
            Some(id) => {
                self.blocks[id.0.get() as usize - 1] = block;
                id
            }
            None => {
                self.blocks.push(block);
                let id = u32::try_from(self.blocks.len()).expect("more than 2^32 blocks");
                ExtId(NonZeroU32::new(id).expect("at least one block"))
            }
        }
    }

    /// Gives a block back.
    pub fn free(&mut self, id: ExtId) {
        self.free.push(id);
    }

    /// Reads a block.
    #[inline]
    pub fn get(&self, id: ExtId) -> &ExtBlock {
        &self.blocks[id.0.get() as usize - 1]
    }

    /// Rewrites a block.
    #[inline]
    pub fn get_mut(&mut self, id: ExtId) -> &mut ExtBlock {
        &mut self.blocks[id.0.get() as usize - 1]
    }

    /// Blocks in use.
    pub fn len(&self) -> usize {
        self.blocks.len() - self.free.len()
    }

    /// Whether no block is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Service class: under strict priority the lower class goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Class(pub u8);

impl Class {
    /// Acknowledgements, pulls, trimmed headers and the like.
    pub const CONTROL: Class = Class(0);
    /// Ordinary data.
    pub const DATA: Class = Class(1);
    /// The number of classes.
    pub const COUNT: usize = 8;
}

/// The ECN codepoint of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable: a switch cannot mark it.
    NotCapable,
    /// ECN-capable: a switch may mark it.
    Capable,
    /// Marked: congestion experienced.
    Marked,
}

/// Flags of a packet that switches act on, whatever its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PacketFlags(u8);

impl PacketFlags {
    /// From a flow's receiver to its sender (an ACK, say); otherwise sender to receiver.
    pub const TO_SENDER: PacketFlags = PacketFlags(1);
    /// A switch may trim its payload instead of dropping it.
    pub const TRIMMABLE: PacketFlags = PacketFlags(1 << 1);
    /// A switch trimmed its payload.
    pub const TRIMMED: PacketFlags = PacketFlags(1 << 2);
    /// It was returned to its sender by a switch.
    pub const BOUNCED: PacketFlags = PacketFlags(1 << 3);
    /// ECN-capable transport.
    pub const ECN_CAPABLE: PacketFlags = PacketFlags(1 << 4);
    /// ECN congestion experienced.
    pub const ECN_MARKED: PacketFlags = PacketFlags(1 << 5);
    /// `path` is the number of a path of the opposite direction: take that path in reverse.
    pub const REVERSE_PATH: PacketFlags = PacketFlags(1 << 6);
    /// Switches choose among equal paths at random and write their choice into `path`.
    pub const SWITCH_PATH: PacketFlags = PacketFlags(1 << 7);

    /// No flag.
    pub const fn empty() -> Self {
        PacketFlags(0)
    }
    /// All the bits, for a codec.
    pub const fn bits(self) -> u8 {
        self.0
    }
    /// From bits, for a codec.
    pub const fn from_bits(bits: u8) -> Self {
        PacketFlags(bits)
    }
    /// With the flags of `other` too.
    #[inline]
    pub const fn with(self, other: PacketFlags) -> Self {
        PacketFlags(self.0 | other.0)
    }
    /// With the flags of `other` inverted.
    #[inline]
    pub const fn toggled(self, other: PacketFlags) -> Self {
        PacketFlags(self.0 ^ other.0)
    }
    /// Whether all flags of `other` are set.
    #[inline]
    pub const fn has(self, other: PacketFlags) -> bool {
        self.0 & other.0 == other.0
    }
    /// Sets the flags of `other`.
    #[inline]
    pub const fn set(&mut self, other: PacketFlags) {
        self.0 |= other.0;
    }
}

/// A packet: all that switches and hosts need to know of it, without its payload bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Packet {
    /// The next packet of the [`Fifo`](crate::Fifo) it is in, or of the arena's free list. While it
    /// is in neither, a number that the driver keeps here.
    pub next: u32,
    /// The port it waits at or whose link it is on. Kept by the driver.
    pub port: PortId,
    /// The host it goes to.
    pub dst: HostId,
    /// The flow it belongs to.
    pub flow: FlowId,
    /// Which of the equal-cost paths to take.
    ///
    /// A transport sets a number below [`FlowRoute::paths`](crate::FlowRoute). In the network it
    /// has the network's own encoding.
    pub path: u32,
    /// The extension of its header, if it has one.
    pub ext: Option<ExtId>,
    /// Bytes it occupies on a link, without framing.
    pub wire_bytes: u16,
    /// Bytes of the flow's data it carries; unchanged by trimming (see [`Packet::is_trimmed`]).
    pub payload_bytes: u16,
    /// The transport that made it and will receive it.
    pub transport: TransportId,
    /// What switches may do and have done with it.
    pub flags: PacketFlags,
    /// Its service class.
    pub class: Class,
    /// Ports passed so far. Kept by the driver.
    pub hop: u8,
    /// The protocol's own header.
    pub header: Header,
}

const _: () = assert!(size_of::<Packet>() == 64);

impl Packet {
    /// A packet of `flow` to `dst`; the driver fills in the transport.
    #[inline]
    pub fn new(flow: FlowId, dst: HostId, header: Header) -> Self {
        Packet {
            next: 0,
            port: PortId(u32::MAX),
            dst,
            flow,
            path: 0,
            ext: None,
            wire_bytes: 0,
            payload_bytes: 0,
            transport: TransportId(0),
            flags: PacketFlags::empty(),
            class: Class::DATA,
            hop: 0,
            header,
        }
    }

    /// Whether a switch trimmed its payload.
    #[inline]
    pub fn is_trimmed(&self) -> bool {
        self.flags.has(PacketFlags::TRIMMED)
    }

    /// Whether a switch returned it to its sender.
    #[inline]
    pub fn is_bounced(&self) -> bool {
        self.flags.has(PacketFlags::BOUNCED)
    }

    /// Whether it goes to its flow's sender.
    #[inline]
    pub fn is_to_sender(&self) -> bool {
        self.flags.has(PacketFlags::TO_SENDER)
    }

    /// Its ECN state.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        if self.flags.has(PacketFlags::ECN_MARKED) {
            Ecn::Marked
        } else if self.flags.has(PacketFlags::ECN_CAPABLE) {
            Ecn::Capable
        } else {
            Ecn::NotCapable
        }
    }
}

/// All packets of a run. Memory grows to the largest number of packets alive at once.
#[derive(Debug, Clone)]
pub struct PacketArena {
    packets: Vec<Packet>,
    free_head: u32,
    live: u32,
}

pub(crate) const NIL: u32 = u32::MAX;

impl Default for PacketArena {
    fn default() -> Self {
        PacketArena { packets: Vec::new(), free_head: NIL, live: 0 }
    }
}

impl PacketArena {
    /// Stores a packet.
    #[inline]
    pub fn alloc(&mut self, packet: Packet) -> PacketId {
        self.live += 1;
        if self.free_head != NIL {
            let id = self.free_head;
            let slot = &mut self.packets[id as usize];
            self.free_head = slot.next;
            *slot = packet;
            PacketId(id)
        } else {
            self.packets.push(packet);
            PacketId::from(self.packets.len() - 1)
        }
    }

    /// Frees a packet's slot. The caller frees its extension first, if it has one.
    #[inline]
    pub fn free(&mut self, id: PacketId) {
        self.live -= 1;
        self.packets[id.index()].next = self.free_head;
        self.free_head = id.0;
    }

    /// The packet behind this one in its queue, as a prefetch hint: any packet if this is the last.
    #[inline]
    pub fn after(&self, id: PacketId) -> Option<PacketId> {
        let next = self.packets.get(id.index())?.next;
        ((next as usize) < self.packets.len()).then_some(PacketId(next))
    }

    /// Prefetches a packet.
    #[inline]
    pub fn prefetch(&self, id: PacketId) {
        crate::prefetch_at(&self.packets, id.index());
    }

    /// Packets alive.
    pub fn len(&self) -> usize {
        self.live as usize
    }

    /// Whether no packet is alive.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Exchanges what two slots hold, but not their places in queues.
    #[inline]
    pub fn swap_contents(&mut self, a: PacketId, b: PacketId) {
        self.packets.swap(a.index(), b.index());
        let next = self.packets[a.index()].next;
        self.packets[a.index()].next = self.packets[b.index()].next;
        self.packets[b.index()].next = next;
    }
}

impl core::ops::Index<PacketId> for PacketArena {
    type Output = Packet;
    #[inline]
    fn index(&self, id: PacketId) -> &Packet {
        &self.packets[id.index()]
    }
}

impl core::ops::IndexMut<PacketId> for PacketArena {
    #[inline]
    fn index_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id.index()]
    }
}
