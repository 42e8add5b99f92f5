//! The metrics of a run, or of several repetitions of one, in one object.

use crate::{LatencySummary, Metric, Metrics, metrics};
use serde::{Deserialize, Serialize};

/// How the numbers of a run were obtained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunKind {
    /// Simulation of packets.
    #[default]
    Packets,
    /// Real packets on a testbed.
    Testbed,
    /// Simulation of whole flows with a transport's model at flow level.
    Flows,
    /// An ideal scheduler of whole flows: it knows all flows in advance and has no packets and no
    /// delays.
    Ideal,
    /// The ideal scheduler that meets the most deadlines possible.
    Optimum,
    /// A bound, not a schedule: no scheduler can meet more deadlines, and no flow can be faster.
    Bound,
}

impl RunKind {
    /// Description in words.
    pub fn about(self) -> &'static str {
        match self {
            RunKind::Packets => "packets, simulated",
            RunKind::Testbed => "real packets",
            RunKind::Flows => "flow level",
            RunKind::Ideal => "ideal",
            RunKind::Optimum => "ideal, the exact optimum",
            RunKind::Bound => "ideal, an upper bound that no schedule need reach",
        }
    }
}

/// A run, or several repetitions of one, in one object: `summary.json`, and what the command line
/// prints under `--json`. Field names are stable.
///
/// Every number is the value of one repetition; for several repetitions it is the mean over those
/// that have a value, counts and percentiles included. Completion times, slowdowns and deadlines
/// are those of measured flows: flows with an end that are not background and started in the
/// measured window. Metrics of the network (utilisation, drops …) are counted within that window.
/// A percentile is the nearest rank: the smallest value that at least that share of the measured
/// flows do not exceed. A metric without a value (no flow had a deadline, none completed …) is
/// `null`.
///
/// A flow that is unfinished when the run ends is censored: it takes at least as long as it was
/// under way. Where that leaves a completion time or slowdown open, the metric is `null` and
/// `at_least` has a lower bound of it. `summary[metric]` gives either.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the transport, or of the mix of transports.
    pub transport: String,
    /// How the numbers were obtained.
    pub kind: RunKind,
    /// Number of repetitions.
    pub repetitions: u32,
    /// Seed of every repetition.
    pub seeds: Vec<u64>,
    /// The value of every metric, with intervals (`ci95`) and lower bounds (`at_least`).
    #[serde(flatten)]
    pub metrics: Metrics,
    /// PFC pause cycles of all repetitions, in words: deadlocks, which never end, and others.
    #[serde(default)]
    pub pause_cycles: Vec<String>,
    /// Why the timing of a run on a testbed cannot be trusted; empty for valid runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timing_problems: Vec<String>,
    /// Some metrics of the measured flows of each `[[traffic]]`.
    #[serde(default)]
    pub by_traffic: Vec<Group>,
    /// Some metrics of the measured flows of each range of sizes, see [`SIZE_BINS`].
    #[serde(default)]
    pub by_size: Vec<Group>,
    /// Latency of data packets by transport; absent unless `run.packet_latency` asks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packet_latency: Vec<LatencySummary>,
}

/// Some metrics of some of a run's flows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Name of the traffic class or of the range of sizes.
    pub name: String,
    /// The values; metrics that are not recorded for groups have none.
    #[serde(flatten, serialize_with = "metrics::serialize_group")]
    pub metrics: Metrics,
}

/// The ranges of flow sizes: the name of each, and the smallest size in bytes that belongs to it.
pub const SIZE_BINS: [(&str, u64); 4] =
    [("<10KB", 0), ("10KB-100KB", 10_000), ("100KB-1MB", 100_000), (">=1MB", 1_000_000)];

impl Summary {
    /// A metric as a number: 0 where it has no value.
    pub fn number(&self, metric: Metric) -> f64 {
        self.metrics.number(metric)
    }

    /// A copy in which a metric has this exact value.
    #[must_use]
    pub fn with(mut self, metric: Metric, value: f64) -> Summary {
        self[metric].value = Some(value);
        Summary { metrics: self.metrics.with_maxima_marked(), ..self }
    }

    /// Its name in tables and figures. An optimum or bound says so.
    pub fn title(&self) -> String {
        title(&self.transport, self.kind)
    }

    /// Whether it is of an ideal scheduler.
    pub fn is_ideal(&self) -> bool {
        !matches!(self.kind, RunKind::Packets | RunKind::Testbed | RunKind::Flows)
    }
}

/// A transport's name in tables and figures.
pub fn title(transport: &str, kind: RunKind) -> String {
    match kind {
        RunKind::Optimum => format!("{transport} (ideal)"),
        RunKind::Bound => format!("{transport} (bound)"),
        // Names of ideal schedulers say that they are ideal.
        RunKind::Packets | RunKind::Testbed | RunKind::Flows | RunKind::Ideal => {
            transport.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Figure;

    #[test]
    fn kinds_have_titles_and_only_schedulers_are_ideal() {
        let kinds = [
            (RunKind::Packets, "edf", false),
            (RunKind::Testbed, "edf", false),
            (RunKind::Flows, "edf", false),
            (RunKind::Ideal, "edf", true),
            (RunKind::Optimum, "edf (ideal)", true),
            (RunKind::Bound, "edf (bound)", true),
        ];
        for (kind, title, is_ideal) in kinds {
            let summary = Summary { transport: "edf".into(), kind, ..Summary::default() };
            assert_eq!((&*summary.title(), summary.is_ideal()), (title, is_ideal), "{kind:?}");
            assert_eq!(kind.about().starts_with("ideal"), is_ideal, "{kind:?}");
        }
        let about: std::collections::BTreeSet<_> = kinds.iter().map(|(k, ..)| k.about()).collect();
        assert_eq!(about.len(), kinds.len(), "each has words of its own");
    }

    #[test]
    fn the_99th_percentile_of_fewer_than_100_flows_is_their_maximum() {
        assert!(Metric::FctP99.is_maximum_of(99.0) && !Metric::FctP99.is_maximum_of(100.0));
        assert!(!Metric::FctP50.is_maximum_of(99.0) && !Metric::FctP99.is_maximum_of(0.0));
    }

    #[test]
    fn field_names_are_stable() {
        let json = serde_json::to_value(Summary::default()).unwrap();
        // Fields that were published stay; a new metric adds a field.
        let published = "at_least background_flows bounces by_size by_traffic ci95 deadline_flows \
            deadline_flows_abandoned deadline_flows_late deadline_flows_met \
            deadline_flows_unknown deadline_requests \
            deadlines_met drops events \
            fairness fct_max_us fct_mean_us fct_p50_us fct_p90_us fct_p95_us fct_p99_us flows \
            flows_abandoned \
            flows_completed flows_unfinished goodput_gbps kind longest_pause_us losses marks \
            measured_seconds \
            maxima most_buffered_bytes packet_hops pause_cycles paused_us pauses \
            priority_inversions repetitions \
            retransmits seeds simulated_seconds slowdown_mean slowdown_p50 slowdown_p95 slowdown_p99 \
            timeouts transport trims utilisation";
        for name in published.split_whitespace() {
            assert!(json.get(name).is_some(), "{name}");
        }
        // Metrics that had an interval or a lower bound when the format was published keep it.
        let half_widths = "deadlines_met fct_mean_us fct_p50_us fct_p99_us fct_max_us \
            slowdown_mean slowdown_p50 slowdown_p99 goodput_gbps utilisation drops trims bounces \
            marks pauses losses retransmits timeouts fairness";
        let bounds = "fct_mean_us fct_p50_us fct_p99_us fct_max_us slowdown_mean slowdown_p50 \
            slowdown_p99";
        for (field, names) in [("ci95", half_widths), ("at_least", bounds)] {
            let fields = json[field].as_object().unwrap();
            assert!(names.split_whitespace().all(|name| fields.contains_key(name)), "{field}");
        }
    }

    #[test]
    fn a_bound_is_distinct_from_a_number() {
        let mut summary = Summary::default().with(Metric::FctP50, 4.0);
        summary[Metric::FctP99] = Figure::at_least(9.0);
        assert_eq!(summary[Metric::FctP50].exact(), Some(4.0));
        let tail = summary[Metric::FctP99];
        assert_eq!((tail.value, tail.is_bound, tail.exact()), (Some(9.0), true, None));
        assert_eq!(summary[Metric::FctMax], Figure::default());
        let json = serde_json::to_value(&summary).unwrap();
        assert!(json["fct_p99_us"].is_null() && json["at_least"]["fct_p99_us"] == 9.0, "{json}");
        assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), summary);
    }

    #[test]
    fn percentiles_of_too_few_flows_are_named() {
        let json = |flows: f64| {
            let summary = Summary::default().with(Metric::Flows, flows).with(Metric::FctP99, 9.0);
            let json = serde_json::to_value(&summary).unwrap();
            assert_eq!(serde_json::from_value::<Summary>(json.clone()).unwrap(), summary);
            json["maxima"].clone()
        };
        assert_eq!(json(100.0), serde_json::json!([]));
        assert_eq!(json(40.0), serde_json::json!(["fct_p99_us"]));
    }

    /// 97, 116 and 116 flows: the mean of their p99 has a maximum in it, although the mean number
    /// of flows is above 100.
    #[test]
    fn a_mean_with_one_maximum_is_marked() {
        let of =
            |flows| Summary { repetitions: 1, ..Summary::default() }.with(Metric::Flows, flows);
        let run = |flows| of(flows).with(Metric::FctP99, 9.0).with(Metric::FctP95, 8.0);
        let combined = |flows: [f64; 3]| crate::combine(&flows.map(run)).unwrap();
        let mixed = combined([97.0, 116.0, 116.0]);
        assert!(mixed[Metric::FctP99].is_maximum && !mixed[Metric::FctP95].is_maximum);
        assert!(!combined([100.0, 116.0, 116.0])[Metric::FctP99].is_maximum);
        let json = serde_json::to_value(&mixed).unwrap();
        assert_eq!(json["maxima"], serde_json::json!(["fct_p99_us"]));
        assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), mixed);

        // A lower bound is no maximum.
        let mut runs = [97.0, 116.0].map(run);
        runs[1][Metric::FctP99] = Figure::at_least(9.0);
        let open = crate::combine(&runs).unwrap()[Metric::FctP99];
        assert!(open.is_bound && !open.is_maximum, "{open:?}");
        let compared =
            crate::significance::compare(&runs, &[97.0, 116.0].map(run), Metric::FctP99).unwrap();
        assert!(!compared.a.is_maximum && compared.b.is_maximum, "{compared:?}");
    }

    #[test]
    fn counts_are_whole_where_they_can_be() {
        let summary = Summary::default()
            .with(Metric::Flows, 3.0)
            .with(Metric::Drops, 2.5)
            .with(Metric::Simulated, 1.0);
        let json = serde_json::to_string(&summary).unwrap();
        assert!(json.contains("\"flows\":3,") && json.contains("\"drops\":2.5,"), "{json}");
        assert!(json.contains("\"simulated_seconds\":1.0,"), "{json}");
        assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
    }

    #[test]
    fn a_summary_of_an_earlier_version_lacks_what_it_did_not_have() {
        let text = r#"{"transport": "ndp", "kind": "packets", "repetitions": 1, "seeds": [7],
            "flows": 3, "fct_p99_us": null, "gone": 5, "ci95": {"drops": 0.5, "gone": 1},
            "at_least": {"fct_p99_us": 9.5}, "drops": 2}"#;
        let summary: Summary = serde_json::from_str(text).unwrap();
        assert_eq!((&*summary.transport, &*summary.seeds), ("ndp", &[7][..]));
        assert_eq!(
            (summary.number(Metric::Flows), summary[Metric::Drops].half_width),
            (3.0, Some(0.5))
        );
        assert_eq!(summary[Metric::FctP99], Figure::at_least(9.5));
        assert_eq!(summary[Metric::Trims], Figure::default());
        assert!(serde_json::from_str::<Summary>(r#"{"transport": "ndp"}"#).is_err());
        assert!(
            serde_json::from_str::<Summary>(&text.replace("\"flows\": 3", "\"flows\": \"x\""))
                .is_err()
        );
    }

    #[test]
    fn groups_record_what_their_tables_and_intervals_need() {
        let json = serde_json::to_value(Group::default()).unwrap();
        let mut names: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
        names.sort();
        let expected = "at_least ci95 deadline_flows deadline_flows_met deadline_flows_unknown \
            deadlines_met fct_p50_us fct_p99_us flows maxima name";
        assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
    }
}
