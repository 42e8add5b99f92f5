//! Prefetching: the events of a window are known in order, so the memory that they will touch is
//! fetched into the caches before they are handled.
//!
//! What an event touches is found step by step: its packet names a port or a flow, the port names
//! packets, the flow an endpoint. Each step reads what the step before has fetched, some events
//! earlier.

use crate::engine::Engine;
use crate::events::EventClass;
use crate::flows::CLOSED;
use crate::tap::Tap;
use crate::timers::Owner;
use crate::windows::{IN_SIGHT, Upcoming};
use punctual_core::{
    End, FlowId, FlowStack, HostId, Packet, PacketId, PortId, TransportSet, prefetch,
    prefetch_all_at, prefetch_at,
};

/// How many events ahead each step looks.
const FIRST: usize = IN_SIGHT - 1;
const SECOND: usize = 15;
const THIRD: usize = 11;
const FOURTH: usize = 7;
const FIFTH: usize = 3;

impl<S: TransportSet, T: Tap> Engine<S, T> {
    /// Prefetches what the next events of the open window will touch.
    #[inline(always)]
    pub(crate) fn look_ahead(&self) {
        let Some(windows) = self.cx.events.windows() else { return };
        let upcoming = windows.upcoming();
        let packets = &self.cx.packets;
        match upcoming[FIRST] {
            hop if hop.is_hop() => packets.prefetch(PacketId(hop.target())),
            event => self.fetch_target(event),
        }
        match upcoming[SECOND] {
            hop if hop.is_hop() => {
                prefetch_all_at(&self.fabric.ports, packets[PacketId(hop.target())].next as usize);
            }
            event => self.fetch_named(event),
        }
        match upcoming[THIRD] {
            hop if hop.is_hop() => {
                let packet = &packets[PacketId(hop.target())];
                if let Some(port) = self.fabric.ports.get(packet.next as usize) {
                    port.queue.prefetch(packet, packets);
                }
            }
            event => self.fetch_held(event),
        }
        if !upcoming[FOURTH].is_hop() {
            self.fetch_content_of(upcoming[FOURTH]);
        }
        if !upcoming[FIFTH].is_hop() {
            self.fetch_last(upcoming[FIFTH]);
        }
    }

    /// The packet, port or timer that an event names.
    #[inline(never)]
    fn fetch_target(&self, event: Upcoming) {
        match event.class() {
            EventClass::Arrival => self.cx.packets.prefetch(PacketId(event.target())),
            EventClass::PortFree => {
                self.fetch_port(PortId(event.target()));
                prefetch_at(&self.cx.network.links, event.target() as usize);
            }
            EventClass::Timer => self.timers.prefetch(event.target()),
            EventClass::Scenario => {}
        }
    }

    /// The flow or host that those name.
    #[inline(never)]
    fn fetch_named(&self, event: Upcoming) {
        match event.class() {
            EventClass::Arrival => {
                let packet = &self.cx.packets[PacketId(event.target())];
                prefetch_at(&self.hosts.flows, packet.flow.index());
            }
            EventClass::PortFree => {
                let port = PortId(event.target());
                self.fabric.ports[port.index()].queue.prefetch_state();
                prefetch_all_at(&self.hosts.ready, self.cx.network.link(port).from.index());
            }
            EventClass::Timer => match self.timers.owner(event.target()) {
                Owner::Endpoint(flow, _) => prefetch_at(&self.hosts.flows, flow.index()),
                Owner::Host(transport, host) => {
                    self.hosts.stacks[transport.index()].prefetch_host(host);
                    self.fetch_port(self.cx.network.nic(host));
                }
                Owner::Controller(_, port) => self.fetch_port(port),
            },
            EventClass::Scenario => {}
        }
    }

    /// The endpoint of that flow, the waiting packets of that port.
    #[inline(never)]
    fn fetch_held(&self, event: Upcoming) {
        match event.class() {
            EventClass::Arrival => {
                self.fetch_receiving(&self.cx.packets[PacketId(event.target())]);
            }
            EventClass::PortFree => {
                let port = &self.fabric.ports[event.target() as usize];
                if let Some(waiting) = port.queue.front() {
                    self.cx.packets.prefetch(waiting);
                }
                if let Some(flow) = self.ready_first(PortId(event.target())) {
                    prefetch_at(&self.hosts.flows, flow.index());
                }
            }
            EventClass::Timer => match self.timers.owner(event.target()) {
                Owner::Endpoint(flow, end) => self.fetch_endpoint(flow, end),
                Owner::Host(transport, host) => {
                    self.hosts.stacks[transport.index()].prefetch_shared(host);
                    self.fabric.ports[self.cx.network.nic(host).index()].queue.prefetch_state();
                }
                Owner::Controller(..) => {}
            },
            EventClass::Scenario => {}
        }
    }

    /// What that endpoint points to, and the endpoint of a sender that a NIC will poll.
    #[inline(never)]
    fn fetch_content_of(&self, event: Upcoming) {
        match event.class() {
            EventClass::Arrival => {
                self.fetch_received(&self.cx.packets[PacketId(event.target())]);
            }
            EventClass::PortFree => {
                if let Some(flow) = self.ready_first(PortId(event.target())) {
                    self.fetch_endpoint(flow, End::Sender);
                }
            }
            EventClass::Timer => match self.timers.owner(event.target()) {
                Owner::Endpoint(flow, end) => self.fetch_content(flow, end, None),
                Owner::Host(_, host) => self.fetch_last_waiting(host),
                Owner::Controller(..) => {}
            },
            EventClass::Scenario => {}
        }
    }

    /// The end of the NIC's queue, and what the endpoint of a sender that a NIC will poll points to.
    #[inline(never)]
    fn fetch_last(&self, event: Upcoming) {
        match event.class() {
            EventClass::Arrival => {
                self.fetch_last_waiting(self.cx.packets[PacketId(event.target())].dst);
            }
            EventClass::PortFree => {
                if let Some(flow) = self.ready_first(PortId(event.target())) {
                    self.fetch_content(flow, End::Sender, None);
                }
            }
            EventClass::Timer | EventClass::Scenario => {}
        }
    }

    /// The endpoint that a packet is for, its flow's record, and the NIC of its host.
    #[inline(never)]
    fn fetch_receiving(&self, packet: &Packet) {
        if let Some(record) = self.recording.records.get(packet.flow.index()) {
            prefetch(&record.delivered);
        }
        let end = if packet.is_to_sender() { End::Sender } else { End::Receiver };
        self.fetch_endpoint(packet.flow, end);
        if self.hosts.nics == 1 {
            prefetch_all_at(&self.hosts.ready, packet.dst.index());
            self.fetch_port(self.cx.network.nic(packet.dst));
        }
    }

    /// What the endpoint that a packet is for points to, and the queue of its host's NIC.
    #[inline(never)]
    fn fetch_received(&self, packet: &Packet) {
        let end = if packet.is_to_sender() { End::Sender } else { End::Receiver };
        self.fetch_content(packet.flow, end, Some(packet));
        self.fabric.ports[self.cx.network.nic(packet.dst).index()].queue.prefetch_state();
    }

    /// The last packet that waits at the NIC of a host.
    #[inline(always)]
    fn fetch_last_waiting(&self, host: HostId) {
        let port = &self.fabric.ports[self.cx.network.nic(host).index()];
        if let Some(waiting) = port.queue.back() {
            self.cx.packets.prefetch(waiting);
        }
    }

    /// The packet that waits behind the first `n` of those that a port will probably send next.
    /// These `n` have been fetched.
    #[inline(always)]
    pub(crate) fn fetch_waiting(&self, port: PortId, n: usize) {
        let Some(first) = self.fabric.ports[port.index()].queue.front() else { return };
        let waiting = (0..n).fold(first, |id, _| self.cx.packets.after(id).unwrap_or(first));
        self.cx.packets.prefetch(waiting);
    }

    #[inline(always)]
    fn fetch_port(&self, port: PortId) {
        prefetch_all_at(&self.fabric.ports, port.index());
    }

    /// The endpoint of a flow, and what the flows of its host share.
    #[inline(always)]
    fn fetch_endpoint(&self, flow: FlowId, end: End) {
        let state = &self.hosts.flows[flow.index()];
        let (slot, host) = state.endpoint(end);
        if slot < CLOSED {
            self.hosts.stacks[state.transport.index()].prefetch(end, slot, host);
        }
    }

    /// What a call of this end will touch besides the endpoint itself.
    #[inline(always)]
    fn fetch_content(&self, flow: FlowId, end: End, packet: Option<&Packet>) {
        let state = &self.hosts.flows[flow.index()];
        let (slot, host) = state.endpoint(end);
        if slot < CLOSED {
            self.hosts.stacks[state.transport.index()].prefetch_content(end, slot, host, packet);
            self.timers.prefetch(match end {
                End::Sender => state.sender_timer,
                End::Receiver => state.receiver_timer,
            });
        }
    }

    /// The first sender that waits for a NIC.
    #[inline(always)]
    fn ready_first(&self, port: PortId) -> Option<FlowId> {
        if self.hosts.nics > 1 {
            return None;
        }
        self.hosts.ready.get(self.cx.network.link(port).from.index())?.front().map(FlowId)
    }
}
