//! The part of a paced receiver that all protocols share.

use punctual_core::{
    ByteRange, Class, FlowEvent, FlowId, FlowRoute, Header, HostCx, HostId, Packet, PacketFlags,
    RangeSet, Transport,
};

/// Reassembly of one flow.
#[derive(Clone, Debug)]
pub(crate) struct PacedReceiver {
    flow: FlowId,
    peer: HostId,
    arrived: RangeSet,
    size: Option<u64>,
    completed: bool,
}

impl PacedReceiver {
    /// A receiver that has received nothing.
    pub(crate) fn new(flow: FlowId, route: &FlowRoute) -> Self {
        let arrived = RangeSet::default();
        PacedReceiver { flow, peer: route.peer, arrived, size: None, completed: false }
    }

    /// Whether data that end at `end`, and with `is_end` end the flow, agree with the packets
    /// before.
    #[inline]
    pub(crate) fn is_consistent(&self, end: u64, is_end: bool) -> bool {
        let highest = || self.arrived.iter().last();
        self.size.is_none_or(|size| end <= size)
            && (!is_end
                || self.size.is_none_or(|size| end == size)
                    && highest().is_none_or(|(_, highest)| highest <= end))
    }

    /// Delivers the bytes from `start` to `end` that are new. `size` is the size of the flow, if
    /// this packet tells it.
    #[inline]
    pub(crate) fn deliver<T: Transport>(
        &mut self,
        (start, end): (u64, u64),
        size: Option<u64>,
        cx: &mut HostCx<'_, T>,
    ) {
        self.arrived.insert(start, end, |from, to| {
            let range = ByteRange { offset: from, len: to - from };
            cx.out.events.push(FlowEvent::Delivered(range));
        });
        if size.is_some() {
            self.size = size;
        }
        if !self.completed && self.size == Some(self.arrived.prefix_end()) {
            self.completed = true;
            cx.emit(FlowEvent::Completed);
        }
    }

    /// Bytes that have arrived without a gap.
    #[inline]
    pub(crate) fn prefix_end(&self) -> u64 {
        self.arrived.prefix_end()
    }

    /// Whether no byte has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.arrived.iter().next().is_none()
    }

    /// An acknowledgement, which returns along the path of the packet it acknowledges.
    #[inline]
    pub(crate) fn ack_packet(&self, header: Header, path: u32, wire_bytes: u16) -> Packet {
        let mut ack = Packet::new(self.flow, self.peer, header);
        ack.path = path;
        ack.flags = PacketFlags::TO_SENDER.with(PacketFlags::REVERSE_PATH);
        ack.class = Class::CONTROL;
        ack.wire_bytes = wire_bytes;
        ack
    }
}
