//! Errors in a `[[traffic]]` that parses but cannot be built for the network.

use crate::sizes::SizesError;
use punctual_core::{Duration, HostId, Instant};
use std::fmt;

/// A traffic that cannot be built, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadError {
    /// Position of the traffic, counted from 0.
    pub traffic: usize,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What is wrong.
    pub problem: Problem,
}

impl fmt::Display for WorkloadError {
    /// Counts the scenario's `[[traffic]]` from 1, as a reader of the file does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "traffic {}", self.traffic + 1)?;
        if let Some(name) = &self.name {
            write!(f, " (`{name}`)")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for WorkloadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.problem.source()
    }
}

/// What is wrong with a traffic.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Fewer than two hosts take part.
    #[error("too few hosts take part in this traffic: {0}, but at least 2 are needed")]
    TooFewHosts(u32),
    /// A host does not exist.
    #[error("host {host} does not exist; there are {count}, counted from 0")]
    UnknownHost {
        /// The host.
        host: HostId,
        /// Number of hosts.
        count: u32,
    },
    /// The receiver does not take part.
    #[error("receiver = {0} is left out by `hosts`, `exclude` or `to`; choose one that takes part")]
    ReceiverLeftOut(HostId),
    /// No host of a group takes part.
    #[error("`{0}` names no host that takes part; see `hosts` and `exclude`")]
    EmptyGroup(&'static str),
    /// A host is in both groups and might have to send to itself.
    #[error("host {0} is in `from` and in `to`; a permutation needs groups without a common host")]
    InBothGroups(HostId),
    /// A permutation has fewer receivers than senders.
    #[error(
        "`from` has {from} hosts and `to` has {to}; a permutation needs a receiver for each sender"
    )]
    TooFewReceivers {
        /// Hosts that send.
        from: u32,
        /// Hosts that receive.
        to: u32,
    },
    /// A host sends to itself.
    #[error("host {0} sends to itself; give it another destination")]
    ToItself(HostId),
    /// There are more senders than hosts.
    #[error(
        "senders = {wanted}: only {possible} other hosts take part; use workers = {wanted} to put \
         several senders on a host"
    )]
    TooManySenders {
        /// The number of senders asked for.
        wanted: u32,
        /// Hosts besides the receiver.
        possible: u32,
    },
    /// A number or a time is zero.
    #[error("{0} = 0: must be above zero")]
    Zero(&'static str),
    /// The stride leads from each host to itself.
    #[error(
        "stride = {stride} is a multiple of the {hosts} hosts: each would send to itself; choose \
         another stride"
    )]
    WholeStride {
        /// The stride.
        stride: u32,
        /// Hosts that take part.
        hosts: u32,
    },
    /// `local` is not a probability.
    #[error("local = {0}: must be between 0 and 1")]
    Local(f64),
    /// The pattern needs racks, and the network has none.
    #[error("pattern = \"staggered\" needs racks, and this network has none; use \"random\"")]
    NoRacks,
    /// A host has no other host in its rack, or none in another rack.
    #[error(
        "host {host} has no other host {place}, which local = {local} asks for; change `local`, \
         `hosts` or the network"
    )]
    NoNeighbour {
        /// The host.
        host: HostId,
        /// "in its rack" or "in another rack".
        place: &'static str,
        /// The probability of staying in the rack.
        local: f64,
    },
    /// A rate or load is not a positive number.
    #[error("{key} = {value}: must be above 0 and finite")]
    NotPositive {
        /// The scenario key.
        key: &'static str,
        /// Its value.
        value: f64,
    },
    /// A load needs a mean size, and endless flows have none.
    #[error("poisson-load needs a mean size, and endless flows have none; use poisson-per-second")]
    EndlessLoad,
    /// A closed loop cannot continue after an endless flow.
    #[error(
        "endless flows never end, so a closed loop starts no other; use arrivals = \"together\""
    )]
    EndlessLoop,
    /// An endless flow has a deadline.
    #[error("endless flows cannot have deadlines; remove `deadlines` or give sizes")]
    EndlessDeadline,
    /// The ends of the range of deadlines are reversed.
    #[error("deadlines: uniform from {0} to {1}: the first must not be longer; swap them")]
    DeadlinesReversed(Duration, Duration),
    /// A key has no effect.
    #[error("{key} has no effect {with}; remove it")]
    NoEffect {
        /// The scenario key.
        key: &'static str,
        /// The condition under which it has no effect.
        with: &'static str,
    },
    /// The sizes are invalid.
    #[error(transparent)]
    Sizes(#[from] SizesError),
    /// A list has sizes besides those of its flows.
    #[error(
        "the flows of a list have their own sizes; remove `sizes` (in Rust, use Sizes::Listed)"
    )]
    SizesOfList,
    /// A list is empty.
    #[error("the list of {0} is empty; give at least one")]
    Empty(&'static str),
    /// The file of a list was not loaded.
    #[error("file `{0}` was not loaded; call `TrafficSpec::load_files` before `build`")]
    NotLoaded(String),
    /// A flow of a list is invalid.
    #[error("flow {flow} of the list: {problem}")]
    Listed {
        /// Position of the flow, counted from 1.
        flow: usize,
        /// What is wrong.
        problem: Box<Problem>,
    },
    /// The class does not exist.
    #[error("class = {0} does not exist; classes are 0 to 7")]
    Class(u8),
    /// The traffic starts after its end.
    #[error("start = {start} is not before the end at {end}; start earlier or run longer")]
    StartsTooLate {
        /// The start.
        start: Instant,
        /// The traffic's `stop` or the run's end.
        end: Instant,
    },
    /// There are more flows than fit in memory.
    #[error(
        "about {0:.0} flows, but a run holds at most {max}; lower the rate, the duration or the \
         number of hosts, or set `limit`",
        max = crate::MAX_FLOWS
    )]
    TooManyFlows(f64),
    /// There are more traffics than a 16-bit index can number.
    #[error("more than 65536 [[traffic]] tables; merge some into lists")]
    TooManyTraffics,
}
