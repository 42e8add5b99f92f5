//! A shard: the share of a network that one thread simulates.
//!
//! A shard is an engine of its own, with the hosts, switches, ports, packets and timers of its
//! share. It numbers nodes, ports and flows as the whole network does, and has idle copies of those
//! that belong to others. Events of the scenario happen in every shard, each to what it owns.
//!
//! * **Packets** that leave a shard arrive at least one window later. They cross at the end of the
//!   window, by [`Mail`].
//! * **Flows** have two ends, and each end acts at once on what the other one does: a receiver closes
//!   when its sender ends, and a sender that abandons its flow asks whether it is complete. Where
//!   that may have happened in the running window, the end waits until the other shard has come as
//!   far as itself, and reads the [`Board`].

use crate::engine::Engine;
use crate::events::EventClass;
use crate::flows::{CLOSED, NONE};
use crate::lossless::PauseFrame;
use crate::scenario_events::ScenarioEvent;
use crate::setup::Setup;
use crate::state::{must_end, transports_that};
use crate::tap::{Ending, Findings, Observation, Tap};
use crate::timers::Owner;
use crate::windows::Upcoming;
use punctual_core::{
    End, ExtBlock, FlowId, FlowSpec, FlowStack, Instant, NodeId, Packet, PacketId, PortId,
    TransportSet,
};
use punctual_record::FlowStatus;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What one end of a flow has to know about the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The sender has ended, so that the receiver closes.
    SenderEnded,
    /// The receiver has everything.
    Completed,
}

/// What one shard sends another at the end of a window. Its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    packets: Vec<Packet>,
    /// Of each packet.
    arrivals: Vec<Arrival>,
    /// Header extensions of those packets that have one, in their order.
    blocks: Vec<ExtBlock>,
    news: Vec<(FlowId, News)>,
    /// Pause frames: when they arrive, the ports that send them, and what they say.
    frames: Vec<(Instant, PortId, PauseFrame)>,
    ended: Vec<EndedFlow>,
}

/// When an event of a window is handled among those of all shards.
///
/// An event may push another one for the same instant, which comes next although its order is
/// earlier. No event of another shard that is later than the first comes between the two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    /// The latest order among the shard's events so far, see [`Windows::order`].
    ///
    /// [`Windows::order`]: crate::windows::Windows::order
    latest: u64,
    /// The latest order among those handled since; 0 for the event that has the latest order.
    since: u64,
}

impl Turn {
    /// The turn of the shard's next event.
    #[inline(always)]
    fn next(self, order: u64) -> Turn {
        if order >= self.latest {
            Turn { latest: order, since: 0 }
        } else {
            Turn { since: self.since.max(order), ..self }
        }
    }

    /// Whether it is that of an event which several shards handle, each its part.
    fn is_shared(self) -> bool {
        self.since == 0 && EventClass::of(self.latest << 32) == EventClass::Scenario
    }
}

/// A flow of a closed loop that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedFlow {
    /// That of the event by which it ended.
    turn: Turn,
    at: Instant,
    spec: FlowSpec,
}

impl EndedFlow {
    /// The order in which one thread sees flows of a window end, but for flows of one shard that one
    /// event ends: these are in order already.
    fn order(&self) -> (Turn, u32) {
        // Flows that start at one instant do so by number.
        (self.turn, if self.turn.is_shared() { self.spec.id.0 } else { 0 })
    }
}

impl Mail {
    fn is_empty(&self) -> bool {
        self.packets.is_empty()
            && self.news.is_empty()
            && self.frames.is_empty()
            && self.ended.is_empty()
    }
}

#[derive(Debug, Clone, Copy)]
struct Arrival {
    at: Instant,
    /// Whether it arrives at a node that forwards the packet.
    is_hop: bool,
}

/// How far every shard is, and what happened to flows in the running window.
#[derive(Debug)]
pub(crate) struct Board {
    /// By shard.
    places: Vec<Place>,
}

/// Of one shard. In cache lines of its own, because others read it while the shard writes it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place {
    /// For windows of even and of odd number: 0 before the window, then one more than the latest
    /// order of an event that is or was handled, [`u64::MAX`] after the last one.
    progress: [AtomicU64; 2],
    news: Mutex<Vec<(u64, FlowId, News)>>,
}

impl Board {
    pub(crate) fn new(shards: usize) -> Self {
        Board { places: (0..shards).map(|_| Place::default()).collect() }
    }
}

impl Board {
    /// The thread of a shard panics: no other one waits for it.
    pub(crate) fn give_up(&self, shard: usize) {
        let progress = &self.places[shard].progress;
        progress.iter().for_each(|progress| progress.store(u64::MAX, Ordering::Release));
    }
}

/// How often a shard looks whether another one has come as far as itself before it gives way to
/// other threads.
const LOOKS: u32 = 1 << 10;

/// Locks what no thread holds while it panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an engine knows about the shards beside it.
#[derive(Debug)]
pub(crate) struct Shard {
    number: usize,
    /// The shard of each node.
    owners: Arc<Vec<u16>>,
    board: Arc<Board>,
    /// By shard, what it gets at the end of the window.
    out: Vec<Mail>,
    /// Packets in `out`, whose slots are free at the end of the window.
    departed: Vec<PacketId>,
    /// The earliest arrival in `out`.
    first_arrival: Instant,
    /// That of the event that is handled, within its window.
    turn: Turn,
    /// Which of the progresses of the board belongs to the running window.
    parity: usize,
    /// Whether no other shard runs: one thread handles the events of all.
    is_alone: bool,
    has_news: bool,
    /// By pattern of flows, whether it is a closed loop.
    loops: Vec<bool>,
    /// Flows of closed loops that have ended in any shard since the last window.
    ended: Vec<EndedFlow>,
    early: EarlyEnds,
}

/// Which flows may be abandoned.
#[derive(Debug, Clone)]
struct EarlyEnds {
    /// A bit for each transport that may abandon flows with deadlines.
    with_deadline: u64,
    /// A bit for each transport that may abandon any flow.
    any: u64,
    /// By pattern of flows, whether they may get a deadline after their start.
    gets_deadline: Vec<bool>,
}

impl EarlyEnds {
    fn new<S: TransportSet>(setup: &Setup<S>) -> Self {
        // Paths of a tree are short enough for all headers.
        let is_tree = setup.network.rack_size().is_some();
        let abandons_any =
            |t: &S| t.may_abandon_without_deadline() || !is_tree && t.info().max_hops.is_some();
        EarlyEnds {
            with_deadline: transports_that(&setup.transports, S::may_abandon),
            any: transports_that(&setup.transports, |t| t.may_abandon() && abandons_any(t)),
            gets_deadline: setup.workload.deadline_changes.iter().map(Option::is_some).collect(),
        }
    }

    /// Whether the sender of this flow may abandon it.
    fn may_abandon(&self, flow: &FlowSpec) -> bool {
        let has = |bits: u64| bits >> (flow.transport.0 & 63) & 1 == 1;
        let gets_deadline = || self.gets_deadline.get(usize::from(flow.pattern)) == Some(&true);
        has(self.any) || has(self.with_deadline) && (flow.deadline.is_some() || gets_deadline())
    }
}

impl Shard {
    pub(crate) fn new<S: TransportSet>(
        number: usize,
        setup: &Setup<S>,
        owners: &Arc<Vec<u16>>,
        board: &Arc<Board>,
    ) -> Self {
        Shard {
            number,
            owners: Arc::clone(owners),
            board: Arc::clone(board),
            out: board.places.iter().map(|_| Mail::default()).collect(),
            departed: Vec::new(),
            first_arrival: Instant::NEVER,
            turn: Turn::default(),
            parity: 0,
            is_alone: false,
            has_news: false,
            loops: setup.workload.closed_loops.iter().map(Option::is_some).collect(),
            ended: Vec::new(),
            early: EarlyEnds::new(setup),
        }
    }

    /// Whether this shard simulates a node.
    #[inline]
    pub(crate) fn owns(&self, node: NodeId) -> bool {
        self.owner(node) == self.number
    }

    /// The shard that simulates a node.
    #[inline]
    pub(crate) fn owner(&self, node: NodeId) -> usize {
        usize::from(self.owners[node.index()])
    }

    /// The shard's number.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// A packet leaves on a link to a node of another shard. Its slot in the arena is free at the end
    /// of the window.
    #[inline]
    pub(crate) fn send(
        &mut self,
        to: NodeId,
        id: PacketId,
        packet: &Packet,
        at: Instant,
        is_hop: bool,
    ) {
        let owner = self.owner(to);
        let mail = &mut self.out[owner];
        mail.packets.push(*packet);
        mail.arrivals.push(Arrival { at, is_hop });
        self.departed.push(id);
        self.first_arrival = self.first_arrival.min(at);
    }

    /// A pause frame leaves by port `from` to a node of another shard.
    pub(crate) fn send_frame(&mut self, to: NodeId, at: Instant, from: PortId, frame: PauseFrame) {
        let owner = self.owner(to);
        self.out[owner].frames.push((at, from, frame));
        self.first_arrival = self.first_arrival.min(at);
    }

    /// The window of this parity begins. `is_alone`: one thread handles the events of all shards.
    pub(crate) fn begin_window(&mut self, parity: usize, is_alone: bool) {
        (self.parity, self.is_alone, self.turn) = (parity, is_alone, Turn::default());
        lock(&self.board.places[self.number].news).clear();
    }

    /// An event of this order is about to be handled.
    #[inline]
    pub(crate) fn begin_event(&mut self, order: u64) {
        self.turn = self.turn.next(order);
        let place = &self.board.places[self.number];
        let progress = self.turn.latest.saturating_add(1);
        place.progress[self.parity].store(progress, Ordering::Release);
    }

    /// All events of the window have been handled.
    pub(crate) fn end_window(&self) {
        let progress = &self.board.places[self.number].progress;
        progress[self.parity ^ 1].store(0, Ordering::Release);
        progress[self.parity].store(u64::MAX, Ordering::Release);
    }

    /// Whether something happened to a flow in another shard, in the running window and before the
    /// event that is handled. Waits until that shard has come as far.
    #[cold]
    fn ask(&self, shard: usize, flow: FlowId, what: News) -> bool {
        if self.is_alone {
            return false; // What happens there is known here at once.
        }
        let place = &self.board.places[shard];
        let mut looks = 0;
        let now = self.turn.latest;
        while place.progress[self.parity].load(Ordering::Acquire) <= now {
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        let is_it = |&(order, of, news): &_| of == flow && news == what && order < now;
        lock(&place.news).iter().any(is_it)
    }

    /// Announces something about a flow to the shard of its other end.
    fn announce(&mut self, shard: usize, flow: FlowId, what: News) {
        self.out[shard].news.push((flow, what));
        self.has_news = true;
        if !self.is_alone {
            lock(&self.board.places[self.number].news).push((self.turn.latest, flow, what));
        }
    }

    /// A flow has ended here. All shards learn it if it is of a closed loop.
    pub(crate) fn note_ended(&mut self, spec: &FlowSpec, at: Instant) {
        if !self.loops.get(usize::from(spec.pattern)).is_some_and(|is_loop| *is_loop) {
            return;
        }
        let ended = EndedFlow { turn: self.turn, at, spec: *spec };
        self.ended.push(ended);
        if !self.is_alone {
            let others = self.out.iter_mut().enumerate().filter(|(to, _)| *to != self.number);
            others.for_each(|(_, mail)| mail.ended.push(ended));
        }
    }

    /// Whether something happened that concerns other shards, where one thread handles the events of
    /// all.
    #[inline]
    pub(crate) fn has_announced(&self) -> bool {
        self.has_news || !self.ended.is_empty()
    }

    /// Takes out the flows that have ended here, where one thread handles the events of all shards.
    pub(crate) fn take_ended(&mut self) -> Vec<EndedFlow> {
        std::mem::take(&mut self.ended)
    }

    /// Takes out the news for each shard, if there are any.
    pub(crate) fn take_news(&mut self) -> Vec<(usize, FlowId, News)> {
        if !std::mem::take(&mut self.has_news) {
            return Vec::new();
        }
        let by_shard = self.out.iter_mut().enumerate();
        by_shard
            .flat_map(|(to, mail)| mail.news.drain(..).map(move |(flow, what)| (to, flow, what)))
            .collect()
    }
}

/// The observer of a shard's engine: the shard, and what observes the run there.
#[derive(Debug)]
pub(crate) struct Sharded<O> {
    pub(crate) shard: Shard,
    pub(crate) observers: O,
}

impl<O: Tap> Tap for Sharded<O> {
    const WATCHES_CONTROLLERS: bool = O::WATCHES_CONTROLLERS;
    const WATCHES_QUEUES: bool = O::WATCHES_QUEUES;
    const WATCHES_HEADERS: bool = O::WATCHES_HEADERS;
    const FOLLOWS: bool = O::FOLLOWS;

    #[inline(always)]
    fn observe(&mut self, what: Observation<'_>) {
        self.observers.observe(what);
    }

    fn follows(&self, flow: FlowId) -> bool {
        self.observers.follows(flow)
    }

    #[inline(always)]
    fn shard(&self) -> Option<&Shard> {
        Some(&self.shard)
    }

    #[inline(always)]
    fn shard_mut(&mut self) -> Option<&mut Shard> {
        Some(&mut self.shard)
    }

    fn conclude(&mut self, end: &Ending<'_>, findings: &mut Findings) {
        self.observers.conclude(end, findings);
    }
}

impl<S: TransportSet, T: Tap> Engine<S, T> {
    /// Whether other shards handle copies of this engine's scenario events, and one of them counts.
    pub(crate) fn is_copy(&self) -> bool {
        self.cx.tap.shard().is_some_and(|shard| shard.number > 0)
    }

    /// Announces what has happened at one end of a flow to the other one, if that is elsewhere.
    #[inline(always)]
    pub(crate) fn announce(&mut self, flow: FlowId, what: News) {
        let Some(shard) = self.cx.tap.shard_mut() else { return };
        let state = &self.hosts.flows[flow.index()];
        let other = match what {
            News::SenderEnded => state.dst,
            News::Completed => state.src,
        };
        let other = shard.owner(other.into());
        if other != shard.number {
            shard.announce(other, flow, what);
        }
    }

    /// Whether a flow is complete, which its sender's shard may not know.
    #[inline(always)]
    pub(crate) fn has_completed(&mut self, flow: FlowId) -> bool {
        let Some(shard) = self.cx.tap.shard() else { return false };
        let owner = shard.owner(self.hosts.flows[flow.index()].dst.into());
        owner != shard.number && shard.ask(owner, flow, News::Completed)
    }

    /// Closes the receiver of a flow whose sender has ended in another shard in this window. Returns
    /// whether it did.
    ///
    /// A sender can end when its flow is complete, or when it may abandon the flow.
    #[inline(always)]
    pub(crate) fn close_if_sender_ended(&mut self, flow: FlowId) -> bool {
        let Some(shard) = self.cx.tap.shard() else { return false };
        let record = &self.recording.records[flow.index()];
        let may_have_ended =
            record.status != FlowStatus::Unfinished || shard.early.may_abandon(&record.spec);
        if !may_have_ended {
            return false;
        }
        let owner = shard.owner(record.spec.src.into());
        if owner == shard.number || !shard.ask(owner, flow, News::SenderEnded) {
            return false;
        }
        self.close_receiver(flow);
        true
    }

    /// Whether a timer belongs to a receiver whose sender has ended, so that it is stale.
    #[inline(always)]
    pub(crate) fn is_of_closed_receiver(&mut self, timer: u32) -> bool {
        self.cx.tap.shard().is_some()
            && match self.timers.owner(timer) {
                Owner::Endpoint(flow, End::Receiver) => {
                    self.hosts.flows[flow.index()].receiver < CLOSED
                        && self.close_if_sender_ended(flow)
                }
                _ => false,
            }
    }

    /// Removes the receiver of a flow whose sender has ended in another shard.
    fn close_receiver(&mut self, flow: FlowId) {
        let state = &mut self.hosts.flows[flow.index()];
        if state.receiver < CLOSED {
            let stack = &mut self.hosts.stacks[state.transport.index()];
            stack.close(End::Receiver, state.receiver, state.dst);
        }
        if state.receiver_timer != NONE {
            self.timers.release(state.receiver_timer);
        }
        (state.receiver, state.receiver_timer) = (CLOSED, NONE);
    }

    /// Acts on what has happened at the other end of a flow.
    pub(crate) fn hear(&mut self, flow: FlowId, what: News) {
        match what {
            News::SenderEnded => self.close_receiver(flow),
            News::Completed => {
                // When it ended is in the record of the receiver's shard.
                self.recording.records[flow.index()].status = FlowStatus::Completed;
            }
        }
    }
}

impl<S: TransportSet, O: Tap> Engine<S, Sharded<O>> {
    /// Hands over what this shard sends: calls `post` with each shard and its mail, which it swaps
    /// for mail that is empty. Returns the first instant at which a packet arrives.
    pub(crate) fn send_mail(&mut self, mut post: impl FnMut(usize, &mut Mail)) -> Instant {
        let shard = &mut self.cx.tap.shard;
        let ext = &mut self.fabric.ext;
        if !ext.is_empty() {
            for mail in &mut shard.out {
                for id in mail.packets.iter().filter_map(|packet| packet.ext) {
                    mail.blocks.push(*ext.get(id));
                    ext.free(id);
                }
            }
        }
        for id in shard.departed.drain(..) {
            self.cx.packets.free(id);
        }
        for (to, mail) in shard.out.iter_mut().enumerate() {
            if !mail.is_empty() {
                post(to, mail);
            }
        }
        shard.has_news = false;
        std::mem::replace(&mut shard.first_arrival, Instant::NEVER)
    }

    /// Takes in what another shard has sent, and empties the mail.
    pub(crate) fn take_mail(&mut self, mail: &mut Mail) {
        let mut blocks = mail.blocks.drain(..);
        for (packet, arrival) in mail.packets.drain(..).zip(mail.arrivals.drain(..)) {
            let ext = packet.ext.and_then(|_| blocks.next());
            let ext = ext.map(|block| self.fabric.ext.alloc(block));
            let from = packet.port;
            let id = self.cx.packets.alloc(Packet { ext, ..packet });
            self.cx.events.push_arrival(arrival.at, from, id, arrival.is_hop);
        }
        drop(blocks);
        for (at, from, frame) in mail.frames.drain(..) {
            self.expect_frame(at, from, frame);
        }
        for (flow, what) in mail.news.drain(..) {
            self.hear(flow, what);
        }
        self.cx.tap.shard.ended.append(&mut mail.ended);
    }

    /// Starts the next flows of closed loops in which flows have ended. All shards do this alike.
    pub(crate) fn continue_loops(&mut self, mut ended: Vec<EndedFlow>) {
        ended.sort_by_key(EndedFlow::order);
        for flow in &ended {
            self.continue_loop(&flow.spec, flow.at);
        }
    }

    /// The most flows that may end in the open window at a host of this shard, of those that the run
    /// waits for.
    ///
    /// A flow is complete when its receiver gets the last of its bytes. A sender abandons its flow
    /// when it is called: by an answer, its timer or its NIC, or when it starts.
    pub(crate) fn most_ends(&self) -> u64 {
        let Some(windows) = self.cx.events.windows() else { return u64::MAX };
        let mut arriving = Vec::new();
        let mut called = Vec::new();
        for event in windows.known().iter().filter(|event| !event.is_hop()) {
            if event.class() == EventClass::Arrival {
                let packet = &self.cx.packets[PacketId(event.target())];
                if packet.is_to_sender() {
                    called.push(packet.flow);
                } else if !packet.is_trimmed() {
                    arriving.push((packet.flow, u64::from(packet.payload_bytes)));
                }
            } else {
                self.note_called(*event, windows.ends_at(), &mut called);
            }
        }
        arriving.sort_unstable();
        called.sort_unstable();
        called.dedup();
        let flows = arriving.chunk_by(|(flow, _), (next, _)| flow == next);
        let completed = flows.filter(|packets| {
            let bytes: u64 = packets.iter().map(|(_, bytes)| bytes).sum();
            self.may_complete(packets[0].0, bytes)
        });
        let abandoned = called.iter().filter(|flow| self.may_be_abandoned(**flow));
        let starting = self.starts.later.iter().filter(|Reverse((at, index))| {
            let spec = &self.starts.later_specs[*index as usize];
            *at < windows.ends_at()
                && self.owns(spec.src)
                && self.is_awaited(spec)
                && self.cx.tap.shard.early.may_abandon(spec)
        });
        (completed.count() + abandoned.count() + starting.count()) as u64
    }

    /// Whether the run waits for the end of a flow.
    fn is_awaited(&self, flow: &FlowSpec) -> bool {
        must_end(flow) && self.recording.measure.awaits(flow.start)
    }

    /// Whether the run waits for a flow that may be complete when this many bytes arrive.
    fn may_complete(&self, flow: FlowId, bytes: u64) -> bool {
        let record = &self.recording.records[flow.index()];
        record.status == FlowStatus::Unfinished
            && self.is_awaited(&record.spec)
            && self.hosts.flows[flow.index()].receiver != CLOSED
            && record.delivered.get().saturating_add(bytes) >= record.spec.size.get()
    }

    /// Whether the run waits for a flow that its sender may abandon when it is called.
    fn may_be_abandoned(&self, flow: FlowId) -> bool {
        let record = &self.recording.records[flow.index()];
        record.status == FlowStatus::Unfinished
            && self.is_awaited(&record.spec)
            && self.hosts.flows[flow.index()].sender < CLOSED
            && self.cx.tap.shard.early.may_abandon(&record.spec)
    }

    /// Adds the flows whose senders this event may call, other than by an answer.
    fn note_called(&self, event: Upcoming, ends_at: Instant, called: &mut Vec<FlowId>) {
        match event.class() {
            EventClass::Arrival => {}
            EventClass::PortFree => self.note_ready(PortId(event.target()), called),
            EventClass::Timer => {
                if let Owner::Endpoint(flow, End::Sender) = self.timers.owner(event.target()) {
                    called.push(flow);
                }
            }
            EventClass::Scenario if event.target() == ScenarioEvent::LinkChange as u32 => {
                // A link that is cut ends the pauses at both of its ends.
                let due = self.faults.link_changes[self.faults.next_change..].iter();
                for change in due.take_while(|change| change.at < ends_at) {
                    self.note_ready(change.port, called);
                    self.note_ready(self.cx.network.link(change.port).twin, called);
                }
            }
            EventClass::Scenario if event.target() == ScenarioEvent::DeadlineChange as u32 => {
                called.extend(self.starts.deadline_changes.due_before(ends_at));
            }
            EventClass::Scenario => {
                let frame = event.target().checked_sub(ScenarioEvent::FIRST_FRAME);
                let lossless = self.fabric.lossless.as_ref();
                if let Some(port) = frame.zip(lossless).and_then(|(frame, l)| l.frame_port(frame)) {
                    self.note_ready(port, called);
                }
            }
        }
    }

    /// Adds the flows whose senders wait for a NIC, also those whose class is paused.
    fn note_ready(&self, port: PortId, called: &mut Vec<FlowId>) {
        if self.cx.network.link(port).from.0 >= self.cx.network.hosts {
            return;
        }
        let nics = self.hosts.nics;
        let ready = &self.hosts.ready[self.nic_of_port(port).index(nics)];
        match nics {
            1 => ready.for_each(&self.hosts.flows[..], |flow| called.push(FlowId(flow))),
            _ => ready
                .for_each(&self.hosts.ready_links[..], |place| called.push(FlowId(place / nics))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Events of one shard: those known at the start, and for some of them another order that they
    /// push for the same instant.
    type Events = Vec<(u16, Option<u16>)>;

    /// The orders of a shard's events, as handled.
    fn handled(events: &Events) -> Vec<u64> {
        merged(&[events]).into_iter().map(|(order, _)| order).collect()
    }

    /// The orders of the events of all shards, as one thread handles them, and their shards.
    fn merged(shards: &[&Events]) -> Vec<(u64, usize)> {
        let mut left: BTreeSet<(u64, usize, Option<u16>)> = BTreeSet::new();
        for (shard, events) in shards.iter().enumerate() {
            left.extend(events.iter().map(|&(order, pushed)| (u64::from(order), shard, pushed)));
        }
        let mut all = Vec::new();
        while let Some((order, shard, pushed)) = left.pop_first() {
            all.push((order, shard));
            left.extend(pushed.map(|pushed| (u64::from(pushed), shard, None)));
        }
        all
    }

    proptest! {
        /// Turns put the events of two shards in the order in which one thread handles them, though
        /// events push others that come earlier in the order of an instant.
        #[test]
        fn turns_are_the_order_of_one_thread(
            events in prop::collection::btree_map(0u16..500, prop::option::of(0u16..500), 1..60),
        ) {
            // No two events have one order.
            let taken: BTreeSet<u16> = events.keys().copied().collect();
            let mut pushed_before = BTreeSet::new();
            let mut shards: [Events; 2] = Default::default();
            for (order, pushed) in events {
                let is_new = |p: &u16| !taken.contains(p) && pushed_before.insert(*p);
                shards[usize::from(order % 2)].push((order, pushed.filter(is_new)));
            }
            let mut by_turn = Vec::new();
            for (shard, events) in shards.iter().enumerate() {
                let mut turn = Turn::default();
                for order in handled(events) {
                    turn = turn.next(order);
                    by_turn.push((turn, order, shard));
                }
            }
            by_turn.sort_by_key(|event| event.0);
            let by_turn: Vec<_> = by_turn.iter().map(|event| (event.1, event.2)).collect();
            prop_assert_eq!(by_turn, merged(&[&shards[0], &shards[1]]));
        }
    }
}
