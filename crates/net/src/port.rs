//! An output port: a queue discipline, a link, and the transmission of packets in virtual time.
//!
//! The simulator and the software switch drive the same ports. What differs between them is in
//! [`PortContext`]: where a packet goes once a port sends it, and who watches.

use crate::{Fates, InService, Link, Queue};
use punctual_core::{
    Bytes, Class, Duration, Instant, LineRate, NodeId, Packet, PacketArena, PacketId, PortId,
    PortView, Rate,
};
use std::hint::select_unpredictable;

/// What ports share: the clock, the packets, and what becomes of packets that they send.
pub trait PortContext {
    /// The observer of transmissions, while a packet is borrowed.
    type Wire<'a>: Wire
    where
        Self: 'a;

    /// Whether it wants [`PortContext::holds`], which costs time.
    const WATCHES_QUEUES: bool = false;

    /// The time.
    fn now(&self) -> Instant;

    /// The packets.
    fn packets(&mut self) -> &mut PacketArena;

    /// The packets, and the observer of transmissions.
    fn split(&mut self) -> (&mut PacketArena, Self::Wire<'_>);

    /// A packet is about to be queued.
    fn queued(&mut self, _port: PortId, _id: PacketId) {}

    /// The length of the queue, after a packet joined it and the discipline has acted.
    fn holds(&mut self, _port: PortId, _bytes: u64, _packets: u32) {}
}

/// Takes the packets that ports send.
pub trait Wire {
    /// A port sends a packet, which arrives at the other end of the link at `arrives_at`.
    fn sends(&mut self, packet: &mut Packet, sent: Sent);
}

/// A transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The port.
    pub port: PortId,
    /// The node at the other end of its link.
    pub to: NodeId,
    /// The packet.
    pub id: PacketId,
    /// When the first bit leaves.
    pub from: Instant,
    /// When the last bit leaves.
    pub until: Instant,
    /// When the packet is at the other end.
    pub arrives_at: Instant,
    /// Whether it came from the queue.
    pub waited: bool,
}

/// An output port. The fields that every packet needs are in the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Port {
    /// When the packet in service has left.
    pub busy_until: Instant,
    /// From the last bit sent until the next node has the packet ready.
    pub delay: Duration,
    /// Bytes sent since the start, framing included.
    pub sent_bytes: u64,
    /// Packets sent since the start, pause frames not included.
    pub sent_packets: u64,
    rate: LineRate,
    /// The node at the other end.
    pub to: NodeId,
    /// Packets up to this size pass an idle port at once.
    idle_pass_bytes: u16,
    framing: u16,
    in_service_bytes: u16,
    in_service_is_control: bool,
    /// Whether packets wait in the queue.
    pub has_waiting: bool,
    /// What the driver has scheduled for this port.
    pub scheduled: Scheduled,
    /// Whether something may happen to a packet at the end of this link: the link may lose it, or
    /// `reverse_has_controller`.
    pub needs_arrival_checks: bool,
    /// Whether the port of the opposite direction has a controller that reads what this link
    /// brings.
    pub reverse_has_controller: bool,
    /// Whether a packet that is to leave by this port passes a controller or a lossless switch's
    /// buffer first.
    pub needs_departure_checks: bool,
    /// The queue discipline.
    pub queue: Queue,
}

const _: () = assert!(size_of::<Port>() == 128);

/// What a driver has scheduled for a port: a set of [`Scheduled::POLL`] and [`Scheduled::SERVE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduled(u8);

impl Scheduled {
    /// NICs only: an event at which the NIC polls its host's senders.
    pub const POLL: Scheduled = Scheduled(1);
    /// A call of [`Port::catch_up`] that does not wait for an arrival at the end of the link.
    pub const SERVE: Scheduled = Scheduled(2);

    /// Whether this is scheduled.
    #[inline]
    pub fn has(self, what: Scheduled) -> bool {
        self.0 & what.0 != 0
    }

    /// Notes that this is scheduled, or is not any more.
    #[inline]
    pub fn set(&mut self, what: Scheduled, is_scheduled: bool) {
        self.0 = if is_scheduled { self.0 | what.0 } else { self.0 & !what.0 };
    }
}

/// [`Queue::idle_pass_bytes`], limited to the largest packet size.
fn idle_pass_bytes(queue: &Queue) -> u16 {
    u16::try_from(queue.idle_pass_bytes()).unwrap_or(u16::MAX)
}

impl Port {
    /// An idle port.
    pub fn new(link: &Link, framing: Bytes, queue: Queue) -> Self {
        Port {
            busy_until: Instant::ZERO,
            delay: link.delay,
            sent_bytes: 0,
            sent_packets: 0,
            rate: LineRate::new(link.rate),
            to: link.to,
            idle_pass_bytes: idle_pass_bytes(&queue),
            framing: framing.get() as u16,
            in_service_bytes: 0,
            in_service_is_control: false,
            has_waiting: false,
            scheduled: Scheduled::default(),
            needs_arrival_checks: false,
            reverse_has_controller: false,
            needs_departure_checks: false,
            queue,
        }
    }

    /// Changes the line rate, from the next packet on.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = LineRate::new(rate);
    }

    /// Changes the queue discipline. Returns the old queue with its packets, which the caller offers
    /// again.
    pub fn replace_queue(&mut self, queue: Queue) -> Queue {
        self.idle_pass_bytes = idle_pass_bytes(&queue);
        self.has_waiting = !queue.is_empty();
        std::mem::replace(&mut self.queue, queue)
    }

    /// Sends a packet at once if the port is idle, else queues it. What the queue discipline does
    /// besides (mark, trim, drop, bounce) is added to `fates`.
    #[inline(always)]
    pub fn offer<C: PortContext>(
        &mut self,
        port: PortId,
        id: PacketId,
        cx: &mut C,
        fates: &mut Fates,
    ) {
        self.catch_up(port, cx);
        let is_idle = !self.has_waiting && self.busy_until <= cx.now();
        if is_idle {
            let now = cx.now();
            let (packets, wire) = cx.split();
            let packet = &mut packets[id];
            if packet.wire_bytes <= self.idle_pass_bytes {
                self.start(port, id, packet, now, false, wire);
                return;
            }
        }
        cx.queued(port, id);
        let in_service = self.in_service_at(cx.now());
        self.queue.enqueue(id, in_service, cx.packets(), fates);
        self.report_waiting(port, cx);
        if self.has_waiting {
            return;
        }
        self.has_waiting = !self.queue.is_empty();
        if is_idle {
            self.busy_until = cx.now();
            self.catch_up(port, cx);
        }
    }

    /// Reports the length of the queue to an observer that watches queues.
    #[inline(always)]
    pub fn report_waiting<C: PortContext>(&self, port: PortId, cx: &mut C) {
        if C::WATCHES_QUEUES {
            let (bytes, packets) = self.queue.waiting();
            cx.holds(port, bytes.get(), packets);
        }
    }

    /// Sends the waiting packets whose transmission would have started by now.
    ///
    /// A port has no event for the moment at which it becomes idle. Its state is observed only when
    /// its queue is touched or when the packet it was sending arrives, and both call `catch_up`
    /// first. So a hop costs one event. A NIC whose host has ready senders does have such events,
    /// because it has to ask a sender for its next packet.
    #[inline(always)]
    pub fn catch_up<C: PortContext>(&mut self, port: PortId, cx: &mut C) {
        if self.has_waiting && self.busy_until <= cx.now() {
            self.send_waiting(port, cx);
        }
    }

    /// Force-inlined copy of [`Port::catch_up`] for arrivals, the hot path.
    #[inline(always)]
    pub fn catch_up_inlined<C: PortContext>(&mut self, port: PortId, cx: &mut C) {
        if self.has_waiting && self.busy_until <= cx.now() {
            self.send_waiting_inlined(port, cx);
        }
    }

    #[inline(never)]
    fn send_waiting<C: PortContext>(&mut self, port: PortId, cx: &mut C) {
        self.send_waiting_inlined(port, cx);
    }

    #[inline(always)]
    fn send_waiting_inlined<C: PortContext>(&mut self, port: PortId, cx: &mut C) {
        loop {
            let Some(id) = self.queue.dequeue(cx.packets()) else {
                self.has_waiting = false;
                return;
            };
            self.send(port, id, self.busy_until, true, cx);
            if self.busy_until > cx.now() {
                self.has_waiting = !self.queue.is_empty();
                return;
            }
        }
    }

    /// Puts a packet on the link at `from`.
    #[inline(always)]
    pub fn send<C: PortContext>(
        &mut self,
        port: PortId,
        id: PacketId,
        from: Instant,
        waited: bool,
        cx: &mut C,
    ) {
        let (packets, wire) = cx.split();
        self.start(port, id, &mut packets[id], from, waited, wire);
    }

    #[inline(always)]
    fn start<W: Wire>(
        &mut self,
        port: PortId,
        id: PacketId,
        packet: &mut Packet,
        from: Instant,
        waited: bool,
        mut wire: W,
    ) {
        packet.port = port;
        let bytes = self.link_bytes(packet.wire_bytes);
        let until = from + self.rate.packet_time(bytes);
        self.busy_until = until;
        self.sent_bytes += u64::from(bytes);
        self.sent_packets += 1;
        self.in_service_bytes = packet.wire_bytes;
        self.in_service_is_control = packet.class == Class::CONTROL;
        let arrives_at = until + self.delay;
        wire.sends(packet, Sent { port, to: self.to, id, from, until, arrives_at, waited });
    }

    /// Sends a pause frame after the packet in service. Returns when it arrives.
    pub fn send_frame(&mut self, now: Instant, wire_bytes: u16) -> Instant {
        let bytes = self.link_bytes(wire_bytes);
        self.busy_until = self.busy_until.max(now) + self.rate.packet_time(bytes);
        self.sent_bytes += u64::from(bytes);
        self.busy_until + self.delay
    }

    /// Pauses or resumes a class.
    pub fn set_paused(&mut self, class: Class, is_paused: bool) {
        self.queue.set_paused(class, is_paused);
        self.idle_pass_bytes = idle_pass_bytes(&self.queue);
    }

    /// Bytes a packet takes on this link.
    #[inline]
    fn link_bytes(&self, wire_bytes: u16) -> u32 {
        u32::from(wire_bytes) + u32::from(self.framing)
    }

    /// The packet in service at `now`.
    #[inline]
    pub fn in_service_at(&self, now: Instant) -> InService {
        let is_busy = self.busy_until > now;
        InService {
            bytes: select_unpredictable(is_busy, u32::from(self.in_service_bytes), 0),
            is_control: is_busy & self.in_service_is_control,
        }
    }

    /// The port as controllers see it. The caller has called [`Port::catch_up`].
    #[inline]
    pub fn view(&self, port: PortId, now: Instant) -> PortView {
        let (queue_bytes, queue_packets) = self.queue.waiting();
        PortView {
            port,
            now,
            rate: self.rate.rate(),
            framing: Bytes::new(u64::from(self.framing)),
            queue_bytes: queue_bytes.get(),
            queue_packets: u64::from(queue_packets),
            sent_bytes: self.sent_bytes,
        }
    }
}
