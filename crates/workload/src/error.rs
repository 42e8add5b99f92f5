//! What can be wrong with a traffic that is well formed.

use crate::sizes::SizesError;
use punctual_core::{Duration, HostId, Instant};
use std::fmt;

/// A traffic that gives no flows, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadError {
    /// Which traffic, counted from 0.
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
    /// Nobody to send to.
    #[error("hosts that take part: {0}; at least 2 are needed")]
    TooFewHosts(u32),
    /// A host that does not exist.
    #[error("host {host} does not exist; there are {count}, counted from 0")]
    UnknownHost {
        /// The host.
        host: HostId,
        /// How many there are.
        count: u32,
    },
    /// A receiver that was left out.
    #[error("receiver = {0} is left out by `hosts`, `exclude` or `to`; choose one that takes part")]
    ReceiverLeftOut(HostId),
    /// A group of hosts without a host that takes part.
    #[error("`{0}` names no host that takes part; see `hosts` and `exclude`")]
    EmptyGroup(&'static str),
    /// A host that would have to send to itself.
    #[error("host {0} is in `from` and in `to`; a permutation needs groups without a common host")]
    InBothGroups(HostId),
    /// Fewer receivers than senders, where each needs its own.
    #[error(
        "`from` has {from} hosts and `to` {to}; a permutation needs a receiver for each sender"
    )]
    TooFewReceivers {
        /// Hosts that send.
        from: u32,
        /// Hosts that receive.
        to: u32,
    },
    /// A flow from a host to itself.
    #[error("host {0} sends to itself; give it another destination")]
    ToItself(HostId),
    /// More different senders than hosts.
    #[error(
        "senders = {wanted}: only {possible} other hosts take part; use workers = {wanted} to put \
         several senders on a host"
    )]
    TooManySenders {
        /// Asked for.
        wanted: u32,
        /// Hosts besides the receiver.
        possible: u32,
    },
    /// A number that must be at least one.
    #[error("{0} = 0: must be 1 or more")]
    Zero(&'static str),
    /// A stride that leads back.
    #[error("stride = {stride} is a multiple of the {hosts} hosts: each would send to itself")]
    WholeStride {
        /// The stride.
        stride: u32,
        /// Hosts that take part.
        hosts: u32,
    },
    /// Not a probability.
    #[error("local = {0}: must be between 0 and 1")]
    Local(f64),
    /// A pattern by racks in a network without.
    #[error("pattern = \"staggered\" needs racks, and this network has none; use \"random\"")]
    NoRacks,
    /// Nobody else in the rack, or nobody elsewhere.
    #[error(
        "host {host} has no other host {place}, which local = {local} asks for; change `local`, \
         `hosts` or the network"
    )]
    NoNeighbour {
        /// The host.
        host: HostId,
        /// In its rack or elsewhere.
        place: &'static str,
        /// The probability of staying in the rack.
        local: f64,
    },
    /// A rate or load that is no positive number.
    #[error("{key} = {value}: must be above 0 and finite")]
    NotPositive {
        /// Which.
        key: &'static str,
        /// What was given.
        value: f64,
    },
    /// A load of flows without a size.
    #[error("endless flows have no mean size, so no load; use poisson-per-second")]
    EndlessLoad,
    /// A loop whose first flow never ends.
    #[error("endless flows never end, so a closed loop of them never turns; use \"together\"")]
    EndlessLoop,
    /// A deadline that cannot be met.
    #[error("endless flows cannot have deadlines; remove `deadlines` or give sizes")]
    EndlessDeadline,
    /// Two times the wrong way round.
    #[error("deadlines: uniform from {0} to {1}: the first must not be longer; swap them")]
    DeadlinesReversed(Duration, Duration),
    /// A setting without effect.
    #[error("{key} has no effect {with}; remove it")]
    NoEffect {
        /// Which.
        key: &'static str,
        /// With what.
        with: &'static str,
    },
    /// Sizes that cannot be drawn.
    #[error(transparent)]
    Sizes(#[from] SizesError),
    /// Sizes given for a list, which has its own.
    #[error("the flows of a list have their own sizes; use Sizes::Listed")]
    SizesOfList,
    /// Nothing in a list.
    #[error("the list of {0} is empty; give at least one")]
    Empty(&'static str),
    /// A list nobody read.
    #[error("file `{0}` was not loaded; load the files of the traffic before building it")]
    NotLoaded(String),
    /// A listed flow that is wrong.
    #[error("flow {flow} of the list: {problem}")]
    Listed {
        /// Counted from 1.
        flow: usize,
        /// What is wrong.
        problem: Box<Problem>,
    },
    /// A class beyond the last.
    #[error("class = {0} does not exist; classes are 0 to 7")]
    Class(u8),
    /// A start after the end.
    #[error("start = {start} is not before the end at {end}; start earlier or run longer")]
    StartsTooLate {
        /// The start.
        start: Instant,
        /// The traffic's `stop` or the run's end.
        end: Instant,
    },
    /// More flows than fit in memory.
    #[error(
        "about {0:.0} flows, more than the {max} a run holds; lower the rate, the duration or the \
         number of hosts, or set `limit`",
        max = crate::MAX_FLOWS
    )]
    TooManyFlows(f64),
    /// More traffics than can be told apart.
    #[error("more than 65536 traffics; merge some into lists")]
    TooManyTraffics,
}
