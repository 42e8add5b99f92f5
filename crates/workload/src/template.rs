//! Drawing the flows of a traffic: destination, size and deadline, but not the start time.

use crate::sizes::SizeDistribution;
use crate::spec::Deadlines;
use punctual_core::rng::{Stream, derive};
use punctual_core::{Bytes, Class, Duration, FlowId, FlowSpec, HostId, Instant, TransportId};
use std::ops::Range;

/// A sender of a pattern and how its destination is chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) src: HostId,
    pub(crate) to: Destination,
}

/// How the destination of a flow is chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Destination {
    /// Always this host.
    Host(HostId),
    /// Any other receiver, drawn for each flow.
    Anyone,
    /// A host of the same rack with this probability, otherwise one of another rack, drawn for
    /// each flow.
    Staggered(f64),
}

/// The hosts that take part, in order of their numbers.
#[derive(Debug, Clone)]
pub(crate) struct Participants {
    pub(crate) senders: Vec<HostId>,
    pub(crate) receivers: Vec<HostId>,
    /// Hosts per rack; 1 if the network has no racks.
    pub(crate) rack_size: u32,
}

impl Participants {
    /// The position of a host among the receivers; empty if it only sends.
    fn position(&self, host: HostId) -> Range<usize> {
        match self.receivers.binary_search(&host) {
            Ok(place) => place..place + 1,
            Err(place) => place..place,
        }
    }

    /// The positions of the hosts of the same rack among the receivers.
    pub(crate) fn rack(&self, host: HostId) -> Range<usize> {
        let before = |edge: u64| self.receivers.partition_point(|h| u64::from(h.0) < edge);
        let rack = u64::from(host.0 / self.rack_size);
        let size = u64::from(self.rack_size);
        before(rack * size)..before((rack + 1) * size)
    }

    pub(crate) fn destination(&self, slot: Slot, stream: &mut Stream) -> HostId {
        match slot.to {
            Destination::Host(host) => host,
            Destination::Anyone => self.other_than(self.position(slot.src), stream),
            Destination::Staggered(local) => {
                let rack = self.rack(slot.src);
                if !stream.chance(local) {
                    return self.other_than(rack, stream);
                }
                let here = self.position(slot.src).start;
                let place = rack.start + stream.below(rack.len() as u64 - 1) as usize;
                self.receivers[place + usize::from(place >= here)]
            }
        }
    }

    /// Draws a receiver whose position is not in `skipped`.
    fn other_than(&self, skipped: Range<usize>, stream: &mut Stream) -> HostId {
        let place = stream.below((self.receivers.len() - skipped.len()) as u64) as usize;
        self.receivers[if place < skipped.start { place } else { place + skipped.len() }]
    }
}

/// Seeds of one random stream per purpose, so that draws for one do not change the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seeds {
    pub(crate) pattern: u64,
    pub(crate) arrivals: u64,
    pub(crate) senders: u64,
    pub(crate) jitter: u64,
    pub(crate) gaps: u64,
    sizes: u64,
    deadlines: u64,
    destinations: u64,
}

impl Seeds {
    pub(crate) fn new(seed: u64, pattern: u16) -> Self {
        let of = |purpose| derive(seed, purpose, u64::from(pattern));
        Seeds {
            pattern: of("workload.pattern"),
            arrivals: of("workload.arrivals"),
            senders: of("workload.senders"),
            jitter: of("workload.jitter"),
            gaps: of("workload.gaps"),
            sizes: of("workload.sizes"),
            deadlines: of("workload.deadlines"),
            destinations: of("workload.destinations"),
        }
    }
}

/// What all flows of a traffic have in common: distributions, class and transport.
#[derive(Debug, Clone)]
pub(crate) struct FlowTemplate {
    pub(crate) seeds: Seeds,
    pub(crate) participants: Participants,
    pub(crate) sizes: SizeDistribution,
    pub(crate) deadlines: Deadlines,
    pub(crate) deadlines_below: Option<Bytes>,
    pub(crate) pattern: u16,
    pub(crate) transport: TransportId,
    pub(crate) class: Class,
    pub(crate) background: bool,
}

impl FlowTemplate {
    /// Draws flow `number`. The number selects its random streams.
    pub(crate) fn flow(&self, slot: Slot, number: u64, start: Instant) -> FlowSpec {
        let stream = |seed| Stream::named(seed, "flow", number);
        let dst = match slot.to {
            Destination::Host(host) => host,
            _ => self.participants.destination(slot, &mut stream(self.seeds.destinations)),
        };
        let size = self.sizes.draw(&mut stream(self.seeds.sizes));
        let has_deadline = self.deadlines_below.is_none_or(|limit| size < limit);
        let deadline = match has_deadline {
            true => deadline(self.deadlines, &mut stream(self.seeds.deadlines)),
            false => None,
        };
        FlowSpec {
            id: FlowId(0),
            src: slot.src,
            dst,
            size,
            start,
            deadline: deadline.map(|after| start.saturating_add(after)),
            transport: self.transport,
            class: self.class,
            background: self.background,
            pattern: self.pattern,
        }
    }
}

fn deadline(deadlines: Deadlines, stream: &mut Stream) -> Option<Duration> {
    match deadlines {
        Deadlines::None => None,
        Deadlines::Fixed(after) => Some(after),
        Deadlines::Uniform(a, b) => Some(a + uniform_to(stream, b - a)),
        Deadlines::Exponential { mean, floor } => Some(exponential(stream, mean).max(floor)),
    }
}

/// A uniform draw from zero to `longest`, both included.
fn uniform_to(stream: &mut Stream, longest: Duration) -> Duration {
    Duration::from_picos(stream.below(longest.as_picos().saturating_add(1)))
}

/// An exponential draw with this mean, rounded to the nearest picosecond.
pub(crate) fn exponential(stream: &mut Stream, mean: Duration) -> Duration {
    Duration::from_picos(libm::round(stream.exponential(mean.as_picos() as f64)) as u64)
}
