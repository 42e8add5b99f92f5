//! The largest number of deadlines that any schedule can meet, or an upper bound on it.

use crate::engine::{self, Progress, capacity_units, work_units};
use crate::{FluidFlow, FluidResult, Policy, reduce, result};
use punctual_core::{Bytes, Instant, Rate};

/// The most start times per link that the bound tries.
const STARTS_MAX: usize = 64;

fn has_one_link(flows: &[FluidFlow]) -> bool {
    flows.windows(2).all(|pair| pair[0].path == pair[1].path)
        && flows.first().is_none_or(|flow| flow.path.len() == 1)
}

fn has_one_start(flows: &[FluidFlow]) -> bool {
    flows.windows(2).all(|pair| pair[0].start == pair[1].start)
}

/// Whether [`Policy::Optimal`] is exact for these flows: one link is the bottleneck of all, and
/// either all start together or none has a deadline.
pub fn is_exact(flows: &[FluidFlow], capacities: &[Rate]) -> bool {
    is_exact_reduced(&reduce::reduce(flows, capacities).0)
}

pub(crate) fn is_exact_reduced(flows: &[FluidFlow]) -> bool {
    has_one_link(flows)
        && (has_one_start(flows) || flows.iter().all(|flow| flow.deadline.is_none()))
}

/// Selects jobs so that the most are on time, by the Moore–Hodgson algorithm in O(n log n).
///
/// A job is (time needed, time allowed), in any unit; all can begin at once. The algorithm adds
/// jobs in order of deadlines. Whenever one would be late, it drops the longest job so far.
pub fn most_on_time(jobs: &[(u128, u128)]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&job| (jobs[job].1, jobs[job].0));
    let mut kept = std::collections::BinaryHeap::new();
    let mut total = 0u128;
    for job in order {
        let (needed, allowed) = jobs[job];
        if needed > allowed {
            continue; // late even alone
        }
        kept.push((needed, job));
        total += needed;
        if total > allowed {
            let (longest, _) = kept.pop().expect("just pushed");
            total -= longest;
        }
    }
    let mut on_time = vec![false; jobs.len()];
    kept.into_iter().for_each(|(_, job)| on_time[job] = true);
    on_time
}

/// A flow's work, and the work that the link can do from `start` until the deadline.
fn job(flow: &FluidFlow, start: Instant, deadline: Instant, capacity: u128) -> (u128, u128) {
    let time = u128::from(deadline.saturating_since(start).as_picos());
    // An endless flow is never on time.
    let needed = if flow.size == Bytes::ENDLESS { u128::MAX } else { work_units(flow.size) };
    (needed, capacity * time)
}

/// The optimal schedule until a time. Requires [`is_exact_reduced`].
pub(crate) fn exact(flows: &[FluidFlow], capacities: &[Rate], until: Instant) -> Vec<Progress> {
    let Some(first) = flows.first() else { return Vec::new() };
    if !has_one_start(flows) {
        return engine::run(Policy::Sjf, flows, capacities, until);
    }
    let capacity = capacity_units(capacities[first.path[0]]);
    let mut progress = vec![Progress::default(); flows.len()];
    let time = until.saturating_since(first.start).as_picos();
    let mut room = capacity * u128::from(time);
    let mut total = 0u128;
    for i in best_order(flows, first.start, capacity) {
        if flows[i].size == Bytes::ENDLESS {
            progress[i].moved = room;
            break; // flows after an endless one get nothing
        }
        let work = work_units(flows[i].size);
        progress[i].moved = work.min(room);
        room -= progress[i].moved;
        total += work;
        progress[i].finished =
            after(first.start, total.div_ceil(capacity)).filter(|at| *at <= until);
    }
    progress
}

/// Flows that can be on time in order of deadlines, then the others, shortest first.
fn best_order(flows: &[FluidFlow], start: Instant, capacity: u128) -> Vec<usize> {
    let with_deadline: Vec<usize> =
        (0..flows.len()).filter(|&i| flows[i].deadline.is_some()).collect();
    let jobs: Vec<_> = with_deadline
        .iter()
        .filter_map(|&i| Some(job(&flows[i], start, flows[i].deadline?, capacity)))
        .collect();
    let mut kept = vec![false; flows.len()];
    for (&i, on_time) in with_deadline.iter().zip(most_on_time(&jobs)) {
        kept[i] = on_time;
    }
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by_key(|&i| {
        let flow = &flows[i];
        let deadline = if kept[i] { flow.deadline } else { None };
        (deadline.unwrap_or(Instant::NEVER), !kept[i], flow.size, flow.id)
    });
    order
}

fn after(start: Instant, picos: u128) -> Option<Instant> {
    Some(Instant::from_picos(start.as_picos().checked_add(u64::try_from(picos).ok()?)?))
}

/// A relaxed problem: flows of one link that all begin at one time, and which of them are still
/// late.
struct Relaxed {
    members: Vec<usize>,
    late: Vec<usize>,
}

/// Relaxes the flows of a link that begin at `start` or later, as if all began at `start`. `on_link`
/// is in order of start.
fn relax(flows: &[FluidFlow], on_link: &[usize], start: Instant, capacity: u128) -> Relaxed {
    let first = on_link.partition_point(|&i| flows[i].start < start);
    let members = on_link[first..].to_vec();
    let jobs: Vec<_> = members
        .iter()
        .filter_map(|&i| Some(job(&flows[i], start, flows[i].deadline?, capacity)))
        .collect();
    let on_time = most_on_time(&jobs);
    let late = members.iter().zip(on_time).filter(|(_, on_time)| !on_time).map(|(&i, _)| i);
    Relaxed { late: late.collect(), members }
}

/// The relaxed problem of a link with the most late flows; `None` if all may be on time. `on_link`
/// is in order of start.
fn tightest(flows: &[FluidFlow], on_link: &[usize], capacity: u128) -> Option<Relaxed> {
    let mut starts: Vec<Instant> = on_link.iter().map(|&i| flows[i].start).collect();
    starts.dedup();
    let step = starts.len().div_ceil(STARTS_MAX).max(1);
    let mut best: Option<Relaxed> = None;
    for start in starts.into_iter().step_by(step) {
        let relaxed = relax(flows, on_link, start, capacity);
        if relaxed.late.len() > best.as_ref().map_or(0, |best| best.late.len()) {
            best = Some(relaxed);
        }
    }
    best
}

/// An upper bound on the number of flows on time.
///
/// Take any set of flows on a link, and let all begin when the first of them does. Then Moore and
/// Hodgson give the least number of late flows. The numbers of disjoint sets add up.
pub(crate) fn bound(flows: &[FluidFlow], capacities: &[Rate]) -> Vec<FluidResult> {
    let capacities: Vec<u128> = capacities.iter().map(|rate| capacity_units(*rate)).collect();
    let alone = |flow: &FluidFlow| {
        let narrowest = flow.path.iter().map(|link| capacities[*link]).min()?;
        (flow.size != Bytes::ENDLESS)
            .then(|| after(flow.start, work_units(flow.size).div_ceil(narrowest)))?
    };
    let mut results: Vec<FluidResult> =
        flows.iter().map(|flow| result(flow, alone(flow))).collect();
    // Flows that are late even alone are not counted again.
    let mut open: Vec<bool> = results.iter().map(|result| result.met == Some(true)).collect();
    for (flow, result) in flows.iter().zip(&mut results) {
        if result.met == Some(false) && flow.deadline.is_some() {
            result.finished = None;
        }
    }
    let mut by_start: Vec<usize> = (0..flows.len()).collect();
    by_start.sort_by_key(|&i| flows[i].start);
    let mut on_link: Vec<Vec<usize>> = vec![Vec::new(); capacities.len()];
    for i in by_start.into_iter().filter(|&i| open[i]) {
        flows[i].path.iter().for_each(|link| on_link[*link].push(i));
    }
    // A link is solved again only after some of its flows were decided.
    let solve =
        |on_link: &[Vec<usize>], link: usize| tightest(flows, &on_link[link], capacities[link]);
    let mut best: Vec<Option<Relaxed>> =
        (0..capacities.len()).map(|link| solve(&on_link, link)).collect();
    loop {
        let late = |link: &usize| best[*link].as_ref().map_or(0, |relaxed| relaxed.late.len());
        // Ties go to the first link.
        let worst = (0..capacities.len()).rev().max_by_key(late);
        let Some(relaxed) = worst.and_then(|link| best[link].take()) else { return results };
        let mut touched: Vec<usize> = Vec::new();
        for &i in &relaxed.members {
            open[i] = false;
            touched.extend(&flows[i].path);
        }
        touched.sort_unstable();
        touched.dedup();
        for link in touched {
            on_link[link].retain(|&i| open[i]);
            best[link] = solve(&on_link, link);
        }
        for i in relaxed.late {
            results[i].met = Some(false);
            results[i].finished = None;
        }
    }
}
