//! MPTCP: one byte stream over several TCP subflows, each on its own path.
//!
//! LIA grows the window w_r of subflow r, for each ACK, by
//!
//! ```text
//! min(a · bytes · mss / Σw, bytes · mss / w_r)     with a = Σw · max(w/rtt²) / (Σ w/rtt)²
//! ```
//!
//! * RFC 8684 (the protocol), RFC 6356 (LIA, the coupled law).
//! * Raiciu et al., SIGCOMM 2011 and NSDI 2012; a baseline of NDP (Handley et al., SIGCOMM 2017).
//!
//! A subflow is TCP's [`Flight`](crate::tcp): window, loss recovery and timeout are TCP's code. This
//! module maps the connection's bytes to subflows, reinjects segments of a subflow that timed out,
//! and couples the windows. `rules.md` lists every rule with its source and test.
//!
//! # Limits
//!
//! Those of our TCP (no SACK), and: no receive window, hence no opportunistic retransmission; the
//! options take no room on the wire; subflow sequence numbers count segments.

mod config;
mod header;
mod lia;
mod receiver;
mod sender;
mod subflow;
#[cfg(test)]
mod tests;

pub use config::{Coupling, MptcpConfig, SUBFLOWS_MAX, SubflowJoin};
pub use header::MptcpHeader;
pub use lia::Lia;
pub use receiver::MptcpReceiver;
pub use sender::MptcpSender;

use crate::tcp::{TCP_IP_HEADER_BYTES, TcpFlags, TcpSettings, tcp_queue};
use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, Content, FlowRoute, FlowSpec, HostCx, NicInfo, NoController, Packet, QueueSpec, Rate,
    Transport, TransportInfo,
};

/// State that the flows of one host share: their parameters in internal units.
#[derive(Clone, Debug)]
pub struct MptcpHost {
    settings: TcpSettings,
    mss_bytes: u64,
}

impl Transport for MptcpConfig {
    type Sender = MptcpSender;
    type Receiver = MptcpReceiver;
    type Shared = MptcpHost;
    type Controller = NoController;

    const INFO: TransportInfo =
        TransportInfo::new("mptcp", "MPTCP: one stream over TCP subflows on several paths");

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

    /// Numbers are those of the connection: what waits for another subflow is not acknowledged.
    fn content(packet: &Packet) -> Content {
        let header: MptcpHeader = packet.header.get();
        match packet.is_to_sender() {
            true if header.has(TcpFlags::SYN) => Content::Other,
            true => Content::Ack { below: header.data, named: None },
            false => Content::Data(header.data),
        }
    }

    fn default_queue(&self, rate: Rate, mtu: Bytes) -> QueueSpec {
        tcp_queue(rate, mtu)
    }
}

/// Distinct random paths, one per subflow or as many as exist. MPTCP-R01.
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
