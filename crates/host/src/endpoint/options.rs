//! Options and outcomes.

use super::services::Service;
use crate::driver::SEGMENT_MIN;
use crate::{HostError, HostNic, Key};
use punctual_core::{Bytes, Rate, Transport as _};
use punctual_transports::AnyTransport;
use punctual_transports::d3::{D3CommonConfig, D3Config, RcpdcConfig};
use punctual_transports::ndp::NdpConfig;
use punctual_transports::pdq::PdqConfig;
use std::net::SocketAddr;
use std::time::Duration;

/// Options of an [`Endpoint`](crate::Endpoint).
#[derive(Debug, Clone)]
pub struct EndpointOptions {
    /// Rate at which this host sends packets and pulls them. Default 10 Gb/s.
    pub rate: Rate,
    /// Largest IP packet. Default 1500 B.
    pub mtu: Bytes,
    /// How long a peer may be silent before a send ends. Default 5 s.
    pub silence: Duration,
    /// How long after its start an endpoint asks new peers to prove their address and to name this
    /// process, and how long it remembers the messages of a silent peer. Within this time of a
    /// restart no message is delivered twice. Must be longer than `silence`. Default 30 s.
    pub window: Duration,
    /// Largest message accepted. Default 1 GB.
    pub message_max: u64,
    /// Buffer of one message that is being received. A larger message is delivered as its reader
    /// reads. Default 1 MiB.
    pub stream_buffer: usize,
    /// Memory for messages that are being received or wait for `accept`, from one peer. Default
    /// 16 MiB.
    pub peer_memory: usize,
    /// Memory for messages that are being received or wait for `accept`, in all. Default 64 MiB.
    pub receive_memory: usize,
    /// Memory for messages that are being sent. Default 256 MiB.
    pub send_memory: usize,
    /// Most messages that wait for `accept`. Default 4096.
    pub backlog: usize,
    /// Most peers remembered. Each takes about 500 bytes. Default 16,384.
    pub peers_max: usize,
    /// Most flows to one peer at once. Further messages wait. Default 64.
    pub flows_per_peer: usize,
    /// Most flows from peers with unproven addresses at once. Further ones must prove their address
    /// first. Default 256.
    pub unproven_max: usize,
    /// The key, in keyed mode. Both ends need the same one. Default none: packets are neither
    /// authenticated nor encrypted.
    pub key: Option<Key>,
    /// Parameters of NDP.
    pub ndp: NdpConfig,
    /// Parameters of D3 and RCPdc. Their rates are always those of the wire (`integer_rates`).
    pub d3: D3Config,
    /// Parameters of PDQ.
    pub pdq: PdqConfig,
    /// Further NICs of this host, beside that of the bound address. `rate` is that of each NIC. A
    /// large message leaves by all NICs from which the peer can be reached. Default none.
    pub nics: Vec<HostNic>,
    /// UDP source ports of each NIC over which packets of large messages are spread, so that networks
    /// that hash addresses and ports use several paths. 1 keeps to the bound port. Default 8.
    pub source_ports: usize,
    /// Whether a thread that waits spins rather than sleep, which saves the time of a wake-up. It
    /// sleeps after 20 ms without news. For processes that own their cores. Default false.
    pub spin: bool,
    /// Receives packets that switches trimmed in hardware, which may leave lengths and checksums
    /// as they were. Needs CAP_NET_RAW. Default none: such packets are lost.
    pub trims: Option<HardwareTrims>,
}

/// Where packets arrive that switches trimmed in hardware.
///
/// The kernel's UDP layer drops a packet that is shorter than its headers say. With this option an
/// endpoint takes the header of such a packet from a packet socket instead, so that the peer sends
/// the data again at once. What the switch left of the payload is never delivered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HardwareTrims {
    /// The interfaces, by name.
    pub interfaces: Vec<String>,
    /// The DSCP that switches give to trimmed packets only. Needed if they correct lengths but not
    /// checksums.
    pub dscp: Option<u8>,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        EndpointOptions {
            rate: Rate::from_gbps(10),
            mtu: Bytes::new(1_500),
            silence: Duration::from_secs(5),
            window: Duration::from_secs(30),
            message_max: 1_000_000_000,
            stream_buffer: 1 << 20,
            peer_memory: 16 << 20,
            receive_memory: 64 << 20,
            send_memory: 256 << 20,
            backlog: 4_096,
            peers_max: 1 << 14,
            flows_per_peer: 64,
            unproven_max: 256,
            key: None,
            ndp: crate::LinkOptions::default().ndp,
            d3: D3Config::for_sockets(),
            pdq: PdqConfig::for_sockets(),
            nics: Vec::new(),
            source_ports: 8,
            spin: false,
            trims: None,
        }
    }
}

/// The transport of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostTransport {
    /// NDP. It needs no special switch; switches that trim make it faster under incast.
    #[default]
    Ndp,
    /// D3: the NIC of this host, and switches on the path that run D3, grant a message the rate that
    /// its deadline needs, and a fair share.
    D3,
    /// RCPdc: the NIC of this host, and switches on the path that run RCPdc, grant all messages equal
    /// shares.
    Rcpdc,
    /// PDQ: the NIC of this host, and switches on the path that run PDQ, let the message with the
    /// earliest deadline send, or else the one with the fewest bytes left, and pause the others.
    Pdq,
}

impl HostTransport {
    /// All of them, in the order in which a driver has them.
    pub const ALL: [HostTransport; 4] =
        [HostTransport::Ndp, HostTransport::D3, HostTransport::Rcpdc, HostTransport::Pdq];

    /// Its name in scenarios and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            HostTransport::Ndp => NdpConfig::INFO.name,
            HostTransport::D3 => D3Config::INFO.name,
            HostTransport::Rcpdc => RcpdcConfig::INFO.name,
            HostTransport::Pdq => PdqConfig::INFO.name,
        }
    }

    /// The transport of this name.
    pub fn named(name: &str) -> Option<HostTransport> {
        HostTransport::ALL.into_iter().find(|transport| transport.name() == name)
    }

    /// Its place among the transports of an endpoint's driver.
    pub(crate) fn place(self) -> u8 {
        match self {
            HostTransport::Ndp => 0,
            HostTransport::D3 => 1,
            HostTransport::Rcpdc => 2,
            HostTransport::Pdq => 3,
        }
    }

    /// The transport at this place.
    pub(crate) fn at(place: u8) -> Option<HostTransport> {
        HostTransport::ALL.get(usize::from(place)).copied()
    }

    /// Its parameters in these options, of an endpoint whose NDP has these.
    pub(super) fn configured(self, ndp: &NdpConfig, options: &EndpointOptions) -> AnyTransport {
        let params = D3CommonConfig { integer_rates: true, ..options.d3.params.clone() };
        match self {
            HostTransport::Ndp => AnyTransport::Ndp(ndp.clone()),
            HostTransport::D3 => AnyTransport::D3(D3Config { params, ..options.d3.clone() }),
            HostTransport::Rcpdc => AnyTransport::Rcpdc(RcpdcConfig(params)),
            HostTransport::Pdq => AnyTransport::Pdq(options.pdq.clone()),
        }
    }
}

impl std::fmt::Display for HostTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for HostTransport {
    type Err = String;

    fn from_str(name: &str) -> Result<HostTransport, String> {
        let names = HostTransport::ALL.map(HostTransport::name);
        HostTransport::named(name).ok_or_else(|| format!("choose one of {}", names.join(", ")))
    }
}

/// Options of one message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// Deadline, counted from the call. For a request it is the deadline of the pair: until the
    /// response is complete.
    pub deadline: Option<Duration>,
    /// Whether to abandon the message when its deadline passes. Otherwise it is delivered late.
    pub give_up_late: bool,
    /// Priority from 0, which goes first, to 6. By default it follows from the deadline: 0 to 2 with
    /// less than 1 ms, 10 ms and more left, and 3 without a deadline.
    pub priority: Option<u8>,
    /// How long a request waits for its response. Default 30 s.
    pub patience: Option<Duration>,
    /// The transport. A response goes over that of its request.
    pub transport: HostTransport,
    /// The service at the peer that the message is for. Default: the default service.
    pub service: Service,
}

/// How a send ended. Each variant has the [`Times`] until this end knew it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The peer has the message, which had no deadline.
    Done(Times),
    /// The peer has the message, before the deadline.
    Met(Times),
    /// The peer has the message, after the deadline.
    Missed(Times),
    /// This end abandoned the message: it was cancelled, its deadline passed, or its transport saw
    /// that the deadline could not be met. The peer does not have it.
    GivenUp(Times),
    /// The peer does not have the message.
    Failed(SendError, Times),
    /// Every byte was sent, but whether the peer has the message is unknown.
    Unknown(SendError, Times),
}

impl Outcome {
    /// The times.
    pub fn times(&self) -> &Times {
        match self {
            Outcome::Done(times)
            | Outcome::Met(times)
            | Outcome::Missed(times)
            | Outcome::GivenUp(times)
            | Outcome::Failed(_, times)
            | Outcome::Unknown(_, times) => times,
        }
    }

    /// Whether the peer has the message.
    pub fn is_delivered(&self) -> bool {
        matches!(self, Outcome::Done(_) | Outcome::Met(_) | Outcome::Missed(_))
    }
}

/// Times of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// From the call until its outcome was known at this end.
    pub elapsed: Duration,
    /// The deadline, from the call; `None` without one.
    pub deadline: Option<Duration>,
    /// Data packets sent again.
    pub retransmits: u64,
}

/// Why a message was not delivered, or may not have been.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The peer sent nothing for too long.
    #[error("{peer}: silent for {waited:?}{}", hint(.last_error.as_deref()))]
    PeerSilent {
        /// The peer.
        peer: SocketAddr,
        /// How long it was silent.
        waited: Duration,
        /// The last error that the socket reported, if any.
        last_error: Option<String>,
    },
    /// The network or the peer's host reported that nothing can be delivered there, and the peer was
    /// not heard afterwards: no process uses the port, the host is unreachable, or a firewall forbids
    /// it.
    #[error("{peer}: cannot be reached: {error}; is the peer running?")]
    PeerUnreachable {
        /// The peer.
        peer: SocketAddr,
        /// What was reported.
        error: String,
    },
    /// The peer runs an endpoint that accepts no messages.
    #[error("{0}: does not accept messages; it must call `listen`")]
    NotListening(SocketAddr),
    /// The peer's process restarted during the send.
    #[error("{0}: restarted during the send")]
    Restarted(SocketAddr),
    /// The peer closed the message before its end.
    #[error("{0}: closed the message before its end")]
    Refused(SocketAddr),
    /// The message is larger than the peer accepts.
    #[error("{0}: the message is larger than it accepts; see `message_max`")]
    TooLarge(SocketAddr),
    /// The peer uses another format.
    #[error("{0}: uses another version of the format; run the same version at both ends")]
    OtherVersion(SocketAddr),
    /// The peer has another MTU, and the transport needs the same one at both ends.
    #[error("{0}: has another MTU; PDQ needs the same `mtu` at both ends")]
    OtherMtu(SocketAddr),
    /// The request was delivered, but no response came.
    #[error("{peer}: received the request, but did not respond within {waited:?}")]
    NoResponse {
        /// The peer.
        peer: SocketAddr,
        /// How long this end waited.
        waited: Duration,
    },
    /// The deadline is 0, so the message could not be on time.
    #[error("the deadline has passed already; give a deadline above 0")]
    DeadlinePast,
    /// The messages that are being sent take all of `send_memory`.
    #[error("{waiting} bytes wait to be sent; wait for some or raise `send_memory`")]
    SendMemoryFull {
        /// Bytes of messages that are being sent.
        waiting: usize,
    },
    /// The endpoint was closed, or its socket failed.
    #[error("the endpoint is closed: {0}")]
    Closed(String),
    /// The host daemon ended during the send.
    #[error("the host daemon has gone; start `punctual hostd` and attach again")]
    DaemonGone,
}

fn hint(error: Option<&str>) -> String {
    error.map_or_else(String::new, |error| format!("; the last packet could not be sent: {error}"))
}

/// Why a message cannot be read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The sender sent nothing for too long, or restarted.
    #[error("the sender has gone")]
    SenderGone,
    /// The sender abandoned the message.
    #[error("the sender abandoned the message")]
    Cancelled,
    /// The endpoint was closed.
    #[error("the endpoint is closed")]
    Closed,
    /// The host daemon ended.
    #[error("the host daemon has gone; start `punctual hostd` and attach again")]
    DaemonGone,
    /// Another process of this host listens for the service.
    #[error("another process of this host listens for this service; stop it or choose another one")]
    ServiceTaken,
}

impl From<ReceiveError> for std::io::Error {
    fn from(error: ReceiveError) -> Self {
        std::io::Error::new(std::io::ErrorKind::ConnectionAborted, error)
    }
}

/// Most source ports of a NIC and most NICs: all sockets are looked at before each wait.
const SOURCE_PORTS_MAX: usize = 16;
const NICS_MAX: usize = 4;

impl EndpointOptions {
    pub(super) fn check(&self) -> Result<(), HostError> {
        let wrong = |message: &str| Err(HostError::Transport(message.into()));
        if self.window <= self.silence {
            return wrong("window: must be longer than silence, or messages may arrive twice");
        }
        if self.stream_buffer < 1 << 16 || self.peer_memory < self.stream_buffer {
            return wrong("stream_buffer: must be 64 KiB or more, and peer_memory no less than it");
        }
        if !(1..=SOURCE_PORTS_MAX).contains(&self.source_ports) || self.nics.len() >= NICS_MAX {
            return wrong("source_ports: must be from 1 to 16, and nics at most 3 further ones");
        }
        if self.flows_per_peer == 0 || self.backlog == 0 || self.peers_max == 0 {
            return wrong("flows_per_peer, backlog and peers_max: must be 1 or more");
        }
        if self.ndp.payload.is_some_and(|payload| payload.get() < SEGMENT_MIN) {
            return wrong("ndp.payload: must be 128 B or more, or peers drop the packets");
        }
        let of_transport = |error: &dyn std::fmt::Display| HostError::Transport(error.to_string());
        self.d3.validate().map_err(|error| of_transport(&error))?;
        self.pdq.validate().map_err(|error| of_transport(&error))
    }
}
