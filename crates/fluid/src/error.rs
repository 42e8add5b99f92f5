//! Errors in the flows and links to schedule.

use crate::FluidFlow;
use punctual_core::{Bytes, Rate};

/// The fastest link, 17.6 Tb/s, so that no product overflows.
const RATE_MAX: Rate = Rate::from_bps(1 << 44);
/// The largest flow, 1 PiB, so that no product overflows.
const SIZE_MAX: Bytes = Bytes::new(1 << 50);

/// Why flows cannot be scheduled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FluidError {
    /// A flow has an empty path.
    #[error("flow {0} has an empty path; name at least one link")]
    EmptyPath(u64),
    /// A path names a link that does not exist.
    #[error("flow {flow} crosses link {link}, but there are only {links}, counted from 0")]
    NoSuchLink {
        /// The flow.
        flow: u64,
        /// The link it names.
        link: usize,
        /// Number of links.
        links: usize,
    },
    /// A path crosses a link twice.
    #[error("flow {0} crosses link {1} twice; name each link once")]
    LinkTwice(u64, usize),
    /// A link has a rate of zero.
    #[error("link {0} has a rate of zero; leave it out or give it a rate")]
    NoCapacity(usize),
    /// A link is too fast for the arithmetic.
    #[error("link {0} is faster than {1}; scale all rates and sizes down")]
    TooFast(usize, Rate),
    /// A flow may not send.
    #[error("flow {0} has a maximum rate of zero; give it the rate of its NIC")]
    NoRate(u64),
    /// A flow is too large for the arithmetic.
    #[error("flow {0} is larger than 1 PiB; scale all sizes down, or make it endless")]
    TooLarge(u64),
}

/// Checks that the flows can be scheduled on links of these capacities.
pub fn check(flows: &[FluidFlow], capacities: &[Rate]) -> Result<(), FluidError> {
    check_capacities(capacities, RATE_MAX)?;
    for flow in flows {
        if flow.path.is_empty() {
            return Err(FluidError::EmptyPath(flow.id));
        }
        check_path(flow.id, &flow.path, capacities.len())?;
        check_size(flow.id, flow.size)?;
    }
    Ok(())
}

/// Checks the rates of links.
pub(crate) fn check_capacities(capacities: &[Rate], max: Rate) -> Result<(), FluidError> {
    for (link, rate) in capacities.iter().enumerate() {
        if *rate == Rate::ZERO {
            return Err(FluidError::NoCapacity(link));
        }
        if *rate > max {
            return Err(FluidError::TooFast(link, max));
        }
    }
    Ok(())
}

/// Checks one path of a flow.
pub(crate) fn check_path<L>(flow: u64, path: &[L], links: usize) -> Result<(), FluidError>
where
    L: Copy + PartialEq + TryInto<usize>,
{
    if path.is_empty() {
        return Err(FluidError::EmptyPath(flow));
    }
    for (hop, link) in path.iter().enumerate() {
        let number = (*link).try_into().unwrap_or(usize::MAX);
        if number >= links {
            return Err(FluidError::NoSuchLink { flow, link: number, links });
        }
        if path[..hop].contains(link) {
            return Err(FluidError::LinkTwice(flow, number));
        }
    }
    Ok(())
}

/// Checks the size of a flow.
pub(crate) fn check_size(flow: u64, size: Bytes) -> Result<(), FluidError> {
    if size > SIZE_MAX && size != Bytes::ENDLESS { Err(FluidError::TooLarge(flow)) } else { Ok(()) }
}
