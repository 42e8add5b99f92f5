//! The controller of every output port, the hosts' included: it allocates a capacity to flows,
//! keeping three sums and no state per flow, and adapts that capacity to utilisation and queue.

use super::capacity::{FULLY_GRANTED, PortLoad};
use super::config::{D3CommonConfig, QueueMeasure};
use super::header::{D3Header, Grant, HOPS_MAX, RATE_UNIT, RateBlock};
use super::inversions::Inversions;
use punctual_core::{Controller, ControllerState, ExtArena, Instant, Packet, PortView, Rate};

/// Where a rate request stands in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// The flow's first request.
    New,
    /// A request between the first and the last.
    Running,
    /// The flow's last request, which only returns its grants.
    Last,
}

impl RequestKind {
    /// By the flags of the packet that carries it.
    pub fn of(header: &D3Header) -> Self {
        if header.has(D3Header::FIN) {
            RequestKind::Last
        } else if header.has(D3Header::SYN) {
            RequestKind::New
        } else {
            RequestKind::Running
        }
    }
}

/// The sums that a port keeps, and the allocation from them. Rates are whole bits per second, so
/// that flows return exactly what was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Allocator {
    /// C, the capacity to allocate.
    pub capacity: Rate,
    /// N, the number of flows through the port.
    pub flows: u64,
    /// D, the sum of their desired rates.
    pub demand: Rate,
    /// A, the sum of their grants.
    pub allocated: Rate,
    /// The part of D that important flows desire.
    pub demand_important: Rate,
    /// The part of A that important flows hold.
    pub allocated_important: Rate,
}

impl Allocator {
    /// A port without flows.
    pub fn new(line_rate: Rate) -> Self {
        Allocator { capacity: line_rate, ..Allocator::default() }
    }

    /// The fair share, `(C − D) / N`, at least 0 (D3-R14).
    pub fn fair_share(&self) -> Rate {
        let spare = self.capacity.saturating_sub(self.demand);
        Rate::from_bps(spare.as_bps() / self.flows.max(1))
    }

    /// Subtracts the flow's previous grant, makes a new one and writes it into the block. Returns
    /// false if the block has no room for it; the sums are then unchanged.
    pub fn handle_request(
        &mut self,
        block: &mut RateBlock,
        kind: RequestKind,
        base_rate: Rate,
    ) -> bool {
        let hop = usize::from(block.index);
        if hop >= HOPS_MAX || block.granted.len() >= HOPS_MAX {
            block.overflow = true; // D3-R09
            return false;
        }
        block.index += 1;
        // D3-R11: the flow returns its grant. Sums stop at 0 (D3-R18), so that a request counted
        // twice cannot make them wrap.
        let returned = block.granted_before.get(hop).map_or(Rate::ZERO, Grant::counted);
        let desired = match kind {
            // D3-R12
            RequestKind::Last => {
                self.flows = self.flows.saturating_sub(1);
                Rate::ZERO
            }
            RequestKind::New => {
                self.flows += 1;
                block.desired
            }
            RequestKind::Running => block.desired,
        };
        let change = |demand: &mut Rate, allocated: &mut Rate| {
            *demand = demand.saturating_add(desired).saturating_sub(block.desired_before);
            *allocated = allocated.saturating_sub(returned);
        };
        change(&mut self.demand, &mut self.allocated);
        if block.important {
            change(&mut self.demand_important, &mut self.allocated_important);
        }
        if kind == RequestKind::Last {
            return true;
        }
        let grant = self.grant(block, hop, kind, base_rate);
        self.allocated = self.allocated.saturating_add(grant.counted());
        if block.important {
            self.allocated_important = self.allocated_important.saturating_add(grant.counted());
        }
        block.granted.push(grant);
        true
    }

    /// The capacity left for a request. The demand of important flows is reserved, even before it
    /// is granted (D3-R36).
    fn left_for(&self, block: &RateBlock) -> Rate {
        let left = self.capacity.saturating_sub(self.allocated);
        if block.important {
            return left;
        }
        left.saturating_sub(self.demand_important.saturating_sub(self.allocated_important))
    }

    fn grant(&self, block: &RateBlock, hop: usize, kind: RequestKind, base_rate: Rate) -> Grant {
        let left = self.left_for(block);
        let mut rate = if left > block.desired {
            // D3-R15: a new flow waits for its share, which other flows may still hold.
            let share = match kind {
                RequestKind::New => base_rate,
                _ => self.fair_share(),
            };
            block.desired.saturating_add(share)
        } else {
            left
        };
        if block.scale > 0 {
            // D3-R32: round to one byte. A share below a step is a step while one is left;
            // otherwise no flow would move when there are more flows than steps.
            let step = RATE_UNIT.as_bps() * u64::from(block.scale);
            let whole = (rate.as_bps() / step).min(u64::from(u8::MAX)) * step;
            let lifted = whole == 0 && kind == RequestKind::Running && left.as_bps() >= step;
            rate = Rate::from_bps(if lifted { step } else { whole });
        }
        // D3-R17: at most the previous port's grant; its base mark stands for the base rate.
        if let Some(before) = hop.checked_sub(1).and_then(|hop| block.granted.get(hop)) {
            match before {
                Grant::Rate(limit) => rate = rate.min(limit),
                Grant::Base => return Grant::Base,
            }
        }
        // D3-R16: at least the base rate, which is marked and not counted.
        if rate <= base_rate { Grant::Base } else { Grant::Rate(rate) }
    }

    /// Whether A has reached 95 % of C, so that some flow is bottlenecked here (D3-R44).
    pub(super) fn is_fully_granted(&self) -> bool {
        self.allocated.as_bps() as f64 >= FULLY_GRANTED * self.capacity.as_bps() as f64
    }

    /// One step of the capacity law.
    pub fn adapt(&mut self, params: &D3CommonConfig, load: &PortLoad) {
        self.capacity = load.next_capacity(params, self.capacity);
    }
}

/// D3's and RCPdc's controller of a port: the allocator and its timer.
#[derive(Clone, Debug)]
pub struct D3Port {
    params: D3CommonConfig,
    allocator: Allocator,
    clock: Option<Clock>,
    requests_refused: u64,
    inversions: Option<Box<Inversions>>,
}

/// How many least timeouts a port waits without data before it resets its sums: flows that lost all
/// their data send again after one, and then after two more (D3-R45).
const TIMEOUTS_WITHOUT_DATA: u64 = 4;

/// The current interval; the timer stops after several intervals without a request.
#[derive(Clone, Copy, Debug)]
struct Clock {
    interval_start: Instant,
    sent_bytes_at_start: u64,
    last_request: Instant,
    /// When data last passed (D3-R45).
    last_data: Instant,
    /// The shortest queue that a packet of this interval found (D3-R37); `u64::MAX` before any.
    queue_bytes_least: u64,
    /// Whether A had reached 95 % of C when this interval began (D3-R44).
    was_fully_granted: bool,
    /// C in the interval before the last, and in the last.
    capacities_before: [Rate; 2],
}

impl D3Port {
    /// A port without flows.
    pub fn new(params: &D3CommonConfig, line_rate: Rate) -> Self {
        let allocator = Allocator::new(line_rate);
        D3Port {
            params: params.clone(),
            allocator,
            clock: None,
            requests_refused: 0,
            inversions: None,
        }
    }

    /// Makes the port count priority inversions.
    pub fn counting_inversions(mut self) -> Self {
        self.inversions = Some(Box::default());
        self
    }

    /// Priority inversions, if it counts them.
    pub fn inversions(&self) -> Option<&Inversions> {
        self.inversions.as_deref()
    }

    /// The sums that it keeps.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// Requests refused because the path has more ports than a block of rates has room for.
    pub fn requests_refused(&self) -> u64 {
        self.requests_refused
    }
}

impl Controller for D3Port {
    fn gauges(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("flows", self.allocator.flows as f64);
        tell("demand_bps", self.allocator.demand.as_bps() as f64);
        tell("allocated_bps", self.allocator.allocated.as_bps() as f64);
        tell("capacity_bps", self.allocator.capacity.as_bps() as f64);
    }

    fn handle_forward(&mut self, packet: &mut Packet, port: &PortView, ext: &mut ExtArena) {
        if let Some(clock) = &mut self.clock {
            clock.queue_bytes_least = clock.queue_bytes_least.min(port.queue_bytes);
            if packet.payload_bytes > 0 {
                clock.last_data = port.now;
            }
        }
        // D3-R10: a packet without a request passes unchanged.
        let header: D3Header = packet.header.get();
        if packet.is_to_sender() || !header.has(D3Header::REQUEST) {
            return;
        }
        let Some(id) = packet.ext else { return };
        let Some(mut block) = RateBlock::for_port(ext.get(id)) else {
            return;
        };
        match &mut self.clock {
            Some(clock) => clock.last_request = port.now,
            None => {
                self.allocator = Allocator::new(port.rate);
                self.clock = Some(Clock {
                    interval_start: port.now,
                    sent_bytes_at_start: port.sent_bytes,
                    last_request: port.now,
                    last_data: port.now,
                    queue_bytes_least: port.queue_bytes,
                    was_fully_granted: false,
                    capacities_before: [port.rate; 2],
                });
            }
        }
        let kind = RequestKind::of(&header);
        if !self.allocator.handle_request(&mut block, kind, self.params.base_rate) {
            self.requests_refused += 1;
        } else if let Some(inversions) = &mut self.inversions {
            inversions.handle_request(packet.flow, kind, &block);
        }
        block.write_grants(ext.get_mut(id));
    }

    fn handle_timeout(&mut self, port: &PortView) {
        let Some(clock) = &mut self.clock else { return };
        let interval = port.now.saturating_since(clock.interval_start);
        if interval < self.params.update_interval {
            return;
        }
        let silence = port.now.saturating_since(clock.last_request);
        let without_data = port.now.saturating_since(clock.last_data);
        let patience = self.params.update_interval * u64::from(self.params.reset_intervals);
        // D3-R22: every live flow sends a request per RTT, so no flow is left. D3-R45: flows are
        // left, but none of them holds what the sums say.
        let data_patience = patience.max(self.params.rto_min * TIMEOUTS_WITHOUT_DATA);
        if silence >= patience || without_data >= data_patience {
            self.allocator = Allocator::new(port.rate);
            self.clock = None;
            if let Some(inversions) = &mut self.inversions {
                inversions.forget_flows();
            }
            return;
        }
        let [capacity_before, last] = clock.capacities_before;
        clock.capacities_before = [last, self.allocator.capacity];
        if self.allocator.flows > 0 || self.allocator.allocated > Rate::ZERO {
            let load = PortLoad {
                line_rate: port.rate,
                interval,
                sent_bytes: port.sent_bytes.saturating_sub(clock.sent_bytes_at_start),
                queue_bytes: match self.params.effective_queue_measure() {
                    QueueMeasure::Least => port.queue_bytes.min(clock.queue_bytes_least),
                    QueueMeasure::Instant => port.queue_bytes,
                },
                was_fully_granted: clock.was_fully_granted,
                capacity_before,
            };
            self.allocator.adapt(&self.params, &load);
        }
        clock.interval_start = port.now;
        clock.sent_bytes_at_start = port.sent_bytes;
        clock.queue_bytes_least = u64::MAX;
        clock.was_fully_granted = self.allocator.is_fully_granted();
    }

    fn next_timeout(&self) -> Option<Instant> {
        let clock = self.clock.as_ref()?;
        Some(clock.interval_start.saturating_add(self.params.update_interval))
    }

    fn reset(&mut self) {
        self.allocator = Allocator::default(); // the next request sets the capacity
        self.clock = None;
        if let Some(inversions) = &mut self.inversions {
            inversions.forget_flows();
        }
    }

    fn state(&self) -> ControllerState {
        let sums = &self.allocator;
        let counted = |count: fn(&Inversions) -> u64| self.inversions.as_deref().map_or(0, count);
        ControllerState {
            flows: sums.flows,
            capacity: sums.capacity,
            demand: sums.demand,
            allocated: sums.allocated,
            sending: None,
            share_min: self.params.base_rate,
            deadline_requests: counted(Inversions::requests),
            inversions: counted(Inversions::inverted),
        }
    }
}
