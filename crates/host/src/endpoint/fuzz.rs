//! Fuzz targets: the formats of the host stack, and an engine driven by operations that the input
//! chooses, with a hostile peer.
//!
//! They run for a moment as tests, and longer in `cargo xtask fuzz`. `tests/corpus/engine` has inputs
//! that are replayed.

use super::engine::{Engine, Reply};
use super::format::{Control, Opening, Prologue};
use super::options::{EndpointOptions, HostTransport, SendOptions};
use super::services::Service;
use crate::stream::{Answer, Head, Offer, safe_name};
use punctual_core::{Class, FlowId, Header, HostId, Packet, PacketFlags};
use punctual_transports::ndp::NdpHeader;
use punctual_wire::{
    Codec, Datagram, ENVELOPE_BYTES, Envelope, FlowOpening, Kind, NDP_WIRE_BYTES, NdpCodec,
    PdqCodec, WireName, emit, set_flags,
};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// The bytes of a fuzzing engine, read from the front. Zeros follow.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }
}

#[test]
fn fuzz_control() {
    bolero::check!().with_max_len(256).for_each(|bytes| {
        let mut input = Input(bytes);
        let kind = Kind::new(8 + input.byte() % 8);
        let mut datagram = vec![0; ENVELOPE_BYTES];
        datagram.extend_from_slice(input.0);
        let envelope = Envelope {
            transport: NdpCodec::TRANSPORT,
            kind,
            class: Class::CONTROL,
            flags: PacketFlags::empty(),
            is_syn: false,
            keyed: None,
            name: WireName { flow: 1, incarnation: 1 },
            path: 0,
            payload_bytes: input.0.len() as u16,
        };
        envelope.seal(&mut datagram, 0);
        let Ok(parsed) = Datagram::parse(&datagram) else { return };
        if let Some(control) = Control::of(&parsed) {
            let again = control.to_bytes(envelope.name);
            let again = Datagram::parse(&again).expect("our own packet");
            assert_eq!(Control::of(&again), Some(control));
        }
    });
}

#[test]
fn fuzz_formats() {
    bolero::check!().with_max_len(512).for_each(|bytes| {
        let mut first = bytes.to_vec();
        first.resize(bytes.len().max(Head::BYTES), 0);
        if let Some(prologue) = first.first_chunk::<{ Prologue::BYTES }>()
            && let Opening::Message(prologue) = Opening::of(prologue)
        {
            assert_eq!(Opening::of(&prologue.to_bytes()), Opening::Message(prologue));
        }
        if let Some(head) = first.first_chunk::<{ Head::BYTES }>() {
            let _ = Head::of(head);
        }
        if let Some(offer) = Offer::from_bytes(&first) {
            assert!(offer.name.len() <= 255);
            if let Some(name) = safe_name(&offer.name) {
                let joined = std::path::Path::new("/dir").join(name);
                assert_eq!(joined.parent(), Some(std::path::Path::new("/dir")));
                assert!(!name.starts_with('.'));
            }
        }
        if let Some(answer) = Answer::from_bytes(bytes) {
            assert_eq!(answer.to_bytes()[..], *bytes);
        }
    });
}

/// Operations of an input.
const OPS_MAX: usize = 64;

/// An engine with little memory, and a peer that sends whatever the input says.
struct World {
    engine: Engine,
    peer: UdpSocket,
    peer_address: SocketAddr,
    address: SocketAddr,
    options: EndpointOptions,
    /// Datagrams of the engine, to be answered or forged.
    seen: Vec<Vec<u8>>,
    sends: Vec<u64>,
    /// Messages that the application has not read to their end.
    accepted: Vec<u64>,
}

impl World {
    fn new() -> World {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = UdpSocket::bind(any).expect("a socket");
        let address = socket.local_addr().expect("an address");
        let options = EndpointOptions {
            stream_buffer: 1 << 16,
            peer_memory: 1 << 17,
            receive_memory: 1 << 18,
            send_memory: 1 << 18,
            backlog: 8,
            peers_max: 4,
            flows_per_peer: 4,
            unproven_max: 2,
            ..EndpointOptions::default()
        };
        let mut engine = Engine::new(socket, address, options.clone()).expect("an engine");
        engine.state.services.claim(Service::default(), 0);
        let peer = UdpSocket::bind(any).expect("a socket");
        peer.set_nonblocking(true).expect("non-blocking");
        let peer_address = peer.local_addr().expect("an address");
        let (seen, sends, accepted) = (Vec::new(), Vec::new(), Vec::new());
        World { engine, peer, peer_address, address, options, seen, sends, accepted }
    }

    fn send(&self, bytes: &[u8]) {
        let _ = self.peer.send_to(bytes, self.address);
    }

    /// Runs the engine, and collects what it sends.
    fn step(&mut self) {
        self.engine.step();
        let mut buffer = [0; 2_048];
        while let Ok((len, _)) = self.peer.recv_from(&mut buffer) {
            if self.seen.len() >= 32 {
                self.seen.remove(0);
            }
            self.seen.push(buffer[..len].to_vec());
        }
        let state = &self.engine.state;
        assert!(self.engine.closed.is_none(), "a peer cannot stop the engine");
        assert!(state.receive_memory <= self.options.receive_memory);
        assert!(state.send_memory <= self.options.send_memory);
        assert!(state.services.waiting() <= self.options.backlog);
        // The engine's own sends find room beyond the limit.
        assert!(state.peers.len() <= self.options.peers_max + 1);
    }

    /// A packet of a transport, or of the host stack, that answers or imitates one that was seen.
    fn forged(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let seen = match self.seen.len() {
            0 => None,
            count => self.seen.get(usize::from(input.byte()) % count).cloned(),
        };
        let name = seen.as_deref().and_then(|bytes| Datagram::parse(bytes).ok());
        let name = name.map_or(WireName { flow: 1, incarnation: 1 }, |d| d.envelope.name);
        let flow = if input.byte() & 1 == 0 { name.flow } else { u32::from(input.byte()) };
        let incarnation = u16::from(input.byte() & 3);
        let name = WireName { flow, incarnation };
        match input.byte() % 6 {
            0 => {
                let Some(mut bytes) = seen else { return Vec::new() };
                let flags = PacketFlags::from_bits(input.byte());
                let _ = set_flags(&mut bytes, flags);
                bytes
            }
            1 => {
                let kind = Kind::new(8 + input.byte() % 8);
                let mut bytes = vec![0; ENVELOPE_BYTES];
                // The token of a challenge that was seen, or anything.
                match seen.as_deref().and_then(|bytes| bytes.get(ENVELOPE_BYTES..)) {
                    Some(payload) if input.byte() & 1 == 0 => {
                        bytes.extend_from_slice(&payload[..payload.len().min(24)]);
                    }
                    _ => bytes.extend((0..24).map(|_| input.byte())),
                }
                let envelope = Envelope {
                    transport: NdpCodec::TRANSPORT,
                    kind,
                    class: Class::CONTROL,
                    flags: PacketFlags::empty(),
                    is_syn: false,
                    keyed: None,
                    name,
                    path: 0,
                    payload_bytes: (bytes.len() - ENVELOPE_BYTES) as u16,
                };
                envelope.seal(&mut bytes, 0);
                bytes
            }
            2 | 3 => self.ndp(name, input),
            _ => World::granted(name, input),
        }
    }

    /// A packet of D3, RCPdc or PDQ.
    fn granted(name: WireName, input: &mut Input<'_>) -> Vec<u8> {
        let transport = 2 + input.byte() % 3;
        let sizes = if transport == PdqCodec::TRANSPORT { [32, 32] } else { [16, 40] };
        let mut fields = vec![0; sizes[usize::from(input.byte() & 1)]];
        for _ in 0..input.byte() % 8 {
            let at = usize::from(input.byte()) % fields.len();
            fields[at] = input.byte();
        }
        let is_syn = input.byte() & 1 == 0;
        let (kind, payload) = match input.byte() % 4 {
            0 | 1 if is_syn => {
                let flow_bytes = [28, 1_000, 200_000, u64::MAX][usize::from(input.byte()) % 4];
                let segment_bytes = (transport == PdqCodec::TRANSPORT).then_some(1_420);
                let opening = FlowOpening { flow_bytes, segment_bytes };
                (Kind::PROBE, opening.to_bytes().to_vec())
            }
            0 | 1 => (Kind::PROBE, Vec::new()),
            2 => (Kind::ACK, Vec::new()),
            _ => (Kind::DATA, vec![0xa2; [1, 28, 200, 1_420][usize::from(input.byte()) % 4]]),
        };
        let mut bytes = vec![0; ENVELOPE_BYTES];
        bytes.extend_from_slice(&fields);
        bytes.extend_from_slice(&payload);
        let to_sender = kind == Kind::ACK;
        let envelope = Envelope {
            transport,
            kind,
            class: Class::DATA,
            flags: if to_sender { PacketFlags::TO_SENDER } else { PacketFlags::empty() },
            is_syn,
            keyed: None,
            name,
            path: 0,
            payload_bytes: payload.len() as u16,
        };
        envelope.seal(&mut bytes, fields.len());
        bytes
    }

    fn ndp(&mut self, name: WireName, input: &mut Input<'_>) -> Vec<u8> {
        let kind = input.byte() % 4;
        let is_data = kind == 0;
        let size = [0, 24, 1_000, 5_000, 200_000, u64::MAX][usize::from(input.byte()) % 6];
        let header = NdpHeader {
            seq: u64::from(input.byte()),
            cumulative: if is_data { size } else { u64::from(input.byte()) },
            sent_at: 0,
            pull: u32::from(input.byte()),
            path: 0,
            kind,
            flags: input.byte(),
        };
        let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
        packet.class = Class::DATA;
        packet.flags = if is_data { PacketFlags::TRIMMABLE } else { PacketFlags::TO_SENDER };
        packet.payload_bytes =
            if is_data { [0, 24, 1_000, 1_436][usize::from(input.byte()) % 4] } else { 0 };
        packet.wire_bytes = NDP_WIRE_BYTES as u16 + packet.payload_bytes;
        let mut first = [input.byte(); 32];
        // A prologue that names any receiver.
        (first[0], first[1]) = (0xa1, input.byte() % 4);
        // Mostly the service that is claimed.
        first[4..8].fill(input.byte() / 250);
        (first[2], first[3]) = match input.byte() & 1 {
            0 => self.engine.state.incarnation.to_be_bytes().into(),
            _ => (0, 0),
        };
        let mut bytes = Vec::new();
        let filled = emit(&NdpCodec, name, &packet, None, &mut bytes, |into| {
            let count = into.len().min(first.len());
            into[..count].copy_from_slice(&first[..count]);
            Ok::<(), ()>(())
        });
        filled.expect("nothing fails");
        bytes
    }

    fn run(&mut self, op: u8, input: &mut Input<'_>) {
        let id = match self.sends.len() {
            0 => 0,
            count => self.sends[usize::from(input.byte()) % count],
        };
        match op % 12 {
            0 => {
                let raw: Vec<u8> = input.0.iter().take(usize::from(op) * 4).copied().collect();
                self.send(&raw);
            }
            1..=5 => {
                let bytes = self.forged(input);
                self.send(&bytes);
            }
            6 => {
                let bytes = vec![op; usize::from(input.byte()) * 100];
                let deadline = match input.byte() % 3 {
                    0 => None,
                    n => Some(Duration::from_micros(u64::from(n) * 100)),
                };
                let give_up_late = input.byte() & 1 == 1;
                let transport = HostTransport::at(input.byte() % 4).unwrap_or_default();
                let options =
                    SendOptions { deadline, give_up_late, transport, ..SendOptions::default() };
                let reply = if input.byte() & 1 == 0 { Reply::None } else { Reply::Wanted };
                if let Ok(id) = self.engine.submit(self.peer_address, bytes, reply, &options) {
                    self.sends.push(id);
                }
            }
            7 => self.engine.cancel(id),
            8 => {
                let deadline = Duration::from_nanos(input.number() % 1_000_000);
                self.engine.set_deadline(id, Some(deadline));
            }
            9 => {
                if let Some(message) = self
                    .accepted
                    .pop()
                    .or_else(|| self.engine.state.services.pop(Service::default()))
                {
                    let _ = self.engine.read(message, &mut [0; 4_096]);
                    match input.byte() % 3 {
                        0 => self.accepted.push(message),
                        1 => {
                            let inbound = self.engine.state.inbound.get(&message);
                            let request_bytes = inbound.map_or(0, |inbound| inbound.len);
                            let reply = Reply::To { request: 1, request_bytes, inbound: message };
                            let bytes = vec![1; usize::from(input.byte()) * 64];
                            let options = SendOptions::default();
                            let peer = self.peer_address;
                            if let Ok(id) = self.engine.submit(peer, bytes, reply, &options) {
                                self.sends.push(id);
                            }
                        }
                        _ => self.engine.state.refuse_inbound(message, super::format::End::Refused),
                    }
                }
            }
            10 => self.engine.state.forget_outbound(id),
            _ => {}
        }
        self.step();
    }
}

/// Runs the program in `bytes`. Returns how many datagrams the engine understood.
fn attack(bytes: &[u8]) -> u64 {
    let mut input = Input(bytes);
    let mut world = World::new();
    for _ in 0..OPS_MAX {
        if input.0.is_empty() {
            break;
        }
        let op = input.byte();
        world.run(op, &mut input);
    }
    world.engine.close("the input ends");
    world.engine.traffic().received
}

#[test]
fn fuzz_engine() {
    bolero::check!().with_max_len(1024).for_each(|bytes| {
        attack(bytes);
    });
}

/// Replays the kept inputs.
#[test]
fn fuzz_corpus_of_the_engine() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/engine");
    let mut understood = 0;
    for entry in std::fs::read_dir(dir).expect("the corpus") {
        understood += attack(&std::fs::read(entry.expect("a file").path()).expect("its bytes"));
    }
    assert!(understood > 20, "nearly nothing was sound: {understood}");
}

/// `cargo test -p punctual-host --lib fuzz_corpus__write -- --ignored`
#[test]
#[ignore = "writes files"]
fn fuzz_corpus__write() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/engine");
    std::fs::create_dir_all(dir).expect("a directory");
    let mut stream = punctual_core::rng::Stream::named(1, "engine corpus", 0);
    for number in 0..12 {
        let bytes: Vec<u8> = (0..600).map(|_| stream.bits() as u8).collect();
        std::fs::write(format!("{dir}/random-{number:02}.bin"), bytes).expect("a file");
    }
}
