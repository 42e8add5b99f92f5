//! pHost: receivers issue one token per packet time, and senders send one packet per token.
//!
//! After P. Gao, A. Narayan, G. Kumar, R. Agarwal, S. Ratnasamy and S. Shenker, "pHost:
//! distributed near-optimal datacenter transport over commodity network fabric", CoNEXT 2015, and
//! the simulator that its authors published. A flow requests tokens; its receiver gives the next
//! token to the flow with the fewest missing packets, at the rate of its link. Tokens expire soon,
//! so that a sender with tokens of several receivers wastes little capacity. Packets are sprayed
//! over all paths. Two variants: the authors', whose windows and timeouts are constants for the RTT
//! of their network, and that of NDP's comparison, in which every flow starts with a burst and they
//! follow from measured RTTs. `rules.md` lists the rules with their sources and tests.
//!
//! # Limits
//!
//! A receiver requests lost packets again once every packet of the flow has had its token, or 1,024
//! packets later in longer flows. pHost assumes that the network core loses nothing; frequent losses
//! are recovered slowly. One policy, shortest first or round-robin, applies to all flows.

mod config;
mod header;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod tokens;

pub use config::{FreeTokensFor, PhostConfig, PhostConfigError, PhostVariant, TokenPolicy};
pub use header::{HEADER_BYTES, PhostHeader, kind};
pub use receiver::PhostReceiver;
pub use sender::{PhostSender, TokenCounts};
pub use tokens::TokenQueue;

use punctual_core::{
    Bytes, Class, FlowId, FlowRoute, FlowSpec, HostCx, Limit, NicInfo, NoController, Packet,
    QueueSpec, Rate, Transport, TransportInfo, WaitNames, WaitWords,
};

/// State that the flows of one host share.
#[derive(Debug)]
pub struct PhostHost {
    /// The flows it receives.
    tokens: TokenQueue,
    payload_bytes: u64,
    /// Tokens that its flows start with.
    free_tokens: u32,
    /// The flows it sends that hold tokens and have asked for the NIC.
    waiting: Vec<Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    class: Class,
    missing: u64,
    flow: FlowId,
}

impl PhostHost {
    /// The flows that it receives.
    pub fn tokens(&self) -> &TokenQueue {
        &self.tokens
    }

    /// The number of packets for `size_bytes`.
    fn packets_of(&self, size_bytes: u64) -> u64 {
        size_bytes.div_ceil(self.payload_bytes)
    }

    /// Data bytes in one of the packets of a flow of that size.
    fn bytes_in(&self, packet: u64, size_bytes: u64) -> Option<u64> {
        let left = size_bytes.checked_sub(packet.checked_mul(self.payload_bytes)?)?;
        (left > 0).then_some(left.min(self.payload_bytes))
    }
}

impl Transport for PhostConfig {
    type Sender = PhostSender;
    type Receiver = PhostReceiver;
    type Shared = PhostHost;
    type Controller = NoController;

    const INFO: TransportInfo = TransportInfo::new(
        "phost",
        "pHost: receiver-driven tokens, per-packet spraying, no trimming",
    )
    .with_waits(WaitNames {
        token: WaitWords::new(
            "waiting for a token",
            "{time} until its receiver had a token for it{behind}",
        ),
        ..WaitNames::DEFAULT
    });

    fn open_host(&self, nic: &NicInfo) -> PhostHost {
        debug_assert_eq!(self.validate(), Ok(()));
        let tokens = TokenQueue::new(self, nic);
        PhostHost {
            free_tokens: self.free_tokens_at(tokens.times().packet),
            tokens,
            payload_bytes: self.payload_bytes(nic),
            waiting: Vec::new(),
        }
    }

    fn open_sender(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, Self>) -> PhostSender {
        PhostSender::open(flow, route, cx)
    }

    fn open_receiver(first: &Packet, route: &FlowRoute, _: &mut HostCx<'_, Self>) -> PhostReceiver {
        PhostReceiver::open(first, route)
    }

    fn handle_host_timeout(cx: &mut HostCx<'_, Self>) {
        let (grant, next) = cx.shared.tokens.serve(cx.now);
        if let Some(grant) = grant {
            let header = PhostHeader {
                packet: grant.packet,
                missing: grant.missing,
                token: grant.token,
                kind: kind::TOKEN,
                ..PhostHeader::default()
            };
            cx.send(receiver::answer(grant.flow, grant.peer, header));
        }
        if let Some(at) = next {
            cx.set_host_timer(at);
        }
    }

    fn check_config(&self) -> Result<(), String> {
        self.validate().map_err(|e| e.to_string())
    }

    /// Strict priorities, short. PHOST-R09.
    fn default_queue(&self, _: Rate, mtu: Bytes) -> QueueSpec {
        let limit = self.queue.max(Bytes::new(8 * mtu.get()));
        QueueSpec::Priority { limit: Limit::Bytes(limit) }
    }
}
