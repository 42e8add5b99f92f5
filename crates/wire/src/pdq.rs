//! The wire format of PDQ.
//!
//! PDQ's header in memory has the wire's units already, so nothing is lost.
//!
//! Ports compare the deadlines of flows from different hosts, so D_H counts from the same moment
//! everywhere: hosts on sockets and switches count from the Unix epoch, modulo 11.9 hours
//! ([`PdqCodec::epoch`]). A codec converts from and to the clock of its host or switch, around which
//! ports order deadlines.

use crate::codec::Summary;
use crate::layout::FieldLayout;
use crate::{
    Codec, Data, ENVELOPE_BYTES, Envelope, FlowOpening, IPV4_UDP_BYTES, Kind, RecentNumbers,
    WireError,
};
use core::mem::offset_of;
use punctual_core::{ByteRange, ExtBlock, Header, Packet, Transport as _};
use punctual_transports::pdq::{
    HEADER_BYTES, NO_DEADLINE, PATHS_MAX, PdqConfig, PdqHeader, SUBFLOWS_MAX,
};
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PdqFields {
    seq: U32,
    time: U32,
    rtt: U32,
    expected: U32,
    /// PDQ's flags that only hosts set, without SYN and ACK, which the envelope has.
    flags: u8,
    age: u8,
    // Switches rewrite what follows.
    port_flags: u8,
    subflow: u8,
    rate: U32,
    pauser: U32,
    deadline: U32,
}

const FLAGS_AT: usize = offset_of!(PdqFields, flags);
const PORT_FLAGS_AT: usize = offset_of!(PdqFields, port_flags);

/// Flags in `flags`: the others are in the envelope or in `port_flags`.
const HOST_FLAGS: u8 = PdqHeader::TERM | PdqHeader::END | PdqHeader::DATA | PdqHeader::AGAIN;

/// PDQ's fields, in order. The scheduling header is `rtt`, `expected` and the last three.
pub const PDQ_LAYOUT: &[FieldLayout] = {
    const fn flag(name: &'static str, flag: u8, meaning: &'static str) -> FieldLayout {
        FieldLayout::bits(name, FLAGS_AT, 1, flag as u32, meaning)
    }
    &[
        FieldLayout::new("seq", offset_of!(PdqFields, seq), 4, "number of the segment"),
        FieldLayout::new(
            "time",
            offset_of!(PdqFields, time),
            4,
            "when sent, in ns, mod 2³²; echoed",
        ),
        FieldLayout::new("rtt", offset_of!(PdqFields, rtt), 4, "RTT_H, in ns; 0 if unknown"),
        FieldLayout::new(
            "expected",
            offset_of!(PdqFields, expected),
            4,
            "T_H, in 10 ns; to the sender: segments that arrived without a gap",
        ),
        flag("again", PdqHeader::AGAIN, "a retransmission"),
        flag("data", PdqHeader::DATA, "carries data, or acknowledges a packet that did"),
        flag("end", PdqHeader::END, "ends where the flow ends"),
        flag("term", PdqHeader::TERM, "the flow leaves the ports on its path"),
        FieldLayout::new("age", offset_of!(PdqFields, age), 1, "T counts as T / 2^(age / 8)"),
        FieldLayout::bits(
            "held",
            PORT_FLAGS_AT,
            1,
            PdqHeader::HELD as u32,
            "the port in P was passed and pauses the flow still",
        ),
        FieldLayout::new(
            "subflow",
            offset_of!(PdqFields, subflow),
            1,
            "number of the subflow; 0 in PDQ, whose flows have one",
        ),
        FieldLayout::new("rate", offset_of!(PdqFields, rate), 4, "R_H, in kb/s"),
        FieldLayout::new("pauser", offset_of!(PdqFields, pauser), 4, "P_H; 2³² − 1 for none"),
        FieldLayout::new(
            "deadline",
            offset_of!(PdqFields, deadline),
            4,
            "D_H, in 10 µs since 1970, mod 2³², 2³² − 1 for none; to the sender I_H, in RTT / 1000",
        ),
    ]
};

/// Writes and reads PDQ's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PdqCodec {
    /// Bytes in each of a flow's packets but the last. Both ends must have the same: PDQ numbers
    /// segments, and its header does not have their size. 0 at switches, which need not know it.
    pub segment_bytes: u16,
    /// The zero of the clock of this host or switch, in units of 10 µs modulo 2³², since a moment that
    /// all have in common.
    pub epoch: u32,
}

impl PdqCodec {
    /// D_H on the wire, of a deadline on the clock of this host or switch.
    fn wire_deadline(&self, deadline: u32) -> u32 {
        match deadline {
            NO_DEADLINE => NO_DEADLINE,
            at => at.wrapping_add(self.epoch).min(NO_DEADLINE - 1),
        }
    }

    /// A deadline on the clock of this host or switch, of D_H on the wire.
    fn own_deadline(&self, deadline: u32) -> u32 {
        match deadline {
            NO_DEADLINE => NO_DEADLINE,
            at => at.wrapping_sub(self.epoch).min(NO_DEADLINE - 1),
        }
    }
}

impl Codec for PdqCodec {
    const TRANSPORT: u8 = 4;
    const NAME: &'static str = PdqConfig::INFO.name;
    const FIELDS_BYTES: (usize, usize) = (size_of::<PdqFields>(), size_of::<PdqFields>());
    const SWITCH_FIELDS_AT: usize = PORT_FLAGS_AT;
    const LONGER_BY: u16 =
        (IPV4_UDP_BYTES + ENVELOPE_BYTES + size_of::<PdqFields>()) as u16 - HEADER_BYTES;

    fn summary(&self, packet: &Packet) -> Summary {
        let header: PdqHeader = packet.header.get();
        let kind = match (header.has(PdqHeader::ACK), header.has(PdqHeader::DATA)) {
            (true, _) => Kind::ACK,
            (false, true) => Kind::DATA,
            (false, false) => Kind::PROBE,
        };
        Summary { kind, is_syn: header.has(PdqHeader::SYN), path: header.path() as u16 }
    }

    fn emit_fields(&self, packet: &Packet, _block: Option<&ExtBlock>, fields: &mut [u8]) {
        let header: PdqHeader = packet.header.get();
        let wire = PdqFields {
            seq: header.seq.into(),
            time: header.time.into(),
            rtt: header.rtt.into(),
            flags: header.flags & HOST_FLAGS,
            age: header.age,
            port_flags: header.flags & PdqHeader::HELD,
            subflow: header.subflow() as u8,
            rate: header.rate.into(),
            pauser: header.pauser.into(),
            deadline: match header.has(PdqHeader::ACK) {
                true => header.deadline,
                false => self.wire_deadline(header.deadline),
            }
            .into(),
            expected: header.expected.into(),
        };
        fields.copy_from_slice(wire.as_bytes());
    }

    fn parse_fields(
        &self,
        envelope: &Envelope,
        fields: &[u8],
        _near: &RecentNumbers,
        packet: &mut Packet,
    ) -> Result<(), WireError> {
        let Ok(wire) = PdqFields::read_from_bytes(fields) else {
            return Err(WireError::FieldsSize(fields.len()));
        };
        let kind = envelope.kind;
        let (path, subflow) = (u32::from(envelope.path), u32::from(wire.subflow));
        if path >= PATHS_MAX || subflow >= SUBFLOWS_MAX {
            return Err(WireError::Contradiction(kind.number()));
        }
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let header = PdqHeader {
            seq: wire.seq.get(),
            time: wire.time.get(),
            rate: wire.rate.get(),
            pauser: wire.pauser.get(),
            deadline: match kind {
                Kind::ACK => wire.deadline.get(),
                _ => self.own_deadline(wire.deadline.get()),
            },
            expected: wire.expected.get(),
            rtt: wire.rtt.get(),
            route: PdqHeader::route(path, subflow),
            flags: wire.flags & HOST_FLAGS
                | wire.port_flags & PdqHeader::HELD
                | bit(envelope.is_syn, PdqHeader::SYN)
                | bit(kind == Kind::ACK, PdqHeader::ACK),
            age: wire.age,
        };
        packet.header = Header::new(header);
        let (is_answer, has_payload) = (packet.is_to_sender(), packet.payload_bytes > 0);
        let is_consistent = match kind {
            Kind::DATA => has_payload && header.has(PdqHeader::DATA) && self.data(packet).is_some(),
            Kind::PROBE => FlowOpening::fits(envelope) && !header.has(PdqHeader::DATA),
            Kind::ACK => !has_payload,
            other => return Err(WireError::Kind(other.number())),
        };
        // No switch bounces PDQ's packets, so the kind decides on the direction.
        let is_directed = is_answer == (kind == Kind::ACK) && !packet.is_bounced();
        match is_consistent && is_directed {
            true => Ok(()),
            false => Err(WireError::Contradiction(kind.number())),
        }
    }

    fn data(&self, packet: &Packet) -> Option<Data> {
        let header: PdqHeader = packet.header.get();
        if header.has(PdqHeader::ACK) || !header.has(PdqHeader::DATA) {
            return None;
        }
        let (len, segment) = (u64::from(packet.payload_bytes), u64::from(self.segment_bytes));
        let is_end = header.has(PdqHeader::END);
        let range = ByteRange { offset: u64::from(header.seq) * segment, len };
        let is_valid = len == segment || is_end && (1..segment).contains(&len) || segment == 0;
        let flow_bytes = is_end.then_some(range.offset + len);
        is_valid.then_some(Data { range, flow_bytes, segment_bytes: Some(segment) })
    }

    /// Nothing is widened: segments and times are as long in memory.
    fn observe(&self, _packet: &Packet, _near: &mut RecentNumbers) {}

    fn segment_bytes(&self) -> Option<u16> {
        Some(self.segment_bytes)
    }
}
