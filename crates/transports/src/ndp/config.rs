//! NDP's parameters.

use super::header::HEADER_BYTES;
use punctual_core::{Bytes, Duration, NicInfo};
use serde::{Deserialize, Serialize};

/// NDP, with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ndp {
    /// Packets pushed at the start, before any pull. The paper's text uses 30, its scripts 23.
    pub initial_window: u32,
    /// Data bytes in a full packet; without it, what the MTU leaves beside the header. The
    /// paper's simulations carry 9000 in packets of 9064.
    pub payload: Option<Bytes>,
    /// How a packet sent but not heard of is given up for lost. The paper argues that with small
    /// queues no round trip exceeds 400 µs, so that 1 ms is safe.
    pub rto: Duration,
    /// Time between two pulls of one host; without it, a full packet's data at line rate.
    pub pull_spacing: Option<Duration>,
    /// Who spreads packets over paths.
    pub paths: PathPolicy,
}

/// Who chooses a data packet's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathPolicy {
    /// The sender: each path once, in an order drawn anew each round.
    Permuted,
    /// Each switch, at random for each packet.
    SwitchRandom,
    /// One path for the whole flow.
    Single,
}

impl Default for Ndp {
    fn default() -> Self {
        Ndp {
            initial_window: 30,
            payload: None,
            rto: Duration::from_millis(1),
            pull_spacing: None,
            paths: PathPolicy::Permuted,
        }
    }
}

impl Ndp {
    /// Data bytes in a full packet on a network with this MTU.
    pub fn payload_for(&self, mtu: Bytes) -> u64 {
        match self.payload {
            Some(payload) => payload.get(),
            None => mtu.get().saturating_sub(u64::from(HEADER_BYTES)).max(1),
        }
    }

    /// Time between two pulls on this interface: `MTU·8/rate`.
    pub(super) fn spacing_for(&self, nic: &NicInfo) -> Duration {
        self.pull_spacing
            .unwrap_or_else(|| nic.rate.transmission_time(Bytes::new(self.payload_for(nic.mtu))))
    }

    /// What is wrong with the parameters, if anything.
    pub fn validate(&self) -> Result<(), String> {
        if self.initial_window == 0 {
            return Err("initial_window = 0: a sender must push at least 1 packet".into());
        }
        if self.rto.is_zero() {
            return Err("rto = 0: must be longer than a round trip, for example \"1ms\"".into());
        }
        match self.payload.map(Bytes::get) {
            Some(0) => Err("payload = 0: a packet must carry at least 1 byte".into()),
            Some(p) if p > u64::from(u16::MAX - HEADER_BYTES) => {
                Err(format!("payload = {p} B: at most {} B", u16::MAX - HEADER_BYTES))
            }
            _ => Ok(()),
        }
    }
}
