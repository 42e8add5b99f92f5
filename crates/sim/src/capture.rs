//! Captures the packets that links carry.

use crate::tap::{Ending, Findings, Observation, Tap};
use punctual_core::{ExtBlock, Instant, Packet, PacketId, PortId};
use punctual_record::CapturedPacket;

/// The observer that captures the first packets of a run. The run ends when it has all it may keep.
#[derive(Debug)]
pub(crate) struct Capture {
    packets_max: usize,
    packets: Vec<CapturedPacket>,
    /// Header extensions by slot of their packets.
    blocks: Vec<Option<Box<ExtBlock>>>,
}

impl Capture {
    pub(crate) fn new(packets_max: u32) -> Self {
        Capture { packets_max: packets_max as usize, packets: Vec::new(), blocks: Vec::new() }
    }
}

impl Tap for Capture {
    const WATCHES_HEADERS: bool = true;

    #[inline(always)]
    fn observe(&mut self, what: Observation<'_>) {
        match what {
            Observation::HeaderExtended { id, block } => self.header_extended(id, block),
            Observation::PacketSent { port, id, packet, from, .. } => {
                self.packet_sent(port, id, packet, from);
            }
            _ => {}
        }
    }

    fn is_stuck(&self) -> bool {
        self.packets.len() >= self.packets_max
    }

    fn conclude(&mut self, _end: &Ending<'_>, findings: &mut Findings) {
        // A port reports a packet from its queue when it is next touched, which may be later.
        self.packets.sort_by_key(|captured| captured.at);
        findings.captured = std::mem::take(&mut self.packets);
    }
}

impl Capture {
    /// Remembers the header extension of a packet.
    fn header_extended(&mut self, id: PacketId, block: &ExtBlock) {
        let slot = id.0 as usize;
        if slot >= self.blocks.len() {
            self.blocks.resize(slot + 1, None);
        }
        self.blocks[slot] = Some(Box::new(*block));
    }

    /// Keeps a copy of a packet that a port sends at `at`.
    fn packet_sent(&mut self, port: PortId, id: PacketId, packet: &Packet, at: Instant) {
        if !self.is_stuck() {
            let block = packet.ext.and_then(|_| self.blocks.get(id.0 as usize)?.clone());
            self.packets.push(CapturedPacket { at, port, packet: *packet, block });
        }
    }
}
