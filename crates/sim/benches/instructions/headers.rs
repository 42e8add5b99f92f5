//! Headers as bytes: an operation is a header written, or one checked and read. Without payload,
//! whose checksum would hide the rest.

use crate::Done;
use punctual_core::{FlowId, Header, HostId, Instant, Packet, PacketFlags};
use punctual_transports::ndp::{HEADER_BYTES, NdpHeader, flags, kind};
use punctual_wire::{Datagram, NdpCodec, RecentNumbers, WireName, emit, parse};
use std::convert::Infallible;
use std::hint::black_box;

/// Acknowledgements of a long flow, one after the other.
fn acks() -> Vec<Packet> {
    (0..64)
        .map(|n: u64| {
            let header = NdpHeader {
                seq: 5_000 + n,
                cumulative: 4_990 + n,
                sent_at: (1_000_000 + 440 * n) << 14,
                pull: n as u32,
                path: n as u16,
                kind: kind::ACK,
                flags: flags::PULL,
            };
            let mut packet = Packet::new(FlowId(7), HostId(1), Header::new(header));
            packet.wire_bytes = HEADER_BYTES;
            packet.flags = PacketFlags::TO_SENDER;
            packet
        })
        .collect()
}

fn write(packet: &Packet, datagram: &mut Vec<u8>) {
    let name = WireName { flow: packet.flow.0, incarnation: 1 };
    let nothing = |_: &mut [u8]| Ok::<(), Infallible>(());
    let Ok(()) = emit(&NdpCodec, name, packet, None, datagram, nothing);
}

pub(crate) fn emit_ndp(headers: u64) -> Done {
    let (packets, mut datagram, mut digest) = (acks(), Vec::new(), 0u64);
    for packet in packets.iter().cycle().take(headers as usize) {
        write(black_box(packet), &mut datagram);
        digest = digest.rotate_left(5) ^ u64::from(datagram[datagram.len() - 5]);
    }
    Done { operations: headers, digest }
}

pub(crate) fn parse_ndp(headers: u64) -> Done {
    let datagrams: Vec<Vec<u8>> = acks()
        .iter()
        .map(|packet| {
            let mut datagram = Vec::new();
            write(packet, &mut datagram);
            datagram
        })
        .collect();
    let near = RecentNumbers { seq: 5_000, cumulative: 5_000, now: Instant::from_picos(1 << 34) };
    let mut digest = 0u64;
    for datagram in datagrams.iter().cycle().take(headers as usize) {
        let datagram = Datagram::parse(black_box(datagram)).expect("as it was written");
        let packet = parse(&NdpCodec, &datagram, &near, FlowId(7), HostId(1)).expect("an ACK");
        digest = digest.rotate_left(5) ^ NdpHeader::of(&packet).seq;
    }
    Done { operations: headers, digest }
}
