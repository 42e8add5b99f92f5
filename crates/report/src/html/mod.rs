//! The report: one page of HTML with everything in it, from a directory of results.
//!
//! It needs no network and no other file. Data is reduced to what a screen can show, so that a page
//! stays below 5 MB whatever the size of the runs. The page says where data was reduced.

mod explain;
mod facts;
pub(crate) mod flows;
mod layout;
pub(crate) mod model;
mod network;
pub(crate) mod numbers;
mod pauses;
mod plain;
mod probes;
pub(crate) mod reproduction;
mod samples;
pub(crate) mod sla;
mod tiers;
mod verdict;

use crate::collect::{PointRuns, ReportError, Results, Row};
use crate::palette::{Dash, Palette};
use crate::table::GroupedBy;
use flows::Group;
use model::{Body, Head, Look, Page, Section};
use network::Traced;
use pauses::Paused;
use punctual_results::{
    FlowRow, Manifest, PortRow, ReadError, Repeated, RunFiles, Summary, part_of, read,
    read_flows_and_ports, read_in_parallel, title, titled,
};
use samples::Recorded;
use std::path::{Path, PathBuf};
use tiers::Used;

/// The maximum number of points of all CDFs together; about 15 bytes each.
const CDF_POINTS: usize = 60_000;
/// The maximum number of points of all scatter plots together; about 50 bytes each.
const SCATTER_POINTS: usize = 24_000;
/// The maximum number of points of all time series together, half for ports, half for gauges; about
/// 15 bytes each.
const TIME_POINTS: usize = 80_000;
/// The minimum and maximum number of points of a time series.
const TIME_POINTS_MIN: usize = 16;
const TIME_POINTS_MAX: usize = 500;
/// The maximum number of points of a sweep that are shown in detail, not only by their summaries.
const POINTS_IN_DETAIL: usize = 60;

/// How many points a single curve may have.
pub(crate) struct Budget {
    cdf: usize,
    points: usize,
    points_in_detail: usize,
    runs: usize,
}

impl Budget {
    /// The budget for `curves` curves and `points_in_detail` points of a sweep.
    pub(crate) fn new(curves: usize, points_in_detail: usize) -> Budget {
        let curves = curves.max(1);
        // Completion times and slowdowns are two distributions.
        let cdf = (CDF_POINTS / curves / 2).clamp(24, 600);
        let points = (SCATTER_POINTS / curves).clamp(24, 1500);
        Budget { cdf, points, points_in_detail: points_in_detail.max(1), runs: curves }
    }

    /// The maximum number of time series of one kind at one point of a sweep.
    fn time_series(&self) -> usize {
        TIME_POINTS / self.points_in_detail / 2 / TIME_POINTS_MIN
    }

    /// The number of points of each of `series` time series.
    fn time(&self, series: usize) -> usize {
        let all = TIME_POINTS / self.points_in_detail / 2;
        (all / series.max(1)).clamp(TIME_POINTS_MIN, TIME_POINTS_MAX)
    }
}

/// The page of a directory of results: of a run, or of any directory above runs. Files are read by
/// several threads; the page does not depend on their number.
pub fn html(dir: &Path, palette: &Palette, threads: usize) -> Result<String, ReportError> {
    Ok(report(dir, palette, threads)?.html)
}

/// A page, and what is missing in it.
#[derive(Debug)]
pub struct Report {
    /// The page.
    pub html: String,
    /// Which runs are missing or damaged, in words; empty when all are there.
    pub incomplete: Vec<String>,
}

/// The page of a directory of results like [`html`], and what is missing in it.
pub fn report(dir: &Path, palette: &Palette, threads: usize) -> Result<Report, ReportError> {
    let results = Results::of(dir, threads)?;
    let name = dir.file_name().map_or_else(|| "results".into(), |name| name.to_string_lossy());
    let html = rendered(&page(&results, &name, palette, threads)?);
    Ok(Report { html, incomplete: results.incomplete })
}

/// The page of one scenario that was run in two ways, each with the name of the way and its directory
/// of results.
pub fn report_of_both(
    [(way, dir), (other_way, other)]: [(&str, &Path); 2],
    palette: &Palette,
    threads: usize,
) -> Result<Report, ReportError> {
    let results = Results::of(dir, threads)?;
    let results = results.beside(way, Results::of(other, threads)?, other_way);
    let name = other.file_name().map_or_else(|| "results".into(), |name| name.to_string_lossy());
    let mut page = page(&results, &name, palette, threads)?;
    page.title = format!("{}: {way} and {other_way}", page.title);
    // Solid lines are of one way, dashed ones of the other.
    for look in &mut page.transports {
        let is_of = |way: &str| look.name.ends_with(&format!(" ({way})"));
        if is_of(way) {
            look.set_dash(Dash::Solid);
        } else if is_of(other_way) {
            look.set_dash(Dash::Dashed);
        }
    }
    Ok(Report { html: rendered(&page), incomplete: results.incomplete })
}

fn page(
    results: &Results,
    directory: &str,
    palette: &Palette,
    threads: usize,
) -> Result<Page, ReportError> {
    let mut page = Page {
        title: directory.to_owned(),
        warnings: results.incomplete.iter().chain(&results.warnings).cloned().collect(),
        version: env!("CARGO_PKG_VERSION"),
        ..Page::default()
    };
    if let Some(found) = &results.capacities {
        page.title = found.name.clone();
        page.about = found.description.clone();
    }
    if let Some(plan) = &results.plan {
        page.title = plan.name.clone();
        page.about = plan.description.clone();
    }
    if let Some((_, overrides)) = source(results) {
        page.overrides = overrides.to_vec();
    }
    let names = names(results);
    let styles = palette.styles(names.iter().map(String::as_str));
    page.transports =
        names.iter().zip(styles).map(|(name, style)| Look::new(name, style)).collect();
    let number = |name: &str| names.iter().position(|known| known == name).unwrap_or(0);

    let target = sla::Target::of(results.capacities.as_ref());
    let mut searched: Option<Head> = None;
    if let Some(found) = &results.capacities {
        let mut head = probes::head(found, &results.probed, &number)?;
        // The directory may also have the runs of a comparison, with overrides of their own.
        if page.overrides != found.overrides && !found.overrides.is_empty() {
            let set = found.overrides.iter().map(|set| format!("--set {set}"));
            let set = set.collect::<Vec<_>>().join(" ");
            head.facts.push(("Overrides of the search".into(), set));
        }
        searched = Some(head);
        let mut sections = numbers::capacity(found, &number);
        for section in &mut sections {
            let heading = probes::heading(&found.column);
            section.title = section.title.replace(&found.column, &heading);
            match &mut section.body {
                Body::Chart(chart) => chart.y.label = heading,
                Body::Table(table) => {
                    for text in &mut table.header {
                        *text = text.replace(&found.column, &heading);
                    }
                }
                _ => {}
            }
        }
        page.sections.extend(sections);
        page.sections.extend(probes::section(found, &number));
    }
    let several = results.points.len() > 1;
    if several {
        let key = results.plan.as_ref().and_then(|plan| plan.points.first()).map(|point| {
            point.values.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(", ")
        });
        let key = key.filter(|key| !key.is_empty()).unwrap_or_else(|| "point".into());
        if let Some(mut sweep) = numbers::sweep(&results.points, &key, &number) {
            sla::mark(&mut sweep, &target);
            say_maxima(&mut sweep);
            page.sections.push(sweep);
        }
    }
    let detailed = results.points.len().min(POINTS_IN_DETAIL);
    if detailed < results.points.len() {
        page.warnings.push(format!(
            "Only the first {detailed} of {} points of the sweep are shown in detail; their \
             summaries are all here.",
            results.points.len()
        ));
    }
    let curves = results.points.iter().take(detailed).map(|point| point.rows.len()).sum();
    let budget = Budget::new(curves, detailed);
    for (i, point) in results.points.iter().take(detailed).enumerate() {
        let (head, sections) = details(point, &names, (&number, &budget, &target), threads)?;
        page.heads.push(match &searched {
            Some(searched) => head.after(searched),
            None => head,
        });
        let of_point =
            sections.into_iter().map(|section| Section { point: several.then_some(i), ..section });
        page.sections.extend(of_point);
        if several {
            page.points.push(point.label.clone());
        }
    }
    if page.heads.is_empty() {
        page.heads.extend(searched);
    }
    page.sections.extend(sources(results));
    Ok(page)
}

/// Says where a 99th percentile is the maximum.
fn say_maxima(sweep: &mut Section) {
    let Body::Chart(chart) = &mut sweep.body else { return };
    let mut some = false;
    for series in chart.views.iter_mut().flat_map(|view| &mut view.series) {
        match series.about.iter().all(String::is_empty) {
            true => series.about.clear(),
            false => some = true,
        }
    }
    if some {
        sweep.lead += " The 99th percentile of fewer than 100 flows is their maximum.";
    }
}

/// Everything about one point.
fn details(
    point: &PointRuns,
    names: &[String],
    (number, budget, target): (&numbers::Numbered<'_>, &Budget, &sla::Target),
    threads: usize,
) -> Result<(Head, Vec<Section>), ReportError> {
    let rows: Vec<Repeated> = point.rows.iter().map(Row::repeated).collect();
    let mut groups: Vec<Group> = Vec::new();
    let mut recorded = Vec::new();
    let mut paused = Vec::new();
    let mut traced: Vec<Traced> = Vec::new();
    let mut used: Vec<(usize, Vec<PortRow>)> = Vec::new();
    let mut parts: Vec<(usize, Repeated)> = Vec::new();
    let mut first: Option<Manifest> = None;
    let mut queues: Vec<(usize, String)> = Vec::new();
    let mut runs = read_all(point, threads)?.into_iter();
    for row in &point.rows {
        let title = row.summary.title();
        let transport = number(&title);
        let mut own: Vec<(String, Group)> = Vec::new();
        let carriers: Vec<&str> = row.transports.iter().map(String::as_str).collect();
        let mut of_carriers: Vec<Vec<Summary>> = vec![Vec::new(); carriers.len()];
        for (repetition, run) in row.repetitions.iter().zip(&mut runs) {
            let (flows, ports) = match run {
                RunRead::First(files) => {
                    queues.push((transport, files.manifest.queue.clone()));
                    first.get_or_insert(files.manifest);
                    traced.push(Traced {
                        transport,
                        ports: files.ports.clone(),
                        trace: files.network,
                    });
                    paused.push(Paused { transport, rows: files.pauses });
                    let (queues, gauges) = (files.queues, files.gauges);
                    recorded.push(Recorded { transport, queues, gauges });
                    (files.flows, files.ports)
                }
                RunRead::Other(flows, ports) => (flows, ports),
            };
            used.push((transport, ports));
            let seed = repetition.seeds.first().copied().unwrap_or(0);
            if row.is_mix() {
                for (carrier, summaries) in carriers.iter().zip(&mut of_carriers) {
                    summaries.extend(part_of(repetition, &flows, carrier));
                }
            }
            for flow in flows.into_iter().filter(|flow| flow.measured) {
                let part = row.is_mix().then(|| part_name(row, &flow.transport, names));
                let name = part.as_ref().unwrap_or(&title);
                let known = own.iter().position(|(known, _)| known == name);
                let place = known.unwrap_or_else(|| {
                    let group = Group { transport: number(name), flows: Vec::new() };
                    own.push((name.clone(), group));
                    own.len() - 1
                });
                own[place].1.flows.push((seed, flow));
            }
        }
        groups.extend(own.into_iter().map(|(_, group)| group));
        for (carrier, summaries) in carriers.iter().zip(of_carriers) {
            if let Ok(part) = Repeated::new(summaries) {
                parts.push((number(&part_name(row, carrier, names)), part));
            }
        }
    }
    // Ideal schedulers have none.
    queues.retain(|(_, queue)| !queue.is_empty());
    let ports = used.iter().map(|(_, ports)| ports).find(|ports| !ports.is_empty());
    let ports = ports.map(Vec::as_slice).unwrap_or_default();
    let facts = facts::of(point, ports, first.as_ref());
    let head = Head { verdict: verdict::of(&rows), facts, queues };
    let mut sections = vec![numbers::table(&rows, number)];
    sections.extend(numbers::parts(&parts));
    for by in [GroupedBy::Traffic, GroupedBy::Size] {
        sections.extend(numbers::groups(&rows, by, number));
    }
    sections.extend(numbers::bars(&rows, number).map(|mut met| {
        sla::mark(&mut met, target);
        met.lead += &format!(" The dashed line is at {}.", target.label);
        met
    }));
    sections.extend(flows::cdf(&groups, budget));
    sections.extend(flows::deadlines(&groups, budget));
    sections.extend(explain::section(&point.rows, number)?);
    sections.extend(network::section(&traced, budget.runs));
    let mut ports = samples::ports(&recorded, &point.ports, budget);
    let gauges = samples::gauges(&recorded, &point.ports, budget);
    if let Some(first) = ports.first_mut()
        && gauges.is_none()
        && recorded.iter().any(|run| !run.gauges.is_empty())
    {
        first.lead += " Transport state is left out to limit the size of the page: it is in the \
                       report of this point's directory.";
    }
    sections.extend(ports);
    let used: Vec<Used<'_>> =
        used.iter().map(|(transport, ports)| Used { transport: *transport, ports }).collect();
    sections.extend(tiers::section(&used, names));
    sections.extend(pauses::tiers(&paused, names));
    sections.extend(gauges);
    Ok((head, sections))
}

/// What is read of a run: all of a transport's first, the flows and ports of its other repetitions.
enum RunRead {
    First(Box<RunFiles>),
    Other(Vec<FlowRow>, Vec<PortRow>),
}

/// Reads the runs of a point, by transport and repetition.
fn read_all(point: &PointRuns, threads: usize) -> Result<Vec<RunRead>, ReadError> {
    let rows = point.rows.iter();
    let runs: Vec<(usize, &PathBuf)> = rows.flat_map(|row| row.dirs.iter().enumerate()).collect();
    read_in_parallel(runs.len(), threads, |run| {
        let (repetition, dir) = runs[run];
        if repetition == 0 {
            return Ok(RunRead::First(Box::new(read(dir)?)));
        }
        let (flows, ports) = read_flows_and_ports(dir)?;
        Ok(RunRead::Other(flows, ports))
    })
}

/// The name of a transport's part of a mix: the transport's or, if that has its own row, both.
fn part_name(row: &Row, transport: &str, names: &[String]) -> String {
    let part = title(transport, row.summary.kind);
    let in_mix = format!("{part} in {}", row.summary.title());
    if names.contains(&in_mix) { in_mix } else { part }
}

/// Every name that has a colour, in the order of the rows.
fn names(results: &Results) -> Vec<String> {
    let rows = || results.points.iter().flat_map(|point| &point.rows);
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: String| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    if let Some(found) = &results.capacities {
        found.answers.iter().for_each(|answer| add(answer.transport.clone()));
    }
    rows().for_each(|row| add(row.summary.title()));
    let mixes = || rows().filter(|row| row.is_mix());
    for row in mixes() {
        let whole = row.summary.title();
        for part in &row.transports {
            let part = title(part, row.summary.kind);
            let alone = rows().any(|other| other.summary.title() == part);
            let several = mixes().any(|other| other.summary.transport != row.summary.transport);
            add(if alone || several { format!("{part} in {whole}") } else { part });
        }
    }
    names
}

/// The text of the scenario, and what the command line changed in it.
fn source(results: &Results) -> Option<(&str, &[String])> {
    let plan = results.plan.as_ref().map(|plan| (&*plan.scenario, &*plan.overrides));
    let found = results.capacities.as_ref().map(|found| (&*found.scenario, &*found.overrides));
    let run = results.manifest.as_ref().map(|made| (&*made.scenario, &*made.overrides));
    plan.or(found).or(run)
}

/// The scenario and the manifest.
fn sources(results: &Results) -> Vec<Section> {
    let Some((scenario, overrides)) = source(results) else { return Vec::new() };
    let mut lead = "The scenario file of all runs.".to_owned();
    if !overrides.is_empty() {
        lead += " The overrides above are not in it.";
    }
    let text = |id: &str, title: &str, lead: String, file: &str, text: String| Section {
        id: id.to_owned(),
        title: title.to_owned(),
        lead,
        point: None,
        body: Body::Text { file: file.to_owned(), text },
    };
    let mut sections =
        vec![text("scenario", "Scenario", lead, "scenario.toml", scenario.to_owned())];
    if let Some(manifest) = &results.manifest {
        // Without the scenario, which is above, and the machine: a page is the same wherever it is
        // made.
        let shown = Manifest { scenario: "(above)".into(), ..manifest.clone() };
        let mut json = serde_json::to_value(shown).unwrap_or_default();
        if let Some(fields) = json.as_object_mut() {
            fields.remove("host");
            // The digest also depends on the machine.
            fields.remove("digest");
        }
        let lead =
            "The manifest of the first run; the others differ in transport, seed and point of the \
             sweep. The machine and the time it took are in the file itself."
                .to_owned();
        let json = serde_json::to_string_pretty(&json).unwrap_or_default();
        sections.push(text("manifest", "Manifest", lead, "manifest.json", json));
    }
    sections
}

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("report.css");
const FORMAT: &str = include_str!("format.js");
const CHART: &str = include_str!("chart.js");
const SCRIPT: &str = include_str!("report.js");
const NETWORK_STYLE: &str = include_str!("network.css");
const NETWORK: &str = include_str!("network.js");
const EXPLAIN: &str = include_str!("explain.js");

/// The page as text.
fn rendered(page: &Page) -> String {
    let data = serde_json::to_string(page).unwrap_or_default();
    // Only `<` could end the script element, and in JSON it occurs only within strings.
    let data = data.replace('<', "\\u003c");
    let mut text = String::with_capacity(data.len() + 64 * 1024);
    // In one pass, so that the name of a scenario is never taken for a placeholder.
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else { break };
        text += before;
        match name {
            "title" => text += &escaped(&page.title),
            // The tab shows nothing else of the page.
            "tab" => text += &escaped(&titled(&page.title, &page.overrides)),
            "style" => [STYLE, NETWORK_STYLE].into_iter().for_each(|part| text += part),
            "plain" => text += &plain::text(page),
            "data" => text += &data,
            "script" => {
                [FORMAT, CHART, NETWORK, EXPLAIN, SCRIPT].into_iter().for_each(|part| text += part)
            }
            _ => {}
        }
        rest = after;
    }
    text + rest
}

/// A text escaped for HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '&' => safe += "&amp;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests;
