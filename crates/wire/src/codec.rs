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
    /// Bytes by which a packet with its IPv4 and UDP headers is longer than the transport counts, at
    /// most.
    const LONGER_BY: u16 = 0;

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

    /// Bytes in each of a flow's packets but the last, if both ends must have the same and no packet
    /// shows it.
    fn segment_bytes(&self) -> Option<u16> {
        None
    }
}

/// What the opening packet of a flow says about it, if the transport's first packet carries no data:
/// the payload of a [probe](Kind::PROBE) that may open the flow. Hosts read it, transports and switches
/// do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowOpening {
    /// Size of the flow.
    pub flow_bytes: u64,
    /// [`Codec::segment_bytes`] of the sender.
    pub segment_bytes: Option<u16>,
}

impl FlowOpening {
    /// Its size on the wire.
    pub const BYTES: usize = 12;

    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.flow_bytes.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.segment_bytes.unwrap_or(0).to_be_bytes());
        bytes
    }

    /// What a datagram says; nothing if it opens no flow in this way.
    pub fn of(datagram: &Datagram<'_>) -> Option<FlowOpening> {
        let bytes: &[u8; Self::BYTES] = datagram.payload.try_into().ok()?;
        if datagram.envelope.kind != Kind::PROBE || !datagram.envelope.is_syn {
            return None;
        }
        let flow_bytes = bytes[..8].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let segment_bytes = u16::from_be_bytes([bytes[8], bytes[9]]);
        Some(FlowOpening { flow_bytes, segment_bytes: Some(segment_bytes).filter(|n| *n > 0) })
    }

    /// Whether the payload of a probe may have this size.
    pub(crate) fn fits(envelope: &Envelope) -> bool {
        let bytes = usize::from(envelope.payload_bytes);
        bytes == 0 || envelope.is_syn && bytes == Self::BYTES
    }
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

/// Writes a packet without data that opens its flow into `datagram`, whose memory is reused.
pub fn emit_opening<C: Codec>(
    codec: &C,
    name: WireName,
    packet: &Packet,
    block: Option<&ExtBlock>,
    opening: &FlowOpening,
    datagram: &mut Vec<u8>,
) {
    let fields_bytes = codec.fields_bytes(packet);
    datagram.clear();
    datagram.resize(ENVELOPE_BYTES + fields_bytes, 0);
    codec.emit_fields(packet, block, &mut datagram[ENVELOPE_BYTES..]);
    datagram.extend_from_slice(&opening.to_bytes());
    let envelope = envelope_of(C::TRANSPORT, codec.summary(packet), name, packet);
    let payload_bytes = FlowOpening::BYTES as u16;
    Envelope { payload_bytes, ..envelope }.seal(datagram, fields_bytes);
}

/// The codec of one transport, or of any of a set: what drivers need.
pub trait PacketCodec {
    /// See [`Codec::TRANSPORT`].
    fn number(&self) -> u8;
    /// See [`Codec::SWITCH_FIELDS_AT`].
    fn switch_fields_at(&self) -> usize;
    /// See [`Codec::LONGER_BY`].
    fn longer_by(&self) -> u16;
    /// Bytes of a packet's headers with those of IPv4 and UDP, at most.
    fn headers_bytes(&self) -> u16;
    /// See [`Codec::segment_bytes`].
    fn segment_bytes(&self) -> Option<u16>;
    /// Whether a packet may open its flow, but carries no data that shows the flow's size.
    fn is_opening(&self, packet: &Packet) -> bool;
    /// See [`emit`].
    fn write<E>(
        &self,
        name: WireName,
        packet: &Packet,
        block: Option<&ExtBlock>,
        datagram: &mut Vec<u8>,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E>;
    /// See [`emit_opening`].
    fn write_opening(
        &self,
        name: WireName,
        packet: &Packet,
        block: Option<&ExtBlock>,
        opening: &FlowOpening,
        datagram: &mut Vec<u8>,
    );
    /// Parses a packet and its header extension: see [`parse`].
    fn read(
        &self,
        datagram: &Datagram<'_>,
        near: &RecentNumbers,
        flow: FlowId,
        to: HostId,
    ) -> Result<(Packet, Option<ExtBlock>), WireError>;
    /// See [`Codec::data`].
    fn data_of(&self, packet: &Packet) -> Option<Data>;
    /// See [`Codec::observe`].
    fn note(&self, packet: &Packet, near: &mut RecentNumbers);
}

impl<C: Codec> PacketCodec for C {
    fn number(&self) -> u8 {
        C::TRANSPORT
    }

    fn switch_fields_at(&self) -> usize {
        C::SWITCH_FIELDS_AT
    }

    fn longer_by(&self) -> u16 {
        C::LONGER_BY
    }

    fn headers_bytes(&self) -> u16 {
        (IPV4_UDP_BYTES + ENVELOPE_BYTES + C::FIELDS_BYTES.1) as u16
    }

    fn segment_bytes(&self) -> Option<u16> {
        Codec::segment_bytes(self)
    }

    fn is_opening(&self, packet: &Packet) -> bool {
        let summary = self.summary(packet);
        summary.is_syn && summary.kind == Kind::PROBE
    }

    fn write<E>(
        &self,
        name: WireName,
        packet: &Packet,
        block: Option<&ExtBlock>,
        datagram: &mut Vec<u8>,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        emit(self, name, packet, block, datagram, fill)
    }

    fn write_opening(
        &self,
        name: WireName,
        packet: &Packet,
        block: Option<&ExtBlock>,
        opening: &FlowOpening,
        datagram: &mut Vec<u8>,
    ) {
        emit_opening(self, name, packet, block, opening, datagram);
    }

    fn read(
        &self,
        datagram: &Datagram<'_>,
        near: &RecentNumbers,
        flow: FlowId,
        to: HostId,
    ) -> Result<(Packet, Option<ExtBlock>), WireError> {
        let packet = parse(self, datagram, near, flow, to)?;
        Ok((packet, self.parse_block(datagram.fields)))
    }

    fn data_of(&self, packet: &Packet) -> Option<Data> {
        self.data(packet)
    }

    fn note(&self, packet: &Packet, near: &mut RecentNumbers) {
        self.observe(packet, near);
    }
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
    if envelope.kind == Kind::PROBE {
        // What opens a flow is the host's.
        packet.payload_bytes = 0;
    }
    Ok(packet)
}
