//! A port driven by hand: its clock, packets to it and their answers.

use super::super::{NO_DEADLINE, NOBODY, PdqConfig, PdqHeader, PdqPort};
use super::*;
use punctual_core::{Controller, ExtArena, Header, HostId, Packet, PacketFlags, PortId, PortView};

pub(super) const ME: u32 = 7;
pub(super) const OTHER: u32 = 3;
pub(super) const LINE: u32 = 1_000_000;
pub(super) const RTT: u32 = 150_000;

/// A port with its clock; flows are described by how long they take, in round trips of 150 µs.
pub(super) struct Bench {
    pub(super) port: PdqPort,
    pub(super) now: Instant,
    pub(super) framing: Bytes,
    pub(super) queue_bytes: u64,
    pub(super) queue_packets: u64,
    pub(super) sent_bytes: u64,
}

impl Bench {
    pub(super) fn new(config: PdqConfig) -> Self {
        let port = PdqPort::new(&config);
        Bench {
            port,
            now: Instant::ZERO,
            framing: Bytes::ZERO,
            queue_bytes: 0,
            queue_packets: 0,
            sent_bytes: 0,
        }
    }

    pub(super) fn view(&self) -> PortView {
        PortView {
            port: PortId(ME),
            now: self.now,
            rate: GBPS,
            framing: self.framing,
            queue_bytes: self.queue_bytes,
            queue_packets: self.queue_packets,
            sent_bytes: self.sent_bytes,
        }
    }

    pub(super) fn wait_us(&mut self, us: u64) {
        self.now += Duration::from_micros(us);
    }

    pub(super) fn send(&mut self, flow: u32, header: PdqHeader) -> PdqHeader {
        self.send_bytes(flow, header, if header.has(PdqHeader::DATA) { 1500 } else { 60 })
    }

    pub(super) fn send_bytes(
        &mut self,
        flow: u32,
        header: PdqHeader,
        wire_bytes: u16,
    ) -> PdqHeader {
        let mut packet = Packet::new(FlowId(flow), HostId(1), Header::new(header));
        packet.wire_bytes = wire_bytes;
        let view = self.view();
        self.port.handle_forward(&mut packet, &view, &mut ExtArena::default());
        packet.header.get()
    }

    pub(super) fn answer(&mut self, flow: u32, header: PdqHeader) -> PdqHeader {
        let header = PdqHeader { flags: header.flags | PdqHeader::ACK, deadline: 0, ..header };
        let mut packet = Packet::new(FlowId(flow), HostId(0), Header::new(header));
        packet.flags = PacketFlags::TO_SENDER;
        self.port.handle_reverse(&mut packet, self.view().port);
        packet.header.get()
    }

    /// A packet and its answer, at one instant.
    pub(super) fn exchange(&mut self, flow: u32, header: PdqHeader) -> PdqHeader {
        let there = self.send(flow, header);
        self.answer(flow, there)
    }

    pub(super) fn ids(&self) -> Vec<u32> {
        self.port.list().entries().iter().map(|e| e.rank.flow()).collect()
    }

    /// Fires the timer when it is due.
    pub(super) fn update(&mut self) {
        self.now = self.port.next_timeout().expect("a clock");
        let view = self.view();
        self.port.handle_timeout(&view);
    }
}

/// A probe of a flow that takes this many round trips.
pub(super) fn probe(round_trips: f64) -> PdqHeader {
    PdqHeader {
        rate: LINE,
        pauser: NOBODY,
        deadline: NO_DEADLINE,
        expected: (round_trips * f64::from(RTT) / 10.0) as u32,
        rtt: RTT,
        ..PdqHeader::default()
    }
}

pub(super) fn data(round_trips: f64) -> PdqHeader {
    PdqHeader { flags: PdqHeader::DATA, ..probe(round_trips) }
}

pub(super) fn due(round_trips: f64, deadline: u32) -> PdqHeader {
    PdqHeader { deadline, ..probe(round_trips) }
}

/// No dampening, for tests of other things.
pub(super) fn brisk() -> PdqConfig {
    PdqConfig { dampening: 0.0, ..PdqConfig::default() }
}
