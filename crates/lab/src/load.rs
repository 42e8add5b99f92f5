//! Offered load of links: independent of the transport.
//!
//! load = bytes per second that flows bring to a link / rate of the link
//!
//! Bytes include the smallest headers of any transport and the framing of links. Above 1, flows
//! arrive faster than the link can carry them.
//!
//! For random arrivals the bytes per second are the expected ones (arrival rate × mean size), not
//! those of the flows that one seed drew: with heavy-tailed sizes a short run seldom draws its
//! mean. Three kinds of traffic have no load. Flows that all start together are a burst, which has
//! a size. Endless flows and closed loops send as fast as the network serves them.

mod routes;
mod warnings;

use crate::diagnostic::Diagnostic;
use crate::idle_network;
use crate::scenario::{Scenario, TierName};
use punctual_core::{Bytes, Duration, FlowSpec, HostId, Instant, PortId};
use punctual_net::{Network, Tier};
use punctual_sim::{LinkFault, Simulate};
use punctual_workload::{Arrivals, Pattern, TrafficSpec, Workload};
use routes::Spread;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The smallest headers of any transport: IP and TCP, 20 bytes each.
const HEADER_BYTES: u64 = 40;

/// The offered load of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OfferedLoad {
    /// The load of each tier on the flows' paths; empty if no traffic has a load.
    pub tiers: Vec<TierLoad>,
    /// The host with the highest load on the link from it.
    pub busiest_sender: Option<LinkLoad>,
    /// The host with the highest load on the link to it.
    pub busiest_receiver: Option<LinkLoad>,
    /// How long the busiest link takes to send the burst of flows that start together, in µs.
    pub burst_us: Option<f64>,
    /// Whether some traffic is endless or a closed loop: its load follows the capacity.
    pub follows_capacity: bool,
    /// Reasons why results of this scenario are easy to misread.
    pub warnings: Vec<String>,
    /// The link or tier that is offered more than it can carry, and its load.
    #[serde(skip)]
    overload: Option<LinkLoad>,
    /// For how long the flows of each traffic that has a load arrive.
    #[serde(skip)]
    arrivals: Vec<ArrivalTime>,
}

/// For how long the flows of one traffic arrive.
#[derive(Debug, Clone, PartialEq)]
struct ArrivalTime {
    /// Its name in messages.
    traffic: String,
    time: Duration,
    /// The mean time from start to deadline of its flows that have one.
    mean_deadline: Option<Duration>,
}

/// What a condition on results limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited {
    /// How many flows are late.
    Deadlines,
    /// Completion times: this is the threshold.
    Times(Duration),
    /// Something else.
    Other,
}

/// The load of the links of one tier.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TierLoad {
    /// Its name, as in `[[link]]`.
    pub tier: String,
    /// The load of all its links together.
    pub mean: f64,
    /// The link with the highest load.
    pub busiest: LinkLoad,
}

/// The load of one link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkLoad {
    /// The host, or the two ends of the link.
    pub name: String,
    /// Offered bits per second / rate.
    pub load: f64,
}

/// The flows of one `[[traffic]]` that has a load.
struct Offer<'a> {
    traffic: usize,
    spec: &'a TrafficSpec,
    flows: Vec<&'a FlowSpec>,
    from: Instant,
    to: Instant,
    /// Bits per second that it brings to each port.
    rates: Vec<f64>,
    /// The variance of `rates`, because the hosts of a random pattern are drawn.
    ///
    /// variance = n p (1 − p) × (rate of a flow)², for n flows that each pass the port with
    /// probability p. It is zero if arrivals are not random, and at a port that every flow passes.
    variances: Vec<f64>,
    /// Expected bits per second of one flow; none if arrivals are not random.
    flow_rate: Option<f64>,
}

impl Offer<'_> {
    /// The variance of the bits per second at all ports of a tier together.
    ///
    /// variance = n p (1 − p) × (rate of a flow)², for n flows that each pass the tier with
    /// probability p. It is zero for a tier that every flow passes.
    fn tier_variance(&self, network: &Network, tier: Tier) -> f64 {
        let Some(flow_rate) = self.flow_rate else { return 0.0 };
        let ports = (0..network.links.len()).filter(|p| network.links[*p].tier == tier);
        let passes = ports.map(|port| self.rates[port]).sum::<f64>() / flow_rate;
        let share = (passes / self.flows.len() as f64).min(1.0);
        passes * (1.0 - share) * flow_rate * flow_rate
    }
}

/// The offered rates of ports during a period in which the set of arriving traffic is constant.
struct Stretch {
    rates: Vec<f64>,
    variances: Vec<f64>,
    /// Indices of the offers that arrive in it.
    offers: Vec<usize>,
}

impl<S: Simulate> Scenario<S> {
    /// The offered load of the run with this seed.
    pub fn offered_load(&self, seed: u64) -> Result<OfferedLoad, Diagnostic> {
        if seed == self.run.seed {
            return Ok(self.first_load.clone());
        }
        let workload = self.workload(&[], seed)?;
        Ok(of(self, &workload))
    }
}

/// The offered load of a workload.
pub(crate) fn of<S: Simulate>(scenario: &Scenario<S>, workload: &Workload) -> OfferedLoad {
    let network = &*network_at_start(scenario);
    let mut load = OfferedLoad::default();
    let mut offers = Vec::new();
    let mut burst = vec![0.0; network.links.len()];
    let mut spread = Spread::new(network);
    for (traffic, section) in scenario.traffic.iter().enumerate() {
        let flows = workload.flows.iter().filter(|flow| usize::from(flow.pattern) == traffic);
        let flows: Vec<&FlowSpec> = flows.collect();
        let is_loop = workload.closed_loops.get(traffic).is_some_and(Option::is_some);
        if is_loop || flows.iter().any(|flow| flow.size == Bytes::ENDLESS) {
            load.follows_capacity = true;
            continue;
        }
        let Some((from, to)) = arrivals(&section.spec, &flows, scenario) else {
            spread.add(&flows, |flow| wire_bits(network, flow.size), &mut burst);
            continue;
        };
        let time = (to - from).as_secs_f64();
        let mut offer = Offer {
            traffic,
            spec: &section.spec,
            flows,
            from,
            to,
            rates: vec![0.0; network.links.len()],
            variances: vec![0.0; network.links.len()],
            flow_rate: None,
        };
        let arrival_rate = workload.arrival_rates.get(traffic).copied().flatten();
        let mean_size = section.spec.sizes.mean();
        match arrival_rate.zip(mean_size) {
            Some((flows_per_second, mean_size)) => {
                let flows = &offer.flows;
                let bits = flows.iter().map(|flow| wire_bits(network, flow.size)).sum::<f64>();
                let bytes = flows.iter().map(|flow| flow.size.get() as f64).sum::<f64>();
                let bits_per_flow = mean_size * bits / bytes.max(1.0);
                let rate = flows_per_second * bits_per_flow / flows.len() as f64;
                offer.flow_rate = Some(rate);
                spread.add(flows, |_| rate, &mut offer.rates);
                let all = rate * flows.len() as f64;
                let variance = |own: &f64| own * rate * (1.0 - own / all).max(0.0);
                offer.variances = offer.rates.iter().map(variance).collect();
            }
            None => {
                let rate = |flow: &FlowSpec| wire_bits(network, flow.size) / time;
                spread.add(&offer.flows, rate, &mut offer.rates);
            }
        }
        offers.push(offer);
    }
    let longest = (0..burst.len()).map(|p| burst[p] / rate_bps(network, p)).fold(0.0, f64::max);
    load.burst_us = (longest > 0.0).then_some(longest * 1e6);
    let stretches = stretches(&offers, network);
    load.tiers = tiers(&stretches, network);
    let busiest = |tier, name: fn(&Network, usize) -> String| {
        busiest_link(&stretches, network, tier)
            .map(|(port, load)| LinkLoad { name: name(network, port), load })
    };
    let sender = |network: &Network, p: usize| network.names[network.links[p].from.index()].clone();
    let receiver = |network: &Network, p: usize| network.names[network.links[p].to.index()].clone();
    load.busiest_sender = busiest(Tier::HostUp, sender);
    load.busiest_receiver = busiest_receiver(&stretches, network)
        .map(|(port, load)| LinkLoad { name: receiver(network, port), load });
    warnings::add(&mut load, &offers, &stretches, network);
    load
}

/// The network with the rates that its links have from the start: a `[[link]]` without `at` is a
/// slower link, not an event.
fn network_at_start<S: Simulate>(scenario: &Scenario<S>) -> Cow<'_, Network> {
    let mut network = Cow::Borrowed(&scenario.network);
    for change in scenario.link_changes.iter().filter(|change| change.at == Instant::ZERO) {
        if let LinkFault::Rate(rate) = change.what {
            network.to_mut().links[change.port.index()].rate = rate;
        }
    }
    network
}

/// Bits that a flow of this size puts on a link, with headers and framing.
fn wire_bits(network: &Network, size: Bytes) -> f64 {
    let payload = network.mtu.get().saturating_sub(HEADER_BYTES).max(1);
    let packets = size.get().div_ceil(payload);
    (size.get() as f64 + packets as f64 * (HEADER_BYTES + network.framing.get()) as f64) * 8.0
}

fn rate_bps(network: &Network, port: usize) -> f64 {
    (network.links[port].rate.as_bps() as f64).max(1.0)
}

/// The first and last time at which flows arrive; none if all start together.
fn arrivals<S: Simulate>(
    spec: &TrafficSpec,
    flows: &[&FlowSpec],
    scenario: &Scenario<S>,
) -> Option<(Instant, Instant)> {
    let (first, last) = (flows.first()?.start, flows.last()?.start);
    let end = Instant::ZERO + scenario.run.duration;
    let until = spec.stop.map_or(end, |stop| stop.min(end));
    let is_cut = spec.limit.is_some_and(|limit| flows.len() as u64 >= limit);
    let (from, to) = match (&spec.pattern, spec.arrivals) {
        // n flows have n − 1 gaps. One more mean gap makes the time n times the mean gap.
        (Pattern::Listed(_), _) => {
            let gap = (last - first) / (flows.len() as u64 - 1).max(1);
            (first, last + gap)
        }
        (_, Arrivals::Together) => return None,
        (_, Arrivals::Periodic(every)) => {
            let bursts = (last - spec.start).as_picos() / every.as_picos().max(1);
            if bursts == 0 {
                return None;
            }
            (spec.start, spec.start + every * (bursts + 1))
        }
        _ if is_cut => (spec.start, last),
        _ => (spec.start, until),
    };
    (to > from).then_some((from, to))
}

/// The periods between the times at which some traffic begins or ends.
fn stretches(offers: &[Offer<'_>], network: &Network) -> Vec<Stretch> {
    let mut edges: Vec<Instant> = offers.iter().flat_map(|o| [o.from, o.to]).collect();
    edges.sort();
    edges.dedup();
    let active =
        |at: Instant| offers.iter().enumerate().filter(move |(_, o)| o.from <= at && at < o.to);
    let mut stretches = Vec::new();
    for from in edges {
        if active(from).next().is_none() {
            continue;
        }
        let none = vec![0.0; network.links.len()];
        let mut stretch = Stretch { rates: none.clone(), variances: none, offers: Vec::new() };
        for (index, offer) in active(from) {
            stretch.offers.push(index);
            for port in 0..network.links.len() {
                stretch.rates[port] += offer.rates[port];
                stretch.variances[port] += offer.variances[port];
            }
        }
        stretches.push(stretch);
    }
    stretches
}

/// The load of each tier in its busiest period, in the order from senders to receivers.
fn tiers(stretches: &[Stretch], network: &Network) -> Vec<TierLoad> {
    let mut tiers: Vec<Tier> = network.links.iter().map(|link| link.tier).collect();
    tiers.sort();
    tiers.dedup();
    let mean = |tier: Tier| {
        let ports = || (0..network.links.len()).filter(|p| network.links[*p].tier == tier);
        let capacity: f64 = ports().map(|p| rate_bps(network, p)).sum();
        let of = |stretch: &Stretch| ports().map(|p| stretch.rates[p]).sum::<f64>() / capacity;
        stretches.iter().map(of).fold(0.0, f64::max)
    };
    let load = |tier: Tier| {
        let (port, load) = busiest_link(stretches, network, tier)?;
        let name = network.port_name(PortId::from(port));
        let tier_name = TierName::of(tier).name().to_owned();
        Some(TierLoad { tier: tier_name, mean: mean(tier), busiest: LinkLoad { name, load } })
    };
    tiers.into_iter().filter_map(load).collect()
}

fn busiest_link(stretches: &[Stretch], network: &Network, tier: Tier) -> Option<(usize, f64)> {
    busiest(stretches, network, |port| network.links[port].tier == tier)
}

/// The link to a host with the highest load. Without a switch between two hosts it is in the
/// sender's tier, so the tier does not identify it.
fn busiest_receiver(stretches: &[Stretch], network: &Network) -> Option<(usize, f64)> {
    busiest(stretches, network, |port| network.links[port].to.0 < network.hosts)
}

fn busiest(
    stretches: &[Stretch],
    network: &Network,
    among: impl Fn(usize) -> bool,
) -> Option<(usize, f64)> {
    let loads = stretches.iter().flat_map(|stretch| {
        let load = |(port, rate): (usize, &f64)| (port, rate / rate_bps(network, port));
        stretch.rates.iter().enumerate().map(load)
    });
    let own = loads.filter(|(port, load)| *load > 0.0 && among(*port));
    own.fold(None, |most: Option<(usize, f64)>, (port, load)| match most {
        Some((_, greatest)) if greatest >= load => most,
        _ => Some((port, load)),
    })
}

impl OfferedLoad {
    /// Why a condition that holds here may fail if flows arrive for longer; none at loads up to 1.
    ///
    /// At a load above 1 the queue of the link grows as long as flows arrive:
    ///
    /// queue = (load − 1) × time
    ///
    /// in units of the time that the link needs for it. Flows wait for the queue, so that most are
    /// late, or take longer than a threshold, once it is several times as long. Whether they are
    /// is known only if flows arrived for that long. A condition on anything else has no such time.
    pub fn doubt(&self, limited: Limited) -> Option<String> {
        let LinkLoad { name, load } = self.overload.as_ref()?;
        let above = format!("offered load is {load:.2} at {name}");
        let few = warnings::FEW_DEADLINES;
        self.arrivals.iter().find_map(|arrivals| {
            let (most, words) = match limited {
                Limited::Deadlines => (arrivals.mean_deadline?, "deadlines of"),
                Limited::Times(threshold) => (threshold, "times"),
                Limited::Other => {
                    return Some(format!("{above}: its queue grows as long as flows arrive"));
                }
            };
            let queue = arrivals.time.mul_f64(load - 1.0);
            (queue < most * few).then(|| {
                let [time, queue, most] = [arrivals.time, queue, most].map(warnings::rounded);
                let traffic = &arrivals.traffic;
                format!(
                    "{above}, but {traffic} arrives for {time} only: the queue grows to {queue}, \
                     less than {few} {words} {most}"
                )
            })
        })
    }
}

/// A time rounded to three digits.
fn three_digits(nanos: u64) -> Duration {
    let unit = 10u64.pow(nanos.max(1).ilog10().saturating_sub(2));
    Duration::from_nanos((nanos + unit / 2) / unit * unit)
}

impl std::fmt::Display for OfferedLoad {
    /// One line: `host-up 0.60, host-down 0.60; busiest host: 3 sends 0.71, 5 receives 0.83`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        if !self.tiers.is_empty() {
            let tier = |t: &TierLoad| format!("{} {:.2}", t.tier, t.mean);
            parts.push(self.tiers.iter().map(tier).collect::<Vec<_>>().join(", "));
            let host = |host: &Option<LinkLoad>, does: &str| {
                host.as_ref().map(|l| format!("{} {does} {:.2}", l.name, l.load))
            };
            let busiest =
                [host(&self.busiest_sender, "sends"), host(&self.busiest_receiver, "receives")];
            let busiest: Vec<String> = busiest.into_iter().flatten().collect();
            parts.push(format!("busiest: {}", busiest.join(", ")));
        }
        if let Some(us) = self.burst_us {
            let time = three_digits((us * 1e3) as u64);
            parts.push(format!("a burst that takes its busiest link {time}"));
        }
        if self.follows_capacity {
            parts.push("endless flows or closed loops, whose load follows the capacity".into());
        }
        if parts.is_empty() {
            parts.push("none".into());
        }
        f.write_str(&parts.join("; "))
    }
}

/// The longest round trip between the ends of these flows, with empty queues.
fn round_trip(network: &Network, flows: &[&FlowSpec]) -> Duration {
    const PAIRS_MAX: usize = 256;
    let mut pairs: BTreeMap<(HostId, HostId), ()> = BTreeMap::new();
    for flow in flows {
        if pairs.len() < PAIRS_MAX {
            pairs.insert((flow.src, flow.dst), ());
        }
    }
    let header = Bytes::new(HEADER_BYTES);
    let time = |(src, dst)| {
        idle_network::completion_time(network, src, dst, network.mtu)
            + idle_network::completion_time(network, dst, src, header)
    };
    pairs.into_keys().map(time).max().unwrap_or(Duration::ZERO)
}

/// The name of a traffic in messages: its `name`, or its position in the file, from 1.
fn traffic_name(offer: &Offer<'_>) -> String {
    match &offer.spec.name {
        Some(name) => format!("traffic `{name}`"),
        None => format!("traffic {}", offer.traffic + 1),
    }
}
