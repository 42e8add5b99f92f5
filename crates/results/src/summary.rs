//! A run, or several repetitions of one, in one object.

use crate::LatencySummary;
use serde::{Deserialize, Serialize, Serializer};

/// What stands behind a run's numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunKind {
    /// Packets, simulated.
    #[default]
    Packets,
    /// An ideal scheduler of whole flows: no packets, no delays, all knowledge.
    Ideal,
    /// The ideal scheduler that meets the most deadlines possible.
    Optimum,
    /// No schedule at all: of the deadlines no scheduler can meet more, and no flow can be faster.
    Bound,
}

impl RunKind {
    /// In words.
    pub fn about(self) -> &'static str {
        match self {
            RunKind::Packets => "packets, simulated",
            RunKind::Ideal => "ideal",
            RunKind::Optimum => "ideal, the exact optimum",
            RunKind::Bound => "ideal, an upper bound that no schedule need reach",
        }
    }
}

/// A run, or several repetitions of one, in one object: `summary.json`, and what the command line
/// prints under `--json`. Field names are stable.
///
/// Every number is of one repetition; for several it is the mean over those repetitions that have
/// it, counts and percentiles included. Completion times, slowdowns and deadlines are those of
/// measured flows: flows with an end that are not background and started in the measured window.
/// What the network did (goodput, utilisation, drops …) is counted within that window. A percentile
/// is the nearest rank: the smallest value that at least that share of the measured flows do not
/// exceed. A number that does not exist (no flow had a deadline, none completed …) is `null`.
///
/// A flow that is unfinished when the run ends is censored: it takes at least as long as it was
/// under way. Where that leaves a completion time or slowdown open, the number is `null` and
/// [`at_least`](Self::at_least) has a lower bound of it. [`Summary::figure`] gives either.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the transport, or of the mix of transports.
    pub transport: String,
    /// Whether packets were simulated, or what an ideal scheduler's numbers are.
    pub kind: RunKind,
    /// Number of repetitions.
    pub repetitions: u32,
    /// Seed of every repetition.
    pub seeds: Vec<u64>,
    /// Simulated time at the end, in seconds.
    pub simulated_seconds: f64,
    /// Time that was measured, in seconds.
    #[serde(default)]
    pub measured_seconds: f64,
    /// Measured flows.
    #[serde(serialize_with = "count")]
    pub flows: f64,
    /// Measured flows whose receiver got every byte.
    #[serde(serialize_with = "count")]
    pub flows_completed: f64,
    /// Measured flows that their sender gave up.
    #[serde(serialize_with = "count")]
    pub flows_abandoned: f64,
    /// Measured flows cut off by the end of the run.
    #[serde(serialize_with = "count")]
    pub flows_unfinished: f64,
    /// Flows that are not measured: background and endless ones, and those that started outside the
    /// measured window.
    #[serde(serialize_with = "count")]
    pub background_flows: f64,
    /// Measured flows with a deadline whose outcome is known. When measured flows are unfinished,
    /// flows with a deadline after the end of the run are not among them, finished or not.
    #[serde(serialize_with = "count")]
    pub deadline_flows: f64,
    /// Those that were on time.
    #[serde(serialize_with = "count")]
    pub deadline_flows_met: f64,
    /// Those that were late, or not there when their deadline and the run were over.
    #[serde(serialize_with = "count")]
    pub deadline_flows_late: f64,
    /// Those that their sender gave up: quenched or terminated.
    #[serde(serialize_with = "count")]
    pub deadline_flows_abandoned: f64,
    /// Measured flows with a deadline that are not among `deadline_flows`, as it lies after the end
    /// of a run that left measured flows unfinished.
    #[serde(default, serialize_with = "count")]
    pub deadline_flows_unknown: f64,
    /// Share of `deadline_flows` that were on time, 0 to 1.
    pub deadlines_met: Option<f64>,
    /// Mean flow completion time, in microseconds.
    pub fct_mean_us: Option<f64>,
    /// Median flow completion time, in microseconds.
    pub fct_p50_us: Option<f64>,
    /// 99th percentile of the flow completion time, in microseconds.
    pub fct_p99_us: Option<f64>,
    /// Longest flow completion time, in microseconds.
    pub fct_max_us: Option<f64>,
    /// Mean slowdown: completion time over that on an empty network.
    pub slowdown_mean: Option<f64>,
    /// Median slowdown.
    pub slowdown_p50: Option<f64>,
    /// 99th percentile of the slowdown.
    pub slowdown_p99: Option<f64>,
    /// Data bytes delivered for the first time, background included, over the time measured, in
    /// gigabits per second.
    pub goodput_gbps: Option<f64>,
    /// Bytes of data packets delivered, headers included, over the capacity of the links into all
    /// hosts that receive a flow, 0 to 1.
    pub utilisation: Option<f64>,
    /// Packets dropped by a full queue.
    #[serde(serialize_with = "count")]
    pub drops: f64,
    /// Packets trimmed.
    #[serde(serialize_with = "count")]
    pub trims: f64,
    /// Headers returned to their sender.
    #[serde(serialize_with = "count")]
    pub bounces: f64,
    /// Packets ECN-marked.
    #[serde(serialize_with = "count")]
    pub marks: f64,
    /// Times that a link was paused.
    #[serde(serialize_with = "count")]
    pub pauses: f64,
    /// Time that ports were paused, summed over ports, in microseconds.
    #[serde(default)]
    pub paused_us: f64,
    /// The longest that a port was paused at a stretch, in microseconds.
    #[serde(default)]
    pub longest_pause_us: f64,
    /// The most that the buffer of any lossless switch held.
    #[serde(default, serialize_with = "count")]
    pub most_buffered_bytes: f64,
    /// Circles of ports each of which was paused for what the next held, in words, of all
    /// repetitions: deadlocks, which never end, and others.
    #[serde(default)]
    pub pause_cycles: Vec<String>,
    /// Packets lost on a link.
    #[serde(serialize_with = "count")]
    pub losses: f64,
    /// Packets of data sent again, background included.
    #[serde(serialize_with = "count")]
    pub retransmits: f64,
    /// Those of `retransmits` that followed a NACK.
    #[serde(default, serialize_with = "count")]
    pub retransmits_nack: f64,
    /// Those of `retransmits` that followed a header returned by a switch.
    #[serde(default, serialize_with = "count")]
    pub retransmits_bounce: f64,
    /// Those of `retransmits` that followed a timeout, of the sender or the receiver.
    #[serde(default, serialize_with = "count")]
    pub retransmits_timeout: f64,
    /// Those of `retransmits` that followed acknowledgements of later packets.
    #[serde(default, serialize_with = "count")]
    pub retransmits_duplicate_ack: f64,
    /// Retransmission timers fired, background included.
    #[serde(serialize_with = "count")]
    pub timeouts: f64,
    /// Events handled by the simulator.
    #[serde(serialize_with = "count")]
    pub events: f64,
    /// Packets that left an output port, host NICs included.
    #[serde(serialize_with = "count")]
    pub packet_hops: f64,
    /// Requests for a rate by which to meet a deadline, at every port; 0 unless ports count
    /// inversions.
    #[serde(default, serialize_with = "count")]
    pub deadline_requests: f64,
    /// Those of them that were cut while a flow with a later deadline held a grant at that port.
    #[serde(default, serialize_with = "count")]
    pub priority_inversions: f64,
    /// Jain's index over the bytes delivered for background and endless flows, 1 when all got the
    /// same; null below two such flows.
    pub fairness: Option<f64>,
    /// Latency of data packets by transport; absent unless `run.packet_latency` asks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packet_latency: Vec<LatencySummary>,
    /// Half widths of 95 % intervals.
    pub ci95: Ci95,
    /// Lower bounds of numbers that unfinished flows leave open.
    #[serde(default)]
    pub at_least: AtLeast,
}

/// A column of a summary as it can be shown or judged.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figure {
    /// The number, or a lower bound of it; none when there is nothing to take it of.
    pub value: Option<f64>,
    /// Whether `value` is only a lower bound.
    pub is_bound: bool,
    /// Half the width of its 95 % interval.
    pub half_width: Option<f64>,
}

impl Figure {
    /// A number that is known.
    pub fn known(value: Option<f64>, half_width: Option<f64>) -> Figure {
        Figure { value, is_bound: false, half_width }
    }

    fn bounded(value: Option<f64>, at_least: Option<f64>, half_width: Option<f64>) -> Figure {
        let is_bound = value.is_none() && at_least.is_some();
        Figure { value: value.or(at_least), is_bound, half_width }
    }

    /// The number where it is known.
    pub fn exact(&self) -> Option<f64> {
        self.value.filter(|_| !self.is_bound)
    }
}

/// Flows from which on the 99th percentile is not the maximum.
const P99_FROM: f64 = 100.0;

macro_rules! figures {
    (bounded: $($bounded:ident)*; optional: $($optional:ident)*;
     counts: $($count:ident)*; bare: $($bare:ident)*) => {
        impl Summary {
            /// Names of all columns that are numbers.
            pub const FIGURES: &[&str] = &[
                $(stringify!($bounded),)* $(stringify!($optional),)*
                $(stringify!($count),)* $(stringify!($bare),)*
            ];

            /// The column of that name; nothing where no column of numbers has that name.
            pub fn figure(&self, column: &str) -> Figure {
                let (at_least, half) = (&self.at_least, &self.ci95);
                match column {
                    $(stringify!($bounded) => {
                        Figure::bounded(self.$bounded, at_least.$bounded, half.$bounded)
                    })*
                    $(stringify!($optional) => Figure::known(self.$optional, half.$optional),)*
                    $(stringify!($count) => Figure::known(Some(self.$count), half.$count),)*
                    $(stringify!($bare) => Figure::known(Some(self.$bare), None),)*
                    _ => Figure::default(),
                }
            }
        }
    };
}

figures!(
    bounded: fct_mean_us fct_p50_us fct_p99_us fct_max_us slowdown_mean slowdown_p50 slowdown_p99;
    optional: deadlines_met goodput_gbps utilisation fairness;
    counts: drops trims bounces marks pauses losses retransmits timeouts;
    bare: simulated_seconds measured_seconds flows flows_completed flows_abandoned flows_unfinished background_flows
        deadline_flows deadline_flows_met deadline_flows_late deadline_flows_abandoned
        deadline_flows_unknown paused_us longest_pause_us most_buffered_bytes events packet_hops
        deadline_requests priority_inversions retransmits_nack retransmits_bounce
        retransmits_timeout retransmits_duplicate_ack
);

impl Summary {
    /// Whether a column is a 99th percentile of so few flows that it is their maximum.
    pub fn is_maximum(&self, column: &str) -> bool {
        column.contains("_p99") && self.flows > 0.0 && self.flows < P99_FROM
    }

    /// Its name in tables and figures. What is ideal, or a bound, says so.
    pub fn title(&self) -> String {
        title(&self.transport, self.kind)
    }

    /// Whether an ideal scheduler stands behind it.
    pub fn is_ideal(&self) -> bool {
        self.kind != RunKind::Packets
    }
}

/// A transport's name in tables and figures.
pub fn title(transport: &str, kind: RunKind) -> String {
    match kind {
        RunKind::Optimum => format!("{transport} (ideal)"),
        RunKind::Bound => format!("{transport} (bound)"),
        // Others have it in their names.
        RunKind::Packets | RunKind::Ideal => transport.to_owned(),
    }
}

/// Half widths of the 95 % intervals of the fields of the same name in [`Summary`]; null below two
/// repetitions, and for a field of which there is only a lower bound. They are Student's t over
/// the repetitions but for the share of deadlines met, see
/// [`share_interval`](crate::share_interval).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Ci95 {
    /// Of the share of deadlines met: the longer side of its interval, which is not symmetric.
    pub deadlines_met: Option<f64>,
    /// Of the mean completion time, in microseconds.
    pub fct_mean_us: Option<f64>,
    /// Of the median completion time, in microseconds.
    pub fct_p50_us: Option<f64>,
    /// Of the 99th percentile of the completion time, in microseconds.
    pub fct_p99_us: Option<f64>,
    /// Of the longest completion time, in microseconds.
    pub fct_max_us: Option<f64>,
    /// Of the mean slowdown.
    pub slowdown_mean: Option<f64>,
    /// Of the median slowdown.
    pub slowdown_p50: Option<f64>,
    /// Of the 99th percentile of the slowdown.
    pub slowdown_p99: Option<f64>,
    /// Of the goodput, in gigabits per second.
    pub goodput_gbps: Option<f64>,
    /// Of the utilisation.
    pub utilisation: Option<f64>,
    /// Of the drops.
    pub drops: Option<f64>,
    /// Of the trims.
    pub trims: Option<f64>,
    /// Of the bounces.
    pub bounces: Option<f64>,
    /// Of the marks.
    pub marks: Option<f64>,
    /// Of the pauses.
    pub pauses: Option<f64>,
    /// Of the losses.
    pub losses: Option<f64>,
    /// Of the retransmits.
    pub retransmits: Option<f64>,
    /// Of the timeouts.
    pub timeouts: Option<f64>,
    /// Of the fairness.
    pub fairness: Option<f64>,
}

/// Lower bounds of the fields of the same name in [`Summary`]; null where the number is known, and
/// where there is nothing to take it of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct AtLeast {
    /// Of the mean completion time, in microseconds.
    pub fct_mean_us: Option<f64>,
    /// Of the median completion time, in microseconds.
    pub fct_p50_us: Option<f64>,
    /// Of the 99th percentile of the completion time, in microseconds.
    pub fct_p99_us: Option<f64>,
    /// Of the longest completion time, in microseconds.
    pub fct_max_us: Option<f64>,
    /// Of the mean slowdown.
    pub slowdown_mean: Option<f64>,
    /// Of the median slowdown.
    pub slowdown_p50: Option<f64>,
    /// Of the 99th percentile of the slowdown.
    pub slowdown_p99: Option<f64>,
}

/// A count is written as a whole number where it is one: a mean over repetitions need not be.
pub(crate) fn count<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    const EXACT: f64 = (1u64 << 53) as f64;
    if (0.0..=EXACT).contains(value) && value.fract() == 0.0 {
        serializer.serialize_u64(*value as u64)
    } else {
        serializer.serialize_f64(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_are_stable() {
        let json = serde_json::to_value(Summary::default()).unwrap();
        let mut names: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
        names.sort();
        let expected = "at_least background_flows bounces ci95 deadline_flows \
            deadline_flows_abandoned deadline_flows_late deadline_flows_met \
            deadline_flows_unknown deadline_requests \
            deadlines_met drops events \
            fairness fct_max_us fct_mean_us fct_p50_us fct_p99_us flows flows_abandoned \
            flows_completed flows_unfinished goodput_gbps kind longest_pause_us losses marks \
            measured_seconds \
            most_buffered_bytes packet_hops pause_cycles paused_us pauses \
            priority_inversions repetitions \
            retransmits retransmits_bounce retransmits_duplicate_ack retransmits_nack \
            retransmits_timeout seeds simulated_seconds slowdown_mean slowdown_p50 slowdown_p99 timeouts \
            transport trims utilisation";
        assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn every_number_is_a_figure() {
        let json = serde_json::to_value(Summary::default()).unwrap();
        let no_number = ["transport", "kind", "repetitions", "seeds", "pause_cycles"];
        let names = json.as_object().unwrap().keys().map(String::as_str);
        let mut expected: Vec<&str> = names
            .filter(|name| !no_number.contains(name) && !["ci95", "at_least"].contains(name))
            .collect();
        let mut figures = Summary::FIGURES.to_vec();
        expected.sort_unstable();
        figures.sort_unstable();
        assert_eq!(figures, expected);
    }

    #[test]
    fn a_bound_is_told_from_a_number() {
        let mut summary = Summary { fct_p50_us: Some(4.0), ..Summary::default() };
        summary.at_least.fct_p99_us = Some(9.0);
        assert_eq!(summary.figure("fct_p50_us").exact(), Some(4.0));
        let tail = summary.figure("fct_p99_us");
        assert_eq!((tail.value, tail.is_bound, tail.exact()), (Some(9.0), true, None));
        assert_eq!(summary.figure("fct_max_us"), Figure::default());
    }

    #[test]
    fn p99_of_fewer_than_100_flows_is_the_maximum() {
        let of = |flows| Summary { flows, ..Summary::default() };
        assert!(of(99.0).is_maximum("fct_p99_us") && of(12.0).is_maximum("slowdown_p99"));
        assert!(!of(100.0).is_maximum("fct_p99_us") && !of(12.0).is_maximum("fct_p50_us"));
    }

    #[test]
    fn counts_are_whole_where_they_can_be() {
        let summary = Summary { flows: 3.0, drops: 2.5, ..Summary::default() };
        let json = serde_json::to_string(&summary).unwrap();
        assert!(json.contains("\"flows\":3,") && json.contains("\"drops\":2.5,"), "{json}");
        assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
    }
}
