//! Packets as bytes.
//!
//! Everything travels in UDP; the UDP payload starts with an [envelope](Envelope) that is the same
//! for every transport, then the transport's own fields, written and read by its [`Codec`], then
//! the flow's data. All numbers are big-endian.
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
//! * The payload has a check of its own, so a switch may cut it off and leave the rest alone.
//!   A datagram that carries less than its header says **is** a trimmed packet, whether or not
//!   the switch that cut it could set [`PacketFlags::TRIMMED`](punctual_core::PacketFlags).
//! * Both checks are CRCs rather than sums: any three wrong bits are found, in the header
//!   (CRC-16) and in a payload up to jumbo frames (CRC-32). UDP's own checksum may then be off.
//! * Numbers on the wire are shorter than in memory; they wrap and are [widened](widen) against
//!   what the reader expects.
//!
//! Reading never panics, whatever the bytes; what is wrong with them has a [name](WireError::name)
//! to count it by.

#![cfg_attr(test, allow(non_snake_case))]

mod check;
mod codec;
mod envelope;
mod error;
mod ndp;
mod number;

pub use codec::{Codec, Data, Near, emit, parse};
pub use envelope::{Datagram, ENVELOPE_BYTES, Envelope, set_flags};
pub use error::WireError;
pub use ndp::{NDP_HEADER_BYTES, NDP_WIRE_BYTES, NdpCodec};
pub use number::widen;

/// What IPv4 and UDP put before our header.
pub const IPV4_UDP_BYTES: usize = 20 + 8;
