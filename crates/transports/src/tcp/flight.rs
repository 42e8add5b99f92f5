//! Window, loss recovery and timeout of one stream on one path. TCP has one per flow, MPTCP one per
//! subflow.

use super::config::TcpSettings;
use super::congestion::{Fraction, Reaction, Window};
use crate::rtt::{Rounding, RtoBounds, RttEstimator, next_tick};
use punctual_core::{Duration, Instant, RetransmitCause};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The SYN is unanswered.
    Connecting,
    /// Data may be sent.
    Open,
    /// Fast recovery, until `recover` is acknowledged.
    Recovering,
}

/// The effect of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Advance {
    /// Bytes it acknowledges for the first time; 0 for a duplicate.
    pub(crate) newly_acked_bytes: u64,
    flight_before: u64,
}

/// State of a stream's sender, without the content of its segments.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    mss_bytes: u64,
    phase: Phase,
    /// First byte not acknowledged.
    una: u64,
    /// Next byte to send in order; falls back to `una` at a timeout.
    next: u64,
    /// First byte never sent.
    highest: u64,
    /// In fast recovery, the acknowledgement that ends it. Otherwise duplicate ACKs below it stem
    /// from retransmissions and signal no loss.
    recover: u64,
    duplicates: u32,
    /// Whether the segment at `una` is to be retransmitted next.
    resend: bool,
    /// Whether a partial ACK of this recovery has restarted the timer.
    partial_acked: bool,
    window: Window,
    rtt: RttEstimator,
    rto: RtoBounds,
    /// How often the host polls its timers; zero for continuously.
    rto_tick: Duration,
    /// When the retransmission timeout expires.
    rto_at: Option<Instant>,
}

impl Flight {
    pub(crate) fn new(settings: &TcpSettings, mss_bytes: u64) -> Self {
        Flight {
            mss_bytes,
            phase: if settings.handshake { Phase::Connecting } else { Phase::Open },
            una: 0,
            next: 0,
            highest: 0,
            recover: 0,
            duplicates: 0,
            resend: false,
            partial_acked: false,
            window: Window::new(
                mss_bytes,
                settings.initial_window,
                settings.initial_ssthresh,
                settings.window_max,
            ),
            rtt: RttEstimator::default(),
            rto: settings.rto(),
            rto_tick: settings.rto_tick.unwrap_or(Duration::ZERO),
            rto_at: None,
        }
    }

    pub(crate) fn window(&self) -> &Window {
        &self.window
    }

    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The retransmission timeout, backoff included. TCP-R10.
    pub(crate) fn rto(&self) -> Duration {
        self.rtt.rto(&self.rto)
    }

    /// When a timeout that starts now is noticed, if nothing arrives. TCP-R17.
    #[inline]
    fn expires_at(&self, now: Instant) -> Instant {
        let at = now + self.rto();
        if self.rto_tick.is_zero() { at } else { next_tick(at, self.rto_tick) }
    }

    /// First byte not acknowledged.
    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    /// First byte never sent.
    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// When the retransmission timeout expires.
    #[inline]
    pub(crate) fn rto_at(&self) -> Option<Instant> {
        self.rto_at
    }

    /// Bytes in flight: sent, not acknowledged and not counted as lost.
    pub(crate) fn flight_bytes(&self) -> u64 {
        self.next - self.una
    }

    /// Whether it is in fast recovery.
    pub(crate) fn in_recovery(&self) -> bool {
        self.phase == Phase::Recovering
    }

    /// Whether the handshake is incomplete.
    #[inline]
    pub(crate) fn is_connecting(&self) -> bool {
        self.phase == Phase::Connecting
    }

    /// Starts the retransmission timer.
    pub(crate) fn start_timer(&mut self, now: Instant) {
        self.rto_at = Some(self.expires_at(now));
    }

    /// All of the stream's bytes are acknowledged.
    pub(crate) fn complete(&mut self, size_bytes: u64) {
        self.una = size_bytes;
        self.next = size_bytes;
        self.rto_at = None;
    }

    fn restart_timer(&mut self, now: Instant) {
        self.rto_at = (self.next > self.una).then(|| self.expires_at(now));
    }

    /// Handles a SYN-ACK; returns whether it was the first.
    pub(crate) fn connect(&mut self, rtt: Duration) -> bool {
        if self.phase != Phase::Connecting {
            return false;
        }
        self.phase = Phase::Open;
        self.rtt.sample(rtt, Rounding::Sum); // TCP-R09
        self.rtt.end_backoff();
        self.rto_at = None;
        true
    }

    /// First byte and length of the segment that may be sent now, in a stream of `size_bytes`.
    #[inline]
    pub(crate) fn next_segment(&self, size_bytes: u64) -> Option<(u64, u64)> {
        if self.phase == Phase::Connecting {
            return None;
        }
        if self.resend {
            return Some((self.una, self.mss_bytes.min(size_bytes - self.una)));
        }
        if self.next == size_bytes {
            return None;
        }
        let len = self.mss_bytes.min(size_bytes - self.next);
        let mut allowed = self.window.cwnd_bytes();
        if self.phase == Phase::Open {
            // TCP-R08
            allowed =
                self.window.bound(allowed + u64::from(self.duplicates.min(2)) * self.mss_bytes);
        }
        let flight = self.flight_bytes();
        (flight == 0 || flight + len <= allowed).then_some((self.next, len))
    }

    /// Sends the segment that [`Flight::next_segment`] returned; returns why it was sent
    /// again, if it was sent before.
    ///
    /// A segment below `highest` is sent in two cases: `resend` is set by duplicate and partial
    /// ACKs, and `next` falls back at a timeout.
    #[inline]
    pub(crate) fn send(&mut self, seq: u64, len: u64, now: Instant) -> Option<RetransmitCause> {
        let end = seq + len;
        let mut cause = RetransmitCause::Timeout;
        if self.resend {
            self.resend = false;
            cause = RetransmitCause::DuplicateAck;
        } else {
            self.next = end;
        }
        let again = (seq < self.highest).then_some(cause);
        self.highest = self.highest.max(end);
        if self.rto_at.is_none() {
            self.start_timer(now);
        }
        again
    }

    /// Handles an acknowledgement of all bytes below `ack`, caused by a packet sent `rtt` ago.
    /// Returns nothing if it is old, of bytes never sent, or not new. [`Flight::react`] changes the
    /// window.
    #[inline]
    pub(crate) fn advance(&mut self, ack: u64, rtt: Duration) -> Option<Advance> {
        if ack < self.una || ack > self.highest || self.phase == Phase::Connecting {
            return None;
        }
        let newly_acked_bytes = ack - self.una;
        let flight_before = self.flight_bytes();
        if newly_acked_bytes == 0 && flight_before == 0 {
            return None;
        }
        self.una = ack;
        self.next = self.next.max(self.una);
        if newly_acked_bytes > 0 {
            self.rtt.sample(rtt, Rounding::Sum); // TCP-R09
            self.rtt.end_backoff();
        }
        Some(Advance { newly_acked_bytes, flight_before })
    }

    /// Changes window and timer after an acknowledgement, by the law's reaction or by loss recovery.
    /// Returns whether the acknowledgement revealed a loss.
    #[inline]
    pub(crate) fn react(
        &mut self,
        advance: Advance,
        reaction: Reaction,
        duplicate_acks: u32,
        now: Instant,
    ) -> bool {
        let newly_acked_bytes = advance.newly_acked_bytes;
        let mut lost = false;
        if newly_acked_bytes == 0 {
            lost = self.handle_duplicate(duplicate_acks);
        } else {
            self.duplicates = 0;
        }
        match self.phase {
            Phase::Recovering if newly_acked_bytes > 0 => self.repair(newly_acked_bytes, now),
            Phase::Recovering => {}
            _ => {
                self.apply(reaction, newly_acked_bytes, advance.flight_before);
                if newly_acked_bytes > 0 {
                    self.restart_timer(now);
                }
            }
        }
        lost
    }

    /// Applies the law's reaction to the window.
    #[inline]
    fn apply(&mut self, reaction: Reaction, newly_acked_bytes: u64, flight_before: u64) {
        match reaction {
            Reaction::Grow { share } => self.grow(share, newly_acked_bytes, flight_before),
            Reaction::Hold => {}
            Reaction::EndSlowStart => self.window.end_slow_start(),
            Reaction::Cut { penalty, floor_packets } => self.window.cut(penalty, floor_packets),
            Reaction::GrowAndCut { penalty, floor_packets } => {
                self.grow(Fraction::ONE, newly_acked_bytes, flight_before);
                self.window.shrink(penalty, floor_packets);
            }
        }
    }

    /// Grows the window if the sender used it fully.
    #[inline]
    fn grow(&mut self, share: Fraction, newly_acked_bytes: u64, flight_before: u64) {
        let cwnd_bytes = self.window.cwnd_bytes();
        // TCP-R05: a window that the sender does not fill must not grow.
        let used = flight_before + self.mss_bytes > cwnd_bytes
            || (self.window.in_slow_start() && cwnd_bytes < 2 * flight_before);
        if used && newly_acked_bytes > 0 {
            let burst_packets = if self.una < self.recover { 1 } else { 2 };
            self.window.grow(newly_acked_bytes, burst_packets, share);
        }
    }

    /// Counts a duplicate ACK; returns whether it revealed a loss.
    fn handle_duplicate(&mut self, threshold: u32) -> bool {
        if self.phase == Phase::Recovering {
            self.window.set(self.window.cwnd_bytes() + self.mss_bytes);
            return false;
        }
        if self.una < self.recover {
            return false; // TCP-R10: caused by a retransmission
        }
        self.duplicates = self.duplicates.saturating_add(1);
        if self.duplicates != threshold {
            return false;
        }
        // TCP-R06
        self.window.halve_threshold(self.flight_bytes());
        self.window.set(self.window.ssthresh_bytes() + u64::from(threshold) * self.mss_bytes);
        self.recover = self.highest;
        self.phase = Phase::Recovering;
        self.partial_acked = false;
        self.resend = true;
        true
    }

    /// Handles an ACK of new data in fast recovery.
    fn repair(&mut self, newly_acked_bytes: u64, now: Instant) {
        if self.una >= self.recover {
            let flight = self.flight_bytes().max(self.mss_bytes) + self.mss_bytes;
            self.window.set(self.window.ssthresh_bytes().min(flight));
            self.phase = Phase::Open;
            self.resend = false;
            return self.restart_timer(now);
        }
        // TCP-R07: a partial ACK reveals the next hole.
        self.resend = true;
        let mut cwnd_bytes = self.window.cwnd_bytes().saturating_sub(newly_acked_bytes);
        if newly_acked_bytes >= self.mss_bytes {
            cwnd_bytes += self.mss_bytes;
        }
        self.window.set(cwnd_bytes);
        if !self.partial_acked {
            self.partial_acked = true;
            self.restart_timer(now);
        }
    }

    /// Handles a retransmission timeout. Returns whether the SYN must be retransmitted.
    pub(crate) fn time_out(&mut self, now: Instant) -> bool {
        let first = self.rtt.back_off();
        let connecting = self.phase == Phase::Connecting;
        if !connecting {
            // TCP-R10
            if first {
                self.window.halve_threshold(self.flight_bytes());
            }
            self.phase = Phase::Open;
            self.next = self.una;
            self.recover = self.highest + 1;
            self.duplicates = 0;
            self.resend = false;
        }
        self.window.set(self.mss_bytes);
        self.start_timer(now);
        connecting
    }
}
