//! M-PDQ, multipath PDQ: one flow over several subflows, each a flow of PDQ on its own path.
//!
//! After C.-Y. Hong, M. Caesar and P. B. Godfrey, "Finishing flows quickly with preemptive
//! scheduling", SIGCOMM 2012, §6. Sections named here are that paper's.
//!
//! A sender splits a flow into subflows and sends a SYN for each. To ports a subflow is an ordinary
//! flow of [`pdq`](crate::pdq), with the criticality of its own load: they schedule it on its own,
//! and one [`PdqPort`] serves flows of PDQ and of M-PDQ. Once per RTT the sender moves load from
//! paused subflows to the subflow that sends and has the least left. The receiver reassembles all
//! subflows in one buffer.
//!
//! Load is a number of segments. A subflow takes the flow's next unsent segment when it sends, so
//! that segments leave in the flow's order whichever subflows send. `rules.md` lists every rule, its
//! test, and our departures from the paper.
//!
//! # Limits
//!
//! * Those of PDQ.
//! * Load moves away from subflows that do not send, not from slow ones: a flow waits for a subflow
//!   whose path has a small rate.
//! * `receiver_rate` limits each subflow, not their sum.

mod config;
mod load;
mod receiver;
mod sender;
mod subflow;

#[cfg(test)]
mod tests;

pub use config::MpdqConfig;
pub use receiver::MpdqReceiver;
pub use sender::MpdqSender;

use crate::pdq::{PdqConfig, PdqCounters, PdqHost, PdqPort};
use punctual_core::{
    Bytes, Content, FlowModel, FlowRoute, FlowSpec, HostCx, NicInfo, Packet, PathUse, PortView,
    QueueSpec, Rate, Transport, TransportInfo,
};

/// State that the flows of one host share.
#[derive(Clone, Debug)]
pub struct MpdqHost {
    pdq: PdqHost,
    config: PdqConfig,
}

impl MpdqHost {
    /// Errors at this host.
    pub fn counters(&self) -> &PdqCounters {
        self.pdq.counters()
    }
}

/// A call to a subflow, in the context of a call to M-PDQ.
fn pdq_cx<'a>(cx: &'a mut HostCx<'_, MpdqConfig>) -> HostCx<'a, PdqConfig> {
    let MpdqHost { pdq, config } = &mut *cx.shared;
    let (ext, out) = (&mut *cx.ext, &mut *cx.out);
    HostCx { now: cx.now, config, shared: pdq, ext, out, nic: cx.nic }
}

impl Transport for MpdqConfig {
    type Sender = MpdqSender;
    type Receiver = MpdqReceiver;
    type Shared = MpdqHost;
    type Controller = PdqPort;

    const INFO: TransportInfo =
        TransportInfo::new("m-pdq", "M-PDQ: PDQ with subflows on several paths")
            .with_waits(PdqConfig::INFO.waits)
            .with_ports_of(PdqConfig::INFO.name);

    fn open_host(&self, nic: &NicInfo) -> MpdqHost {
        MpdqHost { pdq: PdqHost::new(nic), config: self.pdq() }
    }

    fn open_sender(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, Self>) -> MpdqSender {
        MpdqSender::open(flow, route, cx)
    }

    fn open_receiver(
        first: &Packet,
        route: &FlowRoute,
        _cx: &mut HostCx<'_, Self>,
    ) -> MpdqReceiver {
        MpdqReceiver::new(first.flow, route)
    }

    fn controller(&self, _port: &PortView) -> Option<PdqPort> {
        Some(PdqPort::new(&self.pdq()))
    }

    fn check_config(&self) -> Result<(), String> {
        self.validate().map_err(|e| e.to_string())
    }

    fn may_abandon(&self) -> bool {
        self.pdq().terminates_early()
    }

    fn may_abandon_without_deadline(&self) -> bool {
        false
    }

    fn content(packet: &Packet) -> Content {
        PdqConfig::content(packet)
    }

    fn flow_model(&self, nic: &NicInfo) -> Option<FlowModel> {
        let paths = PathUse::Subflows(self.subflows);
        self.pdq().flow_model(nic).map(|model| FlowModel { paths, ..model })
    }

    fn default_queue(&self, rate: Rate, mtu: Bytes) -> QueueSpec {
        self.pdq().default_queue(rate, mtu)
    }
}
