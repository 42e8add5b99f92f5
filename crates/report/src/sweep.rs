//! A sweep in one table: a row a transport, a column a point.

use crate::{Style, table::ruled};
use comfy_table::{Cell, CellAlignment};
use punctual_results::Summary;

/// A point of a sweep: what tells it from the others, and a summary for each transport.
pub type SweepPoint = (String, Vec<Summary>);

/// The figures that matter most, over all points: deadlines met in per cent or, where there are no
/// deadlines, mean and longest completion times. Each table has its heading. A transport that is
/// not at all points has gaps.
pub fn sweep_tables(points: &[SweepPoint], style: Style) -> Vec<(String, String)> {
    let all = || points.iter().flat_map(|(_, summaries)| summaries);
    let mut titles: Vec<String> = Vec::new();
    for summary in all() {
        // A bound at one point and exact at another is one row.
        if !titles.contains(&summary.transport) {
            titles.push(summary.transport.clone());
        }
    }
    type Get = fn(&Summary) -> Option<f64>;
    let figures: Vec<(&str, Get)> = if all().any(|s| s.deadlines_met.is_some()) {
        vec![("Deadlines met (%)", |s| Some(s.deadlines_met? * 100.0))]
    } else {
        vec![
            ("FCT mean (ms)", |s| Some(s.fct_mean_us? / 1e3)),
            ("FCT of the last flow (ms)", |s| Some(s.fct_max_us? / 1e3)),
        ]
    };
    let one = |get: Get| {
        let decimals = if all().filter_map(get).any(|value| value < 10.0) { 2 } else { 1 };
        let decimals = if all().any(|s| s.deadlines_met.is_some()) { 1 } else { decimals };
        let mut table = ruled(style);
        let labels = points.iter().map(|(label, _)| Cell::new(label));
        table.set_header(std::iter::once(Cell::new("Transport")).chain(labels));
        for title in &titles {
            let of = |(_, summaries): &SweepPoint| {
                let summary = summaries.iter().find(|s| s.transport == *title);
                let value = summary.and_then(get);
                Cell::new(value.map_or("–".to_owned(), |value| format!("{value:.decimals$}")))
            };
            table.add_row(std::iter::once(Cell::new(title)).chain(points.iter().map(of)));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.trim_fmt()
    };
    figures.iter().map(|(heading, get)| ((*heading).to_owned(), one(*get))).collect()
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
}
