//! What the daemon keeps for one client.
//!
//! Everything a client asks for is checked against its limits. What the daemon has to report waits
//! in a queue that is bounded by those limits too: a client that does not read delays nobody else.

use super::monotonic_nanos;
use super::protocol::{CREDIT, Ended, Event, Request, SENDS_MAX};
use super::ring::{Broken, Header, PAYLOAD_MAX, Reader, Writer};
use super::ring_bell;
use crate::endpoint::engine::{Engine, Reply};
use crate::endpoint::operations::{Arrival, Operations};
use crate::endpoint::{Outcome, Owner, SendError, SendOptions, Service, Times};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

/// Something that the engine has for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    Outcome { owner: Owner, token: u64 },
    Bytes { owner: Owner, message: u64 },
    Arrivals { owner: Owner, service: Service },
}

impl News {
    pub(super) fn owner(self) -> Owner {
        let (News::Outcome { owner, .. }
        | News::Bytes { owner, .. }
        | News::Arrivals { owner, .. }) = self;
        owner
    }
}

/// News of the engine that no client has yet.
pub(super) type Board = Arc<Mutex<Vec<News>>>;

/// A waker that puts news on the board.
struct Note {
    board: Board,
    news: News,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.board.lock().unwrap_or_else(PoisonError::into_inner).push(self.news);
    }
}

/// A message that a client sends.
#[derive(Debug)]
struct Sending {
    /// The bytes that have arrived from the client, until the engine has them.
    bytes: Vec<u8>,
    len: usize,
    peer: SocketAddr,
    reply: Reply,
    options: SendOptions,
    /// When the application asked for it, in nanoseconds of the monotonic clock.
    at: u64,
    /// Its id in the engine, and its age when the engine got it.
    submitted: Option<(u64, Duration)>,
}

/// A message that a client receives.
#[derive(Debug)]
struct Receiving {
    peer: SocketAddr,
    len: u64,
    request: Option<u64>,
    /// Bytes passed to the client, and those that its application has read.
    passed: u64,
    read: u64,
    is_ended: bool,
    is_queued: bool,
}

/// Something to report to the client.
#[derive(Debug)]
enum Item {
    Frame(Header),
    Outcome(u64),
    Bytes(u64),
    Arrivals(Service),
    /// An outcome, and the bytes of the response that are not in the ring yet.
    Ending {
        token: u64,
        ended: Ended,
        text: String,
        response: Vec<u8>,
        passed: usize,
    },
}

/// Limits of one client.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionLimits {
    pub(super) send_memory: usize,
    pub(super) services: usize,
}

/// Counts of what clients did, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SessionCounts {
    pub(super) sends: u64,
    pub(super) sent_bytes: u64,
    pub(super) outcomes: [u64; 6],
    pub(super) messages: u64,
    pub(super) received_bytes: u64,
    pub(super) refused_claims: u64,
}

impl SessionCounts {
    pub(super) fn add(&mut self, other: &SessionCounts) {
        self.sends += other.sends;
        self.sent_bytes += other.sent_bytes;
        for (sum, count) in self.outcomes.iter_mut().zip(other.outcomes) {
            *sum += count;
        }
        self.messages += other.messages;
        self.received_bytes += other.received_bytes;
        self.refused_claims += other.refused_claims;
    }
}

/// How a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// The client said goodbye.
    Goodbye,
    /// The client broke the protocol.
    Violation,
}

impl From<Broken> for SessionEnd {
    fn from(_: Broken) -> Self {
        SessionEnd::Violation
    }
}

/// A client.
#[derive(Debug)]
pub(super) struct Session {
    owner: Owner,
    stream: UnixStream,
    pub(super) process: Option<u32>,
    reader: Reader,
    writer: Writer,
    limits: SessionLimits,
    board: Board,
    sends: HashMap<u64, Sending>,
    messages: HashMap<u64, Receiving>,
    services: Vec<Service>,
    pings: Vec<(SocketAddr, u64, u64)>,
    queue: VecDeque<Item>,
    /// Bytes of messages that the client sends.
    pub(super) send_memory: usize,
    /// Whether new sends are refused.
    pub(super) is_stopping: bool,
    /// Whether frames were written that the client does not know of.
    has_written: bool,
    pub(super) counts: SessionCounts,
    payload: Vec<u8>,
    buffer: Vec<u8>,
}

/// Most frames of one client that are handled before the next client has its turn.
const FRAMES_A_ROUND: usize = 64;
/// Bytes of one client that are taken before the next client, and the pacer, have their turn.
const BYTES_A_ROUND: usize = 128 << 10;
/// A client with this many reports waiting is not heard.
const QUEUE_MAX: usize = 2 * SENDS_MAX;
/// Most pings of one client at once.
const PINGS_MAX: usize = 64;

impl Session {
    pub(super) fn new(
        owner: Owner,
        stream: UnixStream,
        reader: Reader,
        writer: Writer,
        limits: SessionLimits,
        board: Board,
    ) -> Self {
        let process = rustix::net::sockopt::socket_peercred(&stream)
            .ok()
            .and_then(|credentials| u32::try_from(credentials.pid.as_raw_nonzero().get()).ok());
        Session {
            owner,
            stream,
            process,
            reader,
            writer,
            limits,
            board,
            sends: HashMap::new(),
            messages: HashMap::new(),
            services: Vec::new(),
            pings: Vec::new(),
            queue: VecDeque::new(),
            send_memory: 0,
            is_stopping: false,
            has_written: false,
            counts: SessionCounts::default(),
            payload: Vec::new(),
            buffer: vec![0; PAYLOAD_MAX],
        }
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Messages that the client sends, and messages that it receives.
    pub(super) fn messages(&self) -> (usize, usize) {
        (self.sends.len(), self.messages.len())
    }

    fn waker(&self, news: News) -> Waker {
        Waker::from(Arc::new(Note { board: self.board.clone(), news }))
    }

    /// Whether the client has nothing to say and is to wake up the daemon when it has.
    pub(super) fn sleep(&self) -> bool {
        self.reader.sleep() || self.queue.len() >= QUEUE_MAX
    }

    /// Notes that the daemon is awake.
    pub(super) fn wake(&self) {
        self.reader.wake();
    }

    /// Does what the client asks for. Returns whether there was anything.
    pub(super) fn hear(&mut self, engine: &mut Engine) -> Result<bool, SessionEnd> {
        let mut payload = std::mem::take(&mut self.payload);
        let (mut heard, mut bytes) = (0, 0);
        while heard < FRAMES_A_ROUND && bytes < BYTES_A_ROUND && self.queue.len() < QUEUE_MAX {
            let Some(words) = self.reader.pop(&mut payload)? else { break };
            heard += 1;
            bytes += payload.len();
            let request = Request::of(&words).ok_or(SessionEnd::Violation)?;
            self.handle(request, &payload, engine)?;
        }
        self.payload = payload;
        if heard > 0 && self.reader.takes_wake_up() {
            ring_bell(&self.stream);
        }
        Ok(heard > 0)
    }

    fn handle(
        &mut self,
        request: Request,
        payload: &[u8],
        engine: &mut Engine,
    ) -> Result<(), SessionEnd> {
        match request {
            Request::Submit { token, peer, len, at, wants_response, options } => {
                let reply = if wants_response { Reply::Wanted } else { Reply::None };
                self.begin(token, (peer, reply, options), (len, at), payload, engine)?;
            }
            Request::Respond { token, message, len, at, deadline } => {
                let Some(receiving) = self.messages.get(&message) else {
                    return Err(SessionEnd::Violation);
                };
                let request = receiving.request.ok_or(SessionEnd::Violation)?;
                let request_bytes = receiving.len;
                let reply = Reply::To { request, request_bytes, inbound: message };
                let options = SendOptions { deadline, ..SendOptions::default() };
                self.begin(token, (receiving.peer, reply, options), (len, at), payload, engine)?;
            }
            Request::Bytes { token } => self.append(token, payload, engine)?,
            Request::Cancel { token } => match self.sends.get(&token).map(|s| s.submitted) {
                Some(Some((id, _))) => engine.cancel(id),
                Some(None) => self.end(token, Outcome::GivenUp),
                None => {}
            },
            Request::SetDeadline { token, deadline } => {
                let Some(sending) = self.sends.get_mut(&token) else { return Ok(()) };
                sending.options.deadline = deadline;
                if let Some((id, age)) = sending.submitted {
                    Operations::set_deadline(engine, id, deadline.map(|d| left_after(d, age)));
                }
            }
            Request::Listen { service } => {
                let is_new = !self.services.contains(&service);
                let is_ours = !self.is_stopping
                    && (!is_new || self.services.len() < self.limits.services)
                    && engine.claim(service, self.owner);
                self.counts.refused_claims += u64::from(!is_ours);
                self.queue.push_back(Item::Frame(Event::Listens { service, is_ours }.to_words()));
                if is_ours && is_new {
                    self.services.push(service);
                    self.queue.push_back(Item::Arrivals(service));
                }
            }
            Request::Read { message, bytes } => {
                let Some(receiving) = self.messages.get_mut(&message) else { return Ok(()) };
                let read = receiving.read.checked_add(bytes);
                receiving.read =
                    read.filter(|read| *read <= receiving.passed).ok_or(SessionEnd::Violation)?;
                self.queue_bytes(message);
            }
            Request::Release { message } => {
                if self.messages.remove(&message).is_some() {
                    engine.release(message);
                }
            }
            Request::Ping { token, peer } => {
                if self.pings.len() >= PINGS_MAX {
                    self.pings.remove(0);
                }
                let number = engine.send_ping(peer);
                self.pings.push((peer, number, token));
            }
            Request::Stats => self.report_stats(engine),
            Request::Goodbye => return Err(SessionEnd::Goodbye),
        }
        Ok(())
    }

    /// Takes a new message to send, with its first bytes.
    fn begin(
        &mut self,
        token: u64,
        (peer, reply, options): (SocketAddr, Reply, SendOptions),
        (len, at): (u64, u64),
        payload: &[u8],
        engine: &mut Engine,
    ) -> Result<(), SessionEnd> {
        if self.sends.contains_key(&token) {
            return Err(SessionEnd::Violation);
        }
        let len = usize::try_from(len).map_err(|_| SessionEnd::Violation)?;
        let total = self.send_memory.checked_add(len).filter(|t| *t <= self.limits.send_memory);
        let sending =
            Sending { bytes: Vec::new(), len: 0, peer, reply, options, at, submitted: None };
        self.sends.insert(token, sending);
        self.counts.sends += 1;
        let refusal = match total {
            _ if self.is_stopping => Some(SendError::Closed("the host daemon is stopping".into())),
            Some(_) if self.sends.len() <= SENDS_MAX => None,
            _ => Some(SendError::SendMemoryFull { waiting: self.send_memory }),
        };
        if let Some(error) = refusal {
            self.end(token, |times| Outcome::Failed(error, times));
            return Ok(());
        }
        if let Some(sending) = self.sends.get_mut(&token) {
            sending.len = len;
            self.send_memory += len;
            self.counts.sent_bytes += len as u64;
        }
        self.append(token, payload, engine)
    }

    /// Takes bytes of a message to send. The last ones submit it.
    fn append(
        &mut self,
        token: u64,
        payload: &[u8],
        engine: &mut Engine,
    ) -> Result<(), SessionEnd> {
        // A send that was refused or cancelled has ended here before the client knows it.
        let Some(sending) = self.sends.get_mut(&token) else { return Ok(()) };
        if sending.submitted.is_some() || sending.bytes.len() + payload.len() > sending.len {
            return Err(SessionEnd::Violation);
        }
        sending.bytes.extend_from_slice(payload);
        if sending.bytes.len() < sending.len {
            return Ok(());
        }
        let age = Duration::from_nanos(monotonic_nanos().saturating_sub(sending.at));
        let mut options = sending.options;
        options.deadline = options.deadline.map(|deadline| left_after(deadline, age));
        let bytes = std::mem::take(&mut sending.bytes);
        engine.act_for(self.owner);
        let submitted = Operations::submit(engine, sending.peer, bytes, sending.reply, &options);
        match submitted {
            Ok(id) => {
                sending.submitted = Some((id, age));
                let news = News::Outcome { owner: self.owner, token };
                engine.watch_outcome(id, &self.waker(news));
                // It may have ended before anybody watched.
                self.queue.push_back(Item::Outcome(token));
            }
            Err(error) => self.end(token, |times| Outcome::Failed(error, times)),
        }
        Ok(())
    }

    /// Ends a send that the engine does not have.
    fn end(&mut self, token: u64, outcome: impl FnOnce(Times) -> Outcome) {
        let Some(sending) = self.sends.get(&token) else { return };
        let age = Duration::from_nanos(monotonic_nanos().saturating_sub(sending.at));
        let deadline = sending.options.deadline;
        let outcome = outcome(Times { elapsed: age, deadline, retransmits: 0 });
        let (ended, text) = Ended::of(&outcome, Duration::ZERO);
        self.finish(token, &outcome);
        let (response, passed) = (Vec::new(), 0);
        self.queue.push_back(Item::Ending { token, ended, text, response, passed });
    }

    fn finish(&mut self, token: u64, outcome: &Outcome) {
        if let Some(sending) = self.sends.remove(&token) {
            self.send_memory -= sending.len;
            self.counts.outcomes[kind_of(outcome)] += 1;
        }
    }

    /// Notes that the engine has something for this client.
    pub(super) fn note(&mut self, news: News) {
        match news {
            News::Outcome { token, .. } => self.queue.push_back(Item::Outcome(token)),
            News::Bytes { message, .. } => self.queue_bytes(message),
            News::Arrivals { service, .. } => self.queue.push_back(Item::Arrivals(service)),
        }
    }

    fn queue_bytes(&mut self, message: u64) {
        if let Some(receiving) = self.messages.get_mut(&message)
            && !receiving.is_ended
            && !std::mem::replace(&mut receiving.is_queued, true)
        {
            self.queue.push_back(Item::Bytes(message));
        }
    }

    /// Reports what waits, as far as there is room in the ring, each item once.
    pub(super) fn report(&mut self, engine: &mut Engine) -> Result<(), SessionEnd> {
        self.take_pongs(engine)?;
        let turns = self.queue.len();
        for _ in 0..turns {
            let Some(item) = self.queue.pop_front() else { break };
            if let Some(left) = self.report_item(item, engine)? {
                self.queue.push_front(left);
                break;
            }
        }
        if !self.queue.is_empty() {
            self.writer.wait_for_room();
        }
        if std::mem::take(&mut self.has_written) && self.writer.takes_wake_up() {
            ring_bell(&self.stream);
        }
        Ok(())
    }

    /// Whether there is something to report and room for it.
    pub(super) fn can_report(&self) -> bool {
        !self.queue.is_empty()
            && self.writer.room().is_ok_and(|room| room.is_some_and(|room| room >= PAYLOAD_MAX / 2))
    }

    fn write(&mut self, header: &Header, payload: &[u8]) -> Result<bool, Broken> {
        let is_written = self.writer.push(header, payload)?;
        self.has_written |= is_written;
        Ok(is_written)
    }

    fn take_pongs(&mut self, engine: &mut Engine) -> Result<(), Broken> {
        for at in (0..self.pings.len()).rev() {
            let (peer, number, token) = self.pings[at];
            if let Some(answer) = engine.take_pong(peer, number) {
                self.pings.swap_remove(at);
                self.queue.push_back(Item::Frame(Event::Pong { token, answer }.to_words()));
            }
        }
        Ok(())
    }

    /// Reports one item. Returns what there is no room for.
    fn report_item(&mut self, item: Item, engine: &mut Engine) -> Result<Option<Item>, Broken> {
        match item {
            Item::Frame(words) => {
                let is_written = self.write(&words, &[])?;
                Ok((!is_written).then_some(Item::Frame(words)))
            }
            Item::Outcome(token) => {
                let Some(sending) = self.sends.get(&token) else { return Ok(None) };
                let Some((id, age)) = sending.submitted else { return Ok(None) };
                let Some((outcome, response)) = engine.take_outcome(id) else { return Ok(None) };
                let (ended, text) = Ended::of(&outcome, age);
                self.finish(token, &outcome);
                let response = response.unwrap_or_default();
                self.report_item(Item::Ending { token, ended, text, response, passed: 0 }, engine)
            }
            Item::Ending { token, ended, text, response, mut passed } => {
                while passed < response.len() {
                    let room = self.writer.room()?.unwrap_or(0);
                    let part = room.min(response.len() - passed);
                    let words = Event::Response { token }.to_words();
                    if part == 0 || !self.write(&words, &response[passed..passed + part])? {
                        return Ok(Some(Item::Ending { token, ended, text, response, passed }));
                    }
                    passed += part;
                }
                let is_written =
                    self.write(&Event::Ended { token, ended }.to_words(), text.as_bytes())?;
                let left = Item::Ending { token, ended, text, response, passed };
                Ok((!is_written).then_some(left))
            }
            Item::Arrivals(service) => self.report_arrivals(service, engine),
            Item::Bytes(message) => self.report_bytes(message, engine),
        }
    }

    fn report_arrivals(
        &mut self,
        service: Service,
        engine: &mut Engine,
    ) -> Result<Option<Item>, Broken> {
        loop {
            if self.writer.room()?.is_none() {
                return Ok(Some(Item::Arrivals(service)));
            }
            let Some(Ok(arrival)) = engine.take_arrival(service) else { break };
            let Arrival { id, peer, len, deadline, request } = arrival;
            let receiving = Receiving {
                peer,
                len,
                request,
                passed: 0,
                read: 0,
                is_ended: false,
                is_queued: false,
            };
            self.messages.insert(id, receiving);
            self.counts.messages += 1;
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let deadline = left.map_or(0, |left| {
                monotonic_nanos().saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
            });
            let is_request = request.is_some();
            let event = Event::Arrived { message: id, peer, len, deadline, is_request, service };
            self.write(&event.to_words(), &[])?;
            if self.report_bytes(id, engine)?.is_some() {
                self.queue_bytes(id);
            }
        }
        let news = News::Arrivals { owner: self.owner, service };
        engine.watch_arrivals(service, &self.waker(news));
        Ok(None)
    }

    /// Passes bytes of a message to the client, within its credit and the room of the ring. After a
    /// frame it is the turn of other items.
    fn report_bytes(&mut self, message: u64, engine: &mut Engine) -> Result<Option<Item>, Broken> {
        let Some(receiving) = self.messages.get_mut(&message) else { return Ok(None) };
        receiving.is_queued = false;
        let credit = CREDIT - (receiving.passed - receiving.read).min(CREDIT);
        if credit == 0 && receiving.passed < receiving.len {
            // The client's report of what it has read queues it again.
            return Ok(None);
        }
        let Some(room) = self.writer.room()? else {
            receiving.is_queued = true;
            return Ok(Some(Item::Bytes(message)));
        };
        let most = room.min(usize::try_from(credit).unwrap_or(room));
        let mut count = 0;
        let mut ended = None;
        while count < most || receiving.passed == receiving.len {
            // At its end, a read of one byte shows whether the message is complete.
            let into = match receiving.passed == receiving.len {
                true => &mut [0][..],
                false => &mut self.buffer[count..most],
            };
            match Operations::read(engine, message, into) {
                Some(Ok(0)) => ended = Some(Ok(())),
                Some(Ok(read)) => {
                    count += read;
                    receiving.passed += read as u64;
                    continue;
                }
                Some(Err(error)) => ended = Some(Err(error)),
                None => {
                    let news = News::Bytes { owner: self.owner, message };
                    let note = Note { board: self.board.clone(), news };
                    engine.watch_bytes(message, &Waker::from(Arc::new(note)));
                }
            }
            break;
        }
        let is_full = count == most && ended.is_none() && receiving.passed < receiving.len;
        self.counts.received_bytes += count as u64;
        receiving.is_ended = ended.is_some();
        let is_end = ended == Some(Ok(()));
        if count > 0 || is_end {
            let buffer = std::mem::take(&mut self.buffer);
            let written =
                self.write(&Event::Bytes { message, is_end }.to_words(), &buffer[..count]);
            self.buffer = buffer;
            written?;
        }
        if let Some(Err(error)) = ended {
            let words = Event::Failed { message, error }.to_words();
            self.queue.push_back(Item::Frame(words));
        } else if is_full {
            self.queue_bytes(message);
        }
        Ok(None)
    }

    fn report_stats(&mut self, engine: &mut Engine) {
        let Some(stats) = engine.take_stats() else { return };
        let (memory, _) = engine.taken_by(self.owner);
        let traffic = &stats.traffic;
        let values = [
            traffic.sent,
            traffic.received,
            traffic.dropped.values().sum(),
            traffic.socket_errors,
            memory as u64,
            self.send_memory as u64,
            self.messages.len() as u64,
            self.sends.len() as u64,
            stats.peers as u64,
        ];
        self.queue.push_back(Item::Frame(Event::Stats(values).to_words()));
    }

    /// Whether everything that the client asked for has ended and was reported.
    pub(super) fn is_settled(&self) -> bool {
        self.queue.is_empty()
            && self.sends.is_empty()
            && self.messages.values().all(|receiving| receiving.is_ended)
    }
}

/// What is left of a deadline after some time. A late message still has an instant.
fn left_after(deadline: Duration, age: Duration) -> Duration {
    deadline.saturating_sub(age).max(Duration::from_nanos(1))
}

fn kind_of(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Done(_) => 0,
        Outcome::Met(_) => 1,
        Outcome::Missed(_) => 2,
        Outcome::GivenUp(_) => 3,
        Outcome::Failed(..) => 4,
        Outcome::Unknown(..) => 5,
    }
}

/// Names of the outcomes in the order of [`SessionCounts::outcomes`].
pub(super) const OUTCOMES: [&str; 6] = ["done", "met", "missed", "given_up", "failed", "unknown"];
