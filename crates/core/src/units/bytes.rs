//! Sizes in bytes.

use super::parse::{Kind, text_with_unit};
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

const KIND: Kind = Kind {
    what: "a size",
    base: "bytes",
    example: "64KB",
    unit_names: "B, KB, MB, GB, KiB, MiB, GiB",
    units: &[
        ("B", 1),
        ("KB", 1_000),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
};

text_with_unit!(Bytes, KIND, &[("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000), ("B", 1)]);

impl Bytes {
    /// Zero.
    pub const ZERO: Bytes = Bytes(0);
    /// More than any flow sends: the size of a flow that never ends.
    pub const ENDLESS: Bytes = Bytes(u64::MAX);

    /// From a count.
    #[inline]
    pub const fn new(bytes: u64) -> Self {
        Bytes(bytes)
    }
    /// The count.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The difference, or zero when `other` is larger.
    #[inline]
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
    /// The number of pieces of at most `piece` bytes, rounded up.
    #[inline]
    pub const fn div_ceil(self, piece: Bytes) -> u64 {
        self.0.div_ceil(piece.0)
    }
}

impl Add for Bytes {
    type Output = Bytes;
    #[inline]
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}
impl AddAssign for Bytes {
    #[inline]
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}
impl Sub for Bytes {
    type Output = Bytes;
    #[inline]
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}
impl SubAssign for Bytes {
    #[inline]
    fn sub_assign(&mut self, other: Bytes) {
        self.0 -= other.0;
    }
}
impl core::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Bytes {
        iter.fold(Bytes::ZERO, Add::add)
    }
}
