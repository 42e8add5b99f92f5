//! `[[traffic]]` tables as Rust types.

use crate::cdf::{Cdf, CdfError};
use crate::grammar::TrafficTable;
use crate::hosts::HostSet;
use crate::list::{FlowList, FlowListError, ListedFlow};
use crate::sizes::Sizes;
use crate::text;
use punctual_core::{Bytes, Class, Duration, HostId, Instant, TransportId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One traffic of a scenario. The [crate documentation](crate) has its grammar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TrafficTable", into = "TrafficTable")]
pub struct TrafficSpec {
    /// Its name in messages and tables.
    pub name: Option<String>,
    /// Which hosts send to which.
    pub pattern: Pattern,
    /// The hosts that take part; all when absent.
    pub hosts: Option<HostSet>,
    /// Hosts that do not take part.
    pub exclude: HostSet,
    /// The senders among the hosts that take part; all when absent.
    pub from: Option<HostSet>,
    /// The receivers among the hosts that take part; all when absent.
    pub to: Option<HostSet>,
    /// Whether the pattern repeats its random choices. [`Pattern::Random`] and
    /// [`Pattern::Staggered`] then draw a destination for each flow (default `true`).
    /// [`Pattern::Incast`] and [`Pattern::Permutation`] draw again at each burst (default `false`).
    pub redraw: Option<bool>,
    /// When flows start.
    pub arrivals: Arrivals,
    /// Flows that each sender starts at each burst.
    pub flows_each: u32,
    /// Each flow of a burst, and the first flow of each closed loop, is delayed by a uniform draw
    /// below this.
    pub jitter: Duration,
    /// Sizes of the flows.
    pub sizes: Sizes,
    /// Deadlines of the flows.
    pub deadlines: Deadlines,
    /// Only flows smaller than this have deadlines.
    pub deadlines_below: Option<Bytes>,
    /// The change of each flow's deadline while it runs, if any.
    pub deadline_change: Option<DeadlineChange>,
    /// When the traffic begins.
    pub start: Instant,
    /// No flow starts at this time or later.
    pub stop: Option<Instant>,
    /// The largest number of flows.
    pub limit: Option<u64>,
    /// Which of the run's transports carries it.
    pub transport: TransportId,
    /// Service class of its data.
    pub class: Class,
    /// Whether it is background traffic, which loads the network and is not measured.
    pub background: bool,
}

/// Which hosts send to which.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Pattern {
    /// Many to one.
    Incast {
        /// The senders.
        senders: Senders,
        /// The receiver; drawn when absent.
        receiver: Option<HostId>,
    },
    /// Each host sends to one other and receives from one other.
    Permutation,
    /// Each host sends to others drawn at random.
    Random,
    /// Host i sends to host i + stride, modulo the number of hosts.
    Stride(u32),
    /// Each host sends to its own rack with probability `local`, otherwise to another rack.
    Staggered {
        /// The probability of staying in the rack.
        local: f64,
    },
    /// Each host sends to each other.
    AllToAll,
    /// From the first to the second of each pair.
    Pairs(Vec<(HostId, HostId)>),
    /// A list of flows, each with its own size, start and deadline.
    Listed(FlowList),
}

/// The senders of an incast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Senders {
    /// Every other host.
    All,
    /// This many different hosts.
    Hosts(u32),
    /// This many senders, spread evenly over the other hosts. A host may have several.
    Workers(u32),
}

/// When flows start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Arrivals {
    /// One burst of the whole pattern at the traffic's start.
    #[default]
    Together,
    /// A burst of the whole pattern at the start and once per period after.
    Periodic(Duration),
    /// Bursts of the whole pattern as a Poisson process with this mean interval. The first burst
    /// comes one interval after the start.
    PoissonBursts(Duration),
    /// Single flows as a Poisson process with this load.
    ///
    /// load = flows per second × mean size / sum of the senders' NIC rates
    ///
    /// Each sender's share of the flows is proportional to its NIC rate. Headers are not counted.
    PoissonLoad(f64),
    /// Single flows as a Poisson process with this rate per second for all senders together.
    PoissonPerSecond(f64),
    /// Single flows as a Poisson process with this rate per second for each sender.
    PoissonPerSecondPerSender(f64),
    /// Each sender keeps some connections. On each, a flow starts after the previous one ends.
    ClosedLoop(LoopSpec),
}

/// Parameters of a closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoopSpec {
    /// Connections per sender, or per sender and destination if the pattern fixes several.
    pub connections: u32,
    /// Time from the end of a flow to the start of the next.
    pub gap: Gap,
}

impl Default for LoopSpec {
    fn default() -> Self {
        LoopSpec { connections: 1, gap: Gap::Fixed(Duration::ZERO) }
    }
}

/// The time between two flows of a closed loop: `"1ms"`, `{ exponential = "1ms" }` or
/// `{ exponential-median = "1ms" }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gap {
    /// A constant time.
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Exponential with this median.
    ExponentialMedian(Duration),
}

/// Deadlines, counted from each flow's start: `"20ms"`, `{ uniform = ["1ms", "9ms"] }`,
/// `{ exponential = { mean = "20ms", floor = "3ms" } }` or `"none"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Deadlines {
    /// No deadlines.
    #[default]
    None,
    /// Every flow has this deadline.
    Fixed(Duration),
    /// Uniform from the first to the second, both included.
    Uniform(Duration, Duration),
    /// Exponential; draws below the floor become the floor.
    Exponential {
        /// Mean before the floor.
        mean: Duration,
        /// The shortest deadline.
        floor: Duration,
    },
}

/// A change of a flow's deadline while it runs: `{ after = "5ms", deadline = "10ms" }`. Without
/// `deadline` the flow loses its deadline. Both times count from the flow's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadlineChange {
    /// When the sender learns of the change.
    pub after: Duration,
    /// The new deadline; `None` if the flow loses its deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
}

impl TrafficSpec {
    /// One burst of a pattern at time zero, without deadlines.
    pub fn new(pattern: Pattern, sizes: Sizes) -> Self {
        TrafficSpec {
            name: None,
            pattern,
            hosts: None,
            exclude: HostSet::EMPTY,
            from: None,
            to: None,
            redraw: None,
            arrivals: Arrivals::Together,
            flows_each: 1,
            jitter: Duration::ZERO,
            sizes,
            deadlines: Deadlines::None,
            deadlines_below: None,
            deadline_change: None,
            start: Instant::ZERO,
            stop: None,
            limit: None,
            transport: TransportId(0),
            class: Class::DATA,
            background: false,
        }
    }

    /// A traffic that lists its flows.
    pub fn listed(flows: Vec<ListedFlow>) -> Self {
        TrafficSpec::new(Pattern::Listed(FlowList::Flows(flows)), Sizes::Listed)
    }

    /// Replaces the files that the traffic names by their contents. `read` reads a file; `host`
    /// resolves the name of a host.
    pub fn load_files<E>(
        &mut self,
        mut read: impl FnMut(&str) -> Result<String, E>,
        host: impl Fn(&str) -> Option<HostId>,
    ) -> Result<(), LoadError<E>> {
        if let Sizes::File(file) = &self.sizes {
            let text =
                read(file).map_err(|source| LoadError::Read { file: file.clone(), source })?;
            let cdf = Cdf::parse(&text)
                .map_err(|source| LoadError::Sizes { file: file.clone(), source })?;
            self.sizes = Sizes::Cdf(cdf);
        }
        if let Pattern::Listed(FlowList::File(file)) = &self.pattern {
            let name = || file.path.clone();
            let text =
                read(&file.path).map_err(|source| LoadError::Read { file: name(), source })?;
            let flows = file.format.parse(&text, host);
            let flows = flows.map_err(|source| LoadError::Flows { file: name(), source })?;
            self.pattern = Pattern::Listed(flows);
        }
        Ok(())
    }
}

/// Why a file that a traffic names cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError<E> {
    /// The file cannot be read.
    #[error("{file}: {source}")]
    Read {
        /// Its name.
        file: String,
        /// Why.
        source: E,
    },
    /// The file is not a valid size distribution.
    #[error("{file}: {source}")]
    Sizes {
        /// Its name.
        file: String,
        /// Why.
        source: CdfError,
    },
    /// The file is not a valid list of flows.
    #[error("{file}: {source}")]
    Flows {
        /// Its name.
        file: String,
        /// Why.
        source: FlowListError,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum GapTable {
    Fixed(Duration),
    Exponential(Duration),
    ExponentialMedian(Duration),
}

impl<'de> Deserialize<'de> for Gap {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        text::word_or_table(
            d,
            "a gap such as \"1ms\" or { exponential = \"1ms\" }",
            |word| word.parse().map(Gap::Fixed).map_err(|e| e.to_string()),
            |table| match table {
                GapTable::Fixed(gap) => Gap::Fixed(gap),
                GapTable::Exponential(mean) => Gap::Exponential(mean),
                GapTable::ExponentialMedian(median) => Gap::ExponentialMedian(median),
            },
        )
    }
}

impl Serialize for Gap {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match *self {
            Gap::Fixed(gap) => s.collect_str(&gap),
            Gap::Exponential(mean) => GapTable::Exponential(mean).serialize(s),
            Gap::ExponentialMedian(median) => GapTable::ExponentialMedian(median).serialize(s),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DeadlinesTable {
    Fixed(Duration),
    Uniform(Duration, Duration),
    Exponential(ExponentialTable),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExponentialTable {
    mean: Duration,
    #[serde(default)]
    floor: Duration,
}

impl<'de> Deserialize<'de> for Deadlines {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        text::word_or_table(
            d,
            "deadlines such as \"20ms\" or { exponential = { mean = \"20ms\", floor = \"3ms\" } }",
            |word| match word {
                "none" => Ok(Deadlines::None),
                word => word.parse().map(Deadlines::Fixed).map_err(|e| e.to_string()),
            },
            |table| match table {
                DeadlinesTable::Fixed(after) => Deadlines::Fixed(after),
                DeadlinesTable::Uniform(a, b) => Deadlines::Uniform(a, b),
                DeadlinesTable::Exponential(ExponentialTable { mean, floor }) => {
                    Deadlines::Exponential { mean, floor }
                }
            },
        )
    }
}

impl Serialize for Deadlines {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match *self {
            Deadlines::None => s.serialize_str("none"),
            Deadlines::Fixed(after) => s.collect_str(&after),
            Deadlines::Uniform(a, b) => DeadlinesTable::Uniform(a, b).serialize(s),
            Deadlines::Exponential { mean, floor } => {
                DeadlinesTable::Exponential(ExponentialTable { mean, floor }).serialize(s)
            }
        }
    }
}
