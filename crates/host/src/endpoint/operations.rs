//! The operations that handles need of an engine, and the two engines that have them: the one in
//! this process, and the attachment to a host daemon.

use super::EndpointStats;
use super::engine::{Engine, Reply};
use super::format::{Control, End, Purpose};
use super::options::{Outcome, ReceiveError, SendError, SendOptions, Times};
use super::pings::{PingAnswer, Pings};
use super::runner::{Run, Shared};
use super::services::{Owner, OwnerLimits, Service};
use super::state::{from_core, to_core};
use crate::Clock;
use crate::daemon::Attachment;
use crate::driver::{Receive, WaitSet};
use punctual_core::{HostId, Instant};
use punctual_transports::AnyStack;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant as StdInstant};

/// A message whose first bytes have arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    /// Bytes of the message.
    pub(crate) len: u64,
    pub(crate) deadline: Option<StdInstant>,
    /// The number of the request, if it is one.
    pub(crate) request: Option<u64>,
}

/// What handles ask of an engine. Nothing here waits: a `take` returns `None` until there is
/// something, and `watch` names who wants to know.
pub(crate) trait Operations {
    /// Takes a message to send. Returns its id.
    fn submit(
        &mut self,
        peer: SocketAddr,
        bytes: Vec<u8>,
        reply: Reply,
        options: &SendOptions,
    ) -> Result<u64, SendError>;
    /// Takes the outcome of a send, and the response to a request.
    fn take_outcome(&mut self, id: u64) -> Option<(Outcome, Option<Vec<u8>>)>;
    fn watch_outcome(&mut self, id: u64, waker: &Waker);
    /// Abandons a send.
    fn cancel(&mut self, id: u64);
    /// Changes the deadline of a send, counted from its submission.
    fn set_deadline(&mut self, id: u64, deadline: Option<Duration>);
    /// Notes that nobody waits for the outcome of a send.
    fn detach(&mut self, id: u64);
    /// Begins to listen for a service.
    fn listen(&mut self, service: Service);
    /// Whether this process has the service for which it listens, once that is known.
    fn listens(&mut self, service: Service) -> Option<Result<(), ReceiveError>>;
    fn take_arrival(&mut self, service: Service) -> Option<Result<Arrival, ReceiveError>>;
    fn watch_arrivals(&mut self, service: Service, waker: &Waker);
    /// Reads bytes of a message, in order.
    fn read(&mut self, id: u64, into: &mut [u8]) -> Option<Result<usize, ReceiveError>>;
    fn watch_bytes(&mut self, id: u64, waker: &Waker);
    /// Frees a message. If it is not complete, its sender learns that it was refused.
    fn release(&mut self, id: u64);
    /// Sends a ping. Returns its number.
    fn send_ping(&mut self, peer: SocketAddr) -> u64;
    /// Takes the answer to a ping.
    fn take_pong(&mut self, peer: SocketAddr, number: u64) -> Option<PingAnswer>;
    fn ask_stats(&mut self);
    fn take_stats(&mut self) -> Option<EndpointStats>;
}

impl Operations for Engine {
    fn submit(
        &mut self,
        peer: SocketAddr,
        bytes: Vec<u8>,
        reply: Reply,
        options: &SendOptions,
    ) -> Result<u64, SendError> {
        Engine::submit(self, peer, bytes, reply, options)
    }

    fn take_outcome(&mut self, id: u64) -> Option<(Outcome, Option<Vec<u8>>)> {
        let Some(outbound) = self.state.outbound.get_mut(&id) else { return Some(taken_already()) };
        let outcome = outbound.outcome.take()?;
        let response = outbound.response;
        let bytes = response.filter(|_| outcome.is_delivered()).and_then(|response| {
            let inbound = self.state.inbound.get_mut(&response)?;
            let mut bytes = vec![0; inbound.readable()];
            inbound.take(&mut bytes);
            Some(bytes)
        });
        self.state.forget_outbound(id);
        Some((outcome, bytes))
    }

    fn watch_outcome(&mut self, id: u64, waker: &Waker) {
        if let Some(outbound) = self.state.outbound.get_mut(&id) {
            outbound.waker = Some(waker.clone());
        }
    }

    fn cancel(&mut self, id: u64) {
        Engine::cancel(self, id);
    }

    fn set_deadline(&mut self, id: u64, deadline: Option<Duration>) {
        Engine::set_deadline(self, id, deadline);
    }

    fn detach(&mut self, id: u64) {
        let Some(outbound) = self.state.outbound.get_mut(&id) else { return };
        outbound.is_detached = true;
        if outbound.outcome.is_some() {
            self.state.forget_outbound(id);
        }
    }

    fn listen(&mut self, service: Service) {
        self.state.services.claim(service, 0);
    }

    fn listens(&mut self, service: Service) -> Option<Result<(), ReceiveError>> {
        let is_ours = self.state.services.owner_of(service) == Some(0);
        Some(if is_ours { Ok(()) } else { Err(ReceiveError::ServiceTaken) })
    }

    fn take_arrival(&mut self, service: Service) -> Option<Result<Arrival, ReceiveError>> {
        if let Some(id) = self.state.services.pop(service) {
            let now = self.now();
            let inbound = self.state.inbound.get(&id)?;
            let opening = inbound.opening?;
            let deadline = match opening.deadline_us {
                0 => None,
                us => {
                    let end = inbound.started_at.saturating_add(to_core(Duration::from_micros(us)));
                    StdInstant::now().checked_add(from_core(end.saturating_since(now)))
                }
            };
            return Some(Ok(Arrival {
                id,
                peer: inbound.peer,
                len: inbound.len,
                deadline,
                request: (opening.purpose == Purpose::Request).then_some(opening.id),
            }));
        }
        self.closed.as_ref().map(|_| Err(ReceiveError::Closed))
    }

    fn watch_arrivals(&mut self, service: Service, waker: &Waker) {
        self.state.services.watch(service, waker);
    }

    fn read(&mut self, id: u64, into: &mut [u8]) -> Option<Result<usize, ReceiveError>> {
        Engine::read(self, id, into)
    }

    fn watch_bytes(&mut self, id: u64, waker: &Waker) {
        if let Some(inbound) = self.state.inbound.get_mut(&id) {
            inbound.waker = Some(waker.clone());
        }
    }

    fn release(&mut self, id: u64) {
        self.state.refuse_inbound(id, End::Refused);
    }

    fn send_ping(&mut self, peer: SocketAddr) -> u64 {
        let number = self.state.next_id;
        self.state.next_id = number.wrapping_add(1);
        self.state.pings.add(peer, number);
        self.state.control(peer, Pings::flow(number), Control::Ping(number));
        number
    }

    fn take_pong(&mut self, peer: SocketAddr, number: u64) -> Option<PingAnswer> {
        self.state.pings.take(peer, number)
    }

    fn ask_stats(&mut self) {}

    fn take_stats(&mut self) -> Option<EndpointStats> {
        Some(EndpointStats {
            traffic: self.traffic().clone(),
            peers: self.state.peers.len(),
            receive_memory: self.state.receive_memory,
            send_memory: self.state.send_memory,
            messages_in: self.state.inbound.len(),
            messages_out: self.state.outbound.len(),
            sources: self.driver.sources(),
        })
    }
}

/// The answer to a second question for the outcome of a send.
pub(crate) fn taken_already() -> (Outcome, Option<Vec<u8>>) {
    let times = Times { elapsed: Duration::ZERO, deadline: None, retransmits: 0 };
    let error = SendError::Closed("the outcome was taken already".into());
    (Outcome::Failed(error, times), None)
}

/// What a host daemon needs beyond [`Operations`]: many owners of messages.
impl Engine {
    pub(crate) fn add_owner(&mut self, owner: Owner, limits: OwnerLimits) {
        self.state.services.add_owner(owner, limits);
    }

    /// Has the next sends belong to an owner.
    pub(crate) fn act_for(&mut self, owner: Owner) {
        self.state.services.acting = owner;
    }

    /// Claims a service. False if another owner has it.
    pub(crate) fn claim(&mut self, service: Service, owner: Owner) -> bool {
        self.state.services.claim(service, owner)
    }

    /// Stops to listen for the services of an owner and refuses what waits in their backlogs.
    pub(crate) fn release_claims(&mut self, owner: Owner) {
        for id in self.state.services.release_claims(owner) {
            self.state.refuse_inbound(id, End::Gone);
        }
    }

    /// Frees everything of an owner: its services, the messages to it, and its sends, which are
    /// cancelled or else go on without it.
    pub(crate) fn remove_owner(&mut self, owner: Owner, cancels: bool) {
        self.release_claims(owner);
        let inbound: Vec<u64> = self
            .state
            .inbound
            .iter()
            .filter(|(_, inbound)| inbound.owner == Some(owner) && !is_response(inbound.opening))
            .map(|(id, _)| *id)
            .collect();
        for id in inbound {
            self.state.refuse_inbound(id, End::Gone);
        }
        let outbound = self.state.outbound.iter().filter(|(_, o)| o.owner == owner);
        let outbound: Vec<u64> = outbound.map(|(id, _)| *id).collect();
        for id in outbound {
            if cancels {
                Engine::cancel(self, id);
            }
            Operations::detach(self, id);
        }
        self.state.services.remove_owner(owner);
    }

    /// The memory and number of the messages to an owner.
    pub(crate) fn taken_by(&self, owner: Owner) -> (usize, usize) {
        (self.state.services.memory_of(owner), self.state.services.messages_of(owner))
    }

    /// Why the engine has stopped, if it has.
    pub(crate) fn stopped(&self) -> Option<&str> {
        self.closed.as_deref()
    }

    /// Flows that are open or in their time-wait, and pulls that wait for their turn.
    pub(crate) fn load(&self) -> (usize, u32) {
        let pending = |stack: &AnyStack| match stack {
            AnyStack::Ndp(stack) => stack.shared(HostId(0)).pending(),
            _ => 0,
        };
        (self.driver.open_flows(), self.driver.stacks().map(pending).sum())
    }

    /// Services claimed, messages that wait for `accept`, and messages held for room.
    pub(crate) fn listening(&self) -> [usize; 3] {
        let services = &self.state.services;
        [services.claimed(), services.waiting(), services.held()]
    }
}

fn is_response(opening: Option<super::format::Prologue>) -> bool {
    opening.is_some_and(|opening| opening.purpose == Purpose::Response)
}

impl Run for Engine {
    type Sockets = WaitSet;

    fn step(&mut self) -> Option<Instant> {
        Engine::step(self)
    }

    fn push(&mut self) -> Option<Instant> {
        Engine::push(self)
    }

    fn has_work(&self) -> bool {
        Engine::has_work(self)
    }

    fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.state.has_news)
    }

    fn clock(&self) -> Clock {
        self.driver.clock()
    }

    fn spins(&self) -> bool {
        self.state.options.spin
    }

    fn wait_set(&self) -> WaitSet {
        self.driver.wait_set()
    }

    fn take_receive(&mut self) -> Option<Receive> {
        self.driver.take_receive()
    }

    fn return_receive(&mut self, receive: Receive) {
        self.driver.return_receive(receive);
    }

    fn is_settled(&self) -> bool {
        Engine::is_settled(self)
    }

    fn close(&mut self, reason: &str) {
        Engine::close(self, reason);
    }
}

/// The engine behind an endpoint and its handles.
#[derive(Clone)]
pub(super) enum Backend {
    /// The engine runs in this process.
    InProcess(Arc<Shared<Engine>>),
    /// The engine runs in the host daemon.
    Attached(Arc<Shared<Attachment>>),
}

impl Backend {
    /// Calls the engine and runs it once, so that what the call has caused leaves at once.
    pub(super) fn call<R>(&self, call: impl FnOnce(&mut dyn Operations) -> R) -> R {
        match self {
            Backend::InProcess(shared) => shared.call(|engine| call(engine)),
            Backend::Attached(shared) => shared.call(|engine| call(engine)),
        }
    }

    /// Calls the engine, and runs it once if the call has caused anything to be sent. The call
    /// changes no timer otherwise.
    pub(super) fn call_quietly<R>(&self, call: impl FnOnce(&mut dyn Operations) -> R) -> R {
        match self {
            Backend::InProcess(shared) => shared.call_quietly(|engine| call(engine)),
            Backend::Attached(shared) => shared.call_quietly(|engine| call(engine)),
        }
    }

    /// Looks at the engine.
    pub(super) fn look<R>(&self, call: impl FnOnce(&mut dyn Operations) -> R) -> R {
        match self {
            Backend::InProcess(shared) => shared.look(|engine| call(engine)),
            Backend::Attached(shared) => shared.look(|engine| call(engine)),
        }
    }

    /// Waits until `ready` returns something, at most until `until`.
    pub(super) fn wait<R>(
        &self,
        until: Option<StdInstant>,
        mut ready: impl FnMut(&mut dyn Operations) -> Option<R>,
    ) -> Option<R> {
        match self {
            Backend::InProcess(shared) => shared.wait(until, |engine| ready(engine)),
            Backend::Attached(shared) => shared.wait(until, |engine| ready(engine)),
        }
    }

    pub(super) fn begin_closing(&self) {
        match self {
            Backend::InProcess(shared) => shared.begin_closing(),
            Backend::Attached(shared) => shared.begin_closing(),
        }
    }

    pub(super) fn run_background(&self) {
        match self {
            Backend::InProcess(shared) => shared.run_background(),
            Backend::Attached(shared) => shared.run_background(),
        }
    }
}
