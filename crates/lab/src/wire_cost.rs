//! What the packets of a flow cost on the wire, where flows are simulated without packets.

use punctual_core::Bytes;

/// Payload and overhead of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WireCost {
    /// Data bytes in a full packet, at least 1.
    pub(crate) payload: u64,
    /// Header bytes of each packet.
    pub(crate) header: u64,
    /// Bytes that links add to each packet.
    pub(crate) framing: u64,
}

impl WireCost {
    /// The packets of a flow. A flow without data has one.
    pub(crate) fn packets(&self, size: Bytes) -> u64 {
        size.get().div_ceil(self.payload).max(1)
    }

    /// The bytes of a flow on links, headers and framing included.
    pub(crate) fn on_link(&self, size: Bytes) -> Bytes {
        self.with(size, self.header + self.framing)
    }

    /// The bytes of a flow with `extra` bytes per packet.
    fn with(&self, size: Bytes, extra: u64) -> Bytes {
        if size == Bytes::ENDLESS {
            return size;
        }
        let extra = self.packets(size).saturating_mul(extra);
        Bytes::new(size.get().saturating_add(extra))
    }

    /// The bytes on links of the last packet of a flow, which must have an end.
    pub(crate) fn last_packet(&self, size: Bytes) -> Bytes {
        let before = (self.packets(size) - 1).saturating_mul(self.payload);
        let data = size.get().saturating_sub(before).min(self.payload);
        Bytes::new(data + self.header + self.framing)
    }

    /// The data among `moved` bytes on links of a flow.
    pub(crate) fn data_in(&self, moved: u64, size: Bytes) -> u64 {
        self.part(moved, size, 0)
    }

    /// Data and headers among `moved` bytes on links of a flow, without framing.
    pub(crate) fn packets_in(&self, moved: u64, size: Bytes) -> u64 {
        self.part(moved, size, self.header)
    }

    /// The share of `moved` bytes that is data plus `extra` bytes per packet.
    fn part(&self, moved: u64, size: Bytes, extra: u64) -> u64 {
        let (part, whole) = match size {
            Bytes::ENDLESS => (self.payload + extra, self.payload + self.header + self.framing),
            size => (self.with(size, extra).get(), self.on_link(size).get().max(1)),
        };
        (u128::from(moved) * u128::from(part) / u128::from(whole)) as u64
    }
}
