//! PDQ's header: 32 bytes, with the same fields in both directions.
//!
//! The scheduling header's fields are four bytes each, as in the paper, in units that keep them
//! exact enough: rates in kb/s, RTTs in nanoseconds, expected times in units of 10 ns. Larger values
//! saturate. Deadlines are in units of 10 µs modulo 2³², which are 11.9 hours: a port takes the
//! deadline nearest to its clock, and a sender writes none that is more than 3 hours away.

use punctual_core::{Duration, Instant, Rate};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of the header that every packet has, without the scheduling header.
pub const PLAIN_HEADER_BYTES: u16 = 40;
/// Bytes of the scheduling header: R, P, D, T and RTT, four each.
pub const SCHEDULING_HEADER_BYTES: u16 = 20;
/// Bytes of a packet without data.
pub const HEADER_BYTES: u16 = PLAIN_HEADER_BYTES + SCHEDULING_HEADER_BYTES;

/// P when no port pauses the flow.
pub const NOBODY: u32 = u32::MAX;
/// D of a flow without deadline.
pub const NO_DEADLINE: u32 = u32::MAX;
/// One RTT in units of I.
pub const PROBE_UNIT: u32 = 1000;

/// Bits of [`PdqHeader::route`] that hold the path.
const PATH_BITS: u32 = 12;
/// The number of paths that a header can name.
pub const PATHS_MAX: u32 = 1 << PATH_BITS;
/// The number of subflows of a flow that a header can name.
pub const SUBFLOWS_MAX: u32 = 1 << (u16::BITS - PATH_BITS);

const DEADLINE_UNIT_PICOS: u64 = 10_000_000;
/// How far from the present a deadline in a header can be: a quarter of the field's range. Another
/// quarter is left for clocks that differ and for packets under way.
const DEADLINE_REACH: Duration = Duration::from_picos((1 << 30) * DEADLINE_UNIT_PICOS);
const EXPECTED_UNIT_PICOS: u64 = 10_000;

/// The header of every packet.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct PdqHeader {
    /// Number of the segment carried, or of the first unsent one if none is carried; an
    /// acknowledgement repeats it.
    pub seq: u32,
    /// When the packet was sent, in nanoseconds modulo 2³²; an acknowledgement repeats it.
    pub time: u32,
    /// R_H, in kb/s: to the receiver, the desired rate, which ports lower; to the sender, the
    /// granted rate.
    pub rate: u32,
    /// P_H: the port that pauses the flow, or [`NOBODY`].
    pub pauser: u32,
    /// D_H to the receiver: the deadline, in units of 10 µs modulo 2³², or [`NO_DEADLINE`]. To the sender
    /// the field is I_H, the time between probes, in thousandths of an RTT.
    pub deadline: u32,
    /// T_H to the receiver: the expected transmission time of the remaining bytes at line rate, in
    /// units of 10 ns. To the sender: the number of segments that have arrived without a gap.
    pub expected: u32,
    /// RTT_H, in nanoseconds; 0 before the first sample. An acknowledgement repeats it.
    pub rtt: u32,
    /// The subflow, in the upper 4 bits, and the path of its packets in the others.
    /// Acknowledgements take the path in reverse. A flow of PDQ is one subflow, number 0.
    pub route: u16,
    /// Flags: the constants below.
    pub flags: u8,
    /// Aging: T counts as `T / 2^(age / 8)`.
    pub age: u8,
}

impl PdqHeader {
    /// The flow's first packet.
    pub const SYN: u8 = 1;
    /// The flow leaves the ports on its path.
    pub const TERM: u8 = 1 << 1;
    /// The packet ends where the flow ends.
    pub const END: u8 = 1 << 2;
    /// The packet is an acknowledgement.
    pub const ACK: u8 = 1 << 3;
    /// The packet carries data, or acknowledges a packet that did.
    pub const DATA: u8 = 1 << 4;
    /// The packet is a retransmission.
    pub const AGAIN: u8 = 1 << 5;
    /// The port that P names was passed, and pauses the flow still (PDQ-R30).
    pub const HELD: u8 = 1 << 6;

    /// The field `route` of packets of this subflow on this path, both modulo the number that a
    /// header can name.
    #[inline]
    pub fn route(path: u32, subflow: u32) -> u16 {
        (subflow % SUBFLOWS_MAX * PATHS_MAX + path % PATHS_MAX) as u16
    }

    /// The path of the packet.
    #[inline]
    pub fn path(&self) -> u32 {
        u32::from(self.route) % PATHS_MAX
    }

    /// The subflow of the packet.
    #[inline]
    pub fn subflow(&self) -> u32 {
        u32::from(self.route) / PATHS_MAX
    }

    /// Whether all these flags are set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// A port pauses the flow.
    #[inline]
    pub(super) fn pause(&mut self, port: u32) {
        self.pauser = port;
        self.flags |= Self::HELD;
    }
}

/// A rate for the header, rounded down to kb/s.
#[inline]
pub(super) fn kbps(rate: Rate) -> u32 {
    u32::try_from(rate.as_bps() / 1000).unwrap_or(u32::MAX)
}

/// A rate from the header.
#[inline]
pub(super) fn rate(kbps: u32) -> Rate {
    Rate::from_bps(u64::from(kbps) * 1000)
}

/// A deadline for the header of a packet that leaves now, rounded up.
#[inline]
pub(super) fn deadline_field(deadline: Option<Instant>, now: Instant) -> u32 {
    let Some(at) = deadline else { return NO_DEADLINE };
    let earliest = now.since_start().saturating_sub(DEADLINE_REACH);
    let at = at.min(now.saturating_add(DEADLINE_REACH)).max(Instant::ZERO + earliest);
    (at.as_picos().div_ceil(DEADLINE_UNIT_PICOS) as u32).min(NO_DEADLINE - 1)
}

/// Bits of [`deadline_order`].
pub(super) const DEADLINE_ORDER_BITS: u32 = 41;

/// A number that is smaller for an earlier deadline: the deadline with this field that is nearest to
/// `now`, in units of 10 µs since 6 hours before the start of the clock. Clocks read at most
/// 2⁶⁴ ps, so that [`DEADLINE_ORDER_BITS`] bits hold it. Their largest number is no deadline.
#[inline]
pub(super) fn deadline_order(field: u32, now: Instant) -> u64 {
    if field == NO_DEADLINE {
        return (1 << DEADLINE_ORDER_BITS) - 1;
    }
    let now = now.as_picos() / DEADLINE_UNIT_PICOS;
    let ahead = field.wrapping_sub(now as u32) as i32;
    (now + (1 << 31)).wrapping_add_signed(ahead.into())
}

/// An expected time for the header, rounded up.
#[inline]
pub(super) fn expected_field(time: Duration) -> u32 {
    u32::try_from(time.as_picos().div_ceil(EXPECTED_UNIT_PICOS)).unwrap_or(u32::MAX)
}

/// An RTT for the header, rounded up so that only zero gives zero.
#[inline]
pub(super) fn rtt_field(rtt: Duration) -> u32 {
    u32::try_from(rtt.as_picos().div_ceil(1000)).unwrap_or(u32::MAX)
}

/// Nanoseconds modulo 2³².
#[inline]
pub(super) fn time_field(now: Instant) -> u32 {
    (now.as_picos() / 1000) as u32
}

/// Whether the first of two times, less than 2 s apart, is the earlier.
#[inline]
pub(super) fn earlier(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) > 0
}

/// T in nanoseconds, from its field.
#[inline]
pub(super) fn expected_nanos(expected: u32) -> u64 {
    u64::from(expected) * (EXPECTED_UNIT_PICOS / 1000)
}

/// T / RTT, from their fields.
#[inline]
pub(super) fn round_trips(expected: u32, rtt_nanos: u32) -> f64 {
    f64::from(expected) * 10.0 / f64::from(rtt_nanos.max(1))
}
