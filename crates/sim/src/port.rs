//! The state of an output port while a simulation runs.

use crate::events::{EventClass, EventQueue};
use crate::tap::Tap;
use punctual_core::{
    Bytes, Class, Duration, Instant, NodeId, PacketArena, PacketId, PortId, PortView, Rate,
};
use punctual_net::{Fates, InService, Link, Queue};

/// What ports need to send: everything of the engine but the ports and what is behind them.
#[derive(Debug)]
pub(crate) struct Line<T> {
    pub(crate) now: Instant,
    pub(crate) packets: PacketArena,
    pub(crate) events: EventQueue,
    pub(crate) tap: T,
    /// Packets sent so far, by all ports.
    pub(crate) hops: u64,
}

/// What each packet needs of a port is in the first cache line, the queue in the second.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PortState {
    pub(crate) busy_until: Instant,
    pub(crate) delay: Duration,
    /// Bytes sent since the start, framing included.
    pub(crate) sent_bytes: u64,
    /// Time of one byte, when that is a whole number of picoseconds; else 0.
    picos_per_byte: u32,
    /// Packets up to this size pass an idle port at once.
    pub(crate) idle_pass_bytes: u32,
    pub(crate) to: NodeId,
    pub(crate) twin: PortId,
    framing: u16,
    in_service_bytes: u16,
    in_service_is_control: bool,
    /// Something waits: in the queue or, at a NIC, with its host's senders.
    pub(crate) has_waiting: bool,
    /// A host's, not a switch's.
    pub(crate) is_nic: bool,
    /// Something besides forwarding happens at the end of its link.
    pub(crate) is_watched: bool,
    /// Controllers watch this port.
    pub(crate) has_controllers: bool,
    /// The link may lose packets.
    pub(crate) is_faulty: bool,
    rate_bps: u64,
    pub(crate) queue: Queue,
}

const _: () = assert!(size_of::<PortState>() == 128);

impl PortState {
    pub(crate) fn new(link: &Link, framing: Bytes, queue: Queue, is_nic: bool) -> Self {
        let mut port = PortState {
            busy_until: Instant::ZERO,
            delay: link.delay,
            sent_bytes: 0,
            picos_per_byte: 0,
            idle_pass_bytes: queue.idle_pass_bytes(),
            to: link.to,
            twin: link.twin,
            framing: framing.get() as u16,
            in_service_bytes: 0,
            in_service_is_control: false,
            has_waiting: false,
            is_nic,
            is_watched: false,
            has_controllers: false,
            is_faulty: false,
            rate_bps: 0,
            queue,
        };
        port.set_rate(link.rate);
        port
    }

    pub(crate) fn set_rate(&mut self, rate: Rate) {
        const PICO_BITS: u64 = 8_000_000_000_000;
        self.rate_bps = rate.as_bps();
        let bps = rate.as_bps().max(1);
        let exact = PICO_BITS.is_multiple_of(bps).then_some(PICO_BITS / bps);
        self.picos_per_byte = exact.and_then(|p| u32::try_from(p).ok()).unwrap_or(0);
    }

    /// Takes in a packet: sends it at once if it can, else queues it. What the discipline does
    /// besides is added to `fates`.
    #[inline]
    pub(crate) fn offer<T: Tap>(
        &mut self,
        port: PortId,
        id: PacketId,
        line: &mut Line<T>,
        fates: &mut Fates,
    ) {
        self.catch_up(port, line);
        let packet = &line.packets[id];
        let is_idle = !self.has_waiting && self.busy_until <= line.now;
        if is_idle && u32::from(packet.wire_bytes) <= self.idle_pass_bytes {
            self.start(port, id, line.now, false, line);
            return;
        }
        line.tap.queued(port, packet);
        let in_service = self.in_service_at(line.now);
        self.queue.enqueue(id, in_service, &mut line.packets, fates);
        if self.has_waiting {
            return;
        }
        self.has_waiting = !self.queue.is_empty();
        if self.is_nic {
            let at = self.busy_until.max(line.now);
            line.events.push(at, EventClass::PortFree, port.0, port.0);
        } else if is_idle {
            self.busy_until = line.now;
            self.catch_up(port, line);
        }
    }

    /// Sends what a switch port would have sent by now.
    ///
    /// A switch port has no event of its own when it falls idle: nobody can tell the difference
    /// until its queue is touched or the packet it was sending arrives, and each of these calls
    /// here first. So a hop costs one event. A NIC does have such events, since its next packet
    /// may have to be asked for.
    #[inline(always)]
    pub(crate) fn catch_up<T: Tap>(&mut self, port: PortId, line: &mut Line<T>) {
        if self.has_waiting && self.busy_until <= line.now && !self.is_nic {
            self.send_waiting(port, line);
        }
    }

    #[inline(never)]
    fn send_waiting<T: Tap>(&mut self, port: PortId, line: &mut Line<T>) {
        while self.has_waiting && self.busy_until <= line.now {
            let at = self.busy_until;
            if let Some(id) = self.queue.dequeue(&line.packets) {
                self.start(port, id, at, true, line);
            }
            self.has_waiting = !self.queue.is_empty();
        }
    }

    /// Puts a packet on the link.
    #[inline]
    pub(crate) fn start<T: Tap>(
        &mut self,
        port: PortId,
        id: PacketId,
        from: Instant,
        waited: bool,
        line: &mut Line<T>,
    ) {
        let packet = &mut line.packets[id];
        packet.port = port;
        let bytes = self.link_bytes(packet.wire_bytes);
        let until = from + self.transmission_time(bytes);
        self.busy_until = until;
        self.sent_bytes += bytes;
        self.in_service_bytes = packet.wire_bytes;
        self.in_service_is_control = packet.class == Class::CONTROL;
        line.hops += 1;
        line.tap.sends(port, packet, from, until, waited);
        line.events.push(until + self.delay, EventClass::Arrival, port.0, id.0);
    }

    /// Bytes a packet takes on this link.
    #[inline]
    fn link_bytes(&self, wire_bytes: u16) -> u64 {
        u64::from(wire_bytes) + u64::from(self.framing)
    }

    #[inline]
    fn transmission_time(&self, link_bytes: u64) -> Duration {
        if self.picos_per_byte != 0 {
            Duration::from_picos(link_bytes * u64::from(self.picos_per_byte))
        } else {
            Rate::from_bps(self.rate_bps).transmission_time(Bytes::new(link_bytes))
        }
    }

    /// The packet in service at `now`.
    #[inline]
    pub(crate) fn in_service_at(&self, now: Instant) -> InService {
        if self.busy_until > now {
            let is_control = self.in_service_is_control;
            InService { bytes: u32::from(self.in_service_bytes), is_control }
        } else {
            InService::default()
        }
    }

    pub(crate) fn view(&self, port: PortId, now: Instant) -> PortView {
        PortView {
            port,
            now,
            rate: Rate::from_bps(self.rate_bps),
            queue_bytes: self.queue.waiting().0.get(),
            sent_bytes: self.sent_bytes,
        }
    }
}
