use super::*;
use proptest::prelude::*;
use punctual_core::{FlowId, Header, HostId};

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

proptest! {
    /// Whatever arrives is queued or has a fate that says where it went; nothing is lost, and
    /// no queue passes its limit.
    #[test]
    fn every_packet_is_accounted_for(
        kind in 0usize..4,
        arrivals in prop::collection::vec((64u16..9000, 0u8..3, 0u8..64, any::<bool>()), 1..200),
    ) {
        let limit = Limit::Bytes(Bytes::new(20_000));
        let spec = [
            QueueSpec::DropTail { limit },
            QueueSpec::Ecn { limit, mark_above: Limit::Packets(3) },
            QueueSpec::Priority { limit },
            QueueSpec::Trim { data: limit, headers: Limit::Packets(5), mark_above: None },
        ][kind];
        let mut queue = Queue::new(&spec, 3);
        let mut arena = PacketArena::default();
        let (mut queued, mut gone) = (0usize, 0usize);
        for (bytes, class, flags, take) in arrivals {
            let flags = PacketFlags::from_bits(flags);
            let id = packet(&mut arena, bytes, Class(class), flags);
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
            prop_assert!(queue.waiting().0.get() <= 3 * 20_000);
            prop_assert_eq!(queue.is_empty(), queued == 0);
        }
        let _ = gone;
    }
}
