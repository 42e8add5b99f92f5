//! The flows of a run: when they start, what was delivered, how they ended.

use crate::payload::{Content, Delivered};
use punctual_core::{ByteRange, Bytes, FlowEvent, FlowId, FlowSpec, Instant, TransportId};
use punctual_sim::{ByCause, FlowCounts, FlowRecord, FlowStatus, Measure, Outcome, Stop, Totals};
use punctual_workload::Workload;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Violations that an outcome describes at most.
const VIOLATIONS_MAX: usize = 100;

/// What counts within the measured window.
#[derive(Debug, Clone, Default)]
struct Counters {
    delivered_packets: u64,
    delivered_wire_bytes: u64,
    delivered_bytes: u64,
    flows: Vec<FlowCounts>,
}

/// All flows of a run, started or not.
pub(crate) struct FlowTable {
    workload: Workload,
    /// The next of the flows that are known from the start.
    next: usize,
    /// Flows of closed loops that start later.
    later: BinaryHeap<Reverse<(Instant, usize)>>,
    later_specs: Vec<FlowSpec>,
    deadline_changes: BinaryHeap<Reverse<(Instant, FlowId, Option<Instant>)>>,
    /// The first deadlines of flows whose deadline was changed.
    first_deadlines: BTreeMap<FlowId, Option<Instant>>,
    records: Vec<FlowRecord>,
    contents: Vec<(Content, Delivered)>,
    stop: Stop,
    measure: Measure,
    /// Flows that the run waits for; the end of the measured window counts as one.
    awaited: u64,
    flows_ended: u64,
    last_ended: Instant,
    counted: Counters,
    window_begin: Option<Counters>,
    window_end: Option<Counters>,
    violations: Vec<String>,
}

/// Whether a run waits for a flow at all.
fn must_end(flow: &FlowSpec) -> bool {
    !flow.background && flow.size != Bytes::ENDLESS
}

impl FlowTable {
    pub(crate) fn new(workload: Workload, stop: Stop, measure: Measure) -> FlowTable {
        let is_awaited = |flow: &&FlowSpec| must_end(flow) && measure.awaits(flow.start);
        let awaited = workload.flows.iter().filter(is_awaited).count() as u64;
        FlowTable {
            workload,
            next: 0,
            later: BinaryHeap::new(),
            later_specs: Vec::new(),
            deadline_changes: BinaryHeap::new(),
            first_deadlines: BTreeMap::new(),
            records: Vec::new(),
            contents: Vec::new(),
            stop,
            measure,
            awaited: awaited + u64::from(measure.until.is_some()),
            flows_ended: 0,
            last_ended: Instant::ZERO,
            counted: Counters::default(),
            window_begin: None,
            window_end: None,
            violations: Vec::new(),
        }
    }

    /// Starts the next flow that is due by `now`, if there is one.
    pub(crate) fn start_next(&mut self, now: Instant) -> Option<FlowSpec> {
        let known = self.workload.flows.get(self.next).map_or(Instant::NEVER, |flow| flow.start);
        let later = self.later.peek().map_or(Instant::NEVER, |Reverse((at, _))| *at);
        if known.min(later) > now {
            return None;
        }
        let mut spec = if known <= later {
            self.next += 1;
            self.workload.flows[self.next - 1]
        } else {
            let Reverse((_, index)) = self.later.pop()?;
            self.later_specs[index]
        };
        spec.id = FlowId::from(self.records.len());
        self.records.push(FlowRecord {
            spec,
            status: FlowStatus::Unfinished,
            ended: None,
            delivered: Bytes::ZERO,
            retransmits: 0,
            retransmits_by: ByCause::default(),
            timeouts: 0,
            trims: 0,
            bounces: 0,
            in_window: FlowCounts::default(),
        });
        self.contents.push((Content::of(spec.id.0), Delivered::default()));
        if let Some((at, deadline)) = self.workload.deadline_change(&spec) {
            self.deadline_changes.push(Reverse((at, spec.id, deadline)));
        }
        Some(spec)
    }

    /// Applies the next change of a deadline that is due by `now`: when it was due, the flow and its
    /// new deadline.
    pub(crate) fn change_deadline(
        &mut self,
        now: Instant,
    ) -> Option<(Instant, FlowId, Option<Instant>)> {
        while let Some(&Reverse((at, flow, deadline))) = self.deadline_changes.peek()
            && at <= now
        {
            self.deadline_changes.pop();
            let record = &mut self.records[flow.index()];
            if record.status == FlowStatus::Unfinished {
                self.first_deadlines.entry(flow).or_insert(record.spec.deadline);
                record.spec.deadline = deadline;
                return Some((at, flow, deadline));
            }
        }
        None
    }

    pub(crate) fn spec(&self, flow: FlowId) -> &FlowSpec {
        &self.records[flow.index()].spec
    }

    /// The content of a flow.
    pub(crate) fn content(&self, flow: FlowId) -> Content {
        self.contents[flow.index()].0
    }

    /// Flows started so far.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Data packets with this many bytes on the wire have arrived whole.
    pub(crate) fn count_packets(&mut self, packets: u64, wire_bytes: u64) {
        self.counted.delivered_packets += packets;
        self.counted.delivered_wire_bytes += wire_bytes;
    }

    /// Bytes of a flow have arrived. `data` must be what was sent, and new.
    pub(crate) fn deliver(&mut self, flow: FlowId, offset: u64, data: &[u8]) {
        let (content, delivered) = &mut self.contents[flow.index()];
        let len = data.len() as u64;
        let is_right = content.is_at(offset, data);
        let is_new = delivered.add(offset, len);
        self.records[flow.index()].delivered += Bytes::new(len);
        self.counted.delivered_bytes += len;
        if !is_right {
            let text = format!("flow {}: wrong content at byte {offset}", flow.0);
            self.violate(text);
        }
        if !is_new {
            let text = format!("flow {}: bytes from {offset} were delivered twice", flow.0);
            self.violate(text);
        }
    }

    pub(crate) fn violate(&mut self, text: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(text);
        }
    }

    /// An event of a flow that is not [`FlowEvent::Delivered`].
    pub(crate) fn handle_event(&mut self, flow: FlowId, event: FlowEvent, now: Instant) {
        let record = &mut self.records[flow.index()];
        match event {
            FlowEvent::Completed => self.end(flow, FlowStatus::Completed, now),
            FlowEvent::Abandoned if record.status == FlowStatus::Unfinished => {
                self.end(flow, FlowStatus::Abandoned, now);
            }
            FlowEvent::Retransmitted(cause) => {
                record.retransmits += 1;
                *record.retransmits_by.of(cause) += 1;
            }
            FlowEvent::TimedOut => record.timeouts += 1,
            FlowEvent::Trimmed => record.trims += 1,
            FlowEvent::Bounced => record.bounces += 1,
            _ => {}
        }
    }

    fn end(&mut self, flow: FlowId, status: FlowStatus, now: Instant) {
        let record = &mut self.records[flow.index()];
        record.status = status;
        record.ended = Some(now);
        let mut spec = record.spec;
        self.last_ended = self.last_ended.max(now);
        self.flows_ended += 1;
        let size = spec.size.get();
        let (_, delivered) = &self.contents[flow.index()];
        if status == FlowStatus::Completed && size > 0 && !delivered.is_all(size) {
            self.violate(format!("flow {}: completed without all of its bytes", flow.0));
        }
        if let Some(first) = self.first_deadlines.remove(&flow) {
            spec.deadline = first; // closed loops find the next flow by it
        }
        let measure = self.measure;
        let is_awaited = |flow: &FlowSpec, start| must_end(flow) && measure.awaits(start);
        if is_awaited(&spec, spec.start) {
            self.awaited -= 1;
        }
        if let Some(next) = self.workload.next_after(&spec, now) {
            let at = next.start.max(now);
            self.awaited += u64::from(is_awaited(&next, at));
            self.later_specs.push(FlowSpec { start: at, ..next });
            self.later.push(Reverse((at, self.later_specs.len() - 1)));
        }
    }

    /// Takes note of the time. Returns whether the run is over.
    pub(crate) fn is_over(&mut self, now: Instant) -> bool {
        if self.window_begin.is_none() && now >= self.measure.from {
            self.window_begin = Some(self.counters());
        }
        if self.window_end.is_none() && self.measure.until.is_some_and(|until| now >= until) {
            self.window_end = Some(self.counters());
            self.awaited -= 1;
        }
        now >= self.stop.at || self.stop.when_done && self.awaited == 0
    }

    pub(crate) fn flows_ended(&self) -> u64 {
        self.flows_ended
    }

    fn counters(&self) -> Counters {
        let counts = |flow: &FlowRecord| FlowCounts {
            delivered: flow.delivered,
            retransmits: flow.retransmits,
            retransmits_by: flow.retransmits_by,
            timeouts: flow.timeouts,
        };
        Counters { flows: self.records.iter().map(counts).collect(), ..self.counted.clone() }
    }

    /// The outcome of the hosts. `now` is when the run ended.
    pub(crate) fn finish(mut self, now: Instant, interrupted: bool) -> Outcome {
        let ended_at = match self.stop.when_done && self.awaited == 0 {
            true => self.last_ended.max(self.measure.until.unwrap_or(Instant::ZERO)),
            false => now.min(self.stop.at),
        };
        let end = self.window_end.take().unwrap_or_else(|| self.counters());
        let begin = self.window_begin.take().unwrap_or_else(|| end.clone());
        let mut totals = Totals {
            measure: self.measure,
            ended_at,
            delivered_packets: end.delivered_packets - begin.delivered_packets,
            delivered_wire_bytes: end.delivered_wire_bytes - begin.delivered_wire_bytes,
            delivered_bytes: end.delivered_bytes - begin.delivered_bytes,
            ..Totals::default()
        };
        for (f, flow) in end.flows.iter().enumerate() {
            let before = begin.flows.get(f).copied().unwrap_or_default();
            let within = flow.since(&before);
            totals.retransmits += u64::from(within.retransmits);
            totals.timeouts += u64::from(within.timeouts);
            let sums = totals.retransmits_by;
            totals.retransmits_by =
                sums.zip(within.retransmits_by, |sum, count| sum + u64::from(count));
            self.records[f].in_window = within;
        }
        Outcome {
            flows: self.records,
            totals,
            violations: self.violations,
            interrupted,
            ..Outcome::default()
        }
    }
}

/// The part of a packet's payload that a range of its flow's bytes is.
pub(crate) fn part(whole: ByteRange, payload: &[u8], range: ByteRange) -> Option<&[u8]> {
    let start = usize::try_from(range.offset.checked_sub(whole.offset)?).ok()?;
    payload.get(start..start.checked_add(usize::try_from(range.len).ok()?)?)
}

/// The place of a transport in lists by transport.
pub(crate) fn place(transport: TransportId) -> usize {
    usize::from(transport.0)
}
