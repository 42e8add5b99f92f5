//! Rate allocation of the policies at one instant.

use crate::{FluidFlow, Policy};

/// A flow that has started and is not complete.
pub(crate) struct Active<'a> {
    pub(crate) index: usize,
    pub(crate) flow: &'a FluidFlow,
    /// Remaining work; `None` for an endless flow.
    pub(crate) left: Option<u128>,
    /// Its current rate.
    pub(crate) rate: u128,
}

/// Sets the rate of each active flow. `active` is in order of arrival.
pub(crate) fn allocate(policy: Policy, active: &mut [Active<'_>], capacities: &[u128], now: u64) {
    match policy {
        Policy::FairShare => fair(active, capacities),
        Policy::Edf => greedy(active, capacities, |a| {
            (a.flow.deadline.map_or(u64::MAX, |at| at.as_picos()), left(a), a.flow.id)
        }),
        Policy::Sjf => greedy(active, capacities, |a| (0, left(a), a.flow.id)),
        Policy::Reservation => reserve(active, capacities, now),
        Policy::Optimal => unreachable!("the optimum is computed as a whole"),
    }
}

fn left(a: &Active<'_>) -> u128 {
    a.left.unwrap_or(u128::MAX)
}

/// The spare capacity of a flow's path.
fn spare(flow: &FluidFlow, residual: &[u128]) -> u128 {
    flow.path.iter().map(|link| residual[*link]).min().unwrap_or(0)
}

fn take(flow: &FluidFlow, rate: u128, residual: &mut [u128]) {
    for link in &flow.path {
        residual[*link] -= rate;
    }
}

/// Gives each flow, in order of `key`, the whole spare capacity of its path.
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

/// Max-min fair sharing by progressive filling.
fn fair(active: &mut [Active<'_>], capacities: &[u128]) {
    let mut residual = capacities.to_vec();
    for a in &mut *active {
        a.rate = 0;
    }
    share_equally(active, &mut residual);
}

/// Shares the spare capacity max-min among the flows, in addition to their current rates.
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

/// remaining work / time to the deadline, rounded up; 0 without a deadline or after it.
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
