//! Compares transports with DCTCP in one scenario, instead of with a baseline.

use super::Measured;

/// Scenarios of whole runs. Their benchmarks are named `scenario/transport`.
const SCENARIOS: [&str; 2] = ["ten-flows", "aggregation"];
/// Highest cost per packet-hop as a multiple of DCTCP's, including hosts. DCTCP uses plain ports.
const AT_MOST: f64 = 2.0;
const REFERENCE: &str = "dctcp";

/// The scenario of a benchmark, if it is one of [`SCENARIOS`].
fn scenario(name: &str) -> Option<&str> {
    let (scenario, _) = name.split_once('/')?;
    SCENARIOS.into_iter().find(|known| *known == scenario)
}

/// Whether a benchmark is compared with DCTCP and needs no baseline.
pub(crate) fn is_relative(name: &str) -> bool {
    scenario(name).is_some()
}

/// The cost of a benchmark as a multiple of DCTCP's, if both were measured.
fn ratio(one: &Measured, all: &[Measured]) -> Option<f64> {
    let scenario = scenario(&one.name)?;
    let reference = all.iter().find(|other| other.name == format!("{scenario}/{REFERENCE}"))?;
    Some(one.per_operation / reference.per_operation)
}

/// A table of the benchmarks compared with DCTCP; empty if there is none.
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

/// Benchmarks that cost more than [`AT_MOST`] times DCTCP.
pub(crate) fn complaints(measured: &[Measured]) -> Vec<String> {
    let too_much = |one: &Measured| {
        let ratio = ratio(one, measured)?;
        (ratio > AT_MOST).then(|| {
            format!(
                "{} needs {ratio:.2} times the instructions of DCTCP, above {AT_MOST:.2}",
                one.name
            )
        })
    };
    measured.iter().filter_map(too_much).collect()
}
