use super::*;
use proptest::prelude::*;
use punctual_core::{FlowId, Header, HostId, RedMarking, TransportId, TrimModel};

fn packet(arena: &mut PacketArena, bytes: u16, class: Class, flags: PacketFlags) -> PacketId {
    let mut p = Packet::new(FlowId(0), HostId(0), Header::default());
    (p.wire_bytes, p.class, p.flags) = (bytes, class, flags);
    arena.alloc(p)
}

const BUSY: InService = InService { bytes: 1500, is_control: false };

fn trim_queue(data: u64, headers: u64) -> Queue {
    let spec = QueueSpec::Trim {
        data: Limit::Bytes(Bytes::new(data)),
        headers: Limit::Bytes(Bytes::new(headers)),
        mark_above: None,
    };
    Queue::new(&spec, 1)
}

#[test]
fn drop_tail__counts_the_packet_in_service() {
    let mut arena = PacketArena::default();
    let mut fates = Fates::new();
    let spec = QueueSpec::DropTail { limit: Limit::Packets(3) };
    let mut queue = Queue::new(&spec, 0);
    for _ in 0..3 {
        let id = packet(&mut arena, 1500, Class::DATA, PacketFlags::empty());
        queue.enqueue(id, BUSY, &mut arena, &mut fates);
    }
    assert_eq!(fates.len(), 1, "the third does not fit beside one in service and two waiting");
    assert_eq!(queue.waiting(), (Bytes::new(3000), 2));
}

#[test]
fn ecn__marks_above_the_threshold_only_the_capable() {
    let mut arena = PacketArena::default();
    let mut fates = Fates::new();
    let spec = QueueSpec::Ecn { limit: Limit::Packets(10), mark_above: Limit::Packets(2) };
    let mut queue = Queue::new(&spec, 0);
    for flags in [PacketFlags::ECN_CAPABLE, PacketFlags::ECN_CAPABLE, PacketFlags::empty()] {
        let id = packet(&mut arena, 1500, Class::DATA, flags);
        queue.enqueue(id, BUSY, &mut arena, &mut fates);
    }
    assert_eq!(fates, vec![(PacketId(1), Fate::Marked)]);
}

#[test]
fn priority__lower_class_first() {
    let mut arena = PacketArena::default();
    let mut queue = Queue::nic();
    let data = packet(&mut arena, 1500, Class::DATA, PacketFlags::empty());
    let control = packet(&mut arena, 64, Class::CONTROL, PacketFlags::empty());
    for id in [data, control] {
        queue.enqueue(id, BUSY, &mut arena, &mut Fates::new());
    }
    assert_eq!(queue.dequeue(&arena), Some(control));
    assert_eq!(queue.dequeue(&arena), Some(data));
}

#[test]
fn trim__seven_packets_of_9064_fit_72000() {
    let mut arena = PacketArena::default();
    let mut fates = Fates::new();
    let mut queue = trim_queue(72_000, 72_000);
    let busy = InService { bytes: 9064, is_control: false };
    for _ in 0..7 {
        let id = packet(&mut arena, 9064, Class::DATA, PacketFlags::TRIMMABLE);
        queue.enqueue(id, busy, &mut arena, &mut fates);
    }
    assert_eq!(fates.len(), 1, "six wait beside the one in service; the seventh is trimmed");
}

#[test]
fn trim__ten_headers_to_one_data() {
    let mut arena = PacketArena::default();
    let mut queue = trim_queue(72_000, 72_000);
    for n in 0..40 {
        let class = if n < 30 { Class::CONTROL } else { Class::DATA };
        let bytes = if n < 30 { 64 } else { 1500 };
        let id = packet(&mut arena, bytes, class, PacketFlags::empty());
        queue.enqueue(id, InService::default(), &mut arena, &mut Fates::new());
    }
    let order: Vec<bool> = std::iter::from_fn(|| queue.dequeue(&arena))
        .map(|id| arena[id].class == Class::CONTROL)
        .collect();
    // The counter is advanced before it is read, so the first round has nine headers.
    assert!(order[..9].iter().all(|c| *c) && !order[9]);
    assert!(order[10..20].iter().all(|c| *c) && !order[20]);
}

#[test]
fn trim__arrival_or_tail_by_coin() {
    let mut arrival_trimmed = 0;
    for seed in 0..1000 {
        let mut arena = PacketArena::default();
        let mut fates = Fates::new();
        let mut queue = Queue::new(
            &QueueSpec::Trim {
                data: Limit::Bytes(Bytes::new(3000)),
                headers: Limit::Bytes(Bytes::new(3000)),
                mark_above: None,
            },
            seed,
        );
        for flow in 0..3 {
            let id = packet(&mut arena, 1500, Class::DATA, PacketFlags::TRIMMABLE);
            arena[id].flow = FlowId(flow);
            queue.enqueue(id, InService::default(), &mut arena, &mut fates);
        }
        let victim = arena[fates[0].0].flow;
        assert!(victim == FlowId(1) || victim == FlowId(2));
        arrival_trimmed += u32::from(victim == FlowId(2));
    }
    assert!((430..570).contains(&arrival_trimmed), "{arrival_trimmed}");
}

#[test]
fn trim__header_that_does_not_fit_bounces_once() {
    let mut arena = PacketArena::default();
    let mut fates = Fates::new();
    let mut queue = trim_queue(1500, 64);
    let busy = InService { bytes: 1500, is_control: false };
    let bounced = PacketFlags::TRIMMABLE.with(PacketFlags::TRIMMED).with(PacketFlags::BOUNCED);
    let arrivals = [
        (1500, Class::DATA, PacketFlags::TRIMMABLE),
        (1500, Class::DATA, PacketFlags::TRIMMABLE),
        (64, Class::CONTROL, bounced),
    ];
    for (bytes, class, flags) in arrivals {
        let id = packet(&mut arena, bytes, class, flags);
        queue.enqueue(id, busy, &mut arena, &mut fates);
    }
    let what: Vec<Fate> = fates.iter().map(|f| f.1).collect();
    assert_eq!(what, [Fate::Trimmed, Fate::Trimmed, Fate::Bounced, Fate::Dropped]);
}

fn model(model: TrimModel, data: u64, trim_to: u64) -> QueueSpec {
    let bytes = |n| Limit::Bytes(Bytes::new(n));
    QueueSpec::TrimModel {
        model,
        data: bytes(data),
        headers: bytes(10 * trim_to),
        trim_to: Bytes::new(trim_to),
    }
}

/// Fills a queue with so many packets of 9064 bytes beside one in service; returns the fates.
fn overfill(queue: &mut Queue, arena: &mut PacketArena, packets: u32) -> Fates {
    let busy = InService { bytes: 9064, is_control: false };
    let mut fates = Fates::new();
    for _ in 0..packets {
        let id = packet(arena, 9064, Class::DATA, PacketFlags::TRIMMABLE);
        queue.enqueue(id, busy, arena, &mut fates);
    }
    fates
}

#[test]
fn model__trims_to_the_size_set() {
    for trim_to in [64, 128, 206, 256] {
        let mut arena = PacketArena::default();
        let mut queue = Queue::new(&model(TrimModel::Paper, 20_000, trim_to), 1);
        let fates = overfill(&mut queue, &mut arena, 3);
        let trimmed: Vec<u16> = fates
            .iter()
            .filter(|(_, fate)| *fate == Fate::Trimmed)
            .map(|(id, _)| arena[*id].wire_bytes)
            .collect();
        assert_eq!(trimmed, [trim_to as u16; 2], "one fits beside the one in service");
        assert_eq!(queue.waiting().0.get(), 9064 + 2 * trim_to);
    }
}

#[test]
fn model__netfpga_trims_the_arrival_and_drops_headers_that_do_not_fit() {
    let mut arena = PacketArena::default();
    let mut queue = Queue::new(&model(TrimModel::Netfpga, 20_000, 64), 1);
    let fates = overfill(&mut queue, &mut arena, 40);
    assert!(!fates.iter().any(|(_, fate)| *fate == Fate::Bounced));
    let of = |wanted| fates.iter().filter(move |(_, fate)| *fate == wanted).map(|(id, _)| id.0);
    // The first fits; ten headers do; each later arrival is the one trimmed, then dropped.
    assert_eq!(of(Fate::Trimmed).collect::<Vec<_>>(), (1..40).collect::<Vec<_>>());
    assert_eq!(of(Fate::Dropped).collect::<Vec<_>>(), (11..40).collect::<Vec<_>>());
    // Headers first, strictly, then the packet that came before them.
    let order: Vec<u32> = std::iter::from_fn(|| queue.dequeue(&arena)).map(|id| id.0).collect();
    assert_eq!(order, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0]);
}

#[test]
fn model__p4_does_not_count_the_packet_in_service() {
    for (kind, fit) in [(TrimModel::Netfpga, 1), (TrimModel::P4, 2)] {
        let mut arena = PacketArena::default();
        let mut queue = Queue::new(&model(kind, 20_000, 64), 1);
        let fates = overfill(&mut queue, &mut arena, 2);
        assert_eq!(fates.len(), 2 - fit, "{kind:?}");
    }
}

#[test]
fn cut_payload__headers_wait_behind_data_and_are_dropped_when_full() {
    let mut arena = PacketArena::default();
    let limit = Limit::Bytes(Bytes::new(40_000));
    let spec = QueueSpec::CutPayload { limit, trim_above: None, trim_to: Bytes::new(64) };
    let mut queue = Queue::new(&spec, 1);
    // Of 20,000 bytes the one in service takes 9,064, so one more fits, and then headers in what
    // is left of 40,000: 21,872 / 64 = 341.
    let fates = overfill(&mut queue, &mut arena, 400);
    let count = |wanted| fates.iter().filter(|(_, fate)| *fate == wanted).count();
    assert_eq!((count(Fate::Trimmed), count(Fate::Dropped)), (399, 399 - 341));
    assert_eq!(queue.dequeue(&arena), Some(PacketId(0)), "first come, first served");
}

#[test]
fn fair_classes__share_by_bytes_and_lend_what_is_not_used() {
    for percent in [20u8, 50, 80] {
        let mut arena = PacketArena::default();
        let spec = QueueSpec::FairClasses {
            trim_data: Limit::Packets(8),
            trim_headers: Limit::Packets(1000),
            rest: Limit::Packets(200),
            rest_mark_above: None,
            trim_percent: percent,
        };
        let mut queue = Queue::new(&spec, 1);
        queue.set_trimming(0b1);
        let mut sent = [0u64; 2];
        for _ in 0..4000 {
            // Both classes always have something waiting, of unlike sizes.
            for (transport, bytes) in [(0, 9000), (1, 1500), (1, 1500)] {
                let id = packet(&mut arena, bytes, Class::DATA, PacketFlags::TRIMMABLE);
                arena[id].transport = TransportId(transport);
                let mut fates = Fates::new();
                queue.enqueue(id, InService::default(), &mut arena, &mut fates);
                for (id, fate) in fates {
                    if fate == Fate::Dropped || fate == Fate::Bounced {
                        arena.free(id);
                    }
                }
            }
            if let Some(id) = queue.dequeue(&arena) {
                sent[usize::from(arena[id].transport.0)] += u64::from(arena[id].wire_bytes);
                arena.free(id);
            }
        }
        let share = sent[0] as f64 / (sent[0] + sent[1]) as f64 * 100.0;
        assert!((share - f64::from(percent)).abs() < 1.0, "{share} for {percent}");
        // Alone, a class has it all.
        let mut last = None;
        while let Some(id) = queue.dequeue(&arena) {
            last = Some(id);
        }
        assert!(last.is_some() && queue.is_empty());
    }
}

fn red(from: u64, to: u64, most_percent: u8) -> QueueSpec {
    QueueSpec::Lossless {
        buffer: Bytes::new(10_000_000),
        pause_above: Bytes::new(1_000_000),
        resume_below: Bytes::new(1_000_000),
        mark_above: None,
        red: Some(RedMarking { from: Bytes::new(from), to: Bytes::new(to), most_percent }),
    }
}

/// The share marked of those that find so many bytes in the queue.
fn marked(spec: &QueueSpec, found: u64) -> f64 {
    const TRIALS: u32 = 4_000;
    let marks = (0..TRIALS).filter(|&seed| {
        let (mut arena, mut fates) = (PacketArena::default(), Fates::new());
        let mut queue = Queue::new(spec, u64::from(seed));
        for _ in 0..found / 1000 {
            let id = packet(&mut arena, 1000, Class::DATA, PacketFlags::empty());
            queue.enqueue(id, InService::default(), &mut arena, &mut fates);
        }
        let id = packet(&mut arena, 1000, Class::DATA, PacketFlags::ECN_CAPABLE);
        queue.enqueue(id, InService::default(), &mut arena, &mut fates);
        fates == [(id, Fate::Marked)]
    });
    marks.count() as f64 / f64::from(TRIALS)
}

#[test]
fn red__marks_never_then_at_random_then_always() {
    let spec = red(5_000, 25_000, 40);
    assert_eq!(marked(&spec, 5_000), 0.0);
    for (found, expected) in [(10_000, 0.1), (15_000, 0.2), (25_000, 0.4)] {
        let share = marked(&spec, found);
        assert!((share - expected).abs() < 0.025, "{share} at {found}");
    }
    assert_eq!(marked(&spec, 26_000), 1.0);
}

#[test]
fn red__looks_at_the_packets_own_class_and_marks_the_capable() {
    let (mut arena, mut fates) = (PacketArena::default(), Fates::new());
    let mut queue = Queue::new(&red(1, 2, 100), 1);
    for (class, flags) in [
        (Class::CONTROL, PacketFlags::ECN_CAPABLE),
        (Class::DATA, PacketFlags::ECN_CAPABLE),
        (Class::DATA, PacketFlags::empty()),
    ] {
        let id = packet(&mut arena, 1000, class, flags);
        queue.enqueue(id, InService::default(), &mut arena, &mut fates);
    }
    assert_eq!(fates, vec![]);
    let id = packet(&mut arena, 1000, Class::DATA, PacketFlags::ECN_CAPABLE);
    queue.enqueue(id, InService::default(), &mut arena, &mut fates);
    assert_eq!(fates, vec![(id, Fate::Marked)]);
}

proptest! {
    /// Whatever arrives is queued or has a fate that says where it went; nothing is lost, and
    /// no queue passes its limit.
    #[test]
    fn every_packet_is_accounted_for(
        kind in 0usize..10,
        arrivals in prop::collection::vec((64u16..9000, 0u8..3, 0u8..64, any::<bool>()), 1..200),
    ) {
        let limit = Limit::Bytes(Bytes::new(20_000));
        let spec = [
            QueueSpec::DropTail { limit },
            QueueSpec::Ecn { limit, mark_above: Limit::Packets(3) },
            QueueSpec::Priority { limit },
            QueueSpec::Trim { data: limit, headers: Limit::Packets(5), mark_above: None },
            model(TrimModel::Paper, 20_000, 128),
            model(TrimModel::Netfpga, 20_000, 64),
            model(TrimModel::P4, 20_000, 256),
            QueueSpec::CutPayload { limit, trim_above: None, trim_to: Bytes::new(64) },
            QueueSpec::FairClasses {
                trim_data: limit,
                trim_headers: Limit::Packets(5),
                rest: limit,
                rest_mark_above: Some(Limit::Packets(2)),
                trim_percent: 30,
            },
            red(1_000, 9_000, 50),
        ][kind];
        let mut queue = Queue::new(&spec, 3);
        queue.set_trimming(0b10);
        let mut arena = PacketArena::default();
        let (mut queued, mut gone) = (0usize, 0usize);
        for (bytes, class, flags, take) in arrivals {
            let flags = PacketFlags::from_bits(flags);
            let id = packet(&mut arena, bytes, Class(class), flags);
            arena[id].transport = TransportId(class & 1);
            let mut fates = Fates::new();
            queue.enqueue(id, InService::default(), &mut arena, &mut fates);
            queued += 1;
            for (id, fate) in fates {
                if matches!(fate, Fate::Dropped | Fate::Bounced) {
                    arena.free(id);
                    queued -= 1;
                    gone += 1;
                }
            }
            if take && let Some(id) = queue.dequeue(&arena) {
                arena.free(id);
                queued -= 1;
            }
            prop_assert_eq!(queue.waiting().1 as usize, queued);
            prop_assert_eq!(arena.len(), queued);
            // Lossless queues have no limit of their own.
            prop_assert!(kind == 9 || queue.waiting().0.get() <= 5 * 20_000);
            prop_assert_eq!(queue.is_empty(), queued == 0);
        }
        let _ = gone;
    }
}
