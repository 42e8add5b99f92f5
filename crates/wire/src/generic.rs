//! The generic header, by which captures of a simulation show packets of transports without a codec.
//!
//! It says what the packet carries or acknowledges, as far as the transport tells observers. No
//! endpoint can be driven with it, so parsing it is an error.

use crate::codec::{Summary, envelope_of};
use crate::layout::FieldLayout;
use crate::{ENVELOPE_BYTES, Kind, WireName};
use core::mem::offset_of;
use punctual_core::{Content, Packet};
use zerocopy::byteorder::network_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The number of the generic header in the place of a transport's number.
pub const GENERIC_TRANSPORT: u8 = 31;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct GenericFields {
    number: U64,
    below: U64,
    wire_bytes: U16,
    content: u8,
    reserved: u8,
}

/// The fields of the generic header, in order.
pub const GENERIC_LAYOUT: &[FieldLayout] = &[
    FieldLayout::new(
        "number",
        offset_of!(GenericFields, number),
        8,
        "number of the data, carried or acknowledged; 2⁶⁴ − 1 for none",
    ),
    FieldLayout::new(
        "below",
        offset_of!(GenericFields, below),
        8,
        "data below it are acknowledged",
    ),
    FieldLayout::new(
        "wire_bytes",
        offset_of!(GenericFields, wire_bytes),
        2,
        "bytes of the simulated packet, without framing",
    ),
    FieldLayout::new(
        "content",
        offset_of!(GenericFields, content),
        1,
        "0 data, 1 acknowledgement, 2 neither",
    ),
    FieldLayout::new("reserved", offset_of!(GenericFields, reserved), 1, "0"),
];

/// Writes the generic header of `packet` into `datagram`, without payload.
pub(crate) fn emit_generic(name: WireName, packet: &Packet, content: Content, to: &mut Vec<u8>) {
    let (number, below, code) = match content {
        Content::Data(number) => (Some(number), 0, 0),
        Content::Ack { below, named } => (named, below, 1),
        Content::Other => (None, 0, 2),
    };
    let fields = GenericFields {
        number: number.unwrap_or(u64::MAX).into(),
        below: below.into(),
        wire_bytes: packet.wire_bytes.into(),
        content: code,
        reserved: 0,
    };
    let kind = match (packet.is_to_sender(), packet.payload_bytes > 0) {
        (true, _) => Kind::ACK,
        (false, true) => Kind::DATA,
        (false, false) => Kind::PROBE,
    };
    to.clear();
    to.resize(ENVELOPE_BYTES, 0);
    to.extend_from_slice(fields.as_bytes());
    let carried = if packet.is_trimmed() { 0 } else { usize::from(packet.payload_bytes) };
    to.resize(to.len() + carried, 0);
    let summary = Summary { kind, is_syn: false, path: packet.path as u16 };
    envelope_of(GENERIC_TRANSPORT, summary, name, packet).seal(to, size_of::<GenericFields>());
}
