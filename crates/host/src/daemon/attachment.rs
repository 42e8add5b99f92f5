//! The client's end: an engine whose sockets, pull queue and pacing are the host daemon's.

use super::protocol::{CREDIT, Event, Request, SENDS_MAX};
use super::ring::{Broken, Header, PAYLOAD_MAX, Reader, Writer};
use super::{monotonic_nanos, ring_bell};
use crate::Clock;
use crate::driver::Traffic;
use crate::endpoint::engine::Reply;
use crate::endpoint::operations::{Arrival, Operations, taken_already};
use crate::endpoint::runner::{Run, WaitOn};
use crate::endpoint::{
    EndpointStats, Outcome, PingAnswer, ReceiveError, SendError, SendOptions, Service, Times,
};
use punctual_core::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant as StdInstant};

/// A message that is being sent.
#[derive(Debug)]
struct Sending {
    peer: SocketAddr,
    /// Bytes that are not in the ring yet, from `passed` on.
    bytes: Vec<u8>,
    passed: usize,
    len: usize,
    /// The position in the ring after its last byte, once that is there.
    end: Option<u64>,
    submitted_at: StdInstant,
    deadline: Option<Duration>,
    response: Option<Vec<u8>>,
    wants_response: bool,
    outcome: Option<Outcome>,
    waker: Option<Waker>,
    is_detached: bool,
}

/// A message that arrives.
#[derive(Debug, Default)]
struct Receiving {
    bytes: VecDeque<u8>,
    /// Bytes that the application has read and the daemon does not know of.
    unreported: u64,
    is_complete: bool,
    error: Option<ReceiveError>,
    waker: Option<Waker>,
}

/// A service for which this process listens.
#[derive(Debug, Default)]
struct Listening {
    is_ours: Option<bool>,
    arrivals: VecDeque<Arrival>,
    waker: Option<Waker>,
}

/// Why an attachment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The daemon closed the connection, or wrote something impossible.
    DaemonGone,
    /// The last handle was dropped.
    Dropped,
}

/// An attachment to a host daemon.
#[derive(Debug)]
pub(crate) struct Attachment {
    stream: Arc<UnixStream>,
    reader: Reader,
    writer: Writer,
    clock: Clock,
    sends: HashMap<u64, Sending>,
    next_token: u64,
    /// Frames that wait for room in the ring, before all bytes.
    frames: VecDeque<(Header, Vec<u8>)>,
    /// Sends with bytes that are not in the ring yet, in turn.
    unpassed: VecDeque<u64>,
    messages: HashMap<u64, Receiving>,
    services: HashMap<Service, Listening>,
    pongs: Vec<(u64, PingAnswer)>,
    stats: Option<EndpointStats>,
    send_memory: usize,
    send_memory_max: usize,
    /// Messages released since the daemon was last woken up.
    lazy_releases: u32,
    /// Whether the daemon has to look at the ring soon.
    is_urgent: bool,
    has_news: bool,
    end: Option<End>,
    payload: Vec<u8>,
}

/// Messages that are released without a wake-up of the daemon. Its next wake-up frees them.
const LAZY_RELEASES: u32 = 16;

impl Attachment {
    pub(super) fn new(
        stream: UnixStream,
        reader: Reader,
        writer: Writer,
        send_memory: u64,
    ) -> Self {
        Attachment {
            stream: Arc::new(stream),
            reader,
            writer,
            clock: Clock::start(),
            sends: HashMap::new(),
            next_token: 1,
            frames: VecDeque::new(),
            unpassed: VecDeque::new(),
            messages: HashMap::new(),
            services: HashMap::new(),
            pongs: Vec::new(),
            stats: None,
            send_memory: 0,
            send_memory_max: usize::try_from(send_memory).unwrap_or(usize::MAX),
            lazy_releases: 0,
            is_urgent: false,
            has_news: false,
            end: None,
            payload: Vec::new(),
        }
    }

    fn say(&mut self, request: Request) {
        self.say_with(request, Vec::new());
    }

    fn say_with(&mut self, request: Request, payload: Vec<u8>) {
        if self.end.is_none() {
            self.frames.push_back((request.to_words(), payload));
            self.is_urgent = true;
        }
    }

    /// Passes frames and bytes to the daemon, as far as there is room.
    fn pass(&mut self) -> Result<(), Broken> {
        loop {
            self.pass_some()?;
            if self.frames.is_empty() && self.unpassed.is_empty() {
                break;
            }
            self.writer.wait_for_room();
            // The daemon may have made room before it could see that this end waits.
            if self.writer.room()?.is_none_or(|room| room < PAYLOAD_MAX) {
                break;
            }
        }
        if std::mem::take(&mut self.is_urgent) {
            self.lazy_releases = 0;
            if self.writer.takes_wake_up() {
                ring_bell(&self.stream);
            }
        }
        Ok(())
    }

    fn pass_some(&mut self) -> Result<(), Broken> {
        while let Some((header, payload)) = self.frames.front() {
            if !self.writer.push(header, payload)? {
                return Ok(());
            }
            let (begun, len) = (Request::begun_by(header), payload.len());
            self.frames.pop_front();
            let sending = begun.and_then(|token| self.sends.get_mut(&token));
            if let Some(sending) = sending.filter(|sending| sending.len == len) {
                sending.end = Some(self.writer.position());
            }
        }
        while let Some(token) = self.unpassed.front().copied() {
            let Some(sending) = self.sends.get_mut(&token).filter(|s| s.outcome.is_none()) else {
                self.unpassed.pop_front();
                continue;
            };
            let Some(room) = self.writer.room()? else { return Ok(()) };
            let left = sending.bytes.len() - sending.passed;
            let part = left.min(PAYLOAD_MAX);
            if part > room {
                return Ok(());
            }
            let bytes = &sending.bytes[sending.passed..sending.passed + part];
            if !self.writer.push(&Request::Bytes { token }.to_words(), bytes)? {
                return Ok(());
            }
            self.is_urgent = true;
            sending.passed += part;
            self.unpassed.pop_front();
            if part < left {
                self.unpassed.push_back(token);
            } else {
                sending.bytes = Vec::new();
                sending.end = Some(self.writer.position());
            }
        }
        Ok(())
    }

    /// Takes what the daemon reports.
    fn take_events(&mut self) -> Result<(), Broken> {
        let mut payload = std::mem::take(&mut self.payload);
        let mut taken = 0;
        while let Some(words) = self.reader.pop(&mut payload)? {
            self.handle(Event::of(&words).ok_or(Broken)?, &payload)?;
            taken += 1;
        }
        self.payload = payload;
        if taken > 0 && self.reader.takes_wake_up() {
            ring_bell(&self.stream);
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, payload: &[u8]) -> Result<(), Broken> {
        self.has_news = true;
        match event {
            Event::Ended { token, ended } => {
                let Some(sending) = self.sends.get(&token) else { return Ok(()) };
                let outcome = ended.outcome(sending.peer, payload).ok_or(Broken)?;
                self.conclude(token, outcome);
            }
            Event::Response { token } => {
                if let Some(sending) = self.sends.get_mut(&token) {
                    sending.response.get_or_insert_default().extend_from_slice(payload);
                }
            }
            Event::Arrived { message, peer, len, deadline, is_request, service } => {
                let left = Duration::from_nanos(deadline.saturating_sub(monotonic_nanos()));
                let until = StdInstant::now().checked_add(left).filter(|_| deadline != 0);
                let request = is_request.then_some(0);
                let arrival = Arrival { id: message, peer, len, deadline: until, request };
                let Some(listening) = self.services.get_mut(&service) else { return Err(Broken) };
                listening.arrivals.push_back(arrival);
                if let Some(waker) = listening.waker.take() {
                    waker.wake();
                }
                self.messages.insert(message, Receiving::default());
            }
            Event::Bytes { message, is_end } => {
                if let Some(receiving) = self.messages.get_mut(&message) {
                    receiving.bytes.extend(payload);
                    receiving.is_complete = is_end;
                    if let Some(waker) = receiving.waker.take() {
                        waker.wake();
                    }
                }
            }
            Event::Failed { message, error } => {
                if let Some(receiving) = self.messages.get_mut(&message) {
                    receiving.error = Some(error);
                    if let Some(waker) = receiving.waker.take() {
                        waker.wake();
                    }
                }
            }
            Event::Listens { service, is_ours } => {
                let listening = self.services.entry(service).or_default();
                listening.is_ours = Some(is_ours);
                if let Some(waker) = listening.waker.take() {
                    waker.wake();
                }
            }
            Event::Pong { token, answer } => self.pongs.push((token, answer)),
            Event::Stats(values) => self.stats = Some(stats_of(values)),
        }
        Ok(())
    }

    fn conclude(&mut self, token: u64, outcome: Outcome) {
        let sending = self.sends.get_mut(&token).filter(|sending| sending.outcome.is_none());
        let Some(sending) = sending else { return };
        sending.outcome = Some(outcome);
        sending.bytes = Vec::new();
        self.send_memory -= sending.len;
        if let Some(waker) = sending.waker.take() {
            waker.wake();
        }
        if sending.is_detached {
            self.sends.remove(&token);
        }
    }

    /// Ends everything. What the daemon may have sent is unknown; what it never took was not sent.
    fn lose(&mut self, end: End) {
        if self.end.is_some() {
            return;
        }
        self.end = Some(end);
        self.has_news = true;
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let error = || match end {
            End::DaemonGone => SendError::DaemonGone,
            End::Dropped => SendError::Closed("its last handle was dropped".into()),
        };
        let open = self.sends.iter().filter(|(_, sending)| sending.outcome.is_none());
        let tokens: Vec<u64> = open.map(|(token, _)| *token).collect();
        for token in tokens {
            let Some(sending) = self.sends.get(&token) else { continue };
            let elapsed = sending.submitted_at.elapsed();
            let times = Times { elapsed, deadline: sending.deadline, retransmits: 0 };
            let is_taken = sending.end.is_some_and(|end| self.writer.is_taken(end));
            let outcome = match is_taken {
                true => Outcome::Unknown(error(), times),
                false => Outcome::Failed(error(), times),
            };
            self.conclude(token, outcome);
        }
        for receiving in self.messages.values_mut() {
            if !receiving.is_complete {
                receiving.error.get_or_insert(self.end.map_or(ReceiveError::Closed, receive_error));
            }
            if let Some(waker) = receiving.waker.take() {
                waker.wake();
            }
        }
        for waker in self.services.values_mut().filter_map(|listening| listening.waker.take()) {
            waker.wake();
        }
        self.frames.clear();
        self.unpassed.clear();
    }

    /// Has the daemon wake up this end, unless there is something already: then the next step is due
    /// at once.
    fn next_step(&self) -> Option<Instant> {
        let is_idle = self.end.is_some() || self.reader.sleep();
        is_idle.then_some(Instant::NEVER)
    }

    /// Takes wake-ups from the socket. Returns whether the daemon is still there.
    fn take_wake_ups(&self) -> bool {
        let mut bytes = [0; 256];
        loop {
            match recv(&*self.stream, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((count, _)) if count == bytes.len() => {}
                Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
    }
}

fn receive_error(end: End) -> ReceiveError {
    match end {
        End::DaemonGone => ReceiveError::DaemonGone,
        End::Dropped => ReceiveError::Closed,
    }
}

fn stats_of(values: [u64; 9]) -> EndpointStats {
    let [sent, received, dropped, errors, memory_in, memory_out, messages_in, messages_out, peers] =
        values;
    let dropped = [("dropped", dropped)].into_iter().filter(|(_, count)| *count > 0).collect();
    let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    EndpointStats {
        traffic: Traffic { sent, received, dropped, socket_errors: errors, trimmed_frames: 0 },
        peers: size(peers),
        receive_memory: size(memory_in),
        send_memory: size(memory_out),
        messages_in: size(messages_in),
        messages_out: size(messages_out),
        sources: 0,
    }
}

/// The connection to the daemon, while there is one.
#[derive(Debug)]
pub(crate) struct Connection(Option<Arc<UnixStream>>);

impl WaitOn for Connection {
    fn wait(&self, other: BorrowedFd<'_>, time: Duration) -> std::io::Result<bool> {
        let timeout =
            Timespec { tv_sec: time.as_secs() as _, tv_nsec: i64::from(time.subsec_nanos()) as _ };
        let other = PollFd::from_borrowed_fd(other, PollFlags::IN);
        let stream = self.0.as_deref().map(|stream| PollFd::new(stream, PollFlags::IN));
        let mut both = [other.clone(), stream.clone().unwrap_or(other)];
        let count = 1 + usize::from(stream.is_some());
        poll(&mut both[..count], Some(&timeout))?;
        Ok(both[0].revents().contains(PollFlags::IN))
    }
}

impl Run for Attachment {
    type Sockets = Connection;

    fn step(&mut self) -> Option<Instant> {
        if self.end.is_some() {
            return Some(Instant::NEVER);
        }
        let is_there = self.take_wake_ups();
        // What the daemon has reported before it ended is still valid.
        let ran = self.take_events().and_then(|()| match is_there {
            true => self.pass(),
            false => Err(Broken),
        });
        if ran.is_err() {
            self.lose(End::DaemonGone);
            return None;
        }
        self.next_step()
    }

    fn push(&mut self) -> Option<Instant> {
        if self.end.is_none() && self.pass().is_err() {
            self.lose(End::DaemonGone);
        }
        self.next_step()
    }

    fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn has_work(&self) -> bool {
        true
    }

    fn spins(&self) -> bool {
        false
    }

    fn wait_set(&self) -> Connection {
        Connection(self.end.is_none().then(|| self.stream.clone()))
    }

    /// Sends go on in the daemon once it has all their bytes.
    fn is_settled(&self) -> bool {
        self.frames.is_empty() && self.unpassed.is_empty()
    }

    fn close(&mut self, _reason: &str) {
        self.say(Request::Goodbye);
        let _ = self.pass();
        self.lose(End::Dropped);
    }
}

impl Operations for Attachment {
    fn submit(
        &mut self,
        peer: SocketAddr,
        bytes: Vec<u8>,
        reply: Reply,
        options: &SendOptions,
    ) -> Result<u64, SendError> {
        match self.end {
            Some(End::DaemonGone) => return Err(SendError::DaemonGone),
            Some(End::Dropped) => return Err(SendError::Closed("its last handle".into())),
            None => {}
        }
        if options.deadline.is_some_and(|deadline| deadline.is_zero()) {
            return Err(SendError::DeadlinePast);
        }
        let total = self.send_memory.saturating_add(bytes.len());
        if total > self.send_memory_max || self.sends.len() >= SENDS_MAX {
            return Err(SendError::SendMemoryFull { waiting: self.send_memory });
        }
        self.send_memory = total;
        let token = self.next_token;
        self.next_token += 1;
        let (len, at) = (bytes.len(), monotonic_nanos());
        let mut sending = Sending {
            peer,
            bytes: Vec::new(),
            passed: 0,
            len,
            end: None,
            submitted_at: StdInstant::now(),
            deadline: options.deadline,
            response: None,
            wants_response: matches!(reply, Reply::Wanted),
            outcome: None,
            waker: None,
            is_detached: false,
        };
        let request = match reply {
            Reply::To { inbound, .. } => {
                let deadline = options.deadline;
                Request::Respond { token, message: inbound, len: len as u64, at, deadline }
            }
            Reply::None | Reply::Wanted => {
                let wants_response = sending.wants_response;
                let options = *options;
                Request::Submit { token, peer, len: len as u64, at, wants_response, options }
            }
        };
        if len <= PAYLOAD_MAX {
            self.sends.insert(token, sending);
            self.say_with(request, bytes);
        } else {
            sending.bytes = bytes;
            self.sends.insert(token, sending);
            self.say(request);
            self.unpassed.push_back(token);
        }
        Ok(token)
    }

    fn take_outcome(&mut self, id: u64) -> Option<(Outcome, Option<Vec<u8>>)> {
        let Some(sending) = self.sends.get_mut(&id) else { return Some(taken_already()) };
        let outcome = sending.outcome.take()?;
        let has_response = sending.wants_response && outcome.is_delivered();
        let response = has_response.then(|| sending.response.take().unwrap_or_default());
        self.sends.remove(&id);
        Some((outcome, response))
    }

    fn watch_outcome(&mut self, id: u64, waker: &Waker) {
        if let Some(sending) = self.sends.get_mut(&id) {
            sending.waker = Some(waker.clone());
        }
    }

    fn cancel(&mut self, id: u64) {
        if self.sends.get(&id).is_some_and(|sending| sending.outcome.is_none()) {
            // Its remaining bytes are not needed.
            self.unpassed.retain(|token| *token != id);
            self.say(Request::Cancel { token: id });
        }
    }

    fn set_deadline(&mut self, id: u64, deadline: Option<Duration>) {
        if let Some(sending) = self.sends.get_mut(&id).filter(|s| s.outcome.is_none()) {
            sending.deadline = deadline;
            self.say(Request::SetDeadline { token: id, deadline });
        }
    }

    fn detach(&mut self, id: u64) {
        let Some(sending) = self.sends.get_mut(&id) else { return };
        sending.is_detached = true;
        if sending.outcome.is_some() {
            self.sends.remove(&id);
        }
    }

    fn listen(&mut self, service: Service) {
        let is_ours = self.services.get(&service).and_then(|listening| listening.is_ours);
        if is_ours != Some(true) {
            self.services.entry(service).or_default().is_ours = None;
            self.say(Request::Listen { service });
        }
    }

    fn listens(&mut self, service: Service) -> Option<Result<(), ReceiveError>> {
        if let Some(end) = self.end {
            return Some(Err(receive_error(end)));
        }
        let is_ours = self.services.get(&service)?.is_ours?;
        Some(if is_ours { Ok(()) } else { Err(ReceiveError::ServiceTaken) })
    }

    fn take_arrival(&mut self, service: Service) -> Option<Result<Arrival, ReceiveError>> {
        let listening = self.services.get_mut(&service);
        if let Some(arrival) = listening.and_then(|listening| listening.arrivals.pop_front()) {
            return Some(Ok(arrival));
        }
        self.listens(service)?.err().map(Err)
    }

    fn watch_arrivals(&mut self, service: Service, waker: &Waker) {
        self.services.entry(service).or_default().waker = Some(waker.clone());
    }

    fn read(&mut self, id: u64, into: &mut [u8]) -> Option<Result<usize, ReceiveError>> {
        let Some(receiving) = self.messages.get_mut(&id) else {
            return Some(Err(ReceiveError::Closed));
        };
        let count = into.len().min(receiving.bytes.len());
        if count == 0 {
            if into.is_empty() || receiving.is_complete && receiving.bytes.is_empty() {
                return Some(Ok(0));
            }
            return receiving.error.map(Err);
        }
        let (first, second) = receiving.bytes.as_slices();
        let part = count.min(first.len());
        into[..part].copy_from_slice(&first[..part]);
        into[part..count].copy_from_slice(&second[..count - part]);
        receiving.bytes.drain(..count);
        receiving.unreported += count as u64;
        if !receiving.is_complete && receiving.unreported >= CREDIT / 4 {
            let bytes = std::mem::take(&mut receiving.unreported);
            self.say(Request::Read { message: id, bytes });
            // A waiting thread that takes bytes does not run the engine afterwards.
            self.push();
        }
        Some(Ok(count))
    }

    fn watch_bytes(&mut self, id: u64, waker: &Waker) {
        if let Some(receiving) = self.messages.get_mut(&id) {
            receiving.waker = Some(waker.clone());
        }
    }

    fn release(&mut self, id: u64) {
        let Some(receiving) = self.messages.remove(&id) else { return };
        self.lazy_releases += 1;
        let is_urgent = self.is_urgent;
        self.say(Request::Release { message: id });
        self.is_urgent = is_urgent || !receiving.is_complete || self.lazy_releases > LAZY_RELEASES;
    }

    fn send_ping(&mut self, peer: SocketAddr) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        self.say(Request::Ping { token, peer });
        token
    }

    fn take_pong(&mut self, _peer: SocketAddr, number: u64) -> Option<PingAnswer> {
        let at = self.pongs.iter().position(|pong| pong.0 == number)?;
        Some(self.pongs.swap_remove(at).1)
    }

    fn ask_stats(&mut self) {
        self.stats = self.end.map(|_| EndpointStats::default());
        self.say(Request::Stats);
    }

    fn take_stats(&mut self) -> Option<EndpointStats> {
        if self.end.is_some() {
            return Some(EndpointStats::default());
        }
        self.stats.take()
    }
}
