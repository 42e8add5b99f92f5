//! Datagrams in: from the socket to the endpoints.

use super::flow::{Life, Parked};
use super::path_messages::PathMessage;
use super::sockets::{Via, is_fatal};
use super::{Application, Driver, DriverError, HERE, Offer, SEGMENT_MIN, WireFlow, WireSet};
use crate::sys::Received;
use crate::timers::Alarm;
use punctual_core::{
    ByteRange, Bytes, Call, ExtBlock, FlowId, FlowStack as _, Packet, PacketFlags, TimerChange,
    TransportId,
};
use punctual_wire::{
    Data, Datagram, FlowOpening, Kind, PacketCodec as _, RecentNumbers, WireError, with_ecn,
};
use std::io::{self, ErrorKind};

/// Most packets of one flow that wait for room. A sender has fewer in flight without answers.
const PARKED_MAX: usize = 128;

/// Most messages that are received from one socket before the answers to them leave. Each may have
/// tens of datagrams.
const MESSAGES: usize = 16;

/// A driver that spins looks for errors once in so many looks at an empty socket.
const ERROR_LOOKS: u32 = 256;

/// Packets of the host stack have kinds from here on.
const CONTROL_KINDS: u8 = 8;

/// A packet with its header extension and payload.
type Arrived<'a> = (Packet, Option<ExtBlock>, &'a [u8]);

impl<S: WireSet> Driver<S> {
    /// Receives a batch of datagrams from each socket. Returns whether there may be more.
    pub(super) fn receive<A: Application>(&mut self, app: &mut A) -> Result<bool, DriverError> {
        let Some(mut incoming) = self.incoming.take() else { return Ok(false) };
        let mut readable = self.sockets.readable();
        if self.arrived.is_some() {
            // It was the only socket then.
            readable |= 1;
        }
        let mut result = Ok(false);
        while readable != 0 && result.is_ok() {
            let socket = readable.trailing_zeros() as u16;
            readable &= readable - 1;
            let more = self.receive_from(socket, &mut incoming, app);
            result = result.and_then(|before| more.map(|more| before || more));
        }
        self.incoming = Some(incoming);
        result
    }

    fn receive_from<A: Application>(
        &mut self,
        at: u16,
        incoming: &mut Received,
        app: &mut A,
    ) -> Result<bool, DriverError> {
        let arrived = self.arrived.take();
        let Some(socket) = self.sockets.get(usize::from(at)) else { return Ok(false) };
        let (most, received) = match arrived {
            Some(received) => (1, received),
            None => (self.batch, incoming.fill_some(socket, self.batch)),
        };
        let messages = match received {
            Ok(count) => count,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                self.batch = 1;
                self.empty_looks = self.empty_looks.wrapping_add(1);
                // Errors wake up a thread that sleeps, as datagrams do.
                if !self.spins || self.empty_looks.is_multiple_of(ERROR_LOOKS) {
                    self.read_errors(at);
                }
                return Ok(false);
            }
            Err(e) if is_fatal(&e) => return Err(DriverError::Socket(e)),
            Err(e) => {
                if !self.read_errors(at) {
                    self.note_error(e);
                }
                return Ok(true);
            }
        };
        self.burst += incoming.len();
        for datagram in 0..incoming.len() {
            if let Some((bytes, remote, local)) = incoming.get_with_local(datagram) {
                let ecn = incoming.traffic_class(datagram);
                self.handle_datagram(bytes, &Via { socket: at, local, remote }, ecn, app)?;
            }
        }
        let is_full = messages == most;
        self.batch = if is_full { (most * 4).min(MESSAGES) } else { messages.max(1) };
        Ok(is_full)
    }

    fn handle_datagram<A: Application>(
        &mut self,
        bytes: &[u8],
        via: &Via,
        ecn: u8,
        app: &mut A,
    ) -> Result<(), DriverError> {
        match Datagram::parse(bytes) {
            Ok(datagram) => self.handle_parsed(&datagram, bytes.len(), via, ecn, app),
            Err(error) => {
                self.handle_other_version(bytes, via);
                *self.traffic.dropped.entry(error.name()).or_default() += 1;
                Ok(())
            }
        }
    }

    /// Handles a datagram of which `carried` bytes arrived. `ecn` has the ECN codepoint of its IP
    /// header in bits 0 and 1.
    pub(super) fn handle_parsed<A: Application>(
        &mut self,
        datagram: &Datagram<'_>,
        carried: usize,
        via: &Via,
        ecn: u8,
        app: &mut A,
    ) -> Result<(), DriverError> {
        match self.accept(datagram, carried, via, ecn, app) {
            Ok(None) => {
                self.traffic.received += 1;
                Ok(())
            }
            Ok(Some((packet, block, payload))) => {
                self.traffic.received += 1;
                self.deliver(&packet, block, payload, app)
            }
            Err(reason) => {
                *self.traffic.dropped.entry(reason).or_default() += 1;
                Ok(())
            }
        }
    }

    /// Finds or opens the flow of a datagram. `None` if it was a packet of the host stack. The error
    /// is the name of the reason to drop it.
    fn accept<'a, A: Application>(
        &mut self,
        datagram: &Datagram<'a>,
        carried: usize,
        via: &Via,
        ecn: u8,
        app: &mut A,
    ) -> Result<Option<Arrived<'a>>, &'static str> {
        let name_of = |error: WireError| error.name();
        let flags = datagram.envelope.flags;
        let incarnation = datagram.envelope.name.incarnation;
        // A bounced packet is one of this process, from the address to which it went.
        let peer = match flags.has(PacketFlags::BOUNCED) {
            true => via.remote,
            false => self.paths.main_of(via.remote, incarnation),
        };
        match &mut self.seal {
            Some(seal) => {
                let is_own = self.sockets.is_own(via);
                let switch_fields_at = self.lanes.switch_fields_at(datagram.envelope.transport);
                seal.verify(datagram, peer, is_own, switch_fields_at)?;
            }
            None if datagram.header_tag.is_some() => return Err("keyed"),
            None => {}
        }
        let now = self.now();
        self.paths.note_heard(peer, via, &self.sockets, now);
        if datagram.envelope.kind.number() >= CONTROL_KINDS {
            if let Some(message) = PathMessage::of(datagram) {
                self.handle_path_message(message, via, incarnation);
                return Ok(None);
            }
            app.handle_control(peer, now, datagram);
            return Ok(None);
        }
        let Some(lane) = self.lanes.place(datagram.envelope.transport) else {
            return Err(WireError::Transport(datagram.envelope.transport).name());
        };
        let to_sender = flags.has(PacketFlags::TO_SENDER);
        let name =
            WireFlow { peer, number: datagram.envelope.name.flow, sent_from_here: to_sender };
        let known = self.names.get(&name).copied();
        let near = match known.and_then(|flow| self.flows.get(&flow)) {
            Some(flow) if flow.lane != lane => return Err("flow_transport"),
            Some(flow) => RecentNumbers { now, ..flow.near },
            None if to_sender || !datagram.envelope.is_syn => {
                let is_data = datagram.envelope.kind == Kind::DATA;
                let was_open = is_data && self.lanes[lane].has_ports();
                app.handle_stray(peer, to_sender, was_open, datagram.envelope.name);
                return Err("no_such_flow");
            }
            None => RecentNumbers { now, ..RecentNumbers::default() },
        };
        let id = known.unwrap_or(FlowId(self.next_flow));
        let codec = &self.lanes[lane].codec;
        let (mut packet, block) = codec.read(datagram, &near, id, HERE).map_err(name_of)?;
        packet.flags = with_ecn(packet.flags, ecn);
        packet.transport = TransportId(lane);
        let data = codec.data_of(&packet);
        if known.is_none() {
            self.open_receiver(name, datagram, via, &packet, data, app)?;
        }
        if let (Some(flow), Some(data)) = (self.flows.get_mut(&id), data) {
            if is_small(&data, flow.size.get()) {
                return Err("segment_small");
            }
            // A flow has one size. Another size means a corrupt or malicious sender.
            let end = data.range.offset.checked_add(data.range.len);
            if data.flow_bytes.is_some_and(|size| size != flow.size.get())
                || end.is_none_or(|end| end > flow.size.get())
            {
                return Err("flow_size");
            }
            // Packets of a flow have one segment size; otherwise their bytes would overlap.
            if let Some(segment) = data.segment_bytes
                && *flow.segment_bytes.get_or_insert(segment) != segment
            {
                return Err("segment_size");
            }
        }
        if let Some(flow) = self.flows.get_mut(&id) {
            // A process that restarted at the peer's address does not know this flow. A bounced
            // packet has this process's own incarnation.
            if !flags.has(PacketFlags::BOUNCED)
                && *flow.peer_incarnation.get_or_insert(incarnation) != incarnation
            {
                app.handle_restart(id, incarnation);
                return Err("other_incarnation");
            }
            flow.bytes_in += carried as u64;
            self.lanes[lane].codec.note(&packet, &mut flow.near);
            flow.heard_at = now;
            if !to_sender {
                flow.note_return(datagram.envelope.path, via);
            }
        }
        if let Some(data) = data
            && !packet.is_trimmed()
            && !flags.has(PacketFlags::BOUNCED)
            && !app.has_room(id, data.range)
        {
            return Err(self.park((packet, block, datagram.payload), data.range.offset, app));
        }
        Ok(Some((packet, block, datagram.payload)))
    }

    /// Keeps a packet with data at `offset` until the application has room for it. Returns the name
    /// of the reason.
    fn park<A: Application>(
        &mut self,
        (packet, block, payload): Arrived<'_>,
        offset: u64,
        app: &mut A,
    ) -> &'static str {
        let id = packet.flow;
        let Some(flow) = self.flows.get_mut(&id) else { return "no_such_flow" };
        if app.holds_up(id) {
            flow.progress_at = self.now;
        }
        // The same data sent again takes no more memory. Packets of a flow do not overlap.
        let is_same = |parked: &Parked| parked.offset == offset;
        if flow.parked.len() >= PARKED_MAX || flow.parked.iter().any(is_same) {
            return "no_room";
        }
        if !app.park(id, Parked::memory(payload)) {
            return "no_memory";
        }
        flow.parked.push(Parked { packet, block, offset, payload: payload.to_vec() });
        "parked"
    }

    /// Passes packets that waited for room to their endpoint, as far as there is room now.
    pub(crate) fn resume<A: Application>(
        &mut self,
        id: FlowId,
        app: &mut A,
    ) -> Result<(), DriverError> {
        let Some(flow) = self.flows.get_mut(&id) else { return Ok(()) };
        let lane = flow.lane;
        let mut parked = core::mem::take(&mut flow.parked);
        let mut result = Ok(());
        parked.retain(|Parked { packet, block, payload, .. }| {
            let range = self.lanes[lane].codec.data_of(packet).map(|data| data.range);
            let fits = result.is_ok() && range.is_some_and(|range| app.has_room(id, range));
            if fits {
                app.unpark(id, Parked::memory(payload));
                result = self.deliver(packet, *block, payload, app);
            }
            !fits
        });
        if let Some(flow) = self.flows.get_mut(&id)
            && !flow.is_complete
        {
            flow.parked = parked;
        }
        result
    }

    fn open_receiver<A: Application>(
        &mut self,
        name: WireFlow,
        datagram: &Datagram<'_>,
        via: &Via,
        first: &Packet,
        data: Option<Data>,
        app: &mut A,
    ) -> Result<(), &'static str> {
        if self.flows.len() >= self.options.flows_max {
            return Err("too_many_flows");
        }
        // The application has to know the size of what it accepts.
        let opening = FlowOpening::of(datagram);
        let shown = data.and_then(|data| data.flow_bytes);
        let size = shown.or(opening.map(|opening| opening.flow_bytes)).ok_or("no_flow_size")?;
        if data.is_some_and(|data| is_small(&data, size)) {
            return Err("segment_small");
        }
        let size = Bytes::new(size);
        let wire_name = datagram.envelope.name;
        let lane = first.transport.0;
        let segments = self.lanes[lane].codec.segment_bytes();
        if opening.is_some_and(|opening| opening.segment_bytes != segments) {
            app.handle_other_segments(name.peer, wire_name);
            return Err("segment_size");
        }
        let offer = Offer {
            flow: first.flow,
            peer: name.peer,
            size,
            at: self.now,
            name: wire_name,
            transport: lane,
        };
        if !app.accept(&offer) {
            return Err("refused");
        }
        let (flow, route) = self.register(name, lane, size, *via, false);
        let call = Call { now: self.now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        let slot = self.lanes[lane].stack.open_receiver(first, &route, call);
        self.set_slot(flow, slot);
        let at = self.now.saturating_add(self.options.stall_max);
        self.forgets.apply(Alarm::Forget(flow), TimerChange::Set(at));
        Ok(())
    }

    /// Passes a packet to its endpoint.
    fn deliver<A: Application>(
        &mut self,
        packet: &Packet,
        block: Option<ExtBlock>,
        payload: &[u8],
        app: &mut A,
    ) -> Result<(), DriverError> {
        let Some(flow) = self.flows.get(&packet.flow) else { return Ok(()) };
        if flow.life == Life::Ended {
            return Ok(());
        }
        let (place, slot, end) = (flow.lane, flow.slot, flow.name.end());
        let mut packet = *packet;
        packet.ext = block.map(|block| self.ext.alloc(block));
        let lane = &mut self.lanes[place];
        if packet.is_to_sender() && lane.has_ports() {
            lane.reverse(self.sockets.nic_of(flow.via.socket), &mut packet);
        }
        let call = Call { now: self.now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        lane.stack.handle_packet(end, slot, &packet, call);
        let arrived = lane.codec.data_of(&packet).map(|data| (data.range, payload));
        if let Some(ext) = packet.ext {
            self.ext.free(ext);
        }
        self.drain(place, Some(packet.flow), arrived, app)
    }
}

/// Whether a packet that does not end its flow carries less than honest ones do.
fn is_small(data: &Data, flow_bytes: u64) -> bool {
    data.range.len < SEGMENT_MIN
        && data.range.offset.checked_add(data.range.len) != Some(flow_bytes)
}

/// Passes newly received bytes of a packet to the application.
pub(super) fn write<A: Application>(
    flow: FlowId,
    range: ByteRange,
    arrived: Option<(ByteRange, &[u8])>,
    app: &mut A,
) -> Result<(), DriverError> {
    let part = arrived.and_then(|(whole, payload)| {
        let start = usize::try_from(range.offset.checked_sub(whole.offset)?).ok()?;
        let len = usize::try_from(range.len).ok()?;
        payload.get(start..start.checked_add(len)?)
    });
    // A transport may deliver only bytes of the packet that it was given.
    let Some(part) = part else {
        debug_assert!(false, "delivered {range:?}, which is not in the packet");
        let error = "the transport delivered bytes that are not in the packet";
        return Err(DriverError::Write(io::Error::other(error)));
    };
    app.write(flow, range.offset, part).map_err(DriverError::Write)
}
