//! Every metric of a run, declared once.
//!
//! The table at the end of the declarations below is the only place that knows a metric. From it
//! come `summary.json`, intervals, the tables and the report, sweeps, conditions of `capacity`,
//! `compare A B` and the reference in `docs/results.md`. To add a metric, add an entry and run
//! `cargo xtask figures metrics`.

use crate::run_data::RunData;
use crate::share::{ShareOf, share_interval};
use crate::stats::{ALPHA, half_width_95, mean};
use crate::times::{Statistic, Times};
use crate::{FlowStatus, Summary};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

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
    /// Wilson's interval of a share of flows, see [`share_interval`].
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
    fn of(self, times: &Times) -> Statistic {
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
    const fn new(name: &'static str, title: &'static str, unit: Unit, source: Source) -> Self {
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

    const fn better(mut self, better: Better) -> Self {
        self.better = better;
        self
    }

    const fn interval(mut self, interval: Interval) -> Self {
        self.interval = interval;
        self
    }

    const fn of_network(mut self) -> Self {
        self.scope = Scope::Network;
        self
    }

    const fn of_packets(mut self) -> Self {
        self.of_packets = true;
        self
    }

    const fn column(mut self, column: Column, when: When) -> Self {
        self.column = column;
        self.when = when;
        self
    }

    const fn places(mut self, places: &'static [Place]) -> Self {
        self.places = places;
        self
    }

    const fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }
}

/// A statistic of flow completion times.
const fn fct(name: &'static str, title: &'static str, take: Take) -> Definition {
    Definition::new(name, title, Unit::Micros, Source::Fct(take))
        .better(Better::Lower)
        .interval(Interval::StudentT)
}

/// A statistic of slowdowns.
const fn slowdown(name: &'static str, title: &'static str, take: Take) -> Definition {
    Definition::new(name, title, Unit::Factor, Source::Slowdown(take))
        .better(Better::Lower)
        .interval(Interval::StudentT)
}

/// A share; higher is better.
const fn share(
    name: &'static str,
    title: &'static str,
    get: fn(&RunData<'_>) -> Option<f64>,
) -> Definition {
    Definition::new(name, title, Unit::Share, Source::Run(get))
        .better(Better::Higher)
        .interval(Interval::StudentT)
}

/// A number of measured flows.
const fn flows(
    name: &'static str,
    title: &'static str,
    get: fn(&RunData<'_>) -> Option<f64>,
) -> Definition {
    Definition::new(name, title, Unit::Count, Source::Run(get))
}

/// Something that happened to packets, so often.
const fn packets(
    name: &'static str,
    title: &'static str,
    get: fn(&RunData<'_>) -> Option<f64>,
) -> Definition {
    network(name, title, Unit::Count, get).interval(Interval::StudentT).of_packets()
}

/// A number of the whole network.
const fn network(
    name: &'static str,
    title: &'static str,
    unit: Unit,
    get: fn(&RunData<'_>) -> Option<f64>,
) -> Definition {
    Definition::new(name, title, unit, Source::Run(get)).of_network()
}

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $metric:ident = $definition:expr;)*) => {
        /// A metric of a run.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Metric {
            $($(#[doc = $doc])+ $metric,)*
        }

        impl Metric {
            /// All metrics, in the order of tables.
            pub const ALL: &'static [Metric] = &[$(Metric::$metric,)*];
        }

        static DEFINITIONS: [Definition; Metric::ALL.len()] =
            [$($definition.doc(concat!($($doc),+)),)*];
    };
}

use Better::{Higher, Lower};
use Column::{Dispensable, Wide};
use Interval::StudentT;
use Place::{Difference, Group, Plot, Sweep};
use Take::{Mean, Percentile};
use When::{Always, Deadlines, Nonzero, Packets};

metrics! {
    /// Share of `deadline_flows` that met their deadline, 0 to 1.
    DeadlinesMet = share("deadlines_met", "Deadlines met", |run| run.deadlines.share())
        .interval(Interval::Share {
            met: Metric::DeadlineFlowsMet,
            of: Metric::DeadlineFlows,
            unknown: Metric::DeadlineFlowsUnknown,
        })
        .column(Dispensable(0), Always).places(&[Sweep, Plot, Difference, Group]);
    /// Measured flows with a deadline whose outcome is known. When measured flows are unfinished,
    /// flows with a deadline after the end of the run [do not count](#unfinished-flows).
    DeadlineFlows =
        flows("deadline_flows", "Deadline flows", |run| Some(run.deadlines.known as f64));
    /// Flows of `deadline_flows` that met their deadline.
    DeadlineFlowsMet =
        flows("deadline_flows_met", "Deadline flows met", |run| Some(run.deadlines.met as f64))
            .column(Dispensable(9), Deadlines);
    /// Flows of `deadline_flows` that were late, or had not completed when both their deadline and
    /// the run were over.
    DeadlineFlowsLate =
        flows("deadline_flows_late", "Deadline flows late", |run| Some(run.deadlines.late() as f64))
            .column(Dispensable(8), Deadlines);
    /// Flows of `deadline_flows` that their sender gave up (quenched, terminated); `ended_ps` says
    /// when.
    DeadlineFlowsAbandoned = flows("deadline_flows_abandoned", "Deadline flows abandoned", |run| {
        Some(run.deadlines.abandoned as f64)
    });
    /// Measured flows with a deadline that [do not count](#unfinished-flows): it lies after the
    /// end of a run that left measured flows unfinished.
    DeadlineFlowsUnknown = flows("deadline_flows_unknown", "Deadline flows unknown", |run| {
        Some(run.deadlines.unknown as f64)
    });
    /// Measured flows.
    Flows = flows("flows", "Flows", |run| Some(run.measured().count() as f64))
        .places(&[Difference, Group]);
    /// Measured flows whose receiver got every byte.
    FlowsCompleted =
        flows("flows_completed", "Flows completed", |run| Some(run.ended_as(FlowStatus::Completed)))
            .places(&[Difference]);
    /// Measured flows that their sender gave up.
    FlowsAbandoned =
        flows("flows_abandoned", "Flows abandoned", |run| Some(run.ended_as(FlowStatus::Abandoned)))
            .column(Dispensable(6), Nonzero);
    /// Measured flows that had not ended when the run did.
    FlowsUnfinished = flows("flows_unfinished", "Flows unfinished", |run| {
        Some(run.ended_as(FlowStatus::Unfinished))
    })
    .column(Dispensable(0), Nonzero).places(&[Sweep, Difference]);
    /// Flows that are not measured: background and endless flows, and flows that started outside
    /// the measured window.
    BackgroundFlows = flows("background_flows", "Background flows", |run| {
        Some((run.flows.len() - run.measured().count()) as f64)
    });
    /// Mean flow completion time.
    FctMean = fct("fct_mean_us", "FCT mean", Mean)
        .column(Dispensable(1), Always).places(&[Sweep, Plot, Difference]);
    /// Median flow completion time.
    FctP50 = fct("fct_p50_us", "FCT p50", Percentile(500))
        .column(Dispensable(5), Always).places(&[Plot, Difference, Group]);
    /// 90th percentile of the flow completion time.
    FctP90 = fct("fct_p90_us", "FCT p90", Percentile(900)).column(Wide, Always).places(&[Plot]);
    /// 95th percentile of the flow completion time.
    FctP95 = fct("fct_p95_us", "FCT p95", Percentile(950)).column(Wide, Always).places(&[Plot]);
    /// 99th percentile of the flow completion time.
    FctP99 = fct("fct_p99_us", "FCT p99", Percentile(990))
        .column(Dispensable(0), Always).places(&[Plot, Difference, Group]);
    /// Longest flow completion time.
    FctMax = fct("fct_max_us", "FCT max", Percentile(1000)).places(&[Sweep, Plot, Difference]);
    /// Mean slowdown: completion time over the completion time on an empty network.
    SlowdownMean = slowdown("slowdown_mean", "Slowdown mean", Mean);
    /// Median slowdown.
    SlowdownP50 = slowdown("slowdown_p50", "Slowdown p50", Percentile(500));
    /// 95th percentile of the slowdown.
    SlowdownP95 = slowdown("slowdown_p95", "Slowdown p95", Percentile(950)).column(Wide, Always);
    /// 99th percentile of the slowdown.
    SlowdownP99 = slowdown("slowdown_p99", "Slowdown p99", Percentile(990))
        .column(Dispensable(3), Always).places(&[Plot, Difference]);
    /// Data bytes delivered for the first time, background included, per time measured.
    Goodput =
        Definition::new("goodput_gbps", "Goodput", Unit::Gbps, Source::Run(|run| run.goodput_gbps()))
            .better(Higher).interval(StudentT).places(&[Difference]);
    /// Bytes of data packets that reached their receiver, headers included, over what the links
    /// into all hosts that receive a flow in the measured window could carry in that time. Every
    /// such host counts alike, however little is sent to it: where one of ten hosts receives all that its
    /// link carries and the others next to nothing, it is 10 %. `ports.parquet` has the
    /// utilisation of each link.
    Utilisation = share("utilisation", "Utilisation", |run| run.utilisation())
        .of_network().column(Dispensable(4), Always).places(&[Plot]);
    /// Jain's index over the bytes that background and endless flows delivered in the measured
    /// window: 1 when all got the same. Null below two such flows.
    Fairness = share("fairness", "Fairness", |run| run.fairness());
    /// Packets dropped by a full queue.
    Drops = packets("drops", "Drops", |run| Some(run.totals.drops as f64))
        .better(Lower).column(Dispensable(2), Packets).places(&[Difference]);
    /// Packets lost on a link.
    Losses = packets("losses", "Losses", |run| Some(run.totals.losses as f64)).better(Lower);
    /// Packets trimmed to their header.
    Trims = packets("trims", "Trims", |run| Some(run.totals.trims as f64))
        .column(Dispensable(7), Packets).places(&[Difference]);
    /// Headers returned to their sender.
    Bounces = packets("bounces", "Bounces", |run| Some(run.totals.bounces as f64));
    /// Packets ECN-marked.
    Marks = packets("marks", "Marks", |run| Some(run.totals.marks as f64));
    /// Times that a lossless switch paused a link for a class.
    Pauses = packets("pauses", "Pauses", |run| Some(run.totals.pauses as f64));
    /// Time that ports were paused, summed over ports.
    Paused = network("paused_us", "Paused", Unit::Micros, |run| {
        Some(run.totals.paused.as_secs_f64() * 1e6)
    })
    .of_packets();
    /// Longest time that a port was paused without a break, in the whole run: a pause that
    /// crosses a border of the measured window is not cut there.
    LongestPause = network("longest_pause_us", "Longest pause", Unit::Micros, |run| {
        Some(run.totals.longest_pause.as_secs_f64() * 1e6)
    })
    .of_packets();
    /// Most bytes that the buffer of any lossless switch held, in the whole run.
    MostBuffered = network("most_buffered_bytes", "Most buffered", Unit::Bytes, |run| {
        Some(run.totals.most_buffered.get() as f64)
    })
    .of_packets();
    /// Data packets sent again, background included.
    Retransmits =
        flows("retransmits", "Retransmits", |run| Some(run.sum(|counts| counts.retransmits)))
            .better(Lower).interval(StudentT).of_packets().column(Wide, Nonzero);
    /// Packets of `retransmits` sent again after a NACK.
    RetransmitsNack = flows("retransmits_nack", "Retransmits NACK", |run| {
        Some(run.sum(|counts| counts.retransmits_by.nack))
    })
    .of_packets().column(Wide, Nonzero);
    /// Packets of `retransmits` sent again after a switch returned their header.
    RetransmitsBounce = flows("retransmits_bounce", "Retransmits bounce", |run| {
        Some(run.sum(|counts| counts.retransmits_by.bounce))
    })
    .of_packets().column(Wide, Nonzero);
    /// Packets of `retransmits` sent again after a timeout, of the sender or the receiver.
    RetransmitsTimeout = flows("retransmits_timeout", "Retransmits timeout", |run| {
        Some(run.sum(|counts| counts.retransmits_by.timeout))
    })
    .of_packets().column(Wide, Nonzero);
    /// Packets of `retransmits` sent again after acknowledgements of later packets.
    RetransmitsDuplicateAck = flows("retransmits_duplicate_ack", "Retransmits duplicate ACK", |run| {
        Some(run.sum(|counts| counts.retransmits_by.duplicate_ack))
    })
    .of_packets().column(Wide, Nonzero);
    /// Retransmission timers that fired, background included.
    Timeouts = flows("timeouts", "Timeouts", |run| Some(run.sum(|counts| counts.timeouts)))
        .better(Lower).interval(StudentT).of_packets().places(&[Difference]);
    /// Requests for a rate by which to meet a deadline, at every port; with D3's
    /// `count_inversions = true`, 0 otherwise.
    DeadlineRequests = network("deadline_requests", "Deadline requests", Unit::Count, |run| {
        Some(run.totals.deadline_requests as f64)
    })
    .of_packets();
    /// Requests of `deadline_requests` that were cut while a flow with a later deadline held a
    /// grant at that port.
    PriorityInversions = network("priority_inversions", "Priority inversions", Unit::Count, |run| {
        Some(run.totals.priority_inversions as f64)
    })
    .of_packets();
    /// Events that the simulator processed.
    Events = network("events", "Events", Unit::Count, |run| Some(run.totals.events as f64));
    /// Packets that left an output port, host NICs included.
    PacketHops = network("packet_hops", "Packet hops", Unit::Count, |run| {
        Some(run.totals.packet_hops as f64)
    })
    .of_packets();
    /// Simulated time at the end of the run.
    Simulated = network("simulated_seconds", "Simulated", Unit::Seconds, |run| {
        Some(run.totals.ended_at.as_secs_f64())
    });
    /// Length of the measured window.
    Measured = network("measured_seconds", "Measured", Unit::Seconds, |run| {
        Some(run.totals.measured_time().as_secs_f64())
    });
}

impl Metric {
    /// Its entry in the table of metrics.
    pub fn definition(self) -> &'static Definition {
        &DEFINITIONS[self as usize]
    }

    /// Name of its field in `summary.json`.
    pub fn name(self) -> &'static str {
        self.definition().name
    }

    /// Its title in tables and the report.
    pub fn title(self) -> &'static str {
        self.definition().title
    }

    /// Its title with its unit in brackets, as in `FCT p99 (µs)`.
    pub fn title_with_unit(self) -> String {
        match self.unit().symbol() {
            "" => self.title().to_owned(),
            symbol => format!("{} ({symbol})", self.title()),
        }
    }

    /// Its unit.
    pub fn unit(self) -> Unit {
        self.definition().unit
    }

    /// Which values are better.
    pub fn better(self) -> Better {
        self.definition().better
    }

    /// The metric with a name.
    pub fn named(name: &str) -> Option<Metric> {
        Metric::ALL.iter().copied().find(|metric| metric.name() == name)
    }

    /// The metrics that a place shows, in order.
    pub fn shown_in(place: Place) -> impl Iterator<Item = Metric> + Clone {
        let is_shown = move |metric: &Metric| metric.definition().places.contains(&place);
        Metric::ALL.iter().copied().filter(is_shown)
    }

    /// Whether flows that were unfinished when the run ended can leave it open.
    pub fn is_left_open(self) -> bool {
        matches!(self.definition().source, Source::Fct(_) | Source::Slowdown(_))
    }

    /// Whether it is a percentile beyond the median that is the maximum of so few flows.
    pub(crate) fn is_maximum_of(self, flows: f64) -> bool {
        let (Source::Fct(take) | Source::Slowdown(take)) = self.definition().source else {
            return false;
        };
        let Percentile(per_mille @ 501..1000) = take else { return false };
        flows > 0.0 && flows * f64::from(1000 - per_mille) < 1000.0
    }

    /// Its value in one run.
    pub(crate) fn compute(self, run: &RunData<'_>) -> Figure {
        if self.definition().of_packets && run.is_of_flows() {
            return Figure::default();
        }
        let statistic = match self.definition().source {
            Source::Fct(take) => take.of(&run.fct),
            Source::Slowdown(take) => take.of(&run.slowdown),
            Source::Run(get) => return Figure::known(get(run), None),
        };
        let is_bound = matches!(statistic, Statistic::AtLeast(_));
        Figure { value: statistic.exact().or(statistic.bound()), is_bound, half_width: None }
    }

    /// Its mean over repetitions, with its interval. Percentiles are averaged, not taken again over
    /// all flows, so that the interval says how much repetitions differ. A mean over repetitions is
    /// a lower bound if the value of one of them is.
    fn combine<'a>(self, repetitions: impl Iterator<Item = &'a Metrics> + Clone) -> Figure {
        let figures = repetitions.clone().map(|one| one[self]);
        let is_bound = figures.clone().any(|figure| figure.is_bound);
        let values: Vec<f64> = figures.filter_map(|figure| figure.value).collect();
        let value = mean(&values);
        let half_width = match self.definition().interval {
            _ if is_bound => None,
            Interval::None => None,
            Interval::StudentT => half_width_95(&values),
            Interval::Share { .. } => {
                let interval = share_interval(&self.shares(repetitions), ALPHA);
                // The interval is not symmetric: its longer side.
                value.zip(interval).map(|(mean, (low, high))| (mean - low).max(high - mean))
            }
        };
        Figure { value, is_bound, half_width }
    }

    /// Its share in each repetition that has one; nothing if it is no share of flows.
    pub fn shares<'a>(self, repetitions: impl Iterator<Item = &'a Metrics>) -> Vec<ShareOf> {
        let Interval::Share { of, .. } = self.definition().interval else { return Vec::new() };
        let share =
            |one: &Metrics| Some(ShareOf { share: one[self].exact()?, flows: one.number(of) });
        repetitions.filter_map(share).collect()
    }

    /// Whether results by traffic class and by flow size record it: what their tables show, and
    /// what the intervals in those need.
    fn is_in_groups(self) -> bool {
        let is_part = |shown: Metric| match shown.definition().interval {
            Interval::Share { met, of, unknown } => [met, of, unknown].contains(&self),
            _ => false,
        };
        Metric::shown_in(Place::Group).any(|shown| shown == self || is_part(shown))
    }
}

/// The value of a metric.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figure {
    /// The value, or a lower bound of it; none when there is nothing to compute it from.
    pub value: Option<f64>,
    /// Whether `value` is only a lower bound.
    pub is_bound: bool,
    /// Half the width of its 95 % interval.
    pub half_width: Option<f64>,
}

impl Figure {
    /// A value that is known.
    pub fn known(value: Option<f64>, half_width: Option<f64>) -> Figure {
        Figure { value, is_bound: false, half_width }
    }

    /// A lower bound.
    pub fn at_least(bound: f64) -> Figure {
        Figure { value: Some(bound), is_bound: true, half_width: None }
    }

    /// The value, where it is known.
    pub fn exact(&self) -> Option<f64> {
        self.value.filter(|_| !self.is_bound)
    }

    /// The lower bound, where only that is known.
    pub fn bound(&self) -> Option<f64> {
        self.value.filter(|_| self.is_bound)
    }
}

/// The values of all metrics: of one run, of some of its flows, or means over repetitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Metrics(Box<[Figure; Metric::ALL.len()]>);

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics(Box::new([Figure::default(); Metric::ALL.len()]))
    }
}

impl Index<Metric> for Metrics {
    type Output = Figure;

    fn index(&self, metric: Metric) -> &Figure {
        &self.0[metric as usize]
    }
}

impl IndexMut<Metric> for Metrics {
    fn index_mut(&mut self, metric: Metric) -> &mut Figure {
        &mut self.0[metric as usize]
    }
}

impl Metrics {
    /// Of one run, or of some of its flows.
    pub(crate) fn of(run: &RunData<'_>) -> Metrics {
        Metrics::made_of(|metric| metric.compute(run))
    }

    /// Of some of a run's flows: those that results by traffic class and by flow size record.
    pub(crate) fn of_group(run: &RunData<'_>) -> Metrics {
        let figure = |metric: Metric| metric.is_in_groups().then(|| metric.compute(run));
        Metrics::made_of(|metric| figure(metric).unwrap_or_default())
    }

    /// Means over repetitions, with intervals.
    pub(crate) fn combine<'a>(repetitions: impl Iterator<Item = &'a Metrics> + Clone) -> Metrics {
        Metrics::made_of(|metric| metric.combine(repetitions.clone()))
    }

    /// Those of the network from `whole`, those of flows from `self`.
    pub(crate) fn within(self, whole: &Metrics) -> Metrics {
        Metrics::made_of(|metric| match metric.definition().scope {
            Scope::Network => whole[metric],
            Scope::Flows => self[metric],
        })
    }

    fn made_of(figure: impl Fn(Metric) -> Figure) -> Metrics {
        Metrics(Box::new(std::array::from_fn(|i| figure(Metric::ALL[i]))))
    }

    /// A value as a number: 0 where there is none.
    pub fn number(&self, metric: Metric) -> f64 {
        self[metric].value.unwrap_or(0.0)
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_some(self, Metric::ALL.iter().copied(), serializer)
    }
}

/// Serialises the metrics that results by traffic class and by flow size record.
pub(crate) fn serialize_group<S: Serializer>(
    metrics: &Metrics,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let grouped = Metric::ALL.iter().copied().filter(|metric| metric.is_in_groups());
    serialize_some(metrics, grouped, serializer)
}

fn serialize_some<S: Serializer>(
    metrics: &Metrics,
    some: impl Iterator<Item = Metric> + Clone,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for metric in some.clone() {
        let value = metrics[metric].exact();
        match metric.unit() {
            Unit::Count | Unit::Bytes => map.serialize_entry(metric.name(), &value.map(Whole))?,
            _ => map.serialize_entry(metric.name(), &value)?,
        }
    }
    let has_interval = |metric: &Metric| metric.definition().interval != Interval::None;
    let half_widths = some.clone().filter(has_interval);
    let half_widths = half_widths.map(|metric| (metric.name(), metrics[metric].half_width));
    map.serialize_entry(CI95, &half_widths.collect::<BTreeMap<_, _>>())?;
    let flows = metrics.number(Metric::Flows);
    let is_maximum =
        |metric: &Metric| metric.is_maximum_of(flows) && metrics[*metric].exact().is_some();
    let maxima: Vec<&str> = some.clone().filter(is_maximum).map(Metric::name).collect();
    let bounds = some.filter(|metric| metric.is_left_open());
    let bounds = bounds.map(|metric| (metric.name(), metrics[metric].bound()));
    map.serialize_entry(AT_LEAST, &bounds.collect::<BTreeMap<_, _>>())?;
    map.serialize_entry(MAXIMA, &maxima)?;
    map.end()
}

/// Field with the half widths of intervals.
const CI95: &str = "ci95";
/// Field with the lower bounds of values that unfinished flows leave open.
const AT_LEAST: &str = "at_least";

/// Field with the names of percentiles that are the maximum, because there are too few flows. It is
/// not read: it follows from the number of flows.
const MAXIMA: &str = "maxima";

/// A number that is written without fraction where it has none: a mean over repetitions may have.
struct Whole(f64);

impl Serialize for Whole {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const EXACT: f64 = (1u64 << 53) as f64;
        if (0.0..=EXACT).contains(&self.0) && self.0.fract() == 0.0 {
            serializer.serialize_u64(self.0 as u64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

/// Writes a count without fraction where it has none.
pub(crate) fn count<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Whole(*value).serialize(serializer)
}

impl<'de> Deserialize<'de> for Metrics {
    /// Metrics that the file does not have, because an earlier version wrote it, have no value.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metrics, D::Error> {
        deserializer.deserialize_map(MetricsVisitor)
    }
}

struct MetricsVisitor;

impl<'de> Visitor<'de> for MetricsVisitor {
    type Value = Metrics;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object with metrics")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metrics, A::Error> {
        type Fields = BTreeMap<String, Option<f64>>;
        let (mut metrics, mut half_widths, mut bounds) =
            (Metrics::default(), Fields::new(), Fields::new());
        while let Some(field) = map.next_key::<String>()? {
            match (&*field, Metric::named(&field)) {
                (_, Some(metric)) => metrics[metric].value = map.next_value()?,
                (CI95, _) => half_widths = map.next_value()?,
                (AT_LEAST, _) => bounds = map.next_value()?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        let known = |(name, value): (String, Option<f64>)| Metric::named(&name).zip(value);
        for (metric, half_width) in half_widths.into_iter().filter_map(known) {
            metrics[metric].half_width = Some(half_width);
        }
        for (metric, bound) in bounds.into_iter().filter_map(known) {
            metrics[metric] = Figure::at_least(bound);
        }
        Ok(metrics)
    }
}

impl Index<Metric> for Summary {
    type Output = Figure;

    fn index(&self, metric: Metric) -> &Figure {
        &self.metrics[metric]
    }
}

impl IndexMut<Metric> for Summary {
    fn index_mut(&mut self, metric: Metric) -> &mut Figure {
        &mut self.metrics[metric]
    }
}

/// The table of metrics in Markdown, for `docs/results.md`.
pub fn reference() -> String {
    let mut text = "| field | title | unit | better | interval | meaning |\n\
                    |---|---|---|---|---|---|\n"
        .to_owned();
    for metric in Metric::ALL {
        let Definition { name, title, unit, better, interval, doc, .. } = metric.definition();
        let unit = match unit {
            Unit::Share => "share",
            unit => unit.symbol(),
        };
        let better = match better {
            Lower => "lower",
            Higher => "higher",
            Better::Neither => "",
        };
        let interval = match interval {
            Interval::None => "",
            StudentT => "t",
            Interval::Share { .. } => "Wilson",
        };
        let open = if metric.is_left_open() { " †" } else { "" };
        text += &format!(
            "| `{name}`{open} | {title} | {unit} | {better} | {interval} | {} |\n",
            doc.trim()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_is_the_name_in_words() {
        for metric in Metric::ALL {
            let Definition { name, title, unit, .. } = metric.definition();
            let words = title.to_lowercase().replace(' ', "_");
            assert_eq!(format!("{words}{}", unit.suffix()), *name, "{title}");
            assert!(title.starts_with(char::is_uppercase), "{title}");
        }
    }

    #[test]
    fn the_table_is_in_the_order_of_the_enum_and_names_differ() {
        for (i, metric) in Metric::ALL.iter().enumerate() {
            assert_eq!(*metric as usize, i);
            assert_eq!(Metric::named(metric.name()), Some(*metric));
            assert!(metric.definition().doc.trim().ends_with('.'), "{metric:?}");
        }
    }

    #[test]
    fn a_tail_percentile_of_few_flows_is_their_maximum() {
        assert!(Metric::FctP99.is_maximum_of(99.0) && Metric::SlowdownP99.is_maximum_of(12.0));
        assert!(!Metric::FctP99.is_maximum_of(100.0) && !Metric::FctP99.is_maximum_of(0.0));
        assert!(!Metric::FctP50.is_maximum_of(1.0) && !Metric::FctMax.is_maximum_of(5.0));
        assert!(!Metric::Drops.is_maximum_of(5.0));
    }
}
