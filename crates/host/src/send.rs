//! Sending a file.

use crate::clock::Clock;
use crate::driver::{Application, Driver, DriverError, Offer};
use crate::stream::{Answer, Nonce, Preamble, Verdict};
use crate::{Hash, HostError, SendFileOptions, SendReport, bind};
use punctual_core::{Bytes, Duration, FlowEvent, FlowId, Instant, Transport};
use punctual_wire::{Codec, NdpCodec};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Sends the file at `path` to `peer` over NDP. Returns when the receiver has checked and stored it.
pub fn send_file(
    path: &Path,
    peer: SocketAddr,
    options: &SendFileOptions,
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
    options: &SendFileOptions,
) -> Result<SendReport, HostError> {
    let since_call = Clock::start();
    let link = options.link.driver(peer.is_ipv6())?;
    let file = File::open(path).map_err(|e| HostError::reading(path, e))?;
    let metadata = file.metadata().map_err(|e| HostError::reading(path, e))?;
    if !metadata.is_file() {
        return Err(HostError::NotAFile(path.into()));
    }
    let (len, hash) = hash_file(&file).map_err(|e| HostError::reading(path, e))?;

    let any: IpAddr = match peer {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = bind(SocketAddr::new(any, 0))?;
    // A connected socket reports a closed port, and receives from the peer only.
    socket.connect(peer).map_err(|e| HostError::socket(peer, e))?;
    let socket_error = |source| HostError::Socket { address: peer, source };
    let mut driver = Driver::new(transport, codec, socket, link).map_err(socket_error)?;
    let spent = since_call.now().saturating_since(Instant::ZERO);
    let left = options.deadline.map(|deadline| deadline.saturating_sub(spent));
    let nonce = random_nonce();
    let mut app = FileSender {
        source: Source { file, len, ahead: Vec::new(), ahead_at: 0 },
        preamble: Preamble { nonce, len, hash, deadline: left }.to_bytes(),
        nonce,
        flow: None,
        ended_at: None,
        answers: Vec::new(),
        answered: None,
        retransmits: 0,
        timeouts: 0,
        bounces: 0,
    };

    let size = Bytes::new(len + Preamble::BYTES as u64);
    let started_at = driver.now();
    let deadline = left.map(|left| started_at.saturating_add(left));
    let explain = |error| match error {
        DriverError::Read(error) => HostError::reading(path, error),
        other => socket_error(other),
    };
    let flow = driver.open(peer, size, deadline, &mut app).map_err(explain)?;
    app.flow = Some(flow);
    let mut heard_at = started_at;
    let (answered_at, answer) = loop {
        if options.link.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(HostError::Interrupted);
        }
        let give_up_at = heard_at.saturating_add(options.link.silence);
        let until = match options.link.stop {
            Some(_) => give_up_at.min(driver.now().saturating_add(STOP_INTERVAL)),
            None => give_up_at,
        };
        driver.turn(&mut app, until).map_err(explain)?;
        if let Some(answered) = app.answered {
            break answered;
        }
        let heard = [driver.heard_at(flow), app.ended_at].into_iter().flatten().max();
        heard_at = heard_at.max(heard.unwrap_or(heard_at));
        if driver.now() >= heard_at.saturating_add(options.link.silence) {
            let waited = options.link.silence;
            let last_error = driver.take_last_error();
            return Err(match app.ended_at {
                Some(_) => HostError::Unconfirmed { peer, waited },
                None => HostError::PeerSilent { peer, waited, last_error },
            });
        }
    };
    // The acknowledgement of the answer leaves. If it is lost, only the receiver waits.
    let quiet_at = answered_at.saturating_add(Duration::from_millis(5));
    while !driver.is_idle() && driver.now() < quiet_at {
        driver.turn(&mut app, quiet_at).map_err(explain)?;
    }
    let total = since_call.now().saturating_since(Instant::ZERO);
    match answer.verdict {
        Verdict::Verified if answer.hash == hash => {}
        Verdict::Verified => return Err(HostError::Changed(path.into())),
        other => return Err(HostError::Refused { peer, reason: other.reason() }),
    }
    // If the acknowledgements of the last packets were lost, the answer ends the transfer.
    let ended_at = app.ended_at.map_or(answered_at, |at| at.min(answered_at));
    Ok(SendReport {
        bytes: len,
        hash,
        duration: total,
        transfer: ended_at.saturating_since(started_at),
        deadline_met: options.deadline.map(|d| total <= d),
        retransmits: app.retransmits,
        timeouts: app.timeouts,
        bounces: app.bounces,
        traffic: driver.traffic().clone(),
    })
}

/// How often a wait looks at [`LinkOptions::stop`](crate::LinkOptions::stop).
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Most answers that may arrive at once. All but one are forged, or the receiver's repetitions.
const ANSWERS_MAX: usize = 32;

fn random_nonce() -> Nonce {
    let mut nonce = [0; 16];
    for half in nonce.chunks_exact_mut(8) {
        // RandomState takes its keys from the system's random generator.
        half.copy_from_slice(&RandomState::new().hash_one(0).to_be_bytes());
    }
    nonce
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
    nonce: Nonce,
    flow: Option<FlowId>,
    ended_at: Option<Instant>,
    /// Flows that may carry the receiver's answer.
    answers: Vec<(FlowId, [u8; Answer::BYTES])>,
    /// The receiver's answer and its time.
    answered: Option<(Instant, Answer)>,
    retransmits: u64,
    timeouts: u64,
    bounces: u64,
}

impl Application for FileSender {
    fn accept(&mut self, offer: &Offer) -> bool {
        let is_answer = offer.size.get() == Answer::BYTES as u64;
        let accepts = is_answer && self.answers.len() < ANSWERS_MAX;
        if accepts {
            self.answers.push((offer.flow, [0; Answer::BYTES]));
        }
        accepts
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

    fn write(&mut self, flow: FlowId, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Some((_, bytes)) = self.answers.iter_mut().find(|(id, _)| *id == flow) {
            // Only flows of an answer's size are accepted.
            let start = offset.min(Answer::BYTES as u64) as usize;
            for (to, from) in bytes[start..].iter_mut().zip(data) {
                *to = *from;
            }
        }
        Ok(())
    }

    fn handle_event(&mut self, flow: FlowId, now: Instant, event: FlowEvent) {
        let is_own = self.flow == Some(flow);
        match event {
            FlowEvent::Completed | FlowEvent::Abandoned if !is_own => {
                let Some(at) = self.answers.iter().position(|(id, _)| *id == flow) else { return };
                let (_, bytes) = self.answers.remove(at);
                let answer = Answer::from_bytes(&bytes).filter(|answer| answer.nonce == self.nonce);
                if let (None, Some(answer)) = (self.answered, answer) {
                    self.answered = Some((now, answer));
                }
            }
            FlowEvent::Finished if is_own => self.ended_at = Some(now),
            FlowEvent::Retransmitted(_) => self.retransmits += 1,
            FlowEvent::TimedOut => self.timeouts += 1,
            FlowEvent::Bounced => self.bounces += 1,
            _ => {}
        }
    }
}
