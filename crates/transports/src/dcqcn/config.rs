//! Parameters of DCQCN, with their units and sources.

use punctual_core::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

/// Parameters of DCQCN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct DcqcnConfig {
    /// Data bytes in a full packet; at most the MTU less 44 B, which is the default.
    pub payload: Option<Bytes>,
    /// The least time between two CNPs of a flow. Default 50 µs (§3.1).
    pub cnp_interval: Duration,
    /// The time without a CNP after which α falls. Default 55 µs (§5.2).
    pub alpha_timer: Duration,
    /// The time without a CNP after which the rate rises. Default 55 µs (§5.2).
    pub increase_timer: Duration,
    /// The bytes sent without a CNP after which the rate rises. Default 10 MB (§5.2).
    pub byte_counter: Bytes,
    /// F, the rises of either kind in fast recovery, which only halve the distance to the target
    /// rate. Default 5 (§3.1).
    pub fast_recovery: u32,
    /// g, the weight of the newest CNP in α. Default 1/256 (§5.2); held as a multiple of 2⁻²⁰.
    pub gain: f64,
    /// α before the first CNP. Default 1 (§3.1).
    pub initial_alpha: f64,
    /// R_AI, the additive increase of the target rate. Default 40 Mb/s (§3.1), for 40 Gb/s lines.
    pub additive_increase: Rate,
    /// R_HAI, the hyper increase of the target rate. Default 400 Mb/s: ten times R_AI.
    pub hyper_increase: Rate,
    /// The least rate of a flow. Default 10 Mb/s; ours, as the paper gives none.
    pub rate_min: Rate,
    /// ACK coalescing: packets per acknowledgement. Default 16; ours, as adapters differ.
    pub ack_every: u32,
    /// Retransmission timeout (go-back-N), doubled each time. Default 1 s: on a lossless network it
    /// only handles failures.
    pub rto: Duration,
    /// Kmin: the queue up to which switches mark nothing, by default. 5 KB (§5.2).
    pub mark_from: Bytes,
    /// Kmax: the queue above which switches mark every packet. 200 KB (§5.2).
    pub mark_to: Bytes,
    /// Pmax: the marking probability just below Kmax, in percent. 1 (§5.2).
    pub mark_percent: u8,
}

/// A parameter outside its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DcqcnConfigError {
    /// Packets without data.
    #[error("payload = 0B: must be 1B or more; remove the key to fill the MTU")]
    NoPayload,
    /// A timer that would fire without end.
    #[error("{0} = 0: must be longer; the paper has 50us and 55us")]
    NoTime(&'static str),
    /// A byte counter that would raise the rate without end.
    #[error("byte_counter = 0B: must be more; the paper has 10MB")]
    NoByteCounter,
    /// A weight outside its range.
    #[error("gain = {0}: must be above 0 and at most 1; the paper has 1/256")]
    Gain(f64),
    /// A fraction outside its range.
    #[error("initial_alpha = {0}: must be from 0 to 1; the paper has 1")]
    InitialAlpha(f64),
    /// A rate of zero.
    #[error("rate_min = 0: must be above 0, or a flow could stop; the default is 10Mbps")]
    NoRate,
    /// No acknowledgements.
    #[error("ack_every = 0: must be 1 packet or more")]
    NoAcks,
    /// Marking thresholds in the wrong order.
    #[error("mark_from = {0} must be below mark_to = {1}")]
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
    /// Checks every parameter; reading a scenario file calls it.
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
