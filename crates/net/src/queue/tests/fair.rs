//! `FairClasses`: which class the packet in service belongs to, and turns to the byte.

use super::*;

/// Both classes have room for one packet besides the one in service of the other class.
/// Transport 3 trims.
fn queue(trim_data: u32, rest: u32) -> Queue {
    let mut queue = Queue::new(
        &QueueSpec::FairClasses {
            trim_data: Limit::Packets(trim_data),
            trim_headers: Limit::Packets(9),
            rest: Limit::Packets(rest),
            rest_mark_above: None,
            trim_percent: 50,
        },
        1,
    );
    queue.set_trimming(0b1000);
    queue
}

fn of(arena: &mut PacketArena, transport: u8) -> PacketId {
    let id = packet(arena, 1500, Class::DATA, PacketFlags::TRIMMABLE);
    arena[id].transport = TransportId(transport);
    id
}

/// What becomes of an arrival while the port sends a packet that was never queued.
fn fate_beside(sent: u8, arrival: u8) -> Option<Fate> {
    let mut arena = PacketArena::default();
    let mut queue = queue(1, 1);
    let sent = of(&mut arena, sent);
    queue.note_bypass(&arena[sent]);
    let id = of(&mut arena, arrival);
    let mut fates = Fates::new();
    queue.enqueue(id, BUSY, &mut arena, &mut fates);
    fates.first().map(|(_, fate)| *fate)
}

#[test]
fn fair_classes__a_packet_in_service_fills_its_own_class_only() {
    for rest in [2, 4] {
        assert_eq!(fate_beside(3, 3), Some(Fate::Trimmed));
        assert_eq!(fate_beside(3, rest), None);
        assert_eq!(fate_beside(rest, 3), None);
        assert_eq!(fate_beside(rest, rest), Some(Fate::Dropped));
    }
}

/// Half a round is 15,000 bytes, ten packets: the eleventh waits for its class's next turn.
#[test]
fn fair_classes__a_turn_ends_when_its_credit_is_spent() {
    let mut arena = PacketArena::default();
    let mut queue = queue(30, 30);
    for transport in [3, 4] {
        for _ in 0..20 {
            let id = of(&mut arena, transport);
            queue.enqueue(id, InService::default(), &mut arena, &mut Fates::new());
        }
    }
    let mut order = Vec::new();
    while let Some(id) = queue.dequeue(&arena) {
        order.push(arena[id].transport.0);
    }
    let turns: Vec<(u8, usize)> =
        order.chunk_by(|a, b| a == b).map(|turn| (turn[0], turn.len())).collect();
    assert_eq!(turns, [(4, 10), (3, 10), (4, 10), (3, 10)]);
}

#[test]
fn fair_classes__the_tail_is_that_of_the_trimming_class() {
    let mut arena = PacketArena::default();
    let mut queue = queue(9, 9);
    assert_eq!(queue.trimming_tail(), None);
    let ids = [4, 3, 3, 4].map(|transport| of(&mut arena, transport));
    for id in ids {
        queue.enqueue(id, BUSY, &mut arena, &mut Fates::new());
    }
    assert_eq!(queue.trimming_tail(), Some(ids[2]));
}
