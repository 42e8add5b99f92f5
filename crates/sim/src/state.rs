//! The state of a run, by what it is about: network, hosts, faults, flows to start, records, end.
//!
//! The engine has one of each. Its methods are grouped in the same way: `engine.rs` and `control.rs`
//! for the fabric, `hosts.rs` for hosts, `scenario_events.rs` for faults, `measured_window.rs` for records.

use crate::control::Controllers;
use crate::detour::Detours;
use crate::flows::{DeadlineChanges, FlowState, NicTurn, ReadyQueues};
use crate::lossless::Lossless;
use crate::measured_window::Counters;
use crate::scenario_events::LinkHealth;
use crate::setup::{LinkChange, Sampling, Setup, Stop, SwitchReset};
use punctual_core::rng::{Stream, derive};
use punctual_core::{
    Bytes, ExtArena, FlowId, FlowSpec, HostId, Instant, NodeId, Outbox, PortId, TransportSet,
};
use punctual_net::{Fates, LosslessLimits, Network, Port, Queue};
use punctual_record::{FlowRecord, GaugeSample, Measure, PortSample, PortTotals, Totals};
use punctual_workload::Workload;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// What moves packets: output ports, their controllers, and the buffers of lossless switches.
pub(crate) struct Fabric<C> {
    pub(crate) ports: Vec<Port>,
    pub(crate) port_totals: Vec<PortTotals>,
    pub(crate) controllers: Controllers<C>,
    pub(crate) ext: ExtArena,
    /// What queue disciplines did, until the engine has acted on it.
    pub(crate) fates: Fates,
    pub(crate) lossless: Option<Lossless>,
    pub(crate) path_choices: PathChoices,
}

impl<C> Fabric<C> {
    pub(crate) fn new<S: TransportSet>(setup: &Setup<S>) -> Self {
        let network = &setup.network;
        let trimming = transports_that(&setup.transports, S::is_trimmable);
        let switch_queue = setup.switch_queue.sized_for(network.mtu);
        let lossless =
            LosslessLimits::of(&switch_queue).map(|limits| Lossless::new(limits, network));
        // A host that forwards queues packets as a switch does. It pauses no link: among lossless
        // switches its queue has no limit.
        let has_nic_queues = !network.hosts_forward() || lossless.is_some();
        let queue = |port: PortId| {
            if network.link(port).from.0 < network.hosts && has_nic_queues {
                return Queue::nic();
            }
            let seed = derive(setup.seed, "port", u64::from(port.0));
            let own = setup.port_queues.get(port.index()).map(|own| own.sized_for(network.mtu));
            let mut queue = Queue::new(&own.unwrap_or(switch_queue), seed);
            queue.set_trimming(trimming);
            queue
        };
        let ports = network.links.iter().enumerate();
        let ports: Vec<Port> = ports
            .map(|(port, link)| Port::new(link, network.framing, queue(PortId::from(port))))
            .collect();
        Fabric {
            port_totals: vec![PortTotals::default(); ports.len()],
            ports,
            controllers: Controllers::default(),
            ext: ExtArena::default(),
            fates: Fates::new(),
            lossless,
            path_choices: PathChoices::new(setup.seed, network.names.len()),
        }
    }
}

/// Paths that switches choose at random. Each node draws from a stream of its own, so that its
/// choices do not depend on what happens elsewhere.
pub(crate) struct PathChoices {
    streams: Vec<Stream>,
}

impl PathChoices {
    fn new(seed: u64, nodes: usize) -> Self {
        let stream = |node| Stream::named(seed, "switch paths", node);
        PathChoices { streams: (0..nodes as u64).map(stream).collect() }
    }

    /// What a node draws next: a function that gives a number below its argument.
    #[inline(always)]
    pub(crate) fn at(&mut self, node: NodeId) -> impl FnMut(u32) -> u32 {
        let stream = &mut self.streams[node.index()];
        |n| stream.below(u64::from(n)) as u32
    }
}

/// Transports on hosts: their flows, and the senders that wait for a NIC.
pub(crate) struct Hosts<K> {
    /// By transport.
    pub(crate) stacks: Vec<K>,
    pub(crate) flows: Vec<FlowState>,
    /// Number of NICs of each host.
    pub(crate) nics: u32,
    /// By host, then by NIC.
    pub(crate) ready: Vec<ReadyQueues>,
    /// By host, then by NIC. Empty with one NIC.
    pub(crate) nic_turns: Vec<NicTurn>,
    /// Places in queues of ready senders, by flow, then by NIC of its host. Empty with one NIC.
    pub(crate) ready_links: Vec<u32>,
    /// By flow, the NIC of the path that its hash gives. Empty with one NIC.
    pub(crate) hashed_nics: Vec<u32>,
    /// Timers of hosts' shared state, by transport then host.
    pub(crate) host_timers: Vec<Vec<u32>>,
    pub(crate) outbox: Outbox,
}

impl<K> Hosts<K> {
    pub(crate) fn new<S: TransportSet<Stack = K>>(network: &Network, transports: &[S]) -> Self {
        let infos: Vec<_> = (0..network.hosts).map(|h| network.nic_info(HostId(h))).collect();
        let (nics, all_nics) = (network.nics_per_host(), network.all_nics().len());
        Hosts {
            stacks: transports.iter().map(|t| t.stack(&infos)).collect(),
            flows: Vec::new(),
            nics,
            ready: vec![ReadyQueues::default(); all_nics],
            nic_turns: match nics {
                1 => Vec::new(),
                _ => vec![NicTurn::default(); all_nics],
            },
            ready_links: Vec::new(),
            hashed_nics: Vec::new(),
            host_timers: Vec::new(),
            outbox: Outbox::default(),
        }
    }
}

/// Links that fail, switches that restart, and routes around withdrawn links.
pub(crate) struct Faults {
    /// By port; empty before the first change of a link.
    pub(crate) health: Vec<Option<LinkHealth>>,
    pub(crate) detours: Detours,
    /// Whether links may lose packets or controllers read them when they arrive.
    pub(crate) checks_arrivals: bool,
    pub(crate) link_changes: Vec<LinkChange>,
    pub(crate) next_change: usize,
    pub(crate) switch_resets: Vec<SwitchReset>,
    pub(crate) next_reset: usize,
}

impl Faults {
    pub(crate) fn new<S: TransportSet>(setup: &Setup<S>) -> Self {
        let spraying = transports_that(&setup.transports, S::sprays);
        Faults {
            health: Vec::new(),
            detours: Detours::new(setup.network.hosts, spraying, setup.seed),
            checks_arrivals: false,
            link_changes: setup.link_changes.clone(),
            next_change: 0,
            switch_resets: setup.switch_resets.clone(),
            next_reset: 0,
        }
    }
}

/// Flows to start, and deadlines to change.
pub(crate) struct FlowStarts {
    /// Flows known before the run, by start.
    pub(crate) flows: Arc<Vec<FlowSpec>>,
    /// Everything of the workload but these flows.
    pub(crate) workload: Workload,
    /// The next of `flows`.
    pub(crate) next_flow: usize,
    /// Flows of closed loops that start later: when, and their place in `later_specs`.
    pub(crate) later: BinaryHeap<Reverse<(Instant, u64)>>,
    pub(crate) later_specs: Vec<FlowSpec>,
    pub(crate) deadline_changes: DeadlineChanges,
    /// When the next flows start, if an event is scheduled for it.
    pub(crate) flow_start_at: Instant,
}

impl FlowStarts {
    /// `workload` has no flows of its own.
    pub(crate) fn new(flows: Arc<Vec<FlowSpec>>, workload: Workload) -> Self {
        FlowStarts {
            flows,
            workload,
            next_flow: 0,
            later: BinaryHeap::new(),
            later_specs: Vec::new(),
            deadline_changes: DeadlineChanges::default(),
            flow_start_at: Instant::NEVER,
        }
    }
}

/// The results so far.
pub(crate) struct Recording {
    /// By flow.
    pub(crate) records: Vec<FlowRecord>,
    pub(crate) totals: Totals,
    pub(crate) measure: Measure,
    /// Counters at the begin and the end of the measured window.
    pub(crate) window_begin: Option<Counters>,
    pub(crate) window_end: Option<Counters>,
    pub(crate) sampling: Option<Sampling>,
    pub(crate) sampled_flows: Vec<FlowId>,
    pub(crate) samples: Vec<PortSample>,
    pub(crate) gauges: Vec<GaugeSample>,
}

impl Recording {
    pub(crate) fn new<S: TransportSet>(setup: &Setup<S>) -> Self {
        Recording {
            records: Vec::new(),
            totals: Totals { measure: setup.measure, ..Totals::default() },
            measure: setup.measure,
            window_begin: None,
            window_end: None,
            sampling: setup.sampling.clone(),
            sampled_flows: setup.sampled_flows.clone(),
            samples: Vec::new(),
            gauges: Vec::new(),
        }
    }
}

/// When the run is over.
pub(crate) struct RunEnd {
    pub(crate) stop: Stop,
    /// How many flows the run waits for; the end of the measured window counts as one.
    pub(crate) awaited: u64,
    /// In a share of a run: how many flows of closed loops, of all shares, the run waits for besides.
    pub(crate) continued: u64,
    pub(crate) flows_ended: u64,
    /// The number of events at which to check whether the run is over, and to report progress.
    pub(crate) check_at: u64,
}

impl RunEnd {
    /// The end of a run that reports progress after `check_at` events.
    pub(crate) fn new<S: TransportSet>(setup: &Setup<S>, check_at: u64) -> Self {
        let measure = setup.measure;
        let is_awaited = |flow: &&FlowSpec| must_end(flow) && measure.awaits(flow.start);
        let flows = setup.workload.flows.iter().filter(is_awaited).count() as u64;
        RunEnd {
            stop: setup.stop,
            awaited: flows + u64::from(measure.until.is_some()),
            continued: 0,
            flows_ended: 0,
            check_at,
        }
    }

    /// What a share of a run begins to count down from.
    const OF_SHARE: u64 = u64::MAX / 2;

    /// The end of a share of a run. Those who drive the shares decide when the run is over, by what
    /// `awaited` has fallen.
    pub(crate) fn of_share() -> Self {
        let stop = Stop { at: Instant::NEVER, when_done: false };
        RunEnd { stop, awaited: RunEnd::OF_SHARE, continued: 0, flows_ended: 0, check_at: u64::MAX }
    }

    /// How many of the awaited flows have ended in a share of a run.
    pub(crate) fn ended_in_share(&self) -> u64 {
        RunEnd::OF_SHARE - self.awaited
    }
}

/// A bit for each transport for which `is` holds.
pub(crate) fn transports_that<S>(transports: &[S], is: impl Fn(&S) -> bool) -> u64 {
    let bits = transports.iter().enumerate().filter(|(_, t)| is(t));
    bits.fold(0, |mask, (t, _)| mask | 1 << (t & 63))
}

/// Whether a run that stops when done waits for this flow.
pub(crate) fn must_end(flow: &FlowSpec) -> bool {
    !flow.background && flow.size != Bytes::ENDLESS
}
