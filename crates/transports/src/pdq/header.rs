//! What PDQ writes into packets: one header of 32 bytes, the same fields both ways.
//!
//! The scheduling header's fields are four bytes each, as in the paper, in units that keep them
//! exact enough: rates in kb/s, round trips in nanoseconds, expected times in units of 10 ns,
//! deadlines in units of 10 µs. What does not fit saturates.

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
/// What one round-trip time is in units of I.
pub const PROBE_UNIT: u32 = 1000;

const DEADLINE_UNIT_PICOS: u64 = 10_000_000;
const EXPECTED_UNIT_PICOS: u64 = 10_000;

/// The header of every packet.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct PdqHeader {
    /// Number of the segment carried, or of the next new one if none is; an answer repeats it.
    pub seq: u32,
    /// When the packet left its sender, in nanoseconds modulo 2³²; an answer repeats it.
    pub time: u32,
    /// R_H: to the receiver, the rate asked for and then what ports leave of it; to the sender,
    /// the rate granted. In kb/s.
    pub rate: u32,
    /// P_H: the port that pauses the flow, or [`NOBODY`].
    pub pauser: u32,
    /// D_H to the receiver: the deadline, in units of 10 µs, or [`NO_DEADLINE`]. To the sender
    /// the field is I_H, the time between probes, in thousandths of a round trip.
    pub deadline: u32,
    /// T_H to the receiver: how long the rest takes at the highest rate, in units of 10 ns. To
    /// the sender: how many segments from the first on have arrived.
    pub expected: u32,
    /// RTT_H, in nanoseconds; 0 while there is none. An answer repeats it.
    pub rtt: u32,
    /// The path that the flow's packets take; answers come back the same way.
    pub path: u16,
    /// What the packet is: the constants below.
    pub flags: u8,
    /// How much waiting has raised the flow's criticality: T counts as `T / 2^(age / 8)`.
    pub age: u8,
}

impl PdqHeader {
    /// The flow's first packet.
    pub const SYN: u8 = 1;
    /// The flow leaves the ports on its path.
    pub const TERM: u8 = 1 << 1;
    /// The packet ends where the flow ends.
    pub const END: u8 = 1 << 2;
    /// It answers a packet.
    pub const ACK: u8 = 1 << 3;
    /// It carries data, or the packet it answers did.
    pub const DATA: u8 = 1 << 4;
    /// Its data were sent before and are taken for lost.
    pub const AGAIN: u8 = 1 << 5;

    /// Whether all these flags are set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
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

/// A deadline for the header, rounded up.
pub(super) fn deadline_field(deadline: Option<Instant>) -> u32 {
    match deadline {
        None => NO_DEADLINE,
        Some(at) => {
            let units = at.as_picos().div_ceil(DEADLINE_UNIT_PICOS);
            u32::try_from(units).unwrap_or(u32::MAX).min(NO_DEADLINE - 1)
        }
    }
}

/// An expected time for the header, rounded up.
#[inline]
pub(super) fn expected_field(time: Duration) -> u32 {
    u32::try_from(time.as_picos().div_ceil(EXPECTED_UNIT_PICOS)).unwrap_or(u32::MAX)
}

/// A round-trip time for the header, rounded up so that none but zero is zero.
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

/// T over RTT, from their fields; the round trip in nanoseconds.
#[inline]
pub(super) fn round_trips(expected: u32, rtt_nanos: u32) -> f64 {
    f64::from(expected) * 10.0 / f64::from(rtt_nanos.max(1))
}
