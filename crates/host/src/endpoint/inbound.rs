//! A message that is being received.

use super::format::{Opening, Prologue};
use super::options::{HostTransport, ReceiveError};
use super::services::Owner;
use punctual_core::{ByteRange, FlowId, Instant, RangeSet};
use std::net::SocketAddr;
use std::task::Waker;

/// A message that is being received, or waits to be read.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) peer: SocketAddr,
    /// Its flow, until the message is complete.
    pub(super) flow: Option<FlowId>,
    /// Its flow, when the message is complete.
    pub(super) done_flow: Option<FlowId>,
    pub(super) number: u32,
    pub(super) transport: HostTransport,
    prologue: [u8; Prologue::BYTES],
    pub(super) opening: Option<Prologue>,
    /// Bytes of the message, without its prologue.
    pub(super) len: u64,
    /// A ring with the bytes from `read` on.
    ring: Vec<u8>,
    /// Memory of its packets that the driver keeps until there is room.
    pub(super) parked: usize,
    arrived: RangeSet,
    /// Bytes of the message that the application has read.
    pub(super) read: u64,
    pub(super) started_at: Instant,
    /// Whose message it is, once its service or its request is known.
    pub(super) owner: Option<Owner>,
    /// Whether it waits until its owner has room.
    pub(super) is_held: bool,
    pub(super) is_complete: bool,
    pub(super) error: Option<ReceiveError>,
    pub(super) waker: Option<Waker>,
    /// When its sender was last asked to wait.
    pub(super) asked_to_wait: Instant,
}

impl Inbound {
    pub(super) fn new(
        peer: SocketAddr,
        flow: FlowId,
        number: u32,
        len: u64,
        buffer: usize,
        now: Instant,
    ) -> Self {
        Inbound {
            peer,
            flow: Some(flow),
            done_flow: None,
            number,
            transport: HostTransport::default(),
            prologue: [0; Prologue::BYTES],
            opening: None,
            len,
            ring: vec![0; buffer],
            parked: 0,
            arrived: RangeSet::default(),
            read: 0,
            started_at: now,
            owner: None,
            is_held: false,
            is_complete: false,
            error: None,
            waker: None,
            asked_to_wait: Instant::ZERO,
        }
    }

    /// Bytes of its buffer.
    pub(super) fn memory(&self) -> usize {
        self.ring.len()
    }

    /// Makes room for the whole message. Nothing of it has been read yet.
    pub(super) fn hold_whole(&mut self) {
        debug_assert_eq!(self.read, 0);
        self.ring.resize(self.len as usize, 0);
    }

    /// Frees the room of bytes that have not arrived. Nothing of it has been read yet. Returns how
    /// much was freed.
    pub(super) fn give_up_room(&mut self) -> usize {
        debug_assert_eq!(self.read, 0);
        let end = self
            .arrived
            .iter()
            .last()
            .map_or(0, |(_, end)| end)
            .saturating_sub(Prologue::BYTES as u64) as usize;
        let freed = self.ring.len().saturating_sub(end);
        self.ring.truncate(end);
        self.ring.shrink_to_fit();
        freed
    }

    /// Takes room again, up to this size of the buffer.
    pub(super) fn take_room(&mut self, buffer: usize) {
        self.ring.resize(buffer.max(self.ring.len()), 0);
    }

    /// Whether these bytes of the flow fit into the ring.
    pub(super) fn has_room(&self, range: ByteRange) -> bool {
        let end = (range.offset + range.len).saturating_sub(Prologue::BYTES as u64);
        end <= self.read + self.ring.len() as u64
    }

    /// Stores bytes of the flow. Returns what its first bytes are, when they are complete.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> Option<Opening> {
        let head = Prologue::BYTES as u64;
        let start = offset.min(head) as usize;
        let (prologue, body) = data.split_at(data.len().min(Prologue::BYTES - start));
        self.prologue[start..start + prologue.len()].copy_from_slice(prologue);
        let at = (offset + prologue.len() as u64).saturating_sub(head);
        if !self.ring.is_empty() {
            let at = (at % self.ring.len() as u64) as usize;
            let first = body.len().min(self.ring.len() - at);
            self.ring[at..at + first].copy_from_slice(&body[..first]);
            self.ring[..body.len() - first].copy_from_slice(&body[first..]);
        }
        self.arrived.insert(offset, offset + data.len() as u64, |_, _| {});
        if self.opening.is_some() || self.arrived.prefix_end() < head {
            return None;
        }
        let opening = Opening::of(&self.prologue);
        if let Opening::Message(prologue) = opening {
            self.opening = Some(prologue);
        }
        Some(opening)
    }

    /// Bytes that can be read now.
    pub(super) fn readable(&self) -> usize {
        let end = self.arrived.prefix_end().saturating_sub(Prologue::BYTES as u64);
        (end - self.read.min(end)) as usize
    }

    /// Whether every byte has been read.
    pub(super) fn is_at_end(&self) -> bool {
        self.is_complete && self.read == self.len
    }

    /// Takes bytes in order.
    pub(super) fn take(&mut self, into: &mut [u8]) -> usize {
        let count = into.len().min(self.readable());
        let mut done = 0;
        while done < count {
            let at = ((self.read + done as u64) % self.ring.len() as u64) as usize;
            let part = (count - done).min(self.ring.len() - at);
            into[done..done + part].copy_from_slice(&self.ring[at..at + part]);
            done += part;
        }
        self.read += count as u64;
        count
    }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;
    use crate::endpoint::format::Purpose;
    use punctual_core::rng::Stream;

    #[test]
    fn ring__bytes_in_order_whatever_the_arrival() {
        for seed in 0..50 {
            let mut stream = Stream::named(seed, "ring", 0);
            let len = 1 + stream.below(20_000) as usize;
            let buffer = len.min(2_000 + stream.below(3_000) as usize);
            let purpose = Purpose::Message;
            let prologue = Prologue {
                purpose,
                to_incarnation: None,
                deadline_us: 0,
                id: 0,
                service: 0,
                confirms: None,
            };
            let mut flow = prologue.to_bytes().to_vec();
            flow.extend((0..len).map(|_| stream.bits() as u8));
            let peer = SocketAddr::from(([127, 0, 0, 1], 1));
            let mut inbound = Inbound::new(peer, FlowId(1), 1, len as u64, buffer, Instant::ZERO);
            let mut missing: Vec<usize> = (0..flow.len().div_ceil(700)).collect();
            let mut read = Vec::new();
            while !missing.is_empty() {
                let near = stream.below(missing.len().min(4) as u64) as usize;
                let offset = missing[near] * 700;
                let data = &flow[offset..flow.len().min(offset + 700)];
                let range = ByteRange { offset: offset as u64, len: data.len() as u64 };
                if inbound.has_room(range) {
                    inbound.write(offset as u64, data);
                    missing.remove(near);
                } else {
                    assert!(near > 0 || inbound.readable() > 0, "the first one always fits");
                }
                let mut part = vec![0; 1 + stream.below(900) as usize];
                let count = inbound.take(&mut part);
                read.extend_from_slice(&part[..count]);
            }
            inbound.is_complete = true;
            while !inbound.is_at_end() {
                let mut part = vec![0; 900];
                let count = inbound.take(&mut part);
                read.extend_from_slice(&part[..count]);
            }
            assert!(read == flow[Prologue::BYTES..], "seed {seed}");
        }
    }
}
