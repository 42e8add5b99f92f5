//! A switch that is late, and arrivals that are.

use crate::common::*;
use punctual_core::{Class, Duration, HostId};

/// A permutation at 95 % of the line rate through 8-packet queues.
fn offer_permutation(
    switch: &mut punctual_switch::Switch<punctual_switch::MemoryIo>,
    packets: u64,
) {
    // 1,538 bytes at 100 Mb/s take 123.04 us; 95 % load is a packet every 129.5 us.
    for h in 0..8u8 {
        for n in 0..packets {
            let at = at_us(10) + Duration::from_nanos(129_516) * n + Duration::from_nanos(h.into());
            let frame = plain(&outer(h, (h + 4) % 8, Class::DATA, 0), 1500);
            switch.io().arrive(HostId(h.into()), at, frame);
        }
    }
}

#[test]
fn late_switch__delays_but_drops_nothing() {
    let mut switch = star(8, DROP_TAIL_8, "");
    offer_permutation(&mut switch, 500);
    // The thread stalls for 2 ms of every 5 ms: many more than 8 packets wait in the rings.
    let mut us = 0;
    while us < 70_000 {
        us += if us % 5_000 == 0 { 2_000 } else { 10 };
        switch.io().clock = at_us(us);
        switch.turn();
    }
    let report = switch.report();
    assert_eq!(report.delivered, 8 * 500);
    assert!(report.ports.iter().all(|port| port.counters.drops == 0));
    // A ring passes on four frames at once: the clock waits for the others.
    assert!(report.hosts.iter().all(|host| host.counters.arrived_late == 0));
    // A stall of 2 ms is 16 packet times; the bound is 10.
    assert!(!report.valid && report.late_departures > 0, "{:?}", report.problems);
    assert!(report.problems[0].contains("packet times late"), "{:?}", report.problems);
    assert!(report.table().contains("timing: INVALID"));
}

#[test]
fn prompt_switch__is_valid() {
    let mut switch = star(8, DROP_TAIL_8, "");
    offer_permutation(&mut switch, 100);
    run_until(&mut switch, 20_000);
    let report = switch.report();
    assert!(report.valid, "{:?}", report.problems);
    assert_eq!((report.delivered, report.late_departures), (800, 0));
    assert!(report.lateness_worst_us <= 1.0, "{}", report.lateness_worst_us);
    let json = report.json();
    assert!(json.contains("\"valid\":true") && json.contains("\"delivered\":800"), "{json}");
    assert!(report.prometheus().contains("punctual_switch_valid 1\n"));
}

/// Bounds and counts of the buckets in Prometheus's format, and the lines of sum and count.
fn prometheus_histogram(text: &str) -> (Vec<(f64, u64)>, f64, u64) {
    let name = "punctual_switch_lateness_seconds";
    let value = |suffix: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}_{suffix} ")));
        line.and_then(|value| value.parse::<f64>().ok()).expect(suffix)
    };
    let bucket = |line: &str| {
        let (le, count) =
            line.strip_prefix(&format!("{name}_bucket{{le=\""))?.split_once("\"} ")?;
        let le = if le == "+Inf" { f64::INFINITY } else { le.parse().expect("a bound") };
        Some((le, count.parse().expect("a count")))
    };
    (text.lines().filter_map(bucket).collect(), value("sum"), value("count") as u64)
}

/// The histogram for Prometheus has the same buckets in every scrape, counts that do not fall, and a
/// sum.
#[test]
fn prometheus__has_a_whole_histogram() {
    let mut switch = star(8, DROP_TAIL_8, "");
    let (none, sum, count) = prometheus_histogram(&switch.report().prometheus());
    assert!(none.iter().all(|(_, count)| *count == 0) && (sum, count) == (0.0, 0));
    offer_permutation(&mut switch, 500);
    let mut us = 0;
    while us < 70_000 {
        us += if us % 5_000 == 0 { 2_000 } else { 10 };
        switch.io().clock = at_us(us);
        switch.turn();
    }
    let (buckets, sum, count) = prometheus_histogram(&switch.report().prometheus());
    let bounds = |buckets: &[(f64, u64)]| buckets.iter().map(|(le, _)| *le).collect::<Vec<_>>();
    assert_eq!(bounds(&buckets), bounds(&none));
    assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{buckets:?}");
    assert_eq!(buckets.last(), Some(&(f64::INFINITY, 8 * 500)));
    assert_eq!(count, 8 * 500);
    // No departure is later than a stall of 2 ms, and those during one are later than nothing.
    assert!(sum > 0.0 && sum < 0.002 * count as f64, "{sum}");
}

#[test]
fn late_arrival__is_clamped_and_counted() {
    let mut switch = star(2, DROP_TAIL_8, "");
    let frame = || plain(&outer(0, 1, Class::DATA, 0), 1500);
    switch.io().arrive(HostId(0), at_us(100), frame());
    switch.io().clock = at_us(300);
    switch.turn();
    // The clock has passed 223 us, when the first packet crossed the switch.
    switch.io().arrive(HostId(0), at_us(150), frame());
    let departed = run_until(&mut switch, 1000);
    assert_eq!(departed.len(), 2);
    assert_eq!(switch.fabric().host_counters(HostId(0)).arrived_late, 1);
    let report = switch.report();
    assert!(!report.valid && report.problems[0].contains("behind the virtual clock"));
}
