//! The event queue compared with a sorted list.

use super::*;
use proptest::prelude::*;

proptest! {
    /// Events come out as from a sorted list, with pushes between pops, over all scales of time.
    #[test]
    fn comes_out_in_order(
        ops in prop::collection::vec((0u8..4, 0u32..50, 0u32..45), 1..2000),
    ) {
        let mut queue = EventQueue::new(9);
        if ops.len() % 2 == 0 {
            queue.keep_in_sight();
        }
        // The width changes many times, in both directions.
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
            // Dense at first, then sparse: buckets become narrower, then wider.
            let step = if count < 1_000_000 { 3_000 } else { 900_000_000 };
            let at = Instant::from_picos(last.as_picos() + step + u64::from(event.target()));
            queue.push(at, EventClass::Timer, event.target(), event.target());
        }
    }
    assert_eq!(count, 2_000_000 + 199);
}

/// Sources whose packets collide again and again, at multiples of one transmission time, each win
/// their share of ties. The bound is five standard deviations of a fair draw's binomial count.
#[test]
fn symmetric_sources_win_ties_equally_often() {
    const ROUNDS: u64 = 10_000;
    // 1538 B, 1500 B, 102 B and 64 B at 1, 10, 40 and 100 Gb/s, and powers of two.
    let bytes_times =
        [1_538u64, 1_500, 102, 64].map(|bytes| [8_000, 800, 200, 80].map(|p| bytes * p));
    let spacings = bytes_times.as_flattened().iter().copied().chain([1 << 20, 1 << 23, 3_000_001]);
    for spacing in spacings {
        for (sources, stride, first) in [(2, 1, 0), (2, 2, 5), (3, 1, 1), (8, 4, 0), (16, 1, 3)] {
            for seed in [1, 2, 1000] {
                let wins = tie_wins(seed, spacing, ROUNDS, sources, |n| first + stride * n);
                let share = 1.0 / f64::from(sources);
                let fair = ROUNDS as f64 * share;
                let deviation = (fair * (1.0 - share)).sqrt();
                for (source, won) in wins.iter().enumerate() {
                    assert!(
                        (*won as f64 - fair).abs() <= 5.0 * deviation,
                        "source {source} of {sources} wins {won} of {ROUNDS} ties every \
                         {spacing} ps with seed {seed}: {fair:.0} are fair",
                    );
                }
            }
        }
    }
}

/// How often each of `sources` comes out first, when all have an event at every multiple of
/// `spacing`.
fn tie_wins(
    seed: u64,
    spacing: u64,
    rounds: u64,
    sources: u32,
    source: impl Fn(u32) -> u32,
) -> Vec<u64> {
    let mut wins = vec![0; sources as usize];
    let mut queue = EventQueue::new(seed);
    for round in 1..=rounds {
        let at = Instant::from_picos(round * spacing);
        for n in 0..sources {
            queue.push(at, EventClass::Arrival, source(n), n);
        }
        wins[queue.pop().expect("events were pushed").target() as usize] += 1;
        while queue.pop().is_some() {}
    }
    wins
}
