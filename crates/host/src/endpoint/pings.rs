//! Pings under way.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Most pings whose answers are awaited. The oldest is forgotten for one more.
const PINGS_MAX: usize = 1_024;

/// Why a ping measured nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PingError {
    /// No answer came in time.
    #[error("{peer}: no answer within {waited:?}")]
    NoAnswer {
        /// The peer.
        peer: SocketAddr,
        /// How long this end waited.
        waited: Duration,
    },
    /// The peer reads another version of the packet format.
    #[error(
        "{peer}: reads version {theirs} of the packet format, this end version {ours}; run the \
         same version at both ends"
    )]
    OtherVersion {
        /// The peer.
        peer: SocketAddr,
        /// The version that the peer reads.
        theirs: u8,
        /// The version that this end reads.
        ours: u8,
    },
}

/// What a peer answered to a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PingAnswer {
    Pong,
    /// It reads this version of the packet format.
    OtherVersion(u8),
}

#[derive(Debug)]
struct Ping {
    peer: SocketAddr,
    number: u64,
    answer: Option<PingAnswer>,
}

/// The pings whose answers are awaited. Answers that nobody awaits take no memory.
#[derive(Debug, Default)]
pub(super) struct Pings(VecDeque<Ping>);

impl Pings {
    /// The flow number in the envelope of a ping, which the answer of a peer of another version
    /// repeats.
    pub(super) fn flow(number: u64) -> u32 {
        number as u32
    }

    pub(super) fn add(&mut self, peer: SocketAddr, number: u64) {
        if self.0.len() >= PINGS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Ping { peer, number, answer: None });
    }

    /// Notes that the peer answered.
    pub(super) fn answer(&mut self, peer: SocketAddr, number: u64) {
        let mut pings = self.0.iter_mut();
        if let Some(ping) = pings.find(|ping| (ping.peer, ping.number) == (peer, number)) {
            ping.answer = Some(PingAnswer::Pong);
        }
    }

    /// Notes that the peer could not read the ping with this flow number.
    pub(super) fn refuse(&mut self, peer: SocketAddr, flow: u32, version: u8) {
        let is_meant = |ping: &&mut Ping| ping.peer == peer && Self::flow(ping.number) == flow;
        if let Some(ping) = self.0.iter_mut().find(is_meant) {
            ping.answer.get_or_insert(PingAnswer::OtherVersion(version));
        }
    }

    /// Takes the answer to a ping.
    pub(super) fn take(&mut self, peer: SocketAddr, number: u64) -> Option<PingAnswer> {
        let at = self.0.iter().position(|ping| (ping.peer, ping.number) == (peer, number))?;
        let answer = self.0[at].answer?;
        self.0.remove(at);
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn only_awaited_answers_count() {
        let mut pings = Pings::default();
        (0..10_000).for_each(|number| pings.answer(peer(1), number));
        pings.add(peer(1), 5);
        assert_eq!(pings.take(peer(1), 5), None);
        pings.answer(peer(2), 5);
        pings.refuse(peer(2), 5, 3);
        pings.refuse(peer(1), 6, 3);
        assert_eq!(pings.take(peer(1), 5), None);
        pings.answer(peer(1), 5);
        // An answer in this version counts, whatever somebody else says.
        pings.refuse(peer(1), 5, 3);
        assert_eq!(pings.take(peer(1), 5), Some(PingAnswer::Pong));
        assert_eq!(pings.take(peer(1), 5), None);
    }

    #[test]
    fn pings_without_answer_are_bounded() {
        let mut pings = Pings::default();
        (0..5_000).for_each(|number| pings.add(peer(1), number));
        assert_eq!(pings.0.len(), PINGS_MAX);
        pings.refuse(peer(1), 4_999, 3);
        assert_eq!(pings.take(peer(1), 4_999), Some(PingAnswer::OtherVersion(3)));
    }
}
