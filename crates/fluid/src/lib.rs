//! Ideal flow-level schedulers: no packets, no headers, no round trips, no losses.
//!
//! Flows are fluid. At every instant a policy gives each flow a rate on all links of its path. The
//! policy knows all sizes, deadlines and link rates. The result is what a transport with this
//! policy would reach if control cost nothing. No transport beats [`Policy::Optimal`].
//!
//! # Exactness
//!
//! All arithmetic uses integers. Rates are multiples of 1/720,720 bit/s, because 720,720 is the
//! least common multiple of 1 to 16: any link divides exactly among up to 16 flows. Shares among
//! more flows are rounded down. The remaining size of a flow is exact. Events fall on whole
//! picoseconds, rounded up: a completion is at most one picosecond late for each event before it,
//! and never early. Flows that start together on one link of 1, 10, 25, 40 or 100 Gb/s and are
//! served one by one, or in equal shares, finish at their exact times.

mod allocate;
mod engine;
mod error;
mod level;
mod optimal;
mod reduce;

pub use error::{FluidError, check};
pub use level::{
    LevelEnd, LevelFlow, LevelOutcome, LevelSpan, LevelStatus, LevelWatch, PathTable, check_level,
    simulate,
};
pub use optimal::{is_exact, most_on_time};

use punctual_core::{Bytes, Instant, Rate};

/// How link capacity is allocated to flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Max-min fair sharing.
    FairShare,
    /// Earliest deadline first: the most urgent flow gets all it can use, then the next. Flows
    /// without deadline come last. Equal deadlines are served by remaining size.
    Edf,
    /// Shortest remaining flow first.
    Sjf,
    /// First-come reservation, as in D3. In order of arrival each flow reserves the rate that
    /// meets its deadline just in time, or the spare capacity if that is less. The rest is shared
    /// max-min among all flows. A flow past its deadline reserves nothing.
    Reservation,
    /// The largest possible number of flows on time. Exact if [`is_exact`], otherwise an upper
    /// bound; see [`schedule`].
    Optimal,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 5] =
        [Policy::FairShare, Policy::Edf, Policy::Sjf, Policy::Reservation, Policy::Optimal];

    /// The policy with this scenario name.
    pub fn by_name(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// A description in one line.
    pub fn summary(self) -> &'static str {
        match self {
            Policy::FairShare => "ideal: max-min fair shares, without packets or delays",
            Policy::Edf => "ideal: earliest deadline first; it gets all it can use, then the next",
            Policy::Sjf => {
                "ideal: shortest remaining flow first; it gets all it can use, then the next"
            }
            Policy::Reservation => "ideal: reserves what deadlines need, first come first served",
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

/// A flow to schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FluidFlow {
    /// Identifies the flow and breaks ties: the lower id goes first.
    pub id: u64,
    /// Start time. Flows with equal starts arrive in the order in which they are given.
    pub start: Instant,
    /// Bytes to carry, including headers if they count. [`Bytes::ENDLESS`] never ends.
    pub size: Bytes,
    /// Its deadline, if any.
    pub deadline: Option<Instant>,
    /// The links it crosses, as indices into the capacities.
    pub path: Vec<usize>,
}

/// The outcome of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FluidResult {
    /// The id of the flow.
    pub id: u64,
    /// When it completed; `None` if it never does, or if a bound counts it as late.
    pub finished: Option<Instant>,
    /// Whether the flow met its deadline; `None` for a flow without deadline.
    pub met: Option<bool>,
}

/// Schedules flows on links of these capacities. The results are in the order of the flows.
///
/// With [`Policy::Optimal`]:
///
/// * One bottleneck link and one start: the largest possible number of flows is on time (Moore and
///   Hodgson). They are served by deadline; all others follow, shortest first.
/// * One bottleneck link and no deadlines: shortest remaining flow first, which minimizes the mean
///   completion time.
/// * Otherwise a bound: `finished` is when the flow would complete alone in the network, and at
///   least as many deadlines count as met as any schedule can meet. In general no schedule reaches
///   the bound. Flows that the bound counts as late have no `finished`.
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
    let progress = progress(policy, &flows, &capacities, Instant::NEVER);
    Ok(flows.iter().zip(progress).map(|(flow, progress)| result(flow, progress.finished)).collect())
}

/// The bytes of each flow carried until a time, in the order of the flows. `None` if [`schedule`]
/// gives a bound, because then there is no schedule.
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
    let progress = progress(policy, &flows, &capacities, until);
    Ok(Some(progress.iter().map(|flow| engine::size_of(flow.moved)).collect()))
}

fn progress(
    policy: Policy,
    flows: &[FluidFlow],
    capacities: &[Rate],
    until: Instant,
) -> Vec<engine::Progress> {
    match policy {
        Policy::Optimal => optimal::exact(flows, capacities, until),
        _ => engine::run(policy, flows, capacities, until),
    }
}

fn result(flow: &FluidFlow, finished: Option<Instant>) -> FluidResult {
    let met = flow.deadline.map(|deadline| finished.is_some_and(|at| at <= deadline));
    FluidResult { id: flow.id, finished, met }
}

/// The share of deadlines met; `None` if no flow has a deadline.
pub fn share_met(results: &[FluidResult]) -> Option<f64> {
    let with_deadline = results.iter().filter(|r| r.met.is_some()).count();
    let met = results.iter().filter(|r| r.met == Some(true)).count();
    (with_deadline > 0).then(|| met as f64 / with_deadline as f64)
}
