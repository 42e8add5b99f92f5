//! The header that MPTCP packets carry inside [`Packet`](punctual_core::Packet).

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The flag bits are those of [`TcpFlags`](crate::tcp::TcpFlags).
///
/// Numbers do not wrap, and neither SYN nor FIN takes one up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct MptcpHeader {
    /// In data, the segment's number on its subflow; in an ACK, the receiver has every segment of
    /// the subflow below this.
    pub segment: u64,
    /// In data, the first byte of the connection carried; in an ACK, the receiver has every byte
    /// of the connection below this.
    pub data: u64,
    /// In data and SYN, when the packet was sent, in picoseconds of the sender's clock. An ACK or
    /// SYN-ACK echoes it.
    pub timestamp_picos: u64,
    /// Bits of [`TcpFlags`](crate::tcp::TcpFlags).
    pub flags: u8,
    /// The subflow.
    pub subflow: u8,
    /// Unused; zero.
    pub reserved: [u8; 6],
}

impl MptcpHeader {
    /// Whether all of these flag bits are set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}
