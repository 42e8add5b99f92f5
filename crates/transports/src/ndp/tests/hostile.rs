//! Headers that are well formed and wrong: forged ACKs, NACKs, pulls, bounces and data, in any
//! order, with timers in between (NDP-R30).

use super::lone::*;
use super::*;
use proptest::prelude::*;
use punctual_core::{
    Call, End, ExtArena, FlowEvent, Header, HostId, Outbox, PacketFlags, Stack, TimerChange,
};

/// A number that is near what is expected, or far from it.
#[derive(Debug, Clone, Copy)]
enum Number {
    Near(i8),
    Any(u64),
}

impl Number {
    fn of(self, near: u64) -> u64 {
        match self {
            Number::Near(by) => near.saturating_add_signed(i64::from(by)),
            Number::Any(number) => number,
        }
    }
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        4 => any::<i8>().prop_map(Number::Near),
        1 => any::<u64>().prop_map(Number::Any),
        1 => (0u32..64).prop_map(|bit| Number::Any(1 << bit)),
    ]
}

/// One step of an attack.
#[derive(Debug, Clone, Copy)]
enum Op {
    /// A packet arrives.
    Packet {
        kind: u8,
        flags: u8,
        bits: u8,
        seq: Number,
        cumulative: Number,
        pull: Number,
        path: u16,
        /// Whether its timestamp is that of the packet it names, as far as is known.
        is_stamped: bool,
        payload: u16,
    },
    /// The NIC polls the sender, so often.
    Poll(u8),
    /// Time passes, in microseconds, and timers fire.
    Wait(u32),
}

fn op() -> impl Strategy<Value = Op> {
    let packet = (
        0u8..5,
        any::<u8>(),
        any::<u8>(),
        (number(), number(), number()),
        any::<u16>(),
        any::<bool>(),
        prop_oneof![Just(PAYLOAD as u16), any::<u16>()],
    );
    prop_oneof![
        6 => packet.prop_map(|(kind, flags, bits, (seq, cumulative, pull), path, is_stamped, payload)| {
            Op::Packet { kind, flags, bits, seq, cumulative, pull, path, is_stamped, payload }
        }),
        3 => any::<u8>().prop_map(Op::Poll),
        2 => prop_oneof![0u32..300, 0u32..2_000_000].prop_map(Op::Wait),
    ]
}

fn config() -> impl Strategy<Value = NdpConfig> {
    let path_window = prop_oneof![Just(None), (40u32..100).prop_map(Some)];
    (1u32..40, path_window, prop_oneof![Just(None), (0u64..100_000).prop_map(Some)]).prop_map(
        |(initial_window, path_window, memory)| NdpConfig {
            initial_window,
            path_window,
            receive_memory: memory.map(Bytes::new),
            ..NdpConfig::default()
        },
    )
}

/// An endpoint under attack.
struct Victim {
    stack: Stack<NdpConfig>,
    slot: u32,
    end: End,
    now: Instant,
    timer: Option<Instant>,
    host_timer: Option<Instant>,
    is_ready: bool,
    is_ended: bool,
    ext: ExtArena,
    out: Outbox,
    /// Packets that the endpoint sent, and those that events allowed beyond pulls.
    sent: u64,
    allowed: u64,
    delivered: u64,
}

impl Victim {
    fn new(config: NdpConfig, end: End, packets: u64) -> Victim {
        let mut victim = Victim {
            stack: Stack::new(config, &[nic(0), nic(1)]),
            slot: 0,
            end,
            now: Instant::ZERO,
            timer: None,
            host_timer: None,
            is_ready: false,
            is_ended: false,
            ext: ExtArena::default(),
            out: Outbox::default(),
            sent: 0,
            allowed: 0,
            delivered: 0,
        };
        let call = victim.call_parts();
        victim.slot = match end {
            End::Sender => call.0.open_sender(&spec_of(packets), &route(), call.1),
            End::Receiver => {
                call.0.open_receiver(&data_header(0, packets * PAYLOAD), &route(), call.1)
            }
        };
        victim.drain();
        victim
    }

    fn call_parts(&mut self) -> (&mut Stack<NdpConfig>, Call<'_>) {
        let call = Call { now: self.now, host: HostId(0), ext: &mut self.ext, out: &mut self.out };
        (&mut self.stack, call)
    }

    /// Takes what a call asked for, as drivers do.
    fn drain(&mut self) {
        match std::mem::take(&mut self.out.timer) {
            TimerChange::Keep => {}
            TimerChange::Set(at) | TimerChange::Depart(at) => self.timer = Some(at),
            TimerChange::Clear => self.timer = None,
        }
        if let TimerChange::Set(at) = std::mem::take(&mut self.out.host_timer) {
            self.host_timer = Some(at);
        }
        self.is_ready |= self.out.ready.take().is_some();
        self.out.ready_nics = 0;
        for packet in self.out.packets.drain(..) {
            assert!(packet.wire_bytes == HEADER_BYTES && packet.path < 4, "{packet:?}");
        }
        for event in std::mem::take(&mut self.out.events) {
            match event {
                FlowEvent::Finished | FlowEvent::Abandoned => self.is_ended = true,
                FlowEvent::TimedOut | FlowEvent::Bounced => self.allowed += 1,
                FlowEvent::Retransmitted(punctual_core::RetransmitCause::DuplicateAck) => {
                    self.allowed += 1;
                }
                FlowEvent::Delivered(range) => self.delivered += range.len,
                _ => {}
            }
        }
    }

    fn poll(&mut self, times: u8) {
        for _ in 0..times {
            if self.end != End::Sender || self.is_ended || !std::mem::take(&mut self.is_ready) {
                return;
            }
            let slot = self.slot;
            let (stack, call) = self.call_parts();
            let packet = stack.poll_transmit(slot, 0, call);
            self.drain();
            if let Some(packet) = packet {
                self.sent += 1;
                assert!(packet.wire_bytes <= 1500 && packet.payload_bytes > 0, "{packet:?}");
            }
        }
    }

    fn wait(&mut self, by: Duration) {
        let until = self.now + by;
        for _ in 0..1000 {
            let Some(at) = self.timer.into_iter().chain(self.host_timer).min() else { break };
            if at > until || self.is_ended {
                break;
            }
            self.now = self.now.max(at);
            let (slot, end) = (self.slot, self.end);
            if self.host_timer.is_some_and(|host| host <= self.now) {
                self.host_timer = None;
                let (stack, call) = self.call_parts();
                stack.host_timeout(call);
            } else {
                self.timer = None;
                let (stack, call) = self.call_parts();
                stack.handle_timeout(end, slot, call);
            }
            self.drain();
        }
        self.now = self.now.max(until);
    }

    fn hand(&mut self, packet: &Packet) {
        if self.is_ended {
            return;
        }
        let (slot, end) = (self.slot, self.end);
        let (stack, call) = self.call_parts();
        stack.handle_packet(end, slot, packet, call);
        self.drain();
    }
}

/// Attacks an endpoint. Returns it with the most packets that pulls allowed its sender.
fn attack(config: &NdpConfig, end: End, packets: u64, ops: &[Op]) -> (Victim, u64) {
    let mut victim = Victim::new(config.clone(), end, packets);
    let most = u64::from(config.in_flight_max());
    let mut pulled = u64::from(config.initial_window).min(packets);
    let mut stamp_of_last = 0;
    for op in ops {
        match *op {
            Op::Packet { kind, flags, bits, seq, cumulative, pull, path, is_stamped, payload } => {
                let near = victim.sent;
                let header = NdpHeader {
                    seq: seq.of(near),
                    cumulative: cumulative.of(if kind == kind::DATA {
                        packets * PAYLOAD
                    } else {
                        near
                    }),
                    sent_at: if is_stamped { stamp_of_last } else { u64::from(path) << 30 },
                    pull: pull.of(near) as u32,
                    path,
                    kind,
                    flags,
                };
                let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
                packet.flags = PacketFlags::from_bits(bits);
                packet.payload_bytes = payload;
                packet.wire_bytes = payload.saturating_add(HEADER_BYTES);
                victim.hand(&packet);
                // No pull, repeated or new, allows more than this.
                pulled += most.max(1);
            }
            Op::Poll(times) => {
                stamp_of_last = stamp(victim.now);
                victim.poll(times);
            }
            Op::Wait(micros) => victim.wait(Duration::from_micros(u64::from(micros))),
        }
    }
    (victim, pulled)
}

fn spec_of(packets: u64) -> punctual_core::FlowSpec {
    punctual_core::FlowSpec {
        id: FlowId(0),
        src: HostId(0),
        dst: HostId(1),
        size: Bytes::new(packets * PAYLOAD),
        start: Instant::ZERO,
        deadline: None,
        transport: punctual_core::TransportId(0),
        class: punctual_core::Class::DATA,
        background: false,
        pattern: 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(1000)))]

    #[test]
    fn ndp_r30_a_sender_under_attack_keeps_its_bounds(
        config in config(),
        packets in 1u64..500,
        ops in prop::collection::vec(op(), 0..80),
    ) {
        let (victim, pulled) = attack(&config, End::Sender, packets, &ops);
        prop_assert!(victim.sent <= pulled + victim.allowed);
        if !victim.is_ended {
            let in_flight = victim.stack.sender(victim.slot).map_or(0, NdpSender::in_flight) as u64;
            prop_assert!(in_flight <= u64::from(config.in_flight_max()).min(victim.sent));
        }
    }

    #[test]
    fn ndp_r30_a_receiver_under_attack_keeps_its_bounds(
        config in config(),
        packets in 1u64..500,
        ops in prop::collection::vec(op(), 0..80),
    ) {
        let (victim, _) = attack(&config, End::Receiver, packets, &ops);
        let arrivals = ops.iter().filter(|op| matches!(op, Op::Packet { .. })).count() as u64;
        prop_assert!(victim.delivered <= arrivals * u64::from(u16::MAX));
    }
}

#[test]
fn ndp_r30_a_forged_pull_brings_a_window_at_most() {
    let config = NdpConfig { path_window: Some(64), ..window(4) };
    let mut lone = lone_sender(config, 10_000);
    assert_eq!(poll_headers(&mut lone, 1000).len(), 4);
    // Further ahead than any window: forged.
    pull(&mut lone, 5_000);
    assert_eq!(poll_headers(&mut lone, 1000).len(), 0);
    // A window ahead, again and again: no more than a window is ever in flight.
    for number in 1..100 {
        pull(&mut lone, number * 64);
        assert!(poll_headers(&mut lone, 1000).len() <= 60);
    }
    assert_eq!(lone.stack.sender(lone.slot).map(NdpSender::in_flight), Some(64));
}

#[test]
fn ndp_r30_a_sender_misled_by_a_forged_pull_is_restarted() {
    let config = NdpConfig { path_window: Some(64), ..window(4) };
    let mut lone = lone_sender(config, 4);
    assert_eq!(poll_headers(&mut lone, 10).len(), 4);
    pull(&mut lone, 60);
    for seq in 0..4 {
        let header = NdpHeader {
            seq,
            cumulative: 0,
            sent_at: 0,
            pull: seq as u32 + 1,
            path: 0,
            kind: kind::NACK,
            flags: flags::PULL,
        };
        lone.hand(&header.control(FlowId(0), HostId(0)));
    }
    // Its pulls are behind the forged one. The receiver repeats the last.
    pull(&mut lone, 4);
    assert_eq!(poll_headers(&mut lone, 10).len(), 1);
    pull(&mut lone, 5);
    assert_eq!(poll_headers(&mut lone, 10).len(), 1);
}
