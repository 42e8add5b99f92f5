//! UDP: datagrams at a constant rate, without congestion control.
//!
//! No acknowledgement, no window, no retransmission: unresponsive traffic beside other transports.
//! A flow completes if all its datagrams arrive. After the last one the sender waits for `linger`
//! and ends the flow, as abandoned if a byte was lost.
//! Rules and their tests are in `rules.md`.

mod config;
#[cfg(test)]
mod tests;

pub use config::{UdpConfig, UdpError};

use punctual_core::{
    ByteRange, Bytes, Class, Endpoint, FlowEvent, FlowId, FlowRoute, FlowSpec, Header, HostCx,
    HostId, Instant, NicInfo, NoController, Packet, PacketFlags, QueueSpec, RangeSet, Rate,
    Transport, TransportInfo, Wait,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of an IPv4 and a UDP header.
pub const UDP_IP_HEADER_BYTES: u16 = 28;

/// The header of a datagram.
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

/// State of a UDP sender.
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

/// State of a UDP receiver.
#[derive(Clone, Debug, Default)]
pub struct UdpReceiver {
    received: RangeSet,
    /// Datagrams below this are too late to be distinguished from duplicates.
    floor: u64,
    is_complete: bool,
}

/// The greatest number of gaps that a receiver tracks, so that losses do not grow its memory.
const GAPS_MAX: usize = 64;

impl Transport for UdpConfig {
    type Sender = UdpSender;
    type Receiver = UdpReceiver;
    type Shared = NicInfo;
    type Controller = NoController;

    const INFO: TransportInfo =
        TransportInfo::new("udp", "UDP: datagrams at a constant rate, no retransmissions");

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
            crate::ndp::NdpConfig::default().default_queue(rate, mtu)
        } else {
            crate::tcp::tcp_queue(rate, mtu)
        }
    }
}

impl UdpSender {
    /// Sends the datagram that is due, and sets the timer for the next.
    fn send_due(&mut self, cx: &mut HostCx<'_, UdpConfig>) {
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
        // UDP-R01: relative to the schedule, so that late timers do not accumulate.
        let on_link = Bytes::new(u64::from(packet.wire_bytes)) + nic.framing;
        self.due += cx.config.rate.min(nic.rate).transmission_time(on_link);
        cx.set_timer(self.due.max(cx.now));
    }
}

impl Endpoint<UdpConfig> for UdpSender {
    /// Receivers send nothing; a switch may return a trimmed header.
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, UdpConfig>) {
        if packet.is_bounced() {
            cx.emit(FlowEvent::Bounced);
        }
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, UdpConfig>) {
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

impl Endpoint<UdpConfig> for UdpReceiver {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, UdpConfig>) {
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

    fn handle_timeout(&mut self, _: &mut HostCx<'_, UdpConfig>) {}
}
