//! Packets of the host stack.

use super::super::format::{Control, End};
use super::super::options::{Outcome, ReceiveError, SendError};
use super::super::peers::Known;
use super::Action;
use super::State;
use punctual_core::{Duration, Instant};
use punctual_wire::WireName;
use std::net::SocketAddr;

impl State {
    pub(in crate::endpoint) fn handle(
        &mut self,
        peer: SocketAddr,
        name: WireName,
        control: Control,
    ) {
        let sent = self.outbound_numbers.get(&(peer, name.flow)).copied();
        match control {
            Control::Retry { token, uptime_us } => {
                if let Some(id) = sent {
                    self.handle_retry(id, name.incarnation, token, uptime_us);
                }
            }
            Control::Challenge(token) => {
                if self.peers.get(&peer).is_some_and(|peer| peer.requests > 0) {
                    self.control(peer, name.flow, Control::Token(token));
                }
            }
            Control::Token(token) => {
                if self.tokens.is_valid(peer, self.secs(), &token) {
                    self.handle_proof(peer, name.incarnation);
                }
            }
            Control::Wait => {
                if let Some(flow) = sent.and_then(|id| self.outbound.get(&id)?.flow) {
                    self.actions.push(Action::Heard(flow));
                }
            }
            Control::Ended(end) => {
                if let Some(id) = sent {
                    self.handle_end(id, end);
                }
            }
            Control::Cancel => self.handle_cancel(peer, name),
            Control::Ping(number) => self.control(peer, name.flow, Control::Pong(number)),
            Control::Pong(number) => {
                self.pings.answer(peer, number);
                self.has_news = true;
            }
        }
    }

    /// The peer, whose process started `uptime_us` ago, asks for a proof of this end's address and
    /// for its own incarnation in the prologue.
    pub(in crate::endpoint) fn handle_retry(
        &mut self,
        id: u64,
        incarnation: u16,
        token: [u8; 16],
        uptime_us: u64,
    ) {
        let Some(outbound) = self.outbound.get_mut(&id) else { return };
        outbound.retries += 1;
        let (peer, retries) = (outbound.peer, outbound.retries);
        // The peer's process refuses a packet that was sent once, so no other process has it.
        let is_only_copy = retries == 1 && outbound.retransmits == 0;
        let Some((_, number)) = outbound.number else { return };
        // The packet took some time, so the peer's process started before this.
        let uptime = Duration::from_micros(uptime_us.min(u64::MAX / 1_000_000));
        let started_by = self.now.as_picos().saturating_sub(uptime.as_picos());
        let first_sent = outbound.first_sent_at.map_or(u64::MAX, Instant::as_picos);
        self.control(peer, number, Control::Token(token));
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.learn(incarnation);
        }
        let is_safe =
            is_only_copy || started_by.saturating_sub(RESTART_MIN.as_picos()) < first_sent;
        if retries > RETRIES_MAX {
            self.lose(id, SendError::Restarted(peer), false);
        } else if is_safe {
            // No earlier process at that address can have received it.
            self.restart(id);
        } else {
            self.lose(id, SendError::Restarted(peer), true);
        }
    }

    /// A peer has proven its address.
    pub(in crate::endpoint) fn handle_proof(&mut self, address: SocketAddr, incarnation: u16) {
        let Some(peer) = self.peers.entry(address, self.now, false) else { return };
        if !std::mem::replace(&mut peer.is_proven, true) {
            self.unproven -= peer.inbound as usize;
        }
        peer.may_jump = true;
        let is_other = peer.incarnation.is_some_and(|known| known != incarnation);
        peer.learn(incarnation);
        if is_other {
            // Messages of the earlier process will not be completed.
            let unfinished: Vec<u64> = self
                .inbound
                .iter()
                .filter(|(_, inbound)| inbound.peer == address && !inbound.is_complete)
                .map(|(id, _)| *id)
                .collect();
            for id in unfinished {
                self.fail_inbound(id, ReceiveError::SenderGone);
            }
        }
        self.actions.push(Action::Launch(address));
    }

    pub(in crate::endpoint) fn handle_end(&mut self, id: u64, end: End) {
        let Some(outbound) = self.outbound.get(&id) else { return };
        let peer = outbound.peer;
        let is_cancelled = outbound.cancelled_at.is_some();
        let error = match end {
            End::Done => return self.deliver(id),
            End::Cancelled | End::Gone if is_cancelled => {
                return self.conclude(id, Outcome::GivenUp);
            }
            End::NotListening => SendError::NotListening(peer),
            End::TooLarge => SendError::TooLarge(peer),
            End::OtherVersion => SendError::OtherVersion(peer),
            End::OtherMtu => SendError::OtherMtu(peer),
            End::Refused | End::Gone | End::Cancelled => SendError::Refused(peer),
        };
        self.conclude(id, |times| Outcome::Failed(error, times));
    }

    pub(in crate::endpoint) fn handle_cancel(&mut self, address: SocketAddr, name: WireName) {
        let number = name.flow;
        if let Some(id) = self.inbound_numbers.get(&(address, number)).copied() {
            let is_complete = self.inbound.get(&id).is_some_and(|inbound| inbound.is_complete);
            let end = if is_complete { End::Done } else { End::Cancelled };
            if !is_complete {
                self.fail_inbound(id, ReceiveError::Cancelled);
            }
            return self.control(address, number, Control::Ended(end));
        }
        let Some(peer) = self.peers.get_mut(&address) else { return };
        let end = match peer.known(number) {
            Known::Done => End::Done,
            Known::Opened => End::Gone,
            Known::New => {
                // A forged packet must not move the window. Without an answer the peer decides alone.
                if peer.incarnation != Some(name.incarnation) || peer.is_far_ahead(number) {
                    return;
                }
                // Its late packets must not open it.
                peer.note_opened(number);
                End::Cancelled
            }
        };
        self.control(address, number, Control::Ended(end));
    }
}

/// The shortest time in which a process can end and another one start at its address. A message
/// that was sent this long before the peer's process seems to have started cannot have reached an
/// earlier process.
const RESTART_MIN: Duration = Duration::from_millis(10);
pub(in crate::endpoint) const RESTART_MIN_STD: std::time::Duration =
    std::time::Duration::from_millis(10);

/// Most new starts of one message.
const RETRIES_MAX: u32 = 16;
