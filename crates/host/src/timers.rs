//! Timers of the host and its flows.

use punctual_core::{FlowId, Instant, TimerChange};
use std::collections::{BTreeSet, HashMap};

/// Identifies a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Alarm {
    /// The timer of the state that the host's flows share.
    Host,
    /// The timer of a flow's endpoint.
    Flow(FlowId),
    /// The end of a receiver's time-wait or, before it is complete, of its patience.
    Forget(FlowId),
}

/// Pending timers: at most one instant per alarm.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    by_time: BTreeSet<(Instant, Alarm)>,
    by_alarm: HashMap<Alarm, Instant>,
}

impl Timers {
    pub(crate) fn apply(&mut self, alarm: Alarm, change: TimerChange) {
        let at = match change {
            TimerChange::Keep => return,
            TimerChange::Set(at) | TimerChange::Depart(at) => Some(at),
            TimerChange::Clear => None,
        };
        let old = match at {
            Some(at) => self.by_alarm.insert(alarm, at),
            None => self.by_alarm.remove(&alarm),
        };
        if let Some(old) = old {
            self.by_time.remove(&(old, alarm));
        }
        if let Some(at) = at {
            self.by_time.insert((at, alarm));
        }
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes the first alarm that is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Alarm> {
        let (at, alarm) = *self.by_time.first()?;
        if at > now {
            return None;
        }
        self.by_time.pop_first();
        self.by_alarm.remove(&alarm);
        Some(alarm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_again_replaces() {
        let at = Instant::from_picos;
        let (mut timers, flow) = (Timers::default(), Alarm::Flow(FlowId(7)));
        timers.apply(flow, TimerChange::Set(at(5)));
        timers.apply(Alarm::Host, TimerChange::Set(at(6)));
        timers.apply(flow, TimerChange::Set(at(9)));
        timers.apply(flow, TimerChange::Keep);
        assert_eq!(timers.next_at(), Some(at(6)));
        assert_eq!(timers.pop_due(at(8)), Some(Alarm::Host));
        assert_eq!(timers.pop_due(at(8)), None);
        assert_eq!(timers.pop_due(at(9)), Some(flow));
        timers.apply(flow, TimerChange::Set(at(10)));
        timers.apply(flow, TimerChange::Clear);
        assert_eq!((timers.next_at(), timers.pop_due(at(99))), (None, None));
    }
}
