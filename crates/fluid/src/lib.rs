//! Ideal schedulers at the level of flows: no packets, no headers, no round trips, no losses.
//!
//! Flows are fluid. At every instant a policy gives each of them a rate on all links of its path,
//! and knows sizes, deadlines and all queues of the network at once. What comes out is what a
//! transport of that kind would reach if control cost nothing; [`Policy::Optimal`] is what none
//! can pass.
//!
//! # Exactness
//!
//! All of it is integers. Rates are multiples of 1/720,720 bit/s (the least common multiple of 1
//! to 16), so that any link divides exactly among up to 16 flows; a share beyond that is rounded
//! down. What a flow has left is counted without rounding. Events fall on whole picoseconds,
//! rounded up: a finishing time is at most one picosecond late for each event before it, and
//! never early. On one link of 1, 10, 25, 40 or 100 Gb/s flows that start together and are served
//! one by one, or in equal parts, finish at their exact times.

mod allocate;
mod engine;
mod error;
mod optimal;
mod reduce;

pub use error::{FluidError, check};
pub use optimal::{is_exact, most_on_time};

use punctual_core::{Bytes, Instant, Rate};

/// How capacity is given to flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Max-min fair shares.
    FairShare,
    /// Earliest deadline first: the most urgent flow gets all it can take, then the next. Flows
    /// without deadline come last; equal deadlines by size left.
    Edf,
    /// Shortest flow first, by what is left.
    Sjf,
    /// First-come reservation, D3's greedy way: in order of arrival each flow gets the rate that
    /// would end it just in time, or what is left; what nobody reserved is shared equally. A flow
    /// past its deadline asks for nothing.
    Reservation,
    /// The largest possible number of flows on time. Exact where [`is_exact`] says so, an upper
    /// bound elsewhere; see [`schedule`].
    Optimal,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 5] =
        [Policy::FairShare, Policy::Edf, Policy::Sjf, Policy::Reservation, Policy::Optimal];

    /// The one of that name.
    pub fn by_name(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// One line about it.
    pub fn summary(self) -> &'static str {
        match self {
            Policy::FairShare => "ideal: max-min fair shares, without packets or delays",
            Policy::Edf => "ideal: the earliest deadline gets all it can take, then the next",
            Policy::Sjf => "ideal: the least left gets all it can take, then the next",
            Policy::Reservation => "ideal: what deadlines need, first come first served",
            Policy::Optimal => "ideal: the most deadlines that any transport can meet",
        }
    }

    /// Its name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Policy::FairShare => "ideal-fair",
            Policy::Edf => "ideal-edf",
            Policy::Sjf => "ideal-sjf",
            Policy::Reservation => "ideal-reservation",
            Policy::Optimal => "optimal",
        }
    }
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FluidFlow {
    /// Its name, which decides where nothing else does: lower first.
    pub id: u64,
    /// When it may begin. Flows of one instant arrive in the order in which they are given.
    pub start: Instant,
    /// What it carries, overheads included if they are to count; [`Bytes::ENDLESS`] never ends.
    pub size: Bytes,
    /// When it must be done, if it must.
    pub deadline: Option<Instant>,
    /// The links it crosses, by position in the capacities.
    pub path: Vec<usize>,
}

/// What became of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FluidResult {
    /// The flow's name.
    pub id: u64,
    /// When it was done; none if it never is.
    pub finished: Option<Instant>,
    /// Whether a deadline flow was done in time; none for a flow without deadline.
    pub met: Option<bool>,
}

/// What becomes of these flows on links of these capacities, in the order in which they are given.
///
/// With [`Policy::Optimal`]:
///
/// * One link that limits all, and one start: the most flows that can be on time are (Moore and Hodgson), in order
///   of deadlines; all others follow, shortest first.
/// * One link and no deadlines: shortest remaining first, which has the least mean.
/// * Elsewhere a bound, flow by flow: `finished` is when the flow would be done alone in the
///   network, and of the deadlines at least as many are met as any schedule can. No schedule does
///   as well as that in general. Flows that the bound counts as late have no `finished`.
pub fn schedule(
    policy: Policy,
    flows: &[FluidFlow],
    capacities: &[Rate],
) -> Result<Vec<FluidResult>, FluidError> {
    error::check(flows, capacities)?;
    let (flows, capacities) = reduce::reduce(flows, capacities);
    if policy == Policy::Optimal && !optimal::is_exact_reduced(&flows) {
        return Ok(optimal::bound(&flows, &capacities));
    }
    let fates = fates(policy, &flows, &capacities, Instant::NEVER);
    Ok(flows.iter().zip(fates).map(|(flow, fate)| result(flow, fate.finished)).collect())
}

/// How much of each flow has been carried by a time, in the order in which they are given; none
/// where [`schedule`] gives a bound, because then there is no schedule.
pub fn moved_by(
    policy: Policy,
    flows: &[FluidFlow],
    capacities: &[Rate],
    until: Instant,
) -> Result<Option<Vec<Bytes>>, FluidError> {
    error::check(flows, capacities)?;
    let (flows, capacities) = reduce::reduce(flows, capacities);
    if policy == Policy::Optimal && !optimal::is_exact_reduced(&flows) {
        return Ok(None);
    }
    let fates = fates(policy, &flows, &capacities, until);
    Ok(Some(fates.iter().map(|fate| engine::size_of(fate.moved)).collect()))
}

fn fates(
    policy: Policy,
    flows: &[FluidFlow],
    capacities: &[Rate],
    until: Instant,
) -> Vec<engine::Fate> {
    match policy {
        Policy::Optimal => optimal::exact(flows, capacities, until),
        _ => engine::run(policy, flows, capacities, until),
    }
}

fn result(flow: &FluidFlow, finished: Option<Instant>) -> FluidResult {
    let met = flow.deadline.map(|deadline| finished.is_some_and(|at| at <= deadline));
    FluidResult { id: flow.id, finished, met }
}

/// Share of deadlines met; none without deadlines.
pub fn share_met(results: &[FluidResult]) -> Option<f64> {
    let with_deadline = results.iter().filter(|r| r.met.is_some()).count();
    let met = results.iter().filter(|r| r.met == Some(true)).count();
    (with_deadline > 0).then(|| met as f64 / with_deadline as f64)
}
