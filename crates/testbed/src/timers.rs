//! The timers of one host.
//!
//! Setting a timer again writes a field. The heap gets a new entry only if the timer is to fire
//! earlier than its entry there; a timer that is found too early is pushed again.

use punctual_core::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Debug, Clone, Copy)]
struct Timer {
    /// When it fires, or never.
    at: Instant,
    /// The earliest entry of the heap for it, or never.
    queued: Instant,
}

const OFF: Timer = Timer { at: Instant::NEVER, queued: Instant::NEVER };

/// Timers, named by small numbers.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    timers: Vec<Timer>,
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
    free: Vec<u32>,
}

impl Timers {
    /// A new timer, which is off.
    pub(crate) fn alloc(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.timers.push(OFF);
            self.timers.len() as u32 - 1
        })
    }

    /// Gives a timer back.
    pub(crate) fn release(&mut self, timer: u32) {
        // Its entries in the heap are dropped when they are found.
        self.timers[timer as usize].at = Instant::NEVER;
        self.free.push(timer);
    }

    /// Sets a timer; [`Instant::NEVER`] turns it off.
    pub(crate) fn set(&mut self, timer: u32, at: Instant) {
        let entry = &mut self.timers[timer as usize];
        entry.at = at;
        if at < entry.queued {
            entry.queued = at;
            self.heap.push(Reverse((at, timer)));
        }
    }

    /// Takes out the first timer that is due by `until`, with its time. It is off then.
    pub(crate) fn pop(&mut self, until: Instant) -> Option<(Instant, u32)> {
        while let Some(&Reverse((queued, timer))) = self.heap.peek()
            && queued <= until
        {
            self.heap.pop();
            let entry = &mut self.timers[timer as usize];
            if queued != entry.queued {
                continue; // Another entry is earlier, or was.
            }
            entry.queued = Instant::NEVER;
            let at = entry.at;
            if at <= until {
                entry.at = Instant::NEVER;
                return Some((at, timer));
            }
            if at != Instant::NEVER {
                entry.queued = at;
                self.heap.push(Reverse((at, timer)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(picos: u64) -> Instant {
        Instant::from_picos(picos)
    }

    #[test]
    fn timers__fire_once_at_the_last_time_set() {
        let mut timers = Timers::default();
        let [a, b, c] = [timers.alloc(), timers.alloc(), timers.alloc()];
        timers.set(a, at(10));
        timers.set(a, at(30)); // later
        timers.set(b, at(20));
        timers.set(b, at(5)); // earlier
        timers.set(c, at(7));
        timers.set(c, Instant::NEVER); // off
        assert_eq!(timers.pop(at(4)), None);
        assert_eq!(timers.pop(at(25)), Some((at(5), b)));
        assert_eq!(timers.pop(at(25)), None);
        assert_eq!(timers.pop(at(30)), Some((at(30), a)));
        assert_eq!(timers.pop(at(1000)), None);
        timers.set(b, at(40));
        timers.release(b);
        assert_eq!(timers.pop(at(1000)), None);
    }
}
