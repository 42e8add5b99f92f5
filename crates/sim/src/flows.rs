//! Flows while a simulation runs. What every packet reads is in one small struct, [`FlowState`].

use punctual_core::{Class, End, FlowId, FlowSpec, HostId, Instant, TransportId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// No slot, timer or neighbour.
pub(crate) const NONE: u32 = u32::MAX;
/// A slot that was used and is closed for good.
pub(crate) const CLOSED: u32 = u32::MAX - 1;

/// The link of a sender that is in no queue of ready senders.
pub(crate) const UNREADY: u32 = u32::MAX - 1;

/// The state of a flow that each of its packets needs, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct FlowState {
    pub(crate) src: HostId,
    pub(crate) dst: HostId,
    pub(crate) sender: u32,
    pub(crate) receiver: u32,
    pub(crate) sender_timer: u32,
    pub(crate) receiver_timer: u32,
    /// The next flow in its NIC's queue of ready senders, or [`UNREADY`].
    next_ready: u32,
    pub(crate) transport: TransportId,
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
            next_ready: UNREADY,
            transport: spec.transport,
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

/// The places of senders in queues of ready senders: each has the next one, [`NONE`] at the end of
/// a queue, or [`UNREADY`].
///
/// A sender has one place for each NIC of its host. With one NIC each, the places are in the flows.
pub(crate) trait ReadyLinks {
    fn next_ready(&mut self, place: u32) -> &mut u32;

    /// What follows a place in its queue.
    fn after(&self, place: u32) -> u32;
}

impl ReadyLinks for [FlowState] {
    #[inline(always)]
    fn next_ready(&mut self, place: u32) -> &mut u32 {
        &mut self[place as usize].next_ready
    }

    fn after(&self, place: u32) -> u32 {
        self[place as usize].next_ready
    }
}

impl ReadyLinks for [u32] {
    fn next_ready(&mut self, place: u32) -> &mut u32 {
        &mut self[place as usize]
    }

    fn after(&self, place: u32) -> u32 {
        self[place as usize]
    }
}

/// Senders of one host that wait for one of its NICs: a FIFO queue for each class, linked through
/// [`ReadyLinks`].
#[derive(Clone, Debug)]
pub(crate) struct ReadyQueues {
    heads: [u32; Class::COUNT],
    tails: [u32; Class::COUNT],
    /// A bit for each queue that is not empty.
    waiting: u8,
    /// A bit for each queue that the network has paused.
    paused: u8,
}

/// Whose turn it is at a NIC of a host that forwards: its senders and its queue, which has what the
/// host forwards, send equal shares of bytes while both have packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NicTurn {
    /// Bytes of the last packet that a sender returned when it was polled.
    polled_bytes: u64,
    /// Bytes that the NIC had sent after that packet.
    sent_bytes: u64,
}

impl NicTurn {
    /// Whether senders go before the queue: it has sent as much as they since the last poll.
    pub(crate) fn is_senders(&self, sent_bytes: u64) -> bool {
        sent_bytes - self.sent_bytes >= self.polled_bytes
    }

    /// A NIC that had sent `before` bytes, and now `after`, has sent a polled packet.
    pub(crate) fn note_polled(&mut self, before: u64, after: u64) {
        (self.polled_bytes, self.sent_bytes) = (after - before, after);
    }
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

    /// Puts a sender at the end of its class's queue, unless it waits already.
    #[inline]
    pub(crate) fn push(
        &mut self,
        links: &mut (impl ReadyLinks + ?Sized),
        place: u32,
        class: Class,
    ) {
        let next = links.next_ready(place);
        if *next != UNREADY {
            return;
        }
        *next = NONE;
        let queue = usize::from(class.0) % Class::COUNT;
        if self.waiting & 1 << queue == 0 {
            self.heads[queue] = place;
            self.waiting |= 1 << queue;
        } else {
            *links.next_ready(self.tails[queue]) = place;
        }
        self.tails[queue] = place;
    }

    /// Calls `each` with the place of every sender that waits.
    pub(crate) fn for_each(&self, links: &(impl ReadyLinks + ?Sized), mut each: impl FnMut(u32)) {
        for queue in (0..Class::COUNT).filter(|queue| self.waiting >> queue & 1 == 1) {
            let mut place = self.heads[queue];
            while place != NONE {
                each(place);
                place = links.after(place);
            }
        }
    }

    /// The place of the sender whose turn it is.
    #[inline]
    pub(crate) fn front(&self) -> Option<u32> {
        self.heads.get((self.waiting & !self.paused).trailing_zeros() as usize).copied()
    }

    /// Takes the sender whose turn it is: the first of the lowest class.
    #[inline]
    pub(crate) fn pop(&mut self, links: &mut (impl ReadyLinks + ?Sized)) -> Option<u32> {
        let queue = (self.waiting & !self.paused).trailing_zeros() as usize;
        if queue >= Class::COUNT {
            return None;
        }
        let place = self.heads[queue];
        let next = std::mem::replace(links.next_ready(place), UNREADY);
        self.heads[queue] = next;
        if next == NONE {
            self.waiting &= !(1 << queue);
        }
        Some(place)
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

    /// The flows whose deadlines change before `end`.
    pub(crate) fn due_before(&self, end: Instant) -> impl Iterator<Item = FlowId> {
        let due = self.due.iter().filter(move |Reverse((at, ..))| *at < end);
        due.map(|&Reverse((_, flow, _))| flow)
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
