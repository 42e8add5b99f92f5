//! The daemon's end: one thread that runs the engine and serves all clients.

use super::memory::Memory;
use super::metrics::{HostdClientStats, HostdStats};
use super::protocol::{GREETING_BYTES, Refusal, VERSION, Welcome, version_of};
use super::ring::{HEADER_WORDS, Reader, Writer, is_capacity, memory_words};
use super::session::{Board, Session, SessionCounts, SessionEnd, SessionLimits};
use crate::clock::WAKE_LATENESS;
use crate::endpoint::engine::Engine;
use crate::endpoint::operations::Operations;
use crate::endpoint::runner::Run;
use crate::endpoint::{Owner, OwnerLimits};
use crate::{EndpointOptions, HostError, bind};
use rustix::event::{Timespec, epoll};
use rustix::fs::FlockOperation;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Options of a host daemon.
#[derive(Debug, Clone)]
pub struct HostdOptions {
    /// The Unix socket at which clients attach.
    pub socket: PathBuf,
    /// Permissions of the socket. Default 0660: its user and group may attach.
    pub mode: u32,
    /// The group of the socket, by number. Default: that of the daemon.
    pub group: Option<u32>,
    /// Options of the engine. `receive_memory` and `send_memory` bound all clients together. With
    /// `spin` the daemon never sleeps.
    pub endpoint: EndpointOptions,
    /// Most clients at once. Default 64.
    pub clients_max: usize,
    /// Memory for messages that one client sends. Default 64 MiB.
    pub client_send_memory: usize,
    /// Memory for messages that one client receives. Default 16 MiB.
    pub client_receive_memory: usize,
    /// Most messages that one client receives or has not released. Default 1,024.
    pub client_messages: usize,
    /// Most services that one client listens for. Default 64.
    pub client_services: usize,
    /// Bytes of each of the two rings that the daemon shares with a client: a power of two from
    /// 64 KiB to 128 MiB. Default 512 KiB.
    pub ring: usize,
    /// How long messages may take to end after the daemon was told to stop. Default 5 s.
    pub grace: Duration,
}

impl Default for HostdOptions {
    fn default() -> Self {
        HostdOptions {
            socket: super::default_hostd_socket(),
            mode: 0o660,
            group: None,
            endpoint: EndpointOptions::default(),
            clients_max: 64,
            client_send_memory: 64 << 20,
            client_receive_memory: 16 << 20,
            client_messages: 1_024,
            client_services: 64,
            ring: 512 << 10,
            grace: Duration::from_secs(5),
        }
    }
}

/// A connection that has not sent its greeting yet.
#[derive(Debug)]
struct Greeting {
    stream: UnixStream,
    bytes: Vec<u8>,
    since: Instant,
}

/// A host daemon: the engine of all processes that attach to it.
pub struct Hostd {
    engine: Engine,
    local: SocketAddr,
    options: HostdOptions,
    listener: Option<UnixListener>,
    epoll: OwnedFd,
    /// Held for the daemon's life, so that no other daemon takes the socket.
    _lock: File,
    sessions: BTreeMap<Owner, Session>,
    greetings: BTreeMap<Owner, Greeting>,
    /// The next number of a connection. 0 is the listener in `epoll`, and nobody in the engine.
    next_owner: Owner,
    board: Board,
    stats: HostdStats,
    ended_counts: SessionCounts,
}

impl std::fmt::Debug for Hostd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let socket = &self.options.socket;
        f.debug_struct("Hostd").field("local", &self.local).field("socket", socket).finish()
    }
}

/// The longest sleep: how soon the daemon notices that it should stop.
const NAP: Duration = Duration::from_millis(100);
/// How often a busy daemon looks for new connections and ended clients.
const LOOK: Duration = Duration::from_millis(1);
/// How long a connection may take to send its greeting.
const GREETING_TIME: Duration = Duration::from_secs(5);
/// How often stats are published.
const PUBLISH: Duration = Duration::from_millis(500);
/// How long clients may take to hear the last outcomes before the daemon ends.
const FAREWELL: Duration = Duration::from_millis(200);

impl Hostd {
    /// Binds the UDP address and the Unix socket.
    pub fn bind(address: SocketAddr, options: HostdOptions) -> Result<Self, HostError> {
        if !is_capacity(options.ring / 8) || !options.ring.is_multiple_of(8) {
            let message = "ring: must be a power of two from 64 KiB to 128 MiB";
            return Err(HostError::Transport(message.into()));
        }
        let file_error = |source| HostError::File { path: options.socket.clone(), source };
        let lock = lock(&options.socket)?;
        let socket = bind(address)?;
        let local = socket.local_addr().map_err(|e| HostError::socket(address, e))?;
        let engine = Engine::new(socket, local, options.endpoint.clone())?;
        let _ = std::fs::remove_file(&options.socket);
        let listener = UnixListener::bind(&options.socket).map_err(file_error)?;
        listener.set_nonblocking(true).map_err(file_error)?;
        if let Some(group) = options.group {
            std::os::unix::fs::chown(&options.socket, None, Some(group)).map_err(file_error)?;
        }
        let permissions = std::fs::Permissions::from_mode(options.mode);
        std::fs::set_permissions(&options.socket, permissions).map_err(file_error)?;
        let set_up = || {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            epoll::add(&epoll, &listener, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
            Ok(epoll)
        };
        let epoll = set_up().map_err(|e: rustix::io::Errno| file_error(e.into()))?;
        Ok(Hostd {
            engine,
            local,
            options,
            listener: Some(listener),
            epoll,
            _lock: lock,
            sessions: BTreeMap::new(),
            greetings: BTreeMap::new(),
            next_owner: 1,
            board: Board::default(),
            stats: HostdStats::default(),
            ended_counts: SessionCounts::default(),
        })
    }

    /// The address of the UDP socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Serves clients until `stop` is set, then lets messages end for a while. Calls `publish` twice
    /// a second.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        publish: &mut dyn FnMut(&HostdStats),
    ) -> Result<(), HostError> {
        let mut stops_at = None;
        let mut publish_at = Instant::now();
        let mut look_at = Instant::now();
        loop {
            let mut wake = self.engine.step();
            let now = Instant::now();
            if now >= look_at {
                self.look(now);
                look_at = now + LOOK;
            }
            if self.serve() {
                wake = self.engine.push();
            }
            if now >= publish_at {
                publish_at = now + PUBLISH;
                publish(&self.stats());
            }
            if let Some(reason) = self.engine.stopped() {
                let error = io::Error::other(reason.to_owned());
                self.take_leave();
                return Err(HostError::socket(self.local, error));
            }
            if stop.load(Ordering::Relaxed) {
                let until = *stops_at.get_or_insert_with(|| {
                    self.begin_stop();
                    now + self.options.grace
                });
                let is_settled =
                    self.engine.is_settled() && self.sessions.values().all(Session::is_settled);
                if is_settled || now >= until {
                    self.engine.close("the host daemon was stopped");
                    self.take_leave();
                    publish(&self.stats());
                    return Ok(());
                }
            }
            if self.sleep(wake) {
                look_at = Instant::now();
            }
        }
    }

    /// Sleeps until there is something to do. Returns whether a connection has something.
    fn sleep(&mut self, wake: Option<punctual_core::Instant>) -> bool {
        let Some(wake) = wake else { return false };
        let left = wake.saturating_since(self.engine.clock().now());
        if self.options.endpoint.spin || left <= WAKE_LATENESS {
            std::hint::spin_loop();
            return false;
        }
        let are_idle =
            self.sessions.values().all(|session| session.sleep() && !session.can_report());
        let has_news = !self.board.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        let mut is_rung = false;
        if are_idle && !has_news {
            let left = Duration::from_nanos((left - WAKE_LATENESS).as_nanos()).min(NAP);
            let waited = self.engine.wait_set().wait(Some(self.epoll.as_fd()), left);
            is_rung = waited.unwrap_or(false);
        }
        self.sessions.values().for_each(Session::wake);
        is_rung
    }

    /// Takes new connections, greetings and wake-ups, and notices clients that ended.
    fn look(&mut self, now: Instant) {
        let mut events = Vec::with_capacity(64);
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        let found =
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&no_wait));
        if found.is_err() {
            events.clear();
        }
        for event in events {
            match event.data.u64() {
                0 => self.take_connections(now),
                owner if self.greetings.contains_key(&owner) => self.take_greeting(owner),
                owner => self.take_wake_ups(owner),
            }
        }
        self.greetings.retain(|_, greeting| now < greeting.since + GREETING_TIME);
    }

    fn take_connections(&mut self, since: Instant) {
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) {
            let owner = self.next_owner;
            let is_ready = stream.set_nonblocking(true).is_ok()
                && self.greetings.len() < self.options.clients_max
                && epoll::add(
                    &self.epoll,
                    &stream,
                    epoll::EventData::new_u64(owner),
                    epoll::EventFlags::IN,
                )
                .is_ok();
            if !is_ready {
                self.stats.refused += 1;
                continue;
            }
            self.next_owner += 1;
            self.greetings.insert(owner, Greeting { stream, bytes: Vec::new(), since });
        }
    }

    fn take_greeting(&mut self, owner: Owner) {
        let Some(greeting) = self.greetings.get_mut(&owner) else { return };
        let mut bytes = [0; GREETING_BYTES];
        let room = GREETING_BYTES - greeting.bytes.len();
        match recv(&greeting.stream, &mut bytes[..room], RecvFlags::DONTWAIT) {
            Ok((count, _)) if count > 0 => greeting.bytes.extend_from_slice(&bytes[..count]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
            _ => {
                self.greetings.remove(&owner);
                return;
            }
        }
        let Ok(bytes) = <[u8; GREETING_BYTES]>::try_from(&greeting.bytes[..]) else { return };
        let Some(greeting) = self.greetings.remove(&owner) else { return };
        let refusal = match version_of(&bytes) {
            // Not one of ours: it gets no answer.
            None => {
                self.stats.violations += 1;
                return;
            }
            Some(VERSION) if self.listener.is_none() => Some(Refusal::Stopping),
            Some(VERSION) if self.sessions.len() >= self.options.clients_max => {
                Some(Refusal::TooManyClients)
            }
            Some(VERSION) => None,
            Some(_) => Some(Refusal::OtherVersion),
        };
        let result = match refusal {
            None => self.attach(owner, greeting.stream),
            Some(refusal) => self.refuse(&greeting.stream, refusal),
        };
        if result.is_err() {
            self.stats.refused += 1;
        }
    }

    fn welcome(&self, refusal: Option<Refusal>) -> Welcome {
        Welcome {
            refusal,
            version: VERSION,
            local: self.local,
            capacity: (self.options.ring / 8) as u64,
            send_memory: self.options.client_send_memory as u64,
        }
    }

    fn refuse(&mut self, stream: &UnixStream, refusal: Refusal) -> io::Result<()> {
        self.stats.refused += 1;
        let bytes = self.welcome(Some(refusal)).to_bytes();
        rustix::net::send(stream, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        Ok(())
    }

    fn attach(&mut self, owner: Owner, stream: UnixStream) -> io::Result<()> {
        let capacity = self.options.ring / 8;
        let Ok((file, memory)) = Memory::create(memory_words(capacity)) else {
            return self.refuse(&stream, Refusal::NoMemory);
        };
        let bytes = self.welcome(None).to_bytes();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&files));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&stream, &[IoSlice::new(&bytes)], &mut control, flags)?;
        let memory = Arc::new(memory);
        let reader = Reader::new(memory.clone(), capacity, false);
        let writer = Writer::new(memory, capacity, true);
        let options = &self.options;
        let limits = SessionLimits {
            send_memory: options.client_send_memory,
            services: options.client_services,
        };
        let receive = OwnerLimits {
            memory: options.client_receive_memory,
            messages: options.client_messages,
        };
        self.engine.add_owner(owner, receive);
        let session = Session::new(owner, stream, reader, writer, limits, self.board.clone());
        self.sessions.insert(owner, session);
        self.stats.attached += 1;
        Ok(())
    }

    /// Takes wake-ups from a client's socket, and notices its end.
    fn take_wake_ups(&mut self, owner: Owner) {
        let Some(session) = self.sessions.get_mut(&owner) else { return };
        let mut bytes = [0; 256];
        let is_there = match recv(session.stream(), &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((count, _)) => count > 0,
            Err(errno) => matches!(errno, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
        };
        if is_there {
            return;
        }
        // Its last frames may say goodbye. A ring has no more of them, whatever is written into it
        // by a process that still has the memory.
        let mut end = None;
        for _ in 0..self.options.ring / (HEADER_WORDS * 8) {
            match session.hear(&mut self.engine) {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => {
                    end = Some(why);
                    break;
                }
            }
        }
        self.end_session(owner, end);
    }

    /// Ends a session. Without a goodbye, the client's sends are cancelled.
    fn end_session(&mut self, owner: Owner, end: Option<SessionEnd>) {
        let Some(session) = self.sessions.remove(&owner) else { return };
        match end {
            Some(SessionEnd::Goodbye) => {}
            Some(SessionEnd::Violation) => self.stats.violations += 1,
            None => self.stats.crashed += 1,
        }
        self.ended_counts.add(&session.counts);
        self.engine.remove_owner(owner, end != Some(SessionEnd::Goodbye));
    }

    /// Passes news between the engine and the clients. Returns whether the engine has something new
    /// to do.
    fn serve(&mut self) -> bool {
        self.take_news();
        let mut is_busy = false;
        let mut ended = Vec::new();
        for (owner, session) in &mut self.sessions {
            let heard = session.hear(&mut self.engine);
            is_busy |= *heard.as_ref().unwrap_or(&true);
            let result = heard.and_then(|_| session.report(&mut self.engine));
            if let Err(end) = result {
                ended.push((*owner, end));
            }
        }
        for (owner, end) in ended {
            self.end_session(owner, Some(end));
            is_busy = true;
        }
        is_busy
    }

    fn take_news(&mut self) {
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        let news = std::mem::take(&mut *board);
        drop(board);
        for news in news {
            if let Some(session) = self.sessions.get_mut(&news.owner()) {
                session.note(news);
            }
        }
    }

    /// Takes no more clients, messages and services.
    fn begin_stop(&mut self) {
        self.listener = None;
        let _ = std::fs::remove_file(&self.options.socket);
        self.greetings.clear();
        for (owner, session) in &mut self.sessions {
            session.is_stopping = true;
            self.engine.release_claims(*owner);
        }
    }

    /// Tells clients the last outcomes, as far as they listen.
    fn take_leave(&mut self) {
        let until = Instant::now() + FAREWELL;
        loop {
            self.serve();
            if self.sessions.values().all(Session::is_settled) || Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What the daemon has done and what it holds.
    pub fn stats(&mut self) -> HostdStats {
        let engine = self.engine.take_stats().unwrap_or_default();
        let (flows, pull_queue) = self.engine.load();
        let [services, backlog, held] = self.engine.listening();
        let mut counts = self.ended_counts;
        let clients = self.sessions.iter().map(|(owner, session)| {
            counts.add(&session.counts);
            let (sends, messages) = session.messages();
            HostdClientStats {
                process: session.process,
                sends,
                messages,
                send_memory: session.send_memory,
                receive_memory: self.engine.taken_by(*owner).0,
            }
        });
        let clients = clients.collect();
        HostdStats {
            traffic: engine.traffic,
            clients,
            peers: engine.peers,
            flows,
            pull_queue,
            receive_memory: engine.receive_memory,
            send_memory: engine.send_memory,
            services,
            backlog,
            held,
            counts,
            ..self.stats.clone()
        }
    }
}

impl Drop for Hostd {
    fn drop(&mut self) {
        if self.listener.is_some() {
            let _ = std::fs::remove_file(&self.options.socket);
        }
    }
}

/// Locks the file beside a socket, and makes its directory if it is missing.
fn lock(socket: &Path) -> Result<File, HostError> {
    let mut name = socket.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let path = socket.with_file_name(name);
    let error = |source| HostError::File { path: path.clone(), source };
    if let Some(directory) = socket.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory).map_err(error)?;
    }
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(error)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(HostError::DaemonRunning(socket.into())),
        Err(errno) => Err(error(errno.into())),
    }
}
