//! UDP: datagrams at a constant rate, to whom it may concern.
//!
//! No acknowledgement, no window, no retransmission: the traffic that others must live beside.
//! A flow whose datagrams all arrive is completed; after the last one the sender waits a while
//! for them to arrive and then forgets the flow, which counts as given up if something was lost.
//! Rules and their tests are in `rules.md`.

mod config;
#[cfg(test)]
#[allow(non_snake_case)]
mod tests;

pub use config::{Udp, UdpError};

use punctual_core::{
    ByteRange, Bytes, Class, Endpoint, FlowEvent, FlowId, FlowRoute, FlowSpec, Header, HostCx,
    HostId, Instant, NicInfo, NoController, Packet, PacketFlags, QueueSpec, RangeSet, Rate,
    Transport, TransportInfo, Wait,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of an IPv4 and a UDP header.
pub const UDP_IP_HEADER_BYTES: u16 = 28;

/// What a datagram says of the data it carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct UdpHeader {
    /// First byte carried.
    pub offset: u64,
    /// Bytes of the flow in all.
    pub size: u64,
    /// Unused; zero.
    pub reserved: [u64; 2],
}

/// State of a flow's sending end.
#[derive(Clone, Debug)]
pub struct UdpSender {
    flow: FlowId,
    to: HostId,
    path: u32,
    class: Class,
    size: u64,
    /// Bytes sent.
    sent: u64,
    /// When the next datagram is due.
    due: Instant,
}

/// State of a flow's receiving end.
#[derive(Clone, Debug, Default)]
pub struct UdpReceiver {
    received: RangeSet,
    /// What comes from below this comes too late to be told from a duplicate.
    floor: u64,
    is_complete: bool,
}

/// So many gaps a receiver remembers: nobody fills them, and memory must not grow with losses.
const GAPS_MAX: usize = 64;

impl Transport for Udp {
    type Sender = UdpSender;
    type Receiver = UdpReceiver;
    type Shared = NicInfo;
    type Controller = NoController;

    const INFO: TransportInfo =
        TransportInfo::new("udp", "UDP: datagrams at a constant rate; what is lost stays lost");

    fn open_host(&self, nic: &NicInfo) -> NicInfo {
        *nic
    }

    fn open_sender(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, Self>) -> UdpSender {
        let mut sender = UdpSender {
            flow: flow.id,
            to: flow.dst,
            path: route.ecmp_path,
            class: flow.class,
            size: flow.size.get(),
            sent: 0,
            due: cx.now,
        };
        sender.send_due(cx);
        sender
    }

    fn open_receiver(_: &Packet, _: &FlowRoute, _: &mut HostCx<'_, Self>) -> UdpReceiver {
        UdpReceiver::default()
    }

    fn check_config(&self) -> Result<(), String> {
        self.validate().map_err(|e| e.to_string())
    }

    fn is_trimmable(&self) -> bool {
        self.trimmable
    }

    fn may_abandon(&self) -> bool {
        true
    }

    /// NDP's where datagrams may be trimmed, TCP's where not.
    fn default_queue(&self, rate: Rate, mtu: Bytes) -> QueueSpec {
        if self.trimmable {
            crate::ndp::Ndp::default().default_queue(rate, mtu)
        } else {
            crate::tcp::tcp_queue(rate, mtu)
        }
    }
}

impl UdpSender {
    /// Sends the datagram that is due, and says when the next one is.
    fn send_due(&mut self, cx: &mut HostCx<'_, Udp>) {
        let nic = *cx.shared;
        let most = nic.mtu.get().min(u16::MAX.into()).saturating_sub(UDP_IP_HEADER_BYTES.into());
        let payload = most.max(1).min(self.size - self.sent);
        let header = UdpHeader { offset: self.sent, size: self.size, ..UdpHeader::default() };
        let mut packet = Packet::new(self.flow, self.to, Header::new(header));
        packet.payload_bytes = payload as u16;
        packet.wire_bytes = payload as u16 + UDP_IP_HEADER_BYTES;
        packet.class = self.class;
        packet.path = self.path;
        if cx.config.trimmable {
            packet.flags = PacketFlags::TRIMMABLE; // UDP-R04
        }
        cx.send(packet);
        self.sent += payload;
        if self.sent == self.size {
            cx.set_timer(cx.now + cx.config.linger); // UDP-R03
            return;
        }
        // UDP-R01: by the clock, so that late timers do not add up.
        let on_link = Bytes::new(u64::from(packet.wire_bytes)) + nic.framing;
        self.due += cx.config.rate.min(nic.rate).transmission_time(on_link);
        cx.set_timer(self.due.max(cx.now));
    }
}

impl Endpoint<Udp> for UdpSender {
    /// Nobody answers; a switch may return a trimmed header.
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, Udp>) {
        if packet.is_bounced() {
            cx.emit(FlowEvent::Bounced);
        }
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, Udp>) {
        if self.sent < self.size {
            self.send_due(cx);
        } else {
            cx.emit(FlowEvent::Abandoned);
        }
    }

    fn waits_for(&self) -> Wait {
        if self.sent < self.size { Wait::Pacing(None) } else { Wait::Timer }
    }

    fn gauges(&self, _: &NicInfo, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("sent_bytes", self.sent as f64);
    }
}

impl Endpoint<Udp> for UdpReceiver {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, Udp>) {
        let header: UdpHeader = packet.header.get();
        let Some(end) = header.offset.checked_add(u64::from(packet.payload_bytes)) else {
            return;
        };
        if packet.is_trimmed() {
            cx.emit(FlowEvent::Trimmed);
            return;
        }
        if end > header.size || header.offset < self.floor {
            return;
        }
        self.received.insert(header.offset, end, |start, end| {
            cx.emit(FlowEvent::Delivered(ByteRange { offset: start, len: end - start }));
        });
        if self.received.iter().nth(GAPS_MAX).is_some() {
            self.floor = self.received.iter().next().map_or(0, |(_, end)| end);
            self.received.remove_below(self.floor);
        }
        if !self.is_complete && self.received.prefix_end() == header.size {
            self.is_complete = true;
            cx.emit(FlowEvent::Completed); // UDP-R02
        }
    }

    fn handle_timeout(&mut self, _: &mut HostCx<'_, Udp>) {}
}
