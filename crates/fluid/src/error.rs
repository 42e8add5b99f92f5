//! What cannot be scheduled.

use crate::FluidFlow;
use punctual_core::{Bytes, Rate};

/// The fastest link, so that no product overflows: 17.6 Tb/s.
const RATE_MAX: Rate = Rate::from_bps(1 << 44);
/// The largest flow: a pebibyte.
const SIZE_MAX: Bytes = Bytes::new(1 << 50);

/// Why flows cannot be scheduled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FluidError {
    /// A flow that crosses nothing.
    #[error("flow {0} has an empty path: name at least one link")]
    EmptyPath(u64),
    /// A link that is not there.
    #[error("flow {flow} crosses link {link}, but there are only {links}: count from 0")]
    NoSuchLink {
        /// The flow.
        flow: u64,
        /// What it names.
        link: usize,
        /// How many there are.
        links: usize,
    },
    /// A link twice in a path.
    #[error("flow {0} crosses link {1} twice: name each link once")]
    LinkTwice(u64, usize),
    /// A link on which nothing moves.
    #[error("link {0} has no capacity: leave it out or give it a rate")]
    NoCapacity(usize),
    /// More than the arithmetic holds.
    #[error("link {0} is faster than 17.5Tbps: scale all rates and sizes down")]
    TooFast(usize),
    /// More than the arithmetic holds.
    #[error("flow {0} is larger than 1 PiB: scale all sizes down, or make it endless")]
    TooLarge(u64),
}

/// Refuses what cannot be scheduled.
pub fn check(flows: &[FluidFlow], capacities: &[Rate]) -> Result<(), FluidError> {
    for (link, rate) in capacities.iter().enumerate() {
        if *rate == Rate::ZERO {
            return Err(FluidError::NoCapacity(link));
        }
        if *rate > RATE_MAX {
            return Err(FluidError::TooFast(link));
        }
    }
    for flow in flows {
        if flow.path.is_empty() {
            return Err(FluidError::EmptyPath(flow.id));
        }
        for (hop, link) in flow.path.iter().enumerate() {
            if *link >= capacities.len() {
                let links = capacities.len();
                return Err(FluidError::NoSuchLink { flow: flow.id, link: *link, links });
            }
            if flow.path[..hop].contains(link) {
                return Err(FluidError::LinkTwice(flow.id, *link));
            }
        }
        if flow.size > SIZE_MAX && flow.size != Bytes::ENDLESS {
            return Err(FluidError::TooLarge(flow.id));
        }
    }
    Ok(())
}
