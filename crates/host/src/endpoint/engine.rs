//! The engine: the driver and the messages, in one place.

use super::format::{Control, Prologue, Purpose, key_bytes};
use super::options::{EndpointOptions, HostTransport, Outcome, SendError, SendOptions};
use super::state::{Action, State, from_core, new_outbound, to_core};
use crate::driver::{Cause, Driver, DriverError, DriverOptions, FlowRequest, Traffic};
use crate::packet_socket::PacketSocket;
use crate::seal::random_bytes;
use crate::{HostError, LinkOptions, bind_to};
use punctual_core::{Bytes, Class, Duration, Instant};
use punctual_transports::AnyTransport;
use punctual_transports::ndp::NdpConfig;
use punctual_wire::TrimMark;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The driver and the messages of an endpoint.
pub(crate) struct Engine {
    pub(super) driver: Driver<AnyTransport>,
    pub(super) state: State,
    /// When to look for silent peers and late messages.
    next_sweep: Instant,
    /// When the next round is due.
    due_at: Instant,
    /// Why the engine stopped.
    pub(super) closed: Option<String>,
}

/// Whether a message is a request or a response.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    None,
    Wanted,
    To { request: u64, request_bytes: u64, inbound: u64 },
}

/// How often the engine looks for silent peers. A timer that is further away than the next tick of
/// the kernel costs less.
const SWEEP: Duration = Duration::from_millis(50);
/// How often it looks while messages are given up when late, are cancelled or wait for a proof.
const SWEEP_SOON: Duration = Duration::from_millis(5);
/// How often a peer is asked again to discard a message or to prove its address.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// How long a cancelled message waits for the peer's answer.
const CANCEL_WAIT: Duration = Duration::from_millis(500);
/// How long a peer that is reported to be unreachable may be silent: a process may be starting there.
const UNREACHABLE_WAIT: Duration = Duration::from_secs(1);
/// A round that is as late as this was not late by chance: the process did not run.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest time between two rounds: no thread that runs the engine sleeps for longer.
const ROUND_MAX: Duration = Duration::from_secs(super::runner::SLEEP_MAX.as_secs());
/// How long a completed flow answers late packets.
const TIME_WAIT: Duration = Duration::from_millis(50);
/// How long a request waits for its response, by default.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// An incarnation that earlier processes at the same address did not have within the last ten
/// minutes: the time in units of 10 ms, and a count of the endpoints of this process.
fn new_incarnation() -> u16 {
    static OPENED: AtomicU16 = AtomicU16::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ticks = (since.as_millis() / 10) as u16;
    // 0 means unknown.
    ticks.wrapping_add(OPENED.fetch_add(1, Ordering::Relaxed)).max(1)
}

impl Engine {
    pub(crate) fn new(
        socket: UdpSocket,
        local: SocketAddr,
        options: EndpointOptions,
    ) -> Result<Self, HostError> {
        options.check()?;
        let link = LinkOptions {
            rate: options.rate,
            mtu: options.mtu,
            silence: to_core(options.silence),
            ndp: options.ndp.clone(),
            ..LinkOptions::default()
        };
        let defaults = link.driver(local.is_ipv6())?;
        let tags = Bytes::new(key_bytes(options.key.as_ref()));
        let driver_options = DriverOptions {
            time_wait: TIME_WAIT,
            flows_max: 1 << 16,
            mtu: defaults.mtu.saturating_sub(tags),
            framing: defaults.framing + tags,
            ..defaults
        };
        // More than a buffer holds must not be under way, or packets arrive that have no room.
        let buffer_packets = options.stream_buffer as u64 / driver_options.mtu.get().max(1);
        let window_max = u32::try_from(buffer_packets * 3 / 4).unwrap_or(u32::MAX);
        let window_max = window_max.max(options.ndp.initial_window);
        let ndp = NdpConfig {
            receive_memory: Some(Bytes::new(options.stream_buffer as u64)),
            path_window: options.ndp.path_window.map(|window| window.min(window_max)),
            ..options.ndp.clone()
        };
        let mut sockets = vec![(socket, None)];
        for nic in &options.nics {
            let address = SocketAddr::new(nic.address, local.port());
            let opened = bind_to(address, nic.interface.as_deref())
                // Another program may use the port at this address.
                .or_else(|_| bind_to(SocketAddr::new(nic.address, 0), nic.interface.as_deref()));
            let socket = opened.map_err(|e| HostError::socket(address, e))?;
            sockets.push((socket, nic.interface.clone()));
        }
        let source_ports = options.source_ports;
        let transports = HostTransport::ALL.map(|transport| transport.configured(&ndp, &options));
        let mut driver = Driver::with_nics(&transports, sockets, source_ports, driver_options)
            .map_err(|source| match source {
                DriverError::SmallMtu { transport, missing } => {
                    let mtu = options.mtu;
                    HostError::SmallMtu { mtu, least: mtu + missing, transport }
                }
                source => HostError::Socket { address: local, source },
            })?;
        let incarnation = new_incarnation();
        driver.identify(incarnation, options.key.clone());
        driver.set_spins(options.spin);
        if let Some(trims) = &options.trims {
            let mark = TrimMark { dscp: trims.dscp };
            let open = |name: &String| PacketSocket::open_trims(name, local.port(), mark);
            let frames: Result<Vec<_>, _> = trims.interfaces.iter().map(open).collect();
            driver.receive_trimmed(frames?).map_err(|e| HostError::socket(local, e))?;
        }
        let state = State::new(options, incarnation, random_bytes());
        let (next_sweep, due_at) = (Instant::ZERO, Instant::NEVER);
        Ok(Engine { driver, state, next_sweep, due_at, closed: None })
    }

    pub(super) fn now(&mut self) -> Instant {
        self.state.now = self.state.now.max(self.driver.now());
        self.state.now
    }

    pub(super) fn traffic(&self) -> &Traffic {
        self.driver.traffic()
    }

    /// Runs one round without waiting. Returns when the next one is due; `None` if at once.
    pub(super) fn step(&mut self) -> Option<Instant> {
        self.run(true)
    }

    /// Sends what is due, without looking for datagrams. Returns when the next round is due.
    pub(super) fn push(&mut self) -> Option<Instant> {
        self.run(false)
    }

    /// Whether packets or actions wait for the next round.
    pub(super) fn has_work(&self) -> bool {
        !self.state.actions.is_empty()
            || !self.state.controls.is_empty()
            || self.driver.has_packets()
    }

    fn run(&mut self, receives: bool) -> Option<Instant> {
        if self.closed.is_some() {
            return Some(Instant::NEVER);
        }
        // The driver's own time stays behind until it has called what was due.
        let now = self.driver.clock().now();
        self.state.now = self.state.now.max(now);
        if now >= self.due_at.saturating_add(PAUSE_MIN) {
            self.driver.note_pause(self.due_at, now);
        }
        let mut wake = self.run_round(now, receives);
        let mut latest = now.saturating_add(ROUND_MAX);
        if self.driver.open_flows() > 0 {
            // A pause shows only in rounds that are late, so they are closer than the silence that
            // they are to be told from.
            let often = to_core(self.state.options.silence / 4);
            latest = latest.min(now.saturating_add(often));
            wake = wake.map(|wake| wake.min(latest));
        }
        self.due_at = wake.unwrap_or(now).min(latest);
        wake
    }

    fn run_round(&mut self, now: Instant, receives: bool) -> Option<Instant> {
        let ran = match receives {
            true => self.driver.step(&mut self.state),
            false => self.driver.push(&mut self.state),
        };
        let mut wake = match ran {
            Ok(wake) => wake,
            Err(error) => {
                self.close(&error.to_string());
                return None;
            }
        };
        for (peer, answer) in self.driver.take_versions_heard() {
            self.state.pings.refuse(peer, answer.flow, answer.version);
            self.state.has_news = true;
        }
        for error in self.driver.take_peer_errors() {
            self.state.note_error(&error);
        }
        if self.act() {
            // What the actions caused leaves at once.
            wake = self.driver.push(&mut self.state).unwrap_or(None);
        }
        let has_sends = !self.state.outbound.is_empty();
        if receives && has_sends && now >= self.next_sweep {
            self.next_sweep = now.saturating_add(SWEEP);
            if self.sweep() {
                self.next_sweep = now.saturating_add(SWEEP_SOON);
            }
            self.act();
            wake = None;
        }
        wake.map(|wake| if has_sends { wake.min(self.next_sweep.max(now)) } else { wake })
    }

    /// Does what the state asks for. Returns whether there was anything.
    fn act(&mut self) -> bool {
        let mut any = false;
        for _ in 0..4 {
            for (peer, bytes) in std::mem::take(&mut self.state.controls) {
                any = true;
                self.driver.send_control(peer, bytes);
            }
            let actions = std::mem::take(&mut self.state.actions);
            any |= !actions.is_empty();
            for action in actions {
                match action {
                    Action::Close(flow) => self.driver.close(flow),
                    Action::Discard(flow) => self.driver.discard_answer(flow),
                    Action::Heard(flow) => self.driver.note_heard(flow),
                    Action::Launch(peer) => self.launch(peer),
                    Action::Cancel(id) => self.cancel(id),
                    Action::Resume(flow) => {
                        if let Err(error) = self.driver.resume(flow, &mut self.state) {
                            self.close(&error.to_string());
                        }
                    }
                }
            }
            if self.state.actions.is_empty() && self.state.controls.is_empty() {
                break;
            }
        }
        any
    }

    /// Opens flows for the messages that wait for this peer.
    fn launch(&mut self, address: SocketAddr) {
        let flows_max = self.state.options.flows_per_peer;
        loop {
            let Some(peer) = self.state.peers.get_mut(&address) else { return };
            let is_proven = peer.is_proven;
            let Some(id) = peer.queue.front().copied() else { return };
            let Some(outbound) = self.state.outbound.get_mut(&id) else {
                peer.queue.pop_front();
                continue;
            };
            if outbound.needs_proof && !is_proven {
                // The sweep asks for the proof.
                return;
            }
            let Some(number) = peer.take_number(flows_max) else { return };
            peer.queue.pop_front();
            outbound.number = Some(number);
            // A flow that is sent again confirms the same response.
            if outbound.prologue.confirms.is_none() {
                outbound.prologue.confirms = self.driver.take_answer(address);
            }
            self.state.write_prologue(id);
            let Some(outbound) = self.state.outbound.get(&id) else { continue };
            let request = FlowRequest {
                peer: address,
                size: Bytes::new(outbound.bytes.len() as u64 + Prologue::BYTES as u64),
                deadline: outbound.deadline,
                class: outbound.class,
                number: Some(number.1),
                transport: outbound.transport.place(),
            };
            match self.driver.open_flow(&request, &mut self.state) {
                Ok(flow) => {
                    self.state.note_open(id, flow);
                    if !self.driver.is_open(flow) {
                        // Its transport has abandoned it at once.
                        self.state.actions.push(Action::Cancel(id));
                    }
                }
                Err(error) => return self.close(&error.to_string()),
            }
        }
    }

    /// Ends sends whose peers are silent, whose deadline passed or whose response does not come.
    /// Returns whether any needs another look soon.
    fn sweep(&mut self) -> bool {
        let now = self.now();
        let mut is_urgent = false;
        let silence = to_core(self.state.options.silence);
        let ids: Vec<u64> = self.state.outbound.keys().copied().collect();
        for id in ids {
            let Some(outbound) = self.state.outbound.get_mut(&id) else { continue };
            if outbound.outcome.is_some() {
                continue;
            }
            let peer = outbound.peer;
            if let Some(heard_at) = outbound.flow.and_then(|flow| self.driver.heard_at(flow)) {
                outbound.heard_at = heard_at;
            }
            let lacks_proof = outbound.needs_proof && outbound.flow.is_none();
            is_urgent |= lacks_proof || outbound.gives_up_late || outbound.cancelled_at.is_some();
            if lacks_proof && !outbound.is_acknowledged && now >= outbound.asked_at {
                outbound.asked_at = now.saturating_add(ASK_AGAIN);
                self.state.ask_for_proof(peer, 0);
                self.state.actions.push(Action::Launch(peer));
            }
            self.sweep_one(id, now, silence);
        }
        is_urgent
    }

    fn sweep_one(&mut self, id: u64, now: Instant, silence: Duration) {
        let Some(outbound) = self.state.outbound.get_mut(&id) else { return };
        let peer = outbound.peer;
        let is_late = outbound.deadline.is_some_and(|deadline| now > deadline);
        if outbound.gives_up_late && is_late && outbound.cancelled_at.is_none() {
            return self.cancel(id);
        }
        if is_late
            && !std::mem::replace(&mut outbound.is_late, true)
            && let Some(flow) = outbound.flow
        {
            // It must not delay messages that can still be on time.
            if let Err(error) = self.driver.set_deadline(flow, None, &mut self.state) {
                return self.close(&error.to_string());
            }
        }
        let Some(outbound) = self.state.outbound.get_mut(&id) else { return };
        if let Some(cancelled_at) = outbound.cancelled_at {
            if now >= cancelled_at.saturating_add(CANCEL_WAIT) {
                let waited = from_core(CANCEL_WAIT);
                let error = SendError::PeerSilent { peer, waited, last_error: None };
                return self.state.lose(id, error, false);
            }
            if now >= outbound.asked_at {
                outbound.asked_at = now.saturating_add(ASK_AGAIN);
                if let Some((_, number)) = outbound.number {
                    self.state.control(peer, number, Control::Cancel);
                }
            }
            return;
        }
        if outbound.is_acknowledged {
            if now >= outbound.patient_until {
                let waited = from_core(now.saturating_since(outbound.submitted_at));
                let error = SendError::NoResponse { peer, waited };
                self.state.conclude(id, |times| Outcome::Unknown(error, times));
            }
            return;
        }
        if let Some((since, cause)) = &outbound.unreachable {
            if outbound.heard_at > *since {
                // It is alive: the report was old, forged, or about a path that is not used now.
                outbound.unreachable = None;
            } else if now >= self.driver.silent_at(*since, UNREACHABLE_WAIT) {
                let cause = cause.clone();
                return self.state.lose_unreachable(id, peer, cause);
            }
        }
        let is_waiting = outbound.flow.is_none() && !outbound.needs_proof;
        if !is_waiting && now >= self.driver.silent_at(outbound.heard_at, silence) {
            let waited = from_core(silence);
            let last_error = match outbound.unreachable.take() {
                Some((_, Cause::Undelivered(error))) => Some(error),
                _ => None,
            };
            self.state.lose(id, SendError::PeerSilent { peer, waited, last_error }, false);
        }
    }

    /// Abandons a send. The peer is asked to discard it, and its answer decides the outcome.
    pub(super) fn cancel(&mut self, id: u64) {
        let now = self.now();
        let Some(outbound) = self.state.outbound.get_mut(&id) else { return };
        if outbound.outcome.is_some() || outbound.cancelled_at.is_some() {
            return;
        }
        let (peer, number) = (outbound.peer, outbound.number);
        if outbound.is_acknowledged {
            // A request that the peer has: only its response is given up.
            self.state.conclude(id, |times| {
                let waited = times.elapsed;
                Outcome::Unknown(SendError::NoResponse { peer, waited }, times)
            });
        } else if let Some((_, number)) = number {
            outbound.cancelled_at = Some(now);
            self.next_sweep = self.next_sweep.min(now.saturating_add(SWEEP_SOON));
            outbound.asked_at = now.saturating_add(ASK_AGAIN);
            if let Some(flow) = outbound.flow {
                self.driver.close(flow);
            }
            self.state.control(peer, number, Control::Cancel);
        } else {
            self.state.conclude(id, Outcome::GivenUp);
        }
        self.act();
    }

    /// Changes the deadline of a send, counted from its submission.
    pub(super) fn set_deadline(&mut self, id: u64, deadline: Option<std::time::Duration>) {
        self.now();
        let Some(outbound) = self.state.outbound.get_mut(&id) else { return };
        outbound.deadline = deadline.map(|d| outbound.submitted_at.saturating_add(to_core(d)));
        outbound.is_late = false;
        let (flow, at) = (outbound.flow, outbound.deadline);
        if let Some(flow) = flow
            && let Err(error) = self.driver.set_deadline(flow, at, &mut self.state)
        {
            self.close(&error.to_string());
        }
    }

    /// Takes a message to send. Returns its id.
    pub(super) fn submit(
        &mut self,
        peer: SocketAddr,
        bytes: Vec<u8>,
        reply: Reply,
        options: &SendOptions,
    ) -> Result<u64, SendError> {
        let now = self.now();
        if let Some(reason) = &self.closed {
            return Err(SendError::Closed(reason.clone()));
        }
        if options.deadline.is_some_and(|deadline| deadline.is_zero()) {
            return Err(SendError::DeadlinePast);
        }
        let waiting = self.state.send_memory;
        if waiting + bytes.len() > self.state.options.send_memory && waiting > 0 {
            return Err(SendError::SendMemoryFull { waiting });
        }
        let mut transport = options.transport;
        let (purpose, id, needs_proof) = match reply {
            Reply::None => (Purpose::Message, 0, false),
            Reply::Wanted => (Purpose::Request, 0, false),
            Reply::To { request, request_bytes, inbound } => {
                if let Some(inbound) = self.state.inbound.get(&inbound) {
                    transport = inbound.transport;
                    self.state.actions.extend(inbound.done_flow.map(Action::Discard));
                }
                // An unproven address gets no more than three times what came from it.
                let is_large = bytes.len() as u64 > 3 * request_bytes;
                let is_proven = self.state.peers.get(&peer).is_some_and(|peer| peer.is_proven);
                (Purpose::Response, request, is_large && !is_proven)
            }
        };
        let service = options.service.get();
        let prologue =
            Prologue { purpose, to_incarnation: None, deadline_us: 0, id, service, confirms: None };
        let mut outbound = new_outbound(peer, bytes, prologue, class_of(options), now);
        outbound.deadline = options.deadline.map(|d| now.saturating_add(to_core(d)));
        outbound.gives_up_late = options.give_up_late;
        outbound.transport = transport;
        outbound.needs_proof = needs_proof;
        outbound.owner = self.state.services.acting;
        if needs_proof {
            // The sweep asks for the proof.
            self.next_sweep = now;
        } else if options.give_up_late {
            self.next_sweep = self.next_sweep.min(now.saturating_add(SWEEP_SOON));
        }
        let patience = options.patience.unwrap_or(PATIENCE);
        outbound.patient_until = now.saturating_add(to_core(patience));
        let id = self.state.add_outbound(outbound);
        self.act();
        Ok(id)
    }

    /// Reads bytes of a message, in order. `None` if none are there yet.
    pub(super) fn read(
        &mut self,
        id: u64,
        into: &mut [u8],
    ) -> Option<Result<usize, super::ReceiveError>> {
        let Some(inbound) = self.state.inbound.get_mut(&id) else {
            return Some(Err(super::ReceiveError::Closed));
        };
        let count = inbound.take(into);
        if count == 0 {
            if inbound.is_at_end() || into.is_empty() {
                return Some(Ok(0));
            }
            return inbound.error.map(Err);
        }
        if let Some(flow) = inbound.flow
            && let Err(error) = self.driver.resume(flow, &mut self.state)
        {
            self.close(&error.to_string());
        }
        Some(Ok(count))
    }

    /// Whether every send has ended.
    pub(super) fn is_settled(&self) -> bool {
        self.driver.is_idle() && self.state.outbound.values().all(|o| o.outcome.is_some())
    }

    /// Ends everything and frees the port.
    pub(super) fn close(&mut self, reason: &str) {
        if self.closed.is_some() {
            return;
        }
        self.closed = Some(reason.into());
        self.driver.close_sockets();
        let ids: Vec<u64> = self.state.outbound.keys().copied().collect();
        for id in ids {
            self.state.lose(id, SendError::Closed(reason.into()), false);
        }
        for inbound in self.state.inbound.values_mut() {
            if !inbound.is_complete {
                inbound.error.get_or_insert(super::ReceiveError::Closed);
            }
            if let Some(waker) = inbound.waker.take() {
                waker.wake();
            }
        }
        self.state.services.wake_all();
        self.state.has_news = true;
    }
}

/// The service class of a message: by its priority, or by the time that its deadline leaves.
fn class_of(options: &SendOptions) -> Class {
    let by_deadline = match options.deadline {
        None => 3,
        Some(left) if left < std::time::Duration::from_millis(1) => 0,
        Some(left) if left < std::time::Duration::from_millis(10) => 1,
        Some(_) => 2,
    };
    Class(1 + options.priority.unwrap_or(by_deadline).min(6))
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests;
