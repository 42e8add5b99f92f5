//! D3 and RCPdc: explicit rates, granted by every port of the path.
//!
//! After C. Wilson, H. Ballani, T. Karagiannis and A. Rowstron, "Better never than late: meeting
//! deadlines in datacenter networks", SIGCOMM 2011. Sections named here are that paper's.
//!
//! ```text
//! desired rate  r = remaining size / time to the deadline      (0 without a deadline)
//! fair share    f = (C − D) / N
//! grant         a = r + f        while more than r is left, else what is left
//! sending rate    = min(a of all ports on the path)
//! ```
//!
//! with a port's capacity C, the number N of flows through it and the sum D of their desired rates.
//!
//! Once per RTT a sender requests a rate from every port on its path, its own host's port
//! included, and returns its previous grants. A port keeps three sums and no state per flow: N, D
//! and the allocated rate A. A flow that is granted only the base rate pauses: it sends requests in
//! headers without data.
//!
//! [`D3Config`] configures D3. [`RcpdcConfig`] configures RCPdc, the paper's deadline-agnostic
//! baseline: every desired rate is 0, so that all flows get explicit fair shares. `rules.md` lists
//! every rule, its test, and our departures from the paper.
//!
//! # Limits
//!
//! * One path per flow, of at most [`HOPS_MAX`] allocating ports. A port beyond that refuses the
//!   request ([`D3Port::requests_refused`]) and the sender abandons the flow
//!   ([`D3Counters::paths_too_long`]).
//! * The receiver requests no rate: data flow one way, and acknowledgements are headers.
//! * Ports trust hosts. A request that is lost or duplicated leaves the sums of some ports wrong
//!   until those ports have been idle; meanwhile the capacity law compensates.
//! * A segment is the MTU less 62 bytes in every packet, so that any packet can carry a request.
//! * A driver that fires timers late lowers the rate: a missed pacing slot is lost.

mod capacity;
mod config;
mod deadline;
mod header;
mod inversions;
mod port;
mod receiver;
mod sender;

#[cfg(test)]
mod tests;

pub use capacity::PortLoad;
pub use config::{
    AfterDeadline, CapacityRule, D3CommonConfig, D3Config, D3SenderConfig, Pacing, QueueMeasure,
    RcpdcConfig,
};
pub use header::{
    D3Header, Grant, Grants, HOPS_MAX, PLAIN_HEADER_BYTES, RATE_BLOCK_BYTES, RATE_UNIT, RateBlock,
};
pub use inversions::Inversions;
pub use port::{Allocator, D3Port, RequestKind};
pub use receiver::D3Receiver;
pub use sender::D3Sender;

use punctual_core::{
    Bytes, Content, Duration, FlowModel, FlowRoute, FlowSpec, FlowWindow, HostCx, Instant, Limit,
    NicInfo, Packet, PathUse, PortView, QueueSpec, Rate, Sharing, Transport, TransportInfo,
    WaitNames,
};

/// What a sender requests: the difference between D3, RCPdc and RCP.
pub trait RequestPolicy: Transport<Shared = D3Host> {
    /// The parameters that all senders use.
    fn params(&self) -> D3SenderConfig;

    /// Decides the next request (D3-R04).
    fn plan(&self, need: &FlowDemand, nic: &NicInfo) -> RequestPlan;

    /// Whether every data packet carries a request. For ports without state per flow, to which no
    /// grant need be returned.
    fn asks_always(&self) -> bool {
        false
    }

    /// Whether a flow ends when its deadline passes (D3-R31).
    fn gives_up_late(&self) -> bool {
        false
    }

    /// After how many rises of its desired rate in a row a flow ends; 0 for never (D3-R35).
    fn increases_max(&self) -> u32 {
        0
    }

    /// The factor of one-byte rates, or 0 for whole bits per second (D3-R32).
    fn scale(&self, _nic: &NicInfo) -> u8 {
        0
    }

    /// Whether ports reserve this flow's demand before those of other flows (D3-R36).
    fn is_important(&self, _flow: &FlowSpec) -> bool {
        false
    }
}

/// A sender's decision at its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPlan {
    /// Request this rate and a fair share.
    Ask(Rate),
    /// Replace the deadline by this one and decide again.
    Extend(Instant),
    /// Return the grants and end the flow.
    GiveUp,
}

/// The state of a flow from which its desired rate is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowDemand {
    /// The time.
    pub now: Instant,
    /// The flow's deadline, if it has one.
    pub deadline: Option<Instant>,
    /// Time from the flow's start to its first deadline; zero without a deadline.
    pub allowance: Duration,
    /// Bytes left to send on the link, headers and framing included.
    pub remaining: Bytes,
    /// The rate at which it sends.
    pub rate: Rate,
    /// Its smoothed RTT; zero before the first sample.
    pub rtt: Duration,
}

/// State that the flows of one host share.
#[derive(Clone, Debug)]
pub struct D3Host {
    nic: NicInfo,
    counters: D3Counters,
}

/// Errors at one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct D3Counters {
    /// Malformed packets, which were dropped.
    pub malformed: u64,
    /// Flows abandoned because their path has more than [`HOPS_MAX`] allocating ports.
    pub paths_too_long: u64,
}

impl D3Host {
    /// A host that has sent nothing.
    ///
    /// # Panics
    ///
    /// If the MTU leaves no room for data beside the headers, or exceeds the 16-bit packet size.
    pub fn new(nic: &NicInfo) -> Self {
        let room = u64::from(PLAIN_HEADER_BYTES + RATE_BLOCK_BYTES) + 1..=u64::from(u16::MAX);
        let mtu = nic.mtu.get();
        assert!(room.contains(&mtu), "mtu = {mtu}: D3 needs one within {room:?} bytes");
        D3Host { nic: *nic, counters: D3Counters::default() }
    }

    /// Errors at this host.
    pub fn counters(&self) -> &D3Counters {
        &self.counters
    }

    fn segment_bytes(&self) -> u64 {
        self.nic.mtu.get() - u64::from(PLAIN_HEADER_BYTES + RATE_BLOCK_BYTES)
    }
}

impl RequestPolicy for RcpdcConfig {
    fn params(&self) -> D3SenderConfig {
        self.0.for_senders()
    }

    fn plan(&self, _need: &FlowDemand, _nic: &NicInfo) -> RequestPlan {
        RequestPlan::Ask(Rate::ZERO)
    }

    fn scale(&self, nic: &NicInfo) -> u8 {
        self.0.scale(nic)
    }
}

/// What D3, RCPdc and RCP call their waits: ports grant a rate.
pub(crate) const GRANT_WAITS: WaitNames = WaitNames {
    pacing: WaitNames::DEFAULT.pacing.at_port("held for {time} to the rate that {port} granted"),
    grant: WaitNames::DEFAULT.grant.at_port("{time} without a rate from {port}"),
    ..WaitNames::DEFAULT
};

/// The flow-level model of a transport with D3's packets: `header` bytes on each data packet.
///
/// A flow without a reservation gets only the base rate on its SYN where ports count their flows,
/// so that its data starts two RTTs after the SYN.
pub(crate) fn granted_flow_model(
    sharing: Sharing,
    setup_rtts: f64,
    header: u16,
    nic: &NicInfo,
) -> FlowModel {
    let room = Bytes::new(u64::from(PLAIN_HEADER_BYTES + RATE_BLOCK_BYTES));
    FlowModel {
        sharing,
        paths: PathUse::Hashed,
        setup_rtts,
        setup_rtts_without_deadline: if header == PLAIN_HEADER_BYTES { 2.0 } else { setup_rtts },
        resume_rtts: 0.0,
        payload: nic.mtu.saturating_sub(room),
        header: Bytes::new(u64::from(header)),
        answers: 1.0,
        window: FlowWindow::Unlimited,
        receiver_rate: None,
    }
}

impl Transport for RcpdcConfig {
    type Sender = D3Sender;
    type Receiver = D3Receiver;
    type Shared = D3Host;
    type Controller = D3Port;

    const INFO: TransportInfo =
        TransportInfo::new("rcpdc", "RCPdc: ports count their flows and grant each an equal share")
            .with_max_hops(HOPS_MAX)
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

    fn controller(&self, port: &PortView) -> Option<D3Port> {
        Some(D3Port::new(&self.0, port.rate))
    }

    fn check_config(&self) -> Result<(), String> {
        self.validate().map_err(|e| e.to_string())
    }

    fn may_abandon(&self) -> bool {
        true // where a path has more ports than the header can record
    }

    fn may_abandon_without_deadline(&self) -> bool {
        RequestPolicy::increases_max(self) > 0 // D3-R35
    }

    fn content(packet: &Packet) -> Content {
        D3Header::content(packet)
    }

    /// Ports grant a new flow the base rate, which carries no data, and its share an RTT later.
    fn flow_model(&self, nic: &NicInfo) -> Option<FlowModel> {
        Some(granted_flow_model(Sharing::Fair, 2.0, PLAIN_HEADER_BYTES, nic))
    }

    fn default_queue(&self, _rate: Rate, _mtu: Bytes) -> QueueSpec {
        QueueSpec::DropTail { limit: Limit::Bytes(self.0.buffer) }
    }
}
