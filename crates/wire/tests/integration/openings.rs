//! Opening packets of flows whose first packet carries no data.

use crate::samples::{MTU, NAME, NEAR, d3, pdq, request};
use punctual_core::{FlowId, HostId, Packet};
use punctual_transports::d3::D3Header;
use punctual_transports::pdq::{NO_DEADLINE, PdqHeader};
use punctual_wire::{
    AnyCodec, Codec as _, Datagram, ENVELOPE_BYTES, FlowOpening, Kind, PacketCodec as _, PdqCodec,
};

fn opening_packets() -> [(AnyCodec, Packet); 2] {
    let of = |name| AnyCodec::of(name, MTU).unwrap();
    [(of("d3"), d3(D3Header::SYN | D3Header::REQUEST, 0)), (of("pdq"), pdq(PdqHeader::SYN, 0))]
}

#[test]
fn opening__the_host_reads_it_and_the_transport_does_not() {
    let block = request().to_block();
    for (codec, packet) in opening_packets() {
        assert!(codec.is_opening(&packet));
        let segment_bytes = codec.segment_bytes();
        assert_eq!(segment_bytes.is_some(), codec.number() == PdqCodec::TRANSPORT);
        let opening = FlowOpening { flow_bytes: 0x0102_0304_0506_0708, segment_bytes };
        let mut bytes = Vec::new();
        codec.write_opening(NAME, &packet, Some(&block), &opening, &mut bytes);
        let datagram = Datagram::parse(&bytes).unwrap();
        assert_eq!(FlowOpening::of(&datagram), Some(opening));
        let (back, _) = codec.read(&datagram, &NEAR, FlowId(3), HostId(1)).unwrap();
        assert_eq!((back.header, back.payload_bytes), (packet.header, 0));
        // A switch changes fields of the transport, and nothing else.
        let trimmed = Datagram::parse(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(FlowOpening::of(&trimmed), None, "what is left of it says nothing");
    }
}

#[test]
fn opening__other_probes_have_no_payload() {
    for (codec, packet) in opening_packets() {
        let mut bytes = Vec::new();
        let opening = FlowOpening { flow_bytes: 5_000, segment_bytes: None };
        codec.write_opening(NAME, &packet, Some(&request().to_block()), &opening, &mut bytes);
        let fields = Datagram::parse(&bytes).unwrap().fields.len();
        let reseal = |is_syn, payload: usize| {
            let mut envelope = Datagram::parse(&bytes).unwrap().envelope;
            envelope.is_syn = is_syn;
            envelope.payload_bytes = payload as u16;
            let mut other = bytes.clone();
            other.resize(ENVELOPE_BYTES + fields + payload, 7);
            envelope.seal(&mut other, fields);
            let datagram = Datagram::parse(&other).unwrap();
            assert_eq!(datagram.envelope.kind, Kind::PROBE);
            codec.read(&datagram, &NEAR, FlowId(3), HostId(1)).map(drop).map_err(|e| e.name())
        };
        assert_eq!(reseal(true, 0), Ok(()), "as the simulator's captures have it");
        assert_eq!(reseal(true, 11), Err("contradiction"));
        assert_eq!(reseal(true, 13), Err("contradiction"));
        assert_eq!(reseal(false, 12), Err("contradiction"));
    }
}

/// Ports compare the deadlines of hosts whose clocks began at different times.
#[test]
fn pdq__deadlines_count_from_a_common_moment() {
    let on_wire = |epoch, deadline| {
        let codec = PdqCodec { segment_bytes: 1_440, epoch };
        let mut packet = pdq(PdqHeader::DATA, 1_440);
        let header: &mut PdqHeader = packet.header.get_mut();
        header.deadline = deadline;
        let mut fields = [0; 32];
        codec.emit_fields(&packet, None, &mut fields);
        u32::from_be_bytes(fields[28..].try_into().unwrap())
    };
    // Two hosts that started 10 s apart have one deadline.
    assert_eq!(on_wire(5_000_000, 2_000_000), on_wire(6_000_000, 1_000_000));
    assert_eq!(on_wire(u32::MAX, 3), 2, "modulo 2^32");
    assert_eq!(on_wire(7, NO_DEADLINE), NO_DEADLINE);
    assert_eq!(on_wire(1, NO_DEADLINE - 1), NO_DEADLINE - 1, "a deadline stays one");
    // Who parses it gets it on his own clock.
    let read = |epoch, deadline: u32| {
        let mut packet = pdq(PdqHeader::DATA, 1_440);
        packet.header.get_mut::<PdqHeader>().deadline = deadline;
        let (mut bytes, at) = (Vec::new(), PdqCodec { segment_bytes: 1_440, epoch: 0 });
        at.write(NAME, &packet, None, &mut bytes, |_| Ok::<(), ()>(())).unwrap();
        let reader = PdqCodec { segment_bytes: 1_440, epoch };
        let datagram = Datagram::parse(&bytes).unwrap();
        let (packet, _) = reader.read(&datagram, &NEAR, FlowId(3), HostId(1)).unwrap();
        packet.header.get::<PdqHeader>().deadline
    };
    assert_eq!(read(5_000_000, 7_000_000), 2_000_000);
    assert_eq!(read(5, 3), u32::MAX - 1);
    assert_eq!(read(7, NO_DEADLINE), NO_DEADLINE);
    assert_eq!(read(4, 3), NO_DEADLINE - 1, "a deadline stays one");
}
