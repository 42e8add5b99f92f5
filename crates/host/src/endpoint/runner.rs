//! Who runs the engine.
//!
//! A thread that waits for a message runs the engine itself, so that no other thread has to be woken
//! up between the socket and the application. A background thread runs it while nobody waits.
//!
//! Exactly one thread is the *holder*: it sleeps in `poll` on the socket and runs the engine when
//! that returns. A waiting thread takes the place from the background thread, never from another
//! waiting thread. The background thread takes over when nobody has held the place for
//! [`GRACE`].
//!
//! While messages follow each other closely, a waiting thread sleeps in the call that receives, which
//! saves a system call and a timer of the kernel for each. Nobody can wake it up there, so the
//! background thread fires the timers of the engine meanwhile. It looks when the timer is due that was
//! the next one at its last look, which most messages have replaced by then.

use crate::Clock;
use crate::driver::{RECEIVE_WAIT_MAX, Receive, WaitSet};
use punctual_core::Instant;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as StdInstant};

/// How long the place of the holder stays empty before the background thread takes it.
const GRACE: Duration = Duration::from_millis(1);
/// How often the background thread looks whether a waiting thread has left without another.
const LOOK: Duration = Duration::from_millis(4);
/// How long after a thread has waited the background thread looks every [`LOOK`].
const BUSY: Duration = Duration::from_millis(100);
/// How long sends may go on after the last handle of the endpoint is dropped.
const LINGER: Duration = Duration::from_millis(500);
/// The longest sleep of a thread that runs the engine.
pub(super) const SLEEP_MAX: Duration = Duration::from_secs(1);
/// How far the next timer is away, at least, for a thread to sleep in the call that receives.
const RECEIVE_MIN: Duration = Duration::from_micros(500);
/// Typical lateness of a wake-up: a shorter wait does not sleep.
const WAKE_LATENESS: Duration = Duration::from_micros(60);

/// How long after something ended or arrived a thread that waits spins, if it spins at all.
const SPIN_MAX: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Nobody,
    Background,
    Waiting,
}

/// Sockets to wait on.
pub(crate) trait WaitOn {
    /// Waits until a socket or `other` has something, at most for `time`. Returns whether `other`
    /// has.
    fn wait(&self, other: BorrowedFd<'_>, time: Duration) -> std::io::Result<bool>;
}

impl WaitOn for WaitSet {
    fn wait(&self, other: BorrowedFd<'_>, time: Duration) -> std::io::Result<bool> {
        WaitSet::wait(self, Some(other), time)
    }
}

/// What a thread can run: the engine of this process, or the attachment to a host daemon.
pub(crate) trait Run {
    /// What it waits on.
    type Sockets: WaitOn;
    /// Runs one round without waiting. Returns when the next one is due; `None` if at once.
    fn step(&mut self) -> Option<Instant>;
    /// Sends what is due, without looking for what has arrived. Returns when the next round is due.
    fn push(&mut self) -> Option<Instant>;
    /// Whether [`push`](Run::push) has anything to do.
    fn has_work(&self) -> bool;
    /// Whether something ended or arrived since the last call.
    fn take_news(&mut self) -> bool;
    fn clock(&self) -> Clock;
    /// Whether a thread that waits spins rather than sleep.
    fn spins(&self) -> bool;
    /// What to wait on.
    fn wait_set(&self) -> Self::Sockets;
    /// What a thread needs to wait in the call that receives. Until it is returned, rounds receive
    /// nothing. `None` if there is more to wait for.
    fn take_receive(&mut self) -> Option<Receive> {
        None
    }
    /// Takes back what [`Run::take_receive`] lent, with what has arrived.
    fn return_receive(&mut self, _receive: Receive) {}
    /// Whether every send has ended, or needs this process no longer.
    fn is_settled(&self) -> bool;
    /// Ends everything.
    fn close(&mut self, reason: &str);
}

struct Core<E> {
    engine: E,
    holder: Holder,
    /// When a waiting thread last left the place.
    left_at: StdInstant,
    /// When the holder will wake up by itself.
    sleeps_until: Instant,
    /// When the next round is due, as the last one returned it.
    wake: Option<Instant>,
    /// When something last ended or arrived.
    news_at: StdInstant,
    /// Whether the holder sleeps in the call that receives, where nobody can wake it up.
    is_receiving: bool,
    /// Threads that wait for another holder.
    followers: usize,
    /// Whether the background thread sleeps until it is notified.
    background_sleeps: bool,
    /// Until when the background thread naps unless it is notified; `None` if it does not.
    nap_until: Option<Instant>,
    is_closing: bool,
}

/// The engine with what threads need to share it.
pub(crate) struct Shared<E> {
    core: Mutex<Core<E>>,
    /// Notified when something ended or arrived, or when the place of the holder is empty.
    news: Condvar,
    background: Condvar,
    wake_up: OwnedFd,
    /// Threads that want the lock, so that the holder lets them have it.
    lockers: AtomicUsize,
}

impl<E: Run> Shared<E> {
    pub(crate) fn new(engine: E) -> std::io::Result<Self> {
        let core = Core {
            engine,
            holder: Holder::Nobody,
            left_at: StdInstant::now(),
            sleeps_until: Instant::ZERO,
            wake: None,
            news_at: StdInstant::now(),
            is_receiving: false,
            followers: 0,
            background_sleeps: false,
            nap_until: None,
            is_closing: false,
        };
        Ok(Shared {
            core: Mutex::new(core),
            news: Condvar::new(),
            background: Condvar::new(),
            wake_up: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            lockers: AtomicUsize::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Core<E>> {
        self.lockers.fetch_add(1, Ordering::Relaxed);
        let core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        self.lockers.fetch_sub(1, Ordering::Relaxed);
        core
    }

    /// Calls the engine and runs it once, so that what the call has caused leaves at once.
    pub(crate) fn call<R>(&self, call: impl FnOnce(&mut E) -> R) -> R {
        let mut core = self.lock();
        let result = call(&mut core.engine);
        self.push(&mut core);
        result
    }

    /// Calls the engine, and runs it once if the call has caused anything to be sent. The call
    /// changes no timer otherwise.
    pub(crate) fn call_quietly<R>(&self, call: impl FnOnce(&mut E) -> R) -> R {
        let mut core = self.lock();
        let result = call(&mut core.engine);
        if core.engine.has_work() {
            self.push(&mut core);
        }
        result
    }

    /// Sends what is due, and wakes up the threads that this concerns.
    fn push(&self, core: &mut Core<E>) {
        core.wake = core.engine.push();
        self.tell(core);
        if core.is_receiving {
            self.cover(core);
        } else if core.holder != Holder::Nobody
            && core.wake.unwrap_or(Instant::ZERO) < core.sleeps_until
        {
            // The holder has to look at its timers again.
            let _ = rustix::io::write(&self.wake_up, &1u64.to_ne_bytes());
        }
    }

    /// Wakes up the background thread if it would miss the next timer.
    fn cover(&self, core: &Core<E>) {
        if core.nap_until.is_some_and(|until| core.wake.unwrap_or(Instant::ZERO) < until) {
            self.background.notify_one();
        }
    }

    /// Looks at the engine.
    pub(crate) fn look<R>(&self, call: impl FnOnce(&mut E) -> R) -> R {
        call(&mut self.lock().engine)
    }

    /// Wakes up the threads that wait for another holder, if there is news.
    fn tell(&self, core: &mut Core<E>) {
        if !core.engine.take_news() {
            return;
        }
        if core.engine.spins() {
            core.news_at = StdInstant::now();
        }
        if core.followers > 0 {
            self.news.notify_all();
        }
    }

    /// Waits until `ready` returns something, at most until `until`.
    pub(crate) fn wait<R>(
        &self,
        until: Option<StdInstant>,
        mut ready: impl FnMut(&mut E) -> Option<R>,
    ) -> Option<R> {
        let mut core = self.lock();
        loop {
            if let Some(result) = ready(&mut core.engine) {
                if core.engine.has_work() {
                    self.push(&mut core);
                }
                return Some(result);
            }
            let left = until.map(|until| until.saturating_duration_since(StdInstant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            if core.holder != Holder::Waiting {
                core.holder = Holder::Waiting;
                let (mut core, result) = self.hold(core, until, &mut ready);
                core.holder = Holder::Nobody;
                core.left_at = StdInstant::now();
                if core.engine.has_work() {
                    self.push(&mut core);
                }
                if core.followers > 0 {
                    self.news.notify_all();
                } else if core.background_sleeps {
                    self.background.notify_one();
                }
                return result;
            }
            core.followers += 1;
            let nap = left.unwrap_or(BUSY).min(BUSY);
            let waited = self.news.wait_timeout(core, nap);
            core = waited.unwrap_or_else(PoisonError::into_inner).0;
            core.followers -= 1;
        }
    }

    /// Runs the engine as the holder until `ready` returns something.
    fn hold<'a, R>(
        &'a self,
        mut core: MutexGuard<'a, Core<E>>,
        until: Option<StdInstant>,
        ready: &mut impl FnMut(&mut E) -> Option<R>,
    ) -> (MutexGuard<'a, Core<E>>, Option<R>) {
        // The first round does not look for datagrams: the sleep ends at once if there are any.
        if core.engine.has_work() {
            core.wake = core.engine.push();
        }
        loop {
            core = self.sleep(core, until);
            core.wake = core.engine.step();
            self.tell(&mut core);
            if let Some(result) = ready(&mut core.engine) {
                return (core, Some(result));
            }
            if until.is_some_and(|until| StdInstant::now() >= until) {
                return (core, None);
            }
        }
    }

    /// Sleeps as the holder until there is something to do.
    fn sleep<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core<E>>,
        until: Option<StdInstant>,
    ) -> MutexGuard<'a, Core<E>> {
        let wake = core.wake;
        let clock = core.engine.clock();
        let mut left = match wake {
            None => Duration::ZERO,
            Some(wake) => {
                let left = wake.saturating_since(clock.now()).as_nanos();
                Duration::from_nanos(left).min(SLEEP_MAX)
            }
        };
        if let Some(until) = until {
            left = left.min(until.saturating_duration_since(StdInstant::now()));
        }
        core.sleeps_until = wake.unwrap_or(Instant::ZERO);
        if left >= RECEIVE_MIN
            && let Some(receive) = Self::receive_instead(&mut core, until)
        {
            return self.sleep_in_receive(core, receive);
        }
        let spins = core.holder == Holder::Waiting
            && core.engine.spins()
            && core.news_at.elapsed() < SPIN_MAX;
        let sockets = core.engine.wait_set();
        drop(core);
        if left > WAKE_LATENESS && !spins {
            self.poll(&sockets, left - WAKE_LATENESS);
        } else if self.lockers.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        let mut core = self.lock();
        core.sleeps_until = Instant::ZERO;
        core
    }

    /// What the holder needs to sleep in the call that receives, if that suits it.
    fn receive_instead(core: &mut Core<E>, until: Option<StdInstant>) -> Option<Receive> {
        let now = StdInstant::now();
        let suits = core.holder == Holder::Waiting
            && core.nap_until.is_some()
            && now.saturating_duration_since(core.left_at) < GRACE
            && until.is_none_or(|until| until.saturating_duration_since(now) > RECEIVE_WAIT_MAX)
            && !core.engine.spins();
        if suits { core.engine.take_receive() } else { None }
    }

    fn sleep_in_receive<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core<E>>,
        mut receive: Receive,
    ) -> MutexGuard<'a, Core<E>> {
        core.is_receiving = true;
        self.cover(&core);
        drop(core);
        receive.wait();
        let mut core = self.lock();
        core.engine.return_receive(receive);
        core.is_receiving = false;
        core.sleeps_until = Instant::ZERO;
        core
    }

    fn poll(&self, sockets: &E::Sockets, left: Duration) {
        if let Ok(true) = sockets.wait(self.wake_up.as_fd(), left) {
            let _ = rustix::io::read(&self.wake_up, &mut [0; 8]);
        }
    }

    /// Asks the background thread to end.
    pub(crate) fn begin_closing(&self) {
        self.lock().is_closing = true;
        self.background.notify_one();
        let _ = rustix::io::write(&self.wake_up, &1u64.to_ne_bytes());
    }

    /// The background thread.
    pub(crate) fn run_background(&self) {
        let mut core = self.lock();
        let mut closing_since = None;
        loop {
            if core.is_closing {
                let since = *closing_since.get_or_insert_with(StdInstant::now);
                if core.engine.is_settled() || since.elapsed() > LINGER {
                    core.engine.close("its last handle was dropped");
                    self.news.notify_all();
                    return;
                }
            }
            let recently = core.left_at.elapsed();
            let nap = match core.holder {
                Holder::Waiting if core.is_receiving => {
                    let now = core.engine.clock().now();
                    if core.wake.is_none_or(|wake| wake <= now) {
                        core.wake = core.engine.step();
                        self.tell(&mut core);
                    }
                    let left = core.wake.unwrap_or(now).saturating_since(now).as_nanos();
                    Duration::from_nanos(left).clamp(WAKE_LATENESS, LOOK)
                }
                Holder::Waiting if recently < BUSY => LOOK,
                Holder::Waiting => Duration::from_secs(1),
                Holder::Nobody if recently < GRACE && !core.is_closing => GRACE,
                _ => Duration::ZERO,
            };
            if !nap.is_zero() {
                core.background_sleeps = nap > LOOK;
                let nanos = u64::try_from(nap.as_nanos()).unwrap_or(u64::MAX);
                let length = punctual_core::Duration::from_nanos(nanos);
                core.nap_until = Some(core.engine.clock().now().saturating_add(length));
                let waited = self.background.wait_timeout(core, nap);
                core = waited.unwrap_or_else(PoisonError::into_inner).0;
                (core.background_sleeps, core.nap_until) = (false, None);
                continue;
            }
            core.holder = Holder::Background;
            core.wake = core.engine.step();
            self.tell(&mut core);
            if core.is_closing && core.engine.is_settled() {
                continue;
            }
            core = self.sleep(core, None);
        }
    }
}
