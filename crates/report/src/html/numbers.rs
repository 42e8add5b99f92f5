//! Tables and charts of summaries: one point, or a sweep over several.

use super::model::{
    Axis, Body, Chart, Mark, Reference, Section, Series, TableBody, TableRow, Unit, View,
};
use crate::collect::PointRuns;
use crate::table::{Cells, GroupedBy, cells, group_cells, notes};
use punctual_results::{self as results, Capacities, CapacityEstimate, Metric, Place, Repeated};

/// Gives the number of a transport's name.
pub(crate) type Numbered<'a> = dyn Fn(&str) -> usize + 'a;

/// The table of the comparison.
pub(crate) fn table(repeated: &[Repeated], number: &Numbered<'_>) -> Section {
    let (header, rows) = cells(repeated);
    let summaries = || repeated.iter().map(|row| &row.summary);
    let repetitions = summaries().map(|s| s.repetitions).max().unwrap_or(1);
    let mut lead = match repetitions {
        1 => "One run each.".to_owned(),
        n => format!("Means over {n} runs with different seeds, ± half the 95 % interval."),
    };
    if summaries().any(|summary| summary.is_ideal()) {
        lead += " Ideal schedulers know all flows in advance and have no packets and no delays: \
                 they bound what transports can reach.";
    }
    lead += &in_sentences(&notes(repeated));
    let rows = rows.into_iter().zip(summaries()).map(|((cells, best), summary)| TableRow {
        transport: Some(number(&summary.title())),
        cells,
        best,
    });
    let body = Body::Table(TableBody { header, rows: rows.collect() });
    let (id, title) = ("summary".to_owned(), "Summary".to_owned());
    Section { id, title, lead, point: None, body }
}

/// Notes behind a lead.
fn in_sentences(notes: &[String]) -> String {
    let sentence = |note: &String| {
        let mut letters = note.chars();
        let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
        format!(" {first}{}.", letters.as_str())
    };
    notes.iter().map(sentence).collect()
}

/// The table of some of the flows: by traffic class, or by flow size. None if all are in one group.
pub(crate) fn groups(rows: &[Repeated], by: GroupedBy, number: &Numbered<'_>) -> Option<Section> {
    let (header, cells) = group_cells(rows, by)?;
    let row = |(cells, best): Cells| TableRow { transport: Some(number(&cells[0])), cells, best };
    let body = Body::Table(TableBody { header, rows: cells.into_iter().map(row).collect() });
    let (id, title, lead) = match by {
        GroupedBy::Traffic => {
            ("traffic", "By traffic", "The measured flows of each [[traffic]] of the scenario.")
        }
        GroupedBy::Size => ("size", "By flow size", "The measured flows of each range of sizes."),
    };
    let (id, title, lead) = (id.to_owned(), title.to_owned(), lead.to_owned());
    Some(Section { id, title, lead, point: None, body })
}

/// The parts of mixed runs, each with the number of its transport.
pub(crate) fn parts(parts: &[(usize, Repeated)]) -> Option<Section> {
    let repeated: Vec<Repeated> = parts.iter().map(|(_, part)| part.clone()).collect();
    let (header, rows) = cells(&repeated);
    let row = |((cells, best), (number, _)): (Cells, &(usize, Repeated))| TableRow {
        transport: Some(*number),
        cells,
        best,
    };
    let rows: Vec<TableRow> = rows.into_iter().zip(parts).map(row).collect();
    let lead =
        "The flows of each transport that took part. Utilisation, drops and trims are those of \
         the whole run."
            .to_owned();
    let body = Body::Table(TableBody { header, rows });
    let (id, title) = ("parts".to_owned(), "Flows by transport".to_owned());
    (!parts.is_empty()).then_some(Section { id, title, lead, point: None, body })
}

/// The share of deadlines that each transport met.
pub(crate) fn bars(rows: &[Repeated], number: &Numbered<'_>) -> Option<Section> {
    let mut series = Vec::new();
    for Repeated { summary, .. } in rows {
        let figure = summary[Metric::DeadlinesMet];
        let Some(met) = figure.value else { continue };
        series.push(Series {
            transport: number(&summary.title()),
            x: vec![0.0],
            y: vec![met],
            half: vec![figure.half_width.unwrap_or(f64::NAN)],
            ..Series::default()
        });
    }
    if series.is_empty() {
        return None;
    }
    let title = Metric::DeadlinesMet.title();
    let axis = Axis { range: Some([0.0, 1.0]), ..Axis::new(title, Unit::Share) };
    let views = vec![View { series, ..View::default() }];
    let chart = Chart { mark: Mark::Bars, x: Axis::new("", Unit::Number), y: axis, views };
    let (id, title) = ("met".to_owned(), title.to_owned());
    let lead = "The share of flows with a deadline that met it, with its 95 % interval if there \
                are several runs."
        .to_owned();
    Some(Section { id, title, lead, point: None, body: Body::Chart(chart) })
}

/// The unit of a metric on the page.
fn unit(metric: Metric) -> Unit {
    match metric.unit() {
        results::Unit::Share => Unit::Share,
        results::Unit::Micros => Unit::Time,
        results::Unit::Factor => Unit::Factor,
        results::Unit::Bytes => Unit::Bytes,
        results::Unit::Count => Unit::Number,
        unit @ (results::Unit::Seconds | results::Unit::Gbps) => Unit::Other(unit.symbol().into()),
    }
}

/// Metrics over the points of a sweep.
pub(crate) fn sweep(points: &[PointRuns], key: &str, number: &Numbered<'_>) -> Option<Section> {
    if points.len() < 2 {
        return None;
    }
    let values: Vec<String> = points.iter().map(|point| point.values.join(", ")).collect();
    let (places, x) = x_axis(key, &values);
    let mut transports: Vec<String> = Vec::new();
    for summary in points.iter().flat_map(|point| &point.rows).map(|row| &row.summary) {
        if !transports.contains(&summary.transport) {
            transports.push(summary.transport.clone());
        }
    }
    let mut views = Vec::new();
    let mut is_open = false;
    for metric in Metric::shown_in(Place::Plot) {
        let (label, unit) = (metric.title(), unit(metric));
        let mut view = View { label: label.to_owned(), ..View::default() };
        for transport in &transports {
            let mut series = Series::default();
            for (point, place) in points.iter().zip(&places) {
                let own = point.rows.iter().find(|row| row.summary.transport == *transport);
                let Some(summary) = own.map(|row| &row.summary) else { continue };
                // A bound at one point and exact at another is one line, named after its first point.
                series.transport =
                    if series.x.is_empty() { number(&summary.title()) } else { series.transport };
                let figure = summary[metric];
                is_open |= figure.is_bound;
                let Some(value) = figure.exact() else { continue };
                series.x.push(*place);
                series.y.push(value);
                series.half.push(figure.half_width.unwrap_or(f64::NAN));
                series.about.push(if figure.is_maximum { "the maximum" } else { "" }.to_owned());
            }
            if !series.x.is_empty() {
                view.series.push(series);
            }
        }
        let log = unit == Unit::Time || unit == Unit::Factor;
        let range = (unit == Unit::Share).then_some([0.0, 1.0]);
        view.y = Some(Axis { log, range, ..Axis::new(label, unit) });
        if !view.series.is_empty() {
            views.push(view);
        }
    }
    let y = views.first()?.y.clone()?;
    let chart = Chart { mark: Mark::Line, x, y, views };
    let (id, title) = ("sweep".to_owned(), format!("Sweep over {key}"));
    let mut lead = "The mean over the runs at each point of the sweep, with its 95 % interval if \
                    there are several runs."
        .to_owned();
    if is_open {
        lead += " Points are left out where unfinished flows leave the value open.";
    }
    Some(Section { id, title, lead, point: None, body: Body::Chart(chart) })
}

/// The positions of values on an axis: their numbers if all have one unit, else evenly spaced.
pub(super) fn x_axis(key: &str, values: &[String]) -> (Vec<f64>, Axis) {
    let parsed: Option<Vec<(f64, &str)>> = values.iter().map(|value| measured(value)).collect();
    if let Some(parsed) = parsed.filter(|all| all.iter().all(|(_, unit)| *unit == all[0].1)) {
        let unit = match parsed.first().map_or("", |(_, unit)| unit) {
            "" => Unit::Number,
            unit => Unit::Other(unit.to_owned()),
        };
        return (parsed.iter().map(|(number, _)| *number).collect(), Axis::new(key, unit));
    }
    let axis = Axis { places: values.to_vec(), ..Axis::new(key, Unit::Number) };
    ((0..values.len()).map(|i| i as f64).collect(), axis)
}

/// A number and its unit, as in `30ms`.
fn measured(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c))).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let plain = unit.chars().all(|c| c.is_alphabetic() || c == '%');
    Some((number.parse().ok()?, unit)).filter(|_| plain)
}

/// The capacities that a search found, and a chart of the values that it tried.
pub(crate) fn capacity(found: &Capacities, number: &Numbered<'_>) -> Vec<Section> {
    let Capacities { vary, until, column, .. } = found;
    let which = if found.smallest { "smallest" } else { "largest" };
    let unit = Metric::named(column).map_or(Unit::Number, unit);
    let share = unit == Unit::Share;
    let title = Metric::named(column).map_or(column.as_str(), |metric| metric.title());
    let (mut rows, mut series) = (Vec::new(), Vec::new());
    let values: Vec<String> =
        found.answers.iter().flat_map(|a| a.probes.iter().map(|p| p.value.clone())).collect();
    let (places, x) = x_axis(vary, &values);
    let mut places = places.into_iter();
    for answer in &found.answers {
        let point: Vec<_> = answer.point.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        let point = labelled_after(&answer.transport, &point);
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".into());
        let capacity = match (answer.outcome.as_str(), found.smallest) {
            ("never", _) => "never".to_owned(),
            ("always", true) => format!("≤ {}", found.from),
            ("always", false) => format!("≥ {}", found.to),
            _ => or_none(&answer.capacity),
        };
        let there = answer.estimate.as_ref().map(|estimate| shown(estimate, share));
        let unfinished = answer.estimate.as_ref().map_or(0.0, |e| e.unfinished);
        let transport = number(&answer.transport);
        rows.push(TableRow {
            transport: Some(transport),
            cells: vec![
                point.clone(),
                capacity,
                or_none(&answer.holds_to),
                or_none(&answer.fails_from),
                there.unwrap_or_else(|| "–".into()),
                format!("{unfinished:.1}"),
                answer.runs.to_string(),
            ],
            best: Vec::new(),
        });
        let mut tried: Vec<_> =
            places.by_ref().take(answer.probes.len()).zip(&answer.probes).collect();
        tried.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut own = Series { transport, label: point, ..Series::default() };
        for (place, probe) in tried {
            let Some(mean) = probe.estimate.mean else { continue };
            if Some(&probe.value) == answer.capacity.as_ref() {
                own.marked = Some(own.x.len());
            }
            own.x.push(place);
            own.y.push(mean);
            own.half.push(half_width(&probe.estimate).unwrap_or(f64::NAN));
            let (runs, verdict) = (probe.estimate.repetitions, &probe.estimate.verdict);
            own.about.push(format!("{runs} runs: {}", super::probes::verdict_words(verdict)));
        }
        series.push(own);
    }
    let header = ["Transport", "Capacity", "Surely holds to", "Surely fails from"];
    let mut header: Vec<String> = header.map(str::to_owned).to_vec();
    header.extend([format!("{title} there"), "Unfinished there".into(), "Runs".into()]);
    let line = Reference::Horizontal { at: found.threshold, label: until.clone() };
    let chart = Chart {
        mark: Mark::Line,
        x,
        y: Axis { log: unit == Unit::Time, ..Axis::new(title, unit) },
        views: vec![View { series, lines: vec![line], ..View::default() }],
    };
    let section = |id: &str, title: String, lead: String, body| Section {
        id: id.to_owned(),
        title,
        lead,
        point: None,
        body,
    };
    let lead = format!(
        "The {which} {vary} with {until}, searched from {} to {} in steps of {}. Between the \
         value that surely holds and the one that surely fails, the runs do not decide.",
        found.from, found.to, found.step
    );
    let tried =
        "Every value that was tried, with the interval of its mean (95 % over all tests of a \
         value); the capacity is ringed. Values at which unfinished flows leave the mean open are \
         left out."
            .to_owned();
    let table = Body::Table(TableBody { header, rows });
    vec![
        section("capacity", format!("Capacity: {which} {vary}"), lead, table),
        section("probes", format!("{title} by {vary}"), tried, Body::Chart(chart)),
    ]
}

/// Whether a column of a summary is a share, shown in per cent.
pub(super) fn is_share(column: &str) -> bool {
    ["deadlines_met", "fairness", "utilisation"].contains(&column)
}

/// A mean and its interval, or a lower bound.
pub(super) fn shown(estimate: &CapacityEstimate, share: bool) -> String {
    let (factor, percent) = if share { (100.0, " %") } else { (1.0, "") };
    match (estimate.mean, estimate.at_least, estimate.low.zip(estimate.high)) {
        (Some(mean), _, Some((low, high))) => {
            format!("{:.1}{percent} ({:.1} to {:.1})", mean * factor, low * factor, high * factor)
        }
        (Some(mean), _, None) => format!("{:.1}{percent}", mean * factor),
        (None, Some(bound), _) => format!("> {:.1}{percent}", bound * factor),
        (None, None, _) => "–".to_owned(),
    }
}

/// The longer side of an interval.
fn half_width(estimate: &CapacityEstimate) -> Option<f64> {
    let (mean, low, high) = (estimate.mean?, estimate.low?, estimate.high?);
    Some((mean - low).max(high - mean))
}

pub(super) fn labelled_after(transport: &str, point: &[(String, String)]) -> String {
    match point {
        [] => transport.to_owned(),
        point => format!("{transport}, {}", crate::collect::labelled(point)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_results::{Group, Summary};

    #[test]
    fn flow_sizes_are_a_table() {
        let group = |name: &str, us: f64| {
            let mut group = Group { name: name.into(), ..Group::default() };
            group.metrics[Metric::FctP99].value = Some(us);
            group
        };
        let by_size = vec![group("<10KB", 20.0), group(">=1MB", 900.0)];
        let summary = Summary { transport: "ndp".into(), by_size, ..Summary::default() };
        let rows = [Repeated { repetitions: vec![summary.clone()], summary }];
        let section = groups(&rows, GroupedBy::Size, &|_| 3).unwrap();
        let Body::Table(table) = section.body else { panic!("a table") };
        assert_eq!(table.header, ["Transport", "Flow size", "FCT p99 (µs)"]);
        assert_eq!(table.rows[1].cells, ["ndp", ">=1MB", "900.0"]);
        assert_eq!(table.rows[1].transport, Some(3));
        assert!(groups(&rows, GroupedBy::Traffic, &|_| 3).is_none());
    }

    #[test]
    fn values_of_one_unit_stand_at_their_numbers() {
        let axis = |values: &[&str]| x_axis("k", &values.map_to_owned());
        assert_eq!(axis(&["1ms", "20ms"]).0, [1.0, 20.0]);
        assert_eq!(axis(&["1ms", "20us"]).0, [0.0, 1.0]);
        assert_eq!(axis(&["5", "x y"]).0, [0.0, 1.0]);
        assert_eq!(axis(&["2KB, 5", "2KB, 6"]).1.places.len(), 2);
    }

    trait MapToOwned {
        fn map_to_owned(&self) -> Vec<String>;
    }

    impl MapToOwned for &[&str] {
        fn map_to_owned(&self) -> Vec<String> {
            self.iter().map(|text| (*text).to_owned()).collect()
        }
    }
}
