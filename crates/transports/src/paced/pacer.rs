//! When a flow that is granted a rate may send its next packet.

use punctual_core::{Bytes, Instant, LineRate, Rate};

/// A packet waits for the time that the one before takes at the rate granted.
///
/// The time is reckoned when the rate changes or a packet leaves, and read many times between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    rate: LineRate,
    /// `unpaid` have left since `paid_from`.
    paid_from: Instant,
    unpaid: Bytes,
    /// Never while it is paused.
    departs_at: Instant,
}

impl Pacer {
    /// A flow that has sent nothing and may send nothing.
    pub(crate) fn new(now: Instant) -> Self {
        let rate = LineRate::new(Rate::ZERO);
        Pacer { rate, paid_from: now, unpaid: Bytes::ZERO, departs_at: Instant::NEVER }
    }

    /// The rate it may send at; zero while it is paused.
    #[inline]
    pub(crate) fn rate(&self) -> Rate {
        self.rate.rate()
    }

    /// Whether it may send nothing.
    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.rate() == Rate::ZERO
    }

    /// It may send at this rate from now on, also what is unpaid.
    #[inline]
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        if rate != self.rate() {
            self.rate = LineRate::new(rate);
            self.reckon();
        }
    }

    /// A packet leaves now that takes this much of the link.
    #[inline]
    pub(crate) fn sent(&mut self, now: Instant, bytes: Bytes) {
        (self.paid_from, self.unpaid) = (now, bytes);
        self.reckon();
    }

    fn reckon(&mut self) {
        self.departs_at = self.paid_from.saturating_add(self.rate.transmission_time(self.unpaid));
    }

    /// When the next packet may leave; never while it is paused.
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
    fn a_packet_waits_for_the_one_before_at_the_rate_of_now() {
        let at = |us| Instant::ZERO + Duration::from_micros(us);
        let mut pacer = Pacer::new(at(1));
        assert_eq!(pacer.next_departure(), Instant::NEVER);
        pacer.set_rate(Rate::from_gbps(1));
        assert_eq!(pacer.next_departure(), at(1), "nothing to wait for");
        pacer.sent(at(2), Bytes::new(1250));
        assert_eq!(pacer.next_departure(), at(12));
        pacer.set_rate(Rate::from_mbps(100));
        assert_eq!(pacer.next_departure(), at(102));
        pacer.set_rate(Rate::ZERO);
        assert_eq!(pacer.next_departure(), Instant::NEVER);
        pacer.set_rate(Rate::from_gbps(10));
        assert_eq!(pacer.next_departure(), at(3));
    }
}
