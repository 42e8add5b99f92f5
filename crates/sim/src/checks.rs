//! Checks invariants while a simulation runs.
//!
//! * Packets and bytes are conserved; each byte is delivered once, and only if it arrived.
//! * No link exceeds its rate; no queue exceeds its limit or reorders packets of a lane.
//! * Packets move from node to node along shortest paths, or along the paths that the network lists.
//! * Paused ports wait; no port grants more than its capacity and one share.
//! * Each retransmission is recorded once, with its cause.
//! * No flow is stuck, and time never goes back.
//!
//! The checker keeps its own state from what the engine reports ([`Observation`]), and shares no
//! code with what it checks.

mod flows;
mod packets;
mod paths;
mod pauses;
mod ports;
mod routes;
mod stuck;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wiring_tests;

use crate::setup::Setup;
use crate::state::transports_that;
use crate::tap::{CallReason, Ending, Findings, Loss, Observation, PacketFate, Tap};
use flows::{FlowCheck, SILENT_FIRINGS_MAX, VAIN_PACKETS_MAX};
use packets::{Grown, PacketCheck, Place};
use paths::ListedPaths;
use pauses::{BufferCheck, BufferLimits, IngressCheck, PauseCheck};
use ports::{Discipline, PortCheck};
use punctual_core::{
    Class, ControllerState, End, FlowEvent, FlowId, FlowSpec, HostId, Instant, NodeId, Packet,
    PacketId, PortId, QueueSpec, Rate, TimerChange, TransportId, TransportSet,
};
use punctual_net::{Link, Network, PAUSE_FRAME_BYTES};
use routes::Distances;
use std::collections::HashSet;

/// Violations beyond this many are counted but not kept.
const VIOLATIONS_KEPT: usize = 20;

/// The observer that checks the invariants of a run.
#[derive(Debug)]
pub(crate) struct Checks {
    now: Instant,
    framing: u64,
    links: Vec<Link>,
    names: Vec<String>,
    hosts: u32,
    distances: Distances,
    /// Checks paths instead of `distances` where not all are shortest.
    listed_paths: Option<ListedPaths>,
    ports: Vec<PortCheck>,
    pauses: Vec<PauseCheck>,
    /// By port: packets that came over the port's link and wait in the switch at its end.
    ingresses: Vec<IngressCheck>,
    /// By node.
    buffers: Vec<BufferCheck>,
    buffer_limits: Option<BufferLimits>,
    /// A bit for each transport whose senders may abandon a flow.
    may_abandon: u64,
    /// Packets in the network, by slot.
    packets: Vec<Option<PacketCheck>>,
    flows: Vec<FlowCheck>,
    /// Host timers, shared by the flows of a transport at a host, that are set.
    host_timers: HashSet<(TransportId, HostId)>,
    /// How often each host timer was cleared or has fired, by transport, then host.
    host_firings: Vec<Vec<u64>>,
    /// Lanes that grew during the current event; their limits are checked when it is over.
    grown: Vec<Grown>,
    made: u64,
    arrived: u64,
    lost: u64,
    /// Packets that arrived or were lost since a byte was last delivered or a flow started.
    vain_packets: u64,
    violations: Vec<String>,
    violation_count: u64,
}

impl Checks {
    pub(crate) fn new<S: TransportSet>(setup: &Setup<S>) -> Self {
        let trimming = transports_that(&setup.transports, S::is_trimmable);
        let sized = |queue: &QueueSpec| queue.sized_for(setup.network.mtu);
        let own: Vec<QueueSpec> = setup.port_queues.iter().map(sized).collect();
        let may_abandon = transports_that(&setup.transports, S::may_abandon);
        let checks = Checks::of(&setup.network, sized(&setup.switch_queue), &own, trimming);
        Checks { may_abandon, ..checks }
    }

    /// `port_queues` has the queue of each port, by port; ports beyond it have `switch_queue`.
    fn of(
        network: &Network,
        switch_queue: QueueSpec,
        port_queues: &[QueueSpec],
        trimming: u64,
    ) -> Self {
        let is_lossless = matches!(switch_queue, QueueSpec::Lossless { .. });
        let has_nic_queues = !network.hosts_forward() || is_lossless;
        let ports = network.links.iter().enumerate().map(|(port, link)| {
            let is_nic = link.from.0 < network.hosts;
            let own = port_queues.get(port).copied().unwrap_or(switch_queue);
            let discipline = match is_nic && has_nic_queues {
                true => Discipline::NIC,
                false => Discipline::switch(own, trimming),
            };
            PortCheck::new(link.rate, discipline)
        });
        let buffer_limits = match switch_queue {
            QueueSpec::Lossless { buffer, pause_above, .. } => {
                Some(BufferLimits { buffer: buffer.get(), pause_above: pause_above.get() })
            }
            _ => None,
        };
        let count = network.links.len();
        Checks {
            now: Instant::ZERO,
            framing: network.framing.get(),
            names: (0..count).map(|port| network.port_name(PortId::from(port))).collect(),
            hosts: network.hosts,
            distances: Distances::new(network),
            listed_paths: (!network.has_equal_paths()).then(|| ListedPaths::new(network)),
            ports: ports.collect(),
            links: network.links.clone(),
            pauses: vec![PauseCheck::default(); count],
            ingresses: vec![IngressCheck::default(); count],
            buffers: vec![BufferCheck::default(); network.names.len()],
            buffer_limits,
            may_abandon: u64::MAX,
            packets: Vec::new(),
            flows: Vec::new(),
            host_timers: HashSet::new(),
            host_firings: Vec::new(),
            grown: Vec::new(),
            made: 0,
            arrived: 0,
            lost: 0,
            vain_packets: 0,
            violations: Vec::new(),
            violation_count: 0,
        }
    }

    fn name(&self, port: PortId) -> String {
        self.names[port.index()].clone()
    }

    fn link(&self, port: PortId) -> &Link {
        &self.links[port.index()]
    }

    fn flow(&mut self, flow: FlowId) -> &mut FlowCheck {
        if self.flows.len() <= flow.index() {
            self.flows.resize_with(flow.index() + 1, FlowCheck::default);
        }
        &mut self.flows[flow.index()]
    }

    fn report(&mut self, what: String) {
        self.violation_count += 1;
        if self.violations.len() < VIOLATIONS_KEPT {
            self.violations.push(format!("{} ({})", what, self.now));
        }
    }

    fn report_of(&mut self, flow: FlowId, wrong: Vec<String>) {
        for what in wrong {
            self.report(format!("flow {flow} {what}"));
        }
    }
}

impl Tap for Checks {
    const WATCHES_CONTROLLERS: bool = true;

    #[inline(always)]
    fn observe(&mut self, what: Observation<'_>) {
        match what {
            Observation::EventBegins { at } => self.event_begins(at),
            Observation::FlowStarted { spec } => self.flow_started(spec),
            Observation::TransportCalled(reason) => self.transport_called(reason),
            Observation::TimerChanged { flow, end, change } => {
                self.timer_changed(flow, end, change);
            }
            Observation::HostTimerChanged { transport, host, is_set } => {
                self.host_timer_changed(transport, host, is_set);
            }
            Observation::SenderReady { flow, nic } => self.sender_ready(flow, nic),
            Observation::FlowEvent { flow, event } => self.flow_event(flow, event),
            Observation::PacketCreated { id, packet } => self.packet_created(id, packet),
            Observation::PacketControlled { port, before, after } => {
                self.packet_controlled(port, before, after);
            }
            Observation::PacketQueued { port, id, packet } => self.packet_queued(port, id, packet),
            Observation::PacketSent { port, id, packet, from, until, waited } => {
                self.packet_sent(port, id, packet, from, until, waited);
            }
            Observation::PacketFate { port, id, packet, fate } => match fate {
                PacketFate::Trimmed { tail } => self.packet_trimmed(port, id, packet, tail),
                PacketFate::Bounced => self.packet_bounced(port, id),
                PacketFate::Lost(loss) => self.packet_lost(port, id, packet, loss),
                PacketFate::Marked => {}
            },
            Observation::PacketArrived { id, packet, .. } => self.packet_arrived(id, packet),
            Observation::PauseSent { port, from, until, class, is_pause } => {
                self.pause_sent(port, from, until, class, is_pause);
            }
            Observation::ClassPaused { port, class, is_pause } => {
                self.class_paused(port, class, is_pause);
            }
            Observation::RateChanged { port, rate } => self.rate_changed(port, rate),
            Observation::LinkCut { port, is_cut } => self.link_cut(port, is_cut),
            _ => {}
        }
    }

    fn is_stuck(&self) -> bool {
        self.vain_packets >= VAIN_PACKETS_MAX
    }

    fn conclude(&mut self, end: &Ending<'_>, findings: &mut Findings) {
        self.settle();
        for (port, &in_queue) in end.waiting.iter().enumerate() {
            let counted = self.ports[port].waiting();
            if counted != in_queue as usize {
                let name = self.name(PortId::from(port));
                self.report(format!(
                    "port {name} holds {in_queue} packets, but {counted} were queued and not \
                     dequeued"
                ));
            }
        }
        let unaccounted = self.made - self.arrived - self.lost;
        if unaccounted != end.alive as u64 {
            let alive = end.alive;
            self.report(format!(
                "{alive} packets are in the network, but {unaccounted} were created and neither \
                 arrived nor were lost"
            ));
        }
        for record in end.flows {
            let wrong = self.flow(record.spec.id).is_recorded(record);
            self.report_of(record.spec.id, wrong);
        }
        self.find_stuck_flows();
        if self.violation_count > VIOLATIONS_KEPT as u64 {
            let more = self.violation_count - VIOLATIONS_KEPT as u64;
            self.violations.push(format!("and {more} more"));
        }
        findings.violations.append(&mut self.violations);
    }
}

impl Checks {
    /// Checks that the sum of grants exceeds the capacity by one share at most (D3-R41).
    ///
    /// The port checks for room before it adds the share, so that one request may exceed the
    /// capacity. Above that the sum only falls. The share is the fair share, or for a new flow the
    /// base rate, which may be more (D3-R15).
    fn packet_controlled(
        &mut self,
        port: PortId,
        before: &ControllerState,
        after: &ControllerState,
    ) {
        let spare = after.capacity.saturating_sub(after.demand);
        let fair_share = Rate::from_bps(spare.as_bps() / after.flows.max(1));
        let share = fair_share.max(after.share_min);
        let most = after.capacity.saturating_add(share).max(before.allocated);
        if after.allocated > most {
            let name = self.name(port);
            self.report(format!("port {name} has granted {}, more than {most}", after.allocated));
        }
    }

    fn event_begins(&mut self, at: Instant) {
        self.settle();
        if at < self.now {
            self.report(format!("time went back to {at}"));
        }
        self.now = at;
    }

    fn flow_started(&mut self, spec: &FlowSpec) {
        self.flow(spec.id).spec = Some(*spec);
        self.vain_packets = 0;
    }

    fn transport_called(&mut self, reason: CallReason) {
        match reason {
            CallReason::Timer(flow, end) => {
                if self.flow(flow).fires(end) {
                    self.report(format!(
                        "flow {flow} is stuck: its timers fired {SILENT_FIRINGS_MAX} times, and \
                         it sent nothing"
                    ));
                }
                self.touch(flow);
            }
            CallReason::Polled(flow, nic) => {
                if !self.flow(flow).is_polled(nic) {
                    let name = self.name(nic);
                    self.report(format!("port {name} polled flow {flow}, which is not ready"));
                }
                self.touch(flow);
            }
            CallReason::Deadline(_) | CallReason::HostTimer(_) => {}
        }
    }

    fn timer_changed(&mut self, flow: FlowId, end: End, change: TimerChange) {
        self.flow(flow).set_timer(end, change);
        self.touch(flow);
    }

    fn host_timer_changed(&mut self, transport: TransportId, host: HostId, is_set: bool) {
        match is_set {
            true => self.host_timers.insert((transport, host)),
            false => self.host_timers.remove(&(transport, host)),
        };
        if !is_set {
            *self.firings_at(transport, host) += 1;
        }
    }

    fn sender_ready(&mut self, flow: FlowId, nic: PortId) {
        self.flow(flow).is_ready_for(nic);
    }

    fn flow_event(&mut self, flow: FlowId, event: FlowEvent) {
        let check = self.flow(flow);
        let wrong = match event {
            FlowEvent::Delivered(range) => {
                let wrong = check.delivers(range);
                self.vain_packets = 0;
                wrong
            }
            FlowEvent::Completed => check.completes(),
            FlowEvent::Retransmitted(cause) => check.retransmits(cause),
            FlowEvent::Finished => {
                check.ended = true;
                return;
            }
            FlowEvent::Abandoned => {
                self.abandoned(flow);
                return;
            }
            _ => return,
        };
        self.report_of(flow, wrong);
    }

    fn abandoned(&mut self, flow: FlowId) {
        self.flow(flow).ended = true;
        if let Some(spec) = self.flow(flow).spec
            && self.may_abandon >> (spec.transport.0 & 63) & 1 == 0
        {
            self.report(format!(
                "flow {flow} was abandoned, but its transport declares that it never abandons"
            ));
        }
    }

    fn packet_created(&mut self, id: PacketId, packet: &Packet) {
        self.made += 1;
        let flow = self.flow(packet.flow);
        flow.made += 1;
        flow.silent_firings = 0;
        let ends = flow.spec.map(|spec| match packet.is_to_sender() {
            true => (spec.dst, spec.src),
            false => (spec.src, spec.dst),
        });
        let (from, to) = ends.unwrap_or((packet.dst, packet.dst));
        if to != packet.dst {
            self.report(format!("a packet of flow {} is addressed to a wrong host", packet.flow));
        }
        if self.packets.len() <= id.index() {
            self.packets.resize(id.index() + 1, None);
        }
        if self.packets[id.index()].is_some() {
            self.report(format!("packet slot {} was reused while its packet was alive", id.0));
        }
        if let Some(paths) = &mut self.listed_paths {
            paths.made(id, from, packet.path);
        }
        self.packets[id.index()] = Some(PacketCheck {
            flow: packet.flow,
            payload_bytes: packet.payload_bytes,
            wire_bytes: packet.wire_bytes,
            class: packet.class,
            dst: packet.dst,
            place: Place::At(NodeId(from.0)),
            came_by: None,
        });
    }

    fn packet_queued(&mut self, port: PortId, id: PacketId, packet: &Packet) {
        self.comes_to(port, id, packet);
        self.joins(port, id, packet);
    }

    /// A packet was trimmed that may have exchanged slots with the one in `tail`.
    fn may_have_swapped(&mut self, id: PacketId, packet: &Packet, tail: PacketId) {
        let (Some(Some(here)), Some(Some(there))) =
            (self.packets.get(id.index()).copied(), self.packets.get(tail.index()).copied())
        else {
            return;
        };
        let is_same = (here.flow, here.payload_bytes) == (packet.flow, packet.payload_bytes);
        if let Some(paths) = &mut self.listed_paths
            && !(is_same && paths.is_on(id, packet.path))
        {
            paths.swapped(id, tail);
        }
        if is_same {
            return;
        }
        // The two packets have exchanged slots, but not their places in queues.
        let (is, was) = (here.wire_bytes, there.wire_bytes);
        for (place, was, is) in [(here.place, is, was), (there.place, was, is)] {
            if let Place::Waits(port, lane) = place {
                self.ports[port.index()].exchange(lane, was, is);
            }
        }
        self.packets[id.index()] = Some(PacketCheck { place: here.place, ..there });
        self.packets[tail.index()] = Some(PacketCheck { place: there.place, ..here });
    }

    fn packet_sent(
        &mut self,
        port: PortId,
        id: PacketId,
        packet: &Packet,
        from: Instant,
        until: Instant,
        waited: bool,
    ) {
        if waited {
            let known = self.packets.get(id.index()).copied().flatten();
            if packet.is_trimmed() && known.is_some_and(|k| k.wire_bytes != packet.wire_bytes) {
                // The port trimmed and sent it before the trim was reported.
                self.loses_payload(port, id, packet);
            }
            self.leaves(port, id, true);
        } else {
            self.comes_to(port, id, packet);
        }
        self.occupies(port, packet.wire_bytes.into(), from, until);
        self.ports[port.index()].sends(packet);
        if !self.pauses[port.index()].may_send(packet.class, from) {
            let name = self.name(port);
            self.report(format!("port {name} sent class {} while paused", packet.class.0));
        }
        let arrives = until + self.link(port).delay;
        if let Some(Some(known)) = self.packets.get_mut(id.index()) {
            known.place = Place::OnLink(port, arrives);
        }
    }

    fn pause_sent(
        &mut self,
        port: PortId,
        from: Instant,
        until: Instant,
        class: Class,
        is_pause: bool,
    ) {
        self.occupies(port, PAUSE_FRAME_BYTES.into(), from, until);
        let (twin, delay) = (self.link(port).twin, self.link(port).delay);
        self.pauses[twin.index()].expect(until + delay, class, is_pause);
        self.ingresses[twin.index()].set_pausing(class, is_pause);
    }

    fn class_paused(&mut self, port: PortId, class: Class, is_pause: bool) {
        let now = self.now;
        if let Some(wrong) = self.pauses[port.index()].arrives(now, class, is_pause) {
            let name = self.name(port);
            self.report(format!("port {name} {wrong}"));
        }
    }

    fn link_cut(&mut self, port: PortId, is_cut: bool) {
        let (now, twin) = (self.now, self.link(port).twin);
        self.ports[port.index()].is_cut = is_cut;
        if is_cut {
            self.pauses[port.index()].cut(now);
            self.pauses[twin.index()].cut(now);
        }
        self.ingresses[port.index()].cut(false, is_cut);
        self.ingresses[twin.index()].cut(true, is_cut);
    }

    fn rate_changed(&mut self, port: PortId, rate: Rate) {
        self.ports[port.index()].rate = rate;
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
        self.loses_payload(port, id, packet);
    }

    fn packet_bounced(&mut self, port: PortId, id: PacketId) {
        self.leaves(port, id, false);
        if let Some(paths) = &mut self.listed_paths {
            paths.bounced(id);
        }
        let Some(Some(known)) = self.packets.get_mut(id.index()) else { return };
        known.came_by = None;
        if let Some(spec) = self.flows.get(known.flow.index()).and_then(|flow| flow.spec) {
            known.dst = spec.src;
        }
    }

    fn packet_lost(&mut self, port: PortId, id: PacketId, packet: &Packet, loss: Loss) {
        self.lost += 1;
        match loss {
            Loss::Dropped => self.leaves(port, id, false),
            Loss::OnLink => {
                if let Some(known) = self.known(id)
                    && !matches!(known.place, Place::OnLink(by, at) if by == port && at == self.now)
                {
                    let name = self.name(port);
                    self.report(format!(
                        "link {name} lost a packet that was not due at its end now"
                    ));
                }
            }
            Loss::Stray => self.reaches_host(id, packet),
        }
        self.goes(id, packet.flow);
    }

    fn packet_arrived(&mut self, id: PacketId, packet: &Packet) {
        self.arrived += 1;
        self.reaches_host(id, packet);
        self.goes(id, packet.flow);
        self.flow(packet.flow).arrives(packet);
    }
}
