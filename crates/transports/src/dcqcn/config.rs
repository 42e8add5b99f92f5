//! Every constant of DCQCN, with its unit and where it comes from.

use punctual_core::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

/// DCQCN and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct DcqcnConfig {
    /// Data bytes in a full packet; at most the MTU less 44 B, which is the default.
    pub payload: Option<Bytes>,
    /// A receiver tells of marks at most this often, for each flow. Default 50 µs (§3.1).
    pub cnp_interval: Duration,
    /// α falls each time that this passes without a CNP. Default 55 µs (§5.2).
    pub alpha_timer: Duration,
    /// The rate rises each time that this passes without a CNP. Default 55 µs (§5.2).
    pub increase_timer: Duration,
    /// And each time that this much was sent. Default 10 MB (§5.2).
    pub byte_counter: Bytes,
    /// Rises by either of the two that only halve the way to the rate before the cut. Default 5
    /// (§3.1).
    pub fast_recovery: u32,
    /// Weight of the newest CNP in α. Default 1/256 (§5.2); held as a multiple of 2⁻²⁰.
    pub gain: f64,
    /// α of a flow that has not heard of a mark. Default 1 (§3.1).
    pub initial_alpha: f64,
    /// What an additive increase adds to the target. Default 40 Mb/s (§3.1), on lines of 40 Gb/s.
    pub additive_increase: Rate,
    /// What a hyper increase adds. Default 400 Mb/s: ten times the additive one.
    pub hyper_increase: Rate,
    /// No flow is slower. Default 10 Mb/s; ours, as the paper names none.
    pub rate_min: Rate,
    /// A receiver acknowledges at least every so many packets. Default 16; ours, as adapters
    /// coalesce acknowledgements in ways of their own.
    pub ack_every: u32,
    /// How long without an acknowledgement before everything since the last one is sent again;
    /// doubled each time. Default 1 s: on a lossless network it only guards against failures.
    pub rto: Duration,
    /// Switches mark nothing up to this queue, by default. 5 KB (§5.2).
    pub mark_from: Bytes,
    /// They mark everything above this one. 200 KB (§5.2).
    pub mark_to: Bytes,
    /// And so many in a hundred just below that. 1 (§5.2).
    pub mark_percent: u8,
}

/// Why parameters make no sense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DcqcnConfigError {
    /// Packets without data.
    #[error("payload = 0B: must be 1B or more; remove the key to fill the MTU")]
    NoPayload,
    /// Timers that fire at once, forever.
    #[error("{0} = 0: must be longer; the paper has 50us and 55us")]
    NoTime(&'static str),
    /// Rises without end.
    #[error("byte_counter = 0B: must be more; the paper has 10MB")]
    NoByteCounter,
    /// A weight outside its range.
    #[error("gain = {0}: must be above 0 and at most 1; the paper has 1/256")]
    Gain(f64),
    /// A fraction outside its range.
    #[error("initial_alpha = {0}: must be from 0 to 1; the paper has 1")]
    InitialAlpha(f64),
    /// Nothing would ever be sent.
    #[error("rate_min is 0: a flow could stop for ever")]
    NoRate,
    /// Nothing would ever be acknowledged.
    #[error("ack_every = 0: must be 1 packet or more")]
    NoAcks,
    /// Marking that no switch can do.
    #[error("mark_from = {0} and mark_to = {1}: the first must be less")]
    MarkOrder(Bytes, Bytes),
    /// A share outside its range.
    #[error("mark_percent = {0}: must be 1 to 100; the paper has 1")]
    MarkPercent(u8),
}

impl Default for DcqcnConfig {
    fn default() -> Self {
        DcqcnConfig {
            payload: None,
            cnp_interval: Duration::from_micros(50),
            alpha_timer: Duration::from_micros(55),
            increase_timer: Duration::from_micros(55),
            byte_counter: Bytes::new(10_000_000),
            fast_recovery: 5,
            gain: 1.0 / 256.0,
            initial_alpha: 1.0,
            additive_increase: Rate::from_mbps(40),
            hyper_increase: Rate::from_mbps(400),
            rate_min: Rate::from_mbps(10),
            ack_every: 16,
            rto: Duration::from_secs(1),
            mark_from: Bytes::new(5_000),
            mark_to: Bytes::new(200_000),
            mark_percent: 1,
        }
    }
}

impl DcqcnConfig {
    /// Whether these parameters make sense. Reading them from a file checks that.
    pub fn validate(&self) -> Result<(), DcqcnConfigError> {
        if self.payload == Some(Bytes::ZERO) {
            return Err(DcqcnConfigError::NoPayload);
        }
        for (name, time) in [
            ("cnp_interval", self.cnp_interval),
            ("alpha_timer", self.alpha_timer),
            ("increase_timer", self.increase_timer),
            ("rto", self.rto),
        ] {
            if time.is_zero() {
                return Err(DcqcnConfigError::NoTime(name));
            }
        }
        if self.byte_counter == Bytes::ZERO {
            return Err(DcqcnConfigError::NoByteCounter);
        }
        if !(self.gain > 0.0 && self.gain <= 1.0) {
            return Err(DcqcnConfigError::Gain(self.gain));
        }
        if !(0.0..=1.0).contains(&self.initial_alpha) {
            return Err(DcqcnConfigError::InitialAlpha(self.initial_alpha));
        }
        if self.rate_min == Rate::ZERO {
            return Err(DcqcnConfigError::NoRate);
        }
        if self.ack_every == 0 {
            return Err(DcqcnConfigError::NoAcks);
        }
        if self.mark_from >= self.mark_to {
            return Err(DcqcnConfigError::MarkOrder(self.mark_from, self.mark_to));
        }
        if !(1..=100).contains(&self.mark_percent) {
            return Err(DcqcnConfigError::MarkPercent(self.mark_percent));
        }
        Ok(())
    }
}

crate::validated::validated_when_read!(DcqcnConfig);
