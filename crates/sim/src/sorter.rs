//! Sorts the events of a window: by time, class and tie, then by target.

use crate::windows::Upcoming;

/// Fewer events than this are sorted by comparisons.
const FEW: usize = 64;
/// Log2 of the most buckets by time.
const TIME_BITS_MAX: u32 = 12;
/// The number of buckets by class and tie: 2 bits of the class, 8 of the tie.
const KEYS: usize = 1 << 10;

/// A radix sort in two passes, and its memory: by class and tie, then by time.
///
/// Equal links and packet sizes make equal times frequent, so that many events differ in their tie
/// alone. After both passes an event is a few places from its own at most, as a rule.
#[derive(Debug, Default)]
pub(crate) struct Sorter {
    by_key: Vec<u32>,
    by_time: Vec<u32>,
    scattered: Vec<Upcoming>,
}

impl Sorter {
    /// Sorts the events of a window of `length` picoseconds into `sorted`, which is as long as
    /// `events`.
    pub(crate) fn sort(&mut self, events: &[Upcoming], sorted: &mut [Upcoming], length: u64) {
        if events.len() < FEW {
            sorted.copy_from_slice(events);
            sort_by_comparison(sorted);
            return;
        }
        let bits = (events.len().ilog2() + 1).min(TIME_BITS_MAX);
        let shift = (u64::BITS - length.leading_zeros()).saturating_sub(bits);
        let key_of = |event: &Upcoming| (event.order >> 22) as usize % KEYS;
        let time_of = |event: &Upcoming| (event.order >> 32 >> shift) as usize;
        let times = (length >> shift) as usize + 1;
        let Sorter { by_key, by_time, scattered } = self;
        clear(by_key, KEYS);
        clear(by_time, times);
        for event in events {
            by_key[key_of(event)] += 1;
            by_time[time_of(event)] += 1;
        }
        begin_of_each(by_key);
        begin_of_each(by_time);
        if scattered.len() < events.len() {
            scattered.resize(events.len(), Upcoming::NONE);
        }
        for event in events {
            put(by_key, key_of(event), scattered, *event);
        }
        for event in &scattered[..events.len()] {
            put(by_time, time_of(event), sorted, *event);
        }
        if !insert_each(sorted) {
            sort_by_comparison(sorted);
        }
    }
}

fn sort_by_comparison(events: &mut [Upcoming]) {
    events.sort_unstable_by_key(|event| (event.order, event.target));
}

fn clear(counts: &mut Vec<u32>, len: usize) {
    counts.clear();
    counts.resize(len, 0);
}

/// Turns the counts of buckets into the places where they begin.
fn begin_of_each(counts: &mut [u32]) {
    let mut begin = 0;
    for count in counts {
        begin += std::mem::replace(count, begin);
    }
}

/// Puts an event at the next place of its bucket.
#[inline(always)]
fn put(begins: &mut [u32], bucket: usize, to: &mut [Upcoming], event: Upcoming) {
    let place = begins[bucket];
    begins[bucket] += 1;
    to[place as usize] = event;
}

/// Sorts events that are near their places already. False if they turn out not to be.
#[inline(always)]
fn insert_each(events: &mut [Upcoming]) -> bool {
    let before =
        |a: &Upcoming, b: &Upcoming| a.order < b.order || a.order == b.order && a.target < b.target;
    let mut moves_left = 8 * events.len();
    for sorted in 1..events.len() {
        let event = events[sorted];
        if !before(&event, &events[sorted - 1]) {
            continue;
        }
        let mut place = sorted;
        while place > 0 && before(&event, &events[place - 1]) {
            events[place] = events[place - 1];
            place -= 1;
        }
        events[place] = event;
        moves_left = moves_left.saturating_sub(sorted - place);
        if moves_left == 0 {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Like a sort by comparison, with few and many times, dense and sparse.
        #[test]
        fn sorts(
            len in 0usize..2000,
            length in 1u64..1 << 32,
            distinct in 1u64..2000,
            keys in 1u64..1 << 32,
            seed: u64,
        ) {
            let mut stream = punctual_core::rng::Stream::from_seed(seed);
            let step = length.div_ceil(distinct);
            let events: Vec<Upcoming> = (0..len as u32)
                .map(|target| {
                    let time = (stream.below(distinct) * step).min(length - 1);
                    Upcoming { order: time << 32 | stream.below(keys), target }
                })
                .collect();
            let mut expected = events.clone();
            sort_by_comparison(&mut expected);
            let mut sorted = vec![Upcoming::NONE; len];
            Sorter::default().sort(&events, &mut sorted, length);
            prop_assert_eq!(sorted, expected);
        }
    }
}
