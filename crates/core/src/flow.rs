//! Flows: what an application asks for, and the events that follow.

use crate::rng::{Stream, derive};
use crate::{Bytes, Class, FlowId, HostId, Instant, TransportId};

/// One message to carry: source, destination, size, start and deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Its number, which its packets carry too.
    pub id: FlowId,
    /// The sending host.
    pub src: HostId,
    /// The receiving host.
    pub dst: HostId,
    /// Bytes to deliver, or [`Bytes::ENDLESS`].
    pub size: Bytes,
    /// When the application hands it over.
    pub start: Instant,
    /// When the last byte must have arrived, if it has a deadline.
    pub deadline: Option<Instant>,
    /// Which of the run's transports carries it.
    pub transport: TransportId,
    /// Service class of its data.
    pub class: Class,
    /// Background traffic, which is not measured itself.
    pub background: bool,
    /// Which of the scenario's traffic patterns it came from.
    pub pattern: u16,
}

/// What one end of a flow knows of the paths to the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRoute {
    /// This end.
    pub local: HostId,
    /// The other end.
    pub peer: HostId,
    /// The number of paths to the other end, at least 1. In most networks they are equal-cost paths.
    pub paths: u32,
    /// The path that hashing this flow's addresses gives (per-flow ECMP), below `paths`. On a host
    /// that does not know how many paths the network has, the only path of the flow (`paths` is 1) is
    /// any number, of which switches take the remainder.
    pub ecmp_path: u32,
    /// The number of NICs of this host, at least 1. Path p leaves by NIC p modulo `nics`.
    pub nics: u32,
    /// Seed of the flow's random stream at this end.
    pub seed: u64,
}

impl FlowRoute {
    /// What the end of a flow at `local` knows, in a network with `paths` to its peer, on a host
    /// with `nics`.
    pub fn of(
        seed: u64,
        flow: FlowId,
        local: HostId,
        peer: HostId,
        paths: u32,
        nics: u32,
    ) -> FlowRoute {
        // The two directions of a flow have different hashes, since their addresses are swapped.
        let id = u64::from(flow.0) << 32 | u64::from(local.0);
        let ecmp = derive(seed, "ecmp", id);
        let ecmp_path = ((u128::from(ecmp) * u128::from(paths)) >> 64) as u32;
        FlowRoute { local, peer, paths, ecmp_path, nics, seed: derive(seed, "flow", id) }
    }

    /// A path for each of several subflows: the flow's ECMP path, then random ones. None is taken
    /// twice before all are taken.
    pub fn subflow_paths(&self, subflows: u32) -> Vec<u32> {
        let paths = self.paths.max(1);
        let mut stream = Stream::from_seed(derive(self.seed, "subflow paths", 0));
        let mut chosen = vec![self.ecmp_path];
        while chosen.len() < subflows as usize {
            let path = stream.below(u64::from(paths)) as u32;
            let round = chosen.len() - chosen.len() % paths as usize;
            if !chosen[round..].contains(&path) {
                chosen.push(path);
            }
        }
        chosen
    }
}

/// A range of a flow's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// Why a sender retransmits data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetransmitCause {
    /// The receiver asked for it: a trimmed header or a gap arrived.
    Nack,
    /// A switch returned the packet's header to the sender.
    Bounce,
    /// A timer fired at either end before the packet was acknowledged.
    Timeout,
    /// Packets sent later were acknowledged before it.
    DuplicateAck,
}

/// An event that an endpoint reports about its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlowEvent {
    /// The receiver got these bytes for the first time.
    Delivered(ByteRange),
    /// The receiver has every byte. The flow's completion time ends here.
    Completed,
    /// The sender knows that the receiver has every byte and needs nothing more.
    Finished,
    /// The sender abandoned the flow before its end (quenched or terminated).
    Abandoned,
    /// A data packet was retransmitted.
    Retransmitted(RetransmitCause),
    /// A retransmission timer fired.
    TimedOut,
    /// The receiver saw a trimmed header.
    Trimmed,
    /// A switch returned a header to the sender.
    Bounced,
}
