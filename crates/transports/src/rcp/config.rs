//! Parameters of RCP, with their sources.

use crate::d3::Pacing;
use crate::paced::RetransmissionConfig;
use crate::rtt::RtoBounds;
use crate::validated::{ConfigError, check};
use punctual_core::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

/// Parameters of RCP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct RcpConfig {
    /// T, the longest time between two updates of a port's rate; the mean RTT if that is shorter.
    /// 800 µs, as in D3 (its §4.4, footnote 4).
    pub update_interval: Duration,
    /// α, the gain of unused capacity. 0.1 (D3 and PDQ).
    pub alpha: f64,
    /// β, the gain of the queue. 1 (D3 and PDQ).
    pub beta: f64,
    /// d, the mean RTT, before the first request. 500 µs (D3's testbed).
    pub rtt_initial: Duration,
    /// The lowest rate: about one header per RTT. 992 kb/s, as D3's base rate.
    pub rate_min: Rate,
    /// Where packets of one host that are due at the same time wait. At their flows, ours.
    pub pacing: Pacing,
    /// Queue limit of a switch port. 128 KB (D3's §5).
    pub buffer: Bytes,
    /// Retransmission timeout before the first RTT sample. 10 ms, ours.
    pub rto_initial: Duration,
    /// Shortest retransmission timeout. 10 ms, as in our D3.
    pub rto_min: Duration,
    /// Longest retransmission timeout, backing off included. 1 s, ours.
    pub rto_max: Duration,
    /// Packets sent later that must be acknowledged before a packet counts as lost. 3, as TCP's.
    pub loss_threshold: u8,
}

impl Default for RcpConfig {
    fn default() -> Self {
        RcpConfig {
            update_interval: Duration::from_micros(800),
            alpha: 0.1,
            beta: 1.0,
            rtt_initial: Duration::from_micros(500),
            rate_min: Rate::from_bps(992_000),
            pacing: Pacing::Host,
            buffer: Bytes::new(128_000),
            rto_initial: Duration::from_millis(10),
            rto_min: Duration::from_millis(10),
            rto_max: Duration::from_secs(1),
            loss_threshold: 3,
        }
    }
}

impl RcpConfig {
    /// Timeouts and loss detection of senders.
    #[inline]
    pub fn retransmission(&self) -> RetransmissionConfig {
        let RcpConfig { rto_initial: initial, rto_min: min, rto_max: max, .. } = *self;
        RetransmissionConfig {
            rto: RtoBounds { initial, min, max },
            loss_threshold: self.loss_threshold,
        }
    }

    /// Checks every parameter; reading a scenario file calls it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let t = self.update_interval;
        check(!t.is_zero(), "update_interval", &t, "above 0")?;
        let a = self.alpha;
        check((0.0..=1.0).contains(&a), "alpha", &a, "between 0 and 1")?;
        let b = self.beta;
        check(b.is_finite() && b >= 0.0, "beta", &b, "0 or more")?;
        let d = self.rtt_initial;
        check(!d.is_zero(), "rtt_initial", &d, "above 0")?;
        let rate = self.rate_min;
        check(rate > Rate::ZERO, "rate_min", &rate, "above 0; about one header per RTT")?;
        let buffer = self.buffer;
        check(buffer > Bytes::ZERO, "buffer", &buffer, "above 0")?;
        self.retransmission().validate()
    }
}

crate::validated::validated_when_read!(RcpConfig);
