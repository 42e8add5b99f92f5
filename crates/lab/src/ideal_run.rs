//! Runs an ideal scheduler on a scenario's network and flows, in the place of a transport.
//!
//! No transport can do better than the optimum, because the scheduler pays no more than any of
//! them. It pays for each flow's bytes, for the smallest headers of any transport on packets that
//! fill the MTU, and for the framing of links. It pays nothing for propagation, processing, store
//! and forward, or start-up.

use crate::idle_network::route_by;
use crate::scenario::RunSection;
use punctual_core::{Bytes, Duration, FlowSpec, HostId, Instant, PortId, Rate};
use punctual_fluid::{FluidError, FluidFlow, Policy, is_exact, moved_by, schedule};
use punctual_net::Network;
use punctual_results::RunKind;
use punctual_sim::{FlowCounts, FlowRecord, FlowStatus, Measure, Outcome, Stop, Totals};
use std::collections::BTreeMap;

/// The smallest headers of any transport: IP and TCP, 20 bytes each.
const HEADERS: u64 = 40;

/// The flows, links and policy of an ideal run.
#[derive(Debug, Clone)]
pub struct IdealSetup {
    policy: Policy,
    flows: Vec<FlowSpec>,
    fluid: Vec<FluidFlow>,
    capacities: Vec<Rate>,
    mtu: Bytes,
    framing: Bytes,
    stop: Stop,
    measure: Measure,
}

/// The result of an ideal run.
#[derive(Debug, Clone)]
pub struct IdealRun {
    /// The outcome in the form of a simulation's. A bound has flow records and no byte counts.
    pub outcome: Outcome,
    /// Whether the numbers are an optimum, a bound, or those of another ideal policy.
    pub kind: RunKind,
}

impl IdealSetup {
    pub(crate) fn new(
        policy: Policy,
        network: &Network,
        flows: Vec<FlowSpec>,
        run: &RunSection,
    ) -> Result<IdealSetup, FluidError> {
        let mut links = FluidLinks { network, ids: BTreeMap::new(), paths: BTreeMap::new() };
        let mut setup = IdealSetup {
            policy,
            fluid: Vec::with_capacity(flows.len()),
            flows: Vec::new(),
            capacities: Vec::new(),
            mtu: network.mtu,
            framing: network.framing,
            stop: run.stop(),
            measure: run.measure(),
        };
        for (i, flow) in flows.iter().enumerate() {
            setup.fluid.push(FluidFlow {
                id: i as u64,
                start: flow.start,
                size: setup.wire_size(flow.size, HEADERS + network.framing.get()),
                deadline: flow.deadline,
                path: links.path(flow.src, flow.dst, &mut setup.capacities),
            });
        }
        setup.flows = flows;
        punctual_fluid::check(&setup.fluid, &setup.capacities)?;
        Ok(setup)
    }

    /// The number of flows.
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Whether the numbers are an optimum, a bound, or those of another ideal policy.
    pub fn kind(&self) -> RunKind {
        match self.policy {
            Policy::Optimal if is_exact(&self.fluid, &self.capacities) => RunKind::Optimum,
            Policy::Optimal => RunKind::Bound,
            _ => RunKind::Ideal,
        }
    }

    /// The bytes of a flow of `size`, plus `extra` bytes per packet.
    fn wire_size(&self, size: Bytes, extra: u64) -> Bytes {
        if size == Bytes::ENDLESS {
            return size;
        }
        let packets = size.get().div_ceil(self.payload());
        Bytes::new(size.get().saturating_add(packets.saturating_mul(extra)))
    }

    fn payload(&self) -> u64 {
        self.mtu.get().saturating_sub(HEADERS).max(1)
    }

    /// The completion time of a flow that has the network to itself; none for an endless flow.
    pub fn time_alone(&self, flow: &FlowSpec) -> Option<Duration> {
        let fluid = self.fluid.get(flow.id.index())?;
        let slowest = fluid.path.iter().map(|link| self.capacities[*link]).min()?;
        (fluid.size != Bytes::ENDLESS).then(|| slowest.transmission_time(fluid.size))
    }

    /// Runs the scheduler.
    pub fn run(&self) -> IdealRun {
        const CHECKED: &str = "checked when the set-up was made";
        let kind = self.kind();
        let results = schedule(self.policy, &self.fluid, &self.capacities).expect(CHECKED);
        let is_late = |i: usize| kind == RunKind::Bound && results[i].met == Some(false);
        let ended_at =
            self.end(|i| if is_late(i) { Some(Instant::ZERO) } else { results[i].finished });
        let moved =
            |until| moved_by(self.policy, &self.fluid, &self.capacities, until).expect(CHECKED);
        let Measure { from, until } = self.measure;
        let by_the_end = moved(ended_at);
        let before = moved(from.min(ended_at));
        let within = moved(until.unwrap_or(ended_at).min(ended_at));
        let totals = Totals { ended_at, measure: self.measure, ..Totals::default() };
        let mut outcome = Outcome { totals, ..Outcome::default() };
        // Flows are sorted by start: those that start after the end of the run come last.
        let started = self.flows.iter().take_while(|flow| flow.start <= ended_at);
        for (i, spec) in started.enumerate() {
            let finished = results[i].finished.filter(|at| *at <= ended_at);
            let status = match finished {
                _ if is_late(i) => FlowStatus::Abandoned,
                Some(_) => FlowStatus::Completed,
                None => FlowStatus::Unfinished,
            };
            let delivered = match (status, &by_the_end) {
                (FlowStatus::Completed, _) => spec.size,
                (_, Some(moved)) => Bytes::new(self.part(moved[i], i, 0)),
                (_, None) => Bytes::ZERO,
            };
            let mut in_window = FlowCounts::default();
            if let (Some(before), Some(moved)) = (&before, &within) {
                let part = |moved, extra| self.part(moved, i, extra);
                let since = |extra| part(moved[i], extra).saturating_sub(part(before[i], extra));
                in_window.delivered = Bytes::new(since(0));
                outcome.totals.delivered_bytes += since(0);
                outcome.totals.delivered_wire_bytes += since(HEADERS);
            }
            outcome.flows.push(FlowRecord {
                spec: *spec,
                status,
                ended: finished.filter(|_| status == FlowStatus::Completed),
                delivered,
                retransmits: 0,
                retransmits_by: Default::default(),
                timeouts: 0,
                trims: 0,
                bounces: 0,
                in_window,
            });
        }
        IdealRun { outcome, kind }
    }

    /// When the run ends, by the rules of a simulation. `done` is the time at which a flow ends.
    fn end(&self, done: impl Fn(usize) -> Option<Instant>) -> Instant {
        if !self.stop.when_done {
            return self.stop.at;
        }
        let Measure { until, .. } = self.measure;
        let awaited = |flow: &FlowSpec| {
            let is_measured = until.is_none() || self.measure.contains(flow.start);
            !flow.background && flow.size != Bytes::ENDLESS && is_measured
        };
        let ends = (0..self.flows.len()).filter(|i| awaited(&self.flows[*i]));
        let last = ends.map(|i| done(i).unwrap_or(Instant::NEVER)).max();
        last.unwrap_or(Instant::ZERO).max(until.unwrap_or(Instant::ZERO)).min(self.stop.at)
    }

    /// The share of `moved` wire bytes that is payload plus `extra` bytes per packet.
    fn part(&self, moved: Bytes, flow: usize, extra: u64) -> u64 {
        let size = self.flows[flow].size;
        let (part, whole) = if size == Bytes::ENDLESS {
            (self.payload() + extra, self.payload() + HEADERS + self.framing.get())
        } else {
            (self.wire_size(size, extra).get(), self.fluid[flow].size.get().max(1))
        };
        (u128::from(moved.get()) * u128::from(part) / u128::from(whole)) as u64
    }
}

/// The links of an ideal network. At each hop, the ports of all equal-cost paths form one link with
/// the sum of their rates, so results do not depend on how a transport chooses paths.
struct FluidLinks<'a> {
    network: &'a Network,
    /// The index of each link, by its ports.
    ids: BTreeMap<Vec<PortId>, usize>,
    paths: BTreeMap<(HostId, HostId), Vec<usize>>,
}

impl FluidLinks<'_> {
    /// The links between two hosts. Adds the capacity of each new link to `capacities`.
    fn path(&mut self, src: HostId, dst: HostId, capacities: &mut Vec<Rate>) -> Vec<usize> {
        if let Some(path) = self.paths.get(&(src, dst)) {
            return path.clone();
        }
        let mut hops: Vec<Vec<PortId>> = Vec::new();
        for path in 0..self.network.paths(src, dst) {
            for (hop, port) in route_by(self.network, src, dst, path).into_iter().enumerate() {
                if hops.len() <= hop {
                    hops.push(Vec::new());
                }
                hops[hop].push(port);
            }
        }
        let mut path = Vec::with_capacity(hops.len());
        for mut ports in hops {
            ports.sort_unstable();
            ports.dedup();
            let rate: u64 = ports.iter().map(|port| self.network.link(*port).rate.as_bps()).sum();
            let next = self.ids.len();
            let link = *self.ids.entry(ports).or_insert(next);
            if link == next {
                capacities.push(Rate::from_bps(rate));
            }
            if !path.contains(&link) {
                path.push(link);
            }
        }
        self.paths.insert((src, dst), path.clone());
        path
    }
}
