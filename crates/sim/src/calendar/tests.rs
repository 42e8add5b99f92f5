//! The calendar compared with a sorted list.

use super::*;
use proptest::prelude::*;

fn event(time: u64, key: u64) -> Event {
    Event { time, key }
}

proptest! {
    /// Events come out as from a sorted list, with insertions between, over all scales of time.
    #[test]
    fn comes_out_in_order(
        ops in prop::collection::vec((0u8..5, 0u64..50, 0u32..45), 1..2000),
    ) {
        // The width changes many times, in both directions.
        let retune_after = 1 + ops.len() as u32 % 7;
        let mut calendar = Calendar { retune_after, ..Calendar::default() };
        let mut model: Vec<Event> = Vec::new();
        let mut now = 0u64;
        for (n, (op, key, scale)) in ops.into_iter().enumerate() {
            let later = now + (1u64 << scale).wrapping_mul(key) / 7;
            match op {
                0 => {
                    let expected = (!model.is_empty()).then(|| model.remove(0));
                    prop_assert_eq!(calendar.pop(), expected);
                    now = expected.map_or(now, |e| e.time);
                }
                1 => {
                    let is_before = model.first().is_some_and(|e| e.time < later);
                    let expected = is_before.then(|| model.remove(0));
                    prop_assert_eq!(calendar.pop_before(Instant::from_picos(later)), expected);
                    now = expected.map_or(now, |e| e.time);
                }
                _ => {
                    // Keys are distinct, as those of the simulator's events are.
                    let added = event(later, key << 32 | n as u64);
                    calendar.insert(added);
                    model.push(added);
                    model.sort_by_key(Event::order);
                }
            }
            let bound = calendar.no_event_before();
            prop_assert_eq!(bound.is_none(), model.is_empty());
            prop_assert!(model.first().is_none_or(|e| bound <= Some(e.time)));
        }
        for expected in model {
            prop_assert_eq!(calendar.pop(), Some(expected));
        }
        prop_assert_eq!(calendar.pop(), None);
    }
}

/// The 0-1 principle: a sorting network that sorts all zeros and ones sorts everything.
#[test]
fn a_few_keys_come_in_order() {
    for len in 0..=FEW {
        for bits in 0..1u64 << len {
            let key = |n| if n < len { bits >> n & 1 } else { u64::MAX };
            let mut keys = std::array::from_fn(key);
            sort_few(&mut keys, len);
            assert!(keys.is_sorted(), "{len} {bits:b}");
        }
    }
}

#[test]
fn retuning_keeps_the_order() {
    let mut calendar = Calendar::default();
    for n in 0..200 {
        calendar.insert(event(n, n));
    }
    let (mut last, mut count) = (0, 0u64);
    while let Some(next) = calendar.pop() {
        assert!(next.time >= last);
        last = next.time;
        count += 1;
        if count < 2_000_000 {
            // Dense at first, then sparse: buckets become narrower, then wider.
            let step = if count < 1_000_000 { 3_000 } else { 900_000_000 };
            calendar.insert(event(last + step + next.key, next.key));
        }
    }
    assert_eq!(count, 2_000_000 + 199);
}
