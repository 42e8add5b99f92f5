//! What one may choose, and what one is told.

use crate::driver::{DriverOptions, Traffic};
use crate::{Hash, HostError};
use punctual_core::{Bytes, Duration, HostId, NicInfo, Rate};
use punctual_transports::ndp::NdpConfig;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;

/// What both ends of a transfer choose. They need not choose the same, but a receiver paces its
/// sender by its own MTU and rate.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkOptions {
    /// Rate at which packets leave this host and, at a receiver, at which it asks for them.
    pub rate: Rate,
    /// Largest IP packet: 1500 B on most networks, up to 65000 B on loopback.
    pub mtu: Bytes,
    /// Bytes that the link adds to each packet: 38 on Ethernet, which is the default.
    pub framing: Bytes,
    /// For how long the other end may be silent.
    pub silence: Duration,
    /// Where flow names come from; drawn by the system when absent.
    pub seed: Option<u64>,
    /// The transport.
    pub ndp: NdpConfig,
}

impl Default for LinkOptions {
    fn default() -> Self {
        LinkOptions {
            rate: Rate::from_gbps(1),
            mtu: Bytes::new(1_500),
            framing: Bytes::new(38),
            silence: Duration::from_secs(5),
            seed: None,
            // A process that shares its processor may be away for tens of milliseconds. Taking
            // that for a lost packet costs more than waiting: each packet sent again in vain is
            // pulled again too, and stays in flight for the rest of the flow.
            ndp: NdpConfig { rto: Duration::from_millis(50), ..NdpConfig::default() },
        }
    }
}

/// How to send a file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SendOptions {
    /// How long the transfer may take. Nothing is given up when it takes longer.
    pub deadline: Option<Duration>,
    /// The rest.
    pub link: LinkOptions,
}

/// How to receive a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiveOptions {
    /// How long to wait for a sender; for ever when absent.
    pub wait: Option<Duration>,
    /// Largest file accepted.
    pub size_max: Bytes,
    /// Whether a file that is there already may be replaced.
    pub overwrite: bool,
    /// The rest.
    pub link: LinkOptions,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        ReceiveOptions {
            wait: Some(Duration::from_secs(300)),
            size_max: Bytes::new(1_000_000_000_000),
            overwrite: false,
            link: LinkOptions::default(),
        }
    }
}

/// How sending went.
#[derive(Debug, Clone, PartialEq)]
pub struct SendReport {
    /// Bytes of the file.
    pub bytes: u64,
    /// The file's hash, confirmed by the receiver.
    pub hash: Hash,
    /// From the first packet until the receiver was known to have every byte.
    pub duration: Duration,
    /// Whether that was in time, where there was a deadline.
    pub deadline_met: Option<bool>,
    /// Data packets sent again.
    pub retransmits: u64,
    /// Retransmission timers that fired.
    pub timeouts: u64,
    /// Headers that switches returned.
    pub bounces: u64,
    /// Datagrams, with those dropped by name.
    pub traffic: Traffic,
}

/// How receiving went.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiveReport {
    /// Who sent.
    pub peer: SocketAddr,
    /// Bytes of the file.
    pub bytes: u64,
    /// The file's hash, which is the sender's.
    pub hash: Hash,
    /// From the first packet's arrival to the last byte's.
    pub duration: Duration,
    /// The sender's deadline.
    pub deadline: Option<Duration>,
    /// Whether it was met, counted from the first packet's arrival.
    pub deadline_met: Option<bool>,
    /// Trimmed packets that arrived.
    pub trims: u64,
    /// Datagrams, with those dropped by name.
    pub traffic: Traffic,
}

impl SendReport {
    /// Bits of the file per second.
    pub fn goodput(&self) -> Rate {
        Rate::of(Bytes::new(self.bytes), self.duration)
    }
}

impl ReceiveReport {
    /// Bits of the file per second.
    pub fn goodput(&self) -> Rate {
        Rate::of(Bytes::new(self.bytes), self.duration)
    }
}

/// How long an end that has what it wants answers the other's late packets.
pub(crate) const TIME_WAIT: Duration = Duration::from_millis(50);

/// How long a receiver insists on telling its verdict.
pub(crate) const VERDICT_PATIENCE: Duration = Duration::from_secs(1);

impl LinkOptions {
    pub(crate) fn driver(&self, is_ipv6: bool) -> Result<DriverOptions, HostError> {
        if !(256..=65_000).contains(&self.mtu.get()) {
            return Err(HostError::Mtu(self.mtu));
        }
        if self.rate.as_bps() < 10_000 {
            return Err(HostError::Rate(self.rate));
        }
        self.ndp.validate().map_err(HostError::Transport)?;
        // Packet sizes are counted with IPv4's header; IPv6's is 20 bytes longer.
        let longer = Bytes::new(if is_ipv6 { 20 } else { 0 });
        let (mtu, framing) = (self.mtu.saturating_sub(longer), self.framing + longer);
        self.ndp
            .check_nic(&NicInfo { host: HostId(0), rate: self.rate, mtu, framing })
            .map_err(|(_, message)| HostError::Transport(message))?;
        Ok(DriverOptions {
            rate: self.rate,
            mtu,
            framing,
            time_wait: TIME_WAIT,
            flows_max: 64,
            // RandomState's keys are the system's randomness, hashed.
            seed: self.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish()),
        })
    }
}
