//! The header that DCQCN's packets carry inside [`Packet`](punctual_core::Packet), and their sizes.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Beside the data of a packet: IPv4, UDP, RoCE's base header and its check.
pub const DATA_HEADER_BYTES: u16 = 44;
/// A whole acknowledgement: four bytes more.
pub const ACK_BYTES: u16 = 48;
/// A whole congestion notification: sixteen bytes more.
pub const CNP_BYTES: u16 = 60;

/// Offsets do not wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct DcqcnHeader {
    /// In data, the first byte carried; in an acknowledgement, the first byte still expected.
    pub offset: u64,
    /// Bits of [`DcqcnFlags`].
    pub flags: u8,
    /// Unused; zero.
    pub reserved: [u8; 23],
}

/// The flag bits of a [`DcqcnHeader`].
pub struct DcqcnFlags;

impl DcqcnFlags {
    /// The packet carries the flow's last byte.
    pub const LAST: u8 = 1;
    /// An acknowledgement.
    pub const ACK: u8 = 1 << 1;
    /// With [`DcqcnFlags::ACK`]: a packet is missing; resend everything from `offset`.
    pub const NAK: u8 = 1 << 2;
    /// With [`DcqcnFlags::ACK`]: the receiver has all bytes.
    pub const COMPLETE: u8 = 1 << 3;
    /// A congestion notification.
    pub const CNP: u8 = 1 << 4;
}

impl DcqcnHeader {
    /// Whether all of these flag bits are set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}
