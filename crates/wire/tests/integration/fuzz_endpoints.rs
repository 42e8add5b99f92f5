//! Fuzz targets, one for each transport with a codec: a sender and a receiver, driven by operations
//! that the input chooses. Packets between them are lost, duplicated, reordered, trimmed and forged;
//! each passes the wire as bytes. No input panics, and no endpoint exceeds its bounds.
//!
//! `tests/corpus/endpoint` has inputs that are replayed by `cargo test`.

use crate::fuzz::{Input, corpus};
use crate::samples::MTU;
use punctual_core::{
    Bytes, Call, Class, Duration, End, ExtArena, FlowEvent, FlowId, FlowRoute, FlowSpec, HostId,
    Instant, NicInfo, Outbox, Packet, PacketFlags, Rate, Stack, TimerChange, Transport,
    TransportId,
};
use punctual_transports::d3::D3Config;
use punctual_transports::ndp::NdpConfig;
use punctual_transports::pdq::PdqConfig;
use punctual_wire::{
    AnyCodec, Datagram, ENVELOPE_BYTES, Envelope, Kind, RecentNumbers, WireName, set_flags,
};
use std::collections::VecDeque;

/// Operations of an input: enough for a flow to end.
const OPS_MAX: usize = 400;
/// Packets kept on the way to each end.
const ON_THE_WAY_MAX: usize = 64;
const FLOW: FlowId = FlowId(0);

/// What one call may send: more is an amplification.
const SENT_PER_CALL_MAX: usize = 3;

struct Side {
    slot: Option<u32>,
    timer: Option<Instant>,
    host_timer: Option<Instant>,
    near: RecentNumbers,
    /// Datagrams on the way to this side.
    inbox: VecDeque<Vec<u8>>,
    is_ended: bool,
}

struct World<T: Transport> {
    stack: Stack<T>,
    codec: AnyCodec,
    /// The sender's side and the receiver's.
    sides: [Side; 2],
    now: Instant,
    ext: ExtArena,
    out: Outbox,
    is_ready: bool,
}

fn nic(host: u32) -> NicInfo {
    let rate = Rate::from_gbps(10);
    NicInfo { host: HostId(host), rate, mtu: MTU, framing: Bytes::ZERO, nics: 1 }
}

fn route(local: usize) -> FlowRoute {
    let peer = HostId::from(1 - local);
    FlowRoute { local: HostId::from(local), peer, paths: 4, ecmp_path: 0, nics: 1, seed: 1 }
}

fn end_of(side: usize) -> End {
    if side == 0 { End::Sender } else { End::Receiver }
}

impl<T: Transport> World<T> {
    fn new(config: T, codec: AnyCodec, spec: &FlowSpec) -> Self {
        let side = || Side {
            slot: None,
            timer: None,
            host_timer: None,
            near: RecentNumbers::default(),
            inbox: VecDeque::new(),
            is_ended: false,
        };
        let mut world = World {
            stack: Stack::new(config, &[nic(0), nic(1)]),
            codec,
            sides: [side(), side()],
            now: Instant::ZERO,
            ext: ExtArena::default(),
            out: Outbox::default(),
            is_ready: false,
        };
        let call =
            Call { now: world.now, host: HostId(0), ext: &mut world.ext, out: &mut world.out };
        world.sides[0].slot = Some(world.stack.open_sender(spec, &route(0), call));
        world.drain(0);
        world
    }

    /// Takes what a call asked for, as drivers do. Packets become datagrams on the way.
    fn drain(&mut self, side: usize) {
        let own = &mut self.sides[side];
        match std::mem::take(&mut self.out.timer) {
            TimerChange::Keep => {}
            TimerChange::Set(at) | TimerChange::Depart(at) => own.timer = Some(at),
            TimerChange::Clear => own.timer = None,
        }
        match std::mem::take(&mut self.out.host_timer) {
            TimerChange::Keep => {}
            TimerChange::Set(at) | TimerChange::Depart(at) => own.host_timer = Some(at),
            TimerChange::Clear => own.host_timer = None,
        }
        self.is_ready |= self.out.ready.take().is_some();
        self.out.ready_nics = 0;
        for event in std::mem::take(&mut self.out.events) {
            if matches!(event, FlowEvent::Finished | FlowEvent::Abandoned) {
                own.is_ended = true;
            }
        }
        let packets = std::mem::take(&mut self.out.packets);
        assert!(packets.len() <= SENT_PER_CALL_MAX, "{} packets from one call", packets.len());
        for packet in packets {
            self.depart(side, packet);
        }
    }

    fn depart(&mut self, side: usize, packet: Packet) {
        assert!(u64::from(packet.wire_bytes) <= MTU.get() && packet.path < 4, "{packet:?}");
        let block = packet.ext.map(|ext| *self.ext.get(ext));
        if let Some(ext) = packet.ext {
            self.ext.free(ext);
        }
        let mut datagram = Vec::new();
        let name = WireName { flow: 1, incarnation: 1 };
        self.codec.emit_zeros(name, &packet, block.as_ref(), &mut datagram);
        self.codec.observe(&packet, &mut self.sides[side].near);
        let inbox = &mut self.sides[1 - side].inbox;
        inbox.push_back(datagram);
        if inbox.len() > ON_THE_WAY_MAX {
            inbox.pop_front();
        }
    }

    /// A datagram arrives at a side, as a driver handles it.
    fn arrive(&mut self, side: usize, bytes: &[u8]) {
        let near = RecentNumbers { now: self.now, ..self.sides[side].near };
        let Ok(datagram) = Datagram::parse(bytes) else { return };
        let parsed = self.codec.parse(&datagram, &near, FLOW, HostId::from(side));
        let Ok((mut packet, block)) = parsed else { return };
        if packet.is_to_sender() != (side == 0) || self.sides[side].is_ended {
            return;
        }
        // NDP checks the path of a header. D3 and PDQ echo any path, so their driver must check it.
        if !matches!(self.codec, AnyCodec::Ndp(_)) && datagram.envelope.path >= 4 {
            return;
        }
        self.codec.observe(&packet, &mut self.sides[side].near);
        packet.path %= 4;
        let host = HostId::from(side);
        packet.ext = block.map(|block| self.ext.alloc(block));
        let call = Call { now: self.now, host, ext: &mut self.ext, out: &mut self.out };
        let slot = match self.sides[side].slot {
            Some(slot) => slot,
            None if self.codec.data(&packet).is_none() && !datagram.envelope.is_syn => {
                return self.free(&packet);
            }
            None => {
                let slot = self.stack.open_receiver(&packet, &route(side), call);
                self.sides[side].slot = Some(slot);
                self.drain(side);
                slot
            }
        };
        let call = Call { now: self.now, host, ext: &mut self.ext, out: &mut self.out };
        self.stack.handle_packet(end_of(side), slot, &packet, call);
        self.free(&packet);
        self.drain(side);
    }

    fn free(&mut self, packet: &Packet) {
        if let Some(ext) = packet.ext {
            self.ext.free(ext);
        }
    }

    fn poll(&mut self, times: u8) {
        for _ in 0..times {
            let Some(slot) = self.sides[0].slot else { return };
            if self.sides[0].is_ended || !std::mem::take(&mut self.is_ready) {
                return;
            }
            let call =
                Call { now: self.now, host: HostId(0), ext: &mut self.ext, out: &mut self.out };
            let packet = self.stack.poll_transmit(slot, 0, call);
            self.drain(0);
            if let Some(packet) = packet {
                self.depart(0, packet);
            }
        }
    }

    /// Time passes, and the timers of both sides fire that are due.
    fn wait(&mut self, by: Duration) {
        self.now += by;
        for side in 0..2 {
            let host = HostId::from(side);
            if self.sides[side].host_timer.is_some_and(|at| at <= self.now) {
                self.sides[side].host_timer = None;
                let call = Call { now: self.now, host, ext: &mut self.ext, out: &mut self.out };
                self.stack.host_timeout(call);
                self.drain(side);
            }
            let is_due = self.sides[side].timer.is_some_and(|at| at <= self.now);
            if let Some(slot) = self.sides[side].slot
                && is_due
                && !self.sides[side].is_ended
            {
                self.sides[side].timer = None;
                let call = Call { now: self.now, host, ext: &mut self.ext, out: &mut self.out };
                self.stack.handle_timeout(end_of(side), slot, call);
                self.drain(side);
            }
        }
    }
}

/// Changes a datagram as the input says, and corrects its checks: a forgery.
fn forge(bytes: &mut Vec<u8>, input: &mut Input<'_>) {
    let Ok(datagram) = Datagram::parse(bytes) else { return };
    let (mut envelope, mut fields) = (datagram.envelope, datagram.fields.to_vec());
    for _ in 0..1 + input.byte() % 4 {
        match input.byte() % 6 {
            0 => envelope.kind = Kind::new(input.byte() % 5),
            1 => envelope.flags = PacketFlags::from_bits(input.byte()),
            2 => envelope.is_syn ^= true,
            _ => {
                let at = input.below(fields.len());
                fields[at] = input.byte();
            }
        }
    }
    envelope.path = u16::from(input.byte());
    let is_trimmed = envelope.flags.has(PacketFlags::TRIMMED);
    seal(envelope, &fields, is_trimmed, bytes);
}

fn seal(envelope: Envelope, fields: &[u8], is_trimmed: bool, bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.resize(ENVELOPE_BYTES, 0);
    bytes.extend_from_slice(fields);
    if !is_trimmed {
        bytes.resize(bytes.len() + usize::from(envelope.payload_bytes), 0);
    }
    envelope.seal(bytes, fields.len());
}

/// Runs the program in `bytes`. Returns whether the sender ended.
fn attack<T: Transport>(config: T, transport: &str, bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let size = 1 + input.number() % 200_000;
    let deadline = (input.byte() & 1 == 1).then(|| Instant::ZERO + Duration::from_millis(2));
    let spec = FlowSpec {
        id: FLOW,
        src: HostId(0),
        dst: HostId(1),
        size: Bytes::new(size),
        start: Instant::ZERO,
        deadline,
        transport: TransportId(0),
        class: Class::DATA,
        background: false,
        pattern: 0,
    };
    let codec = AnyCodec::of(transport, MTU).expect("a codec");
    let mut world = World::new(config, codec, &spec);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for _ in 0..OPS_MAX {
        if input.0.is_empty() {
            break;
        }
        let op = input.byte();
        let side = usize::from(op >> 7);
        match op % 8 {
            0 | 1 => world.poll(input.byte() % 40),
            2 => world.wait(Duration::from_micros(u64::from(input.byte()))),
            3 => world.wait(Duration::from_micros(input.number() % 5_000_000)),
            // The next datagrams arrive, perhaps twice or trimmed.
            4 | 5 => {
                let how = input.byte();
                for _ in 0..1 + how % 16 {
                    let Some(mut bytes) = world.sides[side].inbox.pop_front() else { break };
                    if how & 32 != 0
                        && let Ok(found) = Datagram::parse(&bytes)
                    {
                        let flags = found.envelope.flags.with(PacketFlags::TRIMMED);
                        let kept = set_flags(&mut bytes, flags).expect("it was parsed");
                        bytes.truncate(kept);
                    }
                    world.arrive(side, &bytes);
                    if how & 64 != 0 {
                        world.arrive(side, &bytes);
                    }
                    if seen.len() < 32 {
                        seen.push(bytes);
                    }
                }
            }
            // A datagram is lost.
            6 => drop(world.sides[side].inbox.pop_front()),
            // A datagram that was seen before arrives forged.
            _ => {
                if let Some(mut bytes) =
                    (!seen.is_empty()).then(|| seen[input.below(seen.len())].clone())
                {
                    forge(&mut bytes, &mut input);
                    world.arrive(side, &bytes);
                }
            }
        }
    }
    world.sides[0].is_ended
}

fn ndp(bytes: &[u8]) -> bool {
    let config = match bytes.first() {
        Some(byte) if byte & 1 == 1 => NdpConfig::for_sockets(),
        _ => NdpConfig::default(),
    };
    attack(config, "ndp", bytes)
}

fn d3(bytes: &[u8]) -> bool {
    attack(D3Config::default(), "d3", bytes)
}

fn pdq(bytes: &[u8]) -> bool {
    attack(PdqConfig::default(), "pdq", bytes)
}

#[test]
fn fuzz_endpoint_ndp() {
    bolero::check!().with_max_len(4096).for_each(|bytes| {
        ndp(bytes);
    });
}

#[test]
fn fuzz_endpoint_d3() {
    bolero::check!().with_max_len(4096).for_each(|bytes| {
        d3(bytes);
    });
}

#[test]
fn fuzz_endpoint_pdq() {
    bolero::check!().with_max_len(4096).for_each(|bytes| {
        pdq(bytes);
    });
}

/// Replays the kept inputs: those named `ends` let the flow of every transport end.
#[test]
fn corpus__does_no_harm() {
    let inputs = corpus("endpoint");
    assert!(inputs.len() >= 8, "{}", inputs.len());
    let mut ended = 0;
    for bytes in &inputs {
        ended += u32::from(ndp(bytes)) + u32::from(d3(bytes)) + u32::from(pdq(bytes));
    }
    assert!(ended >= 3, "an honest exchange ends the flow: {ended}");
}

/// Rewrites the corpus: `cargo test -p punctual-wire --test integration corpus__write -- --ignored`.
#[test]
#[ignore = "writes files"]
fn corpus__write() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/endpoint");
    std::fs::create_dir_all(dir).unwrap();
    let put =
        |name: &str, bytes: &[u8]| std::fs::write(format!("{dir}/{name}.bin"), bytes).unwrap();
    // Polls, arrivals at both sides and time: an honest exchange. Then with each kind of fault.
    let round = |how: u8| [0, 20, 0x84, how, 0x04, how, 2, 20];
    for (name, how) in [("honest", 15), ("trimmed", 15 + 32), ("twice", 15 + 64)] {
        let mut bytes = vec![0, 0, 0, 0, 0, 0, 0x40, 0, 0];
        (0..60).for_each(|_| bytes.extend(round(how)));
        put(&format!("{name}-0"), &bytes);
        bytes[0] = 1;
        put(&format!("{name}-1"), &bytes);
    }
    let mut stream = punctual_core::rng::Stream::named(1, "endpoint corpus", 0);
    for number in 0..8 {
        let bytes: Vec<u8> = (0..512).map(|_| stream.bits() as u8).collect();
        put(&format!("random-{number}"), &bytes);
    }
}
