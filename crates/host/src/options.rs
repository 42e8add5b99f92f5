//! Options and reports of file transfers.

use crate::driver::{DriverOptions, Traffic};
use crate::seal::random_bytes;
use crate::{
    Endpoint, EndpointOptions, HardwareTrims, Hash, HostError, HostTransport, Key, Service,
};
use punctual_core::{Bytes, Duration, HostId, NicInfo, Rate};
use punctual_transports::ndp::NdpConfig;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Bytes by which the IPv6 header is longer than that of IPv4, which packet sizes include.
pub(crate) const IPV6_LONGER: Bytes = Bytes::new(20);

/// Options of both ends of a transfer. They may differ, but the receiver paces the sender by the
/// receiver's MTU and rate.
#[derive(Debug, Clone)]
pub struct LinkOptions {
    /// Rate at which this host sends packets and, at a receiver, pulls them.
    pub rate: Rate,
    /// Largest IP packet: 1500 B on most networks, up to 65000 B on loopback.
    pub mtu: Bytes,
    /// Bytes that the link adds to each packet: 38 on Ethernet, the default.
    pub framing: Bytes,
    /// How long the peer may be silent before the transfer fails.
    pub silence: Duration,
    /// Parameters of NDP.
    pub ndp: NdpConfig,
    /// The key, in keyed mode. Both ends need the same one.
    pub key: Option<Key>,
    /// Where packets arrive that switches trimmed in hardware.
    pub trims: Option<HardwareTrims>,
    /// Stops the transfer when it becomes true, for signal handlers.
    pub stop: Option<&'static AtomicBool>,
    /// The socket of the host daemon through which files are sent or received. Its rate, MTU,
    /// parameters and key then count instead of those here. Default none: this process has a UDP
    /// socket of its own.
    pub hostd: Option<PathBuf>,
    /// The transport of the files at their sender.
    pub transport: HostTransport,
    /// The service that the receiver listens for and the sender names. Receivers that share a host
    /// daemon need different ones. Default: the default service.
    pub service: Service,
}

impl Default for LinkOptions {
    fn default() -> Self {
        LinkOptions {
            rate: Rate::from_gbps(1),
            mtu: Bytes::new(1_500),
            framing: Bytes::new(38),
            silence: Duration::from_secs(5),
            // The scheduler may suspend a process for tens of milliseconds. A shorter RTO would
            // take that for loss. Each spurious retransmission is pulled too, and stays in flight
            // for the rest of the flow.
            ndp: NdpConfig::for_sockets(),
            key: None,
            trims: None,
            stop: None,
            hostd: None,
            transport: HostTransport::default(),
            service: Service::default(),
        }
    }
}

/// Options of [`send_file`](crate::send_file).
#[derive(Debug, Clone, Default)]
pub struct SendFileOptions {
    /// Deadline, from the call until the receiver has stored the file. A late transfer is still
    /// completed.
    pub deadline: Option<Duration>,
    /// Options of the link.
    pub link: LinkOptions,
}

/// Options of [`receive_file`](crate::receive_file).
#[derive(Debug, Clone)]
pub struct ReceiveOptions {
    /// How long to wait for a sender; without limit when absent.
    pub wait: Option<Duration>,
    /// Largest file accepted.
    pub size_max: Bytes,
    /// Whether to replace an existing file.
    pub overwrite: bool,
    /// Whether to continue interrupted transfers. What has arrived of one is kept in the directory of
    /// the file under a hidden name with its hash, from 1 MiB on.
    pub resume: bool,
    /// Options of the link.
    pub link: LinkOptions,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        ReceiveOptions {
            wait: Some(Duration::from_secs(300)),
            size_max: Bytes::new(1_000_000_000_000),
            overwrite: false,
            resume: true,
            link: LinkOptions::default(),
        }
    }
}

/// The result of sending a file.
#[derive(Debug, Clone, PartialEq)]
pub struct SendReport {
    /// Bytes of the file.
    pub bytes: u64,
    /// The file's hash, confirmed by the receiver.
    pub hash: Hash,
    /// Bytes that the receiver had from an earlier transfer.
    pub resumed: u64,
    /// Time from the call until the sender knew that the file is stored.
    pub duration: Duration,
    /// Time from the first packet until the outcome was known, without the time that the receiver
    /// needed to store the file.
    pub transfer: Duration,
    /// Whether `duration` is within the deadline; `None` without a deadline.
    pub deadline_met: Option<bool>,
    /// Data packets sent again.
    pub retransmits: u64,
    /// Counts of datagrams, with drops by reason.
    pub traffic: Traffic,
}

/// The result of receiving a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiveReport {
    /// The sender's address.
    pub peer: SocketAddr,
    /// The name under which the file is stored.
    pub stored_as: PathBuf,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes that an earlier transfer left.
    pub resumed: u64,
    /// The file's hash, equal to the sender's.
    pub hash: Hash,
    /// Time from the arrival of the offer until the file was stored.
    pub duration: Duration,
    /// Time left until the sender's deadline when it offered the file.
    pub deadline: Option<Duration>,
    /// Whether the deadline was met, counted from the arrival of the offer.
    pub deadline_met: Option<bool>,
    /// Counts of datagrams, with drops by reason.
    pub traffic: Traffic,
}

/// The outcome of one transfer at its receiver.
#[derive(Debug)]
pub struct ReceivedFile {
    /// The sender's address.
    pub peer: SocketAddr,
    /// The name that the sender gives the file, if it is acceptable.
    pub name: Option<String>,
    /// What is left of an incomplete file. The next transfer of the same file continues it.
    pub kept: Option<PathBuf>,
    /// The file, or why there is none.
    pub result: Result<ReceiveReport, HostError>,
}

impl SendReport {
    /// Goodput: bits that were sent per second of `transfer`.
    pub fn goodput(&self) -> Rate {
        Rate::of(Bytes::new(self.bytes - self.resumed), self.transfer)
    }
}

impl ReceiveReport {
    /// Goodput: bits that arrived per second.
    pub fn goodput(&self) -> Rate {
        Rate::of(Bytes::new(self.bytes - self.resumed), self.duration)
    }
}

/// How long an endpoint that is done answers the peer's late packets.
const TIME_WAIT: Duration = Duration::from_millis(50);

pub(crate) fn to_core(time: std::time::Duration) -> Duration {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_picos(nanos.saturating_mul(1_000))
}

pub(crate) fn to_std(time: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(time.as_nanos())
}

impl LinkOptions {
    /// Attaches to the host daemon, if there is one; binds `address` otherwise.
    pub(crate) fn open(&self, address: SocketAddr) -> Result<Endpoint, HostError> {
        match &self.hostd {
            Some(socket) => Endpoint::attach(socket),
            None => Endpoint::bind(address, self.endpoint()),
        }
    }

    /// The options of an endpoint for file transfers.
    fn endpoint(&self) -> EndpointOptions {
        let silence = to_std(self.silence);
        let defaults = EndpointOptions::default();
        EndpointOptions {
            rate: self.rate,
            mtu: self.mtu,
            silence,
            window: defaults.window.max(silence * 2),
            message_max: 2 * crate::send::PART_BYTES,
            key: self.key.clone(),
            trims: self.trims.clone(),
            ndp: self.ndp.clone(),
            ..defaults
        }
    }

    pub(crate) fn driver(&self, is_ipv6: bool) -> Result<DriverOptions, HostError> {
        if !(256..=65_000).contains(&self.mtu.get()) {
            return Err(HostError::Mtu(self.mtu));
        }
        if self.rate.as_bps() < 10_000 {
            return Err(HostError::Rate(self.rate));
        }
        self.ndp.validate().map_err(HostError::Transport)?;
        // Packet sizes include the IPv4 header.
        let longer = if is_ipv6 { IPV6_LONGER } else { Bytes::ZERO };
        let (mtu, framing) = (self.mtu.saturating_sub(longer), self.framing + longer);
        self.ndp
            .check_nic(&NicInfo { host: HostId(0), rate: self.rate, mtu, framing, nics: 1 })
            .map_err(|(_, message)| HostError::Transport(message))?;
        Ok(DriverOptions {
            rate: self.rate,
            mtu,
            has_headroom: false,
            framing,
            time_wait: TIME_WAIT,
            stall_max: self.silence,
            flows_max: 64,
            seed: u64::from_be_bytes(*random_bytes().first_chunk().unwrap_or(&[0; 8])),
        })
    }
}
