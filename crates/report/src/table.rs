//! The comparison in numbers.

use comfy_table::{
    Attribute, Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle,
};
use punctual_results::significance::compare;
use punctual_results::{Figure, Repeated, Summary};

/// Where a table goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A file or another program.
    Plain,
    /// A terminal: a value that is significantly the best of its column is bold.
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

/// A table with one row a transport, of means over repetitions. Columns that no transport has a
/// value for are left out. What follows `±` is half the 95 % interval, `>` a lower bound (flows were
/// unfinished), and `max` a 99th percentile of fewer than 100 flows, which is their maximum. The
/// best value of a column is bold where it is significantly better than every other. Trims are
/// neither good nor bad, so none is best.
///
/// Where it would be wider than `width`, columns are left out until it fits, the least telling
/// first; their names are returned.
pub fn table(rows: &[Repeated], style: Style, width: Option<usize>) -> (String, Vec<&'static str>) {
    let mut columns = columns(rows);
    let mut left_out = Vec::new();
    let widest = |columns: &[Column]| {
        let table = drawn(rows, columns, Style::Plain);
        table.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    };
    while width.is_some_and(|width| widest(&columns) > width) {
        let least = columns.iter().enumerate().max_by_key(|(_, column)| column.dispensable);
        let Some((i, _)) = least.filter(|(_, column)| column.dispensable > 0) else { break };
        left_out.push(columns.remove(i).title);
    }
    (drawn(rows, &columns, style), left_out)
}

fn drawn(rows: &[Repeated], columns: &[Column], style: Style) -> String {
    let mut table = ruled(style);
    let headers = columns.iter().map(|column| Cell::new(column.header.join("\n")));
    table.set_header(std::iter::once(Cell::new("Transport")).chain(headers));
    for (row, Repeated { summary, .. }) in rows.iter().enumerate() {
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

/// The table of [`table`] in Markdown.
pub fn markdown(rows: &[Repeated]) -> String {
    let (header, rows) = cells(rows);
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

/// The table of [`table`] as texts: its header and its rows.
pub(crate) fn cells(rows: &[Repeated]) -> (Vec<String>, Vec<Cells>) {
    let columns = columns(rows);
    let mut header = vec!["Transport".to_owned()];
    header.extend(columns.iter().map(|column| column.header.join(" ").trim().to_owned()));
    let row = |(i, row): (usize, &Repeated)| {
        let mut cells = vec![row.summary.title()];
        cells.extend(columns.iter().map(|column| column.cells[i].clone()));
        let best = columns.iter().enumerate().filter(|(_, column)| column.best[i]);
        (cells, best.map(|(c, _)| c + 1).collect())
    };
    (header, rows.iter().enumerate().map(row).collect())
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

/// A column: its name, its unit, which value is best, and whose value it is.
struct Kind {
    /// In two lines.
    name: [&'static str; 2],
    unit: Unit,
    best: Best,
    /// The column of the summary.
    column: &'static str,
    /// Whether a summary has it.
    has: fn(&Summary) -> bool,
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
    Kind { name: ["Deadlines", "met"], unit: Unit::Percent, best: Best::Most, column: "deadlines_met", has: |_| true, title: "deadlines met", dispensable: 0 },
    Kind { name: ["On", "time"], unit: Unit::Count, best: Best::Neither, column: "deadline_flows_met", has: has_deadlines, title: "on time", dispensable: 9 },
    Kind { name: ["", "Late"], unit: Unit::Count, best: Best::Neither, column: "deadline_flows_late", has: has_deadlines, title: "late", dispensable: 8 },
    Kind { name: ["Given", "up"], unit: Unit::Count, best: Best::Neither, column: "flows_abandoned", has: |s| has_deadlines(s) || s.flows_abandoned > 0.0, title: "given up", dispensable: 6 },
    Kind { name: ["FCT mean", ""], unit: Unit::Time, best: Best::Least, column: "fct_mean_us", has: |_| true, title: "FCT mean", dispensable: 1 },
    Kind { name: ["FCT p50", ""], unit: Unit::Time, best: Best::Least, column: "fct_p50_us", has: |_| true, title: "FCT p50", dispensable: 5 },
    Kind { name: ["FCT p99", ""], unit: Unit::Time, best: Best::Least, column: "fct_p99_us", has: |_| true, title: "FCT p99", dispensable: 0 },
    Kind { name: ["Slowdown", "p99"], unit: Unit::Factor, best: Best::Least, column: "slowdown_p99", has: |_| true, title: "slowdown p99", dispensable: 3 },
    Kind { name: ["Utilisation", ""], unit: Unit::Percent, best: Best::Most, column: "utilisation", has: |_| true, title: "utilisation", dispensable: 4 },
    // What completion times leave open, so shown wherever there is any.
    Kind { name: ["", "Unfinished"], unit: Unit::Count, best: Best::Neither, column: "flows_unfinished", has: |s| s.flows_unfinished > 0.0, title: "unfinished", dispensable: 0 },
    Kind { name: ["Drops", ""], unit: Unit::Count, best: Best::Least, column: "drops", has: |s| !s.is_ideal(), title: "drops", dispensable: 2 },
    Kind { name: ["Trims", ""], unit: Unit::Count, best: Best::Neither, column: "trims", has: |s| !s.is_ideal(), title: "trims", dispensable: 7 },
];

impl Kind {
    fn figure(&self, summary: &Summary) -> Figure {
        if (self.has)(summary) { summary.figure(self.column) } else { Figure::default() }
    }
}

fn has_deadlines(summary: &Summary) -> bool {
    summary.deadline_flows > 0.0
}

fn columns(rows: &[Repeated]) -> Vec<Column> {
    let shown = |kind: &&Kind| rows.iter().any(|row| kind.figure(&row.summary).value.is_some());
    KINDS.iter().filter(shown).map(|kind| column(kind, rows)).collect()
}

fn column(kind: &Kind, rows: &[Repeated]) -> Column {
    let (unit, factor) = match kind.unit {
        Unit::Percent => (" (%)", 100.0),
        Unit::Factor => (" (×)", 1.0),
        Unit::Count => ("", 1.0),
        Unit::Time => time_unit(rows),
    };
    let figures: Vec<Figure> = rows.iter().map(|row| kind.figure(&row.summary)).collect();
    let scaled = figures.iter().filter_map(|figure| Some(figure.value? * factor));
    let decimals = decimals(kind.unit, scaled);
    let text = |(row, figure): (&Repeated, &Figure)| {
        let Some(value) = figure.value else { return "–".to_owned() };
        let mark = match figure.is_bound {
            true => "> ",
            false if row.summary.is_maximum(kind.column) => "max ",
            false => "",
        };
        let half = figure.half_width.map(|half| format!(" ± {:.decimals$}", half * factor));
        format!("{mark}{:.decimals$}{}", value * factor, half.unwrap_or_default())
    };
    let cells = rows.iter().zip(&figures).map(text).collect();
    let best = best(kind, rows);
    let header = [kind.name[0].to_owned(), format!("{}{unit}", kind.name[1]).trim().to_owned()];
    let Kind { title, dispensable, .. } = *kind;
    let best = (0..rows.len()).map(|row| best == Some(row)).collect();
    Column { header, cells, best, title, dispensable }
}

/// The row whose value is significantly better than that of every other. An ideal scheduler is
/// what others are compared with: it does not win.
fn best(kind: &Kind, rows: &[Repeated]) -> Option<usize> {
    let is_rival =
        |row: &Repeated| !row.summary.is_ideal() && kind.figure(&row.summary).value.is_some();
    let rivals: Vec<usize> = (0..rows.len()).filter(|row| is_rival(&rows[*row])).collect();
    let is_better = |row: usize, other: usize| {
        let (a, b) = (&rows[row].repetitions, &rows[other].repetitions);
        compare(a, b, kind.column).is_some_and(|compared| match kind.best {
            Best::Least => compared.is_more(),
            Best::Most => compared.is_less(),
            Best::Neither => false,
        })
    };
    let wins = |row: &usize| rivals.iter().all(|other| other == row || is_better(*row, *other));
    (rivals.len() > 1).then(|| rivals.iter().copied().find(wins)).flatten()
}

/// What a reader must know to read the marks of a table.
pub fn notes(rows: &[Repeated]) -> Vec<String> {
    let summaries = || rows.iter().map(|row| &row.summary);
    let shows = |is_so: &dyn Fn(&Summary, &Kind) -> bool| {
        summaries().any(|s| KINDS.iter().any(|kind| is_so(s, kind)))
    };
    let mut notes = Vec::new();
    if shows(&|s, kind| kind.figure(s).is_bound) {
        notes.push(
            "> x: at least x. Flows were unfinished when their run ended, or given up; a longer \
             run.duration or run.measure.until lets the first end"
                .to_owned(),
        );
    }
    if shows(&|s, kind| s.is_maximum(kind.column) && kind.figure(s).exact().is_some()) {
        notes.push("max x: p99 of fewer than 100 flows a run is their maximum".to_owned());
    }
    let unknown: f64 = summaries().map(|s| s.deadline_flows_unknown).fold(0.0, f64::max);
    if unknown > 0.0 {
        notes.push(format!(
            "deadlines after the end of a run with unfinished flows are not counted (up to \
             {unknown:.0} a run)"
        ));
    }
    if KINDS.iter().any(|kind| best(kind, rows).is_some()) {
        notes.push("bold: better than every other row at 95 %".to_owned());
    }
    notes
}

/// The unit of all times, so that they can be compared across columns: the largest in which none
/// is below 1.
fn time_unit(rows: &[Repeated]) -> (&'static str, f64) {
    let times = KINDS.iter().filter(|kind| kind.unit == Unit::Time);
    let times = times.flat_map(|kind| rows.iter().filter_map(|r| kind.figure(&r.summary).value));
    match times.fold(f64::INFINITY, f64::min) {
        shortest if (1e6..f64::INFINITY).contains(&shortest) => (" (s)", 1e-6),
        shortest if (1e3..f64::INFINITY).contains(&shortest) => (" (ms)", 1e-3),
        _ => (" (µs)", 1.0),
    }
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
#[path = "table_tests.rs"]
mod tests;
