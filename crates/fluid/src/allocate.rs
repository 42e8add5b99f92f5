//! Who gets what rate, as of one instant.

use crate::{FluidFlow, Policy};

/// A flow that has started and is not done.
pub(crate) struct Active<'a> {
    pub(crate) index: usize,
    pub(crate) flow: &'a FluidFlow,
    /// Work left; none for an endless flow.
    pub(crate) left: Option<u128>,
    /// Its rate from now on.
    pub(crate) rate: u128,
}

/// Sets the rate of each. `active` is in order of arrival.
pub(crate) fn allocate(policy: Policy, active: &mut [Active<'_>], capacities: &[u128], now: u64) {
    match policy {
        Policy::FairShare => fair(active, capacities),
        Policy::Edf => greedy(active, capacities, |a| {
            (a.flow.deadline.map_or(u64::MAX, |at| at.as_picos()), left(a), a.flow.id)
        }),
        Policy::Sjf => greedy(active, capacities, |a| (0, left(a), a.flow.id)),
        Policy::Reservation => reserve(active, capacities, now),
        Policy::Optimal => unreachable!("the optimum is not made from event to event"),
    }
}

fn left(a: &Active<'_>) -> u128 {
    a.left.unwrap_or(u128::MAX)
}

/// What a path has to spare.
fn spare(flow: &FluidFlow, residual: &[u128]) -> u128 {
    flow.path.iter().map(|link| residual[*link]).min().unwrap_or(0)
}

fn take(flow: &FluidFlow, rate: u128, residual: &mut [u128]) {
    for link in &flow.path {
        residual[*link] -= rate;
    }
}

/// In this order each takes all that its path has to spare.
fn greedy<K: Ord>(active: &mut [Active<'_>], capacities: &[u128], key: impl Fn(&Active<'_>) -> K) {
    let mut order: Vec<usize> = (0..active.len()).collect();
    order.sort_by_key(|&i| key(&active[i]));
    let mut residual = capacities.to_vec();
    for i in order {
        let rate = spare(active[i].flow, &residual);
        take(active[i].flow, rate, &mut residual);
        active[i].rate = rate;
    }
}

/// Max-min: the link with the least for each of its flows decides for them, then the next.
fn fair(active: &mut [Active<'_>], capacities: &[u128]) {
    let mut residual = capacities.to_vec();
    for a in &mut *active {
        a.rate = 0;
    }
    share_equally(active, &mut residual);
}

/// Gives what is left of each link to the flows on it, max-min, on top of what they have.
fn share_equally(active: &mut [Active<'_>], residual: &mut [u128]) {
    let mut counts = vec![0u128; residual.len()];
    let mut on_link: Vec<Vec<usize>> = vec![Vec::new(); residual.len()];
    for (i, a) in active.iter().enumerate() {
        for &link in &a.flow.path {
            counts[link] += 1;
            on_link[link].push(i);
        }
    }
    let mut is_open = vec![true; active.len()];
    loop {
        let share_of = |link: usize| residual[link].checked_div(counts[link]);
        let links = (0..residual.len()).filter_map(|link| Some((share_of(link)?, link)));
        let Some((share, tightest)) = links.min() else { return };
        for &i in &on_link[tightest] {
            if !std::mem::take(&mut is_open[i]) {
                continue;
            }
            active[i].rate += share;
            take(active[i].flow, share, residual);
            active[i].flow.path.iter().for_each(|link| counts[*link] -= 1);
        }
    }
}

/// The rate that ends a flow just in time, rounded up; nothing without deadline or after it.
fn desired(a: &Active<'_>, now: u64) -> u128 {
    let (Some(deadline), Some(left)) = (a.flow.deadline, a.left) else { return 0 };
    let time = deadline.as_picos().saturating_sub(now);
    if time == 0 { 0 } else { left.div_ceil(u128::from(time)) }
}

fn reserve(active: &mut [Active<'_>], capacities: &[u128], now: u64) {
    let mut residual = capacities.to_vec();
    for a in &mut *active {
        a.rate = desired(a, now).min(spare(a.flow, &residual));
        take(a.flow, a.rate, &mut residual);
    }
    share_equally(active, &mut residual);
}
