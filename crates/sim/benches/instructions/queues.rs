//! Queue disciplines: an operation is a packet that arrives and, unless it is dropped, leaves.

use crate::Done;
use punctual_core::{
    Bytes, Class, FlowId, Header, HostId, Limit, Packet, PacketArena, PacketFlags, PacketId,
    QueueSpec,
};
use punctual_net::{Fates, InService, Queue};

/// Arrivals between one time that the queue is emptied and the next: mostly few, some too many.
const BURSTS: [usize; 8] = [1, 1, 2, 3, 12, 1, 5, 16];
const LIMIT: Limit = Limit::Packets(8);

pub(crate) fn drop_tail(arrivals: u64) -> Done {
    fill_and_empty(&QueueSpec::DropTail { limit: LIMIT }, arrivals)
}

pub(crate) fn ecn(arrivals: u64) -> Done {
    fill_and_empty(&QueueSpec::Ecn { limit: LIMIT, mark_above: Limit::Packets(3) }, arrivals)
}

pub(crate) fn priority(arrivals: u64) -> Done {
    fill_and_empty(&QueueSpec::Priority { limit: LIMIT }, arrivals)
}

pub(crate) fn trim(arrivals: u64) -> Done {
    let headers = Limit::Bytes(Bytes::new(9000));
    fill_and_empty(&QueueSpec::Trim { data: LIMIT, headers, mark_above: None }, arrivals)
}

/// One packet in four is a control packet.
fn templates() -> Vec<Packet> {
    (0..64)
        .map(|n| {
            let mut packet = Packet::new(FlowId(n), HostId(0), Header::default());
            if n % 4 == 3 {
                (packet.wire_bytes, packet.class) = (64, Class::CONTROL);
            } else {
                packet.wire_bytes = 9064;
                packet.flags = PacketFlags::TRIMMABLE.with(PacketFlags::ECN_CAPABLE);
            }
            packet
        })
        .collect()
}

fn fill_and_empty(spec: &QueueSpec, arrivals: u64) -> Done {
    let templates = templates();
    let mut arena = PacketArena::default();
    let ids: Vec<PacketId> = templates.iter().map(|packet| arena.alloc(*packet)).collect();
    let mut queue = Queue::new(spec, 1);
    let mut fates = Fates::new();
    let in_service = InService { bytes: 9064, is_control: false };
    let (mut operations, mut digest) = (0u64, 0u64);
    let mut next = 0;
    for burst in BURSTS.iter().cycle() {
        if operations >= arrivals {
            break;
        }
        for _ in 0..*burst {
            next = (next + 1) % ids.len();
            // Marks and cuts of the last time are undone.
            arena[ids[next]] = templates[next];
            queue.enqueue(ids[next], in_service, &mut arena, &mut fates);
        }
        operations += *burst as u64;
        for (id, fate) in fates.drain(..) {
            digest = digest.rotate_left(3) ^ u64::from(id.0) << 2 ^ fate as u64;
        }
        while let Some(id) = queue.dequeue(&arena) {
            digest = digest.rotate_left(3) ^ u64::from(id.0);
        }
    }
    Done { operations, digest }
}
