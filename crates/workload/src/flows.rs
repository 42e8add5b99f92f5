//! What a simulation is given: flows known beforehand, and flows that follow others.

use crate::law::{Law, Slot, exponential};
use crate::spec::{DeadlineChange, Gap};
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Duration, FlowSpec, HostId, Instant};

/// Flows to run.
#[derive(Debug, Clone, Default)]
pub struct Workload {
    /// Flows known beforehand, by start time; ids are their positions.
    pub flows: Vec<FlowSpec>,
    /// Patterns whose next flow starts when one ends, by `FlowSpec::pattern`.
    pub closed_loops: Vec<Option<ClosedLoop>>,
    /// Patterns whose flows learn another deadline on the way, by `FlowSpec::pattern`.
    pub deadline_changes: Vec<Option<DeadlineChange>>,
    /// Expected arrivals in flows a second, by `FlowSpec::pattern`; none where arrivals are not
    /// random.
    pub arrival_rates: Vec<Option<f64>>,
}

impl Workload {
    /// When a flow's deadline changes and what it is then, if it does.
    pub fn deadline_change(&self, flow: &FlowSpec) -> Option<(Instant, Option<Instant>)> {
        let change = (*self.deadline_changes.get(usize::from(flow.pattern))?)?;
        let after_start = |time: Duration| flow.start.saturating_add(time);
        Some((after_start(change.after), change.deadline.map(after_start)))
    }

    /// The flow that follows `ended` in its closed loop, if any. Its id is the caller's to set;
    /// its start is not before `now`.
    ///
    /// Sizes, destinations, gaps and relative deadlines of a connection's flows are the same
    /// whatever carries them. None comes back for a flow that belongs to no loop, for one told
    /// about before, and once the traffic's `stop`, the run's end or its `limit` is reached.
    pub fn next_after(&mut self, ended: &FlowSpec, now: Instant) -> Option<FlowSpec> {
        let closed_loop = self.closed_loops.get_mut(usize::from(ended.pattern))?;
        closed_loop.as_mut()?.next_after(ended, now)
    }
}

/// Draws the flow that follows a finished one.
#[derive(Debug, Clone)]
pub struct ClosedLoop {
    law: Law,
    gap: Gap,
    /// By sender, so that a sender's are found quickly.
    connections: Vec<Connection>,
    /// No flow starts here or later.
    until: Instant,
    /// Flows that may still start.
    left: u64,
}

#[derive(Debug, Clone)]
struct Connection {
    slot: Slot,
    /// Names its random streams.
    number: u64,
    /// Flows so far.
    started: u64,
    /// What tells the flow under way from the sender's others. Where two are alike, it does not
    /// matter which connection goes on.
    current: Option<Mark>,
}

type Mark = (HostId, Bytes, Instant, Option<Instant>);

fn mark(flow: &FlowSpec) -> Mark {
    (flow.dst, flow.size, flow.start, flow.deadline)
}

impl ClosedLoop {
    /// One connection for each slot given; `start` says when the first flow of each starts.
    /// Returns the first flows, in the order of the slots.
    pub(crate) fn new(
        law: Law,
        gap: Gap,
        slots: &[Slot],
        until: Instant,
        limit: u64,
        mut start: impl FnMut(u64) -> Instant,
    ) -> (Self, Vec<FlowSpec>) {
        let mut flows = Vec::with_capacity(slots.len());
        let mut connections = Vec::with_capacity(slots.len());
        for (&slot, number) in slots.iter().zip(0..limit) {
            let flow = law.flow(slot, draw_number(number, 0), start(number));
            if flow.start >= until {
                continue;
            }
            flows.push(flow);
            connections.push(Connection { slot, number, started: 1, current: Some(mark(&flow)) });
        }
        connections.sort_by_key(|c| (c.slot.src, c.number));
        let left = limit - flows.len() as u64;
        let closed_loop = ClosedLoop { law, gap, connections, until, left };
        (closed_loop, flows)
    }

    fn next_after(&mut self, ended: &FlowSpec, now: Instant) -> Option<FlowSpec> {
        let first = self.connections.partition_point(|c| c.slot.src < ended.src);
        let connection = self.connections[first..]
            .iter_mut()
            .take_while(|c| c.slot.src == ended.src)
            .find(|c| c.current == Some(mark(ended)))?;
        connection.current = None;
        if self.left == 0 {
            return None;
        }
        let draw = draw_number(connection.number, connection.started);
        let start = now.saturating_add(gap(self.gap, self.law.seeds.gaps, draw));
        if start >= self.until {
            return None;
        }
        let flow = self.law.flow(connection.slot, draw, start);
        connection.started += 1;
        connection.current = Some(mark(&flow));
        self.left -= 1;
        Some(flow)
    }
}

/// Names the draws of the n-th flow of a connection.
fn draw_number(connection: u64, n: u64) -> u64 {
    connection << 32 | n
}

fn gap(gap: Gap, seed: u64, draw: u64) -> Duration {
    let mut stream = Stream::named(seed, "flow", draw);
    match gap {
        Gap::Fixed(gap) => gap,
        Gap::Exponential(mean) => exponential(&mut stream, mean),
        Gap::ExponentialMedian(median) => {
            exponential(&mut stream, median.mul_f64(1.0 / libm::log(2.0)))
        }
    }
}
