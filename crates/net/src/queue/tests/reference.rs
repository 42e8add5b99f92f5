//! Every discipline beside a reference model.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

/// A reference model written from the documentation: which lane a packet joins, what fits there,
/// and what happens to packets that do not fit.
struct Reference {
    spec: QueueSpec,
    lanes: [VecDeque<PacketId>; Class::COUNT],
    /// The packet in service.
    sending: Option<(usize, u32, bool)>,
}

const HEADERS: usize = 0;
const DATA: usize = 1;
const REST: usize = 2;
/// Packets of this transport are trimmed where classes share a link.
const TRIMMING: TransportId = TransportId(1);

impl Reference {
    fn new(spec: QueueSpec) -> Self {
        Reference { spec, lanes: Default::default(), sending: None }
    }

    fn lane(&self, packet: &Packet) -> usize {
        let by_kind = if packet.class == Class::CONTROL { HEADERS } else { DATA };
        match self.spec {
            QueueSpec::DropTail { .. } | QueueSpec::Ecn { .. } | QueueSpec::CutPayload { .. } => 0,
            QueueSpec::Trim { .. } | QueueSpec::TrimModel { .. } => by_kind,
            QueueSpec::FairClasses { .. } if packet.transport == TRIMMING => by_kind,
            QueueSpec::FairClasses { .. } => REST,
            _ => usize::from(packet.class.0),
        }
    }

    fn limit(&self, lane: usize) -> Limit {
        match self.spec {
            QueueSpec::DropTail { limit }
            | QueueSpec::Ecn { limit, .. }
            | QueueSpec::Priority { limit }
            | QueueSpec::CutPayload { limit, .. } => limit,
            QueueSpec::Trim { data, headers, .. } | QueueSpec::TrimModel { data, headers, .. } => {
                if lane == HEADERS {
                    headers
                } else {
                    data
                }
            }
            QueueSpec::FairClasses { trim_data, trim_headers, rest, .. } => {
                [trim_headers, trim_data, rest][lane]
            }
            _ => Limit::Packets(u32::MAX),
        }
    }

    /// Bytes of the packet in service, if it occupies space of this lane.
    fn busy(&self, lane: usize) -> u32 {
        let Some((sent, bytes, _)) = self.sending else { return 0 };
        match self.spec {
            QueueSpec::TrimModel { model: TrimModel::P4, .. } if lane == DATA => 0,
            QueueSpec::Priority { .. } => bytes,
            _ if lane == sent => bytes,
            _ => 0,
        }
    }

    /// Bytes and packets of a lane, including the packet in service.
    fn held(&self, lane: usize, arena: &PacketArena) -> (u64, u32) {
        let bytes: u64 = self.lanes[lane].iter().map(|id| u64::from(arena[*id].wire_bytes)).sum();
        let busy = self.busy(lane);
        (bytes + u64::from(busy), self.lanes[lane].len() as u32 + u32::from(busy > 0))
    }

    fn fits(&self, limit: Limit, lane: usize, bytes: u16, arena: &PacketArena) -> bool {
        let (held, packets) = self.held(lane, arena);
        match limit {
            Limit::Bytes(most) => held + u64::from(bytes) <= most.get(),
            Limit::Packets(most) => packets < most,
        }
    }

    fn refused(&self, is_trimmed: bool, packet: &Packet) -> Fate {
        let returns = match self.spec {
            QueueSpec::Trim { .. } => true,
            QueueSpec::FairClasses { .. } => packet.transport == TRIMMING,
            QueueSpec::TrimModel { model, .. } => model == TrimModel::Paper,
            _ => false,
        };
        if returns && is_trimmed && !packet.is_bounced() { Fate::Bounced } else { Fate::Dropped }
    }

    /// Whether an arrival that is queued unchanged must be marked; `None` if marking is random.
    fn marks(&self, packet: &Packet, arena: &PacketArena) -> Option<bool> {
        let lane = self.lane(packet);
        let mark_above = match self.spec {
            QueueSpec::Ecn { mark_above, .. } => Some(mark_above),
            QueueSpec::Trim { mark_above, .. } if lane == DATA => mark_above,
            QueueSpec::FairClasses { rest_mark_above, .. } if lane == REST => rest_mark_above,
            QueueSpec::Lossless { red: Some(red), .. } => {
                let in_service = self.sending.map_or(0, |(_, bytes, _)| u64::from(bytes));
                let waiting = self.lanes[lane].iter().map(|id| u64::from(arena[*id].wire_bytes));
                let found = waiting.sum::<u64>() + in_service;
                let may_mark = is_ecn_capable(packet) && found > red.from.get();
                let is_certain = !may_mark || found > red.to.get();
                return is_certain.then_some(may_mark);
            }
            _ => None,
        };
        let is_above =
            mark_above.is_some_and(|above| !self.fits(above, lane, packet.wire_bytes, arena));
        Some(is_above && is_ecn_capable(packet))
    }

    /// Whether the last packet of the data queue may be trimmed in place of this arrival.
    fn may_spare(&self, arrival: &Packet, tail: &Packet, arena: &PacketArena) -> bool {
        let chooses = match self.spec {
            QueueSpec::Trim { .. } | QueueSpec::FairClasses { .. } => true,
            QueueSpec::TrimModel { model, .. } => model == TrimModel::Paper,
            _ => false,
        };
        let fits = match self.limit(DATA) {
            Limit::Packets(_) => true,
            Limit::Bytes(most) => {
                let others = self.held(DATA, arena).0 - u64::from(tail.wire_bytes);
                others + u64::from(arrival.wire_bytes) <= most.get()
            }
        };
        chooses && fits && tail.flags.has(PacketFlags::TRIMMABLE)
    }

    /// Expected fates of a trimmed packet: the arrival, or the one that gives way to it.
    fn expected_of_trimmed(&self, packet: &Packet, arena: &PacketArena) -> Vec<Fate> {
        let (lane, left) = match self.spec {
            QueueSpec::CutPayload { trim_to, .. } => (0, trim_to),
            QueueSpec::TrimModel { trim_to, .. } => (HEADERS, trim_to),
            _ => (HEADERS, Bytes::new(64)),
        };
        let left = packet.wire_bytes.min(left.get() as u16);
        let fits = self.fits(self.limit(lane), lane, left, arena);
        let more = if fits { vec![] } else { vec![self.refused(true, packet)] };
        [vec![Fate::Trimmed], more].concat()
    }

    /// Expected fates of an arrival, without marks, if no other packet is trimmed in its place.
    fn expected(&self, packet: &Packet, arena: &PacketArena) -> Vec<Fate> {
        let lane = self.lane(packet);
        let is_data = packet.class != Class::CONTROL;
        let may_trim = is_data && packet.flags.has(PacketFlags::TRIMMABLE);
        let trims = match self.spec {
            QueueSpec::CutPayload { limit, .. } => {
                let half = match limit {
                    Limit::Bytes(limit) => Limit::Bytes(Bytes::new(limit.get() / 2)),
                    Limit::Packets(limit) => Limit::Packets(limit / 2),
                };
                may_trim && !self.fits(half, lane, packet.wire_bytes, arena)
            }
            _ => {
                may_trim && lane == DATA && self.is_trimming(packet) && {
                    !self.fits(self.limit(lane), lane, packet.wire_bytes, arena)
                }
            }
        };
        if !trims {
            let fits = self.fits(self.limit(lane), lane, packet.wire_bytes, arena);
            // Only headers return to their senders.
            let is_header = lane == HEADERS && packet.is_trimmed();
            return if fits { vec![] } else { vec![self.refused(is_header, packet)] };
        }
        self.expected_of_trimmed(packet, arena)
    }

    fn is_trimming(&self, packet: &Packet) -> bool {
        match self.spec {
            QueueSpec::Trim { .. } | QueueSpec::TrimModel { .. } => true,
            QueueSpec::FairClasses { .. } => packet.transport == TRIMMING,
            _ => false,
        }
    }

    /// Records an arrival and its fates.
    fn note(&mut self, id: PacketId, lane: usize, fates: &[(PacketId, Fate)], arena: &PacketArena) {
        self.lanes[lane].push_back(id);
        for (id, fate) in fates.iter().filter(|(_, fate)| *fate != Fate::Marked) {
            for lane in &mut self.lanes {
                lane.retain(|waiting| waiting != id);
            }
            if *fate == Fate::Trimmed {
                let lane = self.lane(&arena[*id]);
                self.lanes[lane].push_back(*id);
            }
        }
    }

    fn waiting(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum()
    }
}

fn is_ecn_capable(packet: &Packet) -> bool {
    packet.flags.has(PacketFlags::ECN_CAPABLE) && !packet.flags.has(PacketFlags::ECN_MARKED)
}

proptest! {
    /// An arrival is queued if it fits beside the packet in service; otherwise its fate is the one
    /// that its discipline documents. Packets of one lane leave in order.
    #[test]
    fn every_packet_is_accounted_for(
        kind in 0usize..12,
        is_in_packets: bool,
        arrivals in prop::collection::vec(
            (64u16..9000, 0u8..3, 0u8..64, 0u8..4, any::<bool>()),
            1..200,
        ),
    ) {
        let (limit, mark_above) = match is_in_packets {
            true => (Limit::Packets(6), Limit::Packets(3)),
            false => (Limit::Bytes(Bytes::new(20_000)), Limit::Bytes(Bytes::new(9_000))),
        };
        let trim_model = |model, trim_to| QueueSpec::TrimModel {
            model,
            data: limit,
            headers: Limit::Packets(5),
            trim_to: Bytes::new(trim_to),
        };
        let spec = [
            QueueSpec::DropTail { limit },
            QueueSpec::Ecn { limit, mark_above: Limit::Packets(3) },
            QueueSpec::Ecn { limit, mark_above },
            QueueSpec::Priority { limit },
            QueueSpec::Trim { data: limit, headers: Limit::Packets(5), mark_above: None },
            QueueSpec::Trim {
                data: limit,
                headers: Limit::Packets(5),
                mark_above: Some(mark_above),
            },
            trim_model(TrimModel::Paper, 128),
            trim_model(TrimModel::Netfpga, 64),
            trim_model(TrimModel::P4, 256),
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
        queue.set_trimming(1 << TRIMMING.0);
        let mut reference = Reference::new(spec);
        let mut arena = PacketArena::default();
        for (n, (bytes, class, flags, takes, ends)) in arrivals.into_iter().enumerate() {
            let id = packet(&mut arena, bytes, Class(class), PacketFlags::from_bits(flags));
            arena[id].transport = TransportId(class & 1);
            // The flow identifies a packet, because trimming may exchange slots.
            arena[id].flow = FlowId::from(n);
            let arrival = arena[id];
            let tail = reference.lanes[DATA].back().map(|tail| arena[*tail]);
            let lane = reference.lane(&arrival);
            let mut expected = reference.expected(&arrival, &arena);
            let marks = reference.marks(&arrival, &arena);
            let may_spare =
                tail.filter(|tail| reference.may_spare(&arrival, tail, &arena));
            let spared = tail.map(|tail| reference.expected_of_trimmed(&tail, &arena));
            let in_service = reference.sending.map_or(InService::default(), |(_, bytes, is_control)| {
                InService { bytes, is_control }
            });
            let mut fates = Fates::new();
            queue.enqueue(id, in_service, &mut arena, &mut fates);
            let met: Vec<Fate> =
                fates.iter().map(|(_, fate)| *fate).filter(|fate| *fate != Fate::Marked).collect();
            let victim = fates.iter().find(|(_, fate)| *fate == Fate::Trimmed);
            let victim = victim.map(|(victim, _)| arena[*victim].flow);
            if expected.first() == Some(&Fate::Trimmed) && victim != Some(arrival.flow) {
                // The last packet was trimmed in the arrival's place.
                prop_assert_eq!(victim, may_spare.map(|tail| tail.flow));
                expected = spared.unwrap_or_default();
            }
            prop_assert_eq!(&met, &expected);
            let is_marked = fates.iter().any(|(_, fate)| *fate == Fate::Marked);
            if met.is_empty() {
                prop_assert!(marks.is_none_or(|marks| marks == is_marked), "{:?}", arrival);
                let has_mark = arena[id].flags.has(PacketFlags::ECN_MARKED);
                prop_assert_eq!(has_mark, is_marked || arrival.flags.has(PacketFlags::ECN_MARKED));
            } else {
                prop_assert!(!is_marked, "marked and {:?}", met);
            }
            reference.note(id, lane, &fates, &arena);
            for (id, fate) in fates {
                if matches!(fate, Fate::Dropped | Fate::Bounced) {
                    arena.free(id);
                }
            }
            prop_assert_eq!(queue.waiting().1 as usize, reference.waiting());
            prop_assert_eq!(arena.len(), reference.waiting());
            prop_assert_eq!(queue.is_empty(), reference.waiting() == 0);
            // One packet leaves after one arrival in four, two after another. The last of them may
            // still be in service when the next packet arrives.
            for _ in 0..[1, 2, 0, 0][usize::from(takes)] {
                let Some(id) = queue.dequeue(&arena) else { break };
                let first = reference.lane(&arena[id]);
                prop_assert_eq!(reference.lanes[first].pop_front(), Some(id), "out of order");
                let packet = &arena[id];
                let is_control = packet.class == Class::CONTROL;
                reference.sending =
                    (!ends).then_some((first, u32::from(packet.wire_bytes), is_control));
                arena.free(id);
            }
        }
    }
}
