//! The content of flows: bytes that depend on the flow and their offset in it, so that a receiver
//! knows what it must have received.

use punctual_core::rng::mix;
use std::collections::BTreeMap;

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The content of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Content {
    key: u64,
}

impl Content {
    pub(crate) fn of(flow: u32) -> Content {
        Content { key: mix(u64::from(flow) + 1) }
    }

    /// Eight bytes of the content: those from `8 * word` on.
    #[inline]
    fn word(self, word: u64) -> [u8; 8] {
        let value = self.key.wrapping_add(word.wrapping_mul(STEP));
        (value ^ value >> 32).to_le_bytes()
    }

    /// Calls `each` with pieces of the content from `offset` on, and where they belong in a buffer
    /// of `len` bytes.
    #[inline]
    fn pieces(self, offset: u64, len: usize, mut each: impl FnMut(usize, &[u8]) -> bool) -> bool {
        let mut at = 0;
        while at < len {
            let place = offset + at as u64;
            let (word, skip) = (place / 8, (place % 8) as usize);
            let bytes = self.word(word);
            let count = (8 - skip).min(len - at);
            if !each(at, &bytes[skip..skip + count]) {
                return false;
            }
            at += count;
        }
        true
    }

    /// Writes the content from `offset` on.
    pub(crate) fn fill(self, offset: u64, into: &mut [u8]) {
        self.pieces(offset, into.len(), |at, bytes| {
            into[at..at + bytes.len()].copy_from_slice(bytes);
            true
        });
    }

    /// Whether `data` is the content from `offset` on.
    pub(crate) fn is_at(self, offset: u64, data: &[u8]) -> bool {
        self.pieces(offset, data.len(), |at, bytes| data[at..at + bytes.len()] == *bytes)
    }
}

/// The bytes of a flow that have been delivered: disjoint ranges, by their first byte.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    ranges: BTreeMap<u64, u64>,
}

impl Delivered {
    /// Adds a range. Returns whether all of it is new.
    pub(crate) fn add(&mut self, offset: u64, len: u64) -> bool {
        let (mut start, mut end) = (offset, offset + len);
        if let Some((&first, &last)) = self.ranges.range(..=start).next_back() {
            if last > start {
                return false;
            }
            if last == start {
                self.ranges.remove(&first);
                start = first;
            }
        }
        if let Some((&next, &last)) = self.ranges.range(offset..).next() {
            if next < end {
                return false;
            }
            if next == end {
                self.ranges.remove(&next);
                end = last;
            }
        }
        self.ranges.insert(start, end);
        true
    }

    /// Whether exactly the bytes below `size` have been delivered.
    pub(crate) fn is_all(&self, size: u64) -> bool {
        self.ranges.len() == 1 && self.ranges.first_key_value() == Some((&0, &size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content__depends_on_flow_and_offset_alone() {
        let (a, b) = (Content::of(1), Content::of(2));
        let mut whole = vec![0; 100];
        a.fill(0, &mut whole);
        for (offset, len) in [(0, 100), (3, 50), (8, 8), (99, 1), (17, 0)] {
            let mut part = vec![0; len];
            a.fill(offset as u64, &mut part);
            assert_eq!(part, whole[offset..offset + len]);
            assert!(a.is_at(offset as u64, &part));
        }
        assert!(!b.is_at(0, &whole) && !a.is_at(1, &whole));
        whole[57] ^= 1;
        assert!(!a.is_at(0, &whole));
    }

    #[test]
    fn delivered__each_byte_once() {
        let mut delivered = Delivered::default();
        assert!(delivered.add(10, 10) && delivered.add(30, 5) && delivered.add(0, 10));
        assert!(!delivered.add(19, 2) && !delivered.add(25, 6) && !delivered.add(0, 1));
        assert!(!delivered.is_all(35));
        assert!(delivered.add(20, 10));
        assert!(delivered.is_all(35) && !delivered.is_all(36));
    }
}
