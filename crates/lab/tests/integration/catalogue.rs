//! The catalogue of experiments in `experiments/`.

use punctual_lab::catalogue::{Catalogue, ClaimVerdict, ReproduceError, Test};
use punctual_transports::AnyTransport;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn catalogue() -> Catalogue {
    Catalogue::load(&folder()).unwrap_or_else(|e| panic!("{e}"))
}

/// An error with the place in its file.
fn told(error: &ReproduceError) -> String {
    match error {
        ReproduceError::SetUp { source, .. } => format!("{error}\n{}", source.render(false)),
        other => other.to_string(),
    }
}

/// The specification's tables have 14 rows of D3, 17 and the two blind figures of D2TCP, 19 of PDQ
/// and 21 of NDP. The matrix of all transports has 7 workloads.
#[test]
fn every_row_of_the_evaluation_tables_has_a_claim() {
    let catalogue = catalogue();
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &catalogue.rows {
        *rows.entry(&row.paper).or_default() += 1;
    }
    let expected = [("d2tcp", 19), ("d3", 14), ("matrix", 7), ("ndp", 21), ("pdq", 19)];
    assert_eq!(rows.into_iter().collect::<Vec<_>>(), expected);
    let uncovered = catalogue.uncovered();
    assert!(uncovered.is_empty(), "rows without a claim: {uncovered:?}");
}

/// Every scenario of every part and reading is right, in full and quick, and every claim can be
/// computed from the runs that are planned.
#[test]
fn every_experiment_is_sound() {
    let catalogue = catalogue();
    let mut faults = Vec::new();
    for experiment in &catalogue.experiments {
        for quick in [false, true] {
            if let Err(error) = experiment.check::<AnyTransport>(quick, &catalogue.folder) {
                faults.push(told(&error));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// A claim names its source and a tolerance where it comes from; a blind one has none.
#[test]
fn claims_name_their_sources() {
    for experiment in &catalogue().experiments {
        for claim in &experiment.claims {
            let what = format!("{}, {}", experiment.id, claim.id);
            match &claim.test {
                Test::Number { .. } => {
                    assert!(!claim.source.is_empty() && !claim.paper.is_empty(), "{what}");
                    assert!(!claim.tolerance_from.is_empty(), "{what}: whose tolerance?");
                }
                Test::Order { .. } => assert!(!claim.paper.is_empty(), "{what}"),
                Test::Blind { .. } => assert!(claim.paper.is_empty(), "{what} is blind"),
                Test::Nothing => assert!(claim.cannot_run.is_some(), "{what}"),
            }
        }
    }
    assert_eq!(ClaimVerdict::CannotRun.name(), "cannot-run");
}
