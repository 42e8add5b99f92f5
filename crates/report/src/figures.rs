//! The charts that `compare` writes as files.

use crate::html::flows::{self, Group};
use crate::html::model::{Body, Look, Section};
use crate::html::{Budget, numbers, sla};
use crate::palette::Palette;
use crate::svg;
use punctual_results::{FlowRow, Repeated};

/// A curve: the flows of one transport, of all repetitions.
#[derive(Debug, Clone)]
pub struct Curve {
    /// Name of the transport, as tables show it.
    pub name: String,
    /// Its flows.
    pub flows: Vec<FlowRow>,
}

/// The figures of one point of a comparison, each with the name of its file.
///
/// They are the distribution of FCTs and the share of deadlines met. Empty figures are left out.
pub fn figures(
    palette: &Palette,
    title: &str,
    subtitle: &str,
    curves: Vec<Curve>,
    rows: &[Repeated],
) -> Vec<(&'static str, String)> {
    let mut names: Vec<String> = rows.iter().map(|row| row.summary.title()).collect();
    names.extend(curves.iter().map(|curve| curve.name.clone()));
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let styles = palette.styles(names.iter().map(String::as_str));
    let looks: Vec<Look> =
        names.iter().zip(styles).map(|(name, style)| Look::new(name, style)).collect();
    let number = |name: &str| names.iter().position(|known| known == name).unwrap_or(0);
    let groups: Vec<Group> = curves
        .into_iter()
        .map(|Curve { name, flows }| Group {
            transport: number(&name),
            flows: flows.into_iter().filter(|flow| flow.measured).map(|flow| (0, flow)).collect(),
        })
        .collect();
    let mut met = numbers::bars(rows, &number);
    if let Some(section) = &mut met {
        sla::mark(section, &sla::Target::default());
    }
    let all = [("fct.svg", flows::cdf(&groups, &Budget::new(1, 1))), ("deadlines.svg", met)];
    let draw = |(file, section): (&'static str, Option<Section>)| {
        let Section { title: what, body: Body::Chart(chart), .. } = section? else { return None };
        Some((file, svg::drawn(&chart, &looks, &format!("{title}: {}", lower(&what)), subtitle)))
    };
    all.into_iter().filter_map(draw).collect()
}

/// A heading as used within a sentence, in lower case.
fn lower(heading: &str) -> String {
    let mut letters = heading.chars();
    let first = letters.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}
