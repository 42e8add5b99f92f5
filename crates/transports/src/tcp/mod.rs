//! TCP NewReno, TCPpr, DCTCP (also over lossless Ethernet) and D2TCP: a window of bytes in flight, opened by acknowledgements
//! and shrunk by losses or, in DCTCP and D2TCP, in proportion to how many bytes switches marked.
//!
//! * TCP: RFC 5681 (congestion control), RFC 6582 (NewReno), RFC 6298 (timeout), RFC 3042 and 3465.
//! * DCTCP: Alizadeh et al., SIGCOMM 2010; RFC 8257.
//! * D2TCP: Vamanan, Hasan and Vijaykumar, SIGCOMM 2012.
//! * TCPpr: a baseline of D3 (Wilson et al., SIGCOMM 2011).
//!
//! One sender and one receiver serve all variants. What differs is the [`Law`], which turns an
//! acknowledgement into a [`Reaction`]; a variant is a configuration, a law and a line of glue.
//! `rules.md` beside this file lists every rule with its source and test.
//!
//! # Limits
//!
//! One message in one direction per connection. No SACK, no window scaling or receiver buffer, no
//! Nagle, no URG, no PAWS: sequence numbers are 64 bits. The FIN is a flag on the last segment and
//! takes no sequence number. Loss recovery is NewReno's: one segment a round trip, so results with
//! many losses in one window are worse than those of a modern kernel with SACK and RACK.

mod config;
mod congestion;
mod d2tcp;
mod flight;
mod header;
mod penalty;
mod receiver;
mod rtt;
mod sender;
mod tcppr;
#[cfg(test)]
mod tests;

pub use config::{D2tcp, Dctcp, DctcpLossless, Tcp, TcpConfigError, Tcppr};
pub use congestion::{
    DctcpLaw, DctcpParams, Feedback, Fraction, Law, MarkEstimator, NewReno, Reaction, Window,
    next_alpha,
};
pub use d2tcp::{D2tcpLaw, D2tcpParams, imminence};
pub use header::{TCP_IP_HEADER_BYTES, TcpFlags, TcpHeader};
pub use penalty::{Imminence, power};
pub use receiver::TcpReceiver;
pub use rtt::RttEstimator;
pub use sender::TcpSender;
pub use tcppr::{TcpprLaw, TcpprParams};

pub(crate) use config::{Settings, tcp_config};
pub(crate) use flight::{Advance, Flight};
pub(crate) use sender::rtt_since;

use punctual_core::{
    Bytes, FlowRoute, FlowSpec, HostCx, Limit, NicInfo, NoController, Packet, QueueSpec, Rate,
    Transport, TransportInfo,
};

/// What the flows of one host share: parameters made ready for use.
#[derive(Clone, Debug)]
pub struct TcpHost<L: Law> {
    settings: Settings,
    mss_bytes: u64,
    law: L::Config,
}

impl<L: Law> TcpHost<L> {
    fn new(settings: Settings, law: L::Config, nic: &NicInfo) -> Self {
        TcpHost { settings, mss_bytes: settings.mss_bytes(nic, TCP_IP_HEADER_BYTES), law }
    }

    /// Data bytes in a full packet.
    pub fn mss_bytes(&self) -> u64 {
        self.mss_bytes
    }
}

macro_rules! tcp_transport {
    ($config:ty, $name:literal, $summary:literal, $law:ty, $queue:ident, |$self:ident| $params:expr) => {
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

            fn check_config(&self) -> Result<(), String> {
                self.validate().map_err(|e| e.to_string())
            }

            fn default_queue(&self, rate: Rate, mtu: Bytes) -> QueueSpec {
                $queue(rate, mtu)
            }
        }
    };
}

tcp_transport!(
    Tcp,
    "tcp",
    "TCP NewReno: windows, acknowledgements, loss as the signal",
    NewReno,
    tcp_queue,
    |_config| ()
);
tcp_transport!(
    Tcppr,
    "tcppr",
    "TCPpr: TCP in classes of strict priority, short deadlines first",
    TcpprLaw,
    tcppr_queue,
    |config| config.params()
);
tcp_transport!(
    Dctcp,
    "dctcp",
    "DCTCP: TCP that cuts its window by the share of packets marked",
    DctcpLaw,
    dctcp_queue,
    |config| config.params()
);
tcp_transport!(
    DctcpLossless,
    "dctcp-lossless",
    "DCTCP over PFC: windows that never lose, what NDP's paper ran as DCQCN",
    DctcpLaw,
    lossless_queue,
    |config| config.params()
);
tcp_transport!(
    D2tcp,
    "d2tcp",
    "D2TCP: DCTCP that cuts less the nearer the deadline, more the farther",
    D2tcpLaw,
    dctcp_queue,
    |config| config.params()
);

/// The parameters of DCTCP's law, of whichever configuration has them.
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

impl Dctcp {
    /// The parameters of its law.
    pub fn params(&self) -> DctcpParams {
        dctcp_params!(self)
    }
}

impl DctcpLossless {
    /// The parameters of its law, which is DCTCP's.
    pub fn params(&self) -> DctcpParams {
        dctcp_params!(self)
    }
}

impl D2tcp {
    /// The parameters of its law.
    pub fn params(&self) -> D2tcpParams {
        D2tcpParams {
            dctcp: dctcp_params!(self),
            least: Imminence::from_f64(self.d_min),
            most: Imminence::from_f64(self.d_max),
            after_miss: Imminence::from_f64(self.d_after_miss),
        }
    }
}

impl Tcppr {
    /// The parameters of its law.
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

/// Drop-tail of 100 packets, 200 from 10 Gb/s on.
pub(crate) fn tcp_queue(rate: Rate, _: Bytes) -> QueueSpec {
    QueueSpec::DropTail { limit: Limit::Packets(queue_packets(rate)) }
}

/// As for TCP, in each class.
fn tcppr_queue(rate: Rate, _: Bytes) -> QueueSpec {
    QueueSpec::Priority { limit: Limit::Packets(queue_packets(rate)) }
}

/// As for TCP, marking above K packets: with packets of 1500 B 20 up to 1 Gb/s and 65 at
/// 10 Gb/s (DCTCP §3.4), on a straight line between, in proportion to the rate above and at most
/// half of the queue; 30 with packets of 9000 B, as in NDP's comparison.
fn dctcp_queue(rate: Rate, mtu: Bytes) -> QueueSpec {
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
    QueueSpec::Ecn { limit: Limit::Packets(limit), mark_above: Limit::Packets(packets as u32) }
}

/// Packets that one link may have in a switch's buffer before it is paused, and at which it goes
/// on (NDP §6, "DCQCN"; its simulator).
const PAUSE_ABOVE_PACKETS: u64 = 15;
const RESUME_BELOW_PACKETS: u64 = 12;
/// A switch's buffer, in packets: as in NDP's simulator, so many that none is ever dropped.
const LOSSLESS_BUFFER_PACKETS: u64 = 10_000;

/// Lossless, as NDP's comparison had it for all that it called DCQCN, and marking above so much.
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

/// Lossless, marking above 20 packets.
fn lossless_queue(_: Rate, mtu: Bytes) -> QueueSpec {
    lossless(mtu, Some(Limit::Packets(20)))
}
