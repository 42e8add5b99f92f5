//! Rates by criticality: the most critical flow gets all it can use, then the next.
//!
//! ```text
//! rate = min(maximum rate, min over links (capacity − rates of more critical flows))
//! ```
//!
//! Rates are not computed from scratch. Each path with less than its flow's maximum rate *watches*
//! the link that limits it, and each link lists the paths that send on it, which are few. When the
//! rate of a path falls, only paths that watch one of its links can gain; when it rises, only paths
//! that send on a link which now exceeds its capacity can lose. These flows are evaluated in order
//! of criticality, and each change reaches only less critical flows, so that each flow is evaluated
//! at most once per instant and the result is that of the greedy rule on all flows.
//!
//! Criticality changes while flows send. An order that changes between two flows has an effect only
//! if both send on a link that limits the less critical one; a timer fires when it overtakes.
//!
//! A flow with several paths can send slower after it overtakes: its first path may take a bit from
//! a link that two of its later paths need, so that it gains one bit and loses two. The other flow
//! then overtakes it again, at once and without end. So a flow whose paths are several overtakes at
//! most [`OVERTAKES_PER_TURN`] times within its *turn*, one RTT and at least the time of a packet;
//! further overtakings wait for the next turn. Real senders learn their rates no sooner.

use super::core::{Core, Model, NEVER, Timer, later};
use punctual_core::{AGING_UNIT, CriticalOrder, FlowModel, Sharing};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const NONE: u32 = u32::MAX;
/// How often a flow with several paths overtakes others within one turn.
const OVERTAKES_PER_TURN: u32 = 8;

/// A flow's place in the order: deadline, expected time or its substitute, id. Lower is more
/// critical.
type Key = (u64, u64, u32);

/// The state of a path.
#[derive(Clone, Copy, Debug)]
struct PathState {
    rate: f64,
    flow: u32,
    /// The link that limits it, or [`NONE`].
    watched: u32,
    /// Its place in the list of that link.
    place: u32,
}

/// How long a flow has waited, for aging.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Time paused before `since`.
    before: u64,
    /// The start of the present pause, or [`NEVER`].
    since: u64,
    /// Eighths by which the exponent has grown.
    age: u32,
}

/// How often a flow has overtaken others in its present turn.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// When the turn began.
    since: u64,
    /// When the flow overtook last.
    last: u64,
    count: u32,
    /// Whether a timer waits for the next turn.
    is_delayed: bool,
}

/// The model of flows in order of criticality.
pub(super) struct Critical {
    order: CriticalOrder,
    aging: f64,
    early_termination: bool,
    paths: Vec<PathState>,
    waiting: Vec<Waiting>,
    /// The steps of its estimated size that each flow has sent.
    estimates: Vec<u64>,
    has_subflows: bool,
    /// The turns of all flows, if flows have several paths.
    turns: Vec<Turn>,
    /// Bits of a packet on the wire.
    packet_bits: f64,
    /// Overtakings that had to wait for the next turn.
    delayed: u64,
    /// The paths that send on each link.
    sending: Vec<Vec<u32>>,
    /// The paths that each link limits.
    watchers: Vec<Vec<u32>>,
    /// Flows to evaluate, each by itself ([`NONE`]) or as the first of a queue.
    dirty: BinaryHeap<Reverse<(Key, u32)>>,
    is_dirty: Vec<bool>,
    queues: Vec<Queue>,
    free_queues: Vec<u32>,
    /// Memory of queues, for the next ones.
    spare_queues: Vec<BinaryHeap<Reverse<Key>>>,
}

/// Flows that a link limits and that can gain, in order of criticality.
#[derive(Debug, Default)]
struct Queue {
    link: u32,
    flows: BinaryHeap<Reverse<Key>>,
}

impl Critical {
    pub(super) fn new(model: &FlowModel, core: &Core<'_>) -> Self {
        let Sharing::Critical { order, aging, early_termination } = model.sharing else {
            unreachable!("a model without criticality");
        };
        let links = core.capacities.len();
        let path = |flow| PathState { rate: 0.0, flow, watched: NONE, place: 0 };
        let waiting =
            |flow: &super::LevelFlow| Waiting { before: 0, since: flow.start.as_picos(), age: 0 };
        let ages = if aging > 0.0 { core.given } else { &[] };
        let has_subflows = core.paths.path_count() > core.paths.flow_count();
        Critical {
            order,
            aging,
            early_termination,
            paths: core.paths.flows_of_paths().into_iter().map(path).collect(),
            waiting: ages.iter().map(waiting).collect(),
            estimates: match order {
                CriticalOrder::Estimated(_) => vec![0; core.flows.len()],
                _ => Vec::new(),
            },
            has_subflows,
            turns: vec![Turn::default(); if has_subflows { core.flows.len() } else { 0 }],
            packet_bits: (model.payload + model.header).get() as f64 * 8.0,
            delayed: 0,
            sending: vec![Vec::new(); links],
            watchers: vec![Vec::new(); links],
            dirty: BinaryHeap::new(),
            is_dirty: vec![false; core.flows.len()],
            queues: Vec::new(),
            free_queues: Vec::new(),
            spare_queues: Vec::new(),
        }
    }

    /// The place of a flow in the order now.
    #[inline]
    fn key(&self, flow: u32, core: &Core<'_>) -> Key {
        let state = &core.flows[flow as usize];
        match self.order {
            // Times are not negative, so that their bits have their order.
            CriticalOrder::Deadline => {
                (state.deadline, self.expected(flow, core.now, core).to_bits(), flow)
            }
            CriticalOrder::Random => (NEVER, u64::from(core.given[flow as usize].draw), flow),
            CriticalOrder::Estimated(_) => (state.deadline, self.estimates[flow as usize], flow),
        }
    }

    /// The time that a flow needs at its maximum rate from an instant on, divided by its age.
    #[inline]
    fn expected(&self, flow: u32, at: u64, core: &Core<'_>) -> f64 {
        core.flows[flow as usize].expected(at) / self.age_factor(flow)
    }

    /// How much waiting has raised the criticality of a flow.
    #[inline]
    fn age_factor(&self, flow: u32) -> f64 {
        match self.aging > 0.0 {
            true => libm::exp2(f64::from(self.waiting[flow as usize].age) / 8.0),
            false => 1.0,
        }
    }

    fn mark(&mut self, flow: u32, core: &Core<'_>) {
        if core.flows[flow as usize].is_active && !self.is_dirty[flow as usize] {
            self.is_dirty[flow as usize] = true;
            self.dirty.push(Reverse((self.key(flow, core), NONE)));
        }
    }

    /// Queues the flows that a link limits, if they are less critical than `after`. They are
    /// evaluated one after another until the link is full again.
    fn mark_watchers(&mut self, link: u32, after: Option<Key>, core: &Core<'_>) {
        if self.watchers[link as usize].is_empty() {
            return;
        }
        let mut keys = self.spare_queues.pop().unwrap_or_default().into_vec();
        for path in &self.watchers[link as usize] {
            let key = self.key(self.paths[*path as usize].flow, core);
            if after.is_none_or(|after| key > after) {
                keys.push(Reverse(key));
            }
        }
        self.push_queue(Queue { link, flows: BinaryHeap::from(keys) });
    }

    /// Evaluates the first flow of a queue when it is its turn.
    fn push_queue(&mut self, queue: Queue) {
        let Some(&Reverse(key)) = queue.flows.peek() else {
            self.spare_queues.push(queue.flows);
            return;
        };
        let place = self.free_queues.pop().unwrap_or_else(|| {
            self.queues.push(Queue::default());
            self.queues.len() as u32 - 1
        });
        self.queues[place as usize] = queue;
        self.dirty.push(Reverse((key, place)));
    }

    /// Evaluates the first flow of a queue, and queues the rest if the link is not full.
    fn evaluate_queue(&mut self, key: Key, place: u32, core: &mut Core<'_>) {
        let mut queue = std::mem::take(&mut self.queues[place as usize]);
        self.free_queues.push(place);
        // All that follow are less critical and find no more.
        if self.residual(queue.link, NONE, key, core) <= 0.0 {
            queue.flows.clear();
            self.spare_queues.push(queue.flows);
            return;
        }
        queue.flows.pop();
        if core.flows[key.2 as usize].is_active {
            match self.key(key.2, core) == key {
                true => self.evaluate(key, core),
                false => self.mark(key.2, core),
            }
        }
        self.push_queue(queue);
    }

    /// Takes a flow off its links and marks the flows that can gain.
    fn release(&mut self, flow: u32, core: &Core<'_>) {
        for path in core.paths.of(flow) {
            self.watch(path, NONE);
            if self.paths[path as usize].rate > 0.0 {
                self.put(path, 0.0, core);
                for &link in core.paths.links(path) {
                    self.mark_watchers(link, None, core);
                }
            }
        }
    }

    fn load(&self, link: u32) -> f64 {
        let rates = self.sending[link as usize].iter().map(|path| self.paths[*path as usize].rate);
        rates.sum()
    }

    /// Sets which link limits a path.
    fn watch(&mut self, path: u32, link: u32) {
        let PathState { watched, place, .. } = self.paths[path as usize];
        if watched == link {
            return;
        }
        if watched != NONE {
            let list = &mut self.watchers[watched as usize];
            list.swap_remove(place as usize);
            if let Some(moved) = list.get(place as usize) {
                self.paths[*moved as usize].place = place;
            }
        }
        let mut new_place = 0;
        if link != NONE {
            new_place = self.watchers[link as usize].len() as u32;
            self.watchers[link as usize].push(path);
        }
        let state = &mut self.paths[path as usize];
        state.watched = link;
        state.place = new_place;
    }

    /// Sets the rate of a path in the lists of its links.
    fn put(&mut self, path: u32, rate: f64, core: &Core<'_>) {
        let old = std::mem::replace(&mut self.paths[path as usize].rate, rate);
        if (old > 0.0) == (rate > 0.0) {
            return;
        }
        for link in core.paths.links(path) {
            let list = &mut self.sending[*link as usize];
            match rate > 0.0 {
                true => list.push(path),
                false => {
                    let place = list.iter().position(|other| *other == path);
                    list.swap_remove(place.expect("it sends on its links"));
                }
            }
        }
    }

    /// What a link has left for a flow: without more critical flows and its own other paths.
    #[inline]
    fn residual(&self, link: u32, path: u32, key: Key, core: &Core<'_>) -> f64 {
        let mut residual = core.capacities[link as usize];
        for other in &self.sending[link as usize] {
            let PathState { rate, flow, .. } = self.paths[*other as usize];
            // Paths of one flow are served in order. Without a path, none of them counts.
            let is_before = match flow == key.2 {
                true => path != NONE && *other < path,
                false => self.key(flow, core) < key,
            };
            if is_before {
                residual -= rate;
            }
        }
        residual
    }

    /// Computes the rate of a flow and marks the flows that this changes.
    fn evaluate(&mut self, key: Key, core: &mut Core<'_>) {
        core.evaluations += 1;
        let flow = key.2;
        let rate_max = core.flows[flow as usize].rate_max;
        let mut total = 0.0;
        let mut has_changed = false;
        for path in core.paths.of(flow) {
            let PathState { rate: old, watched, .. } = self.paths[path as usize];
            // Most flows that wait still do.
            if old == 0.0 && watched != NONE && self.residual(watched, path, key, core) <= 0.0 {
                continue;
            }
            let (mut rate, mut limit) = (rate_max - total, NONE);
            for link in core.paths.links(path) {
                let residual = self.residual(*link, path, key, core);
                if residual < rate {
                    (rate, limit) = (residual, *link);
                    if rate <= 0.0 {
                        break;
                    }
                }
            }
            let rate = rate.max(0.0);
            has_changed |= limit != watched || rate != old;
            self.watch(path, limit);
            total += rate;
            if rate != old {
                self.put(path, rate, core);
                self.spread(path, rate > old, key, core);
            }
        }
        let before = core.flows[flow as usize].rate;
        if total != before {
            core.set_rate(flow, total);
            self.rate_changed(flow, before, core);
        } else if has_changed {
            self.watch_overtaking(flow, core);
        }
    }

    /// Marks the flows that can gain or lose because the rate of a path has changed.
    fn spread(&mut self, path: u32, has_risen: bool, key: Key, core: &Core<'_>) {
        for &link in core.paths.links(path) {
            let (load, capacity) = (self.load(link), core.capacities[link as usize]);
            if has_risen && load > capacity {
                for i in 0..self.sending[link as usize].len() {
                    let other = self.paths[self.sending[link as usize][i] as usize].flow;
                    if other != key.2 && self.key(other, core) > key {
                        self.mark(other, core);
                    }
                }
            } else if !has_risen && load < capacity {
                self.mark_watchers(link, Some(key), core);
            }
        }
    }

    /// Sets the timers of a flow whose rate has changed.
    fn rate_changed(&mut self, flow: u32, before: f64, core: &mut Core<'_>) {
        let state = core.flows[flow as usize];
        if self.early_termination && state.deadline < NEVER {
            core.set_timer(self.hopeless_at(flow, core), Timer::Hopeless(flow, state.version));
        }
        self.set_estimate_timer(flow, core);
        if self.aging > 0.0 && (state.rate > 0.0) != (before > 0.0) {
            let waiting = &mut self.waiting[flow as usize];
            if state.rate > 0.0 {
                waiting.before += core.now - waiting.since;
                waiting.since = NEVER;
            } else {
                waiting.since = core.now;
                self.set_age_timer(flow, core);
            }
        }
        self.watch_overtaking(flow, core);
    }

    /// Sets timers for flows that overtake this flow, or that this flow overtakes, on a link that
    /// limits the less critical one.
    fn watch_overtaking(&self, flow: u32, core: &mut Core<'_>) {
        if self.order != CriticalOrder::Deadline || core.flows[flow as usize].rate == 0.0 {
            return;
        }
        for path in core.paths.of(flow) {
            let PathState { rate, watched, .. } = self.paths[path as usize];
            if watched != NONE {
                for other in &self.sending[watched as usize] {
                    self.watch_pair(self.paths[*other as usize].flow, flow, core);
                }
            }
            if rate == 0.0 {
                continue;
            }
            for &link in core.paths.links(path) {
                // A path that is limited sends, unless its flow has others.
                let lists = if self.has_subflows { &self.watchers } else { &self.sending };
                for &other in &lists[link as usize] {
                    if self.paths[other as usize].watched == link {
                        self.watch_pair(flow, self.paths[other as usize].flow, core);
                    }
                }
            }
        }
    }

    /// Sets a timer if one flow will overtake another.
    fn watch_pair(&self, ahead: u32, behind: u32, core: &mut Core<'_>) {
        if ahead != behind && self.key(ahead, core) < self.key(behind, core) {
            let at = self.overtaken_at(ahead, behind, core);
            core.set_timer(at, Timer::Overtake(behind));
        }
    }

    /// The first instant at which a flow is more critical than the one ahead of it, if no rate
    /// changes.
    fn overtaken_at(&self, ahead: u32, behind: u32, core: &Core<'_>) -> u64 {
        let (first, second) = (&core.flows[ahead as usize], &core.flows[behind as usize]);
        let pace = |flow: u32| {
            let state = &core.flows[flow as usize];
            state.rate / state.rate_max / self.age_factor(flow)
        };
        let gap = self.expected(behind, core.now, core) - self.expected(ahead, core.now, core);
        let gain = pace(behind) - pace(ahead);
        if first.deadline != second.deadline || gain <= 0.0 || !gap.is_finite() {
            return NEVER;
        }
        // The division is exact up to rounding; the comparison decides, so that the timer fires at
        // the instant at which the keys change their order.
        let has_overtaken = |at: u64| {
            let time = |flow: u32| (self.expected(flow, at, core).to_bits(), flow);
            time(behind) < time(ahead)
        };
        let (mut after, mut step) = (later(core.now, gap / gain).max(core.now + 1), 1);
        while !has_overtaken(after) {
            if after == NEVER {
                return NEVER;
            }
            after = after.saturating_add(step);
            step = step.saturating_mul(2);
        }
        let (mut before, mut step) = (after - 1, 1);
        while before > core.now && has_overtaken(before) {
            before = before.saturating_sub(step).max(core.now);
            step *= 2;
        }
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            *if has_overtaken(middle) { &mut after } else { &mut before } = middle;
        }
        after
    }

    /// A flow overtakes another now, or in its next turn if it has done so too often in this one.
    fn overtake(&mut self, flow: u32, core: &mut Core<'_>) {
        if let Some(turn) = self.turns.get_mut(flow as usize) {
            let state = &core.flows[flow as usize];
            let packet = self.packet_bits / state.rate_max * 1e12;
            let next = turn.since.saturating_add(state.rtt.max(libm::ceil(packet) as u64)).max(1);
            if core.now >= next {
                *turn = Turn { since: core.now, ..Turn::default() };
            } else if turn.count == OVERTAKES_PER_TURN && turn.last < core.now {
                self.delayed += 1;
                if !std::mem::replace(&mut turn.is_delayed, true) {
                    core.set_timer(next, Timer::Overtake(flow));
                }
                return;
            }
            if turn.count == 0 || turn.last < core.now {
                turn.count += 1;
                turn.last = core.now;
            }
        }
        self.mark(flow, core);
    }

    /// Overtakings that had to wait, so that rates may be those of an earlier order.
    #[cfg(test)]
    pub(super) fn delayed(&self) -> u64 {
        self.delayed
    }

    /// When the deadline of a flow becomes impossible to meet, if no rate changes.
    fn hopeless_at(&self, flow: u32, core: &Core<'_>) -> u64 {
        let state = &core.flows[flow as usize];
        let is_known = self.order == CriticalOrder::Deadline;
        let expected = if is_known { state.expected(core.now) } else { 0.0 };
        if state.rate == 0.0 {
            let needed = expected.max(state.rtt as f64);
            let needed = if needed < NEVER as f64 { libm::ceil(needed) as u64 } else { NEVER };
            return state.deadline.checked_sub(needed).map_or(0, |last| last + 1);
        }
        // now + expected(t) grows by 1 − rate / maximum rate per unit of time.
        let slack = state.deadline.saturating_sub(core.now) as f64 - expected;
        if slack < -1.0 {
            return core.now;
        }
        let pace = if is_known { 1.0 - state.rate / state.rate_max } else { 1.0 };
        if pace <= 0.0 { NEVER } else { later(core.now, slack / pace).saturating_add(1) }
    }

    /// Fires when a flow has sent the next step of its estimated size.
    fn set_estimate_timer(&self, flow: u32, core: &mut Core<'_>) {
        let state = core.flows[flow as usize];
        let CriticalOrder::Estimated(step) = self.order else { return };
        let next = (self.estimates[flow as usize] + 1) as f64 * step.get() as f64 * 8.0;
        if state.rate > 0.0 && next < state.size {
            let from = core.now.max(state.resumes);
            let at = later(from, (next - state.sent_by(core.now)) / state.rate * 1e12);
            core.set_timer(at.max(core.now + 1), Timer::Rekey(flow, state.version));
        }
    }

    /// The steps of its estimated size that count for a flow.
    #[cfg(test)]
    pub(super) fn estimate_of(&self, flow: u32) -> u64 {
        self.estimates[flow as usize]
    }

    /// Counts the steps of its estimated size that a flow has sent.
    fn estimate(&mut self, flow: u32, core: &mut Core<'_>) {
        let CriticalOrder::Estimated(step) = self.order else { return };
        // A step that is reached up to rounding counts as reached.
        let steps = core.flows[flow as usize].sent_by(core.now) / (step.get() as f64 * 8.0);
        let steps = libm::floor(steps + 1e-9) as u64;
        if steps > std::mem::replace(&mut self.estimates[flow as usize], steps) {
            // It has become less critical: others may take its place. Its own rate changes when it
            // is evaluated after them.
            self.release(flow, core);
            self.set_estimate_timer(flow, core);
            self.mark(flow, core);
        }
    }

    /// Fires when waiting raises the criticality of a flow the next time.
    fn set_age_timer(&self, flow: u32, core: &mut Core<'_>) {
        let waiting = &self.waiting[flow as usize];
        if waiting.age >= 255 {
            return;
        }
        let step = AGING_UNIT.as_picos() as f64 / (8.0 * self.aging);
        let waited = f64::from(waiting.age + 1) * step - waiting.before as f64;
        let at = later(waiting.since, waited).max(core.now + 1);
        core.set_timer(at, Timer::Rekey(flow, core.flows[flow as usize].version));
    }
}

impl Model for Critical {
    fn start(&mut self, flow: u32, core: &mut Core<'_>) {
        let state = core.flows[flow as usize];
        if self.early_termination && state.deadline < NEVER {
            let at = self.hopeless_at(flow, core);
            if at <= core.now {
                core.abandon(flow);
                return;
            }
            core.set_timer(at, Timer::Hopeless(flow, state.version));
        }
        if self.aging > 0.0 {
            let eighths = 8.0 * self.aging * (core.now - self.waiting[flow as usize].since) as f64
                / AGING_UNIT.as_picos() as f64;
            self.waiting[flow as usize].age = eighths.min(255.0) as u32;
            self.set_age_timer(flow, core);
        }
        self.mark(flow, core);
    }

    fn end(&mut self, flow: u32, core: &mut Core<'_>) {
        self.release(flow, core);
    }

    fn fire(&mut self, timer: Timer, core: &mut Core<'_>) {
        match timer {
            Timer::Hopeless(flow, version) => {
                let state = &core.flows[flow as usize];
                if !state.is_active || state.version != version {
                    return;
                }
                let at = self.hopeless_at(flow, core);
                match at <= core.now {
                    true => core.abandon(flow),
                    false => core.set_timer(at, Timer::Hopeless(flow, version)),
                }
            }
            Timer::Rekey(flow, version) => {
                let state = core.flows[flow as usize];
                if !state.is_active {
                    return;
                }
                if matches!(self.order, CriticalOrder::Estimated(_)) {
                    self.estimate(flow, core);
                } else if state.version == version {
                    self.waiting[flow as usize].age += 1;
                    self.set_age_timer(flow, core);
                    self.mark(flow, core);
                }
            }
            Timer::Overtake(flow) if core.flows[flow as usize].is_active => {
                self.overtake(flow, core);
            }
            _ => {}
        }
    }

    fn solve(&mut self, core: &mut Core<'_>) {
        while let Some(Reverse((key, place))) = self.dirty.pop() {
            if place != NONE {
                self.evaluate_queue(key, place, core);
                continue;
            }
            self.is_dirty[key.2 as usize] = false;
            if !core.flows[key.2 as usize].is_active {
                continue;
            }
            match self.key(key.2, core) == key {
                true => self.evaluate(key, core),
                // It has changed since the flow was marked.
                false => self.mark(key.2, core),
            }
        }
    }
}
