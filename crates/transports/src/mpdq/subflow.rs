//! One subflow: a sender of PDQ on one path.

use crate::paced::{Release, Scoreboard};
use crate::pdq::{PdqConfig, PdqHost, PdqSender};
use punctual_core::{Bytes, HostCx, Instant, Rate, TimerChange};

/// State of a subflow's sender.
#[derive(Clone, Debug)]
pub(super) struct Subflow {
    pub(super) pdq: PdqSender,
    /// The NIC that its path leaves by.
    pub(super) nic: u32,
    /// When it is to be called again, or never.
    timer_at: Instant,
    /// Whether it is to be called only to send its next data packet.
    is_departure: bool,
    /// Whether it has sent its SYN. One without load has not.
    pub(super) is_open: bool,
    /// When its last acknowledgement arrived.
    heard_at: Instant,
    /// Whether a timeout has passed since then: its path may be dead.
    pub(super) is_silent: bool,
}

impl Subflow {
    /// A subflow that has sent nothing.
    pub(super) fn new(mut pdq: PdqSender, nic: u32) -> Self {
        pdq.flow.release = Release::Acked; // No port knows it.
        Subflow {
            pdq,
            nic,
            timer_at: Instant::NEVER,
            is_departure: false,
            is_open: false,
            heard_at: Instant::ZERO,
            is_silent: false,
        }
    }

    /// Calls its sender with the flow's scoreboard, and notes when it is to be called again.
    #[inline]
    pub(super) fn call<R>(
        &mut self,
        board: &mut Scoreboard,
        cx: &mut HostCx<'_, PdqConfig>,
        call: impl FnOnce(&mut PdqSender, &mut HostCx<'_, PdqConfig>) -> R,
    ) -> R {
        self.pdq.flow.segments.lend(board);
        let result = call(&mut self.pdq, cx);
        self.pdq.flow.segments.lend(board);
        (self.timer_at, self.is_departure) = match core::mem::take(&mut cx.out.timer) {
            TimerChange::Keep => (self.timer_at, self.is_departure),
            TimerChange::Set(at) => (at, false),
            TimerChange::Depart(at) => (at, true),
            TimerChange::Clear => (Instant::NEVER, false),
        };
        result
    }

    /// An acknowledgement has arrived.
    pub(super) fn note_answer(&mut self, now: Instant) {
        (self.heard_at, self.is_silent) = (now, false);
    }

    /// Counts it as silent if the answers to its probes are overdue, for which PDQ has no timeout.
    pub(super) fn note_silence(&mut self, cx: &HostCx<'_, PdqConfig>) {
        let probes = self.is_open && self.pdq.established() && self.pdq.rate() == Rate::ZERO;
        if probes && self.load() > 0 && !self.is_silent {
            self.is_silent = self.heard_at.saturating_add(self.pdq.patience(cx)) < cx.now;
        }
    }

    /// When it is to be called again, and whether only to send its next data packet.
    pub(super) fn timer(&self) -> (Instant, bool) {
        (self.timer_at, self.is_departure)
    }

    /// Segments left to send, lost ones included.
    #[inline]
    pub(super) fn load(&self) -> u64 {
        self.pdq.flow.segments.left()
    }

    /// Whether it may send, and at more than a packet per RTT. A flow of PDQ that is slower than
    /// that probes too, as a paused one does (PDQ-R04).
    pub(super) fn is_granted(&self, host: &PdqHost) -> bool {
        let (rate, line) = (self.pdq.rate(), host.nic().rate);
        let packet = Bytes::new(host.nic().mtu.get() + host.nic().framing.get());
        let is_slow = || rate.transmission_time(packet) > self.pdq.flow.rtt.smoothed_or_zero();
        // The RTT of a SYN alone can be shorter than the time of a full packet.
        rate > Rate::ZERO && (rate.as_bps() >= line.as_bps() / 2 || !is_slow())
    }

    /// Whether it sends: it has a rate, and something to send.
    pub(super) fn is_sending(&self, host: &PdqHost) -> bool {
        self.load() > 0 && self.is_granted(host)
    }

    /// Whether it sends, or would if it had something to send.
    pub(super) fn sends_on(&self, host: &PdqHost) -> bool {
        (self.load() > 0 || self.runs_out()) && self.is_granted(host)
    }

    /// Whether it has load, but does not send.
    pub(super) fn is_waiting(&self, host: &PdqHost) -> bool {
        self.load() > 0 && !self.is_granted(host)
    }

    /// Whether it has no load, and nothing speaks against its path.
    pub(super) fn is_idle(&self) -> bool {
        self.load() == 0 && !self.is_silent && !self.is_connecting()
    }

    /// Whether it has sent all its load, but no TERM yet.
    pub(super) fn runs_out(&self) -> bool {
        self.is_open && self.pdq.term_due()
    }

    /// Whether its SYN is unanswered.
    pub(super) fn is_connecting(&self) -> bool {
        self.is_open && !self.pdq.established()
    }

    /// Whether it has sent everything and told the ports.
    pub(super) fn is_released(&self) -> bool {
        self.pdq.flow.release == Release::Acked
    }

    /// Whether a packet of it is due or waits for the NIC.
    pub(super) fn wants_nic(&self, now: Instant) -> bool {
        let flow = &self.pdq.flow;
        self.is_open && (flow.waits_for_nic || flow.next_departure() <= now || self.pdq.term_due())
    }
}
