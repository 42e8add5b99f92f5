//! Hosts: the engine drives transports by the contract in `core/src/endpoint.rs`.

use crate::engine::{Engine, Nic};
use crate::events::EventClass;
use crate::flows::{CLOSED, FlowState, NONE, UNREADY};
use crate::scenario_events::ScenarioEvent;
use crate::shard::News;
use crate::state::must_end;
use crate::tap::{CallReason, Loss, Observation, Tap};
use crate::timers::{Owner, endpoint_source};
use punctual_core::{
    Bytes, Call, Class, Controller as _, End, FlowEvent, FlowId, FlowRoute, FlowSpec, FlowStack,
    HostId, Instant, Packet, PacketId, TimerChange, TransportId, TransportSet, Wait,
};
use punctual_record::{ByCause, FlowCounts, FlowRecord, FlowStatus};
use std::cmp::Reverse;

macro_rules! call {
    ($engine:ident, $host:expr) => {
        Call {
            now: $engine.cx.now,
            host: $host,
            ext: &mut $engine.fabric.ext,
            out: &mut $engine.hosts.outbox,
        }
    };
}

impl<S: TransportSet, T: Tap> Engine<S, T> {
    /// Starts the flows that are due by now.
    pub(crate) fn start_flows(&mut self) {
        if self.starts.flow_start_at > self.cx.now {
            // An earlier event has started them. How many such events there are depends on when an end
            // of a flow is known, so they do not count.
            if !self.is_copy() {
                self.recording.totals.events -= 1;
            }
            return;
        }
        self.starts.flow_start_at = Instant::NEVER;
        while let Some(spec) = self.starts.flows.get(self.starts.next_flow).copied() {
            if spec.start > self.cx.now {
                self.expect_flows(spec.start);
                break;
            }
            self.starts.next_flow += 1;
            self.start_flow(spec);
        }
        while let Some(&Reverse((at, index))) = self.starts.later.peek() {
            if at > self.cx.now {
                self.expect_flows(at);
                break;
            }
            self.starts.later.pop();
            self.start_flow(self.starts.later_specs[index as usize]);
        }
    }

    fn start_flow(&mut self, mut spec: FlowSpec) {
        let flow = FlowId::from(self.hosts.flows.len());
        spec.id = flow;
        self.hosts.flows.push(FlowState::new(&spec));
        self.recording.records.push(FlowRecord {
            spec,
            status: FlowStatus::Unfinished,
            ended: None,
            delivered: Bytes::ZERO,
            retransmits: 0,
            retransmits_by: ByCause::default(),
            timeouts: 0,
            trims: 0,
            bounces: 0,
            in_window: FlowCounts::default(),
        });
        self.cx.tap.observe(Observation::FlowStarted { spec: &spec });
        if let Some((at, deadline)) = self.starts.workload.deadline_change(&spec) {
            self.starts.deadline_changes.push(at, flow, deadline);
            self.schedule(at, ScenarioEvent::DeadlineChange);
        }
        let route = self.route(flow, spec.src, spec.dst);
        if self.hosts.nics > 1 {
            self.hosts.hashed_nics.push(route.ecmp_path % self.hosts.nics);
            self.hosts
                .ready_links
                .resize(self.hosts.ready_links.len() + self.hosts.nics as usize, UNREADY);
        }
        if !self.owns(spec.src) {
            return;
        }
        let stack = &mut self.hosts.stacks[spec.transport.index()];
        let slot = stack.open_sender(&spec, &route, call!(self, spec.src));
        self.hosts.flows[flow.index()].sender = slot;
        self.drain(spec.src, flow, End::Sender);
    }

    /// Applies the changes of deadlines that are due by now.
    pub(crate) fn change_deadlines(&mut self) {
        while let Some((flow, deadline)) = self.starts.deadline_changes.pop(self.cx.now) {
            let state = self.hosts.flows[flow.index()];
            let status = self.recording.records[flow.index()].status;
            if status != FlowStatus::Unfinished
                || state.sender >= CLOSED
                || self.has_completed(flow)
            {
                continue;
            }
            let record = &mut self.recording.records[flow.index()];
            self.starts.deadline_changes.remember(flow, record.spec.deadline);
            record.spec.deadline = deadline;
            self.cx.tap.observe(Observation::TransportCalled(CallReason::Deadline(flow)));
            let stack = &mut self.hosts.stacks[state.transport.index()];
            stack.handle_deadline(state.sender, deadline, call!(self, state.src));
            self.drain(state.src, flow, End::Sender);
        }
    }

    fn route(&self, flow: FlowId, local: HostId, peer: HostId) -> FlowRoute {
        let paths = self.cx.network.paths(local, peer);
        FlowRoute::of(self.seed, flow, local, peer, paths, self.hosts.nics)
    }

    /// A packet has reached its host.
    #[inline]
    pub(crate) fn deliver(&mut self, host: HostId, id: PacketId) {
        let packet = &self.cx.packets[id];
        debug_assert_eq!(packet.dst, host, "misrouted");
        let flow = packet.flow;
        let FlowState { sender, receiver, transport, .. } = self.hosts.flows[flow.index()];
        if packet.is_to_sender() {
            if sender >= CLOSED {
                self.lose(id, Loss::Stray);
                return;
            }
            self.cx.tap.observe(Observation::PacketArrived { id, packet, at: self.cx.now });
            let stack = &mut self.hosts.stacks[transport.index()];
            stack.handle_packet(End::Sender, sender, packet, call!(self, host));
            self.dispose(id);
            self.drain(host, flow, End::Sender);
            return;
        }
        if receiver >= CLOSED {
            self.deliver_first(host, id);
            return;
        }
        if self.close_if_sender_ended(flow) {
            self.lose(id, Loss::Stray);
            return;
        }
        let packet = &self.cx.packets[id];
        self.cx.tap.observe(Observation::PacketArrived { id, packet, at: self.cx.now });
        if packet.payload_bytes > 0 && !packet.is_trimmed() {
            self.recording.totals.delivered_packets += 1;
            self.recording.totals.delivered_wire_bytes += u64::from(packet.wire_bytes);
        }
        let stack = &mut self.hosts.stacks[transport.index()];
        stack.handle_packet(End::Receiver, receiver, packet, call!(self, host));
        self.dispose(id);
        self.drain(host, flow, End::Receiver);
    }

    /// A packet has reached a receiver that is not open yet, or is closed.
    #[cold]
    fn deliver_first(&mut self, host: HostId, id: PacketId) {
        let first = self.cx.packets[id];
        let is_closed = self.hosts.flows[first.flow.index()].receiver == CLOSED;
        if is_closed || self.close_if_sender_ended(first.flow) {
            self.lose(id, Loss::Stray);
            return;
        }
        self.open_receiver(host, &first);
        self.deliver(host, id);
    }

    fn open_receiver(&mut self, host: HostId, first: &Packet) {
        let state = self.hosts.flows[first.flow.index()];
        let route = self.route(first.flow, state.dst, state.src);
        let stack = &mut self.hosts.stacks[state.transport.index()];
        let slot = stack.open_receiver(first, &route, call!(self, host));
        self.hosts.flows[first.flow.index()].receiver = slot;
        self.drain(host, first.flow, End::Receiver);
    }

    /// The timer of one end of a flow fires.
    #[inline(never)]
    pub(crate) fn endpoint_timeout(&mut self, flow: FlowId, end: End) {
        let state = self.hosts.flows[flow.index()];
        let (slot, host) = state.endpoint(end);
        self.cx.tap.observe(Observation::TransportCalled(CallReason::Timer(flow, end)));
        self.hosts.stacks[state.transport.index()].handle_timeout(end, slot, call!(self, host));
        self.drain(host, flow, end);
    }

    /// The timer of a transport's shared state at a host fires.
    #[inline(never)]
    pub(crate) fn host_timeout(&mut self, transport: TransportId, host: HostId) {
        self.cx.tap.observe(Observation::TransportCalled(CallReason::HostTimer(host)));
        self.cx.tap.observe(Observation::HostTimerChanged { transport, host, is_set: false });
        self.hosts.stacks[transport.index()].host_timeout(call!(self, host));
        self.apply_host_timer(transport, host);
        self.send_all(transport, host);
    }

    /// A NIC is free: polls the sender whose turn it is for its next packet.
    #[inline]
    pub(crate) fn poll_nic(&mut self, nic: Nic) -> Option<PacketId> {
        while let Some(flow) = self.take_ready(nic) {
            let state = self.hosts.flows[flow.index()];
            if state.sender < CLOSED
                && let Some(id) = self.poll_sender(nic, flow, state)
            {
                return Some(id);
            }
        }
        None
    }

    /// Takes the flow whose turn it is out of a NIC's queue of ready senders.
    #[inline]
    fn take_ready(&mut self, nic: Nic) -> Option<FlowId> {
        match self.hosts.nics {
            1 => self.hosts.ready[nic.host.index()].pop(&mut self.hosts.flows[..]).map(FlowId),
            nics => {
                let place =
                    self.hosts.ready[nic.index(nics)].pop(&mut self.hosts.ready_links[..])?;
                Some(FlowId(place / nics))
            }
        }
    }

    /// Polls a sender. Returns a packet that is to leave by this NIC, if there is one; a packet for
    /// another NIC joins the queue of that one.
    #[inline]
    fn poll_sender(&mut self, nic: Nic, flow: FlowId, state: FlowState) -> Option<PacketId> {
        self.cx.tap.observe(Observation::TransportCalled(CallReason::Polled(flow, nic.port)));
        let stack = &mut self.hosts.stacks[state.transport.index()];
        let packet = stack.poll_transmit(state.sender, nic.number, call!(self, nic.host));
        self.drain(nic.host, flow, End::Sender);
        self.admit_polled(state.transport, nic, &packet?)
    }

    /// A packet of a flow is due ([`TimerChange::Depart`]). If its NIC is idle, the sender is polled
    /// at once; else its timer fires.
    #[inline(never)]
    pub(crate) fn depart(&mut self, flow: FlowId) {
        let state = self.hosts.flows[flow.index()];
        let nic = self.nic(state.src, self.hashed_nic(flow));
        let port_id = nic.port;
        let port = &mut self.fabric.ports[port_id.index()];
        port.catch_up(port_id, &mut self.cx);
        let is_free =
            !port.scheduled.has(punctual_net::Scheduled::POLL) && port.busy_until <= self.cx.now;
        if !is_free || !self.ready_at(nic).is_at_rest() {
            self.endpoint_timeout(flow, End::Sender);
            return;
        }
        self.cx.tap.observe(Observation::TransportCalled(CallReason::Timer(flow, End::Sender)));
        self.cx.tap.observe(Observation::SenderReady { flow, nic: port_id });
        let port = &mut self.fabric.ports[port_id.index()];
        port.scheduled.set(punctual_net::Scheduled::POLL, true);
        // Packets that it pushes while it is polled wait until the poll is over.
        port.busy_until = Instant::NEVER;
        let polled = self.poll_sender(nic, flow, state);
        self.end_poll(nic, polled);
    }

    /// The NIC of the path that a flow's hash gives.
    #[inline]
    fn hashed_nic(&self, flow: FlowId) -> u32 {
        match self.hosts.nics {
            1 => 0,
            _ => self.hosts.hashed_nics[flow.index()],
        }
    }

    /// Gives a packet that a transport made a slot in the arena and a path.
    #[inline]
    fn admit(&mut self, transport: TransportId, host: HostId, packet: &Packet) -> PacketId {
        let id = self.cx.packets.alloc(*packet);
        let packet = &mut self.cx.packets[id];
        packet.transport = transport;
        let random = self.fabric.path_choices.at(host.into());
        if self.faults.detours.is_empty() {
            self.cx.network.enter(host, packet, random);
        } else {
            self.faults.detours.enter(&self.cx.network, host, packet, random);
        }
        self.cx.tap.observe(Observation::PacketCreated { id, packet });
        self.show_extension(id);
        id
    }

    #[inline]
    fn admit_polled(
        &mut self,
        transport: TransportId,
        nic: Nic,
        packet: &Packet,
    ) -> Option<PacketId> {
        let id = self.admit(transport, nic.host, packet);
        if self.hosts.nics > 1 {
            let port = self.cx.network.first_port(nic.host, &self.cx.packets[id]);
            if port != nic.port {
                self.offer(port, id);
                return None;
            }
        }
        // Polled packets do not pass `offer`, which shows other packets to the NIC's controllers.
        if self.fabric.ports[nic.port.index()].needs_departure_checks {
            self.control_forward(nic.port, id);
        }
        Some(id)
    }

    /// Applies the outbox of the last call.
    #[inline]
    fn drain(&mut self, host: HostId, flow: FlowId, end: End) {
        let transport = self.hosts.flows[flow.index()].transport;
        if self.hosts.outbox.timer != TimerChange::Keep {
            self.apply_timer(flow, end);
        }
        if self.hosts.outbox.host_timer != TimerChange::Keep {
            self.cx.tap.observe(Observation::HostTimerChangedFor { flow });
            self.apply_host_timer(transport, host);
        }
        if let Some(class) = self.hosts.outbox.ready.take() {
            if self.hosts.nics == 1 {
                let nic = self.cx.network.nic(host);
                self.cx.tap.observe(Observation::SenderReady { flow, nic });
                self.hosts.ready[host.index()].push(&mut self.hosts.flows[..], flow.0, class);
            } else {
                self.add_ready(host, flow, class);
            }
        }
        if !self.hosts.outbox.packets.is_empty() {
            self.send_all(transport, host);
        }
        if !self.hosts.outbox.events.is_empty() {
            self.handle_events(flow);
        }
        if T::FOLLOWS && self.cx.tap.follows(flow) {
            self.observe_wait(flow, end);
        }
        if self.hosts.nics > 1 {
            self.wake_nics(host);
        } else if !self.hosts.ready[host.index()].is_empty() {
            self.wake_nic(self.cx.network.nic(host));
        }
    }

    /// Adds a sender to the queues of the NICs that it is ready for.
    #[inline(never)]
    fn add_ready(&mut self, host: HostId, flow: FlowId, class: Class) {
        let wanted = match std::mem::take(&mut self.hosts.outbox.ready_nics) {
            0 => 1 << self.hashed_nic(flow),
            wanted => wanted,
        };
        for number in (0..self.hosts.nics).filter(|number| wanted >> number & 1 == 1) {
            let nic = self.cx.network.nics(host)[number as usize];
            self.cx.tap.observe(Observation::SenderReady { flow, nic });
            let index = (host.0 * self.hosts.nics + number) as usize;
            let place = flow.0 * self.hosts.nics + number;
            self.hosts.ready[index].push(&mut self.hosts.ready_links[..], place, class);
        }
    }

    /// Makes sure that each NIC for which senders of this host are ready asks them when it is free.
    #[inline(never)]
    fn wake_nics(&mut self, host: HostId) {
        for number in 0..self.hosts.nics {
            if !self.hosts.ready[(host.0 * self.hosts.nics + number) as usize].is_empty() {
                self.wake_nic(self.cx.network.nics(host)[number as usize]);
            }
        }
    }

    /// Reports what an end waits for, and which flows the port that pauses it prefers.
    #[cold]
    fn observe_wait(&mut self, flow: FlowId, end: End) {
        let state = self.hosts.flows[flow.index()];
        let stack = &self.hosts.stacks[state.transport.index()];
        let (slot, _) = state.endpoint(end);
        if slot >= CLOSED {
            return;
        }
        let wait = stack.waits_for(end, slot);
        let mut ahead = Vec::new();
        if let Wait::Paused(port) = wait
            && let Some(c) = self.fabric.controllers.get(state.transport, port)
        {
            c.controller.flows_ahead(flow, &mut |other| ahead.push(other));
        }
        self.cx.tap.observe(Observation::EndWaits { flow, end, wait, ahead: &ahead });
    }

    fn send_all(&mut self, transport: TransportId, host: HostId) {
        let mut port = self.cx.network.nic(host);
        // Taken out, because sending may call transports again.
        let mut packets = std::mem::take(&mut self.hosts.outbox.packets);
        for packet in &packets {
            let id = self.admit(transport, host, packet);
            if self.hosts.nics > 1 {
                port = self.cx.network.first_port(host, &self.cx.packets[id]);
            }
            self.offer(port, id);
        }
        packets.clear();
        if self.hosts.outbox.packets.capacity() < packets.capacity() {
            self.hosts.outbox.packets = packets;
        }
    }

    #[inline]
    fn apply_timer(&mut self, flow: FlowId, end: End) {
        let change = std::mem::take(&mut self.hosts.outbox.timer);
        self.cx.tap.observe(Observation::TimerChanged { flow, end, change });
        let state = &mut self.hosts.flows[flow.index()];
        let timer = match end {
            End::Sender => &mut state.sender_timer,
            End::Receiver => &mut state.receiver_timer,
        };
        match change {
            TimerChange::Keep => {}
            TimerChange::Clear if *timer == NONE => {}
            TimerChange::Clear => self.timers.clear(*timer),
            TimerChange::Set(at) | TimerChange::Depart(at) => {
                if *timer == NONE {
                    *timer = self.timers.alloc(Owner::Endpoint(flow, end));
                }
                let at = at.max(self.cx.now);
                let departs = matches!(change, TimerChange::Depart(_));
                if self.timers.set_for(*timer, at, departs) {
                    let source = endpoint_source(flow, end);
                    self.cx.events.push(at, EventClass::Timer, source, *timer);
                }
            }
        }
    }

    #[inline]
    fn apply_host_timer(&mut self, transport: TransportId, host: HostId) {
        let change = std::mem::take(&mut self.hosts.outbox.host_timer);
        let timer = self.hosts.host_timers[transport.index()][host.index()];
        let changed = |is_set| Observation::HostTimerChanged { transport, host, is_set };
        match change {
            TimerChange::Keep => {}
            TimerChange::Clear => {
                self.cx.tap.observe(changed(false));
                self.timers.clear(timer);
            }
            TimerChange::Set(at) | TimerChange::Depart(at) => {
                self.cx.tap.observe(changed(true));
                let at = at.max(self.cx.now);
                if self.timers.set(timer, at) {
                    self.cx.events.push(at, EventClass::Timer, timer, timer);
                }
            }
        }
    }

    fn handle_events(&mut self, flow: FlowId) {
        let mut events = std::mem::take(&mut self.hosts.outbox.events);
        for event in events.drain(..) {
            self.cx.tap.observe(Observation::FlowEvent { flow, event });
            let record = &mut self.recording.records[flow.index()];
            match event {
                FlowEvent::Delivered(range) => {
                    record.delivered += Bytes::new(range.len);
                    self.recording.totals.delivered_bytes += range.len;
                }
                FlowEvent::Completed => {
                    record.status = FlowStatus::Completed;
                    record.ended = Some(self.cx.now);
                    self.flow_ended(flow);
                    self.announce(flow, News::Completed);
                }
                FlowEvent::Abandoned => {
                    if record.status == FlowStatus::Unfinished && !self.has_completed(flow) {
                        let record = &mut self.recording.records[flow.index()];
                        record.status = FlowStatus::Abandoned;
                        record.ended = Some(self.cx.now);
                        self.flow_ended(flow);
                    }
                    self.close(flow);
                }
                FlowEvent::Finished => self.close(flow),
                FlowEvent::Retransmitted(cause) => {
                    record.retransmits += 1;
                    *record.retransmits_by.of(cause) += 1;
                }
                FlowEvent::TimedOut => record.timeouts += 1,
                FlowEvent::Trimmed => record.trims += 1,
                FlowEvent::Bounced => record.bounces += 1,
                _ => {}
            }
        }
        if self.hosts.outbox.events.capacity() < events.capacity() {
            self.hosts.outbox.events = events;
        }
    }

    fn flow_ended(&mut self, flow: FlowId) {
        self.end.flows_ended += 1;
        let mut spec = self.recording.records[flow.index()].spec;
        if let Some(first) = self.starts.deadline_changes.take_first(flow) {
            spec.deadline = first; // closed loops find the next flow by it
        }
        let measure = self.recording.measure;
        if must_end(&spec) && measure.awaits(spec.start) {
            self.end.awaited -= 1;
        }
        match self.cx.tap.shard_mut() {
            Some(shard) => shard.note_ended(&spec, self.cx.now),
            None => self.continue_loop(&spec, self.cx.now),
        }
        if self.is_done() {
            self.end.check_at = 0;
        }
    }

    /// Starts the next flow of a closed loop in which a flow has ended.
    pub(crate) fn continue_loop(&mut self, ended: &FlowSpec, now: Instant) {
        let Some(next) = self.starts.workload.next_after(ended, now) else { return };
        let start = next.start.max(now);
        let is_awaited = must_end(&next) && self.recording.measure.awaits(start);
        match self.cx.tap.shard() {
            Some(_) => self.end.continued += u64::from(is_awaited),
            None => self.end.awaited += u64::from(is_awaited),
        }
        self.starts.later_specs.push(FlowSpec { start, ..next });
        self.starts.later.push(Reverse((start, self.starts.later_specs.len() as u64 - 1)));
        self.expect_flows(start);
    }

    /// Removes both ends of a flow whose sender has ended.
    fn close(&mut self, flow: FlowId) {
        self.announce(flow, News::SenderEnded);
        let state = &mut self.hosts.flows[flow.index()];
        let stack = &mut self.hosts.stacks[state.transport.index()];
        for end in [End::Sender, End::Receiver] {
            let (slot, host) = state.endpoint(end);
            if slot < CLOSED {
                stack.close(end, slot, host);
            }
        }
        for timer in [state.sender_timer, state.receiver_timer] {
            if timer != NONE {
                self.timers.release(timer);
            }
        }
        (state.sender, state.receiver) = (CLOSED, CLOSED);
        (state.sender_timer, state.receiver_timer) = (NONE, NONE);
    }
}
