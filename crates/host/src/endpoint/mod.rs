//! Messages between processes: many peers and flows on one UDP socket.

pub(crate) mod engine;
mod format;
#[cfg(test)]
#[allow(non_snake_case)]
mod fuzz;
mod handles;
mod inbound;
pub(crate) mod operations;
mod options;
mod peers;
mod pings;
pub(crate) mod runner;
mod services;
mod state;

pub use handles::{Incoming, Listener, SendHandle};
pub use options::{
    EndpointOptions, HardwareTrims, HostTransport, Outcome, ReceiveError, SendError, SendOptions,
    Times,
};

pub(crate) use pings::PingAnswer;
pub use pings::PingError;
pub use services::Service;
pub(crate) use services::{Owner, OwnerLimits};

use crate::driver::Traffic;
use crate::{HostError, bind};
use engine::{Engine, Reply};
use operations::Backend;
use runner::Shared;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// One UDP socket for messages to and from many peers. Clones share it.
///
/// When the last clone is dropped, sends have half a second to end. Then the port is free.
#[derive(Clone)]
pub struct Endpoint {
    shared: Backend,
    local: SocketAddr,
    _thread: Arc<BackgroundThread>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("local", &self.local).finish_non_exhaustive()
    }
}

/// Ends the background thread when the last endpoint is dropped.
struct BackgroundThread {
    shared: Backend,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        self.shared.begin_closing();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let (Backend::InProcess(_), Ok(mut closed_at)) = (&self.shared, CLOSED_AT.lock()) {
            *closed_at = Some(Instant::now());
        }
    }
}

/// When this process last closed an endpoint.
static CLOSED_AT: Mutex<Option<Instant>> = Mutex::new(None);

/// Lets as much time pass between two endpoints at one address as the restart of a process takes.
fn wait_after_close() {
    let closed_at = CLOSED_AT.lock().ok().and_then(|closed_at| *closed_at);
    if let Some(closed_at) = closed_at {
        std::thread::sleep(state::RESTART_MIN_STD.saturating_sub(closed_at.elapsed()));
    }
}

/// What an endpoint holds, for monitoring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Counts of datagrams.
    pub traffic: Traffic,
    /// Peers remembered.
    pub peers: usize,
    /// Memory of messages that are being received or wait to be read.
    pub receive_memory: usize,
    /// Memory of messages that are being sent.
    pub send_memory: usize,
    /// Messages that are being received or wait to be read.
    pub messages_in: usize,
    /// Messages that are being sent or wait for their outcome to be asked.
    pub messages_out: usize,
    /// Addresses of peers beside their main ones, which peers use as further paths.
    pub sources: usize,
}

/// How long [`Endpoint::listen`] waits for a daemon to know of it.
const LISTEN_PATIENCE: Duration = Duration::from_secs(5);

impl Endpoint {
    /// Binds `address`. Port 0 takes any free port. A port in use is
    /// [`HostError::AddressInUse`].
    pub fn bind(address: SocketAddr, options: EndpointOptions) -> Result<Self, HostError> {
        wait_after_close();
        let socket = bind(address)?;
        let local = socket.local_addr().map_err(|e| HostError::socket(address, e))?;
        let engine = Engine::new(socket, local, options)?;
        let shared = Shared::new(engine).map_err(|e| HostError::socket(local, e))?;
        Self::start(Backend::InProcess(Arc::new(shared)), local)
    }

    /// Starts the background thread.
    fn start(shared: Backend, local: SocketAddr) -> Result<Self, HostError> {
        let background = shared.clone();
        let thread = std::thread::Builder::new()
            .name("punctual".into())
            .spawn(move || background.run_background())
            .map_err(|e| HostError::socket(local, e))?;
        let thread = BackgroundThread { shared: shared.clone(), thread: Some(thread) };
        Ok(Endpoint { shared, local, _thread: Arc::new(thread) })
    }

    /// Attaches to the host daemon at this Unix socket, which sends and receives for all processes
    /// of the host. All else is as with [`bind`](Self::bind), except that the options are the
    /// daemon's.
    ///
    /// ```
    /// use punctual_host::{Endpoint, EndpointOptions, Hostd, HostdOptions, Outcome, SendOptions};
    /// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    ///
    /// static STOP: AtomicBool = AtomicBool::new(false);
    /// let dir = tempfile::tempdir()?;
    /// let socket = dir.path().join("hostd.sock");
    /// let options = HostdOptions { socket: socket.clone(), ..HostdOptions::default() };
    /// let mut daemon = Hostd::bind("127.0.0.1:0".parse()?, options)?;
    /// let running = std::thread::spawn(move || daemon.run(&STOP, &mut |_| {}));
    ///
    /// let server = Endpoint::attach(&socket)?;
    /// let listener = server.listen();
    /// let client = Endpoint::bind("127.0.0.1:0".parse()?, EndpointOptions::default())?;
    /// let send = client.send(server.local_addr(), "hello", &SendOptions::default())?;
    /// assert_eq!(listener.accept()?.read_to_end()?, b"hello");
    /// assert!(matches!(send.wait(), Outcome::Done(_)));
    /// # STOP.store(true, Relaxed);
    /// # running.join().expect("no panic")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attach(socket: impl AsRef<Path>) -> Result<Self, HostError> {
        let path = socket.as_ref();
        let (attachment, local) = crate::daemon::attach(path)?;
        let absent = |source| HostError::DaemonAbsent { path: path.into(), source };
        let shared = Shared::new(attachment).map_err(absent)?;
        Self::start(Backend::Attached(Arc::new(shared)), local)
    }

    /// Attaches to the host daemon that the environment variable `PUNCTUAL_HOSTD` names, if it is
    /// set. Otherwise binds `address` in this process.
    pub fn open(address: SocketAddr, options: EndpointOptions) -> Result<Self, HostError> {
        match std::env::var_os(crate::HOSTD_VARIABLE).filter(|socket| !socket.is_empty()) {
            Some(socket) => Self::attach(std::path::PathBuf::from(socket)),
            None => Self::bind(address, options),
        }
    }

    /// The address of the socket, which is the daemon's if the endpoint is attached to one.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Sends a message. The handle's [`wait`](SendHandle::wait) returns how it ended. A handle that
    /// is dropped does not cancel the send.
    pub fn send(
        &self,
        peer: SocketAddr,
        bytes: impl Into<Vec<u8>>,
        options: &SendOptions,
    ) -> Result<SendHandle, SendError> {
        self.submit(peer, bytes.into(), Reply::None, options)
    }

    /// Sends a request. [`SendHandle::wait_response`] returns its response. The deadline is that of
    /// the pair.
    ///
    /// ```
    /// # use punctual_host::{Endpoint, EndpointOptions, SendOptions};
    /// # use std::time::Duration;
    /// let server = Endpoint::bind("127.0.0.1:0".parse()?, EndpointOptions::default())?;
    /// let address = server.local_addr();
    /// let listener = server.listen();
    /// let serving = std::thread::spawn(move || {
    ///     let mut request = listener.accept().expect("a request");
    ///     let mut bytes = request.read_to_end().expect("its bytes");
    ///     bytes.reverse();
    ///     request.respond(bytes).expect("a send").wait()
    /// });
    /// let client = Endpoint::bind("127.0.0.1:0".parse()?, EndpointOptions::default())?;
    /// let deadline = Some(Duration::from_secs(2));
    /// let options = SendOptions { deadline, ..SendOptions::default() };
    /// let (outcome, response) = client.request(address, "abc", &options)?.wait_response();
    /// assert_eq!(response.as_deref(), Some(&b"cba"[..]), "{outcome:?}");
    /// # serving.join().expect("no panic");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn request(
        &self,
        peer: SocketAddr,
        bytes: impl Into<Vec<u8>>,
        options: &SendOptions,
    ) -> Result<SendHandle, SendError> {
        self.submit(peer, bytes.into(), Reply::Wanted, options)
    }

    fn submit(
        &self,
        peer: SocketAddr,
        bytes: Vec<u8>,
        reply: Reply,
        options: &SendOptions,
    ) -> Result<SendHandle, SendError> {
        let id = self.shared.call(|engine| engine.submit(peer, bytes, reply, options))?;
        Ok(SendHandle::new(self.shared.clone(), id))
    }

    /// Accepts messages from now on. Until then, peers learn that nobody listens here.
    pub fn listen(&self) -> Listener {
        let service = Service::default();
        self.shared.call(|engine| engine.listen(service));
        // A daemon refuses messages until it knows of the listener. `accept` returns its refusal.
        let patience = Instant::now() + LISTEN_PATIENCE;
        let _ = self.shared.wait(Some(patience), |engine| engine.listens(service));
        Listener::new(self.clone(), service)
    }

    /// Accepts messages to a service from now on.
    pub fn listen_for(&self, service: Service) -> Result<Listener, ReceiveError> {
        self.shared.call(|engine| engine.listen(service));
        let listens = self.shared.wait(None, |engine| engine.listens(service));
        listens.unwrap_or(Err(ReceiveError::Closed))?;
        Ok(Listener::new(self.clone(), service))
    }

    /// Measures a round trip to another endpoint, which answers in its engine.
    ///
    /// # Errors
    ///
    /// No answer comes in time, or the peer reads another version of the packet format.
    pub fn ping(&self, peer: SocketAddr, timeout: Duration) -> Result<Duration, PingError> {
        let start = Instant::now();
        let number = self.shared.call(|engine| engine.send_ping(peer));
        let answer = |engine: &mut dyn operations::Operations| engine.take_pong(peer, number);
        match self.shared.wait(Some(start + timeout), answer) {
            Some(PingAnswer::Pong) => Ok(start.elapsed()),
            Some(PingAnswer::OtherVersion(theirs)) => {
                Err(PingError::OtherVersion { peer, theirs, ours: punctual_wire::VERSION })
            }
            None => Err(PingError::NoAnswer { peer, waited: timeout }),
        }
    }

    /// What the endpoint holds now.
    pub fn stats(&self) -> EndpointStats {
        self.shared.call(|engine| engine.ask_stats());
        let stats = self.shared.wait(None, |engine| engine.take_stats());
        // A wait without a time limit returns something.
        stats.unwrap_or_default()
    }
}
