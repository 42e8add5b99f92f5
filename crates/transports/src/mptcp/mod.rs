//! MPTCP: one stream of bytes over several TCP subflows, each on a path of its own.
//!
//! * RFC 8684 (the protocol), RFC 6356 (LIA, the coupled law).
//! * Raiciu et al., SIGCOMM 2011 and NSDI 2012; as a rival in NDP (Handley et al., SIGCOMM 2017).
//!
//! A subflow is TCP's [`Flight`](crate::tcp): window, losses and timeout are the same code. What
//! is here is the mapping of the connection's bytes to subflows, their reinjection when a subflow
//! is stuck, and the coupling of the windows. `rules.md` beside this file lists every rule with
//! its source and test.
//!
//! # Limits
//!
//! Those of TCP here (no SACK), and: no receive window, hence no opportunistic retransmission; the options take no
//! room on the wire; subflow sequence numbers count segments.

mod config;
mod header;
mod lia;
mod receiver;
mod sender;
mod subflow;
#[cfg(test)]
mod tests;

pub use config::{Coupling, Join, Mptcp, SUBFLOWS_MAX};
pub use header::MptcpHeader;
pub use lia::Lia;
pub use receiver::MptcpReceiver;
pub use sender::MptcpSender;

use crate::tcp::{Settings, TCP_IP_HEADER_BYTES, tcp_queue};
use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, FlowRoute, FlowSpec, HostCx, NicInfo, NoController, Packet, QueueSpec, Rate, Transport,
    TransportInfo,
};

/// What the flows of one host share: parameters made ready for use.
#[derive(Clone, Debug)]
pub struct MptcpHost {
    settings: Settings,
    mss_bytes: u64,
}

impl Transport for Mptcp {
    type Sender = MptcpSender;
    type Receiver = MptcpReceiver;
    type Shared = MptcpHost;
    type Controller = NoController;

    const INFO: TransportInfo = TransportInfo::new(
        "mptcp",
        "MPTCP: one stream over TCP subflows on several paths, coupled or not",
    );

    fn open_host(&self, nic: &NicInfo) -> MptcpHost {
        debug_assert_eq!(self.validate(), Ok(()));
        let settings = self.settings();
        MptcpHost { settings, mss_bytes: settings.mss_bytes(nic, TCP_IP_HEADER_BYTES) }
    }

    fn open_sender(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, Self>) -> MptcpSender {
        MptcpSender::open(flow, route, cx)
    }

    fn open_receiver(
        first: &Packet,
        route: &FlowRoute,
        cx: &mut HostCx<'_, Self>,
    ) -> MptcpReceiver {
        MptcpReceiver::open(first, route, cx)
    }

    fn check_config(&self) -> Result<(), String> {
        self.validate().map_err(|e| e.to_string())
    }

    fn default_queue(&self, rate: Rate, mtu: Bytes) -> QueueSpec {
        tcp_queue(rate, mtu)
    }
}

/// As many different paths as there are subflows, or all of them, in random order. MPTCP-R01.
fn choose_paths(subflows: u32, route: &FlowRoute) -> Vec<u32> {
    let count = subflows.min(route.paths).max(1) as usize;
    let mut stream = Stream::from_seed(route.seed);
    let mut chosen = Vec::with_capacity(count);
    while chosen.len() < count {
        let path = stream.below(u64::from(route.paths.max(1))) as u32;
        if !chosen.contains(&path) {
            chosen.push(path);
        }
    }
    chosen
}
