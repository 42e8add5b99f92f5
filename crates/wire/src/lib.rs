//! The wire format: packets as UDP datagrams.
//!
//! A UDP payload consists of an [envelope](Envelope) that all transports share, the transport's own
//! fields, which its [`Codec`] writes and reads, and the flow's data. All numbers are big-endian.
//!
//! ```text
//!  0               1               2               3
//! +---------------+-------+-------+---------+-----+---------------+
//! | magic 0xd7    | vers. | words |transport|class| flags         |
//! +---------------+-------+-------+---------+-----+---------------+
//! | flow                                                          |
//! +-------------------------------+-------------------------------+
//! | payload bytes                 | check of envelope and fields  |
//! +-------------------------------+-------------------------------+
//! | CRC-32 of the payload                                         |
//! +---------------------------------------------------------------+
//! | the transport's fields: `words` of 4 bytes                    |
//! ```
//!
//! * The payload has its own check, so a switch may trim it without changing the header. A datagram
//!   that carries less than its header says **is** a trimmed packet, even if the switch could not
//!   set [`PacketFlags::TRIMMED`](punctual_core::PacketFlags).
//! * Both checks are CRCs. They detect any three wrong bits, in the header (CRC-16) and in a payload
//!   up to jumbo frames (CRC-32). UDP's own checksum may then be off.
//! * Numbers on the wire are shorter than in memory. They wrap, and the reader [widens](widen) them
//!   to the nearest value that it expects.
//!
//! Parsing never panics. Each error has a [name](WireError::name) for counters.

#![cfg_attr(test, allow(non_snake_case))]

mod check;
mod codec;
mod envelope;
mod error;
mod ndp;
mod number;

pub use codec::{Codec, Data, RecentNumbers, emit, parse};
pub use envelope::{Datagram, ENVELOPE_BYTES, Envelope, set_flags};
pub use error::WireError;
pub use ndp::{NDP_HEADER_BYTES, NDP_WIRE_BYTES, NdpCodec};
pub use number::widen;

/// Bytes of the IPv4 and UDP headers.
pub const IPV4_UDP_BYTES: usize = 20 + 8;
