//! What a simulation is given: flows known beforehand, and flows that follow others.

use punctual_core::{FlowSpec, Instant};

/// Flows to run.
#[derive(Debug, Clone, Default)]
pub struct Workload {
    /// Flows known beforehand, by start time; ids are their positions.
    pub flows: Vec<FlowSpec>,
    /// Patterns whose next flow starts when one ends, by `FlowSpec::pattern`.
    pub closed_loops: Vec<Option<ClosedLoop>>,
}

/// Draws the flow that follows a finished one. (Contents: the workload crate's affair.)
#[derive(Debug, Clone)]
pub struct ClosedLoop {}

impl Workload {
    /// The flow that follows `ended` in its closed loop, if any. Its id is the caller's to set;
    /// its start is not before `now`.
    pub fn next_after(&mut self, ended: &FlowSpec, now: Instant) -> Option<FlowSpec> {
        let _ = (ended, now);
        None
    }
}
