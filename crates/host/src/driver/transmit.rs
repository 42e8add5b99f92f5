//! Packets out: from the endpoints to the socket.

use super::path_messages::PathMessage;
use super::sockets::Via;
use super::{Application, Driver, DriverError, HERE};
use crate::nic::NextSend;
use crate::sys::BATCH;
use punctual_core::{Call, Class, Ecn, FlowId, Packet, Transport};
use punctual_wire::{Codec, WireName, emit};
use std::net::SocketAddr;

/// A receiver answers at most this many times the bytes that arrived, whatever their source.
const ANSWER_RATIO: u64 = 3;

impl<T: Transport, C: Codec> Driver<T, C> {
    /// Sends packets as fast as the pacers allow.
    pub(super) fn transmit<A: Application>(&mut self, app: &mut A) -> Result<(), DriverError> {
        self.flush()?;
        for nic in 0..self.nics.len() {
            let mut count = 0;
            while count < BATCH && !self.sockets.is_blocked(nic) {
                let now = self.now();
                match self.nics[nic].pop(now) {
                    None => break,
                    Some(NextSend::Packet(packet)) => {
                        let via = self.way_of(&packet);
                        self.send(&packet, via, nic, app)?;
                    }
                    Some(NextSend::Poll(flow, wanted)) => {
                        if let Some(packet) = self.poll(flow, wanted, app)? {
                            let via = self.way_of(&packet);
                            match via.map(|via| self.sockets.nic_of(via.socket)) {
                                Some(other) if other != nic => {
                                    self.nics[other].push(packet);
                                }
                                _ => self.send(&packet, via, nic, app)?,
                            }
                        }
                    }
                }
                count += 1;
            }
        }
        self.flush()
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
        let slot = flow.slot;
        let call = Call { now: self.now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        let packet = self.stack.poll_transmit(slot, nic, call);
        self.drain(Some(id), None, app)?;
        Ok(packet)
    }

    fn send<A: Application>(
        &mut self,
        packet: &Packet,
        via: Option<Via>,
        nic: usize,
        app: &mut A,
    ) -> Result<(), DriverError> {
        if let Some(ext) = packet.ext {
            // No wire format carries extensions; transports that use them have no codec.
            self.ext.free(ext);
        }
        let (Some(via), Some(flow)) = (via, self.flows.get_mut(&packet.flow)) else {
            return Ok(());
        };
        let data = self.codec.data(packet);
        let name = WireName { flow: flow.name.number, incarnation: self.incarnation };
        let mut bytes = self.sockets.buffer();
        emit(&self.codec, name, packet, None, &mut bytes, |payload| {
            app.read(packet.flow, data.map_or(0, |d| d.range.offset), payload)
        })
        .map_err(DriverError::Read)?;
        if let Some(seal) = &mut self.seal {
            seal.seal(&mut bytes, C::SWITCH_FIELDS_AT);
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
            self.codec.observe(packet, &mut flow.near);
        }
        self.nics[nic].sent(self.now, packet.wire_bytes);
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
            seal.seal(&mut bytes, C::SWITCH_FIELDS_AT);
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
