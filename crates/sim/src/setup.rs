//! The input of a run: network, queues, transports, flows, faults, what to measure.

use punctual_core::{
    Duration, FlowId, Instant, NodeId, PortId, QueueSpec, Rate, TransportId, TransportSet,
};
use punctual_net::Network;
use punctual_transports::AnyTransport;
use punctual_workload::Workload;

/// Everything a run depends on. The same set-up gives the same outcome, bit for bit. `S` is the set
/// of transports that the simulator is compiled for.
#[derive(Debug, Clone)]
pub struct Setup<S: TransportSet = AnyTransport> {
    /// The network.
    pub network: Network,
    /// The queue of every switch port, unless `port_queues` says otherwise.
    pub switch_queue: QueueSpec,
    /// The queue of each port, by port, where switch ports differ; else empty. NICs have none of
    /// these. Lossless switches take their limits from `switch_queue`.
    pub port_queues: Vec<QueueSpec>,
    /// The transports; flows name them by position.
    pub transports: Vec<S>,
    /// The flows.
    pub workload: Workload,
    /// Seed of all random streams.
    pub seed: u64,
    /// When to stop.
    pub stop: Stop,
    /// Things that happen to links, in order of time.
    pub link_changes: Vec<LinkChange>,
    /// Switches that restart, in order of time.
    pub switch_resets: Vec<SwitchReset>,
    /// Switches that run no controllers.
    pub legacy_switches: Vec<NodeId>,
    /// Time series to take, if any.
    pub sampling: Option<Sampling>,
    /// Flows whose two ends are asked for their gauges at each sampling instant.
    pub sampled_flows: Vec<FlowId>,
    /// Whether to check invariants all along, at some cost.
    pub check: bool,
    /// Whether to record what every port does in time, at some cost.
    pub network_trace: bool,
    /// What is measured.
    pub measure: Measure,
}

/// The measured window: flows that start in it are measured, and what the network does in it is
/// counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measure {
    /// When it begins.
    pub from: Instant,
    /// When it ends; with the run when absent. A run that stops when done then waits for the flows
    /// that start in the window, and for no others.
    pub until: Option<Instant>,
}

impl Measure {
    /// Whether an instant is in the window.
    pub fn contains(&self, at: Instant) -> bool {
        at >= self.from && self.until.is_none_or(|until| at < until)
    }

    /// Whether a run that stops when done waits for a flow that starts then.
    pub(crate) fn awaits(&self, start: Instant) -> bool {
        self.until.is_none() || self.contains(start)
    }
}

/// When a run ends: whichever comes first.
#[derive(Debug, Clone, Copy)]
pub struct Stop {
    /// At this instant.
    pub at: Instant,
    /// When every measured flow that is not endless and not background has ended, see [`Measure`].
    pub when_done: bool,
}

/// Something that happens to a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkChange {
    /// When.
    pub at: Instant,
    /// To which link (one direction).
    pub port: PortId,
    /// What.
    pub what: LinkFault,
}

/// What can happen to a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LinkFault {
    /// It runs at this rate from now on.
    Rate(Rate),
    /// Packets are lost on it at random with this probability.
    Loss(f64),
    /// It is cut: everything sent on it is lost.
    Down,
    /// It works again.
    Up,
    /// Routing withdraws it, so that packets take other paths (`true`), or uses it again (`false`).
    Withdrawn(bool),
}

/// A switch restarts: the controllers of its ports forget everything. What it has queued stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchReset {
    /// When.
    pub at: Instant,
    /// Which switch.
    pub switch: NodeId,
}

/// Which time series to take.
#[derive(Debug, Clone)]
pub struct Sampling {
    /// How often.
    pub every: Duration,
    /// At which ports.
    pub ports: Vec<PortId>,
}

/// One row of a time series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortSample {
    /// When.
    pub at: Instant,
    /// Which port.
    pub port: PortId,
    /// Bytes waiting or in service.
    pub queue_bytes: u64,
    /// Packets waiting or in service.
    pub queue_packets: u32,
    /// Bytes sent since the start.
    pub sent_bytes: u64,
    /// Time that it was paused since the start.
    pub paused: Duration,
}

/// Whose a gauge is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GaugeOf {
    /// A flow's sending end.
    Sender(FlowId),
    /// A flow's receiving end.
    Receiver(FlowId),
    /// A transport's controller at a port.
    Port(PortId),
}

/// The value of a gauge of a transport at a sampling instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaugeSample {
    /// When.
    pub at: Instant,
    /// The transport.
    pub transport: TransportId,
    /// Whose gauge it is.
    pub of: GaugeOf,
    /// What it is called; ends in its unit.
    pub name: &'static str,
    /// What it showed.
    pub value: f64,
}

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Simulated time.
    pub now: Instant,
    /// Where it will stop at the latest.
    pub stop_at: Instant,
    /// Events so far.
    pub events: u64,
    /// Flows ended so far.
    pub flows_ended: u64,
}
