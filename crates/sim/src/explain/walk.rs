//! Walks the chain of causes from a flow's end back to its start.

use super::chain::{Again, Cause, Node, Stretch, Trip};
use super::flows::Followed;
use super::{Behind, Explanation, Part, What};
use punctual_core::{Instant, PortId};
use punctual_record::FlowStatus;
use std::rc::Rc;

/// The state of a walk: the parts found so far, the last first.
struct Walk<'a> {
    parts: Vec<Part>,
    /// Intervals in which the sender could not send, in order.
    holds: &'a [Part],
    /// The instant that the walk has reached.
    at: Instant,
    trips: u32,
    /// When retransmissions were created, and what happened to the packets before them.
    again: Vec<(Instant, Again)>,
}

/// Explains a flow whose time ends at `to`: in `call` if given, else after its last call.
pub(super) fn explain(
    flow: &mut Followed,
    status: FlowStatus,
    to: Instant,
    call: Option<&Rc<Node>>,
) -> Explanation {
    let holds = std::mem::take(&mut flow.holds);
    let mut walk = Walk { parts: Vec::new(), holds: &holds, at: to, trips: 0, again: Vec::new() };
    let is_complete = status == FlowStatus::Completed;
    let from = match flow.hold.take().filter(|_| !is_complete) {
        Some(hold) => {
            walk.back_to(hold.since.at, hold.what, hold.port, hold.behind);
            Some(hold.since)
        }
        None => call.or(flow.last()).cloned(),
    };
    if let Some(node) = &from {
        walk.back_to(node.at, What::Silence, None, Behind::default());
    }
    let mut next = from;
    while let Some(node) = next {
        let link = node.link.borrow();
        if let Some(parent) = &link.parent {
            match &link.cause {
                Cause::Start => {}
                Cause::Trip(trip) => walk.along(trip, parent.at),
                Cause::Wait(stretches) => walk.through(stretches, parent.at),
            }
            walk.back_to(parent.at, What::Timer, None, Behind::default());
        }
        let parent = link.parent.clone();
        drop(link);
        next = parent;
    }
    walk.back_to(flow.spec.start, What::Timer, None, Behind::default());
    walk.parts.reverse();
    Explanation {
        flow: flow.spec.id,
        status,
        from: flow.spec.start,
        to,
        parts: merged(relabelled(walk.parts, &walk.again)),
        trips: walk.trips,
        progress: std::mem::take(&mut flow.progress),
    }
}

impl Walk<'_> {
    fn back_to(&mut self, from: Instant, what: What, port: Option<PortId>, behind: Behind) {
        if from < self.at {
            self.parts.push(Part { what, from, to: self.at, port, behind });
            self.at = from;
        }
    }

    /// [`Walk::back_to`] for control packets and waits.
    ///
    /// Intervals in which the sender could not send count as such, whatever happened meanwhile.
    fn back_asking(&mut self, from: Instant, what: What, port: Option<PortId>, behind: Behind) {
        let first = self.holds.partition_point(|hold| hold.to <= from);
        let last = self.holds.partition_point(|hold| hold.from < self.at);
        for hold in self.holds[first.min(last)..last].iter().rev() {
            self.back_to(hold.to.max(from), what, port, behind.clone());
            self.back_to(hold.from.max(from), hold.what, hold.port, hold.behind.clone());
        }
        self.back_to(from, what, port, behind);
    }

    /// Walks back through a wait that began at `since`.
    fn through(&mut self, stretches: &[Stretch], since: Instant) {
        for (n, stretch) in stretches.iter().enumerate().rev() {
            let from = n.checked_sub(1).map_or(since, |before| stretches[before].until);
            let Stretch { what, port, behind, .. } = stretch.clone();
            match what {
                What::Timeout => self.back_to(from, what, port, behind),
                _ => self.back_asking(from, what, port, behind),
            }
        }
    }

    /// Walks back along a packet's way to when it was created.
    fn along(&mut self, trip: &Trip, made_at: Instant) {
        self.trips += 1;
        for hop in trip.hops.iter().rev() {
            let port = Some(hop.port);
            for (from, what) in [(hop.until, What::Propagation), (hop.from, What::Serialisation)] {
                match trip.has_data {
                    true => self.back_to(from, what, port, Behind::default()),
                    false => self.back_asking(from, what, port, Behind::default()),
                }
            }
            self.through(&hop.waits, hop.came);
        }
        if let Some(again) = trip.again
            && again.first_made < made_at
        {
            self.again.push((made_at, again));
        }
    }
}

/// Whether time of this kind counts as lost while a packet is to be retransmitted.
fn is_lost_meanwhile(what: What) -> bool {
    use What::{LinkPaused, Nic, Own, Propagation, Queue, Serialisation};
    matches!(what, Serialisation | Propagation | Own | Queue | Nic | LinkPaused)
}

/// Relabels the time that passed while a packet was to be retransmitted as lost.
fn relabelled(parts: Vec<Part>, again: &[(Instant, Again)]) -> Vec<Part> {
    let mut parts = parts;
    for &(to, Again { first_made: from, port, trimmed }) in again {
        let what = if trimmed { What::Trimmed } else { What::Retransmission };
        let mut cut = Vec::with_capacity(parts.len() + 2);
        for part in parts {
            let (start, end) = (part.from.max(from), part.to.min(to));
            if start >= end || !is_lost_meanwhile(part.what) {
                cut.push(part);
                continue;
            }
            if part.from < start {
                cut.push(Part { to: start, ..part.clone() });
            }
            cut.push(Part { what, from: start, to: end, port, behind: Behind::default() });
            if end < part.to {
                cut.push(Part { from: end, ..part });
            }
        }
        parts = cut;
    }
    parts
}

/// Merges adjacent parts of one kind and port.
fn merged(parts: Vec<Part>) -> Vec<Part> {
    let mut merged: Vec<Part> = Vec::new();
    for part in parts {
        match merged.last_mut() {
            Some(last) if (last.what, last.port) == (part.what, part.port) => {
                last.to = part.to;
                last.behind.merge(&part.behind);
            }
            _ => merged.push(part),
        }
    }
    merged
}
