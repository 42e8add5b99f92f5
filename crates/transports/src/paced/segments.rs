//! A flow's segments: which are unsent, in flight, lost or acknowledged.

use punctual_core::{BitRing, Instant, RetransmitCause};
use std::collections::VecDeque;

/// A flow's bytes as segments of one size, the last perhaps shorter: which were sent at least once,
/// and which are acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    size_bytes: u64,
    segment_bytes: u64,
    count: u64,
    next_new: u64,
    acked: BitRing,
}

impl Scoreboard {
    /// Segments never sent.
    #[inline]
    fn unsent(&self) -> u64 {
        self.count - self.next_new
    }

    /// Number of segments of the flow.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of `segments` of them, of which the flow's last, perhaps shorter, is one if it is
    /// unsent.
    pub(crate) fn bytes_of(&self, segments: u64) -> u64 {
        let short_bytes = match self.unsent() {
            0 => 0,
            _ => self.count.saturating_mul(self.segment_bytes).saturating_sub(self.size_bytes),
        };
        segments.saturating_mul(self.segment_bytes).saturating_sub(short_bytes)
    }

    /// Whether every segment is acknowledged.
    pub(crate) fn all_acked(&self) -> bool {
        self.acked.base() == self.count
    }
}

/// The segments of a flow, or of one of its subflows.
///
/// Subflows share one [`Scoreboard`]: each has a share of the segments never sent, as a number, and
/// takes the next one of the flow when it sends.
#[derive(Clone, Debug)]
pub(crate) struct Segments {
    board: Scoreboard,
    /// Segments never sent that are left to this subflow; all of them if it is the only one.
    share: u64,
    lost: VecDeque<Lost>,
    /// Unacknowledged segments in the order sent; acknowledged ones may linger behind the first.
    in_flight: VecDeque<InFlight>,
}

/// A segment to send again.
#[derive(Clone, Copy, Debug)]
struct Lost {
    segment: u64,
    cause: RetransmitCause,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    segment: u64,
    sent_at: Instant,
    /// Packets that were sent later and are acknowledged.
    passed_by: u8,
}

/// A segment to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) len: u16,
    /// Whether it is the flow's last segment.
    pub(crate) is_end: bool,
    /// Why it is sent again; none if it was never sent.
    pub(crate) again: Option<RetransmitCause>,
}

/// What an acknowledgement reports, in segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    /// Every segment below this has arrived.
    pub(crate) below: u64,
    /// The segment in the packet that is acknowledged, if it carried one.
    pub(crate) named: Option<u64>,
}

/// What a sender learns from an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckOutcome {
    /// It acknowledges at least one segment for the first time.
    Progress,
    /// It acknowledges nothing new.
    Stale,
    /// It acknowledges segments that were never sent.
    Malformed,
}

impl Segments {
    /// A flow of `size_bytes` with nothing sent. `segment_bytes` must be below 2¹⁶, as packets
    /// are.
    pub(crate) fn new(size_bytes: u64, segment_bytes: u64) -> Self {
        let count = size_bytes.div_ceil(segment_bytes);
        Segments {
            board: Scoreboard { size_bytes, segment_bytes, count, ..Scoreboard::default() },
            share: count,
            lost: VecDeque::new(),
            in_flight: VecDeque::new(),
        }
    }

    /// Ends the flow after `count_max` segments: a bound for endless flows whose header cannot
    /// number more.
    pub(crate) fn at_most(mut self, count_max: u64) -> Self {
        self.board.count = self.board.count.min(count_max);
        self.share = self.board.count;
        self
    }

    /// These segments as those of a subflow with that share, without the scoreboard: see
    /// [`Segments::lend`].
    pub(crate) fn subflow(&self, share: u64) -> Self {
        let board = Scoreboard::default();
        Segments { board, share, lost: VecDeque::new(), in_flight: VecDeque::new() }
    }

    /// Exchanges the scoreboard with `board`: a subflow has it only while it is called.
    #[inline]
    pub(crate) fn lend(&mut self, board: &mut Scoreboard) {
        core::mem::swap(&mut self.board, board);
    }

    /// The scoreboard.
    pub(crate) fn into_board(self) -> Scoreboard {
        self.board
    }

    /// Moves up to `count` segments to send to another subflow, lost ones first. Returns how many.
    pub(crate) fn move_to(&mut self, other: &mut Segments, count: u64) -> u64 {
        let lost = count.min(self.lost.len() as u64);
        other.lost.extend(self.lost.drain(..lost as usize));
        let unsent = (count - lost).min(self.share);
        self.share -= unsent;
        other.share += unsent;
        lost + unsent
    }

    /// Removes what acknowledgements on other subflows have acknowledged.
    #[inline]
    pub(crate) fn drop_acked_elsewhere(&mut self, board: &Scoreboard) {
        drop_acked(&board.acked, &mut self.lost, &mut self.in_flight);
    }

    /// Size of the flow.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.board.size_bytes
    }

    /// Size of every segment but the last.
    #[inline]
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.board.segment_bytes
    }

    /// Number of segments of the flow.
    pub(crate) fn count(&self) -> u64 {
        self.board.count
    }

    /// Number of the first segment never sent.
    pub(crate) fn next_new(&self) -> u64 {
        self.board.next_new
    }

    /// Segments to send: lost and unsent ones.
    #[inline]
    pub(crate) fn left(&self) -> u64 {
        self.lost.len() as u64 + self.share
    }

    /// Bytes to send, each lost segment counted as a full one.
    pub(crate) fn left_bytes(&self) -> u64 {
        let lost_bytes = self.lost.len() as u64 * self.board.segment_bytes;
        let mut unsent_bytes = self.board.size_bytes - self.sent_bytes();
        if self.share != self.board.unsent() {
            // A subflow: which of them has the last segment, perhaps shorter, is open.
            unsent_bytes = unsent_bytes.min(self.share.saturating_mul(self.board.segment_bytes));
        }
        unsent_bytes.saturating_add(lost_bytes)
    }

    /// Upper bound of [`Segments::left_bytes`] at any time, with `header_bytes` added for each
    /// segment.
    pub(crate) fn left_bytes_max(&self, header_bytes: u64) -> u64 {
        let whole =
            self.board.segment_bytes.saturating_mul(self.board.count).max(self.board.size_bytes);
        whole.saturating_add(self.board.count.saturating_mul(header_bytes))
    }

    /// Bytes sent at least once; also the offset of the first byte never sent.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.board.next_new.saturating_mul(self.board.segment_bytes).min(self.board.size_bytes)
    }

    /// Whether every segment is acknowledged.
    pub(crate) fn all_acked(&self) -> bool {
        self.board.all_acked()
    }

    /// Whether any segment is lost and not yet retransmitted.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Whether this segment is lost and not yet retransmitted.
    pub(crate) fn is_lost(&self, number: u64) -> bool {
        self.lost.iter().any(|lost| lost.segment == number)
    }

    /// When the oldest segment in flight was sent.
    #[inline]
    pub(crate) fn oldest_sent_at(&self) -> Option<Instant> {
        self.in_flight.front().map(|flight| flight.sent_at)
    }

    /// The next segment, which is in flight from now on. Lost ones go first.
    pub(crate) fn send_next(&mut self, now: Instant) -> Option<Segment> {
        let (number, again) = match self.lost.pop_front() {
            Some(lost) => (lost.segment, Some(lost.cause)),
            None if self.share > 0 => {
                self.share -= 1;
                self.board.next_new += 1;
                (self.board.next_new - 1, None)
            }
            None => return None,
        };
        self.in_flight.push_back(InFlight { segment: number, sent_at: now, passed_by: 0 });
        let len =
            self.board.segment_bytes.min(self.board.size_bytes - number * self.board.segment_bytes)
                as u16;
        Some(Segment { number, len, is_end: number + 1 == self.board.count, again })
    }

    /// The segment that contains this byte. It is usually the first unacknowledged one or the
    /// next, for which no division is needed.
    #[inline]
    fn segment_at(&self, offset: u64) -> u64 {
        let first = self.board.acked.base();
        let ahead = offset.wrapping_sub(first.wrapping_mul(self.board.segment_bytes));
        if ahead < self.board.segment_bytes {
            first
        } else if ahead < 2 * self.board.segment_bytes {
            first + 1
        } else {
            offset / self.board.segment_bytes
        }
    }

    /// An acknowledgement in bytes as one in segments: every byte below `ack` has arrived, and
    /// the packet acknowledged carried the segment that starts at `named`.
    #[inline]
    pub(crate) fn ack_of_bytes(&self, ack: u64, named: Option<u64>) -> Ack {
        let below =
            if ack == self.board.size_bytes { self.board.count } else { self.segment_at(ack) };
        Ack { below, named: named.map(|offset| self.segment_at(offset)) }
    }

    /// Marks what has arrived as acknowledged. A segment is lost once `loss_threshold` packets
    /// sent after it are acknowledged; `was_sent_before` returns whether a packet was sent before
    /// the one acknowledged.
    #[inline]
    pub(crate) fn handle_ack(
        &mut self,
        ack: Ack,
        loss_threshold: u8,
        was_sent_before: impl Fn(Instant) -> bool,
    ) -> AckOutcome {
        if ack.below > self.board.next_new
            || ack.named.is_some_and(|number| number >= self.board.next_new)
        {
            return AckOutcome::Malformed;
        }
        let mut progress = false;
        for number in self.board.acked.base()..ack.below {
            progress |= self.board.acked.insert(number);
        }
        if let Some(number) = ack.named
            && number >= ack.below
        {
            progress |= self.board.acked.insert(number);
        }
        // A stale acknowledgement may be a duplicate, which must not count as another packet.
        if !progress {
            return AckOutcome::Stale;
        }
        drop_acked(&self.board.acked, &mut self.lost, &mut self.in_flight);
        self.detect_loss(loss_threshold, was_sent_before);
        AckOutcome::Progress
    }

    #[inline]
    fn detect_loss(&mut self, loss_threshold: u8, was_sent_before: impl Fn(Instant) -> bool) {
        let mut any = false;
        let flights = self.in_flight.iter_mut();
        for flight in flights.take_while(|flight| was_sent_before(flight.sent_at)) {
            flight.passed_by = flight.passed_by.saturating_add(1);
            any |= flight.passed_by >= loss_threshold;
        }
        if any {
            let is_lost = |flight: &InFlight| flight.passed_by >= loss_threshold;
            self.mark_lost(RetransmitCause::DuplicateAck, is_lost);
        }
    }

    /// Counts everything in flight as lost, because a timeout passed.
    pub(crate) fn mark_all_lost(&mut self) {
        self.mark_lost(RetransmitCause::Timeout, |_| true);
    }

    fn mark_lost(&mut self, cause: RetransmitCause, is_lost: impl Fn(&InFlight) -> bool) {
        let (acked, lost) = (&self.board.acked, &mut self.lost);
        self.in_flight.retain(|flight| {
            if acked.contains(flight.segment) {
                return false;
            }
            let gone = is_lost(flight);
            if gone {
                lost.push_back(Lost { segment: flight.segment, cause });
            }
            !gone
        });
    }
}

#[inline]
fn drop_acked(acked: &BitRing, lost: &mut VecDeque<Lost>, in_flight: &mut VecDeque<InFlight>) {
    if !lost.is_empty() {
        lost.retain(|lost| !acked.contains(lost.segment));
    }
    while let Some(flight) = in_flight.front()
        && acked.contains(flight.segment)
    {
        in_flight.pop_front();
    }
}
