//! The header that pHost's packets carry inside [`Packet`](punctual_core::Packet).

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Beside the data of a packet; requests, tokens and acknowledgements are this and nothing else.
pub const HEADER_BYTES: u16 = 40;

/// What a packet is.
pub mod kind {
    /// A request to send: a flow wants tokens.
    pub const REQUEST: u8 = 1;
    /// Data.
    pub const DATA: u8 = 2;
    /// A token: one packet may come.
    pub const TOKEN: u8 = 3;
    /// The receiver has everything.
    pub const ACK: u8 = 4;
}

/// Numbers do not wrap, but for those of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct PhostHeader {
    /// In requests and data, the flow's bytes in all.
    pub size: u64,
    /// In data and tokens, which packet of the flow.
    pub packet: u64,
    /// In tokens, packets that the receiver misses; in requests and data, those that come without
    /// tokens.
    pub missing: u64,
    /// In tokens, which of the flow's it is; in data, that of the token used.
    pub token: u32,
    /// One of [`kind`].
    pub kind: u8,
    /// Unused; zero.
    pub reserved: [u8; 3],
}
