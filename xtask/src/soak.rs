//! The soaks in full: 10,000 messages between two processes through a faulty network, with and without
//! kills of either end.

use crate::steps::Outcome;
use crate::tools::{cargo, run};

/// The transports that have a soak in full.
pub(crate) const TRANSPORTS: [&str; 3] = ["ndp", "d3", "pdq"];

/// The first name that is no transport with a soak.
pub(crate) fn unknown<'a>(names: &[&'a str]) -> Option<&'a str> {
    names.iter().copied().find(|name| !TRANSPORTS.contains(name))
}

/// Runs the soaks over these transports, one after the other; without names, over all.
pub(crate) fn soak(names: &[&str]) -> anyhow::Result<Outcome> {
    let mut soaks = cargo();
    soaks.args(["test", "-p", "punctual-host", "--test", "integration", "--"]);
    soaks.args(["--ignored", "--nocapture", "--test-threads=1"]);
    match names {
        [] => drop(soaks.arg("soak__full_over_")),
        names => drop(soaks.args(names.iter().map(|name| format!("soak__full_over_{name}")))),
    }
    run(&mut soaks)?;
    Ok(Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transport_has_both_soaks() {
        let tests = include_str!("../../crates/host/tests/integration/processes.rs");
        for name in TRANSPORTS {
            for kills in ["", "_with_kills"] {
                assert!(tests.contains(&format!("fn soak__full_over_{name}{kills}()")), "{name}");
            }
        }
        assert_eq!(unknown(&["d3", "tcp"]), Some("tcp"));
    }
}
