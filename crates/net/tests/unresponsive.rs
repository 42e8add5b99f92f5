//! Figure 2 of NDP's paper: senders that never slow down, all into one port. What is left of the
//! link for whole packets, with Cut Payload and with NDP's switch?
//!
//! `cargo test -p punctual-net --test unresponsive -- --nocapture` prints the table.

use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, FlowId, Header, HostId, Limit, Packet, PacketArena, PacketFlags, QueueSpec,
};
use punctual_net::{Fate, Fates, InService, Queue};

/// Picoseconds of a byte at 10 Gb/s.
const BYTE: u64 = 800;
const PACKET: u16 = 9064;
/// Time between two packets of a sender.
const PERIOD: u64 = PACKET as u64 * BYTE;
/// What NDP's switch leaves for whole packets in percent: ten headers go with each.
const LEVEL: f64 = 100.0 * 9064.0 / (9064.0 + 10.0 * 64.0);

/// Share of the fair goodput that flows get: of all, and of the worst tenth.
struct Goodput {
    mean: f64,
    worst_tenth: f64,
}

impl Goodput {
    /// Of these shares, in percent.
    fn of(mut shares: Vec<f64>) -> Goodput {
        shares.sort_by(f64::total_cmp);
        let tenth = (shares.len() / 10).max(1);
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        Goodput { mean: mean(&shares), worst_tenth: mean(&shares[..tenth]) }
    }
}

/// When each of `senders` sends the first of its packets.
fn phases(senders: u32) -> Vec<u64> {
    let mut stream = Stream::named(1, "phases", u64::from(senders));
    (0..senders).map(|_| stream.below(PERIOD)).collect()
}

/// Senders with these phases send packets back to back at 10 Gb/s into one port of 10 Gb/s, each
/// packet late by a draw below `jitter` picoseconds, for so many packets each.
fn unresponsive(spec: &QueueSpec, phases: &[u64], jitter: u64, packets: u64) -> Goodput {
    let senders = phases.len();
    let mut queue = Queue::new(spec, 7);
    let mut arena = PacketArena::default();
    let mut fates = Fates::new();
    let mut stream = Stream::named(1, "jitter", senders as u64);
    let mut arrivals: Vec<(u64, u32)> = Vec::new();
    let mut whole = vec![0u64; senders];
    // Until when the port sends, and what.
    let (mut busy_until, mut in_service) = (0u64, InService::default());
    let mut last = 0;
    for round in 0..packets {
        arrivals.clear();
        arrivals.extend(
            phases.iter().zip(0..).map(|(phase, sender)| {
                (round * PERIOD + phase + stream.below(jitter.max(1)), sender)
            }),
        );
        arrivals.sort_unstable();
        for &(at, sender) in &arrivals {
            // Of two rounds' packets that overlap, the order is that of the rounds.
            let now = at.max(last);
            last = now;
            while busy_until <= now {
                let Some(id) = queue.dequeue(&arena) else {
                    in_service = InService::default();
                    break;
                };
                let packet = arena[id];
                whole[packet.flow.index()] += u64::from(!packet.is_trimmed());
                in_service = InService {
                    bytes: u32::from(packet.wire_bytes),
                    is_control: packet.is_trimmed(),
                };
                busy_until += u64::from(packet.wire_bytes) * BYTE;
                arena.free(id);
            }
            busy_until = busy_until.max(now);
            let mut packet = Packet::new(FlowId(sender), HostId(0), Header::default());
            (packet.wire_bytes, packet.payload_bytes) = (PACKET, PACKET - 64);
            packet.flags = PacketFlags::TRIMMABLE;
            let id = arena.alloc(packet);
            queue.enqueue(id, in_service, &mut arena, &mut fates);
            for (id, fate) in fates.drain(..) {
                if matches!(fate, Fate::Dropped | Fate::Bounced) {
                    arena.free(id);
                }
            }
        }
    }
    let fair = packets as f64 / senders as f64;
    Goodput::of(whole.iter().map(|n| *n as f64 / fair * 100.0).collect())
}

/// What NDP's coin makes of senders in exact time. When a packet leaves, the last to have come has
/// its place with a probability of 1/2, the one before with 1/4, and so on; packets leave at all
/// times alike, since they take longer than to come. So a sender has a half of the gap behind it, a
/// quarter of the next, and so on.
fn by_the_coin(phases: &[u64]) -> Goodput {
    let mut phases = phases.to_vec();
    phases.sort_unstable();
    let n = phases.len();
    let gap = |i: usize| (phases[(i + 1) % n] + PERIOD - phases[i % n]) % PERIOD;
    let share = |i: usize| -> f64 {
        (0..30).map(|k| gap(i + k) as f64 / PERIOD as f64 * 0.5f64.powi(k as i32 + 1)).sum()
    };
    Goodput::of((0..n).map(|i| share(i) * n as f64 * LEVEL).collect())
}

#[test]
fn figure_2_cut_payload_collapses_and_ndp_s_switch_does_not() {
    let bytes = |n| Limit::Bytes(Bytes::new(n));
    // Both have 144,000 bytes in all: 72,000 before they trim.
    let cp =
        QueueSpec::CutPayload { limit: bytes(144_000), trim_above: None, trim_to: Bytes::new(64) };
    let ndp = QueueSpec::Trim { data: bytes(72_000), headers: bytes(72_000), mark_above: None };
    let (exact, varied, together) = ("exact", "1 µs of jitter", "started together");
    for (timing, jitter) in [(exact, 0), (varied, 1_000_000), (together, 1000)] {
        for senders in [10u32, 40, 100, 140, 188] {
            // As many packets to each flow whatever their number.
            let packets = 200 * u64::from(senders);
            let phases =
                if timing == together { vec![0; senders as usize] } else { phases(senders) };
            let [cp, ndp] = [&cp, &ndp].map(|spec| unresponsive(spec, &phases, jitter, packets));
            println!(
                "{senders} unresponsive flows, {timing}, % of fair goodput, mean (worst tenth): CP \
                 {:.1} ({:.1}), NDP {:.1} ({:.1})",
                cp.mean, cp.worst_tenth, ndp.mean, ndp.worst_tenth
            );
            // While packet after packet is sent whole, n − 1 headers go with each, until no room
            // is left for any.
            let left = 100.0 * (1.0 - 64.0 * f64::from(senders - 1) / 9064.0);
            assert!((cp.mean - left.max(0.0)).abs() < 1.0, "CP {} against {left}", cp.mean);
            assert!((ndp.mean - LEVEL).abs() < 0.5, "NDP {} against {LEVEL}", ndp.mean);
            if timing == exact {
                let expected = by_the_coin(&phases).worst_tenth;
                println!("  by the coin, the worst tenth has {expected:.1}");
                assert!((ndp.worst_tenth - expected).abs() < 4.0, "{}", ndp.worst_tenth);
                assert!(ndp.worst_tenth > cp.worst_tenth + 15.0, "phase effects starve CP's");
            } else if timing == varied {
                assert!(ndp.worst_tenth > cp.worst_tenth, "phase effects starve CP's");
            } else {
                // Each has 187 packets, give or take 14: the worst tenth has 24 fewer by chance.
                assert!(ndp.worst_tenth > LEVEL - 20.0, "no phases, no effects");
            }
        }
    }
}
