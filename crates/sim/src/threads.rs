//! One run on several threads, each with a shard of the network (`shard.rs`).
//!
//! All shards are in the same window at any time. No event of a window has an effect in another
//! shard within the window, except those that `shard.rs` names. So the threads handle a window each
//! on its own, exchange mail, meet at a barrier, and go on with the next window that has work in any
//! shard. Results are those of one thread, bit for bit.
//!
//! A run that stops when its flows have ended stops at an event. A window in which the last flow may
//! end is handled by one thread, which takes the events of all shards in their order. One thread
//! also goes on alone while several do not pay (`pace.rs`).

use crate::barrier::Barrier;
use crate::engine::{Engine, PROGRESS_EVERY};
use crate::events::EventClass;
use crate::merge::merge;
use crate::pace::{Pace, PaceRule, WindowEvents};
use crate::partition::partition;
use crate::setup::{Progress, Setup};
use crate::shard::{Board, EndedFlow, Mail, News, Shard, Sharded, lock};
use crate::sharing::{SharingPlan, SharingReport};
use crate::state::must_end;
use crate::tap::Tap;
use punctual_core::{Duration, FlowId, FlowSpec, Instant, TransportSet};
use punctual_record::Outcome;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::Builder;

/// What a shard publishes at the end of a window. In a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Published {
    /// The number of the next window in which it has work, or [`u64::MAX`].
    next: AtomicU64,
    events: AtomicU64,
    /// Events since the last window.
    events_in_window: AtomicU64,
    flows_ended: AtomicU64,
    /// How many of the awaited flows have ended here.
    ended: AtomicU64,
    /// How many flows may end here in the window that begins.
    most_ends: AtomicU64,
    /// Whether the run is interrupted.
    is_interrupted: AtomicU64,
}

/// Makes the observers of a shard of a run.
pub(crate) type Observers<'a, S, O> = &'a (dyn Fn(&Setup<S>) -> O + Sync);

/// The engine of a shard.
type ShardEngine<S, O> = Engine<S, Sharded<O>>;

/// What the threads of a run share.
struct Run<'a, S: TransportSet, O: Tap> {
    setup: &'a Setup<S>,
    /// Makes the observers of a shard.
    observers: Observers<'a, S, O>,
    flows: Arc<Vec<FlowSpec>>,
    window: Duration,
    owners: Arc<Vec<u16>>,
    board: Arc<Board>,
    barrier: Barrier,
    /// By shard, for windows of even and of odd number.
    published: Vec<[Published; 2]>,
    /// By sender, then by recipient, for windows of even and of odd number.
    mail: Vec<Vec<[Mutex<Mail>; 2]>>,
    engines: Vec<Mutex<Option<ShardEngine<S, O>>>>,
    /// How many flows the run waits for, see [`RunEnd::awaited`](crate::state::RunEnd::awaited).
    awaited: u64,
    /// The run cannot be over before the window of this instant.
    done_from: Instant,
    /// When the last awaited flow ended, in picoseconds, or [`u64::MAX`].
    done_at: AtomicU64,
    rule: PaceRule,
    /// How one thread that went on alone left the run, see [`Run::go_on_alone`].
    left: AtomicU64,
    windows: AtomicU64,
    windows_alone: AtomicU64,
    windows_on_one: AtomicU64,
}

/// Values of [`Run::left`] besides a parity.
const OVER: u64 = 2;
const INTERRUPTED: u64 = 3;

/// What all threads know of a run between two windows.
#[derive(Debug, Clone, Copy)]
struct Situation {
    next: u64,
    events: u64,
    flows_ended: u64,
    /// How many flows the run waits for. It may wrap until those of closed loops are added.
    awaited: u64,
    is_interrupted: bool,
    /// Events of all shards in the last window, and the most of one shard.
    last: WindowEvents,
}

/// Simulates on as many threads as planned, of which the caller's is one, or on fewer where the
/// system starts no more. Gives the set-up back if it starts none.
pub(crate) fn run<S: TransportSet, O: Tap + Send>(
    setup: Setup<S>,
    plan: SharingPlan,
    observers: Observers<'_, S, O>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Outcome, Box<Setup<S>>> {
    run_on(setup, plan, observers, &Builder::new, progress)
}

/// [`run`] on threads that these builders start.
fn run_on<S: TransportSet, O: Tap + Send>(
    mut setup: Setup<S>,
    plan: SharingPlan,
    observers: Observers<'_, S, O>,
    new_thread: &dyn Fn() -> Builder,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Outcome, Box<Setup<S>>> {
    let flows = Arc::new(std::mem::take(&mut setup.workload.flows));
    let over = std::thread::scope(|scope| {
        // The network is cut when it is known how many threads there are.
        let mut starts = Vec::new();
        for number in 1..plan.threads {
            let (start, started) = mpsc::channel::<Arc<Run<'_, S, O>>>();
            let work = move || {
                if let Ok(run) = started.recv() {
                    run.simulate(number, &mut |_| ControlFlow::Continue(()));
                }
            };
            if new_thread().spawn_scoped(scope, work).is_err() {
                break;
            }
            starts.push(start);
        }
        if starts.is_empty() {
            return None;
        }
        let run = Arc::new(Run::new(&setup, observers, &flows, plan, starts.len() + 1));
        // There may be fewer shards than threads. A thread whose start is dropped ends.
        for start in starts.drain(..).take(run.engines.len() - 1) {
            let _ = start.send(Arc::clone(&run));
        }
        let is_interrupted = run.simulate(0, progress);
        Some((run, is_interrupted))
    });
    if let Some((run, is_interrupted)) = over {
        run.report().note();
        return Ok(run.finish(is_interrupted));
    }
    setup.workload.flows = Arc::unwrap_or_clone(flows);
    Err(Box::new(setup))
}

impl<'a, S: TransportSet, O: Tap + Send> Run<'a, S, O> {
    /// A run of these flows on `threads` threads, or fewer if the network has fewer shards.
    fn new(
        setup: &'a Setup<S>,
        observers: Observers<'a, S, O>,
        flows: &Arc<Vec<FlowSpec>>,
        plan: SharingPlan,
        threads: usize,
    ) -> Self {
        let SharingPlan { window, rule, .. } = plan;
        let owners = Arc::new(partition(&setup.network, threads));
        let threads = owners.iter().max().map_or(1, |last| usize::from(*last) + 1);
        let measure = setup.measure;
        let awaited = flows.iter().filter(|flow| must_end(flow) && measure.awaits(flow.start));
        let (count, last_start) =
            awaited.fold((0, None), |(count, last), flow| (count + 1, last.max(Some(flow.start))));
        Run {
            setup,
            observers,
            window,
            board: Arc::new(Board::new(threads)),
            barrier: Barrier::new(threads),
            published: (0..threads).map(|_| Default::default()).collect(),
            mail: (0..threads)
                .map(|_| (0..threads).map(|_| Default::default()).collect())
                .collect(),
            engines: (0..threads).map(|_| Mutex::new(None)).collect(),
            awaited: count + u64::from(measure.until.is_some()),
            done_from: last_start.max(measure.until).unwrap_or(Instant::ZERO),
            done_at: AtomicU64::new(u64::MAX),
            windows: AtomicU64::new(0),
            windows_alone: AtomicU64::new(0),
            windows_on_one: AtomicU64::new(0),
            rule,
            left: AtomicU64::new(0),
            flows: Arc::clone(flows),
            owners,
        }
    }

    fn report(&self) -> SharingReport {
        SharingReport {
            threads: self.engines.len(),
            windows: self.windows.load(Ordering::Relaxed),
            windows_alone: self.windows_alone.load(Ordering::Relaxed),
            windows_on_one: self.windows_on_one.load(Ordering::Relaxed),
        }
    }

    /// The outcome of a run that is over.
    fn finish(&self, is_interrupted: bool) -> Outcome {
        let engines: Vec<_> =
            self.engines.iter().filter_map(|engine| lock(engine).take()).collect();
        let done_at = self.done_at.load(Ordering::Relaxed);
        let stop = self.setup.stop;
        let now = if done_at != u64::MAX {
            Instant::from_picos(done_at)
        } else if stop.when_done && self.awaited == 0 {
            Instant::ZERO // It was over before it began.
        } else if !is_interrupted && stop.at != Instant::NEVER {
            stop.at
        } else {
            engines.iter().map(|engine| engine.cx.now).max().unwrap_or(Instant::ZERO)
        };
        merge(engines, self.setup, now).finish(is_interrupted)
    }

    /// Simulates one shard to the end. Returns whether the run was interrupted.
    fn simulate(
        &self,
        number: usize,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> bool {
        let _member = Member { barrier: &self.barrier, board: &self.board, number };
        let shard = Shard::new(number, self.setup, &self.owners, &self.board);
        let tap = Sharded { shard, observers: (self.observers)(self.setup) };
        let flows = Arc::clone(&self.flows);
        let mut engine = Engine::for_share(self.setup, self.window, flows, tap);
        engine.schedule_scenario();
        let mut position = Position::default();
        self.publish(&mut engine, position.parity);
        *lock(&self.engines[number]) = Some(engine);
        loop {
            self.barrier.wait();
            let mut situation = self.situation(position.parity);
            if std::mem::take(&mut position.was_alone) {
                situation.last = situation.last.by_one();
            }
            if self.rule.leaves_threads(&mut position.pace, situation.last) {
                if number == 0 {
                    let left = self.go_on_alone(&mut position, progress);
                    self.left.store(left, Ordering::Relaxed);
                }
                self.barrier.wait();
                match self.left.load(Ordering::Relaxed) {
                    OVER => return false,
                    INTERRUPTED => return true,
                    parity => position.parity = parity as usize,
                }
                situation = self.situation(position.parity);
                position.pace = Pace::default();
            }
            let parity = position.parity;
            self.take_in(
                number,
                engine_in(&mut lock(&self.engines[number])),
                parity,
                &mut situation,
            );
            if self.is_over(&situation) {
                return situation.is_interrupted;
            }
            if number == 0 {
                let now = engine_in(&mut lock(&self.engines[0])).cx.now;
                self.report_progress(&situation, now, &mut position, progress);
            }
            match self.advance(number, &situation, parity) {
                None => return false,
                Some(is_alone) => position.was_alone = is_alone,
            }
            position.parity ^= 1;
        }
    }

    /// Handles windows of all shards on this thread alone, while the others wait, until several
    /// threads pay again. Returns the parity of the next window, or [`OVER`] or [`INTERRUPTED`].
    fn go_on_alone(
        &self,
        position: &mut Position,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> u64 {
        let stop = self.setup.stop;
        let mut places: Vec<_> = self.engines.iter().map(lock).collect();
        let mut engines: Vec<_> = places.iter_mut().map(|place| engine_in(place)).collect();
        loop {
            let published = self.situation(position.parity);
            let mut situation = published;
            for (number, engine) in engines.iter_mut().enumerate() {
                // All shards know of the same flows of closed loops.
                situation = Situation { next: situation.next, ..published };
                self.take_in(number, engine, position.parity, &mut situation);
            }
            if self.is_over(&situation) {
                return if situation.is_interrupted { INTERRUPTED } else { OVER };
            }
            self.report_progress(&situation, engines[0].cx.now, position, progress);
            let mut bounds = (Instant::NEVER, Instant::NEVER);
            for engine in &mut engines {
                bounds = engine.open_window(situation.next);
            }
            let (begins_at, ends_at) = bounds;
            if begins_at > stop.at {
                return OVER;
            }
            self.windows.fetch_add(1, Ordering::Relaxed);
            self.windows_on_one.fetch_add(1, Ordering::Relaxed);
            self.handle_in_order(&mut engines, position.parity);
            if self.done_at.load(Ordering::Relaxed) != u64::MAX || ends_at > stop.at {
                return OVER;
            }
            position.parity ^= 1;
            for engine in &mut engines {
                engine.serve_ports(ends_at);
                self.publish(engine, position.parity);
            }
            let last = self.situation(position.parity).last;
            if self.rule.returns_to_threads(&mut position.pace, last) {
                return position.parity as u64;
            }
        }
    }

    /// Whether a run is over between two windows.
    fn is_over(&self, situation: &Situation) -> bool {
        let is_over = self.setup.stop.when_done && situation.awaited == 0;
        debug_assert!(
            !is_over || self.awaited == 0,
            "the last flow ended in a window that several threads handled"
        );
        is_over || situation.next == u64::MAX || situation.is_interrupted
    }

    /// Reports progress now and then.
    fn report_progress(
        &self,
        situation: &Situation,
        now: Instant,
        position: &mut Position,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) {
        if situation.events / PROGRESS_EVERY <= position.reported {
            return;
        }
        position.reported = situation.events / PROGRESS_EVERY;
        let answer = progress(Progress {
            now,
            stop_at: self.setup.stop.at,
            events: situation.events,
            flows_ended: situation.flows_ended,
        });
        if answer.is_break() {
            // All threads read it after the next window.
            self.published[0][position.parity ^ 1].is_interrupted.store(1, Ordering::Relaxed);
        }
    }

    /// Takes in what other shards have sent, and starts the next flows of closed loops.
    fn take_in(
        &self,
        number: usize,
        engine: &mut ShardEngine<S, O>,
        parity: usize,
        situation: &mut Situation,
    ) {
        for from in (0..self.engines.len()).filter(|from| *from != number) {
            engine.take_mail(&mut lock(&self.mail[from][number][parity]));
        }
        let ended = engine.cx.tap.shard.take_ended();
        engine.continue_loops(ended);
        situation.awaited = situation.awaited.wrapping_add(engine.end.continued);
        if let Some(windows) = engine.cx.events.windows() {
            let start = windows.number_of(engine.starts.flow_start_at);
            situation.next = situation.next.min(start);
        }
    }

    /// Simulates the next window of one shard. Returns whether one thread handled all
    /// shards, or nothing if the run ends within the window.
    fn advance(&self, number: usize, situation: &Situation, parity: usize) -> Option<bool> {
        let stop = self.setup.stop;
        let mut place = lock(&self.engines[number]);
        let engine = engine_in(&mut place);
        let (begins_at, ends_at) = engine.open_window(situation.next);
        if begins_at > stop.at {
            return None;
        }
        if number == 0 {
            self.windows.fetch_add(1, Ordering::Relaxed);
        }
        let mut is_alone = false;
        if stop.when_done && self.done_from < ends_at {
            let most_ends = &self.published[number][0].most_ends;
            most_ends.store(engine.most_ends(), Ordering::Relaxed);
            drop(place);
            self.barrier.wait();
            let ends = self.published.iter().map(|own| own[0].most_ends.load(Ordering::Relaxed));
            let most_ends = ends.fold(0, u64::saturating_add);
            is_alone = most_ends >= situation.awaited || self.done_from >= begins_at;
            if is_alone {
                if number == 0 {
                    self.windows_alone.fetch_add(1, Ordering::Relaxed);
                    let mut places: Vec<_> = self.engines.iter().map(lock).collect();
                    let mut engines: Vec<_> = places.iter_mut().map(|p| engine_in(p)).collect();
                    self.handle_in_order(&mut engines, parity);
                }
                self.barrier.wait();
                if self.done_at.load(Ordering::Relaxed) != u64::MAX {
                    return None;
                }
            }
            place = lock(&self.engines[number]);
        }
        let engine = engine_in(&mut place);
        if !is_alone {
            engine.cx.tap.shard.begin_window(parity, false);
            while engine.step(stop.at) {}
            engine.cx.tap.shard.end_window();
        }
        if ends_at > stop.at {
            return None;
        }
        engine.serve_ports(ends_at);
        self.publish(engine, parity ^ 1);
        Some(is_alone)
    }

    /// Handles the events of a window of all shards in their order. Stops when the last awaited flow
    /// ends, if the run does.
    fn handle_in_order(&self, engines: &mut [&mut ShardEngine<S, O>], parity: usize) {
        let stop = self.setup.stop;
        engines.iter_mut().for_each(|engine| engine.cx.tap.shard.begin_window(parity, true));
        let mut last = None;
        // What the event of order `last` has done that concerns other shards.
        let mut news: Vec<(usize, FlowId, News)> = Vec::new();
        let mut loops: Vec<EndedFlow> = Vec::new();
        let mut may_be_done = true;
        loop {
            let (first, second) = first_two(engines);
            // Copies of one event have one order, and are one event to all. What one of them pushes
            // comes after the others.
            let copy = last.filter(is_scenario).and_then(|last| {
                let number = engines.iter().position(|e| e.next_order() == Some(last))?;
                Some((last, number))
            });
            let first = copy.or(first);
            if first.map(|(order, _)| order) != last {
                for (to, flow, what) in news.drain(..) {
                    engines[to].hear(flow, what);
                }
                engines.iter_mut().for_each(|engine| engine.continue_loops(loops.clone()));
                loops.clear();
                if std::mem::take(&mut may_be_done) && stop.when_done {
                    let ended: u64 = engines.iter().map(|e| e.end.ended_in_share()).sum();
                    if ended == self.awaited + engines[0].end.continued {
                        let now = engines.iter().map(|engine| engine.cx.now).max();
                        let now = now.unwrap_or(Instant::ZERO).as_picos();
                        self.done_at.store(now, Ordering::Relaxed);
                        break;
                    }
                }
            }
            let Some((order, number)) = first else { break };
            last = Some(order);
            // The shard whose turn it is goes on until another one has an earlier event, or has to
            // hear of what it did.
            let engine = &mut engines[number];
            let awaited = engine.end.awaited;
            let mut is_before_end = engine.step(stop.at);
            while is_before_end
                && !last.as_ref().is_some_and(is_scenario)
                && engine.end.awaited == awaited
                && !engine.cx.tap.shard.has_announced()
                && let Some(order) = engine.next_order()
                && second.is_none_or(|second| order < second)
            {
                last = Some(order);
                is_before_end = engine.step(stop.at);
            }
            if !is_before_end {
                break;
            }
            may_be_done |= engine.end.awaited != awaited;
            news.extend(engine.cx.tap.shard.take_news());
            loops.extend(engine.cx.tap.shard.take_ended());
        }
        engines.iter().for_each(|engine| engine.cx.tap.shard.end_window());
    }

    /// Sums up what all shards have published.
    fn situation(&self, parity: usize) -> Situation {
        let mut all = Situation {
            next: u64::MAX,
            events: 0,
            flows_ended: 0,
            awaited: self.awaited,
            is_interrupted: false,
            last: WindowEvents::default(),
        };
        for published in &self.published {
            let published = &published[parity];
            let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
            all.next = all.next.min(read(&published.next));
            all.events += read(&published.events);
            all.flows_ended += read(&published.flows_ended);
            all.awaited = all.awaited.wrapping_sub(read(&published.ended));
            all.last.add(read(&published.events_in_window));
            all.is_interrupted |= read(&published.is_interrupted) != 0;
        }
        all
    }

    /// Hands over what a shard sends, and publishes what it has to do next.
    fn publish(&self, engine: &mut ShardEngine<S, O>, parity: usize) {
        let number = engine.cx.tap.shard.number();
        let first_arrival = engine.send_mail(|to, mail| {
            std::mem::swap(mail, &mut *lock(&self.mail[number][to][parity]));
        });
        let own = engine.cx.events.next_window();
        let sent = engine.cx.events.windows().map(|windows| windows.number_of(first_arrival));
        let next = own.unwrap_or(u64::MAX).min(sent.unwrap_or(u64::MAX));
        let before = self.published[number][parity ^ 1].events.load(Ordering::Relaxed);
        let published = &self.published[number][parity];
        let write = |value: &AtomicU64, to| value.store(to, Ordering::Relaxed);
        write(&published.next, next);
        write(&published.events_in_window, engine.recording.totals.events.saturating_sub(before));
        write(&published.events, engine.recording.totals.events);
        write(&published.flows_ended, engine.end.flows_ended);
        write(&published.ended, engine.end.ended_in_share());
    }
}

/// What a thread remembers from window to window.
#[derive(Debug, Default)]
struct Position {
    /// Whether the window has an odd number, counted from the start of the run.
    parity: usize,
    /// How often progress was due.
    reported: u64,
    /// Whether one thread handled the last window, because the run might have ended in it.
    was_alone: bool,
    pace: Pace,
}

/// Whether an event of this order, of which several shards may have copies, is one of the scenario.
fn is_scenario(order: &u64) -> bool {
    EventClass::of(order << 32) == EventClass::Scenario
}

/// The order of the next event of all shards, with its shard, and that of the first one of others.
fn first_two<S: TransportSet, O: Tap>(
    engines: &[&mut ShardEngine<S, O>],
) -> (Option<(u64, usize)>, Option<u64>) {
    let (mut first, mut second) = (None, None);
    for (number, engine) in engines.iter().enumerate() {
        let Some(order) = engine.next_order() else { continue };
        match first {
            Some((before, _)) if before <= order => {
                second = Some(second.map_or(order, |second: u64| second.min(order)));
            }
            _ => {
                second = first.map(|(order, _)| order);
                first = Some((order, number));
            }
        }
    }
    (first, second)
}

/// The thread of a shard. If it panics, the other threads do not wait for it for ever.
struct Member<'a> {
    barrier: &'a Barrier,
    board: &'a Board,
    number: usize,
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.board.give_up(self.number);
            self.barrier.give_up();
        }
    }
}

/// The engine that is in its place from the start of the run to its end.
fn engine_in<S: TransportSet, O: Tap>(
    place: &mut Option<ShardEngine<S, O>>,
) -> &mut ShardEngine<S, O> {
    place.as_mut().expect("engines are in their places while the run goes on")
}

impl<S: TransportSet, O: Tap> Engine<S, Sharded<O>> {
    /// Opens a window. Returns when it begins and ends.
    fn open_window(&mut self, number: u64) -> (Instant, Instant) {
        self.cx.events.open_window_number(number);
        let windows = self.cx.events.windows();
        windows.map_or((Instant::NEVER, Instant::NEVER), |w| (w.begins_at(), w.ends_at()))
    }

    /// The order of the next event of the open window.
    #[inline]
    fn next_order(&self) -> Option<u64> {
        self.cx.events.windows()?.next_order()
    }

    /// Handles the next event of the open window. False if there is none before the end of the run.
    #[inline(always)]
    fn step(&mut self, stop_at: Instant) -> bool {
        let Some(event) = self.cx.events.pop() else { return false };
        if event.at() > stop_at {
            return false;
        }
        let order = self.cx.events.windows().map_or(0, |windows| windows.order(&event));
        self.cx.tap.shard.begin_event(order);
        self.look_ahead();
        self.handle(event);
        true
    }
}

#[cfg(test)]
mod tests;
