//! Figure 2 of the NDP paper: unresponsive senders share one port. Measures the share of the link
//! that carries whole packets with Cut Payload and with NDP's switch.
//!
//! `cargo test -p punctual-net --test integration unresponsive:: -- --nocapture` prints the table.

use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, FlowId, Header, HostId, Limit, Packet, PacketArena, PacketFlags, QueueSpec,
};
use punctual_net::{Fate, Fates, InService, Queue};

/// Picoseconds per byte at 10 Gb/s.
const BYTE: u64 = 800;
const PACKET: u16 = 9064;
/// Time between the packets of a sender.
const PERIOD: u64 = PACKET as u64 * BYTE;
/// Share of the link for whole packets with NDP's switch, in percent: ten headers per packet.
const LEVEL: f64 = 100.0 * 9064.0 / (9064.0 + 10.0 * 64.0);

/// Mean goodput as a share of the fair rate: of all flows, and of the worst tenth.
struct Goodput {
    mean: f64,
    worst_tenth: f64,
}

impl Goodput {
    /// Computes both means, in percent.
    fn of(mut shares: Vec<f64>) -> Goodput {
        shares.sort_by(f64::total_cmp);
        let tenth = (shares.len() / 10).max(1);
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        Goodput { mean: mean(&shares), worst_tenth: mean(&shares[..tenth]) }
    }
}

/// The time of each sender's first packet.
fn phases(senders: u32) -> Vec<u64> {
    let mut stream = Stream::named(1, "phases", u64::from(senders));
    (0..senders).map(|_| stream.below(PERIOD)).collect()
}

/// Sends packets back to back from each sender at 10 Gb/s into one port of 10 Gb/s. Each packet is
/// delayed by a uniform draw below `jitter` picoseconds; each sender sends `packets` of them.
fn unresponsive(spec: &QueueSpec, phases: &[u64], jitter: u64, packets: u64) -> Goodput {
    let senders = phases.len();
    let mut queue = Queue::new(spec, 7);
    let mut arena = PacketArena::default();
    let mut fates = Fates::new();
    let mut stream = Stream::named(1, "jitter", senders as u64);
    let mut arrivals: Vec<(u64, u32)> = Vec::new();
    let mut whole = vec![0u64; senders];
    // When the port becomes free, and the packet in service.
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
            // Packets of overlapping rounds stay in the order of the rounds.
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

/// Goodput with NDP's coin toss and without jitter, computed from the phases.
///
/// When a packet leaves, its place belongs to the last arrival with probability 1/2, to the one
/// before with 1/4, and so on. Departure times are uniform over the period, because a packet
/// and its ten headers take longer. So a sender gets half of the gap after it, a quarter of the
/// next gap, and so on.
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
            // The expected number of packets per flow does not depend on the number of flows.
            let packets = 200 * u64::from(senders);
            let phases =
                if timing == together { vec![0; senders as usize] } else { phases(senders) };
            let [cp, ndp] = [&cp, &ndp].map(|spec| unresponsive(spec, &phases, jitter, packets));
            println!(
                "{senders} unresponsive flows, {timing}, % of fair goodput, mean (worst tenth): CP \
                 {:.1} ({:.1}), NDP {:.1} ({:.1})",
                cp.mean, cp.worst_tenth, ndp.mean, ndp.worst_tenth
            );
            // Cut Payload sends n − 1 headers with each whole packet, until headers fill the link.
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
                // Each flow has 187 ± 14 packets: by chance the worst tenth has 24 fewer.
                assert!(ndp.worst_tenth > LEVEL - 20.0, "no phases, no effects");
            }
        }
    }
}
