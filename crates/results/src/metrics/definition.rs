//! What an entry of the table of metrics says, and the constructors of its entries.

use super::Metric;
use crate::run_data::RunData;
use crate::times::{Statistic, Times};

/// The unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A share from 0 to 1, shown in per cent.
    Share,
    /// Microseconds.
    Micros,
    /// Seconds.
    Seconds,
    /// A ratio of two times.
    Factor,
    /// Gigabits per second.
    Gbps,
    /// Bytes.
    Bytes,
    /// A number of things.
    Count,
}

impl Unit {
    /// How the name of a metric in this unit ends.
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::Share | Unit::Factor | Unit::Count => "",
            Unit::Micros => "_us",
            Unit::Seconds => "_seconds",
            Unit::Gbps => "_gbps",
            Unit::Bytes => "_bytes",
        }
    }

    /// The symbol behind numbers in tables; empty for a count.
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::Share => "%",
            Unit::Micros => "µs",
            Unit::Seconds => "s",
            Unit::Factor => "×",
            Unit::Gbps => "Gb/s",
            Unit::Bytes => "B",
            Unit::Count => "",
        }
    }

    /// The factor from a value to the number that [`symbol`](Self::symbol) stands behind.
    pub fn factor(self) -> f64 {
        if self == Unit::Share { 100.0 } else { 1.0 }
    }
}

/// Which values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Lower values.
    Lower,
    /// Higher values.
    Higher,
    /// Neither: it depends on what was asked for.
    Neither,
}

/// How the 95 % interval of a mean over repetitions is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// No interval.
    None,
    /// Student's t over the repetitions.
    StudentT,
    /// Wilson's interval of a share of flows, see [`share_interval`](crate::share_interval).
    Share {
        /// The flows counted in the share's numerator.
        met: Metric,
        /// The flows counted in its denominator.
        of: Metric,
        /// The flows that are in neither, because the run ended too early.
        unknown: Metric,
    },
}

/// What a metric describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Flows, so that a part of a run's flows has a value of its own.
    Flows,
    /// The whole network.
    Network,
}

/// Whether and when a metric is a column of the tables of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Never.
    Never,
    /// Only in a table without limit of width (`--wide`).
    Wide,
    /// Wherever there is room. Columns with a higher number are left out first, 0 never is.
    Dispensable(u8),
}

/// Which rows of a table have a value of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// All rows.
    Always,
    /// Rows with deadlines.
    Deadlines,
    /// All rows, if the value of one of them is not 0.
    Nonzero,
    /// Rows of simulated packets, not those of ideal schedulers.
    Packets,
}

/// Places that show some of the metrics only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The terminal's table of a sweep.
    Sweep,
    /// The report's plot of a sweep.
    Plot,
    /// `compare A B`.
    Difference,
    /// Tables by traffic class and by flow size.
    Group,
}

/// A statistic of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// The arithmetic mean.
    Mean,
    /// A nearest-rank percentile, in thousandths.
    Percentile(u32),
}

impl Take {
    pub(super) fn of(self, times: &Times) -> Statistic {
        match self {
            Take::Mean => times.mean(),
            Take::Percentile(per_mille) => times.percentile(per_mille),
        }
    }
}

/// What one run's value is computed from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// Flow completion times, in microseconds.
    Fct(Take),
    /// Slowdowns of flows.
    Slowdown(Take),
    /// Everything that is known of a run.
    Run(fn(&RunData<'_>) -> Option<f64>),
}

/// An entry of the table of metrics.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// Name of its field in `summary.json`.
    pub name: &'static str,
    /// Its title in tables and the report: its name in words, without the unit.
    pub title: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Which values are better.
    pub better: Better,
    /// How its interval over repetitions is computed.
    pub interval: Interval,
    /// What it describes.
    pub scope: Scope,
    /// Whether it is a column of tables.
    pub column: Column,
    /// Which rows of tables have it.
    pub when: When,
    /// Where else it is shown.
    pub places: &'static [Place],
    /// Its meaning, in Markdown.
    pub doc: &'static str,
    /// Whether it counts packets or what happens to them, so that a run without packets has none.
    pub(crate) of_packets: bool,
    pub(crate) source: Source,
}

impl Definition {
    pub(super) const fn new(
        name: &'static str,
        title: &'static str,
        unit: Unit,
        source: Source,
    ) -> Self {
        Definition {
            name,
            title,
            unit,
            better: Better::Neither,
            interval: Interval::None,
            scope: Scope::Flows,
            column: Column::Never,
            when: When::Always,
            places: &[],
            doc: "",
            of_packets: false,
            source,
        }
    }

    pub(super) const fn better(mut self, better: Better) -> Self {
        self.better = better;
        self
    }

    pub(super) const fn interval(mut self, interval: Interval) -> Self {
        self.interval = interval;
        self
    }

    pub(super) const fn of_network(mut self) -> Self {
        self.scope = Scope::Network;
        self
    }

    pub(super) const fn of_packets(mut self) -> Self {
        self.of_packets = true;
        self
    }

    pub(super) const fn column(mut self, column: Column, when: When) -> Self {
        self.column = column;
        self.when = when;
        self
    }

    pub(super) const fn places(mut self, places: &'static [Place]) -> Self {
        self.places = places;
        self
    }

    pub(super) const fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }
}

/// A statistic of flow completion times.
pub(super) const fn fct(name: &'static str, title: &'static str, take: Take) -> Definition {
    Definition::new(name, title, Unit::Micros, Source::Fct(take))
        .better(Better::Lower)
        .interval(Interval::StudentT)
}

/// A statistic of slowdowns.
pub(super) const fn slowdown(name: &'static str, title: &'static str, take: Take) -> Definition {
    Definition::new(name, title, Unit::Factor, Source::Slowdown(take))
        .better(Better::Lower)
        .interval(Interval::StudentT)
}

/// A share; higher is better.
pub(super) const fn share(
    name: &'static str,
    title: &'static str,
    get: fn(&RunData<'_>) -> Option<f64>,
) -> Definition {
    Definition::new(name, title, Unit::Share, Source::Run(get))
        .better(Better::Higher)
        .interval(Interval::StudentT)
}

/// A number of measured flows.
pub(super) const fn flows(
    name: &'static str,
    title: &'static str,
    get: fn(&RunData<'_>) -> Option<f64>,
) -> Definition {
    Definition::new(name, title, Unit::Count, Source::Run(get))
}

/// Something that happened to packets, so often.
pub(super) const fn packets(
    name: &'static str,
    title: &'static str,
    get: fn(&RunData<'_>) -> Option<f64>,
) -> Definition {
    network(name, title, Unit::Count, get).interval(Interval::StudentT).of_packets()
}

/// A number of the whole network.
pub(super) const fn network(
    name: &'static str,
    title: &'static str,
    unit: Unit,
    get: fn(&RunData<'_>) -> Option<f64>,
) -> Definition {
    Definition::new(name, title, unit, Source::Run(get)).of_network()
}
