//! The state of an output port while a simulation runs.

use crate::events::{EventClass, EventQueue};
use crate::tap::Tap;
use punctual_core::{
    Bytes, Class, Duration, Instant, LineRate, NodeId, Packet, PacketArena, PacketId, PortId,
    PortView, Rate,
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

/// What sending a packet that is at hand needs of a [`Line`].
struct Sender<'a, T> {
    tap: &'a mut T,
    events: &'a mut EventQueue,
}

/// What each packet needs of a port is in the first cache line, the queue in the second.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PortState {
    pub(crate) busy_until: Instant,
    pub(crate) delay: Duration,
    /// Bytes sent since the start, framing included.
    pub(crate) sent_bytes: u64,
    rate: LineRate,
    /// Packets up to this size pass an idle port at once.
    pub(crate) idle_pass_bytes: u32,
    pub(crate) to: NodeId,
    pub(crate) twin: PortId,
    framing: u16,
    in_service_bytes: u16,
    in_service_is_control: bool,
    /// Something waits in the queue.
    pub(crate) has_waiting: bool,
    /// A NIC's: there is an event for when its host's senders may be asked.
    pub(crate) will_poll: bool,
    /// Its link loses packets, or a controller of the opposite direction reads answers.
    pub(crate) is_watched: bool,
    /// The latter.
    pub(crate) is_answered: bool,
    /// Controllers watch this port.
    pub(crate) has_controllers: bool,
    /// One of them looks at packets of the opposite direction.
    pub(crate) reads_answers: bool,
    /// Something besides queueing happens to what is to leave by it.
    pub(crate) is_attended: bool,
    pub(crate) queue: Queue,
}

const _: () = assert!(size_of::<PortState>() == 128);

impl PortState {
    pub(crate) fn new(link: &Link, framing: Bytes, queue: Queue) -> Self {
        PortState {
            busy_until: Instant::ZERO,
            delay: link.delay,
            sent_bytes: 0,
            rate: LineRate::new(link.rate),
            idle_pass_bytes: queue.idle_pass_bytes(),
            to: link.to,
            twin: link.twin,
            framing: framing.get() as u16,
            in_service_bytes: 0,
            in_service_is_control: false,
            has_waiting: false,
            will_poll: false,
            is_watched: false,
            is_answered: false,
            has_controllers: false,
            reads_answers: false,
            is_attended: false,
            queue,
        }
    }

    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.rate = LineRate::new(rate);
    }

    /// Takes in a packet: sends it at once if it can, else queues it. What the discipline does
    /// besides is added to `fates`.
    #[inline(always)]
    pub(crate) fn offer<T: Tap>(
        &mut self,
        port: PortId,
        id: PacketId,
        line: &mut Line<T>,
        fates: &mut Fates,
    ) {
        self.catch_up(port, line);
        let is_idle = !self.has_waiting && self.busy_until <= line.now;
        if is_idle {
            let now = line.now;
            let packet = &mut line.packets[id];
            if u32::from(packet.wire_bytes) <= self.idle_pass_bytes {
                let sender = Sender { tap: &mut line.tap, events: &mut line.events };
                line.hops += 1;
                self.start(port, id, packet, now, false, sender);
                return;
            }
        }
        line.tap.queued(port, id, &line.packets[id]);
        let in_service = self.in_service_at(line.now);
        self.queue.enqueue(id, in_service, &mut line.packets, fates);
        self.tell_waiting(port, line);
        if self.has_waiting {
            return;
        }
        self.has_waiting = !self.queue.is_empty();
        if is_idle {
            self.busy_until = line.now;
            self.catch_up(port, line);
        }
    }

    /// Tells how much waits, if anybody wants to know.
    #[inline(always)]
    pub(crate) fn tell_waiting<T: Tap>(&self, port: PortId, line: &mut Line<T>) {
        if T::WATCHES_QUEUES {
            let (bytes, packets) = self.queue.waiting();
            line.tap.holds(port, bytes.get(), packets);
        }
    }

    /// Sends what waits and would have been sent by now.
    ///
    /// A port has no event of its own when it falls idle: nobody can tell the difference until
    /// its queue is touched or the packet it was sending arrives, and each of these calls here
    /// first. So a hop costs one event. Only a NIC whose host has senders waiting does have such
    /// events, since its next packet has to be asked for.
    #[inline(always)]
    pub(crate) fn catch_up<T: Tap>(&mut self, port: PortId, line: &mut Line<T>) {
        if self.has_waiting && self.busy_until <= line.now {
            self.send_waiting(port, line);
        }
    }

    /// The same, for the one place where most of what waits is sent.
    #[inline(always)]
    pub(crate) fn catch_up_here<T: Tap>(&mut self, port: PortId, line: &mut Line<T>) {
        if self.has_waiting && self.busy_until <= line.now {
            self.send_waiting_here(port, line);
        }
    }

    #[inline(never)]
    fn send_waiting<T: Tap>(&mut self, port: PortId, line: &mut Line<T>) {
        self.send_waiting_here(port, line);
    }

    #[inline(always)]
    fn send_waiting_here<T: Tap>(&mut self, port: PortId, line: &mut Line<T>) {
        loop {
            let Some(id) = self.queue.dequeue(&line.packets) else {
                self.has_waiting = false;
                return;
            };
            self.send(port, id, self.busy_until, true, line);
            if self.busy_until > line.now {
                self.has_waiting = !self.queue.is_empty();
                return;
            }
        }
    }

    /// Puts a packet on the link at `from`.
    #[inline(always)]
    pub(crate) fn send<T: Tap>(
        &mut self,
        port: PortId,
        id: PacketId,
        from: Instant,
        waited: bool,
        line: &mut Line<T>,
    ) {
        line.hops += 1;
        let sender = Sender { tap: &mut line.tap, events: &mut line.events };
        self.start(port, id, &mut line.packets[id], from, waited, sender);
    }

    #[inline(always)]
    fn start<T: Tap>(
        &mut self,
        port: PortId,
        id: PacketId,
        packet: &mut Packet,
        from: Instant,
        waited: bool,
        sender: Sender<'_, T>,
    ) {
        packet.port = port;
        let bytes = self.link_bytes(packet.wire_bytes);
        let until = from + self.rate.packet_time(bytes);
        self.busy_until = until;
        self.sent_bytes += u64::from(bytes);
        self.in_service_bytes = packet.wire_bytes;
        self.in_service_is_control = packet.class == Class::CONTROL;
        sender.tap.sends(port, id, packet, from, until, waited);
        sender.events.push(until + self.delay, EventClass::Arrival, port.0, id.0);
    }

    /// Puts a frame of the link's own on the link, after what is being sent. Returns when it
    /// arrives.
    pub(crate) fn send_frame(&mut self, now: Instant, wire_bytes: u16) -> Instant {
        let bytes = self.link_bytes(wire_bytes);
        self.busy_until = self.busy_until.max(now) + self.rate.packet_time(bytes);
        self.sent_bytes += u64::from(bytes);
        self.busy_until + self.delay
    }

    /// Holds back a class, or lets it go on.
    pub(crate) fn set_paused(&mut self, class: Class, is_paused: bool) {
        self.queue.set_paused(class, is_paused);
        self.idle_pass_bytes = self.queue.idle_pass_bytes();
    }

    /// Bytes a packet takes on this link.
    #[inline]
    fn link_bytes(&self, wire_bytes: u16) -> u32 {
        u32::from(wire_bytes) + u32::from(self.framing)
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
