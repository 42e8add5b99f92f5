//! The wire format of NDP.

use crate::{Codec, Data, ENVELOPE_BYTES, IPV4_UDP_BYTES, RecentNumbers, WireError, widen};
use punctual_core::{ByteRange, Header, Packet};
use punctual_transports::ndp::{HEADER_BYTES, NdpHeader, STAMP_SHIFT, flags, kind};
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of NDP's header in a UDP payload.
pub const NDP_HEADER_BYTES: usize = NdpCodec::HEADER_BYTES;

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

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct NdpFields {
    seq: U32,
    /// On data packets, the low half of the flow's size.
    cumulative: U32,
    sent_at: U32,
    /// On data packets, which have no pull number, the high half of the flow's size.
    pull: U32,
    path: U16,
    kind: u8,
    flags: u8,
}

const _: () = assert!(ENVELOPE_BYTES + size_of::<NdpFields>() == NDP_HEADER_BYTES);

/// Writes and reads NDP's fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NdpCodec;

impl Codec for NdpCodec {
    const TRANSPORT: u8 = 1;
    const FIELDS_BYTES: usize = size_of::<NdpFields>();

    fn emit_fields(&self, packet: &Packet, fields: &mut [u8]) {
        let header = NdpHeader::of(packet);
        let pull = match header.kind {
            kind::DATA => (header.cumulative >> 32) as u32,
            _ => header.pull,
        };
        let wire = NdpFields {
            seq: (header.seq as u32).into(),
            cumulative: (header.cumulative as u32).into(),
            sent_at: ((header.sent_at >> TIME_SHIFT) as u32).into(),
            pull: pull.into(),
            path: header.path.into(),
            kind: header.kind,
            flags: header.flags,
        };
        fields.copy_from_slice(wire.as_bytes());
    }

    fn parse_fields(
        &self,
        fields: &[u8],
        near: &RecentNumbers,
        packet: &mut Packet,
    ) -> Result<(), WireError> {
        let Ok(wire) = NdpFields::read_from_bytes(fields) else {
            return Err(WireError::FieldsSize(fields.len()));
        };
        // The receiver of a data packet only echoes its timestamp. Widening keeps the low bits,
        // whatever the receiver's clock.
        let sent_at = widen(wire.sent_at.get(), near.now.as_picos() >> TIME_SHIFT) << TIME_SHIFT;
        let mut header = NdpHeader {
            seq: widen(wire.seq.get(), near.seq),
            cumulative: widen(wire.cumulative.get(), near.cumulative),
            sent_at,
            pull: wire.pull.get(),
            path: wire.path.get(),
            kind: wire.kind,
            flags: wire.flags,
        };
        if header.kind == kind::DATA {
            header.cumulative = u64::from(wire.pull.get()) << 32 | u64::from(wire.cumulative.get());
            header.pull = 0;
        }
        packet.path = u32::from(header.path);
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
        is_valid.then_some(Data { range, flow_bytes: size, segment_bytes })
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
