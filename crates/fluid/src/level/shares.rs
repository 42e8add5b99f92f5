//! Max-min shares, equal or weighted, with or without reservations before them.
//!
//! When paths join, leave or change, only the links that they share with others, directly or
//! through other paths, are filled again. With equal weights, paths below the level at which the
//! first changed link can fill keep their rates: up to that level all fill as before.

use super::core::{Core, FlowState, Model, NEVER, Timer, later};
use super::fill::{Fill, Item};
use punctual_core::{FlowModel, FlowWindow, Sharing};

/// How often weights are computed again, in RTTs: the time constant of α with a gain of 1/16.
const WEIGHT_RTTS: u64 = 16;
/// The least time between two computations of all weights or requests, 10 µs.
const STEP_MIN: u64 = 10_000_000;

/// A flow that needs its maximum rate for up to 1 ns more than it has is not abandoned: ends fall on
/// whole picoseconds, rounded up.
const ROUNDING: u64 = 1_000;

/// The state of a path.
#[derive(Clone, Copy, Debug)]
struct PathState {
    flow: u32,
    rate: f64,
    /// The order of arrival, for reservations.
    arrival: u32,
    /// Its rate is at most this, by its window.
    ramp: f64,
    /// Whether the fill at hand has it already.
    is_listed: bool,
}

/// The model of fair shares.
pub(super) struct Shares {
    sharing: Sharing,
    window: FlowWindow,
    /// RTTs from the start of a flow until it gets a share.
    share_rtts: f64,
    packet: f64,
    paths: Vec<PathState>,
    /// The active paths on each link.
    members: Vec<Vec<u32>>,
    /// The place of each path in the list of each of its links.
    places: Vec<u32>,
    arrivals: u32,
    active: u32,
    /// Links to fill again.
    changed: Vec<u32>,
    is_changed: Vec<bool>,
    /// Paths below this rate keep it.
    floor: f64,
    step: u64,
    has_step: bool,
    fill: Fill,
    items: Vec<Item>,
    links: Vec<(u32, f64)>,
    slot_of: Vec<u32>,
}

impl Shares {
    pub(super) fn new(model: &FlowModel, core: &Core<'_>) -> Self {
        let links = core.capacities.len();
        let path =
            |flow| PathState { flow, rate: 0.0, arrival: 0, ramp: f64::INFINITY, is_listed: false };
        let rtt = core.flows.iter().map(|flow| flow.rtt).filter(|rtt| *rtt > 0).min().unwrap_or(0);
        let step = match model.sharing {
            Sharing::Weighted { .. } => (WEIGHT_RTTS * rtt).max(STEP_MIN),
            Sharing::Reserved { .. } if rtt > 0 => rtt.max(STEP_MIN),
            _ => NEVER,
        };
        Shares {
            sharing: model.sharing,
            window: model.window,
            share_rtts: model.setup_rtts_without_deadline,
            packet: (model.payload.get() + model.header.get()) as f64 * 8.0,
            paths: core.paths.flows_of_paths().into_iter().map(path).collect(),
            members: vec![Vec::new(); links],
            places: vec![0; core.paths.hop_count()],
            arrivals: 0,
            active: 0,
            changed: Vec::new(),
            is_changed: vec![false; links],
            floor: f64::INFINITY,
            step,
            has_step: false,
            fill: Fill::default(),
            items: Vec::new(),
            links: Vec::new(),
            slot_of: vec![0; links],
        }
    }

    /// Fills the links of a path again; paths below `floor` keep their rates.
    fn touch(&mut self, path: u32, floor: f64, core: &Core<'_>) {
        self.floor = self.floor.min(floor);
        for &link in core.paths.links(path) {
            if !self.is_changed[link as usize] {
                self.is_changed[link as usize] = true;
                self.changed.push(link);
            }
        }
    }

    /// Fills the links of all paths of a flow again.
    fn touch_flow(&mut self, flow: u32, core: &Core<'_>) {
        for path in core.paths.of(flow) {
            self.touch(path, 0.0, core);
        }
    }

    fn join(&mut self, path: u32, core: &Core<'_>) {
        self.paths[path as usize].arrival = self.arrivals;
        self.arrivals += 1;
        for hop in core.paths.hops(path) {
            let link = core.paths.links(path)[hop - core.paths.hops(path).start] as usize;
            self.places[hop] = self.members[link].len() as u32;
            self.members[link].push(path);
        }
    }

    fn leave(&mut self, path: u32, core: &Core<'_>) {
        for (hop, &link) in core.paths.hops(path).zip(core.paths.links(path)) {
            let place = self.places[hop] as usize;
            let list = &mut self.members[link as usize];
            list.swap_remove(place);
            if let Some(&moved) = list.get(place) {
                let own = core.paths.links(moved).iter().position(|other| *other == link);
                let own = own.expect("it crosses the link");
                self.places[core.paths.hops(moved).start + own] = place as u32;
            }
        }
    }

    /// The rate that its window allows a path.
    #[cfg(test)]
    pub(super) fn ramp_of(&self, path: u32) -> f64 {
        self.paths[path as usize].ramp
    }

    /// Collects the paths whose rates can change, and their links with what others leave of them.
    fn collect(&mut self, core: &Core<'_>) {
        self.items.clear();
        self.links.clear();
        for link in self.changed.drain(..) {
            self.slot_of[link as usize] = self.links.len() as u32;
            self.links.push((link, 0.0));
        }
        // `links` grows while it is walked: links of listed paths join it.
        let mut next = 0;
        while next < self.links.len() {
            let link = self.links[next].0;
            let mut residual = core.capacities[link as usize];
            for m in 0..self.members[link as usize].len() {
                let path = self.members[link as usize][m];
                let state = &mut self.paths[path as usize];
                // Rates are rounded, so that the floor is taken a little lower.
                if state.rate > 0.0 && state.rate < self.floor * (1.0 - 1e-9) {
                    residual -= state.rate * core.paths.part(path, link);
                    continue;
                }
                if state.is_listed {
                    continue;
                }
                state.is_listed = true;
                let rate_max = core.flows[state.flow as usize].rate_max.min(state.ramp);
                let is_frozen = false;
                self.items.push(Item { path, weight: 1.0, rate_max, rate: 0.0, is_frozen });
                for &other in core.paths.links(path) {
                    if !self.is_changed[other as usize] {
                        self.is_changed[other as usize] = true;
                        self.slot_of[other as usize] = self.links.len() as u32;
                        self.links.push((other, 0.0));
                    }
                }
            }
            self.links[next].1 = residual;
            next += 1;
        }
        for (link, _) in &self.links {
            self.is_changed[*link as usize] = false;
        }
        for item in &self.items {
            self.paths[item.path as usize].is_listed = false;
        }
        // An order that does not depend on which event came first.
        self.items.sort_unstable_by_key(|item| self.paths[item.path as usize].arrival);
    }

    /// The weight `α^−d` of a path.
    fn weight(&self, path: u32, core: &Core<'_>) -> f64 {
        let Sharing::Weighted { d_min, d_max, d_after_miss, mark_above } = self.sharing else {
            return 1.0;
        };
        let PathState { flow, rate, .. } = self.paths[path as usize];
        let state = &core.flows[flow as usize];
        let (mut window, mut share) = (f64::INFINITY, state.rate_max);
        for &link in core.paths.links(path) {
            let capacity = core.capacities[link as usize];
            let flows = self.members[link as usize].len() as f64;
            let in_flight = capacity * state.data_rtt as f64 / 1e12 / self.packet;
            window = window.min((in_flight + mark_above) / flows);
            share = share.min(capacity / flows);
        }
        let alpha = (2.0 / window).sqrt().min(1.0);
        let time = state.deadline.saturating_sub(core.now) as f64 / 1e12;
        let rate = if rate > 0.0 { rate } else { share };
        let d = match state.deadline {
            NEVER => 1.0,
            _ if time <= 0.0 => d_after_miss,
            _ => (state.left(core.now) / (rate * time)).clamp(d_min, d_max),
        };
        libm::pow(alpha, -d)
    }

    /// What a flow needs to meet its deadline, in bits per second; 0 without a deadline or after.
    fn request(&self, flow: u32, core: &Core<'_>) -> f64 {
        let state = &core.flows[flow as usize];
        if state.deadline == NEVER {
            return 0.0;
        }
        let time = state.deadline.saturating_sub(core.now).saturating_sub(state.rtt);
        if time == 0 {
            return 0.0;
        }
        state.left(core.now) / time as f64 * 1e12
    }

    /// Abandons flows that would need more than their NIC's rate or are late.
    fn quench(&self, core: &mut Core<'_>) {
        if !matches!(self.sharing, Sharing::Reserved { quenching: true }) {
            return;
        }
        for item in &self.items {
            let flow = self.paths[item.path as usize].flow;
            let state = &core.flows[flow as usize];
            let time = state.deadline.saturating_sub(core.now).saturating_sub(state.rtt);
            let most = state.rate_max * time.saturating_add(ROUNDING) as f64 / 1e12;
            // A flow whose last RTT has begun requests nothing and is not late yet.
            let is_too_slow = time > 0 && state.left(core.now) > most;
            if state.deadline < NEVER && (state.deadline <= core.now || is_too_slow) {
                core.abandon(flow);
            }
        }
    }

    /// When a flow gets a share beside its reservation: when flows without one start to send.
    fn shares_from(&self, flow: u32, core: &Core<'_>) -> u64 {
        match self.sharing {
            Sharing::Reserved { .. } => {
                let setup = core.flows[flow as usize].rtt as f64 * self.share_rtts;
                later(core.given[flow as usize].start.as_picos(), setup)
            }
            _ => 0,
        }
    }

    /// Reserves what flows need, in order of arrival, and returns what each got.
    fn reserve(&mut self, core: &Core<'_>) -> Vec<f64> {
        if !matches!(self.sharing, Sharing::Reserved { .. }) {
            return Vec::new();
        }
        let mut reserved = Vec::with_capacity(self.items.len());
        for i in 0..self.items.len() {
            let Item { path, rate_max, .. } = self.items[i];
            let slots =
                || core.paths.links(path).iter().map(|link| self.slot_of[*link as usize] as usize);
            let spare = slots().map(|slot| self.links[slot].1).fold(f64::INFINITY, f64::min);
            let needed = self.request(self.paths[path as usize].flow, core).min(rate_max);
            let rate = needed.min(spare).max(0.0);
            for slot in slots().collect::<Vec<_>>() {
                self.links[slot].1 -= rate;
            }
            let is_new = self.shares_from(self.paths[path as usize].flow, core) > core.now;
            self.items[i].rate_max = if is_new { 0.0 } else { rate_max - rate };
            reserved.push(rate);
        }
        reserved
    }
}

impl Model for Shares {
    fn start(&mut self, flow: u32, core: &mut Core<'_>) {
        let state = core.flows[flow as usize];
        for path in core.paths.of(flow) {
            if let FlowWindow::Fixed(window) | FlowWindow::Doubling(window) = self.window
                && state.data_rtt > 0
            {
                let bits = window.get() as f64 * 8.0;
                self.paths[path as usize].ramp = bits / state.data_rtt as f64 * 1e12;
            }
            self.join(path, core);
            self.active += 1;
            let counts = core.paths.links(path).iter().map(|link| {
                core.capacities[*link as usize] / self.members[*link as usize].len() as f64
            });
            let floor = counts.fold(f64::INFINITY, f64::min);
            self.touch(path, floor.min(self.paths[path as usize].ramp), core);
        }
        if matches!(self.window, FlowWindow::Doubling(_)) && state.data_rtt > 0 {
            core.set_timer(later(core.now, state.data_rtt as f64), Timer::Ramp(flow));
        }
        let shares_from = self.shares_from(flow, core);
        if shares_from > core.now {
            core.set_timer(shares_from, Timer::Deadline(flow));
        }
        if state.deadline < NEVER && !matches!(self.sharing, Sharing::Fair) {
            if state.deadline > core.now {
                core.set_timer(state.deadline, Timer::Deadline(flow));
            }
            if !self.has_step && self.step < NEVER {
                self.has_step = true;
                core.set_timer(core.now.saturating_add(self.step), Timer::Step);
            }
        }
    }

    fn end(&mut self, flow: u32, core: &mut Core<'_>) {
        for path in core.paths.of(flow) {
            if core.flows[flow as usize].size == 0.0 {
                return; // It never joined.
            }
            self.leave(path, core);
            self.active -= 1;
            let rate = std::mem::take(&mut self.paths[path as usize].rate);
            self.touch(path, rate, core);
        }
    }

    fn fire(&mut self, timer: Timer, core: &mut Core<'_>) {
        match timer {
            Timer::Ramp(flow) if core.flows[flow as usize].is_active => {
                let FlowState { rate_max, data_rtt, .. } = core.flows[flow as usize];
                let mut goes_on = false;
                for path in core.paths.of(flow) {
                    let PathState { ramp, rate, .. } = self.paths[path as usize];
                    self.paths[path as usize].ramp = ramp * 2.0;
                    if rate >= ramp {
                        self.touch(path, rate, core);
                    }
                    goes_on |= ramp * 2.0 < rate_max;
                }
                if goes_on {
                    core.set_timer(later(core.now, data_rtt as f64), Timer::Ramp(flow));
                }
            }
            Timer::Deadline(flow) if core.flows[flow as usize].is_active => {
                self.touch_flow(flow, core);
            }
            Timer::Step => {
                self.has_step = false;
                for link in 0..self.members.len() {
                    for m in 0..self.members[link].len() {
                        let path = self.members[link][m];
                        let flow = self.paths[path as usize].flow;
                        if core.flows[flow as usize].deadline < NEVER {
                            self.has_step = true;
                            self.touch(path, 0.0, core);
                        }
                    }
                }
                if self.has_step {
                    core.set_timer(core.now.saturating_add(self.step), Timer::Step);
                }
            }
            _ => {}
        }
    }

    fn solve(&mut self, core: &mut Core<'_>) {
        if self.changed.is_empty() {
            return;
        }
        if !matches!(self.sharing, Sharing::Fair) {
            self.floor = 0.0;
        }
        self.collect(core);
        self.floor = f64::INFINITY;
        self.quench(core);
        if matches!(self.sharing, Sharing::Weighted { .. }) {
            for i in 0..self.items.len() {
                self.items[i].weight = self.weight(self.items[i].path, core);
            }
        }
        let reserved = self.reserve(core);
        let mut items = std::mem::take(&mut self.items);
        self.fill.share(&mut items, &self.links, &self.slot_of, core.paths);
        core.evaluations += items.len() as u64;
        for (i, item) in items.iter().enumerate() {
            let rate = item.rate + reserved.get(i).copied().unwrap_or(0.0);
            self.paths[item.path as usize].rate = rate;
        }
        for item in &items {
            let flow = self.paths[item.path as usize].flow;
            let total = core.paths.of(flow).map(|path| self.paths[path as usize].rate).sum();
            core.set_rate(flow, total);
        }
        self.items = items;
    }
}
