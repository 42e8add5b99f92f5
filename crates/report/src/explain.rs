//! Where flows' time went, as text.

use crate::table::{Style, ruled};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use punctual_record::What;
use punctual_results::{Explained, ExplainedFlow, ExplainedPart, TimeLine, short_time};

/// Names of flows before the rest is counted.
const NAMED: usize = 3;

/// What the parts of this name are in a few words, as the flow's transport calls them.
fn title<'a>(what: &'a str, parts: &'a [ExplainedPart]) -> &'a str {
    let own = parts.iter().find(|part| part.what == what && !part.title.is_empty());
    match own {
        Some(part) => &part.title,
        None => What::by_name(what).map_or(what, |what| what.title()),
    }
}

/// Microseconds with one decimal, or three if the time that they are part of is below 100 µs.
fn micros(picos: u64, whole: u64) -> String {
    let decimals = if whole < 100_000_000 { 3 } else { 1 };
    format!("{:.decimals$}", picos as f64 / 1e6)
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}", 100.0 * part as f64 / whole.max(1) as f64)
}

/// Wraps cells so that the table is no wider than this.
fn fit(table: &mut Table, width: Option<usize>) {
    if let Some(width) = width {
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
}

/// Breaks a text at spaces into lines no longer than this.
pub fn wrapped(text: &str, width: Option<usize>) -> String {
    let width = width.unwrap_or(usize::MAX);
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        let room = width.saturating_sub(line.chars().count() + 1);
        if line.is_empty() {
            line.push_str(word);
        } else if word.chars().count() <= room {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// Texts to the left, numbers to the right.
fn finished(mut table: Table, texts: usize) -> String {
    for (n, column) in table.column_iter_mut().enumerate() {
        let side = if n < texts { CellAlignment::Left } else { CellAlignment::Right };
        column.set_cell_alignment(side);
    }
    table.trim_fmt()
}

fn behind(part: &ExplainedPart) -> String {
    let named: Vec<String> = part.behind.iter().take(NAMED).map(u32::to_string).collect();
    let more = (part.behind_count as usize).saturating_sub(named.len());
    match (named.is_empty(), more) {
        (true, 0) => String::new(),
        (true, _) => format!("{more} flows"),
        (false, 0) => named.join(", "),
        (false, 1) => format!("{} and 1 other", named.join(", ")),
        (false, _) => format!("{} and {more} others", named.join(", ")),
    }
}

/// One flow: the sentence, and a table whose times add up to the flow's, within a width.
pub fn explained_flow(flow: &ExplainedFlow, style: Style, width: Option<usize>) -> String {
    let size = flow.size_bytes.map_or_else(|| "endless".to_owned(), |size| format!("{size} bytes"));
    let start = short_time(flow.start_ps);
    let ExplainedFlow { flow: number, transport, src, dst, sentence, .. } = flow;
    let head = format!("flow {number} ({transport}), {src} → {dst}, {size}, started at {start}");
    let mut text = format!("{}\n{}\n", wrapped(&head, width), wrapped(sentence, width));
    let mut table = ruled(style);
    table.set_header(["What", "Where", "Behind flows", "Time (µs)", "Share (%)"].map(Cell::new));
    for part in &flow.parts {
        table.add_row([
            title(&part.what, &flow.parts).to_owned(),
            part.port.clone().unwrap_or_default(),
            behind(part),
            micros(part.time_ps, flow.time_ps),
            percent(part.time_ps, flow.time_ps),
        ]);
    }
    let sum: u64 = flow.parts.iter().map(|part| part.time_ps).sum();
    let whole = match flow.status.as_str() {
        "completed" => "until its last byte was there",
        "abandoned" => "until it was given up",
        _ => "until the run ended",
    };
    table.add_row([
        whole.to_owned(),
        String::new(),
        String::new(),
        micros(sum, flow.time_ps),
        percent(sum, flow.time_ps),
    ]);
    fit(&mut table, width);
    text += &finished(table, 3);
    text.push('\n');
    text
}

/// What a flow's time went into, slice by slice, a line for each kind; how much was delivered; and
/// since when it was behind its deadline's pace.
pub fn time_line(flow: &ExplainedFlow, width: Option<usize>) -> String {
    let TimeLine { what, percent, delivered_percent } = &flow.time_line;
    let label =
        what.iter().map(|what| title(what, &flow.parts).chars().count()).max().unwrap_or(0).max(9);
    let slices = delivered_percent.len();
    let room = width.unwrap_or(usize::MAX).saturating_sub(label + 3);
    let fold = slices.div_ceil(room.max(10)).max(1);
    let bars = |row: &[u8]| -> String {
        let mean = |slices: &[u8]| {
            slices.iter().map(|p| usize::from(*p)).sum::<usize>() / slices.len().max(1)
        };
        row.chunks(fold).map(|slices| bar(mean(slices))).collect()
    };
    let mut text = String::new();
    for (what, row) in what.iter().zip(percent) {
        text += &format!("{:<label$}  {}\n", title(what, &flow.parts), bars(row));
    }
    let drawn = slices.div_ceil(fold);
    text += &format!("{:<label$}  {}\n", "delivered", bars(delivered_percent));
    let end = short_time(flow.time_ps);
    text += &format!("{:<label$}  0{end:>rest$}\n", "", rest = drawn.saturating_sub(1));
    if let Some(since) = flow.behind_since_ps {
        let since = match since.saturating_sub(flow.start_ps) {
            0 => "its start".to_owned(),
            since => format!("{} after its start", short_time(since)),
        };
        text += &format!("behind the pace to its deadline since {since}\n");
    }
    text
}

/// A bar as high as the percentage; any but nothing is seen.
fn bar(percent: usize) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    match percent {
        0 => ' ',
        _ => BARS[(percent * BARS.len() / 101).min(BARS.len() - 1)],
    }
}

/// Several flows, a line each.
pub fn explained_flows(flows: &[&ExplainedFlow], style: Style, width: Option<usize>) -> String {
    let mut table = ruled(style);
    table.set_header(["Flow", "Time (µs)", "In a sentence"].map(Cell::new));
    for flow in flows {
        let time = micros(flow.time_ps, flow.time_ps);
        table.add_row([flow.flow.to_string(), time, flow.sentence.clone()]);
    }
    for column in table.column_iter_mut().take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    fit(&mut table, width);
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

/// What the time of all explained flows went into, by transport: the mean of each kind over the
/// flows.
pub fn explained_totals(runs: &[Explained], style: Style) -> String {
    let means = Means::of(runs);
    let mut table = ruled(style);
    let header = std::iter::once("Mean (µs)".to_owned()).chain(means.transports.iter().cloned());
    table.set_header(header.map(Cell::new));
    for (title, row) in means.titles.iter().zip(&means.micros) {
        let cells = row.iter().map(|mean| number(*mean));
        table.add_row(std::iter::once(title.clone()).chain(cells));
    }
    let sums = (0..means.transports.len()).map(|n| means.micros.iter().map(|row| row[n]).sum());
    table.add_row(
        std::iter::once("in all".to_owned()).chain(sums.map(|sum: f64| format!("{sum:.1}"))),
    );
    let counts = means.flows.iter().map(ToString::to_string);
    table.add_row(std::iter::once("flows explained".to_owned()).chain(counts));
    let mut text = finished(table, 1);
    text.push('\n');
    text
}

fn number(mean: f64) -> String {
    if mean == 0.0 { String::new() } else { format!("{mean:.1}") }
}

/// Mean times by kind and transport.
pub(crate) struct Means {
    /// In order of their first run.
    pub(crate) transports: Vec<String>,
    pub(crate) flows: Vec<usize>,
    /// Those that any flow has.
    pub(crate) what: Vec<What>,
    /// What they are in a few words: as the transports call them, if they agree.
    pub(crate) titles: Vec<String>,
    /// By kind, then transport.
    pub(crate) micros: Vec<Vec<f64>>,
}

impl Means {
    pub(crate) fn of(runs: &[Explained]) -> Means {
        let mut transports: Vec<String> = Vec::new();
        for run in runs {
            if !transports.contains(&run.transport) {
                transports.push(run.transport.clone());
            }
        }
        let flows_of = |transport: &String| {
            let own = runs.iter().filter(|run| run.transport == *transport);
            own.flat_map(|run| &run.flows).collect::<Vec<_>>()
        };
        let flows: Vec<Vec<&ExplainedFlow>> = transports.iter().map(flows_of).collect();
        let mean = |flows: &Vec<&ExplainedFlow>, what: What| {
            let parts = flows.iter().flat_map(|flow| &flow.parts);
            let own = parts.filter(|part| part.what == what.name());
            own.map(|part| part.time_ps as f64 / 1e6).sum::<f64>() / flows.len().max(1) as f64
        };
        let mut means = Means {
            transports,
            flows: flows.iter().map(Vec::len).collect(),
            what: Vec::new(),
            titles: Vec::new(),
            micros: Vec::new(),
        };
        for what in What::ALL {
            let row: Vec<f64> = flows.iter().map(|flows| mean(flows, what)).collect();
            if row.iter().any(|mean| *mean > 0.0) {
                means.what.push(what);
                means.titles.push(common_title(what, &flows));
                means.micros.push(row);
            }
        }
        means
    }
}

/// What all flows call this, or else what it is called whatever the transport.
fn common_title(what: What, flows: &[Vec<&ExplainedFlow>]) -> String {
    let own =
        flows.iter().flatten().filter(|flow| flow.parts.iter().any(|p| p.what == what.name()));
    let mut titles = own.map(|flow| title(what.name(), &flow.parts));
    let first = titles.next().unwrap_or(what.title());
    if titles.all(|other| other == first) { first.to_owned() } else { what.title().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(transport: &str, what: &str, title: &str) -> Explained {
        let part = ExplainedPart {
            what: what.to_owned(),
            title: title.to_owned(),
            time_ps: 1_000_000,
            ..ExplainedPart::default()
        };
        let flow = ExplainedFlow { parts: vec![part], ..ExplainedFlow::default() };
        Explained { flows: vec![flow], ..Explained::new(transport, 1, "all") }
    }

    #[test]
    fn parts_have_the_titles_that_their_transports_give_if_they_agree() {
        let titles = |runs: &[Explained]| Means::of(runs).titles;
        let pulled = run("ndp", "pull", "waiting to be pulled");
        assert_eq!(titles(std::slice::from_ref(&pulled)), ["waiting to be pulled"]);
        let credit = run("own", "pull", "waiting for credit");
        assert_eq!(titles(&[pulled.clone(), credit]), [What::Pull.title()]);
        // Files of earlier versions have no titles.
        assert_eq!(titles(&[run("ndp", "queue", "")]), [What::Queue.title()]);
        let text = explained_flow(&pulled.flows[0], Style::Plain, None);
        assert!(text.contains("waiting to be pulled"), "{text}");
    }
}
