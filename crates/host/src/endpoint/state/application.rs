//! The state as the driver sees it.

use super::super::format::{Control, End, Prologue};
use super::super::inbound::Inbound;
use super::super::options::{HostTransport, ReceiveError, SendError};
use super::super::peers::Known;
use super::{Action, State};
use crate::driver::{Application, Offer};
use punctual_core::{ByteRange, Duration, FlowEvent, FlowId, Instant};
use punctual_wire::{Datagram, WireName};
use std::io;
use std::net::SocketAddr;

impl Application for State {
    fn accept(&mut self, offer: &Offer) -> bool {
        self.now = self.now.max(offer.at);
        let (address, number) = (offer.peer, offer.name.flow);
        let known = self.peers.get(&address);
        let is_proven = known.is_some_and(|peer| peer.is_proven);
        let awaits_response = known.is_some_and(|peer| peer.requests > 0);
        let is_other = known
            .and_then(|peer| peer.incarnation)
            .is_some_and(|known| known != offer.name.incarnation);
        if !self.services.is_listening() && !awaits_response {
            self.control(address, number, Control::Ended(End::NotListening));
            return false;
        }
        // In keyed mode a stranger may send what he recorded of a key holder at another address.
        let is_strict = self.is_young() || self.is_keyed();
        let needs_proof = is_strict && !awaits_response || self.is_under_pressure();
        // A forged number must not move the window of the honest ones.
        let is_far = known.is_some_and(|peer| peer.is_far_ahead(number) && !peer.may_jump);
        if is_other || is_far || !is_proven && needs_proof {
            self.ask_to_retry(address, number);
            return false;
        }
        match known.map_or(Known::New, |peer| peer.known(number)) {
            Known::New => {}
            Known::Opened => {
                self.control(address, number, Control::Ended(End::Gone));
                return false;
            }
            Known::Done => {
                self.control(address, number, Control::Ended(End::Done));
                return false;
            }
        }
        let Some(len) = offer.size.get().checked_sub(Prologue::BYTES as u64) else {
            self.control(address, number, Control::Ended(End::OtherVersion));
            return false;
        };
        if len > self.options.message_max {
            self.control(address, number, Control::Ended(End::TooLarge));
            return false;
        }
        let buffer = usize::try_from(len)
            .map_or(self.options.stream_buffer, |len| len.min(self.options.stream_buffer));
        let fits = self.receive_memory + buffer <= self.options.receive_memory
            && known.map_or(0, |peer| peer.memory) + buffer <= self.options.peer_memory
            && self.services.waiting() < self.options.backlog;
        if !fits {
            self.control(address, number, Control::Wait);
            return false;
        }
        let Some(peer) = self.peers.entry(address, self.now, false) else { return false };
        peer.learn(offer.name.incarnation);
        peer.may_jump &= !peer.is_far_ahead(number);
        peer.note_opened(number);
        peer.inbound += 1;
        peer.memory += buffer;
        self.unproven += usize::from(!peer.is_proven);
        self.receive_memory += buffer;
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let mut inbound = Inbound::new(address, offer.flow, number, len, buffer, self.now);
        inbound.transport = HostTransport::at(offer.transport).unwrap_or_default();
        self.inbound.insert(id, inbound);
        self.inbound_flows.insert(offer.flow, id);
        self.inbound_numbers.insert((address, number), id);
        true
    }

    fn read(&mut self, flow: FlowId, offset: u64, into: &mut [u8]) -> io::Result<()> {
        into.fill(0);
        let id = self.outbound_flows.get(&flow);
        let Some(outbound) = id.and_then(|id| self.outbound.get_mut(id)) else { return Ok(()) };
        outbound.first_sent_at.get_or_insert(self.now);
        outbound.sent_to = outbound.sent_to.max(offset + into.len() as u64);
        let start = offset.min(Prologue::BYTES as u64) as usize;
        let head = into.len().min(Prologue::BYTES - start);
        into[..head].copy_from_slice(&outbound.prologue_bytes[start..start + head]);
        let at = (offset as usize + head).saturating_sub(Prologue::BYTES);
        let body = &mut into[head..];
        if let Some(bytes) = outbound.bytes.get(at..at + body.len()) {
            body.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn write(&mut self, flow: FlowId, offset: u64, data: &[u8]) -> io::Result<()> {
        let Some(id) = self.inbound_flows.get(&flow).copied() else { return Ok(()) };
        let Some(inbound) = self.inbound.get_mut(&id) else { return Ok(()) };
        let opening = inbound.write(offset, data);
        if let Some(waker) = inbound.waker.take() {
            waker.wake();
        }
        self.has_news = true;
        if let Some(opening) = opening {
            self.handle_opening(id, opening);
            if !self.inbound.contains_key(&id) {
                // Refused: its data must not be acknowledged.
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        Ok(())
    }

    fn handle_event(&mut self, flow: FlowId, now: Instant, event: FlowEvent) {
        self.now = self.now.max(now);
        let sent = self.outbound_flows.get(&flow).copied();
        match (event, sent) {
            (FlowEvent::Finished, Some(id)) => {
                if let Some(outbound) = self.outbound.get(&id) {
                    // Only the peer knew the number of the flow.
                    self.prove(outbound.peer);
                }
                self.deliver(id);
            }
            // It sees that the deadline cannot be met.
            (FlowEvent::Abandoned, Some(id)) => self.actions.push(Action::Cancel(id)),
            (FlowEvent::Retransmitted(_), Some(id)) => {
                if let Some(outbound) = self.outbound.get_mut(&id) {
                    outbound.retransmits += 1;
                }
            }
            (FlowEvent::Completed, None) => self.complete_inbound(flow),
            (FlowEvent::Abandoned, None) => {
                if let Some(id) = self.inbound_flows.get(&flow).copied() {
                    self.fail_inbound(id, ReceiveError::SenderGone);
                }
            }
            _ => {}
        }
    }

    fn delays_answer(&mut self, flow: FlowId) -> bool {
        self.delayed.take() == Some(flow)
    }

    fn has_room(&mut self, flow: FlowId, range: ByteRange) -> bool {
        let id = self.inbound_flows.get(&flow).copied();
        let Some(inbound) = id.and_then(|id| self.inbound.get_mut(&id)) else { return true };
        let fits = inbound.has_room(range);
        if !fits && self.now >= inbound.asked_to_wait {
            inbound.asked_to_wait = self.now.saturating_add(Duration::from_millis(100));
            let (peer, number) = (inbound.peer, inbound.number);
            self.control(peer, number, Control::Wait);
        }
        fits
    }

    fn park(&mut self, flow: FlowId, bytes: usize) -> bool {
        let id = self.inbound_flows.get(&flow);
        let Some(inbound) = id.and_then(|id| self.inbound.get_mut(id)) else { return false };
        let Some(peer) = self.peers.get_mut(&inbound.peer) else { return false };
        // No reader makes room for a message that no application has yet. If such messages took all
        // memory, each could wait for that of the others: they leave the buffer of one.
        let is_unread = inbound.is_held || inbound.opening.is_none();
        let reserve = if is_unread { self.options.stream_buffer } else { 0 };
        let fits = self.receive_memory + bytes + reserve <= self.options.receive_memory
            && peer.memory + bytes + reserve <= self.options.peer_memory;
        if fits {
            inbound.parked += bytes;
            peer.memory += bytes;
            self.receive_memory += bytes;
        }
        fits
    }

    fn unpark(&mut self, flow: FlowId, bytes: usize) {
        if let Some(id) = self.inbound_flows.get(&flow) {
            self.free_parked(*id, bytes);
        }
    }

    fn holds_up(&mut self, flow: FlowId) -> bool {
        let id = self.inbound_flows.get(&flow);
        let inbound = id.and_then(|id| self.inbound.get(id));
        inbound.is_some_and(|inbound| inbound.is_held || inbound.readable() > 0)
    }

    fn handle_control(&mut self, peer: SocketAddr, now: Instant, datagram: &Datagram<'_>) {
        self.now = self.now.max(now);
        if let Some(control) = Control::of(datagram) {
            self.handle(peer, datagram.envelope.name, control);
        }
    }

    fn handle_stray(&mut self, peer: SocketAddr, to_sender: bool, was_open: bool, name: WireName) {
        if to_sender {
            return;
        }
        let end = match self.peers.get(&peer).map(|peer| peer.known(name.flow)) {
            Some(Known::Done) => End::Done,
            Some(Known::Opened) => End::Gone,
            // It was closed so that it begins again, and the packet that says so was lost.
            _ if was_open => return self.ask_to_retry(peer, name.flow),
            _ => return,
        };
        self.control(peer, name.flow, Control::Ended(end));
    }

    fn handle_other_segments(&mut self, peer: SocketAddr, name: WireName) {
        self.control(peer, name.flow, Control::Ended(End::OtherMtu));
    }

    fn handle_restart(&mut self, flow: FlowId, incarnation: u16) {
        if let Some(id) = self.outbound_flows.get(&flow).copied() {
            let Some(outbound) = self.outbound.get(&id) else { return };
            let address = outbound.peer;
            if let Some(peer) = self.peers.get_mut(&address) {
                peer.learn(incarnation);
            }
            self.lose(id, SendError::Restarted(address), true);
        }
    }
}
