//! Parameters of UDP.

use punctual_core::{Duration, Rate};
use serde::{Deserialize, Serialize};

/// Parameters of UDP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct UdpConfig {
    /// The rate of a flow, headers and framing included; at most the line rate. 10 Mb/s, ours: a
    /// low rate.
    pub rate: Rate,
    /// How long after its last datagram a sender ends the flow. 10 ms, ours.
    pub linger: Duration,
    /// Whether switches may trim datagrams instead of dropping them, as in NDP's Figure 2. Default
    /// false.
    pub trimmable: bool,
}

/// A rate of zero.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rate = 0: must be above 0, for example \"10Mbps\"")]
pub struct UdpError;

impl Default for UdpConfig {
    fn default() -> Self {
        UdpConfig { rate: Rate::from_mbps(10), linger: Duration::from_millis(10), trimmable: false }
    }
}

impl UdpConfig {
    /// Checks every parameter; reading a scenario file calls it.
    pub fn validate(&self) -> Result<(), UdpError> {
        if self.rate == Rate::ZERO { Err(UdpError) } else { Ok(()) }
    }
}

crate::validated::validated_when_read!(UdpConfig);
