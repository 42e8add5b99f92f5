//! Which bytes or packets have arrived: a bit ring for numbered packets, ranges for byte streams.

use std::collections::VecDeque;

/// A set of packet numbers that fills up from 0: every number below [`BitRing::base`] is in it.
///
/// Memory is proportional to the distance between the base and the highest number.
#[derive(Clone, Debug, Default)]
pub struct BitRing {
    /// First number of the first word; a multiple of 64.
    origin: u64,
    words: VecDeque<u64>,
}

impl BitRing {
    /// Adds a number; false when it was there already.
    #[inline]
    pub fn insert(&mut self, n: u64) -> bool {
        let Some(distance) = n.checked_sub(self.origin) else {
            return false;
        };
        let (word, bit) = ((distance / 64) as usize, 1u64 << (distance % 64));
        while word >= self.words.len() {
            self.words.push_back(0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        while self.words.front() == Some(&u64::MAX) {
            self.words.pop_front();
            self.origin += 64;
        }
        new
    }

    /// Whether a number is in the set.
    #[inline]
    pub fn contains(&self, n: u64) -> bool {
        match n.checked_sub(self.origin) {
            None => true,
            Some(distance) => self
                .words
                .get((distance / 64) as usize)
                .is_some_and(|word| word >> (distance % 64) & 1 == 1),
        }
    }

    /// Prefetches what adding the next numbers touches.
    #[inline]
    pub fn prefetch(&self) {
        if let Some(word) = self.words.front() {
            crate::prefetch(word);
        }
    }

    /// The lowest number that is not in the set.
    #[inline]
    pub fn base(&self) -> u64 {
        self.origin + self.words.front().map_or(0, |w| u64::from(w.trailing_ones()))
    }
}

/// A set of bytes as sorted, disjoint, non-touching ranges `[start, end)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    ranges: Vec<(u64, u64)>,
}

impl RangeSet {
    /// Adds `[start, end)` and calls `fresh` with each part that was not there yet.
    pub fn insert(&mut self, start: u64, end: u64, mut fresh: impl FnMut(u64, u64)) {
        if start >= end {
            return;
        }
        // The common case: in order.
        if let Some(last) = self.ranges.last_mut()
            && last.1 == start
        {
            last.1 = end;
            fresh(start, end);
            return;
        }
        let first = self.ranges.partition_point(|r| r.1 < start);
        let (mut low, mut high, mut cursor) = (start, end, start);
        let mut last = first;
        while let Some(&(s, e)) = self.ranges.get(last) {
            if s > end {
                break;
            }
            if cursor < s {
                fresh(cursor, s.min(end));
            }
            cursor = cursor.max(e);
            low = low.min(s);
            high = high.max(e);
            last += 1;
        }
        if cursor < end {
            fresh(cursor, end);
        }
        self.ranges.splice(first..last, [(low, high)]);
    }

    /// Forgets everything below `end`.
    pub fn remove_below(&mut self, end: u64) {
        self.ranges.retain_mut(|r| {
            r.0 = r.0.max(end);
            r.0 < r.1
        });
    }

    /// The end of the range that starts at 0, or 0: how far the bytes are complete.
    pub fn prefix_end(&self) -> u64 {
        self.ranges.first().filter(|r| r.0 == 0).map_or(0, |r| r.1)
    }

    /// The ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().copied()
    }

    /// Bytes in the set.
    pub fn total(&self) -> u64 {
        self.ranges.iter().map(|r| r.1 - r.0).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn bit_ring_is_a_set(numbers in prop::collection::vec(0u64..400, 0..600)) {
            let (mut ring, mut model) = (BitRing::default(), BTreeSet::new());
            for n in numbers {
                prop_assert_eq!(ring.insert(n), model.insert(n));
                let base = (0..).find(|n| !model.contains(n)).unwrap();
                prop_assert_eq!(ring.base(), base);
                prop_assert!((0..450).all(|n| ring.contains(n) == model.contains(&n)));
            }
        }

        #[test]
        fn range_set_is_a_set(ranges in prop::collection::vec((0u64..60, 0u64..20), 0..40)) {
            let (mut set, mut model) = (RangeSet::default(), BTreeSet::new());
            for (start, len) in ranges {
                let mut fresh = Vec::new();
                set.insert(start, start + len, |s, e| fresh.extend(s..e));
                let expected: Vec<u64> =
                    (start..start + len).filter(|n| model.insert(*n)).collect();
                prop_assert_eq!(fresh, expected);
                prop_assert_eq!(set.iter().flat_map(|(s, e)| s..e).collect::<BTreeSet<_>>(), model.clone());
                prop_assert!(set.iter().zip(set.iter().skip(1)).all(|(a, b)| a.1 < b.0));
            }
        }
    }
}
