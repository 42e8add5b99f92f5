//! The NIC scheduler: strict priority by class, round robin among senders, paced at the line rate.

use punctual_core::{Bytes, Class, Duration, FlowId, Instant, Packet, PortId, PortView, Rate};
use std::collections::VecDeque;

/// What the NIC sends next.
#[derive(Debug)]
pub(crate) enum NextSend {
    /// A queued packet.
    Packet(Packet),
    /// The packet that this flow's sender returns when polled for this NIC.
    Poll(FlowId, u32),
}

/// Queues of packets and ready senders per class, lower classes first, and a pacer at the line rate.
#[derive(Debug)]
pub(crate) struct Nic {
    rate: Rate,
    /// Bytes that the link adds to each packet.
    framing: Bytes,
    packets: [VecDeque<Packet>; Class::COUNT],
    /// Ready senders, and the NIC for which each is: another one if that NIC does not work.
    ready: [VecDeque<(FlowId, u32)>; Class::COUNT],
    free_at: Instant,
    /// How far the pacer may be behind and still catch up.
    burst: Duration,
    /// Whether nothing was queued when the NIC last looked: idle time is not made up for.
    was_idle: bool,
    /// Whether it is one of several NICs. A sender takes paths in random order, so one NIC is idle
    /// while it waits for another; that time is made up for, as a late wake-up is.
    has_siblings: bool,
    /// Bytes and number of the queued packets.
    queue_bytes: u64,
    queue_packets: u64,
    /// Bytes sent since the start, framing included.
    sent_bytes: u64,
}

impl Nic {
    pub(crate) fn new(rate: Rate, mtu: Bytes, framing: Bytes, has_siblings: bool) -> Self {
        let packet = rate.transmission_time(mtu + framing).min(LONGEST);
        Nic {
            rate,
            was_idle: true,
            has_siblings,
            burst: packet.saturating_mul(BURST_PACKETS),
            framing,
            packets: Default::default(),
            ready: Default::default(),
            free_at: Instant::ZERO,
            queue_bytes: 0,
            queue_packets: 0,
            sent_bytes: 0,
        }
    }

    /// This NIC as controllers see it. `framing` is what a link adds to their packets.
    pub(crate) fn view(&self, port: PortId, now: Instant, framing: Bytes) -> PortView {
        PortView {
            port,
            now,
            rate: self.rate,
            framing,
            queue_bytes: self.queue_bytes,
            queue_packets: self.queue_packets,
            sent_bytes: self.sent_bytes,
        }
    }

    /// Queues a packet. Returns false if the queue is full and the packet is dropped.
    pub(crate) fn push(&mut self, packet: Packet) -> bool {
        let queue = &mut self.packets[class_index(packet.class)];
        let fits = queue.len() < PACKETS_MAX;
        if fits {
            queue.push_back(packet);
            self.queue_bytes += u64::from(packet.wire_bytes);
            self.queue_packets += 1;
        }
        fits
    }

    /// Queues a sender that has data for this NIC, or for NIC `wanted` in its place. The caller
    /// queues each sender at most once for each NIC.
    pub(crate) fn push_ready(&mut self, flow: FlowId, class: Class, wanted: u32) {
        self.ready[class_index(class)].push_back((flow, wanted));
    }

    /// When the next packet may leave; `None` if nothing is queued.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        let is_idle = self.packets.iter().all(VecDeque::is_empty)
            && self.ready.iter().all(VecDeque::is_empty);
        (!is_idle).then_some(self.free_at)
    }

    /// When the next packet was due that did not find the NIC idle.
    pub(crate) fn due(&self) -> Option<Instant> {
        (!self.was_idle).then_some(self.free_at)
    }

    /// Removes what to send next, if the previous packet has left.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<NextSend> {
        if now < self.free_at {
            return None;
        }
        let was_idle = core::mem::replace(&mut self.was_idle, false);
        if was_idle && !self.has_siblings {
            self.free_at = now;
        }
        for (packets, ready) in self.packets.iter_mut().zip(&mut self.ready) {
            if let Some(packet) = packets.pop_front() {
                self.queue_bytes -= u64::from(packet.wire_bytes);
                self.queue_packets -= 1;
                return Some(NextSend::Packet(packet));
            }
            if let Some((flow, wanted)) = ready.pop_front() {
                return Some(NextSend::Poll(flow, wanted));
            }
        }
        self.was_idle = true;
        None
    }

    /// Whether a wake-up that is late by this much costs no slot.
    pub(crate) fn allows_for(&self, lateness: Duration) -> bool {
        self.burst >= lateness.saturating_mul(2)
    }

    /// The earliest time that a late timer may take for the present.
    pub(crate) fn earliest(&self, now: Instant) -> Instant {
        Instant::from_picos(now.as_picos().saturating_sub(self.burst.as_picos()))
    }

    /// Charges the pacer for a packet that leaves now. Unused time is lost, except for the lateness
    /// of a wake-up: more would send bursts above the line rate.
    pub(crate) fn sent(&mut self, now: Instant, wire_bytes: u16) {
        let bytes = Bytes::new(wire_bytes.into()) + self.framing;
        self.sent_bytes += bytes.get();
        let time = self.rate.transmission_time(bytes);
        self.free_at = self.free_at.max(self.earliest(now)).saturating_add(time.min(LONGEST));
    }
}

/// Most queued packets per class, so that peers cannot make memory grow without bound.
const PACKETS_MAX: usize = 4_096;

/// Packets whose slots are made up for after a late wake-up: as many as a first window has.
///
/// A pacer that never catches up loses every slot that it misses, and nothing behind it sees more than
/// its rate. This one departs from that. A process on a busy machine is suspended for milliseconds;
/// with 8 packets it sent 74 to 95 of 100 Mb/s on two cores with a load of 8, with 30 or more 92 to
/// 98, and a rate has to be kept within 5 %. The price: up to 33 packets leave back to back, and a
/// queue on the path that holds fewer trims or drops the others. What D3 and PDQ grant is exceeded for
/// as long as the burst. The same bound limits how far behind the clock the time of calls may be
/// ([`Nic::earliest`]).
const BURST_PACKETS: u64 = 32;

/// The longest time that one packet occupies the NIC, however low the rate.
const LONGEST: Duration = Duration::from_secs(60);

fn class_index(class: Class) -> usize {
    usize::from(class.0).min(Class::COUNT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::{Header, HostId};

    fn packet(class: Class) -> Packet {
        let mut packet = Packet::new(FlowId(1), HostId(1), Header::default());
        packet.class = class;
        packet
    }

    #[test]
    fn control_goes_first_then_flows_in_turn() {
        let mut nic = Nic::new(Rate::from_gbps(1), Bytes::new(1_500), Bytes::ZERO, false);
        nic.push_ready(FlowId(5), Class::DATA, 0);
        nic.push_ready(FlowId(6), Class::DATA, 1);
        nic.push(packet(Class::CONTROL));
        let mut order = vec![];
        while let Some(next) = nic.pop(Instant::ZERO) {
            order.push(match next {
                NextSend::Packet(p) => u32::from(p.class.0),
                NextSend::Poll(flow, wanted) => flow.0 + wanted,
            });
        }
        assert_eq!(order, [0, 5, 7]);
        assert_eq!(nic.next_at(), None);
    }

    #[test]
    fn missed_slots_are_lost_beyond_a_short_burst() {
        let mut nic = Nic::new(Rate::from_gbps(1), Bytes::new(1_462), Bytes::new(38), false);
        let start = Instant::from_picos(1_000_000_000);
        for _ in 0..50 {
            nic.push(packet(Class::CONTROL));
        }
        assert!(nic.pop(start).is_some());
        nic.sent(start, 1_462);
        assert!(nic.pop(start).is_none(), "idle time before the first packet is lost");
        let late = start + Duration::from_millis(5);
        let mut sent = 0;
        while nic.pop(late).is_some() {
            nic.sent(late, 1_462);
            sent += 1;
        }
        // 1462 bytes and 38 of framing at 1 Gb/s take 12 µs. 32 slots are made up for and one packet
        // is due now, whatever time was left unused before.
        assert_eq!(sent, 33);
        assert_eq!(nic.next_at(), Some(late + Duration::from_micros(12)));
        assert!(nic.pop(late).is_none());
        assert!(nic.pop(late + Duration::from_micros(12)).is_some());
    }
}
