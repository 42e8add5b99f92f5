//! The wire format: packets as UDP datagrams and Ethernet frames, and captures of them.
//!
//! A UDP payload consists of an [envelope](Envelope) that all transports share, the transport's own
//! fields, which its [`Codec`] writes and reads, and the flow's data. All numbers are big-endian.
//!
//! ```text
//!  0               1               2               3
//! +-------+-------+-------+-------+---------+-----+---------------+
//! | 0xd   | vers. | words | kind  |transport|class| flags         |
//! +-------+-------+-------+-------+---------+-----+---------------+
//! | flow                                                          |
//! +-------------------------------+-------------------------------+
//! | payload bytes                 | check of envelope and fields  |
//! +-------------------------------+-------------------------------+
//! | CRC-32 of the payload                                         |
//! +-------------------------------+-------------------------------+
//! | path                          | incarnation                   |
//! +-------------------------------+-------------------------------+
//! | the transport's fields                                        |
//! ```
//!
//! docs/wire.md has every field of every transport; a test compares it with the code.
//!
//! * The payload has its own check, so a switch may trim it without changing the header. A datagram
//!   that carries less than its header says **is** a trimmed packet, even if the switch could not
//!   set [`PacketFlags::TRIMMED`](punctual_core::PacketFlags).
//! * Both checks are CRCs. They detect any three wrong bits, in the header (CRC-16) and in a payload
//!   up to jumbo frames (CRC-32). UDP's own checksum may then be off.
//! * Numbers on the wire are shorter than in memory. They wrap, and the reader [widens](widen) them
//!   to the nearest value that it expects.
//! * A header has at most 64 bytes, so that every trimming switch leaves it. A keyed packet has a
//!   tag of 16 bytes after its header and another after its payload.
//! * [`Frame`] parses captured Ethernet frames, also of switches that trim without correcting
//!   lengths or checksums. [`PcapWriter`] writes captures.
//! * A host answers a datagram of another version with a [`VersionAnswer`].
//!
//! Parsing never panics. Each error has a [name](WireError::name) for counters.

#![cfg_attr(test, allow(non_snake_case))]

mod check;
mod codec;
mod codecs;
mod d3;
mod envelope;
mod error;
mod frame;
mod generic;
mod layout;
mod ndp;
mod number;
mod pcap;
mod pdq;
mod version;

pub use codec::{
    Codec, Data, FlowOpening, PacketCodec, RecentNumbers, Summary, emit, emit_opening, parse,
};
pub use codecs::{AnyCodec, CODECS, emit_any, epoch_of};
pub use d3::{D3_LAYOUT, D3Codec, D3LikeCodec, RcpdcCodec};
pub use envelope::{
    Datagram, ENVELOPE_BYTES, ENVELOPE_LAYOUT, Envelope, HEADER_BYTES_MAX, Kind, TAG_BYTES,
    VERSION, WireName, set_flags,
};
pub use error::WireError;
pub use frame::{
    DEFAULT_PORT, Frame, Outer, TrimMark, class_of, dscp_of, ecn_bits, entropy_port, ones_sum,
    trim_frame, udp_checksum, with_ecn, write_frame,
};
pub use generic::{GENERIC_LAYOUT, GENERIC_TRANSPORT};
pub use layout::FieldLayout;
pub use ndp::{NDP_HEADER_BYTES, NDP_LAYOUT, NDP_WIRE_BYTES, NdpCodec};
pub use number::{widen, widen_from};
pub use pcap::PcapWriter;
pub use pdq::{PDQ_LAYOUT, PdqCodec};
pub use version::{VERSION_ANSWER_LAYOUT, VersionAnswer};

/// Bytes of the IPv4 and UDP headers.
pub const IPV4_UDP_BYTES: usize = 20 + 8;
