//! PDQ: preemptive scheduling of flows by explicit rates, the most critical first.
//!
//! After C.-Y. Hong, M. Caesar and P. B. Godfrey, "Finishing flows quickly with preemptive
//! scheduling", SIGCOMM 2012. Sections named here are that paper's.
//!
//! Every packet carries a scheduling header: the rate wanted, the deadline, how long the rest
//! will take, the round-trip time, and who pauses the flow. Every output port on the path, the
//! sender's own included, keeps a short list of the most critical flows and lets them send, at
//! full rate, as many as fit; it pauses all others by writing its name into their headers. Paused
//! flows probe. So flows go one after another in the order of their deadlines, or of their
//! remaining sizes where there is none, and a more critical newcomer preempts whoever sends.
//!
//! Three optimisations: the next flow starts while the last is still finishing (Early Start), a
//! flow that cannot be on time is given up (Early Termination), and flows far down the list probe
//! less often (Suppressed Probing). `rules.md` lists every rule, the test that holds it, and
//! where we depart from the paper.
//!
//! # Limits
//!
//! * One path per flow; M-PDQ's subflows are not here.
//! * Ports trust hosts, who say themselves how critical their flows are.
//! * Deadlines order flows up to 11.9 hours after the start, expected times up to 42 s; beyond,
//!   flows count as equal and their ids decide. A flow has at most 2³² segments.
//! * Both ends must have the same MTU: a segment's number times its size is its place.
//! * Other transports' traffic lowers what ports hand out, down to `share_min` of the line. Their
//!   queue does too: beside a transport that keeps queues full, PDQ lives on that share.

mod config;
mod header;
mod port;
mod receiver;
mod sender;

#[cfg(test)]
mod tests;

pub use config::{Availability, Criticality, Pdq, PdqError, RoundTrip, Variant};
pub use header::{
    HEADER_BYTES, NO_DEADLINE, NOBODY, PLAIN_HEADER_BYTES, PROBE_UNIT, PdqHeader,
    SCHEDULING_HEADER_BYTES,
};
pub use port::{Entry, FlowList, Port, Rank, RateController};
pub use receiver::Receiver;
pub use sender::Sender;

use punctual_core::{
    Bytes, FlowRoute, FlowSpec, HostCx, Limit, LineRate, NicInfo, Packet, PortView, QueueSpec,
    Rate, Transport, TransportInfo,
};

/// What the flows of one host share.
#[derive(Clone, Debug)]
pub struct Host {
    nic: NicInfo,
    line: LineRate,
    line_kbps: u32,
    counters: Counters,
}

/// What went wrong at one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets dropped because they make no sense.
    pub malformed: u64,
}

impl Host {
    /// A host that has sent nothing.
    ///
    /// # Panics
    ///
    /// If the MTU leaves no room for data beside the headers, or a packet could not say its size.
    pub fn new(nic: &NicInfo) -> Self {
        let room = u64::from(HEADER_BYTES) + 1..=u64::from(u16::MAX);
        let mtu = nic.mtu.get();
        assert!(room.contains(&mtu), "mtu = {mtu}: PDQ needs one within {room:?} bytes");
        let (line, line_kbps) = (LineRate::new(nic.rate), header::kbps(nic.rate));
        Host { nic: *nic, line, line_kbps, counters: Counters::default() }
    }

    /// What went wrong here.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn segment_bytes(&self) -> u64 {
        self.nic.mtu.get() - u64::from(HEADER_BYTES)
    }
}

impl Transport for Pdq {
    type Sender = Sender;
    type Receiver = Receiver;
    type Shared = Host;
    type Controller = Port;

    const INFO: TransportInfo = TransportInfo::new(
        "pdq",
        "PDQ: ports let the most critical flows send and pause the others",
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

    fn controller(&self, _port: &PortView) -> Option<Port> {
        Some(Port::new(self))
    }

    fn check_config(&self) -> Result<(), String> {
        self.validate().map_err(|e| e.to_string())
    }

    fn may_abandon(&self) -> bool {
        self.terminates_early()
    }

    fn default_queue(&self, _rate: Rate, _mtu: Bytes) -> QueueSpec {
        QueueSpec::DropTail { limit: Limit::Bytes(self.buffer) }
    }
}
