//! A sender alone, spoken to by hand.

use super::*;
use punctual_core::{
    Call, End, ExtArena, FlowSpec, Header, HostId, Outbox, PacketFlags, Rate, Stack, TimerChange,
    TransportId,
};

pub(super) struct Lone {
    pub(super) stack: Stack<NdpConfig>,
    pub(super) slot: u32,
    pub(super) now: Instant,
    ext: ExtArena,
    out: Outbox,
}

pub(super) fn nic(host: u32) -> NicInfo {
    NicInfo {
        host: HostId(host),
        rate: Rate::from_gbps(10),
        mtu: Bytes::new(1500),
        framing: Bytes::ZERO,
        nics: 1,
    }
}

pub(super) fn route() -> FlowRoute {
    FlowRoute { local: HostId(0), peer: HostId(1), paths: 4, ecmp_path: 0, nics: 1, seed: 1 }
}

pub(super) fn data_header(seq: u64, size: u64) -> Packet {
    let header = NdpHeader {
        seq,
        cumulative: size,
        sent_at: 0,
        pull: 0,
        path: 0,
        kind: kind::DATA,
        flags: 0,
    };
    Packet::new(FlowId(0), HostId(0), Header::new(header))
}

pub(super) fn lone_sender(config: NdpConfig, packets: u64) -> Lone {
    let mut lone = Lone {
        stack: Stack::new(config, &[nic(0), nic(1)]),
        slot: 0,
        now: Instant::ZERO,
        ext: ExtArena::default(),
        out: Outbox::default(),
    };
    lone.open_again(packets);
    lone
}

impl Lone {
    /// Opens a sender of the same name as before.
    pub(super) fn open_again(&mut self, packets: u64) {
        let spec = FlowSpec {
            id: FlowId(0),
            src: HostId(0),
            dst: HostId(1),
            size: Bytes::new(packets * PAYLOAD),
            start: Instant::ZERO,
            deadline: None,
            transport: TransportId(0),
            class: punctual_core::Class::DATA,
            background: false,
            pattern: 0,
        };
        let call = Call { now: self.now, host: HostId(0), ext: &mut self.ext, out: &mut self.out };
        self.slot = self.stack.open_sender(&spec, &route(), call);
    }

    pub(super) fn hand(&mut self, packet: &Packet) {
        let call = Call { now: self.now, host: HostId(0), ext: &mut self.ext, out: &mut self.out };
        self.stack.handle_packet(End::Sender, self.slot, packet, call);
    }

    /// When the timer fires that was set last.
    pub(super) fn timer(&self) -> Option<Instant> {
        match self.out.timer {
            TimerChange::Set(at) => Some(at),
            _ => None,
        }
    }

    pub(super) fn timeout(&mut self) {
        let call = Call { now: self.now, host: HostId(0), ext: &mut self.ext, out: &mut self.out };
        self.stack.handle_timeout(End::Sender, self.slot, call);
    }
}

/// What the sender sends if the NIC has all the time in the world, at most ten packets.
pub(super) fn poll_all(lone: &mut Lone) -> Vec<u64> {
    poll_headers(lone, 10).iter().map(|h| h.seq).collect()
}

/// The headers of what the sender sends, at most so many.
pub(super) fn poll_headers(lone: &mut Lone, most: usize) -> Vec<NdpHeader> {
    let mut headers = Vec::new();
    while headers.len() < most && lone.out.ready.take().is_some() {
        let call = Call { now: lone.now, host: HostId(0), ext: &mut lone.ext, out: &mut lone.out };
        if let Some(packet) = lone.stack.poll_transmit(lone.slot, 0, call) {
            headers.push(NdpHeader::of(&packet));
        }
    }
    headers
}

pub(super) fn answer(lone: &mut Lone, kind: u8, seq: u64, pull: Option<u32>) {
    let header = NdpHeader {
        seq,
        cumulative: 0,
        sent_at: 0,
        pull: pull.unwrap_or(0),
        path: 0,
        kind,
        flags: if pull.is_some() { flags::PULL } else { 0 },
    };
    lone.hand(&header.control(FlowId(0), HostId(0)));
}

pub(super) fn pull(lone: &mut Lone, number: u32) {
    let header = NdpHeader {
        seq: 0,
        cumulative: 0,
        sent_at: 0,
        pull: number,
        path: 0,
        kind: kind::PULL,
        flags: 0,
    };
    lone.hand(&header.control(FlowId(0), HostId(0)));
}

pub(super) fn bounce(lone: &mut Lone, seq: u64) {
    let mut packet = data_header(seq, 0);
    packet.flags = PacketFlags::TRIMMED.with(PacketFlags::BOUNCED).with(PacketFlags::TO_SENDER);
    lone.hand(&packet);
}
