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

/// What the papers leave open and verdicts may depend on, and a reading of each.
#[test]
fn what_papers_leave_open_has_readings() {
    let catalogue = catalogue();
    for (what, id, reading) in [
        ("phases of senders", "ndp/fig2", "clocks-100ppm"),
        ("buffers", "ndp/fig16", "released-law-large-buffer"),
        ("start times", "d3/fig16", "together"),
        ("who may end at a measured host", "ndp/fig15", "long-flows-end-anywhere"),
    ] {
        let experiment = catalogue.experiments.iter().find(|e| e.id == id).expect(id);
        let has_reading = experiment.readings.iter().any(|own| own.name == reading);
        assert!(has_reading && !experiment.open.is_empty(), "{what}: {id}");
    }
}

/// Tests read what the catalogue expects with `claimed` of the testkit, which reads the files by
/// itself.
#[test]
fn tests_read_the_same_expectations() {
    use std::ops::Bound;
    for experiment in &catalogue().experiments {
        for claim in &experiment.claims {
            let end = |end: Option<f64>| end.map_or(Bound::Unbounded, Bound::Included);
            let expected = match claim.test {
                Test::Number { at_least, at_most, .. } => (end(at_least), end(at_most)),
                Test::Order { .. } => (Bound::Excluded(1.0), Bound::Unbounded),
                Test::Blind { .. } | Test::Nothing => continue,
            };
            // A claim that cannot run may have no bounds.
            if expected != (Bound::Unbounded, Bound::Unbounded) {
                let found = punctual_testkit::claimed(&experiment.id, &claim.id);
                assert_eq!(found.ends(), expected, "{}, {}", experiment.id, claim.id);
            }
            assert_eq!(punctual_testkit::published(&experiment.id, &claim.id), claim.paper);
        }
    }
}

/// Settings of a transport or of its queue that differ between figures of a paper because the paper
/// says so: paper, setting, why.
const STATED: [(&str, &str, &str); 9] = [
    ("d3", "transport.tcppr.levels", "three levels beside background traffic"),
    ("d3", "transport.tcppr.mean_deadline", "the mean deadline of the figure"),
    ("d2tcp", "transport.d3.count_inversions", "a measurement"),
    ("ndp", "transport.ndp.initial_window", "23 and 15 in the authors' scripts, 30 in the text"),
    ("ndp", "transport.ndp.payload", "9000 bytes, whatever the MTU"),
    ("ndp", "transport.tcp.rto_min", "200 ms on the testbed"),
    ("ndp", "transport.tcp.rto_initial", "200 ms on the testbed"),
    ("pdq", "transport.m-pdq.subflows", "three in 11a; 11b and 11c vary them"),
    ("matrix", "", "each workload has the settings of its paper"),
];

/// Experiments with a set-up of their own: a stand-in for a trace, and a testbed of 1 Gb/s whose
/// marking threshold the paper gives.
const OWN_SET_UP: [&str; 2] = ["d3/fig4", "d2tcp/testbed"];

/// No protocol parameter has a value that only one figure wants: in all figures of a paper a
/// transport has the same settings, but for those that the paper varies itself.
#[test]
fn a_transport_has_the_same_settings_in_all_figures_of_a_paper() {
    let mut seen: BTreeMap<(String, String), BTreeMap<String, Vec<String>>> = BTreeMap::new();
    let catalogue = catalogue();
    for experiment in &catalogue.experiments {
        if OWN_SET_UP.contains(&&*experiment.id) {
            continue;
        }
        let file: toml::Table = toml::from_str(&experiment.text).expect("it was read before");
        let transports: Vec<&str> = file["transports"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|t| t.as_str())
            .collect();
        for section in ["transport", "queue"] {
            let none = toml::Table::new();
            let table = file.get(section).and_then(|t| t.as_table()).unwrap_or(&none);
            // A queue for all transports is the network's.
            if table.contains_key("kind") {
                continue;
            }
            for transport in &transports {
                let own = table.get(*transport).and_then(|t| t.as_table()).unwrap_or(&none);
                let mut own = own.clone();
                own.retain(|key, _| {
                    let name = format!("{section}.{transport}.{key}");
                    let paper = experiment.paper();
                    !STATED.iter().any(|(p, s, _)| *p == paper && (s.is_empty() || *s == name))
                });
                let place = (experiment.paper().to_owned(), format!("{section}.{transport}"));
                let text = own.to_string().replace('\n', ", ");
                seen.entry(place).or_default().entry(text).or_default().push(experiment.id.clone());
            }
        }
    }
    let several: Vec<_> = seen.iter().filter(|(_, settings)| settings.len() > 1).collect();
    assert!(several.is_empty(), "settings that differ between figures: {several:#?}");
}
