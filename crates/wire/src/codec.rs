//! The transport's part of a datagram.

use crate::{Datagram, ENVELOPE_BYTES, Envelope, IPV4_UDP_BYTES, Kind, WireError, WireName};
use punctual_core::{ByteRange, ExtBlock, FlowId, Header, HostId, Instant, Packet};

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
    /// Size of the flow, if this packet shows it; [`u64::MAX`] if the flow is endless.
    pub flow_bytes: Option<u64>,
    /// Bytes in each of the flow's packets but the last, if this packet shows it. Packets with equal
    /// segment sizes do not overlap.
    pub segment_bytes: Option<u64>,
}

/// What an envelope shows of the transport's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The kind of packet.
    pub kind: Kind,
    /// Whether it may open its flow.
    pub is_syn: bool,
    /// The path of the flow's data.
    pub path: u16,
}

/// Writes and reads one transport's fields. Its input has passed the header check.
pub trait Codec {
    /// The transport's number on the wire: below 31, unique and never reused.
    const TRANSPORT: u8;
    /// The name of the transport.
    const NAME: &'static str;
    /// The least and the greatest size of its fields, multiples of 4, at most 44.
    const FIELDS_BYTES: (usize, usize);
    /// Where the fields begin that switches rewrite, in the transport's fields. Header tags do not
    /// cover them.
    const SWITCH_FIELDS_AT: usize = usize::MAX;

    /// The size of the fields of `packet`: a multiple of 4, within [`Codec::FIELDS_BYTES`].
    fn fields_bytes(&self, _packet: &Packet) -> usize {
        Self::FIELDS_BYTES.1
    }

    /// What the envelope shows of `packet`.
    fn summary(&self, packet: &Packet) -> Summary;

    /// Writes the fields of `packet`, with its header extension, into [`Codec::fields_bytes`] bytes,
    /// which are 0.
    fn emit_fields(&self, packet: &Packet, block: Option<&ExtBlock>, fields: &mut [u8]);

    /// Parses the fields into `packet`, which already has the values of the envelope. The size of
    /// `fields` is within [`Codec::FIELDS_BYTES`].
    fn parse_fields(
        &self,
        envelope: &Envelope,
        fields: &[u8],
        near: &RecentNumbers,
        packet: &mut Packet,
    ) -> Result<(), WireError>;

    /// The header extension in the fields, if they have one. They were accepted by
    /// [`Codec::parse_fields`].
    fn parse_block(&self, _fields: &[u8]) -> Option<ExtBlock> {
        None
    }

    /// The data of a data packet; `None` for other packets. The data of a parsed packet lies within
    /// the flow.
    fn data(&self, packet: &Packet) -> Option<Data>;

    /// Updates the recent values after `packet` was sent or accepted.
    fn observe(&self, packet: &Packet, near: &mut RecentNumbers);
}

/// Writes `packet`, with its header extension, into `datagram`, whose memory is reused. `fill` writes
/// the payload, if the packet carries any.
pub fn emit<C: Codec, E>(
    codec: &C,
    name: WireName,
    packet: &Packet,
    block: Option<&ExtBlock>,
    datagram: &mut Vec<u8>,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let carried = if packet.is_trimmed() { 0 } else { usize::from(packet.payload_bytes) };
    let fields_bytes = codec.fields_bytes(packet);
    let header_bytes = ENVELOPE_BYTES + fields_bytes;
    datagram.resize(header_bytes + carried, 0);
    let (header, payload) = datagram.split_at_mut(header_bytes);
    let fields = &mut header[ENVELOPE_BYTES..];
    fields.fill(0);
    codec.emit_fields(packet, block, fields);
    if carried > 0 {
        fill(payload)?;
    }
    envelope_of(C::TRANSPORT, codec.summary(packet), name, packet).seal(datagram, fields_bytes);
    Ok(())
}

/// The envelope of a packet.
pub(crate) fn envelope_of(
    transport: u8,
    summary: Summary,
    name: WireName,
    packet: &Packet,
) -> Envelope {
    Envelope {
        transport,
        kind: summary.kind,
        class: packet.class,
        flags: packet.flags,
        is_syn: summary.is_syn,
        keyed: None,
        name,
        path: summary.path,
        payload_bytes: packet.payload_bytes,
    }
}

/// Parses the packet in `datagram`, which belongs to `flow`. Its header extension, if it has one, is
/// what [`Codec::parse_block`] returns for `datagram.fields`.
pub fn parse<C: Codec>(
    codec: &C,
    datagram: &Datagram<'_>,
    near: &RecentNumbers,
    flow: FlowId,
    to: HostId,
) -> Result<Packet, WireError> {
    let Datagram { envelope, fields, payload, .. } = datagram;
    if envelope.transport != C::TRANSPORT {
        return Err(WireError::Transport(envelope.transport));
    }
    let (least, most) = C::FIELDS_BYTES;
    if !(least..=most).contains(&fields.len()) {
        return Err(WireError::FieldsSize(fields.len()));
    }
    let mut packet = Packet::new(flow, to, Header::default());
    packet.class = envelope.class;
    packet.flags = envelope.flags;
    packet.path = u32::from(envelope.path);
    packet.payload_bytes = envelope.payload_bytes;
    let wire_bytes = IPV4_UDP_BYTES + ENVELOPE_BYTES + fields.len() + payload.len();
    // UDP carries less than 2¹⁶ bytes, but the bytes may not come from UDP.
    packet.wire_bytes = u16::try_from(wire_bytes).unwrap_or(u16::MAX);
    codec.parse_fields(envelope, fields, near, &mut packet)?;
    Ok(packet)
}
