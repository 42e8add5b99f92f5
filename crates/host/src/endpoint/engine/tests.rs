//! Engines in one thread: clocks that jump as after a pause of their process, and a peer that sends what
//! it likes.

use super::super::operations::Operations as _;
use super::super::services::Service;
use super::*;
use crate::{Key, bind};
use punctual_core::{FlowId, Header, HostId, Packet, PacketFlags};
use punctual_transports::d3::{D3Header, RateBlock};
use punctual_transports::ndp::{NdpHeader, flags, kind};
use punctual_wire::{D3Codec, FlowOpening, NDP_WIRE_BYTES, NdpCodec, WireName, emit, emit_opening};
use std::net::IpAddr;

struct Pair {
    sender: Engine,
    receiver: Engine,
    /// The address of the receiver.
    to: SocketAddr,
    id: u64,
}

const BYTES: usize = 1_000_000;
/// Longer than the silence after which a peer is given up, by default.
const LONG: std::time::Duration = std::time::Duration::from_secs(6);

impl Pair {
    /// A message of which some bytes have arrived, just after its flow was opened.
    fn in_mid_message() -> Pair {
        let mut pair = Pair::new();
        let bytes = vec![7; BYTES];
        let id = pair.sender.submit(pair.to, bytes, Reply::None, &SendOptions::default());
        pair.id = id.expect("a send");
        pair.run_until(|pair| pair.arrived() > 0);
        assert!(pair.arrived() < BYTES);
        pair
    }

    fn new() -> Pair {
        let any = IpAddr::from([127, 0, 0, 1]);
        let options = EndpointOptions::default();
        assert!(LONG > options.silence);
        Pair::between([any, any], &options).expect("engines")
    }

    /// A sender and a receiver at these addresses.
    fn between(at: [IpAddr; 2], options: &EndpointOptions) -> Result<Pair, HostError> {
        let engine = |at: IpAddr| -> Result<_, HostError> {
            let socket = bind(SocketAddr::new(at, 0)).expect("a socket");
            let local = socket.local_addr().expect("an address");
            Ok((Engine::new(socket, local, options.clone())?, local))
        };
        let ((sender, from), (mut receiver, mut to)) = (engine(at[0])?, engine(at[1])?);
        receiver.listen(Service::default());
        if to.ip().is_unspecified() {
            to.set_ip(at[0]);
        }
        if let (IpAddr::V6(_), IpAddr::V4(v4)) = (from.ip(), to.ip()) {
            to.set_ip(v4.to_ipv6_mapped().into());
        }
        Ok(Pair { sender, receiver, to, id: 0 })
    }

    /// Sends a message over a transport, and waits for its end.
    fn send(&mut self, transport: HostTransport, service: Service, bytes: usize) -> Outcome {
        let options = SendOptions { transport, service, ..SendOptions::default() };
        let id = self.sender.submit(self.to, vec![1; bytes], Reply::None, &options);
        let id = id.expect("a send");
        let mut outcome = None;
        self.run_until(|pair| {
            outcome = pair.sender.take_outcome(id);
            outcome.is_some()
        });
        outcome.expect("an outcome").0
    }

    fn arrived(&self) -> usize {
        self.receiver.state.inbound.values().map(|inbound| inbound.readable()).sum()
    }

    fn run_until(&mut self, mut is_done: impl FnMut(&mut Pair) -> bool) {
        let begin = std::time::Instant::now();
        while !is_done(self) {
            assert!(begin.elapsed() < std::time::Duration::from_secs(20), "not after 20 s");
            self.sender.step();
            self.receiver.step();
        }
    }

    /// Runs until the send has ended, and checks that the message arrived.
    fn finish(mut self) {
        let mut outcome = None;
        self.run_until(|pair| {
            outcome = pair.sender.take_outcome(pair.id);
            outcome.is_some()
        });
        assert!(matches!(outcome, Some((Outcome::Done(_), None))), "{outcome:?}");
        assert_eq!(self.arrived(), BYTES);
    }
}

/// Runs one end alone, until it waits for the other.
fn rest(engine: &mut Engine) {
    for _ in 0..50 {
        engine.step();
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
}

/// Neither end takes a pause of both for silence of the other, however shortly the flow was opened
/// before it.
#[test]
fn pause__of_both_ends_is_no_silence() {
    let mut pair = Pair::in_mid_message();
    rest(&mut pair.receiver);
    pair.sender.driver.skip(LONG);
    pair.receiver.driver.skip(LONG);
    // The receiver goes on first: nothing that waits in its socket is new.
    for _ in 0..100 {
        pair.receiver.step();
    }
    pair.finish();
}

/// A short pause after a long one, before the peer is heard again, does not make that forgotten.
#[test]
fn pause__a_second_one_adds_to_the_first() {
    let mut pair = Pair::in_mid_message();
    rest(&mut pair.sender);
    for time in [LONG, LONG / 20] {
        pair.sender.driver.skip(time);
        pair.receiver.driver.skip(time);
        pair.sender.step();
        // Rounds that look for silent peers are this far from each other.
        std::thread::sleep(std::time::Duration::from_millis(60));
        pair.sender.step();
    }
    pair.finish();
}

/// A peer that is silent while this process runs is given up as ever.
#[test]
fn silence__is_noticed_when_the_process_runs() {
    let mut pair = Pair::in_mid_message();
    let mut outcome = None;
    // Steps of the clock that are too short for a pause.
    for _ in 0..70 {
        pair.sender.driver.skip(std::time::Duration::from_millis(90));
        pair.sender.step();
        outcome = outcome.or_else(|| pair.sender.take_outcome(pair.id));
    }
    let is_silent = |o: &Outcome| matches!(o, Outcome::Failed(SendError::PeerSilent { .. }, _));
    assert!(outcome.as_ref().is_some_and(|(o, _)| is_silent(o)), "{outcome:?}");
}

/// A peer that sends what it likes, and the engine that it sends to.
struct Attacked {
    engine: Engine,
    socket: UdpSocket,
    to: SocketAddr,
}

/// Data in the packets of the peer.
const SEGMENT: u64 = 1_400;
/// More packets of this size than a buffer of 64 KiB has room for.
const FAR: u64 = 100;

impl Attacked {
    /// An engine with little memory that runs for so long that a new peer may open flows at once.
    fn new() -> Attacked {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = bind(any).expect("a socket");
        let to = socket.local_addr().expect("an address");
        let options = EndpointOptions {
            stream_buffer: 1 << 16,
            peer_memory: 1 << 18,
            receive_memory: 1 << 18,
            ..EndpointOptions::default()
        };
        let window = options.window;
        let mut engine = Engine::new(socket, to, options).expect("an engine");
        engine.listen(Service::default());
        engine.driver.skip(window);
        engine.step();
        Attacked { engine, socket: UdpSocket::bind(any).expect("a socket"), to }
    }

    /// Sends packet `seq` of a flow that it may open, and lets the engine handle it.
    fn send(&mut self, flow: u32, seq: u64, payload: u8) {
        let header = NdpHeader {
            seq,
            cumulative: 10_000_000,
            // A packet that is sent again has another time.
            sent_at: u64::from(payload) << 20,
            pull: 0,
            path: 0,
            kind: kind::DATA,
            flags: flags::SYN,
        };
        let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
        packet.flags = PacketFlags::TRIMMABLE;
        packet.payload_bytes = SEGMENT as u16;
        packet.wire_bytes = NDP_WIRE_BYTES as u16 + packet.payload_bytes;
        let prologue = Prologue {
            purpose: Purpose::Message,
            to_incarnation: Some(self.engine.state.incarnation),
            deadline_us: 0,
            id: 0,
            service: 0,
            confirms: None,
        };
        let name = WireName { flow, incarnation: 1 };
        let mut bytes = Vec::new();
        let filled = emit(&NdpCodec, name, &packet, None, &mut bytes, |into| {
            into.fill(payload);
            if seq == 0 {
                into[..Prologue::BYTES].copy_from_slice(&prologue.to_bytes());
            }
            Ok::<(), ()>(())
        });
        filled.expect("nothing fails");
        self.send_bytes(&bytes);
    }

    /// Sends a datagram, and lets the engine handle it.
    fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.send_to(bytes, self.to).expect("sends");
        let before = self.handled();
        for _ in 0..1_000 {
            self.engine.step();
            if self.handled() > before {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("the packet did not arrive");
    }

    fn handled(&self) -> u64 {
        self.engine.traffic().received + self.engine.traffic().dropped.values().sum::<u64>()
    }

    fn dropped(&self, reason: &str) -> u64 {
        self.engine.traffic().dropped.get(reason).copied().unwrap_or(0)
    }

    /// Lets time pass in steps that are too short for a pause of the process.
    fn pass(&mut self, time: std::time::Duration, mut each: impl FnMut(&mut Attacked, u64)) {
        let step = std::time::Duration::from_millis(90);
        for number in 0..(time.as_millis() / step.as_millis()) as u64 {
            self.engine.driver.skip(step);
            each(self, number);
            self.engine.step();
        }
    }

    /// Memory of the messages that are being received, with the packets that wait for room.
    fn memory(&self) -> usize {
        self.engine.state.receive_memory
    }
}

/// Data beyond the buffer waits for room. A peer that never sends what comes before it must not hold
/// that memory, however often it sends other data.
#[test]
fn parked__data_without_what_comes_before_it_expires() {
    for has_opening in [false, true] {
        let mut attacked = Attacked::new();
        if has_opening {
            attacked.send(1, 0, 1);
            let message = attacked.engine.state.services.pop(Service::default());
            let read = attacked.engine.read(message.expect("a message"), &mut [0; 2_000]);
            assert_eq!(read, Some(Ok(SEGMENT as usize - Prologue::BYTES)));
        }
        attacked.send(1, FAR, 1);
        assert_eq!((attacked.dropped("parked"), attacked.engine.driver.open_flows()), (1, 1));
        attacked.pass(LONG, |attacked, number| attacked.send(1, FAR + 1 + number % 8, 1));
        attacked.engine.step();
        assert_eq!(attacked.engine.driver.open_flows(), 0, "after 6 s; the silence is 5 s");
        // A message with an opening keeps its buffer until the application closes it.
        let kept: usize = attacked.engine.state.inbound.values().map(|i| i.memory()).sum();
        assert_eq!(attacked.memory(), if has_opening { kept } else { 0 });
    }
}

/// A reader that takes its time keeps the data that waits for room.
#[test]
fn parked__data_behind_unread_data_stays() {
    let mut attacked = Attacked::new();
    for seq in 0..FAR {
        attacked.send(1, seq, seq as u8);
    }
    assert!(attacked.dropped("parked") > 0, "the message is longer than the buffer");
    attacked.pass(LONG * 2, |_, _| ());
    let message = attacked.engine.state.services.pop(Service::default()).expect("a message");
    let mut read = Vec::new();
    let mut part = [0; 10_000];
    while let Some(result) = attacked.engine.read(message, &mut part) {
        read.extend_from_slice(&part[..result.expect("bytes")]);
    }
    let sent = (0..FAR).flat_map(|seq| [seq as u8; SEGMENT as usize]).skip(Prologue::BYTES);
    assert!(read == sent.collect::<Vec<u8>>(), "{} bytes", read.len());
    assert_eq!(attacked.memory(), 1 << 16, "only the buffer is counted now");
}

/// Data that is sent again while it waits for room takes no memory again.
#[test]
fn parked__copies_take_no_memory() {
    let mut attacked = Attacked::new();
    attacked.send(1, FAR, 1);
    let before = attacked.memory();
    for copy in 2..40 {
        attacked.send(1, FAR, copy);
    }
    assert_eq!((attacked.dropped("parked"), attacked.dropped("no_room")), (1, 38));
    assert_eq!(attacked.memory(), before);
}

/// Packets that wait for room take memory as buffers do.
#[test]
fn parked__packets_count_as_memory() {
    let mut attacked = Attacked::new();
    let most = attacked.engine.state.options.receive_memory;
    attacked.send(1, FAR, 1);
    let (before, parked) = (attacked.memory(), attacked.dropped("parked"));
    attacked.send(1, FAR + 1, 1);
    assert!(attacked.dropped("parked") > parked);
    assert!(attacked.memory() >= before + SEGMENT as usize, "{} bytes", attacked.memory());
    for seq in 0..100 {
        attacked.send(1, FAR + 2 + seq, 1);
        attacked.send(2, FAR + 2 + seq, 1);
    }
    assert!(attacked.memory() <= most);
    let refused = attacked.dropped("no_memory");
    // The buffers of two messages of 256 KiB, and a third one that has to find room, leave less than
    // the 100 packets of each take.
    assert!(refused >= 200 - (most - 3 * (1 << 16)) as u64 / SEGMENT, "{refused} were refused");
    attacked.pass(LONG, |_, _| ());
    assert_eq!(attacked.memory(), 0, "expired");
}

/// Packets of D3 have header extensions. Each is freed with its packet, also when the application
/// refuses the message while its data is acknowledged.
#[test]
fn extensions__are_freed_with_their_packets() {
    const MESSAGES: u32 = 50;
    let mut attacked = Attacked::new();
    let block = RateBlock { scale: 1, ..RateBlock::default() }.to_block();
    let opening = FlowOpening { flow_bytes: 2 * SEGMENT, segment_bytes: None };
    for flow in 0..MESSAGES {
        let name = WireName { flow, incarnation: 1 };
        let mut bytes = Vec::new();
        let header = D3Header { flags: D3Header::SYN, ..D3Header::default() };
        let first = Packet::new(FlowId(0), HostId(0), Header::new(header));
        emit_opening(&D3Codec::default(), name, &first, None, &opening, &mut bytes);
        attacked.send_bytes(&bytes);
        let header = D3Header { flags: D3Header::REQUEST, ..D3Header::default() };
        let mut data = Packet::new(FlowId(0), HostId(0), Header::new(header));
        data.payload_bytes = SEGMENT as u16;
        // The message begins with zeros, which are no prologue.
        let fill = |into: &mut [u8]| {
            into.fill(0);
            Ok::<(), ()>(())
        };
        let filled = emit(&D3Codec::default(), name, &data, Some(&block), &mut bytes, fill);
        filled.expect("nothing fails");
        attacked.send_bytes(&bytes);
    }
    assert_eq!(attacked.engine.traffic().received, 2 * u64::from(MESSAGES));
    assert!(attacked.engine.state.inbound.is_empty(), "all were refused");
    attacked.pass(std::time::Duration::from_millis(500), |_, _| ());
    assert!(attacked.engine.driver.is_idle());
    assert_eq!(attacked.engine.driver.extensions(), 0);
}

/// Where this machine has no IPv6, tests of it are skipped.
fn has_ipv6() -> bool {
    let has = UdpSocket::bind((std::net::Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !has {
        println!("SKIPPED: this machine has no IPv6");
    }
    has
}

/// The smallest MTU may be too small for the headers and tags of a transport. Then no endpoint is
/// bound, and with the MTU that the error names messages arrive over every transport.
#[test]
fn mtu__that_leaves_too_little_is_refused() {
    if !has_ipv6() {
        return;
    }
    let key = Key::new(&[7; 16]).ok();
    // 128 bytes of data, the headers of D3 (88) or PDQ (80) with IPv4, tags (32), longer addresses
    // (20). PDQ always leaves room for these.
    let cases = [
        ([127, 0, 0, 1].into(), None, 256),
        (std::net::Ipv6Addr::LOCALHOST.into(), None, 256),
        ([127, 0, 0, 1].into(), key.clone(), 128 + 80 + 32 + 20),
        (std::net::Ipv6Addr::LOCALHOST.into(), key, 128 + 88 + 32 + 20),
    ];
    for (at, key, least) in cases {
        let with = |mtu| {
            let mtu = Bytes::new(mtu);
            let options = EndpointOptions { mtu, key: key.clone(), ..EndpointOptions::default() };
            Pair::between([at, at], &options)
        };
        if least > 256 {
            for mtu in [256, least - 1] {
                let error = with(mtu).err().expect("too small");
                assert!(matches!(error, HostError::SmallMtu { .. }), "{error}");
            }
            let named = with(256).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(named.contains(&format!("choose {least}B or more")), "{named}");
        }
        let mut pair = with(least).expect("engines");
        for transport in HostTransport::ALL {
            let outcome = pair.send(transport, Service::default(), 3_000);
            assert!(outcome.is_delivered(), "{at} {least} {transport}: {outcome:?}");
        }
        assert!(!pair.receiver.traffic().dropped.contains_key("segment_small"));
    }
}

/// An endpoint at an IPv6 address for both families and one at an IPv4 address agree on the segments
/// of every transport, although their packets have headers of different sizes.
#[test]
fn families__of_both_ends_may_differ() {
    if !has_ipv6() {
        return;
    }
    let v4 = IpAddr::from([127, 0, 0, 1]);
    let both = IpAddr::from(std::net::Ipv6Addr::UNSPECIFIED);
    for at in [[v4, both], [both, v4]] {
        let mut pair = Pair::between(at, &EndpointOptions::default()).expect("engines");
        for transport in HostTransport::ALL {
            let outcome = pair.send(transport, Service::default(), 10_000);
            assert!(outcome.is_delivered(), "{at:?} {transport}: {outcome:?}");
        }
    }
}

/// The driver's time stays behind the clock while timers are due that have not been called. The time
/// of messages does not follow it back.
#[test]
fn time__of_messages_does_not_go_back() {
    let mut pair = Pair::new();
    let options = SendOptions { transport: HostTransport::D3, ..SendOptions::default() };
    let id = pair.sender.submit(pair.to, vec![1; BYTES], Reply::None, &options);
    pair.id = id.expect("a send");
    let mut last = Instant::ZERO;
    for round in 0..2_000 {
        // A process that is late for its timers, and asks for the time before they are called.
        pair.sender.driver.skip(std::time::Duration::from_micros(round % 50));
        match round % 3 {
            0 => drop(pair.sender.push()),
            _ => drop(pair.sender.step()),
        }
        assert!(pair.sender.state.now >= last, "in round {round}");
        last = pair.sender.state.now;
        let now = pair.sender.now();
        assert!(now >= last && pair.sender.state.now >= last, "in round {round}: asked for");
        last = now;
        pair.receiver.step();
    }
}
