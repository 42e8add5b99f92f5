//! TCP NewReno, TCPpr, DCTCP (also over lossless Ethernet) and D2TCP: window-based congestion
//! control, in which losses or, in DCTCP and D2TCP, ECN marks reduce the window.
//!
//! ```text
//! DCTCP   α ← (1 − g) α + g · F       once per window, F = marked / acknowledged bytes
//!         W ← W · (1 − α/2)           in a window with marks
//! D2TCP   W ← W · (1 − α^d/2)         d = Tc / D: time needed over time to the deadline
//! ```
//!
//! * TCP: RFC 5681 (congestion control), RFC 6582 (NewReno), RFC 6298 (timeout), RFC 3042 and 3465.
//! * DCTCP: Alizadeh et al., SIGCOMM 2010; RFC 8257.
//! * D2TCP: Vamanan, Hasan and Vijaykumar, SIGCOMM 2012.
//! * TCPpr: a baseline of D3 (Wilson et al., SIGCOMM 2011).
//!
//! One sender and one receiver serve all of them. They differ in the [`WindowLaw`], which maps an
//! acknowledgement to a [`Reaction`]; each is a configuration, a law and one macro call.
//! `rules.md` beside this file lists every rule with its source and test.
//!
//! # Limits
//!
//! One message in one direction per connection. No SACK, no window scaling or receiver buffer, no
//! Nagle, no URG, no PAWS: sequence numbers are 64 bits. The FIN is a flag on the last segment and
//! takes no sequence number. Loss recovery is NewReno's, one segment per RTT: with many losses in
//! one window it is slower than a modern kernel with SACK and RACK.

mod config;
mod congestion;
mod d2tcp;
mod flight;
mod header;
mod penalty;
mod receiver;
mod sender;
mod tcppr;
#[cfg(test)]
mod tests;

pub use config::{
    D2tcpConfig, DctcpConfig, DctcpLosslessConfig, TcpConfig, TcpConfigError, TcpprConfig,
};
pub use congestion::{
    DctcpLaw, DctcpParams, Feedback, Fraction, MarkEstimator, NewReno, Reaction, Window, WindowLaw,
    next_alpha,
};
pub use d2tcp::{D2tcpLaw, D2tcpParams, imminence};
pub use header::{TCP_IP_HEADER_BYTES, TcpFlags, TcpHeader};
pub use penalty::{Imminence, power, power_tables};
pub use receiver::TcpReceiver;
pub use sender::TcpSender;
pub use tcppr::{TcpprLaw, TcpprParams};

pub(crate) use config::{TcpSettings, tcp_config};
pub(crate) use flight::{Advance, Flight};
pub(crate) use sender::rtt_since;

use punctual_core::{
    Bytes, Content, FlowModel, FlowRoute, FlowSpec, HostCx, Limit, NicInfo, NoController, Packet,
    QueueSpec, Rate, Sharing, Transport, TransportInfo,
};

/// State that the flows of one host share: their parameters in internal units.
#[derive(Clone, Debug)]
pub struct TcpHost<L: WindowLaw> {
    settings: TcpSettings,
    mss_bytes: u64,
    law: L::Config,
}

impl<L: WindowLaw> TcpHost<L> {
    fn new(settings: TcpSettings, law: L::Config, nic: &NicInfo) -> Self {
        TcpHost { settings, mss_bytes: settings.mss_bytes(nic, TCP_IP_HEADER_BYTES), law }
    }

    /// Data bytes in a full packet.
    pub fn mss_bytes(&self) -> u64 {
        self.mss_bytes
    }
}

macro_rules! tcp_transport {
    (
        $config:ty, $name:literal, $summary:literal, $law:ty, $queue:ident, $sharing:expr,
        |$self:ident| $params:expr
    ) => {
        impl Transport for $config {
            type Sender = TcpSender<$law>;
            type Receiver = TcpReceiver;
            type Shared = TcpHost<$law>;
            type Controller = NoController;

            const INFO: TransportInfo = TransportInfo::new($name, $summary);

            fn open_host(&self, nic: &NicInfo) -> Self::Shared {
                debug_assert_eq!(self.validate(), Ok(()));
                let $self = self;
                TcpHost::new(self.settings(), $params, nic)
            }

            fn open_sender(
                flow: &FlowSpec,
                route: &FlowRoute,
                cx: &mut HostCx<'_, Self>,
            ) -> Self::Sender {
                TcpSender::open(flow, route, cx)
            }

            fn open_receiver(
                first: &Packet,
                route: &FlowRoute,
                _: &mut HostCx<'_, Self>,
            ) -> Self::Receiver {
                TcpReceiver::open(first, route)
            }

            fn content(packet: &Packet) -> Content {
                let header: TcpHeader = packet.header.get();
                match packet.is_to_sender() {
                    true if header.has(TcpFlags::SYN) => Content::Other,
                    true => Content::Ack { below: header.ack, named: None },
                    false => Content::Data(header.seq),
                }
            }

            fn check_config(&self) -> Result<(), String> {
                self.validate().map_err(|e| e.to_string())
            }

            fn flow_model(&self, nic: &NicInfo) -> Option<FlowModel> {
                let sharing: fn(&$config, &NicInfo) -> Option<Sharing> = $sharing;
                Some(self.settings().flow_model(sharing(self, nic)?, nic))
            }

            fn default_queue(&self, rate: Rate, mtu: Bytes) -> QueueSpec {
                $queue(rate, mtu)
            }
        }
    };
}

tcp_transport!(
    TcpConfig,
    "tcp",
    "TCP NewReno: window-based, loss as the congestion signal",
    NewReno,
    tcp_queue,
    |_, _| Some(Sharing::Fair),
    |_config| ()
);
tcp_transport!(
    TcpprConfig,
    "tcppr",
    "TCPpr: TCP with strict priority by class, short deadlines first",
    TcpprLaw,
    tcppr_queue,
    |_, _| None,
    |config| config.params()
);
tcp_transport!(
    DctcpConfig,
    "dctcp",
    "DCTCP: TCP that cuts its window in proportion to ECN marks",
    DctcpLaw,
    dctcp_queue,
    |_, _| Some(Sharing::Fair),
    |config| config.params()
);
tcp_transport!(
    DctcpLosslessConfig,
    "dctcp-lossless",
    "DCTCP over PFC, which NDP's paper simulated as DCQCN",
    DctcpLaw,
    lossless_queue,
    |_, _| None,
    |config| config.params()
);
tcp_transport!(
    D2tcpConfig,
    "d2tcp",
    "D2TCP: DCTCP that cuts less for near deadlines, more for far ones",
    D2tcpLaw,
    dctcp_queue,
    |config, nic| Some(config.sharing(nic)),
    |config| config.params()
);

/// Parameters of [`DctcpLaw`] from a configuration that has DCTCP's keys.
macro_rules! dctcp_params {
    ($config:expr) => {
        DctcpParams {
            gain: Fraction::from_f64($config.gain),
            initial_alpha: Fraction::from_f64($config.initial_alpha),
            window_min: $config.window_min,
            cut_every_window: $config.cut_every_window,
        }
    };
}

impl DctcpConfig {
    /// Parameters of the window law.
    pub fn params(&self) -> DctcpParams {
        dctcp_params!(self)
    }
}

impl DctcpLosslessConfig {
    /// Parameters of the window law, which is DCTCP's.
    pub fn params(&self) -> DctcpParams {
        dctcp_params!(self)
    }
}

impl D2tcpConfig {
    /// Weights of its flows at flow level, with the K of its default queue.
    fn sharing(&self, nic: &NicInfo) -> Sharing {
        Sharing::Weighted {
            d_min: self.d_min,
            d_max: self.d_max,
            d_after_miss: self.d_after_miss,
            mark_above: f64::from(mark_above_packets(nic.rate, nic.mtu)),
        }
    }

    /// Parameters of the window law.
    pub fn params(&self) -> D2tcpParams {
        D2tcpParams {
            dctcp: dctcp_params!(self),
            least: Imminence::from_f64(self.d_min),
            most: Imminence::from_f64(self.d_max),
            after_miss: Imminence::from_f64(self.d_after_miss),
        }
    }
}

impl TcpprConfig {
    /// Parameters of the window law.
    pub fn params(&self) -> TcpprParams {
        let mut cuts = [None; 2];
        if self.cuts.is_empty() {
            let halved = (self.levels == 4).then(|| self.mean_deadline / 2);
            let all = halved.into_iter().chain([self.mean_deadline]);
            cuts.iter_mut().zip(all).for_each(|(cut, at)| *cut = Some(at));
        } else {
            cuts.iter_mut().zip(&self.cuts).for_each(|(cut, at)| *cut = Some(*at));
        }
        TcpprParams { levels: self.levels, cuts }
    }
}

const TEN_GBPS: Rate = Rate::from_gbps(10);

fn queue_packets(rate: Rate) -> u32 {
    if rate < TEN_GBPS { 100 } else { 200 }
}

/// Drop-tail: 100 packets, or 200 at 10 Gb/s and above.
pub(crate) fn tcp_queue(rate: Rate, _: Bytes) -> QueueSpec {
    QueueSpec::DropTail { limit: Limit::Packets(queue_packets(rate)) }
}

/// Strict priority, with the limit of [`tcp_queue`] in each class.
fn tcppr_queue(rate: Rate, _: Bytes) -> QueueSpec {
    QueueSpec::Priority { limit: Limit::Packets(queue_packets(rate)) }
}

/// The limit of [`tcp_queue`] with ECN marking above K packets. With an MTU of 1500 B, K = 20 up to
/// 1 Gb/s and 65 at 10 Gb/s (DCTCP §3.4), linear in between, proportional to the rate above, and at
/// most half of the queue. With an MTU of 9000 B, K = 30, as in NDP's comparison.
fn dctcp_queue(rate: Rate, mtu: Bytes) -> QueueSpec {
    let limit = Limit::Packets(queue_packets(rate));
    QueueSpec::Ecn { limit, mark_above: Limit::Packets(mark_above_packets(rate, mtu)) }
}

/// K of [`dctcp_queue`].
fn mark_above_packets(rate: Rate, mtu: Bytes) -> u32 {
    const GBPS: u64 = 1_000_000_000;
    let limit = queue_packets(rate);
    let bps = rate.as_bps();
    let packets = if mtu >= Bytes::new(9000) {
        30
    } else if bps <= GBPS {
        20
    } else if bps <= 10 * GBPS {
        20 + 45 * (bps - GBPS) / (9 * GBPS)
    } else {
        (65 * (bps / GBPS) / 10).min(u64::from(limit / 2))
    };
    packets as u32
}

/// PFC thresholds: packets of one link in a switch's buffer above which the link is paused, and
/// below which it resumes (NDP §6, "DCQCN"; its simulator).
const PAUSE_ABOVE_PACKETS: u64 = 15;
const RESUME_BELOW_PACKETS: u64 = 12;
/// A switch's buffer, in packets: as in NDP's simulator, large enough to avoid all drops.
const LOSSLESS_BUFFER_PACKETS: u64 = 10_000;

/// Lossless (PFC) with the thresholds of NDP's comparison, marking above `mark_above`.
pub(crate) fn lossless(mtu: Bytes, mark_above: Option<Limit>) -> QueueSpec {
    let packets = |n: u64| Bytes::new(mtu.get() * n);
    QueueSpec::Lossless {
        buffer: packets(LOSSLESS_BUFFER_PACKETS),
        pause_above: packets(PAUSE_ABOVE_PACKETS),
        resume_below: packets(RESUME_BELOW_PACKETS),
        mark_above,
        red: None,
    }
}

/// Lossless (PFC), marking above 20 packets.
fn lossless_queue(_: Rate, mtu: Bytes) -> QueueSpec {
    lossless(mtu, Some(Limit::Packets(20)))
}
