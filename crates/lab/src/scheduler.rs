//! An ideal scheduler on a scenario's network and flows, as if it were a transport.
//!
//! What it is charged, so that no transport can do better than the optimum: each flow's bytes with
//! the least headers that any transport has, cut into the largest packets, and what links add to
//! each. What it is not charged: delays, processing, store and forward, and start-up.

use crate::ideal::route_by;
use crate::scenario::RunSection;
use punctual_core::{Bytes, Duration, FlowSpec, HostId, Instant, PortId, Rate};
use punctual_fluid::{FluidError, FluidFlow, Policy, is_exact, moved_by, schedule};
use punctual_net::Network;
use punctual_results::RunKind;
use punctual_sim::{FlowCounts, FlowRecord, FlowStatus, Measure, Outcome, Stop, Totals};
use std::collections::BTreeMap;

/// The least headers that a packet of any transport has: IP and TCP, 20 bytes each.
const HEADERS: u64 = 40;

/// Everything that an ideal run depends on.
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

/// What an ideal run gives.
#[derive(Debug, Clone)]
pub struct IdealRun {
    /// As of a simulation. A bound has nothing but the flows.
    pub outcome: Outcome,
    /// What stands behind the numbers.
    pub kind: RunKind,
}

impl IdealSetup {
    pub(crate) fn new(
        policy: Policy,
        network: &Network,
        flows: Vec<FlowSpec>,
        run: &RunSection,
    ) -> Result<IdealSetup, FluidError> {
        let mut ways = Ways { network, links: BTreeMap::new(), known: BTreeMap::new() };
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
                size: setup.on_the_wire(flow.size, HEADERS + network.framing.get()),
                deadline: flow.deadline,
                path: ways.between(flow.src, flow.dst, &mut setup.capacities),
            });
        }
        setup.flows = flows;
        punctual_fluid::check(&setup.fluid, &setup.capacities)?;
        Ok(setup)
    }

    /// How many flows there are.
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// What stands behind its numbers.
    pub fn kind(&self) -> RunKind {
        match self.policy {
            Policy::Optimal if is_exact(&self.fluid, &self.capacities) => RunKind::Optimum,
            Policy::Optimal => RunKind::Bound,
            _ => RunKind::Ideal,
        }
    }

    /// A flow's bytes with so many more for each packet.
    fn on_the_wire(&self, size: Bytes, extra: u64) -> Bytes {
        if size == Bytes::ENDLESS {
            return size;
        }
        let packets = size.get().div_ceil(self.payload());
        Bytes::new(size.get().saturating_add(packets.saturating_mul(extra)))
    }

    fn payload(&self) -> u64 {
        self.mtu.get().saturating_sub(HEADERS).max(1)
    }

    /// What the flow would take alone.
    pub fn alone(&self, flow: &FlowSpec) -> Option<Duration> {
        let fluid = self.fluid.get(flow.id.index())?;
        let slowest = fluid.path.iter().map(|link| self.capacities[*link]).min()?;
        (fluid.size != Bytes::ENDLESS).then(|| slowest.transmission_time(fluid.size))
    }

    /// Runs it.
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
        // By start, so that those which the run did not come to are the last.
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

    /// When the run ends: as a simulation's, by when each flow is done.
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

    /// The part of `moved` that is data and so many bytes more for each packet.
    fn part(&self, moved: Bytes, flow: usize, extra: u64) -> u64 {
        let size = self.flows[flow].size;
        let (part, whole) = if size == Bytes::ENDLESS {
            (self.payload() + extra, self.payload() + HEADERS + self.framing.get())
        } else {
            (self.on_the_wire(size, extra).get(), self.fluid[flow].size.get().max(1))
        };
        (u128::from(moved.get()) * u128::from(part) / u128::from(whole)) as u64
    }
}

/// The links of an ideal network: where several paths are equal, their ports at each hop count as
/// one link of their rates together, so that the paths a transport happens to take do not matter.
struct Ways<'a> {
    network: &'a Network,
    links: BTreeMap<Vec<PortId>, usize>,
    known: BTreeMap<(HostId, HostId), Vec<usize>>,
}

impl Ways<'_> {
    fn between(&mut self, src: HostId, dst: HostId, capacities: &mut Vec<Rate>) -> Vec<usize> {
        if let Some(path) = self.known.get(&(src, dst)) {
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
            let next = self.links.len();
            let link = *self.links.entry(ports).or_insert(next);
            if link == next {
                capacities.push(Rate::from_bps(rate));
            }
            if !path.contains(&link) {
                path.push(link);
            }
        }
        self.known.insert((src, dst), path.clone());
        path
    }
}
