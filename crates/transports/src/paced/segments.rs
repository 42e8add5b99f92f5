//! Which segments of a flow are yet to be sent, on their way, lost or acknowledged.

use super::super::header::D3Header;
use punctual_core::{BitRing, Instant};
use std::collections::VecDeque;

/// A flow's bytes as segments of one size, the last perhaps shorter.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    size_bytes: u64,
    segment_bytes: u64,
    count: u64,
    next_new: u64,
    lost: VecDeque<u64>,
    /// Unacknowledged segments in the order sent; acknowledged ones may linger behind the first.
    in_flight: VecDeque<InFlight>,
    acked: BitRing,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    segment: u64,
    sent_at: Instant,
    /// Packets sent later and acknowledged.
    passed_by: u8,
}

/// A segment to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) offset: u64,
    pub(super) len: u16,
    /// It ends where the flow ends.
    pub(super) is_end: bool,
    /// It was sent before.
    pub(super) again: bool,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Something arrived that was not known to have.
    Progress,
    /// Nothing new.
    Nothing,
    /// What cannot be true.
    Nonsense,
}

impl Segments {
    /// None sent. `segment_bytes` is below 2¹⁶, as packets are.
    pub(super) fn new(size_bytes: u64, segment_bytes: u64) -> Self {
        Segments {
            size_bytes,
            segment_bytes,
            count: size_bytes.div_ceil(segment_bytes),
            next_new: 0,
            lost: VecDeque::new(),
            in_flight: VecDeque::new(),
            acked: BitRing::default(),
        }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(super) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Segments to send: lost ones and new ones.
    pub(super) fn left(&self) -> u64 {
        self.lost.len() as u64 + (self.count - self.next_new)
    }

    /// Bytes to send, lost segments counted as whole ones.
    pub(super) fn left_bytes(&self) -> u64 {
        let lost_bytes = self.lost.len() as u64 * self.segment_bytes;
        (self.size_bytes - self.next_offset()).saturating_add(lost_bytes)
    }

    /// Where new data start.
    pub(super) fn next_offset(&self) -> u64 {
        let offset = self.next_new.saturating_mul(self.segment_bytes);
        offset.min(self.size_bytes)
    }

    pub(super) fn all_acked(&self) -> bool {
        self.acked.base() == self.count
    }

    pub(super) fn is_lost(&self, number: u64) -> bool {
        self.lost.contains(&number)
    }

    /// When the oldest segment on its way left.
    pub(super) fn oldest_sent_at(&self) -> Option<Instant> {
        self.in_flight.front().map(|flight| flight.sent_at)
    }

    /// The next segment, which is on its way from now on. Lost ones go first.
    pub(super) fn send_next(&mut self, now: Instant) -> Option<Segment> {
        let (number, again) = match self.lost.pop_front() {
            Some(number) => (number, true),
            None if self.next_new < self.count => {
                self.next_new += 1;
                (self.next_new - 1, false)
            }
            None => return None,
        };
        self.in_flight.push_back(InFlight { segment: number, sent_at: now, passed_by: 0 });
        let offset = number * self.segment_bytes;
        let len = self.segment_bytes.min(self.size_bytes - offset);
        Some(Segment { offset, len: len as u16, is_end: number + 1 == self.count, again })
    }

    /// The number of the segment that has this byte. Mostly it is the first that is not
    /// acknowledged or the one behind, for which there is nothing to divide.
    #[inline]
    fn segment_at(&self, offset: u64) -> u64 {
        let first = self.acked.base();
        let ahead = offset.wrapping_sub(first.wrapping_mul(self.segment_bytes));
        if ahead < self.segment_bytes {
            first
        } else if ahead < 2 * self.segment_bytes {
            first + 1
        } else {
            offset / self.segment_bytes
        }
    }

    /// Takes note of what has arrived, and of what must therefore be lost (D3-R24).
    pub(super) fn handle_ack(&mut self, header: &D3Header, loss_threshold: u8) -> News {
        let acked_below =
            if header.ack == self.size_bytes { self.count } else { self.segment_at(header.ack) };
        let named = header.has(D3Header::DATA).then(|| self.segment_at(header.seq));
        if acked_below > self.next_new || named.is_some_and(|number| number >= self.next_new) {
            return News::Nonsense;
        }
        let mut progress = false;
        for number in self.acked.base()..acked_below {
            progress |= self.acked.insert(number);
        }
        if let Some(number) = named
            && number >= acked_below
        {
            progress |= self.acked.insert(number);
        }
        // An answer that says nothing new may be a copy, and must not count twice.
        if !progress {
            return News::Nothing;
        }
        self.forget_acked();
        self.detect_loss(Instant::from_picos(header.timestamp), loss_threshold);
        News::Progress
    }

    fn forget_acked(&mut self) {
        if !self.lost.is_empty() {
            let acked = &self.acked;
            self.lost.retain(|&number| !acked.contains(number));
        }
        while let Some(flight) = self.in_flight.front()
            && self.acked.contains(flight.segment)
        {
            self.in_flight.pop_front();
        }
    }

    /// A packet that left at `sent_at` has arrived.
    fn detect_loss(&mut self, sent_at: Instant, loss_threshold: u8) {
        let mut any = false;
        let flights = self.in_flight.iter_mut();
        for flight in flights.take_while(|flight| flight.sent_at < sent_at) {
            flight.passed_by = flight.passed_by.saturating_add(1);
            any |= flight.passed_by >= loss_threshold;
        }
        if any {
            self.give_up(|flight| flight.passed_by >= loss_threshold);
        }
    }

    /// Takes everything on its way for lost.
    pub(super) fn give_up_all(&mut self) {
        self.give_up(|_| true);
    }

    fn give_up(&mut self, is_lost: impl Fn(&InFlight) -> bool) {
        let (acked, lost) = (&self.acked, &mut self.lost);
        self.in_flight.retain(|flight| {
            if acked.contains(flight.segment) {
                return false;
            }
            let gone = is_lost(flight);
            if gone {
                lost.push_back(flight.segment);
            }
            !gone
        });
    }
}
