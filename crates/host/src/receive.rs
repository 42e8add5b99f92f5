//! Receiving files.
//!
//! Anybody can send a message. So each offer is a [`Transfer`] with a file of its own, and a message
//! that is no file, stalls or lies does not keep an honest sender away. With one file name the first
//! file that is complete and has the right hash is stored.

use crate::endpoint::{Endpoint, Incoming, Listener, ReceiveError, SendHandle};
use crate::partial::PartialFile;
use crate::stream::{Answer, Head, Nonce, Offer, Verdict, safe_name};
use crate::transfer::{NO_HASH, Transfer};
use crate::{HostError, ReceiveOptions, ReceiveReport, ReceivedFile, Traffic, options};
use punctual_core::Bytes;
use std::future::Future as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Most files that arrive at once. A new one replaces the oldest of which nothing has arrived.
const TRANSFERS_MAX: usize = 16;
/// Most messages that are read at once, in all and from one peer. A peer has as many again for each
/// of its files.
const ARRIVALS_MAX: usize = 128;
const ARRIVALS_PER_PEER: usize = 8;
/// A transfer that was quiet for this time is replaced by one of the same contents and host.
const REPLACED_AFTER: Duration = Duration::from_millis(500);
/// How often a wait looks at [`LinkOptions::stop`](crate::LinkOptions::stop) and for stalls.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// A turn that begins as late as this was held up.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// Bytes read at once.
const READ_BYTES: usize = 1 << 18;
/// While large messages arrive, bytes gather for this time: each wake-up costs the same.
const GATHER: Duration = Duration::from_micros(300);
const LARGE_BYTES: u64 = 1 << 18;

/// Waits at `listen` for one file over NDP and stores it as `out`.
pub fn receive_file(
    listen: SocketAddr,
    out: &Path,
    options: &ReceiveOptions,
) -> Result<ReceiveReport, HostError> {
    Receiver::bind(listen, options)?.receive(out)
}

/// An endpoint that receives files. Its address is known before it starts to wait.
#[derive(Debug)]
pub struct Receiver {
    endpoint: Endpoint,
    /// Senders are accepted from the beginning.
    listener: Listener,
    options: ReceiveOptions,
}

impl Receiver {
    /// Binds the address, of which port 0 takes any free port; or attaches to the host daemon of
    /// [`LinkOptions::hostd`](crate::LinkOptions::hostd), whose address counts instead.
    pub fn bind(listen: SocketAddr, options: &ReceiveOptions) -> Result<Self, HostError> {
        let endpoint = options.link.open(listen)?;
        let service = options.link.service;
        let listens = endpoint.listen_for(service);
        let listener = listens.map_err(|error| HostError::accepting(service, error))?;
        Ok(Receiver { endpoint, listener, options: options.clone() })
    }

    /// The address to send to.
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    /// Counts of datagrams so far, with drops by reason.
    pub fn traffic(&self) -> Traffic {
        self.endpoint.stats().traffic
    }

    /// Receives one file and stores it as `out`. The file gets this name when it is complete, its
    /// hash matches and it is on the disk.
    pub fn receive(&self, out: &Path) -> Result<ReceiveReport, HostError> {
        let mut result = Err(HostError::Interrupted);
        self.receive_each(ReceiveTarget::File(out), Some(1), &mut |ended| result = ended.result)?;
        result
    }

    /// Receives files and calls `each` with the outcome of every transfer.
    ///
    /// Into a directory it receives until `count` files are stored; without a count until it is
    /// stopped. A single file ends with the first outcome, good or bad.
    pub fn receive_each(
        &self,
        target: ReceiveTarget<'_>,
        count: Option<usize>,
        each: &mut dyn FnMut(ReceivedFile),
    ) -> Result<(), HostError> {
        // Errors of the directory are reported before anybody sends.
        match target {
            ReceiveTarget::File(out) => drop(PartialFile::create(out, self.options.overwrite)?),
            ReceiveTarget::Directory(into) if !into.is_dir() => {
                return Err(HostError::NotADirectory(into.into()));
            }
            ReceiveTarget::Directory(into) => {
                drop(PartialFile::create(&into.join(".punctual-probe"), true)?);
            }
        }
        let mut left = count;
        if left == Some(0) {
            return Ok(());
        }
        let mut session = Session::new(self, target);
        let ended = session.run(&mut |ended| {
            let is_stored = ended.result.is_ok();
            each(ended);
            if let ReceiveTarget::File(_) = target {
                return false;
            }
            left = left.map(|left| left - usize::from(is_stored));
            left != Some(0)
        });
        if ended.is_ok() {
            session.finish();
        }
        ended
    }
}

/// Where received files are stored.
#[derive(Debug, Clone, Copy)]
pub enum ReceiveTarget<'a> {
    /// One file, under this name.
    File(&'a Path),
    /// Files in this directory, under the names that their senders give. Names that could surprise
    /// are refused: paths, hidden files, control characters.
    Directory(&'a Path),
}

/// Wakes up the thread that receives.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A message that is being read.
struct Arrival {
    incoming: Incoming,
    /// Its first bytes: all of an offer, the head of other messages.
    first: Vec<u8>,
    head: Option<Head>,
    /// Bytes of the file that were read.
    taken: u64,
}

/// A request to store a file, which waits until all parts are read.
struct StoreRequest {
    incoming: Incoming,
    nonce: Nonce,
}

struct Session<'a> {
    receiver: &'a Receiver,
    target: ReceiveTarget<'a>,
    waker: Waker,
    transfers: Vec<Transfer>,
    arrivals: Vec<Arrival>,
    stores: Vec<StoreRequest>,
    /// Answers that are under way.
    answers: Vec<SendHandle>,
    /// Outcomes that the caller has not seen.
    ended: Vec<ReceivedFile>,
    /// Whether the only file is stored.
    is_closed: bool,
    /// Why no more messages can arrive, such as a host daemon that ended.
    failure: Option<ReceiveError>,
    buffer: Vec<u8>,
    idle_since: Instant,
    /// When the last turn began. Silence is judged by this time: a turn may be interrupted for long.
    turned_at: Instant,
    /// For how long this process did not run, in all.
    paused: Duration,
}

impl<'a> Session<'a> {
    fn new(receiver: &'a Receiver, target: ReceiveTarget<'a>) -> Self {
        Session {
            receiver,
            target,
            waker: Arc::new(Unpark(std::thread::current())).into(),
            transfers: Vec::new(),
            arrivals: Vec::new(),
            stores: Vec::new(),
            answers: Vec::new(),
            ended: Vec::new(),
            is_closed: false,
            failure: None,
            buffer: vec![0; READ_BYTES],
            idle_since: Instant::now(),
            turned_at: Instant::now(),
            paused: Duration::ZERO,
        }
    }

    fn silence(&self) -> Duration {
        options::to_std(self.receiver.options.link.silence)
    }

    /// Receives until `each` returns false.
    fn run(&mut self, each: &mut dyn FnMut(ReceivedFile) -> bool) -> Result<(), HostError> {
        let wait = self.receiver.options.wait;
        loop {
            let link = &self.receiver.options.link;
            let is_stopped = link.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
            let failure = self.failure;
            if is_stopped || failure.is_some() {
                let error = || match failure {
                    Some(failure) => HostError::accepting(link.service, failure),
                    None => HostError::Interrupted,
                };
                for transfer in std::mem::take(&mut self.transfers) {
                    if transfer.has_begun() {
                        each(failed(transfer, error()));
                    }
                }
                return Err(error());
            }
            let is_busy = self.turn();
            for ended in std::mem::take(&mut self.ended) {
                self.idle_since = Instant::now();
                if !each(ended) {
                    return Ok(());
                }
            }
            let is_underway = self.transfers.iter().any(Transfer::has_begun);
            if let (Some(wait), false) = (wait, is_underway)
                && self.idle_since.elapsed() >= options::to_std(wait)
            {
                let listen = self.receiver.local_addr();
                return Err(HostError::NoSender { listen, waited: wait });
            }
            self.rest(is_busy);
        }
    }

    /// Waits for something to do.
    fn rest(&self, is_busy: bool) {
        let is_large = |a: &Arrival| a.incoming.len() - a.taken.min(a.incoming.len()) > LARGE_BYTES;
        if is_busy {
            return;
        }
        match self.arrivals.iter().any(is_large) {
            true => std::thread::sleep(GATHER),
            false => std::thread::park_timeout(LOOK_INTERVAL),
        }
    }

    /// Reads what has arrived and acts on it. Returns whether there is more to do at once.
    fn turn(&mut self) -> bool {
        let turned_at = std::mem::replace(&mut self.turned_at, Instant::now());
        let pause = self.turned_at - turned_at;
        if pause >= PAUSE_MIN {
            // This process did not run, or stored a file: that is no silence of a sender.
            self.paused += pause;
            for transfer in &mut self.transfers {
                transfer.heard_at = (transfer.heard_at + pause).min(self.turned_at);
            }
        }
        let waker = self.waker.clone();
        let mut cx = Context::from_waker(&waker);
        self.accept(&mut cx);
        let mut is_busy = false;
        for mut arrival in std::mem::take(&mut self.arrivals) {
            match self.read(&mut arrival, &mut cx) {
                Reading::Waits => self.arrivals.push(arrival),
                Reading::More => {
                    is_busy = true;
                    self.arrivals.push(arrival);
                }
                Reading::Complete => self.complete(arrival),
                // Dropping it refuses the rest.
                Reading::Refused => {}
            }
        }
        for transfer in &mut self.transfers {
            is_busy |= transfer.catch_up();
        }
        self.settle_stores();
        self.end_failed();
        self.answers = std::mem::take(&mut self.answers)
            .into_iter()
            .filter_map(|answer| answer.wait_timeout(Duration::ZERO).err())
            .collect();
        is_busy
    }

    fn accept(&mut self, cx: &mut Context<'_>) {
        while self.arrivals.len() < ARRIVALS_MAX {
            let accepted = std::pin::pin!(self.receiver.listener.accept_async()).as_mut().poll(cx);
            let incoming = match accepted {
                Poll::Ready(Ok(incoming)) => incoming,
                Poll::Ready(Err(error)) => {
                    self.failure = Some(error);
                    return;
                }
                Poll::Pending => return,
            };
            let peer = incoming.peer();
            let from_peer = self.arrivals.iter().filter(|a| a.incoming.peer() == peer).count();
            // All processes behind a host daemon have one address.
            let files = self.transfers.iter().filter(|t| t.peer == peer).count();
            if from_peer < ARRIVALS_PER_PEER * (1 + files) {
                let (first, head) = (Vec::new(), None);
                self.arrivals.push(Arrival { incoming, first, head, taken: 0 });
            }
        }
        // Strangers that hold all places lose one.
        let is_stranger = |a: &Arrival| !self.transfers.iter().any(|t| t.peer == a.incoming.peer());
        if let Some(at) = self.arrivals.iter().position(is_stranger) {
            drop(self.arrivals.remove(at));
        }
    }

    /// Reads some of a message.
    fn read(&mut self, arrival: &mut Arrival, cx: &mut Context<'_>) -> Reading {
        for _ in 0..4 {
            let mut buffer = std::mem::take(&mut self.buffer);
            let read = arrival.incoming.poll_read_some(cx, &mut buffer);
            let reading = match read {
                Poll::Pending => Some(Reading::Waits),
                Poll::Ready(Err(_)) => Some(Reading::Refused),
                Poll::Ready(Ok(0)) => Some(Reading::Complete),
                Poll::Ready(Ok(count)) => {
                    (!self.take(arrival, &buffer[..count])).then_some(Reading::Refused)
                }
            };
            self.buffer = buffer;
            if let Some(reading) = reading {
                return reading;
            }
        }
        Reading::More
    }

    /// Takes bytes of a message. Returns whether the message is of any use.
    fn take(&mut self, arrival: &mut Arrival, mut bytes: &[u8]) -> bool {
        if arrival.head.is_none() {
            let missing = Head::BYTES.saturating_sub(arrival.first.len()).min(bytes.len());
            let (first, rest) = bytes.split_at(missing);
            arrival.first.extend_from_slice(first);
            bytes = rest;
            let Some(head) = arrival.first.first_chunk() else { return true };
            arrival.head = Some(Head::of(head));
        }
        let peer = arrival.incoming.peer();
        match arrival.head {
            Some(Head::Offer | Head::OtherVersion(_)) => {
                let room = Offer::BYTES_MAX.saturating_sub(arrival.first.len());
                arrival.first.extend_from_slice(&bytes[..bytes.len().min(room)]);
                arrival.incoming.is_request() && arrival.incoming.len() <= 4_096
            }
            Some(Head::Part { nonce, offset } | Head::Store { nonce, offset }) => {
                let transfer = self.transfers.iter_mut().find(|t| t.is_named(peer, &nonce));
                let mut is_wanted = false;
                if let Some(transfer) = transfer {
                    transfer.write(offset.saturating_add(arrival.taken), bytes);
                    is_wanted = !transfer.has_failed();
                }
                arrival.taken += bytes.len() as u64;
                // A part that is refused makes its sender ask why. Only a request gets an answer.
                is_wanted || arrival.incoming.is_request()
            }
            _ => false,
        }
    }

    /// Every byte of a message has been read.
    fn complete(&mut self, arrival: Arrival) {
        match arrival.head {
            Some(Head::Offer) => match Offer::from_bytes(&arrival.first) {
                Some(offer) => self.handle_offer(&arrival.incoming, offer),
                None => self.refuse(&arrival.incoming, [0; 16], Verdict::OtherVersion),
            },
            Some(Head::Store { nonce, .. }) => {
                self.stores.push(StoreRequest { incoming: arrival.incoming, nonce });
            }
            Some(Head::OtherVersion(nonce)) => {
                self.refuse(&arrival.incoming, nonce, Verdict::OtherVersion);
                let peer = arrival.incoming.peer();
                let result = Err(HostError::NotOurs(peer));
                self.ended.push(ReceivedFile { peer, name: None, kept: None, result });
            }
            _ => {}
        }
    }

    fn refuse(&mut self, incoming: &Incoming, nonce: Nonce, verdict: Verdict) {
        self.respond(incoming, Answer { nonce, verdict, hash: NO_HASH, have: 0, storing_us: 0 });
    }

    fn respond(&mut self, incoming: &Incoming, answer: Answer) {
        // An answer that cannot be delivered does not change the outcome here.
        if let Ok(handle) = incoming.respond(answer.to_bytes()) {
            self.answers.push(handle);
        }
    }

    fn handle_offer(&mut self, incoming: &Incoming, offer: Offer) {
        let (peer, nonce) = (incoming.peer(), offer.nonce);
        let name = safe_name(&offer.name).map(str::to_owned);
        match self.begin(peer, offer, name.as_deref()) {
            Ok(transfer) => {
                self.respond(incoming, transfer.answer(Verdict::Accepted));
                self.transfers.push(transfer);
            }
            Err(None) => self.refuse(incoming, nonce, Verdict::Busy),
            Err(Some(error)) => {
                self.refuse(incoming, nonce, verdict_of(&error));
                self.ended.push(ReceivedFile { peer, name, kept: None, result: Err(error) });
            }
        }
    }

    /// Begins the transfer of an offer, or says why not; an error of `None` is "busy".
    fn begin(
        &mut self,
        peer: SocketAddr,
        offer: Offer,
        name: Option<&str>,
    ) -> Result<Transfer, Option<HostError>> {
        let options = &self.receiver.options;
        // The sender has begun again, perhaps in another process.
        let is_same = |t: &Transfer| {
            let silent = self.turned_at.saturating_duration_since(t.heard_at);
            let is_quiet = silent >= REPLACED_AFTER;
            let is_sender = t.peer == peer || t.peer.ip() == peer.ip() && is_quiet;
            is_sender && t.offer.hash == offer.hash
        };
        self.transfers.retain(|t| !t.is_named(peer, &offer.nonce) && !is_same(t));
        if self.is_closed {
            return Err(None);
        }
        let offered = Bytes::new(offer.len);
        if offered > options.size_max {
            return Err(Some(HostError::TooLarge { offered, accepted: options.size_max }));
        }
        let out: PathBuf = match (self.target, name) {
            (ReceiveTarget::File(out), _) => out.into(),
            (ReceiveTarget::Directory(into), Some(name)) => into.join(name),
            (ReceiveTarget::Directory(_), None) => return Err(Some(HostError::BadName(peer))),
        };
        if self.transfers.len() >= TRANSFERS_MAX {
            let at = self.transfers.iter().position(|t| !t.has_begun()).ok_or(None)?;
            self.transfers.remove(at);
        }
        Transfer::begin(peer, offer, &out, options.overwrite, options.resume).map_err(Some)
    }

    /// Stores the files whose bytes are all here, and answers their senders.
    fn settle_stores(&mut self) {
        for store in std::mem::take(&mut self.stores) {
            let (peer, nonce) = (store.incoming.peer(), store.nonce);
            let Some(at) = self.transfers.iter().position(|t| t.is_named(peer, &nonce)) else {
                let verdict = if self.is_closed { Verdict::Busy } else { Verdict::Incomplete };
                self.refuse(&store.incoming, nonce, verdict);
                continue;
            };
            if self.is_closed {
                self.refuse(&store.incoming, nonce, Verdict::Busy);
                drop(self.transfers.remove(at));
                continue;
            }
            if self.transfers[at].is_complete() {
                let transfer = self.transfers.remove(at);
                self.store(&store.incoming, transfer);
            } else if self.arrivals.iter().any(|a| a.incoming.peer() == peer) {
                self.stores.push(store);
            } else {
                // A sender stores what it has sent, so it asks why its parts were refused.
                self.refuse(&store.incoming, nonce, Verdict::Incomplete);
            }
        }
    }

    fn store(&mut self, incoming: &Incoming, mut transfer: Transfer) {
        let complete_at = Instant::now();
        let stored = transfer.store();
        let took = complete_at.elapsed();
        let verdict = stored.as_ref().map_or_else(verdict_of, |()| Verdict::Stored);
        let storing_us = took.as_micros() as u64;
        self.respond(incoming, Answer { storing_us, ..transfer.answer(verdict) });
        let (peer, name) = (transfer.peer, transfer.name());
        let result = stored.map(|()| {
            let duration = options::to_core(transfer.started_at.elapsed());
            let deadline = transfer.offer.deadline;
            ReceiveReport {
                peer,
                stored_as: transfer.out().into(),
                bytes: transfer.offer.len,
                resumed: transfer.resumed,
                hash: transfer.offer.hash,
                duration,
                deadline,
                deadline_met: deadline.map(|d| duration <= d),
                traffic: self.receiver.traffic(),
            }
        });
        self.is_closed |= result.is_ok() && matches!(self.target, ReceiveTarget::File(_));
        self.ended.push(ReceivedFile { peer, name, kept: None, result });
    }

    /// Ends transfers whose senders are silent or whose files cannot be written.
    fn end_failed(&mut self) {
        let waited = self.silence();
        let mut at = 0;
        while at < self.transfers.len() {
            let transfer = &mut self.transfers[at];
            let silent = self.turned_at.saturating_duration_since(transfer.heard_at);
            let is_stalled = silent >= waited
                && !self.stores.iter().any(|s| transfer.is_named(s.incoming.peer(), &s.nonce));
            // Its sender's request to store the file gets the error of the file.
            if !is_stalled {
                at += 1;
                continue;
            }
            let mut transfer = self.transfers.remove(at);
            let error = transfer.take_error().unwrap_or(HostError::PeerSilent {
                peer: transfer.peer,
                waited: options::to_core(waited),
                last_error: None,
            });
            if transfer.has_begun() && !self.is_closed {
                self.ended.push(failed(transfer, error));
            }
        }
    }

    /// Waits until answers are delivered, and tells the other senders that they are too late.
    fn finish(&mut self) {
        self.is_closed = true;
        // Parts of other senders are refused, so they ask why.
        self.transfers.retain(Transfer::has_begun);
        self.arrivals.retain(|a| a.incoming.is_request());
        // The time of a pause comes on top, also of one in a turn.
        let until = Instant::now() + self.silence();
        let paused = self.paused;
        while self.turned_at < until + (self.paused - paused)
            && !(self.answers.is_empty() && self.transfers.is_empty())
        {
            let stop = self.receiver.options.link.stop;
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return;
            }
            let is_busy = self.turn();
            self.arrivals.retain(|a| a.incoming.is_request());
            if !is_busy {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    }
}

enum Reading {
    /// Nothing more is here.
    Waits,
    /// More can be read at once.
    More,
    Complete,
    Refused,
}

fn failed(transfer: Transfer, error: HostError) -> ReceivedFile {
    let (peer, name) = (transfer.peer, transfer.name());
    let kept = transfer.leave();
    ReceivedFile { peer, name, kept, result: Err(error) }
}

fn verdict_of(error: &HostError) -> Verdict {
    match error {
        HostError::HashMismatch(_) => Verdict::HashMismatch,
        HostError::DiskFull(_) => Verdict::DiskFull,
        HostError::TooLarge { .. } => Verdict::TooLarge,
        HostError::NotOurs(_) => Verdict::OtherVersion,
        HostError::Exists(_) => Verdict::Exists,
        HostError::BadName(_) => Verdict::BadName,
        _ => Verdict::WriteFailed,
    }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;
    use crate::Hash;

    const LONG: Duration = Duration::from_secs(6);

    /// A session with a transfer of which something arrived just before its last turn, which began
    /// this long ago.
    fn after_a_turn<'a>(receiver: &'a Receiver, out: &'a Path, ago: Duration) -> Session<'a> {
        let mut session = Session::new(receiver, ReceiveTarget::Directory(out));
        let peer = SocketAddr::from(([127, 0, 0, 1], 9));
        let hash = Hash([3; 32]);
        let (len, name) = (1_000, b"n".to_vec());
        let offer = Offer { nonce: [1; 16], len, hash, deadline: None, is_fresh: false, name };
        let mut transfer =
            Transfer::begin(peer, offer, &out.join("n"), false, false).expect("a file");
        transfer.write(0, &[7; 500]);
        session.turned_at -= ago;
        transfer.heard_at = session.turned_at;
        session.transfers.push(transfer);
        session
    }

    /// A process that is stopped in the middle of a turn, or between two turns, does not take its
    /// sender for silent.
    #[test]
    fn pause__is_no_silence_of_a_sender() {
        let dir = tempfile::tempdir().expect("a directory");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let receiver = Receiver::bind(any, &ReceiveOptions::default()).expect("a socket");
        assert!(LONG > options::to_std(receiver.options.link.silence));
        let mut session = after_a_turn(&receiver, dir.path(), LONG);
        // The rest of the turn in which the process was stopped.
        session.end_failed();
        assert!(session.ended.is_empty(), "{:?}", session.ended);
        session.turn();
        assert!(session.ended.is_empty(), "{:?}", session.ended);
        // It ran, and heard nothing.
        let now = Instant::now();
        (session.turned_at, session.transfers[0].heard_at) = (now, now - LONG);
        session.turn();
        let ended = session.ended.pop().expect("the sender is silent").result;
        assert!(matches!(ended, Err(HostError::PeerSilent { .. })), "{ended:?}");
    }
}
