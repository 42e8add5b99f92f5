//! The congestion window and the laws that change it, in integers.

use punctual_core::{Bytes, Class, Duration, FlowSpec, Instant};

/// A number from 0 to 1 as a multiple of 2⁻²⁰.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Fraction(u32);

impl Fraction {
    /// Bits after the binary point.
    pub const BITS: u32 = 20;
    /// Zero.
    pub const ZERO: Fraction = Fraction(0);
    /// One.
    pub const ONE: Fraction = Fraction(1 << Self::BITS);

    /// From a real number, to the nearest multiple; below 0 is 0, above 1 is 1.
    pub fn from_f64(value: f64) -> Self {
        let scaled = value * f64::from(Self::ONE.0) + 0.5;
        Fraction((scaled as u32).min(Self::ONE.0))
    }

    /// `bits · 2⁻²⁰`, at most 1.
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Fraction(if bits < Self::ONE.0 { bits } else { Self::ONE.0 })
    }

    /// As a real number, exactly.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE.0)
    }

    /// The number of multiples of 2⁻²⁰.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// `self · value`, rounded down.
    pub fn times(self, value: u64) -> u64 {
        ((u128::from(value) * u128::from(self.0)) >> Self::BITS) as u64
    }
}

/// The input of a window law for one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Feedback {
    /// The time.
    pub now: Instant,
    /// Bytes it acknowledges for the first time; 0 for a duplicate.
    pub newly_acked_bytes: u64,
    /// Whether the packet acknowledged was marked.
    pub marked: bool,
    /// First byte not acknowledged.
    pub una: u64,
    /// First byte never sent.
    pub next: u64,
    /// The window.
    pub cwnd_bytes: u64,
    /// Whether the window is in slow start.
    pub slow_start: bool,
    /// Bytes of the flow not acknowledged.
    pub remaining_bytes: u64,
    /// Smoothed round-trip time, if known.
    pub smoothed_rtt: Option<Duration>,
}

/// The output of a window law: how the window changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Slow start or congestion avoidance as in TCP.
    Grow {
        /// In congestion avoidance, the share of the acknowledged bytes that counts.
        share: Fraction,
    },
    /// Leave the window unchanged.
    Hold,
    /// End slow start at the present window.
    EndSlowStart,
    /// `W ← max(W · (1 − penalty/2), floor)`, and end slow start.
    Cut {
        /// 1 halves the window, 0 leaves it unchanged.
        penalty: Fraction,
        /// The least window after the cut, in packets.
        floor_packets: u32,
    },
    /// Grow as in TCP, then cut.
    GrowAndCut {
        /// 1 halves the window, 0 leaves it unchanged.
        penalty: Fraction,
        /// The least window after the cut, in packets.
        floor_packets: u32,
    },
}

impl Reaction {
    /// Growth as in TCP.
    pub const GROW: Reaction = Reaction::Grow { share: Fraction::ONE };
}

/// A window law: how a sender reacts to acknowledgements and marks.
///
/// The reaction to loss is the same for all laws and implemented in the sender. A law is created
/// when its flow opens, knows the flow's deadline, and keeps its own counters.
pub trait WindowLaw: Sized {
    /// Parameters of the law.
    type Config: Clone + core::fmt::Debug + PartialEq;
    /// Whether data packets are ECN-capable.
    const ECN_CAPABLE: bool;

    /// The law of a flow that opens.
    fn new(config: &Self::Config, flow: &FlowSpec) -> Self;

    /// The class of a flow's packets: by default the flow's own.
    fn class(_config: &Self::Config, flow: &FlowSpec) -> Class {
        flow.class
    }

    /// The application changed the deadline.
    fn set_deadline(&mut self, _deadline: Option<Instant>) {}

    /// Handles an acknowledgement.
    fn handle_ack(&mut self, ack: &Feedback, config: &Self::Config) -> Reaction;

    /// Reports its state for time series.
    fn gauges(&self, _tell: &mut dyn FnMut(&'static str, f64)) {}

    /// The window was cut because of a loss; `next` is the first byte never sent.
    fn handle_loss(&mut self, _next: u64) {}
}

/// TCP NewReno, whose data is not ECN-capable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewReno;

impl WindowLaw for NewReno {
    type Config = ();
    const ECN_CAPABLE: bool = false;

    fn new(_: &(), _: &FlowSpec) -> Self {
        NewReno
    }

    #[inline]
    fn handle_ack(&mut self, _: &Feedback, _: &()) -> Reaction {
        Reaction::GROW
    }
}

/// `α ← (1 − g) α + g · F` once per window, with F the fraction of acknowledged bytes that were
/// marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkEstimator {
    alpha: Fraction,
    acked_bytes: u64,
    marked_bytes: u64,
    /// The window under observation ends when this byte is acknowledged.
    window_end: u64,
}

impl MarkEstimator {
    /// An estimator with an initial α.
    pub fn new(initial_alpha: Fraction) -> Self {
        MarkEstimator { alpha: initial_alpha, acked_bytes: 0, marked_bytes: 0, window_end: 0 }
    }

    /// α.
    pub fn alpha(&self) -> Fraction {
        self.alpha
    }

    /// Counts an acknowledgement; returns whether it ended a window. DCTCP-R03.
    #[inline]
    pub fn count(&mut self, ack: &Feedback, gain: Fraction) -> bool {
        self.acked_bytes += ack.newly_acked_bytes;
        if ack.marked {
            self.marked_bytes += ack.newly_acked_bytes;
        }
        if ack.una <= self.window_end {
            return false;
        }
        self.alpha = next_alpha(self.alpha, gain, self.marked_bytes, self.acked_bytes);
        self.window_end = ack.next;
        self.acked_bytes = 0;
        self.marked_bytes = 0;
        true
    }
}

/// `(1 − g) α + g · marked/acked`, each product rounded down, so that α without marks falls to 0
/// and does not stick above it.
pub fn next_alpha(alpha: Fraction, gain: Fraction, marked: u64, acked: u64) -> Fraction {
    let decay = if alpha == Fraction::ZERO { 0 } else { gain.times(u64::from(alpha.0)).max(1) };
    let marked = marked.min(acked);
    let rise =
        (u128::from(gain.0) * u128::from(marked)).checked_div(u128::from(acked)).unwrap_or(0);
    let next = u64::from(alpha.0) - decay + rise as u64;
    Fraction((next as u32).min(Fraction::ONE.0))
}

/// Parameters of [`DctcpLaw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DctcpParams {
    /// g, the weight of the newest window.
    pub gain: Fraction,
    /// Initial α.
    pub initial_alpha: Fraction,
    /// The least window after a cut, in packets.
    pub window_min: u32,
    /// See [`DctcpConfig::cut_every_window`](super::DctcpConfig::cut_every_window).
    pub cut_every_window: bool,
}

/// DCTCP: `W ← W · (1 − α/2)` once in a window with marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DctcpLaw {
    marks: MarkEstimator,
    /// No other cut, and no growth, until a byte after this is acknowledged.
    cut_end: u64,
}

impl DctcpLaw {
    /// α, the mean fraction of marked bytes.
    pub fn alpha(&self) -> Fraction {
        self.marks.alpha()
    }

    /// The law with `penalty(α)` in place of α: the identity in DCTCP.
    #[inline]
    pub fn react(
        &mut self,
        ack: &Feedback,
        params: &DctcpParams,
        penalty: impl FnOnce(Fraction) -> Fraction,
    ) -> Reaction {
        let window_ended = self.marks.count(ack, params.gain);
        let alpha = self.marks.alpha();
        if params.cut_every_window {
            // DCTCP-R07
            return if window_ended && alpha > Fraction::ZERO && !ack.slow_start {
                Reaction::GrowAndCut { penalty: penalty(alpha), floor_packets: params.window_min }
            } else if ack.marked && ack.slow_start {
                Reaction::EndSlowStart
            } else {
                Reaction::GROW
            };
        }
        if ack.una <= self.cut_end {
            return Reaction::Hold;
        }
        if ack.marked {
            // DCTCP-R04
            self.cut_end = ack.next;
            return Reaction::Cut { penalty: penalty(alpha), floor_packets: params.window_min };
        }
        Reaction::GROW
    }
}

impl WindowLaw for DctcpLaw {
    type Config = DctcpParams;
    const ECN_CAPABLE: bool = true;

    fn new(params: &DctcpParams, _: &FlowSpec) -> Self {
        DctcpLaw { marks: MarkEstimator::new(params.initial_alpha), cut_end: 0 }
    }

    #[inline]
    fn handle_ack(&mut self, ack: &Feedback, params: &DctcpParams) -> Reaction {
        self.react(ack, params, |alpha| alpha)
    }

    fn gauges(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("alpha", self.alpha().as_f64());
    }

    fn handle_loss(&mut self, next: u64) {
        self.cut_end = next;
    }
}

/// Congestion window and slow-start threshold, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    cwnd_bytes: u64,
    ssthresh_bytes: u64,
    mss_bytes: u64,
    max_bytes: u64,
    /// Bytes acknowledged in congestion avoidance since the window last grew.
    credit_bytes: u64,
}

impl Window {
    pub(super) fn new(
        mss_bytes: u64,
        packets: u32,
        ssthresh: Option<Bytes>,
        max: Option<Bytes>,
    ) -> Self {
        let max_bytes = max.map_or(u64::MAX, |max| max.get().max(mss_bytes));
        Window {
            cwnd_bytes: mss_bytes.saturating_mul(u64::from(packets)).min(max_bytes),
            ssthresh_bytes: ssthresh.map_or(u64::MAX, Bytes::get),
            mss_bytes,
            max_bytes,
            credit_bytes: 0,
        }
    }

    /// The congestion window.
    pub fn cwnd_bytes(&self) -> u64 {
        self.cwnd_bytes
    }

    /// The slow-start threshold.
    pub fn ssthresh_bytes(&self) -> u64 {
        self.ssthresh_bytes
    }

    /// Whether the window is in slow start.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd_bytes < self.ssthresh_bytes
    }

    /// Grows the window for `acked_bytes` newly acknowledged bytes: by at most `burst_packets` in
    /// slow start, and for `share` of them in congestion avoidance. TCP-R04, R05.
    #[inline]
    pub(super) fn grow(&mut self, acked_bytes: u64, burst_packets: u64, share: Fraction) {
        let mut acked_bytes = acked_bytes;
        if self.in_slow_start() {
            let step = acked_bytes.min(burst_packets * self.mss_bytes);
            let room = self.ssthresh_bytes - self.cwnd_bytes;
            self.cwnd_bytes += step.min(room);
            acked_bytes = step.saturating_sub(room);
        }
        if acked_bytes > 0 {
            self.credit_bytes += share.times(acked_bytes);
            if self.credit_bytes >= self.cwnd_bytes {
                self.credit_bytes -= self.cwnd_bytes;
                self.cwnd_bytes += self.mss_bytes;
            }
        }
        self.cwnd_bytes = self.cwnd_bytes.min(self.max_bytes);
    }

    /// Cuts the window because of marks, and resets the bytes counted towards its growth. DCTCP-R04.
    pub(super) fn cut(&mut self, penalty: Fraction, floor_packets: u32) {
        self.shrink(penalty, floor_packets);
        self.credit_bytes = 0;
    }

    /// Cuts a window that has also grown, because of marks. DCTCP-R07.
    pub(super) fn shrink(&mut self, penalty: Fraction, floor_packets: u32) {
        let floor = self.mss_bytes * u64::from(floor_packets);
        let left = self.cwnd_bytes - penalty.times(self.cwnd_bytes) / 2;
        self.ssthresh_bytes = left.max(floor);
        self.cwnd_bytes = self.cwnd_bytes.min(self.ssthresh_bytes);
    }

    pub(super) fn end_slow_start(&mut self) {
        self.ssthresh_bytes = self.ssthresh_bytes.min(self.cwnd_bytes);
    }

    /// Sets ssthresh to half of the bytes in flight. TCP-R06.
    pub(super) fn halve_threshold(&mut self, flight_bytes: u64) {
        self.ssthresh_bytes = (flight_bytes / 2).max(2 * self.mss_bytes);
        self.credit_bytes = 0;
    }

    /// Sets the window, to one packet at least and its bound at most.
    pub(super) fn set(&mut self, cwnd_bytes: u64) {
        self.cwnd_bytes = self.bound(cwnd_bytes.max(self.mss_bytes));
    }

    /// `bytes`, at most `window_max`. TCP-R13.
    #[inline]
    pub(super) fn bound(&self, bytes: u64) -> u64 {
        bytes.min(self.max_bytes)
    }
}
