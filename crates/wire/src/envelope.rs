//! The part of the header that all transports share.

use crate::layout::FieldLayout;
use crate::{WireError, check::crc16};
use core::mem::offset_of;
use punctual_core::{Class, PacketFlags};
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the shared part of the header.
pub const ENVELOPE_BYTES: usize = 20;

/// Largest header without its tag. The trimming switches that cut most leave this much of a UDP
/// payload.
pub const HEADER_BYTES_MAX: usize = 64;

/// Bytes of each of the two tags that keyed packets have: one after the header, one after the
/// payload.
pub const TAG_BYTES: usize = 16;

/// The first four bits of a datagram.
pub(crate) const MAGIC: u8 = 0xd;
/// The version of the envelope that this crate reads and writes.
pub const VERSION: u8 = 2;

/// The flag of a flow's opening packets, in the place of a bit that only IP headers have (ECN).
pub(crate) const SYN_BIT: u8 = PacketFlags::ECN_CAPABLE.bits();
/// The flag of keyed packets, in the place of a bit that only IP headers have (ECN).
pub(crate) const KEYED_BIT: u8 = PacketFlags::ECN_MARKED.bits();
/// Flags that switches may change.
const SWITCH_FLAGS: PacketFlags =
    PacketFlags::TO_SENDER.with(PacketFlags::TRIMMED).with(PacketFlags::BOUNCED);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawEnvelope {
    magic_version: u8,
    words_kind: u8,
    transport_class: u8,
    flags: u8,
    flow: U32,
    payload_bytes: U16,
    check: U16,
    payload_check: U32,
    path: U16,
    incarnation: U16,
}

const _: () = assert!(size_of::<RawEnvelope>() == ENVELOPE_BYTES);
const CHECK_AT: usize = offset_of!(RawEnvelope, check);
const FLAGS_AT: usize = offset_of!(RawEnvelope, flags);
const CLASS_AT: usize = offset_of!(RawEnvelope, transport_class);
const PATH_AT: usize = offset_of!(RawEnvelope, path);

/// The fields of the envelope, in order.
pub const ENVELOPE_LAYOUT: &[FieldLayout] = {
    use PacketFlags as F;
    const fn flag(name: &'static str, flag: PacketFlags, meaning: &'static str) -> FieldLayout {
        FieldLayout::bits(name, FLAGS_AT, 1, flag.bits() as u32, meaning)
    }
    &[
        FieldLayout::bits("magic", 0, 1, 0xf0, "0xd"),
        FieldLayout::bits("version", 0, 1, 0x0f, "2"),
        FieldLayout::bits("header_words", 1, 1, 0xf0, "header in words of 4 bytes, minus 1"),
        FieldLayout::bits("kind", 1, 1, 0x0f, "kind of packet"),
        FieldLayout::bits("transport", CLASS_AT, 1, 0xf8, "number of the transport"),
        FieldLayout::bits("class", CLASS_AT, 1, 0x07, "service class; 0 goes first"),
        flag("flags.switch_path", F::SWITCH_PATH, "switches choose among equal paths"),
        flag("flags.reverse_path", F::REVERSE_PATH, "`path` is a path of the opposite direction"),
        FieldLayout::bits("flags.keyed", FLAGS_AT, 1, KEYED_BIT as u32, "two tags follow"),
        FieldLayout::bits("flags.syn", FLAGS_AT, 1, SYN_BIT as u32, "may open the flow"),
        flag("flags.bounced", F::BOUNCED, "a switch returned it to its sender"),
        flag("flags.trimmed", F::TRIMMED, "a switch trimmed its payload"),
        flag("flags.trimmable", F::TRIMMABLE, "switches may trim its payload"),
        flag("flags.to_sender", F::TO_SENDER, "to the flow's sender"),
        FieldLayout::new("flow", offset_of!(RawEnvelope, flow), 4, "number of the flow"),
        FieldLayout::new(
            "payload_bytes",
            offset_of!(RawEnvelope, payload_bytes),
            2,
            "bytes of payload when it was sent",
        ),
        FieldLayout::new("header_check", CHECK_AT, 2, "CRC-16 of the header, this field as 0"),
        FieldLayout::new(
            "payload_check",
            offset_of!(RawEnvelope, payload_check),
            4,
            "CRC-32 of the payload; of a keyed packet, its number",
        ),
        FieldLayout::new("path", PATH_AT, 2, "path of the flow's data"),
        FieldLayout::new(
            "incarnation",
            offset_of!(RawEnvelope, incarnation),
            2,
            "incarnation of the process that sent it",
        ),
    ]
};

/// Identifies a flow and the process that sends the packet.
///
/// The flow number is unique together with the address of the flow's sender. A process chooses its
/// incarnation when it starts, such that earlier processes at its address had others: a peer that
/// hears a new one knows that the process restarted and lost its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WireName {
    /// The flow number, which the flow's sender chose.
    pub flow: u32,
    /// The incarnation of the process that sends this packet.
    pub incarnation: u16,
}

/// The kind of a packet, for all transports. Kinds 8 to 15 are reserved for the host stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind(u8);

impl Kind {
    /// Data, possibly trimmed or bounced.
    pub const DATA: Kind = Kind(0);
    /// An acknowledgement.
    pub const ACK: Kind = Kind(1);
    /// A negative acknowledgement: the data's header arrived without the data.
    pub const NACK: Kind = Kind(2);
    /// Permission to send.
    pub const PULL: Kind = Kind(3);
    /// A header to the receiver without data: a request, a probe, the end of a flow.
    pub const PROBE: Kind = Kind(4);

    /// The kind with this number, of which the low four bits count.
    pub const fn new(number: u8) -> Kind {
        Kind(number & 15)
    }

    /// Its number on the wire.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The kinds that transports use, with their names.
    pub const NAMED: [(Kind, &'static str); 5] = [
        (Kind::DATA, "data"),
        (Kind::ACK, "ack"),
        (Kind::NACK, "nack"),
        (Kind::PULL, "pull"),
        (Kind::PROBE, "probe"),
    ];
}

/// The part of a header that all transports share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The transport's number on the wire, below 32.
    pub transport: u8,
    /// The kind of packet.
    pub kind: Kind,
    /// The packet's service class.
    pub class: Class,
    /// What switches may do with the packet, and have done. ECN is in the IP header instead.
    pub flags: PacketFlags,
    /// Whether the packet may open its flow.
    pub is_syn: bool,
    /// In keyed mode, the packet's number: of all packets that a process sends with a key, each has
    /// another. Nonces and replay windows use it.
    pub keyed: Option<u32>,
    /// The flow and the sending process.
    pub name: WireName,
    /// The path of the flow's data.
    pub path: u16,
    /// Bytes of payload when the packet was sent.
    pub payload_bytes: u16,
}

/// A parsed datagram with a valid header.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The shared part of its header. [`PacketFlags::TRIMMED`] is set if payload is missing.
    pub envelope: Envelope,
    /// The transport's fields.
    pub fields: &'a [u8],
    /// In keyed mode, the tag of the [authenticated header](Datagram::authenticated_header). It is
    /// not verified yet.
    pub header_tag: Option<&'a [u8; TAG_BYTES]>,
    /// The payload: complete, or empty if the packet was trimmed. Its CRC is right; in keyed mode
    /// it has none, and `payload_tag` is to be verified.
    pub payload: &'a [u8],
    /// In keyed mode, the tag of the payload, if the packet carries any.
    pub payload_tag: Option<&'a [u8; TAG_BYTES]>,
    raw: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Parses a received datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let Ok((raw, rest)) = RawEnvelope::read_from_prefix(bytes) else {
            return Err(WireError::Short(bytes.len()));
        };
        if raw.magic_version >> 4 != MAGIC {
            return Err(WireError::Magic(raw.magic_version));
        }
        if raw.magic_version & 15 != VERSION {
            return Err(WireError::Version(raw.magic_version & 15));
        }
        let Some((fields, rest)) = rest.split_at_checked(fields_bytes(&raw)?) else {
            return Err(WireError::Short(bytes.len()));
        };
        if header_check(&raw, fields) != raw.check.get() {
            return Err(WireError::HeaderCheck);
        }
        let is_keyed = raw.flags & KEYED_BIT != 0;
        let mut envelope = Envelope {
            transport: raw.transport_class >> 3,
            kind: Kind::new(raw.words_kind),
            class: Class(raw.transport_class & 7),
            flags: PacketFlags::from_bits(raw.flags & !(SYN_BIT | KEYED_BIT)),
            is_syn: raw.flags & SYN_BIT != 0,
            keyed: is_keyed.then_some(raw.payload_check.get()),
            name: WireName { flow: raw.flow.get(), incarnation: raw.incarnation.get() },
            path: raw.path.get(),
            payload_bytes: raw.payload_bytes.get(),
        };
        let (header_tag, payload) = match is_keyed.then(|| rest.split_first_chunk()) {
            None => (None, rest),
            Some(Some((tag, payload))) => (Some(tag), payload),
            Some(None) => return Err(WireError::Short(bytes.len())),
        };
        let payload_bytes = usize::from(envelope.payload_bytes);
        let payload_tag_bytes = if is_keyed && payload_bytes > 0 { TAG_BYTES } else { 0 };
        let announced = payload_bytes + payload_tag_bytes;
        if payload.len() > announced {
            return Err(WireError::Long { announced, carried: payload.len() });
        }
        if payload.len() < announced {
            envelope.flags.set(PacketFlags::TRIMMED);
        }
        let raw_header = &bytes[..ENVELOPE_BYTES];
        let trimmed = Datagram {
            envelope,
            fields,
            header_tag,
            payload: &[],
            payload_tag: None,
            raw: raw_header,
        };
        if envelope.flags.has(PacketFlags::TRIMMED) {
            // A switch that cuts at a fixed length may leave a useless part of the payload.
            return Ok(trimmed);
        }
        let (payload, tag) = payload.split_at(payload_bytes);
        if !is_keyed && crc32fast::hash(payload) != raw.payload_check.get() {
            return Err(WireError::PayloadCheck);
        }
        Ok(Datagram { payload, payload_tag: tag.first_chunk(), ..trimmed })
    }

    /// Bytes of its header, with its tag in keyed mode.
    pub fn header_bytes(&self) -> usize {
        let tag = if self.header_tag.is_some() { TAG_BYTES } else { 0 };
        ENVELOPE_BYTES + self.fields.len() + tag
    }

    /// This datagram as a trimmed one, without payload.
    pub(crate) fn trimmed(mut self) -> Self {
        self.envelope.flags.set(PacketFlags::TRIMMED);
        Datagram { payload: &[], payload_tag: None, ..self }
    }

    /// The header as the header tag authenticates it, and its length: the same bytes wherever on its
    /// path, and for whole and trimmed packets.
    ///
    /// Whatever switches may change is 0: the header check, the service class, the flags for
    /// direction, trimming and bouncing, the path if switches choose it, and the transport's fields
    /// from [`Codec::SWITCH_FIELDS_AT`](crate::Codec::SWITCH_FIELDS_AT) on.
    pub fn authenticated_header(&self, switch_fields_at: usize) -> ([u8; HEADER_BYTES_MAX], usize) {
        let mut header = [0; HEADER_BYTES_MAX];
        let len = ENVELOPE_BYTES + self.fields.len();
        let kept = switch_fields_at.min(self.fields.len());
        header[..ENVELOPE_BYTES].copy_from_slice(self.raw);
        header[ENVELOPE_BYTES..ENVELOPE_BYTES + kept].copy_from_slice(&self.fields[..kept]);
        header[CHECK_AT..CHECK_AT + 2].fill(0);
        header[CLASS_AT] &= !7;
        header[FLAGS_AT] &= !SWITCH_FLAGS.bits();
        if self.envelope.flags.has(PacketFlags::SWITCH_PATH) {
            header[PATH_AT..PATH_AT + 2].fill(0);
        }
        (header, len)
    }
}

impl Envelope {
    /// Writes the envelope into the first [`ENVELOPE_BYTES`] of `datagram`. The `fields_bytes` after
    /// it, the tags and the payload must be in place, or the tags be written afterwards: the checks
    /// do not cover them. A trimmed packet has no payload.
    ///
    /// # Panics
    ///
    /// If `datagram` is shorter than its header, or a field does not fit in its bits.
    pub fn seal(&self, datagram: &mut [u8], fields_bytes: usize) {
        let header_bytes = ENVELOPE_BYTES + fields_bytes;
        assert!(fields_bytes.is_multiple_of(4) && header_bytes <= HEADER_BYTES_MAX);
        assert!(self.transport < 32 && usize::from(self.class.0) < Class::COUNT);
        let (header, payload) = datagram.split_at_mut(header_bytes);
        debug_assert!(
            payload.len() == usize::from(self.payload_bytes)
                || self.flags.has(PacketFlags::TRIMMED)
                || self.keyed.is_some()
        );
        let (envelope, fields) = header.split_at_mut(ENVELOPE_BYTES);
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let mut raw = RawEnvelope {
            magic_version: MAGIC << 4 | VERSION,
            words_kind: ((header_bytes / 4 - 1) as u8) << 4 | self.kind.number(),
            transport_class: self.transport << 3 | self.class.0,
            flags: self.flags.bits() & !(SYN_BIT | KEYED_BIT)
                | bit(self.is_syn, SYN_BIT)
                | bit(self.keyed.is_some(), KEYED_BIT),
            flow: self.name.flow.into(),
            payload_bytes: self.payload_bytes.into(),
            check: 0.into(),
            payload_check: self.keyed.unwrap_or_else(|| crc32fast::hash(payload)).into(),
            path: self.path.into(),
            incarnation: self.name.incarnation.into(),
        };
        raw.check = header_check(&raw, fields).into();
        envelope.copy_from_slice(raw.as_bytes());
    }
}

/// Replaces the flags of a datagram and updates its check. Returns the bytes of its header, with its
/// tag in keyed mode.
///
/// A switch trims a datagram by setting [`PacketFlags::TRIMMED`] and keeping only the header.
pub fn set_flags(datagram: &mut [u8], flags: PacketFlags) -> Result<usize, WireError> {
    let parsed = Datagram::parse(datagram)?;
    let (header_bytes, fields_bytes) = (parsed.header_bytes(), parsed.fields.len());
    let own = SYN_BIT | KEYED_BIT;
    datagram[FLAGS_AT] = datagram[FLAGS_AT] & own | flags.bits() & !own;
    let Ok((raw, rest)) = RawEnvelope::read_from_prefix(datagram) else {
        return Err(WireError::Short(datagram.len()));
    };
    let check = header_check(&raw, &rest[..fields_bytes]);
    datagram[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
    Ok(header_bytes)
}

fn fields_bytes(raw: &RawEnvelope) -> Result<usize, WireError> {
    let header_bytes = (usize::from(raw.words_kind >> 4) + 1) * 4;
    header_bytes.checked_sub(ENVELOPE_BYTES).ok_or(WireError::FieldsSize(0))
}

/// The CRC of a header, computed with the check field set to zero.
fn header_check(raw: &RawEnvelope, fields: &[u8]) -> u16 {
    let zeroed = RawEnvelope { check: 0.into(), ..*raw };
    crc16(&[zeroed.as_bytes(), fields])
}

#[cfg(test)]
mod tests;
