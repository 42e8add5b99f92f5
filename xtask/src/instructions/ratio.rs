//! Transports against DCTCP in one scenario, instead of a count written down.

use super::Measured;

/// Whole runs of several transports are named `scenario/transport`.
const SCENARIOS: [&str; 2] = ["ten-flows", "aggregation"];
/// What each may cost per packet-hop, hosts included, as a multiple of DCTCP's, whose ports are
/// ordinary ones.
const AT_MOST: f64 = 2.0;
const REFERENCE: &str = "dctcp";

/// The scenario of a benchmark, if it is one of these at all.
fn scenario(name: &str) -> Option<&str> {
    let (scenario, _) = name.split_once('/')?;
    SCENARIOS.into_iter().find(|known| *known == scenario)
}

/// Whether a benchmark is compared with another, and needs no baseline.
pub(crate) fn is_relative(name: &str) -> bool {
    scenario(name).is_some()
}

/// What a benchmark costs as a multiple of DCTCP's, where both were measured.
fn ratio(one: &Measured, all: &[Measured]) -> Option<f64> {
    let scenario = scenario(&one.name)?;
    let reference = all.iter().find(|other| other.name == format!("{scenario}/{REFERENCE}"))?;
    Some(one.per_operation / reference.per_operation)
}

/// A line for each such benchmark; empty if there is none.
pub(crate) fn table(measured: &[Measured]) -> String {
    let mut text = String::new();
    for one in measured {
        let Some(ratio) = ratio(one, measured) else { continue };
        text += &format!("{:<24} {:>14.2} {AT_MOST:>10.2}\n", one.name, ratio);
    }
    if text.is_empty() {
        return text;
    }
    format!("\n{:<24} {:>14} {:>10}\n{text}", "per packet-hop", "times DCTCP's", "at most")
}

/// What costs too much.
pub(crate) fn complaints(measured: &[Measured]) -> Vec<String> {
    let too_much = |one: &Measured| {
        let ratio = ratio(one, measured)?;
        (ratio > AT_MOST)
            .then(|| format!("{} takes {ratio:.2} times DCTCP's, not {AT_MOST:.2}", one.name))
    };
    measured.iter().filter_map(too_much).collect()
}
