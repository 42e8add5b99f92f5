//! Latency of data packets in summaries.

use crate::FlowRow;
use crate::metrics::count;
use crate::stats::mean;
use punctual_record::Outcome;
use serde::{Deserialize, Serialize};

/// Latency of one transport's data packets: from the first transmission of a packet to the
/// acknowledgement of its data, retransmissions included. Written with `run.packet_latency`.
///
/// Packets count that were first sent in the measured window, and not for background flows.
/// Percentiles are read from a histogram with buckets 0.8 % wide, the maximum is exact.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Name of the transport.
    pub transport: String,
    /// Packets whose data were acknowledged.
    #[serde(serialize_with = "count")]
    pub packets: f64,
    /// Packets whose data were not acknowledged before the run, or their flow, ended. They have no
    /// time.
    #[serde(serialize_with = "count")]
    pub packets_unacked: f64,
    /// Median, in microseconds. Like the others it is null without packets.
    pub p50_us: Option<f64>,
    /// 90th percentile, in microseconds.
    pub p90_us: Option<f64>,
    /// 99th percentile, in microseconds.
    pub p99_us: Option<f64>,
    /// The longest, in microseconds.
    pub max_us: Option<f64>,
}

impl LatencySummary {
    /// Of every transport that carried a flow. `flows` are in the order of the outcome.
    pub(crate) fn all(outcome: &Outcome, flows: &[&FlowRow]) -> Vec<LatencySummary> {
        let one = |latency: &punctual_record::PacketLatency| {
            let carried =
                |record: &punctual_record::FlowRecord| record.spec.transport == latency.transport;
            let name = flows.get(outcome.flows.iter().position(carried)?)?.transport.to_string();
            let times = &latency.times;
            let micros = |time: punctual_core::Duration| time.as_picos() as f64 / 1e6;
            Some(LatencySummary {
                transport: name,
                packets: times.len() as f64,
                packets_unacked: latency.unacked as f64,
                p50_us: times.percentile(500).map(micros),
                p90_us: times.percentile(900).map(micros),
                p99_us: times.percentile(990).map(micros),
                max_us: times.max().map(micros),
            })
        };
        outcome.packet_latency.iter().filter_map(one).collect()
    }

    /// Means over repetitions, by transport.
    pub(crate) fn combine(repetitions: &[&[LatencySummary]]) -> Vec<LatencySummary> {
        let first = repetitions.first().copied().unwrap_or_default();
        let of = |transport: &str| {
            let all = repetitions.iter().flat_map(|one| one.iter());
            let own: Vec<&LatencySummary> = all.filter(|one| one.transport == transport).collect();
            let mean_of = |get: fn(&LatencySummary) -> Option<f64>| {
                mean(&own.iter().filter_map(|one| get(one)).collect::<Vec<_>>())
            };
            LatencySummary {
                transport: transport.to_owned(),
                packets: mean_of(|one| Some(one.packets)).unwrap_or_default(),
                packets_unacked: mean_of(|one| Some(one.packets_unacked)).unwrap_or_default(),
                p50_us: mean_of(|one| one.p50_us),
                p90_us: mean_of(|one| one.p90_us),
                p99_us: mean_of(|one| one.p99_us),
                max_us: mean_of(|one| one.max_us),
            }
        };
        first.iter().map(|one| of(&one.transport)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::tests::record;
    use punctual_core::{Duration, TransportId};
    use punctual_record::{Histogram, PacketLatency};

    #[test]
    fn latency_is_summarised_by_transport_and_averaged_over_repetitions() {
        let run = |micros: u64| {
            let mut times = Histogram::default();
            times.add(Duration::from_micros(micros));
            let of = |t: u8, times| PacketLatency { transport: TransportId(t), times, unacked: 3 };
            let outcome = Outcome {
                flows: vec![record(0)],
                packet_latency: vec![of(0, times), of(1, Histogram::default())],
                ..Outcome::default()
            };
            let rows = FlowRow::all(&outcome, &["ndp", "tcp"], |_| None);
            LatencySummary::all(&outcome, &rows.iter().collect::<Vec<_>>())
        };
        let (one, other) = (run(10), run(30));
        assert_eq!(one.len(), 1, "no flow was carried by the second transport");
        assert_eq!((&*one[0].transport, one[0].max_us), ("ndp", Some(10.0)));
        let both = LatencySummary::combine(&[&one, &other]);
        assert_eq!((both[0].max_us, both[0].packets_unacked), (Some(20.0), 3.0));
        let p50 = both[0].p50_us.unwrap();
        assert!((p50 / 20.0 - 1.0).abs() < 0.004, "{p50}");
    }
}
