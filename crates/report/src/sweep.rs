//! A sweep in one table: a row a transport, a column a point.

use crate::{Style, table::ruled};
use comfy_table::{Cell, CellAlignment};
use punctual_results::Summary;

/// A point of a sweep: what tells it from the others, and a summary for each transport.
pub type SweepPoint = (String, Vec<Summary>);

/// The figures that matter most, over all points: deadlines met in per cent or, where there are no
/// deadlines, mean and longest completion times. Each table has its heading. A transport that is
/// not at all points has gaps; `>` marks a lower bound, where flows were unfinished.
pub fn sweep_tables(points: &[SweepPoint], style: Style) -> Vec<(String, String)> {
    let all = || points.iter().flat_map(|(_, summaries)| summaries);
    let mut titles: Vec<String> = Vec::new();
    for summary in all() {
        // A bound at one point and exact at another is one row.
        if !titles.contains(&summary.transport) {
            titles.push(summary.transport.clone());
        }
    }
    let has_deadlines = all().any(|s| s.deadlines_met.is_some());
    let figures: &[(&str, &str, f64)] = if has_deadlines {
        &[("Deadlines met (%)", "deadlines_met", 100.0)]
    } else {
        &[("FCT mean (ms)", "fct_mean_us", 1e-3), ("FCT of the last flow (ms)", "fct_max_us", 1e-3)]
    };
    let one = |column: &str, factor: f64| {
        let values = all().filter_map(|s| Some(s.figure(column).value? * factor));
        let is_small = values.fold(f64::INFINITY, f64::min) < 10.0;
        let decimals = if is_small && !has_deadlines { 2 } else { 1 };
        let mut table = ruled(style);
        let labels = points.iter().map(|(label, _)| Cell::new(label));
        table.set_header(std::iter::once(Cell::new("Transport")).chain(labels));
        for title in &titles {
            let of = |(_, summaries): &SweepPoint| {
                let summary = summaries.iter().find(|s| s.transport == *title);
                let figure = summary.map(|s| s.figure(column)).unwrap_or_default();
                let mark = if figure.is_bound { "> " } else { "" };
                let text = |value: f64| format!("{mark}{:.decimals$}", value * factor);
                Cell::new(figure.value.map_or("–".to_owned(), text))
            };
            table.add_row(std::iter::once(Cell::new(title)).chain(points.iter().map(of)));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.trim_fmt()
    };
    let named = |(heading, column, factor): &(&str, &str, f64)| {
        ((*heading).to_owned(), one(column, *factor))
    };
    figures.iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(transport: &str, met: Option<f64>, fct_us: f64) -> Summary {
        Summary {
            transport: transport.into(),
            deadlines_met: met,
            fct_mean_us: Some(fct_us),
            fct_max_us: Some(2.0 * fct_us),
            ..Summary::default()
        }
    }

    #[test]
    fn deadlines_by_point() {
        let points = [
            ("3".to_owned(), vec![summary("d3", Some(1.0), 1.0), summary("tcp", Some(0.5), 1.0)]),
            ("25".to_owned(), vec![summary("d3", Some(0.123), 1.0)]),
        ];
        let tables = sweep_tables(&points, Style::Plain);
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].0, "Deadlines met (%)");
        let lines: Vec<&str> = tables[0].1.lines().collect();
        assert_eq!(lines[0], " Transport       3     25");
        assert_eq!(lines[2], " d3          100.0   12.3");
        assert_eq!(lines[3], " tcp          50.0      –");
    }

    #[test]
    fn times_where_there_are_no_deadlines() {
        let points = [("1".to_owned(), vec![summary("d3", None, 12_345.0)])];
        let tables = sweep_tables(&points, Style::Plain);
        assert_eq!(tables.len(), 2);
        assert!(tables[0].1.contains("12.3") && tables[1].1.contains("24.7"));
    }

    #[test]
    fn what_is_only_a_bound_is_marked() {
        let mut open = summary("d3", None, 12_345.0);
        (open.fct_max_us, open.at_least.fct_max_us) = (None, open.fct_max_us);
        let tables = sweep_tables(&[("1".to_owned(), vec![open])], Style::Plain);
        assert!(tables[1].1.contains("> 24.7"), "{}", tables[1].1);
    }
}
