//! NDP's header, inside a [`Packet`].

use punctual_core::{Class, FlowId, Header, HostId, Instant, Packet};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of an NDP packet beside its data: IPv4, UDP and our own header. A trimmed packet, an
/// ACK, a NACK and a PULL are this long.
pub const HEADER_BYTES: u16 = 64;

/// Times in headers are in units of 2¹⁴ ps, about 16 ns: 32 bits on a wire cover a minute. The
/// simulator rounds as the wire does, so that both give the same times.
pub const STAMP_SHIFT: u32 = 14;

/// The time as a header has it: picoseconds, rounded down to that unit.
#[inline]
pub fn stamp(now: Instant) -> u64 {
    now.as_picos() >> STAMP_SHIFT << STAMP_SHIFT
}

/// The kinds of packets.
pub mod kind {
    /// Data, possibly trimmed or bounced.
    pub const DATA: u8 = 0;
    /// A data packet arrived.
    pub const ACK: u8 = 1;
    /// A trimmed data packet arrived.
    pub const NACK: u8 = 2;
    /// Permission to send.
    pub const PULL: u8 = 3;
}

/// Bits of [`NdpHeader::flags`].
pub mod flags {
    /// On an ACK or NACK: `pull` is valid too.
    pub const PULL: u8 = 1;
    /// On data: one of the first window.
    pub const SYN: u8 = 1 << 1;
    /// On data: the flow's last packet.
    pub const LAST: u8 = 1 << 2;
    /// On a NACK: the packet came whole, but there was no room for it yet.
    pub const NO_ROOM: u8 = 1 << 3;
    /// On data: how urgent the flow is to its receiver, 0 to 7, lower first. Here rather than in
    /// the packet's service class, since a trimmed packet takes another.
    pub const CLASS_SHIFT: u32 = 5;
}

/// The header of an NDP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct NdpHeader {
    /// Number of the data packet meant, from 0. A packet other than the last carries its
    /// `payload_bytes` from byte `seq × payload_bytes`.
    pub seq: u64,
    /// On data: the flow's size in bytes, [`u64::MAX`] when endless. Otherwise: every packet
    /// numbered below this has arrived.
    pub cumulative: u64,
    /// The [`stamp`] of when the data packet was sent, by the sender's clock; echoed.
    pub sent_at: u64,
    /// How many packets the receiver has pulled so far, modulo 2³². On data: the low 16 bits of
    /// the last such number that the sender has.
    pub pull: u32,
    /// The data packet's path; echoed.
    pub path: u16,
    /// One of [`kind`].
    pub kind: u8,
    /// Bits of [`flags`].
    pub flags: u8,
}

impl NdpHeader {
    /// The NDP header of an NDP packet.
    #[inline]
    pub fn of(packet: &Packet) -> NdpHeader {
        packet.header.get()
    }

    /// Whether a bit of [`flags`] is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// How urgent the flow is to its receiver.
    #[inline]
    pub(super) fn class(&self) -> u8 {
        self.flags >> flags::CLASS_SHIFT
    }

    /// A control packet with this header.
    #[inline]
    pub(super) fn control(self, flow: FlowId, dst: HostId) -> Packet {
        let mut packet = Packet::new(flow, dst, Header::new(self));
        packet.wire_bytes = HEADER_BYTES;
        packet.class = Class::CONTROL;
        packet
    }
}
