//! Fuzz targets: the formats of the host stack, and an engine driven by operations that the input
//! chooses, with a hostile peer.
//!
//! They run for a moment as tests, and longer in `cargo xtask fuzz`. Each target replays the inputs in
//! its folder below `__fuzz__` first.

use super::engine::{Engine, Reply};
use super::format::{Control, Opening, Prologue, Purpose};
use super::options::{EndpointOptions, HostTransport, SendOptions};
use super::services::Service;
use crate::Key;
use crate::seal::Seal;
use crate::stream::{Answer, Head, Offer, safe_name};
use punctual_core::{Class, ExtBlock, FlowId, Header, HostId, Instant, Packet, PacketFlags, Rate};
use punctual_transports::d3::{D3Header, Grant, RateBlock};
use punctual_transports::ndp::{NdpHeader, flags, kind};
use punctual_transports::pdq::{NO_DEADLINE, PdqHeader};
use punctual_wire::{
    AnyCodec, Codec, Datagram, ENVELOPE_BYTES, Envelope, FlowOpening, Kind, NDP_WIRE_BYTES,
    NdpCodec, PacketCodec as _, WireName, set_flags,
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
    /// The time of the engine after its last step.
    now: Instant,
    /// In keyed mode, what gives the peer's packets their tags: it has the key.
    seal: Option<Seal>,
    /// Datagrams of the engine, to be answered or forged.
    seen: Vec<Vec<u8>>,
    sends: Vec<u64>,
    /// Messages that the application has not read to their end.
    accepted: Vec<u64>,
}

impl World {
    /// The engine has just started, or runs for so long (`is_old`) that new peers need no proof.
    fn new(is_old: bool, key: Option<Key>) -> World {
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
            key: key.clone(),
            ..EndpointOptions::default()
        };
        let mut engine = Engine::new(socket, address, options.clone()).expect("an engine");
        if is_old {
            engine.driver.skip(options.window);
            engine.step();
        }
        engine.state.services.claim(Service::default(), 0);
        let peer = UdpSocket::bind(any).expect("a socket");
        peer.set_nonblocking(true).expect("non-blocking");
        let peer_address = peer.local_addr().expect("an address");
        let (seen, sends, accepted) = (Vec::new(), Vec::new(), Vec::new());
        let seal = key.map(Seal::new);
        let now = Instant::ZERO;
        World { engine, now, peer, peer_address, address, options, seal, seen, sends, accepted }
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
        assert!(state.now >= self.now, "time does not go back");
        self.now = state.now;
        assert!(self.engine.closed.is_none(), "a peer cannot stop the engine");
        assert!(state.receive_memory <= self.options.receive_memory);
        let parked: usize = state.inbound.values().map(|inbound| inbound.parked).sum();
        assert_eq!(self.engine.driver.parked_memory(), parked, "all that waits is counted");
        let buffers: usize = state.inbound.values().map(|inbound| inbound.memory()).sum();
        assert_eq!(state.receive_memory, buffers + parked);
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
            2 => self.ndp(name, input),
            3 => self.d3(name, "d3", input),
            4 => self.d3(name, "rcpdc", input),
            _ => self.pdq(name, input),
        }
    }

    /// The first bytes of a message: mostly a prologue for this process, sometimes with a wrong byte.
    fn first_bytes(&self, input: &mut Input<'_>) -> Vec<u8> {
        let how = input.byte();
        let prologue = Prologue {
            purpose: match how % 4 {
                0 | 1 => Purpose::Message,
                2 => Purpose::Request,
                _ => Purpose::Response,
            },
            to_incarnation: (how & 4 == 0).then_some(self.engine.state.incarnation),
            deadline_us: 0,
            // Of a response: that of a request, or anything.
            id: match self.sends.len() {
                0 => 1,
                count => self.sends[usize::from(how) % count],
            },
            // Mostly the service that is claimed.
            service: u32::from(how / 240),
            confirms: (how & 8 != 0).then(|| u32::from(input.byte())),
        };
        let mut bytes = prologue.to_bytes().to_vec();
        if how & 48 == 48 {
            let at = usize::from(input.byte()) % bytes.len();
            bytes[at] = input.byte();
        }
        bytes
    }

    /// The codec of the engine for the transport of this name.
    fn codec(&self, transport: &str) -> AnyCodec {
        let transport = HostTransport::named(transport).expect("a transport");
        *self.engine.driver.codec(transport.place())
    }

    /// Writes a packet with these first bytes as its payload, or as the opening of its flow.
    fn written(
        &self,
        transport: &str,
        name: WireName,
        packet: &Packet,
        block: Option<&ExtBlock>,
        input: &mut Input<'_>,
    ) -> Vec<u8> {
        let codec = self.codec(transport);
        let mut bytes = Vec::new();
        if codec.is_opening(packet) {
            let flow_bytes = [28, 1_000, 200_000, u64::MAX][usize::from(input.byte()) % 4];
            let wrong = (input.byte() > 200).then(|| u16::from(input.byte()) * 8);
            let opening =
                FlowOpening { flow_bytes, segment_bytes: wrong.or(codec.segment_bytes()) };
            codec.write_opening(name, packet, block, &opening, &mut bytes);
            return bytes;
        }
        let first = self.first_bytes(input);
        let filled = codec.write(name, packet, block, &mut bytes, |into| {
            let count = into.len().min(first.len());
            into[..count].copy_from_slice(&first[..count]);
            Ok::<(), ()>(())
        });
        filled.expect("nothing fails");
        bytes
    }

    /// A packet of D3 or RCPdc: their headers are the same.
    fn d3(&self, name: WireName, transport: &str, input: &mut Input<'_>) -> Vec<u8> {
        let any = input.byte();
        let len = [28, 1_000, 1_400][usize::from(input.byte()) % 3];
        let seq = u64::from(input.byte() % 8).saturating_sub(4) * u64::from(len);
        let flags = match input.byte() % 4 {
            0 => D3Header::SYN | any & D3Header::REQUEST,
            1 => any & D3Header::REQUEST,
            2 => any & D3Header::REQUEST | D3Header::END,
            _ => any,
        };
        let header = D3Header {
            seq,
            ack: u64::from(input.byte()) * 100,
            flags,
            request: input.byte().into(),
            ..D3Header::default()
        };
        let mut block = RateBlock { scale: 1 + input.byte() % 2, ..RateBlock::default() };
        block.desired = Rate::from_mbps(8 * u64::from(input.byte()));
        block.index = input.byte() % 7;
        for _ in 0..block.index {
            let grant = Grant::Rate(Rate::from_mbps(8 * u64::from(input.byte())));
            match header.has(D3Header::FEEDBACK) {
                true => block.feedback.push(grant),
                false => block.granted.push(grant),
            }
        }
        let has_block = header.has(D3Header::REQUEST) || header.has(D3Header::FEEDBACK);
        let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
        packet.class = Class::DATA;
        if header.has(D3Header::ACK) {
            packet.flags = PacketFlags::TO_SENDER;
        } else if !header.has(D3Header::SYN) {
            packet.payload_bytes = len;
        }
        let block = has_block.then(|| block.to_block());
        self.written(transport, name, &packet, block.as_ref(), input)
    }

    fn pdq(&self, name: WireName, input: &mut Input<'_>) -> Vec<u8> {
        let any = input.byte();
        let flags = match input.byte() % 4 {
            0 => PdqHeader::SYN,
            1 => PdqHeader::DATA,
            2 => PdqHeader::DATA | PdqHeader::END,
            _ => any,
        };
        let is_answer = flags & PdqHeader::ACK != 0;
        let header = PdqHeader {
            seq: u32::from(input.byte() % 8).saturating_sub(4),
            time: u32::from(input.byte()),
            rate: u32::from(input.byte()) << 12,
            pauser: if input.byte() & 1 == 0 { u32::MAX } else { u32::from(input.byte()) },
            deadline: if input.byte() & 1 == 0 { NO_DEADLINE } else { u32::from(input.byte()) },
            expected: u32::from(input.byte()),
            rtt: u32::from(input.byte()) << 10,
            route: PdqHeader::route(0, 0),
            flags,
            age: input.byte(),
        };
        let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
        packet.class = Class::DATA;
        let segment = self.codec("pdq").segment_bytes().unwrap_or(0);
        if is_answer {
            packet.flags = PacketFlags::TO_SENDER;
        } else if header.has(PdqHeader::DATA) {
            packet.payload_bytes = match header.has(PdqHeader::END) {
                true => [28, 1_000][usize::from(input.byte()) % 2],
                false => segment,
            };
        }
        self.written("pdq", name, &packet, None, input)
    }

    /// A packet of NDP. Its data agrees with itself in most cases.
    fn ndp(&self, name: WireName, input: &mut Input<'_>) -> Vec<u8> {
        let kind = (input.byte() % 8).saturating_sub(4);
        let is_data = kind == kind::DATA;
        let (mut size, mut len) =
            [(0, 0), (28, 28), (1_000, 1_000), (200_000, 1_000)][usize::from(input.byte()) % 4];
        let mut seq = u64::from(input.byte());
        let mut flags = input.byte();
        if flags & 3 != 0 && is_data {
            let packets = size / u64::from(len).max(1);
            seq %= packets.max(1);
            flags = flags & flags::SYN | if seq + 1 >= packets { flags::LAST } else { 0 };
        } else {
            size = [size, 5_000, u64::MAX][usize::from(input.byte()) % 3];
            len = [len, 24, 1_436][usize::from(input.byte()) % 3];
        }
        let header = NdpHeader {
            seq,
            cumulative: if is_data { size } else { u64::from(input.byte()) },
            sent_at: 0,
            pull: u32::from(input.byte()),
            path: 0,
            kind,
            flags,
        };
        let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
        packet.class = Class::DATA;
        packet.flags = if is_data { PacketFlags::TRIMMABLE } else { PacketFlags::TO_SENDER };
        packet.payload_bytes = if is_data { len } else { 0 };
        packet.wire_bytes = NDP_WIRE_BYTES as u16 + packet.payload_bytes;
        self.written("ndp", name, &packet, None, input)
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
                let mut bytes = self.forged(input);
                let switch_fields_at = match Datagram::parse(&bytes) {
                    Ok(datagram) => {
                        let number = datagram.envelope.transport;
                        let codec = AnyCodec::numbered(number, self.options.mtu);
                        codec.map_or(usize::MAX, |codec| codec.switch_fields_at())
                    }
                    Err(_) => usize::MAX,
                };
                if let Some(seal) = &mut self.seal
                    && input.byte() < 240
                {
                    seal.seal(&mut bytes, switch_fields_at);
                }
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
            _ => self.engine.driver.skip(Duration::from_millis(u64::from(input.byte()))),
        }
        self.step();
    }
}

/// Runs the program in `bytes`. Its first byte decides whether the engine is old and has a key. Returns
/// the world as it is then.
fn attack(bytes: &[u8]) -> World {
    let mut input = Input(bytes);
    let how = input.byte();
    let key = (how & 2 != 0).then(|| Key::new(&[7; 16]).expect("a key"));
    let mut world = World::new(how & 1 != 0, key);
    for _ in 0..OPS_MAX {
        if input.0.is_empty() {
            break;
        }
        let op = input.byte();
        world.run(op, &mut input);
    }
    world
}

#[test]
fn fuzz_engine() {
    bolero::check!().with_max_len(1024).for_each(|bytes| {
        let mut world = attack(bytes);
        world.engine.close("the input ends");
    });
}

/// Most forged packets are sound, of each transport and in keyed mode: they pass the checks of the
/// envelope, of the transport's fields and of the tags, and open messages. Otherwise the target would
/// test nothing behind these checks.
#[test]
fn forged__packets_are_understood() {
    for (forge, is_keyed) in (0..4).flat_map(|forge| [(forge, false), (forge, true)]) {
        let mut stream = punctual_core::rng::Stream::named(7, "forged packets", forge);
        let (mut openings, mut sent) = (0, 0);
        let mut dropped = std::collections::BTreeMap::new();
        for flow in 0..200 {
            // A world for each, so that no limit keeps it from being understood.
            let key = is_keyed.then(|| Key::new(&[7; 16]).expect("a key"));
            let mut world = World::new(true, key);
            if is_keyed {
                // With a key, each new peer has to prove its address.
                world.engine.state.handle_proof(world.peer_address, 1);
            }
            let name = WireName { flow, incarnation: 1 };
            for _ in 0..12 {
                let bytes: Vec<u8> = (0..64).map(|_| stream.bits() as u8).collect();
                let input = &mut Input(&bytes);
                let mut packet = match forge {
                    0 => world.ndp(name, input),
                    1 => world.d3(name, "d3", input),
                    2 => world.d3(name, "rcpdc", input),
                    _ => world.pdq(name, input),
                };
                let number = Datagram::parse(&packet).expect("its envelope is sound");
                let codec = AnyCodec::numbered(number.envelope.transport, world.options.mtu);
                let switch_fields_at = codec.expect("a transport").switch_fields_at();
                if let Some(seal) = &mut world.seal {
                    seal.seal(&mut packet, switch_fields_at);
                }
                world.send(&packet);
                world.step();
                sent += 1;
            }
            let opened = world.engine.state.inbound.values().filter(|i| i.opening.is_some());
            openings += opened.count();
            for (reason, count) in &world.engine.traffic().dropped {
                *dropped.entry(*reason).or_insert(0) += count;
            }
        }
        println!("forge {forge}, keyed {is_keyed}: {openings} openings of {sent}: {dropped:?}");
        for check in ["magic", "version", "header_check", "payload_check", "header_tag", "replayed"]
        {
            assert!(!dropped.contains_key(check), "{forge} {is_keyed}: {dropped:?}");
        }
        assert!(openings > 0, "{forge} {is_keyed}: no message was opened: {dropped:?}");
    }
}

/// The folder with the kept inputs of a target, where it looks for them.
fn seeds_of(target: &str) -> String {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/src/endpoint/__fuzz__");
    format!("{here}/endpoint__fuzz__{target}/corpus")
}

/// The kept inputs of the engine say something to it.
#[test]
fn corpus__of_the_engine_is_understood() {
    let mut understood = 0;
    for entry in std::fs::read_dir(seeds_of("engine")).expect("the corpus") {
        let bytes = std::fs::read(entry.expect("a file").path()).expect("its bytes");
        understood += attack(&bytes).engine.traffic().received;
    }
    assert!(understood > 20, "nearly nothing was sound: {understood}");
}

/// `cargo test -p punctual-host --lib corpus__write -- --ignored`
#[test]
#[ignore = "writes files"]
fn corpus__write() {
    let put = |target: &str, name: &str, bytes: &[u8]| {
        let dir = seeds_of(target);
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(format!("{dir}/{name}.bin"), bytes).expect("a file");
    };
    let mut stream = punctual_core::rng::Stream::named(1, "engine corpus", 0);
    for number in 0..12u8 {
        let mut bytes: Vec<u8> = (0..600).map(|_| stream.bits() as u8).collect();
        // Young and old engines, with and without a key.
        bytes[0] = number;
        put("engine", &format!("random-{number:02}"), &bytes);
    }
    for kind in 0..8 {
        let bytes: Vec<u8> = [kind].into_iter().chain((0..25).map(|n| n * 9)).collect();
        put("control", &format!("kind-{kind}"), &bytes);
    }
    let prologue = Prologue {
        purpose: Purpose::Request,
        to_incarnation: Some(7),
        deadline_us: 5_000,
        id: 1 << 40,
        service: 9,
        confirms: Some(3),
    };
    for (folder, target) in [
        ("daemon", "daemon__protocol__tests__daemon_frames"),
        ("driver", "driver__path_messages__tests__path_messages"),
    ] {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let dir = format!("{here}/{folder}/__fuzz__/{target}/corpus");
        std::fs::create_dir_all(&dir).expect("a directory");
        for number in 0..6u8 {
            let mut bytes: Vec<u8> = (0..120).map(|_| stream.bits() as u8).collect();
            // The kind of the frame, or of the message.
            bytes[0] = number;
            bytes[1..8].fill(0);
            std::fs::write(format!("{dir}/kind-{number}.bin"), bytes).expect("a file");
        }
    }
    put("formats", "prologue", &prologue.to_bytes());
    put("formats", "head", &[&b"pnctual3"[..], &[0; 32]].concat());
    put("formats", "answer", &[&b"pnctlV3"[..], &[0; 65]].concat());
}
