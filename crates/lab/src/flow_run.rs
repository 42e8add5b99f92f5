//! Runs the flows of a scenario at flow level: a transport's model instead of its packets.

use crate::answers::Answers;
use crate::flow_paths::{FlowLinks, parts_of};
use crate::scenario::RunSection;
use crate::wire_cost::WireCost;
use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, CriticalOrder, Duration, FlowModel, FlowRoute, FlowSpec, Instant, PathUse, Rate, Sharing,
};
use punctual_fluid::{
    FluidError, LevelFlow, LevelSpan, LevelStatus, LevelWatch, PathTable, check_level, simulate,
};
use punctual_net::Network;
use punctual_sim::{FlowCounts, FlowRecord, FlowStatus, Measure, Outcome, Stop, Totals};

/// The flows, links and model of a run at flow level.
#[derive(Debug, Clone)]
pub struct FlowRunSetup {
    model: FlowModel,
    flows: Vec<FlowSpec>,
    level: Vec<LevelFlow>,
    paths: PathTable,
    capacities: Vec<Rate>,
    cost: WireCost,
    stop: Stop,
    measure: Measure,
}

impl FlowRunSetup {
    pub(crate) fn new(
        model: FlowModel,
        network: &Network,
        flows: Vec<FlowSpec>,
        run: &RunSection,
        seed: u64,
    ) -> Result<FlowRunSetup, FluidError> {
        let cost = WireCost {
            payload: model.payload.get().max(1),
            header: model.header.get(),
            framing: network.framing.get(),
        };
        let measure = run.measure();
        let mut links = FlowLinks::new(network);
        let mut paths = PathTable::default();
        let mut answers = Answers::new(&model, &cost);
        let stop = run.stop(&flows);
        let mut level = Vec::with_capacity(flows.len());
        for flow in &flows {
            let count = network.paths(flow.src, flow.dst);
            let route =
                FlowRoute::of(seed, flow.id, flow.src, flow.dst, count, network.nics_per_host());
            let own = links.paths(&route, model.paths);
            match links.has_parts(model.paths) {
                true => paths.push_spread(&parts_of(&own)),
                false => paths.push(own.iter().map(Vec::as_slice)),
            }
            let example = match model.paths {
                PathUse::Sprayed => links.ports(&route, route.ecmp_path),
                _ => own[0].clone(),
            };
            let Delays { rtt, data_rtt, tail } = delays(network, &example, &cost, flow.size);
            // The first link of a path is a NIC, or all NICs of the host as one link.
            let mut nics: Vec<u32> = own.iter().map(|path| path[0]).collect();
            nics.sort_unstable();
            nics.dedup();
            let rate_max = nics.iter().map(|nic| links.rate(*nic).as_bps()).sum();
            let rate_max = Rate::from_bps(rate_max);
            let size = cost.on_link(flow.size);
            // At most what the flow can send until the end of the run.
            let most = rate_max.bytes_in(stop.at.saturating_since(flow.start)).min(size);
            for path in &own {
                let bytes = most.get() as f64 / own.len() as f64;
                answers.add_data(path, bytes);
                answers.add_answers(&links.reverse(&route, path, model.paths), bytes);
            }
            level.push(LevelFlow {
                start: flow.start,
                size,
                deadline: flow.deadline,
                rtt,
                data_rtt,
                tail,
                rate_max,
                draw: draw(&model, &route),
                awaited: is_awaited(flow, measure),
            });
        }
        let mut capacities = links.into_rates();
        // Flows too: one that has a path to itself is as fast as its NIC, not limited by a link.
        let maxima = level.iter_mut().map(|flow| &mut flow.rate_max);
        answers.leave_for_data(capacities.iter_mut().chain(maxima));
        check_level(&level, &paths, &capacities)?;
        Ok(FlowRunSetup { model, flows, level, paths, capacities, cost, stop, measure })
    }

    /// The number of flows.
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Runs the flows. `watch` is called now and then with the time; `false` interrupts the run.
    ///
    /// # Panics
    /// Never: the flows were checked when the set-up was made.
    pub fn run(&self, watch: LevelWatch<'_>) -> Outcome {
        let Measure { from, until } = self.measure;
        let span = LevelSpan {
            until: self.stop.at,
            when_done_after: self.stop.when_done.then(|| until.unwrap_or(Instant::ZERO)),
            window: (from, until.unwrap_or(Instant::NEVER)),
        };
        let level = simulate(&self.model, &self.level, &self.paths, &self.capacities, span, watch)
            .expect("checked when the set-up was made");
        let ended_at = level.ended_at;
        let events = level.events;
        let totals = Totals { ended_at, events, measure: self.measure, ..Totals::default() };
        let interrupted = level.interrupted;
        let mut outcome = Outcome { totals, interrupted, ..Outcome::default() };
        // Flows are sorted by start: those that start after the end of the run come last.
        let started = self.flows.iter().take_while(|flow| flow.start <= ended_at);
        for (spec, end) in started.zip(&level.flows) {
            let status = match end.status {
                LevelStatus::Completed => FlowStatus::Completed,
                LevelStatus::Abandoned => FlowStatus::Abandoned,
                LevelStatus::Unfinished => FlowStatus::Unfinished,
            };
            let delivered = match status {
                FlowStatus::Completed => spec.size,
                _ => Bytes::new(self.cost.data_in(end.sent as u64, spec.size)),
            };
            // Whole bytes, to the nearest: a flow that was sent in the window counts in full.
            let within = libm::round(end.sent_in_window) as u64;
            let delivered_within = self.cost.data_in(within, spec.size);
            outcome.totals.delivered_bytes += delivered_within;
            outcome.totals.delivered_wire_bytes += self.cost.packets_in(within, spec.size);
            outcome.flows.push(FlowRecord {
                spec: *spec,
                status,
                ended: end.ended,
                delivered,
                retransmits: 0,
                retransmits_by: Default::default(),
                timeouts: 0,
                trims: 0,
                bounces: 0,
                in_window: FlowCounts {
                    delivered: Bytes::new(delivered_within),
                    ..FlowCounts::default()
                },
            });
        }
        outcome
    }
}

/// Whether a run that stops when all is done waits for a flow.
pub(crate) fn is_awaited(flow: &FlowSpec, measure: Measure) -> bool {
    let is_measured = measure.until.is_none() || measure.contains(flow.start);
    !flow.background && flow.size != Bytes::ENDLESS && is_measured
}

/// Delays of a flow on an idle path.
struct Delays {
    /// RTT of a header.
    rtt: Duration,
    /// RTT of a full packet and a header back.
    data_rtt: Duration,
    /// From the last bit on the slowest link to the last byte at the receiver: delays, and store
    /// and forward on the other links. A short last packet cannot overtake the full one before it.
    tail: Duration,
}

fn delays(network: &Network, path: &[u32], cost: &WireCost, size: Bytes) -> Delays {
    let header = Bytes::new(cost.header + cost.framing);
    let full = Bytes::new(cost.payload) + header;
    let last = if size.get() > cost.payload { full } else { cost.last_packet(size) };
    let (mut rtt, mut tail, mut slowest) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut data_rtt = Duration::ZERO;
    for port in path {
        let link = &network.links[*port as usize];
        let back = &network.links[link.twin.index()];
        let answer = link.delay + back.delay + back.rate.transmission_time(header);
        rtt += answer + link.rate.transmission_time(header);
        data_rtt += answer + link.rate.transmission_time(full);
        let forwarding = link.rate.transmission_time(last);
        tail += link.delay + forwarding;
        slowest = slowest.max(forwarding);
    }
    Delays { rtt, data_rtt, tail: tail - slowest }
}

/// The draw of random criticality: that of packets.
fn draw(model: &FlowModel, route: &FlowRoute) -> u32 {
    match model.sharing {
        Sharing::Critical { order: CriticalOrder::Random, .. } => {
            (Stream::from_seed(route.seed).bits() >> 32) as u32
        }
        _ => 0,
    }
}
