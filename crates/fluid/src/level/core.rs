//! The event loop of the flow-level simulator, and the state that all models share.

use super::ends::Ends;
use super::{LevelEnd, LevelFlow, LevelOutcome, LevelSpan, LevelStatus, LevelWatch, PathTable};
use punctual_core::{Bytes, FlowModel, Instant, Rate};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Later than anything that happens.
pub(super) const NEVER: u64 = u64::MAX;
const PICOS_PER_SEC: f64 = 1e12;
/// Events between two calls of the watch.
const WATCH_EVENTS: u64 = 1024;

/// What fires at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The measured window begins (0) or ends (1).
    Window(u8),
    /// A flow may have become hopeless, unless its rate has changed since (version).
    Hopeless(u32, u32),
    /// The criticality of a flow changes, unless its rate has changed since (version).
    Rekey(u32, u32),
    /// A flow may overtake another that it shares a link with.
    Overtake(u32),
    /// The window of a flow in slow start doubles.
    Ramp(u32),
    /// The deadline of a flow passes.
    Deadline(u32),
    /// All weights or requests are computed again.
    Step,
}

/// A model: it decides the rates of flows.
pub(super) trait Model {
    /// Data of a flow may leave from now on.
    fn start(&mut self, flow: u32, core: &mut Core<'_>);
    /// A flow has sent everything or is abandoned; its rate is still set.
    fn end(&mut self, flow: u32, core: &mut Core<'_>);
    /// A timer of the model fires.
    fn fire(&mut self, timer: Timer, core: &mut Core<'_>);
    /// Computes rates after all events of an instant.
    fn solve(&mut self, core: &mut Core<'_>);
}

/// The state of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowState {
    /// Bits on the wire; infinite for an endless flow.
    pub(super) size: f64,
    /// Bits sent until `last`.
    pub(super) sent: f64,
    /// Bits per second.
    pub(super) rate: f64,
    /// Its maximum rate, in bits per second.
    pub(super) rate_max: f64,
    /// When `sent` was computed.
    pub(super) last: u64,
    /// Its data leaves from this instant on.
    pub(super) resumes: u64,
    /// Its deadline, or [`NEVER`].
    pub(super) deadline: u64,
    pub(super) rtt: u64,
    pub(super) data_rtt: u64,
    /// Changes with the rate, so that timers can tell.
    pub(super) version: u32,
    pub(super) status: LevelStatus,
    /// Whether it has started to send and not ended.
    pub(super) is_active: bool,
}

impl FlowState {
    /// Bits sent until `now`.
    #[inline]
    pub(super) fn sent_by(&self, now: u64) -> f64 {
        let since = self.last.max(self.resumes);
        if self.rate == 0.0 || now <= since {
            return self.sent;
        }
        let more = self.rate * (now - since) as f64 / PICOS_PER_SEC;
        (self.sent + more).min(self.size)
    }

    /// Bits left at `now`.
    #[inline]
    pub(super) fn left(&self, now: u64) -> f64 {
        self.size - self.sent_by(now)
    }

    /// The time to send what is left at the maximum rate, in picoseconds.
    #[inline]
    pub(super) fn expected(&self, now: u64) -> f64 {
        self.left(now) / self.rate_max * PICOS_PER_SEC
    }

    /// When the last bit will have left; none if never.
    fn end(&self, now: u64) -> Option<u64> {
        if self.rate <= 0.0 {
            return None;
        }
        // Rounded up, but not by the rounding of `f64`.
        let picos = libm::ceil(self.left(now) / self.rate * PICOS_PER_SEC - 0.01).max(0.0);
        let from = now.max(self.resumes);
        (picos < (NEVER - from) as f64).then(|| from + picos as u64)
    }
}

/// Adds picoseconds to an instant, rounded up, and stays below [`NEVER`].
pub(super) fn later(now: u64, picos: f64) -> u64 {
    let picos = libm::ceil(picos.max(0.0));
    if picos < (NEVER - now) as f64 { now + picos as u64 } else { NEVER }
}

/// The state that all models share.
pub(super) struct Core<'a> {
    pub(super) now: u64,
    pub(super) flows: Vec<FlowState>,
    pub(super) paths: &'a PathTable,
    /// Bits per second of each link.
    pub(super) capacities: Vec<f64>,
    pub(super) given: &'a [LevelFlow],
    pub(super) evaluations: u64,
    resume_rtts: f64,
    ends: Ends,
    timers: BinaryHeap<Reverse<(u64, Timer)>>,
    /// When data of each flow may leave, by time; the next is `arrived`.
    arrivals: Vec<(u64, u32)>,
    arrived: usize,
    outcomes: Vec<LevelEnd>,
    awaited: usize,
    span: LevelSpan,
    /// The end of the run, as far as it is known.
    until: u64,
    last_end: u64,
    events: u64,
    is_interrupted: bool,
    abandoned: Vec<u32>,
}

impl<'a> Core<'a> {
    pub(super) fn new(
        model: &FlowModel,
        given: &'a [LevelFlow],
        paths: &'a PathTable,
        capacities: &[Rate],
        span: LevelSpan,
    ) -> Self {
        let mut arrivals = Vec::with_capacity(given.len());
        let mut flows = Vec::with_capacity(given.len());
        for (id, flow) in given.iter().enumerate() {
            let receiver = model.receiver_rate.unwrap_or(flow.rate_max);
            let is_endless = flow.size == Bytes::ENDLESS;
            let rtts = match flow.deadline {
                Some(_) => model.setup_rtts,
                None => model.setup_rtts_without_deadline,
            };
            arrivals
                .push((flow.start.saturating_add(flow.rtt.mul_f64(rtts)).as_picos(), id as u32));
            flows.push(FlowState {
                size: if is_endless { f64::INFINITY } else { flow.size.get() as f64 * 8.0 },
                sent: 0.0,
                rate: 0.0,
                rate_max: flow.rate_max.min(receiver).as_bps() as f64,
                last: flow.start.as_picos(),
                resumes: 0,
                deadline: flow.deadline.map_or(NEVER, Instant::as_picos),
                rtt: flow.rtt.as_picos(),
                data_rtt: flow.data_rtt.as_picos(),
                version: 0,
                status: LevelStatus::Unfinished,
                is_active: false,
            });
        }
        arrivals.sort_unstable();
        let mut core = Core {
            now: 0,
            flows,
            paths,
            capacities: capacities.iter().map(|rate| rate.as_bps() as f64).collect(),
            given,
            evaluations: 0,
            resume_rtts: model.resume_rtts,
            ends: Ends::new(given.len()),
            timers: BinaryHeap::new(),
            arrivals,
            arrived: 0,
            outcomes: vec![LevelEnd::default(); given.len()],
            awaited: given.iter().filter(|flow| flow.awaited).count(),
            span,
            until: span.until.as_picos(),
            last_end: 0,
            events: 0,
            is_interrupted: false,
            abandoned: Vec::new(),
        };
        for (which, at) in [span.window.0, span.window.1].into_iter().enumerate() {
            core.set_timer(at.as_picos(), Timer::Window(which as u8));
        }
        core.stop_if_done();
        core
    }

    /// Fires a timer at an instant; never at [`NEVER`].
    pub(super) fn set_timer(&mut self, at: u64, timer: Timer) {
        if at < NEVER {
            self.timers.push(Reverse((at, timer)));
        }
    }

    /// Sets the rate of a flow from now on.
    pub(super) fn set_rate(&mut self, flow: u32, rate: f64) {
        let now = self.now;
        let state = &mut self.flows[flow as usize];
        if state.rate == rate {
            return;
        }
        state.sent = state.sent_by(now);
        state.last = now;
        if state.rate == 0.0 && self.resume_rtts > 0.0 && state.version > 0 {
            state.resumes = later(now, self.resume_rtts * state.rtt as f64);
        }
        state.rate = rate;
        state.version += 1;
        let end = state.end(now);
        self.ends.set(flow, end);
    }

    /// Abandons an active flow; the model hears of its end before it solves again.
    pub(super) fn abandon(&mut self, flow: u32) {
        self.abandoned.push(flow);
    }

    /// Runs a model until the end.
    pub(super) fn run(&mut self, model: &mut impl Model, watch: LevelWatch<'_>) {
        let mut next_watch = WATCH_EVENTS;
        loop {
            let arrival = self.arrivals.get(self.arrived).map_or(NEVER, |(at, _)| *at);
            let end = self.ends.first().map_or(NEVER, |(at, _)| at);
            let timer = self.timers.peek().map_or(NEVER, |Reverse((at, _))| *at);
            let next = arrival.min(end).min(timer);
            if next > self.until || next == NEVER {
                break;
            }
            self.now = next;
            while let Some((at, flow)) = self.ends.first()
                && at <= self.now
            {
                self.events += 1;
                self.finish(flow, model);
            }
            while let Some(&(at, flow)) = self.arrivals.get(self.arrived)
                && at <= self.now
            {
                self.events += 1;
                self.arrived += 1;
                self.flows[flow as usize].is_active = true;
                self.flows[flow as usize].last = self.now;
                if self.flows[flow as usize].size == 0.0 {
                    self.finish(flow, model);
                } else {
                    model.start(flow, self);
                }
            }
            while let Some(Reverse((at, timer))) = self.timers.peek().copied()
                && at <= self.now
            {
                self.timers.pop();
                match timer {
                    Timer::Window(which) => self.snapshot(which),
                    _ => {
                        self.events += 1;
                        model.fire(timer, self);
                    }
                }
            }
            self.drop_abandoned(model);
            model.solve(self);
            while !self.abandoned.is_empty() {
                self.drop_abandoned(model);
                model.solve(self);
            }
            if self.events >= next_watch {
                next_watch = self.events + WATCH_EVENTS;
                if !watch(Instant::from_picos(self.now)) {
                    self.is_interrupted = true;
                    break;
                }
            }
        }
        if !self.is_interrupted && self.until < NEVER {
            self.now = self.now.max(self.until);
        }
    }

    fn drop_abandoned(&mut self, model: &mut impl Model) {
        while let Some(flow) = self.abandoned.pop() {
            if self.flows[flow as usize].is_active {
                self.close(flow, LevelStatus::Abandoned, self.now, model);
            }
        }
    }

    /// A flow has sent its last bit.
    fn finish(&mut self, flow: u32, model: &mut impl Model) {
        let tail = self.given[flow as usize].tail;
        let arrival = Instant::from_picos(self.now).saturating_add(tail).as_picos();
        self.close(flow, LevelStatus::Completed, arrival, model);
        self.flows[flow as usize].sent = self.flows[flow as usize].size;
    }

    fn close(&mut self, flow: u32, status: LevelStatus, at: u64, model: &mut impl Model) {
        model.end(flow, self);
        self.ends.set(flow, None);
        let state = &mut self.flows[flow as usize];
        state.sent = state.sent_by(self.now);
        state.last = self.now;
        state.rate = 0.0;
        state.version += 1;
        state.is_active = false;
        state.status = status;
        self.outcomes[flow as usize].ended = Some(Instant::from_picos(at));
        self.last_end = self.last_end.max(at);
        if self.given[flow as usize].awaited {
            self.awaited -= 1;
            self.stop_if_done();
        }
    }

    /// Ends the run with the last awaited flow, if it is to end then.
    fn stop_if_done(&mut self) {
        if let Some(after) = self.span.when_done_after
            && self.awaited == 0
        {
            self.until = self.until.min(self.last_end.max(after.as_picos()));
        }
    }

    /// Stores what flows have sent at the beginning or end of the measured window.
    fn snapshot(&mut self, which: u8) {
        let sign = if which == 0 { -1.0 } else { 1.0 };
        for (state, outcome) in self.flows.iter().zip(&mut self.outcomes) {
            outcome.sent_in_window += sign * state.sent_by(self.now) / 8.0;
        }
    }

    /// The outcome at the end of the run.
    pub(super) fn outcome(mut self) -> LevelOutcome {
        let (from, until) = self.span.window;
        // A window that the run did not reach the end of ends with it.
        if until.as_picos() > self.now && from.as_picos() <= self.now {
            self.snapshot(1);
        }
        let now = self.now;
        for (state, outcome) in self.flows.iter().zip(&mut self.outcomes) {
            outcome.sent = state.sent_by(now) / 8.0;
            outcome.status = state.status;
            if outcome.ended.is_some_and(|at| at.as_picos() > now) {
                outcome.status = LevelStatus::Unfinished;
            }
            if outcome.status == LevelStatus::Unfinished {
                outcome.ended = None;
            }
        }
        LevelOutcome {
            ended_at: Instant::from_picos(now),
            flows: self.outcomes,
            events: self.events,
            evaluations: self.evaluations,
            interrupted: self.is_interrupted,
        }
    }
}
