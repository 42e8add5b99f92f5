//! Every metric of a run, declared once.
//!
//! The table below is the only place that knows a metric. From it
//! come `summary.json`, intervals, the tables and the report, sweeps, conditions of `capacity`,
//! `compare A B` and the reference in `docs/results.md`. To add a metric, add an entry and run
//! `cargo xtask figures metrics`.

mod definition;
mod values;

pub use definition::{Better, Column, Definition, Interval, Place, Scope, Unit, When};
pub use values::{Figure, Metrics};
pub(crate) use values::{count, serialize_group};

use crate::FlowStatus;
use crate::run_data::RunData;
use crate::share::{ShareOf, share_interval};
use crate::stats::{ALPHA, half_width_95, mean};
use crate::times::Statistic;
use definition::{Source, Take, fct, flows, network, packets, share, slowdown};

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
        let value = statistic.exact().or(statistic.bound());
        Figure { value, is_bound, ..Figure::default() }
    }

    /// Its mean over repetitions, with its interval. Percentiles are averaged, not taken again over
    /// all flows, so that the interval says how much repetitions differ. A mean over repetitions is
    /// a lower bound if the value of one of them is.
    pub(super) fn combine<'a>(
        self,
        repetitions: impl Iterator<Item = &'a Metrics> + Clone,
    ) -> Figure {
        let figures = repetitions.clone().map(|one| one[self]);
        let is_bound = figures.clone().any(|figure| figure.is_bound);
        let is_maximum = !is_bound && figures.clone().any(|figure| figure.is_maximum);
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
        Figure { value, is_bound, half_width, is_maximum }
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
