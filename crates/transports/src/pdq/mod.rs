//! PDQ: preemptive scheduling of flows by explicit rates, the most critical first.
//!
//! After C.-Y. Hong, M. Caesar and P. B. Godfrey, "Finishing flows quickly with preemptive
//! scheduling", SIGCOMM 2012. Sections named here are that paper's.
//!
//! Every packet carries a scheduling header: desired rate, deadline, expected transmission time,
//! RTT, and the port that pauses the flow. Every output port on the path, the sender's own
//! included, keeps a list of the most critical flows and lets as many of them send at full rate as
//! fit; it pauses all others by writing its id into their headers. Paused flows send probes. Flows
//! thus send one after another by deadline, or by remaining size without deadlines, and a more
//! critical flow preempts the one that sends.
//!
//! Three optimisations: the next flow starts while the last is finishing (Early Start), a flow that
//! cannot meet its deadline is abandoned (Early Termination), and flows far down the list probe
//! less often (Suppressed Probing). `rules.md` lists every rule, its test, and our departures from
//! the paper.
//!
//! # Limits
//!
//! * One path per flow; [`mpdq`](crate::mpdq) uses several. A header can name 4096 paths.
//! * Ports trust hosts to report the criticality of their flows.
//! * Deadlines are ordered up to 11.9 hours after the start, expected times up to 42 s; beyond
//!   that, flows tie and the lower id goes first. A flow has at most 2³² segments.
//! * Both hosts must have the same MTU: a segment's offset is its number times its size.
//! * Traffic and queues of other transports lower the capacity of ports, down to `share_min` of the
//!   line rate. Beside a transport that keeps queues full, PDQ gets that share.

mod config;
mod header;
mod port;
mod receiver;
mod sender;

#[cfg(test)]
mod tests;

pub use config::{Availability, Criticality, PdqConfig, PdqVariant, RoundTrip};
pub(crate) use config::{pdq_config, pdq_part};
pub use header::{
    HEADER_BYTES, NO_DEADLINE, NOBODY, PATHS_MAX, PLAIN_HEADER_BYTES, PROBE_UNIT, PdqHeader,
    SCHEDULING_HEADER_BYTES, SUBFLOWS_MAX,
};
pub use port::{FlowEntry, FlowKey, FlowList, FlowRank, PdqPort, RateController};
pub use receiver::PdqReceiver;
pub(crate) use sender::Expired;
pub use sender::PdqSender;

use punctual_core::{
    Bytes, Content, CriticalOrder, Duration, FlowModel, FlowRoute, FlowSpec, FlowWindow, HostCx,
    Limit, LineRate, NicInfo, Packet, PathUse, PortView, QueueSpec, Rate, Sharing, Transport,
    TransportInfo, WaitNames,
};

/// State that the flows of one host share.
#[derive(Clone, Debug)]
pub struct PdqHost {
    nic: NicInfo,
    line: LineRate,
    line_kbps: u32,
    counters: PdqCounters,
}

/// Errors at one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PdqCounters {
    /// Malformed packets, which were dropped.
    pub malformed: u64,
}

impl PdqHost {
    /// A host that has sent nothing.
    ///
    /// # Panics
    ///
    /// If the MTU leaves no room for data beside the headers, or exceeds the 16-bit packet size.
    pub fn new(nic: &NicInfo) -> Self {
        let room = u64::from(HEADER_BYTES) + 1..=u64::from(u16::MAX);
        let mtu = nic.mtu.get();
        assert!(room.contains(&mtu), "mtu = {mtu}: PDQ needs one within {room:?} bytes");
        let (line, line_kbps) = (LineRate::new(nic.rate), header::kbps(nic.rate));
        PdqHost { nic: *nic, line, line_kbps, counters: PdqCounters::default() }
    }

    /// Errors at this host.
    pub fn counters(&self) -> &PdqCounters {
        &self.counters
    }

    /// Counts a malformed packet.
    pub(crate) fn count_malformed(&mut self) {
        self.counters.malformed += 1;
    }

    pub(crate) fn nic(&self) -> &NicInfo {
        &self.nic
    }

    /// Time of these bytes on the NIC's link.
    pub(crate) fn line_time(&self, bytes: Bytes) -> Duration {
        self.line.transmission_time(bytes)
    }

    fn segment_bytes(&self) -> u64 {
        self.nic.mtu.get() - u64::from(HEADER_BYTES)
    }

    /// Bytes that headers and framing add to each segment on a link.
    #[inline]
    pub(crate) fn overhead_bytes(&self) -> u64 {
        u64::from(HEADER_BYTES) + self.nic.framing.get()
    }
}

impl Transport for PdqConfig {
    type Sender = PdqSender;
    type Receiver = PdqReceiver;
    type Shared = PdqHost;
    type Controller = PdqPort;

    const INFO: TransportInfo = TransportInfo::new(
        "pdq",
        "PDQ: ports let the most critical flows send and pause the others",
    )
    .with_waits(WaitNames {
        paused: WaitNames::DEFAULT.paused.ahead("more critical flow"),
        ..WaitNames::DEFAULT
    });

    fn open_host(&self, nic: &NicInfo) -> PdqHost {
        PdqHost::new(nic)
    }

    fn open_sender(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, Self>) -> PdqSender {
        PdqSender::open(flow, route, cx)
    }

    fn open_receiver(first: &Packet, route: &FlowRoute, _cx: &mut HostCx<'_, Self>) -> PdqReceiver {
        PdqReceiver::new(first.flow, route)
    }

    fn controller(&self, _port: &PortView) -> Option<PdqPort> {
        Some(PdqPort::new(self))
    }

    fn check_config(&self) -> Result<(), String> {
        self.validate().map_err(|e| e.to_string())
    }

    fn may_abandon(&self) -> bool {
        self.terminates_early()
    }

    fn may_abandon_without_deadline(&self) -> bool {
        false
    }

    fn content(packet: &Packet) -> Content {
        let header: PdqHeader = packet.header.get();
        let seq = u64::from(header.seq);
        if !packet.is_to_sender() {
            return Content::Data(seq);
        }
        let named = header.has(PdqHeader::DATA).then_some(seq);
        Content::Ack { below: u64::from(header.expected), named }
    }

    /// A flow is paused by ports and released by Early Start before they run idle; without Early
    /// Start its next probe finds out, about an RTT later.
    fn flow_model(&self, nic: &NicInfo) -> Option<FlowModel> {
        let order = match self.criticality {
            Criticality::Deadline => CriticalOrder::Deadline,
            Criticality::Random => CriticalOrder::Random,
            Criticality::Estimated => CriticalOrder::Estimated(self.estimate_step),
        };
        let setup_rtts = if self.syn_grants { 1.0 } else { 2.0 };
        Some(FlowModel {
            sharing: Sharing::Critical {
                order,
                aging: self.aging,
                early_termination: self.terminates_early(),
            },
            paths: PathUse::Hashed,
            setup_rtts,
            setup_rtts_without_deadline: setup_rtts,
            resume_rtts: if self.early_start_rtts() > 0.0 { 0.0 } else { 1.0 },
            payload: nic.mtu.saturating_sub(Bytes::new(u64::from(HEADER_BYTES))),
            header: Bytes::new(u64::from(HEADER_BYTES)),
            answers: 1.0,
            window: FlowWindow::Unlimited,
            receiver_rate: self.receiver_rate,
        })
    }

    fn default_queue(&self, _rate: Rate, _mtu: Bytes) -> QueueSpec {
        QueueSpec::DropTail { limit: Limit::Bytes(self.buffer) }
    }
}
