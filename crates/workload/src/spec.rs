//! One `[[traffic]]` of a scenario, as Rust types.

use crate::cdf::{Cdf, CdfError};
use crate::grammar::Table;
use crate::hosts::HostSet;
use crate::list::{FlowList, FlowListError, ListedFlow};
use crate::sizes::Sizes;
use crate::text;
use punctual_core::{Bytes, Class, Duration, HostId, Instant, TransportId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One traffic of a scenario. The [crate documentation](crate) has its grammar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Table", into = "Table")]
pub struct TrafficSpec {
    /// What messages and tables call it.
    pub name: Option<String>,
    /// Who sends to whom.
    pub pattern: Pattern,
    /// The hosts that take part; all when absent.
    pub hosts: Option<HostSet>,
    /// Hosts that do not take part.
    pub exclude: HostSet,
    /// Of those that take part, the hosts that send; all when absent.
    pub from: Option<HostSet>,
    /// Of those that take part, the hosts that receive; all when absent.
    pub to: Option<HostSet>,
    /// Whether what the pattern draws is drawn again: the destination of each flow for
    /// [`Pattern::Random`] and [`Pattern::Staggered`] (yes unless said otherwise), all of
    /// [`Pattern::Incast`] and [`Pattern::Permutation`] at each burst (no unless said otherwise).
    pub redraw: Option<bool>,
    /// When flows start.
    pub arrivals: Arrivals,
    /// Flows that each sender starts at each burst.
    pub flows_each: u32,
    /// Each flow of a burst, and the first of each closed loop, starts later by a uniform draw
    /// below this.
    pub jitter: Duration,
    /// How large flows are.
    pub sizes: Sizes,
    /// By when flows must be there.
    pub deadlines: Deadlines,
    /// Only flows smaller than this get deadlines.
    pub deadlines_below: Option<Bytes>,
    /// The change of mind about the deadline of each flow, if any.
    pub deadline_change: Option<DeadlineChange>,
    /// When the traffic begins.
    pub start: Instant,
    /// No flow starts at this time or later.
    pub stop: Option<Instant>,
    /// No more flows than this.
    pub limit: Option<u64>,
    /// Which of the run's transports carries it.
    pub transport: TransportId,
    /// Service class of its data.
    pub class: Class,
    /// Whether it is only there to disturb others.
    pub background: bool,
}

/// Who sends to whom.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Pattern {
    /// Many to one.
    Incast {
        /// How many.
        senders: Senders,
        /// To whom; drawn when absent.
        receiver: Option<HostId>,
    },
    /// Each host sends to one other and receives from one other.
    Permutation,
    /// Each host sends to others drawn at random.
    Random,
    /// Host i sends to host i + stride, modulo the number of hosts.
    Stride(u32),
    /// Each host sends to a host of its own rack with this probability, else to one elsewhere.
    Staggered {
        /// The probability of staying in the rack.
        local: f64,
    },
    /// Each host sends to each other.
    AllToAll,
    /// From the first to the second of each pair.
    Pairs(Vec<(HostId, HostId)>),
    /// Flows written down one by one; sizes, arrivals and deadlines are theirs.
    Listed(FlowList),
}

/// The senders of an incast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Senders {
    /// Every other host.
    All,
    /// So many different hosts.
    Hosts(u32),
    /// So many senders, spread evenly over the other hosts: several on a host when there are more.
    Workers(u32),
}

/// When flows start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Arrivals {
    /// All at the traffic's start.
    #[default]
    Together,
    /// A burst of the whole pattern at the start and every so often after.
    Periodic(Duration),
    /// Bursts of the whole pattern, the time between two being exponential with this mean; the
    /// first comes after one such time.
    PoissonBursts(Duration),
    /// Single flows, a Poisson process of this load: the share of the senders' NIC rates that the
    /// mean size makes. A sender's share of the flows is that of its NIC rate. Headers are not
    /// counted.
    PoissonLoad(f64),
    /// Single flows, a Poisson process of so many a second from all senders together.
    PoissonPerSecond(f64),
    /// Single flows, a Poisson process of so many a second from each sender.
    PoissonPerSecondPerSender(f64),
    /// Each sender keeps some connections; on each, a flow follows the end of the one before.
    ClosedLoop(LoopSpec),
}

/// A closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoopSpec {
    /// Connections of each sender (to each of its destinations, where the pattern fixes several).
    pub connections: u32,
    /// From the end of a flow to the start of the next.
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
    /// Always the same.
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Exponential with this median.
    ExponentialMedian(Duration),
}

/// By when flows must be there, counted from their start: `"20ms"`, `{ uniform = ["1ms", "9ms"] }`,
/// `{ exponential = { mean = "20ms", floor = "3ms" } }` or `"none"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Deadlines {
    /// It does not matter.
    #[default]
    None,
    /// Always the same.
    Fixed(Duration),
    /// Anything from the first to the second.
    Uniform(Duration, Duration),
    /// Exponential; draws below the floor become the floor.
    Exponential {
        /// Mean before the floor.
        mean: Duration,
        /// The tightest deadline.
        floor: Duration,
    },
}

/// A deadline that changes while its flow is under way: `{ after = "5ms", deadline = "10ms" }`,
/// without `deadline` where it no longer matters. Both times count from the flow's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadlineChange {
    /// When the sender learns it.
    pub after: Duration,
    /// The new deadline; none when it no longer matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
}

impl TrafficSpec {
    /// Flows of these sizes by this pattern, all together at the start, without deadlines.
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

    /// The flows of a list.
    pub fn listed(flows: Vec<ListedFlow>) -> Self {
        TrafficSpec::new(Pattern::Listed(FlowList::Flows(flows)), Sizes::Listed)
    }

    /// Reads the files that the traffic names, through `read`, and puts their contents in place.
    /// `host` knows hosts by name.
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
            let text =
                read(file).map_err(|source| LoadError::Read { file: file.clone(), source })?;
            let flows = FlowList::parse_csv(&text, host)
                .map_err(|source| LoadError::Flows { file: file.clone(), source })?;
            self.pattern = Pattern::Listed(flows);
        }
        Ok(())
    }
}

/// Why a file that a traffic names could not be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError<E> {
    /// It could not be read.
    #[error("{file}: {source}")]
    Read {
        /// Its name.
        file: String,
        /// Why.
        source: E,
    },
    /// It is no distribution of sizes.
    #[error("{file}: {source}")]
    Sizes {
        /// Its name.
        file: String,
        /// Why.
        source: CdfError,
    },
    /// It is no list of flows.
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
