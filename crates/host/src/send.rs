//! Sending files.

use crate::endpoint::{Endpoint, Outcome, SendError, SendHandle, SendOptions};
use crate::stream::{Answer, Head, Nonce, Offer, Verdict};
use crate::{Hash, HostError, SendFileOptions, SendReport, Traffic, options};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes of one part. A file of up to this size goes with the request to store it.
pub(crate) const PART_BYTES: u64 = 4 << 20;
/// Parts that are sent at once.
const PARTS_AT_ONCE: usize = 4;
/// How often a wait looks at [`LinkOptions::stop`](crate::LinkOptions::stop).
const STOP_INTERVAL: Duration = Duration::from_millis(100);
/// The longest wait for an answer of a receiver that is alive.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a silent host has to refuse a datagram.
const REFUSAL_WAIT: Duration = Duration::from_millis(100);
/// Times that a file is offered, to a receiver that restarts or has wrong bytes of it.
const OFFERS_MAX: usize = 5;

/// Sends the file at `path` to `peer` over NDP. Returns when the receiver has checked and stored it.
pub fn send_file(
    path: &Path,
    peer: SocketAddr,
    options: &SendFileOptions,
) -> Result<SendReport, HostError> {
    let submitted_at = Instant::now();
    FileSender::new(peer, options)?.send(path, submitted_at)
}

/// Sends files to one receiver.
#[derive(Debug)]
pub struct FileSender {
    endpoint: Endpoint,
    peer: SocketAddr,
    options: SendFileOptions,
}

impl FileSender {
    /// Opens a socket, or attaches to the host daemon, to send files to `peer`.
    pub fn new(peer: SocketAddr, options: &SendFileOptions) -> Result<Self, HostError> {
        let any: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let endpoint = options.link.open(SocketAddr::new(any, 0))?;
        Ok(FileSender { endpoint, peer, options: options.clone() })
    }

    /// Counts of datagrams so far, with drops by reason.
    pub fn traffic(&self) -> Traffic {
        self.endpoint.stats().traffic
    }

    /// Sends one file. Its deadline counts from `submitted_at`. Returns when the receiver has checked
    /// and stored it.
    pub fn send(&self, path: &Path, submitted_at: Instant) -> Result<SendReport, HostError> {
        let reading = |error| HostError::reading(path, error);
        // Opening a pipe must not wait for its writer.
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(reading)?;
        let metadata = file.metadata().map_err(reading)?;
        if metadata.is_dir() {
            return Err(HostError::Directory(path.into()));
        }
        if !metadata.is_file() {
            return Err(HostError::NotAFile(path.into()));
        }
        let (len, hash) = hash_file(&file, u64::MAX, self).map_err(|e| self.reading(path, e))?;
        let name = path.file_name().unwrap_or_default().as_bytes().to_vec();
        let started_at = Instant::now();
        let mut sending = Sending {
            sender: self,
            path,
            file,
            len,
            hash,
            name,
            submitted_at,
            retransmits: 0,
            resumed: 0,
        };
        let answer = sending.run().map_err(|error| self.explain(error))?;
        let (total, since_start) = (submitted_at.elapsed(), started_at.elapsed());
        let storing = Duration::from_micros(answer.storing_us).min(since_start);
        let total = options::to_core(total);
        Ok(SendReport {
            bytes: len,
            hash,
            resumed: sending.resumed,
            duration: total,
            transfer: options::to_core(since_start - storing),
            deadline_met: self.options.deadline.map(|d| total <= d),
            retransmits: sending.retransmits,
            traffic: self.traffic(),
        })
    }

    fn check_stop(&self) -> Result<(), HostError> {
        let stop = self.options.link.stop;
        match stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            true => Err(HostError::Interrupted),
            false => Ok(()),
        }
    }

    fn reading(&self, path: &Path, error: io::Error) -> HostError {
        match self.check_stop() {
            Err(stopped) => stopped,
            Ok(()) => HostError::reading(path, error),
        }
    }

    fn silence(&self) -> Duration {
        options::to_std(self.options.link.silence)
    }

    /// Adds to the error of a silent peer whether its host says that nothing listens there.
    fn explain(&self, error: HostError) -> HostError {
        match error {
            HostError::PeerSilent { peer, waited, last_error: None } => {
                HostError::PeerSilent { peer, waited, last_error: refusal(peer) }
            }
            other => other,
        }
    }

    /// Whether the receiver answers a ping.
    fn is_peer_alive(&self) -> bool {
        (0..3).any(|_| self.endpoint.ping(self.peer, self.silence() / 3).is_ok())
    }
}

/// A file that is being sent.
struct Sending<'a> {
    sender: &'a FileSender,
    path: &'a Path,
    file: File,
    len: u64,
    hash: Hash,
    name: Vec<u8>,
    submitted_at: Instant,
    retransmits: u64,
    resumed: u64,
}

/// Why one attempt ended.
enum Failure {
    /// The receiver has not stored the file, and a new attempt may succeed.
    Again(HostError),
    /// The receiver has wrong bytes of the file.
    Mismatch,
    Final(HostError),
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Failure::Final(error)
    }
}

impl Sending<'_> {
    /// Offers and sends the file, until it is stored or cannot be.
    fn run(&mut self) -> Result<Answer, HostError> {
        let mut is_fresh = false;
        let mut last = HostError::Interrupted;
        for _ in 0..OFFERS_MAX {
            match self.attempt(is_fresh) {
                Ok(answer) => return Ok(answer),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Mismatch) => is_fresh = true,
                Err(Failure::Again(error)) => last = error,
            }
        }
        Err(last)
    }

    fn attempt(&mut self, is_fresh: bool) -> Result<Answer, Failure> {
        let nonce = random_nonce();
        let deadline = self.time_left().map(options::to_core);
        let name = self.name.clone();
        let (len, hash) = (self.len, self.hash);
        let offer = Offer { nonce, len, hash, deadline, is_fresh, name };
        // Until the request to store it, nobody stores the file: the outcome is known.
        let answer = self.request(nonce, offer.to_bytes(), false)?;
        self.accepted(&answer)?;
        let have = answer.have.min(self.len);
        if have > 0 {
            let own = hash_file(&self.file, have, self.sender);
            let own = own.map_err(|e| self.sender.reading(self.path, e))?;
            if own != (have, answer.hash) {
                return Err(Failure::Mismatch);
            }
        }
        self.resumed = have;
        let at = self.send_parts(nonce, have)?;
        let mut store = Head::store(nonce, at).to_vec();
        self.append(&mut store, at, self.len - at)?;
        let answer = self.request(nonce, store, true)?;
        match answer.verdict {
            Verdict::Stored if answer.hash == self.hash => Ok(answer),
            Verdict::Stored => Err(HostError::Changed(self.path.into()).into()),
            other => Err(self.refused(other)),
        }
    }

    fn refused(&self, verdict: Verdict) -> Failure {
        let error = HostError::Refused { peer: self.sender.peer, reason: verdict.reason() };
        match verdict {
            Verdict::Incomplete => Failure::Again(error),
            _ => Failure::Final(error),
        }
    }

    fn accepted(&self, answer: &Answer) -> Result<(), Failure> {
        match answer.verdict {
            Verdict::Accepted => Ok(()),
            other => Err(self.refused(other)),
        }
    }

    /// Time left until the deadline.
    fn time_left(&self) -> Option<Duration> {
        let deadline = options::to_std(self.sender.options.deadline?);
        Some(deadline.saturating_sub(self.submitted_at.elapsed()))
    }

    fn send_options(&self) -> SendOptions {
        // A late file still has the priority of one that is nearly late.
        let deadline = self.time_left().map(|left| left.max(Duration::from_micros(1)));
        let (service, transport) = {
            let link = &self.sender.options.link;
            (link.service, link.transport)
        };
        let patience = Some(PATIENCE);
        SendOptions { deadline, patience, service, transport, ..SendOptions::default() }
    }

    fn append(&self, bytes: &mut Vec<u8>, at: u64, len: u64) -> Result<(), HostError> {
        let start = bytes.len();
        bytes.resize(start + len as usize, 0);
        let read = self.file.read_exact_at(&mut bytes[start..], at);
        read.map_err(|error| HostError::reading(self.path, error))
    }

    /// Sends all bytes from `at` on but the last ones, which go with the request to store the file.
    /// Returns where these begin.
    fn send_parts(&mut self, nonce: Nonce, mut at: u64) -> Result<u64, Failure> {
        let peer = self.sender.peer;
        let mut parts: VecDeque<SendHandle> = VecDeque::new();
        loop {
            self.sender.check_stop()?;
            let is_last = self.len - at <= PART_BYTES;
            if !is_last && parts.len() < PARTS_AT_ONCE {
                let mut part = Head::part(nonce, at).to_vec();
                self.append(&mut part, at, PART_BYTES)?;
                let sent = self.sender.endpoint.send(peer, part, &self.send_options());
                parts.push_back(sent.map_err(|error| HostError::sending(peer, error))?);
                at += PART_BYTES;
                continue;
            }
            let Some(part) = parts.pop_front() else { return Ok(at) };
            match part.wait_timeout(STOP_INTERVAL) {
                Err(part) => parts.push_front(part),
                Ok(outcome) => {
                    self.retransmits += outcome.times().retransmits;
                    self.judge_part(nonce, outcome)?;
                }
            }
        }
    }

    fn judge_part(&mut self, nonce: Nonce, outcome: Outcome) -> Result<(), Failure> {
        let peer = self.sender.peer;
        match outcome {
            Outcome::Done(_) | Outcome::Met(_) | Outcome::Missed(_) => Ok(()),
            Outcome::Failed(SendError::Refused(_), _) => {
                // The receiver knows why. It stores nothing, since the part is missing.
                let answer = self.request(nonce, Head::store(nonce, self.len).to_vec(), false)?;
                Err(self.refused(answer.verdict))
            }
            Outcome::Failed(error, _) | Outcome::Unknown(error, _) => Err(again(peer, error)),
            Outcome::GivenUp(_) => Err(HostError::Interrupted.into()),
        }
    }

    /// Sends a request and waits for its answer. If the file `may_be_stored`, the outcome without an
    /// answer may be unknown.
    fn request(
        &mut self,
        nonce: Nonce,
        bytes: Vec<u8>,
        may_be_stored: bool,
    ) -> Result<Answer, Failure> {
        let peer = self.sender.peer;
        let sent = self.sender.endpoint.request(peer, bytes, &self.send_options());
        let mut handle = sent.map_err(|error| HostError::sending(peer, error))?;
        let mut asked_at = Instant::now();
        let (outcome, response) = loop {
            match handle.wait_response_timeout(STOP_INTERVAL) {
                Ok(ended) => break ended,
                Err(waiting) => handle = waiting,
            }
            self.sender.check_stop()?;
            let silence = self.sender.silence();
            if asked_at.elapsed() < silence {
                continue;
            }
            // A receiver that stores a large file is busy, but its endpoint is not.
            if !self.sender.is_peer_alive() {
                // If the request was not delivered, its outcome is known by now.
                if let Ok(ended) = handle.wait_response_timeout(STOP_INTERVAL) {
                    break ended;
                }
                let error = SendError::PeerSilent { peer, waited: silence, last_error: None };
                return Err(Failure::Final(match may_be_stored {
                    true => HostError::Unconfirmed { peer, error },
                    false => HostError::sending(peer, error),
                }));
            }
            asked_at = Instant::now();
        };
        self.retransmits += outcome.times().retransmits;
        let answer = response.as_deref().and_then(Answer::from_bytes);
        if let Some(answer) = answer.filter(|answer| answer.nonce == nonce) {
            return Ok(answer);
        }
        match outcome {
            Outcome::Unknown(error, _) if may_be_stored => {
                Err(HostError::Unconfirmed { peer, error }.into())
            }
            Outcome::Failed(error, _) | Outcome::Unknown(error, _) => Err(again(peer, error)),
            // A response that is no answer.
            _ => Err(HostError::NotOurs(peer).into()),
        }
    }
}

/// Whether a new attempt may succeed after an error.
fn again(peer: SocketAddr, error: SendError) -> Failure {
    let may_succeed = matches!(error, SendError::Restarted(_) | SendError::Refused(_));
    let error = HostError::sending(peer, error);
    if may_succeed { Failure::Again(error) } else { Failure::Final(error) }
}

/// The error with which a host refuses datagrams to a closed port, if it does.
fn refusal(peer: SocketAddr) -> Option<io::Error> {
    let any: SocketAddr = if peer.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" }.parse().ok()?;
    let socket = UdpSocket::bind(any).ok()?;
    socket.set_read_timeout(Some(REFUSAL_WAIT)).ok()?;
    // Only a connected socket reports it. An empty datagram is no packet of ours.
    socket.connect(peer).ok()?;
    socket.send(&[]).ok()?;
    socket.recv(&mut [0; 1]).err().filter(|e| e.kind() == io::ErrorKind::ConnectionRefused)
}

fn random_nonce() -> Nonce {
    let mut nonce = [0; 16];
    nonce.copy_from_slice(&crate::seal::random_bytes()[..16]);
    nonce
}

/// Length and hash of the first `len` bytes of the file's current contents, at most.
fn hash_file(file: &File, len: u64, sender: &FileSender) -> io::Result<(u64, Hash)> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    let mut done = 0;
    while done < len {
        if sender.check_stop().is_err() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = (len - done).min(buffer.len() as u64) as usize;
        match file.read_at(&mut buffer[..most], done) {
            Ok(0) => break,
            Ok(n) => {
                hasher.update(&buffer[..n]);
                done += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok((done, Hash(*hasher.finalize().as_bytes())))
}
