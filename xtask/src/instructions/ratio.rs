//! Transports against DCTCP in one scenario, instead of a count written down.

use super::Measured;

/// Whole runs of several transports are named `scenario/transport`. What each may cost per
/// packet-hop, as a multiple of DCTCP's, whose ports are ordinary ones; none where it is only
/// told. In the tree of 12 hosts senders weigh more than ports, as few packets pass few hops.
const SCENARIOS: [(&str, Option<f64>); 2] = [("ten-flows", Some(2.0)), ("aggregation", None)];
const REFERENCE: &str = "dctcp";

/// The most that a benchmark may cost, if it is one of these at all.
fn bound(name: &str) -> Option<(&str, Option<f64>)> {
    let (scenario, _) = name.split_once('/')?;
    SCENARIOS.into_iter().find(|(known, _)| *known == scenario)
}

/// Whether a benchmark is compared with another, and needs no baseline.
pub(crate) fn is_relative(name: &str) -> bool {
    bound(name).is_some()
}

/// What a benchmark costs as a multiple of DCTCP's, where both were measured.
fn ratio(one: &Measured, all: &[Measured]) -> Option<f64> {
    let (scenario, _) = bound(&one.name)?;
    let reference = all.iter().find(|other| other.name == format!("{scenario}/{REFERENCE}"))?;
    Some(one.per_operation / reference.per_operation)
}

/// A line for each such benchmark; empty if there is none.
pub(crate) fn table(measured: &[Measured]) -> String {
    let mut text = String::new();
    for one in measured {
        let Some(ratio) = ratio(one, measured) else { continue };
        let most = bound(&one.name)
            .and_then(|(_, most)| most)
            .map_or("-".into(), |most| format!("{most:.2}"));
        text += &format!("{:<24} {:>14.2} {most:>10}\n", one.name, ratio);
    }
    if text.is_empty() {
        return text;
    }
    format!("\n{:<24} {:>14} {:>10}\n{text}", "per packet-hop", "times DCTCP's", "at most")
}

/// What costs too much.
pub(crate) fn complaints(measured: &[Measured]) -> Vec<String> {
    let too_much = |one: &Measured| {
        let most = bound(&one.name)?.1?;
        let ratio = ratio(one, measured)?;
        (ratio > most)
            .then(|| format!("{} takes {ratio:.2} times DCTCP's, not {most:.2}", one.name))
    };
    measured.iter().filter_map(too_much).collect()
}
