//! RCP: every output port computes one rate for all its flows and writes it into the packets that
//! pass; senders pace at the lowest rate on their path.
//!
//! ```text
//! R ← R · [1 + (T/d) · (α(C − y) − β·q/d) / C]
//! ```
//!
//! with line rate C, arrival rate y, queue q, mean RTT d and interval T.
//!
//! After N. Dukkipati and N. McKeown, "Why flow-completion time is the right metric for
//! congestion control", CCR 2006, with the constants under which D3's and PDQ's authors used it.
//! A port keeps no state per flow and does not count flows: it raises its rate while its line has
//! room and lowers it while it has a queue.
//!
//! Sender, receiver and packet formats are D3's ([`crate::d3`]), but every data packet carries a
//! request with a desired rate of 0, nothing is returned, and a path may have any number of ports.
//! `rules.md` lists the rules.
//!
//! # Limits
//!
//! * The rate of an idle port is its line rate, so that flows that start together all start at the
//!   line rate: this causes a queue, and losses, until the rate has converged.
//! * RCP ignores deadlines.

mod config;
mod port;

#[cfg(test)]
mod tests;

pub use config::RcpConfig;
pub use port::{FairRate, RcpPort};

use crate::d3::{
    D3Header, D3Host, D3Receiver, D3Sender, D3SenderConfig, FlowDemand, GRANT_WAITS,
    PLAIN_HEADER_BYTES, RATE_BLOCK_BYTES, RequestPlan, RequestPolicy, granted_flow_model,
};
use punctual_core::{
    Bytes, Content, FlowModel, FlowRoute, FlowSpec, HostCx, Limit, NicInfo, Packet, PortView,
    QueueSpec, Rate, Sharing, Transport, TransportInfo,
};

impl RequestPolicy for RcpConfig {
    fn params(&self) -> D3SenderConfig {
        D3SenderConfig {
            pacing: self.pacing,
            base_rate: self.rate_min,
            retransmission: self.retransmission(),
        }
    }

    fn plan(&self, _need: &FlowDemand, _nic: &NicInfo) -> RequestPlan {
        RequestPlan::Ask(Rate::ZERO)
    }

    fn asks_always(&self) -> bool {
        true
    }
}

impl Transport for RcpConfig {
    type Sender = D3Sender;
    type Receiver = D3Receiver;
    type Shared = D3Host;
    type Controller = RcpPort;

    const INFO: TransportInfo = TransportInfo::new(
        "rcp",
        "RCP: each port announces one rate for all flows, without counting them",
    )
    .with_waits(GRANT_WAITS);

    fn open_host(&self, nic: &NicInfo) -> D3Host {
        D3Host::new(nic)
    }

    fn open_sender(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, Self>) -> D3Sender {
        D3Sender::open(flow, route, cx)
    }

    fn open_receiver(first: &Packet, route: &FlowRoute, _cx: &mut HostCx<'_, Self>) -> D3Receiver {
        D3Receiver::new(first.flow, route)
    }

    fn controller(&self, port: &PortView) -> Option<RcpPort> {
        Some(RcpPort::new(self, port.rate))
    }

    fn check_config(&self) -> Result<(), String> {
        self.validate().map_err(|e| e.to_string())
    }

    fn content(packet: &Packet) -> Content {
        D3Header::content(packet)
    }

    /// The SYN brings the announced rate; every data packet has a rate block.
    fn flow_model(&self, nic: &NicInfo) -> Option<FlowModel> {
        let header = PLAIN_HEADER_BYTES + RATE_BLOCK_BYTES;
        Some(granted_flow_model(Sharing::Fair, 1.0, header, nic))
    }

    fn default_queue(&self, _rate: Rate, _mtu: Bytes) -> QueueSpec {
        QueueSpec::DropTail { limit: Limit::Bytes(self.buffer) }
    }
}
