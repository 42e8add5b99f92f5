//! Runs an ideal scheduler on a scenario's network and flows, in the place of a transport.
//!
//! No transport can do better than the optimum, because the scheduler pays no more than any of
//! them. It pays for each flow's bytes, for the smallest headers of any transport on packets that
//! fill the MTU, and for the framing of links. It pays nothing for propagation, processing, store
//! and forward, or start-up.

use crate::flow_paths::FlowLinks;
use crate::flow_run::is_awaited;
use crate::scenario::RunSection;
use crate::wire_cost::WireCost;
use punctual_core::{Bytes, Duration, FlowSpec, Instant, Rate};
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
    cost: WireCost,
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
        let cost = WireCost {
            payload: network.mtu.get().saturating_sub(HEADERS).max(1),
            header: HEADERS,
            framing: network.framing.get(),
        };
        // Results do not depend on how a transport chooses paths: each flow takes all.
        let mut links = FlowLinks::new(network);
        let mut used: BTreeMap<u32, usize> = BTreeMap::new();
        let mut fluid = Vec::with_capacity(flows.len());
        for (i, flow) in flows.iter().enumerate() {
            let path = links.sprayed(flow.src, flow.dst);
            fluid.push(FluidFlow {
                id: i as u64,
                start: flow.start,
                size: cost.on_link(flow.size),
                deadline: flow.deadline,
                path: path
                    .into_iter()
                    .map(|link| {
                        let next = used.len();
                        *used.entry(link).or_insert(next)
                    })
                    .collect(),
            });
        }
        let rates = links.into_rates();
        let mut capacities = vec![Rate::ZERO; used.len()];
        used.iter().for_each(|(link, index)| capacities[*index] = rates[*link as usize]);
        punctual_fluid::check(&fluid, &capacities)?;
        let (stop, measure) = (run.stop(&flows), run.measure());
        Ok(IdealSetup { policy, flows, fluid, capacities, cost, stop, measure })
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
                (_, Some(moved)) => Bytes::new(self.cost.data_in(moved[i].get(), spec.size)),
                (_, None) => Bytes::ZERO,
            };
            let mut in_window = FlowCounts::default();
            if let (Some(before), Some(moved)) = (&before, &within) {
                let since = |part: &dyn Fn(u64) -> u64| {
                    part(moved[i].get()).saturating_sub(part(before[i].get()))
                };
                let data = since(&|moved| self.cost.data_in(moved, spec.size));
                in_window.delivered = Bytes::new(data);
                outcome.totals.delivered_bytes += data;
                outcome.totals.delivered_wire_bytes +=
                    since(&|moved| self.cost.packets_in(moved, spec.size));
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
        let awaited = |flow| is_awaited(flow, self.measure);
        let ends = (0..self.flows.len()).filter(|i| awaited(&self.flows[*i]));
        let last = ends.map(|i| done(i).unwrap_or(Instant::NEVER)).max();
        last.unwrap_or(Instant::ZERO).max(until.unwrap_or(Instant::ZERO)).min(self.stop.at)
    }
}
