//! Events come out in order, from the calendar and in windows, and ties are fair.

use super::*;
use proptest::prelude::*;

proptest! {
    /// In windows of any length, events come out as from the calendar, however far ahead they are
    /// pushed, and as many as are pushed into the open window.
    #[test]
    fn windows_and_the_calendar_agree(
        length in 1u64..1 << 33,
        ops in prop::collection::vec((0u8..4, 0u32..50, 0u32..40), 1..2000),
    ) {
        let mut plain = EventQueue::new(9, None);
        let mut windowed = EventQueue::new(9, Some(Duration::from_picos(length)));
        let pop = |plain: &mut EventQueue, windowed: &mut EventQueue| {
            let expected = plain.pop();
            let mut event = windowed.pop();
            while event.is_none() && windowed.open_window() {
                event = windowed.pop();
            }
            prop_assert_eq!(event, expected);
            Ok(event)
        };
        let mut now = 0u64;
        for (op, source, scale) in ops {
            if op == 0 {
                now = pop(&mut plain, &mut windowed)?.map_or(now, |event| event.time);
                continue;
            }
            let at = now + (1u64 << scale).wrapping_mul(u64::from(source)) / 7;
            let class = if op == 1 { EventClass::Timer } else { EventClass::Arrival };
            for queue in [&mut plain, &mut windowed] {
                queue.push(Instant::from_picos(at), class, source, source);
            }
        }
        while pop(&mut plain, &mut windowed)?.is_some() {}
    }
}

/// A port is served at the end of the window in which it is free, and not before.
#[test]
fn ports_are_served_at_the_end_of_their_window() {
    let us = |n: u64| Instant::from_picos(n * 1_000_000);
    let mut queue = EventQueue::new(1, Some(Duration::from_micros(1)));
    // One within reach, one beyond the windows that are kept.
    for (port, free_at) in [(0, us(3)), (1, us(100))] {
        assert!(queue.serve_after(PortId(port), free_at));
    }
    let mut served = Vec::new();
    while queue.open_window() {
        assert_eq!(queue.pop(), None);
        let ends_at = queue.windows().expect("windows").ends_at();
        let ports = queue.take_served();
        for &port in &ports {
            let free_at = if port == PortId(0) { us(3) } else { us(100) };
            if free_at < ends_at {
                served.push((port, ends_at.as_picos().div_ceil(1_000_000)));
            } else {
                queue.serve_after(port, free_at);
            }
        }
        queue.put_served(ports);
    }
    assert_eq!(served, [(PortId(0), 4), (PortId(1), 101)]);
    assert!(!EventQueue::new(1, None).serve_after(PortId(0), us(3)), "no windows");
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

proptest! {
    /// Sources that differ never tie, so that the numbers of packets and timers decide nothing.
    #[test]
    fn sources_never_tie(seed: u64, time: u64, first in 0u32..1 << 30, stride in 1u32..1 << 20) {
        let sources = (0..2_000).map(|n| (first + n * stride) % (1 << 30));
        let mut ties: Vec<u32> = sources.map(|source| tie(seed, time, source)).collect();
        prop_assert!(ties.iter().all(|tie| *tie < 1 << 30));
        ties.sort_unstable();
        ties.dedup();
        prop_assert_eq!(ties.len(), 2_000);
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
    let mut queue = EventQueue::new(seed, None);
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
