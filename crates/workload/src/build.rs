//! Builds the flows of a run from its traffic specifications.

use crate::MAX_FLOWS;
use crate::error::{Problem, WorkloadError};
use crate::flows::{ClosedLoop, Workload};
use crate::hosts::{HostSet, HostsView};
use crate::list::{FlowList, ListedFlow};
use crate::sizes::{SizeDistribution, Sizes};
use crate::spec::{Arrivals, Deadlines, LoopSpec, Pattern, Senders, TrafficSpec};
use crate::template::{Destination, FlowTemplate, Participants, Seeds, Slot, exponential};
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Class, Duration, FlowId, FlowSpec, HostId, Instant};

/// Draws the flows of a run. Equal arguments give equal flows. Flows that would start at the end of
/// the run or later are left out.
pub fn build(
    specs: &[TrafficSpec],
    hosts: &HostsView,
    duration: Duration,
    seed: u64,
) -> Result<Workload, WorkloadError> {
    let mut workload = Workload::default();
    for (traffic, spec) in specs.iter().enumerate() {
        let built = Traffic::new(traffic, spec, hosts, duration, seed)
            .and_then(|t| t.build())
            .and_then(|built| {
                workload.flows.extend(built.flows);
                workload.closed_loops.push(built.closed_loop);
                workload.arrival_rates.push(built.flows_per_second);
                workload.deadline_changes.push(spec.deadline_change);
                check_count(workload.flows.len() as f64)
            });
        built.map_err(|problem| WorkloadError { traffic, name: spec.name.clone(), problem })?;
    }
    // The sort is stable: it keeps the order of each traffic's flows.
    workload.flows.sort_by_key(|flow| (flow.start, flow.pattern));
    for (i, flow) in workload.flows.iter_mut().enumerate() {
        flow.id = FlowId::from(i);
    }
    Ok(workload)
}

/// The flows of one traffic.
#[derive(Default)]
struct TrafficFlows {
    flows: Vec<FlowSpec>,
    closed_loop: Option<ClosedLoop>,
    /// The expected rate of random arrivals.
    flows_per_second: Option<f64>,
}

/// One traffic of a run, with the hosts that take part.
struct Traffic<'a> {
    spec: &'a TrafficSpec,
    view: &'a HostsView,
    pattern: u16,
    seeds: Seeds,
    participants: Participants,
    until: Instant,
    limit: u64,
}

impl<'a> Traffic<'a> {
    fn new(
        index: usize,
        spec: &'a TrafficSpec,
        view: &'a HostsView,
        duration: Duration,
        seed: u64,
    ) -> Result<Self, Problem> {
        let pattern = u16::try_from(index).map_err(|_| Problem::TooManyTraffics)?;
        if usize::from(spec.class.0) >= Class::COUNT {
            return Err(Problem::Class(spec.class.0));
        }
        let end = Instant::ZERO + duration;
        let until = spec.stop.map_or(end, |stop| stop.min(end));
        if spec.start >= until {
            return Err(Problem::StartsTooLate { start: spec.start, end: until });
        }
        if spec.limit == Some(0) {
            return Err(Problem::Zero("limit"));
        }
        let sets = [spec.hosts.as_ref(), Some(&spec.exclude), spec.from.as_ref(), spec.to.as_ref()];
        for last in sets.into_iter().flatten().filter_map(|set| set.last()) {
            check_host(last, view)?;
        }
        let takes_part = |host: &HostId| {
            spec.hosts.as_ref().is_none_or(|set| set.contains(*host))
                && !spec.exclude.contains(*host)
        };
        let hosts: Vec<HostId> = (0..view.count()).map(HostId).filter(takes_part).collect();
        let group = |key, set: &Option<HostSet>| -> Result<Vec<HostId>, Problem> {
            let is_in = |host: &HostId| set.as_ref().is_none_or(|set| set.contains(*host));
            let group: Vec<HostId> = hosts.iter().copied().filter(is_in).collect();
            match (set, group.is_empty()) {
                (Some(_), true) => Err(Problem::EmptyGroup(key)),
                _ => Ok(group),
            }
        };
        Ok(Traffic {
            spec,
            view,
            pattern,
            seeds: Seeds::new(seed, pattern),
            participants: Participants {
                senders: group("from", &spec.from)?,
                receivers: group("to", &spec.to)?,
                rack_size: view.rack_size.unwrap_or(1).max(1),
            },
            until,
            limit: spec.limit.unwrap_or(u64::MAX),
        })
    }

    fn build(&self) -> Result<TrafficFlows, Problem> {
        if let Pattern::Listed(list) = &self.spec.pattern {
            return Ok(TrafficFlows { flows: self.listed(list)?, ..TrafficFlows::default() });
        }
        let template = self.template()?;
        self.check_settings()?;
        let slots = self.slots(0)?;
        match self.spec.arrivals {
            Arrivals::Together => self.bursts(&template, slots, None),
            Arrivals::Periodic(every) => self.bursts(&template, slots, Some(every)),
            Arrivals::PoissonBursts(mean) => self.bursts(&template, slots, Some(mean)),
            Arrivals::PoissonLoad(load) => {
                let rate = self.rate_of_load(load, &template.sizes, &slots)?;
                let weights = SlotWeights::by_rate(&slots, self.view);
                self.poisson(&template, &slots, rate, &weights)
            }
            Arrivals::PoissonPerSecond(rate) => {
                check_positive("poisson-per-second", rate)?;
                self.poisson(&template, &slots, rate, &SlotWeights::equal(&slots))
            }
            Arrivals::PoissonPerSecondPerSender(rate) => {
                check_positive("poisson-per-second-per-sender", rate)?;
                let senders = sending_hosts(&slots).len();
                self.poisson(&template, &slots, rate * senders as f64, &SlotWeights::equal(&slots))
            }
            Arrivals::ClosedLoop(closed_loop) => self.closed_loop(template, &slots, closed_loop),
        }
    }

    fn template(&self) -> Result<FlowTemplate, Problem> {
        let spec = self.spec;
        let sizes = spec.sizes.distribution()?;
        let adds_deadline = spec.deadline_change.is_some_and(|change| change.deadline.is_some());
        if sizes.is_endless() && (spec.deadlines != Deadlines::None || adds_deadline) {
            return Err(Problem::EndlessDeadline);
        }
        match spec.deadlines {
            Deadlines::Fixed(Duration::ZERO)
            | Deadlines::Uniform(Duration::ZERO, _)
            | Deadlines::Exponential { mean: Duration::ZERO, .. } => {
                return Err(Problem::Zero("deadlines"));
            }
            Deadlines::Uniform(a, b) if a > b => return Err(Problem::DeadlinesReversed(a, b)),
            _ => {}
        }
        Ok(FlowTemplate {
            seeds: self.seeds,
            participants: self.participants.clone(),
            sizes,
            deadlines: spec.deadlines,
            deadlines_below: spec.deadlines_below,
            pattern: self.pattern,
            transport: spec.transport,
            class: spec.class,
            background: spec.background,
        })
    }

    /// Rejects keys that would have no effect.
    fn check_settings(&self) -> Result<(), Problem> {
        let spec = self.spec;
        let no_effect = |key, with| Err(Problem::NoEffect { key, with });
        let (has_bursts, is_closed_loop) = match spec.arrivals {
            Arrivals::Together | Arrivals::Periodic(_) | Arrivals::PoissonBursts(_) => {
                (true, false)
            }
            Arrivals::ClosedLoop(_) => (false, true),
            _ => (false, false),
        };
        if spec.flows_each == 0 {
            return Err(Problem::Zero("flows_each"));
        }
        if !has_bursts && spec.flows_each != 1 {
            return match is_closed_loop {
                true => no_effect("flows_each", "with a closed loop (use its `connections`)"),
                false => no_effect("flows_each", "with Poisson arrivals of single flows"),
            };
        }
        if !has_bursts && !is_closed_loop && !spec.jitter.is_zero() {
            return no_effect("jitter", "with Poisson arrivals of single flows");
        }
        if spec.deadlines_below.is_some() && spec.deadlines == Deadlines::None {
            return no_effect("deadlines_below", "without deadlines");
        }
        let drops_deadline = spec.deadline_change.is_some_and(|change| change.deadline.is_none());
        if drops_deadline && spec.deadlines == Deadlines::None {
            return no_effect("deadline_change", "without deadlines, unless it has a `deadline`");
        }
        match (&spec.pattern, spec.redraw) {
            (Pattern::Stride(_) | Pattern::AllToAll | Pattern::Pairs(_), Some(true)) => {
                no_effect("redraw", "with a pattern that draws nothing")
            }
            (Pattern::Incast { .. } | Pattern::Permutation, Some(true)) if !has_bursts => {
                no_effect("redraw", "on this pattern unless it comes in bursts")
            }
            _ => Ok(()),
        }
    }

    /// The senders and destinations of a burst.
    fn slots(&self, burst: u64) -> Result<Vec<Slot>, Problem> {
        let Participants { senders: hosts, receivers, .. } = &self.participants;
        let count = hosts.len() as u32;
        let mut stream = Stream::named(self.seeds.pattern, "burst", burst);
        let fixed = |src: HostId, dst: HostId| Slot { src, to: Destination::Host(dst) };
        if let Pattern::Pairs(pairs) = &self.spec.pattern {
            if pairs.is_empty() {
                return Err(Problem::Empty("pairs"));
            }
            for &(src, dst) in pairs {
                check_pair(src, dst, self.view)?;
            }
            return Ok(pairs.iter().map(|&(src, dst)| fixed(src, dst)).collect());
        }
        let has_groups = self.spec.from.is_some() || self.spec.to.is_some();
        if count < 2 && !has_groups {
            return Err(Problem::TooFewHosts(count));
        }
        if let [only] = receivers[..]
            && hosts.contains(&only)
            && !(matches!(self.spec.pattern, Pattern::Incast { .. }) && count > 1)
        {
            return Err(Problem::ToItself(only));
        }
        match self.spec.pattern {
            Pattern::Incast { senders, receiver } => self.incast(senders, receiver, &mut stream),
            Pattern::Permutation if has_groups => {
                if let Some(&host) = hosts.iter().find(|host| receivers.contains(host)) {
                    return Err(Problem::InBothGroups(host));
                }
                let (from, to) = (count, receivers.len() as u32);
                if from > to {
                    return Err(Problem::TooFewReceivers { from, to });
                }
                let mut to = receivers.clone();
                stream.shuffle(&mut to);
                Ok(hosts.iter().zip(to).map(|(&a, b)| fixed(a, b)).collect())
            }
            Pattern::Permutation => {
                let to = derangement(hosts, &mut stream);
                Ok(hosts.iter().zip(to).map(|(&a, b)| fixed(a, b)).collect())
            }
            Pattern::Random => Ok(self.drawn(Destination::Anyone, &mut stream)),
            Pattern::Stride(stride) if stride % count == 0 => {
                Err(Problem::WholeStride { stride, hosts: count })
            }
            Pattern::Stride(stride) => {
                let step = (stride % count) as usize;
                let to = hosts.iter().cycle().skip(step);
                Ok(hosts.iter().zip(to).map(|(&a, &b)| fixed(a, b)).collect())
            }
            Pattern::Staggered { local } => {
                self.check_racks(local)?;
                Ok(self.drawn(Destination::Staggered(local), &mut stream))
            }
            Pattern::AllToAll => {
                check_count(f64::from(count) * receivers.len() as f64)?;
                let others = |a: HostId| receivers.iter().filter(move |b| **b != a);
                let from = |&a: &HostId| others(a).map(move |&b| fixed(a, b));
                Ok(hosts.iter().flat_map(from).collect())
            }
            Pattern::Pairs(_) | Pattern::Listed(_) => unreachable!("handled before"),
        }
    }

    /// One slot per sender. Its destination is drawn now, unless each flow draws its own.
    fn drawn(&self, to: Destination, stream: &mut Stream) -> Vec<Slot> {
        let redraw = self.spec.redraw.unwrap_or(true);
        let slot = |&src: &HostId| {
            let slot = Slot { src, to };
            match redraw {
                true => slot,
                false => {
                    Slot { src, to: Destination::Host(self.participants.destination(slot, stream)) }
                }
            }
        };
        self.participants.senders.iter().map(slot).collect()
    }

    fn incast(
        &self,
        senders: Senders,
        receiver: Option<HostId>,
        stream: &mut Stream,
    ) -> Result<Vec<Slot>, Problem> {
        let Participants { senders: hosts, receivers, .. } = &self.participants;
        let receiver = match receiver {
            Some(host) => {
                check_host(host, self.view)?;
                if receivers.binary_search(&host).is_err() {
                    return Err(Problem::ReceiverLeftOut(host));
                }
                host
            }
            None => receivers[stream.below(receivers.len() as u64) as usize],
        };
        let others: Vec<HostId> = hosts.iter().copied().filter(|h| *h != receiver).collect();
        let possible = others.len() as u32;
        if possible == 0 {
            return Err(Problem::ToItself(receiver));
        }
        let wanted = match senders {
            Senders::All => possible,
            Senders::Hosts(0) => return Err(Problem::Zero("senders")),
            Senders::Workers(0) => return Err(Problem::Zero("workers")),
            Senders::Hosts(wanted) if wanted > possible => {
                return Err(Problem::TooManySenders { wanted, possible });
            }
            Senders::Hosts(wanted) | Senders::Workers(wanted) => wanted,
        };
        check_count(f64::from(wanted))?;
        // Whole rounds over all other hosts, then a random subset of them; each in order of hosts.
        let mut part = others.clone();
        stream.shuffle(&mut part);
        part.truncate((wanted % possible) as usize);
        part.sort();
        let rounds = (0..wanted / possible).flat_map(|_| &others);
        let slot = |&src: &HostId| Slot { src, to: Destination::Host(receiver) };
        Ok(rounds.chain(&part).map(slot).collect())
    }

    fn check_racks(&self, local: f64) -> Result<(), Problem> {
        if !(0.0..=1.0).contains(&local) {
            return Err(Problem::Local(local));
        }
        if self.view.rack_size.is_none() {
            return Err(Problem::NoRacks);
        }
        for &host in &self.participants.senders {
            let mates = self.participants.rack(host).len();
            let place = if local > 0.0 && mates < 2 {
                "in its rack"
            } else if local < 1.0 && mates == self.participants.receivers.len() {
                "in another rack"
            } else {
                continue;
            };
            return Err(Problem::NoNeighbour { host, place, local });
        }
        Ok(())
    }

    /// Bursts of all slots: one at the start, or one per interval.
    fn bursts(
        &self,
        template: &FlowTemplate,
        mut slots: Vec<Slot>,
        every: Option<Duration>,
    ) -> Result<TrafficFlows, Problem> {
        let span = self.until - self.spec.start;
        let poisson = matches!(self.spec.arrivals, Arrivals::PoissonBursts(_));
        if every == Some(Duration::ZERO) {
            return Err(Problem::Zero(if poisson { "poisson-bursts" } else { "periodic" }));
        }
        let each = slots.len() as f64 * f64::from(self.spec.flows_each);
        let bursts = every.map_or(1.0, |e| 1.0 + span.as_secs_f64() / e.as_secs_f64());
        check_count((each * bursts).min(self.limit as f64))?;

        let redraw = self.spec.redraw == Some(true);
        let mut times = Stream::named(self.seeds.arrivals, "bursts", 0);
        let mut next = |after: Instant| match every {
            Some(mean) if poisson => after.saturating_add(exponential(&mut times, mean)),
            Some(every) => after.saturating_add(every),
            None => Instant::NEVER,
        };
        let mut at = match poisson {
            true => next(self.spec.start),
            false => self.spec.start,
        };
        let (mut flows, mut number, mut burst) = (Vec::new(), 0, 0);
        while at < self.until && number < self.limit {
            if redraw && burst > 0 {
                slots = self.slots(burst)?;
            }
            let all = (0..self.spec.flows_each).flat_map(|_| &slots);
            for (&slot, n) in all.zip(number..self.limit) {
                let start = at.saturating_add(self.jitter(n));
                if start < self.until {
                    flows.push(template.flow(slot, n, start));
                }
                number = n + 1;
            }
            at = next(at);
            burst += 1;
        }
        let flows_per_second = every.filter(|_| poisson).map(|mean| each / mean.as_secs_f64());
        Ok(TrafficFlows { flows, flows_per_second, ..TrafficFlows::default() })
    }

    fn jitter(&self, number: u64) -> Duration {
        let below = self.spec.jitter.as_picos().max(1);
        Duration::from_picos(Stream::named(self.seeds.jitter, "flow", number).below(below))
    }

    /// Flows per second that put `load` on the NICs of all sending hosts together.
    fn rate_of_load(
        &self,
        load: f64,
        sizes: &SizeDistribution,
        slots: &[Slot],
    ) -> Result<f64, Problem> {
        check_positive("poisson-load", load)?;
        let mean = sizes.mean().ok_or(Problem::EndlessLoad)?;
        let hosts = sending_hosts(slots);
        let senders = hosts.len() as f64;
        let sum: u64 = hosts.iter().map(|host| self.view.nic_rate(*host).as_bps()).sum();
        let mean_rate = sum as f64 / senders;
        let rate = load * mean_rate * senders / (8.0 * mean);
        check_positive("poisson-load times the rate of the hosts", rate)?;
        Ok(rate)
    }

    /// Single flows as a Poisson process of `rate` per second, from slots drawn by `weights`.
    fn poisson(
        &self,
        template: &FlowTemplate,
        slots: &[Slot],
        rate: f64,
        weights: &SlotWeights,
    ) -> Result<TrafficFlows, Problem> {
        let span = (self.until - self.spec.start).as_secs_f64();
        check_count((rate * span).min(self.limit as f64))?;
        let mut gaps = Stream::named(self.seeds.arrivals, "flows", 0);
        let mut senders = Stream::named(self.seeds.senders, "flows", 0);
        let mut flows = Vec::new();
        let mut at = self.spec.start;
        for number in 0..self.limit {
            at = at.saturating_add(Duration::from_secs_f64(gaps.exponential(1.0) / rate));
            if at >= self.until {
                break;
            }
            let slot = slots[weights.draw(&mut senders)];
            flows.push(template.flow(slot, number, at));
        }
        Ok(TrafficFlows { flows, flows_per_second: Some(rate), ..TrafficFlows::default() })
    }

    fn closed_loop(
        &self,
        template: FlowTemplate,
        slots: &[Slot],
        spec: LoopSpec,
    ) -> Result<TrafficFlows, Problem> {
        if spec.connections == 0 {
            return Err(Problem::Zero("connections"));
        }
        if template.sizes.is_endless() {
            return Err(Problem::EndlessLoop);
        }
        check_count(slots.len() as f64 * f64::from(spec.connections))?;
        let mut connections: Vec<Slot> = Vec::new();
        // If destinations are drawn once, each connection of a sender draws its own.
        let drawn_once = self.spec.redraw == Some(false)
            && matches!(self.spec.pattern, Pattern::Random | Pattern::Staggered { .. });
        for round in 0..u64::from(spec.connections) {
            match drawn_once {
                true => connections.extend(self.slots(round)?),
                false => connections.extend(slots),
            }
        }
        let start = |number| self.spec.start.saturating_add(self.jitter(number));
        let (closed_loop, flows) =
            ClosedLoop::new(template, spec.gap, &connections, self.until, self.limit, start);
        Ok(TrafficFlows { flows, closed_loop: Some(closed_loop), ..TrafficFlows::default() })
    }

    fn listed(&self, list: &FlowList) -> Result<Vec<FlowSpec>, Problem> {
        let flows = match list {
            FlowList::File(file) => return Err(Problem::NotLoaded(file.path.clone())),
            FlowList::Flows(flows) if flows.is_empty() => return Err(Problem::Empty("flows")),
            FlowList::Flows(flows) => flows,
        };
        if self.spec.sizes != Sizes::Listed {
            return Err(Problem::SizesOfList);
        }
        check_count(flows.len() as f64)?;
        let mut built = Vec::with_capacity(flows.len());
        for (i, flow) in flows.iter().enumerate() {
            self.check_listed(flow)
                .map_err(|problem| Problem::Listed { flow: i + 1, problem: Box::new(problem) })?;
            let start = self.spec.start.saturating_add(flow.start);
            if start < self.until && (built.len() as u64) < self.limit {
                built.push(FlowSpec {
                    id: FlowId(0),
                    src: flow.src,
                    dst: flow.dst,
                    size: flow.size,
                    start,
                    deadline: flow.deadline.map(|after| start.saturating_add(after)),
                    transport: flow.transport.unwrap_or(self.spec.transport),
                    class: self.spec.class,
                    background: self.spec.background,
                    pattern: self.pattern,
                });
            }
        }
        Ok(built)
    }

    fn check_listed(&self, flow: &ListedFlow) -> Result<(), Problem> {
        check_pair(flow.src, flow.dst, self.view)?;
        match (flow.size, flow.deadline) {
            (Bytes::ZERO, _) => Err(Problem::Zero("size")),
            (_, Some(Duration::ZERO)) => Err(Problem::Zero("deadline")),
            (Bytes::ENDLESS, Some(_)) => Err(Problem::EndlessDeadline),
            _ => Ok(()),
        }
    }
}

/// A random permutation without fixed points. It takes e ≈ 2.7 shuffles on average.
fn derangement(hosts: &[HostId], stream: &mut Stream) -> Vec<HostId> {
    let mut order = hosts.to_vec();
    loop {
        stream.shuffle(&mut order);
        if order.iter().zip(hosts).all(|(a, b)| a != b) {
            return order;
        }
    }
}

/// The hosts that send, each once.
fn sending_hosts(slots: &[Slot]) -> Vec<HostId> {
    let mut senders: Vec<HostId> = slots.iter().map(|slot| slot.src).collect();
    senders.sort();
    senders.dedup();
    senders
}

/// Draws the slot that sends next, with probabilities in proportion to weights.
struct SlotWeights {
    /// Cumulative weights of the slots.
    ends: Vec<u64>,
}

impl SlotWeights {
    /// All slots have the same probability.
    fn equal(slots: &[Slot]) -> Self {
        SlotWeights { ends: (1..=slots.len() as u64).collect() }
    }

    /// The probability of a slot is proportional to the NIC rate of its host.
    fn by_rate(slots: &[Slot], view: &HostsView) -> Self {
        let rate = |slot: &Slot| view.nic_rate(slot.src).as_bps();
        // Dividing by the common divisor keeps the sum of many slots from overflowing.
        let unit = slots.iter().map(rate).fold(0, gcd).max(1);
        let sum = |sum: &mut u64, slot: &Slot| {
            *sum += rate(slot) / unit;
            Some(*sum)
        };
        SlotWeights { ends: slots.iter().scan(0, sum).collect() }
    }

    fn draw(&self, stream: &mut Stream) -> usize {
        let sum = self.ends.last().copied().unwrap_or(0).max(1);
        let drawn = stream.below(sum);
        self.ends.partition_point(|end| *end <= drawn)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn check_count(flows: f64) -> Result<(), Problem> {
    match flows <= f64::from(MAX_FLOWS) {
        true => Ok(()),
        false => Err(Problem::TooManyFlows(flows)),
    }
}

fn check_positive(key: &'static str, value: f64) -> Result<(), Problem> {
    match value > 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(Problem::NotPositive { key, value }),
    }
}

fn check_host(host: HostId, view: &HostsView) -> Result<(), Problem> {
    match host.0 < view.count() {
        true => Ok(()),
        false => Err(Problem::UnknownHost { host, count: view.count() }),
    }
}

fn check_pair(src: HostId, dst: HostId, view: &HostsView) -> Result<(), Problem> {
    check_host(src, view)?;
    check_host(dst, view)?;
    match src != dst {
        true => Ok(()),
        false => Err(Problem::ToItself(src)),
    }
}
