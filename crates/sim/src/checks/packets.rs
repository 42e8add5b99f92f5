//! Follows each packet from node to node: where it is, which queue it waits in, which link it is on.

use super::Checks;
use super::flows::VAIN_PACKETS_MAX;
use super::pauses::{BufferLimits, Ingress};
use super::ports::{InService, Left};
use punctual_core::{Bytes, Class, FlowId, HostId, Instant, NodeId, Packet, PacketId, PortId};
use punctual_net::Link;

/// A packet joined a lane of a port's queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grown {
    pub(super) port: PortId,
    pub(super) lane: usize,
    /// The packet that joined it.
    pub(super) id: PacketId,
    /// What counted against the lane's limit at that time without waiting in it.
    pub(super) in_service: InService,
    /// The link and class by which the packet entered the switch.
    pub(super) came_by: Option<Ingress>,
}

/// A packet in the network.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketCheck {
    pub(super) flow: FlowId,
    pub(super) payload_bytes: u16,
    pub(super) wire_bytes: u16,
    pub(super) class: Class,
    pub(super) dst: HostId,
    pub(super) place: Place,
    /// The port over whose link it reached its current node.
    pub(super) came_by: Option<PortId>,
}

/// Where a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At a node, before one of the node's ports.
    At(NodeId),
    /// In a lane of a port's queue.
    Waits(PortId, usize),
    /// On a port's link, due at its end at this time.
    OnLink(PortId, Instant),
}

impl Checks {
    pub(super) fn known(&mut self, id: PacketId) -> Option<PacketCheck> {
        let packet = self.packets.get(id.index()).copied().flatten();
        if packet.is_none() {
            self.report(format!(
                "packet {} was observed, but it was never created or has left the network",
                id.0
            ));
        }
        packet
    }

    /// A packet is offered to a port: it must be at the port's node, or arrive there now.
    pub(super) fn comes_to(&mut self, port: PortId, id: PacketId, packet: &Packet) {
        let Some(mut known) = self.known(id) else { return };
        let here = self.link(port).from;
        match known.place {
            Place::At(node) if node == here => {}
            Place::At(_) | Place::Waits(..) => {
                let name = self.name(port);
                self.report(format!(
                    "a packet was offered to port {name}, but is at another node or still queued"
                ));
            }
            Place::OnLink(by, arrives) => {
                self.ends_link(by, arrives, here);
                self.leads_to(id, known.dst, by, known.flow);
                known.came_by = Some(by);
            }
        }
        let is_same = known.flow == packet.flow
            && known.dst == packet.dst
            && known.payload_bytes == packet.payload_bytes
            && known.wire_bytes == packet.wire_bytes;
        if !is_same {
            self.report(format!(
                "a packet of flow {} changed its flow, destination or size on the way",
                known.flow
            ));
        }
        (known.place, known.class) = (Place::At(here), packet.class);
        self.packets[id.index()] = Some(known);
    }

    /// A packet has reached the end of a link.
    pub(super) fn ends_link(&mut self, by: PortId, arrives: Instant, at: NodeId) {
        let name = self.name(by);
        if self.link(by).to != at {
            self.report(format!("a packet on link {name} arrived at another node"));
        }
        if arrives != self.now {
            self.report(format!("link {name} delivered a packet that was due at {arrives}"));
        }
        // Packets due at the end of a cut link are lost. Those due after its repair arrive.
        if self.ports[by.index()].is_cut {
            self.report(format!("link {name} delivered a packet although it is cut"));
        }
    }

    /// Checks that a link has brought a packet one hop nearer to its host.
    ///
    /// All paths between two hosts are shortest paths, and a packet that avoids a withdrawn link
    /// takes another of them. In other networks, [`ListedPaths`] checks the path.
    pub(super) fn leads_to(&mut self, id: PacketId, dst: HostId, by: PortId, flow: FlowId) {
        if let Some(paths) = &mut self.listed_paths {
            if let Some(wrong) = paths.passes(id, by, dst) {
                let name = self.name(by);
                self.report(format!("link {name}: {wrong}, of flow {flow}"));
            }
            return;
        }
        let Link { from, to, .. } = *self.link(by);
        let (before, after) = (self.distances.to(dst, from), self.distances.to(dst, to));
        if after + 1 != before {
            let name = self.name(by);
            self.report(format!(
                "link {name} is off the shortest path: a packet of flow {flow} went from {before} \
                 to {after} hops from host {}",
                dst.0
            ));
        }
    }

    /// A packet joins the queue of a port.
    pub(super) fn joins(&mut self, port: PortId, id: PacketId, packet: &Packet) {
        let check = &mut self.ports[port.index()];
        let lane = check.join(id, packet);
        let in_service = check.in_service(lane, self.now);
        let node = self.link(port).from;
        self.buffers[node.index()].bytes += u64::from(packet.wire_bytes);
        let mut came_by = None;
        if let Some(Some(known)) = self.packets.get_mut(id.index()) {
            known.place = Place::Waits(port, lane);
            (known.wire_bytes, known.class) = (packet.wire_bytes, packet.class);
            came_by = known.came_by.map(|by| (by, packet.class));
        }
        if let Some((by, class)) = came_by {
            *self.ingresses[by.index()].waiting_of(class) += u64::from(packet.wire_bytes);
        }
        self.grown.push(Grown { port, lane, id, in_service, came_by });
    }

    /// A packet leaves the queue of a port: to be sent (`in_turn`), or trimmed, bounced or dropped.
    pub(super) fn leaves(&mut self, port: PortId, id: PacketId, in_turn: bool) {
        let Some(known) = self.known(id) else { return };
        let Place::Waits(at, lane) = known.place else {
            let name = self.name(port);
            self.report(format!("port {name} dequeued a packet that was not queued"));
            return;
        };
        let left = self.ports[at.index()].leave(id, lane, known.wire_bytes);
        let name = self.name(port);
        match left {
            _ if at != port => {
                self.report(format!("port {name} dequeued a packet of another port's queue"));
            }
            Left::WasNotThere => {
                self.report(format!("port {name} dequeued a packet that its queue does not hold"));
            }
            Left::BeforeOthers if in_turn => {
                self.report(format!("port {name} sent a packet before those queued earlier"));
            }
            Left::First | Left::BeforeOthers => {}
        }
        let node = self.link(at).from;
        let bytes = u64::from(known.wire_bytes);
        self.buffers[node.index()].bytes -= bytes;
        if let Some(by) = known.came_by {
            *self.ingresses[by.index()].waiting_of(known.class) -= bytes;
        }
        self.packets[id.index()] = Some(PacketCheck { place: Place::At(node), ..known });
    }

    /// A packet was trimmed to its header, perhaps while it waited.
    pub(super) fn loses_payload(&mut self, port: PortId, id: PacketId, packet: &Packet) {
        if let Some(Some(PacketCheck { place: Place::Waits(..), .. })) =
            self.packets.get(id.index())
        {
            self.leaves(port, id, false);
            self.joins(port, id, packet);
        }
        if !packet.is_trimmed() {
            self.report(format!(
                "a packet of flow {} was reported trimmed, but has no TRIMMED flag",
                packet.flow
            ));
        }
    }

    /// A link transmits `bytes` and its framing from one instant to another.
    pub(super) fn occupies(&mut self, port: PortId, bytes: u64, from: Instant, until: Instant) {
        let check = &mut self.ports[port.index()];
        let needed = check.rate.transmission_time(Bytes::new(bytes + self.framing));
        let (overlaps, too_fast) = (from < check.busy_until, until - from < needed);
        check.busy_until = until;
        if overlaps || too_fast {
            let name = self.name(port);
            self.report(format!("link {name} sent faster than its rate"));
        }
    }

    /// An event is over: checks the limits of the lanes that grew in it.
    pub(super) fn settle(&mut self) {
        let mut grown = std::mem::take(&mut self.grown);
        for Grown { port, lane, id, in_service, came_by } in grown.drain(..) {
            let packet = self.packets.get(id.index()).copied().flatten();
            let stays = packet.is_some_and(|packet| packet.place == Place::Waits(port, lane));
            if stays && let Some(excess) = self.ports[port.index()].excess(lane, in_service) {
                let name = self.name(port);
                self.report(format!("port {name} {excess}"));
            }
            let is_switch = self.link(port).from.0 >= self.hosts;
            if let Some(limits) = self.buffer_limits.filter(|_| is_switch) {
                self.check_buffer(limits, port, came_by);
            }
        }
        self.grown = grown;
    }

    /// Checks that a lossless switch stays within its buffer and pauses a link above its threshold.
    pub(super) fn check_buffer(
        &mut self,
        limits: BufferLimits,
        port: PortId,
        came_by: Option<Ingress>,
    ) {
        let node = self.link(port).from;
        let held = self.buffers[node.index()].bytes;
        if held > limits.buffer {
            let most = limits.buffer;
            self.report(format!("switch {node:?} holds {held} B in a buffer of {most} B"));
        }
        if let Some((by, class)) = came_by
            && self.ingresses[by.index()].is_unpaused_above(class, limits.pause_above)
        {
            let name = self.name(by);
            self.report(format!(
                "link {name} exceeds the pause threshold of class {} and is not paused",
                class.0
            ));
        }
    }

    /// A packet has left the network: it arrived or was lost.
    pub(super) fn goes(&mut self, id: PacketId, flow: FlowId) {
        if let Some(slot) = self.packets.get_mut(id.index()) {
            *slot = None;
        }
        let check = self.flow(flow);
        check.gone += 1;
        check.silent_firings = 0;
        let is_excess = check.gone > check.made;
        self.touch(flow);
        self.vain_packets += 1;
        if self.vain_packets == VAIN_PACKETS_MAX {
            self.report(format!(
                "the flows are stuck: {VAIN_PACKETS_MAX} packets delivered no byte of any flow"
            ));
        }
        if is_excess {
            self.report(format!("flow {flow}: more packets arrived or were lost than created"));
        }
    }

    /// A packet has reached its host.
    pub(super) fn reaches_host(&mut self, id: PacketId, packet: &Packet) {
        let Some(known) = self.known(id) else { return };
        match known.place {
            Place::OnLink(by, arrives) => {
                self.ends_link(by, arrives, NodeId(packet.dst.0));
                self.leads_to(id, known.dst, by, known.flow);
            }
            Place::At(_) | Place::Waits(..) => {
                self.report(format!(
                    "a packet of flow {} reached its host, but was not on a link",
                    known.flow
                ));
            }
        }
        if known.flow != packet.flow {
            self.report(format!(
                "a packet of flow {} arrived as one of flow {}",
                known.flow, packet.flow
            ));
        }
    }
}
