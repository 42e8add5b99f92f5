//! The wire format of NDP.

use crate::codec::Summary;
use crate::layout::FieldLayout;
use crate::{
    Codec, Data, ENVELOPE_BYTES, Envelope, IPV4_UDP_BYTES, Kind, RecentNumbers, WireError, widen,
    widen_from,
};
use core::mem::offset_of;
use punctual_core::{ByteRange, ExtBlock, Header, Packet, Transport as _};
use punctual_transports::ndp::{HEADER_BYTES, NdpConfig, NdpHeader, STAMP_SHIFT, flags, kind};
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of NDP's header in a UDP payload.
pub const NDP_HEADER_BYTES: usize = ENVELOPE_BYTES + size_of::<NdpFields>();

/// Bytes of NDP's header with IPv4 and UDP: the size of a trimmed packet, a pull or an ACK, in
/// simulations and on the wire.
pub const NDP_WIRE_BYTES: usize = IPV4_UDP_BYTES + NDP_HEADER_BYTES;

const _: () = assert!(
    NDP_WIRE_BYTES == HEADER_BYTES as usize,
    "packets must have the same size in simulations and on wires"
);

/// Timestamps count units of 2¹⁴ ps (16.4 ns), as in NDP itself. They wrap after 70 s and are
/// correct within half of that.
const TIME_SHIFT: u32 = STAMP_SHIFT;

/// Bits of a sequence number, which counts packets.
const SEQ_BITS: u32 = 24;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct NdpFields {
    /// NDP's flags without SYN, which the envelope has.
    flags: u8,
    seq: [u8; 3],
    /// On data packets, the low half of the flow's size.
    cumulative: U32,
    sent_at: U32,
    /// On data packets, bits 32 to 47 of the flow's size, then the low half of the last pull number
    /// that its sender has.
    pull: U32,
}

/// Bits of a flow's size. All of them set: the flow is endless.
const SIZE_BITS: u32 = 48;
const ENDLESS: u64 = (1 << SIZE_BITS) - 1;

/// Values of the half of a pull number that data packets have.
const PULL_HALF: u32 = 1 << 16;

/// NDP's fields, in order.
pub const NDP_LAYOUT: &[FieldLayout] = &[
    FieldLayout::bits("urgency", 0, 1, 7 << flags::CLASS_SHIFT, "data: 0 to 7, lower first"),
    FieldLayout::bits("no_room", 0, 1, flags::NO_ROOM as u32, "NACK: came whole, but no room yet"),
    FieldLayout::bits("last", 0, 1, flags::LAST as u32, "data: the flow's last packet"),
    FieldLayout::bits("has_pull", 0, 1, flags::PULL as u32, "ACK, NACK: `pull` is valid too"),
    FieldLayout::new("seq", offset_of!(NdpFields, seq), 3, "number of the data packet, mod 2²⁴"),
    FieldLayout::new(
        "cumulative",
        offset_of!(NdpFields, cumulative),
        4,
        "packets below it have arrived, mod 2³²; data: flow size, bits 0–31",
    ),
    FieldLayout::new(
        "sent_at",
        offset_of!(NdpFields, sent_at),
        4,
        "when the data packet was sent, in 2¹⁴ ps, mod 2³²",
    ),
    FieldLayout::new(
        "pull",
        offset_of!(NdpFields, pull),
        4,
        "packets pulled so far, mod 2³²; data: flow size, bits 32–47, then pulls heard of, mod 2¹⁶",
    ),
];

/// Writes and reads NDP's fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NdpCodec;

impl Codec for NdpCodec {
    const TRANSPORT: u8 = 1;
    const NAME: &'static str = NdpConfig::INFO.name;
    const FIELDS_BYTES: (usize, usize) = (size_of::<NdpFields>(), size_of::<NdpFields>());

    fn summary(&self, packet: &Packet) -> Summary {
        let header = NdpHeader::of(packet);
        // The kinds of envelopes have NDP's numbers.
        let (kind, is_syn) = (Kind::new(header.kind), header.has(flags::SYN));
        Summary { kind, is_syn, path: header.path }
    }

    fn emit_fields(&self, packet: &Packet, _block: Option<&ExtBlock>, fields: &mut [u8]) {
        let header = NdpHeader::of(packet);
        let (pull, cumulative) = match header.kind {
            kind::DATA => {
                let size = header.cumulative.min(ENDLESS);
                ((size >> 32) as u32 * PULL_HALF + header.pull % PULL_HALF, size)
            }
            _ => (header.pull, header.cumulative),
        };
        let [_, seq @ ..] = (header.seq as u32).to_be_bytes();
        let wire = NdpFields {
            flags: header.flags & !flags::SYN,
            seq,
            cumulative: (cumulative as u32).into(),
            sent_at: ((header.sent_at >> TIME_SHIFT) as u32).into(),
            pull: pull.into(),
        };
        fields.copy_from_slice(wire.as_bytes());
    }

    fn parse_fields(
        &self,
        envelope: &Envelope,
        fields: &[u8],
        near: &RecentNumbers,
        packet: &mut Packet,
    ) -> Result<(), WireError> {
        let Ok(wire) = NdpFields::read_from_bytes(fields) else {
            return Err(WireError::FieldsSize(fields.len()));
        };
        let [a, b, c] = wire.seq;
        let seq = u64::from(u32::from_be_bytes([0, a, b, c]));
        // The receiver of a data packet only echoes its timestamp. Widening keeps the low bits,
        // whatever the receiver's clock.
        let sent_at = widen(wire.sent_at.get(), near.now.as_picos() >> TIME_SHIFT) << TIME_SHIFT;
        let mut header = NdpHeader {
            seq: widen_from(seq, SEQ_BITS, near.seq),
            cumulative: widen(wire.cumulative.get(), near.cumulative),
            sent_at,
            pull: wire.pull.get(),
            path: envelope.path,
            kind: envelope.kind.number(),
            flags: wire.flags & !flags::SYN | if envelope.is_syn { flags::SYN } else { 0 },
        };
        if header.kind == kind::DATA {
            let high = u64::from(wire.pull.get() / PULL_HALF);
            header.cumulative = match high << 32 | u64::from(wire.cumulative.get()) {
                ENDLESS => u64::MAX,
                size => size,
            };
            header.pull = wire.pull.get() % PULL_HALF;
        }
        packet.header = Header::new(header);
        let is_consistent = match header.kind {
            // Data travels to the sender only if a switch has bounced it.
            kind::DATA => {
                packet.is_to_sender() == packet.is_bounced() && self.data(packet).is_some()
            }
            kind::ACK | kind::NACK | kind::PULL => {
                packet.is_to_sender() && !packet.is_bounced() && packet.payload_bytes == 0
            }
            kind => return Err(WireError::Kind(kind)),
        };
        if is_consistent { Ok(()) } else { Err(WireError::Contradiction(header.kind)) }
    }

    fn data(&self, packet: &Packet) -> Option<Data> {
        let header = NdpHeader::of(packet);
        if header.kind != kind::DATA {
            return None;
        }
        let len = u64::from(packet.payload_bytes);
        let size = header.cumulative;
        // All packets of a flow but the last have one size; the last may be shorter. So its offset
        // is counted from the end of the flow.
        let (offset, segment_bytes, is_valid) = if header.has(flags::LAST) {
            let offset = size.checked_sub(len)?;
            let segment = offset.checked_div(header.seq);
            let is_whole = match segment {
                Some(segment) => segment * header.seq == offset && segment >= len,
                None => offset == 0,
            };
            (offset, segment, (len > 0 || size == 0) && is_whole)
        } else {
            let before = header.seq.checked_mul(len)?;
            (before, Some(len), len > 0 && before.checked_add(len)? < size)
        };
        let range = ByteRange { offset, len };
        is_valid.then_some(Data { range, flow_bytes: Some(size), segment_bytes })
    }

    fn observe(&self, packet: &Packet, near: &mut RecentNumbers) {
        let header = NdpHeader::of(packet);
        match header.kind {
            kind::DATA => near.seq = near.seq.max(header.seq),
            kind::ACK | kind::NACK => near.cumulative = near.cumulative.max(header.cumulative),
            _ => {}
        }
    }
}
