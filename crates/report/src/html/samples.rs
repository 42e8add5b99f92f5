//! Charts of time series: queues, rates, and the gauges of transports.

use super::Budget;
use super::model::{Axis, Body, Chart, Mark, Section, Series, Unit, View};
use punctual_core::Instant;
use punctual_record::{GaugeOf, PortSample};
use punctual_results::{GaugeRow, PlanPort};
use std::collections::BTreeMap;

/// The time series of one run of one transport.
pub(crate) struct Recorded {
    /// By number.
    pub(crate) transport: usize,
    pub(crate) queues: Vec<PortSample>,
    pub(crate) gauges: Vec<GaugeRow>,
}

/// The maximum number of ports (those with the longest queues) and of gauges (the first) drawn.
const VIEWS: usize = 12;
/// The maximum number of flows or ports of a gauge drawn per transport.
const LINES: usize = 4;

/// The queues and the rates of the ports with the longest queues.
pub(crate) fn ports(runs: &[Recorded], ports: &[PlanPort], budget: &Budget) -> Vec<Section> {
    let mut longest: BTreeMap<u32, u64> = BTreeMap::new();
    for sample in runs.iter().flat_map(|run| &run.queues) {
        let queue = longest.entry(sample.port.0).or_default();
        *queue = (*queue).max(sample.queue_bytes);
    }
    if longest.is_empty() {
        return Vec::new();
    }
    let all = longest.len();
    let mut shown: Vec<(u32, u64)> = longest.into_iter().collect();
    shown.sort_by_key(|(port, queue)| (std::cmp::Reverse(*queue), *port));
    // Two series each.
    shown.truncate(VIEWS.min(budget.time_series() / (2 * runs.len())));
    if shown.is_empty() {
        return Vec::new();
    }
    let points = budget.time(shown.len() * runs.len() * 2);
    let (mut queues, mut rates) = (Vec::new(), Vec::new());
    for (port, _) in &shown {
        let label = ports.iter().find(|p| p.port == *port);
        let label = label.map_or_else(|| format!("port {port}"), |p| p.name.clone());
        let (mut queue, mut rate) = (View::default(), View::default());
        for run in runs {
            let own: Vec<&PortSample> = run.queues.iter().filter(|s| s.port.0 == *port).collect();
            let waiting: Vec<_> = own.iter().map(|s| (s.at, s.queue_bytes as f64)).collect();
            queue.series.push(series(run.transport, "", &peaks(&waiting, points)));
            rate.series.push(series(run.transport, "", &mean_rates(&own, points)));
        }
        queue.label.clone_from(&label);
        rate.label = label;
        queues.push(queue);
        rates.push(rate);
    }
    let which = if all > shown.len() {
        format!("The {} of {all} recorded ports with the longest queues", shown.len())
    } else {
        "Every recorded port".to_owned()
    };
    let first = "of the first run of each transport";
    let chart = |y: Axis, views| {
        let x = Axis::new("Time", Unit::Time);
        Body::Chart(Chart { mark: Mark::Step, x, y, views })
    };
    let section = |id: &str, title: &str, lead: String, body| Section {
        id: id.to_owned(),
        title: title.to_owned(),
        lead,
        point: None,
        body,
    };
    vec![
        section(
            "queues",
            "Queue lengths",
            format!(
                "{which}, {first}. Where there are more samples than can be drawn, the longest \
                 queue of each stretch of time is."
            ),
            chart(Axis::new("Queue", Unit::Bytes), queues),
        ),
        section(
            "rates",
            "Sending rates",
            format!(
                "{which}, {first}: bytes that left, over the time between two samples. Packets \
                 count whole, so that a short time can show more than the link's rate."
            ),
            chart(Axis::new("Rate", Unit::BitsPerSecond), rates),
        ),
    ]
}

/// The owner of a gauge, by kind and number.
fn whose(of: GaugeOf) -> (&'static str, u32) {
    match of {
        GaugeOf::Sender(flow) => ("sender", flow.0),
        GaugeOf::Receiver(flow) => ("receiver", flow.0),
        GaugeOf::Port(port) => ("port", port.0),
    }
}

/// The gauges of transports, one view per gauge.
pub(crate) fn gauges(runs: &[Recorded], ports: &[PlanPort], budget: &Budget) -> Option<Section> {
    type Lines = BTreeMap<(usize, u32), Vec<(Instant, f64)>>;
    let mut by_gauge: BTreeMap<(String, &str), Lines> = BTreeMap::new();
    for (i, run) in runs.iter().enumerate() {
        for row in &run.gauges {
            let (kind, number) = whose(row.of);
            let lines = by_gauge.entry((row.gauge.to_string(), kind)).or_default();
            // Further flows are not drawn and need not be kept.
            if lines.contains_key(&(i, number)) || lines.range((i, 0)..(i + 1, 0)).count() < LINES {
                lines.entry((i, number)).or_default().push((row.at, row.value));
            }
        }
    }
    // If the page cannot show all of them, it shows none rather than an arbitrary choice.
    let count = by_gauge.values().map(BTreeMap::len).sum();
    if by_gauge.is_empty() || count > budget.time_series() {
        return None;
    }
    let points = budget.time(count);
    let mut views = Vec::new();
    for ((gauge, kind), lines) in by_gauge {
        let (name, unit) = match gauge.rsplit_once('_') {
            Some((name, "bytes")) => (name, Unit::Bytes),
            Some((name, "bps")) => (name, Unit::BitsPerSecond),
            Some((name, "packets")) => (name, Unit::Other("packets".into())),
            _ => (gauge.as_str(), Unit::Number),
        };
        let label = format!("{} of the {kind}", name.replace('_', " "));
        let mut view = View { y: Some(Axis::new(&label, unit)), label, ..View::default() };
        for ((run, number), values) in lines {
            let named = ports.iter().find(|port| kind == "port" && port.port == number);
            let who = match kind {
                "port" => named.map_or_else(|| format!("port {number}"), |p| p.name.clone()),
                _ => format!("flow {number}"),
            };
            view.series.push(series(runs[run].transport, &who, &peaks(&values, points)));
        }
        views.push(view);
    }
    let lead = format!(
        "Gauges of the transports at each sample, in the first run of each: the first {LINES} \
         recorded flows or ports."
    );
    let y = views.first()?.y.clone()?;
    let chart = Chart { mark: Mark::Step, x: Axis::new("Time", Unit::Time), y, views };
    let (id, title) = ("gauges".to_owned(), "Transport state".to_owned());
    Some(Section { id, title, lead, point: None, body: Body::Chart(chart) })
}

fn series(transport: usize, label: &str, values: &[(f64, f64)]) -> Series {
    let (x, y) = values.iter().copied().unzip();
    Series { transport, label: label.to_owned(), x, y, ..Series::default() }
}

fn micros(at: Instant) -> f64 {
    at.saturating_since(Instant::ZERO).as_micros_f64()
}

/// At most `most` values, each the maximum of an interval.
fn peaks(values: &[(Instant, f64)], most: usize) -> Vec<(f64, f64)> {
    let stretch = values.len().div_ceil(most.max(1)).max(1);
    let peak = |part: &[(Instant, f64)]| {
        let greatest = part.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max);
        (micros(part[0].0), greatest)
    };
    values.chunks(stretch).map(peak).collect()
}

/// At most `most` rates in bits per second, each the mean of the interval that begins there.
fn mean_rates(samples: &[&PortSample], most: usize) -> Vec<(f64, f64)> {
    let stretch = samples.len().div_ceil(most.max(1)).max(1);
    let mut ends: Vec<&PortSample> = samples.iter().step_by(stretch).copied().collect();
    ends.extend(samples.last().filter(|last| ends.last().is_some_and(|end| end.at != last.at)));
    let rate = |pair: &[&PortSample]| {
        let bits = pair[1].sent_bytes.saturating_sub(pair[0].sent_bytes) as f64 * 8.0;
        let seconds = pair[1].at.saturating_since(pair[0].at).as_secs_f64();
        (micros(pair[0].at), bits / seconds)
    };
    ends.windows(2).map(rate).filter(|(_, rate)| rate.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::{Duration, PortId};

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn peaks_are_kept() {
        let values: Vec<_> = (0..10).map(|i| (at(i), if i == 7 { 99.0 } else { 1.0 })).collect();
        assert_eq!(peaks(&values, 3), [(0.0, 1.0), (4.0, 99.0), (8.0, 1.0)]);
        assert_eq!(peaks(&[], 3), []);
    }

    #[test]
    fn rates_are_means_over_what_was_sent() {
        let sample = |us, sent_bytes| PortSample {
            at: at(us),
            port: PortId(0),
            queue_bytes: 0,
            queue_packets: 0,
            sent_bytes,
            paused: Duration::ZERO,
        };
        let samples = [sample(0, 0), sample(1, 1250), sample(2, 1250), sample(3, 1875)];
        let samples: Vec<_> = samples.iter().collect();
        assert_eq!(mean_rates(&samples, 9), [(0.0, 1e10), (1.0, 0.0), (2.0, 5e9)]);
        let fewer = mean_rates(&samples, 2);
        assert_eq!((fewer.len(), fewer[0]), (2, (0.0, 5e9)));
    }
}
