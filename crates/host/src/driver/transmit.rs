//! Packets out: from the endpoints to the socket.

use super::flow::Life;
use super::path_messages::PathMessage;
use super::sockets::Via;
use super::{Application, Driver, DriverError, HERE, WireSet};
use crate::nic::NextSend;
use crate::sys::BATCH;
use punctual_core::{Call, Class, Ecn, FlowId, FlowStack as _, Instant, Packet};
use punctual_wire::{FlowOpening, PacketCodec as _, WireName};
use std::net::SocketAddr;

/// A receiver answers at most this many times the bytes that arrived, whatever their source.
const ANSWER_RATIO: u64 = 3;

impl<S: WireSet> Driver<S> {
    /// Sends packets as fast as the pacers allow.
    pub(super) fn transmit<A: Application>(&mut self, app: &mut A) -> Result<(), DriverError> {
        self.flush()?;
        for nic in 0..self.nics.len() {
            let mut count = 0;
            while count < BATCH && !self.sockets.is_blocked(nic) {
                self.now();
                if !self.transmit_next(nic, app)? {
                    break;
                }
                count += 1;
            }
        }
        self.flush()
    }

    /// Sends what was due until `until`, each packet at the time at which its NIC was free for it. The
    /// time of a call is then not that of a late wake-up.
    pub(super) fn transmit_until<A: Application>(
        &mut self,
        until: Instant,
        app: &mut A,
    ) -> Result<(), DriverError> {
        for nic in 0..self.nics.len() {
            while !self.sockets.is_blocked(nic)
                && let Some(at) = self.nics[nic].next_at()
                && at <= until
            {
                self.now = self.now.max(at).max(self.nics[nic].earliest(until));
                if self.now > until || !self.transmit_next(nic, app)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends the next packet of a NIC. Returns whether there was one to send or a sender to ask.
    fn transmit_next<A: Application>(
        &mut self,
        nic: usize,
        app: &mut A,
    ) -> Result<bool, DriverError> {
        let due = self.nics[nic].due();
        let next = self.nics[nic].pop(self.now);
        if let (Some(due), Some(_)) = (due, &next) {
            app.note_lateness(self.read_at.saturating_since(due));
        }
        match next {
            None => return Ok(false),
            Some(NextSend::Packet(packet)) => {
                let via = self.way_of(&packet);
                self.send(&packet, via, nic, app)?;
            }
            Some(NextSend::Poll(flow, wanted)) => {
                if let Some(mut packet) = self.poll(flow, wanted, app)? {
                    let via = self.way_of(&packet);
                    let leaves_by = via.map_or(nic, |via| self.sockets.nic_of(via.socket));
                    self.pass_port(leaves_by, &mut packet);
                    match leaves_by == nic {
                        true => self.send(&packet, via, nic, app)?,
                        false => self.push_packet(leaves_by, packet),
                    }
                }
            }
        }
        Ok(true)
    }

    /// By which way a packet leaves. `None` if its flow is closed.
    fn way_of(&mut self, packet: &Packet) -> Option<Via> {
        let flow = self.flows.get(&packet.flow)?;
        if !flow.name.sent_from_here {
            return Some(flow.way_back(packet.path));
        }
        if !flow.is_spread {
            return Some(flow.via);
        }
        // Flows begin with different ports, so that not all use the same ones.
        let (peer, number) = (flow.name.peer, flow.name.number as usize);
        let (nics, path) = (self.sockets.nics(), packet.path as usize);
        let ports = (self.sockets.paths() / nics).max(1);
        let path = (path / nics).wrapping_add(number) % ports * nics + path % nics;
        Some(self.paths.send(peer, path, &self.sockets, self.now))
    }

    fn poll<A: Application>(
        &mut self,
        id: FlowId,
        nic: u32,
        app: &mut A,
    ) -> Result<Option<Packet>, DriverError> {
        let Some(flow) = self.flows.get_mut(&id) else { return Ok(None) };
        flow.ready_nics &= !(1 << nic);
        if flow.life == Life::Ended {
            return Ok(None);
        }
        let (lane, slot) = (flow.lane, flow.slot);
        let call = Call { now: self.now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        let packet = self.lanes[lane].stack.poll_transmit(slot, nic, call);
        self.drain(lane, Some(id), None, app)?;
        Ok(packet)
    }

    fn send<A: Application>(
        &mut self,
        packet: &Packet,
        via: Option<Via>,
        nic: usize,
        app: &mut A,
    ) -> Result<(), DriverError> {
        let block = packet.ext.map(|ext| *self.ext.get(ext));
        if let Some(ext) = packet.ext {
            self.ext.free(ext);
        }
        let (Some(via), Some(flow)) = (via, self.flows.get_mut(&packet.flow)) else {
            return Ok(());
        };
        let lane = &self.lanes[flow.lane];
        let codec = &lane.codec;
        let data = codec.data_of(packet);
        let name = WireName { flow: flow.name.number, incarnation: self.incarnation };
        let mut bytes = self.sockets.buffer();
        if flow.name.sent_from_here && codec.is_opening(packet) {
            let flow_bytes = flow.size.get();
            let opening = FlowOpening { flow_bytes, segment_bytes: codec.segment_bytes() };
            codec.write_opening(name, packet, block.as_ref(), &opening, &mut bytes);
        } else {
            let fill = |payload: &mut [u8]| {
                app.read(packet.flow, data.map_or(0, |d| d.range.offset), payload)
            };
            codec
                .write(name, packet, block.as_ref(), &mut bytes, fill)
                .map_err(DriverError::Read)?;
        }
        if let Some(seal) = &mut self.seal {
            seal.seal(&mut bytes, codec.switch_fields_at());
        }
        let is_answer = !flow.name.sent_from_here;
        let sent_after = flow.bytes_out + bytes.len() as u64;
        if is_answer && sent_after > ANSWER_RATIO * flow.bytes_in {
            // Its source may be forged: no more than this goes to an address that is not proven.
            *self.traffic.dropped.entry("answer_limit").or_default() += 1;
            self.sockets.recycle(bytes);
            return Ok(());
        }
        flow.bytes_out = sent_after;
        if data.is_some() {
            codec.note(packet, &mut flow.near);
        }
        self.nics[nic].sent(self.now, packet.wire_bytes + lane.longer_by());
        self.push_datagram(&via, bytes, packet.class, packet.ecn());
        Ok(())
    }

    /// Sends a datagram of the host stack, by the way on which the peer was last heard.
    pub(crate) fn send_control(&mut self, peer: SocketAddr, bytes: Vec<u8>) {
        let via = self.paths.back_to(peer);
        self.send_to(&via, bytes);
    }

    /// Sends a datagram of the host stack with the next batch.
    fn send_to(&mut self, via: &Via, mut bytes: Vec<u8>) {
        if let Some(seal) = &mut self.seal {
            // It has no fields of a transport.
            seal.seal(&mut bytes, usize::MAX);
        }
        self.push_datagram(via, bytes, Class::CONTROL, Ecn::NotCapable);
    }

    /// Queues a datagram for its socket, or drops it if too many wait for the kernel.
    fn push_datagram(&mut self, via: &Via, bytes: Vec<u8>, class: Class, ecn: Ecn) {
        if !self.sockets.push(via, bytes, class, ecn) {
            *self.traffic.dropped.entry("send_queue_full").or_default() += 1;
        }
    }

    /// Sends the packets about paths that wait.
    pub(super) fn send_path_messages(&mut self) {
        for (via, bytes) in core::mem::take(&mut self.paths.out) {
            self.send_to(&via, bytes);
        }
    }

    /// Handles a packet about paths.
    pub(super) fn handle_path_message(
        &mut self,
        message: PathMessage,
        via: &Via,
        incarnation: u16,
    ) {
        let name = WireName { flow: 0, incarnation: self.incarnation };
        self.paths.handle(message, via, incarnation, name, &self.sockets, self.now);
        self.send_path_messages();
    }

    /// Passes the outgoing datagrams to the sockets.
    pub(super) fn flush(&mut self) -> Result<(), DriverError> {
        if self.sockets.is_empty() {
            return Ok(());
        }
        // An error may belong to an earlier datagram; then this one is tried again.
        for _ in 0..FLUSHES {
            let mut failures = core::mem::take(&mut self.failures);
            let sent = self.sockets.flush(&mut failures).map_err(DriverError::Socket)?;
            self.traffic.sent += sent;
            for failure in failures.drain(..) {
                if !self.read_errors(failure.via.socket) {
                    self.sockets.drop_first(failure.via.socket);
                    self.handle_failure(failure);
                }
            }
            self.failures = failures;
            if !self.sockets.has_more() {
                break;
            }
        }
        Ok(())
    }
}

/// Most tries to pass on datagrams, each after an error.
const FLUSHES: usize = 64;
