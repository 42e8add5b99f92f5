//! TIME-WAIT: ended connections, kept until their last packets have left the network.

use punctual_core::{Duration, FlowId, HostId, Instant};
use std::collections::{HashMap, VecDeque};

/// Which connection: with whom, and its name.
type Name = (HostId, FlowId);

/// The connections of one host that ended less than a packet's lifetime ago.
#[derive(Debug)]
pub(super) struct TimeWait {
    lifetime: Duration,
    /// By when they ended.
    ended: VecDeque<(Instant, Name)>,
    /// Until when a name must not be used. Looked up only, never walked.
    until: HashMap<Name, Instant>,
}

impl TimeWait {
    pub(super) fn new(lifetime: Duration) -> Self {
        TimeWait { lifetime, ended: VecDeque::new(), until: HashMap::new() }
    }

    /// A connection ended.
    pub(super) fn add(&mut self, peer: HostId, flow: FlowId, now: Instant) {
        if self.lifetime.is_zero() {
            return;
        }
        self.forget(now);
        let until = now.saturating_add(self.lifetime);
        self.ended.push_back((until, (peer, flow)));
        self.until.insert((peer, flow), until);
    }

    /// Until when this connection's packets are those of an ended one.
    pub(super) fn until(&self, peer: HostId, flow: FlowId, now: Instant) -> Option<Instant> {
        self.until.get(&(peer, flow)).copied().filter(|until| *until > now)
    }

    fn forget(&mut self, now: Instant) {
        while let Some(&(until, name)) = self.ended.front()
            && until <= now
        {
            self.ended.pop_front();
            // The name may have been used again, and ended again.
            if self.until.get(&name) == Some(&until) {
                self.until.remove(&name);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.until.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_for_a_lifetime_and_then_forgotten() {
        let at = |us| Instant::ZERO + Duration::from_micros(us);
        let mut wait = TimeWait::new(Duration::from_micros(100));
        for n in 0..1000 {
            wait.add(HostId(1), FlowId(n), at(u64::from(n)));
            assert!(wait.len() <= 100, "memory follows what ended lately");
        }
        let now = at(999);
        assert_eq!(wait.until(HostId(1), FlowId(999), now), Some(at(1099)));
        assert_eq!(wait.until(HostId(2), FlowId(999), now), None);
        assert_eq!(wait.until(HostId(1), FlowId(899), now), None);
        assert_eq!(wait.until(HostId(1), FlowId(900), now), Some(at(1000)));
    }
}
