//! Warnings about loads that make results easy to misread.

use super::{
    ArrivalTime, LinkLoad, Offer, OfferedLoad, Stretch, rate_bps, round_trip, traffic_name,
};
use crate::scenario::TierName;
use punctual_core::{Duration, PortId};
use punctual_net::{Network, Tier};
use punctual_workload::Arrivals;

/// Arrivals shorter than this many mean deadlines end before the load is steady. At a load above 1 a
/// queue shorter than this many deadlines does not make most flows late.
pub(super) const FEW_DEADLINES: u64 = 3;
/// Without deadlines, arrivals shorter than this many round trips end too early.
const FEW_ROUND_TRIPS: u64 = 10;
/// A load above 1 by fewer standard deviations than this may be due to chance.
const DEVIATIONS_MIN: f64 = 3.0;
/// A `poisson-load` above this is probably a mistake.
const LOAD_MAX: f64 = 1.5;

pub(super) fn add(
    load: &mut OfferedLoad,
    offers: &[Offer<'_>],
    stretches: &[Stretch],
    network: &Network,
) {
    load.warnings.extend(sampled_paths(network));
    for offer in offers {
        load.warnings.extend(improbable_load(offer));
    }
    load.overload =
        overloaded(offers, stretches, network).map(|(name, load)| LinkLoad { name, load });
    load.arrivals = offers.iter().map(arrivals_of).collect();
    if let Some(LinkLoad { name, load: times }) = &load.overload {
        load.warnings.push(format!(
            "offered load is {times:.2} at {name}: flows arrive faster than it can carry them, so \
             results depend on how long flows arrive"
        ));
    }
    for offer in offers {
        let short = shortness(offer, network);
        let warning = short.map(|s| format!("{s}: raise `stop`, `limit` or `run.duration`"));
        load.warnings.extend(warning);
    }
}

fn arrivals_of(offer: &Offer<'_>) -> ArrivalTime {
    let mean_deadline = mean_deadline(offer);
    ArrivalTime { traffic: traffic_name(offer), time: offer.to - offer.from, mean_deadline }
}

/// A warning if pairs of hosts have more shortest paths than routing keeps.
fn sampled_paths(network: &Network) -> Option<String> {
    let sampled = network.sampled_paths()?;
    let (pairs, kept, most) = (sampled.pairs, sampled.kept, sampled.most);
    Some(format!(
        "{pairs} pairs of hosts have more than {kept} shortest paths (up to {most}): each uses \
         {kept} of them, drawn at random"
    ))
}

/// A warning if `poisson-load` seems to be in per cent.
fn improbable_load(offer: &Offer<'_>) -> Option<String> {
    let Arrivals::PoissonLoad(load) = offer.spec.arrivals else { return None };
    if load <= LOAD_MAX {
        return None;
    }
    let meant = if load >= 10.0 { load / 100.0 } else { load / 10.0 };
    // Rounded, to hide binary fractions.
    let meant = (meant * 1e6).round() / 1e6;
    let name = traffic_name(offer);
    Some(format!(
        "{name}: poisson-load = {load} is {load} times the capacity of the senders' links; did you \
         mean {meant}?"
    ))
}

/// The link or tier whose load is above 1 by more than chance, and the load.
fn overloaded(
    offers: &[Offer<'_>],
    stretches: &[Stretch],
    network: &Network,
) -> Option<(String, f64)> {
    let is_above = |load: f64, variance: f64| load - 1.0 > DEVIATIONS_MIN * variance.sqrt();
    let mut most: Option<(String, f64)> = None;
    let mut consider = |load: f64, variance: f64, name: &dyn Fn() -> String| {
        if is_above(load, variance) && most.as_ref().is_none_or(|(_, known)| *known < load) {
            most = Some((name(), load));
        }
    };
    let ports = 0..network.links.len();
    for stretch in stretches {
        for port in ports.clone() {
            let rate = rate_bps(network, port);
            let name = || link_name(network, port);
            let load = stretch.rates[port] / rate;
            consider(load, stretch.variances[port] / (rate * rate), &name);
        }
    }
    if most.is_some() {
        return most;
    }
    // A single link may have too few flows to exclude chance; a whole tier has more.
    let mut consider = |tier: Tier, stretch: &Stretch| {
        let own = || ports.clone().filter(|port| network.links[*port].tier == tier);
        let sum = |of: &dyn Fn(usize) -> f64| own().map(of).sum::<f64>();
        let capacity = sum(&|port| rate_bps(network, port));
        let load = sum(&|port| stretch.rates[port]) / capacity;
        let own_variance = |offer: &usize| offers[*offer].tier_variance(network, tier);
        let variance = stretch.offers.iter().map(own_variance).sum::<f64>() / (capacity * capacity);
        if is_above(load, variance) && most.as_ref().is_none_or(|(_, known)| *known < load) {
            most = Some((format!("`{}` links on average", TierName::of(tier).name()), load));
        }
    };
    let mut tiers: Vec<Tier> = network.links.iter().map(|link| link.tier).collect();
    tiers.sort();
    tiers.dedup();
    for stretch in stretches {
        tiers.iter().for_each(|tier| consider(*tier, stretch));
    }
    most
}

/// The name of a link: a host's link is named by the host and the direction.
fn link_name(network: &Network, port: usize) -> String {
    let link = &network.links[port];
    let name = |node: punctual_core::NodeId| &network.names[node.index()];
    match (link.from.0 < network.hosts, link.to.0 < network.hosts) {
        (true, false) => format!("{} (sending)", name(link.from)),
        (false, true) => format!("{} (receiving)", name(link.to)),
        _ => network.port_name(PortId::from(port)),
    }
}

/// A warning if flows arrive for few deadlines or, without deadlines, for few round trips.
fn shortness(offer: &Offer<'_>, network: &Network) -> Option<String> {
    let time = offer.to - offer.from;
    let name = traffic_name(offer);
    let Some(mean) = mean_deadline(offer) else {
        let rtt = round_trip(network, &offer.flows);
        let is_short = time < rtt * FEW_ROUND_TRIPS;
        return is_short.then(|| {
            format!(
                "{name}: flows arrive for {} only, less than {FEW_ROUND_TRIPS} round trips of {}",
                rounded(time),
                rounded(rtt)
            )
        });
    };
    // Bursts further apart than their deadlines do not overlap.
    if let Arrivals::Periodic(every) = offer.spec.arrivals
        && every >= mean
    {
        return None;
    }
    (time < mean * FEW_DEADLINES).then(|| {
        format!(
            "{name}: flows arrive for {} only, less than {FEW_DEADLINES} deadlines of {}",
            rounded(time),
            rounded(mean)
        )
    })
}

/// The mean time from start to deadline of its flows that have a deadline.
fn mean_deadline(offer: &Offer<'_>) -> Option<Duration> {
    let deadlines = offer.flows.iter().filter_map(|flow| flow.deadline.map(|at| at - flow.start));
    let (sum, count) = deadlines.fold((0.0, 0u64), |(sum, n), d| (sum + d.as_secs_f64(), n + 1));
    (count > 0).then(|| Duration::from_secs_f64(sum / count as f64))
}

/// A time rounded to three digits.
pub(super) fn rounded(time: Duration) -> Duration {
    let picos = time.as_picos();
    let unit = 10u64.pow(picos.checked_ilog10().unwrap_or(0).saturating_sub(2));
    Duration::from_picos((picos + unit / 2) / unit * unit)
}
