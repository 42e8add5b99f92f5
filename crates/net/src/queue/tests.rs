mod fair;
mod reference;

use super::*;
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

/// Offers `packets` packets of 9064 bytes while one is in service; returns the fates.
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

/// The paper's simulator tosses a coin between the arrival and the last packet, as `trim` does.
#[test]
fn model__paper_trims_the_arrival_or_the_tail() {
    let mut arrivals = 0;
    for seed in 0..100 {
        let mut arena = PacketArena::default();
        let mut queue = Queue::new(&model(TrimModel::Paper, 3000, 64), seed);
        let mut fates = Fates::new();
        for flow in 0..3 {
            let id = packet(&mut arena, 1500, Class::DATA, PacketFlags::TRIMMABLE);
            arena[id].flow = FlowId(flow);
            queue.enqueue(id, InService::default(), &mut arena, &mut fates);
        }
        let [(victim, Fate::Trimmed)] = fates[..] else { panic!("{fates:?}") };
        // The two may have exchanged their slots.
        let flow = arena[victim].flow;
        assert!(flow == FlowId(1) || flow == FlowId(2));
        arrivals += u32::from(flow == FlowId(2));
    }
    // Four standard deviations around a half.
    assert!((30..=70).contains(&arrivals), "{arrivals} of 100");
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
    // Headers have strict priority over the data packet that came before them.
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
    // The packet in service takes 9,064 of 20,000 bytes, so one more fits. Headers fit in the
    // rest of 40,000: 21,872 / 64 = 341.
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
            // Both classes are always backlogged, with packets of different sizes.
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
        // A class alone gets the whole link.
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

/// The share of packets marked when each finds `found` bytes in the queue.
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

fn lossless(mark_above: Option<Limit>, red: Option<RedMarking>) -> Queue {
    let spec = QueueSpec::Lossless {
        buffer: Bytes::new(1_000_000),
        pause_above: Bytes::new(30_000),
        resume_below: Bytes::new(20_000),
        mark_above,
        red,
    };
    Queue::new(&spec, 0)
}

#[test]
fn lossless__marks_above_the_threshold_only_the_capable() {
    let mut arena = PacketArena::default();
    let mut fates = Fates::new();
    let mut queue = lossless(Some(Limit::Packets(2)), None);
    let kinds = [PacketFlags::ECN_CAPABLE, PacketFlags::empty(), PacketFlags::ECN_CAPABLE];
    let ids = kinds.map(|flags| packet(&mut arena, 1500, Class::DATA, flags));
    for id in ids {
        queue.enqueue(id, BUSY, &mut arena, &mut fates);
    }
    assert_eq!(fates, [(ids[2], Fate::Marked)], "the second is not capable");
    assert!(arena[ids[2]].flags.has(PacketFlags::ECN_MARKED));
}

/// A paused class keeps its packets, and the others are sent.
#[test]
fn pause__holds_one_class_back() {
    let red = RedMarking { from: Bytes::new(5_000), to: Bytes::new(200_000), most_percent: 1 };
    for mut queue in [lossless(None, None), lossless(None, Some(red)), Queue::nic()] {
        let mut arena = PacketArena::default();
        let classes = [Class(1), Class(3), Class(3), Class(7)];
        let ids = classes.map(|class| packet(&mut arena, 1000, class, PacketFlags::empty()));
        for id in ids {
            queue.enqueue(id, InService::default(), &mut arena, &mut Fates::new());
        }
        assert_eq!(queue.waiting(), (Bytes::new(4000), 4));
        let waiting = |queue: &Queue, class| {
            let fifo = queue.waiting_in(Class(class)).expect("it has classes");
            (fifo.bytes(), fifo.packets())
        };
        assert_eq!([1, 3, 7, 5].map(|c| waiting(&queue, c).1), [1, 2, 1, 0]);
        assert_eq!(waiting(&queue, 3), (2000, 2));
        queue.set_paused(Class(1), true);
        queue.set_paused(Class(7), true);
        queue.set_paused(Class(1), true);
        assert_eq!(queue.front(), Some(ids[1]), "the first of the classes that may be sent");
        assert_eq!(queue.dequeue(&arena), Some(ids[1]));
        assert_eq!(queue.dequeue(&arena), Some(ids[2]));
        assert!(queue.is_empty(), "all that waits is paused");
        assert_eq!((queue.front(), queue.dequeue(&arena)), (None, None));
        assert_eq!(queue.waiting(), (Bytes::new(2000), 2));
        assert_eq!(queue.idle_pass_bytes(), 0, "no packet may pass a paused queue");
        queue.set_paused(Class(7), false);
        assert!(!queue.is_empty());
        assert_eq!(queue.dequeue(&arena), Some(ids[3]));
        queue.set_paused(Class(1), false);
        assert_eq!(queue.dequeue(&arena), Some(ids[0]));
        assert!(queue.is_empty());
    }
}

/// Disciplines without classes have nothing to pause.
#[test]
fn pause__only_queues_with_classes() {
    let mut arena = PacketArena::default();
    let mut queue = Queue::new(&QueueSpec::DropTail { limit: Limit::Packets(3) }, 0);
    let id = packet(&mut arena, 1500, Class::DATA, PacketFlags::empty());
    queue.enqueue(id, BUSY, &mut arena, &mut Fates::new());
    assert!(queue.waiting_in(Class::DATA).is_none());
    queue.set_paused(Class::DATA, true);
    assert_eq!((queue.front(), queue.dequeue(&arena)), (Some(id), Some(id)));
}

/// A packet passes an idle queue unseen if no limit, threshold or pause could concern it.
#[test]
fn idle_pass__what_no_limit_concerns() {
    let pass = |spec: QueueSpec| Queue::new(&spec, 0).idle_pass_bytes();
    let packets = Limit::Packets;
    assert_eq!(pass(QueueSpec::DropTail { limit: Limit::Bytes(Bytes::new(900)) }), 900);
    let all = pass(QueueSpec::DropTail { limit: packets(1) });
    assert!(all >= u32::from(u16::MAX), "{all}");
    assert_eq!(pass(QueueSpec::DropTail { limit: packets(0) }), 0);
    let marking = |mark_above| pass(QueueSpec::Ecn { limit: packets(9), mark_above });
    assert_eq!(marking(Limit::Bytes(Bytes::new(700))), 700);
    assert_eq!(marking(packets(0)), 0);
    assert!(marking(packets(1)) >= u32::from(u16::MAX));
    assert!(Queue::nic().idle_pass_bytes() >= u32::from(u16::MAX), "nothing is paused");
}

/// The packet whose place an arrival may take: the last whole one of a trimming queue.
#[test]
fn trimming_tail__the_last_whole_packet() {
    let limit = Limit::Packets(9);
    let trim = QueueSpec::Trim { data: limit, headers: limit, mark_above: None };
    let model = QueueSpec::TrimModel {
        model: TrimModel::Paper,
        data: limit,
        headers: limit,
        trim_to: Bytes::new(64),
    };
    for spec in [trim, model] {
        let mut arena = PacketArena::default();
        let mut queue = Queue::new(&spec, 1);
        assert_eq!(queue.trimming_tail(), None);
        let kinds = [Class::DATA, Class::DATA, Class::CONTROL];
        let ids = kinds.map(|class| packet(&mut arena, 1500, class, PacketFlags::TRIMMABLE));
        for id in ids {
            queue.enqueue(id, BUSY, &mut arena, &mut Fates::new());
        }
        assert_eq!(queue.trimming_tail(), Some(ids[1]), "{spec:?}");
    }
    let mut queue = Queue::new(&QueueSpec::DropTail { limit }, 1);
    let mut arena = PacketArena::default();
    let id = packet(&mut arena, 1500, Class::DATA, PacketFlags::TRIMMABLE);
    queue.enqueue(id, BUSY, &mut arena, &mut Fates::new());
    assert_eq!(queue.trimming_tail(), None);
}
