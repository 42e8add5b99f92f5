//! Messages in.

use super::super::format::{Control, End, Opening, Prologue, Purpose};
use super::super::options::{Outcome, ReceiveError};
use super::super::services::{Owner, Service};
use super::Action;
use super::State;
use punctual_core::FlowId;
use std::net::SocketAddr;

impl State {
    /// Frees a message that was received, or is being received.
    pub(in crate::endpoint) fn remove_inbound(&mut self, id: u64) {
        let Some(inbound) = self.inbound.remove(&id) else { return };
        let memory = inbound.memory() + inbound.parked;
        self.receive_memory -= memory;
        self.inbound_numbers.remove(&(inbound.peer, inbound.number));
        if let Some(peer) = self.peers.get_mut(&inbound.peer) {
            peer.memory -= memory;
        }
        if let Some(flow) = inbound.flow {
            self.leave_flow(inbound.peer, flow);
            self.actions.push(Action::Close(flow));
        }
        if let (Some(owner), Some(opening)) = (inbound.owner, inbound.opening) {
            match inbound.is_held {
                true => self.services.unhold(owner, id),
                false => {
                    self.services.return_room(owner, inbound.memory());
                    self.services.remove(Service::number(opening.service), id);
                }
            }
        }
        self.admit_held();
    }

    /// Gives a message to the owner of its service, or holds it until that owner has room.
    fn admit(&mut self, id: u64, owner: Owner, service: Service) {
        let Some(inbound) = self.inbound.get_mut(&id) else { return };
        if self.services.take_room(owner, inbound.memory()) {
            inbound.owner = Some(owner);
            self.services.push(service, id);
            self.has_news = true;
        } else if self.services.hold(owner, id) {
            inbound.owner = Some(owner);
            inbound.is_held = true;
            let freed = inbound.give_up_room();
            self.receive_memory -= freed;
            if let Some(peer) = self.peers.get_mut(&inbound.peer) {
                peer.memory -= freed;
            }
        } else {
            self.refuse_inbound(id, End::Gone);
        }
    }

    /// Gives held messages to owners that have room by now.
    fn admit_held(&mut self) {
        if self.services.held() == 0 {
            return;
        }
        loop {
            let mut any = false;
            for id in self.services.oldest_held() {
                any |= self.admit_one_held(id).is_some();
            }
            if !any {
                return;
            }
        }
    }

    fn admit_one_held(&mut self, id: u64) -> Option<()> {
        let inbound = self.inbound.get_mut(&id)?;
        let (owner, opening) = (inbound.owner?, inbound.opening?);
        let wanted = usize::try_from(inbound.len).unwrap_or(usize::MAX);
        let wanted = wanted.min(self.options.stream_buffer).max(inbound.memory());
        let more = wanted - inbound.memory();
        let peer = self.peers.get_mut(&inbound.peer)?;
        let fits = self.receive_memory + more <= self.options.receive_memory
            && peer.memory + more <= self.options.peer_memory;
        if !fits || !self.services.take_room(owner, wanted) {
            return None;
        }
        self.receive_memory += more;
        peer.memory += more;
        inbound.take_room(wanted);
        inbound.is_held = false;
        if let Some(flow) = inbound.flow {
            self.actions.push(Action::Resume(flow));
        }
        self.services.unhold(owner, id);
        self.services.push(Service::number(opening.service), id);
        self.has_news = true;
        Some(())
    }

    /// Notes that a flow from a peer is not open any more.
    pub(in crate::endpoint) fn leave_flow(&mut self, peer: SocketAddr, flow: FlowId) {
        let Some(id) = self.inbound_flows.remove(&flow) else { return };
        self.free_parked(id, usize::MAX);
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.inbound -= 1;
            self.unproven -= usize::from(!peer.is_proven);
        }
    }

    /// Counts memory of a message's packets no longer that the driver has kept: at most `bytes`.
    pub(super) fn free_parked(&mut self, id: u64, bytes: usize) {
        let Some(inbound) = self.inbound.get_mut(&id) else { return };
        let freed = bytes.min(inbound.parked);
        inbound.parked -= freed;
        self.receive_memory -= freed;
        if let Some(peer) = self.peers.get_mut(&inbound.peer) {
            peer.memory -= freed;
        }
    }

    /// Ends a message before it is complete.
    pub(in crate::endpoint) fn fail_inbound(&mut self, id: u64, error: ReceiveError) {
        let Some(inbound) = self.inbound.get_mut(&id) else { return };
        let peer = inbound.peer;
        if let Some(flow) = inbound.flow.take() {
            self.actions.push(Action::Close(flow));
            self.leave_flow(peer, flow);
        }
        let Some(inbound) = self.inbound.get_mut(&id) else { return };
        self.has_news = true;
        inbound.error.get_or_insert(error);
        if let Some(waker) = inbound.waker.take() {
            waker.wake();
        }
        let Some(opening) = inbound.opening else { return self.remove_inbound(id) };
        if opening.purpose == Purpose::Response {
            // The server may send the response again.
            let request = self.requests.get(&opening.id);
            if let Some(request) = request.and_then(|request| self.outbound.get_mut(request)) {
                request.response = None;
            }
            self.remove_inbound(id);
        }
    }

    /// The application closes a message before its end.
    pub(in crate::endpoint) fn refuse_inbound(&mut self, id: u64, end: End) {
        if let Some(inbound) = self.inbound.get(&id) {
            let (peer, number, is_complete) = (inbound.peer, inbound.number, inbound.is_complete);
            if !is_complete {
                self.control(peer, number, Control::Ended(end));
            }
        }
        self.remove_inbound(id);
    }

    /// The prologue of a message has arrived.
    pub(in crate::endpoint) fn handle_opening(&mut self, id: u64, opening: Opening) {
        let Some(inbound) = self.inbound.get(&id) else { return };
        let (peer, number) = (inbound.peer, inbound.number);
        let Opening::Message(prologue) = opening else {
            return self.refuse_inbound(id, End::OtherVersion);
        };
        let is_for_us = match prologue.to_incarnation {
            Some(named) => named == self.incarnation,
            // A response answers a request of this process. Anything else in keyed mode may be a
            // recorded message for another process.
            None => {
                let is_response = prologue.purpose == Purpose::Response;
                is_response || !self.is_young() && !self.is_keyed()
            }
        };
        if !is_for_us {
            self.remove_inbound(id);
            // If the retry is lost, the flow may ask again.
            if let Some(opened) = self.peers.get_mut(&peer).and_then(|p| p.opened.as_mut()) {
                opened.remove(number);
            }
            return self.ask_to_retry(peer, number);
        }
        if let Some(confirmed) = prologue.confirms {
            self.confirm(peer, confirmed);
        }
        match prologue.purpose {
            Purpose::Response => {
                let request = self.requests.get(&prologue.id);
                let request = request.and_then(|request| self.outbound.get_mut(request));
                match request {
                    Some(request) if request.peer == peer && request.response.is_none() => {
                        let owner = request.owner;
                        request.response = Some(id);
                        self.hold_whole(id, owner);
                    }
                    _ => self.refuse_inbound(id, End::Refused),
                }
            }
            Purpose::Message | Purpose::Request => {
                let service = Service::number(prologue.service);
                match self.services.owner_of(service) {
                    Some(owner) => self.admit(id, owner, service),
                    None => self.refuse_inbound(id, End::NotListening),
                }
            }
        }
    }

    /// Takes memory for a whole response, since nobody reads it before its end.
    fn hold_whole(&mut self, id: u64, owner: Owner) {
        let Some(inbound) = self.inbound.get_mut(&id) else { return };
        let more = (inbound.len as usize).saturating_sub(inbound.memory());
        let Some(peer) = self.peers.get_mut(&inbound.peer) else { return };
        let fits = self.receive_memory + more <= self.options.receive_memory
            && peer.memory + more <= self.options.peer_memory;
        if !fits || !self.services.take_room(owner, inbound.memory() + more) {
            return self.refuse_inbound(id, End::TooLarge);
        }
        inbound.owner = Some(owner);
        peer.memory += more;
        self.receive_memory += more;
        inbound.hold_whole();
        if let (true, Some(flow)) = (more > 0, inbound.flow) {
            self.actions.push(Action::Resume(flow));
        }
    }

    pub(in crate::endpoint) fn complete_inbound(&mut self, flow: FlowId) {
        let Some(id) = self.inbound_flows.get(&flow).copied() else { return };
        let Some(inbound) = self.inbound.get_mut(&id) else { return };
        inbound.is_complete = true;
        inbound.done_flow = inbound.flow.take();
        let (peer, number) = (inbound.peer, inbound.number);
        let opening = inbound.opening;
        self.has_news = true;
        if let Some(waker) = inbound.waker.take() {
            waker.wake();
        }
        // The response shows the client that its request arrived. The answer to a response is not
        // urgent.
        let is_pair = opening.is_some_and(|opening| opening.purpose != Purpose::Message);
        self.delayed = is_pair.then_some(flow);
        self.leave_flow(peer, flow);
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.note_done(number);
        }
        if let Some(Prologue { purpose: Purpose::Response, id: request, .. }) = opening
            && self.requests.contains(&request)
        {
            let is_met =
                self.outbound.get(&request).and_then(|o| o.deadline).map(|d| self.now <= d);
            self.conclude(request, |times| match is_met {
                None => Outcome::Done(times),
                Some(true) => Outcome::Met(times),
                Some(false) => Outcome::Missed(times),
            });
        }
    }
}
