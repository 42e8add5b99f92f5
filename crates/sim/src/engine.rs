//! The engine: events, ports and packets.
//!
//! `hosts.rs` drives transports at hosts, `control.rs` drives their controllers at ports, and
//! `scenario_events.rs` handles the events that concern no packet.

use crate::control::{self, Controllers, PortController};
use crate::detour::Detours;
use crate::events::{Event, EventClass, EventQueue};
use crate::flows::{DeadlineChanges, FlowState, NicTurn, ReadyQueues};
use crate::lossless::Lossless;
use crate::port::SimContext;
use crate::scenario_events::LinkHealth;
use crate::setup::{Progress, Setup};
use crate::tap::{Ending, Findings, Loss, Tap};
use crate::timers::{Expiry, Owner, Timers};
use crate::window::Counters;
use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, Controller, ExtArena, FlowId, FlowSpec, HostId, Instant, NodeId, Outbox, PacketArena,
    PacketFlags, PacketId, PortId, TransportId, TransportSet, prefetch,
};
use punctual_net::{Fate, Fates, LosslessLimits, Network, Port, Queue};
use punctual_record::{FlowRecord, GaugeSample, Outcome, PortSample, PortTotals, Totals};
use punctual_workload::Workload;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

pub(crate) struct Engine<S: TransportSet, T: Tap> {
    pub(crate) cx: SimContext<T>,
    pub(crate) network: Network,
    pub(crate) ext: ExtArena,
    pub(crate) ports: Vec<Port>,
    pub(crate) port_totals: Vec<PortTotals>,
    pub(crate) timers: Timers,
    pub(crate) flows: Vec<FlowState>,
    pub(crate) records: Vec<FlowRecord>,
    /// Number of NICs of each host.
    pub(crate) nics: u32,
    /// By host, then by NIC.
    pub(crate) ready: Vec<ReadyQueues>,
    /// By host, then by NIC. Empty with one NIC.
    pub(crate) nic_turns: Vec<NicTurn>,
    /// Places in queues of ready senders, by flow, then by NIC of its host. Empty with one NIC.
    pub(crate) ready_links: Vec<u32>,
    /// By flow, the NIC of the path that its hash gives. Empty with one NIC.
    pub(crate) hashed_nics: Vec<u32>,
    /// By transport.
    pub(crate) stacks: Vec<S::Stack>,
    /// Timers of hosts' shared state, by transport then host.
    pub(crate) host_timers: Vec<Vec<u32>>,
    pub(crate) outbox: Outbox,
    pub(crate) totals: Totals,
    /// Counters at the begin and the end of the measured window.
    pub(crate) window_begin: Option<Counters>,
    pub(crate) window_end: Option<Counters>,
    pub(crate) seed: u64,
    pub(crate) workload: Workload,
    /// Flows of closed loops that start later.
    pub(crate) later: BinaryHeap<Reverse<(Instant, u64)>>,
    pub(crate) later_specs: Vec<FlowSpec>,
    pub(crate) deadline_changes: DeadlineChanges,
    pub(crate) next_flow: usize,
    /// When the next flows start, if an event is scheduled for it.
    pub(crate) flow_start_at: Instant,
    /// How many flows the run waits for; the end of the measured window counts as one.
    pub(crate) awaited: u64,
    pub(crate) flows_ended: u64,
    /// The number of events at which to check whether the run is over, and to report progress.
    pub(crate) check_at: u64,
    pub(crate) controllers: Controllers<S::Controller>,
    pub(crate) fates: Fates,
    pub(crate) lossless: Option<Lossless>,
    pub(crate) switch_choice: Stream,
    pub(crate) health: Vec<Option<LinkHealth>>,
    pub(crate) detours: Detours,
    pub(crate) samples: Vec<PortSample>,
    pub(crate) gauges: Vec<GaugeSample>,
    pub(crate) sampled_flows: Vec<FlowId>,
    pub(crate) setup: KeptSetup,
}

/// The parts of a [`Setup`] that the engine keeps as they are, and how far it is through them.
pub(crate) struct KeptSetup {
    pub(crate) stop: crate::setup::Stop,
    pub(crate) link_changes: Vec<crate::setup::LinkChange>,
    pub(crate) next_change: usize,
    pub(crate) switch_resets: Vec<crate::setup::SwitchReset>,
    pub(crate) next_reset: usize,
    pub(crate) sampling: Option<crate::setup::Sampling>,
    pub(crate) measure: punctual_record::Measure,
}

/// Networks of more ports than this do not fit in the L2 cache, so that prefetching pays.
const LOOK_AHEAD_FROM: usize = 3_000;

/// Progress is reported each time this many events have been handled.
const PROGRESS_EVERY: u64 = 1 << 17;

impl<S: TransportSet, T: Tap> Engine<S, T> {
    pub(crate) fn new(setup: Setup<S>, tap: T) -> Self {
        let Setup { network, switch_queue, port_queues, transports, workload, seed, .. } = setup;
        let hosts = network.hosts;
        let nics: Vec<_> = (0..hosts).map(|h| network.nic_info(HostId(h))).collect();
        let trimming = transports_that(&transports, S::is_trimmable);
        let switch_queue = switch_queue.sized_for(network.mtu);
        let lossless =
            LosslessLimits::of(&switch_queue).map(|limits| Lossless::new(limits, &network));
        // A host that forwards queues packets as a switch does. It pauses no link: among lossless
        // switches its queue has no limit.
        let has_nic_queues = !network.hosts_forward() || lossless.is_some();
        let ports: Vec<Port> = network
            .links
            .iter()
            .enumerate()
            .map(|(port, link)| {
                let is_nic = link.from.0 < hosts;
                let queue = if is_nic && has_nic_queues {
                    Queue::nic()
                } else {
                    let stream = punctual_core::rng::derive(seed, "port", port as u64);
                    let own = port_queues.get(port).map(|own| own.sized_for(network.mtu));
                    let mut queue = Queue::new(&own.unwrap_or(switch_queue), stream);
                    queue.set_trimming(trimming);
                    queue
                };
                Port::new(link, network.framing, queue)
            })
            .collect();
        let port_count = ports.len();
        let measure = setup.measure;
        let is_awaited = |flow: &&FlowSpec| must_end(flow) && measure.awaits(flow.start);
        let awaited = workload.flows.iter().filter(is_awaited).count() as u64;
        // The end of the window is awaited, too.
        let awaited = awaited + u64::from(measure.until.is_some());
        let mut engine = Engine {
            cx: SimContext {
                now: Instant::ZERO,
                packets: PacketArena::default(),
                events: EventQueue::new(punctual_core::rng::derive(seed, "ties", 0)),
                tap,
            },
            ext: ExtArena::default(),
            ports,
            port_totals: vec![PortTotals::default(); port_count],
            timers: Timers::default(),
            flows: Vec::new(),
            records: Vec::new(),
            nics: network.nics_per_host(),
            ready: vec![ReadyQueues::default(); network.all_nics().len()],
            nic_turns: match network.nics_per_host() {
                1 => Vec::new(),
                _ => vec![NicTurn::default(); network.all_nics().len()],
            },
            ready_links: Vec::new(),
            hashed_nics: Vec::new(),
            stacks: transports.iter().map(|t| t.stack(&nics)).collect(),
            host_timers: Vec::new(),
            outbox: Outbox::default(),
            totals: Totals { measure, ..Totals::default() },
            window_begin: None,
            window_end: None,
            seed,
            workload,
            later: BinaryHeap::new(),
            later_specs: Vec::new(),
            deadline_changes: DeadlineChanges::default(),
            next_flow: 0,
            flow_start_at: Instant::NEVER,
            awaited,
            flows_ended: 0,
            check_at: PROGRESS_EVERY,
            controllers: Controllers::default(),
            fates: Fates::new(),
            lossless,
            switch_choice: Stream::named(seed, "switch paths", 0),
            health: Vec::new(),
            detours: Detours::new(hosts, transports_that(&transports, S::sprays), seed),
            samples: Vec::new(),
            gauges: Vec::new(),
            sampled_flows: setup.sampled_flows,
            setup: KeptSetup {
                stop: setup.stop,
                link_changes: setup.link_changes,
                next_change: 0,
                switch_resets: setup.switch_resets,
                next_reset: 0,
                sampling: setup.sampling,
                measure: setup.measure,
            },
            network,
        };
        engine.install_timers_and_controllers(&transports, &setup.legacy_switches);
        engine
    }

    fn install_timers_and_controllers(&mut self, transports: &[S], legacy_switches: &[NodeId]) {
        for t in 0..transports.len() {
            let transport = TransportId(t as u8);
            let timers = (0..self.network.hosts)
                .map(|h| self.timers.alloc(Owner::Host(transport, HostId(h))))
                .collect();
            self.host_timers.push(timers);
        }
        let mut has_controllers = vec![false; self.ports.len()];
        let mut reads_reverse = vec![false; self.ports.len()];
        for (t, config) in transports.iter().enumerate() {
            let transport = TransportId(t as u8);
            let owner = control::owner(transports, t);
            let of_ports = self.ports.iter().enumerate().map(|(p, port)| {
                let id = PortId::from(p);
                if owner != transport || legacy_switches.contains(&self.network.link(id).from) {
                    return None;
                }
                let controller = config.controller(&port.view(id, Instant::ZERO))?;
                has_controllers[p] = true;
                reads_reverse[p] |= controller.reads_answers();
                let timer = self.timers.alloc(Owner::Controller(transport, id));
                Some(PortController::new(controller, timer))
            });
            self.controllers.push(owner, of_ports.collect());
        }
        for (p, (link, port)) in self.network.links.iter().zip(&mut self.ports).enumerate() {
            let is_switch = link.from.0 >= self.network.hosts;
            port.needs_departure_checks =
                has_controllers[p] || is_switch && self.lossless.is_some();
            port.reverse_has_controller = reads_reverse[link.twin.index()];
            port.needs_arrival_checks |= port.reverse_has_controller;
        }
    }

    /// Runs to the end.
    pub(crate) fn run(mut self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Outcome {
        self.schedule_scenario();
        let stop_at = self.setup.stop.at;
        let is_large = self.ports.len() > LOOK_AHEAD_FROM;
        if is_large {
            self.cx.events.keep_in_sight();
        }
        let mut interrupted = false;
        let mut goes_on = !self.is_done();
        while goes_on && let Some(event) = self.cx.events.pop() {
            if event.at() > stop_at {
                break;
            }
            if is_large {
                self.look_ahead();
            }
            self.handle(event);
            if self.totals.events >= self.check_at {
                interrupted = self.report(progress).is_break();
                goes_on = !interrupted && !self.is_done();
            }
        }
        if !self.is_done() && !interrupted && stop_at != Instant::NEVER {
            self.cx.now = stop_at;
        }
        self.finish(interrupted)
    }

    /// Reports progress, unless the check is only whether the run is over.
    #[cold]
    fn report(&mut self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> ControlFlow<()> {
        let events = self.totals.events;
        self.check_at = (events / PROGRESS_EVERY + 1) * PROGRESS_EVERY;
        if !events.is_multiple_of(PROGRESS_EVERY) {
            return ControlFlow::Continue(());
        }
        if self.cx.tap.is_stuck() {
            return ControlFlow::Break(());
        }
        progress(Progress {
            now: self.cx.now,
            stop_at: self.setup.stop.at,
            events,
            flows_ended: self.flows_ended,
        })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.setup.stop.when_done && self.awaited == 0
    }

    #[inline(always)]
    fn handle(&mut self, event: Event) {
        debug_assert!(event.at() >= self.cx.now, "time goes back");
        self.cx.now = event.at();
        self.totals.events += 1;
        self.cx.tap.event(self.cx.now);
        if event.class() == EventClass::Arrival {
            self.arrive(PacketId(event.target()));
            return;
        }
        match event.class() {
            EventClass::Arrival => {}
            EventClass::PortFree => self.port_free(PortId(event.target())),
            EventClass::Timer => self.timer(event.target()),
            EventClass::Scenario => self.scenario_event(event.target()),
        }
    }

    /// Prefetches what the next arrivals will touch: the packet three events ahead, the port it
    /// comes from two events ahead, the port it goes to or its flow one event ahead.
    #[inline]
    fn look_ahead(&self) {
        let arrival = |n| {
            let event = self.cx.events.upcoming(n)?;
            (event.class() == EventClass::Arrival).then_some(PacketId(event.target()))
        };
        if let Some(id) = arrival(3) {
            prefetch(&self.cx.packets[id]);
        }
        if let Some(id) = arrival(2) {
            let port = &self.ports[self.cx.packets[id].port.index()];
            prefetch(port);
            prefetch(&port.queue);
        }
        if let Some(id) = arrival(1) {
            let packet = &self.cx.packets[id];
            let port = &self.ports[packet.port.index()];
            if port.has_waiting
                && let Some(next) = port.queue.front()
            {
                prefetch(&self.cx.packets[next]);
            }
            let node = port.to;
            if node.0 < self.network.hosts {
                prefetch(&self.flows[packet.flow.index()]);
            } else if let Some(port) = self.network.expected_port(node, packet) {
                let port = &self.ports[port.index()];
                prefetch(port);
                prefetch(&port.queue);
            }
        }
    }

    /// A packet has reached the end of its link.
    #[inline(always)]
    fn arrive(&mut self, id: PacketId) {
        let port_id = self.cx.packets[id].port;
        let mut port = &mut self.ports[port_id.index()];
        if port.needs_arrival_checks {
            let reverse_has_controller = port.reverse_has_controller;
            if !self.health.is_empty() && self.is_lost(port_id) {
                self.catch_up(port_id);
                self.lose(id, Loss::OnLink);
                return;
            }
            if reverse_has_controller && self.cx.packets[id].is_to_sender() {
                self.control_reverse(self.network.link(port_id).twin, id);
            }
            port = &mut self.ports[port_id.index()];
        }
        // Packets that waited behind this one have been sent since.
        port.catch_up_inlined(port_id, &mut self.cx);
        let node = port.to;
        let packet = &mut self.cx.packets[id];
        if packet.dst.0 == node.0 {
            self.deliver(HostId(node.0), id);
            return;
        }
        packet.hop += 1;
        let choice = &mut self.switch_choice;
        let out = self.network.next_port(node, packet, |n| choice.below(u64::from(n)) as u32);
        self.offer_inlined(out, id);
    }

    /// Sends a packet by a port: at once if the port is idle, else after the waiting packets.
    #[inline]
    pub(crate) fn offer(&mut self, port_id: PortId, id: PacketId) {
        self.offer_after(port_id, id, Self::control_forward);
    }

    /// Force-inlined copy of [`Engine::offer`] for arrivals at switches, the hot path.
    #[inline(always)]
    fn offer_inlined(&mut self, port_id: PortId, id: PacketId) {
        self.offer_after(port_id, id, Self::control_forward_inlined);
    }

    /// Shows a packet to the controllers of a port by `control`, then sends it by that port.
    #[inline(always)]
    fn offer_after(
        &mut self,
        port_id: PortId,
        id: PacketId,
        control: impl FnOnce(&mut Self, PortId, PacketId),
    ) {
        let mut port = &mut self.ports[port_id.index()];
        if port.needs_departure_checks {
            if !self.cx.packets[id].is_to_sender() {
                control(self, port_id, id);
            }
            if self.is_lossless(port_id) {
                self.offer_lossless(port_id, id);
                return;
            }
            port = &mut self.ports[port_id.index()];
        }
        port.offer(port_id, id, &mut self.cx, &mut self.fates);
        if !self.fates.is_empty() {
            self.apply_fates(port_id);
        }
    }

    /// Whether a port belongs to a lossless switch.
    fn is_lossless(&self, port: PortId) -> bool {
        self.lossless.is_some() && self.network.link(port).from.0 >= self.network.hosts
    }

    /// Sends what a port would have sent by now, see [`Port::catch_up`].
    ///
    /// Must be called before a port's queue is read.
    pub(crate) fn catch_up(&mut self, port_id: PortId) {
        self.ports[port_id.index()].catch_up(port_id, &mut self.cx);
    }

    /// A lossless port is free, or a NIC may ask its host's senders for a packet if nothing waits in
    /// its queue.
    fn port_free(&mut self, port_id: PortId) {
        if self.is_lossless(port_id) {
            self.lossless_port_free(port_id);
            return;
        }
        let nic = self.nic_of_port(port_id);
        let port = &mut self.ports[port_id.index()];
        let senders_first =
            self.nics > 1 && self.nic_turns[nic.index(self.nics)].is_senders(port.sent_bytes);
        if !senders_first || port.busy_until > self.cx.now {
            port.catch_up(port_id, &mut self.cx);
        }
        if port.busy_until <= self.cx.now {
            // Packets that senders push while they are polled wait until the poll is over.
            port.busy_until = Instant::NEVER;
            let polled = self.poll_nic(nic);
            self.end_poll(nic, polled);
        } else {
            self.poll_again(nic);
        }
    }

    /// The host and number of a NIC port.
    #[inline]
    pub(crate) fn nic_of_port(&self, port: PortId) -> Nic {
        let host = HostId(self.network.link(port).from.0);
        let number = match self.nics {
            1 => 0,
            _ => self.network.nics(host).iter().position(|nic| *nic == port).unwrap_or(0) as u32,
        };
        Nic { port, host, number }
    }

    /// A NIC of a host by its number.
    #[inline]
    pub(crate) fn nic(&self, host: HostId, number: u32) -> Nic {
        let port = match self.nics {
            1 => self.network.nic(host),
            _ => self.network.nics(host)[number as usize],
        };
        Nic { port, host, number }
    }

    /// The senders that wait for a NIC.
    #[inline]
    pub(crate) fn ready_at(&mut self, nic: Nic) -> &mut ReadyQueues {
        &mut self.ready[nic.index(self.nics)]
    }

    /// Sends the packet that a sender returned when its NIC polled it.
    #[inline(always)]
    pub(crate) fn end_poll(&mut self, nic: Nic, polled: Option<PacketId>) {
        let port_id = nic.port;
        let port = &mut self.ports[port_id.index()];
        port.busy_until = self.cx.now;
        match polled {
            Some(id) => {
                let before = port.sent_bytes;
                port.send(port_id, id, self.cx.now, false, &mut self.cx);
                if self.nics > 1 {
                    port.queue.note_bypass(&self.cx.packets[id]);
                    self.nic_turns[nic.index(self.nics)].note_polled(before, port.sent_bytes);
                }
            }
            None => port.catch_up(port_id, &mut self.cx),
        }
        self.poll_again(nic);
    }

    /// Schedules the next time a NIC asks its host's senders, if some are ready.
    #[inline(always)]
    fn poll_again(&mut self, nic: Nic) {
        let has_ready = !self.ready_at(nic).is_empty();
        let port_id = nic.port;
        let port = &mut self.ports[port_id.index()];
        port.will_poll = has_ready;
        if port.will_poll {
            let at = port.busy_until.max(self.cx.now);
            self.cx.events.push(at, EventClass::PortFree, port_id.0, port_id.0);
        }
    }

    /// Makes sure that a NIC will ask its host's senders when it is free.
    #[inline]
    pub(crate) fn wake_nic(&mut self, port_id: PortId) {
        let port = &mut self.ports[port_id.index()];
        if port.will_poll {
            return;
        }
        port.will_poll = true;
        port.catch_up(port_id, &mut self.cx);
        if port.busy_until <= self.cx.now {
            self.port_free(port_id);
        } else {
            let at = port.busy_until;
            self.cx.events.push(at, EventClass::PortFree, port_id.0, port_id.0);
        }
    }

    /// Acts on what the queue discipline did besides queueing: marks, trims, drops, bounces.
    #[cold]
    pub(crate) fn apply_fates(&mut self, port_id: PortId) {
        let mut fates = std::mem::take(&mut self.fates);
        for (id, fate) in fates.drain(..) {
            match fate {
                Fate::Marked => {
                    self.totals.marks += 1;
                    self.port_totals[port_id.index()].marks += 1;
                    self.cx.tap.marked(port_id, &self.cx.packets[id]);
                }
                Fate::Trimmed => {
                    self.totals.trims += 1;
                    self.port_totals[port_id.index()].trims += 1;
                    if T::FOLLOWS
                        && let Some(tail) = self.ports[port_id.index()].queue.trimming_tail()
                    {
                        self.cx.tap.may_have_swapped(id, &self.cx.packets[id], tail);
                    }
                    self.cx.tap.trimmed(port_id, id, &self.cx.packets[id]);
                }
                Fate::Dropped => self.drop_packet(port_id, id),
                Fate::Bounced => self.bounce(port_id, id),
            }
        }
        // Bouncing may have filled a new vector of fates: keep the one with more capacity.
        if self.fates.capacity() < fates.capacity() {
            self.fates = fates;
        }
    }

    /// A queue has no room for a packet.
    fn drop_packet(&mut self, port_id: PortId, id: PacketId) {
        self.totals.drops += 1;
        self.port_totals[port_id.index()].drops += 1;
        self.cx.packets[id].port = port_id;
        self.lose(id, Loss::Dropped);
    }

    /// Returns a header to its sender.
    #[inline(never)]
    fn bounce(&mut self, port_id: PortId, id: PacketId) {
        let src = self.flows[self.cx.packets[id].flow.index()].src;
        if NodeId::from(src) == self.network.link(port_id).from {
            // It is still at its own host, which forwards: there is no way back.
            self.drop_packet(port_id, id);
            return;
        }
        self.totals.bounces += 1;
        self.port_totals[port_id.index()].bounces += 1;
        self.cx.tap.bounced(port_id, id, &self.cx.packets[id]);
        let node = self.network.link(port_id).from;
        let packet = &mut self.cx.packets[id];
        packet.dst = src;
        packet.flags.set(PacketFlags::BOUNCED.with(PacketFlags::TO_SENDER));
        self.network.turn_back(packet);
        let choice = &mut self.switch_choice;
        let out = self.network.next_port(node, packet, |n| choice.below(u64::from(n)) as u32);
        self.offer(out, id);
    }

    /// Removes a packet that is lost.
    #[cold]
    pub(crate) fn lose(&mut self, id: PacketId, why: Loss) {
        if why == Loss::OnLink {
            self.totals.losses += 1;
        }
        let packet = &self.cx.packets[id];
        self.cx.tap.lost(packet.port, id, packet, why);
        self.dispose(id);
    }

    /// Frees a packet and its header extension.
    #[inline]
    pub(crate) fn dispose(&mut self, id: PacketId) {
        if let Some(ext) = self.cx.packets[id].ext {
            self.ext.free(ext);
        }
        self.cx.packets.free(id);
    }

    fn timer(&mut self, id: u32) {
        match self.timers.expire(id, self.cx.now) {
            Expiry::Stale => {}
            Expiry::Later(at) => self.cx.events.push(at, EventClass::Timer, id, id),
            Expiry::Fire(Owner::Controller(transport, port)) => {
                self.control_timeout(transport, port);
            }
            Expiry::Depart(flow) => self.depart(flow),
            Expiry::Fire(Owner::Endpoint(flow, end)) => self.endpoint_timeout(flow, end),
            Expiry::Fire(Owner::Host(transport, host)) => self.host_timeout(transport, host),
        }
    }

    fn finish(mut self, interrupted: bool) -> Outcome {
        self.close_window();
        self.totals.ended_at = self.cx.now;
        self.totals.packet_hops = self.ports.iter().map(|port| port.sent_packets).sum();
        self.totals.most_buffered = self.lossless.as_ref().map_or(Bytes::ZERO, Lossless::most_used);
        let pauses = self.pauses_by_class();
        let (pause_cycles, unlisted_pause_cycles) = self.conclude_pause_cycles();
        let controllers = self.controller_records();
        let end = Ending {
            at: self.cx.now,
            waiting: self.ports.iter().map(|p| p.queue.waiting().1).collect(),
            alive: self.cx.packets.len(),
            flows: &self.records,
        };
        let mut findings = Findings::default();
        self.cx.tap.conclude(&end, &mut findings);
        Outcome {
            flows: self.records,
            totals: self.totals,
            ports: self.port_totals,
            controllers,
            pauses,
            pause_cycles,
            unlisted_pause_cycles,
            samples: self.samples,
            gauges: self.gauges,
            violations: findings.violations,
            network: findings.network,
            packet_latency: findings.packet_latency,
            captured: findings.captured,
            explained: findings.explained,
            interrupted,
        }
    }
}

/// A NIC: its port, its host, and its number among the host's NICs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nic {
    pub(crate) port: PortId,
    pub(crate) host: HostId,
    pub(crate) number: u32,
}

impl Nic {
    /// Its place in lists by host, then by NIC.
    #[inline]
    pub(crate) fn index(self, nics: u32) -> usize {
        match nics {
            1 => self.host.index(),
            _ => (self.host.0 * nics + self.number) as usize,
        }
    }
}

/// A bit for each transport for which `is` holds.
pub(crate) fn transports_that<S>(transports: &[S], is: impl Fn(&S) -> bool) -> u64 {
    let bits = transports.iter().enumerate().filter(|(_, t)| is(t));
    bits.fold(0, |mask, (t, _)| mask | 1 << (t & 63))
}

/// Whether a run that stops when done waits for this flow.
pub(crate) fn must_end(flow: &FlowSpec) -> bool {
    !flow.background && flow.size != punctual_core::Bytes::ENDLESS
}
