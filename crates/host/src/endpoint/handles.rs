//! What applications hold: sends under way, a listener, messages that arrive.

use super::engine::{Engine, Reply};
use super::format::{End, Purpose};
use super::options::{Outcome, ReceiveError, SendError, SendOptions, Times};
use super::runner::Shared;
use super::state::from_core;
use super::{Endpoint, state};
use std::future::Future;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A send under way. Dropping it lets the send go on.
///
/// It is also a future, for any runtime.
pub struct SendHandle {
    shared: Arc<Shared>,
    id: u64,
    is_taken: bool,
}

impl std::fmt::Debug for SendHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendHandle").field("id", &self.id).finish_non_exhaustive()
    }
}

fn take_outcome(engine: &mut Engine, id: u64) -> Option<(Outcome, Option<Vec<u8>>)> {
    let Some(outbound) = engine.state.outbound.get_mut(&id) else {
        let times = Times { elapsed: Duration::ZERO, deadline: None, retransmits: 0 };
        let error = SendError::Closed("the outcome was taken already".into());
        return Some((Outcome::Failed(error, times), None));
    };
    let outcome = outbound.outcome.take()?;
    let response = outbound.response;
    let bytes = response.filter(|_| outcome.is_delivered()).and_then(|response| {
        let inbound = engine.state.inbound.get_mut(&response)?;
        let mut bytes = vec![0; inbound.readable()];
        inbound.take(&mut bytes);
        Some(bytes)
    });
    engine.state.forget_outbound(id);
    Some((outcome, bytes))
}

impl SendHandle {
    pub(super) fn new(shared: Arc<Shared>, id: u64) -> Self {
        SendHandle { shared, id, is_taken: false }
    }

    /// Waits until the send has ended.
    pub fn wait(self) -> Outcome {
        self.wait_response().0
    }

    /// Waits until the send has ended. The bytes are the response to a request, if it came.
    pub fn wait_response(mut self) -> (Outcome, Option<Vec<u8>>) {
        let id = self.id;
        let result = self.shared.wait(None, |engine| take_outcome(engine, id));
        self.is_taken = true;
        // A wait without a time limit returns something.
        result.unwrap_or_else(|| unreachable!("the wait has no limit"))
    }

    /// Waits until the send has ended, at most for this time.
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<Outcome, SendHandle> {
        let (id, until) = (self.id, Instant::now() + timeout);
        match self.shared.wait(Some(until), |engine| take_outcome(engine, id)) {
            Some((outcome, _)) => {
                self.is_taken = true;
                Ok(outcome)
            }
            None => Err(self),
        }
    }

    /// Abandons the send. Its outcome is [`Outcome::GivenUp`] if the peer confirms that it does not
    /// have the message, or one that says that it was delivered.
    pub fn cancel(&self) {
        self.shared.call(|engine| engine.cancel(self.id));
    }

    /// Changes the deadline, which counts from the submission; `None` removes it.
    pub fn set_deadline(&self, deadline: Option<Duration>) {
        self.shared.call(|engine| engine.set_deadline(self.id, deadline));
    }
}

impl Future for SendHandle {
    type Output = (Outcome, Option<Vec<u8>>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let id = self.id;
        let result = self.shared.look(|engine| {
            let result = take_outcome(engine, id);
            if let (None, Some(outbound)) = (&result, engine.state.outbound.get_mut(&id)) {
                outbound.waker = Some(cx.waker().clone());
            }
            result
        });
        match result {
            Some(result) => {
                self.is_taken = true;
                Poll::Ready(result)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for SendHandle {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        self.shared.look(|engine| {
            let Some(outbound) = engine.state.outbound.get_mut(&self.id) else { return };
            outbound.is_detached = true;
            if outbound.outcome.is_some() {
                engine.state.forget_outbound(self.id);
            }
        });
    }
}

/// Accepts the messages that peers send.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
}

impl Listener {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Listener { endpoint }
    }

    fn take(&self, engine: &mut Engine) -> Option<Result<Incoming, ReceiveError>> {
        if let Some(id) = engine.state.backlog.pop_front() {
            let inbound = engine.state.inbound.get(&id)?;
            let opening = inbound.opening?;
            let until = match opening.deadline_us {
                0 => None,
                us => Some(
                    inbound.started_at.saturating_add(state::to_core(Duration::from_micros(us))),
                ),
            };
            return Some(Ok(Incoming {
                shared: self.endpoint.shared.clone(),
                id,
                peer: inbound.peer,
                len: inbound.len,
                deadline: until,
                request: (opening.purpose == Purpose::Request).then_some(opening.id),
            }));
        }
        engine.closed.as_ref().map(|_| Err(ReceiveError::Closed))
    }

    /// Waits for a message. It is returned when its first bytes are here.
    pub fn accept(&self) -> Result<Incoming, ReceiveError> {
        let accepted = self.endpoint.shared.wait(None, |engine| self.take(engine));
        accepted.unwrap_or(Err(ReceiveError::Closed))
    }

    /// Waits for a message, at most for this time.
    pub fn accept_timeout(&self, timeout: Duration) -> Option<Result<Incoming, ReceiveError>> {
        self.endpoint.shared.wait(Some(Instant::now() + timeout), |engine| self.take(engine))
    }

    /// A future of the next message, for any runtime.
    pub fn accept_async(&self) -> impl Future<Output = Result<Incoming, ReceiveError>> + '_ {
        std::future::poll_fn(|cx| {
            self.endpoint.shared.look(|engine| match self.take(engine) {
                Some(accepted) => Poll::Ready(accepted),
                None => {
                    engine.state.accept_waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            })
        })
    }
}

/// A message that arrives. Its bytes are read in order, as they come.
///
/// Dropping it before its end refuses the rest: its sender's outcome is then
/// [`SendError::Refused`].
pub struct Incoming {
    shared: Arc<Shared>,
    id: u64,
    peer: SocketAddr,
    len: u64,
    deadline: Option<punctual_core::Instant>,
    request: Option<u64>,
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming").field("peer", &self.peer).field("len", &self.len).finish()
    }
}

impl Incoming {
    /// The sender.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Bytes of the message.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the sender waits for a response.
    pub fn is_request(&self) -> bool {
        self.request.is_some()
    }

    /// Time left until the sender's deadline, counted from the arrival of the first packet. `None`
    /// without a deadline.
    pub fn deadline_left(&self) -> Option<Duration> {
        let deadline = self.deadline?;
        self.shared.look(|engine| Some(from_core(deadline.saturating_since(engine.now()))))
    }

    /// Reads the rest of the message.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>, ReceiveError> {
        let mut bytes = Vec::new();
        let mut part = vec![0; usize::try_from(self.len).map_or(1 << 16, |n| n.clamp(1, 1 << 16))];
        loop {
            match self.read_some(&mut part)? {
                0 => return Ok(bytes),
                count => bytes.extend_from_slice(&part[..count]),
            }
        }
    }

    /// Waits for bytes of the message and reads them. 0 is its end.
    pub fn read_some(&mut self, into: &mut [u8]) -> Result<usize, ReceiveError> {
        let id = self.id;
        let read = self.shared.wait(None, |engine| engine.read(id, into));
        read.unwrap_or(Err(ReceiveError::Closed))
    }

    /// Polls for bytes of the message. 0 is its end.
    pub fn poll_read_some(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, ReceiveError>> {
        let id = self.id;
        self.shared.call(|engine| match engine.read(id, into) {
            Some(read) => Poll::Ready(read),
            None => {
                if let Some(inbound) = engine.state.inbound.get_mut(&id) {
                    inbound.waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        })
    }

    /// Reads the rest of the message, as a future for any runtime.
    pub async fn read_to_end_async(&mut self) -> Result<Vec<u8>, ReceiveError> {
        let mut bytes = Vec::new();
        let mut part = vec![0; 1 << 16];
        loop {
            match std::future::poll_fn(|cx| self.poll_read_some(cx, &mut part)).await? {
                0 => return Ok(bytes),
                count => bytes.extend_from_slice(&part[..count]),
            }
        }
    }

    /// Answers a request, before the deadline of the pair. The response to a message that is no
    /// request is an error.
    pub fn respond(&self, bytes: impl Into<Vec<u8>>) -> Result<SendHandle, SendError> {
        let Some(request) = self.request else { return Err(SendError::Refused(self.peer)) };
        let left = self.deadline_left();
        // A late response is still of use to a client that waits for it.
        let deadline = left.map(|left| left.max(Duration::from_nanos(1)));
        let options = SendOptions { deadline, ..SendOptions::default() };
        let reply = Reply::To { request, request_bytes: self.len, inbound: self.id };
        let (peer, bytes) = (self.peer, bytes.into());
        let id = self.shared.call(|engine| engine.submit(peer, bytes, reply, &options))?;
        Ok(SendHandle::new(self.shared.clone(), id))
    }
}

impl Read for Incoming {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.read_some(into)?)
    }
}

#[cfg(feature = "tokio")]
impl tokio::io::AsyncRead for Incoming {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.poll_read_some(cx, into.initialize_unfilled()) {
            Poll::Ready(Ok(count)) => {
                into.advance(count);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.shared.call(|engine| engine.state.refuse_inbound(self.id, End::Refused));
    }
}
