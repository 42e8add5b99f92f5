//! The engine: events, ports and packets.
//!
//! `hosts.rs` drives transports at hosts, `control.rs` drives their controllers at ports, and
//! `scenario_events.rs` handles the events that concern no packet.

use crate::control::{self, PortController};
use crate::events::{Event, EventClass, EventQueue};
use crate::flows::ReadyQueues;
use crate::lossless::Lossless;
use crate::port::{SimContext, UNKNOWN_HOP};
use crate::setup::{EngineOptions, Progress, Setup};
use crate::state::{Fabric, Faults, FlowStarts, Hosts, Recording, RunEnd};
use crate::tap::{Ending, Findings, Loss, Observation, PacketFate, Tap};
use crate::timers::{Expiry, Owner, Timers};
use punctual_core::{
    Bytes, Controller, Duration, FlowSpec, HostId, Instant, NodeId, PacketArena, PacketFlags,
    PacketId, PortId, TransportId, TransportSet, prefetch_all_at,
};
use punctual_net::{Fate, Network, Scheduled};
use punctual_record::Outcome;
use punctual_workload::Workload;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A run.
pub(crate) struct Engine<S: TransportSet, T: Tap> {
    pub(crate) cx: SimContext<T>,
    pub(crate) fabric: Fabric<S::Controller>,
    pub(crate) hosts: Hosts<S::Stack>,
    pub(crate) timers: Timers,
    pub(crate) faults: Faults,
    pub(crate) starts: FlowStarts,
    pub(crate) recording: Recording,
    pub(crate) end: RunEnd,
    pub(crate) seed: u64,
}

/// The state of a run without its network and observer.
struct State<S: TransportSet> {
    events: EventQueue,
    fabric: Fabric<S::Controller>,
    hosts: Hosts<S::Stack>,
    faults: Faults,
    starts: FlowStarts,
    recording: Recording,
    end: RunEnd,
    seed: u64,
}

impl<S: TransportSet> State<S> {
    fn new(setup: &Setup<S>, window: Option<Duration>, end: RunEnd, starts: FlowStarts) -> Self {
        let ties = punctual_core::rng::derive(setup.seed, "ties", 0);
        State {
            events: EventQueue::new(ties, window),
            fabric: Fabric::new(setup),
            hosts: Hosts::new(&setup.network, &setup.transports),
            faults: Faults::new(setup),
            recording: Recording::new(setup),
            starts,
            end,
            seed: setup.seed,
        }
    }

    /// The engine of this state.
    fn with<T: Tap>(self, network: Network, tap: T) -> Engine<S, T> {
        let State { events, fabric, hosts, faults, starts, recording, end, seed } = self;
        let (now, packets) = (Instant::ZERO, PacketArena::default());
        let cx = SimContext { now, packets, events, network, tap };
        let timers = Timers::default();
        Engine { cx, fabric, hosts, timers, faults, starts, recording, end, seed }
    }
}

/// Networks of more ports than this advance in windows.
const WINDOWS_FROM: usize = 2_000;

/// The length of the windows in which a run advances, if it does.
pub(crate) fn window_length(options: &EngineOptions, network: &Network) -> Option<Duration> {
    let shortest = network.links.iter().map(|link| link.delay).min()?;
    let pays = options.windows.unwrap_or(network.links.len() > WINDOWS_FROM);
    (pays && shortest > Duration::ZERO).then_some(shortest)
}

/// Progress is reported each time this many events have been handled.
pub(crate) const PROGRESS_EVERY: u64 = 1 << 17;

impl<S: TransportSet, T: Tap> Engine<S, T> {
    pub(crate) fn new(mut setup: Setup<S>, tap: T) -> Self {
        let window = match setup.capture_max {
            0 => window_length(&setup.engine, &setup.network),
            // A capture ends with the first packets that links carry, so it observes them in order.
            _ => None,
        };
        let end = RunEnd::new(&setup, PROGRESS_EVERY);
        let flows = Arc::new(std::mem::take(&mut setup.workload.flows));
        let workload = std::mem::take(&mut setup.workload);
        // The network is large: it is moved, not copied.
        let state = State::new(&setup, window, end, FlowStarts::new(flows, workload));
        let mut engine = state.with(setup.network, tap);
        engine.install_timers_and_controllers(&setup.transports, &setup.legacy_switches);
        engine
    }

    /// An engine for a share of the network, which advances in windows. `flows` are those of the
    /// set-up.
    pub(crate) fn for_share(
        setup: &Setup<S>,
        window: Duration,
        flows: Arc<Vec<FlowSpec>>,
        tap: T,
    ) -> Self {
        let end = RunEnd::of_share();
        let workload = Workload {
            flows: Vec::new(),
            closed_loops: setup.workload.closed_loops.clone(),
            deadline_changes: setup.workload.deadline_changes.clone(),
            arrival_rates: Vec::new(),
        };
        let state = State::new(setup, Some(window), end, FlowStarts::new(flows, workload));
        let mut engine = state.with(setup.network.clone(), tap);
        engine.install_timers_and_controllers(&setup.transports, &setup.legacy_switches);
        engine
    }

    fn install_timers_and_controllers(&mut self, transports: &[S], legacy_switches: &[NodeId]) {
        for t in 0..transports.len() {
            let transport = TransportId(t as u8);
            let timers = (0..self.cx.network.hosts)
                .map(|h| self.timers.alloc(Owner::Host(transport, HostId(h))))
                .collect();
            self.hosts.host_timers.push(timers);
        }
        let mut has_controllers = vec![false; self.fabric.ports.len()];
        let mut reads_reverse = vec![false; self.fabric.ports.len()];
        for (t, config) in transports.iter().enumerate() {
            let transport = TransportId(t as u8);
            let owner = control::owner(transports, t);
            let of_ports = self.fabric.ports.iter().enumerate().map(|(p, port)| {
                let id = PortId::from(p);
                let from = self.cx.network.link(id).from;
                if owner != transport || legacy_switches.contains(&from) {
                    return None;
                }
                let controller = config.controller(&port.view(id, Instant::ZERO))?;
                has_controllers[p] = true;
                reads_reverse[p] |= controller.reads_answers();
                // The numbers of timers break ties, so they do not depend on the share.
                let timer = self.timers.alloc(Owner::Controller(transport, id));
                let is_own = self.cx.tap.shard().is_none_or(|shard| shard.owns(from));
                is_own.then(|| PortController::new(controller, timer))
            });
            self.fabric.controllers.push(owner, of_ports.collect());
        }
        for (p, (link, port)) in
            self.cx.network.links.iter().zip(&mut self.fabric.ports).enumerate()
        {
            let is_switch = link.from.0 >= self.cx.network.hosts;
            port.needs_departure_checks =
                has_controllers[p] || is_switch && self.fabric.lossless.is_some();
            port.reverse_has_controller = reads_reverse[link.twin.index()];
            port.needs_arrival_checks |= port.reverse_has_controller;
            self.faults.checks_arrivals |= port.needs_arrival_checks;
        }
    }

    /// Whether the engine simulates this node: always, unless it has a share of the network only.
    #[inline(always)]
    pub(crate) fn owns(&self, node: impl Into<NodeId>) -> bool {
        self.cx.tap.shard().is_none_or(|shard| shard.owns(node.into()))
    }

    /// Runs to the end.
    pub(crate) fn run(mut self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Outcome {
        self.schedule_scenario();
        let stop_at = self.end.stop.at;
        let mut interrupted = false;
        let mut goes_on = !self.is_done();
        while goes_on {
            let Some(event) = self.cx.events.pop() else {
                if self.next_window(stop_at) {
                    continue;
                }
                break;
            };
            if event.at() > stop_at {
                break;
            }
            self.look_ahead();
            self.handle(event);
            if self.recording.totals.events >= self.end.check_at {
                interrupted = self.report(progress).is_break();
                goes_on = !interrupted && !self.is_done();
            }
        }
        if !self.is_done() && !interrupted && stop_at != Instant::NEVER {
            self.cx.now = stop_at;
        }
        self.finish(interrupted)
    }

    /// Serves the ports that are due by the end of the open window, then opens the next one. False
    /// if there is none, or if it begins after the end of the run.
    fn next_window(&mut self, stop_at: Instant) -> bool {
        if let Some(windows) = self.cx.events.windows() {
            if windows.ends_at() > stop_at {
                return false;
            }
            self.serve_ports(windows.ends_at());
        }
        self.cx.events.open_window()
    }

    /// Sends the packets that ports should have sent before `end`, the end of a window.
    pub(crate) fn serve_ports(&mut self, end: Instant) {
        let now = self.cx.now;
        let served = self.cx.events.take_served();
        for (n, &port_id) in served.iter().enumerate() {
            if let Some(ahead) = served.get(n + 16) {
                prefetch_all_at(&self.fabric.ports, ahead.index());
            }
            if let Some(ahead) = served.get(n + 12) {
                self.fetch_waiting(*ahead, 0);
            }
            if let Some(ahead) = served.get(n + 6) {
                self.fetch_waiting(*ahead, 1);
            }
            self.cx.now = Instant::from_picos(end.as_picos() - 1);
            let port = &mut self.fabric.ports[port_id.index()];
            port.catch_up_inlined(port_id, &mut self.cx);
            port.scheduled.set(Scheduled::SERVE, false);
            self.serve_later(port_id);
        }
        self.cx.now = now;
        self.cx.events.put_served(served);
    }

    /// Schedules, in windows, that a port with waiting packets sends them when it is free.
    #[inline(always)]
    pub(crate) fn serve_later(&mut self, port_id: PortId) {
        if !self.cx.events.has_windows() {
            return;
        }
        let port = &mut self.fabric.ports[port_id.index()];
        // A NIC that is polling its host's senders is not free before the poll is over.
        if port.has_waiting
            && !port.scheduled.has(Scheduled::SERVE)
            && port.busy_until != Instant::NEVER
        {
            let is_scheduled = self.cx.events.serve_after(port_id, port.busy_until);
            port.scheduled.set(Scheduled::SERVE, is_scheduled);
        }
    }

    /// Reports progress, unless the check is only whether the run is over.
    #[cold]
    fn report(&mut self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> ControlFlow<()> {
        let events = self.recording.totals.events;
        self.end.check_at = (events / PROGRESS_EVERY + 1) * PROGRESS_EVERY;
        if !events.is_multiple_of(PROGRESS_EVERY) {
            return ControlFlow::Continue(());
        }
        if self.cx.tap.is_stuck() {
            return ControlFlow::Break(());
        }
        progress(Progress {
            now: self.cx.now,
            stop_at: self.end.stop.at,
            events,
            flows_ended: self.end.flows_ended,
        })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.end.stop.when_done && self.end.awaited == 0
    }

    #[inline(always)]
    pub(crate) fn handle(&mut self, event: Event) {
        debug_assert!(event.at() >= self.cx.now, "time goes back");
        self.cx.now = event.at();
        self.recording.totals.events += 1;
        self.cx.tap.observe(Observation::EventBegins { at: self.cx.now });
        if event.is_hop() {
            self.forward(PacketId(event.target()));
            return;
        }
        match event.class() {
            EventClass::Arrival => self.arrive_at_host(PacketId(event.target())),
            EventClass::PortFree => self.port_free(PortId(event.target())),
            EventClass::Timer => self.timer(event.target()),
            EventClass::Scenario => self.scenario_event(event.target()),
        }
    }

    /// A packet has reached the end of its link, at a node that forwards it.
    #[inline(always)]
    fn forward(&mut self, id: PacketId) {
        let Some(from) = self.leave_link(id) else { return };
        let packet = &mut self.cx.packets[id];
        packet.hop += 1;
        let out = match packet.next {
            UNKNOWN_HOP => {
                let node = self.cx.network.link(from).to;
                self.cx.network.next_port(node, packet, self.fabric.path_choices.at(node))
            }
            port => PortId(port),
        };
        self.offer_inlined(out, id);
    }

    /// A packet has reached the end of its link, at its own host.
    #[inline(always)]
    fn arrive_at_host(&mut self, id: PacketId) {
        if self.leave_link(id).is_some() {
            self.deliver(self.cx.packets[id].dst, id);
        }
    }

    /// A packet has reached the end of its link. Returns the port that it came from, unless the link
    /// has lost it.
    #[inline(always)]
    fn leave_link(&mut self, id: PacketId) -> Option<PortId> {
        let from = self.cx.packets[id].port;
        if self.faults.checks_arrivals && self.is_stopped(from, id) {
            return None;
        }
        if !self.cx.events.has_windows() {
            // Packets that waited behind this one have been sent since.
            self.fabric.ports[from.index()].catch_up_inlined(from, &mut self.cx);
        }
        Some(from)
    }

    /// Whether the link that a packet has come over has lost it. Shows a packet that is not lost to
    /// the controller of the opposite direction.
    fn is_stopped(&mut self, port_id: PortId, id: PacketId) -> bool {
        let port = &self.fabric.ports[port_id.index()];
        if !port.needs_arrival_checks {
            return false;
        }
        let reverse_has_controller = port.reverse_has_controller;
        if !self.faults.health.is_empty() && self.is_lost(port_id) {
            self.catch_up(port_id);
            self.lose(id, Loss::OnLink);
            return true;
        }
        if reverse_has_controller && self.cx.packets[id].is_to_sender() {
            self.control_reverse(self.cx.network.link(port_id).twin, id);
        }
        false
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
        let mut port = &mut self.fabric.ports[port_id.index()];
        if port.needs_departure_checks {
            if !self.cx.packets[id].is_to_sender() {
                control(self, port_id, id);
            }
            if self.is_lossless(port_id) {
                self.offer_lossless(port_id, id);
                return;
            }
            port = &mut self.fabric.ports[port_id.index()];
        }
        port.offer(port_id, id, &mut self.cx, &mut self.fabric.fates);
        self.serve_later(port_id);
        if !self.fabric.fates.is_empty() {
            self.apply_fates(port_id);
        }
    }

    /// Whether a port belongs to a lossless switch.
    fn is_lossless(&self, port: PortId) -> bool {
        self.fabric.lossless.is_some() && self.cx.network.link(port).from.0 >= self.cx.network.hosts
    }

    /// Sends what a port would have sent by now, see [`Port::catch_up`].
    ///
    /// Must be called before a port's queue is read.
    pub(crate) fn catch_up(&mut self, port_id: PortId) {
        self.fabric.ports[port_id.index()].catch_up(port_id, &mut self.cx);
    }

    /// A lossless port is free, or a NIC may ask its host's senders for a packet if nothing waits in
    /// its queue.
    fn port_free(&mut self, port_id: PortId) {
        if self.is_lossless(port_id) {
            self.lossless_port_free(port_id);
            return;
        }
        let nic = self.nic_of_port(port_id);
        let port = &mut self.fabric.ports[port_id.index()];
        let senders_first = self.hosts.nics > 1
            && self.hosts.nic_turns[nic.index(self.hosts.nics)].is_senders(port.sent_bytes);
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
        let host = HostId(self.cx.network.link(port).from.0);
        let number = match self.hosts.nics {
            1 => 0,
            _ => self.cx.network.nics(host).iter().position(|nic| *nic == port).unwrap_or(0) as u32,
        };
        Nic { port, host, number }
    }

    /// A NIC of a host by its number.
    #[inline]
    pub(crate) fn nic(&self, host: HostId, number: u32) -> Nic {
        let port = match self.hosts.nics {
            1 => self.cx.network.nic(host),
            _ => self.cx.network.nics(host)[number as usize],
        };
        Nic { port, host, number }
    }

    /// The senders that wait for a NIC.
    #[inline]
    pub(crate) fn ready_at(&mut self, nic: Nic) -> &mut ReadyQueues {
        &mut self.hosts.ready[nic.index(self.hosts.nics)]
    }

    /// Sends the packet that a sender returned when its NIC polled it.
    #[inline(always)]
    pub(crate) fn end_poll(&mut self, nic: Nic, polled: Option<PacketId>) {
        let port_id = nic.port;
        let port = &mut self.fabric.ports[port_id.index()];
        port.busy_until = self.cx.now;
        match polled {
            Some(id) => {
                let before = port.sent_bytes;
                port.send(port_id, id, self.cx.now, false, &mut self.cx);
                if self.hosts.nics > 1 {
                    port.queue.note_bypass(&self.cx.packets[id]);
                    self.hosts.nic_turns[nic.index(self.hosts.nics)]
                        .note_polled(before, port.sent_bytes);
                }
            }
            None => port.catch_up(port_id, &mut self.cx),
        }
        self.serve_later(port_id);
        self.poll_again(nic);
    }

    /// Schedules the next time a NIC asks its host's senders, if some are ready.
    #[inline(always)]
    fn poll_again(&mut self, nic: Nic) {
        let has_ready = !self.ready_at(nic).is_empty();
        let port_id = nic.port;
        let port = &mut self.fabric.ports[port_id.index()];
        port.scheduled.set(Scheduled::POLL, has_ready);
        if port.scheduled.has(Scheduled::POLL) {
            let at = port.busy_until.max(self.cx.now);
            self.cx.events.push(at, EventClass::PortFree, port_id.0, port_id.0);
        }
    }

    /// Makes sure that a NIC will ask its host's senders when it is free.
    #[inline]
    pub(crate) fn wake_nic(&mut self, port_id: PortId) {
        let port = &mut self.fabric.ports[port_id.index()];
        if port.scheduled.has(Scheduled::POLL) {
            return;
        }
        port.scheduled.set(Scheduled::POLL, true);
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
        let mut fates = std::mem::take(&mut self.fabric.fates);
        for (id, fate) in fates.drain(..) {
            match fate {
                Fate::Marked => {
                    self.recording.totals.marks += 1;
                    self.fabric.port_totals[port_id.index()].marks += 1;
                    self.report_fate(port_id, id, PacketFate::Marked);
                }
                Fate::Trimmed => {
                    self.recording.totals.trims += 1;
                    self.fabric.port_totals[port_id.index()].trims += 1;
                    let tail = match T::FOLLOWS {
                        true => self.fabric.ports[port_id.index()].queue.trimming_tail(),
                        false => None,
                    };
                    self.report_fate(port_id, id, PacketFate::Trimmed { tail });
                }
                Fate::Dropped => self.drop_packet(port_id, id),
                Fate::Bounced => self.bounce(port_id, id),
            }
        }
        // Bouncing may have filled a new vector of fates: keep the one with more capacity.
        if self.fabric.fates.capacity() < fates.capacity() {
            self.fabric.fates = fates;
        }
    }

    /// Reports the fate of a packet to the observer.
    #[inline(always)]
    fn report_fate(&mut self, port: PortId, id: PacketId, fate: PacketFate) {
        let packet = &self.cx.packets[id];
        self.cx.tap.observe(Observation::PacketFate { port, id, packet, fate });
    }

    /// A queue has no room for a packet.
    fn drop_packet(&mut self, port_id: PortId, id: PacketId) {
        self.recording.totals.drops += 1;
        self.fabric.port_totals[port_id.index()].drops += 1;
        self.cx.packets[id].port = port_id;
        self.lose(id, Loss::Dropped);
    }

    /// Returns a header to its sender.
    #[inline(never)]
    fn bounce(&mut self, port_id: PortId, id: PacketId) {
        let src = self.hosts.flows[self.cx.packets[id].flow.index()].src;
        if NodeId::from(src) == self.cx.network.link(port_id).from {
            // It is still at its own host, which forwards: there is no way back.
            self.drop_packet(port_id, id);
            return;
        }
        self.recording.totals.bounces += 1;
        self.fabric.port_totals[port_id.index()].bounces += 1;
        self.report_fate(port_id, id, PacketFate::Bounced);
        let node = self.cx.network.link(port_id).from;
        let packet = &mut self.cx.packets[id];
        packet.dst = src;
        packet.flags.set(PacketFlags::BOUNCED.with(PacketFlags::TO_SENDER));
        self.cx.network.turn_back(packet);
        let out = self.cx.network.next_port(node, packet, self.fabric.path_choices.at(node));
        self.offer(out, id);
    }

    /// Removes a packet that is lost.
    #[cold]
    pub(crate) fn lose(&mut self, id: PacketId, why: Loss) {
        if why == Loss::OnLink {
            self.recording.totals.losses += 1;
        }
        self.report_fate(self.cx.packets[id].port, id, PacketFate::Lost(why));
        self.dispose(id);
    }

    /// Frees a packet and its header extension.
    #[inline]
    pub(crate) fn dispose(&mut self, id: PacketId) {
        if let Some(ext) = self.cx.packets[id].ext {
            self.fabric.ext.free(ext);
        }
        self.cx.packets.free(id);
    }

    fn timer(&mut self, id: u32) {
        if self.is_of_closed_receiver(id) {
            return;
        }
        match self.timers.expire(id, self.cx.now) {
            Expiry::Stale => {}
            Expiry::Later(at) => {
                self.cx.events.push(at, EventClass::Timer, self.timers.source(id), id);
            }
            Expiry::Fire(Owner::Controller(transport, port)) => {
                self.control_timeout(transport, port);
            }
            Expiry::Depart(flow) => self.depart(flow),
            Expiry::Fire(Owner::Endpoint(flow, end)) => self.endpoint_timeout(flow, end),
            Expiry::Fire(Owner::Host(transport, host)) => self.host_timeout(transport, host),
        }
    }

    pub(crate) fn finish(mut self, interrupted: bool) -> Outcome {
        self.close_window();
        self.recording.totals.ended_at = self.cx.now;
        self.recording.totals.packet_hops =
            self.fabric.ports.iter().map(|port| port.sent_packets).sum();
        self.recording.totals.most_buffered =
            self.fabric.lossless.as_ref().map_or(Bytes::ZERO, Lossless::most_used);
        let pauses = self.pauses_by_class();
        let (pause_cycles, unlisted_pause_cycles) = self.conclude_pause_cycles();
        let controllers = self.controller_records();
        let end = Ending {
            at: self.cx.now,
            waiting: self.fabric.ports.iter().map(|p| p.queue.waiting().1).collect(),
            alive: self.cx.packets.len(),
            flows: &self.recording.records,
        };
        let mut findings = Findings::default();
        self.cx.tap.conclude(&end, &mut findings);
        Outcome {
            flows: self.recording.records,
            totals: self.recording.totals,
            ports: self.fabric.port_totals,
            controllers,
            pauses,
            pause_cycles,
            unlisted_pause_cycles,
            samples: self.recording.samples,
            gauges: self.recording.gauges,
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
