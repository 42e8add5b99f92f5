//! Event loop of the fluid model: rates change when a flow starts, ends or passes its deadline.

use crate::allocate::{Active, allocate};
use crate::{FluidFlow, Policy};
use punctual_core::{Bytes, Instant, Rate};

/// Units of rate per bit/s: rates are multiples of 1/720,720 bit/s.
pub(crate) const UNITS_PER_BPS: u128 = 720_720;
const PICOS_PER_SEC: u128 = 1_000_000_000_000;

/// A link's capacity in units of rate.
pub(crate) fn capacity_units(rate: Rate) -> u128 {
    u128::from(rate.as_bps()) * UNITS_PER_BPS
}

/// A size in units of work. One unit of rate moves one unit of work per picosecond.
pub(crate) fn work_units(size: Bytes) -> u128 {
    u128::from(size.get()) * 8 * PICOS_PER_SEC * UNITS_PER_BPS
}

/// Converts units of work to bytes, rounded down.
pub(crate) fn size_of(work: u128) -> Bytes {
    Bytes::new(u64::try_from(work / work_units(Bytes::new(1))).unwrap_or(u64::MAX))
}

/// The progress of a flow.
#[derive(Clone, Copy, Default)]
pub(crate) struct Progress {
    /// When it completed.
    pub(crate) finished: Option<Instant>,
    /// Work done.
    pub(crate) moved: u128,
}

/// Runs the flows until a time and returns the progress of each.
pub(crate) fn run(
    policy: Policy,
    flows: &[FluidFlow],
    capacities: &[Rate],
    until: Instant,
) -> Vec<Progress> {
    let capacities: Vec<u128> = capacities.iter().map(|rate| capacity_units(*rate)).collect();
    let mut arrivals: Vec<usize> = (0..flows.len()).collect();
    arrivals.sort_by_key(|&flow| flows[flow].start); // stable: equal starts stay in order
    let mut arrivals = arrivals.into_iter().peekable();
    let mut progress = vec![Progress::default(); flows.len()];
    // In order of arrival.
    let mut active: Vec<Active> = Vec::new();
    let mut now = 0u64;
    loop {
        while let Some(&next) = arrivals.peek()
            && flows[next].start.as_picos() <= now
        {
            arrivals.next();
            let flow = &flows[next];
            let left = (flow.size != Bytes::ENDLESS).then(|| work_units(flow.size));
            active.push(Active { index: next, flow, left, rate: 0 });
        }
        active.retain(|a| {
            if a.left == Some(0) {
                progress[a.index].finished = Some(Instant::from_picos(now));
            }
            a.left != Some(0)
        });
        let next_arrival = arrivals.peek().map(|&next| flows[next].start.as_picos());
        let is_endless = next_arrival.is_none() && active.iter().all(|a| a.left.is_none());
        if now >= until.as_picos() || (is_endless && (until == Instant::NEVER || active.is_empty()))
        {
            return progress;
        }
        allocate(policy, &mut active, &capacities, now);
        // A flow that would end after the largest instant never ends.
        let end = |a: &Active| {
            let picos = a.left?.checked_add(a.rate.checked_sub(1)?)? / a.rate;
            now.checked_add(u64::try_from(picos).ok()?)
        };
        let next_end = active.iter().filter_map(end).min();
        // Only reservations change when a deadline passes.
        let deadline = |a: &Active| Some(a.flow.deadline?.as_picos()).filter(|at| *at > now);
        let next_deadline = (policy == Policy::Reservation)
            .then(|| active.iter().filter_map(deadline).min())
            .flatten();
        let last = Some(until.as_picos()).filter(|_| until != Instant::NEVER);
        let events = [next_end, next_arrival, next_deadline, last];
        let Some(next) = events.into_iter().flatten().min() else {
            return progress;
        };
        let passed = u128::from(next - now);
        for a in &mut active {
            let moved = (a.rate * passed).min(a.left.unwrap_or(u128::MAX));
            a.left = a.left.map(|left| left - moved);
            progress[a.index].moved += moved;
        }
        now = next;
    }
}
