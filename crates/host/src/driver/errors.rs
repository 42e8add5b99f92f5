//! Errors of single datagrams: which peer they concern, and how far they can be trusted.
//!
//! An ICMP error can be forged by anybody who can guess two ports, and so can the answer of a peer
//! that reads another version of the envelope. It is attributed to a flow only if it repeats the
//! flow's number, and even then it only says that the peer may be gone: whoever hears from the peer
//! afterwards ignores it.

use super::sockets::{SendFailure, Via};
use super::{Driver, WireFlow, WireSet};
use crate::sys::{QueuedError, take_error};
use punctual_core::{Class, Duration, Ecn, FlowId, Instant, PacketFlags};
use punctual_wire::{ENVELOPE_BYTES, VersionAnswer};
use std::io;
use std::net::SocketAddr;

/// An error that concerns one peer.
#[derive(Debug)]
pub(crate) struct PeerError {
    /// The main address of the peer.
    pub(crate) peer: SocketAddr,
    /// The flow whose packet caused it; `None` for an error of this host's own network stack, which
    /// concerns all flows to the peer.
    pub(crate) flow: Option<FlowId>,
    pub(crate) cause: Cause,
}

/// Why a peer may not receive what is sent to it.
#[derive(Debug, Clone)]
pub(crate) enum Cause {
    /// A datagram could not be delivered.
    Undelivered(String),
    /// The peer reads another version of the envelope.
    OtherVersion,
}

/// Most answers to datagrams of other versions in a second.
pub(super) const VERSION_ANSWERS_MAX: u32 = 100;

/// Limits answers to datagrams of other versions.
#[derive(Debug, Default)]
pub(super) struct VersionAnswers {
    /// When the current second began, and the answers in it.
    since: Instant,
    count: u32,
}

impl VersionAnswers {
    /// Whether one more answer may be sent now.
    fn allows(&mut self, now: Instant) -> bool {
        if now.saturating_since(self.since) >= Duration::from_secs(1) {
            (self.since, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
        self.count <= VERSION_ANSWERS_MAX
    }
}

/// Most errors that are kept until they are asked for.
const PEER_ERRORS_MAX: usize = 64;
/// Most errors that are taken from one socket at once.
const QUEUED_MAX: usize = 64;

impl<S: WireSet> Driver<S> {
    /// Takes the errors of peers since the last call.
    pub(crate) fn take_peer_errors(&mut self) -> Vec<PeerError> {
        core::mem::take(&mut self.peer_errors)
    }

    /// Takes what peers of other versions answered to packets of no flow, such as pings, since the
    /// last call.
    pub(crate) fn take_versions_heard(&mut self) -> Vec<(SocketAddr, VersionAnswer)> {
        core::mem::take(&mut self.versions_heard)
    }

    /// Empties the error queue of a socket. Returns whether there was anything.
    pub(super) fn read_errors(&mut self, at: u16) -> bool {
        let mut any = false;
        for _ in 0..QUEUED_MAX {
            let Some(socket) = self.sockets.get(usize::from(at)) else { break };
            let Some(error) = take_error(socket) else { break };
            any = true;
            self.handle_queued_error(at, error);
        }
        any
    }

    fn handle_queued_error(&mut self, socket: u16, queued: QueuedError) {
        let QueuedError { peer, error, bytes } = queued;
        let main = self.paths.main_address(peer);
        let flow = quoted(&bytes).and_then(|(number, to_sender)| {
            let name = WireFlow { peer: main, number, sent_from_here: !to_sender };
            self.names.get(&name).copied()
        });
        if flow.is_some() && !is_too_big(&error) {
            self.paths.note_failure(&Via { socket, local: None, remote: peer }, self.now);
            self.add_peer_error(main, flow, &error);
        }
        self.note_error(error);
    }

    /// A datagram could not be sent, for a reason of its own.
    pub(super) fn handle_failure(&mut self, failure: SendFailure) {
        let SendFailure { via, error } = failure;
        let has_others = self.paths.note_failure(&via, self.now);
        if !has_others {
            let main = self.paths.main_address(via.remote);
            self.add_peer_error(main, None, &error);
        }
        self.note_error(error);
    }

    fn add_peer_error(&mut self, peer: SocketAddr, flow: Option<FlowId>, error: &io::Error) {
        if self.peer_errors.len() < PEER_ERRORS_MAX {
            let cause = Cause::Undelivered(error.to_string());
            self.peer_errors.push(PeerError { peer, flow, cause });
        }
    }

    /// Handles a datagram that cannot be parsed, if it is of another version. A peer that says that
    /// it reads another version is treated like an ICMP error. Any other sender gets an answer,
    /// which is shorter than its datagram; there are few of them in a second, since the source may be
    /// forged.
    pub(super) fn handle_other_version(&mut self, bytes: &[u8], via: &Via) {
        if let Some(answer) = VersionAnswer::parse(bytes) {
            let peer = self.paths.main_address(via.remote);
            let name = WireFlow { peer, number: answer.flow, sent_from_here: true };
            let flow = self.names.get(&name).copied();
            if flow.is_some() {
                if self.peer_errors.len() < PEER_ERRORS_MAX {
                    self.peer_errors.push(PeerError { peer, flow, cause: Cause::OtherVersion });
                }
            } else if self.versions_heard.len() < PEER_ERRORS_MAX {
                self.versions_heard.push((peer, answer));
            }
            return;
        }
        let now = self.now();
        if let Some(answer) = VersionAnswer::to(bytes)
            && self.version_answers.allows(now)
        {
            // No key is needed to read it: the peer may have another form of tags.
            let answer = answer.to_bytes().to_vec();
            self.sockets.push(via, answer, Class::CONTROL, Ecn::NotCapable);
        }
    }

    /// Counts an error of a single datagram. It concerns one peer; other peers go on.
    pub(super) fn note_error(&mut self, error: io::Error) {
        self.traffic.socket_errors += 1;
        self.last_error = Some(error);
    }
}

/// Whether an error says that a datagram was larger than the path's MTU. The kernel then fragments
/// the next ones.
fn is_too_big(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// The flow's number in the first bytes of a datagram, and whether it went to the flow's sender.
fn quoted(bytes: &[u8]) -> Option<(u32, bool)> {
    let number = bytes.get(4..8)?.first_chunk::<4>()?;
    let flags = PacketFlags::from_bits(*bytes.get(3)?);
    let is_whole = bytes.len() >= ENVELOPE_BYTES && bytes[0] >> 4 == 0xd;
    is_whole.then_some((u32::from_be_bytes(*number), flags.has(PacketFlags::TO_SENDER)))
}
