//! Receiving a file.

use crate::driver::{Application, Driver, DriverError, Offer};
use crate::intake::Intake;
use crate::options::VERDICT_PATIENCE;
use crate::partial::Partial;
use crate::stream::{Preamble, Verdict};
use crate::{HostError, ReceiveOptions, ReceiveReport, bind};
use punctual_core::{Bytes, FlowEvent, FlowId, Instant, RangeSet, Transport};
use punctual_wire::{Codec, NdpCodec};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

/// Waits at `listen` for one file over NDP and stores it at `out`.
pub fn receive_file(
    listen: SocketAddr,
    out: &Path,
    options: &ReceiveOptions,
) -> Result<ReceiveReport, HostError> {
    Receiver::bind(listen)?.receive(out, options)
}

/// A socket that waits for a file: between its two steps its address can be told to senders.
#[derive(Debug)]
pub struct Receiver {
    socket: UdpSocket,
    listen: SocketAddr,
}

impl Receiver {
    /// Takes the address. Port 0 takes any that is free.
    pub fn bind(listen: SocketAddr) -> Result<Self, HostError> {
        let socket = bind(listen)?;
        let listen = socket.local_addr().map_err(|e| HostError::socket(listen, e))?;
        Ok(Receiver { socket, listen })
    }

    /// The address to send to.
    pub fn local_addr(&self) -> SocketAddr {
        self.listen
    }

    /// Stores the first file that is sent here at `out`. It is written under the same name with
    /// `.partial` added, and renamed once it is complete and its hash is right.
    pub fn receive(self, out: &Path, options: &ReceiveOptions) -> Result<ReceiveReport, HostError> {
        self.receive_over(options.link.ndp.clone(), NdpCodec, out, options)
    }

    /// Receives over any transport that has a wire format. [`LinkOptions::ndp`] does not matter.
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
        let partial = Partial::create(out, options.overwrite)?;
        let driver = Driver::new(transport, codec, socket, link)
            .map_err(|source| HostError::Socket { address: listen, source })?;
        let app = Receiving::new(partial, options.size_max);
        Session { driver, app, options, listen }.run()
    }
}

struct Session<'a, T: Transport, C: Codec> {
    driver: Driver<T, C>,
    app: Receiving,
    options: &'a ReceiveOptions,
    listen: SocketAddr,
}

impl<T: Transport, C: Codec> Session<'_, T, C> {
    fn run(mut self) -> Result<ReceiveReport, HostError> {
        let peer = self.wait_for_sender()?;
        let outcome = self.transfer(peer).and_then(|preamble| self.store(preamble));
        // The sender waits for this, good or bad, unless nobody is there to hear it.
        let verdict = match &outcome {
            Ok(_) => Some(Verdict::Verified),
            Err(HostError::HashMismatch(_)) => Some(Verdict::HashMismatch),
            Err(HostError::DiskFull(_)) => Some(Verdict::DiskFull),
            Err(HostError::File { .. } | HostError::Exists(_)) => Some(Verdict::WriteFailed),
            Err(HostError::TooLarge { .. }) => Some(Verdict::TooLarge),
            Err(HostError::NotOurs(_)) => Some(Verdict::NotAFile),
            Err(_) => None,
        };
        if let Some(verdict) = verdict {
            // The file is stored, or the error is known: not being heard changes neither.
            let _ = self.tell(peer, verdict);
        }
        let preamble = outcome?;
        let duration = match (self.app.started_at, self.app.completed_at) {
            (Some(start), Some(end)) => end.saturating_since(start),
            _ => punctual_core::Duration::ZERO,
        };
        Ok(ReceiveReport {
            peer,
            bytes: preamble.len,
            hash: preamble.hash,
            duration,
            deadline: preamble.deadline,
            deadline_met: preamble.deadline.map(|d| duration <= d),
            trims: self.app.trims,
            traffic: self.driver.traffic().clone(),
        })
    }

    fn turn(&mut self, until: Instant) -> Result<(), HostError> {
        self.driver.turn(&mut self.app, until).map_err(|error| match error {
            DriverError::Write(error) => HostError::writing(self.app.intake.partial.path(), error),
            source => HostError::Socket { address: self.listen, source },
        })
    }

    fn wait_for_sender(&mut self) -> Result<SocketAddr, HostError> {
        let until =
            self.options.wait.map_or(Instant::NEVER, |wait| self.driver.now().saturating_add(wait));
        loop {
            if let Some(peer) = self.app.peer {
                return Ok(peer);
            }
            let now = self.driver.now();
            if let (true, Some(waited)) = (now >= until, self.options.wait) {
                return Err(HostError::NoSender { listen: self.listen, waited });
            }
            // An endless wait is made of many.
            let a_while = now.saturating_add(punctual_core::Duration::from_secs(3_600));
            self.turn(until.min(a_while))?;
        }
    }

    /// Takes everything in, hashing along the way.
    fn transfer(&mut self, peer: SocketAddr) -> Result<Preamble, HostError> {
        let silence = self.options.link.silence;
        let (mut heard_at, mut heard_count) = (self.driver.now(), 0);
        loop {
            if let Some(size) = self.app.too_large {
                let accepted = self.options.size_max;
                return Err(HostError::TooLarge { offered: size, accepted });
            }
            if self.app.not_ours {
                return Err(HostError::NotOurs(peer));
            }
            let behind = self
                .app
                .hash_some()
                .map_err(|e| HostError::writing(self.app.intake.partial.path(), e))?;
            if let (false, Some(preamble), Some(_)) =
                (behind, self.app.preamble, self.app.completed_at)
            {
                return Ok(preamble);
            }
            let give_up_at = heard_at.saturating_add(silence);
            // With bytes left to hash there is no time to wait.
            let until = if behind { self.driver.now() } else { give_up_at };
            self.turn(until)?;
            let now = self.driver.now();
            if self.driver.traffic().received > heard_count || behind {
                heard_count = self.driver.traffic().received;
                heard_at = now;
            } else if now >= give_up_at {
                return Err(HostError::PeerSilent { peer, waited: silence, refused: false });
            }
        }
    }

    fn store(&mut self, preamble: Preamble) -> Result<Preamble, HostError> {
        if self.app.intake.hash() != preamble.hash {
            return Err(HostError::HashMismatch(self.app.intake.partial.out().into()));
        }
        self.app.intake.partial.keep()?;
        Ok(preamble)
    }

    /// Tells the sender how it went, until it has heard or that has taken too long.
    fn tell(&mut self, peer: SocketAddr, verdict: Verdict) -> Result<(), HostError> {
        self.app.verdict = verdict.to_bytes();
        self.app.closed = true;
        let socket_error = |source| HostError::Socket { address: peer, source };
        let size = Bytes::new(Verdict::BYTES as u64);
        let flow = self.driver.open(peer, size, None, &mut self.app).map_err(socket_error)?;
        let give_up_at = self.driver.now().saturating_add(VERDICT_PATIENCE);
        while self.driver.is_open(flow) && self.driver.now() < give_up_at {
            self.turn(give_up_at)?;
        }
        Ok(())
    }
}

struct Receiving {
    intake: Intake,
    size_max: Bytes,
    peer: Option<SocketAddr>,
    flow: Option<FlowId>,
    flow_size: u64,
    too_large: Option<Bytes>,
    not_ours: bool,
    preamble_bytes: [u8; Preamble::BYTES],
    preamble: Option<Preamble>,
    /// What has arrived of the flow.
    arrived: RangeSet,
    /// What comes now is not wanted any more.
    closed: bool,
    started_at: Option<Instant>,
    completed_at: Option<Instant>,
    trims: u64,
    verdict: [u8; Verdict::BYTES],
}

impl Receiving {
    fn new(partial: Partial, size_max: Bytes) -> Self {
        Receiving {
            intake: Intake::new(partial),
            size_max,
            peer: None,
            flow: None,
            flow_size: 0,
            too_large: None,
            not_ours: false,
            preamble_bytes: [0; Preamble::BYTES],
            preamble: None,
            arrived: RangeSet::default(),
            closed: false,
            started_at: None,
            completed_at: None,
            trims: 0,
            verdict: [0; Verdict::BYTES],
        }
    }

    /// Hashes some of what is there without gaps. True when there is more to do at once.
    fn hash_some(&mut self) -> io::Result<bool> {
        let complete = self.arrived.prefix_end().saturating_sub(Preamble::BYTES as u64);
        self.intake.catch_up(complete, self.completed_at.is_some())
    }

    fn read_preamble(&mut self) {
        self.preamble = Preamble::from_bytes(&self.preamble_bytes);
        let size = self.preamble.and_then(|p| p.len.checked_add(Preamble::BYTES as u64));
        self.not_ours = size != Some(self.flow_size);
    }
}

impl Application for Receiving {
    fn accept(&mut self, offer: &Offer) -> bool {
        let preamble = Bytes::new(Preamble::BYTES as u64);
        // What is too short for a file is something else, and no reason to stop waiting.
        if self.flow.is_some() || offer.size < preamble {
            return false;
        }
        let size = offer.size.saturating_sub(preamble);
        self.too_large = (size > self.size_max).then_some(size);
        self.peer = Some(offer.peer);
        self.started_at = Some(offer.at);
        self.flow = Some(offer.flow);
        self.flow_size = offer.size.get();
        true
    }

    fn read(&mut self, _flow: FlowId, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let start = offset.min(Verdict::BYTES as u64) as usize;
        for (to, from) in into.iter_mut().zip(&self.verdict[start..]) {
            *to = *from;
        }
        Ok(())
    }

    fn write(&mut self, _flow: FlowId, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.closed || self.too_large.is_some() || self.not_ours {
            return Ok(());
        }
        let preamble_len = Preamble::BYTES as u64;
        let start = offset.min(preamble_len) as usize;
        let (head, tail) = data.split_at(data.len().min(Preamble::BYTES - start));
        self.preamble_bytes[start..start + head.len()].copy_from_slice(head);
        if !tail.is_empty() {
            let file_offset = (offset + head.len() as u64).saturating_sub(preamble_len);
            self.intake.put(file_offset, tail)?;
        }
        self.arrived.insert(offset, offset + data.len() as u64, |_, _| {});
        if self.preamble.is_none() && self.arrived.prefix_end() >= preamble_len {
            self.read_preamble();
        }
        Ok(())
    }

    fn handle_event(&mut self, flow: FlowId, now: Instant, event: FlowEvent) {
        if self.flow != Some(flow) {
            return;
        }
        match event {
            FlowEvent::Completed => {
                self.completed_at = Some(now);
                self.not_ours |= self.arrived.prefix_end() != self.flow_size;
            }
            FlowEvent::Trimmed => self.trims += 1,
            _ => {}
        }
    }
}
