//! The switch without any interface: addresses, routes, ports and controllers in virtual time.

mod reload;

use crate::address::{AddressTable, is_group};
use crate::config::{LinkFaults, SwitchConfig};
use crate::context::{Events, SwitchContext, What, link_of};
use crate::controllers::Controllers;
use crate::counters::{HostCounters, PortCounters};
use crate::frame::{self, ETHERNET, IpPlace, Layers};
use crate::io::Received;
use crate::trim_rule::{TrimLengths, TrimRule};
use punctual_core::rng::{Stream, derive};
use punctual_core::{
    ControllerState, ExtArena, FlowId, Header, HostId, Instant, Packet, PacketArena, PacketFlags,
    PacketId, PortId, TransportId, TransportSet as _,
};
use punctual_net::{Fate, Fates, Network, Port, Queue};
use punctual_wire::{AnyCodec, Codec as _, Datagram, HEADER_BYTES_MAX, RecentNumbers, with_ecn};

/// The transport of packets that are not ours. It has no controllers and no trimming class.
const FOREIGN: TransportId = TransportId(63);

/// Packets that the switch holds at most. Queues have limits of their own; this bounds the memory
/// that long links take.
const PACKETS_MAX: usize = 1 << 17;

/// A mark in [`Packet::hop`] by which an arrival is known again after a queue has acted on it.
const ARRIVAL_MARK: u8 = 1 << 7;

/// A frame and what was read in it, by packet.
#[derive(Debug, Default)]
struct Slot {
    frame: Vec<u8>,
    layers: Layers,
    /// The host that sent it.
    from: HostId,
    /// For packets that a controller may rewrite: the codec, and the bytes of their fields.
    codec: Option<(AnyCodec, usize)>,
    /// The port at which it waits, or whose link it is on.
    at: PortId,
    /// Whether the frame has been trimmed, here or before.
    is_trimmed: bool,
    /// Whether the packet of this slot is in the switch.
    is_live: bool,
    /// Whether no way leads on from the end of its link, since the configuration changed.
    is_stranded: bool,
}

/// Any number of switches, their ports and the links between them.
pub struct Fabric {
    network: Network,
    cx: SwitchContext,
    ext: ExtArena,
    ports: Vec<Port>,
    controllers: Controllers,
    /// By packet.
    slots: Vec<Slot>,
    addresses: AddressTable,
    /// By wire number: the transport, and its codec if it has controllers.
    transports: [Option<(TransportId, Option<AnyCodec>)>; 32],
    /// Transports whose packets may be trimmed, one bit each.
    trimming: u64,
    trim: TrimRule,
    frame_bytes_max: usize,
    /// When its clock read 0.
    epoch: u32,
    fates: Fates,
    choice: Stream,
    /// By port: its faults, and the random stream of its losses.
    faults: Vec<(LinkFaults, Stream)>,
    port_counters: Vec<PortCounters>,
    host_counters: Vec<HostCounters>,
}

impl Fabric {
    /// A switch as configured, whose clock began at `epoch` ([`FrameIo::epoch`](crate::FrameIo::epoch)).
    pub fn new(config: &SwitchConfig, epoch: u32) -> Self {
        let network = config.network.clone();
        let trimming = config.transports.iter().enumerate().filter(|(_, t)| t.is_trimmable());
        let trimming = trimming.fold(0, |mask, (t, _)| mask | 1 << (t & 63));
        let queue_of = |port: usize| {
            let spec = config.queues[port].sized_for(network.mtu);
            let mut queue = Queue::new(&spec, derive(config.seed, "port", port as u64));
            queue.set_trimming(trimming);
            queue
        };
        let links = network.links.iter().enumerate();
        let mut ports: Vec<Port> =
            links.map(|(p, link)| Port::new(link, network.framing, queue_of(p))).collect();
        let is_uplink = |port: PortId| network.link(port).from.0 < network.hosts;
        let wants = |port| config.uplink_controllers || !is_uplink(port);
        let controllers = Controllers::new(&config.transports, &ports, wants);
        for (p, link) in network.links.iter().enumerate() {
            ports[p].needs_departure_checks = controllers.at(PortId::from(p)).0;
            ports[p].reverse_has_controller = controllers.at(link.twin).1;
        }
        let stream = |port| Stream::named(config.seed, "link loss", port as u64);
        let faults: Vec<(LinkFaults, Stream)> =
            config.faults.iter().enumerate().map(|(p, faults)| (*faults, stream(p))).collect();
        for (port, (faults, _)) in ports.iter_mut().zip(&faults) {
            port.needs_arrival_checks = faults.is_down || faults.loss > 0.0;
        }
        let mut addresses = AddressTable::default();
        for (h, host) in config.hosts.iter().enumerate() {
            if let Some(mac) = host.mac {
                addresses.insert_static(mac, HostId::from(h));
            }
        }
        let mut transports = [None; 32];
        for (t, transport) in config.transports.iter().enumerate() {
            let id = TransportId(t as u8);
            let codec = AnyCodec::of(transport.name(), network.mtu)
                .map(|codec| codec.for_switches().with_epoch(epoch));
            let number = punctual_wire::CODECS.iter().find(|c| c.0 == transport.name());
            if let (Some(codec), Some((_, number, _))) = (codec, number) {
                let codec = controllers.has(id).then_some(codec);
                transports[usize::from(*number & 31)] = Some((id, codec));
            }
        }
        Fabric {
            cx: SwitchContext {
                now: Instant::ZERO,
                packets: PacketArena::default(),
                events: Events::default(),
            },
            ext: ExtArena::default(),
            slots: Vec::new(),
            addresses,
            transports,
            trimming,
            trim: config.trim,
            // Four more bytes for a VLAN tag, and room for headers that are longer on the wire than
            // in the simulator, whose packets fill the MTU.
            epoch,
            frame_bytes_max: network.mtu.get() as usize + ETHERNET + 4 + HEADER_BYTES_MAX,
            fates: Fates::new(),
            choice: Stream::named(config.seed, "switch paths", 0),
            faults,
            port_counters: vec![PortCounters::default(); ports.len()],
            host_counters: vec![HostCounters::default(); network.hosts as usize],
            controllers,
            ports,
            network,
        }
    }

    /// Takes a frame from a host. It enters the host's link at its arrival time, or now if the
    /// virtual clock is past that.
    pub fn receive(&mut self, from: HostId, received: Received<'_>) {
        let counters = &mut self.host_counters[from.index()];
        counters.received += 1;
        let frame = received.frame;
        if received.is_cut || frame.len() > self.frame_bytes_max {
            counters.oversize += 1;
            return;
        }
        let Some((&[t0, t1, t2, t3, t4, t5, f0, f1, f2, f3, f4, f5], _)) =
            frame.split_first_chunk::<12>().filter(|_| frame.len() >= ETHERNET)
        else {
            counters.short += 1;
            return;
        };
        if received.checksum_missing {
            counters.checksum_missing += 1;
            return;
        }
        if received.at < self.cx.now {
            counters.arrived_late += 1;
        }
        let at = received.at.max(self.cx.now);
        let (to, source) = ([t0, t1, t2, t3, t4, t5], [f0, f1, f2, f3, f4, f5]);
        self.addresses.learn(source, from);
        let layers = Layers::of(frame);
        match self.addresses.host(to).filter(|_| !is_group(to)) {
            Some(host) if host == from => self.host_counters[from.index()].returned += 1,
            Some(host) => self.enter(from, host, frame, layers, at),
            None => {
                self.host_counters[from.index()].flooded += 1;
                for host in (0..self.network.hosts).map(HostId).filter(|host| *host != from) {
                    self.enter(from, host, frame, layers, at);
                }
            }
        }
    }

    /// Makes a packet of a frame for one host.
    fn enter(&mut self, from: HostId, to: HostId, frame: &[u8], layers: Layers, at: Instant) {
        if self.cx.packets.len() >= PACKETS_MAX {
            self.host_counters[from.index()].overload += 1;
            return;
        }
        let (mut packet, codec) = self.packet(from, to, frame, &layers);
        // A path must exist, whatever number the header has.
        let is_reverse = packet.flags.has(PacketFlags::REVERSE_PATH);
        let (src, dst) = if is_reverse { (to, from) } else { (from, to) };
        let paths = self.network.paths(src, dst).max(1);
        packet.path = match layers.ours {
            Some(_) => packet.path % paths,
            None => layers.hash % paths,
        };
        let choice = &mut self.choice;
        self.network.enter(from, &mut packet, |n| choice.below(u64::from(n)) as u32);
        let is_trimmed = packet.is_trimmed();
        let id = self.cx.packets.alloc(packet);
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, Slot::default);
        }
        let slot = &mut self.slots[id.index()];
        slot.frame.clear();
        slot.frame.extend_from_slice(frame);
        (slot.layers, slot.from, slot.codec, slot.is_trimmed) = (layers, from, codec, is_trimmed);
        (slot.at, slot.is_live, slot.is_stranded) = (self.network.nic(from), true, false);
        self.cx.events.push(at, What::Enters(id));
    }

    /// The packet that ports and controllers see.
    fn packet(
        &mut self,
        from: HostId,
        to: HostId,
        frame: &[u8],
        layers: &Layers,
    ) -> (Packet, Option<(AnyCodec, usize)>) {
        let mut packet = Packet::new(FlowId(layers.hash), to, Header::default());
        packet.transport = FOREIGN;
        let mut used = None;
        if let Some(ours) = &layers.ours {
            packet.flow = FlowId(ours.flow);
            packet.flags = ours.envelope.flags;
            packet.path = u32::from(ours.envelope.path);
            packet.payload_bytes = ours.envelope.payload_bytes;
            if let Some((transport, codec)) =
                self.transports[usize::from(ours.envelope.transport & 31)]
            {
                packet.transport = transport;
                if let Some(codec) = codec {
                    let datagram = &frame[ours.at..ours.end];
                    match self.parse(&codec, datagram, packet.flow, to) {
                        Some((parsed, fields_bytes)) => {
                            packet = parsed;
                            packet.transport = transport;
                            used = Some((codec, fields_bytes));
                        }
                        None => {
                            packet.transport = FOREIGN;
                            self.host_counters[from.index()].malformed += 1;
                        }
                    }
                }
            }
        }
        packet.class = layers.class();
        packet.wire_bytes = u16::try_from(frame.len() - ETHERNET).unwrap_or(u16::MAX);
        packet.flags = with_ecn(packet.flags, layers.traffic_class);
        (packet, used)
    }

    /// Parses a packet for controllers. Returns the size of its fields, too.
    fn parse(
        &mut self,
        codec: &AnyCodec,
        datagram: &[u8],
        flow: FlowId,
        to: HostId,
    ) -> Option<(Packet, usize)> {
        let datagram = Datagram::parse(datagram).ok()?;
        let near = RecentNumbers { now: self.cx.now, ..RecentNumbers::default() };
        let (mut packet, block) = codec.parse(&datagram, &near, flow, to).ok()?;
        packet.ext = block.map(|block| self.ext.alloc(block));
        Some((packet, datagram.fields.len()))
    }

    /// Runs the switch up to `until`. Frames that have reached their host are passed to `deliver`
    /// with the time at which they did.
    pub fn advance(&mut self, until: Instant, deliver: &mut impl FnMut(HostId, &[u8], Instant)) {
        while let Some((at, what)) = self.cx.events.pop_until(until) {
            debug_assert!(at >= self.cx.now, "time goes back");
            self.cx.now = self.cx.now.max(at);
            match what {
                What::Enters(id) => self.offer(self.slots[id.index()].at, id),
                What::Arrives(id) => self.arrive(id, deliver),
                What::Timer(place) => {
                    self.controllers.timer(place, &mut self.ports, &mut self.cx);
                }
            }
        }
    }

    /// When something happens next, if nothing else arrives.
    pub fn next_at(&self) -> Option<Instant> {
        self.cx.events.next_at()
    }

    /// A packet has reached the end of its link.
    fn arrive(&mut self, id: PacketId, deliver: &mut impl FnMut(HostId, &[u8], Instant)) {
        let port_id = link_of(&self.cx.packets, id);
        if self.ports[port_id.index()].needs_arrival_checks && self.loses(port_id, id) {
            return;
        }
        let port = &mut self.ports[port_id.index()];
        if port.reverse_has_controller && self.cx.packets[id].is_to_sender() {
            self.controllers.reverse(id, self.network.link(port_id).twin, &mut self.cx);
        }
        // Packets that waited behind this one have been sent since.
        port.catch_up(port_id, &mut self.cx);
        let node = port.to;
        let packet = &mut self.cx.packets[id];
        if packet.dst.0 == node.0 {
            self.deliver(HostId(node.0), id, deliver);
            return;
        }
        packet.hop += 1;
        let choice = &mut self.choice;
        let out = self.network.next_port(node, packet, |n| choice.below(u64::from(n)) as u32);
        self.offer(out, id);
    }

    /// Whether the link of a port loses a packet at its end, or leads it nowhere since the
    /// configuration changed.
    #[cold]
    fn loses(&mut self, port_id: PortId, id: PacketId) -> bool {
        let (faults, stream) = &mut self.faults[port_id.index()];
        let is_lost = faults.is_down || faults.loss > 0.0 && stream.chance(faults.loss);
        let counters = &mut self.port_counters[port_id.index()];
        match (is_lost, self.slots[id.index()].is_stranded) {
            (true, _) => counters.losses += 1,
            (false, true) => counters.unroutable += 1,
            (false, false) => return false,
        }
        self.ports[port_id.index()].catch_up(port_id, &mut self.cx);
        self.dispose(id);
        true
    }

    /// Sends a packet by a port: at once if the port is idle, else after the waiting packets.
    fn offer(&mut self, port_id: PortId, id: PacketId) {
        let port = &mut self.ports[port_id.index()];
        if port.needs_departure_checks && !self.cx.packets[id].is_to_sender() {
            self.controllers.forward(id, port_id, port, &mut self.cx, &mut self.ext);
        }
        self.slots[id.index()].at = port_id;
        self.place(port_id, id);
    }

    /// Sends or queues a packet that the controllers of a port have seen.
    fn place(&mut self, port_id: PortId, id: PacketId) {
        let port = &mut self.ports[port_id.index()];
        self.cx.packets[id].hop |= ARRIVAL_MARK;
        port.offer(port_id, id, &mut self.cx, &mut self.fates);
        self.follow_arrival(port_id, id);
        if !self.fates.is_empty() {
            self.apply_fates(port_id);
        }
    }

    /// Finds the slot that an arrival is in after a queue has acted on it: a trimming queue may have
    /// put it into the slot of its last packet, and that one into the slot of the arrival.
    fn follow_arrival(&mut self, port: PortId, id: PacketId) {
        let here = &mut self.cx.packets[id];
        if here.hop & ARRIVAL_MARK != 0 {
            here.hop &= !ARRIVAL_MARK;
            return;
        }
        if let Some(tail) = self.ports[port.index()].queue.trimming_tail() {
            self.cx.packets[tail].hop &= !ARRIVAL_MARK;
            self.slots.swap(id.index(), tail.index());
        }
    }

    /// Acts on what the discipline did besides queueing.
    fn apply_fates(&mut self, port_id: PortId) {
        let mut fates = std::mem::take(&mut self.fates);
        for (id, fate) in fates.drain(..) {
            let counters = &mut self.port_counters[port_id.index()];
            match fate {
                Fate::Marked => counters.marks += 1,
                Fate::Trimmed => counters.trims += 1,
                Fate::Dropped => {
                    counters.drops += 1;
                    self.dispose(id);
                }
                Fate::Bounced => self.bounce(port_id, id),
            }
        }
        if self.fates.capacity() < fates.capacity() {
            self.fates = fates;
        }
    }

    /// Returns a header to its sender. One that cannot be turned around is dropped.
    fn bounce(&mut self, port_id: PortId, id: PacketId) {
        let node = self.network.link(port_id).from;
        let slot = &mut self.slots[id.index()];
        let is_at_host = node.0 < self.network.hosts;
        let is_sender_gone = slot.from.0 >= self.network.hosts;
        // A stranded packet has no path that it could return by.
        if is_at_host || is_sender_gone || slot.is_stranded || turn_around(slot).is_none() {
            self.port_counters[port_id.index()].drops += 1;
            self.dispose(id);
            return;
        }
        self.port_counters[port_id.index()].bounces += 1;
        let packet = &mut self.cx.packets[id];
        packet.dst = slot.from;
        packet.flags.set(PacketFlags::BOUNCED.with(PacketFlags::TO_SENDER));
        self.network.turn_back(packet);
        let choice = &mut self.choice;
        let out = self.network.next_port(node, packet, |n| choice.below(u64::from(n)) as u32);
        self.offer(out, id);
    }

    /// Writes into the frame what ports have done to its packet, and delivers it.
    fn deliver(
        &mut self,
        host: HostId,
        id: PacketId,
        deliver: &mut impl FnMut(HostId, &[u8], Instant),
    ) {
        let packet = &self.cx.packets[id];
        let slot = &mut self.slots[id.index()];
        let block = packet.ext.map(|ext| self.ext.get(ext));
        if let (Some((codec, fields_bytes)), Some(ip), Some(ours)) =
            (slot.codec, slot.layers.ip, &slot.layers.ours)
        {
            let emit = |fields: &mut [u8]| match &codec {
                AnyCodec::Ndp(codec) => codec.emit_fields(packet, block, fields),
                AnyCodec::D3(codec) => codec.emit_fields(packet, block, fields),
                AnyCodec::Rcpdc(codec) => codec.emit_fields(packet, block, fields),
                AnyCodec::Pdq(codec) => codec.emit_fields(packet, block, fields),
            };
            frame::rewrite(&mut slot.frame, ip, ours, packet, emit, fields_bytes);
        }
        let counters = &mut self.host_counters[host.index()];
        match finish(slot, packet, self.trim) {
            Some(()) => {
                counters.delivered += 1;
                deliver(host, &slot.frame, self.cx.now);
            }
            None => counters.untrimmable += 1,
        }
        self.dispose(id);
    }

    /// Frees a packet and its header extension.
    fn dispose(&mut self, id: PacketId) {
        if let Some(ext) = self.cx.packets[id].ext {
            self.ext.free(ext);
        }
        self.slots[id.index()].is_live = false;
        self.cx.packets.free(id);
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The virtual clock.
    pub fn now(&self) -> Instant {
        self.cx.now
    }

    /// Packets in the switch.
    pub fn packets(&self) -> usize {
        self.cx.packets.len()
    }

    /// Counters, packets sent and bytes sent of a port.
    pub fn port_counters(&self, port: PortId) -> (PortCounters, u64, u64) {
        let state = &self.ports[port.index()];
        (self.port_counters[port.index()], state.sent_packets, state.sent_bytes)
    }

    /// Counters of a host.
    pub fn host_counters(&self, host: HostId) -> HostCounters {
        self.host_counters[host.index()]
    }

    /// The state of every controller.
    pub fn controller_states(&self) -> impl Iterator<Item = (PortId, ControllerState)> + '_ {
        self.controllers.states()
    }
}

/// Trims a frame and turns it around.
fn turn_around(slot: &mut Slot) -> Option<()> {
    let (ip, ours): (IpPlace, _) = (slot.layers.ip?, slot.layers.ours.as_ref()?);
    if !slot.is_trimmed {
        let bytes = frame::trim(&mut slot.frame).ok()?;
        slot.frame.truncate(bytes);
        slot.is_trimmed = true;
    }
    frame::bounce(&mut slot.frame, ip, ours).ok()?;
    slot.codec = None;
    Some(())
}

/// Trims and marks a frame as its packet was.
fn finish(slot: &mut Slot, packet: &Packet, rule: TrimRule) -> Option<()> {
    if packet.is_trimmed() && !slot.is_trimmed {
        let ip = slot.layers.ip?;
        let bytes = if rule.profile.is_none() && rule.lengths() == TrimLengths::Fixed {
            frame::trim(&mut slot.frame).ok()?
        } else {
            let dscp = rule.dscp.unwrap_or_else(frame::trimmed_dscp);
            let bytes = frame::cut(&mut slot.frame, ip, usize::from(packet.wire_bytes), dscp);
            if rule.lengths() == TrimLengths::Fixed {
                frame::correct_lengths(&mut slot.frame[..bytes], ip);
            }
            bytes
        };
        slot.frame.truncate(bytes);
    }
    let was_marked = slot.layers.traffic_class & 3 == 3;
    if packet.flags.has(PacketFlags::ECN_MARKED) && !was_marked {
        frame::mark(&mut slot.frame, slot.layers.ip?);
    }
    Some(())
}
