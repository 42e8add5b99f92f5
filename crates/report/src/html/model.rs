//! The model of a report: sections with a table, a chart or a text each.
//!
//! The page's script draws the model. A new kind of section needs a variant of [`Body`] here and a
//! function in `report.js`.

use super::network::NetworkBody;
use crate::palette::{Dash, LineStyle};
use serde::{Serialize, Serializer};

/// Everything that the page shows.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Page {
    /// Name of the scenario.
    pub(crate) title: String,
    /// Description of the scenario.
    pub(crate) about: String,
    /// Why the results are incomplete, in words. Shown at the top.
    pub(crate) warnings: Vec<String>,
    /// Version of punctual that wrote the page.
    pub(crate) version: &'static str,
    /// What the command line changed in the scenario, each as `key=value`.
    pub(crate) overrides: Vec<String>,
    /// The verdict and the facts of each point of the sweep; one entry without a sweep.
    pub(crate) heads: Vec<Head>,
    /// All transports with a colour, in the order of the legend.
    pub(crate) transports: Vec<Look>,
    /// Points of the sweep; none without one.
    pub(crate) points: Vec<String>,
    /// The sections, in order.
    pub(crate) sections: Vec<Section>,
}

/// The head of the page: the verdict and the facts.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Head {
    /// The verdict in sentences, which claim only significant differences.
    pub(crate) verdict: Vec<String>,
    /// Network, load and runs: a name and a text each.
    pub(crate) facts: Vec<(String, String)>,
    /// The switch queue of each transport that has one, by the number of the transport.
    pub(crate) queues: Vec<(usize, String)>,
}

impl Head {
    /// This head of a point after the head of a capacity search in the same directory.
    pub(crate) fn after(self, search: &Head) -> Head {
        let Head { mut verdict, mut facts, mut queues } = search.clone();
        verdict.extend(self.verdict);
        // Network and traffic of both are the same; the point's own load and runs count.
        facts.retain(|(name, _)| !self.facts.iter().any(|(own, _)| own == name));
        facts.extend(self.facts);
        queues.retain(|(transport, _)| !self.queues.iter().any(|(own, _)| own == transport));
        queues.extend(self.queues);
        Head { verdict, facts, queues }
    }
}

/// A transport and its look.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Look {
    pub(crate) name: String,
    pub(crate) colour: String,
    /// Its colour on a dark page.
    pub(crate) dark: String,
    pub(crate) dash: &'static str,
    /// The dash as SVG's `stroke-dasharray`.
    pub(crate) dash_pattern: &'static str,
}

impl Look {
    pub(crate) fn new(name: &str, style: LineStyle) -> Look {
        let mut look = Look {
            name: name.to_owned(),
            colour: style.colour.light.to_string(),
            dark: style.colour.dark.to_string(),
            dash: "",
            dash_pattern: "",
        };
        look.set_dash(style.dash);
        look
    }

    /// Draws its lines with this dash.
    pub(crate) fn set_dash(&mut self, dash: Dash) {
        self.dash = match dash {
            Dash::Solid => "solid",
            Dash::Dashed => "dashed",
            Dash::Dotted => "dotted",
            Dash::DashDotted => "dash-dotted",
            Dash::LongDashed => "long-dashed",
        };
        self.dash_pattern = dash.pattern();
    }
}

/// A part of the page.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Section {
    /// Unique among the sections shown together; also the name of downloads.
    pub(crate) id: String,
    pub(crate) title: String,
    /// How to read it, and what was left out.
    pub(crate) lead: String,
    /// The point of the sweep that it is about; all of them when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) point: Option<usize>,
    pub(crate) body: Body,
}

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Body {
    Table(TableBody),
    Chart(Chart),
    Network(Box<NetworkBody>),
    Stack(Stack),
    /// The text of a file.
    Text {
        file: String,
        text: String,
    },
}

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct TableBody {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<TableRow>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct TableRow {
    /// The transport it is about, by number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transport: Option<usize>,
    pub(crate) cells: Vec<String>,
    /// The cells that are the best of their column.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) best: Vec<usize>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Chart {
    pub(crate) mark: Mark,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// The views, of which one is shown at a time.
    pub(crate) views: Vec<View>,
}

/// How values are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mark {
    /// A line that stays until the next value.
    Step,
    /// A line from value to value, with intervals where there are any.
    Line,
    /// Points, those of each series in a plot of its own; all plots have the same axes.
    Points,
    /// Horizontal bars, one per series, with intervals.
    Bars,
}

/// An axis.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) unit: Unit,
    pub(crate) log: bool,
    /// The smallest and the largest value, unless the data determine them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<[f64; 2]>,
    /// Names of the places 0, 1, 2 …
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) places: Vec<String>,
}

impl Axis {
    pub(crate) fn new(label: &str, unit: Unit) -> Axis {
        Axis { label: label.into(), unit, log: false, range: None, places: Vec::new() }
    }

    pub(crate) fn log(label: &str, unit: Unit) -> Axis {
        Axis { log: true, ..Axis::new(label, unit) }
    }
}

/// The unit of numbers, by which the page formats them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unit {
    /// Microseconds.
    Time,
    /// A share from 0 to 1.
    Share,
    Bytes,
    BitsPerSecond,
    /// A factor, such as a slowdown.
    Factor,
    /// A plain number.
    Number,
    /// A number with a unit of its own.
    #[serde(untagged)]
    Other(String),
}

/// One view of a chart.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct View {
    pub(crate) label: String,
    pub(crate) series: Vec<Series>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) lines: Vec<Reference>,
    /// Axes of this view, where they differ from the chart's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) x: Option<Axis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) y: Option<Axis>,
    /// The value of a distribution before its first step; the last value holds to the end of the
    /// axis. None for charts that are no distribution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<f64>,
}

/// One transport's values.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Series {
    /// The transport by number, for its colour and whether it is shown.
    pub(crate) transport: usize,
    /// Its name where a transport has several series.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) label: String,
    #[serde(serialize_with = "numbers")]
    pub(crate) x: Vec<f64>,
    #[serde(serialize_with = "numbers")]
    pub(crate) y: Vec<f64>,
    /// Half widths of intervals of `y`, NaN where there is none.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "numbers")]
    pub(crate) half: Vec<f64>,
    /// A line of text for each value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) about: Vec<String>,
    /// Values drawn as a cross, by position.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) crosses: Vec<usize>,
    /// The value that is marked, by position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) marked: Option<usize>,
}

/// A reference line.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Reference {
    /// At a value of x.
    Vertical { at: f64, label: String },
    /// At a value of y.
    Horizontal { at: f64, label: String },
    /// Where x = y.
    Diagonal { label: String },
}

/// Bars that are made of parts.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Stack {
    pub(crate) kinds: Vec<StackKind>,
    /// The views, of which one is shown at a time.
    pub(crate) views: Vec<StackView>,
}

/// A kind of part.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StackKind {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) colour: &'static str,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct StackView {
    pub(crate) label: String,
    pub(crate) rows: Vec<StackRow>,
}

/// A bar.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StackRow {
    /// The transport by number, for whether it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transport: Option<usize>,
    pub(crate) label: String,
    /// A line of text about it.
    pub(crate) about: String,
    /// Its parts, by kind.
    #[serde(serialize_with = "numbers")]
    pub(crate) micros: Vec<f64>,
}

/// Serialises numbers with five significant digits, which is all that a figure can show.
fn numbers<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| Number(*value)))
}

struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = rounded(self.0);
        if value.fract() == 0.0 && value.abs() < 1e15 {
            serializer.serialize_i64(value as i64)
        } else {
            // NaN becomes null.
            serializer.serialize_f64(value)
        }
    }
}

fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    // By way of decimal text, so that the result is the nearest number of five digits.
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let series = Series { x: vec![0.1 + 0.2, 123456.7, 2.0, f64::NAN], ..Series::default() };
        let json = serde_json::to_string(&series).unwrap();
        assert!(json.contains("[0.3,123460,2,null]"), "{json}");
    }

    #[test]
    fn own_units_are_texts() {
        let json = |unit: Unit| serde_json::to_string(&unit).unwrap();
        assert_eq!(json(Unit::BitsPerSecond), "\"bits-per-second\"");
        assert_eq!(json(Unit::Other("ms".into())), "\"ms\"");
    }
}
