//! The messages and peers of an endpoint.

mod application;
mod control;
mod inward;

use super::format::{Control, Prologue, Purpose, Tokens};
use super::inbound::Inbound;
use super::options::{EndpointOptions, HostTransport, Outcome, SendError, Times};
use super::peers::Peers;
use super::pings::Pings;
use super::services::{Owner, Services};
use crate::driver::{Cause, PeerError};
use ahash::{HashMap, HashSet};
pub(super) use control::RESTART_MIN_STD;
use punctual_core::{Class, Duration, FlowId, Instant};
use punctual_wire::WireName;
use std::net::SocketAddr;
use std::task::Waker;

/// A message that is being sent.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) peer: SocketAddr,
    /// Who sends it.
    pub(super) owner: Owner,
    pub(super) bytes: Vec<u8>,
    pub(super) prologue: Prologue,
    prologue_bytes: [u8; Prologue::BYTES],
    pub(super) class: Class,
    pub(super) transport: HostTransport,
    pub(super) flow: Option<FlowId>,
    /// The count and number of its flow.
    pub(super) number: Option<(u64, u32)>,
    pub(super) submitted_at: Instant,
    pub(super) deadline: Option<Instant>,
    pub(super) gives_up_late: bool,
    /// Whether its transport knows that the deadline has passed.
    pub(super) is_late: bool,
    /// When its first packet was first sent.
    pub(super) first_sent_at: Option<Instant>,
    /// The end of the bytes that were sent at least once.
    pub(super) sent_to: u64,
    /// When the peer was last heard.
    pub(super) heard_at: Instant,
    /// When the peer was first reported not to receive packets since it was last heard, and why.
    pub(super) unreachable: Option<(Instant, Cause)>,
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
    /// The peer will know without an answer that the flow is complete.
    Discard(FlowId),
    /// There is room for packets that waited.
    Resume(FlowId),
    Launch(SocketAddr),
    /// A transport has abandoned the flow of a message.
    Cancel(u64),
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
    /// Who listens, and the messages that wait for `accept`.
    pub(super) services: Services,
    pub(super) controls: Vec<(SocketAddr, Vec<u8>)>,
    pub(super) actions: Vec<Action>,
    pub(super) pings: Pings,
    pub(super) receive_memory: usize,
    pub(super) send_memory: usize,
    /// Open flows from peers whose addresses are not proven.
    unproven: usize,
    pub(super) now: Instant,
    pub(super) next_id: u64,
    /// The flow that was just completed, if its last answer may wait.
    pub(super) delayed: Option<FlowId>,
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
            outbound: HashMap::default(),
            inbound: HashMap::default(),
            outbound_flows: HashMap::default(),
            inbound_flows: HashMap::default(),
            outbound_numbers: HashMap::default(),
            inbound_numbers: HashMap::default(),
            requests: HashSet::default(),
            services: Services::new(),
            controls: Vec::new(),
            actions: Vec::new(),
            pings: Pings::default(),
            receive_memory: 0,
            send_memory: 0,
            unproven: 0,
            now: Instant::ZERO,
            // Ids of requests are not guessable.
            next_id: seed.rotate_left(17),
            delayed: None,
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

    /// Whether packets are authenticated.
    fn is_keyed(&self) -> bool {
        self.options.key.is_some()
    }

    /// Whether peers have to prove their addresses before they take memory.
    fn is_under_pressure(&self) -> bool {
        self.unproven >= self.options.unproven_max
            || self.peers.is_crowded()
            || self.services.waiting() * 2 > self.options.backlog
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

    /// The peer has told in a message of its own that it has the response with this number. Only the
    /// peer knows the number.
    fn confirm(&mut self, address: SocketAddr, number: u32) {
        let Some(id) = self.outbound_numbers.get(&(address, number)).copied() else { return };
        let Some(outbound) = self.outbound.get(&id) else { return };
        let size = Prologue::BYTES as u64 + outbound.bytes.len() as u64;
        if outbound.prologue.purpose != Purpose::Response || outbound.sent_to < size {
            return;
        }
        self.prove(address);
        self.deliver(id);
    }

    /// Notes that a peer receives packets at its address.
    fn prove(&mut self, address: SocketAddr) {
        if let Some(peer) = self.peers.get_mut(&address)
            && !std::mem::replace(&mut peer.is_proven, true)
        {
            self.unproven -= peer.inbound as usize;
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

    /// Ends a send whose peer was silent after a report that it does not receive packets.
    pub(super) fn lose_unreachable(&mut self, id: u64, peer: SocketAddr, cause: Cause) {
        match cause {
            Cause::Undelivered(error) => {
                self.lose(id, SendError::PeerUnreachable { peer, error }, false);
            }
            Cause::OtherVersion => {
                let error = SendError::OtherVersion(peer);
                // A peer that was never heard in this version cannot have read the message. With a
                // key nothing is believed that is not authenticated.
                let is_known = self.peers.get(&peer).is_some_and(|p| p.incarnation.is_some());
                match is_known || self.is_keyed() {
                    true => self.lose(id, error, false),
                    false => self.conclude(id, |times| Outcome::Failed(error, times)),
                }
            }
        }
    }

    /// Notes that something that was sent to a peer could not be delivered.
    pub(super) fn note_error(&mut self, error: &PeerError) {
        let now = self.now;
        let mut note = |outbound: &mut Outbound| {
            outbound.unreachable.get_or_insert_with(|| (now, error.cause.clone()));
        };
        match error.flow {
            Some(flow) => {
                let id = self.outbound_flows.get(&flow);
                id.and_then(|id| self.outbound.get_mut(id)).map(&mut note);
            }
            None => {
                let is_open = |o: &&mut Outbound| o.peer == error.peer && o.outcome.is_none();
                self.outbound.values_mut().filter(is_open).for_each(note);
            }
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
        owner: 0,
        bytes,
        prologue,
        prologue_bytes: prologue.to_bytes(),
        class,
        transport: HostTransport::default(),
        flow: None,
        number: None,
        submitted_at: now,
        deadline: None,
        gives_up_late: false,
        is_late: false,
        first_sent_at: None,
        sent_to: 0,
        heard_at: now,
        unreachable: None,
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
