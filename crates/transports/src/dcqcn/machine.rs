//! The rate machine of a flow, in integers: CNPs cut the rate; time and bytes sent raise it.

use super::DcqcnConfig;
use crate::tcp::{Fraction, next_alpha};
use punctual_core::{Duration, Instant, Rate};

/// Parameters of the rate machine in internal units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineParams {
    alpha_timer: Duration,
    increase_timer: Duration,
    byte_counter: u64,
    fast_recovery: u32,
    gain: Fraction,
    initial_alpha: Fraction,
    additive_increase: Rate,
    hyper_increase: Rate,
    rate_min: Rate,
    line: Rate,
}

impl MachineParams {
    /// The parameters for a host with that line rate.
    pub fn new(config: &DcqcnConfig, line: Rate) -> Self {
        MachineParams {
            alpha_timer: config.alpha_timer,
            increase_timer: config.increase_timer,
            byte_counter: config.byte_counter.get(),
            fast_recovery: config.fast_recovery,
            gain: Fraction::from_f64(config.gain),
            initial_alpha: Fraction::from_f64(config.initial_alpha),
            additive_increase: config.additive_increase,
            hyper_increase: config.hyper_increase,
            rate_min: config.rate_min.min(line),
            line,
        }
    }
}

/// The reaction point: current rate R_C, target rate R_T and α of a flow, with timer and byte
/// counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateMachine {
    current: Rate,
    target: Rate,
    alpha: Fraction,
    /// Rises by the timer, and by the byte counter, since the last cut.
    by_timer: u32,
    by_bytes: u32,
    /// Bytes sent since the byte counter last rose.
    counted: u64,
    /// When the two timers fire; never before the first cut.
    alpha_at: Instant,
    increase_at: Instant,
}

impl RateMachine {
    /// Starts at line rate. DCQCN-R01.
    pub fn new(params: &MachineParams) -> Self {
        RateMachine {
            current: params.line,
            target: params.line,
            alpha: params.initial_alpha,
            by_timer: 0,
            by_bytes: 0,
            counted: 0,
            alpha_at: Instant::NEVER,
            increase_at: Instant::NEVER,
        }
    }

    /// R_C, the current rate.
    #[inline]
    pub fn current(&self) -> Rate {
        self.current
    }

    /// R_T, the target rate.
    pub fn target(&self) -> Rate {
        self.target
    }

    /// α, the congestion estimate.
    pub fn alpha(&self) -> Fraction {
        self.alpha
    }

    /// Cuts the rate on a CNP. DCQCN-R04.
    pub fn handle_cnp(&mut self, now: Instant, params: &MachineParams) {
        let cut = self.alpha.times(self.current.as_bps()) / 2;
        self.target = self.current;
        self.current = Rate::from_bps(self.current.as_bps() - cut).max(params.rate_min);
        self.alpha = next_alpha(self.alpha, params.gain, 1, 1);
        (self.by_timer, self.by_bytes, self.counted) = (0, 0, 0);
        self.alpha_at = now + params.alpha_timer;
        self.increase_at = now + params.increase_timer;
    }

    /// Counts sent bytes. Returns whether the rate changed. DCQCN-R06.
    #[inline]
    pub fn count_sent(&mut self, bytes: u64, params: &MachineParams) -> bool {
        if self.is_at_line(params) {
            return false;
        }
        self.counted += bytes;
        if self.counted < params.byte_counter {
            return false;
        }
        self.counted -= params.byte_counter;
        self.by_bytes += 1;
        self.rise(params);
        true
    }

    /// Applies the timers that are due. Returns whether the rate changed.
    pub fn handle_timeout(&mut self, now: Instant, params: &MachineParams) -> bool {
        while self.alpha_at <= now {
            // DCQCN-R05
            self.alpha = next_alpha(self.alpha, params.gain, 0, 1);
            self.alpha_at = match self.alpha {
                Fraction::ZERO => Instant::NEVER,
                _ => self.alpha_at + params.alpha_timer,
            };
        }
        let mut rose = false;
        while self.increase_at <= now {
            self.by_timer += 1;
            self.rise(params);
            rose = true;
            self.increase_at = match self.is_at_line(params) {
                true => Instant::NEVER,
                false => self.increase_at + params.increase_timer,
            };
        }
        rose
    }

    /// When the next timer fires.
    #[inline]
    pub fn next_timeout(&self) -> Instant {
        self.alpha_at.min(self.increase_at)
    }

    /// Whether the rate has fully recovered.
    #[inline]
    fn is_at_line(&self, params: &MachineParams) -> bool {
        self.current == params.line && self.target == params.line
    }

    /// Raises the rate after a timer or byte-counter event. DCQCN-R07 to R09.
    fn rise(&mut self, params: &MachineParams) {
        let recovery = params.fast_recovery;
        let step = if self.by_timer.max(self.by_bytes) <= recovery {
            Rate::ZERO
        } else if self.by_timer.min(self.by_bytes) <= recovery {
            params.additive_increase
        } else {
            params.hyper_increase
        };
        self.target = self.target.saturating_add(step).min(params.line);
        // Rounded up, so that R_C reaches R_T.
        let sum = self.target.as_bps() + self.current.as_bps();
        self.current = Rate::from_bps(sum.div_ceil(2)).min(params.line);
    }
}
