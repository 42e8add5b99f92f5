//! The part of the header that all transports share.

use crate::{WireError, check::crc16};
use core::mem::offset_of;
use punctual_core::{Class, PacketFlags};
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the shared part of the header.
pub const ENVELOPE_BYTES: usize = 16;

const MAGIC: u8 = 0xd7;
const VERSION: u8 = 1;

/// Largest header. The trimming switches that cut most leave this much of a UDP payload.
const HEADER_BYTES_MAX: usize = 64;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawEnvelope {
    magic: u8,
    version_words: u8,
    transport_class: u8,
    flags: u8,
    flow: U32,
    payload_bytes: U16,
    check: U16,
    payload_check: U32,
}

const _: () = assert!(size_of::<RawEnvelope>() == ENVELOPE_BYTES);
const CHECK_AT: usize = offset_of!(RawEnvelope, check);
const FLAGS_AT: usize = offset_of!(RawEnvelope, flags);

/// The part of a header that all transports share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The transport's number on the wire, below 32.
    pub transport: u8,
    /// The packet's service class.
    pub class: Class,
    /// What switches may do with the packet, and have done.
    pub flags: PacketFlags,
    /// The flow number that the sender chose. It is unique together with the sender's address.
    pub flow: u32,
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
    /// The payload: complete, or empty if the packet was trimmed.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Parses a received datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let Ok((raw, rest)) = RawEnvelope::read_from_prefix(bytes) else {
            return Err(WireError::Short(bytes.len()));
        };
        if raw.magic != MAGIC {
            return Err(WireError::Magic(raw.magic));
        }
        let version = raw.version_words >> 4;
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        let fields_bytes = fields_bytes(&raw)?;
        let Some((fields, payload)) = rest.split_at_checked(fields_bytes) else {
            return Err(WireError::Short(bytes.len()));
        };
        if header_check(&raw, fields) != raw.check.get() {
            return Err(WireError::HeaderCheck);
        }
        let mut envelope = Envelope {
            transport: raw.transport_class >> 3,
            class: Class(raw.transport_class & 7),
            flags: PacketFlags::from_bits(raw.flags),
            flow: raw.flow.get(),
            payload_bytes: raw.payload_bytes.get(),
        };
        let announced = usize::from(envelope.payload_bytes);
        if payload.len() > announced {
            return Err(WireError::Long { announced, carried: payload.len() });
        }
        if payload.len() < announced {
            envelope.flags.set(PacketFlags::TRIMMED);
        }
        if envelope.flags.has(PacketFlags::TRIMMED) {
            // A switch that cuts at a fixed length may leave a useless part of the payload.
            return Ok(Datagram { envelope, fields, payload: &[] });
        }
        if crc32fast::hash(payload) != raw.payload_check.get() {
            return Err(WireError::PayloadCheck);
        }
        Ok(Datagram { envelope, fields, payload })
    }
}

impl Envelope {
    /// Writes the envelope into the first [`ENVELOPE_BYTES`] of `datagram`. The `fields_bytes` after
    /// it and the payload must be in place. A trimmed packet has no payload.
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
        );
        let (envelope, fields) = header.split_at_mut(ENVELOPE_BYTES);
        let mut raw = RawEnvelope {
            magic: MAGIC,
            version_words: VERSION << 4 | (fields_bytes / 4) as u8,
            transport_class: self.transport << 3 | self.class.0,
            flags: self.flags.bits(),
            flow: self.flow.into(),
            payload_bytes: self.payload_bytes.into(),
            check: 0.into(),
            payload_check: crc32fast::hash(payload).into(),
        };
        raw.check = header_check(&raw, fields).into();
        envelope.copy_from_slice(raw.as_bytes());
    }
}

/// Replaces the flags of a datagram and updates its check. Returns the number of header bytes.
///
/// A switch trims a datagram by setting [`PacketFlags::TRIMMED`] and keeping only the header.
pub fn set_flags(datagram: &mut [u8], flags: PacketFlags) -> Result<usize, WireError> {
    let header_bytes = ENVELOPE_BYTES + Datagram::parse(datagram)?.fields.len();
    datagram[FLAGS_AT] = flags.bits();
    let Ok((raw, rest)) = RawEnvelope::read_from_prefix(datagram) else {
        return Err(WireError::Short(datagram.len()));
    };
    let check = header_check(&raw, &rest[..header_bytes - ENVELOPE_BYTES]);
    datagram[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
    Ok(header_bytes)
}

fn fields_bytes(raw: &RawEnvelope) -> Result<usize, WireError> {
    let bytes = usize::from(raw.version_words & 15) * 4;
    if ENVELOPE_BYTES + bytes > HEADER_BYTES_MAX {
        return Err(WireError::FieldsSize(bytes));
    }
    Ok(bytes)
}

/// The CRC of a header, computed with the check field set to zero.
fn header_check(raw: &RawEnvelope, fields: &[u8]) -> u16 {
    let zeroed = RawEnvelope { check: 0.into(), ..*raw };
    crc16(&[zeroed.as_bytes(), fields])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; ENVELOPE_BYTES];
        bytes.extend_from_slice(b"fieldsof");
        bytes.extend_from_slice(payload);
        let envelope = Envelope {
            transport: 3,
            class: Class::DATA,
            flags: PacketFlags::TRIMMABLE,
            flow: 0xdead_beef,
            payload_bytes: payload.len() as u16,
        };
        envelope.seal(&mut bytes, 8);
        bytes
    }

    #[test]
    fn parse__gives_back_what_was_sealed() {
        let bytes = sample(b"hello");
        let datagram = Datagram::parse(&bytes).unwrap();
        assert_eq!((datagram.fields, datagram.payload), (&b"fieldsof"[..], &b"hello"[..]));
        assert_eq!(datagram.envelope.flow, 0xdead_beef);
        assert_eq!(datagram.envelope.class, Class::DATA);
        assert_eq!(datagram.envelope.flags, PacketFlags::TRIMMABLE);
    }

    #[test]
    fn parse__missing_payload_is_a_trimmed_packet() {
        let bytes = sample(b"hello");
        for kept in [24, 25, 28] {
            let datagram = Datagram::parse(&bytes[..kept]).unwrap();
            assert!(datagram.envelope.flags.has(PacketFlags::TRIMMED));
            assert_eq!((datagram.envelope.payload_bytes, datagram.payload.len()), (5, 0));
        }
    }

    #[test]
    fn parse__names_what_is_wrong() {
        let good = sample(b"hello");
        let broken = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            Datagram::parse(&bytes).unwrap_err()
        };
        assert_eq!(Datagram::parse(&good[..7]).unwrap_err(), WireError::Short(7));
        assert_eq!(Datagram::parse(&good[..23]).unwrap_err(), WireError::Short(23));
        assert_eq!(broken(0, 1), WireError::Magic(1));
        assert_eq!(broken(1, 0x92), WireError::Version(9));
        assert_eq!(broken(1, 0x1f), WireError::FieldsSize(60));
        assert_eq!(broken(20, 0), WireError::HeaderCheck);
        assert_eq!(broken(26, 0), WireError::PayloadCheck);
        let mut long = good.clone();
        long.push(0);
        assert_eq!(
            Datagram::parse(&long).unwrap_err(),
            WireError::Long { announced: 5, carried: 6 }
        );
    }

    #[test]
    fn set_flags__lets_a_switch_trim() {
        let mut bytes = sample(b"hello");
        let kept = set_flags(&mut bytes, PacketFlags::TRIMMED).unwrap();
        assert_eq!(kept, 24);
        let datagram = Datagram::parse(&bytes[..kept]).unwrap();
        assert_eq!(datagram.envelope.flags, PacketFlags::TRIMMED);
        assert!(set_flags(&mut bytes[..10], PacketFlags::TRIMMED).is_err());
    }
}
