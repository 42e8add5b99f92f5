//! The flows of a run: those known before it starts, and those of closed loops.

use crate::spec::{DeadlineChange, Gap};
use crate::template::{FlowTemplate, Slot, exponential};
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Duration, FlowSpec, HostId, Instant};

/// The flows of a run.
#[derive(Debug, Clone, Default)]
pub struct Workload {
    /// Flows known before the run, sorted by start time. The id of each is its index.
    pub flows: Vec<FlowSpec>,
    /// The closed loop of each traffic, indexed by `FlowSpec::pattern`.
    pub closed_loops: Vec<Option<ClosedLoop>>,
    /// The deadline change of each traffic, indexed by `FlowSpec::pattern`.
    pub deadline_changes: Vec<Option<DeadlineChange>>,
    /// Expected flows per second of each traffic, indexed by `FlowSpec::pattern`; `None` unless
    /// arrivals are a Poisson process.
    pub arrival_rates: Vec<Option<f64>>,
}

impl Workload {
    /// When a flow's deadline changes, and the new deadline; `None` if it never changes.
    pub fn deadline_change(&self, flow: &FlowSpec) -> Option<(Instant, Option<Instant>)> {
        let change = (*self.deadline_changes.get(usize::from(flow.pattern))?)?;
        let after_start = |time: Duration| flow.start.saturating_add(time);
        Some((after_start(change.after), change.deadline.map(after_start)))
    }

    /// The shortest possible time between two flows of a closed loop; `None` without closed loops.
    pub fn shortest_gap(&self) -> Option<Duration> {
        self.closed_loops.iter().flatten().map(ClosedLoop::shortest_gap).min()
    }

    /// The flow that follows `ended` in its closed loop. The caller sets its id; its start is not
    /// before `now`.
    ///
    /// Sizes, destinations, gaps and relative deadlines of a connection's flows do not depend on
    /// the transport. Returns `None` if `ended` is not in a closed loop or was reported before, and
    /// once the traffic's `stop`, the run's end or the `limit` is reached.
    pub fn next_after(&mut self, ended: &FlowSpec, now: Instant) -> Option<FlowSpec> {
        let closed_loop = self.closed_loops.get_mut(usize::from(ended.pattern))?;
        closed_loop.as_mut()?.next_after(ended, now)
    }
}

/// The connections of a closed loop, and how their next flows are drawn.
#[derive(Debug, Clone)]
pub struct ClosedLoop {
    template: FlowTemplate,
    gap: Gap,
    /// Sorted by sender, for binary search.
    connections: Vec<Connection>,
    /// No flow starts here or later.
    until: Instant,
    /// Flows that may still start before the limit.
    left: u64,
}

#[derive(Debug, Clone)]
struct Connection {
    slot: Slot,
    /// Selects its random streams.
    number: u64,
    /// Flows started so far.
    started: u64,
    /// Identifies the current flow among the sender's flows. If two flows have equal keys, either
    /// connection may continue.
    current: Option<FlowKey>,
}

type FlowKey = (HostId, Bytes, Instant, Option<Instant>);

fn flow_key(flow: &FlowSpec) -> FlowKey {
    (flow.dst, flow.size, flow.start, flow.deadline)
}

impl ClosedLoop {
    /// Opens one connection per slot. `start` gives the start of the first flow of a connection.
    /// Returns the first flows, in the order of the slots.
    pub(crate) fn new(
        template: FlowTemplate,
        gap: Gap,
        slots: &[Slot],
        until: Instant,
        limit: u64,
        mut start: impl FnMut(u64) -> Instant,
    ) -> (Self, Vec<FlowSpec>) {
        let mut flows = Vec::with_capacity(slots.len());
        let mut connections = Vec::with_capacity(slots.len());
        for (&slot, number) in slots.iter().zip(0..limit) {
            let flow = template.flow(slot, draw_number(number, 0), start(number));
            if flow.start >= until {
                continue;
            }
            flows.push(flow);
            connections.push(Connection {
                slot,
                number,
                started: 1,
                current: Some(flow_key(&flow)),
            });
        }
        connections.sort_by_key(|c| (c.slot.src, c.number));
        let left = limit - flows.len() as u64;
        let closed_loop = ClosedLoop { template, gap, connections, until, left };
        (closed_loop, flows)
    }

    /// The shortest possible time between the end of a flow and the start of the next one.
    pub fn shortest_gap(&self) -> Duration {
        match self.gap {
            Gap::Fixed(gap) => gap,
            Gap::Exponential(_) | Gap::ExponentialMedian(_) => Duration::ZERO,
        }
    }

    fn next_after(&mut self, ended: &FlowSpec, now: Instant) -> Option<FlowSpec> {
        let first = self.connections.partition_point(|c| c.slot.src < ended.src);
        let connection = self.connections[first..]
            .iter_mut()
            .take_while(|c| c.slot.src == ended.src)
            .find(|c| c.current == Some(flow_key(ended)))?;
        connection.current = None;
        if self.left == 0 {
            return None;
        }
        let draw = draw_number(connection.number, connection.started);
        let start = now.saturating_add(gap(self.gap, self.template.seeds.gaps, draw));
        if start >= self.until {
            return None;
        }
        let flow = self.template.flow(connection.slot, draw, start);
        connection.started += 1;
        connection.current = Some(flow_key(&flow));
        self.left -= 1;
        Some(flow)
    }
}

/// The number that selects the random streams of the n-th flow of a connection.
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
