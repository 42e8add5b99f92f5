//! Every constant of pHost, with its unit and where it comes from.

use punctual_core::{Bytes, Duration, NicInfo};
use serde::{Deserialize, Serialize};

/// Which flow goes first, where one must.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// The one with the fewest packets left.
    Shortest,
    /// Each in turn.
    Fair,
}

/// Which flows may send before they have heard of their receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FreeFor {
    /// Those that the free tokens are enough for.
    Short,
    /// All, as far as the free tokens go.
    All,
}

/// pHost and its parameters. "The authors' program" is the simulator they published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct Phost {
    /// Data bytes in a full packet; at most the MTU less 40 B, which is the default.
    pub payload: Option<Bytes>,
    /// Tokens that a flow starts with. Default 8 packets (the authors' program).
    pub free_tokens: u32,
    /// Which flows have them: `"short"`, those that fit, as in the authors' program, or `"all"`,
    /// as NDP's comparison ran it. Default `"short"`.
    pub free_for: FreeFor,
    /// How long a token is good for once the sender has it, in packet times. Default 1.5 (the
    /// authors' program).
    pub token_life: f64,
    /// Tokens that a flow may have without answer. Default 8 (the authors' program).
    pub window: u32,
    /// How long a flow that has so many is passed over, in packet times. Default 25 (the authors'
    /// program).
    pub downgrade: f64,
    /// How long to wait for what is missing once all of a flow has had tokens, in packet times.
    /// Default 9 (the authors' program): a round trip.
    pub reissue: f64,
    /// Which flow a receiver gives its next token, and a sender uses one of: `"shortest"` or
    /// `"fair"`. Default `"shortest"`.
    pub policy: Policy,
    /// How long a sender waits to hear of its flow before it asks again; doubled each time, up to
    /// 64 times this. Default 1 ms; ours, as the authors lose no requests.
    pub request_timeout: Duration,
    /// How much a switch holds in each class by default. 36,864 B (the authors' program), but
    /// eight packets at least.
    pub queue: Bytes,
}

/// Why parameters make no sense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PhostConfigError {
    /// Packets without data.
    #[error("payload = 0B: must be 1B or more; remove the key to fill the MTU")]
    NoPayload,
    /// No token could ever be given.
    #[error("window = 0: must be 1 token or more")]
    NoWindow,
    /// Times that make no sense.
    #[error("{0} = {1}: must be from 0.1 to 1000000 packet times")]
    PacketTimes(&'static str, f64),
    /// Requests without end.
    #[error("request_timeout = 0: must be longer")]
    NoRequestTimeout,
    /// More than one number for each packet of a flight.
    #[error("free_tokens = {0}: must be at most 1000000")]
    FreeTokens(u32),
}

impl Default for Phost {
    fn default() -> Self {
        Phost {
            payload: None,
            free_tokens: 8,
            free_for: FreeFor::Short,
            token_life: 1.5,
            window: 8,
            downgrade: 25.0,
            reissue: 9.0,
            policy: Policy::Shortest,
            request_timeout: Duration::from_millis(1),
            queue: Bytes::new(36_864),
        }
    }
}

impl Phost {
    /// Whether these parameters make sense. Reading them from a file checks that.
    pub fn validate(&self) -> Result<(), PhostConfigError> {
        if self.payload == Some(Bytes::ZERO) {
            return Err(PhostConfigError::NoPayload);
        }
        if self.window == 0 {
            return Err(PhostConfigError::NoWindow);
        }
        if self.free_tokens > 1_000_000 {
            return Err(PhostConfigError::FreeTokens(self.free_tokens));
        }
        for (name, times) in [
            ("token_life", self.token_life),
            ("downgrade", self.downgrade),
            ("reissue", self.reissue),
        ] {
            if !(0.1..=1e6).contains(&times) {
                return Err(PhostConfigError::PacketTimes(name, times));
            }
        }
        if self.request_timeout.is_zero() {
            return Err(PhostConfigError::NoRequestTimeout);
        }
        Ok(())
    }

    /// Packets of a flow of so many that go without asking.
    pub fn free_of(&self, packets: u64) -> u64 {
        let free = u64::from(self.free_tokens);
        match self.free_for {
            FreeFor::Short if packets > free => 0,
            FreeFor::Short | FreeFor::All => packets.min(free),
        }
    }

    pub(super) fn payload_bytes(&self, nic: &NicInfo) -> u64 {
        let mtu_bytes = nic.mtu.get().min(u64::from(u16::MAX));
        let room = mtu_bytes.saturating_sub(u64::from(super::HEADER_BYTES)).max(1);
        self.payload.map_or(room, |p| p.get().min(room))
    }
}

crate::validated::validated_when_read!(Phost);
