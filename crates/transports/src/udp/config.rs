//! Parameters of UDP.

use punctual_core::{Duration, Rate};
use serde::{Deserialize, Serialize};

/// Datagrams at a constant rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct UdpConfig {
    /// At which a flow sends, headers and framing included; the line's where that is slower.
    /// 10 Mb/s, ours: a low rate.
    pub rate: Rate,
    /// How long after its last datagram a sender forgets the flow. 10 ms, ours.
    pub linger: Duration,
    /// Whether switches may trim its datagrams rather than drop them, as those of NDP's Figure 2.
    /// Default no.
    pub trimmable: bool,
}

/// A parameter that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`rate` is 0: nothing would ever be sent")]
pub struct UdpError;

impl Default for UdpConfig {
    fn default() -> Self {
        UdpConfig { rate: Rate::from_mbps(10), linger: Duration::from_millis(10), trimmable: false }
    }
}

impl UdpConfig {
    /// What is wrong with the parameters, if anything.
    pub fn validate(&self) -> Result<(), UdpError> {
        if self.rate == Rate::ZERO { Err(UdpError) } else { Ok(()) }
    }
}

crate::validated::validated_when_read!(UdpConfig);
