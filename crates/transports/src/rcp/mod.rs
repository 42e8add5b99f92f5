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

pub use config::Rcp;
pub use port::{Port, Share};

use crate::d3::{Host, Need, Plan, Receiver, Sender, SenderParams, Variant};
use punctual_core::{
    Bytes, FlowRoute, FlowSpec, HostCx, Limit, NicInfo, Packet, PortView, QueueSpec, Rate,
    Transport, TransportInfo,
};

impl Variant for Rcp {
    fn params(&self) -> SenderParams {
        SenderParams {
            pacing: self.pacing,
            base_rate: self.rate_min,
            rto_initial: self.rto_initial,
            rto_min: self.rto_min,
            rto_max: self.rto_max,
            loss_threshold: self.loss_threshold,
        }
    }

    fn plan(&self, _need: &Need, _nic: &NicInfo) -> Plan {
        Plan::Ask(Rate::ZERO)
    }

    fn asks_always(&self) -> bool {
        true
    }
}

impl Transport for Rcp {
    type Sender = Sender;
    type Receiver = Receiver;
    type Shared = Host;
    type Controller = Port;

    const INFO: TransportInfo = TransportInfo::new(
        "rcp",
        "RCP: every port stamps one rate for all flows, found without counting them",
    );

    fn open_host(&self, nic: &NicInfo) -> Host {
        Host::new(nic)
    }

    fn open_sender(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, Self>) -> Sender {
        Sender::open(flow, route, cx)
    }

    fn open_receiver(first: &Packet, route: &FlowRoute, _cx: &mut HostCx<'_, Self>) -> Receiver {
        Receiver::new(first.flow, route)
    }

    fn controller(&self, port: &PortView) -> Option<Port> {
        Some(Port::new(self, port.rate))
    }

    fn check_config(&self) -> Result<(), String> {
        self.validate().map_err(|e| e.to_string())
    }

    fn default_queue(&self, _rate: Rate, _mtu: Bytes) -> QueueSpec {
        QueueSpec::DropTail { limit: Limit::Bytes(self.buffer) }
    }
}
