//! D3 and what it shares with RCPdc: explicit rates, granted by every port of the path.
//!
//! After C. Wilson, H. Ballani, T. Karagiannis and A. Rowstron, "Better never than late: meeting
//! deadlines in datacenter networks", SIGCOMM 2011. Sections named here are that paper's.
//!
//! Once per round-trip time a sender asks every port on its path, its own host's included, for a
//! rate, and returns what it was granted the last time; it then paces at the lowest grant. A port
//! keeps three sums and nothing about single flows: how many there are, how much they desire and
//! how much they hold. A flow with a deadline desires what it needs to meet it; what is left is
//! shared evenly. A flow that gets nothing pauses, and goes on asking with headers alone.
//!
//! [`D3`] is that protocol. [`Rcpdc`] is the variant in which no flow desires anything: explicit fair shares, the paper's
//! measure of what can be had without looking at deadlines. `rules.md` lists every rule, the test
//! that holds it, and where we depart from the paper.
//!
//! # Limits
//!
//! * One path per flow, of at most [`HOPS_MAX`] allocating ports. A port beyond that refuses
//!   ([`Port::requests_refused`]) and the sender gives the flow up, which
//!   [`Counters::paths_too_long`] counts.
//! * The receiver asks for no rate of its own: data flow one way, and its answers are headers.
//! * Ports trust hosts. A request lost or doubled on its way leaves the sums of some ports wrong
//!   until they have been idle for a while; the capacity law makes up for it meanwhile.
//! * Segments are the MTU less 62 bytes, on all packets, so that any of them can carry a request.
//! * A driver that fires timers late lowers the rate: a pacing slot missed is not made up for.

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

pub use capacity::Load;
pub use config::{
    AfterDeadline, CapacityRule, D3, Pacing, Params, ParamsError, QueueMeasure, Rcpdc, SenderParams,
};
pub use header::{
    D3Header, Grant, Grants, HOPS_MAX, PLAIN_HEADER_BYTES, RATE_BLOCK_BYTES, RATE_UNIT, RateBlock,
};
pub use inversions::Inversions;
pub use port::{Allocator, Port, RequestKind};
pub use receiver::Receiver;
pub use sender::Sender;

use punctual_core::{
    Bytes, Duration, FlowRoute, FlowSpec, HostCx, Instant, Limit, NicInfo, Packet, PortView,
    QueueSpec, Rate, Transport, TransportInfo,
};

/// What sets the variants apart.
pub trait Variant: Transport<Shared = Host> {
    /// The parameters that senders have in common.
    fn params(&self) -> SenderParams;

    /// What to do at the next request (D3-R04).
    fn plan(&self, need: &Need, nic: &NicInfo) -> Plan;

    /// Whether every data packet carries a request, answered or not: for ports that count
    /// nothing, so that nothing need be returned.
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

    /// Whether ports meet this flow's demand before others' (D3-R36).
    fn is_important(&self, _flow: &FlowSpec) -> bool {
        false
    }
}

/// What a sender does at its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Ask for this rate and a fair share.
    Ask(Rate),
    /// Take this for its deadline from now on, and think again.
    Extend(Instant),
    /// Return what it holds and end.
    GiveUp,
}

/// What a sender knows when it asks for a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The time.
    pub now: Instant,
    /// By when the flow must have ended, if it matters.
    pub deadline: Option<Instant>,
    /// The time that the flow had for itself at first; zero without deadline.
    pub allowance: Duration,
    /// What is yet to be sent, as it counts on a link: headers and framing included.
    pub remaining: Bytes,
    /// The rate it sends at.
    pub rate: Rate,
    /// Its round-trip time; zero while it has none.
    pub rtt: Duration,
}

/// What the flows of one host share.
#[derive(Clone, Debug)]
pub struct Host {
    nic: NicInfo,
    counters: Counters,
}

/// What went wrong at one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets dropped because they make no sense.
    pub malformed: u64,
    /// Flows given up because their path has more than [`HOPS_MAX`] allocating ports.
    pub paths_too_long: u64,
}

impl Host {
    /// A host that has sent nothing.
    ///
    /// # Panics
    ///
    /// If the MTU leaves no room for data beside the headers, or a packet could not say its size.
    pub fn new(nic: &NicInfo) -> Self {
        let room = u64::from(PLAIN_HEADER_BYTES + RATE_BLOCK_BYTES) + 1..=u64::from(u16::MAX);
        let mtu = nic.mtu.get();
        assert!(room.contains(&mtu), "mtu = {mtu}: D3 needs one within {room:?} bytes");
        Host { nic: *nic, counters: Counters::default() }
    }

    /// What went wrong here.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn segment_bytes(&self) -> u64 {
        self.nic.mtu.get() - u64::from(PLAIN_HEADER_BYTES + RATE_BLOCK_BYTES)
    }
}

impl Variant for Rcpdc {
    fn params(&self) -> SenderParams {
        self.0.for_senders()
    }

    fn plan(&self, _need: &Need, _nic: &NicInfo) -> Plan {
        Plan::Ask(Rate::ZERO)
    }
}

impl Transport for Rcpdc {
    type Sender = Sender;
    type Receiver = Receiver;
    type Shared = Host;
    type Controller = Port;

    const INFO: TransportInfo =
        TransportInfo::new("rcpdc", "RCPdc: every port grants every flow an explicit fair rate")
            .with_max_hops(HOPS_MAX);

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
        Some(Port::new(&self.0, port.rate))
    }

    fn check_config(&self) -> Result<(), String> {
        self.validate().map_err(|e| e.to_string())
    }

    fn may_abandon(&self) -> bool {
        true // where a path has more ports than the header can record
    }

    fn default_queue(&self, _rate: Rate, _mtu: Bytes) -> QueueSpec {
        QueueSpec::DropTail { limit: Limit::Bytes(self.0.buffer) }
    }
}
