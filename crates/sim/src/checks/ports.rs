//! Checks of every port: the link's rate, the order of each queue, the limits of each queue.

use punctual_core::{
    Class, Instant, Limit, Packet, PacketId, QueueSpec, Rate, TransportId, TrimModel,
};
use std::collections::VecDeque;

/// Lanes of a port: packets of one lane leave in the order in which they came.
pub(super) const LANES: usize = Class::COUNT;
/// Lanes of a trimming queue: headers and control packets, data, packets of other transports.
const HEADERS: usize = 0;
const DATA: usize = 1;
const REST: usize = 2;

/// A queue discipline as documented: which packets keep their order, and how much fits.
///
/// It shares no code with the disciplines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Discipline {
    spec: Option<QueueSpec>,
    /// A bit for each transport whose packets [`QueueSpec::FairClasses`] trims.
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

    /// The limit of a lane, for what waits and, by [`Discipline::counts_in_service`], what is sent.
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

    /// Whether the packet being sent, of lane `sent`, counts against the limit of `lane`.
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

/// The packets that wait in a lane, in order.
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

    /// A packet joins its lane. Returns the number of the lane.
    pub(super) fn join(&mut self, id: PacketId, packet: &Packet) -> usize {
        let number = self.discipline.lane(packet);
        let lane = &mut self.lanes[number];
        lane.ids.push_back(id);
        lane.bytes += u64::from(packet.wire_bytes);
        number
    }

    /// A packet leaves a lane. Returns whether it was there, and whether it was first.
    pub(super) fn leave(&mut self, id: PacketId, number: usize, bytes: u16) -> Left {
        let lane = &mut self.lanes[number];
        let Some(place) = lane.ids.iter().rposition(|waiting| *waiting == id) else {
            return Left::WasNotThere;
        };
        lane.ids.remove(place);
        lane.bytes = lane.bytes.saturating_sub(u64::from(bytes));
        if place == 0 { Left::First } else { Left::BeforeOthers }
    }

    /// A waiting packet changed its size, because two packets exchanged slots.
    pub(super) fn exchange(&mut self, number: usize, was: u16, is: u16) {
        let bytes = &mut self.lanes[number].bytes;
        *bytes = bytes.saturating_sub(u64::from(was)) + u64::from(is);
    }

    /// A packet is sent.
    pub(super) fn sends(&mut self, packet: &Packet) {
        self.sending = Sending { lane: self.discipline.lane(packet), bytes: packet.wire_bytes };
    }

    /// The number of waiting packets.
    pub(super) fn waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.ids.len()).sum()
    }

    /// What counts against a lane's limit without waiting: the packet being sent, if it counts.
    pub(super) fn in_service(&self, number: usize, now: Instant) -> InService {
        let is_sending = self.busy_until > now && self.sending.bytes > 0;
        if is_sending && self.discipline.counts_in_service(number, self.sending.lane) {
            InService { packets: 1, bytes: self.sending.bytes.into() }
        } else {
            InService::default()
        }
    }

    /// Says how far a lane exceeds its limit, if it does, with what was in service when it grew.
    ///
    /// Later it may exceed the limit: a larger packet of another lane may be in service.
    pub(super) fn excess(&self, number: usize, in_service: InService) -> Option<String> {
        let lane = &self.lanes[number];
        let limit = self.discipline.limit(number)?;
        let (held, most) = match limit {
            Limit::Packets(most) => (lane.ids.len() as u64 + in_service.packets, most.into()),
            Limit::Bytes(most) => (lane.bytes + in_service.bytes, most.get()),
        };
        let is_empty = lane.ids.is_empty();
        (!is_empty && held > most).then(|| format!("holds {held}, more than its limit of {limit}"))
    }
}

/// What counts against a queue's limit without waiting in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct InService {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

/// How a packet left its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    First,
    BeforeOthers,
    WasNotThere,
}
