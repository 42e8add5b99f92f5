//! RCP: every output port keeps one rate for all its flows and stamps it into what passes;
//! senders pace at the lowest stamp.
//!
//! After N. Dukkipati and N. McKeown, "Why flow-completion time is the right metric for
//! congestion control", CCR 2006, with the constants under which D3's and PDQ's authors used it.
//! A port neither counts flows nor remembers them: it raises its rate while its line has room and
//! lowers it while there is a queue.
//!
//! The ends are D3's ([`crate::d3`]), with the packets of that protocol; but every data packet
//! carries a request, desires nothing, returns nothing and may pass any number of ports.
//! `rules.md` lists the rules.
//!
//! # Limits
//!
//! * The rate of an idle port is its line's, so that flows that start together all start with
//!   that: a queue, and losses, until the ports have found the right one.
//! * Deadlines mean nothing here.

mod config;
mod port;

#[cfg(test)]
mod tests;

pub use config::RcpConfig;
pub use port::{FairRate, RcpPort};

use crate::d3::{
    D3Host, D3Receiver, D3Sender, D3SenderConfig, FlowDemand, RequestPlan, RequestPolicy,
};
use punctual_core::{
    Bytes, FlowRoute, FlowSpec, HostCx, Limit, NicInfo, Packet, PortView, QueueSpec, Rate,
    Transport,
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

    fn default_queue(&self, _rate: Rate, _mtu: Bytes) -> QueueSpec {
        QueueSpec::DropTail { limit: Limit::Bytes(self.buffer) }
    }
}
