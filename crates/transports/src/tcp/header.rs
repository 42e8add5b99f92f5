//! The header that TCP packets carry inside [`Packet`](punctual_core::Packet).

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of a TCP/IPv4 header without options; what a packet without data occupies.
///
/// The timestamp option is not counted, as in the simulators that this is compared with.
pub const TCP_IP_HEADER_BYTES: u64 = 40;

/// Sequence numbers are 64-bit byte offsets: they count the flow's data from 0, do not wrap, and
/// neither SYN nor FIN takes one up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct TcpHeader {
    /// First byte carried. Zero in an ACK.
    pub seq: u64,
    /// The receiver has every byte below this. Zero in data.
    pub ack: u64,
    /// In data and SYN, when the packet was sent, in picoseconds of the sender's clock. An ACK or
    /// SYN-ACK echoes it.
    pub timestamp_picos: u64,
    /// Bits of [`TcpFlags`].
    pub flags: u8,
    /// Unused; zero.
    pub reserved: [u8; 7],
}

/// The flag bits of a [`TcpHeader`].
pub struct TcpFlags;

impl TcpFlags {
    /// Opens a connection; with [`TcpFlags::ACK`], a SYN-ACK.
    pub const SYN: u8 = 1;
    /// The field `ack` is valid.
    pub const ACK: u8 = 1 << 1;
    /// The packet carries the flow's last byte (TCP's FIN).
    pub const LAST: u8 = 1 << 2;
    /// The packet acknowledged was marked (TCP's ECE).
    pub const MARKED: u8 = 1 << 3;
    /// The receiver has all bytes (the acknowledgement of the FIN).
    pub const COMPLETE: u8 = 1 << 4;
}

impl TcpHeader {
    /// Whether all of these flag bits are set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}
