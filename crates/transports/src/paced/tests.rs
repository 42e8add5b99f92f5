//! Properties of every paced transport, called by the tests of each.

use proptest::prelude::*;
use punctual_core::End;
use punctual_core::{
    Bytes, Call, Class, Controller, Duration, ExtArena, ExtBlock, FlowEvent, FlowId, FlowRoute,
    FlowSpec, Header, HostId, Instant, NicInfo, Outbox, Packet, PacketFlags, PortId, PortView,
    Rate, Stack, Transport, TransportId,
};
use punctual_testkit::{Direction, Fault, FaultOdds, Pair, Traced};

pub(crate) fn seconds(s: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(s)
}

pub(crate) fn at_us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(us)
}

pub(crate) fn start<T: Transport>(pair: &mut Pair<T>, size: u64) -> FlowId {
    pair.start(pair.spec(Bytes::new(size)))
}

/// Packets that host 0 sent.
pub(crate) fn forward<T: Transport>(pair: &Pair<T>) -> Vec<Traced> {
    pair.trace().iter().filter(|t| t.direction == Direction::Forward).copied().collect()
}

/// Packets that host 1 sent.
pub(crate) fn backward<T: Transport>(pair: &Pair<T>) -> Vec<Traced> {
    pair.trace().iter().filter(|t| t.direction == Direction::Backward).copied().collect()
}

/// Drops, duplicates or delays each packet of a flow in turn: the flow must finish by `latest`.
pub(crate) fn assert_survives_any_single_fault<T: Transport>(
    open: impl Fn() -> Pair<T>,
    segment_bytes: u64,
    latest: Instant,
) {
    let faults = [Fault::Drop, Fault::Duplicate, Fault::Delay(Duration::from_millis(3))];
    for segments in [1, 12, 60] {
        for fault in faults {
            for back in [false, true] {
                let mut hit = 0;
                loop {
                    let mut pair = open();
                    let flow = start(&mut pair, segments * segment_bytes - 5);
                    pair.set_faults(move |packet, index| {
                        let is_hit = packet.is_to_sender() == back && index == hit;
                        if is_hit { fault } else { Fault::Deliver }
                    });
                    assert!(pair.run_until_done(seconds(1)), "{fault:?} of {hit}, back: {back}");
                    assert!(pair.result(flow).finished_at.is_some());
                    assert!(pair.now() < latest, "{} {fault:?} of {hit}", pair.now());
                    let sent = if back { backward(&pair) } else { forward(&pair) };
                    if sent.len() as u64 <= hit {
                        break;
                    }
                    hit += 1;
                }
                assert!(hit > segments);
            }
        }
    }
}

/// Random losses, duplicates and delays, with a seed.
pub(crate) fn faults() -> impl Strategy<Value = (FaultOdds, u64)> {
    let odds = (0.0..0.3, 0.0..0.2, 0.0..0.3, 1u64..5_000);
    (odds, any::<u64>()).prop_map(|((drop, duplicate, delay, delay_us), seed)| {
        let delay_below = Duration::from_micros(delay_us);
        (FaultOdds { drop, duplicate, delay, delay_below, ..FaultOdds::default() }, seed)
    })
}

/// Content of an arbitrary packet.
pub(crate) struct Forged {
    pub(crate) header: Header,
    pub(crate) flags: u8,
    pub(crate) payload_bytes: u16,
    pub(crate) block: Option<ExtBlock>,
    /// Time since the packet before.
    pub(crate) wait: Duration,
}

/// Gives arbitrary packets to a port, a receiver and a sender: none may panic.
pub(crate) fn assert_survives_forged_packets<T: Transport>(
    config: T,
    mut port: T::Controller,
    packets: impl IntoIterator<Item = Forged>,
) {
    let rate = Rate::from_gbps(1);
    let nic = |host| NicInfo {
        host: HostId(host),
        rate,
        mtu: Bytes::new(1500),
        framing: Bytes::ZERO,
        nics: 1,
    };
    let mut stack = Stack::new(config, &[nic(0), nic(1)]);
    let (mut ext, mut out, mut now) = (ExtArena::default(), Outbox::default(), Instant::ZERO);
    let flow = FlowSpec {
        id: FlowId(0),
        src: HostId(0),
        dst: HostId(1),
        size: Bytes::new(20_000),
        start: now,
        deadline: None,
        transport: TransportId(0),
        class: Class::DATA,
        background: false,
        pattern: 0,
    };
    let route = |local, peer| FlowRoute { local, peer, paths: 1, ecmp_path: 0, nics: 1, seed: 0 };
    let (there, back) = (route(flow.src, flow.dst), route(flow.dst, flow.src));
    macro_rules! call {
        ($host:expr) => {
            Call { now, host: $host, ext: &mut ext, out: &mut out }
        };
    }
    let sender = stack.open_sender(&flow, &there, call!(flow.src));
    let first = out.packets[0];
    let receiver = stack.open_receiver(&first, &back, call!(flow.dst));
    for forged in packets {
        now += forged.wait;
        let mut packet = Packet::new(flow.id, flow.dst, forged.header);
        packet.flags = PacketFlags::from_bits(forged.flags);
        packet.payload_bytes = forged.payload_bytes;
        packet.ext = forged.block.map(|block| ext.alloc(block));
        let view = PortView {
            port: PortId(0),
            now,
            rate,
            framing: Bytes::ZERO,
            queue_bytes: 0,
            queue_packets: 0,
            sent_bytes: 0,
        };
        port.handle_forward(&mut packet, &view, &mut ext);
        port.handle_reverse(&mut packet, view.port);
        port.handle_timeout(&view);
        stack.handle_packet(End::Receiver, receiver, &packet, call!(flow.dst));
        stack.handle_packet(End::Sender, sender, &packet, call!(flow.src));
        let is_over = |e: &FlowEvent| matches!(e, FlowEvent::Finished | FlowEvent::Abandoned);
        if out.events.iter().any(is_over) {
            break;
        }
        stack.poll_transmit(sender, 0, call!(flow.src));
        stack.handle_timeout(End::Sender, sender, call!(flow.src));
    }
}
