//! Receiving a file.
//!
//! Anybody can send a first packet. So each flow is a *candidate* with a file of its own, and a
//! flow that is no file, stalls or lies about its address does not keep an honest sender away. The
//! first file that is complete and has the right hash is stored.

use crate::candidate::{Candidate, Progress};
use crate::driver::{Application, Driver, DriverError, Offer};
use crate::intake::Intake;
use crate::partial::PartialFile;
use crate::stream::{Answer, Preamble, Verdict};
use crate::{Hash, HostError, ReceiveOptions, ReceiveReport, bind};
use punctual_core::{Bytes, Duration, FlowEvent, FlowId, Instant, Transport};
use punctual_wire::{Codec, NdpCodec};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Most candidates at once. A new flow replaces the oldest one that has not shown a preamble.
const CANDIDATES_MAX: usize = 8;

/// How often a wait looks at [`LinkOptions::stop`](crate::LinkOptions::stop).
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Waits at `listen` for one file over NDP and stores it as `out`.
pub fn receive_file(
    listen: SocketAddr,
    out: &Path,
    options: &ReceiveOptions,
) -> Result<ReceiveReport, HostError> {
    Receiver::bind(listen)?.receive(out, options)
}

/// A bound socket that can receive a file. Its address is known before it starts to wait.
#[derive(Debug)]
pub struct Receiver {
    socket: UdpSocket,
    listen: SocketAddr,
}

impl Receiver {
    /// Binds the address. Port 0 takes any free port.
    pub fn bind(listen: SocketAddr) -> Result<Self, HostError> {
        let socket = bind(listen)?;
        let listen = socket.local_addr().map_err(|e| HostError::socket(listen, e))?;
        Ok(Receiver { socket, listen })
    }

    /// The address to send to.
    pub fn local_addr(&self) -> SocketAddr {
        self.listen
    }

    /// Receives one file and stores it as `out`. The file gets this name when it is complete, its
    /// hash matches and it is on the disk.
    pub fn receive(self, out: &Path, options: &ReceiveOptions) -> Result<ReceiveReport, HostError> {
        self.receive_over(options.link.ndp.clone(), NdpCodec, out, options)
    }

    /// Receives over any transport that has a wire format. [`LinkOptions::ndp`] is validated, but
    /// not used.
    ///
    /// [`LinkOptions::ndp`]: crate::LinkOptions::ndp
    pub fn receive_over<T: Transport, C: Codec>(
        self,
        transport: T,
        codec: C,
        out: &Path,
        options: &ReceiveOptions,
    ) -> Result<ReceiveReport, HostError> {
        let Receiver { socket, listen } = self;
        let link = options.link.driver(listen.is_ipv6())?;
        // Errors of the directory are reported before anybody sends.
        drop(PartialFile::create(out, options.overwrite)?);
        let driver = Driver::new(transport, codec, socket, link)
            .map_err(|source| HostError::Socket { address: listen, source })?;
        let app = FileReceiver {
            out: out.into(),
            overwrite: options.overwrite,
            candidates: Vec::new(),
            replaced: Vec::new(),
            answers: BTreeMap::new(),
            is_closed: false,
            error: None,
        };
        Session { driver, app, options, listen }.run()
    }
}

struct Session<'a, T: Transport, C: Codec> {
    driver: Driver<T, C>,
    app: FileReceiver,
    options: &'a ReceiveOptions,
    listen: SocketAddr,
}

/// A transfer that has ended.
struct Ended {
    candidate: Candidate,
    preamble: Preamble,
}

impl<T: Transport, C: Codec> Session<'_, T, C> {
    fn run(mut self) -> Result<ReceiveReport, HostError> {
        let wait = self.options.wait;
        let until = wait.map_or(Instant::NEVER, |wait| self.driver.now().saturating_add(wait));
        loop {
            let is_behind = match self.judge_all()? {
                Some(ended) => return self.store(ended),
                None => self.app.candidates.iter().any(|c| c.is_behind),
            };
            let now = self.driver.now();
            let is_underway = self.app.candidates.iter().any(|c| self.is_underway(c));
            if let (true, Some(waited), false) = (now >= until, wait, is_underway) {
                return Err(HostError::NoSender { listen: self.listen, waited });
            }
            // Does not wait while bytes are left to hash. A wait without limit is split.
            let pause = Duration::from_millis(if is_behind { 0 } else { 1_000 });
            self.turn(now.saturating_add(pause))?;
        }
    }

    /// Judges every candidate. Returns the first complete file with the right hash.
    fn judge_all(&mut self) -> Result<Option<Ended>, HostError> {
        if let Some(error) = self.app.error.take() {
            return Err(error);
        }
        for flow in std::mem::take(&mut self.app.replaced) {
            self.driver.close(flow);
        }
        let mut at = 0;
        while at < self.app.candidates.len() {
            let progress = self.app.candidates[at].judge(self.options.size_max);
            if matches!(progress, Progress::Underway) {
                at += 1;
                continue;
            }
            let candidate = self.app.candidates.remove(at);
            match progress {
                Progress::Underway | Progress::Foreign => self.driver.close(candidate.flow),
                Progress::Complete(preamble) => return Ok(Some(Ended { candidate, preamble })),
                Progress::Stalled => {
                    // Data that was pulled shows that the peer exists.
                    if self.is_underway(&candidate) {
                        let waited = self.options.link.silence;
                        let last_error = self.driver.take_last_error();
                        let peer = candidate.peer;
                        return Err(HostError::PeerSilent { peer, waited, last_error });
                    }
                }
                Progress::Failed(nonce, error) => {
                    let answer = Answer { nonce, verdict: verdict_of(&error), hash: NO_HASH };
                    let is_local = matches!(error, HostError::File { .. } | HostError::DiskFull(_));
                    self.driver.close(candidate.flow);
                    // An acknowledged answer shows that the peer exists.
                    if self.answer(&[(candidate.peer, answer)])? || is_local {
                        return Err(error);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Whether more has arrived than a sender may send without an answer.
    fn is_underway(&self, candidate: &Candidate) -> bool {
        let first_window =
            u64::from(self.options.link.ndp.initial_window) * self.options.link.mtu.get();
        candidate.completed_at.is_some() || candidate.arrived.total() > first_window
    }

    fn turn(&mut self, until: Instant) -> Result<(), HostError> {
        if self.options.link.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(HostError::Interrupted);
        }
        let until = match self.options.link.stop {
            Some(_) => until.min(self.driver.now().saturating_add(STOP_INTERVAL)),
            None => until,
        };
        self.driver.turn(&mut self.app, until).map_err(|error| match error {
            DriverError::Write(error) => HostError::writing(&self.app.out, error),
            source => HostError::Socket { address: self.listen, source },
        })
    }

    /// Stores the file and tells every sender how its transfer ended.
    fn store(mut self, ended: Ended) -> Result<ReceiveReport, HostError> {
        let Ended { mut candidate, preamble } = ended;
        self.app.is_closed = true;
        let stored = candidate.intake.partial.keep();
        let stored_at = self.driver.now();
        let verdict = stored.as_ref().map_or_else(verdict_of, |()| Verdict::Verified);
        let answer = Answer { nonce: preamble.nonce, verdict, hash: preamble.hash };
        let mut answers = vec![(candidate.peer, answer)];
        for other in std::mem::take(&mut self.app.candidates) {
            self.driver.close(other.flow);
            if let (true, Some(nonce)) = (self.is_underway(&other), other.nonce()) {
                let answer = Answer { nonce, verdict: Verdict::Busy, hash: NO_HASH };
                answers.push((other.peer, answer));
            }
        }
        // An answer that cannot be delivered does not change the outcome here.
        let _ = self.answer(&answers);
        stored?;
        let duration = stored_at.saturating_since(candidate.started_at);
        Ok(ReceiveReport {
            peer: candidate.peer,
            bytes: preamble.len,
            hash: preamble.hash,
            duration,
            deadline: preamble.deadline,
            deadline_met: preamble.deadline.map(|d| duration <= d),
            trims: candidate.trims,
            traffic: self.driver.traffic().clone(),
        })
    }

    /// Sends answers until all are acknowledged or the peers have been silent for too long. Returns
    /// whether the first one was acknowledged.
    fn answer(&mut self, answers: &[(SocketAddr, Answer)]) -> Result<bool, HostError> {
        let mut flows = Vec::new();
        for (peer, answer) in answers {
            let socket_error = |source| HostError::Socket { address: *peer, source };
            let size = Bytes::new(Answer::BYTES as u64);
            let flow = self.driver.open(*peer, size, None, &mut self.app).map_err(socket_error)?;
            self.app.answers.insert(flow, (answer.to_bytes(), false));
            flows.push(flow);
        }
        let give_up_at = self.driver.now().saturating_add(self.options.link.silence);
        while flows.iter().any(|flow| self.driver.is_open(*flow)) && self.driver.now() < give_up_at
        {
            self.turn(give_up_at)?;
        }
        let first = flows.first().and_then(|flow| self.app.answers.get(flow));
        let is_acknowledged = first.is_some_and(|(_, is_acknowledged)| *is_acknowledged);
        flows.iter().for_each(|flow| self.driver.close(*flow));
        self.app.answers.clear();
        Ok(is_acknowledged)
    }
}

/// The hash in an answer to a transfer that failed.
const NO_HASH: Hash = Hash([0; 32]);

fn verdict_of(error: &HostError) -> Verdict {
    match error {
        HostError::HashMismatch(_) => Verdict::HashMismatch,
        HostError::DiskFull(_) => Verdict::DiskFull,
        HostError::TooLarge { .. } => Verdict::TooLarge,
        HostError::NotOurs(_) => Verdict::OtherVersion,
        _ => Verdict::WriteFailed,
    }
}

struct FileReceiver {
    out: PathBuf,
    overwrite: bool,
    candidates: Vec<Candidate>,
    /// Flows of candidates that were replaced, to be closed.
    replaced: Vec<FlowId>,
    /// Answers being sent, and whether each was acknowledged.
    answers: BTreeMap<FlowId, ([u8; Answer::BYTES], bool)>,
    /// Whether no more flows are accepted.
    is_closed: bool,
    /// Why no file can be written.
    error: Option<HostError>,
}

impl FileReceiver {
    fn candidate(&mut self, flow: FlowId) -> Option<&mut Candidate> {
        self.candidates.iter_mut().find(|c| c.flow == flow)
    }
}

impl Application for FileReceiver {
    fn accept(&mut self, offer: &Offer) -> bool {
        if self.is_closed || offer.size < Bytes::new(Preamble::BYTES as u64) {
            return false;
        }
        if self.candidates.len() >= CANDIDATES_MAX {
            let Some(at) = self.candidates.iter().position(|c| c.opening.is_none()) else {
                return false;
            };
            self.replaced.push(self.candidates.remove(at).flow);
        }
        match PartialFile::create(&self.out, self.overwrite) {
            Ok(partial) => self.candidates.push(Candidate::new(offer, Intake::new(partial))),
            Err(error) => self.error = Some(error),
        }
        self.error.is_none()
    }

    fn read(&mut self, flow: FlowId, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let Some((answer, _)) = self.answers.get(&flow) else { return Ok(()) };
        let start = offset.min(Answer::BYTES as u64) as usize;
        for (to, from) in into.iter_mut().zip(&answer[start..]) {
            *to = *from;
        }
        Ok(())
    }

    fn write(&mut self, flow: FlowId, offset: u64, data: &[u8]) -> io::Result<()> {
        // An error concerns this candidate alone.
        if let Some(candidate) = self.candidate(flow) {
            candidate.write(offset, data);
        }
        Ok(())
    }

    fn handle_event(&mut self, flow: FlowId, now: Instant, event: FlowEvent) {
        if let (FlowEvent::Finished, Some((_, is_acknowledged))) =
            (&event, self.answers.get_mut(&flow))
        {
            *is_acknowledged = true;
        }
        let Some(candidate) = self.candidate(flow) else { return };
        match event {
            FlowEvent::Completed => candidate.completed_at = Some(now),
            FlowEvent::Abandoned => candidate.is_stalled = true,
            FlowEvent::Trimmed => candidate.trims += 1,
            _ => {}
        }
    }
}
