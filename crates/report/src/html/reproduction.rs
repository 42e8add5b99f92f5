//! The page of reproduced experiments: claims with their verdicts, and the paper's points beside ours.

use super::model::{
    Axis, Body, Chart, Head, Look, Mark, Page, Section, Series, TableBody, TableRow,
};
use super::model::{Unit, View};
use super::rendered;
use crate::palette::{Dash, Palette};
use crate::svg;

/// Experiments that were reproduced, as the page shows them.
#[derive(Debug, Clone, Default)]
pub struct Reproduction {
    /// Title of the page.
    pub title: String,
    /// What ran, in one line.
    pub about: String,
    /// The sums over all claims, in sentences.
    pub verdict: Vec<String>,
    /// Build, size and the like: a name and a text each.
    pub facts: Vec<(String, String)>,
    /// The experiments.
    pub figures: Vec<ReproducedFigure>,
}

/// One experiment.
#[derive(Debug, Clone, Default)]
pub struct ReproducedFigure {
    /// Its name, such as `ndp/fig14`.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// How the paper is read where it leaves something open.
    pub lead: String,
    /// Header of the table of claims.
    pub header: Vec<String>,
    /// The claims.
    pub rows: Vec<Vec<String>>,
    /// Its charts.
    pub charts: Vec<ReproducedChart>,
}

/// A chart of our values beside the paper's points.
#[derive(Debug, Clone, Default)]
pub struct ReproducedChart {
    /// Its title.
    pub title: String,
    /// Name of the horizontal axis.
    pub x: String,
    /// Unit of the values.
    pub unit: String,
    /// Labels of the horizontal axis, in order.
    pub labels: Vec<String>,
    /// One curve per transport.
    pub curves: Vec<ReproducedCurve>,
}

/// One transport in a chart.
#[derive(Debug, Clone, Default)]
pub struct ReproducedCurve {
    /// The transport.
    pub transport: String,
    /// Our value at each label.
    pub values: Vec<Option<f64>>,
    /// Half the width of its interval.
    pub half: Vec<Option<f64>>,
    /// The paper's points.
    pub paper: Vec<[f64; 2]>,
}

/// The page as HTML.
pub fn reproduction_html(what: &Reproduction, palette: &Palette) -> String {
    let (names, looks) = looks(what.figures.iter().flat_map(|f| &f.charts), palette);
    let mut sections = Vec::new();
    for figure in &what.figures {
        let id = figure.id.replace(['/', ' '], "-");
        let row = |cells: &Vec<String>| TableRow { cells: cells.clone(), ..TableRow::default() };
        sections.push(Section {
            id: id.clone(),
            title: format!("{}: {}", figure.id, figure.title),
            lead: figure.lead.clone(),
            point: None,
            body: Body::Table(TableBody {
                header: figure.header.clone(),
                rows: figure.rows.iter().map(row).collect(),
            }),
        });
        for (i, chart) in figure.charts.iter().enumerate() {
            sections.push(Section {
                id: format!("{id}-{}", i + 1),
                title: format!("{}: {}", figure.id, chart.title),
                lead: LEAD.to_owned(),
                point: None,
                body: Body::Chart(drawn(chart, &names)),
            });
        }
    }
    let head = Head { verdict: what.verdict.clone(), facts: what.facts.clone(), ..Head::default() };
    rendered(&Page {
        title: what.title.clone(),
        about: what.about.clone(),
        version: env!("CARGO_PKG_VERSION"),
        heads: vec![head],
        transports: looks,
        sections,
        ..Page::default()
    })
}

/// A chart as an SVG file.
pub fn reproduction_svg(chart: &ReproducedChart, subtitle: &str, palette: &Palette) -> String {
    let (names, looks) = looks([chart], palette);
    svg::drawn(&drawn(chart, &names), &looks, &chart.title, subtitle)
}

const LEAD: &str = "Solid lines with intervals are ours (95 % over seeds). Dotted lines, called \
                    “paper”, join the published points.";

/// The name of the paper's curve of a transport.
fn of_paper(transport: &str) -> String {
    format!("{transport}, paper")
}

fn looks<'a>(
    charts: impl IntoIterator<Item = &'a ReproducedChart>,
    palette: &Palette,
) -> (Vec<String>, Vec<Look>) {
    let (mut names, mut published): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for curve in charts.into_iter().flat_map(|chart| &chart.curves) {
        if !names.contains(&curve.transport) {
            names.push(curve.transport.clone());
        }
        if !curve.paper.is_empty() && !published.contains(&curve.transport) {
            published.push(curve.transport.clone());
        }
    }
    let styles = palette.styles(names.iter().map(String::as_str));
    let mut looks: Vec<Look> =
        names.iter().zip(styles).map(|(name, style)| Look::new(name, style)).collect();
    // The paper's curve has the colour of ours.
    for transport in &published {
        let own = names.iter().position(|name| name == transport);
        let own = looks[own.expect("every transport has a look")].clone();
        let mut look = Look { name: of_paper(transport), ..own };
        look.set_dash(Dash::Dotted);
        looks.push(look);
    }
    names.extend(published.iter().map(|transport| of_paper(transport)));
    (names, looks)
}

/// The number at the beginning of a label, such as 30 of `30ms`.
fn number(label: &str) -> Option<f64> {
    let end = label.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(label.len());
    label[..end].parse().ok()
}

fn drawn(chart: &ReproducedChart, names: &[String]) -> Chart {
    let numbers: Option<Vec<f64>> = chart.labels.iter().map(|label| number(label)).collect();
    let is_rising = |xs: &Vec<f64>| xs.windows(2).all(|pair| pair[0] < pair[1]);
    let xs = numbers.filter(is_rising);
    let mut x = Axis::new(&chart.x, Unit::Number);
    let places: Vec<f64> = match &xs {
        Some(xs) => xs.clone(),
        None => {
            x.places = chart.labels.clone();
            (0..chart.labels.len()).map(|i| i as f64).collect()
        }
    };
    let mut series = Vec::new();
    for curve in &chart.curves {
        let place = |name: &str| names.iter().position(|own| own == name).unwrap_or(0);
        let transport = place(&curve.transport);
        let known: Vec<usize> = (0..places.len())
            .filter(|i| curve.values.get(*i).is_some_and(Option::is_some))
            .collect();
        let at = |values: &[Option<f64>], i: usize| values.get(i).copied().flatten();
        series.push(Series {
            transport,
            x: known.iter().map(|i| places[*i]).collect(),
            y: known.iter().filter_map(|i| at(&curve.values, *i)).collect(),
            half: known.iter().map(|i| at(&curve.half, *i).unwrap_or(f64::NAN)).collect(),
            ..Series::default()
        });
        if !curve.paper.is_empty() && xs.is_some() {
            series.push(Series {
                transport: place(&of_paper(&curve.transport)),
                x: curve.paper.iter().map(|[x, _]| *x).collect(),
                y: curve.paper.iter().map(|[_, y]| *y).collect(),
                ..Series::default()
            });
        }
    }
    let unit = if chart.unit.is_empty() { Unit::Number } else { Unit::Other(chart.unit.clone()) };
    let y = Axis::new(&chart.title, unit);
    Chart { mark: Mark::Line, x, y, views: vec![View { series, ..View::default() }] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_points_are_beside_ours() {
        let chart = ReproducedChart {
            title: "met".into(),
            x: "workers".into(),
            unit: "%".into(),
            labels: vec!["8".into(), "36".into()],
            curves: vec![ReproducedCurve {
                transport: "d3".into(),
                values: vec![Some(100.0), None],
                half: vec![Some(0.5), None],
                paper: vec![[36.0, 95.0]],
            }],
        };
        let figure = ReproducedFigure {
            id: "d3/fig10".into(),
            header: vec!["Claim".into()],
            rows: vec![vec!["<b>".into()]],
            charts: vec![chart.clone()],
            ..ReproducedFigure::default()
        };
        let page = Reproduction { figures: vec![figure], ..Reproduction::default() };
        let palette = Palette::new(["d3"], []);
        let html = reproduction_html(&page, &palette);
        assert!(html.contains("d3, paper") && !html.contains("<b>"));
        let (names, looks) = looks([&chart], &palette);
        let drawn = drawn(&chart, &names);
        let series = &drawn.views[0].series;
        let [ours, published] = [0, 1].map(|i| &looks[series[i].transport]);
        assert_eq!((&*ours.name, &*published.name), ("d3", "d3, paper"));
        assert_eq!((&*ours.colour, ours.dash), (&*published.colour, "solid"));
        assert_eq!(published.dash, "dotted", "the paper's curve is not mistaken for ours");
        assert_eq!((series[0].x.clone(), series[1].x.clone()), (vec![8.0], vec![36.0]));
        assert!(reproduction_svg(&chart, "", &palette).starts_with("<svg"));
    }
}
