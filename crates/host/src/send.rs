//! Sending a file.

use crate::driver::{Application, Driver, DriverError, Offer};
use crate::options::TIME_WAIT;
use crate::stream::{Preamble, Verdict};
use crate::{Hash, HostError, SendOptions, SendReport, bind};
use punctual_core::{Bytes, FlowEvent, FlowId, Instant, Transport};
use punctual_wire::{Codec, NdpCodec};
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Sends the file at `path` to `peer` over NDP. Returns when the receiver has checked and stored it.
pub fn send_file(
    path: &Path,
    peer: SocketAddr,
    options: &SendOptions,
) -> Result<SendReport, HostError> {
    send_file_over(options.link.ndp.clone(), NdpCodec, path, peer, options)
}

/// Sends a file over any transport that has a wire format. [`LinkOptions::ndp`] is validated, but
/// not used.
///
/// [`LinkOptions::ndp`]: crate::LinkOptions::ndp
pub fn send_file_over<T: Transport, C: Codec>(
    transport: T,
    codec: C,
    path: &Path,
    peer: SocketAddr,
    options: &SendOptions,
) -> Result<SendReport, HostError> {
    let link = options.link.driver(peer.is_ipv6())?;
    let file = File::open(path).map_err(|e| HostError::reading(path, e))?;
    let metadata = file.metadata().map_err(|e| HostError::reading(path, e))?;
    if !metadata.is_file() {
        return Err(HostError::NotAFile(path.into()));
    }
    let (len, hash) = hash_file(&file).map_err(|e| HostError::reading(path, e))?;
    let preamble = Preamble { len, hash, deadline: options.deadline };

    let any: IpAddr = match peer {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = bind(SocketAddr::new(any, 0))?;
    // A connected socket reports a closed port, and receives from the peer only.
    socket.connect(peer).map_err(|e| HostError::socket(peer, e))?;
    let socket_error = |source| HostError::Socket { address: peer, source };
    let mut driver = Driver::new(transport, codec, socket, link).map_err(socket_error)?;
    let mut app = FileSender {
        source: Source { file, len, ahead: Vec::new(), ahead_at: 0 },
        preamble: preamble.to_bytes(),
        flow: None,
        ended_at: None,
        verdict: [0; Verdict::BYTES],
        verdict_flow: None,
        verdict_at: None,
        retransmits: 0,
        timeouts: 0,
        bounces: 0,
    };

    let size = Bytes::new(len + Preamble::BYTES as u64);
    let started_at = driver.now();
    let deadline = options.deadline.map(|d| started_at.saturating_add(d));
    let explain = |error| match error {
        DriverError::Read(error) => HostError::reading(path, error),
        other => socket_error(other),
    };
    app.flow = Some(driver.open(peer, size, deadline, &mut app).map_err(explain)?);
    let mut heard_at = started_at;
    let mut heard_count = 0;
    let verdict_at = loop {
        let give_up_at = heard_at.saturating_add(options.link.silence);
        driver.turn(&mut app, give_up_at).map_err(explain)?;
        if let Some(at) = app.verdict_at {
            break at;
        }
        let now = driver.now();
        if driver.traffic().received > heard_count {
            heard_count = driver.traffic().received;
            heard_at = now;
        } else if now >= give_up_at {
            let refused = driver.traffic().unreachable > 0;
            return Err(HostError::PeerSilent { peer, waited: options.link.silence, refused });
        }
    };
    let quiet_at = verdict_at.saturating_add(TIME_WAIT);
    while driver.now() < quiet_at && app.verdict_flow.is_some_and(|flow| driver.is_open(flow)) {
        driver.turn(&mut app, quiet_at).map_err(explain)?;
    }

    match Verdict::from_bytes(&app.verdict) {
        None => return Err(HostError::NotOurs(peer)),
        Some(Verdict::Verified) => {}
        Some(other) => return Err(HostError::Refused { peer, reason: other.reason() }),
    }
    // If the acknowledgements of the last packets were lost, the verdict ends the transfer.
    let ended_at = app.ended_at.map_or(verdict_at, |at| at.min(verdict_at));
    let duration = ended_at.saturating_since(started_at);
    Ok(SendReport {
        bytes: len,
        hash,
        duration,
        deadline_met: options.deadline.map(|d| duration <= d),
        retransmits: app.retransmits,
        timeouts: app.timeouts,
        bounces: app.bounces,
        traffic: driver.traffic().clone(),
    })
}

/// Length and hash of the file's current contents.
fn hash_file(mut file: &File) -> io::Result<(u64, Hash)> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    let mut len = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                hasher.update(&buffer[..n]);
                len += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok((len, Hash(*hasher.finalize().as_bytes())))
}

/// A file with read-ahead, so that packets in order rarely need a system call.
struct Source {
    file: File,
    len: u64,
    ahead: Vec<u8>,
    ahead_at: u64,
}

const AHEAD_BYTES: u64 = 1 << 17;

impl Source {
    fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let ahead_end = self.ahead_at + self.ahead.len() as u64;
        let end = offset + into.len() as u64;
        if !(self.ahead_at..=ahead_end).contains(&offset) {
            // A retransmission does not discard the read-ahead.
            return self.file.read_exact_at(into, offset);
        }
        if end > ahead_end {
            let len = self.len.saturating_sub(offset).min(AHEAD_BYTES);
            self.ahead.resize((len as usize).max(into.len()), 0);
            self.ahead_at = offset;
            if let Err(error) = self.file.read_exact_at(&mut self.ahead, offset) {
                self.ahead.clear();
                return Err(error);
            }
        }
        let start = (offset - self.ahead_at) as usize;
        into.copy_from_slice(&self.ahead[start..start + into.len()]);
        Ok(())
    }
}

struct FileSender {
    source: Source,
    preamble: [u8; Preamble::BYTES],
    flow: Option<FlowId>,
    ended_at: Option<Instant>,
    verdict: [u8; Verdict::BYTES],
    verdict_flow: Option<FlowId>,
    verdict_at: Option<Instant>,
    retransmits: u64,
    timeouts: u64,
    bounces: u64,
}

impl Application for FileSender {
    fn accept(&mut self, offer: &Offer) -> bool {
        let is_verdict = offer.size.get() == Verdict::BYTES as u64;
        if is_verdict && self.verdict_flow.is_none() {
            self.verdict_flow = Some(offer.flow);
            return true;
        }
        false
    }

    fn read(&mut self, _flow: FlowId, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let preamble_len = self.preamble.len() as u64;
        let start = offset.min(preamble_len) as usize;
        let taken = into.len().min(self.preamble.len() - start);
        let (head, tail) = into.split_at_mut(taken);
        head.copy_from_slice(&self.preamble[start..start + taken]);
        let file_offset = (offset + taken as u64).saturating_sub(preamble_len);
        self.source.read(file_offset, tail)
    }

    fn write(&mut self, _flow: FlowId, offset: u64, data: &[u8]) -> io::Result<()> {
        // Only flows of a verdict's size are accepted.
        let start = offset.min(Verdict::BYTES as u64) as usize;
        for (to, from) in self.verdict[start..].iter_mut().zip(data) {
            *to = *from;
        }
        Ok(())
    }

    fn handle_event(&mut self, flow: FlowId, now: Instant, event: FlowEvent) {
        let is_verdict = self.verdict_flow == Some(flow);
        match event {
            FlowEvent::Completed if is_verdict => self.verdict_at = Some(now),
            FlowEvent::Finished if !is_verdict => self.ended_at = Some(now),
            FlowEvent::Retransmitted(_) => self.retransmits += 1,
            FlowEvent::TimedOut => self.timeouts += 1,
            FlowEvent::Bounced => self.bounces += 1,
            _ => {}
        }
    }
}
