//! All hosts of a testbed on one thread: drives the endpoints of transports by the contract in
//! `core/src/endpoint.rs`, on a real clock.
//!
//! * A packet arrives at the time that the kernel gave it, not when this thread finds it.
//! * A timer, a flow's start or a free interface that this thread notices late counts as on time, as
//!   long as it is less than a packet time late: paced packets and pulls then keep their rate. What
//!   is later than that is lost time, and never caught up with.
//! * The queue of a host's interface is that of its link in the switch, where controllers see it.
//!   A sender is polled when its interface has sent everything before.

use crate::flows::{FlowTable, part, place};
use crate::frames::{FrameWriter, is_for};
use crate::timers::Timers;
use punctual_core::{
    ByteRange, Bytes, Call, Class, Duration, End, ExtArena, FlowEvent, FlowId, FlowRoute, FlowSpec,
    FlowStack as _, HostId, Instant, Outbox, Packet, PacketFlags, Rate, TimerChange, TransportId,
    TransportSet as _,
};
use punctual_net::Network;
use punctual_switch::{LatenessHistogram, Received};
use punctual_transports::{AnyStack, AnyTransport};
use punctual_wire::{AnyCodec, Frame, HEADER_BYTES_MAX, RecentNumbers, TrimMark, with_ecn};
use std::collections::{BTreeMap, VecDeque};

/// No slot or timer.
const NONE: u32 = u32::MAX;
/// A slot that was used and is closed for good.
const CLOSED: u32 = u32::MAX - 1;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Packets of the host stack have kinds from here on.
const CONTROL_KINDS: u8 = 8;
/// Timers and packets of a host that one turn handles at most, so that every host has its turn.
const BATCH: u32 = 32;
/// Times between pulls that are kept.
const PULL_GAPS_MAX: usize = 1 << 20;

/// A transport of ours.
struct Own {
    stack: AnyStack,
    codec: AnyCodec,
}

/// The two ends of a flow.
struct Ends {
    slots: [u32; 2],
    timers: [u32; 2],
    near: [RecentNumbers; 2],
    is_ready: bool,
}

/// Whose timer it is.
#[derive(Debug, Clone, Copy)]
enum Owner {
    Host(TransportId),
    Flow(FlowId, End),
}

struct Host {
    /// The time of the last call of this host's endpoints.
    now: Instant,
    /// When the interface has sent everything so far.
    free_at: Instant,
    rate: Rate,
    /// The time of a full packet: what is no more than this late counts as on time.
    packet_time: Duration,
    ready: [VecDeque<FlowId>; Class::COUNT],
    ready_count: u32,
    /// Since when at least one sender has been ready.
    ready_since: Instant,
    timers: Timers,
    /// By timer.
    owners: Vec<Owner>,
    /// By transport.
    host_timers: Vec<u32>,
    /// When the timer of shared state last made packets: when it was due, and when that was noticed.
    last_pull: Option<(Instant, Instant)>,
}

/// The hosts and their flows.
pub(crate) struct Engine {
    network: Network,
    seed: u64,
    incarnation: u16,
    /// By transport; none for those that sockets carry.
    own: Vec<Option<Own>>,
    hosts: Vec<Host>,
    ends: Vec<Ends>,
    pub(crate) table: FlowTable,
    ext: ExtArena,
    out: Outbox,
    writer: FrameWriter,
    /// Frames to be sent, by host.
    pub(crate) outgoing: Vec<(HostId, Vec<u8>)>,
    /// Flows that sockets are to carry: the kernel's TCP, or the host stack.
    pub(crate) for_sockets: Vec<FlowSpec>,
    /// New deadlines of such flows.
    pub(crate) deadlines_for_sockets: Vec<(FlowSpec, Option<Instant>)>,
    /// Times between pulls, in ns.
    pull_gaps: Vec<u32>,
    dropped: BTreeMap<&'static str, u64>,
    lateness: LatenessHistogram,
    /// Of all hosts' timers, flow starts and free interfaces.
    late: u64,
    late_after_packets: u64,
}

fn end_index(end: End) -> usize {
    match end {
        End::Sender => 0,
        End::Receiver => 1,
    }
}

impl Engine {
    /// The hosts of a network. Flows of transports that it does not drive, and of `tcp`, are left to
    /// sockets.
    pub(crate) fn new(
        network: &Network,
        transports: &[AnyTransport],
        is_driven: impl Fn(&AnyTransport) -> bool,
        table: FlowTable,
        seed: u64,
        incarnation: u16,
        late_after_packets: u64,
    ) -> Engine {
        let nics: Vec<_> = (0..network.hosts).map(|h| network.nic_info(HostId(h))).collect();
        let own = |transport: &AnyTransport| {
            let codec =
                AnyCodec::of(transport.name(), network.mtu).filter(|_| is_driven(transport))?;
            Some(Own { stack: transport.stack(&nics), codec })
        };
        let host = |nic: &punctual_core::NicInfo| {
            let mut timers = Timers::default();
            let host_timers: Vec<u32> = transports.iter().map(|_| timers.alloc()).collect();
            let owner = |t| Owner::Host(TransportId(t as u8));
            Host {
                now: Instant::ZERO,
                free_at: Instant::ZERO,
                rate: nic.rate,
                packet_time: nic.rate.transmission_time(nic.mtu + nic.framing),
                ready: Default::default(),
                ready_count: 0,
                ready_since: Instant::ZERO,
                timers,
                owners: (0..transports.len()).map(owner).collect(),
                host_timers,
                last_pull: None,
            }
        };
        Engine {
            own: transports.iter().map(own).collect(),
            hosts: nics.iter().map(host).collect(),
            network: network.clone(),
            seed,
            incarnation,
            ends: Vec::new(),
            table,
            ext: ExtArena::default(),
            out: Outbox::default(),
            writer: FrameWriter::new(ETHERNET + network.mtu.get() as usize + HEADER_BYTES_MAX),
            outgoing: Vec::new(),
            for_sockets: Vec::new(),
            deadlines_for_sockets: Vec::new(),
            pull_gaps: Vec::new(),
            dropped: BTreeMap::new(),
            lateness: LatenessHistogram::default(),
            late: 0,
            late_after_packets,
        }
    }

    /// Notes when the clock of the run began: see [`FrameIo::epoch`](punctual_switch::FrameIo::epoch).
    pub(crate) fn begin(&mut self, epoch: u32) {
        for own in self.own.iter_mut().flatten() {
            own.codec = own.codec.with_epoch(epoch);
        }
    }

    /// The time at which something happens at a host that was due at `due` and is noticed now.
    fn time(&mut self, host: HostId, due: Instant, real: Instant) -> Instant {
        let own = &mut self.hosts[host.index()];
        let lateness = real.saturating_since(due);
        self.lateness.add(lateness.as_nanos());
        self.late += u64::from(lateness > own.packet_time * self.late_after_packets);
        own.now = own.now.max(due).max(Self::earliest(own, real));
        own.now
    }

    /// The earliest instant that counts as the present: a packet time ago.
    fn earliest(host: &Host, real: Instant) -> Instant {
        Instant::ZERO + real.since_start().saturating_sub(host.packet_time)
    }

    /// Starts the flows and changes the deadlines that are due.
    pub(crate) fn start_flows(&mut self, real: Instant) {
        while let Some(spec) = self.table.start_next(real) {
            self.ends.push(Ends {
                slots: [NONE; 2],
                timers: [NONE; 2],
                near: [RecentNumbers::default(); 2],
                is_ready: false,
            });
            if self.own[place(spec.transport)].is_none() {
                self.for_sockets.push(spec);
                continue;
            }
            let now = self.time(spec.src, spec.start, real);
            let route = self.route(spec.id, spec.src, spec.dst);
            if let Some(own) = &mut self.own[place(spec.transport)] {
                let call = Call { now, host: spec.src, ext: &mut self.ext, out: &mut self.out };
                let slot = own.stack.open_sender(&spec, &route, call);
                self.ends[spec.id.index()].slots[0] = slot;
                self.drain(spec.src, Some((spec.id, End::Sender)), spec.transport, None);
            }
        }
        while let Some((due, flow, deadline)) = self.table.change_deadline(real) {
            let spec = *self.table.spec(flow);
            let slot = self.ends[flow.index()].slots[0];
            if self.own[place(spec.transport)].is_none() {
                self.deadlines_for_sockets.push((spec, deadline));
                continue;
            }
            if slot >= CLOSED {
                continue;
            }
            let now = self.time(spec.src, due, real);
            if let Some(own) = &mut self.own[place(spec.transport)] {
                let call = Call { now, host: spec.src, ext: &mut self.ext, out: &mut self.out };
                own.stack.handle_deadline(slot, deadline, call);
                self.drain(spec.src, Some((flow, End::Sender)), spec.transport, None);
            }
        }
    }

    fn route(&self, flow: FlowId, local: HostId, peer: HostId) -> FlowRoute {
        let paths = self.network.paths(local, peer);
        FlowRoute::of(self.seed, flow, local, peer, paths, 1)
    }

    /// A frame has arrived at a host.
    pub(crate) fn receive(&mut self, host: HostId, received: Received<'_>, real: Instant) {
        if !is_for(host, received.frame) {
            return; // The kernel's, or a broadcast.
        }
        // What was due before the frame came happens before.
        self.fire(host, received.at, real);
        if let Err(reason) = self.accept(host, &received) {
            *self.dropped.entry(reason).or_default() += 1;
        }
    }

    /// Passes a frame to its endpoint. The error is the reason to drop it.
    fn accept(&mut self, host: HostId, received: &Received<'_>) -> Result<(), &'static str> {
        let frame = received.frame;
        let frame = Frame::parse(frame, frame.len(), TrimMark::default()).map_err(|e| e.name())?;
        let datagram = &frame.datagram;
        let envelope = &datagram.envelope;
        let flow = FlowId(envelope.name.flow);
        if flow.index() >= self.table.len() || envelope.name.incarnation != self.incarnation {
            return Err("other_run");
        }
        if envelope.kind.number() >= CONTROL_KINDS {
            return Err("control");
        }
        let spec = *self.table.spec(flow);
        let end = match envelope.flags.has(PacketFlags::TO_SENDER) {
            true => End::Sender,
            false => End::Receiver,
        };
        let (here, peer) = match end {
            End::Sender => (spec.src, spec.dst),
            End::Receiver => (spec.dst, spec.src),
        };
        if here != host {
            return Err("other_host");
        }
        let now = {
            let own = &mut self.hosts[host.index()];
            own.now = own.now.max(received.at);
            own.now
        };
        let at = end_index(end);
        let is_new = self.ends[flow.index()].slots[at] == NONE;
        let route = is_new.then(|| self.route(flow, here, peer));
        let ends = &mut self.ends[flow.index()];
        let Some(own) = &mut self.own[place(spec.transport)] else { return Err("other_run") };
        let near = RecentNumbers { now, ..ends.near[at] };
        let (mut packet, block) =
            own.codec.parse(datagram, &near, flow, host).map_err(|e| e.name())?;
        if ends.slots[at] == CLOSED || is_new && end == End::Sender {
            return Err("closed_flow");
        }
        packet.transport = spec.transport;
        packet.flags = with_ecn(packet.flags, frame.outer.ecn);
        packet.ext = block.map(|block| self.ext.alloc(block));
        own.codec.observe(&packet, &mut ends.near[at]);
        let data = own.codec.data(&packet);
        if let Some(route) = route {
            let call = Call { now, host, ext: &mut self.ext, out: &mut self.out };
            ends.slots[at] = own.stack.open_receiver(&packet, &route, call);
            self.drain(host, Some((flow, end)), spec.transport, None);
        }
        let slot = self.ends[flow.index()].slots[at];
        if end == End::Receiver && packet.payload_bytes > 0 && !packet.is_trimmed() {
            self.table.count_packets(1, (received.frame.len() - ETHERNET) as u64);
        }
        let call = Call { now, host, ext: &mut self.ext, out: &mut self.out };
        if let (Some(own), true) = (&mut self.own[place(spec.transport)], slot < CLOSED) {
            own.stack.handle_packet(end, slot, &packet, call);
        }
        if let Some(ext) = packet.ext {
            self.ext.free(ext);
        }
        let arrived = data.map(|data| (data.range, datagram.payload));
        self.drain(host, Some((flow, end)), spec.transport, arrived);
        Ok(())
    }

    /// Fires the timers of a host that are due by `until`.
    fn fire(&mut self, host: HostId, until: Instant, real: Instant) {
        for _ in 0..BATCH {
            let own = &mut self.hosts[host.index()];
            let Some((due, timer)) = own.timers.pop(until) else { return };
            let owner = own.owners[timer as usize];
            let now = self.time(host, due, real.max(until));
            let call = Call { now, host, ext: &mut self.ext, out: &mut self.out };
            match owner {
                Owner::Host(transport) => {
                    if let Some(own) = &mut self.own[place(transport)] {
                        own.stack.host_timeout(call);
                        if !self.out.packets.is_empty() {
                            self.note_pull(host, due, real);
                        }
                        self.drain(host, None, transport, None);
                    }
                }
                Owner::Flow(flow, end) => {
                    let transport = self.table.spec(flow).transport;
                    let slot = self.ends[flow.index()].slots[end_index(end)];
                    if let (Some(own), true) = (&mut self.own[place(transport)], slot < CLOSED) {
                        own.stack.handle_timeout(end, slot, call);
                        self.drain(host, Some((flow, end)), transport, None);
                    }
                }
            }
        }
    }

    /// Records the time between two pulls of a host, if the second was due a packet time after the
    /// first.
    fn note_pull(&mut self, host: HostId, due: Instant, real: Instant) {
        let own = &mut self.hosts[host.index()];
        let last = own.last_pull.replace((due, real));
        if let Some((last_due, last_real)) = last
            && due.saturating_since(last_due) < own.packet_time * 2
            && self.pull_gaps.len() < PULL_GAPS_MAX
        {
            self.pull_gaps.push(real.saturating_since(last_real).as_nanos() as u32);
        }
    }

    /// The 5th, 50th and 95th percentile of the time between two pulls, in µs; none without pulls.
    pub(crate) fn pull_spacing(&mut self) -> Option<[f64; 3]> {
        self.pull_gaps.sort_unstable();
        let last = self.pull_gaps.len().checked_sub(1)?;
        let at = |percent: usize| f64::from(self.pull_gaps[last * percent / 100]) / 1000.0;
        Some([at(5), at(50), at(95)])
    }

    /// Fires timers of a host and sends what its interface has time for.
    pub(crate) fn turn(&mut self, host: HostId, real: Instant) {
        self.fire(host, real, real);
        for _ in 0..BATCH {
            let own = &mut self.hosts[host.index()];
            if own.ready_count == 0 || own.free_at > real {
                return;
            }
            let Some(flow) = own.ready.iter_mut().find_map(VecDeque::pop_front) else { return };
            own.ready_count -= 1;
            // The slot of the interface, whatever its host has done since.
            let due = own.free_at.max(own.ready_since);
            self.ends[flow.index()].is_ready = false;
            let slot = self.ends[flow.index()].slots[0];
            if slot >= CLOSED {
                continue;
            }
            let now = self.time(host, due, real);
            let slot_at = due.max(Self::earliest(&self.hosts[host.index()], real));
            let transport = self.table.spec(flow).transport;
            let call = Call { now, host, ext: &mut self.ext, out: &mut self.out };
            let Some(own) = &mut self.own[place(transport)] else { continue };
            let packet = own.stack.poll_transmit(slot, 0, call);
            // The packet leaves before those that it makes its endpoint push.
            if let Some(packet) = packet {
                self.send(host, transport, &packet, slot_at);
            }
            self.drain(host, Some((flow, End::Sender)), transport, None);
        }
    }

    /// Does what the last call of an endpoint asks for. `arrived` is the data of the packet just
    /// handled.
    fn drain(
        &mut self,
        host: HostId,
        flow: Option<(FlowId, End)>,
        transport: TransportId,
        arrived: Option<(ByteRange, &[u8])>,
    ) {
        let at_of = |change: TimerChange| match change {
            TimerChange::Keep => None,
            TimerChange::Clear => Some(Instant::NEVER),
            TimerChange::Set(at) | TimerChange::Depart(at) => Some(at),
        };
        let own = &mut self.hosts[host.index()];
        if let Some(at) = at_of(std::mem::take(&mut self.out.host_timer)) {
            own.timers.set(own.host_timers[place(transport)], at);
        }
        let timer = at_of(std::mem::take(&mut self.out.timer));
        let ready = self.out.ready.take();
        self.out.ready_nics = 0; // There is one interface.
        if let Some((flow, end)) = flow {
            let ends = &mut self.ends[flow.index()];
            if let Some(at) = timer {
                let timer = &mut ends.timers[end_index(end)];
                if *timer == NONE && at != Instant::NEVER {
                    *timer = own.timers.alloc();
                    let owner = Owner::Flow(flow, end);
                    match own.owners.get_mut(*timer as usize) {
                        Some(place) => *place = owner,
                        None => own.owners.push(owner),
                    }
                }
                if *timer != NONE {
                    own.timers.set(*timer, at);
                }
            }
            if let (Some(class), false) = (ready, ends.is_ready) {
                ends.is_ready = true;
                if own.ready_count == 0 {
                    own.ready_since = own.now;
                }
                own.ready[usize::from(class.0) % Class::COUNT].push_back(flow);
                own.ready_count += 1;
            }
        }
        let now = own.now;
        let mut packets = std::mem::take(&mut self.out.packets);
        for packet in packets.drain(..) {
            self.send(host, transport, &packet, now);
        }
        self.out.packets = packets;
        if self.out.events.is_empty() {
            return;
        }
        let mut events = std::mem::take(&mut self.out.events);
        for event in events.drain(..) {
            let Some((flow, _)) = flow else { continue };
            match event {
                FlowEvent::Delivered(range) => {
                    match arrived.and_then(|(whole, payload)| part(whole, payload, range)) {
                        Some(data) => self.table.deliver(flow, range.offset, data),
                        None => {
                            let text = format!("flow {}: {range:?} is in no packet", flow.0);
                            self.table.violate(text);
                        }
                    }
                }
                FlowEvent::Finished => self.close(flow),
                FlowEvent::Abandoned => {
                    self.table.handle_event(flow, event, now);
                    self.close(flow);
                }
                _ => self.table.handle_event(flow, event, now),
            }
        }
        self.out.events = events;
    }

    /// Sends a packet at an instant: the queue of the host's link in the switch takes it.
    fn send(&mut self, host: HostId, transport: TransportId, packet: &Packet, at: Instant) {
        let Some(own) = &self.own[place(transport)] else { return };
        let data = own.codec.data(packet);
        let content = self.table.content(packet.flow);
        let offset = data.map_or(0, |data| data.range.offset);
        let block = packet.ext.map(|ext| self.ext.get(ext));
        let fill = |payload: &mut [u8]| content.fill(offset, payload);
        let incarnation = self.incarnation;
        let frame = self.writer.write(&own.codec, host, packet, block, incarnation, fill);
        if data.is_some()
            && let Some(ends) = self.ends.get_mut(packet.flow.index())
        {
            own.codec.observe(packet, &mut ends.near[0]);
        }
        if let Some(ext) = packet.ext {
            self.ext.free(ext);
        }
        let bytes = (frame.len() - ETHERNET) as u64 + self.network.framing.get();
        let nic = &mut self.hosts[host.index()];
        nic.free_at = nic.free_at.max(at) + nic.rate.transmission_time(Bytes::new(bytes));
        self.outgoing.push((host, frame));
    }

    /// Takes back the memory of a frame that was sent.
    pub(crate) fn reuse(&mut self, frame: Vec<u8>) {
        self.writer.reuse(frame);
    }

    /// Removes both ends of a flow whose sender has ended.
    fn close(&mut self, flow: FlowId) {
        let spec = *self.table.spec(flow);
        let ends = &mut self.ends[flow.index()];
        let Some(own) = &mut self.own[place(spec.transport)] else { return };
        for (end, host) in [(End::Sender, spec.src), (End::Receiver, spec.dst)] {
            let slot = std::mem::replace(&mut ends.slots[end_index(end)], CLOSED);
            if slot < CLOSED {
                own.stack.close(end, slot, host);
            }
            let timer = std::mem::replace(&mut ends.timers[end_index(end)], NONE);
            if timer != NONE {
                self.hosts[host.index()].timers.release(timer);
            }
        }
    }

    /// Frames that hosts dropped, by reason.
    pub(crate) fn dropped(&self) -> Vec<(String, u64)> {
        self.dropped.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
    }

    /// The lateness of the hosts, and how much of it is beyond the bound.
    pub(crate) fn lateness(&self) -> (&LatenessHistogram, u64) {
        (&self.lateness, self.late)
    }
}

#[cfg(test)]
mod tests;
