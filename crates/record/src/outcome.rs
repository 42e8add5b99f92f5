//! The outcome of a run: its flows, totals of the network and of each port.

use crate::capture::CapturedPacket;
use crate::{Explanation, GaugeSample, Measure, NetworkTrace, PacketLatency, PortSample};
use punctual_core::{
    Bytes, Class, ControllerState, Duration, FlowSpec, Instant, PortId, RetransmitCause,
    TransportId,
};

/// The status of a flow at the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowStatus {
    /// Its receiver has every byte.
    Completed,
    /// Its sender abandoned it.
    Abandoned,
    /// The run ended before it did.
    #[default]
    Unfinished,
}

/// Retransmissions by cause, see [`RetransmitCause`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByCause<N> {
    /// After a NACK.
    pub nack: N,
    /// After a switch returned the header.
    pub bounce: N,
    /// After a timeout.
    pub timeout: N,
    /// After packets sent later were acknowledged.
    pub duplicate_ack: N,
}

impl<N> ByCause<N> {
    /// The count of one cause.
    pub fn of(&mut self, cause: RetransmitCause) -> &mut N {
        match cause {
            RetransmitCause::Nack => &mut self.nack,
            RetransmitCause::Bounce => &mut self.bounce,
            RetransmitCause::Timeout => &mut self.timeout,
            RetransmitCause::DuplicateAck => &mut self.duplicate_ack,
        }
    }

    /// Applies `f` to each count and its counterpart in `other`.
    pub fn zip<M, R>(self, other: ByCause<M>, f: impl Fn(N, M) -> R) -> ByCause<R> {
        ByCause {
            nack: f(self.nack, other.nack),
            bounce: f(self.bounce, other.bounce),
            timeout: f(self.timeout, other.timeout),
            duplicate_ack: f(self.duplicate_ack, other.duplicate_ack),
        }
    }
}

impl<N: Into<u64>> ByCause<N> {
    /// The sum over causes: all retransmissions.
    pub fn total(self) -> u64 {
        let ByCause { nack, bounce, timeout, duplicate_ack } = self;
        nack.into() + bounce.into() + timeout.into() + duplicate_ack.into()
    }
}

/// The record of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// The flow as requested, with its last deadline if that was changed.
    pub spec: FlowSpec,
    /// How it ended.
    pub status: FlowStatus,
    /// When the last byte arrived or the flow was abandoned.
    pub ended: Option<Instant>,
    /// Bytes its receiver got, each counted once.
    pub delivered: Bytes,
    /// Data packets retransmitted.
    pub retransmits: u32,
    /// `retransmits` by cause.
    pub retransmits_by: ByCause<u32>,
    /// Retransmission timers fired.
    pub timeouts: u32,
    /// Trimmed headers its receiver saw.
    pub trims: u32,
    /// Headers returned to its sender.
    pub bounces: u32,
    /// Its counts within the measured window.
    pub in_window: FlowCounts,
}

/// The counts of one flow within the measured window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Bytes its receiver got, each counted once.
    pub delivered: Bytes,
    /// Data packets retransmitted.
    pub retransmits: u32,
    /// `retransmits` by cause.
    pub retransmits_by: ByCause<u32>,
    /// Retransmission timers fired.
    pub timeouts: u32,
}

impl FlowRecord {
    /// Whether the flow met its deadline; none for a flow without deadline.
    pub fn met_deadline(&self) -> Option<bool> {
        let deadline = self.spec.deadline?;
        let on_time = self.ended.is_some_and(|at| at <= deadline);
        Some(self.status == FlowStatus::Completed && on_time)
    }
}

/// Totals of the measured window; the end, events, packet hops and maxima are of the whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The measured window.
    pub measure: Measure,
    /// Simulated time at the end.
    pub ended_at: Instant,
    /// Events handled.
    pub events: u64,
    /// Packets that left an output port, host NICs included.
    pub packet_hops: u64,
    /// Data packets that reached their receiver with their payload.
    pub delivered_packets: u64,
    /// Bytes of those packets on the wire.
    pub delivered_wire_bytes: u64,
    /// Data bytes delivered for the first time.
    pub delivered_bytes: u64,
    /// Packets dropped by a full queue.
    pub drops: u64,
    /// Packets lost on a link.
    pub losses: u64,
    /// Packets trimmed.
    pub trims: u64,
    /// Headers returned to their sender.
    pub bounces: u64,
    /// Packets ECN-marked.
    pub marks: u64,
    /// Times that a link was paused.
    pub pauses: u64,
    /// Time that ports were paused, summed over ports.
    pub paused: Duration,
    /// The longest continuous pause of any port.
    pub longest_pause: Duration,
    /// The maximum use of any lossless switch's buffer.
    pub most_buffered: Bytes,
    /// Data packets retransmitted.
    pub retransmits: u64,
    /// `retransmits` by cause.
    pub retransmits_by: ByCause<u64>,
    /// Retransmission timers fired.
    pub timeouts: u64,
    /// Requests of deadline flows for a rate, at every port that counts inversions.
    pub deadline_requests: u64,
    /// Those of `deadline_requests` that were cut while a flow with a later deadline held a grant
    /// at the port.
    pub priority_inversions: u64,
}

impl Totals {
    /// The part of the measured window that the run reached.
    pub fn measured_time(&self) -> Duration {
        let until = self.measure.until.unwrap_or(self.ended_at).min(self.ended_at);
        until.saturating_since(self.measure.from)
    }
}

/// Totals of one port within the measured window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortTotals {
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets sent, pause frames not included.
    pub sent_packets: u64,
    /// Packets dropped here.
    pub drops: u64,
    /// Packets trimmed here.
    pub trims: u64,
    /// Headers returned to their sender from here.
    pub bounces: u64,
    /// Packets ECN-marked here.
    pub marks: u64,
    /// Pauses.
    pub pauses: PauseTotals,
}

/// Totals of the pauses of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseTotals {
    /// Frames sent by this port that pause the port at the other end.
    pub sent: u64,
    /// Frames received that paused this port.
    pub received: u64,
    /// Time that at least one class was paused.
    pub time: Duration,
    /// The longest continuous pause.
    pub longest: Duration,
}

/// Pauses of one class at one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortPauses {
    /// The port that was paused.
    pub port: PortId,
    /// The class that was paused.
    pub class: Class,
    /// How often it was paused.
    pub pauses: u64,
    /// How long it was paused in total.
    pub time: Duration,
    /// The longest continuous pause.
    pub longest: Duration,
    /// Whether it was paused when the run ended.
    pub lasts: bool,
}

/// A PFC pause cycle: each port is paused because of packets that wait at the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseCycle {
    /// The class that is paused.
    pub class: Class,
    /// The ports in order of dependency: each waits for the next, and the last for the first.
    ///
    /// The lowest number comes first.
    pub ports: Vec<PortId>,
    /// When it first formed.
    pub first: Instant,
    /// When it last formed.
    pub since: Instant,
    /// When it ended the last time, because a port resumed; none if it was open when the run ended.
    pub ended: Option<Instant>,
    /// How often it formed.
    pub times: u64,
    /// The longest time that it lasted.
    pub longest: Duration,
    /// Whether it is a PFC deadlock: it was open when the run ended, and none of its ports can
    /// resume.
    pub is_deadlock: bool,
}

impl PauseCycle {
    /// The cycle in words. `node_of` gives the name of the node that a port belongs to.
    pub fn describe<'a>(&self, node_of: impl Fn(PortId) -> &'a str) -> String {
        let ports = self.ports.iter().chain(self.ports.first());
        let nodes: Vec<&str> = ports.map(|port| node_of(*port)).collect();
        let (class, ring) = (self.class.0, nodes.join(" -> "));
        let before = match self.times {
            0 | 1 => String::new(),
            times => format!(" ({} times before, from {} on)", times - 1, self.first),
        };
        match self.ended {
            None if self.is_deadlock => {
                format!("PFC deadlock: since {}, class {class}{before}: {ring}", self.since)
            }
            None => format!(
                "pause cycle, open when the run ended: since {}, class {class}{before}: {ring}",
                self.since
            ),
            Some(ended) => format!(
                "pause cycle, ended: from {} to {ended}, class {class}{before}: {ring}",
                self.since
            ),
        }
    }
}

/// The state of a controller at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerRecord {
    /// The port at which it runs.
    pub port: PortId,
    /// The transport that it belongs to.
    pub transport: TransportId,
    /// Its state.
    pub state: ControllerState,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// One record per flow, by flow id.
    pub flows: Vec<FlowRecord>,
    /// Totals of the network.
    pub totals: Totals,
    /// Totals by port.
    pub ports: Vec<PortTotals>,
    /// Controllers at the end, by port then transport.
    pub controllers: Vec<ControllerRecord>,
    /// Pauses by port and class, where there were any.
    pub pauses: Vec<PortPauses>,
    /// PFC pause cycles, open and ended, in the order in which they first closed.
    pub pause_cycles: Vec<PauseCycle>,
    /// Number of further pause cycles that are not listed.
    pub unlisted_pause_cycles: u64,
    /// Time series, by time then port.
    pub samples: Vec<PortSample>,
    /// Gauges that transports reported: by time, then ports, then flows.
    pub gauges: Vec<GaugeSample>,
    /// Violated invariants, when they were checked.
    pub violations: Vec<String>,
    /// The activity of every port over time, when that was recorded.
    pub network: Option<NetworkTrace>,
    /// Latency of data packets by transport, when that was recorded.
    pub packet_latency: Vec<PacketLatency>,
    /// The first packets that links carried, by time, when they were captured.
    pub captured: Vec<CapturedPacket>,
    /// Delay breakdowns of the flows to be explained, by flow.
    pub explained: Vec<Explanation>,
    /// Whether the run was interrupted before its end.
    pub interrupted: bool,
}
