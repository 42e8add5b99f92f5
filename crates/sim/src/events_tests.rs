//! The event queue against a sorted list.

use super::*;
use proptest::prelude::*;

proptest! {
    /// Against a sorted list, with pushes between pops, over all scales of time.
    #[test]
    fn comes_out_in_order(
        ops in prop::collection::vec((0u8..4, 0u32..50, 0u32..45), 1..2000),
    ) {
        let mut queue = EventQueue::new(9);
        if ops.len() % 2 == 0 {
            queue.keep_in_sight();
        }
        // So that the width changes, both ways, many times.
        queue.retune_after = 1 + ops.len() as u32 % 7;
        let mut model: Vec<Event> = Vec::new();
        let mut now = 0u64;
        for (op, source, scale) in ops {
            if op > 0 {
                let at = now + (1u64 << scale).wrapping_mul(u64::from(source)) / 7;
                queue.push(Instant::from_picos(at), EventClass::Timer, source, source);
                let mut other = EventQueue::new(9);
                other.push(Instant::from_picos(at), EventClass::Timer, source, source);
                model.push(other.pop().unwrap());
                model.sort_by_key(Event::order);
            } else {
                let event = queue.pop();
                let expected = (!model.is_empty()).then(|| model.remove(0));
                prop_assert_eq!(event, expected);
                now = event.map_or(now, |e| e.time);
            }
        }
        while let Some(event) = queue.pop() {
            prop_assert_eq!(event, model.remove(0));
        }
        prop_assert!(model.is_empty());
    }
}

/// A network sorts everything when it sorts all zeros and ones.
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
    let mut queue = EventQueue::new(1);
    for n in 0..200u32 {
        queue.push(Instant::from_picos(u64::from(n)), EventClass::Timer, n, n);
    }
    let (mut last, mut count) = (Instant::ZERO, 0u64);
    while let Some(event) = queue.pop() {
        assert!(event.at() >= last);
        last = event.at();
        count += 1;
        if count < 2_000_000 {
            // Dense at first, then sparse: both ways of retuning are taken.
            let step = if count < 1_000_000 { 3_000 } else { 900_000_000 };
            let at = Instant::from_picos(last.as_picos() + step + u64::from(event.target()));
            queue.push(at, EventClass::Timer, event.target(), event.target());
        }
    }
    assert_eq!(count, 2_000_000 + 199);
}
