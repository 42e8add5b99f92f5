//! The flow-level simulator: what transports do to whole flows on large networks.
//!
//! Flows are fluid. A [`FlowModel`] decides the rate of each flow on the links of its path. Rates
//! are computed again when a flow starts, ends or changes its criticality, and only where that can
//! change them; two models also compute them at a fixed step. Unlike the ideal schedulers of this
//! crate, flows pay for set-up, headers and delays:
//!
//! ```text
//! completion = start + set-up + (wire bytes / rate, integrated) + tail
//! ```
//!
//! Losses, queues, timeouts and the convergence of control loops are not modelled.
//!
//! Rates and bytes are `f64` with + − × ÷ √ only (and `libm` for weights and aging), events fall on
//! whole picoseconds, and no result depends on the order of memory, so equal inputs give equal
//! results on every machine. Rates of [`Sharing::Critical`](punctual_core::Sharing) are whole
//! bits per second and exact.

mod core;
mod critical;
mod ends;
mod fill;
mod paths;
mod shares;
#[cfg(test)]
mod tests;

pub use paths::PathTable;

use crate::FluidError;
use punctual_core::{Bytes, Duration, FlowModel, Instant, Rate, Sharing};

/// The fastest link, 1.1 Pb/s, so that whole bits per second and their sums are exact as `f64`.
const RATE_MAX: Rate = Rate::from_bps(1 << 50);

/// A flow to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelFlow {
    /// When it starts.
    pub start: Instant,
    /// Bytes on the wire, headers included; [`Bytes::ENDLESS`] never ends.
    pub size: Bytes,
    /// Its deadline, if any.
    pub deadline: Option<Instant>,
    /// RTT of a header on its idle path.
    pub rtt: Duration,
    /// RTT of a full data packet and its acknowledgement on its idle path.
    pub data_rtt: Duration,
    /// From the last bit on its slowest link to the last byte at its receiver.
    pub tail: Duration,
    /// Its maximum rate: that of its NIC.
    pub rate_max: Rate,
    /// The draw of random criticality.
    pub draw: u32,
    /// Whether a run that stops when all is done waits for it.
    pub awaited: bool,
}

/// When a flow-level run ends and what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelSpan {
    /// The end at the latest.
    pub until: Instant,
    /// If set, the run ends when all awaited flows have ended, but not before this instant.
    pub when_done_after: Option<Instant>,
    /// The beginning and end of the measured window.
    pub window: (Instant, Instant),
}

/// How a flow ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LevelStatus {
    /// Its receiver has every byte.
    Completed,
    /// Its sender abandoned it.
    Abandoned,
    /// The run ended before it did.
    #[default]
    Unfinished,
}

/// The outcome of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LevelEnd {
    /// How it ended.
    pub status: LevelStatus,
    /// When its last byte arrived or it was abandoned.
    pub ended: Option<Instant>,
    /// Wire bytes sent by the end of the run.
    pub sent: f64,
    /// Wire bytes sent within the measured window.
    pub sent_in_window: f64,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LevelOutcome {
    /// When the run ended.
    pub ended_at: Instant,
    /// The outcome of each flow, in the order of the flows.
    pub flows: Vec<LevelEnd>,
    /// Events: starts, ends, and changes of criticality or requests.
    pub events: u64,
    /// How often the rate of a flow was computed.
    pub evaluations: u64,
    /// Whether the run was interrupted before its end.
    pub interrupted: bool,
}

/// Called now and then with the time of the run; `false` interrupts it.
pub type LevelWatch<'a> = &'a mut dyn FnMut(Instant) -> bool;

/// Checks that flows can be simulated on links of these capacities.
pub fn check_level(
    flows: &[LevelFlow],
    paths: &PathTable,
    capacities: &[Rate],
) -> Result<(), FluidError> {
    crate::error::check_capacities(capacities, RATE_MAX)?;
    for (id, flow) in flows.iter().enumerate() {
        let own = paths.of(id as u32);
        if own.is_empty() {
            return Err(FluidError::EmptyPath(id as u64));
        }
        for path in own {
            crate::error::check_path(id as u64, paths.links(path), capacities.len())?;
        }
        crate::error::check_size(id as u64, flow.size)?;
        if flow.rate_max == Rate::ZERO {
            return Err(FluidError::NoRate(id as u64));
        }
    }
    Ok(())
}

/// Simulates flows on links of these capacities.
///
/// `paths` has an entry for each flow. `watch` is called about every thousand events.
///
/// # Panics
///
/// If flows spread over paths in parts and the model is not that of fair shares.
pub fn simulate(
    model: &FlowModel,
    flows: &[LevelFlow],
    paths: &PathTable,
    capacities: &[Rate],
    span: LevelSpan,
    watch: LevelWatch<'_>,
) -> Result<LevelOutcome, FluidError> {
    check_level(flows, paths, capacities)?;
    let is_fair = matches!(model.sharing, Sharing::Fair);
    assert!(is_fair || !paths.has_parts(), "only fair shares know parts of paths");
    let mut run = core::Core::new(model, flows, paths, capacities, span);
    match model.sharing {
        Sharing::Critical { .. } => {
            let mut critical = critical::Critical::new(model, &run);
            run.run(&mut critical, watch);
        }
        _ => {
            let mut shares = shares::Shares::new(model, &run);
            run.run(&mut shares, watch);
        }
    }
    Ok(run.outcome())
}
