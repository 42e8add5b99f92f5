//! What applications hold: sends under way, a listener, messages that arrive.

use super::Endpoint;
use super::engine::Reply;
use super::operations::{Arrival, Backend, Operations};
use super::options::{Outcome, ReceiveError, SendError, SendOptions};
use super::services::Service;
use std::future::Future;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A send under way. Dropping it lets the send go on.
///
/// It is also a future, for any runtime.
pub struct SendHandle {
    shared: Backend,
    id: u64,
    is_taken: bool,
}

impl std::fmt::Debug for SendHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendHandle").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SendHandle {
    pub(super) fn new(shared: Backend, id: u64) -> Self {
        SendHandle { shared, id, is_taken: false }
    }

    /// Waits until the send has ended.
    pub fn wait(self) -> Outcome {
        self.wait_response().0
    }

    /// Waits until the send has ended. The bytes are the response to a request, if it came.
    pub fn wait_response(mut self) -> (Outcome, Option<Vec<u8>>) {
        let id = self.id;
        let result = self.shared.wait(None, |engine| engine.take_outcome(id));
        self.is_taken = true;
        // A wait without a time limit returns something.
        result.unwrap_or_else(|| unreachable!("the wait has no limit"))
    }

    /// Waits until the send has ended, at most for this time.
    pub fn wait_timeout(self, timeout: Duration) -> Result<Outcome, SendHandle> {
        self.wait_response_timeout(timeout).map(|(outcome, _)| outcome)
    }

    /// Waits until the send has ended, at most for this time. The bytes are the response to a
    /// request, if it came.
    pub fn wait_response_timeout(
        mut self,
        timeout: Duration,
    ) -> Result<(Outcome, Option<Vec<u8>>), SendHandle> {
        let (id, until) = (self.id, Instant::now() + timeout);
        match self.shared.wait(Some(until), |engine| engine.take_outcome(id)) {
            Some(ended) => {
                self.is_taken = true;
                Ok(ended)
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
            let result = engine.take_outcome(id);
            if result.is_none() {
                engine.watch_outcome(id, cx.waker());
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
        self.shared.look(|engine| engine.detach(self.id));
    }
}

/// Accepts the messages that peers send.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    service: Service,
}

impl Listener {
    pub(super) fn new(endpoint: Endpoint, service: Service) -> Self {
        Listener { endpoint, service }
    }

    fn take(&self, engine: &mut dyn Operations) -> Option<Result<Incoming, ReceiveError>> {
        let arrival = match engine.take_arrival(self.service)? {
            Ok(arrival) => arrival,
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(Incoming { shared: self.endpoint.shared.clone(), arrival }))
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
                    engine.watch_arrivals(self.service, cx.waker());
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
    shared: Backend,
    arrival: Arrival,
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Arrival { peer, len, .. } = &self.arrival;
        f.debug_struct("Incoming").field("peer", peer).field("len", len).finish()
    }
}

/// Bytes that [`Incoming::read_to_end`] reads at once.
const READ_BYTES: usize = 1 << 16;

impl Incoming {
    /// The sender.
    pub fn peer(&self) -> SocketAddr {
        self.arrival.peer
    }

    /// Bytes of the message.
    pub fn len(&self) -> u64 {
        self.arrival.len
    }

    /// Whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.arrival.len == 0
    }

    /// Whether the sender waits for a response.
    pub fn is_request(&self) -> bool {
        self.arrival.request.is_some()
    }

    /// Time left until the sender's deadline, counted from the arrival of the first packet. `None`
    /// without a deadline.
    pub fn deadline_left(&self) -> Option<Duration> {
        Some(self.arrival.deadline?.saturating_duration_since(Instant::now()))
    }

    /// Reads the rest of the message.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>, ReceiveError> {
        // No more memory than has arrived, whatever the sender says.
        let mut bytes = Vec::new();
        let mut done = 0;
        while (done as u64) < self.arrival.len {
            if done == bytes.len() {
                let left = usize::try_from(self.arrival.len).unwrap_or(usize::MAX) - done;
                bytes.resize(done + left.min(READ_BYTES), 0);
            }
            match self.read_some(&mut bytes[done..])? {
                0 => break,
                count => done += count,
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    /// Waits for bytes of the message and reads them. 0 is its end.
    pub fn read_some(&mut self, into: &mut [u8]) -> Result<usize, ReceiveError> {
        let id = self.arrival.id;
        let read = self.shared.wait(None, |engine| engine.read(id, into));
        read.unwrap_or(Err(ReceiveError::Closed))
    }

    /// Polls for bytes of the message. 0 is its end.
    pub fn poll_read_some(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, ReceiveError>> {
        let id = self.arrival.id;
        self.shared.call(|engine| match engine.read(id, into) {
            Some(read) => Poll::Ready(read),
            None => {
                engine.watch_bytes(id, cx.waker());
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
        let Arrival { id, peer, len, request, .. } = self.arrival;
        let Some(request) = request else { return Err(SendError::Refused(peer)) };
        let left = self.deadline_left();
        // A late response is still of use to a client that waits for it.
        let deadline = left.map(|left| left.max(Duration::from_nanos(1)));
        let options = SendOptions { deadline, ..SendOptions::default() };
        let reply = Reply::To { request, request_bytes: len, inbound: id };
        let bytes = bytes.into();
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
        self.shared.call_quietly(|engine| engine.release(self.arrival.id));
    }
}
