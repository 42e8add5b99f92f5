//! Fixed window: a sender keeps a constant number of packets in flight.
//!
//! The receiver acknowledges every packet by its number. The sender sends a new packet for each one
//! acknowledged. When nothing has been acknowledged for `rto`, it sends the unacknowledged packets
//! again, oldest first, and doubles the timeout until the next acknowledgement.

use punctual_core::{
    BitRing, ByteRange, Bytes, Class, Duration, Endpoint, FlowEvent, FlowId, FlowRoute, FlowSpec,
    Header, HostCx, HostId, Limit, NicInfo, NoController, Packet, PacketFlags, QueueSpec, Rate,
    RetransmitCause, Transport, TransportInfo,
};
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of the IP header and of ours.
const HEADER_BYTES: u16 = 40;
/// The timeout doubles up to 2^6 times `rto`.
const BACKOFF_MAX: u32 = 6;

/// The parameters: `[transport.fixed-window]` in a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FixedWindow {
    /// Packets in flight.
    pub window: u64,
    /// How long to wait for an acknowledgement before sending again.
    pub rto: Duration,
}

impl Default for FixedWindow {
    fn default() -> Self {
        FixedWindow { window: 10, rto: Duration::from_millis(10) }
    }
}

/// What every packet carries: 32 bytes that only this transport reads.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct FixedWindowHeader {
    /// The number of the packet, or of the packet that is acknowledged.
    number: u64,
    /// Packets of the flow.
    count: u64,
    /// Bytes of data in each packet but the last.
    segment_bytes: u64,
    reserved: u64,
}

/// State of a flow's sending end.
pub struct FixedWindowSender {
    flow: FlowId,
    peer: HostId,
    path: u32,
    class: Class,
    size: u64,
    segment_bytes: u64,
    acked: BitRing,
    /// The next packet to send, unless it is acknowledged.
    next: u64,
    /// Packets from here on have never been sent.
    fresh: u64,
    /// Timeouts since the last acknowledgement.
    backoff: u32,
}

/// State of a flow's receiving end.
pub struct FixedWindowReceiver {
    peer: HostId,
    path: u32,
    received: BitRing,
    is_complete: bool,
}

impl FixedWindowSender {
    fn count(&self) -> u64 {
        self.size.div_ceil(self.segment_bytes).max(1)
    }

    /// Asks the NIC to call [`Endpoint::poll_transmit`] if the window allows a packet.
    fn pump(&mut self, cx: &mut HostCx<'_, FixedWindow>) {
        while self.next < self.fresh && self.acked.contains(self.next) {
            self.next += 1;
        }
        let window_end = self.acked.base().saturating_add(cx.config.window);
        if self.next < self.count().min(window_end) {
            cx.ready(self.class);
        }
    }

    fn set_timeout(&self, cx: &mut HostCx<'_, FixedWindow>) {
        let rto = cx.config.rto.as_picos() << self.backoff;
        cx.set_timer(cx.now + Duration::from_picos(rto));
    }
}

impl Endpoint<FixedWindow> for FixedWindowSender {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, FixedWindow>) {
        let ack: FixedWindowHeader = packet.header.get();
        // Whatever arrives from a network may be malformed.
        if ack.number >= self.fresh || !self.acked.insert(ack.number) {
            return;
        }
        self.backoff = 0;
        if self.acked.base() >= self.count() {
            cx.clear_timer();
            cx.emit(FlowEvent::Finished);
            return;
        }
        self.set_timeout(cx);
        self.pump(cx);
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, FixedWindow>) {
        cx.emit(FlowEvent::TimedOut);
        self.next = self.acked.base();
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
        self.set_timeout(cx);
        self.pump(cx);
    }

    fn poll_transmit(&mut self, cx: &mut HostCx<'_, FixedWindow>) -> Option<Packet> {
        if self.next >= self.count() {
            return None;
        }
        let (number, count, segment_bytes) = (self.next, self.count(), self.segment_bytes);
        let header = FixedWindowHeader { number, count, segment_bytes, reserved: 0 };
        let mut packet = Packet::new(self.flow, self.peer, Header::new(header));
        packet.payload_bytes = segment_bytes.min(self.size - number * segment_bytes) as u16;
        packet.wire_bytes = packet.payload_bytes + HEADER_BYTES;
        packet.class = self.class;
        packet.path = self.path;
        if number < self.fresh {
            cx.emit(FlowEvent::Retransmitted(RetransmitCause::Timeout));
        }
        self.next += 1;
        self.fresh = self.fresh.max(self.next);
        self.pump(cx);
        Some(packet)
    }
}

impl Endpoint<FixedWindow> for FixedWindowReceiver {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, FixedWindow>) {
        let header: FixedWindowHeader = packet.header.get();
        let Some(offset) = header.number.checked_mul(header.segment_bytes) else { return };
        if header.number >= header.count || packet.is_trimmed() {
            return;
        }
        if self.received.insert(header.number) {
            let len = u64::from(packet.payload_bytes);
            cx.emit(FlowEvent::Delivered(ByteRange { offset, len }));
        }
        if !self.is_complete && self.received.base() >= header.count {
            self.is_complete = true;
            cx.emit(FlowEvent::Completed);
        }
        let mut ack = Packet::new(packet.flow, self.peer, Header::new(header));
        ack.wire_bytes = HEADER_BYTES;
        ack.class = Class::CONTROL;
        ack.path = self.path;
        ack.flags = PacketFlags::TO_SENDER;
        cx.send(ack);
    }

    fn handle_timeout(&mut self, _: &mut HostCx<'_, FixedWindow>) {}
}

impl Transport for FixedWindow {
    type Sender = FixedWindowSender;
    type Receiver = FixedWindowReceiver;
    type Shared = NicInfo;
    type Controller = NoController;

    const INFO: TransportInfo =
        TransportInfo::new("fixed-window", "Fixed window: a constant number of packets in flight");

    fn open_host(&self, nic: &NicInfo) -> NicInfo {
        *nic
    }

    fn open_sender(
        flow: &FlowSpec,
        route: &FlowRoute,
        cx: &mut HostCx<'_, Self>,
    ) -> FixedWindowSender {
        let mut sender = FixedWindowSender {
            flow: flow.id,
            peer: flow.dst,
            path: route.ecmp_path,
            class: flow.class,
            size: flow.size.get(),
            segment_bytes: cx.shared.mtu.get() - u64::from(HEADER_BYTES),
            acked: BitRing::default(),
            next: 0,
            fresh: 0,
            backoff: 0,
        };
        sender.set_timeout(cx);
        sender.pump(cx);
        sender
    }

    fn open_receiver(
        _: &Packet,
        route: &FlowRoute,
        _: &mut HostCx<'_, Self>,
    ) -> FixedWindowReceiver {
        FixedWindowReceiver {
            peer: route.peer,
            path: route.ecmp_path,
            received: BitRing::default(),
            is_complete: false,
        }
    }

    fn check_config(&self) -> Result<(), String> {
        match self.window {
            0 => Err("`window` is 0: nothing would ever be sent".to_owned()),
            _ => Ok(()),
        }
    }

    fn check_nic(&self, nic: &NicInfo) -> Result<(), (&'static str, String)> {
        match nic.mtu.get() > u64::from(HEADER_BYTES) {
            true => Ok(()),
            false => Err(("window", format!("an MTU of {} leaves no room for data", nic.mtu))),
        }
    }

    fn default_queue(&self, _: Rate, _: Bytes) -> QueueSpec {
        QueueSpec::DropTail { limit: Limit::Packets(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::Instant;
    use punctual_testkit::{Fault, Pair, PairPath};

    /// Every fifth packet is lost, either way; all bytes arrive once.
    #[test]
    fn a_flow_finishes_under_loss() {
        let mut pair = Pair::new(FixedWindow::default(), PairPath::default());
        pair.set_faults(|_, n| if n % 5 == 2 { Fault::Drop } else { Fault::Deliver });
        let flow = pair.start(pair.spec(Bytes::new(300_000)));
        assert!(pair.run_until_done(Instant::ZERO + Duration::from_millis(10_000)));
        assert!(pair.result(flow).is_done());
    }
}
