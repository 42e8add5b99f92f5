//! Lossless switches: one buffer for all ports of a switch, and frames that pause and resume
//! links.
//!
//! Other ports catch up when touched. A lossless port has an event at the end of each packet,
//! because the packet's bytes leave the switch's buffer then, and a paused link may resume.

use crate::engine::Engine;
use crate::events::EventClass;
use crate::pause_cycles::PauseCycles;
use crate::pauses::PauseClock;
use crate::tap::{Observation, Tap};
use punctual_core::{Bytes, Class, Instant, Packet, PacketId, PortId, Slab, TransportSet};
use punctual_net::{
    Admission, Fate, IngressAccount, LosslessLimits, Network, PAUSE_FRAME_BYTES, SharedBuffer,
};

/// Shared buffers and pauses of all lossless switches.
#[derive(Debug)]
pub(crate) struct Lossless {
    limits: LosslessLimits,
    /// By switch.
    buffers: Vec<SharedBuffer>,
    /// By port, for the link that it sends on.
    accounts: Vec<IngressAccount>,
    /// By port.
    ports: Vec<LosslessPort>,
    /// By port.
    clocks: Vec<PauseClock>,
    /// None where paths form no cycle.
    pause_cycles: Option<PauseCycles>,
    frames: Slab<PauseFrame>,
    /// By port, how often its link was cut, either way.
    cuts: Vec<u32>,
    /// The maximum buffer use of switches that belonged to other shards.
    most_used_elsewhere: Bytes,
}

#[derive(Debug, Clone, Copy, Default)]
struct LosslessPort {
    sending: Option<Held>,
    /// Whether an event is scheduled for when it is free.
    has_event: bool,
}

/// What a packet holds of its switch's buffer.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// The port over whose link it came.
    ingress: PortId,
    class: Class,
    bytes: u16,
}

impl Held {
    fn by(packet: &Packet) -> Self {
        Held { ingress: packet.port, class: packet.class, bytes: packet.wire_bytes }
    }
}

/// A pause or resume on its way to the port that it is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PauseFrame {
    port: PortId,
    class: Class,
    is_pause: bool,
    /// How often the port's link had been cut when the frame was sent.
    cuts: u32,
}

impl Lossless {
    pub(crate) fn new(limits: LosslessLimits, network: &Network) -> Self {
        let (links, hosts) = (network.links.len(), network.hosts);
        let switches = network.names.len() - hosts as usize;
        Lossless {
            limits,
            buffers: vec![SharedBuffer::default(); switches],
            accounts: vec![IngressAccount::default(); links],
            ports: vec![LosslessPort::default(); links],
            clocks: vec![PauseClock::default(); links],
            pause_cycles: PauseCycles::new(network),
            frames: Slab::default(),
            cuts: vec![0; links],
            most_used_elsewhere: Bytes::ZERO,
        }
    }

    pub(crate) fn limits(&self) -> &LosslessLimits {
        &self.limits
    }

    /// The pauses of a port.
    pub(crate) fn clock(&self, port: PortId) -> &PauseClock {
        &self.clocks[port.index()]
    }

    /// Whether a port has been sent a pause of a class and no resume since.
    pub(crate) fn is_pausing(&self, port: PortId, class: Class) -> bool {
        self.accounts[port.index()].is_pausing(class)
    }

    /// The port that a frame is for.
    pub(crate) fn frame_port(&self, frame: u32) -> Option<PortId> {
        self.frames.get(frame).map(|frame| frame.port)
    }

    /// Takes over the counters of another shard of the network, which owns some ports.
    pub(crate) fn adopt(&mut self, other: Lossless, owns_port: impl Fn(PortId) -> bool) {
        let most_used = other.most_used();
        for (port, clock) in other.clocks.into_iter().enumerate() {
            if owns_port(PortId::from(port)) {
                self.clocks[port] = clock;
            }
        }
        self.most_used_elsewhere = self.most_used_elsewhere.max(most_used);
    }

    /// Takes the pause cycles out; [`Lossless::put_pause_cycles`] puts them back.
    pub(crate) fn take_pause_cycles(&mut self) -> Option<PauseCycles> {
        self.pause_cycles.take()
    }

    pub(crate) fn put_pause_cycles(&mut self, cycles: PauseCycles) {
        self.pause_cycles = Some(cycles);
    }

    /// The maximum buffer use of any switch.
    pub(crate) fn most_used(&self) -> Bytes {
        let here = self.buffers.iter().map(SharedBuffer::most_used).max();
        here.unwrap_or(Bytes::ZERO).max(self.most_used_elsewhere)
    }
}

impl<S: TransportSet, T: Tap> Engine<S, T> {
    /// Queues a packet that is to leave a lossless switch, within the switch's buffer.
    #[inline(never)]
    pub(crate) fn offer_lossless(&mut self, port_id: PortId, id: PacketId) {
        let switch = self.switch_of(port_id);
        let Some(lossless) = &mut self.fabric.lossless else { return };
        let held = Held::by(&self.cx.packets[id]);
        let account = &mut lossless.accounts[held.ingress.index()];
        let admission =
            lossless.buffers[switch].admit(account, held.class, held.bytes, &lossless.limits);
        let packet = &self.cx.packets[id];
        self.cx.tap.observe(Observation::PacketQueued { port: port_id, id, packet });
        if admission == Admission::Refused {
            self.fabric.fates.push((id, Fate::Dropped));
            self.apply_fates(port_id);
            return;
        }
        let port = &mut self.fabric.ports[port_id.index()];
        let in_service = port.in_service_at(self.cx.now);
        port.queue.enqueue(id, in_service, &mut self.cx.packets, &mut self.fabric.fates);
        port.report_waiting(port_id, &mut self.cx);
        if !self.fabric.fates.is_empty() {
            self.apply_fates(port_id);
        }
        if admission == Admission::AdmittedAndPause {
            self.send_pause(held.ingress, held.class, true);
        }
        self.serve_lossless(port_id);
        if let Some(lossless) = &self.fabric.lossless
            && lossless.pause_cycles.is_some()
            && lossless.clock(port_id).is_paused(held.class)
            && lossless.clock(held.ingress).is_paused(held.class)
        {
            self.find_pause_cycles(port_id, held.class);
        }
    }

    /// A lossless port has sent a packet or a pause frame.
    #[inline(never)]
    pub(crate) fn lossless_port_free(&mut self, port_id: PortId) {
        let switch = self.switch_of(port_id);
        let Some(lossless) = &mut self.fabric.lossless else { return };
        let port = &mut lossless.ports[port_id.index()];
        port.has_event = false;
        if let Some(held) = port.sending.take() {
            let account = &mut lossless.accounts[held.ingress.index()];
            let buffer = &mut lossless.buffers[switch];
            if buffer.release(account, held.class, held.bytes, &lossless.limits) {
                self.send_pause(held.ingress, held.class, false);
            }
        }
        self.serve_lossless(port_id);
    }

    /// Sends the next packet that may go, if the port is free.
    fn serve_lossless(&mut self, port_id: PortId) {
        let Some(lossless) = &mut self.fabric.lossless else { return };
        let state = &mut lossless.ports[port_id.index()];
        let port = &mut self.fabric.ports[port_id.index()];
        if state.has_event {
            return;
        }
        if port.busy_until <= self.cx.now {
            let Some(id) = port.queue.dequeue(&self.cx.packets) else { return };
            state.sending = Some(Held::by(&self.cx.packets[id]));
            port.send(port_id, id, self.cx.now, true, &mut self.cx);
        }
        state.has_event = true;
        self.cx.events.push(port.busy_until, EventClass::PortFree, port_id.0, port_id.0);
    }

    /// Sends the far end of a link a pause or resume frame. The frame goes before all packets that
    /// wait, but after the packet in service.
    fn send_pause(&mut self, port: PortId, class: Class, is_pause: bool) {
        let back = self.cx.network.link(port).twin;
        let is_cut = self.is_cut(back);
        let Some(lossless) = &mut self.fabric.lossless else { return };
        if is_cut {
            lossless.accounts[port.index()].forget_pause(class);
            return;
        }
        self.recording.totals.pauses += u64::from(is_pause);
        if is_pause {
            lossless.clocks[back.index()].count_sent();
        }
        let from = self.fabric.ports[back.index()].busy_until.max(self.cx.now);
        let at = self.fabric.ports[back.index()].send_frame(self.cx.now, PAUSE_FRAME_BYTES);
        let until = self.fabric.ports[back.index()].busy_until;
        let sent = Observation::PauseSent { port: back, from, until, class, is_pause };
        self.cx.tap.observe(sent);
        let frame = PauseFrame { port, class, is_pause, cuts: lossless.cuts[port.index()] };
        let to = self.cx.network.link(port).from;
        match self.cx.tap.shard_mut() {
            Some(shard) if !shard.owns(to) => shard.send_frame(to, at, back, frame),
            _ => self.expect_frame(at, back, frame),
        }
    }

    /// A pause or resume frame that `from` sends arrives at `at`.
    pub(crate) fn expect_frame(&mut self, at: Instant, from: PortId, frame: PauseFrame) {
        let Some(lossless) = &mut self.fabric.lossless else { return };
        let frame = lossless.frames.insert(frame);
        self.frame_event(at, from, frame);
    }

    /// A pause or resume frame has arrived.
    pub(crate) fn pause_arrives(&mut self, frame: u32) {
        let Some(lossless) = &mut self.fabric.lossless else { return };
        let PauseFrame { port, class, is_pause, cuts } = lossless.frames.remove(frame);
        if lossless.cuts[port.index()] == cuts {
            self.set_paused(port, class, is_pause);
        }
    }

    /// Ends the pauses at both ends of a link that is cut, since no resume frame can reach them.
    /// Frames on the link are lost.
    pub(crate) fn end_pauses(&mut self, port_id: PortId) {
        for port in [port_id, self.cx.network.link(port_id).twin] {
            for class in (0..Class::COUNT as u8).map(Class) {
                let Some(lossless) = &mut self.fabric.lossless else { return };
                lossless.accounts[port.index()].forget_pause(class);
                if lossless.clocks[port.index()].is_paused(class) {
                    self.set_paused(port, class, false);
                }
            }
            let Some(lossless) = &mut self.fabric.lossless else { return };
            lossless.cuts[port.index()] += 1;
        }
    }

    /// Pauses or resumes a class at a port.
    fn set_paused(&mut self, port_id: PortId, class: Class, is_pause: bool) {
        let Some(lossless) = &mut self.fabric.lossless else { return };
        lossless.clocks[port_id.index()].set(class, is_pause, self.cx.now);
        if !is_pause && let Some(cycles) = &mut lossless.pause_cycles {
            cycles.resume(port_id, class, self.cx.now);
        }
        self.cx.tap.observe(Observation::ClassPaused { port: port_id, class, is_pause });
        let from = self.cx.network.link(port_id).from;
        let port = &mut self.fabric.ports[port_id.index()];
        if from.0 >= self.cx.network.hosts {
            port.set_paused(class, is_pause);
            match is_pause {
                true => self.find_pause_cycles(port_id, class),
                false => self.serve_lossless(port_id),
            }
            return;
        }
        // A NIC has no event per packet: first send what it had sent before the frame arrived.
        port.catch_up(port_id, &mut self.cx);
        port.set_paused(class, is_pause);
        port.has_waiting = !port.queue.is_empty();
        let nic = self.nic_of_port(port_id);
        self.ready_at(nic).set_paused(class, is_pause);
        if is_pause {
            return;
        }
        let port = &mut self.fabric.ports[port_id.index()];
        port.busy_until = port.busy_until.max(self.cx.now);
        port.catch_up(port_id, &mut self.cx);
        self.serve_later(port_id);
        if !self.ready_at(nic).is_empty() {
            self.wake_nic(port_id);
        }
    }

    fn switch_of(&self, port: PortId) -> usize {
        (self.cx.network.link(port).from.0 - self.cx.network.hosts) as usize
    }
}
