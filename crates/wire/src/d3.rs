//! The wire format of D3 and RCPdc.
//!
//! A packet that carries a rate request, or its answer, has the paper's congestion header of 22
//! bytes (§5, Fig. 6): one byte for each rate, in steps of 8 Mb/s times a scale factor. In memory
//! rates are exact. What the wire loses:
//!
//! * Desired rates are rounded up to a step, so that a flow asks for no less than it needs. Granted
//!   rates are rounded down, so that no port is promised more than it granted. A granted rate below
//!   a step becomes the base rate, which has the value 0. With `integer_rates` all rates are whole
//!   steps, and nothing is lost.
//! * Timestamps are rounded down to 2¹⁴ ps.
//! * The deadline, which ports use only to count inversions, and the RTT, which only RCP's ports
//!   use, are not sent. RCP therefore has no codec.

use crate::codec::Summary;
use crate::layout::FieldLayout;
use crate::{
    Codec, Data, ENVELOPE_BYTES, Envelope, FlowOpening, IPV4_UDP_BYTES, Kind, RecentNumbers,
    WireError, widen,
};
use core::mem::offset_of;
use punctual_core::{ByteRange, ExtBlock, Header, Packet, Rate, Transport as _};
use punctual_transports::d3::{
    D3Config, D3Header, Grant, Grants, HOPS_MAX, PLAIN_HEADER_BYTES, RATE_BLOCK_BYTES, RATE_UNIT,
    RateBlock, RcpdcConfig,
};
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Timestamps count units of 2¹⁴ ps (16.4 ns).
const TIME_SHIFT: u32 = 14;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct D3Fields {
    seq: U32,
    ack: U32,
    timestamp: U32,
    request: U16,
    /// D3's flags without SYN and ACK, which the envelope has.
    flags: u8,
    reserved: u8,
}

/// The paper's congestion header.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CongestionHeader {
    scale: u8,
    desired: u8,
    /// From the low bits: ports passed (3), length of the previous grants or of the feedback (3),
    /// important (1), overflow (1).
    index: u8,
    granted: [u8; HOPS_MAX],
    desired_before: u8,
    granted_before: [u8; HOPS_MAX],
    feedback: [u8; HOPS_MAX],
}

const PLAIN: usize = size_of::<D3Fields>();
const BLOCK: usize = size_of::<CongestionHeader>();
/// Fields with a congestion header, in whole words.
const WITH_BLOCK: usize = (PLAIN + BLOCK).next_multiple_of(4);
const _: () = assert!(BLOCK == punctual_transports::d3::RATE_BLOCK_BYTES as usize);

const INDEX_BITS: u8 = 0b111;
const LENGTH_SHIFT: u32 = 3;
const IMPORTANT: u8 = 1 << 6;
const OVERFLOW: u8 = 1 << 7;

/// Flags in `flags`: the others are in the envelope.
const OWN_FLAGS: u8 =
    D3Header::FIN | D3Header::END | D3Header::REQUEST | D3Header::FEEDBACK | D3Header::DATA;
const BLOCK_FLAGS: u8 = D3Header::REQUEST | D3Header::FEEDBACK;

/// D3's fields, in order: those of every packet, then the congestion header.
pub const D3_LAYOUT: &[FieldLayout] = {
    const FLAGS_AT: usize = offset_of!(D3Fields, flags);
    const INDEX_AT: usize = PLAIN + offset_of!(CongestionHeader, index);
    const fn flag(name: &'static str, flag: u8, meaning: &'static str) -> FieldLayout {
        FieldLayout::bits(name, FLAGS_AT, 1, flag as u32, meaning)
    }
    &[
        FieldLayout::new("seq", offset_of!(D3Fields, seq), 4, "offset of the first byte, mod 2³²"),
        FieldLayout::new(
            "ack",
            offset_of!(D3Fields, ack),
            4,
            "bytes below it have arrived, mod 2³²",
        ),
        FieldLayout::new(
            "timestamp",
            offset_of!(D3Fields, timestamp),
            4,
            "when sent, in 2¹⁴ ps, mod 2³²; echoed",
        ),
        FieldLayout::new("request", offset_of!(D3Fields, request), 2, "number of the rate request"),
        flag("data", D3Header::DATA, "ACK: of a packet that carried data"),
        flag("feedback_flag", D3Header::FEEDBACK, "has the answer to a rate request"),
        flag("request_flag", D3Header::REQUEST, "has a rate request"),
        flag("end", D3Header::END, "ends where the flow ends"),
        flag("fin", D3Header::FIN, "the flow leaves the ports on its path"),
        FieldLayout::new("reserved", offset_of!(D3Fields, reserved), 1, "0"),
        FieldLayout::new("scale", PLAIN, 1, "a rate of 1 is scale × 8 Mb/s"),
        FieldLayout::new(
            "desired",
            PLAIN + offset_of!(CongestionHeader, desired),
            1,
            "desired rate for the next interval, r(t+1)",
        ),
        FieldLayout::bits("overflow", INDEX_AT, 1, OVERFLOW as u32, "more ports than fit"),
        FieldLayout::bits("important", INDEX_AT, 1, IMPORTANT as u32, "ports reserve it first"),
        FieldLayout::bits(
            "length",
            INDEX_AT,
            1,
            (INDEX_BITS << LENGTH_SHIFT) as u32,
            "rates in `granted_before`; in an answer, in `feedback`",
        ),
        FieldLayout::bits(
            "index",
            INDEX_AT,
            1,
            INDEX_BITS as u32,
            "ports passed; unless `fin`, rates in `granted`",
        ),
        FieldLayout::new(
            "granted",
            PLAIN + offset_of!(CongestionHeader, granted),
            HOPS_MAX,
            "grants for the next interval, a(t+1); 0 is the base rate",
        ),
        FieldLayout::new(
            "desired_before",
            PLAIN + offset_of!(CongestionHeader, desired_before),
            1,
            "desired rate for the present interval, r(t)",
        ),
        FieldLayout::new(
            "granted_before",
            PLAIN + offset_of!(CongestionHeader, granted_before),
            HOPS_MAX,
            "grants for the present interval, a(t)",
        ),
        FieldLayout::new(
            "feedback",
            PLAIN + offset_of!(CongestionHeader, feedback),
            HOPS_MAX,
            "in an answer: the grants of the request",
        ),
        FieldLayout::new("padding", PLAIN + BLOCK, WITH_BLOCK - PLAIN - BLOCK, "0"),
    ]
};

/// Writes and reads the fields of D3, or of RCPdc, which has the same header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct D3LikeCodec<const NUMBER: u8>;

/// Writes and reads D3's fields.
pub type D3Codec = D3LikeCodec<2>;
/// Writes and reads RCPdc's fields.
pub type RcpdcCodec = D3LikeCodec<3>;

impl<const NUMBER: u8> Codec for D3LikeCodec<NUMBER> {
    const TRANSPORT: u8 = NUMBER;
    const NAME: &'static str = match NUMBER {
        2 => D3Config::INFO.name,
        _ => RcpdcConfig::INFO.name,
    };
    const FIELDS_BYTES: (usize, usize) = (PLAIN, WITH_BLOCK);
    const SWITCH_FIELDS_AT: usize = PLAIN;
    const LONGER_BY: u16 = (IPV4_UDP_BYTES + ENVELOPE_BYTES + WITH_BLOCK) as u16
        - PLAIN_HEADER_BYTES
        - RATE_BLOCK_BYTES;

    fn fields_bytes(&self, packet: &Packet) -> usize {
        let header: D3Header = packet.header.get();
        if header.flags & BLOCK_FLAGS != 0 { WITH_BLOCK } else { PLAIN }
    }

    fn summary(&self, packet: &Packet) -> Summary {
        let header: D3Header = packet.header.get();
        let kind = match (header.has(D3Header::ACK), packet.payload_bytes > 0) {
            (true, _) => Kind::ACK,
            (false, true) => Kind::DATA,
            (false, false) => Kind::PROBE,
        };
        Summary { kind, is_syn: header.has(D3Header::SYN), path: header.path as u16 }
    }

    fn emit_fields(&self, packet: &Packet, block: Option<&ExtBlock>, fields: &mut [u8]) {
        let header: D3Header = packet.header.get();
        let wire = D3Fields {
            seq: (header.seq as u32).into(),
            ack: (header.ack as u32).into(),
            timestamp: ((header.timestamp >> TIME_SHIFT) as u32).into(),
            request: header.request.into(),
            flags: header.flags & OWN_FLAGS,
            reserved: 0,
        };
        let (plain, rest) = fields.split_at_mut(PLAIN);
        plain.copy_from_slice(wire.as_bytes());
        if let Some(place) = rest.get_mut(..BLOCK) {
            let rates = block.and_then(RateBlock::from_block).unwrap_or_default();
            place.copy_from_slice(CongestionHeader::of(&rates).as_bytes());
        }
    }

    fn parse_fields(
        &self,
        envelope: &Envelope,
        fields: &[u8],
        near: &RecentNumbers,
        packet: &mut Packet,
    ) -> Result<(), WireError> {
        let Ok((wire, rest)) = D3Fields::read_from_prefix(fields) else {
            return Err(WireError::FieldsSize(fields.len()));
        };
        let kind = envelope.kind;
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let timestamp = widen(wire.timestamp.get(), near.now.as_picos() >> TIME_SHIFT);
        let header = D3Header {
            seq: widen(wire.seq.get(), near.seq),
            ack: widen(wire.ack.get(), near.cumulative),
            timestamp: timestamp << TIME_SHIFT,
            path: u32::from(envelope.path),
            request: wire.request.get(),
            flags: wire.flags & OWN_FLAGS
                | bit(envelope.is_syn, D3Header::SYN)
                | bit(kind == Kind::ACK, D3Header::ACK),
            reserved: 0,
        };
        packet.header = Header::new(header);
        let is_answer = kind == Kind::ACK;
        let has_payload = packet.payload_bytes > 0;
        let is_consistent = match kind {
            Kind::DATA => has_payload && self.data(packet).is_some(),
            Kind::PROBE => FlowOpening::fits(envelope),
            Kind::ACK => !has_payload,
            other => return Err(WireError::Kind(other.number())),
        };
        // A request travels to the receiver, its answer to the sender.
        let wrong_block = if is_answer { D3Header::REQUEST } else { D3Header::FEEDBACK };
        let has_block = header.flags & BLOCK_FLAGS != 0;
        let is_sound = is_consistent
            && packet.is_to_sender() == is_answer
            && !packet.is_bounced()
            && header.flags & wrong_block == 0
            && match has_block {
                true => rest.len() == WITH_BLOCK - PLAIN && self.parse_block(fields).is_some(),
                false => rest.is_empty(),
            };
        if is_sound { Ok(()) } else { Err(WireError::Contradiction(kind.number())) }
    }

    fn parse_block(&self, fields: &[u8]) -> Option<ExtBlock> {
        let wire = D3Fields::read_from_bytes(fields.get(..PLAIN)?).ok()?;
        let (header, _) = CongestionHeader::read_from_prefix(fields.get(PLAIN..)?).ok()?;
        header.rates(wire.flags).map(|rates| rates.to_block())
    }

    fn data(&self, packet: &Packet) -> Option<Data> {
        let header: D3Header = packet.header.get();
        if header.has(D3Header::ACK) || packet.payload_bytes == 0 {
            return None;
        }
        let range = ByteRange { offset: header.seq, len: u64::from(packet.payload_bytes) };
        let end = range.offset.checked_add(range.len)?;
        let flow_bytes = header.has(D3Header::END).then_some(end);
        Some(Data { range, flow_bytes, segment_bytes: None })
    }

    fn observe(&self, packet: &Packet, near: &mut RecentNumbers) {
        let header: D3Header = packet.header.get();
        near.seq = near.seq.max(header.seq);
        if header.has(D3Header::ACK) {
            near.cumulative = near.cumulative.max(header.ack);
        }
    }
}

impl CongestionHeader {
    fn of(block: &RateBlock) -> CongestionHeader {
        let scale = if block.scale > 0 { block.scale } else { scale_for(block) };
        let step = step(scale);
        let desired = |rate: Rate| saturate(rate.as_bps().div_ceil(step));
        let vector = |grants: &Grants| {
            let mut bytes = [0; HOPS_MAX];
            for (byte, grant) in bytes.iter_mut().zip(grants.iter()) {
                *byte = saturate(grant.counted().as_bps() / step);
            }
            bytes
        };
        let other = block.granted_before.len().max(block.feedback.len()) as u8;
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        CongestionHeader {
            scale,
            desired: desired(block.desired),
            index: block.index & INDEX_BITS
                | other << LENGTH_SHIFT
                | bit(block.important, IMPORTANT)
                | bit(block.overflow, OVERFLOW),
            granted: vector(&block.granted),
            desired_before: desired(block.desired_before),
            granted_before: vector(&block.granted_before),
            feedback: vector(&block.feedback),
        }
    }

    /// The rates; nothing if a vector is longer than it can be, or there is no scale.
    fn rates(&self, flags: u8) -> Option<RateBlock> {
        let step = step(self.scale);
        let rate = |byte: u8| Rate::from_bps(u64::from(byte) * step);
        let vector = |bytes: &[u8; HOPS_MAX], len: u8| {
            let mut grants = Grants::default();
            for byte in bytes.get(..usize::from(len))? {
                grants.push(if *byte == 0 { Grant::Base } else { Grant::Rate(rate(*byte)) });
            }
            Some(grants)
        };
        let index = self.index & INDEX_BITS;
        let other = self.index >> LENGTH_SHIFT & INDEX_BITS;
        let is_answer = flags & D3Header::FEEDBACK != 0;
        let (before, feedback) = if is_answer { (0, other) } else { (other, 0) };
        // Ports grant nothing to a flow that leaves them.
        let granted = if flags & D3Header::FIN != 0 { 0 } else { index };
        Some(RateBlock {
            desired: rate(self.desired),
            desired_before: rate(self.desired_before),
            index: (usize::from(index) <= HOPS_MAX).then_some(index)?,
            overflow: self.index & OVERFLOW != 0,
            scale: (self.scale > 0).then_some(self.scale)?,
            important: self.index & IMPORTANT != 0,
            granted: vector(&self.granted, granted)?,
            granted_before: vector(&self.granted_before, before)?,
            feedback: vector(&self.feedback, feedback)?,
            ..RateBlock::default()
        })
    }
}

/// The step of rates, in bits per second.
fn step(scale: u8) -> u64 {
    RATE_UNIT.as_bps() * u64::from(scale)
}

fn saturate(steps: u64) -> u8 {
    u8::try_from(steps).unwrap_or(u8::MAX)
}

/// The least scale at which every rate of a block has a byte, for rates in whole bits per second.
fn scale_for(block: &RateBlock) -> u8 {
    let vectors = [&block.granted, &block.granted_before, &block.feedback];
    let grants = vectors.into_iter().flat_map(|grants| grants.iter()).map(Grant::counted);
    let most = grants.chain([block.desired, block.desired_before]).max().unwrap_or_default();
    saturate(most.as_bps().div_ceil(RATE_UNIT.as_bps() * u64::from(u8::MAX)).max(1))
}
