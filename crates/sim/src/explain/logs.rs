//! What a port sent while someone waited for it, and who was asked for while someone waited for a
//! receiver's turn.

use super::chain::Stretch;
use super::{Behind, What};
use punctual_core::{FlowId, Instant, PortId};
use std::collections::VecDeque;

/// Entries kept at most. Of a longer wait the first are forgotten.
const KEPT: usize = 4096;

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) flow: FlowId,
    pub(super) from: Instant,
    pub(super) until: Instant,
    pub(super) bytes: u32,
}

/// What was sent, in order; as much of it as those who wait need.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Entry>,
    /// Entries forgotten.
    gone: u64,
    waiting: u32,
}

/// What a wait is called, by what happened meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Names {
    pub(super) behind_others: What,
    pub(super) idle: What,
}

impl Log {
    /// Someone begins to wait. Returns from where on the log is about that.
    pub(super) fn begin(&mut self, now: Instant) -> u64 {
        self.waiting += 1;
        let end = self.gone + self.entries.len() as u64;
        match self.entries.back() {
            Some(last) if last.until > now => end - 1,
            _ => end,
        }
    }

    /// Someone waits no more.
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

    /// The last entry lasts until now at most: a turn ends when the next begins.
    pub(super) fn end_last(&mut self, now: Instant) {
        if let Some(last) = self.entries.back_mut() {
            last.until = last.until.min(now);
        }
    }

    /// What the time from one instant to another went into, for a flow that began to wait at
    /// `start` of the log.
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
