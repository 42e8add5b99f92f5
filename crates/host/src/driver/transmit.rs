//! Packets out: from the endpoints to the socket.

use super::{Application, Driver, DriverError, HERE, is_fatal};
use crate::nic::NextSend;
use crate::sys::{BATCH, Outgoing, send_batch};
use punctual_core::{Call, FlowId, Packet, Transport};
use punctual_wire::{Codec, WireName, emit};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// A receiver answers at most this many times the bytes that arrived, whatever their source.
const ANSWER_RATIO: u64 = 3;

impl<T: Transport, C: Codec> Driver<T, C> {
    /// Sends packets as fast as the pacer allows.
    pub(super) fn transmit<A: Application>(&mut self, app: &mut A) -> Result<(), DriverError> {
        self.flush()?;
        let mut count = 0;
        while count < BATCH && !self.is_blocked {
            let now = self.now();
            let packet = match self.nic.pop(now) {
                None => break,
                Some(NextSend::Packet(packet)) => Some(packet),
                Some(NextSend::Poll(flow)) => self.poll(flow, app)?,
            };
            count += 1;
            if let Some(packet) = packet {
                self.send(&packet, app)?;
            }
        }
        self.flush()
    }

    fn poll<A: Application>(
        &mut self,
        id: FlowId,
        app: &mut A,
    ) -> Result<Option<Packet>, DriverError> {
        let Some(flow) = self.flows.get_mut(&id) else { return Ok(None) };
        flow.is_ready = false;
        let slot = flow.slot;
        let call = Call { now: self.now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        let packet = self.stack.poll_transmit(slot, 0, call);
        self.drain(Some(id), None, app)?;
        Ok(packet)
    }

    fn send<A: Application>(&mut self, packet: &Packet, app: &mut A) -> Result<(), DriverError> {
        if let Some(ext) = packet.ext {
            // No wire format carries extensions; transports that use them have no codec.
            self.ext.free(ext);
        }
        let Some(flow) = self.flows.get_mut(&packet.flow) else { return Ok(()) };
        let data = self.codec.data(packet);
        let name = WireName { flow: flow.name.number, incarnation: self.incarnation };
        let mut bytes = self.spare.pop().unwrap_or_default();
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
            self.spare.push(bytes);
            return Ok(());
        }
        flow.bytes_out = sent_after;
        if data.is_some() {
            self.codec.observe(packet, &mut flow.near);
        }
        let peer = flow.name.peer;
        self.nic.sent(self.now, packet.wire_bytes);
        self.outgoing.push(Outgoing { bytes, peer });
        Ok(())
    }

    /// Sends a datagram of the host stack. It is dropped if the socket has no room.
    pub(crate) fn send_control(&mut self, peer: SocketAddr, mut bytes: Vec<u8>) {
        if let Some(seal) = &mut self.seal {
            seal.seal(&mut bytes, C::SWITCH_FIELDS_AT);
        }
        let Some(socket) = &self.socket else { return };
        match send_batch(socket, &[Outgoing { bytes, peer }]) {
            Ok(_) => self.traffic.sent += 1,
            Err(error) => self.note_error(error),
        }
    }

    /// Passes the outgoing datagrams to the socket.
    fn flush(&mut self) -> Result<(), DriverError> {
        let mut done = 0;
        self.is_blocked = false;
        while done < self.outgoing.len()
            && let Some(socket) = &self.socket
        {
            match send_batch(socket, &self.outgoing[done..]) {
                Ok(count) => {
                    self.traffic.sent += count as u64;
                    done += count;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    break;
                }
                Err(e) if is_fatal(&e) => return Err(DriverError::Socket(e)),
                Err(e) => {
                    // It concerns the first datagram only.
                    self.note_error(e);
                    done += 1;
                }
            }
        }
        self.spare.extend(self.outgoing.drain(..done).map(|outgoing| outgoing.bytes));
        Ok(())
    }

    /// Counts an error of a single datagram. It concerns one peer; other peers go on.
    pub(super) fn note_error(&mut self, error: io::Error) {
        self.traffic.socket_errors += 1;
        self.last_error = Some(error);
    }
}
