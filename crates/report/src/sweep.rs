//! Tables of a sweep: one row per transport, one column per point.

use crate::Style;
use crate::table::{ruled, time_unit};
use comfy_table::{Cell, CellAlignment};
use punctual_results::{Metric, Place, Summary, Unit};

/// A point of a sweep: its label, and a summary for each transport.
pub type SweepPoint = (String, Vec<Summary>);

/// Tables of the most important metrics over all points, each with its heading.
///
/// The metrics are deadlines met or, without deadlines, mean and maximum FCT; and the number of
/// unfinished flows, if there are any. A heading names the keys that vary and the number of runs. A
/// transport that is missing at a point has a gap there. `>` marks a lower bound, where flows were
/// unfinished.
pub fn sweep_tables(points: &[SweepPoint], keys: &[&str], style: Style) -> Vec<(String, String)> {
    let all = || points.iter().flat_map(|(_, summaries)| summaries);
    let mut transports: Vec<&str> = Vec::new();
    for summary in all() {
        // A transport that is a bound at one point and exact at another has one row.
        if !transports.contains(&&*summary.transport) {
            transports.push(&summary.transport);
        }
    }
    let is_share = |metric: &Metric| metric.unit() == Unit::Share;
    let has_value = |metric: Metric| all().any(|summary| summary[metric].value.is_some());
    let metrics = || Metric::shown_in(Place::Sweep);
    let has_share = metrics().filter(is_share).any(has_value);
    let is_shown = |metric: &Metric| match metric.unit() {
        Unit::Count => all().any(|summary| summary.number(*metric) > 0.0),
        _ => is_share(metric) == has_share,
    };
    let means = means_over(all());
    let one = |metric: Metric| {
        let values = || all().filter_map(|summary| summary[metric].value);
        let (symbol, factor) = match metric.unit() {
            // Times of a sweep differ widely: values below 1 still need two digits.
            Unit::Micros => time_unit(values().map(|value| 10.0 * value)),
            unit => (unit.symbol(), unit.factor()),
        };
        let is_small = values().fold(f64::INFINITY, f64::min) * factor < 10.0;
        let is_whole = metric.unit() == Unit::Count && values().all(|value| value.fract() == 0.0);
        let decimals = match metric.unit() {
            _ if is_whole => 0,
            Unit::Share | Unit::Count => 1,
            _ => 1 + usize::from(is_small),
        };
        let mut table = ruled(style);
        let labels = points.iter().map(|(label, _)| Cell::new(label));
        table.set_header(std::iter::once(Cell::new("Transport")).chain(labels));
        for transport in &transports {
            let cell = |(_, summaries): &SweepPoint| {
                let summary = summaries.iter().find(|s| s.transport == *transport);
                let figure = summary.map(|summary| summary[metric]).unwrap_or_default();
                let mark = if figure.is_bound { "> " } else { "" };
                let text = |value: f64| format!("{mark}{:.decimals$}", value * factor);
                Cell::new(figure.value.map_or("–".to_owned(), text))
            };
            table.add_row(std::iter::once(Cell::new(transport)).chain(points.iter().map(cell)));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let unit = if symbol.is_empty() { String::new() } else { format!(" ({symbol})") };
        let heading = format!("{}{unit} by {}{means}", metric.title(), keys.join(", "));
        (heading, table.trim_fmt())
    };
    metrics().filter(is_shown).map(one).collect()
}

/// How many runs the values are means of, as the end of a heading; empty for single runs.
fn means_over<'a>(summaries: impl Iterator<Item = &'a Summary> + Clone) -> String {
    let runs = summaries.map(|summary| summary.repetitions);
    let (least, most) = (runs.clone().min().unwrap_or(1), runs.max().unwrap_or(1));
    match (least, most) {
        (_, 0..=1) => String::new(),
        (least, most) if least == most => format!(", means over {most} runs"),
        (least, most) => format!(", means over {least} to {most} runs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(transport: &str, met: Option<f64>, fct_us: f64) -> Summary {
        let mut summary = Summary { transport: transport.into(), ..Summary::default() }
            .with(Metric::FctMean, fct_us)
            .with(Metric::FctMax, 2.0 * fct_us);
        summary[Metric::DeadlinesMet].value = met;
        summary
    }

    #[test]
    fn deadlines_by_point() {
        let points = [
            ("3".to_owned(), vec![summary("d3", Some(1.0), 1.0), summary("tcp", Some(0.5), 1.0)]),
            ("25".to_owned(), vec![summary("d3", Some(0.123), 1.0)]),
        ];
        let tables = sweep_tables(&points, &["workers"], Style::Plain);
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].0, "Deadlines met (%) by workers");
        let lines: Vec<&str> = tables[0].1.lines().collect();
        assert_eq!(lines[0], " Transport       3     25");
        assert_eq!(lines[2], " d3          100.0   12.3");
        assert_eq!(lines[3], " tcp          50.0      –");
    }

    #[test]
    fn times_where_there_are_no_deadlines() {
        let points = [("1".to_owned(), vec![summary("d3", None, 12_345.0)])];
        let tables = sweep_tables(&points, &["a", "b"], Style::Plain);
        assert_eq!(tables.len(), 2);
        let headings = (&*tables[0].0, &*tables[1].0);
        assert_eq!(headings, ("FCT mean (ms) by a, b", "FCT max (ms) by a, b"));
        assert!(tables[0].1.contains("12.3") && tables[1].1.contains("24.7"));
    }

    #[test]
    fn times_are_in_the_unit_of_most_of_them() {
        let heading = |least: f64| {
            let points = [("1", least), ("9", 9e4)]
                .map(|(label, us)| (label.to_owned(), vec![summary("d3", None, us)]));
            let tables = sweep_tables(&points, &["n"], Style::Plain);
            (tables[0].0.clone(), tables[0].1.lines().last().unwrap_or_default().to_owned())
        };
        assert_eq!(
            heading(528.8),
            ("FCT mean (ms) by n".into(), " d3          0.53   90.00".into())
        );
        assert_eq!(
            heading(52.8),
            ("FCT mean (µs) by n".into(), " d3          52.8   90000.0".into())
        );
    }

    #[test]
    fn what_is_only_a_bound_is_marked() {
        let mut open = summary("d3", None, 12_345.0);
        open[Metric::FctMax].is_bound = true;
        let tables = sweep_tables(&[("1".to_owned(), vec![open])], &["a"], Style::Plain);
        assert!(tables[1].1.contains("> 24.7"), "{}", tables[1].1);
    }

    #[test]
    fn unfinished_flows_have_a_table_and_headings_the_number_of_runs() {
        let point = |label: &str, unfinished: f64, repetitions| {
            let tcp = summary("tcp", Some(0.5), 1.0).with(Metric::FlowsUnfinished, unfinished);
            (label.to_owned(), vec![Summary { repetitions, ..tcp }])
        };
        let tables = |points: &[SweepPoint]| sweep_tables(points, &["load"], Style::Plain);
        let some = tables(&[point("0.5", 0.0, 5), point("0.9", 2.4, 5)]);
        let headings: Vec<&str> = some.iter().map(|(heading, _)| &**heading).collect();
        let expected = ["Deadlines met (%)", "Flows unfinished"]
            .map(|title| format!("{title} by load, means over 5 runs"));
        assert_eq!(headings, expected);
        assert!(some[1].1.contains(" tcp         0.0   2.4"), "{}", some[1].1);
        // Where all flows end there is nothing to count; runs may differ in number.
        let none = tables(&[point("0.5", 0.0, 3), point("0.9", 0.0, 5)]);
        assert_eq!(none.len(), 1);
        assert_eq!(none[0].0, "Deadlines met (%) by load, means over 3 to 5 runs");
    }
}
