//! Flows while a simulation runs. What every packet reads is in one small struct, [`FlowState`].

use punctual_core::{Class, End, FlowId, FlowSpec, HostId, Instant, TransportId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// No slot, timer or neighbour.
pub(crate) const NONE: u32 = u32::MAX;
/// A slot that was used and is closed for good.
pub(crate) const CLOSED: u32 = u32::MAX - 1;

/// The state of a flow that each of its packets needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowState {
    pub(crate) src: HostId,
    pub(crate) dst: HostId,
    pub(crate) sender: u32,
    pub(crate) receiver: u32,
    pub(crate) sender_timer: u32,
    pub(crate) receiver_timer: u32,
    /// The next flow in its NIC's queue of ready senders.
    next_ready: u32,
    pub(crate) transport: TransportId,
    is_ready: bool,
}

impl FlowState {
    pub(crate) fn new(spec: &FlowSpec) -> Self {
        FlowState {
            src: spec.src,
            dst: spec.dst,
            sender: NONE,
            receiver: NONE,
            sender_timer: NONE,
            receiver_timer: NONE,
            next_ready: NONE,
            transport: spec.transport,
            is_ready: false,
        }
    }

    /// The slot of one end in its stack, and its host.
    #[inline(always)]
    pub(crate) fn endpoint(&self, end: End) -> (u32, HostId) {
        match end {
            End::Sender => (self.sender, self.src),
            End::Receiver => (self.receiver, self.dst),
        }
    }
}

/// Senders of one host that wait for its NIC: a FIFO queue for each class, linked through the flows.
#[derive(Clone, Debug)]
pub(crate) struct ReadyQueues {
    heads: [u32; Class::COUNT],
    tails: [u32; Class::COUNT],
    /// A bit for each queue that is not empty.
    waiting: u8,
    /// A bit for each queue that the network has paused.
    paused: u8,
}

impl Default for ReadyQueues {
    fn default() -> Self {
        ReadyQueues {
            heads: [NONE; Class::COUNT],
            tails: [NONE; Class::COUNT],
            waiting: 0,
            paused: 0,
        }
    }
}

impl ReadyQueues {
    /// Whether no sender of a class that is not paused waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting & !self.paused == 0
    }

    /// Whether no sender waits and no class is paused.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.waiting | self.paused == 0
    }

    /// Pauses or resumes a class.
    pub(crate) fn set_paused(&mut self, class: Class, is_paused: bool) {
        let bit = 1 << (usize::from(class.0) % Class::COUNT);
        self.paused = if is_paused { self.paused | bit } else { self.paused & !bit };
    }

    /// Puts a flow at the end of its class's queue, unless it waits already.
    #[inline]
    pub(crate) fn push(&mut self, flows: &mut [FlowState], flow: FlowId, class: Class) {
        let state = &mut flows[flow.index()];
        if state.is_ready {
            return;
        }
        state.is_ready = true;
        state.next_ready = NONE;
        let queue = usize::from(class.0) % Class::COUNT;
        if self.waiting & 1 << queue == 0 {
            self.heads[queue] = flow.0;
            self.waiting |= 1 << queue;
        } else {
            flows[self.tails[queue] as usize].next_ready = flow.0;
        }
        self.tails[queue] = flow.0;
    }

    /// Takes the flow whose turn it is: the first of the lowest class.
    #[inline]
    pub(crate) fn pop(&mut self, flows: &mut [FlowState]) -> Option<FlowId> {
        let queue = (self.waiting & !self.paused).trailing_zeros() as usize;
        if queue >= Class::COUNT {
            return None;
        }
        let flow = FlowId(self.heads[queue]);
        let state = &mut flows[flow.index()];
        state.is_ready = false;
        self.heads[queue] = state.next_ready;
        if state.next_ready == NONE {
            self.waiting &= !(1 << queue);
        }
        Some(flow)
    }
}

/// Changes of deadlines that are to come, and the first deadlines of flows.
#[derive(Debug, Default)]
pub(crate) struct DeadlineChanges {
    due: BinaryHeap<Reverse<(Instant, FlowId, Option<Instant>)>>,
    before: BTreeMap<FlowId, Option<Instant>>,
}

impl DeadlineChanges {
    pub(crate) fn push(&mut self, at: Instant, flow: FlowId, deadline: Option<Instant>) {
        self.due.push(Reverse((at, flow, deadline)));
    }

    /// When the next change is due.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.due.peek().map(|&Reverse((at, ..))| at)
    }

    /// Takes out the next change that is due by `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(FlowId, Option<Instant>)> {
        self.next_at().filter(|at| *at <= now)?;
        self.due.pop().map(|Reverse((_, flow, deadline))| (flow, deadline))
    }

    /// Stores the deadline that a flow was started with.
    pub(crate) fn remember(&mut self, flow: FlowId, before: Option<Instant>) {
        self.before.entry(flow).or_insert(before);
    }

    /// Takes out the deadline that a flow was started with, if it was changed since.
    pub(crate) fn take_first(&mut self, flow: FlowId) -> Option<Option<Instant>> {
        self.before.remove(&flow)
    }
}
