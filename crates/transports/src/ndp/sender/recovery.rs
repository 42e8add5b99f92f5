//! Loss detection by later ACKs, for paths on which packets are dropped rather than trimmed.
//!
//! A transmission at time t is lost if a packet sent after it was acknowledged, and
//!
//! ```text
//! t + RTT + max(2^k · SRTT / 4, 1 ms) ≤ now
//! ```
//!
//! with RTT that of the latest transmission acknowledged. The last term allows for reordering, and
//! for trimmed headers that wait in a switch: k = 0 at first, and one more, up to 2, after each
//! spurious retransmission. (As RACK, RFC 8985.)
//!
//! If packets are in flight, and nothing was sent or heard for `(2 · SRTT + 1 ms) · 2^n` after n
//! probes without feedback, the oldest is sent again as a probe: no later ACK shows that the last
//! packets are lost.

use super::super::NdpConfig;
use super::{NdpSender, SenderTimer, State};
use punctual_core::{Duration, FlowEvent, HostCx, Instant, RetransmitCause};
use std::collections::VecDeque;

/// The most doublings of the time allowed for reordering: then it is a whole SRTT.
const REORDER_MAX: u32 = 2;
/// The least time allowed for reordering.
const REORDER_MIN: Duration = Duration::from_millis(1);
/// The most doublings of the time before a probe.
const PROBES_MAX: u32 = 10;
/// Time that hosts may take to answer, beside the RTT.
const PROBE_DELAY: Duration = Duration::from_millis(1);

/// What a sender knows of the order of its transmissions.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// Transmissions without feedback when they were last looked at, oldest first.
    order: VecDeque<(u64, Instant)>,
    /// When the latest transmission was sent that has been acknowledged, and its RTT.
    latest: Option<(Instant, Duration)>,
    reorder: u32,
    last_sent: Instant,
    /// When the sender's timer fires, if it runs.
    pub(super) timer_at: Option<Instant>,
    /// Probes sent since the last feedback.
    probes: u32,
}

impl Recovery {
    /// Packet `seq` was sent.
    pub(super) fn sent(&mut self, seq: u64, now: Instant) {
        self.order.push_back((seq, now));
        self.last_sent = now;
    }

    /// There was feedback.
    pub(super) fn heard(&mut self) {
        self.probes = 0;
    }

    /// A probe was sent.
    pub(super) fn probed(&mut self) {
        self.probes = (self.probes + 1).min(PROBES_MAX);
    }

    /// When to send a probe, if the RTT is known and anything is in flight.
    pub(super) fn probe_at(&self, heard_at: Instant, srtt: Option<Duration>) -> Option<Instant> {
        let wait = (srtt? * 2 + PROBE_DELAY).saturating_mul(1 << self.probes);
        Some(heard_at.max(self.last_sent).saturating_add(wait))
    }

    /// The transmission at `at` was acknowledged.
    pub(super) fn acked(&mut self, at: Instant, now: Instant) {
        if self.latest.is_none_or(|(latest, _)| latest <= at) {
            self.latest = Some((at, now.saturating_since(at)));
        }
    }

    /// A packet was retransmitted although it had arrived.
    pub(super) fn was_spurious(&mut self) {
        self.reorder = (self.reorder + 1).min(REORDER_MAX);
    }

    /// When a transmission at `at` counts as lost.
    fn lost_at(&self, at: Instant, rtt: Duration, srtt: Duration) -> Instant {
        let reorder = (srtt / 4).saturating_mul(1 << self.reorder);
        at.saturating_add(rtt + reorder.max(REORDER_MIN))
    }

    /// When the oldest transmission in flight counts as lost or a probe is due, after
    /// [`Recovery::next_lost`] has returned none.
    pub(super) fn wakes_at(&self, heard_at: Instant, srtt: Option<Duration>) -> Option<Instant> {
        let &(_, oldest) = self.order.front()?;
        let lost_at = self
            .latest
            .filter(|(latest, _)| oldest < *latest)
            .map(|(_, rtt)| self.lost_at(oldest, rtt, srtt.unwrap_or_default()));
        lost_at.into_iter().chain(self.probe_at(heard_at, srtt)).min()
    }

    /// The next transmission that is lost. `is_in_flight` says whether a transmission is still
    /// without feedback.
    // NDP-R29
    pub(super) fn next_lost(
        &mut self,
        now: Instant,
        srtt: Duration,
        is_in_flight: impl Fn(u64, Instant) -> bool,
    ) -> Option<u64> {
        let (latest, rtt) = self.latest?;
        while let Some(&(seq, at)) = self.order.front() {
            if is_in_flight(seq, at) {
                if at >= latest || self.lost_at(at, rtt, srtt) > now {
                    return None;
                }
                self.order.pop_front();
                return Some(seq);
            }
            self.order.pop_front();
        }
        None
    }
}

impl NdpSender {
    /// Queues the packets for retransmission that later ACKs show to be lost.
    // NDP-R29
    #[cold]
    pub(super) fn detect_losses(&mut self, cx: &mut HostCx<'_, NdpConfig>) {
        let srtt = self.rtt.smoothed_or_zero();
        while let Some(recovery) = &mut self.recovery {
            let (base, window) = (self.base, &self.window);
            let is_in_flight = |seq: u64, at: Instant| {
                let sent = seq.checked_sub(base).and_then(|index| window.get(index as usize));
                sent.is_some_and(|sent| sent.state == State::InFlight && sent.at == at)
            };
            let Some(seq) = recovery.next_lost(cx.now, srtt, is_in_flight) else { break };
            self.lose(seq, RetransmitCause::DuplicateAck);
            self.resend.push_back(seq);
            self.credits += 1;
        }
    }

    /// Lets the timer fire sooner if a packet may be lost before.
    pub(super) fn wake_in_time(&mut self, cx: &mut HostCx<'_, NdpConfig>) {
        let Some(recovery) = self.recovery.as_mut().filter(|_| self.flying > 0) else { return };
        let Some(at) = recovery.wakes_at(self.heard_at, self.rtt.smoothed()) else { return };
        if self.timer != SenderTimer::Feedback || recovery.timer_at.is_none_or(|timer| at < timer) {
            self.timer = SenderTimer::Feedback;
            recovery.timer_at = Some(at);
            cx.set_timer(at);
        }
    }

    /// Sends the oldest packet in flight again if nothing was sent or heard for long enough. Returns
    /// when that will be.
    // NDP-R29
    pub(super) fn probe(&mut self, cx: &mut HostCx<'_, NdpConfig>) -> Option<Instant> {
        let recovery = self.recovery.as_mut().filter(|_| self.flying > 0)?;
        let due = recovery.probe_at(self.heard_at, self.rtt.smoothed())?;
        if due > cx.now {
            return Some(due);
        }
        recovery.probed();
        let oldest = self.window.iter().position(|sent| sent.state == State::InFlight)?;
        let seq = self.base + oldest as u64;
        self.lose(seq, RetransmitCause::Timeout);
        self.resend.push_front(seq);
        self.credits += 1;
        cx.emit(FlowEvent::TimedOut);
        self.say_ready(cx);
        None
    }

    /// Marks a packet in flight as lost.
    fn lose(&mut self, seq: u64, cause: RetransmitCause) {
        let Some(sent) = self.sent_mut(seq) else { return };
        let (path, was_unaccounted) = (sent.path, sent.unaccounted);
        sent.state = State::ToResend(cause);
        sent.unaccounted = false;
        self.unaccounted -= u32::from(was_unaccounted);
        self.flying -= 1;
        self.paths.board.loss(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    const SRTT: Duration = Duration::from_micros(40_000);

    #[test]
    fn next_lost_only_before_the_latest_ack_and_after_the_time_for_reordering() {
        let mut recovery = Recovery::default();
        for seq in 0..3 {
            recovery.sent(seq, at(seq));
        }
        assert_eq!(recovery.next_lost(at(500_000), SRTT, |_, _| true), None, "no ACK yet");
        recovery.acked(at(1), at(40_001));
        let in_flight = |seq, _| seq != 1;
        assert_eq!(recovery.next_lost(at(49_999), SRTT, in_flight), None);
        assert_eq!(recovery.next_lost(at(50_000), SRTT, in_flight), Some(0));
        assert_eq!(recovery.next_lost(at(99_999), SRTT, in_flight), None, "2 was sent after it");
    }

    #[test]
    fn next_lost_waits_longer_after_spurious_ones() {
        let mut recovery = Recovery::default();
        (0..3).for_each(|_| recovery.was_spurious());
        recovery.sent(0, at(0));
        recovery.sent(1, at(1));
        recovery.acked(at(1), at(40_001));
        assert_eq!(recovery.next_lost(at(79_999), SRTT, |seq, _| seq == 0), None);
        assert_eq!(recovery.next_lost(at(80_000), SRTT, |seq, _| seq == 0), Some(0));
    }
}
