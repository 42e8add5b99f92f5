//! Private parts for benchmarks. This interface is not stable.

pub use crate::sharing::SharingReport;

use crate::events::{EventClass, EventQueue};
use punctual_core::Instant;

/// Fills an event queue with `pending` events, then takes the first out and puts one in, gap
/// after gap, `rounds` times. Returns a value that depends on the order of all events.
pub fn hold_events(pending: u32, rounds: u64, gaps_picos: &[u64]) -> u64 {
    let mut queue = EventQueue::new(1, None);
    let mut gaps = gaps_picos.iter().cycle();
    let mut gap = || *gaps.next().expect("at least one gap");
    for target in 0..pending {
        queue.push(Instant::from_picos(gap()), EventClass::Arrival, target, target);
    }
    let mut digest = 0u64;
    for _ in 0..rounds {
        let event = queue.pop().expect("as many events as at the start");
        let target = event.target();
        digest = digest.rotate_left(5) ^ u64::from(target);
        let at = Instant::from_picos(event.at().as_picos() + gap());
        queue.push(at, EventClass::Arrival, target, target);
    }
    digest
}
