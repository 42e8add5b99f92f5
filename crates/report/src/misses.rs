//! How many fewer deadlines each transport misses than a baseline transport.

use crate::{Style, SweepPoint, plain_table};
use punctual_results::{Metric, Summary};

/// The default baselines, in order of preference.
const BASELINES: [&str; 2] = ["dctcp", "tcp"];

/// The baseline transport: the one named, or DCTCP, or TCP.
///
/// None where it has no deadlines, or is not among the transports.
pub fn baseline_of<'a>(points: &'a [SweepPoint], named: Option<&'a str>) -> Option<&'a str> {
    let has_deadlines = |name: &str| {
        let own = points.iter().flat_map(|(_, all)| all).filter(|s| s.transport == name);
        own.filter_map(misses).any(|(_, flows)| flows > 0.0)
    };
    let mut candidates = match &named {
        Some(name) => std::slice::from_ref(name).iter(),
        None => BASELINES.iter(),
    };
    candidates.find(|name| has_deadlines(name)).copied()
}

/// A table of how many fewer deadlines each transport misses than `baseline`.
///
/// In per cent of the baseline's misses: at each point, of the mean share missed over the points,
/// and of the flows of all points together. Negative where a transport misses more.
///
/// None where there is nothing to compare: no other transport, or a baseline that misses nothing.
pub fn fewer_misses(points: &[SweepPoint], baseline: &str, style: Style) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for summary in points.iter().flat_map(|(_, summaries)| summaries) {
        let name = &*summary.transport;
        if name != baseline && misses(summary).is_some() && !names.contains(&name) {
            names.push(name);
        }
    }
    let rows: Vec<Vec<String>> =
        names.iter().filter_map(|name| row_of(points, baseline, name)).collect();
    if rows.is_empty() {
        return None;
    }
    let is_sweep = points.len() > 1;
    let labels = points.iter().map(|(label, _)| if is_sweep { &**label } else { "fewer (%)" });
    let mut header: Vec<&str> = std::iter::once("Transport").chain(labels).collect();
    if is_sweep {
        header.extend(["mean of points", "pooled"]);
    }
    Some(plain_table(&header, &rows, style))
}

/// The row of one transport; none where it cannot be compared at any point.
fn row_of(points: &[SweepPoint], baseline: &str, name: &str) -> Option<Vec<String>> {
    let of = |summaries: &[Summary], name: &str| {
        summaries.iter().find(|s| s.transport == name).and_then(misses)
    };
    let mut row = vec![name.to_owned()];
    // Shares missed at each point are summed for their mean, flows for the pooled figure.
    let (mut shares, mut pooled) = ([0.0; 2], [0.0; 4]);
    for (_, summaries) in points {
        let (own, other) = (of(summaries, name), of(summaries, baseline));
        if let (Some(own), Some(other)) = (own, other) {
            for (sum, value) in pooled.iter_mut().zip([own.0, own.1, other.0, other.1]) {
                *sum += value;
            }
            shares = [shares[0] + own.0 / own.1, shares[1] + other.0 / other.1];
        }
        let here = own.zip(other).and_then(|(own, other)| fewer_of(own, other));
        row.push(here.map_or("–".to_owned(), per_cent));
    }
    let together = fewer_of((pooled[0], pooled[1]), (pooled[2], pooled[3]))?;
    if points.len() > 1 {
        row.push(per_cent(1.0 - shares[0] / shares[1]));
        row.push(per_cent(together));
    }
    Some(row)
}

/// Deadlines missed and flows with deadlines, means over the runs; none without deadlines.
fn misses(summary: &Summary) -> Option<(f64, f64)> {
    let number = |metric| summary.metrics.number(metric);
    let missed = number(Metric::DeadlineFlowsLate) + number(Metric::DeadlineFlowsAbandoned);
    let flows = number(Metric::DeadlineFlowsMet) + missed;
    (summary[Metric::DeadlinesMet].value.is_some() && flows > 0.0).then_some((missed, flows))
}

/// How many fewer of its flows a transport misses than another, as a share of the other's misses.
///
/// None where the other misses none.
fn fewer_of(own: (f64, f64), other: (f64, f64)) -> Option<f64> {
    (other.0 > 0.0 && own.1 > 0.0).then(|| 1.0 - (own.0 / own.1) / (other.0 / other.1))
}

fn per_cent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    fn summary(transport: &str, met: f64, late: f64) -> Summary {
        Summary { transport: transport.into(), ..Summary::default() }
            .with(Metric::DeadlinesMet, met / (met + late))
            .with(Metric::DeadlineFlows, met + late)
            .with(Metric::DeadlineFlowsMet, met)
            .with(Metric::DeadlineFlowsLate, late)
    }

    fn points() -> Vec<SweepPoint> {
        let point = |label: &str, flows: f64, dctcp: f64, d2tcp: f64| {
            let of = |name, late: f64| summary(name, flows - late, late);
            (label.to_owned(), vec![of("dctcp", dctcp), of("d2tcp", d2tcp)])
        };
        vec![
            point("20", 100.0, 0.0, 0.0),
            point("25", 100.0, 10.0, 2.0),
            point("40", 200.0, 60.0, 36.0),
        ]
    }

    #[test]
    fn fewer_misses__by_point_their_mean_and_pooled() {
        let table = fewer_misses(&points(), "dctcp", Style::Plain).expect("a table");
        let cells: Vec<&str> =
            table.lines().last().unwrap_or_default().split_whitespace().collect();
        // 80 % and 40 % fewer; 2 and 18 % instead of 10 and 30 % on average; 38 flows instead of 70.
        assert_eq!(cells, ["d2tcp", "–", "80.0", "40.0", "50.0", "45.7"]);
        let table = fewer_misses(&points()[1..2], "d2tcp", Style::Plain).expect("a table");
        let cells: Vec<&str> =
            table.lines().last().unwrap_or_default().split_whitespace().collect();
        assert_eq!(cells, ["dctcp", "-400.0"]);
    }

    #[test]
    fn fewer_misses__none_without_misses_or_rivals() {
        assert_eq!(fewer_misses(&points()[..1], "dctcp", Style::Plain), None);
        let alone = [("1".to_owned(), vec![summary("dctcp", 1.0, 1.0)])];
        assert_eq!(fewer_misses(&alone, "dctcp", Style::Plain), None);
    }

    #[test]
    fn baseline_of__the_one_named_or_dctcp() {
        let points = points();
        assert_eq!(baseline_of(&points, None), Some("dctcp"));
        assert_eq!(baseline_of(&points, Some("d2tcp")), Some("d2tcp"));
        assert_eq!(baseline_of(&points, Some("d3")), None);
        let open = Summary { transport: "tcp".into(), ..Summary::default() };
        assert_eq!(baseline_of(&[("1".to_owned(), vec![open])], None), None);
    }
}
