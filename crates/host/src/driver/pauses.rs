//! Times in which this process did not run although it was due. Packets of peers then wait in the
//! sockets, so silence in them is not that of a peer.

use punctual_core::{Duration, Instant};

/// The last pauses of this process, oldest first.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    all: [(Instant, Instant); Pauses::MAX],
    count: usize,
}

impl Pauses {
    const MAX: usize = 8;
    /// Pauses with less time between them are one: in that time the process does not catch up.
    const BETWEEN: Duration = Duration::from_millis(100);
    /// How long after a pause nobody counts as silent: what waits in the sockets is read, and peers
    /// that paused too send again.
    const RECOVERY: Duration = Duration::from_millis(100);

    /// Notes that this process was due at `from`, but ran only at `to`.
    pub(super) fn note(&mut self, from: Instant, to: Instant) {
        if let Some((_, end)) = self.all[..self.count].last_mut()
            && from <= end.saturating_add(Self::BETWEEN)
        {
            *end = to.max(*end);
            return;
        }
        if self.count == Self::MAX {
            self.all.rotate_left(1);
            self.count -= 1;
        }
        self.all[self.count] = (from, to);
        self.count += 1;
    }

    /// When a peer that was last heard at this time has been silent for `silence` while this process
    /// ran.
    pub(super) fn silent_at(&self, heard_at: Instant, silence: Duration) -> Instant {
        let mut at = heard_at.saturating_add(silence);
        for (from, to) in &self.all[..self.count] {
            at = at.saturating_add(to.saturating_since((*from).max(heard_at)));
        }
        match self.all[..self.count].last() {
            Some((_, to)) if *to > heard_at => at.max(to.saturating_add(Self::RECOVERY)),
            _ => at,
        }
    }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO.saturating_add(Duration::from_millis(millis))
    }

    const SILENCE: Duration = Duration::from_millis(5_000);

    #[test]
    fn pauses__all_after_a_peer_was_heard_count() {
        let mut pauses = Pauses::default();
        assert_eq!(pauses.silent_at(at(1_000), SILENCE), at(6_000));
        pauses.note(at(2_000), at(8_000));
        // A short pause does not make the long one forgotten.
        pauses.note(at(8_500), at(8_700));
        assert_eq!(pauses.silent_at(at(1_000), SILENCE), at(12_200));
        // Of a pause in which a peer was heard, the rest counts.
        assert_eq!(pauses.silent_at(at(7_000), SILENCE), at(13_200));
        assert_eq!(pauses.silent_at(at(8_600), SILENCE), at(13_700));
        assert_eq!(pauses.silent_at(at(9_000), SILENCE), at(14_000));
    }

    #[test]
    fn pauses__a_peer_may_be_heard_first_afterwards() {
        let mut pauses = Pauses::default();
        // Noticed late, because the process slept when the pause began.
        pauses.note(at(9_990), at(10_200));
        assert_eq!(pauses.silent_at(at(5_000), SILENCE), at(10_300));
    }

    #[test]
    fn pauses__are_bounded_and_merged() {
        let mut pauses = Pauses::default();
        for n in 0..20 {
            pauses.note(at(1_000 * n), at(1_000 * n + 200));
        }
        assert_eq!(pauses.count, Pauses::MAX);
        assert_eq!(pauses.silent_at(at(0), at(0).saturating_since(at(0))), at(19_300));
        pauses.note(at(19_250), at(19_400));
        assert_eq!(pauses.all[Pauses::MAX - 1], (at(19_000), at(19_400)));
    }
}
