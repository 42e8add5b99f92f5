//! Tables of a comparison.

use comfy_table::{
    Attribute, Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle,
};
use punctual_results::significance::compare;
use punctual_results::{
    Better, Column, Figure, Group, Metric, Place, Repeated, RunKind, Summary, Unit, When,
};

/// How a table is styled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Plain text, for a file or another program.
    Plain,
    /// For a terminal: a value that is significantly the best of its column is bold.
    Colour,
}

/// A line below the header and no borders, which leaves the width to the numbers.
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

/// A table of texts under a header. All columns but the first are aligned to the right.
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

/// How wide a table may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// As wide as it takes, with every column that there is.
    Wide,
    /// As wide as it takes, with the usual columns.
    Usual,
    /// At most so many characters: columns are left out until it fits, the least important first.
    Within(usize),
}

/// How flows are divided in a table of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupedBy {
    /// By `[[traffic]]`.
    Traffic,
    /// By flow size.
    Size,
}

impl GroupedBy {
    /// The header of the column with the groups' names.
    pub fn title(self) -> &'static str {
        match self {
            GroupedBy::Traffic => "Traffic",
            GroupedBy::Size => "Flow size",
        }
    }

    fn groups(self, summary: &Summary) -> &[Group] {
        match self {
            GroupedBy::Traffic => &summary.by_traffic,
            GroupedBy::Size => &summary.by_size,
        }
    }
}

/// A table with one row per transport, of means over repetitions. Columns without a value in any
/// row are left out. `±` precedes half the 95 % interval, `>` a lower bound (flows were unfinished),
/// and `max` a tail percentile of so few flows that it is their maximum. The best value of a column
/// is bold where it is significantly better than every other.
///
/// The titles of columns that were left out for want of room are returned, too.
pub fn table(rows: &[Repeated], style: Style, width: Width) -> (String, Vec<&'static str>) {
    let rows = TableRows::of_transports(rows);
    let mut columns = columns(&rows, Metric::ALL.iter().copied().filter(|m| is_column(*m, width)));
    let mut left_out = Vec::new();
    if let Width::Within(width) = width {
        let widest = |columns: &[TableColumn]| {
            let table = drawn(&rows, columns, Style::Plain);
            table.lines().map(|line| line.chars().count()).max().unwrap_or(0)
        };
        while widest(&columns) > width {
            let rank = |column: &TableColumn| match column.metric.definition().column {
                Column::Dispensable(rank) => rank,
                Column::Wide | Column::Never => u8::MAX,
            };
            let least = columns.iter().enumerate().max_by_key(|(_, column)| rank(column));
            let Some((i, _)) = least.filter(|(_, column)| rank(column) > 0) else { break };
            left_out.push(columns.remove(i).metric.title());
        }
    }
    (drawn(&rows, &columns, style), left_out)
}

/// A table with one row per group of flows and transport; none unless there are several groups. The
/// best transport of a group is bold, as in [`table`].
pub fn group_table(rows: &[Repeated], by: GroupedBy, style: Style) -> Option<String> {
    let rows = TableRows::of_groups(rows, by)?;
    Some(drawn(&rows, &columns(&rows, Metric::shown_in(Place::Group)), style))
}

fn drawn(rows: &TableRows, columns: &[TableColumn], style: Style) -> String {
    let mut table = ruled(style);
    let headers = columns.iter().map(|column| Cell::new(column.header.join("\n")));
    table.set_header(rows.titles.iter().map(Cell::new).chain(headers));
    for (i, labels) in rows.labels.iter().enumerate() {
        let cell = |column: &TableColumn| {
            let cell = Cell::new(&column.cells[i]);
            if column.best[i] { cell.add_attribute(Attribute::Bold) } else { cell }
        };
        table.add_row(labels.iter().map(Cell::new).chain(columns.iter().map(cell)));
    }
    for column in table.column_iter_mut().skip(rows.titles.len()) {
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
    let rows = TableRows::of_transports(rows);
    texts(&rows, Metric::ALL.iter().copied().filter(|m| is_column(*m, Width::Usual)))
}

/// The table of [`group_table`] as texts. Its rows have the transport's name first.
pub(crate) fn group_cells(rows: &[Repeated], by: GroupedBy) -> Option<(Vec<String>, Vec<Cells>)> {
    Some(texts(&TableRows::of_groups(rows, by)?, Metric::shown_in(Place::Group)))
}

fn texts(
    rows: &TableRows,
    metrics: impl Iterator<Item = Metric> + Clone,
) -> (Vec<String>, Vec<Cells>) {
    let columns = columns(rows, metrics);
    let mut header: Vec<String> = rows.titles.iter().map(|title| (*title).to_owned()).collect();
    header.extend(columns.iter().map(|column| column.header.join(" ").trim().to_owned()));
    let row = |(i, labels): (usize, &Vec<String>)| {
        let mut cells = labels.clone();
        cells.extend(columns.iter().map(|column| column.cells[i].clone()));
        let best = columns.iter().enumerate().filter(|(_, column)| column.best[i]);
        (cells, best.map(|(c, _)| c + labels.len()).collect())
    };
    (header, rows.labels.iter().enumerate().map(row).collect())
}

/// What the rows of a table are about.
struct TableRows {
    /// Headers of the columns with labels.
    titles: Vec<&'static str>,
    /// The labels of each row, the transport first.
    labels: Vec<Vec<String>>,
    values: Vec<Repeated>,
    /// The group of each row: only rows of one group compete for the best value.
    groups: Vec<usize>,
}

impl TableRows {
    fn of_transports(rows: &[Repeated]) -> TableRows {
        TableRows {
            titles: vec!["Transport"],
            labels: rows.iter().map(|row| vec![row.summary.title()]).collect(),
            values: rows.to_vec(),
            groups: vec![0; rows.len()],
        }
    }

    fn of_groups(rows: &[Repeated], by: GroupedBy) -> Option<TableRows> {
        let mut names: Vec<&str> = Vec::new();
        for group in rows.iter().flat_map(|row| by.groups(&row.summary)) {
            if !names.contains(&&*group.name) {
                names.push(&group.name);
            }
        }
        let mut own = TableRows {
            titles: vec!["Transport", by.title()],
            labels: Vec::new(),
            values: Vec::new(),
            groups: Vec::new(),
        };
        for (group, name) in names.iter().enumerate() {
            let of = |summary: &Summary| {
                let own = by.groups(summary).iter().find(|group| group.name == *name)?;
                Some(Summary { metrics: own.metrics.clone(), ..summary.clone() })
            };
            for Repeated { summary, repetitions } in rows {
                let Some(summary) = of(summary) else { continue };
                let repetitions = repetitions.iter().filter_map(of).collect();
                own.labels.push(vec![summary.title(), (*name).to_owned()]);
                own.values.push(Repeated { summary, repetitions });
                own.groups.push(group);
            }
        }
        (names.len() > 1).then_some(own)
    }

    fn summaries(&self) -> impl Iterator<Item = &Summary> + Clone {
        self.values.iter().map(|row| &row.summary)
    }
}

struct TableColumn {
    metric: Metric,
    /// Two lines.
    header: [String; 2],
    cells: Vec<String>,
    best: Vec<bool>,
}

fn is_column(metric: Metric, width: Width) -> bool {
    match metric.definition().column {
        Column::Never => false,
        Column::Wide => width == Width::Wide,
        Column::Dispensable(_) => true,
    }
}

/// The value of a metric in a row.
fn figure(metric: Metric, summary: &Summary) -> Figure {
    let has_value = match metric.definition().when {
        When::Always | When::Nonzero => true,
        When::Deadlines => summary.number(Metric::DeadlineFlows) > 0.0,
        When::Packets => matches!(summary.kind, RunKind::Packets | RunKind::Testbed),
    };
    if has_value { summary[metric] } else { Figure::default() }
}

fn columns(rows: &TableRows, metrics: impl Iterator<Item = Metric> + Clone) -> Vec<TableColumn> {
    let is_shown = |metric: &Metric| {
        let mut values = rows.summaries().filter_map(|s| figure(*metric, s).value);
        match metric.definition().when {
            When::Nonzero => values.any(|value| value != 0.0),
            _ => values.next().is_some(),
        }
    };
    let metrics = metrics.filter(is_shown);
    // All times are in one unit, so that columns can be compared.
    let times = metrics.clone().filter(|metric| metric.unit() == Unit::Micros);
    let times = times.flat_map(|m| rows.summaries().filter_map(move |s| figure(m, s).value));
    let time_unit = time_unit(times);
    metrics.map(|metric| column(metric, rows, time_unit)).collect()
}

fn column(metric: Metric, rows: &TableRows, time_unit: (&str, f64)) -> TableColumn {
    let (symbol, factor) = match metric.unit() {
        Unit::Micros => time_unit,
        unit => (unit.symbol(), unit.factor()),
    };
    let figures: Vec<Figure> = rows.summaries().map(|summary| figure(metric, summary)).collect();
    let scaled = figures.iter().filter_map(|figure| Some(figure.value? * factor));
    let decimals = decimals(metric.unit(), scaled);
    let text = |figure: &Figure| {
        let Some(value) = figure.value else { return "–".to_owned() };
        let mark = match figure.is_bound {
            true => "> ",
            false if figure.is_maximum => "max ",
            false => "",
        };
        let half = figure.half_width.map(|half| format!(" ± {:.decimals$}", half * factor));
        format!("{mark}{:.decimals$}{}", value * factor, half.unwrap_or_default())
    };
    let cells = figures.iter().map(text).collect();
    let best = (0..rows.values.len()).map(|row| is_best(metric, rows, row)).collect();
    TableColumn { metric, header: header(metric.title(), symbol), cells, best }
}

/// A title and a unit in two lines. A title of several words is broken where the lines are most
/// even, unless it is short and its unit fills the second line.
fn header(title: &str, symbol: &str) -> [String; 2] {
    const SHORT: usize = 8;
    let unit = if symbol.is_empty() { String::new() } else { format!("({symbol})") };
    let longer = |at: usize| at.max(title.len() - at);
    let even = title.match_indices(' ').map(|(at, _)| at).min_by_key(|at| longer(*at));
    match even.filter(|_| title.len() > SHORT || unit.is_empty()) {
        Some(at) => [title[..at].to_owned(), format!("{} {unit}", &title[at + 1..]).trim().into()],
        None => [title.to_owned(), unit],
    }
}

/// Whether a row's value is significantly better than that of every other row of its group. Ideal
/// schedulers do not compete: the others are compared with them.
fn is_best(metric: Metric, rows: &TableRows, row: usize) -> bool {
    let has_value = |row: usize| figure(metric, &rows.values[row].summary).value.is_some();
    let competes = |row: usize| !rows.values[row].summary.is_ideal() && has_value(row);
    let is_better = |other: usize| {
        let (a, b) = (&rows.values[row].repetitions, &rows.values[other].repetitions);
        compare(a, b, metric).is_some_and(|compared| match metric.better() {
            Better::Lower => compared.is_more(),
            Better::Higher => compared.is_less(),
            Better::Neither => false,
        })
    };
    let mut rivals = (0..rows.values.len())
        .filter(|other| *other != row && rows.groups[*other] == rows.groups[row])
        .filter(|other| competes(*other))
        .peekable();
    competes(row) && rivals.peek().is_some() && rivals.all(is_better)
}

/// What a reader must know to read the marks of a table.
pub fn notes(rows: &[Repeated]) -> Vec<String> {
    let rows = TableRows::of_transports(rows);
    let columns =
        columns(&rows, Metric::ALL.iter().copied().filter(|m| is_column(*m, Width::Usual)));
    let shows = |is_so: &dyn Fn(&Summary, Metric) -> bool| {
        rows.summaries().any(|s| columns.iter().any(|column| is_so(s, column.metric)))
    };
    let mut notes = Vec::new();
    if shows(&|s, metric| figure(metric, s).is_bound) {
        notes.push(
            "> x: at least x. Flows were unfinished when their run ended, or given up; a longer \
             run.duration or run.measure.until lets the unfinished ones complete"
                .to_owned(),
        );
    }
    if shows(&|s, metric| figure(metric, s).is_maximum) {
        notes.push("max x: the maximum: too few flows per run (p99: fewer than 100)".to_owned());
    }
    let unknown = rows.summaries().map(|s| s.number(Metric::DeadlineFlowsUnknown));
    let unknown = unknown.fold(0.0, f64::max);
    if unknown > 0.0 {
        notes.push(format!(
            "deadlines after the end of a run with unfinished flows are not counted (up to \
             {unknown:.0} per run)"
        ));
    }
    if columns.iter().any(|column| column.best.contains(&true)) {
        notes.push("bold: better than every other row at 95 %".to_owned());
    }
    notes
}

/// The unit for times in microseconds, and the factor to it: the largest unit in which no time is
/// below 1.
pub(crate) fn time_unit(times: impl Iterator<Item = f64>) -> (&'static str, f64) {
    match times.fold(f64::INFINITY, f64::min) {
        shortest if (1e6..f64::INFINITY).contains(&shortest) => ("s", 1e-6),
        shortest if (1e3..f64::INFINITY).contains(&shortest) => ("ms", 1e-3),
        _ => ("µs", 1.0),
    }
}

/// Decimals for all numbers of a column, so that their decimal points are aligned: three
/// significant digits for the smallest, or one decimal for shares and fractions of counts.
fn decimals(unit: Unit, values: impl Iterator<Item = f64> + Clone) -> usize {
    match unit {
        Unit::Share => 1,
        Unit::Count | Unit::Bytes if values.clone().all(|value| value.fract() == 0.0) => 0,
        // Tenths do not matter beside thousands.
        Unit::Count | Unit::Bytes if values.clone().any(|value| value >= 1000.0) => 0,
        Unit::Count | Unit::Bytes => 1,
        Unit::Micros | Unit::Factor | Unit::Seconds | Unit::Gbps => {
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
mod tests;
