//! Flows, as the driver knows them.

use super::sockets::Via;
use punctual_core::{Bytes, Class, End, ExtBlock, FlowId, HostId, Instant, Packet};
use punctual_wire::{RecentNumbers, WireName};
use std::net::SocketAddr;

/// A flow that a peer wants to send to this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The id that the flow will have.
    pub flow: FlowId,
    /// The sender.
    pub peer: SocketAddr,
    /// Its size; [`Bytes::ENDLESS`] if it has none.
    pub size: Bytes,
    /// When its first packet arrived.
    pub at: Instant,
    /// The number of the flow on the wire and the incarnation of the peer's process.
    pub name: WireName,
    /// The place of its transport among those of the driver.
    pub transport: u8,
}

/// A flow to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowRequest {
    pub(crate) peer: SocketAddr,
    pub(crate) size: Bytes,
    pub(crate) deadline: Option<Instant>,
    pub(crate) class: Class,
    /// Its number on the wire; random when absent.
    pub(crate) number: Option<u32>,
    /// The place of its transport among those of the driver.
    pub(crate) transport: u8,
}

/// Identifies a flow on the wire. Several peers may choose the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WireFlow {
    pub(super) peer: SocketAddr,
    pub(super) number: u32,
    pub(super) sent_from_here: bool,
}

impl WireFlow {
    /// The end of the flow that this host runs.
    pub(super) fn end(&self) -> End {
        if self.sent_from_here { End::Sender } else { End::Receiver }
    }
}

/// A flow with an end at this host.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) name: WireFlow,
    /// The place of its transport.
    pub(super) lane: u8,
    pub(super) slot: u32,
    pub(super) near: RecentNumbers,
    pub(super) size: Bytes,
    /// Bytes in each packet but the last, once a packet has shown it.
    pub(super) segment_bytes: Option<u64>,
    /// A bit for each NIC for which it is in a queue of ready senders.
    pub(super) ready_nics: u32,
    /// Whether its packets are spread over several paths, at a sender.
    pub(super) is_spread: bool,
    /// By which way packets of each path came, at a receiver: answers go back the same way.
    pub(super) returns: Vec<(u16, Via)>,
    /// By which way the last packet came, or else how the first one leaves.
    pub(super) via: Via,
    pub(super) heard_at: Instant,
    /// The incarnation of the peer's process, once a packet has shown it.
    pub(super) peer_incarnation: Option<u16>,
    /// When new data last arrived, at a receiver.
    pub(super) progress_at: Instant,
    /// Whether every byte has arrived, at a receiver.
    pub(super) is_complete: bool,
    /// Bytes of datagrams that arrived and left.
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    /// Packets for which the application has no room yet.
    pub(super) parked: Vec<Parked>,
    /// The answer to its last packet, while it is delayed.
    pub(super) delayed: Option<Packet>,
    pub(super) life: Life,
}

/// A packet that waits for room.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) packet: Packet,
    pub(super) block: Option<ExtBlock>,
    /// Where its data begins in the flow.
    pub(super) offset: u64,
    pub(super) payload: Vec<u8>,
}

impl Parked {
    /// The memory that a packet with this payload takes.
    pub(super) fn memory(payload: &[u8]) -> usize {
        size_of::<Parked>() + payload.len()
    }
}

/// How far a flow has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// Its endpoint is called, and tells the application what happens.
    Open,
    /// The application has closed it. Its sender is still called, because it leaves the ports on its
    /// path.
    Leaving,
    /// Its endpoint has ended. Its last packets may wait for the NIC.
    Ended,
}

/// A peer with open flows.
#[derive(Debug)]
pub(super) struct PeerFlows {
    pub(super) host: HostId,
    pub(super) flows: u32,
}

/// Most paths of a flow whose ways back are remembered.
const RETURNS_MAX: usize = 64;

impl Flow {
    /// Notes by which way a packet of the flow's sender came, on this path.
    pub(super) fn note_return(&mut self, path: u16, via: &Via) {
        if *via == self.via && self.returns.is_empty() {
            return;
        }
        self.via = *via;
        if let Some((_, known)) = self.returns.iter_mut().find(|(known, _)| *known == path) {
            *known = *via;
        } else if self.returns.len() < RETURNS_MAX {
            self.returns.push((path, *via));
        }
    }

    /// The way back for an answer on this path: that of its data, or of the last packet.
    pub(super) fn way_back(&self, path: u32) -> Via {
        let known = self.returns.iter().find(|(known, _)| u32::from(*known) == path);
        known.map_or(self.via, |(_, via)| *via)
    }
}
