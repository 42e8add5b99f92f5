//! The comparison in numbers.

use comfy_table::{
    Attribute, Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle,
};
use punctual_results::Summary;

/// Where a table goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A file or another program.
    Plain,
    /// A terminal: the best value of a column is bold.
    Colour,
}

/// A line below the header and nothing else: the numbers need the width.
const RULED: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// An empty table.
pub(crate) fn ruled(style: Style) -> Table {
    let mut table = Table::new();
    table.load_style(RULED).set_content_arrangement(ContentArrangement::Disabled);
    match style {
        Style::Plain => table.force_no_tty(),
        Style::Colour => table.enforce_styling(),
    };
    table
}

/// A table of texts under a header, numbers to the right of the first column.
pub fn plain_table(header: &[&str], rows: &[Vec<String>], style: Style) -> String {
    let mut table = ruled(style);
    table.set_header(header.iter().map(Cell::new));
    for row in rows {
        table.add_row(row.iter().map(Cell::new));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// A table with one row a transport. Columns that no transport has a value for are left out. What
/// follows `±` is half the 95 % interval. Trims are nobody's fault or merit, so none is best.
///
/// Where it would be wider than `width`, columns are left out until it fits, the least telling
/// first; their names are returned.
pub fn table(
    summaries: &[Summary],
    style: Style,
    width: Option<usize>,
) -> (String, Vec<&'static str>) {
    let mut columns = columns(summaries);
    let mut left_out = Vec::new();
    let widest = |columns: &[Column]| {
        let table = drawn(summaries, columns, Style::Plain);
        table.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    };
    while width.is_some_and(|width| widest(&columns) > width) {
        let least = columns.iter().enumerate().max_by_key(|(_, column)| column.dispensable);
        let Some((i, _)) = least.filter(|(_, column)| column.dispensable > 0) else { break };
        left_out.push(columns.remove(i).title);
    }
    (drawn(summaries, &columns, style), left_out)
}

fn drawn(summaries: &[Summary], columns: &[Column], style: Style) -> String {
    let mut table = ruled(style);
    let headers = columns.iter().map(|column| Cell::new(column.header.join("\n")));
    table.set_header(std::iter::once(Cell::new("Transport")).chain(headers));
    for (row, summary) in summaries.iter().enumerate() {
        let cell = |column: &Column| {
            let cell = Cell::new(&column.cells[row]);
            if column.best[row] { cell.add_attribute(Attribute::Bold) } else { cell }
        };
        let name = std::iter::once(Cell::new(summary.title()));
        table.add_row(name.chain(columns.iter().map(cell)));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// The same table in Markdown, the best value of a column in bold.
pub fn markdown(summaries: &[Summary]) -> String {
    let (header, rows) = cells(summaries);
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&header);
    text += &format!("| :-- |{}\n", " --: |".repeat(header.len() - 1));
    for (mut cells, best) in rows {
        cells[0] = cells[0].replace('|', "\\|");
        for i in best {
            cells[i] = format!("**{}**", cells[i]);
        }
        text += &line(&cells);
    }
    text
}

/// The cells of a row, and which of them are the best of their column.
pub(crate) type Cells = (Vec<String>, Vec<usize>);

/// The same table as texts: its header and its rows.
pub(crate) fn cells(summaries: &[Summary]) -> (Vec<String>, Vec<Cells>) {
    let columns = columns(summaries);
    let mut header = vec!["Transport".to_owned()];
    header.extend(columns.iter().map(|column| column.header.join(" ").trim().to_owned()));
    let row = |(i, summary): (usize, &Summary)| {
        let mut cells = vec![summary.title()];
        cells.extend(columns.iter().map(|column| column.cells[i].clone()));
        let best = columns.iter().enumerate().filter(|(_, column)| column.best[i]);
        (cells, best.map(|(c, _)| c + 1).collect())
    };
    (header, summaries.iter().enumerate().map(row).collect())
}

struct Column {
    /// Two lines.
    header: [String; 2],
    cells: Vec<String>,
    best: Vec<bool>,
    /// Its name in one word or two.
    title: &'static str,
    /// The greater, the sooner it is left out of a table that is too wide; 0 never is.
    dispensable: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Best {
    Least,
    Most,
    Neither,
}

/// A value and half its interval.
type Value = (Option<f64>, Option<f64>);

/// A column: its name, how its unit and factor are found, which value is best, and the value.
struct Kind {
    /// In two lines.
    name: [&'static str; 2],
    unit: Unit,
    best: Best,
    get: fn(&Summary) -> Value,
    title: &'static str,
    dispensable: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Percent,
    Time,
    Factor,
    Count,
}

#[rustfmt::skip]
const KINDS: [Kind; 12] = [
    Kind { name: ["Deadlines", "met"], unit: Unit::Percent, best: Best::Most, get: |s| (s.deadlines_met, s.ci95.deadlines_met), title: "deadlines met", dispensable: 0 },
    Kind { name: ["On", "time"], unit: Unit::Count, best: Best::Neither, get: |s| (with_deadlines(s, s.deadline_flows_met), None), title: "on time", dispensable: 9 },
    Kind { name: ["", "Late"], unit: Unit::Count, best: Best::Neither, get: |s| (with_deadlines(s, s.deadline_flows_late), None), title: "late", dispensable: 8 },
    Kind { name: ["Given", "up"], unit: Unit::Count, best: Best::Neither, get: |s| (with_deadlines(s, s.deadline_flows_abandoned), None), title: "given up", dispensable: 6 },
    Kind { name: ["FCT mean", ""], unit: Unit::Time, best: Best::Least, get: |s| (s.fct_mean_us, s.ci95.fct_mean_us), title: "FCT mean", dispensable: 1 },
    Kind { name: ["FCT p50", ""], unit: Unit::Time, best: Best::Least, get: |s| (s.fct_p50_us, s.ci95.fct_p50_us), title: "FCT p50", dispensable: 5 },
    Kind { name: ["FCT p99", ""], unit: Unit::Time, best: Best::Least, get: |s| (s.fct_p99_us, s.ci95.fct_p99_us), title: "FCT p99", dispensable: 0 },
    Kind { name: ["Slowdown", "p99"], unit: Unit::Factor, best: Best::Least, get: |s| (s.slowdown_p99, s.ci95.slowdown_p99), title: "slowdown p99", dispensable: 3 },
    Kind { name: ["Utilisation", ""], unit: Unit::Percent, best: Best::Most, get: |s| (s.utilisation, s.ci95.utilisation), title: "utilisation", dispensable: 4 },
    Kind { name: ["Not", "completed"], unit: Unit::Count, best: Best::Neither, get: not_completed, title: "not completed", dispensable: 0 },
    Kind { name: ["Drops", ""], unit: Unit::Count, best: Best::Least, get: |s| (of_packets(s, s.drops), s.ci95.drops), title: "drops", dispensable: 2 },
    Kind { name: ["Trims", ""], unit: Unit::Count, best: Best::Neither, get: |s| (of_packets(s, s.trims), s.ci95.trims), title: "trims", dispensable: 7 },
];

fn with_deadlines(summary: &Summary, flows: f64) -> Option<f64> {
    (summary.deadline_flows > 0.0).then_some(flows)
}

/// What ideal schedulers do not have.
fn of_packets(summary: &Summary, count: f64) -> Option<f64> {
    (!summary.is_ideal()).then_some(count)
}

/// Flows that the completion times say nothing about, so shown wherever there are any.
fn not_completed(summary: &Summary) -> Value {
    let flows = summary.flows_abandoned + summary.flows_unfinished;
    (Some(flows).filter(|flows| *flows > 0.0), None)
}

fn columns(summaries: &[Summary]) -> Vec<Column> {
    let shown = |kind: &&Kind| summaries.iter().any(|s| (kind.get)(s).0.is_some());
    KINDS.iter().filter(shown).map(|kind| column(kind, summaries)).collect()
}

fn column(kind: &Kind, summaries: &[Summary]) -> Column {
    let values: Vec<Value> = summaries.iter().map(kind.get).collect();
    let (unit, factor) = match kind.unit {
        Unit::Percent => (" (%)", 100.0),
        Unit::Factor => (" (×)", 1.0),
        Unit::Count => ("", 1.0),
        Unit::Time => time_unit(summaries),
    };
    let scaled = |value: Option<f64>| value.map(|value| value * factor);
    let decimals = decimals(kind.unit, values.iter().filter_map(|value| scaled(value.0)));
    let number = |value: f64| format!("{value:.decimals$}");
    let text = |value: &Value| match (scaled(value.0), scaled(value.1)) {
        (None, _) => "–".to_owned(),
        (Some(value), None) => number(value),
        (Some(value), Some(half)) => format!("{} ± {}", number(value), number(half)),
    };
    let shown = |value: &Value| scaled(value.0).map(number);
    // An ideal scheduler is what others are held against: it does not win.
    let real = |(value, summary): (&Value, &Summary)| {
        if summary.is_ideal() { (None, None) } else { *value }
    };
    let contenders: Vec<Value> = values.iter().zip(summaries).map(real).collect();
    let best = best(kind.best, &contenders).and_then(|i| shown(&values[i]));
    let is_best = |value: &Value| best.is_some() && shown(value) == best;
    let mut best: Vec<bool> = contenders.iter().map(is_best).collect();
    // Where all are the same, none is best.
    if best.iter().zip(summaries).all(|(best, summary)| *best || summary.is_ideal()) {
        best.fill(false);
    }
    let header = [kind.name[0].to_owned(), format!("{}{unit}", kind.name[1]).trim().to_owned()];
    let Kind { title, dispensable, .. } = *kind;
    Column { header, cells: values.iter().map(text).collect(), best, title, dispensable }
}

/// The unit of all times, so that they can be compared across columns: the largest in which none
/// is below 1.
fn time_unit(summaries: &[Summary]) -> (&'static str, f64) {
    let times = KINDS.iter().filter(|kind| kind.unit == Unit::Time);
    let times = times.flat_map(|kind| summaries.iter().filter_map(|s| (kind.get)(s).0));
    match times.fold(f64::INFINITY, f64::min) {
        shortest if (1e6..f64::INFINITY).contains(&shortest) => (" (s)", 1e-6),
        shortest if (1e3..f64::INFINITY).contains(&shortest) => (" (ms)", 1e-3),
        _ => (" (µs)", 1.0),
    }
}

fn best(best: Best, values: &[Value]) -> Option<usize> {
    let known = values.iter().enumerate().filter_map(|(i, value)| Some((i, value.0?)));
    let order = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
    match best {
        Best::Least => known.min_by(order),
        Best::Most => known.max_by(order),
        Best::Neither => None,
    }
    .map(|(i, _)| i)
}

/// Decimals for all numbers of a column, so that their points stand below each other: three
/// significant digits for the smallest, or as many as the unit deserves.
fn decimals(unit: Unit, values: impl Iterator<Item = f64> + Clone) -> usize {
    match unit {
        Unit::Percent => 1,
        Unit::Count if values.clone().all(|value| value.fract() == 0.0) => 0,
        // Of thousands nobody reads tenths.
        Unit::Count if values.clone().any(|value| value >= 1000.0) => 0,
        Unit::Count => 1,
        Unit::Time | Unit::Factor => {
            let smallest = values.filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
            if smallest >= 100.0 {
                0
            } else if smallest >= 10.0 {
                1
            } else {
                2
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_results::{Ci95, RunKind};

    fn summary(transport: &str, met: Option<f64>, fct_us: f64, drops: f64) -> Summary {
        Summary {
            transport: transport.into(),
            repetitions: 3,
            deadlines_met: met,
            fct_mean_us: Some(fct_us),
            fct_p50_us: Some(fct_us * 0.8),
            fct_p99_us: Some(fct_us * 9.0),
            slowdown_p99: Some(fct_us / 7.0),
            drops,
            ci95: Ci95 {
                deadlines_met: met.map(|_| 0.004),
                fct_mean_us: Some(fct_us * 0.02),
                ..Ci95::default()
            },
            ..Summary::default()
        }
    }

    fn three() -> Vec<Summary> {
        vec![
            summary("ndp", Some(0.993), 93.4, 0.0),
            summary("d2tcp", Some(0.912), 240.0, 12.0),
            summary("tcp", Some(0.518), 1630.0, 4711.0),
        ]
    }

    #[test]
    fn plain_table_is_aligned_and_free_of_escapes() {
        let expected = [
            " Transport    Deadlines        FCT mean   FCT p50   FCT p99   Slowdown   Drops   Trims",
            "                met (%)            (µs)      (µs)      (µs)    p99 (×)",
            "───────────────────────────────────────────────────────────────────────────────────────",
            " ndp         99.3 ± 0.4      93.4 ± 1.9      74.7       841       13.3       0       0",
            " d2tcp       91.2 ± 0.4     240.0 ± 4.8     192.0      2160       34.3      12       0",
            " tcp         51.8 ± 0.4   1630.0 ± 32.6    1304.0     14670      232.9    4711       0",
        ];
        assert_eq!(table(&three(), Style::Plain, None).0.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_narrow_table_leaves_out_what_tells_least() {
        let (all, left_out) = table(&three(), Style::Plain, Some(90));
        assert!(left_out.is_empty() && all == table(&three(), Style::Plain, None).0);
        let (narrow, left_out) = table(&three(), Style::Plain, Some(72));
        assert_eq!(left_out, ["trims", "FCT p50"]);
        assert!(narrow.lines().all(|line| line.chars().count() <= 72), "{narrow}");
        // What matters most stays, however narrow.
        let (least, _) = table(&three(), Style::Plain, Some(3));
        assert!(least.contains("Deadlines") && least.contains("FCT p99"), "{least}");
        assert!(!least.contains("Drops"), "{least}");
    }

    #[test]
    fn best_is_bold_on_a_terminal() {
        let (table, _) = table(&three(), Style::Colour, None);
        let bold: Vec<_> = table.split("\u{1b}[1m").skip(1).collect();
        // Of every column but the trims.
        assert_eq!(bold.len(), 6, "{table}");
        assert!(bold[0].trim_start().starts_with("99.3"), "{table}");
    }

    #[test]
    fn markdown_marks_the_best() {
        let text = markdown(&three()[..2]);
        assert_eq!(
            text,
            "| Transport | Deadlines met (%) | FCT mean (µs) | FCT p50 (µs) | FCT p99 (µs) | \
             Slowdown p99 (×) | Drops | Trims |\n\
             | :-- | --: | --: | --: | --: | --: | --: | --: |\n\
             | ndp | **99.3 ± 0.4** | **93.4 ± 1.9** | **74.7** | **841** | **13.3** | **0** | 0 |\n\
             | d2tcp | 91.2 ± 0.4 | 240.0 ± 4.8 | 192.0 | 2160 | 34.3 | 12 | 0 |\n"
        );
    }

    #[test]
    fn equal_values_have_no_best_and_missing_ones_no_column() {
        let text = markdown(&[summary("a", None, 5.0, 0.0), summary("b", None, 5.0, 0.0)]);
        assert!(!text.contains("**") && !text.contains("Deadlines"), "{text}");
        let text = markdown(&[summary("a", Some(0.5), 5.0, 0.0), summary("b", None, 6.0, 0.0)]);
        assert!(text.contains("| – |"), "{text}");
    }

    #[test]
    fn flows_that_did_not_complete_are_shown() {
        let lost = Summary { flows_unfinished: 3.0, ..summary("a", None, 5.0, 0.0) };
        assert!(markdown(&[lost]).contains("Not completed"));
        assert!(!markdown(&three()).contains("Not completed"));
    }

    #[test]
    fn long_times_are_in_a_longer_unit() {
        assert!(markdown(&[summary("a", None, 2e3, 0.0)]).contains("FCT p99 (ms)"));
        assert!(markdown(&[summary("a", None, 2e6, 0.0)]).contains("FCT p99 (s)"));
    }

    #[test]
    fn ideals_are_named_and_never_best() {
        let ideal = |name: &str, kind| Summary {
            kind,
            deadline_flows: 4.0,
            deadline_flows_met: 3.0,
            deadline_flows_late: 1.0,
            ..summary(name, Some(1.0), 1.0, 0.0)
        };
        let mut rows = three();
        rows.push(ideal("ideal-edf", RunKind::Ideal));
        rows.push(ideal("optimal", RunKind::Bound));
        let text = markdown(&rows);
        assert!(text.contains("| optimal (bound) | 100.0"), "{text}");
        assert!(text.contains("| ideal-edf | 100.0 ± 0.4 | 3 | 1 | 0 |"), "{text}");
        assert!(text.contains("| ndp | **99.3 ± 0.4** | – | – | – |"), "{text}");
        // No packets, so no drops.
        assert!(text.lines().last().is_some_and(|line| line.ends_with("| – | – |")), "{text}");
    }

    #[test]
    fn nothing_to_compare_is_an_empty_table() {
        assert!(table(&[], Style::Plain, None).0.contains("Transport"));
    }
}
