//! Timers of the host and its flows.

use ahash::HashMap;
use punctual_core::{Duration, FlowId, Instant, TimerChange};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Identifies a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Alarm {
    /// The timer of the state that the host's flows share, of this transport.
    Host(u8),
    /// The timer of a transport's controller at a NIC.
    Port(u8, u8),
    /// The timer of a flow's endpoint.
    Flow(FlowId),
    /// The end of the delay of answers.
    Answers,
    /// The next look at the paths to peers.
    Paths,
    /// The end of a receiver's time-wait or, before it is complete, of its patience.
    Forget(FlowId),
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    /// When it is due; `None` if it was cleared.
    at: Option<Instant>,
    /// The time of its entry in the heap, which is not later.
    queued: Instant,
}

/// Pending timers: at most one instant per alarm.
///
/// An alarm that moves to a later time keeps its entry in the heap, which moves when it comes up.
/// So a timer that every packet postpones costs a look-up only.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, Alarm)>>,
    pending: HashMap<Alarm, Pending>,
}

impl Timers {
    pub(crate) fn apply(&mut self, alarm: Alarm, change: TimerChange) {
        let at = match change {
            TimerChange::Keep => return,
            TimerChange::Set(at) | TimerChange::Depart(at) => at,
            TimerChange::Clear => {
                if let Some(pending) = self.pending.get_mut(&alarm) {
                    pending.at = None;
                }
                return;
            }
        };
        let queued = match self.pending.get(&alarm) {
            Some(pending) if pending.queued <= at => pending.queued,
            // An entry of a later time stays in the heap and is skipped.
            _ => {
                self.heap.push(Reverse((at, alarm)));
                at
            }
        };
        self.pending.insert(alarm, Pending { at: Some(at), queued });
    }

    /// When the first timer is due.
    pub(crate) fn next_at(&mut self) -> Option<Instant> {
        loop {
            let Reverse((queued, alarm)) = *self.heap.peek()?;
            let pending = self.pending.get(&alarm).filter(|p| p.queued == queued);
            match pending.map(|p| p.at) {
                Some(Some(at)) if at == queued => return Some(at),
                Some(Some(at)) => {
                    self.heap.pop();
                    self.heap.push(Reverse((at, alarm)));
                    self.pending.insert(alarm, Pending { at: Some(at), queued: at });
                }
                Some(None) => {
                    self.heap.pop();
                    self.pending.remove(&alarm);
                }
                None => {
                    self.heap.pop();
                }
            }
        }
    }

    /// When to wake up for the first timer. Timers that need no precision allow for a sleep that ends
    /// late instead of a spin.
    pub(crate) fn next_wake(&mut self, lateness: Duration) -> Option<Instant> {
        let at = self.next_at()?;
        match self.heap.peek() {
            Some(Reverse((_, Alarm::Answers | Alarm::Paths | Alarm::Forget(_)))) => {
                Some(at.saturating_add(lateness))
            }
            _ => Some(at),
        }
    }

    /// Removes the first alarm that is due, with the time for which it was set.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, Alarm)> {
        let at = self.next_at().filter(|at| *at <= now)?;
        let Reverse((_, alarm)) = self.heap.pop()?;
        self.pending.remove(&alarm);
        Some((at, alarm))
    }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;
    use punctual_core::rng::Stream;
    use std::collections::BTreeMap;

    #[test]
    fn apply__setting_again_replaces() {
        let at = Instant::from_picos;
        let (mut timers, flow) = (Timers::default(), Alarm::Flow(FlowId(7)));
        timers.apply(flow, TimerChange::Set(at(5)));
        timers.apply(Alarm::Host(0), TimerChange::Set(at(6)));
        timers.apply(flow, TimerChange::Set(at(9)));
        timers.apply(flow, TimerChange::Keep);
        assert_eq!(timers.next_at(), Some(at(6)));
        assert_eq!(timers.pop_due(at(8)), Some((at(6), Alarm::Host(0))));
        assert_eq!(timers.pop_due(at(8)), None);
        assert_eq!(timers.pop_due(at(9)), Some((at(9), flow)));
        timers.apply(flow, TimerChange::Set(at(10)));
        timers.apply(flow, TimerChange::Clear);
        assert_eq!((timers.next_at(), timers.pop_due(at(99))), (None, None));
    }

    #[test]
    fn timers__fire_as_a_sorted_map_would() {
        let mut stream = Stream::named(1, "timers", 0);
        let (mut timers, mut expected) = (Timers::default(), BTreeMap::new());
        let mut now = 0;
        for _ in 0..20_000 {
            let alarm = Alarm::Flow(FlowId(stream.below(9) as u32));
            match stream.below(4) {
                0 => {
                    timers.apply(alarm, TimerChange::Clear);
                    expected.remove(&alarm);
                }
                1 => now += stream.below(20),
                _ => {
                    let at = Instant::from_picos(now + stream.below(50));
                    timers.apply(alarm, TimerChange::Set(at));
                    expected.insert(alarm, at);
                }
            }
            let due = |e: &BTreeMap<Alarm, Instant>| e.iter().map(|(a, t)| (*t, *a)).min();
            while let Some(next) = due(&expected).filter(|(at, _)| at.as_picos() <= now) {
                assert_eq!(timers.pop_due(Instant::from_picos(now)), Some(next));
                expected.remove(&next.1);
            }
            assert_eq!(timers.pop_due(Instant::from_picos(now)), None);
        }
        assert!(timers.heap.len() < 2_000, "stale entries pile up: {}", timers.heap.len());
    }
}
