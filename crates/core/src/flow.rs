//! Flows: what an application asks for, and the events that follow.

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
    /// The number of equal-cost paths to the other end, at least 1.
    pub paths: u32,
    /// The path that hashing this flow's addresses gives (per-flow ECMP), below `paths`.
    pub ecmp_path: u32,
    /// Seed of the flow's random stream at this end.
    pub seed: u64,
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
