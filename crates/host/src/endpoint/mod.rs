//! Messages between processes: many peers and flows on one UDP socket.

mod engine;
mod format;
mod handles;
mod inbound;
mod options;
mod peers;
mod runner;
mod state;

pub use handles::{Incoming, Listener, SendHandle};
pub use options::{
    EndpointOptions, HostTransport, Outcome, ReceiveError, SendError, SendOptions, Times,
};

use crate::driver::Traffic;
use crate::{HostError, bind};
use engine::{Engine, Reply};
use runner::Shared;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// One UDP socket for messages to and from many peers. Clones share it.
///
/// When the last clone is dropped, sends have half a second to end. Then the port is free.
#[derive(Clone)]
pub struct Endpoint {
    shared: Arc<Shared>,
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
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        self.shared.begin_closing();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Ok(mut closed_at) = CLOSED_AT.lock() {
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

impl Endpoint {
    /// Binds `address`. Port 0 takes any free port. A port in use is
    /// [`HostError::AddressInUse`].
    pub fn bind(address: SocketAddr, options: EndpointOptions) -> Result<Self, HostError> {
        wait_after_close();
        let socket = bind(address)?;
        let local = socket.local_addr().map_err(|e| HostError::socket(address, e))?;
        let engine = Engine::new(socket, local, options)?;
        let shared = Shared::new(engine).map_err(|e| HostError::socket(local, e))?;
        let shared = Arc::new(shared);
        let background = shared.clone();
        let thread = std::thread::Builder::new()
            .name("punctual".into())
            .spawn(move || background.run_background())
            .map_err(|e| HostError::socket(local, e))?;
        let thread = BackgroundThread { shared: shared.clone(), thread: Some(thread) };
        Ok(Endpoint { shared, local, _thread: Arc::new(thread) })
    }

    /// The address of the socket.
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
        let HostTransport::Ndp = options.transport;
        let id = self.shared.call(|engine| engine.submit(peer, bytes, reply, options))?;
        Ok(SendHandle::new(self.shared.clone(), id))
    }

    /// Accepts messages from now on. Until then, peers learn that nobody listens here.
    pub fn listen(&self) -> Listener {
        self.shared.look(|engine| engine.state.is_listening = true);
        Listener::new(self.clone())
    }

    /// Measures a round trip to another endpoint, which answers in its engine. `None` if no answer
    /// comes in time.
    pub fn ping(&self, peer: SocketAddr, timeout: Duration) -> Option<Duration> {
        let start = Instant::now();
        let number = self.shared.call(|engine| {
            let number = engine.state.next_id;
            engine.state.next_id = number.wrapping_add(1);
            engine.state.control(peer, 0, format::Control::Ping(number));
            number
        });
        self.shared.wait(Some(start + timeout), |engine| {
            let pongs = &mut engine.state.pongs;
            let at = pongs.iter().position(|pong| *pong == (peer, number))?;
            pongs.swap_remove(at);
            Some(start.elapsed())
        })
    }

    /// What the endpoint holds now.
    pub fn stats(&self) -> EndpointStats {
        self.shared.look(|engine| EndpointStats {
            traffic: engine.traffic().clone(),
            peers: engine.state.peers.len(),
            receive_memory: engine.state.receive_memory,
            send_memory: engine.state.send_memory,
            messages_in: engine.state.inbound.len(),
            messages_out: engine.state.outbound.len(),
        })
    }
}
