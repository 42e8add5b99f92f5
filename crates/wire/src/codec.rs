//! The transport's part of a datagram.

use crate::{Datagram, ENVELOPE_BYTES, Envelope, IPV4_UDP_BYTES, WireError};
use punctual_core::{ByteRange, FlowId, Header, HostId, Instant, Packet};

/// Recent values of a flow, used to [widen](crate::widen) the short numbers on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentNumbers {
    /// A recent sequence number of the flow.
    pub seq: u64,
    /// A recent cumulative acknowledgement of the flow.
    pub cumulative: u64,
    /// The reader's current time.
    pub now: Instant,
}

/// The data that a data packet describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// The flow's bytes that it carries, or carried before it was trimmed.
    pub range: ByteRange,
    /// Size of the flow; [`u64::MAX`] if it is endless.
    pub flow_bytes: u64,
    /// Bytes in each of the flow's packets but the last, if this packet shows it. Packets with equal
    /// segment sizes do not overlap.
    pub segment_bytes: Option<u64>,
}

/// Writes and reads one transport's fields. Its input has passed the header check.
pub trait Codec {
    /// The transport's number on the wire: below 32, unique and never reused.
    const TRANSPORT: u8;
    /// Size of its fields, a multiple of 4, at most 48.
    const FIELDS_BYTES: usize;
    /// Bytes before the data in a UDP payload.
    const HEADER_BYTES: usize = ENVELOPE_BYTES + Self::FIELDS_BYTES;

    /// Writes the fields of `packet` into [`Codec::FIELDS_BYTES`] bytes.
    fn emit_fields(&self, packet: &Packet, fields: &mut [u8]);

    /// Parses the fields into `packet`, which already has the values of the envelope. `fields` has
    /// [`Codec::FIELDS_BYTES`] bytes.
    fn parse_fields(
        &self,
        fields: &[u8],
        near: &RecentNumbers,
        packet: &mut Packet,
    ) -> Result<(), WireError>;

    /// The data of a data packet; `None` for other packets. The data of a parsed packet lies within
    /// the flow.
    fn data(&self, packet: &Packet) -> Option<Data>;

    /// Updates the recent values after `packet` was sent or accepted.
    fn observe(&self, packet: &Packet, near: &mut RecentNumbers);
}

/// Writes `packet` into `datagram`, whose memory is reused. `fill` writes the payload, if the packet
/// carries any.
pub fn emit<C: Codec, E>(
    codec: &C,
    flow: u32,
    packet: &Packet,
    datagram: &mut Vec<u8>,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let carried = if packet.is_trimmed() { 0 } else { usize::from(packet.payload_bytes) };
    datagram.resize(C::HEADER_BYTES + carried, 0);
    let (header, payload) = datagram.split_at_mut(C::HEADER_BYTES);
    codec.emit_fields(packet, &mut header[ENVELOPE_BYTES..]);
    if carried > 0 {
        fill(payload)?;
    }
    let envelope = Envelope {
        transport: C::TRANSPORT,
        class: packet.class,
        flags: packet.flags,
        flow,
        payload_bytes: packet.payload_bytes,
    };
    envelope.seal(datagram, C::FIELDS_BYTES);
    Ok(())
}

/// Parses the packet in `datagram`, which belongs to `flow`.
pub fn parse<C: Codec>(
    codec: &C,
    datagram: &Datagram<'_>,
    near: &RecentNumbers,
    flow: FlowId,
    to: HostId,
) -> Result<Packet, WireError> {
    let Datagram { envelope, fields, payload } = datagram;
    if envelope.transport != C::TRANSPORT {
        return Err(WireError::Transport(envelope.transport));
    }
    if fields.len() != C::FIELDS_BYTES {
        return Err(WireError::FieldsSize(fields.len()));
    }
    let mut packet = Packet::new(flow, to, Header::default());
    packet.class = envelope.class;
    packet.flags = envelope.flags;
    packet.payload_bytes = envelope.payload_bytes;
    let wire_bytes = IPV4_UDP_BYTES + C::HEADER_BYTES + payload.len();
    // UDP carries less than 2¹⁶ bytes, but the bytes may not come from UDP.
    packet.wire_bytes = u16::try_from(wire_bytes).unwrap_or(u16::MAX);
    codec.parse_fields(fields, near, &mut packet)?;
    Ok(packet)
}
