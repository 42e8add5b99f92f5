//! Tables and charts of summaries: one point, or a sweep over several.

use super::model::{
    Axis, Body, Chart, Mark, Reference, Section, Series, TableBody, TableRow, Unit, View,
};
use crate::collect::PointRuns;
use crate::table::{Cells, cells};
use punctual_results::{Capacities, Summary};

/// Gives the number of a transport's name.
pub(crate) type Numbered<'a> = dyn Fn(&str) -> usize + 'a;

/// The headline: the comparison in numbers.
pub(crate) fn table(summaries: &[Summary], number: &Numbered<'_>) -> Section {
    let (header, rows) = cells(summaries);
    let repetitions = summaries.iter().map(|s| s.repetitions).max().unwrap_or(1);
    let mut lead = match repetitions {
        1 => "One run each.".to_owned(),
        n => format!("Means over {n} runs with different seeds, ± half of the 95 % interval."),
    };
    if summaries.iter().any(Summary::is_ideal) {
        lead += " Ideal schedulers know everything and have no packets and no delays: they are \
                 what others are held against.";
    }
    let rows = rows.into_iter().zip(summaries).map(|((cells, best), summary)| TableRow {
        transport: Some(number(&summary.title())),
        cells,
        best,
    });
    let body = Body::Table(TableBody { header, rows: rows.collect() });
    let (id, title) = ("summary".to_owned(), "In numbers".to_owned());
    Section { id, title, lead, point: None, body }
}

/// The parts of mixed runs, each with the number of its transport.
pub(crate) fn parts(parts: &[(usize, Summary)]) -> Option<Section> {
    let summaries: Vec<Summary> = parts.iter().map(|(_, part)| part.clone()).collect();
    let (header, rows) = cells(&summaries);
    let row = |((cells, best), (number, _)): (Cells, &(usize, Summary))| TableRow {
        transport: Some(*number),
        cells,
        best,
    };
    let rows: Vec<TableRow> = rows.into_iter().zip(parts).map(row).collect();
    let lead =
        "The flows of each transport that took part. Utilisation, drops and trims are of all \
                of them together."
            .to_owned();
    let body = Body::Table(TableBody { header, rows });
    let (id, title) = ("parts".to_owned(), "In parts".to_owned());
    (!parts.is_empty()).then_some(Section { id, title, lead, point: None, body })
}

/// How many deadlines each transport met.
pub(crate) fn bars(summaries: &[Summary], number: &Numbered<'_>) -> Option<Section> {
    let mut series = Vec::new();
    for summary in summaries {
        let Some(met) = summary.deadlines_met else { continue };
        series.push(Series {
            transport: number(&summary.title()),
            x: vec![0.0],
            y: vec![met],
            half: vec![summary.ci95.deadlines_met.unwrap_or(f64::NAN)],
            ..Series::default()
        });
    }
    if series.is_empty() {
        return None;
    }
    let axis = Axis { range: Some([0.0, 1.0]), ..Axis::new("Deadlines met", Unit::Share) };
    let views = vec![View { series, ..View::default() }];
    let chart = Chart { mark: Mark::Bars, x: Axis::new("", Unit::Number), y: axis, views };
    let (id, title) = ("met".to_owned(), "Deadlines met".to_owned());
    let lead = "The share of flows with a deadline that were on time, with its 95 % interval over \
                the runs where there are several."
        .to_owned();
    Some(Section { id, title, lead, point: None, body: Body::Chart(chart) })
}

/// A figure of a summary: its name, its unit, itself and half its interval.
type Figure = (&'static str, Unit, fn(&Summary) -> (Option<f64>, Option<f64>));

const FIGURES: [Figure; 7] = [
    ("Deadlines met", Unit::Share, |s| (s.deadlines_met, s.ci95.deadlines_met)),
    ("FCT, mean", Unit::Time, |s| (s.fct_mean_us, s.ci95.fct_mean_us)),
    ("FCT, median", Unit::Time, |s| (s.fct_p50_us, s.ci95.fct_p50_us)),
    ("FCT, 99th percentile", Unit::Time, |s| (s.fct_p99_us, s.ci95.fct_p99_us)),
    ("FCT, longest", Unit::Time, |s| (s.fct_max_us, s.ci95.fct_max_us)),
    ("Slowdown, 99th percentile", Unit::Factor, |s| (s.slowdown_p99, s.ci95.slowdown_p99)),
    ("Utilisation", Unit::Share, |s| (s.utilisation, s.ci95.utilisation)),
];

/// Figures over the points of a sweep.
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
    for (label, unit, get) in FIGURES {
        let mut view = View { label: label.to_owned(), ..View::default() };
        for transport in &transports {
            let mut series = Series::default();
            for (point, place) in points.iter().zip(&places) {
                let own = point.rows.iter().find(|row| row.summary.transport == *transport);
                let Some(summary) = own.map(|row| &row.summary) else { continue };
                // A bound at one point and exact at another is one line, named by its first point.
                series.transport =
                    if series.x.is_empty() { number(&summary.title()) } else { series.transport };
                let (Some(value), half) = get(summary) else { continue };
                series.x.push(*place);
                series.y.push(value);
                series.half.push(half.unwrap_or(f64::NAN));
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
    let (id, title) = ("sweep".to_owned(), format!("By {key}"));
    let lead = "A value at each point of the sweep, with its 95 % interval over the runs where \
                there are several."
        .to_owned();
    Some(Section { id, title, lead, point: None, body: Body::Chart(chart) })
}

/// Where values stand on an axis: at their numbers where all are numbers of one unit, at even
/// distances otherwise.
fn x_axis(key: &str, values: &[String]) -> (Vec<f64>, Axis) {
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

/// What a search for capacities found, as a table and a chart of what it tried.
pub(crate) fn capacity(found: &Capacities, number: &Numbered<'_>) -> Vec<Section> {
    let Capacities { vary, until, column, .. } = found;
    let which = if found.smallest { "smallest" } else { "largest" };
    let share = ["deadlines_met", "fairness", "utilisation"].contains(&column.as_str());
    let unit = match column {
        _ if share => Unit::Share,
        column if column.ends_with("_us") => Unit::Time,
        _ => Unit::Number,
    };
    let factor = if share { 100.0 } else { 1.0 };
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
        let there = answer.estimate.as_ref().and_then(|estimate| {
            let half = estimate.half_width.map_or("".into(), |h| format!(" ± {:.1}", h * factor));
            let percent = if share { " %" } else { "" };
            Some(format!("{:.1}{half}{percent}", estimate.mean? * factor))
        });
        let transport = number(&answer.transport);
        rows.push(TableRow {
            transport: Some(transport),
            cells: vec![
                point.clone(),
                capacity,
                or_none(&answer.holds_to),
                or_none(&answer.fails_from),
                there.unwrap_or_else(|| "–".into()),
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
            own.half.push(probe.estimate.half_width.unwrap_or(f64::NAN));
            let (runs, verdict) = (probe.estimate.repetitions, &probe.estimate.verdict);
            own.about.push(format!("{runs} runs: {}", verdict.replace('-', " ")));
        }
        series.push(own);
    }
    let header = ["Transport", "Capacity", "Surely holds to", "Surely fails from"];
    let mut header: Vec<String> = header.map(str::to_owned).to_vec();
    header.extend([format!("{column} there"), "Runs".into()]);
    let line = Reference::Horizontal { at: found.threshold, label: until.clone() };
    let chart = Chart {
        mark: Mark::Line,
        x,
        y: Axis { log: unit == Unit::Time, ..Axis::new(column, unit) },
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
        "The {which} {vary} with {until}, looked for from {} to {} in steps of {}. Between what \
         surely holds and what surely fails, the runs do not tell.",
        found.from, found.to, found.step
    );
    let tried = "Every value that was tried, with the 95 % interval of its mean; the capacity is \
                 ringed."
        .to_owned();
    let table = Body::Table(TableBody { header, rows });
    vec![
        section("capacity", format!("Capacity: {which} {vary}"), lead, table),
        section("probes", format!("{column} by {vary}"), tried, Body::Chart(chart)),
    ]
}

fn labelled_after(transport: &str, point: &[(String, String)]) -> String {
    match point {
        [] => transport.to_owned(),
        point => format!("{transport}, {}", crate::collect::labelled(point)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
