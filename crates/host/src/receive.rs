//! Receiving a file.

use crate::driver::{Application, Driver, DriverError, Offer};
use crate::intake::Intake;
use crate::options::VERDICT_PATIENCE;
use crate::partial::PartialFile;
use crate::stream::{Preamble, Verdict};
use crate::{HostError, ReceiveOptions, ReceiveReport, bind};
use punctual_core::{Bytes, FlowEvent, FlowId, Instant, RangeSet, Transport};
use punctual_wire::{Codec, NdpCodec};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

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

    /// Receives one file and stores it as `out`. The file is written as `<out>.partial`, and renamed
    /// when it is complete and its hash matches.
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
        let partial = PartialFile::create(out, options.overwrite)?;
        let driver = Driver::new(transport, codec, socket, link)
            .map_err(|source| HostError::Socket { address: listen, source })?;
        let app = FileReceiver::new(partial, options.size_max);
        Session { driver, app, options, listen }.run()
    }
}

struct Session<'a, T: Transport, C: Codec> {
    driver: Driver<T, C>,
    app: FileReceiver,
    options: &'a ReceiveOptions,
    listen: SocketAddr,
}

impl<T: Transport, C: Codec> Session<'_, T, C> {
    fn run(mut self) -> Result<ReceiveReport, HostError> {
        let peer = self.wait_for_sender()?;
        let outcome = self.transfer(peer).and_then(|preamble| self.store(preamble));
        // The sender waits for the verdict, unless it is gone.
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
            // A verdict that cannot be sent does not change the outcome.
            let _ = self.send_verdict(peer, verdict);
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
            // A wait without limit is split into hours.
            let hour = now.saturating_add(punctual_core::Duration::from_secs(3_600));
            self.turn(until.min(hour))?;
        }
    }

    /// Receives the file and hashes it as it arrives.
    fn transfer(&mut self, peer: SocketAddr) -> Result<Preamble, HostError> {
        let silence = self.options.link.silence;
        let (mut heard_at, mut heard_count) = (self.driver.now(), 0);
        loop {
            if let Some(size) = self.app.too_large {
                let accepted = self.options.size_max;
                return Err(HostError::TooLarge { offered: size, accepted });
            }
            if self.app.is_foreign {
                return Err(HostError::NotOurs(peer));
            }
            let is_behind = self
                .app
                .hash_some()
                .map_err(|e| HostError::writing(self.app.intake.partial.path(), e))?;
            if let (false, Some(preamble), Some(_)) =
                (is_behind, self.app.preamble, self.app.completed_at)
            {
                return Ok(preamble);
            }
            let give_up_at = heard_at.saturating_add(silence);
            // Does not wait while bytes are left to hash.
            let until = if is_behind { self.driver.now() } else { give_up_at };
            self.turn(until)?;
            let now = self.driver.now();
            if self.driver.traffic().received > heard_count || is_behind {
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

    /// Sends the verdict to the sender until it is acknowledged or [`VERDICT_PATIENCE`] is over.
    fn send_verdict(&mut self, peer: SocketAddr, verdict: Verdict) -> Result<(), HostError> {
        self.app.verdict = verdict.to_bytes();
        self.app.is_closed = true;
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

struct FileReceiver {
    intake: Intake,
    size_max: Bytes,
    peer: Option<SocketAddr>,
    flow: Option<FlowId>,
    flow_size: u64,
    too_large: Option<Bytes>,
    is_foreign: bool,
    preamble_bytes: [u8; Preamble::BYTES],
    preamble: Option<Preamble>,
    /// Bytes of the flow that have arrived.
    arrived: RangeSet,
    /// Whether further data is ignored.
    is_closed: bool,
    started_at: Option<Instant>,
    completed_at: Option<Instant>,
    trims: u64,
    verdict: [u8; Verdict::BYTES],
}

impl FileReceiver {
    fn new(partial: PartialFile, size_max: Bytes) -> Self {
        FileReceiver {
            intake: Intake::new(partial),
            size_max,
            peer: None,
            flow: None,
            flow_size: 0,
            too_large: None,
            is_foreign: false,
            preamble_bytes: [0; Preamble::BYTES],
            preamble: None,
            arrived: RangeSet::default(),
            is_closed: false,
            started_at: None,
            completed_at: None,
            trims: 0,
            verdict: [0; Verdict::BYTES],
        }
    }

    /// Hashes some of the bytes that have arrived without gaps. Returns whether more are left.
    fn hash_some(&mut self) -> io::Result<bool> {
        let complete = self.arrived.prefix_end().saturating_sub(Preamble::BYTES as u64);
        self.intake.catch_up(complete, self.completed_at.is_some())
    }

    fn read_preamble(&mut self) {
        self.preamble = Preamble::from_bytes(&self.preamble_bytes);
        let size = self.preamble.and_then(|p| p.len.checked_add(Preamble::BYTES as u64));
        self.is_foreign = size != Some(self.flow_size);
    }
}

impl Application for FileReceiver {
    fn accept(&mut self, offer: &Offer) -> bool {
        let preamble = Bytes::new(Preamble::BYTES as u64);
        // A flow too short for a file is refused, and the wait goes on.
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
        if self.is_closed || self.too_large.is_some() || self.is_foreign {
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
                self.is_foreign |= self.arrived.prefix_end() != self.flow_size;
            }
            FlowEvent::Trimmed => self.trims += 1,
            _ => {}
        }
    }
}
