//! Decides whether a run is shared out to several threads.

use crate::pace::PaceRule;
use crate::pause_cycles::PauseCycles;
use crate::setup::Setup;
use punctual_core::{Bytes, Duration, QueueSpec, TransportSet};
use std::cell::Cell;

/// How to share a run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharingPlan {
    /// The length of a window.
    pub(crate) window: Duration,
    pub(crate) threads: usize,
    /// When one thread goes on alone.
    pub(crate) rule: PaceRule,
}

/// How the last run on a thread was shared out, for tests and benchmarks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharingReport {
    /// The number of threads.
    pub threads: usize,
    /// The number of windows that had work; 0 on one thread.
    pub windows: u64,
    /// Those of them that one thread handled, because the run might have ended in them.
    pub windows_alone: u64,
    /// Those of them that one thread handled, because several did not pay.
    pub windows_on_one: u64,
}

thread_local! {
    static LAST: Cell<SharingReport> = const {
        Cell::new(SharingReport { threads: 0, ..SharingReport::ONE })
    };
}

impl SharingReport {
    /// A run on one thread.
    pub(crate) const ONE: SharingReport =
        SharingReport { threads: 1, windows: 0, windows_alone: 0, windows_on_one: 0 };

    /// Keeps this report as that of the last run of this thread.
    pub(crate) fn note(self) {
        LAST.set(self);
    }

    /// The report of the last run that this thread has called.
    pub fn last() -> SharingReport {
        LAST.get()
    }
}

/// A thread is used where it has as many events in a window: some 20 µs of work. The threads meet
/// in less than a microsecond if all have a processor each, but in tens where one is late.
const EVENTS_PER_WINDOW_MIN: f64 = 256.0;

/// How to share a run out to the threads that it may use. `None`: it is for one thread.
///
/// The number of threads never exceeds that of hosts.
pub(crate) fn plan<S: TransportSet>(setup: &Setup<S>) -> Option<SharingPlan> {
    let most = setup.engine.threads.min(setup.network.hosts as usize);
    if most < 2 || setup.engine.windows == Some(false) {
        return None;
    }
    let window = setup.network.links.iter().map(|link| link.delay).min()?;
    if window == Duration::ZERO || !can_be_shared(setup, window) {
        return None;
    }
    if setup.engine.windows == Some(true) {
        return Some(SharingPlan { window, threads: most, rule: PaceRule::Fixed });
    }
    let paying = (events_per_window(setup, window) / EVENTS_PER_WINDOW_MIN) as usize;
    let threads = most.min(paying);
    (threads > 1).then_some(SharingPlan { window, threads, rule: PaceRule::Measured })
}

/// Whether every effect of a run that crosses the network at once is one that `shard.rs` handles.
fn can_be_shared<S: TransportSet>(setup: &Setup<S>, window: Duration) -> bool {
    let workload = &setup.workload;
    // The next flow of a closed loop must not start in the window in which the last one ends.
    let has_fast_loops = workload.shortest_gap().is_some_and(|gap| gap < window);
    // Pause cycles are found by following the pauses of all ports. A tree has none.
    let is_lossless = matches!(setup.switch_queue, QueueSpec::Lossless { .. });
    let may_deadlock = is_lossless && PauseCycles::new(&setup.network).is_some();
    // These observers see events in the order of the whole network.
    let is_observed = setup.check || setup.capture_max > 0;
    !(has_fast_loops || may_deadlock || is_observed)
}

/// About how many events a window has: a packet hop is an event, and each packet is answered.
///
/// All packets of the run, sent at a constant rate from the first to the last. Hosts send and
/// receive no faster than their links.
fn events_per_window<S: TransportSet>(setup: &Setup<S>, window: Duration) -> f64 {
    let network = &setup.network;
    let rate = |host: usize| {
        let nic = network.nic(punctual_core::HostId::from(host));
        network.link(nic).rate.as_bps() as f64 / 8.0
    };
    let mut sent = vec![0f64; network.hosts as usize];
    let mut received = sent.clone();
    let mut last_start = 0f64;
    let end = setup.stop.at.as_secs_f64();
    for flow in &setup.workload.flows {
        let is_endless = flow.size == Bytes::ENDLESS;
        let size = if is_endless { f64::INFINITY } else { flow.size.get() as f64 };
        let closed_loop = setup.workload.closed_loops.get(usize::from(flow.pattern));
        let bytes = match closed_loop {
            // As many as fit into the run.
            Some(Some(closed_loop)) => {
                let each = size / rate(flow.src.index()) + closed_loop.shortest_gap().as_secs_f64();
                last_start = end;
                size * end / each
            }
            _ => size,
        };
        sent[flow.src.index()] += bytes;
        received[flow.dst.index()] += bytes;
        last_start = last_start.max(flow.start.as_secs_f64());
    }
    // As long as the busiest host needs, or flows keep starting.
    let needed = sent.iter().zip(&received).enumerate();
    let needed = needed.map(|(host, (sent, received))| sent.max(*received) / rate(host));
    let time = needed.fold(last_start, f64::max).min(end);
    if time <= 0.0 {
        return 0.0;
    }
    let fitting = |bytes: &[f64]| -> f64 {
        bytes.iter().enumerate().map(|(host, bytes)| bytes.min(rate(host) * time)).sum()
    };
    let packets = fitting(&sent).min(fitting(&received)) / network.mtu.get().max(1) as f64;
    let windows = (time / window.as_secs_f64()).max(1.0);
    packets * 2.0 * HOPS / windows
}

/// Ports that a packet passes, as a rule.
const HOPS: f64 = 4.0;
