//! The state of an output port while a simulation runs.

use crate::events::{EventClass, EventQueue};
use crate::tap::Tap;
use punctual_core::{
    Bytes, Class, Duration, Instant, LineRate, NodeId, Packet, PacketArena, PacketId, PortId,
    PortView, Rate,
};
use punctual_net::{Fates, InService, Link, Queue};

/// Simulation context shared by all ports: clock, packet arena, event queue, observer.
#[derive(Debug)]
pub(crate) struct SimContext<T> {
    pub(crate) now: Instant,
    pub(crate) packets: PacketArena,
    pub(crate) events: EventQueue,
    pub(crate) tap: T,
}

/// What [`PortState::start`] needs of a [`SimContext`] while the packet is borrowed from it.
struct Transmission<'a, T> {
    tap: &'a mut T,
    events: &'a mut EventQueue,
}

/// An output port. The fields that every packet needs are in the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PortState {
    pub(crate) busy_until: Instant,
    pub(crate) delay: Duration,
    /// Bytes sent since the start, framing included.
    pub(crate) sent_bytes: u64,
    /// Packets sent since the start, pause frames not included.
    pub(crate) sent_packets: u64,
    rate: LineRate,
    pub(crate) to: NodeId,
    /// Packets up to this size pass an idle port at once.
    idle_pass_bytes: u16,
    framing: u16,
    in_service_bytes: u16,
    in_service_is_control: bool,
    /// Whether packets wait in the queue.
    pub(crate) has_waiting: bool,
    /// NICs only: whether an event is scheduled at which it polls its host's senders.
    pub(crate) will_poll: bool,
    /// Whether something may happen to a packet at the end of this link: the link may lose it
    /// ([`LinkHealth`](crate::scenario_events::LinkHealth)), or `reverse_has_controller`.
    pub(crate) needs_arrival_checks: bool,
    /// Whether the port of the opposite direction has a controller that reads what this link
    /// brings.
    pub(crate) reverse_has_controller: bool,
    /// Whether a packet that is to leave by this port passes a controller or a lossless switch's
    /// buffer first.
    pub(crate) needs_departure_checks: bool,
    pub(crate) queue: Queue,
}

const _: () = assert!(size_of::<PortState>() == 128);

/// [`Queue::idle_pass_bytes`], limited to the largest packet size.
fn idle_pass_bytes(queue: &Queue) -> u16 {
    u16::try_from(queue.idle_pass_bytes()).unwrap_or(u16::MAX)
}

impl PortState {
    pub(crate) fn new(link: &Link, framing: Bytes, queue: Queue) -> Self {
        PortState {
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
            will_poll: false,
            needs_arrival_checks: false,
            reverse_has_controller: false,
            needs_departure_checks: false,
            queue,
        }
    }

    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.rate = LineRate::new(rate);
    }

    /// Sends a packet at once if the port is idle, else queues it. What the queue discipline does
    /// besides (mark, trim, drop, bounce) is added to `fates`.
    #[inline(always)]
    pub(crate) fn offer<T: Tap>(
        &mut self,
        port: PortId,
        id: PacketId,
        cx: &mut SimContext<T>,
        fates: &mut Fates,
    ) {
        self.catch_up(port, cx);
        let is_idle = !self.has_waiting && self.busy_until <= cx.now;
        if is_idle {
            let now = cx.now;
            let packet = &mut cx.packets[id];
            if packet.wire_bytes <= self.idle_pass_bytes {
                let transmission = Transmission { tap: &mut cx.tap, events: &mut cx.events };
                self.start(port, id, packet, now, false, transmission);
                return;
            }
        }
        cx.tap.queued(port, id, &cx.packets[id]);
        let in_service = self.in_service_at(cx.now);
        self.queue.enqueue(id, in_service, &mut cx.packets, fates);
        self.report_waiting(port, cx);
        if self.has_waiting {
            return;
        }
        self.has_waiting = !self.queue.is_empty();
        if is_idle {
            self.busy_until = cx.now;
            self.catch_up(port, cx);
        }
    }

    /// Reports the length of the queue to an observer that watches queues.
    #[inline(always)]
    pub(crate) fn report_waiting<T: Tap>(&self, port: PortId, cx: &mut SimContext<T>) {
        if T::WATCHES_QUEUES {
            let (bytes, packets) = self.queue.waiting();
            cx.tap.holds(port, bytes.get(), packets);
        }
    }

    /// Sends the waiting packets whose transmission would have started by now.
    ///
    /// A port has no event for the moment at which it becomes idle. Its state is observed only when
    /// its queue is touched or when the packet it was sending arrives, and both call `catch_up`
    /// first. So a hop costs one event. A NIC whose host has ready senders does have such events,
    /// because it has to ask a sender for its next packet.
    #[inline(always)]
    pub(crate) fn catch_up<T: Tap>(&mut self, port: PortId, cx: &mut SimContext<T>) {
        if self.has_waiting && self.busy_until <= cx.now {
            self.send_waiting(port, cx);
        }
    }

    /// Force-inlined copy of [`PortState::catch_up`] for arrivals, the hot path.
    #[inline(always)]
    pub(crate) fn catch_up_inlined<T: Tap>(&mut self, port: PortId, cx: &mut SimContext<T>) {
        if self.has_waiting && self.busy_until <= cx.now {
            self.send_waiting_inlined(port, cx);
        }
    }

    #[inline(never)]
    fn send_waiting<T: Tap>(&mut self, port: PortId, cx: &mut SimContext<T>) {
        self.send_waiting_inlined(port, cx);
    }

    #[inline(always)]
    fn send_waiting_inlined<T: Tap>(&mut self, port: PortId, cx: &mut SimContext<T>) {
        loop {
            let Some(id) = self.queue.dequeue(&cx.packets) else {
                self.has_waiting = false;
                return;
            };
            self.send(port, id, self.busy_until, true, cx);
            if self.busy_until > cx.now {
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
        cx: &mut SimContext<T>,
    ) {
        let transmission = Transmission { tap: &mut cx.tap, events: &mut cx.events };
        self.start(port, id, &mut cx.packets[id], from, waited, transmission);
    }

    #[inline(always)]
    fn start<T: Tap>(
        &mut self,
        port: PortId,
        id: PacketId,
        packet: &mut Packet,
        from: Instant,
        waited: bool,
        transmission: Transmission<'_, T>,
    ) {
        packet.port = port;
        let bytes = self.link_bytes(packet.wire_bytes);
        let until = from + self.rate.packet_time(bytes);
        self.busy_until = until;
        self.sent_bytes += u64::from(bytes);
        self.sent_packets += 1;
        self.in_service_bytes = packet.wire_bytes;
        self.in_service_is_control = packet.class == Class::CONTROL;
        transmission.tap.sends(port, id, packet, from, until, waited);
        transmission.events.push(until + self.delay, EventClass::Arrival, port.0, id.0);
    }

    /// Sends a pause frame after the packet in service. Returns when it arrives.
    pub(crate) fn send_frame(&mut self, now: Instant, wire_bytes: u16) -> Instant {
        let bytes = self.link_bytes(wire_bytes);
        self.busy_until = self.busy_until.max(now) + self.rate.packet_time(bytes);
        self.sent_bytes += u64::from(bytes);
        self.busy_until + self.delay
    }

    /// Pauses or resumes a class.
    pub(crate) fn set_paused(&mut self, class: Class, is_paused: bool) {
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
    pub(crate) fn in_service_at(&self, now: Instant) -> InService {
        if self.busy_until > now {
            let is_control = self.in_service_is_control;
            InService { bytes: u32::from(self.in_service_bytes), is_control }
        } else {
            InService::default()
        }
    }

    #[inline]
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
