//! What holds at every port: the link's rate, the order of each queue, what a queue may hold.

use punctual_core::{
    Class, Instant, Limit, Packet, PacketId, QueueSpec, Rate, TransportId, TrimModel,
};
use std::collections::VecDeque;

/// Lanes of a port: packets of one lane leave in the order in which they came.
pub(super) const LANES: usize = Class::COUNT;
/// Lanes of a queue that trims: headers and control packets, data, and another class beside.
const HEADERS: usize = 0;
const DATA: usize = 1;
const REST: usize = 2;

/// A queue discipline as its documentation has it: which packets keep their order, and how much
/// fits. It shares no code with the disciplines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Discipline {
    spec: Option<QueueSpec>,
    /// Transports whose packets are trimmed where classes share a link, a bit each.
    trimming: u64,
}

impl Discipline {
    /// The queue of a switch port.
    pub(super) fn switch(spec: QueueSpec, trimming: u64) -> Self {
        Discipline { spec: Some(spec), trimming }
    }

    /// The queue of a NIC: classes in strict order, without a limit.
    pub(super) const NIC: Discipline = Discipline { spec: None, trimming: 0 };

    /// The lane of a packet.
    pub(super) fn lane(&self, packet: &Packet) -> usize {
        let by_class = usize::from(packet.class.0) % Class::COUNT;
        let by_kind = if packet.class == Class::CONTROL { HEADERS } else { DATA };
        match self.spec {
            Some(
                QueueSpec::DropTail { .. } | QueueSpec::Ecn { .. } | QueueSpec::CutPayload { .. },
            ) => 0,
            Some(QueueSpec::Trim { .. } | QueueSpec::TrimModel { .. }) => by_kind,
            Some(QueueSpec::FairClasses { .. }) if self.is_trimming(packet.transport) => by_kind,
            Some(QueueSpec::FairClasses { .. }) => REST,
            _ => by_class,
        }
    }

    fn is_trimming(&self, transport: TransportId) -> bool {
        self.trimming >> (transport.0 & 63) & 1 == 1
    }

    /// What fits into a lane, with the packet being sent if that is of the same lane or if all
    /// lanes share the limit.
    fn limit(&self, lane: usize) -> Option<Limit> {
        match self.spec? {
            QueueSpec::DropTail { limit }
            | QueueSpec::Ecn { limit, .. }
            | QueueSpec::Priority { limit }
            | QueueSpec::CutPayload { limit, .. } => Some(limit),
            QueueSpec::Trim { data, headers, .. } | QueueSpec::TrimModel { data, headers, .. } => {
                Some(if lane == HEADERS { headers } else { data })
            }
            QueueSpec::FairClasses { trim_data, trim_headers, rest, .. } => Some(match lane {
                HEADERS => trim_headers,
                DATA => trim_data,
                _ => rest,
            }),
            _ => None,
        }
    }

    /// Whether the packet being sent, of lane `sent`, takes up room of lane `lane`.
    fn counts_in_service(&self, lane: usize, sent: usize) -> bool {
        match self.spec {
            Some(QueueSpec::TrimModel { model: TrimModel::P4, .. }) if lane == DATA => false,
            Some(QueueSpec::Priority { .. }) => true,
            _ => lane == sent,
        }
    }
}

/// A packet that is being sent.
#[derive(Debug, Clone, Copy, Default)]
struct Sending {
    lane: usize,
    bytes: u16,
}

/// A port and its link.
#[derive(Debug, Clone)]
pub(super) struct PortCheck {
    pub(super) rate: Rate,
    pub(super) busy_until: Instant,
    pub(super) is_cut: bool,
    discipline: Discipline,
    lanes: [Lane; LANES],
    sending: Sending,
}

/// What waits of a lane, in order.
#[derive(Debug, Clone, Default)]
struct Lane {
    ids: VecDeque<PacketId>,
    bytes: u64,
}

impl PortCheck {
    pub(super) fn new(rate: Rate, discipline: Discipline) -> Self {
        PortCheck {
            rate,
            busy_until: Instant::ZERO,
            is_cut: false,
            discipline,
            lanes: Default::default(),
            sending: Sending::default(),
        }
    }

    /// A packet joins its lane, which it is in from now on.
    pub(super) fn join(&mut self, id: PacketId, packet: &Packet) -> usize {
        let number = self.discipline.lane(packet);
        let lane = &mut self.lanes[number];
        lane.ids.push_back(id);
        lane.bytes += u64::from(packet.wire_bytes);
        number
    }

    /// A packet leaves a lane: first, if it waited its turn. Whether it was there, and first.
    pub(super) fn leave(&mut self, id: PacketId, number: usize, bytes: u16) -> Left {
        let lane = &mut self.lanes[number];
        let Some(place) = lane.ids.iter().rposition(|waiting| *waiting == id) else {
            return Left::WasNotThere;
        };
        lane.ids.remove(place);
        lane.bytes = lane.bytes.saturating_sub(u64::from(bytes));
        if place == 0 { Left::First } else { Left::BeforeOthers }
    }

    /// The bytes of two waiting packets were exchanged.
    pub(super) fn exchange(&mut self, number: usize, was: u16, is: u16) {
        let bytes = &mut self.lanes[number].bytes;
        *bytes = bytes.saturating_sub(u64::from(was)) + u64::from(is);
    }

    /// A packet is sent.
    pub(super) fn sends(&mut self, packet: &Packet) {
        self.sending = Sending { lane: self.discipline.lane(packet), bytes: packet.wire_bytes };
    }

    /// Packets that wait.
    pub(super) fn waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.ids.len()).sum()
    }

    /// What takes up room in a lane without waiting there: the packet being sent, if it counts.
    pub(super) fn in_service(&self, number: usize, now: Instant) -> InService {
        let is_sending = self.busy_until > now && self.sending.bytes > 0;
        if is_sending && self.discipline.counts_in_service(number, self.sending.lane) {
            InService { packets: 1, bytes: self.sending.bytes.into() }
        } else {
            InService::default()
        }
    }

    /// How far a lane that has grown exceeds its limit, if it does, with what was in service then.
    /// Later it may: a larger packet may be sent, of another lane.
    pub(super) fn excess(&self, number: usize, in_service: InService) -> Option<String> {
        let lane = &self.lanes[number];
        let limit = self.discipline.limit(number)?;
        let (held, most) = match limit {
            Limit::Packets(most) => (lane.ids.len() as u64 + in_service.packets, most.into()),
            Limit::Bytes(most) => (lane.bytes + in_service.bytes, most.get()),
        };
        let is_empty = lane.ids.is_empty();
        (!is_empty && held > most).then(|| format!("holds {held} where {limit} fit"))
    }
}

/// What takes up room in a queue without waiting there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InService {
    packets: u64,
    bytes: u64,
}

/// How a packet left its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    First,
    BeforeOthers,
    WasNotThere,
}
