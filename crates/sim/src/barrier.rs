//! A barrier for threads that wait for each other once a window: they spin for a while, then sleep.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// How often a thread looks before it sleeps: tens of microseconds, about as long as it takes to
/// wake.
const LOOKS: u32 = 1 << 10;

/// A barrier.
#[derive(Debug)]
pub(crate) struct Barrier {
    threads: usize,
    /// How often a thread looks before it sleeps. Not at all where threads share processors.
    looks: u32,
    waiting: AtomicUsize,
    round: AtomicUsize,
    sleepers: Mutex<usize>,
    wake: Condvar,
    /// A thread has panicked, and will not come.
    is_broken: AtomicBool,
}

impl Barrier {
    pub(crate) fn new(threads: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        Barrier {
            threads,
            looks: if threads <= processors { LOOKS } else { 0 },
            waiting: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            sleepers: Mutex::new(0),
            wake: Condvar::new(),
            is_broken: AtomicBool::new(false),
        }
    }

    /// Waits until all threads have called this.
    ///
    /// # Panics
    /// When one of them has panicked.
    pub(crate) fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.waiting.store(0, Ordering::Relaxed);
            self.open(round);
        } else {
            self.await_round(round);
        }
        assert!(!self.is_broken.load(Ordering::Acquire), "another thread of the run has panicked");
    }

    /// Begins the next round.
    fn open(&self, round: usize) {
        let sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        self.round.store(round.wrapping_add(1), Ordering::Release);
        if *sleepers > 0 {
            self.wake.notify_all();
        }
    }

    fn await_round(&self, round: usize) {
        // A broken barrier stays open, also for threads that come later.
        let goes_on = || {
            self.round.load(Ordering::Acquire) != round || self.is_broken.load(Ordering::Acquire)
        };
        for _ in 0..self.looks {
            if goes_on() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        *sleepers += 1;
        while !goes_on() {
            sleepers = self.wake.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
        }
        *sleepers -= 1;
    }

    /// Breaks the barrier: all threads that wait, and those that come, panic.
    pub(crate) fn give_up(&self) {
        let _sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_broken.store(true, Ordering::Release);
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No thread begins a round before all have ended the one before, whether they spin or sleep.
    #[test]
    fn threads_stay_together() {
        for (threads, looks) in [(1, LOOKS), (2, LOOKS), (3, 0), (8, 3)] {
            let barrier = Barrier { looks, ..Barrier::new(threads) };
            let begun = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        for round in 0..500 {
                            begun.fetch_add(1, Ordering::SeqCst);
                            barrier.wait();
                            assert_eq!(begun.load(Ordering::SeqCst), (round + 1) * threads);
                            barrier.wait();
                        }
                    });
                }
            });
        }
    }

    /// Threads that wait panic, spinning or asleep, and so does one that comes when it is too late.
    #[test]
    fn waiting_ends_when_a_thread_gives_up() {
        for looks in [LOOKS, 0] {
            let barrier = Barrier { looks, ..Barrier::new(4) };
            std::thread::scope(|scope| {
                let waiting = [0, 1].map(|_| scope.spawn(|| barrier.wait()));
                while barrier.waiting.load(Ordering::SeqCst) < waiting.len() {
                    std::thread::yield_now();
                }
                barrier.give_up();
                assert!(waiting.into_iter().all(|thread| thread.join().is_err()));
                let late = scope.spawn(|| barrier.wait());
                assert!(late.join().is_err(), "a thread waits at a broken barrier");
            });
        }
    }
}
