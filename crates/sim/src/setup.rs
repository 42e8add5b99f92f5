//! The input of a run: network, queues, transports, flows, faults, what to measure.

use punctual_core::{Duration, FlowId, Instant, NodeId, PortId, QueueSpec, Rate, TransportSet};
use punctual_net::Network;
use punctual_record::Measure;
use punctual_transports::AnyTransport;
use punctual_workload::Workload;

/// Everything a run depends on.
///
/// Equal set-ups give equal outcomes, bit for bit. `S` is the set of transports that the simulator
/// is compiled for.
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
    /// Changes of links, in order of time.
    pub link_changes: Vec<LinkChange>,
    /// Switches that restart, in order of time.
    pub switch_resets: Vec<SwitchReset>,
    /// Switches that run no controllers.
    pub legacy_switches: Vec<NodeId>,
    /// Time series to take, if any.
    pub sampling: Option<Sampling>,
    /// Flows whose two ends are asked for their gauges at each sampling instant.
    pub sampled_flows: Vec<FlowId>,
    /// Whether to check invariants during the run, which costs time.
    pub check: bool,
    /// Whether to record the activity of every port over time, which costs time.
    pub network_trace: bool,
    /// Whether to record the latency of data packets, which costs time.
    pub packet_latency: bool,
    /// How many packets to capture as links carry them, each once per link. The run ends when it has
    /// captured as many. None if 0, the usual value; others cost time and memory.
    pub capture_max: u32,
    /// The measured window.
    pub measure: Measure,
    /// How the engine works. It has no effect on the outcome.
    pub engine: EngineOptions,
}

/// How the engine works: affects its speed, never the outcome.
#[derive(Debug, Clone, Copy, Default)]
pub struct EngineOptions {
    /// Whether the run advances in windows of time. By default, large networks do.
    pub windows: Option<bool>,
    /// The most threads that the run may use; 0 and 1 mean one. It uses fewer where they would not
    /// pay, unless `windows` is `Some(true)`, and one where it cannot be shared out.
    pub threads: usize,
}

/// When a run ends: whichever comes first.
#[derive(Debug, Clone, Copy)]
pub struct Stop {
    /// At this instant.
    pub at: Instant,
    /// When every measured flow that is not endless and not background has ended, see [`Measure`].
    pub when_done: bool,
}

/// A change of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkChange {
    /// When.
    pub at: Instant,
    /// Which link (one direction).
    pub port: PortId,
    /// What changes.
    pub what: LinkFault,
}

/// What can change at a link.
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

/// A switch restarts: the controllers of its ports lose their state. Queued packets stay.
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

/// The progress of a run.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Simulated time.
    pub now: Instant,
    /// When it will stop at the latest.
    pub stop_at: Instant,
    /// Events so far.
    pub events: u64,
    /// Flows ended so far.
    pub flows_ended: u64,
}
