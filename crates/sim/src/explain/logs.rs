//! Logs of what a port sent, or which pulls and tokens a host sent, while a flow waited for it.

use super::chain::Stretch;
use super::{Behind, What};
use punctual_core::{FlowId, Instant, PortId};
use std::collections::VecDeque;

/// The maximum number of entries kept. The oldest are dropped first.
const KEPT: usize = 4096;

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) flow: FlowId,
    pub(super) from: Instant,
    pub(super) until: Instant,
    pub(super) bytes: u32,
}

/// A log of what was sent, in order, kept while a flow waits.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Entry>,
    /// The number of entries dropped.
    gone: u64,
    /// The number of current waits.
    waiting: u32,
}

/// The kinds of a wait: behind other flows, or while the port or host was idle.
#[derive(Clone, Copy)]
pub(super) struct Names {
    pub(super) behind_others: What,
    pub(super) idle: What,
}

impl Log {
    /// A wait begins. Returns the number of its first entry.
    pub(super) fn begin(&mut self, now: Instant) -> u64 {
        self.waiting += 1;
        let end = self.gone + self.entries.len() as u64;
        match self.entries.back() {
            Some(last) if last.until > now => end - 1,
            _ => end,
        }
    }

    /// A wait ends.
    pub(super) fn end(&mut self) {
        self.waiting -= 1;
    }

    pub(super) fn push(&mut self, entry: Entry) {
        let most = if self.waiting == 0 { 0 } else { KEPT };
        while self.entries.len() > most {
            self.entries.pop_front();
            self.gone += 1;
        }
        self.entries.push_back(entry);
    }

    /// Ends the last entry now, if it lasts longer: a turn ends when the next begins.
    pub(super) fn end_last(&mut self, now: Instant) {
        if let Some(last) = self.entries.back_mut() {
            last.until = last.until.min(now);
        }
    }

    /// Splits the time of a flow's wait, whose first entry is `start`, by what was sent meanwhile.
    pub(super) fn split(
        &self,
        start: u64,
        own: FlowId,
        (from, to): (Instant, Instant),
        port: Option<PortId>,
        names: Names,
    ) -> Vec<Stretch> {
        let skip = usize::try_from(start.saturating_sub(self.gone)).unwrap_or(usize::MAX);
        let mut behind = Behind::default();
        let (mut others, mut busy) = (0, 0);
        for entry in self.entries.iter().skip(skip) {
            let (start, end) = (entry.from.max(from), entry.until.min(to));
            let time = end.saturating_since(start).as_picos();
            if time == 0 {
                continue;
            }
            busy += time;
            if entry.flow != own {
                others += time;
                behind.add(entry.flow, u64::from(entry.bytes));
            }
        }
        behind.settle();
        let whole = (to - from).as_picos();
        let busy = busy.min(whole);
        let others = others.min(busy);
        let mut stretches = Vec::new();
        let mut at = from;
        let mut add = |what, time, behind| {
            if time > 0 {
                at += punctual_core::Duration::from_picos(time);
                stretches.push(Stretch { what, until: at, port, behind });
            }
        };
        add(names.behind_others, others, behind);
        add(names.idle, whole - busy, Behind::default());
        add(What::Own, busy - others, Behind::default());
        stretches
    }
}
