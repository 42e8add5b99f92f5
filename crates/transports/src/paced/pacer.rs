//! When a flow that is granted a rate may send its next packet.

use punctual_core::{Bytes, Instant, LineRate, Rate};

/// Paces packets at the granted rate: `next departure = last departure + bytes / rate`.
///
/// The departure is computed when the rate changes or a packet leaves, and read often in between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    rate: LineRate,
    /// When the last packet left, and the bytes it occupies on the link.
    left_at: Instant,
    link_bytes: Bytes,
    /// [`Instant::NEVER`] while paused.
    departs_at: Instant,
}

impl Pacer {
    /// A paused flow that has sent nothing.
    pub(crate) fn new(now: Instant) -> Self {
        let rate = LineRate::new(Rate::ZERO);
        Pacer { rate, left_at: now, link_bytes: Bytes::ZERO, departs_at: Instant::NEVER }
    }

    /// The granted rate; zero while paused.
    #[inline]
    pub(crate) fn rate(&self) -> Rate {
        self.rate.rate()
    }

    /// Whether the granted rate is zero.
    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.rate() == Rate::ZERO
    }

    /// Sets the granted rate. It also applies to the time that the last packet still takes.
    #[inline]
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        if rate != self.rate() {
            self.rate = LineRate::new(rate);
            self.update_departure();
        }
    }

    /// A packet leaves now and occupies `link_bytes` of the link.
    #[inline]
    pub(crate) fn packet_left(&mut self, now: Instant, link_bytes: Bytes) {
        (self.left_at, self.link_bytes) = (now, link_bytes);
        self.update_departure();
    }

    fn update_departure(&mut self) {
        self.departs_at = self.left_at.saturating_add(self.rate.transmission_time(self.link_bytes));
    }

    /// When the next packet may leave; [`Instant::NEVER`] while paused.
    #[inline]
    pub(crate) fn next_departure(&self) -> Instant {
        self.departs_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::Duration;

    #[test]
    fn a_packet_waits_for_the_one_before_at_the_present_rate() {
        let at = |us| Instant::ZERO + Duration::from_micros(us);
        let mut pacer = Pacer::new(at(1));
        assert_eq!(pacer.next_departure(), Instant::NEVER);
        pacer.set_rate(Rate::from_gbps(1));
        assert_eq!(pacer.next_departure(), at(1), "nothing to wait for");
        pacer.packet_left(at(2), Bytes::new(1250));
        assert_eq!(pacer.next_departure(), at(12));
        pacer.set_rate(Rate::from_mbps(100));
        assert_eq!(pacer.next_departure(), at(102));
        pacer.set_rate(Rate::ZERO);
        assert_eq!(pacer.next_departure(), Instant::NEVER);
        pacer.set_rate(Rate::from_gbps(10));
        assert_eq!(pacer.next_departure(), at(3));
    }
}
