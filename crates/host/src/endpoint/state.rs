//! The messages of an endpoint, as the driver sees them.

use super::format::{Control, End, Opening, Prologue, Purpose, Tokens};
use super::inbound::Inbound;
use super::options::{EndpointOptions, Outcome, ReceiveError, SendError, Times};
use super::peers::{Known, Peers};
use crate::driver::{Application, Offer};
use punctual_core::{ByteRange, Class, Duration, FlowEvent, FlowId, Instant};
use punctual_wire::{Datagram, WireName};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::task::Waker;

/// A message that is being sent.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) peer: SocketAddr,
    pub(super) bytes: Vec<u8>,
    pub(super) prologue: Prologue,
    prologue_bytes: [u8; Prologue::BYTES],
    pub(super) class: Class,
    pub(super) flow: Option<FlowId>,
    /// The count and number of its flow.
    pub(super) number: Option<(u64, u32)>,
    pub(super) submitted_at: Instant,
    pub(super) deadline: Option<Instant>,
    pub(super) gives_up_late: bool,
    /// When its first packet was first sent.
    pub(super) first_sent_at: Option<Instant>,
    /// The end of the bytes that were sent at least once.
    pub(super) sent_to: u64,
    /// When the peer was last heard.
    pub(super) heard_at: Instant,
    /// Whether the peer must prove its address first.
    pub(super) needs_proof: bool,
    /// Times that the peer asked for a new start.
    retries: u32,
    retransmits: u64,
    /// When the application abandoned it, and when the peer was last asked to discard it.
    pub(super) cancelled_at: Option<Instant>,
    pub(super) asked_at: Instant,
    /// Of a request: until when it waits for its response.
    pub(super) patient_until: Instant,
    /// Of a request: whether the peer has it, and its response.
    pub(super) is_acknowledged: bool,
    pub(super) response: Option<u64>,
    pub(super) outcome: Option<Outcome>,
    pub(super) waker: Option<Waker>,
    /// Whether nobody waits for its outcome.
    pub(super) is_detached: bool,
}

/// What the driver has to do after a call to the state.
#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    Close(FlowId),
    /// The peer of a flow is alive.
    Heard(FlowId),
    /// There is room for packets that waited.
    Resume(FlowId),
    Launch(SocketAddr),
}

/// The messages and peers of an endpoint.
#[derive(Debug)]
pub(super) struct State {
    pub(super) options: EndpointOptions,
    pub(super) incarnation: u16,
    pub(super) tokens: Tokens,
    pub(super) peers: Peers,
    pub(super) outbound: HashMap<u64, Outbound>,
    pub(super) inbound: HashMap<u64, Inbound>,
    outbound_flows: HashMap<FlowId, u64>,
    inbound_flows: HashMap<FlowId, u64>,
    outbound_numbers: HashMap<(SocketAddr, u32), u64>,
    inbound_numbers: HashMap<(SocketAddr, u32), u64>,
    /// Requests without a response.
    requests: HashSet<u64>,
    /// Messages that wait for `accept`.
    pub(super) backlog: VecDeque<u64>,
    pub(super) is_listening: bool,
    pub(super) accept_waker: Option<Waker>,
    pub(super) controls: Vec<(SocketAddr, Vec<u8>)>,
    pub(super) actions: Vec<Action>,
    pub(super) pongs: Vec<(SocketAddr, u64)>,
    pub(super) receive_memory: usize,
    pub(super) send_memory: usize,
    /// Open flows from peers whose addresses are not proven.
    unproven: usize,
    pub(super) now: Instant,
    pub(super) next_id: u64,
    /// Whether something ended or arrived, so that waiting threads should look.
    pub(super) has_news: bool,
}

impl State {
    pub(super) fn new(options: EndpointOptions, incarnation: u16, secret: [u8; 32]) -> Self {
        let seed = u64::from_be_bytes(*secret.first_chunk().unwrap_or(&[0; 8]));
        State {
            peers: Peers::new(options.peers_max, to_core(options.window), seed),
            tokens: Tokens::new(*blake3::hash(&secret).as_bytes()),
            options,
            incarnation,
            outbound: HashMap::new(),
            inbound: HashMap::new(),
            outbound_flows: HashMap::new(),
            inbound_flows: HashMap::new(),
            outbound_numbers: HashMap::new(),
            inbound_numbers: HashMap::new(),
            requests: HashSet::new(),
            backlog: VecDeque::new(),
            is_listening: false,
            accept_waker: None,
            controls: Vec::new(),
            actions: Vec::new(),
            pongs: Vec::new(),
            receive_memory: 0,
            send_memory: 0,
            unproven: 0,
            now: Instant::ZERO,
            // Ids of requests are not guessable.
            next_id: seed.rotate_left(17),
            has_news: false,
        }
    }

    pub(super) fn control(&mut self, peer: SocketAddr, number: u32, control: Control) {
        let name = WireName { flow: number, incarnation: self.incarnation };
        self.controls.push((peer, control.to_bytes(name)));
    }

    fn secs(&self) -> u64 {
        self.now.since_start().as_nanos() / 1_000_000_000
    }

    /// Whether a message may have been delivered to an earlier process at this address.
    fn is_young(&self) -> bool {
        self.now.since_start() < to_core(self.options.window)
    }

    /// Whether peers have to prove their addresses before they take memory.
    fn is_under_pressure(&self) -> bool {
        self.unproven >= self.options.unproven_max
            || self.peers.is_crowded()
            || self.backlog.len() * 2 > self.options.backlog
            || self.receive_memory * 2 > self.options.receive_memory
    }

    fn ask_to_retry(&mut self, peer: SocketAddr, number: u32) {
        let token = self.tokens.make(peer, self.secs());
        let uptime_us = self.now.since_start().as_nanos() / 1_000;
        self.control(peer, number, Control::Retry { token, uptime_us });
    }

    pub(super) fn ask_for_proof(&mut self, peer: SocketAddr, number: u32) {
        let token = self.tokens.make(peer, self.secs());
        self.control(peer, number, Control::Challenge(token));
    }

    // ---- messages out ----

    /// Adds a message and its place in its peer's queue. Returns its id.
    pub(super) fn add_outbound(&mut self, mut outbound: Outbound) -> u64 {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let peer = outbound.peer;
        if outbound.prologue.purpose == Purpose::Request {
            outbound.prologue.id = id;
            self.requests.insert(id);
        }
        self.send_memory += outbound.bytes.len();
        if let Some(peer) = self.peers.entry(peer, self.now, true) {
            peer.queue.push_back(id);
            peer.requests += u32::from(outbound.prologue.purpose == Purpose::Request);
        }
        self.outbound.insert(id, outbound);
        self.actions.push(Action::Launch(peer));
        id
    }

    pub(super) fn note_open(&mut self, id: u64, flow: FlowId) {
        if let Some(outbound) = self.outbound.get_mut(&id) {
            outbound.flow = Some(flow);
            outbound.heard_at = self.now;
            self.outbound_flows.insert(flow, id);
            if let Some((_, number)) = outbound.number {
                self.outbound_numbers.insert((outbound.peer, number), id);
            }
        }
    }

    /// Forgets the flow of a message, which may get another one.
    pub(super) fn detach_flow(&mut self, id: u64) {
        let Some(outbound) = self.outbound.get_mut(&id) else { return };
        let peer = outbound.peer;
        if let Some(flow) = outbound.flow.take() {
            self.outbound_flows.remove(&flow);
            self.actions.push(Action::Close(flow));
        }
        if let Some((count, number)) = outbound.number.take() {
            self.outbound_numbers.remove(&(peer, number));
            if let Some(peer) = self.peers.get_mut(&peer) {
                peer.release(count);
            }
            self.actions.push(Action::Launch(peer));
        }
    }

    pub(super) fn times(&self, outbound: &Outbound) -> Times {
        let since = |at: Instant| from_core(at.saturating_since(outbound.submitted_at));
        Times {
            elapsed: since(self.now),
            deadline: outbound.deadline.map(since),
            retransmits: outbound.retransmits,
        }
    }

    /// Ends a send.
    pub(super) fn conclude(&mut self, id: u64, end: impl FnOnce(Times) -> Outcome) {
        self.detach_flow(id);
        let Some(outbound) = self.outbound.get(&id).filter(|o| o.outcome.is_none()) else { return };
        let outcome = end(self.times(outbound));
        let Some(outbound) = self.outbound.get_mut(&id) else { return };
        self.send_memory -= std::mem::take(&mut outbound.bytes).len();
        outbound.outcome = Some(outcome);
        self.has_news = true;
        if let Some(waker) = outbound.waker.take() {
            waker.wake();
        }
        let (peer, is_detached) = (outbound.peer, outbound.is_detached);
        let is_request = outbound.prologue.purpose == Purpose::Request;
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.queue.retain(|queued| *queued != id);
            peer.requests -= u32::from(is_request);
        }
        self.requests.remove(&id);
        if is_detached {
            self.forget_outbound(id);
        }
    }

    /// Removes a send whose outcome nobody waits for.
    pub(super) fn forget_outbound(&mut self, id: u64) {
        if let Some(response) = self.outbound.remove(&id).and_then(|o| o.response) {
            self.remove_inbound(response);
        }
    }

    /// The peer has the message.
    fn deliver(&mut self, id: u64) {
        let Some(outbound) = self.outbound.get_mut(&id) else { return };
        outbound.is_acknowledged = true;
        let deadline = outbound.deadline;
        if outbound.prologue.purpose == Purpose::Request {
            // Its outcome is that of the response.
            self.detach_flow(id);
            return;
        }
        let is_met = deadline.map(|deadline| self.now <= deadline);
        self.conclude(id, |times| match is_met {
            None => Outcome::Done(times),
            Some(true) => Outcome::Met(times),
            Some(false) => Outcome::Missed(times),
        });
    }

    /// Ends a send whose peer may or may not have the message, or starts it again if the peer cannot
    /// have it and `may_restart`.
    pub(super) fn lose(&mut self, id: u64, error: SendError, may_restart: bool) {
        let Some(outbound) = self.outbound.get_mut(&id) else { return };
        let size = Prologue::BYTES as u64 + outbound.bytes.len() as u64;
        let is_all_sent = outbound.sent_to >= size || outbound.is_acknowledged;
        if is_all_sent {
            self.conclude(id, |times| Outcome::Unknown(error, times));
        } else if may_restart && outbound.cancelled_at.is_none() {
            self.restart(id);
        } else if outbound.cancelled_at.is_some() {
            self.conclude(id, Outcome::GivenUp);
        } else {
            self.conclude(id, |times| Outcome::Failed(error, times));
        }
    }

    /// Sends a message again from its beginning, in a new flow.
    fn restart(&mut self, id: u64) {
        self.detach_flow(id);
        let Some(outbound) = self.outbound.get_mut(&id) else { return };
        outbound.sent_to = 0;
        outbound.first_sent_at = None;
        outbound.is_acknowledged = false;
        let peer = outbound.peer;
        if let Some(peer) = self.peers.entry(peer, self.now, true) {
            peer.queue.push_front(id);
        }
        self.actions.push(Action::Launch(peer));
    }

    /// Writes the prologue of a message, just before its flow opens.
    pub(super) fn write_prologue(&mut self, id: u64) {
        let Some(outbound) = self.outbound.get_mut(&id) else { return };
        let known = self.peers.get(&outbound.peer).and_then(|peer| peer.incarnation);
        outbound.prologue.to_incarnation = known;
        let left = outbound.deadline.map(|at| at.saturating_since(self.now).as_nanos() / 1_000);
        outbound.prologue.deadline_us = left.map_or(0, |us| us.max(1));
        outbound.prologue_bytes = outbound.prologue.to_bytes();
    }

    // ---- messages in ----

    /// Frees a message that was received, or is being received.
    pub(super) fn remove_inbound(&mut self, id: u64) {
        let Some(inbound) = self.inbound.remove(&id) else { return };
        self.receive_memory -= inbound.memory();
        self.inbound_numbers.remove(&(inbound.peer, inbound.number));
        if let Some(peer) = self.peers.get_mut(&inbound.peer) {
            peer.memory -= inbound.memory();
        }
        if let Some(flow) = inbound.flow {
            self.leave_flow(inbound.peer, flow);
            self.actions.push(Action::Close(flow));
        }
        self.backlog.retain(|waiting| *waiting != id);
    }

    /// Notes that a flow from a peer is not open any more.
    fn leave_flow(&mut self, peer: SocketAddr, flow: FlowId) {
        if self.inbound_flows.remove(&flow).is_none() {
            return;
        }
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.inbound -= 1;
            self.unproven -= usize::from(!peer.is_proven);
        }
    }

    /// Ends a message before it is complete.
    fn fail_inbound(&mut self, id: u64, error: ReceiveError) {
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
    pub(super) fn refuse_inbound(&mut self, id: u64, end: End) {
        if let Some(inbound) = self.inbound.get(&id) {
            let (peer, number, is_complete) = (inbound.peer, inbound.number, inbound.is_complete);
            if !is_complete {
                self.control(peer, number, Control::Ended(end));
            }
        }
        self.remove_inbound(id);
    }

    /// The prologue of a message has arrived.
    fn handle_opening(&mut self, id: u64, opening: Opening) {
        let Some(inbound) = self.inbound.get(&id) else { return };
        let (peer, number) = (inbound.peer, inbound.number);
        let Opening::Message(prologue) = opening else {
            return self.refuse_inbound(id, End::OtherVersion);
        };
        let is_for_us = match prologue.to_incarnation {
            Some(named) => named == self.incarnation,
            // A response answers a request of this process.
            None => !self.is_young() || prologue.purpose == Purpose::Response,
        };
        if !is_for_us {
            self.remove_inbound(id);
            return self.ask_to_retry(peer, number);
        }
        match prologue.purpose {
            Purpose::Response => {
                let request = self.requests.get(&prologue.id);
                let request = request.and_then(|request| self.outbound.get_mut(request));
                match request {
                    Some(request) if request.peer == peer && request.response.is_none() => {
                        request.response = Some(id);
                        self.hold_whole(id);
                    }
                    _ => self.refuse_inbound(id, End::Refused),
                }
            }
            Purpose::Message | Purpose::Request if self.is_listening => {
                self.backlog.push_back(id);
                self.has_news = true;
                if let Some(waker) = self.accept_waker.take() {
                    waker.wake();
                }
            }
            _ => self.refuse_inbound(id, End::NotListening),
        }
    }

    /// Takes memory for a whole response, since nobody reads it before its end.
    fn hold_whole(&mut self, id: u64) {
        let Some(inbound) = self.inbound.get_mut(&id) else { return };
        let more = (inbound.len as usize).saturating_sub(inbound.memory());
        let Some(peer) = self.peers.get_mut(&inbound.peer) else { return };
        let fits = self.receive_memory + more <= self.options.receive_memory
            && peer.memory + more <= self.options.peer_memory;
        if !fits {
            return self.refuse_inbound(id, End::TooLarge);
        }
        peer.memory += more;
        self.receive_memory += more;
        inbound.hold_whole();
        if let (true, Some(flow)) = (more > 0, inbound.flow) {
            self.actions.push(Action::Resume(flow));
        }
    }

    fn complete_inbound(&mut self, flow: FlowId) {
        let Some(id) = self.inbound_flows.get(&flow).copied() else { return };
        let Some(inbound) = self.inbound.get_mut(&id) else { return };
        inbound.is_complete = true;
        inbound.flow = None;
        let (peer, number) = (inbound.peer, inbound.number);
        let opening = inbound.opening;
        self.has_news = true;
        if let Some(waker) = inbound.waker.take() {
            waker.wake();
        }
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

    // ---- packets of the host stack ----

    fn handle(&mut self, peer: SocketAddr, name: WireName, control: Control) {
        let sent = self.outbound_numbers.get(&(peer, name.flow)).copied();
        match control {
            Control::Retry { token, uptime_us } => {
                if let Some(id) = sent {
                    self.handle_retry(id, name.incarnation, token, uptime_us);
                }
            }
            Control::Challenge(token) => {
                if self.peers.get(&peer).is_some_and(|peer| peer.requests > 0) {
                    self.control(peer, name.flow, Control::Token(token));
                }
            }
            Control::Token(token) => {
                if self.tokens.is_valid(peer, self.secs(), &token) {
                    self.handle_proof(peer, name.incarnation);
                }
            }
            Control::Wait => {
                if let Some(flow) = sent.and_then(|id| self.outbound.get(&id)?.flow) {
                    self.actions.push(Action::Heard(flow));
                }
            }
            Control::Ended(end) => {
                if let Some(id) = sent {
                    self.handle_end(id, end);
                }
            }
            Control::Cancel => self.handle_cancel(peer, name.flow),
            Control::Ping(number) => self.control(peer, name.flow, Control::Pong(number)),
            Control::Pong(number) => {
                if self.pongs.len() < 1_024 {
                    self.pongs.push((peer, number));
                }
                self.has_news = true;
            }
        }
    }

    /// The peer, whose process started `uptime_us` ago, asks for a proof of this end's address and
    /// for its own incarnation in the prologue.
    fn handle_retry(&mut self, id: u64, incarnation: u16, token: [u8; 16], uptime_us: u64) {
        let Some(outbound) = self.outbound.get_mut(&id) else { return };
        outbound.retries += 1;
        let (peer, retries) = (outbound.peer, outbound.retries);
        let Some((_, number)) = outbound.number else { return };
        // The packet took some time, so the peer's process started before this.
        let uptime = Duration::from_micros(uptime_us.min(u64::MAX / 1_000_000));
        let started_by = self.now.as_picos().saturating_sub(uptime.as_picos());
        let first_sent = outbound.first_sent_at.map_or(u64::MAX, Instant::as_picos);
        self.control(peer, number, Control::Token(token));
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.learn(incarnation);
        }
        let is_safe = started_by < first_sent;
        if retries > RETRIES_MAX {
            self.lose(id, SendError::Restarted(peer), false);
        } else if is_safe {
            // No earlier process at that address can have received it.
            self.restart(id);
        } else {
            self.lose(id, SendError::Restarted(peer), true);
        }
    }

    /// A peer has proven its address.
    fn handle_proof(&mut self, address: SocketAddr, incarnation: u16) {
        let Some(peer) = self.peers.entry(address, self.now, false) else { return };
        if !std::mem::replace(&mut peer.is_proven, true) {
            self.unproven -= peer.inbound as usize;
        }
        let is_other = peer.incarnation.is_some_and(|known| known != incarnation);
        peer.learn(incarnation);
        if is_other {
            // Messages of the earlier process will not be completed.
            let unfinished: Vec<u64> = self
                .inbound
                .iter()
                .filter(|(_, inbound)| inbound.peer == address && !inbound.is_complete)
                .map(|(id, _)| *id)
                .collect();
            for id in unfinished {
                self.fail_inbound(id, ReceiveError::SenderGone);
            }
        }
        self.actions.push(Action::Launch(address));
    }

    fn handle_end(&mut self, id: u64, end: End) {
        let Some(outbound) = self.outbound.get(&id) else { return };
        let peer = outbound.peer;
        let is_cancelled = outbound.cancelled_at.is_some();
        let error = match end {
            End::Done => return self.deliver(id),
            End::Cancelled | End::Gone if is_cancelled => {
                return self.conclude(id, Outcome::GivenUp);
            }
            End::NotListening => SendError::NotListening(peer),
            End::TooLarge => SendError::TooLarge(peer),
            End::OtherVersion => SendError::OtherVersion(peer),
            End::Refused | End::Gone | End::Cancelled => SendError::Refused(peer),
        };
        self.conclude(id, |times| Outcome::Failed(error, times));
    }

    fn handle_cancel(&mut self, address: SocketAddr, number: u32) {
        if let Some(id) = self.inbound_numbers.get(&(address, number)).copied() {
            let is_complete = self.inbound.get(&id).is_some_and(|inbound| inbound.is_complete);
            let end = if is_complete { End::Done } else { End::Cancelled };
            if !is_complete {
                self.fail_inbound(id, ReceiveError::Cancelled);
            }
            return self.control(address, number, Control::Ended(end));
        }
        let Some(peer) = self.peers.get_mut(&address) else { return };
        let end = match peer.known(number) {
            Known::Done => End::Done,
            Known::Opened => End::Gone,
            Known::New => {
                // Its late packets must not open it.
                peer.note_opened(number);
                End::Cancelled
            }
        };
        self.control(address, number, Control::Ended(end));
    }
}

/// Most new starts of one message.
const RETRIES_MAX: u32 = 16;

impl Application for State {
    fn accept(&mut self, offer: &Offer) -> bool {
        self.now = offer.at;
        let (address, number) = (offer.peer, offer.name.flow);
        let known = self.peers.get(&address);
        let is_proven = known.is_some_and(|peer| peer.is_proven);
        let awaits_response = known.is_some_and(|peer| peer.requests > 0);
        let is_other = known
            .and_then(|peer| peer.incarnation)
            .is_some_and(|known| known != offer.name.incarnation);
        if !self.is_listening && !awaits_response {
            self.control(address, number, Control::Ended(End::NotListening));
            return false;
        }
        let needs_proof = self.is_young() && !awaits_response || self.is_under_pressure();
        if is_other || !is_proven && needs_proof {
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
        let buffer = usize::try_from(len).map_or(self.options.stream_buffer, |len| {
            len.min(self.options.stream_buffer)
        });
        let fits = self.receive_memory + buffer <= self.options.receive_memory
            && known.map_or(0, |peer| peer.memory) + buffer <= self.options.peer_memory
            && self.backlog.len() < self.options.backlog;
        if !fits {
            self.control(address, number, Control::Wait);
            return false;
        }
        let Some(peer) = self.peers.entry(address, self.now, false) else { return false };
        peer.learn(offer.name.incarnation);
        peer.note_opened(number);
        peer.inbound += 1;
        peer.memory += buffer;
        self.unproven += usize::from(!peer.is_proven);
        self.receive_memory += buffer;
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let inbound = Inbound::new(address, offer.flow, number, len, buffer, self.now);
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
                    let address = outbound.peer;
                    if let Some(peer) = self.peers.get_mut(&address)
                        && !std::mem::replace(&mut peer.is_proven, true)
                    {
                        self.unproven -= peer.inbound as usize;
                    }
                }
                self.deliver(id);
            }
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

    fn handle_control(&mut self, peer: SocketAddr, now: Instant, datagram: &Datagram<'_>) {
        self.now = self.now.max(now);
        if let Some(control) = Control::of(datagram) {
            self.handle(peer, datagram.envelope.name, control);
        }
    }

    fn handle_stray(&mut self, peer: SocketAddr, to_sender: bool, name: WireName) {
        if to_sender {
            return;
        }
        let end = match self.peers.get(&peer).map(|peer| peer.known(name.flow)) {
            Some(Known::Done) => End::Done,
            Some(Known::Opened) => End::Gone,
            _ => return,
        };
        self.control(peer, name.flow, Control::Ended(end));
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

/// A new message to send.
pub(super) fn new_outbound(
    peer: SocketAddr,
    bytes: Vec<u8>,
    prologue: Prologue,
    class: Class,
    now: Instant,
) -> Outbound {
    Outbound {
        peer,
        bytes,
        prologue,
        prologue_bytes: prologue.to_bytes(),
        class,
        flow: None,
        number: None,
        submitted_at: now,
        deadline: None,
        gives_up_late: false,
        first_sent_at: None,
        sent_to: 0,
        heard_at: now,
        needs_proof: false,
        retries: 0,
        retransmits: 0,
        cancelled_at: None,
        asked_at: Instant::ZERO,
        patient_until: Instant::NEVER,
        is_acknowledged: false,
        response: None,
        outcome: None,
        waker: None,
        is_detached: false,
    }
}

pub(super) fn to_core(duration: std::time::Duration) -> Duration {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_picos(nanos.saturating_mul(1_000))
}

pub(super) fn from_core(duration: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(duration.as_nanos())
}
