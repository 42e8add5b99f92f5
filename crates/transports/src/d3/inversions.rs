//! How often first come, first served turns the order of deadlines round at a port.

use super::header::{Grant, RateBlock};
use super::port::RequestKind;
use punctual_core::{FlowId, Instant};
use std::collections::BTreeMap;

/// Counts requests that got less than they desired while a flow with a later deadline held more
/// than the base rate at the same port (D3-R33). Flows without deadline take no part.
#[derive(Clone, Debug, Default)]
pub struct Inversions {
    holders: BTreeMap<FlowId, Instant>,
    requests: u64,
    inverted: u64,
}

impl Inversions {
    /// Requests of flows with a deadline that desired a rate.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Those of them that were cut or denied while a later deadline held a grant.
    pub fn inverted(&self) -> u64 {
        self.inverted
    }

    /// A request was granted what stands last in its block.
    pub(super) fn handle_request(&mut self, flow: FlowId, kind: RequestKind, block: &RateBlock) {
        let Some(deadline) = block.deadline else { return };
        let grant = match kind {
            RequestKind::Last => Grant::Base,
            _ => block.granted.iter().last().unwrap_or(Grant::Base),
        };
        if kind != RequestKind::Last && block.desired > punctual_core::Rate::ZERO {
            self.requests += 1;
            // Cut here, not on the way here.
            let before = block.granted.len().checked_sub(2).and_then(|hop| block.granted.get(hop));
            let asked = before.map_or(block.desired, Grant::counted).min(block.desired);
            let cut = grant.counted() < asked;
            let inverted = |(id, at): (&FlowId, &Instant)| *id != flow && *at > deadline;
            self.inverted += u64::from(cut && self.holders.iter().any(inverted));
        }
        match grant {
            Grant::Rate(_) => self.holders.insert(flow, deadline),
            Grant::Base => self.holders.remove(&flow),
        };
    }

    /// The port has forgotten its flows.
    pub(super) fn forget_flows(&mut self) {
        self.holders.clear();
    }
}
