//! Timers and loss detection of paced senders.

use crate::rtt::RtoBounds;
use crate::validated::{ConfigError, check};

/// When a paced sender retransmits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetransmissionConfig {
    /// Bounds of the retransmission timeout: `rto_initial`, `rto_min` and `rto_max`.
    pub rto: RtoBounds,
    /// Packets sent later that must be acknowledged before a packet counts as lost.
    pub loss_threshold: u8,
}

impl RetransmissionConfig {
    /// Checks every parameter.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let RtoBounds { initial, min, max } = self.rto;
        check(!min.is_zero(), "rto_min", &min, "above 0")?;
        check(initial >= min, "rto_initial", &initial, "rto_min or longer")?;
        check(max >= initial, "rto_max", &max, "rto_initial or longer")?;
        check(self.loss_threshold > 0, "loss_threshold", &self.loss_threshold, "1 or more")
    }
}
