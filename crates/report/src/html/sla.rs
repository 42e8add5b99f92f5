//! The target for *deadlines met*.

use super::model::{Body, Reference, Section};
use punctual_results::Capacities;

/// A share of deadlines met, drawn as a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    /// The share, 0 to 1.
    pub(crate) share: f64,
    /// The text beside the line.
    pub(crate) label: String,
}

/// The default target: 99 %, which services commonly promise.
impl Default for Target {
    fn default() -> Target {
        Target { share: 0.99, label: "99 %".to_owned() }
    }
}

impl Target {
    /// The condition of `capacity` where that is about deadlines met; otherwise 99 %.
    pub(crate) fn of(capacities: Option<&Capacities>) -> Target {
        let condition = capacities.filter(|found| found.column == COLUMN);
        condition.map_or_else(Target::default, |found| Target {
            share: found.threshold,
            label: found.until.replace('_', " "),
        })
    }
}

/// The column of deadlines met.
const COLUMN: &str = "deadlines_met";
/// The name of its axis.
const AXIS: &str = "Deadlines met";

/// Draws the target into every view of a chart that shows deadlines met.
pub(crate) fn mark(section: &mut Section, target: &Target) {
    let Body::Chart(chart) = &mut section.body else { return };
    let is_met = |label: &str| label == AXIS;
    let common = is_met(&chart.y.label);
    for view in &mut chart.views {
        if view.y.as_ref().map_or(common, |axis| is_met(&axis.label)) {
            let Target { share, label } = target.clone();
            view.lines.push(Reference::Horizontal { at: share, label });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_of_capacity_comes_before_99_per_cent() {
        assert_eq!(Target::of(None).share, 0.99);
        let mut found = Capacities { column: COLUMN.into(), threshold: 0.95, ..Capacities::new() };
        found.until = "deadlines_met >= 95%".into();
        assert_eq!(Target::of(Some(&found)).label, "deadlines met >= 95%");
        found.column = "fct_p99_us".into();
        assert_eq!(Target::of(Some(&found)), Target::default());
    }
}
