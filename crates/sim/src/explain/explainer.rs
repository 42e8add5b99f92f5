//! The observer that follows flows and builds their chains of causes.

use super::chain::{Again, Cause, Hop, Node, Trip};
use super::flows::{Followed, Lost};
use super::logs::{Entry, Log, Names};
use super::walk;
use super::{Behind, Explanation, What};
use crate::setup::Setup;
use crate::tap::{CallReason, Ending, Findings, Loss, Observation, PacketFate, Tap};
use punctual_core::{
    Duration, End, FlowEvent, FlowId, FlowSpec, Header, HostId, Instant, Packet, PacketId, PortId,
    TimerChange, TransportId, TransportSet, Wait,
};
use punctual_record::FlowStatus;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Follows some flows of a run and explains each when it ends.
#[derive(Debug)]
pub(crate) struct Explainer {
    now: Instant,
    hosts: Vec<HostFacts>,
    wanted: Vec<FlowId>,
    followed: BTreeMap<FlowId, Followed>,
    /// Packets of followed flows that are in the network, by slot.
    live: Vec<Option<Box<Live>>>,
    ports: Vec<Log>,
    /// The packet that was queued last.
    queued_last: Option<(PacketId, FlowId, Header)>,
    /// Ports of switches that run no controllers.
    legacy: Vec<bool>,
    /// Pulls and tokens that hosts have sent, by host and transport.
    turns: BTreeMap<(HostId, TransportId), Log>,
    call: Call,
    explained: Vec<Explanation>,
}

#[derive(Debug, Clone, Copy)]
struct HostFacts {
    nic: PortId,
    /// The port that sends to it.
    to_host: PortId,
    /// Transmission time of a full packet on its link.
    packet_time: Duration,
}

/// The current call.
#[derive(Debug, Default)]
enum Call {
    /// To an end that is not followed.
    #[default]
    Other,
    /// To an end of a followed flow.
    Flow(FlowCall),
    /// To the shared state of a host.
    Host(HostId),
}

#[derive(Debug)]
struct FlowCall {
    flow: FlowId,
    node: Rc<Node>,
    set_host_timer: bool,
    /// Data packets created so far that were not reported as retransmissions.
    made: Vec<PacketId>,
    /// Reported retransmissions whose packets are still to be created.
    again: u32,
}

/// A packet in the network.
#[derive(Debug)]
struct Live {
    flow: FlowId,
    made: Rc<Node>,
    trip: Trip,
    /// The port it waits at, since when, and where in the port's log that begins.
    waiting: Option<(PortId, Instant, u64)>,
}

const QUEUE_NAMES: Names = Names { behind_others: What::Queue, idle: What::LinkPaused };
const NIC_NAMES: Names = Names { behind_others: What::Nic, idle: What::LinkPaused };

impl Explainer {
    /// An observer that follows these flows.
    pub(crate) fn new<S: TransportSet>(setup: &Setup<S>, flows: &[FlowId]) -> Self {
        let network = &setup.network;
        let facts = |host| {
            let nic = network.nic_info(HostId(host));
            let packet_time = nic.total_rate().transmission_time(nic.mtu + nic.framing);
            let nic = network.nic(HostId(host));
            HostFacts { nic, to_host: network.link(nic).twin, packet_time }
        };
        let mut wanted = flows.to_vec();
        wanted.sort();
        Explainer {
            now: Instant::ZERO,
            hosts: (0..network.hosts).map(facts).collect(),
            wanted,
            followed: BTreeMap::new(),
            live: Vec::new(),
            ports: std::iter::repeat_with(Log::default).take(network.links.len()).collect(),
            legacy: network
                .links
                .iter()
                .map(|link| setup.legacy_switches.contains(&link.from))
                .collect(),
            queued_last: None,
            turns: BTreeMap::new(),
            call: Call::Other,
            explained: Vec::new(),
        }
    }

    fn live(&mut self, id: PacketId) -> Option<&mut Live> {
        self.live.get_mut(id.index())?.as_deref_mut()
    }

    fn take_live(&mut self, id: PacketId) -> Option<Box<Live>> {
        let mut live = self.live.get_mut(id.index())?.take()?;
        if let Some((port, ..)) = live.waiting.take() {
            self.ports[port.index()].end();
        }
        Some(live)
    }

    /// The current call, if it is to this flow.
    fn call_of(&mut self, flow: FlowId) -> Option<&mut FlowCall> {
        match &mut self.call {
            Call::Flow(call) if call.flow == flow => Some(call),
            _ => None,
        }
    }

    /// A call begins.
    fn begin(&mut self, flow: FlowId, end: End, node: Rc<Node>) {
        if let Some(followed) = self.followed.get_mut(&flow) {
            followed.end(end).last = Some(node.clone());
            let (set_host_timer, made, again) = (false, Vec::new(), 0);
            self.call = Call::Flow(FlowCall { flow, node, set_host_timer, made, again });
        }
    }

    /// The call in which a packet of a flow is created.
    fn maker(&mut self, packet: &Packet) -> Option<Rc<Node>> {
        if let Some(call) = self.call_of(packet.flow) {
            return Some(call.node.clone());
        }
        // A host timer created it for the flow.
        let followed = self.followed.get_mut(&packet.flow)?;
        let end = if packet.is_to_sender() { End::Receiver } else { End::Sender };
        let names = match followed.end(end).wait {
            Wait::Token => Names { behind_others: What::Token, idle: What::Token },
            _ => Names { behind_others: What::Pull, idle: What::Pull },
        };
        let key = (followed.spec.dst, packet.transport);
        let node = match followed.turns.pop_front() {
            Some((since, start)) => {
                let log = self.turns.entry(key).or_default();
                log.end();
                let time = (since.at, self.now);
                let port = self.hosts[followed.spec.dst.index()].to_host;
                let stretches = log.split(start, packet.flow, time, Some(port), names);
                Node::new(self.now, Some(since), Cause::Wait(stretches))
            }
            None => {
                let last = followed.end(end).last.clone();
                let since = last.or_else(|| followed.last().cloned())?;
                Node::after(self.now, since, What::Timer)
            }
        };
        followed.end(end).last = Some(node.clone());
        Some(node)
    }

    /// A host timer sends a pull or token for a flow.
    fn takes_turn(&mut self, host: HostId, packet: &Packet, node: Option<&Rc<Node>>) {
        let packet_time = self.hosts[host.index()].packet_time;
        let log = self.turns.entry((host, packet.transport)).or_default();
        log.end_last(self.now);
        let until = self.now.saturating_add(packet_time);
        log.push(Entry { flow: packet.flow, from: self.now, until, bytes: 1 });
        // A flow waits for its next token from the last one on. A pull waits from an arrival on.
        if let (Some(node), Some(followed)) = (node, self.followed.get_mut(&packet.flow))
            && followed.receiver.wait == Wait::Token
        {
            followed.turns.push_back((node.clone(), log.begin(self.now)));
        }
    }

    fn finish(&mut self, flow: FlowId, status: FlowStatus, with_call: bool) {
        let call = self.call_of(flow).filter(|_| with_call).map(|call| call.node.clone());
        let Some(mut followed) = self.followed.remove(&flow) else { return };
        if let Some(log) = self.turns.get_mut(&(followed.spec.dst, followed.spec.transport)) {
            followed.turns.drain(..).for_each(|_| log.end());
        }
        if followed.ready.take().is_some() {
            self.ports[followed.nic.index()].end();
        }
        self.explained.push(walk::explain(&mut followed, status, self.now, call.as_ref()));
    }

    /// A data packet is the retransmission of the oldest missing one.
    fn mark_again(&mut self, flow: FlowId, id: PacketId) {
        let Some(followed) = self.followed.get_mut(&flow) else { return };
        let lost = followed.losses.pop_front();
        if let (Some(lost), Some(live)) = (lost, self.live(id)) {
            live.trip.again = Some(lost.again);
        }
    }
}

impl Tap for Explainer {
    const FOLLOWS: bool = true;

    fn follows(&self, flow: FlowId) -> bool {
        self.followed.contains_key(&flow)
    }

    #[inline(always)]
    fn observe(&mut self, what: Observation<'_>) {
        match what {
            Observation::EventBegins { at } => self.event_begins(at),
            Observation::FlowStarted { spec } => self.flow_started(spec),
            Observation::TransportCalled(reason) => self.transport_called(reason),
            Observation::TimerChanged { flow, end, change } => {
                self.timer_changed(flow, end, change);
            }
            Observation::HostTimerChangedFor { flow } => self.host_timer_changed_for(flow),
            Observation::SenderReady { flow, nic } => self.sender_ready(flow, nic),
            Observation::FlowEvent { flow, event } => self.flow_event(flow, event),
            Observation::EndWaits { flow, end, wait, ahead } => {
                self.end_waits(flow, end, wait, ahead);
            }
            Observation::PacketCreated { id, packet } => self.packet_created(id, packet),
            Observation::PacketQueued { port, id, packet } => self.packet_queued(port, id, packet),
            Observation::PacketSent { port, id, packet, from, until, .. } => {
                self.packet_sent(port, id, packet, from, until);
            }
            Observation::PacketFate { port, id, packet, fate } => match fate {
                PacketFate::Trimmed { tail } => self.packet_trimmed(port, id, packet, tail),
                PacketFate::Bounced => self.packet_bounced(port, id),
                PacketFate::Lost(loss) => self.packet_lost(port, id, packet, loss),
                PacketFate::Marked => {}
            },
            Observation::PacketArrived { id, packet, at } => self.packet_arrived(id, packet, at),
            _ => {}
        }
    }

    fn conclude(&mut self, end: &Ending<'_>, findings: &mut Findings) {
        self.now = end.at;
        let left: Vec<FlowId> = self.followed.keys().copied().collect();
        for flow in left {
            self.finish(flow, FlowStatus::Unfinished, false);
        }
        self.explained.sort_by_key(|explained| explained.flow);
        findings.explained.append(&mut self.explained);
    }
}

impl Explainer {
    #[inline]
    fn event_begins(&mut self, at: Instant) {
        self.now = at;
        self.call = Call::Other;
    }

    fn flow_started(&mut self, spec: &FlowSpec) {
        self.call = Call::Other;
        if self.wanted.binary_search(&spec.id).is_err() {
            return;
        }
        let nic = self.hosts[spec.src.index()].nic;
        self.followed.insert(spec.id, Followed::new(*spec, nic));
        self.begin(spec.id, End::Sender, Node::new(self.now, None, Cause::Start));
    }

    fn transport_called(&mut self, reason: CallReason) {
        self.call = Call::Other;
        let (flow, end) = match reason {
            CallReason::Timer(flow, end) => (flow, end),
            CallReason::Polled(flow, _) | CallReason::Deadline(flow) => (flow, End::Sender),
            CallReason::HostTimer(host) => {
                self.call = Call::Host(host);
                return;
            }
        };
        let Some(followed) = self.followed.get_mut(&flow) else { return };
        let node = match (reason, followed.ready.is_some()) {
            (CallReason::Timer(..), _) => followed.timer_fired(end, self.now),
            (CallReason::Polled(..), true) => followed.ready.take().map(|(since, start)| {
                let log = &mut self.ports[followed.nic.index()];
                log.end();
                let (time, port) = ((since.at, self.now), Some(followed.nic));
                let stretches = log.split(start, flow, time, port, NIC_NAMES);
                Node::new(self.now, Some(since), Cause::Wait(stretches))
            }),
            _ => followed.sender.last.clone().map(|last| Node::after(self.now, last, What::Timer)),
        };
        if let Some(node) = node {
            self.begin(flow, end, node);
        }
    }

    fn packet_created(&mut self, id: PacketId, packet: &Packet) {
        let flow = packet.flow;
        let made = self.maker(packet);
        if let Call::Host(host) = self.call {
            self.takes_turn(host, packet, made.as_ref());
        }
        if self.live.len() <= id.index() {
            self.live.resize_with(id.index() + 1, || None);
        }
        let Some(made) = made else { return };
        let is_data = packet.payload_bytes > 0 && !packet.is_to_sender();
        let trip = Trip { has_data: is_data, ..Trip::default() };
        let live = Live { flow, made: made.clone(), trip, waiting: None };
        self.live[id.index()] = Some(Box::new(live));
        if !is_data {
            return;
        }
        if let Some(followed) = self.followed.get_mut(&flow) {
            followed.last_data = Some(made);
        }
        let Some(call) = self.call_of(flow) else { return };
        if call.again > 0 {
            call.again -= 1;
            self.mark_again(flow, id);
        } else {
            call.made.push(id);
        }
    }

    fn timer_changed(&mut self, flow: FlowId, end: End, change: TimerChange) {
        let Call::Flow(call) = &self.call else { return };
        if call.flow == flow
            && let Some(followed) = self.followed.get_mut(&flow)
        {
            followed.timer_set(end, change, &call.node);
        }
    }

    fn host_timer_changed_for(&mut self, flow: FlowId) {
        if let Some(call) = self.call_of(flow) {
            call.set_host_timer = true;
        }
    }

    fn sender_ready(&mut self, flow: FlowId, nic: PortId) {
        let Call::Flow(call) = &self.call else { return };
        if call.flow == flow
            && let Some(followed) = self.followed.get_mut(&flow)
            && followed.ready.is_none()
        {
            followed.nic = nic;
            let start = self.ports[nic.index()].begin(self.now);
            followed.ready = Some((call.node.clone(), start));
        }
    }

    fn flow_event(&mut self, flow: FlowId, event: FlowEvent) {
        match event {
            FlowEvent::TimedOut => {
                let Call::Flow(call) = &self.call else { return };
                if let Some(followed) = self.followed.get_mut(&flow)
                    && call.flow == flow
                {
                    followed.timed_out(&call.node);
                }
            }
            FlowEvent::Retransmitted(_) => {
                let Some(call) = self.call_of(flow) else { return };
                match call.made.pop() {
                    Some(id) => self.mark_again(flow, id),
                    None => call.again += 1,
                }
            }
            FlowEvent::Delivered(range) => {
                if let Some(followed) = self.followed.get_mut(&flow) {
                    followed.delivered(self.now, range.len);
                }
            }
            FlowEvent::Completed => self.finish(flow, FlowStatus::Completed, true),
            FlowEvent::Abandoned => self.finish(flow, FlowStatus::Abandoned, true),
            _ => {}
        }
    }

    fn end_waits(&mut self, flow: FlowId, end: End, wait: Wait, ahead: &[FlowId]) {
        let Call::Flow(call) = &self.call else { return };
        let Some(followed) = self.followed.get_mut(&flow).filter(|_| call.flow == flow) else {
            return;
        };
        if end == End::Sender {
            let mut behind = Behind::default();
            ahead.iter().for_each(|&other| behind.add(other, 0));
            behind.settle();
            followed.sender_waits(wait, behind, &call.node);
            return;
        }
        followed.receiver.wait = wait;
        let waits_for_turn = match wait {
            Wait::Pull => call.set_host_timer,
            Wait::Token => followed.turns.is_empty(),
            _ => false,
        };
        if waits_for_turn {
            let key = (followed.spec.dst, followed.spec.transport);
            let start = self.turns.entry(key).or_default().begin(self.now);
            followed.turns.push_back((call.node.clone(), start));
        }
    }

    fn packet_queued(&mut self, port: PortId, id: PacketId, packet: &Packet) {
        self.queued_last = Some((id, packet.flow, packet.header));
        let now = self.now;
        if self.live(id).is_none() {
            return;
        }
        let start = self.ports[port.index()].begin(now);
        if let Some(live) = self.live(id) {
            live.waiting = Some((port, now, start));
        }
    }

    fn packet_sent(
        &mut self,
        port: PortId,
        id: PacketId,
        packet: &Packet,
        from: Instant,
        until: Instant,
    ) {
        if let Some(live) = self.live.get_mut(id.index()).and_then(Option::as_deref_mut) {
            let log = &mut self.ports[port.index()];
            let (came, waits) = match live.waiting.take() {
                Some((_, since, start)) => {
                    log.end();
                    let time = (since, from.max(since));
                    (since, log.split(start, live.flow, time, Some(port), QUEUE_NAMES))
                }
                None => (from, Vec::new()),
            };
            live.trip.hops.push(Hop { port, came, waits, from, until });
            if live.trip.has_data
                && let Some(followed) = self.followed.get_mut(&live.flow)
                && followed.nic == port
            {
                followed.nic_until = until;
            }
        }
        let bytes = u32::from(packet.wire_bytes);
        self.ports[port.index()].push(Entry { flow: packet.flow, from, until, bytes });
    }

    /// A packet was trimmed that may have exchanged slots with the one in `tail`.
    fn may_have_swapped(&mut self, id: PacketId, packet: &Packet, tail: PacketId) {
        let is_here = |(queued, flow, header): (PacketId, FlowId, Header)| {
            queued == id && (flow, header) == (packet.flow, packet.header)
        };
        if self.queued_last.is_none_or(is_here) {
            return;
        }
        let last = tail.index().max(id.index());
        if self.live.len() <= last {
            self.live.resize_with(last + 1, || None);
        }
        self.live.swap(tail.index(), id.index());
    }

    fn packet_trimmed(
        &mut self,
        port: PortId,
        id: PacketId,
        packet: &Packet,
        tail: Option<PacketId>,
    ) {
        if let Some(tail) = tail {
            self.may_have_swapped(id, packet, tail);
        }
        let Some(live) = self.live(id) else { return };
        let (made, first) = (live.made.clone(), live.trip.again);
        let first_made = first.map_or(made.at, |again| again.first_made);
        let again = Again { first_made, port: Some(port), trimmed: true };
        if let Some(followed) = self.followed.get_mut(&packet.flow) {
            followed.losses.push_back(Lost { made, again });
        }
    }

    fn packet_bounced(&mut self, port: PortId, id: PacketId) {
        let now = self.now;
        let Some(live) = self.live.get_mut(id.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        if let Some((_, came, start)) = live.waiting.take() {
            let log = &mut self.ports[port.index()];
            log.end();
            let waits = log.split(start, live.flow, (came, now), Some(port), QUEUE_NAMES);
            live.trip.hops.push(Hop { port, came, waits, from: now, until: now });
        }
    }

    fn packet_lost(&mut self, port: PortId, id: PacketId, packet: &Packet, loss: Loss) {
        let Some(live) = self.take_live(id) else { return };
        let Some(followed) = self.followed.get_mut(&live.flow) else { return };
        if loss == Loss::Stray {
            return;
        }
        if !live.trip.has_data {
            followed.lost_control = Some((live.made, port));
        } else if !packet.is_trimmed() {
            let first_made = live.trip.again.map_or(live.made.at, |again| again.first_made);
            let again = Again { first_made, port: Some(port), trimmed: false };
            followed.losses.push_back(Lost { made: live.made, again });
        }
    }

    fn packet_arrived(&mut self, id: PacketId, packet: &Packet, at: Instant) {
        self.call = Call::Other;
        let Some(live) = self.take_live(id) else { return };
        if let Some(followed) = self.followed.get_mut(&packet.flow) {
            let end = if packet.is_to_sender() { End::Sender } else { End::Receiver };
            if end == End::Receiver {
                let ports = live.trip.hops.iter().map(|hop| hop.port);
                followed.route.clear();
                followed.route.extend(ports.filter(|port| !self.legacy[port.index()]));
            }
            let node = Node::new(at, Some(live.made), Cause::Trip(Box::new(live.trip)));
            self.begin(packet.flow, end, node);
        }
    }
}
