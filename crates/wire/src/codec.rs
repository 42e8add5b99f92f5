//! What a transport adds to the envelope.

use crate::{Datagram, ENVELOPE_BYTES, Envelope, IPV4_UDP_BYTES, WireError};
use punctual_core::{ByteRange, FlowId, Header, HostId, Instant, Packet};

/// What the reader of a packet expects, to [widen](crate::widen) the wire's short numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Near {
    /// A recent sequence number of the flow.
    pub seq: u64,
    /// A recent cumulative acknowledgement of the flow.
    pub cumulative: u64,
    /// The reader's time.
    pub now: Instant,
}

/// What a data packet says of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Which of the flow's bytes it carries, or carried before it was trimmed.
    pub range: ByteRange,
    /// How many bytes the flow has, [`u64::MAX`] when endless.
    pub flow_bytes: u64,
    /// Bytes in each of the flow's packets but the last, if it tells. Packets that agree in this
    /// do not overlap.
    pub segment_bytes: Option<u64>,
}

/// Writes and reads one transport's fields. It sees headers that are whole and checked.
pub trait Codec {
    /// The transport's number on the wire, below 32, never given to another.
    const TRANSPORT: u8;
    /// Size of its fields, a multiple of 4, at most 48.
    const FIELDS_BYTES: usize;
    /// All that comes before the data in a UDP payload.
    const HEADER_BYTES: usize = ENVELOPE_BYTES + Self::FIELDS_BYTES;

    /// Writes the fields of `packet` into [`Codec::FIELDS_BYTES`] bytes.
    fn emit_fields(&self, packet: &Packet, fields: &mut [u8]);

    /// Fills in what the fields say. `packet` has the envelope's facts already; `fields` are
    /// [`Codec::FIELDS_BYTES`] long.
    fn parse_fields(
        &self,
        fields: &[u8],
        near: &Near,
        packet: &mut Packet,
    ) -> Result<(), WireError>;

    /// What a data packet carries, nothing for other packets. Of a packet parsed here, the data
    /// lies within the flow.
    fn data(&self, packet: &Packet) -> Option<Data>;

    /// Moves what is expected next after `packet` was sent or accepted.
    fn observe(&self, packet: &Packet, near: &mut Near);
}

/// Makes the datagram of `packet` in `datagram`, whose memory is used again; `fill` puts the
/// data, if the packet carries any, where it belongs.
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

/// The packet that `datagram` is, for the flow known here as `flow`.
pub fn parse<C: Codec>(
    codec: &C,
    datagram: &Datagram<'_>,
    near: &Near,
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
    // UDP carries less than 2¹⁶ bytes, but the bytes may have come from elsewhere.
    packet.wire_bytes = u16::try_from(wire_bytes).unwrap_or(u16::MAX);
    codec.parse_fields(fields, near, &mut packet)?;
    Ok(packet)
}
