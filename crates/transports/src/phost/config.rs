//! Parameters of pHost, with their units and sources.

use punctual_core::{Bytes, Duration, NicInfo};
use serde::{Deserialize, Serialize};

/// Which pHost is modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhostVariant {
    /// The authors': windows and timeouts are constants for the RTT of their network.
    #[default]
    Authors,
    /// That of NDP's comparison: every flow starts with an RTT at line rate; windows and timeouts
    /// follow from the RTTs that receivers measure.
    NdpPaper,
}

/// Which flow gets the next token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenPolicy {
    /// The one with the fewest packets left.
    Shortest,
    /// Round-robin.
    Fair,
}

/// Which flows may send before the first token arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FreeTokensFor {
    /// Flows that the free tokens cover completely.
    Short,
    /// All flows, up to the number of free tokens.
    All,
}

/// Parameters of pHost. "The authors' program" is the simulator they published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct PhostConfig {
    /// Data bytes in a full packet; at most the MTU less 40 B, which is the default.
    pub payload: Option<Bytes>,
    /// Which pHost is modelled: `"authors"` or `"ndp-paper"`. Default `"authors"`.
    pub variant: PhostVariant,
    /// The RTT of the empty network, from which `free_tokens` follows if it is not set.
    /// Default none.
    pub rtt: Option<Duration>,
    /// Tokens that a flow starts with. Default as many packets as `rtt` has room for, or 8 (the
    /// authors' program).
    pub free_tokens: Option<u32>,
    /// Which flows have them: `"short"`, those that fit, or `"all"`. Default `"short"` for the
    /// authors' (their program), `"all"` for NDP's paper (its text).
    pub free_for: Option<FreeTokensFor>,
    /// Lifetime of a token at the sender, in packet times. Default 1.5 (the
    /// authors' program).
    pub token_life: f64,
    /// The most unanswered tokens of a flow. Default 8 (the authors' program), an RTT of
    /// their network; with `variant = "ndp-paper"` at least the packets of the longest RTT that the
    /// flow's receiver has measured.
    pub window: Option<u32>,
    /// How long a flow with a full window is skipped, in packet times. Default 25 (the authors'
    /// program), three RTTs of their network; if RTTs are measured, at least three of those.
    pub downgrade: f64,
    /// How long after the last token of a flow its missing packets get another, in packet times.
    /// Default 9 (the authors' program), an RTT; if RTTs are measured, at least one of those.
    pub reissue: f64,
    /// Which flow a receiver gives its next token, and a sender uses one of: `"shortest"` or
    /// `"fair"`. Default `"shortest"`.
    pub policy: TokenPolicy,
    /// Timeout of a request without answer; doubled each time, up to 64 times this. Default 1 ms; ours, as the authors lose no requests.
    pub request_timeout: Duration,
    /// Queue limit of a switch port in each class, by default. 36,864 B (the authors' program), but
    /// eight packets at least.
    pub queue: Bytes,
}

/// An RTT of the authors' network, in packets.
const PACKETS: u32 = 8;
/// More than one number for each packet of a flight.
pub(super) const FREE_MAX: u32 = 1_000_000;
const RTT_MAX: Duration = Duration::from_secs(1);

/// A parameter outside its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PhostConfigError {
    /// Packets without data.
    #[error("payload = 0B: must be 1B or more; remove the key to fill the MTU")]
    NoPayload,
    /// No token could ever be given.
    #[error("window = 0: must be 1 token or more")]
    NoWindow,
    /// A time outside its range.
    #[error("{0} = {1}: must be from 0.1 to 1000000 packet times")]
    PacketTimes(&'static str, f64),
    /// Requests without end.
    #[error("request_timeout = 0: must be longer")]
    NoRequestTimeout,
    /// An RTT outside the range of datacenters.
    #[error("rtt = {0}: must be more than 0 and at most 1s")]
    Rtt(Duration),
    /// More than one number for each packet of a flight.
    #[error("free_tokens = {0}: must be at most 1000000")]
    FreeTokens(u32),
}

impl Default for PhostConfig {
    fn default() -> Self {
        PhostConfig {
            payload: None,
            variant: PhostVariant::Authors,
            rtt: None,
            free_tokens: None,
            free_for: None,
            token_life: 1.5,
            window: None,
            downgrade: 25.0,
            reissue: 9.0,
            policy: TokenPolicy::Shortest,
            request_timeout: Duration::from_millis(1),
            queue: Bytes::new(36_864),
        }
    }
}

impl PhostConfig {
    /// Checks every parameter; reading a scenario file calls it.
    pub fn validate(&self) -> Result<(), PhostConfigError> {
        if self.payload == Some(Bytes::ZERO) {
            return Err(PhostConfigError::NoPayload);
        }
        if self.window == Some(0) {
            return Err(PhostConfigError::NoWindow);
        }
        if let Some(free) = self.free_tokens.filter(|free| *free > FREE_MAX) {
            return Err(PhostConfigError::FreeTokens(free));
        }
        if self.rtt.is_some_and(|rtt| rtt.is_zero() || rtt > RTT_MAX) {
            return Err(PhostConfigError::Rtt(self.rtt.unwrap_or(Duration::ZERO)));
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

    /// Tokens that a flow starts with on a line where a full packet takes so long. PHOST-R02.
    pub fn free_tokens_at(&self, packet: Duration) -> u32 {
        let of_rtt = |rtt: Duration| rtt.as_picos().div_ceil(packet.as_picos().max(1));
        let derived = || self.rtt.map_or(u64::from(PACKETS), of_rtt).min(u64::from(FREE_MAX));
        self.free_tokens.unwrap_or_else(|| derived() as u32)
    }

    /// Packets that a flow of `packets` sends without tokens, on a host with `free_tokens`.
    pub fn free_of(&self, packets: u64, free_tokens: u32) -> u64 {
        let free = u64::from(free_tokens);
        let free_for = self.free_for.unwrap_or(match self.variant {
            PhostVariant::Authors => FreeTokensFor::Short,
            PhostVariant::NdpPaper => FreeTokensFor::All,
        });
        match free_for {
            FreeTokensFor::Short if packets > free => 0,
            FreeTokensFor::Short | FreeTokensFor::All => packets.min(free),
        }
    }

    /// The least window, before RTTs are measured.
    pub(super) fn window_at_least(&self) -> u32 {
        self.window.unwrap_or(PACKETS)
    }

    /// Whether receivers measure RTTs.
    pub(super) fn measures(&self) -> bool {
        self.variant == PhostVariant::NdpPaper && self.window.is_none()
    }

    pub(super) fn payload_bytes(&self, nic: &NicInfo) -> u64 {
        let mtu_bytes = nic.mtu.get().min(u64::from(u16::MAX));
        let room = mtu_bytes.saturating_sub(u64::from(super::HEADER_BYTES)).max(1);
        self.payload.map_or(room, |p| p.get().min(room))
    }
}

crate::validated::validated_when_read!(PhostConfig);
